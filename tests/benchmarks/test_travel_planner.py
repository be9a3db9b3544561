"""TravelPlanner with a query, tables and a plan of our own in the format of the official files."""

import copy
import csv
import json
import time
from pathlib import Path

import pytest

from envgen import run_benchmark
from envgen.benchmarks.benchmark import BenchmarkError
from envgen.benchmarks.travel_planner.benchmark import TravelPlanner, judge
from envgen.benchmarks.travel_planner.plan import find_plan
from envgen.benchmarks.travel_planner.reference import road_cost
from envgen.coevolution.domains.travel.plan import Day, from_to, name_and_city
from envgen.designers.chat.protocol import Reply
from hostile_replies import attack, play

pytestmark = pytest.mark.filterwarnings("ignore:invalid")  # escape sequences and literals in hostile replies
QUERY = {
    "org": "Varn", "dest": "Tolm", "days": 3, "visiting_city_number": 1, "date": "['2022-03-01']", "people_number": 3,
    "budget": 2000, "level": "hard", "query": "Three of us want to see Tolm for three days.",
    "local_constraint": "{'house rule': 'pets', 'cuisine': ['French'], 'room type': 'entire room', "
                        "'transportation': 'no self-driving'}",
}  # fmt: skip
TABLES = {
    "Attractions in Tolm": [{"Name": f"Museum {k}", "City": "Tolm"} for k in range(1, 6)],
    "Restaurants in Tolm": [
        {"Name": f"Cafe {k}", "Average Cost": 10 * k, "Cuisines": "French, Tea" if k == 4 else "Pizza", "City": "Tolm"}
        for k in range(1, 8)
    ],
    "Accommodations in Tolm": [
        {"NAME": "Loft, with a view", "price": 100.0, "room type": "Entire home/apt", "house_rules": "No smoking",
         "minimum nights": 2.0, "maximum occupancy": 2, "city": "Tolm"},
        {"NAME": "Attic", "price": 50.0, "room type": "Private room", "house_rules": "No pets & No parties",
         "minimum nights": 1.0, "maximum occupancy": 4, "city": "Tolm"},
        {"NAME": "Castle", "price": 900.0, "room type": "Entire home/apt", "house_rules": "", "minimum nights": 3.0,
         "maximum occupancy": 9, "city": "Tolm"},
    ],
    "Flight from Varn to Tolm on 2022-03-01": [
        {"Flight Number": "F1", "Price": 80, "OriginCityName": "Varn", "DestCityName": "Tolm"}
    ],
    "Flight from Tolm to Varn on 2022-03-03": "There is no flight from Tolm to Varn on 2022-03-03.",
    "Self-driving from Varn to Tolm": "self-driving, from Varn to Tolm, duration: 3 hours, distance: 300 km, cost: 15",
    "Self-driving from Tolm to Varn": "self-driving, from Tolm to Varn, duration: 3 hours, distance: 300 km, cost: 15",
    "Taxi from Varn to Tolm": "No valid information.",
    "Taxi from Tolm to Varn": "taxi, from Tolm to Varn, duration: 3 hours, distance: 300 km, cost: 300",
}  # fmt: skip
PLAN = [
    {"days": 1, "current_city": "from Varn to Tolm", "transportation": "Flight Number: F1, from Varn to Tolm, 9:00",
     "breakfast": "-", "attraction": "Museum 1, Tolm;", "lunch": "Cafe 1, Tolm", "dinner": "Cafe 2, Tolm",
     "accommodation": "Loft, with a view, Tolm"},
    {"days": 2, "current_city": "Tolm", "transportation": "-", "breakfast": "Cafe 3, Tolm",
     "attraction": "Museum 2, Tolm;Museum 3, Tolm;", "lunch": "Cafe 4, Tolm", "dinner": "Cafe 5, Tolm",
     "accommodation": "Loft, with a view, Tolm"},
    {"days": 3, "current_city": "from Tolm to Varn", "transportation": "Taxi, from Tolm to Varn, cost: 300",
     "breakfast": "Cafe 6, Tolm", "attraction": "-", "lunch": "Cafe 7, Tolm", "dinner": "-", "accommodation": "-"},
    {}, {},
]  # fmt: skip
COST = 3 * 80 + 300 + 3 * (10 + 20 + 30 + 40 + 50 + 60 + 70) + 2 * 2 * 100


def write_data(folder: Path, query: dict, tables=TABLES, plan=PLAN) -> Path:
    for split in ("train", "validation"):
        row = {**query, **({"annotated_plan": str([query, plan])} if split == "train" else {})}
        with open(folder / f"{split}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            writer.writeheader()
            writer.writerow(row)
        (folder / f"{split}_ref_info.jsonl").write_text(json.dumps(tables) + "\n")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("travel"), QUERY)


@pytest.fixture(scope="module")
def item(data):
    return TravelPlanner(data).items("train")[0]


