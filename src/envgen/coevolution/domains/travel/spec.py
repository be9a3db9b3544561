"""The specs of the domain `travel`: how long a trip is, and which constraints its plan has to satisfy."""

from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field, model_validator

from ...tasks import Spec
from ..random_choice import choose

NUM_VARIATIONS = 1000
MAX_DAYS = 4
MAX_OPTIONS = 3

Budget = Literal["ample", "fair", "tight"]
RoomWish = Literal["any", "shared room", "not shared room", "private room", "entire room"]
RuleWish = Literal["any", "smoking", "parties", "children under 10", "visitors", "pets"]
TransportWish = Literal["any", "no flight", "no self-driving"]
BUDGET_FACTOR: dict[Budget, float] = {"ample": 3.0, "fair": 1.5, "tight": 1.1}  # of the cost of the cheapest plan


class TravelSpec(Spec):
    """A trip and what the travelers want."""

    days: Annotated[int, Field(ge=2, le=MAX_DAYS)]
    """Days of the trip, at least one more than cities."""
    cities: Annotated[int, Field(ge=1, le=2)]
    """Cities to visit."""
    people: Annotated[int, Field(ge=1, le=4)]
    """Travelers, who all pay."""
    budget: Budget
    """How much more than the cheapest plan the travelers can pay: 200% (ample), 50% (fair) or 10% (tight)."""
    room: RoomWish
    """The type of room that they want."""
    rule: RuleWish
    """What their accommodation has to allow."""
    cuisines: Annotated[int, Field(ge=0, le=2)]
    """Cuisines that they want, at most one on a trip of two days."""
    transport: TransportWish
    """How they do not want to travel."""
    options: Annotated[int, Field(ge=1, le=MAX_OPTIONS)]
    """Accommodations, restaurants and attractions in each city beyond those that the trip needs."""
    variation: Annotated[int, Field(ge=0, lt=NUM_VARIATIONS)]
    """Selects the cities, everything in them, and the prices."""

    @model_validator(mode="after")
    def _check_days(self) -> "TravelSpec":
        if self.days <= self.cities:
            raise ValueError(
                f"a trip to {self.cities} cities takes at least {self.cities + 1} days, not {self.days}"
                if self.cities > 1
                else f"a trip to a city takes at least 2 days, not {self.days}"
            )
        if self.days == 2 and self.cuisines > 1:
            raise ValueError("a trip of 2 days has one dinner, so it has at most 1 cuisine, not 2")
        return self

    @property
    def whole_days(self) -> int:
        """The number of days without travel."""
        return self.days - self.cities - 1

    @property
    def num_wishes(self) -> int:
        """The number of constraints that the travelers set besides the budget."""
        return sum(wish != "any" for wish in (self.room, self.rule, self.transport)) + self.cuisines


def sample_spec(rng: np.random.Generator, max_days: int, max_options: int, wish_probability: float) -> TravelSpec:
    """A random spec.

    Args:
        rng: The source of randomness.
        max_days: Maximum number of days.
        max_options: Maximum number of options.
        wish_probability: Probability of each of the wishes, whose value is then uniform.
    """
    days = int(rng.integers(2, max_days + 1))

    def wish(values: tuple[str, ...]) -> str:
        return choose(values[1:], rng) if rng.random() < wish_probability else "any"

    cuisines = int(rng.integers(1, 2 if days == 2 else 3)) if rng.random() < wish_probability else 0
    return TravelSpec.model_validate({
        "days": days, "cities": 1 if days == 2 else int(rng.integers(1, 3)), "people": int(rng.integers(1, 5)),
        "budget": choose(get_args(Budget), rng), "room": wish(get_args(RoomWish)), "rule": wish(get_args(RuleWish)),
        "cuisines": cuisines, "transport": wish(get_args(TransportWish)),
        "options": int(rng.integers(1, max_options + 1)), "variation": int(rng.integers(NUM_VARIATIONS)),
    })  # fmt: skip
