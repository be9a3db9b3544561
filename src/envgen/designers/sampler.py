"""Designers that choose the level of every episode while the agent trains, instead of a few levels for each cycle.

An `EpisodeDesigner` makes a `LevelSampler`, which lives as long as the run and is saved in its checkpoints. The
training loop asks it for a level whenever an episode of an environment has ended, and tells it after each update of the
learner which episodes have ended. `LevelArchiveSampler` keeps a `LevelArchive` (buffer.py) of the levels that the agent
has played.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from envgen.settings import Fraction, Settings
from envgen.worlds.level_space import random_level, setting_values
from envgen.worlds.world import Level, Skill

from .buffer import NO_PARENT, NO_SEED, LevelArchive, LevelEpisode, LevelOrigin, parse_origin
from .designer import Brief, Cycle, Designer, Proposal

ORIGINAL_ID = -1  # the level id of episodes in the original, which no sampler chooses
MAX_REPORTED_LEVELS = 50
MAX_BUFFER_SIZE = 50_000  # levels, so that they fit into a checkpoint
MAX_MAP_SEED = 2**31


class SampledLevel(NamedTuple):
    """The level of an episode."""

    level_id: int
    """0 or higher. Results of the episode are reported under it."""
    level: Level
    """The settings of the level."""
    learns: bool = True
    """If False, the agent plays the episode, but does not learn from it."""
    seed: int = NO_SEED
    """The seed of its map."""


class LevelMeasurements(NamedTuple):
    """How often each skill succeeded in some levels."""

    succeeded: np.ndarray
    """(levels, skills): episodes in which the skill succeeded."""
    tried: np.ndarray
    """(levels, skills): episodes in which the skill was possible."""
    steps: int
    """Steps of all environments together."""


MeasureLevels = Callable[[Sequence[Level], int, int, int], LevelMeasurements]
"""`measure(levels, episodes, max_steps, seed)` plays the levels with the agent, without learning. Each level is played
for `episodes` episodes, which are cut off after `max_steps` steps."""


class LevelSampler(ABC):
    """Chooses the levels of episodes. All random numbers come from a generator whose state is part of `state`."""

    ranking_steps = 0  # environment steps taken to measure levels, which are not part of the training

    @abstractmethod
    def sample(self) -> SampledLevel:
        """The level of an environment's next episode."""

    def begin_phase(self) -> None:  # noqa: B027
        """Forget the episodes in progress: they are dropped, and new ones begin in all environments."""

    def update(self, episodes: Sequence[LevelEpisode]) -> None:  # noqa: B027
        """Receive the results of the episodes that ended in the last rollout."""

    def refresh(self, measure: MeasureLevels) -> None:  # noqa: B027
        """Select new levels when they are due, using `measure` to evaluate candidates.

        Called before the first rollout of a phase and after each `update`.
        """

    def summary(self) -> dict[str, Any]:
        """What the run directory records after each cycle, as JSON data."""
        return {}

    @abstractmethod
    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and JSON values from which `load` continues exactly."""

    @abstractmethod
    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""


class EpisodeDesigner(Designer):
    """A designer that chooses the level of every episode. Its proposals have no levels."""

    @abstractmethod
    def make_sampler(self, level_type: type[Level], skills: Sequence[Skill], seed: int) -> LevelSampler:
        """The sampler of a new run."""

    def config(self) -> dict[str, Any]:
        config = super().config()
        if not config.get("replay_maps"):
            config.pop("replay_maps", None)  # so that runs of earlier versions, which had no such setting, are resumed
        return config

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        return Proposal()


class ArchiveSettings(Settings):
    """Settings of every designer with an archive."""

    keep_prob: Fraction = 0.5
    """The probability that a setting of a random level keeps its original value."""
    buffer_size: Annotated[int, Field(ge=1, le=MAX_BUFFER_SIZE)] = 512
    """Maximum number of levels in the archive."""


class LevelArchiveSampler(LevelSampler):
    """Plays random levels, and records them in an archive."""

    def __init__(
        self,
        designer: str,
        settings: ArchiveSettings,
        buffer: LevelArchive,
        seed: int,
        learns_from_new: bool = True,
        replays_maps: bool = False,
    ):
        self.designer, self.buffer, self.learns_from_new = designer, buffer, learns_from_new
        self.replays_maps = replays_maps
        self.keep_prob = settings.keep_prob
        self.space = setting_values(buffer.level_type)
        self.rng = np.random.default_rng([seed, 3])
        self.next_id = 0
        # new levels whose first episode has not ended, with the seeds of their maps, by id
        self.pending: dict[int, tuple[Level, LevelOrigin, int]] = {}
        self.num_episodes: dict[str, int] = {}  # ended so far, by the kind of level: "replay", "random", ...
        self.num_tried = 0  # new levels in which an episode has ended, or that were measured

    def sample(self) -> SampledLevel:
        self.buffer.num_sampled += 1
        if self.sample_replay_decision():
            row = self.buffer.sample(self.rng)
            self.buffer.mark_sampled(row)
            return SampledLevel(int(self.buffer.ids[row]), self.buffer.levels[row], seed=int(self.buffer.seeds[row]))
        level, origin = self.new_level()
        seed = self._map_seed(origin) if self.replays_maps else NO_SEED
        level_id, self.next_id = self.next_id, self.next_id + 1
        self.pending[level_id] = level, origin, seed
        return SampledLevel(level_id, level, self.learns_from_new, seed)

    def _map_seed(self, origin: LevelOrigin) -> int:
        """The seed of the map of a new level: that of its parent, or a random one."""
        row = self.buffer.row_of_id(origin.parent) if origin.parent != NO_PARENT else None
        return int(self.rng.integers(MAX_MAP_SEED) if row is None else self.buffer.seeds[row])

    def sample_replay_decision(self) -> bool:
        """Whether the next episode plays a level of the archive."""
        return False

    def new_level(self) -> tuple[Level, LevelOrigin]:
        """A level for an episode that does not play a level of the archive."""
        level = random_level(self.buffer.level_type, self.space, self.keep_prob, self.rng)
        return level, LevelOrigin(self.designer, "random")

    def begin_phase(self) -> None:
        self.pending.clear()

    def update(self, episodes: Sequence[LevelEpisode]) -> None:
        for episode in episodes:
            new = self.pending.pop(episode.level_id, None)
            kind = "replay" if new is None else new[1].kind
            self.num_episodes[kind] = self.num_episodes.get(kind, 0) + 1
            if new is not None:
                self.num_tried += 1
                self.record_new(episode, *new)
            elif (row := self.buffer.row_of_id(episode.level_id)) is not None:  # else removed while it was played
                self.buffer.update(row, episode)

    def record_new(self, episode: LevelEpisode, level: Level, origin: LevelOrigin, seed: int) -> None:
        """Record the first episode in a new level."""
        self.buffer.add(episode, level, origin, seed)

    def summary(self) -> dict[str, Any]:
        return {
            "size": len(self.buffer),
            "capacity": self.buffer.capacity,
            "score": self.buffer.score,
            "levels_tried": self.num_tried,
            "episodes": dict(self.num_episodes),
            "ranking_steps": self.ranking_steps,
            "levels": self.buffer.entries(MAX_REPORTED_LEVELS),
        }

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, values = self.buffer.state()
        pending = [[k, level.to_overrides(), list(origin), seed] for k, (level, origin, seed) in self.pending.items()]
        return arrays, {
            "buffer": values,
            "pending": pending,
            "next_id": self.next_id,
            "num_tried": self.num_tried,
            "num_episodes": dict(self.num_episodes),
            "ranking_steps": self.ranking_steps,
            "rng": self.rng.bit_generator.state,
        }

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        self.buffer.load(arrays, values["buffer"])
        self.pending = {
            int(k): (self.buffer.level_type.parse(level), parse_origin(origin), int(seed))
            for k, level, origin, seed in values["pending"]
        }
        self.next_id, self.ranking_steps = int(values["next_id"]), int(values["ranking_steps"])
        self.num_tried = int(values["num_tried"])
        self.num_episodes = {str(kind): int(count) for kind, count in values["num_episodes"].items()}
        self.rng.bit_generator.state = values["rng"]
