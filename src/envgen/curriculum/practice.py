"""Practice: a share of the environments restarts from saved states in which the agent was close to a rare skill.

No designer is needed. `PracticeVectorEnv` takes snapshots of the environments while the agent plays, and saves a state
for a skill whose success rate is low

- when an episode succeeds at the skill for the first time: a random one of its snapshots from the steps before;
- when an episode has succeeded at the last of the skill's prerequisites, but not at the skill: the state of that step.

The environments that practice begin each episode in a saved state, with a new random stream, so that the episodes
differ. What the episode had achieved before counts as achieved: only new achievements are rewarded. The agent's history
of the episode (agents/memory.py) is saved and restored as well, so that it knows which events were rewarded before; a
recurrent state starts from zero.

States are chosen by how rare their skill is in ordinary episodes, and by learnability: p (1 - p), where p is the
success rate of practice from such states (Rutherford et al. 2024 choose levels by it). A state from which practice
always or never succeeds teaches little.

The `done_skills` of a level count as achieved from the start, because they give no reward there.

This uses the agent's own episodes, what `infos["achievements"]` reports about them (the counts for which rewards are
given), the prerequisites that the world declares for its skills, and the ability to save and restore an environment. It
places no objects and reads nothing else from the state of a world.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode
from pydantic import ValidationError

from envgen.agents.memory import History
from envgen.arrays import read_array, strip_prefix
from envgen.errors import EnvgenError
from envgen.settings import format_validation_error
from envgen.worlds.world import LevelVectorEnv, Skill, SupportsEnvState, World

from .plan import PracticeSettings
from .wrapper import VectorEnvWrapper, add_final_infos

RATE_DECAY = 0.999  # of success rates, per ordinary episode
PRACTICE_RATE_DECAY = 0.99  # the same per practice episode
MIN_RATE = 0.01  # lower success rates weigh as much as this one
MIN_LEARNABILITY = 0.01  # added to p (1 - p), so that every state is sampled from time to time
BEFORE_SUCCESS, WITHIN_REACH = 0, 1  # kinds of states; those of skill k are the group 2 * k + kind
NO_GROUP = -1


class PracticeError(EnvgenError, ValueError):
    """Practice is impossible in these environments; the message says why."""


class StateRows:
    """Stores states of environments in `capacity` rows."""

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.arrays: dict[str, np.ndarray] = {}  # (capacity, ...) each; allocated with the first states

    def write(self, rows: np.ndarray, states: Mapping[str, np.ndarray]) -> None:
        for name, values in states.items():
            array = self.arrays.get(name)
            if array is None:
                array = self.arrays[name] = np.zeros((self.capacity, *values.shape[1:]), values.dtype)
            if values.ndim == 1:
                array[rows] = values
                continue
            width = values.shape[-1]
            if width > array.shape[-1]:  # later states may need more room
                padding = [(0, 0)] * (array.ndim - 1) + [(0, width - array.shape[-1])]
                array = self.arrays[name] = np.pad(array, padding)
            array[rows, ..., :width] = values
            array[rows, ..., width:] = 0

    def read(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        return {name: array[rows] for name, array in self.arrays.items()}


class PracticeVectorEnv(VectorEnvWrapper, LevelVectorEnv):
    """The environments `envs`, of which a share practices. The others play as they would without it.

    Practice begins in an environment when its episode ends and there is a saved state; until then it plays ordinary
    episodes. States are saved in practice episodes, too. Observations do not mark practice episodes, but `infos` do, by
    one more entry, `"practice"`: whether the environment practices. In `final_info`, `"practice_skill"` is the index of
    the skill that the state was saved for, and -1 for ordinary episodes. The other entries include the steps, rewards
    and achievements of the episode before the state was saved.

    With several processes, each has its own statistics, saved states and random numbers.

    Args:
        envs: Environments that support `SupportsEnvState`, with same-step autoreset.
        skills: The skills of their world.
        seed: Determines which environments practice, and in which saved states.
        candidates: The environments that the share refers to, (num_envs,) booleans; by default all. The episodes of
            the others are ignored: they neither count nor give states.
    """

    def __init__(
        self, envs: LevelVectorEnv, skills: Sequence[Skill], settings: PracticeSettings, seed: int,
        candidates: np.ndarray | None = None,
    ):  # fmt: skip
        super().__init__(envs)
        self.envs, self.env_states, self.settings = envs, check_practice(envs, envs.num_envs), settings
        names = [skill.name for skill in skills]
        self.prerequisites = np.array([[name in skill.prerequisites for name in names] for skill in skills], np.float32)
        self.rng = np.random.default_rng([seed, 1])
        n, num_skills, s = self.num_envs, len(skills), settings
        self.is_candidate = np.ones(n, np.bool_) if candidates is None else candidates.copy()
        self._candidate_ids = np.flatnonzero(self.is_candidate)
        num_practicing = min(max(1, round(s.share * self._candidate_ids.size)), max(0, self._candidate_ids.size - 1))
        self.may_practice = np.zeros(n, np.bool_)  # random, because levels and environments may be paired regularly
        self.may_practice[self.rng.permutation(self._candidate_ids)[:num_practicing]] = True
        self.practice_group = np.full(n, NO_GROUP, np.int64)  # of the state that the episode began in
        self.practice_steps = np.zeros(n, np.int64)
        self._skill_names = names
        self.granted = np.zeros((n, num_skills), np.bool_)  # by the levels of the episodes in progress
        self.achieved = np.zeros((n, num_skills), np.bool_)  # or granted, in the episodes in progress
        self.successes, self.possible = np.zeros(num_skills), np.zeros(num_skills)  # ordinary episodes, decayed
        self.group_successes, self.group_tries = np.zeros((2, 2 * num_skills))  # practice episodes, decayed
        self.num_steps = 0  # since reset()
        self.episode_starts = np.zeros(n, np.int64)  # the num_steps at which the episodes started
        self.snapshots = StateRows(s.num_snapshots * n)
        self.snapshot_times = np.full((s.num_snapshots, n), -1)  # the num_steps at which they were taken; -1 for none
        self.saved_states = StateRows(s.buffer_size)
        self.saved_groups = np.zeros(0, np.int64)  # the group of each saved state
        self.saved_ages = np.zeros(0, np.int64)  # num_saved when each was saved: the lowest is the oldest
        self.num_saved = 0
        # the agent's history at the same steps; empty for agents without one
        self.snapshot_histories, self.saved_histories = StateRows(s.num_snapshots * n), StateRows(s.buffer_size)
        self._transfers: list[tuple[str, np.ndarray, np.ndarray]] = []  # for transfer_history, in order

    @property
    def levels(self) -> Sequence[Any]:
        return self.envs.levels

    def set_levels(self, levels: Any, sample_levels: bool = False) -> None:
        """Set the levels of later episodes and forget the saved states, which belong to earlier levels.

        Practice episodes in progress run until the world ends them, because there is nothing to restart from.
        """
        self.envs.set_levels(levels, sample_levels)
        self.snapshot_times[:] = -1
        self.saved_groups, self.saved_ages = np.zeros((2, 0), np.int64)

    def success_rates(self) -> np.ndarray:
        """The success rate of each skill in ordinary episodes, (skills,); 0 before any episode ended."""
        return self.successes / np.maximum(self.possible, 1e-9)

    # ------------------------------------------------------------------------------------------------------- episodes

    def reset(self, *, seed: Any = None, options: dict | None = None):
        if options:
            raise ValueError(
                f"environments that practice are reset together; call reset() without options, not {options!r}"
            )
        obs, infos = self.envs.reset(seed=seed)
        self._transfers.clear()
        self.num_steps = 0
        self.episode_starts[:] = 0
        self.snapshot_times[:] = -1
        self.practice_group[:] = NO_GROUP
        self._update_granted(infos, np.arange(self.num_envs))
        self.achieved = (infos["achievements"] > 0) | self.granted
        self._take_snapshots()
        return obs, self._mark(infos)

    def step(self, actions: Any):
        obs, rewards, terminated, truncated, infos = self.envs.step(actions)
        self._transfers.clear()
        ended = terminated | truncated
        achieved = infos["achievements"] > 0
        if ended.any():
            achieved[ended] = infos["final_info"]["achievements"][ended] > 0
        achieved |= self.granted
        self.practice_steps += 1
        practiced = self.practice_group >= 0
        expired = np.zeros(self.num_envs, np.bool_)
        if self.settings.max_steps is not None and self.saved_groups.size:
            expired = practiced & (self.practice_steps >= self.settings.max_steps) & ~ended
        self._save_states(achieved, ended | expired)
        self.num_steps += 1
        if expired.any():
            add_final_infos(obs, infos, expired)
            truncated, ended = truncated | expired, ended | expired
        if ended.any():
            self._count_episodes(achieved, ended, infos["final_info"])
            infos["final_info"] |= {
                "cut_off": expired | infos["final_info"].get("cut_off", np.zeros_like(ended)), "_cut_off": ended,
                "practice": ended & practiced, "_practice": ended,
                "practice_skill": np.where(ended & practiced, self.practice_group // 2, -1), "_practice_skill": ended,
            }  # fmt: skip
            self.practice_group[ended] = NO_GROUP
            self.episode_starts[ended] = self.num_steps
            self._restart(np.flatnonzero(ended & self.may_practice), obs, infos)
            self._update_granted(infos, np.flatnonzero(ended))
        self.achieved = (infos["achievements"] > 0) | self.granted
        if self.num_steps % self.settings.snapshot_interval == 0:
            self._take_snapshots()
        return obs, rewards, terminated, truncated, self._mark(infos)

    def _update_granted(self, infos: Mapping[str, Any], env_ids: np.ndarray) -> None:
        for i in env_ids:
            done_skills = self.levels[infos["level"][i]].done_skills
            self.granted[i] = [name in done_skills for name in self._skill_names]

    def _mark(self, infos: dict[str, Any]) -> dict[str, Any]:
        return {**infos, "practice": self.practice_group >= 0, "_practice": np.ones(self.num_envs, np.bool_)}

    def _count_episodes(self, achieved: np.ndarray, ended: np.ndarray, final_info: Mapping[str, Any]) -> None:
        """Update the success rates of ordinary episodes and, separately, those of practice."""
        for i in np.flatnonzero(ended & self.is_candidate):
            group = self.practice_group[i]
            if group >= 0:
                self.group_tries[group] = PRACTICE_RATE_DECAY * self.group_tries[group] + 1
                self.group_successes[group] = (
                    PRACTICE_RATE_DECAY * self.group_successes[group] + achieved[i, group // 2]
                )
                continue
            possible = final_info["possible"][i] if "possible" in final_info else np.ones_like(achieved[i])
            possible = possible & ~self.granted[i]
            decay = np.where(possible, RATE_DECAY, 1)
            self.possible = decay * self.possible + possible
            self.successes = decay * self.successes + (achieved[i] & possible)

    def _restart(self, env_ids: np.ndarray, obs: Any, infos: dict[str, Any]) -> None:
        """Begin practice in these environments, if a state has been saved."""
        if not (env_ids.size and self.saved_groups.size):
            return
        rows = self._sample(env_ids.size)
        seeds = self.rng.integers(2**32, size=env_ids.size).tolist()
        obs[env_ids], new_infos = self.env_states.set_env_state(env_ids, self.saved_states.read(rows), seeds)
        for name, values in new_infos.items():
            if not name.startswith("_"):
                infos[name][env_ids] = values
        self._transfers.append(("restore", env_ids, rows))
        self.practice_group[env_ids] = self.saved_groups[rows]
        self.practice_steps[env_ids] = 0

    # --------------------------------------------------------------------------------------------------- saved states

    def _take_snapshots(self) -> None:
        slot = self.num_steps // self.settings.snapshot_interval % self.settings.num_snapshots
        env_ids = self._candidate_ids
        if not env_ids.size:
            return
        rows = slot * self.num_envs + env_ids
        self.snapshots.write(rows, self.env_states.get_env_state(env_ids))
        self._transfers.append(("take snapshot", env_ids, rows))
        self.snapshot_times[slot, env_ids] = self.num_steps

    def _save_states(self, achieved: np.ndarray, ended: np.ndarray) -> None:
        """Save states for the rare skills that this step achieved, or whose prerequisites it completed.

        Called before `num_steps` counts the step.
        """
        new = achieved & ~self.achieved & self.is_candidate[:, None]  # (envs, skills)
        if not new.any():
            return
        is_rare = self.success_rates() <= self.settings.max_success_rate
        for i, skill in np.argwhere(new & is_rare):
            slots = np.flatnonzero(self.snapshot_times[:, i] >= self.episode_starts[i])
            if slots.size:
                rows = np.array([self.rng.choice(slots) * self.num_envs + i])
                self._save(2 * skill + BEFORE_SUCCESS, self.snapshots.read(rows), "save snapshot", rows)
        in_reach = self._within_reach(achieved) & ~self._within_reach(self.achieved) & ~achieved & is_rare
        # an environment that ended begins another episode, and the agent forgets this one
        in_reach[ended | ~self.is_candidate] = False
        for i, skill in np.argwhere(in_reach):
            env_ids = np.array([i])
            self._save(2 * skill + WITHIN_REACH, self.env_states.get_env_state(env_ids), "save", env_ids)

    def _within_reach(self, achieved: np.ndarray) -> np.ndarray:
        """The skills whose prerequisites have all been achieved, (envs, skills)."""
        return (~achieved).astype(np.float32) @ self.prerequisites.T == 0

    def _save(self, group: int, state: Mapping[str, np.ndarray], transfer: str, source: np.ndarray) -> None:
        if self.saved_groups.size < self.settings.buffer_size:
            row = self.saved_groups.size
            self.saved_groups, self.saved_ages = np.append(self.saved_groups, 0), np.append(self.saved_ages, 0)
        else:
            row = self._row_to_replace()
        self.saved_states.write(np.array([row]), state)
        self._transfers.append((transfer, source, np.array([row])))
        self.saved_groups[row], self.saved_ages[row] = group, self.num_saved
        self.num_saved += 1

    def transfer_history(self, history: History) -> None:
        """Save and restore the agent's history, as the last reset or step saved and restored states of environments."""
        for transfer, source, rows in self._transfers:
            if transfer == "take snapshot":
                self.snapshot_histories.write(rows, history.get_rows(source))
            elif transfer == "save snapshot":
                self.saved_histories.write(rows, self.snapshot_histories.read(source))
            elif transfer == "save":
                self.saved_histories.write(rows, history.get_rows(source))
            else:  # restore
                history.set_rows(source, self.saved_histories.read(rows))

    def _row_to_replace(self) -> int:
        """The oldest state for a skill that is no longer rare; if there is none, of the group with the most states, and
        of several such groups the one with the most common skill."""
        rates = self.success_rates()
        rows = np.flatnonzero(rates[self.saved_groups // 2] > self.settings.max_success_rate)
        if not rows.size:
            counts = np.bincount(self.saved_groups, minlength=2 * len(rates))
            group = np.where(counts == counts.max(), np.repeat(rates, 2), -1).argmax()
            rows = np.flatnonzero(self.saved_groups == group)
        return int(rows[self.saved_ages[rows].argmin()])

    def _sample(self, count: int) -> np.ndarray:
        """Rows of saved states: first a group by rarity and learnability, then one of its states."""
        groups = np.unique(self.saved_groups)
        rarity = np.maximum(self.success_rates()[groups // 2], MIN_RATE) ** -self.settings.rarity_exponent
        rates = (self.group_successes[groups] + 1) / (self.group_tries[groups] + 2)  # 1/2 before any practice
        weights = rarity * (rates * (1 - rates) + MIN_LEARNABILITY)
        chosen = self.rng.choice(groups, size=count, p=weights / weights.sum())
        return np.array([self.rng.choice(np.flatnonzero(self.saved_groups == group)) for group in chosen])

    # ---------------------------------------------------------------------------------------------------------- state

    ARRAYS = ("may_practice", "practice_group", "practice_steps", "granted", "achieved", "successes", "possible",
              "group_successes", "group_tries", "episode_starts", "snapshot_times", "saved_groups",
              "saved_ages")  # fmt: skip

    def get_state(self) -> dict[str, np.ndarray]:
        rng = json.dumps(self.rng.bit_generator.state).encode()
        all_saved = np.arange(self.saved_groups.size)
        saved = self.saved_states.read(all_saved)
        return {
            **{f"envs.{name}": array for name, array in self.envs.get_state().items()},
            **{f"practice.{name}": getattr(self, name).copy() for name in self.ARRAYS},
            **{f"practice.snapshots.{name}": array.copy() for name, array in self.snapshots.arrays.items()},
            **{f"practice.saved.{name}": array for name, array in saved.items()},
            **{f"practice.snapshot_histories.{name}": a.copy() for name, a in self.snapshot_histories.arrays.items()},
            **{f"practice.saved_histories.{name}": a for name, a in self.saved_histories.read(all_saved).items()},
            "practice.counters": np.array([self.num_steps, self.num_saved]),
            "practice.rng": np.frombuffer(rng, np.uint8).copy(),
        }

    def set_state(self, state: Mapping[str, np.ndarray]) -> Any:
        try:
            previous = self.envs.get_state()
        except ResetNeeded:  # they have no state yet
            previous = None
        obs = self.envs.set_state(strip_prefix("envs", state))
        try:
            self._restore(strip_prefix("practice", state))
        except ValueError:
            if previous is not None:
                self.envs.set_state(previous)
            raise
        return obs

    def _restore(self, state: Mapping[str, np.ndarray]) -> None:
        arrays = {
            name: read_array(state, name, current.dtype.str, (None,) if name.startswith("saved") else current.shape)
            for name in self.ARRAYS
            for current in [getattr(self, name)]
        }
        counters = read_array(state, "counters", "i8", (2,))
        rng = np.random.default_rng()
        try:
            rng.bit_generator.state = json.loads(read_array(state, "rng", "u1", (None,)).tobytes())
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise ValueError("the state of the random numbers of practice is damaged") from None
        snapshots, saved = strip_prefix("snapshots", state), strip_prefix("saved", state)
        snapshot_histories = strip_prefix("snapshot_histories", state)
        saved_histories = strip_prefix("saved_histories", state)
        histories = [*snapshot_histories.values(), *saved_histories.values()]
        groups, num_groups = arrays["saved_groups"], len(self.group_tries)
        num_saved = len(groups)
        rates = ("successes", "possible", "group_successes", "group_tries")
        is_valid = (
            arrays["may_practice"].sum() == self.may_practice.sum()
            and len(arrays["saved_ages"]) == num_saved <= self.settings.buffer_size
            and all(len(array) == num_saved for array in [*saved.values(), *saved_histories.values()])
            and (not num_saved or saved_histories.keys() == snapshot_histories.keys())
            and all(
                len(array) == self.snapshots.capacity for array in [*snapshots.values(), *snapshot_histories.values()]
            )
            and all(array.dtype == np.uint8 and array.ndim == 2 and (array <= 1).all() for array in histories)
            and (counters >= 0).all()
            and all(((a >= NO_GROUP) & (a < num_groups)).all() for a in (groups, arrays["practice_group"]))
            and (groups >= 0).all()
            and all((np.isfinite(arrays[name]) & (arrays[name] >= 0)).all() for name in rates)
        )
        if not is_valid:
            raise ValueError(
                "the state of practice is damaged or was saved with other settings of practice or another number of "
                "environments; use the same ones"
            )
        is_taken = arrays["snapshot_times"].reshape(-1) >= 0
        for states, rows in ((snapshots, is_taken), (saved, np.ones(num_saved, np.bool_))):
            if rows.any():
                self.env_states.check_env_state({name: array[rows] for name, array in states.items()})
        for name, array in arrays.items():
            setattr(self, name, array.copy())
        self.num_steps, self.num_saved = counters.tolist()
        self.rng = rng
        self.snapshots, self.saved_states = StateRows(self.snapshots.capacity), StateRows(self.saved_states.capacity)
        self.snapshots.write(np.arange(self.snapshots.capacity), snapshots)
        self.saved_states.write(np.arange(num_saved), saved)
        self.snapshot_histories = StateRows(self.snapshots.capacity)
        self.saved_histories = StateRows(self.saved_states.capacity)
        self.snapshot_histories.write(np.arange(self.snapshots.capacity), snapshot_histories)
        self.saved_histories.write(np.arange(num_saved), saved_histories)


def check_practice(envs: LevelVectorEnv, num_envs: int) -> SupportsEnvState:
    """Return environments that support practice; raise PracticeError for others and for too small a number."""
    if num_envs < 2:
        raise PracticeError(f"practice needs at least 2 environments in each process, not {num_envs}; raise num_envs")
    if envs.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP:
        raise PracticeError(
            "practice needs environments with same-step autoreset; make them with "
            "autoreset_mode=AutoresetMode.SAME_STEP, or set the share of practice to 0"
        )
    if not isinstance(envs, SupportsEnvState):
        raise PracticeError(
            f"practice is impossible in {type(envs).__name__}: single environments cannot be saved and restored there "
            "(get_env_state, set_env_state and check_env_state); set the share of practice to 0"
        )
    return envs


def practice_settings(
    world: World, observation: str, num_envs: int, settings: PracticeSettings | Mapping[str, Any] | None
) -> PracticeSettings:
    """Return the settings of practice; raise PracticeError if they are wrong or practice is impossible.

    Args:
        num_envs: Environments in each process.
        settings: The fields that differ from the defaults; None for no practice.
    """
    if not isinstance(settings, PracticeSettings):
        try:
            settings = PracticeSettings(**(settings or {}))
        except ValidationError as error:
            raise PracticeError(format_validation_error(error, "practice.")) from None
    if settings.share:
        with closing(world.make(num_envs=1, observation=observation)) as envs:
            check_practice(envs, num_envs)
    return settings
