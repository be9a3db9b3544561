"""Some environments of a `PythonWorld`, stepped in turn by one process.

A `PythonVectorEnv` has one group in its own process, or one in each of its worker processes. Actions and results are
rows of arrays, which processes share: `active` and `actions`; `obs`, `reward`, `terminated`, `truncated` and
`infos.NAME`; and for episodes that ended in the last step, `final_obs` and `final_infos.NAME`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding

if TYPE_CHECKING:
    from .python_world import PythonEnv, PythonWorld

_MASK64 = (1 << 64) - 1

Arrays = dict[str, np.ndarray]
Assignment = tuple[int, Sequence[Any], bool]  # an environment, its next levels, and whether episodes sample them


def array_layout(env: "PythonEnv") -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """The dtypes and shapes of an environment's row in each array."""
    obs, actions = _dtype_and_shape(env.observation_space), _dtype_and_shape(env.action_space)
    infos = {name: np.asarray(value) for name, value in _info_values(env).items()}
    layout = {
        "actions": actions,
        "obs": obs,
        "final_obs": obs,
    }
    layout |= {"reward": (np.dtype(np.float64), ())}
    layout |= dict.fromkeys(("active", "terminated", "truncated"), (np.dtype(np.bool_), ()))
    for prefix in ("infos.", "final_infos."):
        layout |= {prefix + name: (value.dtype, value.shape) for name, value in infos.items()}
    return layout


def _dtype_and_shape(space: spaces.Space[Any]) -> tuple[np.dtype, tuple[int, ...]]:
    if isinstance(space, spaces.Text):
        return np.dtype(f"U{space.max_length}"), ()
    if space.shape is None:
        raise TypeError(f"the observations and actions of a PythonWorld are arrays or texts, not elements of {space}")
    return np.dtype(space.dtype), space.shape


def _info_values(env: "PythonEnv") -> dict[str, Any]:
    return {
        "level": env.level_index,  # among the levels of the environment
        "episode_number": env.episode_number,
        "episode_return": env.episode_return,
        "episode_length": env.episode_length,
        "achievements": env.achievements,
        **env.extra_infos,
    }


class EnvGroup:
    """Environments of a world, which read and write the rows of `arrays`."""

    def __init__(self, world: "PythonWorld", arrays: Arrays):
        self.world, self.arrays = world, arrays
        self.envs = self._new_envs()
        self._restored: list[PythonEnv] = []

    def _new_envs(self) -> "list[PythonEnv]":
        return [self.world.env_class(self.world, [self.world.original], False) for _ in self.arrays["reward"]]

    def seed(self, seeds: Sequence[int]) -> None:
        """The next episodes are the first ones of these seeds."""
        for env, seed in zip(self.envs, seeds, strict=True):
            env._np_random, env._np_random_seed = seeding.np_random(seed)

    def set_next_levels(self, assignments: Sequence[Assignment]) -> None:
        for i, levels, sample_levels in assignments:
            self.envs[i].next_levels, self.envs[i].sample_levels = list(levels), sample_levels

    def reset(self, seeds: Sequence[int | None], mask: np.ndarray) -> None:
        """Begin episodes in the environments in `mask`."""
        for i in np.flatnonzero(mask).tolist():
            self.arrays["obs"][i], _ = self.envs[i].reset(seed=seeds[i])
            self._write_infos(i, "infos.")

    def step(self) -> None:
        """Take the steps in `actions` where `active`, and begin the next episode where one has ended."""
        arrays = self.arrays
        for name in ("reward", "terminated", "truncated"):
            arrays[name][:] = 0
        discrete = arrays["actions"].ndim == 1
        actions = arrays["actions"].tolist() if discrete else arrays["actions"].copy()
        for i in np.flatnonzero(arrays["active"]).tolist():
            env = self.envs[i]
            obs, arrays["reward"][i], terminated, truncated = env.take_step(actions[i])
            arrays["terminated"][i], arrays["truncated"][i] = terminated, truncated
            if terminated or truncated:
                arrays["final_obs"][i] = obs
                self._write_infos(i, "final_infos.")
                obs, _ = env.reset()
            arrays["obs"][i] = obs
            self._write_infos(i, "infos.")

    def prepare_next(self) -> bool:
        """Prepare the next episode of an environment. Returns whether there was anything to prepare."""
        return any(env.prepare_next() for env, active in zip(self.envs, self.arrays["active"], strict=True) if active)

    def _write_infos(self, i: int, prefix: str) -> None:
        for name, value in _info_values(self.envs[i]).items():
            array = self.arrays.get(prefix + name)
            if array is None:
                raise TypeError(
                    f"{name!r} was added to extra_infos after __init__; set all entries of extra_infos in the __init__ "
                    "of the environment, and only change their values later"
                )
            array[i] = value

    def call(self, env_ids: Sequence[int], name: str, args: Sequence[Any]) -> list[Any]:
        """The results of a method, or the values of an attribute, of some environments."""
        values = [getattr(self.envs[i], name) for i in env_ids]
        return [value(*args) if callable(value) else value for value in values]

    def close(self) -> None:
        for env in (*self.envs, *self._restored):
            env.close()

    # --- states

    def state(self) -> Arrays:
        """What determines the future of the environments, except for the levels themselves."""
        return _state_of(self.envs)

    def prepare(self, state: Arrays, levels: Sequence[tuple[list[Any], list[Any]]]) -> None:
        """Make environments in this state, which `commit` puts in place of the others; ValueError if it is damaged.

        Args:
            levels: The levels of the episode and of the next episodes of each environment.
        """
        self.discard()
        self._restored = self._new_envs()
        for env in self._restored:
            env.reset(seed=0)
        check_arrays(state, _state_of(self._restored))
        for i, (env, (env_levels, next_levels)) in enumerate(zip(self._restored, levels, strict=True)):
            level_index, sample_levels, number, length, running = state["episodes"][i].tolist()
            if not (0 <= level_index < len(env_levels) and next_levels):
                raise ValueError(f"the levels of environment {i} are impossible")
            _begin_level(env, env_levels[level_index])
            env.levels, env.next_levels, env.level_index = env_levels, next_levels, level_index
            env.sample_levels, env.running = bool(sample_levels), bool(running)
            env.episode_number, env.episode_length = number, length
            if not env.fits_length(length):
                raise ValueError(f"the episode of environment {i} cannot have {length} steps")
            env.episode_return, env.achievements = float(state["episode_returns"][i]), state["achievements"][i].copy()
            env._np_random = rng_from_words(state["rngs"][i].tolist())
            env.state = {name: state[f"state.{name}"][i].copy()[()] for name in env.state}
            env.on_restore()
            if not env.fits_space(env.observe()):
                raise ValueError(f"the observation of environment {i} does not fit its observation space")

    def commit(self) -> None:
        for env in self.envs:
            env.close()
        self.envs, self._restored = self._restored, []
        self._write_restored(range(len(self.envs)))

    def discard(self) -> None:
        for env in self._restored:
            env.close()
        self._restored = []

    def env_state(self, env_ids: Sequence[int]) -> Arrays:
        """The episodes in progress in these environments; nothing if there are none."""
        if not env_ids:
            return {}
        envs = [self.envs[i] for i in env_ids]
        state = _state_of(envs)
        state["episodes"] = np.array([(env.level_index, env.episode_length) for env in envs], np.int64)
        return state

    def set_env_state(self, env_ids: Sequence[int], levels: Sequence[Any], states: Arrays, seeds: Any) -> None:
        """Continue row k of `states`, an episode of `levels[k]`, in the environment `env_ids[k]`."""
        for k, i in enumerate(env_ids):
            env = self.envs[i]
            _begin_level(env, levels[k])
            env.episode_length = int(states["episodes"][k, 1])
            env.episode_return, env.achievements = float(states["episode_returns"][k]), states["achievements"][k].copy()
            env.state = {name: states[f"state.{name}"][k].copy()[()] for name in env.state}
            env._np_random = rng_from_words(states["rngs"][k].tolist())
            if seeds is not None:
                env._np_random, _ = seeding.np_random(seeds[k])
            env.on_restore()
        self._write_restored(env_ids)

    def _write_restored(self, env_ids: Sequence[int]) -> None:
        for i in env_ids:
            self.arrays["obs"][i] = self.envs[i].observe()
            self._write_infos(i, "infos.")


