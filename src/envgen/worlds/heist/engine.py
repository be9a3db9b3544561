"""Many Heists stepped together: state, buffers and threads around the one kernel, `step_batch`."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..engine import BatchEngine
from ..kernels import mt19937
from ..observations import NO_OBSERVATION, PIXELS, SYMBOLS
from ..state_validation import require
from . import maze, state
from .background import FRAME_SIZE
from .kernel import REPORT, init_seed_stream, step_batch
from .level import HeistLevel
from .observations import MAX_SYMBOLS, SYMBOLS_SIZE
from .render import FRAME_BYTES, allocate_buffers, render_hd
from .state_validation import check_state
from .textures import load_atlas

ALL_SEEDS = 2**31 - 1  # seeds of mazes, without num_levels


class Engine(BatchEngine):
    """`num_envs` Heists.

    Args:
        num_envs: The number of environments.
        levels: Environment i plays `levels[i % len(levels)]`.
        sample_levels: Each episode plays a random one of the levels instead.
        threads: Threads to step with.
        observation: NO_OBSERVATION, SYMBOLS or PIXELS.
        num_levels: Draw the mazes' seeds from this many, 0 for all.
        start_level: The first of these seeds.
        skin: The textures of the pixels.
    """

    title, compile_seconds, Level = "Heist", 30, HeistLevel

    def __init__(
        self, num_envs: int, levels: Sequence[HeistLevel], sample_levels: bool, threads: int,
        observation: int = NO_OBSERVATION, num_levels: int = 0, start_level: int = 0, skin: str = "envgen",
    ):  # fmt: skip
        obs_size = {NO_OBSERVATION: 1, SYMBOLS: SYMBOLS_SIZE, PIXELS: FRAME_BYTES}
        super().__init__(
            num_envs, levels, sample_levels, (FRAME_SIZE, FRAME_SIZE), threads, obs_size[observation], REPORT
        )
        self.observation = observation
        self.state = state.allocate(num_envs)
        self.state["first_seed"] = start_level if num_levels else 0
        self.state["num_seeds"] = num_levels or ALL_SEEDS
        self.scratch = np.zeros(self.thread_pool.num_threads, maze.SCRATCH)
        self.skin, self.atlas = skin, load_atlas(skin)
        self.buffers = allocate_buffers(num_envs if observation == PIXELS else 1, self.thread_pool.num_threads)

    @property
    def envs(self) -> np.ndarray:
        return self.state

    def seed(self, i: int, seed: int) -> None:
        """The next episode of environment i is the first of Procgen's only environment with this `rand_seed`."""
        source = np.zeros(mt19937.SIZE, np.uint32)
        mt19937.seed(source, seed % 2**32)
        self._init_seed_stream(i, seed, source)

    def seed_as_original(self, rand_seed: int) -> None:
        """The next episodes are the first ones of Procgen's `num_envs` environments with this `rand_seed`."""
        source = np.zeros(mt19937.SIZE, np.uint32)
        mt19937.seed(source, rand_seed % 2**32)
        for i in range(self.num_envs):
            self._init_seed_stream(i, rand_seed + i, source)

    def _init_seed_stream(self, i: int, seed: int, source: np.ndarray) -> None:
        init_seed_stream(self.state["seed_stream"][i], source)
        self.state["seed_hash"][i] = hash(seed)
        self.state["episode"][i] = 0
        self.seeded[i] = True

    def _run_kernel(self, env_ids: np.ndarray, thread: int) -> None:
        step_batch(
            self.state, self.level_params, self.env_level_ids, self.sample_levels, self.scratch, self.atlas,
            self.buffers, thread, env_ids, self.pending, self.actions, self.observation, self.obs_bytes, self.results,
        )  # fmt: skip

    def render(self, i: int, size: tuple[int, int]) -> np.ndarray:
        return render_hd(self.state[i], size, self.skin)

    def _restore(
        self, envs: np.ndarray, phase: np.ndarray, obs_bytes: np.ndarray, snapshot: Mapping[str, np.ndarray]
    ) -> None:
        check_state(envs, phase)
        if self.observation == SYMBOLS:
            require(obs_bytes <= MAX_SYMBOLS, "the observation")
        self.state = envs
        self.state["needs_redraw"] = 1  # the background of the pixels is not in a snapshot

    def bytes_per_environment(self) -> int:
        """Memory that grows with the number of environments; textures and buffers are shared."""
        arrays = [self.state, *self.results, self.obs_bytes, self.pending, self.actions, self.buffers.static_frames]
        return sum(array.nbytes for array in arrays) // self.num_envs
