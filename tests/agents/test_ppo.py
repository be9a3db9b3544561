"""PPO learns, accepts other networks, refuses unsuitable environments, and stops at a loss that is not finite."""

from concurrent.futures import ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from torch import nn

from envgen.agents import ppo
from envgen.agents.errors import SpaceError
from envgen.agents.networks import ActorCritic, PolicyNetwork, make_distribution
from envgen.agents.ppo import METRICS, PPO
from envgen.agents.rollout import EpisodeStats, Rollout, VecEnvRunner
from envgen.agents.settings import HyperparameterError, PpoSettings, ppo_settings_for
from envgen.errors import NonFiniteLossError
from envgen.worlds.crafter.env import CrafterVectorEnv
from envgen.worlds.crafter.world import Crafter


def make_envs(env_id: str, num_envs: int) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec(
        env_id, num_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.NEXT_STEP}
    )


def mean_greedy_return(learner: PPO, env_id: str, episodes: int) -> float:
    runner, stats = VecEnvRunner(make_envs(env_id, episodes), seed=999), EpisodeStats()
    while len(stats) < episodes:
        runner.step(learner.act(runner.obs), stats)
    return float(np.mean(stats.returns))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_solves_cartpole_in_50_000_steps(seed):
    """Solved: a mean return of 475 over 20 consecutive episodes, of at most 500."""
    settings = ppo_settings_for(
        make_envs("CartPole-v1", 1).single_observation_space,
        num_steps=64, num_minibatches=4, gamma=0.98, bootstrap_on_truncation=True,
        learning_rate=1e-3, final_learning_rate=1e-5, anneal_steps=50_000,
    )  # fmt: skip
    envs, returns = make_envs("CartPole-v1", settings.num_envs), []
    learner = PPO.for_envs(envs, settings=settings, seed=seed)
    learner.train(envs, 50_000, lambda result: returns.extend(result.episodes.returns), seed=seed)
    assert np.mean(returns[:20]) < 50
    assert np.convolve(returns, np.ones(20) / 20, "valid").max() >= 475


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_solves_pendulum_in_80_000_steps(seed):
    """The learning rate is annealed. If it is constant, the last policy is good or bad by chance."""
    settings = ppo_settings_for(
        make_envs("Pendulum-v1", 1).single_observation_space,
        gamma=0.9, num_minibatches=16, return_norm_decay=0.999, bootstrap_on_truncation=True,
        learning_rate=1e-3, final_learning_rate=1e-5, anneal_steps=80_000,
    )  # fmt: skip
    envs = make_envs("Pendulum-v1", settings.num_envs)
    learner = PPO.for_envs(envs, settings=settings, seed=seed)
    learner.train(envs, 80_000, seed=seed)
    assert mean_greedy_return(learner, "Pendulum-v1", 16) > -350  # a random policy gets -1,200


@pytest.mark.parametrize(
    ("seed", "bfloat16"),
    [(0, False), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((1, True), (2, False)))],
)
def test_learns_a_skill_a_few_actions_away(seed, bfloat16):
    """With wood in the inventory and a table near, a pickaxe is one action away once beside the table."""
    level = {"near": {"table": True}, "inventory": {"wood": 5}, "length": 12, "zombies": "none"}
    envs = CrafterVectorEnv(32, level, "symbols")
    learner = PPO.for_envs(envs, settings=PpoSettings(num_envs=32, num_steps=32, bfloat16=bfloat16), seed=seed)
    successes, skill = [], [s.name for s in Crafter.skills].index("make_wood_pickaxe")

    def on_update(result):
        successes.extend(counts[skill] > 0 for counts in result.episodes.skill_counts)

    learner.train(envs, 30_000, on_update, seed=seed)
    assert np.mean(successes[:60]) < 0.4
    assert np.mean(successes[-60:]) > 0.9


def collect_constant_values(value: float, steps: int = 0, **settings) -> Rollout:
    """Two episodes of 5 steps, by a learner after `steps` steps. Its estimate of each value is the same."""
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.wrappers.TimeLimit(gymnasium.make("Pendulum-v1").unwrapped, 5)],
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    learner = PPO.for_envs(envs, settings=PpoSettings(num_envs=1, num_steps=10, return_norm_decay=None, **settings))
    torch.nn.init.constant_(learner.network.value_head.bias, value)
    torch.nn.init.zeros_(learner.network.value_head.weight)
    learner.steps = steps
    return learner.collect(VecEnvRunner(envs, seed=1), 10)


def test_bootstrap_on_truncation_adds_the_discounted_value():
    bootstrapped = collect_constant_values(7.0, bootstrap_on_truncation=True)
    expected = collect_constant_values(7.0)
    np.testing.assert_allclose(bootstrapped.rewards - expected.rewards, 0.95 * 7.0 * expected.dones, atol=1e-5)
    assert expected.dones.sum() == 2


