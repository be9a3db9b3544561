"""`Crafter`: the world that designers, learners and the command line use."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..envs import EngineWorld
from ..observations import OBSERVATION_MODES
from .constants import (
    ACTIONS,
    DIRECTIONS,
    FURNACE_STONE,
    MAP_SIZE,
    MAX_ITEM_COUNT,
    NEEDS_FURNACE,
    RECIPES,
    SKILLS,
    TABLE_WOOD,
    VITALS,
)
from .engine import Engine
from .env import CrafterEnv, CrafterVectorEnv
from .expert_policy import expert_actions
from .level import CrafterLevel, Near
from .level_stats import SKILL_LEVELS, CrafterLevelStats, compute_level_stats, reachable_skills
from .observations import ascii_map, describe_result
from .probe import CONDITIONS, CrafterProbe
from .render import CELL_SIZE, MAX_CELL_SIZE, MIN_CELL_SIZE, draw_legend, draw_map

if TYPE_CHECKING:
    from .reference import ReferenceCrafterVectorEnv

RULES = """\
You control a person in a square world of 64 x 64 cells and see the 9 x 7 cells around you. In each step you move, act
on the cell you face (hit a creature, collect a material or place something), sleep, or make a tool.
- Trees give wood. A table costs two wood. Next to a table, one wood makes a wood pickaxe or a wood sword.
- A wood pickaxe mines stone and coal. Next to a table, one wood and one stone make a stone pickaxe or a stone sword.
- A stone pickaxe mines iron. A furnace costs four stone. Next to a table and a furnace, one wood, one coal and one iron
  make an iron pickaxe or an iron sword. An iron pickaxe mines diamonds.
- A placed stone blocks creatures and bridges water and lava. Stepping into lava kills you.
- Grass gives a sapling one time in ten. A sapling planted on grass ripens in 300 steps and can then be eaten, but a
  cow, zombie or skeleton next to it destroys it. Plants and creatures more than 17 steps away do not change.
- Health, food, drink and energy range from 0 to 9. Food, drink and energy fall over time. While any of them is 0,
  health falls; otherwise it slowly recovers. Cows give food, water gives drink. Sleep restores energy; you wake up when
  it is full or when you are hurt.
- Zombies spawn on grass, more of them at night. They approach and hit you, harder while you sleep. Skeletons live in
  tunnels and caves and shoot arrows. Better swords do more damage.
- A day has 300 steps. It is dark from step 150 to 270, darkest at step 210, and bright again at the end of the day.
"""

REWARD_RULE = """\
1 in each step in which a skill succeeds for the first time in the episode, unless the level grants or lists it as done;
0.1 for each point of health regained, and -0.1 for each point lost. Nothing else is rewarded, and what is not rewarded
for long is unlearned. A list in `done` replaces the default: include "granted" to keep it."""

ACTION_DESCRIPTIONS = {
    "noop": "wait",
    **{f"move_{name}": f"face {name}, and move there if that cell is grass, sand or path" for name in DIRECTIONS},
    "do": "act on the cell that you face: collect a material, drink, hit a creature, eat a cow or a ripe plant",
    "sleep": "fall asleep, if your energy is below 9; then you sleep until you wake up, whatever you do",
    "place_stone": "place a stone on the cell that you face: grass, sand, path, water or lava",
    "place_table": f"place a table on the cell that you face: grass, sand or path; costs {TABLE_WOOD} wood",
    "place_furnace": f"place a furnace on the cell that you face: grass, sand or path; costs {FURNACE_STONE} stone",
    "place_plant": "plant a sapling on the cell that you face, which must be grass",
    **{
        f"make_{tool}": f"needs a table{' and a furnace' if tool in NEEDS_FURNACE else ''} among the eight cells "
        f"around you; costs {', '.join(f'{count} {item}' for item, count in costs.items())}"
        for tool, costs in RECIPES.items()
    },
}

KEY_BINDINGS = {
    "w": "move_up", "a": "move_left", "s": "move_down", "d": "move_right",
    "up": "move_up", "left": "move_left", "down": "move_down", "right": "move_right",
    "space": "do", "z": "sleep", ".": "noop",
    "x": "place_stone", "t": "place_table", "f": "place_furnace", "p": "place_plant",
    "1": "make_wood_pickaxe", "2": "make_stone_pickaxe", "3": "make_iron_pickaxe",
    "4": "make_wood_sword", "5": "make_stone_sword", "6": "make_iron_sword",
}  # fmt: skip


class Crafter(EngineWorld):
    name = "crafter"
    Level = CrafterLevel
    skills = SKILLS
    actions = ACTIONS
    observations = tuple(OBSERVATION_MODES)
    rules = RULES
    reward_rule = REWARD_RULE
    action_descriptions = ACTION_DESCRIPTIONS
    skill_levels = SKILL_LEVELS
    conditions = CONDITIONS
    key_bindings = KEY_BINDINGS
    gauges = dict.fromkeys(VITALS, MAX_ITEM_COUNT)
    vector_env_class, single_env_class = CrafterVectorEnv, CrafterEnv
    map_image_size = MAP_SIZE * CELL_SIZE

    def reference_envs(
        self, num_envs: int, seed: int, observation: str = "symbols", episodes: int = 1, ordered: bool = False
    ) -> "ReferenceCrafterVectorEnv":
        """Environments of the reference, the package `crafter`, that play at least `episodes` episodes in all."""
        # imported here, because the package cannot be imported where its kernels cannot be cached beside it
        from .reference import ReferenceCrafterVectorEnv

        return ReferenceCrafterVectorEnv(num_envs, seed, observation, -(-episodes // num_envs), ordered)

    def level_stats(self, level: Any = None, seeds: Sequence[int] = range(16)) -> CrafterLevelStats:
        return compute_level_stats(level, seeds)

    def render_map(self, level: Any = None, seed: int = 0, cell_size: int = CELL_SIZE) -> np.ndarray:
        """The whole map in daylight, (64 * cell_size, 64 * cell_size, 3), with markers that `map_legend` explains."""
        if not MIN_CELL_SIZE <= cell_size <= MAX_CELL_SIZE:
            raise ValueError(f"cell_size must be from {MIN_CELL_SIZE} to {MAX_CELL_SIZE} pixels, not {cell_size}")
        level = CrafterLevel.parse(level)
        engine = Engine(2, [level, level.model_copy(update={"near": Near()})], False, threads=1)
        engine.start([seed, seed])
        env, other = engine.envs
        return draw_map(env, engine.state.entities[0][: env["num_entities"]], other["ground"], level, cell_size)

    def map_legend(self) -> list[tuple[np.ndarray, str]]:
        return draw_legend()

    def reachable_skills(self, level: Any, stats: CrafterLevelStats) -> set[str]:
        return reachable_skills(CrafterLevel.parse(level), stats)

    def expert_actions(self, envs: CrafterVectorEnv) -> np.ndarray:
        return expert_actions(envs.engine)

    def make_probe(self, envs: CrafterVectorEnv) -> CrafterProbe:
        return CrafterProbe(envs.engine)

    def describe_result(self, action: str, before: str, after: str) -> str:
        return describe_result(action, before, after)

    def status(self, info: Mapping[str, Any]) -> Mapping[str, int]:
        return info["inventory"]

    def ascii_map(self, symbols: np.ndarray) -> str:
        return ascii_map(symbols)
