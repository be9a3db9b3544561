"""What a language model is told: the brief in the anatomy of EnvGen's prompt (role, skills, settings, rules, reply),
and what each cycle showed. All of it is generated from the Level class, the skills and what was measured.
"""

import json
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from .designer import AuditResult, Brief, Cycle, LevelOutcome, Proposal, SettingEffects
from .level_space import int_bounds

Feedback = Literal["none", "paper", "rich"]
TELLING = 1.0  # percent; skills that succeed less often in a level are not listed, unless it aims at them
KEPT = (
    "type",
    "additionalProperties",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
)  # fmt: skip  of a schema; titles, descriptions and defaults are in the prompt


def initial_prompt(brief: Brief) -> str:
    facts = brief.setting_effects()
    skills = "\n".join(
        f"- {skill.name}" + (f" (needs {', '.join(skill.prerequisites)})" if skill.prerequisites else "")
        for skill in brief.skills
    )
    turns = f"In each of {brief.num_cycles} cycles" if brief.num_cycles > 1 else "Once"
    counted = "\nFigures are means over worlds: in the real game -> with this value alone." if facts else ""
    return f"""\
You design training levels for a small reinforcement-learning agent that plays {brief.world}. It learns by trial and
error. {turns} it trains for a while in {_count(brief)} of your design, side by side, and then in the real game. All
that counts is how often it succeeds at each skill in the real game. So teach what it needs there and does not learn
there by itself. A hopeless level teaches nothing, nor does a trivial one.

## Skills
{skills}

## Settings of a level
A setting that you leave out is as in the real game, its default.{counted}
{describe_settings(brief.Level, facts)}

## Rules of the game
{brief.rules.strip()}

## Your reply
One JSON object in the form of this example, with exactly {_count(brief)}:
{example_reply(brief)}
"level" holds the settings that you change. "skills" names those of the list above that the level is to teach; they must
be possible there, and not already done at the start."""


def _count(brief: Brief) -> str:
    return "1 level" if brief.num_levels == 1 else f"{brief.num_levels} levels"


def describe_settings(kind: type[BaseModel], facts: SettingEffects, prefix: str = "") -> str:
    """Each setting with its values, its meaning and what it was measured to do; those told alike share a line."""
    indent = "  " * prefix.count(".")
    rows: list[tuple[list[str], str, str]] = []  # names, what is told of them, and below
    for name, field in kind.model_fields.items():
        about, inner = " ".join((field.description or "").split()), field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            told, below = f"a group. {about}", describe_settings(inner, facts, f"{prefix}{name}.")
        else:
            told, measured = f"{_values(field)}. {about}", facts.get(prefix + name, {})
            below = "\n".join(f"{indent}    {_word(value)}: {'; '.join(words)}" for value, words in measured.items())
        if rows and not below and rows[-1][1:] == (told, ""):
            rows[-1][0].append(name)
        else:
            rows.append(([name], told, below))
    return "\n".join(
        f"{indent}- {', '.join(names)}: {told}".rstrip() + (f"\n{below}" if below else "")
        for names, told, below in rows
    )


def _values(field: Any) -> str:
    default = _word(str(field.get_default(call_default_factory=True)))
    if field.annotation is bool:
        return f"true or false (default {default})"
    if field.annotation is int:
        low, high = int_bounds(field)
        return f"{low} to {high} (default {default})"
    return f"{' | '.join(map(str, field.annotation.__args__))} (default {default})"


def _word(value: str) -> str:
    """A value in JSON's words, without quotes."""
    return value.lower() if value in ("True", "False") else value


def example_reply(brief: Brief) -> str:
    skill, level = next(iter(brief.skill_levels.items()), (brief.skills[0].name, {}))
    example = {"purpose": "what it is for, in a sentence", "skills": [skill], "level": level}
    return json.dumps({"reasoning": "your plan, in a few sentences", "levels": [example]})


def reply_schema(brief: Brief, code: Callable[[str], str] = str) -> dict[str, Any]:
    """The JSON schema of a reply, for servers that hold a model to one; `code` puts names into other words."""
    closed = ConfigDict(extra="forbid")
    names = Literal.__getitem__(tuple(skill.name for skill in brief.skills))  # pyright: ignore
    fields: dict[str, Any] = {
        "purpose": (str, ...),
        "skills": (GenericAlias(list, names), ...),
        "level": (brief.Level, ...),
    }
    designs = GenericAlias(list, create_model("Design", __config__=closed, **fields))
    some = Field(min_length=brief.num_levels, max_length=brief.num_levels)
    whole: dict[str, Any] = {"reasoning": (str, ...), "levels": (designs, some)}
    written = create_model("Reply", __config__=closed, **whole).model_json_schema()
    return _bare(written, written["$defs"], code)


