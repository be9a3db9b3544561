"""`WalkerLevel`: everything a designer may set about the terrain. The default is the terrain of `BipedalWalker-v3`.

The settings and their ranges are those of POET (Wang et al. 2019) and ACCEL (Parker-Holder et al. 2022). Lengths are in
steps of the terrain, 14/30 m; a stretched leg is 4.9 steps long.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from ..world import Level

Roughness = Annotated[float, Field(ge=0, le=10)]
Pit = Annotated[float, Field(ge=0, le=10)]
Height = Annotated[float, Field(ge=0, le=5)]

OBSTACLES = {"pits": "pit_gap", "stumps": "stump_height", "stairs": "stair_height"}  # kind: prefix of its settings
ORIGINAL_STEPS, LONG_STEPS = 1600, 2000


class WalkerLevel(Level):
    """A terrain. Obstacles of the kinds whose high is above 0 alternate with stretches of ground. Each obstacle has a
    random kind, and a random size between low and high."""

    roughness: Roughness = 1.0
    """How rough the ground is. 0 is flat, 1 the original."""
    pit_gap_low: Pit = 0.0
    """Width of the narrowest pits, in steps of the terrain (14/30 m)."""
    pit_gap_high: Pit = 0.0
    """Width of the widest pits; 0 for no pits."""
    stump_height_low: Height = 0.0
    """Height of the lowest stumps, in steps of the terrain. They are one step wide."""
    stump_height_high: Height = 0.0
    """Height of the highest stumps; 0 for no stumps."""
    stair_height_low: Height = 0.0
    """Height of the lowest stairs, in steps of the terrain. A stair is four steps of the terrain deep."""
    stair_height_high: Height = 0.0
    """Height of the highest stairs; 0 for no stairs."""
    stair_steps: Annotated[int, Field(ge=1, le=9)] = 1
    """The most stairs of a staircase, which has 1 to this many. The first one of a staircase that goes up is level with
    the ground."""
    hardcore: bool = False
    """The terrain of BipedalWalkerHardcore-v3, which has pits, stumps and stairs of its own. No other setting can be
    combined with it."""

    @classmethod
    def parse_sampled(cls, settings: Mapping[str, Any]) -> Self:
        """Ranges are sorted, and `stair_steps` is left out where there are no stairs.

        `hardcore` is always left out: it would replace all other settings, and it is a test level.
        """
        values = {name: value for name, value in settings.items() if name != "hardcore"}
        for prefix in OBSTACLES.values():
            low, high = sorted(values.get(f"{prefix}_{end}", 0.0) for end in ("low", "high"))
            values |= {f"{prefix}_low": low, f"{prefix}_high": high}
        if not values["stair_height_high"]:
            values.pop("stair_steps", None)
        return cls.parse(values)

    @model_validator(mode="after")
    def _check_ranges(self) -> Self:
        for prefix in OBSTACLES.values():
            low, high = getattr(self, f"{prefix}_low"), getattr(self, f"{prefix}_high")
            if low > high:
                raise ValueError(
                    f"{prefix}_low {low:g} is above {prefix}_high {high:g}; raise {prefix}_high or lower {prefix}_low"
                )
        others = [name for name in self.to_overrides() if name != "hardcore"]
        if self.hardcore and others:
            raise ValueError(f"hardcore has a terrain of its own; leave out {', '.join(others)}, or hardcore")
        return self

    @property
    def is_gymnasium_terrain(self) -> bool:
        """Whether the terrain is one of Gymnasium's two."""
        return self.hardcore or not self.to_overrides()

    @property
    def obstacle_kinds(self) -> tuple[str, ...]:
        """The kinds of obstacles in the terrain."""
        if self.hardcore:
            return tuple(OBSTACLES)
        return tuple(kind for kind, prefix in OBSTACLES.items() if getattr(self, f"{prefix}_high") > 0)

    def size_range(self, kind: str) -> tuple[float, float]:
        prefix = OBSTACLES[kind]
        return getattr(self, f"{prefix}_low"), getattr(self, f"{prefix}_high")

    @property
    def max_episode_steps(self) -> int:
        """As registered in Gymnasium, and as in the papers for other terrains."""
        return LONG_STEPS if self.to_overrides() else ORIGINAL_STEPS
