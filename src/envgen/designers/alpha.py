"""`alpha`: a policy over the level's settings that learns which levels are of the right difficulty. No language model.

Each setting has a softmax over its values. A level is worth what the α-curriculum reward of GenEnv (arXiv 2512.19682,
eq. 3) says of the success rates that training in it showed, exp(-β(p - α)²), averaged over the skills: most for skills
that succeed about half the time, little for those that never or always do. REINFORCE then makes the settings of better
levels likelier. The policy begins as `random` draws, and is a function of the history: nothing else is to be saved.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from envgen.settings import Settings

from .designer import Brief, Cycle, Designer, LevelOutcome, Proposal, ProposedLevel, to_overrides
from .level_space import setting_values, unflatten

SAME = 1e-9  # worths that lie closer together differ by rounding only


class AlphaSettings(Settings):
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The success rate at which a skill is worth most."""
    beta: Annotated[float, Field(gt=0)] = 8.0
    """How fast the worth falls off on either side; with 8 it is 0.14 at 0 and 100%."""
    learning_rate: Annotated[float, Field(gt=0)] = 0.5
    """How far the policy moves in a cycle."""
    keep_prob: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The chance with which each setting stays as in the original, before anything is learned."""


class AlphaDesigner(Designer):
    name = "alpha"

    def __init__(self, settings: AlphaSettings | None = None):
        self.settings = settings or AlphaSettings()

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        space = setting_values(brief.Level)
        policy = self.policy(space, history)
        chance = np.random.default_rng([brief.seed, brief.cycle])
        levels = []
        for _ in range(brief.num_levels):
            drawn = {
                name: values[chance.choice(len(values), p=softmax(policy[name]))] for name, values in space.items()
            }
            levels.append(
                ProposedLevel(
                    level=to_overrides(unflatten(drawn), brief.Level), purpose="drawn from the learned policy"
                )
            )
        return Proposal(levels=tuple(levels))

    def policy(self, space: dict[str, tuple[Any, ...]], history: Sequence[Cycle]) -> dict[str, np.ndarray]:
        """The logits of each setting's values after all that was seen."""
        keep = self.settings.keep_prob
        logits = {}
        for name, values in space.items():
            logits[name] = np.full(len(values), np.log((1 - keep) / len(values)))
            logits[name][0] = np.log(keep + (1 - keep) / len(values))
        for cycle in history:
            self._learn(logits, space, cycle)
        return logits

    def _learn(self, logits: dict[str, np.ndarray], space: dict[str, tuple[Any, ...]], cycle: Cycle) -> None:
        seen = [(_flat(one.level), self.reward(learned))
                for one, learned in zip(cycle.proposal.levels, cycle.outcomes, strict=True) if learned]  # fmt: skip
        worths = np.array([worth for _, worth in seen])
        if len(seen) < 2 or worths.std() < SAME:
            return
        gains = (worths - worths.mean()) / worths.std()  # beside those of the same cycle: the agent's skill moves on
        for name, values in space.items():
            chances, change = softmax(logits[name]), np.zeros(len(values))
            for (level, _), gain in zip(seen, gains, strict=True):
                change += gain * (np.array([level.get(name, values[0]) == value for value in values]) - chances)
            logits[name] += self.settings.learning_rate * change / len(seen)

    def reward(self, learned: LevelOutcome) -> float:
        rates = np.array(list(learned.skills.values())) / 100
        return float(np.exp(-self.settings.beta * (rates - self.settings.alpha) ** 2).mean())


def softmax(logits: np.ndarray) -> np.ndarray:
    chances = np.exp(logits - logits.max())
    return chances / chances.sum()


def _flat(level: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in level.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
