"""The ledger of a conversation: every request, reply, failure and validation as one JSON line, in order. Its totals are
what the conversation has cost, which a budget limits.

Each line is flushed to disk before anything else happens, so a process that dies at any point loses nothing that was
paid for. Lines are only ever appended; an incomplete last line is removed when the ledger is opened.

request      number, digest, backend, request, time      free: true if it cannot be charged; timeout: of the call
reply        number, digest, text, model, finish, usage, cost, seconds     tool_calls, if there are any
failure      number, digest, kind, error, seconds        kind: retryable, ambiguous, rejected
validation   digest, ok, errors
"""

import json
import os
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import Field

from envgen.runs.files import append_line, flush_folder, open_regular, parse_json, read_regular
from envgen.settings import FrozenModel, Settings

from .protocol import BudgetExceededError, ChatError, ChatRequest, FailureKind, RejectedError, Reply

CHARS_PER_TOKEN = 4  # used where the server does not report token counts
LEDGER = "ledger.jsonl"
MAX_LEDGER_BYTES = 256 << 20
REQUIRED_FIELDS = {
    "request": {"number", "digest", "backend", "request"},
    "reply": {"number", "digest", "text", "model", "finish", "usage", "cost", "seconds"},
    "failure": {"number", "digest", "kind", "error", "seconds"},
    "validation": {"digest", "ok", "errors"},
}
RESTORE = "restore the file or start a new run"
FAILURE_KINDS = get_args(FailureKind)


class Budget(Settings):
    """Limits on a run's conversation, checked before each request and counted across resumes.

    Usage that the server did not report is estimated from the length of the texts. A reply that never came counts as
    the longest that was allowed, and a call whose process was killed counts with the longest time that it can have
    taken. The last call may exceed a limit on tokens, cost or seconds, because its usage is known only afterwards.
    """

    max_calls: int | None = Field(default=None, gt=0)
    """Maximum number of requests that the provider may have billed. Requests that a busy server turned away do not
    count; those of `manual` and `replay` do, although they cost nothing."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Limit on the tokens of all requests and replies together."""
    max_cost: float | None = Field(default=None, gt=0)
    """Limit on the cost in dollars, as reported by the server or computed from the given prices. Needs the prices,
    except where calls cost nothing."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Limit on the seconds spent waiting for replies."""


