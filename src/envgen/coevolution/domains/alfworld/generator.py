"""Makes games: a floor plan, a task of one of ALFWorld's six types, and objects in places where they fit.

A game is only returned if the planner solves it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from ..random_choice import choose
from .affordances import HOLDERS, KIND_OF, LAMPS, OBJECTS_WITH, fits
from .floor_plans import FloorPlan, Place
from .game import Fact, Formula, Game, GameError, Problem, build_game
from .planner import plan_commands

TaskType = Literal[
    "pick_and_place_simple", "look_at_obj_in_light", "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep", "pick_cool_then_place_in_recep", "pick_two_obj_and_place",
]  # fmt: skip
TASK_TYPES: tuple[TaskType, ...] = get_args(TaskType)
TREATMENTS: dict[str, tuple[str, str]] = {  # property that an object needs, and the appliance
    "pick_clean_then_place_in_recep": ("cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("coolable", "Fridge"),
}
TREATED = {"cleanable": "isclean", "heatable": "ishot", "coolable": "iscool"}
SENTENCES: dict[str, tuple[str, str]] = {
    "pick_and_place_simple": ("put a {object} in {target}", "put some {object} on {target}"),
    "look_at_obj_in_light": ("look at {object} under the {target}", "examine the {object} with the {target}"),
    "pick_clean_then_place_in_recep": (
        "put a clean {object} in {target}",
        "clean some {object} and put it in {target}",
    ),
    "pick_heat_then_place_in_recep": ("put a hot {object} in {target}", "heat some {object} and put it in {target}"),
    "pick_cool_then_place_in_recep": ("put a cool {object} in {target}", "cool some {object} and put it in {target}"),
    "pick_two_obj_and_place": ("put two {object} in {target}", "find two {object} and put them in {target}"),
}
MAX_ATTEMPTS = 20  # at placing the objects


@dataclass(frozen=True)
class Assignment:
    """A task: `target` is the type of the receptacle, or of the lamp."""

    task_type: TaskType
    object_type: str
    target: str


def possible_assignments(floor_plan: FloorPlan, task_type: TaskType) -> list[Assignment]:
    """All tasks of this type that are possible in a room."""
    receptacle_types = sorted({place.type for place in floor_plan.places})
    movable = [name for name in floor_plan.object_types if name in OBJECTS_WITH["pickupable"]]
    if task_type == "look_at_obj_in_light":
        lamps = [name for name in floor_plan.object_types if name in LAMPS]
        lamps = [name for name in lamps if any(fits(name, receptacle) for receptacle in receptacle_types)]
        movable = [name for name in movable if any(fits(name, receptacle) for receptacle in receptacle_types)]
        return [Assignment(task_type, name, lamp) for name in movable for lamp in lamps]
    needed, appliance = TREATMENTS.get(task_type, ("pickupable", None))
    if appliance is not None and appliance not in receptacle_types:
        return []
    return [
        Assignment(task_type, name, target)
        for name in movable
        if name in OBJECTS_WITH[needed]
        for target in receptacle_types
        if fits(name, target) and any(fits(name, other) for other in receptacle_types if other != target)
    ]


def generate_game(
    floor_plan: FloorPlan, assignment: Assignment, rng: Random, num_copies: int = 1, num_distractors: int = 10,
    open_probability: float = 0.0,
) -> Game:  # fmt: skip
    """A game that the planner solves.

    Args:
        floor_plan: The room.
        assignment: The task.
        rng: Chooses the places and the distractors.
        num_copies: Objects of the type that the task asks for; a task with two has at least two.
        num_distractors: Objects of other types.
        open_probability: Probability that a receptacle that can be opened is open at the start.

    Raises:
        GameError: The task is not possible in this room.
    """
    for _ in range(MAX_ATTEMPTS):
        game = build_game(make_problem(floor_plan, assignment, rng, num_copies, num_distractors, open_probability))
        if not game.goal(game.initial_state) and plan_commands(game, game.initial_state) is not None:
            return game
    raise GameError(f"the task {assignment} is not possible in {floor_plan.name}")


def make_problem(
    floor_plan: FloorPlan,
    assignment: Assignment,
    rng: Random,
    num_copies: int,
    num_distractors: int,
    open_probability: float,
) -> Problem:
    is_lamp_task = assignment.task_type == "look_at_obj_in_light"
    others = [name for name in floor_plan.object_types if name != assignment.object_type and name not in LAMPS]
    others = [name for name in others if any(fits(name, place.type) for place in floor_plan.places)]
    num_copies = max(num_copies, 2 if assignment.task_type == "pick_two_obj_and_place" else 1)
    names = [assignment.object_type] * num_copies
    names += [choose(others, rng) for _ in range(num_distractors if others else 0)]
    names += [assignment.target] if is_lamp_task else []
    facts: list[Fact] = [("atlocation", "agent1", mangle(floor_plan.start))]
    types = {"agent1": "agent", mangle(floor_plan.start): "location"}
    for place in floor_plan.places:
        entity, location = mangle(place.id), mangle(place.location)
        types |= {entity: "receptacle", location: "location", f"{place.type}type".lower(): "rtype"}
        facts += [("receptacletype", entity, f"{place.type}type".lower()), ("receptacleatlocation", entity, location)]
        if place.openable:
            facts.append(("openable", entity))
            if rng.random() < open_probability:
                facts.append(("opened", entity))
    for number, name in enumerate(names):
        avoided = assignment.target if name == assignment.object_type else None
        place = _choose_place(floor_plan.places, name, avoided, rng)
        entity = mangle(f"{name}|{_offset(rng)}|{_offset(rng)}|+{number // 100:02d}.{number % 100:02d}")
        types |= {entity: "object", f"{name}type".lower(): "otype"}
        facts += [("objecttype", entity, f"{name}type".lower()), ("inreceptacle", entity, mangle(place.id))]
        facts.append(("objectatlocation", entity, mangle(place.location)))
        facts += [(kind, entity) for kind, having in OBJECTS_WITH.items() if name in having]
        if name in HOLDERS:
            facts.append(("isreceptacleobject", entity))
    facts += [
        ("cancontain", f"{receptacle}type".lower(), f"{name}type".lower())
        for receptacle in sorted({place.type for place in floor_plan.places})
        for name in sorted(set(names))
        if fits(name, receptacle)
    ]
    for word in ("sinkbasintype", "microwavetype", "fridgetype"):  # constants of the rules
        types.setdefault(word, "rtype")
    for word in ("knifetype", "butterknifetype"):
        types.setdefault(word, "otype")
    sentence = choose(SENTENCES[assignment.task_type], rng)
    task = sentence.format(object=assignment.object_type.lower(), target=assignment.target.lower())
    types.setdefault(f"{assignment.target}type".lower(), "otype" if is_lamp_task else "rtype")
    return Problem(types, tuple(facts), goal_formula(assignment), task)


def goal_formula(assignment: Assignment) -> Formula:
    """The goal of a task as ALFWorld states it."""
    object_type, target = f"{assignment.object_type}type".lower(), f"{assignment.target}type".lower()
    if assignment.task_type == "look_at_obj_in_light":
        lamp = (
            "and", ("objecttype", "?ot", target), ("toggleable", "?ot"), ("istoggled", "?ot"),
            ("receptacleatlocation", "?r", "?l"), ("atlocation", "?a", "?l"), ("inreceptacle", "?ot", "?r"),
        )  # fmt: skip
        variables = ("?ot", "-", "object", "?r", "-", "receptacle", "?a", "-", "agent", "?l", "-", "location")
        held = ("and", ("objecttype", "?o", object_type), ("holds", "?a", "?o"))
        return ("and", ("exists", variables, lamp), ("exists", ("?o", "-", "object", "?a", "-", "agent"), held))
    placed = [("objecttype", "?o", object_type), ("receptacletype", "?r", target), ("inreceptacle", "?o", "?r")]
    if assignment.task_type in TREATMENTS:
        needed = TREATMENTS[assignment.task_type][0]
        placed = [(needed, "?o"), *placed, (TREATED[needed], "?o")]
    body: tuple[Formula, ...] = tuple(placed)
    if assignment.task_type == "pick_two_obj_and_place":
        second = ("and", ("not", ("=", "?o", "?o2")), ("objecttype", "?o2", object_type), ("inreceptacle", "?o2", "?r"))
        body = (*body, ("exists", ("?o2", "-", "object"), second))
    return ("exists", ("?r", "-", "receptacle"), ("exists", ("?o", "-", "object"), ("and", *body)))


def mangle(text: str) -> str:
    """An AI2-THOR id as a PDDL name."""
    words = {"-": "_minus_", "|": "_bar_", "+": "_plus_", ".": "_dot_", ",": "_comma_"}
    return "".join(words.get(character, character) for character in text).lower()


def _choose_place(places: Sequence[Place], object_type: str, avoided: str | None, rng: Random) -> Place:
    """A place where the object fits; not one of the target's type."""
    fitting = [place for place in places if place.type != avoided and fits(object_type, place.type)]
    if not fitting:
        raise GameError(f"no place for {object_type} (a kind of {KIND_OF.get(object_type)}) outside {avoided}")
    return choose(fitting, rng)


def _offset(rng: Random) -> str:
    return f"{'+' if rng.random() < 0.5 else '-'}{int(4 * rng.random()):02d}.{int(100 * rng.random()):02d}"
