"""The smallest world that keeps the contract: a ladder to climb. Who does not go up falls to the ground."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from pydantic import Field

from envgen.worlds.world import Level, Skill, World

DOWN, UP = 0, 1


class LadderLevel(Level):
    rungs: int = Field(default=5, ge=0, le=99)
    """How many steps up it takes; of a ladder without rungs one stands on top."""
    length: int = Field(default=20, ge=1, le=1000)
    """Steps of an episode."""
    wind: Literal["none", "original", "strong"] = "original"
    """Of no consequence."""
    fault: Literal["none", "make", "step"] = "none"
    """When the simulator breaks."""


class LadderEnvs(VectorEnv):
    """Environment i sees its own number and plays levels[i % len(levels)]. The skills: to climb, and to fly."""

    def __init__(self, levels: Sequence[LadderLevel], num_envs: int):
        if any(level.fault == "make" for level in levels):
            raise RuntimeError("no wood for this ladder")
        self.num_envs, self.levels = num_envs, list(dict.fromkeys(levels))
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Box(0, 1000, (1,), np.int64)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        played = [levels[i % len(levels)] for i in range(num_envs)]
        self.faulty = any(level.fault == "step" for level in levels)
        self.rungs = np.array([level.rungs for level in played])
        self.length = np.array([level.length for level in played])
        self.at = np.array([self.levels.index(level) for level in played])

    def reset(self, *, seed: Any = None, options: dict | None = None):
        self._begin(np.ones(self.num_envs, np.bool_))
        return self._seen(), self._infos()

    def step(self, actions: Any):
        if self.faulty:
            raise RuntimeError("a rung breaks")
        before = self.tops > 0
        self.height = np.where(np.asarray(actions) == UP, self.height + 1, 0)
        self.tops += self.height == self.rungs
        self.steps += 1
        over, infos = self.steps >= self.length, self._infos()
        if over.any():
            last = self._infos()
            self._begin(over)
            infos = {**self._infos(), "final_info": last, "_final_info": over}
        rewards = ((infos.get("final_info", infos)["achievements"][:, 0] > 0) & ~before).astype(np.float64)
        return self._seen(), rewards, np.zeros(self.num_envs, np.bool_), over, infos

    def _begin(self, which: np.ndarray) -> None:
        if not hasattr(self, "steps"):
            self.height, self.steps, self.tops = (np.zeros(self.num_envs, np.int64) for _ in range(3))
        self.height[which] = self.steps[which] = 0
        self.tops[which] = self.rungs[which] == 0

    def _seen(self) -> np.ndarray:
        return np.arange(self.num_envs)[:, None]

    def _infos(self) -> dict[str, Any]:
        achievements = np.stack([self.tops, np.zeros_like(self.tops)], 1)
        return {"achievements": achievements.copy(), "level": self.at.copy()}


class Count(NamedTuple):
    rungs: float

    def figures(self) -> dict[str, float]:
        return {"rungs per ladder": self.rungs}


class Ladder(World):
    """Without a scripted player."""

    name = "ladder"
    Level = LadderLevel
    skills = (Skill("climb"), Skill("fly", ("climb",)))
    actions = ("down", "up")
    observations = ("number",)
    rules = "Go up."

    def make(self, levels=(), num_envs=None, seed=None, observation="number", **kw) -> LadderEnvs:
        parsed = [LadderLevel.parse(level) for level in levels] or [LadderLevel()]
        return LadderEnvs(parsed, num_envs or len(parsed))

    def single(self, level=None, seed=None, observation="number", **kw):
        raise NotImplementedError

    def render_levels(self, levels, columns=4, seed=0):
        raise NotImplementedError

    def level_stats(self, level=None, seeds: Sequence[int] = range(16)) -> Count:
        return Count(LadderLevel.parse(level).rungs)

    def reachable_skills(self, level, census) -> set[str]:
        return {"climb"} if census.rungs < LadderLevel.parse(level).length else set()


class Climbed(Ladder):
    """Its scripted player goes up."""

    def expert_actions(self, envs: Any) -> np.ndarray:
        return np.full(envs.num_envs, UP)
