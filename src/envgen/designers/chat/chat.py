"""A conversation that is remembered, paid for once and kept within its budget.

The ledger is the memory. The k-th time a process asks a question, it gets the k-th reply that was recorded for it, and
only where there is none is anything sent. So a program that was killed simply runs again: it comes to the same
questions, gets the same answers, and goes on with the first that nobody has answered. Not for several threads at once.
"""

import time
from collections.abc import Callable, Sequence

from .budget import Budget, Prices, Totals, check
from .keys import hide
from .ledger import Ledger
from .protocol import Ask, Backend, Busy, ChatError, Lost, Reply

LONGEST_PAUSE = 60.0  # seconds between two attempts, unless the server asks for more
LONGEST_WAIT = 120.0  # seconds, however many the server asks for


class Chat:
    def __init__(
        self,
        backend: Backend,
        ledger: Ledger,
        budget: Budget = Budget(),  # noqa: B008  frozen
        prices: Prices | None = None,
        attempts: int = 5,
        patience: float = 1.0,
        sleep: Callable[[float], object] = time.sleep,
    ):
        """`patience` is the pause before the second attempt, in seconds; each further pause is twice as long."""
        self.backend, self.ledger, self.budget, self.prices = backend, ledger, budget, prices
        self.attempts, self.patience, self.sleep = max(1, attempts), patience, sleep
        self._free: bool = getattr(backend, "free", False)
        self._secrets: Sequence[str] = getattr(backend, "secrets", ())
        check_prices(backend, budget, prices)

    def ask(self, ask: Ask) -> Reply:
        """The reply, from memory or from the backend. What it says is nobody's business here: it is journalled raw."""
        known = self.ledger.recall(ask.digest)
        if known is not None:
            getattr(self.backend, "recalled", lambda ask: None)(ask)
            return known
        pause, attempt = 0.0, 0
        while True:
            check(self.budget, self.totals())
            if pause:
                self.sleep(pause)
            try:
                return self._send(ask)
            except (Busy, Lost) as error:
                attempt += 1
                if attempt == self.attempts:
                    tried = f"tried {attempt} times" if attempt > 1 else "tried once"
                    raise type(error)(f"{error}; {tried}; resume the run to ask again") from None
                pause = min(self.patience * 2 ** (attempt - 1), LONGEST_PAUSE)
                if isinstance(error, Busy) and error.wait is not None:
                    pause = max(pause, min(error.wait, LONGEST_WAIT))

    def judge(self, ask: Ask, ok: bool, errors: Sequence[str] = ()) -> None:
        """Put down what came of the latest reply to a question."""
        self.ledger.verdict(ask.digest, ok, hide(list(errors), self._secrets))

    def totals(self) -> Totals:
        """What the run has used, also before it was resumed."""
        return self.ledger.totals(self.prices)

    def _send(self, ask: Ask) -> Reply:
        """One request, with what came of it on the disk before anybody looks at it."""
        digest, shown = ask.digest, hide(ask.model_dump(mode="json"), self._secrets)
        number = self.ledger.request(digest, shown, self.backend.name, self._free)
        began = time.monotonic()
        try:
            reply = self.backend.send(ask)
        except ChatError as error:
            error.args = (hide(str(error), self._secrets),)
            kind = "busy" if isinstance(error, Busy) else "lost" if isinstance(error, Lost) else "refused"
            self.ledger.failure(number, digest, kind, str(error), time.monotonic() - began)
            raise error from None
        seconds = time.monotonic() - began
        reply = Reply.model_validate(hide(reply.model_dump(), self._secrets))
        self.ledger.reply(number, digest, reply, self._cost(reply), seconds)
        return reply

    def _cost(self, reply: Reply) -> float | None:
        """Dollars, or None where nobody knows."""
        usage = reply.usage
        if self._free:
            return 0.0
        if usage.cost is not None or self.prices is None:
            return usage.cost
        if usage.prompt_tokens is None or usage.reply_tokens is None:
            return None
        return self.prices.of(usage.prompt_tokens, usage.reply_tokens)


def check_prices(backend: Backend, budget: Budget, prices: Prices | None) -> None:
    """Refuse a cap on dollars that nobody could count."""
    if budget.max_cost is not None and prices is None and not getattr(backend, "free", False):
        raise ChatError(
            f"max_cost needs the prices of {backend.name}: give dollars per million tokens of prompt and reply, "
            "or cap max_calls or max_tokens instead"
        )
