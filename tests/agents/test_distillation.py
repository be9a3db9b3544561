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
    actual = kl_divergences(*(torch.from_numpy(logits).log_softmax(-1) for logits in (new, old)))
    np.testing.assert_allclose(actual.numpy(), (p * np.log(p / q)).sum(1))
    assert not np.allclose(actual.numpy(), (q * np.log(q / p)).sum(1))


# ------------------------------------------------------------------------------------------------ episodes and memory


def starts_after(dones: np.ndarray) -> np.ndarray:
    """Where episodes start, if all environments were reset before the first step."""
    return np.concatenate([np.ones_like(dones[:1]), dones[:-1]])


def test_only_whole_episodes_with_achievements_are_used():
    dones, achieved = np.zeros((12, 3), bool), np.zeros((12, 3), bool)
    dones[[2, 6, 9], 0] = True  # the first episode begins before the buffer, the others at 3 and 7
    dones[4, 1] = True  # the second episode does not end
    dones[[3, 11], 2] = True
    starts = starts_after(dones)
    starts[0, 0] = False
    starts[8, 2] = True  # a new phase: the episode of steps 4 to 7 has no end
    achieved[[1, 4, 5, 9], 0] = True  # 9 is the last step of its episode
    achieved[8, 1] = True
    achieved[[5, 10], 2] = True
    first, second = find_episodes(starts, dones, achieved, np.ones_like(dones))
    np.testing.assert_array_equal(first.rows, np.array([3, 4, 5, 6]) * 3)
    np.testing.assert_array_equal(first.achieved, [1, 2])
    np.testing.assert_array_equal(second.rows, np.array([8, 9, 10, 11]) * 3 + 2)
    np.testing.assert_array_equal(second.achieved, [2])


def test_episodes_of_two_phases_are_not_joined():
    learner, envs = make_learner(num_steps=50, buffer_rollouts=100)
    for _ in range(2):
        learner.train(envs, 4 * 50)  # the episodes of 40 steps in progress are dropped
    buffer = {name: torch.cat([entry[name] for entry in learner._buffer]).numpy() for name in learner._buffer[0]}
    episodes = find_episodes(buffer["starts"], buffer["dones"], buffer["rewards"] > 0.1, buffer["valid"])
    assert len(episodes) > 4
    for episode in episodes:
        assert len(episode.rows) <= 40
        assert buffer["starts"].reshape(-1)[episode.rows].sum() == 1


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


@pytest.mark.parametrize(
    ("observation", "encoder"), [("symbols", "symbols"), ("pixels", "tiles"), ("pixels", "impala")]
)
def test_the_encoder_does_not_see_whether_a_step_was_an_achievement(observation, encoder):
    learner, envs = make_learner(observation, network={"encoder": encoder, "history": True})
    network = learner.network
    obs = torch.from_numpy(envs.reset(seed=0)[0])
    bits = torch.zeros(4, network.history_spec.num_bits, dtype=torch.uint8)
    after = bits.clone()
    after[:, -1] = 1
    with torch.no_grad():
        features, features_after = (network.encode(network.prepare(obs, b)) for b in (bits, after))
        torch.testing.assert_close(features_after, features, rtol=0, atol=0)
        state, starts = torch.rand(4, network.state_size), torch.zeros(4, dtype=torch.bool)
        memory, memory_after = (network.memory(network.prepare(obs, b), features, state, starts) for b in (bits, after))
    torch.testing.assert_close(memory, state[:, : network.encoder.width])
    torch.testing.assert_close(memory_after, normalize(features - state[:, network.encoder.width :]))


def prepare_steps(learner, buffer, rollout):
    """The steps of a buffer and its episodes, as the auxiliary phase sees them."""
    steps = {name: tensor.flatten(0, 1) for name, tensor in buffer.items()}
    with torch.no_grad():
        features, memory = learner._encode(steps, torch.arange(800))
        steps["old_logits"] = learner.network.heads(features, memory)[0] + 0.1
    return steps, find_episodes(rollout.starts, rollout.dones, rollout.rewards > 0.1, rollout.valid), features, memory


