"""The domain `tools`: a request in plain words, and a program of calls to answer it with.

A reply scores 1.0 if what it executes is what was asked for: the same calls with the same arguments and results, in any
order that gives these, and the same state of the apps afterwards; anything else scores 0. Every task is tried in two
worlds that the request fits equally well and in which the results differ. So a value that could only be guessed is
wrong in one of them, however lucky, while one that follows from the request is as good as a reference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import get_args

import numpy as np

from ..tasks import CheckResult, Domain, Task
from .tools_apps import TOOLS, Facts
from .tools_calls import Call, CallError, Trace, execute, read, write
from .tools_draw import calls_of, linked_pair, one, shuffled, steps_of
from .tools_spec import DISTRACTORS, STEPS, VARIATIONS, ToolsSpec, program
from .tools_words import request
from .tools_wrong import wrong

STYLES: tuple[str, ...] = get_args(ToolsSpec.model_fields["style"].annotation)
WORLDS = 20  # tried at most to find one in which all results differ


@dataclass(frozen=True)
class Trial:
    """What the right program does in a world."""

    world: int
    trace: Trace
    ran: Trace  # the trace in an order that depends on nothing
    changed: Facts


@dataclass(frozen=True)
class Gold:
    calls: tuple[Call, ...]
    listed: tuple[str, ...]
    trials: tuple[Trial, Trial]


class Tools(Domain):
    name = "tools"
    Spec = ToolsSpec
    instructions = (
        "Answer with the calls that do what the request says, one for each step, and with nothing else. For example:\n"
        "price(item=tea); pay(person=ann, amount=$1); balance()\n"
        "$1 is the result of your first call: you do not see results, so refer to them. Name every argument; "
        "in a list of tools, `to: day` is an argument `to` of type day, and `day` one that is called like its type."
    )
    spec_prompt = (
        "A task is a request that is answered by 1 to 5 calls of simulated tools. Its form is\n"
        '{"steps":["price","pay $1","balance"],"distractors":2,"style":"plain","variation":17}\n'
        "steps: the tools in their order. A step may refer to results of earlier steps: with $1, its first argument of "
        "that type takes the result of step 1. Other arguments get words and numbers of their own. A step that draws "
        "none may be there once.\n"
        f"distractors: 0 to {DISTRACTORS}, how many tools are listed that the task does not need.\n"
        f"style: how the request is worded, one of {', '.join(STYLES)}.\n"
        f"variation: 0 to {VARIATIONS - 1}; another number draws other words and numbers.\n"
        "The tools, with the types of their arguments and results:\n"
        + "\n".join(tool.signature for tool in TOOLS.values())
        + '\nA harder example: {"steps":["guest","wish $1","stock $2","price $2","pay $1 $4"],"distractors":6,'
        '"style":"backwards","variation":803}'
    )

    def make_task(self, spec: ToolsSpec) -> Task:
        random = Random(spec.text)  # of which only random() is used: it alone is the same in every Python
        calls = calls_of(program(spec.steps), random)
        needed = list(dict.fromkeys(call.tool for call in calls))
        spare = shuffled([name for name in TOOLS if name not in needed], random)
        listed = tuple(shuffled(needed + spare[: spec.distractors], random))
        signatures = "\n".join(TOOLS[name].signature for name in listed)
        prompt = f"tools:\n{signatures}\nrequest: {request(spec.style, calls)}"
        return Task(spec, prompt, Gold(calls, listed, _trials(calls, random)))

    def oracle_reply(self, task: Task) -> str:
        return write(task.gold.calls)

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        first, second = task.gold.trials
        return (task.prompt, *wrong(task.gold.calls, task.gold.listed, first.trace, second.trace))

    def check(self, task: Task, reply: str) -> CheckResult:
        gold: Gold = task.gold
        try:
            calls = read(reply, gold.listed)
        except CallError as error:
            return CheckResult(0.0, False, str(error))
        if len(calls) != len(gold.calls):
            return CheckResult(0.0, True, f"calls: {len(calls)} instead of {len(gold.calls)}")
        for trial, why in zip(gold.trials, ("something else than asked for", "right by a guess alone"), strict=True):
            trace, changed = execute(calls, trial.world)
            if changed != trial.changed or sorted(trace) != trial.ran:
                return CheckResult(0.0, True, why)
        return CheckResult(1.0, True)

    def sample(self, random: np.random.Generator) -> ToolsSpec:
        return _spec(steps_of(1 + int(random.integers(STEPS)), random), DISTRACTORS, random)

    def sample_easy(self, random: np.random.Generator) -> ToolsSpec:
        """One step, two, or two of which the second needs the first, with at most two tools that nobody needs."""
        steps = int(random.integers(3))
        return _spec(steps_of(steps, random) if steps else linked_pair(random), 2, random)

    def features(self, spec: ToolsSpec) -> Mapping[str, str]:
        """`app` is the one that most of the steps belong to, if there is one."""
        apps = [step.tool.app for step in program(spec.steps)]
        links = _links(spec)
        return {
            "steps": str(len(spec.steps)),
            "links": str(links) if links < 3 else "3 or more",
            "distractors": ("none", "few", "some", "many")[-(-spec.distractors // 2)],
            "style": spec.style,
            "app": next((app for app in apps if 2 * apps.count(app) > len(apps)), "mixed"),
        }

    def difficulty(self, spec: ToolsSpec) -> float:
        """Steps and references count 1 each, as do all the distractors together."""
        return len(spec.steps) + _links(spec) + spec.distractors / DISTRACTORS


def _trials(calls: Sequence[Call], random: Random) -> tuple[Trial, Trial]:
    """Two worlds that have as little in common as the calls allow: what was just written is read in every world."""
    first = second = _trial(calls, random)
    fewest = len(calls) + 1
    for _ in range(WORLDS):
        other = _trial(calls, random)
        if (alike := _alike(first.trace, other.trace)) < fewest:
            second, fewest = other, alike
        if not fewest:
            break
    return first, second


def _trial(calls: Sequence[Call], random: Random) -> Trial:
    world = int(random.random() * 2**32)
    trace, changed = execute(calls, world)
    return Trial(world, trace, sorted(trace), changed)


def _alike(first: Trace, second: Trace) -> int:
    """How many results are the same in both worlds, or in both the same as another result of their type."""
    kinds = [TOOLS[tool].result for tool, _, _ in first]
    pairs = [(kind, one[2], other[2]) for kind, one, other in zip(kinds, first, second, strict=True) if kind]
    return len(pairs) - len({pair for pair in pairs if pair[1] != pair[2]})


def _spec(steps: list[str], distractors: int, random: np.random.Generator) -> ToolsSpec:
    return ToolsSpec(
        steps=tuple(steps),
        distractors=int(random.integers(distractors + 1)),
        style=one(STYLES, random),
        variation=int(random.integers(VARIATIONS)),
    )


def _links(spec: ToolsSpec) -> int:
    return sum(step.count("$") for step in spec.steps)
