"""The ledger of a conversation: every request, reply, failure and verdict, a JSON line each, as they happened.

A line is on the disk before anything else happens, so whatever was paid for is known after any death of the process.
Lines are only ever appended; a last line that was half written is cut off.

request   number, digest, backend, ask, time        free: true if it cannot be charged
reply     number, digest, text, model, finish, usage, cost, seconds
failure   number, digest, kind, error, seconds      kind: busy, lost, refused
verdict   digest, ok, errors
"""

import json
import os
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from envgen.runs.checkpoint import flush_folder
from envgen.runs.files import open_regular, read_regular

from .budget import Prices, Totals, guess
from .protocol import Ask, ChatError, Reply

LEDGER = "ledger.jsonl"
KEYS = {
    "request": {"number", "digest", "backend", "ask"},
    "reply": {"number", "digest", "text", "model", "finish", "usage", "cost", "seconds"},
    "failure": {"number", "digest", "kind", "error", "seconds"},
    "verdict": {"digest", "ok", "errors"},
}


class LedgerError(ChatError):
    """The ledger cannot be read or written; the message says where."""


class Ledger:
    """One run's ledger, open for this process."""

    def __init__(self, file: Path):
        self.file = Path(file)
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            open_regular(self.file, "ab").close()
            flush_folder(self.file.parent)
            self.lines = read_lines(self.file)
            with open_regular(self.file, "rb+") as out:
                whole = out.read()
                out.truncate(whole.rfind(b"\n") + 1)
                os.fsync(out.fileno())
        except OSError as error:
            raise LedgerError(f"cannot open the ledger {self.file}: {error.strerror}") from error
        self._replies = {digest: deque(replies) for digest, replies in recorded(self.lines).items()}
        self._verdicts: dict[str, deque[dict[str, Any]]] = defaultdict(deque)
        for line in self.lines:
            if line["event"] == "verdict":
                self._verdicts[line["digest"]].append(line)
        self._number = sum(line["event"] == "request" for line in self.lines)

    def recall(self, digest: str) -> Reply | None:
        """The next reply to this question that was recorded before this process, each only once."""
        replies = self._replies.get(digest)
        return replies.popleft() if replies else None

    @property
    def unused(self) -> dict[str, list[Reply]]:
        """Recorded replies that nobody has recalled yet, by digest."""
        return {digest: list(replies) for digest, replies in self._replies.items() if replies}

    def request(self, digest: str, ask: dict[str, Any], backend: str, free: bool = False) -> int:
        self._number += 1
        line = {"event": "request", "number": self._number, "digest": digest, "backend": backend, "ask": ask}
        line |= {"free": True} if free else {}
        self._write({**line, "time": datetime.now(UTC).isoformat(timespec="seconds")})
        return self._number

    def reply(self, number: int, digest: str, reply: Reply, cost: float | None, seconds: float) -> None:
        told = {**reply.model_dump(mode="json"), "cost": cost, "seconds": round(seconds, 3)}
        self._write({"event": "reply", "number": number, "digest": digest, **told})

    def failure(self, number: int, digest: str, kind: str, error: str, seconds: float) -> None:
        told = {"kind": kind, "error": error, "seconds": round(seconds, 3)}
        self._write({"event": "failure", "number": number, "digest": digest, **told})

    def verdict(self, digest: str, ok: bool, errors: Sequence[str]) -> None:
        """Told again by a resumed run that comes to the same verdict, it is not written again."""
        line = {"event": "verdict", "digest": digest, "ok": ok, "errors": list(errors)}
        before = self._verdicts[digest]
        if not before or before.popleft() != line:
            self._write(line)

    def totals(self, prices: Prices | None = None) -> Totals:
        """What the run has used, this process and those before it."""
        return totals(self.lines, prices)

    def _write(self, line: dict[str, Any]) -> None:
        try:
            with open_regular(self.file, "ab", buffering=0) as out:
                length = out.tell()
                data = json.dumps(line).encode() + b"\n"
                if out.write(data) != len(data):
                    out.truncate(length)
                    raise OSError(0, "the disk took only a part of it; is it full?")
                os.fsync(out.fileno())
        except OSError as error:
            raise LedgerError(f"cannot write the ledger {self.file}: {error.strerror}") from error
        self.lines.append(line)


