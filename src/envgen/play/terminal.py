"""Play in a terminal: each key press is a step, and the screen is redrawn after it.

If standard input or output is not a terminal, it reads one line of keys (`right right space`), plays them and prints
the final screen.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import Any

from envgen.worlds.world import World

from .session import GameSession, PlayError

ENTER_SCREEN, LEAVE_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # alternate screen, hidden cursor
CURSOR_HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
SEQUENCE_TIMEOUT = 0.05  # seconds within which the rest of an escape sequence arrives
POLL_INTERVAL = 0.3  # seconds
ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
KEY_NAMES = {" ": "space", "\x1b": "escape", "\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace"}
KEY = re.compile(r"\x1b[\[O][0-9;]*(?P<final>[A-Za-z~])|\x1b(?=[^\x1b])|(?P<char>.)", re.DOTALL)


def play_in_terminal(world: World, level: Any = None, seed: int | None = None) -> None:
    session = GameSession(world, level, seed, text_observation(world))
    try:
        if sys.stdin.isatty() and sys.stdout.isatty():
            _play_keys(session)
        else:
            _play_line(session, sys.stdin.readline())
    finally:
        session.close()


def text_observation(world: World) -> str:
    """The observation that `describe_observation` shows as text."""
    if type(world).ascii_map is not World.ascii_map:
        return "symbols"
    if "text" not in world.observations:
        raise PlayError(
            f"{world.name} has no text observation, so it can only be shown in a window: pip install 'envgen[play]'"
        )
    return "text"


def describe_observation(world: World, observation: Any) -> str:
    return observation if isinstance(observation, str) else world.ascii_map(observation)


def _play_line(session: GameSession, line: str) -> None:
    for key in line.split():
        events = session.press(key)
        for event in events:
            if event.text:
                print(event.text)
        if any(event.kind == "quit" for event in events):
            break
    print("\n".join(render_screen(session, shutil.get_terminal_size().columns)))


def _play_keys(session: GameSession) -> None:
    messages: list[str] = []
    with raw_mode():
        sys.stdout.write(ENTER_SCREEN)
        try:
            while True:
                size = shutil.get_terminal_size()
                show_screen(render_screen(session, size.columns, size.lines, messages))
                messages = []
                for key in read_keys():
                    events = session.press(key)
                    if any(event.kind == "quit" for event in events):
                        return
                    messages += [event.text for event in events if event.text and event.text not in messages]
        finally:
            sys.stdout.write(LEAVE_SCREEN)
            sys.stdout.flush()
            print("\n".join(session.status()))


def render_screen(
    session: GameSession, columns: int, rows: int | None = None, messages: list[str] | None = None
) -> list[str]:
    """The lines of the screen. The least important come last and are cut off if there are too few rows."""
    text = describe_observation(session.world, session.observation)
    return lay_out([text.split("\n"), session.status(), messages or [], session.help()], columns, rows)


def lay_out(sections: Sequence[Sequence[str]], columns: int, rows: int | None = None) -> list[str]:
    """Sections of lines with an empty line between them, wrapped to the width and cut off at the height."""
    lines = []
    for section in sections:
        lines += [wrapped for line in section for wrapped in _wrap_line(line, max(20, columns - 1))]
        lines += [""] if section else []
    return lines[:-1][:rows]


def show_screen(lines: Sequence[str]) -> None:
    """Redraw the screen between ENTER_SCREEN and LEAVE_SCREEN."""
    sys.stdout.write(CURSOR_HOME + "\r\n".join(line + CLEAR_LINE for line in lines) + CLEAR_BELOW)
    sys.stdout.flush()


def _wrap_line(line: str, width: int) -> list[str]:
    """Like `textwrap.wrap`, but lines that fit keep their spaces, as maps need them."""
    return [line] if len(line) <= width else wrap(line, width)


def parse_keys(sequence: str) -> list[str]:
    """The names of the keys in what a terminal sends. Keys that no game uses are left out."""
    names = []
    for match in KEY.finditer(sequence):
        if match["final"] in ARROWS:
            names.append(ARROWS[match["final"]])
        elif match["char"]:
            names.append(KEY_NAMES.get(match["char"], match["char"]))
    return [name for name in names if name.isprintable()]


if sys.platform == "win32":
    import msvcrt

    SCAN_CODES = {"H": "up", "P": "down", "M": "right", "K": "left"}

    @contextmanager
    def raw_mode() -> Iterator[None]:
        os.system("")  # makes the console interpret escape sequences
        yield

    def read_keys(timeout: float | None = None) -> list[str]:
        deadline = None if timeout is None else time.monotonic() + timeout
        while deadline is not None and not msvcrt.kbhit():
            if time.monotonic() >= deadline:
                return []
            time.sleep(min(0.01, timeout or 0))
        char = msvcrt.getwch()
        if char == "\x03":
            raise KeyboardInterrupt
        if char in "\x00\xe0":
            name = SCAN_CODES.get(msvcrt.getwch())
            return [name] if name else []
        return parse_keys(char)

else:
    import select
    import termios

    @contextmanager
    def raw_mode() -> Iterator[None]:
        """Deliver keys one by one, without echo.

        Ctrl-C still interrupts. Ctrl-Z is disabled, as it would leave the terminal in this mode.
        """
        terminal = sys.stdin.fileno()
        original = termios.tcgetattr(terminal)
        raw = termios.tcgetattr(terminal)
        raw[3] &= ~(termios.ICANON | termios.ECHO)
        raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0
        raw[6][termios.VSUSP] = raw[6][termios.VQUIT] = b"\0"
        try:
            termios.tcsetattr(terminal, termios.TCSAFLUSH, raw)
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSAFLUSH, original)

    def read_keys(timeout: float | None = None) -> list[str]:
        """Wait for input, at most `timeout` seconds, and return its keys; none if there are none with a name."""
        terminal = sys.stdin.fileno()
        while not select.select([terminal], [], [], POLL_INTERVAL if timeout is None else timeout)[0]:
            if timeout is not None:
                return []
            # a Ctrl-C just before a blocking call is noticed only after it
        data = os.read(terminal, 1024)
        if not data:
            return ["escape"]  # the terminal was closed
        while re.search(rb"\x1b([\[O][0-9;]*)?$", data) and select.select([terminal], [], [], SEQUENCE_TIMEOUT)[0]:
            more = os.read(terminal, 1024)
            if not more:
                break
            data += more
        return parse_keys(data.decode(errors="replace"))
