"""Observations, decoded from the bytes that a kernel writes, and rendering for display.

An observation is pixels, symbols or text. `RenderWindow` shows an environment, `image_grid` a grid of titled levels.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from PIL import Image, ImageDraw

from .validation import check_choice, check_count
from .world import LevelEnv, LevelVectorEnv

NO_OBSERVATION, SYMBOLS, PIXELS = 0, 1, 2  # what a kernel writes
UNLOCKED = "symbols+unlocked"
OBSERVATION_MODES = {"pixels": PIXELS, "symbols": SYMBOLS, UNLOCKED: SYMBOLS, "text": SYMBOLS}
MAX_TEXT_LENGTH = 2000
TEXT_CHARSET = frozenset(string.ascii_letters + string.digits + string.punctuation + " \n")


class ObservationFormat:
    """One of the observations of a world: its space, and how to decode it.

    "symbols+unlocked" adds a bit for each skill to the symbols: whether it has succeeded in this episode. Images do not
    show that, so it is privileged information, for comparison with agents that remember it.

    Args:
        name: "pixels", "symbols", "symbols+unlocked" or "text".
        image_size: (width, height) of the image in pixels.
        max_symbols: The highest value of each symbol, (symbols,) uint8.
        describe: Turns the symbols of one environment into text.
        num_skills: The number of skills of the world.
    """

    def __init__(
        self,
        name: str,
        image_size: tuple[int, int],
        max_symbols: np.ndarray,
        describe: Callable[[np.ndarray], str],
        num_skills: int,
    ):
        self.name = check_choice("observation", name, OBSERVATION_MODES)
        self.mode = OBSERVATION_MODES[name]
        self.image_shape = image_size[1], image_size[0], 3
        self.describe = describe
        self.space: gymnasium.Space[Any]
        if name == "pixels":
            self.space = spaces.Box(0, 255, self.image_shape, np.uint8)
        elif name == "text":
            self.space = spaces.Text(max_length=MAX_TEXT_LENGTH, min_length=1, charset=TEXT_CHARSET)
        else:
            num_bits = num_skills if name == UNLOCKED else 0
            high = np.concatenate([max_symbols, np.ones(num_bits, max_symbols.dtype)])
            self.space = spaces.Box(np.zeros_like(high), high, dtype=np.uint8)

    @property
    def is_symbols(self) -> bool:
        """Whether observations are vectors that begin with the world's symbols."""
        return self.name in ("symbols", UNLOCKED)

    def decode(self, row: np.ndarray, unlocked: Callable[[], np.ndarray]) -> Any:
        """The observation of one environment, a copy of its bytes.

        Args:
            unlocked: Returns whether each skill has succeeded in the episode or counts as done, (skills,) bool. Called
                only if the observation shows it.
        """
        if self.name == "pixels":
            return row.reshape(self.image_shape).copy()
        if self.name == UNLOCKED:
            return np.concatenate([row, unlocked().astype(np.uint8)])
        return row.copy() if self.name == "symbols" else self.describe(row)

    def decode_batch(self, rows: np.ndarray, unlocked: Callable[[], np.ndarray]) -> Any:
        """The observations of all environments as one batch, which may share the memory of `rows`."""
        if self.name == "pixels":
            return rows.reshape(len(rows), *self.image_shape)
        if self.name == UNLOCKED:
            return np.concatenate([rows, unlocked().astype(np.uint8)], 1)
        return rows if self.name == "symbols" else tuple(self.describe(row) for row in rows)


# --- images for display

RENDER_SIZE = (576, 576)  # (width, height) of the images that render() returns by default
MARGIN = 6  # pixels around each image of a grid
TITLE_HEIGHT = 14  # pixels


