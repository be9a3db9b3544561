"""Many Crafter environments stepped together: state, buffers and threads around the one kernel, `step_batch`.

The kernels check nothing, so a restored state is checked before it reaches them.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from envgen.arrays import read_array

from ..engine import MAX_EPISODES, NOT_STARTED, BatchEngine, check_ranges, check_stream, require
from ..observations import NO_OBSERVATION, PIXELS, SYMBOLS
from . import constants as const
from . import observations, render, state, terrain
from .kernel import REPORT, render_env, step_batch
from .level import CrafterLevel
from .state import NUM_CHUNKS, State

SMALLEST_ATLAS = (18, 18)  # for kernels that take an atlas but draw nothing


class Engine(BatchEngine):
    """`num_envs` Crafter environments.

    Args:
        num_envs: The number of environments.
        levels: Environment i plays `levels[i % len(levels)]`.
        sample_levels: Each episode plays a random one of the levels instead.
        threads: Threads to step with.
        observation: NO_OBSERVATION, SYMBOLS or PIXELS.
        image_size: (width, height) of the image. It matters even if none is drawn: at night, the random stream
            advances by one number per pixel of the map.
    """

    title, compile_seconds, Level = "Crafter", 25, CrafterLevel
    skill_names = tuple(skill.name for skill in const.SKILLS)
    skill_events = observations.SKILL_EVENTS
    stream_field = "rng"

    def __init__(
        self, num_envs: int, levels: Sequence[CrafterLevel], sample_levels: bool, threads: int,
        observation: int = NO_OBSERVATION, image_size: tuple[int, int] = (64, 64),
    ):  # fmt: skip
        obs_size = {NO_OBSERVATION: 1, SYMBOLS: observations.NUM_SYMBOLS, PIXELS: image_size[0] * image_size[1] * 3}
        super().__init__(num_envs, levels, sample_levels, image_size, threads, obs_size[observation], REPORT)
        self.observation = observation
        self.state = state.allocate(num_envs)
        self._render_buffers: dict[tuple[int, int], tuple[render.Atlas, render.RenderBuffers]] = {}
        self.daylight = state.make_daylight_table()
        self.atlas = render.make_atlas(image_size if observation == PIXELS else SMALLEST_ATLAS)
        self.words_per_night_frame = render.words_per_night_frame(image_size)
        self.terrain_buffers = terrain.make_terrain_buffers(self.thread_pool.num_threads)
        self.obs_buffers = render.make_render_buffers(self.thread_pool.num_threads, self.atlas)

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

    def _run_kernel(self, env_ids: np.ndarray, thread: int) -> None:
        step_batch(
            self.state, self.level_params, self.env_level_ids, self.sample_levels, self.daylight,
            self.terrain_buffers, self.atlas, self.obs_buffers, thread, env_ids, self.pending, self.actions,
            self.observation, self.words_per_night_frame, self.obs_bytes, self.results,
        )  # fmt: skip

    def render(self, i: int, size: tuple[int, int]) -> np.ndarray:
        """An RGB image (height, width, 3) for display. It takes no number from the environment's random stream."""
        if size not in self._render_buffers:
            tiles = render.make_atlas(size)
            self._render_buffers[size] = tiles, render.make_render_buffers(1, tiles)
        canvas = np.zeros(size[0] * size[1] * 3, np.uint8)
        render_env(self.state, i, *self._render_buffers[size], canvas)
        return canvas.reshape(size[1], size[0], 3)

    def get_env_state(self, env_ids: np.ndarray) -> dict[str, np.ndarray]:
        return super().get_env_state(env_ids) | {"entities": self._entity_bytes()[env_ids]}

    def set_env_state(
        self, env_ids: np.ndarray, states: Mapping[str, np.ndarray], seeds: Sequence[int] | None = None
    ) -> None:
        entities = states["entities"]
        while self._entity_bytes().shape[1] < entities.shape[1]:
            self._grow()
        super().set_env_state(env_ids, states, seeds)
        self._entity_bytes()[env_ids, : entities.shape[1]] = entities
        self._entity_bytes()[env_ids, entities.shape[1] :] = 0  # no entity: saved before the array grew

    def _entity_bytes(self) -> np.ndarray:
        return self.state.entities.view(np.uint8).reshape(self.num_envs, -1)

    def snapshot(self) -> dict[str, np.ndarray]:
        return super().snapshot() | {"entities": self._entity_bytes().copy()}

    def _check_state(
        self, envs: np.ndarray, phase: np.ndarray, obs_bytes: np.ndarray, arrays: Mapping[str, np.ndarray]
    ) -> None:
        check_state(State(envs, read_entities(arrays, len(envs))), phase)
        if self.observation == SYMBOLS:
            require(obs_bytes <= observations.MAX_SYMBOLS, "the observation")

    def _restore(self, envs: np.ndarray, snapshot: Mapping[str, np.ndarray]) -> None:
        self.state = State(envs, read_entities(snapshot, len(envs)).copy())

    def bytes_per_environment(self) -> int:
        """Memory that grows with the number of environments; textures and buffers are shared."""
        arrays = [*self.state, *self.results, self.obs_bytes, self.pending, self.actions]
        return sum(array.nbytes for array in arrays) // self.num_envs


