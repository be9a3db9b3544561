"""Symbolic observations: the reduced map, the fused first layer and its equivalents on other devices."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.nn import functional as F

from envgen.agents.errors import SpaceError
from envgen.agents.networks import ActorCritic
from envgen.agents.settings import NetworkSettings
from envgen.agents.symbols import NearestSymbolEncoder, SymbolEmbedding
from envgen.worlds.crafter.env import CrafterVectorEnv
from envgen.worlds.world import SymbolMap


@pytest.fixture(scope="module")
def obs() -> torch.Tensor:
    """Symbols of 64 Crafter environments in mid-episode."""
    envs, rng = CrafterVectorEnv(64, None, "symbols"), np.random.default_rng(0)
    envs.reset(seed=0)
    for _ in range(60):
        observations, *_ = envs.step(rng.integers(0, 17, 64))
    return torch.from_numpy(observations)


def crafter_network() -> ActorCritic:
    envs = CrafterVectorEnv(1, None, "symbols")
    return ActorCritic(envs.single_observation_space, envs.single_action_space, envs.metadata["symbol_map"])


def test_embedding_equals_a_linear_layer_over_one_hots_and_two_norms(obs):
    max_values = CrafterVectorEnv(1, None, "symbols").single_observation_space.high.astype(np.int64)
    layer = SymbolEmbedding(max_values, 24)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    slots, num_symbols, _ = layer.layout
    one_hots = [F.one_hot(obs[:, q].long(), int(n) + 1)[:, 1:] for q, n in zip(slots, num_symbols, strict=True)]
    scalars = obs[:, -1:].float() / 255
    linear = torch.cat(one_hots, 1).float() @ layer.embedding + scalars @ layer.scalar_weight + layer.bias
    norm1, norm2 = layer.norms
    expected, out = norm2(F.relu(norm1(linear))), layer(obs)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)

    grad_out, parameters = torch.randn(64, 24), dict(layer.named_parameters())
    grads, expected_grads = (torch.autograd.grad(y, list(parameters.values()), grad_out) for y in (out, expected))
    assert len(parameters) == 7
    for name, grad, expected_grad in zip(parameters, grads, expected_grads, strict=True):
        torch.testing.assert_close(
            grad, expected_grad, rtol=1e-3, atol=1e-3, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
@pytest.mark.parametrize("batch_size", [0, 5])
def test_embedding_accepts_any_integer_type_and_empty_batches(dtype, batch_size, monkeypatch):
    layer = SymbolEmbedding(np.array([3, 2]), 8)
    symbols, parameters = torch.arange(batch_size * 2).reshape(batch_size, 2).remainder(4), list(layer.parameters())
    fused = layer(symbols.to(dtype))
    grads = torch.autograd.grad(fused.square().sum(), parameters)
    monkeypatch.setattr("envgen.agents.symbols.CPU", "none")
    unfused = layer(symbols.to(dtype))
    torch.testing.assert_close(fused, unfused)
    for grad, expected in zip(grads, torch.autograd.grad(unfused.square().sum(), parameters), strict=True):
        torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-4)


def test_symbols_out_of_range_count_as_nothing():
    layer = SymbolEmbedding(np.array([3, 2]), 8)
    nothing, out_of_range = torch.tensor([[0, 1]], dtype=torch.uint8), torch.tensor([[200, 1]], dtype=torch.uint8)
    assert torch.equal(layer(nothing), layer(out_of_range))
    assert not torch.equal(layer(nothing), layer(torch.tensor([[3, 1]], dtype=torch.uint8)))


def test_other_devices_compute_the_same_as_the_kernels(obs, monkeypatch):
    """Hiding the CPU's name selects the code path of other devices."""
    encoder = crafter_network().encoder
    nearest, embedding = encoder.nearest, encoder.embedding
    reduced = nearest(obs)
    features = embedding(reduced)
    monkeypatch.setattr("envgen.agents.symbols.CPU", "none")
    assert torch.equal(nearest(obs), reduced)
    torch.testing.assert_close(embedding(reduced), features, rtol=1e-4, atol=1e-5)


def test_nearest_symbol_encoder_keeps_near_cells_the_faced_cell_and_nearest_offsets():
    symbol_map = SymbolMap(
        planes=1, rows=3, columns=5, center=7, facing_index=15, direction_offsets=((-1, 0), (1, 0), (0, -1), (0, 1))
    )
    view = np.array([
        [3, 0, 0, 0, 1],
        [0, 0, 0, 0, 1],
        [0, 0, 2, 0, 0],
    ], np.uint8)  # fmt: skip
    encoder = NearestSymbolEncoder(symbol_map, np.array([3] * 15 + [4], np.int64))
    facing_down = np.append(view.ravel(), 4).astype(np.uint8)
    out = encoder(torch.from_numpy(facing_down[None]))[0].numpy()
    near, direction, faced, offsets = np.split(out, [9, 10, 11])
    assert near.tolist() == [0, 0, 0, 0, 0, 0, 0, 2, 0]
    assert direction == 4
    assert faced == 2  # below the center
    assert offsets.reshape(3, 2).tolist() == [[5, 2], [3, 3], [1, 1]]  # (column, row), both counted from 1
    assert (out <= encoder.max_values).all()


