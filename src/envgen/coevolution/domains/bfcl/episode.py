"""The turns of a task. A category of a single turn ends with the first one.

In `multi_turn`, calls are answered by their results, and `[]` by the next request. The episode ends with the last
request, or as soon as a call is not one that the current request asks for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from envgen.function_calls.calls import Call, CallError, parse_calls
from envgen.function_calls.checker import Expected, check_call, check_calls, normalize

from .functions import Function

MAX_TURNS = 6  # of a reply; the most that an episode of 3 calls and 3 requests can have


@dataclass(frozen=True)
class BfclAnswerKey:
    """The listed functions, the calls that are asked for, and those that are right, which may be none.

    In tasks of several turns, `requests` holds the number of calls and the text of each request, and `results` what
    each call returns.
    """

    functions: tuple[Function, ...]
    requested: tuple[Call, ...]
    calls: tuple[Call, ...]
    expected: tuple[Expected, ...]
    requests: tuple[tuple[int, str], ...] = ()
    results: tuple[str, ...] = ()

    @cached_property
    def schemas(self) -> dict[str, Any]:
        """The functions in the form of BFCL's data."""
        return {function.name: function.schema for function in self.functions}


class BfclEpisode:
    def __init__(self, key: BfclAnswerKey):
        self.key = key
        self.is_over, self.is_right, self.is_valid, self.reason = False, False, True, "the episode is not over"
        self.request = 0  # the current one
        self.remaining = list(range(key.requests[0][0])) if key.requests else []  # calls that it still asks for

    def step(self, turn: str) -> str | None:
        if self.is_over:
            return None
        try:
            calls = read_calls(turn)
        except CallError as error:
            self.is_valid = False
            return self._end(str(error))
        if not self.key.requests:
            mismatch = _find_problem(calls) or check_calls(
                [*self.key.schemas.values()], calls, self.key.expected, "python"
            )
            return self._end("" if mismatch is None else ": ".join(mismatch))
        return self._next_request() if not calls else self._call(calls)

    def _call(self, calls: Sequence[Call]) -> str | None:
        if problem := _find_problem(calls):
            return self._end(": ".join(problem))
        results = []
        for call in calls:
            index = next((index for index in self.remaining if self._is_expected(call, index)), None)
            if index is None:
                return self._end(f"the request does not ask for this call of {call.name[:80]}")
            self.remaining.remove(index)
            results.append(self.key.results[index])
        return ", ".join(results)

    def _is_expected(self, call: Call, index: int) -> bool:
        expected = self.key.expected[index]
        schema = self.key.schemas[next(iter(expected))]
        return check_call(schema, call, expected, "python") is None

    def _next_request(self) -> str | None:
        if self.remaining:
            return self._end(f"{len(self.remaining)} calls are missing")
        self.request += 1
        if self.request == len(self.key.requests):
            return self._end("")
        done = sum(count for count, _ in self.key.requests[: self.request])
        count, text = self.key.requests[self.request]
        self.remaining = list(range(done, done + count))
        return f"request: {text}"

    def _end(self, reason: str) -> None:
        """The episode is over; no reason means that everything was right."""
        self.is_over, self.is_right, self.reason = True, not reason, reason


def read_calls(text: str) -> list[Call]:
    """The calls of a turn. Nothing at all is not a list of calls, which the benchmark takes for an empty one."""
    calls = parse_calls(text)
    if not calls and not ("[" in text and "]" in text):
        raise CallError("the reply is empty; write [] to make no call")
    return calls


def _find_problem(calls: Sequence[Call]) -> tuple[str, str] | None:
    """What is wrong with calls here but not in BFCL, which takes an empty argument for one that is left out."""
    for call in calls:
        if call.positional:
            return "argument without a name", f"in the call of {call.name[:80]}"
        if empty := [name for name, value in call.arguments.items() if _is_empty(value)]:
            return "empty argument", empty[0][:80]
    return None


def _is_empty(value: Any) -> bool:
    return value == [] or (isinstance(value, str) and not normalize(value))
