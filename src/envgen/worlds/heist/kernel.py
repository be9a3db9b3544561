"""The kernel that advances a batch of environments: a step or a new episode for each."""

import numpy as np

from envgen.jit import jit

from ..engine import DONE, ENDED, RUNNING, STEP
from ..kernels import mt19937
from ..observations import PIXELS, SYMBOLS
from .constants import NUM_COLORS, SKILLS
from .observations import write_symbols
from .render import render_frame
from .reset import reset_episode
from .rules import step

REPORT = np.dtype(  # what infos are made of
    [
        ("episode_return", np.float64),
        ("bonus", np.float64),  # the part of the return that the original does not give
        ("level", np.int32),
        ("episode", np.int32),
        ("level_seed", np.int32),
        ("step", np.int32),
        ("shortest_path", np.int32),
        ("position", np.float32, 2),
        ("achievements", np.int32, len(SKILLS)),
        ("possible", np.uint8, len(SKILLS)),
        ("has_key", np.uint8, NUM_COLORS),
    ],
    align=True,
)


@jit
def step_batch(
    envs, level_params, env_level_ids, sample_levels, scratch, textures, buffers, thread, env_ids, pending, actions,
    observation, obs_bytes, results,
):  # fmt: skip
    """Do what is pending in the environments `env_ids`, using the scratch memory of `thread`.

    A new episode of environment i plays level env_level_ids[i % size], or with `sample_levels` a random one of them.
    """
    for i in env_ids:
        env = envs[i]
        cell_x, cell_y = np.int64(env.x), np.int64(env.y)
        if pending[i] == STEP:
            results.reward[i] = step(env, actions[i])
            results.terminated[i] = env.won != 0
            results.truncated[i] = env.step >= env.params.length
            results.phase[i] = ENDED if results.terminated[i] or results.truncated[i] else RUNNING
        else:
            n = mt19937.episode_seed(env.seed_hash + 1, env.episode + 1) if sample_levels else i
            env.level = env_level_ids[n % env_level_ids.size]
            env.params = level_params[env.level]
            reset_episode(env, scratch[thread], env.episode + 1)
            results.phase[i] = RUNNING
        if observation == PIXELS:
            render_frame(env, textures, buffers, i, thread, obs_bytes[i])
        elif observation == SYMBOLS:
            write_symbols(env, obs_bytes[i], np.int64(env.x) != cell_x or np.int64(env.y) != cell_y)
        _write_report(env, results.report[i])
        pending[i] = DONE


@jit
def _write_report(env, report):
    report.level = env.level
    report.episode = env.episode
    report.level_seed = env.level_seed
    report.step = env.step
    report.episode_return = env.episode_return
    report.bonus = env.bonus
    report.shortest_path = env.shortest_path
    report.position[0] = env.x
    report.position[1] = env.y
    for skill in range(len(SKILLS)):
        report.achievements[skill] = env.achievements[skill]
        report.possible[skill] = env.possible[skill]
    for color in range(NUM_COLORS):
        report.has_key[color] = env.has_key[color]


@jit
def init_seed_stream(mt, source):
    """Seed an environment's stream of level seeds with the next word of the stream `source`, as the original does."""
    mt19937.seed(mt, mt19937.next_word(source))
