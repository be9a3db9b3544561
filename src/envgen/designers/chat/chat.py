"""A conversation that is recorded in a ledger, so that no reply is paid for twice, and kept within its budget.

The k-th time a process sends a request, it gets the k-th reply recorded for that request. It is sent only if no
recorded reply is left. A program that was killed simply runs again: it repeats the same requests, gets the recorded
replies and continues with the first request that has no reply yet. Not safe for concurrent use by several threads.
"""

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import reduce
from typing import Any

from .budget_file import BudgetFile
from .ledger import Budget, Ledger, Prices, UsageTotals, enforce, spent_limit
from .protocol import (
    AmbiguousError,
    Backend,
    ChatError,
    ChatRequest,
    RejectedError,
    Reply,
    RetryableError,
    redact,
)

MAX_BACKOFF = 60.0  # seconds between two attempts, unless the server asks for more
BUDGET_POLL_SECONDS = 0.2  # while calls in flight may use up the budget
MAX_RETRY_AFTER = 120.0  # seconds, even if the server asks for more


class UsageTracker:
    """Tracks the usage of several conversations that share one budget and may take place in several threads.

    Each conversation has a key, such as the file of its ledger.
    """

    def __init__(self, prices: Prices | None = None, usage: Mapping[Any, UsageTotals] | None = None):
        """`usage` is the usage of conversations that are not open, by key."""
        self.prices, self.lock = prices, threading.RLock()
        self._closed, self._open = dict(usage or {}), dict[Hashable, Ledger]()
        self._closed_total = add_up(self._closed.values())

    def open(self, key: Hashable, ledger: Ledger) -> None:
        """Take the usage of this conversation from its ledger from now on."""
        with self.lock:
            if self._closed.pop(key, None) is not None:
                self._closed_total = add_up(self._closed.values())
            self._open[key] = ledger

    def close(self, key: Hashable) -> UsageTotals:
        """Keep only the totals of a conversation that is over, and return them."""
        with self.lock:
            usage = self._closed[key] = self._open.pop(key).totals(self.prices)
            self._closed_total = self._closed_total.combine(usage)
            return usage

    def totals(self, with_calls_in_flight: bool = True) -> UsageTotals:
        """The usage of all conversations."""
        with self.lock:
            usages = [ledger.totals(self.prices, with_calls_in_flight) for ledger in self._open.values()]
            return add_up([self._closed_total, *usages])


def add_up(usages: Iterable[UsageTotals]) -> UsageTotals:
    return reduce(UsageTotals.combine, usages, UsageTotals())


