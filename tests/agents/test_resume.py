"""An agent saved anywhere and loaded elsewhere goes on bit for bit, environments in mid-episode included."""

import numpy as np
import pytest
import torch

from envgen.agents.ppo import PPO
from envgen.agents.settings import PpoSettings
from envgen.worlds.crafter.vector import CrafterVectorEnv

SMALL = PpoSettings(num_envs=2, num_steps=10, update_epochs=2, num_minibatches=2)
UPDATES = 5


def envs_for(observation: str) -> CrafterVectorEnv:
    return CrafterVectorEnv(2, {"length": 17}, observation)


def same(one: PPO, other: PPO) -> None:
    (arrays, values), (others, other_values) = one.state(), other.state()
    assert values == other_values
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name], err_msg=name)


@pytest.mark.parametrize("observation", ["symbols", "pixels"])
@pytest.mark.parametrize("overlap", [False, True])
def test_stopped_after_any_update_it_ends_where_it_would_have_ended(observation, overlap):
    settings = SMALL.model_copy(update={"overlap": overlap})
    envs = envs_for(observation)
    whole, states, episodes = PPO.for_envs(envs, settings=settings, seed=1), [], []

    def after(update):
        states.append(whole.state())
        episodes.append(update.episodes.state())

    whole.train(envs, 2 * 10 * UPDATES, after, seed=4)
    assert len(states) == UPDATES
    for k in (0, 2, UPDATES - 1) if observation == "symbols" else (1,):
        envs, later = envs_for(observation), []
        again = PPO.for_envs(envs, settings=settings, seed=99)  # another seed: all that matters is in the state
        again.load(*states[k], envs)
        again.train(
            envs, 2 * 10 * UPDATES, lambda update, later=later: later.append(update.episodes.state()), resume=True
        )
        same(whole, again)
        for mine, expected in zip(later, episodes[k + 1 :], strict=True):
            assert all(np.array_equal(mine[name], expected[name]) for name in expected)


def test_a_state_between_two_phases_needs_no_environments():
    envs = envs_for("symbols")
    one = PPO.for_envs(envs, settings=SMALL)
    one.train(envs, 40, seed=0)
    two = PPO.for_envs(envs, settings=SMALL, seed=7)
    two.load(*one.state())
    for agent in (one, two):
        agent.train(envs_for("symbols"), 40, seed=3)
    same(one, two)


def test_the_state_is_a_copy():
    envs = envs_for("symbols")
    agent = PPO.for_envs(envs, settings=SMALL)
    agent.train(envs, 20, seed=0)
    arrays, _ = agent.state()
    before = {name: array.copy() for name, array in arrays.items()}
    agent.train(envs, 40, seed=0)
    assert all(np.array_equal(array, before[name]) for name, array in arrays.items())


def test_a_state_of_other_settings_is_refused():
    envs = envs_for("symbols")
    state = PPO.for_envs(envs, settings=SMALL).state()
    with pytest.raises(ValueError, match=r"other settings .*'gamma': \(0.95, 0.9\)"):
        PPO.for_envs(envs, settings=SMALL.model_copy(update={"gamma": 0.9})).load(*state)


def test_there_is_no_resuming_without_a_state():
    envs = envs_for("symbols")
    with pytest.raises(ValueError, match="nothing to resume"):
        PPO.for_envs(envs, settings=SMALL).train(envs, 40, resume=True)


def test_the_same_seed_gives_the_same_agent_whatever_else_drew_numbers():
    torch.manual_seed(123)
    one = PPO.for_envs(envs_for("symbols"), settings=SMALL, seed=5)
    torch.manual_seed(456)
    same(one, PPO.for_envs(envs_for("symbols"), settings=SMALL, seed=5))
