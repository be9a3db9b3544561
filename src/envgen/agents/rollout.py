"""Playing a vector environment (`VecEnvRunner`) and storing what happened (`Rollout`).

The runner hides the differences between Gymnasium's three autoreset modes. Under next-step autoreset, the
reset-only steps are marked invalid and excluded from training.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from envgen.arrays import Arrays, strip_prefix

from .memory import AgentMemory, History
from .networks import PolicyNetwork
from .parallel import Minibatch
from .regret import SelectsEpisodes


@dataclass
class EpisodeStats:
    """Finished episodes: one entry per episode in each list. Practice episodes have lists of their own."""

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    levels: list[int] = field(default_factory=list)  # empty if the environment does not report levels
    skill_counts: list[np.ndarray] = field(default_factory=list)  # (skills,) each; see `episode_skill_counts`
    practice_lengths: list[int] = field(default_factory=list)  # steps since the saved state
    practice_skills: list[int] = field(default_factory=list)  # index of the skill practiced
    practice_successes: list[bool] = field(default_factory=list)  # whether the episode succeeded at it
    practice_levels: list[int] = field(default_factory=list)  # empty if the environment does not report levels
    positive_value_losses: list[float] = field(default_factory=list)  # see `set_regret`
    mean_values: list[float] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.returns)

    def set_regret(self, positive_value_losses: list[float], mean_values: list[float]) -> None:
        """Add the results of a `RegretEstimator`, known only when the learner has computed the advantages."""
        self.positive_value_losses, self.mean_values = positive_value_losses, mean_values

    def state(self) -> dict[str, np.ndarray]:
        return {
            "returns": np.array(self.returns),  # states are taken before `set_regret`
            "lengths": np.array(self.lengths, np.int64),
            "levels": np.array(self.levels, np.int64),
            "skill_counts": np.stack(self.skill_counts) if self.skill_counts else np.zeros((0, 0), np.int64),
            "practice_lengths": np.array(self.practice_lengths, np.int64),
            "practice_skills": np.array(self.practice_skills, np.int64),
            "practice_successes": np.array(self.practice_successes, np.bool_),
            "practice_levels": np.array(self.practice_levels, np.int64),
        }

    @classmethod
    def from_state(cls, state: Arrays) -> "EpisodeStats":
        lists = {name: state[name].tolist() for name in cls().state() if name != "skill_counts"}
        return cls(**lists, skill_counts=list(state["skill_counts"]))


@dataclass(frozen=True)
class UpdateResult:
    """One update, as reported to the `on_update` callback of a learner."""

    steps: int  # environment steps of this learner so far, over all processes
    metrics: dict[str, float]  # of the update; NaN where one is unknown
    episodes: EpisodeStats  # that ended in the rollout, in the environments of this process


def episode_skill_counts(infos: Mapping[str, Any], mask: Any) -> np.ndarray:
    """How often each skill succeeded in the episodes of the selected environments, (m, skills).

    -1 marks a skill that the world reports as impossible in that episode.
    """
    counts = infos["achievements"][mask]
    return np.where(infos["possible"][mask], counts, -1) if "possible" in infos else counts.copy()


@runtime_checkable
class SupportsState(Protocol):
    """Environments that can be saved and restored in mid-episode."""

    def get_state(self) -> Mapping[str, np.ndarray]: ...

    def set_state(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Restore the state and return the current observations."""
        ...


@runtime_checkable
class RestoresHistory(Protocol):
    """Environments that begin episodes in the middle of an earlier one, as practice does."""

    def transfer_history(self, history: History) -> None:
        """Save and restore the bits of the agent's history, as the last reset or step did with environments. Called
        after each, when the history includes the step."""
        ...


