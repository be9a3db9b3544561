"""How different the specs of a step are: a collapsed environment policy repeats itself."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from toy import Toy, ToySpec

from envgen.coevolution.loop import StepBatch, StepTask
from envgen.coevolution.metrics import combine_update_metrics, eval_metrics, spec_diversity, step_metrics
from envgen.coevolution.proposers import Candidate, ProposalBatch
from envgen.coevolution.settings import AlphaCurriculumSettings
from scripts import imported_script


def test_accuracy_is_the_mean_score_overall_and_by_feature():
    specs = [
        ToySpec(which=which, letters="ab", loud=loud) for which, loud in ((1, "no"), (1, "yes"), (2, "no"), (2, "no"))
    ]
    metrics = eval_metrics(Toy(), [Toy().make_task(spec) for spec in specs], np.array([1.0, 0.0, 1.0, 0.5]))
    by_feature = {"which": {"1": 0.5, "2": 0.75}, "loud": {"no": 0.8333, "yes": 0.0}}
    assert metrics == {"eval_accuracy": 0.625, "eval_accuracy_by": by_feature}


def test_metrics_of_a_step_cover_its_tasks_and_proposals():
    specs = [ToySpec(which=which, letters="ab") for which in (1, 2, 1)]
    tasks = [Toy().make_task(spec) for spec in specs]
    candidates = (
        Candidate(specs[0].text, "genenv", 0, 0, tasks[0]), Candidate("not a spec", "genenv", 1, 0, None, "malformed"),
        Candidate(specs[1].text, "genenv", 2, 1, tasks[1]),
    )  # fmt: skip
    steps = [StepTask(tasks[0], "proposer", candidates[0]), StepTask(tasks[1], "proposer", candidates[2]),
             StepTask(tasks[2], "fallback")]  # fmt: skip
    rollouts = SimpleNamespace(
        scores=np.array([[1, 0, 0, 1], [0, 0, 0, 1], [1, 1, 1, 1]], float),
        valid=np.array([[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]], bool),
    )
    batch = StepBatch(ProposalBatch(candidates), steps, rollouts, {0: 0.5, 2: 0.25})  # pyright: ignore
    counts = {"agent_tokens": 60, "environment_tokens": 40}
    metrics = step_metrics(
        Toy(), [batch], AlphaCurriculumSettings(beta=4.0), counts, {"rollout": 1.5, "environment": 0.5}
    )
    diversity = metrics.pop("diversity")
    assert (diversity["distinct_fraction"], diversity["entropy"]) == (1.0, {"which": 1.0, "loud": 0.0})
    assert metrics.pop("rejected")["malformed"] == 1
    assert metrics == {
        "success_rate": pytest.approx(7 / 12), "valid_rate": pytest.approx(10 / 12),
        "zero_variance_fraction": pytest.approx(1 / 3), "proposed_success_rate": 0.375,
        "near_target_fraction": 0.5, "environment_reward": pytest.approx((1 + np.exp(-0.25)) / 2),
        "difficulty": 1.5, "fallback_tasks": 1, "tokens_per_second": 50,
    }  # fmt: skip


def test_copies_have_no_diversity():
    diversity = spec_diversity(["a b c d"] * 4, [{"steps": "1", "style": "plain"}] * 4)
    expected = {"distinct_fraction": 0.25, "ngram_overlap": 1.0, "entropy": {"steps": 0.0, "style": 0.0}}
    assert diversity == expected


def test_distinct_specs_have_full_diversity():
    diversity = spec_diversity(["a b c", "d e f", "g h i", "j k l"], [{"steps": k} for k in "1234"])
    assert diversity == {"distinct_fraction": 1.0, "ngram_overlap": 0.0, "entropy": {"steps": 2.0}}


def test_entropy_is_in_bits_over_accepted_specs():
    diversity = spec_diversity(["x", "y", "not a spec"], [{"steps": "1"}, {"steps": "2"}])
    assert diversity["entropy"] == {"steps": 1.0}
    assert diversity["distinct_fraction"] == 1.0
    entropy = spec_diversity(["x"] * 3, [{"a": "1"}, {"a": "1"}, {"a": "2"}])["entropy"]
    assert entropy["a"] == pytest.approx(0.918)


def test_entropy_of_a_feature_covers_the_specs_that_have_it():
    assert spec_diversity(["x", "y"], [{"a": "1"}, {"a": "2", "b": "1"}])["entropy"] == {"a": 1.0, "b": 0.0}


def test_empty_batches_have_zero_diversity():
    assert spec_diversity([], []) == {"distinct_fraction": 0.0, "ngram_overlap": 0.0, "entropy": {}}
    assert spec_diversity(["not a spec"], [])["entropy"] == {}


def test_counts_of_several_updates_are_added_and_losses_averaged_over_gradient_steps():
    first = {"loss": 1.0, "gradient_steps": 3.0, "num_specs": 6.0, "num_tokens": 30}
    second = {"loss": 5.0, "gradient_steps": 1.0, "num_specs": 2.0, "num_tokens": 10}
    combined = combine_update_metrics([first, second, {"num_specs": 0.0}])
    assert combined == {"loss": 2.0, "gradient_steps": 4.0, "num_specs": 8.0, "num_tokens": 40}
    assert combine_update_metrics([first]) == first
    assert combine_update_metrics([]) == {}


def test_steps_without_a_proposal_are_left_out_of_the_results_of_the_proposers():
    file = Path(__file__).parents[2] / "benchmarks" / "genenv_proposers.py"
    with imported_script(file) as genenv_proposers:
        assert genenv_proposers.mean_cell([None, 0.5, 1.0]) == "0.75"
        assert genenv_proposers.mean_cell([None, None]) == "-"
