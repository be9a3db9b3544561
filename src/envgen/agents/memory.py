"""What an agent remembers of the current episode: the state of a recurrent core, and bits added to each observation.

The bits are:

- The last action (one bit per discrete action) and the sign of its reward, for networks with a recurrent core.
- `rewarded_events`: which events of this episode were rewarded. An event is an action together with the symbol of the
  cell that the agent faced, or the action alone where observations have no such cell.
- Whether the last reward was larger than `reward_bit_threshold`, which tells Achievement Distillation that the step was
  an achievement.

Crafter rewards only the first success of each skill in an episode. Its observations do not show which skills have
already been rewarded. These bits do; they are computed from the agent's own actions, observations and rewards alone.

A level can say that skills count as achieved from its start (`Level.done_skills`): it begins in the middle of an
episode. The environments tell in which events these skills would have been rewarded, by `infos["done_events"]`
(num_envs, skills, 2): an action and the symbol of the faced cell, or -1 for skills that are not done or have no such
event. The history of the episode then begins with these events. It would otherwise contradict the rewards.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from envgen.jit import jit
from envgen.worlds.world import Layout, SymbolMap

NO_INFOS: Mapping[str, Any] = {}  # a MappingProxyType could not be pickled, and neither could policies
REWARD_THRESHOLD = 0.5  # a larger reward marks the event as rewarded; Crafter gives 1 for a skill and 0.1 for health


@jit
def _update(actions, rewards, faced, threshold, last, rewarded):
    """Write the bits after a step. `faced` (B,) is the symbol that the agent faced before the step."""
    num_actions = last.shape[1] - 2
    num_symbols = rewarded.shape[1] // num_actions if rewarded.shape[1] else 0
    for b in range(actions.size):
        last[b] = 0
        last[b, actions[b]] = 1
        last[b, num_actions] = rewards[b] > 0
        last[b, num_actions + 1] = rewards[b] < 0
        if num_symbols and rewards[b] > threshold:
            rewarded[b, actions[b] * num_symbols + faced[b]] = 1


@jit
def _faced_symbols(obs, facing_index, facing_cells, num_cells, num_symbols, out):
    """The symbol of the cell that the agent faces, numbered over all planes; the last plane that has one counts."""
    for b in range(out.size):
        facing = np.int64(obs[b, facing_index])
        out[b], first = 0, 0
        if not 0 <= facing < facing_cells.size:
            continue
        cell = facing_cells[facing]
        for plane in range(num_symbols.size):
            symbol = np.int64(obs[b, plane * num_cells + cell])
            if 0 < symbol <= num_symbols[plane]:  # others are outside the observation space
                out[b] = first + symbol
            first += num_symbols[plane]


class HistorySpec:
    """Which bits a network expects in addition to observations.

    Args:
        observation_space, action_space: Of a single environment.
        layout: Of the observations. With a map, events include the symbol of the cell that the agent faces.
        last_step: Include the last action and the sign of its reward.
        rewarded_events: Include the rewarded events.
        reward_bit_threshold: Include, as the last bit, whether the last reward was larger than this.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        layout: Layout,
        last_step: bool,
        rewarded_events: bool,
        reward_bit_threshold: float | None = None,
    ):
        is_discrete = isinstance(action_space, spaces.Discrete)
        self.num_actions = int(action_space.n) if is_discrete else 1  # a continuous action counts as one
        self.first_action = int(action_space.start) if is_discrete else 0
        self.is_discrete, self.last_step, self.rewarded_events = is_discrete, last_step, rewarded_events
        self.facing: SymbolMap | None = None
        self.num_faced_symbols = 1
        if rewarded_events and isinstance(layout, SymbolMap) and layout.facing_index is not None:
            assert isinstance(observation_space, spaces.Box)
            self.facing, self.facing_cells = layout, layout.facing_cells()
            self.num_cells = layout.rows * layout.columns
            self.num_symbols = layout.num_symbols(observation_space.high)
            self.num_faced_symbols = 1 + int(self.num_symbols.sum())
        self.num_last_bits = self.num_actions + 2
        self.num_event_bits = self.num_actions * self.num_faced_symbols if rewarded_events else 0
        self.reward_bit_threshold = reward_bit_threshold
        self.num_bits = (self.num_last_bits if last_step else 0) + self.num_event_bits
        self.num_bits += reward_bit_threshold is not None


