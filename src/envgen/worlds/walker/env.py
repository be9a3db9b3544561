"""A walker that plays levels. Its state is the random generator at the start of the episode, and the actions so far.

The contacts of a Box2D world, and the impulses with which it begins to solve them, can be neither read nor set from
Python. A state is therefore restored by playing the episode's actions again, which is exact.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image

from envgen.errors import EnvgenError
from envgen.interrupts import delay_interrupts

from ..env_group import rng_from_words, rng_to_words
from ..replayed_env import ReplayedEnv
from ..world import EpisodeEnd
from .level import LONG_STEPS, OBSTACLES, WalkerLevel

if TYPE_CHECKING:
    from ..python_world import PythonWorld
    from .physics import WalkerPhysics

NUM_JOINTS = 4
THRESHOLDS = 25, 50, 100  # percent of the course
ROUGH_THRESHOLD = 3.0  # ground of this roughness and more is rough
TERRAINS = ("walk", "rough", *OBSTACLES)  # each has a skill for every threshold
NEAR_DISTANCE = 1.5  # m before and after an obstacle within which the end of an episode is attributed to it
FALLEN, BACKWARDS, ARRIVED, TIME_LIMIT = "fell", "left the start backwards", "arrived", "time limit"


class Box2dMissingError(EnvgenError, ImportError):
    """The walker needs Box2D, which is not installed."""


def load_physics() -> Any:
    """The module `physics`, which needs Box2D."""
    try:
        with delay_interrupts():  # Box2D's bindings discard exceptions while they are imported
            from . import physics
    except ImportError as error:
        raise Box2dMissingError(f'the walker needs Box2D: pip install "envgen[box2d]" ({error})') from error
    return physics


class _PreparedEpisode(NamedTuple):
    """The beginning of an environment's next episode."""

    levels: list[Any]  # the environment's next levels
    level: WalkerLevel  # of the episode
    words: list[int]  # the state of the random generator before it generates the terrain
    rng: np.random.Generator  # the generator after that
    physics: "WalkerPhysics"
    obs: np.ndarray


