"""Terrains for testing agents, as in papers on unsupervised environment design.

The settings are those of the test environments of ACCEL (Parker-Holder et al. 2022) and of the most difficult terrains
that POET solved (Wang et al. 2019, the "rose plots" of its figure). ACCEL's implementation draws 0 to n - 1 stairs
where its setting says n; here, `stair_steps` n - 1 draws 1 to n - 1.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .level import WalkerLevel

HELD_OUT_LEVELS: Mapping[str, Mapping[str, Any]] = {
    "Basic": {},
    "Hardcore": {"hardcore": True},
    "Roughness": {"roughness": 5.0},
    "PitGap": {"roughness": 0.0, "pit_gap_low": 5.0, "pit_gap_high": 5.0},
    "Stump": {"roughness": 0.0, "stump_height_low": 2.0, "stump_height_high": 2.0},
    "Stairs": {"roughness": 0.0, "stair_height_low": 2.0, "stair_height_high": 2.0, "stair_steps": 4},
    "HighRoughness": {"roughness": 9.0},
    "WidePitGap": {"roughness": 0.0, "pit_gap_low": 10.0, "pit_gap_high": 10.0},
    "HighStump": {"roughness": 0.0, "stump_height_low": 5.0, "stump_height_high": 5.0},
    "HighStairs": {"roughness": 0.0, "stair_height_low": 5.0, "stair_height_high": 5.0, "stair_steps": 8},
    "Insane": {
        "roughness": 9.0, "pit_gap_low": 10.0, "pit_gap_high": 10.0, "stump_height_low": 5.0, "stump_height_high": 5.0,
        "stair_height_low": 5.0, "stair_height_high": 5.0, "stair_steps": 8,
    },
}  # fmt: skip

# Roughness, then low and high of stumps and of pits.
_POET = {
    "POET-1a": (5.6, 2.4, 2.82, 4.48, 6.4), "POET-1b": (5.44, 1.8, 2.82, 4.48, 6.72),
    "POET-2a": (7.2, 1.98, 2.82, 5.6, 7.2), "POET-2b": (5.76, 2.16, 2.76, 1.6, 7.2),
    "POET-3a": (5.28, 1.98, 2.76, 4.8, 7.2), "POET-3b": (4.8, 2.4, 2.76, 4.48, 4.8),
}  # fmt: skip
_POET_SETTINGS = ("roughness", "stump_height_low", "stump_height_high", "pit_gap_low", "pit_gap_high")
POET_LEVELS = {name: dict(zip(_POET_SETTINGS, values, strict=True)) for name, values in _POET.items()}

SUITES: Mapping[str, tuple[str, ...]] = {
    "accel": ("Basic", "Hardcore", "Stairs", "PitGap", "Stump", "Roughness"),
    "poet": tuple(POET_LEVELS),
    "extreme": ("HighRoughness", "WidePitGap", "HighStump", "HighStairs", "Insane"),
}

# Mean returns over ten agents after 20,000 updates, which the authors of ACCEL publish with their implementation.
PUBLISHED_RETURNS: Mapping[str, Mapping[str, float]] = {
    "dr": {
        "Basic": 266.8, "Hardcore": 14.2, "Stairs": 18.6, "PitGap": 12.4, "Stump": -10.4, "Roughness": 51.8,
    },
    "plr": {
        "Basic": 304.8, "Hardcore": 84.8, "Stairs": 51.0, "PitGap": 43.3, "Stump": 6.5, "Roughness": 129.7,
    },
    "accel": {
        "Basic": 317.9, "Hardcore": 210.8, "Stairs": 91.6, "PitGap": 112.0, "Stump": 165.8, "Roughness": 253.3,
    },
}  # fmt: skip


def extremely_challenging(count: int, seed: int = 0) -> list[WalkerLevel]:
    """Random levels that are extremely challenging by POET's definition: wide pits, high stumps and rough ground."""
    rng = np.random.default_rng(seed)
    return [
        WalkerLevel(
            stump_height_high=rng.uniform(2.4, 3.0), pit_gap_high=rng.uniform(6.0, 8.0), roughness=rng.uniform(4.5, 8.0)
        )
        for _ in range(count)
    ]
