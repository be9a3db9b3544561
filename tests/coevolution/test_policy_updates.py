"""The gradient steps of a policy are those of its settings."""

import copy

import numpy as np
import pytest
import torch
from test_language_model_policy import make_model, sample_completions
from toy import Toy, ToySpec

from envgen.coevolution.loop import AgentPolicy, RolloutBatch
from envgen.coevolution.policy import LanguageModelPolicy, TrainBatch
from envgen.coevolution.settings import AgentSettings, PolicySettings


def log_probabilities(model, prompts, completions, temperature):
    """Of each token when sampling with a temperature, one completion at a time; zeros after its end."""
    rows, num_generations = [], len(completions.ids) // len(prompts)
    for row, (ids, mask) in enumerate(zip(completions.ids, completions.mask, strict=True)):
        prompt, tokens = prompts[row // num_generations], ids[mask].tolist()
        logits = model(input_ids=torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
        logps = torch.log_softmax(logits / temperature, -1)[range(len(tokens)), tokens]
        rows.append(torch.nn.functional.pad(logps, (0, len(ids) - len(tokens))))
    return torch.stack(rows)


def record_steps(policy):
    """The model before each gradient step, and the gradients of the step."""
    step, steps = policy.optimizer.step, []

    def record():
        gradients = [parameter.grad.clone() for parameter in policy.lm.model.parameters()]
        steps.append((copy.deepcopy(policy.lm.model), gradients))
        step()

    policy.optimizer.step = record
    return steps


def test_the_agent_descends_the_gradient_of_the_clipped_loss_of_grpo():
    """At the temperature that it samples with, in two epochs: in the second, some ratios are clipped."""
    temperature, clip_coef = 2.0, 0.05
    settings = AgentSettings(
        num_generations=3, temperature=temperature, epochs=2, clip_coef=clip_coef, learning_rate=1e-2,
        max_grad_norm=1e9, scale_rewards=False, max_new_tokens=5,
    )  # fmt: skip
    policy, domain = LanguageModelPolicy(make_model(), settings, seed=0), Toy()
    agent, steps = AgentPolicy(domain, policy, settings), record_steps(policy)
    tasks = [domain.make_task(ToySpec(which=1, letters=letters)) for letters in ("ab", "c", "d")]
    prompts = [agent.encode_prompt(task) for task in tasks]
    completions = policy.generate(prompts, 3)
    scores = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.5, 1.0]])
    agent.update([RolloutBatch(tasks, prompts, completions, [""] * 9, scores, np.ones((3, 3), bool))])

    advantages = torch.tensor(scores - scores.mean(1, keepdims=True)).float().reshape(9, 1)
    old_logps = log_probabilities(steps[0][0], prompts, completions, temperature).detach()
    num_clipped = []
    for model, gradients in steps:
        ratio = (log_probabilities(model, prompts, completions, temperature) - old_logps).exp()
        clipped = ratio.clamp(1 - clip_coef, 1 + clip_coef)
        objective = torch.minimum(advantages * ratio, advantages * clipped) * completions.mask
        expected = torch.autograd.grad(-objective.sum() / completions.mask.sum(), list(model.parameters()))
        for gradient, expected_gradient in zip(gradients, expected, strict=True):
            torch.testing.assert_close(gradient, expected_gradient, rtol=1e-3, atol=1e-5)
        num_clipped.append(int(((ratio != clipped) & completions.mask).sum()))
    assert len(num_clipped) == 2
    assert num_clipped[0] == 0 < num_clipped[1] < int(completions.mask.sum())


@pytest.mark.parametrize("weight_decay", [0.0, 0.5])
def test_weights_decay_by_the_learning_rate_times_the_weight_decay(weight_decay):
    """Advantages of zero give no gradient, so the weights decay and do not change otherwise."""
    lm = make_model()
    before = [parameter.detach().clone() for parameter in lm.model.parameters()]
    prompts, completions = sample_completions(lm)
    settings = PolicySettings(learning_rate=0.01, weight_decay=weight_decay, kl_coef=0.0, epochs=3)
    LanguageModelPolicy(lm, settings, seed=0).update(TrainBatch(prompts, 3, completions, torch.zeros(9)), "ppo_clip")
    for parameter, initial in zip(lm.model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.detach(), initial * (1 - 0.01 * weight_decay) ** 3)


def test_gradients_are_clipped_at_the_maximum_norm():
    norms = {}
    for max_grad_norm in (1e9, 1e-3):
        lm = make_model()
        prompts, completions = sample_completions(lm)
        policy = LanguageModelPolicy(lm, PolicySettings(max_grad_norm=max_grad_norm, kl_coef=0.0), seed=0)
        steps = record_steps(policy)
        metrics = policy.update(TrainBatch(prompts, 3, completions, torch.linspace(-1, 1, 9)), "ppo_clip")
        ((_, gradients),) = steps
        norms[max_grad_norm] = torch.cat([gradient.flatten() for gradient in gradients]).norm().item()
        assert metrics["grad_norm"] == pytest.approx(norms[1e9], rel=1e-4)  # before it is clipped
    assert norms[1e9] > 0.01
    assert norms[1e-3] == pytest.approx(1e-3, rel=1e-2)
