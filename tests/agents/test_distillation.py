"""Achievement Distillation: its losses, matching and episodes equal direct computations; it trains and resumes."""

import numpy as np
import ot
import pytest
import torch
from gymnasium import spaces

from envgen.agents.distillation import (
    AchievementDistillation,
    AchievementNetwork,
    DistillationSettings,
    contrastive_losses,
    find_episodes,
    kl_divergences,
    normalize,
)
from envgen.agents.optimal_transport import match, partial_transport
from envgen.agents.rollout import VecEnvRunner
from envgen.agents.settings import HyperparameterError, NetworkSettings
from envgen.worlds.crafter.env import CrafterVectorEnv

LEVEL = {"length": 40, "inventory": {"wood": 9, "sapling": 3, "stone": 9}}  # random actions achieve something


def make_learner(
    observation: str = "symbols", seed: int = 1, **changes
) -> tuple[AchievementDistillation, CrafterVectorEnv]:
    envs = CrafterVectorEnv(4, LEVEL, observation)
    small = {"num_envs": 4, "num_steps": 32, "num_minibatches": 2, "update_epochs": 1, "buffer_rollouts": 3,
             "aux_epochs": 2, "aux_batch_size": 64, "bfloat16": False}  # fmt: skip
    settings = AchievementDistillation.settings_for(envs.single_observation_space, **{**small, **changes})
    return AchievementDistillation.for_envs(envs, settings=settings, seed=seed), envs


