"""HTML that escapes everything by construction: only `Html`, which `tag` returns, is inserted as it is.

Texts of a run directory may come from a language model or from someone else's computer. They are cleaned of characters
that change how their surroundings are displayed, shortened, and escaped.
"""

import html
import json
import math
import os
import re
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

MAX_TEXT = 20_000  # characters of one text
VOID = {"br", "img", "input", "meta"}  # SVG has no void elements
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_DIRECTION = re.compile(r"[\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # would reorder the text around them


class Html(str):
    """A text that is HTML already."""


Child = str | int | Html | None | Iterable[Any]


def clean(value: object, limit: int = MAX_TEXT) -> str:
    """A text that can be shown: without control characters, and not longer than `limit`."""
    text = value if isinstance(value, str) else str(value)
    rest = len(text) - limit
    text = _DIRECTION.sub("", _CONTROL.sub("\ufffd", text[:limit].replace("\r\n", "\n")))
    return f"{text}\n... {rest:,} more characters" if rest > 0 else text


def tag(name: str, /, *children: Child, **attributes: object) -> Html:
    """An element. Attribute names end with `_` where they are Python keywords, and `_` inside them becomes `-`.

    True is written as an attribute without a value; None and False leave the attribute out.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.removesuffix("_").replace("_", "-")
        parts.append(key if value is True else f'{key}="{html.escape(clean(value))}"')
    if name in VOID:
        return Html(f"<{' '.join(parts)}>")
    return Html(f"<{' '.join(parts)}>{render(children)}</{name}>")


def render(children: Child) -> str:
    """Children as HTML: texts are escaped, None is left out."""
    if children is None:
        return ""
    if isinstance(children, Html):
        return children
    if isinstance(children, str | int):
        return html.escape(clean(children), quote=False)
    return "".join(map(render, children))


def join(*children: Child) -> Html:
    return Html(render(children))


def breakable(text: str) -> Html:
    """A name that may be broken after its punctuation."""
    parts = re.split(r"(?<=[_.=/-])", clean(text, 200))
    return Html("<wbr>".join(html.escape(part, quote=False) for part in parts))


def to_json(value: Any) -> Html:
    """JSON for a script element. Numbers that JSON lacks become null, and no character can end the element."""
    text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)  # ASCII only
    return Html(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}") if math.isfinite(value) else None
    if isinstance(value, str):
        return value if value.startswith("data:") else clean(value)
    if isinstance(value, Mapping):
        return {clean(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


# --- numbers


def format_number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def format_steps(value: float | None) -> str:
    """`1.96 M`, `240 k` or `512`."""
    if value is None:
        return "-"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:  # so that 999,600 is 1 M rather than 1e+03 k
            return f"{value / size:.3g} {unit}"
    return f"{value:g}"


def format_seconds(value: float | None) -> str:
    """`42 s`, `3 min` or `5.2 h`."""
    if value is None:
        return "-"
    if value < 90:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 5400 else f"{value / 3600:.1f} h"


# --- elements that several sections use


def definitions(items: Mapping[str, Child]) -> Html:
    facts = [tag("div", tag("dt", name), tag("dd", value), class_="fact") for name, value in items.items()]
    return tag("dl", *facts, class_="facts")


def table(header: Iterable[Child], rows: Iterable[Iterable[Child]], class_: str = "", caption: str = "") -> Html:
    """A table whose first column names the rows. It scrolls sideways where it is too wide."""
    head = tag("tr", [tag("th", cell, scope="col") for cell in header])
    body = []
    for row in rows:
        first, *rest = row
        body.append(tag("tr", tag("th", first, scope="row"), [c if _is_cell(c) else tag("td", c) for c in rest]))
    content = tag("table", tag("caption", caption) if caption else None, tag("thead", head), tag("tbody", body))
    label = caption or "table"
    return tag("div", content, class_=f"scroll {class_}".strip(), tabindex="0", role="region", aria_label=label)


def _is_cell(child: Child) -> bool:
    return isinstance(child, Html) and child.startswith("<td")


def heat_cell(value: float | None) -> Html:
    """A percentage as a table cell whose color shows it."""
    if value is None:
        return tag("td", "-", class_="heat none")
    return tag("td", format_number(value, 0 if value >= 9.95 or value == 0 else 1), class_=heat_class(value))


def heat_class(value: float | None) -> str:
    """The class of a table cell whose color shows a percentage."""
    return f"heat h{min(20, max(0, round((value or 0.0) / 5)))}"


def details(summary: Child, *children: Child, class_: str = "", open_: bool = False, id_: str | None = None) -> Html:
    return tag("details", tag("summary", summary), *children, class_=class_ or None, open=open_, id=id_)


def badge(text: str, kind: str = "") -> Html:
    return tag("span", text, class_=f"badge {kind}".strip())


def guarded(build: Callable[[], Html | None], what: str) -> Html | None:
    """A part of the page, or a warning if it fails: a run directory may hold anything, and the rest is still shown."""
    try:
        return build()
    except Exception as error:  # noqa: BLE001
        if os.environ.get("ENVGEN_DEBUG"):
            traceback.print_exc()
        return tag("p", f"{what} cannot be shown: {type(error).__name__}: {error}", class_="warning")
