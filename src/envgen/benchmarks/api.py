"""`envgen.run_benchmark`, and what the command line shares with it."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envgen.designers.chat.ledger import UsageTotals
from envgen.designers.chat.usage import ChatUsage, format_dollars
from envgen.settings import format_choice_error, format_validation_error, to_integer, to_mapping, to_path
from envgen.text import model_label, printable

from .benchmark import Benchmark, BenchmarkError
from .registry import load_benchmark
from .results import BenchmarkResult
from .runner import run_benchmark as run
from .settings import BenchmarkConfig, BenchmarkOptions


def run_benchmark(
    benchmark: str | Benchmark,
    llm: str | Mapping[str, Any] = "manual",
    *,
    options: Mapping[str, Any] | None = None,
    categories: str | Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    verbose: bool = True,
) -> BenchmarkResult:
    """Run a language model on a benchmark.

    To continue an interrupted run exactly where it stopped, call this again with the same arguments.

    Args:
        benchmark: A benchmark or its name.
        llm: The language model: `"openai:MODEL"`, `"anthropic:MODEL"`, `"manual"`, `"replay:FOLDER"`, `"hf:MODEL"`,
            `"run:FOLDER"`, `"gold"`, `"empty"`, or a mapping with `llm` and the other fields of `BenchmarkConfig`.
        options: Fields of `BenchmarkOptions` that the benchmark takes, such as `{"data": "folder"}`.
        categories: Categories of the benchmark, or names of its averages. Default: all categories.
        limit: At most this many items of each category, sampled with the seed.
        seed: The seed for sampling items, and for sampling from models in this process.
        folder: The run directory. Default: `out/<benchmark>-<llm>`.
        verbose: Show progress on the terminal.
    """
    if not isinstance(benchmark, str) and not hasattr(benchmark, "categories"):
        raise BenchmarkError(f"benchmark must be a name or a Benchmark, not {benchmark!r:.80}")
    if not isinstance(llm, str | Mapping):
        raise BenchmarkError(f"llm must be a name or a mapping, not {llm!r:.80}")
    options = to_mapping("options", options, BenchmarkError)
    try:
        config = BenchmarkConfig(**({"llm": llm} if isinstance(llm, str) else llm))
        chosen = BenchmarkOptions(**options)
    except ValidationError as error:
        raise BenchmarkError(format_validation_error(error)) from None
    limit = None if limit is None else to_integer("limit", limit, BenchmarkError, minimum=1)
    seed = to_integer("seed", seed, BenchmarkError, minimum=0)
    loaded = load_benchmark(benchmark, chosen) if isinstance(benchmark, str) else benchmark
    names = expand_categories(loaded, categories)
    if folder:
        run_folder = to_path("folder", folder, BenchmarkError)
    else:
        run_folder = default_benchmark_folder(loaded.name, config.llm)
    progress = _show_progress if verbose and sys.stderr.isatty() else _show_nothing
    log: Callable[[str], object] = _print_line if verbose else _show_nothing
    try:
        return run(loaded, config, run_folder, chosen, names, limit, seed, progress, log)
    finally:
        if progress is _show_progress:
            print(file=sys.stderr)


def expand_categories(benchmark: Benchmark, names: str | Sequence[str]) -> list[str]:
    """The categories that these names of categories and averages stand for, each once."""
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, Iterable):
        raise BenchmarkError(f"categories must be a list of names, not {names!r:.80}")
    chosen: list[str] = []
    for name in names:
        if name not in benchmark.categories and name not in benchmark.averages:
            choices = [*benchmark.categories, *benchmark.averages]
            raise BenchmarkError(f"category {format_choice_error(name, choices)}")
        chosen += [name] if name in benchmark.categories else benchmark.averages[name]
    return [name for name in benchmark.categories if name in chosen]


def default_benchmark_folder(benchmark: str, llm: str) -> Path:
    """The run directory that `run_benchmark` uses if it is given none."""
    return Path("out") / f"{benchmark}-{model_label(llm)}"


def _show_progress(finished: int, total: int, usage: UsageTotals) -> None:
    dollars = format_dollars(ChatUsage.from_totals(usage).dollars)
    line = f"{finished:,} of {total:,} items; {usage.calls:,} calls, {usage.tokens:,} tokens{dollars}"
    print(f"\r{line:<79}", end="", file=sys.stderr, flush=True)


def _print_line(text: str) -> None:
    print(printable(text, keep="\n"), flush=True)


def _show_nothing(*args: object) -> None:
    pass
