"""Stands in for a vLLM server: the few HTTP endpoints that are used, and the way that weights take to it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch

from envgen.coevolve.sampling import sample


class Server:
    """Draws from `lm`, after it has answered as `answers` say: pairs of a status and a JSON value or bytes."""

    def __init__(self, lm=None, answers=()):
        self.lm, self.answers, self.asked = lm, list(answers), []
        self.random = torch.Generator().manual_seed(0)
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"owner": self}))
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.http.shutdown()
        self.http.server_close()

    def complete(self, body):
        """As vLLM answers; what it says last comes first here, since `index` alone says what belongs where."""
        random = self.random if body["temperature"] else None
        drawn = sample(self.lm, body["prompt"], body["n"], body["max_tokens"], random, body["temperature"] or 1.0)
        choices = []
        for index, (ids, mask) in enumerate(zip(drawn.ids, drawn.mask, strict=True)):
            told = ids[mask].tolist()
            reason = "stop" if told[-1] in body["stop_token_ids"] else "length"
            choices.append({"index": index, "token_ids": told, "finish_reason": reason})
        return {"choices": choices[::-1]}


class Handler(BaseHTTPRequestHandler):
    owner: Server

    def do_GET(self):
        self.owner.asked.append((self.path, None))
        self.tell(200, {"data": [{"id": "the-model"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.owner.asked.append((self.path, body))
        self.tell(*(self.owner.answers.pop(0) if self.owner.answers else (200, self.owner.complete(body))))

    def tell(self, code, answer):
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


class Recorder:
    """A way to the server that keeps what it is sent."""

    def __init__(self):
        self.sent = []

    def send(self, told, weights, device):
        found = {name: tensor.numpy().copy() for name, tensor in weights}
        assert [(name, str(array.dtype), list(array.shape)) for name, array in found.items()] == list(told)
        self.sent.append(found)
