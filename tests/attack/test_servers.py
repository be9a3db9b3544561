"""However a chat server misbehaves, a call ends in time with a reply or an error message, in limited memory."""

import itertools
import socket
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from misbehaving_server import ENDLESS, TIMEOUT, bomb, call

from envgen.designers.chat.backends import AnthropicBackend, OpenAIBackend
from envgen.designers.chat.protocol import (
    AmbiguousError,
    ChatError,
    ChatRequest,
    Message,
    RejectedError,
    RetryableError,
)
from fake_llm_server import FakeLlmServer, raw, reject_parameter, status

DELAY = 8.0  # seconds by which a call may end later on a busy machine; without a deadline, none ends within 30
BACKENDS = (OpenAIBackend, AnthropicBackend)
both = pytest.mark.parametrize("kind", BACKENDS)


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for vendor in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{vendor}_API_KEY", "sk-planted-0123456789")
        monkeypatch.delenv(f"{vendor}_BASE_URL", raising=False)


def http_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "envgen-http"]


# --- servers that never finish


def test_the_deadline_holds_wherever_a_server_stalls():
    """All calls run at the same time, as each takes the whole timeout."""
    modes = list(itertools.product(BACKENDS, ENDLESS))
    servers = [FakeLlmServer([ENDLESS[name]]) for _, name in modes]

    def run(mode, server):
        with server:
            return call(mode[0], server.url)

    with ThreadPoolExecutor(len(modes)) as pool:
        results = list(pool.map(run, modes, servers))
    for (kind, name), (error, seconds) in zip(modes, results, strict=True):
        assert type(error) is AmbiguousError, (kind, name, error)
        assert seconds < TIMEOUT + DELAY, (kind, name, seconds)
        if name not in ("header lines", "trailer lines"):  # those may become too many before the deadline
            assert f"{TIMEOUT:g} seconds; raise the timeout" in str(error), (kind, name, error)
    for thread in http_threads():
        thread.join(DELAY)
    assert not http_threads()  # no call continues in the background


@both
def test_one_deadline_holds_for_all_requests_of_a_call(kind):
    def slowly(answer):
        def wait(handler, body):
            handler.server.owner.shutdown_event.wait(0.8 * TIMEOUT)
            answer(handler, body)

        return wait

    part = "response_format" if kind is OpenAIBackend else "tool_choice"
    with FakeLlmServer([slowly(reject_parameter(part, "{}"))] * 2) as server:
        error, seconds = call(kind, server.url)
    assert type(error) is AmbiguousError
    assert "did not answer within" in str(error)
    assert seconds < 1.5 * TIMEOUT + DELAY
    assert len(server.requests) == 2


def test_a_server_that_does_not_read_the_request_is_abandoned():
    with socket.create_server(("127.0.0.1", 0)) as server:
        big = ChatRequest(messages=(Message(role="user", content="x" * 20_000_000),))
        error, seconds = call(OpenAIBackend, f"http://127.0.0.1:{server.getsockname()[1]}/v1", big)
    assert type(error) is AmbiguousError
    assert seconds < TIMEOUT + DELAY


@pytest.mark.parametrize("start", [b"", b"\x16\x03\x03\x3f\xff"])
def test_an_endless_tls_handshake_is_abandoned_and_nothing_was_sent(start):
    done = threading.Event()

    def serve(server):
        connection, _ = server.accept()
        with connection:
            try:
                connection.sendall(start)
                while not done.wait(0.02):
                    connection.sendall(b"\x02" if start else b"")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        error, seconds = call(OpenAIBackend, f"https://127.0.0.1:{server.getsockname()[1]}/v1")
        done.set()
        thread.join()
    assert type(error) is RetryableError
    assert seconds < TIMEOUT + DELAY


def test_an_endless_dns_lookup_is_abandoned(monkeypatch):
    done = threading.Event()

    def getaddrinfo(*args, **kwargs):
        done.wait(30)
        raise socket.gaierror("not found")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    error, seconds = call(OpenAIBackend, "http://nowhere.invalid/v1")
    done.set()
    for thread in http_threads():
        thread.join(DELAY)
    assert type(error) is RetryableError
    assert "there was no connection after 3 seconds" in str(error)
    assert seconds < TIMEOUT + DELAY


def test_nothing_is_sent_after_the_deadline(monkeypatch):
    """A connection that comes too late is closed: the caller may already have sent the request again."""
    connect = socket.create_connection
    late = threading.Event()

    def create_connection(*args, **kwargs):
        late.wait(30)
        return connect(*args, **kwargs)

    monkeypatch.setattr(socket, "create_connection", create_connection)
    with FakeLlmServer(["late"]) as server:
        error, _ = call(OpenAIBackend, server.url)
        assert type(error) is RetryableError
        late.set()
        for thread in http_threads():
            thread.join(DELAY)
        assert not http_threads()
        assert server.requests == []


# --- memory


def call_and_measure_memory(kind, answer):
    """The error of a call to a server with this answer, and the most memory that the call used."""
    with FakeLlmServer([answer]) as server:
        tracemalloc.start()
        try:
            error, _ = call(kind, server.url, timeout=60)
            return error, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


@both
@pytest.mark.parametrize(("encoding", "wbits"), [("gzip", 31), ("deflate", 15), ("x-gzip", 31)])
@pytest.mark.parametrize("code", [200, 500])
def test_a_decompression_bomb_is_not_unpacked(kind, encoding, wbits, code):
    data = bomb(300, wbits)
    assert len(data) < 1_000_000

    def answer(handler, body):
        handler.respond(code, data, Content_Encoding=encoding)
        handler.close_connection = True

    error, peak = call_and_measure_memory(kind, answer)
    assert type(error) is AmbiguousError
    assert "larger than 4,000,000 bytes" in str(error)
    assert peak < 50_000_000


@both
def test_a_charset_cannot_unpack_a_bomb(kind):
    data = bomb(300, 15)
    error, peak = call_and_measure_memory(kind, raw(data, "text/plain; charset=zlib", 401))
    assert type(error) is RejectedError
    assert peak < 50_000_000


def test_a_moderate_compressed_reply_is_read_although_none_was_asked_for():
    import gzip

    def answer(handler, body):
        text = b'{"choices": [{"message": {"content": "compressed"}}]}'
        handler.respond(200, gzip.compress(text), Content_Encoding="gzip")

    with FakeLlmServer([answer]) as server:
        reply, _ = call(OpenAIBackend, server.url, timeout=60)
        assert reply.text == "compressed"
        assert server.requests[0].headers["accept-encoding"] == "identity"


@both
@pytest.mark.parametrize("text", ["\x1b[2J\x1b]0;title\x07", "\x9b31m", "red\r\x08\x08\x08", "\u202egnp.exe", "\ud800"])
def test_an_error_message_holds_no_escapes(kind, text):
    answers = [
        status(400, text), status(503, text, code=text), raw(text.encode(errors="replace"), code=401),
        raw(f'{{"error": {{"message": "{text.encode("unicode_escape").decode()}"}}}}'.encode()),
        raw(f"<html>{text}".encode(errors="replace")), raw(b"[%s]" % text.encode(errors="replace")),
    ]  # fmt: skip
    for answer in answers:
        with FakeLlmServer([answer] * 4) as server:
            error, _ = call(kind, server.url, timeout=60)
        assert isinstance(error, ChatError)
        assert str(error).isprintable(), str(error)
