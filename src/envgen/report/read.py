"""Read a run directory for a report: all that is readable of a finished, unfinished, interrupted or damaged run.

Only `open_run` raises because of a file's content. What else cannot be used is left out and named in `problems`.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from envgen.runs.files import check_inside, exists, open_regular
from envgen.runs.kinds import COEVOLVE, Kind, get_path, kind_of, number
from envgen.runs.store import RunError, read_entry, read_json

MAX_FILE_BYTES = 1 << 28  # of a file with one JSON value per line
MAX_CYCLES = 200


class LineReader:
    """Reads the JSON lines of a growing file, each line once."""

    def __init__(self, file: Path):
        self.file = file
        self.lines: list[dict[str, Any]] = []
        self.num_damaged = 0
        self._position, self._last = 0, b""  # the end of the last complete line, and that line

    def read(self) -> list[dict[str, Any]]:
        """All complete lines. A file that was truncated and rewritten is read from its start."""
        with open_regular(self.file, "rb") as stream:
            if os.fstat(stream.fileno()).st_size > MAX_FILE_BYTES:
                raise OSError(None, f"it has more than {MAX_FILE_BYTES:,} bytes")
            stream.seek(self._position - len(self._last))
            if stream.read(len(self._last)) != self._last:
                self.lines, self.num_damaged, self._position = [], 0, 0
                stream.seek(0)
            new = stream.read()
        new = new[: new.rfind(b"\n") + 1]
        texts = new.splitlines(keepends=True) if new else []
        for text in texts:
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                value = None
            if isinstance(value, dict):
                self.lines.append(value)
            else:
                self.num_damaged += 1
        if texts:
            self._position, self._last = self._position + len(new), texts[-1]
        return self.lines


@dataclass
class CycleFiles:
    """What the directory of a cycle holds; `{}` for a file that is missing."""

    number: int
    design: dict[str, Any]  # levels.json
    result: dict[str, Any]  # evaluation.json
    archive: dict[str, Any]  # archive.json


@dataclass
class RunFiles:
    """A run directory as a report reads it: files that are missing or damaged are left out."""

    folder: Path
    name: str
    entry: dict[str, Any]  # run.json
    problems: list[str] = field(default_factory=list)

    def add_problem(self, text: str) -> None:
        """Name something that cannot be used. A file that is read several times is named once."""
        if text not in self.problems:
            self.problems.append(text)

    @property
    def request(self) -> dict[str, Any]:
        return self.entry["request"]

    @property
    def kind(self) -> Kind:
        return kind_of(self.request)

    @property
    def is_coevolution(self) -> bool:
        return self.kind is COEVOLVE

    @property
    def task(self) -> str:
        """The name of the world or domain."""
        return as_text(self.request.get(self.kind.task_key))

    @property
    def seed(self) -> Any:
        return self.request.get("seed")

    @cached_property
    def summary(self) -> dict[str, Any]:
        """`{}` while the run is not finished."""
        return self.read_object("summary.json")

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of progress.jsonl."""
        return self.read_lines("progress.jsonl")

    @property
    def last_line(self) -> dict[str, Any]:
        """The last line of progress.jsonl; `{}` if there is none."""
        return self.lines[-1] if self.lines else {}

    @cached_property
    def cycles(self) -> list[CycleFiles]:
        folder = self.folder / "cycles"
        try:
            names = [entry.name for entry in folder.iterdir() if entry.name.isascii() and entry.name.isdigit()]
        except OSError:
            return []
        all_numbers = sorted({int(name) for name in names if len(name) < 9 and name == str(int(name))})
        numbers = all_numbers[:MAX_CYCLES]
        if len(all_numbers) > MAX_CYCLES:
            self.add_problem(f"{len(all_numbers) - MAX_CYCLES} cycles after the first {MAX_CYCLES}")
        return [
            CycleFiles(
                number,
                self.read_object(f"cycles/{number}/levels.json"),
                self.read_object(f"cycles/{number}/evaluation.json"),
                self.read_object(f"cycles/{number}/archive.json"),
            )
            for number in numbers
        ]

    @property
    def planned_steps(self) -> float | None:
        """Environment steps, or rollouts of a co-evolution."""
        if self.is_coevolution:
            return number(self.request, "plan", "rollouts")
        parts = [number(self.request, "plan", name) for name in ("cycles", "cycle_steps", "final_steps")]
        cycles, cycle_steps, final_steps = parts
        return None if cycles is None or cycle_steps is None else cycles * cycle_steps + (final_steps or 0)

    @property
    def steps(self) -> float:
        """Environment steps so far, or rollouts of a co-evolution."""
        key = "rollouts" if self.is_coevolution else "steps"
        reached = number(self.last_line, key)
        if reached is None and self.summary:
            if self.is_coevolution:
                return number(self.summary, "counts", "rollouts") or 0.0
            return sum(number(self.summary, "steps", part) or 0.0 for part in ("levels", "original"))
        return reached or 0.0

    @property
    def seconds(self) -> float | None:
        total = number(self.summary, "total_seconds" if self.is_coevolution else "seconds")
        if total is not None:
            return total
        if self.is_coevolution:
            return sum(sum(numbers(line, "seconds").values()) for line in self.lines)
        return sum(number(line, "seconds") or 0.0 for line in self.lines)

    def read_object(self, name: str) -> dict[str, Any]:
        """The JSON object in a file; `{}` if there is no such file."""
        file = self.folder / name
        if not exists(file):
            return {}
        try:
            check_inside(self.folder, file)
            value = read_json(file)
        except (RunError, OSError) as error:
            self.add_problem(str(error))
            return {}
        if isinstance(value, dict):
            return value
        self.add_problem(f"{name} does not hold a JSON object")
        return {}

    def read_lines(self, name: str) -> list[dict[str, Any]]:
        """The JSON objects in a file with one per line. The last line may be incomplete."""
        file = self.folder / name
        if not exists(file):
            return []
        try:
            check_inside(self.folder, file)
            reader = self._reader(name)
            lines = list(reader.read())
        except OSError as error:
            self.add_problem(f"cannot read {name}: {error.strerror}")
            return []
        if reader.num_damaged:
            total = len(lines) + reader.num_damaged
            lines_are = "line is" if total == 1 else "lines is" if reader.num_damaged == 1 else "lines are"
            self.add_problem(f"{name}: {reader.num_damaged} of {total} {lines_are} damaged and left out")
        return lines

    def _reader(self, name: str) -> LineReader:
        return LineReader(self.folder / name)


