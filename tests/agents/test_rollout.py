"""Rollouts hold the same experience in every autoreset mode."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from envgen.agents.ppo import PPO
from envgen.agents.rollout import EpisodeStats, VecEnvRunner
from envgen.agents.settings import PpoSettings


def make_cartpoles(mode: AutoresetMode = AutoresetMode.NEXT_STEP) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})


@pytest.mark.parametrize("mode", AutoresetMode)
def test_all_autoreset_modes_give_the_same_experience(mode):
    """Without the steps that only reset, the history does not depend on the mode."""
    learner = PPO.for_envs(make_cartpoles(), settings=PpoSettings(num_envs=2, num_steps=60))
    rollout = learner.collect(VecEnvRunner(make_cartpoles(mode), seed=5), 60)
    assert len(rollout.episodes) >= 2
    assert rollout.episodes.lengths == rollout.episodes.returns
    for env in range(2):
        valid = rollout.valid[:, env]
        assert (rollout.rewards[valid, env] == 1).all()
        first_done = int(rollout.dones[:, env].argmax())
        assert first_done + 1 in rollout.episodes.lengths
        if mode == AutoresetMode.NEXT_STEP:
            assert not rollout.valid[first_done + 1, env]
        else:
            assert valid.all()
        initial_obs = rollout.obs[first_done + 1 + (mode == AutoresetMode.NEXT_STEP), env]
        assert float(initial_obs.abs().max()) < 0.05 + 1e-6  # CartPole starts near zero


def test_termination_at_the_time_limit_is_not_a_truncation():
    """Both flags may be set in one step; only truncation alone allows bootstrapping."""

    class TerminatedAndTruncated(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {}

        def step(self, action):
            return np.ones(2, np.float32), 1.0, True, True, {}

    envs = gymnasium.vector.SyncVectorEnv([TerminatedAndTruncated], autoreset_mode=AutoresetMode.SAME_STEP)
    step = VecEnvRunner(envs).step(np.array([0]), EpisodeStats())
    assert step.dones.all()
    assert not step.truncated.any()


def test_environments_without_state_cannot_be_saved_in_mid_episode():
    with pytest.raises(TypeError, match="SyncVectorEnv cannot be saved in mid-episode"):
        VecEnvRunner(make_cartpoles()).state()


class InfosOfOthers(gymnasium.vector.SyncVectorEnv):
    """Infos with names that envgen's worlds use for something else."""

    def step(self, actions):
        obs, rewards, terminated, truncated, infos = super().step(actions)
        named = {"achievements": {"wood": np.ones(2)}, "level": {"name": np.ones(2)}, "practice": np.ones(2, bool)}
        infos |= named
        if "final_info" in infos:
            infos["final_info"] |= named
        return obs, rewards, terminated, truncated, infos


@pytest.mark.parametrize("mode", AutoresetMode)
def test_infos_of_other_environments_may_have_the_same_names(mode):
    envs = InfosOfOthers([lambda: gymnasium.make("CartPole-v1")] * 2, autoreset_mode=mode)
    runner, episodes = VecEnvRunner(envs, seed=0), EpisodeStats()
    for _ in range(100):
        runner.step(np.ones(2, np.int64), episodes)
    assert len(episodes.returns) > 4
    assert (episodes.levels, episodes.skill_counts, episodes.practice_skills) == ([], [], [])
