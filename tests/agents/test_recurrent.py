"""Recurrent cores equal their definitions, with gradients and resets, on the CPU and on other devices."""

import pytest
import torch
from torch import nn

from envgen.agents import recurrent
from envgen.agents.parallel import autocast
from envgen.agents.recurrent import CORES, GruCore, MinGruCore, RecurrentCore

NUM_SEQUENCES, NUM_STEPS, INPUT_SIZE, SIZE = 5, 7, 12, 9


@pytest.fixture
def inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    starts = torch.rand(NUM_SEQUENCES, NUM_STEPS) < 0.3
    features = torch.randn(NUM_SEQUENCES, NUM_STEPS, INPUT_SIZE, requires_grad=True)
    return features, torch.randn(NUM_SEQUENCES, SIZE), starts


def make_core(name: str) -> RecurrentCore:
    torch.manual_seed(1)
    core = CORES[name](INPUT_SIZE, SIZE)
    for parameter in core.parameters():
        nn.init.normal_(parameter, std=0.5)
    return core


def outputs_and_grads(core, features, state, starts) -> list[torch.Tensor]:
    outputs, last = core(features, state, starts)
    assert torch.equal(last, outputs[:, -1])
    weights = torch.linspace(-1, 1, outputs.numel()).view_as(outputs)
    return [outputs, *torch.autograd.grad((weights * outputs).sum(), [features, *core.parameters()])]


def test_gru_equals_that_of_pytorch(inputs):
    features, state, starts = inputs
    core = make_core("gru")
    assert isinstance(core, GruCore)
    cell = nn.GRUCell(INPUT_SIZE, SIZE)
    for ours, theirs in (
        (core.input_gates.weight, cell.weight_ih), (core.input_gates.bias, cell.bias_ih),
        (core.recurrent_gates.weight, cell.weight_hh), (core.recurrent_gates.bias, cell.bias_hh),
    ):  # fmt: skip
        theirs.data.copy_(ours)
    hidden, expected = state, []
    for t in range(NUM_STEPS):
        hidden = cell(features[:, t], hidden * ~starts[:, t, None])
        expected.append(hidden)
    outputs, _ = core(features, state, starts)
    torch.testing.assert_close(outputs, torch.stack(expected, 1))


def test_minimal_gru_equals_its_equation(inputs):
    features, state, starts = inputs
    core = make_core("mingru")
    assert isinstance(core, MinGruCore)
    hidden, expected = state, []
    for t in range(NUM_STEPS):
        update, new = core.gates(features[:, t]).chunk(2, -1)
        update = update.sigmoid()
        hidden = (1 - update) * hidden * ~starts[:, t, None] + update * new
        expected.append(hidden)
    outputs, _ = core(features, state, starts)
    torch.testing.assert_close(outputs, torch.stack(expected, 1))


@pytest.mark.parametrize("name", CORES)
def test_kernels_equal_the_operations_of_other_devices(name, inputs, monkeypatch):
    core = make_core(name)
    fused = outputs_and_grads(core, *inputs)
    monkeypatch.setattr(recurrent, "CPU", "another device")
    for actual, expected in zip(fused, outputs_and_grads(core, *inputs), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CORES)
def test_bfloat16_stays_close_to_float32(name, inputs):
    core = make_core(name)
    exact = outputs_and_grads(core, *inputs)
    with autocast(torch.device("cpu"), True):
        rounded = outputs_and_grads(core, *inputs)
    for actual, expected in zip(rounded, exact, strict=True):
        assert not torch.equal(actual, expected)
        assert (actual - expected).norm() < 0.02 * expected.norm()


@pytest.mark.parametrize("name", CORES)
def test_state_and_gradient_do_not_cross_the_start_of_an_episode(name, inputs):
    features, state, starts = inputs
    starts = torch.zeros_like(starts)
    starts[:, 4] = True
    core = make_core(name)
    outputs, _ = core(features, state, starts)
    restarted, _ = core(features[:, 4:], torch.zeros_like(state), starts[:, 4:])
    torch.testing.assert_close(outputs[:, 4:], restarted)
    (grad,) = torch.autograd.grad(outputs[:, 4:].sum(), features)
    assert not grad[:, :4].any()
    assert grad[:, 4:].any()
