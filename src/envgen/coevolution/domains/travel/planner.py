"""The oracle: it finds the cheapest plan of a trip, and a plan within a budget.

Its plans have dinner on the day of arrival in a city, and three meals and an attraction on days without travel. Among
these, the search is exact: if the cheapest one is too expensive, there is none. Prices and constraints are those of
constraints.py.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product
from typing import Any, NamedTuple

from .constraints import consistent_transportation, hard_constraints, minimum_nights, total_cost, transport_cost
from .database import Trip
from .plan import Day


class Choice(NamedTuple):
    """One way to settle a part of the plan."""

    cost: float
    cuisines: frozenset[str]  # of those that the travelers want
    values: tuple[str, ...]


@dataclass(frozen=True)
class Stay:
    city: str
    nights: int


def transportation_texts(trip: Trip, origin: str, destination: str) -> list[str]:
    """The ways to travel between two cities: flights first."""
    route = f"from {origin} to {destination}"
    texts = [
        f"Flight Number: {number}, {route}" for number, row in trip.reference.flights.items()
        if (row["OriginCityName"], row["DestCityName"]) == (origin, destination)
    ]  # fmt: skip
    cars = {"self-driving": "Self-driving", "taxi": "Taxi"}
    return texts + [f"{cars[kind]}, {route}" for kind in cars if (kind, origin, destination) in trip.reference.roads]


def find_plan(trip: Trip) -> list[Day] | None:
    """The first plan within the budget: cheap journeys first, restaurants of wanted cuisines, then the order of the
    tables."""
    for stays in _itineraries(trip):
        if choices := _choose(_parts(trip, stays), frozenset(trip.query.cuisines), trip.query.budget):
            return _to_days(trip, stays, choices)
    return None


def cheapest_cost(trip: Trip) -> float:
    """The cost of the cheapest plan; infinite if there is no plan."""
    wanted = frozenset(trip.query.cuisines)
    return min(_lowest_cost(_parts(trip, stays), wanted)(0, frozenset()) for stays in _itineraries(trip))


def most_expensive_plan(trip: Trip) -> list[Day]:
    """The most expensive plan of the first itinerary that has one; it satisfies all constraints but the budget."""
    wanted = frozenset(trip.query.cuisines)
    for stays in _itineraries(trip):
        parts = [[choice._replace(cost=-choice.cost) for choice in part] for part in _parts(trip, stays)]
        if choices := _choose(parts, wanted, _lowest_cost(parts, wanted)(0, frozenset())):
            return _to_days(trip, stays, choices)
    raise ValueError("the trip has no plan")


def _itineraries(trip: Trip) -> Iterator[list[Stay]]:
    """The orders of the cities, and the ways to distribute the days without travel."""
    spare = trip.query.days - trip.query.num_cities - 1
    for cities in permutations(trip.cities):
        for whole_days in product(range(spare, -1, -1), repeat=len(cities)):
            if sum(whole_days) == spare:
                yield [Stay(city, days + 1) for city, days in zip(cities, whole_days, strict=True)]


def _parts(trip: Trip, stays: Sequence[Stay]) -> list[list[Choice]]:
    """The choices for the journeys, the cheapest first, then for the accommodation and the meals of each stay."""
    parts = [sorted(_journeys(trip, [stay.city for stay in stays]), key=lambda choice: choice.cost)]
    for stay in stays:
        parts.append(list(_accommodations(trip, stay)))
        parts.append(list(_meals(trip, stay)))
    return parts


def _journeys(trip: Trip, cities: Sequence[str]) -> Iterator[Choice]:
    query, reference = trip.query, trip.reference
    legs = list(zip((query.origin, *cities), (*cities, query.origin), strict=True))
    for texts in product(*(transportation_texts(trip, *leg) for leg in legs)):
        days = [Day(f"from {leg[0]} to {leg[1]}", text) for leg, text in zip(legs, texts, strict=True)]
        if not consistent_transportation(query, days, reference) and _is_wanted(trip, days):
            yield Choice(sum(transport_cost(query, day, reference) or 0.0 for day in days), frozenset(), texts)


def _accommodations(trip: Trip, stay: Stay) -> Iterator[Choice]:
    for row in trip.reference.places["Accommodations"][stay.city]:
        name = f"{row['NAME']}, {stay.city}"
        days = [Day(stay.city, accommodation=name)] * stay.nights
        if not minimum_nights(trip.query, days, trip.reference) and _is_wanted(trip, days):
            yield Choice(total_cost(trip.query, days, trip.reference), frozenset(), (name,))


def _meals(trip: Trip, stay: Stay) -> Iterator[Choice]:
    wanted = trip.query.cuisines
    rows = sorted(trip.reference.places["Restaurants"][stay.city], key=lambda row: row["Cuisines"] not in wanted)
    costs = [
        total_cost(trip.query, [Day(stay.city, dinner=f"{row['Name']}, {stay.city}")], trip.reference) for row in rows
    ]
    for chosen in combinations(range(len(rows)), 3 * stay.nights - 2):
        cuisines = frozenset(rows[k]["Cuisines"] for k in chosen) & frozenset(wanted)
        yield Choice(sum(costs[k] for k in chosen), cuisines, tuple(f"{rows[k]['Name']}, {stay.city}" for k in chosen))


def _is_wanted(trip: Trip, days: Sequence[Day]) -> bool:
    """Whether these days fulfill the wishes about rooms, rules and transportation."""
    checks = hard_constraints(trip.query)
    return not any(
        checks[name](trip.query, days, trip.reference)
        for name in ("room type", "house rule", "transportation")
        if name in checks
    )


def _lowest_cost(parts: Sequence[Sequence[Choice]], wanted: frozenset[str]) -> Any:
    """A function of a part and the cuisines so far: the lowest cost of this part and those after it."""

    @cache
    def lowest(k: int, cuisines: frozenset[str]) -> float:
        if k == len(parts):
            return 0.0 if cuisines == wanted else math.inf
        costs = (choice.cost + lowest(k + 1, cuisines | choice.cuisines) for choice in parts[k])
        return min(costs, default=math.inf)

    return lowest


def _choose(parts: Sequence[Sequence[Choice]], wanted: frozenset[str], budget: float) -> list[Choice]:
    """For each part the first choice with which the rest stays within the budget; empty if there is none."""
    lowest, cuisines, chosen = _lowest_cost(parts, wanted), frozenset[str](), []
    if lowest(0, cuisines) > budget or math.isinf(lowest(0, cuisines)):
        return []
    for k, choices in enumerate(parts):
        choice = next(each for each in choices if each.cost + lowest(k + 1, cuisines | each.cuisines) <= budget)
        budget, cuisines = budget - choice.cost, cuisines | choice.cuisines
        chosen.append(choice)
    return chosen


def _to_days(trip: Trip, stays: Sequence[Stay], chosen: Sequence[Choice]) -> list[Day]:
    days, position, journeys = [], trip.query.origin, iter(chosen[0].values)
    for stay, accommodation, meals in zip(stays, chosen[1::2], chosen[2::2], strict=True):
        (bed,), restaurants = accommodation.values, iter(meals.values)
        sights = iter(trip.reference.places["Attractions"][stay.city])
        days.append(
            Day(f"from {position} to {stay.city}", next(journeys), "-", "-", "-", next(restaurants), bed)
        )  # fmt: skip
        for _ in range(stay.nights - 1):
            breakfast, lunch, dinner = (next(restaurants) for _ in range(3))
            days.append(Day(stay.city, "-", breakfast, f"{next(sights)['Name']}, {stay.city}", lunch, dinner, bed))
        position = stay.city
    days.append(Day(f"from {position} to {trip.query.origin}", next(journeys), "-", "-", "-", "-", "-"))
    return days
