"""How long, in what and how often: the numbers of a curriculum. Every ablation of the EnvGen paper is one of them."""

from typing import Annotated, Any, Literal

from pydantic import Field

from envgen.settings import Settings

EVALUATION_SEED = 1 << 31  # the seeds of training lie below

Count = Annotated[int, Field(ge=1)]
Steps = Annotated[int, Field(ge=0)]


class TrainingPlan(Settings):
    """The defaults are the paper's for Crafter."""

    cycles: Steps = 4
    """Turns of the loop: design, train in the levels, train in the original, evaluate (table 3)."""
    levels: Count = 4
    """Levels designed in each cycle, and trained in side by side (table 6)."""
    cycle_steps: Count = 240_000
    """Training steps of a cycle, in levels and original together (tables 3 and 4)."""
    ratio: Annotated[float, Field(ge=0)] = 1.0
    """Steps in the levels for each step in the original; 5 is the paper's 5:1 (table 7)."""
    mixing: Literal["alternate", "mixed"] = "alternate"
    """Levels and original one after the other, as in the paper, or side by side in the same batches."""
    final_steps: Steps = 1_000_000
    """Training steps in the original after the last cycle. The published score is taken over these."""
    feedback_seeds: Annotated[int, Field(ge=2)] = 12
    """Over how many seeds the success rates that go back to the designer are taken."""
    feedback_episodes: Count = 20
    """Episodes of each of these seeds."""
    episodes: Count = 256
    """Episodes of the final evaluation."""
    ranking_steps: Count = 60_000
    """Steps that a throw-away agent trains in each level, for the designers that rank levels. Nobody else learns from
    them, and they are counted apart."""
    audit_steps: Steps = 500
    """Steps for which each of the audit's players plays in each level; 0 to have no audit."""

    @property
    def level_steps(self) -> int:
        return round(self.cycle_steps * self.ratio / (1 + self.ratio))

    @property
    def original_steps(self) -> int:
        return self.cycle_steps - self.level_steps

    def num_level_envs(self, environments: int) -> int:
        """Of environments trained in side by side, those that play levels, not the original."""
        return round(environments * self.ratio / (1 + self.ratio))

    @property
    def total_steps(self) -> int:
        return self.cycles * self.cycle_steps + self.final_steps


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "quick": {"cycle_steps": 120_000, "final_steps": 400_000, "feedback_episodes": 10, "episodes": 128},
}
FOR_WORLD: dict[tuple[str, str], dict[str, Any]] = {  # (preset, world): what differs
    ("paper", "heist"): {"cycles": 1, "cycle_steps": 25_000_000, "ratio": 0.25, "final_steps": 0},  # 5M, then 20M
}
PPO_DEFAULTS: dict[str, dict[str, Any]] = {  # world: what differs in how the agent learns
    "heist": {"gamma": 0.999, "gae_lambda": 0.95},  # one reward, hundreds of steps away
}


def plan_for(preset: str, world: str = "crafter", **changes: Any) -> TrainingPlan:
    return TrainingPlan(**{**PRESETS[preset], **FOR_WORLD.get((preset, world), {}), **changes})
