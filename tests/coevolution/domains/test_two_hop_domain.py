"""The domain `two_hop`: every question has one answer, which two facts lead to, and replies are scored by it."""

import json
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hash_seeds import outputs_under_two_hash_seeds
from mutated_replies import TEN_MEGABYTES, attack

from envgen.coevolution.domains.two_hop.domain import MAX_SEARCHES, TwoHopDomain
from envgen.coevolution.domains.two_hop.knowledge import BRIDGES, RELATIONS, VALUES
from envgen.coevolution.domains.two_hop.spec import ASKS_OF, BRIDGE_KIND, TwoHopSpec
from envgen.coevolution.episodes import MAX_TURN_CHARS, transcript
from envgen.coevolution.tasks import SpecError, Task, check_domain, validate

SPEC = TwoHopSpec(
    bridge="director", ask="school", facts="search", names="similar", distractors=4, details=2, style="varied",
    variation=729,
)  # fmt: skip


@pytest.fixture(scope="module")
def domain() -> TwoHopDomain:
    return TwoHopDomain()


@pytest.fixture(scope="module")
def tasks(domain) -> list[Task]:
    rng = np.random.default_rng(0)
    return [domain.make_task(domain.sample(rng)) for _ in range(200)]


def test_the_contract_of_a_domain():
    check_domain(TwoHopDomain(), 100)


@pytest.mark.slow
def test_the_oracle_is_right_and_wrong_replies_are_wrong_on_three_thousand_tasks(domain):
    rng = np.random.default_rng(1)
    validate(domain, (domain.make_task(domain.sample(rng)) for _ in range(3000)))


def test_all_bridges_and_questions_occur(tasks):
    pairs = {(task.spec.bridge, task.spec.ask) for task in tasks}
    assert pairs == {(bridge, ask) for bridge, kind in BRIDGE_KIND.items() for ask in ASKS_OF[kind]}
    assert {ask for asks in ASKS_OF.values() for ask in asks} == set(RELATIONS)
    assert set(BRIDGES) == set(BRIDGE_KIND)


def test_two_facts_lead_to_the_only_answer(tasks):
    """One sentence names the subject, and with it the bridge; one names the answer, and with it the bridge."""
    for task in tasks:
        knowledge = task.answer_key.knowledge
        assert len(knowledge.passages) == 2 + task.spec.distractors
        sentences = [part for passage in knowledge.passages for part in passage.removesuffix(".").split(". ")]
        (first,) = [sentence for sentence in sentences if knowledge.subject in sentence]
        (second,) = [sentence for sentence in sentences if knowledge.answer in sentence]
        assert knowledge.bridge in first
        assert knowledge.bridge in second
        assert knowledge.subject in knowledge.question
        assert knowledge.bridge not in knowledge.question
        assert knowledge.answer not in first
        assert knowledge.answer not in knowledge.question


def test_given_facts_are_in_the_prompt_and_others_must_be_searched(domain, tasks):
    for task in tasks:
        knowledge, turns = task.answer_key.knowledge, domain.oracle_reply(task).split("\n")
        assert task.prompt.endswith(f"question: {knowledge.question}")
        if task.spec.facts == "given":
            assert set(task.prompt.split("\n")[:-1]) == set(knowledge.passages)
            assert len(turns) == 1
        else:
            assert "\n" not in task.prompt
            assert len(turns) == 3
            observations = [text for _, text in transcript(domain, task, domain.oracle_reply(task))]
            assert knowledge.bridge in observations[0]  # the oracle searches only for what it has seen
            assert knowledge.answer in observations[1]


def test_the_answer_cannot_be_known(domain):
    """Equal questions have different answers, and no answer is much more frequent than others of its kind."""
    for ask in ("river", "country"):
        changes = {"bridge": "seat", "ask": ask, "distractors": 0, "details": 0, "names": "different"}
        keys = [domain.make_task(SPEC.model_copy(update={**changes, "variation": k})).answer_key for k in range(200)]
        answers = Counter(key.knowledge.answer for key in keys)
        assert len(answers) == 20
        assert max(answers.values()) < 30


def test_similar_names_share_a_word(domain, tasks):
    def share_a_word(task: Task) -> bool:
        words = set(task.answer_key.knowledge.subject.split())
        others = [passage for passage in task.answer_key.knowledge.passages
                  if task.answer_key.knowledge.subject not in passage]  # fmt: skip
        return any(words & set(passage.removesuffix(".").split()) for passage in others)

    many = [task for task in tasks if task.spec.distractors > 1]
    assert len(many) > 50
    assert all(share_a_word(task) == (task.spec.names == "similar") for task in many)


def test_distractors_have_other_answers(domain, tasks):
    """The first one has a fact of the kind that is asked, so a question has two candidates at least."""
    with_distractors = [task for task in tasks if task.spec.distractors]
    assert len(with_distractors) > 50
    for task in with_distractors:
        knowledge, values = task.answer_key.knowledge, VALUES[RELATIONS[task.spec.ask].kind]
        others = [passage for passage in knowledge.passages if knowledge.answer not in passage]
        assert any(value in passage and value != knowledge.bridge for value in values for passage in others)


def test_episodes_are_short(domain, tasks):
    for task in tasks:
        pairs = transcript(domain, task, domain.oracle_reply(task))
        assert len(task.prompt) < 1400
        assert sum(len(turn) + len(observation) for turn, observation in pairs) < 600


