"""The original game, from the `crafter` package, and a pair that plays it side by side with ours.

The original keeps the entities of a chunk in a Python set, so the order in which it picks one to remove depends on memory
addresses: it is not repeatable. `original` gives these sets the order of insertion, the one defined choice that ours
makes too, and changes nothing else.
"""

import collections
from collections.abc import Iterable

import crafter
import numpy as np
from crafter import engine

from .constants import MAX_EPISODE_STEPS
from .env import CrafterEnv
from .level import CrafterLevel
from .render import parse_image_size


class ParityError(AssertionError):
    """Ours and the original differ; the message says in what, when, and how."""


class _InOrder(dict):
    """A set in order of insertion, with what the original uses of one."""

    def add(self, entity) -> None:
        self[entity] = None

    def remove(self, entity) -> None:
        del self[entity]


class _World(engine.World):
    def reset(self, seed=None) -> None:
        super().reset(seed)
        self._chunks = collections.defaultdict(_InOrder)


def make_original(seed: int, size: int | tuple[int, int] = 64, length: int = MAX_EPISODE_STEPS) -> crafter.Env:
    """`crafter.Env(seed=seed)`, made repeatable."""
    env = crafter.Env(size=parse_image_size(size), length=length, seed=seed)
    env._world.__class__ = _World
    return env


class ParityChecker:
    """Ours and the original, given the same actions; every difference raises Mismatch."""

    def __init__(self, seed: int, size: int | tuple[int, int] = 64, length: int = MAX_EPISODE_STEPS):
        self.seed, self.steps = seed, 0
        self.ours = CrafterEnv(CrafterLevel(length=length), size=size)
        self.theirs = make_original(seed, size, length)
        self.started = False

    def reset(self) -> None:
        theirs = self.theirs.reset()
        ours, info = self.ours.reset(seed=None if self.started else self.seed)
        self.started = True
        self._equal("observation", ours, theirs)
        self._equal("player_pos", info["player_pos"], self.theirs._player.pos)  # pyright: ignore[reportOptionalMemberAccess]
        self._equal("semantic", info["semantic"], self.theirs._sem_view())

    def step(self, action: int) -> bool:
        """Take an action in both. True if the episode has ended."""
        self.steps += 1
        theirs, reward, done, info = self.theirs.step(action)
        ours, our_reward, terminated, truncated, our_info = self.ours.step(action)
        self._equal("observation", ours, theirs)
        self._equal("reward", our_reward, reward)
        self._equal("done", terminated or truncated, bool(done))
        self._equal("discount", our_info["discount"], info["discount"])
        for what, mine, their_own in (
            ("inventory", our_info["inventory"], info["inventory"]),
            ("achievements", our_info["achievements"], info["achievements"]),
            ("player_pos", our_info["player_pos"], info["player_pos"]),
            ("semantic", our_info["semantic"], info["semantic"]),
            (
                "random stream",
                self.ours.engine.state.envs["rng"][0, :-1],
                self.theirs._world.random.get_state(legacy=False)["state"]["key"],
            ),
        ):
            self._equal(what, mine, their_own)
        return bool(done)

    def play(self, actions: Iterable[int]) -> None:
        """Take actions one after another, beginning a new episode whenever one ends."""
        if not self.started:
            self.reset()
        for action in actions:
            if self.step(action):
                self.reset()

    def _equal(self, what: str, ours, theirs) -> None:
        same = np.array_equal(ours, theirs) if isinstance(ours, np.ndarray) else ours == theirs
        if not same:
            raise ParityError(
                f"{what} of seed {self.seed} after {self.steps} steps: ours {ours}, the original's {theirs}"
            )
