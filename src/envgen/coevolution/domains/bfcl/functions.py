"""Functions made at random: an action, a thing, and typed parameters with defaults.

Each task has functions of its own: the same name can have other parameters in the next task. A function is described by
a signature of one line, `create_note(topic: string, format: pdf|html|csv = 'pdf')`, or by JSON as in the data of BFCL.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from ..random_choice import choose, shuffle

ParameterType = Literal["string", "integer", "float", "boolean", "enum", "array", "object"]
TYPES: tuple[ParameterType, ...] = get_args(ParameterType)
NUM_OPTIONS = 3  # values of an enum in a signature
MAX_ELEMENTS = 3  # of an array


class Action(NamedTuple):
    plain: str  # how a request says it
    reworded: str  # the same in other words


class Attribute(NamedTuple):
    """What a parameter can be. A boolean has a phrase for true and one for false."""

    name: str
    type: ParameterType
    phrase: str  # how a request says it: {} is the value
    values: Sequence[Any]  # of the parameter, or of the elements of an array
    fields: Mapping[str, Sequence[Any]] = MappingProxyType({})  # of an object, with their values

    @property
    def description(self) -> str:
        """How requests give the value."""
        if self.type == "boolean":
            yes, _, no = self.phrase.partition("|")
            return f"True if the request says '{yes}', false if it says '{no}'."
        fields = {name: name.upper() for name in self.fields}
        return f"As in '{self.phrase.format(self.name.upper(), **fields)}'."


ACTIONS = {
    "create": Action("create a {}", "make a new {}"),
    "find": Action("find the {}", "look for the {}"),
    "edit": Action("edit the {}", "change the {}"),
    "delete": Action("delete the {}", "throw away the {}"),
    "share": Action("share the {}", "send round the {}"),
    "print": Action("print the {}", "put the {} on paper"),
    "archive": Action("archive the {}", "store the {} for good"),
    "review": Action("review the {}", "check the {}"),
}
THINGS = (
    "meeting", "reminder", "bill", "recipe", "playlist", "note", "report", "ticket", "survey", "poster", "menu",
    "contract",
)  # fmt: skip
IDS = range(200, 1000)
BOOLEANS = (True, False)


def _decimals(first: int) -> tuple[float, ...]:
    """Thirty numbers that are not whole."""
    return tuple(whole + part / 4 for whole in range(first, first + 10) for part in (1, 2, 3))


# No two attributes but booleans share a value: small models then learn sooner which value belongs to which.
ATTRIBUTES = (
    Attribute("topic", "string", "about {}", ("golf", "tax", "music", "art", "chess", "yoga", "law", "sport")),
    Attribute("owner", "string", "for {}", ("ann", "bob", "cleo", "dan", "eve", "fred", "gina", "hugo")),
    Attribute("place", "string", "in {}", ("oslo", "rome", "paris", "lima", "cairo", "new york", "quito", "san jose")),
    Attribute("team", "string", "with team {}", ("red", "blue", "green", "white", "black", "pink", "gray", "brown")),
    Attribute("pages", "integer", "filling {} pages", range(20, 30)),
    Attribute("days", "integer", "within {} days", range(30, 40)),
    Attribute("version", "integer", "in version {}", range(40, 50)),
    Attribute("year", "integer", "from {}", range(2010, 2020)),
    Attribute("price", "float", "at {} euros", _decimals(100)),
    Attribute("hours", "float", "taking {} hours", _decimals(110)),
    Attribute("weight", "float", "weighing {} grams", _decimals(120)),
    Attribute("scale", "float", "scaled to {} percent", _decimals(130)),
    Attribute("private", "boolean", "in private|in public", BOOLEANS),
    Attribute("draft", "boolean", "as a draft|as the final copy", BOOLEANS),
    Attribute("signed", "boolean", "signed|unsigned", BOOLEANS),
    Attribute("urgent", "boolean", "at once|without haste", BOOLEANS),
    Attribute("format", "enum", "as {}", ("pdf", "html", "csv", "text", "png")),
    Attribute("size", "enum", "of size {}", ("tiny", "small", "medium", "large", "huge")),
    Attribute("priority", "enum", "with priority {}", ("low", "normal", "high", "top")),
    Attribute("tone", "enum", "with tone {}", ("formal", "casual", "funny", "serious", "friendly")),
    Attribute("tags", "array", "tagged {}", ("budget", "family", "garden", "holiday", "school", "office", "science")),
    Attribute("guests", "array", "inviting {}", ("iris", "jack", "kate", "leo", "mona", "nick", "olga", "paul")),
    Attribute("sheets", "array", "on sheets {}", range(50, 60)),
    Attribute("rooms", "array", "using rooms {}", range(60, 70)),
    Attribute("date", "object", "on day {day} of {month}", (), {
        "day": range(2, 10), "month": ("january", "march", "april", "may", "june", "july", "august", "october"),
    }),
    Attribute("slot", "object", "on {weekday} at hour {hour}", (), {
        "weekday": ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
        "hour": range(10, 20),
    }),
    Attribute("author", "object", "from author {name} aged {age}", (), {
        "name": ("quin", "rosa", "sam", "tina", "uma", "vera", "will", "zoe"), "age": range(70, 80),
    }),
    Attribute("frame", "object", "framed {width} by {height}", (), {"width": range(80, 90), "height": range(90, 100)}),
)  # fmt: skip
ATTRIBUTES_OF: dict[ParameterType, tuple[Attribute, ...]] = {
    kind: tuple(attribute for attribute in ATTRIBUTES if attribute.type == kind) for kind in TYPES
}


class Parameter(NamedTuple):
    attribute: Attribute
    is_required: bool
    options: tuple[str, ...]  # of an enum
    default: Any  # None if it is required

    @property
    def name(self) -> str:
        return self.attribute.name

    @property
    def type_text(self) -> str:
        """The type as in a signature."""
        attribute = self.attribute
        match attribute.type:
            case "enum":
                return "|".join(self.options)
            case "array":
                return f"array of {_type_of(attribute.values[0])}"
            case "object":
                fields = (f"{name}: {_type_of(values[0])}" for name, values in attribute.fields.items())
                return f"{{{', '.join(fields)}}}"
            case name:
                return name

    @property
    def schema(self) -> dict[str, Any]:
        """The schema in the form of BFCL's data."""
        attribute = self.attribute
        schema: dict[str, Any] = {"type": attribute.type}
        match attribute.type:
            case "enum":
                schema = {"type": "string", "enum": list(self.options)}
            case "array":
                schema["items"] = {"type": _type_of(attribute.values[0])}
            case "object":
                properties = {name: {"type": _type_of(values[0])} for name, values in attribute.fields.items()}
                schema = {"type": "dict", "properties": properties}
        schema["description"] = attribute.description
        return schema if self.is_required else {**schema, "default": self.default}


