"""Many Heists stepped together: state, levels, scratch and threads around the one kernel, `step_batch`."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..engine import BatchEngine
from ..kernels import mt19937
from ..state_validation import require
from . import maze, state
from .background import FRAME_SIZE
from .constants import OBS_NONE, OBS_PIXELS, OBS_SYMBOLS
from .kernel import REPORT, init_seed_stream, step_batch
from .level import HeistLevel
from .observations import MAX_SYMBOLS, SYMBOLS_SIZE
from .render import FRAME_BYTES, allocate_buffers, render_hd
from .state_validation import check_state
from .textures import load_atlas

ALL_SEEDS = 2**31 - 1  # of levels, without num_levels
ORIGINAL_SIZE = (FRAME_SIZE, FRAME_SIZE)


class Engine(BatchEngine):
    """`n` environments. `view` is what is observed; level seeds are drawn from `num_levels` from `start_level` on."""

    title, compile_seconds, Level = "Heist", 30, HeistLevel

    def __init__(
        self, n: int, levels: Sequence[HeistLevel], by_chance: bool, view: int, threads: int, num_levels: int = 0,
        start_level: int = 0, skin: str = "envgen",
    ):  # fmt: skip
        width = {OBS_NONE: 1, OBS_SYMBOLS: SYMBOLS_SIZE, OBS_PIXELS: FRAME_BYTES}[view]
        super().__init__(n, levels, by_chance, ORIGINAL_SIZE, threads, width, REPORT)
        self.view = view
        self.state = state.allocate(n)
        self.state["first_seed"] = start_level if num_levels else 0
        self.state["num_seeds"] = num_levels or ALL_SEEDS
        self.scratch = np.zeros(self.thread_pool.num_threads, maze.SCRATCH)
        self.skin, self.atlas = skin, load_atlas(skin)
        self.buffers = allocate_buffers(n if view == OBS_PIXELS else 1, self.thread_pool.num_threads)

    @property
    def envs(self) -> np.ndarray:
        return self.state

    def seed(self, i: int, seed: int) -> None:
        """The next episode of environment i is the first of the original's only environment with this `rand_seed`."""
        source = np.zeros(mt19937.SIZE, np.uint32)
        mt19937.seed(source, seed % 2**32)
        self._init_seed_stream(i, seed, source)

    def seed_as_original(self, rand_seed: int) -> None:
        """The next episodes are the first ones of the original's so many environments with this `rand_seed`."""
        source = np.zeros(mt19937.SIZE, np.uint32)
        mt19937.seed(source, rand_seed % 2**32)
        for i in range(self.num_envs):
            self._init_seed_stream(i, rand_seed + i, source)

    def _init_seed_stream(self, i: int, seed: int, source: np.ndarray) -> None:
        init_seed_stream(self.state["seed_stream"][i], source)
        self.state["seed_hash"][i] = hash(seed)
        self.state["episode"][i] = 0
        self.seeded[i] = True

    def _run_kernel(self, todo: np.ndarray, k: int) -> None:
        step_batch(
            self.state, self.level_params, self.env_level_ids, self.sample_levels, self.scratch, self.atlas,
            self.buffers, k, todo, self.pending, self.actions, self.view, self.obs_bytes, self.results,
        )  # fmt: skip

    def render(self, i: int, size: tuple[int, int]) -> np.ndarray:
        return render_hd(self.state[i], size, self.skin)

    def _restore(
        self, envs: np.ndarray, phase: np.ndarray, out: np.ndarray, snapshot: Mapping[str, np.ndarray]
    ) -> None:
        check_state(envs, phase)
        if self.view == OBS_SYMBOLS:
            require(out <= MAX_SYMBOLS, "the observation")
        self.state = envs
        self.state["needs_redraw"] = 1  # the still part of the picture is not in a snapshot

    def bytes_per_environment(self) -> int:
        """Memory that grows with the number of environments; textures and scratch are shared."""
        arrays = [self.state, *self.results, self.obs_bytes, self.pending, self.actions, self.buffers.static_frames]
        return sum(array.nbytes for array in arrays) // self.num_envs
