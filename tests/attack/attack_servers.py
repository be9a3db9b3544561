"""Misbehaving chat servers and echoed keys: every call ends in a reply or an error, and no part of a key leaks."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attacks import attack, work_folder
from key_echoes import KEYS, leaks, run_designer, sample_echo
from misbehaving_server import answer_with, call, sample_parts

from envgen.designers.chat.backends import AnthropicBackend, OpenAIBackend
from envgen.designers.chat.protocol import AmbiguousError, RejectedError, Reply, RetryableError
from fake_llm_server import FakeLlmServer

TIMEOUT = 60  # seconds of a call; the servers of this attack all answer at once
MAX_SECONDS = 20
ERRORS = (RetryableError, AmbiguousError, RejectedError)
VARIABLES = tuple(f"{vendor}_{name}" for vendor in ("OPENAI", "ANTHROPIC") for name in ("API_KEY", "BASE_URL"))


@contextmanager
def api_key(key: str) -> Iterator[None]:
    """Set the key of both vendors, and no other server."""
    before = {name: os.environ.pop(name, None) for name in VARIABLES}
    os.environ.update({name: key for name in VARIABLES if name.endswith("API_KEY")})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def check_result(result: Any, seconds: float, label: str) -> str:
    """What is wrong with the reply or error of a call."""
    if seconds > MAX_SECONDS:
        return f"it took {seconds:.0f} seconds"
    if isinstance(result, Reply):
        tokens = max(result.usage.prompt_tokens or 0, result.usage.reply_tokens or 0)
        is_limited = len(result.text) <= 200_000 and len(result.model) <= 200 and tokens <= 10**10
        return "" if is_limited else f"a reply of {len(result.text):,} characters and {tokens:,} tokens"
    message = str(result)
    if type(result) not in ERRORS:
        return f"{result!r:.200}"
    if not message.startswith(label) or not message.isprintable() or len(message) >= 700:
        return f"not a one-line message about {label}: {message!r:.300}"
    return ""


@attack("misbehaving servers", full=5_000, short=120)
def misbehaving_servers(count: int, rng: random.Random) -> Iterator[str]:
    for k in range(count):
        kind = (OpenAIBackend, AnthropicBackend)[k % 2]
        parts = [sample_parts(rng) for _ in range(4)]  # for the request, and for those that leave a part out
        with api_key("sk-planted-0123456789"), FakeLlmServer(map(answer_with, parts)) as server:
            try:
                result, seconds = call(kind, server.url, timeout=TIMEOUT)
            except Exception as error:  # noqa: BLE001  any error but a ChatError is the failure that is looked for
                result, seconds = error, 0.0
            label = f"{kind.__name__.removesuffix('Backend').lower()}:model at {server.root}"
        problem = check_result(result, seconds, label)
        yield problem and f"{kind.__name__}: {problem}: {parts!r:.300}"


@attack("keys that a server echoes", full=5_000, short=120)
def echoed_keys(count: int, rng: random.Random) -> Iterator[str]:
    folder = work_folder() / "echoes"
    folder.mkdir(exist_ok=True)
    for k in range(count):
        kind, key = (OpenAIBackend, AnthropicBackend)[k % 2], KEYS[k // 2 % len(KEYS)]
        with api_key(key):
            echo = sample_echo(key, rng)
            try:
                texts, _ = run_designer(kind, echo.answer, folder)
            except Exception as error:  # noqa: BLE001  any other error is a failure too
                texts, problem = {}, f"{error!r:.200}"
            else:
                problem = "; ".join(f"{name} holds a part of the key" for name in texts if leaks(texts[name], key))
        yield problem and f"{kind.__name__}, {echo.place}: {problem}"
