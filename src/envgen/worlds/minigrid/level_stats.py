"""Statistics of the grids that a level generates, the skills that they allow, and a level that teaches each skill."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..validation import check_stats_seeds
from . import constants as const
from .engine import Engine
from .level import MiniGridLevel
from .solver import ANSWERS, UNSOLVABLE, solve
from .state import grid_view

COUNTED_CELLS = {
    "walls": (const.WALL, const.WALL), "lava cells": (const.LAVA, const.LAVA),
    "doors": (const.OPEN_DOOR, const.LOCKED_DOOR - 1), "locked doors": (const.LOCKED_DOOR, const.KEY - 1),
    "keys": (const.KEY, const.BALL - 1), "balls": (const.BALL, const.BOX - 1),
    "boxes": (const.BOX, const.NUM_CELLS - 1),
}  # fmt: skip


class MiniGridLevelStats(NamedTuple):
    """Means over generated grids."""

    num_grids: int
    cells: dict[str, float]  # mean width, height and count by kind
    answers: dict[str, float]  # by the solver's answer, the fraction of grids
    mean_steps: float | None  # of the solutions found; None if none was
    length: float  # steps of an episode
    unsolvable: dict[str, float]  # by task that occurred, the fraction of its grids that certainly cannot be solved

    def as_dict(self) -> dict[str, float]:
        """Sizes and counts, the mean steps of a solution if any was found, and how many grids can be solved."""
        stats = {f"{name} per world": count for name, count in self.cells.items()}
        stats |= {} if self.mean_steps is None else {"steps of a solution": self.mean_steps}
        stats |= {f"worlds that are {name}, %": 100 * fraction for name, fraction in self.answers.items()}
        return stats | {"steps of an episode": self.length}

    def __str__(self) -> str:
        rows = [(name, f"{value:.1f}") for name, value in self.as_dict().items()]
        width = max(len(name) for name, _ in rows)
        lines = [f"means of {self.num_grids} grids", *(f"{name:{width}} {value:>8}" for name, value in rows)]
        if len(self.unsolvable) > 1:
            lines += ["", f"tasks drawn: {', '.join(self.unsolvable)}"]
        return "\n".join(lines)


def compute_level_stats(level: Any = None, seeds: Sequence[int] = range(16)) -> MiniGridLevelStats:
    """Generate one grid of the level per seed and compute statistics over them."""
    seeds = check_stats_seeds(seeds)
    engine = Engine(len(seeds), [MiniGridLevel.parse(level)], False, threads=1)
    engine.start(seeds)
    envs = engine.envs
    cells = {"width": float(envs["width"].mean()), "height": float(envs["height"].mean())}
    grids = [grid_view(env) for env in envs]
    for name, (first, last) in COUNTED_CELLS.items():
        cells[name] = float(np.mean([((grid >= first) & (grid <= last)).sum() for grid in grids]))
    solutions = solve(envs)
    steps = solutions.steps[solutions.steps >= 0]
    tasks = envs["task"]
    return MiniGridLevelStats(
        num_grids=len(seeds),
        cells=cells,
        answers={name: float((solutions.answers == k).mean()) for k, name in enumerate(ANSWERS)},
        mean_steps=float(steps.mean()) if steps.size else None,
        length=float(envs["length"].mean()),
        unsolvable={
            const.TASKS[task]: float((solutions.answers[tasks == task] == UNSOLVABLE).mean())
            for task in np.unique(tasks)
        },
    )


# --- skills

# The easiest levels of each task; everything else is the task's usual setting.
SKILL_LEVELS: dict[str, dict[str, Any]] = {
    const.skill_name(level["task"]): level
    for level in (
        {"task": "empty", "size": 6, "random_start": True},
        {"task": "four rooms", "size": 9},
        {"task": "door key", "size": 6},
        {"task": "multi room", "num_rooms": 2, "room_size": 5},
        {"task": "key corridor", "room_size": 3, "num_rows": 1},
        {"task": "unlock", "room_size": 5},
        {"task": "unlock pickup", "room_size": 5},
        {"task": "blocked unlock pickup", "room_size": 5},
        {"task": "lava gap", "size": 5},
        {"task": "lava crossing", "size": 7},
        {"task": "simple crossing", "size": 7},
        {"task": "dynamic obstacles", "size": 6, "num_obstacles": 2, "random_start": True},
        {"task": "red blue doors", "size": 5},
        {"task": "memory", "size": 7},
        {"task": "obstructed maze", "obstructed_maze": "one door", "keys_in_boxes": False, "blocked_doors": False},
        {"task": "go to door", "size": 5},
        {"task": "go to object", "size": 5},
        {"task": "put near", "size": 6},
        {"task": "fetch", "size": 5},
        {"task": "locked room", "size": 13},
        {"task": "dist shift", "size": 8},
        {"task": "perfect maze", "size": 7},
        {"task": "random walls", "size": 9, "num_walls": 10},
    )
}  # fmt: skip


def reachable_skills(level: MiniGridLevel, stats: MiniGridLevelStats) -> set[str]:
    """The skills that some grid of the level allows, as far as the solver knows."""
    tasks = {task for task, fraction in stats.unsolvable.items() if fraction < 1}
    if level.task == "mixed" and not level.map:  # a few grids do not show all tasks
        tasks |= set(const.TASKS) - stats.unsolvable.keys()
    return {const.skill_name(task) for task in tasks}
