"""The domain `travel`: every task has a plan, and a plan is scored by the constraints of TravelPlanner."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hash_seeds import outputs_under_two_hash_seeds
from mutated_replies import TEN_MEGABYTES, attack

from envgen.benchmarks.benchmark import Item
from envgen.benchmarks.travel_planner.benchmark import judge
from envgen.coevolution.domains.travel.constraints import COMMONSENSE, check_plan, hard_constraints, total_cost
from envgen.coevolution.domains.travel.database import CITIES
from envgen.coevolution.domains.travel.domain import TravelDomain
from envgen.coevolution.domains.travel.plan import Day
from envgen.coevolution.domains.travel.planner import cheapest_cost, find_plan, transportation_texts
from envgen.coevolution.domains.travel.reference import NAME_COLUMN
from envgen.coevolution.domains.travel.spec import BUDGET_FACTOR, TravelSpec
from envgen.coevolution.domains.travel.text import PlanError, format_plan, parse_plan
from envgen.coevolution.domains.travel.wrong_plans import wrong_plans
from envgen.coevolution.tasks import SpecError, Task, check_domain, validate

SPEC = TravelSpec(
    days=3, cities=1, people=2, budget="fair", room="private room", rule="pets", cuisines=1, transport="no flight",
    options=2, variation=17,
)  # fmt: skip
HARD = ("budget", "house rule", "cuisine", "room type", "transportation")


@pytest.fixture(scope="module")
def domain() -> TravelDomain:
    return TravelDomain()


@pytest.fixture(scope="module")
def tasks(domain) -> list[Task]:
    rng = np.random.default_rng(0)
    return [domain.make_task(domain.sample(rng)) for _ in range(100)]


def test_the_contract_of_a_domain():
    check_domain(TravelDomain(), 100)


@pytest.mark.slow
def test_the_oracle_is_right_and_wrong_replies_are_wrong_on_three_thousand_tasks(domain):
    rng = np.random.default_rng(1)
    validate(domain, (domain.make_task(domain.sample(rng)) for _ in range(3000)))


def test_every_constraint_is_violated_by_a_wrong_plan(tasks):
    """And by no other constraint, where that is possible."""
    alone = set()
    for task in tasks:
        trip, plan = task.answer_key.trip, task.answer_key.plan
        for name, wrong in wrong_plans(trip, plan).items():
            report = check_plan(trip.query, parse_plan(format_plan(wrong), trip), trip.reference)
            violated = {name for name, reason in (report.commonsense | report.hard).items() if reason}
            assert name in violated
            alone |= violated if len(violated) == 1 else set()
    # without the last three, nothing is known about the rest of the plan
    assert alone == {*COMMONSENSE, *HARD} - {"reasonable route", "within the reference", "complete"}


def test_the_benchmark_agrees(domain, tasks):
    """The same plans, written as the benchmark expects them, are right and wrong there."""
    for task in tasks[:40]:
        trip, plan = task.answer_key.trip, task.answer_key.plan
        item = Item("x", "train", {"query": trip.query, "reference": trip.reference})
        for days, score in [(plan, 1.0)] + [(wrong, 0.0) for wrong in wrong_plans(trip, plan).values()]:
            assert judge(item, json.dumps([day._asdict() for day in days])).score == score
            assert domain.check(task, format_plan(days)).score == score


def all_plans(task: Task):
    """Every plan of a trip of two days with one dinner."""
    trip = task.answer_key.trip
    (city,), origin, places = trip.cities, trip.query.origin, trip.reference.places
    there, back = transportation_texts(trip, origin, city), transportation_texts(trip, city, origin)
    for out, home, room, food in product(there, back, places["Accommodations"][city], places["Restaurants"][city]):
        yield [
            Day(f"from {origin} to {city}", out, "-", "-", "-", f"{food['Name']}, {city}", f"{room['NAME']}, {city}"),
            Day(f"from {city} to {origin}", home, "-", "-", "-", "-", "-"),
        ]


def test_the_search_finds_the_cheapest_plan(domain):
    rng = np.random.default_rng(2)
    specs = [domain.sample(rng).model_copy(update={"days": 2, "cities": 1, "cuisines": k % 2}) for k in range(40)]
    for task in map(domain.make_task, specs):
        trip = task.answer_key.trip
        checks = {**COMMONSENSE, **hard_constraints(trip.query)}
        del checks["budget"]
        costs = [
            total_cost(trip.query, plan, trip.reference) for plan in all_plans(task)
            if not any(check(trip.query, plan, trip.reference) for check in checks.values())
        ]  # fmt: skip
        cost = cheapest_cost(trip)
        assert cost == min(costs)
        assert 0 <= trip.query.budget - BUDGET_FACTOR[task.spec.budget] * cost < 10
        no_money = trip._replace(query=trip.query.__class__(**{**vars(trip.query), "budget": cost - 1}))
        assert find_plan(no_money) is None


def test_prompts_and_replies_are_short_and_complete(domain, tasks):
    for task in tasks:
        reply = domain.oracle_reply(task)
        assert len(task.prompt) < 1600
        assert len(reply) < 220
        reference = task.answer_key.trip.reference
        assert tuple(parse_plan(reply, task.answer_key.trip)) == task.answer_key.plan
        codes = [row[NAME_COLUMN[kind]] for kind, cities in reference.places.items() for rows in cities.values()
                 for row in rows]  # fmt: skip
        assert all(task.prompt.count(code) == 1 for code in [*codes, *reference.flights])


def test_an_example(domain):
    task = domain.make_task(SPEC)
    assert task.prompt.startswith("trip: 3 days, 2 people, ")
    assert "\nwishes: private room, pets, " in task.prompt
    reply = domain.oracle_reply(task)
    assert reply.count("\n") == 2
    assert domain.check(task, f"\n {reply} \n\n").score == 1
    assert domain.check(task, reply.replace("; ", ";").replace("\n", ";\n").replace(" > ", ">")).score == 1
    assert domain.check(task, reply.lower()).score == 0
    assert "4 days instead of 3" in domain.check(task, reply + "\n" + reply.split("\n")[0]).reason
    assert not domain.check(task, "I would go by train.").valid


def test_the_example_in_the_documentation(domain):
    task = domain.make_task(SPEC)
    page = (Path(__file__).parents[3] / "docs" / "genenv.md").read_text()
    assert f"```json\n{SPEC.text}\n```" in page
    assert f"```\n{task.prompt}\n\n{domain.oracle_reply(task)}\n```" in page


@pytest.mark.parametrize(("line", "message"), [
    ("A; no taxi", "day 1: 'no taxi' is not drive, taxi or a code such as F10"), ("A > B > C; taxi", "3 cities"),
    ("A; M10; M11; M12; M13", "4 meals, not at most 3"), ("A; R10; R10", "2 rooms"),
    ("A; M10, B", "'M10, Jorra' is not"),
    ("A > B; taxi; F12", "2 flights or cars"), ("", "1 to 20 lines"), ("A\n" * 21, "not 21"),
    (";" * 5000, "4000 characters"), ("A; -", "'-' is not"), ("I drive", "'I drive' is not one of Jorra, Isko"),
])  # fmt: skip
def test_what_is_no_plan(domain, line, message):
    with pytest.raises(PlanError, match=message):
        parse_plan(line.replace("A", "Isko").replace("B", "Jorra"), domain.make_task(SPEC).answer_key.trip)


def test_no_name_is_part_of_another(tasks):
    """TravelPlanner finds places by a part of their name."""
    assert not [(one, other) for one, other in product(CITIES, CITIES) if one != other and one in other]
    for task in tasks:
        reference = task.answer_key.trip.reference
        codes = [row[NAME_COLUMN[kind]] for kind, cities in reference.places.items() for rows in cities.values()
                 for row in rows]  # fmt: skip
        assert len(set(codes)) == len(codes)
        assert all(len(code) == 3 for code in [*codes, *reference.flights])


@pytest.mark.parametrize(("changes", "message"), [
    ({"cities": 2, "days": 2}, "at least 3 days, not 2"), ({"days": 2, "cuisines": 2}, "at most 1 cuisine"),
    ({"days": 9}, "days"), ({"people": 0}, "people"), ({"room": "tent"}, "not one of any"), ({"code": "x"}, "code"),
])  # fmt: skip
def test_a_contradictory_spec_is_refused(domain, changes, message):
    with pytest.raises(SpecError, match=message):
        domain.Spec.parse(json.dumps({**SPEC.model_dump(), **changes}))


def test_tight_budgets_rule_out_more_plans(domain):
    """Of the plans with one dinner that satisfy all else, fewer are within a tighter budget."""
    counts = dict.fromkeys(BUDGET_FACTOR, 0)
    for budget in counts:
        for k in range(30):
            changes = {"days": 2, "budget": budget, "variation": k, "transport": "any", "rule": "any", "room": "any"}
            task = domain.make_task(SPEC.model_copy(update=changes))
            counts[budget] += sum(domain.check(task, format_plan(plan)).score == 1 for plan in all_plans(task))
    assert counts["tight"] < 0.7 * counts["fair"] < 0.7 * 0.7 * counts["ample"]
    assert domain.difficulty(SPEC) < domain.difficulty(SPEC.model_copy(update={"budget": "tight"}))


def test_held_out_tasks_are_new(domain):
    tasks = domain.held_out_tasks(50)
    assert len({task.prompt for task in tasks}) == 50
    assert domain.held_out_tasks(20) == tasks[:20]


def test_tasks_do_not_depend_on_the_hash_seed():
    code = (
        "import numpy as np\nfrom envgen.coevolution.domains.travel.domain import TravelDomain\n"
        "d, rng = TravelDomain(), np.random.default_rng(0)\nfor _ in range(20):\n"
        "    task = d.make_task(d.sample(rng))\n    print(task.prompt, d.oracle_reply(task), d.wrong_replies(task))"
    )
    first, second = outputs_under_two_hash_seeds(code)
    assert first == second
    assert "trip:" in first


def test_hostile_replies_are_scored(domain, tasks):
    attack(domain, tasks, 300)


@pytest.mark.slow
def test_five_thousand_hostile_replies_are_scored(domain, tasks):
    attack(domain, tasks, 5000)


@pytest.mark.parametrize("reply", TEN_MEGABYTES.values(), ids=TEN_MEGABYTES)
def test_ten_megabytes_are_scored(domain, tasks, reply):
    assert domain.check(tasks[0], reply).score == 0
