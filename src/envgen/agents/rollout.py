"""A vector environment played on and on (`Stream`), and what a stretch of it held (`Rollout`).

Gymnasium's three ways of beginning anew look the same from here. Under next-step autoreset the step that only resets is
no experience: it is marked invalid and never learned from.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from .networks import ActorCritic

Arrays = Mapping[str, np.ndarray]


@dataclass
class EpisodeStats:
    """Episodes that ended: how they went, and how often each skill succeeded in them where the world says so."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)
    skills: list[np.ndarray] = field(default_factory=list)  # (skills,) counts, one array an episode; see skills_of

    def __len__(self) -> int:
        return len(self.returns)

    def state(self) -> dict[str, np.ndarray]:
        return {
            "returns": np.array(self.returns),
            "lengths": np.array(self.lengths, np.int64),
            "levels": np.array(self.levels, np.int64),
            "skills": np.stack(self.skills) if self.skills else np.zeros((0, 0), np.int64),
        }

    @classmethod
    def restored(cls, state: Arrays) -> "EpisodeStats":
        lists = (state[name].tolist() for name in ("returns", "lengths", "levels"))
        return cls(*lists, skills=list(state["skills"]))


def episode_skill_counts(infos: Mapping[str, Any], which: Any) -> np.ndarray:
    """How often each skill succeeded in the episodes of some environments, (m, skills); -1 where the world says that
    this episode could not hold it."""
    counts = infos["achievements"][which]
    return np.where(infos["possible"][which], counts, -1) if "possible" in infos else counts.copy()


class Stream:
    """A vector environment in the middle of its episodes."""

    def __init__(self, envs: VectorEnv, seed: int | None = None, state: Arrays | None = None):
        self.envs = envs
        self.mode = AutoresetMode(envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self.count = envs.num_envs
        if state is None:
            self.observations, _ = envs.reset(seed=seed)
            self.returns = np.zeros(self.count)
            self.lengths = np.zeros(self.count, np.int64)
            self.begins = np.zeros(self.count, np.bool_)  # the coming step only resets
        else:
            self.observations = envs.set_state(below("env", state))  # pyright: ignore[reportAttributeAccessIssue]
            self.returns, self.lengths = state["returns"].copy(), state["lengths"].copy()
            self.begins = state["begins"].astype(np.bool_)

    def state(self) -> dict[str, np.ndarray]:
        """All that decides how the stream goes on. Only for environments that can save themselves (`get_state`)."""
        inside = {f"env.{name}": array for name, array in self.envs.get_state().items()}  # pyright: ignore[reportAttributeAccessIssue]
        return {**inside, "returns": self.returns.copy(), "lengths": self.lengths.copy(), "begins": self.begins.copy()}

    def step(self, actions: np.ndarray, episodes: EpisodeStats):
        """Rewards, ends, which ends were cut short by a limit, validity (all (B,)), and what each end looked like."""
        begun = self.begins
        seen, rewards, terminated, truncated, infos = self.envs.step(actions)
        ended = (terminated | truncated) & ~begun
        self.returns += np.where(begun, 0, rewards)
        self.lengths += ~begun
        finals = None
        if ended.any():
            finals = infos.get("final_obs") if self.mode == AutoresetMode.SAME_STEP else seen
            final_info = infos.get("final_info", {}) if self.mode == AutoresetMode.SAME_STEP else infos
            self._record(np.flatnonzero(ended), final_info, episodes)
            if self.mode == AutoresetMode.DISABLED:
                seen, _ = self.envs.reset(options={"reset_mask": ended})
        self.begins = ended & (self.mode == AutoresetMode.NEXT_STEP)
        self.observations = seen
        return rewards, ended, truncated & ~terminated & ended, ~begun, finals

    def _record(self, ended: np.ndarray, infos: dict[str, Any], episodes: EpisodeStats) -> None:
        episodes.returns += self.returns[ended].tolist()
        episodes.lengths += self.lengths[ended].tolist()
        if "level" in infos:
            episodes.levels += infos["level"][ended].tolist()
        if "achievements" in infos:
            episodes.skills += list(episode_skill_counts(infos, ended))
        self.returns[ended] = 0
        self.lengths[ended] = 0


class Rollout:
    """T steps of B environments: what was seen on the learner's device, the rest as numpy until it is learned from."""

    def __init__(self, steps: int, stream: Stream, network: ActorCritic, device: torch.device):
        self.steps, self.count = steps, stream.count
        self.network, self.device = network, device
        self.seen = torch.empty(0, device=device)  # (T, B, ...), prepared; its shape is known with the first
        self.actions = torch.empty((steps, self.count, *network.head.shape), dtype=network.head.dtype, device=device)
        self.log_probs = torch.empty((steps, self.count), device=device)
        self.values = torch.empty((steps, self.count), device=device)
        self.rewards = np.empty((steps, self.count), np.float32)
        self.ends = np.empty((steps, self.count), np.bool_)
        self.valid = np.empty((steps, self.count), np.bool_)
        self.last_values = np.empty(self.count, np.float32)
        self.episodes = EpisodeStats()

    def see(self, t: int, observations: np.ndarray) -> torch.Tensor:
        """Put the observations of step t in place, prepared; to a GPU they are copied while the program goes on."""
        here = torch.from_numpy(observations)
        if self.device.type == "cuda":
            here = here.pin_memory().to(self.device, non_blocking=True)
        prepared = self.network.body.prepare(here)
        if t == 0:
            self.seen = torch.empty((self.steps, *prepared.shape), dtype=prepared.dtype, device=self.device)
        self.seen[t] = prepared
        return self.seen[t]

    TENSORS = ("seen", "actions", "log_probs", "values")
    ARRAYS = ("rewards", "ends", "valid", "last_values")

    def state(self) -> dict[str, np.ndarray]:
        tensors = {name: getattr(self, name).to("cpu", copy=True).numpy() for name in self.TENSORS}
        arrays = {name: getattr(self, name).copy() for name in self.ARRAYS}
        return {**tensors, **arrays, **{f"episodes.{name}": a for name, a in self.episodes.state().items()}}

    def restore(self, state: Arrays) -> "Rollout":
        for name in self.TENSORS:
            setattr(self, name, torch.from_numpy(state[name].copy()).to(self.device))
        for name in self.ARRAYS:
            getattr(self, name)[:] = state[name]
        self.episodes = EpisodeStats.restored(below("episodes", state))
        return self


def below(prefix: str, state: Arrays) -> dict[str, np.ndarray]:
    """The entries `prefix.name` of a state, as `name`."""
    return {name.removeprefix(f"{prefix}."): array for name, array in state.items() if name.startswith(f"{prefix}.")}
