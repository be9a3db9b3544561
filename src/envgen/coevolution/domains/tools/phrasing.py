"""Requests in plain English. They never name a tool, and they refer to each result by its noun.

How a style refers to the cost that an earlier step returns:
- plain, polite, nested: "that cost", or "the second cost" if there are several;
- brief: "that" for the result of the previous step, otherwise as above;
- numbered: "the result of step 1";
- backwards, which puts the last step first: by a letter that an aside introduces, "(the cost is x)".
Nested moves a step whose result is used only by the next step into that step: "send the cost of tea to ann".
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .apps import TOOLS
from .calls import Call, Ref

ORDINALS = ("first", "second", "third", "fourth")
LETTERS = "xyzv"
FIND = "find "


class Phrasing(NamedTuple):
    """How requests describe a call of a tool. Parameter names in braces are replaced by the arguments."""

    imperative: str  # starts with "find" if the tool changes nothing
    polite: str  # the same in other words
    noun: str = ""  # what its result is called


PHRASINGS = {
    "balance": Phrasing("find the money in my account", "see how much i have in the bank", "money"),
    "owed": Phrasing("find my debt to {person}", "see what i owe {person}", "debt"),
    "pay": Phrasing("send {amount} to {person}", "let {person} have {amount}"),
    "save": Phrasing("put {amount} aside", "keep {amount} for later"),
    "price": Phrasing("find the cost of {item}", "see what {item} costs", "cost"),
    "stock": Phrasing("find the supply of {item}", "see how much {item} is left", "supply"),
    "vendor": Phrasing("find the seller of {item}", "see who sells {item}", "seller"),
    "buy": Phrasing("raise the order of {item} by {count}", "increase my order of {item} by {count}", "delivery day"),
    "manager": Phrasing("find the boss of {person}", "see who {person} works for", "boss"),
    "off": Phrasing("find the free day of {person}", "see when {person} has no work", "free day"),
    "wish": Phrasing("find the gift for {person}", "see what {person} would like to get", "gift"),
    "message": Phrasing("tell {person} about {topic}", "inform {person} of {topic}"),
    "agenda": Phrasing("find the plan for {day}", "see what happens on {day}", "plan"),
    "guest": Phrasing("find the visitor on {day}", "see who comes on {day}", "visitor"),
    "meet": Phrasing("see {person} on {day} about {topic}", "join {person} on {day} for {topic}"),
    "repeat": Phrasing("do on {to} the same as on {day}", "make {to} just like {day}"),
    "read": Phrasing("find the content of {file}", "see what {file} is about", "content"),
    "latest": Phrasing("find the newest file of {person}", "see what {person} worked on last", "file"),
    "write": Phrasing("put {topic} into {file}", "fill {file} with {topic}"),
    "print": Phrasing("raise the paper copies of {file} by {count}", "increase the copies of {file} by {count}"),
}

FormatRef = Callable[[Ref], str]


def phrase_request(style: str, calls: Sequence[Call]) -> str:
    """The request that a program answers, in one of the styles."""
    return _STYLES[style](calls)


def _plain(calls: Sequence[Call]) -> str:
    phrases = (_imperative(call, _by_noun(calls, step)) for step, call in enumerate(calls))
    return f"first {', then '.join(phrases)}."


def _polite(calls: Sequence[Call]) -> str:
    phrases = (_fill(PHRASINGS[call.tool].polite, call, _by_noun(calls, step)) for step, call in enumerate(calls))
    return f"could you please {', and then '.join(phrases)}? thank you."


def _brief(calls: Sequence[Call]) -> str:
    def shorten(step: int) -> str:
        by_noun = _by_noun(calls, step)
        phrase = _imperative(calls[step], lambda ref: "that" if ref.step == step - 1 else by_noun(ref))
        return phrase.removeprefix(FIND).removeprefix("the ")

    return "; ".join(map(shorten, range(len(calls))))


def _numbered(calls: Sequence[Call]) -> str:
    phrases = (_imperative(call, lambda ref: f"the result of step {ref.step + 1}") for call in calls)
    return " ".join(f"step {number}: {phrase}." for number, phrase in enumerate(phrases, 1))


def _nested(calls: Sequence[Call]) -> str:
    tools = [call.tool for call in calls]
    used = [value.step for call in calls for value in call.arguments.values() if isinstance(value, Ref)]
    uses_previous = {step for step in range(len(calls)) if Ref(step - 1) in calls[step].arguments.values()}
    # If a tool is called twice, neither call is nested: "the first cost" would be ambiguous.
    nested = {
        step - 1
        for step in uses_previous
        if PHRASINGS[tools[step - 1]].imperative.startswith(FIND)
        and tools.count(tools[step - 1]) == used.count(step - 1) == 1
    }

    def format_ref(step: int) -> FormatRef:
        by_noun = _by_noun(calls, step)
        return lambda ref: nested_phrase(ref.step) if ref.step in nested else by_noun(ref)

    def nested_phrase(step: int) -> str:
        return _imperative(calls[step], format_ref(step)).removeprefix(FIND)

    phrases = (_imperative(call, format_ref(step)) for step, call in enumerate(calls) if step not in nested)
    return f"please {', then '.join(phrases)}."


def _backwards(calls: Sequence[Call]) -> str:
    used = {value.step for call in calls for value in call.arguments.values() if isinstance(value, Ref)}
    letters = dict(zip(sorted(used), LETTERS, strict=False))

    def phrase_step(step: int) -> str:
        aside = f" (the {PHRASINGS[calls[step].tool].noun} is {letters[step]})" if step in letters else ""
        return _imperative(calls[step], lambda ref: letters[ref.step]) + aside

    return f"at last {'; before that '.join(map(phrase_step, reversed(range(len(calls)))))}."


_STYLES = {
    "plain": _plain,
    "polite": _polite,
    "brief": _brief,
    "numbered": _numbered,
    "nested": _nested,
    "backwards": _backwards,
}


def _by_noun(calls: Sequence[Call], current: int) -> FormatRef:
    """Refers to results of steps before the current one: "that cost", or "the second cost" if there are several."""

    def format_ref(ref: Ref) -> str:
        tool = calls[ref.step].tool
        same_tool = [step for step in range(current) if calls[step].tool == tool]
        determiner = "that" if len(same_tool) == 1 else f"the {ORDINALS[same_tool.index(ref.step)]}"
        return f"{determiner} {PHRASINGS[tool].noun}"

    return format_ref


def _imperative(call: Call, format_ref: FormatRef) -> str:
    return _fill(PHRASINGS[call.tool].imperative, call, format_ref)


def _fill(template: str, call: Call, format_ref: FormatRef) -> str:
    def format_value(value_type: str, value: Any) -> str:
        if isinstance(value, Ref):
            return format_ref(value)
        return f"the {value}" if value_type == "file" else str(value)

    types = TOOLS[call.tool].parameters
    return template.format_map({name: format_value(types[name], value) for name, value in call.arguments.items()})
