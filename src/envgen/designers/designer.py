"""The designer interface: its inputs (`Brief`, `Cycle`) and its output (`Proposal`).

Designers do not access the simulator. The brief provides functions for the measurements they may need. To write a
designer, subclass `Designer` and define `design`. `setting_values` in `envgen.worlds.level_space` returns the values of
all settings of a Level class, for designers that sample.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from envgen.errors import EnvgenError
from envgen.settings import FrozenModel, Settings, format_choice_error, format_validation_error
from envgen.worlds.world import AnyLevel, Level, Skill

LevelOverrides = dict[str, Any]  # the settings of a level that differ from the original, as JSON data
ScoredBy = Literal["scoring_agent", "agent"]  # a new agent trained briefly in each level, or the agent of this run
Percent = Annotated[float, Field(ge=0, le=100)]
Cutoff = Annotated[float, Field(ge=1.5)]  # below, each cutoff leaves out late successes, and so makes the next shorter
MIN_WEIGHT, MAX_WEIGHT = 0.1, 10.0
MAX_WINDOW = 100_000  # episodes
Weight = Annotated[float, Field(ge=MIN_WEIGHT, le=MAX_WEIGHT, allow_inf_nan=False)]
SettingEffects = dict[str, dict[str, list[str]]]  # setting: value: its measured effects, in words


class DesignError(EnvgenError):
    """A designer cannot do its work. The message says what to do."""


class DesignData(FrozenModel):
    """Base class of the data that designers write and read."""

    @classmethod
    def from_json(cls, data: Any, level_type: type[Level]) -> Self:
        """Load what `model_dump(mode="json")` wrote. Levels in it become instances of `level_type`."""
        return cls.model_validate(data, context={"level_type": level_type})


class LevelChain(DesignData):
    """Levels of one skill, each a stage harder than the one before, that an agent trains in one after another.

    Training goes on to the next stage when the skill succeeds often enough, and back when it hardly succeeds any more
    (`envgen.curriculum.chains`).
    """

    skill: str
    """The skill whose success rate decides about the stage."""
    levels: Annotated[tuple[Level, ...], Field(min_length=1)]
    """The stages, from the easiest to the hardest."""
    start: Annotated[int, Field(ge=0)] = 0
    """The stage that training begins with, counted from 0."""
    advance_at: Percent = 50
    """The success rate, in percent, at which the next stage begins."""
    fall_back_at: Percent = 5
    """The success rate at which training returns to the stage before."""
    window: Annotated[int, Field(ge=1, le=MAX_WINDOW)] = 16
    """The number of episodes over which the success rate is taken."""
    cutoff: Cutoff | None = None
    """Truncate episodes at this multiple of the number of steps within which 90% of the last `window` successful
    episodes in the current stage succeeded, but not before step 64, nor before 8 episodes have succeeded there. The
    last stage is exempt. If not set, episodes end as in the world."""

    def at_stage(self, start: int) -> Self:
        """The same chain, beginning at another stage."""
        return self.model_copy(update={"start": start})

    @field_validator("levels", mode="before")
    @classmethod
    def _parse_levels(cls, values: Any, info: ValidationInfo) -> Any:
        if not isinstance(values, list | tuple):
            raise ValueError(f"the levels of a chain are a list, not {values!r:.60}")
        return tuple(parse_level(value, info) for value in values)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.levels)) < len(self.levels):
            raise ValueError(f"two stages of the chain for {self.skill} are the same level")
        if self.start >= len(self.levels):
            raise ValueError(f"start is {self.start}, but the chain has the stages 0 to {len(self.levels) - 1}")
        if self.fall_back_at >= self.advance_at:
            raise ValueError(f"fall_back_at {self.fall_back_at:g} must be below advance_at {self.advance_at:g}")
        return self

    @model_serializer(mode="wrap")
    def _dump(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return omit_defaults(type(self), handler(self), "cutoff")

    @field_serializer("levels")
    def _dump_levels(self, levels: tuple[Level, ...]) -> list[LevelOverrides]:
        return [level.to_overrides() for level in levels]


class ProposedLevel(DesignData):
    """A level and its purpose. With a chain, it is the stage of the chain that training begins with."""

    level: Level
    """The settings of the level."""
    purpose: str = ""
    """What the level is for, in a few words, for logs and reports."""
    skills: tuple[str, ...] = ()
    """The skills that the level is meant to teach."""
    chain: LevelChain | None = None
    """The chain that the level begins; without one, training stays in the level."""
    weight: Weight = 1.0
    """The level's share of the training in levels, relative to the others of its proposal."""
    base: str = ""
    """The earlier level that it repeats or changes, such as 1.2 for the second level of the first cycle."""

    @field_validator("level", mode="before")
    @classmethod
    def _parse_level(cls, value: Any, info: ValidationInfo) -> Any:
        return parse_level(value, info)

    @model_validator(mode="after")
    def _check_chain(self) -> Self:
        if self.chain is not None and self.level != self.chain.levels[self.chain.start]:
            raise ValueError(f"the level is not stage {self.chain.start} of its chain for {self.chain.skill}")
        return self

    @field_serializer("level")
    def _dump_level(self, level: Level) -> LevelOverrides:
        return level.to_overrides()

    @model_serializer(mode="wrap")
    def _dump(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return omit_defaults(type(self), handler(self), "chain", "weight", "base")


def parse_level(value: Any, info: ValidationInfo) -> Level:
    """Validate a level that is part of a model; its class is in the context of `DesignData.from_json`."""
    if isinstance(value, Level):
        return value
    level_type = (info.context or {}).get("level_type")
    if level_type is None:
        raise ValueError(f"expected a Level, such as brief.Level(), not {type(value).__name__}")
    return level_type.parse(value)


def omit_defaults(model: type[BaseModel], data: dict[str, Any], *names: str) -> dict[str, Any]:
    """Leave out fields with their default values, so that run directories without them keep their form."""
    return {
        name: value for name, value in data.items() if name not in names or value != model.model_fields[name].default
    }


class Proposal(DesignData):
    """The levels of one cycle. An empty proposal means training in the original."""

    levels: tuple[ProposedLevel, ...] = ()
    """The levels that the next cycle trains in."""
    raw_reply: str = ""
    """The unparsed reply of a language model."""
    notes: tuple[str, ...] = ()
    """What did not go as planned."""
    candidates: tuple[ProposedLevel, ...] = ()
    """The levels it chose from, in order of preference."""


class AuditResult(DesignData):
    """What the audit of a level found before any training in it."""

    verdict: Literal["good", "doubtful", "bad"]
    """If it is bad, `Designer.revise` may replace the proposal."""
    reasons: tuple[str, ...] = ()
    """Why the level is not good."""
    findings: tuple[str, ...] = ()
    """What else the audit found."""


class SuccessRate(DesignData):
    """A success rate in percent: mean and standard deviation over groups of episodes."""

    mean: float
    """The mean over the groups."""
    std: float
    """The standard deviation over the groups."""
    standard_error: float = 0.0
    """The standard error of the rate over all episodes; earlier versions did not record it."""

    def __str__(self) -> str:
        return f"{self.mean:.1f}% ± {self.std:.1f}%"


class ChainOutcome(DesignData):
    """How training went in a chain: the stage it reached, and for each stage its episodes and their successes."""

    stage: int
    """The number of the stage, from 0."""
    episodes: tuple[int, ...]
    """The episodes of each stage."""
    successes: tuple[int, ...]
    """The episodes of each stage in which the skill succeeded."""


class LevelOutcome(DesignData):
    """How training went in one level: success rates in percent over all episodes, the first and the last third.

    Skills that were impossible in every episode are left out. Those of a chain are over the episodes of all its stages.
    """

    episodes: int
    """Number of episodes."""
    reward: float
    """Mean return of an episode."""
    skills: dict[str, float]
    """Skill: success rate over all episodes."""
    first_third: dict[str, float]
    """Skill: success rate over the first third of the episodes."""
    last_third: dict[str, float]
    """Skill: success rate over the last third of the episodes; empty if too few updates contain all of them."""
    chain: ChainOutcome | None = None
    """How training went in the chain that began with the level."""

    @model_serializer(mode="wrap")
    def _dump(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return omit_defaults(type(self), handler(self), "chain")


class SkillFailure(DesignData):
    """Where the episodes of an agent fail on the way to a skill."""

    success_rate: float
    """Success rate in percent."""
    bottleneck: str = ""
    """The stage at which the largest share of the episodes is lost, in words."""
    opportunities: int | None = None
    """Episodes in which the skill could have succeeded; None if that is not known."""
    used: int | None = None
    """Those of these episodes in which it was attempted when it could have succeeded."""


class EpisodeEnds(DesignData):
    """The episodes that ended for one reason."""

    cause: str
    """The reason, in words."""
    episodes: int
    """Number of episodes that ended for it."""
    median_length: float
    """Their median length in steps."""


class CycleDiagnosis(DesignData):
    """How the agent's episodes in the original went after a cycle."""

    episodes: int
    """Number of episodes."""
    median_length: float
    """Their median length in steps."""
    ends: tuple[EpisodeEnds, ...]
    """The most frequent first."""
    failures: dict[str, SkillFailure]
    """For the skills that are not mastered."""


class Cycle(DesignData):
    """A finished cycle, as designers see it."""

    number: int
    """The number of the cycle, from 1."""
    steps: int
    """Steps of the agent so far."""
    proposal: Proposal
    """The levels of the cycle, as its designer proposed them."""
    audits: tuple[AuditResult, ...]
    """What the audit found, for each level."""
    outcomes: tuple[LevelOutcome | None, ...]
    """One per level; None where too few episodes ended."""
    success_rates: dict[str, SuccessRate]
    """In the original, measured without training, for the skills possible there."""
    reward: float
    """Mean return of an episode in the original, measured without training."""
    diagnosis: CycleDiagnosis | None = None
    """Only for designers with `wants_diagnosis`."""

    @model_serializer(mode="wrap")
    def _dump(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return omit_defaults(type(self), handler(self), "diagnosis")


@dataclass(frozen=True)
class TrainingFacts:
    """How the agent of a run trains, as far as designers may know it."""

    level_steps: int
    """Steps in the levels of each cycle."""
    original_steps: int
    """Steps in the original in each cycle."""
    final_steps: int
    """Steps in the original after the last cycle."""
    num_envs: int
    """Environments that are played side by side."""
    mixed: bool
    """Whether levels and original are trained in at the same time, in the same batches."""
    observation: str
    """What the agent observes."""
    gamma: float | None = None
    """Discount per step, if the learner has one; at the beginning of the run if it is annealed."""
    final_gamma: float | None = None
    """Discount per step at the end of the run."""
    memory: str | None = None
    """The kind of the network's memory, if it has one."""
    practice_share: float = 0.0
    """Share of the environments whose episodes start from saved states; where levels and original are mixed, of those
    that play the original."""
    is_pretrained: bool = False
    """Whether the agent started with the weights of a trained policy."""


@dataclass(frozen=True)
class Brief:
    """The world, the budget of levels and the measurement functions that a designer may use."""

    world: str
    """The name of the world."""
    rules: str
    """The rules of the world in prose."""
    skills: tuple[Skill, ...]
    """The skills of the world."""
    Level: type[AnyLevel]
    """The class of the levels to propose."""
    skill_levels: Mapping[str, Mapping[str, Any]]
    """Skill: settings of a level in which its prerequisites are granted."""
    num_levels: int
    """The number of levels to propose."""
    cycle: int
    """The number of the cycle, from 1."""
    num_cycles: int
    """The number of cycles of the run."""
    seed: int
    """The seed of the run."""
    setting_effects: Callable[[], SettingEffects] = dict
    """For each value of a setting, the statistics of the maps that it changes most. It takes seconds to compute."""
    score_levels: Callable[[Sequence[AnyLevel], ScoredBy], list[float]] | None = None
    """The score reached in each level."""
    success_rates: Callable[[Sequence[AnyLevel]], list[dict[str, float]]] | None = None
    """The success rates of the agent in each level by skill, in percent, from a few episodes."""
    training: TrainingFacts | None = None
    """How the agent trains."""
    reward_rule: str = ""
    """What the agent is rewarded for, in prose."""
    original_skills: Callable[[], Collection[str]] | None = None
    """The skills that are possible in the original."""
    levels_per_cycle: int | None = None
    """How many of the `num_levels` levels a cycle trains in, if another designer chooses from them; otherwise all."""


class Designer(ABC):
    """Turns the history of a run into the levels of its next cycle."""

    name: ClassVar[str]
    """Defaults to `module:Class`."""
    settings_type: ClassVar[type[Settings] | None] = None
    """The class of the designer's settings, if it has any. An instance of it is passed to `__init__`.

    None of its fields may be called `name`.
    """
    settings: Any = None
    """The settings, an instance of `settings_type`."""
    wants_diagnosis: bool = False
    """Whether cycles contain a `CycleDiagnosis`, for which the agent plays more episodes after each of them."""

    def __init__(self, settings: Settings | None = None):
        """
        Args:
            settings: An instance of `settings_type`. Default: its defaults.
        """
        if self.settings_type is not None:
            self.settings = self.settings_type() if settings is None else settings
        elif settings is not None:
            raise TypeError(f"the designer {self.name} has no settings")

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = f"{cls.__module__}:{cls.__name__}"
        if cls.settings_type is not None and "name" in cls.settings_type.model_fields:
            raise DesignError(
                f"{cls.settings_type.__name__} has a field called name, which is what run.json calls the designer "
                "itself; rename the field"
            )

    @abstractmethod
    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        """Propose the levels of the next cycle.

        Equal arguments must give equal levels, because an interrupted run calls this again.

        Args:
            brief: The world, the budget of levels, and functions that measure levels.
            history: The finished cycles, the earliest first.
        """

    def revise(
        self, brief: Brief, history: Sequence[Cycle], proposal: Proposal, audits: Sequence[AuditResult]
    ) -> Proposal | None:
        """Return another proposal after the audit called a level bad, or None to keep this one.

        Args:
            brief: As for `design`.
            history: As for `design`.
            proposal: What `design` returned.
            audits: The results of the audit, one per level of the proposal.
        """
        return None

    def begin_run(self) -> None:  # noqa: B027
        """Called when a run starts or resumes, so that a designer can be used for several runs."""

    def config(self) -> dict[str, Any]:
        """The name and all settings, as JSON data. A run is resumed only by a designer with an equal config."""
        return {"name": self.name, **(self.settings.model_dump(mode="json") if self.settings is not None else {})}

    def runtime_options(self) -> dict[str, Any]:
        """Options that may differ when the run is resumed: connection settings and budget of a language model."""
        return {}

    def usage(self) -> dict[str, float | None]:
        """The usage of a language model so far. `cost` is in dollars, or None if it is unknown."""
        return {"calls": 0, "prompt_tokens": 0, "reply_tokens": 0, "cost": 0.0}


class DesignerWrapper(Designer):
    """A designer that works on the proposals of another one, its source."""

    default_source: ClassVar[str] = "random"
    """The name of the source where none is given."""
    takes_levels: ClassVar[bool] = False
    """Whether levels written by the user may be the source."""
    asks_every_cycle: ClassVar[bool] = True
    """Whether the source designs in every cycle, or in the first one alone."""

    def __init__(self, source: Designer):
        self.source = source
        self.wants_diagnosis = source.wants_diagnosis and self.asks_every_cycle

    def begin_run(self) -> None:
        self.source.begin_run()

    def config(self) -> dict[str, Any]:
        return {"name": self.name, "source": self.source.config()}

    def runtime_options(self) -> dict[str, Any]:
        return self.source.runtime_options()

    def usage(self) -> dict[str, float | None]:
        return self.source.usage()


def request_proposal(designer: Designer, brief: Brief, history: Sequence[Cycle]) -> Proposal:
    """Call `design` and check what it returns. Raises DesignError if that is not a valid proposal."""
    try:
        proposal = designer.design(brief, history)
    except ValidationError as error:
        raise DesignError(f"the designer {designer.name} failed: {format_validation_error(error)}") from error
    return check_proposal(proposal, designer, brief)


def request_revision(
    designer: Designer, brief: Brief, history: Sequence[Cycle], proposal: Proposal, audits: Sequence[AuditResult]
) -> Proposal | None:
    """Call `revise` and check what it returns, like `request_proposal`."""
    try:
        revision = designer.revise(brief, history, proposal, audits)
    except ValidationError as error:
        raise DesignError(f"the designer {designer.name} failed: {format_validation_error(error)}") from error
    return None if revision is None else check_proposal(revision, designer, brief)


def check_proposal(proposal: object, designer: Designer, brief: Brief) -> Proposal:
    """Return the proposal if it is valid in the brief's world, else raise DesignError."""
    if not isinstance(proposal, Proposal):
        raise DesignError(f"the designer {designer.name} returned {proposal!r:.80}; design() must return a Proposal")
    if len(proposal.levels) > brief.num_levels:
        raise DesignError(
            f"the designer {designer.name} proposed {len(proposal.levels)} levels; the plan has {brief.num_levels}"
        )
    names = [skill.name for skill in brief.skills]
    for proposed in (*proposal.levels, *proposal.candidates):
        if not isinstance(proposed.level, brief.Level):
            expected, actual = brief.Level.__name__, type(proposed.level).__name__
            raise DesignError(f"the designer {designer.name} proposed a {actual}; {brief.world} needs a {expected}")
        chain = proposed.chain
        if chain is not None and not all(isinstance(level, brief.Level) for level in chain.levels):
            raise DesignError(
                f"the designer {designer.name} proposed a chain for {chain.skill} with levels of another world; "
                f"{brief.world} needs a {brief.Level.__name__}"
            )
        for name in (*proposed.skills, *([chain.skill] if chain is not None else ())):
            if name not in names:
                raise DesignError(
                    f"the designer {designer.name} proposed a level for a skill: {format_choice_error(name, names)}"
                )
    return proposal
