"""Multi-turn tasks: how episodes become sequences, and that only the model's own tokens are trained."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers.processors import TemplateProcessing
from toy import LETTERS, Toy, ToySpec
from transformers import LlamaConfig, LlamaForCausalLM

from envgen.coevolution import pretrain_data
from envgen.coevolution.episodes import (
    MAX_TURN_CHARS,
    EpisodeRollout,
    episode_starter,
    normalize_turn,
    transcript,
)
from envgen.coevolution.language_model import LanguageModel, ModelError, new_model, train_tokenizer
from envgen.coevolution.loop import AgentPolicy
from envgen.coevolution.model_io import save_model
from envgen.coevolution.policy import LanguageModelPolicy, TrainBatch
from envgen.coevolution.pretraining import completion_loss, encode_example, pretrain
from envgen.coevolution.sampling import Completions, concat_completions, generate, generate_turn_by_turn
from envgen.coevolution.settings import AgentSettings, CoevolutionPlan, ModelSize, PolicySettings, PretrainSettings
from envgen.coevolution.tasks import CheckResult, DomainError, Task, check_domain
from envgen.coevolution.train import CoevolveRequest, coevolve

TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% if m['role'] == 'assistant' %}<end>{% endif %}|"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


class Spelling(Toy):
    """Name the letters one by one. After each turn the environment says how many are right so far."""

    name = "spelling"
    is_multi_turn = True
    last_observation: str | None = None  # what ends an episode

    def make_task(self, spec: Any) -> Task:
        return Task(spec, f"spell {' '.join(spec.letters)}", spec.letters)

    def oracle_reply(self, task: Task) -> str:
        return "\n".join(task.answer_key)

    def start_episode(self, task: Task) -> "SpellingEpisode":
        return SpellingEpisode(task.answer_key, self.last_observation)

    def check(self, task: Task, reply: str) -> CheckResult:
        turns = reply.split("\n", len(task.answer_key))
        return CheckResult(float(turns == list(task.answer_key)), all(turn in LETTERS for turn in turns))

    def wrong_replies(self, task: Task) -> tuple[str, ...]:
        return ("", "x", task.answer_key[:-1])


class SpellingEpisode:
    def __init__(self, letters: str, last_observation: str | None):
        self.letters, self.turns, self.last_observation = letters, [], last_observation

    def step(self, turn: str) -> str | None:
        self.turns.append(turn)
        if len(self.turns) == len(self.letters):
            return self.last_observation
        return f"right {sum(map(str.__eq__, self.turns, self.letters))}"


@pytest.fixture
def lm():
    tokenizer = train_tokenizer(["spell a b c d e f g h\n", "right 0 1 2\n"] * 20, 400)
    return new_model(tokenizer, ModelSize(width=32, num_layers=2, num_heads=2, mlp_width=64), 0)


def tasks_of(*words: str) -> list[Task]:
    return [Spelling().make_task(ToySpec(which=1, letters=word)) for word in words]  # pyright: ignore


def start_episodes(lm, tasks: Sequence[Task], num_generations: int = 1) -> list[EpisodeRollout]:
    start = episode_starter(Spelling(), lm, tasks)
    return [start(index) for index in range(len(tasks)) for _ in range(num_generations)]


def play(lm, tasks: Sequence[Task], turns_of: dict[str, list[str]], num_generations: int = 1):
    """Play with a model that gives fixed turns; also returns the prompts of each call."""
    calls = []

    def generate(prompts, count):
        calls.append([list(prompt) for prompt in prompts])
        answers = []
        for prompt in prompts:
            text = lm.decode(prompt)
            word, number = text.split("\n")[0].removeprefix("spell ").replace(" ", ""), text.count("right")
            answers += [lm.encode_completion(turns_of[word][number])] * count
        return Completions.from_token_lists(answers, lm.pad_token_id)

    prompts = [lm.encode_prompt("", task.prompt) for task in tasks]
    episodes = start_episodes(lm, tasks, num_generations)
    completions = generate_turn_by_turn(generate, prompts, num_generations, episodes, lm.pad_token_id)
    return completions, [episode.text for episode in episodes], calls


class Echo:
    """Answers each turn with other tokens, whose number differs between turns, and ends after `num_turns`."""

    def __init__(self, num_turns: int):
        self.num_turns, self.turns = num_turns, []

    def answer(self, tokens: list[int]) -> list[int] | None:
        self.turns.append(tokens)
        if len(self.turns) == self.num_turns:
            return None
        return [5 + (sum(tokens) + k) % 40 for k in range((3 * len(self.turns) + self.num_turns) % 4)]  # 0 to 3 tokens


@pytest.mark.parametrize("kind", ["attention and convolution", "attention"])
@pytest.mark.parametrize("num_generations", [1, 3])
def test_episodes_that_continue_from_their_cache_equal_those_that_encode_their_history_again(kind, num_generations):
    """Greedy decoding with turns and answers of different lengths, so that each row is in another turn."""
    tokenizer = train_tokenizer(["spell a b c d e f g h\n", "right 0 1 2\n"] * 20, 400)
    lm = new_model(tokenizer, ModelSize(width=32, num_layers=2, num_heads=2, mlp_width=64), 0)
    if kind == "attention":
        lm = LanguageModel(LlamaForCausalLM(LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2,
        )), tokenizer)  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for parameter in lm.model.parameters():  # far from uniform, so that completions differ
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    lm.model.eval()
    prompts = [list(range(6, 6 + length)) for length in (3, 9, 1, 5, 30)]
    turns = [1 + k % 5 for k in range(len(prompts) * num_generations)]
    results = []
    for method in ("cache", "history"):
        conversations = [Echo(count) for count in turns]
        if method == "cache":
            completions = generate(lm, prompts, num_generations, 7, None, conversations=conversations)
        else:
            completions = generate_turn_by_turn(
                lambda prompts, count: generate(lm, prompts, count, 7, None), prompts, num_generations, conversations,
                lm.pad_token_id,
            )  # fmt: skip
        assert [len(conversation.turns) for conversation in conversations] == turns
        results.append((completions, [conversation.turns for conversation in conversations]))
    assert results[0][1] == results[1][1]
    assert len({str(turn) for row in results[0][1] for turn in row}) > 5
    for name in ("ids", "mask", "generated"):
        rows = [getattr(completions, name) for completions, _ in results]
        assert torch.equal(*rows), name


def test_sampled_turns_follow_the_model(lm):
    """The second turn of 4,000 episodes, after a forced answer, has the model's probabilities."""

    class TwoTurns:
        def __init__(self):
            self.turns = []

        def answer(self, tokens):
            self.turns.append(tokens)
            return [7, 8] if len(self.turns) == 1 else None

    prompt, conversations = lm.encode_prompt("", "spell a b"), [TwoTurns() for _ in range(4000)]
    generate(lm, [prompt], 4000, 1, torch.Generator().manual_seed(0), conversations=conversations)
    first = max(range(20), key=lambda token: sum(c.turns[0] == [token] for c in conversations))
    seconds = torch.tensor([c.turns[1][0] for c in conversations if c.turns[0] == [first]])
    history = torch.tensor([[*prompt, first, 7, 8]])
    expected = torch.softmax(lm.model(input_ids=history).logits[0, -1].detach(), -1)
    frequencies = torch.bincount(seconds, minlength=len(expected)) / len(seconds)
    assert (frequencies - expected).abs().max() < 5 * (0.25 / len(seconds)) ** 0.5


