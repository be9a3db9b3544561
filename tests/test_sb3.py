"""Stable-Baselines3 trains on this project's environments, one by one and all together."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecTransposeImage, VecVideoRecorder

import envgen  # noqa: F401  registers the environments
from envgen.sb3 import Sb3VecEnv, make_vec_env
from envgen.worlds.crafter.world import Crafter

LEVEL = {"length": 40, "near": {"table": True}}


@pytest.mark.parametrize(("observation", "policy"), [("pixels", "CnnPolicy"), ("symbols", "MlpPolicy")])
def test_ppo_trains_on_a_single_environment(observation, policy):
    env = gymnasium.make("envgen/Crafter-v0", observation=observation, level=LEVEL)
    model = PPO(policy, env, n_steps=128, batch_size=64, n_epochs=1, seed=0, device="cpu")
    model.learn(256)
    assert model.num_timesteps == 256
    assert len(model.ep_info_buffer) >= 4
    assert all(episode["l"] <= 40 for episode in model.ep_info_buffer)


@pytest.mark.parametrize("world", ["crafter", "envgen/Crafter-v0", Crafter, Crafter()])
def test_ppo_trains_on_the_vector_environment(world):
    envs = make_vec_env(world, 8, LEVEL, "symbols", seed=0)
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=128, n_epochs=1, seed=0, device="cpu")
    before = model.policy.state_dict()["action_net.weight"].clone()
    model.learn(3 * 8 * 64)
    assert model.num_timesteps == 3 * 8 * 64
    assert len(model.ep_info_buffer) >= 8
    assert all(episode["l"] <= 40 for episode in model.ep_info_buffer)
    assert (model.policy.state_dict()["action_net.weight"] != before).any()
    assert model.env is envs  # no Monitor around it, which would repeat the statistics


def test_worlds_without_pixels_have_a_default_observation():
    envs = make_vec_env("walker", 2)
    assert envs.reset().shape == (2, *envs.observation_space.shape)
    envs.close()


def test_pixels_are_transposed_for_cnn_policies():
    envs = make_vec_env("crafter", 2, LEVEL, seed=0)
    model = PPO("CnnPolicy", envs, n_steps=16, batch_size=32, n_epochs=1, seed=0, device="cpu")
    assert isinstance(model.get_env(), VecTransposeImage)
    model.learn(32)


def test_ends_of_episodes_are_reported():
    envs, reference = make_vec_env("crafter", 3, LEVEL, "symbols", seed=5), Crafter().make([LEVEL], 3, 5, "symbols")
    assert np.array_equal(envs.reset(), reference.reset()[0])
    num_ended = 0
    for actions in np.random.default_rng(0).integers(0, 17, (90, 3)):
        obs, rewards, dones, infos = envs.step(actions)
        expected = reference.step(actions)
        assert np.array_equal(obs, expected[0])
        assert np.allclose(rewards, expected[1])
        assert np.array_equal(dones, expected[2] | expected[3])
        for i, info in enumerate(infos):
            if not dones[i]:
                assert info == {}
                continue
            num_ended += 1
            final_info = expected[4]["final_info"]
            assert np.array_equal(info["terminal_observation"], expected[4]["final_obs"][i])
            assert info["TimeLimit.truncated"] == (expected[3][i] and not expected[2][i])
            assert info["episode"]["r"] == pytest.approx(final_info["episode_return"][i])
            assert info["episode"]["l"] == final_info["episode_length"][i] <= 40
            assert np.array_equal(info["achievements"], final_info["achievements"][i])
    assert num_ended >= 6


def test_seed_applies_to_the_next_reset():
    envs = make_vec_env("crafter", 2, None, "symbols", seed=0)
    first = envs.reset()
    assert not np.array_equal(envs.reset(), first)
    assert envs.seed(0) == [0, 1]
    assert np.array_equal(envs.reset(), first)


def test_levels_can_be_replaced_during_training():
    envs = make_vec_env("crafter", 2, [{}, LEVEL], "symbols", seed=0)
    envs.reset()
    envs.env_method("set_levels", [{"length": 2}])
    envs.reset()
    envs.step([0, 0])
    *_, infos = envs.step([0, 0])
    assert [info["episode"]["l"] for info in infos] == [2, 2]
    with pytest.raises(NotImplementedError, match="all environments"):
        envs.env_method("set_levels", [{}], indices=[0])


def test_options_of_single_environments_are_refused():
    envs = make_vec_env("crafter", 2, None, "symbols", seed=0)
    envs.set_options({"level": {"trees": "none"}})
    with pytest.raises(NotImplementedError, match="set_levels"):
        envs.reset()


def test_render_shows_all_environments():
    envs = make_vec_env("crafter", 2, None, "symbols", seed=0, render_mode="rgb_array", render_size=(99, 77))
    envs.reset()
    assert [image.shape for image in envs.get_images()] == [(77, 99, 3)] * 2
    assert envs.env_is_wrapped(Monitor) == [True, True]


def test_videos_have_the_frame_rate_of_the_world(tmp_path):
    pytest.importorskip("moviepy", reason="VecVideoRecorder writes its files with moviepy")
    envs = make_vec_env("crafter", 2, None, "symbols", seed=0, render_mode="rgb_array")
    assert VecVideoRecorder(envs, str(tmp_path), lambda step: False).frames_per_sec == 10


def test_other_autoreset_modes_are_refused():
    with pytest.raises(ValueError, match="needs same-step autoreset"):
        Sb3VecEnv(Crafter().make(num_envs=2, autoreset_mode=AutoresetMode.NEXT_STEP))
