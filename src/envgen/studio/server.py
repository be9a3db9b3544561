"""The HTTP server of the studio: who may use it, and how requests, responses and streams of events look.

It listens on 127.0.0.1 only, and answers only addresses that begin with a random token. A page of another origin cannot
use it even if it learns the token: `Host` must name this machine (a DNS name that is bound to 127.0.0.1 does not),
and a request that comes from another origin is refused, unless a person follows a link to a page.
"""

import hmac
import json
import os
import secrets
import select
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from envgen.errors import EnvgenError
from envgen.runs.files import parse_json

HOST = "127.0.0.1"
HOST_NAMES = ("127.0.0.1", "localhost")
MAX_BODY_BYTES = 1_000_000
MAX_DISCARDED_BYTES = 4 * MAX_BODY_BYTES  # of a body that is too large, read so that its sender gets an answer
MAX_STREAMS = 32
POLL_SECONDS = 0.5  # between two looks at what a page shows
HEARTBEAT_SECONDS = 15.0  # after which an idle stream shows that it is alive
SOCKET_TIMEOUT = 30.0  # seconds without data in the middle of a request
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = "sandbox allow-scripts; frame-ancestors 'none'"  # a report brings its own, stricter policy
NO_TOKEN = "this address has no valid token; open the address that `envgen studio` printed"


class RequestError(EnvgenError):
    """A request that is refused. The message says why."""

    def __init__(self, message: str, status: int = 400):
        super().__init__(message)
        self.status = status


def error_status(error: EnvgenError) -> int:
    """The status code of a response that reports this error."""
    return error.status if isinstance(error, RequestError) else 422


