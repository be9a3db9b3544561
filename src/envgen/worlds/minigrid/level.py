"""`MiniGridLevel`: everything a designer may set in MiniGrid. The default draws from all tasks."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from ..world import Level
from . import constants as const
from .maps import check_map, parse_map
from .state import PARAMS

MIN_SIZE = 5
MAX_LENGTH = 10_000
Task = Literal[
    "mixed", "empty", "four rooms", "door key", "multi room", "key corridor", "unlock", "unlock pickup",
    "blocked unlock pickup", "lava gap", "lava crossing", "simple crossing", "dynamic obstacles", "red blue doors",
    "memory", "obstructed maze", "go to door", "go to object", "put near", "fetch", "locked room", "dist shift",
    "perfect maze", "random walls",
]  # fmt: skip
USUAL_SIZES = {  # where it is not 8
    "four rooms": 19, "multi room": 25, "lava crossing": 9, "simple crossing": 9, "memory": 13, "go to door": 5,
    "go to object": 6, "put near": 6, "locked room": 19, "dist shift": 9, "lava gap": 7, "perfect maze": 15,
    "random walls": 15,
}  # fmt: skip
MIN_SIZES = {"four rooms": 7, "multi room": 12, "memory": 7, "put near": 6, "locked room": 13, "dist shift": 8}
ODD_SIZES = ("lava crossing", "simple crossing", "memory", "locked room", "perfect maze")
ROOM_TASKS = ("key corridor", "unlock", "unlock pickup", "blocked unlock pickup", "obstructed maze")
DIST_SHIFT_HEIGHT = 7
TASK_SETTINGS = {  # besides length
    "mixed": (), "empty": ("size", "random_start"), "multi room": ("size", "room_size", "num_rooms"),
    "key corridor": ("room_size", "num_rows"), "unlock": ("room_size",), "unlock pickup": ("room_size",),
    "blocked unlock pickup": ("room_size",), "lava crossing": ("size", "num_crossings"),
    "simple crossing": ("size", "num_crossings"), "dynamic obstacles": ("size", "num_obstacles", "random_start"),
    "memory": ("size", "random_length"), "go to object": ("size", "num_objects"), "put near": ("size", "num_objects"),
    "fetch": ("size", "num_objects"), "dist shift": ("size", "lava_row"), "random walls": ("size", "num_walls"),
    "obstructed maze": ("room_size", "obstructed_maze", "keys_in_boxes", "blocked_doors", "keys_last"),
}  # fmt: skip
MAZES = {  # obstructed_maze: number of quarters, column of the agent's room, rooms to visit
    "one door": (0, 0, 2), "two doors": (1, 2, 4), "one quarter": (1, 1, 5), "two quarters": (2, 2, 11),
    "full": (4, 1, 25),
}  # fmt: skip


class MiniGridLevel(Level):
    """A level of MiniGrid: a task with its settings, or a map. Settings that the task does not have are ignored, and
    sizes that it cannot have are replaced by the nearest larger one that it can (the largest, if there is no larger
    one)."""

    task: Task = "mixed"
    """What the agent has to do. mixed draws a task for each episode, and one of the package's environments of it."""
    size: Annotated[int, Field(ge=0, le=const.MAX_SIZE)] = 0
    """Cells along a side of the grid, walls included; 0 is the task's usual size. Tasks made of rooms have room_size
    instead."""
    room_size: Annotated[int, Field(ge=0, le=10)] = 0
    """Cells along a side of a room, walls included, in key corridor, unlock, unlock pickup, blocked unlock pickup,
    obstructed maze, and of the largest rooms in multi room; 0 is the usual size."""
    num_rooms: Annotated[int, Field(ge=1, le=6)] = 6
    """Rooms of a multi room."""
    num_rows: Annotated[int, Field(ge=1, le=3)] = 3
    """Rooms on each side of a key corridor."""
    num_crossings: Annotated[int, Field(ge=1, le=10)] = 1
    """Rivers of lava, or walls, in lava crossing and simple crossing."""
    num_obstacles: Annotated[int, Field(ge=0, le=12)] = 4
    """Moving balls in dynamic obstacles; small grids have fewer."""
    num_objects: Annotated[int, Field(ge=1, le=10)] = 2
    """Objects in go to object, put near and fetch; small grids have fewer."""
    num_walls: Annotated[int, Field(ge=0, le=100)] = 60
    """The most walls that random walls places."""
    lava_row: Annotated[int, Field(ge=2, le=5)] = 2
    """The row of the second strip of lava in dist shift."""
    obstructed_maze: Literal["one door", "two doors", "one quarter", "two quarters", "full"] = "full"
    """The part of an obstructed maze that is played."""
    keys_in_boxes: bool = True
    """In an obstructed maze, keys are hidden in boxes."""
    blocked_doors: bool = True
    """In an obstructed maze, balls block the locked doors."""
    keys_last: bool = True
    """In an obstructed maze, keys are placed after the balls, so that none is lost (version 1 of the package)."""
    random_start: bool = False
    """The agent starts anywhere, in empty and dynamic obstacles, instead of in the upper left corner."""
    random_length: bool = False
    """The hallway of memory has a random length."""
    length: Annotated[int, Field(ge=0, le=MAX_LENGTH)] = 0
    """Steps after which an episode is truncated; 0 is the task's usual number or, with a map, four for each cell."""
    map: tuple[str, ...] = ()
    """The rows of a grid that replaces the task's own. Each cell is # wall, . empty, G goal, ~ lava, or the agent as
    > v < ^; or K key, B ball, X box, D closed door, L locked door, O open door, F floor with the letter of its color
    r g b p y e: Ky is a yellow key, Xe(Kb) a grey box with a blue key. The task says what is to be done there; mixed
    means to reach the goal."""

    @classmethod
    def parse_sampled(cls, settings: Mapping[str, Any]) -> Self:
        """Settings that the task or the map does not have are left out, and so are those that equal the usual ones."""
        level = cls.parse(settings)
        used = {"task", "length", "map"}
        if not level.map:
            used.update(TASK_SETTINGS.get(level.task, ("size",)))
        if level.obstructed_maze == "one door":  # its only key is placed first
            used.discard("keys_last")
        values = {name: value for name, value in level.to_overrides().items() if name in used}
        for name in [name for name in values if name not in ("task", "map")]:
            fewer = {other: value for other, value in values.items() if other != name}
            if cls.parse(fewer).to_params() == cls.parse(values).to_params():
                values = fewer
        return cls.parse(values)

    @field_validator("map", mode="before")
    @classmethod
    def _split_map(cls, rows: Any) -> Any:
        return tuple(rows.strip("\n").split("\n")) if isinstance(rows, str) else rows

    @model_validator(mode="after")
    def _check_map(self) -> "MiniGridLevel":
        if self.map:
            try:
                check_map(parse_map(self.map), self._map_task)
            except ValueError as error:
                raise ValueError(f"map: {error}") from None
        return self

    @property
    def _map_task(self) -> int:
        return const.RANDOM_WALLS if self.task == "mixed" else const.TASKS.index(self.task)

    def grid_size(self) -> int:
        """Cells along a side of the task's grid."""
        size = max(self.size or USUAL_SIZES.get(self.task, 8), MIN_SIZES.get(self.task, MIN_SIZE))
        if self.task == "red blue doors":
            size = min(size, const.MAX_SIZE // 2)
        if self.task in ODD_SIZES:
            size |= 1
        if self.task == "locked room" and size % 3 == 0:  # else a room would reach into the outer wall
            size = size + 2 if size + 2 <= const.MAX_SIZE else size - 2
        return size

    def effective_room_size(self) -> int:
        """Cells along a side of a room, walls included."""
        usual = 10 if self.task == "multi room" else 6
        smallest = 3 if self.task == "key corridor" else 5 if self.task in ROOM_TASKS else 4
        return max(self.room_size or usual, smallest)

    def _usual_length(self, size: int) -> int:
        """The task's usual number of steps, as the package computes it."""
        room_area = self.effective_room_size() ** 2
        match self.task:
            case "door key":
                return 10 * size**2
            case "four rooms":
                return 100
            case "multi room":
                return 20 * self.num_rooms
            case "key corridor":
                return 30 * room_area
            case "unlock" | "unlock pickup":
                return 8 * room_area
            case "blocked unlock pickup":
                return 16 * room_area
            case "red blue doors":
                return 20 * size**2
            case "obstructed maze":
                return 4 * MAZES[self.obstructed_maze][2] * room_area
            case "put near":
                return 5 * size
            case "memory" | "go to object" | "fetch":
                return 5 * size**2
            case "locked room":
                return 10 * size
            case "dist shift":
                return 4 * size * DIST_SHIFT_HEIGHT
            case _:
                return 4 * size**2

    def to_params(self) -> np.ndarray:
        """This level as a PARAMS record."""
        params = np.zeros((), PARAMS)
        size = self.grid_size()
        is_mixed = self.task == "mixed"
        params["task"] = const.MIXED if is_mixed else const.TASKS.index(self.task)
        params["width"] = params["height"] = size
        if self.task == "dist shift":
            params["height"] = DIST_SHIFT_HEIGHT
        params["room_size"] = self.effective_room_size()
        params["num_rows"], params["num_rooms"] = self.num_rows, self.num_rooms
        params["num_crossings"], params["lava_row"] = self.num_crossings, self.lava_row
        # As in the package: more obstacles than size / 2 + 1 are reduced to size // 2.
        params["num_obstacles"] = self.num_obstacles if self.num_obstacles <= size / 2 + 1 else size // 2
        params["num_objects"] = self._num_objects(size)
        params["num_walls"] = min(self.num_walls, (size - 2) ** 2 // 2)
        params["num_quarters"], params["agent_room"], _ = MAZES[self.obstructed_maze]
        for name in ("random_start", "random_length", "keys_in_boxes", "blocked_doors", "keys_last"):
            params[name] = getattr(self, name)
        length = self._usual_length(size)
        if self.map:
            cells = parse_map(self.map)
            params["has_map"] = 1
            params["height"], params["width"] = cells.shape
            length = 4 * cells.size
        elif is_mixed:
            length = LONGEST_PACKAGE_EPISODE
        params["has_length"] = self.length > 0
        params["length"] = self.length or min(length, MAX_LENGTH)
        return params

    def _num_objects(self, size: int) -> int:
        if self.task == "put near":
            return min(max(self.num_objects, 2), (size - 2) // 2)
        return min(self.num_objects, (size - 2) ** 2 // 3)

    def map_cells(self) -> np.ndarray:
        """The codes of the map's cells row by row, (MAX_SIZE * MAX_SIZE,); zeros beyond it."""
        cells = np.zeros(const.MAX_SIZE * const.MAX_SIZE, np.uint8)
        if self.map:
            codes = parse_map(self.map).ravel()
            cells[: codes.size] = codes
        return cells


LONGEST_PACKAGE_EPISODE = 3600  # ObstructedMaze-Full
