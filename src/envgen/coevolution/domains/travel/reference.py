"""The reference information of a trip: what its plan may use, and what everything costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NAME_COLUMN = {"Accommodations": "NAME", "Restaurants": "Name", "Attractions": "Name"}


@dataclass(frozen=True)
class Reference:
    """The rows of TravelPlanner's tables, by city; flights by number; costs of the routes by road."""

    places: Mapping[str, Mapping[str, list[Mapping[str, Any]]]]  # kind: city: rows
    flights: Mapping[str, Mapping[str, Any]]
    roads: Mapping[tuple[str, str, str], int]  # self-driving or taxi, origin, destination: dollars per car

    @property
    def cities(self) -> set[str]:
        return {city for kind in self.places.values() for city in kind}

    def find(self, kind: str, name: str, city: str) -> list[Mapping[str, Any]]:
        """The places in this city whose name contains the given one."""
        column = NAME_COLUMN.get(kind, "Name")
        return [row for row in self.places.get(kind, {}).get(city, ()) if name in str(row.get(column, ""))]
