"""Recurrent cores: features of a sequence of steps (B, T, input_size) to features (B, T, size) that depend on the past.

    gru       the gated recurrent unit (Cho et al. 2014), with PyTorch's equations
    mingru    the minimal GRU (Feng et al. 2024): its gates depend on the input alone, so only an elementwise
              recurrence remains, which costs a fraction of the time of a GRU

Both reset their state where an episode starts. On the CPU the elementwise parts of both passes, except the sigmoids,
are numba kernels, and the gradient of the GRU's recurrent weights is one matrix product over all steps; on other
devices they are PyTorch operations.
"""

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from envgen.jit import jit_fastmath

from .symbols import CPU


class RecurrentCore(nn.Module):
    """Carries a state (B, size), zeros at first, from step to step."""

    def __init__(self, input_size: int, size: int):
        super().__init__()
        self.input_size, self.size = input_size, size

    def forward(
        self, features: torch.Tensor, state: torch.Tensor, starts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Outputs (B, T, size) and the state after the last step.

        Args:
            features: (B, T, input_size).
            state: (B, size), before the first step.
            starts: (B, T) bool, whether an episode starts with the step.
        """
        raise NotImplementedError


class GruCore(RecurrentCore):
    """A GRU: h' = (1 - z) n + z h, with r, z = sigmoid(W_i x + W_h h) and n = tanh(W_i x + r (W_h h))."""

    def __init__(self, input_size: int, size: int):
        super().__init__(input_size, size)
        self.input_gates = nn.Linear(input_size, 3 * size)
        self.recurrent_gates = nn.Linear(size, 3 * size)
        for layer in (self.input_gates, self.recurrent_gates):
            for weight in layer.weight.chunk(3):
                nn.init.orthogonal_(weight)
            nn.init.zeros_(layer.bias)

    def forward(
        self, features: torch.Tensor, state: torch.Tensor, starts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        inputs = self.input_gates(features).float()
        weight, bias = self.recurrent_gates.weight, self.recurrent_gates.bias
        if features.device.type == CPU:
            bfloat16 = torch.is_autocast_enabled(CPU)
            outputs = GruSequence.apply(inputs, weight, bias, state, starts, bfloat16)
            return outputs, outputs[:, -1]  # pyright: ignore[reportReturnType, reportOptionalSubscript]
        outputs = []
        for t in range(features.shape[1]):
            state = state * ~starts[:, t, None]
            recurrent = F.linear(state, weight, bias).float()
            reset, update = (inputs[:, t] + recurrent)[:, : 2 * self.size].sigmoid().chunk(2, -1)
            new = torch.tanh(inputs[:, t, 2 * self.size :] + reset * recurrent[:, 2 * self.size :])
            state = new + update * (state - new)
            outputs.append(state)
        return torch.stack(outputs, 1), state


class MinGruCore(RecurrentCore):
    """A minimal GRU: h' = (1 - z) h + z n, with z = sigmoid(W_z x) and n = W_n x."""

    def __init__(self, input_size: int, size: int):
        super().__init__(input_size, size)
        self.gates = nn.Linear(input_size, 2 * size)
        for weight in self.gates.weight.chunk(2):
            nn.init.orthogonal_(weight)
        nn.init.zeros_(self.gates.bias)

    def forward(
        self, features: torch.Tensor, state: torch.Tensor, starts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        update, new = self.gates(features).float().chunk(2, -1)
        update = update.sigmoid()
        inputs, decay = update * new, (1 - update) * ~starts[..., None]
        if features.device.type == CPU:
            outputs = LinearRecurrence.apply(inputs, decay, state)
            return outputs, outputs[:, -1]  # pyright: ignore[reportReturnType, reportOptionalSubscript]
        outputs = []
        for t in range(features.shape[1]):
            state = decay[:, t] * state + inputs[:, t]
            outputs.append(state)
        return torch.stack(outputs, 1), state


CORES: dict[str, type[RecurrentCore]] = {"gru": GruCore, "mingru": MinGruCore}


# ------------------------------------------------------------------------------------------------- a GRU on the CPU
#
# A matrix product per step in each direction, with four kernels and two sigmoids of PyTorch in the forward pass and two
# kernels in the backward pass. Buffers are (T, B, ...), so that each product reads a contiguous block. `gates` holds
# r, z, n and the part of n that r multiplies.


@jit_fastmath
def _reset_state(state, starts, t, out):
    """out[b] = the state before step t: zero where an episode starts."""
    for b in range(out.shape[0]):
        for k in range(out.shape[1]):
            out[b, k] = np.float32(0) if starts[b, t] else state[b, k]


@jit_fastmath
def _add_gate_inputs(inputs, recurrent, t, gates):
    """Write the inputs of the sigmoids that give r and z, and the part of n that r multiplies."""
    size = recurrent.shape[1] // 3
    for b in range(recurrent.shape[0]):
        for k in range(2 * size):
            gates[b, k] = inputs[b, t, k] + recurrent[b, k]
        for k in range(size):
            gates[b, 3 * size + k] = recurrent[b, 2 * size + k]


@jit_fastmath
def _add_candidate_inputs(inputs, t, gates):
    """Write the input of the sigmoid that gives n: tanh(x) = 2 sigmoid(2 x) - 1."""
    size = gates.shape[1] // 4
    for b in range(gates.shape[0]):
        for k in range(size):
            gates[b, 2 * size + k] = np.float32(2) * (inputs[b, t, 2 * size + k] + gates[b, k] * gates[b, 3 * size + k])


@jit_fastmath
def _next_state(state, gates, t, outputs):
    size = gates.shape[1] // 4
    for b in range(gates.shape[0]):
        for k in range(size):
            new = np.float32(2) * gates[b, 2 * size + k] - np.float32(1)
            gates[b, 2 * size + k] = new
            outputs[b, t, k] = new + gates[b, size + k] * (state[b, k] - new)


@jit_fastmath
def _gru_backward(grad_outputs, t, gates, state, grad_state, grad_inputs, grad_recurrent):
    """The gradients of the gates' inputs at step t; `grad_state` becomes the part of it that passes through z."""
    size = gates.shape[1] // 4
    one = np.float32(1)
    for b in range(gates.shape[0]):
        for k in range(size):
            r, z, n = gates[b, k], gates[b, size + k], gates[b, 2 * size + k]
            grad = grad_outputs[b, t, k] + grad_state[b, k]
            grad_n = grad * (one - z) * (one - n * n)
            grad_r = grad_n * gates[b, 3 * size + k] * r * (one - r)
            grad_z = grad * (state[b, k] - n) * z * (one - z)
            grad_inputs[b, t, k] = grad_r
            grad_inputs[b, t, size + k] = grad_z
            grad_inputs[b, t, 2 * size + k] = grad_n
            grad_recurrent[b, k] = grad_r
            grad_recurrent[b, size + k] = grad_z
            grad_recurrent[b, 2 * size + k] = grad_n * r
            grad_state[b, k] = grad * z


@jit_fastmath
def _add_state_grad(product, starts, t, grad_state):
    """The gradient of the state before step t; none passes the start of an episode."""
    for b in range(grad_state.shape[0]):
        for k in range(grad_state.shape[1]):
            grad_state[b, k] = np.float32(0) if starts[b, t] else grad_state[b, k] + product[b, k]


class GruSequence(torch.autograd.Function):
    """All steps of a GRU: gate inputs (B, T, 3 size) to outputs (B, T, size). CPU tensors only."""

    @staticmethod
    def forward(ctx, inputs, weight, bias, state, starts, bfloat16):
        inputs = inputs.contiguous()
        num_sequences, num_steps, size = len(inputs), inputs.shape[1], weight.shape[1]
        product_weight = (weight.bfloat16() if bfloat16 else weight).t()
        states = torch.empty(num_steps, num_sequences, size)  # before each step
        gates = torch.empty(num_steps, num_sequences, 4 * size)
        outputs = torch.empty(num_sequences, num_steps, size)
        starts, previous = starts.numpy(), state.contiguous()
        for t in range(num_steps):
            _reset_state(previous.numpy(), starts, t, states[t].numpy())
            operand = states[t].bfloat16() if bfloat16 else states[t]
            recurrent = (operand @ product_weight).float() + bias
            gates_t = gates[t].numpy()
            _add_gate_inputs(inputs.numpy(), recurrent.numpy(), t, gates_t)
            gates[t, :, : 2 * size].sigmoid_()
            _add_candidate_inputs(inputs.numpy(), t, gates_t)
            gates[t, :, 2 * size : 3 * size].sigmoid_()
            _next_state(states[t].numpy(), gates_t, t, outputs.numpy())
            previous = outputs[:, t]
        ctx.save_for_backward(weight, gates, states)
        ctx.starts, ctx.bfloat16 = starts, bfloat16
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_outputs):  # pyright: ignore[reportIncompatibleMethodOverride]
        weight, gates, states = (tensor.detach() for tensor in ctx.saved_tensors)
        num_steps, num_sequences, size = states.shape
        product_weight = weight.bfloat16() if ctx.bfloat16 else weight
        dtype = product_weight.dtype
        grad_outputs = grad_outputs.contiguous().numpy()
        grad_inputs = torch.empty(num_sequences, num_steps, 3 * size)
        grad_recurrent = torch.empty(num_steps, num_sequences, 3 * size)
        grad_state = torch.zeros(num_sequences, size)
        for t in reversed(range(num_steps)):
            _gru_backward(
                grad_outputs, t, gates[t].numpy(), states[t].numpy(), grad_state.numpy(),
                grad_inputs.numpy(), grad_recurrent[t].numpy(),
            )  # fmt: skip
            if t > 0:
                product = (grad_recurrent[t].to(dtype) @ product_weight).float()
                _add_state_grad(product.numpy(), ctx.starts, t, grad_state.numpy())
        flat = grad_recurrent.flatten(0, 1)
        grad_weight = (flat.to(dtype).t() @ states.flatten(0, 1).to(dtype)).float()
        return grad_inputs, grad_weight, flat.sum(0), None, None, None


# -------------------------------------------------------------------------------------------- a minimal GRU on the CPU


@jit_fastmath
def _scan(inputs, decay, state, outputs):
    for b in range(inputs.shape[0]):
        for k in range(inputs.shape[2]):
            outputs[b, 0, k] = decay[b, 0, k] * state[b, k] + inputs[b, 0, k]
        for t in range(1, inputs.shape[1]):
            for k in range(inputs.shape[2]):
                outputs[b, t, k] = decay[b, t, k] * outputs[b, t - 1, k] + inputs[b, t, k]


@jit_fastmath
def _scan_backward(grad_outputs, decay, state, outputs, grad_inputs, grad_decay):
    last = outputs.shape[1] - 1
    for b in range(outputs.shape[0]):
        for k in range(outputs.shape[2]):
            grad_inputs[b, last, k] = grad_outputs[b, last, k]
        for t in range(last, 0, -1):
            for k in range(outputs.shape[2]):
                grad_decay[b, t, k] = grad_inputs[b, t, k] * outputs[b, t - 1, k]
                grad_inputs[b, t - 1, k] = grad_outputs[b, t - 1, k] + grad_inputs[b, t, k] * decay[b, t, k]
        for k in range(outputs.shape[2]):
            grad_decay[b, 0, k] = grad_inputs[b, 0, k] * state[b, k]


class LinearRecurrence(torch.autograd.Function):
    """h_t = decay_t h_{t-1} + input_t, elementwise over (B, T, size). CPU tensors only."""

    @staticmethod
    def forward(ctx, inputs, decay, state):
        inputs, decay, state = inputs.contiguous(), decay.contiguous(), state.contiguous()
        outputs = torch.empty_like(inputs)
        _scan(inputs.numpy(), decay.numpy(), state.numpy(), outputs.numpy())
        ctx.save_for_backward(decay, state, outputs)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_outputs):  # pyright: ignore[reportIncompatibleMethodOverride]
        decay, state, outputs = (tensor.detach() for tensor in ctx.saved_tensors)
        grad_inputs, grad_decay = torch.empty_like(decay), torch.empty_like(decay)
        arrays = (grad_outputs.contiguous(), decay, state, outputs, grad_inputs, grad_decay)
        _scan_backward(*(tensor.numpy() for tensor in arrays))
        return grad_inputs, grad_decay, None
