"""Constants of Heist: modes, cells, entities, actions, observations and skills."""

from ..world import Skill

MODES = ("easy", "hard", "memory")
EASY, HARD, MEMORY = range(3)
MODE_WORLD_SIZES = (9, 13, 23)  # cells along a side of the reference's grids, by mode
MAX_WORLD_SIZE = 25  # cells along a side of the largest grid that a level may set
COLORS = ("blue", "green", "red")
NUM_COLORS = len(COLORS)

# Contents of a grid cell. A cell becomes FLOOR when its key is taken or its door is opened.
WALL, FLOOR, KEY, DOOR, GEM = 0, 1, 2, 2 + NUM_COLORS, 2 + 2 * NUM_COLORS  # KEY + color, DOOR + color
CELL_NAMES = ("wall", "floor", *(f"{c} key" for c in COLORS), *(f"{c} door" for c in COLORS), "gem")

# Kinds of entities.
ENTITY_KEY, ENTITY_DOOR, ENTITY_GEM = 1, 2, 3
MAX_ENTITIES = 2 * NUM_COLORS + 1  # a key and a door of each color, and the gem

ACTIONS = (
    "left_down", "left", "left_up", "down", "noop", "up", "right_down", "right", "right_up",
    "d", "a", "w", "s", "q", "e",
)  # fmt: skip
NUM_MOVES = 9  # actions below this one are 3 * (dx + 1) + dy + 1; the other six do nothing in Heist
NOOP = 4


# Skills form a chain: key k opens door k, key k + 1 lies behind door k, and the gem behind the last door.
TAKE_KEY, OPEN_DOOR, STEAL_GEM = 0, 1, 2 * NUM_COLORS  # TAKE_KEY + 2 * color, OPEN_DOOR + 2 * color
SKILLS = (
    Skill("take_blue_key"),
    Skill("open_blue_door", ("take_blue_key",)),
    Skill("take_green_key", ("open_blue_door",)),
    Skill("open_green_door", ("take_green_key",)),
    Skill("take_red_key", ("open_green_door",)),
    Skill("open_red_door", ("take_red_key",)),
    Skill("steal_gem"),  # no prerequisite: a level may have no doors
)
GEM_REWARD = 10.0
MAX_EPISODE_STEPS = 1000
NUM_BACKGROUNDS = 9
