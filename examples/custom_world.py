"""A custom world: walk to a goal on a grid. Check it with `check_world`, then train an agent in random levels.

    python examples/custom_world.py

On the command line: `envgen train custom_world:GridWorld` (with this folder on PYTHONPATH).
"""

import tempfile

import numpy as np
from gymnasium import spaces
from pydantic import Field

import envgen
from envgen.worlds.python_world import PythonEnv, PythonWorld
from envgen.worlds.world import Skill

PLAN = {"cycles": 2, "levels": 2, "cycle_steps": 4096, "final_steps": 2048, "feedback_episodes": 4, "audit_steps": 20}


class GridLevel(envgen.Level):
    size: int = Field(default=8, ge=3, le=16)
    """Cells along each side of the grid."""
    max_distance: int = Field(default=16, ge=1, le=16)
    """Cells from the start to the goal along each axis, at most."""


class GridEnv(PythonEnv):
    observation_space = spaces.Box(-16, 16, (2,), np.float32)
    max_episode_steps = 50

    def begin(self) -> dict[str, np.ndarray]:
        start, goal = self.np_random.integers(0, self.level.size, (2, 2))
        distance = self.level.max_distance
        return {"agent": start, "goal": np.clip(goal, start - distance, start + distance)}

    def observe(self) -> np.ndarray:
        return np.float32(self.state["goal"] - self.state["agent"])

    def advance(self, action: int) -> tuple[float, bool]:
        move = ((-1, 0), (1, 0), (0, -1), (0, 1))[action]
        self.state["agent"] = np.clip(self.state["agent"] + move, 0, self.level.size - 1)
        if at_goal := not self.observe().any():
            self.achieve("reach_goal")
        return float(at_goal), at_goal


class GridWorld(PythonWorld):
    name, Level, env_class = "grid", GridLevel, GridEnv
    skills, actions = (Skill("reach_goal"),), ("left", "right", "up", "down")
    observations = ("vector",)
    rules = "Walk to the goal. The observation is its offset from the agent."


if __name__ == "__main__":
    envgen.check_world(GridWorld())
    with tempfile.TemporaryDirectory() as folder:
        run = envgen.train(GridWorld(), "random", preset="quick", plan=PLAN, folder=f"{folder}/run")
        print(run.report())
