"""For each skill a level in which it is the next entity to learn, and which skills a level leaves within reach."""

from typing import Any

from . import constants as const
from .level import CrafterLevel
from .level_stats import CrafterLevelStats

# What a skill needs is granted, but for as much as leaves something to learn, and what it acts on is at hand.
SKILL_LEVELS: dict[str, dict[str, Any]] = {
    "collect_coal": {"coal": "common", "near": {"cave": True}, "inventory": {"wood_pickaxe": 1}},
    "collect_diamond": {
        "biome": "mountain", "diamonds": "very common", "near": {"cave": True},
        "inventory": {"stone_pickaxe": 1, "iron_pickaxe": 1, "wood_pickaxe": 1},
    },
    "collect_drink": {"water": "common", "near": {"water": True}, "vitals": {"drink": 4}},
    "collect_iron": {
        "biome": "mountain", "iron": "very common", "near": {"cave": True},
        "inventory": {"wood_pickaxe": 1, "stone_pickaxe": 1},
    },
    "collect_sapling": {"biome": "grassland"},
    "collect_stone": {"near": {"cave": True}, "inventory": {"wood_pickaxe": 1}},
    "collect_wood": {"trees": "common"},
    "defeat_skeleton": {
        "biome": "mountain", "tunnels": "common", "skeletons": "very common", "near": {"cave": True},
        "inventory": {"wood_sword": 1, "stone_sword": 1},
    },
    "defeat_zombie": {"biome": "grassland", "zombies": "common", "inventory": {"wood_sword": 1}},
    "eat_cow": {"cows": "common", "near": {"cows": 3}, "vitals": {"food": 4}},
    "eat_plant": {"near": {"plant": "ripe"}, "cows": "rare", "zombies": "rare", "inventory": {"sapling": 2}},
    "make_iron_pickaxe": {
        "near": {"table": True, "furnace": True, "cave": True},
        "inventory": {"wood": 2, "coal": 2, "iron": 2, "stone_pickaxe": 1, "wood_pickaxe": 1},
    },
    "make_iron_sword": {
        "near": {"table": True, "furnace": True, "cave": True},
        "inventory": {"wood": 2, "coal": 2, "iron": 2, "stone_pickaxe": 1, "wood_pickaxe": 1},
    },
    "make_stone_pickaxe": {
        "near": {"table": True, "cave": True}, "inventory": {"wood": 2, "stone": 2, "wood_pickaxe": 1},
    },
    "make_stone_sword": {
        "near": {"table": True, "cave": True}, "inventory": {"wood": 2, "stone": 2, "wood_pickaxe": 1},
    },
    "make_wood_pickaxe": {"near": {"table": True}, "inventory": {"wood": 2}},
    "make_wood_sword": {"near": {"table": True}, "inventory": {"wood": 2}},
    "place_furnace": {"near": {"cave": True}, "inventory": {"wood_pickaxe": 1, "stone": 2}},
    "place_plant": {"biome": "grassland"},
    "place_stone": {"near": {"cave": True}, "inventory": {"wood_pickaxe": 1}},
    "place_table": {"trees": "common", "inventory": {"wood": 1}},
    "wake_up": {"zombies": "rare", "time_of_day": 180, "vitals": {"energy": 3}},
}  # fmt: skip


# What gathers each item, and with which pickaxe; what places what, from how many items. A stone that was put down
# can be mined again, which makes no more of them; mining leaves path behind, on which skeletons appear.
_SOURCES = {"wood": ("tree", None), "sapling": ("grass", None), "stone": ("stone", "wood"), "coal": ("coal", "wood"),
            "iron": ("iron", "stone"), "diamond": ("diamond", "iron")}  # fmt: skip
_PLACES = {"table": ("wood", const.TABLE_WOOD), "furnace": ("stone", const.FURNACE_STONE), "stone": ("stone", 1),
           "plant": ("sapling", 1)}  # fmt: skip
_MINED = {"collect_stone", "collect_coal", "collect_iron", "collect_diamond"}
_HOMES = {"cow": ("eat_cow", "grass"), "zombie": ("defeat_zombie", "grass"), "skeleton": ("defeat_skeleton", "path")}


def reachable_skills(level: CrafterLevel, census: CrafterLevelStats) -> set[str]:
    """The skills that worlds like those counted leave possible, given patience, skill and luck; the others are not."""
    held, near = dict(level.inventory), dict(level.near)

    def there(name: str) -> bool:
        return census.found[name] > 0

    def appears(creature: str, home: str) -> bool:
        lives = getattr(level, f"{creature}s") != "none" and level.respawn != "none"
        return lives and (there(home) or (home == "path" and bool(can & _MINED)))

    can = {"wake_up"} | ({"collect_drink"} if there("water") else set())

    def enough(item: str, count: int) -> bool:
        return held[item] >= count or (f"collect_{item}" in can and there(_SOURCES[item][0]))

    def has(tool: str) -> bool:
        return held[tool] > 0 or f"make_{tool}" in can

    def makes(tool: str) -> bool:
        beside = ("table", "furnace") if tool in const.NEEDS_FURNACE else ("table",)
        ready = all(near[place] or f"place_{place}" in can for place in beside)
        return ready and all(enough(item, count) for item, count in const.RECIPES[tool].items())

    before: set[str] = set()
    while can != before:
        before = set(can)
        for item, (source, tool) in _SOURCES.items():
            if (there(source) or f"place_{source}" in can) and (tool is None or has(f"{tool}_pickaxe")):
                can.add(f"collect_{item}")
        can |= {f"place_{entity}" for entity, (item, count) in _PLACES.items() if enough(item, count)}
        can |= {f"make_{tool}" for tool in const.RECIPES if makes(tool)}
        can |= {skill for creature, (skill, home) in _HOMES.items() if there(creature) or appears(creature, home)}
        if "place_plant" in can or near["plant"] != "none":
            can.add("eat_plant")
    return can