class WalkerEnv(ReplayedEnv):
    """One walker. `reset(seed=s)` begins the episode of `gymnasium.make("BipedalWalker-v3").reset(seed=s)`."""

    image_size = 600
    render_fps = 50
    mismatch_cause = "the state is damaged, or comes from another version of Box2D"

    def __init__(
        self, world: "PythonWorld", levels: Sequence[Any], sample_levels: bool = True, render_mode: str | None = None
    ):
        super().__init__(world, levels, sample_levels, render_mode)
        self._physics_module = load_physics()
        self._physics: WalkerPhysics = self._make_physics(WalkerLevel())
        self.observation_space, self.action_space = self._physics.observation_space, self._physics.action_space
        self._obs = np.zeros(self.observation_space.shape or (), np.float32)
        self.extra_infos = {"possible": np.zeros(len(world.skills), np.bool_), "distance": np.zeros(())}
        self._prepared: _PreparedEpisode | None = None
        self._spare: WalkerPhysics | None = None  # to prepare an episode with
        self.last_end = EpisodeEnd(TIME_LIMIT)  # of the last episode that ended

    def _make_physics(self, level: WalkerLevel) -> "WalkerPhysics":
        return self._physics_module.WalkerPhysics(level, "rgb_array")  # also to render in a vector environment

    def begin(self) -> dict[str, Any]:
        words, prepared, self._prepared = rng_to_words(self.np_random), self._prepared, None
        if prepared is not None and prepared.level == self.level and prepared.words == words:
            self._spare, self._physics = self._physics, prepared.physics
            self._obs, self._np_random = prepared.obs, prepared.rng
        else:
            self._obs = self._begin_physics(self.np_random)
        self._note_begin()
        return {"rng": np.array(words, np.uint64), "actions": np.zeros((LONG_STEPS, NUM_JOINTS), np.float32)}

    def prepare_next(self) -> bool:
        if not self.next_levels or (self._prepared is not None and self._prepared.levels is self.next_levels):
            return False
        rng = rng_from_words(rng_to_words(self.np_random))
        level: Any = self.next_levels[int(rng.integers(len(self.next_levels))) if self.sample_levels else 0]
        words, spare = rng_to_words(rng), self._spare
        physics = spare if spare is not None and spare.level == level else self._make_physics(level)
        self._spare = None
        self._prepared = _PreparedEpisode(self.next_levels, level, words, rng, physics, physics.begin(rng))
        return True

    def _begin_physics(self, rng: np.random.Generator) -> np.ndarray:
        level: Any = self.level
        if self._physics.level != level:
            self._physics.close()
            self._physics = self._make_physics(level)
        return self._physics.begin(rng)

    def _note_begin(self) -> None:
        """Record which skills the terrain of the episode makes possible, and where."""
        self.max_episode_steps = self.level.max_episode_steps
        self._heuristic = self._physics_module.new_heuristic()
        first_ends = {kind: min((o.end for o in self._physics.obstacles if o.kind == kind), default=np.inf)
                      for kind in OBSTACLES}  # fmt: skip
        first_ends |= {"walk": 0.0, "rough": 0.0 if self.level.roughness >= ROUGH_THRESHOLD else np.inf}
        self._first_ends = np.repeat([first_ends[terrain] for terrain in TERRAINS], len(THRESHOLDS))
        self._thresholds = np.tile(THRESHOLDS, len(TERRAINS))
        self.extra_infos["possible"][:] = self._first_ends < self._physics_module.END_X
        self._note_distance()

    def _note_distance(self) -> None:
        self.extra_infos["distance"][()] = 100 * self._physics.progress

    def observe(self) -> np.ndarray:
        return self._obs.copy()

    def advance(self, action: np.ndarray) -> tuple[float, bool]:
        self.state["actions"][self.episode_length] = action
        reward, terminated = self._advance(action)
        if terminated or self.episode_length + 1 >= self.max_episode_steps:
            self.last_end = self._describe_end(terminated)
        return reward, terminated

    def _advance(self, action: np.ndarray) -> tuple[float, bool]:
        self._obs, reward, terminated, _, _ = self._physics.step(action)
        self._note_distance()
        reached = (100 * self._physics.progress >= self._thresholds) & (self._physics.x > self._first_ends)
        self.achievements[reached & (self.achievements == 0)] = 1
        return float(reward), bool(terminated)

    def _describe_end(self, terminated: bool) -> EpisodeEnd:
        x = self._physics.x
        if not terminated:
            cause = TIME_LIMIT
        elif self._physics.progress > 1:
            cause = ARRIVED
        else:
            cause = BACKWARDS if x < 0 else FALLEN
        near = [o.kind for o in self._physics.obstacles if o.start - NEAR_DISTANCE <= x <= o.end + NEAR_DISTANCE]
        return EpisodeEnd(cause, {"near": near[0] if near else "open ground"})

    def begin_again(self) -> None:
        self._obs = self._begin_physics(rng_from_words(self.state["rng"].tolist()))
        self._note_begin()
        actions = self.state["actions"]
        if not (np.abs(actions) <= 1).all() or actions[self.episode_length :].any():
            raise ValueError("the actions of an episode are not from -1 to 1, or there are more of them than steps")

    def step_again(self, action: Any, episode_return: float, episode_length: int) -> tuple[float, bool]:
        return self._advance(action)

    def expert_action(self) -> np.ndarray:
        """The next action of Gymnasium's scripted walker. Call it once before each step of an episode."""
        return np.asarray(self._heuristic.step_heuristic(self._obs), np.float32)

    def obstacles(self) -> list[Any]:
        """The obstacles of the terrain, from left to right."""
        return list(self._physics.obstacles)

    def ground(self) -> tuple[list[float], list[float]]:
        """The corners of the ground, x and y in m."""
        return list(self._physics.terrain_x), list(self._physics.terrain_y)

    def render_frame(self) -> np.ndarray:
        frame = self._physics.render()
        assert isinstance(frame, np.ndarray)
        square = Image.new("RGB", (self.image_size, self.image_size), "white")
        image = Image.fromarray(frame)
        square.paste(image, ((self.image_size - image.width) // 2, (self.image_size - image.height) // 2))
        return np.asarray(square)

    @property
    def window_title(self) -> str:
        return f"{self.world.name}: {self.extra_infos['distance']:.0f}% of the course"

    def close(self) -> None:
        self._physics.close()
        if self._spare is not None:
            self._spare.close()
        if self._prepared is not None:
            self._prepared.physics.close()
        self._spare = self._prepared = None
        super().close()
