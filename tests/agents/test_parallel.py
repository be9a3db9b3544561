"""Devices and precision, memory reuse, and training in several processes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import parallel_worker
import pytest
import torch

from envgen.agents.networks import run_network
from envgen.agents.parallel import ProcessGroup, ThreadedGradients, alone, padded_size, supports_bf16
from envgen.agents.ppo import PPO
from envgen.agents.settings import PpoSettings
from envgen.processes import ProcessGroupError
from envgen.worlds.crafter.env import CrafterVectorEnv

CPU = torch.device("cpu")
WORKER = Path(__file__).with_name("parallel_worker.py")


def make_learner(bfloat16: bool | None) -> PPO:
    return PPO.for_envs(CrafterVectorEnv(1, None, "symbols"), settings=PpoSettings(num_envs=1, bfloat16=bfloat16))


def test_bfloat16_is_used_when_requested_or_supported_by_the_device():
    assert make_learner(None).bfloat16 == supports_bf16(CPU)
    assert make_learner(True).bfloat16
    assert not make_learner(False).bfloat16


def test_bfloat16_changes_values_slightly_and_keeps_float32_weights():
    envs = CrafterVectorEnv(4, None, "symbols")
    obs, _ = envs.reset(seed=0)
    values = {}
    for bfloat16 in (False, True):
        settings = PpoSettings(num_envs=4, num_steps=8, update_epochs=1, bfloat16=bfloat16)
        learner = PPO.for_envs(envs, settings=settings, seed=0)
        with torch.inference_mode():
            values[bfloat16] = run_network(learner.network, torch.from_numpy(obs), bfloat16)[1].numpy()
        learner.train(envs, 64, seed=0)
        assert {parameter.dtype for parameter in learner.network.parameters()} == {torch.float32}
    assert not np.array_equal(values[False], values[True])
    np.testing.assert_allclose(values[True], values[False], atol=0.02)


def test_loaded_state_keeps_its_precision(monkeypatch):
    learners = {}
    for supported in (True, False):
        monkeypatch.setattr("envgen.agents.ppo.supports_bf16", lambda device, supported=supported: supported)
        learners[supported] = make_learner(None)
    learners[False].load(*learners[True].state())
    assert learners[False].bfloat16
    assert learners[False].policy.bfloat16


def test_padded_sizes_are_few_and_not_much_larger():
    sizes = {size: padded_size(size) for size in range(1, 4097)}
    assert all(size <= padded < 1.25 * size or padded == size for size, padded in sizes.items())
    assert [padded for size, padded in sizes.items() if size == padded] == sorted(set(sizes.values()))
    assert len({padded for size, padded in sizes.items() if size > 256}) == 16


MEMORY_PROGRAM = """
import resource
import torch
from envgen.agents.networks import run_network
from envgen.agents.parallel import retain_freed_memory

def count_page_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        [torch.ones(1 << 19) for _ in range(10)]  # 10 x 2 MB, 5,120 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

