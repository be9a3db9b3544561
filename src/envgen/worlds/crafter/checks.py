"""What a user passes to make a Crafter environment, checked before anything runs."""

from typing import Any

import numpy as np

from .. import validation as checks
from ..validation import check_count, check_seed
from .constants import ACTIONS
from .level import CrafterLevel
from .observations import OBSERVATION_MODES

__all__ = ["check_actions", "check_count", "check_observation", "check_seed", "levels_of"]

RENDER_SIZE = (576, 576)  # of pictures for people


def levels_of(level: Any) -> list[CrafterLevel]:
    """A list of levels from a level, a mapping, JSON text, None (the original), or a sequence of these."""
    return checks.parse_levels(CrafterLevel, "Crafter", level)


def check_observation(observation: str) -> None:
    checks.check_observation(observation, OBSERVATION_MODES)


def check_actions(actions: Any, n: int) -> np.ndarray:
    return checks.check_actions(actions, n, ACTIONS)
