"""Levels in which an action does not pay make the agent forget it; the original in the same batches prevents that.

Agents trained in random levels of Crafter unlearn `wake_up` in the same way. In the original, a sleep takes eleven
steps and nearly always ends well; with little energy and many zombies, it takes fifty or ends in death. The policy
drops the action everywhere, and what is never sampled is not learned again.
"""

from typing import Any

import numpy as np
from gymnasium import spaces
from pydantic import Field

from envgen.agents.ppo import PPO
from envgen.curriculum.evaluate import evaluate
from envgen.curriculum.trainer import make_learner
from envgen.worlds.python_world import PythonEnv, PythonWorld
from envgen.worlds.world import Level, Skill

WORK, SLEEP = 0, 1
NUM_ENVS, NUM_STEPS = 16, 32
SETTINGS = {
    "num_envs": NUM_ENVS, "num_steps": NUM_STEPS, "learning_rate": 0.01, "ent_coef": 0.0, "update_epochs": 4,
    "num_minibatches": 1, "async_collect": False, "bfloat16": False,
}  # fmt: skip


class NapLevel(Level):
    zombies: int = Field(default=0, ge=0, le=1)
    """Whether zombies attack those who sleep."""


class NapEnv(PythonEnv):
    """Work pays a little in every step. Sleeping ends the episode: it pays a lot, unless there are zombies.

    Observations do not show the zombies.
    """

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    max_episode_steps = 5

    def begin(self) -> dict[str, Any]:
        return {"steps": 0}

    def observe(self) -> np.ndarray:
        return np.ones(1, np.float32)

    def advance(self, action: int) -> tuple[float, bool]:
        self.state["steps"] += 1
        if action == WORK:
            return 0.02, False
        if self.level.zombies:
            return -0.2, True
        self.achieve("wake_up")
        return 1.0, True


class NapWorld(PythonWorld):
    name, Level, env_class = "nap", NapLevel, NapEnv
    skills, actions = (Skill("wake_up"),), ("work", "sleep")
    observations, rules = ("symbols",), "Sleep, or work."


def train_phases(*phases: tuple[list[dict[str, int]], int], seed: int = 0, **settings: Any) -> list[float]:
    """The success rate of `wake_up` in the original after each phase of (levels, updates)."""
    world, rates = NapWorld(), []
    agent = make_learner(world, "symbols", PPO, {**SETTINGS, **settings}, seed)
    for levels, updates in phases:
        agent.train(world.make(levels, NUM_ENVS, seed=1), updates * NUM_ENVS * NUM_STEPS)
        rates.append(evaluate(agent, world, None, 64, seed=5).skills["wake_up"].value)
    return rates


ORIGINAL, DANGEROUS = [{}], [{"zombies": 1}]


def test_what_does_not_pay_in_levels_is_not_learned_again_in_the_original():
    learned, in_levels, later = train_phases((ORIGINAL, 15), (DANGEROUS, 40), (ORIGINAL, 4))
    assert learned > 90
    assert in_levels < 5
    assert later < 20


def test_the_original_in_the_same_batches_prevents_forgetting():
    learned, in_levels = train_phases((ORIGINAL, 15), (ORIGINAL + DANGEROUS, 40))
    assert learned > 90
    assert in_levels > 60


def test_a_floor_under_rare_actions_makes_them_learnable_again():
    phases = (ORIGINAL, 15), (DANGEROUS, 40), (ORIGINAL, 15)
    assert train_phases(*phases)[-1] < 20
    rates = [train_phases(*phases, seed=seed, network={"unimix": 0.05})[-1] for seed in range(3)]
    assert np.median(rates) > 60  # few seeds do not learn it within these updates
