"""Any server that speaks OpenAI's chat completions: OpenAI itself, OpenRouter, vLLM, Ollama, llama.cpp, ..."""

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from .protocol import Ask, ChatError, Reply, Usage
from .server import Server, count, dollars


class OpenAIBackend(Server):
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "schema": ("response_format", "json_schema"),
        "temperature": ("temperature",),
        "limit": ("max_tokens", "max_completion_tokens"),  # left out means: called by its other name
    }

    def __init__(self, model: str, base_url: str | None = None, key_env: str = "OPENAI_API_KEY", timeout: float = 120):
        try:
            import openai

            from .bounds import client
        except ImportError:
            raise ChatError("the OpenAI backend needs the library openai: pip install 'envgen[llm]'") from None
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        super().__init__(f"openai:{model}", base_url, key_env, timeout, openai)
        self.model = model
        # OpenAI's newer models want the new name; others' servers often know only the old one.
        self._limit = ("max_tokens", "max_completion_tokens") if base_url else ("max_completion_tokens", "max_tokens")
        self._client = openai.OpenAI(
            api_key=self.key, base_url=base_url, timeout=timeout, max_retries=0, http_client=client(timeout)
        )

    def post(self, ask: Ask, without: frozenset[str]) -> Any:
        options: dict[str, Any] = {self._limit["limit" in without]: ask.max_tokens}
        if ask.temperature is not None and "temperature" not in without:
            options["temperature"] = ask.temperature
        if ask.schema is not None and "schema" not in without:
            form = {"name": "proposal", "strict": False, "schema": ask.schema}
            options["response_format"] = {"type": "json_schema", "json_schema": form}
        messages: Any = [message.model_dump() for message in ask.messages]
        completions = self._client.chat.completions.with_raw_response
        return completions.create(model=self.model, messages=messages, **options)

    def reply(self, body: dict[str, Any]) -> Reply:
        choices, usage = body["choices"] or [{}], body.get("usage") or {}
        message = choices[0].get("message") or {}
        model, finish = body.get("model"), choices[0].get("finish_reason")
        return Reply(
            text=_text(message.get("content")) or _text(message.get("refusal")),
            model=model if isinstance(model, str) else self.model,
            usage=Usage(
                prompt_tokens=count(usage.get("prompt_tokens")),
                reply_tokens=count(usage.get("completion_tokens")),
                cost=dollars(usage.get("cost")),
            ),
            finish=finish if isinstance(finish, str) else None,
        )


def _text(content: Any) -> str:
    if isinstance(content, list):  # some servers send it in parts
        return "".join(part["text"] for part in content if part.get("type") == "text")
    return content or ""
