"""What goes back to the designer after a cycle: success in the original, and how training went in each level."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from envgen.designers.designer import LevelOutcome, SuccessRate
from envgen.runs.statistics import success_counts, success_rates
from envgen.worlds.world import World

from .evaluate import Evaluation, Policy, run_episodes, summarize_episodes


def evaluate_over_seeds(
    agent: Policy, world: World, seeds: int, episodes: int, seed: int, observation: str
) -> tuple[Evaluation, dict[str, SuccessRate]]:
    """`episodes` episodes of each of `seeds` seeds in the original; rates as mean and deviation over the seeds."""
    with closing(world.make([world.original], seeds * episodes, seed, observation)) as envs:
        returns, lengths, achieved = run_episodes(agent, envs, seeds * episodes, np.random.default_rng(seed))
    names, by_seed = [skill.name for skill in world.skills], achieved.reshape(seeds, episodes, -1)
    rates = success_rates((by_seed > 0).sum(1), (by_seed >= 0).sum(1))  # (seeds, skills)
    level = world.original.model_dump(mode="json")
    found = summarize_episodes(
        names, returns, lengths, achieved, world=world.name, level=level, seed=seed, greedy=False
    )
    return found, {name: _rate(column[np.isfinite(column)]) for name, column in zip(names, rates.T, strict=True)}


def _rate(rates: np.ndarray) -> SuccessRate:
    return SuccessRate(mean=float(rates.mean()), std=float(rates.std())) if rates.size else SuccessRate(mean=0, std=0)


def level_outcomes(
    lines: Iterable[Mapping[str, Any]], skills: Sequence[str], levels: int
) -> tuple[LevelOutcome | None, ...]:
    """From the lines of progress of a phase, how training went in each of its levels; None where no episode ended."""
    updates = [line["levels"] for line in lines]
    told = []
    for k in range(levels):
        episodes = np.array([update[k]["episodes"] for update in updates])
        if not episodes.sum():
            told.append(None)
            continue
        succeeded, possible = success_counts([update[k] for update in updates], len(skills))
        rewards = sum(update[k]["return_sum"] for update in updates)

        def rates(part: Any, succeeded=succeeded, possible=possible) -> dict[str, float]:
            percent = success_rates(succeeded[part].sum(0), possible[part].sum(0))
            return dict(zip(skills, np.nan_to_num(percent).tolist(), strict=True))

        ended = episodes.cumsum() / episodes.sum()  # the share of episodes that ended until each update
        first = np.arange(len(updates)) <= np.argmax(ended >= 1 / 3)
        last = ended > 2 / 3
        told.append(
            LevelOutcome(
                episodes=int(episodes.sum()),
                reward=rewards / episodes.sum(),
                skills=rates(slice(None)),
                first_third=rates(first),
                last_third=rates(last),
            )
        )
    return tuple(told)
