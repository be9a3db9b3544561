"""Networks: the published size, a small fast one for symbols, and shortcuts that change nothing."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.nn import functional as F

from envgen.agents.errors import SpaceError
from envgen.agents.glance import Glance
from envgen.agents.networks import ActorCritic, parameters
from envgen.agents.symbols import SymbolLayer
from envgen.worlds.crafter import observations as crafter_symbols
from envgen.worlds.crafter.vector import CrafterVectorEnv
from envgen.worlds.world import SymbolMap


@pytest.fixture(scope="module")
def seen() -> torch.Tensor:
    """Symbols of 64 Crafters in the middle of an episode."""
    envs, rng = CrafterVectorEnv(64, None, "symbols"), np.random.default_rng(0)
    envs.reset(seed=0)
    for _ in range(60):
        observations, *_ = envs.step(rng.integers(0, 17, 64))
    return torch.from_numpy(observations)


def crafter_network() -> ActorCritic:
    envs = CrafterVectorEnv(1, None, "symbols")
    return ActorCritic(envs.single_observation_space, envs.single_action_space, envs.metadata["symbol_map"])


def test_the_network_for_pictures_has_the_published_number_of_parameters():
    network = ActorCritic(spaces.Box(0, 255, (64, 64, 3), np.uint8), spaces.Discrete(17))
    assert parameters(network) == 3_948_306
    choice, value = network(torch.zeros(2, 64, 64, 3, dtype=torch.uint8))
    assert choice.shape == (2, 17)
    assert value.shape == (2,)


def test_the_network_for_symbols_is_under_a_million_parameters():
    assert parameters(crafter_network()) < 1_000_000


def test_the_first_layer_is_a_linear_one_over_one_hots_and_two_norms(seen):
    highest = crafter_symbols.MAX_SYMBOLS.astype(np.int64)
    layer = SymbolLayer(highest, 24)
    for weights in layer.parameters():
        torch.nn.init.normal_(weights)
    places, counts, _ = layer.where
    hot = [F.one_hot(seen[:, p].long(), int(n) + 1)[:, 1:] for p, n in zip(places, counts, strict=True)]
    linear = torch.cat(hot, 1).float() @ layer.table + seen[:, -1:].float() / 255 @ layer.slopes + layer.bias
    first, second = layer.norms
    expected, out = second(F.relu(first(linear))), layer(seen)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)

    gradient, weights = torch.randn(64, 24), dict(layer.named_parameters())
    found, wanted = (torch.autograd.grad(y, list(weights.values()), gradient) for y in (out, expected))
    assert len(weights) == 7
    for name, mine, its in zip(weights, found, wanted, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-3, atol=1e-3, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("kind", [torch.uint8, torch.int64])
@pytest.mark.parametrize("count", [0, 5])
def test_the_first_layer_takes_any_integers_no_observations_and_no_numbers(kind, count, monkeypatch):
    layer = SymbolLayer(np.array([3, 2]), 8)
    seen, weights = torch.arange(count * 2).reshape(count, 2).remainder(4).to(kind), list(layer.parameters())
    here = layer(seen)
    found = torch.autograd.grad(here.square().sum(), weights)
    monkeypatch.setattr("envgen.agents.symbols.CPU", "nowhere")
    elsewhere = layer(seen)
    torch.testing.assert_close(here, elsewhere)
    for mine, its in zip(found, torch.autograd.grad(elsewhere.square().sum(), weights), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-4)


def test_symbols_that_a_place_does_not_have_count_as_nothing():
    layer = SymbolLayer(np.array([3, 2]), 8)
    none, beyond = torch.tensor([[0, 1]], dtype=torch.uint8), torch.tensor([[200, 1]], dtype=torch.uint8)
    assert torch.equal(layer(none), layer(beyond))
    assert not torch.equal(layer(none), layer(torch.tensor([[3, 1]], dtype=torch.uint8)))


def test_other_devices_compute_the_same_as_the_compiled_loops(seen, monkeypatch):
    """`meta` tensors have no values, so the other path is taken on the CPU by hiding the device's name."""
    network = crafter_network()
    glance, layer = network.body.glance, network.body.first
    here = glance(seen)
    features = layer(here)
    monkeypatch.setattr("envgen.agents.glance.CPU", "nowhere")
    monkeypatch.setattr("envgen.agents.symbols.CPU", "nowhere")
    assert torch.equal(glance(seen), here)
    torch.testing.assert_close(layer(here), features, rtol=1e-4, atol=1e-5)


def test_a_glance_sees_around_ahead_and_the_nearest_of_each_symbol():
    layout = SymbolMap(
        planes=1, rows=3, columns=5, center=7, facing_index=15, direction_offsets=((-1, 0), (1, 0), (0, -1), (0, 1))
    )
    view = np.array([
        [3, 0, 0, 0, 1],
        [0, 0, 0, 0, 1],
        [0, 0, 2, 0, 0],
    ], np.uint8)  # fmt: skip
    highest = np.array([3] * 15 + [4], np.int64)
    glance = Glance(layout, highest)
    facing_down = np.append(view.ravel(), 4).astype(np.uint8)
    out = glance(torch.from_numpy(facing_down[None]))[0].numpy()
    around, facing, ahead, nearest = np.split(out, [9, 10, 11])
    assert around.tolist() == [0, 0, 0, 0, 0, 0, 0, 2, 0]
    assert facing == 4
    assert ahead == 2  # below the eye
    assert nearest.reshape(3, 2).tolist() == [[5, 2], [3, 3], [1, 1]]  # (right, down), both counted from 1
    assert (out <= glance.highest).all()


def test_a_glance_sees_as_far_around_as_its_map_says_and_nothing_ahead_where_no_one_faces():
    layout = SymbolMap(planes=1, rows=5, columns=5, center=12, near_radius=2)
    view = np.zeros(26, np.uint8)
    view[[0, 24, 25]] = 1, 1, 7  # two corners of the map, and what is no part of it
    glance = Glance(layout, np.array([1] * 25 + [9], np.int64))
    out = glance(torch.from_numpy(view[None]))[0].numpy()
    assert out.tolist() == [*view.tolist(), 1, 1]  # every cell, the rest, where the nearest 1 is
    assert len(glance.highest) == len(out)


def test_two_symbols_as_near_are_told_apart_the_same_way_every_time(seen):
    glance = crafter_network().body.glance
    assert torch.equal(glance(seen), glance(seen.clone()))
    assert (glance(seen).numpy() <= glance.highest).all()


@pytest.mark.parametrize(
    ("sees", "acts", "says"),
    [
        (spaces.Text(10), spaces.Discrete(2), "observations must be pictures"),
        (spaces.Box(0, 1, (4, 4), np.float32), spaces.Discrete(2), "observations must be pictures"),
        (spaces.Box(-3, 3, (4,), np.int64), spaces.Discrete(2), "symbols count from 0"),
        (spaces.Box(0, 1, (4,), np.float32), spaces.MultiDiscrete([2, 2]), "actions must be Discrete"),
        (spaces.Box(0, 1, (4,), np.float32), spaces.Box(-np.inf, np.inf, (1,), np.float32), "bounded Box"),
    ],
)
def test_spaces_that_fit_no_network_are_refused_by_name(sees, acts, says):
    with pytest.raises(SpaceError, match=says):
        ActorCritic(sees, acts)
