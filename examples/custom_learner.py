"""A custom learner: PPO that clips rewards, with a setting of its own.

    python examples/custom_learner.py

On the command line: `envgen train crafter --learner custom_learner:ClippedRewardPPO` (with this folder on PYTHONPATH).
"""

import tempfile

from pydantic import Field

import envgen
from envgen.agents.ppo import PPO
from envgen.agents.rollout import Rollout
from envgen.agents.settings import PpoSettings

SMALL_PLAN = {"cycles": 1, "levels": 2, "cycle_steps": 2048, "final_steps": 1024, "episodes": 4, "audit_steps": 20,
              "feedback_groups": 2, "feedback_episodes": 2}  # fmt: skip


class ClippedRewardSettings(PpoSettings):
    max_reward: float = Field(default=1.0, gt=0)
    """Rewards are clipped to the range from minus this value to this value."""


class ClippedRewardPPO(PPO):
    settings: ClippedRewardSettings

    @classmethod
    def settings_class(cls) -> type[ClippedRewardSettings]:
        return ClippedRewardSettings

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Improve the policy on a rollout of (steps, environments), and return metrics."""
        limit = self.settings.max_reward
        rollout.rewards = rollout.rewards.clip(-limit, limit)
        return super().update(rollout)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:  # leave `folder` out to keep the run in out/
        run = envgen.train(
            "crafter",
            "random",
            learner=ClippedRewardPPO,
            hyperparameters={"max_reward": 0.5, "num_envs": 32},
            preset="quick",
            plan=SMALL_PLAN,
            folder=f"{folder}/run",
        )
        print(run.report())
