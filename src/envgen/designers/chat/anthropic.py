"""Anthropic's messages. A schema is sent as a tool that the model must call; the call's input is the reply.

Models that cannot be made to call a tool (Opus 5.5, Fable 5.1) are offered it, and may answer in text instead.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from .protocol import Ask, ChatError, Reply, Usage
from .server import Server, count

TOOL = "proposal"


class AnthropicBackend(Server):
    words: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "force": ("tool_choice",),
        "schema": ("tools", "input_schema"),
        "temperature": ("temperature",),
    }

    def __init__(
        self, model: str, base_url: str | None = None, key_env: str = "ANTHROPIC_API_KEY", timeout: float = 120
    ):
        try:
            import anthropic

            from .bounds import client
        except ImportError:
            needs = "the Anthropic backend needs the library anthropic: pip install 'envgen[anthropic]'"
            raise ChatError(needs) from None
        base_url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or None
        if base_url:  # the library adds the version that OpenAI's addresses end in
            base_url = base_url.rstrip("/").removesuffix("/v1")
        super().__init__(f"anthropic:{model}", base_url, key_env, timeout, anthropic)
        self.model = model
        if base_url is None:  # Anthropic's own servers take no temperature since October 2026; others' may
            self._without = frozenset({"temperature"})
        self._client = anthropic.Anthropic(
            api_key=self.key, base_url=base_url, timeout=timeout, max_retries=0, http_client=client(timeout)
        )

    def post(self, ask: Ask, without: frozenset[str]) -> Any:
        options: dict[str, Any] = {}
        system = "\n\n".join(message.content for message in ask.messages if message.role == "system")
        if system:
            options["system"] = system
        if ask.temperature is not None and "temperature" not in without:
            options["extra_body"] = {"temperature": ask.temperature}
        if ask.schema is not None and "schema" not in without:
            options["tools"] = [{"name": TOOL, "description": "Hand in the proposal.", "input_schema": ask.schema}]
            options["tool_choice"] = {"type": "auto"} if "force" in without else {"type": "tool", "name": TOOL}
        messages: Any = [message.model_dump() for message in ask.messages if message.role != "system"]
        create = self._client.messages.with_raw_response.create
        return create(model=self.model, messages=messages, max_tokens=ask.max_tokens, **options)

    def reply(self, body: dict[str, Any]) -> Reply:
        blocks, usage = body["content"] or [], body.get("usage") or {}
        calls = [block["input"] for block in blocks if block.get("type") == "tool_use" and block.get("name") == TOOL]
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        prompt = [count(usage.get(f"{kind}input_tokens")) for kind in ("", "cache_creation_", "cache_read_")]
        model, finish = body.get("model"), body.get("stop_reason")
        return Reply(
            text=json.dumps(calls[0], ensure_ascii=False) if calls else "".join(texts),
            model=model if isinstance(model, str) else self.model,
            usage=Usage(
                prompt_tokens=None if prompt[0] is None else sum(tokens or 0 for tokens in prompt),
                reply_tokens=count(usage.get("output_tokens")),
            ),
            finish=finish if isinstance(finish, str) else None,
        )
