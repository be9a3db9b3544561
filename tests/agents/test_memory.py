"""Agents with memory: history bits, recurrent policies, and tasks that cannot be solved without memory."""

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from envgen.agents.memory import AgentMemory, HistorySpec
from envgen.agents.networks import run_network
from envgen.agents.policy import load_policy
from envgen.agents.ppo import PPO
from envgen.agents.rollout import EpisodeStats, VecEnvRunner
from envgen.agents.settings import NetworkSettings, PpoSettings
from envgen.curriculum.evaluate import evaluate
from envgen.worlds.crafter import constants as const
from envgen.worlds.crafter.env import CrafterVectorEnv
from envgen.worlds.crafter.observations import ENTITY_SYMBOLS
from envgen.worlds.crafter.world import Crafter

NETWORKS = {
    "gru": NetworkSettings(memory="gru", memory_size=16),
    "mingru": NetworkSettings(memory="mingru", memory_size=16),
    "history": NetworkSettings(history=True),
    "both": NetworkSettings(memory="gru", memory_size=16, history=True),
}


def make_settings(network: NetworkSettings, **changes) -> PpoSettings:
    return PpoSettings(**{"num_envs": 4, "num_steps": 12, "sequence_length": 5, "network": network, **changes})


def make_learner(name: str, length: int = 9, **changes) -> tuple[PPO, CrafterVectorEnv]:
    envs = CrafterVectorEnv(4, {"length": length}, "symbols")
    learner = PPO.for_envs(envs, settings=make_settings(NETWORKS[name], bfloat16=False, **changes), seed=3)
    for head in (learner.network.policy_head, learner.network.value_head):
        head.weight.data *= 30  # so that outputs depend visibly on the past
    return learner, envs


# ------------------------------------------------------------------------------------------------------------- history


def test_last_action_and_sign_of_reward():
    spec = HistorySpec(spaces.Box(0, 1, (3,), np.uint8), spaces.Discrete(4, start=1), None, True, False)
    memory = AgentMemory(0, spec, 2)
    assert spec.num_bits == 6
    memory.record_action(np.zeros((2, 3), np.uint8), np.array([1, 4]))
    memory.record_rewards(np.array([-0.1, 2.0]))
    np.testing.assert_array_equal(memory.bits, [[1, 0, 0, 0, 0, 1], [0, 0, 0, 1, 1, 0]])
    memory.reset(np.array([False, True]))
    np.testing.assert_array_equal(memory.bits, [[1, 0, 0, 0, 0, 1], [0] * 6])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_reward_equal_to_the_threshold_does_not_exceed_it(dtype):
    """Policies record rewards as float64, environments may give float32, and achievements are found in float32."""
    spec = HistorySpec(
        spaces.Box(0, 1, (3,), np.uint8), spaces.Discrete(3), None, False, False, reward_bit_threshold=0.1
    )
    memory = AgentMemory(0, spec, 2)
    memory.record_rewards(np.array([0.1, 0.2], np.float32).astype(dtype))
    assert memory.bits is not None
    assert memory.bits[:, 0].tolist() == [0, 1]


def test_rewarded_events_last_until_the_episode_ends():
    spec = HistorySpec(spaces.Box(0, 1, (3,), np.uint8), spaces.Discrete(3), None, False, True)
    memory = AgentMemory(0, spec, 1)
    obs, bits = np.zeros((1, 3), np.uint8), []
    for action, reward, done in ((2, 1.0, False), (1, 0.1, False), (0, 0.9, False), (1, 1.0, True)):
        memory.record_action(obs, np.array([action]))
        memory.record_rewards(np.array([reward]))
        memory.reset(np.array([done]))
        bits.append(memory.bits[0].tolist())
    assert bits == [[0, 0, 1], [0, 0, 1], [1, 0, 1], [0, 0, 0]]


