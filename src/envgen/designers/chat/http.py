"""HTTP calls that are limited in time and in the size of their response, whatever the server does.

Imports httpx2, which the openai and anthropic packages install: import this module only where one of them is needed.
"""

import functools
import logging
import queue
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx2

from .protocol import AmbiguousError, ConnectionSetupError, RetryableError, redact_url

MAX_RESPONSE_BYTES = 4_000_000  # far more than any reply needs, before and after decompression
MAX_PART_BYTES = 1 << 20  # decompressed at once
GRACE = 5.0  # seconds after the deadline at which httpx2 itself gives up connecting, which ends the thread of the call


def _redact_log(record: logging.LogRecord) -> bool:
    """Remove user names and passwords from the addresses that httpx2 logs."""
    if isinstance(record.args, tuple):
        record.args = tuple(redact_url(str(arg)) if isinstance(arg, httpx2.URL) else arg for arg in record.args)
    return True


logging.getLogger("httpx2").addFilter(_redact_log)


class Deadline:
    """The time by which a call and all its requests must be complete, counted from the start of the first request."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._end: float | None = None

    def remaining(self) -> float:
        if self._end is None:
            self._end = time.monotonic() + self.seconds
        return max(0.0, self._end - time.monotonic())


class Connection:
    """The connection of one request, as httpx2 reports it through the extension `trace`."""

    def __init__(self):
        self.socket: socket.socket | None = None
        self.is_sent = self.is_answered = self.is_closed = False

    def trace(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self.socket = info["return_value"].get_extra_info("socket")
            if self.is_closed:  # httpx2 does not know this connection yet
                info["return_value"].close()
        self.is_sent |= event.endswith("send_request_headers.started")
        self.is_answered |= event.endswith("receive_response_headers.complete")
        if self.is_closed:  # too late: nothing more may be sent
            self.shut_down()
            raise TimeoutError("the deadline has passed")

    def shut_down(self) -> None:
        """Unblock every thread that waits for the server."""
        self.is_closed = True
        if self.socket is not None:
            with suppress(OSError):  # closed already
                socket.socket.shutdown(self.socket, socket.SHUT_RDWR)  # also for TLS, without a close_notify

    def timeout_error(self, seconds: float) -> AmbiguousError | RetryableError:
        if not self.is_sent:
            return RetryableError(f"there was no connection after {seconds:g} seconds; is the server running?")
        if not self.is_answered:
            return AmbiguousError(f"the server did not answer within {seconds:g} seconds; raise the timeout")
        return AmbiguousError(f"the response was incomplete after {seconds:g} seconds; raise the timeout")


def call_with_deadline(send: Callable[[httpx2.Client], bytes], deadline: Deadline) -> bytes:
    """Return `send(client)`, or end its connection at the deadline and raise AmbiguousError or RetryableError.

    Raises ConnectionSetupError if the settings of proxies or certificates in the environment are wrong.

    httpx2's own timeouts limit each wait for the next bytes, so a server that sends a byte now and then never exceeds
    them. Here the call runs in a thread, so that the deadline holds in every phase, including the DNS lookup.
    """
    connection, results = Connection(), queue.SimpleQueue[tuple[bytes, BaseException | None]]()
    try:
        client = http_client(connection, deadline.seconds + GRACE)
    except (ImportError, ValueError, OSError, httpx2.InvalidURL) as error:
        # the message of an InvalidURL can contain a part of a password
        kind = type(error).__name__
        reason = kind if isinstance(error, httpx2.InvalidURL) else f"{kind}: {error}"
        raise ConnectionSetupError(
            f"no connection can be set up ({reason}); check the environment variables of proxies (ALL_PROXY, "
            "HTTP_PROXY, HTTPS_PROXY) and certificates (SSL_CERT_FILE, SSL_CERT_DIR)"
        ) from None

    def run() -> None:
        try:
            with client:
                content = send(client)
            results.put((content, None))
        except BaseException as error:  # noqa: BLE001  raised again below
            results.put((b"", error))

    threading.Thread(target=run, name="envgen-http", daemon=True).start()
    try:
        content, error = results.get(timeout=deadline.remaining())
    except queue.Empty:
        raise connection.timeout_error(deadline.seconds) from None
    finally:
        connection.shut_down()
    if error is not None:
        raise error
    return content


def http_client(connection: Connection, timeout: float) -> httpx2.Client:
    """A client for the openai and anthropic libraries. It does not follow redirects, which would forward the key."""

    def observe(request: httpx2.Request) -> None:
        request.extensions["trace"] = connection.trace

    return httpx2.Client(
        verify=ssl_context(),
        timeout=timeout,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"request": [observe], "response": [limit_response]},
    )


@functools.cache
def ssl_context() -> ssl.SSLContext:
    """The TLS context of all clients. Loading its certificates takes longer than creating the rest of a client."""
    return httpx2.create_ssl_context()


def limit_response(response: httpx2.Response) -> None:
    """Limit the size of a response whose body has not been read, and decompress it here."""
    assert isinstance(response.stream, httpx2.SyncByteStream)
    encoding = response.headers.pop("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise AmbiguousError("the response has an unsupported content encoding; is this a chat server?")
    response.stream = LimitedStream(response.stream, is_compressed=encoding not in ("", "identity"))
    response.encoding = "utf-8"  # not what the server names, which could be a codec that decompresses


class LimitedStream(httpx2.SyncByteStream):
    """The body of a response, decompressed if a server compresses although it was not asked to."""

    def __init__(self, stream: httpx2.SyncByteStream, is_compressed: bool):
        self.stream, self.is_compressed = stream, is_compressed

    def __iter__(self) -> Iterator[bytes]:
        num_received = num_bytes = 0
        decompressor = zlib.decompressobj(zlib.MAX_WBITS | 32) if self.is_compressed else None  # 32: gzip or zlib
        for chunk in self.stream:
            num_received += len(chunk)
            for part in _decompress(decompressor, chunk) if decompressor else (chunk,):
                num_bytes += len(part)
                self._check_size(num_bytes)
                yield part
            self._check_size(num_received)
        if decompressor and num_received and not decompressor.eof:
            raise AmbiguousError("the compressed response is incomplete")

    def _check_size(self, num_bytes: int) -> None:
        if num_bytes > MAX_RESPONSE_BYTES:
            raise AmbiguousError(f"the response is larger than {MAX_RESPONSE_BYTES:,} bytes; is this a chat server?")

    def close(self) -> None:
        self.stream.close()


def _decompress(decompressor: Any, data: bytes) -> Iterator[bytes]:
    """What the data decompresses to, in parts of limited size."""
    part = b""
    while not decompressor.eof and (data or len(part) == MAX_PART_BYTES):  # after a full part, more may be pending
        try:
            part = decompressor.decompress(data, MAX_PART_BYTES)
        except zlib.error:
            raise AmbiguousError("the response cannot be decompressed") from None
        data = decompressor.unconsumed_tail
        yield part
