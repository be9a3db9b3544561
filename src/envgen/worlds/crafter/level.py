"""`CrafterLevel` holds everything a designer can set in Crafter. The default level is the original game, exactly.

`CrafterLevel.to_params` turns a level into a `LEVEL_PARAMS` record, the form in which the kernels read it.
"""

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from envgen.settings import Settings

from ..world import Level
from . import constants as const

Abundance = Literal["none", "rare", "original", "common", "very common"]
Count = Field(default=0, ge=0, le=const.MAX_ITEM_COUNT)
Tool = Field(default=0, ge=0, le=1)
Vital = Field(default=const.MAX_ITEM_COUNT, ge=1, le=const.MAX_ITEM_COUNT)


SKILL_NAMES = tuple(skill.name for skill in const.SKILLS)
if TYPE_CHECKING:
    DoneSkill = str
else:
    DoneSkill = Literal[("granted", *SKILL_NAMES)]
# the item that a skill results in
_RESULTS = {f"collect_{item}": item for item in ("sapling", "wood", "stone", "coal", "iron", "diamond")}
_RESULTS |= {f"make_{tool}": tool for tool in const.ITEMS if tool.endswith(("_pickaxe", "_sword"))}


class Inventory(Settings):
    """The items the player starts with: 0 or 1 of each tool, 0 to 9 of everything else."""

    sapling: int = Count
    wood: int = Count
    stone: int = Count
    coal: int = Count
    iron: int = Count
    diamond: int = Count
    wood_pickaxe: int = Tool
    stone_pickaxe: int = Tool
    iron_pickaxe: int = Tool
    wood_sword: int = Tool
    stone_sword: int = Tool
    iron_sword: int = Tool


class Vitals(Settings):
    """The player's vital levels at the start, each from 1 to 9; 9 is best."""

    health: int = Vital
    food: int = Vital
    drink: int = Vital
    energy: int = Vital


class Near(Settings):
    """Objects placed within a few cells of the start. They do not count as skills and give no reward."""

    table: bool = False
    """A table, which is needed to make tools."""
    furnace: bool = False
    """A furnace, which is needed in addition to a table to make iron tools. With a table, there is a cell beside
    both."""
    tree: bool = False
    """A tree, which gives wood."""
    ore: Literal["none", "coal", "iron", "diamond"] = "none"
    """A cell of ore to mine."""
    water: bool = False
    """A cell of water to drink from."""
    plant: Literal["none", "sapling", "half grown", "nearly ripe", "ripe"] = "none"
    """A planted sapling, one that ripens in 150 or in 40 steps, or a plant that is ripe to eat. A cow, zombie or
    skeleton next to it destroys it."""
    cows: int = Field(default=0, ge=0, le=4)
    """The number of cows to eat, five steps away."""
    creature: Literal["none", "zombie", "skeleton"] = "none"
    """A zombie on grass or a skeleton on a path, five steps away."""
    cave: bool = False
    """A cave in a rocky hill, six cells away. It has stone to mine, and skeletons can spawn in it."""


