"""What the backends behind HTTP share: one exchange, and which error each misbehaviour of a server becomes."""

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

from .keys import hide, place, read_key, secrets_of
from .protocol import Ask, Busy, ChatError, Lost, Refused, Reply

UNSENT = ("ConnectError", "ConnectTimeout", "PoolTimeout")  # httpx2's names for "nobody was there"
NOT_YET = (408, 409, 425, 429)
LOST_BEHIND = (504, 524)  # a gateway passed the request on and heard nothing more: as good as a time-out
TOLD = 300  # characters of a server's message that are passed on


class Server(ABC):
    """A backend behind HTTP. What a server says it does not support is left out, and not sent again by this process."""

    words: ClassVar[Mapping[str, tuple[str, ...]]]  # part of a request that may be left out: how servers call it

    def __init__(self, name: str, base_url: str | None, key_env: str, timeout: float, library: Any):
        self.name, self.timeout, self.key_env = name, timeout, key_env
        self.who = f"{name} at {place(base_url)}" if base_url else name
        self.key = read_key(key_env, base_url)
        self.secrets = secrets_of(self.key, base_url)
        self._library, self._without = library, frozenset[str]()

    @abstractmethod
    def post(self, ask: Ask, without: frozenset[str]) -> Any:
        """Send the request without some of its parts; the library's raw response."""

    @abstractmethod
    def reply(self, body: dict[str, Any]) -> Reply:
        """What the answer says, or TypeError, KeyError... where it is not of the right shape."""

    def send(self, ask: Ask) -> Reply:
        without = self._without
        while True:
            try:
                body = self._exchange(ask, without)
            except Refused as error:
                part = self._objection(error, ask, without)
                if part is None:
                    raise
                without |= {part}
                continue
            self._without = without  # remembered only now that it helped
            try:
                return self.reply(body)
            except (TypeError, KeyError, AttributeError, IndexError, ValueError):
                raise Lost(f"{self.who} answered with JSON of another shape: {_short(json.dumps(body))}") from None

    def _objection(self, error: Refused, ask: Ask, without: frozenset[str]) -> str | None:
        """The part of the request that the server stumbles over."""
        sent = [part for part in self.words if part not in without and getattr(ask, part, True) is not None]
        complaint = str(error).replace(self.who, "").lower()
        if error.status in (400, 404, 422):
            for part in sent:
                if any(word in complaint for word in self.words[part]):
                    return part
        # Few servers name the schema when they stumble over it.
        return "schema" if error.status in (400, 422) and "schema" in sent else None

    def _exchange(self, ask: Ask, without: frozenset[str]) -> dict[str, Any]:
        library = self._library
        try:
            content = self.post(ask, without).http_response.content
        except library.APIStatusError as error:
            raise self._refusal(error.status_code, error.body, error.response.headers) from None
        except library.APIConnectionError as error:  # time-outs are among them
            if isinstance(error.__cause__, Lost):  # from bounds.py; one library wraps it, the other does not
                raise Lost(f"{self.who}: {error.__cause__}") from None
            cause = type(error.__cause__).__name__
            if cause in UNSENT:
                raise Busy(f"{self.who} cannot be reached ({cause}); is the server running?") from None
            if isinstance(error, library.APITimeoutError):
                raise Lost(f"{self.who} did not answer within {self.timeout:g} seconds") from None
            raise Lost(f"{self.who} broke off in the middle of an answer ({cause})") from None
        except Lost as error:
            raise Lost(f"{self.who}: {error}") from None
        try:
            body = hide(json.loads(content), self.secrets)
        except (ValueError, RecursionError):
            start = _short(hide(content[: 4 * TOLD].decode(errors="replace"), self.secrets))
            raise Lost(f"{self.who} answered with something that is not JSON: {start!r}") from None
        if not isinstance(body, dict):
            raise Lost(f"{self.who} answered with JSON of another shape: {_short(json.dumps(body))}")
        if body.get("error") and "choices" not in body:  # some gateways wrap an upstream error in a 200
            code = body["error"].get("code") if isinstance(body["error"], dict) else None
            if not isinstance(code, int) or code < 400:
                raise Lost(f"{self.who} answered with an error: {complaint(body)}")
            raise self._refusal(code, body, {})
        return body

    def _refusal(self, status: int, body: Any, headers: Mapping[str, str]) -> ChatError:
        said = hide(complaint(body), self.secrets)
        if status in LOST_BEHIND:
            return Lost(f"{self.who} lost the request on its way ({status}: {said})")
        if (status in NOT_YET or status >= 500) and "insufficient_quota" not in said:
            return Busy(f"{self.who} is busy ({status}: {said})", wait_told(headers))
        advice = "it would be refused again"
        if status in (401, 403):
            advice = f"set {self.key_env} to a key that is valid there"
        elif status == 404:
            advice = "check the model's name and the base_url"
        elif status < 400:
            advice = "it points elsewhere, and redirects are not followed: check the base_url"
        return Refused(f"{self.who} refuses the request ({status}: {said}); {advice}", status)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= TOLD else f"{text[:TOLD]}..."


def complaint(body: Any) -> str:
    """What a server says is wrong. Servers put it in different places, and some send the whole request back with it."""
    if isinstance(body, dict) and isinstance(body.get("error"), dict | str):
        body = body["error"]
    if not isinstance(body, dict):
        return _short(str(body or "no message"))
    said = body.get("message") or body.get("detail") or body.get("title") or "no message"
    if isinstance(said, list):  # FastAPI's: where and what, but also the input
        problems = [item for item in said if isinstance(item, dict)]
        said = "; ".join(f"{_path(item.get('loc'))} {item.get('msg')}" for item in problems)
    marks = [
        body[mark] for mark in ("code", "param") if isinstance(body.get(mark), str) and body[mark] not in str(said)
    ]
    return _short(f"{said} ({', '.join(marks)})" if marks else str(said))


def _path(place: Any) -> str:
    return ".".join(map(str, place)) if isinstance(place, list) else str(place)


def wait_told(headers: Mapping[str, str]) -> float | None:
    """Seconds, from either form of Retry-After."""
    told = headers.get("retry-after")
    if told is None:
        return None
    try:
        seconds = float(told)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(told).timestamp() - time.time()
        except ValueError:
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def count(value: Any) -> int | None:
    """A number of tokens, if it is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def dollars(value: Any) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if good else None