class History:
    """The bits of `num_envs` episodes in progress."""

    def __init__(self, spec: HistorySpec, num_envs: int):
        self.spec = spec
        self.last = np.zeros((num_envs, spec.num_last_bits), np.uint8)
        self.rewarded = np.zeros((num_envs, spec.num_event_bits), np.uint8)
        self.above_threshold = np.zeros((num_envs, 1), np.uint8)
        self._actions = np.zeros(num_envs, np.int64)  # of the step in progress
        self._faced = np.zeros(num_envs, np.int64)

    @property
    def bits(self) -> np.ndarray:
        """(num_envs, num_bits) uint8."""
        parts = [self.last] if self.spec.last_step else []
        parts += [self.rewarded] if self.spec.rewarded_events else []
        parts += [self.above_threshold] if self.spec.reward_bit_threshold is not None else []
        return np.concatenate(parts, 1)

    def record_action(self, obs: np.ndarray, actions: np.ndarray) -> None:
        """Call this before a step with the observations and the actions chosen for them."""
        spec = self.spec
        if spec.is_discrete:
            self._actions[:] = actions - spec.first_action
        if spec.facing is not None:
            facing = spec.facing.facing_index, spec.facing_cells, spec.num_cells, spec.num_symbols
            _faced_symbols(obs, *facing, self._faced)  # pyright: ignore[reportCallIssue]

    def record_rewards(self, rewards: np.ndarray) -> None:
        """Call this after the step."""
        _update(self._actions, rewards, self._faced, REWARD_THRESHOLD, self.last, self.rewarded)
        if self.spec.reward_bit_threshold is not None:  # compared in float32, as are the rewards of a rollout
            self.above_threshold[:, 0] = rewards.astype(np.float32) > np.float32(self.spec.reward_bit_threshold)

    def reset(self, dones: np.ndarray, infos: Mapping[str, Any] = NO_INFOS) -> None:
        """Forget the episodes that ended. `infos` are those of the next ones."""
        self.last[dones] = 0
        self.rewarded[dones] = 0
        self.above_threshold[dones] = 0
        if self.spec.num_event_bits and "done_events" in infos and dones.any():
            events = np.asarray(infos["done_events"], np.int64)
            events = events.reshape(-1, *events.shape[-2:])
            if len(events) != len(dones):
                raise ValueError(f"infos are of {len(events)} environments, but there are {len(dones)}")
            env_ids, skills = np.nonzero(dones[:, None] & (events[..., 0] >= 0))
            actions, symbols = events[env_ids, skills].T
            actions = actions - self.spec.first_action
            symbols = symbols if self.spec.facing is not None else 0
            self.rewarded[env_ids, actions * self.spec.num_faced_symbols + symbols] = 1

    ARRAYS = ("last", "rewarded", "above_threshold")

    def get_rows(self, env_ids: np.ndarray) -> dict[str, np.ndarray]:
        """The bits of some of the episodes."""
        return {name: getattr(self, name)[env_ids] for name in self.ARRAYS}

    def set_rows(self, env_ids: np.ndarray, rows: Mapping[str, np.ndarray]) -> None:
        for name in self.ARRAYS:
            getattr(self, name)[env_ids] = rows[name]

    def state(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name).copy() for name in self.ARRAYS}

    def load(self, state: Mapping[str, np.ndarray]) -> None:
        for name in self.ARRAYS:
            getattr(self, name)[:] = state[name]


class AgentMemory:
    """What a network carries from step to step in each environment: its recurrent state and the history.

    Every step is recorded by `record_action`, `record_rewards` and `reset`, in this order. `reset` is also called
    before the first step.

    Args:
        state_size: Of the recurrent state; 0 for networks without one.
        spec: Of the history; None for networks without one.
        num_envs: Number of environments, all at the start of an episode.
        device: Of the recurrent state.
    """

    def __init__(self, state_size: int, spec: HistorySpec | None, num_envs: int, device: torch.device | str = "cpu"):
        self.num_envs = num_envs
        self.hidden = torch.zeros(num_envs, state_size, device=device)  # after the last step
        self.starts = np.ones(num_envs, np.bool_)  # whether the next step starts an episode
        self.history = History(spec, num_envs) if spec else None

    @property
    def bits(self) -> np.ndarray | None:
        return self.history.bits if self.history else None

    def record_action(self, obs: np.ndarray, actions: np.ndarray) -> None:
        """Call this before a step with the observations and the actions chosen for them."""
        if self.history:
            self.history.record_action(obs, actions)

    def record_rewards(self, rewards: np.ndarray) -> None:
        """Call this after the step."""
        if self.history:
            self.history.record_rewards(rewards)

    def reset(self, dones: np.ndarray, infos: Mapping[str, Any] = NO_INFOS) -> None:
        """Forget the episodes that ended; call this after every step. `infos` are those that came with it."""
        self.starts = np.array(dones, np.bool_)
        if self.history:
            self.history.reset(self.starts, infos)

    def state(self) -> dict[str, np.ndarray]:
        """The arrays to save; none for networks without memory."""
        state = self.history.state() if self.history else {}
        if self.hidden.shape[1]:
            state |= {"starts": self.starts.copy(), "hidden": self.hidden.to("cpu", copy=True).numpy()}
        return state

    def load(self, state: Mapping[str, np.ndarray]) -> None:
        if self.hidden.shape[1]:
            self.starts = state["starts"].astype(np.bool_)
            self.hidden = torch.from_numpy(state["hidden"].copy()).to(self.hidden.device)
        if self.history:
            self.history.load(state)
