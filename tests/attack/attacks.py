"""Attacks on the project: hostile inputs, interruptions and wrong calls, in large numbers.

An attack is a generator in a module `attack_*.py` of this folder. For each case it yields what failed, or an empty
text if the project passed: it continued correctly or refused with an error of its own.

    @attack("mutated replies", full=10_000, short=100)
    def mutated_replies(count: int, rng: random.Random) -> Iterator[str]:
        for _ in range(count):
            yield ...

`make attack` (run.py) runs the `full` number of cases; the tests run the `short` one, which is the same every time.
`make soak` runs the modules `soak_*.py`, in which the cases are steps of the worlds, and the interruptions.
"""

import atexit
import json
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from envgen.errors import EnvgenError

FOLDER = Path(__file__).resolve().parent
# folders with modules that the attacks use
HELPERS = ("", "agents", "coevolution", "curriculum", "designers", "designers/chat", "worlds", "../benchmarks")
SUITES = {"attack": ("attack_*.py",), "soak": ("soak_*.py", "attack_interruptions.py")}
MAX_FAILURES = 20  # of an attack that are described


@dataclass(frozen=True)
class Attack:
    """An attack, and how many cases of it `make attack` and the tests run."""

    name: str
    make: Callable[[int, random.Random], Iterator[str]]
    full: int
    short: int

    def run(self, count: int, seed: int = 0, seconds: float = float("inf")) -> "Result":
        """Run at least `count` cases, unless they take longer than `seconds`."""
        num_cases, failures, start = 0, list[str](), time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for failure in self.make(count, random.Random(f"{self.name} {seed}")):
                num_cases += 1
                failures += [failure] if failure else []
                if time.monotonic() - start > seconds:
                    break
        return Result(self.name, num_cases, failures)


@dataclass(frozen=True)
class Result:
    name: str
    num_cases: int
    failures: list[str]


ATTACKS: list[Attack] = []


def attack(name: str, full: int, short: int) -> Callable[[Callable[[int, random.Random], Iterator[str]]], Attack]:
    """Register a generator as an attack. With `short` 0 the tests leave it out."""

    def register(make: Callable[[int, random.Random], Iterator[str]]) -> Attack:
        registered = Attack(name, make, full, short)
        ATTACKS.append(registered)
        return registered

    return register


def load_attacks(suite: str = "attack") -> list[Attack]:
    """Import the attacks of a suite."""
    for name in HELPERS:
        if (folder := str(FOLDER.parent / name)) not in sys.path:
            sys.path.append(folder)
    modules = [file.stem for pattern in SUITES[suite] for file in sorted(FOLDER.glob(pattern))]
    for module in modules:
        import_module(module)
    return [attack for attack in ATTACKS if attack.make.__module__ in modules]


Errors = tuple[type[BaseException], ...]


def try_call(description: str, call: Callable[[], object], allowed: Errors = (EnvgenError,), limit: int = 60) -> str:
    """Call a function. It passes if it returns, or raises an `allowed` error with a message, within `limit` seconds.

    Returns what failed, or an empty text.
    """
    try:
        with time_limit(limit):
            call()
    except allowed as error:
        if not str(error).strip():
            return f"{description}: {type(error).__name__} without a message"
        if isinstance(error, EnvgenError) and "\n" in str(error):
            return f"{description}: a message of several lines: {error!s:.300}"
    except Exception as error:  # noqa: BLE001  any other error is the failure that is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{description}: {error!r:.200} in {Path(last.filename).name}:{last.lineno}"
    return ""


class Hang(BaseException):
    """A call did not end within its limit."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise an error in calls that hang. Only the main thread can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise Hang

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    except Hang:
        raise RuntimeError(f"it did not end within {seconds} seconds") from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


@cache
def work_folder() -> Path:
    """A folder for what attacks write, removed at exit."""
    folder = Path(tempfile.mkdtemp(prefix="envgen-attack-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


WRONG_VALUES = (
    None, True, -1, 3, 2.5, 1e308, float("nan"), 10**400, "", "text", "5", "\x00", "\u202e", "../..", [], [[]],
    [1, "a"], {}, {"": {}}, {"name": "llm"}, "module:Class", ["x"] * 1000,
)  # fmt: skip


def places(value: object) -> list[tuple[object, object]]:
    """Every place in a JSON value, as its container and its key or index."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *places(value[key]))]  # type: ignore[index]


def change_json(text: str, rng: random.Random) -> str:
    """JSON with one value replaced or removed."""
    document = {"document": json.loads(text)}
    holder, key = rng.choice(places(document))
    if rng.random() < 0.2 and holder is not document:
        del holder[key]  # type: ignore[attr-defined]
    else:
        holder[key] = rng.choice(WRONG_VALUES)  # type: ignore[index]
    return json.dumps(document["document"])
