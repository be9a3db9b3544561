"""Charts of a report: curves, which a script draws from the data beside them, and intervals on an axis, as SVG."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .html import Html, breakable, join, tag, to_json

NUM_COLORS = 8
MAX_BANDS = 5  # more intervals in one chart hide each other


def color_class(index: int) -> str:
    return f"c{index % NUM_COLORS}"


def curve(label: str, index: int, data: Mapping[str, Any], points: bool = False) -> dict[str, Any]:
    """A curve of a chart: `x`, `y` and, where it has an interval, `low` and `high`."""
    return {"label": label, "color": index % NUM_COLORS, "dash": index >= NUM_COLORS, "points": points, **data}


def point_data(points: Sequence[tuple[float, float]]) -> dict[str, list[float]]:
    """The `data` of a curve through these points."""
    return {"x": [x for x, _ in points], "y": [y for _, y in points]}


def chart(
    title: str,
    curves: Sequence[Mapping[str, Any]],
    x_label: str,
    y_label: str,
    note: str = "",
    lines: Sequence[tuple[float, str]] = (),
    shades: Sequence[tuple[float, float, str]] = (),
    from_zero: bool = True,
) -> Html:
    """A chart of curves over a common x axis.

    Args:
        curves: From `curve`.
        note: What the chart shows, in a sentence.
        lines: Horizontal lines with their labels.
        shades: Ranges of x with their labels, shown behind the curves.
        from_zero: The y axis starts at 0.
    """
    if len(curves) > MAX_BANDS:
        curves = [{key: value for key, value in c.items() if key not in ("low", "high")} for c in curves]
    last = [f"{c['label']} {value:.3g}" for c in curves if (value := _last(c["y"])) is not None]
    x_values = sorted({x for c in curves for x in c["x"] if x is not None})
    spec = {
        "x": x_values, "xLabel": x_label, "yLabel": y_label, "fromZero": from_zero, "lines": list(lines),
        "shades": list(shades),
        "series": [{**c, "x": None, **{key: _align(c, key, x_values) for key in ("y", "low", "high") if key in c}}
                   for c in curves],
    }  # fmt: skip
    summary = f"{title}: {y_label} over {x_label}. Last values: {', '.join(last)}."
    return tag(
        "figure",
        tag("figcaption", tag("strong", title), tag("span", note) if note else None),
        tag("div", class_="plot", role="img", aria_label=summary, tabindex="0"),
        tag("div", class_="legend"),
        tag("script", to_json(spec), type="application/json"),
        class_="chart",
    )  # fmt: skip


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _align(c: Mapping[str, Any], key: str, x_values: Sequence[float]) -> list[float | None]:
    """The values of a curve at all x of the chart: None outside of its points, interpolated between them.

    The `y` of a curve with `points` is not interpolated; the script connects its points.
    """
    if key == "y" and c["points"]:
        known = dict(zip(c["x"], c["y"], strict=True))
        return [known.get(x) for x in x_values]
    points = [(x, y) for x, y in zip(c["x"], c[key], strict=True) if x is not None and y is not None]
    if not points:
        return [None] * len(x_values)
    xs, ys = zip(*points, strict=True)
    aligned = np.interp(x_values, xs, ys, left=np.nan, right=np.nan).tolist()
    return [None if math.isnan(value) else value for value in aligned]


# --- intervals on a common axis


class Axis:
    """An axis that covers some values, with round ticks."""

    def __init__(self, values: Sequence[float], include_zero: bool = False):
        values = [*values, 0.0] if include_zero or not values else list(values)
        low, high = min(values), max(values)
        span = (high - low) or abs(high) or 1.0
        self.low, self.high = low - 0.06 * span, high + 0.06 * span
        step = 10 ** math.floor(math.log10((self.high - self.low) / 3))
        step *= next(factor for factor in (5, 2, 1) if (self.high - self.low) / (step * factor) >= 2.5 or factor == 1)
        first = math.ceil(self.low / step)
        self.ticks = [k * step for k in range(first, math.floor(self.high / step) + 1)]

    def percent(self, value: float) -> str:
        return f"{100 * (value - self.low) / (self.high - self.low):.2f}%"


def interval_bar(
    axis: Axis,
    index: int,
    value: float | None,
    low: float | None = None,
    high: float | None = None,
    dots: Sequence[float] = (),
    reference: float | None = None,
) -> Html:
    """A value with its interval, and one dot per seed. `reference` is a vertical line."""
    parts = [tag("line", x1=axis.percent(t), x2=axis.percent(t), y1="0", y2="100%", class_="tick") for t in axis.ticks]
    if reference is not None:
        x = axis.percent(reference)
        parts.append(tag("line", x1=x, x2=x, y1="0", y2="100%", class_="reference"))
    if low is not None and high is not None:
        parts.append(tag("line", x1=axis.percent(low), x2=axis.percent(high), y1="50%", y2="50%", class_="interval"))
    parts += [tag("circle", cx=axis.percent(dot), cy="50%", r="3", class_="seed") for dot in dots]
    if value is not None:
        parts.append(tag("circle", cx=axis.percent(value), cy="50%", r="5.5", class_="middle"))
    return tag("svg", *parts, class_=f"track {color_class(index)}", aria_hidden="true")


def axis_labels(axis: Axis, format_value: Callable[[float], str] = "{:.10g}".format) -> Html:
    def text(value: float) -> Html:
        label = format_value(value) if abs(value) > 1e-12 else "0"
        return tag("text", label, x=axis.percent(value), y="11", text_anchor="middle")

    return tag("svg", *map(text, axis.ticks), class_="track axis", aria_hidden="true")


def swatch(index: int) -> Html:
    return tag("span", class_=f"swatch {color_class(index)}", aria_hidden="true")


def labeled(index: int, label: str) -> Html:
    """A label beside its color."""
    return join(swatch(index), breakable(label))


def figure_row(*charts: Html) -> Html:
    return tag("div", join(*charts), class_="charts")
