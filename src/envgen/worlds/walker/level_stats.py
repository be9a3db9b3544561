"""Statistics of the terrains that a level generates, and a level that teaches each skill."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..validation import check_stats_seeds
from .env import THRESHOLDS, load_physics
from .level import OBSTACLES, WalkerLevel
from .terrain import END_X

# The largest sizes, in steps, that published agents are reported to pass: pits and stumps of POET's extremely
# challenging terrains, and the stairs of ACCEL's test terrain.
PASSED_SIZES = {"pits": 8.0, "stumps": 3.0, "stairs": 2.0}
SIZE_NAMES = {"pits": "width of pits", "stumps": "height of stumps", "stairs": "height of stairs"}
EASY_SIZES = {"pits": 0.8, "stumps": 0.4, "stairs": 0.4}  # at most; the first terrains of POET and ACCEL


class WalkerLevelStats(NamedTuple):
    """Means over generated terrains."""

    num_terrains: int
    counts: dict[str, float]  # obstacles by kind
    sizes: dict[str, float]  # mean size of the obstacles of a kind, in steps; only of kinds that occur
    unproven: float  # fraction of the obstacles that are larger than those that published agents pass
    slope: float  # mean absolute slope of the ground between obstacles
    climb: float  # m between the lowest and the highest point of the ground
    length: int  # steps of an episode

    def as_dict(self) -> dict[str, float]:
        stats = {f"{kind} per world": count for kind, count in self.counts.items()}
        stats |= {f"{SIZE_NAMES[kind]}, steps": size for kind, size in self.sizes.items()}
        stats |= {"obstacles larger than published agents pass, %": 100 * self.unproven}
        stats |= {"slope of the ground, %": 100 * self.slope, "highest above lowest ground, m": self.climb}
        return stats | {"steps of an episode": float(self.length)}

    def __str__(self) -> str:
        rows = [(name, f"{value:.1f}") for name, value in self.as_dict().items()]
        width = max(len(name) for name, _ in rows)
        return "\n".join(
            [f"means of {self.num_terrains} terrains", *(f"{name:{width}} {value:>8}" for name, value in rows)]
        )


def compute_level_stats(level: Any = None, seeds: Sequence[int] = range(16)) -> WalkerLevelStats:
    """Generate one terrain of the level per seed and compute statistics over them."""
    level, seeds = WalkerLevel.parse(level), check_stats_seeds(seeds)
    physics = load_physics().WalkerPhysics(level)
    obstacles, slopes, climbs = [], [], []
    for seed in seeds:
        physics.begin(np.random.Generator(np.random.PCG64(seed)))
        on_course = [obstacle for obstacle in physics.obstacles if obstacle.start < END_X]
        obstacles += on_course
        slopes.append(_mean_slope(np.array(physics.terrain_x), np.array(physics.terrain_y), physics.obstacles))
        climbs.append(max(physics.terrain_y) - min(physics.terrain_y))
    physics.close()
    by_kind = {kind: [o.size for o in obstacles if o.kind == kind] for kind in OBSTACLES}
    unproven = [obstacle.size > PASSED_SIZES[obstacle.kind] + 1e-3 for obstacle in obstacles]
    return WalkerLevelStats(
        num_terrains=len(seeds),
        counts={kind: len(sizes) / len(seeds) for kind, sizes in by_kind.items()},
        sizes={kind: float(np.mean(sizes)) for kind, sizes in by_kind.items() if sizes},
        unproven=float(np.mean(unproven)) if unproven else 0.0,
        slope=float(np.mean(slopes)),
        climb=float(np.mean(climbs)),
        length=level.max_episode_steps,
    )


def _mean_slope(xs: np.ndarray, ys: np.ndarray, obstacles: Sequence[Any]) -> float:
    middles = (xs[:-1] + xs[1:]) / 2
    step = float(xs[1] - xs[0])
    is_free = np.ones(len(middles), np.bool_)
    for obstacle in obstacles:
        is_free &= (middles < obstacle.start - step) | (middles > obstacle.end + step)
    slopes = np.abs(np.diff(ys) / np.maximum(np.diff(xs), 1e-9))
    return float(slopes[is_free].mean()) if is_free.any() else 0.0


# --- skills

_EASY_LEVELS: dict[str, dict[str, Any]] = {
    "walk": {"roughness": 0.0},
    "rough": {"roughness": 3.0},
    **{kind: {"roughness": 0.0, f"{prefix}_high": EASY_SIZES[kind]} for kind, prefix in OBSTACLES.items()},
}
_EASY_LEVELS["stairs"]["stair_steps"] = 2

SKILL_LEVELS: dict[str, dict[str, Any]] = {
    f"{terrain}_{threshold}": settings for terrain, settings in _EASY_LEVELS.items() for threshold in THRESHOLDS
}
