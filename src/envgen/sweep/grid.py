"""Which runs a sweep consists of: turns a TOML file or flags into a list of runs, each with a name and options.

A run is named after the options in which it differs from the others: `designer=expert,seed=3`.
"""

import hashlib
import itertools
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envgen.errors import EnvgenError
from envgen.settings import format_choice_error

Value = str | bool | tuple[str, ...]  # words after an option; True and False are `--option` and `--no-option`

COMMANDS = {"train": "world", "coevolve": "domain"}  # with their positional argument
RESERVED = {
    "folder": "every run has a folder of its own in that of the sweep",
    "resume": "repeat the command of the sweep to continue its runs",
    "extend": "extend single runs with envgen train --extend",
    "shared-budget": "give the sweep a budget instead",
}
TABLES = ("base", "grid", "runs")
RANGE = re.compile(r"(-?\d+):(-?\d+)(?::(\d+))?")
MAX_RUNS = 10_000
MAX_DIGITS = 15  # of the numbers of a range
MAX_NAME_CHARS = 120
UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")


class SweepError(EnvgenError):
    """A sweep is not described correctly, or its folder does not fit it. The message says what to change."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep."""

    name: str  # of its folder
    command: str  # of `envgen`: train or coevolve
    options: Mapping[str, Value]  # as on the command line, with hyphens

    def args(self) -> list[str]:
        """The words after `envgen train` or `envgen coevolve`."""
        words: list[str] = []
        for option, value in self.options.items():
            if option == COMMANDS[self.command]:
                words.insert(0, str(value))
            elif isinstance(value, bool):
                words.append(f"--{option}" if value else _negated(option))
            elif isinstance(value, tuple):
                words += [f"--{option}", *value]
            elif value.startswith("-"):  # a negative number or another value, not an option
                words.append(f"--{option}={value}")
            else:
                words += [f"--{option}", value]
        return words


@dataclass
class SweepSpec:
    """The runs of a sweep before they are named."""

    command: str = "train"
    base: dict[str, Value] = field(default_factory=dict)
    grids: list[dict[str, list[Value]]] = field(default_factory=list)
    runs: list[dict[str, Value]] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)  # of the sweep itself

    def planned_runs(self) -> list[PlannedRun]:
        """All runs: the product of each grid, then the explicit ones."""
        grids = self.grids or ([] if self.runs else [{}])
        count = sum(math.prod(len(values) for values in grid.values()) for grid in grids) + len(self.runs)
        if count > MAX_RUNS:
            raise SweepError(f"this sweep has {count:,} runs, more than {MAX_RUNS:,}; use fewer values")
        changes: list[dict[str, Value]] = [
            dict(zip(grid, values, strict=True)) for grid in grids for values in itertools.product(*grid.values())
        ]
        options = [self.base | change for change in [*changes, *self.runs]]
        names = name_runs(options)
        for name, number in Counter(names).items():
            if number > 1:
                raise SweepError(f"{number} runs of this sweep have the same options ({name}); leave one of them out")
        first: dict[frozenset[tuple[str, Any]], str] = {}
        for name, run in zip(names, options, strict=True):
            other = first.setdefault(frozenset((option, _as_number(value)) for option, value in run.items()), name)
            if other != name:
                raise SweepError(f"{other} and {name} have the same settings; leave one of them out")
        return [PlannedRun(name, self.command, run) for name, run in zip(names, options, strict=True)]


def name_runs(runs: Sequence[Mapping[str, Value]]) -> list[str]:
    """Name each run after the options in which the runs differ. Runs with the same options get the same name."""
    keys = list(dict.fromkeys(key for options in runs for key in options))
    differing = [key for key in keys if len({options.get(key) for options in runs}) > 1]
    readable = [
        ",".join(f"{key}={_as_name(options[key])}" for key in differing if key in options) or "run" for options in runs
    ]
    identities = [repr(sorted(options.items())) for options in runs]
    # file systems may not distinguish upper and lower case
    counts = Counter(name.lower() for name, _ in set(zip(readable, identities, strict=True)))
    clashes = {name for name in readable if counts[name.lower()] > 1}
    names = []
    for name, identity in zip(readable, identities, strict=True):
        if name in clashes or len(name) > MAX_NAME_CHARS:
            name = f"{name[: MAX_NAME_CHARS - 9]}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"
        names.append(name)
    return names


