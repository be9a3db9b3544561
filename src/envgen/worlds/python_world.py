"""Worlds in plain Python: implement one environment, and `PythonWorld` implements the whole contract of a `World`.

It is meant for prototypes and for worlds that need no speed: every environment is stepped in turn by the interpreter.
examples/custom_world.py is a complete world.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from PIL import Image, ImageDraw

from . import validation as checks
from .engine import place_levels
from .observations import RenderedEnv, image_grid
from .world import LevelVectorEnv, World

_MASK64 = (1 << 64) - 1


class PythonEnv(RenderedEnv):
    """One environment. A subclass sets `observation_space` and implements `begin`, `observe` and `advance`.

    Actions are those that `World.actions` names; a world without names sets `action_space` to a Box here.

    Attributes:
        state: Everything that changes during an episode: numbers and arrays whose dtypes and shapes never change.
        level: The level of this episode.
        np_random: The only source of randomness that may be used.
        max_episode_steps: An episode is truncated after this many steps.
    """

    made_by = "single"
    observation_space: spaces.Space
    action_space: spaces.Space
    max_episode_steps: int = 1000
    image_size: int = 64  # pixels along a side of `render_frame`'s image
    render_fps: int = 10  # of the window of render_mode="human"

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
        """Whether an episode that has not terminated is truncated after this step."""
        return self.episode_length >= self.max_episode_steps

    def on_restore(self) -> None:
        """Called when an episode in progress was restored, for environments that keep more than `state`.

        Raises ValueError if the state is damaged.
        """

    def render_frame(self) -> np.ndarray:
        """An image of the current state, (image_size, image_size, 3) uint8. By default it lists the state as text."""
        image = Image.new("RGB", (self.image_size, self.image_size), "white")
        text = "\n".join(f"{name}\n {value}" for name, value in self.state.items())
        ImageDraw.Draw(image).text((2, 2), text, fill="black")
        return np.asarray(image)

    def achieve(self, skill: str) -> None:
        """Count a success of a skill."""
        self.achievements[[s.name for s in self.world.skills].index(skill)] += 1

    @property
    def level(self) -> Any:
        return self.levels[self.level_index]

    def set_level(self, level: Any) -> None:
        self.next_levels = checks.parse_levels(self.world.Level, self.world.name, level)
        self.sample_levels = len(self.next_levels) > 1

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        if "level" in (options := checks.check_options(options, ("level",))):
            self.set_level(options["level"])
        if seed is not None:
            super().reset(seed=checks.check_seed(seed))
            self.episode_number = 0
        self.levels = self.next_levels
        self.level_index = int(self.np_random.integers(len(self.levels))) if self.sample_levels else 0
        self.state, self.achievements = self.begin(), np.zeros(len(self.world.skills), np.int64)
        self.episode_number, self.episode_return, self.episode_length = self.episode_number + 1, 0.0, 0
        self.running = True
        if self.render_mode == "human":
            self.render()
        return self.observe(), self._info()

    def step(self, action: Any):
        if not self.running:
            raise ResetNeeded("call reset() before the first step() and after an episode has ended")
        reward, terminated = self.advance(checks.check_single_action(action, self.action_space, self.world.actions))
        self.episode_return, self.episode_length = self.episode_return + reward, self.episode_length + 1
        truncated = not terminated and self.is_truncated()
        self.running = not (terminated or truncated)
        if self.render_mode == "human":
            self.render()
        return self.observe(), float(reward), bool(terminated), truncated, self._info()

    def _info(self) -> dict[str, Any]:
        counts = zip(self.world.skills, self.achievements.tolist(), strict=True)
        return {
            "level": self.level_index,
            "episode_number": self.episode_number,
            "episode_return": self.episode_return,
            "episode_length": self.episode_length,
            "achievements": {skill.name: count for skill, count in counts},
        }

    @property
    def window_title(self) -> str:
        return self.world.name


class PythonVectorEnv(LevelVectorEnv):
    """`num_envs` environments of a `PythonWorld`, with same-step autoreset. See `LevelVectorEnv`."""

    def __init__(
        self,
        world: "PythonWorld",
        levels: Any,
        num_envs: int,
        sample_levels: bool = False,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    ):
        if AutoresetMode(autoreset_mode) != AutoresetMode.SAME_STEP:
            raise TypeError(f"a PythonWorld supports only same-step autoreset, not {autoreset_mode}")
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, **world.metadata}
        self.num_envs, self.world, self.render_mode = checks.check_count("num_envs", num_envs), world, None
        self._levels: list[Any] = []
        self.envs = [world.env_class(world, [world.original], False) for _ in range(num_envs)]
        self.set_levels(levels, sample_levels)
        self.single_observation_space = self.envs[0].observation_space
        self.single_action_space = self.envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    @property
    def levels(self) -> list[Any]:
        return self._levels

    def set_levels(self, levels: Any, sample_levels: bool = False) -> None:
        levels = checks.parse_levels(self.world.Level, self.world.name, levels)
        levels = checks.check_all_used(levels, self.num_envs, sample_levels)
        played = [level for env in self.envs if env.episode_number for level in env.levels]
        place_levels(self._levels, levels, {self._levels.index(level) for level in dict.fromkeys(played)})
        for i, env in enumerate(self.envs):
            env.next_levels = levels if sample_levels else [levels[i % len(levels)]]
            env.sample_levels = sample_levels

    def reset(self, *, seed: int | Iterable[int | None] | None = None, options: dict | None = None):
        mask = checks.check_reset_mask(checks.check_options(options, ("reset_mask",)), self.num_envs)
        seeds = [None] * self.num_envs if seed is None else checks.check_seeds(seed, self.num_envs)
        for i in np.flatnonzero(mask):
            self.envs[i].reset(seed=seeds[i])
        return self._observations(), self._infos()

    def step(self, actions: Any):
        if isinstance(self.single_action_space, spaces.Discrete):
            actions = checks.check_actions(actions, self.num_envs, self.world.actions).tolist()
        elif np.shape(actions) != self.action_space.shape:
            raise ValueError(f"actions must have the shape {self.action_space.shape}, not {np.shape(actions)}")
        results = [env.step(action) for env, action in zip(self.envs, actions, strict=True)]
        rewards, terminated, truncated = (np.array([result[k] for result in results]) for k in (1, 2, 3))
        ended = terminated | truncated
        final: dict[str, Any] = {}
        if ended.any():
            final_obs = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(ended):
                final_obs[i] = results[i][0]
            final = {"final_obs": final_obs, "final_info": self._infos(ended)}
            final |= {"_final_obs": ended, "_final_info": ended.copy()}
            for i in np.flatnonzero(ended):
                self.envs[i].reset()
        return self._observations(), rewards, terminated, truncated, {**self._infos(), **final}

    def _observations(self) -> np.ndarray:
        return np.stack([env.observe() for env in self.envs]).astype(self.single_observation_space.dtype)

    def _infos(self, mask: np.ndarray | None = None) -> dict[str, Any]:
        columns = {
            "level": [self._levels.index(env.level) for env in self.envs],
            "episode_number": [env.episode_number for env in self.envs],
            "episode_return": [env.episode_return for env in self.envs],
            "episode_length": [env.episode_length for env in self.envs],
            "achievements": [env.achievements for env in self.envs],
        }
        mask = np.ones(self.num_envs, np.bool_) if mask is None else mask
        infos: dict[str, Any] = {}
        for name, values in columns.items():
            rows = np.array(values)
            infos[name] = np.where(mask.reshape(-1, *[1] * (rows.ndim - 1)), rows, 0)
            infos["_" + name] = mask.copy()
        return infos

    def close_extras(self, **kwargs: Any) -> None:
        for env in self.envs:
            env.close()

    def get_state(self) -> dict[str, np.ndarray]:
        if not all(env.episode_number for env in self.envs):
            raise ResetNeeded("call reset() before get_state()")
        text = json.dumps([level.to_overrides() for level in self._levels])
        lists = [[[self._levels.index(level) for level in ls] for ls in (e.levels, e.next_levels)] for e in self.envs]
        rows = [(e.level_index, e.sample_levels, e.episode_number, e.episode_length, e.running) for e in self.envs]
        return {
            "levels": np.frombuffer(text.encode(), np.uint8).copy(),
            "env_levels": np.frombuffer(json.dumps(lists).encode(), np.uint8).copy(),
            "rngs": np.array([_rng_to_words(env.np_random) for env in self.envs], np.uint64),
            "episodes": np.array(rows, np.int64),
            "episode_returns": np.array([env.episode_return for env in self.envs]),
            "achievements": np.array([env.achievements for env in self.envs]),
            **{f"state.{name}": np.array([env.state[name] for env in self.envs]) for name in self.envs[0].state},
        }

    def get_env_state(self, env_ids: np.ndarray) -> dict[str, np.ndarray]:
        envs = [self.envs[i] for i in env_ids]
        for i, env in zip(env_ids, envs, strict=True):
            if not env.running:
                raise ValueError(f"no episode is in progress in environment {i}")
        rows = [(self._levels.index(env.level), env.episode_length) for env in envs]
        return {
            "rngs": np.array([_rng_to_words(env.np_random) for env in envs], np.uint64),
            "episodes": np.array(rows, np.int64),
            "episode_returns": np.array([env.episode_return for env in envs]),
            "achievements": np.array([env.achievements for env in envs]),
            **{f"state.{name}": np.array([env.state[name] for env in envs]) for name in self.envs[0].state},
        }

    def set_env_state(
        self, env_ids: np.ndarray, states: Mapping[str, np.ndarray], seeds: Sequence[int] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        for k, i in enumerate(env_ids):
            env = self.envs[i]
            level_id, env.episode_length = states["episodes"][k].tolist()
            env.levels, env.level_index, env.running = [self._levels[level_id]], 0, True
            env.episode_return, env.achievements = float(states["episode_returns"][k]), states["achievements"][k].copy()
            env.state = {name: states[f"state.{name}"][k].copy()[()] for name in env.state}
            env._np_random = _rng_from_words(states["rngs"][k].tolist())
            if seeds is not None:
                env._np_random, _ = seeding.np_random(seeds[k])
            env.on_restore()
        return self._observations()[env_ids], {name: values[env_ids] for name, values in self._infos().items()}

    def check_env_state(self, states: Mapping[str, np.ndarray]) -> None:
        replica = PythonVectorEnv(self.world, self._levels, len(states.get("episodes", ())) or 1, sample_levels=True)
        replica.reset(seed=0)
        try:
            replica._check_arrays(states, replica.get_env_state(np.arange(replica.num_envs)))
            if (states["episodes"] < 0).any():
                raise ValueError("a level or a length is negative")
            replica.set_env_state(np.arange(replica.num_envs), states)
            for i, env in enumerate(replica.envs):
                if env.episode_length >= env.max_episode_steps:
                    raise ValueError(f"the episode of state {i} is too long")
                if not self.single_observation_space.contains(env.observe()):
                    raise ValueError(f"the observation of state {i} is not in the observation space")
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"these states do not fit environments of {self.world.name}: {error!r}") from error

    def set_state(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        replica = PythonVectorEnv(self.world, None, self.num_envs)
        replica.reset(seed=0)
        try:
            replica._restore(state)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            message = f"this state does not fit {self.num_envs} environments of {self.world.name}: {error!r}"
            raise ValueError(message) from error
        self.envs, self._levels = replica.envs, replica._levels
        return self._observations()

    def _check_arrays(self, state: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
        if state.keys() != expected.keys():
            raise ValueError(f"expected the arrays {', '.join(expected)}, not {', '.join(state)}")
        for name, array in expected.items():
            variable = name in ("levels", "env_levels")
            if state[name].dtype != array.dtype or not (variable or state[name].shape == array.shape):
                raise ValueError(f"{name} is {state[name].dtype} {state[name].shape}, not {array.dtype} {array.shape}")

    def _restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._check_arrays(state, self.get_state())
        self._levels = [self.world.Level.parse(level) for level in json.loads(state["levels"].tobytes())]
        lists = json.loads(state["env_levels"].tobytes())
        for i, (env, (levels, next_levels)) in enumerate(zip(self.envs, lists, strict=True)):
            env.levels, env.next_levels = ([self._levels[k] for k in indices] for indices in (levels, next_levels))
            level_index, sample_levels, env.episode_number, env.episode_length, running = state["episodes"][i].tolist()
            env.level_index, env.sample_levels, env.running = level_index, bool(sample_levels), bool(running)
            if not (
                0 <= level_index < len(levels) and next_levels and 0 <= env.episode_length <= env.max_episode_steps
            ):
                raise ValueError(f"episode {i} is impossible")
            env.episode_return, env.achievements = float(state["episode_returns"][i]), state["achievements"][i].copy()
            env._np_random = _rng_from_words(state["rngs"][i].tolist())
            env.state = {name: state[f"state.{name}"][i].copy()[()] for name in env.state}
            env.on_restore()
            if not self.single_observation_space.contains(env.observe()):
                raise ValueError(f"the observation of environment {i} is not in its observation space")


def _rng_to_words(rng: np.random.Generator) -> list[int]:
    """A PCG64 generator as six 64-bit words."""
    values = rng.bit_generator.state
    words = [word for key in ("state", "inc") for word in divmod(values["state"][key], 1 << 64)]
    return [*words, values["has_uint32"], values["uinteger"]]


def _rng_from_words(words: Sequence[int]) -> np.random.Generator:
    state, inc = (words[k] << 64 | words[k + 1] & _MASK64 for k in (0, 2))
    rng = np.random.Generator(np.random.PCG64(0))
    rng.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": inc | 1},
        "has_uint32": words[4] & 1,
        "uinteger": words[5] & 0xFFFFFFFF,
    }
    return rng


class StateStats(NamedTuple):
    """The mean of each entry of the initial state."""

    means: dict[str, float]

    def as_dict(self) -> dict[str, float]:
        return self.means

    def __str__(self) -> str:
        return "\n".join(f"{name:24} {mean:8.2f}" for name, mean in self.means.items())


class PythonWorld(World):
    """A world whose environments are `PythonEnv`s. A subclass sets the attributes of `World` and `env_class`."""

    env_class: ClassVar[type[PythonEnv]]
    metadata: ClassVar[Mapping[str, Any]] = {}  # of all environments, such as a "symbol_map" or "tile_grid"

    def make(
        self,
        levels: Sequence[Any] = (),
        num_envs: int | None = None,
        seed: int | None = None,
        observation: str | None = None,
        **kwargs: Any,
    ) -> PythonVectorEnv:
        checks.check_choice("observation", observation or self.default_observation, self.observations)
        envs = PythonVectorEnv(self, list(levels) or None, num_envs or max(1, len(levels)), **kwargs)
        if seed is not None:
            for i, env in enumerate(envs.envs):
                env._np_random, env._np_random_seed = seeding.np_random(checks.check_seed(seed) + i)
        return envs

    def single(
        self, level: Any = None, seed: int | None = None, observation: str | None = None, **kwargs: Any
    ) -> PythonEnv:
        checks.check_choice("observation", observation or self.default_observation, self.observations)
        levels = checks.parse_levels(self.Level, self.name, level)
        env = self.env_class(self, levels, sample_levels=len(levels) > 1, **kwargs)
        if seed is not None:
            env._np_random, env._np_random_seed = seeding.np_random(checks.check_seed(seed))
        return env

    def level_stats(self, level: Any = None, seeds: Sequence[int] = range(16)) -> StateStats:
        env, states = self.single(level), []
        for seed in seeds:
            env.reset(seed=seed)
            states.append({f"initial {name}": float(np.mean(value)) for name, value in env.state.items()})
        return StateStats({name: float(np.mean([state[name] for state in states])) for name in states[0]})

    def render_levels(self, levels: Mapping[str, Any], columns: int = 4, seed: int = 0) -> Image.Image:
        def render_level(k: int, level: Any) -> np.ndarray:
            env = self.single(level)
            env.reset(seed=seed + k)
            return env.render_frame()

        return image_grid(levels, columns, self.single().image_size, render_level)
