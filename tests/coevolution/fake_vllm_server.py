"""A stand-in for a vLLM server: the few HTTP endpoints in use, and a transfer that records weights."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch

from envgen.coevolution.sampling import generate


class FakeVllmServer:
    """Generates with `lm`, after it has sent `responses`: pairs of a status and a JSON value or bytes."""

    def __init__(self, lm=None, responses=(), max_model_len=None):
        self.lm, self.responses, self.requests, self.max_model_len = lm, list(responses), [], max_model_len
        self.rng = torch.Generator().manual_seed(0)
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), type("BoundHandler", (Handler,), {"owner": self}))
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *exc):
        self.http.shutdown()
        self.http.server_close()

    def complete(self, body):
        """A response as vLLM sends it, in reverse order: only `index` identifies a choice."""
        longest = max(map(len, body["prompt"])) + body["max_tokens"]
        if self.max_model_len is not None and longest > self.max_model_len:
            return 400, {"error": f"maximum context length is {self.max_model_len} tokens"}
        rng = self.rng if body["temperature"] else None
        completions = generate(self.lm, body["prompt"], body["n"], body["max_tokens"], rng, body["temperature"] or 1.0)
        choices = []
        for index, (ids, mask) in enumerate(zip(completions.ids, completions.mask, strict=True)):
            token_ids = ids[mask].tolist()
            reason = "stop" if token_ids[-1] in body["stop_token_ids"] else "length"
            choices.append({"index": index, "token_ids": token_ids, "finish_reason": reason})
        return 200, {"choices": choices[::-1]}


class Handler(BaseHTTPRequestHandler):
    owner: FakeVllmServer

    def do_GET(self):
        self.owner.requests.append((self.path, None))
        self.respond(200, {"data": [{"id": "the-model", "max_model_len": self.owner.max_model_len}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.owner.requests.append((self.path, body))
        self.respond(*(self.owner.responses.pop(0) if self.owner.responses else self.owner.complete(body)))

    def respond(self, status, content):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


class RecordingTransfer:
    """A WeightTransfer that keeps what it is sent."""

    def __init__(self):
        self.sent = []

    def send(self, parameters, weights, device):
        arrays = {name: tensor.numpy().copy() for name, tensor in weights}
        assert [(name, str(array.dtype), list(array.shape)) for name, array in arrays.items()] == list(parameters)
        self.sent.append(arrays)