class Prices(FrozenModel):
    """Dollars per million tokens."""

    prompt: float = Field(ge=0, allow_inf_nan=False)
    reply: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Of prompt tokens that the server read from its cache; None: the price of the others."""

    def cost(self, prompt_tokens: int, reply_tokens: int, cached_tokens: int | None = None) -> float:
        """Dollars. `cached_tokens` are a part of `prompt_tokens`."""
        cached = min(cached_tokens or 0, prompt_tokens)
        cached_price = self.prompt if self.cached is None else self.cached
        return (self.prompt * (prompt_tokens - cached) + cached_price * cached + self.reply * reply_tokens) / 1e6


class UsageTotals(NamedTuple):
    """Reported usage, and estimates for the calls whose usage was not reported (`estimate_tokens`)."""

    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    estimated_tokens: int = 0
    estimated_cost: float = 0.0
    unpriced_calls: int = 0  # calls whose cost is unknown

    @property
    def tokens(self) -> int:
        """All tokens, with the estimates."""
        return self.prompt_tokens + self.reply_tokens + self.estimated_tokens

    @property
    def total_cost(self) -> float:
        """The cost, with the estimates."""
        return self.cost + self.estimated_cost

    def plus(self, **amounts: float) -> "UsageTotals":
        return self._replace(**{name: getattr(self, name) + amount for name, amount in amounts.items()})

    def combine(self, other: "UsageTotals") -> "UsageTotals":
        """The usage of two conversations."""
        return self.plus(**other._asdict())


def estimate_tokens(request: ChatRequest, text: str | None = None) -> tuple[int, int]:
    """Estimate the tokens of a request and its reply. Without a reply, assume the longest that was allowed."""
    prompt_tokens = sum(map(len, request_texts(request))) // CHARS_PER_TOKEN + 1
    return prompt_tokens, request.max_tokens if text is None else len(text) // CHARS_PER_TOKEN + 1


def request_texts(request: ChatRequest) -> Iterator[str]:
    """What a provider may bill as the prompt: messages, calls of tools, tools and the schema of the reply."""
    for message in request.messages:
        yield message.content
        yield from (call.arguments for call in message.tool_calls)
    yield from (tool.model_dump_json() for tool in request.tools)
    if request.json_schema is not None:
        yield json.dumps(request.json_schema)


def spent_limit(budget: Budget, usage: UsageTotals) -> str | None:
    """The name of a limit that is reached; None if there is none."""
    amounts = {
        "max_calls": usage.calls, "max_tokens": usage.tokens, "max_cost": usage.total_cost, "max_seconds": usage.seconds
    }  # fmt: skip
    limits = {name: getattr(budget, name) for name in amounts}
    return next((name for name, limit in limits.items() if limit is not None and amounts[name] >= limit), None)


def enforce(budget: Budget, usage: UsageTotals) -> None:
    """Raise BudgetExceededError if a limit is reached."""
    name = spent_limit(budget, usage)
    if name is not None:
        cost = "" if usage.unpriced_calls else f", ${usage.total_cost:.4f}"  # unknown without prices
        raise BudgetExceededError(
            f"the budget is spent: {name} is {getattr(budget, name):,}, and the run has used {usage.calls} calls, "
            f"{usage.tokens:,} tokens{cost} and {usage.seconds:.0f} seconds; raise {name} and resume the run"
        )


class LedgerError(ChatError):
    """The ledger cannot be read or written. The message says where."""


class Ledger:
    """The ledger of one run, opened by this process."""

    def __init__(self, file: Path):
        self.file = Path(file)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            open_regular(self.file, "ab").close()
            flush_folder(self.file.parent)
            self.lines = read_lines(self.file)
            with open_regular(self.file, "rb+") as out:
                content = out.read()
                out.truncate(content.rfind(b"\n") + 1)
                os.fsync(out.fileno())
        except OSError as error:
            raise LedgerError(f"cannot open the ledger {self.file}: {error.strerror}") from error
        self._replies = {digest: deque(replies) for digest, replies in recorded_replies(self.lines).items()}
        self._validations: dict[str, deque[dict[str, Any]]] = defaultdict(deque)
        for line in self.lines:
            if line["event"] == "validation":
                self._validations[line["digest"]].append(line)
        self._number = sum(line["event"] == "request" for line in self.lines)
        self._in_flight: int | None = None  # number of the request that this process waits for
        self._meter = UsageMeter()

    def next_recorded(self, digest: str) -> Reply | None:
        """The next reply to this request that an earlier process recorded. Each is returned once."""
        replies = self._replies.get(digest)
        return replies.popleft() if replies else None

    def record_request(
        self, digest: str, request: dict[str, Any], backend: str, free: bool = False, timeout: float | None = None
    ) -> int:
        """Return the number of the request, from 1. After `timeout` seconds, the caller gives up."""
        self._number += 1
        line = {"event": "request", "number": self._number, "digest": digest, "backend": backend, "request": request}
        line |= {"free": True} if free else {}
        line |= {"timeout": timeout} if timeout is not None else {}
        self._write({**line, "time": datetime.now(UTC).isoformat(timespec="seconds")})
        self._in_flight = self._number
        return self._number

    def record_reply(self, number: int, digest: str, reply: Reply, cost: float | None, seconds: float) -> None:
        fields = {**reply.model_dump(mode="json"), "cost": cost, "seconds": round(seconds, 3)}
        self._write({"event": "reply", "number": number, "digest": digest, **fields})
        self._in_flight = None

    def record_failure(
        self, number: int, digest: str, kind: FailureKind, error: str, seconds: float, status: int | None = None
    ) -> None:
        """`status` is that of the server's response, if it rejected the request."""
        fields = {"kind": kind, "error": error, "seconds": round(seconds, 3)}
        fields |= {"status": status} if status is not None else {}
        self._write({"event": "failure", "number": number, "digest": digest, **fields})
        self._in_flight = None

    def record_validation(self, digest: str, ok: bool, errors: Sequence[str]) -> None:
        """Record the validation of a reply, unless a resumed run only repeats an earlier one."""
        line = {"event": "validation", "digest": digest, "ok": ok, "errors": list(errors)}
        earlier = self._validations[digest]
        if not earlier or earlier.popleft() != line:
            self._write(line)

    def totals(self, prices: Prices | None = None, with_call_in_flight: bool = True) -> UsageTotals:
        """The run's usage in this and all earlier processes. A call in flight counts as the longest reply allowed."""
        if self._meter.prices != prices:
            self._meter = UsageMeter(prices)
        for line in self.lines[self._meter.num_lines :]:
            self._meter.add(line)
        return self._meter.totals(self._in_flight, with_call_in_flight)

    def _write(self, line: dict[str, Any]) -> None:
        try:
            append_line(self.file, json.dumps(line).encode() + b"\n")
        except OSError as error:
            raise LedgerError(f"cannot write the ledger {self.file}: {error.strerror}") from error
        self.lines.append(line)


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Read all complete lines, even of a ledger that another process is writing."""
    try:
        content = read_regular(file, max_bytes=MAX_LEDGER_BYTES)
        texts = content.split(b"\n")[:-1]  # after the last newline there is nothing, or an incomplete line
    except OSError as error:
        raise LedgerError(f"cannot read the ledger {file}: {error.strerror}") from error
    lines, is_open = [], dict[int, bool]()  # by number: whether the request has no reply and no failure yet
    for k, text in enumerate(texts, 1):
        line = _parse_line(text, f"line {k} of {file}")
        if line["event"] == "request":
            if line["number"] in is_open:
                raise LedgerError(f"line {k} of {file} repeats request {line['number']}; {RESTORE}")
            is_open[line["number"]] = True
        elif line["event"] != "validation":
            if line["number"] not in is_open:
                raise LedgerError(f"line {k} of {file} belongs to no request; {RESTORE}")
            if not is_open[line["number"]]:
                raise LedgerError(f"line {k} of {file} ends request {line['number']} a second time; {RESTORE}")
            is_open[line["number"]] = False
        lines.append(line)
    return lines


def _parse_line(text: bytes, place: str) -> dict[str, Any]:
    try:
        line = parse_json(text)
        missing = REQUIRED_FIELDS[line["event"]] - line.keys()
        if not missing:
            _check_values(line)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LedgerError(f"{place} is damaged ({type(error).__name__}); {RESTORE}") from None
    if missing:
        raise LedgerError(f"{place} has no {', '.join(sorted(missing))}; {RESTORE}")
    return line


def _check_values(line: dict[str, Any]) -> None:
    """Raise ValueError if a value of a line has the wrong type."""
    checks = {
        "number": lambda value: type(value) is int and value > 0,
        "digest": lambda value: isinstance(value, str),
        "backend": lambda value: isinstance(value, str),
        "time": lambda value: isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None,
        "timeout": _is_amount,
        "seconds": _is_amount,
        "cost": lambda value: value is None or _is_amount(value),
        "kind": lambda value: value in FAILURE_KINDS,
        "error": lambda value: isinstance(value, str),
        "status": lambda value: type(value) is int,
        "errors": lambda value: isinstance(value, list) and all(isinstance(error, str) for error in value),
    }
    for name, is_valid in checks.items():
        if name in line and not is_valid(line[name]):
            raise ValueError(f"{name} has the wrong type")
    if line["event"] == "request":
        ChatRequest.model_validate(line["request"])
    elif line["event"] == "reply":
        _to_reply(line)


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e12


def recorded_replies(lines: Iterable[dict[str, Any]]) -> dict[str, list[Reply]]:
    """The replies in order, by the digest of their request."""
    replies: dict[str, list[Reply]] = defaultdict(list)
    for line in lines:
        if line["event"] == "reply":
            replies[line["digest"]].append(_to_reply(line))
    return replies


def recorded_rejections(lines: Iterable[dict[str, Any]]) -> dict[str, RejectedError]:
    """How a server rejected requests, by their digest."""
    return {
        line["digest"]: RejectedError(line["error"], line.get("status"))
        for line in lines
        if line["event"] == "failure" and line["kind"] == "rejected"
    }


def _to_reply(line: dict[str, Any]) -> Reply:
    return Reply(
        text=line["text"], model=line["model"], finish=line["finish"], usage=line["usage"],
        tool_calls=line.get("tool_calls", ()),
    )  # fmt: skip


def sum_usage(lines: Iterable[dict[str, Any]], prices: Prices | None = None) -> UsageTotals:
    """Add up the usage of all calls."""
    meter = UsageMeter(prices)
    for line in lines:
        meter.add(line)
    return meter.totals()


class UsageMeter:
    """Adds up the usage of calls, line by line. A call without an end was killed, and may have been charged."""

    def __init__(self, prices: Prices | None = None):
        self.prices, self.num_lines = prices, 0
        self._totals = UsageTotals()
        self._unfinished: dict[int, dict[str, Any]] = {}  # requests without an end, by number
        self._latest: dict[str, Any] | None = None  # request; a conversation sends one at a time

    def add(self, line: dict[str, Any]) -> None:
        self.num_lines += 1
        if line["event"] == "request":
            if self._latest is not None and self._latest["number"] in self._unfinished:
                self._totals = self._totals.plus(seconds=_killed_seconds(self._latest, line))
            self._unfinished[line["number"]] = self._latest = line
        elif line["event"] == "reply":
            self._totals = _add_reply(self._totals, self._unfinished.pop(line["number"]), line, self.prices)
        elif line["event"] == "failure":
            request = self._unfinished.pop(line["number"])
            self._totals = self._totals.plus(seconds=line["seconds"])
            if line["kind"] == "ambiguous":
                self._totals = self._add_unanswered(self._totals, request)

    def totals(self, in_flight: int | None = None, with_call_in_flight: bool = True) -> UsageTotals:
        """The usage of all lines. `in_flight` is the number of a request whose reply is still awaited."""
        totals = self._totals
        if self._latest is not None and self._latest["number"] in self._unfinished.keys() - {in_flight}:
            totals = totals.plus(seconds=_killed_seconds(self._latest, None))
        for number, request in self._unfinished.items():
            if number != in_flight or with_call_in_flight:
                totals = self._add_unanswered(totals, request, is_lost=number != in_flight)
        return totals

    def _add_unanswered(self, totals: UsageTotals, request: dict[str, Any], is_lost: bool = True) -> UsageTotals:
        """Add a request that may have been charged an unknown amount, or, if it is not lost, still may."""
        if request.get("free"):
            return totals
        estimate = estimate_tokens(ChatRequest.model_validate(request["request"]))
        cost = self.prices.cost(*estimate) if self.prices else 0.0
        unpriced = int(is_lost and self.prices is None)
        return totals.plus(calls=1, estimated_tokens=sum(estimate), estimated_cost=cost, unpriced_calls=unpriced)


def _killed_seconds(request: dict[str, Any], next_request: dict[str, Any] | None) -> float:
    """The longest time that a call of a killed process can have taken: its timeout, or until the next request.

    A call without a timeout waits for a person, which costs nothing.
    """
    timeout = request.get("timeout")
    if timeout is None:
        return 0.0
    if next_request is None or "time" not in next_request or "time" not in request:
        return timeout
    elapsed = datetime.fromisoformat(next_request["time"]) - datetime.fromisoformat(request["time"])
    return min(timeout, max(0.0, elapsed.total_seconds()))


def _add_reply(
    totals: UsageTotals, request: dict[str, Any], line: dict[str, Any], prices: Prices | None
) -> UsageTotals:
    usage = _to_reply(line).usage
    reported = (usage.prompt_tokens, usage.reply_tokens)
    estimated = [0, 0]
    if None in reported:
        reply = _to_reply(line)
        text = reply.text + "".join(call.arguments for call in reply.tool_calls)
        estimate = estimate_tokens(ChatRequest.model_validate(request["request"]), text)
        estimated = [tokens if count is None else 0 for count, tokens in zip(reported, estimate, strict=True)]
    prompt, reply = (tokens or 0 for tokens in reported)
    totals = totals.plus(calls=1, prompt_tokens=prompt, reply_tokens=reply, estimated_tokens=sum(estimated))
    totals = totals.plus(seconds=line["seconds"])
    if line["cost"] is not None:
        return totals.plus(cost=line["cost"])
    if prices is None:
        return totals.plus(unpriced_calls=1)
    return totals.plus(cost=prices.cost(prompt, reply, usage.cached_tokens), estimated_cost=prices.cost(*estimated))
