"""Worlds in plain Python: implement one environment, and `PythonWorld` implements the whole contract of a `World`.

It is meant for prototypes and for worlds that need not be fast: the interpreter steps one environment after another,
in one process or in several (`PythonWorld.num_workers`). examples/custom_world.py is a complete world.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from copy import copy
from typing import Any, ClassVar, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from PIL import Image, ImageDraw

from envgen.settings import format_choice_error

from . import validation as checks
from .observations import RenderedEnv, image_grid
from .python_vector_env import PythonVectorEnv
from .world import LevelStats, World


class PythonEnv(RenderedEnv):
    """One environment. A subclass sets `observation_space` and implements `begin`, `observe` and `advance`.

    Actions are those that `World.actions` names; a world without names sets `action_space` to a Box here.

    Attributes:
        state: Everything that changes during an episode: numbers and arrays whose dtypes and shapes never change.
        level: The level of this episode.
        np_random: The only source of randomness that may be used.
        max_episode_steps: An episode is truncated after this many steps.
        extra_infos: Entries of the infos in addition to those of every world, such as `possible`: arrays that
            `__init__` sets, and whose dtypes and shapes never change. An array with an entry per skill becomes a dict
            in single environments.
    """

    observation_space: spaces.Space[Any]
    """The space of the observations; a subclass sets it."""
    action_space: spaces.Space[Any]
    """The space of the actions. With `World.actions`, it is set to a `Discrete` space of that size."""
    max_episode_steps: int = 1000
    image_size: int = 64
    """Pixels along a side of `render_frame`'s image."""
    render_fps: int = 10
    """Frames per second of the window of `render_mode="human"`."""

    def __init__(
        self, world: "PythonWorld", levels: Sequence[Any], sample_levels: bool = True, render_mode: str | None = None
    ):
        render = {"render_modes": list(checks.RENDER_MODES), "render_fps": self.render_fps}
        self.metadata = {**type(self).metadata, **render, **world.metadata}
        self.world, self.render_mode = world, checks.check_render_mode(render_mode)
        if world.actions:
            self.action_space = spaces.Discrete(len(world.actions))
        self.levels = self.next_levels = list(levels)  # those of this episode, and of the next ones
        self.level_index, self.sample_levels = 0, sample_levels
        self.state: dict[str, Any] = {}
        self.extra_infos: dict[str, np.ndarray] = {}
        self.achievements = np.zeros(len(world.skills), np.int64)
        self.episode_number, self.episode_return, self.episode_length, self.running = 0, 0.0, 0, False

    def begin(self) -> dict[str, Any]:
        """The initial `state` of an episode of `self.level`."""
        raise NotImplementedError

    def observe(self) -> Any:
        """The observation of the current state."""
        raise NotImplementedError

    def advance(self, action: Any) -> tuple[float, bool]:
        """Change `self.state` by one step. Returns the reward and whether the episode terminates."""
        raise NotImplementedError

    def is_truncated(self) -> bool:
        """Whether the episode is truncated after this step, which may also have terminated it."""
        return self.episode_length >= self.max_episode_steps

    def prepare_next(self) -> bool:
        """Prepare the next episode, so that `reset` has less to do. Worker processes call it while they wait.

        It must change neither the course of any episode nor `np_random`. Returns whether there was anything to prepare.
        """
        return False

    def on_restore(self) -> None:
        """Called after an episode in progress is restored, for environments that keep more than `state`.

        Raises ValueError if the state is damaged.
        """

    def fits_length(self, steps: int) -> bool:
        """Whether a restored episode may have this many steps. Where a subclass overrides `is_truncated`, no maximum is
        known."""
        has_maximum = type(self).is_truncated is PythonEnv.is_truncated
        return steps >= 0 and (not has_maximum or steps <= self.max_episode_steps)

    def fits_space(self, obs: Any) -> bool:
        """Whether a restored state may have this observation. Floats may be outside the bounds of the space, which
        many environments only estimate."""
        space = self.observation_space
        if isinstance(space, spaces.Box) and space.dtype.kind == "f" and isinstance(obs, np.ndarray):
            has_form = obs.shape == space.shape and np.can_cast(obs.dtype, space.dtype)
            return has_form and (bool(np.isfinite(obs).all()) or space.contains(obs))
        return space.contains(obs)

    def render_frame(self) -> np.ndarray:
        """An image of the current state, (image_size, image_size, 3) uint8. By default it lists the state as text."""
        image = Image.new("RGB", (self.image_size, self.image_size), "white")
        text = "\n".join(f"{name}\n {value}" for name, value in self.state.items())
        ImageDraw.Draw(image).text((2, 2), text, fill="black")
        return np.asarray(image)

    def achieve(self, skill: str) -> None:
        """Count a success of a skill."""
        names = [s.name for s in self.world.skills]
        if skill not in names:
            raise ValueError(f"achieve: skill {format_choice_error(skill, names)}")
        self.achievements[names.index(skill)] += 1

    @property
    def level(self) -> Any:
        return self.levels[self.level_index]

    def set_level(self, level: Any) -> None:
        self.next_levels = checks.parse_levels(self.world.Level, self.world.name, level)
        self.sample_levels = len(self.next_levels) > 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        options = checks.check_options(options, ("level",))
        seed = checks.check_optional_seed(seed)
        if "level" in options:
            self.set_level(options["level"])
        if seed is not None:
            super().reset(seed=seed)
            self.episode_number = 0
        self.levels = self.next_levels
        self.level_index = int(self.np_random.integers(len(self.levels))) if self.sample_levels else 0
        self.achievements = np.zeros(len(self.world.skills), np.int64)  # `begin` may count successes
        self.state = self.begin()
        self.episode_number, self.episode_return, self.episode_length = self.episode_number + 1, 0.0, 0
        self.running = True
        if self.render_mode == "human":
            self.render()
        return copy(self.observe()), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action = checks.check_single_action(action, self.action_space, self.world.actions)
        obs, reward, terminated, truncated = self.take_step(action)
        return copy(obs), reward, terminated, truncated, self._info()

    def take_step(self, action: Any) -> tuple[Any, float, bool, bool]:
        """`step` with a checked action, an integer or an array of a Box. What takes time is left out: an info, and a
        copy of the observation, which may be a part of `state`."""
        if not self.running:
            raise ResetNeeded("call reset() before the first step() and after an episode has ended")
        reward, terminated = self.advance(action)
        if not isinstance(terminated, bool | np.bool_):
            raise TypeError(f"advance must return (reward, terminated); terminated is {terminated!r}, not a boolean")
        self.episode_return, self.episode_length = self.episode_return + reward, self.episode_length + 1
        truncated = bool(self.is_truncated())
        self.running = not (terminated or truncated)
        if self.render_mode == "human":
            self.render()
        return self.observe(), float(reward), bool(terminated), truncated

    def _info(self) -> dict[str, Any]:
        info = {
            "level": self.level_index,
            "episode_number": self.episode_number,
            "episode_return": self.episode_return,
            "episode_length": self.episode_length,
            "achievements": self._by_skill(self.achievements),
        }
        for name, value in self.extra_infos.items():
            info[name] = self._by_skill(value) if value.shape == self.achievements.shape else value.copy()[()]
        return info

    def _by_skill(self, values: np.ndarray) -> dict[str, Any]:
        return {skill.name: value for skill, value in zip(self.world.skills, values.tolist(), strict=True)}

    @property
    def has_begun(self) -> bool:
        return self.episode_number > 0

    @property
    def window_title(self) -> str:
        return self.world.name


