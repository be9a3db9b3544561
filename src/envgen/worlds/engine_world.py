"""A world whose environments are those of an engine: how they are made and seeded, whatever the world."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .single import SingleEnv
from .vector import BatchVectorEnv
from .world import World


class EngineWorld(World):
    """A world says which environments are its own."""

    Vector: ClassVar[Callable[..., BatchVectorEnv[Any]]]
    Single: ClassVar[Callable[..., SingleEnv[Any]]]

    def make(
        self,
        levels: Sequence[Any] = (),
        num_envs: int | None = None,
        seed: int | None = None,
        observation: str = "pixels",
        **kw,
    ) -> BatchVectorEnv[Any]:
        envs = self.Vector(num_envs or max(1, len(levels)), list(levels) or None, observation, **kw)
        if seed is not None:
            for i in range(envs.num_envs):
                envs.engine.seed(i, seed + i)
        return envs

    def single(self, level: Any = None, seed: int | None = None, observation: str = "pixels", **kw) -> SingleEnv[Any]:
        env = self.Single(level, observation, **kw)
        if seed is not None:
            env.engine.seed(0, seed)
        return env
