"""The domain `alfworld`: household tasks in text games of several turns.

A spec selects a room, a task, and how hard its objects are to find. The game is made by the generator, which only
returns games that can be won. A reply is the agent's commands, one per line; it scores 1.0 if they reach the goal
within `MAX_TURNS` turns. The oracle looks into one receptacle after the other and uses only what it has seen, so that
it can be imitated.

`alfworld` answers in few words, which small models learn quickly; `alfworld:original` answers with ALFWorld's own
sentences. The commands are the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field

from ...episodes import normalize_turn
from ...tasks import CheckResult, Domain, Spec, SpecError, Task
from ..random_choice import choose
from .engine import NOTHING_HAPPENS, TextGame
from .floor_plans import ROOM_KINDS, RoomKind, make_room
from .game import Game, GameError, Problem
from .generator import TaskType, generate_game, possible_assignments
from .planner import GoalParts, read_goal, search_commands

TaskName = Literal["put", "put two", "clean", "heat", "cool", "light"]
TASK_TYPE_OF: dict[TaskName, TaskType] = {
    "put": "pick_and_place_simple", "put two": "pick_two_obj_and_place", "clean": "pick_clean_then_place_in_recep",
    "heat": "pick_heat_then_place_in_recep", "cool": "pick_cool_then_place_in_recep", "light": "look_at_obj_in_light",
}  # fmt: skip
TASKS_IN: dict[RoomKind, tuple[TaskName, ...]] = {
    "kitchen": ("put", "put two", "clean", "heat", "cool"), "livingroom": ("put", "put two", "light"),
    "bedroom": ("put", "put two", "light"), "bathroom": ("put", "put two", "clean"),
}  # fmt: skip
TextStyle = Literal["compact", "original"]
MAX_TURNS = 24
NUM_VARIATIONS = 1000
CACHED_TASKS = 4096


class AlfworldSpec(Spec):
    """A game: its room, its task, and how hard the objects are to find."""

    room: RoomKind
    """The kind of the room. Only kitchens can heat and cool, only kitchens and bathrooms can clean, and only living
    rooms and bedrooms have a lamp."""
    task: TaskName
    """Put an object somewhere, put two of them, clean, heat or cool it first, or look at it in the light of a lamp."""
    receptacles: Annotated[int, Field(ge=4, le=8)]
    """Places where objects can be."""
    copies: Annotated[int, Field(ge=1, le=3)]
    """Objects of the type that the task asks for; a task with two has at least two."""
    distractors: Annotated[int, Field(ge=0, le=8)]
    """Objects of other types."""
    doors: Literal["open", "closed"]
    """Whether receptacles with doors are open or closed at the start."""
    variation: Annotated[int, Field(ge=0, lt=NUM_VARIATIONS)]
    """Selects the objects and where they are."""


@dataclass(frozen=True)
class AlfworldAnswerKey:
    """The game, and the commands of the oracle."""

    problem: Problem = field(repr=False)  # its objects have random coordinates, which the agent does not see
    commands: tuple[str, ...]
    parts: GoalParts
    game: Game = field(compare=False, repr=False)


class AlfworldEpisode:
    """A game in progress."""

    def __init__(self, game: Game, style: TextStyle):
        self.game, self.style = TextGame(game, MAX_TURNS), style

    def step(self, turn: str) -> str | None:
        if self.game.done:
            return None
        command = normalize_turn(turn)
        step = self.game.step(command)
        if step.done:
            return None
        return step.observation if self.style == "original" else self._shorten(command, step.observation)

    def _shorten(self, command: str, observation: str) -> str:
        """The observation in few words."""
        if observation == NOTHING_HAPPENS:
            return "nothing happens"
        state, game = self.game.state, self.game.game
        verb, _, rest = command.partition(" ")
        k = game.receptacle_index.get(rest.removeprefix("to "), -1)
        if k >= 0 and verb in ("go", "open", "examine"):
            if game.receptacles[k].openable and not state.opened >> k & 1:
                return "closed"
            return _names(game, state.contents[k])
        if verb == "inventory":
            return _names(game, 1 << state.held if state.held >= 0 else 0)
        return observation if verb in ("look", "help", "examine") else "ok"


class AlfworldDomain(Domain):
    Spec = AlfworldSpec
    is_multi_turn = True
    loss_agg = "sequence"  # a failed episode is several times as long as a successful one
    instructions = (
        "You are in a room with receptacles that hold objects. Do the task with one command per turn, and write "
        "nothing but the command; you are told what you see. Commands:\n"
        "go to RECEPTACLE, open RECEPTACLE, close RECEPTACLE, take OBJECT from RECEPTACLE, move OBJECT to RECEPTACLE, "
        "clean OBJECT with SINKBASIN, heat OBJECT with MICROWAVE, cool OBJECT with FRIDGE, use LAMP, "
        "examine SOMETHING, inventory, look\n"
        "Names have a number, such as cabinet 2. You can hold one object. Go to a receptacle before you use it. "
        f"You have {MAX_TURNS} turns."
    )
    spec_prompt = (
        "A task is a household task in a text game. Its form is\n"
        '{"room":"kitchen","task":"heat","receptacles":6,"copies":1,"distractors":4,"doors":"closed","variation":17}\n'
        "room and task: "
        + "; ".join(f"{room}: {', '.join(tasks)}" for room, tasks in TASKS_IN.items())
        + ".\nreceptacles: 4 to 8, the places where objects can be.\n"
        "copies: 1 to 3, the objects of the type that the task asks for.\n"
        "distractors: 0 to 8, the objects of other types.\n"
        "doors: open or closed, the state of cabinets, drawers and so on at the start.\n"
        f"variation: 0 to {NUM_VARIATIONS - 1}; a different number selects other objects and places."
    )

    def __init__(self, texts: str = "compact"):
        if texts not in get_args(TextStyle):
            raise ValueError(f"the texts of alfworld must be {' or '.join(get_args(TextStyle))}, not {texts!r}")
        self.style: TextStyle = texts  # pyright: ignore[reportAttributeAccessIssue]
        self.name = "alfworld" if texts == "compact" else f"alfworld:{texts}"  # pyright: ignore

    def make_task(self, spec: AlfworldSpec) -> Task:
        key = _make_answer_key(spec)
        game = TextGame(key.game)
        prompt = game.reset() if self.style == "original" else _short_prompt(key)
        return Task(spec, prompt, key)

    def start_episode(self, task: Task) -> AlfworldEpisode:
        return AlfworldEpisode(task.answer_key.game, self.style)

    def oracle_reply(self, task: Task) -> str:
        return "\n".join(task.answer_key.commands)

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        """The prompt; the oracle's commands without the last, the takes or the treatment; and only looking around."""
        commands, parts = task.answer_key.commands, task.answer_key.parts
        others = [[command for command in commands if not command.startswith("take ")], ["look"] * MAX_TURNS]
        if parts.treatment:
            others.append([command for command in commands if not command.startswith(f"{parts.treatment} ")])
        return (task.prompt, *("\n".join(other) for other in (commands[:-1], *others)))

    def check(self, task: Task, reply: str) -> CheckResult:
        game, num_possible = TextGame(task.answer_key.game, MAX_TURNS), 0
        for turn in reply.split("\n", MAX_TURNS)[:MAX_TURNS]:
            step = game.step(normalize_turn(turn))
            num_possible += step.observation != NOTHING_HAPPENS
            if step.won:
                return CheckResult(1.0, True)
        if not num_possible:
            return CheckResult(0.0, False, "no command is possible")
        return CheckResult(0.0, True, f"the goal is not reached after {game.num_steps} commands")

    def sample(self, rng: np.random.Generator) -> AlfworldSpec:
        return self._sample(rng, max_receptacles=8, max_distractors=8)

    def sample_easy(self, rng: np.random.Generator) -> AlfworldSpec:
        """At most five receptacles and two distractors."""
        return self._sample(rng, max_receptacles=5, max_distractors=2)

    def _sample(self, rng: np.random.Generator, max_receptacles: int, max_distractors: int) -> AlfworldSpec:
        while True:
            room = choose(ROOM_KINDS, rng)
            task = choose(list(TASK_TYPE_OF), rng)
            spec = AlfworldSpec(
                room=room, task=task, receptacles=int(rng.integers(4, max_receptacles + 1)),
                copies=int(rng.integers(1, 4)), distractors=int(rng.integers(max_distractors + 1)),
                doors="open" if rng.random() < 0.5 else "closed", variation=int(rng.integers(NUM_VARIATIONS)),
            )  # fmt: skip
            try:
                _make_answer_key(spec)
            except SpecError:
                continue
            return spec

    def features(self, spec: AlfworldSpec) -> Mapping[str, str]:
        return {
            "task": spec.task,
            "room": spec.room,
            "receptacles": str(spec.receptacles),
            "copies": str(spec.copies),
            "distractors": ("none", "few", "some", "many", "many")[-(-spec.distractors // 2)],
            "doors": spec.doors,
        }

    def difficulty(self, spec: AlfworldSpec) -> float:
        """The number of commands that the oracle needs."""
        return float(len(_make_answer_key(spec).commands))


def _make_answer_key(spec: AlfworldSpec) -> AlfworldAnswerKey:
    return _cached_answer_key(spec.text)


@lru_cache(CACHED_TASKS)
def _cached_answer_key(text: str) -> AlfworldAnswerKey:
    spec = AlfworldSpec.parse(text)
    if spec.task not in TASKS_IN[spec.room]:
        raise SpecError(
            f"the task {spec.task!r} is not possible in a {spec.room}, only {', '.join(TASKS_IN[spec.room])}"
        )
    rng = Random(spec.text)  # only random() is used: its stream is the same in every version of Python
    room = make_room(spec.room, spec.receptacles, rng)
    assignments = possible_assignments(room, TASK_TYPE_OF[spec.task])
    if not assignments:
        raise SpecError(f"the task {spec.task!r} is not possible in this {spec.room}")
    open_probability = 1.0 if spec.doors == "open" else 0.0
    try:
        game = generate_game(room, choose(assignments, rng), rng, spec.copies, spec.distractors, open_probability)
    except GameError as error:
        raise SpecError(str(error)) from None
    commands, parts = search_commands(game), read_goal(game.problem.goal)
    if commands is None or parts is None or len(commands) > MAX_TURNS:
        raise SpecError(f"the oracle does not solve the task within {MAX_TURNS} turns")
    return AlfworldAnswerKey(game.problem, tuple(commands), parts, game)


def _short_prompt(key: AlfworldAnswerKey) -> str:
    """The task and the receptacles, in the order of their names."""
    names = sorted(key.game.receptacle_index, key=lambda name: (name.split(" ")[0], int(name.split(" ")[1])))
    parts, adjectives = key.parts, {"clean": "clean ", "heat": "hot ", "cool": "cool "}
    thing, target = parts.object_type.removesuffix("type"), parts.target.removesuffix("type")
    number = "two " if parts.count == 2 else adjectives.get(parts.treatment or "", "")
    task = f"look at {thing} under {target}" if parts.is_lamp_task else f"put {number}{thing} in {target}"
    return f"{task}\n{', '.join(names)}"


def _names(game: Game, mask: int) -> str:
    return ", ".join(thing.name for k, thing in enumerate(game.objects) if mask >> k & 1) or "nothing"
