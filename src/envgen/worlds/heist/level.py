"""`HeistLevel`: everything a designer may set in Heist. The default is the original game in its hard mode, exactly."""

from typing import Literal

import numpy as np
from pydantic import Field

from envgen.settings import Settings

from ..world import Level
from . import constants as t
from .state import DIALS

ORIGINAL_PUSH = 0.375  # what a pressed direction adds to the velocity, in cells a step
PACE = {"slow": 0.5, "original": 1.0, "fast": 1.5}  # times the original's push, and so its speed
TOP_SPEED = {word: pace * ORIGINAL_PUSH * 0.9 / (1 - 0.9 * 0.5) for word, pace in PACE.items()}  # cells a step
Distance = Literal["short", "original", "long"]
Size = Literal[0, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25]
Reward = Field(default=0, ge=0, le=5)


class Held(Settings):
    """The keys the agent holds at the start. A key that is held does not lie in the maze; its door is still locked."""

    blue: bool = False
    green: bool = False
    red: bool = False


class Open(Settings):
    """The doors that stand open from the start. Their keys still lie in the maze."""

    blue: bool = False
    green: bool = False
    red: bool = False


class HeistLevel(Level):
    """A Heist. Every setting is a change to the original game; the default changes nothing. Every maze is solvable."""

    mode: Literal["easy", "hard", "memory"] = "hard"
    """The original's modes: a world of 9 x 9, 13 x 13 or 23 x 23 cells; in memory only the 8 x 8 cells around the
    agent are seen."""
    maze_size: Size = 0
    """Cells along a side of the maze, an odd number; 0 draws it for every episode as the original does, from 5 to the
    size of the world."""
    world_size: Size = 0
    """Cells along a side of the world, in which the maze lies anywhere; 0 is the mode's. A world is never smaller than
    its maze."""
    keys: Literal["original", "none", "one", "two", "three"] = "original"
    """How many keys and locked doors there are: of one the blue key and door, of two blue and green. A small maze may
    have too few places where ways part for all of them."""
    held: Held = Held()
    """Keys held at the start."""
    open: Open = Open()
    """Doors open at the start."""
    start: Literal["original", "blue key", "green key", "red key", "gem"] = "original"
    """Where the agent starts: anywhere, or two cells from this key, holding the keys that come before it. Where there
    is no such key, near the gem."""
    keys_away: Distance = "original"
    """How far from the start the keys lie, among the cells that the doors before them allow."""
    gem_away: Distance = "original"
    """How far from the start the gem lies, among the cells behind the last door."""
    loops: Literal["none", "few", "many", "all"] = "none"
    """Ways around: how many of the walls that could be taken away are gone. The original has exactly one way between
    any two cells. Where there are loops a door may be walked around."""
    speed: Literal["slow", "original", "fast"] = "original"
    """How fast the agent is: slow is half as fast as the original, fast one and a half times."""
    length: int = Field(default=t.MAX_LENGTH, ge=1, le=t.MAX_LENGTH)
    """Steps after which an episode is cut off."""
    key_reward: int = Reward
    """Extra reward for taking a key; the gem's is 10. The original gives none."""
    door_reward: int = Reward
    """Extra reward for opening a door. The original gives none."""

    def to_params(self) -> np.ndarray:
        """This level as a DIALS record."""
        dials = np.zeros((), DIALS)
        dials["mode"] = t.MODES.index(self.mode)
        dials["side"] = max(self.world_size or t.SIDES[dials["mode"]], self.maze_size)
        dials["maze"] = self.maze_size
        dials["keys"] = ("original", "none", "one", "two", "three").index(self.keys) - 1
        dials["held"] = _mask(self.held)
        dials["open"] = _mask(self.open)
        dials["start"] = ("original", "blue key", "green key", "red key", "gem").index(self.start) - 1
        dials["keys_away"] = _DISTANCES[self.keys_away]
        dials["gem_away"] = _DISTANCES[self.gem_away]
        dials["loops"] = {"none": 0, "few": 15, "many": 50, "all": 100}[self.loops]
        dials["push"] = ORIGINAL_PUSH * PACE[self.speed]
        dials["length"] = self.length
        dials["key_reward"], dials["door_reward"] = self.key_reward, self.door_reward
        return dials


_DISTANCES = {"short": -1, "original": 0, "long": 1}


def _mask(colours: Settings) -> int:
    """Bit k for colour k."""
    return sum(bool(dict(colours)[colour]) << k for k, colour in enumerate(t.COLOURS))
