"""An evaluation counts fairly, disturbs nothing, and comes out the same in the original package."""

import numpy as np
import pytest

from envgen.agents.ppo import PPO
from envgen.curriculum.evaluate import (
    Estimate,
    evaluate,
    rate_with_ci,
    run_episodes,
    score,
    score_with_ci,
    summarize_episodes,
)
from envgen.worlds.crafter.constants import SKILLS
from envgen.worlds.crafter.original import ParityChecker, symbols_of_original
from envgen.worlds.crafter.world import Crafter


@pytest.fixture(scope="module")
def agents() -> dict[str, PPO]:
    """Untrained, but with preferences: their first layer's choice is scaled up."""
    made = {}
    for observation in ("symbols", "pixels"):
        made[observation] = PPO.for_envs(CrafterVectorEnv(1, None, observation), seed=2)
        made[observation].network.policy_head.weight.data *= 50
    return made


@pytest.mark.parametrize(("observation", "episodes"), [("symbols", 6), ("pixels", 2)])
def test_in_the_package_with_ordered_sets_every_episode_is_the_same(agents, observation, episodes):
    """Same seeds, same policy, same numbers drawn: returns, lengths and skills are equal one by one."""
    count, world = 2, Crafter()
    ours = world.make([{}], num_envs=count, seed=70, observation=observation)
    theirs = world.published(count, 70, observation, episodes, ordered=True)
    results = [run_episodes(agents[observation], envs, episodes, np.random.default_rng(1)) for envs in (ours, theirs)]
    for mine, its in zip(*results, strict=True):
        np.testing.assert_allclose(mine, its, atol=1e-9)
    assert results[0][1].min() > 20


def test_symbols_read_off_the_package_are_ours():
    pair, rng = ParityChecker(seed=5), np.random.default_rng(0)
    twin = CrafterVectorEnv(1, None, "symbols")
    pair.reset()
    seen, _ = twin.reset(seed=5)
    for _ in range(250):
        np.testing.assert_array_equal(symbols_of_original(pair.original), seen[0])
        action = int(rng.integers(17))
        if pair.step(action):
            pair.reset()
        seen, *_ = twin.step(np.array([action]))


def test_the_package_as_it_is_agrees_within_the_interval(agents):
    """The package is not repeatable, so figures are compared; from the same seeds, lest chance fail this test."""
    world = Crafter()
    ours = evaluate(agents["symbols"], world, episodes=12, seed=9)
    theirs = evaluate(agents["symbols"], world, episodes=12, seed=9, envs=world.published(12, 9))
    assert ours.reward.agrees_with(theirs.reward)
    assert ours.score.agrees_with(theirs.score)


def test_an_evaluation_repeats_itself_and_disturbs_nothing(agents):
    agent = agents["symbols"]
    before = agent.state()[1]
    first, second = (evaluate(agent, Crafter(), {"length": 60}, episodes=10, seed=4) for _ in range(2))
    assert first == second
    assert first.level["length"] == 60
    assert agent.state()[1] == before
    assert first != evaluate(agent, Crafter(), {"length": 60}, episodes=10, seed=5)


def test_every_environment_plays_as_many_episodes_as_the_others():
    """Short episodes must not crowd out long ones: with the first to end, all would be from the short level."""

    class Still:
        def act(self, observations, random=None):
            return np.zeros(len(observations), np.int64)

    levels = [{"length": 5}, {"length": 50, "zombies": "none"}]
    envs = Crafter().make(levels, 2, seed=0, observation="symbols")  # worlds in which who stands still is let live
    _, lengths, achieved = run_episodes(Still(), envs, 6, None)
    assert lengths.tolist() == [5, 5, 5, 50, 50, 50]
    assert achieved.shape == (6, 22)


def test_rates_have_wilsons_interval():
    assert rate_with_ci(0, 50).low == 0
    assert rate_with_ci(0, 50).high == pytest.approx(7.1, abs=0.1)
    half = rate_with_ci(50, 100)
    assert (half.value, half.low, half.high) == pytest.approx((50, 40.4, 59.6), abs=0.1)
    assert rate_with_ci(10, 10).high == pytest.approx(100)


def test_the_score_is_crafters():
    assert score(np.zeros(22)) == 0
    assert score(np.full(22, 100.0)) == pytest.approx(100)
    one_skill = np.zeros(22)
    one_skill[0] = 100
    assert score(one_skill) == pytest.approx(101 ** (1 / 22) - 1)
    succeeded = np.random.default_rng(0).random((200, 22)) < 0.3
    figure = score_with_ci(succeeded)
    assert figure.low < figure.value < figure.high
    assert figure.low > 25
    assert figure.high < 35


def test_figures_agree_when_their_difference_is_within_its_interval():
    assert Estimate(value=10, low=9, high=11).agrees_with(Estimate(value=11.3, low=10.3, high=12.3))
    assert not Estimate(value=10, low=9, high=11).agrees_with(Estimate(value=11.5, low=10.5, high=12.5))


def test_skills_are_named_and_none_is_missing(agents):
    found = evaluate(agents["symbols"], Crafter(), {"length": 30}, episodes=4)
    assert list(found.skills) == [skill.name for skill in SKILLS]
    assert "collect_diamond" in str(found)
    with pytest.raises(ValueError, match="at least 1 episode, not 0"):
        evaluate(agents["symbols"], Crafter(), episodes=0)


def test_a_skill_is_judged_by_the_episodes_that_could_hold_it():
    achieved = np.array([[1, -1, -1], [0, 2, -1], [3, 0, -1], [0, -1, -1]])
    found = summarize_episodes(["any", "some", "none"], np.zeros(4), np.ones(4), achieved,
                          world="w", level={}, seed=0, greedy=False)  # fmt: skip
    assert [found.skills[name].value for name in ("any", "some", "none")] == [50, 50, 0]
    assert (found.skills["none"].low, found.skills["none"].high) == (0, 100)
    assert found.score.value == pytest.approx(50)  # the skill that was never possible is not counted as failed
