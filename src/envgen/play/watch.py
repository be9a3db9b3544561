"""Watch a policy play, in a window or in the terminal. It uses only the contracts of worlds and policies."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Protocol

import numpy as np

from envgen.report.episodes import EpisodePlayer, RecordedEpisode, repeat
from envgen.worlds.world import Level, World

from .front_end import run_front_end
from .session import QUIT_KEYS, format_return

DEFAULT_SPEED = 10.0  # steps per second, of worlds that name none
SPEEDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 240.0)
END_SECONDS = 1.5  # for which the end of an episode is shown
HELP = ("space: pause   .: one step", "+ and -: faster, slower", "n: next episode   q: quit")


class EpisodeSource(Protocol):
    """Where the actions of the episodes come from."""

    world: World

    def make_player(self, size: int | None, text_observation: str | None) -> EpisodePlayer:
        """A player that can draw pictures of this size, or show this observation."""
        ...

    def begin(self, player: EpisodePlayer) -> str | None:
        """Begin the next episode and return its name; None if there are no more."""
        ...

    def advance(self, player: EpisodePlayer) -> None:
        """Take the next step."""
        ...


class LiveEpisodes:
    """A policy acts step by step. Episode k is the first one of the seed `seed + k - 1`."""

    def __init__(
        self, policy: Any, world: World, level: Level, seed: int, observation: str, deterministic: bool = False
    ):
        self.policy, self.world, self.level, self.observation = policy, world, level, observation
        self.deterministic, self._next_seed = deterministic, seed

    def make_player(self, size: int | None, text_observation: str | None) -> EpisodePlayer:
        if size is not None:
            return EpisodePlayer(
                self.world, self.world.single_rendered(self.level, observation=self.observation, size=size)
            )
        env, mirror = self.world.single(self.level, observation=self.observation), None
        if text_observation not in (None, self.observation):
            mirror = self.world.single(self.level, observation=text_observation)
        return EpisodePlayer(self.world, env, mirror)

    def begin(self, player: EpisodePlayer) -> str:
        seed, self._next_seed = self._next_seed, self._next_seed + 1
        player.reset(seed)
        self.policy.reset(player.info)
        self._rng = None if self.deterministic else np.random.default_rng(seed)
        return f"seed {seed}"

    def advance(self, player: EpisodePlayer) -> None:
        action = self.policy.act(player.observation, self._rng)
        reward = player.take(int(action) if self.world.actions else action)
        self.policy.observe(reward, bool(player.ended))


class RecordedEpisodes:
    """Episodes that were recorded are played again, one after the other."""

    def __init__(self, world: World, level: Level, episodes: Sequence[RecordedEpisode]):
        self.world, self.level, self._episodes = world, level, iter(episodes)
        self._steps: Iterator[EpisodePlayer] = iter(())

    def make_player(self, size: int | None, text_observation: str | None) -> EpisodePlayer:
        if size is not None:
            return EpisodePlayer(self.world, self.world.single_rendered(self.level, size=size))
        observation = text_observation or self.world.observations[0]
        return EpisodePlayer(self.world, self.world.single(self.level, observation=observation))

    def begin(self, player: EpisodePlayer) -> str | None:
        episode = next(self._episodes, None)
        if episode is None:
            return None
        self._steps = repeat(player, episode)
        next(self._steps)
        return episode.name

    def advance(self, player: EpisodePlayer) -> None:
        next(self._steps)
        if player.ended:
            next(self._steps, None)  # checks that the episode went as before


class WatchSession:
    """Shows episodes one after the other: what keys do, and when the next step is due. Independent of the front end.

    Attributes:
        player: The episode that is shown.
        name: Its name.
        finished: Whether the last episode has been shown, or the user has quit.

    Args:
        num_episodes: Finish after this many; None for all that there are.
        speed: Steps per second; None for the world's.
    """

    def __init__(self, source: EpisodeSource, player: EpisodePlayer, num_episodes: int | None, speed: float | None):
        self.source, self.player, self.num_episodes = source, player, num_episodes
        self.speed = speed or float(player.env.metadata.get("render_fps") or DEFAULT_SPEED)
        self.is_paused, self.finished, self.num_begun, self.name = False, False, 0, ""
        self.begin_next()

    def begin_next(self) -> None:
        """Begin the next episode, or finish."""
        name = None if self.num_begun == self.num_episodes else self.source.begin(self.player)
        if name is None:
            self.finished = True
        else:
            self.name, self.num_begun = name, self.num_begun + 1

    def advance(self) -> None:
        """Take the next step; after the end of an episode, begin the next one."""
        if self.player.ended:
            self.begin_next()
        else:
            self.source.advance(self.player)

    @property
    def seconds_to_next(self) -> float | None:
        """For how long the current step is shown; None while paused."""
        if self.is_paused:
            return None
        return END_SECONDS if self.player.ended else 1 / self.speed

    def press(self, key: str) -> None:
        """Handle a key, given by its name or character. Other keys do nothing."""
        key = key.lower()
        if key == "space":
            self.is_paused = not self.is_paused
        elif key in (".", "right") and self.is_paused:
            self.advance()
        elif key in ("+", "=", "up"):
            self.speed = next((speed for speed in SPEEDS if speed > self.speed), self.speed)
        elif key in ("-", "down"):
            self.speed = next((speed for speed in reversed(SPEEDS) if speed < self.speed), self.speed)
        elif key == "n":
            self.begin_next()
        elif key in QUIT_KEYS:
            self.finished = True

    def note(self) -> str:
        """`seed 3, 2 of 5, 15 steps/s`"""
        count = f", {self.num_begun} of {self.num_episodes}" if self.num_episodes not in (None, 1) else ""
        return f"{self.name}{count}, {'paused' if self.is_paused else f'{self.speed:g} steps/s'}"

    def status(self) -> list[str]:
        """The state of the episode as text."""
        player, world = self.player, self.player.world
        amounts = [f"{name} {amount}" for name, amount in player.status.items() if amount or name in world.gauges]
        skills = sorted(player.first_success, key=lambda name: -player.first_success[name])  # the latest first
        return [
            f"{world.name}: {self.note()}",
            f"step {player.step:,}, return {format_return(player.episode_return)}, "
            + (f"episode {player.ended}" if player.ended else f"action {player.action_name}"),
            *([", ".join(amounts)] if amounts else []),
            f"{len(skills)} of {len(world.skills)} skills: {', '.join(skills) or 'none yet'}",
        ]


def watch(
    source: EpisodeSource, num_episodes: int | None = None, speed: float | None = None, terminal: bool = False
) -> None:
    """Show episodes until the user quits.

    Opens a window, or uses the terminal if `terminal` is set or no window can be opened. If standard input or output is
    not a terminal, prints a line for each skill that succeeds instead, and plays one live episode if `num_episodes` is
    not given.
    """
    from .watch_terminal import watch_in_terminal  # each front end imports what only it needs
    from .watch_window import watch_in_window

    run_front_end(
        lambda: watch_in_window(source, num_episodes, speed),
        lambda: watch_in_terminal(source, num_episodes, speed),
        terminal,
        "using the terminal instead",
    )


def print_episodes(source: EpisodeSource, num_episodes: int | None) -> None:
    """Print what happens in the episodes, as fast as possible."""
    if num_episodes is None and isinstance(source, LiveEpisodes):
        num_episodes = 1
    with closing(source.make_player(None, None)) as player:
        session = WatchSession(source, player, num_episodes, None)
        while not session.finished:
            print(f"{player.world.name}, {session.name}")
            _print_new_skills(player)
            while not player.ended:
                session.advance()
                _print_new_skills(player)
            skills = f"{len(player.first_success)} of {len(player.world.skills)} skills"
            result = f"return {format_return(player.episode_return)}, {skills}"
            print(f"  step {player.step:5,}  {player.ended}: {result}", flush=True)
            session.begin_next()


def _print_new_skills(player: EpisodePlayer) -> None:
    gauges = ", ".join(f"{name} {player.status[name]}" for name in player.world.gauges)
    for name in player.new_skills:
        print(f"  step {player.step:5,}  {name}{f'  ({gauges})' if gauges else ''}")
