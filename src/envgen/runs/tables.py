"""Tables of a comparison, as Markdown or for a terminal: one row per group, and one per skill."""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from envgen.text import plural, printable

from .kinds import Kind
from .statistics import Aggregate

MIN_STAR_SEEDS = 8
MAX_TITLE_WIDTH = 20  # characters; longer titles are wrapped
MARKUP = re.compile(r"[\\`*|<]|(?<=\])\(")  # Markdown syntax in a cell, including the `](` of a link


@dataclass(frozen=True)
class Group:
    """Finished runs that differ only in their seeds. A value that one of them lacks is None for the group."""

    label: str
    is_baseline: bool
    folders: tuple[Path, ...]
    """The run directory of each seed."""
    rate_names: tuple[str, ...]
    """The skills or task features whose rates the runs report."""
    aggregates: Mapping[str, Aggregate | None]
    """By the kind's result columns and by `rate_names`."""
    costs: tuple[str, ...]
    """One text per cost of the kind: means over the seeds."""

    @property
    def num_seeds(self) -> int:
        return len(self.folders)

    @property
    def title(self) -> str:
        return f"{self.label} (n={self.num_seeds})"


@dataclass(frozen=True)
class Table:
    """The groups that learned the same world or domain, baseline first, and warnings about unequal settings."""

    task: str
    """The name of the world or domain."""
    kind: Kind
    groups: tuple[Group, ...]
    warnings: tuple[str, ...]

    def result_rows(self) -> list[list[str]]:
        """Return one row per group."""
        return [
            [group.label, str(group.num_seeds), *(self.cell(group, name) for name in self.kind.results)]
            for group in self.groups
        ]

    def rate_rows(self, groups: Sequence[Group]) -> list[list[str]]:
        """Return one row per skill or task feature, with a column for each of `groups`."""
        names = dict.fromkeys(name for group in self.groups for name in group.rate_names)
        return [[name, *(self.cell(group, name) for group in groups)] for name in names]

    def cell(self, group: Group, name: str) -> str:
        """Format an aggregate, with a star if its interval lies entirely above that of every baseline group.

        Groups with fewer than MIN_STAR_SEEDS seeds get no star: their bootstrap interval is little more than the range
        of the seeds.
        """
        aggregate = group.aggregates.get(name)
        if aggregate is None:
            return "-"
        baselines = [other.aggregates.get(name) for other in self.groups if other.is_baseline]
        is_better = baselines and all(baseline and aggregate.is_above(baseline) for baseline in baselines)
        return f"{aggregate}*" if is_better and self._can_have_star(group) else str(aggregate)

    def _can_have_star(self, group: Group) -> bool:
        baseline_seeds = [other.num_seeds for other in self.groups if other.is_baseline]
        return bool(baseline_seeds) and min(group.num_seeds, *baseline_seeds) >= MIN_STAR_SEEDS

    def legend(self) -> str:
        has_stars = any(self._can_have_star(group) for group in self.groups if not group.is_baseline)
        labels = [group.label for group in self.groups if group.is_baseline]
        baselines = f"that of the baseline {labels[0]}" if len(labels) == 1 else f"those of {' and '.join(labels)}"
        star = f"; * interval entirely above {baselines}" if has_stars else ""
        few = min((group.num_seeds for group in self.groups), default=0) < MIN_STAR_SEEDS
        note = f" With fewer than {MIN_STAR_SEEDS} seeds, these intervals are too narrow." if few else ""
        return f"Interquartile mean over seeds [95% bootstrap interval]{star}.{note} Costs are means per run."


