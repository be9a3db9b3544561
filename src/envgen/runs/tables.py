"""What a comparison looks like: tables in Markdown or for a terminal, a row for each group and one for each skill."""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

from .figures import Aggregate
from .kinds import Kind


@dataclass(frozen=True)
class Group:
    """Finished runs that differ in their seeds only. Of what one of them does not say, the group says None."""

    label: str
    plain: bool
    seeds: int
    parts: tuple[str, ...]  # the names of what its kind of run has rates of
    figures: Mapping[str, Aggregate | None]  # by the names of its kind's results and of these parts
    costs: tuple[str, ...]  # a text for each of its kind's costs, of means over the seeds

    @property
    def title(self) -> str:
        return f"{self.label} (n={self.seeds})"


@dataclass(frozen=True)
class Table:
    """The groups that learned one thing, the plain ones first, and why they may not compare."""

    about: str  # the name of a world or domain
    kind: Kind
    groups: tuple[Group, ...]
    warnings: tuple[str, ...]

    def results(self) -> list[list[str]]:
        """A row for each group."""
        return [[g.label, str(g.seeds), *(self.cell(g, name) for name in self.kind.results)] for g in self.groups]

    def parts(self, groups: Sequence[Group]) -> list[list[str]]:
        """A row for each part, of some of the groups."""
        names = dict.fromkeys(part for group in self.groups for part in group.parts)
        return [[name, *(self.cell(group, name) for group in groups)] for name in names]

    def cell(self, group: Group, name: str) -> str:
        """A figure as text, with a star if its interval lies wholly above that of every plain group."""
        mine, plain = group.figures.get(name), [one.figures.get(name) for one in self.groups if one.plain]
        if mine is None:
            return "-"
        return f"{mine}*" if plain and all(other and mine.is_above(other) for other in plain) else str(mine)

    def legend(self) -> str:
        starred = f"; * lies wholly above {self.kind.plain}" if any(group.plain for group in self.groups) else ""
        return f"Interquartile mean over seeds [95% bootstrap interval]{starred}. What runs took are means of a run."


@dataclass(frozen=True)
class Comparison:
    """A table for each world or domain, and the runs that are not finished and therefore count nowhere."""

    tables: tuple[Table, ...]
    unfinished: tuple[Path, ...]

    def markdown(self) -> str:
        parts = []
        for table in self.tables:
            parts += [f"## {table.about}", *(f"**Warning:** {_plainly(warning)}" for warning in table.warnings)]
            rows = [[*some, *group.costs] for some, group in zip(table.results(), table.groups, strict=True)]
            parts.append(markdown_table([table.kind.who, "seeds", *table.kind.results, *table.kind.costs], rows))
            parts.append(markdown_table([table.kind.parts, *(group.title for group in table.groups)], table.parts(table.groups)))
            parts.append(_plainly(table.legend()))
        return "\n\n".join([*parts, *self._rest()]) + "\n"

    def _rest(self) -> list[str]:
        none = [] if self.tables else ["No finished runs."]
        names = "\n".join(f"- {folder}" for folder in self.unfinished)
        return [*none, f"Not finished, left out:\n\n{names}"] if names else none

    def text(self, width: int = 80) -> str:
        """The same for a terminal: intervals below their figures, and the skills in as many blocks as it takes."""
        from rich.console import Console
        from rich.text import Text

        out = io.StringIO()
        console = Console(file=out, width=width, color_system=None, force_terminal=False)
        for table in self.tables:
            for line in (table.about, *(f"Warning: {warning}" for warning in table.warnings)):
                console.print(Text(line), end="\n\n")
            below = [[cell.replace(" [", "\n[") for cell in row] for row in table.results()]
            costs = [[group.label, *group.costs] for group in table.groups]
            who = table.kind.who
            blocks = [([who, "seeds", *table.kind.results], below), ([who, *table.kind.costs], costs)]
            for header, rows in [*blocks, *_blocks(table, width)]:
                console.print(_drawn(header, rows))
                console.print()
            console.print(Text(table.legend()), end="\n\n")
        for part in self._rest():
            console.print(Text(part), soft_wrap=True)
        return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").split("\n")) + "\n"


def _plainly(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("\n", " ")


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [[*map(_plainly, header)], ["---", *["--:"] * (len(header) - 1)], *([*map(_plainly, row)] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _drawn(header: list[str], rows: list[list[str]]) -> Any:
    """A table for rich. Only the first column may give way when all is too wide."""
    from rich import box
    from rich.table import Table as Drawing
    from rich.text import Text

    drawing = Drawing(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for k, name in enumerate(header):
        drawing.add_column(Text(name), justify="right" if k else "left", overflow="fold", vertical="top")
    for row in rows:
        drawing.add_row(*map(Text, row))
    return drawing


def _blocks(table: Table, width: int) -> Iterable[tuple[list[str], list[list[str]]]]:
    """The parts, with as many groups beside each other as fit."""
    rows = table.parts(table.groups)
    name = max(len(text) for text in (table.kind.parts, *(row[0] for row in rows)))
    cell = max(12, *(len(text) for row in rows for text in row[1:]))
    beside = max(1, (width - name) // (cell + 2))
    for at in range(0, len(table.groups), beside):
        groups = table.groups[at : at + beside]
        yield [table.kind.parts, *("\n".join(wrap(group.title, cell)) for group in groups)], table.parts(groups)
