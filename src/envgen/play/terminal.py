"""Play in a terminal: each key press is a step, and the screen is redrawn after it.

If standard input or output is not a terminal, it reads one line of keys (`right right space`), plays them and prints
the final screen. Worlds without text are shown as pictures, if the output is a terminal.
"""

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap
from typing import Any

import numpy as np
from PIL import Image

from envgen.interrupts import signal_handler
from envgen.worlds.world import LevelEnv, World

from .session import GameSession, PlayError

ENTER_SCREEN, LEAVE_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # alternate screen, hidden cursor
CURSOR_HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
SEQUENCE_TIMEOUT = 0.05  # seconds within which the rest of an escape sequence arrives
POLL_INTERVAL = 0.3  # seconds
RENDER_SIZE = 400  # pixels, of the pictures of worlds without text
RESERVED_ROWS = 7  # below a picture, for the status and the most important help
ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
KEY_NAMES = {" ": "space", "\x1b": "escape", "\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace"}
KEY = re.compile(r"\x1b[\[O][0-9;]*(?P<final>[A-Za-z~])|\x1b(?=[^\x1b])|(?P<char>.)", re.DOTALL)


def play_in_terminal(world: World, level: Any = None, seed: int | None = None) -> None:
    observation = text_observation(world)
    render_size = None if observation else RENDER_SIZE
    session = GameSession(world, level, seed, observation, render_size=render_size)
    try:
        if sys.stdin.isatty() and sys.stdout.isatty():
            _play_keys(session)
        else:
            _play_line(session, sys.stdin.readline())
    finally:
        session.close()


def text_observation(world: World) -> str | None:
    """The observation that is shown as text; None if the world has none, and its pictures are shown."""
    if type(world).ascii_map is not World.ascii_map:
        return "symbols"
    return "text" if "text" in world.observations else None


def describe_state(world: World, observation: Any, env: LevelEnv, columns: int, rows: int | None) -> list[str]:
    """The lines that show the state: text, or a picture of at most this size; none without a height."""
    if text_observation(world) is not None:
        text = observation if isinstance(observation, str) else world.ascii_map(observation)
        return text.split("\n")
    if rows is None:
        return []
    frame = env.render()
    if not isinstance(frame, np.ndarray):
        raise PlayError(f"{world.name} has neither a text observation nor pictures, so it cannot be shown")
    return picture_lines(frame, columns, max(1, rows))


def picture_lines(frame: np.ndarray, columns: int, rows: int) -> list[str]:
    """A picture as half blocks, each of which shows two pixels in colors of the 256-color palette."""
    scale = min(columns / frame.shape[1], 2 * rows / frame.shape[0])
    width, height = max(1, int(scale * frame.shape[1])), max(1, int(scale * frame.shape[0] / 2))
    pixels = np.asarray(Image.fromarray(frame).resize((width, 2 * height), Image.Resampling.BOX))
    cube = np.rint(pixels / 51).astype(int)  # 6 levels of each color
    codes = 16 + cube @ (36, 6, 1)
    lines = []
    for upper, lower in zip(codes[::2], codes[1::2], strict=True):
        line, colors = "", None
        for pair in zip(upper.tolist(), lower.tolist(), strict=True):
            if pair != colors:
                line += f"\x1b[38;5;{pair[0]};48;5;{pair[1]}m"
                colors = pair
            line += "▀"
        lines.append(line + "\x1b[0m")
    return lines


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
    height = None if rows is None else rows - RESERVED_ROWS
    state = describe_state(session.world, session.observation, session.env, columns - 1, height)
    return lay_out([state, session.status(), messages or [], session.help()], columns, rows)


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
    """Like `textwrap.wrap`, but lines that fit keep their spaces, as maps need them. Pictures are not wrapped."""
    return [line] if len(line) <= width or line.startswith("\x1b") else wrap(line, width)


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
            # SIGTERM would leave the terminal in this mode, too
            with signal_handler((signal.SIGTERM,), signal.default_int_handler):
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
