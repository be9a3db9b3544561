"""The texts that a language model receives: the task, generated from the Level class, the skills and measurements, and
the report on each cycle. The structure follows EnvGen's prompt: role, skills, settings, rules, reply.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from types import GenericAlias
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from envgen.settings import list_options
from envgen.worlds.level_space import is_text, number_bounds

from . import rich_prompt
from .designer import MAX_WEIGHT, MIN_WEIGHT, AuditResult, Brief, Cycle, Proposal, SettingEffects
from .earlier_levels import chain_stages
from .reply import NO_BASE

Feedback = Literal["none", "paper", "rich"]
EXPLAIN = "State in each purpose which of these figures it is based on."
SCHEMA_KEYS = (  # titles, descriptions and defaults are left out, because the prompt contains them
    "type", "additionalProperties", "minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum",
)  # fmt: skip


def initial_prompt(brief: Brief, feedback: Feedback = "paper") -> str:
    effects = brief.setting_effects()
    skills = "\n".join(
        f"- {skill.name}" + (f" (needs {', '.join(skill.prerequisites)})" if skill.prerequisites else "")
        for skill in brief.skills
    )
    schedule = f"In each of {brief.num_cycles} cycles it trains" if brief.num_cycles > 1 else "It trains once"
    levels = _trained(brief)
    mixed = brief.training is not None and brief.training.mixed
    real_game = "at the same time in the real game" if mixed else "then in the real game"
    training, more = "", ""
    if feedback == "rich":
        training = f"\n\n{rich_prompt.training_section(brief)}"
        more = f"\n{rich_prompt.reply_section(brief)}"
    legend = "\nFigures are means over generated maps: in the real game -> with this value alone." if effects else ""
    return f"""\
You design training levels for a small reinforcement-learning agent that plays {brief.world}. The agent learns by trial
and error. {schedule} in {levels} of your design, and {real_game}. Only its success rate at each skill
in the real game counts. Design levels that teach the skills it needs there and does not learn there by itself. A level
in which it always or never succeeds teaches nothing.

## Skills
{skills}

## Settings of a level
A setting that you leave out keeps its default, the value of the real game.{legend}
{describe_settings(brief.Level, effects)}

## Rules of the game
{brief.rules.strip()}{training}

