"""What worlds of a level really hold, counted: the facts behind every promise that a level's settings make."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import constants as const
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
    where = {name: ground == number for number, name in enumerate(const.MATERIALS) if number != const.OUTSIDE}
    for name in CREATURES:
        where[name] = np.stack([_cells_of(engine, i, const.ENTITIES.index(name)) for i in range(len(seeds))])
    x, y = np.indices((const.MAP_SIZE, const.MAP_SIZE))
    away = np.abs(x - const.CENTER) + np.abs(y - const.CENTER)
    counts = {name: float(mask.sum(axis=(1, 2)).mean()) for name, mask in where.items()}
    nearest, found = {}, {}
    for name, mask in where.items():
        distances = np.where(mask, away, 2 * const.MAP_SIZE).min(axis=(1, 2))
        there = distances < 2 * const.MAP_SIZE
        nearest[name] = float(distances[there].mean()) if there.any() else None
        found[name] = float(there.mean())
    return CrafterLevelStats(
        worlds=len(seeds),
        cells={name: counts[name] for name in const.MATERIALS[1:]},
        nearest=nearest,
        found=found,
        creatures={name: counts[name] for name in CREATURES},
    )


def _cells_of(engine: Engine, i: int, kind: int) -> np.ndarray:
    entities = engine.state.entities[i][: engine.state.envs["num_entities"][i]]
    entities = entities[entities["kind"] == kind]
    cells = np.zeros((const.MAP_SIZE, const.MAP_SIZE), np.bool_)
    cells[entities["x"], entities["y"]] = True
    return cells
