"""Shortest paths through a maze with keys and doors.

A search state is `key_set * stride * stride + cell`: a bit mask of the keys held, and a cell of a flat array with a
border of walls.
"""

import numpy as np

from envgen.jit import jit

from . import constants as const
from .maze import neighbor_offsets

UNREACHABLE = -1


@jit
def to_search_grid(env, cells, stride):
    """Copy an environment's maze into an array with a border. Returns the search state of its agent."""
    for y in range(const.MAX_WORLD_SIZE):
        for x in range(const.MAX_WORLD_SIZE):
            cells[(y + 1) * stride + x + 1] = env.grid[y, x]
    key_set = 0
    for color in range(const.NUM_COLORS):
        key_set |= (env.has_key[color] != 0) << color
    return key_set * stride * stride + (np.int64(env.y) + 1) * stride + np.int64(env.x) + 1


@jit
def next_state(content, key_set, cell, num_cells):
    """The state after a move to a cell with this content, or UNREACHABLE. A door needs its key; a key is taken."""
    if content == const.WALL or (const.DOOR <= content < const.GEM and key_set >> (content - const.DOOR) & 1 == 0):
        return UNREACHABLE
    if const.KEY <= content < const.DOOR:
        key_set |= 1 << (content - const.KEY)
    return key_set * num_cells + cell


@jit
def find_gem(cells, stride, start, queue, previous):
    """The first state that reaches the gem from the state `start`, or UNREACHABLE.

    Fills previous[state] with the state before it; the start state is its own.
    """
    num_cells = stride * stride
    previous[: num_cells << const.NUM_COLORS] = UNREACHABLE
    queue[0] = start
    previous[start] = start
    count, k = 1, 0
    while k < count:
        state = np.int64(queue[k])
        k += 1
        key_set, cell = state // num_cells, state % num_cells
        for offset in neighbor_offsets(stride):
            neighbor = cell + offset
            content = np.int64(cells[neighbor])
            after = next_state(content, key_set, neighbor, num_cells)
            if after != UNREACHABLE and previous[after] == UNREACHABLE:
                previous[after] = state
                if content == const.GEM:
                    return after
                queue[count] = after
                count += 1
    return UNREACHABLE


@jit
def shortest_path_length(cells, stride, start, key_set, queue, previous):
    """The number of moves on the shortest path from the cell `start` to the gem, or UNREACHABLE."""
    state = find_gem(cells, stride, key_set * stride * stride + start, queue, previous)
    moves = 0 if state != UNREACHABLE else UNREACHABLE
    while state != UNREACHABLE and previous[state] != state:
        state = np.int64(previous[state])
        moves += 1
    return moves


@jit
def compute_moves(env, cells, queue, distance, moves):
    """Fill moves[content] with the fewest moves to KEY + color, DOOR + color and GEM, or UNREACHABLE.

    `env` is at the start of its episode. `cells`, `queue` and `distance` are working memory.
    """
    stride = const.MAX_WORLD_SIZE + 2
    num_cells = stride * stride
    queue[0] = to_search_grid(env, cells, stride)
    moves[:] = UNREACHABLE
    distance[: num_cells << const.NUM_COLORS] = UNREACHABLE
    distance[queue[0]] = 0
    count, k = 1, 0
    while k < count:
        state = np.int64(queue[k])
        k += 1
        key_set, cell = state // num_cells, state % num_cells
        for offset in neighbor_offsets(stride):
            neighbor = cell + offset
            content = np.int64(cells[neighbor])
            after = next_state(content, key_set, neighbor, num_cells)
            if after == UNREACHABLE:
                continue
            if moves[content] == UNREACHABLE:
                moves[content] = distance[state] + 1
            if distance[after] == UNREACHABLE:
                distance[after] = distance[state] + 1
                queue[count] = after
                count += 1