def _bare(node: dict[str, Any], kinds: dict[str, Any], code: Callable[[str], str]) -> dict[str, Any]:
    """A schema with what it refers to in its place, and without words that the prompt says already."""
    node = node.get("allOf", [node])[0]
    node = kinds[node["$ref"].rpartition("/")[2]] if "$ref" in node else node
    bare = {key: node[key] for key in KEPT if key in node}
    if "properties" in node:
        bare["properties"] = {code(name): _bare(inner, kinds, code) for name, inner in node["properties"].items()}
    if "required" in node:
        bare["required"] = [code(name) for name in node["required"]]
    if "items" in node:
        bare["items"] = _bare(node["items"], kinds, code)
    if words := [node["const"]] if "const" in node else node.get("enum"):
        bare["enum"] = [code(word) if isinstance(word, str) else word for word in words]
    return bare


def cycle_report(brief: Brief, cycle: Cycle, feedback: Feedback) -> str:
    """What a cycle showed, and the request for the next levels."""
    asked = f"Now design the {_count(brief)} of cycle {cycle.number + 1} of {brief.num_cycles}, in the same form."
    over = f"Cycle {cycle.number} is over; the agent has trained for {cycle.steps:,} steps in all."
    if feedback == "none":
        return f"{over}\n\n{asked}"
    lines = [over, "How often it now succeeds in the real game, as mean ± standard deviation over seeds:"]
    lines += [f"- {name}: {rate}" for name, rate in cycle.success_rates.items()]
    lines += ["", "It trained in these levels:"]
    for k, level in enumerate(_used(cycle.proposal)):
        lines += [level, *(_findings(k, cycle) if feedback == "rich" else ())]
    return "\n".join([*lines, "", f"{asked} Say in each purpose which of these figures made you choose it."])


def _used(proposal: Proposal) -> list[str]:
    """The levels in use, which may be others than those in the reply."""
    items = [{"skills": list(one.skills), "level": one.level} for one in proposal.levels]
    return [f"Level {k + 1}: {json.dumps(item)}" for k, item in enumerate(items)]


def _findings(k: int, cycle: Cycle) -> list[str]:
    learned = cycle.outcomes[k] if k < len(cycle.outcomes) else None
    told = [_progress(learned, cycle.proposal.levels[k].skills) if learned else "no episode ended there"]
    if k < len(cycle.audits):
        told += [*cycle.audits[k].reasons, *cycle.audits[k].findings]
    return [f"  {line}" for line in told]


def _progress(learned: LevelOutcome, aims: Sequence[str]) -> str:
    """`120 episodes, mean reward 4.1; success in the first -> last third: collect_wood 40.2% -> 71.0%, ...`"""
    moved = [
        f"{name} {learned.first_third[name]:.1f}% -> {learned.last_third[name]:.1f}%"
        for name in learned.skills
        if name in aims or max(learned.first_third[name], learned.last_third[name]) >= TELLING
    ]
    return (
        f"{learned.episodes} episodes, mean reward {learned.reward:.1f}; "
        f"success in the first -> last third of training: {', '.join(moved) or 'nothing'}"
    )


def audit_report(brief: Brief, proposal: Proposal, verdicts: Sequence[AuditResult]) -> str:
    """What the audit says of a proposal, and the offer to mend it."""
    lines = ["The levels were checked before any training:"]
    if proposal.notes:
        lines = ["Your reply could not be used as it was. These levels took its place:", *_used(proposal), "", *lines]
    for k, verdict in enumerate(verdicts):
        lines.append(f"Level {k + 1} is {verdict.verdict}.")
        lines += [f"  {line}" for line in (*verdict.reasons, *verdict.findings)]
    return "\n".join([*lines, "", f"Mend what is bad and reply with {_all(brief)} again, in the same form."])


def error_report(brief: Brief, found: Sequence[str]) -> str:
    """What is wrong with a reply."""
    lines = "\n".join(f"- {problem}" for problem in found)
    return (
        f"That reply cannot be used:\n{lines}\n\nReply with {_all(brief)} again, as one JSON object in the same form."
    )


def _all(brief: Brief) -> str:
    return "the level" if brief.num_levels == 1 else f"all {brief.num_levels} levels"
