"""The level archive: scores and priorities as published, one entry per level, bounded, saved exactly."""

import json

import numpy as np
import pytest
from pydantic import Field

from envgen.designers.buffer import (
    RATE_DECAY,
    LevelArchive,
    LevelEpisode,
    LevelOrigin,
    learnability,
    max_mc,
    rank_weights,
    staleness_weights,
)
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.world import Level, Skill

RANDOM = LevelOrigin("plr", "random")


class NumberLevel(Level):
    number: int = Field(default=0, ge=0, le=99)
    """A number."""

    @property
    def done_skills(self) -> tuple[str, ...]:
        return ("read",) if self.number == 99 else ()


SKILLS = (Skill("read"), Skill("write", ("read",)))


def make_buffer(capacity: int = 3, **settings) -> LevelArchive:
    return LevelArchive(NumberLevel, SKILLS, capacity, **settings)


def episode(level_id: int, score: float = 0.0, counts=(0, 0), episode_return: float = 0.0, mean_value: float = 0.0):
    return LevelEpisode(level_id, episode_return, np.array(counts), score, mean_value)


def filled(scores, **settings) -> LevelArchive:
    """An archive whose level `number=k` has the id k and scores[k]."""
    buffer = make_buffer(len(scores), **settings)
    for k, score in enumerate(scores):
        buffer.num_sampled += 1
        assert buffer.add(episode(k, score), NumberLevel(number=k), RANDOM)
    return buffer


# --- formulas, against the definitions in the papers


def test_rank_weights_are_powers_of_the_rank():
    scores, temperature = np.array([0.2, 0.9, -1.0, 0.5]), 0.3
    ranks = [3, 1, 4, 2]
    expected = np.array([(1 / rank) ** (1 / temperature) for rank in ranks])
    np.testing.assert_allclose(rank_weights(scores, temperature), expected / expected.sum())


def test_rank_weights_stay_finite_at_low_temperatures():
    weights = rank_weights(np.arange(1000.0), 0.01)
    assert weights[-1] == pytest.approx(1)
    assert np.isfinite(weights).all()


def test_staleness_weights_grow_with_the_episodes_since_the_last_sample():
    np.testing.assert_allclose(staleness_weights(np.array([10, 4, 8]), 10), [0, 6 / 8, 2 / 8])
    np.testing.assert_allclose(staleness_weights(np.array([10, 10]), 10), [0.5, 0.5])


def test_priorities_mix_scores_and_staleness():
    buffer = filled([0.1, 0.7, 0.4], temperature=0.5, staleness_coef=0.25)
    by_rank = np.array([1 / 9, 1, 1 / 4])  # (1 / rank)^2
    by_staleness = np.array([2, 1, 0]) / 3  # sampled in episodes 1, 2 and 3 of 3
    np.testing.assert_allclose(buffer.weights(), 0.75 * by_rank / by_rank.sum() + 0.25 * by_staleness)


def test_learnability_is_the_mean_of_p_1_minus_p_over_tried_skills():
    succeeded, tried = np.array([[1, 0, 0], [4, 2, 0], [0, 0, 0]]), np.array([[2, 0, 4], [4, 4, 0], [0, 0, 0]])
    expected = [(0.25 + 0) / 2, (0 + 0.25) / 2, 0]
    np.testing.assert_allclose(learnability(succeeded, tried), expected)


def test_max_mc_subtracts_the_mean_value_from_the_highest_return():
    rewards_sum, values = 3.0, np.array([0.5, 1.0, 2.5, 0.0])
    expected = np.mean([rewards_sum - value for value in values])
    np.testing.assert_allclose(max_mc(np.array([rewards_sum]), np.array([values.mean()])), [expected])


# --- entries


def test_success_rates_decay_and_leave_out_what_is_granted_or_impossible():
    buffer = make_buffer()
    level = NumberLevel(number=99)  # grants `read`
    buffer.add(episode(0, counts=(1, 1)), level, RANDOM)
    row = buffer.row_of(level)
    buffer.update(row, episode(0, counts=(1, 0)))
    buffer.update(row, episode(0, counts=(1, -1)))  # `write` was impossible
    np.testing.assert_allclose(buffer.tried[row], [0, 1 + RATE_DECAY])
    np.testing.assert_allclose(buffer.succeeded[row], [0, RATE_DECAY])
    p = RATE_DECAY / (1 + RATE_DECAY)
    np.testing.assert_allclose(buffer.learnability(), [p * (1 - p)])
    [entry] = buffer.entries()
    assert entry["success_rates"] == {"write": pytest.approx(100 * p, abs=0.01)}
    assert entry["episodes"] == 3


