"""The data of BFCL, read from the installed package `bfcl-eval`, none of whose modules is imported here."""

import copy
import functools
import importlib.metadata
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envgen.function_calls.calls import Call, Language, parse_calls

from ..benchmark import BenchmarkError, parse_json_lines, read_data_file

INSTALL = (
    "BFCL is the data of the package bfcl-eval (Apache-2.0): pip install 'envgen[bfcl]' && "
    "pip install --no-deps bfcl-eval==2026.3.23"
)
PREFIX = "BFCL_v4_"
SINGLE_TURN = ("simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple")
LIVE = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")
RELEVANCE = ("irrelevance", "live_irrelevance", "live_relevance")
MULTI_TURN = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
CATEGORIES = (*SINGLE_TURN, "irrelevance", *LIVE, "live_irrelevance", "live_relevance", *MULTI_TURN)
CLASS_MODULES = {  # of the multi-turn categories; their documentation has the same names
    "GorillaFileSystem": "gorilla_file_system", "MathAPI": "math_api", "MessageAPI": "message_api",
    "TwitterAPI": "posting_api", "TicketAPI": "ticket_api", "TradingBot": "trading_bot", "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}  # fmt: skip
HINTS = {"python": "Python 3", "java": "Java 8", "javascript": "JavaScript"}


def find_package() -> tuple[Path, str]:
    """The folder of the installed package, and its version."""
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is None or not spec.submodule_search_locations:
        raise BenchmarkError(INSTALL)
    return Path(next(iter(spec.submodule_search_locations))), importlib.metadata.version("bfcl-eval")


def language_of(category: str) -> Language:
    return {"simple_java": "java", "simple_javascript": "javascript"}.get(category, "python")  # pyright: ignore


@functools.cache
def load_entries(package: Path, category: str) -> tuple[dict[str, Any], ...]:
    """The questions of a category with their answers under `ground_truth`, if the category has answers."""
    entries = _read_lines(package / "data" / f"{PREFIX}{category}.json")
    if category in RELEVANCE:
        return tuple(entries)
    answers = {
        answer["id"]: answer["ground_truth"]
        for answer in _read_lines(package / "data" / "possible_answer" / f"{PREFIX}{category}.json")
    }
    return tuple({**entry, "ground_truth": answers[entry["id"]]} for entry in entries)


def _read_lines(file: Path) -> list[Any]:
    return parse_json_lines(*read_data_file(file.parent, (file.name,), INSTALL))


@functools.cache
def load_class_functions(package: Path, name: str) -> tuple[dict[str, Any], ...]:
    """The functions of one of the classes of the multi-turn categories."""
    return tuple(_read_lines(package / "data" / "multi_turn_func_doc" / f"{CLASS_MODULES[name]}.json"))


def multi_turn_functions(package: Path, entry: dict[str, Any]) -> tuple[list[Any], dict[int, list[Any]]]:
    """The functions that are available from the beginning, and those that are added in a turn."""
    functions = [function for name in entry["involved_classes"] for function in load_class_functions(package, name)]
    added: dict[int, list[Any]] = {}
    for turn, names in entry.get("missed_function", {}).items():
        added[int(turn)] = [function for function in functions if function["name"] in names]
        functions = [function for function in functions if function["name"] not in names]
    return functions, added


def describe_functions(functions: Sequence[dict[str, Any]], language: Language) -> list[dict[str, Any]]:
    """The functions as the model sees them. Arguments in Java and JavaScript are source text in strings."""
    described = copy.deepcopy(list(functions))
    for function in described:
        function["description"] = f"{function['description'].rstrip('.')}. The syntax is that of {HINTS[language]}."
        if language == "python":
            continue
        for schema in function["parameters"]["properties"].values():
            kind = f"a {HINTS[language]} expression of the type {schema['type']}"
            if "items" in schema:
                kind += f" with elements of the type {schema.pop('items').get('type', 'any')}"
            if "properties" in schema:
                kind += f" with the entries {json.dumps(schema.pop('properties'))}"
            schema["description"] = f"{schema.get('description', '').rstrip('.')}. As text: {kind}."
            schema["type"] = "string"
    return described


def gold_turns(entry: dict[str, Any], functions: Sequence[dict[str, Any]]) -> list[list[Call]]:
    """The calls of every turn, with all arguments by name."""
    parameters = {function["name"]: list(function["parameters"]["properties"]) for function in functions}
    turns = []
    for turn in entry["ground_truth"]:
        calls = [call for text in turn for call in parse_calls(text)]
        named = [dict(zip(parameters.get(call.name, ()), call.positional, strict=False)) for call in calls]
        turns.append([Call(call.name, names | call.arguments) for call, names in zip(calls, named, strict=True)])
    return turns