class CrafterLevel(Level):
    """A Crafter level. Every setting changes the original game; the default changes nothing."""

    biome: Literal["natural", "grassland", "mountain", "beach"] = "natural"
    """The type of land. natural is the original mix, grassland has no mountains, mountain is mostly rock with caves and
    ores, beach is sand and sea. Every biome has water."""
    trees: Abundance = "original"
    """How many trees grow on grassland."""
    water: Abundance = "original"
    """How much of the land is water. With none, the player dies of thirst."""
    coal: Abundance = "original"
    """How much coal the mountains contain."""
    iron: Abundance = "original"
    """How much iron the mountains contain."""
    diamonds: Abundance = "original"
    """How many diamonds the mountains contain."""
    lava: Abundance = "original"
    """How much lava the mountains contain. Stepping into lava is deadly."""
    tunnels: Abundance = "original"
    """How many dark tunnels run through the mountains. Skeletons live in them."""
    cows: Abundance = "original"
    """How many cows live on grass. With none, the only cows are those of `near`."""
    zombies: Abundance = "original"
    """How many zombies roam on grass. There are more at night."""
    skeletons: Abundance = "original"
    """How many skeletons live in tunnels and caves."""
    respawn: Abundance = "original"
    """How fast new creatures appear where there are few."""
    growth: Literal[0, 1, 2, 4, 8, 16, 32] = 1
    """How many times as fast plants ripen as in the original, where they take 301 steps; with 0 they never do."""
    near: Near = Near()
    """Objects placed close to the start."""
    inventory: Inventory = Inventory()
    """The items the player starts with."""
    vitals: Vitals = Vitals()
    """The player's vital levels at the start."""
    done: tuple[DoneSkill, ...] = ("granted",)
    """Skills that count as achieved from the start: succeeding at them gives no reward. granted stands for those whose
    result the level grants, through `near` or the inventory."""
    time_of_day: int = Field(default=0, ge=0, lt=const.DAY_LENGTH)
    """The step of the 300-step day at which the episode starts. 0 is the original morning, 210 the middle of the
    night."""
    length: int = Field(default=const.MAX_EPISODE_STEPS, ge=1, le=const.MAX_EPISODE_STEPS)
    """The number of steps after which an episode is truncated."""

    @property
    def done_skills(self) -> tuple[str, ...]:
        """The skills that count as achieved from the start."""
        done = set(self.done)
        if "granted" in done:
            items = {name for name, count in self.inventory if count}
            done |= {skill for skill, item in _RESULTS.items() if item in items}
            done |= {f"place_{name}" for name in ("table", "furnace") if getattr(self.near, name)}
            done |= {"place_plant"} if self.near.plant != "none" else set()
        return tuple(skill for skill in SKILL_NAMES if skill in done)

    def to_params(self) -> np.ndarray:
        """This level as a LEVEL_PARAMS record."""
        params = np.array(ORIGINAL_PARAMS)
        for name, value in _BIOMES[self.biome].items():
            params[name] = value
        for setting, changes in _ABUNDANCES.items():
            for name, value in changes.get(getattr(self, setting), {}).items():
                params[name] = params[name] + value if name.endswith("_shift") else value
        land_changed = self.biome != "natural" or self.water != "original"
        params["pond"] = land_changed and self.water != "none"
        for name in ("table", "furnace", "water", "tree", "cows", "cave"):
            params[f"near_{name}"] = getattr(self.near, name)
        params["near_ore"] = ("none", "coal", "iron", "diamond").index(self.near.ore)
        params["near_creature"] = ("none", "zombie", "skeleton").index(self.near.creature)
        params["near_plant"] = ("none", *const.PLANT_AGES).index(self.near.plant)
        params["inventory"] = [*dict(self.vitals).values(), *dict(self.inventory).values()]
        params["growth"] = self.growth
        params["done"] = sum(1 << SKILL_NAMES.index(skill) for skill in self.done_skills)
        params["start_time"], params["length"] = self.time_of_day, self.length
        return params


NEVER = 2.0  # a threshold above every noise value and every uniform number

LEVEL_PARAMS = np.dtype(
    [
        # Terrain: what is added to the noise of water and mountains, and the thresholds. A value must exceed its
        # threshold; "noise" and "uniform" say what is compared with it.
        ("water_shift", np.float64),
        ("mountain_shift", np.float64),
        ("lake", np.float64),  # water noise above this covers mountains too
        ("sand", np.float64),  # water noise above this and up to 0.35 can be sand
        ("tunnel", np.float64),  # noise
        ("coal_noise", np.float64),
        ("coal", np.float64),  # uniform
        ("iron_noise", np.float64),
        ("iron", np.float64),  # uniform
        ("diamond", np.float64),  # uniform
        ("lava", np.float64),  # noise
        ("tree_noise", np.float64),
        ("tree", np.float64),  # uniform
        # Creatures: uniform thresholds of map generation, then multipliers for the population and the spawn rate.
        ("cow", np.float64),
        ("zombie", np.float64),
        ("skeleton", np.float64),
        ("cow_density", np.float64),
        ("zombie_density", np.float64),
        ("skeleton_density", np.float64),
        ("respawn", np.float64),
        ("growth", np.int32),  # what each step adds to the age of a plant
        # Objects placed near the start.
        ("pond", np.int32),
        ("near_table", np.int32),
        ("near_furnace", np.int32),
        ("near_water", np.int32),
        ("near_plant", np.int32),  # 1 sapling, 2 half grown, 3 nearly ripe, 4 ripe
        ("near_cows", np.int32),
        ("near_cave", np.int32),
        ("near_tree", np.int32),
        ("near_ore", np.int32),  # 1 coal, 2 iron, 3 diamond
        ("near_creature", np.int32),  # 1 zombie, 2 skeleton
        # The player and the clock.
        ("inventory", np.int8, len(const.ITEMS)),
        ("done", np.int32),  # bit mask of the skills that give no reward
        ("start_time", np.int32),
        ("length", np.int32),
    ],
    align=True,
)

