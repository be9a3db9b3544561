"""All benchmarks by name. To add one, write its class (benchmark.py has the contract) and one entry here.

Importing this module is cheap; a class is imported when its benchmark is used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from envgen.settings import format_choice_error

from .benchmark import Benchmark, BenchmarkError
from .settings import BenchmarkOptions


@dataclass(frozen=True)
class BenchmarkEntry:
    description: str
    path: str  # "module:Class", relative to this package; its constructor takes the options as keyword arguments
    options: tuple[str, ...] = ()  # the fields of BenchmarkOptions that it takes

    def load(self, options: Mapping[str, Any]) -> Benchmark:
        module, _, name = self.path.partition(":")
        return getattr(import_module(f".{module}", __package__), name)(**options)


BENCHMARKS: dict[str, BenchmarkEntry] = {
    "alfworld": BenchmarkEntry(
        "household tasks in text games, six types, episodes of at most 50 steps",
        "alfworld:Alfworld", ("data", "games"),
    ),
    "api_bank": BenchmarkEntry(
        "API-Bank: the next API call of a dialogue, levels 1 to 3", "api_bank:ApiBank", ("data",)
    ),
    "bamboogle": BenchmarkEntry(
        "125 two-hop questions, closed-book or with a search tool over your passages",
        "bamboogle:Bamboogle", ("data", "passages"),
    ),
    "bfcl": BenchmarkEntry(
        "function calling: Python, Java, JavaScript, parallel, live, irrelevance, multi-turn",
        "bfcl.benchmark:Bfcl", ("calls",),
    ),
    "travel_planner": BenchmarkEntry(
        "TravelPlanner: trips with constraints, planned from given tables", "travel_planner.benchmark:TravelPlanner",
        ("data",),
    ),
}  # fmt: skip


def load_benchmark(name: str, options: BenchmarkOptions | None = None) -> Benchmark:
    """Load the data of a benchmark.

    Raises BenchmarkError if there is no such benchmark, or if it does not take one of the options.
    """
    if name not in BENCHMARKS:
        raise BenchmarkError(f"benchmark {format_choice_error(name, list(BENCHMARKS))}")
    entry, given = BENCHMARKS[name], (options or BenchmarkOptions()).explicitly_set()
    for option in given:
        if option not in entry.options:
            flags = ", ".join(f"--{name}" for name in entry.options) or "none"
            raise BenchmarkError(f"{name} has no option --{option}; its options: {flags}")
    return entry.load(given)