def test_gold_plans_are_right_and_empty_ones_wrong(data, tmp_path):
    for llm, rate in (("gold", 100), ("empty", 0)):
        options = {"options": {"data": data}, "categories": ["train"]}
        result = run_benchmark("travel_planner", llm, folder=tmp_path / llm, verbose=False, **options)
        assert result.total.accuracy == rate
        assert result.total.rates == dict.fromkeys(result.total.rates, rate)
        assert len(result.total.rates) == 6


CHANGES = {
    "reasonable route": [
        {0: {"current_city": "from Tolm to Varn"}}, {2: {"current_city": "Tolm"}}, {1: {"current_city": "Varn"}},
        {2: {"current_city": "from Tolm to X"}}, {1: {"current_city": "Other"}},
    ],
    "diverse restaurants": [{1: {"lunch": "Cafe 1, Tolm"}}],
    "diverse attractions": [{1: {"attraction": "Museum 1, Tolm;"}}],
    "minimum nights": [{1: {"accommodation": "Castle, Tolm"}}],
    "consistent transportation": [
        {2: {"transportation": "Self-driving, from Tolm to Varn"}}, {0: {"transportation": "-"}},
    ],
    "within the current city": [
        {1: {"lunch": "Cafe 4, Varn"}}, {0: {"transportation": "Flight Number: F1, from A to B"}},
    ],
    "within the reference": [
        {1: {"lunch": "Cafe 9, Tolm"}}, {1: {"attraction": "Zoo, Tolm;"}}, {0: {"accommodation": "Inn, Tolm"}},
        {0: {"transportation": "Flight Number: F2, from Varn to Tolm"}},
        {0: {"transportation": "Taxi, from Varn to Tolm"}}, {1: {"dinner": "Tolm"}},
    ],
    "complete": [
        {1: {"dinner": "-"}}, {1: {"attraction": "-"}}, {1: {"accommodation": ""}}, {2: {"current_city": "-"}},
    ],
    "budget": [],
    "house rule": [{0: {"accommodation": "Attic, Tolm"}}],
    "room type": [{0: {"accommodation": "Attic, Tolm"}}],
    "cuisine": [{1: {"lunch": "-", "current_city": "from Tolm to Tolm", "transportation": "Taxi, from Tolm to Tolm"}}],
    "transportation": [{0: {"transportation": "Self-driving, from Varn to Tolm"}}],
}  # fmt: skip


def change(changes):
    plan = copy.deepcopy(PLAN)
    for day, fields in changes.items():
        plan[day] |= fields
    return plan


@pytest.mark.parametrize(("constraint", "changes"), [(name, one) for name, some in CHANGES.items() for one in some])
def test_each_constraint_can_fail(item, constraint, changes):
    from envgen.benchmarks.travel_planner.plan import read_plan
    from envgen.coevolution.domains.travel.constraints import COMMONSENSE, check_plan, hard_constraints

    assert play_score(item, PLAN) == 1
    assert play_score(item, change(changes)) == 0
    query, reference, plan = item.data["query"], item.data["reference"], read_plan(change(changes))
    assert plan is not None
    checks = COMMONSENSE if constraint in COMMONSENSE else hard_constraints(query)
    assert checks[constraint](query, plan, reference)
    assert check_plan(query, plan, reference).commonsense.keys() == COMMONSENSE.keys()


def play_score(item, plan):
    return judge(item, json.dumps(plan)).score


def test_the_cost_is_that_of_everybody(tmp_path):
    for budget, score in ((COST, 1), (COST - 1, 0)):
        benchmark = TravelPlanner(write_data(tmp_path, {**QUERY, "budget": budget}))
        verdict = judge(benchmark.items("train")[0], json.dumps(PLAN))
        assert verdict.score == score
        assert verdict.counts["hard micro"] == (4 + score, 5)
        assert verdict.counts["commonsense macro"] == (1, 1)


def test_an_invented_plan_satisfies_no_hard_constraint(item):
    verdict = judge(item, json.dumps(change({1: {"lunch": "Cafe 9, Tolm"}})))
    assert verdict.counts["commonsense micro"] == (7, 8)
    assert verdict.counts["hard micro"] == (0, 5)


def test_queries_without_constraints_have_only_a_budget(tmp_path):
    free = "{'house rule': None, 'cuisine': None, 'room type': None, 'transportation': None}"
    benchmark = TravelPlanner(write_data(tmp_path, {**QUERY, "local_constraint": free}))
    plan = change({0: {"accommodation": "Attic, Tolm"}, 1: {"accommodation": "Attic, Tolm"}})
    verdict = judge(benchmark.items("train")[0], json.dumps(plan))
    assert (verdict.score, verdict.counts["hard micro"]) == (1, (1, 1))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(PLAN),
        str(PLAN),
        f"Here is the plan:\n```json\n{json.dumps(PLAN)}\n```",
        json.dumps({"plan": PLAN}),
        f"<think>cities [Varn, Tolm]</think> The plan [3 days]:\n{json.dumps(PLAN)}\nNotes: [1] cheap",
        f"A draft: {json.dumps(PLAN[:1])}\nThe plan: {json.dumps(PLAN)}",
    ],
)
def test_plans_are_found_in_replies(text):
    plan = find_plan(text)
    assert plan is not None
    assert len(plan) == 3
    assert plan[0].route == ("Varn", "Tolm")


