"""A plan: what it says about each day, in the words of TravelPlanner's plans."""

import re
from typing import NamedTuple

MAX_VALUE_CHARS = 2000
FIELDS = ("current_city", "transportation", "breakfast", "attraction", "lunch", "dinner", "accommodation")
EMPTY = ("", "-")
FROM_TO = re.compile(r"from\s++(.+?)(?<!\s)\s++to\s+([^,]+)")  # reads each space once, however many there are
PARENTHESIS = re.compile(r"\([^)]*\).*")


class Day(NamedTuple):
    """What the plan says about one day: `""` where it has no such field, `-` where nothing is planned."""

    current_city: str = ""
    transportation: str = ""
    breakfast: str = ""
    attraction: str = ""
    lunch: str = ""
    dinner: str = ""
    accommodation: str = ""

    @property
    def route(self) -> tuple[str, str] | None:
        """The cities of a day on which one travels."""
        return from_to(self.current_city)

    @property
    def cities(self) -> list[str]:
        return list(self.route) if self.route else [without_parenthesis(self.current_city)]

    @property
    def attractions(self) -> list[str]:
        return [part.strip() for part in self.attraction.split(";") if part.strip() not in EMPTY]

    def meals(self) -> list[str]:
        return [meal for meal in (self.breakfast, self.lunch, self.dinner) if meal not in EMPTY]


def from_to(text: str) -> tuple[str, str] | None:
    """The cities in `from A to B`, without states in parentheses."""
    match = FROM_TO.search(text[:MAX_VALUE_CHARS])
    return (without_parenthesis(match[1]), without_parenthesis(match[2])) if match else None


def without_parenthesis(text: str) -> str:
    return PARENTHESIS.sub("", text).strip()


def name_and_city(text: str) -> tuple[str, str]:
    """The parts of `Name, City(State)`; a name may contain commas."""
    name, comma, city = text.rpartition(",")
    return (name.strip(), without_parenthesis(city)) if comma else ("-", "-")
