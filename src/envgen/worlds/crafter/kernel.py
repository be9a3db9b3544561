"""The kernel that plays: one pass over environments that are due a step or a new episode."""

import numpy as np

from envgen.jit import jit

from ..engine import DONE, ENDED, RUNNING, STEP
from ..kernels import mt19937
from .constants import ITEMS, SKILLS
from .observations import PIXELS, SYMBOLS, write_symbols
from .render import draw
from .reset import reset_episode
from .rules import has_room, is_dead, is_out_of_time, step

REPORT = np.dtype(
    [
        ("total", np.float64),  # reward of the episode so far
        ("level", np.int32),
        ("episode", np.int32),
        ("world_seed", np.int32),
        ("step", np.int32),
        ("discount", np.float64),  # 0 once the player is dead, else 1
        ("position", np.int32, 2),
        ("achievements", np.int32, len(SKILLS)),
        ("inventory", np.int8, len(ITEMS)),
    ],
    align=True,
)


@jit
def _observe(env, entities, view, words, atlas, easel, k, out):
    """Write what an environment looks like. Its stream moves on as if the picture were drawn, whatever the view."""
    if view == PIXELS:
        draw(env, entities, env.rng, atlas, easel, k, out)
        return
    if env.daylight < 0.5:
        mt19937.skip(env.rng, words)
    if view == SYMBOLS:
        write_symbols(env, entities, out)


@jit
def step_batch(s, pool, menu, by_chance, daylight, w, atlas, easel, k, todo, due, actions, view, words, out, ends):
    """Do what is due in environments `todo`. What lacks room for more entities stays due: none of it has happened.

    A new episode of environment i takes its level from `pool`: the menu's i-th, going round, or any of it `by_chance`.
    """
    for i in todo:
        env, entities = s.envs[i], s.entities[i]
        if due[i] == STEP:
            if not has_room(env, entities):
                continue
            ends.reward[i] = step(env, entities, actions[i], daylight)
            ends.terminated[i] = is_dead(env)
            ends.truncated[i] = is_out_of_time(env)
            ends.phase[i] = ENDED if is_dead(env) or is_out_of_time(env) else RUNNING
        else:
            pick = mt19937.episode_seed(env.seed_hash + 1, env.episode + 1) if by_chance else i
            env.level = menu[pick % menu.size]
            env.params = pool[env.level]
            if not reset_episode(env, entities, w, k, env.episode + 1, daylight):
                continue
            ends.phase[i] = RUNNING
        _observe(env, entities, view, words, atlas, easel, k, out[i])
        _report(env, entities, ends.report[i])
        due[i] = DONE


@jit
def _report(env, entities, report):
    report.level = env.level
    report.episode = env.episode
    report.world_seed = env.world_seed
    report.step = env.step
    report.total = env.episode_return
    report.discount = 0.0 if is_dead(env) else 1.0
    report.position[0] = entities[0].x
    report.position[1] = entities[0].y
    report.achievements[:] = env.achievements
    report.inventory[:] = env.inventory


@jit
def render_env(s, i, atlas, easel, out):
    """A picture for a person: with a copy of the stream, so that the world's is untouched."""
    draw(s.envs[i], s.entities[i], s.envs[i].rng.copy(), atlas, easel, 0, out)
