"""What conversations used, as part of a result that is written to disk and printed."""

from collections.abc import Iterable
from typing import Self

from pydantic import Field

from envgen.settings import FrozenModel

from .ledger import UsageTotals


class ChatUsage(FrozenModel):
    """What some calls used. Tokens and dollars that the server did not report are estimated."""

    calls: int = Field(ge=0)
    prompt_tokens: int = Field(ge=0)
    reply_tokens: int = Field(ge=0)
    cost: float = Field(ge=0, allow_inf_nan=False)
    seconds: float = Field(ge=0, allow_inf_nan=False)
    estimated_tokens: int = Field(ge=0)
    estimated_cost: float = Field(ge=0, allow_inf_nan=False)
    unpriced_calls: int = Field(ge=0)

    @property
    def dollars(self) -> float | None:
        """The whole cost; None if it is not known for every call."""
        return None if self.unpriced_calls else self.cost + self.estimated_cost

    @classmethod
    def from_totals(cls, totals: UsageTotals) -> Self:
        return cls(**totals._asdict())

    @classmethod
    def combine(cls, usages: Iterable["ChatUsage"]) -> Self:
        totals = UsageTotals()
        for usage in usages:
            totals = totals.combine(usage.to_totals())
        return cls.from_totals(totals)

    def to_totals(self) -> UsageTotals:
        return UsageTotals(**self.model_dump())

    def table_rows(self, count: int) -> list[str]:
        """Lines of a table with the mean over `count` episodes or items, and the total."""
        amounts = {"calls": self.calls, "prompt tokens": self.prompt_tokens, "reply tokens": self.reply_tokens}
        if self.estimated_tokens:
            amounts["estimated tokens"] = self.estimated_tokens
        lines = [f"  {name:22} {amount / count:14,.1f} {amount:14,}" for name, amount in amounts.items()]
        if self.dollars is None:
            lines.append(
                f"  {'dollars':22} {'unknown':>14} {'unknown':>14}  (--price-prompt and --price-reply set prices)"
            )
        else:
            lines.append(f"  {'dollars':22} {self.dollars / count:14,.4f} {self.dollars:14,.4f}")
        lines.append(f"  {'seconds of waiting':22} {self.seconds / count:14,.1f} {self.seconds:14,.1f}")
        return lines


def format_dollars(dollars: float | None) -> str:
    """The last element of a list; empty if the cost is unknown."""
    return "" if dollars is None else f", ${dollars:.4f}"
