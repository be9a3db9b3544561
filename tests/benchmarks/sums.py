"""A tiny benchmark: one sum, or two sums of which the second one needs the first answer."""

from collections.abc import Sequence

from envgen.benchmarks.benchmark import Benchmark, Episode, Item, Prompt, Verdict, text_reply
from envgen.designers.chat.protocol import Message, Reply


class Sums(Benchmark):
    name = "sums"
    data_version = "1"
    categories = ("one", "two")
    averages = {"both": ("one", "two")}  # noqa: RUF012

    def __init__(self, count: int = 6):
        self.count = count

    def items(self, category: str) -> Sequence[Item]:
        return [Item(f"{category}-{k}", category, (k, k + 1)) for k in range(self.count)]

    def episode(self, item: Item) -> Episode:
        first, second = item.data
        prompt = Prompt.user(f"{first} + {second} = ?")
        reply = yield prompt
        if item.category == "two" and reply.text == str(first + second):
            messages = (
                *prompt.messages, Message(role="assistant", content=reply.text), Message(role="user", content="+ 1 = ?")
            )  # fmt: skip
            reply = yield Prompt(messages)
            first += 1
        is_correct = reply.text == str(first + second)
        return Verdict(float(is_correct), "" if is_correct else "wrong sum", counts={"even": ((first + second) % 2, 1)})

    def gold_replies(self, item: Item) -> Sequence[Reply]:
        total = sum(item.data)
        return [text_reply(str(total)), *([text_reply(str(total + 1))] if item.category == "two" else [])]
