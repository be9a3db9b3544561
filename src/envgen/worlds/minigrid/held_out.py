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
