"""Ways in which a server can echo the key, and what of it then reaches files and the terminal."""

import functools
import html
import json
import random
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Ledger
from envgen.designers.chat.protocol import ChatError
from envgen.designers.designer import Brief, Proposal
from envgen.designers.llm import LlmDesigner, LlmSettings
from envgen.worlds.world import Level, Skill
from fake_llm_server import Answer, FakeLlmServer, raw

KEYS = (
    "sk-proj-Zq8vT3nR7mYw1KxLb5HdJc9GfPs2AuEe6NiOo4RtUyWv0",  # as long as OpenAI's first keys
    "sk-ant-api03-m7Qx_R2vLw8Zt-4KyNp6Bd1Hs9Gf3Jc5Va0UeIoYr",
    "0123456789876543210246813579",
    "a/b+c=d&e<f>\"g'h\\i%j;k|l~m^n`o{p}q[r]s",
)
LEAKED_CHARS = 10  # this many characters of a key in a row are a leak


class ToyLevel(Level):
    fog: bool = False


BRIEF = Brief("toy", "", (Skill("climb"),), ToyLevel, {}, num_levels=2, cycle=1, num_cycles=4, seed=0)


# --- how a key is written: each of these is undone by some decoder


def escape_json(key: str, rng: random.Random) -> str:
    return "".join(f"\\u{ord(c):04x}" if rng.random() < 0.3 else c for c in key)


def escape_json_twice(key: str, rng: random.Random) -> str:
    return "".join(f"\\\\u{ord(c):04X}" if rng.random() < 0.3 else c for c in key)


def add_backslash(key: str, rng: random.Random) -> str:
    at = rng.randrange(len(key))
    return f"{key[:at]}\\{key[at:]}"


def escape_percent(key: str, rng: random.Random) -> str:
    return "".join(f"%{ord(c):02x}" if rng.random() < 0.3 else c for c in key)


def escape_html(key: str, rng: random.Random) -> str:
    return "".join(f"&#{ord(c)};" if rng.random() < 0.3 else html.escape(c) for c in key)


SPELLINGS: tuple[Callable[[str, random.Random], str], ...] = (
    lambda key, rng: key,
    lambda key, rng: repr(key)[1:-1],
    lambda key, rng: json.dumps(key)[1:-1],
    escape_json,
    escape_json_twice,
    add_backslash,
    escape_percent,
    escape_html,
)

# --- where it stands in a response


class Echo(NamedTuple):
    place: str
    answer: Answer


def levels_reply(purpose: str) -> str:
    """A reply whose purpose is written as it is, whatever backslashes it has."""
    item = '{"purpose": "%s", "skills": [], "level": {"fog": true}}'
    return f'{{"reasoning": "{purpose}", "levels": [{item % purpose}, {item % "other"}]}}'


def body_with(text: Any, **fields: Any) -> dict[str, Any]:
    """A reply with this text in the formats of both vendors."""
    message = {"role": "assistant", "content": text}
    content = [{"type": "text", "text": text}] if isinstance(text, str) else text
    return {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "content": content, **fields}


