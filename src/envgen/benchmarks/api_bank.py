"""API-Bank (Li et al., arXiv 2304.08244), in the form in which ToolRL prepared it: the next API call of a dialogue.

Level 1 gives the descriptions of the APIs, level 2 has the model retrieve them first, and level 3 needs several calls.
Here every item is one call that the model must write, with the dialogue so far; the prompts are those of the files. A
reply is right if one of its calls has the expected name and exactly the expected parameters, as in ToolRL. `only call`
is the stricter rate of replies that make this call and no other.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from envgen.designers.chat.protocol import Reply

from .benchmark import (
    Benchmark,
    BenchmarkError,
    Episode,
    Item,
    Prompt,
    Verdict,
    parse_json_file,
    read_data_file,
    text_reply,
    to_json,
)
from .json_calls import JsonCall, find_calls

WHERE = (
    "The files are benchmarks/API-Bank/level-1-api_processed.json, level-2 and level-3 in the GitHub repository "
    "qiancheng0/ToolRL (Apache-2.0), prepared from API-Bank in AlibabaResearch/DAMO-ConvAI (Apache-2.0)"
)
LEVELS = ("level_1", "level_2", "level_3")


class ApiBank(Benchmark):
    name = "api_bank"
    categories = LEVELS

    def __init__(self, data: Path | None = None):
        self._items: dict[str, list[Item]] = {}
        checksum = hashlib.sha256()
        for level in LEVELS:
            file, content = read_data_file(data, (f"{level.replace('_', '-')}-api_processed.json",), WHERE)
            checksum.update(content)
            entries = parse_json_file(file, content)
            if not isinstance(entries, list) or not entries:
                raise BenchmarkError(f"{file} is not a list of dialogues. {WHERE}")
            self._items[level] = [_parse_item(level, number, entry, file) for number, entry in enumerate(entries)]
        self.data_version = f"sha256 {checksum.hexdigest()[:12]}"

    def items(self, category: str) -> Sequence[Item]:
        return self._items[category]

    def episode(self, item: Item) -> Episode:
        reply = yield Prompt.user(item.data["user"], item.data["system"])
        return judge(reply.text, item.data["answer"])

    def gold_replies(self, item: Item) -> Sequence[Reply]:
        name, arguments = item.data["answer"]
        call = to_json({"name": name, "parameters": arguments})
        return [text_reply(f"<think> I call {name}. </think>\n<tool_call>\n{call}\n</tool_call>")]


def _parse_item(level: str, number: int, entry: Any, file: Path) -> Item:
    fields = entry if isinstance(entry, dict) else {}
    answer = fields.get("answer")
    answer = answer[0] if isinstance(answer, list) and answer else answer
    answer = answer if isinstance(answer, dict) else {}
    name, arguments = answer.get("name"), answer.get("parameters")
    texts = fields.get("system"), fields.get("user"), name
    if not (all(isinstance(text, str) for text in texts) and isinstance(arguments, dict)):
        raise BenchmarkError(f"entry {number} of {file} lacks a valid system, user or answer. {WHERE}")
    data = {"system": fields["system"], "user": fields["user"], "answer": JsonCall(str(name), arguments)}
    return Item(f"{level}-{number}", level, data)


def judge(text: str, expected: JsonCall) -> Verdict:
    calls = find_calls(text)
    if expected in calls:
        return Verdict(1.0, counts={"only call": (int(calls == [expected]), 1)})
    counts = {"only call": (0, 1)}
    if not calls:
        return Verdict(0.0, "no call", "the reply has no call", counts)
    same_name = [call for call in calls if call.name == expected.name]
    if not same_name:
        return Verdict(0.0, "wrong API", f"{calls[0].name[:80]!r} instead of {expected.name!r}", counts)
    wanted, given = expected.arguments, same_name[0].arguments
    for name in wanted:
        if name not in given:
            return Verdict(0.0, "missing parameter", repr(name), counts)
        if given[name] != wanted[name]:
            return Verdict(0.0, "wrong value", f"{name} is not {wanted[name]!r:.200}", counts)
    extra = next((name for name in given if name not in wanted), "")
    return Verdict(0.0, "unexpected parameter", f"{extra[:80]!r}", counts)
