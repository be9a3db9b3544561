"""What a language model is told: the brief in the anatomy of EnvGen's prompt (role, skills, settings, rules, reply),
and what each cycle showed. All of it is generated from the Level class, the skills and what was measured.
"""

import json
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any, Literal

from pydantic import BaseModel, create_model

from .designer import Brief, Cycle, Facts, Learned, Proposal, Verdict
from .space import bounds

Feedback = Literal["none", "paper", "rich"]
TELLING = 1.0  # percent; skills that succeed less often in a level are not listed


def initial(brief: Brief) -> str:
    facts = brief.facts()
    skills = "\n".join(
        f"- {skill.name}" + (f" (needs {', '.join(skill.needs)})" if skill.needs else "") for skill in brief.skills
    )
    return f"""\
You design training levels for a small reinforcement-learning agent that plays {brief.world}. It is young and learns by
trial and error. It will train for a while in {brief.wanted} levels of your design, side by side, and then in the real
game; this happens {brief.cycles} times. All that counts is how often it succeeds at each skill in the real game, so
your levels should teach what it will need there and does not learn there by itself. They should be neither
hopeless nor so easy that nothing is left to learn.

## The skills
{skills}

## What you can set
Every setting may be left out; it is then as in the real game. Where worlds were counted, the figures are means over
worlds: real game -> this value alone.
{settings(brief.Level, facts)}

## The rules of the game
{brief.rules.strip()}

## Your reply
A JSON object of this form, with exactly {brief.wanted} levels:
{template(brief)}
"skills" names the skills of the list above that the level should teach. Each level is checked before the agent trains
in it: whether those skills can be reached there and are not there from the start."""


def settings(kind: type[BaseModel], facts: Facts, prefix: str = "") -> str:
    """Each setting with its values, its meaning and what it was measured to do."""
    lines = []
    for name, field in kind.model_fields.items():
        indent, about = "  " * prefix.count("."), " ".join((field.description or "").split())
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            lines.append(f"{indent}- {name}: a group of settings. {about}")
            lines.append(settings(inner, facts, f"{prefix}{name}."))
            continue
        lines.append(f"{indent}- {name}: {_values(field)}. {about}".rstrip())
        for value, told in facts.get(prefix + name, {}).items():
            lines.append(f"{indent}    with {value}: {'; '.join(told)}")
    return "\n".join(lines)


def _values(field: Any) -> str:
    default = json.dumps(field.get_default(call_default_factory=True))
    if field.annotation is bool:
        return f"true or false, usually {default}"
    if field.annotation is int:
        low, high = bounds(field)
        return f"{low} to {high}, usually {default}"
    return f"{' | '.join(json.dumps(value) for value in field.annotation.__args__)}, usually {default}"


def template(brief: Brief) -> str:
    first = next(iter(brief.lessons.items()), (brief.skills[0].name, {}))
    example = {"purpose": "one sentence", "skills": [first[0]], "level": first[1]}
    return json.dumps({"reasoning": "a few sentences", "levels": [example, "..."]})


def schema(brief: Brief) -> dict[str, Any]:
    """The JSON schema of a reply, for servers that hold a model to one."""
    names = Literal.__getitem__(tuple(skill.name for skill in brief.skills))  # pyright: ignore
    fields: dict[str, Any] = {
        "purpose": (str, ...),
        "skills": (GenericAlias(list, names), ...),
        "level": (brief.Level, ...),
    }
    design: Any = create_model("Design", **fields)
    whole: dict[str, Any] = {"reasoning": (str, ...), "levels": (GenericAlias(list, design), ...)}
    return create_model("Reply", **whole).model_json_schema()


def translated(schema: Any, into: Callable[[str], str]) -> Any:
    """A schema with every text in it, names of properties too, put into other words."""
    if isinstance(schema, dict):
        return {into(key): translated(value, into) for key, value in schema.items()}
    if isinstance(schema, list):
        return [translated(value, into) for value in schema]
    return into(schema) if isinstance(schema, str) else schema


def after(brief: Brief, cycle: Cycle, feedback: Feedback) -> str:
    """What a cycle showed, and the request for the next levels."""
    asked = f"Now design the {brief.wanted} levels of cycle {cycle.number + 1} of {brief.cycles}, in the same form."
    used = [_as_item(one) for one in cycle.proposal.levels]
    lines = [f"Cycle {cycle.number} is over; the agent has trained for {cycle.steps:,} steps in all."]
    if feedback == "none":
        return f"{lines[0]}\n\n{asked}"
    lines += ["How often it now succeeds in the real game, as mean ± standard deviation over seeds:"]
    lines += [f"- {name}: {rate}" for name, rate in cycle.skills.items()]
    lines += ["", f"The levels it trained in were: {json.dumps(used)}"]
    if feedback == "rich":
        lines += [_level_report(k, cycle) for k in range(len(used))]
    return "\n".join([*lines, "", f"{asked} Say in each purpose which of these figures made you choose it."])


def _as_item(one: Any) -> dict[str, Any]:
    return {"purpose": one.purpose, "skills": list(one.skills), "level": one.level}


def _level_report(k: int, cycle: Cycle) -> str:
    learned = cycle.learned[k] if k < len(cycle.learned) else None
    told = [f"Level {k + 1}: {_progress(learned) if learned else 'no episode ended there'}"]
    if k < len(cycle.verdicts):
        told += [f"  {line}" for line in (*cycle.verdicts[k].reasons, *cycle.verdicts[k].facts)]
    return "\n".join(told)


def _progress(learned: Learned) -> str:
    """`120 episodes, reward 4.1; success in the first -> last third: collect_wood 40% -> 71%, ...`"""
    moved = [
        f"{name} {learned.first[name]:.0f}% -> {learned.last[name]:.0f}%"
        for name in learned.skills
        if max(learned.first[name], learned.last[name]) >= TELLING
    ]
    return (
        f"{learned.episodes} episodes, mean reward {learned.reward:.1f}; "
        f"success in the first -> last third of training: {', '.join(moved) or 'nothing'}"
    )


def audited(brief: Brief, proposal: Proposal, verdicts: Sequence[Verdict]) -> str:
    """What the audit says of a proposal, and the offer to mend it."""
    lines = ["Your levels were checked before any training:"]
    for k, verdict in enumerate(verdicts):
        lines.append(f"Level {k + 1} is {verdict.word}.")
        lines += [f"  {line}" for line in (*verdict.reasons, *verdict.facts)]
    return "\n".join(
        [*lines, "", f"Mend what is bad and reply with all {brief.wanted} levels again, in the same form."]
    )


def problems(brief: Brief, found: Sequence[str]) -> str:
    """What is wrong with a reply."""
    lines = "\n".join(f"- {problem}" for problem in found)
    return f"That reply cannot be used:\n{lines}\n\nReply again with all {brief.wanted} levels, as one JSON object."
