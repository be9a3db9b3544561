"""A window that shows pictures to a person; pygame is imported only here."""

import numpy as np
from gymnasium.error import DependencyNotInstalled


class RenderWindow:
    def __init__(self, title: str, frames_per_second: int):
        try:
            import pygame
        except ImportError:
            raise DependencyNotInstalled('a window needs pygame: pip install "envgen[play]"') from None
        self._pygame, self._title, self._fps = pygame, title, frames_per_second
        self._screen = None

    def show(self, picture: np.ndarray) -> None:
        """Show a picture (height, width, 3), not faster than the frame rate."""
        pygame = self._pygame
        if self._screen is None:
            pygame.display.init()
            pygame.display.set_caption(self._title)
            self._screen = pygame.display.set_mode((picture.shape[1], picture.shape[0]))
            self._clock = pygame.time.Clock()
        pygame.event.pump()
        self._screen.blit(pygame.surfarray.make_surface(picture.transpose(1, 0, 2)), (0, 0))
        pygame.display.flip()
        self._clock.tick(self._fps)

    def close(self) -> None:
        if self._screen is not None:
            self._pygame.display.quit()
            self._screen = None
