"""Evaluate an agent: episodes in environments that training never uses, counted skill by skill.

The number of episodes of each environment is fixed in advance, because taking the first episodes that end would favor
short ones. Environments and actions use the evaluation's own seed: evaluating the same agent again gives the same
numbers, and training continues as if there had been no evaluation.

`LevelScorer` scores levels for the designers that rank them: how well an agent does in each level. This agent is
either the one that trains in the run, or a scoring agent, trained briefly from scratch in each level.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, Protocol

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from envgen.agents.learner import Learner, SupportsAct, SupportsMemory
from envgen.agents.rollout import episode_skill_counts
from envgen.designers.designer import ChainOutcome, LevelOutcome, ScoredBy, SuccessRate
from envgen.runs.statistics import (
    Z95,
    has_coverage,
    is_unmeasured,
    score,
    success_counts,
    success_rates,
    wilson_interval,
)
from envgen.settings import FrozenModel
from envgen.worlds.world import Level, LevelVectorEnv, SupportsActive, World

from .plan import check_seed

T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)  # of Student's t with 1 to 10 degrees
NUM_RESAMPLES = 2000  # of the bootstrap
RESAMPLES_AT_ONCE = 100  # bounds the memory for many episodes
MAX_ENVS = 256
SCORING_EPISODES = 32  # of the level scorer, in each level
SCORING_SEED = 55_000_000


class Estimate(FrozenModel):
    """A number with its 95% confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        interval = "" if self.low == self.high else f" [{self.low:.1f}, {self.high:.1f}]"
        return f"{self.value:.1f}{interval}"

    def agrees_with(self, other: "Estimate") -> bool:
        """Return whether the 95% interval of the difference from an independent estimate includes 0."""
        difference = abs(self.value - other.value)
        upper, lower = (self, other) if self.value > other.value else (other, self)
        return difference <= math.hypot(upper.value - upper.low, lower.high - lower.value)


class Evaluation(FrozenModel):
    """The results of some episodes. Success rates and score are percentages."""

    world: str
    """The name of the world."""
    level: dict[str, Any]
    """All settings of the level as JSON values, also those of the original; `world.Level.parse(level)` is the level."""
    seed: int
    """The seed of the episodes."""
    deterministic: bool
    """Whether the most likely actions were taken instead of sampled ones."""
    episodes: int
    """Number of episodes."""
    reward: Estimate
    """The mean return of the episodes."""
    length: Estimate
    """The mean number of steps."""
    score: Estimate
    """The score of the world in percent; in Crafter, the geometric mean of the success rates."""
    skills: dict[str, Estimate]
    """The percentage of the episodes in which each skill succeeded."""

    @property
    def summary(self) -> str:
        """The evaluation in one line."""
        episodes = f"{self.episodes} episode{'s' * (self.episodes != 1)}"
        return f"{episodes} of {self.world}, reward {self.reward}, length {self.length}"

    def __repr__(self) -> str:
        return f"<Evaluation: score {self.score}, {self.summary}>"

    def __str__(self) -> str:
        impossible = [name for name, rate in self.skills.items() if is_unmeasured(rate.low, rate.high)]
        lines = [self.summary, f"score {self.score}"]
        lines += [f"  {name:22} {rate}" for name, rate in self.skills.items() if name not in impossible]
        lines += [f"impossible in these episodes: {', '.join(impossible)}"] * bool(impossible)
        return "\n".join(lines)


class EpisodeObserver(Protocol):
    """Sees every step of `run_episodes`. An environment that has finished its episodes is no longer `playing`."""

    def before_step(self, actions: np.ndarray, playing: np.ndarray) -> None:
        """Called with the actions about to be taken."""
        ...

    def after_step(
        self, playing: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, infos: Mapping[str, Any]
    ) -> None:
        """Called with the results of the step. Environments whose episodes ended have begun the next ones."""
        ...


