"""The answers domain: every text has one right answer, and replies that guess or list words score low."""

import re
from collections import Counter

import numpy as np
import pytest
from hash_seeds import outputs_under_two_hash_seeds
from hypothesis import example, given
from hypothesis import strategies as st

from envgen.coevolution.domains.answers import (
    MAX_CHARS,
    MAX_WORDS,
    NAMES,
    NUMBERS,
    ROLES,
    VERBS,
    AnswersDomain,
    AnswersSpec,
    ParseError,
    find_answer,
    parse_text,
    token_f1,
    tokenize,
)
from envgen.coevolution.tasks import SpecError, Task, validate

DOMAIN = AnswersDomain()
PROMPT = (
    "Gus does not keep a hen or a frog. Gus keeps a goat, a mouse and a horse. The teacher of Hana is "
    "Cleo. Gus lives in Quito. Cleo keeps a dog, a snake and a pig. The teacher of Gus is Cleo. What does "
    "the teacher of Hana keep?"
)
ANSWER_KEY = ("dog", "snake", "pig")


def sample_tasks(count: int, seed: int = 0) -> list[Task]:
    rng = np.random.default_rng(seed)
    return [DOMAIN.make_task(DOMAIN.sample(rng)) for _ in range(count)]


TASKS = sample_tasks(2000)


def make_task(**fields) -> Task:
    defaults = {"ask": "what", "hops": 2, "answers": 3, "distractors": 4, "style": "plain", "variation": 7}
    return DOMAIN.make_task(AnswersSpec.model_validate(defaults | fields))


def split_sentences(prompt: str) -> list[str]:
    return re.findall(r"[^.?]+[.?]", prompt)


# --- the texts


def test_oracle_replies_score_one_and_wrong_replies_zero():
    validate(DOMAIN, TASKS)
    rng = np.random.default_rng(1)
    validate(DOMAIN, [DOMAIN.make_task(DOMAIN.sample_easy(rng)) for _ in range(300)])


def test_parsing_a_text_finds_its_answer():
    for task in TASKS:
        assert Counter(find_answer(task.prompt)) == Counter(task.answer_key)


def test_answers_need_one_fact_per_hop():
    for task in TASKS[:500]:
        *sentences, question = split_sentences(task.prompt)
        num_needed = 0
        for k in range(len(sentences)):
            try:
                is_same = sorted(find_answer("".join([*sentences[:k], *sentences[k + 1 :], question]))) == sorted(
                    task.answer_key
                )
            except ParseError:
                is_same = False
            num_needed += not is_same
        spec = task.spec
        assert num_needed == (spec.hops - 1 + spec.answers if spec.ask == "who" else spec.hops)
        assert len(sentences) - num_needed == spec.distractors


def test_texts_do_not_repeat_or_contradict_a_fact():
    for task in TASKS:
        facts, _ = parse_text(task.prompt)  # refuses a second fact with the same relation and person
        for verb in VERBS:
            for name in NAMES:
                assert not set(facts.get((verb, name), ())) & set(facts.get((f"not {verb}", name), ()))
        for (relation, person), values in facts.items():
            assert person not in values
            assert len(set(values)) == len(values)
            assert relation not in ROLES or facts.get((relation, values[0])) != (person,)


def test_ambiguous_texts_are_rejected():
    clear = "The boss of Ann is Bob. Bob owns a hat. What does the boss of Ann own?"
    assert find_answer(clear) == ("hat",)
    for ambiguous in (
        "Cleo is the boss of Ann. " + clear,
        "A cup is owned by Bob. " + clear,
        clear.replace("Bob owns a hat. ", ""),
        clear.replace("boss", "cousin"),
        clear.replace("What does", "Why does"),
    ):
        with pytest.raises(ParseError):
            find_answer(ambiguous)


def test_answer_words_occur_once_in_the_text():
    tasks = [task for task in TASKS if task.spec.ask in ("what", "not")]
    assert tasks
    for task in tasks:
        words = Counter(tokenize(task.prompt))
        assert all(words[word] == 1 for word in task.answer_key)


def test_texts_are_short_with_a_small_vocabulary():
    lengths = [len(task.prompt.split()) for task in TASKS]
    assert min(lengths) >= 15
    assert 40 < np.median(lengths) < 90
    assert max(lengths) < 150
    assert len({word for task in TASKS for word in re.findall(r"\w+", task.prompt)}) < 120


def test_task_is_reproducible():
    assert make_task().prompt == PROMPT
    assert make_task().answer_key == ANSWER_KEY
    assert make_task() == make_task()
    assert make_task(variation=8).prompt != PROMPT


def test_tasks_do_not_depend_on_string_hashes():
    code = (
        "from envgen.coevolution.domains.answers import AnswersDomain\n"
        "domain = AnswersDomain()\n"
        "specs = [domain.Spec(ask='who', hops=4, answers=4, variation=k) for k in range(20)]\n"
        "print([domain.make_task(spec) for spec in specs])"
    )
    first, second = outputs_under_two_hash_seeds(code)
    assert first == second
    assert "lives in" in first


# --- specs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
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
def test_wrong_specs_are_rejected_with_a_reason(text: str, message: str):
    with pytest.raises(SpecError, match=re.escape(message)):
        AnswersSpec.parse(text)


