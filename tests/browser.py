"""A browser for tests of pages: Chromium on PATH, or the one that `playwright install chromium` downloads."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

try:
    from playwright.sync_api import expect
except ImportError:  # open_browser skips the tests
    expect: Any = None

REQUIRED = "ENVGEN_REQUIRE_BROWSER"  # set where a missing browser is a failure and no reason to skip
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAX_PRINTED = 3000  # characters of a page
MAX_WAIT = 20  # seconds, for what a page does after an event, on a busy machine
MISSING = "no browser: apt-get install chromium, or playwright install chromium"

if expect is not None:
    expect.set_options(timeout=1000 * MAX_WAIT)


@contextmanager
def open_browser() -> Iterator[Any]:
    """A Playwright browser. Without one the test is skipped, or fails if ENVGEN_REQUIRE_BROWSER is set."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        give_up("no browser: pip install playwright")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except Error as error:
            give_up(f"{MISSING} ({error.message.splitlines()[0]})")
        try:
            yield browser
        finally:
            browser.close()


def give_up(reason: str) -> None:
    if os.environ.get(REQUIRED):
        pytest.fail(reason)
    pytest.skip(reason)


class View:
    """A page opened from a file or an address, with its console messages, errors, dialogs and requests."""

    def __init__(self, browser: Any, address: Path | str, width: int = 1280, dark: bool = False, **options: Any):
        scheme = "dark" if dark else "light"
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        self.open_requests: list[str] = []
        self.page.on("request", self._note_request)
        for event in ("requestfinished", "requestfailed"):
            self.page.on(event, self._note_response)
        url = address.as_uri() if isinstance(address, Path) else address
        self.origin = url if isinstance(address, Path) else "/".join(url.split("/")[:3]) + "/"
        self.page.goto(url)

    def _note(self, message: Any) -> None:
        if "willReadFrequently" not in message.text:  # the tests read pixels, the page does not
            self.problems.append(f"{message.type}: {message.text}")

    def _note_request(self, request: Any) -> None:
        self.requests.append(request.url)
        self.open_requests.append(request.url)

    def _note_response(self, request: Any) -> None:
        if request.url in self.open_requests:
            self.open_requests.remove(request.url)

    def wait_until(self, check: Callable[[], object]) -> None:
        """Wait for what no locator can tell, such as the pixels of a canvas."""
        deadline = time.monotonic() + MAX_WAIT
        while not check():
            assert time.monotonic() < deadline, f"not true within {MAX_WAIT} seconds"
            self.page.wait_for_timeout(20)

    def outside_requests(self) -> list[str]:
        return [url for url in self.requests if not url.startswith(("data:", self.origin))]

    def __enter__(self) -> "View":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is not None:
            self._describe()
        self.context.close()

    def _describe(self) -> None:
        """Print what the page of a test that failed shows, and which requests have no answer."""
        print(f"{self.page.url}\nproblems: {self.problems}\nrequests without a response: {self.open_requests}")
        try:
            print(self.page.locator("body").inner_text(timeout=5000)[-MAX_PRINTED:])
        except Exception as error:  # noqa: BLE001  the page may be gone, and the failure of the test matters more
            print(f"the page has no text: {error}")