def test_events_identify_crafters_skills():
    """Every unlock of a scripted expert sets a bit of its own."""
    world = Crafter()
    envs = world.make(num_envs=32, seed=5, observation="symbols")
    spec = HistorySpec(
        envs.single_observation_space, envs.single_action_space, envs.metadata["symbol_map"], False, True
    )
    memory = AgentMemory(0, spec, 32)
    obs, infos = envs.reset()
    skills_by_bit: dict[int, set[int]] = {}
    for _ in range(400):
        actions = world.expert_actions(envs)
        bits, unlocked = memory.bits.copy(), infos["achievements"] > 0
        memory.record_action(obs, actions)
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        memory.record_rewards(rewards)
        for i in np.flatnonzero(~(terminated | truncated)):
            new_bits = np.flatnonzero(memory.bits[i] & ~bits[i].astype(bool))
            new_skills = np.flatnonzero((infos["achievements"][i] > 0) & ~unlocked[i])
            if len(new_skills) == 1 and rewards[i] > 0.5:
                assert len(new_bits) == 1
                skills_by_bit.setdefault(int(new_bits[0]), set()).add(int(new_skills[0]))
            elif not len(new_skills):
                assert not len(new_bits)
        memory.reset(terminated | truncated)
    assert len(set.union(*skills_by_bit.values())) >= 12
    ambiguous = [skills for skills in skills_by_bit.values() if len(skills) > 1]
    assert not ambiguous
    # the events with which the history of a level begins are those of its done skills
    envs = world.make([{"done": [skill.name for skill in world.skills]}], 1, 5, "symbols")
    memory = AgentMemory(0, spec, 1)
    memory.reset(np.ones(1, bool), envs.reset()[1])
    declared = {int(bit) for bit in np.flatnonzero(memory.bits[0])}
    assert len(declared) == len(world.skills) - 1  # all but wake_up, which any action can be the event of
    for bit in declared & skills_by_bit.keys():
        assert skills_by_bit[bit] == {np.flatnonzero(declared_events(envs, spec) == bit)[0]}
    assert len(declared & skills_by_bit.keys()) >= 10


@pytest.mark.parametrize("wrong", ["symbol", "facing"])
def test_symbols_outside_the_observation_space_do_not_change_other_environments(wrong):
    envs = CrafterVectorEnv(3, None, "symbols")
    obs, _ = envs.reset(seed=0)
    layout = envs.metadata["symbol_map"]
    spec = HistorySpec(envs.single_observation_space, envs.single_action_space, layout, False, True)
    memory = AgentMemory(0, spec, 3)
    assert spec.facing is not None
    if wrong == "symbol":
        obs[0, spec.facing_cells[obs[0, layout.facing_index]]] = 250
    else:
        obs[0, layout.facing_index] = 250
    memory.record_action(obs, np.array([const.ACTIONS.index("noop")] * 3))
    memory.record_rewards(np.array([1.0, 0.0, 0.0]))
    assert memory.bits.sum(1).tolist() == [1, 0, 0]


def declared_events(envs, spec) -> np.ndarray:
    """The declared event of each skill, (skills,)."""
    events = envs.reset()[1]["done_events"][0].astype(int)
    return np.where(events[:, 0] < 0, -1, events[:, 0] * spec.num_faced_symbols + events[:, 1])


def test_infos_of_another_number_of_environments_are_refused():
    learner, envs = make_learner("history")
    memory = learner.network.new_memory(3, learner.device)
    with pytest.raises(ValueError, match="infos are of 4 environments, but there are 3"):
        memory.reset(np.ones(3, bool), envs.reset()[1])


def test_actions_of_done_events_are_counted_from_the_first_one():
    spec = HistorySpec(spaces.Box(0, 1, (2,)), spaces.Discrete(3, start=5), None, last_step=False, rewarded_events=True)
    memory = AgentMemory(0, spec, 1)
    memory.reset(np.ones(1, bool), {"done_events": np.array([[[6, 0], [-1, -1]]])})
    assert memory.bits.tolist() == [[0, 1, 0]]


LEVELS = ({}, {"near": {"table": True}, "inventory": {"wood_pickaxe": 1}}, {"done": ["eat_cow", "wake_up"]})


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_episodes_begin_with_the_events_of_done_skills(mode):
    world = Crafter()
    levels = [{**level, "length": 9} for level in LEVELS]
    envs = CrafterVectorEnv(3, levels, "symbols", autoreset_mode=AutoresetMode(mode))
    learner = PPO.for_envs(envs, settings=PpoSettings(num_envs=3, network=NETWORKS["history"]))
    spec = learner.network.history_spec
    assert spec is not None
    symbols = [*const.MATERIALS, *ENTITY_SYMBOLS[1:]]

    def bit(action: str, symbol: str) -> int:
        return world.actions.index(action) * spec.num_faced_symbols + symbols.index(symbol)

    expected = np.zeros((3, spec.num_event_bits), np.uint8)
    expected[1, [bit("place_table", "grass"), bit("make_wood_pickaxe", "table")]] = 1
    expected[2, bit("do", "cow")] = 1
    runner = VecEnvRunner(envs, seed=0, memory=learner.network.new_memory(3, learner.device))
    np.testing.assert_array_equal(runner.memory.bits, expected)
    begun = 0
    for _ in range(60):
        starts = runner.episode_lengths == 0
        np.testing.assert_array_equal(runner.memory.bits[starts], expected[starts])
        runner.step(np.full(3, world.actions.index("noop")), EpisodeStats())
        begun += starts.sum()
    assert begun >= 12


