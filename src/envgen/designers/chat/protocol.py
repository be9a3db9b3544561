"""The parts of a conversation with a language model: a `ChatRequest`, its `Reply` and the `Backend` that turns one into
the other, with the errors that can happen in between.

API keys are read from the environment only, and redacted from everything that is written or shown: after every
decoding, because a decoder can put a key together, and before every cut, because a part of a key is not recognized.
"""

import functools
import hashlib
import html
import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, Protocol
from urllib.parse import unquote, urlsplit

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer

from envgen.errors import EnvgenError
from envgen.settings import FrozenModel

FailureKind = Literal["retryable", "ambiguous", "rejected"]  # whether the same request may be sent again
MAX_REPLY_CHARS = 200_000  # longer replies are cut, so that a model that never stops cannot fill the disk
MAX_NAME_CHARS = 200  # of the model and the finish reason that a server reports
MAX_TOOL_CALLS = 256  # of a reply; more are cut
CUT_OFF = ("length", "max_tokens", "model_context_window_exceeded")  # finish reasons
REFUSED = ("content_filter", "refusal")
REDACTED = "[key]"
PLACEHOLDER = "none"  # sent to servers that need no key
MIN_SECRET_CHARS = 6  # shorter values such as "none" and "EMPTY" protect nothing and occur in prose


class ChatError(EnvgenError):
    """The conversation cannot continue. The message says why and what to do."""

    kind: ClassVar[FailureKind] = "rejected"


class RetryableError(ChatError):
    """The server did not accept the request, so nothing was charged. It may accept it later."""

    kind = "retryable"

    def __init__(self, message: str, retry_after: float | None = None):
        super().__init__(message)
        self.retry_after = retry_after  # seconds, if the server gave them


class AmbiguousError(ChatError):
    """The request was sent, but no readable answer came back. It may have been charged."""

    kind = "ambiguous"


class ConnectionSetupError(ChatError):
    """A connection could not be set up, for example because of a wrong proxy. Nothing was sent."""

    kind = "retryable"


class RejectedError(ChatError):
    """The server rejects this request for good: a wrong key, an unknown model."""

    def __init__(self, message: str, status: int | None = None):
        super().__init__(message)
        self.status = status


class BudgetExceededError(ChatError):
    """A limit of the budget is reached. Nothing was sent."""


def replace_surrogates(text: object) -> object:
    """Replace lone surrogates, which cannot be encoded, if this is a text."""
    return text.encode(errors="replace").decode() if isinstance(text, str) else text


class ModelWithToolFields(FrozenModel):
    """Omits empty fields that concern tools, so that digests and ledgers without tools do not change."""

    @model_serializer(mode="wrap")
    def _omit_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value or not name.startswith("tool")}


class Tool(FrozenModel):
    """A function that the model may call, with the JSON schema of its parameters."""

    name: str
    description: str = ""
    parameters: dict[str, Any]


class ToolCall(FrozenModel):
    """A call as the model wrote it. Nothing guarantees that the name exists or that the arguments are JSON."""

    id: str = ""
    name: str
    arguments: str

    @field_validator("id", "name", "arguments", mode="before")
    @classmethod
    def _make_storable(cls, text: object) -> object:
        return replace_surrogates(text)


class Message(ModelWithToolFields):
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()  # of an assistant
    tool_call_id: str | None = None  # of a tool: the call whose result this message holds

    @field_validator("content", mode="before")
    @classmethod
    def _make_sendable(cls, text: object) -> object:
        return replace_surrogates(text)


