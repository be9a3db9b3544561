"""What the loop lends to designers that rank levels: the score reached in each, by a fresh agent trained there and then
thrown away, or by the run's own agent as it is."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np

from envgen.agents.ppo import PPO
from envgen.agents.settings import PpoSettings
from envgen.designers.designer import ScoredBy
from envgen.worlds.world import World

from .evaluate import Policy, evaluate

EPISODES = 32  # in each level
SEED = 55_000_000


class LevelScorer:
    def __init__(self, world: World, observation: str, agent: PPO, steps: int, seed: int, cycle: int):
        self.world, self.observation, self.agent = world, observation, agent
        self.each, self.seed = steps, [seed, cycle]
        self.steps = 0  # that throw-away agents trained so far

    def score(self, levels: Sequence[dict[str, Any]], by: ScoredBy) -> list[float]:
        if by == "agent":
            return [self._score(self.agent, level) for level in levels]
        return [self._score(self._trained(level, k), level) for k, level in enumerate(levels)]

    def _trained(self, level: dict[str, Any], k: int) -> PPO:
        settings: PpoSettings = self.agent.settings
        seed = int(np.random.SeedSequence([*self.seed, k]).generate_state(1)[0] >> 1)
        made = self.world.make([level], num_envs=settings.num_envs, seed=seed, observation=self.observation)
        with closing(made) as envs:
            fresh = PPO.for_envs(envs, settings=settings, seed=seed, device=self.agent.device, distributed=False)
            fresh.train(envs, self.each)
        self.steps += fresh.steps
        return fresh

    def _score(self, agent: Policy, level: dict[str, Any]) -> float:
        return evaluate(agent, self.world, level, EPISODES, SEED, self.observation).score.value
