"""A level does what it says, is solvable whatever it says, and is refused by name when it is not one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgen.worlds.heist import constants as t
from envgen.worlds.heist.engine import Engine
from envgen.worlds.heist.env import HeistEnv
from envgen.worlds.heist.expert_policy import expert_actions
from envgen.worlds.heist.kernel import NO_VIEW
from envgen.worlds.heist.level import HeistLevel
from envgen.worlds.heist.level_stats import take_census
from envgen.worlds.heist.reference import play, players
from envgen.worlds.heist.rules import PLAYER
from envgen.worlds.heist.vector import HeistVectorEnv
from envgen.worlds.world import LevelError

SEEDS = range(60)
ONLY_GEM = {"steal_gem"}


def begun(level, seeds=SEEDS) -> Engine:
    engine = Engine(len(seeds), [HeistLevel.parse(level)], False, NO_VIEW, threads=1)
    for i, seed in enumerate(seeds):
        engine.seed(i, seed)
    engine.reset(np.ones(len(seeds), np.bool_))
    return engine


def levels() -> st.SearchStrategy[HeistLevel]:
    def of(model):
        fields = {}
        for name, field in model.model_fields.items():
            kind = field.annotation
            if kind is bool:
                fields[name] = st.booleans()
            elif kind is int:
                limits = {type(mark).__name__: mark for mark in field.metadata}
                fields[name] = st.integers(limits["Ge"].ge, limits["Le"].le)
            elif hasattr(kind, "model_fields"):
                fields[name] = of(kind)
            else:
                fields[name] = st.sampled_from(kind.__args__)
        return st.builds(model, **fields)

    return of(HeistLevel)


@given(level=levels(), seed=st.integers(0, 2**31))
@settings(max_examples=150)
def test_every_level_of_the_schema_is_solvable_and_the_expert_solves_it(level, seed):
    unhurried = level.model_copy(update={"length": t.MAX_LENGTH})
    env = HeistEnv(unhurried, observation="symbols")
    _, info = env.reset(seed=seed)
    assert info["shortest"] > 0
    assert info["possible"]["steal_gem"]
    plan = []
    for _ in range(t.MAX_LENGTH):
        plan.append(int(expert_actions(env.engine)[0]))
        _, _, stolen, cut, info = env.step(plan[-1])
        if stolen or cut:
            break
    assert info["achievements"]["steal_gem"] == 1
    assert len(plan) * 1.5 * 0.62 > info["shortest"] - 1  # nobody is faster than light
    env.reset(seed=seed)
    *_, stolen, _, _ = [env.step(action) for action in plan][-1]
    assert stolen  # a plan works again


@given(level=levels(), seed=st.integers(0, 2**31), data=st.data())
@settings(max_examples=60)
def test_nobody_walks_through_walls_or_locked_doors_and_keys_are_neither_made_nor_lost(level, seed, data):
    env = HeistEnv(level, observation="symbols")
    seen, info = env.reset(seed=seed)
    e = env.engine.envs[0]
    lying = {int(thing["colour"]) for thing in e["things"][: e["count"]] if thing["kind"] == t.A_KEY}
    held = {colour for colour in range(t.KEYS) if e["has_key"][colour]}
    assert not lying & held
    assert lying | held == set(range(e["num_doors"])) | held
    shuffled = np.random.default_rng(data.draw(st.integers(0, 999)))
    eager = data.draw(st.floats(0, 1))
    for _ in range(80):
        action = expert_actions(env.engine)[0] if shuffled.random() < eager else shuffled.integers(0, 15)
        seen, _, terminated, truncated, info = env.step(int(action))
        assert env.observation_space.contains(seen)
        e = env.engine.envs[0]
        _check_place(e)
        things = e["things"][: e["count"]]
        now_lying = {int(k["colour"]) for k in things if k["kind"] == t.A_KEY and k["alive"]}
        now_held = {colour for colour in range(t.KEYS) if e["has_key"][colour]}
        assert now_lying | now_held == lying | held
        assert not now_lying & now_held
        for colour, name in enumerate(t.COLOURS):
            opened = info["achievements"][f"open_{name}_door"]
            assert not opened or colour in now_held
            assert info["achievements"][f"take_{name}_key"] == (colour in now_held - held)
        done = [name for name, count in info["achievements"].items() if count]
        assert all(info["possible"][name] for name in done)
        if terminated or truncated:
            break


def _check_place(e):
    """The agent lies in no wall, and in no door that it cannot open; a hair's breadth is the original's own."""
    x, y, r = float(e["x"]), float(e["y"]), float(PLAYER) * 0.98 - 1e-4
    for px in (x - r, x + r):
        for py in (y - r, y + r):
            assert 0 <= px < e["side"]
            assert 0 <= py < e["side"]
            assert e["grid"][int(py), int(px)] != t.WALL
    for door in e["things"][: e["count"]]:
        if door["kind"] == t.A_DOOR and door["alive"] and not e["has_key"][door["colour"]]:
            assert max(abs(x - door["x"]), abs(y - door["y"])) >= 0.873


def test_the_default_changes_nothing_but_what_is_asked_for_and_that_is_the_original():
    assert HeistLevel() == HeistLevel(mode="hard")
    dials = HeistLevel().to_params()
    assert dials["side"] == 13
    assert dials["push"] == 0.375
    assert dials["length"] == 1000
    assert not any(dials[name] for name in ("maze", "held", "open", "keys_away", "gem_away", "loops", "key_reward",
                                            "door_reward"))  # fmt: skip


@pytest.mark.parametrize(("mode", "side"), [("easy", 9), ("hard", 13), ("memory", 23)])
def test_the_modes_are_the_originals(mode, side):
    assert (begun({"mode": mode}).envs["side"] == side).all()


@pytest.mark.parametrize("size", [5, 9, 13, 19, 25])
def test_a_maze_is_as_large_as_asked_and_its_world_has_room_for_it(size):
    engine = begun({"maze_size": size, "world_size": 9})
    for e in engine.envs:
        y, x = np.nonzero(e["grid"] != t.WALL)
        assert np.ptp(x) + 1 == np.ptp(y) + 1 == size
        assert e["side"] == max(size, 9)


@pytest.mark.parametrize(("word", "count"), [("none", 0), ("one", 1), ("two", 2), ("three", 3)])
def test_there_are_as_many_keys_and_doors_as_asked_for(word, count):
    census = take_census({"keys": word, "maze_size": 13}, SEEDS)
    assert census.cells["keys"] == census.cells["doors"] == count
    colours = [c for c in t.COLOURS if census.possible[f"take_{c}_key"] == 1]
    assert colours == list(t.COLOURS[:count])


def test_a_key_that_is_held_does_not_lie_about_and_opens_its_door():
    engine = begun({"keys": "three", "maze_size": 13, "held": {"blue": True, "red": True}})
    assert engine.envs["has_key"].tolist() == [[1, 0, 1]] * len(SEEDS)
    assert (engine.envs["possible"] == [0, 1, 1, 1, 0, 1, 1]).all()


def test_a_door_that_is_open_is_not_there_and_its_key_is():
    engine = begun({"keys": "three", "maze_size": 13, "open": {"green": True}})
    assert (engine.envs["possible"] == [1, 1, 1, 0, 1, 1, 1]).all()
    assert (engine.envs["grid"] != t.DOOR + 1).all()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_start_is_near_the_key_asked_for_with_the_keys_before_it(number):
    colour = t.COLOURS[number]
    census = take_census({"keys": "three", "maze_size": 13, "start": f"{colour} key"}, SEEDS)
    assert census.moves[f"take_{colour}_key"] <= 2
    engine = begun({"keys": "three", "maze_size": 13, "start": f"{colour} key"})
    assert (engine.envs["has_key"] == [k < number for k in range(3)]).all()


def test_near_the_gem_all_keys_are_held_and_it_is_two_moves_away():
    engine = begun({"keys": "three", "maze_size": 13, "start": "gem"})
    assert engine.envs["has_key"].all()
    assert engine.envs["shortest"].mean() <= 2


@pytest.mark.parametrize(
    ("setting", "skill", "keys"), [("keys_away", "take_blue_key", "one"), ("gem_away", "steal_gem", "none")]
)
def test_short_is_nearer_and_long_is_farther(setting, skill, keys):
    base = {"maze_size": 13, "keys": keys}
    short, usual, far = (
        take_census(base | {setting: word}, SEEDS).moves[skill] for word in ("short", "original", "long")
    )
    assert short < 0.8 * usual < usual < 0.85 * far


def test_more_loops_leave_fewer_dead_ends():
    ends = [
        take_census({"maze_size": 13, "loops": word}, SEEDS).cells["dead ends"]
        for word in ("none", "few", "many", "all")
    ]
    assert ends == sorted(ends, reverse=True)
    assert ends[0] > 8
    assert ends[3] == 0


def test_speed_is_a_speed():
    passed = []
    for speed in ("slow", "original", "fast"):
        env = HeistEnv({"speed": speed, "loops": "all", "maze_size": 25, "keys": "none"}, observation="symbols")
        env.reset(seed=2)
        places = [env.step(7 if k < 40 else 1)[4]["player_pos"][0] for k in range(60)]
        passed.append(np.abs(np.diff(places)).max())
    assert passed == pytest.approx([0.5 * 0.6136, 0.6136, 1.5 * 0.6136], rel=0.01)


def test_an_episode_is_cut_off_when_asked():
    env = HeistEnv({"length": 5}, observation="symbols")
    env.reset(seed=0)
    assert [env.step(4)[2:4] for _ in range(5)] == [(False, False)] * 4 + [(False, True)]


def test_rewards_for_keys_and_doors_are_told_apart_and_the_original_has_none():
    level = {"keys": "two", "maze_size": 9, "key_reward": 1, "door_reward": 2}
    envs = HeistVectorEnv(2, [level, {"keys": "two", "maze_size": 9}], "symbols")
    envs.reset(seed=[3, 3])
    total, last = np.zeros(2), None
    while last is None or not last["_bonus"].all():
        _, reward, terminated, _, infos = envs.step(expert_actions(envs.engine))
        total += reward
        if terminated.any():
            assert terminated.all()
            last = infos["final_info"]
    assert total.tolist() == last["episode_return"].tolist() == [16, 10]
    assert last["bonus"].tolist() == [6, 0]


def test_changes_that_change_nothing_leave_every_game_as_it_is():
    envs = [HeistVectorEnv(4, level, "symbols") for level in ({}, {"held": {"red": False}, "length": 1000})]
    for one in envs:
        one.reset(seed=5)
    for actions in np.random.default_rng(0).integers(0, 15, (200, 4)):
        first, second = (one.step(actions) for one in envs)
        assert np.array_equal(first[0], second[0])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"mode": "extreme"}, "mode: 'extreme' is not one of easy, hard, memory"),
        ({"moed": "easy"}, "setting 'moed' is not one of .*did you mean 'mode'"),
        ({"maze_size": 6}, "maze_size: .*5, 7, 9.*6"),
        ({"keys": 3}, "keys: .*'three'.*3"),
        ({"held": {"yellow": True}}, "Held: setting 'yellow' is not one of blue, green, red"),
        ({"length": 0}, "length: .*greater than or equal to 1"),
        ({"length": 1001}, "length: .*less than or equal to 1000"),
        ({"key_reward": 0.5}, "key_reward: .*0.5"),
        ("{not json", "Invalid JSON"),
    ],
)
def test_a_level_that_is_none_is_refused_in_a_sentence(data, sentence):
    with pytest.raises(LevelError, match=f"(?s){sentence}"):
        HeistLevel.parse(data)


def test_a_level_is_a_value():
    level = HeistLevel.parse({"start": "Blue_Key"})
    assert level == HeistLevel.model_validate_json(level.model_dump_json())
    assert hash(level) == hash(HeistLevel(start="blue key"))
    with pytest.raises(ValueError, match="frozen"):
        level.mode = "easy"


def test_random_players_of_the_reference_do_what_they_should():
    from envgen.worlds.heist.original import Asked

    game = play(Asked("easy", 4, 5), 300, players(4, 5))
    won = (game.seen["reward"] > 0).sum(0)
    assert won[1] > won[0]
