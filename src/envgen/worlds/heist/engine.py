"""The batch engine of Heist: state, buffers and threads for the kernel `step_batch`.

Kernels do not check array bounds, so a restored state must be one that an environment can reach.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ..engine import MAX_EPISODES, NOT_STARTED, BatchEngine, check_ranges, check_stream, require
from ..kernels import mt19937
from ..observations import NO_OBSERVATION, PIXELS, SYMBOLS
from . import constants as const
from . import maze, state
from .background import FRAME_SIZE
from .kernel import GEM_RY, HALF, KEY_RY, REPORT, init_seed_stream, step_batch
from .level import HeistLevel
from .observations import MAX_SYMBOLS, SYMBOLS_SIZE
from .render import FRAME_BYTES, allocate_buffers, render_hd
from .rules import AGENT_RADIUS, COLLISION_RADIUS
from .textures import load_atlas

ALL_SEEDS = 2**31 - 1  # number of maze seeds, unless num_levels limits them


class Engine(BatchEngine):
    """`num_envs` Heist environments.

    Args:
        num_envs: The number of environments.
        levels: Environment i plays `levels[i % len(levels)]`.
        sample_levels: Each episode plays a random one of the levels instead.
        threads: Threads to step with.
        observation: NO_OBSERVATION, SYMBOLS or PIXELS.
        num_levels: Draw the mazes' seeds from this many, 0 for all.
        start_level: The first of these seeds.
        skin: The textures of pixel observations and of `render`.
    """

    title, compile_seconds, Level = "Heist", 20, HeistLevel
    skill_names = tuple(skill.name for skill in const.SKILLS)
    stream_field, identity_fields = "mt", (*BatchEngine.identity_fields, "seed_stream")

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
        """The next episode of environment i is the first of `ProcgenEnv(num_envs=1, rand_seed=seed)`."""
        source = np.zeros(mt19937.SIZE, np.uint32)
        mt19937.seed(source, seed % 2**32)
        self._init_seed_stream(i, seed, source)

    def seed_like_procgen(self, rand_seed: int) -> None:
        """The next episodes are the first ones of `ProcgenEnv(num_envs=num_envs, rand_seed=rand_seed)`."""
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

    def set_env_state(
        self, env_ids: np.ndarray, states: Mapping[str, np.ndarray], seeds: Sequence[int] | None = None
    ) -> None:
        super().set_env_state(env_ids, states, seeds)
        self.state["needs_redraw"][env_ids] = 1

    def _check_state(
        self, envs: np.ndarray, phase: np.ndarray, obs_bytes: np.ndarray, arrays: Mapping[str, np.ndarray]
    ) -> None:
        check_state(envs, phase)
        if self.observation == SYMBOLS:
            require(obs_bytes <= MAX_SYMBOLS, "the observation")

    def _restore(self, envs: np.ndarray, snapshot: Mapping[str, np.ndarray]) -> None:
        self.state = envs
        self.state["needs_redraw"] = 1  # the background of the pixels is not in a snapshot

    def bytes_per_environment(self) -> int:
        """Memory that grows with the number of environments; textures and buffers are shared."""
        arrays = [self.state, *self.results, self.obs_bytes, self.pending, self.actions, self.buffers.static_frames]
        return sum(array.nbytes for array in arrays) // self.num_envs


# --- checks of a restored state

MAX_RETURN = 1e9
MAX_SPEED = 1.0  # cells per step; no level allows more
COORDINATES = (0, const.MAX_WORLD_SIZE)
COLOR_COUNTS = (0, const.NUM_COLORS)
RANGES = {
    "episode_return": (-MAX_RETURN, MAX_RETURN), "bonus": (0, MAX_RETURN), "episode": (0, MAX_EPISODES),
    "level_seed": (0, ALL_SEEDS), "first_seed": (0, ALL_SEEDS), "num_seeds": (1, ALL_SEEDS),
    "mode": (0, len(const.MODES) - 1), "world_size": COORDINATES, "background": (-1, const.NUM_BACKGROUNDS - 1),
    "num_key_slots": COLOR_COUNTS, "num_doors": COLOR_COUNTS, "shortest_path": (-1, 2**31 - 1), "x": COORDINATES,
    "y": COORDINATES, "vx": (-MAX_SPEED, MAX_SPEED), "vy": (-MAX_SPEED, MAX_SPEED), "rotation": (-4, 4),
    "facing": (0, const.NUM_MOVES - 1), "needs_redraw": (0, 1), "won": (0, 1), "has_key": (0, 1), "possible": (0, 1),
    "achievements": (0, 2**30), "grid": (0, const.GEM),
}  # fmt: skip
ENTITY_RANGES = {
    "x": COORDINATES, "y": COORDINATES, "kind": (0, const.ENTITY_GEM), "color": (0, const.NUM_COLORS - 1),
    "alive": (0, 1),
}  # fmt: skip
ENTITY_RX = np.array([0, AGENT_RADIUS, HALF, AGENT_RADIUS], np.float32)  # by kind
ENTITY_RY = np.array([0, KEY_RY, HALF, GEM_RY], np.float32)
ENTITY_CELL = np.array([0, const.KEY, const.DOOR, const.GEM])


def check_state(envs: np.ndarray, phase: np.ndarray) -> None:
    """Raise ValueError for a state that no episode can reach. Levels and their params have already been checked."""
    is_started = phase != NOT_STARTED
    check_ranges(envs, RANGES)
    check_ranges(envs["entities"], ENTITY_RANGES, "an entity's ")
    for name in ("seed_stream", "mt"):
        check_stream(envs, name)
    require(envs["first_seed"].astype(np.int64) + envs["num_seeds"] <= ALL_SEEDS, "num_seeds")
    for name in ("mode", "world_size"):
        require((envs[name] == envs["params"][name]) | ~is_started, name)
    require((envs["num_entities"] >= is_started) & (envs["num_entities"] <= const.MAX_ENTITIES), "num_entities")
    _check_entities(envs)
    _check_position(envs, is_started)


def _check_entities(envs: np.ndarray) -> None:
    """Each entity has the size of its kind, and its cell contains it until it is removed."""
    entities = envs["entities"]
    is_unused = np.arange(const.MAX_ENTITIES) >= envs["num_entities"][:, None]
    kind, color = entities["kind"], entities["color"]
    require(is_unused | (kind > 0), "an entity's kind")
    require(is_unused | (kind != const.ENTITY_GEM) | (color == 0), "an entity's color")
    has_size = (entities["rx"] == ENTITY_RX[kind]) & (entities["ry"] == ENTITY_RY[kind])
    require(is_unused | has_size, "an entity's size")
    i, j = entities["x"].astype(np.int64), entities["y"].astype(np.int64)
    is_inside = (i < envs["world_size"][:, None]) & (j < envs["world_size"][:, None])
    require(is_unused | is_inside, "an entity's position")
    content = _cell_contents(envs, i, j)
    expected = np.where(entities["alive"] != 0, ENTITY_CELL[kind] + color, const.FLOOR)
    require(is_unused | (content == expected), "grid")


def _check_position(envs: np.ndarray, is_started: np.ndarray) -> None:
    """The agent is inside the grid and not in a wall. The rules keep it there."""
    size = envs["world_size"]
    for dx in (-COLLISION_RADIUS, COLLISION_RADIUS):
        for dy in (-COLLISION_RADIUS, COLLISION_RADIUS):
            i = np.floor(envs["x"] + dx).astype(np.int64)
            j = np.floor(envs["y"] + dy).astype(np.int64)
            is_inside = (i >= 0) & (j >= 0) & (i < size) & (j < size)
            is_free = _cell_contents(envs, i[:, None], j[:, None])[:, 0] != const.WALL
            require(~is_started | (is_inside & is_free), "the agent's position")


def _cell_contents(envs: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """The contents of the cells (i, j), each (num_envs, n); the nearest cell if one is outside."""
    last = const.MAX_WORLD_SIZE - 1
    return envs["grid"][np.arange(len(envs))[:, None], np.clip(j, 0, last), np.clip(i, 0, last)]
