"""The losses are the published ones: term by term, and against TRL's GRPO on the same texts."""

import numpy as np
import pytest
import torch

from envgen.coevolve.language_model import Lm
from envgen.coevolve.losses import away, clipped, group_advantages, weighted
from envgen.coevolve.policy import Policy, Written
from envgen.coevolve.sampling import Samples, padded_left
from envgen.coevolve.settings import Learning
from envgen.coevolve.tiny_models import Size, fresh, save, tokenizer_of

TEXTS = ("abc : 2 loud", "a b c d : 4", "B", "d d d a")
PROMPTS = ("abc : 2", "a b c d : 4 loud", "d : 1")
EACH, CLIP, KL = 3, 0.2, 0.3


def moved(model, by, seed):
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in model.parameters():
            weights += by * torch.randn(weights.shape, generator=random)


class Batch:
    """Texts of different lengths, and a policy that has moved twice: since it began, and since it drew them."""

    def __init__(self, **settings):
        lm = fresh(tokenizer_of(TEXTS, 300), Size(width=32, layers=2, heads=2, inner=64), 0)
        moved(lm.model, 0.05, 1)
        self.policy = Policy(lm, Learning(**{"clip": CLIP, "kl": KL, **settings}), 0)
        self.lm, random = lm, np.random.default_rng(0)
        replies = ["".join(random.choice(list("abcd "), random.integers(1, 9))) for _ in range(EACH * len(PROMPTS))]
        samples = Samples.of([lm.reply(text) for text in replies], lm.pad)
        worth = torch.tensor([1.2, -0.7, 0.1, -1.0, 0.0, 0.9, 2.0, -1.5, 0.3])
        self.written = Written([lm.prompt("", text) for text in PROMPTS], EACH, samples, worth)
        self.chosen = np.arange(len(PROMPTS))
        moved(lm.model, 0.02, 2)

    def loss(self, before, how="clipped"):
        losses, metrics = self.policy._losses(self.written, self.chosen, before, how)
        share = self.policy._shares(self.written.samples.mask)
        return (losses * share).sum(), [(metric * share).sum() for metric in metrics]

    def gradients(self, loss):
        return torch.autograd.grad(loss, list(self.lm.model.parameters()))


def trls(batch, folder, loss_type, beta, temperature):
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")
    config = trl.GRPOConfig(
        output_dir=str(folder), use_cpu=True, bf16=False, report_to=[], per_device_train_batch_size=9,
        num_generations=EACH, gradient_checkpointing=False, loss_type=loss_type, beta=beta, epsilon=CLIP,
        temperature=temperature, use_bias_correction_kl=False,  # the KL term as GRPO was published with it
    )  # fmt: skip
    if beta:  # its reference comes from a folder
        save(Lm(batch.policy.reference, batch.lm.tokenizer), folder / "reference")
        batch.lm.model.config._name_or_path = str(folder / "reference")
    return trl.GRPOTrainer(
        model=batch.lm.model, processing_class=batch.lm.tokenizer, args=config,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        train_dataset=datasets.Dataset.from_list([{"prompt": "a"}] * 9),
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("mean", "loss_type", "kl", "temperature"),
    [("token", "bnpo", KL, 1.0), ("text", "grpo", KL, 0.7), ("token", "bnpo", 0.0, 0.7), ("text", "grpo", 0.0, 1.0)],
)
def test_loss_and_gradients_are_trls(tmp_path, mean, loss_type, kl, temperature):
    batch = Batch(mean=mean, kl=kl, temperature=temperature)
    trainer = trls(batch, tmp_path, loss_type, kl, temperature)
    prompts, there = padded_left([prompt for prompt in batch.written.prompts for _ in range(EACH)], batch.lm.pad)
    samples = batch.written.samples
    whole = torch.cat([prompts, samples.ids], 1), torch.cat([there, samples.mask], 1).long()

    @torch.no_grad()
    def read(model):
        return trainer._get_per_token_logps_and_entropies(model, *whole, samples.ids.shape[1])[0]

    inputs = {
        "prompt_ids": prompts, "prompt_mask": there.long(), "completion_ids": samples.ids,
        "completion_mask": samples.mask.long(), "advantages": batch.written.worth,
        "old_per_token_logps": read(batch.lm.model),
    }  # fmt: skip
    if kl:
        inputs["ref_per_token_logps"] = read(trainer.ref_model)
    before = batch.policy._log_probs(batch.written, batch.chosen, temperature)
    moved(batch.lm.model, 0.03, 3)
    batch.lm.model.eval()
    theirs = trainer._compute_loss(batch.lm.model, inputs)
    ours, metrics = batch.loss(before)
    assert metrics[2] > 0.1  # clipping is at work
    assert (metrics[0] > 1e-3) == bool(kl)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    for own, other in zip(batch.gradients(ours), batch.gradients(theirs), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-3, atol=1e-5)