def test_prediction_pairs_each_step_with_its_next_achievement():
    learner, envs = make_learner()
    rollout, buffer = collect_buffer(learner, envs)
    steps, episodes, features, _ = prepare_steps(learner, buffer, rollout)
    minibatches = list(learner._prediction_minibatches(steps, episodes, 4))
    rows = np.concatenate([mb["rows"] for mb in minibatches])
    goals = torch.cat([mb["anchors"] for mb in minibatches])
    assert sorted(rows) == sorted(np.concatenate([episode.rows for episode in episodes]))
    achieved = (rollout.rewards > 0.1).reshape(-1)
    for row, goal in zip(rows, goals, strict=True):
        (episode,) = [episode for episode in episodes if row in episode.rows]
        later = [k for k in episode.rows[:-1] if k >= row and achieved[k]]
        expected = features[later[0] + 4] - features[later[0]] if later else -features[episode.rows[-1]]
        torch.testing.assert_close(goal, normalize(expected), rtol=1e-4, atol=1e-5)


def test_a_minibatch_holds_one_episode_and_negatives_have_other_goals():
    learner, envs = make_learner()
    rollout, buffer = collect_buffer(learner, envs)
    steps, episodes, _, _ = prepare_steps(learner, buffer, rollout)
    goal_of, episode_of = {}, {}
    for k, episode in enumerate(episodes):
        goal = np.searchsorted(episode.achieved, np.arange(len(episode.rows)))
        goal_of |= {int(row): (k, int(g)) for row, g in zip(episode.rows, goal, strict=True)}
        episode_of |= dict.fromkeys(episode.rows.tolist(), k)
    num_pairs = 0
    for mb in learner._matching_minibatches(steps, episodes, 4):
        assert (mb["positives"] != mb["negatives"]).any(-1).all()
        assert len({episode_of[row] for row in [*mb["achievements"].tolist(), *mb["rows"].tolist()]}) == 1
        num_pairs += len(mb["rows"])
    assert num_pairs > 20
    for mb in learner._prediction_minibatches(steps, episodes, 4):
        assert len({episode_of[row] for row in mb["rows"].tolist()}) == 1
        for row, negative in zip(mb["rows"].tolist(), mb["negative_rows"].tolist(), strict=True):
            (episode, goal), (other_episode, other_goal) = goal_of[row], goal_of[negative]
            assert episode == other_episode
            assert goal != other_goal


def test_matching_pairs_an_achievement_with_its_match_and_another_of_that_episode():
    learner, envs = make_learner()
    rollout, buffer = collect_buffer(learner, envs)
    steps, episodes, features, _ = prepare_steps(learner, buffer, rollout)
    rows = [episode.rows[episode.achieved] for episode in episodes]
    representations = [normalize(features[r + 4] - features[r]) for r in rows]

    def find(vector):
        """The episode and the achievement that have this representation."""
        distances = [(r - vector).abs().amax(1) for r in representations]
        episode = int(np.argmin([d.min() for d in distances]))
        assert distances[episode].min() < 1e-4
        return episode, int(distances[episode].argmin())

    num_pairs = 0
    for mb in learner._matching_minibatches(steps, episodes, 4):
        source = next(k for k, r in enumerate(rows) if mb["achievements"][0] in r)
        for row, positive, negative in zip(mb["achievements"], mb["positives"], mb["negatives"], strict=True):
            (target, match_id), (same_target, other_id) = find(positive), find(negative)
            assert source != target == same_target
            assert match_id != other_id
            cost = 1 - (representations[source] @ representations[target].T).double().numpy()
            plan = ot.partial.entropic_partial_wasserstein(
                *map(np.ones, cost.shape), cost, learner.settings.transport_reg, min(cost.shape), numItermax=100
            )
            (i,) = np.flatnonzero(rows[source] == row)
            assert plan[i].argmax() == match_id
            assert plan[i, match_id] > learner.settings.match_threshold
            num_pairs += 1
    assert num_pairs > 20


