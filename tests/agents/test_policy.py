"""Policies act alone, follow Stable-Baselines3's convention, and can be saved and loaded without training state."""

import copy
import errno
import json
import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from envgen.agents.errors import SpaceError
from envgen.agents.networks import ActorCritic
from envgen.agents.policy import Policy, PolicyError, load_policy
from envgen.agents.ppo import PPO
from envgen.agents.settings import NetworkSettings, PpoSettings
from envgen.worlds.crafter.env import CrafterVectorEnv


class CustomNetwork(ActorCritic):
    pass


def make_policy(kind: str) -> tuple[Policy, np.ndarray]:
    """A policy for a kind of observation, and a batch of observations."""
    if kind in ("symbols", "pixels"):
        envs = CrafterVectorEnv(4, None, kind)
    else:
        envs = gymnasium.make_vec(kind, 4, vectorization_mode="sync")
    learner = PPO.for_envs(envs, settings=PpoSettings(num_envs=4, num_steps=8), seed=2)
    learner.network.policy_head.weight.data *= 50  # so that the most likely action differs between observations
    obs, _ = envs.reset(seed=0)
    return learner.policy, obs


KINDS = ("symbols", "pixels", "CartPole-v1", "Pendulum-v1")


@pytest.mark.parametrize("kind", KINDS)
def test_acts_on_single_observations_and_batches(kind):
    policy, obs = make_policy(kind)
    actions = policy.act(obs)
    assert len(actions) == 4
    for i in range(4):
        single = policy.act(obs[i])
        assert policy.action_space.contains(single)
        np.testing.assert_allclose(single, actions[i], rtol=1e-2)  # bfloat16 may round a batch of one differently


def test_act_is_greedy_without_a_generator_and_sampled_with_one():
    policy, obs = make_policy("Pendulum-v1")
    np.testing.assert_array_equal(policy.act(obs), policy.act(obs))
    sampled = policy.act(obs, np.random.default_rng(0))
    np.testing.assert_array_equal(sampled, policy.act(obs, np.random.default_rng(0)))
    assert not np.array_equal(sampled, policy.act(obs))


def test_predict_returns_actions_and_no_state():
    policy, obs = make_policy("Pendulum-v1")
    actions, state = policy.predict(obs, deterministic=True)
    assert state is None
    np.testing.assert_array_equal(actions, policy.act(obs))
    policy.seed(7)
    sampled = [policy.predict(obs)[0] for _ in range(2)]
    assert not np.array_equal(*sampled)
    policy.seed(7)
    np.testing.assert_array_equal(policy.predict(obs)[0], sampled[0])


def test_works_in_stable_baselines3_evaluate_policy():
    policy, _ = make_policy("CartPole-v1")
    mean, std = evaluate_policy(policy, make_vec_env("CartPole-v1", 2), n_eval_episodes=4)  # pyright: ignore[reportArgumentType]
    assert mean >= 8
    assert np.isfinite(std)


def test_acts_on_views_and_read_only_arrays():
    policy, obs = make_policy("symbols")
    assert np.array_equal(policy.act(obs[::-1]), policy.act(obs)[::-1])
    obs.flags.writeable = False
    policy.act(obs)


def test_observations_of_another_kind_are_refused():
    policy, obs = make_policy("symbols")
    with pytest.raises(SpaceError, match="expects observations of uint8, not float32"):
        policy.act(obs.astype(np.float32))


def test_memory_restarts_after_the_steps_that_only_reset():
    settings = PpoSettings(num_envs=4, num_steps=8, network=NetworkSettings(memory="gru", memory_size=16))
    level = {"length": 6}
    states = []
    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
        envs = CrafterVectorEnv(4, level, "symbols", autoreset_mode=mode)
        policy = PPO.for_envs(envs, settings=settings, seed=2).policy
        obs, infos = envs.reset(seed=0)
        policy.reset(infos)
        only_resets = np.zeros(4, np.bool_)
        hidden = []
        for _ in range(25):
            actions = policy.act(obs)
            if not only_resets.any():
                hidden.append(policy._memory.hidden.clone())  # pyright: ignore[reportOptionalMemberAccess]
            obs, rewards, terminated, truncated, infos = envs.step(actions)
            policy.observe(rewards, terminated | truncated | only_resets, infos)
            only_resets = (terminated | truncated) & (mode == AutoresetMode.NEXT_STEP)
        states.append(hidden)
    for same_step, next_step in zip(*states, strict=False):
        assert torch.equal(same_step, next_step)


