"""An archive of levels with what was measured in them, from which levels are replayed by priority.

Each entry is one level: how often it was played, the success rates of its skills, its estimated regret, when it was
sampled last, and where it comes from. The size is bounded: the level with the lowest priority makes room for a better
one. The state is a set of arrays and JSON values, from which a run resumes exactly.

A level is a set of settings. An entry is a level whose map is new in every episode, or a level with the seed of one
map, as in the papers.

The scores and priorities are those of prioritized level replay (PLR; Jiang et al. 2021a, arXiv 2010.03934), robust PLR
(Jiang et al. 2021b, arXiv 2110.02439) and sampling for learnability (SFL; Rutherford et al. 2024, arXiv 2408.15099).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from envgen.worlds.world import Level, Skill

RATE_DECAY = 0.9  # of a level's success rates, per episode in it: the agent changes
NO_PARENT = -1
NO_SEED = -1  # no fixed map: each episode generates a new one

Score = Literal["positive_value_loss", "max_mc", "learnability"]


class LevelEpisode(NamedTuple):
    """A finished episode, as designers see it."""

    level_id: int
    """The id of its level, as the sampler chose it."""
    episode_return: float
    """The sum of its rewards."""
    skill_counts: np.ndarray
    """(skills,): how often each skill succeeded, -1 where it was impossible."""
    positive_value_loss: float
    """The mean of max(advantage, 0) over the episode's steps."""
    mean_value: float
    """The mean of the value estimates over the episode's steps."""


class LevelOrigin(NamedTuple):
    """How a level was made."""

    designer: str
    kind: str  # such as "random" or "mutation"
    parent: int = NO_PARENT  # the id of the level that was mutated


def learnability(succeeded: np.ndarray, tried: np.ndarray) -> np.ndarray:
    """p (1 - p) of each level (SFL), averaged over the skills that were tried in it.

    Args:
        succeeded: (levels, skills), the number of episodes in which the skill succeeded.
        tried: (levels, skills), the number of episodes in which it was possible.
    """
    p = succeeded / np.maximum(tried, 1e-9)
    return np.where(tried > 0, p * (1 - p), 0).sum(-1) / np.maximum(1, (tried > 0).sum(-1))


def max_mc(max_returns: np.ndarray, mean_values: np.ndarray) -> np.ndarray:
    """1/T sum_t (R_max - V(s_t)): R_max is the highest return reached in the level so far (robust PLR)."""
    return max_returns - mean_values


def rank_weights(scores: np.ndarray, temperature: float) -> np.ndarray:
    """(1 / rank)^(1 / temperature), normalized: rank 1 has the highest score (PLR, rank prioritization).

    Of equal scores, the first one ranks first.
    """
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(1, len(scores) + 1)
    logs = -np.log(ranks) / temperature
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def staleness_weights(last_sampled: np.ndarray, num_sampled: int) -> np.ndarray:
    """c - C_i, normalized: episodes sampled since level i was sampled (PLR, staleness). Uniform if all are zero."""
    staleness = (num_sampled - last_sampled).astype(np.float64)
    total = staleness.sum()
    return staleness / total if total > 0 else np.full(len(staleness), 1 / len(staleness))


