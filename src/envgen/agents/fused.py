"""The first layer for symbols on the CPU: one pass over each observation forward, and one back.

Its rows of the table are summed and normalised, then ReLU, then normalised again. Written as operations, each of these
goes through all of (B, width) in memory; here the numbers of one observation stay in the nearest cache from the first
to the last, and the gradient of the sum need not sort as `embedding_bag`'s does.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from envgen.jit import jit_fastmath

EPSILON = np.float32(1e-5)  # of both normalisations


class Where(NamedTuple):
    """Which places of an observation hold symbols, and which rows of the table are theirs."""

    places: np.ndarray  # (Q,)
    counts: np.ndarray  # (Q,) symbols of each, not counting 0
    first_row: np.ndarray  # (Q,) the row of symbol 1


class Weights(NamedTuple):
    """Everything the layer learns, or the gradients of it."""

    table: Any  # (rows, width)
    slopes: Any  # (numbers, width)
    bias: Any  # (width,), as the rest
    first_gain: Any
    first_shift: Any
    second_gain: Any
    second_shift: Any


@jit_fastmath
def _add(x, to):
    for h in range(to.size):
        to[h] += x[h]


@jit_fastmath
def _standardise(x, out):
    """out = (x - mean) * inverse; the inverse of the spread of x."""
    mean = np.float32(0)
    for h in range(x.size):
        mean += x[h]
    mean /= np.float32(x.size)
    squares = np.float32(0)
    for h in range(x.size):
        squares += (x[h] - mean) * (x[h] - mean)
    inverse = np.float32(1) / np.sqrt(squares / np.float32(x.size) + EPSILON)
    for h in range(x.size):
        out[h] = (x[h] - mean) * inverse
    return inverse


@jit_fastmath
def _back_through(standard, inverse, gradient):
    """The gradient of `standard` becomes that of what was standardised."""
    mean, along = np.float32(0), np.float32(0)
    for h in range(gradient.size):
        mean += gradient[h]
        along += gradient[h] * standard[h]
    mean /= np.float32(gradient.size)
    along /= np.float32(gradient.size)
    for h in range(gradient.size):
        gradient[h] = (gradient[h] - mean - standard[h] * along) * inverse


@jit_fastmath
def _rectify(standard, w, out):
    for h in range(out.size):
        out[h] = max(standard[h] * w.first_gain[h] + w.first_shift[h], np.float32(0))


@jit_fastmath
def _forward(symbols, numbers, where, w, standard, inverses, out):
    """out (B, width); `standard` (B, width) and `inverses` (B,) are what `_backward` needs of the way."""
    x = np.empty(w.bias.size, np.float32)
    for b in range(out.shape[0]):
        for h in range(x.size):
            x[h] = w.bias[h]
        for n in range(w.slopes.shape[0]):
            for h in range(x.size):
                x[h] += numbers[b, n] * w.slopes[n, h]
        for p in range(where.places.size):
            symbol = np.int64(symbols[b, where.places[p]])
            if 0 < symbol <= where.counts[p]:  # nothing may reach beyond the table
                _add(w.table[where.first_row[p] + symbol - 1], x)
        inverses[b] = _standardise(x, standard[b])
        _rectify(standard[b], w, x)
        _standardise(x, x)
        for h in range(x.size):
            out[b, h] = x[h] * w.second_gain[h] + w.second_shift[h]


@jit_fastmath
def _backward(symbols, numbers, where, w, standard, inverses, gradient, to):
    """Add to `to` (Weights) what `gradient` (B, width) of the output says of each."""
    width = w.bias.size
    rectified, again, d = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    for b in range(gradient.shape[0]):
        _rectify(standard[b], w, rectified)
        inverse = _standardise(rectified, again)
        for h in range(width):
            to.second_gain[h] += gradient[b, h] * again[h]
            to.second_shift[h] += gradient[b, h]
            d[h] = gradient[b, h] * w.second_gain[h]
        _back_through(again, inverse, d)
        for h in range(width):
            d[h] = d[h] if rectified[h] > 0 else np.float32(0)
            to.first_gain[h] += d[h] * standard[b, h]
            to.first_shift[h] += d[h]
            d[h] *= w.first_gain[h]
        _back_through(standard[b], inverses[b], d)
        _add(d, to.bias)
        for n in range(w.slopes.shape[0]):
            for h in range(width):
                to.slopes[n, h] += numbers[b, n] * d[h]
        for p in range(where.places.size):
            symbol = np.int64(symbols[b, where.places[p]])
            if 0 < symbol <= where.counts[p]:
                _add(d, to.table[where.first_row[p] + symbol - 1])


class FirstLayer(torch.autograd.Function):
    """Symbols (B, P), numbers (B, N) to features (B, width). Everything it is given is on the CPU and contiguous."""

    @staticmethod
    def forward(ctx, symbols, numbers, where, *weights):
        count, width = len(symbols), len(weights[2])
        standard, inverses, out = torch.empty(count, width), torch.empty(count), torch.empty(count, width)
        ctx.save_for_backward(symbols, numbers, standard, inverses, *weights)
        ctx.where = where
        inside = Weights(*(weight.detach().numpy() for weight in weights))
        _forward(symbols.numpy(), numbers.numpy(), where, inside, standard.numpy(), inverses.numpy(), out.numpy())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):  # pyright: ignore[reportIncompatibleMethodOverride]
        symbols, numbers, standard, inverses, *weights = (tensor.detach() for tensor in ctx.saved_tensors)
        found = [torch.zeros_like(weight) for weight in weights]
        w, to = (Weights(*(tensor.numpy() for tensor in tensors)) for tensors in (weights, found))
        way = standard.numpy(), inverses.numpy(), gradient.contiguous().numpy()
        _backward(symbols.numpy(), numbers.numpy(), ctx.where, w, *way, to)
        return None, None, None, *found