ID = Parameter(Attribute("id", "integer", "number {}", IDS), True, (), None)  # the result of an earlier call


class Function(NamedTuple):
    action: str
    thing: str
    parameters: tuple[Parameter, ...]
    returns_id: bool = False

    @property
    def name(self) -> str:
        return f"{self.action}_{self.thing}"

    @property
    def signature(self) -> str:
        parameters = (
            f"{each.name}: {each.type_text}{'' if each.is_required else f' = {each.default!r}'}"
            for each in self.parameters
        )
        return f"{self.name}({', '.join(parameters)}){' -> id' if self.returns_id else ''}"

    @property
    def schema(self) -> dict[str, Any]:
        """The function in the form of BFCL's data."""
        return {
            "name": self.name,
            "description": (
                f"{ACTIONS[self.action].plain.format(self.thing).capitalize()}."
                + (" Returns its id." if self.returns_id else "")
            ),
            "parameters": {
                "type": "dict",
                "properties": {each.name: each.schema for each in self.parameters},
                "required": [each.name for each in self.parameters if each.is_required],
            },
        }

    @property
    def json(self) -> str:
        return json.dumps(self.schema)


def _type_of(value: Any) -> str:
    """The type of an element of an array or a field of an object."""
    return "integer" if isinstance(value, int) else "string"


# --- which functions there are


def function_names(held_out: bool) -> list[tuple[str, str]]:
    """The actions and things of the functions of training tasks, or of held-out tasks. No function is in both.

    Every action and every thing is in both.
    """
    return [
        (action, thing)
        for row, action in enumerate(ACTIONS)
        for column, thing in enumerate(THINGS)
        if ((row + column) % 4 == 0) == held_out
    ]


# --- random choices; the only method of `rng` used is random(), whose stream is the same in every version of Python


def sample_parameters(types: Sequence[tuple[ParameterType, bool]], rng: Random) -> tuple[Parameter, ...]:
    """Parameters of these types, each with whether it is required."""
    attributes = {kind: iter(shuffle(ATTRIBUTES_OF[kind], rng)) for kind in TYPES}
    return tuple(_sample_parameter(next(attributes[kind]), is_required, rng) for kind, is_required in types)


def _sample_parameter(attribute: Attribute, is_required: bool, rng: Random) -> Parameter:
    options = tuple(shuffle(attribute.values, rng)[:NUM_OPTIONS]) if attribute.type == "enum" else ()
    parameter = Parameter(attribute, is_required, options, None)
    return parameter if is_required else parameter._replace(default=sample_value(parameter, rng))


def sample_value(parameter: Parameter, rng: Random) -> Any:
    """A value that is not the default."""
    while True:
        value = _sample_value(parameter, rng)
        if value != parameter.default:
            return value


def _sample_value(parameter: Parameter, rng: Random) -> Any:
    attribute = parameter.attribute
    match attribute.type:
        case "enum":
            return choose(parameter.options, rng)
        case "array":
            count = 1 + int(rng.random() * MAX_ELEMENTS)
            return list(dict.fromkeys(choose(attribute.values, rng) for _ in range(count)))
        case "object":
            return {name: choose(values, rng) for name, values in attribute.fields.items()}
        case _:
            return choose(attribute.values, rng)


def other_values(parameter: Parameter, value: Any) -> Iterator[Any]:
    """Wrong values of the right type that come close to the right one."""
    attribute = parameter.attribute
    match attribute.type:
        case "array":
            element = next(each for each in attribute.values if each not in value)
            yield [*value, element]
            yield [element, *value[1:]]
            if len(value) > 1:
                yield value[::-1]
                yield value[:-1]
        case "object":
            for name, values in attribute.fields.items():
                yield {**value, name: next(each for each in values if each != value[name])}
                yield {key: each for key, each in value.items() if key != name}
            yield {**value, "note": "golf"}
        case _:
            yield from (each for each in attribute.values[:5] if each != value)
    if parameter.default is not None and parameter.default != value:
        yield parameter.default