def open_run(folder: Path, name: str) -> RunFiles:
    """Raises RunError if the directory holds no run of this format."""
    return RunFiles(folder, name, read_entry(folder))


# --- values of any type, as JSON gives them


def numbers(value: Any, *path: str) -> dict[str, float]:
    """The finite numbers of the mapping at a path, by name."""
    mapping = get_path(value, *path) if path else value
    items = mapping.items() if isinstance(mapping, Mapping) else ()
    return {str(name): result for name, item in items if (result := number(item)) is not None}


def objects(value: Any, *path: str) -> list[dict[str, Any]]:
    """The JSON objects of the list at a path; what else it holds becomes `{}`, so that positions stay the same."""
    items = get_path(value, *path) if path else value
    return [item if isinstance(item, dict) else {} for item in items] if isinstance(items, list) else []


def texts(value: Any, *path: str) -> list[str]:
    items = get_path(value, *path) if path else value
    return [as_text(item) for item in items] if isinstance(items, list) else []


def as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return "" if value is None else json.dumps(value)
    except (ValueError, RecursionError):
        return "(not readable)"


def estimate(value: Any, *path: str) -> tuple[float, float | None, float | None] | None:
    """The number at a path with its interval, as evaluations hold it."""
    mapping = get_path(value, *path)
    middle = number(mapping, "value")
    return None if middle is None else (middle, number(mapping, "low"), number(mapping, "high"))


def counts(values: Any, length: int) -> list[float] | None:
    """A list of this many numbers, else None."""
    if not isinstance(values, list) or len(values) != length:
        return None
    checked = [number(value) for value in values]
    return None if None in checked else [value for value in checked if value is not None]


def iter_points(points: Sequence[tuple[float | None, float | None]]) -> Iterator[tuple[float, float]]:
    """The points that have both coordinates."""
    for x, y in points:
        if x is not None and y is not None:
            yield x, y
