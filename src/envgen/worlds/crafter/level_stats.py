"""Statistics of the maps that a level generates, the skills that they allow, and a level that teaches each skill.

The statistics count each material and creature and measure its distance from the start.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..validation import check_stats_seeds
from . import constants as const
from .engine import Engine
from .level import CrafterLevel

CREATURES = ("cow", "zombie", "skeleton", "plant")


class CrafterLevelStats(NamedTuple):
    """Means over generated maps. Distances are Manhattan distances from the start."""

    num_maps: int
    cells: dict[str, float]  # number of cells by material
    creatures: dict[str, float]  # number of creatures by kind
    nearest_distances: dict[str, float | None]  # over the maps that have one; None if no map does
    presence: dict[str, float]  # fraction of the maps that have at least one

    def as_dict(self) -> dict[str, float]:
        """All statistics by name: counts, distances where there are any, and the percentage of maps with each."""
        values = {f"{name} per world": count for name, count in {**self.cells, **self.creatures}.items()}
        values |= {f"steps to the nearest {name}": d for name, d in self.nearest_distances.items() if d is not None}
        return values | {f"worlds with {name}, %": 100 * share for name, share in self.presence.items()}

    def __str__(self) -> str:
        lines = [f"{'':10} {'count':>8} {'nearest':>8} {'in maps':>9}   (means of {self.num_maps} maps)"]
        for name, count in {**self.cells, **self.creatures}.items():
            distance = "-" if self.nearest_distances[name] is None else f"{self.nearest_distances[name]:.1f}"
            lines.append(f"{name:10} {count:8.1f} {distance:>8} {self.presence[name]:9.0%}")
        return "\n".join(lines)


def compute_level_stats(level: Any = None, seeds: Sequence[int] = range(16)) -> CrafterLevelStats:
    """Generate one map of the level per seed and return statistics over them."""
    level = CrafterLevel.parse(level)  # frozen models are hashable
    return _compute_level_stats(level, tuple(check_stats_seeds(seeds)))  # pyright: ignore[reportArgumentType]


@functools.lru_cache(maxsize=256)  # a run asks for the same levels again and again, and a brief for about 90 of them
def _compute_level_stats(level: CrafterLevel, seeds: tuple[int, ...]) -> CrafterLevelStats:
    engine = Engine(len(seeds), [level], False, threads=1)
    engine.start(seeds)
    ground = engine.state.envs["ground"]
    masks = {name: ground == m for m, name in enumerate(const.MATERIALS) if m != const.OUTSIDE}
    for name in CREATURES:
        masks[name] = np.stack([_entity_mask(engine, i, const.ENTITIES.index(name)) for i in range(len(seeds))])
    x, y = np.indices((const.MAP_SIZE, const.MAP_SIZE))
    distances = np.abs(x - const.CENTER) + np.abs(y - const.CENTER)
    counts = {name: float(mask.sum(axis=(1, 2)).mean()) for name, mask in masks.items()}
    nearest, presence = {}, {}
    for name, mask in masks.items():
        shortest = np.where(mask, distances, 2 * const.MAP_SIZE).min(axis=(1, 2))
        is_present = shortest < 2 * const.MAP_SIZE
        nearest[name] = float(shortest[is_present].mean()) if is_present.any() else None
        presence[name] = float(is_present.mean())
    return CrafterLevelStats(
        num_maps=len(seeds),
        cells={name: counts[name] for name in const.MATERIALS[1:]},
        creatures={name: counts[name] for name in CREATURES},
        nearest_distances=nearest,
        presence=presence,
    )


def _entity_mask(engine: Engine, i: int, kind: int) -> np.ndarray:
    entities = engine.state.entities[i][: engine.state.envs["num_entities"][i]]
    entities = entities[entities["kind"] == kind]
    mask = np.zeros((const.MAP_SIZE, const.MAP_SIZE), np.bool_)
    mask[entities["x"], entities["y"]] = True
    return mask


# --- skills

# For each skill, a level in which it is the next thing to learn: the level provides most prerequisites, and what the
# skill acts on is nearby. Chains withdraw the prerequisites in the order in which they are listed here
# (designers/chains.py).
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
        "near": {"furnace": True, "table": True, "cave": True},
        "inventory": {"coal": 2, "iron": 2, "wood": 2, "stone_pickaxe": 1, "wood_pickaxe": 1},
    },
    "make_iron_sword": {
        "near": {"furnace": True, "table": True, "cave": True},
        "inventory": {"coal": 2, "iron": 2, "wood": 2, "stone_pickaxe": 1, "wood_pickaxe": 1},
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


# Where each item is collected, and the pickaxe this needs.
_SOURCES = {"wood": ("tree", None), "sapling": ("grass", None), "stone": ("stone", "wood"), "coal": ("coal", "wood"),
            "iron": ("iron", "stone"), "diamond": ("diamond", "iron")}  # fmt: skip
# The item and the count that placing an object costs.
_PLACE_COSTS = {"table": ("wood", const.TABLE_WOOD), "furnace": ("stone", const.FURNACE_STONE), "stone": ("stone", 1),
                "plant": ("sapling", 1)}  # fmt: skip
_MINING_SKILLS = {"collect_stone", "collect_coal", "collect_iron", "collect_diamond"}
# The skill of each creature and the ground it spawns on.
_CREATURES = {
    "cow": ("eat_cow", "grass"), "zombie": ("defeat_zombie", "grass"), "skeleton": ("defeat_skeleton", "path"),
}  # fmt: skip


def reachable_skills(level: CrafterLevel, stats: CrafterLevelStats) -> set[str]:
    """The skills that are possible on maps with these statistics, given enough patience, skill and luck.

    Skills are added until nothing changes. A placed stone can be mined again, which allows `collect_stone` but gives no
    additional stone. Mining leaves path behind, on which skeletons can spawn.
    """
    inventory, near = dict(level.inventory), dict(level.near)

    def exists(name: str) -> bool:
        return stats.presence[name] > 0

    skills = {"wake_up"} | ({"collect_drink"} if exists("water") else set())

    def can_spawn(creature: str, ground: str) -> bool:
        is_enabled = getattr(level, f"{creature}s") != "none" and level.respawn != "none"
        return is_enabled and (exists(ground) or (ground == "path" and bool(skills & _MINING_SKILLS)))

    def can_get(item: str, count: int) -> bool:
        return inventory[item] >= count or (f"collect_{item}" in skills and exists(_SOURCES[item][0]))

    def can_get_tool(tool: str) -> bool:
        return inventory[tool] > 0 or f"make_{tool}" in skills

    def can_make(tool: str) -> bool:
        stations = ("table", "furnace") if tool in const.NEEDS_FURNACE else ("table",)
        has_stations = all(near[station] or f"place_{station}" in skills for station in stations)
        return has_stations and all(can_get(item, count) for item, count in const.RECIPES[tool].items())

    previous: set[str] = set()
    while skills != previous:
        previous = set(skills)
        for item, (source, tool) in _SOURCES.items():
            has_source = exists(source) or f"place_{source}" in skills
            if has_source and (tool is None or can_get_tool(f"{tool}_pickaxe")):
                skills.add(f"collect_{item}")
        skills |= {f"place_{name}" for name, (item, count) in _PLACE_COSTS.items() if can_get(item, count)}
        skills |= {f"make_{tool}" for tool in const.RECIPES if can_make(tool)}
        skills |= {skill for name, (skill, ground) in _CREATURES.items() if exists(name) or can_spawn(name, ground)}
        grows = level.growth > 0 and ("place_plant" in skills or near["plant"] != "none")
        if grows or near["plant"] == "ripe":
            skills.add("eat_plant")
    return skills
