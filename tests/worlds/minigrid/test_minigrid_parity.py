"""MiniGrid equals the package `minigrid`: every grid, observation, mission and reward, step by step."""

import gymnasium
import numpy as np
import pytest

from envgen.worlds.minigrid.env import MiniGridEnv
from envgen.worlds.minigrid.package_levels import PACKAGE_IDS, package_level
from envgen.worlds.minigrid.reference import VERSION, compare_environment, is_installed, make_reference
from envgen.worlds.minigrid.render import draw_grid
from envgen.worlds.minigrid.state import grid_view

pytestmark = [
    pytest.mark.skipif(not is_installed(), reason="the package minigrid is not installed: pip install 'envgen[test]'"),
    pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning"),
]


def test_the_levels_are_all_environments_of_the_package_with_a_mission():
    import minigrid

    assert minigrid.__version__ == VERSION
    registered = {name for name in gymnasium.registry if name.startswith("MiniGrid-")}
    assert registered >= set(PACKAGE_IDS)
    others = registered - set(PACKAGE_IDS) - {"MiniGrid-Playground-v0"}
    assert all(name.startswith("MiniGrid-WFC-") for name in others)
    assert len(PACKAGE_IDS) == 75


@pytest.mark.parametrize("env_id", PACKAGE_IDS)
def test_every_step_equals_the_packages(env_id):
    result = compare_environment(env_id, steps=160, seed=PACKAGE_IDS.index(env_id), reset_every=60)
    assert result.difference is None
    assert result.steps >= 160


def test_the_comparison_covers_successes_of_every_task():
    successes = {}
    for env_id in (
        "DoorKey-5x5", "BlockedUnlockPickup", "MemoryS7", "PutNear-6x6-N2", "RedBlueDoors-6x6", "Fetch-5x5-N2",
        "GoToDoor-5x5", "KeyCorridorS3R1", "ObstructedMaze-1Dlhb", "LavaCrossingS9N1",
    ):  # fmt: skip
        successes[env_id] = compare_environment(f"MiniGrid-{env_id}-v0", 700, seed=5).successes
    assert min(successes.values()) > 0, successes


def test_a_difference_is_found(monkeypatch):
    other = package_level("MiniGrid-DoorKey-6x6-v0")
    monkeypatch.setattr("envgen.worlds.minigrid.reference.package_level", lambda env_id: other)
    assert "MiniGrid-DoorKey-5x5-v0, reset 1" in (compare_environment("MiniGrid-DoorKey-5x5-v0", 10).difference or "")


@pytest.mark.parametrize(
    "env_id", ["BlockedUnlockPickup", "LavaGapS7", "GoToDoor-8x8", "Fetch-8x8-N3", "ObstructedMaze-1Dlhb"]
)
def test_images_equal_the_packages(env_id):
    env_id = f"MiniGrid-{env_id}-v0"
    env, reference = MiniGridEnv(package_level(env_id), "pixels"), make_reference(env_id)
    rng = np.random.default_rng(0)
    for episode in range(2):
        pixels, _ = env.reset(seed=episode)
        reference.reset(seed=episode)
        for _ in range(25):
            expected = reference.get_wrapper_attr("get_frame")(tile_size=8, agent_pov=True)
            assert np.array_equal(pixels, expected)
            action = int(rng.choice([0, 1, 2, 2, 2, 3, 4]))
            pixels, _, terminated, truncated, _ = env.step(action)
            reference.step(action)
            if terminated or truncated:
                break
    state = env.engine.envs[0]
    expected = reference.get_wrapper_attr("get_frame")(tile_size=32)
    assert draw_grid(state, 32).shape == expected.shape
    assert np.array_equal(draw_grid(state, 32), expected)


def test_a_map_of_the_packages_grid_plays_like_the_package():
    """The rules do not depend on how a grid came to be: its map with the same task plays the same episodes."""
    from minigrid_maps import format_map

    for env_id in ("MiniGrid-DoorKey-8x8-v0", "MiniGrid-ObstructedMaze-1Dlhb-v0", "MiniGrid-KeyCorridorS3R3-v0"):
        level = package_level(env_id)
        env = MiniGridEnv(level, "symbols")
        env.reset(seed=3)
        state = env.engine.envs[0]
        rows = format_map(state, grid_view(state))
        copy = MiniGridEnv({"task": level.task, "map": rows, "length": int(state["length"])}, "symbols")
        copy.reset(seed=3)
        for action in np.random.default_rng(1).choice([0, 1, 2, 2, 2, 3, 4, 5], 300).tolist():
            results, expected = copy.step(action), env.step(action)
            assert np.array_equal(results[0], expected[0])
            assert results[1:4] == expected[1:4]
            if expected[2] or expected[3]:
                break
