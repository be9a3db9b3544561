"""A response that may be neither larger nor longer on its way than agreed, whatever the server does.

Imports httpx2, which comes with openai and with anthropic: only their backends may import this file.
"""

import time
from collections.abc import Iterator

import httpx2

from .protocol import Lost

LARGEST = 4_000_000  # bytes; far above any reply, far below the memory of any machine


class Bounded(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, seconds: float):
        self.stream, self.seconds = stream, seconds

    def __iter__(self) -> Iterator[bytes]:
        size, until = 0, time.monotonic() + self.seconds
        for chunk in self.stream:
            size += len(chunk)
            if size > LARGEST:
                raise Lost(f"the server's answer is larger than {LARGEST:,} bytes; is this a chat server?")
            if time.monotonic() > until:  # a time-out alone only bounds the pause between two bytes
                raise Lost(f"the server's answer was still arriving after {self.seconds:g} seconds; raise the time-out")
            yield chunk

    def close(self) -> None:
        self.stream.close()


def client(seconds: float) -> httpx2.Client:
    """A client for either library. It does not follow redirects, which would take the key along."""

    def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = Bounded(response.stream, seconds)

    return httpx2.Client(
        timeout=seconds,
        headers={"Accept-Encoding": "identity"},  # what arrives is then as large as it was counted
        event_hooks={"response": [bound]},
    )
