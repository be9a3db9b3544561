"""Replies that no model should write, and mutations of good ones."""

import json
from collections.abc import Sequence
from random import Random

from envgen.benchmarks.benchmark import Benchmark, Item, Verdict
from envgen.designers.chat.protocol import Reply, ToolCall

HUGE = 10_000_000
FIXED = (
    "", "\0", "\0" * 5000, "\ud800\udfff", "\ufeff\u202e", "null", "[]", "{}", "[[]]", "NaN", "-1e999", "\r\n" * 5000,
    "[" * 20_000, "{" * 20_000, '{"a":' * 20_000, "[" * 5000 + "]" * 5000, "(" * 5000 + ")" * 5000, "f(" * 5000,
    "\\" * 20_000, "`touch hostile`", "exec(\"open('hostile', 'w')\")", "[open('hostile', 'w')]",
    "__import__('os').system('touch hostile')", "import os; os.fork()", "<think>" * 5000, "<tool_call>" * 5000,
    '<tool_call>{"name": "f", "parameters": {}}</tool_call>' * 2000, "```" * 5000, "Answer:" * 5000,
    "Search: x\n" * 5000, "[f()" + ", f()" * 5000 + "]", "[f(a=" + "9" * 20_000 + ")]", "%s%n{0}{}{a.b}", "a" * HUGE,
    "[f(a='" + "a" * HUGE + "')]", "\ufffd\xff" * 5000, '"' * 9999, "'" * 9999, "Day 1" * 5000, '[{"days": 1}]' * 2000,
    "https://example.com/" * 2000, "1" * 100_000,
)  # fmt: skip
PIECES = (
    "(", ")", "[", "]", "{", "}", '"', "'", ",", "=", "\\", "\0", "\n", "1e9999", "None", "\ud83d", "<", ">", ":", "``"
)  # fmt: skip


def mutate(text: str, rng: Random) -> str:
    """A text with a few changes, cut or repeated."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.randrange(1, 20))
        text = rng.choice([
            text[:start] + text[end:],
            text[:start] + rng.choice(PIECES) * rng.choice([1, 1, 2, 50]) + text[start:],
            text[:start] + text[start:end] * rng.choice([2, 3, 20]) + text[end:],
            text[:start],
            text[start:] + text[:start],
            text.replace(text[start:end] or " ", rng.choice(PIECES)),
        ])[:100_000]  # fmt: skip
    return text


def mutants(gold: Reply, rng: Random) -> Reply:
    """A mutation of a good reply: of its text and of its calls."""
    calls = [call for call in gold.tool_calls for _ in range(rng.choice([0, 1, 1, 1, 2]))]
    changed = tuple(
        ToolCall(id=mutate(call.id, rng), name=rng.choice([call.name, mutate(call.name, rng)]),
                 arguments=mutate(call.arguments, rng))
        for call in calls
    )  # fmt: skip
    return Reply(text=mutate(gold.text, rng), model="m", tool_calls=changed)


def play(benchmark: Benchmark, item: Item, replies: Sequence[Reply]) -> Verdict:
    """The verdict of an episode with these replies, the last of which is repeated without end."""
    episode = benchmark.episode(item)
    next(episode)
    verdict = None
    try:
        for k in range(500):
            episode.send(replies[min(k, len(replies) - 1)])
    except StopIteration as end:
        verdict = end.value
    assert isinstance(verdict, Verdict), "the episode does not end"
    json.dumps([verdict.error, verdict.details])
    return verdict


def attack(benchmark: Benchmark, items: Sequence[Item], count: int, seed: int = 0) -> int:
    """Play items with hostile replies, and return how often the verdict was right. Nothing may be executed."""
    rng, right = Random(seed), 0
    for text in FIXED:
        native = (ToolCall(id=text[:9000], name=text[:9000], arguments=text[:200_000]),) * rng.choice([0, 1, 300])
        right += play(benchmark, items[0], [Reply(text=text, model="m", tool_calls=native)]).score == 1
    for _ in range(count):
        item = rng.choice(items)
        gold = benchmark.gold_replies(item) or [Reply(text="Answer", model="m")]
        right += play(benchmark, item, [mutants(reply, rng) for reply in gold]).score == 1
    return right
