"""The engine equals the `crafter` package: observations, rewards, inventories and maps are the same at every step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envgen.worlds.crafter.constants import ACTIONS, CENTER, ENTITIES, GRASS, ITEMS, SKILLS, SLEEP, WALKABLE
from envgen.worlds.crafter.entities import compact, entity_at, move_entity, remove_entity, set_ground
from envgen.worlds.crafter.env import CrafterEnv
from envgen.worlds.crafter.expert_policy import expert_actions
from envgen.worlds.crafter.reference import ParityChecker, ParityError


def run_parity_check(seed: int, steps: int, choose_action, **kwargs) -> ParityChecker:
    checker = ParityChecker(seed, **kwargs)
    rng = np.random.default_rng(seed)
    checker.step_all(choose_action(checker, rng) for _ in range(steps))
    return checker


def random_action(checker, rng):
    return int(rng.integers(len(ACTIONS)))


def expert_action(checker, rng):
    return int(expert_actions(checker.env.engine)[0])


def mostly_sleep(checker, rng):
    return SLEEP if rng.random() < 0.95 else random_action(checker, rng)


@pytest.mark.parametrize("seed", range(3))
def test_random_actions(seed):
    run_parity_check(seed, 400, random_action)


@pytest.mark.parametrize("seed", [11, 12])
def test_sleeping_through_nights_and_later_episodes(seed):
    checker = run_parity_check(seed, 700, mostly_sleep)
    assert checker.reference_env._episode > 1


def test_expert_meets_all_entities_and_most_skills():
    skills, kinds = set(), set()
    for seed in (0, 1, 5):
        checker = ParityChecker(seed)
        checker.reset()
        for _ in range(500):
            entities = checker.env.engine.state.entities[0][: checker.env.engine.state.envs["num_entities"][0]]
            kinds |= {ENTITIES[kind] for kind in entities["kind"]}
            ended = checker.step(int(expert_actions(checker.env.engine)[0]))
            now = checker.env.engine.results.report[0]
            skills |= {skill.name for skill, n in zip(SKILLS, now["achievements"], strict=True) if n}
            if ended:
                checker.reset()
    assert kinds == {"player", "cow", "zombie", "skeleton", "arrow", "plant"}
    assert len(skills) >= 16


def test_truncated_episode():
    checker = ParityChecker(3, length=30)
    checker.reset()
    assert [checker.step(0) for _ in range(30)] == [False] * 29 + [True]
    assert checker.reference_env._player.health > 0
    checker.reset()
    checker.step_all([1, 2, 3, 4, 5] * 4)


@pytest.mark.parametrize("size", [84, 96, (90, 135), (64, 48)])
def test_other_image_sizes_use_the_same_random_numbers(size):
    checker = ParityChecker(4, size=size)
    checker.reset()
    night_steps = 0
    for k in range(200):
        if checker.step(k % 5):
            checker.reset()
        night_steps += int(checker.env.engine.state.envs["daylight"][0] < 0.5)
    assert night_steps > 10


@given(seed=st.integers(0, 2**31 - 2), actions=st.lists(st.integers(0, len(ACTIONS) - 1), min_size=1, max_size=60))
@settings(max_examples=10, deadline=None)
def test_arbitrary_seeds_and_actions(seed, actions):
    ParityChecker(seed, length=25).step_all(actions)


CORNERS = [(0, 0), (0, 63), (63, 0), (63, 63), (0, 31), (31, 0), (63, 31), (31, 63)]


@pytest.mark.parametrize("corner", CORNERS)
def test_edges_of_the_map(corner):
    checker = ParityChecker(1)
    checker.reset()
    world, player = checker.reference_env._world, checker.reference_env._player
    env, entities = checker.env.engine.state.envs[0], checker.env.engine.state.entities[0]
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
        if checker.step(action):
            break


def test_a_difference_raises():
    checker = ParityChecker(0)
    checker.reset()
    checker.env.engine.state.envs["inventory"][0, 4] = 1
    with pytest.raises(ParityError, match="observation of seed 0 after 1 steps"):
        checker.step(0)


@pytest.mark.parametrize("observation", ["symbols", "text"])
def test_trajectory_does_not_depend_on_the_observation(observation):
    env, other = CrafterEnv(), CrafterEnv(observation=observation)
    env.reset(seed=6)
    other.reset(seed=6)
    rng = np.random.default_rng(6)
    for _ in range(300):  # into the night, when the image uses the environment's random generator
        action = int(rng.integers(len(ACTIONS)))
        result, other_result = env.step(action), other.step(action)
        assert result[1:4] == other_result[1:4]
        if result[2] or result[3]:
            env.reset()
            other.reset()
        assert np.array_equal(env.engine.state.envs["rng"], other.engine.state.envs["rng"])
        assert np.array_equal(env.engine.state.entities, other.engine.state.entities)


def test_render_does_not_change_the_environment():
    env = CrafterEnv({"time_of_day": 200}, render_mode="rgb_array")
    env.reset(seed=1)
    before = env.engine.state.envs.copy()
    first = env.render()
    assert first.shape == (576, 576, 3)
    assert np.array_equal(env.render(), first)
    assert np.array_equal(env.engine.state.envs, before)