class Request(NamedTuple):
    query: Mapping[str, list[str]]
    body: Mapping[str, Any]  # of a POST

    def text(self, name: str, default: str | None = None) -> str:
        """The value of a parameter; RequestError if it is missing and there is no default."""
        values = self.query.get(name, [])
        if values:
            return values[0]
        if default is None:
            raise RequestError(f"the address needs a parameter {name}")
        return default

    def field(self, name: str, kind: type = str, default: Any = None) -> Any:
        """A value of the body, checked for its type."""
        value = self.body.get(name, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise RequestError(f"the field {name} must be of type {kind.__name__}")
        return value


class Response(NamedTuple):
    body: bytes | str
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    policy: str = PAGE_POLICY
    keep: bool = False  # whether a browser may keep it


class Stream(NamedTuple):
    """Server-sent events: the parts of a page as HTML by their id, each sent when it changes."""

    parts: Callable[[], Mapping[str, str]]


def json_response(value: Any) -> Response:
    return Response(json.dumps(value, allow_nan=False), "application/json")


Route = Callable[[Request], Response | Stream]


class StudioServer(ThreadingHTTPServer):
    """Serves `routes`, which are keyed by method and name: `("GET", "levels")`."""

    daemon_threads, block_on_close = True, False
    allow_reuse_address = os.name != "nt"  # on Windows, it would let two servers use the same port

    def __init__(
        self,
        routes: Mapping[tuple[str, str], Route],
        port: int = 0,
        error_page: Callable[[str, int], Response] | None = None,
    ):
        """Raises OSError if the port is in use.

        Args:
            routes: By method and name.
            port: 0 for any that is free.
            error_page: Shows a message with a status to a person who opens an address. Scripts get it as text.
        """
        self.routes, self.token, self.error_page = routes, secrets.token_urlsafe(24), error_page
        self.stopping, self.streams = threading.Event(), threading.BoundedSemaphore(MAX_STREAMS)
        super().__init__((HOST, port), Handler)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # without HTTPServer's look-up of the machine's name, which can take seconds
        self.server_name, self.server_port = HOST, self.server_address[1]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def serve(self) -> None:
        """Serve until `stop` or Ctrl-C."""
        try:
            self.serve_forever(poll_interval=0.1)
        finally:
            self.stop()

    def stop(self) -> None:
        """End all streams and close the socket."""
        self.stopping.set()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):  # a browser may leave at any time
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    server: StudioServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version, server_version, sys_version = "HTTP/1.1", "envgen", ""
    timeout = SOCKET_TIMEOUT
    is_opened = False  # whether a person opens the address, which has the token, rather than a script

    def do_GET(self) -> None:
        self._respond("GET")

    def do_POST(self) -> None:
        self._respond("POST")

    def log_message(self, format: str, *args: Any) -> None:
        pass  # an address contains the token

    def _respond(self, method: str) -> None:
        self.is_opened = False
        try:
            body = self._read_body(method)
            route, query = self._find_route(method)
            result = route(Request(query, _parse_body(self.headers, body) if method == "POST" else {}))
            if isinstance(result, Stream):
                self._send_events(result)
                return
        except EnvgenError as error:
            result = self._error(str(error), error_status(error))
        except (ConnectionError, TimeoutError):
            self.close_connection = True
            return
        except Exception as error:  # noqa: BLE001  a run directory may hold anything, and the studio goes on
            if os.environ.get("ENVGEN_DEBUG"):
                traceback.print_exc()
            result = self._error(f"this cannot be shown: {type(error).__name__}: {error}", 500)
        self._send(result)

    def _error(self, message: str, status: int) -> Response:
        if self.is_opened and self.server.error_page:
            return self.server.error_page(message, status)
        return Response(f"{message}\n", "text/plain; charset=utf-8", status)

    def _read_body(self, method: str) -> bytes:
        """The body of a request. One that is too large is refused before anything else is looked at."""
        if "Transfer-Encoding" in self.headers:
            self.close_connection = True
            raise RequestError("send the length of the body in Content-Length", 411)
        text = self.headers.get("Content-Length", "0" if method == "GET" else "")
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            self.close_connection = True
            raise RequestError("send the length of the body in Content-Length", 411)
        length = int(text)
        if length > MAX_BODY_BYTES:
            self.close_connection = True
            self.rfile.read(min(length, MAX_DISCARDED_BYTES))
            raise RequestError(f"the body has {length:,} bytes; at most {MAX_BODY_BYTES:,} are accepted", 413)
        return self.rfile.read(length)

    def _find_route(self, method: str) -> tuple[Route, Mapping[str, list[str]]]:
        try:
            target = urlsplit(self.path)
        except ValueError:
            raise RequestError("the address is not valid", 400) from None
        empty, _, rest = target.path.partition("/")
        token, slash, name = rest.partition("/")
        self._check_origin(method)
        if empty or not slash or not hmac.compare_digest(token.encode(), self.server.token.encode()):
            raise RequestError(NO_TOKEN, 403)
        # the links of a page lead astray below a folder
        self.is_opened = self.headers.get("Sec-Fetch-Mode") == "navigate" and "/" not in name
        route = self.server.routes.get((method, name))
        if route is None:
            raise RequestError("there is no such page", 404)
        try:
            return route, parse_qs(target.query, keep_blank_values=True, max_num_fields=2000)
        except ValueError:
            raise RequestError("the address has too many fields", 400) from None

    def _check_origin(self, method: str) -> None:
        """Raise RequestError unless this machine is addressed by its own name, from the studio or by a person."""
        hosts = self.headers.get_all("Host") or []
        name, _, port = hosts[0].partition(":") if len(hosts) == 1 else ("", "", "")
        if name.lower() not in HOST_NAMES or not (port == "" or (port.isascii() and port.isdigit())):
            raise RequestError("the studio is reached as 127.0.0.1 or localhost only", 403)
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in self.headers.get_all("Origin") or []):
            raise RequestError("requests from other origins are refused", 403)
        is_link = method == "GET" and (
            self.headers.get("Sec-Fetch-Mode"), self.headers.get("Sec-Fetch-Dest")
        ) == ("navigate", "document")  # fmt: skip
        if self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") and not is_link:
            raise RequestError("requests from other origins are refused", 403)

    def _send(self, response: Response) -> None:
        data = response.body.encode("utf-8", "replace") if isinstance(response.body, str) else response.body
        self.send_response(response.status)
        self._send_headers(response.content_type, response.policy)
        self.send_header("Cache-Control", "private, max-age=86400, immutable" if response.keep else "no-store")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _send_headers(self, content_type: str, policy: str) -> None:
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        if policy != REPORT_POLICY:  # browsers refuse to open a sandboxed page with this header
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")

    def _send_events(self, stream: Stream) -> None:
        if not self.server.streams.acquire(blocking=False):
            self._send(
                Response(
                    "too many pages of the studio are open; close some of them\n", "text/plain; charset=utf-8", 503
                )
            )
            return
        self.close_connection = True
        try:
            self.send_response(200)
            self._send_headers("text/event-stream", PAGE_POLICY)
            self.send_header("Cache-Control", "no-store")
            self.send_header("Connection", "close")
            self.end_headers()
            self._write_events(stream)
        except (ConnectionError, TimeoutError):
            pass  # the page was closed
        except Exception:  # noqa: BLE001  the headers have been sent, so the stream ends; the page reconnects
            if os.environ.get("ENVGEN_DEBUG"):
                traceback.print_exc()
        finally:
            self.server.streams.release()

    def _write_events(self, stream: Stream) -> None:
        sent: dict[str, str] = {}
        last_write = 0.0
        while not (self.server.stopping.is_set() or self._is_left()):
            parts = stream.parts()
            changed = {name: html for name, html in parts.items() if sent.get(name) != html}
            sent.update(changed)
            now = time.monotonic()
            if changed or now - last_write > HEARTBEAT_SECONDS:
                events = [f"data: {json.dumps({'html': html})}\n\n" for html in changed.values()]
                self.wfile.write("".join(events or [":\n\n"]).encode())
                last_write = now
            self.server.stopping.wait(POLL_SECONDS)

    def _is_left(self) -> bool:
        """Whether the browser has closed the connection: nothing else can arrive on it."""
        return bool(select.select([self.connection], [], [], 0)[0])


def _parse_body(headers: Any, body: bytes) -> Mapping[str, Any]:
    if headers.get_content_type() != "application/json":
        raise RequestError("a body must be of the type application/json", 415)
    try:
        value = parse_json(body)
    except ValueError as error:
        raise RequestError(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RequestError("the body must be a JSON object")
    return value
