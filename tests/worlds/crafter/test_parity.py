"""Ours is the original: every byte of every observation, reward, inventory and map, step by step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgen.worlds.crafter.constants import ACTIONS, CENTER, ENTITIES, GRASS, ITEMS, SKILLS, SLEEP, WALKABLE
from envgen.worlds.crafter.entities import compact, entity_at, move_entity, remove_entity, set_ground
from envgen.worlds.crafter.env import CrafterEnv
from envgen.worlds.crafter.expert_policy import expert_actions
from envgen.worlds.crafter.original import ParityChecker, ParityError


def played(seed: int, steps: int, choose, **kwargs) -> ParityChecker:
    pair = ParityChecker(seed, **kwargs)
    rng = np.random.default_rng(seed)
    pair.play(choose(pair, rng) for _ in range(steps))
    return pair


def at_random(pair, rng):
    return int(rng.integers(len(ACTIONS)))


def like_an_expert(pair, rng):
    return int(expert_actions(pair.env.engine)[0])


def sleepily(pair, rng):
    return SLEEP if rng.random() < 0.95 else at_random(pair, rng)


@pytest.mark.parametrize("seed", range(3))
def test_random_play(seed):
    played(seed, 400, at_random)


@pytest.mark.parametrize("seed", [11, 12])
def test_nights_asleep_and_later_episodes(seed):
    pair = played(seed, 700, sleepily)
    assert pair.original._episode > 1


def test_an_expert_reaches_caves_fights_arrows_plants_and_tools():
    reached, seen = set(), set()
    for seed in (0, 1, 5):
        pair = ParityChecker(seed)
        pair.reset()
        for _ in range(500):
            entities = pair.env.engine.state.entities[0][: pair.env.engine.state.envs["num_entities"][0]]
            seen |= {ENTITIES[kind] for kind in entities["kind"]}
            ended = pair.step(int(expert_actions(pair.env.engine)[0]))
            now = pair.env.engine.results.report[0]
            reached |= {skill.name for skill, n in zip(SKILLS, now["achievements"], strict=True) if n}
            if ended:
                pair.reset()
    assert seen == {"player", "cow", "zombie", "skeleton", "arrow", "plant"}
    assert len(reached) >= 16


def test_an_episode_that_ends_by_time():
    pair = ParityChecker(3, length=30)
    pair.reset()
    assert [pair.step(0) for _ in range(30)] == [False] * 29 + [True]
    assert pair.original._player.health > 0
    pair.reset()
    pair.play([1, 2, 3, 4, 5] * 4)


@pytest.mark.parametrize("size", [84, 96, (90, 135), (64, 48)])
def test_other_sizes_of_picture_draw_and_consume_what_the_original_does(size):
    pair = ParityChecker(4, size=size)
    pair.reset()
    nights = 0
    for k in range(200):
        if pair.step(k % 5):
            pair.reset()
        nights += int(pair.env.engine.state.envs["daylight"][0] < 0.5)
    assert nights > 10


@given(seed=st.integers(0, 2**31 - 2), actions=st.lists(st.integers(0, len(ACTIONS) - 1), min_size=1, max_size=60))
@settings(max_examples=10, deadline=None)
def test_any_seed_and_any_actions(seed, actions):
    ParityChecker(seed, length=25).play(actions)


CORNERS = [(0, 0), (0, 63), (63, 0), (63, 63), (0, 31), (31, 0), (63, 31), (31, 63)]


@pytest.mark.parametrize("corner", CORNERS)
def test_the_edges_of_the_map(corner):
    pair = ParityChecker(1)
    pair.reset()
    world, player = pair.original._world, pair.original._player
    env, entities = pair.env.engine.state.envs[0], pair.env.engine.state.entities[0]
    if world[corner][1] is not None:
        world.remove(world[corner][1])
        remove_entity(env, entities, entity_at(env, *corner))
        compact(env, entities)
    world[corner] = "grass"
    set_ground(env, *corner, GRASS)
    world.move(player, np.array(corner))
    move_entity(env, entities, 0, (corner[0] - CENTER, corner[1] - CENTER), WALKABLE)
    for k, item in enumerate(ITEMS):
        player.inventory[item] = 9
        env["inventory"][k] = 9
    rng = np.random.default_rng(0)
    for action in [8, 2, 9, 3, 1, 11, 14, 12, 4, 7, 13, 16, 15, 10, *rng.integers(0, len(ACTIONS), 60).tolist()]:
        if pair.step(action):
            break


def test_a_difference_does_not_go_unseen():
    pair = ParityChecker(0)
    pair.reset()
    pair.env.engine.state.envs["inventory"][0, 4] = 1
    with pytest.raises(ParityError, match="observation of seed 0 after 1 steps"):
        pair.step(0)


@pytest.mark.parametrize("observation", ["symbols", "text"])
def test_one_seed_has_one_trajectory_whatever_is_observed(observation):
    seen, other = CrafterEnv(), CrafterEnv(observation=observation)
    seen.reset(seed=6)
    other.reset(seed=6)
    rng = np.random.default_rng(6)
    for _ in range(300):  # into the night, where the picture draws noise from the world's stream
        action = int(rng.integers(len(ACTIONS)))
        a, b = seen.step(action), other.step(action)
        assert a[1:4] == b[1:4]
        if a[2] or a[3]:
            seen.reset()
            other.reset()
        assert np.array_equal(seen.engine.state.envs["rng"], other.engine.state.envs["rng"])
        assert np.array_equal(seen.engine.state.entities, other.engine.state.entities)


def test_drawing_for_a_person_does_not_touch_the_world():
    env = CrafterEnv({"time_of_day": 200}, render_mode="rgb_array")
    env.reset(seed=1)
    before = env.engine.state.envs.copy()
    first = env.render()
    assert first.shape == (576, 576, 3)
    assert np.array_equal(env.render(), first)
    assert np.array_equal(env.engine.state.envs, before)
