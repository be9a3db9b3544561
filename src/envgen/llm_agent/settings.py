"""The settings of a language model as the agent."""

from typing import Annotated

from pydantic import Field

from envgen.designers.chat.runtime import LlmRuntime
from envgen.settings import Settings

from .questions import QuestionSet

PARALLEL = 4


class LlmAgentSettings(Settings):
    """What a language model that plays is asked and told."""

    questions: QuestionSet = "chain"
    """Questions per step: nine that build on each other, as in SPRING (chain), or only one, for the action (direct)."""
    num_past_actions: Annotated[int, Field(ge=0, le=100)] = 8
    """How many of its most recent actions, with their results, the model is told about."""
    json_schema: bool = True
    """Ask the server to constrain the action to a JSON schema, if it can."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """The sampling temperature; the server's default if not set. Anthropic's own servers ignore it."""
    max_reply_tokens: Annotated[int, Field(ge=16)] = 2048
    """The maximum length of an answer, including the reasoning of models that bill it as part of the reply."""


class LlmAgentConfig(LlmRuntime, LlmAgentSettings):
    """Which language model plays, and how."""

    llm: str
    """openai:MODEL (any compatible server, with --base-url), anthropic:MODEL, manual, or replay:FOLDER (an
    earlier evaluation)."""
    parallel: Annotated[int, Field(ge=1, le=256)] | None = None
    """Episodes played at the same time. By default 4, or 1 with manual."""

    @property
    def agent_settings(self) -> LlmAgentSettings:
        return LlmAgentSettings(**{name: getattr(self, name) for name in LlmAgentSettings.model_fields})

    @property
    def num_workers(self) -> int:
        return self.parallel or (1 if self.llm == "manual" else PARALLEL)
