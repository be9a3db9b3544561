"""The Berkeley Function Calling Leaderboard (BFCL): 17 categories of `bfcl-eval`, without web search and memory."""

from collections.abc import Mapping, Sequence
from typing import Any

from envgen.designers.chat.protocol import Reply
from envgen.function_calls import foreign
from envgen.function_calls.calls import (
    Call,
    CallError,
    Language,
    parse_calls,
    parse_native,
    write_call,
    write_json_call,
)
from envgen.function_calls.checker import Expected, check_calls

from ..benchmark import Benchmark, Episode, Item, Prompt, Verdict, text_reply
from . import prompts
from .data import (
    CATEGORIES,
    LIVE,
    MULTI_TURN,
    RELEVANCE,
    SINGLE_TURN,
    describe_functions,
    find_package,
    gold_turns,
    language_of,
    load_entries,
    multi_turn_functions,
)
from .multi_turn import multi_turn_episode

NO_CALL, DONE = text_reply("None of the functions fits."), text_reply("Done.")


class Bfcl(Benchmark):
    name = "bfcl"
    categories = CATEGORIES

    def __init__(self, calls: str = "prompt"):
        """`calls` is how the model calls functions: as text (`prompt`) or through its API (`native`)."""
        self.package, version = find_package()
        self.data_version = f"bfcl-eval {version}"
        self.is_native = calls == "native"
        self.averages = {"non_live": SINGLE_TURN, "live": LIVE, "hallucination": RELEVANCE, "multi_turn": MULTI_TURN}

    def items(self, category: str) -> Sequence[Item]:
        return [Item(entry["id"], category, entry) for entry in load_entries(self.package, category)]

    def episode(self, item: Item) -> Episode:
        if item.category in MULTI_TURN:
            return multi_turn_episode(self.package, item.data, self.is_native)
        return self._single_turn(item)

    def _single_turn(self, item: Item) -> Episode:
        entry, language = item.data, language_of(item.category)
        functions = describe_functions(entry["function"], language)
        tools, names = prompts.make_tools(functions) if self.is_native else ((), {})
        system = None if self.is_native else prompts.system_message(functions)
        reply = yield Prompt(prompts.first_messages(entry["question"][0], system), tools)
        return judge(item.category, entry, reply, names if self.is_native else None)

    def gold_replies(self, item: Item) -> Sequence[Reply]:
        entry, language = item.data, language_of(item.category)
        if item.category in MULTI_TURN:
            functions, added = multi_turn_functions(self.package, entry)
            every = [*functions, *(function for new_functions in added.values() for function in new_functions)]
            replies = [([self._write(calls, every)] if calls else [], DONE) for calls in gold_turns(entry, every)]
            return [reply for with_calls, done in replies for reply in (*with_calls, done)]
        functions = entry["function"]
        if item.category in RELEVANCE:
            is_relevant = "irrelevance" not in item.category
            return [self._write([Call(functions[0]["name"], {})], functions) if is_relevant else NO_CALL]
        calls = [gold_call(functions, expected, language) for expected in entry["ground_truth"]]
        return [self._write(calls, functions, language)]

    def _write(
        self, calls: Sequence[Call], functions: Sequence[Mapping[str, Any]], language: Language = "python"
    ) -> Reply:
        """A reply with these calls."""
        if not self.is_native:
            write = write_call if language == "python" else foreign.write_call
            return text_reply(f"[{', '.join(map(write, calls))}]")
        _, names = prompts.make_tools(functions)
        sent = {name: tool for tool, name in names.items()}
        tool_calls = tuple(write_json_call(call._replace(name=sent[call.name]), k) for k, call in enumerate(calls))
        return Reply(text="", model="gold", tool_calls=tool_calls)


def judge(category: str, entry: Mapping[str, Any], reply: Reply, names: dict[str, str] | None) -> Verdict:
    """The verdict on a reply to a single-turn item. `names` are those of the tools with native function calling."""
    calls, error = [], ""
    try:
        if names is None:
            calls = parse_calls(reply.text, language_of(category))
        else:
            calls = parse_native(reply.tool_calls, names)
    except CallError as problem:
        error = str(problem)
    if category in RELEVANCE:
        is_relevant = "irrelevance" not in category
        if bool(calls) == is_relevant:
            return Verdict(1.0)
        return Verdict(0.0, "no call" if is_relevant else "call of an irrelevant function", error)
    if error or not calls:
        return Verdict(0.0, "no call", error or "the reply has no call")
    mismatch = check_calls(entry["function"], calls, entry["ground_truth"], language_of(category))
    return Verdict(1.0) if mismatch is None else Verdict(0.0, mismatch.error, mismatch.details)


def gold_call(functions: Sequence[Mapping[str, Any]], expected: Expected, language: Language) -> Call:
    """A call with the first acceptable value of every argument that may not be left out."""
    ((name, acceptable),) = expected.items()
    schemas: Mapping[str, Any] = {}
    required: Sequence[str] = ()
    for function in functions:
        if function["name"] == name:
            schemas, required = function["parameters"]["properties"], function["parameters"].get("required", ())
    arguments = {}
    for parameter, values in acceptable.items():
        if parameter not in schemas or (parameter not in required and "" in values):
            continue
        schema = schemas[parameter]
        value = _gold_value(next((value for value in values if value != ""), "" if values else []))
        arguments[parameter] = _write_value(value, schema, language)
    return Call(name, arguments)


def _gold_value(value: Any) -> Any:
    """A value whose dictionaries hold values instead of lists of acceptable ones."""
    if isinstance(value, dict):
        return {
            key: (next(option for option in options if option != "") if isinstance(options, list) else options)
            for key, options in value.items()
            if not (isinstance(options, list) and ("" in options or not options))
        }
    if isinstance(value, list):
        return [_gold_value(element) if isinstance(element, dict) else element for element in value]
    return value


def _write_value(value: Any, schema: Mapping[str, Any], language: Language) -> Any:
    kind, element_kind = schema.get("type", "any"), schema.get("items", {}).get("type")
    if language == "java":
        source = foreign.write_java(value, kind, element_kind)
    elif language == "javascript":
        source = foreign.write_javascript(value, kind)
    else:
        return value
    return source[1:-1] if kind == "String" and source.startswith('"') else source
