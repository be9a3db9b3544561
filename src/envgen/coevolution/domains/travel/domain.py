"""The domain `travel`: trips over made-up tables, planned in one reply, in the manner of TravelPlanner.

The prompt holds the tables. A reply has one line for each day; it scores 1.0 if the plan satisfies all constraints of
TravelPlanner, of common sense and of the travelers, else 0. The oracle's plan is found by search, which also proves
that the budget is enough.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

import numpy as np

from ...tasks import CheckResult, Domain, SpecError, Task
from .constraints import check_plan
from .database import Trip, make_trip
from .plan import Day
from .planner import cheapest_cost, find_plan
from .spec import BUDGET_FACTOR, MAX_DAYS, MAX_OPTIONS, NUM_VARIATIONS, TravelSpec, sample_spec
from .text import PlanError, format_plan, parse_plan, write_prompt
from .wrong_plans import wrong_plans

CACHED_TASKS = 4096


@dataclass(frozen=True)
class TravelAnswerKey:
    """The trip, its query with the budget, and the oracle's plan."""

    trip: Trip
    plan: tuple[Day, ...]


class TravelDomain(Domain):
    name = "travel"
    Spec = TravelSpec
    instructions = (
        "Plan the trip with nothing but what the tables list. Write one line for each day, and nothing else: the city, "
        "or both cities of a journey, and what is planned, with semicolons between. F10 is "
        "a flight, M10 a meal, S10 a sight and R10 a room for the night. For example:\n"
        "Arvo > Belm; F10; M12; R11\n"
        "Belm; M10; M14; M13; S12; R11\n"
        "Belm > Arvo; taxi\n"
        "A journey needs a flight number, drive or taxi, every night a room, and a day without a journey three meals "
        "and a sight. Have a meal on each day of arrival. Use no meal or sight twice, and do not combine drive with "
        "flights or taxi. Flights and meals are paid per person, drive per car of five people, taxi per car of four, "
        "and rooms per night: three people need two rooms for 2. A room with 3 nights must be booked for at least 3. "
        "All wishes must be fulfilled: a word such as pets is something that no room may forbid, and of each cuisine "
        "there must be a meal."
    )
    spec_prompt = (
        "A task is a trip that has to be planned. Its form is\n"
        '{"days":3,"cities":1,"people":2,"budget":"fair","room":"private room","rule":"pets","cuisines":1,'
        '"transport":"any","options":2,"variation":17}\n'
        f"days: 2 to {MAX_DAYS}, at least one more than cities. cities: 1 or 2. people: 1 to 4.\n"
        "budget: ample, fair or tight.\n"
        "room: any, shared room, not shared room, private room or entire room.\n"
        "rule: any, smoking, parties, children under 10, visitors or pets, which the room has to allow.\n"
        "cuisines: 0 to 2, how many the travelers want; at most 1 on 2 days.\n"
        "transport: any, no flight or no self-driving.\n"
        f"options: 1 to {MAX_OPTIONS}, the rooms, restaurants and sights in each city that the trip does not need.\n"
        f"variation: 0 to {NUM_VARIATIONS - 1}; a different number selects different cities, places and prices."
    )

    def make_task(self, spec: TravelSpec) -> Task:
        key = _cached_answer_key(spec.text)
        return Task(spec, write_prompt(key.trip), key)

    def oracle_reply(self, task: Task) -> str:
        return format_plan(task.answer_key.plan)

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        """No plan, a day too few or too many, and a plan for each constraint that violates it."""
        key: TravelAnswerKey = task.answer_key
        plans = [key.plan[:-1], (*key.plan, key.plan[-1]), *wrong_plans(key.trip, key.plan).values()]
        return ("", task.prompt, *map(format_plan, plans))

    def check(self, task: Task, reply: str) -> CheckResult:
        trip: Trip = task.answer_key.trip
        try:
            plan = parse_plan(reply, trip)
        except PlanError as error:
            return CheckResult(0.0, False, str(error))
        if len(plan) > trip.query.days:
            return CheckResult(0.0, True, f"complete: the plan has {len(plan)} days instead of {trip.query.days}")
        result = check_plan(trip.query, plan, trip.reference)
        for name, reason in (result.commonsense | result.hard).items():
            if reason:
                return CheckResult(0.0, True, f"{name}: {reason}")
        return CheckResult(1.0, True)

    def sample(self, rng: np.random.Generator) -> TravelSpec:
        return sample_spec(rng, MAX_DAYS, MAX_OPTIONS, wish_probability=0.5)

    def sample_easy(self, rng: np.random.Generator) -> TravelSpec:
        """At most three days, one option, an ample budget, and no wishes."""
        return sample_spec(rng, 3, 1, wish_probability=0.0).model_copy(update={"budget": "ample"})

    def features(self, spec: TravelSpec) -> Mapping[str, str]:
        return {
            "days": str(spec.days),
            "cities": str(spec.cities),
            "budget": spec.budget,
            "room": spec.room,
            "rule": "any" if spec.rule == "any" else "set",
            "cuisines": str(spec.cuisines),
            "transport": spec.transport,
            "options": str(spec.options),
        }

    def difficulty(self, spec: TravelSpec) -> float:
        """Each day, each wish and each option count 1, and so does each step from an ample to a tight budget."""
        return spec.days + spec.num_wishes + spec.options + list(BUDGET_FACTOR).index(spec.budget)


@lru_cache(CACHED_TASKS)
def _cached_answer_key(text: str) -> TravelAnswerKey:
    spec = TravelSpec.parse(text)
    trip = make_trip(spec, Random(text))  # a string gives the same seed on every machine
    cost = cheapest_cost(trip)
    if math.isinf(cost):
        raise SpecError("the trip has no plan")
    budget = 10.0 * math.ceil(BUDGET_FACTOR[spec.budget] * cost / 10)
    trip = trip._replace(query=replace(trip.query, budget=budget))
    plan = find_plan(trip)
    assert plan is not None, "the budget is at least the cost of the cheapest plan"
    return TravelAnswerKey(trip, tuple(plan))