def unit_rows(rng: np.random.Generator, count: int, width: int = 6) -> np.ndarray:
    rows = rng.normal(size=(count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# ------------------------------------------------------------------------------------------------------------- matching


def test_transport_plan_equals_that_of_pot():
    rng = np.random.default_rng(0)
    for _ in range(100):
        n, m = rng.integers(1, 24, 2)
        cost, mass = rng.uniform(0, 2, (n, m)), min(n, m)
        expected = ot.partial.entropic_partial_wasserstein(np.ones(n), np.ones(m), cost, 0.05, mass, numItermax=100)
        np.testing.assert_allclose(partial_transport(cost, float(mass), 0.05, 100), expected, atol=1e-12)


def test_achievements_are_matched_where_the_plan_moves_more_than_the_threshold():
    rng = np.random.default_rng(1)
    for _ in range(20):
        source, target = unit_rows(rng, 5), unit_rows(rng, 3)
        plan = ot.partial.entropic_partial_wasserstein(
            np.ones(5), np.ones(3), 1 - source.astype(np.float64) @ target.T.astype(np.float64), 0.05, 3, numItermax=100
        )
        matched = np.empty(5, np.int64)
        match(source, target, 0.05, 100, 0.5, matched)
        np.testing.assert_array_equal(matched, np.where(plan.max(1) > 0.5, plan.argmax(1), -1))


def test_equal_achievements_are_matched():
    rows = unit_rows(np.random.default_rng(2), 6, 32)
    order = np.random.default_rng(3).permutation(6)
    matched = np.empty(6, np.int64)
    match(rows, rows[order], 0.05, 100, 0.5, matched)
    np.testing.assert_array_equal(order[matched], np.arange(6))


# --------------------------------------------------------------------------------------------------------------- losses


def test_contrastive_loss_is_the_cross_entropy_of_two_similarities():
    rng = np.random.default_rng(4)
    anchors, positives, negatives = (unit_rows(rng, 7) for _ in range(3))
    logits = np.stack([(anchors * positives).sum(1), (anchors * negatives).sum(1)], 1) / 0.1
    expected = np.log(np.exp(logits).sum(1)) - logits[:, 0]
    actual = contrastive_losses(*(torch.from_numpy(rows) for rows in (anchors, positives, negatives)), 0.1)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_divergence_is_that_of_the_new_policy_from_the_old():
    rng = np.random.default_rng(5)
    new, old = rng.normal(size=(2, 6, 17))
    p, q = (np.exp(x) / np.exp(x).sum(1, keepdims=True) for x in (new, old))
    actual = kl_divergences(torch.from_numpy(new), torch.from_numpy(old))
    np.testing.assert_allclose(actual.numpy(), (p * np.log(p / q)).sum(1))
    assert not np.allclose(actual.numpy(), (q * np.log(q / p)).sum(1))


# ------------------------------------------------------------------------------------------------ episodes and memory


def test_only_whole_episodes_with_achievements_are_used():
    dones, achieved = np.zeros((12, 2), bool), np.zeros((12, 2), bool)
    dones[[2, 6, 9], 0] = True  # in environment 0, the episodes of steps 3 to 6 and 7 to 9 are whole
    dones[4, 1] = True  # in environment 1, none is
    achieved[[1, 4, 5, 9], 0] = True  # 9 is the last step of its episode
    achieved[:, 1] = True
    (episode,) = find_episodes(dones, achieved, np.ones_like(dones))
    np.testing.assert_array_equal(episode.rows, np.array([3, 4, 5, 6]) * 2)
    np.testing.assert_array_equal(episode.achieved, [1, 2])


def collect_buffer(learner, envs, num_steps=200):
    runner = VecEnvRunner(envs, seed=0, memory=learner.network.new_memory(4, learner.device))
    rollout = learner.collect(runner, num_steps)
    learner._make_batch(rollout)
    (buffer,) = learner._buffer
    return rollout, buffer


def test_memory_is_the_last_achievement_of_the_episode():
    learner, envs = make_learner()
    rollout, buffer = collect_buffer(learner, envs)
    steps = {name: tensor.flatten(0, 1) for name, tensor in buffer.items()}
    with torch.no_grad():
        features, memory = (x.unflatten(0, (200, 4)) for x in learner._encode(steps, torch.arange(800)))
    expected = torch.zeros(4, learner.network.encoder.width)
    num_achievements = 0
    for t in range(200):
        torch.testing.assert_close(memory[t], expected, rtol=1e-4, atol=1e-5)
        achieved = torch.from_numpy(rollout.rewards[t] > 0.1)
        if t < 199:
            expected = torch.where(achieved[:, None], normalize(features[t + 1] - features[t]), expected)
            expected = expected * ~torch.from_numpy(rollout.dones[t])[:, None]
        num_achievements += int(achieved.sum())
    assert num_achievements > 10
    assert rollout.dones.any()


def test_prediction_pairs_each_step_with_its_next_achievement():
    learner, envs = make_learner()
    rollout, buffer = collect_buffer(learner, envs)
    steps = {name: tensor.flatten(0, 1) for name, tensor in buffer.items()}
    steps["old_logits"] = torch.zeros(800, 17)
    achieved = rollout.rewards > 0.1
    episodes = find_episodes(rollout.dones, achieved, rollout.valid)
    anchors = learner._representations(steps, episodes, 4)
    steps["returns"] = torch.arange(800.0)  # so that rows can be recognized
    minibatches = list(learner._prediction_minibatches(steps, episodes, anchors))
    rows = torch.cat([mb["returns"] for mb in minibatches]).long().numpy()
    goals = torch.cat([mb["anchors"] for mb in minibatches])
    assert sorted(rows) == sorted(np.concatenate([episode.rows for episode in episodes]))
    with torch.no_grad():
        features = learner._encode(steps, torch.arange(800))[0]
    for row, goal in zip(rows, goals, strict=True):
        (episode,) = [episode for episode in episodes if row in episode.rows]
        later = [k for k in episode.rows[:-1] if k >= row and achieved.reshape(-1)[k]]
        expected = features[later[0] + 4] - features[later[0]] if later else -features[episode.rows[-1]]
        torch.testing.assert_close(goal, normalize(expected), rtol=1e-4, atol=1e-5)


def test_negatives_have_other_goals():
    learner, envs = make_learner()
    rollout, buffer = collect_buffer(learner, envs)
    steps = {name: tensor.flatten(0, 1) for name, tensor in buffer.items()}
    steps["old_logits"] = torch.zeros(800, 17)
    episodes = find_episodes(rollout.dones, rollout.rewards > 0.1, rollout.valid)
    anchors = learner._representations(steps, episodes, 4)
    for mb in learner._matching_minibatches(steps, episodes, anchors, 4):
        assert (mb["positives"] != mb["negatives"]).any(-1).all()
    goal_of = {}
    for k, episode in enumerate(episodes):
        goal = np.searchsorted(episode.achieved, np.arange(len(episode.rows)))
        goal_of |= {int(row): (k, int(g)) for row, g in zip(episode.rows, goal, strict=True)}
    steps["actions"] = torch.arange(800)  # so that rows can be recognized
    for mb in learner._prediction_minibatches(steps, episodes, anchors):
        for row, negative in zip(mb["actions"].tolist(), mb["negative_actions"].tolist(), strict=True):
            (episode, goal), (other_episode, other_goal) = goal_of[row], goal_of[negative]
            assert episode == other_episode
            assert goal != other_goal


# ------------------------------------------------------------------------------------------------------------- learning


def test_auxiliary_phase_learns_to_predict_and_keeps_the_policy():
    learner, envs = make_learner(aux_epochs=1)
    _, buffer = collect_buffer(learner, envs, 400)
    losses, divergences = [], []
    for _ in range(12):
        metrics = learner._distill(buffer)
        losses.append(metrics["prediction_loss"])
        divergences.append(metrics["aux_kl"])
    assert losses[-1] < 0.6 * losses[0]
    assert max(divergences) < 0.05


@pytest.mark.parametrize("observation", ["symbols", "pixels"])
def test_resuming_continues_bit_for_bit(observation):
    small = {"num_steps": 12} if observation == "pixels" else {}
    uninterrupted, envs = make_learner(observation, **small)
    states, steps = [], 4 * uninterrupted.settings.num_steps * 5
    aux_updates = []

    def on_update(result):
        states.append(uninterrupted.state())
        aux_updates.append("prediction_loss" in result.metrics)

    uninterrupted.train(envs, steps, on_update, seed=4)
    assert aux_updates[2] or observation == "pixels"
    expected_arrays, expected_values = uninterrupted.state()
    for k in (1, 2, 3) if observation == "symbols" else (1,):
        resumed, envs = make_learner(observation, seed=9, **small)
        resumed.load(*states[k], envs)
        resumed.train(envs, steps, resume=True)
        arrays, values = resumed.state()
        assert values == expected_values
        assert arrays.keys() == expected_arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, expected_arrays[name], err_msg=name)


def test_unsupported_networks_actions_and_settings_are_refused():
    with pytest.raises(HyperparameterError, match="has a memory of its own; use --memory none instead of gru"):
        make_learner(network=NetworkSettings(memory="gru"))
    box = spaces.Box(-1, 1, (3,), np.float32)
    with pytest.raises(HyperparameterError, match="needs discrete actions"):
        AchievementNetwork(box, box)
    with pytest.raises(HyperparameterError, match="aux_epochs"):
        AchievementDistillation.settings_for(box, aux_epochs=-1)
    assert DistillationSettings().sequence_length == 1