def test_auxiliary_losses_equal_direct_computations():
    """The contrastive losses of pairs, with the divergence and the value loss of other steps beside them."""
    learner, envs = make_learner()
    rollout, buffer = collect_buffer(learner, envs)
    learner.return_normalizer.update(torch.tensor(0.3), torch.tensor(1.2))
    steps, _, features, memory = prepare_steps(learner, buffer, rollout)
    rng = np.random.default_rng(0)
    rows, negative_rows, achievements = (torch.from_numpy(rng.integers(0, 700, 30)) for _ in range(3))
    anchors, positives, negatives = (torch.from_numpy(unit_rows(rng, 30, features.shape[1])) for _ in range(3))

    def regularizers(index):
        logits, values = learner.network.heads(features[index], memory[index])
        p = torch.distributions.Categorical(logits=logits)
        q = torch.distributions.Categorical(logits=steps["old_logits"][index])
        errors = values - learner.return_normalizer.normalize(steps["returns"][index])
        return torch.distributions.kl_divergence(p, q), errors.square()

    def info_nce(anchors, positives, negatives):
        logits = torch.stack([(anchors * positives).sum(1), (anchors * negatives).sum(1)], 1) / 0.1
        return torch.nn.functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64), reduction="none")

    with torch.no_grad():
        mb = {"achievements": achievements, "positives": positives, "negatives": negatives, "rows": rows}
        losses, kl, errors = learner._matching_losses(steps, 4, mb)
        expected = info_nce(normalize(features[achievements + 4] - features[achievements]), positives, negatives)
        torch.testing.assert_close(losses, expected, rtol=1e-3, atol=1e-4)
        for actual, wanted in zip((kl, errors), regularizers(rows), strict=True):
            torch.testing.assert_close(actual, wanted, rtol=1e-3, atol=1e-5)
        losses, kl, errors = learner._prediction_losses(
            steps, {"anchors": anchors, "rows": rows, "negative_rows": negative_rows}
        )
        psi, negative_psi = (
            learner.network.predict(features[index], steps["actions"][index], memory[index])
            for index in (rows, negative_rows)
        )
        torch.testing.assert_close(losses, info_nce(anchors, psi, negative_psi), rtol=1e-3, atol=1e-4)
        for actual, *both in zip((kl, errors), regularizers(rows), regularizers(negative_rows), strict=True):
            torch.testing.assert_close(actual, sum(both) / 2, rtol=1e-3, atol=1e-5)


# ------------------------------------------------------------------------------------------------------------- learning


def test_auxiliary_phase_learns_to_predict_and_keeps_the_policy():
    learner, envs = make_learner(aux_epochs=1)
    _, buffer = collect_buffer(learner, envs, 400)
    losses, divergences = [], []
    for _ in range(4):
        metrics = learner._distill(buffer)
        losses.append(metrics["prediction_loss"])
        divergences.append(metrics["aux_kl"])
    assert losses[-1] < 0.6 * losses[0]
    assert max(divergences) < 0.05


@pytest.mark.parametrize("observation", ["symbols", pytest.param("pixels", marks=pytest.mark.slow)])
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
    with pytest.raises(HyperparameterError, match="sequence_length"):
        AchievementDistillation.settings_for(box, sequence_length=16)
    assert DistillationSettings().sequence_length == 1


def test_an_episode_may_leave_one_step_for_its_last_minibatch():
    learner, envs = make_learner(aux_batch_size=8)
    rollout, buffer = collect_buffer(learner, envs)
    steps, episodes, _, _ = prepare_steps(learner, buffer, rollout)
    length = len(episodes[0].rows)
    learner.settings = learner.settings.model_copy(update={"aux_batch_size": length - 1})
    sizes = [len(mb["rows"]) for mb in learner._prediction_minibatches(steps, episodes[:1], 4)]
    assert sizes == [length - 1, 1]


def test_the_divergence_is_that_of_the_policy_which_acts():
    learner, _ = make_learner(network={"unimix": 0.5})
    logits = torch.tensor([[0.0] * 17, [50.0] + [0.0] * 16])
    new, old = learner.network.action_dist.log_probs(logits)
    probs = new.exp()
    assert float(kl_divergences(new[None], old[None])) == pytest.approx(float((probs * (new - old)).sum()))
    assert float(kl_divergences(new[None], old[None])) < np.log(2 * 17)


def test_frozen_parameters_are_left_out():
    learner, envs = make_learner(num_envs=4)
    frozen = learner.network.encoder.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in frozen.state_dict().items()}
    learner.train(envs, 4 * 32 * 3)
    for name, tensor in frozen.state_dict().items():
        assert torch.equal(tensor, before[name])
