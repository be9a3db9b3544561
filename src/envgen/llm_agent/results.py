"""The results of a language model as the agent, and what they cost."""

from pydantic import BaseModel, ConfigDict

from envgen.curriculum.evaluate import Evaluation
from envgen.designers.chat.usage import ChatUsage

from .questions import QUESTIONS
from .settings import LlmAgentSettings


class Result(BaseModel):
    """What is written to a JSON file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class EpisodeResult(Result):
    number: int
    seed: int
    reward: float
    length: int
    skills: dict[str, int]  # how often each succeeded; -1 if it was impossible
    first_success: dict[str, int]  # step of the first success
    unparsable: int  # answers from which no action could be read
    usage: ChatUsage


class LlmEvaluation(Result):
    """The results of a language model as the agent."""

    llm: str
    """The language model."""
    settings: LlmAgentSettings
    """How it was asked."""
    evaluation: Evaluation
    """The results of the episodes."""
    episodes: tuple[EpisodeResult, ...]
    """Each episode."""
    usage: ChatUsage
    """Calls, tokens and dollars of all episodes."""

    @property
    def unparsable(self) -> int:
        """Answers from which no action could be read."""
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
        lines += usage.table_rows(count)
        share = f"{100 * self.unparsable / steps:.1f}% of the steps" if steps else "no steps"
        lines.append(f"  {'unparsable answers':22} {self.unparsable / count:14,.1f} {self.unparsable:14,}  ({share})")
        return "\n".join(lines)
