"""A world in plain Python for tests of worker processes. Workers import it by its name."""

import os

import numpy as np
from gymnasium import spaces
from pydantic import Field

from envgen.worlds.python_world import PythonEnv, PythonWorld
from envgen.worlds.world import Level, Skill


class WalkLevel(Level):
    length: int = Field(default=4, ge=1, le=9)
    """Cells to the end."""


class WalkEnv(PythonEnv):
    """Walk to the end of a line; a wind, drawn once per episode, helps. Some actions make trouble."""

    observation_space = spaces.Box(-9, 99, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)
    max_episode_steps = 12

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.extra_infos = {"possible": np.array([True, False]), "position": np.zeros(())}

    def begin(self):
        self.extra_infos["position"][()] = 0
        return {"position": np.float64(0), "wind": self.np_random.random()}

    def observe(self):
        return np.array([self.state["position"], self.state["wind"]], np.float32)

    def advance(self, action):
        if action[0] == -1:
            raise ArithmeticError("minus one is refused")
        if action[0] == np.float32(-0.5):
            os._exit(3)
        self.state["position"] = self.state["position"] + action[0] + self.state["wind"]
        self.extra_infos["position"][()] = self.state["position"]
        if self.state["position"] >= self.level.length:
            self.achieve("arrive")
            return 1.0, True
        return float(action[0]), False

    def process(self):
        print("environments may print")
        return os.getpid()


class Walk(PythonWorld):
    name, Level, env_class = "walk", WalkLevel, WalkEnv
    skills, actions = (Skill("arrive"), Skill("fly", ("arrive",))), ()
    observations, rules = ("vector",), "Walk."
