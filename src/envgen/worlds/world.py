"""The contract of a world: what a designer may set (`Level`), what an agent can learn (`Skill`), and `World` itself."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import gymnasium
import numpy as np
from PIL import Image
from pydantic import ValidationError

from envgen.settings import Settings, explain


class LevelError(ValueError):
    """A level that is not in its world's family; the message names the wrong value and the nearest right one."""


class Skill(NamedTuple):
    """Something an agent can succeed at, and the skills it takes to get there."""

    name: str
    prerequisites: tuple[str, ...] = ()


class SymbolMap(NamedTuple):
    """Where a vector of symbols holds a map: its first `planes` x `rows` x `columns` entries, plane by plane.

    Environments whose symbols hold one have it in their metadata as "symbol_map".
    """

    planes: int
    rows: int
    columns: int
    center: int  # the cell from which the agent looks, counted row by row
    facing_index: int | None = None  # the index of the symbol that is 1 + the number of the direction faced, 0 for none
    direction_offsets: tuple[tuple[int, int], ...] = ()  # each direction's step, (columns right, rows down)
    near_radius: int = 1  # cells this near, diagonals counting one, matter each for itself


class Level(Settings):
    """Which environment of a family. The default is the original world, exactly; every setting changes it."""

    @classmethod
    def parse(cls, data: "Level | Mapping[str, Any] | str | None") -> Self:
        """A level from a level, a mapping, JSON text or None (the original), or a LevelError about it."""
        try:
            if data is None:
                return cls()
            if isinstance(data, str):
                return cls.model_validate_json(data)
            if isinstance(data, Level) and not isinstance(data, cls):
                raise LevelError(f"a {type(data).__name__} is not a {cls.__name__}")
            return cls.model_validate(data)
        except ValidationError as error:
            raise LevelError(explain(error)) from None

    def to_overrides(self) -> dict[str, Any]:
        """The settings that differ from the original, as JSON data. `{}` is the original."""
        return self.model_dump(mode="json", exclude_defaults=True)


_Level = Level  # World has an attribute of that name


class LevelStats(Protocol):
    """What worlds of a level really hold; as text, a table for people."""

    def as_dict(self) -> dict[str, float]:
        """By what is counted. Counting the same in another level gives the same names."""
        ...


class World(ABC):
    """A family of environments that share rules."""

    name: ClassVar[str]
    Level: ClassVar[type[_Level]]
    skills: ClassVar[tuple[Skill, ...]]
    actions: ClassVar[tuple[str, ...]]
    observations: ClassVar[tuple[str, ...]]
    rules: ClassVar[str]  # the world explained in prose, for a designer
    skill_levels: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # skill: settings that grant what it needs
    key_bindings: ClassVar[Mapping[str, str]] = {}  # key: action, for people who play
    ppo_defaults: ClassVar[Mapping[str, Any]] = {}  # PpoSettings that suit this world better than the general defaults
    plan_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # preset: the TrainingPlan fields that differ from it
    random_baseline: ClassVar[str] = ""  # what players that act at random reach, said beside every result

    @property
    def original(self) -> _Level:
        return self.Level()

    @abstractmethod
    def make(
        self,
        levels: Sequence[Any] = (),
        num_envs: int | None = None,
        seed: int | None = None,
        observation: str = "pixels",
        **kw,
    ) -> gymnasium.vector.VectorEnv:
        """Many environments at once; environment i plays levels[i % len(levels)]. No levels: the original.

        One environment per level unless `num_envs` says otherwise. The first `reset()` is the first episode of `seed`.
        """

    @abstractmethod
    def single(self, level: Any = None, seed: int | None = None, observation: str = "pixels", **kw) -> gymnasium.Env:
        """One environment of one level."""

    @abstractmethod
    def level_stats(self, level: Any = None, seeds: Sequence[int] = range(16)) -> LevelStats:
        """What worlds of a level really hold."""

    @abstractmethod
    def render_levels(self, levels: Mapping[str, Any], columns: int = 4, seed: int = 0) -> Image.Image:
        """Worlds of several levels from above, each under its title, with seeds `seed`, `seed + 1`, ..."""

    def reachable_skills(self, level: Any, census: Any) -> set[str]:
        """The skills that this level can lead to, its worlds being as counted. The others it makes impossible."""
        return {skill.name for skill in self.skills}

    def expert_actions(self, envs: Any) -> np.ndarray | None:
        """What the world's scripted player does in each of the environments that `make` made; None if it has none."""
        return None

    def ascii_map(self, symbols: np.ndarray) -> str:
        """A `symbols` observation as a map of characters, for playing in a terminal.

        Worlds without one are played by their `text` observation.
        """
        raise NotImplementedError
