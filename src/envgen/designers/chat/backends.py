"""Chat servers behind HTTP: OpenAI's and Anthropic's protocols, and `make_backend`, which parses `openai:MODEL`,
`anthropic:MODEL`, `manual` and `replay:RUN`.
"""

import functools
import json
import math
import os
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from envgen.settings import format_choice_error
from envgen.text import printable

from .offline import ManualBackend, ReplayBackend
from .protocol import (
    AmbiguousError,
    Backend,
    ChatError,
    ChatRequest,
    ConnectionSetupError,
    Message,
    RejectedError,
    Reply,
    RetryableError,
    ToolCall,
    Usage,
    read_key,
    redact,
    redact_url,
    secret_forms,
)

if TYPE_CHECKING:
    from .http import Deadline

LLM_FORMS = {
    "openai": "openai:MODEL, such as openai:gpt-5",
    "anthropic": "anthropic:MODEL, such as anthropic:claude-sonnet-5",
    "manual": "manual",
    "replay": "replay:RUN, with a run directory or its ledger",
}
KEY_VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}

CONNECT_ERRORS = ("ConnectError", "ConnectTimeout", "PoolTimeout")  # names in httpx2; nothing was sent
RETRYABLE_STATUS = (408, 409, 425, 429)
GATEWAY_TIMEOUTS = (504, 524)  # the gateway forwarded the request, so it may have been charged
MAX_MESSAGE_CHARS = 300  # of a server's error message
MAX_TOKENS = 10**9  # a larger number is not a token count
TOOL = "reply"  # the tool whose input is the reply, where there is a schema
SECRET_HEADERS = ("auth", "cookie", "credential", "key", "password", "secret", "token")  # in their names


def make_backend(
    llm: str, base_url: str | None = None, folder: Path | None = None, timeout: float = 120, key_env: str | None = None
) -> Backend:
    """Build the backend that `llm` names.

    Args:
        llm: `openai:MODEL`, `anthropic:MODEL`, `manual` or `replay:RUN`.
        base_url: The server, if not the provider's own.
        folder: Where `manual` exchanges its files.
        timeout: Seconds in which a reply must be complete.
        key_env: The environment variable that holds the key, if not the provider's usual one.
    """
    kind, _, argument = llm.partition(":")
    if kind not in LLM_FORMS:
        raise ChatError(
            f"llm {format_choice_error(kind, list(LLM_FORMS))}; valid forms: {'; '.join(LLM_FORMS.values())}"
        )
    if bool(argument) != (kind != "manual"):
        raise ChatError(
            f"{llm!r} is not valid: {LLM_FORMS[kind]} takes no argument"
            if argument
            else f"{llm!r} is incomplete; write {LLM_FORMS[kind]}"
        )
    for name, value in (("base_url", base_url), ("key_env", key_env)):
        if value and kind not in KEY_VARIABLES:
            raise ChatError(f"{kind} uses no server; remove {name}")
    if kind == "openai":
        return OpenAIBackend(argument, base_url, key_env or KEY_VARIABLES[kind], timeout)
    if kind == "anthropic":
        return AnthropicBackend(argument, base_url, key_env or KEY_VARIABLES[kind], timeout)
    if kind == "replay":
        return ReplayBackend(Path(argument))
    if folder is None:
        raise ChatError("manual needs a folder for its requests and replies")
    return ManualBackend(folder)


