"""The contracts of this package: `Level`, `Skill`, the environments that play levels, and `World`, which makes them.

A world of your own subclasses `World` and `Level`. `envgen.check_world` checks that it follows these
contracts; docs/worlds.md shows a complete example.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Required, Self, TypedDict, runtime_checkable

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from PIL import Image
from pydantic import ValidationError

from envgen.errors import EnvgenError
from envgen.settings import Settings, format_validation_error


class LevelError(EnvgenError, ValueError):
    """A level that is not valid in its world. The message names the wrong value and what is valid instead."""


class Skill(NamedTuple):
    """Something an agent can succeed at, and the skills that it requires."""

    name: str
    """Its name in tables, results and `info`."""
    prerequisites: tuple[str, ...] = ()
    """Names of the skills that it requires."""


class SymbolMap(NamedTuple):
    """Where a symbol vector holds a map: its first `planes` x `rows` x `columns` entries, plane by plane.

    Vector environments whose symbols contain a map provide this as `metadata["symbol_map"]`, so that encoders can use
    the spatial structure.
    """

    planes: int
    """Kinds of symbols per cell."""
    rows: int
    """Rows of cells."""
    columns: int
    """Columns of cells."""
    center: int
    """The agent's cell, counted row by row."""
    facing_index: int | None = None
    """Index of the symbol that is 1 + the direction the agent faces, 0 for none."""
    direction_offsets: tuple[tuple[int, int], ...] = ()
    """(columns right, rows down) of a step in each direction."""
    near_radius: int = 1
    """Encoders read cells within this Chebyshev distance of the agent one by one."""

    def facing_cells(self) -> np.ndarray:
        """The cell that the agent faces, for each value of the symbol at `facing_index`."""
        offsets = [0, *(columns + rows * self.columns for columns, rows in self.direction_offsets)]
        return self.center + np.array(offsets)

    def num_symbols(self, max_values: np.ndarray) -> np.ndarray:
        """The number of nonzero symbols of each plane, (planes,), given the highest value of each observation entry."""
        size = self.planes * self.rows * self.columns
        return max_values[:size].reshape(self.planes, -1).max(1).astype(np.int64)


class TileGrid(NamedTuple):
    """Where an image consists of tiles of one size: `rows` x `columns` of them, side by side.

    Environments whose pixels are such a grid provide this as `metadata["tile_grid"]`, so that encoders can read the
    image tile by tile. Pixels outside the grid carry no information.
    """

    height: int
    """Height of a tile in pixels."""
    width: int
    """Width of a tile in pixels."""
    top: int
    """Pixels above the first row."""
    left: int
    """Pixels left of the first column."""
    rows: int
    """Rows of tiles."""
    columns: int
    """Columns of tiles."""
    agent: int | None = None
    """The tile that shows the agent, counted row by row; None if that varies."""


Layout = SymbolMap | TileGrid | None  # of observations, as the metadata of environments says


class Level(Settings):
    """The settings of an environment of a world, frozen. `Level()` is the original; every setting changes it."""

    @classmethod
    def parse(cls, data: "Level | Mapping[str, Any] | str | None") -> Self:
        """Validate a level, a mapping, JSON text or None (the original); raise LevelError if it is not valid.

        Call this once, where data enters the program, and pass the `Level` on.
        """
        try:
            if data is None:
                return cls()
            if isinstance(data, str):
                return cls.model_validate_json(data)
            if isinstance(data, Level) and not isinstance(data, cls):
                raise LevelError(f"a {type(data).__name__} is not a {cls.__name__}")
            return cls.model_validate(data)
        except ValidationError as error:
            raise LevelError(format_validation_error(error)) from None

    @classmethod
    def parse_sampled(cls, settings: Mapping[str, Any]) -> Self:
        """A level from values that were sampled independently for each setting, as random designers do.

        A world whose settings can contradict each other overrides it, so that every such sample is a valid level.
        """
        return cls.parse(settings)

    @property
    def done_skills(self) -> tuple[str, ...]:
        """The skills that count as achieved from the start of an episode, and therefore give no reward."""
        return ()

    @property
    def granted_skills(self) -> tuple[str, ...]:
        """The skills whose result the level grants at the start. A chain of levels withdraws these grants."""
        return self.done_skills

    def to_overrides(self) -> dict[str, Any]:
        """The settings that differ from the original, as JSON data. `{}` is the original."""
        return self.model_dump(mode="json", exclude_defaults=True)


AnyLevel = Level  # for annotations in classes with an attribute of that name


