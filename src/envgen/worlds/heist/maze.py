"""Mazes: corridors, doors, the cells that each locked door separates, and shortest paths.

A maze of `d` x `d` cells lies inside a border of walls, in a flat array of (d + 2) x (d + 2) cells, row by row.
`stride` is d + 2. All random draws are the reference's, in its order. Settings of a level draw additional numbers only
where they change something.

A state of the search for shortest paths is `key_set * stride * stride + cell`: a bit mask of the keys held, and a cell.
"""

import numpy as np

from envgen.jit import jit

from ..kernels import mt19937
from . import constants as const

MAX_CELLS = (const.MAX_WORLD_SIZE + 2) ** 2
MAX_WALLS = (const.MAX_WORLD_SIZE - 1) * (const.MAX_WORLD_SIZE + 1) // 2
NUM_KEY_SETS = 1 << const.NUM_COLORS
UNASSIGNED_DOOR = const.GEM + 1  # a door that has no color yet
START = const.GEM + 2
UNREACHED, REACHED, NEW = 0, 1, 2  # NEW: reached since the last door was opened


SCRATCH = np.dtype(  # working memory for generating a maze, one record per thread
    [
        ("cells", np.uint8, MAX_CELLS),  # the maze in its border: WALL, FLOOR, KEY + color, ...
        ("walls", np.int32, (2, MAX_WALLS)),  # walls between corridors: candidates for removal, and those that stay
        ("parent", np.int32, MAX_CELLS),  # union-find forest of connected cells
        ("region", np.uint8, MAX_CELLS),  # UNREACHED, REACHED or NEW
        ("queue", np.int32, NUM_KEY_SETS * MAX_CELLS),
        ("distance", np.int32, NUM_KEY_SETS * MAX_CELLS),  # moves
        ("candidates", np.int32, MAX_CELLS),  # cells to choose from
    ],
    align=True,
)


@jit
def randbelow(mt, n):
    """A random integer in [0, n), drawn as the reference does."""
    return np.int64(mt19937.next_word(mt)) % n


@jit
def neighbor_offsets(stride):
    """Offsets to the neighbors of a cell: left, below, above, right."""
    return (-1, -stride, stride, 1)


@jit
def carve_maze(cells, walls, parent, stride, mt, loop_percent):
    """Carve a random spanning tree of all even cells (Kruskal's algorithm), then remove `loop_percent` percent of the
    other walls."""
    d = stride - 2
    cells[: stride * stride] = const.WALL
    for cell in range(stride * stride):
        parent[cell] = cell
    count = 0
    for x in range(1, d, 2):  # walls between neighbors in a row
        for y in range(0, d, 2):
            walls[0, count] = (y + 1) * stride + x + 1
            count += 1
    for x in range(0, d, 2):  # walls between neighbors in a column
        for y in range(1, d, 2):
            walls[0, count] = (y + 1) * stride + x + 1
            count += 1
    num_kept = 0
    while count > 0:
        wall = np.int64(_pop(walls[0], count, randbelow(mt, count)))
        count -= 1
        offset = 1 if wall % stride % 2 == 0 else stride
        a, b = _find_root(parent, wall - offset), _find_root(parent, wall + offset)
        if a == b:
            walls[1, num_kept] = wall
            num_kept += 1
        else:
            parent[a] = b
            cells[wall - offset] = cells[wall] = cells[wall + offset] = const.FLOOR
    if loop_percent > 0:
        for k in range(num_kept):
            if randbelow(mt, 100) < loop_percent:
                cells[walls[1, k]] = const.FLOOR


@jit
def _find_root(parent, cell):
    while parent[cell] != cell:
        parent[cell] = parent[parent[cell]]
        cell = np.int64(parent[cell])
    return cell


@jit
def place_doors(cells, candidates, stride, mt, num_doors):
    """Place up to `num_doors` doors without a color on cells where corridors fork. Returns how many were placed."""
    num_forks = 0
    for cell in range(stride, stride * stride - stride):
        if cells[cell] == const.FLOOR:
            num_exits = 0
            for offset in neighbor_offsets(stride):
                num_exits += cells[cell + offset] != const.WALL
            if num_exits > 2:
                candidates[num_forks] = cell
                num_forks += 1
    if num_doors > num_forks:  # the reference draws nothing in this case
        for k in range(num_forks):
            cells[candidates[k]] = UNASSIGNED_DOOR
        return num_forks
    for _ in range(num_doors):
        cells[_pop(candidates, num_forks, randbelow(mt, num_forks))] = UNASSIGNED_DOOR
        num_forks -= 1
    return num_doors


