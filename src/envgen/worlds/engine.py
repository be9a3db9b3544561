"""Base class of the batch engines: steps many environments of one world with a compiled kernel.

A world's engine adds its state and `_run_kernel`, which steps or resets the given environments, as marked in
`pending`, and writes `results`.

Kernels index arrays with values from the state and check nothing, so a snapshot from a damaged or foreign file is
checked before an engine continues from it. All these checks raise ValueError.
"""

import inspect
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from envgen.arrays import read_array
from envgen.jit import compiling, source_scope

from .kernels import mt19937
from .kernels.threaded_range import RANGES_PER_THREAD, ThreadedRange
from .validation import check_seed
from .world import Level

DONE, STEP, RESET = 0, 1, 2  # what is pending in an environment
NOT_STARTED, RUNNING, ENDED = 0, 1, 2  # the phase of its episode
MAX_EPISODES = 2**31 - 2  # one more must still fit into an int32
MIN_BYTES_TO_SHARE = 1 << 20  # smaller copies are faster in one thread


class EngineStepResults(NamedTuple):
    """Outputs of a step."""

    reward: np.ndarray  # (n,) float64
    terminated: np.ndarray  # (n,) bool
    truncated: np.ndarray  # (n,) bool
    phase: np.ndarray  # (n,) uint8, NOT_STARTED, RUNNING or ENDED
    report: np.ndarray  # (n,) of the world's REPORT


class FinishedEpisodes(NamedTuple):
    """The last observations and reports of episodes that ended, taken before their environments were reset."""

    env_ids: np.ndarray  # (m,) int64
    obs_bytes: np.ndarray  # (m, bytes) uint8
    reports: np.ndarray  # (m,) of the world's REPORT


