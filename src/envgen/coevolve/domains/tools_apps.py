"""Five little apps, the tools that work on them, and what they hold: money, a shop, people, a calendar and files.

Every tool is defined for every word of its types, so that no call of the right types can fail. What the apps hold is
shown to nobody: a program that needs some of it refers to the result of a call.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

NUMBERS = ("amount", "count")  # the types that are written in digits
WORDS: dict[str, tuple[Any, ...]] = {  # what may be said of each type
    "person": ("ann", "bob", "cleo", "dan", "eve", "fred", "gina", "hugo", "iris", "jack", "kate", "leo"),
    "item": ("tea", "rice", "milk", "salt", "soap", "oil", "corn", "wool", "silk", "ink", "glue", "honey"),
    "day": ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    "topic": ("golf", "tax", "music", "art", "chess", "yoga", "law", "travel", "lunch", "health", "sport", "weather"),
    "file": ("letter", "essay", "diary", "novel", "recipe", "poem", "contract", "budget"),
    "amount": tuple(range(2, 100)),
    "count": tuple(range(2, 100)),
}


class Tool(NamedTuple):
    name: str
    app: str
    signature: str  # as it is listed: repeat(day, to: day)
    parameters: dict[str, str]  # name: type
    result: str  # its type, "" for none
    run: Callable[..., Any]  # of the facts, which it may change, and the arguments in their order
    looks_up: bool  # what the facts hold under its name and its only argument


class Facts(dict[Any, Any]):
    """What the apps hold, such as ("price", "tea"): 12. Calls write what they change.

    The rest is what it was in the world at first: any word of the right type, drawn by the world's number.
    """

    def __init__(self, world: int):
        super().__init__()
        self.world = world

    def __missing__(self, fact: tuple[str, ...]) -> Any:
        digest = hashlib.sha256(f"{self.world} {' '.join(fact)}".encode()).digest()
        values = VALUES[fact[0]]
        return values[int.from_bytes(digest[:6]) % len(values)]


# The account and the shop's supply may fall below zero: tasks are about calling, not about budgets.


def _balance(facts: Facts) -> int:
    return facts["money",]


def _pay(facts: Facts, person: str, amount: int) -> None:
    facts["money",] -= amount
    facts["paid", person] = facts.get(("paid", person), 0) + amount


def _save(facts: Facts, amount: int) -> None:
    facts["money",] -= amount
    facts["saved",] = facts.get(("saved",), 0) + amount


def _buy(facts: Facts, item: str, count: int) -> str:
    facts["money",] -= facts["price", item] * count
    facts["stock", item] -= count
    return facts["delivery", item]


def _message(facts: Facts, person: str, topic: str) -> None:
    facts["message", person, topic] = facts.get(("message", person, topic), 0) + 1


def _meet(facts: Facts, person: str, day: str, topic: str) -> None:
    facts["guest", day], facts["agenda", day] = person, topic


def _repeat(facts: Facts, day: str, to: str) -> None:
    facts["guest", to], facts["agenda", to] = facts["guest", day], facts["agenda", day]


def _write(facts: Facts, file: str, topic: str) -> None:
    facts["read", file] = topic


def _print(facts: Facts, file: str, count: int) -> None:
    facts["printed", file] = facts.get(("printed", file), 0) + count


# Each tool as it is listed. An argument is called like its type unless it has a name of its own. Without a function, a
# tool looks up what the facts hold under its name.
_APPS: dict[str, dict[str, Callable[..., Any] | None]] = {
    "bank": {
        "balance(): amount": _balance,
        "owed(person): amount": None,
        "pay(person, amount)": _pay,
        "save(amount)": _save,
    },
    "shop": {
        "price(item): amount": None,
        "stock(item): count": None,
        "vendor(item): person": None,
        "buy(item, count): day": _buy,
    },
    "contacts": {
        "manager(person): person": None,
        "off(person): day": None,
        "wish(person): item": None,
        "message(person, topic)": _message,
    },
    "calendar": {
        "agenda(day): topic": None,
        "guest(day): person": None,
        "meet(person, day, topic)": _meet,
        "repeat(day, to: day)": _repeat,
    },
    "files": {
        "read(file): topic": None,
        "latest(person): file": None,
        "write(file, topic)": _write,
        "print(file, count)": _print,
    },
}


def _tool(app: str, signature: str, run: Callable[..., Any] | None) -> Tool:
    name, _, rest = signature.partition("(")
    inside, _, result = rest.partition(")")
    pairs = [parameter.partition(": ") for parameter in inside.split(", ") if parameter]
    parameters = {called: kind or called for called, _, kind in pairs}
    if run is None:
        return Tool(name, app, signature, parameters, result[2:], lambda facts, word: facts[name, word], True)
    return Tool(name, app, signature, parameters, result[2:], run, False)


TOOLS = {
    tool.name: tool for app, tools in _APPS.items() for tool in (_tool(app, text, run) for text, run in tools.items())
}
VALUES: dict[str, Sequence[Any]] = {  # by the first word of a fact
    "money": range(10_000, 100_000),
    "delivery": WORDS["day"],
    **{tool.name: WORDS[tool.result] for tool in TOOLS.values() if tool.looks_up},
}
