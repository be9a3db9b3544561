"""The words and numbers of Heist, and what each of them is called in the kernels."""

from ..world import Skill

MODES = ("easy", "hard", "memory")
EASY, HARD, MEMORY = range(3)
SIDES = (9, 13, 23)  # of the original's worlds, by mode
SIDE = 25  # cells; no level's world is larger
COLOURS = ("blue", "green", "red")
KEYS = len(COLOURS)

# What stands on a cell; a key, a door and the gem give way to FLOOR once they are gone.
WALL, FLOOR, KEY, DOOR, GEM = 0, 1, 2, 2 + KEYS, 2 + 2 * KEYS  # KEY + colour, DOOR + colour
SIGNS = ("wall", "floor", *(f"{c} key" for c in COLOURS), *(f"{c} door" for c in COLOURS), "gem")
THINGS = 2 * KEYS + 1  # most keys, doors and gems of a level

# What a thing is. KIND_OF is by what stands on its cell.
A_KEY, A_DOOR, A_GEM = 1, 2, 3

ACTIONS = (
    "left_down", "left", "left_up", "down", "noop", "up", "right_down", "right", "right_up",
    "d", "a", "w", "s", "q", "e",
)  # fmt: skip
MOVES = 9  # the actions before this one are 3 (dx + 1) + dy + 1; the others are the original's and do nothing here
NOOP = 4

# Skills, along the chain: key k opens door k, behind which lies key k + 1, and the gem behind the last.
TAKE, OPEN, STEAL = 0, 1, 2 * KEYS  # TAKE + 2 * colour, OPEN + 2 * colour
SKILLS = (
    Skill("take_blue_key"),
    Skill("open_blue_door", ("take_blue_key",)),
    Skill("take_green_key", ("open_blue_door",)),
    Skill("open_green_door", ("take_green_key",)),
    Skill("take_red_key", ("open_green_door",)),
    Skill("open_red_door", ("take_red_key",)),
    Skill("steal_gem"),  # a level may have no doors at all
)
GEM_REWARD = 10.0
MAX_LENGTH = 1000  # steps of an episode
BACKGROUNDS = 9
