"""The parts of a conversation with a language model: a `ChatRequest`, its `Reply` and the `Backend` that turns one into
the other, with the errors that can happen in between.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, field_validator

from envgen.errors import EnvgenError

MAX_REPLY_CHARS = 200_000  # longer replies are cut, so that a model that never stops cannot fill the disk


class ChatError(EnvgenError):
    """The conversation cannot continue. The message says why and what to do."""


class RetryableError(ChatError):
    """The server did not accept the request, so nothing was charged. It may accept it later."""

    def __init__(self, message: str, retry_after: float | None = None):
        super().__init__(message)
        self.retry_after = retry_after  # seconds, if the server gave them


class AmbiguousError(ChatError):
    """The request was sent, but no readable answer came back. It may have been charged."""


class RejectedError(ChatError):
    """The server rejects this request for good: a wrong key, an unknown model."""

    def __init__(self, message: str, status: int | None = None):
        super().__init__(message)
        self.status = status


class BudgetExceededError(ChatError):
    """A limit of the budget is reached. Nothing was sent."""


class ChatModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Message(ChatModel):
    role: Literal["system", "user", "assistant"]
    content: str


class ChatRequest(ChatModel):
    """The conversation so far, with the newest message last, and how to answer it."""

    messages: tuple[Message, ...] = Field(min_length=1)
    json_schema: dict[str, Any] | None = None  # of the reply
    max_tokens: int = Field(default=8192, gt=0)  # of the reply
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @property
    def digest(self) -> str:
        """A hash that is equal for equal requests, in every process and on every machine."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


class Usage(ChatModel):
    """What a call used, as reported by the server. None: not reported."""

    prompt_tokens: int | None = Field(default=None, ge=0)
    reply_tokens: int | None = Field(default=None, ge=0)
    cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)  # dollars


class Reply(ChatModel):
    text: str  # empty if the model said nothing
    model: str
    usage: Usage = Usage()
    finish: str | None = None  # the server's finish reason: "stop", "length", ...

    @field_validator("text", mode="before")
    @classmethod
    def _make_storable(cls, text: object) -> object:
        """Cut overlong text and replace lone surrogates, which cannot be encoded."""
        return text[:MAX_REPLY_CHARS].encode(errors="replace").decode() if isinstance(text, str) else text


class Backend(Protocol):
    """Answers requests. Subclass it to inherit the defaults of the optional members."""

    name: str
    """Such as "openai:gpt-5"."""
    free: bool = False
    """Whether requests are never charged."""
    secrets: Sequence[str] = ()
    """Strings to redact from everything that is written or shown."""

    def send(self, request: ChatRequest) -> Reply:
        """Send the request once and return the reply.

        Raises:
            RetryableError, AmbiguousError or RejectedError. The caller decides whether to send again.
        """
        ...

    def mark_answered(self, request: ChatRequest) -> None:
        """Called instead of `send` for each request that the ledger answered."""
