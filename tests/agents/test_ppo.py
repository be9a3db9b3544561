"""PPO learns, refuses what does not fit, carries on across environments, and stops at a loss that is no number."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from envgen.agents.errors import NonFiniteLossError, SpaceError
from envgen.agents.ppo import PPO
from envgen.agents.rollout import EpisodeStats, Stream
from envgen.agents.settings import PpoSettings, settings_for
from envgen.worlds.crafter.constants import SKILLS
from envgen.worlds.crafter.vector import CrafterVectorEnv


def made(name: str, count: int, mode: AutoresetMode = AutoresetMode.NEXT_STEP):
    return gymnasium.make_vec(name, count, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})


def played(agent: PPO, name: str, episodes: int) -> float:
    """The mean return of the likeliest actions."""
    envs, ended = Stream(made(name, episodes), seed=999), EpisodeStats()
    while len(ended) < episodes:
        envs.step(agent.act(envs.observations), ended)
    return float(np.mean(ended.returns))


@pytest.mark.parametrize("seed", range(3))
def test_cartpole_is_solved_in_50_000_steps(seed):
    """Solved: a mean return of 475 over 20 episodes in a row, of at most 500."""
    settings = settings_for(
        made("CartPole-v1", 1).single_observation_space,
        num_steps=64, num_minibatches=4, learning_rate=1e-3, bootstrap_on_truncation=True,
    )  # fmt: skip
    envs, returns = made("CartPole-v1", settings.num_envs), []
    PPO.for_envs(envs, settings=settings, seed=seed).train(
        envs, 50_000, lambda update: returns.extend(update.episodes.returns), seed=seed
    )
    assert np.mean(returns[:20]) < 50
    assert np.convolve(returns, np.ones(20) / 20, "valid").max() >= 475


@pytest.mark.parametrize("seed", range(3))
def test_pendulum_is_solved_in_80_000_steps(seed):
    settings = settings_for(
        made("Pendulum-v1", 1).single_observation_space,
        gamma=0.9, learning_rate=5e-4, num_minibatches=16, return_norm_decay=0.999, bootstrap_on_truncation=True,
    )  # fmt: skip
    envs = made("Pendulum-v1", settings.num_envs)
    agent = PPO.for_envs(envs, settings=settings, seed=seed)
    agent.train(envs, 80_000, seed=seed)
    assert played(agent, "Pendulum-v1", 16) > -350  # a random policy gets -1,200


@pytest.mark.parametrize(("seed", "bfloat16"), [(0, False), (1, True), (2, False)])
def test_a_skill_a_few_actions_away_is_learned(seed, bfloat16):
    """With wood in hand and a table near, a pickaxe is one action away once beside the table."""
    level = {"near": {"table": True}, "inventory": {"wood": 5}, "length": 12, "zombies": "none"}
    envs = CrafterVectorEnv(32, level, "symbols")
    agent = PPO.for_envs(envs, settings=PpoSettings(num_envs=32, num_steps=32, bfloat16=bfloat16), seed=seed)
    rates, skill = [], [s.name for s in SKILLS].index("make_wood_pickaxe")

    def after(update):
        rates.extend(episode[skill] > 0 for episode in update.episodes.skills)

    agent.train(envs, 30_000, after, seed=seed)
    assert np.mean(rates[:60]) < 0.4
    assert np.mean(rates[-60:]) > 0.9


@pytest.mark.parametrize("mode", AutoresetMode)
def test_every_way_of_beginning_anew_gives_the_same_experience(mode):
    """Steps that only reset are left out; what remains is one history whatever the mode."""
    agent = PPO.for_envs(made("CartPole-v1", 2), settings=PpoSettings(num_envs=2, num_steps=60))
    rollout = agent.collect(Stream(made("CartPole-v1", 2, mode), seed=5), 60, agent._player())
    assert len(rollout.episodes) >= 2
    assert rollout.episodes.lengths == rollout.episodes.returns
    for env in range(2):
        lived = rollout.valid[:, env]
        assert (rollout.rewards[lived, env] == 1).all()
        first = int(rollout.ends[:, env].argmax())
        assert first + 1 in rollout.episodes.lengths
        if mode == AutoresetMode.NEXT_STEP:
            assert not rollout.valid[first + 1, env]
        else:
            assert lived.all()
        start = rollout.seen[first + 1 + (mode == AutoresetMode.NEXT_STEP), env]
        assert float(start.abs().max()) < 0.05 + 1e-6  # CartPole begins near zero


def test_a_time_limit_can_count_as_going_on():
    """In a world of endless reward 1 the value at the limit is worth gamma times itself, or nothing."""
    settings = PpoSettings(num_envs=1, num_steps=10, bootstrap_on_truncation=True, return_norm_decay=None)
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.wrappers.TimeLimit(gymnasium.make("Pendulum-v1").unwrapped, 5)],
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    agent = PPO.for_envs(envs, settings=settings)
    plain = PPO.for_envs(envs, settings=settings.model_copy(update={"bootstrap_on_truncation": False}))
    torch.nn.init.constant_(agent.network.value.bias, 7.0)
    torch.nn.init.zeros_(agent.network.value.weight)
    plain.network.load_state_dict(agent.network.state_dict())
    with_value = agent.collect(Stream(envs, seed=1), 10, agent._player())
    without = plain.collect(Stream(envs, seed=1), 10, plain._player())
    np.testing.assert_allclose(with_value.rewards - without.rewards, 0.95 * 7.0 * without.ends, atol=1e-5)
    assert without.ends.sum() == 2


def test_a_death_at_the_time_limit_is_a_death():
    """Both may be true in one step; only a limit alone leaves something to come."""

    class Ends(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {}

        def step(self, action):
            return np.ones(2, np.float32), 1.0, True, True, {}

    stream = Stream(gymnasium.vector.SyncVectorEnv([Ends], autoreset_mode=AutoresetMode.SAME_STEP))
    _, ended, cut, _, _ = stream.step(np.array([0]), EpisodeStats())
    assert ended.all()
    assert not cut.any()


def test_learning_goes_on_across_environments_and_cuts_episodes_cleanly():
    settings = PpoSettings(num_envs=4, num_steps=16, update_epochs=1, num_minibatches=2)
    long, short = CrafterVectorEnv(4, None, "symbols"), CrafterVectorEnv(4, {"length": 7}, "symbols")
    agent, updates = PPO.for_envs(long, settings=settings), []
    agent.train(long, 4 * 20, updates.append, seed=0)
    assert [len(u.episodes) for u in updates] == [0]  # nobody dies in 20 steps, and the cut is no end
    weights = agent.network.value.weight.clone()
    moments = agent.optimizer.state[agent.network.value.weight]["step"].clone()
    agent.train(short, 4 * 28, updates.append, seed=0)
    assert agent.steps == 4 * 48
    assert [u.steps for u in updates] == [80, 136, 192]
    lengths = [length for u in updates for length in u.episodes.lengths]
    assert lengths == [7] * 16  # each begun in the new environments: none has the 20 steps before
    assert not torch.equal(agent.network.value.weight, weights)
    assert agent.optimizer.state[agent.network.value.weight]["step"] == moments + 4
    assert agent.return_normalizer.weight_ > 0


def test_a_phase_has_as_many_steps_as_asked_for_in_rollouts_of_nearly_equal_length():
    agent = PPO.for_envs(CrafterVectorEnv(8, None, "symbols"), settings=PpoSettings())
    lengths = agent.rollout_lengths(120_000)
    assert sum(lengths) * 8 == 120_000
    assert len(lengths) == 29
    assert set(lengths) <= {517, 518}
    assert agent.rollout_lengths(1) == [1]


def test_environments_that_are_not_the_agents_are_refused_before_the_first_step():
    agent = PPO.for_envs(made("CartPole-v1", 8))
    with pytest.raises(SpaceError, match=r"(?s)observation space .* was made for"):
        agent.train(CrafterVectorEnv(8, None, "symbols"), 100)
    with pytest.raises(ValueError, match="plays 8 environments in all, and was given 2"):
        agent.train(made("CartPole-v1", 2), 100)
    assert agent.steps == 0


def test_unknown_settings_are_refused_with_the_nearest_known_one():
    with pytest.raises(ValueError, match="did you mean 'learning_rate'"):
        PpoSettings(learning_rat=1.0)  # pyright: ignore[reportCallIssue]


def test_a_loss_that_is_no_number_stops_the_run_and_leaves_the_weights():
    envs = made("CartPole-v1", 8)
    agent = PPO.for_envs(envs, settings=PpoSettings(num_steps=32, update_epochs=1, num_minibatches=1))
    agent.train(envs, 256, seed=0)
    rollout = agent.collect(Stream(envs, seed=0), 32, agent._player())
    rollout.rewards[3, 1] = np.nan
    before = {name: w.clone() for name, w in agent.network.state_dict().items()}
    says = r"value_loss is nan.* in update 2, epoch 1 of 1.*returns \(\d+,\) nan to nan with \d+ not finite"
    with pytest.raises(NonFiniteLossError, match=says):
        agent.update(rollout)
    assert all(torch.equal(w, before[name]) for name, w in agent.network.state_dict().items())
    assert all(bool(w.isfinite()) for w in agent.return_normalizer.state_dict().values())


def test_playing_ahead_learns_from_each_rollout_once_and_repeats_itself():
    settings = PpoSettings(num_envs=8, num_steps=16, update_epochs=1, num_minibatches=2, async_collect=True)
    results = []
    for _ in range(2):
        envs = CrafterVectorEnv(8, None, "symbols")
        agent, updates = PPO.for_envs(envs, settings=settings), []
        agent.train(envs, 8 * 16 * 4, updates.append, seed=0)
        results.append(agent.network.value.weight.clone())
        assert agent.steps == 8 * 16 * 4
        assert len(updates) == 4
    assert torch.equal(*results)
