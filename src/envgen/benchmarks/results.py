"""The results of a run of a benchmark, and its table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from envgen.designers.chat.usage import ChatUsage
from envgen.runs.statistics import wilson_interval
from envgen.settings import FrozenModel
from envgen.text import printable

from .benchmark import Benchmark
from .published import describe_published

MAX_ERRORS = 8  # kinds of errors in the table


class ItemResult(FrozenModel):
    """One line of `items.jsonl`."""

    id: str
    category: str
    score: float = Field(ge=0, le=1)
    error: str
    details: str
    counts: dict[str, tuple[int, int]]
    prompt: list[dict[str, Any]]
    """The messages of the last request."""
    completions: list[dict[str, Any]]
    """The reply to each request: text and tool_calls."""
    usage: ChatUsage


class Row(FrozenModel):
    """The items of one category."""

    name: str
    items: int
    accuracy: float
    """In percent, as `rates`, `low` and `high`."""
    low: float
    """The lower end of the 95% interval."""
    high: float
    rates: dict[str, float]


class BenchmarkResult(FrozenModel):
    """The results of a language model on a benchmark."""

    benchmark: str
    """The name of the benchmark."""
    data_version: str
    """The version of its data."""
    llm: str
    """The language model."""
    categories: tuple[Row, ...]
    """The results of each category."""
    averages: dict[str, float]
    """Means over categories as the benchmark defines them, in percent."""
    total: Row
    """The results of all items."""
    errors: dict[str, int]
    """Kind of error: number of items."""
    usage: ChatUsage
    """Calls, tokens and dollars of all items."""

    def __repr__(self) -> str:
        accuracy = f"accuracy {self.total.accuracy:.1f}% of {self.total.items:,}"
        return f"<BenchmarkResult: {self.benchmark}, {self.llm}, {accuracy}>"

    def __str__(self) -> str:
        rates = list(dict.fromkeys(name for row in self.categories for name in row.rates))
        width = max(24, *(len(row.name) + 2 for row in self.categories), *(len(name) + 2 for name in self.averages))
        header = f"{'category':{width}} {'items':>6} {'accuracy':>9}  {'95% interval':14}"
        lines = [f"{self.benchmark} ({self.data_version}), {self.llm}", ""]
        lines.append(header + "".join(f" {name:>{len(name) + 1}}" for name in rates))
        rows = [*self.categories, self.total] if len(self.categories) > 1 else [self.total]
        for row in rows:
            interval = f"[{row.low:.1f}, {row.high:.1f}]"
            line = f"{row.name:{width}} {row.items:6,} {row.accuracy:9.1f}  {interval:14}"
            lines.append(line + "".join(_format_rate(row, name) for name in rates))
        lines += [f"{name:{width}} {'':6} {value:9.1f}" for name, value in self.averages.items()]
        if self.errors:
            lines += ["", "Errors:"]
            lines += [f"  {count:6,}  {printable(error)}" for error, count in list(self.errors.items())[:MAX_ERRORS]]
            if rest := sum(list(self.errors.values())[MAX_ERRORS:]):
                lines.append(f"  {rest:6,}  others")
        if published := describe_published(self.benchmark):
            lines += ["", published]
        lines += ["", f"  {'':22} {'per item':>14} {'total':>14}", *self.usage.table_rows(self.total.items)]
        return "\n".join(line.rstrip() for line in lines)


def _format_rate(row: Row, name: str) -> str:
    width = len(name) + 1
    return f" {row.rates[name]:{width}.1f}" if name in row.rates else f" {'-':>{width}}"


def summarize(benchmark: Benchmark, llm: str, results: Sequence[ItemResult]) -> BenchmarkResult:
    """The table of these items. An average is left out if one of its categories has no item."""
    by_category: dict[str, list[ItemResult]] = {name: [] for name in benchmark.categories}
    for result in results:
        by_category[result.category].append(result)
    averaged_rates = benchmark.averaged_rates
    rows = {name: _row(name, items, averaged_rates) for name, items in by_category.items() if items}
    averages = {
        name: sum(rows[category].accuracy for category in categories) / len(categories)
        for name, categories in benchmark.averages.items()
        if all(category in rows for category in categories)
    }
    errors = Counter(result.error for result in results if result.error)
    return BenchmarkResult(
        benchmark=benchmark.name,
        data_version=benchmark.data_version,
        llm=llm,
        categories=tuple(rows.values()),
        averages=averages,
        total=_row("all items", results, averaged_rates),
        errors=dict(errors.most_common()),
        usage=ChatUsage.combine(result.usage for result in results),
    )


def _row(name: str, results: Sequence[ItemResult], averaged_rates: Mapping[str, Sequence[str]]) -> Row:
    rates = _rates([result.counts for result in results])
    means = {
        mean: sum(rates[rate] for rate in names) / len(names)
        for mean, names in averaged_rates.items()
        if all(rate in rates for rate in names)
    }
    low, high = wilson_interval(sum(result.score for result in results), len(results))
    return Row(
        name=name,
        items=len(results),
        accuracy=100 * sum(result.score for result in results) / len(results),
        low=100 * low,
        high=100 * high,
        rates=rates | means,
    )


def _rates(counts: Sequence[Mapping[str, tuple[int, int]]]) -> dict[str, float]:
    totals: dict[str, tuple[int, int]] = {}
    for item_counts in counts:
        for name, (passed, of) in item_counts.items():
            before = totals.get(name, (0, 0))
            totals[name] = before[0] + passed, before[1] + of
    return {name: 100 * passed / of for name, (passed, of) in totals.items() if of}
