"""Proposers without a model: how they choose specs, and that they resume exactly."""

import json

import numpy as np
import pytest
from toy import Toy, ToySpec

from envgen.coevolution.environment import LanguageModelProposer, StaticProposer
from envgen.coevolution.proposers import (
    NUM_SAMPLES,
    Candidate,
    GreedyProposer,
    LearnabilityProposer,
    ProposalBatch,
    UniformProposer,
)
from envgen.coevolution.reward import SuccessStats
from envgen.coevolution.settings import AlphaCurriculumSettings, EnvironmentSettings
from envgen.coevolution.task_stores import TaskFilter

SPECS = [ToySpec(which=1, letters=letter).text for letter in "abcde"]


def accepted_texts(proposals):
    return [candidate.text for candidate in proposals.accepted]


def propose(proposer, count, stats=None, task_filter=None):
    return proposer.propose(count, [], stats or SuccessStats(), task_filter or TaskFilter(Toy(), []))


def make_stats(loud, quiet):
    """Statistics by which `loud` of 100 loud tasks and `quiet` of 100 quiet ones succeeded."""
    stats = SuccessStats()
    for which in "12":
        stats.add({"which": which, "loud": "yes"}, loud, 100)
        stats.add({"which": which, "loud": "no"}, quiet, 100)
    return stats


@pytest.mark.parametrize("proposer", [UniformProposer(Toy(), 0), GreedyProposer(Toy(), 0, AlphaCurriculumSettings())])
def test_requested_number_is_proposed_without_duplicates_and_held_out_tasks(proposer):
    held_out = Toy().held_out_tasks(40)
    task_filter = TaskFilter(Toy(), held_out)
    batches = [propose(proposer, count, task_filter=task_filter) for count in (30, 20, 0)]
    assert [len(batch.accepted) for batch in batches] == [30, 20, 0]
    specs = [text for batch in batches for text in accepted_texts(batch)]
    assert len(set(specs)) == 50
    assert not set(specs) & {task.spec.text for task in held_out}
    assert all(candidate.task.spec.text == candidate.text for candidate in batches[0].accepted)
    rejected = [candidate for candidate in batches[1].candidates if candidate.task is None]
    assert {candidate.rejection for candidate in rejected} <= {"held_out", "duplicate"}


@pytest.mark.parametrize(
    "proposer",
    [
        UniformProposer(Toy(), 0, "fallback"),
        GreedyProposer(Toy(), 0, AlphaCurriculumSettings()),
        LearnabilityProposer(Toy(), 0, "learnability"),
    ],
)
def test_candidates_carry_their_proposer_and_index(proposer):
    batch = propose(proposer, 100)
    assert {candidate.proposer for candidate in batch.candidates} == {proposer.name}
    assert [candidate.index for candidate in batch.candidates] == list(range(len(batch.candidates)))
    assert len({candidate.group for candidate in batch.accepted}) == 100  # not variations of one another


def test_fewer_are_proposed_when_no_new_ones_are_left():
    batch = propose(UniformProposer(Toy(), 0), 1000)
    assert 250 < len(batch.accepted) < 1000  # 272 exist
    assert all(candidate.rejection == "duplicate" for candidate in batch.candidates if candidate.task is None)


def test_uniform_ignores_success_rates():
    specs = [ToySpec.parse(text) for text in accepted_texts(propose(UniformProposer(Toy(), 0), 200, make_stats(50, 0)))]
    assert 0.4 < np.mean([spec.loud == "yes" for spec in specs]) < 0.6


@pytest.mark.parametrize("beta", [4.0, 1e308])
@pytest.mark.parametrize(
    ("loud", "quiet", "alpha", "preferred"),
    [(50, 99, 0.5, "yes"), (50, 1, 0.5, "yes"), (99, 45, 0.5, "no"), (90, 50, 0.9, "yes"), (10, 60, 0.1, "yes")],
)
def test_greedy_prefers_features_with_success_rates_near_alpha(loud, quiet, alpha, preferred, beta):
    proposer = GreedyProposer(Toy(), 0, AlphaCurriculumSettings(alpha=alpha, beta=beta))
    specs = [ToySpec.parse(text) for text in accepted_texts(propose(proposer, 60, make_stats(loud, quiet)))]
    assert np.mean([spec.loud == preferred for spec in specs]) > 0.9