def _begin_level(env: "PythonEnv", level: Any) -> None:
    """Begin an episode of a level, so that what the environment keeps beside its state, such as
    `max_episode_steps`, is that of the level."""
    kept = env.next_levels, env.sample_levels, env.episode_number
    env.next_levels, env.sample_levels = [level], False
    env.reset(seed=0)
    env.next_levels, env.sample_levels, env.episode_number = kept


def _state_of(envs: "Sequence[PythonEnv]") -> Arrays:
    rows = [(e.level_index, e.sample_levels, e.episode_number, e.episode_length, e.running) for e in envs]
    return {
        "rngs": np.array([rng_to_words(env.np_random) for env in envs], np.uint64),
        "episodes": np.array(rows, np.int64),
        "episode_returns": np.array([env.episode_return for env in envs]),
        "achievements": np.array([env.achievements for env in envs]),
        **{f"state.{name}": np.array([env.state[name] for env in envs]) for name in envs[0].state},
    }


def check_arrays(arrays: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless the arrays have the expected names, dtypes and shapes."""
    if arrays.keys() != expected.keys():
        raise ValueError(f"expected the arrays {', '.join(expected)}, not {', '.join(arrays)}")
    for name, array in expected.items():
        if arrays[name].dtype != array.dtype or arrays[name].shape != array.shape:
            raise ValueError(f"{name} is {arrays[name].dtype} {arrays[name].shape}, not {array.dtype} {array.shape}")


def rng_to_words(rng: np.random.Generator) -> list[int]:
    """A PCG64 generator as six 64-bit words."""
    values = rng.bit_generator.state
    words = [word for key in ("state", "inc") for word in divmod(values["state"][key], 1 << 64)]
    return [*words, values["has_uint32"], values["uinteger"]]


def rng_from_words(words: Sequence[int]) -> np.random.Generator:
    state, inc = (words[k] << 64 | words[k + 1] & _MASK64 for k in (0, 2))
    rng = np.random.Generator(np.random.PCG64(0))
    rng.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": inc | 1},
        "has_uint32": words[4] & 1,
        "uinteger": words[5] & 0xFFFFFFFF,
    }
    return rng