def evaluate(
    agent: SupportsAct,
    world: World,
    level: Any = None,
    episodes: int = 256,
    seed: int = 0,
    observation: str = "symbols",
    deterministic: bool = False,
    envs: VectorEnv | None = None,
    observer: EpisodeObserver | None = None,
) -> Evaluation:
    """Play episodes without learning.

    Args:
        level: The level to play; the original if None.
        deterministic: Take the most likely actions instead of sampling.
        envs: Play these environments of the same world instead of making new ones. They must not have been used, and
            their autoreset mode must be same-step.
        observer: Sees every step.
    """
    check_episodes(episodes, seed)
    level = world.Level.parse(level)
    owns_envs = envs is None
    if envs is None:
        envs = make_envs(world, level, episodes, seed, observation)
    try:
        rng = None if deterministic else np.random.default_rng(seed)
        returns, lengths, skill_counts = run_episodes(agent, envs, episodes, rng, observer)
    finally:
        if owns_envs:
            envs.close()
    skills = [skill.name for skill in world.skills]
    fields = {
        "world": world.name, "level": level.model_dump(mode="json"), "seed": seed, "deterministic": deterministic,
    }  # fmt: skip
    return summarize_episodes(skills, returns, lengths, skill_counts, **fields)


def check_episodes(episodes: int, seed: int) -> None:
    if episodes < 1:
        raise ValueError(f"an evaluation needs at least 1 episode, not {episodes}")
    check_seed(seed)


def make_envs(world: World, level: Level, episodes: int, seed: int, observation: str) -> LevelVectorEnv:
    """The environments in which `evaluate` plays this many episodes."""
    return world.make([level], num_envs=min(episodes, MAX_ENVS), seed=seed, observation=observation)


def run_episodes(
    agent: SupportsAct,
    envs: VectorEnv,
    episodes: int,
    rng: np.random.Generator | None,
    observer: EpisodeObserver | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Play `episodes` episodes and return them environment by environment.

    Returns:
        Returns (n,), lengths (n,) and how often each skill succeeded (n, skills), -1 where the skill was impossible.
    """
    mode = envs.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise ValueError(f"evaluations need environments with same-step autoreset, not {mode}")
    num_envs = envs.num_envs
    remaining = episodes // num_envs + (np.arange(num_envs) < episodes % num_envs)
    returns, lengths = np.zeros(num_envs), np.zeros(num_envs, np.int64)
    finished: list[list[tuple[float, int, np.ndarray]]] = [[] for _ in range(num_envs)]
    observations, infos = envs.reset()
    memory = memory_of(agent)
    if memory:
        memory.reset(infos)
    while remaining.any():
        playing = remaining > 0
        actions = act_where(playing, agent, observations, rng)
        if observer is not None:
            observer.before_step(actions, playing)
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        if observer is not None:
            observer.after_step(playing, terminated, truncated, infos)
        if memory:
            memory.observe(rewards, terminated | truncated, infos)
        returns += rewards
        lengths += 1
        dones = terminated | truncated
        for i in np.flatnonzero(dones & playing):
            finished[i].append((returns[i], int(lengths[i]), episode_skill_counts(infos["final_info"], i)))
            remaining[i] -= 1
        if isinstance(envs, SupportsActive) and dones.any():
            envs.set_active(remaining > 0)
        returns[dones] = 0
        lengths[dones] = 0
    results = [episode for env_episodes in finished for episode in env_episodes]
    return (
        np.array([episode_return for episode_return, _, _ in results]),
        np.array([length for _, length, _ in results]),
        np.stack([skill_counts for _, _, skill_counts in results]),
    )


def memory_of(agent: SupportsAct) -> SupportsMemory | None:
    """The agent itself, if its actions depend on earlier steps."""
    return agent if isinstance(agent, SupportsMemory) and agent.has_memory else None


def act_where(playing: np.ndarray, agent: SupportsAct, obs: Any, rng: np.random.Generator | None) -> np.ndarray:
    """The actions of an agent in the environments that are playing.

    The others, for which there is no inference, get the action of one that is playing, because it is valid. An agent
    with memory acts in all environments, which it remembers by their positions in the batch.
    """
    if memory_of(agent):
        return agent.act(obs, rng)
    active_actions = agent.act(obs[playing], rng)
    actions = np.repeat(active_actions[:1], len(playing), 0)
    actions[playing] = active_actions
    return actions


def summarize_episodes(
    skills: Sequence[str], returns: np.ndarray, lengths: np.ndarray, skill_counts: np.ndarray, **fields: Any
) -> Evaluation:
    """Return the evaluation of episodes from `run_episodes`. `fields` are the evaluation's other fields."""
    succeeded, possible = (skill_counts > 0).sum(0), (skill_counts >= 0).sum(0)
    return Evaluation(
        episodes=len(returns),
        reward=mean_with_ci(returns),
        length=mean_with_ci(lengths, minimum=0.0),
        score=score_with_ci(skill_counts),
        skills={name: rate_with_ci(int(k), int(n)) for name, k, n in zip(skills, succeeded, possible, strict=True)},
        **fields,
    )


def mean_with_ci(values: np.ndarray, minimum: float = -math.inf) -> Estimate:
    """Return the mean with Student's interval. A single value has no interval: its ends are the value.

    Args:
        minimum: The smallest possible value, at which the interval ends.
    """
    n, mean = len(values), float(values.mean())
    margin = t95(n - 1) * float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else 0.0
    return Estimate(value=mean, low=max(minimum, mean - margin), high=mean + margin)


def t95(df: int) -> float:
    """Return the 97.5% quantile of Student's t distribution, accurate to 0.001."""
    if df <= len(T95):
        return T95[df - 1]
    z = Z95  # the expansion of Cornish and Fisher
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * df**3)
    return z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2) + third