def image_grid(
    levels: Mapping[str, Any],
    columns: int,
    side: int,
    render: Callable[[int, Any], np.ndarray],
    legend: Sequence[tuple[np.ndarray, str]] = (),
) -> Image.Image:
    """Lay out one image per level in rows, each under its title.

    Args:
        levels: The levels by title.
        columns: Images in a row.
        side: Width and height of each image in pixels.
        render: `render(k, level)` returns the image (side, side, 3) of the k-th level.
        legend: Icons (height, width, 3) with their descriptions, shown below the images.
    """
    if not isinstance(levels, Mapping):
        raise TypeError(f"levels must be a mapping from titles to levels, not {levels!r:.80}")
    rows = -(-len(levels) // check_count("columns", columns))
    width, height = columns * (side + MARGIN) + MARGIN, rows * (side + TITLE_HEIGHT + MARGIN) + MARGIN
    positions, legend_height = _lay_out_legend(legend, width)
    page = Image.new("RGB", (width, height + legend_height), "white")
    canvas = ImageDraw.Draw(page)
    for k, (title, level) in enumerate(levels.items()):
        x, y = MARGIN + k % columns * (side + MARGIN), MARGIN + k // columns * (side + TITLE_HEIGHT + MARGIN)
        canvas.text((x, y), title, fill="black")
        page.paste(Image.fromarray(render(k, level)), (x, y + TITLE_HEIGHT))
    for (icon, text), (x, y) in zip(legend, positions, strict=True):
        page.paste(Image.fromarray(icon), (x, height + y))
        canvas.text((x + icon.shape[1] + MARGIN, height + y + icon.shape[0] / 2), text, fill="black", anchor="lm")
    return page


def _lay_out_legend(legend: Sequence[tuple[np.ndarray, str]], width: int) -> tuple[list[tuple[int, int]], int]:
    """The upper left corner of each entry, in as many lines as the width requires; and the height of all lines."""
    canvas = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    line_height = max((icon.shape[0] for icon, _ in legend), default=0) + MARGIN
    positions = []
    x, y = MARGIN, 0
    for icon, text in legend:
        entry_width = icon.shape[1] + round(canvas.textlength(text)) + 4 * MARGIN
        if x > MARGIN and x + entry_width > width:
            x, y = MARGIN, y + line_height
        positions.append((x, y))
        x += entry_width
    return positions, y + line_height if legend else 0


class RenderWindow:
    """A window that shows images. pygame is imported when the first window is made."""

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


class HasWindow:
    """An environment that can show images in a window. A subclass sets `metadata["render_fps"]` and `window_title`."""

    metadata: dict[str, Any]
    _window: RenderWindow | None = None

    @property
    def window_title(self) -> str:
        raise NotImplementedError

    def show(self, image: np.ndarray) -> None:
        self._window = self._window or RenderWindow(self.window_title, self.metadata["render_fps"])
        self._window.show(image)

    def close_window(self) -> None:
        if self._window is not None:
            self._window.close()
            self._window = None


class RenderedVectorEnv(HasWindow, LevelVectorEnv):
    """Environments whose images `render` returns; in a window, it shows that of the first.

    A subclass sets `render_mode`, and what `HasWindow` needs.
    """

    def render_frames(self, count: int) -> tuple[np.ndarray, ...]:
        """Images of the current states of the first `count` environments, (height, width, 3) uint8."""
        raise NotImplementedError

    def render(self) -> tuple[np.ndarray, ...] | None:
        if self.render_mode is None:
            return None
        images = self.render_frames(self.num_envs if self.render_mode == "rgb_array" else 1)
        if self.render_mode == "rgb_array":
            return images
        self.show(images[0])
        return None


class RenderedEnv(HasWindow, LevelEnv):
    """A single environment whose `render_frame` is returned by `render`, or shown in a window.

    A subclass sets `render_mode` and `has_begun`, and what `HasWindow` needs.
    """

    @property
    def has_begun(self) -> bool:
        """Whether `reset` has been called."""
        raise NotImplementedError

    def render_frame(self) -> np.ndarray:
        """An image of the current state, (height, width, 3) uint8."""
        raise NotImplementedError

    def render(self) -> np.ndarray | None:
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render() does nothing without a render_mode; make the environment with render_mode='rgb_array'"
            )
            return None
        if not self.has_begun:
            raise ResetNeeded("call reset() before the first render()")
        image = self.render_frame()
        if self.render_mode == "rgb_array":
            return image
        self.show(image)
        return None

    def close(self) -> None:
        self.close_window()
