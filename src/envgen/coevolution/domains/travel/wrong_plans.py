"""Plausible but incorrect plans: the oracle's, changed so that it violates a constraint."""

from collections.abc import Iterator, Sequence

from .constraints import (
    check_plan,
    consistent_transportation,
    house_rule,
    minimum_nights,
    room_type,
    transport_kind,
    transportation,
    within_budget,
)
from .database import Trip
from .plan import Day, name_and_city
from .planner import most_expensive_plan, transportation_texts


def wrong_plans(trip: Trip, days: Sequence[Day]) -> dict[str, Sequence[Day]]:
    """Plans by the constraint that they violate, without those that nothing in the tables can violate."""
    query, reference = trip.query, trip.reference
    first, last, city = days[0], days[-1], days[0].cities[-1]
    sight = f"{reference.places['Attractions'][city][0]['Name']}, {city}"
    plans: dict[str, Sequence[Day]] = {
        "reasonable route": [*days[:-1], last._replace(current_city=last.cities[0], transportation="-")],
        "diverse restaurants": [first._replace(lunch=first.dinner), *days[1:]],
        "diverse attractions": [first._replace(attraction=f"{sight};{sight}"), *days[1:]],
        "within the reference": [first._replace(lunch=f"M99, {city}"), *days[1:]],
        "complete": [first._replace(accommodation="-"), *days[1:]],
    }
    if query.num_cities > 1:
        plans["within the current city"] = [*days[:-1], last._replace(dinner=_unused_restaurant(trip, days, city))]
    if query.cuisines:
        plans["cuisine"] = _without_cuisine(trip, days, query.cuisines[0])
    expensive = most_expensive_plan(trip)
    if within_budget(query, expensive, reference):
        plans["budget"] = expensive
    journeys, stays = list(_other_journeys(trip, days)), list(_other_accommodations(trip, days))
    for name, check, options in (
        ("consistent transportation", consistent_transportation, journeys), ("minimum nights", minimum_nights, stays),
        ("transportation", transportation, journeys if query.transportation else ()),
        ("house rule", house_rule, stays), ("room type", room_type, stays),
    ):  # fmt: skip
        wrong = [plan for plan in options if check(query, plan, reference)]
        if wrong:
            plans[name] = min(wrong, key=lambda plan: _num_violated(trip, plan))
    return plans


def _num_violated(trip: Trip, plan: Sequence[Day]) -> int:
    result = check_plan(trip.query, plan, trip.reference)
    return sum(map(bool, (result.commonsense | result.hard).values()))


def _other_journeys(trip: Trip, days: Sequence[Day]) -> Iterator[Sequence[Day]]:
    """The plan with another flight or car on one of its journeys, and with the same kind on all of them."""
    for kind in ("flight", "self-driving", "taxi"):
        same_kind = [next(_journeys_by(kind, trip, day), "") if day.route else "-" for day in days]
        if all(same_kind):
            yield [day._replace(transportation=text) for day, text in zip(days, same_kind, strict=True)]
    for k, day in enumerate(days):
        for text in transportation_texts(trip, *day.route) if day.route else ():
            if text != day.transportation:
                yield [*days[:k], day._replace(transportation=text), *days[k + 1 :]]


def _journeys_by(kind: str, trip: Trip, day: Day) -> Iterator[str]:
    texts = transportation_texts(trip, *day.route) if day.route else []
    return (text for text in texts if transport_kind(text) == kind)


def _other_accommodations(trip: Trip, days: Sequence[Day]) -> Iterator[Sequence[Day]]:
    """The plan with another accommodation in one of its cities."""
    for city in trip.cities:
        for row in trip.reference.places["Accommodations"][city]:
            name = f"{row['NAME']}, {city}"
            yield [
                day._replace(accommodation=name) if name_and_city(day.accommodation)[1] == city else day for day in days
            ]


def _unused_restaurant(trip: Trip, days: Sequence[Day], city: str) -> str:
    used = {meal for day in days for meal in day.meals()}
    names = (f"{row['Name']}, {city}" for row in trip.reference.places["Restaurants"][city])
    return next(name for name in names if name not in used)


def _without_cuisine(trip: Trip, days: Sequence[Day], cuisine: str) -> list[Day]:
    """The plan with other restaurants, or none where there is no other, in place of those with this cuisine."""
    used, changed = {meal for day in days for meal in day.meals()}, []
    for day in days:
        for field in ("breakfast", "lunch", "dinner"):
            name, city = name_and_city(getattr(day, field))
            rows = trip.reference.places["Restaurants"].get(city, [])
            if not any(row["Name"] == name and row["Cuisines"] == cuisine for row in rows):
                continue
            others = (f"{row['Name']}, {city}" for row in rows if row["Cuisines"] != cuisine)
            other = next((place for place in others if place not in used), "-")
            used.add(other)
            day = day._replace(**{field: other})
        changed.append(day)
    return changed
