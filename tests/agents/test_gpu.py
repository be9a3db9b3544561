"""Training on a GPU. Skipped where there is none."""

import json
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import envgen
from envgen.agents.distillation import AchievementDistillation
from envgen.agents.parallel import GraphedFunction, ThreadedGradients
from envgen.worlds.crafter.env import CrafterVectorEnv

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
CUDA = torch.device("cuda")
LEVEL = {"length": 40, "inventory": {"wood": 9, "sapling": 3, "stone": 9}}  # random actions achieve something


def test_replayed_gradients_are_those_of_the_current_weights_and_minibatch():
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1)).to(CUDA)
    parameters = list(layer.parameters())

    def loss_function(mb):
        losses = layer(mb["x"])[:, 0].square() * mb["weights"]
        return losses.sum(), torch.stack([losses.sum(), losses.max()]).detach()

    compute = partial(ThreadedGradients(CUDA).compute, loss_function, parameters)
    graphed = GraphedFunction(compute, 32)
    for count in (32, 7, 1, 20):
        minibatch = {"x": torch.randn(count, 5, device=CUDA), "weights": torch.full((count,), 1 / count, device=CUDA)}
        grads, metrics = graphed(minibatch)
        expected_grads, expected_metrics = compute(minibatch)
        torch.testing.assert_close(metrics, expected_metrics)
        for parameter, grad, expected in zip(parameters, grads, expected_grads, strict=True):
            torch.testing.assert_close(grad, expected)
            parameter.data -= 0.1 * grad


@pytest.mark.parametrize("observation", ["symbols", "pixels"])
def test_auxiliary_phases_with_and_without_graphs_are_equal(observation, monkeypatch):
    losses = {}
    for uses_graphs in (True, False):
        monkeypatch.setattr(AchievementDistillation, "_uses_graphs", uses_graphs)
        envs = CrafterVectorEnv(4, LEVEL, observation)
        network = {"encoder": "tiles"} if observation == "pixels" else {}
        settings = AchievementDistillation.settings_for(
            envs.single_observation_space, num_envs=4, num_steps=100, num_minibatches=2, update_epochs=1,
            buffer_rollouts=2, aux_epochs=1, aux_batch_size=64, bfloat16=False, network=network,
        )  # fmt: skip
        learner = AchievementDistillation.for_envs(envs, settings=settings, seed=0, device=CUDA)
        results = []
        learner.train(envs, 800, lambda result, results=results: results.append(result.metrics), seed=0)
        losses[uses_graphs] = [results[-1][name] for name in ("matching_loss", "prediction_loss", "aux_value_loss")]
    np.testing.assert_allclose(losses[True], losses[False], rtol=0.05)


@pytest.mark.parametrize(
    ("observation", "network", "learner"),
    [
        ("symbols", {}, "ppo"),
        ("symbols", {"memory": "gru"}, "ppo"),
        ("pixels", {"encoder": "tiles", "history": True}, "ppo"),
        ("pixels", {"encoder": "impala"}, "ppo"),
        ("symbols", {}, "distillation"),
    ],
)
def test_trains_evaluates_and_continues(observation, network, learner, tmp_path):
    def train(steps: int, extend: bool = False):
        return envgen.train(
            "crafter", "none", plan={"cycles": 0, "final_steps": steps, "episodes": 8}, seed=0, folder=tmp_path,
            observation=observation, network=network, learner=learner, device="cuda", verbose=False, extend=extend,
            hyperparameters={"num_envs": 8, "num_steps": 64, "num_minibatches": 2},
        )  # fmt: skip

    train(1024)
    assert 0 <= json.loads((tmp_path / "summary.json").read_text())["final"]["score"]["value"] <= 100
    train(2048, extend=True)
    policy = envgen.load_policy(tmp_path)
    obs = np.stack([policy.observation_space.sample() for _ in range(3)])
    assert policy.act(obs).shape == (3,)
