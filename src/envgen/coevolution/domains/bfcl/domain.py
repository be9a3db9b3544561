"""The domain `bfcl`: function calling in the manner of the Berkeley Function Calling Leaderboard.

Each task lists functions that are made for it, and a request. A reply is a list of calls in Python syntax. It is read
and checked by the code of the benchmark, and nothing is executed. `[]` is right where no function fits or a required
value is missing. The functions of held-out tasks never occur in training tasks.

`bfcl` lists signatures, which small models learn quickly; `bfcl:json` lists the functions in the form of BFCL's data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, get_args

import numpy as np

from envgen.function_calls.calls import Call, CallError, parse_calls
from envgen.function_calls.checker import Expected, check_calls, normalize

from ...tasks import HELD_OUT_SEED, CheckResult, Domain, SpecError, Task
from .functions import TYPES, Function, Parameter, choose, function_names, sample_parameters, sample_value, shuffle
from .negatives import format_calls, wrong_replies_to, wrong_replies_without_calls
from .phrasing import Wanted, phrase_request
from .spec import (
    CATEGORIES_WITHOUT_CALLS,
    MAX_CALLS,
    MAX_DISTRACTORS,
    MAX_PARAMETERS,
    NUM_VARIATIONS,
    STYLES,
    BfclSpec,
    HeldOutSpec,
    check_spec,
    sample_easy_spec,
    sample_spec,
)

Listing = Literal["signatures", "json"]
NAMES = {held_out: function_names(held_out) for held_out in (False, True)}
MAX_DRAWS = 1000  # of values for calls that must differ


@dataclass(frozen=True)
class BfclAnswerKey:
    """The listed functions, the calls that the request asks for, and those that are right, which may be none."""

    functions: tuple[Function, ...]
    wanted: tuple[Call, ...]
    calls: tuple[Call, ...]
    expected: tuple[Expected, ...]


class BfclDomain(Domain):
    Spec = BfclSpec
    instructions = (
        "You answer requests by calling functions. Write the calls as a list in Python syntax, with all arguments by "
        "name, and nothing else: [create_note(topic='golf', pages=3), delete_menu(private=True)]\n"
        "Make one call for each thing that the request asks for. Leave out optional parameters about which it says "
        "nothing. If no function fits, or the request does not give a required value, write []."
    )
    spec_prompt = (
        "A task is a request that is answered by calls of functions. Its form is\n"
        '{"category":"multiple","calls":1,"distractors":2,"parameters":["string","enum?"],"style":"plain",'
        '"variation":17}\n'
        "category, with the calls and distractors that it can have:\n"
        "- simple: one function and one call; calls 1, distractors 0\n"
        f"- multiple: one of several functions is called; calls 1, distractors 1 to {MAX_DISTRACTORS}\n"
        f"- parallel: several calls of one function; calls 2 to {MAX_CALLS}, distractors 0\n"
        f"- parallel_multiple: calls of different functions; calls 2 to {MAX_CALLS}, distractors 0 to "
        f"{MAX_DISTRACTORS}\n"
        f"- irrelevance: no function fits; calls 1, distractors 1 to {MAX_DISTRACTORS}\n"
        "- missing_value: the request lacks a required value, so nothing can be called; calls 1, distractors 0 to "
        f"{MAX_DISTRACTORS}\n"
        "distractors: functions that are listed but not needed.\n"
        f"parameters: 1 to {MAX_PARAMETERS} types of the parameters of a function, of {', '.join(TYPES)}. One with a "
        "question mark is optional; at least one is required. With 3 calls, at most 2.\n"
        f"style: the wording of the request, one of {', '.join(STYLES)}.\n"
        f"variation: 0 to {NUM_VARIATIONS - 1}; a different number selects other functions and values."
    )

    def __init__(self, listing: str = "signatures"):
        if listing not in get_args(Listing):
            raise ValueError(f"bfcl lists functions as {' or '.join(get_args(Listing))}, not {listing!r}")
        self.listing = listing
        self.name = "bfcl" if listing == "signatures" else f"bfcl:{listing}"  # pyright: ignore

    def make_task(self, spec: BfclSpec) -> Task:
        check_spec(spec)
        rng = Random(spec.text)
        functions, wanted = _choose_functions(spec, rng)
        wanted = [(function, _choose_values(function, rng)) for function in wanted]
        wanted = _make_distinct(wanted, rng)
        distractors = _choose_distractors(spec, functions, rng)
        if spec.category == "missing_value":
            wanted = [_leave_out(*each, rng) for each in wanted]
        listed = tuple(shuffle(distractors if spec.category == "irrelevance" else [*functions, *distractors], rng))
        calls = tuple(Call(function.name, values) for function, values in wanted)
        right = () if spec.category in CATEGORIES_WITHOUT_CALLS else calls
        expected = tuple(_acceptable(*each) for each in wanted) if right else ()
        lines = (function.json if self.listing == "json" else function.signature for function in listed)
        request = phrase_request(spec.style, wanted, rng)
        prompt = "\n".join(["functions:", *lines, f"request: {request}"])
        return Task(spec, prompt, BfclAnswerKey(listed, calls, right, expected))

    def oracle_reply(self, task: Task) -> str:
        return format_calls(task.answer_key.calls)

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        key: BfclAnswerKey = task.answer_key
        if key.calls:
            return (task.prompt, *wrong_replies_to(key.functions, key.calls))
        return (task.prompt, *wrong_replies_without_calls(key.functions, key.wanted))

    def check(self, task: Task, reply: str) -> CheckResult:
        """The rules of BFCL, but no call has to be written as `[]`, and values by position or left empty are wrong."""
        key: BfclAnswerKey = task.answer_key
        try:
            calls = parse_calls(reply)
        except CallError as error:
            return CheckResult(0.0, False, str(error))
        if not calls and not ("[" in reply and "]" in reply):  # which the benchmark adds
            return CheckResult(0.0, False, "the reply is empty; write [] to make no call")
        for call in calls:
            if call.positional:
                return CheckResult(0.0, True, "an argument is not given by name")
            if any(_is_empty(value) for value in call.arguments.values()):
                return CheckResult(0.0, True, "an argument is empty")  # BFCL takes it for one that is left out
        mismatch = check_calls([each.schema for each in key.functions], calls, key.expected, "python")
        if mismatch is not None:
            return CheckResult(0.0, True, f"{mismatch.error}: {mismatch.details}")
        return CheckResult(1.0, True)

    def sample(self, rng: np.random.Generator) -> BfclSpec:
        return sample_spec(rng)

    def sample_easy(self, rng: np.random.Generator) -> BfclSpec:
        return sample_easy_spec(rng)

    def held_out_tasks(self, count: int) -> tuple[Task, ...]:
        """Tasks with functions and variations that no other task has."""
        rng, specs = np.random.default_rng(HELD_OUT_SEED), {}
        while len(specs) < count:
            fields = self.sample(rng).model_dump()
            spec = HeldOutSpec(**{**fields, "variation": fields["variation"] + NUM_VARIATIONS})
            specs.setdefault(spec.key, spec)
        return tuple(self.make_task(spec) for spec in specs.values())

    def features(self, spec: BfclSpec) -> Mapping[str, str]:
        types = {kind for kind, _ in spec.types}
        return {
            "category": spec.category,
            "parameters": str(len(spec.parameters)),
            "optional": "yes" if any(not is_required for _, is_required in spec.types) else "no",
            "nested": " and ".join(kind for kind in ("array", "object") if kind in types) or "none",
            "distractors": str(spec.distractors),
            "style": spec.style,
        }

    def difficulty(self, spec: BfclSpec) -> float:
        """Each parameter of each requested call counts 1, an array or object 2, and each distractor 1/2."""
        per_call = sum(2 if kind in ("array", "object") else 1 for kind, _ in spec.types)
        return spec.calls * per_call + spec.distractors / 2


def _choose_functions(spec: BfclSpec, rng: Random) -> tuple[list[Function], list[Function]]:
    """Different functions, and the one of each call that the request asks for."""
    count = 1
    if spec.category == "parallel_multiple":
        count = 2 + int(rng.random() * (spec.calls - 1))
    names = shuffle(NAMES[isinstance(spec, HeldOutSpec)], rng)[:count]
    functions = [Function(action, thing, sample_parameters(spec.types, rng)) for action, thing in names]
    repeated = [choose(functions, rng) for _ in range(spec.calls - count)]
    return functions, shuffle([*functions, *repeated], rng)


def _choose_values(function: Function, rng: Random) -> dict[str, Any]:
    """Values of all required and some optional parameters."""
    given = [each for each in function.parameters if each.is_required or rng.random() < 0.5]
    return {each.name: sample_value(each, rng) for each in given}


def _make_distinct(wanted: Sequence[Wanted], rng: Random) -> list[Wanted]:
    """Calls of the same function differ in a required value, whatever the optional ones are."""
    distinct: list[Wanted] = []
    for function, values in wanted:
        for _ in range(MAX_DRAWS):
            if all(_required(function, values) != _required(*other) for other in distinct if other[0] is function):
                break
            values = _choose_values(function, rng)
        else:
            raise SpecError("there are too few values for different calls of a function")
        distinct.append((function, values))
    return distinct


def _required(function: Function, values: Mapping[str, Any]) -> list[Any]:
    return [values[each.name] for each in function.parameters if each.is_required]


def _choose_distractors(spec: BfclSpec, functions: Sequence[Function], rng: Random) -> list[Function]:
    """Functions that are not needed. The first has the action or the thing, and the parameters, of a needed one."""
    used = {(function.action, function.thing) for function in functions}
    others = [name for name in shuffle(NAMES[isinstance(spec, HeldOutSpec)], rng) if name not in used]
    first = functions[0]
    near = next(name for name in others if first.action == name[0] or first.thing == name[1])
    others = [near, *(name for name in others if name != near)][: spec.distractors]
    return [
        Function(action, thing, first.parameters if k == 0 else _random_parameters(len(spec.parameters), rng))
        for k, (action, thing) in enumerate(others)
    ]


def _random_parameters(most: int, rng: Random) -> tuple[Parameter, ...]:
    count = 1 + int(rng.random() * most)
    return sample_parameters([(choose(TYPES, rng), k == 0 or rng.random() < 0.5) for k in range(count)], rng)


def _leave_out(function: Function, values: Mapping[str, Any], rng: Random) -> Wanted:
    """Without the value of a required parameter."""
    missing = choose([each.name for each in function.parameters if each.is_required], rng)
    return function, {name: value for name, value in values.items() if name != missing}


def _acceptable(function: Function, values: Mapping[str, Any]) -> Expected:
    """The acceptable values of a call in the form of BFCL's data: the empty text stands for an argument left out."""
    return {
        function.name: {
            each.name: [_as_options(values[each.name])] if each.name in values else [_as_options(each.default), ""]
            for each in function.parameters
        }
    }


def _as_options(value: Any) -> Any:
    """A value in which the fields of an object have lists of acceptable values."""
    return {name: [field] for name, field in value.items()} if isinstance(value, dict) else value


def _is_empty(value: Any) -> bool:
    return value == [] or (isinstance(value, str) and not normalize(value))
