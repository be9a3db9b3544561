"""A complete small world in plain Python: walk along a line to the flag, and ring the bell on the way."""

import json
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from PIL import Image
from pydantic import Field

from envgen.worlds.validation import check_options, check_seeds, parse_levels
from envgen.worlds.world import Level, LevelEnv, LevelVectorEnv, Skill, World

LEFT, RIGHT, RING = range(3)


class LineLevel(Level):
    length: int = Field(default=5, ge=1, le=50)
    """Cells from the start to the flag."""
    max_steps: int = Field(default=30, ge=1, le=1000)
    """Steps after which an episode is truncated."""


class LineVectorEnv(LevelVectorEnv):
    """`start` is random, so that seeds matter: position 0 or 1."""

    def __init__(self, levels: Any, num_envs: int, autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP):
        self.num_envs = num_envs
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space = spaces.Box(0, 100, (2,), np.int64)
        self.single_action_space = spaces.Discrete(3)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._levels: list[LineLevel] = []
        self.set_levels(levels)
        self.seeds = np.zeros(num_envs, np.int64)
        self.data = {
            name: np.zeros(num_envs, np.int64) for name in ("position", "level", "episode", "steps", "rings", "goals")
        }
        self.returns, self.ended = np.zeros(num_envs), np.zeros(num_envs, np.bool_)

    @property
    def levels(self) -> list[LineLevel]:
        return self._levels

    def set_levels(self, levels: Any, sample_levels: bool = False) -> None:
        levels = parse_levels(LineLevel, "line", levels)
        for entry in levels:
            if entry not in self._levels:
                self._levels.append(entry)
        self.level_ids, self.sample_levels = [self._levels.index(entry) for entry in levels], sample_levels

    def seed(self, i: int, seed: int) -> None:
        self.seeds[i], self.data["episode"][i] = seed, 0

    def _begin(self, i: int) -> None:
        data = self.data
        data["episode"][i] += 1
        rng = np.random.default_rng([int(self.seeds[i]), int(data["episode"][i])])
        k = int(rng.integers(len(self.level_ids))) if self.sample_levels else i % len(self.level_ids)
        data["level"][i], data["position"][i] = self.level_ids[k], rng.integers(2)
        data["steps"][i] = data["rings"][i] = data["goals"][i] = 0
        self.returns[i], self.ended[i] = 0.0, False

    def _obs(self) -> np.ndarray:
        return np.stack([self.data["position"], self.data["steps"] % 7], axis=1)

    def _infos(self, mask: np.ndarray | None = None) -> dict[str, Any]:
        mask = np.ones(self.num_envs, np.bool_) if mask is None else mask
        infos: dict[str, Any] = {
            "level": self.data["level"].copy(),
            "episode_number": self.data["episode"].copy(),
            "episode_length": self.data["steps"].copy(),
            "episode_return": self.returns.copy(),
            "achievements": np.stack([self.data["rings"], self.data["goals"]], axis=1),
        }
        return infos | {f"_{name}": mask for name in infos}

    def reset(self, *, seed=None, options=None):
        mask = check_options(options, ("reset_mask",)).get("reset_mask", np.ones(self.num_envs, np.bool_))
        seeds = [None] * self.num_envs if seed is None else check_seeds(seed, self.num_envs)
        for i in np.flatnonzero(mask):
            if seeds[i] is not None:
                self.seed(i, seeds[i])
            self._begin(i)
        return self._obs(), self._infos()

    def step(self, actions):
        if self.autoreset_mode == AutoresetMode.DISABLED and self.ended.any():
            raise RuntimeError("reset the ended episodes first")
        rewards, terminated, truncated = np.zeros(self.num_envs), *np.zeros((2, self.num_envs), np.bool_)
        for i, action in enumerate(actions):
            if self.ended[i]:
                self._begin(i)
                continue
            level, data = self._levels[self.data["level"][i]], self.data
            data["steps"][i] += 1
            data["position"][i] = max(0, data["position"][i] + {LEFT: -1, RIGHT: 1, RING: 0}[int(action)])
            data["rings"][i] += action == RING
            terminated[i] = data["position"][i] >= level.length
            truncated[i] = not terminated[i] and data["steps"][i] >= level.max_steps
            data["goals"][i] += terminated[i]
            rewards[i] = float(terminated[i])
            self.returns[i] += rewards[i]
        self.ended = terminated | truncated
        infos: dict[str, Any] = {}
        if self.autoreset_mode == AutoresetMode.SAME_STEP and self.ended.any():
            ended, final_info, obs = self.ended.copy(), self._infos(self.ended.copy()), self._obs()
            final_obs = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(ended):
                final_obs[i] = obs[i]
                self._begin(i)
            infos = {"final_obs": final_obs, "_final_obs": ended, "final_info": final_info, "_final_info": ended}
        return self._obs(), rewards, terminated, truncated, self._infos() | infos

    def get_state(self) -> dict[str, np.ndarray]:
        text = json.dumps([level.to_overrides() for level in self._levels]).encode()
        return {
            **{name: array.copy() for name, array in self.data.items()},
            "seeds": self.seeds.copy(),
            "returns": self.returns.copy(),
            "ended": self.ended.copy(),
            "level_ids": np.array(self.level_ids),
            "sample_levels": np.array(self.sample_levels),
            "levels": np.frombuffer(text, np.uint8).copy(),
        }

    def set_state(self, state):
        try:
            self.data = {name: state[name].copy() for name in self.data}
            self.seeds, self.returns, self.ended = (state[name].copy() for name in ("seeds", "returns", "ended"))
            self.level_ids, self.sample_levels = state["level_ids"].tolist(), bool(state["sample_levels"])
            self._levels = [LineLevel.parse(level) for level in json.loads(state["levels"].tobytes())]
        except KeyError as error:
            raise ValueError(f"the state has no array {error}") from None
        return self._obs()