@jit
def _pop(values, count, n):
    """Remove and return the n-th of `count` values; the others keep their order."""
    value = values[n]
    for k in range(np.uint64(n), np.uint64(count - 1)):  # unsigned: compiles to one memmove
        values[k] = values[k + np.uint64(1)]
    return value


@jit
def sample_start(cells, candidates, stride, mt):
    """A random free cell that has no door next to it."""
    count = 0
    for cell in range(stride, stride * stride - stride):
        if cells[cell] == const.FLOOR:
            candidates[count] = cell
            count += 1
    while True:
        cell = np.int64(candidates[randbelow(mt, count)])
        is_free = True
        for offset in neighbor_offsets(stride):
            is_free &= cells[cell + offset] != UNASSIGNED_DOOR
        if is_free:
            return cell


@jit
def flood_fill(cells, region, queue, stride, until_door):
    """Mark as NEW every cell that can be reached from the reached ones without passing a door.

    With `until_door`, stop at the first door without a color and return its cell; otherwise return -1. Cells are
    visited by distance, and in ascending order among those at the same distance, as in the reference.
    """
    count = 0
    for cell in range(stride * stride):
        if region[cell] != UNREACHED:
            queue[count] = cell
            count += 1
    first = 0
    while first < count:
        last = count
        for k in range(first, last):
            cell = np.int64(queue[k])
            for offset in neighbor_offsets(stride):
                neighbor = cell + offset
                if region[neighbor] == UNREACHED and const.FLOOR <= cells[neighbor] < const.DOOR:
                    region[neighbor] = NEW
                    queue[count] = neighbor
                    count += 1
            if until_door:
                for offset in neighbor_offsets(stride):
                    if cells[cell + offset] == UNASSIGNED_DOOR:
                        return cell + offset
        _insertion_sort(queue, last, count)
        first = last
    return -1


@jit
def _insertion_sort(queue, first, last):
    """Sort queue[first:last]. The cells at the same distance are few and nearly sorted."""
    for k in range(first + 1, last):
        cell = queue[k]
        n = k
        while n > first and queue[n - 1] > cell:
            queue[n] = queue[n - 1]
            n -= 1
        queue[n] = cell


@jit
def compute_distances(cells, distance, queue, stride, start, through_doors):
    """Fill distance[cell] with the number of moves from `start`, or -1 for cells that cannot be reached."""
    distance[: stride * stride] = -1
    distance[start] = 0
    queue[0] = start
    count = 1
    k = 0
    while k < count:
        cell = np.int64(queue[k])
        k += 1
        for offset in neighbor_offsets(stride):
            neighbor = cell + offset
            content = cells[neighbor]
            is_open = content != const.WALL and (through_doors or content < const.DOOR or content == const.GEM)
            if distance[neighbor] < 0 and is_open:
                distance[neighbor] = distance[cell] + 1
                queue[count] = neighbor
                count += 1


@jit
def sample_cell(cells, region, candidates, distance, stride, mt, preference):
    """A random empty NEW cell: of the nearest third for a `preference` of -1, of the farthest third for 1.

    If no empty cell is NEW, a REACHED one."""
    count = _collect_empty(cells, region, candidates, stride, NEW)
    if count == 0:  # a loop around the last door leads to everything behind it
        count = _collect_empty(cells, region, candidates, stride, REACHED)
    if preference == 0:
        return np.int64(candidates[randbelow(mt, count)])
    for k in range(1, count):  # insertion sort by distance
        cell = candidates[k]
        n = k
        while n > 0 and preference * distance[candidates[n - 1]] < preference * distance[cell]:
            candidates[n] = candidates[n - 1]
            n -= 1
        candidates[n] = cell
    return np.int64(candidates[randbelow(mt, (count + 2) // 3)])


@jit
def _collect_empty(cells, region, candidates, stride, kind):
    count = 0
    for cell in range(stride, stride * stride - stride):
        if region[cell] == kind and cells[cell] == const.FLOOR:
            candidates[count] = cell
            count += 1
    return count


# --- shortest paths

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

    Fills previous[state] with the state before it; that of the start state is the start state itself.
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
            successor = next_state(content, key_set, neighbor, num_cells)
            if successor != UNREACHABLE and previous[successor] == UNREACHABLE:
                previous[successor] = state
                if content == const.GEM:
                    return successor
                queue[count] = successor
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
            successor = next_state(content, key_set, neighbor, num_cells)
            if successor == UNREACHABLE:
                continue
            if moves[content] == UNREACHABLE:
                moves[content] = distance[state] + 1
            if distance[successor] == UNREACHABLE:
                distance[successor] = distance[state] + 1
                queue[count] = successor
                count += 1