@pytest.mark.parametrize(("steps", "gamma"), [(0, 0.5), (30, 0.6), (120, 0.9), (500, 0.9)])
def test_bootstrap_on_truncation_discounts_by_the_annealed_gamma(steps, gamma):
    annealed = {"gamma": 0.5, "final_gamma": 0.9, "anneal_steps": 120}
    bootstrapped = collect_constant_values(7.0, steps, bootstrap_on_truncation=True, **annealed)
    expected = collect_constant_values(7.0, steps, **annealed)
    np.testing.assert_allclose(bootstrapped.rewards - expected.rewards, gamma * 7.0 * expected.dones, atol=1e-5)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_bootstrap_uses_the_last_observation_of_the_truncated_episode(mode):
    class FirstEntryAsValue(PPO):
        def _values(self, network, return_normalizer, obs, *args):
            return obs[:, 0]

    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.wrappers.TimeLimit(gymnasium.make("Pendulum-v1").unwrapped, 5)], autoreset_mode=mode
    )
    last_obs, step = [], envs.step

    def record(actions):
        result = step(actions)
        if result[3][0]:
            last_obs.append(result[4]["final_obs"][0] if mode == AutoresetMode.SAME_STEP else result[0][0].copy())
        return result

    settings = PpoSettings(num_envs=1, num_steps=12, bootstrap_on_truncation=True, return_norm_decay=None)
    bootstrapping = FirstEntryAsValue.for_envs(envs, settings=settings)
    plain = PPO.for_envs(envs, settings=settings.model_copy(update={"bootstrap_on_truncation": False}))
    plain.network.load_state_dict(bootstrapping.network.state_dict())
    envs.step = record
    bootstrapped = bootstrapping.collect(VecEnvRunner(envs, seed=1), 12)
    expected_obs = [obs[0] for obs in last_obs]
    assert len(set(expected_obs)) == 2
    envs.step = step
    expected = plain.collect(VecEnvRunner(envs, seed=1), 12)
    added = bootstrapped.rewards - expected.rewards
    np.testing.assert_allclose(added[expected.dones], 0.95 * np.array(expected_obs), atol=1e-5)
    assert not added[~expected.dones].any()


def test_training_continues_in_other_environments_and_drops_open_episodes():
    settings = PpoSettings(num_envs=4, num_steps=16, update_epochs=1, num_minibatches=2)
    long, short = CrafterVectorEnv(4, None, "symbols"), CrafterVectorEnv(4, {"length": 7}, "symbols")
    learner, results = PPO.for_envs(long, settings=settings), []
    learner.train(long, 4 * 20, results.append, seed=0)
    assert [len(result.episodes) for result in results] == [0]  # no episode ends within 20 steps
    value_weight = learner.network.value_head.weight
    weights_before = value_weight.clone()
    adam_steps_before = learner.optimizer.state[value_weight]["step"].clone()
    learner.train(short, 4 * 28, results.append, seed=0)
    assert learner.steps == 4 * 48
    assert [result.steps for result in results] == [80, 136, 192]
    lengths = [length for result in results for length in result.episodes.lengths]
    assert lengths == [7] * 16  # none includes the 20 steps in the first environments
    assert not torch.equal(value_weight, weights_before)
    assert learner.optimizer.state[value_weight]["step"] == adam_steps_before + 4
    assert learner.return_normalizer.debiasing_term > 0


def test_rollout_lengths_sum_to_the_phase_and_are_nearly_equal():
    learner = PPO.for_envs(CrafterVectorEnv(8, None, "symbols"), settings=PpoSettings())
    lengths = learner.rollout_lengths(120_000)
    assert sum(lengths) * 8 == 120_000
    assert len(lengths) == 29
    assert set(lengths) <= {517, 518}
    assert learner.rollout_lengths(1) == [1]


def test_unsuitable_environments_are_refused_before_the_first_step():
    learner = PPO.for_envs(make_envs("CartPole-v1", 8))
    with pytest.raises(SpaceError, match=r"(?s)observation space .* was made for"):
        learner.train(CrafterVectorEnv(8, None, "symbols"), 100)
    with pytest.raises(ValueError, match="has num_envs=8, but got 2 environments"):
        learner.train(make_envs("CartPole-v1", 2), 100)
    assert learner.steps == 0


def test_unknown_settings_are_refused_with_a_suggestion():
    with pytest.raises(ValueError, match="did you mean 'learning_rate'"):
        PpoSettings(learning_rat=1.0)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(("network", "message"), [
    ({"width": 0}, "^network.width: Input should be greater than or equal to 1"),
    ({"encoder": "tile"}, "^network: encoder: 'tile' is not one of"),
    (None, "^network: Input should be a valid dictionary"),
])  # fmt: skip
def test_errors_in_the_settings_of_the_network_name_it(network, message):
    with pytest.raises(HyperparameterError, match=message):
        PPO.settings_for(gymnasium.spaces.Box(0, 5, (4,), np.uint8), network=network)