class BatchEngine:
    """`num_envs` environments of a world.

    Args:
        num_envs: The number of environments.
        levels: Environment i plays `levels[i % len(levels)]`.
        sample_levels: Each episode plays a random one of the levels instead.
        image_size: (width, height) of pixel observations.
        threads: Threads to step with.
        obs_size: Bytes of an observation.
        report_dtype: The world's REPORT.
    """

    title: ClassVar[str]
    compile_seconds: ClassVar[int]  # how long compiling the kernel takes, for the message about it
    Level: ClassVar[type[Level]]
    skill_names: ClassVar[tuple[str, ...]]
    skill_events: ClassVar[np.ndarray | None] = None  # (skills, 2) int16; see the entry `done_events` of infos
    stream_field: ClassVar[str]  # of ENV: the random stream of the episode
    identity_fields: ClassVar[tuple[str, ...]] = ("seed_hash", "episode")  # of ENV: what seeds the next episodes
    is_compiled: ClassVar[bool] = False  # the kernel is compiled or loaded in this process

    def __init__(
        self, num_envs: int, levels: Sequence[Any], sample_levels: bool, image_size: tuple[int, int], threads: int,
        obs_size: int, report_dtype: np.dtype,
    ):  # fmt: skip
        self.num_envs, self.image_size = num_envs, image_size
        self.levels: list[Any] = []  # ENV.level is an index into it
        self.set_levels(levels, sample_levels)
        self.seeded = np.zeros(num_envs, np.bool_)
        self.thread_pool = ThreadedRange(min(threads, num_envs))
        self.obs_bytes = np.zeros((num_envs, obs_size), np.uint8)
        self.pending = np.zeros(num_envs, np.uint8)
        self.actions = np.zeros(num_envs, np.int64)
        self.results = EngineStepResults(
            reward=np.zeros(num_envs),
            terminated=np.zeros(num_envs, np.bool_),
            truncated=np.zeros(num_envs, np.bool_),
            phase=np.zeros(num_envs, np.uint8),
            report=np.zeros(num_envs, report_dtype),
        )

    @property
    def envs(self) -> np.ndarray:
        """The states of the environments, (n,) of the world's ENV."""
        raise NotImplementedError

    def _run_kernel(self, env_ids: np.ndarray, thread: int) -> None:
        """Step or reset these environments, as marked in `pending`."""
        raise NotImplementedError

    def _grow(self) -> None:
        """Make room for what is still pending after `_run_kernel`."""
        raise AssertionError(f"{self.title} never needs more room")

    def seed(self, i: int, seed: int) -> None:
        """The next episode of environment i is the first of `seed`."""
        raise NotImplementedError

    def render(self, i: int, size: tuple[int, int]) -> np.ndarray:
        """An RGB image (height, width, 3) for display. Rendering changes no state."""
        raise NotImplementedError

    def set_levels(self, levels: Sequence[Any], sample_levels: bool) -> None:
        """Set the levels of all episodes that begin from now on.

        A new level replaces one that is neither in `levels` nor being played, so the list does not grow without limit,
        and the index of a level that is being played does not change.
        """
        level_ids = place_levels(self.levels, levels, self._played_level_ids())
        self._level_ids = {level: k for k, level in enumerate(self.levels)}
        self.env_level_ids = np.array(level_ids, np.int64)
        self.sample_levels = bool(sample_levels)
        self.level_params = stack_params(self.levels)
        self._set_done_skills(np.array([self._done_skills(level) for level in self.levels], np.bool_))

    def set_env_levels(self, env_ids: Sequence[int], levels: Sequence[Any]) -> None:
        """Set the level of the later episodes of some environments; the others keep theirs."""
        self.env_level_ids = self.env_level_ids[np.arange(self.num_envs) % self.env_level_ids.size]
        self.sample_levels = False
        for i, level in zip(env_ids, levels, strict=True):
            self.env_level_ids[i] = self._place_level(level)

    def _place_level(self, level: Any) -> int:
        """The index of a level. A new one replaces a level that is neither set nor played, or is appended."""
        if level in self._level_ids:
            return self._level_ids[level]
        is_free = np.ones(len(self.levels) + 1, np.bool_)
        is_free[self.env_level_ids] = is_free[list(self._played_level_ids())] = False
        k = int(is_free.argmax())
        params, done_skills = stack_params([level]), self.done_skills
        if k == len(self.levels):
            self.levels.append(level)
            self.level_params = np.append(self.level_params, params)
            done_skills = np.append(done_skills, np.zeros((1, len(self.skill_names)), np.bool_), 0)
        else:
            del self._level_ids[self.levels[k]]
            self.levels[k], self.level_params[k] = level, params[0]
        done_skills[k] = self._done_skills(level)
        self._set_done_skills(done_skills)
        self._level_ids[level] = k
        return k

    def _set_done_skills(self, done_skills: np.ndarray) -> None:
        """`done_skills` (levels, skills): the skills that count as achieved from the start of each level."""
        self.done_skills = done_skills
        if self.skill_events is not None:
            self._level_done_events = np.where(done_skills[..., None], self.skill_events, np.int16(-1))

    def _done_skills(self, level: Any) -> list[bool]:
        done = level.done_skills
        return [name in done for name in self.skill_names]

    def done_events(self, reports: np.ndarray) -> np.ndarray:
        """The events that count as rewarded before the episodes began, (n, skills, 2): the `skill_events` of the skills
        that are done; -1 for the others."""
        return self._level_done_events[reports["level"]]

    def unlocked(self, reports: np.ndarray) -> np.ndarray:
        """Whether each skill has succeeded in the episode or counts as done from its start, (n, skills) bool."""
        return (reports["achievements"] > 0) | self.done_skills[reports["level"]]

    def _played_level_ids(self) -> set[int]:
        """The levels of the episodes in progress and of those that ended last."""
        if not self.levels:  # there are no environments yet
            return set()
        return set(self.envs["level"][self.results.phase != NOT_STARTED].tolist())

    def start(self, seeds: Sequence[int]) -> None:
        """Begin the first episode of one seed in each environment."""
        for i, seed in enumerate(seeds):
            self.seed(i, check_seed(seed))
        self.reset(np.ones(self.num_envs, np.bool_))

    def reset(self, mask: np.ndarray) -> None:
        """Begin an episode in each environment where `mask` is set."""
        self.pending[:] = np.where(mask, RESET, DONE)
        self._run_pending()

    def step(self, actions: np.ndarray, reset_mask: np.ndarray | None = None) -> EngineStepResults:
        """Step all environments, but begin an episode instead where `reset_mask` is set. Actions must be valid."""
        self.actions[:] = actions
        self.pending[:] = STEP
        if reset_mask is not None:
            self.pending[reset_mask] = RESET
            self.results.reward[reset_mask] = 0
            self.results.terminated[reset_mask] = False
            self.results.truncated[reset_mask] = False
        self._run_pending(ranges=1)  # all steps take about as long, so one range per thread is balanced
        return self.results

    def autoreset(self) -> FinishedEpisodes | None:
        """Begin an episode wherever one has ended. Returns the ends of those episodes, or None if none has ended."""
        ended = (self.results.phase == ENDED).nonzero()[0]
        if not ended.size:
            return None
        finished = FinishedEpisodes(ended, self.obs_bytes[ended], self.results.report[ended])
        self.pending[ended] = RESET
        self._run_pending(ranges=ended.size)  # one by one: some resets take twice as long as others
        return finished

    def observations(self) -> np.ndarray:
        """A copy of all observations, (n, bytes). Pixels are megabytes, which the threads copy together."""
        if self.obs_bytes.nbytes < MIN_BYTES_TO_SHARE:
            return self.obs_bytes.copy()
        rows = np.empty_like(self.obs_bytes)

        def copy(start: int, stop: int, thread: int) -> None:
            rows[start:stop] = self.obs_bytes[start:stop]

        self.thread_pool.run(copy, self.num_envs, ranges=1)
        return rows

    def _run_pending(self, ranges: int = RANGES_PER_THREAD) -> None:
        """Step or reset all environments that are marked in `pending`."""
        env_ids = self.pending.nonzero()[0]
        while env_ids.size:
            job = partial(self._run_range, env_ids)
            if type(self).is_compiled:
                self.thread_pool.run(job, env_ids.size, ranges)
            else:
                scope = source_scope(inspect.getfile(type(self)))
                with compiling(self.title, scope, self.compile_seconds):
                    self.thread_pool.run(job, env_ids.size, ranges)
                type(self).is_compiled = True
            env_ids = self.pending.nonzero()[0]
            if env_ids.size:
                self._grow()

    def _run_range(self, env_ids: np.ndarray, start: int, stop: int, thread: int) -> None:
        self._run_kernel(env_ids[start:stop], thread)

    def get_env_state(self, env_ids: np.ndarray) -> dict[str, np.ndarray]:
        """The episodes in progress in these environments, as arrays with one row each. Levels are stored by index."""
        self._require_running(env_ids)
        return {
            "envs": as_bytes(self.envs)[env_ids],
            "obs": self.obs_bytes[env_ids],
            "reports": as_bytes(self.results.report)[env_ids],
        }

    def set_env_state(
        self, env_ids: np.ndarray, states: Mapping[str, np.ndarray], seeds: Sequence[int] | None = None
    ) -> None:
        """Continue row k of `states` in the environment `env_ids[k]`, whose later episodes stay the same.

        The states must come from `get_env_state` of this engine, or have passed `check_env_state`. With `seeds`, each
        episode continues with a new random stream, seeded with a number from 0 to 2**32 - 1.
        """
        self._require_running(env_ids)
        identity = {name: self.envs[name][env_ids] for name in self.identity_fields}
        as_bytes(self.envs)[env_ids] = states["envs"]
        for name, values in identity.items():
            self.envs[name][env_ids] = values
        self.obs_bytes[env_ids] = states["obs"]
        as_bytes(self.results.report)[env_ids] = states["reports"]
        self.results.report["episode"][env_ids] = identity["episode"]
        for i, seed in zip(env_ids, () if seeds is None else seeds, strict=seeds is not None):
            mt19937.seed(self.envs[self.stream_field][i], seed)

    def _require_running(self, env_ids: np.ndarray) -> None:
        stopped = self.results.phase[env_ids] != RUNNING
        if stopped.any():
            raise ValueError(f"no episode is in progress in environment {int(env_ids[stopped.argmax()])}")

    def check_env_state(self, states: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError unless episodes in progress in this engine can reach these states."""
        envs = read_array(states, "envs", "u1", (None, self.envs.dtype.itemsize))
        obs = read_array(states, "obs", "u1", (len(envs), self.obs_bytes.shape[-1]))
        reports = read_array(states, "reports", "u1", (len(envs), self.results.report.dtype.itemsize))
        if not len(envs):
            return
        records, phase = envs.view(self.envs.dtype)[:, 0], np.full(len(envs), RUNNING, np.uint8)
        self._check_records(records, reports.view(self.results.report.dtype)[:, 0], phase, self.level_params)
        self._check_state(records, phase, obs, states)

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything that determines what happens next, as numeric arrays."""
        levels = json.dumps([level.model_dump(mode="json") for level in self.levels])
        return {
            "envs": as_bytes(self.envs).copy(),
            "obs": self.obs_bytes.copy(),
            "reports": as_bytes(self.results.report).copy(),
            "size": np.array(self.image_size),
            "phase": self.results.phase.copy(),
            "seeded": self.seeded.astype(np.uint8),
            "env_level_ids": self.env_level_ids.copy(),
            "sample_levels": np.array([self.sample_levels], np.uint8),
            "levels": np.frombuffer(levels.encode(), np.uint8).copy(),
        }

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Continue from a snapshot of an engine of the same shape.

        Raises ValueError, and changes nothing, if the snapshot has another shape or a state that no engine can reach.
        """
        envs, obs = read_array(snapshot, "envs", "u1", (None, None)), read_array(snapshot, "obs", "u1", (None, None))
        size = read_array(snapshot, "size", "i8", (2,))
        actual = len(envs), envs.shape[-1], *size.tolist(), obs.shape[-1]
        expected = self.num_envs, self.envs.dtype.itemsize, *self.image_size, self.obs_bytes.shape[-1]
        if actual != expected:
            shape = "{} environments of {} bytes with images of {} x {} and observations of {} bytes"
            raise ValueError(f"this snapshot has {shape.format(*actual)}; expected {shape.format(*expected)}")
        obs = read_array(snapshot, "obs", "u1", self.obs_bytes.shape)
        report_dtype = self.results.report.dtype
        reports = read_array(snapshot, "reports", "u1", (self.num_envs, report_dtype.itemsize))
        reports = reports.view(report_dtype)[:, 0]
        phase, seeded = (read_array(snapshot, name, "u1", (self.num_envs,)) for name in ("phase", "seeded"))
        level_ids = read_array(snapshot, "env_level_ids", "i8", (None,))
        sample_levels = read_array(snapshot, "sample_levels", "u1", (1,))
        text = read_array(snapshot, "levels", "u1", (None,)).tobytes()
        levels: list[Any] = [self.Level.parse(level) for level in read_levels(text)]
        if not level_ids.size or level_ids.min() < 0 or level_ids.max() >= len(levels):
            raise ValueError(f"the snapshot's env_level_ids are not indices into its {len(levels)} levels")
        records = envs.copy().view(self.envs.dtype)[:, 0]  # copied as bytes, because padding is saved, too
        require(phase <= ENDED, "phase")
        require(seeded <= 1, "seeded")
        self._check_records(records, reports, phase, stack_params(levels))
        self._check_state(records, phase, obs, snapshot)
        self._restore(records, snapshot)
        self.obs_bytes[:] = obs
        as_bytes(self.results.report)[:] = as_bytes(reports)
        self.results.phase[:] = phase
        self.seeded = seeded.astype(np.bool_)
        self.levels = levels
        self.set_levels([levels[k] for k in level_ids], bool(sample_levels[0]))

    def _check_records(
        self, records: np.ndarray, reports: np.ndarray, phase: np.ndarray, level_params: np.ndarray
    ) -> None:
        """Check the fields that the states and reports of every world have."""
        for array, prefix in ((records, ""), (reports, "report's ")):
            check_ranges(array, {"level": (0, len(level_params) - 1)}, prefix)
        check_params(records, phase != NOT_STARTED, level_params)
        max_length = records["params"]["length"]
        max_step = np.where(phase == RUNNING, max_length - 1, max_length)
        require((records["step"] >= 0) & (records["step"] <= max_step), "step")

    def _check_state(
        self, envs: np.ndarray, phase: np.ndarray, obs_bytes: np.ndarray, arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Check states, observations, and the world's own entries of `arrays`."""
        raise NotImplementedError

    def _restore(self, envs: np.ndarray, snapshot: Mapping[str, np.ndarray]) -> None:
        """Restore checked states and the world's own arrays."""
        raise NotImplementedError

    def close(self) -> None:
        self.thread_pool.close()


def as_bytes(records: np.ndarray) -> np.ndarray:
    """A view of records (n,) as (n, bytes). numpy copies bytes faster than records, which it copies field by field."""
    return records.view(np.uint8).reshape(len(records), -1)


def place_levels(known: list[Any], levels: Sequence[Any], played: set[int]) -> list[int]:
    """Add `levels` to `known`, in place, and return their indices.

    A new level replaces one that is not among `levels` and whose index is not `played`, or is appended.
    """
    level_ids = {level: k for k, level in enumerate(known)}
    kept = played | {level_ids[level] for level in levels if level in level_ids}
    free = iter([k for k in range(len(known)) if k not in kept])
    for level in levels:
        if level not in level_ids:
            level_ids[level] = k = next(free, len(known))
            known[k : k + 1] = [level]
    return [level_ids[level] for level in levels]


def stack_params(levels: Sequence[Any]) -> np.ndarray:
    """The parameters of levels. Their padding is zero: states contain it, and equal states must have equal bytes."""
    rows = np.stack([level.to_params() for level in levels])
    params = np.zeros(len(rows), rows.dtype)
    for name in rows.dtype.names or ():  # copying whole records would copy their padding, too
        params[name] = rows[name]
    return params


# --- checks of a snapshot


def require(valid: np.ndarray, field: str) -> None:
    """Refuse a snapshot unless `valid`, which has one row per environment, is true throughout."""
    if not valid.all():
        i = int(np.flatnonzero(~valid.reshape(len(valid), -1).all(1))[0])
        raise ValueError(f"the snapshot is damaged: {field} of environment {i} is impossible")


def check_ranges(records: np.ndarray, ranges: Mapping[str, tuple[float, float]], prefix: str = "") -> None:
    """Each named field must be between its minimum and maximum. NaN is outside every range."""
    for name, (minimum, maximum) in ranges.items():
        require((records[name] >= minimum) & (records[name] <= maximum), f"{prefix}{name}")


def check_stream(records: np.ndarray, name: str) -> None:
    """A random stream must not have used more words than it holds."""
    require(records[name][..., mt19937.WORDS] <= mt19937.WORDS, name)


def check_params(records: np.ndarray, started: np.ndarray, level_params: np.ndarray) -> None:
    """The parameters in a started environment's state must be those of its level."""
    for name in level_params.dtype.names or ():
        same = records["params"][name] == level_params[name][records["level"]]
        require(same.reshape(len(records), -1).all(1) | ~started, f"params {name}")


def read_levels(text: bytes) -> list[Any]:
    """The levels of a snapshot as plain data."""
    try:
        levels = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("the snapshot's levels are not valid JSON") from None
    if not isinstance(levels, list) or not levels or not all(isinstance(level, dict) for level in levels):
        raise ValueError("the snapshot's levels are not a list of JSON objects")
    return levels