class LevelArchive:
    """At most `capacity` distinct levels, or pairs of a level and the seed of its map.

    Args:
        level_type: The class of the world's levels.
        skills: The skills of the world.
        score: What ranks the levels.
        prioritization: By rank and staleness, or all levels equally often.
        temperature: The temperature of `rank_weights`.
        staleness_coef: The share of `staleness_weights` in the priorities, 0 to 1.
        score_alpha: The weight of the latest episode in a level's estimates of regret.
    """

    def __init__(
        self,
        level_type: type[Level],
        skills: Sequence[Skill],
        capacity: int,
        score: Score = "positive_value_loss",
        prioritization: Literal["rank", "uniform"] = "rank",
        temperature: float = 0.3,
        staleness_coef: float = 0.3,
        score_alpha: float = 1.0,
    ):
        self.level_type, self.skills = level_type, [skill.name for skill in skills]
        self.capacity, self.score = capacity, score
        self.prioritization, self.temperature = prioritization, temperature
        self.staleness_coef, self.score_alpha = staleness_coef, score_alpha
        self.num_sampled = 0  # episodes for which a level was chosen, in the archive or not
        self.levels: list[Level] = []
        self.origins: list[LevelOrigin] = []
        n, num_skills = capacity, len(skills)
        # rows beyond len(self) are unused
        self.ids = np.zeros(n, np.int64)
        self.seeds = np.full(n, NO_SEED)
        self.episodes = np.zeros(n, np.int64)
        self.last_sampled = np.zeros(n, np.int64)  # value of num_sampled
        self.succeeded, self.tried = np.zeros((n, num_skills)), np.zeros((n, num_skills))  # episodes, decayed
        self.max_returns, self.mean_returns = np.zeros(n), np.zeros(n)
        self.positive_value_losses, self.mean_values = np.zeros(n), np.zeros(n)
        self._rows: dict[tuple[Level, int], int] = {}

    def __len__(self) -> int:
        return len(self.levels)

    # ------------------------------------------------------------------------------------------------------ sampling

    def scores(self) -> np.ndarray:
        n = len(self)
        if self.score == "max_mc":
            return max_mc(self.max_returns[:n], self.mean_values[:n])
        return self.learnability() if self.score == "learnability" else self.positive_value_losses[:n]

    def learnability(self) -> np.ndarray:
        return learnability(self.succeeded[: len(self)], self.tried[: len(self)])

    def weights(self) -> np.ndarray:
        """The probability that each level is replayed: (1 - rho) P_score + rho P_staleness (PLR)."""
        n, rho = len(self), self.staleness_coef
        if self.prioritization == "uniform":
            return np.full(n, 1 / n)
        by_score = rank_weights(self.scores(), self.temperature)
        return (1 - rho) * by_score + rho * staleness_weights(self.last_sampled[:n], self.num_sampled)

    def sample(self, rng: np.random.Generator) -> int:
        """A random row, sampled by priority."""
        return int(rng.choice(len(self), p=self.weights()))

    def mark_sampled(self, row: int) -> None:
        """Record that the latest episode counted in `num_sampled` plays this level."""
        self.last_sampled[row] = self.num_sampled

    # ------------------------------------------------------------------------------------------------------- changes

    def row_of(self, level: Level, seed: int = NO_SEED) -> int | None:
        return self._rows.get((level, seed))

    def row_of_id(self, level_id: int) -> int | None:
        rows = np.flatnonzero(self.ids[: len(self)] == level_id)
        return int(rows[0]) if rows.size else None

    def insert(self, level_id: int, level: Level, origin: LevelOrigin, seed: int = NO_SEED) -> int:
        """Add a level without episodes, in place of the one with the lowest priority if the archive is full.

        As in the published implementations, it counts as sampled now, when its first episode has ended.
        """
        if len(self) < self.capacity:
            row = len(self)
            self.levels.append(level)
            self.origins.append(origin)
        else:
            row = int(self.weights().argmin())
            del self._rows[self.levels[row], int(self.seeds[row])]
            self.levels[row], self.origins[row] = level, origin
        self._rows[level, seed] = row
        self.seeds[row] = seed
        self.ids[row], self.episodes[row], self.last_sampled[row] = level_id, 0, self.num_sampled
        for array in (self.succeeded, self.tried, self.max_returns, self.mean_returns,
                      self.positive_value_losses, self.mean_values):  # fmt: skip
            array[row] = 0
        return row

    def add(self, episode: LevelEpisode, level: Level, origin: LevelOrigin, seed: int = NO_SEED) -> bool:
        """Record the first episode in a new level. A full archive accepts it only if it scores higher than the level
        with the lowest priority. A level that the archive already has is updated instead."""
        row = self.row_of(level, seed)
        if row is None:
            if len(self) == self.capacity and self.score_of(episode) <= self.scores()[self.weights().argmin()]:
                return False
            row = self.insert(episode.level_id, level, origin, seed)
        self.update(row, episode)
        return True

    def score_of(self, episode: LevelEpisode) -> float:
        """The score of a level with this one episode. Learnability is 0 then, as every skill failed or succeeded."""
        if self.score == "max_mc":
            return episode.episode_return - episode.mean_value
        return 0.0 if self.score == "learnability" else episode.positive_value_loss

    def update(self, row: int, episode: LevelEpisode) -> None:
        """Record an episode in the level of this row."""
        is_first = self.episodes[row] == 0
        self.episodes[row] += 1
        counts = episode.skill_counts
        granted = self.levels[row].done_skills
        tried = (counts >= 0) & np.array([name not in granted for name in self.skills], np.bool_)
        decay = np.where(tried, RATE_DECAY, 1)
        self.tried[row] = decay * self.tried[row] + tried
        self.succeeded[row] = decay * self.succeeded[row] + (tried & (counts > 0))
        alpha = 1.0 if is_first else self.score_alpha
        for array, value in (
            (self.positive_value_losses, episode.positive_value_loss),
            (self.mean_values, episode.mean_value),
        ):
            array[row] += alpha * (value - array[row])
        self.mean_returns[row] += (episode.episode_return - self.mean_returns[row]) / self.episodes[row]
        highest = -np.inf if is_first else self.max_returns[row]
        self.max_returns[row] = max(highest, episode.episode_return)

    def clear(self) -> None:
        """Remove all levels."""
        self.levels, self.origins, self._rows = [], [], {}

    # -------------------------------------------------------------------------------------------------------- report

    def entries(self, max_levels: int | None = None) -> list[dict[str, Any]]:
        """The levels with the highest priority first, as JSON data."""
        n = len(self)
        if not n:
            return []
        weights = self.weights()
        order = np.argsort(-weights, kind="stable")[:max_levels]
        scores, mc, learn = self.scores(), max_mc(self.max_returns[:n], self.mean_values[:n]), self.learnability()
        return [
            {
                "id": int(self.ids[row]),
                "level": self.levels[row].to_overrides(),
                **({"seed": int(self.seeds[row])} if self.seeds[row] != NO_SEED else {}),
                "origin": self.origins[row]._asdict(),
                "episodes": int(self.episodes[row]),
                "last_sampled": int(self.last_sampled[row]),
                "priority": float(weights[row]),
                "score": float(scores[row]),
                "positive_value_loss": float(self.positive_value_losses[row]),
                "max_mc": float(mc[row]),
                "learnability": float(learn[row]),
                "mean_return": float(self.mean_returns[row]),
                "max_return": float(self.max_returns[row]),
                "success_rates": {
                    name: round(float(100 * self.succeeded[row, k] / self.tried[row, k]), 2)
                    for k, name in enumerate(self.skills)
                    if self.tried[row, k] > 0
                },
            }
            for row in order.tolist()
        ]

    # --------------------------------------------------------------------------------------------------------- state

    ARRAYS = ("ids", "seeds", "episodes", "last_sampled", "succeeded", "tried", "max_returns", "mean_returns",
              "positive_value_losses", "mean_values")  # fmt: skip

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and JSON values from which `load` continues exactly."""
        arrays = {name: getattr(self, name)[: len(self)].copy() for name in self.ARRAYS}
        levels = [level.to_overrides() for level in self.levels]
        origins = [list(origin) for origin in self.origins]
        return arrays, {"num_sampled": self.num_sampled, "levels": levels, "origins": origins}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        """Restore what `state` returned. Raises ValueError if it is damaged or was saved with other settings."""
        levels = [self.level_type.parse(level) for level in values["levels"]]
        origins = [parse_origin(origin) for origin in values["origins"]]
        n, num_sampled = len(levels), values["num_sampled"]
        loaded = {name: np.asarray(arrays[name]) for name in self.ARRAYS}
        keys = list(zip(levels, loaded["seeds"].tolist(), strict=False))
        is_valid = n <= self.capacity and len(origins) == len(set(keys)) == n
        is_valid &= type(num_sampled) is int and num_sampled >= 0
        for name, array in loaded.items():
            current = getattr(self, name)
            is_valid &= array.dtype == current.dtype and array.shape == (n, *current.shape[1:])
            is_valid &= bool(np.isfinite(array).all())
        if not (is_valid and (loaded["last_sampled"] <= num_sampled).all()):
            raise ValueError("the level archive is damaged, or was saved with other settings")
        self.clear()
        self.levels, self.origins, self.num_sampled = levels, origins, num_sampled
        self._rows = {key: row for row, key in enumerate(keys)}
        for name, array in loaded.items():
            getattr(self, name)[:n] = array


def parse_origin(data: Any) -> LevelOrigin:
    """A `LevelOrigin` from its JSON data. Raises ValueError for other data."""
    match data:
        case [str(designer), str(kind), int(parent)]:
            return LevelOrigin(designer, kind, parent)
    raise ValueError(f"{data!r:.60} is not the origin of a level")
