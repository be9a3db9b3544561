"""Environments in which a `LevelSampler` chooses the level of every episode, next to others that play the original."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from envgen.agents.learner import SupportsAct
from envgen.agents.rollout import episode_skill_counts
from envgen.arrays import read_array, strip_prefix
from envgen.designers.buffer import NO_SEED
from envgen.designers.sampler import ORIGINAL_ID, LevelMeasurements, LevelSampler
from envgen.worlds.world import Level, LevelVectorEnv, SupportsActive, SupportsEnvLevels, World

from .evaluate import MAX_ENVS, act_where, memory_of
from .plan import PlanError
from .wrapper import VectorEnvWrapper, restart


class SampledLevelsVectorEnv(VectorEnvWrapper):
    """The environments `envs`. All but `original_share` of them play levels from `sampler`, a new one for each episode.

    The level of an episode is chosen when the episode before it begins, because environments reset within a step.
    `infos["level"]` is the `level_id` of the sampler, or `ORIGINAL_ID`, instead of an index.

    Args:
        envs: Environments of `world` with same-step autoreset.
        original_share: Share of the environments that play the original.
        seed: Determines which environments play the original.
    """

    def __init__(self, envs: LevelVectorEnv, world: World, sampler: LevelSampler, original_share: float, seed: int):
        if envs.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP:
            raise PlanError(
                "sampling a level for each episode needs environments with same-step autoreset; make them with "
                "autoreset_mode=AutoresetMode.SAME_STEP, or choose another designer"
            )
        super().__init__(envs)
        self.envs, self.world, self.sampler = envs, world, sampler
        n = self.num_envs
        self.plays_original = np.zeros(n, np.bool_)
        num_original = n - num_sampled_envs(n, original_share)
        self.plays_original[np.random.default_rng([seed, 4]).permutation(n)[:num_original]] = True
        # of the episode in progress and of the one after it: its level, and whether the agent learns from it
        self.level_ids, self.next_level_ids = np.full((2, n), ORIGINAL_ID, np.int64)
        self.learns, self.next_learns = np.ones((2, n), np.bool_)
        self.next_seeds = np.full(n, NO_SEED)  # of the maps
        self.next_levels: list[Level] = [world.original] * n

    def reset(self, *, seed: Any = None, options: dict | None = None):
        if options:
            raise ValueError(f"these environments are reset together; call reset() without options, not {options!r}")
        sampled = np.flatnonzero(~self.plays_original)
        self._sample(sampled)
        self.envs.set_levels(self.next_levels)
        obs, infos = self.envs.reset(seed=seed)
        self._restart_with_seeds(sampled, obs, infos)
        self._begin(sampled)
        return obs, {**infos, "level": self.level_ids.copy()}

    def step(self, actions: Any):
        obs, rewards, terminated, truncated, infos = self.envs.step(actions)
        ended = terminated | truncated
        if ended.any():
            infos["final_info"]["level"] = np.where(ended, self.level_ids, 0)
            sampled = np.flatnonzero(ended & ~self.plays_original)
            self._restart_with_seeds(sampled, obs, infos)
            self._begin(sampled)
        infos["level"] = self.level_ids.copy()
        return obs, rewards, terminated, truncated, infos

    def _restart_with_seeds(self, env_ids: np.ndarray, obs: Any, infos: dict[str, Any]) -> None:
        """Restart those of these environments whose new level has a map seed, with that seed."""
        mask = np.zeros(self.num_envs, np.bool_)
        mask[env_ids] = self.next_seeds[env_ids] != NO_SEED
        if mask.any():
            seeds = [int(seed) if restarts else None for seed, restarts in zip(self.next_seeds, mask, strict=True)]
            restart(self.envs, mask, obs, infos, seeds)

    def _begin(self, env_ids: np.ndarray) -> None:
        """The next episodes have begun in these environments: choose the levels of those after them."""
        self.level_ids[env_ids], self.learns[env_ids] = self.next_level_ids[env_ids], self.next_learns[env_ids]
        self._sample(env_ids)
        if not env_ids.size:
            return
        if isinstance(self.envs, SupportsEnvLevels):
            self.envs.set_env_levels(env_ids.tolist(), [self.next_levels[i] for i in env_ids])
        else:
            self.envs.set_levels(self.next_levels)

    def _sample(self, env_ids: np.ndarray) -> None:
        for i in env_ids:
            sampled = self.sampler.sample()
            self.next_level_ids[i], self.next_levels[i] = sampled.level_id, sampled.level
            self.next_learns[i], self.next_seeds[i] = sampled.learns, sampled.seed

    ARRAYS = ("plays_original", "level_ids", "next_level_ids", "learns", "next_learns", "next_seeds")

    def get_state(self) -> dict[str, np.ndarray]:
        """The state of the environments, without that of the sampler."""
        levels = json.dumps([level.to_overrides() for level in self.next_levels])
        return {
            **{f"envs.{name}": array for name, array in self.envs.get_state().items()},
            **{f"sampling.{name}": getattr(self, name).copy() for name in self.ARRAYS},
            "sampling.next_levels": np.frombuffer(levels.encode(), np.uint8).copy(),
        }

    def set_state(self, state: Mapping[str, np.ndarray]) -> Any:
        envs, own = strip_prefix("envs", state), strip_prefix("sampling", state)
        arrays = {name: read_array(own, name, getattr(self, name).dtype.str, (self.num_envs,)) for name in self.ARRAYS}
        text = read_array(own, "next_levels", "u1", (None,)).tobytes()
        try:
            levels = [self.world.Level.parse(level) for level in json.loads(text)]
        except (TypeError, RecursionError):
            levels = []
        if len(levels) != self.num_envs or arrays["plays_original"].sum() != self.plays_original.sum():
            raise ValueError("the state of the levels of the next episodes is damaged")
        obs = self.envs.set_state(envs)
        for name, array in arrays.items():
            setattr(self, name, array.copy())
        self.next_levels = levels
        return obs


def num_sampled_envs(num_envs: int, original_share: float) -> int:
    """How many environments play sampled levels; at least one."""
    return max(1, num_envs - round(num_envs * original_share))


def measure_levels(
    agent: SupportsAct,
    world: World,
    observation: str,
    levels: Sequence[Level],
    episodes: int,
    max_steps: int,
    seed: int,
) -> LevelMeasurements:
    """Play `episodes` episodes in each level without learning. Longer episodes are cut off after `max_steps` steps."""
    succeeded, tried = np.zeros((2, len(levels), len(world.skills)))
    steps = 0
    level_ids = np.tile(np.arange(len(levels)), episodes)
    for start in range(0, len(level_ids), MAX_ENVS):
        batch = level_ids[start : start + MAX_ENVS]
        with closing(world.make([levels[k] for k in batch], len(batch), seed + start, observation)) as envs:
            counts, num_steps = _play_once(agent, envs, max_steps, np.random.default_rng([seed, start]))
        np.add.at(succeeded, batch, counts > 0)
        np.add.at(tried, batch, counts >= 0)
        steps += num_steps
    return LevelMeasurements(succeeded, tried, steps)


def _play_once(
    agent: SupportsAct, envs: LevelVectorEnv, max_steps: int, rng: np.random.Generator
) -> tuple[np.ndarray, int]:
    """Play one episode, or its first `max_steps` steps, in each environment.

    Returns:
        How often each skill succeeded (num_envs, skills), -1 where it was impossible, and the number of steps.
    """
    obs, infos = envs.reset()
    counts = episode_skill_counts(infos, slice(None))
    playing = np.ones(envs.num_envs, np.bool_)
    memory = memory_of(agent)
    if memory:
        memory.reset(infos)
    steps = 0
    for _ in range(max_steps):
        actions = act_where(playing, agent, obs, rng)
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        steps += int(playing.sum())
        dones = terminated | truncated
        if memory:
            memory.observe(rewards, dones, infos)
        if dones.any():
            ended = dones & playing
            counts[ended] = episode_skill_counts(infos["final_info"], ended)
        playing &= ~dones
        if isinstance(envs, SupportsActive):
            envs.set_active(playing)
        counts[playing] = episode_skill_counts(infos, playing)
        if not playing.any():
            break
    return counts, steps
