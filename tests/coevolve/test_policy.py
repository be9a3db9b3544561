"""Texts are drawn and learned from as the plain definitions say, whatever is shared or kept to be faster."""

import copy

import numpy as np
import pytest
import torch

from envgen.coevolve.losses import log_probs
from envgen.coevolve.policy import LossError, Policy, Written
from envgen.coevolve.sampling import Samples, sample
from envgen.coevolve.settings import Learning
from envgen.coevolve.tiny_models import Size, fresh, tokenizer_of

TEXTS = ["abc : 2 loud", "a b c d : 4", "B", "d d d a"]
PROMPTS = ("abc : 2", "a b c d : 4 loud", "d : 1")


def small(seed: int = 0):
    return fresh(tokenizer_of(TEXTS, 300), Size(width=32, layers=2, heads=2, inner=64), seed)


@pytest.fixture
def lm():
    lm = small()
    with torch.no_grad():  # sharper than a fresh network, so that mistakes show
        for weights in lm.model.parameters():
            weights *= 3
    return lm


def drawn(lm, each=3, limit=6):
    prompts = [lm.prompt("", text) for text in PROMPTS]
    return prompts, sample(lm, prompts, each, limit, torch.Generator().manual_seed(1))


def plain_log_probs(lm, prompts, each, samples):
    """One text at a time, without padding, cache or sharing."""
    out = torch.zeros(samples.ids.shape)
    for row, (ids, mask) in enumerate(zip(samples.ids, samples.mask, strict=True)):
        prompt, reply = prompts[row // each], ids[mask].tolist()
        logits = lm.model(input_ids=torch.tensor([prompt + reply])).logits[0, len(prompt) - 1 : -1]
        out[row, : len(reply)] = torch.log_softmax(logits, -1)[range(len(reply)), reply]
    return out


def test_reading_a_prompt_once_for_all_its_replies_gives_the_same_probabilities_and_gradients(lm):
    prompts, samples = drawn(lm)
    there = samples.mask.float()
    shared = log_probs(lm.model, prompts, 3, samples.ids, samples.mask, lm.pad)[0] * there
    plain = plain_log_probs(lm, prompts, 3, samples) * there
    torch.testing.assert_close(shared, plain, rtol=1e-4, atol=1e-5)
    ours, theirs = (torch.autograd.grad(found.sum(), list(lm.model.parameters())) for found in (shared, plain))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_replies_are_drawn_as_often_as_the_model_says(lm):
    prompt = lm.prompt("", PROMPTS[0])
    samples = sample(lm, [prompt], 4000, 1, torch.Generator().manual_seed(0))
    expected = torch.softmax(lm.model(input_ids=torch.tensor([prompt])).logits[0, -1].detach(), -1)
    seen = torch.bincount(samples.ids[:, 0], minlength=len(expected)) / 4000
    assert (seen - expected).abs().max() < 0.03


def test_the_likeliest_reply_is_that_of_reading_everything_anew_for_each_token(lm):
    prompts = [lm.prompt("", text) for text in PROMPTS]
    samples = sample(lm, prompts, 1, 8, None)
    for prompt, ids, mask in zip(prompts, samples.ids, samples.mask, strict=True):
        written = []
        while len(written) < 8 and (not written or written[-1] != lm.end):
            logits = lm.model(input_ids=torch.tensor([prompt + written])).logits[0, -1]
            written.append(int(logits.argmax()))
        assert ids[mask].tolist() == written


def test_a_reply_ends_with_its_end_and_nothing_follows(lm):
    _, samples = drawn(lm, each=200, limit=12)
    lengths = samples.mask.sum(1)
    assert (samples.mask == (torch.arange(samples.ids.shape[1]) < lengths[:, None])).all()
    ends = (samples.ids == lm.end) & samples.mask
    assert ends.any(1).sum() >= 5
    assert all(int(row.nonzero()[0]) == length - 1 for row, length in zip(ends, lengths, strict=True) if row.any())


@pytest.mark.parametrize("how", ["clipped", "weighted"])
def test_how_many_rows_go_through_at_once_changes_nothing(how):
    after = []
    for rows in (4096, 3):
        lm = small()
        prompts, samples = drawn(lm)
        policy = Policy(lm, Learning(rows=rows, epochs=2, learning_rate=1e-2), seed=0)
        worth = torch.linspace(-1, 1, 9)
        metrics = policy.learn(Written(prompts, 3, samples, worth), how)
        assert metrics["steps"] == 2
        after.append([weights.detach().clone() for weights in policy.lm.model.parameters()])
    for one, other in zip(*after, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_an_update_makes_what_was_good_likelier():
    lm = small()
    prompts, samples = drawn(lm)
    policy = Policy(lm, Learning(learning_rate=1e-2), seed=0)
    written = Written(prompts, 3, samples, torch.tensor([1.0, -1.0, 0.0] * 3))
    before = policy._log_probs(written, np.arange(3))
    policy.learn(written, "clipped")
    change = ((policy._log_probs(written, np.arange(3)) - before) * samples.mask).sum(1)
    assert (change[0::3] > change[1::3]).all()


def test_an_update_stops_where_it_has_gone_far_enough():
    def steps(cap):
        lm = small()
        prompts, samples = drawn(lm)
        policy = Policy(lm, Learning(learning_rate=3e-2, epochs=20, kl_cap=cap), seed=0)
        return policy.learn(Written(prompts, 3, samples, torch.ones(9)), "weighted")["steps"]

    assert steps(None) == 20
    assert 1 <= steps(1e-3) < 20


def test_a_loss_that_is_no_number_changes_nothing_and_is_told():
    lm = small()
    prompts, samples = drawn(lm)
    policy = Policy(lm, Learning(), seed=0)
    before = copy.deepcopy(policy.lm.model.state_dict())
    with pytest.raises(LossError, match="not a number"):
        policy.learn(Written(prompts, 3, samples, torch.full((9,), torch.nan)), "clipped")
    assert all(torch.equal(before[name], now) for name, now in policy.lm.model.state_dict().items())


def test_state_carries_over_exactly():
    def update(policy, prompts):
        samples = policy.write(prompts, 3)
        policy.learn(Written(prompts, 3, samples, torch.linspace(-1, 1, 9)), "clipped")
        return samples.ids

    settings = Learning(epochs=2, minibatches=2, learning_rate=1e-2)
    first, second = Policy(small(), settings, seed=3), Policy(small(), settings, seed=4)
    prompts = [first.lm.prompt("", text) for text in PROMPTS]
    update(first, prompts)
    arrays, values = first.state()
    second.load({name: np.array(array) for name, array in arrays.items()}, values)
    for _ in range(2):
        assert torch.equal(update(first, prompts), update(second, prompts))
    for one, other in zip(first.lm.model.parameters(), second.lm.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_samples_count_their_tokens():
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert Samples(torch.zeros(2, 3, dtype=torch.long), mask).tokens == 3