def test_evaluations_begin_with_the_events_of_done_skills():
    level, bits = {"done": ["eat_cow", "collect_wood"], "length": 5}, []
    policy = make_learner("history")[0].policy

    class Recorder:
        has_memory, reset, observe = True, staticmethod(policy.reset), staticmethod(policy.observe)

        def act(self, obs, rng=None):
            actions = policy.act(obs, rng)
            assert policy._memory is not None
            bits.append(policy._memory.bits.sum(1).tolist())
            return actions

    evaluate(Recorder(), Crafter(), level, episodes=8, observation="symbols")
    assert bits[0] == [2] * 8
    evaluate(Recorder(), Crafter(), None, episodes=8, observation="symbols")
    assert bits[5] == [0] * 8


# --------------------------------------------------------------------------------------------------- recurrent networks


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("num_steps", [12, 13])  # 13 makes sequences of different lengths
def test_update_sees_the_probabilities_and_values_of_the_rollout(name, num_steps):
    learner, envs = make_learner(name)
    runner = VecEnvRunner(envs, seed=0, memory=learner.network.new_memory(4, learner.device))
    learner.collect(runner, 7)  # so that the rollout starts in mid-episode
    rollout = learner.collect(runner, num_steps)
    assert rollout.dones.any()
    batch, _ = learner._make_batch(rollout)
    samples, env_ids = np.divmod(np.arange(rollout.num_samples * 4), 4)
    minibatch = rollout.select(batch, samples, env_ids)
    network = learner.network
    with torch.no_grad():
        if network.state_size:
            valid = minibatch["valid"]
            logits, values, _ = network.forward_sequence(minibatch["obs"], minibatch["hidden"], minibatch["starts"])
            logits, values = logits[valid.flatten()], values[valid.flatten()]
            minibatch = {key: minibatch[key][valid] for key in ("actions", "logprobs", "returns", "advantages")}
            assert len(values) == num_steps * 4
        else:
            logits, values = run_network(network.forward_prepared, minibatch["obs"], False)
        log_probs, _ = network.action_dist.log_prob_and_entropy(logits, minibatch["actions"])
    torch.testing.assert_close(log_probs, minibatch["logprobs"], rtol=1e-4, atol=1e-5)
    assert minibatch["logprobs"].std() > 0.01


@pytest.mark.parametrize("name", NETWORKS)
def test_truncated_episodes_bootstrap_from_the_value_that_a_longer_episode_has_there(name):
    rollouts = []
    for length in (9, 10_000):
        learner, envs = make_learner(name, length, bootstrap_on_truncation=True, return_norm_decay=None)
        runner = VecEnvRunner(envs, seed=0, memory=learner.network.new_memory(4, learner.device))
        rollouts.append(learner.collect(runner, 10))
    short, long = rollouts
    assert short.dones[8].all()
    assert not long.dones.any()
    np.testing.assert_array_equal(short.rewards[:8], long.rewards[:8])
    added = short.rewards[8] - long.rewards[8]
    np.testing.assert_allclose(added, learner.settings.gamma * long.values[9], rtol=1e-4, atol=1e-5)
    assert np.ptp(added) > 0.01


@pytest.mark.parametrize("name", NETWORKS)
def test_policy_remembers_like_the_learner(name):
    """Greedy play through Policy.act and observe meets the same observations as VecEnvRunner with the same network."""
    learner, envs = make_learner(name)
    runner = VecEnvRunner(envs, seed=0, memory=learner.network.new_memory(4, learner.device))
    rollout = learner.collect(runner, 20)
    policy, envs = learner.policy, CrafterVectorEnv(4, {"length": 9}, "symbols")
    assert policy.has_memory
    obs, _ = envs.reset(seed=0)
    rng = np.random.default_rng([3, 0])  # of the learner's actions
    for t in range(20):
        actions = policy.act(obs, rng)
        np.testing.assert_array_equal(actions, rollout.actions[t].numpy())
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        policy.observe(rewards, terminated | truncated)
    policy.reset()
    first = policy.act(obs)
    policy.act(obs)
    policy.reset()
    np.testing.assert_array_equal(policy.act(obs), first)


