"""Many Heists stepped together: state, levels, scratch and threads around the one kernel, `play`."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..engine import BatchEngine
from ..kernels import mt19937
from ..state_validation import require
from . import maze, state, symbols
from . import render as picture
from . import textures as skins
from .kernel import NO_VIEW, PIXELS, REPORT, SYMBOLS, chain, play
from .level import HeistLevel
from .render_hd import portrait
from .state_validation import check_state

ALL_SEEDS = 2**31 - 1  # of levels, without num_levels
ORIGINAL_SIZE = (picture.PIXELS, picture.PIXELS)


class Engine(BatchEngine):
    """`n` environments. `view` is what is observed; level seeds are drawn from `num_levels` from `start_level` on."""

    title, compile_seconds, Level = "Heist", 30, HeistLevel

    def __init__(
        self, n: int, levels: Sequence[HeistLevel], by_chance: bool, view: int, threads: int, num_levels: int = 0,
        start_level: int = 0, skin: str = "envgen",
    ):  # fmt: skip
        width = {NO_VIEW: 1, SYMBOLS: symbols.SIZE, PIXELS: picture.SIZE}[view]
        super().__init__(n, levels, by_chance, ORIGINAL_SIZE, threads, width, REPORT)
        self.view = view
        self.state = state.allocate(n)
        self.state["first_seed"] = start_level if num_levels else 0
        self.state["seeds"] = num_levels or ALL_SEEDS
        self.scratch = np.zeros(self.thread_pool.num_threads, maze.SCRATCH)
        self.skin_name, self.skin = skin, skins.skin(skin)
        self.easel = picture.easel(n if view == PIXELS else 1, self.thread_pool.num_threads)

    @property
    def envs(self) -> np.ndarray:
        return self.state

    def seed(self, i: int, seed: int) -> None:
        """The next episode of environment i is the first of the original's only environment with this `rand_seed`."""
        top = np.zeros(mt19937.SIZE, np.uint32)
        mt19937.seed(top, seed % 2**32)
        self._begin_chain(i, seed, top)

    def seed_as_original(self, rand_seed: int) -> None:
        """The next episodes are the first ones of the original's so many environments with this `rand_seed`."""
        top = np.zeros(mt19937.SIZE, np.uint32)
        mt19937.seed(top, rand_seed % 2**32)
        for i in range(self.num_envs):
            self._begin_chain(i, rand_seed + i, top)

    def _begin_chain(self, i: int, seed: int, top: np.ndarray) -> None:
        chain(self.state["chain"][i], top)
        self.state["seed_hash"][i] = hash(seed)
        self.state["episode"][i] = 0
        self.seeded[i] = True

    def _run_kernel(self, todo: np.ndarray, k: int) -> None:
        play(
            self.state, self.level_params, self.env_level_ids, self.sample_levels, self.scratch, self.skin, self.easel,
            k, todo, self.pending, self.actions, self.view, self.obs_bytes, self.results,
        )  # fmt: skip

    def render(self, i: int, size: tuple[int, int]) -> np.ndarray:
        return portrait(self.state[i], size, self.skin_name)

    def _restore(
        self, envs: np.ndarray, phase: np.ndarray, out: np.ndarray, snapshot: Mapping[str, np.ndarray]
    ) -> None:
        check_state(envs, phase)
        if self.view == SYMBOLS:
            require(out <= symbols.HIGHEST, "the observation")
        self.state = envs
        self.state["redraw"] = 1  # the still part of the picture is not in a snapshot

    def bytes_per_environment(self) -> int:
        """Memory that grows with the number of environments; textures and scratch are shared."""
        arrays = [self.state, *self.results, self.obs_bytes, self.pending, self.actions, self.easel.base]
        return sum(array.nbytes for array in arrays) // self.num_envs
