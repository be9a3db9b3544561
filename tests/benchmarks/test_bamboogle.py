"""Bamboogle with questions of our own in the format of the official file."""

import json

import pytest

from envgen import run_benchmark
from envgen.benchmarks.bamboogle import MAX_SEARCHES, Bamboogle, judge
from envgen.benchmarks.benchmark import BenchmarkError
from envgen.coevolution.domains.two_hop.replies import find_answer, find_query
from envgen.coevolution.domains.two_hop.search import PassageSearch
from envgen.designers.chat.protocol import Reply
from hostile_replies import attack

QUESTIONS = [
    {"Question": "When was the founder of the town of Varn born?", "Answer": "20 June 1837"},
    {"Question": "Which river flows through the home town of the painter of The Mill?", "Answer": "The Élan"},
]
PASSAGES = [
    {"title": "Varn", "text": "Varn is a town founded by Ida Moll."},
    {"title": "Ida Moll", "text": "Ida Moll (born June 20, 1837) was a merchant."},
    {"title": "Mills", "text": "A mill grinds grain."},
]


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data.json").write_text(json.dumps(QUESTIONS))
    (tmp_path / "passages.jsonl").write_text("".join(f"{json.dumps(passage)}\n" for passage in PASSAGES))
    return tmp_path


def test_gold_answers_are_right_and_empty_ones_wrong(data):
    for llm, accuracy in (("gold", 100), ("empty", 0)):
        options = {"data": data, "passages": data / "passages.jsonl"}
        result = run_benchmark("bamboogle", llm, options=options, folder=data / llm, verbose=False)
        assert result.total.accuracy == accuracy


@pytest.mark.parametrize(
    ("reply", "expected", "score"),
    [
        ("Answer: 20 June 1837", "20 June 1837", 1),
        ("I think.\n**Answer:** June 20th, 1837.", "20 June 1837", 1),
        ("Answer: on the 20th of June", "20 June 1837", 0),
        ("Final answer: the Elan", "The Élan", 1),
        ("Answer: It is the river Élan in Wales", "The Élan", 1),
        ("Answer: no\nAnswer: Elan", "The Élan", 1),
        ("Answer: Elan\nAnswer: no", "The Élan", 0),
        ("**Answer:**\nElan", "The Élan", 1),
        ("## Answer:\n\n**Elan**\n\nThat is a river.", "The Élan", 1),
        ("Answer:\nElanor\nElan", "The Élan", 0),
        ("Answer: -\nElan", "The Élan", 1),
        ("Elan", "The Élan", 1),
        ("Answer: Elanor", "The Élan", 0),
        ("Answer: 18,837", "18837", 1),
        ("Answer: 1.5", "1", 0),
        ("Answer: " + "Elan " * 40, "The Élan", 0),
        ("Answer: Washington DC", "Washington, D.C.", 1),
        ("Answer: JRR Tolkien", "J. R. R. Tolkien", 1),
        ("Answer: JR Tolkien", "J. R. R. Tolkien", 0),
        ("", "The Élan", 0),
        ("Answer:", "The Élan", 0),
        ("answer " * 100_000, "The Élan", 0),
        ("\n" * 1_000_000 + "Answer: Elan", "The Élan", 1),
        ("\0\ufffd\u202e" * 1000, "The Élan", 0),
    ],
)
def test_answers_are_compared_by_their_words(reply, expected, score):
    assert judge(reply, expected).score == score


def test_a_model_can_search_before_it_answers(data):
    benchmark = Bamboogle(data, data / "passages.jsonl")
    (item, _) = benchmark.items("questions")
    episode = benchmark.episode(item)
    next(episode)
    shown = episode.send(Reply(text="Search: founder of Varn", model="m")).messages[-1].content
    assert shown.startswith("1. Varn\nVarn is a town founded by Ida Moll.")
    shown = episode.send(Reply(text="Let me see.\nSearch: Ida Moll born", model="m")).messages[-1].content
    assert shown.startswith("1. Ida Moll")
    with pytest.raises(StopIteration) as end:
        episode.send(Reply(text="Search: x\nAnswer: June 20, 1837", model="m"))
    assert end.value.value.score == 1


def test_endless_searches_end(data):
    benchmark = Bamboogle(data, data / "passages.jsonl")
    episode = benchmark.episode(benchmark.items("questions")[0])
    next(episode)
    endless = Reply(text="Search: \0" + "zzz " * 4000, model="m")
    for _ in range(MAX_SEARCHES):
        episode.send(endless)
    with pytest.raises(StopIteration) as end:
        episode.send(endless)
    assert end.value.value.score == 0


def test_a_search_after_the_last_one_is_no_answer(data):
    benchmark = Bamboogle(data, data / "passages.jsonl")
    item = benchmark.items("questions")[0]
    episode = benchmark.episode(item)
    next(episode)
    search = Reply(text=f"Search: {item.data['answer']}", model="m")
    for _ in range(MAX_SEARCHES):
        episode.send(search)
    with pytest.raises(StopIteration) as end:
        episode.send(search)
    assert (end.value.value.score, end.value.value.error) == (0, "no answer")


def test_bm25_prefers_rare_words_and_short_passages():
    search = PassageSearch([("", "a b"), ("", "a a a a"), ("", "a c c c c c c c"), ("", "c a")])
    assert search.search("b a", 3)[0] == 0
    assert search.search("c", 3) == [3, 2] or search.search("c", 3) == [2, 3]
    assert search.search("zzz", 3) == []
    assert search.search("", 3) == []


def test_queries_and_answers_are_found_in_replies():
    assert find_query("**Search:** `the query`") == "the query`"
    assert find_query("Answer: x") is None
    assert find_answer("first\nsecond\n\n") == "second"
    assert find_answer("Answer:\nFinal answer: x") == "x"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no data.json or Bamboogle.json in"),
        ("{", "is not valid JSON"),
        ("[" * 2000, "is not valid JSON"),
        ("{}", "is not a list of questions"),
        ('[{"Question": "x"}]', "entry 0 of"),
        ('[{"Question": "x", "Answer": "?"}]', "entry 0 of"),
    ],
)
def test_missing_and_damaged_files_are_explained(tmp_path, content, message):
    if content is not None:
        (tmp_path / "data.json").write_text(content)
    with pytest.raises(BenchmarkError, match=message):
        Bamboogle(tmp_path)


def test_a_missing_folder_says_where_to_get_the_data():
    with pytest.raises(BenchmarkError, match=r"pass --data .*qiancheng0/ToolRL .*license"):
        Bamboogle()


def test_hostile_replies_are_wrong(data, tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("hostile")
    monkeypatch.chdir(folder)
    benchmark = Bamboogle(data, data / "passages.jsonl")
    attack(benchmark, benchmark.items("questions"), 2000)
    assert list(folder.iterdir()) == []
