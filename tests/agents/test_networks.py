"""Networks: published sizes, and spaces that no network supports."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from envgen.agents.errors import SpaceError
from envgen.agents.networks import ActorCritic, count_parameters
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
