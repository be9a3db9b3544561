"""Mazes for testing agents that were trained in other levels, as in papers on unsupervised environment design.

The papers report success rates in held-out mazes that they name and show in pictures. The mazes with these names were
drawn for this project from those descriptions: sixteen rooms in a 4 x 4 arrangement, a corridor that spirals inwards,
nested rings, mazes with dead ends, dead ends along a corridor. They do not equal the papers' mazes cell by cell, so
compare the ranking of methods with the papers, not single percentages.
"""

from collections.abc import Mapping
from typing import Any

LENGTH = 250  # of an episode, as in the papers

_MAPS = {
    "SixteenRooms": """
#############
#>.......#..#
#..#..#.....#
##.##.#.##.##
#.....#.....#
#..#.....#..#
#.###.#.###.#
#..#........#
#.....#..#..#
#.###.#.###.#
#..#........#
#.....#..#.G#
#############
""",
    "SixteenRoomsFewerDoors": """
#############
#>....#.....#
#..#.....#..#
###########.#
#..#........#
#.....#..#..#
####.#####.##
#..#..#.....#
#..#.....#..#
##.#.######.#
#..#........#
#.....#..#.G#
#############
""",
    "Labyrinth": """
#############
#>..........#
###########.#
#.........#.#
#.#######.#.#
#.#.....#.#.#
#.#.###.#.#.#
#.#.#G..#.#.#
#.#.#####.#.#
#.#.......#.#
#.#########.#
#...........#
#############
""",
    "LabyrinthFlipped": """
#############
#..........<#
#.###########
#.#.........#
#.#.#######.#
#.#.#.....#.#
#.#.#.###.#.#
#.#.#..G#.#.#
#.#.#####.#.#
#.#.......#.#
#.#########.#
#...........#
#############
""",
    "Labyrinth2": """
#############
#>..........#
#.#########.#
#.#.......#.#
#.#.#####.#.#
#.#.#...#.#.#
#.#...G.#...#
#.#.#...#.#.#
#.#.#####.#.#
#.#.......#.#
#.#########.#
#...........#
#############
""",
    "Maze": """
#############
#>....#.....#
#####.###.###
#...#...#...#
#.#####.#.#.#
#.....#.#.#.#
#####.#.###.#
#.....#.#...#
#.#####.#.#.#
#.#.....#.#.#
#.#.#####.#.#
#.........#G#
#############
""",
    "Maze2": """
#############
#>......#...#
#######.#.#.#
#.#...#...#.#
#.#.#.#####.#
#.#.#.....#.#
#.#.#####.#.#
#.#.#...#.#.#
#.#.#.###.#.#
#.#.#...#...#
#.#.###.#####
#..........G#
#############
""",
    "Maze3": """
#############
#>#...#.....#
#.#.###.###.#
#.#.......#.#
#.#########.#
#...#.......#
###.#.#####.#
#.#...#.#...#
#.#####.#.###
#.......#...#
#.#########.#
#..........G#
#############
""",
    "SmallCorridor": """
#########
#.#.#.#G#
#.#.#.#.#
#.#.#.#.#
#>......#
#.#.#.#.#
#.#.#.#.#
#.#.#.#.#
#########
""",
    "LargeCorridor": """
###############
#.#.#.#.#.#.#G#
#.#.#.#.#.#.#.#
#.#.#.#.#.#.#.#
#.#.#.#.#.#.#.#
#.#.#.#.#.#.#.#
#.#.#.#.#.#.#.#
#>............#
#.#.#.#.#.#.#.#
#.#.#.#.#.#.#.#
#.#.#.#.#.#.#.#
#.#.#.#.#.#.#.#
#.#.#.#.#.#.#.#
#.#.#.#.#.#.#.#
###############
""",
}

HELD_OUT_LEVELS: Mapping[str, Mapping[str, Any]] = {
    name: {"map": text.strip().split("\n"), "length": LENGTH} for name, text in _MAPS.items()
} | {  # generated, one maze per episode
    "FourRooms": {"task": "four rooms", "length": LENGTH},
    "SimpleCrossing": {"task": "simple crossing", "size": 11, "num_crossings": 5},
    "PerfectMazeSmall": {"task": "perfect maze", "size": 13, "length": LENGTH},
    "PerfectMazeMedium": {"task": "perfect maze", "size": 19, "length": 2 * LENGTH},
    "PerfectMazeLarge": {"task": "perfect maze", "size": 51, "length": 5000},
}

# Percentages of episodes that agents solve after 20,000 updates in mazes with up to 60 walls: means of five agents,
# which the authors of ACCEL publish.
PUBLISHED_SOLVED: Mapping[str, Mapping[str, float]] = {
    "dr": {
        "SixteenRooms": 87.2, "SixteenRoomsFewerDoors": 53.4, "Labyrinth": 45.2, "Labyrinth2": 54.0, "Maze": 43.4,
        "Maze2": 48.6, "Maze3": 69.4, "SmallCorridor": 100.0, "LargeCorridor": 64.4, "FourRooms": 77.4,
        "SimpleCrossing": 56.6, "PerfectMazeMedium": 44.8,
    },
    "plr": {
        "SixteenRooms": 95.2, "SixteenRoomsFewerDoors": 48.8, "Labyrinth": 55.0, "Labyrinth2": 66.4, "Maze": 54.2,
        "Maze2": 74.2, "Maze3": 75.4, "SmallCorridor": 89.4, "LargeCorridor": 79.2, "FourRooms": 64.0,
        "SimpleCrossing": 86.8, "PerfectMazeMedium": 61.8,
    },
    "accel": {
        "SixteenRooms": 100.0, "SixteenRoomsFewerDoors": 93.4, "Labyrinth": 74.0, "Labyrinth2": 84.6, "Maze": 78.0,
        "Maze2": 99.8, "Maze3": 84.0, "SmallCorridor": 99.8, "LargeCorridor": 98.6, "FourRooms": 68.4,
        "SimpleCrossing": 79.0, "PerfectMazeMedium": 90.0,
    },
}  # fmt: skip