def sample_actions(space: spaces.Space[Any], shape: int | tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Uniformly random actions of an action space of single environments, in an array with these leading axes."""
    if isinstance(space, spaces.Discrete):
        return space.start + rng.integers(int(space.n), size=shape)
    if isinstance(space, spaces.Box) and space.is_bounded():
        size = (*((shape,) if isinstance(shape, int) else shape), *space.shape)
        return rng.uniform(space.low, space.high, size).astype(space.dtype)
    raise ValueError(f"actions must be Discrete or a bounded Box, not {space}")


class EpisodeInfo(TypedDict, total=False):
    """What `infos` and `infos["final_info"]` of a `LevelVectorEnv` hold: arrays with one row per environment.

    As in Gymnasium, each key comes with a boolean mask `"_" + key` of the environments that it holds for. A world may
    add keys of its own.
    """

    level: Required[np.ndarray]
    """(num_envs,) int: the level being played, as an index into LevelVectorEnv.levels."""
    episode_number: Required[np.ndarray]
    """(num_envs,) int: 1 for the first episode after a seed, then 2, ..."""
    episode_return: Required[np.ndarray]
    """(num_envs,) float: sum of the episode's rewards so far."""
    episode_length: Required[np.ndarray]
    """(num_envs,) int: steps of the episode so far."""
    achievements: Required[np.ndarray]
    """(num_envs, skills) int: how often each skill succeeded so far."""
    seed: np.ndarray
    """(num_envs,) int: the seed of this episode's map."""
    possible: np.ndarray
    """(num_envs, skills) bool: whether this episode allows the skill; if missing, all are possible."""
    final_obs: np.ndarray
    """(num_envs,) object: the last observations of episodes that ended in this step, else None."""
    final_info: "EpisodeInfo"
    """The same keys for these episodes."""


class LevelEnv(gymnasium.Env[Any, Any]):
    """A single environment that plays levels.

    `reset(options={"level": level})` plays `level` from this episode on.
    """

    @property
    def level(self) -> Level:
        """The level of the current episode."""
        raise NotImplementedError

    def set_level(self, level: Any) -> None:
        """Play this level from the next episode on; of a list, each episode plays a random one."""
        raise NotImplementedError


class LevelVectorEnv(VectorEnv[Any, Any, Any]):
    """A Gymnasium vector environment in which each sub-environment plays a level, and whose state can be saved.

    `reset(seed=s)` seeds environment i with `s + i`; the same seed and actions give the same episodes. With the option
    `reset_mask`, a boolean array, only these environments are reset and seeded, and the others play on; `seed` may be a
    list with a seed or None for each environment.
    `metadata["autoreset_mode"]` names one of Gymnasium's three autoreset modes. `reset` and `step` return an
    `EpisodeInfo`. With same-step autoreset, `final_obs` and `final_info` hold the last observations and infos of the
    episodes that ended in this step. In the other modes, the step that ends an episode returns them itself.
    """

    @property
    def levels(self) -> Sequence[Level]:
        """The levels that are set or played. `infos["level"]` is an index into this list.

        A level keeps its index as long as it is set or an episode plays it. After that, a new level may take over the
        index.
        """
        raise NotImplementedError

    def set_levels(self, levels: Any, sample_levels: bool = False) -> None:
        """Set the levels of all episodes that begin from now on.

        Args:
            levels: A level or a list of levels. Environment i plays `levels[i % len(levels)]`.
            sample_levels: Each episode plays a random level of the list, determined by its environment's seed.
        """
        raise NotImplementedError

    def get_state(self) -> dict[str, np.ndarray]:
        """Everything that determines the future of the environments, as numeric arrays."""
        raise NotImplementedError

    def set_state(self, state: Mapping[str, np.ndarray]) -> Any:
        """Restore a state from `get_state` of an environment made with the same arguments; return the observations.

        Raises ValueError, and changes nothing, if `state` is damaged or does not fit.
        """
        raise NotImplementedError


class SkillCheck(NamedTuple):
    """Whether each environment can succeed at a skill in the next step."""

    conditions: np.ndarray
    """(num_envs, conditions) bool: which of the skill's `World.conditions` hold."""
    attempted: np.ndarray
    """(num_envs,) bool: whether the next action attempts the skill."""


class EpisodeEnd(NamedTuple):
    """Why an episode ended, and in what circumstances. A world names the same circumstances at every end."""

    cause: str
    """Such as "zombie" or "time limit"."""
    circumstances: Mapping[str, str] = {}
    """Such as {"time of day": "night"}."""


class Probe(Protocol):
    """Inspects environments during play, for `envgen diagnose`. It changes nothing in them.

    Between `before_step` and `episode_ends` the environments take exactly one step.
    """

    def before_step(self, actions: np.ndarray) -> Mapping[str, SkillCheck]:
        """For each skill in `World.conditions`, which conditions hold now, and whether `actions` attempt it.

        A skill succeeds in a step only if all its conditions hold and the action attempts it. Unless the skill depends
        on chance, it then always succeeds.
        """
        ...

    def episode_ends(self, env_ids: np.ndarray) -> Sequence[EpisodeEnd]:
        """Why the episodes of these environments ended in the step just taken."""
        ...


@runtime_checkable
class SupportsEnvState(Protocol):
    """An optional part of a `LevelVectorEnv`: save individual environments and continue them in others.

    States are arrays with one row per environment. The last axis of an array may be longer in later states than in
    earlier ones; padded with zeros, the earlier ones stay valid. A state refers to levels by their indices in `levels`,
    so it is valid until `set_levels` is called.
    """

    def get_env_state(self, env_ids: np.ndarray) -> dict[str, np.ndarray]:
        """The episodes in progress in these environments; ValueError if there is none."""
        ...

    def set_env_state(
        self, env_ids: np.ndarray, states: Mapping[str, np.ndarray], seeds: Sequence[int] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Continue row k of `states` in the environment `env_ids[k]`, in place of its episode in progress.

        The episode number of the environment does not change, nor do its later episodes, unless they continue the
        random stream of this one. Nothing is checked: call `check_env_state` first for states from a file.

        Args:
            seeds: Seeds of new random streams, one for each environment, from 0 to 2**32 - 1. Without them, the
                episodes continue exactly as those that the states were taken from. (In worlds made by `from_gymnasium`,
                only later episodes use them.)

        Returns:
            Observations and infos as from `reset`, with one row for each of these environments.
        """
        ...

    def check_env_state(self, states: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError unless episodes in these environments can reach these states."""
        ...


@runtime_checkable
class SupportsEnvLevels(Protocol):
    """An optional part of a `LevelVectorEnv`: set the levels of a few environments, faster than `set_levels`."""

    def set_env_levels(self, env_ids: Sequence[int], levels: Sequence[Any]) -> None:
        """Environment `env_ids[k]` plays `levels[k]` in all episodes that begin from now on. The other environments
        keep what they play; where they played random levels, they now play one of them."""
        ...


@runtime_checkable
class SupportsActive(Protocol):
    """An optional part of a `LevelVectorEnv`: leave out environments whose results nobody needs."""

    def set_active(self, mask: np.ndarray) -> None:
        """Until the next `reset` or `set_state`, `step` only steps the environments in `mask` (num_envs,). The others
        stay as they are, with reward 0."""
        ...


@runtime_checkable
class SupportsReference(Protocol):
    """An optional part of a `World`: the environments of the package that it reimplements, to compare results with."""

    def reference_envs(self, num_envs: int, seed: int, observation: str = "symbols", episodes: int = 1) -> VectorEnv:
        """Environments of the package that play at least `episodes` episodes in all."""
        ...


class LevelStats(Protocol):
    """Statistics of the maps that a level generates. `str()` formats them as a table."""

    def as_dict(self) -> dict[str, float]:
        """The statistics by name. All levels of a world have the same ones, except those that are undefined in a level,
        such as the distance to something that does not exist there.
        """
        ...


class World(ABC):
    """A family of environments that share rules."""

    name: ClassVar[str]
    """The name of the world in run directories, tables and figures."""
    Level: ClassVar[type[AnyLevel]]
    """The class of its levels, a subclass of `Level`."""
    skills: ClassVar[tuple[Skill, ...]]
    """What agents are measured by. Vector environments count successes in this order."""
    actions: ClassVar[tuple[str, ...]]
    """Names of discrete actions; empty if actions are continuous."""
    observations: ClassVar[tuple[str, ...]]
    """The kinds of observations that its environments offer, such as `"pixels"` and `"symbols"`."""
    rules: ClassVar[str]
    """The rules in prose, for designers and agents that are language models."""
    reward_rule: ClassVar[str] = ""
    """What is rewarded, in prose, for designers that are language models."""
    action_descriptions: ClassVar[Mapping[str, str]] = {}
    """Action: what it does, for agents that are language models."""
    skill_levels: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Skill: a level in which to learn it next."""
    conditions: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Skill: what must hold for it to succeed in a step; see `Probe`."""
    key_bindings: ClassVar[Mapping[str, str]] = {}
    """Key: action, for manual play."""
    manual_actions: ClassVar[Mapping[str, Mapping[int, float]]] = {}
    """For manual play with continuous actions, the actions of `key_bindings`: the components that each of them sets.

    The other components keep their values from key to key; they start at 0.
    """
    steps_per_key: ClassVar[int] = 1
    """Environment steps for each key in manual play."""
    gauges: ClassVar[Mapping[str, int]] = {}
    """Amounts of `status` to show as bars, such as health, and their maxima."""
    ppo_defaults: ClassVar[Mapping[str, Any]] = {}
    """PpoSettings that suit this world better than the defaults."""
    plan_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Preset: TrainingPlan fields that differ from it."""
    published_skill: ClassVar[str | None] = None
    """The skill whose success rate papers report; None for the score."""
    random_baseline: ClassVar[str] = ""
    """What uniformly random actions achieve; printed by `envgen evaluate`."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}>"

    @property
    def original(self) -> AnyLevel:
        """The level that changes nothing."""
        return self.Level()

    @property
    def default_observation(self) -> str:
        """What agents observe unless something else is chosen: symbols, if the world has them."""
        return "symbols" if "symbols" in self.observations else self.observations[0]

    @abstractmethod
    def make(
        self,
        levels: Any = (),
        num_envs: int | None = None,
        seed: int | None = None,
        observation: str = "pixels",
        **kwargs: Any,
    ) -> LevelVectorEnv:
        """Make a vector environment.

        Args:
            levels: Environment i plays `levels[i % len(levels)]`. A single level is played by all; without levels, all
                play the original.
            num_envs: By default one environment per level.
            seed: Environment i is seeded with `seed + i`; the first `reset()` begins its first episode.
            observation: One of `observations`.
            kwargs: Further arguments of the world's environments, such as `autoreset_mode` or `render_mode`.
        """

    @abstractmethod
    def single(
        self, level: Any = None, seed: int | None = None, observation: str = "pixels", **kwargs: Any
    ) -> LevelEnv:
        """Make a single environment of one level.

        Args:
            level: A level, its settings, or None for the original.
            seed: The seed of the first `reset()`.
            observation: One of `observations`.
            kwargs: Further arguments of the world's environments, such as `render_mode`.
        """

    def single_rendered(
        self, level: Any = None, seed: int | None = None, observation: str | None = None, size: int = 512
    ) -> LevelEnv:
        """Make a single environment whose `render()` returns an image.

        Args:
            level: A level, its settings, or None for the original.
            seed: The seed of the first `reset()`.
            observation: One of `observations`. Default: the first of them.
            size: Width and height of the image in pixels, where the world can draw images of any size.
        """
        return self.single(level, seed, observation or self.observations[0], render_mode="rgb_array")

    def status(self, info: Mapping[str, Any]) -> Mapping[str, int]:
        """Amounts to show beside an episode, such as health and an inventory, from an info of a single environment."""
        return {}

    @abstractmethod
    def level_stats(self, level: Any = None, seeds: Sequence[int] = range(16)) -> LevelStats:
        """Generate maps of a level and return statistics over them.

        Args:
            level: A level, its settings, or None for the original.
            seeds: The seed of each map.
        """

    @abstractmethod
    def render_levels(self, levels: Mapping[str, Any], columns: int = 4, seed: int = 0) -> Image.Image:
        """Draw one map of each level, each under its title.

        Args:
            levels: Title: level.
            columns: Maps in a row.
            seed: The seed of the first map; the others have the following ones.
        """

    def reachable_skills(self, level: Any, stats: Any) -> set[str]:
        """The skills that are possible in a level, given its `level_stats`."""
        return {skill.name for skill in self.skills}

    def expert_actions(self, envs: Any) -> np.ndarray | None:
        """The actions of the world's scripted expert in environments made by `make`; None if there is no expert."""
        return None

    def make_probe(self, envs: Any) -> Probe | None:
        """A probe of environments made by `make`, for `envgen diagnose`; None if the world has none."""
        return None

    def describe_result(self, action: str, before: str, after: str) -> str:
        """What an action did, in words, from the `text` observations before and after it.

        It adds nothing that these do not show.
        """
        return "no visible effect" if before == after else "what you observe has changed"

    def ascii_map(self, symbols: np.ndarray) -> str:
        """A `symbols` observation as a map of characters, for playing in a terminal.

        Worlds that do not implement this are played by their `text` observation.
        """
        raise NotImplementedError
