"""Models made on the spot know a little, are the same for equal arguments, and are made once."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy import Toy

from envgen.coevolve.language_model import load
from envgen.coevolve.losses import log_probs
from envgen.coevolve.pretrain_data import Course
from envgen.coevolve.pretraining import Warmup, _loss, warm
from envgen.coevolve.sampling import Samples, sample
from envgen.coevolve.task_filter import Gate
from envgen.coevolve.tasks import Task
from envgen.coevolve.tiny_models import Size, fresh, tokenizer_of

DOMAIN, HELD_OUT = Toy(), 40
SIZE = Size(width=32, layers=2, heads=2, inner=64, vocabulary=400)
LESSONS = Warmup(agent_steps=100, environment_steps=150, texts=200, held_out=HELD_OUT)
SHORT = LESSONS.model_copy(update={"agent_steps": 2, "environment_steps": 2, "batch": 4})


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def warmed(tmp_path_factory):
    return warm(DOMAIN, tmp_path_factory.mktemp("models"), 0, SIZE, LESSONS)


def test_the_agent_solves_many_easy_tasks(warmed):
    lm, random = load(warmed[0]), np.random.default_rng(5)
    tasks = [DOMAIN.make_task(DOMAIN.sample_easy(random)) for _ in range(100)]
    replies = sample(lm, [lm.prompt("", task.prompt) for task in tasks], 1, 4, None).texts(lm)
    assert np.mean([DOMAIN.check(*pair).score for pair in zip(tasks, replies, strict=True)]) > 0.4  # chance: 1/8


def test_most_of_what_the_environment_writes_are_new_tasks(warmed):
    lm, course = load(warmed[1]), Course(DOMAIN, 0.0, HELD_OUT, 5)
    course.texts(100)
    asked = [lm.prompt("", course.variation()[0]) for _ in range(100)]
    gate = Gate(DOMAIN, DOMAIN.held_out_tasks(HELD_OUT))
    written = sample(lm, asked, 1, 64, torch.Generator().manual_seed(0)).texts(lm)
    assert np.mean([isinstance(gate.admit(text), Task) for text in written]) > 0.4


def test_both_read_the_same_tokens(warmed):
    files = [(folder / "tokenizer.json").read_bytes() for folder in warmed]
    assert files[0] == files[1]


def test_equal_arguments_find_what_was_made_and_others_do_not(tmp_path):
    said = []
    first = warm(DOMAIN, tmp_path, 0, SIZE, SHORT, said.append)
    assert any(line.startswith("agent: ") for line in said)
    assert any(line.startswith("environment: ") for line in said)
    said.clear()
    assert warm(DOMAIN, tmp_path, 0, SIZE, SHORT, said.append) == first
    assert not said
    others = (
        warm(DOMAIN, tmp_path, 1, SIZE, SHORT),
        warm(DOMAIN, tmp_path, 0, SIZE.model_copy(update={"inner": 32}), SHORT),
        warm(DOMAIN, tmp_path, 0, SIZE, SHORT.model_copy(update={"hard": 0.1})),
    )
    assert len({first, *others}) == 4


def test_a_seed_makes_the_same_models_anywhere(tmp_path):
    once, again = (warm(DOMAIN, tmp_path / name, 0, SIZE, SHORT) for name in ("once", "again"))
    for a, b in zip(once, again, strict=True):
        assert (a / "model.safetensors").read_bytes() == (b / "model.safetensors").read_bytes()


def test_of_two_at_once_the_first_one_stays(tmp_path):
    other = []

    def meanwhile(line):
        if not other:
            other.append(None)
            other[0] = warm(DOMAIN, tmp_path, 0, SIZE, SHORT)

    assert warm(DOMAIN, tmp_path, 0, SIZE, SHORT, meanwhile) == other[0]
    assert [path.name for path in tmp_path.iterdir()] == [other[0][0].parent.name]
    load(other[0][0])


def test_what_is_not_finished_is_not_found(tmp_path):
    def stop(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        warm(DOMAIN, tmp_path, 0, SIZE, SHORT, stop)
    assert not list(tmp_path.iterdir())


def test_nothing_held_out_is_shown():
    tasks = DOMAIN.held_out_tasks(HELD_OUT)
    held_out = {f"{task.prompt}\n" for task in tasks} | {task.spec.text for task in tasks}
    course = Course(DOMAIN, 0.5, HELD_OUT, 0)
    assert not held_out & set(course.texts(300))
    assert not held_out & {f"{course.task()[0]}\n" for _ in range(300)}
    assert not held_out & {course.variation()[1] for _ in range(300)}


def test_the_loss_is_the_mean_surprise_at_the_answers():
    lm = fresh(tokenizer_of(["abc : 2 loud"] * 20, 300), SIZE, 0)
    pairs = [(lm.prompt("", asked), lm.reply(text)) for asked, text in (("abc : 2", "b"), ("d a d a : 4 loud", "A a"))]
    answers = Samples.of([answer for _, answer in pairs], lm.pad)
    found, _ = log_probs(lm.model, [asked for asked, _ in pairs], 1, answers.ids, answers.mask, lm.pad)
    torch.testing.assert_close(_loss(lm, pairs), -found[answers.mask].mean())


def test_a_word_is_the_same_token_wherever_it_stands():
    tokenizer = tokenizer_of(["find the cost of silk", "price(item=silk)"] * 20, 400)
    alone = tokenizer("silk")["input_ids"]
    assert len(alone) == 1
    for text in ("of silk", "item=silk)", '["silk $1"', "(silk, tea)"):
        assert alone[0] in tokenizer(text)["input_ids"]


TOKENIZER = tokenizer_of(["a few words, then 12 more: some(x=1).\n"] * 20, 300)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x1f")) | st.text("aB1 .\n", max_size=12))
def test_every_text_can_be_written(text):
    assert TOKENIZER.decode(TOKENIZER(text)["input_ids"]) == text
