"""One step of one environment: everyone's turn, the balance of creatures, the reward, the end."""

import numpy as np

from envgen.jit import jit

from . import constants as t
from .balance import balance
from .creatures import distance, update_arrow, update_cow, update_plant, update_skeleton, update_zombie
from .entities import compact
from .player import update_player

NEAR = 2 * max(t.VIEW)  # things further away than this do not move
BALANCE_EVERY = 10  # steps
MOST_BALANCED = 3 * t.CHUNKS**2  # creatures that one balance can add
SKILL_COUNT = len(t.SKILLS)


@jit
def has_room(e, things):
    """Is the list of things long enough for whatever the next step may add: arrows, a plant, a balance?"""
    needed = e.count + 1
    if (e.step + 1) % BALANCE_EVERY == 0:
        needed += MOST_BALANCED
    if needed + e.count <= things.size:
        return True
    for row in range(e.count):
        needed += things[row].kind == t.SKELETON
    return needed <= things.size


@jit
def step(e, things, action, daylight):
    """Advance the environment by one action and return its reward. Needs `has_room`."""
    e.step += 1
    e.light = daylight[e.params.dawn + e.step]
    living = e.count  # arrows and plants made now wait for the next step
    update_player(e, things, action)
    gaps = False
    for row in range(1, living):
        if distance(things, row) < NEAR:
            kind = things[row].kind
            if kind == t.COW:
                update_cow(e, things, row)
            elif kind == t.ZOMBIE:
                update_zombie(e, things, row)
            elif kind == t.SKELETON:
                update_skeleton(e, things, row)
            elif kind == t.ARROW:
                update_arrow(e, things, row)
            else:
                update_plant(e, things, row)
            gaps |= things[row].kind == t.NOTHING
    if gaps:
        compact(e, things)
    if e.step % BALANCE_EVERY == 0:
        balance(e, things)
        compact(e, things)
    return _reward(e)


@jit
def _reward(e):
    """A tenth of the change in health, and 1 if any skill succeeded for the first time this episode."""
    health = np.int32(e.inventory[t.HEALTH])
    reward = (health - e.paid_health) / 10.0
    e.paid_health = health
    known = e.unlocked
    for k in range(SKILL_COUNT):
        if e.achievements[k] > 0:
            e.unlocked |= 1 << k
    if e.unlocked != known:
        reward += 1.0
    e.total += reward
    return reward


@jit
def is_dead(e):
    return e.inventory[t.HEALTH] <= 0


@jit
def is_out_of_time(e):
    return e.step >= e.params.length
