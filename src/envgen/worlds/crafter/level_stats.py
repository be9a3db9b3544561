"""Statistics of the worlds that a level generates: how much of everything there is, and how far from the start."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..validation import check_seed
from . import constants as const
from .engine import Engine
from .level import CrafterLevel

CREATURES = ("cow", "zombie", "skeleton", "plant")


class CrafterLevelStats(NamedTuple):
    """Means over worlds. Distances are Manhattan distances from the start."""

    worlds: int
    cells: dict[str, float]  # number of cells by material
    creatures: dict[str, float]  # number of creatures by kind
    nearest: dict[str, float | None]  # distance to the nearest, over the worlds that have one; None if no world has one
    presence: dict[str, float]  # share of the worlds that have at least one

    def as_dict(self) -> dict[str, float]:
        """All statistics by name: counts, distances where there are any, and the percentage of worlds with each."""
        values = {f"{name} per world": count for name, count in {**self.cells, **self.creatures}.items()}
        values |= {f"steps to the nearest {name}": d for name, d in self.nearest.items() if d is not None}
        return values | {f"worlds with {name}, %": 100 * share for name, share in self.presence.items()}

    def __str__(self) -> str:
        lines = [f"{'':10} {'count':>8} {'nearest':>8} {'in worlds':>9}   (means of {self.worlds} worlds)"]
        for name, count in {**self.cells, **self.creatures}.items():
            distance = "-" if self.nearest[name] is None else f"{self.nearest[name]:.1f}"
            lines.append(f"{name:10} {count:8.1f} {distance:>8} {self.presence[name]:9.0%}")
        return "\n".join(lines)


def compute_level_stats(level: Any = None, seeds: Sequence[int] = range(16)) -> CrafterLevelStats:
    """Create one world of the level per seed and measure it."""
    seeds = [check_seed(seed) for seed in seeds]
    if not seeds:
        raise ValueError("level statistics need at least one seed")
    engine = Engine(len(seeds), [CrafterLevel.parse(level)], False, threads=1)
    engine.start(seeds)
    ground = engine.state.envs["ground"]
    masks = {name: ground == m for m, name in enumerate(const.MATERIALS) if m != const.OUTSIDE}
    for name in CREATURES:
        masks[name] = np.stack([_entity_mask(engine, i, const.ENTITIES.index(name)) for i in range(len(seeds))])
    x, y = np.indices((const.MAP_SIZE, const.MAP_SIZE))
    distances = np.abs(x - const.CENTER) + np.abs(y - const.CENTER)
    counts = {name: float(mask.sum(axis=(1, 2)).mean()) for name, mask in masks.items()}
    nearest, presence = {}, {}
    for name, mask in masks.items():
        shortest = np.where(mask, distances, 2 * const.MAP_SIZE).min(axis=(1, 2))
        is_present = shortest < 2 * const.MAP_SIZE
        nearest[name] = float(shortest[is_present].mean()) if is_present.any() else None
        presence[name] = float(is_present.mean())
    return CrafterLevelStats(
        worlds=len(seeds),
        cells={name: counts[name] for name in const.MATERIALS[1:]},
        creatures={name: counts[name] for name in CREATURES},
        nearest=nearest,
        presence=presence,
    )


def _entity_mask(engine: Engine, i: int, kind: int) -> np.ndarray:
    entities = engine.state.entities[i][: engine.state.envs["num_entities"][i]]
    entities = entities[entities["kind"] == kind]
    mask = np.zeros((const.MAP_SIZE, const.MAP_SIZE), np.bool_)
    mask[entities["x"], entities["y"]] = True
    return mask
