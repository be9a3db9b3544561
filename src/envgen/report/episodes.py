"""Episodes of a policy: record what it does, choose episodes to show, and play them again step by step.

Many episodes are played at once without pictures, and only their actions are kept. An episode to be shown is then
repeated in a single environment, with the same seed and actions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from envgen.errors import EnvgenError
from envgen.settings import to_integer
from envgen.worlds.world import LevelEnv, World


class EpisodeError(EnvgenError):
    """An episode cannot be chosen or repeated; the message says why."""


@dataclass(frozen=True)
class RecordedEpisode:
    """One episode, without its pictures."""

    seed: int  # of its environment
    number: int  # 1 for the first episode of its environment
    actions: tuple[Any, ...] = field(repr=False)  # int, or arrays if actions are continuous
    earlier_actions: tuple[tuple[Any, ...], ...] = field(repr=False)  # of the earlier episodes of its environment
    episode_return: float
    first_success: Mapping[str, int]  # skill: the step of its first success, from 1
    ended: bool = True

    @property
    def name(self) -> str:
        return f"seed {self.seed}" + (f", episode {self.number}" if self.number > 1 else "")


class ActionRecorder:
    """An `EpisodeObserver` of `run_episodes` that keeps the actions and first successes of every episode.

    Args:
        seed: The seed of the first environment; the others count up from it.
    """

    def __init__(self, world: World, seed: int):
        self._skills, self._seed = [skill.name for skill in world.skills], seed
        self._actions: list[np.ndarray] = []  # of each step, one row per environment
        self._finished: list[tuple[int, int, RecordedEpisode]] = []  # number, environment, episode
        self._num_envs = 0

    def before_step(self, actions: np.ndarray, playing: np.ndarray) -> None:
        if not self._num_envs:
            self._num_envs = len(actions)
            self._starts = [0] * self._num_envs  # the steps at which the episodes in progress started
            self._played: list[list[tuple[Any, ...]]] = [[] for _ in range(self._num_envs)]  # in earlier episodes
            self._first_success: list[dict[str, int]] = [{} for _ in range(self._num_envs)]
            self._has_succeeded = np.zeros((self._num_envs, len(self._skills)), np.bool_)
            self._returns = np.zeros(self._num_envs)
        self._actions.append(np.array(actions))

    def after_step(
        self, playing: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, infos: Mapping[str, Any]
    ) -> None:
        dones = (terminated | truncated) & playing
        succeeded, returns = infos["achievements"] > 0, np.array(infos["episode_return"], np.float64)
        if dones.any():
            succeeded[dones] = infos["final_info"]["achievements"][dones] > 0
            returns[dones] = infos["final_info"]["episode_return"][dones]
        self._returns[playing] = returns[playing]
        step = len(self._actions)
        for i, k in np.argwhere(succeeded & ~self._has_succeeded & playing[:, None]):
            self._first_success[i][self._skills[k]] = step - self._starts[i]
        self._has_succeeded |= succeeded
        for i in np.flatnonzero(dones):
            episode = self._episode(int(i), ended=True)
            self._finished.append((episode.number, int(i), episode))
            self._played[i].append(episode.actions)
            self._starts[i] = step
            self._first_success[i], self._has_succeeded[i] = {}, False

    def _episode(self, i: int, ended: bool) -> RecordedEpisode:
        steps = self._actions[self._starts[i] :]
        return RecordedEpisode(
            seed=self._seed + i, number=len(self._played[i]) + 1,
            actions=tuple(row[i] if row.ndim > 1 else int(row[i]) for row in steps),
            earlier_actions=tuple(self._played[i]), episode_return=float(self._returns[i]),
            first_success=dict(self._first_success[i]), ended=ended,
        )  # fmt: skip

    def episodes(self, unfinished: bool = False) -> list[RecordedEpisode]:
        """The episodes that ended, the first ones of all environments first.

        Args:
            unfinished: Also those still in progress in environments that have no finished episode.
        """
        rows = list(self._finished)
        if unfinished:
            has_finished = {i for _, i, _ in rows}
            rows += [(1, i, self._episode(i, False)) for i in range(self._num_envs) if i not in has_finished]
        return [episode for _, _, episode in sorted(rows, key=lambda row: row[:2])]


def choose_episodes(
    episodes: Sequence[RecordedEpisode], count: int, best: bool = False, skill: str | None = None
) -> list[RecordedEpisode]:
    """At most `count` episodes: the first ones, or those that a user asks for.

    Args:
        best: Those with the highest return.
        skill: Only those that achieve this skill; the quickest first, or the best with `best`.
    """
    count = to_integer("the number of episodes", count, EpisodeError, minimum=1)
    chosen = [episode for episode in episodes if skill is None or skill in episode.first_success]
    if best:
        chosen.sort(key=lambda episode: -episode.episode_return)
    elif skill is not None:
        chosen.sort(key=lambda episode: episode.first_success[skill])
    return chosen[:count]


def format_action(world: World, action: Any) -> str:
    """The name of an action, or the numbers of a continuous one."""
    return " ".join(f"{value:+.2f}" for value in np.ravel(action)) if not world.actions else world.actions[int(action)]


class EpisodePlayer:
    """Steps a single environment and keeps what there is to show of the episode.

    Attributes:
        step, episode_return: Of the episode so far.
        action: The last action; None before the first.
        first_success: The step at which each skill first succeeded, 0 at the start.
        status: Amounts such as health; see `World.status`.
        ended: Why the episode ended, or "".

    Args:
        mirror: A second environment that takes the same actions, to show another observation than the agent's.
    """

    def __init__(self, world: World, env: LevelEnv, mirror: LevelEnv | None = None):
        self.world, self.env, self.mirror = world, env, mirror
        self.observation: Any = None
        self.info: Mapping[str, Any] = {}
        self.shown_observation: Any = None  # of the mirror, if there is one

    def reset(self, seed: int | None = None) -> None:
        """Begin the first episode of `seed`, or the next one."""
        self.observation, info = self.env.reset(seed=seed)
        self.shown_observation = self.observation if self.mirror is None else self.mirror.reset(seed=seed)[0]
        self.step, self.episode_return, self.action = 0, 0.0, None
        self.first_success: dict[str, int] = {}
        self.ended = ""
        self._read(info)

    def take(self, action: Any) -> float:
        """Take a step; return its reward."""
        self.observation, reward, terminated, truncated, info = self.env.step(action)
        self.shown_observation = self.observation if self.mirror is None else self.mirror.step(action)[0]
        self.step, self.action = self.step + 1, action
        self.episode_return += float(reward)
        self.ended = "ended" if terminated else "stopped at its time limit" if truncated else ""
        self._read(info)
        return float(reward)

    def _read(self, info: Mapping[str, Any]) -> None:
        self.info = info
        counts, skills = info["achievements"], [skill.name for skill in self.world.skills]
        by_name = counts if isinstance(counts, Mapping) else dict(zip(skills, counts, strict=True))
        self.new_skills = [name for name in skills if by_name[name] > 0 and name not in self.first_success]
        self.first_success |= dict.fromkeys(self.new_skills, self.step)
        self.status = {name: int(amount) for name, amount in self.world.status(info).items()}

    @property
    def action_name(self) -> str:
        """The last action; "start" before the first."""
        return "start" if self.action is None else format_action(self.world, self.action)

    def image(self) -> np.ndarray:
        """The picture of the environment, (height, width, 3)."""
        return np.asarray(self.env.render())

    def close(self) -> None:
        self.env.close()
        if self.mirror is not None:
            self.mirror.close()


def repeat(player: EpisodePlayer, episode: RecordedEpisode, num_steps: int | None = None) -> Iterator[EpisodePlayer]:
    """Play a recorded episode again, and yield the player at its start and after each of its steps.

    Raises:
        EpisodeError: The skills do not succeed at the same steps as before.
    """
    player.reset(episode.seed)
    for actions in episode.earlier_actions:
        for action in actions:
            player.take(action)
        player.reset()
    yield player
    for action in episode.actions[:num_steps]:
        player.take(action)
        yield player
    expected = {name: step for name, step in episode.first_success.items() if step <= player.step}
    if {name: max(1, step) for name, step in player.first_success.items()} != expected:
        raise EpisodeError(
            f"replaying the episode of {player.world.name} with {episode.name} gives a different result; "
            "the world must be deterministic given a seed and actions"
        )
