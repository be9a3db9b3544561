"""A studio that serves a folder, and requests to it as a browser or a stranger sends them."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from toy_world import ToyWorld

from envgen.studio.app import Studio
from envgen.studio.server import StudioServer


class Answer(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Client:
    def __init__(self, studio: Studio, server: StudioServer):
        self.studio, self.server = studio, server

    def raw(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        """Send exactly these headers, and a Host unless there is one."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=120)
        try:
            connection.putrequest(method, path, skip_host="Host" in (headers or {}), skip_accept_encoding=True)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return Answer(response.status, response.read().decode(errors="replace"), dict(response.headers))
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.raw("GET", f"/{self.server.token}/{path}", headers=names)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        data = json.dumps(body).encode()
        names = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        names |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.raw("POST", f"/{self.server.token}/{path}", data, names)

    def run_id(self, name: str) -> str:
        return next(run.id for run in self.studio.folder.runs() if run.name == name)


@contextmanager
def serve(folder: Path) -> Iterator[Client]:
    studio = Studio(folder, [ToyWorld()])
    server = studio.server()
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield Client(studio, server)
    finally:
        server.shutdown()
        thread.join(10)
        assert not thread.is_alive()
        studio.games.close()
