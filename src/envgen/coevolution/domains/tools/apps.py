"""Five simulated apps (bank, shop, contacts, calendar, files) and the tools that read and change their state.

Every tool is defined for every value of its parameter types, so a well-typed call cannot fail. The state is hidden from
the model: a program that needs a value from it must refer to the result of a call.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

NUMBER_TYPES = ("amount", "count")  # written in digits
VALUES: dict[str, tuple[Any, ...]] = {  # the literals of each type
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
    signature: str  # as shown in prompts: repeat(day, to: day)
    parameters: dict[str, str]  # name: type
    result_type: str  # "" if the tool returns nothing
    run: Callable[..., Any]  # takes the AppState, which it may change, and the arguments in order
    is_lookup: bool  # returns the state's entry for its name and its only argument, and changes nothing


class AppState(dict[Any, Any]):
    """The state of all apps, such as ("price", "tea"): 12. It holds the entries that calls have changed.

    Any other entry has its initial value: a value of the right type, chosen by a hash of the entry's key and the seed.
    """

    def __init__(self, seed: int):
        super().__init__()
        self.seed = seed

    def __missing__(self, key: tuple[str, ...]) -> Any:
        digest = hashlib.sha256(f"{self.seed} {' '.join(key)}".encode()).digest()
        values = STATE_VALUES[key[0]]
        return values[int.from_bytes(digest[:6]) % len(values)]


# The balance and the stock may become negative: tasks are about calling tools, not about budgets.


def _balance(state: AppState) -> int:
    return state["money",]


def _pay(state: AppState, person: str, amount: int) -> None:
    state["money",] -= amount
    state["paid", person] = state.get(("paid", person), 0) + amount


def _save(state: AppState, amount: int) -> None:
    state["money",] -= amount
    state["saved",] = state.get(("saved",), 0) + amount


def _buy(state: AppState, item: str, count: int) -> str:
    state["money",] -= state["price", item] * count
    state["stock", item] -= count
    return state["delivery", item]


def _message(state: AppState, person: str, topic: str) -> None:
    state["message", person, topic] = state.get(("message", person, topic), 0) + 1


def _meet(state: AppState, person: str, day: str, topic: str) -> None:
    state["guest", day], state["agenda", day] = person, topic


def _repeat(state: AppState, day: str, to: str) -> None:
    state["guest", to], state["agenda", to] = state["guest", day], state["agenda", day]


def _write(state: AppState, file: str, topic: str) -> None:
    state["read", file] = topic


def _print(state: AppState, file: str, count: int) -> None:
    state["printed", file] = state.get(("printed", file), 0) + count


# The tools by their signatures, as shown in prompts. A parameter without a type is named after its type. A tool without
# a function looks up the state's entry under its name.
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


def _parse_tool(app: str, signature: str, run: Callable[..., Any] | None) -> Tool:
    name, _, rest = signature.partition("(")
    parameter_list, _, result = rest.partition(")")
    pairs = [parameter.partition(": ") for parameter in parameter_list.split(", ") if parameter]
    parameters = {parameter: value_type or parameter for parameter, _, value_type in pairs}
    if run is None:
        return Tool(name, app, signature, parameters, result[2:], lambda state, value: state[name, value], True)
    return Tool(name, app, signature, parameters, result[2:], run, False)


TOOLS = {
    tool.name: tool
    for app, tools in _APPS.items()
    for tool in (_parse_tool(app, signature, run) for signature, run in tools.items())
}
STATE_VALUES: dict[str, Sequence[Any]] = {  # the initial values of an entry, by the first word of its key
    "money": range(10_000, 100_000),
    "delivery": VALUES["day"],
    **{tool.name: VALUES[tool.result_type] for tool in TOOLS.values() if tool.is_lookup},
}
