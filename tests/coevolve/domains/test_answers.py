"""Every text has one right answer, which is found by reading it; and no cheap reply is worth much."""

import re
from collections import Counter

import numpy as np
import pytest
from hashed import printed_twice
from hypothesis import example, given
from hypothesis import strategies as st

from envgen.coevolve.domains.answers import CHARACTERS, WORDS, Answers, AnswersSpec
from envgen.coevolve.domains.answers_reader import Unclear, derive, read
from envgen.coevolve.domains.answers_score import token_f1, tokens
from envgen.coevolve.domains.answers_text import NAMES, NUMBERS, ROLES, VERBS
from envgen.coevolve.tasks import SpecError, Task, validate

DOMAIN = Answers()
PROMPT = (
    "Gus does not keep a hen or a frog. Gus keeps a goat, a mouse and a horse. The teacher of Hana is "
    "Cleo. Gus lives in Quito. Cleo keeps a dog, a snake and a pig. The teacher of Gus is Cleo. What does "
    "the teacher of Hana keep?"
)
GOLD = ("dog", "snake", "pig")


def tasks_of(count: int, seed: int = 0) -> list[Task]:
    random = np.random.default_rng(seed)
    return [DOMAIN.make_task(DOMAIN.sample(random)) for _ in range(count)]


TASKS = tasks_of(2000)


def task(**fields) -> Task:
    told = {"ask": "what", "hops": 2, "answers": 3, "distractors": 4, "style": "plain", "variation": 7}
    return DOMAIN.make_task(AnswersSpec.model_validate(told | fields))


def sentences(prompt: str) -> list[str]:
    return re.findall(r"[^.?]+[.?]", prompt)


# --- the texts


def test_the_oracle_is_right_and_known_wrong_replies_are_worth_nothing():
    validate(DOMAIN, TASKS)
    random = np.random.default_rng(1)
    validate(DOMAIN, [DOMAIN.make_task(DOMAIN.sample_easy(random)) for _ in range(300)])


def test_reading_a_text_gives_exactly_the_answer_that_it_was_made_for():
    for one in TASKS:
        assert Counter(derive(one.prompt)) == Counter(one.gold)


def test_an_answer_follows_from_as_many_facts_as_there_are_hops_and_from_no_other():
    for one in TASKS[:500]:
        *told, question = sentences(one.prompt)
        needed = 0
        for k in range(len(told)):
            try:
                same = sorted(derive("".join([*told[:k], *told[k + 1 :], question]))) == sorted(one.gold)
            except Unclear:
                same = False
            needed += not same
        spec = one.spec
        assert needed == (spec.hops - 1 + spec.answers if spec.ask == "who" else spec.hops)
        assert len(told) - needed == spec.distractors


def test_no_text_says_anything_twice_or_contradicts_itself():
    for one in TASKS:
        world, _ = read(one.prompt)  # would not read a second fact of the same kind about the same person
        for verb in VERBS:
            for name in NAMES:
                assert not set(world.get((verb, name), ())) & set(world.get((f"not {verb}", name), ()))
        for (relation, person), values in world.items():
            assert person not in values
            assert len(set(values)) == len(values)
            assert relation not in ROLES or world.get((relation, values[0])) != (person,)


def test_a_text_in_which_an_answer_was_not_clear_would_be_noticed():
    clear = "The boss of Ann is Bob. Bob owns a hat. What does the boss of Ann own?"
    assert derive(clear) == ("hat",)
    for unclear in (
        "Cleo is the boss of Ann. " + clear,
        "A cup is owned by Bob. " + clear,
        clear.replace("Bob owns a hat. ", ""),
        clear.replace("boss", "cousin"),
        clear.replace("What does", "Why does"),
    ):
        with pytest.raises(Unclear):
            derive(unclear)


def test_what_is_asked_for_is_said_of_nobody_else():
    for one in TASKS:
        if one.spec.ask in ("what", "not"):
            words = Counter(tokens(one.prompt))
            assert all(words[word] == 1 for word in one.gold)


def test_texts_are_short_and_of_few_words():
    lengths = [len(one.prompt.split()) for one in TASKS]
    assert min(lengths) >= 15
    assert 40 < np.median(lengths) < 90
    assert max(lengths) < 150
    assert len({word for one in TASKS for word in re.findall(r"\w+", one.prompt)}) < 120


def test_a_text_today_is_the_same_tomorrow():
    assert task().prompt == PROMPT
    assert task().gold == GOLD
    assert task() == task()
    assert task(variation=8).prompt != PROMPT


def test_other_processes_make_the_same_texts():
    code = (
        "from envgen.coevolve.domains.answers import Answers\n"
        "print([Answers().make_task(Answers.Spec(ask='who', hops=4, answers=4, variation=k)) for k in range(20)])"
    )
    one, other = printed_twice(code)
    assert one == other
    assert "lives in" in one


# --- specs


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "not JSON"),
        ("[1]", "a JSON object, not list"),
        ('{"ask":"what"}', "hops: Field required"),
        ('{"ask":"where","hops":1}', "ask: 'where' is not one of what, count, not, who"),
        ('{"ask":"what","hop":1}', "did you mean 'hops'?"),
        ('{"ask":"what","hops":5}', "hops: Input should be less than or equal to 4 (got 5)"),
        ('{"ask":"what","hops":1,"variation":1000}', "variation: Input should be less than 1000 (got 1000)"),
        ('{"ask":"what","hops":1.5}', "hops: Input should be a valid integer"),
        ('{"ask":"what","hops":NaN}', "hops: Input should be"),
    ],
)
def test_what_is_no_spec_is_told_in_a_sentence(text: str, sentence: str):
    with pytest.raises(SpecError, match=re.escape(sentence)):
        AnswersSpec.parse(text)


