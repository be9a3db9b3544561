"""What a model is told: as text that describes the functions, or as tools for native function calling.

All texts are envgen's own, so results can differ from those with the official prompts.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from envgen.designers.chat.protocol import Message, Tool

TASK = """\
You answer requests by calling functions. Below are the functions that you can call, as JSON.
Call every function that the request needs, with the values that the user gave. Leave out optional parameters that the \
user said nothing about. If no function fits, or a required value is missing, make no call and say what is missing.

Write calls as a list in the syntax of Python, with all arguments by name, and nothing else:
[function_one(name="value", count=2), function_two(flag=True)]
"""
TURNS = """
The conversation has several turns. After your calls you are shown their results, and can make further calls. When the \
request of this turn is done, reply in words, without a list of calls.
"""
NEW_FUNCTIONS = "From now on you can also call these functions. Continue with my request."
NAME_CHARS = re.compile(r"[^A-Za-z0-9_-]")
MAX_NAME_CHARS = 64
SCHEMA_TYPES = {
    "integer": "integer", "number": "number", "float": "number", "string": "string", "boolean": "boolean",
    "array": "array", "tuple": "array", "dict": "object", "object": "object", "any": "string",
}  # fmt: skip
RESULT_CHARS = 50_000  # of the result of one call that the model is shown


def system_message(functions: Sequence[Mapping[str, Any]], has_turns: bool = False) -> str:
    return f"{TASK}{TURNS if has_turns else ''}\nThe functions:\n{list_functions(functions)}"


def list_functions(functions: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(json.dumps(function, ensure_ascii=False) for function in functions)


def first_messages(question: Sequence[Mapping[str, str]], system: str | None) -> tuple[Message, ...]:
    """The messages of an item. Its own system message comes after the one with the functions."""
    own = [message["content"] for message in question if message["role"] == "system"]
    parts = [part for part in (system, *own) if part]
    messages = [Message(role="system", content="\n\n".join(parts))] if parts else []
    rest = [message for message in question if message["role"] != "system"]
    return (*messages, *(Message(role=message["role"], content=message["content"]) for message in rest))  # pyright: ignore


def make_tools(functions: Sequence[Mapping[str, Any]]) -> tuple[tuple[Tool, ...], dict[str, str]]:
    """The functions as tools, and the name of the function of each tool: servers accept no dots in names."""
    tools, names = [], {}
    for function in functions:
        valid_name = name = NAME_CHARS.sub("_", function["name"])[:MAX_NAME_CHARS]
        number = 1
        while name in names:
            number += 1
            name = f"{valid_name[: MAX_NAME_CHARS - len(str(number)) - 1]}_{number}"
        names[name] = function["name"]
        parameters = to_json_schema({**function["parameters"], "type": "dict"})
        tools.append(Tool(name=name, description=function["description"], parameters=parameters))
    return tuple(tools), names


def to_json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of BFCL as JSON schema."""
    converted: dict[str, Any] = {"type": SCHEMA_TYPES.get(schema.get("type", "string"), "string")}
    converted |= {name: schema[name] for name in ("description", "enum", "default", "required") if name in schema}
    if isinstance(schema.get("properties"), Mapping):
        converted["properties"] = {name: to_json_schema(inner) for name, inner in schema["properties"].items()}
    if isinstance(schema.get("items"), Mapping):
        converted["items"] = to_json_schema(schema["items"])
    elif converted["type"] == "array":
        converted["items"] = {}
    return converted