def _usage(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a response says about its tokens; empty if nothing."""
    usage = body.get("usage")
    return usage if isinstance(usage, dict) else {}


class HttpBackend(Backend):
    """A chat server. A part of a request that it reports as unsupported is left out of later ones, too.

    Several threads may use one.
    """

    optional_parts: ClassVar[Mapping[str, tuple[str, ...]]]  # part of a request: the names that servers give it

    def __init__(
        self, name: str, base_url: str | None, key_env: str, timeout: float, library: Any, secrets: Iterable[str] = ()
    ):
        self.name, self.base_url, self.key_env = name, base_url, key_env
        self.timeout = self._timeout = timeout
        self.label = f"{name} at {redact_url(base_url)}" if base_url else name
        self.key = read_key(key_env, base_url)
        self.secrets = secret_forms(self.key, base_url, secrets)
        self._library, self._unsupported = library, frozenset[str]()

    @abstractmethod
    def post(self, client: Any, request: ChatRequest, unsupported: frozenset[str]) -> bytes:
        """Send the request without its unsupported parts through this client of httpx2, and return the response's body.

        Called in a thread of its own.
        """

    @abstractmethod
    def parse_response(self, body: dict[str, Any], request: ChatRequest) -> Reply:
        """The reply in the body of a response.

        Raises TypeError, KeyError, AttributeError, IndexError or ValueError if the body has the wrong shape.
        """

    def send(self, request: ChatRequest) -> Reply:
        from .http import Deadline

        unsupported, deadline = self._unsupported, Deadline(self._timeout)
        while True:
            try:
                body = self._exchange(request, unsupported, deadline)
            except RejectedError as error:
                part = self._rejected_part(error, request, unsupported)
                if part is None:
                    raise
                unsupported |= {part}
                continue
            if new := unsupported - self._unsupported - {"limit", "force"}:
                parts = " and ".join(f"no {part}" for part in sorted(new))
                print_once(f"{self.label} takes {parts}; requests are sent without")
            self._unsupported |= unsupported  # only now that leaving them out has helped
            try:
                return self.parse_response(body, request).for_record(self.secrets)
            except (TypeError, KeyError, AttributeError, IndexError, ValueError, RecursionError):
                raise AmbiguousError(f"{self.label} sent JSON of an unexpected shape: {self._quote(body)}") from None

    def _rejected_part(self, error: RejectedError, request: ChatRequest, unsupported: frozenset[str]) -> str | None:
        """The optional part of the request that caused the error."""
        parts = [part for part in self.optional_parts if part not in unsupported and self._is_sent(part, request)]
        message = str(error).replace(self.label, "").lower()
        if error.status in (400, 404, 422):
            for part in parts:
                if any(word in message for word in self.optional_parts[part]):
                    return part
        # Few servers name the schema when they do not support it.
        return "schema" if error.status in (400, 422) and "schema" in parts else None

    @staticmethod
    def _is_sent(part: str, request: ChatRequest) -> bool:
        if part == "schema":
            return request.json_schema is not None
        return part != "temperature" or request.temperature is not None

    def _exchange(self, request: ChatRequest, unsupported: frozenset[str], deadline: "Deadline") -> dict[str, Any]:
        from .http import call_with_deadline

        library = self._library
        try:
            content = call_with_deadline(lambda client: self.post(client, request, unsupported), deadline)
        except library.APIStatusError as error:
            body = self._decode(error.response.content)
            raise self._status_error(error.status_code, body, error.response.headers) from None
        except library.APIConnectionError as error:  # includes timeouts
            if isinstance(error.__cause__, AmbiguousError):  # from http.py; only one of the libraries wraps it
                raise AmbiguousError(f"{self.label}: {error.__cause__}") from None
            cause = type(error.__cause__).__name__
            if cause in CONNECT_ERRORS:
                raise RetryableError(f"{self.label} cannot be reached ({cause}); is the server running?") from None
            raise AmbiguousError(f"{self.label} closed the connection in the middle of a response ({cause})") from None
        except (AmbiguousError, ConnectionSetupError, RetryableError) as error:
            raise type(error)(f"{self.label}: {error}") from None
        body = self._decode(content)
        if isinstance(body, str):
            raise AmbiguousError(f"{self.label} sent something that is not JSON: {self._quote(body)!r}")
        if not isinstance(body, dict):
            raise AmbiguousError(f"{self.label} sent JSON of an unexpected shape: {self._quote(body)}")
        if body.get("error") and "choices" not in body:  # some gateways wrap an upstream error in a 200
            code = body["error"].get("code") if isinstance(body["error"], dict) else None
            if not isinstance(code, int) or code < 400:
                raise AmbiguousError(f"{self.label} sent an error: {self._quote(error_message(body))}")
            raise self._status_error(code, body, {})
        return body

    def _decode(self, content: bytes) -> Any:
        """The body of a response without secrets: a JSON value, or text if it is not JSON."""
        try:
            return redact(json.loads(content), self.secrets)
        except (ValueError, RecursionError):
            return redact(content.decode(json.detect_encoding(content), errors="replace"), self.secrets)

    def _quote(self, body: Any) -> str:
        """The start of a body, for an error message."""
        return _shorten(redact(body if isinstance(body, str) else json.dumps(body), self.secrets))

    def _status_error(self, status: int, body: Any, headers: Mapping[str, str]) -> ChatError:
        full_message = error_message(body)
        message = self._quote(full_message)
        if status in GATEWAY_TIMEOUTS:
            return AmbiguousError(f"{self.label} lost the request ({status}: {message})")
        if (status in RETRYABLE_STATUS or status >= 500) and "insufficient_quota" not in full_message:
            return RetryableError(f"{self.label} is busy ({status}: {message})", parse_retry_after(headers))
        advice = "sending it again would not help; correct what the message names"
        if status in (401, 403):
            advice = f"set {self.key_env} to a valid key for this server"
        elif status == 404:
            advice = "check the model's name and base_url"
        elif status < 400:
            advice = "it redirects, and redirects are not followed; check base_url"
        return RejectedError(
            f"{self.label} rejected the request ({status}: {message}); {advice}, then resume the run", status
        )


class OpenAIBackend(HttpBackend):
    """A server with OpenAI's chat completions: OpenAI itself, OpenRouter, vLLM, Ollama, llama.cpp, ..."""

    optional_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "schema": ("response_format", "json_schema"),
        "temperature": ("temperature",),
        "limit": ("max_tokens", "max_completion_tokens"),  # not left out, but sent under its other name
    }

    def __init__(self, model: str, base_url: str | None = None, key_env: str = "OPENAI_API_KEY", timeout: float = 120):
        try:
            import openai
            from openai.resources.chat import completions  # noqa: F401  slow: not within the deadline of a call

            from . import http  # noqa: F401  needs httpx2, which openai installs
        except ImportError:
            raise ChatError("the OpenAI backend needs the openai package: pip install 'envgen[llm]'") from None
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        super().__init__(f"openai:{model}", base_url, key_env, timeout, openai)
        self.model = model
        # OpenAI's newer models require the new name; other servers often know only the old one.
        self._limit = ("max_tokens", "max_completion_tokens") if base_url else ("max_completion_tokens", "max_tokens")

    def post(self, client: Any, request: ChatRequest, unsupported: frozenset[str]) -> bytes:
        options: dict[str, Any] = {self._limit["limit" in unsupported]: request.max_tokens}
        if request.temperature is not None and "temperature" not in unsupported:
            options["temperature"] = request.temperature
        if request.json_schema is not None and "schema" not in unsupported:
            schema = {"name": TOOL, "strict": False, "schema": request.json_schema}
            options["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.tools:
            options["tools"] = [{"type": "function", "function": tool.model_dump()} for tool in request.tools]
        messages: Any = [_to_openai_message(message) for message in request.messages]
        openai = self._library.OpenAI(
            api_key=self.key, base_url=self.base_url, timeout=client.timeout, max_retries=0, http_client=client
        )
        create = openai.chat.completions.with_raw_response.create
        return create(model=self.model, messages=messages, **options).http_response.content

    def parse_response(self, body: dict[str, Any], request: ChatRequest) -> Reply:
        choices, usage = body["choices"] or [{}], _usage(body)
        message = choices[0].get("message") or {}
        model, finish = body.get("model"), choices[0].get("finish_reason")
        if choices[0].get("error") or finish == "error":  # how OpenRouter reports that a provider failed
            raise AmbiguousError(f"{self.label} sent an error: {self._quote(error_message(choices[0].get('error')))}")
        return Reply(
            text=_join_parts(message.get("content")) or _join_parts(message.get("refusal")),
            model=model if isinstance(model, str) else self.model,
            usage=Usage(
                prompt_tokens=parse_tokens(usage.get("prompt_tokens")),
                cached_tokens=_cached_tokens(usage),
                reply_tokens=_reply_tokens(usage),
                cost=parse_dollars(usage.get("cost")),
            ),
            finish=finish if isinstance(finish, str) else None,
            tool_calls=tuple(
                ToolCall(
                    id=call.get("id") or "", name=call["function"]["name"],
                    arguments=_to_json_text(call["function"].get("arguments")),
                )
                for call in message.get("tool_calls") or []
            ),
        )  # fmt: skip


class AnthropicBackend(HttpBackend):
    """Anthropic's messages API. A schema is sent as a tool that the model must call; the tool's input is the reply.

    Models that do not support a forced tool call (Opus 5.5, Fable 5.1) are offered the tool and may answer in text.
    """

    optional_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "force": ("tool_choice",),
        "schema": ("tools", "input_schema"),
        "temperature": ("temperature",),
    }

    def __init__(
        self, model: str, base_url: str | None = None, key_env: str = "ANTHROPIC_API_KEY", timeout: float = 120
    ):
        try:
            import anthropic
            from anthropic.resources import messages  # noqa: F401  slow: not within the deadline of a call

            from . import http  # noqa: F401  needs httpx2, which anthropic installs
        except ImportError:
            install = "pip install 'envgen[anthropic]'"
            raise ChatError(f"the Anthropic backend needs the anthropic package: {install}") from None
        base_url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or None
        if base_url:  # the library appends the version with which OpenAI-style addresses end
            base_url = base_url.rstrip("/").removesuffix("/v1")
        super().__init__(f"anthropic:{model}", base_url, key_env, timeout, anthropic, _secret_headers())
        self.model = model
        if base_url is None:  # since October 2026 Anthropic's own servers accept no temperature
            self._unsupported = frozenset({"temperature"})

    def post(self, client: Any, request: ChatRequest, unsupported: frozenset[str]) -> bytes:
        options: dict[str, Any] = {}
        system = "\n\n".join(message.content for message in request.messages if message.role == "system")
        if system:
            options["system"] = system
        if request.temperature is not None and "temperature" not in unsupported:
            options["extra_body"] = {"temperature": request.temperature}
        if request.json_schema is not None and "schema" not in unsupported:
            tool = {"name": TOOL, "description": "Submit the reply.", "input_schema": request.json_schema}
            options["tools"] = [tool]
            options["tool_choice"] = {"type": "auto"} if "force" in unsupported else {"type": "tool", "name": TOOL}
        if request.tools:
            options["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in request.tools
            ]
        messages: Any = _to_anthropic_messages(request.messages)
        anthropic = self._library.Anthropic(
            api_key=self.key, base_url=self.base_url, timeout=client.timeout, max_retries=0, http_client=client
        )
        create = anthropic.messages.with_raw_response.create
        response = create(model=self.model, messages=messages, max_tokens=request.max_tokens, **options)
        return response.http_response.content

    def parse_response(self, body: dict[str, Any], request: ChatRequest) -> Reply:
        blocks, usage = body["content"] or [], _usage(body)
        tool_uses = [block for block in blocks if block.get("type") == "tool_use"]
        reply_tool = None if request.tools else TOOL  # which is not offered beside tools of the request
        replies = [block["input"] for block in tool_uses if reply_tool and block.get("name") == reply_tool]
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        prompt = [parse_tokens(usage.get(f"{kind}input_tokens")) for kind in ("", "cache_creation_", "cache_read_")]
        model, finish = body.get("model"), body.get("stop_reason")
        return Reply(
            text=json.dumps(replies[0], ensure_ascii=False) if replies else "".join(texts),
            model=model if isinstance(model, str) else self.model,
            usage=Usage(
                prompt_tokens=None if prompt[0] is None else sum(tokens or 0 for tokens in prompt),
                cached_tokens=prompt[2],
                reply_tokens=parse_tokens(usage.get("output_tokens")),
            ),
            finish=finish if isinstance(finish, str) else None,
            tool_calls=tuple(
                ToolCall(id=block.get("id") or "", name=block["name"], arguments=_to_json_text(block.get("input")))
                for block in tool_uses
                if block.get("name") not in (None, reply_tool)
            ),
        )


