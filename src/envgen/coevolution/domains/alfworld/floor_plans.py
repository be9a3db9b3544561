"""Floor plans: rooms with receptacles and the objects that occur in them.

The 120 floor plans of AI2-THOR are read from the installed package `alfworld`; none of its code is imported or
executed. `make_room` makes rooms of any size without that package.
"""

import json
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from random import Random
from typing import Literal, get_args

from ..random_choice import choose
from .affordances import KIND_OF, OPENABLE
from .game import GameError

RoomKind = Literal["kitchen", "livingroom", "bedroom", "bathroom"]
ROOM_KINDS: tuple[RoomKind, ...] = get_args(RoomKind)
PLAN_NUMBERS: dict[RoomKind, range] = {
    "kitchen": range(1, 31), "livingroom": range(201, 231), "bedroom": range(301, 331), "bathroom": range(401, 431)
}  # fmt: skip
MISSING_PACKAGE = "the floor plans are in the package alfworld: pip install --no-deps alfworld==0.4.2"


@dataclass(frozen=True)
class Place:
    """A receptacle of a floor plan."""

    id: str  # "Cabinet|+00.68|+00.50|-02.20"
    type: str  # "Cabinet"
    location: str  # "loc|2|-5|2|30": where the agent stands to use it
    openable: bool


@dataclass(frozen=True)
class FloorPlan:
    name: str
    kind: RoomKind
    places: tuple[Place, ...]
    start: str  # a location where no receptacle can be reached
    object_types: tuple[str, ...]  # that occur in this room and are used here


def package_folder() -> Path | None:
    """The folder of the floor plans in the installed package `alfworld`, or None."""
    try:
        folder = Path(str(distribution("alfworld").locate_file("alfworld/gen/layouts")))
    except PackageNotFoundError:
        return None
    return folder if folder.is_dir() else None


def load_floor_plan(number: int, folder: Path | None = None) -> FloorPlan:
    """A floor plan of AI2-THOR by its number (1 to 30, 201 to 230, 301 to 330 or 401 to 430)."""
    kinds: list[RoomKind] = [kind for kind, numbers in PLAN_NUMBERS.items() if number in numbers]
    if not kinds:
        ranges = ", ".join(f"{numbers[0]} to {numbers[-1]}" for numbers in PLAN_NUMBERS.values())
        raise GameError(f"there is no floor plan {number}; the numbers are {ranges}")
    folder = folder or package_folder()
    if folder is None:
        raise GameError(MISSING_PACKAGE)
    try:
        points = json.loads((folder / f"FloorPlan{number}-openable.json").read_text())
        object_types = json.loads((folder / f"FloorPlan{number}-objects.json").read_text())
        places = tuple(
            _place(entity, f"loc|{round(4 * x)}|{round(4 * z)}|{round(rotation / 90) % 4}|{round(horizon)}")
            for entity, (x, z, rotation, horizon) in sorted(points.items())
        )
        known = tuple(sorted(set(object_types) & set(KIND_OF)))
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise GameError(f"cannot read floor plan {number} in {folder}: {error}") from None
    return FloorPlan(f"FloorPlan{number}", kinds[0], places, "loc|0|0|0|0|start", known)


def _place(entity: str, location: str) -> Place:
    kind = entity.split("|")[-1] if entity.count("|") > 3 else entity.split("|")[0]
    if not re.fullmatch(r"[A-Za-z|0-9+.\-]+", entity):
        raise ValueError(f"{entity!r} is not the id of a receptacle")
    return Place(entity, kind, location, kind in OPENABLE)


# ------------------------------------------------------------------------------------------------------ generated rooms

_FURNITURE: dict[RoomKind, tuple[str, ...]] = {  # in the order in which larger rooms get more of it
    "kitchen": ("CounterTop", "SinkBasin", "Fridge", "Microwave", "Cabinet", "Drawer", "DiningTable", "StoveBurner",
                "GarbageCan", "Shelf"),
    "livingroom": ("SideTable", "Sofa", "Drawer", "CoffeeTable", "ArmChair", "Shelf", "TVStand", "Cabinet", "Dresser",
                   "Safe"),
    "bedroom": ("Bed", "Desk", "Drawer", "SideTable", "Shelf", "Dresser", "GarbageCan", "Safe", "ArmChair", "Cabinet"),
    "bathroom": ("SinkBasin", "CounterTop", "Toilet", "Cabinet", "GarbageCan", "BathtubBasin", "Drawer", "Shelf",
                 "HandTowelHolder", "Cart"),
}  # fmt: skip
_REPEATED = ("Cabinet", "Drawer", "Shelf", "CounterTop", "SideTable")  # furniture of which rooms have several
_OBJECTS: dict[RoomKind, tuple[str, ...]] = {
    "kitchen": ("Apple", "Bread", "Egg", "Lettuce", "Potato", "Tomato", "Bowl", "Cup", "Mug", "Plate", "Pan", "Pot",
                "Kettle", "ButterKnife", "Fork", "Knife", "Spatula", "Spoon", "PepperShaker", "SaltShaker",
                "DishSponge", "SoapBottle", "WineBottle"),
    "livingroom": ("Book", "Newspaper", "CreditCard", "KeyChain", "RemoteControl", "Watch", "Laptop", "Pillow",
                   "Statue", "Vase", "Box", "CellPhone", "TissueBox", "FloorLamp"),
    "bedroom": ("AlarmClock", "BasketBall", "Book", "CD", "CellPhone", "CreditCard", "KeyChain", "Laptop", "Mug",
                "Pen", "Pencil", "Pillow", "TennisRacket", "Box", "DeskLamp"),
    "bathroom": ("Candle", "Cloth", "HandTowel", "SoapBar", "SoapBottle", "SprayBottle", "ToiletPaper", "TissueBox"),
}  # fmt: skip


def make_room(kind: RoomKind, num_receptacles: int, rng: Random) -> FloorPlan:
    """A room with `num_receptacles` receptacles. It always has the first four pieces of furniture of its kind."""
    furniture = _FURNITURE[kind]
    types = list(furniture[:num_receptacles])
    while len(types) < num_receptacles:
        types.append(choose([name for name in furniture if name in _REPEATED], rng))
    for index in range(min(4, len(types)), len(types)):  # vary what is not essential
        if rng.random() < 0.5:
            types[index] = choose([name for name in furniture if name in _REPEATED], rng)
    places = tuple(
        Place(f"{name.removesuffix('Basin')}|+{k:02d}.{int(100 * rng.random()):02d}|+00.90|+01.00{_suffix(name)}", name,
              f"loc|{4 * k}|4|0|30", name in OPENABLE)
        for k, name in enumerate(types)
    )  # fmt: skip
    return FloorPlan(f"{kind} of {num_receptacles}", kind, places, "loc|0|0|0|0|start", _OBJECTS[kind])


def _suffix(receptacle_type: str) -> str:
    """AI2-THOR's ids of basins end with their type; ALFWorld names them after it."""
    return f"|{receptacle_type}" if receptacle_type.endswith("Basin") else ""
