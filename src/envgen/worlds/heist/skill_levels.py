"""For each skill a level in which it is the next thing to learn, and which skills a level leaves within reach."""

from typing import Any

from .level import TOP_SPEED, HeistLevel
from .level_stats import HeistLevelStats

# What a skill needs is granted and what it acts on is at hand; the rest is the original.
LESSONS: dict[str, dict[str, Any]] = {
    "take_blue_key": {"keys": "one", "start": "blue key"},
    "open_blue_door": {"maze_size": 7, "keys": "one", "held": {"blue": True}},
    "take_green_key": {"maze_size": 9, "keys": "two", "start": "green key"},
    "open_green_door": {
        "maze_size": 7, "keys": "two", "held": {"blue": True, "green": True}, "open": {"blue": True},
    },
    "take_red_key": {"maze_size": 9, "keys": "three", "start": "red key"},
    "open_red_door": {
        "maze_size": 9, "keys": "three", "held": {"blue": True, "green": True, "red": True},
        "open": {"blue": True, "green": True},
    },
    "steal_gem": {"keys": "none", "start": "gem"},
}  # fmt: skip
REACH = 1  # cells before its own that a thing can be touched from


def reachable(level: HeistLevel, census: HeistLevelStats) -> set[str]:
    """The skills that some world like those counted has, and time enough for at the greatest speed."""
    cells = level.length * TOP_SPEED[level.speed] + REACH
    return {skill for skill, moves in census.fewest.items() if moves is not None and moves <= cells}
