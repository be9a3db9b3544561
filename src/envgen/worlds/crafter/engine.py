"""Many Crafter environments stepped together: state, levels, scratch and threads around the one kernel, `play`."""

import json
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ..kernels.jit import compiling
from ..kernels.shards import RANGES, Shards
from . import atlas, picture, state, symbols, terrain
from .level import CrafterLevel
from .play import DONE, NO_VIEW, OVER, PIXELS, REPORT, RESET, STEP, SYMBOLS, Ends, play, redraw

WORTH_SHARING = 1 << 20  # bytes to copy
SMALLEST = (18, 18)  # an atlas for kernels that take one but draw nothing


class Final(NamedTuple):
    """How some environments ended, before they began anew."""

    which: np.ndarray  # (m,) int64, the environments
    out: np.ndarray  # (m, bytes) uint8, their last observations
    reports: np.ndarray  # (m,) REPORT


class Engine:
    """`n` environments. `view` is what is observed; `size` is that of the picture, drawn or not."""

    warm = False  # the kernel is compiled or loaded in this process

    def __init__(
        self, n: int, levels: Sequence[CrafterLevel], by_chance: bool, view: int, size: tuple[int, int], threads: int
    ):
        self.n, self.view, self.size = n, view, size
        self.levels: list[CrafterLevel] = []  # every level ever set; ENV.level counts in it
        self.set_levels(levels, by_chance)
        self.state = state.allocate(n)
        self.seeded = np.zeros(n, np.bool_)
        self._galleries: dict[tuple[int, int], tuple[atlas.Atlas, picture.Easel]] = {}
        self.daylight = state.daylight_table()
        self.atlas = atlas.draw_atlas(size if view == PIXELS else SMALLEST)
        self.words = atlas.night_words(size)
        self.shards = Shards(min(threads, n))
        self.scratch = terrain.scratch(self.shards.threads)
        self.easel = picture.easel(self.shards.threads, self.atlas)
        width = {NO_VIEW: 1, SYMBOLS: symbols.SIZE, PIXELS: size[0] * size[1] * 3}[view]
        self.out = np.zeros((n, width), np.uint8)
        self.due = np.zeros(n, np.uint8)
        self.actions = np.zeros(n, np.int64)
        self.ends = Ends(
            reward=np.zeros(n),
            terminated=np.zeros(n, np.bool_),
            truncated=np.zeros(n, np.bool_),
            phase=np.zeros(n, np.uint8),
            now=np.zeros(n, REPORT),
        )

    def set_levels(self, levels: Sequence[CrafterLevel], by_chance: bool) -> None:
        """The levels of all episodes that begin from now on."""
        known = {level: k for k, level in enumerate(self.levels)}
        for level in levels:
            if level not in known:
                known[level] = len(self.levels)
                self.levels.append(level)
        self.menu = np.array([known[level] for level in levels], np.int64)
        self.by_chance = bool(by_chance)
        self.pool = np.stack([level.dials() for level in self.levels])

    def seed(self, i: int, seed: int) -> None:
        """The next episode of environment i is the first of `seed`."""
        self.state.envs["seed_hash"][i] = hash(seed)
        self.state.envs["episode"][i] = 0
        self.seeded[i] = True

    def reset(self, which: np.ndarray) -> None:
        """Begin an episode in the environments where the mask `which` is set."""
        self.due[:] = np.where(which, RESET, DONE)
        self._run()

    def step(self, actions: np.ndarray, begin: np.ndarray | None = None) -> Ends:
        """Step all environments, but begin an episode where the mask `begin` is set. Actions must be valid."""
        self.actions[:] = actions
        self.due[:] = STEP
        if begin is not None and begin.any():
            self.due[begin] = RESET
            self.ends.reward[begin] = 0
            self.ends.terminated[begin] = False
            self.ends.truncated[begin] = False
        self._run(ranges=1)  # steps take alike long; who finishes first need not be given more
        return self.ends

    def begin_ended(self) -> Final | None:
        """Begin anew where an episode has ended, and say how it ended."""
        ended = np.flatnonzero(self.ends.phase == OVER)
        if not ended.size:
            return None
        final = Final(ended, self.out[ended], self.ends.now[ended])
        self.due[ended] = RESET
        self._run(ranges=ended.size)  # one by one: a world may take twice as long as another
        return final

    def seen(self) -> np.ndarray:
        """A copy of all observations; of pictures these are megabytes, so every thread copies some."""
        rows = np.empty_like(self.out)

        def copy(lo: int, hi: int, k: int) -> None:
            rows[lo:hi] = self.out[lo:hi]

        if rows.nbytes < WORTH_SHARING:
            copy(0, self.n, 0)
        else:
            self.shards.run(copy, self.n, ranges=1)
        return rows

    def _run(self, ranges: int = RANGES) -> None:
        """Do what is due."""
        while (todo := np.flatnonzero(self.due)).size:
            job = partial(self._job, todo)
            if Engine.warm:
                self.shards.run(job, todo.size, ranges)
            else:
                with compiling("Crafter", seconds=50):
                    self.shards.run(job, todo.size, ranges)
                Engine.warm = True
            if self.due.any():
                self.state = state.grown(self.state)

    def _job(self, todo: np.ndarray, lo: int, hi: int, k: int) -> None:
        self._play(todo[lo:hi], k)

    def _play(self, todo: np.ndarray, k: int) -> None:
        play(
            self.state, self.pool, self.menu, self.by_chance, self.daylight, self.scratch, self.atlas, self.easel,
            k, todo, self.due, self.actions, self.view, self.words, self.out, self.ends,
        )  # fmt: skip

    def render(self, i: int, size: tuple[int, int]) -> np.ndarray:
        """A picture (height, width, 3) for a person. It takes no number from the world's stream."""
        if size not in self._galleries:
            drawn = atlas.draw_atlas(size)
            self._galleries[size] = drawn, picture.easel(1, drawn)
        canvas = np.zeros(size[0] * size[1] * 3, np.uint8)
        redraw(self.state, i, *self._galleries[size], canvas)
        return canvas.reshape(size[1], size[0], 3)

    def snapshot(self) -> dict[str, np.ndarray]:
        """All that decides what happens next, as plain arrays."""
        levels = json.dumps([level.model_dump(mode="json") for level in self.levels])
        return {
            "envs": self.state.envs.view(np.uint8).reshape(self.n, -1).copy(),
            "things": self.state.things.view(np.uint8).reshape(self.n, -1).copy(),
            "out": self.out.copy(),
            "reports": self.ends.now.view(np.uint8).reshape(self.n, -1).copy(),
            "size": np.array(self.size),
            "phase": self.ends.phase.copy(),
            "seeded": self.seeded.astype(np.uint8),
            "menu": self.menu.copy(),
            "by_chance": np.array([self.by_chance], np.uint8),
            "levels": np.frombuffer(levels.encode(), np.uint8).copy(),
        }

    def restore(self, snapshot: dict[str, np.ndarray]) -> None:
        """Continue from a snapshot of an engine of the same shape."""
        envs = np.ascontiguousarray(snapshot["envs"])
        theirs = len(envs), envs.shape[-1], *snapshot["size"].tolist(), snapshot["out"].shape[-1]
        ours = self.n, state.ENV.itemsize, *self.size, self.out.shape[-1]
        if theirs != ours:
            says = "{} environments of {} bytes with pictures of {} x {} that observe {} bytes"
            raise ValueError(f"this snapshot is of {says.format(*theirs)}; here are {says.format(*ours)}")
        things = np.ascontiguousarray(snapshot["things"])
        self.state = state.State(envs.view(state.ENV)[:, 0].copy(), things.view(state.THING).copy())
        self.out[:] = snapshot["out"]
        self.ends.now[:] = np.ascontiguousarray(snapshot["reports"]).view(REPORT)[:, 0]
        self.ends.phase[:] = snapshot["phase"]
        self.seeded = snapshot["seeded"].astype(np.bool_)
        self.levels = [CrafterLevel.parse(level) for level in json.loads(snapshot["levels"].tobytes())]
        self.set_levels([self.levels[k] for k in snapshot["menu"]], bool(snapshot["by_chance"][0]))

    def bytes_per_environment(self) -> int:
        """Memory that grows with the number of environments; textures and scratch are shared."""
        arrays = [*self.state, *self.ends, self.out, self.due, self.actions]
        return sum(array.nbytes for array in arrays) // self.n

    def close(self) -> None:
        self.shards.close()
