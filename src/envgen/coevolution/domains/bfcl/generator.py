"""The functions of a task and what its requests ask for, drawn from the spec."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from envgen.function_calls.checker import Expected

from ...tasks import SpecError
from ..random_choice import choose, shuffle
from .functions import ID, IDS, TYPES, Function, Parameter, sample_parameters, sample_value
from .spec import BfclSpec

Name = tuple[str, str]  # action and thing
RETURNS_ID = ("create", "find")  # the actions whose functions return an id in tasks of several turns
MAX_DRAWS = 1000  # of values for calls that must differ


@dataclass(frozen=True)
class Step:
    """A call that a request asks for. `values` are those that the request gives."""

    function: Function
    values: dict[str, Any]
    id: int | None = None  # that an earlier call returned

    @property
    def arguments(self) -> dict[str, Any]:
        return self.values if self.id is None else {ID.name: self.id, **self.values}

    @property
    def expected(self) -> Expected:
        """The acceptable values in the form of BFCL's data: the empty text stands for an argument left out."""
        arguments = self.arguments
        return {
            self.function.name: {
                each.name: [_as_options(arguments[each.name])]
                if each.name in arguments
                else [_as_options(each.default), ""]
                for each in self.function.parameters
            }
        }


def choose_steps(spec: BfclSpec, names: Sequence[Name], rng: Random) -> list[Step]:
    """The calls of one request. Those of the same function differ in a required value, whatever the others are."""
    count = 1
    if spec.category == "parallel_multiple":
        count = 2 + int(rng.random() * (spec.calls - 1))
    functions = [
        Function(action, thing, sample_parameters(spec.types, rng)) for action, thing in shuffle(names, rng)[:count]
    ]
    repeated = [choose(functions, rng) for _ in range(spec.calls - count)]
    return _choose_values(shuffle([*functions, *repeated], rng), rng)


def choose_linked_steps(spec: BfclSpec, names: Sequence[Name], rng: Random) -> tuple[list[Step], list[int | None]]:
    """Calls that return ids and calls that use them, and the id that each returns."""
    makers, users = _split(names, True), _split(names, False)
    first, second, *_ = shuffle([thing for thing in makers if thing in users], rng)
    used = first
    chosen = [(choose(makers[first], rng), first)]
    if spec.calls > 2 and rng.random() < 0.5:
        chosen.append((choose(makers[second], rng), second))
        used = choose([first, second], rng)
    while len(chosen) < spec.calls:
        chosen.append((choose(users[used], rng), used))
    functions: dict[Name, Function] = {}
    for action, thing in chosen:
        if (action, thing) not in functions:
            parameters = sample_parameters(spec.types, rng)
            returns_id = action in RETURNS_ID
            functions[action, thing] = Function(
                action, thing, parameters if returns_id else (ID, *parameters), returns_id
            )
    ids = shuffle(IDS, rng)
    returned = [ids.pop() if action in RETURNS_ID else None for action, _ in chosen]
    id_of = {thing: number for (_, thing), number in zip(chosen, returned, strict=True) if number is not None}
    steps = _choose_values([functions[name] for name in chosen], rng)
    return [
        step if step.function.returns_id else Step(step.function, step.values, id_of[step.function.thing])
        for step in steps
    ], returned


def _split(names: Sequence[Name], returns_id: bool) -> dict[str, list[str]]:
    """The actions of each thing whose functions return an id, or do not."""
    actions: dict[str, list[str]] = {}
    for action, thing in names:
        if (action in RETURNS_ID) == returns_id:
            actions.setdefault(thing, []).append(action)
    return actions


def _choose_values(functions: Sequence[Function], rng: Random) -> list[Step]:
    """Values of all required and some optional parameters."""
    steps: list[Step] = []
    for function in functions:
        parameters = [each for each in function.parameters if each is not ID]
        others = [_required_values(step.function, step.values) for step in steps if step.function is function]
        for _ in range(MAX_DRAWS):
            given = [each for each in parameters if each.is_required or rng.random() < 0.5]
            values = {each.name: sample_value(each, rng) for each in given}
            if _required_values(function, values) not in others:
                break
        else:
            raise SpecError("there are too few values for different calls of a function")
        steps.append(Step(function, values))
    return steps


def _required_values(function: Function, values: Mapping[str, Any]) -> list[Any]:
    return [values.get(each.name) for each in function.parameters if each.is_required]


def choose_distractors(spec: BfclSpec, steps: Sequence[Step], names: Sequence[Name], rng: Random) -> list[Function]:
    """Functions that are not needed. The first has the action or the thing, and the parameters, of a needed one."""
    used = {(step.function.action, step.function.thing) for step in steps}
    others = [name for name in shuffle(names, rng) if name not in used]
    needed = steps[0].function
    near = next(name for name in others if needed.action == name[0] or needed.thing == name[1])
    others = [near, *(name for name in others if name != near)][: spec.distractors]
    has_ids = spec.category == "multi_turn"
    return [
        Function(
            action, thing, needed.parameters if k == 0 else _random_parameters(len(spec.parameters), rng),
            has_ids and action in RETURNS_ID,
        )
        for k, (action, thing) in enumerate(others)
    ]  # fmt: skip


def _random_parameters(max_count: int, rng: Random) -> tuple[Parameter, ...]:
    count = 1 + int(rng.random() * max_count)
    return sample_parameters([(choose(TYPES, rng), k == 0 or rng.random() < 0.5) for k in range(count)], rng)


def leave_out_value(step: Step, rng: Random) -> Step:
    """Without the value of a required parameter."""
    missing = choose([each.name for each in step.function.parameters if each.is_required], rng)
    return Step(step.function, {name: value for name, value in step.values.items() if name != missing})


def split_requests(steps: Sequence[Step], rng: Random) -> list[list[Step]]:
    """The steps of each of several requests."""
    requests = [[steps[0]]]
    for step in steps[1:]:
        if rng.random() < 0.5:
            requests.append([])
        requests[-1].append(step)
    return requests


def _as_options(value: Any) -> Any:
    """A value in which the fields of an object have lists of acceptable values."""
    return {name: [field] for name, field in value.items()} if isinstance(value, dict) else value
