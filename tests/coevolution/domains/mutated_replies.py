"""Hostile replies to tasks: damaged, endless, nested or foreign text."""

from collections.abc import Callable, Sequence
from random import Random

from envgen.coevolution.tasks import Domain, Task

MAX_REASON_CHARS = 1000

TEN_MEGABYTES = {
    "letters": "x" * 10_000_000, "lines": "\n" * 10_000_000, "null": "\x00" * 10_000_000, "nested": "[" * 10_000_000,
    "commands": "look\n" * 2_000_000, "words": "go to " * 2_000_000, "semicolons": "-;" * 5_000_000,
    "searches": "search: a\n" * 1_000_000, "days": "A > B; taxi; M10; R10\n" * 450_000,
}  # fmt: skip


def mutate(reply: str, rng: Random) -> str:
    """A reply with one hostile change."""
    position = rng.randrange(len(reply) + 1)
    kind = rng.randrange(10)
    if kind == 0:
        return reply[:position] + "\x00" + reply[position:]
    if kind == 1:
        return reply[:position] + rng.choice(("\ud800", "\u202e", "\U0001f600", "\x1b[2J")) + reply[position:]
    if kind == 2:
        return "[" * rng.randrange(1, 20_000) + reply
    if kind == 3:
        return '{"a":' * rng.randrange(1, 5_000) + reply + "}" * 5_000
    if kind == 4:
        return f"__import__('os').system('{reply}')"
    if kind == 5:
        return "\n".join([rng.choice(reply.split("\n"))] * rng.randrange(25, 20_000))
    if kind == 6:
        return "\n".join(rng.sample(lines := reply.split("\n"), len(lines)))
    if kind == 7:
        return reply.replace(" ", rng.choice(("\t", "\r", "\v", "\u2028", "%s", "{0.__class__}")))
    if kind == 8:
        return "".join(chr(rng.randrange(0x110000)) for _ in range(200))
    return reply[:position] + reply[rng.randrange(len(reply) + 1) :]


def attack(
    domain: Domain,
    tasks: Sequence[Task],
    count: int,
    max_observation_chars: int = 0,
    seed: int = 0,
    mutate: Callable[[str, Random], str] = mutate,
) -> int:
    """Check mutated replies to the tasks in turn; return how many of them are right."""
    rng, num_right = Random(seed), 0
    for number in range(count):
        task = tasks[number % len(tasks)]
        reply = mutate(domain.oracle_reply(task), rng)
        if domain.is_multi_turn:
            observation = domain.start_episode(task).step(reply)
            assert observation is None or len(observation) < max_observation_chars
        result = domain.check(task, reply)
        assert result.score in (0.0, 1.0)
        assert result.valid or not result.score
        assert len(result.reason) < MAX_REASON_CHARS
        num_right += int(result.score)
    return num_right
