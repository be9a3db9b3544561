"""What a conversation may cost, and what it has cost."""

from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from envgen.settings import Settings

from .protocol import Ask, BudgetSpent

LETTERS = 4  # characters a token, where the server does not tell how many tokens a text has


class Budget(Settings):
    """Caps on a run's conversation, checked before each sending and counted across resumes.

    A call whose use the server never told counts as the most it may have used. The last call may still go over a cap
    on tokens, cost or seconds, as nobody knows before what it takes.
    """

    max_calls: int | None = Field(default=None, gt=0)
    """Requests that may have been charged; those that a busy server turned away do not count."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Tokens of all requests and replies together."""
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Dollars, by the server's own account or else by the prices given."""
    max_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Seconds spent waiting for answers."""


class Prices(BaseModel):
    """Dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: float = Field(ge=0, allow_inf_nan=False)
    reply: float = Field(ge=0, allow_inf_nan=False)

    def of(self, prompt_tokens: int, reply_tokens: int) -> float:
        return (self.prompt * prompt_tokens + self.reply * reply_tokens) / 1e6


class Totals(NamedTuple):
    """What was used, as far as it is known; the guesses are the most that the rest may have used."""

    calls: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    guessed_tokens: int = 0
    guessed_cost: float = 0.0

    def plus(self, **more: float) -> "Totals":
        return self._replace(**{name: getattr(self, name) + value for name, value in more.items()})


def guess(ask: Ask, text: str | None = None) -> tuple[int, int]:
    """The tokens of a request and its reply whose server told nothing; without a reply, the most it may have had."""
    prompt = sum(len(message.content) for message in ask.messages) // LETTERS + 1
    return prompt, ask.max_tokens if text is None else len(text) // LETTERS + 1


def check(budget: Budget, used: Totals) -> None:
    """Raise BudgetSpent if there is nothing left of something."""
    tokens = used.prompt_tokens + used.reply_tokens + used.guessed_tokens
    cost = used.cost + used.guessed_cost
    spent = {"max_calls": used.calls, "max_tokens": tokens, "max_cost": cost, "max_seconds": used.seconds}
    for cap, amount in spent.items():
        most = getattr(budget, cap)
        if most is not None and amount >= most:
            raise BudgetSpent(
                f"the budget is spent: {cap} is {most:,}, and the run has used {used.calls} calls, {tokens:,} tokens, "
                f"${cost:.4f} and {used.seconds:.0f} seconds; raise {cap} and resume the run"
            )
