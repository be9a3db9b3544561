"""Starts the worker of a multi-turn item and talks to it, with a time limit for every answer."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from envgen.function_calls.calls import Call
from envgen.runs.files import parse_json

from ..benchmark import BenchmarkError
from .data import CLASS_MODULES

START_SECONDS = 60.0  # on a busy machine, importing the classes takes a while
CALL_SECONDS = 20.0  # for all calls of one reply
MAX_LINE_BYTES = 64 << 20


class WorkerError(Exception):
    """The worker died or did not answer in time, because of what the model called."""


class Worker:
    """The instances of the model and of the expected calls, in a process with limits."""

    def __init__(self, classes: Sequence[str], config: dict[str, Any], long_context: bool):
        if sys.platform == "win32":
            raise BenchmarkError("the multi-turn categories need Linux or macOS, which limit what their classes may do")
        script = Path(__file__).with_name("worker.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="envgen-bfcl-worker", daemon=True)
        self._reader.start()
        modules = {name: CLASS_MODULES[name] for name in classes}
        start = {"classes": modules, "config": config, "long_context": long_context}
        try:
            self._ask({"start": start}, START_SECONDS)
        except WorkerError as error:
            self.close()
            raise BenchmarkError(
                f"the classes of bfcl-eval cannot be started ({error}); they need mpmath: pip install 'envgen[bfcl]'"
            ) from None

    def run(self, side: str, calls: Sequence[Call]) -> list[str]:
        """The result of each call, as text."""
        request = {"run": side, "calls": [[call.name, call.arguments] for call in calls]}
        return self._ask(request, CALL_SECONDS)["results"]

    def differences(self) -> list[str]:
        """The attributes that differ between both sides."""
        return self._ask({"compare": True}, CALL_SECONDS)["differences"]

    def close(self) -> None:
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := self._process.stdout.readline(MAX_LINE_BYTES):
                self._lines.put(line)
        except ValueError:  # closed while it waited
            pass
        self._lines.put(b"")

    def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise WorkerError(f"no result after {seconds:g} seconds") from None
        except (OSError, TypeError, ValueError, RecursionError) as error:
            raise WorkerError(type(error).__name__) from None
        try:
            reply = parse_json(line)
        except ValueError:
            raise WorkerError("the process ended") from None
        if not isinstance(reply, dict) or "error" in reply:
            raise WorkerError(str(reply.get("error") if isinstance(reply, dict) else "no answer"))
        return reply
