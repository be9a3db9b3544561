"""Frames of an episode with a panel beside the picture: action, health, inventory and skills as they are achieved."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from .episodes import EpisodePlayer

PANEL_SHARE = 2 / 3  # width of the panel relative to that of the picture
HIGHLIGHT_STEPS = 12  # during which a new skill is highlighted
BACKGROUND, TEXT, MUTED = "#14181f", "#e8ecf1", "#8b95a3"
TRACK, ACCENT, GOOD, LOW = "#2a313c", "#7db4ff", "#4cc38a", "#e5684f"
HIGHLIGHT, ON_HIGHLIGHT = "#ffd166", "#14181f"
Box = tuple[float, float, float, float]


class FrameComposer:
    """Draws the frames of episodes of a world. All have the same size, `width` x `height`, in even numbers of pixels.

    Args:
        size: Pixels along the sides of the picture. Pictures of other sizes are scaled.
        footer: Lines at the bottom of the panel.
    """

    def __init__(self, size: int = 480, footer: Sequence[str] = ()):
        self.size, self.footer = size, list(footer)
        panel_width = round(size * PANEL_SHARE / 16) * 16
        self.width, self.height = size + panel_width, size
        self._unit = size / 480
        self._left, self._right = size + 16 * self._unit, self.width - 16 * self._unit
        self._fonts: dict[int, ImageFont.ImageFont | ImageFont.FreeTypeFont] = {}

    def compose(self, player: EpisodePlayer, title: str, note: str = "") -> np.ndarray:
        """The frame (height, width, 3) of the current step. `note` appears below the title."""
        page = Image.new("RGB", (self.width, self.height), BACKGROUND)
        picture = Image.fromarray(player.image())
        if picture.size != (self.size, self.size):
            picture = _fit(picture, self.size)
        page.paste(picture, ((self.size - picture.width) // 2, (self.size - picture.height) // 2))
        self._canvas, self._y = ImageDraw.Draw(page), 12 * self._unit
        self._draw_header(player, title, note)
        bottom = self.height - 10 * self._unit - 16 * self._unit * len(self.footer)
        self._draw_status(player)
        self._draw_skills(player, bottom)
        for k, line in enumerate(self.footer):
            self._text((self._left, bottom + 16 * self._unit * k), line, 12, MUTED)
        return np.asarray(page)

    def _draw_header(self, player: EpisodePlayer, title: str, note: str) -> None:
        self._line(title, 18, TEXT, 24)
        self._line(note, 13, MUTED, 20)
        returned = f"{player.episode_return:.2f}".rstrip("0").rstrip(".")
        self._line(f"step {player.step:,}     return {returned}", 14, TEXT, 22)
        shown = f"episode {player.ended}" if player.ended else player.action_name.replace("_", " ")
        self._line(shown, 17, HIGHLIGHT if player.ended else ACCENT, 28)

    def _draw_status(self, player: EpisodePlayer) -> None:
        unit, gauges = self._unit, player.world.gauges
        label_width, bar_height = 62 * unit, 9 * unit
        for name, maximum in gauges.items():
            amount = player.status.get(name, 0)
            start, end = self._left + label_width, self._right - 24 * unit
            top = self._y + 4 * unit
            self._text((self._left, self._y), name.replace("_", " "), 13, MUTED, label_width - 4 * unit)
            self._rectangle((start, top, end, top + bar_height), TRACK)
            share = min(1.0, max(0.0, amount / maximum))
            if share:
                color = GOOD if share > 1 / 3 else LOW
                self._rectangle((start, top, start + (end - start) * share, top + bar_height), color)
            self._text((end + 8 * unit, self._y), str(amount), 13, TEXT)
            self._y += 18 * unit
        others = [
            (name, amount) for name, amount in player.status.items() if name not in gauges and amount
        ]  # an inventory may have many entries, most of them 0
        texts = [name.replace("_", " ") + (f" {amount}" if amount > 1 else "") for name, amount in others]
        if any(name not in gauges for name in player.status):
            self._y += 6 * unit
            for line in self._wrap(", ".join(texts) or "holds nothing", 13)[:3]:
                self._line(line, 13, TEXT if texts else MUTED, 17)
        self._y += 8 * unit

    def _draw_skills(self, player: EpisodePlayer, bottom: float) -> None:
        """All skills in two columns; if there is no space for them, the latest ones that were achieved."""
        unit, row_height = self._unit, 16 * self._unit
        names, achieved = [skill.name for skill in player.world.skills], player.first_success
        self._line(f"{len(achieved)} of {len(names)} skills", 14, TEXT, 21)
        num_rows = max(1, int((bottom - self._y) / row_height))
        if len(names) > 2 * num_rows:
            names = sorted(achieved, key=lambda name: -achieved[name])[: 2 * num_rows]
        num_columns = 1 if len(names) <= min(num_rows, 8) else 2
        num_rows = -(-len(names) // num_columns)
        width = (self._right - self._left + 6 * unit) / num_columns
        for k, name in enumerate(names):
            column, row = divmod(k, num_rows)
            x, y = self._left + column * width, self._y + row * row_height
            is_new = name in achieved and player.step - achieved[name] < HIGHLIGHT_STEPS and player.step > 0
            if is_new:
                self._rectangle((x - 4 * unit, y - unit, x + width - 8 * unit, y + row_height - 2 * unit), HIGHLIGHT)
            color = ON_HIGHLIGHT if is_new else TEXT if name in achieved else MUTED
            box = (x, y + 4 * unit, x + 7 * unit, y + 11 * unit)
            self._rectangle(box, (ON_HIGHLIGHT if is_new else GOOD) if name in achieved else TRACK)
            self._text((x + 12 * unit, y), name.replace("_", " "), 12, color, width - 22 * unit)

    # --- text and boxes. Sizes of text are in pixels, for a picture of 480 pixels

    def _line(self, text: str, size: int, color: str, height: int) -> None:
        if text:
            self._text((self._left, self._y), text, size, color, self._right - self._left)
            self._y += height * self._unit

    def _text(self, at: tuple[float, float], text: str, size: int, color: str, width: float | None = None) -> None:
        font = self._font(size)
        if width is not None and font.getlength(text) > width:
            while text and font.getlength(text + "…") > width:
                text = text[:-1]
            text += "…"
        self._canvas.text(at, text, fill=color, font=font)

    def _wrap(self, text: str, size: int) -> list[str]:
        lines, font = [""], self._font(size)
        for word in text.split(" "):
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and font.getlength(longer) > self._right - self._left:
                lines.append(word)
            else:
                lines[-1] = longer
        return lines

    def _font(self, size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
        if size not in self._fonts:
            self._fonts[size] = ImageFont.load_default(size * self._unit)
        return self._fonts[size]

    def _rectangle(self, box: Box, color: str) -> None:
        self._canvas.rectangle([round(value) for value in box], fill=color)


def _fit(picture: Image.Image, size: int) -> Image.Image:
    """Scale a picture to fit a square; small ones pixel by pixel."""
    scale = size / max(picture.size)
    resampling = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS
    return picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))), resampling)
