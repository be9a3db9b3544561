"""An HTTP client whose responses are limited in size and time, whatever the server does.

Imports httpx2, which the openai and anthropic packages install: import this module only where one of them is needed.
"""

import time
from collections.abc import Iterator

import httpx2

from .protocol import AmbiguousError

MAX_RESPONSE_BYTES = 4_000_000  # far more than any reply needs


class LimitedStream(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, timeout: float):
        self.stream, self.timeout = stream, timeout

    def __iter__(self) -> Iterator[bytes]:
        size, deadline = 0, time.monotonic() + self.timeout
        for chunk in self.stream:
            size += len(chunk)
            if size > MAX_RESPONSE_BYTES:
                raise AmbiguousError(
                    f"the response is larger than {MAX_RESPONSE_BYTES:,} bytes; is this a chat server?"
                )
            if time.monotonic() > deadline:  # httpx's own timeout only limits the pause between two chunks
                raise AmbiguousError(f"the response was incomplete after {self.timeout:g} seconds; raise the timeout")
            yield chunk

    def close(self) -> None:
        self.stream.close()


def http_client(timeout: float) -> httpx2.Client:
    """A client for the openai and anthropic libraries. It does not follow redirects, which would forward the key."""

    def limit(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = LimitedStream(response.stream, timeout)

    return httpx2.Client(
        timeout=timeout,
        headers={"Accept-Encoding": "identity"},  # no compression, so that the size counted is the size received
        event_hooks={"response": [limit]},
    )
