"""What worlds of a level really hold, counted: the facts behind every promise that a level's settings make."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import constants as t
from .checks import check_seed
from .engine import Engine
from .level import CrafterLevel
from .observations import NO_OBSERVATION

CREATURES = ("cow", "zombie", "skeleton", "plant")


class CrafterLevelStats(NamedTuple):
    """Means over worlds. A distance is along the axes from the start to the nearest, over the worlds that have one."""

    worlds: int
    cells: dict[str, float]  # by material
    nearest: dict[str, float | None]  # by material and creature; None where no world has one
    found: dict[str, float]  # share of the worlds that have one, by material and creature
    creatures: dict[str, float]

    def as_dict(self) -> dict[str, float]:
        """Each count; each distance that any world has; and the worlds that have one, in percent."""
        figures = {f"{name} per world": count for name, count in {**self.cells, **self.creatures}.items()}
        figures |= {f"steps to the nearest {name}": away for name, away in self.nearest.items() if away is not None}
        return figures | {f"worlds with {name}, %": 100 * share for name, share in self.found.items()}

    def __str__(self) -> str:
        lines = [f"{'':10} {'count':>8} {'nearest':>8} {'in worlds':>9}   (means of {self.worlds} worlds)"]
        for name, count in {**self.cells, **self.creatures}.items():
            away = self.nearest[name]
            lines.append(f"{name:10} {count:8.1f} {'-' if away is None else f'{away:.1f}':>8} {self.found[name]:9.0%}")
        return "\n".join(lines)


def compute_level_stats(level: Any = None, seeds: Sequence[int] = range(16)) -> CrafterLevelStats:
    """Make one world of the level per seed and count."""
    seeds = [check_seed(seed) for seed in seeds]
    if not seeds:
        raise ValueError("a census needs at least one seed")
    engine = Engine(len(seeds), [CrafterLevel.parse(level)], False, NO_OBSERVATION, (64, 64), threads=1)
    for i, seed in enumerate(seeds):
        engine.seed(i, seed)
    engine.reset(np.ones(len(seeds), np.bool_))
    ground = engine.state.envs["ground"]
    where = {name: ground == number for number, name in enumerate(t.MATERIALS) if number != t.OUTSIDE}
    for name in CREATURES:
        where[name] = np.stack([_cells_of(engine, i, t.THINGS.index(name)) for i in range(len(seeds))])
    x, y = np.indices((t.SIDE, t.SIDE))
    away = np.abs(x - t.CENTER) + np.abs(y - t.CENTER)
    counts = {name: float(mask.sum(axis=(1, 2)).mean()) for name, mask in where.items()}
    nearest, found = {}, {}
    for name, mask in where.items():
        distances = np.where(mask, away, 2 * t.SIDE).min(axis=(1, 2))
        there = distances < 2 * t.SIDE
        nearest[name] = float(distances[there].mean()) if there.any() else None
        found[name] = float(there.mean())
    return CrafterLevelStats(
        worlds=len(seeds),
        cells={name: counts[name] for name in t.MATERIALS[1:]},
        nearest=nearest,
        found=found,
        creatures={name: counts[name] for name in CREATURES},
    )


def _cells_of(engine: Engine, i: int, kind: int) -> np.ndarray:
    things = engine.state.things[i][: engine.state.envs["count"][i]]
    things = things[things["kind"] == kind]
    cells = np.zeros((t.SIDE, t.SIDE), np.bool_)
    cells[things["x"], things["y"]] = True
    return cells
