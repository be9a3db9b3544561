"""A game session: maps key presses to environment steps and returns events. Independent of the front end."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from envgen.errors import EnvgenError
from envgen.settings import format_choice_error
from envgen.worlds.world import World

QUIT_KEYS, RESTART_KEY = ("q", "escape"), "r"  # unless the world binds them to actions


class PlayError(EnvgenError):
    """A world that cannot be played this way; the message says how to play it."""


def check_playable(world: World, key_bindings: Mapping[str, str]) -> None:
    """Raise PlayError if a world cannot be played with these keys."""
    if not world.actions and not world.manual_actions:
        raise PlayError(
            f"{world.name} has continuous actions, so it cannot be played with keys; `envgen watch RUN` shows an agent"
        )
    if not key_bindings:
        raise PlayError(f"{world.name} defines no key bindings; set key_bindings in its class to play it by hand")


class Event(NamedTuple):
    """The result of a key press, with a message for the player where there is one."""

    kind: Literal["step", "skill", "end", "restart", "quit", "rejected"]
    text: str = ""


class GameSession:
    """One environment, played episode after episode.

    Args:
        key_bindings: By default those of the world.
        render_size: Side length in pixels of the images of `env.render()`; by default there are none.
    """

    def __init__(
        self,
        world: World,
        level: Any = None,
        seed: int | None = None,
        observation: str | None = None,
        key_bindings: Mapping[str, str] | None = None,
        render_size: int | None = None,
    ):
        self.key_bindings = key_bindings or world.key_bindings
        check_playable(world, self.key_bindings)
        self.world, self._skills = world, [skill.name for skill in world.skills]
        self._quit_keys = [key for key in QUIT_KEYS if key not in self.key_bindings]
        observation = observation or world.observations[0]
        if render_size is None:
            self.env = world.single(level, seed, observation)
        else:
            self.env = world.single_rendered(level, seed, observation, render_size)
        self.reset()

    def reset(self) -> None:
        """Start the next episode."""
        self.observation, info = self.env.reset()
        self.steps, self.episode_return, self.done = 0, 0.0, False
        self._components: dict[int, float] = {}  # of the last continuous action
        self.achieved = self._read_achievements(info)  # in the order in which the player achieved them

    def _read_achievements(self, info: Mapping[str, Any]) -> list[str]:
        """The skills that succeeded in this episode. `info` has their counts, by name or in the world's order."""
        counts = info["achievements"]
        if isinstance(counts, Mapping):
            return [name for name in self._skills if counts[name]]
        return [name for name, count in zip(self._skills, counts, strict=True) if count]

    def press(self, key: str) -> list[Event]:
        """Handle a key, given by its name (left, right, up, down, space, escape) or its character."""
        key = key if key in self.key_bindings else key.lower()
        if key == RESTART_KEY and self.done:
            self.reset()
            return [Event("restart", "A new episode.")]
        if key in self.key_bindings:
            return [Event("rejected", self.end_message())] if self.done else self._step(self.key_bindings[key])
        if key in QUIT_KEYS:
            return [Event("quit")]
        if key == RESTART_KEY:
            return [Event("rejected", f"{RESTART_KEY} starts a new episode once this one has ended.")]
        return [Event("rejected", format_choice_error(key, [*self.key_bindings, *self._quit_keys, RESTART_KEY]))]

    def _step(self, name: str) -> list[Event]:
        """Take the steps of one key press."""
        events, action = [Event("step")], self._env_action(name)
        for _ in range(self.world.steps_per_key):
            self.observation, reward, terminated, truncated, info = self.env.step(action)
            self.steps += 1
            self.episode_return += float(reward)
            new_skills = [name for name in self._read_achievements(info) if name not in self.achieved]
            self.achieved += new_skills
            events += [Event("skill", f"Step {self.steps}: first {name}.") for name in new_skills]
            if terminated or truncated:
                self.done = True
                return [*events, Event("end", self.end_message())]
        return events

    def _env_action(self, name: str) -> Any:
        if self.world.actions:
            return self.world.actions.index(name)
        self._components |= self.world.manual_actions[name]
        space = self.env.action_space
        action = np.zeros(space.shape or (), space.dtype)
        action[[*self._components]] = [*self._components.values()]
        return action

    def end_message(self) -> str:
        how_to_quit = f", {self._quit_keys[0]} to quit" if self._quit_keys else ""
        return f"The episode ended at step {self.steps}. Press {RESTART_KEY} to restart{how_to_quit}."

    def caption(self) -> str:
        """The state of the episode in one line."""
        last_skill = self.achieved[-1] if self.achieved else "none"
        end = f" - {self.end_message()}" if self.done else ""
        return (
            f"{self.world.name}: step {self.steps}, return {format_return(self.episode_return)}, "
            f"last new skill {last_skill}{end}"
        )

    def status(self) -> list[str]:
        """The state of the episode in two lines."""
        return [
            f"step {self.steps}, return {format_return(self.episode_return)}",
            f"{len(self.achieved)} of {len(self._skills)} skills: {', '.join(self.achieved) or 'none yet'}",
        ]

    def help(self) -> list[str]:
        """The keys, with related actions on one line: `place: 1 stone, 2 table`."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for key, action in self.key_bindings.items():
            verb, _, target = action.partition("_")
            groups.setdefault(verb, []).append((key, target.replace("_", " ")))
        lines, others = [], []
        for verb, keys in groups.items():
            if len(keys) > 1:
                names = (key if key == target else f"{key} {target}".strip() for key, target in keys)
                lines.append(f"{verb}: {', '.join(names)}")
            else:
                others += [f"{key} {verb} {target}".strip() for key, target in keys]
        others += [f"{' or '.join(self._quit_keys)} to quit"] if self._quit_keys else []
        return [*lines, "other: " + ", ".join(others)] if others else lines

    def close(self) -> None:
        self.env.close()


def format_return(value: float) -> str:
    return f"{round(value, 2):g}"
