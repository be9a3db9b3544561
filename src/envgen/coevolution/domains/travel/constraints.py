"""The constraints of TravelPlanner: eight of common sense, and those that the query sets.

The benchmark `travel_planner` and the domain `travel` share them. They are checked against the reference information
of the query. Each check returns why the plan fails, or "".
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from .plan import EMPTY, Day, from_to, name_and_city
from .reference import Reference

FLIGHT = re.compile(r"flight number:\s*([A-Za-z0-9]{1,20})", re.IGNORECASE)
CAR_SEATS = {"self-driving": 5, "taxi": 4}
ROOM_TYPES: dict[str, Callable[[str], bool]] = {
    "shared room": lambda kind: kind == "Shared room",
    "not shared room": lambda kind: kind != "Shared room",
    "private room": lambda kind: kind == "Private room",
    "entire room": lambda kind: kind == "Entire home/apt",
}
HOUSE_RULES = ("smoking", "parties", "children under 10", "visitors", "pets")


@dataclass(frozen=True)
class Query:
    text: str
    origin: str
    destination: str  # a city, or the state of several cities
    days: int
    num_cities: int
    people: int
    budget: float
    house_rule: str | None = None
    cuisines: tuple[str, ...] = ()
    room_type: str | None = None
    transportation: str | None = None


Check = Callable[[Query, Sequence[Day], Reference], str]


def transport_kind(text: str) -> str:
    return next((kind for kind in ("taxi", "self-driving", "flight") if kind in text.lower()), "")


# --- common sense


def reasonable_route(query: Query, days: Sequence[Day], reference: Reference) -> str:
    cities = [city for day in days for city in day.cities]
    if not days or days[0].cities[0] != query.origin:
        return f"the trip does not begin in {query.origin}"
    if cities[0] != cities[-1]:
        return "the trip does not end where it begins"
    if len(cities) < 3:
        return "the trip visits no city"
    stays = [(city, len(list(group))) for city, group in groupby(cities)]
    middle = [city for city, _ in stays[1:-1]]
    if len(set(middle)) < len(middle) or query.origin in middle:
        return "a city is visited twice"
    if any(count == 1 for _, count in stays[1:-1]):
        return "a city is left as soon as it is reached"
    unknown = next((city for city in middle if city not in reference.cities), None)
    return f"{unknown[:80]} is not a destination of this query" if unknown is not None else ""


def diverse_restaurants(query: Query, days: Sequence[Day], reference: Reference) -> str:
    meals = [meal for day in days for meal in day.meals()]
    return "a restaurant is repeated" if len(set(meals)) < len(meals) else ""


def diverse_attractions(query: Query, days: Sequence[Day], reference: Reference) -> str:
    attractions = [attraction for day in days for attraction in day.attractions]
    return "an attraction is repeated" if len(set(attractions)) < len(attractions) else ""


def minimum_nights(query: Query, days: Sequence[Day], reference: Reference) -> str:
    for stay, group in groupby(day.accommodation for day in days):
        rows = [] if stay in EMPTY else reference.find("Accommodations", *name_and_city(stay))
        if len(rows) == 1 and len(list(group)) < float(rows[0].get("minimum nights", 0)):
            return f"{stay[:80]} has to be booked for {rows[0]['minimum nights']:g} nights"
    return ""


def consistent_transportation(query: Query, days: Sequence[Day], reference: Reference) -> str:
    if not days or days[0].transportation in EMPTY:
        return "there is no transportation on day 1"
    kinds = {transport_kind(day.transportation) for day in days if day.transportation not in EMPTY}
    if "self-driving" in kinds and kinds & {"flight", "taxi"}:
        return "one's own car is combined with flights or taxis"
    return ""


def within_current_city(query: Query, days: Sequence[Day], reference: Reference) -> str:
    for number, day in enumerate(days, 1):
        cities = day.cities
        if day.transportation not in EMPTY and not all(city in day.transportation for city in cities):
            return f"day {number}: the transportation is not between its cities"
        for place in (*day.meals(), *day.attractions):
            if not any(city in place for city in cities):
                return f"day {number}: {place[:80]} is elsewhere"
        if day.accommodation not in EMPTY and cities[-1] not in day.accommodation:
            return f"day {number}: the accommodation is elsewhere"
    return ""


def within_reference(query: Query, days: Sequence[Day], reference: Reference) -> str:
    for number, day in enumerate(days, 1):
        if day.transportation not in EMPTY and transport_cost(query, day, reference) is None:
            return f"day {number}: there is no such transportation"
        places = [("Restaurants", meal) for meal in day.meals()]
        places += [("Attractions", attraction) for attraction in day.attractions]
        places += [("Accommodations", day.accommodation)] if day.accommodation not in EMPTY else []
        for kind, place in places:
            if not reference.find(kind, *name_and_city(place)):
                return f"day {number}: {place[:80]} is not in the reference information"
    return ""


def complete(query: Query, days: Sequence[Day], reference: Reference) -> str:
    if len(days) != query.days or any(day.current_city in EMPTY for day in days):
        return f"the plan does not have {query.days} days"
    cities = {city for day in days for city in day.cities} - {query.origin}
    if len(cities) != query.num_cities:
        return f"the plan visits {len(cities)} cities instead of {query.num_cities}"
    planned = 0
    for number, day in enumerate(days, 1):
        if "" in day:
            return f"day {number}: something is left out"
        if day.route and day.transportation in EMPTY:
            return f"day {number}: there is no transportation"
        if not day.route and (day.attraction in EMPTY or len(day.meals()) < 3):
            return f"day {number}: there is no attraction, or a meal is missing"
        if number < query.days and day.accommodation in EMPTY:
            return f"day {number}: there is no accommodation"
        planned += sum(field not in EMPTY for field in day)
    return "" if planned >= 3 * query.days else "more than half of the plan is empty"


COMMONSENSE: dict[str, Check] = {
    "reasonable route": reasonable_route,
    "diverse restaurants": diverse_restaurants,
    "diverse attractions": diverse_attractions,
    "minimum nights": minimum_nights,
    "consistent transportation": consistent_transportation,
    "within the current city": within_current_city,
    "within the reference": within_reference,
    "complete": complete,
}
PREREQUISITES = ("within the reference", "complete")  # without them, the hard constraints count as violated


# --- what the query sets


def transport_cost(query: Query, day: Day, reference: Reference) -> float | None:
    """Dollars for everybody; None if the reference information has no such transportation."""
    route = from_to(day.transportation) or day.route
    if flight := FLIGHT.search(day.transportation):
        row = reference.flights.get(flight[1])
        is_right = row is not None and route == (row.get("OriginCityName"), row.get("DestCityName"))
        return float(row["Price"]) * query.people if row is not None and is_right else None
    kind = transport_kind(day.transportation)
    if kind not in CAR_SEATS or route is None:
        return None
    cost = reference.roads.get((kind, *route))
    return None if cost is None else cost * math.ceil(query.people / CAR_SEATS[kind])


def total_cost(query: Query, days: Sequence[Day], reference: Reference) -> float:
    total = 0.0
    for day in days:
        if day.transportation not in EMPTY:
            total += transport_cost(query, day, reference) or 0.0
        for meal in day.meals():
            if rows := reference.find("Restaurants", *name_and_city(meal)):
                total += float(rows[0]["Average Cost"]) * query.people
        if row := _accommodation(day, reference):
            total += float(row["price"]) * math.ceil(query.people / float(row["maximum occupancy"]))
    return total


def within_budget(query: Query, days: Sequence[Day], reference: Reference) -> str:
    cost = total_cost(query, days, reference)
    return "" if cost <= query.budget else f"the trip costs {cost:,.0f} dollars, and the budget is {query.budget:,.0f}"


def house_rule(query: Query, days: Sequence[Day], reference: Reference) -> str:
    for day in days:
        row = _accommodation(day, reference)
        if row and query.house_rule in HOUSE_RULES and f"No {query.house_rule}" in str(row.get("house_rules")):
            return f"{day.accommodation[:80]} does not allow {query.house_rule}"
    return ""


def cuisine(query: Query, days: Sequence[Day], reference: Reference) -> str:
    offered = ""
    for meal in (meal for day in days for meal in day.meals()):
        name, city = name_and_city(meal)
        if city != query.origin and (rows := reference.find("Restaurants", name, city)):
            offered += f", {rows[0].get('Cuisines', '')}"
    missing = [wanted for wanted in query.cuisines if wanted not in offered]
    return f"there is no {missing[0]} restaurant" if missing else ""


def room_type(query: Query, days: Sequence[Day], reference: Reference) -> str:
    fits = ROOM_TYPES.get(query.room_type or "", lambda kind: True)
    for day in days:
        row = _accommodation(day, reference)
        if row and not fits(str(row.get("room type"))):
            return f"{day.accommodation[:80]} is a {row.get('room type')} instead of: {query.room_type}"
    return ""


def transportation(query: Query, days: Sequence[Day], reference: Reference) -> str:
    refused = (query.transportation or "").removeprefix("no ")
    uses = any(refused in day.transportation.lower() for day in days if day.transportation not in EMPTY)
    return f"the trip uses transportation that the query rules out: {refused}" if uses else ""


def hard_constraints(query: Query) -> dict[str, Check]:
    """The constraints that this query sets."""
    checks: dict[str, tuple[Any, Check]] = {
        "budget": (True, within_budget), "house rule": (query.house_rule, house_rule),
        "cuisine": (query.cuisines, cuisine), "room type": (query.room_type, room_type),
        "transportation": (query.transportation, transportation),
    }  # fmt: skip
    return {name: check for name, (is_set, check) in checks.items() if is_set}


def _accommodation(day: Day, reference: Reference) -> Any:
    rows = [] if day.accommodation in EMPTY else reference.find("Accommodations", *name_and_city(day.accommodation))
    return rows[0] if rows else None


@dataclass(frozen=True)
class PlanCheck:
    """Why a plan fails each constraint; "" where it does not."""

    commonsense: dict[str, str]
    hard: dict[str, str]


def check_plan(query: Query, plan: Sequence[Day], reference: Reference) -> PlanCheck:
    days = plan[: query.days]
    commonsense = {name: check(query, days, reference) for name, check in COMMONSENSE.items()}
    is_checkable = not any(commonsense[name] for name in PREREQUISITES)
    hard = {
        name: check(query, days, reference) if is_checkable else "the plan is incomplete or invented"
        for name, check in hard_constraints(query).items()
    }
    return PlanCheck(commonsense, hard)
