"""The results of a language model as the agent, and what they cost."""

from collections.abc import Iterable
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from envgen.curriculum.evaluate import Evaluation
from envgen.designers.chat.ledger import UsageTotals

from .questions import QUESTIONS
from .settings import LlmAgentSettings


class Result(BaseModel):
    """What is written to a JSON file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AgentUsage(Result):
    """What the calls of an episode used. Tokens and dollars that the server did not report are estimated."""

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
    def combine(cls, usages: Iterable["AgentUsage"]) -> Self:
        totals = UsageTotals()
        for usage in usages:
            totals = totals.combine(usage.to_totals())
        return cls.from_totals(totals)

    def to_totals(self) -> UsageTotals:
        return UsageTotals(**self.model_dump())


class EpisodeResult(Result):
    number: int
    seed: int
    reward: float
    length: int
    skills: dict[str, int]  # how often each succeeded; -1 if it was impossible
    first_success: dict[str, int]  # step of the first success
    unparsable: int  # answers from which no action could be read
    usage: AgentUsage


class LlmEvaluation(Result):
    """The results of a language model as the agent."""

    llm: str
    settings: LlmAgentSettings
    evaluation: Evaluation
    episodes: tuple[EpisodeResult, ...]
    usage: AgentUsage  # of all these episodes

    @property
    def unparsable(self) -> int:
        return sum(episode.unparsable for episode in self.episodes)

    def __str__(self) -> str:
        return f"{self.evaluation}\n{self.usage_table()}"

    def usage_table(self) -> str:
        """Calls, tokens and dollars: per episode and in all."""
        usage, count = self.usage, len(self.episodes)
        steps = sum(episode.length for episode in self.episodes)
        questions = len(QUESTIONS[self.settings.questions])
        lines = [
            f"{self.llm}, {questions} question{'s' if questions > 1 else ''} per step",
            f"  {'':22} {'per episode':>14} {'total':>14}",
        ]
        amounts = {"calls": usage.calls, "prompt tokens": usage.prompt_tokens, "reply tokens": usage.reply_tokens}
        if usage.estimated_tokens:
            amounts["estimated tokens"] = usage.estimated_tokens
        lines += [f"  {name:22} {amount / count:14,.1f} {amount:14,}" for name, amount in amounts.items()]
        if usage.dollars is None:
            lines.append(
                f"  {'dollars':22} {'unknown':>14} {'unknown':>14}  (--price-prompt and --price-reply set prices)"
            )
        else:
            lines.append(f"  {'dollars':22} {usage.dollars / count:14,.4f} {usage.dollars:14,.4f}")
        lines.append(f"  {'seconds of waiting':22} {usage.seconds / count:14,.1f} {usage.seconds:14,.1f}")
        share = f"{100 * self.unparsable / steps:.1f}% of the steps" if steps else "no steps"
        lines.append(f"  {'unparsable answers':22} {self.unparsable / count:14,.1f} {self.unparsable:14,}  ({share})")
        return "\n".join(lines)


def format_dollars(dollars: float | None) -> str:
    """For a list: nothing if the cost is unknown."""
    return "" if dollars is None else f", ${dollars:.4f}"
