"""reasoning-gym, held to what a domain promises: no reply is evaluated as code, nothing goes on for ever, and nothing
outside is touched or matters.
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

EVENTS = 2_000_000  # calls and returns of Python functions, about a second; few items take a hundredth
_alone = threading.Lock()  # standard output and the global generators are of all threads


class EvaluatesReplies(Exception):
    """A scorer was about to compile a reply as Python, which is never done here."""


class Endless(BaseException):
    """Some code made too many calls. No Exception, as code that tries again and again would catch that."""


class _Scoring(threading.local):
    now = False
    refused = False
    own: frozenset[str] = frozenset()


_scoring = _Scoring()


def package() -> Any:
    """Its factory: `DATASETS` by name, each a class and its configuration's, and `CURRICULA`."""
    try:
        return importlib.import_module("reasoning_gym.factory")
    except ImportError:
        raise ImportError("the domains gym:... need reasoning-gym: pip install 'envgen[gym]'") from None


def score(dataset: Any, entry: Any, reply: str) -> float:
    """What a dataset's own scorer says of a reply, whatever that is; nine of them pass replies to `eval`.

    So while a scorer runs in a thread, nothing is compiled there but files that are imported and what the generator
    itself wrote. A scorer that catches the exception, as most do, goes on as if the reply were no Python;
    EvaluatesReplies is then raised at its end, unless it has found the reply right by other means.
    """
    _watch()
    texts = (entry["answer"], *entry["metadata"].values())
    _scoring.now, _scoring.refused, _scoring.own = True, False, frozenset(x for x in texts if isinstance(x, str))
    try:
        with _bounded():
            worth = float(dataset.score_answer(reply, entry))
    finally:
        _scoring.now = False
    if _scoring.refused and worth != 1:
        raise EvaluatesReplies("its scorer would evaluate replies as code")
    return worth


@cache
def _watch() -> None:
    """Audit hooks see every eval, exec and compile, whoever calls it; one can never be removed."""
    sys.addaudithook(_refuse_code)


def _refuse_code(event: str, args: tuple[Any, ...]) -> None:
    if event == "compile" and _scoring.now and str(args[1]).startswith("<"):  # "<string>": no file
        source = args[0].decode(errors="replace") if isinstance(args[0], bytes) else args[0]
        if source in _scoring.own:
            return
        _scoring.refused = True
        raise EvaluatesReplies


@contextmanager
def _bounded() -> Iterator[None]:
    """Raise Endless in code that makes more calls than EVENTS: unlike seconds, these are the same on every machine.
    Some generators look for ever for an item that their own bounds make impossible. What is printed is not shown.
    """
    left, profile, hook = EVENTS, sys.getprofile(), sys.unraisablehook

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Endless  # and nothing is counted any more

    def lost(unraisable: Any) -> None:
        """It was raised while an object was deleted, where exceptions come to nothing: count again, near the end."""
        nonlocal left
        if unraisable.exc_type is not Endless:
            return hook(unraisable)
        left = 1000
        sys.setprofile(count)

    with _alone, redirect_stdout(io.StringIO()):
        sys.unraisablehook = lost
        sys.setprofile(count)
        try:
            yield
        finally:
            sys.setprofile(profile if callable(profile) else None)  # cProfile's is not, and ends here
            sys.unraisablehook = hook


@contextmanager
def apart(seed: int) -> Iterator[None]:
    """For code that makes items: bounded, and the global random generators, that some of it draws from and some of it
    seeds, are seeded for it and given back as they were.
    """
    with _bounded():
        states = random.getstate(), np.random.get_state()
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