def _as_name(value: Value) -> str:
    words = (str(value).lower(),) if isinstance(value, bool) else (value,) if isinstance(value, str) else value
    return "+".join(UNSAFE.sub("-", word).strip("-") or "-" for word in words)


def _as_number(value: Value) -> int | float | Value:
    """The number that a value stands for, such as 0.0001 for 1e-4; other values as they are."""
    for kind in (int, float):
        if isinstance(value, str):
            with suppress(ValueError):
                return kind(value)
    return str(value) if isinstance(value, bool) else value  # True would equal 1


def _negated(option: str) -> str:
    group, _, name = option.rpartition(".")
    return f"--{group}.no-{name}" if group else f"--no-{name}"


def _find_given(option: str, given: Iterable[str]) -> str | None:
    """The option itself or its negation, if one of them is given."""

    def positive(name: str) -> str:
        group, dot, last = name.rpartition(".")
        return f"{group}{dot}{last.removeprefix('no-')}"

    return next((other for other in given if positive(other) == positive(option)), None)


# --------------------------------------------------------------------------------------------------------------- flags


def parse_flags(words: Sequence[str], positional: Sequence[str] = (), command: str = "train") -> SweepSpec:
    """The runs of `envgen sweep crafter --designer none,expert --seed 0:5`.

    Several values are separated by commas; `0:5` are the integers from 0 to 4. An option without a value is a flag.
    """
    spec = SweepSpec(command)
    given: dict[str, list[Value]] = {}
    if positional:
        given[COMMANDS[command]] = _split(COMMANDS[command], positional)
    option: str | None = None
    arguments: list[str] = []

    def finish() -> None:
        if option is not None:
            given[_check_option(option, given)] = _split(option, arguments)

    for word in words:
        if word.startswith("--"):
            finish()
            option, equals, value = word.removeprefix("--").replace("_", "-").partition("=")
            value = word.partition("=")[2] if equals else value
            arguments = [value] if equals else []
        else:
            arguments.append(word)
    finish()
    spec.base = {key: values[0] for key, values in given.items() if len(values) == 1}
    spec.grids = [{key: values for key, values in given.items() if len(values) > 1}]
    return spec


def _check_option(option: str, given: Mapping[str, Any]) -> str:
    if option in RESERVED:
        raise SweepError(f"--{option} is not an option of the runs of a sweep: {RESERVED[option]}")
    if option in given:
        raise SweepError(f"--{option} is given twice; separate its values by commas")
    if (other := _find_given(option, given)) is not None:
        raise SweepError(f"--{option} contradicts --{other}; leave one of them out")
    return option


def _split(option: str, words: Sequence[str]) -> list[Value]:
    """The values of an option, each of which gives other runs."""
    if not words:
        return [True]
    if len(words) > 1:
        return [tuple(words)]
    values: list[Value] = []
    for word in words[0].split(","):
        if not word:
            raise SweepError(f"--{option} {words[0]} has an empty value; separate values by single commas")
        values += expand_range(option, word) or [{"true": True, "false": False}.get(word.lower(), word)]
    return _unique(option, values)


