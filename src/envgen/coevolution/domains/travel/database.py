"""Made-up trips: the query, and the tables of the cities, which contain at least one plan without contradictions.

Each city has one accommodation that fits all wishes, and others that may not. The wanted cuisines and a way to travel
that the travelers accept are always there. Which budget is enough is left to the planner. Flights, rooms,
restaurants and attractions have codes instead of names: F10, R10, M10 and S10.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from random import Random
from typing import Any, NamedTuple

from ..random_choice import sample_word, sample_words, shuffle
from .constraints import HOUSE_RULES, Query
from .reference import Reference
from .spec import TravelSpec

CITIES = ("Arvo", "Belm", "Cordu", "Dunor", "Elst", "Fenda", "Gorl", "Hulde", "Isko", "Jorra", "Keld", "Lumo")
FIRST_CODE = 10  # so that all codes have two digits, and none is part of another
CUISINES = ("American", "Chinese", "French", "Indian", "Italian", "Mediterranean", "Mexican")
LODGING_TYPES = {"shared": "Shared room", "private": "Private room", "entire": "Entire home/apt"}
FITTING_TYPES = {
    "any": ("shared", "private", "entire"), "shared room": ("shared",), "private room": ("private",),
    "entire room": ("entire",), "not shared room": ("private", "entire"),
}  # fmt: skip
MAX_OCCUPANCY = 4
LINK_PROBABILITY = 0.6  # that there is a flight, a road for one's own car, or a taxi between two cities
Row = Mapping[str, Any]


class Trip(NamedTuple):
    """A query without its budget, and what its plan may use."""

    query: Query
    cities: tuple[str, ...]  # to visit, in the order in which the query names them
    reference: Reference


def make_trip(spec: TravelSpec, rng: Random) -> Trip:
    """A trip that can be planned if money does not matter. The only method of `rng` used is random()."""
    origin, *cities = sample_words(CITIES, 1 + spec.cities, rng)
    wanted = sample_words(CUISINES, spec.cuisines, rng)
    query = Query(
        text="", origin=origin, destination=" and ".join(cities), days=spec.days, num_cities=spec.cities,
        people=spec.people, budget=0.0, house_rule=_wish(spec.rule), cuisines=wanted, room_type=_wish(spec.room),
        transportation=_wish(spec.transport),
    )  # fmt: skip
    places: dict[str, dict[str, list[Row]]] = {"Accommodations": {}, "Restaurants": {}, "Attractions": {}}
    codes = {letter: _codes(letter) for letter in "RMS"}
    for number, city in enumerate(cities):
        rooms = _make_accommodations(1 + spec.options, spec, rng)
        places["Accommodations"][city] = [{"NAME": next(codes["R"]), **row} for row in rooms]
        restaurants = _make_restaurants(3 * spec.whole_days + 1 + spec.options, wanted[number :: spec.cities], rng)
        places["Restaurants"][city] = [{"Name": next(codes["M"]), **row} for row in restaurants]
        places["Attractions"][city] = [{"Name": next(codes["S"])} for _ in range(spec.whole_days + spec.options)]
    return Trip(query, tuple(cities), _add_links(Reference(places, {}, {}), origin, cities, spec, rng))


def _wish(value: str) -> str | None:
    return None if value == "any" else value


def _codes(letter: str) -> Iterator[str]:
    return (f"{letter}{number}" for number in range(FIRST_CODE, 100))


def _make_accommodations(count: int, spec: TravelSpec, rng: Random) -> list[Row]:
    """In random order, one that fits all wishes, one that does not if there are any, and others."""
    rows = []
    for number in range(count):
        lodging_type = sample_word(FITTING_TYPES[spec.room] if number == 0 else list(LODGING_TYPES), rng)
        refused = set(sample_words(HOUSE_RULES, _between(0, 1, rng), rng))
        breaks_rule = spec.rule != "any" and (spec.room == "any" or rng.random() < 0.5)
        if number == 0:
            refused -= {spec.rule}
        elif number == 1 and breaks_rule:
            refused = {spec.rule}
        elif number == 1 and spec.room != "any":
            lodging_type = sample_word([kind for kind in LODGING_TYPES if kind not in FITTING_TYPES[spec.room]], rng)
        rows.append({
            "price": float(10 * _between(3, 15, rng)), "room type": LODGING_TYPES[lodging_type],
            "house_rules": " & ".join(f"No {rule}" for rule in HOUSE_RULES if rule in refused),
            "minimum nights": 1.0 if number == 0 else float(_between(1, spec.days - 1, rng)),
            "maximum occupancy": _between(1, MAX_OCCUPANCY, rng),
        })  # fmt: skip
    return shuffle(rows, rng)


def _make_restaurants(count: int, wanted: Sequence[str], rng: Random) -> list[Row]:
    """In random order, one for each of these cuisines, and others."""
    rows = []
    for number in range(count):
        cuisine = wanted[number] if number < len(wanted) else sample_word(CUISINES, rng)
        rows.append({"Average Cost": 5 * _between(1, 12, rng), "Cuisines": cuisine})
    return shuffle(rows, rng)


def _add_links(
    reference: Reference, origin: str, cities: Sequence[str], spec: TravelSpec, rng: Random
) -> Reference:  # fmt: skip
    """Random flights, roads and taxis between all cities.

    On the tour, one kind that the travelers accept, and the kind that they refuse, are always available.
    """
    kinds = [kind for kind in ("flight", "self-driving", "taxi") if spec.transport != f"no {kind}"]
    accepted, refused = sample_word(kinds, rng), spec.transport.removeprefix("no ")
    tour = list(zip((origin, *cities), (*cities, origin), strict=True))
    codes = _codes("F")
    flights: dict[str, dict[str, Any]] = {}
    roads: dict[tuple[str, str, str], int] = {}
    for first, second in permutations((origin, *cities), 2):
        kilometers = 20 * _between(3, 15, rng)
        for kind in ("flight", "self-driving", "taxi"):
            is_sure = (first, second) in tour and kind in (accepted, refused)
            if not (rng.random() < LINK_PROBABILITY or is_sure):
                continue
            if kind == "flight":
                flights[next(codes)] = {
                    "Price": 5 * _between(8, 40, rng), "OriginCityName": first, "DestCityName": second
                }  # fmt: skip
            else:
                roads[kind, first, second] = kilometers // 20 if kind == "self-driving" else kilometers
    return replace(reference, flights=flights, roads=roads)


def _between(low: int, high: int, rng: Random) -> int:
    return low + int(rng.random() * (high - low + 1))
