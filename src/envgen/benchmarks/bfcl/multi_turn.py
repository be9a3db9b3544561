"""The multi-turn categories: in every turn the model calls functions of simulated services until it replies in words.

After a turn, the services must be in the same state as after the expected calls, and the results of the expected calls
must be among the results that the model has obtained so far. An episode ends at its first wrong turn, because all
turns must be right.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envgen.designers.chat.protocol import Message, Reply
from envgen.function_calls.calls import Call, CallError, parse_calls, parse_native, write_call

from ..benchmark import NO_TEXT, Episode, Prompt, Verdict
from . import prompts
from .data import gold_turns, multi_turn_functions
from .process import Worker, WorkerError

MAX_STEPS = 20  # replies with calls in one turn; one more and the item is wrong, as in the official harness


def multi_turn_episode(package: Path, entry: Mapping[str, Any], is_native: bool) -> Episode:
    functions, added = multi_turn_functions(package, dict(entry))
    gold = gold_turns(
        dict(entry), [*functions, *(function for new_functions in added.values() for function in new_functions)]
    )
    worker = Worker(entry["involved_classes"], entry["initial_config"], "long_context" in entry["id"])
    turn = 0
    try:
        results: list[str] = []  # of all calls of the model so far
        messages: tuple[Message, ...] = ()
        for turn, question in enumerate(entry["question"]):
            if turn in added:
                functions = [*functions, *added[turn]]
                listing = "" if is_native else f"\n{prompts.list_functions(added[turn])}"
                question = [{"role": "user", "content": f"{prompts.NEW_FUNCTIONS}{listing}"}]
            tools, names = prompts.make_tools(functions) if is_native else ((), {})
            if turn == 0:
                system = None if is_native else prompts.system_message(functions, has_turns=True)
                messages = prompts.first_messages(question, system)
            else:
                messages = (*messages, *prompts.first_messages(question, None))
            num_calls = 0
            for step in range(MAX_STEPS + 1):
                reply = yield Prompt(messages, tools)
                try:
                    calls = parse_native(reply.tool_calls, names) if is_native else parse_calls(reply.text)
                except CallError:
                    calls = []
                if not calls:
                    messages = (*messages, Message(role="assistant", content=reply.text or NO_TEXT))
                    break
                if step == MAX_STEPS:
                    return _wrong("too many steps", turn, gold, f"more than {MAX_STEPS} replies with calls")
                obtained = worker.run("model", calls)
                results += obtained
                num_calls += len(calls)
                messages = (*messages, *_show_results(reply, calls, obtained, is_native))
            expected = worker.run("gold", gold[turn])
            if gold[turn]:
                if not num_calls:
                    return _wrong("no call", turn, gold, "the model called nothing")
                if differences := worker.differences():
                    return _wrong("wrong state", turn, gold, ", ".join(differences))
                if missing := _missing(expected, results):
                    return _wrong("missing result", turn, gold, missing[0][:200])
        return Verdict(1.0, counts={"turns": (len(gold), len(gold))})
    except WorkerError as error:
        return Verdict(0.0, "calls failed", str(error), {"turns": (turn, len(gold))})
    finally:
        worker.close()


def _wrong(error: str, turn: int, gold: Sequence[Any], details: str) -> Verdict:
    return Verdict(0.0, error, f"turn {turn + 1}: {details}", {"turns": (turn, len(gold))})


def _missing(expected: Sequence[str], results: Sequence[str]) -> list[str]:
    """The expected results that are not among those that were obtained, each as often as it is expected."""
    remaining, missing = list(results), []
    for result in expected:
        if result in remaining:
            remaining.remove(result)
        else:
            missing.append(result)
    return missing


def _show_results(reply: Reply, calls: Sequence[Call], results: Sequence[str], is_native: bool) -> tuple[Message, ...]:
    """The messages with the model's calls and their results."""
    shown = [
        result if len(result) <= prompts.RESULT_CHARS else f"{result[: prompts.RESULT_CHARS]}... (cut)"
        for result in results
    ]
    if is_native:
        tool_calls = tuple(
            call.model_copy(update={"id": call.id or f"call_{k}"})
            for k, call in enumerate(reply.tool_calls[: len(calls)])
        )
        return (
            Message(role="assistant", content=reply.text, tool_calls=tool_calls),
            *(
                Message(role="tool", content=result, tool_call_id=call.id)
                for call, result in zip(tool_calls, shown, strict=True)
            ),
        )
    lines = [f"{write_call(call)[:1000]} -> {result}" for call, result in zip(calls, shown, strict=True)]
    content = "Results of your calls:\n" + "\n".join(lines)
    return Message(role="assistant", content=reply.text or NO_TEXT), Message(role="user", content=content)
