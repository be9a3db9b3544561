"""Generation and updates follow their plain definitions, whatever is cached or batched for speed."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from hypothesis import given
from hypothesis import strategies as st

from envgen.coevolution import losses
from envgen.coevolution.language_model import ModelError, new_model, train_tokenizer
from envgen.coevolution.losses import completion_logps
from envgen.coevolution.policy import LanguageModelPolicy, TrainBatch
from envgen.coevolution.sampling import Completions, generate
from envgen.coevolution.settings import ModelSize, PolicySettings
from envgen.errors import NonFiniteLossError

TEXTS = ["abc : 2 loud", "a b c d : 4", "B", "d d d a"]
PROMPTS = ("abc : 2", "a b c d : 4 loud", "d : 1")


def make_model(seed: int = 0):
    size = ModelSize(width=32, num_layers=2, num_heads=2, mlp_width=64)
    return new_model(train_tokenizer(TEXTS, 300), size, seed)


@pytest.fixture
def lm():
    lm = make_model()
    with torch.no_grad():  # a sharper distribution makes mistakes visible
        for parameter in lm.model.parameters():
            parameter *= 3
    return lm


def sample_completions(lm, num_generations=3, max_new_tokens=6):
    prompts = [lm.encode_prompt("", text) for text in PROMPTS]
    return prompts, generate(lm, prompts, num_generations, max_new_tokens, torch.Generator().manual_seed(1))


def reference_logps(lm, prompts, num_generations, completions):
    """One completion at a time, without padding, cache or shared prompts."""
    out = torch.zeros(completions.ids.shape)
    for row, (ids, mask) in enumerate(zip(completions.ids, completions.mask, strict=True)):
        prompt, completion = prompts[row // num_generations], ids[mask].tolist()
        logits = lm.model(input_ids=torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
        out[row, : len(completion)] = torch.log_softmax(logits, -1)[range(len(completion)), completion]
    return out


def test_shared_prompt_encoding_gives_the_same_logps_and_gradients(lm):
    prompts, completions = sample_completions(lm)
    mask = completions.mask.float()
    logps, _ = completion_logps(lm.model, prompts, 3, completions.ids, completions.mask, lm.pad_token_id)
    expected = reference_logps(lm, prompts, 3, completions)
    torch.testing.assert_close(logps * mask, expected * mask, rtol=1e-4, atol=1e-5)
    parameters = list(lm.model.parameters())
    gradients = torch.autograd.grad((logps * mask).sum(), parameters)
    expected_gradients = torch.autograd.grad((expected * mask).sum(), parameters)
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("max_tokens", [1, 7, 12, 10_000])
def test_chunks_of_similar_lengths_give_the_same_logps_and_gradients(lm, max_tokens):
    prompts, completions = sample_completions(lm)
    loss_mask = completions.mask.clone()
    loss_mask[:, 1::3] = False  # as if these tokens were observations
    parameters = list(lm.model.parameters())

    def run(max_chunk_tokens):
        logps, entropy = completion_logps(
            lm.model, prompts, 3, completions.ids, completions.mask, lm.pad_token_id, 0.7, loss_mask, max_chunk_tokens
        )
        assert not entropy.requires_grad
        assert not logps[~loss_mask].any()
        assert not entropy[~loss_mask].any()
        assert (entropy[loss_mask] > 0).all()
        return [logps.detach(), entropy, *torch.autograd.grad(logps.mean(), parameters)]

    for value, expected_value in zip(run(max_tokens), run(None), strict=True):
        torch.testing.assert_close(value, expected_value, rtol=1e-3, atol=1e-4)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 200))
def test_length_chunks_hold_every_row_once_and_fit(lengths, max_tokens):
    chunks = losses.length_chunks(lengths, max_tokens)
    assert sorted(row for chunk in chunks for row in chunk) == list(range(len(lengths)))
    for chunk in chunks:
        assert len(chunk) == 1 or len(chunk) * max(lengths[row] for row in chunk) <= max_tokens
    if len(chunks) == 1:
        assert chunks[0] == list(range(len(lengths)))
    longest = [max(lengths[row] for row in chunk) for chunk in chunks]
    assert longest == sorted(longest, reverse=True)


def test_samples_follow_the_distribution_of_the_model(lm):
    prompt = lm.encode_prompt("", PROMPTS[0])
    completions = generate(lm, [prompt], 4000, 1, torch.Generator().manual_seed(0))
    expected = torch.softmax(lm.model(input_ids=torch.tensor([prompt])).logits[0, -1].detach(), -1)
    frequencies = torch.bincount(completions.ids[:, 0], minlength=len(expected)) / 4000
    assert (frequencies - expected).abs().max() < 0.03


def test_greedy_generation_equals_uncached_decoding(lm):
    prompts = [lm.encode_prompt("", text) for text in PROMPTS]
    completions = generate(lm, prompts, 1, 8, None)
    for prompt, ids, mask in zip(prompts, completions.ids, completions.mask, strict=True):
        tokens = []
        while len(tokens) < 8 and (not tokens or tokens[-1] != lm.eos_token_id):
            logits = lm.model(input_ids=torch.tensor([prompt + tokens])).logits[0, -1]
            tokens.append(int(logits.argmax()))
        assert ids[mask].tolist() == tokens


def test_completions_end_at_the_first_eos(lm):
    _, completions = sample_completions(lm, num_generations=200, max_new_tokens=12)
    lengths = completions.mask.sum(1)
    assert (completions.mask == (torch.arange(completions.ids.shape[1]) < lengths[:, None])).all()
    is_eos = (completions.ids == lm.eos_token_id) & completions.mask
    assert is_eos.any(1).sum() >= 5
    assert all(int(row.nonzero()[0]) == length - 1 for row, length in zip(is_eos, lengths, strict=True) if row.any())


@pytest.mark.parametrize("loss_type", ["ppo_clip", "weighted_nll"])
def test_microbatch_size_does_not_change_the_update(loss_type):
    results = []
    for microbatch_size in (4096, 3):
        lm = make_model()
        prompts, completions = sample_completions(lm)
        settings = PolicySettings(microbatch_size=microbatch_size, epochs=2, learning_rate=1e-2)
        policy = LanguageModelPolicy(lm, settings, seed=0)
        metrics = policy.update(TrainBatch(prompts, 3, completions, torch.linspace(-1, 1, 9)), loss_type)
        assert metrics["gradient_steps"] == 2
        # in both epochs, each prompt is read once for each of its three completions
        assert metrics["num_tokens"] == 2 * (3 * sum(map(len, prompts)) + completions.num_tokens)
        results.append([parameter.detach().clone() for parameter in policy.lm.model.parameters()])
    for parameter, expected in zip(*results, strict=True):
        torch.testing.assert_close(parameter, expected, rtol=1e-3, atol=1e-4)


def test_processes_call_the_model_equally_often_for_short_and_long_completions(monkeypatch):
    lm = make_model()
    prompts, completions = sample_completions(lm)
    mask = completions.mask.clone()
    mask[:3, 1:] = False
    short = TrainBatch(prompts, 3, Completions(completions.ids, mask), torch.zeros(9))
    policy, calls = LanguageModelPolicy(lm, PolicySettings(), seed=0), []
    monkeypatch.setattr(type(policy.accelerator), "num_processes", property(lambda self: 2))
    hook = policy.model.register_forward_hook(lambda *args: calls.append(1))
    logps, _ = policy._forward(policy.model, short, np.array([0]), 1.0)
    hook.remove()
    assert len(calls) == 2
    assert logps.shape == (3, 2)
    assert (logps[:, 1] == 0).all()


def test_update_raises_the_probability_of_positive_advantages():
    lm = make_model()
    prompts, completions = sample_completions(lm)
    policy = LanguageModelPolicy(lm, PolicySettings(learning_rate=1e-2), seed=0)
    batch = TrainBatch(prompts, 3, completions, torch.tensor([1.0, -1.0, 0.0] * 3))
    before = policy._logps(batch, np.arange(3), "weighted_nll")
    policy.update(batch, "ppo_clip")
    change = ((policy._logps(batch, np.arange(3), "weighted_nll") - before) * completions.mask).sum(1)
    assert (change[0::3] > change[1::3]).all()


def test_update_stops_at_the_target_kl():
    def count_steps(target_kl):
        lm = make_model()
        prompts, completions = sample_completions(lm)
        settings = PolicySettings(learning_rate=3e-2, epochs=20, target_kl=target_kl)
        batch = TrainBatch(prompts, 3, completions, torch.ones(9))
        return LanguageModelPolicy(lm, settings, seed=0).update(batch, "weighted_nll")["gradient_steps"]

    assert count_steps(None) == 20
    assert 1 <= count_steps(1e-3) < 20


def test_non_finite_loss_is_reported_and_leaves_the_model_unchanged():
    lm = make_model()
    prompts, completions = sample_completions(lm)
    policy = LanguageModelPolicy(lm, PolicySettings(), seed=0)
    before = copy.deepcopy(policy.lm.model.state_dict())
    with pytest.raises(NonFiniteLossError, match="not finite"):
        policy.update(TrainBatch(prompts, 3, completions, torch.full((9,), torch.nan)), "ppo_clip")
    assert all(torch.equal(before[name], weights) for name, weights in policy.lm.model.state_dict().items())


def sample_and_update(policy, prompts):
    completions = policy.generate(prompts, 3)
    policy.update(TrainBatch(prompts, 3, completions, torch.linspace(-1, 1, 9)), "ppo_clip")
    return completions.ids


@pytest.mark.parametrize("has_unused", [False, True])
def test_state_restores_exactly(has_unused):
    """Parameters without a gradient, such as those of a vision tower that texts do not use, have no optimizer state."""
    settings = PolicySettings(epochs=2, num_minibatches=2, learning_rate=1e-2)
    lms = make_model(), make_model()
    for lm in lms if has_unused else ():
        lm.model.register_parameter("unused", torch.nn.Parameter(torch.ones(3)))
    policy, restored = (LanguageModelPolicy(lm, settings, seed) for lm, seed in zip(lms, (3, 4), strict=True))
    prompts = [policy.lm.encode_prompt("", text) for text in PROMPTS]
    sample_and_update(policy, prompts)
    arrays, values = policy.state()
    restored.load({name: np.array(array) for name, array in arrays.items()}, values)
    for _ in range(2):
        assert torch.equal(sample_and_update(policy, prompts), sample_and_update(restored, prompts))
    for parameter, expected in zip(restored.lm.model.parameters(), policy.lm.model.parameters(), strict=True):
        assert torch.equal(parameter, expected)


@pytest.mark.parametrize("lora_rank", [None, 2])
def test_a_state_saved_before_the_first_update_does_not_change_it(lora_rank):
    settings = PolicySettings(learning_rate=1e-2, max_new_tokens=4, temperature=1.0, lora_rank=lora_rank)
    never_saved, saved, restored = (LanguageModelPolicy(make_model(), settings, seed) for seed in (0, 0, 0))
    arrays, values = saved.state()
    assert not any(name.startswith("optimizer.") for name in arrays)
    restored.load({name: np.array(array) for name, array in arrays.items()}, values)
    policies = (never_saved, saved, restored)
    for policy in policies:
        sample_and_update(policy, [policy.lm.encode_prompt("", text) for text in PROMPTS])
    for expected, *others in zip(*(policy.lm.model.parameters() for policy in policies), strict=True):
        assert all(torch.equal(parameter, expected) for parameter in others)


def test_completions_count_their_tokens():
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert Completions(torch.zeros(2, 3, dtype=torch.long), mask).num_tokens == 3


def test_accelerate_must_not_divide_gradients(lm):
    accelerator = Accelerator()
    accelerator.gradient_accumulation_steps = 4
    try:
        with pytest.raises(ModelError, match="gradient_accumulation_steps of accelerate must be 1"):
            LanguageModelPolicy(lm, PolicySettings(), 0, accelerator)
    finally:  # accelerate keeps it for the whole process
        accelerator.gradient_accumulation_steps = 1


def test_too_little_memory_is_explained(lm, monkeypatch):
    def allocate(*args, **options):
        torch.empty(1 << 50)

    prompts = [lm.encode_prompt("", "a b : 1")]
    policy = LanguageModelPolicy(lm, PolicySettings(max_new_tokens=2), 0)
    batch = TrainBatch.from_texts(lm, prompts, ["a"], [1.0])
    monkeypatch.setattr(policy, "_forward", allocate)
    with pytest.raises(ModelError, match="out of memory while updating a model on 1 sequences; lower microbatch_size"):
        policy.update(batch, "weighted_nll")
    monkeypatch.setattr(policy.sampler, "generate", allocate)
    with pytest.raises(ModelError, match="out of memory while generating 3 completions together; lower max_new_tokens"):
        policy.generate(prompts, 3)
    monkeypatch.setattr("envgen.coevolution.policy.copy", SimpleNamespace(deepcopy=allocate))
    with pytest.raises(ModelError, match="out of memory while preparing a model on cpu; set lora_rank, kl_coef 0"):
        LanguageModelPolicy(lm, PolicySettings(), 0)

    def fail(*args):
        raise RuntimeError("another error")

    monkeypatch.setattr(policy, "_forward", fail)
    with pytest.raises(RuntimeError, match="another error"):
        policy.update(batch, "weighted_nll")
