"""Unsupervised environment design: `dr`, `plr`, `accel` and `sfl` choose a level for every episode.

They are the standard baselines for designers that know what to teach: all of them draw levels at random; they differ
in which levels the agent plays again, and accel also mutates levels of its archive. docs/designers.md describes how
levels are scored in worlds with many skills.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from envgen.settings import Fraction, PositiveInt
from envgen.worlds.level_space import level_values, random_level, sampled_level
from envgen.worlds.world import Level, Skill

from .buffer import LevelArchive, LevelEpisode, LevelOrigin, learnability
from .sampler import (
    MAX_BUFFER_SIZE,
    ArchiveSettings,
    EpisodeDesigner,
    LevelArchiveSampler,
    LevelSampler,
    MeasureLevels,
)

MAX_MUTATIONS = 8  # attempts to find a mutation that differs from its parent


class DrSettings(ArchiveSettings):
    """Settings of `dr`."""


class DrDesigner(EpisodeDesigner):
    """Domain randomization: a new random level for every episode (Tobin et al. 2017)."""

    name = "dr"
    settings_type = DrSettings
    settings: DrSettings

    def make_sampler(self, level_type: type[Level], skills: Sequence[Skill], seed: int) -> LevelSampler:
        buffer = LevelArchive(level_type, skills, self.settings.buffer_size)
        return LevelArchiveSampler(self.name, self.settings, buffer, seed)


# --- prioritized level replay


class PlrSettings(ArchiveSettings):
    """Settings of `plr`."""

    replay_prob: Fraction = 0.5
    """The probability that an episode plays a level of the archive."""
    min_levels: PositiveInt = 64
    """Levels in the archive before the first one is replayed. Replay begins earlier if the world has fewer levels."""
    score: Literal["positive_value_loss", "max_mc"] = "positive_value_loss"
    """The estimate of regret that ranks the levels: positive value loss, or the highest return so far minus the value
    estimates (MaxMC)."""
    temperature: Annotated[float, Field(gt=0)] = 0.3
    """Temperature of the ranks. Lower values concentrate on the levels with the highest scores."""
    staleness_coef: Fraction = 0.3
    """Share of the priority that goes to levels that have not been sampled in a long time."""
    score_alpha: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Weight of the latest episode in a level's score. 1 uses the latest episode alone, as published."""
    learn_from_new: bool = False
    """Learn from the first episode in a level as well, as in the first version of PLR. Robust PLR does not."""
    replay_maps: bool = False
    """Replay each level with the seed of its first episode, and so with its map, as published. Otherwise every episode
    has a new map."""


class PlrSampler(LevelArchiveSampler):
    """Robust PLR (Jiang et al. 2021b), with one decision for each episode."""

    def __init__(
        self, designer: str, settings: PlrSettings, level_type: type[Level], skills: Sequence[Skill], seed: int
    ):
        s = settings
        buffer = LevelArchive(
            level_type, skills, s.buffer_size, s.score, "rank", s.temperature, s.staleness_coef, s.score_alpha
        )
        super().__init__(designer, s, buffer, seed, s.learn_from_new, s.replay_maps)
        self.replay_prob, self.min_levels = s.replay_prob, min(s.min_levels, s.buffer_size)
        self.num_repeats = 0  # new levels in a row that were in the archive already

    @property
    def is_filled(self) -> bool:
        """Whether the archive has enough levels, or all that the world has."""
        return len(self.buffer) >= self.min_levels or self.num_repeats >= self.min_levels

    def sample_replay_decision(self) -> bool:
        return self.rng.random() < self.replay_prob and self.is_filled

    def record_new(self, episode: LevelEpisode, level: Level, origin: LevelOrigin, seed: int) -> None:
        size = len(self.buffer)
        super().record_new(episode, level, origin, seed)
        if not self.is_filled:
            self.num_repeats = self.num_repeats + 1 if len(self.buffer) == size else 0

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, values = super().state()
        return arrays, {**values, "num_repeats": self.num_repeats}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        super().load(arrays, values)
        self.num_repeats = int(values["num_repeats"])


class PlrDesigner(EpisodeDesigner):
    """Robust prioritized level replay: learn only from levels replayed for their regret (Jiang et al. 2021)."""

    name = "plr"
    settings_type = PlrSettings
    settings: PlrSettings

    def make_sampler(self, level_type: type[Level], skills: Sequence[Skill], seed: int) -> LevelSampler:
        return PlrSampler(self.name, self.settings, level_type, skills, seed)


# --- ACCEL


class AccelSettings(PlrSettings):
    """Settings of `accel`."""

    mutation_prob: Fraction = 0.8
    """The probability that a new level is a mutation of a level of the archive. Others are random."""
    num_edits: PositiveInt = 3
    """Number of settings that a mutation changes; fewer where too few have an effect."""


class AccelSampler(PlrSampler):
    """ACCEL (Parker-Holder et al. 2022): new levels are edits of levels with a high priority.

    The published algorithm edits the levels that were just replayed. Here, each episode has a level of its own, and the
    parent of a mutation is sampled as a level to replay would be.
    """

    def __init__(
        self, designer: str, settings: AccelSettings, level_type: type[Level], skills: Sequence[Skill], seed: int
    ):
        super().__init__(designer, settings, level_type, skills, seed)
        self.mutation_prob, self.num_edits = settings.mutation_prob, settings.num_edits

    def new_level(self) -> tuple[Level, LevelOrigin]:
        mutates = self.rng.random() < self.mutation_prob
        if not mutates or not self.is_filled:
            return super().new_level()
        row = self.buffer.sample(self.rng)
        level = mutate(self.buffer.levels[row], self.space, self.num_edits, self.rng)
        return level, LevelOrigin(self.designer, "mutation", int(self.buffer.ids[row]))


