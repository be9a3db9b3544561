"""What `envgen diagnose` measures in Heist: the conditions of each skill, and what ended an episode.

Whether a move touches a key, a door or the gem depends on positions, velocities and walls, so the probe plays every
move with the rules themselves, on a copy of the environment.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from envgen.jit import jit

from ..world import EpisodeEnd, SkillCheck
from . import constants as const
from .engine import Engine
from .rules import step
from .state import ENV

WITHIN_REACH = "one move away"
KEY_HELD = "key"
CONDITIONS: Mapping[str, tuple[str, ...]] = {
    skill.name: (KEY_HELD, WITHIN_REACH) if skill.name.startswith("open") else (WITHIN_REACH,) for skill in const.SKILLS
}


class HeistProbe:
    """The `Probe` of Heist's environments. It copies their states before each step, to play moves on the copies."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self._envs = engine.envs.copy()  # before the step
        self._trial = np.zeros(1, ENV)
        self._moves = np.zeros(engine.num_envs, np.int64)
        shape = engine.num_envs, len(const.SKILLS)
        self._within_reach, self._attempted = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)

    def before_step(self, actions: np.ndarray) -> Mapping[str, SkillCheck]:
        self._envs.view(np.uint8)[:] = self.engine.envs.view(np.uint8)  # as bytes: records are copied field by field
        self._moves[:] = np.where(np.asarray(actions) < const.NUM_MOVES, actions, const.NOOP)
        _try_moves(self._envs, self._trial, self._moves, self._within_reach, self._attempted)
        checks: dict[str, SkillCheck] = {}
        for k, (name, conditions) in enumerate(CONDITIONS.items()):
            columns = [self._within_reach[:, k]]
            if KEY_HELD in conditions:
                columns.insert(0, self._envs["has_key"][:, (k - const.OPEN_DOOR) // 2] > 0)
            checks[name] = SkillCheck(np.stack(columns, 1), self._attempted[:, k].copy())
        return checks

    def episode_ends(self, env_ids: np.ndarray) -> Sequence[EpisodeEnd]:
        ends: list[EpisodeEnd] = []
        for i in env_ids.tolist():
            self._trial[0] = self._envs[i]
            closed_doors = _finish(self._trial, self._moves[i])
            cause = "gem stolen" if self._trial["won"][0] else "time limit"
            ends.append(EpisodeEnd(cause, {"closed doors": str(closed_doors)}))
        return ends


@jit
def _try_moves(envs, trial, moves, within_reach, attempted):
    """Play each move once, and once more with each key that is missing, to see which doors the agent pushes against.

    Sets `within_reach` (n, skills) where some move touches the skill's key, door or gem, and `attempted` where the
    chosen one does.
    """
    within_reach[:] = False
    attempted[:] = False
    for i in range(envs.size):
        env = envs[i]
        for extra_key in range(-1, const.NUM_COLORS):
            if extra_key >= 0 and (env.has_key[extra_key] != 0 or not _has_closed_door(env, extra_key)):
                continue
            for move in range(const.NUM_MOVES):
                trial[0] = envs[i]
                if extra_key >= 0:
                    trial[0].has_key[extra_key] = 1
                step(trial[0], move)
                for skill in range(len(const.SKILLS)):
                    is_extra_door = extra_key >= 0 and skill == const.OPEN_DOOR + 2 * extra_key
                    if (extra_key < 0 or is_extra_door) and trial[0].achievements[skill] > env.achievements[skill]:
                        within_reach[i, skill] = True
                        attempted[i, skill] |= move == moves[i]


@jit
def _has_closed_door(env, color):
    for k in range(env.num_entities):
        entity = env.entities[k]
        if entity.kind == const.ENTITY_DOOR and entity.alive != 0 and entity.color == color:
            return True
    return False


@jit
def _finish(trial, move):
    """Play the last move of an episode. Returns the number of doors that are still closed."""
    step(trial[0], move)
    count = 0
    for color in range(const.NUM_COLORS):
        count += _has_closed_door(trial[0], color)
    return count
