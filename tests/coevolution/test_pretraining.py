"""Models created from scratch learn a little, are reproducible, created once, and resumed exactly when interrupted."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy import Toy

from envgen.coevolution import pretraining
from envgen.coevolution.language_model import new_model, train_tokenizer
from envgen.coevolution.losses import completion_logps
from envgen.coevolution.model_io import load_model
from envgen.coevolution.pretrain_data import PretrainData
from envgen.coevolution.pretraining import completion_loss, encode_example, find_pretrained_agent, pretrain
from envgen.coevolution.sampling import Completions, generate
from envgen.coevolution.settings import ModelSize, PretrainSettings
from envgen.coevolution.task_stores import TaskFilter
from envgen.coevolution.tasks import DomainError
from forked import forked

DOMAIN, NUM_HELD_OUT = Toy(), 40
SIZE = ModelSize(width=32, num_layers=2, num_heads=2, mlp_width=64, vocab_size=400)
SETTINGS = PretrainSettings(agent_steps=100, environment_steps=150, num_tokenizer_specs=200, num_held_out=NUM_HELD_OUT)
SHORT = SETTINGS.model_copy(update={"agent_steps": 2, "environment_steps": 2, "batch_size": 4})
RESUMED = SETTINGS.model_copy(update={"agent_steps": 30, "environment_steps": 20, "batch_size": 4})


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    return pretrain(DOMAIN, tmp_path_factory.mktemp("models"), 0, SIZE, SETTINGS)


def read_weights(folders):
    return [(folder / "model.safetensors").read_bytes() for folder in folders]


def test_agent_solves_many_easy_tasks(pretrained):
    lm, rng = load_model(pretrained[0]), np.random.default_rng(5)
    tasks = [DOMAIN.make_task(DOMAIN.sample_easy(rng)) for _ in range(100)]
    replies = generate(lm, [lm.encode_prompt("", task.prompt) for task in tasks], 1, 4, None).decode(lm)
    assert np.mean([DOMAIN.check(*pair).score for pair in zip(tasks, replies, strict=True)]) > 0.4  # chance: 1/8


def test_environment_writes_mostly_valid_specs(pretrained):
    lm, data = load_model(pretrained[1]), PretrainData(DOMAIN, 0.0, NUM_HELD_OUT, 5)
    data.tokenizer_texts(100)
    prompts = [lm.encode_prompt("", data.environment_example()[0]) for _ in range(100)]
    task_filter = TaskFilter(DOMAIN, DOMAIN.held_out_tasks(NUM_HELD_OUT))
    specs = generate(lm, prompts, 1, 64, torch.Generator().manual_seed(0)).decode(lm)
    assert np.mean([task_filter.check(text).task is not None for text in specs]) > 0.4


def test_both_models_share_a_tokenizer(pretrained):
    agent, environment = ((folder / "tokenizer.json").read_bytes() for folder in pretrained)
    assert agent == environment


def test_equal_arguments_find_existing_models_and_others_do_not(tmp_path):
    lines = []
    models = pretrain(DOMAIN, tmp_path, 0, SIZE, SHORT, lines.append)
    assert any(line.startswith("agent (1 of 2): step 2 of 2, loss ") for line in lines)
    assert any(line.startswith("environment (2 of 2): step 2 of 2") for line in lines)
    assert all(line.endswith("0:00:00 left for this model") for line in lines if "step 2 of 2" in line)
    lines.clear()
    assert pretrain(DOMAIN, tmp_path, 0, SIZE, SHORT, lines.append) == models
    assert not lines
    others = (
        pretrain(DOMAIN, tmp_path, 1, SIZE, SHORT),
        pretrain(DOMAIN, tmp_path, 0, SIZE.model_copy(update={"mlp_width": 32}), SHORT),
        pretrain(DOMAIN, tmp_path, 0, SIZE, SHORT.model_copy(update={"hard_fraction": 0.1})),
    )
    assert len({models, *others}) == 4


def test_domains_that_differ_in_their_examples_only_have_different_models(tmp_path):
    class EasierToy(Toy):
        def sample_easy(self, rng):
            return super().sample_easy(rng).model_copy(update={"loud": "no"})

    class OtherVariations(Toy):
        def vary(self, spec, rng):
            return spec

    domains = (Toy(), Toy(), EasierToy(), OtherVariations())
    same, again, *others = (find_pretrained_agent(domain, tmp_path, 0, SIZE, SHORT) for domain in domains)
    assert same == again
    assert len({same, *others}) == 3


def test_peeking_at_examples_does_not_change_them():
    data, untouched = (PretrainData(DOMAIN, 0.5, NUM_HELD_OUT, 3) for _ in range(2))
    peeked = data.peek_examples(4)
    assert peeked[:4] == [data.agent_example() for _ in range(4)]
    for _ in range(4):
        untouched.agent_example()
    assert data.environment_example() == untouched.environment_example()


def test_models_are_reproducible(tmp_path):
    first, second = (pretrain(DOMAIN, tmp_path / name, 0, SIZE, SHORT) for name in ("first", "second"))
    assert read_weights(first) == read_weights(second)


def pretrain_slowly(folder: Path, started: Path, waiting: Path) -> None:
    """Announces its start, and goes on when another process waits."""

    def report(line: str) -> None:
        started.touch()
        deadline = time.monotonic() + 60
        while not waiting.exists() and time.monotonic() < deadline:
            time.sleep(0.002)

    pretrain(DOMAIN, folder, 0, SIZE, RESUMED, report)


def test_of_two_processes_the_second_waits_for_the_models_of_the_first(tmp_path):
    started, waiting, lines = tmp_path / "started", tmp_path / "waiting", []

    def report(line):
        lines.append(line)
        waiting.touch()

    with forked(pretrain_slowly, tmp_path / "models", started, waiting) as process:
        while process.is_alive() and not started.exists():
            time.sleep(0.002)
        models = pretrain(DOMAIN, tmp_path / "models", 0, SIZE, RESUMED, report)
        process.join()
        assert process.exitcode == 0
    assert lines == ["another process is pretraining these models; waiting for it"]
    assert [path.name for path in (tmp_path / "models").iterdir()] == [models[0].parent.name]
    load_model(models[1])


def test_without_file_locks_the_first_to_finish_publishes_its_models(tmp_path, monkeypatch):
    monkeypatch.setattr(pretraining, "fcntl", None)
    concurrent = []

    def pretrain_concurrently(line):
        if not concurrent:
            concurrent.append(None)
            concurrent[0] = pretrain(DOMAIN, tmp_path, 0, SIZE, SHORT)

    assert pretrain(DOMAIN, tmp_path, 0, SIZE, SHORT, pretrain_concurrently) == concurrent[0]
    finished = [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert finished == [concurrent[0][0].parent.name]
    load_model(concurrent[0][0])


@pytest.mark.parametrize("model", ["agent", "environment"])
def test_interrupted_pretraining_resumes_exactly(tmp_path, model):
    expected = pretrain(DOMAIN, tmp_path / "uninterrupted", 0, SIZE, RESUMED)

    def interrupt(line):
        if line.startswith(model) and " step 15 " in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(DOMAIN, tmp_path / "interrupted", 0, SIZE, RESUMED, interrupt, save_every=0)
    assert not (tmp_path / "interrupted" / expected[0].parent.name).exists()  # unfinished models are not found
    lines = []
    resumed = pretrain(DOMAIN, tmp_path / "interrupted", 0, SIZE, RESUMED, lines.append, save_every=0)
    assert lines[0].startswith(f"{model} ")
    assert "resumed at step" in lines[0]
    assert read_weights(resumed) == read_weights(expected)
    assert [path.name for path in (tmp_path / "interrupted").iterdir()] == [expected[0].parent.name]


def pretrain_and_print(folder: Path) -> None:
    pretrain(DOMAIN, folder, 0, SIZE, RESUMED, lambda line: print(line, flush=True), save_every=0)


def test_killed_pretraining_resumes_exactly(tmp_path):
    expected = pretrain(DOMAIN, tmp_path / "uninterrupted", 0, SIZE, RESUMED)
    output = tmp_path / "stdout"
    with forked(pretrain_and_print, tmp_path / "models", stdout=output) as process:
        while process.is_alive() and not (output.exists() and "loss" in output.read_text()):
            time.sleep(0.002)
        assert process.is_alive()
    assert not (tmp_path / "models" / expected[0].parent.name).exists()
    lines = []
    resumed = pretrain(DOMAIN, tmp_path / "models", 0, SIZE, RESUMED, lines.append)
    assert lines[0].startswith("agent (1 of 2): resumed at step ")
    assert read_weights(resumed) == read_weights(expected)


def test_reports_state_the_time_left(tmp_path, monkeypatch):
    clock = iter(range(0, 10**6, 10))  # each step takes 10 seconds, each check of the clock too
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    lines = []
    pretrain(DOMAIN, tmp_path, 0, SIZE, SHORT.model_copy(update={"agent_steps": 4}), lines.append, save_every=1e9)
    agent_lines = [line for line in lines if line.startswith("agent") and "loss" in line]
    assert [line.rsplit(", ", 1)[1].split()[0] for line in agent_lines] == ["0:00:30", "0:00:20", "0:00:10", "0:00:00"]


class QuietToy(Toy):
    """Ignores `loud`, so that two specs share each prompt."""

    def make_task(self, spec):
        return replace(super().make_task(spec.model_copy(update={"loud": "no"})), spec=spec)


@pytest.mark.parametrize("domain", [DOMAIN, QuietToy()])
def test_held_out_tasks_never_occur(domain):
    tasks = domain.held_out_tasks(NUM_HELD_OUT)
    prompts = {task.prompt for task in tasks}
    held_out = {f"{prompt}\n" for prompt in prompts} | {task.spec.text for task in tasks}
    data = PretrainData(domain, 0.5, NUM_HELD_OUT, 0)
    assert not held_out & set(data.tokenizer_texts(300))
    assert not prompts & {data.agent_example()[0] for _ in range(300)}
    specs = [domain.Spec.parse(text) for _ in range(300) for text, _ in data.environment_example()[1]]
    assert not held_out & {spec.text for spec in specs}
    assert not prompts & {domain.make_task(spec).prompt for spec in specs}


def test_pretraining_needs_tasks_that_are_not_held_out():
    class OnePrompt(Toy):
        def make_task(self, spec):
            return replace(super().make_task(spec), prompt="a")

    with pytest.raises(DomainError, match="1000 sampled specs of toy in a row are held out; lower num_held_out"):
        PretrainData(OnePrompt(), 0.5, NUM_HELD_OUT, 0).agent_example()


def test_loss_is_the_mean_negative_logp_of_completion_tokens():
    lm = new_model(train_tokenizer(["abc : 2 loud"] * 20, 300), SIZE, 0)
    examples = (("abc : 2", "b"), ("d a d a : 4 loud", "A a"))
    encoded = [encode_example(lm, (prompt, [(text, "")])) for prompt, text in examples]
    completions = Completions.from_token_lists([completion for _, completion, _ in encoded], lm.pad_token_id)
    prompts = [prompt for prompt, _, _ in encoded]
    logps, _ = completion_logps(lm.model, prompts, 1, completions.ids, completions.mask, lm.pad_token_id)
    torch.testing.assert_close(completion_loss(lm, encoded), -logps[completions.mask].mean())


def test_observations_between_turns_are_read_but_not_predicted():
    lm = new_model(train_tokenizer(["abc : 2 loud"] * 20, 300), SIZE, 0)
    turns = [("b", "d a"), ("A a", "abc")]
    prompt, ids, generated = encode_example(lm, ("abc : 2", turns))
    assert prompt == lm.encode_prompt("", "abc : 2")
    first, observation, last = lm.encode_completion("b"), lm.encode_observation("d a"), lm.encode_completion("A a")
    assert ids == first + observation + last  # nothing is read after the last turn
    assert generated == [True] * len(first) + [False] * len(observation) + [True] * len(last)
    loss = completion_loss(lm, [(prompt, ids, generated)])
    completions = Completions.from_token_lists([ids], lm.pad_token_id)
    logps, _ = completion_logps(lm.model, [prompt], 1, completions.ids, completions.mask, lm.pad_token_id)
    torch.testing.assert_close(loss, -logps[0][torch.tensor(generated)].mean())


def test_word_is_the_same_token_in_every_context():
    tokenizer = train_tokenizer(["find the cost of silk", "price(item=silk)"] * 20, 400)
    alone = tokenizer("silk")["input_ids"]
    assert len(alone) == 1
    for text in ("of silk", "item=silk)", '["silk $1"', "(silk, tea)"):
        assert alone[0] in tokenizer(text)["input_ids"]


TOKENIZER = train_tokenizer(["a few words, then 12 more: some(x=1).\n"] * 20, 300)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x1f")) | st.text("aB1 .\n", max_size=12))
def test_every_text_survives_tokenization(text):
    assert TOKENIZER.decode(TOKENIZER(text)["input_ids"]) == text
