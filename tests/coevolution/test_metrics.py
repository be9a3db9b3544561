"""How different the specs of a step are: a collapsed environment policy repeats itself."""

import pytest

from envgen.coevolution.metrics import combine_update_metrics, spec_diversity


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
