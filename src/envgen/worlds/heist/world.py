"""Heist as a World: the object through which everything above `worlds/` knows it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..envs import EngineWorld
from ..observations import OBSERVATION_MODES
from .constants import ACTIONS, SKILLS
from .engine import Engine
from .env import HeistEnv, HeistVectorEnv
from .expert_policy import expert_actions
from .level import HeistLevel
from .level_stats import HeistLevelStats, compute_level_stats
from .render import render_hd
from .skill_levels import SKILL_LEVELS, reachable_skills

RULES = """\
You are a thief in a maze of narrow corridors, seen from above. A yellow gem lies somewhere in it; touching it ends the
episode with the only reward of the original, 10. Nothing else is rewarded and nothing can kill you, but after 1,000
steps the episode is cut off.
- Each step you press one of eight directions or none. You glide: pressing speeds you up to 0.61 cells a step, and you
  coast on when you stop. You are three quarters of a corridor wide, so to turn into one you must be nearly in line.
- Up to three locked doors, blue, green and red, stand where corridors part. A door stops you until you hold the key of
  its colour; then it opens as you touch it. Touching a key takes it; keys are kept.
- The key of a door always lies where the doors before it lead: the blue key lies in the open, the green one where the
  blue door leads to, the red one where the green door leads to, the gem behind the last. Every maze can be solved.
- Mazes are new in every episode: 5 to 13 cells a side, with no, one, two or three keys in 10, 20, 20 and 50 percent
  of the original's hard mode. What is not in a maze cannot be done in it; infos say what is possible in each.
- The hard and easy modes show the whole maze; the memory mode has mazes of up to 23 cells a side and shows only the
  8 x 8 cells around you.
"""

KEY_BINDINGS = {
    "w": "up", "a": "left", "s": "down", "d": "right",
    "up": "up", "left": "left", "down": "down", "right": "right",
    "y": "left_up", "u": "right_up", "b": "left_down", "n": "right_down",  # as in roguelike games
    ".": "noop",
}  # fmt: skip


class Heist(EngineWorld):
    name = "heist"
    Level = HeistLevel
    skills = SKILLS
    actions = ACTIONS
    observations = tuple(OBSERVATION_MODES)
    rules = RULES
    skill_levels = SKILL_LEVELS
    key_bindings = KEY_BINDINGS
    ppo_defaults = {"gamma": 0.999, "gae_lambda": 0.95}  # noqa: RUF012  a single reward, hundreds of steps away
    plan_defaults = {  # noqa: RUF012
        "paper": {"cycles": 1, "cycle_steps": 25_000_000, "ratio": 0.25, "final_steps": 0},  # 5M steps, then 20M
    }
    vector_env_class, single_env_class = HeistVectorEnv, HeistEnv
    map_image_size = 384
    published_skill = "steal_gem"
    random_baseline = (
        "uniformly random players steal the gem in 18.7% of the original's mazes (easy 30.3%, memory 12.7%)"
    )

    def level_stats(self, level: Any = None, seeds: Sequence[int] = range(16)) -> HeistLevelStats:
        return compute_level_stats(level, seeds)

    def render_map(self, level: Any = None, seed: int = 0) -> np.ndarray:
        engine = Engine(1, [HeistLevel.parse(level)], False, threads=1)
        engine.start([seed])
        return render_hd(engine.envs[0], self.map_image_size, full_view=True)

    def reachable_skills(self, level: Any, stats: HeistLevelStats) -> set[str]:
        return reachable_skills(HeistLevel.parse(level), stats)

    def expert_actions(self, envs: HeistVectorEnv) -> np.ndarray:
        return expert_actions(envs.engine)