retain_freed_memory()
count_page_faults()
print(count_page_faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="tests glibc's allocator")
def test_freed_tensor_memory_is_reused():
    result = subprocess.run([sys.executable, "-c", MEMORY_PROGRAM], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 5120  # usually fifty times as many without


def test_threaded_gradients_are_those_of_the_whole_minibatch():
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    minibatch = {"x": torch.arange(10.0).reshape(5, 2)}

    def loss_function(mb):
        loss = (mb["x"] * weight).square().sum()
        return loss, torch.stack([loss.detach(), torch.tensor(float(len(mb["x"])))])

    with ThreadedGradients(CPU) as threaded_gradients:
        (grad,), metrics = threaded_gradients.compute(loss_function, [weight], minibatch)
    expected_loss, _ = loss_function(minibatch)
    (expected,) = torch.autograd.grad(expected_loss, [weight])
    torch.testing.assert_close(grad, expected)
    assert metrics.tolist() == [expected_loss.item(), 5.0]


@pytest.mark.parametrize("num_chunks", [1, 2])
def test_gradients_of_parameters_that_are_added_can_be_changed_in_place(num_chunks):
    first, second, third = (torch.nn.Parameter(torch.ones(2, 2)) for _ in range(3))
    minibatch = {"x": torch.arange(10.0).reshape(5, 2)}

    def loss_function(mb):
        loss = (mb["x"] @ (first + second.t())).sum() + third.sum() * len(mb["x"])
        return loss, loss.detach()[None]

    threaded_gradients = ThreadedGradients(CPU)
    threaded_gradients.num_chunks = num_chunks  # one on a GPU
    grads, _ = threaded_gradients.compute(loss_function, [first, second, third], minibatch)
    expected = torch.tensor([[20.0, 20.0], [25.0, 25.0]])
    for grad in grads:  # as clipping and the sum over processes do
        grad *= 0.5
    for grad, value in zip(grads, (expected, expected.t(), torch.full((2, 2), 5.0)), strict=True):
        torch.testing.assert_close(grad, 0.5 * value)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """The weights of every case, trained by one process and by two."""
    folder = tmp_path_factory.mktemp("trained")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    for launcher in ([], torchrun):
        command = [sys.executable, *launcher, str(WORKER), str(folder)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert result.returncode == 0, result.stderr[-3000:]
    return folder


@pytest.mark.parametrize("case", parallel_worker.CASES)
def test_two_processes_learn_the_same_as_one_up_to_rounding(case, trained):
    single, rank0, rank1 = (dict(np.load(trained / f"{case}-{name}.npz")) for name in ("1-0", "2-0", "2-1"))
    assert single["steps"] == rank0["steps"] == rank1["steps"] == 8 * 16 * parallel_worker.NUM_UPDATES
    assert single.keys() == rank0.keys()
    assert any(name.startswith("network") for name in single)
    is_close: list[np.ndarray] = []
    for name, expected in single.items():
        np.testing.assert_array_equal(rank0[name], rank1[name], err_msg=name)
        if name in ("explained_variance", "prediction_loss", "matching_loss"):
            np.testing.assert_allclose(rank0[name], expected, 1e-3, 2e-5, err_msg=name)
        elif not name.startswith("initial"):
            is_close.append(np.isclose(rank0[name], expected, rtol=1e-3, atol=2e-5).ravel())
    assert np.concatenate(is_close).mean() > 0.9999
    names = [name for name in single if name.startswith("network")]
    change = np.concatenate([(single[name] - single[f"initial.{name}"]).ravel() for name in names])
    difference = np.concatenate([(single[name] - rank0[name]).ravel() for name in names])
    assert np.linalg.norm(difference) < 0.02 * np.linalg.norm(change)


def test_the_auxiliary_phase_is_part_of_the_comparison(trained):
    single = np.load(trained / "distillation-1-0.npz")
    assert np.isfinite(single["prediction_loss"]).all()
    assert len(single["prediction_loss"]) == len(single["matching_loss"]) == 1
    assert single["buffer.0.obs"].shape[:2] == (16, 8)  # the rollout after it, of all environments


def test_uneven_division_of_environments_is_refused():
    with pytest.raises(ValueError, match="num_envs=7 cannot be divided evenly among 2 processes"):
        ProcessGroup(0, 2).local_slice(7)


def test_a_learner_joins_no_processes_in_alone(monkeypatch):
    for name, value in {"WORLD_SIZE": "2", "RANK": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ProcessGroupError, match="RANK is 2"):
        make_learner(False)
    with alone():
        assert make_learner(False).process_group.size == 1
    with pytest.raises(ProcessGroupError, match="RANK is 2"):
        make_learner(False)


def test_rank_0_is_the_main_process():
    assert ProcessGroup().is_main
    assert not ProcessGroup(1, 2).is_main
