"""Environments that are restored by playing the actions of the episode again."""

from typing import Any, ClassVar

import numpy as np

from .python_world import PythonEnv


class ReplayedEnv(PythonEnv):
    """A PythonEnv whose `state` has the array `actions`, because its simulator cannot be saved.

    A subclass plays an episode again in `begin_again` and `step_again`.
    """

    mismatch_cause: ClassVar[str] = "the environment is not deterministic, or the state is damaged"
    """Why the actions may give a different return than before."""

    def begin_again(self) -> None:
        """Begin the episode of `state`. Raises ValueError if the state is damaged."""
        raise NotImplementedError

    def step_again(self, action: Any, episode_return: float, episode_length: int) -> tuple[float, bool]:
        """Play a step, given the return and the length of the episode before it, and count the skills that succeed.

        Returns:
            The reward, and whether the environment itself ends the episode.
        """
        raise NotImplementedError

    def fits_length(self, steps: int) -> bool:
        return 0 <= steps <= self.max_episode_steps  # the number of `actions`

    def on_restore(self) -> None:
        length, expected = self.episode_length, self.achievements
        self.achievements = np.zeros_like(expected)
        self.begin_again()
        if not self.fits_length(length):
            raise ValueError(f"an episode cannot have {length} steps")
        total = 0.0
        for k, action in enumerate(self.state["actions"][:length]):
            reward, ended = self.step_again(action, total, k)
            total += reward
            if ended and (self.running or k + 1 < length):
                raise ValueError(f"an episode ended after {k + 1} of {length} steps when its actions were played again")
        if not np.array_equal(total, self.episode_return, equal_nan=True):
            raise ValueError(
                f"playing {length} actions again gave a return of {total} instead of {self.episode_return}; "
                f"{self.mismatch_cause}"
            )
        if not np.array_equal(self.achievements, expected):
            raise ValueError(f"playing {length} actions again gave different skills; {self.mismatch_cause}")
