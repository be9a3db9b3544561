"""TravelPlanner (Xie et al., arXiv 2402.01622), sole planning: the reference information is in the prompt.

The model writes the plan as JSON, one object per day with the fields of the official plans, so that no second model is
needed to extract it from prose. A plan that cannot be read is not delivered. An item is right if the plan satisfies all
constraints; the columns are the official rates.
"""

import ast
import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envgen.coevolution.domains.travel.constraints import COMMONSENSE, Query, check_plan, hard_constraints
from envgen.designers.chat.protocol import Reply

from ..benchmark import (
    Benchmark,
    BenchmarkError,
    Episode,
    Item,
    Prompt,
    Verdict,
    parse_json_lines,
    read_data_file,
    text_reply,
    to_json,
)
from .plan import find_plan
from .reference import read_reference

WHERE = (
    "TravelPlanner (MIT license) needs two files for each split: train.csv or validation.csv of the data set "
    "osunlp/TravelPlanner on the Hugging Face Hub, and train_ref_info.jsonl or validation_ref_info.jsonl in the folder "
    "database of the GitHub repository OSU-NLP-Group/TravelPlanner"
)
SPLITS = ("train", "validation")
FOUR_RATES = ("commonsense micro", "commonsense macro", "hard micro", "hard macro")
MAX_LITERAL_CHARS = 1_000_000
MAX_FIELD_CHARS = 64 << 20  # the files hold the tables as text in one of their columns
SYSTEM = """\
You plan trips. You are given tables of flights, routes, accommodations, restaurants and attractions, and a request. \
Use nothing but what the tables list. Write the plan as a JSON array with one object per day, and nothing else. The \
fields of a day:
- "days": its number
- "current_city": the city, or "from A to B" on a day on which you travel
- "transportation": "Flight Number: F0000000, from A to B, Departure Time: 09:00, Arrival Time: 10:00", \
"Self-driving, from A to B, ..." or "Taxi, from A to B, ..."; "-" if you do not travel
- "breakfast", "lunch", "dinner": "Name, City"; "-" if there is none
- "attraction": "Name, City;Name, City;" with a semicolon after each; "-" if there is none
- "accommodation": "Name, City" of the night after this day; "-" on the last day
The trip begins and ends in the same city. Visit no restaurant or attraction twice, keep to minimum nights, do not \
combine your own car with flights or taxis, plan meals and attractions for whole days in a city, and stay within the \
budget.
"""


class TravelPlanner(Benchmark):
    name = "travel_planner"

    def __init__(self, data: Path | None = None):
        self.averaged_rates = {"mean of the four": FOUR_RATES}
        checksum = hashlib.sha256()
        self._items: dict[str, list[Item]] = {}
        for split in SPLITS if data is None else [split for split in SPLITS if (data / f"{split}.csv").is_file()]:
            queries = read_data_file(data, (f"{split}.csv",), WHERE)
            references = read_data_file(data, (f"{split}_ref_info.jsonl",), WHERE)
            checksum.update(queries[1] + references[1])
            self._items[split] = _read_split(split, *queries, *references)
        if not self._items:
            raise BenchmarkError(f"there is no train.csv or validation.csv in {data}. {WHERE}")
        self.categories = tuple(self._items)
        self.data_version = f"sha256 {checksum.hexdigest()[:12]}"

    def items(self, category: str) -> Sequence[Item]:
        return self._items[category]

    def episode(self, item: Item) -> Episode:
        tables = "\n\n".join(f"{title}:\n{_show(content)}" for title, content in item.data["tables"].items())
        reply = yield Prompt.user(f"{tables}\n\nThe request: {item.data['query'].text}", SYSTEM)
        return judge(item, reply.text)

    def gold_replies(self, item: Item) -> Sequence[Reply] | None:
        plan = item.data["plan"]
        return None if plan is None else [text_reply(to_json(plan))]


def judge(item: Item, text: str) -> Verdict:
    """The verdict on a reply; a plan that is not delivered satisfies no constraint."""
    query: Query = item.data["query"]
    plan = find_plan(text)
    num_hard = len(hard_constraints(query))
    if plan is None:
        return Verdict(0.0, "no plan", "the reply has no plan that can be read", _counts(0, 0, 0, num_hard))
    result = check_plan(query, plan, item.data["reference"])
    failed = {name: reason for name, reason in (result.commonsense | result.hard).items() if reason}
    passed = sum(not reason for reason in result.commonsense.values())
    counts = _counts(1, passed, sum(not reason for reason in result.hard.values()), num_hard)
    if not failed:
        return Verdict(1.0, counts=counts)
    name, reason = next(iter(failed.items()))
    return Verdict(0.0, name, reason, counts)


def _counts(delivered: int, commonsense: int, hard: int, num_hard: int) -> dict[str, tuple[int, int]]:
    return {
        "delivery": (delivered, 1),
        "commonsense micro": (commonsense, len(COMMONSENSE)),
        "commonsense macro": (int(commonsense == len(COMMONSENSE)), 1),
        "hard micro": (hard, num_hard),
        "hard macro": (int(hard == num_hard), 1),
    }


def _show(content: Any) -> str:
    """A table as lines of JSON, or the sentence that stands in its place."""
    return content if isinstance(content, str) else "\n".join(json.dumps(row, ensure_ascii=False) for row in content)


def _read_split(split: str, file: Path, content: bytes, reference_file: Path, reference_content: bytes) -> list[Item]:
    limit = csv.field_size_limit(MAX_FIELD_CHARS)
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    except (UnicodeDecodeError, csv.Error) as error:
        raise BenchmarkError(f"{file} is not a CSV file: {error}. {WHERE}") from None
    finally:
        csv.field_size_limit(limit)  # that of the whole process
    references = parse_json_lines(reference_file, reference_content)
    if len(rows) != len(references) or not rows:
        raise BenchmarkError(f"{file} has {len(rows)} queries, but {reference_file} {len(references)} lines. {WHERE}")
    items = []
    for number, (row, tables) in enumerate(zip(rows, references, strict=True)):
        try:
            data = {
                "query": _read_query(row),
                "tables": tables,
                "reference": read_reference(tables),
                "plan": _gold(row),
            }
        except (KeyError, ValueError, TypeError, AttributeError, SyntaxError, RecursionError) as error:
            raise BenchmarkError(f"query {number + 1} of {file} is damaged ({error!r:.200}). {WHERE}") from None
        items.append(Item(f"{split}-{number + 1}", split, data))
    return items


def _read_query(row: Mapping[str, str]) -> Query:
    constraints = _literal(row["local_constraint"])
    return Query(
        text=row["query"], origin=row["org"], destination=row["dest"], days=int(row["days"]),
        num_cities=int(row["visiting_city_number"]), people=int(row["people_number"]), budget=float(row["budget"]),
        house_rule=constraints["house rule"], cuisines=tuple(constraints["cuisine"] or ()),
        room_type=constraints["room type"], transportation=constraints["transportation"],
    )  # fmt: skip


def _gold(row: Mapping[str, str]) -> list[Any] | None:
    """The annotated plan of a training query: a list whose last element is the plan."""
    text = row.get("annotated_plan") or ""
    value = _literal(text) if text else None
    plan = value[-1] if isinstance(value, list) and value and isinstance(value[-1], list) else value
    return plan if isinstance(plan, list) else None


def _literal(text: str) -> Any:
    if len(text) > MAX_LITERAL_CHARS:
        raise ValueError("a value is too long")
    return ast.literal_eval(text)
