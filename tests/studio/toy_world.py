"""A small world with every kind of setting, and one more name for it that no package registers."""

from typing import Literal

import numpy as np
from gymnasium import spaces
from pydantic import Field

from envgen.settings import Settings
from envgen.worlds.python_world import PythonEnv, PythonWorld
from envgen.worlds.world import Level, Skill


class Items(Settings):
    """What the agent starts with."""

    lamp: bool = False
    """A lamp, see `width`."""
    coins: int = Field(default=0, ge=0, le=9)


class ToyLevel(Level):
    width: int = Field(default=6, ge=3, le=12)
    """Cells of the corridor."""
    floor: Literal["stone", "very soft"] = "stone"
    """What it is paved with."""
    speed: Literal[1, 2] = 1
    """Cells per step."""
    slope: float = Field(default=0.5, ge=-1.0, le=1.0)
    """How steep it is."""
    doors: tuple[Literal["left", "right"], ...] = ("right",)
    """The ends that are open."""
    signs: tuple[str, ...] = ()
    """What is written on the walls, a line each."""
    items: Items = Items()
    """What the agent starts with."""


class ToyEnv(PythonEnv):
    observation_space = spaces.Box(-16, 16, (2,), np.float32)
    max_episode_steps = 20
    image_size = 48

    def begin(self):
        return {"agent": np.array(int(self.np_random.integers(self.level.width - 1)))}

    def observe(self):
        return np.float32([self.state["agent"], self.level.width])

    def advance(self, action):
        self.state["agent"] = np.clip(self.state["agent"] + (-1, 1)[action] * self.level.speed, 0, self.level.width - 1)
        at_end = bool(self.state["agent"] == self.level.width - 1)
        if at_end:
            self.achieve("reach_end")
        return float(at_end), at_end

    def render_frame(self):
        image = np.full((self.image_size, self.image_size, 3), 40, np.uint8)
        size = self.image_size // self.level.width
        column = int(self.state["agent"]) * size
        image[:, : size * self.level.width] = 90 if self.level.floor == "stone" else 160
        image[:, column : column + size] = (240, 200, 0)
        return image


class ToyWorld(PythonWorld):
    name, Level, env_class = "toy", ToyLevel, ToyEnv
    skills, actions = (Skill("reach_end"),), ("left", "right")
    observations = ("symbols",)
    key_bindings = {"left": "left", "right": "right"}  # noqa: RUF012
    rules = "Walk to the right end."


PLAN = {"cycles": 1, "levels": 2, "cycle_steps": 512, "final_steps": 512, "feedback_episodes": 2, "audit_steps": 20}