@pytest.mark.parametrize("name", ["gru", "mingru"])
def test_predict_passes_its_state_as_in_stable_baselines3(name):
    learner, envs = make_learner(name)
    policy = learner.policy
    obs, _ = envs.reset(seed=0)
    state, episode_start, states = None, np.ones(4, np.bool_), []
    for _ in range(6):
        actions, state = policy.predict(obs, state, episode_start, deterministic=True)
        states.append(state)
        obs, _, terminated, truncated, _ = envs.step(actions)
        episode_start = terminated | truncated
    names = policy.network.new_memory(4, policy.device).state().keys()
    hidden = [dict(zip(names, state, strict=True))["hidden"] for state in states]
    assert all(not np.allclose(a, b) for a, b in itertools.pairwise(hidden))
    fresh, _ = policy.predict(obs, None, None, deterministic=True)
    restarted, _ = policy.predict(obs, state, np.ones(4, np.bool_), deterministic=True)
    np.testing.assert_array_equal(fresh, restarted)


@pytest.mark.parametrize("name", NETWORKS)
def test_saved_policy_keeps_its_network(name, tmp_path):
    learner, envs = make_learner(name)
    learner.policy.save(tmp_path)
    policy, loaded = learner.policy, load_policy(tmp_path)
    obs, _ = envs.reset(seed=0)
    for _ in range(4):
        actions = policy.act(obs)
        np.testing.assert_array_equal(loaded.act(obs), actions)
        obs, rewards, terminated, truncated, _ = envs.step(actions)
        for each in (policy, loaded):
            each.observe(rewards, terminated | truncated)


def test_pixels_and_vectors_have_memory_too():
    network = NetworkSettings(memory="mingru", memory_size=8, history=True)
    for envs in (CrafterVectorEnv(4, None, "pixels"), gymnasium.make_vec("Pendulum-v1", 4)):
        settings = make_settings(network, num_steps=4, num_minibatches=2, update_epochs=1)
        learner = PPO.for_envs(envs, settings=settings)
        before = {name: tensor.clone() for name, tensor in learner.network.state_dict().items()}
        learner.train(envs, 32, seed=0)
        assert any(not torch.equal(t, before[n]) for n, t in learner.network.state_dict().items() if "core" in n)
        envs.close()


# ---------------------------------------------------------------------------------------- tasks that require memory


class RecallEnv(VectorEnv):
    """Shows a cue, 0 or 1, in the first of `length` steps. The action of the last step earns 1 if it equals the cue."""

    def __init__(self, num_envs: int, length: int):
        self.num_envs, self.length = num_envs, length
        self.single_observation_space = spaces.Box(0, np.array([2, 1], np.uint8), dtype=np.uint8)
        self.single_action_space = spaces.Discrete(2)
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def _obs(self) -> np.ndarray:
        return np.stack([np.where(self.t == 0, 1 + self.cues, 0), self.t == self.length - 1], 1).astype(np.uint8)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.cues, self.t = self.rng.integers(0, 2, self.num_envs), np.zeros(self.num_envs, np.int64)
        self.t[:] = self.rng.integers(0, self.length, self.num_envs)  # environments out of step
        return self._obs(), {}

    def step(self, actions):
        done = self.t == self.length - 1
        rewards = (done & (actions == self.cues)).astype(np.float64)
        final_obs = np.array([*self._obs(), None], object)[:-1]
        self.t = np.where(done, 0, self.t + 1)
        self.cues = np.where(done, self.rng.integers(0, 2, self.num_envs), self.cues)
        return self._obs(), rewards, done, np.zeros_like(done), {"final_obs": final_obs, "final_info": {}}


def recall_rate(network: NetworkSettings) -> float:
    settings = PpoSettings(
        num_envs=32, num_steps=16, sequence_length=8, num_minibatches=4, learning_rate=1e-3, gamma=0.95,
        gae_lambda=0.95, ent_coef=0.01, network=network,
    )  # fmt: skip
    envs = RecallEnv(32, length=6)
    learner, returns = PPO.for_envs(envs, settings=settings, seed=0), []
    learner.train(envs, 25_000, lambda result: returns.extend(result.episodes.returns), seed=0)
    return float(np.mean(returns[-500:]))


@pytest.mark.parametrize("memory", ["gru", "mingru"])
def test_a_recurrent_agent_recalls_a_cue(memory):
    assert recall_rate(NetworkSettings(memory=memory, memory_size=32)) > 0.95


def test_an_agent_without_memory_guesses():
    assert recall_rate(NetworkSettings()) < 0.65