def test_an_episode_is_one_sequence_of_completions_and_observations(lm):
    completions, texts, calls = play(lm, tasks_of("ab", "c"), {"ab": ["a", "x"], "c": ["c"]}, num_generations=2)
    a, x, c = (lm.encode_completion(letter) for letter in "axc")
    right = lm.encode_observation("right 1")
    assert texts == ["a\nx", "a\nx", "c", "c"]
    assert [ids[mask].tolist() for ids, mask in zip(completions.ids, completions.mask, strict=True)] == [
        a + right + x, a + right + x, c, c
    ]  # fmt: skip
    assert completions.generated is not None
    assert completions.generated[0].tolist() == [True] * len(a) + [False] * len(right) + [True] * len(x)
    assert completions.num_tokens == 2 * (len(a) + len(x) + len(c))
    prompt = lm.encode_prompt("", "spell a b")
    assert calls[1] == [prompt + a + right] * 2  # only the episodes that are not over generate again
    roles = {"system": "instructions", "user": "spell a b", "assistant": "a"}  # benchmarks encode whole conversations
    messages = [{"role": role, "content": text} for role, text in roles.items()]
    assert lm.encode_messages([*messages, {"role": "user", "content": "right 1"}]) == prompt + a + right


def test_a_turn_is_one_short_line():
    assert normalize_turn(" go\n to \x00 x\t") == "go to \x00 x"
    assert len(normalize_turn("x" * 10_000_000)) == MAX_TURN_CHARS


