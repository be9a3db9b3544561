"""`alpha`: a policy over the level's settings that learns which levels have the right difficulty. No language model.

Each setting has a softmax over its values. The reward of a level is the α-curriculum reward of GenEnv (arXiv
2512.19682, eq. 3) of the success rates reached while training in it, exp(-β(p - α)²), averaged over the skills that are
possible in the level and not among its `done_skills`: it is highest for skills that succeed about half the time and low
for those that always or never do. REINFORCE then makes the settings of better levels more likely. It reads them from
the level, which may differ from what was sampled in a world whose settings can contradict each other
(`Level.parse_sampled`). The policy starts out equal to `random` and is recomputed from the history, so there is nothing
to save.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from envgen.settings import Settings
from envgen.worlds.level_space import level_values, sampled_level, setting_values
from envgen.worlds.world import Level

from .designer import Brief, Cycle, Designer, LevelOutcome, Proposal, ProposedLevel

MIN_REWARD_STD = 1e-9  # a smaller deviation is rounding error


class AlphaSettings(Settings):
    """The alpha-curriculum reward over levels, and the policy that learns from it."""

    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The target success rate, at which the reward is highest."""
    beta: Annotated[float, Field(gt=0)] = 8.0
    """How fast the reward falls on either side of the target; with 8 it is 0.14 at 0 and 100%."""
    learning_rate: Annotated[float, Field(gt=0)] = 0.5
    """Learning rate of the policy, which is updated once per cycle."""
    keep_prob: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """In the initial policy, the probability that a setting is left at its original value instead of being drawn."""


class AlphaDesigner(Designer):
    """A policy that learns which settings give levels of the right difficulty (GenEnv's α-curriculum reward)."""

    name = "alpha"
    settings_type = AlphaSettings
    settings: AlphaSettings

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        space = setting_values(brief.Level)
        logits = self.policy_logits(space, history)
        rng = np.random.default_rng([brief.seed, brief.cycle])
        levels = []
        for _ in range(brief.num_levels):
            sample = {name: values[rng.choice(len(values), p=softmax(logits[name]))] for name, values in space.items()}
            level = sampled_level(brief.Level, sample)
            levels.append(ProposedLevel(level=level, purpose="sampled from the learned policy"))
        return Proposal(levels=tuple(levels))

    def policy_logits(self, space: Mapping[str, tuple[Any, ...]], history: Sequence[Cycle]) -> dict[str, np.ndarray]:
        """The logits of each setting's values after all finished cycles."""
        keep_prob = self.settings.keep_prob
        logits = {}
        for name, values in space.items():
            logits[name] = np.full(len(values), np.log((1 - keep_prob) / len(values)))
            logits[name][0] = np.log(keep_prob + (1 - keep_prob) / len(values))
        for cycle in history:
            self._update(logits, space, cycle)
        return logits

    def _update(self, logits: dict[str, np.ndarray], space: Mapping[str, tuple[Any, ...]], cycle: Cycle) -> None:
        """One REINFORCE step on the levels of a cycle."""
        pairs = []
        for proposed, outcome in zip(cycle.proposal.levels, cycle.outcomes, strict=True):
            reward = self.reward(outcome, proposed.level) if outcome else None
            if reward is not None:
                pairs.append((level_values(proposed.level), reward))
        rewards = np.array([reward for _, reward in pairs])
        if len(pairs) < 2 or rewards.std() < MIN_REWARD_STD:
            return
        # Normalized within the cycle, because the agent's skill changes from cycle to cycle.
        advantages = (rewards - rewards.mean()) / rewards.std()
        for name, values in space.items():
            probs, gradient = softmax(logits[name]), np.zeros(len(values))
            for (level, _), advantage in zip(pairs, advantages, strict=True):
                gradient += advantage * (np.array([level.get(name, values[0]) == value for value in values]) - probs)
            logits[name] += self.settings.learning_rate * gradient / len(pairs)

    def reward(self, outcome: LevelOutcome, level: Level) -> float | None:
        """The reward of a level; None if all skills that are possible in it are `done_skills`."""
        rates = np.array([rate / 100 for name, rate in outcome.skills.items() if name not in level.done_skills])
        if not rates.size:
            return None
        return float(np.exp(-self.settings.beta * (rates - self.settings.alpha) ** 2).mean())


def softmax(logits: np.ndarray) -> np.ndarray:
    exps = np.exp(logits - logits.max())
    return exps / exps.sum()
