"""Chains of levels, derived from a world's skill graph and skill levels: the skills that a level grants are withdrawn
one after another.

Backward chaining (Florensa et al. 2017 start an agent near its goal, and then ever farther from it) for a graph of
skills. The chain of a skill begins with the world's level for it, in which everything it needs is at hand:

1. The prerequisites of the skill that the level grants are withdrawn one by one, in the order of the level's settings.
   The agent must achieve a withdrawn skill itself, so the settings of its own level are added; what they grant beyond
   the chain's first level is withdrawn in the same way. Skills without prerequisites stay granted.
2. Whatever is granted that the skill does not need is withdrawn.
3. Everything else that is granted is withdrawn. The other settings of the level remain.
4. Settings such as the abundance of iron return to the original step by step: those whose original value lies between
   others, in the order of their choices. Each stage moves all of them by one choice.
5. The last stage is the original.

In Crafter, the chain for the iron pickaxe begins with everything at hand; then the furnace must be placed, then the
table, then coal must be collected, then iron, then stone, and then nothing is granted, in mountains rich in iron; then
iron becomes rarer. A level that grants no skill is the only stage of its chain, and so is the original where the world
has no level for a skill.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError

from envgen.settings import flatten, format_choice_error, format_validation_error, unflatten
from envgen.worlds.level_space import setting_fields, setting_values
from envgen.worlds.world import Level, LevelError, Skill, World

from .designer import Cycle, LevelChain, ProposedLevel

FlatSettings = dict[str, Any]  # of a level, by dotted name
Scale = tuple[tuple[Any, ...], Any]  # the choices of a setting in order, and the original's


def derive_chain(
    skill: str, level_type: type[Level], skills: Sequence[Skill], skill_levels: Mapping[str, Mapping[str, Any]]
) -> tuple[Level, ...]:
    """The stages of the chain for a skill, from the easiest to the original. Stages that are not valid, and those that
    equal an earlier one, are left out."""
    stages: dict[Level, None] = {}
    for settings in _ChainBuilder(skill, level_type, skills, skill_levels).stages():
        with suppress(LevelError):
            stages[level_type.parse(unflatten(settings))] = None
    return tuple(stages)


def parse_levels_or_chains(levels: Any, world: World) -> list[Level | LevelChain]:
    """Levels and chains from a list of either, or of their JSON data. Raises LevelError."""
    if not isinstance(levels, Sequence) or isinstance(levels, str | bytes):
        raise LevelError(f"levels must be a list, not {levels!r:.80}")
    return [parse_level_or_chain(level, world) for level in levels]


def parse_level_or_chain(data: Any, world: World) -> Level | LevelChain:
    """A level or a chain, `{"chain": {...}}`, from either or from its JSON data. Raises LevelError."""
    if isinstance(data, LevelChain):
        return data
    if isinstance(data, Mapping) and isinstance(data.get("chain"), Mapping):
        return parse_chain(data["chain"], world)
    return world.Level.parse(data)


def parse_chain(data: Mapping[str, Any], world: World) -> LevelChain:
    """A chain from JSON data: the fields of `LevelChain`. Without `levels`, they are derived. Raises LevelError."""
    names, skill = [s.name for s in world.skills], data.get("skill")
    if skill not in names:
        raise LevelError(f"the skill of a chain {format_choice_error(str(skill), names)}")
    levels = data.get("levels", derive_chain(skill, world.Level, world.skills, world.skill_levels))
    try:
        return LevelChain.from_json({**data, "levels": levels}, world.Level)
    except ValidationError as error:
        raise LevelError(f"the chain for {skill}: {format_validation_error(error)}") from None


def reached_stage(chain: LevelChain, history: Sequence[Cycle]) -> int:
    """The stage that the last training in this chain reached, wherever it began; 0 before any."""
    for cycle in reversed(history):
        for proposed, outcome in zip(cycle.proposal.levels, cycle.outcomes, strict=False):
            if proposed.chain is not None and proposed.chain.at_stage(0) == chain.at_stage(0):
                return outcome.chain.stage if outcome and outcome.chain else proposed.chain.start
    return 0


def continue_chain(proposed: ProposedLevel, history: Sequence[Cycle]) -> ProposedLevel:
    """The same level, or the same chain from the stage that training has reached."""
    if proposed.chain is None:
        return proposed
    stage = reached_stage(proposed.chain, history)
    chain = proposed.chain.at_stage(stage)
    return proposed.model_copy(update={"level": chain.levels[stage], "chain": chain})


def setting_scales(level_type: type[Level]) -> dict[str, Scale]:
    """The choices, in order, of each setting whose original value lies between others, and that value."""
    return {
        name: (get_args(field.annotation), field.default)
        for name, field in setting_fields(level_type).items()
        if get_origin(field.annotation) is Literal and field.default in get_args(field.annotation)[1:-1]
    }


class _ChainBuilder:
    def __init__(
        self,
        skill: str,
        level_type: type[Level],
        skills: Sequence[Skill],
        skill_levels: Mapping[str, Mapping[str, Any]],
    ):
        self.skill, self.level_type, self.skill_levels = skill, level_type, skill_levels
        self.prerequisites = {s.name: s.prerequisites for s in skills}
        self.space, self.scales = setting_values(level_type), setting_scales(level_type)
        self.settings = self.skill_settings(skill)
        self.withdrawn: set[str] = set()
        self.known_grants: dict[tuple[str, str], tuple[str, ...]] = {}  # by setting and value

    def skill_settings(self, skill: str) -> FlatSettings:
        """The settings of the level for a skill, in their order and with the values that the world uses for them."""
        settings = flatten(self.skill_levels.get(skill, {}))
        parsed = flatten(self.level_type.parse(unflatten(settings)).to_overrides())
        return {name: parsed[name] for name in settings if name in parsed}

    def stages(self) -> list[FlatSettings]:
        ancestors = self.ancestors(self.skill)
        stages = [dict(self.settings)]
        granted_at_first = {name for setting in self.settings for name in self.grants(setting)}
        if not granted_at_first:
            return stages
        queue = deque(self.granted_prerequisites(self.skill))
        while queue:
            name = queue.popleft()
            if name in self.withdrawn:
                continue
            stages += self.weaken(name)
            self.withdraw(name)
            stages.append(dict(self.settings))
            queue += [other for other in self.granted_prerequisites(name) if other not in granted_at_first]
        for kept in (ancestors, set()):  # first what the skill does not need is withdrawn, then everything
            self.settings = {
                setting: value
                for setting, value in self.settings.items()
                if not (granted := self.grants(setting)) or kept.intersection(granted)
            }
            stages.append(dict(self.settings))
        while self.scales.keys() & self.settings.keys():
            self.approach_original()
            stages.append(dict(self.settings))
        return [*stages, {}]

    def ancestors(self, skill: str) -> set[str]:
        """The skills that a skill needs, directly or indirectly."""
        required: set[str] = set()
        pending = [skill]
        while pending:
            new = [name for name in self.prerequisites.get(pending.pop(), ()) if name not in required]
            required.update(new)
            pending += new
        return required

    def grants(self, setting: str, value: Any = None) -> tuple[str, ...]:
        """The skills that a setting grants."""
        value = self.settings.get(setting) if value is None else value
        key = setting, repr(value)
        if key not in self.known_grants:
            try:
                self.known_grants[key] = self.level_type.parse(unflatten({setting: value})).granted_skills
            except LevelError:  # it is valid only with other settings
                self.known_grants[key] = ()
        return self.known_grants[key]

    def granted_prerequisites(self, skill: str) -> list[str]:
        """The granted prerequisites of a skill that have prerequisites themselves, in the order of the settings."""
        names = [name for setting in self.settings for name in self.grants(setting)]
        candidates = {name for name in self.prerequisites.get(skill, ()) if self.prerequisites.get(name)}
        return [name for name in dict.fromkeys(names) if name in candidates and name not in self.withdrawn]

    def weaken(self, skill: str) -> list[FlatSettings]:
        """Stages that still grant the skill, by choices ever closer to the original, such as a less ripe plant."""
        stages = []
        for setting, value in list(self.settings.items()):
            choices = self.choices(setting)
            while skill in self.grants(setting) and value in choices and (k := choices.index(value)) > 0:
                value = choices[k - 1]
                if skill not in self.grants(setting, value):
                    break
                self.settings[setting] = value
                stages.append(dict(self.settings))
        return stages

    def approach_original(self) -> None:
        """Move each setting whose original value lies between others by one choice towards it."""
        for setting in self.scales.keys() & self.settings.keys():
            choices, original = self.scales[setting]
            k, target = choices.index(self.settings[setting]), choices.index(original)
            if abs(target - k) > 1:
                self.settings[setting] = choices[k + (1 if k < target else -1)]
            else:
                del self.settings[setting]

    def choices(self, setting: str) -> list[Any]:
        """The choices of a setting in order, the original's first; none for numbers and switches."""
        default, *others = self.space.get(setting, (None,))
        return [default, *others] if isinstance(default, str) else []

    def without(self, setting: str, skill: str) -> Any:
        """The value of a setting without what grants the skill: of a list, the other items; None if nothing is left."""
        value = self.settings[setting]
        if skill not in self.grants(setting):
            return value
        if isinstance(value, list | tuple):
            kept = [item for item in value if skill not in self.grants(setting, [item])]
            if kept and skill not in self.grants(setting, kept):
                return kept
        return None

    def withdraw(self, skill: str) -> None:
        """Remove what grants the skill, and add the settings of its own level, except what is already withdrawn."""
        self.withdrawn.add(skill)
        without = {name: self.without(name, skill) for name in self.settings}
        self.settings = {name: value for name, value in without.items() if value is not None}
        for setting, value in self.skill_settings(skill).items():
            granted = self.grants(setting, value)
            if self.withdrawn.intersection(granted):
                continue
            if granted and type(value) is int:  # material is needed for the skill and for what comes after it
                value = min(max(self.space[setting]), self.settings.get(setting, 0) + value)
                self.settings[setting] = value
            else:
                self.settings.setdefault(setting, value)
