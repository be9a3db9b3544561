"""`Heist`: the world that designers, learners and the command line use."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..envs import EngineWorld
from ..observations import OBSERVATION_MODES
from .constants import ACTIONS, NUM_MOVES, SKILLS
from .engine import Engine
from .env import HeistEnv, HeistVectorEnv
from .expert_policy import expert_actions
from .level import HeistLevel, HeldKeys, OpenDoors
from .level_stats import SKILL_LEVELS, HeistLevelStats, compute_level_stats, reachable_skills
from .probe import CONDITIONS, HeistProbe
from .render import preview_legend, render_preview

RULES = """\
You are a thief in a maze of narrow corridors, seen from above. Touching the yellow gem ends the episode with a reward
of 10. In the original, nothing else is rewarded. Nothing can kill you, but an episode is truncated after 1,000 steps.
- In each step you press one of eight directions, or none. You accelerate up to 0.61 cells per step and keep gliding
  when you press nothing. You are three quarters as wide as a corridor, so you can only turn into a corridor when you
  are almost aligned with it.
- Up to three locked doors (blue, green and red) stand where corridors fork. A door blocks you until you hold the key
  of its color; then it opens when you touch it. You take a key by touching it, and keep it.
- The keys form a chain: the blue key is freely accessible, the green key lies behind the blue door, the red key behind
  the green door, and the gem behind the last door. Every maze can be solved.
- Every episode has a new maze, 5 to 13 cells on a side. In the original's hard mode, 10, 20, 20 and 50 percent of the
  mazes have no, one, two and three keys. A skill is impossible in a maze without its key or door; infos tell which
  skills are possible.
- The hard and easy modes show the whole maze. The memory mode has mazes of up to 23 cells on a side and shows only the
  8 x 8 cells around you.
"""

REWARD_RULE = "10 for the gem, which ends the episode, and what the settings of the level add."

KEY_BINDINGS = {
    "w": "up", "a": "left", "s": "down", "d": "right",
    "up": "up", "left": "left", "down": "down", "right": "right",
    "y": "left_up", "u": "right_up", "b": "left_down", "n": "right_down",  # as in roguelike games
    ".": "noop",
}  # fmt: skip


ACTION_DESCRIPTIONS = {
    "noop": "press nothing, and glide on",
    **dict.fromkeys(ACTIONS[NUM_MOVES:], "a key without effect in this game"),
}


class Heist(EngineWorld):
    name = "heist"
    Level = HeistLevel
    skills = SKILLS
    actions = ACTIONS
    observations = tuple(OBSERVATION_MODES)
    rules = RULES
    reward_rule = REWARD_RULE
    action_descriptions = ACTION_DESCRIPTIONS
    skill_levels = SKILL_LEVELS
    conditions = CONDITIONS
    key_bindings = KEY_BINDINGS
    ppo_defaults = {"gamma": 0.999, "gae_lambda": 0.95}  # noqa: RUF012  a single reward, hundreds of steps away
    plan_defaults = {  # noqa: RUF012
        "paper": {"cycles": 1, "cycle_steps": 25_000_000, "ratio": 0.25, "final_steps": 0},  # 5M steps, then 20M
    }
    vector_env_class, single_env_class = HeistVectorEnv, HeistEnv
    map_image_size = 384
    published_skill = "steal_gem"
    random_baseline = (
        "uniformly random actions steal the gem in 18.7% of the original's mazes (easy 30.3%, memory 12.7%)"
    )

    def level_stats(self, level: Any = None, seeds: Sequence[int] = range(16)) -> HeistLevelStats:
        return compute_level_stats(level, seeds)

    def render_map(self, level: Any = None, seed: int = 0) -> np.ndarray:
        """The start of an episode, with markers that `map_legend` explains."""
        level = HeistLevel.parse(level)
        unmodified = level.model_copy(update={"held_keys": HeldKeys(), "open_doors": OpenDoors()})
        engine = Engine(2, [level, unmodified], False, threads=1)
        engine.start([seed, seed])
        return render_preview(engine.envs[0], engine.envs[1], level, self.map_image_size)

    def map_legend(self) -> list[tuple[np.ndarray, str]]:
        return preview_legend()

    def reachable_skills(self, level: Any, stats: HeistLevelStats) -> set[str]:
        return reachable_skills(HeistLevel.parse(level), stats)

    def expert_actions(self, envs: HeistVectorEnv) -> np.ndarray:
        return expert_actions(envs.engine)

    def status(self, info: Mapping[str, Any]) -> Mapping[str, int]:
        return {f"{color}_key": int(held) for color, held in info["held_keys"].items()}

    def make_probe(self, envs: HeistVectorEnv) -> HeistProbe:
        return HeistProbe(envs.engine)
