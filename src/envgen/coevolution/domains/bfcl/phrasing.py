"""Requests in plain English.

In the style `plain` each action is followed by its values in the order of the signature, `reworded` names actions in
other words, `shuffled` gives the values in random order, and `labels` names the parameters.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ..random_choice import shuffle
from .functions import ACTIONS, Attribute, Function, Parameter
from .spec import Style

RequestedCall = tuple[Function, dict[str, Any]]  # what a request asks for: a function and the values that it gives


def phrase_request(style: Style, requested: Sequence[RequestedCall], rng: Random) -> str:
    match style:
        case "labels":
            return "; ".join(_label(*each) for each in requested)
        case "reworded":
            return f"please {', and also '.join(_phrase(style, *each, rng) for each in requested)}."
        case _:
            return f"{', then '.join(_phrase(style, *each, rng) for each in requested)}."


def _phrase(style: Style, function: Function, values: Mapping[str, Any], rng: Random) -> str:
    action = ACTIONS[function.action]
    given = [each for each in function.parameters if each.name in values]
    if style == "shuffled":
        given = shuffle(given, rng)
    beginning = (action.reworded if style == "reworded" else action.plain).format(function.thing)
    return " ".join([beginning, *(_phrase_value(each.attribute, values[each.name]) for each in given)])


def _phrase_value(attribute: Attribute, value: Any) -> str:
    if attribute.type == "boolean":
        yes, _, no = attribute.phrase.partition("|")
        return yes if value else no
    if attribute.type == "object":
        return attribute.phrase.format_map(value)
    return attribute.phrase.format(_enumerate(value) if attribute.type == "array" else value)


def _enumerate(values: Sequence[Any]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last


def _label(function: Function, values: Mapping[str, Any]) -> str:
    given = [_label_value(each, values[each.name]) for each in function.parameters if each.name in values]
    return f"{function.action} {function.thing}{': ' if given else ''}{', '.join(given)}"


def _label_value(parameter: Parameter, value: Any) -> str:
    match value:
        case bool():
            text = "yes" if value else "no"
        case list():
            text = " and ".join(map(str, value))
        case dict():
            text = " ".join(f"{name} {field}" for name, field in value.items())
        case _:
            text = str(value)
    return f"{parameter.name} {text}"
