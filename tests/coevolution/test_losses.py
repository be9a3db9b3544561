"""The losses equal the published ones, term by term, and TRL's GRPO on the same completions."""

import numpy as np
import pytest
import torch

from envgen.coevolution.language_model import LanguageModel, new_model, train_tokenizer
from envgen.coevolution.losses import group_advantages, kl_k3, ppo_clip_loss, token_weights, weighted_nll
from envgen.coevolution.model_io import save_model
from envgen.coevolution.policy import LanguageModelPolicy, TrainBatch
from envgen.coevolution.sampling import Completions, pad_left
from envgen.coevolution.settings import ModelSize, PolicySettings

TEXTS = ("abc : 2 loud", "a b c d : 4", "B", "d d d a")
PROMPTS = ("abc : 2", "a b c d : 4 loud", "d : 1")
NUM_GENERATIONS, CLIP_COEF, KL_COEF = 3, 0.2, 0.3


def perturb(model, scale, seed):
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=rng)


class Setup:
    """Completions of different lengths, and a policy whose weights differ from its reference model."""

    def __init__(self, **settings):
        size = ModelSize(width=32, num_layers=2, num_heads=2, mlp_width=64)
        lm = new_model(train_tokenizer(TEXTS, 300), size, 0)
        perturb(lm.model, 0.05, 1)
        settings = PolicySettings(**{"clip_coef": CLIP_COEF, "kl_coef": KL_COEF, **settings})
        self.policy = LanguageModelPolicy(lm, settings, 0)
        self.lm, rng = lm, np.random.default_rng(0)
        count = NUM_GENERATIONS * len(PROMPTS)
        texts = ["".join(rng.choice(list("abcd "), rng.integers(1, 9))) for _ in range(count)]
        completions = Completions.from_token_lists([lm.encode_completion(text) for text in texts], lm.pad_token_id)
        advantages = torch.tensor([1.2, -0.7, 0.1, -1.0, 0.0, 0.9, 2.0, -1.5, 0.3])
        prompts = [lm.encode_prompt("", text) for text in PROMPTS]
        self.batch = TrainBatch(prompts, NUM_GENERATIONS, completions, advantages)
        self.indices = np.arange(len(PROMPTS))
        perturb(lm.model, 0.02, 2)

    def loss(self, old_logps, loss_type="ppo_clip"):
        has_kl = self.policy.settings.kl_coef > 0
        ref_logps = self.policy._ref_logps(self.batch, self.indices, loss_type) if has_kl else None
        losses, metrics = self.policy._token_losses(self.batch, self.indices, old_logps, ref_logps, loss_type)
        weights = token_weights(self.batch.completions.mask, self.policy.settings.loss_agg)
        return (losses * weights).sum(), [(metric * weights).sum() for metric in metrics]

    def gradients(self, loss):
        return torch.autograd.grad(loss, list(self.lm.model.parameters()))


def trl_trainer(setup, folder, loss_type, beta, temperature):
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    config = trl.GRPOConfig(
        output_dir=str(folder), use_cpu=True, bf16=False, report_to=[], per_device_train_batch_size=9,
        num_generations=NUM_GENERATIONS, gradient_checkpointing=False, loss_type=loss_type, beta=beta,
        epsilon=CLIP_COEF, temperature=temperature, use_bias_correction_kl=False,  # the KL term as published
    )  # fmt: skip
    if beta:  # TRL loads its reference model from a folder
        save_model(LanguageModel(setup.policy.ref_model, setup.lm.tokenizer), folder / "reference")
        setup.lm.model.config._name_or_path = str(folder / "reference")
    return trl.GRPOTrainer(
        model=setup.lm.model, processing_class=setup.lm.tokenizer, args=config,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        train_dataset=datasets.Dataset.from_list([{"prompt": "a"}] * 9),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("loss_agg", "trl_loss_type", "kl_coef", "temperature"),
    [
        ("token", "bnpo", KL_COEF, 1.0),
        ("sequence", "grpo", KL_COEF, 0.7),
        ("token", "bnpo", 0.0, 0.7),
        ("sequence", "grpo", 0.0, 1.0),
    ],
)
def test_loss_and_gradients_equal_trl(tmp_path, loss_agg, trl_loss_type, kl_coef, temperature):
    setup = Setup(loss_agg=loss_agg, kl_coef=kl_coef, temperature=temperature)
    trainer = trl_trainer(setup, tmp_path, trl_loss_type, kl_coef, temperature)
    repeated_prompts = [prompt for prompt in setup.batch.prompts for _ in range(NUM_GENERATIONS)]
    prompt_ids, prompt_mask = pad_left(repeated_prompts, setup.lm.pad_token_id)
    completions = setup.batch.completions
    ids = torch.cat([prompt_ids, completions.ids], 1)
    mask = torch.cat([prompt_mask, completions.mask], 1).long()

    @torch.no_grad()
    def trl_logps(model):
        return trainer._get_per_token_logps_and_entropies(model, ids, mask, completions.ids.shape[1])[0]

    inputs = {
        "prompt_ids": prompt_ids, "prompt_mask": prompt_mask.long(), "completion_ids": completions.ids,
        "completion_mask": completions.mask.long(), "advantages": setup.batch.advantages,
        "old_per_token_logps": trl_logps(setup.lm.model),
    }  # fmt: skip
    if kl_coef:
        inputs["ref_per_token_logps"] = trl_logps(trainer.ref_model)
    old_logps = setup.policy._logps(setup.batch, setup.indices, "ppo_clip")
    perturb(setup.lm.model, 0.03, 3)
    setup.lm.model.eval()
    expected = trainer._compute_loss(setup.lm.model, inputs)
    loss, (kl, _, clipfrac, _) = setup.loss(old_logps)
    assert clipfrac > 0.1  # clipping is active
    assert (kl > 1e-3) == bool(kl_coef)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    for gradient, expected_gradient in zip(setup.gradients(loss), setup.gradients(expected), strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-3, atol=1e-5)


