"""The reference information of a query, read from the line of `<split>_ref_info.jsonl` that belongs to it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from envgen.coevolution.domains.travel.reference import Reference

KEY = re.compile(r"(Attractions|Restaurants|Accommodations) in (.+)")
ROUTE = re.compile(r"(Flight|Self-driving|Taxi) from (.+?) to (.+?)(?: on \d{4}-\d{2}-\d{2})?")
DISTANCE = re.compile(r"distance: ([\d,]{1,12}(?:\.\d{1,3})?) km")
DURATION = re.compile(r"duration: ([^,]{1,60})")
NUMBERS = {  # the columns that must hold numbers, by table
    "Accommodations": ("price", "minimum nights", "maximum occupancy"), "Restaurants": ("Average Cost",),
    "Flight": ("Price",),
}  # fmt: skip
SELF_DRIVING_PER_KM = 0.05  # dollars; a taxi costs one dollar


def read_reference(tables: Mapping[str, Any]) -> Reference:
    """The reference information in one line of `<split>_ref_info.jsonl`: a table, or a sentence, by its title.

    Raises ValueError, TypeError or KeyError if a table has an unexpected shape.
    """
    places: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    flights: dict[str, Mapping[str, Any]] = {}
    roads: dict[tuple[str, str, str], int] = {}
    for title, content in tables.items():
        if match := KEY.fullmatch(title):
            places.setdefault(match[1], {})[match[2]] = list(_rows(match[1], content))
        elif match := ROUTE.fullmatch(title):
            if match[1] == "Flight":
                flights |= {str(row["Flight Number"]): row for row in _rows("Flight", content)}
            elif (cost := road_cost(match[1], content)) is not None:
                roads[match[1].lower(), match[2], match[3]] = cost
    return Reference(places, flights, roads)


def _rows(table: str, content: Any) -> Iterable[Mapping[str, Any]]:
    if isinstance(content, str):  # such as "There is no flight from ..."
        return
    for row in content:
        if not isinstance(row, Mapping):
            raise TypeError("a row of a table is not an object")
        numbers = {name: float(row[name]) for name in NUMBERS.get(table, ())}
        if not numbers.get("maximum occupancy", 1) > 0:
            raise ValueError("an accommodation has no maximum occupancy above 0")
        yield {**row, **numbers}


def road_cost(kind: str, content: Any) -> int | None:
    """Dollars per car; None if there is no such route, or it takes a day or longer."""
    if not isinstance(content, str):
        return None
    distance, duration = DISTANCE.search(content), DURATION.search(content)
    if distance is None or (duration is not None and "day" in duration[1]):
        return None
    kilometers = float(distance[1].replace(",", ""))
    return int(kilometers * (SELF_DRIVING_PER_KM if kind.lower() == "self-driving" else 1))
