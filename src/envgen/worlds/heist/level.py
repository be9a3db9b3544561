"""`HeistLevel`: everything a designer may set in Heist. The default is exactly the original game in its hard mode."""

from typing import Literal

import numpy as np
from pydantic import Field

from envgen.settings import Settings

from ..world import Level
from . import constants as const
from .state import PARAMS

ORIGINAL_ACCELERATION = 0.375  # added to the velocity by a pressed direction, in cells per step
SPEED_FACTORS = {"slow": 0.5, "original": 1.0, "fast": 1.5}
TOP_SPEED = {  # cells per step: the velocity that friction, decay and acceleration leave unchanged
    name: factor * ORIGINAL_ACCELERATION * 0.9 / (1 - 0.9 * 0.5) for name, factor in SPEED_FACTORS.items()
}
LOOP_PERCENT = {"none": 0, "few": 15, "many": 50, "all": 100}
DISTANCES = {"short": -1, "original": 0, "long": 1}
NUM_KEYS = ("original", "none", "one", "two", "three")  # index - 1 is the number; -1: sampled
STARTS = ("original", "blue key", "green key", "red key", "gem")  # index - 1 is PARAMS["start"]
Distance = Literal["short", "original", "long"]
Size = Literal[0, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25]
Reward = Field(default=0, ge=0, le=5)


class HeldKeys(Settings):
    """The keys that the agent holds at the start. A held key is not in the maze; its door is still locked."""

    blue: bool = False
    green: bool = False
    red: bool = False


class OpenDoors(Settings):
    """The doors that are open from the start. Their keys are still in the maze."""

    blue: bool = False
    green: bool = False
    red: bool = False


class HeistLevel(Level):
    """A level of Heist. Each setting changes the original; the default changes nothing. Every maze can be solved."""

    mode: Literal["easy", "hard", "memory"] = "hard"
    """The original's mode: a world of 9 x 9 (easy), 13 x 13 (hard) or 23 x 23 cells (memory). In memory mode only the
    8 x 8 cells around the agent are visible."""
    maze_size: Size = 0
    """Cells along a side of the maze, an odd number. 0 samples it for each episode as the original does, from 5 up to
    the size of the world."""
    world_size: Size = 0
    """Cells along a side of the world. The maze lies anywhere in it. 0 uses the size of the mode. A world is never
    smaller than its maze."""
    keys: Literal["original", "none", "one", "two", "three"] = "original"
    """The number of keys, each with a locked door: one is the blue pair, two adds green, three adds red. A small maze
    may have too few forks for all the doors."""
    held_keys: HeldKeys = HeldKeys()
    """Keys that the agent holds at the start."""
    open_doors: OpenDoors = OpenDoors()
    """Doors that are open from the start."""
    start: Literal["original", "blue key", "green key", "red key", "gem"] = "original"
    """Where the agent starts: at a random place (original), or two cells from this key or the gem, holding all keys
    that come before it. If the maze does not have this key, the agent starts near the gem."""
    key_distance: Distance = "original"
    """How far from the start each key lies, within the area that the doors before it allow."""
    gem_distance: Distance = "original"
    """How far from the start the gem lies, within the area behind the last door."""
    loops: Literal["none", "few", "many", "all"] = "none"
    """How many of the removable walls are removed. The original removes none, so exactly one path connects any two
    cells. With loops, the agent may be able to walk around a door."""
    speed: Literal["slow", "original", "fast"] = "original"
    """The agent's speed: slow is half the original speed, fast is one and a half times the original speed."""
    length: int = Field(default=const.MAX_EPISODE_STEPS, ge=1, le=const.MAX_EPISODE_STEPS)
    """The number of steps after which an episode is truncated."""
    key_reward: int = Reward
    """Extra reward for taking a key. The gem's reward is 10. The original gives none for keys."""
    door_reward: int = Reward
    """Extra reward for opening a door. The original gives none."""

    @property
    def granted_skills(self) -> tuple[str, ...]:
        """The skills whose key the agent holds, whose door is open, or that it starts behind."""
        num_behind = max(0, STARTS.index(self.start) - 1)  # colors whose key is held and whose door is behind the start
        held, opened = dict(self.held_keys), dict(self.open_doors)
        keys = [f"take_{color}_key" for k, color in enumerate(const.COLORS) if held[color] or k < num_behind]
        doors = [f"open_{color}_door" for k, color in enumerate(const.COLORS) if opened[color] or k < num_behind]
        return tuple(skill.name for skill in const.SKILLS if skill.name in {*keys, *doors})

    def to_params(self) -> np.ndarray:
        """This level as a PARAMS record."""
        params = np.zeros((), PARAMS)
        params["mode"] = const.MODES.index(self.mode)
        params["world_size"] = max(self.world_size or const.MODE_WORLD_SIZES[params["mode"]], self.maze_size)
        params["maze_size"] = self.maze_size
        params["num_keys"] = NUM_KEYS.index(self.keys) - 1
        params["held_keys"] = _bit_mask(self.held_keys)
        params["open_doors"] = _bit_mask(self.open_doors)
        params["start"] = STARTS.index(self.start) - 1
        params["key_distance"] = DISTANCES[self.key_distance]
        params["gem_distance"] = DISTANCES[self.gem_distance]
        params["loop_percent"] = LOOP_PERCENT[self.loops]
        params["acceleration"] = ORIGINAL_ACCELERATION * SPEED_FACTORS[self.speed]
        params["length"] = self.length
        params["key_reward"], params["door_reward"] = self.key_reward, self.door_reward
        return params


def _bit_mask(colors: Settings) -> int:
    """Bit k for color k."""
    return sum(bool(dict(colors)[color]) << k for k, color in enumerate(const.COLORS))
