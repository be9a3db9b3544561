"""Images for people: a window that shows an environment, and a grid of titled levels."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled
from PIL import Image, ImageDraw

RENDER_SIZE = (576, 576)  # (width, height) of the images that render() returns by default
MARGIN = 6  # pixels around each image of a grid
TITLE_HEIGHT = 14  # pixels


def image_grid(
    levels: Mapping[str, Any], columns: int, side: int, render: Callable[[int, Any], np.ndarray]
) -> Image.Image:
    """Lay out one image per level in rows, each under its title.

    Args:
        levels: The levels by title.
        columns: Images in a row.
        side: Width and height of each image in pixels.
        render: `render(k, level)` returns the image (side, side, 3) of the k-th level.
    """
    rows = -(-len(levels) // columns)
    page = Image.new(
        "RGB", (columns * (side + MARGIN) + MARGIN, rows * (side + TITLE_HEIGHT + MARGIN) + MARGIN), "white"
    )
    canvas = ImageDraw.Draw(page)
    for k, (title, level) in enumerate(levels.items()):
        x, y = MARGIN + k % columns * (side + MARGIN), MARGIN + k // columns * (side + TITLE_HEIGHT + MARGIN)
        canvas.text((x, y), title, fill="black")
        page.paste(Image.fromarray(render(k, level)), (x, y + TITLE_HEIGHT))
    return page


class RenderWindow:
    """A pygame window. pygame is imported only here."""

    def __init__(self, title: str, fps: int):
        try:
            import pygame
        except ImportError:
            raise DependencyNotInstalled(
                'render_mode="human" requires pygame; install it with pip install "envgen[play]"'
            ) from None
        self._pygame, self._title, self._fps = pygame, title, fps
        self._screen = None

    def show(self, image: np.ndarray) -> None:
        """Show an image (height, width, 3), no faster than the frame rate."""
        pygame = self._pygame
        if self._screen is None:
            pygame.display.init()
            pygame.display.set_caption(self._title)
            self._screen = pygame.display.set_mode((image.shape[1], image.shape[0]))
            self._clock = pygame.time.Clock()
        pygame.event.pump()
        self._screen.blit(pygame.surfarray.make_surface(image.transpose(1, 0, 2)), (0, 0))
        pygame.display.flip()
        self._clock.tick(self._fps)

    def close(self) -> None:
        if self._screen is not None:
            self._pygame.display.quit()
            self._screen = None