def test_wrong_observation_shape_is_refused():
    policy, _ = make_policy("CartPole-v1")
    with pytest.raises(SpaceError, match=r"shape \(4,\) or a batch of shape \(n, 4\), not \(2, 5\)"):
        policy.act(np.zeros((2, 5), np.float32))
    with pytest.raises(SpaceError, match=r"not \(\)"):
        policy.act(np.float32(1))


@pytest.mark.parametrize("kind", KINDS)
def test_saved_policy_acts_the_same_after_loading(kind, tmp_path):
    policy, obs = make_policy(kind)
    policy.metadata["world"] = "some world"
    policy.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    assert sorted(file.name for file in (tmp_path / "policy").iterdir()) == ["policy.json", "policy.safetensors"]
    assert loaded.observation_space == policy.observation_space
    assert loaded.action_space == policy.action_space
    assert loaded.layout == policy.layout
    assert loaded.bfloat16 == policy.bfloat16
    assert loaded.metadata == policy.metadata
    assert loaded.metadata["settings"]["num_envs"] == 4
    np.testing.assert_array_equal(loaded.act(obs), policy.act(obs))
    rng, other_rng = np.random.default_rng(1), np.random.default_rng(1)
    np.testing.assert_array_equal(loaded.act(obs, rng), policy.act(obs, other_rng))


def test_saved_policy_acts_the_same_in_another_process(tmp_path):
    policy, obs = make_policy("symbols")
    policy.save(tmp_path / "policy")
    np.save(tmp_path / "obs.npy", obs)
    program = (
        "import numpy as np; from envgen.agents.policy import load_policy; "
        f"print(load_policy({str(tmp_path / 'policy')!r}).act(np.load({str(tmp_path / 'obs.npy')!r})).tolist())"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == policy.act(obs).tolist()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])
@pytest.mark.parametrize("network", [NetworkSettings(), NetworkSettings(memory="gru", history=True)])
def test_a_copy_and_a_pickled_policy_continue_like_the_original(network, copied):
    envs = CrafterVectorEnv(4, None, "symbols")
    policy = PPO.for_envs(envs, settings=PpoSettings(num_envs=4, num_steps=8, network=network)).policy
    obs, _ = envs.reset(seed=0)
    for started in (False, True):
        if started:
            policy.act(obs)
            policy.observe(np.ones(4), np.zeros(4, np.bool_))
        copies = [copied(policy), copied(policy)]
        first, second = (each.act(obs, np.random.default_rng(3)) for each in copies)
        np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(policy.act(obs, np.random.default_rng(3)), first)


def test_saved_policy_is_a_copy_of_the_learner(tmp_path):
    envs = CrafterVectorEnv(4, None, "symbols")
    learner = PPO.for_envs(envs, settings=PpoSettings(num_envs=4, num_steps=8))
    learner.policy.save(tmp_path)
    before = load_policy(tmp_path).network.state_dict()
    learner.train(envs, 64, seed=0)
    assert not before["policy_head.weight"].equal(learner.network.policy_head.weight)
    learner.policy.save(tmp_path)  # replaces the earlier one
    assert load_policy(tmp_path).network.state_dict()["policy_head.weight"].equal(learner.network.policy_head.weight)


def test_custom_network_is_loaded_with_its_factory(tmp_path):
    envs = gymnasium.make_vec("CartPole-v1", 8, vectorization_mode="sync")
    PPO.for_envs(envs, network_factory=CustomNetwork).policy.save(tmp_path)
    with pytest.raises(PolicyError, match="CustomNetwork; pass network_factory"):
        load_policy(tmp_path)
    assert isinstance(load_policy(tmp_path, network_factory=CustomNetwork).network, CustomNetwork)


def test_infinite_bounds_and_discrete_start_survive_saving(tmp_path):
    observation_space = spaces.Box(-np.inf, np.array([1, np.inf, 3], np.float32), (3,), np.float32)
    learner = PPO(observation_space, spaces.Discrete(3, start=-1))
    learner.policy.save(tmp_path)
    loaded = load_policy(tmp_path)
    assert (loaded.observation_space, loaded.action_space) == (observation_space, spaces.Discrete(3, start=-1))
    json.loads((tmp_path / "policy.json").read_text(), parse_constant=pytest.fail)  # strict JSON


def test_missing_and_damaged_policies_are_refused(tmp_path):
    with pytest.raises(PolicyError, match=r"is not a saved policy: policy.json is missing"):
        load_policy(tmp_path / "nothing")
    policy, _ = make_policy("CartPole-v1")
    file = policy.save(tmp_path) / "policy.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(PolicyError, match="damaged"):
        load_policy(tmp_path)
    policy.save(tmp_path)
    document = json.loads((tmp_path / "policy.json").read_text())
    (tmp_path / "policy.json").write_text(json.dumps({**document, "format": 99}))
    with pytest.raises(PolicyError, match="has policy format 99"):
        load_policy(tmp_path)
    (tmp_path / "policy.json").write_text("[]")
    with pytest.raises(PolicyError, match="damaged"):
        load_policy(tmp_path)