def test_an_episode_ends_with_an_answer_or_after_its_searches(domain):
    task = domain.make_task(SPEC)
    answer = task.answer_key.knowledge.answer
    episode = domain.start_episode(task)
    assert episode.step("search: xyzzy") == "nothing found"
    assert "Cold Storm" in episode.step(" **Search:** Cold\nStorm ")
    assert episode.step("I think that it is Maple") is None
    assert episode.step("search: Cold Storm") is None
    episode = domain.start_episode(task)
    assert [episode.step("search: Cold") is None for _ in range(6)] == [False] * MAX_SEARCHES + [True] * 2
    searches = ["search: Cold"] * MAX_SEARCHES
    assert domain.check(task, "\n".join([*searches, f"answer: {answer}"])).score == 1
    assert domain.check(task, "\n".join([*searches, "search: Cold", f"answer: {answer}"])).score == 0
    assert not domain.check(task, "\n".join([*searches, "search: Cold"])).valid


def test_an_answer_has_the_words_of_the_right_one_and_no_others(domain):
    task = domain.make_task(SPEC)
    answer = task.answer_key.knowledge.answer
    for reply in (f"answer: {answer}", f"**Answer:** the {answer.upper()}.", answer, f"Final answer: “{answer}”"):
        assert domain.check(task, reply).score == 1
    for reply in (f"answer: {answer} {answer}", f"answer: not {answer}", f"answer: {answer.split()[0]}"):
        result = domain.check(task, reply)
        assert (result.score, result.valid) == (0, True)
    assert not domain.check(task, " ".join(task.answer_key.knowledge.passages)).valid


def test_the_example_in_the_documentation(domain):
    task = domain.make_task(SPEC)
    pairs = transcript(domain, task, domain.oracle_reply(task))
    lines = [task.prompt, *(line for turn, text in pairs for line in (f"> {turn}", text) if line)]
    page = (Path(__file__).parents[3] / "docs" / "genenv.md").read_text()
    assert f"```json\n{SPEC.text}\n```" in page
    assert "```\n" + "\n".join(lines) + "\n```" in page


def test_the_score_of_an_episode_is_that_of_its_text(domain, tasks):
    """Turns after the end of an episode do not count."""
    rng = Random(0)
    for task in tasks:
        knowledge = task.answer_key.knowledge
        options = [f"search: {knowledge.subject}", f"search: {knowledge.bridge}", f"answer: {knowledge.answer}",
                   f"answer: {knowledge.bridge}", "hm", ""]  # fmt: skip
        turns = rng.choices(options, [3, 3, 1, 1, 1, 1], k=8)
        played = transcript(domain, task, "\n".join(turns))
        assert len(played) <= MAX_SEARCHES + 1
        assert domain.check(task, "\n".join(turns)) == domain.check(task, "\n".join(turn for turn, _ in played))
        assert domain.check(task, "\n".join(turns)).score == float(played[-1][0] == f"answer: {knowledge.answer}")


@pytest.mark.parametrize(("changes", "message"), [
    ({"ask": "river"}, "director leads to a person, of which ask is one of birthplace, home"),
    ({"bridge": "seat"}, "seat leads to a city"), ({"distractors": 9}, "distractors"), ({"code": "x"}, "code"),
])  # fmt: skip
def test_a_contradictory_spec_is_refused(domain, changes, message):
    with pytest.raises(SpecError, match=message):
        domain.Spec.parse(json.dumps({**SPEC.model_dump(), **changes}))


def test_difficulty(domain):
    rng = np.random.default_rng(0)
    easy, hard = ([domain.difficulty(sample(rng)) for _ in range(60)] for sample in (domain.sample_easy, domain.sample))
    assert np.mean(easy) + 0.5 < np.mean(hard)


def test_held_out_tasks_are_new(domain):
    tasks = domain.held_out_tasks(50)
    assert len({task.spec.key for task in tasks}) == 50
    assert domain.held_out_tasks(20) == tasks[:20]


def test_knowledge_does_not_depend_on_the_hash_seed():
    code = (
        "import numpy as np\nfrom random import Random\n"
        "from envgen.coevolution.domains.two_hop.knowledge import make_knowledge\n"
        "from envgen.coevolution.domains.two_hop.search import PassageSearch\n"
        "from envgen.coevolution.domains.two_hop.spec import sample_spec\n"
        "rng = np.random.default_rng(0)\nfor _ in range(20):\n"
        "    spec = sample_spec(rng)\n    knowledge = make_knowledge(spec, Random(spec.text))\n"
        "    search = PassageSearch([('', passage) for passage in knowledge.passages])\n"
        "    print(knowledge, search.search(knowledge.question, 9))"
    )
    first, second = outputs_under_two_hash_seeds(code)
    assert first == second
    assert "question=" in first


def test_hostile_replies_are_scored(domain, tasks):
    attack(domain, tasks, 300, MAX_TURN_CHARS)


@pytest.mark.slow
def test_five_thousand_hostile_replies_are_scored(domain, tasks):
    attack(domain, tasks, 5000, MAX_TURN_CHARS)


@pytest.mark.parametrize("reply", TEN_MEGABYTES.values(), ids=TEN_MEGABYTES)
def test_ten_megabytes_are_scored(domain, tasks, reply):
    assert domain.check(tasks[0], reply).score == 0
    domain.start_episode(tasks[0]).step(reply)