def test_without_old_logps_the_loss_is_that_of_the_current_policy():
    setup = Setup()
    old_logps = setup.policy._logps(setup.batch, setup.indices, "weighted_nll")
    (loss, _), (expected, _) = setup.loss(None), setup.loss(old_logps)
    torch.testing.assert_close(loss, expected)
    for gradient, expected_gradient in zip(setup.gradients(loss), setup.gradients(expected), strict=True):
        torch.testing.assert_close(gradient, expected_gradient)


def test_regression_loss_is_the_weighted_mean_of_negative_log_likelihoods():
    weights = torch.tensor([0.5, 1.0, 1.5, 2.0, 0.1, 1.0, 1.0, 0.9, 1.0])
    for loss_agg in ("token", "sequence"):
        setup = Setup(loss_agg=loss_agg, kl_coef=0.0, temperature=0.5)  # regression ignores the temperature
        completions = setup.batch.completions
        setup.batch = TrainBatch(setup.batch.prompts, NUM_GENERATIONS, completions, weights)
        loss, _ = setup.loss(None, "weighted_nll")
        terms = []
        for row, (ids, mask) in enumerate(zip(completions.ids, completions.mask, strict=True)):
            prompt, completion = setup.batch.prompts[row // NUM_GENERATIONS], ids[mask].tolist()
            labels = torch.tensor([[-100] * len(prompt) + completion])
            output = setup.lm.model(input_ids=torch.tensor([prompt + completion]), labels=labels)
            terms.append((weights[row], output.loss * len(completion), len(completion)))
        if loss_agg == "token":
            expected = sum(w * total for w, total, _ in terms) / sum(count for _, _, count in terms)
        else:
            expected = sum(w * total / count for w, total, count in terms) / len(terms)
        torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
        for gradient, expected_gradient in zip(setup.gradients(loss), setup.gradients(expected), strict=True):
            torch.testing.assert_close(gradient, expected_gradient, rtol=1e-3, atol=1e-5)


def test_group_advantages_are_centered_and_optionally_scaled():
    scores = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.2, 0.4, 0.9, 0.1], [1.0, 1.0, 1.0, 1.0]])
    scaled, centered = group_advantages(scores, True), group_advantages(scores, False)
    for row, group in enumerate(scores.numpy()):
        np.testing.assert_allclose(centered[row], group - group.mean(), atol=1e-6)
        np.testing.assert_allclose(scaled[row], (group - group.mean()) / (group.std(ddof=1) + 1e-4), atol=1e-5)
    assert not scaled[2].any()
    assert torch.isfinite(scaled).all()


def test_clipped_loss_has_no_gradient_beyond_the_clipping_range():
    old_logps = torch.zeros(1, 5)
    logps = torch.tensor([[-1.0, -0.1, 0.0, 0.1, 1.0]], requires_grad=True)
    for advantage, expected in ((1.0, [True, True, True, True, False]), (-1.0, [False, True, True, True, True])):
        loss = ppo_clip_loss(logps, old_logps, torch.tensor([[advantage]]), CLIP_COEF)
        (gradient,) = torch.autograd.grad(loss.sum(), logps)
        assert (gradient != 0).tolist() == [expected]
    clipped = ppo_clip_loss(logps, old_logps, torch.tensor([[1.0]]), CLIP_COEF)[0, 4]
    assert clipped.item() == pytest.approx(-(1 + CLIP_COEF))


def test_kl_estimate_is_non_negative_and_unbiased():
    estimate = kl_k3(torch.tensor([-1.0, -2.0, -0.5]), torch.tensor([-1.0, -1.0, -3.0]))
    assert estimate.tolist() == pytest.approx([0.0, np.e - 2, np.exp(-2.5) + 1.5])
    p, reference = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.3, 0.3, 0.4])
    exact = (p * (p / reference).log()).sum()
    torch.testing.assert_close((p * kl_k3(p.log(), reference.log())).sum(), exact)


def test_weighted_nll_multiplies_by_the_weight():
    assert weighted_nll(torch.tensor([[-2.0, -3.0]]), torch.tensor([[0.5]])).tolist() == [[1.0, 1.5]]


def test_token_weights_average_over_tokens_or_sequences():
    mask = torch.tensor([[True, True, True], [True, False, False]])
    assert token_weights(mask, "token").tolist() == [[0.25, 0.25, 0.25], [0.25, 0.0, 0.0]]
    expected = torch.tensor([[1 / 6, 1 / 6, 1 / 6], [1 / 2, 0.0, 0.0]])
    torch.testing.assert_close(token_weights(mask, "sequence"), expected)