class ChatRequest(ModelWithToolFields):
    """The conversation so far, with the newest message last, and how to answer it."""

    messages: tuple[Message, ...] = Field(min_length=1)
    json_schema: dict[str, Any] | None = None  # of the reply
    max_tokens: int = Field(default=8192, gt=0)  # of the reply
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    tools: tuple[Tool, ...] = ()

    @property
    def digest(self) -> str:
        """A hash that is equal for equal requests, in every process and on every machine."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


class Usage(FrozenModel):
    """What a call used, as reported by the server. None: not reported."""

    prompt_tokens: int | None = Field(default=None, ge=0)
    cached_tokens: int | None = Field(default=None, ge=0)  # the part of the prompt that was read from a cache
    reply_tokens: int | None = Field(default=None, ge=0)
    cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)  # dollars


class Reply(ModelWithToolFields):
    text: str  # empty if the model said nothing
    model: str
    usage: Usage = Usage()
    finish: str | None = None  # the server's finish reason: "stop", "length", ...
    tool_calls: tuple[ToolCall, ...] = ()

    @field_validator("text", mode="before")
    @classmethod
    def _make_storable(cls, text: object) -> object:
        return replace_surrogates(text)

    @property
    def is_cut_off(self) -> bool:
        """Whether the reply, with the reasoning before it, reached its maximum length."""
        return self.finish in CUT_OFF

    @property
    def is_refusal(self) -> bool:
        """Whether the model or a filter of the server refused to answer."""
        return self.finish in REFUSED

    def for_record(self, secrets: Sequence[str]) -> "Reply":
        """This reply without secrets, then cut to the length that is recorded."""
        fields = redact(self.model_dump(), secrets)
        return Reply.model_validate({
            **fields,
            "text": fields["text"][:MAX_REPLY_CHARS],
            "model": fields["model"][:MAX_NAME_CHARS],
            "finish": fields["finish"] and fields["finish"][:MAX_NAME_CHARS],
            "tool_calls": [
                {name: value[:MAX_REPLY_CHARS] for name, value in call.items()}
                for call in fields.get("tool_calls", [])[:MAX_TOOL_CALLS]
            ],
        })  # fmt: skip


class Backend(Protocol):
    """Answers requests. Subclass it to inherit the defaults of the optional members."""

    name: str
    """Such as "openai:gpt-5"."""
    free: bool = False
    """Whether requests are never charged."""
    timeout: float | None = None
    """Seconds after which `send` gives up; None if it never does."""
    secrets: Sequence[str] = ()
    """Strings to redact from everything that is written or shown."""

    def send(self, request: ChatRequest) -> Reply:
        """Send the request once and return the reply.

        Raises:
            RetryableError, AmbiguousError, RejectedError or ConnectionSetupError. The caller decides whether to send
                again.
        """
        ...

    def mark_answered(self, request: ChatRequest) -> None:
        """Called instead of `send` for each request that the ledger answered."""


def read_key(variable: str, base_url: str | None) -> str:
    key = os.environ.get(variable, "").strip()
    if not key and base_url is None:
        raise ChatError(f"set {variable} to a key, or pass the base_url of a server that needs none")
    if not (key.isascii() and key.isprintable()):
        raise ChatError(f"{variable} contains characters that no key has; set it to the key alone")
    return key or PLACEHOLDER


def redact_url(base_url: str) -> str:
    """The address without the user name and password that it may contain."""
    example = "write an address such as http://localhost:8000/v1"
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ChatError(f"base_url is not an address; {example}") from None
    if parts.scheme not in ("http", "https") or not host:
        quoted = "" if "@" in base_url else f" {base_url!r}"
        raise ChatError(f"base_url{quoted} is not an address; {example}")
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}"


def secret_forms(key: str, base_url: str | None, others: Iterable[str] = ()) -> tuple[str, ...]:
    """Every form in which the key, other secrets, or the user name and password of the address can occur.

    The longest are first.
    """
    forms = {secret for secret in (key, *others) if len(secret) >= MIN_SECRET_CHARS}
    user_info = urlsplit(base_url or "").netloc.rpartition("@")[0]
    for form in {user_info, unquote(user_info)} - {""}:
        user, _, password = form.partition(":")
        forms |= {form, b64encode(f"{user}:{password}".encode()).decode()}
        forms |= {password} if len(password) >= MIN_SECRET_CHARS else set()
    numbers = {form.lstrip("0") for form in forms if form.isdecimal()}  # how JSON writes a key of digits as a number
    forms |= {number for number in numbers if len(number) >= MIN_SECRET_CHARS}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def redact(value: Any, secrets: Iterable[str]) -> Any:
    """Replace every secret in a text, or in all texts of a list or mapping, even where its characters are escaped."""
    secrets = tuple(secrets)
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, REDACTED)
        if secrets and ESCAPES.search(value):
            value = _escaped_pattern(secrets).sub(REDACTED, value)
        return value
    if isinstance(value, dict):
        return {redact(key, secrets): redact(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item, secrets) for item in value]
    return value


ESCAPES = re.compile(r"[\\%&]")


@functools.lru_cache(maxsize=16)
def _escaped_pattern(secrets: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the secrets, with any of its characters escaped as in JSON, Python, an address or HTML.

    A needless backslash is an escape too: the repair of broken JSON removes it. Text that is escaped several times has
    several backslashes.
    """
    return re.compile("|".join("".join(map(_escaped_char, secret)) for secret in secrets))


def _escaped_char(char: str) -> str:
    code, backslashes = ord(char), r"\\{0,8}" if char == "\\" else r"\\{0,8}+"
    forms = [
        rf"{backslashes}(?:{re.escape(char)}|(?i:u{code:04x}|x{code:02x}))",
        "".join(f"(?i:%{byte:02x})" for byte in char.encode(errors="replace")),
        f"(?i:&#(?:0{{0,4}}{code}|x0{{0,4}}{code:x});)",
    ]
    if html.escape(char) != char:
        forms.append(re.escape(html.escape(char)))
    return f"(?:{'|'.join(forms)})"
