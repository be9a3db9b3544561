"""The constants of Crafter: materials, entities, items, actions, recipes and skills.

All values are those of the reference; the tests compare them with the `data.yaml` of the `crafter` package.
"""

from envgen.worlds.world import Skill

MAP_SIZE = 64  # the map is MAP_SIZE x MAP_SIZE cells
CENTER = MAP_SIZE // 2  # the player starts at (CENTER, CENTER)
VIEW = (9, 9)  # width and height of the image in cells; the last two rows show the inventory
LOCAL_VIEW = (9, 7)  # width and height of the part of the image that shows the map
DAY_LENGTH = 300  # steps
MAX_EPISODE_STEPS = 10_000
CHUNK_SIZE = 12  # the map is divided into chunks of 12 x 12 cells; creatures spawn and despawn per chunk
CHUNKS_PER_SIDE = -(-MAP_SIZE // CHUNK_SIZE)

# Materials by index; 0 is the area outside the map.
MATERIALS = (
    "outside", "water", "grass", "stone", "path", "sand", "tree", "lava", "coal", "iron", "diamond", "table", "furnace",
)  # fmt: skip
OUTSIDE, WATER, GRASS, STONE, PATH, SAND, TREE, LAVA, COAL, IRON, DIAMOND, TABLE, FURNACE = range(len(MATERIALS))

# Bit masks of the materials that each kind of entity can move onto.
WALKABLE = 1 << GRASS | 1 << SAND | 1 << PATH
PLAYER_WALKABLE = WALKABLE | 1 << LAVA
ARROW_WALKABLE = WALKABLE | 1 << WATER | 1 << LAVA

# Entities by index; 0 is no entity. The semantic map shows an entity as its index + len(MATERIALS) - 1.
ENTITIES = ("none", "player", "cow", "zombie", "skeleton", "arrow", "plant")
NO_ENTITY, PLAYER, COW, ZOMBIE, SKELETON, ARROW, PLANT = range(len(ENTITIES))
RIPE_AFTER = 300  # a plant is ripe once it has grown for more than this many steps
MAX_PLANT_AGE = 2**15 - 1  # the largest value of its counter
PLANT_AGES = {"sapling": 0, "half grown": 151, "nearly ripe": 261, "ripe": 301}  # steps, of plants that levels place

DIRECTIONS = ("left", "right", "up", "down")
LEFT, RIGHT, UP, DOWN = range(4)
DIRECTION_OFFSETS = ((-1, 0), (1, 0), (0, -1), (0, 1))  # (dx, dy) of each direction; y points down

VITALS = ("health", "food", "drink", "energy")
MATERIAL_ITEMS = ("sapling", "wood", "stone", "coal", "iron", "diamond")
TOOLS = ("wood_pickaxe", "stone_pickaxe", "iron_pickaxe", "wood_sword", "stone_sword", "iron_sword")
ITEMS = VITALS + MATERIAL_ITEMS + TOOLS
HEALTH, FOOD, DRINK, ENERGY = range(4)
(
    SAPLING, WOOD, STONE_ITEM, COAL_ITEM, IRON_ITEM, DIAMOND_ITEM,
    WOOD_PICKAXE, STONE_PICKAXE, IRON_PICKAXE, WOOD_SWORD, STONE_SWORD, IRON_SWORD,
) = range(4, len(ITEMS))  # fmt: skip
MAX_ITEM_COUNT = 9

ACTIONS = (
    "noop", "move_left", "move_right", "move_up", "move_down", "do", "sleep",
    "place_stone", "place_table", "place_furnace", "place_plant",
    "make_wood_pickaxe", "make_stone_pickaxe", "make_iron_pickaxe",
    "make_wood_sword", "make_stone_sword", "make_iron_sword",
)  # fmt: skip
NOOP, FIRST_MOVE, DO, SLEEP = 0, 1, 5, 6  # moves are FIRST_MOVE + direction
PLACE_STONE, PLACE_TABLE, PLACE_FURNACE, PLACE_PLANT, FIRST_MAKE = 7, 8, 9, 10, 11  # tools are FIRST_MAKE + tool

# The items each tool costs. All tools need a nearby table; those in NEEDS_FURNACE also need a nearby furnace.
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

# The 22 skills in the order of the reference, with their prerequisites.
SKILLS = tuple(
    Skill(name=name, prerequisites=prerequisites)
    for name, prerequisites in {
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
