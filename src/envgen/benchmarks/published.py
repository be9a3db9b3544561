"""Accuracies that GenEnv (arXiv 2512.19682, table 1) reports, in percent. They are printed below the table of a run."""

from typing import NamedTuple


class Published(NamedTuple):
    base: float  # Qwen2.5-7B-Instruct
    genenv: float  # the same model, trained by GenEnv
    note: str  # how the figure was measured, as far as this is known


PUBLISHED = {
    "alfworld": Published(14.2, 54.5, "episodes split into single steps, so not the rate of won episodes"),
    "api_bank": Published(61.6, 79.1, "all 597 calls of levels 1 to 3 together"),
    "bamboogle": Published(68.0, 76.0, "web search, answers judged by a language model"),
    "bfcl": Published(7.0, 41.8, "apparently 201 single turns of multi_turn_long_context"),
    "travel_planner": Published(14.3, 16.6, "mean of the four constraint pass rates on the 180 validation queries"),
}
MODELS = ("Qwen2.5-7B-Instruct", "GenEnv 7B")


def describe_published(benchmark: str) -> str:
    """A line for the table; empty if nothing was published."""
    if benchmark not in PUBLISHED:
        return ""
    figure = PUBLISHED[benchmark]
    values = f"{MODELS[0]} {figure.base:.1f}, {MODELS[1]} {figure.genenv:.1f}"
    return f"Published (arXiv 2512.19682, table 1): {values} ({figure.note})"
