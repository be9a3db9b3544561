"""API keys: read from the environment only, and redacted from everything that is written or shown."""

import os
from base64 import b64encode
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, urlsplit

from .protocol import ChatError

REDACTED = "[key]"
PLACEHOLDER = "none"  # sent to servers that need no key
MIN_SECRET_CHARS = 6  # shorter values such as "none" and "EMPTY" protect nothing and occur in prose


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


def secret_forms(key: str, base_url: str | None) -> tuple[str, ...]:
    """Every form in which the key, or the user name and password of the address, can occur; the longest first."""
    forms = {key} if len(key) >= MIN_SECRET_CHARS else set()
    user_info = urlsplit(base_url or "").netloc.rpartition("@")[0]
    for form in {user_info, unquote(user_info)} - {""}:
        user, _, password = form.partition(":")
        forms |= {form, b64encode(f"{user}:{password}".encode()).decode()}
        forms |= {password} if len(password) >= MIN_SECRET_CHARS else set()
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def redact(value: Any, secrets: Iterable[str]) -> Any:
    """Replace every secret in a text, or in all texts of a list or mapping."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, REDACTED)
        return value
    if isinstance(value, dict):
        return {redact(key, secrets): redact(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redact(item, secrets) for item in value]
    return value
