"""The game in a terminal: a key at a time, the screen drawn anew after each.

Where there is no terminal it reads one line of keys, `right right space`, plays them and prints the last screen.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import wrap
from typing import Any

from envgen.worlds.world import World

from .game import Game, PlayError

OPEN, CLOSE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # a screen of our own without a cursor, and back
HOME, TO_LINE_END, TO_END = "\x1b[H", "\x1b[K", "\x1b[J"
PATIENCE = 0.05  # seconds within which the rest of an arrow key arrives
LOOK_UP = 0.3  # seconds
ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
NAMES = {" ": "space", "\x1b": "escape", "\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace"}
KEY = re.compile(r"\x1b[\[O](?P<between>[0-9;]*)(?P<last>[A-Za-z~])|\x1b(?=[^\x1b])|(?P<one>.)", re.DOTALL)


def play(world: World, level: Any = None, seed: int | None = None) -> None:
    if "text" not in world.observations:
        raise PlayError(f"{world.name} cannot be told in words, only played in a window: pip install 'envgen[play]'")
    game = Game(world, level, seed, "text")
    try:
        if sys.stdin.isatty() and sys.stdout.isatty():
            _play_keys(game)
        else:
            _play_line(game, sys.stdin.readline())
    finally:
        game.close()


def _play_line(game: Game, line: str) -> None:
    for key in line.split():
        events = game.press(key)
        for event in events:
            if event.text:
                print(event.text)
        if any(event.kind == "quit" for event in events):
            break
    print("\n".join(screen(game, shutil.get_terminal_size().columns)))


def _play_keys(game: Game) -> None:
    news: list[str] = []
    with _raw():
        sys.stdout.write(OPEN)
        try:
            while True:
                size = shutil.get_terminal_size()
                lines = screen(game, size.columns, size.lines, news)
                sys.stdout.write(HOME + "\r\n".join(line + TO_LINE_END for line in lines) + TO_END)
                sys.stdout.flush()
                news = []
                for key in _read():
                    events = game.press(key)
                    if any(event.kind == "quit" for event in events):
                        return
                    news += [event.text for event in events if event.text and event.text not in news]
        finally:
            sys.stdout.write(CLOSE)
            sys.stdout.flush()
            print("\n".join(game.status()))


def screen(game: Game, columns: int, rows: int | None = None, news: list[str] | None = None) -> list[str]:
    """All there is to see. Where the rows do not suffice, what can be missed first stands last."""
    parts = [str(game.observation).split("\n"), game.status(), news or [], game.help()]
    lines = []
    for part in parts:
        lines += [piece for line in part for piece in wrap(line, max(20, columns - 1)) or [""]]
        lines += [""] if part else []
    return lines[:-1][:rows]


def keys_in(typed: str) -> list[str]:
    """The names of the keys behind what a terminal sends; keys without a name here are left out."""
    names = []
    for found in KEY.finditer(typed):
        if found["last"] in ARROWS:
            names.append(ARROWS[found["last"]])
        elif found["one"]:
            names.append(NAMES.get(found["one"], found["one"]))
    return [name for name in names if name.isprintable()]


if sys.platform == "win32":
    import msvcrt

    SCANNED = {"H": "up", "P": "down", "M": "right", "K": "left"}

    @contextmanager
    def _raw() -> Iterator[None]:
        os.system("")  # makes the console understand the sequences above
        yield

    def _read() -> list[str]:
        typed = msvcrt.getwch()
        if typed == "\x03":
            raise KeyboardInterrupt
        if typed in "\x00\xe0":
            name = SCANNED.get(msvcrt.getwch())
            return [name] if name else []
        return keys_in(typed)

else:
    import select
    import termios

    @contextmanager
    def _raw() -> Iterator[None]:
        """Keys come one by one and unseen. Ctrl-C interrupts as ever; Ctrl-Z would leave it so, and does nothing."""
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
        now = termios.tcgetattr(terminal)
        now[3] &= ~(termios.ICANON | termios.ECHO)
        now[6][termios.VMIN], now[6][termios.VTIME] = 1, 0
        now[6][termios.VSUSP] = now[6][termios.VQUIT] = b"\0"
        try:
            termios.tcsetattr(terminal, termios.TCSAFLUSH, now)
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSAFLUSH, before)

    def _read() -> list[str]:
        """The keys that were pressed, at least one unless it has no name."""
        terminal = sys.stdin.fileno()
        while not select.select([terminal], [], [], LOOK_UP)[0]:
            pass  # a Ctrl-C that comes just before a call that waits is noticed only after it
        typed = os.read(terminal, 1024)
        if not typed:
            return ["escape"]  # the terminal is gone
        while re.search(rb"\x1b([\[O][0-9;]*)?$", typed) and select.select([terminal], [], [], PATIENCE)[0]:
            more = os.read(terminal, 1024)
            if not more:
                break
            typed += more
        return keys_in(typed.decode(errors="replace"))
