"""A game in a person's hands: keys go in, what happened comes out. How it is shown is not of its concern."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from envgen.settings import nearest
from envgen.worlds.world import World

QUIT, AGAIN = ("q", "escape"), "r"  # unless the world has a use for them


class PlayError(Exception):
    """A world that cannot be played like this; the message says how it can."""


class Event(NamedTuple):
    """Something that happened, with a sentence about it where there is something to tell."""

    kind: Literal["step", "skill", "end", "begin", "quit", "refused"]
    text: str = ""


class Game:
    """One environment, episode after episode. `how` goes to the world: `render_mode`, `render_size`."""

    def __init__(
        self, world: World, level: Any = None, seed: int | None = None, observation: str | None = None, **how: Any
    ):
        if not world.key_bindings:
            raise PlayError(f"{world.name} names no keys by which a person could play it")
        self.world, self._skills = world, [skill.name for skill in world.skills]
        self._actions = {key: world.actions.index(action) for key, action in world.key_bindings.items()}
        self.env = world.single(level, seed, observation=observation or world.observations[0], **how)
        self.reset()

    def reset(self) -> None:
        """Begin the next episode."""
        self.observation, info = self.env.reset()
        self.steps, self.total, self.over = 0, 0.0, False
        self.achieved = self._achieved(info)  # in the order in which they came

    def _achieved(self, info: Mapping[str, Any]) -> list[str]:
        """The skills that succeeded in this episode: counted in the order of the world's, or by name."""
        counts = info["achievements"]
        if isinstance(counts, Mapping):
            return [name for name in self._skills if counts[name]]
        return [name for name, count in zip(self._skills, counts, strict=True) if count]

    def press(self, key: str) -> list[Event]:
        """What comes of a key, given by its name: left, right, up, down, space, escape, or its character."""
        key = key if key in self._actions else key.lower()
        if key == AGAIN and self.over:
            self.reset()
            return [Event("begin", "A new episode.")]
        if key in self._actions:
            return [Event("refused", self.ending())] if self.over else self._step(self._actions[key])
        if key in QUIT:
            return [Event("quit")]
        if key == AGAIN:
            return [Event("refused", f"{AGAIN} begins anew when the episode has ended.")]
        return [Event("refused", nearest(key, [*self._actions, *self._leaving(), AGAIN]))]

    def _step(self, action: int) -> list[Event]:
        self.observation, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        self.total += float(reward)
        fresh = [name for name in self._achieved(info) if name not in self.achieved]
        self.achieved += fresh
        events = [Event("step"), *(Event("skill", f"Step {self.steps}: {name}, for the first time.") for name in fresh)]
        if terminated or truncated:
            self.over = True
            events.append(Event("end", self.ending()))
        return events

    def ending(self) -> str:
        return f"The episode ended at step {self.steps}. {AGAIN} begins anew, {self._leaving()[0]} quits."

    def caption(self) -> str:
        """All there is to say in one line."""
        last = self.achieved[-1] if self.achieved else "none"
        ended = f" - {self.ending()}" if self.over else ""
        return f"{self.world.name}: step {self.steps}, reward {_short(self.total)}, last new skill {last}{ended}"

    def status(self) -> list[str]:
        """How the episode stands."""
        return [
            f"step {self.steps}, return {_short(self.total)}",
            f"{len(self.achieved)} of {len(self._skills)} skills: {', '.join(self.achieved) or 'none yet'}",
        ]

    def help(self) -> list[str]:
        """The keys, those of like actions in a line: `place: s stone, t table`."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for key, action in self.world.key_bindings.items():
            kind, _, what = action.partition("_")
            groups.setdefault(kind, []).append((key, what.replace("_", " ")))
        lines, others = [], []
        for kind, keys in groups.items():
            if len(keys) > 1:
                lines.append(
                    f"{kind}: {', '.join(key if key == what else f'{key} {what}'.strip() for key, what in keys)}"
                )
            else:
                others += [f"{key} {kind} {what}".strip() for key, what in keys]
        return [*lines, "other: " + ", ".join([*others, f"{' or '.join(self._leaving())} to quit"])]

    def _leaving(self) -> list[str]:
        return [key for key in QUIT if key not in self._actions]

    def close(self) -> None:
        self.env.close()


def _short(number: float) -> str:
    return f"{round(number, 2):g}"
