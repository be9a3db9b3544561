"""Crafter's names and numbers: materials, creatures, items, actions, skills, and what each costs.

Everything here is a fact of the original game (the tests compare it with the `data.yaml` of the `crafter` package).
"""

from envgen.worlds.world import Skill

MAP_SIZE = 64  # the map is MAP_SIZE x MAP_SIZE cells
CENTER = MAP_SIZE // 2  # where the player starts, in both axes
VIEW = (9, 9)  # cells the picture is wide and high; the last rows show the inventory
LOCAL_VIEW = (9, 7)  # cells of map in the picture
DAY_LENGTH = 300  # steps
MAX_EPISODE_STEPS = 10_000  # steps of an episode
CHUNK_SIZE = 12  # cells along a side of the squares in which creatures are balanced
CHUNKS_PER_SIDE = -(-MAP_SIZE // CHUNK_SIZE)  # along a side

# Materials by number; 0 is what lies outside the map.
MATERIALS = (
    "outside", "water", "grass", "stone", "path", "sand", "tree", "lava", "coal", "iron", "diamond", "table", "furnace",
)  # fmt: skip
OUTSIDE, WATER, GRASS, STONE, PATH, SAND, TREE, LAVA, COAL, IRON, DIAMOND, TABLE, FURNACE = range(len(MATERIALS))

# Sets of materials as bit masks: where each kind of entity can go.
WALKABLE = 1 << GRASS | 1 << SAND | 1 << PATH
PLAYER_WALKABLE = WALKABLE | 1 << LAVA
ARROW_WALKABLE = WALKABLE | 1 << WATER | 1 << LAVA

# Things by number; 0 is none. In the semantic map an entity is its number plus len(MATERIALS) - 1.
ENTITIES = ("none", "player", "cow", "zombie", "skeleton", "arrow", "plant")
NO_ENTITY, PLAYER, COW, ZOMBIE, SKELETON, ARROW, PLANT = range(len(ENTITIES))
RIPE_AFTER = 300  # a plant that has grown for more steps is ripe

DIRECTIONS = ("left", "right", "up", "down")
LEFT, RIGHT, UP, DOWN = range(4)
DIRECTION_OFFSETS = ((-1, 0), (1, 0), (0, -1), (0, 1))  # (x, y) of each direction; y grows downwards

VITALS = ("health", "food", "drink", "energy")
MATERIAL_ITEMS = ("sapling", "wood", "stone", "coal", "iron", "diamond")
TOOLS = ("wood_pickaxe", "stone_pickaxe", "iron_pickaxe", "wood_sword", "stone_sword", "iron_sword")
ITEMS = VITALS + MATERIAL_ITEMS + TOOLS
HEALTH, FOOD, DRINK, ENERGY = range(4)
(
    SAPLING, WOOD, STONE_ITEM, COAL_ITEM, IRON_ITEM, DIAMOND_ITEM,
    WOOD_PICKAXE, STONE_PICKAXE, IRON_PICKAXE, WOOD_SWORD, STONE_SWORD, IRON_SWORD,
) = range(4, len(ITEMS))  # fmt: skip
MAX_ITEM_COUNT = 9  # of any item

ACTIONS = (
    "noop", "move_left", "move_right", "move_up", "move_down", "do", "sleep",
    "place_stone", "place_table", "place_furnace", "place_plant",
    "make_wood_pickaxe", "make_stone_pickaxe", "make_iron_pickaxe",
    "make_wood_sword", "make_stone_sword", "make_iron_sword",
)  # fmt: skip
NOOP, FIRST_MOVE, DO, SLEEP = 0, 1, 5, 6  # FIRST_MOVE + direction
PLACE_STONE, PLACE_TABLE, PLACE_FURNACE, PLACE_PLANT, FIRST_MAKE = 7, 8, 9, 10, 11  # FIRST_MAKE + tool

# What each tool takes, and whether it is made beside a table alone or beside table and furnace.
RECIPES = {
    "wood_pickaxe": {"wood": 1},
    "stone_pickaxe": {"wood": 1, "stone": 1},
    "iron_pickaxe": {"wood": 1, "coal": 1, "iron": 1},
    "wood_sword": {"wood": 1},
    "stone_sword": {"wood": 1, "stone": 1},
    "iron_sword": {"wood": 1, "coal": 1, "iron": 1},
}
NEEDS_FURNACE = ("iron_pickaxe", "iron_sword")
TABLE_WOOD = 2
FURNACE_STONE = 4
SAPLING_CHANCE = 0.1
COW_FOOD, PLANT_FOOD = 6, 4
COW_HEALTH, ZOMBIE_HEALTH, SKELETON_HEALTH, PLANT_HEALTH = 3, 5, 3, 1

# The 22 skills in the original's order, each with what must be possible first.
SKILLS = tuple(
    Skill(name=name, prerequisites=needs)
    for name, needs in {
        "collect_coal": ("make_wood_pickaxe",),
        "collect_diamond": ("make_iron_pickaxe",),
        "collect_drink": (),
        "collect_iron": ("make_stone_pickaxe",),
        "collect_sapling": (),
        "collect_stone": ("make_wood_pickaxe",),
        "collect_wood": (),
        "defeat_skeleton": (),
        "defeat_zombie": (),
        "eat_cow": (),
        "eat_plant": ("place_plant",),
        "make_iron_pickaxe": ("place_table", "place_furnace", "collect_wood", "collect_coal", "collect_iron"),
        "make_iron_sword": ("place_table", "place_furnace", "collect_wood", "collect_coal", "collect_iron"),
        "make_stone_pickaxe": ("place_table", "collect_wood", "collect_stone"),
        "make_stone_sword": ("place_table", "collect_wood", "collect_stone"),
        "make_wood_pickaxe": ("place_table", "collect_wood"),
        "make_wood_sword": ("place_table", "collect_wood"),
        "place_furnace": ("collect_stone",),
        "place_plant": ("collect_sapling",),
        "place_stone": ("collect_stone",),
        "place_table": ("collect_wood",),
        "wake_up": (),
    }.items()
)
(
    COLLECT_COAL, COLLECT_DIAMOND, COLLECT_DRINK, COLLECT_IRON, COLLECT_SAPLING, COLLECT_STONE, COLLECT_WOOD,
    DEFEAT_SKELETON, DEFEAT_ZOMBIE, EAT_COW, EAT_PLANT, MAKE_IRON_PICKAXE, MAKE_IRON_SWORD, MAKE_STONE_PICKAXE,
    MAKE_STONE_SWORD, MAKE_WOOD_PICKAXE, MAKE_WOOD_SWORD, PLACED_FURNACE, PLACED_PLANT, PLACED_STONE, PLACED_TABLE,
    WAKE_UP,
) = range(len(SKILLS))  # fmt: skip