def test_estimates_of_regret_follow_the_latest_episode():
    buffer = filled([0.8], score="max_mc", score_alpha=0.25)
    buffer.update(0, episode(0, 0.4, episode_return=5, mean_value=2))
    buffer.update(0, episode(0, 0.4, episode_return=1, mean_value=2))
    expected_loss = 0.8 + 0.25 * (0.4 - 0.8)
    expected_loss += 0.25 * (0.4 - expected_loss)
    expected_value = 0.5 + 0.25 * (2 - 0.5)
    assert buffer.positive_value_losses[0] == pytest.approx(expected_loss)
    np.testing.assert_allclose(buffer.scores(), [5 - expected_value])
    assert buffer.mean_returns[0] == pytest.approx(2)


def test_highest_return_can_be_negative():
    buffer = make_buffer(score="max_mc")
    buffer.add(episode(0, episode_return=-2.0, mean_value=-3.0), NumberLevel(), RANDOM)
    np.testing.assert_allclose(buffer.scores(), [1.0])


def test_equal_levels_are_one_entry():
    buffer = make_buffer()
    buffer.add(episode(0, 0.1), NumberLevel(number=5), RANDOM)
    buffer.add(episode(7, 0.6), NumberLevel(number=5), LevelOrigin("accel", "mutation", 0))
    assert len(buffer) == 1
    assert (buffer.ids[0], buffer.episodes[0], buffer.origins[0]) == (0, 2, RANDOM)
    assert buffer.scores()[0] == pytest.approx(0.6)


def test_full_archive_replaces_the_lowest_priority_by_a_higher_score():
    buffer = filled([0.5, 0.1, 0.9], staleness_coef=0.0)
    assert not buffer.add(episode(3, 0.1), NumberLevel(number=3), RANDOM)
    assert buffer.add(episode(4, 0.2, counts=(1, 1)), NumberLevel(number=4), RANDOM)
    assert [level.number for level in buffer.levels] == [0, 4, 2]
    assert buffer.row_of(NumberLevel(number=1)) is None
    assert buffer.row_of_id(1) is None
    assert buffer.row_of_id(4) == 1
    assert (buffer.episodes[1], buffer.tried[1].tolist(), buffer.scores()[1]) == (1, [1, 1], 0.2)


def test_stale_level_is_kept_although_its_score_is_low():
    buffer = filled([0.1, 0.5, 0.9], staleness_coef=0.9)
    assert buffer.add(episode(3, 0.95), NumberLevel(number=3), RANDOM)
    assert NumberLevel(number=0) in buffer.levels
    assert NumberLevel(number=2) not in buffer.levels  # sampled last


def test_sampling_follows_the_priorities():
    buffer, rng = filled([0.1, 0.7, 0.4], temperature=1.0), np.random.default_rng(0)
    rows = [buffer.sample(rng) for _ in range(4000)]
    np.testing.assert_allclose(np.bincount(rows, minlength=3) / 4000, buffer.weights(), atol=0.03)


def test_uniform_prioritization_ignores_scores():
    np.testing.assert_allclose(filled([0.1, 0.7], prioritization="uniform").weights(), [0.5, 0.5])


# --- state


def test_restored_archive_continues_exactly():
    buffer = filled([0.3, 0.1, 0.2, 0.4])
    buffer.update(1, episode(1, 0.6, counts=(2, -1), episode_return=3, mean_value=1))
    arrays, values = buffer.state()
    copy = make_buffer(4)
    copy.load(arrays, json.loads(json.dumps(values)))
    assert copy.entries() == buffer.entries()
    for archive in (buffer, copy):
        archive.num_sampled += 1
        archive.mark_sampled(2)
        archive.add(episode(9, 0.9), NumberLevel(number=9), RANDOM)
    assert copy.levels == buffer.levels
    np.testing.assert_array_equal(copy.weights(), buffer.weights())


def test_levels_of_crafter_survive_saving():
    world = Crafter()
    level = world.Level.parse({"near": {"table": True, "cows": 2}, "done": ["collect_wood"], "inventory": {"wood": 3}})
    buffer = LevelArchive(world.Level, world.skills, 2)
    buffer.add(LevelEpisode(0, 1.0, np.zeros(22, np.int64), 0.1, 0.2), level, RANDOM)
    arrays, values = buffer.state()
    copy = LevelArchive(world.Level, world.skills, 2)
    copy.load(arrays, json.loads(json.dumps(values)))
    assert copy.levels == [level]
    assert copy.row_of(level) == 0


def test_damaged_state_is_refused():
    buffer = filled([0.3, 0.1])
    arrays, values = buffer.state()
    damage = [
        ({"episodes": np.zeros(3, np.int64)}, {}),
        ({"tried": np.full((2, 2), np.nan)}, {}),
        ({"ids": np.zeros(2)}, {}),
        ({}, {"num_sampled": 1}),  # less than the level sampled last
        ({}, {"levels": [{}, {}]}),
        ({}, {"origins": [["plr", "random", 0.5]] * 2}),
    ]
    for changed_arrays, changed_values in damage:
        with pytest.raises(ValueError, match=r"archive is damaged|not the origin of a level"):
            make_buffer(2).load(arrays | changed_arrays, values | changed_values)
    with pytest.raises(ValueError, match="was saved with other settings"):
        make_buffer(1).load(arrays, values)
