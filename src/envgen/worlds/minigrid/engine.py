"""The batch engine of MiniGrid: state, buffers and threads for the kernel `step_batch`.

Kernels do not check array bounds, so a restored state must be one that an environment can reach.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..engine import MAX_EPISODES, NOT_STARTED, BatchEngine, check_ranges, require
from ..kernels import pcg64
from ..observations import NO_OBSERVATION, PIXELS, SYMBOLS
from . import constants as const
from . import state
from .kernel import REPORT, SCRATCH_SIZE, step_batch
from .level import MAX_LENGTH, MiniGridLevel
from .observations import IMAGE_BYTES, IMAGE_SIZE, MAX_SYMBOLS, SYMBOLS_SIZE
from .package_levels import mixed_params
from .render import render_grid, view_tiles


class Engine(BatchEngine):
    """`num_envs` MiniGrid environments.

    Args:
        num_envs: The number of environments.
        levels: Environment i plays `levels[i % len(levels)]`.
        sample_levels: Each episode plays a random one of the levels instead.
        threads: Threads to step with.
        observation: NO_OBSERVATION, SYMBOLS or PIXELS.
    """

    title, compile_seconds, Level = "MiniGrid", 25, MiniGridLevel
    skill_names = tuple(skill.name for skill in const.SKILLS)
    stream_field = "rng"
    maps: np.ndarray  # (levels, MAX_SIZE * MAX_SIZE), the cells of each level's map

    def __init__(
        self, num_envs: int, levels: Sequence[MiniGridLevel], sample_levels: bool, threads: int,
        observation: int = NO_OBSERVATION,
    ):  # fmt: skip
        obs_size = {NO_OBSERVATION: 1, SYMBOLS: SYMBOLS_SIZE, PIXELS: IMAGE_BYTES}
        super().__init__(
            num_envs, levels, sample_levels, (IMAGE_SIZE, IMAGE_SIZE), threads, obs_size[observation], REPORT
        )
        self.observation = observation
        self.state = state.allocate(num_envs)
        self.scratch = np.zeros((self.thread_pool.num_threads, SCRATCH_SIZE), np.int64)
        self.views = np.zeros((self.thread_pool.num_threads, const.VIEW_CELLS), np.uint8)
        self.tiles = view_tiles()
        self.mixed_params, self.mixed_first = mixed_params()

    @property
    def envs(self) -> np.ndarray:
        return self.state

    def set_levels(self, levels: Sequence[Any], sample_levels: bool) -> None:
        super().set_levels(levels, sample_levels)
        self.maps = np.stack([level.map_cells() for level in self.levels])

    def _place_level(self, level: Any) -> int:
        k = super()._place_level(level)
        if k == len(self.maps):
            self.maps = np.append(self.maps, level.map_cells()[None], 0)
        else:
            self.maps[k] = level.map_cells()
        return k

    def seed(self, i: int, seed: int) -> None:
        """Seed environment i: its next episode is the one that the package's `reset(seed=seed)` begins."""
        pcg64.seed(self.state["rng"][i], seed)
        self.state["seed_hash"][i] = hash(seed)
        self.state["episode"][i] = 0
        self.seeded[i] = True

    def _run_kernel(self, env_ids: np.ndarray, thread: int) -> None:
        step_batch(
            self.state, self.level_params, self.maps, self.mixed_params, self.mixed_first, self.env_level_ids,
            self.sample_levels, self.scratch, self.tiles, self.views, thread, env_ids, self.pending, self.actions,
            self.observation, self.obs_bytes, self.results,
        )  # fmt: skip

    def render(self, i: int, size: tuple[int, int]) -> np.ndarray:
        return render_grid(self.state[i], size)

    def set_env_state(
        self, env_ids: np.ndarray, states: Mapping[str, np.ndarray], seeds: Sequence[int] | None = None
    ) -> None:
        super().set_env_state(env_ids, states)
        for i, seed in zip(env_ids, () if seeds is None else seeds, strict=seeds is not None):
            pcg64.seed(self.state["rng"][i], seed)

    def _check_state(
        self, envs: np.ndarray, phase: np.ndarray, obs_bytes: np.ndarray, arrays: Mapping[str, np.ndarray]
    ) -> None:
        check_state(envs, phase)
        is_seeded = (phase != NOT_STARTED) | (arrays["seeded"] == 1 if "seeded" in arrays else True)
        require((envs["rng"][:, pcg64.INC_LOW] % 2 == 1) | ~is_seeded, "rng")  # PCG64 needs an odd increment
        if self.observation == SYMBOLS:
            require(obs_bytes <= MAX_SYMBOLS, "the observation")

    def _restore(self, envs: np.ndarray, snapshot: Mapping[str, np.ndarray]) -> None:
        self.state = envs


# --- checks of a restored state

