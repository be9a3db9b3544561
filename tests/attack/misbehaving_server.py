"""Ways in which a chat server can misbehave, as answers for `FakeLlmServer`: some without end, others generated from
parts by a seeded random number generator."""

import gzip
import json
import random
import socket
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from envgen.designers.chat.protocol import ChatError, ChatRequest, Message, Reply
from fake_llm_server import Answer, Handler

PAUSE = 0.02  # seconds between two bytes of a slow server
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ESCAPES = "\x1b[2J\x1b]0;title\x07\x9b31m\r\x08\u202e\ud800\x00"


def repeat(start: bytes, part: bytes, pause: float = PAUSE) -> Answer:
    """Send `start` once and `part` again and again, until the client or the test ends."""

    def answer(handler: Handler, body: Any) -> None:
        handler.close_connection = True
        handler.wfile.write(start)
        while not handler.server.owner.shutdown_event.wait(pause):
            handler.wfile.write(part)

    return answer


EMPTY_BLOCK = zlib.compressobj(wbits=-15).flush(zlib.Z_FULL_FLUSH)  # decompresses to nothing
ENDLESS: dict[str, Answer] = {
    "nothing": repeat(b"", b""),
    "status line": repeat(b"HTTP/1.1 200 ", b"O"),
    "header": repeat(HEAD + b"X-Pad: ", b"x"),
    "header lines": repeat(HEAD, b"X: y\r\n"),
    "100 continue": repeat(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "100 continue, fast": repeat(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50, 0),
    "102 processing": repeat(b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "103 early hints": repeat(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
    "body": repeat(HEAD + b"Content-Length: 1000000\r\n\r\n", b" "),
    "body of any length": repeat(HEAD + b"\r\n", b" "),
    "body of an error": repeat(b"HTTP/1.1 500 No\r\nContent-Length: 100000\r\n\r\n", b" "),
    "chunks": repeat(CHUNKED, b"1\r\n \r\n"),
    "length of a chunk": repeat(CHUNKED, b"0"),
    "chunk extension": repeat(CHUNKED + b"5;x=", b"x"),
    "trailer": repeat(CHUNKED + b"2\r\n{}\r\n0\r\nX-Pad: ", b"x"),
    "trailer lines": repeat(CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: y\r\n"),
    "empty compressed blocks": repeat(
        HEAD + b"Content-Encoding: deflate\r\nContent-Length: 1000000\r\n\r\n" + zlib.compress(b"")[:2], EMPTY_BLOCK
    ),
}


def bomb(megabytes: int, wbits: int) -> bytes:
    """Zeros as a stream of gzip (`wbits` 31), zlib (15) or deflate (-15), without its end."""
    compressor, zeros = zlib.compressobj(9, wbits=wbits), bytes(1_000_000)
    first = compressor.compress(zeros) + compressor.flush(zlib.Z_FULL_FLUSH)
    block = compressor.compress(zeros) + compressor.flush(zlib.Z_FULL_FLUSH)
    return first + (megabytes - 1) * block


# --- answers that end, generated from parts


class Parts(NamedTuple):
    status: str
    header: str
    body: str
    encoding: str
    framing: str

    def __str__(self) -> str:
        return ", ".join(self)


STATUSES = (
    "HTTP/1.1 200 OK", "HTTP/1.1 201 Created", "HTTP/1.1 204 No Content", "HTTP/1.1 206 Part", "HTTP/1.1 301 Moved",
    "HTTP/1.1 304 Same", "HTTP/1.1 307 Moved", "HTTP/1.1 308 Moved", "HTTP/1.1 400 Bad", "HTTP/1.1 401 Who",
    "HTTP/1.1 402 Pay", "HTTP/1.1 403 No", "HTTP/1.1 404 Gone", "HTTP/1.1 408 Slow", "HTTP/1.1 409 Twice",
    "HTTP/1.1 413 Large", "HTTP/1.1 422 Odd", "HTTP/1.1 429 Busy", "HTTP/1.1 451 Law", "HTTP/1.1 500 Oops",
    "HTTP/1.1 502 Gate", "HTTP/1.1 503 Busy", "HTTP/1.1 504 Gate", "HTTP/1.1 524 Gate", "HTTP/1.1 529 Busy",
    "HTTP/1.1 599 Odd", "HTTP/1.1 999 Odd", "HTTP/1.1 101 Switching", "HTTP/1.0 200 OK", "HTTP/1.1 200",
    "HTTP/2.0 200 OK", "HTTP/9 200 OK", "ICY 200 OK", "HTTP/1.1 2000 OK", "HTTP/1.1 -1 OK", "HTTP/1.1 000 OK",
    "SSH-2.0-OpenSSH_9.9", "\x16\x03\x01\x02\x00", "", "220 mail ready",
)  # fmt: skip
HEADERS = (
    "", "Content-Type: application/json", "Content-Type: text/html; charset=utf-7", "Content-Type: x; charset=zlib",
    "Content-Type: x; charset=bz2_codec", "Content-Type: x; charset=rot13", "Content-Type: x; charset=undefined",
    "Content-Type: x; charset=idna", "Content-Type: x; charset=unicode_escape", "Content-Type: ;;;=;",
    "Content-Type: text/event-stream", "Retry-After: -1", "Retry-After: nan", "Retry-After: 1e400",
    "Retry-After: " + "9" * 5000, "Retry-After: Mon, 99 Foo 99999 99:99:99 GMT", "Retry-After: Mon, 01 Jan 0001",
    "Retry-After: 01 Jan 0100 00:00:00 -0000", "Retry-After: 31 Dec 9999 23:59:59 -2359", "Retry-After: ,",
    "Location: //elsewhere.invalid/v1", "Location: http://[::1", "Location: http://elsewhere.invalid:99999/",
    "Location: javascript:alert(1)", "Location: " + "/x" * 20_000, "Location: \xff\xfe", "Location: ",
    "Set-Cookie: a=b; Expires=" + "1" * 20_000, "Set-Cookie: " + "a=b; " * 5_000, "X: \xff\x80", "X: \x1b[31m",
    "X\x00: y", "X" * 60_000 + ": y", "X: " + "y" * 200_000, "no colon", ": no name", " folded", "Connection: upgrade",
    "Trailer: X", "WWW-Authenticate: Basic realm=x", "Content-Range: bytes 5-1/0",
)  # fmt: skip
FRAMINGS = (
    "length", "chunked", "until closed", "too long", "too short", "two lengths", "negative length", "huge length",
    "length and chunked", "odd transfer encoding", "bad chunk length", "huge chunk length", "unfinished chunks",
    "one byte each", "reset", "twice",
)  # fmt: skip
ENCODINGS: dict[str, tuple[str | None, Callable[[bytes], bytes]]] = {  # the header, and what is done to the body
    "plain": (None, lambda data: data),
    "identity": ("identity", lambda data: data),
    "gzip": ("gzip", lambda data: gzip.compress(data, mtime=0)),
    "x-gzip": ("X-GZIP", lambda data: gzip.compress(data, mtime=0)),
    "zlib": ("deflate", zlib.compress),
    "raw deflate": ("deflate", lambda data: zlib.compress(data)[2:-4]),
    "gzip, not announced": (None, lambda data: gzip.compress(data, mtime=0)),
    "announced, not gzip": ("gzip", lambda data: data),
    "cut gzip": ("gzip", lambda data: gzip.compress(data, mtime=0)[:-9]),
    "gzip and more": ("gzip", lambda data: gzip.compress(data, mtime=0) + b"more" * 1000),
    "gzip twice": ("gzip, gzip", lambda data: gzip.compress(gzip.compress(data, mtime=0), mtime=0)),
    "gzip many times": (", ".join(["gzip"] * 2000), lambda data: data),
    "brotli": ("br", lambda data: data),
    "zstd": ("zstd", lambda data: data),
    "unknown": ("\xff", lambda data: data),
    "gzip bomb": ("gzip", lambda data: bomb(300, 31)),
    "zlib bomb": ("deflate", lambda data: bomb(300, 15)),
}


def nested(depth: int, value: Any = 0) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def completion_with(**fields: Any) -> dict[str, Any]:
    """A reply in the formats of both vendors at once, with some fields replaced. `message`: those of the message."""
    message = {"role": "assistant", "content": "fine"} | fields.pop("message", {})
    body = {
        "id": "r", "type": "message", "model": "m", "choices": [{"message": message, "finish_reason": "stop"}],
        "content": [{"type": "text", "text": "fine"}], "stop_reason": "end_turn",
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    return body | fields


ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2.5, 10**18, 10**400, 10**4200, 1e300, float("nan"), float("inf"), "", "x", "9" * 5000, ESCAPES,
    "x" * 1_000_000, [], [None], [1], [[]], ["x"], [{}], [{"type": "text"}], [{"type": "text", "text": 5}],
    [{"type": "tool_use", "name": "proposal"}], [{"type": "tool_use", "name": "proposal", "input": nested(900)}],
    [{"message": None}], [{"message": {"content": {}}}], [{"message": {"content": [None]}}], {}, {"x": "y"},
    {"": ""}, {"message": "x"}, {"code": 429}, {"code": "429"}, {"code": True}, {"code": 10**30}, {"code": -5},
    {"message": nested(50)}, {"message": [{"loc": 5, "msg": None}, 7]}, {"message": ESCAPES, "code": ESCAPES},
    nested(400),
)  # fmt: skip
FIELDS = ("choices", "content", "usage", "model", "stop_reason", "error", "detail", "title", "type")
RAW_BODIES: dict[str, bytes] = {
    "nothing": b"",
    "spaces": b" \r\n" * 100,
    "html": b"<html><body>Welcome</body></html>",
    "escapes": ESCAPES.encode(errors="surrogatepass") * 50,
    "random bytes": random.Random(0).randbytes(5_000),
    "cut json": b'{"choices": [{"message": {"content": "ha',
    "json and more": b"{}{}{}",
    "lines": b'{"a": 1}\n{"b": 2}\n',
    "events": b"data: {}\n\ndata: [DONE]\n\n",
    "utf-16": json.dumps(completion_with()).encode("utf-16"),
    "utf-32": json.dumps(completion_with()).encode("utf-32"),
    "byte order mark": b"\xef\xbb\xbf" + json.dumps(completion_with()).encode(),
    "latin-1": '{"choices": "\xe9\xff"}'.encode("latin-1"),
    "deep list": b"[" * 200_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "deep and closed": b"[" * 900 + b"]" * 900,
    "long number": b'{"choices": ' + b"9" * 5_000 + b"}",
    "long exponent": b'{"usage": {"cost": 1e999999999}}',
    "same key twice": b'{"error": 1, "error": {"message": "x"}, "choices": []}',
    "surrogates": b'{"error": {"message": "\\ud800\\udc00\\ud800"}}',
    "3 MB of text": json.dumps(completion_with(message={"content": "x" * 3_000_000})).encode(),
    "5 MB": b" " * 5_000_000,
    "backslashes": b"\\" * 1_000_000,
}


def json_bodies() -> Iterator[tuple[str, bytes]]:
    yield "fine", json.dumps(completion_with()).encode()
    for k, value in enumerate(ODD_VALUES):
        yield f"value {k}", json.dumps(value).encode()
        yield f"content {k}", json.dumps(completion_with(message={"content": value})).encode()
        yield f"message {k}", json.dumps(completion_with(choices=[{"message": value}])).encode()
        yield f"tokens {k}", json.dumps(completion_with(usage=dict.fromkeys(
            ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "cost", "cache_read_input_tokens"),
            value,
        ))).encode()  # fmt: skip
        for field in FIELDS:
            yield f"{field} {k}", json.dumps({**completion_with(), field: value}).encode()
            yield f"only {field} {k}", json.dumps({field: value}).encode()


BODIES = {**dict(json_bodies()), **RAW_BODIES}
RARE = 0.15  # how often a part other than the body differs from the usual one


def sample_parts(rng: random.Random) -> Parts:
    def rarely(options: Any) -> str:
        options = list(options)
        return rng.choice(options) if rng.random() < RARE else options[0]

    status = rng.choice(STATUSES[:25]) if rng.random() < 0.5 else rarely(STATUSES)
    return Parts(status, rarely(HEADERS), rng.choice(list(BODIES)), rarely(ENCODINGS), rarely(FRAMINGS))


def answer_with(parts: Parts) -> Answer:
    def answer(handler: Handler, body: Any) -> None:
        handler.close_connection = True
        handler.connection.settimeout(5)
        head, payload = _message(parts)
        if parts.framing == "one byte each":
            handler.wfile.write(head)
            for k in range(min(len(payload), 2_000)):
                handler.wfile.write(payload[k : k + 1])
            handler.wfile.write(payload[2_000:])
        else:
            handler.wfile.write((head + payload) * (2 if parts.framing == "twice" else 1))
        if parts.framing == "reset":
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return answer


def _message(parts: Parts) -> tuple[bytes, bytes]:
    encoding, encode = ENCODINGS[parts.encoding]
    payload = encode(BODIES[parts.body])
    lines = [parts.status, parts.header, f"Content-Encoding: {encoding}" if encoding else ""]
    framing, length = parts.framing, f"Content-Length: {len(payload)}"
    match framing:
        case "length" | "one byte each" | "reset" | "twice":
            lines.append(length)
        case "too long":
            lines.append(f"Content-Length: {len(payload) + 100}")
        case "too short":
            lines.append(f"Content-Length: {len(payload) // 2}")
        case "two lengths":
            lines += [length, f"Content-Length: {len(payload) + 1}"]
        case "negative length":
            lines.append("Content-Length: -1")
        case "huge length":
            lines.append(f"Content-Length: {10**30}")
        case "odd transfer encoding":
            lines.append("Transfer-Encoding: gzip, chunked, x")
        case "chunked" | "length and chunked" | "bad chunk length" | "huge chunk length" | "unfinished chunks":
            lines += [length] if framing == "length and chunked" else []
            lines.append("Transfer-Encoding: chunked")
            size = {"bad chunk length": b"zz", "huge chunk length": b"f" * 30}.get(framing, b"%x" % len(payload))
            end = b"" if framing == "unfinished chunks" else b"0\r\n\r\n"
            payload = (size + b"\r\n" + payload + b"\r\n" if payload else b"") + end
    head = "\r\n".join(line for line in lines if line) + "\r\n\r\n"
    return head.encode("latin-1", errors="replace"), payload


REQUEST = ChatRequest(messages=(Message(role="user", content="Trees?"),), json_schema={"type": "object"})
TIMEOUT = 3.0  # seconds of a call


def call(
    kind: Any, base_url: str, request: ChatRequest = REQUEST, timeout: float = TIMEOUT
) -> tuple[Reply | ChatError, float]:
    """The reply or error of one call, and its seconds."""
    backend = kind("model", base_url=base_url, timeout=timeout)
    start = time.monotonic()
    try:
        result = backend.send(request)
    except ChatError as error:
        result = error
    return result, time.monotonic() - start
