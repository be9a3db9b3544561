"""Two CPU processes (gloo) train adapters like one, and sample different completions."""

import lora_worker as worker
import numpy as np
import pytest
from two_processes import launch, read_json

from envgen.runs.checkpoint import load_latest
from run_results import without_times

pytest.importorskip("peft")


@pytest.fixture(scope="module")
def out(models, tmp_path_factory):
    """The results of two processes, which are launched once for all tests."""
    folder = tmp_path_factory.mktemp("distributed")
    launch(worker, folder, models)
    return folder


@pytest.mark.parametrize("dtype", worker.DTYPES)
def test_two_processes_train_adapters_like_one(out, models, dtype):
    policy, metrics = worker.update_adapters(models[0], dtype)
    expected = worker.adapters(policy)
    first, second = (dict(np.load(out / f"{dtype}.{rank}.npz")) for rank in (0, 1))
    assert first.keys() == second.keys() == expected.keys()
    assert all(".lora_" in name for name in expected)
    assert all(np.array_equal(first[name], second[name]) for name in expected)
    # equal except where a gradient is only rounding error, which Adam amplifies; the matrices B were zero before
    difference = sum(float(((first[name] - array) ** 2).sum()) for name, array in expected.items())
    size_of_update = sum(float((array**2).sum()) for name, array in expected.items() if ".lora_B." in name)
    assert size_of_update > 1
    assert difference < 1e-5 * size_of_update
    actual = read_json(out, f"{dtype}.0")
    assert actual.keys() == metrics.keys()
    for name, value in metrics.items():
        assert actual[name] == pytest.approx(value, rel=2e-3, abs=2e-4), name


def test_the_processes_sample_different_completions_of_the_same_prompt(out):
    first, second = (read_json(out, f"texts.{rank}") for rank in (0, 1))
    assert first == second  # each process gets the completions of both
    assert len(first) == 2 * worker.NUM_SAMPLES
    assert first[: worker.NUM_SAMPLES] != first[worker.NUM_SAMPLES :]


def test_a_run_of_two_processes_with_adapters_resumes_exactly(out):
    first, second = (without_times(read_json(out, f"summaries.{rank}")) for rank in (0, 1))
    assert first == second
    assert first["uninterrupted"] == first["interrupted"]
    assert first["uninterrupted"]["counts"]["rollouts"] == worker.ROLLOUTS
    for name in ("tasks.jsonl", "agent_traces.jsonl", "environment_specs.jsonl"):
        assert (out / "interrupted" / name).read_bytes() == (out / "uninterrupted" / name).read_bytes()
    whole, resumed = (load_latest(out / name / "checkpoints") for name in ("uninterrupted", "interrupted"))
    assert whole is not None
    assert resumed is not None
    for model in ("agent", "proposer"):
        arrays = whole.arrays[model]
        assert any(".lora_B." in name and array.any() for name, array in arrays.items())
        assert arrays.keys() == resumed.arrays[model].keys()
        assert all(np.array_equal(array, resumed.arrays[model][name]) for name, array in arrays.items())