def test_the_transcript_of_a_reply_ends_with_its_episode():
    task = tasks_of("ab")[0]
    assert transcript(Spelling(), task, "a\nb\nc") == [("a", "right 1"), ("b", "")]


def test_check_domain_plays_episodes():
    check_domain(Spelling(), 12)
    endless = Spelling()
    endless.last_observation = "right"
    with pytest.raises(DomainError, match="must end with the last of the oracle's"):
        check_domain(endless, 12)


def test_only_generated_tokens_are_trained(lm):
    """The gradient is that of the generated tokens' loss, however likely the observations are."""
    completions, _, _ = play(lm, tasks_of("ab", "cd"), {"ab": ["a", "b"], "cd": ["x", "d"]})
    prompts = [lm.encode_prompt("", task.prompt) for task in tasks_of("ab", "cd")]
    weights = torch.tensor([1.0, 0.5])
    reference = copy.deepcopy(lm.model)
    logps = torch.zeros(completions.ids.shape)
    for row, (prompt, ids, mask) in enumerate(zip(prompts, completions.ids, completions.mask, strict=True)):
        tokens = ids[mask].tolist()
        logits = reference(input_ids=torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1 : -1]
        logps[row, : len(tokens)] = torch.log_softmax(logits, -1)[range(len(tokens)), tokens]
    generated = completions.loss_mask.float()
    (-(weights[:, None] * logps * generated).sum() / generated.sum()).backward()
    expected = torch.cat([parameter.grad.flatten() for parameter in reference.parameters()])

    policy = LanguageModelPolicy(lm, PolicySettings(kl_coef=0.0, max_grad_norm=1e9, learning_rate=1e-9), seed=0)
    gradients = []
    step = policy.optimizer.step
    policy.optimizer.step = lambda: (gradients.extend(p.grad.clone() for p in lm.model.parameters()), step())
    metrics = policy.update(TrainBatch(prompts, 1, completions, weights), "weighted_nll")
    torch.testing.assert_close(torch.cat([grad.flatten() for grad in gradients]), expected, rtol=1e-3, atol=1e-6)
    assert metrics["num_tokens"] == sum(map(len, prompts)) + int(completions.mask.sum())


