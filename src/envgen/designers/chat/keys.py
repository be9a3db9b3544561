"""Keys: read from the environment only, and hidden in whatever is written or said."""

import os
from base64 import b64encode
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote, urlsplit

from .protocol import ChatError

HIDDEN = "[key]"
PLACEHOLDER = "none"  # what a server that needs no key is sent
SHORTEST = 6  # shorter values ("none", "EMPTY") guard nothing and turn up in prose


def read_key(variable: str, base_url: str | None) -> str:
    key = os.environ.get(variable, "").strip()
    if not key and base_url is None:
        raise ChatError(f"set {variable} to a key, or give the base_url of a server that needs none")
    if not (key.isascii() and key.isprintable()):
        raise ChatError(f"{variable} holds characters that no key has; set it to the key alone")
    return key or PLACEHOLDER


def place(base_url: str) -> str:
    """The address as it may be shown: without the user and password that it may hold."""
    example = "write one such as http://localhost:8000/v1"
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ChatError(f"base_url is not an address; {example}") from None
    if parts.scheme not in ("http", "https") or not host:
        shown = "" if "@" in base_url else f" {base_url!r}"
        raise ChatError(f"base_url{shown} is not an address; {example}")
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}"


def secrets_of(key: str, base_url: str | None) -> tuple[str, ...]:
    """Every form in which the key, or the user and password in the address, may turn up; the longest first."""
    found = {key} if len(key) >= SHORTEST else set()
    user_info = urlsplit(base_url or "").netloc.rpartition("@")[0]
    for form in {user_info, unquote(user_info)} - {""}:
        user, _, password = form.partition(":")
        found |= {form, b64encode(f"{user}:{password}".encode()).decode()}
        found |= {password} if len(password) >= SHORTEST else set()
    return tuple(sorted(found, key=len, reverse=True))


def hide(value: Any, secrets: Iterable[str]) -> Any:
    """The same text, list or mapping with every secret replaced."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return value
    if isinstance(value, dict):
        return {hide(key, secrets): hide(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [hide(item, secrets) for item in value]
    return value
