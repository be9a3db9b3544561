"""The results of a language model as the agent, and what they cost."""

from envgen.curriculum.evaluate import Evaluation
from envgen.designers.chat.usage import ChatUsage
from envgen.settings import FrozenModel

from .questions import QUESTIONS
from .settings import LlmAgentSettings


class EpisodeResult(FrozenModel):
    """The results of one episode."""

    number: int
    """The number of the episode, from 1."""
    seed: int
    """Its seed."""
    reward: float
    """The sum of its rewards."""
    length: int
    """Its number of steps."""
    skills: dict[str, int]
    """How often each skill succeeded; -1 if it was impossible."""
    first_success: dict[str, int]
    """Skill: step of its first success."""
    unparsable: int
    """Answers from which no action could be read."""
    cut_off: int = 0
    """Replies that reached their maximum length; 0 in results of earlier versions."""
    usage: ChatUsage
    """Calls, tokens and dollars of the episode."""


class LlmEvaluation(FrozenModel):
    """The results of a language model as the agent."""

    llm: str
    """The language model."""
    settings: LlmAgentSettings
    """How it was asked."""
    evaluation: Evaluation
    """The results of the episodes."""
    episodes: tuple[EpisodeResult, ...]
    """The results of each episode."""
    usage: ChatUsage
    """Calls, tokens and dollars of all episodes."""

    @property
    def unparsable(self) -> int:
        """Answers from which no action could be read."""
        return sum(episode.unparsable for episode in self.episodes)

    def __repr__(self) -> str:  # every episode has its seed, skills and usage
        return f"<LlmEvaluation: {self.llm}, score {self.evaluation.score}, {self.evaluation.summary}>"

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
        if cut_off := sum(episode.cut_off for episode in self.episodes):
            advice = "raise max_reply_tokens, which includes reasoning"
            lines.append(f"  {'replies cut off':22} {cut_off / count:14,.1f} {cut_off:14,}  ({advice})")
        return "\n".join(lines)