NUM_TASKS = len(const.TASKS)
CELL_RANGE = (-1, const.GRID_SIZE - 1)
RANGES = {
    "episode": (0, MAX_EPISODES), "episode_return": (-1, 1), "length": (0, MAX_LENGTH), "task": (0, NUM_TASKS - 1),
    "objective": (0, const.AVOID_OBSTACLES), "width": (0, const.MAX_SIZE), "height": (0, const.MAX_SIZE),
    "direction": (0, 3), "carrying": (0, const.NUM_CELLS - 1), "sees_through_walls": (0, 1), "cell": CELL_RANGE,
    "target_cell": CELL_RANGE, "other_cell": CELL_RANGE, "num_obstacles": (0, const.MAX_OBSTACLES),
    "obstacles": (0, const.GRID_SIZE - 1), "solved": (0, 1), "achievements": (0, MAX_LENGTH),
    "grid": (0, const.NUM_CELLS - 1),
}  # fmt: skip
MAX_MISSION = MAX_SYMBOLS[-5:]


def check_state(envs: np.ndarray, phase: np.ndarray) -> None:
    """Raise ValueError for a state that no episode can reach. Levels and their params have already been checked."""
    is_started = phase != NOT_STARTED
    check_ranges(envs, RANGES)
    require(envs["rng"][:, pcg64.LEFTOVER] <= pcg64.MAX_LEFTOVER, "rng")
    require(envs["mission"] <= MAX_MISSION, "mission")
    task, params = envs["task"], envs["params"]
    require(~is_started | (envs["objective"] == const.OBJECTIVE[task]), "objective")
    require(~is_started | (envs["sees_through_walls"] == const.SEES_THROUGH_WALLS[task]), "sees_through_walls")
    is_mixed = (params["task"] == const.MIXED) & (params["has_map"] == 0)
    own_task = np.where(params["task"] == const.MIXED, const.RANDOM_WALLS, params["task"])
    require(~is_started | is_mixed | (task == own_task), "task")
    valid_length = (envs["length"] == params["length"]) | (is_mixed & (params["has_length"] == 0))
    require(~is_started | (valid_length & (envs["length"] > 0) & (envs["step"] <= envs["length"])), "length")
    _check_grid(envs, is_started)
    _check_cells(envs, is_started)


def _check_grid(envs: np.ndarray, is_started: np.ndarray) -> None:
    """No cell of the grid is UNSEEN, and those beyond it are walls."""
    grid = envs["grid"].reshape(-1, const.STRIDE, const.STRIDE)
    y, x = np.indices(grid.shape[1:]) - const.MARGIN
    width, height = envs["width"][:, None, None], envs["height"][:, None, None]
    is_inside = (x >= 0) & (y >= 0) & (x < width) & (y < height)
    is_valid = np.where(is_inside, grid != const.UNSEEN, grid == const.WALL)
    require(~is_started[:, None, None] | is_valid, "grid")


def _check_cells(envs: np.ndarray, is_started: np.ndarray) -> None:
    """The agent, the targets and the obstacles are inside the grid, and the agent carries only what it can pick up."""
    rows = np.arange(len(envs))
    content = envs["grid"][rows, np.maximum(envs["cell"], 0)]
    require(~is_started | (_is_inside(envs, envs["cell"]) & (const.CAN_ENTER[content] > 0)), "cell")
    carrying = envs["carrying"]
    can_carry = (carrying == const.EMPTY) | (const.CAN_PICK_UP[carrying] > 0)
    require(~is_started | can_carry, "carrying")
    objective = envs["objective"]
    needs_target = np.isin(
        objective,
        [const.UNLOCK_TARGET, const.GO_TO_TARGET, const.PUT_NEAR_TARGET, const.MATCH_OBJECT, const.RED_THEN_BLUE],
    )
    needs_other = np.isin(objective, [const.MATCH_OBJECT, const.RED_THEN_BLUE])
    for name, is_needed in (("target_cell", needs_target), ("other_cell", needs_other)):
        is_valid = _is_inside(envs, envs[name]) | (~is_needed & (envs[name] == -1))
        require(~is_started | is_valid, name)
    is_used = np.arange(const.MAX_OBSTACLES) < envs["num_obstacles"][:, None]
    is_ball = envs["grid"][rows[:, None], envs["obstacles"]] == const.BALL + const.BLUE
    is_valid = _is_inside(envs, envs["obstacles"]) & is_ball
    require(~is_started[:, None] | ~is_used | is_valid, "obstacles")


def _is_inside(envs: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Whether cells, (n,) or (n, k), are inside the grids."""
    x, y = cells % const.STRIDE - const.MARGIN, cells // const.STRIDE - const.MARGIN
    shape = (-1,) + (1,) * (cells.ndim - 1)
    width, height = envs["width"].reshape(shape), envs["height"].reshape(shape)
    return (cells >= 0) & (x >= 0) & (y >= 0) & (x < width) & (y < height)
