"""Find function calls in replies of the form <tool_call>{"name": ..., "parameters": {...}}</tool_call>."""

import json
import re
from typing import Any, NamedTuple

MAX_CHARS = 50_000  # of a reply; the rest is ignored
MAX_ATTEMPTS = 200  # to read a JSON object
BLOCK = re.compile(r"<tool_call>(.*?)(?:</tool_call>|$)", re.DOTALL)
ARGUMENT_KEYS = ("parameters", "arguments")


class JsonCall(NamedTuple):
    name: str
    arguments: dict[str, Any]


def find_calls(text: str) -> list[JsonCall]:
    """The calls in the `<tool_call>` blocks of a reply, or in the whole reply if it has no block.

    A call is a JSON object with a name and parameters; everything else is ignored.
    """
    text = text[:MAX_CHARS]
    blocks = BLOCK.findall(text) or [text]
    calls, attempts = [], 0
    for block in blocks:
        position = block.find("{")
        while position >= 0 and attempts < MAX_ATTEMPTS:
            attempts += 1
            try:
                value, end = json.JSONDecoder().raw_decode(block, position)
            except (ValueError, RecursionError):
                end = position + 1
            else:
                if (call := _read_call(value)) is not None:
                    calls.append(call)
            position = block.find("{", end)
    return calls


def _read_call(value: Any) -> JsonCall | None:
    if not (isinstance(value, dict) and isinstance(value.get("name"), str)):
        return None
    arguments = next((value[key] for key in ARGUMENT_KEYS if key in value), {})
    return JsonCall(value["name"], arguments) if isinstance(arguments, dict) else None
