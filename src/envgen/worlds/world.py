"""The contract of a world: what a designer may set (`Level`), what an agent can learn (`Skill`), and `World` itself."""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, get_args, get_origin

import gymnasium
import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

WORD = 80  # characters of an unknown word that are quoted
WHOLE = TypeAdapter(int)


class LevelError(ValueError):
    """A level that is not in its world's family; the message names the wrong value and the nearest right one."""


class Skill(NamedTuple):
    """Something an agent can succeed at, and the skills it takes to get there."""

    name: str
    needs: tuple[str, ...] = ()


class SymbolMap(NamedTuple):
    """Where a vector of symbols holds a map: its first `planes` x `rows` x `columns` entries, plane by plane.

    Environments whose symbols hold one have it in their metadata as "symbol_map".
    """

    planes: int
    rows: int
    columns: int
    eye: int  # the cell from which the agent looks, counted row by row
    facing: int | None = None  # the index of the symbol that is 1 + the number of the direction faced, 0 for none
    steps: tuple[tuple[int, int], ...] = ()  # each direction's step, (columns right, rows down)
    around: int = 1  # cells this near, diagonals counting one, matter each for itself


def nearest(word: str, words: Sequence[str]) -> str:
    """`'tress' is not one of ..., did you mean 'trees'?`"""
    word = word[:WORD]
    close = difflib.get_close_matches(word.lower(), words, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{word!r} is not one of {', '.join(words)}{hint}"


class Settings(BaseModel):
    """A frozen group of settings that refuses what it does not know, with the nearest word it does know.

    Words may be written in any case and with spaces, hyphens or underscores, numbers also as text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _speak_plainly(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        fields = cls.model_fields
        clean = {}
        for key, value in data.items():
            if key not in fields:
                unknown = key if isinstance(key, str) else _shown(key)
                raise ValueError(f"{cls.__name__}: setting {nearest(unknown, list(fields))}")
            kind = fields[key].annotation
            if get_origin(kind) is Literal and isinstance(value, str):
                value = _option(key, value, get_args(kind))
            clean[key] = value
        return clean


def _option(name: str, text: str, options: Sequence[Any]) -> Any:
    """The option that a text stands for. Where some options are not words, an unknown text is left for pydantic to
    refuse."""
    words = {_plain(option): option for option in options if isinstance(option, str)}
    if _plain(text) in words:
        return words[_plain(text)]
    if all(isinstance(option, str) for option in options):
        raise ValueError(f"{name}: {nearest(text, list(words.values()))}")
    try:
        return WHOLE.validate_python(text)
    except ValidationError:
        return text


def _plain(word: str) -> str:
    return " ".join(word.lower().replace("_", " ").replace("-", " ").split())


class Level(Settings):
    """Which environment of a family. The default is the original world, exactly; every setting changes it."""

    @classmethod
    def parse(cls, data: "Level | Mapping[str, Any] | str | None") -> Self:
        """A level from a level, a mapping, JSON text or None (the original), or a LevelError about it."""
        try:
            if data is None:
                return cls()
            if isinstance(data, str):
                return cls.model_validate_json(data)
            if isinstance(data, Level) and not isinstance(data, cls):
                raise LevelError(f"a {type(data).__name__} is not a {cls.__name__}")
            return cls.model_validate(data)
        except ValidationError as error:
            raise LevelError(explain(error)) from None


def explain(error: ValidationError) -> str:
    """What is wrong with some settings, in a sentence each."""
    return "; ".join(_sentence(problem) for problem in error.errors())


def _sentence(problem: Mapping[str, Any]) -> str:
    place = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    got = "" if problem["type"] == "value_error" else f" (got {_shown(problem['input'])})"
    return f"{place}: {message}{got}" if place else f"{message}{got}"


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):  # Python refuses to print very long integers and very deep lists
        return f"{type(value).__name__}, too large to show"


_Level = Level  # World has an attribute of that name


class Census(Protocol):
    """What worlds of a level really hold; as text, a table for people."""

    def figures(self) -> dict[str, float]:
        """By what is counted. Counting the same in another level gives the same names."""
        ...


class World(ABC):
    """A family of environments that share rules."""

    name: ClassVar[str]
    Level: ClassVar[type[_Level]]
    skills: ClassVar[tuple[Skill, ...]]
    actions: ClassVar[tuple[str, ...]]
    observations: ClassVar[tuple[str, ...]]
    rules: ClassVar[str]  # the world explained in prose, for a designer
    lessons: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # skill: settings that grant what it needs
    keys: ClassVar[Mapping[str, str]] = {}  # key: action, for people who play
    yardstick: ClassVar[str] = ""  # what players that act at random reach, said beside every result

    @property
    def original(self) -> _Level:
        return self.Level()

    @abstractmethod
    def make(
        self,
        levels: Sequence[Any] = (),
        num_envs: int | None = None,
        seed: int | None = None,
        observation: str = "pixels",
        **kw,
    ) -> gymnasium.vector.VectorEnv:
        """Many environments at once; environment i plays levels[i % len(levels)]. No levels: the original.

        One environment per level unless `num_envs` says otherwise. The first `reset()` is the first episode of `seed`.
        """

    @abstractmethod
    def single(self, level: Any = None, seed: int | None = None, observation: str = "pixels", **kw) -> gymnasium.Env:
        """One environment of one level."""

    @abstractmethod
    def census(self, level: Any = None, seeds: Sequence[int] = range(16)) -> Census:
        """What worlds of a level really hold."""

    @abstractmethod
    def gallery(self, levels: Mapping[str, Any], columns: int = 4, seed: int = 0) -> Image.Image:
        """Worlds of several levels from above, each under its title, with seeds `seed`, `seed + 1`, ..."""

    def reachable(self, level: Any, census: Any) -> set[str]:
        """The skills that this level can lead to, its worlds being as counted. The others it makes impossible."""
        return {skill.name for skill in self.skills}

    def scripted(self, envs: Any) -> np.ndarray | None:
        """What the world's scripted player does in each of the environments that `make` made; None if it has none."""
        return None