def test_non_finite_loss_stops_training_and_leaves_the_weights():
    envs = make_envs("CartPole-v1", 8)
    learner = PPO.for_envs(envs, settings=PpoSettings(num_steps=32, update_epochs=1, num_minibatches=1))
    learner.train(envs, 256, seed=0)
    rollout = learner.collect(VecEnvRunner(envs, seed=0), 32)
    rollout.rewards[3, 1] = np.nan
    before = {name: tensor.clone() for name, tensor in learner.network.state_dict().items()}
    message = r"value_loss is nan.* in update 2, epoch 1 of 1.*returns \(\d+,\) nan to nan with \d+ not finite"
    with pytest.raises(NonFiniteLossError, match=message):
        learner.update(rollout)
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.network.state_dict().items())
    assert all(bool(tensor.isfinite()) for tensor in learner.return_normalizer.state_dict().values())


def test_async_collect_uses_each_rollout_once_and_is_repeatable():
    settings = PpoSettings(num_envs=8, num_steps=16, update_epochs=1, num_minibatches=2, async_collect=True)
    final_weights = []
    for _ in range(2):
        envs = CrafterVectorEnv(8, None, "symbols")
        learner, results = PPO.for_envs(envs, settings=settings), []
        learner.train(envs, 8 * 16 * 4, results.append, seed=0)
        final_weights.append(learner.network.value_head.weight.clone())
        assert learner.steps == 8 * 16 * 4
        assert len(results) == 4
    assert torch.equal(*final_weights)


def test_divergence_from_uniform_keeps_the_policy_close_to_uniform():
    for coef, minimum, maximum in ((0.0, 0.0, 0.6), (10.0, 0.68, 0.6932)):  # ln 2 = 0.6931
        envs = make_envs("CartPole-v1", 8)
        settings = PpoSettings(num_envs=8, num_steps=64, learning_rate=1e-2, ent_coef=0.0, uniform_kl_coef=coef)
        learner = PPO.for_envs(envs, settings=settings)
        entropies: list[float] = []
        learner.train(envs, 8_192, lambda result, out=entropies: out.append(result.metrics["entropy"]), seed=0)
        assert minimum < np.mean(entropies[-10:]) < maximum


def test_there_are_at_most_as_many_minibatches_as_samples():
    envs = make_envs("CartPole-v1", 1)
    settings = PpoSettings(num_envs=1, num_steps=4, num_minibatches=8, update_epochs=1)
    learner = PPO.for_envs(envs, settings=settings)
    entropies = []
    learner.train(envs, 4, lambda result: entropies.append(result.metrics["entropy"]))
    assert entropies == pytest.approx([np.log(2)], abs=0.01)  # not halved by empty minibatches


def test_divergence_from_uniform_requires_discrete_actions():
    with pytest.raises(SpaceError, match="uniform_kl_coef requires discrete actions, not Box"):
        PPO.for_envs(make_envs("Pendulum-v1", 8), settings=PpoSettings(uniform_kl_coef=0.1))


def test_annealed_settings_change_to_their_final_values(monkeypatch):
    used, learners = [], []

    def record(rewards, values, dones, last_values, gamma, gae_lambda):
        (learner,) = learners
        used.append((gamma, gae_lambda, learner.optimizer.param_groups[0]["lr"], learner._ent_coef))
        return np.zeros_like(rewards)

    monkeypatch.setattr(ppo, "gae", record)
    envs = make_envs("CartPole-v1", 8)
    changes = {
        "gamma": 0.9, "final_gamma": 0.98, "gae_lambda": 0.5, "final_gae_lambda": 0.9,
        "learning_rate": 5e-4, "final_learning_rate": 1e-4, "ent_coef": 0.05, "final_ent_coef": 0.01,
    }  # fmt: skip
    settings = PpoSettings(num_envs=8, num_steps=32, anneal_steps=1024, **changes)
    learners.append(PPO.for_envs(envs, settings=settings))
    learners[0].train(envs, 1536, seed=0)
    expected = [
        (0.9, 0.5, 5e-4, 0.05), (0.92, 0.6, 4e-4, 0.04), (0.94, 0.7, 3e-4, 0.03), (0.96, 0.8, 2e-4, 0.02),
        (0.98, 0.9, 1e-4, 0.01), (0.98, 0.9, 1e-4, 0.01),
    ]  # fmt: skip
    assert used == [pytest.approx(values) for values in expected]

    constant = PpoSettings(final_gamma=0.98)  # without anneal_steps nothing changes
    assert constant.annealed("gamma", 10**9) == 0.95
    assert constant.annealed("learning_rate", 10**9) == 3e-4


