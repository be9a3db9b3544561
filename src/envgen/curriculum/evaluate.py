"""How good an agent is: episodes in environments that training never touched, counted skill by skill.

Every environment plays the same number of episodes: taking the first that end would favour short lives. World and
policy draw from the evaluation's own seed, so that a later evaluation of the same agent gives the same numbers, and
training goes on as if there had been none.
"""

import math
from typing import Any, Protocol

import numpy as np
from gymnasium.vector import VectorEnv
from pydantic import BaseModel, ConfigDict

from envgen.agents.rollout import episode_skill_counts
from envgen.runs.statistics import score, success_rates
from envgen.worlds.world import World

Z95 = 1.959964  # 95% of a normal distribution lies within so many standard deviations
RESAMPLES = 2000  # of the bootstrap
AT_ONCE = 256  # environments, at the most


class Policy(Protocol):
    """All that an evaluation asks of an agent: actions for a batch of observations, drawn with the numbers lent."""

    def act(self, obs: Any, rng: np.random.Generator | None = None) -> np.ndarray: ...


class Estimate(BaseModel):
    """A number with its 95% confidence interval."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"

    def agrees_with(self, other: "Estimate") -> bool:
        """Whether the difference of two independent figures is within its own interval."""
        apart = abs(self.value - other.value)
        above, below = (self, other) if self.value > other.value else (other, self)
        return apart <= math.hypot(above.value - above.low, below.high - below.value)


class Evaluation(BaseModel):
    """What some episodes showed. Rates and score are percentages."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    world: str
    level: dict[str, Any]
    seed: int
    greedy: bool
    episodes: int
    reward: Estimate
    length: Estimate
    score: Estimate
    skills: dict[str, Estimate]

    def __str__(self) -> str:
        lines = [f"{self.episodes} episodes of {self.world}, reward {self.reward}, length {self.length}"]
        lines += [f"score {self.score}", *(f"  {name:22} {rate}" for name, rate in self.skills.items())]
        return "\n".join(lines)


def evaluate(
    agent: Policy,
    world: World,
    level: Any = None,
    episodes: int = 256,
    seed: int = 0,
    observation: str = "symbols",
    greedy: bool = False,
    envs: VectorEnv | None = None,
) -> Evaluation:
    """Play `episodes` episodes of `level` (the original if None) without learning.

    `envs`, if given, are played instead of those of `world`: freshly made, same-step autoreset, of the same world.
    """
    if episodes < 1:
        raise ValueError(f"an evaluation takes at least 1 episode, not {episodes}")
    level = world.Level.parse(level)
    given = envs
    if envs is None:
        count = min(episodes, AT_ONCE)
        envs = world.make([level], num_envs=count, seed=seed, observation=observation)
    try:
        returns, lengths, achieved = run_episodes(
            agent, envs, episodes, None if greedy else np.random.default_rng(seed)
        )
    finally:
        if given is None:
            envs.close()
    about = {"world": world.name, "level": level.model_dump(mode="json"), "seed": seed, "greedy": greedy}
    return summarize_episodes([skill.name for skill in world.skills], returns, lengths, achieved, **about)


def summarize_episodes(
    names: list[str], returns: np.ndarray, lengths: np.ndarray, achieved: np.ndarray, **about: Any
) -> Evaluation:
    """Returns (n,), lengths (n,) and successes (n, skills) of episodes as `play` has them; `about` them the rest."""
    succeeded, possible = (achieved > 0).sum(0), (achieved >= 0).sum(0)
    return Evaluation(
        episodes=len(returns),
        reward=mean_with_ci(returns),
        length=mean_with_ci(lengths),
        score=score_with_ci(achieved),
        skills={name: rate_with_ci(int(k), int(n)) for name, k, n in zip(names, succeeded, possible, strict=True)},
        **about,
    )


def run_episodes(
    agent: Policy, envs: VectorEnv, episodes: int, random: np.random.Generator | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns (n,), lengths (n,) and how often each skill succeeded (n, skills), environment by environment; -1 where
    the episode could not hold it."""
    count = envs.num_envs
    wanted = episodes // count + (np.arange(count) < episodes % count)
    returns, lengths = np.zeros(count), np.zeros(count, np.int64)
    done: list[list[tuple[float, int, np.ndarray]]] = [[] for _ in range(count)]
    observations, _ = envs.reset()
    while wanted.any():
        acts = agent.act(observations[wanted > 0], random)  # a single long life should not cost everybody's thoughts
        actions = np.zeros((count, *acts.shape[1:]), acts.dtype)
        actions[wanted > 0] = acts
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        returns += rewards
        lengths += 1
        ended = terminated | truncated
        for i in np.flatnonzero(ended & (wanted > 0)):
            done[i].append((returns[i], int(lengths[i]), episode_skill_counts(infos["final_info"], i)))
            wanted[i] -= 1
        returns[ended] = 0
        lengths[ended] = 0
    flat = [episode for one in done for episode in one]
    return np.array([r for r, _, _ in flat]), np.array([n for _, n, _ in flat]), np.stack([a for _, _, a in flat])


def mean_with_ci(values: np.ndarray) -> Estimate:
    mean, error = float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
    return Estimate(value=mean, low=mean - Z95 * error, high=mean + Z95 * error)


def rate_with_ci(successes: int, episodes: int) -> Estimate:
    """A success rate in percent with Wilson's interval, which stays sensible at 0 and 100%; anything if never tried."""
    if not episodes:
        return Estimate(value=0, low=0, high=100)
    p, n = successes / episodes, episodes
    middle = (p + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n * n)) / (1 + Z95**2 / n)
    return Estimate(value=100 * p, low=100 * max(0.0, middle - half), high=100 * min(1.0, middle + half))


def score_with_ci(achieved: np.ndarray) -> Estimate:
    """The score of episodes (n, skills), with the interval of 2,000 bootstrap samples of the episodes."""
    n = len(achieved)
    succeeded, possible = (achieved > 0).astype(np.float64), (achieved >= 0).astype(np.float64)
    times = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=RESAMPLES)  # (resamples, n)
    low, high = np.quantile(score(success_rates(times @ succeeded, times @ possible)), [0.025, 0.975])
    value = score(success_rates(succeeded.sum(0), possible.sum(0)))
    return Estimate(value=float(value), low=float(low), high=float(high))