def read_lines(file: Path) -> list[dict[str, Any]]:
    """All whole lines, also of a ledger that another process is writing."""
    try:
        texts = read_regular(file).split(b"\n")[:-1]  # what follows the last line's end is half written, or nothing
    except OSError as error:
        raise LedgerError(f"cannot read the ledger {file}: {error.strerror}") from error
    lines, asked = [], set()
    for number, text in enumerate(texts, 1):
        line = _line(text, f"line {number} of {file}")
        asked |= {line["number"]} if line["event"] == "request" else set()
        if line.get("number", number) not in asked and line["event"] != "verdict":
            raise LedgerError(f"line {number} of {file} answers no request; restore it, or begin another run")
        lines.append(line)
    return lines


def _line(text: bytes, where: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
        missing = KEYS[line["event"]] - line.keys()
        if not missing and line["event"] == "request":
            Ask.model_validate(line["ask"])
        elif not missing and line["event"] == "reply":
            _reply(line)
    except (ValueError, KeyError, TypeError) as error:
        raise LedgerError(f"{where} is damaged ({type(error).__name__}); restore it, or begin another run") from None
    if missing:
        raise LedgerError(f"{where} has no {', '.join(sorted(missing))}; restore it, or begin another run")
    return line


def recorded(lines: Iterable[dict[str, Any]]) -> dict[str, list[Reply]]:
    """The replies in their order, by digest."""
    replies: dict[str, list[Reply]] = defaultdict(list)
    for line in lines:
        if line["event"] == "reply":
            replies[line["digest"]].append(_reply(line))
    return replies


def _reply(line: dict[str, Any]) -> Reply:
    return Reply(text=line["text"], model=line["model"], finish=line["finish"], usage=line["usage"])


def totals(lines: Iterable[dict[str, Any]], prices: Prices | None = None) -> Totals:
    """What the calls in some lines used; a call without an end was killed, and may have been charged."""
    used, unended = Totals(), {}
    unknown: list[dict[str, Any]] = []  # requests that may have been charged, and whose use nobody told
    for line in lines:
        if line["event"] == "request":
            unended[line["number"]] = line
        elif line["event"] == "reply":
            used = _with_reply(used, unended.pop(line["number"]), line, prices)
        elif line["event"] == "failure":
            request = unended.pop(line["number"])
            used = used.plus(seconds=line["seconds"])
            unknown += [request] if line["kind"] == "lost" else []
    for request in [*unknown, *unended.values()]:
        if not request.get("free"):
            most = guess(Ask.model_validate(request["ask"]))
            cost = prices.of(*most) if prices else 0.0
            used = used.plus(calls=1, guessed_tokens=sum(most), guessed_cost=cost)
    return used


def _with_reply(used: Totals, request: dict[str, Any], line: dict[str, Any], prices: Prices | None) -> Totals:
    told = (line["usage"]["prompt_tokens"], line["usage"]["reply_tokens"])
    guessed = [0, 0]
    if None in told:
        likely = guess(Ask.model_validate(request["ask"]), line["text"])
        guessed = [length if known is None else 0 for known, length in zip(told, likely, strict=True)]
    prompt, reply = (known or 0 for known in told)
    used = used.plus(calls=1, prompt_tokens=prompt, reply_tokens=reply, guessed_tokens=sum(guessed))
    used = used.plus(seconds=line["seconds"])
    if line["cost"] is not None:
        return used.plus(cost=line["cost"])
    return used.plus(cost=prices.of(prompt, reply), guessed_cost=prices.of(*guessed)) if prices else used
