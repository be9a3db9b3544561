"""Many environments of one world stepped together: what every world's engine does around its own kernel.

A world's engine adds its state and `_play`, which does what is `due` in some environments and leaves `ends`.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from envgen.jit import compiling

from .kernels.threaded_range import RANGES, Shards
from .restoring import array_of, check_params, check_ranges, levels_in, require
from .world import Level

DONE, STEP, RESET = 0, 1, 2  # what is due in an environment
NOT_BEGUN, RUNNING, OVER = 0, 1, 2  # where its episode is
WORTH_SHARING = 1 << 20  # bytes to copy


class Ends(NamedTuple):
    """What a step leaves behind."""

    reward: np.ndarray  # (n,) float64
    terminated: np.ndarray  # (n,) bool
    truncated: np.ndarray  # (n,) bool
    phase: np.ndarray  # (n,) uint8, NOT_BEGUN, RUNNING or OVER
    report: np.ndarray  # (n,) of the world's REPORT


class Final(NamedTuple):
    """How some environments ended, before they began anew."""

    which: np.ndarray  # (m,) int64, the environments
    out: np.ndarray  # (m, bytes) uint8, their last observations
    reports: np.ndarray  # (m,) of the world's REPORT


class BatchEngine:
    """`n` environments. `width` is how many bytes one observes, `report` what is told of it, `size` of its picture."""

    title: ClassVar[str]
    seconds: ClassVar[int]  # that compiling the kernel takes
    Level: ClassVar[type[Level]]
    warm: ClassVar[bool] = False  # the kernel is compiled or loaded in this process

    def __init__(
        self, n: int, levels: Sequence[Any], by_chance: bool, size: tuple[int, int], threads: int, width: int,
        report: np.dtype,
    ):  # fmt: skip
        self.n, self.size = n, size
        self.levels: list[Any] = []  # every level ever set; ENV.level counts in it
        self.set_levels(levels, by_chance)
        self.seeded = np.zeros(n, np.bool_)
        self.shards = Shards(min(threads, n))
        self.out = np.zeros((n, width), np.uint8)
        self.due = np.zeros(n, np.uint8)
        self.actions = np.zeros(n, np.int64)
        self.ends = Ends(
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

    def _play(self, todo: np.ndarray, k: int) -> None:
        """Do what is due in the environments `todo`, in thread k."""
        raise NotImplementedError

    def _make_room(self) -> None:
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
        self.menu = np.array([known[level] for level in levels], np.int64)
        self.by_chance = bool(by_chance)
        self.pool = np.stack([level.to_params() for level in self.levels])

    def reset(self, which: np.ndarray) -> None:
        """Begin an episode in the environments where the mask `which` is set."""
        self.due[:] = np.where(which, RESET, DONE)
        self._run()

    def step(self, actions: np.ndarray, begin: np.ndarray | None = None) -> Ends:
        """Step all environments, but begin an episode where the mask `begin` is set. Actions must be valid."""
        self.actions[:] = actions
        self.due[:] = STEP
        if begin is not None:
            self.due[begin] = RESET
            self.ends.reward[begin] = 0
            self.ends.terminated[begin] = False
            self.ends.truncated[begin] = False
        self._run(ranges=1)  # steps take alike long; who finishes first need not be given more
        return self.ends

    def begin_ended(self) -> Final | None:
        """Begin anew where an episode has ended, and say how it ended."""
        ended = (self.ends.phase == OVER).nonzero()[0]
        if not ended.size:
            return None
        final = Final(ended, self.out[ended], self.ends.report[ended])
        self.due[ended] = RESET
        self._run(ranges=ended.size)  # one by one: a world may take twice as long as another
        return final

    def seen(self) -> np.ndarray:
        """A copy of all observations; of pictures these are megabytes, so every thread copies some."""
        if self.out.nbytes < WORTH_SHARING:
            return self.out.copy()
        rows = np.empty_like(self.out)

        def copy(lo: int, hi: int, k: int) -> None:
            rows[lo:hi] = self.out[lo:hi]

        self.shards.run(copy, self.n, ranges=1)
        return rows

    def _run(self, ranges: int = RANGES) -> None:
        """Do what is due."""
        todo = self.due.nonzero()[0]
        while todo.size:
            job = partial(self._job, todo)
            if type(self).warm:
                self.shards.run(job, todo.size, ranges)
            else:
                with compiling(self.title, self.seconds):
                    self.shards.run(job, todo.size, ranges)
                type(self).warm = True
            todo = self.due.nonzero()[0]
            if todo.size:
                self._make_room()

    def _job(self, todo: np.ndarray, lo: int, hi: int, k: int) -> None:
        self._play(todo[lo:hi], k)

    def snapshot(self) -> dict[str, np.ndarray]:
        """All that decides what happens next, as plain arrays."""
        levels = json.dumps([level.model_dump(mode="json") for level in self.levels])
        return {
            "envs": self.envs.view(np.uint8).reshape(self.n, -1).copy(),
            "out": self.out.copy(),
            "reports": self.ends.report.view(np.uint8).reshape(self.n, -1).copy(),
            "size": np.array(self.size),
            "phase": self.ends.phase.copy(),
            "seeded": self.seeded.astype(np.uint8),
            "menu": self.menu.copy(),
            "by_chance": np.array([self.by_chance], np.uint8),
            "levels": np.frombuffer(levels.encode(), np.uint8).copy(),
        }

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Continue from a snapshot of an engine of the same shape.

        Raises ValueError, and changes nothing, if it is of another shape or holds what no engine can come to.
        """
        envs, out = array_of(snapshot, "envs", "u1", (None, None)), array_of(snapshot, "out", "u1", (None, None))
        size = array_of(snapshot, "size", "i8", (2,))
        theirs = len(envs), envs.shape[-1], *size.tolist(), out.shape[-1]
        ours = self.n, self.envs.dtype.itemsize, *self.size, self.out.shape[-1]
        if theirs != ours:
            says = "{} environments of {} bytes with pictures of {} x {} that observe {} bytes"
            raise ValueError(f"this snapshot is of {says.format(*theirs)}; here are {says.format(*ours)}")
        out = array_of(snapshot, "out", "u1", self.out.shape)
        kind = self.ends.report.dtype
        reports = array_of(snapshot, "reports", "u1", (self.n, kind.itemsize)).view(kind)[:, 0]
        phase, seeded = (array_of(snapshot, name, "u1", (self.n,)) for name in ("phase", "seeded"))
        menu, by_chance = array_of(snapshot, "menu", "i8", (None,)), array_of(snapshot, "by_chance", "u1", (1,))
        text = array_of(snapshot, "levels", "u1", (None,)).tobytes()
        levels: list[Any] = [self.Level.parse(level) for level in levels_in(text)]
        if not menu.size or menu.min() < 0 or menu.max() >= len(levels):
            raise ValueError(f"the menu of this snapshot does not choose among its {len(levels)} levels")
        records = envs.view(self.envs.dtype)[:, 0].copy()
        require(phase <= OVER, "phase")
        require(seeded <= 1, "seeded")
        for told, of in ((records, ""), (reports, "report's ")):
            check_ranges(told, {"level": (0, len(levels) - 1)}, of)
        pool = np.stack([level.to_params() for level in levels])
        check_params(records, phase != NOT_BEGUN, pool)
        limit = np.where(phase == RUNNING, records["params"]["length"] - 1, records["params"]["length"])
        require((records["step"] >= 0) & (records["step"] <= limit), "step")
        self._restore(records, phase, out, snapshot)
        self.out[:] = out
        self.ends.report[:] = reports
        self.ends.phase[:] = phase
        self.seeded = seeded.astype(np.bool_)
        self.levels = levels
        self.set_levels([levels[k] for k in menu], bool(by_chance[0]))

    def _restore(
        self, envs: np.ndarray, phase: np.ndarray, out: np.ndarray, snapshot: Mapping[str, np.ndarray]
    ) -> None:
        """Check records and observations, then take over the records and whatever else the world keeps."""
        raise NotImplementedError

    def close(self) -> None:
        self.shards.close()
