"""`CrafterLevel`: everything a designer may set in Crafter. The default is the original game, exactly."""

from typing import Literal

import numpy as np
from pydantic import Field

from envgen.settings import Settings

from ..world import Level
from . import constants as const
from .dials import NEVER, ORIGINAL

Abundance = Literal["none", "rare", "original", "common", "very common"]
Count = Field(default=0, ge=0, le=const.MAX_ITEM_COUNT)
Tool = Field(default=0, ge=0, le=1)
Vital = Field(default=const.MAX_ITEM_COUNT, ge=1, le=const.MAX_ITEM_COUNT)


class Inventory(Settings):
    """What the player holds at the start; tools 0 or 1, everything else 0 to 9."""

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
    """The player's body at the start; each 1 to 9, 9 is best."""

    health: int = Vital
    food: int = Vital
    drink: int = Vital
    energy: int = Vital


class Near(Settings):
    """What stands within a few cells of the start. Putting it there grants no skill and no reward."""

    table: bool = False
    """A table, beside which tools are made."""
    furnace: bool = False
    """A furnace, which iron tools need besides a table."""
    water: bool = False
    """A cell of water to drink from."""
    plant: Literal["none", "sapling", "ripe"] = "none"
    """A planted sapling, or one that is ripe to eat; a cow, zombie or skeleton next to it destroys it."""
    cows: int = Field(default=0, ge=0, le=4)
    """Cows to eat, five steps away."""
    cave: bool = False
    """A cave in a rocky hill, six cells away: stone to mine, and dark enough for skeletons."""


class CrafterLevel(Level):
    """A Crafter world. Every setting is a change to the original game; the default changes nothing."""

    biome: Literal["natural", "grassland", "mountain", "beach"] = "natural"
    """The land: natural is the original mix, grassland has no mountains, mountain is mostly rock with caves and ores,
    beach is sand and sea. Every biome has water."""
    trees: Abundance = "original"
    """How many trees grow on grassland."""
    water: Abundance = "original"
    """How much of the land is water; with none the player dies of thirst."""
    coal: Abundance = "original"
    """How much coal lies in the mountains."""
    iron: Abundance = "original"
    """How much iron lies in the mountains."""
    diamonds: Abundance = "original"
    """How many diamonds lie in the mountains."""
    lava: Abundance = "original"
    """How much lava, deadly to step on, lies in the mountains."""
    tunnels: Abundance = "original"
    """How many dark tunnels run through the mountains; skeletons live in them."""
    cows: Abundance = "original"
    """How many cows live on the grass; with none only those of `near` exist."""
    zombies: Abundance = "original"
    """How many zombies roam the grass; more at night."""
    skeletons: Abundance = "original"
    """How many skeletons live in tunnels and caves."""
    respawn: Abundance = "original"
    """How fast new creatures appear where they have become few."""
    near: Near = Near()
    """What stands close to the start."""
    inventory: Inventory = Inventory()
    """What the player holds at the start."""
    vitals: Vitals = Vitals()
    """The player's body at the start."""
    time_of_day: int = Field(default=0, ge=0, lt=const.DAY_LENGTH)
    """Steps into the day of 300 at which the episode begins: 0 is the original morning, 210 the middle of the night."""
    length: int = Field(default=const.MAX_EPISODE_STEPS, ge=1, le=const.MAX_EPISODE_STEPS)
    """Steps after which an episode is cut off."""

    def to_params(self) -> np.ndarray:
        """This level as a DIALS record."""
        dials = np.array(ORIGINAL)
        for name, value in _BIOMES[self.biome].items():
            dials[name] = value
        for setting, values in _ABUNDANCES.items():
            for name, value in values.get(getattr(self, setting), {}).items():
                dials[name] = dials[name] + value if name.endswith("_shift") else value
        land_changed = self.biome != "natural" or self.water != "original"
        dials["pond"] = land_changed and self.water != "none"
        for name in ("table", "furnace", "water", "cows", "cave"):
            dials[f"near_{name}"] = getattr(self.near, name)
        dials["near_plant"] = ("none", "sapling", "ripe").index(self.near.plant)
        dials["inventory"] = [*dict(self.vitals).values(), *dict(self.inventory).values()]
        dials["dawn"], dials["length"] = self.time_of_day, self.length
        return dials


# What each word changes; a shift adds to the biome's. docs/crafter.md shows what comes of it, counted.
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
