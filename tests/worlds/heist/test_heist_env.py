"""A single Heist environment, its observations, and what designers need from the world."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import envgen  # noqa: F401  registers the environments
from envgen.worlds.heist import constants as const
from envgen.worlds.heist import observations
from envgen.worlds.heist.env import HeistEnv
from envgen.worlds.heist.expert_policy import expert_actions
from envgen.worlds.heist.level import HeistLevel
from envgen.worlds.heist.world import Heist
from envgen.worlds.observations import MAX_TEXT_LENGTH, TEXT_CHARSET
from envgen.worlds.world import LevelError


@pytest.mark.parametrize("observation", ["pixels", "symbols", "text"])
def test_gymnasium_env_checker_passes_without_warnings(observation):
    env = gymnasium.make("envgen/Heist-v0", observation=observation, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@pytest.mark.parametrize("action", [-1, 15, 1.5, "noop", None, True, np.array([1])])
def test_invalid_actions_are_rejected_without_side_effects(action):
    env = HeistEnv(observation="symbols")
    env.reset(seed=0)
    before = env.engine.envs.copy()
    with pytest.raises(ValueError, match="not an integer from 0 to 14"):
        env.step(action)
    assert np.array_equal(env.engine.envs, before)


def test_step_requires_a_running_episode():
    env = HeistEnv({"length": 1}, observation="symbols")
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    assert env.step(0)[3]
    with pytest.raises(ResetNeeded):
        env.step(0)


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [({"level": {"moed": "easy"}}, LevelError), ({"level": 3}, TypeError), ({"level": []}, ValueError)],
)
def test_invalid_levels_are_rejected(kwargs, error):
    with pytest.raises(error):
        HeistEnv(**kwargs)


@pytest.mark.parametrize("seed", [-1, 1.5, "zero"])
def test_invalid_seeds_are_rejected(seed):
    with pytest.raises(ValueError, match="seed"):
        HeistEnv(observation="symbols").reset(seed=seed)


def test_human_rendering_can_be_closed_twice():
    env = gymnasium.make("envgen/Heist-v0", render_mode="human", render_size=99)
    env.reset(seed=0)
    env.step(0)
    env.close()
    env.close()


@pytest.mark.parametrize("mode", const.MODES)
def test_symbols_show_the_cells_around_the_agent(mode):
    env = HeistEnv({"mode": mode}, observation="symbols")
    obs, _ = env.reset(seed=4)
    radius = 4 if mode == "memory" else 12
    for _ in range(60):
        decoded, record = observations.decode_symbols(obs), env.engine.envs[0]
        i, j = int(record["x"]), int(record["y"])
        for row in range(25):
            for column in range(25):
                x, y = i + column - 12, j + 12 - row
                is_visible = max(abs(x - i), abs(y - j)) <= radius and 0 <= x < 25 and 0 <= y < 25
                expected = const.CELL_NAMES[record["grid"][y, x]] if is_visible else "wall"
                assert decoded["map"][row][column] == expected
        assert decoded["position"] == pytest.approx((record["x"] % 1, record["y"] % 1), abs=1 / 32)
        assert decoded["velocity"] == pytest.approx((record["vx"], record["vy"]), abs=1 / 255)
        assert decoded["keys"] == tuple(c for c, held in zip(const.COLORS, record["has_key"], strict=True) if held)
        obs, _, terminated, _, _ = env.step(int(expert_actions(env.engine)[0]))
        if terminated:
            break


FACING_AFTER_ACTION = (
    "down and left", "left", "up and left", "down", "right", "up", "down and right", "right", "up and right",
)  # fmt: skip


@pytest.mark.parametrize("action", range(9))
def test_symbols_contain_the_direction_faced(action):
    env = HeistEnv(observation="symbols")
    obs, _ = env.reset(seed=0)
    assert observations.decode_symbols(obs)["facing"] == "right"  # as in the image, before any direction is pressed
    assert observations.decode_symbols(env.step(action)[0])["facing"] == FACING_AFTER_ACTION[action]


def test_symbols_fit_the_agents_embedding():
    torch = pytest.importorskip("torch")
    from envgen.agents.symbols import SymbolEmbedding

    envs = Heist().make([{}], num_envs=3, seed=0, observation="symbols")
    obs, _ = envs.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer = SymbolEmbedding(observations.MAX_SYMBOLS.astype(np.int64), 16)
    assert layer(torch.from_numpy(obs)).shape == (3, 16)


def test_decode_symbols_rejects_other_shapes():
    with pytest.raises(ValueError, match=r"shape \(633,\), not \(3,\)"):
        observations.decode_symbols(np.zeros(3, np.uint8))


def test_text_describes_the_state():
    env = HeistEnv({"keys": "two", "maze_size": 9, "held_keys": {"blue": True}}, observation="text")
    text, _ = env.reset(seed=3)
    assert env.observation_space.contains(text)
    assert "You hold the blue key." in text
    assert "You face right and stand still" in text
    assert "blue door" in text
    assert "green key" in text
    assert text.count("@") == 2  # in the legend and on the map


def test_text_never_exceeds_its_maximum_length():
    symbols = np.zeros(observations.SYMBOLS_SIZE, np.uint8)
    symbols[: observations.MAP_CELLS] = const.FLOOR
    symbols[[0, 1, 2, 25, 26, 27, 600]] = range(const.KEY, const.GEM + 1)
    symbols[observations.VELOCITY_INDEX : observations.KEYS_INDEX] = 3, 250
    symbols[observations.KEYS_INDEX : observations.FACING_INDEX] = 1
    text = observations.describe_symbols(symbols)
    assert len(text) < MAX_TEXT_LENGTH
    assert set(text) <= TEXT_CHARSET


def test_world_provides_what_designers_need():
    world = Heist()
    assert world.original == HeistLevel()
    assert world.actions == const.ACTIONS
    assert [skill.name for skill in world.skills][0::6] == ["take_blue_key", "steal_gem"]
    assert set(world.skill_levels) == {skill.name for skill in world.skills}
    schema = world.Level.model_json_schema()
    assert schema["properties"]["mode"]["enum"] == ["easy", "hard", "memory"]
    assert all("description" in field for field in schema["properties"].values())
    assert world.single(seed=1).reset()[1]["seed"] == world.make([{}, {}], seed=1).reset()[1]["seed"][0]
    assert world.render_levels({"a": {}, "b": {"mode": "memory"}}).size[0] > 700


def test_key_bindings_reach_every_move_and_leave_q_to_quit():
    bindings = Heist().key_bindings
    assert set(bindings.values()) == set(const.ACTIONS[:9])
    assert [bindings[key] for key in "wasd"] == ["up", "left", "down", "right"]
    assert [bindings[key] for key in ("up", "left", "down", "right")] == ["up", "left", "down", "right"]
    assert "q" not in bindings


@pytest.mark.parametrize("skill", [skill.name for skill in const.SKILLS])
def test_skill_levels_make_their_skill_the_next_one(skill):
    world = Heist()
    level = world.skill_levels[skill]
    stats = world.level_stats(level, range(40))
    assert stats.possible[skill] > 0.9
    other_moves = [
        moves for name, moves in stats.mean_moves.items() if moves is not None and name not in (skill, "steal_gem")
    ]
    assert stats.mean_moves[skill] <= min([*other_moves, 15])
    assert skill in world.reachable_skills(level, stats)


def test_reachable_skills_exclude_what_a_level_makes_impossible():
    world = Heist()
    all_skills = {skill.name for skill in world.skills}

    def unreachable(level):
        return all_skills - world.reachable_skills(level, world.level_stats(level, range(30)))

    assert unreachable({}) == set()
    assert unreachable({"keys": "none"}) == all_skills - {"steal_gem"}
    assert unreachable({"held_keys": {"green": True}}) == {"take_green_key"}
    assert unreachable({"open_doors": {"red": True}}) == {"open_red_door"}
    assert unreachable({"maze_size": 25, "keys": "none", "gem_distance": "long", "length": 3}) >= {"steal_gem"}


def test_level_stats_as_dict():
    world = Heist()
    stats = world.level_stats(None, range(50)).as_dict()
    assert stats["worlds with steal_gem, %"] == 100
    assert stats["moves to take_green_key"] > stats["moves to take_blue_key"]
    assert stats["keys per world"] == stats["doors per world"]
    assert "steal_gem" in str(world.level_stats(None, range(3)))
    with pytest.raises(ValueError, match="the list of seeds is empty"):
        world.level_stats(None, ())


def test_infos_have_the_held_keys():
    level = {"keys": "two", "maze_size": 9, "held_keys": {"blue": True}}
    _, info = HeistEnv(level, observation="symbols").reset(seed=0)
    assert info["held_keys"] == {"blue": True, "green": False, "red": False}
    assert not {"keys", "items", "values"} & set(info)  # methods of containers such as tianshou's Batch
