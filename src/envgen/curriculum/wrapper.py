"""What the wrappers of vector environments in this package share."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv


class VectorEnvWrapper(VectorEnv[Any, Any, Any]):
    """The environments `envs`, with their spaces and metadata. A subclass implements `reset` and `step`."""

    def __init__(self, envs: VectorEnv):
        self.envs, self.num_envs = envs, envs.num_envs
        self.metadata, self.render_mode = envs.metadata, envs.render_mode
        self.single_observation_space, self.observation_space = envs.single_observation_space, envs.observation_space
        self.single_action_space, self.action_space = envs.single_action_space, envs.action_space

    def close_extras(self, **kwargs: Any) -> None:
        self.envs.close(**kwargs)


def add_final_infos(obs: Any, infos: dict[str, Any], ended: np.ndarray) -> None:
    """Add the environments whose episodes a wrapper ends to `final_obs` and `final_info`."""
    mask = ended | infos.get("_final_obs", np.zeros(len(ended), np.bool_))
    final_obs = infos.setdefault("final_obs", np.full(len(ended), None, dtype=object))
    for i in np.flatnonzero(ended):
        final_obs[i] = obs[i].copy()
    final_info = infos.setdefault("final_info", {})
    for name in [name for name in infos if not name.startswith(("_", "final_"))]:
        values = infos[name]
        if name not in final_info:
            final_info[name] = np.zeros_like(values)
        final_info[name][ended] = values[ended]
        final_info[f"_{name}"] = mask
    infos["_final_obs"], infos["_final_info"] = mask, mask.copy()


def restart(
    envs: VectorEnv, mask: np.ndarray, obs: Any, infos: dict[str, Any], seeds: Any = None,
    translate: Callable[[dict[str, Any]], Mapping[str, Any]] = dict,
) -> None:  # fmt: skip
    """Begin episodes in the environments in `mask`, and put their observations and infos among those of a step.

    Args:
        seeds: The seeds of their first episodes; by default, they continue their random streams.
        translate: Applied to the infos of the reset.
    """
    new_obs, new_infos = envs.reset(seed=seeds, options={"reset_mask": mask})
    obs[mask] = new_obs[mask]
    for name, values in translate(new_infos).items():
        if not name.startswith("_"):
            infos[name][mask] = values[mask]
