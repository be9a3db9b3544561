"""Two processes on CPUs (gloo) do what one does: with models that each holds, and with one spread over both (FSDP2)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import distributed_worker as many
import numpy as np
import pytest
import torch

from envgen.coevolve.language_model import ModelError, load

PATIENCE = 300  # seconds, on a machine that does much else


@pytest.fixture(scope="module")
def out(models, tmp_path_factory):
    """What two processes found, all in one start of them."""
    folder = tmp_path_factory.mktemp("processes")
    path = [str(Path(many.__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    found = subprocess.run(
        [*command, many.__file__, str(folder), *map(str, models)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-4000:]
    return folder


def told(out, name):
    return json.loads((out / f"{name}.json").read_text())


def assert_same_weights(found, policy, models):
    """That both moved alike: where a gradient is nothing but rounding, Adam makes steps of it, if few."""
    began = load(models[0]).model.state_dict()
    own = {name: weights.detach() for name, weights in policy.lm.model.named_parameters()}
    apart = sum(float(((torch.from_numpy(found[name]) - weights) ** 2).sum()) for name, weights in own.items())
    went = sum(float(((weights - began[name]) ** 2).sum()) for name, weights in own.items())
    assert went > 1
    assert apart < 1e-5 * went


def assert_same_metrics(found, own):
    assert found.keys() == own.keys()
    for name in own:
        assert found[name] == pytest.approx(own[name], rel=2e-3, abs=2e-4), name


@pytest.mark.parametrize("mean", ["token", "text"])
@pytest.mark.parametrize("how", ["clipped", "weighted"])
def test_an_update_by_two_ends_where_that_of_one_ends_with_prompts_that_do_not_divide(out, models, how, mean):
    policy, own = many.learned(models[0], how, mean)
    one, other = (np.load(out / f"{how}.{mean}.{rank}.npz") for rank in (0, 1))
    assert_same_weights(one, policy, models)
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert_same_metrics(told(out, f"{how}.{mean}.0"), own)


def test_both_have_all_texts_in_their_order_and_the_likeliest_are_those_of_one(out, models):
    policy, _ = many.learned(models[0], "weighted", "text")
    one, other = (told(out, f"texts.{rank}") for rank in (0, 1))
    assert one == other
    prompts = [policy.lm.prompt("", text) for text in many.PROMPTS]
    assert len(one["drawn"]) == many.EACH * len(prompts)
    assert one["likeliest"] == policy.likeliest(prompts).texts(policy.lm)


def test_a_run_of_two_ends_alike_in_both_and_one_that_was_cut_off_where_it_would_have_ended(out):
    one, other = (told(out, f"runs.{rank}") for rank in (0, 1))
    for run in ("whole", "cut"):  # seconds differ
        assert {**one[run], "seconds": {}} == {**other[run], "seconds": {}}
    assert one["whole"]["curve"] == one["cut"]["curve"]
    assert one["whole"]["counts"] == one["cut"]["counts"]
    assert one["whole"]["counts"]["rollouts"] == 96
    for name in ("tasks.jsonl", "d_train.jsonl", "d_env.jsonl"):
        assert (out / "cut" / name).read_bytes() == (out / "whole" / name).read_bytes()


def test_a_model_spread_over_two_learns_the_same_and_is_sent_and_saved_whole(out, models):
    policy, own = many.learned(models[0], "clipped", "token")
    assert_same_metrics(told(out, "sharded")["told"], own)
    saved, sent = np.load(out / "sharded.npz"), np.load(out / "sent.npz")
    assert_same_weights({name.removeprefix("model."): saved[name] for name in saved}, policy, models)
    assert told(out, "sharded")["sent"] == 2  # at the beginning, and after the update
    assert all(np.array_equal(sent[name], saved[f"model.{name}"]) for name in sent)
    assert set(sent.files) == {name for name, _ in policy.lm.model.named_parameters()}


def test_the_state_of_a_model_spread_over_two_carries_over_exactly_and_goes_on_to_rounding(out):
    found = told(out, "carried")
    assert found["kept"]
    assert found["went"] > 1e-2
    assert found["apart"] < 1e-2 * found["went"]


def test_a_run_is_not_gone_on_with_by_another_number_of_processes(out, models):
    policy, _ = many.learned(models[0], "weighted", "text")
    _, values = policy.state()
    with pytest.raises(ModelError, match="saved by 2 processes, not by 1"):
        policy.load(dict(np.load(out / "state.npz")), values)
