"""What worlds of a level really hold, counted: the facts behind every promise that a level's settings make."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from envgen.jit import jit

from ..validation import check_seed
from . import constants as t
from .engine import Engine
from .kernel import NO_VIEW
from .level import HeistLevel
from .maze import MASKS, MOST_CELLS
from .search import measure_ways

AT = {t.TAKE + 2 * k: t.KEY + k for k in range(t.KEYS)} | {t.OPEN + 2 * k: t.DOOR + k for k in range(t.KEYS)}
AT[t.STEAL] = t.GEM  # skill: what it is done to


class HeistLevelStats(NamedTuple):
    """Means over worlds. Moves are from cell to cell on the shortest way that keys and doors allow."""

    worlds: int
    cells: dict[str, float]  # of the maze, by kind
    possible: dict[str, float]  # by skill, the share of worlds whose maze has what it takes
    moves: dict[str, float | None]  # by skill, from the start, over the worlds where it is possible; None without any
    fewest: dict[str, int | None]  # the same, of the world where they are fewest

    def as_dict(self) -> dict[str, float]:
        """Each count; the moves each skill takes where any world has it; and the worlds that have it, in percent."""
        figures = {f"{name} per world": count for name, count in self.cells.items()}
        figures |= {f"moves to {skill}": moves for skill, moves in self.moves.items() if moves is not None}
        return figures | {f"worlds with {skill}, %": 100 * share for skill, share in self.possible.items()}

    def __str__(self) -> str:
        lines = [f"{'':16} {'moves':>7} {'in worlds':>9}   (means of {self.worlds} worlds)"]
        for skill, share in self.possible.items():
            moves = self.moves[skill]
            lines.append(f"{skill:16} {'-' if moves is None else f'{moves:.1f}':>7} {share:9.0%}")
        return "\n".join([*lines, "", *(f"{name:16} {count:7.1f}" for name, count in self.cells.items())])


def take_census(level: Any = None, seeds: Sequence[int] = range(16)) -> HeistLevelStats:
    """Make one world of the level per seed and count."""
    seeds = [check_seed(seed) for seed in seeds]
    if not seeds:
        raise ValueError("a census needs at least one seed")
    engine = Engine(len(seeds), [HeistLevel.parse(level)], False, NO_VIEW, threads=1)
    for i, seed in enumerate(seeds):
        engine.seed(i, seed)
    engine.reset(np.ones(len(seeds), np.bool_))
    ways = np.zeros((len(seeds), t.GEM + 1), np.int64)
    _measure(engine.envs, ways)
    names = {skill: t.SKILLS[skill].name for skill in sorted(AT)}
    there = {names[skill]: engine.envs["possible"][:, skill] != 0 for skill in names}
    moves = {names[skill]: ways[there[names[skill]], AT[skill]] for skill in names}
    free = np.pad(engine.envs["grid"] != t.WALL, ((0, 0), (1, 1), (1, 1)))
    beside = sum(np.roll(free, step, axis).astype(int) for step in (-1, 1) for axis in (1, 2))
    kinds = {"free cells": free, "forks": free & (beside > 2), "dead ends": free & (beside == 1)}
    return HeistLevelStats(
        worlds=len(seeds),
        cells={name: float(mask.sum((1, 2)).mean()) for name, mask in kinds.items()}
        | {"keys": _mean_of(there, "take"), "doors": _mean_of(there, "open")},
        possible={name: float(mask.mean()) for name, mask in there.items()},
        moves={name: float(of.mean()) if of.size else None for name, of in moves.items()},
        fewest={name: int(of.min()) if of.size else None for name, of in moves.items()},
    )


def _mean_of(there: dict[str, np.ndarray], what: str) -> float:
    return float(sum(mask.mean() for name, mask in there.items() if name.startswith(what)))


@jit
def _measure(envs, ways):
    cells = np.zeros(MOST_CELLS, np.uint8)
    queue, away = np.empty(MASKS * MOST_CELLS, np.int32), np.empty(MASKS * MOST_CELLS, np.int32)
    for i in range(envs.size):
        measure_ways(envs[i], cells, queue, away, ways[i])