def expand_range(option: str, text: str) -> list[Value]:
    """`0:5` and `0:10:2` as integers, the end excluded; empty for other values."""
    match = RANGE.fullmatch(text)
    if match is None:
        return []
    if max(map(len, match.groups(default=""))) > MAX_DIGITS:
        raise SweepError(f"--{option} {text[:40]} has numbers of more than {MAX_DIGITS} digits")
    step = int(match[3] or 1)
    if step < 1:
        raise SweepError(f"--{option} {text}: the step must be at least 1")
    numbers = range(int(match[1]), int(match[2]), step)
    if not 0 < len(numbers) <= MAX_RUNS:
        raise SweepError(
            f"--{option} {text} has {len(numbers):,} values; write FIRST:END, with the end excluded, for 1 to "
            f"{MAX_RUNS:,} values"
        )
    return [str(number) for number in numbers]


def _unique(option: str, values: list[Value]) -> list[Value]:
    for value, count in Counter(values).items():
        if count > 1:
            raise SweepError(f"{option} lists {value} {count} times; list every value once")
    return values


# ---------------------------------------------------------------------------------------------------------------- TOML


def read_toml(file: Path, settings: Sequence[str]) -> SweepSpec:
    """Read a sweep from a TOML file.

    Args:
        settings: Names of the settings of the sweep itself, which the file may have at its top.
    """
    try:
        data = tomllib.loads(file.read_bytes().decode())
    except OSError as error:
        raise SweepError(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SweepError(f"{file} is not valid TOML: {error}") from None
    known = [*settings, "command", *TABLES]
    for key in data:
        if key not in known:
            raise SweepError(f"{file}: {format_choice_error(key, known)}; options of runs belong in [base] or [grid]")
    command = data.get("command", "train")
    if not isinstance(command, str) or command not in COMMANDS:
        raise SweepError(f"{file}: command {format_choice_error(str(command), list(COMMANDS))}")
    grids, runs = data.get("grid", []), data.get("runs", [])
    grids = [grids] if isinstance(grids, dict) else grids
    for name, tables in (("base", [data.get("base", {})]), ("grid", grids), ("runs", runs)):
        if not (isinstance(tables, list) and all(isinstance(table, dict) for table in tables)):
            expected = f"a table, [{name}]" if name == "base" else f"written as [[{name}]]"
            raise SweepError(f"{file}: {name} must be {expected}")
    return SweepSpec(
        command,
        {option: _to_value(file, option, value) for option, value in _options(file, data.get("base", {})).items()},
        [{option: _to_values(file, option, value) for option, value in _options(file, grid).items()} for grid in grids],
        [{option: _to_value(file, option, value) for option, value in _options(file, run).items()} for run in runs],
        {key: data[key] for key in data if key in settings},
    )


def _options(file: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a table. Each may be given once, by its name or by its negation."""
    options: dict[str, Any] = {}
    for option, value in _flatten(file, table):
        if (given := _find_given(option, options)) is not None:
            names = option if given == option else f"{option}, also as {given},"
            raise SweepError(f"{file}: {names} is given twice in a table; leave one of them out")
        options[option] = value
    return options


def _flatten(file: Path, table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Options with their values. A table within a table is a group of options, as is a dot in a name."""
    for key, value in table.items():
        option = prefix + key.replace("_", "-")
        if option in RESERVED:
            raise SweepError(f"{file}: {option} is not an option of the runs of a sweep: {RESERVED[option]}")
        if isinstance(value, dict):
            yield from _flatten(file, value, f"{option}.")
        else:
            yield option, value


def _to_value(file: Path, option: str, value: Any) -> Value:
    """One value. A list is an option with several words."""
    if isinstance(value, list):
        return tuple(_to_word(file, option, item) for item in value)
    return value if isinstance(value, bool) else _to_word(file, option, value)


def _to_values(file: Path, option: str, value: Any) -> list[Value]:
    if isinstance(value, str) and (numbers := expand_range(option, value)):
        return numbers
    if not isinstance(value, list) or not value:
        raise SweepError(f"{file}: {option} in [grid] must be a list of values or a range such as '0:5', not {value!r}")
    return _unique(option, [_to_value(file, option, item) for item in value])


def _to_word(file: Path, option: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise SweepError(f"{file}: {option} must be a string, a number, true or false, not {value!r:.60}")
    return str(value)