def test_metrics_include_the_explained_variance_of_the_rollout():
    envs = make_envs("CartPole-v1", 8)
    learner = PPO.for_envs(envs, settings=PpoSettings(num_steps=32, gae_lambda=1.0))
    rollout = learner.collect(VecEnvRunner(envs, seed=0), 32)
    perfect = learner.collect(VecEnvRunner(envs, seed=0), 32)
    metrics = learner.update(rollout)
    assert tuple(metrics) == METRICS
    assert metrics["explained_variance"] < 0.1  # the value function is untrained

    returns = np.zeros((32, 8), np.float32)  # discounted, without bootstrapping
    perfect.last_values[:] = 0
    future = np.zeros(8, np.float32)
    for t in reversed(range(32)):
        future = returns[t] = perfect.rewards[t] + 0.95 * future * ~perfect.dones[t]
    perfect.values = torch.from_numpy(returns)
    assert learner.update(perfect)["explained_variance"] == pytest.approx(1, abs=1e-5)


def test_explained_variance_of_constant_returns_is_zero():
    learner = PPO.for_envs(make_envs("CartPole-v1", 8))
    assert learner._explained_variance(np.arange(4.0), np.ones(4)) == 0.0
    assert learner._explained_variance(np.ones(4), np.arange(4.0)) == 0.0  # no better than a constant
    assert learner._explained_variance(np.arange(4.0), np.arange(4.0) * 2) == pytest.approx(0.75)


class TinyNetwork(PolicyNetwork):
    """A network of one's own: one shared layer, no encoder."""

    def __init__(self, observation_space, action_space, layout=None):
        super().__init__()
        self.action_dist = make_distribution(action_space)
        self.shared = nn.Linear(observation_space.shape[0], 8)
        self.heads = nn.Linear(8, self.action_dist.num_params + 1)

    def forward_prepared(self, prepared):
        out = self.heads(self.shared(prepared).tanh())
        return out[:, :-1], out[:, -1]


@pytest.mark.parametrize("bfloat16", [False, True])
def test_trains_and_restores_a_custom_network(bfloat16):
    envs = make_envs("CartPole-v1", 8)
    settings = PpoSettings(num_steps=16, bfloat16=bfloat16)
    learner = PPO.for_envs(envs, settings=settings, seed=1, network_factory=TinyNetwork)
    assert isinstance(learner.network, TinyNetwork)
    before = learner.network.heads.weight.clone()
    learner.train(envs, 8 * 16 * 2, seed=0)
    assert not torch.equal(learner.network.heads.weight, before)
    restored = PPO.for_envs(envs, settings=settings, seed=2, network_factory=TinyNetwork)
    restored.load(*learner.state())
    obs, _ = envs.reset(seed=3)
    np.testing.assert_array_equal(restored.act(obs), learner.act(obs))


def test_untrained_copy_has_the_same_settings_and_network_and_no_training():
    envs = make_envs("CartPole-v1", 8)
    learner = PPO.for_envs(envs, settings=PpoSettings(num_steps=16), network_factory=TinyNetwork)
    learner.train(envs, 128, seed=0)
    copy = learner.untrained_copy(seed=5)
    assert isinstance(copy.network, TinyNetwork)
    assert (copy.settings, copy.steps, copy.updates) == (learner.settings, 0, 0)
    expected = PPO.for_envs(envs, settings=learner.settings, seed=5, network_factory=TinyNetwork)
    assert torch.equal(copy.network.heads.weight, expected.network.heads.weight)


def test_a_factory_may_change_the_encoder_of_the_default_network():
    def with_relu(observation_space, action_space, layout):
        network = ActorCritic(observation_space, action_space, layout)
        for tower in network.encoder.towers:
            tower[1] = tower[3] = nn.ReLU()
        return network

    envs = make_envs("CartPole-v1", 8)
    learner = PPO.for_envs(envs, settings=PpoSettings(num_steps=16), network_factory=with_relu)
    learner.train(envs, 128, seed=0)
    assert learner.steps == 128


def test_threads_initialize_networks_independently():
    envs = gymnasium.make_vec("CartPole-v1", 2)
    with ThreadPoolExecutor(8) as pool:
        networks = list(pool.map(lambda seed: PPO.for_envs(envs, seed=seed % 2).network, range(64)))
    for seed in range(2):
        expected = PPO.for_envs(envs, seed=seed).network.state_dict()
        assert all(
            torch.equal(weights, expected[name])
            for network in networks[seed::2]
            for name, weights in network.state_dict().items()
        )
    envs.close()
