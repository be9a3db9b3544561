"""This project's environments for Stable-Baselines3.

    from envgen.sb3 import make_vec_env
    from stable_baselines3 import PPO

    envs = make_vec_env("crafter", 64, observation="symbols", levels={"trees": "common"}, seed=0)
    PPO("MlpPolicy", envs).learn(1_000_000)

The compiled worlds (Crafter, Heist, MiniGrid) step all environments together in this process; worlds with
`num_workers`, such as walker, can step them in worker processes. Stable-Baselines3 is imported only here.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

try:
    from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvStepReturn
except ImportError:
    raise ImportError("envgen.sb3 needs Stable-Baselines3: pip install stable-baselines3") from None

from envgen.worlds.registry import make_world
from envgen.worlds.world import LevelVectorEnv, World


def make_vec_env(
    world: str | World | type[World],
    n_envs: int,
    levels: Any = None,
    observation: str | None = None,
    seed: int | None = None,
    **kwargs: Any,
) -> "Sb3VecEnv":
    """Make a Stable-Baselines3 VecEnv of a world's vector environment.

    Args:
        world: A world's name ("crafter"), the id of its Gymnasium environment ("envgen/Crafter-v0"), "module:Class", a
            World class or a World.
        n_envs: The number of environments.
        levels: A level or a list of levels: environment i plays `levels[i % len(levels)]`. None is the original.
        observation: One of the world's observations; by default pixels, or the default of a world without.
            Stable-Baselines3 has no policies for "text".
        seed: Environment i is seeded with `seed + i`.
        kwargs: Further arguments of the world's vector environment.
    """
    if isinstance(world, str) and world.startswith("envgen/"):
        world = world.removeprefix("envgen/").partition("-v")[0].lower()
    levels = [] if levels is None else levels if isinstance(levels, list | tuple) else [levels]
    kwargs.setdefault("autoreset_mode", AutoresetMode.SAME_STEP)
    world = make_world(world)
    observation = observation or ("pixels" if "pixels" in world.observations else world.default_observation)
    return Sb3VecEnv(world.make(levels, n_envs, seed, observation, **kwargs))


class Sb3VecEnv(VecEnv):
    """A `LevelVectorEnv` with same-step autoreset as a Stable-Baselines3 VecEnv.

    At the end of an episode, its info has what Stable-Baselines3 expects: "terminal_observation",
    "TimeLimit.truncated" and "episode", the statistics that `Monitor` reports: return "r", length "l" and time "t". It
    also has every entry of the environment's `final_info`, such as "achievements" and "level". The infos of other
    steps are empty, which keeps many environments fast.
    """

    def __init__(self, envs: LevelVectorEnv):
        mode = envs.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise ValueError(
                f"Stable-Baselines3 needs same-step autoreset, not {mode}; "
                "make the environments with autoreset_mode=AutoresetMode.SAME_STEP"
            )
        self.envs = envs
        self.render_mode = envs.render_mode
        self._actions: np.ndarray | None = None
        self._seed: int | None = None
        self._start = time.monotonic()
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        self.metadata = envs.metadata  # VecVideoRecorder reads its render_fps

    def reset(self) -> Any:
        if any(self._options):
            raise NotImplementedError(
                "options of single environments are not supported; to change the levels, call "
                'env_method("set_levels", levels)'
            )
        obs, _ = self.envs.reset(seed=self._seed)
        self._seed = None  # as in Stable-Baselines3: a seed is used once
        self.reset_infos = [{} for _ in range(self.num_envs)]
        self._reset_seeds()
        return obs

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed environment i with `seed + i` at the next reset()."""
        if seed is None:
            return [None] * self.num_envs
        self._seed = seed
        return [seed + i for i in range(self.num_envs)]

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        obs, rewards, terminated, truncated, infos = self.envs.step(self._actions)
        dones = terminated | truncated
        env_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if dones.any():
            final_info = infos["final_info"]
            keys = [key for key in final_info if not key.startswith("_")]
            for i in np.flatnonzero(dones):
                env_infos[i] = {key: final_info[key][i] for key in keys} | {
                    "terminal_observation": infos["final_obs"][i],
                    "TimeLimit.truncated": bool(truncated[i] and not terminated[i]),
                    "episode": {
                        "r": float(final_info["episode_return"][i]),
                        "l": int(final_info["episode_length"][i]),
                        "t": round(time.monotonic() - self._start, 6),
                    },
                }
        return obs, rewards.astype(np.float32), dones, env_infos

    def close(self) -> None:
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        value = getattr(self.envs, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the vector environment, which all environments share."""
        if len(list(self._get_indices(indices))) != self.num_envs:
            raise NotImplementedError("all environments share their attributes; set them without indices")
        setattr(self.envs, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Call a method of the vector environment once, for example `env_method("set_levels", levels)`."""
        if len(list(self._get_indices(indices))) != self.num_envs:
            raise NotImplementedError("methods apply to all environments; call them without indices")
        return [getattr(self.envs, method_name)(*args, **kwargs)] * self.num_envs

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        from stable_baselines3.common.monitor import Monitor

        # The infos have the statistics of episodes, so a Monitor would only repeat them.
        return [wrapper_class is Monitor for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[np.ndarray | None]:
        images: Any = self.envs.render() if self.render_mode == "rgb_array" else None
        return images if images is not None else [None] * self.num_envs
