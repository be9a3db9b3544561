"""`MiniGrid`: the world that designers, learners and the command line use."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..envs import EngineWorld
from ..observations import OBSERVATION_MODES
from . import constants as const
from .engine import Engine
from .env import MiniGridEnv, MiniGridVectorEnv
from .expert_policy import expert_actions
from .level import MiniGridLevel
from .level_stats import SKILL_LEVELS, MiniGridLevelStats, compute_level_stats, reachable_skills
from .observations import MISSION_INDEX, mission_text, view_map
from .probe import MiniGridProbe
from .render import draw_tile, render_grid

RULES = """\
You are an agent in a small grid of cells, and each episode gives you a mission in words. You see only the 7 x 7 cells
in front of you, and not through walls and closed doors. You turn left, turn right, move forward, pick up the object
ahead, drop what you carry, toggle the object ahead, or say that you are done.
- A mission that succeeds ends the episode with a reward of 1 - 0.9 * steps / maximum steps. Nothing else is rewarded,
  except that in dynamic obstacles a collision costs 1 and ends the episode. Lava ends the episode, too.
- You carry one object at a time: a key, a ball or a box. Toggling opens and closes doors; a locked door opens only
  while you carry the key of its color. Toggling a box destroys it and reveals the key in it, if there is one.
- In most tasks you must reach a green goal: in an empty room (empty), four rooms, a chain of rooms (multi room), behind
  a locked door (door key, locked room), past lava (lava gap, lava crossing, dist shift) or walls (simple crossing),
  past moving balls (dynamic obstacles), in mazes (perfect maze, random walls).
- In others you must open a locked door (unlock), pick up an object behind one (unlock pickup, blocked unlock pickup,
  key corridor, obstructed maze), open the red door before the blue one (red blue doors), remember an object and turn
  towards its like (memory), say that you are done beside a door or an object (go to door, go to object), drop one
  object near another (put near), or pick up a certain object and no other (fetch).
- The original draws one of these tasks for every episode. A skill is to solve a task; infos tell which task an episode
  has.
"""

ACTION_DESCRIPTIONS = {
    "left": "turn left",
    "right": "turn right",
    "forward": "move to the cell ahead if it is empty, floor, a goal, lava or an open door",
    "pickup": "pick up the key, ball or box ahead, if you carry nothing; in memory, the same as toggle",
    "drop": "drop what you carry into the cell ahead, if it is empty",
    "toggle": "open or close the door ahead, which needs its key if it is locked; or open a box, which destroys it",
    "done": "say that you are done, which ends the missions that begin with 'go to'",
}
KEY_BINDINGS = {
    "w": "forward", "a": "left", "d": "right", "up": "forward", "left": "left", "right": "right", "e": "pickup",
    "x": "drop", "space": "toggle", "f": "done",
}  # fmt: skip
LEGEND = {
    "wall": const.WALL, "goal": const.GOAL, "lava": const.LAVA, "key": const.KEY + const.YELLOW,
    "ball": const.BALL + const.BLUE, "box": const.BOX + const.GREY, "closed door": const.CLOSED_DOOR + const.GREEN,
    "locked door": const.LOCKED_DOOR + const.YELLOW, "open door": const.OPEN_DOOR + const.RED,
}  # fmt: skip
ICON_SIZE = 16  # pixels


class MiniGrid(EngineWorld):
    name = "minigrid"
    Level = MiniGridLevel
    skills = const.SKILLS
    actions = const.ACTIONS
    observations = tuple(OBSERVATION_MODES)
    rules = RULES
    skill_levels = SKILL_LEVELS
    action_descriptions = ACTION_DESCRIPTIONS
    key_bindings = KEY_BINDINGS
    vector_env_class, single_env_class = MiniGridVectorEnv, MiniGridEnv
    map_image_size = 320
    ppo_defaults = {"gamma": 0.99, "gae_lambda": 0.95}  # noqa: RUF012  a single reward, often hundreds of steps away
    random_baseline = (
        "uniformly random actions solve 8.2% of the original's episodes "
        "(fetch 39%, empty 34%, memory 29%, random walls 27%, perfect maze 14%, red and blue doors 11%, "
        "the other tasks less than 10%)"
    )

    def level_stats(self, level: Any = None, seeds: Sequence[int] = range(16)) -> MiniGridLevelStats:
        return compute_level_stats(level, seeds)

    def render_map(self, level: Any = None, seed: int = 0) -> np.ndarray:
        """The start of an episode, with what the agent sees highlighted."""
        engine = Engine(1, [MiniGridLevel.parse(level)], False, threads=1)
        engine.start([seed])
        return render_grid(engine.envs[0], (self.map_image_size, self.map_image_size))

    def map_legend(self) -> list[tuple[np.ndarray, str]]:
        agent = (draw_tile(const.EMPTY, const.RIGHT, True, ICON_SIZE), "the agent, and what it sees")
        return [agent, *((draw_tile(code, None, False, ICON_SIZE), name) for name, code in LEGEND.items())]

    def reachable_skills(self, level: Any, stats: MiniGridLevelStats) -> set[str]:
        return reachable_skills(MiniGridLevel.parse(level), stats)

    def expert_actions(self, envs: MiniGridVectorEnv) -> np.ndarray:
        return expert_actions(envs.engine)

    def make_probe(self, envs: MiniGridVectorEnv) -> MiniGridProbe:
        return MiniGridProbe(envs.engine)

    def ascii_map(self, symbols: np.ndarray) -> str:
        return f"{mission_text(symbols[MISSION_INDEX:])}\n{view_map(symbols)}"