@functools.cache
def print_once(message: str) -> None:
    """Print a message, but not again: several conversations may have the same server."""
    print(message)


def _secret_headers() -> Iterator[str]:
    """The values of the headers that the anthropic library adds from the environment, if they may be secret."""
    for line in os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "").split("\n"):
        name, _, value = line.partition(":")
        if any(word in name.lower() for word in SECRET_HEADERS):
            yield value.strip()
            yield value.split()[-1] if value.split() else ""  # without the scheme, such as Bearer


def _reply_tokens(usage: Mapping[str, Any]) -> int | None:
    """The tokens of a reply and its reasoning. Some servers count reasoning only in the total."""
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    prompt, completion, total = (parse_tokens(usage.get(name)) for name in names)
    if prompt is None or completion is None or total is None:
        return completion
    return max(completion, total - prompt)


def _cached_tokens(usage: Mapping[str, Any]) -> int | None:
    """The tokens of the prompt that the server read from its cache."""
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict):
        return parse_tokens(details.get("cached_tokens"))
    return parse_tokens(usage.get("prompt_cache_hit_tokens"))  # DeepSeek


def _to_openai_message(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = message.model_dump()
    if message.tool_calls:
        fields["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return fields


def _to_anthropic_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages without system messages. Results of tools are parts of a user message, all of a turn in one."""
    converted: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "tool":
            result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}
            if converted and converted[-1]["role"] == "user" and isinstance(converted[-1]["content"], list):
                converted[-1]["content"].append(result)
            else:
                converted.append({"role": "user", "content": [result]})
        elif message.tool_calls:
            texts = [{"type": "text", "text": message.content}] if message.content else []
            uses = [
                {"type": "tool_use", "id": call.id, "name": call.name, "input": _to_json_object(call.arguments)}
                for call in message.tool_calls
            ]
            converted.append({"role": "assistant", "content": [*texts, *uses]})
        elif message.role != "system":
            converted.append(message.model_dump())
    return converted


def _to_json_text(arguments: Any) -> str:
    """The arguments of a tool call as text. Some servers send the JSON value itself."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)


def _to_json_object(arguments: str) -> dict[str, Any]:
    """The arguments of a tool call as Anthropic wants them; empty if they are not a JSON object."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _join_parts(content: Any) -> str:
    if isinstance(content, list):  # some servers send text in parts
        return "".join(part["text"] for part in content if part.get("type") == "text")
    return content or ""


def _shorten(text: str) -> str:
    """The start of a text from which all secrets were removed, as one printable line."""
    text = printable(" ".join(text.split()))
    return text if len(text) <= MAX_MESSAGE_CHARS else f"{text[:MAX_MESSAGE_CHARS]}..."


def error_message(body: Any) -> str:
    """The message of an error response, of any length. Servers put it in different places, and some repeat the whole
    request in it.
    """
    if isinstance(body, dict) and isinstance(body.get("error"), dict | str):
        body = body["error"]
    if not isinstance(body, dict):
        return str(body or "no message")
    message = body.get("message") or body.get("detail") or body.get("title") or "no message"
    if isinstance(message, list):  # FastAPI's validation errors, which also contain the input
        errors = [item for item in message if isinstance(item, dict)]
        message = "; ".join(f"{_join_path(item.get('loc'))} {item.get('msg')}" for item in errors)
    details = [
        body[key] for key in ("code", "param") if isinstance(body.get(key), str) and body[key] not in str(message)
    ]
    return f"{message} ({', '.join(details)})" if details else str(message)


def _join_path(path: Any) -> str:
    return ".".join(map(str, path)) if isinstance(path, list) else str(path)


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from either form of the Retry-After header."""
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def parse_tokens(value: Any) -> int | None:
    """A token count, or None if the value is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS else None


def parse_dollars(value: Any) -> float | None:
    """An amount of dollars, or None if the value is not one."""
    is_valid = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if is_valid else None
