"""The texts of the domain `travel`: tables and wishes in few words, and plans with one line for each day."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .constraints import FLIGHT, HOUSE_RULES, transport_kind
from .database import LODGING_TYPES, Trip
from .plan import EMPTY, Day
from .planner import transportation_texts
from .reference import NAME_COLUMN, Reference

MAX_CHARS = 4000  # of a reply
MAX_LINES = 20
CODE = re.compile(r"([FMRS])[0-9]{2}")
KIND_OF = {"M": "Restaurants", "S": "Attractions", "R": "Accommodations"}
LIMITS = {"F": (1, "flights or cars"), "M": (3, "meals"), "R": (1, "rooms")}  # of a day
CAR_TEXTS = {"drive": "Self-driving", "taxi": "Taxi"}


class PlanError(ValueError):
    """A reply is not a plan; the message says why."""


def write_prompt(trip: Trip) -> str:
    query, reference = trip.query, trip.reference
    people = "1 person" if query.people == 1 else f"{query.people} people"
    wishes = [query.room_type, query.house_rule, *query.cuisines, query.transportation]
    lines = [
        f"trip: {query.days} days, {people}, {query.origin} to {query.destination}, {query.budget:g} dollars",
        "wishes: " + (", ".join(wish for wish in wishes if wish) or "none"),
    ]
    for origin in (query.origin, *trip.cities):
        for destination in (query.origin, *trip.cities):
            if texts := transportation_texts(trip, origin, destination):
                prices = ", ".join(f"{_short(text)} {_price(text, reference):g}" for text in texts)
                lines.append(f"{origin} to {destination}: {prices}")
    for city in trip.cities:
        rows = {kind: reference.places[kind][city] for kind in reference.places}
        lines.append(f"{city} rooms: " + "; ".join(map(_show_accommodation, rows["Accommodations"])))
        meals = (f"{row['Name']} {row['Average Cost']} {row['Cuisines']}" for row in rows["Restaurants"])
        lines.append(f"{city} meals: " + "; ".join(meals))
        lines.append(f"{city} sights: " + "; ".join(row["Name"] for row in rows["Attractions"]))
    return "\n".join(lines)


def _price(transportation: str, reference: Reference) -> float:
    """Dollars for a seat on a flight, or for a car."""
    if flight := FLIGHT.search(transportation):
        return reference.flights[flight[1]]["Price"]
    _, _, origin, _, destination = transportation.split()
    return reference.roads[transport_kind(transportation), origin, destination]


def _show_accommodation(row: Mapping[str, Any]) -> str:
    lodging_type = next(word for word, value in LODGING_TYPES.items() if value == row["room type"])
    parts = [f"{row['NAME']} {row['price']:g} {lodging_type} for {row['maximum occupancy']}"]
    if row["minimum nights"] > 1:
        parts.append(f"{row['minimum nights']:g} nights")
    parts += [f"no {rule}" for rule in HOUSE_RULES if f"No {rule}" in row["house_rules"]]
    return ", ".join(parts)


def format_plan(days: Sequence[Day]) -> str:
    """One line for each day: the city or the journey, the transportation, meals, sights and the room for the night."""
    return "\n".join(_format_day(day) for day in days)


def _format_day(day: Day) -> str:
    items = [" > ".join(day.route) if day.route else day.current_city]
    items += [_short(day.transportation)] if day.transportation not in EMPTY else []
    items += [place.partition(",")[0] for place in (*day.meals(), *day.attractions)]
    items += [day.accommodation.partition(",")[0]] if day.accommodation not in EMPTY else []
    return "; ".join(items)


def _short(transportation: str) -> str:
    if flight := FLIGHT.search(transportation):
        return flight[1]
    kind = transport_kind(transportation)
    return "drive" if kind == "self-driving" else kind


def parse_plan(text: str, trip: Trip) -> list[Day]:
    """The days of a plan; raises PlanError. A place that is not in the tables stays without a city."""
    if len(text) > MAX_CHARS:
        raise PlanError(f"the reply has more than {MAX_CHARS} characters")
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines or len(lines) > MAX_LINES:
        raise PlanError(f"a plan has 1 to {MAX_LINES} lines, not {len(lines)}")
    city_of = {
        kind: {row[NAME_COLUMN[kind]]: city for city, rows in cities.items() for row in rows}
        for kind, cities in trip.reference.places.items()
    }
    names = (trip.query.origin, *trip.cities)
    return [_parse_day(number, line, names, city_of) for number, line in enumerate(lines, 1)]


def _parse_day(number: int, line: str, names: Sequence[str], city_of: Mapping[str, Mapping[str, str]]) -> Day:
    place, *items = [item.strip() for item in line.split(";")]
    cities = [city.strip() for city in place.split(">")]
    if len(cities) > 2:
        raise PlanError(f"day {number} has {len(cities)} cities")
    if unknown := [city for city in cities if city not in names]:
        raise PlanError(f"day {number}: {unknown[0][:80]!r} is not one of {', '.join(names)}")
    route = f", from {cities[0]} to {cities[1]}" if len(cities) == 2 else ""
    entries: dict[str, list[str]] = {letter: [] for letter in "FMRS"}
    for item in filter(None, items):
        match = CODE.fullmatch(item)
        if item in CAR_TEXTS:
            entries["F"].append(CAR_TEXTS[item] + route)
        elif match is None:
            raise PlanError(f"day {number}: {item[:80]!r} is not drive, taxi or a code such as F10, M10, S10 or R10")
        elif match[1] == "F":
            entries["F"].append(f"Flight Number: {item}{route}")
        else:
            city = city_of[KIND_OF[match[1]]].get(item)
            entries[match[1]].append(f"{item}, {city}" if city else item)
    for letter, (limit, description) in LIMITS.items():
        if len(entries[letter]) > limit:
            raise PlanError(f"day {number} has {len(entries[letter])} {description}, not at most {limit}")
    breakfast, lunch, dinner = _three_meals(entries["M"])
    return Day(
        current_city=route.removeprefix(", ") or place, transportation="".join(entries["F"]) or "-",
        breakfast=breakfast, attraction=";".join(entries["S"]) or "-", lunch=lunch, dinner=dinner,
        accommodation="".join(entries["R"]) or "-",
    )  # fmt: skip


def _three_meals(meals: Sequence[str]) -> tuple[str, ...]:
    """Breakfast, lunch and dinner; the last meals of the day if there are fewer."""
    return (*["-"] * (3 - len(meals)), *meals)