ORIGINAL_PARAMS = np.zeros((), LEVEL_PARAMS)  # the original game
for _name, _value in {
    "lake": NEVER, "sand": 0.25, "tunnel": 0.4, "coal_noise": 0.0, "coal": 0.85, "iron_noise": 0.4, "iron": 0.75,
    "diamond": 0.994, "lava": 0.35, "tree_noise": 0.0, "tree": 0.8, "cow": 0.985, "zombie": 0.993, "skeleton": 0.95,
    "cow_density": 1.0, "zombie_density": 1.0, "skeleton_density": 1.0, "respawn": 1.0,
    "growth": 1, "inventory": [const.MAX_ITEM_COUNT] * len(const.VITALS) + [0] * (len(const.ITEMS) - len(const.VITALS)),
    "length": const.MAX_EPISODE_STEPS,
}.items():  # fmt: skip
    ORIGINAL_PARAMS[_name] = _value

# The parameters that each option changes; a `_shift` is added to the biome's. docs/crafter.md lists the effects.
_BIOMES: dict[str, dict[str, float]] = {
    "natural": {},
    "grassland": {"mountain_shift": -2.0},
    "mountain": {"mountain_shift": 0.4, "lake": 0.5},
    "beach": {"mountain_shift": -0.6, "water_shift": 0.1, "sand": -0.1},
}
_ABUNDANCES: dict[str, dict[str, dict[str, float]]] = {
    "trees": {
        "none": {"tree": NEVER},
        "rare": {"tree": 0.94},
        "common": {"tree_noise": -0.15, "tree": 0.65},
        "very common": {"tree_noise": -0.3, "tree": 0.5},
    },
    "water": {
        "none": {"water_shift": -9.0},
        "rare": {"water_shift": -0.2},
        "common": {"water_shift": 0.12},
        "very common": {"water_shift": 0.25},
    },
    "coal": {
        "none": {"coal": NEVER},
        "rare": {"coal": 0.95},
        "common": {"coal_noise": -0.1, "coal": 0.7},
        "very common": {"coal_noise": -0.2, "coal": 0.5},
    },
    "iron": {
        "none": {"iron": NEVER},
        "rare": {"iron": 0.92},
        "common": {"iron_noise": 0.25, "iron": 0.65},
        "very common": {"iron_noise": 0.1, "iron": 0.5},
    },
    "diamonds": {
        "none": {"diamond": NEVER},
        "rare": {"diamond": 0.998},
        "common": {"diamond": 0.975},
        "very common": {"diamond": 0.92},
    },
    "lava": {
        "none": {"lava": NEVER},
        "rare": {"lava": 0.45},
        "common": {"lava": 0.2},
        "very common": {"lava": 0.05},
    },
    "tunnels": {
        "none": {"tunnel": NEVER},
        "rare": {"tunnel": 0.5},
        "common": {"tunnel": 0.3},
        "very common": {"tunnel": 0.2},
    },
    "cows": {
        "none": {"cow": NEVER, "cow_density": 0.0},
        "rare": {"cow": 0.995, "cow_density": 0.5},
        "common": {"cow": 0.96, "cow_density": 2.0},
        "very common": {"cow": 0.92, "cow_density": 4.0},
    },
    "zombies": {
        "none": {"zombie": NEVER, "zombie_density": 0.0},
        "rare": {"zombie": 0.998, "zombie_density": 0.5},
        "common": {"zombie": 0.985, "zombie_density": 2.0},
        "very common": {"zombie": 0.97, "zombie_density": 3.0},
    },
    "skeletons": {
        "none": {"skeleton": NEVER, "skeleton_density": 0.0},
        "rare": {"skeleton": 0.98, "skeleton_density": 0.5},
        "common": {"skeleton": 0.9, "skeleton_density": 2.0},
        "very common": {"skeleton": 0.8, "skeleton_density": 3.0},
    },
    "respawn": {
        "none": {"respawn": 0.0},
        "rare": {"respawn": 0.3},
        "common": {"respawn": 2.0},
        "very common": {"respawn": 3.0},
    },
}
