"""What the user sees of a sweep: a table that updates in place on a terminal, and a line for each event elsewhere."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console, Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from envgen.runs.display import LiveDisplay, format_duration
from envgen.text import printable

from .runner import SweepRun

COLORS = {
    "running": "cyan", "finished": "green", "failed": "red", "interrupted": "yellow", "queued": "dim", "waiting": "dim",
}  # fmt: skip
ORDER = tuple(COLORS)
BAR_WIDTH = 20
MAX_REASON_CHARS = 80
NUM_OTHER_LINES = 6  # of the terminal that the table leaves free


class SweepDisplay(LiveDisplay):
    """A context manager that shows the runs of a sweep. If the terminal is closed, the sweep goes on.

    Args:
        quiet: Show nothing.
        live: Whether to update in place; by default where the output is a terminal.
    """

    def __init__(self, console: Console, quiet: bool = False, live: bool | None = None):
        super().__init__(console, False if quiet else live)
        self.quiet = quiet
        self._start = time.monotonic()

    def update(self, runs: Sequence[SweepRun], run: SweepRun | None = None) -> None:
        if self.live:
            with suppress(OSError):
                self.live.update(self._render(runs), refresh=True)
        elif run is not None and not self.quiet:
            finished = sum(other.state == "finished" for other in runs)
            self._print(f"[{finished}/{len(runs)}] {run.name}: {_describe(run)}")

    def message(self, text: str) -> None:
        self._print(text)

    def _print(self, text: str) -> None:
        with suppress(OSError):
            self.console.print(printable(text), soft_wrap=True, markup=False, highlight=False)

    def _render(self, runs: Sequence[SweepRun]) -> Group:
        counts = Counter(run.state for run in runs)
        parts = [f"{counts[state]} {state}" for state in ORDER if counts[state]]
        elapsed = format_duration(time.monotonic() - self._start)
        header = Text(f" {len(runs)} runs: {', '.join(parts)}   {elapsed}", style="bold")
        max_rows = max(1, self.console.size.height - NUM_OTHER_LINES)
        shown = sorted(runs, key=lambda run: ORDER.index(run.state))[:max_rows]
        more = len(runs) - len(shown)
        return Group(header, table(shown, bars=True), *([Text(f" and {more} more", style="dim")] if more else []))


def table(runs: Sequence[SweepRun], bars: bool = False) -> Table:
    """The runs with their state, progress and result."""
    results = {run.name: run.result for run in runs}
    label = next((result[0] for result in results.values() if result), "result")
    grid = Table(box=None, pad_edge=True, header_style="bold")
    grid.add_column("run", overflow="fold")
    grid.add_column("state")
    if bars:
        grid.add_column("", width=BAR_WIDTH)
    unit = "rollouts" if runs and runs[0].is_coevolution else "steps"
    for name in (unit, "time", label):
        grid.add_column(name, justify="right")
    for run in runs:
        has_steps = run.state not in ("waiting", "queued") or run.num_lost
        total, steps = run.planned_steps or 0, run.steps if has_steps else 0
        bar = [ProgressBar(max(total, 1), min(steps, total), width=BAR_WIDTH, complete_style="green")] if bars else []
        result, seconds = results[run.name], run.seconds_so_far
        grid.add_row(
            Text(printable(run.name)), Text(run.state, style=COLORS[run.state]), *bar, Text(f"{steps:,.0f}"),
            Text(format_duration(seconds) if seconds else ""), Text(f"{result[1]:.1f}" if result else ""),
        )  # fmt: skip
    return grid


def _describe(run: SweepRun) -> str:
    if run.state == "finished":
        seconds = run.seconds_so_far
        results = [*([f"{run.result[0].removesuffix(' %')} {run.result[1]:.1f}%"] if run.result else []),
                   *([format_duration(seconds)] if seconds else [])]  # fmt: skip
        return ", ".join(["finished", *results])
    if run.state == "waiting":
        return f"{'resumed' if run.num_lost and not run.num_failures else 'started again'} after: {run.reason}"
    if run.state == "queued":
        return "queued"
    if run.state == "running" and (run.num_lost or run.num_failures or run.steps):
        return "running again"  # from its last checkpoint, which may be earlier than its last progress
    return f"{run.state}: {run.reason}" if run.reason else run.state
