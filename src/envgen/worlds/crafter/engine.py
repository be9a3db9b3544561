"""Many Crafter environments stepped together: state, levels, scratch and threads around the one kernel, `play`."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..engine import BatchEngine
from ..state_validation import read_array, require
from . import observations, render, state, terrain
from .kernel import REPORT, render_env, step_batch
from .level import CrafterLevel
from .observations import NO_OBSERVATION, PIXELS, SYMBOLS
from .state_validation import check_state

SMALLEST = (18, 18)  # an atlas for kernels that take one but draw nothing


class Engine(BatchEngine):
    """`n` environments. `view` is what is observed; `size` is that of the picture, drawn or not."""

    title, compile_seconds, Level = "Crafter", 50, CrafterLevel

    def __init__(
        self, n: int, levels: Sequence[CrafterLevel], by_chance: bool, view: int, size: tuple[int, int], threads: int
    ):
        width = {NO_OBSERVATION: 1, SYMBOLS: observations.NUM_SYMBOLS, PIXELS: size[0] * size[1] * 3}[view]
        super().__init__(n, levels, by_chance, size, threads, width, REPORT)
        self.view = view
        self.state = state.allocate(n)
        self._render_buffers: dict[tuple[int, int], tuple[render.Atlas, render.RenderBuffers]] = {}
        self.daylight = state.make_daylight_table()
        self.atlas = render.make_atlas(size if view == PIXELS else SMALLEST)
        self.words = render.words_per_night_frame(size)
        self.scratch = terrain.make_terrain_buffers(self.thread_pool.num_threads)
        self.easel = render.make_render_buffers(self.thread_pool.num_threads, self.atlas)

    @property
    def envs(self) -> np.ndarray:
        return self.state.envs

    def seed(self, i: int, seed: int) -> None:
        """The next episode of environment i is the first of `seed`."""
        self.envs["seed_hash"][i] = hash(seed)
        self.envs["episode"][i] = 0
        self.seeded[i] = True

    def _grow(self) -> None:
        self.state = state.grow_capacity(self.state)

    def _run_kernel(self, todo: np.ndarray, k: int) -> None:
        step_batch(
            self.state, self.level_params, self.env_level_ids, self.sample_levels, self.daylight, self.scratch,
            self.atlas, self.easel, k, todo, self.pending, self.actions, self.view, self.words, self.obs_bytes,
            self.results,
        )  # fmt: skip

    def render(self, i: int, size: tuple[int, int]) -> np.ndarray:
        """A picture (height, width, 3) for a person. It takes no number from the world's stream."""
        if size not in self._render_buffers:
            drawn = render.make_atlas(size)
            self._render_buffers[size] = drawn, render.make_render_buffers(1, drawn)
        canvas = np.zeros(size[0] * size[1] * 3, np.uint8)
        render_env(self.state, i, *self._render_buffers[size], canvas)
        return canvas.reshape(size[1], size[0], 3)

    def snapshot(self) -> dict[str, np.ndarray]:
        """All that decides what happens next, as plain arrays."""
        entities = self.state.entities.view(np.uint8).reshape(self.num_envs, -1).copy()
        return super().snapshot() | {"entities": entities}

    def _restore(
        self, envs: np.ndarray, phase: np.ndarray, out: np.ndarray, snapshot: Mapping[str, np.ndarray]
    ) -> None:
        entities = read_array(snapshot, "entities", "u1", (self.num_envs, None))
        capacity, rest = divmod(entities.shape[1], state.ENTITY.itemsize)
        if rest or not state.INITIAL_CAPACITY <= capacity <= state.MAX_CAPACITY:
            raise ValueError(
                f"the snapshot's array 'entities' has room for no number of entities: {entities.shape[1]} bytes"
            )
        restored = state.State(envs, entities.view(state.ENTITY).copy())
        check_state(restored, phase)
        if self.view == SYMBOLS:
            require(out <= observations.MAX_SYMBOLS, "the observation")
        self.state = restored

    def bytes_per_environment(self) -> int:
        """Memory that grows with the number of environments; textures and scratch are shared."""
        arrays = [*self.state, *self.results, self.obs_bytes, self.pending, self.actions]
        return sum(array.nbytes for array in arrays) // self.num_envs