# --- checks of a restored state

MAX_ARRIVAL = 2**30
MAX_RETURN = 1e9
RANGES = {
    "daylight": (0, 1), "episode_return": (-MAX_RETURN, MAX_RETURN), "episode": (0, MAX_EPISODES),
    "episode_seed": (0, 2**31 - 1), "num_chunks": (0, NUM_CHUNKS), "next_arrival": (0, MAX_ARRIVAL),
    "facing": (0, len(const.DIRECTIONS) - 1), "sleeping": (0, 1), "hunger": (0, 2 * 25), "thirst": (0, 2 * 20),
    "fatigue": (-10, 30), "recover": (-2 * 15, 2 * 25),
    "prev_health": (0, const.MAX_ITEM_COUNT),
    "rewarded_health": (0, const.MAX_ITEM_COUNT),
    "unlocked": (0, (1 << len(const.SKILLS)) - 1), "achievements": (0, 2**30), "inventory": (0, const.MAX_ITEM_COUNT),
    "ground": (0, len(const.MATERIALS) - 1), "entity_slots": (0, const.MAP_SIZE * const.MAP_SIZE),
}  # fmt: skip
ENTITY_RANGES = {
    "counter": (0, const.MAX_PLANT_AGE), "health": (0, const.MAX_ITEM_COUNT),
    "x": (0, const.MAP_SIZE - 1), "y": (0, const.MAP_SIZE - 1),
    "kind": (0, len(const.ENTITIES) - 1), "facing": (0, len(const.DIRECTIONS) - 1),
}  # fmt: skip


def read_entities(arrays: Mapping[str, np.ndarray], num_envs: int) -> np.ndarray:
    """The entities in a snapshot, (num_envs, capacity)."""
    entities = read_array(arrays, "entities", "u1", (num_envs, None))
    capacity, remainder = divmod(entities.shape[1], state.ENTITY.itemsize)
    if remainder or not state.INITIAL_CAPACITY <= capacity <= state.MAX_CAPACITY:
        raise ValueError(
            f"the snapshot's array 'entities' has {entities.shape[1]} bytes per environment; expected "
            f"{state.INITIAL_CAPACITY} to {state.MAX_CAPACITY} entities of {state.ENTITY.itemsize} bytes"
        )
    return entities.view(state.ENTITY)


def check_state(state: State, phase: np.ndarray) -> None:
    """Raise ValueError if no episode can lead to this state. The level and its parameters are checked elsewhere."""
    envs, entities = state
    has_started = phase != NOT_STARTED
    check_ranges(envs, RANGES)
    check_ranges(entities, ENTITY_RANGES, "an entity's ")
    check_stream(envs, "rng")
    require((envs["num_entities"] >= has_started) & (envs["num_entities"] <= entities.shape[1]), "num_entities")
    _check_entities(envs, entities)
    _check_chunks(envs, has_started)


def _check_entities(envs: np.ndarray, entities: np.ndarray) -> None:
    """The first entity is the only player, every entity has its own cell, and arrivals are unique."""
    rows = np.arange(entities.shape[1])
    is_used = rows < envs["num_entities"][:, None]
    kind, is_first = entities["kind"], rows == 0
    require(~is_used | (is_first & (kind == const.PLAYER)) | (~is_first & (kind > const.PLAYER)), "an entity's kind")
    slots = envs["entity_slots"][np.arange(len(envs))[:, None], entities["x"], entities["y"]]
    require(~is_used | (slots == rows + 1), "entity_slots")
    require(np.count_nonzero(envs["entity_slots"], axis=(1, 2)) == envs["num_entities"], "entity_slots")
    arrival = entities["arrival"]
    require(~is_used | ((arrival >= 0) & (arrival < envs["next_arrival"][:, None])), "an entity's arrival")
    in_order = np.sort(np.where(is_used, arrival, -1 - rows), axis=1)  # unused rows get unique negative numbers
    require(in_order[:, 1:] != in_order[:, :-1], "an entity's arrival")


def _check_chunks(envs: np.ndarray, has_started: np.ndarray) -> None:
    """`chunk_order` lists no chunk twice, and the counts of grass and path are correct."""
    indices = np.arange(NUM_CHUNKS)
    listed = np.where(indices < envs["num_chunks"][:, None], envs["chunk_order"], NUM_CHUNKS + indices)
    in_order = np.sort(listed, axis=1)
    are_valid = np.count_nonzero(in_order < NUM_CHUNKS, axis=1) == envs["num_chunks"]
    require(are_valid & (in_order[:, 1:] != in_order[:, :-1]).all(1), "chunk_order")
    edges = np.arange(0, const.MAP_SIZE, const.CHUNK_SIZE)
    for name, material in (("grass_count", const.GRASS), ("path_count", const.PATH)):
        cells = (envs["ground"] == material).astype(np.int32)
        counts = np.add.reduceat(np.add.reduceat(cells, edges, axis=1), edges, axis=2).reshape(len(envs), -1)
        require((counts == envs[name]).all(1) | ~has_started, name)
