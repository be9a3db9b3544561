"""Requests in plain words. No step is called by its tool's name, and every result is referred to by what it is.

How a style refers to the cost that an earlier step found:
- plain, polite, nested: "that cost", or "the second cost" after several;
- brief: "that" for what the step just before found, else as above;
- numbered: "the result of step 1";
- backwards, where the last step comes first: by a letter, "(the cost is x)".
Nested puts a step that only serves the next one inside it: "send the cost of tea to ann".
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .tools_apps import TOOLS
from .tools_calls import Call, Ref

ORDINALS = ("first", "second", "third", "fourth")
LETTERS = "xyzv"
FIND = "find "


class Words(NamedTuple):
    order: str  # what to do; tools that change nothing find something
    polite: str  # the same in other words
    noun: str = ""  # what its result is called


PHRASES = {
    "balance": Words("find the money in my account", "see how much i have in the bank", "money"),
    "owed": Words("find my debt to {person}", "see what i owe {person}", "debt"),
    "pay": Words("send {amount} to {person}", "let {person} have {amount}"),
    "save": Words("put {amount} aside", "keep {amount} for later"),
    "price": Words("find the cost of {item}", "see what {item} costs", "cost"),
    "stock": Words("find the supply of {item}", "see how much {item} is left", "supply"),
    "vendor": Words("find the seller of {item}", "see who sells {item}", "seller"),
    "buy": Words("raise the order of {item} by {count}", "increase my order of {item} by {count}", "delivery day"),
    "manager": Words("find the boss of {person}", "see who {person} works for", "boss"),
    "off": Words("find the free day of {person}", "see when {person} has no work", "free day"),
    "wish": Words("find the gift for {person}", "see what {person} would like to get", "gift"),
    "message": Words("tell {person} about {topic}", "inform {person} of {topic}"),
    "agenda": Words("find the plan for {day}", "see what happens on {day}", "plan"),
    "guest": Words("find the visitor on {day}", "see who comes on {day}", "visitor"),
    "meet": Words("see {person} on {day} about {topic}", "join {person} on {day} for {topic}"),
    "repeat": Words("do on {to} the same as on {day}", "make {to} just like {day}"),
    "read": Words("find the content of {file}", "see what {file} is about", "content"),
    "latest": Words("find the newest file of {person}", "see what {person} worked on last", "file"),
    "write": Words("put {topic} into {file}", "fill {file} with {topic}"),
    "print": Words("raise the paper copies of {file} by {count}", "increase the copies of {file} by {count}"),
}

Refer = Callable[[Ref], str]


def request(style: str, calls: Sequence[Call]) -> str:
    """What is asked for, in one of the styles."""
    return _STYLES[style](calls)


def _plain(calls: Sequence[Call]) -> str:
    return f"first {', then '.join(_order(call, _that(calls, k)) for k, call in enumerate(calls))}."


def _polite(calls: Sequence[Call]) -> str:
    said = (_said(PHRASES[call.tool].polite, call, _that(calls, k)) for k, call in enumerate(calls))
    return f"could you please {', and then '.join(said)}? thank you."


def _brief(calls: Sequence[Call]) -> str:
    def short(k: int) -> str:
        longer = _that(calls, k)
        order = _order(calls[k], lambda ref: "that" if ref.step == k - 1 else longer(ref))
        return order.removeprefix(FIND).removeprefix("the ")

    return "; ".join(map(short, range(len(calls))))


def _numbered(calls: Sequence[Call]) -> str:
    said = (_order(call, lambda ref: f"the result of step {ref.step + 1}") for call in calls)
    return " ".join(f"step {k}: {order}." for k, order in enumerate(said, 1))


def _nested(calls: Sequence[Call]) -> str:
    names = [call.tool for call in calls]
    used = [value.step for call in calls for value in call.arguments.values() if isinstance(value, Ref)]
    following = {k for k in range(len(calls)) if Ref(k - 1) in calls[k].arguments.values()}
    # Where there are two costs both stay outside, or "the first cost" could be either.
    inside = {
        k - 1
        for k in following
        if PHRASES[names[k - 1]].order.startswith(FIND) and names.count(names[k - 1]) == used.count(k - 1) == 1
    }

    def refer(k: int) -> Refer:
        that = _that(calls, k)
        return lambda ref: found(ref.step) if ref.step in inside else that(ref)

    def found(k: int) -> str:
        return _order(calls[k], refer(k)).removeprefix(FIND)

    said = (_order(call, refer(k)) for k, call in enumerate(calls) if k not in inside)
    return f"please {', then '.join(said)}."


def _backwards(calls: Sequence[Call]) -> str:
    used = {value.step for call in calls for value in call.arguments.values() if isinstance(value, Ref)}
    letters = dict(zip(sorted(used), LETTERS, strict=False))

    def told(k: int) -> str:
        result = f" (the {PHRASES[calls[k].tool].noun} is {letters[k]})" if k in letters else ""
        return _order(calls[k], lambda ref: letters[ref.step]) + result

    return f"at last {'; before that '.join(map(told, reversed(range(len(calls)))))}."


_STYLES = {
    "plain": _plain,
    "polite": _polite,
    "brief": _brief,
    "numbered": _numbered,
    "nested": _nested,
    "backwards": _backwards,
}


def _that(calls: Sequence[Call], at: int) -> Refer:
    """How step `at` refers to results of steps before it."""

    def refer(ref: Ref) -> str:
        name = calls[ref.step].tool
        alike = [k for k in range(at) if calls[k].tool == name]
        which = "that" if len(alike) == 1 else f"the {ORDINALS[alike.index(ref.step)]}"
        return f"{which} {PHRASES[name].noun}"

    return refer


def _order(call: Call, refer: Refer) -> str:
    return _said(PHRASES[call.tool].order, call, refer)


def _said(words: str, call: Call, refer: Refer) -> str:
    def slot(kind: str, value: Any) -> str:
        if isinstance(value, Ref):
            return refer(value)
        return f"the {value}" if kind == "file" else str(value)

    kinds = TOOLS[call.tool].parameters
    return words.format_map({name: slot(kinds[name], value) for name, value in call.arguments.items()})
