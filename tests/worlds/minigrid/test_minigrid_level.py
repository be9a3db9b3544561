"""Levels do what they say; those that are not valid are refused with a message."""

from contextlib import closing
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgen.settings import unflatten
from envgen.worlds.level_space import setting_values
from envgen.worlds.minigrid import constants as const
from envgen.worlds.minigrid.env import MiniGridEnv, MiniGridVectorEnv
from envgen.worlds.minigrid.held_out import HELD_OUT_LEVELS
from envgen.worlds.minigrid.level import LONGEST_PACKAGE_EPISODE, TASK_SETTINGS, MiniGridLevel, Task
from envgen.worlds.minigrid.maps import parse_map
from envgen.worlds.minigrid.package_levels import PACKAGE_IDS, mixed_params, package_level
from envgen.worlds.minigrid.solver import SOLVABLE, solve
from envgen.worlds.minigrid.state import grid_view
from envgen.worlds.world import LevelError
from minigrid_maps import format_map, room

ROOM = ["#####", "#>.G#", "#####"]


@pytest.mark.parametrize(
    ("level", "message"),
    [
        ({"size": -1}, "size"),
        ({"size": 52}, "size"),
        ({"size": 10**9}, "size"),
        ({"room_size": 11}, "room_size"),
        ({"num_rooms": 7}, "num_rooms"),
        ({"num_rooms": -1}, "num_rooms"),
        ({"length": 10_001}, "length"),
        ({"task": "doorkey"}, "did you mean 'door key'"),
        ({"sise": 8}, "did you mean 'size'"),
        ({"map": ["####", "#>G#", "###"]}, "row 3 has 3 cells, but row 1 has 4"),
        ({"map": ["#####", "#>.G#", "##"]}, "row 3 has 2 cells"),
        ({"map": room(">..")}, "no goal"),
        ({"map": room("..G")}, "one agent .* not 0"),
        ({"map": room(">^G")}, "one agent .* not 2"),
        ({"map": room(">?G")}, r"row 2, column 3: '\?' is not a cell"),
        ({"map": room(">KG")}, "'K' needs the letter of a color"),
        ({"map": room(">#G")}, "cannot reach the goal"),
        ({"map": room(">~G")}, "cannot reach the goal"),
        ({"map": room(">LrG")}, "cannot reach the goal"),
        ({"map": room(">KbLrG")}, "cannot reach the goal"),
        ({"map": room(">Xr(Kb)LrG")}, "cannot reach the goal"),
        ({"map": ["#>G"]}, "3 to 51 rows, not 1"),
        ({"map": ["#" * 60] * 5}, "columns, not 60"),
        ({"map": ["#" * 10**6] * 5}, "at most 51 columns"),
        ({"map": ["###"] * 100}, "rows, not 100"),
        ({"map": ROOM, "task": "memory"}, "'memory' has no maps"),
        ({"map": ROOM, "task": "unlock"}, "lacks a locked door"),
        ({"map": ROOM, "task": "put near"}, "lacks two objects"),
        ({"map": room(">Dr."), "task": "red blue doors"}, "one closed red door"),
        ({"map": room(">Br."), "task": "obstructed maze"}, "blue ball"),
        ({"map": room(">.Lr"), "task": "unlock"}, "no key of its color within reach"),
        ({"map": room(">KbLr"), "task": "unlock"}, "no key of its color within reach"),
        ({"map": room(">.Lr#Kr"), "task": "unlock"}, "no key of its color within reach"),
        ({"map": room(">.Dr.", "####", "Db..."), "task": "red blue doors"}, "open the red door and then the blue"),
        ({"map": room(">.DbDr"), "task": "red blue doors"}, "behind the blue"),
        ({"map": room(">.Kr.", "####", "Bb..."), "task": "put near"}, "cannot put one object near another"),
        ({"map": room(">#KrBb"), "task": "put near"}, "cannot reach two objects"),
        ({"map": room("G#.", "Dr>."), "task": "dynamic obstacles"}, "can only cross empty cells"),
        ({"map": room(">Or.G"), "task": "dynamic obstacles"}, "can only cross empty cells"),
        ({"map": room(">FrBbG"), "task": "dynamic obstacles"}, "can only cross empty cells"),
        ({"map": room(">KbG"), "task": "dynamic obstacles"}, "can only cross empty cells"),
        ({"map": room(">" + 26 * "Bb" + "G", "Bb" + 27 * "."), "task": "dynamic obstacles"}, "27 balls; .* at most 26"),
        ({"map": room(">DrDb##", "##.DgKe"), "task": "go to object"}, "it cannot open doors"),
        ({"map": 5}, "map"),
        ({"map": [1, 2, 3]}, "map"),
    ],
)
def test_invalid_levels_are_refused_with_a_one_line_message(level, message):
    with pytest.raises(LevelError, match=message) as caught:
        MiniGridLevel.parse(level)
    assert "\n" not in str(caught.value)


