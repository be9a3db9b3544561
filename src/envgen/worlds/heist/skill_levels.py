"""For each skill, a level in which it comes next; and the skills that are reachable in a level."""

from typing import Any

from .level import TOP_SPEED, HeistLevel
from .level_stats import HeistLevelStats

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
