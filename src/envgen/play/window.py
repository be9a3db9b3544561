"""The game in a window: a key a step, for as long as it is held; pygame is imported only here."""

import os
from textwrap import wrap
from typing import Any

import numpy as np

from envgen.worlds.world import World

from .game import Game

SIZE = 600  # pixels, of a square
FRAMES = 30  # a second
HELD, REPEAT = 250, 100  # milliseconds after which a key that is held repeats, and between repetitions
NOWHERE = ("offscreen", "dummy")  # what SDL falls back to without a display, in silence


class NoWindow(Exception):
    """There can be no window here; the message says why."""


def play(world: World, level: Any = None, seed: int | None = None) -> None:
    pygame = _pygame()
    try:
        game = Game(world, level, seed, render_mode="rgb_array", render_size=SIZE)
        try:
            _play(pygame, game)
        finally:
            game.close()
    finally:
        pygame.quit()


def _pygame() -> Any:
    try:
        import pygame
    except ImportError:
        raise NoWindow("a window needs pygame: pip install 'envgen[play]'") from None
    try:
        pygame.display.init()
    except pygame.error as error:
        raise NoWindow(f"no window can be opened ({error})") from None
    if pygame.display.get_driver() in NOWHERE and "SDL_VIDEODRIVER" not in os.environ:
        pygame.display.quit()
        raise NoWindow("no window can be opened (there is no display)")
    return pygame


def _play(pygame: Any, game: Game) -> None:
    try:
        canvas = pygame.display.set_mode((SIZE, SIZE))
    except pygame.error as error:
        raise NoWindow(f"no window can be opened ({error})") from None
    pygame.font.init()
    pygame.key.set_repeat(HELD, REPEAT)
    print("\n".join(game.help()), flush=True)
    clock = pygame.time.Clock()
    while True:
        _draw(pygame, canvas, game)
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                return
            if event.type == pygame.KEYDOWN:
                key = _name(pygame, event)
                if key and any(one.kind == "quit" for one in game.press(key)):
                    return
        clock.tick(FRAMES)


def _draw(pygame: Any, canvas: Any, game: Game) -> None:
    picture = pygame.surfarray.make_surface(np.asarray(game.env.render()).transpose(1, 0, 2))
    canvas.blit(
        picture if picture.get_size() == (SIZE, SIZE) else pygame.transform.scale(picture, (SIZE, SIZE)), (0, 0)
    )
    if game.over:
        _veil(pygame, canvas, [game.ending(), "", *game.status()])
    pygame.display.set_caption(game.caption())
    pygame.display.flip()


def _veil(pygame: Any, canvas: Any, lines: list[str]) -> None:
    """Darken the picture, with lines of text before it."""
    veil = pygame.Surface((SIZE, SIZE))
    veil.set_alpha(190)
    canvas.blit(veil, (0, 0))
    font = pygame.font.Font(None, 26)
    for row, text in enumerate(piece for line in lines for piece in wrap(line, 56) or [""]):
        canvas.blit(font.render(text, True, "white"), (40, 60 + 28 * row))


def _name(pygame: Any, event: Any) -> str:
    """The name of a pressed key: what it types, where it types something; nothing for keys like shift."""
    if len(typed := getattr(event, "unicode", "")) == 1 and typed.isprintable() and typed != " ":
        return typed
    name = pygame.key.name(event.key)
    return name if len(name) == 1 or name in ("left", "right", "up", "down", "space", "escape") else ""
