"""One step of one environment: everyone's turn, the balance of creatures, the reward, the end."""

import numpy as np

from ..kernels.jit import jit
from . import tables as t
from .balance import balance
from .creatures import distance, update_arrow, update_cow, update_plant, update_skeleton, update_zombie
from .player import update_player
from .things import compact

NEAR = 2 * max(t.VIEW)  # things further away than this do not move
BALANCE_EVERY = 10  # steps
MOST_BALANCED = 3 * t.CHUNKS**2  # creatures that one balance can add
SKILL_COUNT = len(t.SKILLS)


@jit
def has_room(s, i):
    """Is the list of things long enough for whatever the next step may add: arrows, a plant, a balance?"""
    body = s.body[i]
    needed = body.things + 1
    if (body.step + 1) % BALANCE_EVERY == 0:
        needed += MOST_BALANCED
    if needed + body.things <= s.things.shape[1]:
        return True
    for row in range(body.things):
        needed += s.things[i, row].kind == t.SKELETON
    return needed <= s.things.shape[1]


@jit
def light_of(s, i):
    body = s.body[i]
    return s.daylight[body.dawn + body.step]


@jit
def step(s, i, action):
    """Advance environment i by one action and return its reward. Needs `has_room`."""
    body = s.body[i]
    body.step += 1
    living = body.things  # arrows and plants made now wait for the next step
    update_player(s, i, action)
    gaps = False
    for row in range(1, living):
        if distance(s, i, row) < NEAR:
            kind = s.things[i, row].kind
            if kind == t.COW:
                update_cow(s, i, row)
            elif kind == t.ZOMBIE:
                update_zombie(s, i, row)
            elif kind == t.SKELETON:
                update_skeleton(s, i, row)
            elif kind == t.ARROW:
                update_arrow(s, i, row)
            else:
                update_plant(s, i, row)
            gaps |= s.things[i, row].kind == t.NOTHING
    if gaps:
        compact(s, i)
    if body.step % BALANCE_EVERY == 0:
        balance(s, i, light_of(s, i))
        compact(s, i)
    return _reward(s, i)


@jit
def _reward(s, i):
    """A tenth of the change in health, and 1 if any skill succeeded for the first time this episode."""
    body = s.body[i]
    health = np.int32(s.inventory[i, t.HEALTH])
    reward = (health - body.paid_health) / 10.0
    body.paid_health = health
    known = body.unlocked
    for k in range(SKILL_COUNT):
        if s.achievements[i, k] > 0:
            body.unlocked |= 1 << k
    if body.unlocked != known:
        reward += 1.0
    body.total += reward
    return reward


@jit
def is_dead(s, i):
    return s.inventory[i, t.HEALTH] <= 0


@jit
def is_out_of_time(s, i):
    return s.body[i].step >= s.body[i].length
