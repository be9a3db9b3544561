"""The texts of the domain `travel`: tables and wishes in few words, and plans with one line for each day."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .constraints import FLIGHT, HOUSE_RULES, transport_kind
from .database import LODGING_TYPES, Trip
from .plan import EMPTY, Day, name_and_city
from .planner import transportation_texts
from .reference import NAME_COLUMN, Reference

MAX_CHARS = 4000  # of a reply
MAX_LINES = 20
FLIGHT_NUMBER = re.compile(r"F[0-9]{1,4}")
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
        lines.append(f"{city} rooms: " + "; ".join(_show_accommodation(row) for row in rows["Accommodations"]))
        food = (f"{row['Name']} {row['Average Cost']} {row['Cuisines']}" for row in rows["Restaurants"])
        lines.append(f"{city} food: " + ", ".join(food))
        lines.append(f"{city} sights: " + ", ".join(row["Name"] for row in rows["Attractions"]))
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
    """One line for each day: the city or the journey; the transportation; the meals; the attractions; the room."""
    return "\n".join(_format_day(day) for day in days)


def _format_day(day: Day) -> str:
    meals = ", ".join(_name(meal) for meal in (day.breakfast, day.lunch, day.dinner))
    sights = ", ".join(_name(place) for place in day.attractions) or "-"
    place = " > ".join(day.route) if day.route else day.current_city
    return f"{place}; {_short(day.transportation)}; {meals}; {sights}; {_name(day.accommodation)}"


def _name(place: str) -> str:
    name, city = name_and_city(place)
    return place if city == "-" else name


def _short(transportation: str) -> str:
    if flight := FLIGHT.search(transportation):
        return flight[1]
    kind = transport_kind(transportation)
    return "drive" if kind == "self-driving" else kind or "-"


def parse_plan(text: str, reference: Reference) -> list[Day]:
    """The days of a plan; raises PlanError. A place that is not in the tables stays without a city."""
    if len(text) > MAX_CHARS:
        raise PlanError(f"the reply has more than {MAX_CHARS} characters")
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if not lines or len(lines) > MAX_LINES:
        raise PlanError(f"a plan has 1 to {MAX_LINES} lines, not {len(lines)}")
    city_of = {
        kind: {row[NAME_COLUMN[kind]]: city for city, rows in cities.items() for row in rows}
        for kind, cities in reference.places.items()
    }
    return [_parse_day(number, line, city_of) for number, line in enumerate(lines, 1)]


def _parse_day(number: int, line: str, city_of: Mapping[str, Mapping[str, str]]) -> Day:
    fields = [field.strip() for field in line.split(";")]
    if len(fields) != 5:
        raise PlanError(f"day {number} has {len(fields)} parts between semicolons instead of 5")
    place, transportation, meals, sights, room = fields

    def places(kind: str, names: str) -> list[str]:
        parts = (name.strip() for name in names.split(","))
        return [f"{name}, {city_of[kind][name]}" if name in city_of[kind] else name for name in parts]

    cities = [city.strip() for city in place.split(">")]
    if len(cities) > 2:
        raise PlanError(f"day {number} has {len(cities)} cities")
    route = f", from {cities[0]} to {cities[1]}" if len(cities) == 2 else ""
    if FLIGHT_NUMBER.fullmatch(transportation):
        transportation = f"Flight Number: {transportation}{route}"
    elif transportation in CAR_TEXTS:
        transportation = CAR_TEXTS[transportation] + route
    elif transportation not in EMPTY:
        raise PlanError(f"day {number}: {transportation[:80]!r} is not a flight number, drive, taxi or -")
    eaten = places("Restaurants", meals)
    if eaten == ["-"]:
        eaten = ["-"] * 3
    if len(eaten) != 3:
        raise PlanError(f"day {number} has {len(eaten)} meals instead of 3")
    seen = places("Attractions", sights)
    (bed, *others) = places("Accommodations", room)
    if others:
        raise PlanError(f"day {number} has {1 + len(others)} rooms")
    return Day(
        current_city=route.removeprefix(", ") or place, transportation=transportation, breakfast=eaten[0],
        attraction=";".join(seen), lunch=eaten[1], dinner=eaten[2], accommodation=bed,
    )  # fmt: skip