def sample_echo(key: str, rng: random.Random) -> Echo:
    text = rng.choice(SPELLINGS)(key, rng)
    pad = "x" * rng.choice((0, 0, 5, rng.randrange(230, 320), rng.randrange(340, 410), rng.randrange(1_100, 1_210)))
    code = rng.choice((400, 401, 404, 408, 422, 429, 500, 503, 504, 302))
    whole = levels_reply(pad + key)
    split = whole.index(key) + rng.randrange(1, len(key))
    parts = [{"type": "text", "text": part} for part in (whole[:split], whole[split:])]
    bodies: dict[str, tuple[int, Any]] = {
        "purpose": (200, body_with(levels_reply(pad + text))),
        "prose": (200, body_with(f"{pad}You are {text}, and I refuse.")),
        "end of a long reply": (200, body_with("y" * rng.randrange(199_940, 200_001) + text)),
        "end of what is recorded": (200, body_with("y" * rng.randrange(19_940, 20_001) + text)),
        "parts": (200, body_with(parts)),
        "unknown setting": (200, body_with(levels_reply("p").replace('"fog"', f'"{text}"'))),
        "wrong value": (200, body_with(levels_reply("p").replace("true", f'"{text}"'))),
        "skill": (200, body_with(levels_reply("p").replace("[]", f'["{pad[:70]}{text}"]'))),
        "broken levels": (200, body_with(levels_reply("p")[:-3] + f' "{text}" ?')),
        "tool": (200, body_with([{"type": "tool_use", "name": "proposal", "input": {"levels": [
            {"purpose": pad + text, "skills": [], "level": {}}] * 2}}])),
        "model": (200, body_with("hello", model=pad + text)),
        "finish": (200, body_with("hello", stop_reason=text, choices=[
            {"message": {"content": "hello"}, "finish_reason": text}])),
        "error": (code, {"error": {"message": f"{pad}wrong key {text}", "type": "x"}}),
        "error text": (code, {"error": f"{pad}wrong key {text}"}),
        "error code": (code, {"error": {"message": pad or "no", "code": text, "param": text}}),
        "detail": (code, {"detail": [{"loc": ["header", text], "msg": pad + text}]}),
        "title": (code, {"title": pad + text}),
        "other shape": (code, [pad, text]),
        "wrapped error": (200, {"error": {"message": pad + text, "code": code}}),
        "wrapped text": (200, {"error": pad + text}),
        "name": (200, {pad + text: 1}),
        "number": (200, {"x": int(key) if key.isdigit() else text}),
        "only text": (200, pad + text),
    }  # fmt: skip
    raw_bodies = {
        "page": f"<html>{pad}{text}</html>".encode(),
        "broken json": f'{{"error": "{pad}{text}"'.encode(),
        "page in utf-16": f"<html>{pad}{text}</html>".encode("utf-16"),
        "json in utf-16": json.dumps({"error": {"message": pad + text}}).encode("utf-16"),
        "page in utf-32": f"{pad}{text}".encode("utf-32-be"),
    }
    place = rng.choice([*bodies, *raw_bodies])
    if place in raw_bodies:
        return Echo(
            place, raw(raw_bodies[place], rng.choice(("text/html", "application/json")), rng.choice((200, code)))
        )
    status, body = bodies[place]
    data = json.dumps(body)
    if rng.random() < 0.3:  # once more, on the way
        data = data.replace(key, "".join(f"\\u{ord(c):04x}" for c in key))
    return Echo(place, raw(data.encode(), "application/json", status))


# --- what leaks


def decodings(text: str) -> set[str]:
    """The text, and what decoders make of it."""
    decoders: tuple[Callable[[str], str], ...] = (
        lambda text: re.sub(r"\\+u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), text),
        lambda text: text.replace("\\", ""),
        lambda text: text.replace("\0", "").replace(" ", ""),
        html.unescape,
        unquote,
    )
    return {
        text,
        *(decode(text) for decode in decoders),
        functools.reduce(lambda text, decode: decode(text), decoders, text),
    }


def leaks(text: str, key: str) -> list[str]:
    """The parts of a key that a text contains."""
    windows = [key[k : k + LEAKED_CHARS] for k in range(len(key) - LEAKED_CHARS + 1)]
    windows += [window.replace("\\", "") for window in windows]
    return [window for decoded in decodings(text) for window in windows if window in decoded]


def run_designer(kind: Any, answer: Answer, folder: Path) -> tuple[dict[str, str], Proposal | None]:
    """All texts that a designer writes or shows while its server answers like this, and its proposal."""
    with FakeLlmServer([answer] * 12) as server:
        backend = kind("model", base_url=server.url, timeout=60)

        def open_chat() -> Chat:
            return Chat(backend, Ledger(folder / "ledger.jsonl"), attempts=2, sleep=lambda seconds: None)

        texts, proposal = {}, None
        try:
            designer = LlmDesigner(open_chat, LlmSettings(max_retries=1))
            proposal = designer.design(BRIEF, ())
            texts["levels.json"] = proposal.model_dump_json()
        except ChatError as error:
            texts["error"] = "".join(traceback.format_exception(error))
        for k, request in enumerate(server.requests[1:]):  # what goes back to the server is harmless, but recorded too
            texts[f"request {k}"] = json.dumps(request.body)
    texts["ledger"] = (folder / "ledger.jsonl").read_text()
    (folder / "ledger.jsonl").unlink()
    return texts, proposal