def test_pretraining_learns_the_completions_and_not_the_observations(lm):
    example = encode_example(lm, ("spell a b", [("a", "right 1"), ("b", "")]))
    prompt, ids, generated = example
    assert ids == lm.encode_completion("a") + lm.encode_observation("right 1") + lm.encode_completion("b")
    logits = lm.model(input_ids=torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
    losses = -torch.log_softmax(logits, -1)[range(len(ids)), ids]
    expected = losses[torch.tensor(generated)].mean()
    torch.testing.assert_close(completion_loss(lm, [example]), expected, rtol=1e-4, atol=1e-5)


def test_one_turn_is_trained_like_a_reply(lm):
    """Without observations, a multi-turn update equals one of a single turn bit by bit."""
    prompts = [lm.encode_prompt("", "spell a"), lm.encode_prompt("", "spell b c")]
    single = Completions.from_token_lists([lm.encode_completion(text) for text in ("a", "b", "d e", "f")], 1)
    results = []
    for completions in (single, Completions(single.ids, single.mask, single.mask.clone())):
        policy = LanguageModelPolicy(copy.deepcopy(lm), PolicySettings(num_minibatches=2, epochs=2), seed=0)
        policy.update(TrainBatch(prompts, 2, completions, torch.tensor([1.0, -1.0, 0.5, 0.0])), "ppo_clip")
        results.append([parameter.detach().clone() for parameter in policy.lm.model.parameters()])
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_completions_with_and_without_observations_are_concatenated():
    plain = Completions.from_token_lists([[5, 6]], 0)
    played = Completions(torch.tensor([[7, 8, 9]]), torch.ones(1, 3).bool(), torch.tensor([[True, False, True]]))
    both = concat_completions([plain, played])
    assert both.loss_mask.tolist() == [[True, True, False], [True, False, True]]
    assert both.select(torch.tensor([False, True])).num_tokens == 2


def test_observations_follow_the_chat_template(lm):
    lm.tokenizer.chat_template = TEMPLATE
    ids = [*lm.encode_prompt("S", "spell a b"), *lm.encode_completion("a"), *lm.encode_observation("right 1")]
    assert lm.tokenizer.decode(ids).replace(" ", "") == (
        "<system>S|<user>spell a b|<assistant>a<end>|<user>right 1|<assistant>".replace(" ", "")
    )


@pytest.mark.parametrize(
    "system", ["{{ raise_exception('System role not supported') }}", ""], ids=["refused", "omitted"]
)
def test_a_system_message_that_the_chat_template_does_not_take_is_part_of_the_user_message(lm, system):
    """As in Gemma 2, whose template refuses system messages."""
    others = "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}|{% endfor %}"
    lm.tokenizer.chat_template = f"{{% if messages[0].role == 'system' %}}{system}{{% endif %}}{others}"
    expected = "<user>S\n\nspell a b|<assistant>a|<user>right 1|"
    conversation = [("system", "S"), ("user", "spell a b"), ("assistant", "a"), ("user", "right 1")]
    ids = lm.encode_messages([{"role": role, "content": content} for role, content in conversation])
    assert lm.tokenizer.decode(ids).replace(" ", "") == expected.replace(" ", "")
    assert lm.encode_prompt("", "spell a b") == lm.tokenizer("<user>spell a b|", add_special_tokens=False).input_ids


def test_a_prompt_starts_with_the_token_that_the_tokenizer_starts_with(lm):
    """As in Llama's base models; those of GPT-2 have such a token, but their tokenizer does not add it."""
    bare = lm.encode_prompt("S", "spell a b")
    tokenizer = lm.tokenizer
    tokenizer.add_special_tokens({"bos_token": "<start>"})
    assert lm.encode_prompt("S", "spell a b") == bare
    start = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing("<start> $A", special_tokens=[("<start>", start)])
    assert lm.encode_prompt("S", "spell a b") == [start, *bare]
    assert start not in lm.encode_observation("right 1") + lm.encode_completion("a")


def test_a_turn_ends_with_the_token_of_the_chat_template(lm):
    """As in Gemma and Phi, whose turns do not end with the end-of-sequence token of the tokenizer."""
    lm.tokenizer.add_special_tokens({"additional_special_tokens": ["<turn>"]})
    assert lm.eos_token_id == lm.tokenizer.eos_token_id
    lm.tokenizer.chat_template = TEMPLATE.replace("<end>", "<turn>")
    lm = LanguageModel(lm.model, lm.tokenizer)
    assert lm.eos_token_id == lm.tokenizer.convert_tokens_to_ids("<turn>")
    ids = [*lm.encode_prompt("S", "spell a b"), *lm.encode_completion("a"), *lm.encode_observation("right 1")]
    assert lm.tokenizer.decode(ids).replace(" ", "") == (
        "<system>S|<user>spell a b|<assistant>a<turn>|<user>right 1|<assistant>".replace(" ", "")
    )
    assert lm.decode(lm.encode_completion("a")) == "a"
    lm.tokenizer.chat_template = "{{ raise_exception('no answers') if messages[-1].role == 'assistant' }}"
    assert LanguageModel(lm.model, lm.tokenizer).eos_token_id == lm.tokenizer.eos_token_id


def test_a_turn_that_is_cut_off_ends_before_the_observation(lm):
    (episode,) = start_episodes(lm, tasks_of("ab"))
    end = [lm.eos_token_id]
    assert episode.answer(lm.encode_completion("a")) == lm.encode_observation("right 1")
    (episode,) = start_episodes(lm, tasks_of("ab"))
    assert episode.answer(lm.encode_completion("a")[:-1]) == end + lm.encode_observation("right 1")


def test_a_chat_template_that_rewrites_earlier_turns_is_refused(lm):
    lm.tokenizer.chat_template = "{{ messages | length }}"
    with pytest.raises(ModelError, match=r"^the chat template of this model rewrites earlier turns; choose another"):
        lm.encode_observation("right 1")


def test_a_chat_template_without_further_turns_is_refused_before_a_run_starts(lm, tmp_path):
    lm.tokenizer.chat_template = "{{ messages | length }}"
    save_model(lm, tmp_path / "agent")
    model = str(tmp_path / "agent")
    plan = CoevolutionPlan(rollouts=8, tasks_per_step=1, num_base_tasks=8, num_eval_tasks=8)
    request = CoevolveRequest(proposer="uniform", agent=model, environment=model, plan=plan)
    with pytest.raises(ModelError, match="rewrites earlier turns"):
        coevolve(tmp_path / "run", Spelling(), request)
    assert not (tmp_path / "run").exists()


def test_the_agent_learns_in_episodes(lm):
    """Scores of the texts of episodes; the update raises the score."""
    settings = AgentSettings(learning_rate=3e-2, max_new_tokens=2, num_generations=16, temperature=1.0)
    domain = Spelling()
    domain.check = lambda task, reply: CheckResult(float(reply.startswith("a")), True)  # pyright: ignore
    agent = AgentPolicy(domain, LanguageModelPolicy(lm, settings, seed=0), settings)
    tasks = tasks_of("ab", "cd")
    rates = []
    for _ in range(25):
        batch = agent.sample_and_score(tasks)
        assert [text.count("\n") for text in batch.texts] == [1] * 32
        rates.append(batch.scores.mean())
        agent.update([batch])
    assert np.mean(rates[-5:]) > np.mean(rates[:5]) + 0.3
    assert agent.evaluate(tasks, batch_size=1).shape == (2,)


@pytest.fixture(scope="module")
def spelling_models(tmp_path_factory):
    settings = PretrainSettings(
        agent_steps=8, environment_steps=2, batch_size=8, num_tokenizer_specs=200, num_held_out=8
    )  # fmt: skip
    size = ModelSize(width=32, num_layers=2, num_heads=2, mlp_width=64, vocab_size=400)
    with pytest.MonkeyPatch.context() as patch:  # shorter evaluations
        patch.setattr(pretrain_data, "MAX_NEW_TOKENS", 4)
        patch.setattr(pretrain_data, "NUM_EVAL_PROMPTS", 4)
        return pretrain(Spelling(), tmp_path_factory.mktemp("models"), 0, size, settings)


def test_a_run_with_episodes_resumes_exactly(spelling_models, tmp_path):
    agent, environment = map(str, spelling_models)
    plan = CoevolutionPlan(
        rollouts=96, tasks_per_step=4, num_base_tasks=8, num_eval_tasks=8, eval_every=2, num_variations=2
    )  # fmt: skip
    settings = AgentSettings(max_new_tokens=4)
    request = CoevolveRequest(
        proposer="uniform", agent=agent, environment=environment, plan=plan, agent_settings=settings
    )  # fmt: skip
    whole = coevolve(tmp_path / "whole", Spelling(), request)

    def interrupt(line):
        if line["step"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        coevolve(tmp_path / "interrupted", Spelling(), request, on_progress=interrupt, save_every=0)
    resumed = coevolve(tmp_path / "interrupted", Spelling(), request, save_every=0)
    assert resumed.accuracy_curve == whole.accuracy_curve
    assert resumed.counts == whole.counts
