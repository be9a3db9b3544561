"""What a language model is asked in every step of an episode, and with which context.

The questions form a directed acyclic graph: each is asked with the answers to the questions it needs, and the answer to
the last one is the action. This is the procedure of SPRING (arXiv 2305.15486), which asks nine questions per step. Its
context is the LaTeX source of the Crafter paper; here it is the world's rules. All texts are envgen's own.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from envgen.designers.chat.protocol import Message
from envgen.text import strip_reasoning
from envgen.worlds.world import World

QuestionSet = Literal["chain", "direct"]
MAX_ANSWER_CHARS = 4000  # of an answer that later questions see
NO_ANSWER = "(no answer)"


class Question(NamedTuple):
    name: str
    text: str
    needs: tuple[str, ...] = ()  # the questions whose answers it is asked with; they come earlier


CHOICE = "Reply with the name of this action as it stands in the list of actions, like this:\n{example}"

CHAIN = (
    Question(
        "surroundings",
        "Which things in view matter now, because they are useful or dangerous? For each, give its direction and its "
        "distance in steps, what it provides or threatens, and what you need to use or avoid it.",
    ),
    Question(
        "last_action",
        "What was your last action, and did it do what it was meant to do? If it did not, why?",
    ),
    Question(
        "usable",
        "For each of the things you named, do you have everything you need to use it, such as tools and materials, and "
        "do you stand next to it and face it? Say what is missing.",
        ("surroundings",),
    ),
    Question(
        "urgent",
        "Is anything urgent, such as a need that runs low, danger nearby, or the time of day? Say what to do about it, "
        "or that nothing is urgent.",
        ("surroundings", "last_action"),
    ),
    Question(
        "subtasks",
        "Name the three subtasks that bring you furthest now, the most important first, and say why. Prefer skills "
        "that you have not achieved yet and whose requirements are within reach, but survive.",
        ("usable", "urgent"),
    ),
    Question(
        "plan",
        "What does the first subtask still require? What exactly is the next thing to do for it, and where?",
        ("surroundings", "subtasks"),
    ),
    Question(
        "candidates",
        "Name up to five actions from the list of actions that could be the next step of this plan, the best first, "
        "and what each requires.",
        ("last_action", "plan"),
    ),
    Question(
        "feasible",
        "For each of these actions, are its requirements met at this moment? Check your position, what you face and "
        "what you have. Answer yes or no, with the reason.",
        ("usable", "candidates"),
    ),
    Question(
        "action",
        "Choose the best of these actions whose requirements are met. " + CHOICE,
        ("plan", "candidates", "feasible"),
    ),
)
DIRECT = (
    Question(
        "action",
        "Which action is best now? Consider what you need, what is in view and what your last actions did. Give your "
        "reasons in at most three sentences, then choose. " + CHOICE,
    ),
)
QUESTIONS: Mapping[QuestionSet, tuple[Question, ...]] = {"chain": CHAIN, "direct": DIRECT}


class PastStep(NamedTuple):
    """A step of the episode, as the model is told of it."""

    number: int  # from 1
    action: str
    result: str


def system_prompt(world: World) -> str:
    """The context of every question: rules, skills and actions."""
    skills = "\n".join(
        f"- {skill.name}" + (f" (needs {', '.join(skill.prerequisites)})" if skill.prerequisites else "")
        for skill in world.skills
    )
    descriptions = world.action_descriptions
    actions = "\n".join(
        f"- {name}" + (f": {descriptions[name]}" if name in descriptions else "") for name in world.actions
    )
    return f"""\
You play the game {world.name}, one action per step. Your goal is to succeed at as many of its skills as possible before
the episode ends, each at least once.

## Rules of the game
{world.rules.strip()}

## Skills
{skills}

## Actions
{actions}"""


def step_prompt(
    question: Question,
    questions: Sequence[Question],
    answers: Mapping[str, str],
    observation: str,
    step: int,
    past: Sequence[PastStep],
    achieved: Sequence[str],
    example: str,
) -> str:
    """One question, with the observation, the last steps and the answers that it needs.

    Args:
        example: An answer to the last question.
    """
    history = "\n".join(f"- step {entry.number}, {entry.action}: {entry.result}" for entry in past)
    parts = [
        f"## Step {step}\nSkills achieved so far: {', '.join(achieved) or 'none'}.",
        f"Your last actions and their results:\n{history}" if past else "",
        f"What you observe now:\n{observation}",
    ]
    texts = {earlier.name: earlier.text for earlier in questions}
    if question.needs:
        parts.append("## Your analysis of this step so far")
        parts += [f"Question: {texts[name]}\nAnswer: {_shorten(answers[name])}" for name in question.needs]
    parts.append(f"## Question\n{question.text.replace('{example}', example)}")
    return "\n\n".join(part for part in parts if part)


def _shorten(answer: str) -> str:
    return strip_reasoning(answer).strip()[:MAX_ANSWER_CHARS] or NO_ANSWER


def idle_action(actions: Sequence[str]) -> str:
    """The action taken where an answer cannot be read: noop, or the first one where a world has no noop."""
    return "noop" if "noop" in actions else actions[0]


def example_answer(actions: Sequence[str], schema: Mapping[str, Any] | None) -> str:
    """An answer to the last question, with the action that is also taken where no answer can be read."""
    action = idle_action(actions)
    if schema is None:
        return f"Action: {action}"
    return json.dumps({name: action if name == "action" else "..." for name in schema["properties"]})


def messages(world: World, prompt: str) -> tuple[Message, ...]:
    return Message(role="system", content=system_prompt(world)), Message(role="user", content=prompt)


def action_schema(actions: Sequence[str], with_reasons: bool) -> dict[str, Any]:
    """The JSON schema of the last answer, for servers that can enforce one."""
    properties: dict[str, Any] = {"action": {"type": "string", "enum": list(actions)}}
    if with_reasons:  # first, so that the model writes them before it chooses
        properties = {"reasons": {"type": "string"}, **properties}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
