"""What all generators use: walls, random positions and random colors, drawn in the package's order.

Functions that place something return its cell, or NOWHERE if rejection sampling found none.
"""

from envgen.jit import jit

from ..kernels import pcg64
from . import constants as const

NOWHERE = -1
ANYWHERE, NOT_NEXT_TO_AGENT, NOT_NEAR_OBJECTS = range(3)  # where an object may be placed
MANY_TRIES = 100_000  # where the package tries forever
ROOM_TRIES = 1000
OBSTACLE_TRIES = 100


@jit
def cell_at(x, y):
    return (y + const.MARGIN) * const.STRIDE + x + const.MARGIN


@jit
def column(cell):
    return cell % const.STRIDE - const.MARGIN


@jit
def row(cell):
    return cell // const.STRIDE - const.MARGIN


@jit
def fill(env, code, x, y, width, height):
    for j in range(y, y + height):
        for i in range(x, x + width):
            env.grid[cell_at(i, j)] = code


@jit
def clear(env, width, height):
    """An empty grid of this size, with walls beyond it and no agent."""
    env.width, env.height = width, height
    env.grid[:] = const.WALL
    fill(env, const.EMPTY, 0, 0, width, height)
    env.cell, env.direction = NOWHERE, 0


@jit
def add_walls(env, x, y, width, height):
    """Walls along the sides of a rectangle."""
    fill(env, const.WALL, x, y, width, 1)
    fill(env, const.WALL, x, y + height - 1, width, 1)
    fill(env, const.WALL, x, y, 1, height)
    fill(env, const.WALL, x + width - 1, y, 1, height)


@jit
def begin_room(env, width, height):
    """An empty room of the grid's size."""
    clear(env, width, height)
    add_walls(env, 0, 0, width, height)


@jit
def random_color(env):
    return const.SORTED_COLORS[pcg64.integers(env.rng, 0, const.NUM_COLORS)]


@jit
def _is_rejected(env, x, y, rule):
    if rule == NOT_NEXT_TO_AGENT:
        return abs(column(env.cell) - x) + abs(row(env.cell) - y) < 2
    if rule == NOT_NEAR_OBJECTS:
        for j in range(y - 1, y + 2):
            for i in range(x - 1, x + 2):
                if env.grid[cell_at(i, j)] >= const.KEY:
                    return True
    return False


@jit
def sample_cell(env, x, y, width, height, tries, rule):
    """A random empty cell of a rectangle, other than the agent's."""
    x, y = max(x, 0), max(y, 0)
    right, bottom = min(x + width, env.width), min(y + height, env.height)
    for _ in range(tries + 1):
        i = pcg64.integers(env.rng, x, right)
        j = pcg64.integers(env.rng, y, bottom)
        cell = cell_at(i, j)
        if env.grid[cell] == const.EMPTY and cell != env.cell and not _is_rejected(env, i, j, rule):
            return cell
    return NOWHERE


@jit
def place(env, code, x, y, width, height, tries, rule):
    """Put an object into a random empty cell of a rectangle."""
    cell = sample_cell(env, x, y, width, height, tries, rule)
    if cell != NOWHERE:
        env.grid[cell] = code
    return cell


@jit
def place_anywhere(env, code):
    return place(env, code, 0, 0, env.width, env.height, MANY_TRIES, ANYWHERE)


@jit
def place_agent(env, x, y, width, height, tries):
    """Put the agent into a random empty cell of a rectangle, facing a random direction."""
    env.cell = NOWHERE
    env.cell = sample_cell(env, x, y, width, height, tries, ANYWHERE)
    env.direction = pcg64.integers(env.rng, 0, 4) if env.cell != NOWHERE else 0
    return env.cell


@jit
def place_agent_anywhere(env):
    return place_agent(env, 0, 0, env.width, env.height, MANY_TRIES)


@jit
def set_mission(env, mission, color, kind):
    env.mission[0], env.mission[1], env.mission[2] = mission, 1 + color, kind


@jit
def random_object(env, num_types):
    """The code of a key, a ball or (with three types) a box of a random color; drawn in this order."""
    kind = pcg64.integers(env.rng, 0, num_types)
    return const.KEY + kind * const.NUM_COLORS + random_color(env)
