"""One budget for conversations in several processes, on one machine or on several that share a file system.

A process reserves what a call may cost before it sends it, and settles what it did cost afterwards. Both are done
under a file lock, so the calls in progress and those that are over stay within the limits together. A call that would
fit once others are settled waits for them.

    {"limits": {"max_calls": 100, "max_tokens": null, "max_cost": 5.0},
     "usage": {"designer=llm,seed=0/ledger.jsonl": {"calls": 3, "tokens": 9120, "cost": 0.08, "reserved": null}}}

The usage of a conversation is that of its ledger. What a killed process had reserved counts until its run is resumed
and its ledger says what was charged.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from envgen.runs.files import open_regular
from envgen.runs.store import RunError, read_json, write_json
from envgen.settings import FrozenModel, Settings, format_validation_error

from .ledger import Budget, Prices, UsageTotals, request_texts
from .protocol import ChatError, ChatRequest

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

BYTES_PER_TOKEN = 2  # of a reserved prompt: tokens are usually twice as long
POLL_SECONDS = 0.2
EXTRA_SECONDS = 60.0  # this long after its timeout, a call in progress is taken to be lost
LIMITS = {"max_calls": "calls", "max_tokens": "tokens", "max_cost": "cost"}


class SharedBudgetError(ChatError):
    """The shared budget is spent, or its file cannot be used.

    A run whose own budget is spent continues without the model. If the shared budget is spent, the run ends, and can be
    resumed.
    """


class SharedLimits(Settings):
    """Limits on what the language models of several runs use together."""

    max_calls: int | None = Field(default=None, gt=0)
    """Maximum number of requests of all runs that the provider may have billed."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Limit on the tokens of all requests and replies of all runs."""
    max_cost: float | None = Field(default=None, gt=0)
    """Limit on the cost of all runs in dollars. Needs --price-prompt and --price-reply."""

    def budget(self) -> Budget:
        return Budget(**self.model_dump())


class _Amounts(FrozenModel):
    calls: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    cost: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def plus(self, other: "_Amounts") -> "_Amounts":
        return _Amounts(
            calls=self.calls + other.calls, tokens=self.tokens + other.tokens, cost=self.cost + other.cost
        )  # fmt: skip


class _Reservation(_Amounts):
    made: float = 0.0  # seconds since 1970
    expires: float

    def is_in_progress(self, now: float) -> bool:
        """Whether its call may still be settled. If the clock was set back to before it was made, it is lost."""
        return self.made - EXTRA_SECONDS <= now < self.expires


class _Usage(_Amounts):
    reserved: _Reservation | None = None


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid")
    limits: SharedLimits
    usage: dict[str, _Usage] = {}


class BudgetFile:
    """The account of one conversation in the file of a shared budget.

    Args:
        file: Written by `create`.
        ledger: The ledger of the conversation, which is its key.
    """

    def __init__(self, file: Path, ledger: Path):
        self.file = Path(file)
        self.key = Path(os.path.relpath(ledger.absolute(), self.file.absolute().parent)).as_posix()
        if not self.file.is_file():
            raise SharedBudgetError(f"there is no shared budget {file}; envgen sweep creates it")

    @staticmethod
    def create(file: Path, limits: SharedLimits) -> None:
        """Create the file, or change the limits of an existing one."""
        with _locked(file):
            content = _read(file) if file.exists() else _Content(limits=limits)
            content.limits = limits
            _write(file, content)

    @property
    def limits(self) -> SharedLimits:
        return _read(self.file).limits

    def settle(self, totals: UsageTotals) -> None:
        """Record what the conversation has used so far. Nothing is reserved for it any more."""
        with _locked(self.file):
            content = _read(self.file)
            content.usage[self.key] = _to_usage(totals)
            _write(self.file, content)

    def reserve(
        self, request: ChatRequest, totals: UsageTotals, prices: Prices | None, timeout: float | None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:  # fmt: skip
        """Reserve what a request may cost, or raise SharedBudgetError if the budget does not allow it any more.

        Args:
            totals: What the conversation has used so far.
            timeout: Seconds after which the caller gives up.
        """
        size = sum(len(text.encode()) for text in request_texts(request))
        prompt, reply = size // BYTES_PER_TOKEN + 1, request.max_tokens
        needed = _Amounts(calls=1, tokens=prompt + reply, cost=prices.cost(prompt, reply) if prices else 0.0)
        while not self._try_to_reserve(needed, totals, timeout):
            sleep(POLL_SECONDS)

    def _try_to_reserve(self, needed: _Amounts, totals: UsageTotals, timeout: float | None) -> bool:
        """Returns False if the request must wait until others are settled."""
        with _locked(self.file):
            content, now = _read(self.file), time.time()
            usage = content.usage[self.key] = _to_usage(totals)
            spent, in_progress = _Amounts(), _Amounts()
            for entry in content.usage.values():
                spent = spent.plus(entry)
                if entry.reserved is not None and entry.reserved.is_in_progress(now):
                    in_progress = in_progress.plus(entry.reserved)
                elif entry.reserved is not None:  # its process was killed, and it may have been charged
                    spent = spent.plus(entry.reserved)
            _check(self.file, content.limits, spent, needed)
            if _exceeded(content.limits, spent.plus(in_progress).plus(needed)) is not None:
                return False
            expires = now + (timeout or 0.0) + EXTRA_SECONDS
            reserved = _Reservation(**needed.model_dump(), made=now, expires=expires)
            content.usage[self.key] = usage.model_copy(update={"reserved": reserved})
            _write(self.file, content)
        return True


def _to_usage(totals: UsageTotals) -> _Usage:
    return _Usage(calls=totals.calls, tokens=totals.tokens, cost=totals.total_cost)


def _exceeded(limits: SharedLimits, amounts: _Amounts) -> str | None:
    """The name of a limit that these amounts exceed."""
    for name, amount in LIMITS.items():
        limit = getattr(limits, name)
        if limit is not None and getattr(amounts, amount) > limit:
            return name
    return None


def _check(file: Path, limits: SharedLimits, spent: _Amounts, needed: _Amounts) -> None:
    name = _exceeded(limits, spent.plus(needed))
    if name is not None:
        raise SharedBudgetError(
            f"the shared budget in {file} is spent: {name} is {getattr(limits, name):,}, all runs have used "
            f"{spent.calls:,} calls, {spent.tokens:,} tokens and ${spent.cost:.4f}, and this call may need "
            f"{needed.tokens:,} tokens and ${needed.cost:.4f}; raise {name} and repeat the command"
        )


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    if fcntl is None:
        raise SharedBudgetError("a shared budget needs file locks, which this system does not have; use --max-calls")
    with ExitStack() as stack:
        try:
            lock = stack.enter_context(open_regular(file.with_name(f"{file.name}.lock"), "a"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            raise SharedBudgetError(f"cannot lock the shared budget {file}: {error.strerror}") from error
        yield


def _read(file: Path) -> _Content:
    try:
        return _Content.model_validate(read_json(file))
    except RunError as error:
        raise SharedBudgetError(str(error)) from None
    except ValidationError as error:
        raise SharedBudgetError(f"{file} is not a shared budget: {format_validation_error(error)}") from None


def _write(file: Path, content: _Content) -> None:
    try:
        write_json(file, content.model_dump(mode="json"))
    except RunError as error:
        raise SharedBudgetError(str(error)) from None