def test_of_one_gradient_step_the_loss_is_that_of_the_policy_that_drew():
    batch = Batch()
    same = batch.policy._log_probs(batch.written, batch.chosen)
    (ours, _), (told, _) = batch.loss(None), batch.loss(same)
    torch.testing.assert_close(ours, told)
    for own, other in zip(batch.gradients(ours), batch.gradients(told), strict=True):
        torch.testing.assert_close(own, other)


def test_reward_weighted_regression_is_the_weighted_mean_of_log_likelihoods():
    weights = torch.tensor([0.5, 1.0, 1.5, 2.0, 0.1, 1.0, 1.0, 0.9, 1.0])
    for mean in ("token", "text"):
        batch = Batch(mean=mean, kl=0.0, temperature=0.5)  # what it was drawn at does not matter here
        batch.written = Written(batch.written.prompts, EACH, batch.written.samples, weights)
        ours, _ = batch.loss(None, "weighted")
        sums = []
        for row, (ids, there) in enumerate(zip(batch.written.samples.ids, batch.written.samples.mask, strict=True)):
            prompt, reply = batch.written.prompts[row // EACH], ids[there].tolist()
            labels = torch.tensor([[-100] * len(prompt) + reply])
            output = batch.lm.model(input_ids=torch.tensor([prompt + reply]), labels=labels)
            sums.append((weights[row], output.loss * len(reply), len(reply)))
        if mean == "token":
            plain = sum(w * total for w, total, _ in sums) / sum(count for _, _, count in sums)
        else:
            plain = sum(w * total / count for w, total, count in sums) / len(sums)
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-6)
        for own, other in zip(batch.gradients(ours), batch.gradients(plain), strict=True):
            torch.testing.assert_close(own, other, rtol=1e-3, atol=1e-5)


def test_advantages_are_distances_from_the_groups_mean_in_its_deviations():
    scores = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.2, 0.4, 0.9, 0.1], [1.0, 1.0, 1.0, 1.0]])
    scaled, plain = group_advantages(scores, True), group_advantages(scores, False)
    for row, group in enumerate(scores.numpy()):
        np.testing.assert_allclose(plain[row], group - group.mean(), atol=1e-6)
        np.testing.assert_allclose(scaled[row], (group - group.mean()) / (group.std(ddof=1) + 1e-4), atol=1e-5)
    assert not scaled[2].any()
    assert torch.isfinite(scaled).all()


def test_nothing_is_gained_by_moving_farther_than_the_clip():
    then = torch.zeros(1, 5)
    now = torch.tensor([[-1.0, -0.1, 0.0, 0.1, 1.0]], requires_grad=True)
    for gain, pulls in ((1.0, [True, True, True, True, False]), (-1.0, [False, True, True, True, True])):
        loss = clipped(now, then, torch.tensor([[gain]]), CLIP)
        (gradient,) = torch.autograd.grad(loss.sum(), now)
        assert (gradient != 0).tolist() == [pulls]
    high = clipped(now, then, torch.tensor([[1.0]]), CLIP)[0, 4]
    assert high.item() == pytest.approx(-(1 + CLIP))


def test_the_distance_from_the_reference_is_never_negative_and_right_on_average():
    assert away(torch.tensor([-1.0, -2.0, -0.5]), torch.tensor([-1.0, -1.0, -3.0])).tolist() == pytest.approx(
        [0.0, np.e - 2, np.exp(-2.5) + 1.5]
    )
    now, reference = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.3, 0.3, 0.4])
    exact = (now * (now / reference).log()).sum()
    torch.testing.assert_close((now * away(now.log(), reference.log())).sum(), exact)


def test_weights_multiply():
    assert weighted(torch.tensor([[-2.0, -3.0]]), torch.tensor([[0.5]])).tolist() == [[1.0, 1.5]]
