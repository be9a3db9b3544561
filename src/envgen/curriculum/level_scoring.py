"""Scores of levels for the designers that rank them: how well an agent does in each level.

The agent is either the one that trains in the run, or a throwaway agent trained from scratch in each level.
"""

from collections.abc import Sequence
from contextlib import closing

import numpy as np

from envgen.agents.learner import Learner, SupportsAct
from envgen.designers.designer import ScoredBy
from envgen.worlds.world import Level, World

from .evaluate import evaluate

NUM_EPISODES = 32  # in each level
SEED = 55_000_000


class LevelScorer:
    """Scores levels for one cycle. `steps` counts the training of throwaway agents.

    Args:
        learner: The learner of the run.
        train_steps: Steps that a throwaway agent trains in each level.
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
        """Return the score that the run's agent, or a throwaway agent trained there, reaches in each level."""
        if scored_by == "agent":
            return [self._evaluate(self.learner, level) for level in levels]
        return [self._evaluate(self._train_throwaway(level, k), level) for k, level in enumerate(levels)]

    def _train_throwaway(self, level: Level, index: int) -> Learner:
        seed = int(np.random.SeedSequence([*self.seeds, index]).generate_state(1)[0] >> 1)
        num_envs = self.learner.settings.num_envs
        with closing(self.world.make([level], num_envs=num_envs, seed=seed, observation=self.observation)) as envs:
            throwaway = self.learner.untrained_copy(seed)
            throwaway.train(envs, self.train_steps)
        self.steps += throwaway.steps
        return throwaway

    def _evaluate(self, agent: SupportsAct, level: Level) -> float:
        return evaluate(agent, self.world, level, NUM_EPISODES, SEED, self.observation).score.value