## Your reply
Reply with a JSON object like this example, with exactly {_count(brief)}:
{example_reply(brief)}
"level" contains the settings that you change. "skills" contains the skills of the list above that the level teaches;
they must be possible in it, and not already achieved when it starts.{more}"""


def _count(brief: Brief) -> str:
    return "1 level" if brief.num_levels == 1 else f"{brief.num_levels} levels"


def _trained(brief: Brief) -> str:
    """The levels that a cycle trains in."""
    chosen = brief.levels_per_cycle
    return _count(brief) if chosen in (None, brief.num_levels) else f"{chosen} of the {_count(brief)}"


def describe_settings(level_type: type[BaseModel], effects: SettingEffects, prefix: str = "") -> str:
    """Each setting with its values, its documentation and its measured effects. Equal descriptions share a line."""
    indent = "  " * prefix.count(".")
    rows: list[tuple[list[str], str, str]] = []  # names, their description, and the lines below it
    for name, field in level_type.model_fields.items():
        documentation, annotation = " ".join((field.description or "").split()), field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            description = f"a group. {documentation}"
            details = describe_settings(annotation, effects, f"{prefix}{name}.")
        else:
            description = f"{_describe_values(field)}. {documentation}"
            details = "\n".join(
                f"{indent}    {_to_json_word(value)}: {'; '.join(lines)}"
                for value, lines in effects.get(prefix + name, {}).items()
            )
        if rows and not details and rows[-1][1:] == (description, ""):
            rows[-1][0].append(name)
        else:
            rows.append(([name], description, details))
    return "\n".join(
        f"{indent}- {', '.join(names)}: {description}".rstrip() + (f"\n{details}" if details else "")
        for names, description, details in rows
    )


def _describe_values(field: Any) -> str:
    if options := list_options(field.annotation):
        return f"a list of {' | '.join(map(str, options))} (default {json.dumps(field.get_default())})"
    if is_text(field.annotation):
        return f"a list of strings (default {json.dumps(field.get_default())})"
    default = _to_json_word(str(field.get_default(call_default_factory=True)))
    if field.annotation is bool:
        return f"true or false (default {default})"
    if field.annotation in (int, float):
        low, high = number_bounds(field)
        return f"{low} to {high} (default {default})"
    return f"{' | '.join(map(str, field.annotation.__args__))} (default {default})"


def _to_json_word(value: str) -> str:
    """A value as JSON writes it, without quotes."""
    return value.lower() if value in ("True", "False") else value


def example_reply(brief: Brief) -> str:
    skill, level = next(iter(brief.skill_levels.items()), (brief.skills[0].name, {}))
    example = {"purpose": "the purpose of this level in a sentence", "skills": [skill], "level": level}
    return json.dumps({"reasoning": "your plan in two or three sentences", "levels": [example]})


def reply_schema(
    brief: Brief, encode_name: Callable[[str], str] = str, earlier_levels: Iterable[str] | None = None
) -> dict[str, Any]:
    """The JSON schema of a reply, for servers that can enforce one.

    Args:
        encode_name: Applied to every name.
        earlier_levels: The names of earlier levels; None where levels have no weight, no base and no chain.
    """
    closed = ConfigDict(extra="forbid")
    skill_names = Literal.__getitem__(tuple(skill.name for skill in brief.skills))  # pyright: ignore
    fields: dict[str, Any] = {
        "purpose": (str, ...),
        "skills": (GenericAlias(list, skill_names), ...),
        "level": (brief.Level, ...),
    }
    if earlier_levels is not None:
        fields["weight"] = (float, Field(ge=MIN_WEIGHT, le=MAX_WEIGHT))
        if names := tuple(earlier_levels):
            fields["base"] = (Literal.__getitem__((NO_BASE, *names)), ...)  # pyright: ignore
        if chains := tuple(chain_stages(brief)):
            fields["chain"] = (Literal.__getitem__((NO_BASE, *chains)), ...)  # pyright: ignore
    levels = GenericAlias(list, create_model("Design", __config__=closed, **fields))
    length = Field(min_length=brief.num_levels, max_length=brief.num_levels)
    reply: dict[str, Any] = {"reasoning": (str, ...), "levels": (levels, length)}
    schema = create_model("Reply", __config__=closed, **reply).model_json_schema()
    return _simplify(schema, schema["$defs"], encode_name)


def _simplify(node: dict[str, Any], definitions: dict[str, Any], encode_name: Callable[[str], str]) -> dict[str, Any]:
    """A schema with its references resolved and its documentation removed."""
    node = node.get("allOf", [node])[0]
    node = definitions[node["$ref"].rpartition("/")[2]] if "$ref" in node else node
    simple = {key: node[key] for key in SCHEMA_KEYS if key in node}
    if "properties" in node:
        simple["properties"] = {
            encode_name(name): _simplify(inner, definitions, encode_name) for name, inner in node["properties"].items()
        }
    if "required" in node:
        simple["required"] = [encode_name(name) for name in node["required"]]
    if "items" in node:
        simple["items"] = _simplify(node["items"], definitions, encode_name)
    if values := [node["const"]] if "const" in node else node.get("enum"):
        simple["enum"] = [encode_name(value) if isinstance(value, str) else value for value in values]
    return simple


def cycle_report(
    brief: Brief, cycle: Cycle, feedback: Feedback, earlier: Sequence[Cycle] = (), is_newest: bool = True
) -> str:
    """The results of a cycle, and the request for the next levels.

    Args:
        earlier: The cycles before it.
        is_newest: Whether it is the last cycle that is over; rich reports on others are shorter.
    """
    request = f"Now design the {_count(brief)} of cycle {cycle.number + 1} of {brief.num_cycles}, in the same format."
    summary = f"Cycle {cycle.number} is over; the agent has trained for {cycle.steps:,} steps so far."
    if feedback == "none":
        return f"{summary}\n\n{request}"
    if feedback == "rich":
        lines = [summary, *rich_prompt.cycle_section(brief, cycle, earlier, is_newest)]
        choice = "Keep, change, drop or replace levels, and set their weights."
        return "\n".join([*lines, "", f"{request} {choice} {EXPLAIN}"])
    lines = [summary, "Its success rates in the real game, as mean ± standard deviation over seeds:"]
    rates = {skill.name: cycle.success_rates.get(skill.name, rich_prompt.UNMEASURED) for skill in brief.skills}
    lines += [f"- {name}: {rate}" for name, rate in rates.items()]
    lines += ["", "It trained in these levels:"]
    return "\n".join([*lines, *_format_levels(cycle.proposal), "", f"{request} {EXPLAIN}"])


def _format_levels(proposal: Proposal) -> list[str]:
    """The levels that were used, which can differ from those in the reply."""
    items = [{"skills": list(proposed.skills), "level": proposed.level.to_overrides()} for proposed in proposal.levels]
    return [f"Level {k + 1}: {json.dumps(item)}" for k, item in enumerate(items)]


def audit_report(brief: Brief, proposal: Proposal, audits: Sequence[AuditResult]) -> str:
    """The audit's results for a proposal, and the request to correct it."""
    lines = ["The levels were checked before any training:"]
    if proposal.notes:
        lines = ["Your reply was not usable as it is. These levels replace it:", *_format_levels(proposal), "", *lines]
    for k, audit in enumerate(audits):
        lines.append(f"Level {k + 1} is {audit.verdict}.")
        lines += [f"  {line}" for line in (*audit.reasons, *audit.findings)]
    return "\n".join([*lines, "", f"Correct the bad levels and reply with {_all(brief)} again, in the same format."])


def error_report(brief: Brief, errors: Sequence[str]) -> str:
    """The errors in a reply, and the request to correct them."""
    lines = "\n".join(f"- {error}" for error in errors)
    return (
        f"Your reply is not usable:\n{lines}\n\nReply with {_all(brief)} again, as one JSON object in the same format."
    )


def _all(brief: Brief) -> str:
    return "the level" if brief.num_levels == 1 else f"all {brief.num_levels} levels"
