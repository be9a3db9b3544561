"""The frame of the studio's pages: navigation, style and scripts, which are those of reports and a few of its own."""

from collections.abc import Sequence
from importlib import resources
from urllib.parse import quote

from envgen.report.html import Child, Html, tag
from envgen.report.page import ICON, lightbox, need_script
from envgen.report.page import asset as report_asset

from .server import RequestError, Response

STYLES = ("uPlot.min.css", "report.css", "studio.css")
SCRIPTS = ("uPlot.min.js", "charts.js", "studio.js")  # on every page
OWN_ASSETS = ("studio.css", "studio.js", "levels.js", "designer.js")
VIEWS = (("runs", "Runs", "."), ("levels", "Levels", "levels"), ("designer", "Designer", "designer"))


def page(view: str, title: str, *children: Child, stream: str = "", scripts: Sequence[str] = ()) -> Response:
    """A page of the studio.

    Args:
        view: The entry of the navigation that it belongs to.
        stream: The address of the events that keep its parts up to date.
        scripts: Scripts of this page alone.
    """
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} - envgen studio"),
        Html(f'<link rel="icon" href="{ICON}">'),
        *(Html(f'<link rel="stylesheet" href="asset?name={quote(name)}">') for name in STYLES),
    )
    main = tag(
        "main", tag("header", tag("p", "envgen studio", class_="eyebrow"), tag("h1", title), class_="title"),
        need_script("The studio needs JavaScript."), *children, id="top", tabindex="-1",
    )  # fmt: skip
    loaded = [tag("script", src=f"asset?name={quote(name)}") for name in (*SCRIPTS, *scripts)]
    skip = tag("a", "Skip to the content", href="#top", class_="skip")
    body = tag("body", skip, _nav(view), main, lightbox(), *loaded, data_stream=stream or None)
    return Response(f"<!doctype html>\n{tag('html', head, body, lang='en')}\n")


def error_page(view: str, message: str, status: int) -> Response:
    """A page for an address that leads nowhere, such as that of a run that has been deleted."""
    end = "" if message.endswith((".", "?")) else "."
    is_word = message.partition(" ")[0].isalpha()  # and not a path
    shown = tag("p", f"{message[:1].upper() if is_word else message[:1]}{message[1:]}{end}", class_="warning untrusted")
    link = tag("p", tag("a", "Go to the list of runs", href="."))
    return page(view, "This page cannot be shown", shown, link)._replace(status=status)


def gone_part(what: str) -> Html:
    """Says on an open page that the run or the request that it shows has been deleted; empty as long as it exists."""
    if not what:
        return tag("div", id="gone", role="alert")
    sentence = f"This {what} is no longer in the folder: it was deleted or moved. The page shows its last state. "
    shown = tag("p", sentence, tag("a", "Go to the list of runs", href="."), class_="warning")
    return tag("div", shown, id="gone", role="alert")


def _nav(view: str) -> Html:
    items = [
        tag("li", tag("a", title, tag("span", id=f"nav-{name}"), href=href,
                      aria_current="page" if name == view else None))
        for name, title, href in VIEWS
    ]  # fmt: skip
    status = tag("p", "", id="connection", role="status", class_="muted")
    theme = tag("button", "Theme: system", type="button", id="theme")
    brand = tag("a", "envgen", href=".", class_="brand")
    return tag("nav", brand, tag("ul", *items), status, theme, aria_label="Studio")


def nav_part(num_requests: int) -> Html:
    """The number of open requests, in the navigation."""
    shown = None
    if num_requests:
        label = "open request" if num_requests == 1 else "open requests"
        count = tag("span", num_requests, class_="badge doubtful")
        shown = [" ", count, tag("span", f" {label}", class_="visually-hidden")]
    return tag("span", shown, id="nav-designer")


def part(id_: str, *children: Child, class_: str = "") -> Html:
    """A part of a page that events replace."""
    return tag("div", *children, id=id_, class_=class_ or None)


def asset(name: str) -> Response:
    if name not in (*STYLES, *SCRIPTS, *OWN_ASSETS):
        raise RequestError("there is no such file", 404)
    own = resources.files("envgen.studio") / "assets" / name
    text = own.read_text("utf-8") if name in OWN_ASSETS else report_asset(name)
    return Response(text, f"text/{'css' if name.endswith('.css') else 'javascript'}; charset=utf-8")