def test_nearest_symbol_encoder_follows_near_radius_and_needs_no_direction():
    symbol_map = SymbolMap(planes=1, rows=5, columns=5, center=12, near_radius=2)
    view = np.zeros(26, np.uint8)
    view[[0, 24, 25]] = 1, 1, 7  # two corners of the map, and an entry outside it
    encoder = NearestSymbolEncoder(symbol_map, np.array([1] * 25 + [9], np.int64))
    out = encoder(torch.from_numpy(view[None]))[0].numpy()
    assert out.tolist() == [*view.tolist(), 1, 1]  # every cell, the other entry, the offset of the nearest 1
    assert len(encoder.max_values) == len(out)


def test_ties_between_nearest_symbols_are_broken_the_same_way_every_time(obs):
    encoder = crafter_network().encoder.nearest
    assert torch.equal(encoder(obs), encoder(obs.clone()))
    assert (encoder(obs).numpy() <= encoder.max_values).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"planes": 2}, "from 1 to 16"),
        ({"rows": 0}, "from 1 to 16"),
        ({"center": 15}, "center must be a cell from 0 to 14"),
        ({"center": "7"}, "must be integers"),
        ({"facing_index": 16}, "facing_index must be from 0 to 15"),
        ({"direction_offsets": ((1, 0),)}, "must have 4 entries"),
        ({"direction_offsets": ((-1, 0), (1, 0), (0, -2), (0, 1))}, "cells on the map"),
    ],
)
def test_invalid_symbol_maps_are_refused(change, message):
    symbol_map = SymbolMap(
        planes=1, rows=3, columns=5, center=7, facing_index=15, direction_offsets=((-1, 0), (1, 0), (0, -1), (0, 1))
    )
    with pytest.raises(SpaceError, match=message):
        NearestSymbolEncoder(symbol_map._replace(**change), np.array([3] * 15 + [4], np.int64))


def test_maps_too_large_for_bytes_are_refused():
    symbol_map = SymbolMap(planes=1, rows=1, columns=256, center=0)
    with pytest.raises(SpaceError, match="rows and columns must be at most 255"):
        NearestSymbolEncoder(symbol_map, np.ones(256, np.int64))
    NearestSymbolEncoder(symbol_map._replace(columns=255), np.ones(255, np.int64))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.int64])
def test_symbols_of_every_dtype_have_a_history(dtype):
    space = spaces.Box(0, 3, (4,), dtype)
    network = ActorCritic(space, spaces.Discrete(2), settings=NetworkSettings(history=True))
    assert network.history_spec is not None
    bits = torch.ones((1, network.history_spec.num_bits), dtype=torch.uint8)
    prepared = network.prepare(torch.from_numpy(np.array([[0, 1, 2, 3]], dtype)), bits)
    logits, _ = network.forward_prepared(prepared)
    assert logits.shape == (1, 2)


CACHE_PROGRAM = """
import hashlib
import numpy as np
import torch
from envgen.agents.symbols import SymbolEmbedding, _backward

torch.manual_seed(0)
layer = SymbolEmbedding(np.array([5] * 40 + [255]), 512)
symbols = torch.randint(0, 6, (64, 41), dtype=torch.uint8)
out = layer(symbols)
grads = torch.autograd.grad(out, list(layer.parameters()), torch.randn(64, 512))
digest = hashlib.sha256(b"".join(array.detach().numpy().tobytes() for array in (out, *grads)))
print(sum(_backward.stats.cache_hits.values()), digest.hexdigest())
"""


def test_kernels_compute_the_same_compiled_or_loaded_from_the_cache(tmp_path):
    def run() -> tuple[str, str]:
        env = {**os.environ, "ENVGEN_CACHE": str(tmp_path)}
        result = subprocess.run([sys.executable, "-c", CACHE_PROGRAM], env=env, capture_output=True, check=True)
        hits, digest = result.stdout.decode().split()
        return hits, digest

    (hits_compiled, digest_compiled), (hits_cached, digest_cached) = run(), run()
    assert (hits_compiled, hits_cached) == ("0", "1")
    assert digest_compiled == digest_cached
