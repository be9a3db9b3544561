"""Networks: published sizes, and spaces that no network supports."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from envgen.agents.errors import SpaceError
from envgen.agents.networks import ActorCritic, Categorical, count_parameters
from envgen.agents.settings import NetworkSettings
from envgen.worlds.crafter.env import CrafterVectorEnv


def test_image_network_has_the_published_number_of_parameters():
    network = ActorCritic(spaces.Box(0, 255, (64, 64, 3), np.uint8), spaces.Discrete(17))
    assert count_parameters(network) == 3_948_306
    logits, value = network(torch.zeros(2, 64, 64, 3, dtype=torch.uint8))
    assert logits.shape == (2, 17)
    assert value.shape == (2,)


def test_symbol_network_has_under_a_million_parameters():
    envs = CrafterVectorEnv(1, None, "symbols")
    network = ActorCritic(envs.single_observation_space, envs.single_action_space, envs.metadata["symbol_map"])
    assert count_parameters(network) < 1_000_000


@pytest.mark.parametrize(
    ("observation_space", "action_space", "message"),
    [
        (spaces.Text(10), spaces.Discrete(2), "observations must be images"),
        (spaces.Box(0, 1, (4, 4), np.float32), spaces.Discrete(2), "observations must be images"),
        (spaces.Box(-3, 3, (4,), np.int64), spaces.Discrete(2), "symbols must start at 0"),
        (spaces.Box(0, 1, (4,), np.float32), spaces.MultiDiscrete([2, 2]), "actions must be Discrete"),
        (spaces.Box(0, 1, (4,), np.float32), spaces.Box(-np.inf, np.inf, (1,), np.float32), "bounded Box"),
    ],
)
def test_unsupported_spaces_are_refused(observation_space, action_space, message):
    with pytest.raises(SpaceError, match=message):
        ActorCritic(observation_space, action_space)


def test_unimix_gives_every_action_a_share():
    logits = torch.tensor([[0.0, 60.0, 0.0, 0.0]]).expand(10_000, 4)
    dist = Categorical(spaces.Discrete(4), unimix=0.2)
    log_probs = [dist.log_prob_and_entropy(logits, torch.full((10_000,), k))[0][0].exp().item() for k in range(4)]
    np.testing.assert_allclose(log_probs, [0.05, 0.85, 0.05, 0.05], rtol=1e-5)
    actions = dist.sample(logits, torch.from_numpy(dist.noise(np.random.default_rng(0), 10_000)))
    np.testing.assert_allclose(np.bincount(actions, minlength=4) / 10_000, log_probs, atol=0.02)
    entropy = dist.log_prob_and_entropy(logits, actions)[1][0].item()
    np.testing.assert_allclose(entropy, -np.sum(np.array(log_probs) * np.log(log_probs)), rtol=1e-4)


def test_the_divergence_from_uniform_keeps_its_gradient_for_rare_actions():
    logits = torch.tensor([[0.0, -30.0, 2.0], [0.0, 0.0, 0.0]], requires_grad=True)
    dist = Categorical(spaces.Discrete(3))
    divergence = dist.uniform_kl(logits)
    probs = logits.detach().double().softmax(-1).numpy()
    np.testing.assert_allclose(divergence.detach(), (np.log(1 / 3 / probs) / 3).sum(1), rtol=1e-5, atol=1e-6)
    (gradient,) = torch.autograd.grad(divergence.sum(), logits)
    np.testing.assert_allclose(gradient, probs - 1 / 3, atol=1e-6)
    (of_entropy,) = torch.autograd.grad(
        dist.log_prob_and_entropy(logits, torch.zeros(2, dtype=torch.int64))[1].sum(), logits
    )
    assert abs(gradient[0, 1]) > 0.3
    assert abs(of_entropy[0, 1]) < 1e-10


def test_networks_that_do_not_fit_the_observation_are_refused():
    symbols, images = spaces.Box(0, 3, (5,), np.uint8), spaces.Box(0, 255, (64, 64, 3), np.uint8)
    for space, encoder, fitting in (
        (symbols, "tiles", "symbols"), (symbols, "impala", "symbols"), (images, "mlp", "tiles"),
    ):  # fmt: skip
        with pytest.raises(SpaceError, match=f"the encoder '{encoder}' does not support .*; use .*{fitting}"):
            ActorCritic(space, spaces.Discrete(2), None, NetworkSettings(encoder=encoder))
    with pytest.raises(SpaceError, match="requires images made of tiles"):
        ActorCritic(images, spaces.Discrete(2), None, NetworkSettings(encoder="tiles"))
