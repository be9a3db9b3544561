"""Statistics of the mazes that a level generates, the skills that they allow, and a level that teaches each skill."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from envgen.jit import jit

from ..validation import check_stats_seeds
from . import constants as const
from .engine import Engine
from .level import TOP_SPEED, HeistLevel
from .maze import MAX_CELLS, NUM_KEY_SETS, compute_moves

_COLOR_IDS = range(const.NUM_COLORS)
SKILL_CELLS = {  # skill: the content of the cell that it acts on
    **{const.TAKE_KEY + 2 * color: const.KEY + color for color in _COLOR_IDS},
    **{const.OPEN_DOOR + 2 * color: const.DOOR + color for color in _COLOR_IDS},
    const.STEAL_GEM: const.GEM,
}


class HeistLevelStats(NamedTuple):
    """Means over generated mazes. Moves are from cell to cell on the shortest path that keys and doors allow."""

    num_mazes: int
    cells: dict[str, float]  # mean count by kind
    possible: dict[str, float]  # by skill, the fraction of mazes that allow it
    mean_moves: dict[str, float | None]  # by skill, from the start, where it is possible; None if it never is
    min_moves: dict[str, int | None]  # the same, in the maze where it takes the fewest moves

    def as_dict(self) -> dict[str, float]:
        """Each count, the mean moves to each skill that is ever possible, and the percentage of mazes that allow it."""
        stats = {f"{name} per world": count for name, count in self.cells.items()}
        stats |= {f"moves to {skill}": moves for skill, moves in self.mean_moves.items() if moves is not None}
        return stats | {f"worlds with {skill}, %": 100 * fraction for skill, fraction in self.possible.items()}

    def __str__(self) -> str:
        lines = [f"{'':16} {'moves':>7} {'in mazes':>9}   (means of {self.num_mazes} mazes)"]
        for skill, fraction in self.possible.items():
            moves = self.mean_moves[skill]
            lines.append(f"{skill:16} {'-' if moves is None else f'{moves:.1f}':>7} {fraction:9.0%}")
        return "\n".join([*lines, "", *(f"{name:16} {count:7.1f}" for name, count in self.cells.items())])


def compute_level_stats(level: Any = None, seeds: Sequence[int] = range(16)) -> HeistLevelStats:
    """Generate one maze of the level per seed and compute statistics over them."""
    seeds = check_stats_seeds(seeds)
    engine = Engine(len(seeds), [HeistLevel.parse(level)], False, threads=1)
    engine.start(seeds)
    moves_to = np.zeros((len(seeds), const.GEM + 1), np.int64)
    _compute_all_moves(engine.envs, moves_to)
    names = {skill: const.SKILLS[skill].name for skill in sorted(SKILL_CELLS)}
    possible = {name: engine.envs["possible"][:, skill] != 0 for skill, name in names.items()}
    moves = {name: moves_to[possible[name], SKILL_CELLS[skill]] for skill, name in names.items()}
    free = np.pad(engine.envs["grid"] != const.WALL, ((0, 0), (1, 1), (1, 1)))
    num_exits = sum(np.roll(free, shift, axis).astype(int) for shift in (-1, 1) for axis in (1, 2))
    masks = {"free cells": free, "forks": free & (num_exits > 2), "dead ends": free & (num_exits == 1)}
    return HeistLevelStats(
        num_mazes=len(seeds),
        cells={name: float(mask.sum((1, 2)).mean()) for name, mask in masks.items()}
        | {"keys": _mean_count(possible, "take"), "doors": _mean_count(possible, "open")},
        possible={name: float(mask.mean()) for name, mask in possible.items()},
        mean_moves={name: float(values.mean()) if values.size else None for name, values in moves.items()},
        min_moves={name: int(values.min()) if values.size else None for name, values in moves.items()},
    )


def _mean_count(possible: dict[str, np.ndarray], prefix: str) -> float:
    return float(sum(mask.mean() for name, mask in possible.items() if name.startswith(prefix)))


@jit
def _compute_all_moves(envs, moves_to):
    cells = np.zeros(MAX_CELLS, np.uint8)
    queue, distance = np.empty(NUM_KEY_SETS * MAX_CELLS, np.int32), np.empty(NUM_KEY_SETS * MAX_CELLS, np.int32)
    for i in range(envs.size):
        compute_moves(envs[i], cells, queue, distance, moves_to[i])


# --- skills

# Each level gives the skill's prerequisites and puts its goal nearby; everything else is the original.
SKILL_LEVELS: dict[str, dict[str, Any]] = {
    "take_blue_key": {"keys": "one", "start": "blue key"},
    "open_blue_door": {"maze_size": 7, "keys": "one", "held_keys": {"blue": True}},
    "take_green_key": {"maze_size": 9, "keys": "two", "start": "green key"},
    "open_green_door": {
        "maze_size": 7, "keys": "two", "held_keys": {"blue": True, "green": True}, "open_doors": {"blue": True},
    },
    "take_red_key": {"maze_size": 9, "keys": "three", "start": "red key"},
    "open_red_door": {
        "maze_size": 9, "keys": "three", "held_keys": {"blue": True, "green": True, "red": True},
        "open_doors": {"blue": True, "green": True},
    },
    "steal_gem": {"keys": "none", "start": "gem"},
}  # fmt: skip
TOUCH_RANGE = 1  # the agent can touch an entity from the cell next to it


def reachable_skills(level: HeistLevel, stats: HeistLevelStats) -> set[str]:
    """The skills that are possible in some maze of the level and can be reached in time at top speed."""
    max_moves = level.length * TOP_SPEED[level.speed] + TOUCH_RANGE
    return {skill for skill, moves in stats.min_moves.items() if moves is not None and moves <= max_moves}
