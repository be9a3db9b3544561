"""A local language model server with scripted replies.

    with FakeLlmServer(["the first reply", status(429, wait=2), "the second"]) as server:
        OpenAIBackend("model", base_url=server.url)

An item is the text of a valid reply, or a function of the handler and the request body that sends any response. The
server implements chat completions (OpenAI) and messages (Anthropic). `server.requests` lists every request received.
"""

import json
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Request(NamedTuple):
    path: str
    headers: dict[str, str]  # names in lower case
    body: Any


Answer = str | Callable[["Handler", Any], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.loads(raw)
        owner = self.server.owner
        with owner.lock:
            owner.requests.append(Request(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            answer = next(owner.answers, status(400, "the script has no answer left"))
        if isinstance(answer, str):
            answer = completion(answer)
        try:
            answer(self, body)
        except (BrokenPipeError, ConnectionResetError):  # the client gave up, as some tests intend
            self.close_connection = True

    def respond(self, code: int, data: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(code)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False
    owner: "FakeLlmServer"


class FakeLlmServer:
    def __init__(self, answers: Iterable[Answer] = ()):
        self.answers, self.requests, self.lock = iter(list(answers)), list[Request](), threading.Lock()
        self.num_bytes_sent = 0  # of an oversized response
        self.shutdown_event = threading.Event()  # ends a hanging response
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.owner = self
        self.root = f"http://127.0.0.1:{self._server.server_port}"
        self.url = f"{self.root}/v1"

    def __enter__(self) -> "FakeLlmServer":
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown_event.set()
        self._server.shutdown()
        self._server.server_close()


def completion(
    text: str | None, prompt: int | None = 100, reply: int = 20, cost: float | None = None, finish: str | None = None
) -> Answer:
    """A valid reply in the format of the path. Text None: an empty reply. `prompt` None: usage is not reported."""

    def answer(handler: Handler, body: Any) -> None:
        if handler.path.endswith("/messages"):
            content = [] if text is None else [{"type": "text", "text": text}]
            if "tools" in body and text is not None:
                content = [{"type": "tool_use", "id": "t", "name": body["tools"][0]["name"], "input": json.loads(text)}]
            usage = {"input_tokens": prompt, "output_tokens": reply}
            response = {"type": "message", "role": "assistant", "content": content, "stop_reason": finish or "end_turn"}
        else:
            message = {"role": "assistant", "content": text}
            usage = {"prompt_tokens": prompt, "completion_tokens": reply, **({} if cost is None else {"cost": cost})}
            response = {"choices": [{"index": 0, "message": message, "finish_reason": finish or "stop"}]}
        response |= {"id": "r", "model": body["model"], **({} if prompt is None else {"usage": usage})}
        handler.respond(200, json.dumps(response).encode())

    return answer


def raw(data: bytes, kind: str = "application/json", code: int = 200) -> Answer:
    return lambda handler, body: handler.respond(code, data, kind)


def status(code: int, message: str = "no", /, wait: object = None, **more: str) -> Answer:
    """An error in the format of both vendors; `wait` is sent as Retry-After."""
    data = json.dumps({"type": "error", "error": {"type": "server_error", "message": message, **more}}).encode()
    headers = {} if wait is None else {"Retry_After": str(wait)}
    return lambda handler, body: handler.respond(code, data, **headers)


def reject_parameter(parameter: str, then: Answer, code: int = 400) -> Answer:
    """Reject requests that contain a parameter."""

    def answer(handler: Handler, body: Any) -> None:
        if parameter in body:
            status(code, f"Unsupported parameter: '{parameter}'")(handler, body)
        else:
            (completion(then) if isinstance(then, str) else then)(handler, body)

    return answer


def hang_response(handler: Handler, body: Any) -> None:
    handler.server.owner.shutdown_event.wait(30)
    handler.close_connection = True


def slow_response(handler: Handler, body: Any) -> None:
    """Send one byte every 50 ms, forever."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not handler.server.owner.shutdown_event.wait(0.05):
        handler.wfile.write(b" ")


def truncated_response(handler: Handler, body: Any) -> None:
    """Send part of the announced content and close the connection."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [{"message": {"content": "ha')
    handler.close_connection = True


def oversized_response(code: int = 200) -> Answer:
    """Send 40 MB without a content length."""

    def answer(handler: Handler, body: Any) -> None:
        handler.send_response(code)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        block = b"x" * 1_000_000
        for _ in range(40):
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(block), block))
            handler.server.owner.num_bytes_sent += len(block)
        handler.wfile.write(b"0\r\n\r\n")

    return answer


def echo_key(code: int) -> Answer:
    """Return an error that contains the credentials of the request."""

    def answer(handler: Handler, body: Any) -> None:
        sent = [handler.headers.get(name) for name in ("authorization", "x-api-key")]
        status(code, f"wrong credentials {sent}")(handler, body)

    return answer