def test_every_spec_of_the_form_has_a_task():
    for kind in ("what", "count", "not", "who"):
        for hops in (1, 2, 3, 4):
            validate(DOMAIN, [task(ask=kind, hops=hops, answers=4, distractors=8, variation=k) for k in range(40)])


def test_the_brief_shows_a_spec():
    written = next(line for line in DOMAIN.spec_prompt.splitlines() if line.startswith("{"))
    assert AnswersSpec.parse(written).text == written


def test_uniform_specs_are_spread_and_easy_ones_are_easy():
    random = np.random.default_rng(0)
    drawn = [DOMAIN.features(DOMAIN.sample(random)) for _ in range(2000)]
    for name, values in {"ask": 4, "hops": 4, "answers": 4, "distractors": 3, "style": 3}.items():
        counts = Counter(fields[name] for fields in drawn)
        assert len(counts) == values
        assert min(counts.values()) > 2000 / values / 2
    hardest = AnswersSpec(ask="what", hops=4, answers=4, distractors=8, style="mixed")
    assert DOMAIN.difficulty(hardest) == 1
    assert max(DOMAIN.difficulty(DOMAIN.sample_easy(random)) for _ in range(50)) < 0.1
    assert len({task.spec.key for task in DOMAIN.held_out_tasks(200)}) == 200


# --- scores


def test_an_answer_is_right_in_any_order_and_dress():
    one = task()
    x, y, z = one.gold
    for reply in (f"{x} {y} {z}", f"{z} {x} {y}", f"  The {y.upper()}, a {x}; an {z}!\n"):
        assert DOMAIN.check(one, reply).score == 1.0


def test_part_of_an_answer_is_worth_part_of_a_point():
    one = task()
    x, y, _ = one.gold
    assert DOMAIN.check(one, x).score == pytest.approx(2 * (1 / 1 * 1 / 3) / (1 / 1 + 1 / 3))
    assert DOMAIN.check(one, f"{x} {y} zebra").score == pytest.approx(2 / 3)
    assert DOMAIN.check(one, "zebra").score == 0
    assert DOMAIN.check(one, "zebra").valid


def test_a_number_is_right_or_wrong():
    one = task(ask="count")
    right = one.gold[0]
    assert DOMAIN.check(one, f"{right}.").score == 1
    other = next(number for number in NUMBERS if number != right)
    for reply in (other, f"{right} {other}", f"it is {right}", " ".join(NUMBERS)):
        assert DOMAIN.check(one, reply).score == 0


def test_repeating_a_word_does_not_pay():
    one = task()
    word = one.gold[0]
    assert DOMAIN.check(one, f"{word} {word} {word}").score == pytest.approx(1 / 3)


@pytest.mark.parametrize("reply", ["", "   \n", "...", "the a an", "word " * (WORDS + 1), "x" * (CHARACTERS + 1)])
def test_nothing_and_too_much_are_no_answers(reply: str):
    verdict = DOMAIN.check(TASKS[0], reply)
    assert verdict.score == 0
    assert not verdict.valid
    assert verdict.reason


def test_listing_what_there_is_pays_little():
    """All of the text is no answer; all words of the right kind, or as many as may be said, are a bad one."""
    everything, kind, cut, right = [], [], [], []
    for one in TASKS:
        pool = next(words for words in (NAMES, NUMBERS, *(v.words for v in VERBS.values())) if one.gold[0] in words)
        there = [word for word in pool if word.lower() in tokens(one.prompt)] or list(pool)
        everything.append(DOMAIN.check(one, one.prompt).score)
        kind.append(DOMAIN.check(one, " ".join(there)).score)
        cut.append(DOMAIN.check(one, " ".join(there[:WORDS])).score)
        right.append(DOMAIN.check(one, DOMAIN.oracle_reply(one)).score)
    assert max(everything) == 0
    assert np.mean(kind) < 1 / 3
    assert np.mean(cut) < 0.45
    assert np.mean(right) == 1


@given(st.text(max_size=300))
@example("\x00")
@example("İ" * 40)
@example("__import__('os')")
def test_any_reply_gets_a_verdict(reply: str):
    for one in TASKS[:8]:
        verdict = DOMAIN.check(one, reply)
        assert 0 <= verdict.score <= 1
        assert verdict.valid or verdict.score == 0


WORD = st.sampled_from(["cat", "dog", "hen", "pig"])


@given(st.lists(WORD, min_size=1, max_size=6), st.lists(WORD, min_size=1, max_size=6))
def test_token_f1_is_the_harmonic_mean_of_precision_and_recall(said: list[str], right: list[str]):
    shared = sum(min(said.count(word), right.count(word)) for word in set(said))
    precision, recall = shared / len(said), shared / len(right)
    mean = 2 * precision * recall / (precision + recall) if shared else 0.0
    assert token_f1(said, right) == pytest.approx(mean)
    assert (token_f1(said, right) == 1) == (sorted(said) == sorted(right))