@dataclass(frozen=True)
class Comparison:
    """One table per world or domain, and the unfinished runs, which are left out."""

    tables: tuple[Table, ...]
    """A table per world or domain."""
    unfinished: tuple[Path, ...]
    """The directories of runs that have not finished, which no table includes."""

    def markdown(self) -> str:
        """The tables as Markdown, with warnings and the unfinished runs."""
        parts = []
        for table in self.tables:
            kind = table.kind
            warnings = (f"**Warning:** {escape_markdown(warning)}" for warning in table.warnings)
            parts += [f"## {escape_markdown(table.task)}", *warnings]
            rows = [[*row, *group.costs] for row, group in zip(table.result_rows(), table.groups, strict=True)]
            parts.append(markdown_table([kind.group_key, "seeds", *kind.results, *kind.costs], rows))
            titles = [group.title for group in table.groups]
            parts.append(markdown_table([kind.row_label, *titles], table.rate_rows(table.groups)))
            parts.append(escape_markdown(table.legend()))
        return "\n\n".join([*parts, *self._notes(escape_markdown)]) + "\n"

    def _notes(self, escape: Callable[[str], str]) -> list[str]:
        notes = [] if self.tables else ["No finished runs."]
        names = "\n".join(f"- {escape(printable(str(folder)))}" for folder in self.unfinished)
        return [*notes, f"Not finished, left out:\n\n{names}"] if names else notes

    def __repr__(self) -> str:
        groups = [group for table in self.tables for group in table.groups]
        tasks, num_runs = len(self.tables), sum(group.num_seeds for group in groups)
        counts = f"{plural(num_runs, 'finished run')} in {plural(len(groups), 'group')}"
        names = (
            ", ".join(printable(table.task) for table in self.tables) if tasks <= 3 else f"{tasks} worlds or domains"
        )
        return f"<Comparison: {counts}{f' ({names})' if names else ''}, {len(self.unfinished)} not finished>"

    def __str__(self) -> str:
        return self.text()

    def _repr_markdown_(self) -> str:
        """Tables in notebooks."""
        return self.markdown()

    def text(self, width: int = 80) -> str:
        """Format for a terminal, with intervals below their values and skills in as many blocks as needed."""
        from rich.console import Console
        from rich.text import Text

        out = io.StringIO()
        console = Console(file=out, width=width, color_system=None, force_terminal=False, force_jupyter=False)
        for table in self.tables:
            for line in (table.task, *(f"Warning: {warning}" for warning in table.warnings)):
                console.print(Text(line), end="\n\n")
            kind = table.kind
            results = [[cell.replace(" [", "\n[") for cell in row] for row in table.result_rows()]
            costs = [[group.label, *group.costs] for group in table.groups]
            blocks = [
                ([kind.group_key, "seeds", *kind.results], results),
                ([kind.group_key, *kind.costs], costs),
                *_rate_blocks(table, width),
            ]
            for header, rows in blocks:
                console.print(rich_table(header, rows))
                console.print()
            console.print(Text(table.legend()), end="\n\n")
        for note in self._notes(str):
            console.print(Text(note), soft_wrap=True)
        text = printable(out.getvalue().strip("\n"), keep="\n")
        return "\n".join(line.rstrip() for line in text.split("\n")) + "\n"


def escape_markdown(text: str) -> str:
    """Markdown that shows this text as it is. A name in someone else's run directory cannot become HTML or markup."""
    return MARKUP.sub(lambda match: f"\\{match[0]}", printable(text))


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    lines = [
        [*map(escape_markdown, header)],
        ["---", *["--:"] * (len(header) - 1)],
        *([*map(escape_markdown, row)] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rich_table(header: list[str], rows: list[list[str]]) -> Any:
    """Return a table for rich. Only the first column shrinks when the table is too wide."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for column, name in enumerate(header):
        table.add_column(Text(name), justify="right" if column else "left", overflow="fold", vertical="top")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _rate_blocks(table: Table, width: int) -> Iterable[tuple[list[str], list[list[str]]]]:
    """Yield the table of rates in blocks of as many groups as fit side by side."""
    kind, rows = table.kind, table.rate_rows(table.groups)
    name_width = max(len(text) for text in (kind.row_label, *(row[0] for row in rows)))
    title_width = min(MAX_TITLE_WIDTH, max(len(group.title) for group in table.groups))
    cell_width = max([title_width, *(len(text) for row in rows for text in row[1:])])
    num_columns = max(1, (width - name_width) // (cell_width + 2))
    for start in range(0, len(table.groups), num_columns):
        groups = table.groups[start : start + num_columns]
        titles = ["\n".join(wrap(group.title, cell_width)) for group in groups]
        yield [kind.row_label, *titles], table.rate_rows(groups)
