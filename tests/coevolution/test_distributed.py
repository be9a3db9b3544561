"""Two CPU processes (gloo) train like one: with a copy of the model each, and with one sharded over both (FSDP2)."""

import json
from itertools import chain

import distributed_worker as worker
import numpy as np
import pytest
import torch
from two_processes import launch, read_json

from envgen.coevolution.language_model import ModelError
from envgen.coevolution.model_io import load_model


@pytest.fixture(scope="module")
def out(models, tmp_path_factory):
    """The results of two processes, which are launched once for all tests."""
    folder = tmp_path_factory.mktemp("distributed")
    launch(worker, folder, models)
    return folder


def assert_same_weights(weights, policy, models):
    """Both updates changed the weights alike, except where a gradient is only rounding error, which Adam amplifies."""
    initial = load_model(models[0]).model.state_dict()
    expected = {name: parameter.detach() for name, parameter in policy.lm.model.named_parameters()}
    difference = sum(float(((torch.from_numpy(weights[name]) - w) ** 2).sum()) for name, w in expected.items())
    size_of_update = sum(float(((w - initial[name]) ** 2).sum()) for name, w in expected.items())
    assert size_of_update > 1
    assert difference < 1e-5 * size_of_update


def assert_same_metrics(metrics, expected):
    assert metrics.keys() == expected.keys()
    for name in expected:
        assert metrics[name] == pytest.approx(expected[name], rel=2e-3, abs=2e-4), name


@pytest.mark.parametrize("loss_agg", worker.LOSS_AGGS)
@pytest.mark.parametrize("loss_type", worker.LOSS_TYPES)
def test_two_processes_update_like_one_for_prompts_that_do_not_divide_evenly(out, models, loss_type, loss_agg):
    policy, metrics = worker.update_policy(models[0], loss_type, loss_agg)
    weights = [np.load(out / f"{loss_type}.{loss_agg}.{rank}.npz") for rank in (0, 1)]
    assert_same_weights(weights[0], policy, models)
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert_same_metrics(read_json(out, f"{loss_type}.{loss_agg}.0"), metrics)


def test_both_processes_get_all_texts_in_order_and_greedy_ones_equal_those_of_one_process(out, models):
    policy, _ = worker.update_policy(models[0], "weighted_nll", "sequence")
    texts = [read_json(out, f"texts.{rank}") for rank in (0, 1)]
    assert texts[0] == texts[1]
    prompts = [policy.lm.encode_prompt("", text) for text in worker.PROMPTS]
    assert len(texts[0]["sampled"]) == worker.NUM_GENERATIONS * len(prompts)
    assert texts[0]["greedy"] == policy.generate_greedy(prompts).decode(policy.lm)


def test_both_processes_get_all_episodes_in_order_and_greedy_ones_equal_those_of_one_process(out, models):
    policy, _ = worker.update_policy(models[0], "weighted_nll", "sequence")
    texts = [read_json(out, f"texts.{rank}") for rank in (0, 1)]
    turns, sequences = texts[0]["sampled episodes"]
    assert [len(json.loads(row)) for row in turns] == [
        3 - index % 2 for index in range(len(worker.PROMPTS)) for _ in range(worker.NUM_GENERATIONS)
    ]
    for row, sequence in zip(turns, sequences, strict=True):
        assert [token for token, generated in sequence if generated] == [*chain(*json.loads(row))]
    assert texts[0]["greedy episodes"] == json.loads(json.dumps(worker.play_episodes(policy)))


def test_runs_of_two_processes_agree_and_resume_exactly(out):
    first, second = (read_json(out, f"summaries.{rank}") for rank in (0, 1))
    for run in ("uninterrupted", "interrupted"):
        ignored = {"seconds": {}, "total_seconds": 0}
        assert {**first[run], **ignored} == {**second[run], **ignored}
    assert first["uninterrupted"]["accuracy_curve"] == first["interrupted"]["accuracy_curve"]
    assert first["uninterrupted"]["counts"] == first["interrupted"]["counts"]
    assert first["uninterrupted"]["counts"]["rollouts"] == 96
    for name in ("tasks.jsonl", "agent_traces.jsonl", "environment_specs.jsonl"):
        assert (out / "interrupted" / name).read_bytes() == (out / "uninterrupted" / name).read_bytes()


def test_sharded_model_updates_like_a_whole_one_and_is_sent_and_saved_whole(out, models):
    policy, metrics = worker.update_policy(models[0], "ppo_clip", "token")
    assert_same_metrics(read_json(out, "sharded")["metrics"], metrics)
    saved, sent = np.load(out / "sharded.npz"), np.load(out / "sent.npz")
    assert_same_weights({name.removeprefix("model."): saved[name] for name in saved}, policy, models)
    assert read_json(out, "sharded")["num_sent"] == 2  # at the start and after the update
    assert all(np.array_equal(sent[name], saved[f"model.{name}"]) for name in sent)
    assert set(sent.files) == {name for name, _ in policy.lm.model.named_parameters()}


def test_state_of_a_sharded_model_restores_exactly_and_continues_up_to_rounding(out):
    result = read_json(out, "round_trip")
    assert result["state_is_equal"]
    assert result["size_of_update"] > 1e-2
    assert result["difference_after_update"] < 1e-2 * result["size_of_update"]


def test_resuming_with_another_number_of_processes_is_refused(out, models):
    policy, _ = worker.update_policy(models[0], "weighted_nll", "sequence")
    _, values = policy.state()
    with pytest.raises(ModelError, match="saved by 2 processes, not 1; resume with 2"):
        policy.load(dict(np.load(out / "state.npz")), values)
