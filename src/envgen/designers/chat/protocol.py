"""What a conversation with a language model is made of: an `Ask`, the `Reply` to it, and the `Backend` between them.

Not here: how an ask is sent (openai.py, anthropic.py, manual.py, replay.py), how it is remembered (ledger.py), and what
it may cost (budget.py, chat.py).
"""

import hashlib
import json
import warnings
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, field_validator

LONGEST = 200_000  # characters of a reply; no proposal is longer, and a model that babbles may not fill the disk


class ChatError(Exception):
    """The conversation cannot go on; the message says why and what to do."""


class Busy(ChatError):
    """The server did not take the request, which therefore cost nothing. It may take it later."""

    def __init__(self, message: str, wait: float | None = None):
        super().__init__(message)
        self.wait = wait  # seconds after which the server said to ask again


class Lost(ChatError):
    """The request was sent and no readable answer came back. It may have been charged."""


class Refused(ChatError):
    """The server does not want this request, now or later: a wrong key, an unknown model."""

    def __init__(self, message: str, status: int | None = None):
        super().__init__(message)
        self.status = status


class BudgetSpent(ChatError):
    """A cap is reached; nothing was sent."""


class Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Message(Value):
    role: Literal["system", "user", "assistant"]
    content: str


with warnings.catch_warnings():  # pydantic's own `schema` was replaced by model_json_schema long ago
    warnings.filterwarnings("ignore", "Field name", UserWarning)

    class Ask(Value):
        """One question: the conversation so far, whose last message is the newest."""

        messages: tuple[Message, ...] = Field(min_length=1)
        schema: dict[str, Any] | None = None  # pyright: ignore[reportIncompatibleMethodOverride]
        max_tokens: int = Field(default=8192, gt=0)  # of the reply
        temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)

        @property
        def digest(self) -> str:
            """The same for the same question, in every process and on every machine."""
            canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
            return hashlib.sha256(canonical.encode()).hexdigest()


class Usage(Value):
    """What a call used, as far as the server told."""

    prompt_tokens: int | None = Field(default=None, ge=0)
    reply_tokens: int | None = Field(default=None, ge=0)
    cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)  # dollars


class Reply(Value):
    text: str  # empty if the model said nothing
    model: str
    usage: Usage = Usage()
    finish: str | None = None  # in the server's words: "stop", "length", ...

    @field_validator("text", mode="before")
    @classmethod
    def _storable(cls, text: object) -> object:
        """Cut where it is absurdly long, and without halves of characters, which no file can hold."""
        return text[:LONGEST].encode(errors="replace").decode() if isinstance(text, str) else text


class Backend(Protocol):
    """Whatever answers.

    A backend may also have `free = True` (nothing it does is charged), `secrets` (strings that are hidden wherever they
    turn up), and `recalled(ask)`, which is called for each ask that was answered from the ledger instead of sent.
    """

    @property
    def name(self) -> str:
        """Such as "openai:gpt-5"."""
        ...

    def send(self, ask: Ask) -> Reply:
        """The reply, or Busy, Lost or Refused. Sends once; repeating is the caller's business."""
        ...
