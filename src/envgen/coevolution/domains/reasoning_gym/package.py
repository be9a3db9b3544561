"""Safe access to reasoning-gym: no reply is evaluated as code, no call runs forever, and no global state leaks.

The package's generators and scorers were written by many authors. Some pass replies to `eval`, some search forever for
an item that their parameters rule out, and some seed or use the global random generators.
"""

import importlib
import io
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from typing import Any

import numpy as np

CALL_BUDGET = 2_000_000  # calls and returns of Python functions, about a second; most items need a hundredth
_lock = threading.Lock()  # standard output and the global random generators are shared by all threads


class UnsafeScorerError(Exception):
    """The scorer tried to compile a reply as Python code."""


class CallBudgetExceeded(BaseException):
    """Code made too many calls. Not an Exception, because code that retries would catch one."""


class _ScoringState(threading.local):
    is_scoring = False
    refused = False
    allowed_sources: frozenset[str] = frozenset()


_scoring = _ScoringState()


def load_factory() -> Any:
    """The module `reasoning_gym.factory`: `DATASETS` (class and config class by name) and `CURRICULA`."""
    try:
        return importlib.import_module("reasoning_gym.factory")
    except ImportError:
        raise ImportError(
            "the domains reasoning_gym:<generator> need the package reasoning-gym: pip install 'envgen[reasoning-gym]'"
        ) from None


def score(dataset: Any, entry: Any, reply: str) -> float:
    """The score that a dataset's own scorer gives a reply; nine scorers pass replies to `eval`.

    While a scorer runs, its thread may compile only imported files and what the generator itself wrote. Most scorers
    catch the exception and continue as if the reply were not Python.

    Raises:
        UnsafeScorerError: The scorer tried to compile the reply, and did not accept it in any other way.
    """
    _install_audit_hook()
    sources = (entry["answer"], *entry["metadata"].values())
    _scoring.is_scoring, _scoring.refused = True, False
    _scoring.allowed_sources = frozenset(source for source in sources if isinstance(source, str))
    try:
        with _call_budget():
            result = float(dataset.score_answer(reply, entry))
    finally:
        _scoring.is_scoring = False
    if _scoring.refused and result != 1:
        raise UnsafeScorerError("its scorer would evaluate replies as code")
    return result


@cache
def _install_audit_hook() -> None:
    """An audit hook sees every eval, exec and compile of the process. It can never be removed."""
    sys.addaudithook(_refuse_to_compile)


def _refuse_to_compile(event: str, args: tuple[Any, ...]) -> None:
    if event == "compile" and _scoring.is_scoring and str(args[1]).startswith("<"):  # "<string>": not a file
        source = args[0].decode(errors="replace") if isinstance(args[0], bytes) else args[0]
        if source in _scoring.allowed_sources:
            return
        _scoring.refused = True
        raise UnsafeScorerError


@contextmanager
def _call_budget() -> Iterator[None]:
    """Raise CallBudgetExceeded in code that makes more than CALL_BUDGET calls, and discard what it prints.

    Unlike a time limit, the number of calls is the same on every machine.
    """
    remaining, profile, unraisable_hook = CALL_BUDGET, sys.getprofile(), sys.unraisablehook

    def count_call(*_: Any) -> None:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            raise CallBudgetExceeded  # Python then uninstalls the profile function

    def resume_counting(unraisable: Any) -> None:
        """Count again, with a small budget, if the exception was raised and lost in an object's `__del__`."""
        nonlocal remaining
        if unraisable.exc_type is not CallBudgetExceeded:
            return unraisable_hook(unraisable)
        remaining = 1000
        sys.setprofile(count_call)

    with _lock, redirect_stdout(io.StringIO()):
        sys.unraisablehook = resume_counting
        sys.setprofile(count_call)
        try:
            yield
        finally:
            sys.setprofile(profile if callable(profile) else None)  # cProfile's is not callable and cannot be restored
            sys.unraisablehook = unraisable_hook


@contextmanager
def isolated_rng(seed: int) -> Iterator[None]:
    """Run code that generates items: with a call budget, and with seeded global random generators.

    Some of it draws from the global generators and some of it seeds them; their states are restored afterwards.
    """
    with _call_budget():
        python_state, numpy_state = random.getstate(), np.random.get_state()
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