def rate_with_ci(successes: int, episodes: int) -> Estimate:
    """Return a success rate in percent with the Wilson interval, which also works at 0% and 100%.

    Without episodes the interval is 0 to 100%, which no number of episodes gives.
    """
    if not episodes:
        return Estimate(value=0, low=0, high=100)
    low, high = wilson_interval(successes, episodes)
    return Estimate(value=100 * (successes / episodes), low=100 * low, high=100 * high)


def score_with_ci(skill_counts: np.ndarray) -> Estimate:
    """Return the score of episodes (n, skills) with a bootstrap interval over episodes.

    The score is a mean of logarithms, so that of few episodes is too low on average, and that of resampled episodes
    even lower. The basic bootstrap, which mirrors the quantiles of log(1 + score) at the estimate, compensates for it.
    """
    n = len(skill_counts)
    succeeded, possible = (skill_counts > 0).astype(np.float64), (skill_counts >= 0).astype(np.float64)
    rng, chances, resampled = np.random.default_rng(0), np.full(n, 1 / n), []
    for _ in range(0, NUM_RESAMPLES, RESAMPLES_AT_ONCE):
        weights = rng.multinomial(n, chances, size=RESAMPLES_AT_ONCE)  # (resamples, n)
        resampled.append(score(success_rates(weights @ succeeded, weights @ possible)))
    value = float(score(success_rates(succeeded.sum(0), possible.sum(0))))
    low, high = np.expm1(2 * np.log1p(value) - np.log1p(np.quantile(np.concatenate(resampled), [0.975, 0.025])))
    return Estimate(value=value, low=max(0.0, float(low)), high=min(100.0, float(high)))


# --- feedback for the designer after a cycle


def evaluate_in_groups(
    agent: SupportsAct, world: World, num_groups: int, episodes: int, seed: int, observation: str
) -> tuple[Evaluation, dict[str, SuccessRate]]:
    """Play `num_groups` groups of `episodes` episodes in the original. Every episode has a seed of its own.

    Returns:
        The evaluation of all episodes, and the success rates as mean and standard deviation over the groups. Skills
        that were impossible in every episode are left out.
    """
    with closing(world.make([world.original], num_groups * episodes, seed, observation)) as envs:
        rng = np.random.default_rng(seed)
        returns, lengths, skill_counts = run_episodes(agent, envs, num_groups * episodes, rng)
    skills = [skill.name for skill in world.skills]
    by_group = skill_counts.reshape(num_groups, episodes, -1)
    rates = success_rates((by_group > 0).sum(1), (by_group >= 0).sum(1))  # (groups, skills)
    level = world.original.model_dump(mode="json")
    evaluation = summarize_episodes(
        skills, returns, lengths, skill_counts, world=world.name, level=level, seed=seed, deterministic=False
    )
    possible = (skill_counts >= 0).sum(0)
    return evaluation, {
        name: _success_rate(rates[:, k], int(possible[k])) for k, name in enumerate(skills) if possible[k]
    }


def _success_rate(group_rates: np.ndarray, episodes: int) -> SuccessRate:
    group_rates = group_rates[np.isfinite(group_rates)]
    mean = float(group_rates.mean())
    p = (episodes * mean / 100 + 1) / (episodes + 2)  # between 0 and 1, also after failures or successes only
    return SuccessRate(mean=mean, std=float(group_rates.std()), standard_error=100 * math.sqrt(p * (1 - p) / episodes))


def level_outcomes(
    lines: Iterable[Mapping[str, Any]], skills: Sequence[str], num_levels: int
) -> tuple[LevelOutcome | None, ...]:
    """Return how training went in each level of a phase, from its progress lines; None where too few episodes ended.

    The stages of a chain count their episodes themselves, so a chain has an outcome as soon as one has ended.
    """
    updates = [line["levels"] for line in lines]
    return tuple(_level_outcome([update[k] for update in updates], skills) for k in range(num_levels))


