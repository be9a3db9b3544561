"""`envgen evaluate-llm`: run a language model on a benchmark."""

from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from envgen.benchmarks.registry import BENCHMARKS
from envgen.benchmarks.settings import BenchmarkConfig, BenchmarkOptions

from .common import UserError, require_extra, require_positive, require_seed, resume_hint
from .options import REQUIRED, default, explicitly_set, optional_settings, required

ModelOptions = optional_settings(
    BenchmarkConfig, "ModelOptions", {"llm": REQUIRED, "parallel": "8; 1 with manual, hf and run"}
)
DataOptions = optional_settings(
    BenchmarkOptions, "DataOptions", {"data": "none", "calls": "prompt", "passages": "none: closed-book"}
)


def evaluate_llm(
    benchmark: Annotated[str, Positional, required("BENCHMARK")],
    category: Annotated[tuple[str, ...], default("all", "CATEGORY ...")] = (),
    limit: Annotated[int | None, default("no limit")] = None,
    seed: int = 0,
    folder: Annotated[Path | None, default("out/<benchmark>-<llm>")] = None,
    options: Annotated[
        DataOptions, OmitArgPrefixes, tyro.conf.arg(name="benchmark")  # pyright: ignore
    ] = DataOptions(),  # noqa: B008
    llm: Annotated[ModelOptions, OmitArgPrefixes] = ModelOptions(),  # pyright: ignore # noqa: B008
    quiet: bool = False,
) -> None:
    """Run a language model on a benchmark, or resume such a run (docs/benchmarks.md).

    To let a language model play a world, use `envgen evaluate WORLD --policy llm`.

    Args:
        benchmark: The benchmark, such as bfcl. `envgen evaluate-llm list` describes all of them.
        category: Categories of the benchmark, or names of its averages.
        limit: At most this many items of each category, sampled with the seed.
        seed: Seed of the sample of items, and of sampling from models in this process.
        folder: The run directory. An interrupted run is resumed there.
        options: Options of some benchmarks.
        llm: The language model.
        quiet: Print no progress, only the table.
    """
    if benchmark == "list":
        for name, entry in BENCHMARKS.items():
            print(f"{name:16} {entry.description}")
        return
    model, given = explicitly_set(llm), explicitly_set(options)
    if "llm" not in model:
        raise UserError("evaluate-llm requires --llm, such as --llm openai:MODEL, or --llm gold to check the benchmark")
    if model["llm"].startswith(("hf:", "run:")):
        require_extra("genenv")
    if limit is not None:
        require_positive(limit=limit)
    from envgen.benchmarks.api import default_benchmark_folder, run_benchmark

    run_folder = folder or default_benchmark_folder(benchmark, model["llm"])
    with resume_hint("evaluate-llm", run_folder):
        result = run_benchmark(
            benchmark, model, options=given, categories=category, limit=limit, seed=require_seed(seed),
            folder=run_folder, verbose=not quiet,
        )  # fmt: skip
    print(result)
    print(f"\nWritten: {run_folder / 'evaluation.json'}")
