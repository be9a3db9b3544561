"""Play in a window: each key press is a step, and a held key repeats. pygame is imported only here."""

import os
from textwrap import wrap
from typing import Any

import numpy as np

from envgen.worlds.world import World

from .session import GameSession

WINDOW_SIZE = 600  # pixels
FRAMES_PER_SECOND = 30
REPEAT_DELAY, REPEAT_INTERVAL = 250, 100  # milliseconds, of a held key
INVISIBLE_DRIVERS = ("offscreen", "dummy")  # SDL falls back to these without a display


class WindowUnavailable(Exception):
    """No window can be opened; the message says why."""


def play_in_window(world: World, level: Any = None, seed: int | None = None) -> None:
    pygame = init_pygame()
    try:
        session = GameSession(world, level, seed, render_size=WINDOW_SIZE)
        try:
            _run(pygame, session)
        finally:
            session.close()
    finally:
        pygame.quit()


def init_pygame() -> Any:
    """The module, with its display ready; WindowUnavailable if it is not installed or there is no display."""
    try:
        import pygame
    except ImportError:
        raise WindowUnavailable("a window needs pygame: pip install 'envgen[play]'") from None
    try:
        pygame.display.init()
    except pygame.error as error:
        raise WindowUnavailable(f"no window can be opened ({error})") from None
    if pygame.display.get_driver() in INVISIBLE_DRIVERS and "SDL_VIDEODRIVER" not in os.environ:
        pygame.display.quit()
        raise WindowUnavailable("no window can be opened (there is no display)")
    return pygame


def _run(pygame: Any, session: GameSession) -> None:
    try:
        screen = pygame.display.set_mode((WINDOW_SIZE, WINDOW_SIZE))
    except pygame.error as error:
        raise WindowUnavailable(f"no window can be opened ({error})") from None
    pygame.font.init()
    pygame.key.set_repeat(REPEAT_DELAY, REPEAT_INTERVAL)
    print("\n".join(session.help()), flush=True)
    clock = pygame.time.Clock()
    while True:
        _draw(pygame, screen, session)
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                return
            if event.type == pygame.KEYDOWN:
                key = key_name(pygame, event)
                if key and any(result.kind == "quit" for result in session.press(key)):
                    return
        clock.tick(FRAMES_PER_SECOND)


def _draw(pygame: Any, screen: Any, session: GameSession) -> None:
    size = (WINDOW_SIZE, WINDOW_SIZE)
    frame = pygame.surfarray.make_surface(np.asarray(session.env.render()).transpose(1, 0, 2))
    screen.blit(frame if frame.get_size() == size else pygame.transform.scale(frame, size), (0, 0))
    if session.done:
        _draw_overlay(pygame, screen, [session.end_message(), "", *session.status()])
    pygame.display.set_caption(session.caption())
    pygame.display.flip()


def _draw_overlay(pygame: Any, screen: Any, lines: list[str]) -> None:
    """Darken the frame and write lines of text on it."""
    overlay = pygame.Surface((WINDOW_SIZE, WINDOW_SIZE))
    overlay.set_alpha(190)
    screen.blit(overlay, (0, 0))
    font = pygame.font.Font(None, 26)
    for row, text in enumerate(wrapped for line in lines for wrapped in wrap(line, 56) or [""]):
        screen.blit(font.render(text, True, "white"), (40, 60 + 28 * row))


def key_name(pygame: Any, event: Any) -> str:
    """The character that a pressed key types, or its name; "" for modifiers such as shift."""
    if len(char := getattr(event, "unicode", "")) == 1 and char.isprintable() and char != " ":
        return char
    name = pygame.key.name(event.key)
    return name if len(name) == 1 or name in ("left", "right", "up", "down", "space", "escape") else ""