def _level_outcome(updates: Sequence[Mapping[str, Any]], skills: Sequence[str]) -> LevelOutcome | None:
    episodes = np.array([update["episodes"] for update in updates])
    if not episodes.sum():
        return None
    if "chain" not in updates[0] and not has_coverage(updates):
        return None
    succeeded, possible = success_counts(updates, len(skills))

    def rates(selected: Any) -> dict[str, float]:
        percent = success_rates(succeeded[selected].sum(0), possible[selected].sum(0)).tolist()
        return {name: rate for name, rate in zip(skills, percent, strict=True) if math.isfinite(rate)}

    ended_share = episodes.cumsum() / episodes.sum()  # share of the episodes that ended up to each update
    in_first = np.arange(len(updates)) <= np.argmax(ended_share >= 1 / 3)
    return LevelOutcome(
        episodes=int(episodes.sum()),
        reward=sum(update["return_sum"] for update in updates) / episodes.sum(),
        skills=rates(slice(None)),
        first_third=rates(in_first),
        last_third=rates((ended_share > 2 / 3) & ~in_first),
        chain=_chain_outcome(updates),
    )


def _chain_outcome(updates: Sequence[Mapping[str, Any]]) -> ChainOutcome | None:
    """Return how far a chain came; None for a level."""
    results = [update["chain"] for update in updates if "chain" in update]
    if not results:
        return None
    return ChainOutcome(
        stage=results[-1]["stage"],
        episodes=tuple(np.sum([result["episodes"] for result in results], axis=0).tolist()),
        successes=tuple(np.sum([result["succeeded"] for result in results], axis=0).tolist()),
    )


class LevelScorer:
    """Scores levels for one cycle. `steps` counts the training of scoring agents and the episodes of the run's agent.

    Args:
        learner: The learner of the run.
        train_steps: Steps that a scoring agent trains in each level.
        seed: The seed of the run.
    """

    def __init__(
        self,
        world: World,
        observation: str,
        learner: Learner,
        train_steps: int,
        seed: int,
        cycle: int,
    ):
        self.world, self.observation, self.learner = world, observation, learner
        self.train_steps, self.seeds = train_steps, [seed, cycle]
        self.steps = 0

    def score(self, levels: Sequence[Level], scored_by: ScoredBy) -> list[float]:
        """Return the score that the run's agent, or a scoring agent trained there, reaches in each level."""
        if scored_by == "agent":
            return [self._evaluate(self.learner, level) for level in levels]
        return [self._evaluate(self._train_scoring_agent(level, k), level) for k, level in enumerate(levels)]

    def success_rates(self, levels: Sequence[Level], episodes: int) -> list[dict[str, float]]:
        """Return the success rates of the run's agent in each level by skill, in percent, without learning."""
        skills, num_envs = [skill.name for skill in self.world.skills], episodes * len(levels)
        with closing(self.world.make(list(levels), num_envs, SCORING_SEED, self.observation)) as envs:
            _, lengths, counts = run_episodes(self.learner, envs, num_envs, np.random.default_rng(SCORING_SEED))
        self.steps += int(lengths.sum())
        by_level = counts.reshape(episodes, len(levels), -1)  # environment i plays levels[i % len(levels)]
        rates = np.nan_to_num(success_rates((by_level > 0).sum(0), (by_level >= 0).sum(0)))
        return [dict(zip(skills, row, strict=True)) for row in rates.tolist()]

    def _train_scoring_agent(self, level: Level, index: int) -> Learner:
        seed = int(np.random.SeedSequence([*self.seeds, index]).generate_state(1)[0] >> 1)
        num_envs = self.learner.settings.num_envs
        with closing(self.world.make([level], num_envs=num_envs, seed=seed, observation=self.observation)) as envs:
            scoring_agent = self.learner.untrained_copy(seed)
            scoring_agent.train(envs, self.train_steps)
        self.steps += scoring_agent.steps
        return scoring_agent

    def _evaluate(self, agent: SupportsAct, level: Level) -> float:
        evaluation = evaluate(agent, self.world, level, SCORING_EPISODES, SCORING_SEED, self.observation)
        self.steps += round(evaluation.length.value * evaluation.episodes)
        return evaluation.score.value