@pytest.mark.parametrize(("loud", "quiet"), [(50, 95), (50, 5), (95, 50), (90, 90)])
def test_learnability_samples_in_proportion_to_the_variance_of_success(loud, quiet):
    """Compared with the frequencies that follow from p (1 - p) of the specs sampled at the same time."""
    stats, expected, is_loud = make_stats(loud, quiet), [], []
    proposer, samples = LearnabilityProposer(Toy(), 0, "learnability"), LearnabilityProposer(Toy(), 1, "learnability")
    for _ in range(1500):
        is_loud.append(proposer.sample_spec(stats).loud == "yes")
        specs, p = samples.sample_and_predict(stats)
        assert len(specs) == NUM_SAMPLES
        assert p == pytest.approx([stats.predict(Toy().features(spec)) for spec in specs])
        weights = p * (1 - p)
        expected.append(sum(weight for spec, weight in zip(specs, weights, strict=True) if spec.loud == "yes"))
        expected[-1] /= weights.sum()
    assert np.mean(is_loud) == pytest.approx(np.mean(expected), abs=0.04)
    if loud != quiet:
        assert (np.mean(is_loud) > 0.6) == (abs(loud - 50) < abs(quiet - 50))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [1, 1, 1, 1]),
        ({"repetition_penalty": 0.5}, [2 / 3] * 3 + [1]),
        ({"repetition_penalty": 3.0}, [0] * 3 + [1]),  # never less than a rejected spec
        ({"feature_entropy_coef": 0.5}, [1 + 0.5 * np.log2(4 / 3)] * 3 + [2]),
    ],
)
def test_the_reward_of_a_spec_depends_on_the_other_specs_of_the_step(monkeypatch, settings, expected):
    """Three copies of one spec, which may be duplicates only in this test, and a spec with other features."""
    specs = [ToySpec(which=1, letters="ab")] * 3 + [ToySpec(which=2, letters="fe", loud="yes")]
    curriculum = AlphaCurriculumSettings(**settings)
    environment_settings = EnvironmentSettings()
    proposer = LanguageModelProposer(
        Toy(), None, "grpo", environment_settings, curriculum, None, num_variations=4, max_attempts=1, seed=0
    )  # fmt: skip
    monkeypatch.setattr(proposer, "_policy_gradient_update", lambda proposals, reward_of: reward_of)
    candidates = tuple(
        Candidate(spec.text, "genenv", index, 0, Toy().make_task(spec)) for index, spec in enumerate(specs)
    )
    rewards = proposer.update(ProposalBatch(candidates), dict.fromkeys(range(4), 0.5))  # p is alpha: R = 1
    assert [rewards[index] for index in range(4)] == pytest.approx(expected)


def test_static_uses_its_whole_set_before_repeating_in_a_new_order():
    proposer = StaticProposer(Toy(), SPECS, num_tokens=70, seed=0)
    cycles = [accepted_texts(propose(proposer, len(SPECS))) for _ in range(6)]
    assert all(sorted(cycle) == SPECS for cycle in cycles)
    assert len({tuple(cycle) for cycle in cycles}) > 1


def test_static_keeps_its_position_between_batches_and_reports_its_tokens_once():
    proposer = StaticProposer(Toy(), SPECS, num_tokens=70, seed=0)
    batches = [propose(proposer, 2) for _ in range(5)]
    assert sorted(text for batch in batches for text in accepted_texts(batch)) == sorted(2 * SPECS)
    assert len({text for batch in batches[:2] for text in accepted_texts(batch)}) == 4
    assert [batch.num_tokens for batch in batches] == [70, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: UniformProposer(Toy(), seed),
        lambda seed: GreedyProposer(Toy(), seed, AlphaCurriculumSettings()),
        lambda seed: LearnabilityProposer(Toy(), seed, "learnability"),
        lambda seed: StaticProposer(Toy(), SPECS, 70, seed),
    ],
)
def test_state_restores_exactly_through_json(make):
    proposer, restored, stats = make(0), make(1), make_stats(50, 90)
    propose(proposer, 3, stats)
    arrays, values = proposer.state()
    assert arrays == {}
    saved = json.loads(json.dumps(values))
    expected = [propose(proposer, 7, stats) for _ in range(2)]
    restored.load({}, saved)
    batches = [propose(restored, 7, stats) for _ in range(2)]
    assert [(accepted_texts(batch), batch.num_tokens) for batch in batches] == [
        (accepted_texts(batch), batch.num_tokens) for batch in expected
    ]


def test_proposers_without_a_model_do_not_learn():
    assert UniformProposer(Toy(), 0).update(ProposalBatch(()), {}) == {}
