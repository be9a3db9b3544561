"""A backend from how a person writes it: `openai:MODEL`, `anthropic:MODEL`, `manual`, `replay:RUN`."""

from pathlib import Path

from envgen.settings import nearest

from .anthropic import AnthropicBackend
from .manual import ManualBackend
from .openai import OpenAIBackend
from .protocol import Backend, ChatError
from .replay import ReplayBackend

FORMS = {
    "openai": "openai:MODEL, such as openai:gpt-5",
    "anthropic": "anthropic:MODEL, such as anthropic:claude-sonnet-5",
    "manual": "manual",
    "replay": "replay:RUN, with a run directory or its ledger",
}
KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


def backend_for(
    spec: str, base_url: str | None = None, folder: Path | None = None, timeout: float = 120, key_env: str | None = None
) -> Backend:
    """`folder` is where `manual` exchanges its files; `key_env` names the environment variable that holds the key."""
    kind, _, rest = spec.partition(":")
    if kind not in FORMS:
        raise ChatError(f"{nearest(kind, list(FORMS))}; write one of: {'; '.join(FORMS.values())}")
    if bool(rest) != (kind != "manual"):
        raise ChatError(f"{spec!r} is not complete; write {FORMS[kind]}" if not rest else f"write {FORMS[kind]} alone")
    if base_url and kind not in KEYS:
        raise ChatError(f"{kind} asks no server; leave the base_url out")
    if kind == "openai":
        return OpenAIBackend(rest, base_url, key_env or KEYS[kind], timeout)
    if kind == "anthropic":
        return AnthropicBackend(rest, base_url, key_env or KEYS[kind], timeout)
    if kind == "replay":
        return ReplayBackend(Path(rest))
    if folder is None:
        raise ChatError("manual needs a folder for its requests and replies")
    return ManualBackend(folder)
