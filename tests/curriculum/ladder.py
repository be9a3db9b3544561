"""A small world that can be evaluated and audited: a ladder to climb. The action `down` goes back to the ground."""

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
    """Steps to the top; a ladder with 0 rungs is climbed at the start."""
    length: int = Field(default=20, ge=1, le=1000)
    """Steps of an episode."""
    wind: Literal["none", "original", "strong"] = "original"
    """Has no effect."""
    fault: Literal["none", "make", "step"] = "none"
    """When the simulator raises an error."""


class LadderEnvs(VectorEnv):
    """Environment i observes its own index and plays levels[i % len(levels)]. The skills are `climb` and `fly`."""

    def __init__(self, levels: Sequence[LadderLevel], num_envs: int):
        if any(level.fault == "make" for level in levels):
            raise RuntimeError("no wood for this ladder")
        self.num_envs, self.levels = num_envs, list(dict.fromkeys(levels))
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Box(0, 1000, (1,), np.int64)
        self.single_action_space = spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        env_levels = [levels[i % len(levels)] for i in range(num_envs)]
        self.is_faulty = any(level.fault == "step" for level in levels)
        self.rungs = np.array([level.rungs for level in env_levels])
        self.length = np.array([level.length for level in env_levels])
        self.level_ids = np.array([self.levels.index(level) for level in env_levels])
        self.height, self.steps, self.climbs = (np.zeros(num_envs, np.int64) for _ in range(3))

    def reset(self, *, seed: Any = None, options: dict | None = None):
        self._reset(np.ones(self.num_envs, np.bool_))
        return self._obs(), self._infos()

    def step(self, actions: Any):
        if self.is_faulty:
            raise RuntimeError("a rung breaks")
        had_climbed = self.climbs > 0
        self.height = np.where(np.asarray(actions) == UP, self.height + 1, 0)
        self.climbs += self.height == self.rungs
        self.steps += 1
        truncated, infos = self.steps >= self.length, self._infos()
        if truncated.any():
            final_info = self._infos()
            self._reset(truncated)
            infos = {**self._infos(), "final_info": final_info, "_final_info": truncated}
        has_climbed = infos.get("final_info", infos)["achievements"][:, 0] > 0
        rewards = (has_climbed & ~had_climbed).astype(np.float64)
        return self._obs(), rewards, np.zeros(self.num_envs, np.bool_), truncated, infos

    def _reset(self, mask: np.ndarray) -> None:
        self.height[mask] = self.steps[mask] = 0
        self.climbs[mask] = self.rungs[mask] == 0

    def _obs(self) -> np.ndarray:
        return np.arange(self.num_envs)[:, None]

    def _infos(self) -> dict[str, Any]:
        achievements = np.stack([self.climbs, np.zeros_like(self.climbs)], 1)
        return {"achievements": achievements.copy(), "level": self.level_ids.copy()}


class LadderStats(NamedTuple):
    rungs: float

    def as_dict(self) -> dict[str, float]:
        return {"rungs per ladder": self.rungs}


class Ladder(World):
    """A world without an expert."""

    name = "ladder"
    Level = LadderLevel
    skills = (Skill("climb"), Skill("fly", ("climb",)))
    actions = ("down", "up")
    observations = ("number",)
    rules = "Go up."

    def make(self, levels=(), num_envs=None, seed=None, observation="number", **kwargs) -> LadderEnvs:
        parsed = [LadderLevel.parse(level) for level in levels] or [LadderLevel()]
        return LadderEnvs(parsed, num_envs or len(parsed))

    def single(self, level=None, seed=None, observation="number", **kwargs):
        raise NotImplementedError

    def render_levels(self, levels, columns=4, seed=0):
        raise NotImplementedError

    def level_stats(self, level=None, seeds: Sequence[int] = range(16)) -> LadderStats:
        return LadderStats(LadderLevel.parse(level).rungs)

    def reachable_skills(self, level, stats) -> set[str]:
        return {"climb"} if stats.rungs < LadderLevel.parse(level).length else set()


class LadderWithExpert(Ladder):
    """Its expert always goes up."""

    def expert_actions(self, envs: Any) -> np.ndarray:
        return np.full(envs.num_envs, UP)
