"""The contract of a designer: what it is told, what it answers, and what comes back of it.

A level travels as what it changes in the original: `{}` is the original, `{"iron": "common"}` one change. All values
here are data that a run keeps as JSON. What a designer may want to have measured is lent to it in the brief as
functions; it never touches a simulator itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from envgen.errors import EnvgenError
from envgen.worlds.world import Level, Skill

LevelOverrides = dict[str, Any]  # what a level changes
ScoredBy = Literal["throwaway", "agent"]  # who plays: a fresh agent trained in each level, or the agent of this run
SettingEffects = dict[str, dict[str, list[str]]]  # setting: value: what worlds then hold, in words


class DesignError(EnvgenError):
    """A designer cannot do its work; the message says what to do."""


class FrozenModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ProposedLevel(FrozenModel):
    """One level, and why."""

    level: LevelOverrides
    purpose: str = ""
    skills: tuple[str, ...] = ()  # that it is meant to teach


class Proposal(FrozenModel):
    """The levels of one cycle. None at all: train in the original."""

    levels: tuple[ProposedLevel, ...] = ()
    raw_reply: str = ""  # the words of a language model, as they came
    notes: tuple[str, ...] = ()  # what did not go as planned
    candidates: tuple[ProposedLevel, ...] = ()  # those among which it chose, best first


class AuditResult(FrozenModel):
    """What the audit found in one level before anybody trained in it."""

    verdict: Literal["good", "doubtful", "bad"]
    reasons: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()


class SuccessRate(FrozenModel):
    """A success rate in percent: mean and standard deviation over seeds."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.1f}% ± {self.std:.1f}%"


class LevelOutcome(FrozenModel):
    """How training went in one level: success rates in percent, in all its episodes, its first and its last third."""

    episodes: int
    reward: float
    skills: dict[str, float]
    first_third: dict[str, float]
    last_third: dict[str, float]


class Cycle(FrozenModel):
    """One turn of the loop, as designers see it afterwards."""

    number: int
    steps: int  # of the agent so far
    proposal: Proposal
    audits: tuple[AuditResult, ...]
    outcomes: tuple[LevelOutcome | None, ...]  # by level; None where no episode ended
    success_rates: dict[str, SuccessRate]  # in the original, without learning
    reward: float


@dataclass(frozen=True)
class Brief:
    """What a designer is told of a world and of its task."""

    world: str
    rules: str
    skills: tuple[Skill, ...]
    Level: type[Level]
    skill_levels: Mapping[str, Mapping[str, Any]]  # skill: settings that grant what it needs
    num_levels: int  # levels
    cycle: int  # which this is, from 1
    num_cycles: int
    seed: int
    setting_effects: Callable[[], SettingEffects] = dict
    score_levels: Callable[[Sequence[LevelOverrides], ScoredBy], list[float]] | None = (
        None  # the score reached in each level
    )


class Designer(ABC):
    name: ClassVar[str]

    def config(self) -> dict[str, Any]:
        """Which designer this is, with all its settings, as data."""
        settings = getattr(self, "settings", None)
        return {"name": self.name, **(settings.model_dump(mode="json") if settings else {})}

    def runtime_options(self) -> dict[str, Any]:
        """By which means it is reached and what it may cost; they may change while the run stays the same."""
        return {}

    def usage(self) -> dict[str, float | None]:
        """What was asked of a language model so far, and what it cost in dollars; None if nobody knows."""
        return {"calls": 0, "prompt_tokens": 0, "reply_tokens": 0, "cost": 0.0}

    @abstractmethod
    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        """The levels of the next cycle. The same arguments give the same levels: an interrupted run asks again."""

    def revise(
        self, brief: Brief, history: Sequence[Cycle], proposal: Proposal, verdicts: Sequence[AuditResult]
    ) -> Proposal | None:
        """Another proposal, now that the audit called some level bad; None to stand by this one."""
        return None


class DesignerWrapper(Designer):
    """A designer that works on what another one, its `source`, proposes."""

    source_key: ClassVar[str] = "source"  # what `about` calls the other

    def __init__(self, source: Designer):
        self.source = source

    def config(self) -> dict[str, Any]:
        return {"name": self.name, self.source_key: self.source.config()}

    def runtime_options(self) -> dict[str, Any]:
        return self.source.runtime_options()

    def usage(self) -> dict[str, float | None]:
        return self.source.usage()


def to_overrides(level: Mapping[str, Any], Level: type[Level]) -> LevelOverrides:
    """A level as what it changes, or a LevelError."""
    return Level.parse(level).model_dump(mode="json", exclude_defaults=True)