class Chat:
    """A conversation with a backend, recorded in a ledger and limited by a budget."""

    def __init__(
        self,
        backend: Backend,
        ledger: Ledger,
        budget: Budget = Budget(),  # noqa: B008  frozen
        prices: Prices | None = None,
        attempts: int = 8,
        backoff: float = 1.0,
        sleep: Callable[[float], object] = time.sleep,
        usage_tracker: UsageTracker | None = None,
        budget_file: BudgetFile | None = None,
    ):
        """
        Args:
            backoff: The pause before the second attempt, in seconds; it doubles with each further attempt.
            usage_tracker: The usage of all conversations that share `budget`; this one must have been opened there.
            budget_file: A second budget, which this conversation shares with those of other processes.
        """
        self.backend, self.ledger, self.budget, self.prices = backend, ledger, budget, prices
        self.attempts, self.backoff, self.sleep = max(1, attempts), backoff, sleep
        self.usage_tracker, self.budget_file = usage_tracker, None if backend.free else budget_file
        check_prices(backend, budget, prices)
        if self.budget_file is not None:
            check_prices(backend, self.budget_file.limits.budget(), prices)
            self.budget_file.settle(ledger.totals(prices))

    def complete(self, request: ChatRequest) -> Reply:
        """The reply, from the ledger or from the backend. It is recorded in the ledger before it is parsed."""
        recorded = self.ledger.next_recorded(request.digest)
        if recorded is not None:
            self.backend.mark_answered(request)
            return recorded
        pause, attempt = 0.0, 0
        while True:
            enforce(self.budget, self.totals(with_calls_in_flight=False))
            if pause:
                self.sleep(pause)
            try:
                return self._send(request)
            except (RetryableError, AmbiguousError) as error:
                attempt += 1
                if attempt == self.attempts:
                    count = f"tried {attempt} times" if attempt > 1 else "tried once"
                    raise type(error)(f"{error}; {count}; resume the run to try again") from None
                pause = min(self.backoff * 2 ** (attempt - 1), MAX_BACKOFF)
                if isinstance(error, RetryableError) and error.retry_after is not None:
                    pause = max(pause, min(error.retry_after, MAX_RETRY_AFTER))

    def record_validation(self, request: ChatRequest, ok: bool, errors: Sequence[str] = ()) -> None:
        """Record whether the latest reply to a request was valid."""
        self.ledger.record_validation(request.digest, ok, redact(list(errors), self.backend.secrets))

    def totals(self, with_calls_in_flight: bool = True) -> UsageTotals:
        """The usage of all conversations that share the budget, including the time before they were resumed."""
        if self.usage_tracker:
            return self.usage_tracker.totals(with_calls_in_flight)
        return self.ledger.totals(self.prices, with_calls_in_flight)

    def _send(self, request: ChatRequest) -> Reply:
        """Send once. Both the request and what comes back are on disk before the caller sees them."""
        backend = self.backend
        digest, content = request.digest, redact(request.model_dump(mode="json"), backend.secrets)
        if self.budget_file is not None:
            totals = self.ledger.totals(self.prices)
            self.budget_file.reserve(request, totals, self.prices, backend.timeout, self.sleep)
        try:
            return self._send_recorded(request, digest, content)
        finally:
            if self.budget_file is not None:
                self.budget_file.settle(self.ledger.totals(self.prices))

    def _send_recorded(self, request: ChatRequest, digest: str, content: Any) -> Reply:
        backend = self.backend
        number = None
        while number is None:
            # while it holds the lock, no other conversation can use up what is left
            with self.usage_tracker.lock if self.usage_tracker else nullcontext():
                enforce(self.budget, self.totals(with_calls_in_flight=False))
                if spent_limit(self.budget, self.totals()) is None:
                    number = self.ledger.record_request(digest, content, backend.name, backend.free, backend.timeout)
            if number is None:  # the budget is enough unless other calls in flight get the longest replies
                self.sleep(BUDGET_POLL_SECONDS)
        start = time.monotonic()
        try:
            reply = backend.send(request)
        except ChatError as error:
            error.args = (redact(str(error), backend.secrets),)
            status = error.status if isinstance(error, RejectedError) else None
            self.ledger.record_failure(number, digest, error.kind, str(error), time.monotonic() - start, status)
            raise error from None
        seconds = time.monotonic() - start
        reply = reply.for_record(backend.secrets)
        self.ledger.record_reply(number, digest, reply, self._cost(reply), seconds)
        return reply

    def _cost(self, reply: Reply) -> float | None:
        """Dollars, or None if they are unknown."""
        usage = reply.usage
        if self.backend.free:
            return 0.0
        if usage.cost is not None or self.prices is None:
            return usage.cost
        if usage.prompt_tokens is None or usage.reply_tokens is None:
            return None
        return self.prices.cost(usage.prompt_tokens, usage.reply_tokens, usage.cached_tokens)


def check_prices(backend: Backend, budget: Budget, prices: Prices | None) -> None:
    """Raise ChatError for a limit on the cost if the cost cannot be computed."""
    if budget.max_cost is not None and prices is None and not backend.free:
        raise ChatError(
            f"max_cost needs the prices of {backend.name}: set price_prompt and price_reply (dollars per million "
            "tokens), or limit max_calls or max_tokens instead"
        )