class StateStats(NamedTuple):
    """The mean of each entry of the initial state."""

    means: dict[str, float]
    """The mean by name of the entry."""

    def as_dict(self) -> dict[str, float]:
        return self.means

    def __str__(self) -> str:
        return "\n".join(f"{name:24} {mean:8.2f}" for name, mean in self.means.items())


class PythonWorld(World):
    """A world whose environments are `PythonEnv`s. A subclass sets the attributes of `World` and `env_class`.

    Its environments provide only one kind of observation, which `observations` names.
    """

    env_class: ClassVar[type[PythonEnv]]
    """The class of its environments."""
    num_workers: int | None = 1
    """Processes that step the environments. None: one per core, with at least 4 environments each."""
    metadata: ClassVar[Mapping[str, Any]] = {}
    """Metadata of all environments, such as a `symbol_map` or `tile_grid`."""

    def worker_key(self) -> tuple[Any, ...]:
        """The classes and functions that environments consist of. Idle worker processes that have run the environments
        of a world are reused by those with the same ones."""
        return (type(self),)

    def make(
        self,
        levels: Any = (),
        num_envs: int | None = None,
        seed: int | None = None,
        observation: str | None = None,
        **kwargs: Any,
    ) -> PythonVectorEnv:
        self._check_observation(observation)
        seed = checks.check_optional_seed(seed)
        levels = checks.list_levels(levels)
        envs = PythonVectorEnv(self, levels, len(levels) if num_envs is None else num_envs, **kwargs)
        if seed is not None:
            envs.seed(seed)
        return envs

    def single(
        self, level: Any = None, seed: int | None = None, observation: str | None = None, **kwargs: Any
    ) -> PythonEnv:
        self._check_observation(observation)
        seed = checks.check_optional_seed(seed)
        levels = checks.parse_levels(self.Level, self.name, level)
        env = self.env_class(self, levels, sample_levels=len(levels) > 1, **kwargs)
        if seed is not None:
            env._np_random, env._np_random_seed = seeding.np_random(seed)
        return env

    def _check_observation(self, observation: str | None) -> None:
        if len(self.observations) != 1:
            raise TypeError(
                f"a PythonWorld has one kind of observation, but {type(self).__name__}.observations is "
                f"{self.observations!r}"
            )
        checks.check_choice("observation", observation or self.default_observation, self.observations)

    def level_stats(self, level: Any = None, seeds: Sequence[int] = range(16)) -> LevelStats:
        seeds = checks.check_stats_seeds(seeds)
        states = []
        with closing(self.single(level)) as env:
            for seed in seeds:
                env.reset(seed=seed)
                states.append({f"initial {name}": float(np.mean(value)) for name, value in env.state.items()})
        return StateStats({name: float(np.mean([state[name] for state in states])) for name in states[0]})

    def render_levels(self, levels: Mapping[str, Any], columns: int = 4, seed: int = 0) -> Image.Image:
        def render_level(k: int, level: Any) -> np.ndarray:
            with closing(self.single(level)) as env:
                env.reset(seed=checks.check_seed(seed) + k)
                return env.render_frame()

        with closing(self.single()) as env:
            image_size = env.image_size
        return image_grid(levels, columns, image_size, render_level)