def test_a_goal_in_reach_makes_any_task_possible():
    MiniGridLevel.parse({"task": "unlock", "map": ["#####", "#>G##", "###Lr#", "#####"]})
    with pytest.raises(LevelError, match="cannot reach a locked door"):
        MiniGridLevel.parse({"task": "unlock", "map": ["#####", "#>.##", "###Lr#", "#####"]})


def test_maps_may_be_one_text_and_keep_their_form():
    level = MiniGridLevel.parse({"map": "\n#####\n#>.G#\n#####\n"})
    assert level.map == tuple(ROOM)
    assert MiniGridLevel.parse(level.model_dump_json()) == level
    assert MiniGridLevel.parse(level.to_overrides()) == level


MAPS = {
    "key corridor": room(">DgKrBy"),
    "unlock": room(">KrLr."),
    "unlock pickup": room(">.Xp."),
    "blocked unlock pickup": room(">KgBrLgXp", "...##"),
    "go to door": room(">...Dy"),
    "go to object": room(">..Ke"),
    "fetch": room(">.Br", "..Ke"),
    "put near": room(">Br...", "...Ke."),
    "red blue doors": room("Db>.Dr"),
    "obstructed maze": room("Xe(Kg)>LgBb"),
    "dynamic obstacles": room(">..G", "..By."),
    "door key": room(">KyLyG", "..##"),
}


@pytest.mark.parametrize(
    ("task", "rows"),
    [
        ("unlock", room("G>.Lr")),  # a goal ends an episode with success in every task
        ("unlock", room("Xe(Kb)>LbKrLr")),
        ("red blue doors", room("DrDb", ">.")),
        ("red blue doors", room(">DrDb")),
        ("put near", room(">Kr.#", "###Bb")),  # a cell within reach is next to the ball, across a corner
        ("put near", room(">.Kr.", "####", "Kr...")),  # the reachable key is like the other one, and near itself
        ("put near", room(">Xb(Kr)..", "####", "Kr...")),
        ("dynamic obstacles", room(">ByG", ".By.")),
        ("dynamic obstacles", room(">" + 25 * "Bb" + ".G", "Bb" + 27 * ".")),
        ("go to object", room(">.Or.KeDb")),
        ("fetch", room(">DrBb")),
        ("fetch", room(">KrLrBb")),
    ],
)
def test_maps_that_may_be_solvable_are_accepted(task, rows):
    MiniGridLevel.parse({"task": task, "map": rows})


def test_every_task_can_be_drawn_and_solved_by_the_expert():
    for task, rows in MAPS.items():
        envs = MiniGridVectorEnv(4, {"task": task, "map": rows}, "symbols", threads=1)
        envs.reset(seed=0)
        assert np.array_equal(np.unique(envs.engine.envs["task"]), [const.TASKS.index(task)])
        assert (solve(envs.engine.envs).answers == SOLVABLE).all() or task == "dynamic obstacles", task


def test_a_state_can_be_written_as_a_map_and_read_again():
    env = MiniGridEnv(package_level("MiniGrid-ObstructedMaze-2Dlhb-v1"), "symbols")
    env.reset(seed=1)
    state = env.engine.envs[0]
    rows = format_map(state, grid_view(state))
    cells = parse_map(rows)
    expected = grid_view(state).copy()
    expected[cells >= const.NUM_CELLS] = cells[cells >= const.NUM_CELLS]
    assert np.array_equal(cells, expected)
    assert any("Xe(K" in row for row in rows)