class LineEnv(LevelEnv):
    """One environment of the vector environment."""

    def __init__(self, envs: LineVectorEnv, render_mode: str | None = None):
        self.envs, self.render_mode = envs, render_mode
        self.observation_space, self.action_space = envs.single_observation_space, envs.single_action_space

    @property
    def level(self) -> LineLevel:
        return self.envs.levels[self.envs.data["level"][0]]

    def set_level(self, level: Any) -> None:
        self.envs.set_levels(level)

    def reset(self, *, seed=None, options=None):
        if "level" in check_options(options, ("level",)):
            self.set_level(options["level"])
        obs, infos = self.envs.reset(seed=seed)
        return obs[0], {"achievements": infos["achievements"][0]}

    def step(self, action):
        obs, rewards, terminated, truncated, infos = self.envs.step([action])
        return obs[0], rewards[0], terminated[0], truncated[0], {"achievements": infos["achievements"][0]}

    def render(self) -> Any:
        return np.full((8, 8, 3), 10 * self.envs.data["position"][0], np.uint8)


class LineStats(NamedTuple):
    cells: float

    def as_dict(self) -> dict[str, float]:
        return {"cells": self.cells}


class LineWorld(World):
    name = "line"
    Level = LineLevel
    skills = (Skill("ring_bell"), Skill("reach_flag"))
    actions = ("left", "right", "ring")
    observations = ("symbols",)
    rules = "You walk along a line; a flag stands at its end."
    skill_levels = {"reach_flag": {"length": 2}}  # noqa: RUF012
    key_bindings = {"left": "left", "right": "right", "space": "ring"}  # noqa: RUF012
    vector_env_class = LineVectorEnv
    single_env_class = LineEnv

    def make(self, levels=(), num_envs=None, seed=None, observation="symbols", **kwargs) -> LevelVectorEnv:
        envs = self.vector_env_class(list(levels) or None, num_envs or max(1, len(levels)), **kwargs)
        for i in range(envs.num_envs):
            envs.seed(i, i if seed is None else seed + i)
        return envs

    def single(self, level=None, seed=None, observation="symbols", render_mode=None, **kwargs) -> LevelEnv:
        envs = self.make([level], 1, seed, autoreset_mode=AutoresetMode.DISABLED)
        return self.single_env_class(envs, render_mode)

    def level_stats(self, level=None, seeds=range(16)) -> LineStats:
        return LineStats(float(LineLevel.parse(level).length))

    def render_levels(self, levels, columns=4, seed=0) -> Image.Image:
        return Image.new("RGB", (8 * len(levels), 8))