def test_every_spec_has_a_task():
    for ask in ("what", "count", "not", "who"):
        for hops in (1, 2, 3, 4):
            validate(DOMAIN, [make_task(ask=ask, hops=hops, answers=4, distractors=8, variation=k) for k in range(40)])


def test_spec_prompt_contains_an_example():
    example_spec = next(line for line in DOMAIN.spec_prompt.splitlines() if line.startswith("{"))
    assert AnswersSpec.parse(example_spec).text == example_spec


def test_sampled_specs_are_uniform_and_easy_ones_are_easy():
    rng = np.random.default_rng(0)
    features = [DOMAIN.features(DOMAIN.sample(rng)) for _ in range(2000)]
    for name, num_values in {"ask": 4, "hops": 4, "answers": 4, "distractors": 3, "style": 3}.items():
        counts = Counter(labels[name] for labels in features)
        assert len(counts) == num_values
        assert min(counts.values()) > 2000 / num_values / 2
    hardest = AnswersSpec(ask="what", hops=4, answers=4, distractors=8, style="mixed")
    assert DOMAIN.difficulty(hardest) == 1
    assert max(DOMAIN.difficulty(DOMAIN.sample_easy(rng)) for _ in range(50)) < 0.1
    assert len({task.spec.key for task in DOMAIN.held_out_tasks(200)}) == 200


# --- scores


def test_order_case_articles_and_punctuation_do_not_matter():
    task = make_task()
    x, y, z = task.answer_key
    for reply in (f"{x} {y} {z}", f"{z} {x} {y}", f"  The {y.upper()}, a {x}; an {z}!\n"):
        assert DOMAIN.check(task, reply).score == 1.0


def test_partial_answers_get_partial_credit():
    task = make_task()
    x, y, _ = task.answer_key
    assert DOMAIN.check(task, x).score == pytest.approx(2 * (1 / 1 * 1 / 3) / (1 / 1 + 1 / 3))
    assert DOMAIN.check(task, f"{x} {y} zebra").score == pytest.approx(2 / 3)
    assert DOMAIN.check(task, "zebra").score == 0
    assert DOMAIN.check(task, "zebra").valid


def test_numbers_get_no_partial_credit():
    task = make_task(ask="count")
    number = task.answer_key[0]
    assert DOMAIN.check(task, f"{number}.").score == 1
    other = next(word for word in NUMBERS if word != number)
    for reply in (other, f"{number} {other}", f"it is {number}", " ".join(NUMBERS)):
        assert DOMAIN.check(task, reply).score == 0


def test_repeating_a_word_lowers_the_score():
    task = make_task()
    word = task.answer_key[0]
    assert DOMAIN.check(task, f"{word} {word} {word}").score == pytest.approx(1 / 3)


@pytest.mark.parametrize("reply", ["", "   \n", "...", "the a an", "word " * (MAX_WORDS + 1), "x" * (MAX_CHARS + 1)])
def test_empty_and_long_replies_are_invalid(reply: str):
    result = DOMAIN.check(TASKS[0], reply)
    assert result.score == 0
    assert not result.valid
    assert result.reason


def test_listing_words_scores_low():
    """Copying the text scores 0; all words of the right kind, or the first few of them, score low."""
    copied, listed, truncated, correct, best = [], [], [], [], []
    for task in TASKS:
        kinds = (NAMES, NUMBERS, *(verb.objects for verb in VERBS.values()))
        same_kind = next(words for words in kinds if task.answer_key[0] in words)
        words = [word for word in same_kind if word.lower() in tokenize(task.prompt)] or list(same_kind)
        copied.append(DOMAIN.check(task, task.prompt).score)
        listed.append(DOMAIN.check(task, " ".join(words)).score)
        truncated.append(DOMAIN.check(task, " ".join(words[:MAX_WORDS])).score)
        correct.append(DOMAIN.check(task, DOMAIN.oracle_reply(task)).score)
        best.append([DOMAIN.check(task, " ".join(words[:k])).score for k in range(1, MAX_WORDS + 1)])
    assert (np.array(best) >= DOMAIN.success_threshold).mean(0).max() < 0.2
    assert max(copied) == 0
    assert np.mean(listed) < 1 / 3
    assert np.mean(truncated) < 0.45
    assert np.mean(correct) == 1


@given(st.text(max_size=300))
@example("\x00")
@example("İ" * 40)
@example("__import__('os')")
def test_checker_accepts_any_text(reply: str):
    for task in TASKS[:8]:
        result = DOMAIN.check(task, reply)
        assert 0 <= result.score <= 1
        assert result.valid or result.score == 0


WORD = st.sampled_from(["cat", "dog", "hen", "pig"])


@given(st.lists(WORD, min_size=1, max_size=6), st.lists(WORD, min_size=1, max_size=6))
def test_token_f1_is_the_harmonic_mean_of_precision_and_recall(predicted: list[str], expected: list[str]):
    shared = sum(min(predicted.count(word), expected.count(word)) for word in set(predicted))
    precision, recall = shared / len(predicted), shared / len(expected)
    mean = 2 * precision * recall / (precision + recall) if shared else 0.0
    assert token_f1(predicted, expected) == pytest.approx(mean)
    assert (token_f1(predicted, expected) == 1) == (sorted(predicted) == sorted(expected))
