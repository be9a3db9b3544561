"""The observation "symbols+unlocked": the symbols, and a bit for each skill that has succeeded or counts as done."""

import numpy as np
import pytest

from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist


@pytest.mark.parametrize("world", [Crafter(), Heist()], ids=lambda world: world.name)
def test_bits_follow_the_symbols_and_start_again_with_each_episode(world):
    level = {"length": 60, "inventory": {"wood": 9, "sapling": 1}} if world.name == "crafter" else None
    plain, marked = (world.make([level], 8, 0, observation) for observation in ("symbols", "symbols+unlocked"))
    num_skills = len(world.skills)
    done = np.array([skill.name in world.Level.parse(level).done_skills for skill in world.skills])
    assert done.sum() == (2 if world.name == "crafter" else 0)
    (obs, _), (marked_obs, infos) = plain.reset(), marked.reset()
    num_unlocked = num_ends = 0
    for _ in range(150):
        np.testing.assert_array_equal(marked_obs[:, :-num_skills], obs)
        np.testing.assert_array_equal(marked_obs[:, -num_skills:], (infos["achievements"] > 0) | done)
        num_unlocked += int(marked_obs[:, -num_skills:].sum())
        assert marked.observation_space.contains(marked_obs)
        actions = world.expert_actions(marked)
        if actions is None:
            actions = np.zeros(8, np.int64)
        obs, *_ = plain.step(actions)
        marked_obs, _, terminated, truncated, infos = marked.step(actions)
        for i in np.flatnonzero(terminated | truncated):
            num_ends += 1
            final_obs, achievements = infos["final_obs"][i], infos["final_info"]["achievements"][i]
            np.testing.assert_array_equal(final_obs[-num_skills:], (achievements > 0) | done)
    assert num_unlocked
    assert num_ends
    single = world.single(level, 0, "symbols+unlocked")
    assert single.observation_space == marked.single_observation_space
    assert single.observation_space.contains(single.reset()[0])


def test_the_reference_package_shows_the_same_bits():
    world = Crafter()
    ours = world.make(num_envs=2, seed=3, observation="symbols+unlocked")
    theirs = world.reference_envs(2, 3, "symbols+unlocked", ordered=True)
    (obs, _), (reference_obs, _) = ours.reset(), theirs.reset()
    for _ in range(60):
        np.testing.assert_array_equal(obs, reference_obs)
        actions = world.expert_actions(ours)
        obs, reference_obs = ours.step(actions)[0], theirs.step(actions)[0]
    assert obs[:, -len(world.skills) :].any()
