"""One Heist as Gymnasium's users expect it, what it observes, and what a designer needs of its world."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

import envgen  # noqa: F401  registers the environments
from envgen.worlds.heist import constants as t
from envgen.worlds.heist import symbols
from envgen.worlds.heist.env import HeistEnv
from envgen.worlds.heist.expert_policy import expert_actions
from envgen.worlds.heist.level import HeistLevel
from envgen.worlds.heist.observations import CHARACTERS, TEXT_LENGTH
from envgen.worlds.heist.world import Heist
from envgen.worlds.world import LevelError


@pytest.mark.parametrize("observation", ["pixels", "symbols", "text"])
def test_gymnasiums_checker_has_nothing_to_say(observation):
    env = gymnasium.make("envgen/Heist-v0", observation=observation, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@pytest.mark.parametrize("action", [-1, 15, 1.5, "noop", None, True, np.array([1])])
def test_a_wrong_action_is_refused_before_anything_runs(action):
    env = HeistEnv(observation="symbols")
    env.reset(seed=0)
    before = env.engine.envs.copy()
    with pytest.raises(ValueError, match="not a whole number from 0 to 14"):
        env.step(action)
    assert np.array_equal(env.engine.envs, before)


def test_stepping_without_or_after_an_episode_is_refused():
    env = HeistEnv({"length": 1}, observation="symbols")
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    assert env.step(0)[3]
    with pytest.raises(ResetNeeded):
        env.step(0)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [({"level": {"moed": "easy"}}, LevelError), ({"level": 3}, TypeError), ({"level": []}, ValueError)],
)
def test_wrong_levels_are_refused(wrong, error):
    with pytest.raises(error):
        HeistEnv(**wrong)


@pytest.mark.parametrize("seed", [-1, 1.5, "zero"])
def test_a_wrong_seed_is_refused(seed):
    with pytest.raises(ValueError, match="seed"):
        HeistEnv(observation="symbols").reset(seed=seed)


def test_a_window_shows_and_closes_twice():
    env = gymnasium.make("envgen/Heist-v0", render_mode="human", render_size=99)
    env.reset(seed=0)
    env.step(0)
    env.close()
    env.close()


@pytest.mark.parametrize("mode", t.MODES)
def test_symbols_show_the_world_around_the_agent(mode):
    env = HeistEnv({"mode": mode}, observation="symbols")
    seen, _ = env.reset(seed=4)
    radius = 4 if mode == "memory" else 12
    for _ in range(60):
        said, e = symbols.decode(seen), env.engine.envs[0]
        i, j = int(e["x"]), int(e["y"])
        for row in range(25):
            for column in range(25):
                x, y = i + column - 12, j + 12 - row
                there = max(abs(x - i), abs(y - j)) <= radius and 0 <= x < 25 and 0 <= y < 25
                assert said["map"][row][column] == (t.SIGNS[e["grid"][y, x]] if there else "wall")
        assert said["place"] == pytest.approx((e["x"] % 1, e["y"] % 1), abs=1 / 32)
        assert said["velocity"] == pytest.approx((e["vx"], e["vy"]), abs=1 / 255)
        assert said["keys"] == tuple(c for c, held in zip(t.COLOURS, e["has_key"], strict=True) if held)
        seen, _, stolen, _, _ = env.step(int(expert_actions(env.engine)[0]))
        if stolen:
            break


@pytest.mark.parametrize("action", range(9))
def test_symbols_say_which_way_the_agent_faces(action):
    env = HeistEnv(observation="symbols")
    seen, _ = env.reset(seed=0)
    assert symbols.decode(seen)["facing"] == "right"  # as in the picture, before any direction is pressed
    said = symbols.decode(env.step(action)[0])["facing"]
    assert said == FACED[action]


FACED = (
    "down and left", "left", "up and left", "down", "right", "up", "down and right", "right", "up and right",
)  # fmt: skip


def test_an_agents_first_layer_takes_the_symbols():
    torch = pytest.importorskip("torch")
    from envgen.agents.symbols import SymbolEmbedding

    envs = Heist().make([{}], num_envs=3, seed=0, observation="symbols")
    seen, _ = envs.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer = SymbolEmbedding(symbols.HIGHEST.astype(np.int64), 16)
    assert layer(torch.from_numpy(seen)).shape == (3, 16)


def test_decoding_something_else_is_refused():
    with pytest.raises(ValueError, match=r"shape \(633,\), not \(3,\)"):
        symbols.decode(np.zeros(3, np.uint8))


def test_text_is_exact_and_short():
    env = HeistEnv({"keys": "two", "maze_size": 9, "held": {"blue": True}}, observation="text")
    said, _ = env.reset(seed=3)
    assert env.observation_space.contains(said)
    assert "You hold the blue key." in said
    assert "You face right and stand still" in said
    assert "blue door" in said
    assert "green key" in said
    assert said.count("@") == 2  # in the legend and on the map


def test_no_world_makes_a_text_too_long():
    seen = np.zeros(symbols.SIZE, np.uint8)
    seen[: symbols.CELLS] = t.FLOOR
    seen[[0, 1, 2, 25, 26, 27, 600]] = range(t.KEY, t.GEM + 1)
    seen[symbols.VELOCITY_AT : symbols.KEYS_AT] = 3, 250
    seen[symbols.KEYS_AT : symbols.FACING_AT] = 1
    said = symbols.describe(seen)
    assert len(said) < TEXT_LENGTH
    assert set(said) <= CHARACTERS


def test_the_world_gives_what_a_designer_needs():
    world = Heist()
    assert world.original == HeistLevel()
    assert world.actions == t.ACTIONS
    assert [skill.name for skill in world.skills][0::6] == ["take_blue_key", "steal_gem"]
    assert set(world.skill_levels) == {skill.name for skill in world.skills}
    assert set(world.key_bindings.values()) == set(t.ACTIONS[:9])
    schema = world.Level.model_json_schema()
    assert schema["properties"]["mode"]["enum"] == ["easy", "hard", "memory"]
    assert all("description" in field for field in schema["properties"].values())
    assert world.single(seed=1).reset()[1]["seed"] == world.make([{}, {}], seed=1).reset()[1]["seed"][0]
    assert world.render_levels({"a": {}, "b": {"mode": "memory"}}).size[0] > 700


@pytest.mark.parametrize("skill", [skill.name for skill in t.SKILLS])
def test_a_lesson_brings_its_skill_next(skill):
    world = Heist()
    lesson = world.skill_levels[skill]
    census = world.level_stats(lesson, range(40))
    assert census.possible[skill] > 0.9
    others = [moves for name, moves in census.moves.items() if moves is not None and name not in (skill, "steal_gem")]
    assert census.moves[skill] <= min([*others, 15])
    assert skill in world.reachable_skills(lesson, census)


def test_what_a_level_makes_impossible_is_named():
    world = Heist()

    def lost(level):
        return {skill.name for skill in world.skills} - world.reachable_skills(
            level, world.level_stats(level, range(30))
        )

    assert lost({}) == set()
    assert lost({"keys": "none"}) == {skill.name for skill in world.skills} - {"steal_gem"}
    assert lost({"held": {"green": True}}) == {"take_green_key"}
    assert lost({"open": {"red": True}}) == {"open_red_door"}
    assert lost({"maze_size": 25, "keys": "none", "gem_away": "long", "length": 3}) >= {"steal_gem"}


def test_a_census_says_the_same_names_for_every_level_that_has_the_same():
    world = Heist()
    figures = world.level_stats(None, range(50)).as_dict()
    assert figures["worlds with steal_gem, %"] == 100
    assert figures["moves to take_green_key"] > figures["moves to take_blue_key"]
    assert figures["keys per world"] == figures["doors per world"]
    assert "steal_gem" in str(world.level_stats(None, range(3)))
    with pytest.raises(ValueError, match="at least one seed"):
        world.level_stats(None, ())
