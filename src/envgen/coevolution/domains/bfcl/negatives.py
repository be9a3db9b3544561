"""Replies that look right and are wrong, each for a reason that does not depend on the checker."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from envgen.function_calls.calls import Call, write_call

from .episode import BfclAnswerKey
from .functions import ID, Function, Parameter, other_values

UNLISTED = "open_door"  # no function has this name


def format_calls(calls: Sequence[Call]) -> str:
    return f"[{', '.join(map(write_call, calls))}]"


def wrong_replies_without_calls(functions: Sequence[Function], requested: Sequence[Call]) -> Iterator[str]:
    """Wrong replies where no call is right. `requested` are the calls that the request asks for, none of which can be
    made."""
    yield from ("", " ", "none", "None of the functions fits.", "[None]", "[[]]", "[] []")
    yield format_calls([Call(UNLISTED, {})])
    yield format_calls(requested)
    for function in functions:
        yield format_calls([_example_call(function)])
        yield format_calls([Call(function.name, {})])
        yield format_calls([call._replace(name=function.name) for call in requested])
        for call in requested:  # with invented values
            invented = {**_example_call(function).arguments, **call.arguments}
            names = [each.name for each in function.parameters]
            yield format_calls([Call(function.name, {name: invented[name] for name in names if name in invented})])


def wrong_replies_to(functions: Sequence[Function], calls: Sequence[Call]) -> Iterator[str]:
    """Wrong replies where `calls` are right."""
    yield from _malformed(calls)
    yield from _missing_or_extra_calls(functions, calls)
    for k, call in enumerate(calls):
        function = next(function for function in functions if function.name == call.name)
        for changed in _changed_calls(functions, function, call):
            yield format_calls([*calls[:k], changed, *calls[k + 1 :]])
    for (k, first), (m, second) in combinations(enumerate(calls), 2):
        changed = list(calls)
        changed[k], changed[m] = _exchange_value(first, second)
        if changed != list(calls):
            yield format_calls(changed)


def oracle_turns(key: BfclAnswerKey) -> list[str]:
    """One call per turn, and `[]` after the last call of each request."""
    calls = iter(key.calls)
    return [
        turn
        for count, _ in key.requests
        for turn in (*(format_calls([next(calls)]) for _ in range(count)), format_calls([]))
    ]


def wrong_episodes(key: BfclAnswerKey) -> Iterator[str]:
    """Wrong turns of a task of several turns."""
    turns = oracle_turns(key)
    calls = iter(key.calls)
    yield from ("", "[]", "\n".join(["I will do that.", *turns]), " ".join(turns), format_calls(key.calls[::-1]))
    yield "\n".join(["[]", *turns])
    for k, turn in enumerate(turns):
        before, after = turns[:k], turns[k + 1 :]
        yield "\n".join([*before, *after])
        yield "\n".join([*before, turn[:-1] + ", " * (len(turn) > 2) + f"{UNLISTED}()]", *after])
        if turn == format_calls([]):
            yield "\n".join([*before, "done", *after])
            continue
        call = next(calls)
        yield "\n".join([*before, turn, turn, *after])
        function = next(function for function in key.functions if function.name == call.name)
        wrong = list(_changed_calls(key.functions, function, call))
        if ID.name in call.arguments:  # the id that another call returned
            ids = [int(result.removeprefix("id ")) for result in key.results if result.startswith("id ")]
            others = (each for each in ids if each != call.arguments[ID.name])
            wrong += [call._replace(arguments={**call.arguments, ID.name: each}) for each in others]
        yield from ("\n".join([*before, format_calls([changed]), *after]) for changed in wrong)


def _malformed(calls: Sequence[Call]) -> Iterator[str]:
    text, call = format_calls(calls), calls[0]
    yield from ("", "[]", "none", f"Sure: {text}", f"{text} is the answer.", text[:-2], f"{text}\n{text}")
    yield f"[{', '.join(call.name for call in calls)}]"
    yield text.replace("=", ": ")
    positional = Call(call.name, {}, tuple(call.arguments.values()))
    yield format_calls([positional, *calls[1:]])
    yield format_calls([call._replace(positional=(7,)), *calls[1:]])
    name, value = next(iter(call.arguments.items()))
    yield text.replace(f"{name}={value!r}", f"{name}={value!r}, {name}={value!r}", 1)


def _missing_or_extra_calls(functions: Sequence[Function], calls: Sequence[Call]) -> Iterator[str]:
    yield format_calls([*calls, calls[0]])
    yield from (format_calls([*calls, _example_call(function)]) for function in functions)
    yield format_calls([*calls, Call(UNLISTED, {})])
    yield format_calls(calls[1:])
    if len(calls) > 1:
        yield format_calls([calls[0]] * len(calls))


def _example_call(function: Function) -> Call:
    """A call with the first value of each required parameter."""
    return Call(function.name, {each.name: _first_value(each) for each in function.parameters if each.is_required})


def _first_value(parameter: Parameter) -> Any:
    attribute = parameter.attribute
    if attribute.type == "object":
        return {name: values[0] for name, values in attribute.fields.items()}
    return [attribute.values[0]] if attribute.type == "array" else (parameter.options or attribute.values)[0]


def _changed_calls(functions: Sequence[Function], function: Function, call: Call) -> Iterator[Call]:
    """Calls that differ from the right one in their function, or in one argument or two."""
    arguments = call.arguments
    yield from (call._replace(name=each.name) for each in functions if each is not function)
    yield from (call._replace(name=name) for name in (UNLISTED, function.thing, function.name.upper() + "_"))
    yield call._replace(arguments={**arguments, "note": "golf"})
    for parameter in function.parameters:
        if parameter.name not in arguments:
            yield call._replace(arguments={**arguments, parameter.name: _explicit_value(parameter)})
            continue
        value = arguments[parameter.name]
        yield call._replace(arguments={name: each for name, each in arguments.items() if name != parameter.name})
        for wrong in (*_wrong_types(parameter, value), *other_values(parameter, value), "", None):
            yield call._replace(arguments={**arguments, parameter.name: wrong})
    for first, second in combinations(arguments, 2):
        if arguments[first] != arguments[second]:
            yield call._replace(arguments={**arguments, first: arguments[second], second: arguments[first]})


def _explicit_value(parameter: Parameter) -> Any:
    """A value for a parameter whose default is expected."""
    return next(other_values(parameter, parameter.default))


def _wrong_types(parameter: Parameter, value: Any) -> Iterator[Any]:
    match value:
        case bool():
            yield from (str(value), int(value), [value])
        case int():
            yield from (str(value), float(value), [value])
        case float():
            yield from (str(value), [value])
        case str():
            yield from (7, [value], {"value": value})
        case list():
            yield from (", ".join(map(str, value)), value[0], tuple(value), [value])
            yield [str(each) if isinstance(each, int) else 7 for each in value]
        case dict():
            yield from (str(value), list(value.values()), [value])
            yield {name: str(each) if isinstance(each, int) else 7 for name, each in value.items()}


def _exchange_value(first: Call, second: Call) -> tuple[Call, Call]:
    """Two calls of a function with the values of one parameter exchanged, if they then differ from both calls."""
    names = [name for name in first.arguments if first.arguments[name] != second.arguments.get(name)]
    shared = [name for name in names if name in second.arguments]
    if first.name != second.name or not shared or len(names) < 2:
        return first, second
    name = shared[0]
    return (
        first._replace(arguments={**first.arguments, name: second.arguments[name]}),
        second._replace(arguments={**second.arguments, name: first.arguments[name]}),
    )