def test_the_original_draws_every_task():
    envs = MiniGridVectorEnv(600, None, "symbols", threads=1)
    _, infos = envs.reset(seed=0)
    assert set(infos["task"].tolist()) == set(range(len(const.TASKS)))
    assert (infos["possible"].sum(1) == 1).all()
    assert np.array_equal(infos["possible"].argmax(1), infos["task"])
    params, first = mixed_params()
    assert len(params) == len(PACKAGE_IDS) + 2 == first[-1]
    assert params["length"].max() == LONGEST_PACKAGE_EPISODE
    lengths = envs.engine.envs["length"]
    assert set(lengths.tolist()) <= set(params["length"].tolist())
    short = MiniGridVectorEnv(50, {"length": 30}, "symbols", threads=1)
    short.reset(seed=0)
    assert (short.engine.envs["length"] == 30).all()


def space() -> st.SearchStrategy[dict]:
    values = setting_values(MiniGridLevel)
    return st.fixed_dictionaries({name: st.sampled_from(options) for name, options in values.items()})


@given(values=space(), seed=st.integers(0, 2**31))
@settings(max_examples=300)
def test_every_combination_of_settings_makes_a_grid(values, seed):
    level = MiniGridLevel.parse(unflatten(values))
    env = MiniGridEnv(level, "symbols")
    obs, _ = env.reset(seed=seed)
    assert env.observation_space.contains(obs)
    state = env.engine.envs[0]
    assert const.CAN_ENTER[state["grid"][state["cell"]]]
    for action in np.random.default_rng(seed).integers(7, size=20).tolist():
        obs, _, terminated, truncated, _ = env.step(action)
        assert env.observation_space.contains(obs)
        if terminated or truncated:
            break


@pytest.mark.parametrize("task", ["crossing", "memory", "locked room", "perfect maze"])
def test_sizes_that_a_task_cannot_have_become_the_next_larger_one(task):
    task = "lava crossing" if task == "crossing" else task
    for size in range(5, const.MAX_SIZE + 1):
        level = MiniGridLevel.parse({"task": task, "size": size})
        assert level.grid_size() % 2 == 1
        assert size <= level.grid_size() <= const.MAX_SIZE or level.grid_size() in (7, 13, 49)


def test_held_out_mazes_are_valid_and_solvable():
    for name, level in HELD_OUT_LEVELS.items():
        parsed = MiniGridLevel.parse(level)
        envs = MiniGridVectorEnv(3, parsed, "symbols", threads=1)
        envs.reset(seed=0)
        solutions = solve(envs.engine.envs)
        assert (solutions.answers == SOLVABLE).all(), name
        assert (solutions.steps <= envs.engine.envs["length"]).all()


def played(level: MiniGridLevel) -> bytes:
    """The grids of eight episodes, and the observations of 20 steps in them."""
    rng, parts = np.random.default_rng(0), []
    with closing(MiniGridVectorEnv(8, [level], observation="symbols")) as envs:
        obs, _ = envs.reset(seed=1)
        parts += [grid_view(state).tobytes() for state in envs.engine.envs]
        for _ in range(20):
            parts.append(obs.tobytes())
            obs, *_ = envs.step(rng.integers(0, envs.single_action_space.n, 8))
    return b"".join(parts)


@pytest.mark.parametrize("task", get_args(Task))
def test_sampled_levels_have_only_settings_that_change_their_episodes(task):
    for name, values in setting_values(MiniGridLevel).items():
        if name in ("task", "length", "map"):
            continue
        base = {"task": task, **({"size": 10} if task == "put near" else {})}  # its usual size has room for two objects
        levels = [MiniGridLevel.parse({**base, name: value}) for value in values[1:]]
        sampled = [MiniGridLevel.parse_sampled({**base, name: value}) for value in values[1:]]
        original = played(MiniGridLevel.parse(base))
        if name in TASK_SETTINGS.get(task, ("size",)):
            assert any(played(level) != original for level in levels)
            assert all(level.to_params() == other.to_params() for level, other in zip(levels, sampled, strict=True))
        else:
            assert all(played(level) == original for level in levels[:3])
            assert set(sampled) == {MiniGridLevel.parse(base)}
