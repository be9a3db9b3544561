"""Many environments of one world stepped together: what every world's engine does around its own kernel.

A world's engine adds its state and `_play`, which does what is `due` in some environments and leaves `ends`.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from envgen.jit import compiling

from .kernels.threaded_range import RANGES_PER_THREAD, ThreadedRange
from .state_validation import check_params, check_ranges, read_array, read_levels, require
from .world import Level

DONE, STEP, RESET = 0, 1, 2  # what is due in an environment
NOT_STARTED, RUNNING, ENDED = 0, 1, 2  # where its episode is
MIN_BYTES_TO_SHARE = 1 << 20  # bytes to copy


class StepResults(NamedTuple):
    """What a step leaves behind."""

    reward: np.ndarray  # (n,) float64
    terminated: np.ndarray  # (n,) bool
    truncated: np.ndarray  # (n,) bool
    phase: np.ndarray  # (n,) uint8, NOT_BEGUN, RUNNING or OVER
    report: np.ndarray  # (n,) of the world's REPORT


class FinishedEpisodes(NamedTuple):
    """How some environments ended, before they began anew."""

    env_ids: np.ndarray  # (m,) int64, the environments
    obs_bytes: np.ndarray  # (m, bytes) uint8, their last observations
    reports: np.ndarray  # (m,) of the world's REPORT


class BatchEngine:
    """`n` environments. `width` is how many bytes one observes, `report` what is told of it, `size` of its picture."""

    title: ClassVar[str]
    compile_seconds: ClassVar[int]  # that compiling the kernel takes
    Level: ClassVar[type[Level]]
    is_compiled: ClassVar[bool] = False  # the kernel is compiled or loaded in this process

    def __init__(
        self, n: int, levels: Sequence[Any], by_chance: bool, size: tuple[int, int], threads: int, width: int,
        report: np.dtype,
    ):  # fmt: skip
        self.num_envs, self.image_size = n, size
        self.levels: list[Any] = []  # every level ever set; ENV.level counts in it
        self.set_levels(levels, by_chance)
        self.seeded = np.zeros(n, np.bool_)
        self.thread_pool = ThreadedRange(min(threads, n))
        self.obs_bytes = np.zeros((n, width), np.uint8)
        self.pending = np.zeros(n, np.uint8)
        self.actions = np.zeros(n, np.int64)
        self.results = StepResults(
            reward=np.zeros(n),
            terminated=np.zeros(n, np.bool_),
            truncated=np.zeros(n, np.bool_),
            phase=np.zeros(n, np.uint8),
            report=np.zeros(n, report),
        )

    @property
    def envs(self) -> np.ndarray:
        """(n,) records, the world's ENV"""
        raise NotImplementedError

    def _run_kernel(self, todo: np.ndarray, k: int) -> None:
        """Do what is due in the environments `todo`, in thread k."""
        raise NotImplementedError

    def _grow(self) -> None:
        """What is still due after `_play` needs more room."""
        raise AssertionError(f"{self.title} needs no more room than it has")

    def seed(self, i: int, seed: int) -> None:
        """The next episode of environment i is the first of `seed`."""
        raise NotImplementedError

    def render(self, i: int, size: tuple[int, int]) -> np.ndarray:
        """A picture (height, width, 3) for a person. It changes nothing."""
        raise NotImplementedError

    def set_levels(self, levels: Sequence[Any], by_chance: bool) -> None:
        """The levels of all episodes that begin from now on."""
        known = {level: k for k, level in enumerate(self.levels)}
        for level in levels:
            if level not in known:
                known[level] = len(self.levels)
                self.levels.append(level)
        self.env_level_ids = np.array([known[level] for level in levels], np.int64)
        self.sample_levels = bool(by_chance)
        self.level_params = np.stack([level.to_params() for level in self.levels])

    def reset(self, which: np.ndarray) -> None:
        """Begin an episode in the environments where the mask `which` is set."""
        self.pending[:] = np.where(which, RESET, DONE)
        self._run_pending()

    def step(self, actions: np.ndarray, begin: np.ndarray | None = None) -> StepResults:
        """Step all environments, but begin an episode where the mask `begin` is set. Actions must be valid."""
        self.actions[:] = actions
        self.pending[:] = STEP
        if begin is not None:
            self.pending[begin] = RESET
            self.results.reward[begin] = 0
            self.results.terminated[begin] = False
            self.results.truncated[begin] = False
        self._run_pending(ranges=1)  # steps take alike long; who finishes first need not be given more
        return self.results

    def autoreset(self) -> FinishedEpisodes | None:
        """Begin anew where an episode has ended, and say how it ended."""
        ended = (self.results.phase == ENDED).nonzero()[0]
        if not ended.size:
            return None
        final = FinishedEpisodes(ended, self.obs_bytes[ended], self.results.report[ended])
        self.pending[ended] = RESET
        self._run_pending(ranges=ended.size)  # one by one: a world may take twice as long as another
        return final

    def observations(self) -> np.ndarray:
        """A copy of all observations; of pictures these are megabytes, so every thread copies some."""
        if self.obs_bytes.nbytes < MIN_BYTES_TO_SHARE:
            return self.obs_bytes.copy()
        rows = np.empty_like(self.obs_bytes)

        def copy(lo: int, hi: int, k: int) -> None:
            rows[lo:hi] = self.obs_bytes[lo:hi]

        self.thread_pool.run(copy, self.num_envs, ranges=1)
        return rows

    def _run_pending(self, ranges: int = RANGES_PER_THREAD) -> None:
        """Do what is due."""
        todo = self.pending.nonzero()[0]
        while todo.size:
            job = partial(self._run_range, todo)
            if type(self).is_compiled:
                self.thread_pool.run(job, todo.size, ranges)
            else:
                with compiling(self.title, self.compile_seconds):
                    self.thread_pool.run(job, todo.size, ranges)
                type(self).is_compiled = True
            todo = self.pending.nonzero()[0]
            if todo.size:
                self._grow()

    def _run_range(self, todo: np.ndarray, lo: int, hi: int, k: int) -> None:
        self._run_kernel(todo[lo:hi], k)

    def snapshot(self) -> dict[str, np.ndarray]:
        """All that decides what happens next, as plain arrays."""
        levels = json.dumps([level.model_dump(mode="json") for level in self.levels])
        return {
            "envs": self.envs.view(np.uint8).reshape(self.num_envs, -1).copy(),
            "obs": self.obs_bytes.copy(),
            "reports": self.results.report.view(np.uint8).reshape(self.num_envs, -1).copy(),
            "size": np.array(self.image_size),
            "phase": self.results.phase.copy(),
            "seeded": self.seeded.astype(np.uint8),
            "env_level_ids": self.env_level_ids.copy(),
            "sample_levels": np.array([self.sample_levels], np.uint8),
            "levels": np.frombuffer(levels.encode(), np.uint8).copy(),
        }

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Continue from a snapshot of an engine of the same shape.

        Raises ValueError, and changes nothing, if it is of another shape or holds what no engine can come to.
        """
        envs, out = read_array(snapshot, "envs", "u1", (None, None)), read_array(snapshot, "obs", "u1", (None, None))
        size = read_array(snapshot, "size", "i8", (2,))
        theirs = len(envs), envs.shape[-1], *size.tolist(), out.shape[-1]
        ours = self.num_envs, self.envs.dtype.itemsize, *self.image_size, self.obs_bytes.shape[-1]
        if theirs != ours:
            says = "{} environments of {} bytes with pictures of {} x {} that observe {} bytes"
            raise ValueError(f"this snapshot is of {says.format(*theirs)}; here are {says.format(*ours)}")
        out = read_array(snapshot, "obs", "u1", self.obs_bytes.shape)
        kind = self.results.report.dtype
        reports = read_array(snapshot, "reports", "u1", (self.num_envs, kind.itemsize)).view(kind)[:, 0]
        phase, seeded = (read_array(snapshot, name, "u1", (self.num_envs,)) for name in ("phase", "seeded"))
        menu, by_chance = (
            read_array(snapshot, "env_level_ids", "i8", (None,)),
            read_array(snapshot, "sample_levels", "u1", (1,)),
        )
        text = read_array(snapshot, "levels", "u1", (None,)).tobytes()
        levels: list[Any] = [self.Level.parse(level) for level in read_levels(text)]
        if not menu.size or menu.min() < 0 or menu.max() >= len(levels):
            raise ValueError(f"the menu of this snapshot does not choose among its {len(levels)} levels")
        records = envs.view(self.envs.dtype)[:, 0].copy()
        require(phase <= ENDED, "phase")
        require(seeded <= 1, "seeded")
        for told, of in ((records, ""), (reports, "report's ")):
            check_ranges(told, {"level": (0, len(levels) - 1)}, of)
        pool = np.stack([level.to_params() for level in levels])
        check_params(records, phase != NOT_STARTED, pool)
        limit = np.where(phase == RUNNING, records["params"]["length"] - 1, records["params"]["length"])
        require((records["step"] >= 0) & (records["step"] <= limit), "step")
        self._restore(records, phase, out, snapshot)
        self.obs_bytes[:] = out
        self.results.report[:] = reports
        self.results.phase[:] = phase
        self.seeded = seeded.astype(np.bool_)
        self.levels = levels
        self.set_levels([levels[k] for k in menu], bool(by_chance[0]))

    def _restore(
        self, envs: np.ndarray, phase: np.ndarray, out: np.ndarray, snapshot: Mapping[str, np.ndarray]
    ) -> None:
        """Check records and observations, then take over the records and whatever else the world keeps."""
        raise NotImplementedError

    def close(self) -> None:
        self.thread_pool.close()