@pytest.mark.parametrize(
    "text", ["", "[]", "[{}]", "{}", "[1, 2]", "[[]]", "]", "[" * 9999 + "]" * 9999, "[f()]", "[" + "-" * 9999 + "1]"]
)
def test_unreadable_plans_are_not_delivered(item, text):
    verdict = judge(item, text)
    assert verdict.counts["delivery"] == (0, 1)
    assert verdict.counts["commonsense micro"] == (0, 8)


def test_plans_of_a_strange_shape_are_wrong(item):
    for plan in (
        [{}, PLAN[0]], [PLAN[0]], [{"current_city": 5}], [{"current_city": "from"}] * 3,
        [{"current_city": ["from Varn to Tolm"], "lunch": {"a": 1}, "attraction": [["x"]]}] * 3, [None, *PLAN],
    ):  # fmt: skip
        verdict = judge(item, json.dumps(plan))
        assert verdict.score == 0
        assert verdict.counts["delivery"] == (1, 1)


def test_parts_of_a_plan():
    assert from_to("from St. Paul(Minnesota) to Tolm(X), 9:00") == ("St. Paul", "Tolm")
    assert from_to("x" * 100_000) is None
    assert from_to("from  St. Paul \n to  Tolm") == ("St. Paul", "Tolm")
    assert name_and_city("Red, Green & Co, Tolm(State)") == ("Red, Green & Co", "Tolm")
    assert name_and_city("nothing") == ("-", "-")
    assert Day(attraction="a, X; ;b, X").attractions == ["a, X", "b, X"]
    assert road_cost("Taxi", "taxi, duration: 1 day 2 hours, distance: 2,000 km") is None
    assert road_cost("Self-driving", "duration: 9 hours, distance: 1,294 km, cost: 64") == 64


def test_the_time_for_a_route_of_spaces_is_bounded():
    start = time.process_time()
    for text in ("from" + " " * 1990 + "x", "from x" + " \n" * 990, "from " * 200 + " " * 990 + "x"):
        assert from_to(text) is None
    assert time.process_time() - start < 2


def test_hostile_replies_are_wrong(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    benchmark = TravelPlanner(data)
    assert attack(benchmark, benchmark.items("train"), 2000) < 500
    assert play(benchmark, benchmark.items("validation")[0], [Reply(text=json.dumps(PLAN), model="m")]).score == 1
    assert list(tmp_path.iterdir()) == []


def test_the_prompt_holds_the_tables_and_the_request(data):
    benchmark = TravelPlanner(data)
    assert benchmark.gold_replies(benchmark.items("validation")[0]) is None
    text = next(benchmark.episode(benchmark.items("validation")[0])).messages[-1].content
    assert '{"Name": "Museum 1", "City": "Tolm"}' in text
    assert text.endswith("The request: Three of us want to see Tolm for three days.")


def test_columns_may_be_longer_than_the_limit_of_the_process(tmp_path):
    limit = csv.field_size_limit()
    write_data(tmp_path, {**QUERY, "reference_information": "x" * (limit + 1)})
    TravelPlanner(tmp_path)
    assert csv.field_size_limit() == limit


def test_missing_and_damaged_files_are_explained(tmp_path):
    with pytest.raises(BenchmarkError, match=r"pass --data .*MIT license"):
        TravelPlanner()
    with pytest.raises(BenchmarkError, match=r"there is no train.csv or validation.csv"):
        TravelPlanner(tmp_path)
    write_data(tmp_path, QUERY)
    for name, content, message in (
        ("train_ref_info.jsonl", "{}\n{}\n", "has 1 queries, but"),
        ("train_ref_info.jsonl", "{", "is not valid JSON"),
        ("train_ref_info.jsonl", '{"Attractions in X": [1]}', "query 1 of"),
        ("train.csv", "org\nx\n", "query 1 of"),
        ("train.csv", "\xff", "is not a CSV file"),
    ):
        write_data(tmp_path, QUERY)
        (tmp_path / name).write_bytes(content.encode("latin-1"))
        with pytest.raises(BenchmarkError, match=message):
            TravelPlanner(tmp_path)
    for title, column, value in (
        ("Restaurants in Tolm", "Average Cost", None), ("Accommodations in Tolm", "price", "free"),
        ("Accommodations in Tolm", "minimum nights", [2]), ("Accommodations in Tolm", "maximum occupancy", 0),
        ("Accommodations in Tolm", "maximum occupancy", float("nan")),
        ("Flight from Varn to Tolm on 2022-03-01", "Price", None),
    ):  # fmt: skip
        first, *others = TABLES[title]
        write_data(tmp_path, QUERY, {**TABLES, title: [{**first, column: value}, *others]})
        with pytest.raises(BenchmarkError, match="query 1 of"):
            TravelPlanner(tmp_path)
    write_data(tmp_path, {**QUERY, "local_constraint": "__import__('os').system('touch hostile')"})
    with pytest.raises(BenchmarkError, match="query 1 of"):
        TravelPlanner(tmp_path)
