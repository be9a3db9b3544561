"""The domain `tools`: a request in plain English, answered by a program of tool calls.

A reply scores 1.0 if its execution matches the request: the same calls with the same arguments and results, in any
order that produces these, and the same final state of the apps. Anything else scores 0. Every reply is executed from
two hidden initial states that fit the request equally well and give different results, so a guessed value is wrong in
at least one of them, while a value that follows from the request is as good as a reference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, get_args

import numpy as np

from ...tasks import CheckResult, Domain, Task
from ..random_choice import choose, shuffle
from .apps import TOOLS, AppState
from .calls import Call, CallError, Trace, execute, format_calls, parse_calls, wrong_programs
from .phrasing import phrase_request
from .spec import (
    MAX_DISTRACTORS,
    MAX_STEPS,
    NUM_VARIATIONS,
    ToolsSpec,
    parse_steps,
    sample_calls,
    sample_linked_pair,
    sample_steps,
)

STYLES: tuple[Any, ...] = get_args(ToolsSpec.model_fields["style"].annotation)
MAX_STATES = 20  # initial states tried to find one in which all results differ


@dataclass(frozen=True)
class Execution:
    """What the correct program does from one hidden initial state."""

    seed: int
    trace: Trace
    sorted_trace: Trace  # for comparison with programs in another order
    state: AppState


@dataclass(frozen=True)
class ToolsAnswerKey:
    """The correct program and its executions."""

    calls: tuple[Call, ...]
    listed_tools: tuple[str, ...]
    executions: tuple[Execution, Execution]


class ToolsDomain(Domain):
    name = "tools"
    Spec = ToolsSpec
    instructions = (
        "Answer with the calls that do what the request says, one for each step, and with nothing else. For example:\n"
        "price(item=tea); pay(person=ann, amount=$1); balance()\n"
        "$1 is the result of your first call: you do not see results, so refer to them. Name every argument; "
        "in a list of tools, `to: day` is an argument `to` of type day, and `day` an argument `day` of type day."
    )
    spec_prompt = (
        "A task is a request that is answered by 1 to 5 calls of simulated tools. Its form is\n"
        '{"steps":["price","pay $1","balance"],"distractors":2,"style":"plain","variation":17}\n'
        "steps: the tools in their order. A step may refer to results of earlier steps: with $1, its first argument of "
        "that type takes the result of step 1. The variation selects the words and numbers of the other arguments. "
        "A step without other arguments must not be repeated.\n"
        f"distractors: 0 to {MAX_DISTRACTORS}, the number of listed tools that the task does not need.\n"
        f"style: the wording of the request, one of {', '.join(STYLES)}.\n"
        f"variation: 0 to {NUM_VARIATIONS - 1}; a different number selects different words and numbers.\n"
        "The tools, with the types of their arguments and results:\n"
        + "\n".join(tool.signature for tool in TOOLS.values())
        + '\nA harder example: {"steps":["guest","wish $1","stock $2","price $2","pay $1 $4"],"distractors":6,'
        '"style":"backwards","variation":803}'
    )

    def make_task(self, spec: ToolsSpec) -> Task:
        rng = Random(spec.text)  # only random() is used: its stream is the same in every version of Python
        calls = sample_calls(parse_steps(spec.steps), rng)
        needed = list(dict.fromkeys(call.tool for call in calls))
        others = shuffle([name for name in TOOLS if name not in needed], rng)
        listed_tools = tuple(shuffle(needed + others[: spec.distractors], rng))
        signatures = "\n".join(TOOLS[name].signature for name in listed_tools)
        prompt = f"tools:\n{signatures}\nrequest: {phrase_request(spec.style, calls)}"
        return Task(spec, prompt, ToolsAnswerKey(calls, listed_tools, _execute_twice(calls, rng)))

    def oracle_reply(self, task: Task) -> str:
        return format_calls(task.answer_key.calls)

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        answer_key: ToolsAnswerKey = task.answer_key
        first, second = answer_key.executions
        return (task.prompt, *wrong_programs(answer_key.calls, answer_key.listed_tools, first.trace, second.trace))

    def check(self, task: Task, reply: str) -> CheckResult:
        answer_key: ToolsAnswerKey = task.answer_key
        try:
            calls = parse_calls(reply, answer_key.listed_tools)
        except CallError as error:
            return CheckResult(0.0, False, str(error))
        if len(calls) != len(answer_key.calls):
            return CheckResult(0.0, True, f"the reply has {len(calls)} calls instead of {len(answer_key.calls)}")
        reasons = ("the calls do not match the request", "a value was guessed instead of taken from a result")
        for execution, reason in zip(answer_key.executions, reasons, strict=True):
            trace, state = execute(calls, execution.seed)
            if state != execution.state or sorted(trace) != execution.sorted_trace:
                return CheckResult(0.0, True, reason)
        return CheckResult(1.0, True)

    def sample(self, rng: np.random.Generator) -> ToolsSpec:
        return _make_spec(sample_steps(1 + int(rng.integers(MAX_STEPS)), rng), MAX_DISTRACTORS, rng)

    def sample_easy(self, rng: np.random.Generator) -> ToolsSpec:
        """One step, two random steps, or two linked steps, with at most two distractors."""
        num_steps = int(rng.integers(3))
        return _make_spec(sample_steps(num_steps, rng) if num_steps else sample_linked_pair(rng), 2, rng)

    def features(self, spec: ToolsSpec) -> Mapping[str, str]:
        """`app` is the app of the majority of the steps, or "mixed"."""
        apps = [step.tool.app for step in parse_steps(spec.steps)]
        num_links = _count_links(spec)
        return {
            "steps": str(len(spec.steps)),
            "links": str(num_links) if num_links < 3 else "3 or more",
            "distractors": ("none", "few", "some", "many")[-(-spec.distractors // 2)],
            "style": spec.style,
            "app": next((app for app in apps if 2 * apps.count(app) > len(apps)), "mixed"),
        }

    def difficulty(self, spec: ToolsSpec) -> float:
        """Each step and each reference counts 1; all distractors together count at most 1."""
        return len(spec.steps) + _count_links(spec) + spec.distractors / MAX_DISTRACTORS


def _execute_twice(calls: Sequence[Call], rng: Random) -> tuple[Execution, Execution]:
    """Executions from two initial states whose results differ as much as the calls allow.

    Some results cannot differ: what a program has just written is read back from any state.
    """
    first = second = _execute_from_random_state(calls, rng)
    fewest = len(calls) + 1
    for _ in range(MAX_STATES):
        candidate = _execute_from_random_state(calls, rng)
        if (num_equal := _count_equal_results(first.trace, candidate.trace)) < fewest:
            second, fewest = candidate, num_equal
        if not fewest:
            break
    return first, second


def _execute_from_random_state(calls: Sequence[Call], rng: Random) -> Execution:
    seed = int(rng.random() * 2**32)
    trace, state = execute(calls, seed)
    return Execution(seed, trace, sorted(trace), state)


def _count_equal_results(first: Trace, second: Trace) -> int:
    """How many results are equal in both traces, or equal in both to an earlier result of their type."""
    types = [TOOLS[tool].result_type for tool, _, _ in first]
    results = [
        (result_type, call[2], other[2])
        for result_type, call, other in zip(types, first, second, strict=True)
        if result_type
    ]
    return len(results) - len({result for result in results if result[1] != result[2]})


def _make_spec(steps: list[str], max_distractors: int, rng: np.random.Generator) -> ToolsSpec:
    return ToolsSpec(
        steps=tuple(steps),
        distractors=int(rng.integers(max_distractors + 1)),
        style=choose(STYLES, rng),
        variation=int(rng.integers(NUM_VARIATIONS)),
    )


def _count_links(spec: ToolsSpec) -> int:
    return sum(step.count("$") for step in spec.steps)
