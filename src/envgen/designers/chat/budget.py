"""What a conversation may cost, and what it has cost."""

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from envgen.settings import Settings

from .protocol import BudgetExceededError, ChatRequest

CHARS_PER_TOKEN = 4  # used where the server does not report token counts


class Budget(Settings):
    """Limits on a run's conversation, checked before each request and counted across resumes.

    A call whose usage the server did not report counts as the most it can have used. The last call may exceed a limit
    on tokens, cost or seconds, because its usage is known only afterwards.
    """

    max_calls: int | None = Field(default=None, gt=0)
    """Requests that may have been charged. Those that a busy server turned away do not count."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Tokens of all requests and replies together."""
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Dollars, as reported by the server or computed from the given prices."""
    max_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds spent waiting for replies."""


class Prices(BaseModel):
    """Dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: float = Field(ge=0, allow_inf_nan=False)
    reply: float = Field(ge=0, allow_inf_nan=False)

    def cost(self, prompt_tokens: int, reply_tokens: int) -> float:
        return (self.prompt * prompt_tokens + self.reply * reply_tokens) / 1e6


class UsageTotals(NamedTuple):
    """Reported usage, and upper estimates for the calls whose usage was not reported."""

    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    estimated_tokens: int = 0
    estimated_cost: float = 0.0

    def plus(self, **amounts: float) -> "UsageTotals":
        return self._replace(**{name: getattr(self, name) + amount for name, amount in amounts.items()})


def estimate_tokens(request: ChatRequest, text: str | None = None) -> tuple[int, int]:
    """Estimate the tokens of a request and its reply. Without a reply, assume the longest that was allowed."""
    prompt_tokens = sum(len(message.content) for message in request.messages) // CHARS_PER_TOKEN + 1
    return prompt_tokens, request.max_tokens if text is None else len(text) // CHARS_PER_TOKEN + 1


def enforce(budget: Budget, usage: UsageTotals) -> None:
    """Raise BudgetExceededError if a limit is reached."""
    tokens = usage.prompt_tokens + usage.reply_tokens + usage.estimated_tokens
    cost = usage.cost + usage.estimated_cost
    amounts = {"max_calls": usage.calls, "max_tokens": tokens, "max_cost": cost, "max_seconds": usage.seconds}
    for name, amount in amounts.items():
        limit = getattr(budget, name)
        if limit is not None and amount >= limit:
            raise BudgetExceededError(
                f"the budget is spent: {name} is {limit:,}, and the run has used {usage.calls} calls, {tokens:,} "
                f"tokens, ${cost:.4f} and {usage.seconds:.0f} seconds; raise {name} and resume the run"
            )
