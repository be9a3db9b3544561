"""The kernel that plays: one pass over environments that are due a step or a new episode."""

import numpy as np

from envgen.jit import jit

from ..engine import DONE, ENDED, RUNNING, STEP
from ..kernels import mt19937
from .constants import KEYS, SKILLS
from .render import draw
from .reset import begin
from .rules import step
from .symbols import write_symbols

NO_VIEW, SYMBOLS, PIXELS = 0, 1, 2  # what is observed

REPORT = np.dtype(
    [
        ("total", np.float64),  # reward of the episode so far
        ("bonus", np.float64),  # the part of it that the original does not give
        ("level", np.int32),
        ("episode", np.int32),
        ("level_seed", np.int32),
        ("step", np.int32),
        ("shortest", np.int32),
        ("position", np.float32, 2),
        ("achievements", np.int32, len(SKILLS)),
        ("possible", np.uint8, len(SKILLS)),
        ("keys", np.uint8, KEYS),
    ],
    align=True,
)


@jit
def play(envs, pool, menu, by_chance, w, skin, easel, k, todo, due, actions, view, out, ends):
    """Do what is due in environments `todo`; `k` is the row of scratch.

    A new episode of environment i takes its level from `pool`: the menu's i-th, going round, or any of it `by_chance`.
    """
    for i in todo:
        e = envs[i]
        x, y = np.int64(e.x), np.int64(e.y)
        if due[i] == STEP:
            ends.reward[i] = step(e, actions[i])
            ends.terminated[i] = e.won != 0
            ends.truncated[i] = e.step >= e.params.length
            ends.phase[i] = ENDED if ends.terminated[i] or ends.truncated[i] else RUNNING
        else:
            pick = mt19937.episode_seed(e.seed_hash + 1, e.episode + 1) if by_chance else i
            e.level = menu[pick % menu.size]
            e.params = pool[e.level]
            begin(e, w[k], e.episode + 1)
            ends.phase[i] = RUNNING
        if view == PIXELS:
            draw(e, skin, easel, i, k, out[i])
        elif view == SYMBOLS:
            write_symbols(e, out[i], np.int64(e.x) != x or np.int64(e.y) != y)
        _report(e, ends.report[i])
        due[i] = DONE


@jit
def _report(e, report):
    report.level = e.level
    report.episode = e.episode
    report.level_seed = e.level_seed
    report.step = e.step
    report.total = e.total
    report.bonus = e.bonus
    report.shortest = e.shortest
    report.position[0] = e.x
    report.position[1] = e.y
    for skill in range(len(SKILLS)):
        report.achievements[skill] = e.achievements[skill]
        report.possible[skill] = e.possible[skill]
    for colour in range(KEYS):
        report.keys[colour] = e.has_key[colour]


@jit
def chain(mt, top):
    """An environment's stream of level seeds, seeded by the next word of the stream `top` as the original does."""
    mt19937.seed(mt, mt19937.next_word(top))
