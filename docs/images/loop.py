"""Draw docs/images/loop.png: python docs/images/loop.py"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from PIL import Image

from envgen.worlds.crafter.world import Crafter

LEVELS = (
    {"trees": "very common"},
    {"biome": "mountain", "iron": "very common"},
    {"water": "very common"},
    {"near": {"table": True, "cave": True}},
)
INK, FILL = "#26323f", "#f3efe6"


def draw_box(axis, x, y, width, height, title, lines, color):
    axis.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0.02,rounding_size=0.12",
                                  facecolor=FILL, edgecolor=color, linewidth=2))  # fmt: skip
    axis.text(x + width / 2, y + height - 0.24, title, ha="center", va="center", weight="bold", size=12.5, color=color)
    for k, line in enumerate(lines):
        axis.text(x + width / 2, y + height - 0.56 - 0.25 * k, line, ha="center", va="center", size=9.5, color=INK)


def draw_arrow(axis, start, end, text, text_position, curvature=0.0):
    axis.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=18, linewidth=1.8, color=INK,
                                   connectionstyle=f"arc3,rad={curvature}"))  # fmt: skip
    axis.text(*text_position, text, ha="center", va="center", size=9.5, color=INK, style="italic")


def main() -> None:
    figure, axis = plt.subplots(figsize=(10, 4.3))
    axis.set(xlim=(0, 10), ylim=(0, 4.3))
    axis.axis("off")
    draw_box(
        axis, 0.2, 1.45, 2.2, 1.4, "designer", ["a language model,", "rules, random,", "a learned policy"], "#8a4f7d"
    )
    draw_box(axis, 3.85, 0.2, 2.2, 1.15, "original", ["the environment itself,", "unchanged"], "#3d6b52")
    draw_box(axis, 7.55, 1.45, 2.2, 1.4, "agent", ["a small network, PPO,", "trained through", "all cycles"], "#2f5d8a")
    for k, level in enumerate(LEVELS):
        picture = Image.fromarray(Crafter().render_map(level, seed=3 + k, cell_size=4))
        x, y = 3.98 + (k % 2) * 1.0, 2.95 - (k // 2) * 1.0
        axis.imshow(picture, extent=(x, x + 0.92, y, y + 0.92), interpolation="nearest", zorder=2)
    axis.text(4.94, 4.06, "levels", ha="center", size=12.5, weight="bold", color="#9a6a1e")
    draw_arrow(axis, (2.45, 2.5), (3.85, 3.0), "1  design", (3.0, 3.05))
    draw_arrow(axis, (6.0, 3.0), (7.5, 2.5), "2  train in levels", (7.0, 3.08))
    draw_arrow(axis, (7.5, 1.6), (6.15, 0.95), "3  train in original", (7.35, 1.05))
    draw_arrow(axis, (3.75, 0.95), (2.2, 1.4), "4  success rates", (2.45, 0.98))
    axis.set_aspect("equal")
    figure.subplots_adjust(0, 0, 1, 1)
    figure.savefig(Path(__file__).with_name("loop.png"), dpi=130)


if __name__ == "__main__":
    main()