def biased_policy(bias: float) -> Policy:
    """A policy that can be told from others by its value estimates."""
    policy, _ = make_policy("CartPole-v1")
    assert isinstance(policy.network, ActorCritic)
    policy.network.value_head.bias.data.fill_(bias)
    return policy


def loaded_bias(folder: Path) -> float:
    return load_policy(folder).network.state_dict()["value_head.bias"].item()


@pytest.mark.parametrize("renames", [0, 1])
def test_a_policy_can_be_loaded_after_its_replacement_was_interrupted(renames, tmp_path, monkeypatch):
    biased_policy(1).save(tmp_path)
    replaced, replace = [], os.replace

    def interrupt(source: Path, target: Path) -> None:
        if len(replaced) == renames:
            raise KeyboardInterrupt
        replaced.append(target)
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            biased_policy(2).save(tmp_path)
    assert loaded_bias(tmp_path) == [1, 2][renames]
    biased_policy(3).save(tmp_path)
    assert loaded_bias(tmp_path) == 3
    assert sorted(file.name for file in tmp_path.iterdir()) == ["policy.json", "policy.safetensors"]


def test_a_policy_that_does_not_fit_on_the_disk_leaves_the_old_one(tmp_path, monkeypatch):
    biased_policy(1).save(tmp_path)

    def write_to_full_disk(file: Path, data: bytes) -> None:
        file.write_bytes(data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("envgen.agents.policy.write_flushed", write_to_full_disk)
    with pytest.raises(PolicyError, match="No space left"):
        biased_policy(2).save(tmp_path)
    assert loaded_bias(tmp_path) == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["policy.json", "policy.safetensors"]


@pytest.mark.parametrize("name", ["policy.json", "policy.safetensors"])
def test_an_oversized_file_is_not_read(name, tmp_path):
    policy, _ = make_policy("CartPole-v1")
    with open(policy.save(tmp_path) / name, "rb+") as out:
        out.truncate(1 << 40)  # a sparse file, which would fill the memory
    with pytest.raises(PolicyError, match="it has 1,099,511,627,776 bytes, but at most"):
        load_policy(tmp_path)


@pytest.mark.parametrize("kind", ["symbols", "Pendulum-v1"])
def test_any_wrong_value_in_the_json_is_reported_as_damage(kind, tmp_path):
    policy, obs = make_policy(kind)
    file = policy.save(tmp_path) / "policy.json"
    original = json.loads(file.read_text())

    def paths(node, prefix=()):
        for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
            yield (*prefix, key)
            yield from paths(node[key], (*prefix, key))

    for path in paths({name: value for name, value in original.items() if name != "metadata"}):
        for wrong in (None, "x", -1, 1.5, [], {}, [1, [2]]):
            document = json.loads(json.dumps(original))
            node = document
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = wrong
            file.write_text(json.dumps(document))
            try:
                loaded = load_policy(tmp_path)
            except PolicyError:
                continue
            names = "bfloat16", "symbol_map", "tile_grid", "action_space", "network_arguments"
            assert path[0] in names, (path, wrong)  # some values are valid there
            assert len(loaded.act(obs)) == len(obs)


def test_the_statistics_of_returns_are_saved(tmp_path):
    learner = PPO.for_envs(CrafterVectorEnv(4, None, "symbols"), settings=PpoSettings(num_envs=4, num_steps=8))
    learner.return_normalizer.update(torch.tensor(3.0), torch.tensor(10.0))
    learner.policy.save(tmp_path)
    assert load_policy(tmp_path).return_statistics == learner.return_normalizer.state_dict()
    assert learner.policy.return_statistics["running_mean"] > 0


def test_errors_of_a_network_factory_and_of_devices_are_not_damage(tmp_path):
    policy, _ = make_policy("symbols")
    policy.network = CustomNetwork(policy.observation_space, policy.action_space, policy.layout)
    policy.save(tmp_path)

    def broken_factory(*spaces):
        raise ValueError("my own mistake")

    with pytest.raises(ValueError, match=r"^my own mistake$"):
        load_policy(tmp_path, network_factory=broken_factory)
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        load_policy(tmp_path, "gpuu", network_factory=CustomNetwork)
    narrow = partial(CustomNetwork, settings=NetworkSettings(width=64))
    with pytest.raises(PolicyError, match="is damaged"):
        load_policy(tmp_path, network_factory=narrow)