class AccelDesigner(EpisodeDesigner):
    """ACCEL: robust PLR with mutations of levels of the archive (Parker-Holder et al. 2022)."""

    name = "accel"
    settings_type = AccelSettings
    settings: AccelSettings

    def make_sampler(self, level_type: type[Level], skills: Sequence[Skill], seed: int) -> LevelSampler:
        return AccelSampler(self.name, self.settings, level_type, skills, seed)


def mutate(level: Level, space: Mapping[str, tuple[Any, ...]], num_edits: int, rng: np.random.Generator) -> Level:
    """The level with `num_edits` of its settings changed to other values, in a random order.

    Settings that the level ignores are passed over. Where settings can contradict each other, `Level.parse_sampled` may
    change further ones. The result differs from the level unless MAX_MUTATIONS attempts return to it.

    Args:
        space: The values of each setting, from `setting_values`.
    """
    mutant = level
    for _ in range(MAX_MUTATIONS):
        mutant = _mutate_once(level, space, num_edits, rng)
        if mutant != level:
            break
    return mutant


def _mutate_once(level: Level, space: Mapping[str, tuple[Any, ...]], num_edits: int, rng: np.random.Generator) -> Level:
    names = [name for name, values in space.items() if len(values) > 1]
    for _ in range(num_edits):
        for name in rng.permutation(names).tolist():  # the first one that has an effect
            changes = level_values(level)
            current = changes.get(name, space[name][0])
            others = [value for value in space[name] if value != current]
            mutant = sampled_level(type(level), changes | {name: others[rng.integers(len(others))]})
            if mutant != level:
                level = mutant
                names.remove(name)
                break
    return level


# --- sampling for learnability


class SflSettings(ArchiveSettings):
    """Settings of `sfl`."""

    buffer_size: Annotated[int, Field(ge=1, le=MAX_BUFFER_SIZE)] = 16
    """Number of candidates that are kept: those with the highest learnability."""
    replay_prob: Fraction = 0.5
    """The probability that an episode plays one of these levels. The others play new random levels."""
    interval: PositiveInt = 50
    """Updates of the agent between two selections."""
    num_candidates: PositiveInt = 64
    """Random levels that the agent plays in each selection, without learning."""
    candidate_episodes: PositiveInt = 4
    """Episodes in each of these levels."""
    candidate_steps: PositiveInt = 500
    """Steps after which these episodes are cut off."""


class SflSampler(LevelArchiveSampler):
    """Sampling for learnability (Rutherford et al. 2024): the levels of the archive are selected anew every `interval`
    updates and sampled uniformly."""

    settings: SflSettings

    def __init__(self, designer: str, settings: SflSettings, buffer: LevelArchive, seed: int):
        super().__init__(designer, settings, buffer, seed)
        self.settings = settings
        self.num_updates = self.next_selection = 0

    def sample_replay_decision(self) -> bool:
        return self.rng.random() < self.settings.replay_prob and len(self.buffer) > 0

    def record_new(self, episode: LevelEpisode, level: Level, origin: LevelOrigin, seed: int) -> None:
        """Record nothing: only `refresh` selects the levels of the archive."""

    def update(self, episodes: Sequence[LevelEpisode]) -> None:
        super().update(episodes)
        self.num_updates += 1

    def refresh(self, measure: MeasureLevels) -> None:
        if self.num_updates < self.next_selection:
            return
        s, level_type = self.settings, self.buffer.level_type
        self.next_selection = self.num_updates + s.interval
        drawn = [random_level(level_type, self.space, self.keep_prob, self.rng) for _ in range(s.num_candidates)]
        candidates = list(dict.fromkeys(drawn))
        seed = int(self.rng.integers(2**31 - 1))
        results = measure(candidates, s.candidate_episodes, s.candidate_steps, seed)
        self.ranking_steps += results.steps
        granted = np.array([[name in level.done_skills for name in self.buffer.skills] for level in candidates])
        tried, succeeded = np.where(granted, 0, results.tried), np.where(granted, 0, results.succeeded)
        best = np.argsort(-learnability(succeeded, tried), kind="stable")[: s.buffer_size]
        self.buffer.clear()
        for k in best.tolist():
            row = self.buffer.insert(self.next_id + k, candidates[k], LevelOrigin(self.designer, "random"))
            self.buffer.tried[row], self.buffer.succeeded[row] = tried[k], succeeded[k]
        self.next_id += len(candidates)
        self.num_tried += len(candidates)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, values = super().state()
        return arrays, {**values, "num_updates": self.num_updates, "next_selection": self.next_selection}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        super().load(arrays, values)
        self.num_updates, self.next_selection = int(values["num_updates"]), int(values["next_selection"])


class SflDesigner(EpisodeDesigner):
    """Sampling for learnability: replay the random levels with the highest p (1 - p) (Rutherford et al. 2024)."""

    name = "sfl"
    settings_type = SflSettings
    settings: SflSettings

    def make_sampler(self, level_type: type[Level], skills: Sequence[Skill], seed: int) -> LevelSampler:
        buffer = LevelArchive(level_type, skills, self.settings.buffer_size, "learnability", "uniform")
        return SflSampler(self.name, self.settings, buffer, seed)