class StepResult(NamedTuple):
    """The result of one vector step."""

    rewards: np.ndarray  # (B,)
    dones: np.ndarray  # (B,) whether an episode ended with this step
    truncated: np.ndarray  # (B,) whether it ended by truncation alone
    valid: np.ndarray  # (B,) False where the step only reset the environment, or the agent does not learn from it
    final_obs: Any  # the last observations of the episodes that ended; None if none did
    cut_off: np.ndarray  # (B,) whether the training ended it before the world would have
    final_bits: np.ndarray | None  # (B, bits), of the agent's memory at final_obs; None if nothing was truncated

    def final_inputs(self, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The last observations of the episodes in `mask`, which have ended, and the bits of the memory there."""
        obs = np.stack([self.final_obs[i] for i in np.flatnonzero(mask)])
        return obs, None if self.final_bits is None else self.final_bits[mask]


class VecEnvRunner:
    """Steps a vector environment and keeps the statistics and the agent's memory of the episodes in progress."""

    def __init__(
        self, envs: VectorEnv, seed: int | None = None, state: Arrays | None = None, memory: AgentMemory | None = None
    ):
        self.envs, self.memory = envs, memory or AgentMemory(0, None, envs.num_envs)
        self.autoreset_mode = AutoresetMode(envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        self.num_envs = envs.num_envs
        if state is None:
            self.obs, infos = envs.reset(seed=seed)
            self.memory.reset(np.ones(self.num_envs, np.bool_), infos)
            self._transfer_history()
            self.episode_returns = np.zeros(self.num_envs)
            self.episode_lengths = np.zeros(self.num_envs, np.int64)
            self.needs_reset = np.zeros(self.num_envs, np.bool_)  # the next step only resets
        else:
            self.obs = self._require_state().set_state(strip_prefix("env", state))
            self.episode_returns = state["episode_returns"].copy()
            self.episode_lengths = state["episode_lengths"].copy()
            self.needs_reset = state["needs_reset"].astype(np.bool_)
            self.memory.load(strip_prefix("memory", state))

    def state(self) -> dict[str, np.ndarray]:
        """Everything needed to continue in mid-episode."""
        env_state = self._require_state().get_state()
        return {
            **{f"env.{name}": array for name, array in env_state.items()},
            **{f"memory.{name}": array for name, array in self.memory.state().items()},
            "episode_returns": self.episode_returns.copy(),
            "episode_lengths": self.episode_lengths.copy(),
            "needs_reset": self.needs_reset.copy(),
        }

    def _require_state(self) -> SupportsState:
        if not isinstance(self.envs, SupportsState):
            raise TypeError(
                f"{type(self.envs).__name__} cannot be saved in mid-episode: it has no get_state or set_state. "
                "Save between two calls of train instead"
            )
        return self.envs

    def step(self, actions: np.ndarray, episodes: EpisodeStats) -> StepResult:
        """One step of every environment; episodes that end are added to `episodes`."""
        resetting, learns = self.needs_reset, True
        if isinstance(self.envs, SelectsEpisodes):
            learns = self.envs.learns.copy()
        self.memory.record_action(self.obs, actions)
        obs, rewards, terminated, truncated, infos = self.envs.step(actions)
        dones = (terminated | truncated) & ~resetting
        self.episode_returns += np.where(resetting, 0, rewards)
        self.episode_lengths += ~resetting
        final_obs = final_bits = None
        practiced = cut_off = np.zeros(self.num_envs, np.bool_)
        self.memory.record_rewards(rewards)
        if truncated.any():  # only needed then, to bootstrap
            final_bits = self.memory.bits
        self.memory.reset(dones | resetting, infos)
        self._transfer_history()
        if dones.any():
            same_step = self.autoreset_mode == AutoresetMode.SAME_STEP
            final_obs = infos.get("final_obs") if same_step else obs
            final_infos = infos.get("final_info", {}) if same_step else infos
            if "practice_skill" in final_infos:
                practiced = dones & final_infos["practice"]
            cut_off = dones & final_infos.get("cut_off", cut_off)
            self._record_episodes(np.flatnonzero(dones & ~practiced), final_infos, episodes)
            self._record_practice(np.flatnonzero(practiced), final_infos, episodes)
            if self.autoreset_mode == AutoresetMode.DISABLED:
                final_obs = obs.copy()  # environments may reuse their buffer
                obs, infos = self.envs.reset(options={"reset_mask": dones})
                self.memory.reset(dones, infos)
        self.needs_reset = dones & (self.autoreset_mode == AutoresetMode.NEXT_STEP)
        self.obs = obs
        truncated = truncated & ~terminated & dones
        return StepResult(rewards, dones, truncated, ~resetting & learns, final_obs, cut_off, final_bits)

    def _transfer_history(self) -> None:
        if self.memory.history and isinstance(self.envs, RestoresHistory):
            self.envs.transfer_history(self.memory.history)

    def _record_episodes(self, indices: np.ndarray, infos: dict[str, Any], episodes: EpisodeStats) -> None:
        episodes.returns += self.episode_returns[indices].tolist()
        episodes.lengths += self.episode_lengths[indices].tolist()
        if _is_array(infos.get("level"), 1):
            episodes.levels += infos["level"][indices].tolist()
        if _is_array(infos.get("achievements"), 2):
            episodes.skill_counts += list(episode_skill_counts(infos, indices))
        self.episode_returns[indices] = 0
        self.episode_lengths[indices] = 0

    def _record_practice(self, indices: np.ndarray, infos: dict[str, Any], episodes: EpisodeStats) -> None:
        if not indices.size:
            return
        skills = infos["practice_skill"][indices]
        episodes.practice_lengths += self.episode_lengths[indices].tolist()
        episodes.practice_skills += skills.tolist()
        episodes.practice_successes += (infos["achievements"][indices, skills] > 0).tolist()
        if _is_array(infos.get("level"), 1):
            episodes.practice_levels += infos["level"][indices].tolist()
        self.episode_returns[indices] = 0
        self.episode_lengths[indices] = 0


def _is_array(value: Any, ndim: int) -> bool:
    """Whether an entry of infos has the form of the worlds' own. Other environments may use the same name."""
    return isinstance(value, np.ndarray) and value.ndim == ndim and value.dtype != object


class Rollout:
    """T steps of B environments. What the network needs is on its device; the rest stays in numpy until the update.

    Args:
        sequence_length: For networks with memory, the approximate number of steps in each sequence of the update. The
            recurrent state before the first step of each sequence is stored.
        obs_buffer: The observations of a rollout that is no longer needed, to be overwritten. Writing to large newly
            allocated tensors for the first time is slow.
    """

    def __init__(
        self,
        num_steps: int,
        num_envs: int,
        network: PolicyNetwork,
        device: torch.device,
        sequence_length: int = 1,
        obs_buffer: torch.Tensor | None = None,
    ):
        self.num_steps, self.num_envs = num_steps, num_envs
        self.network, self.device = network, device
        shape, dist = (num_steps, num_envs), network.action_dist
        self.obs = torch.empty(0, device=device)  # (T, B, ...), prepared; allocated with the first
        self._obs_buffer = obs_buffer
        self.actions = torch.empty((*shape, *dist.shape), dtype=dist.dtype, device=device)
        self.logprobs = torch.empty(shape, device=device)
        self.values = torch.empty(shape, device=device)
        self.rewards = np.empty(shape, np.float32)
        self.dones = np.empty(shape, np.bool_)  # whether the episode ended with this step
        self.valid = np.empty(shape, np.bool_)
        self.last_values = np.empty(num_envs, np.float32)  # of the observations after the last step
        self.episodes = EpisodeStats()
        # for networks with memory
        num_sequences = max(1, round(num_steps / sequence_length)) if network.state_size else 0
        self.sequence_starts = [num_steps * k // num_sequences for k in range(num_sequences)]
        self.hidden = torch.empty(num_sequences, num_envs, network.state_size, device=device)  # before each sequence
        self.starts = np.empty(shape, np.bool_)  # whether an episode starts with this step

    def store_obs(self, t: int, obs: np.ndarray, bits: np.ndarray | None = None) -> torch.Tensor:
        """Prepare and store the observations of step t. Copies to a GPU are asynchronous."""
        prepared = self.network.prepare(*(self._to_device(array) for array in (obs, bits) if array is not None))
        if t == 0:
            buffer, self._obs_buffer = self._obs_buffer, None
            fits = buffer is not None and buffer.shape[1:] == prepared.shape and buffer.dtype == prepared.dtype
            if buffer is None or not fits or len(buffer) < self.num_steps:
                buffer = torch.empty((self.num_steps, *prepared.shape), dtype=prepared.dtype, device=self.device)
            self.obs = buffer[: self.num_steps]
        self.obs[t] = prepared
        return self.obs[t]

    def store_memory(self, t: int, memory: AgentMemory) -> None:
        """Store what the update needs of the memory before step t."""
        self.starts[t] = memory.starts
        if t in self.sequence_starts:
            self.hidden[self.sequence_starts.index(t)] = memory.hidden

    def _to_device(self, array: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor

    @property
    def num_samples(self) -> int:
        """Samples of each environment that minibatches are drawn from: steps, or sequences of a recurrent network."""
        return len(self.sequence_starts) or self.num_steps

    def select(self, batch: Mapping[str, torch.Tensor], samples: np.ndarray, envs: np.ndarray) -> Minibatch:
        """A minibatch of samples.

        Args:
            batch: Tensors (T * B, ...).
            samples, envs: (n,), each pair selects a step or a sequence of steps of an environment.

        Returns:
            The valid steps (m, ...), or sequences (n, L, ...) with `valid` (n, L), and `hidden` before each of them.
        """
        if not self.sequence_starts:
            rows = samples * self.num_envs + envs
            index = torch.from_numpy(rows[self.valid.reshape(-1)[rows]]).to(self.device)
            return {name: tensor.index_select(0, index) for name, tensor in batch.items()}
        first = np.array(self.sequence_starts)
        lengths = np.diff(first, append=self.num_steps)
        offsets = np.arange(lengths.max())
        steps = first[samples, None] + np.minimum(offsets, lengths[samples, None] - 1)  # (n, L), shorter ones padded
        rows = steps * self.num_envs + envs[:, None]
        valid = self.valid.reshape(-1)[rows] & (offsets < lengths[samples, None])
        index = torch.from_numpy(rows.reshape(-1)).to(self.device)
        minibatch = {n: tensor.index_select(0, index).unflatten(0, rows.shape) for n, tensor in batch.items()}
        minibatch["valid"] = torch.from_numpy(valid).to(self.device)
        sequences = torch.from_numpy(samples * self.num_envs + envs).to(self.device)
        minibatch["hidden"] = self.hidden.flatten(0, 1).index_select(0, sequences)
        return minibatch

    TENSORS = ("obs", "actions", "logprobs", "values", "hidden")
    ARRAYS = ("rewards", "dones", "valid", "last_values", "starts")

    def state(self) -> dict[str, np.ndarray]:
        memory_names = () if self.network.state_size else ("hidden", "starts")
        tensors = {n: getattr(self, n).to("cpu", copy=True).numpy() for n in self.TENSORS if n not in memory_names}
        arrays = {n: getattr(self, n).copy() for n in self.ARRAYS if n not in memory_names}
        episodes = {f"episodes.{name}": array for name, array in self.episodes.state().items()}
        return {**tensors, **arrays, **episodes}

    def load(self, state: Arrays) -> "Rollout":
        for name in self.TENSORS:
            if name in state:
                setattr(self, name, torch.from_numpy(state[name].copy()).to(self.device))
        for name in self.ARRAYS:
            if name in state:
                getattr(self, name)[:] = state[name]
        self.episodes = EpisodeStats.from_state(strip_prefix("episodes", state))
        return self
