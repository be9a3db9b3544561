"""What `envgen diagnose` measures in MiniGrid: what ended each episode, and in which task."""

from collections.abc import Mapping, Sequence

import numpy as np

from envgen.jit import jit

from ..world import EpisodeEnd, SkillCheck
from . import constants as const
from .engine import Engine
from .rules import step
from .state import ENV


class MiniGridProbe:
    """The `Probe` of MiniGrid's environments. It copies their states before each step, to repeat the last step of an
    episode."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self._envs = engine.envs.copy()  # before the step
        self._trial = np.zeros(1, ENV)
        self._actions = np.zeros(engine.num_envs, np.int64)

    def before_step(self, actions: np.ndarray) -> Mapping[str, SkillCheck]:
        self._envs.view(np.uint8)[:] = self.engine.envs.view(np.uint8)  # as bytes: records are copied field by field
        self._actions[:] = actions
        return {}

    def episode_ends(self, env_ids: np.ndarray) -> Sequence[EpisodeEnd]:
        ends: list[EpisodeEnd] = []
        for i in env_ids.tolist():
            self._trial[0] = self._envs[i]
            reward, terminated = _repeat_step(self._trial, self._actions[i])
            cause = self._cause(self._trial[0], reward, terminated, int(self._actions[i]))
            ends.append(EpisodeEnd(cause, {"task": const.TASKS[self._trial["task"][0]]}))
        return ends

    def _cause(self, env: np.void, reward: float, terminated: bool, action: int) -> str:
        if reward > 0:
            return "solved"
        if not terminated:
            return "time limit"
        if env["grid"][env["cell"]] == const.LAVA:
            return "lava"
        if env["objective"] == const.AVOID_OBSTACLES:
            return "collision"
        if env["objective"] == const.GO_TO_TARGET:
            return "done in the wrong place" if action == const.SAY_DONE else "toggled something"
        if env["objective"] == const.RED_THEN_BLUE:
            return "blue door first"
        return "dropped elsewhere" if action == const.DROP else "wrong object"


@jit
def _repeat_step(trial, action):
    return step(trial[0], action)
