"""Bamboogle: two-hop questions with answers of a few words (Press et al., arXiv 2210.03350).

Closed-book, or with a search tool over passages that the user supplies. The published figures use a web search and a
language model as the judge. Here an answer is correct if it contains the expected words one after another, ignoring
case, accents, articles and punctuation; `January 5, 1990` equals `5 January 1990`. `exact` is the rate of answers that
have no other words.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envgen.coevolution.domains.two_hop.replies import find_answer, find_query, normalize
from envgen.coevolution.domains.two_hop.search import PassageSearch
from envgen.designers.chat.protocol import Message, Reply

from .benchmark import (
    Benchmark,
    BenchmarkError,
    Episode,
    Item,
    Prompt,
    Verdict,
    parse_json_file,
    parse_json_lines,
    read_data_file,
    text_reply,
)

WHERE = (
    "The questions are benchmarks/Bamboogle/data.json in the GitHub repository qiancheng0/ToolRL (Apache-2.0; the "
    "license of the questions themselves is not known). They are not part of envgen"
)
MAX_SEARCHES = 6
NUM_PASSAGES = 5
MAX_ANSWER_WORDS = 30  # of an answer; one that lists everything is not an answer

CLOSED_BOOK = (
    "Answer the question. You may think first. Write the answer itself, in as few words as possible, on a last line "
    "that begins with `Answer:`."
)
WITH_SEARCH = (
    "Answer the question. You can search a collection of passages: write one line `Search: ` with what you look for, "
    f"and nothing after it, and you are shown the best passages. You can do so {MAX_SEARCHES} times. When you know "
    "the answer, write the answer itself, in as few words as possible, on a last line that begins with `Answer:`."
)


class Bamboogle(Benchmark):
    name = "bamboogle"
    categories = ("questions",)

    def __init__(self, data: Path | None = None, passages: Path | None = None):
        file, content = read_data_file(data, ("data.json", "Bamboogle.json"), WHERE)
        self.data_version = f"sha256 {hashlib.sha256(content).hexdigest()[:12]}"
        self._items = [_parse_item(number, entry, file) for number, entry in enumerate(_entries(file, content))]
        self.search = None
        if passages is not None:
            self.search = load_passages(passages)
            self.data_version += f", passages {self.search.checksum[:12]}"

    def items(self, category: str) -> Sequence[Item]:
        return self._items

    def episode(self, item: Item) -> Episode:
        system = CLOSED_BOOK if self.search is None else WITH_SEARCH
        messages = Prompt.user(item.data["question"], system).messages
        for num_searches in range(MAX_SEARCHES + 1):
            reply = yield Prompt(messages)
            query = None if self.search is None else find_query(reply.text)
            if query is None:
                return judge(reply.text, item.data["answer"])
            if num_searches == MAX_SEARCHES:
                break
            assert self.search is not None
            results = self.search.describe(query, NUM_PASSAGES)
            messages = (*messages, Message(role="assistant", content=reply.text), Message(role="user", content=results))
        return Verdict(0.0, "no answer", f"it still searches after {MAX_SEARCHES} searches", {"exact": (0, 1)})

    def gold_replies(self, item: Item) -> Sequence[Reply]:
        return [text_reply(f"Answer: {item.data['answer']}")]


def _entries(file: Path, content: bytes) -> list[Any]:
    entries = parse_json_file(file, content)
    if not isinstance(entries, list) or not entries:
        raise BenchmarkError(f"{file} is not a list of questions. {WHERE}")
    return entries


def _parse_item(number: int, entry: Any, file: Path) -> Item:
    fields = {str(name).lower(): value for name, value in entry.items()} if isinstance(entry, dict) else {}
    question, answer = fields.get("question"), fields.get("answer")
    if not (isinstance(question, str) and isinstance(answer, str) and normalize(answer)):
        raise BenchmarkError(f"entry {number} of {file} lacks a Question or an Answer. {WHERE}")
    return Item(f"bamboogle-{number}", "questions", {"question": question.strip(), "answer": answer.strip()})


def load_passages(file: Path) -> PassageSearch:
    """The passages in a file with one JSON object per line, which has a `text` and may have a `title`."""
    _, content = read_data_file(file.parent, (file.name,), "It holds one JSON object per line with title and text")
    passages = []
    for number, entry in enumerate(parse_json_lines(file, content), 1):
        text, title = (entry.get("text"), entry.get("title", "")) if isinstance(entry, dict) else (None, "")
        if not (isinstance(text, str) and isinstance(title, str)):
            raise BenchmarkError(f'line {number} of {file} is not a JSON object such as {{"title": "", "text": ""}}')
        passages.append((title, text))
    if not passages:
        raise BenchmarkError(f"{file} has no passages")
    return PassageSearch(passages, hashlib.sha256(content).hexdigest())


def judge(text: str, expected: str) -> Verdict:
    answer = find_answer(text)
    words, expected_words = normalize(answer), normalize(expected)
    if not words:
        return Verdict(0.0, "no answer", "the reply has no answer", {"exact": (0, 1)})
    if len(words) > MAX_ANSWER_WORDS:
        return Verdict(0.0, "answer too long", f"the answer has more than {MAX_ANSWER_WORDS} words", {"exact": (0, 1)})
    is_exact = words == expected_words
    if is_exact or _contains(words, expected_words):
        return Verdict(1.0, counts={"exact": (int(is_exact), 1)})
    return Verdict(0.0, "wrong answer", json.dumps(answer[:200]) + f" instead of {expected!r}", {"exact": (0, 1)})


def _contains(words: list[str], expected: list[str]) -> bool:
    return any(words[k : k + len(expected)] == expected for k in range(len(words) - len(expected) + 1))
