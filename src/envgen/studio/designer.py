"""Runs with `--llm manual`: a person reads their requests in the browser, and writes the replies."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from envgen.designers.chat.ledger import LEDGER
from envgen.designers.chat.offline import MAX_REPLY_BYTES, REQUEST_FILE, open_requests, write_reply
from envgen.designers.designer import Brief, Cycle
from envgen.designers.earlier_levels import EarlierLevels, collect_earlier_levels
from envgen.designers.names import NameObfuscator
from envgen.designers.reply import MAX_CHARS, ParsedReply, parse_reply
from envgen.report.html import Html, badge, breakable, details, join, tag, to_json
from envgen.report.pictures import LevelMaps
from envgen.report.read import as_text, objects, texts
from envgen.report.train_section import level_card
from envgen.runs.files import read_regular
from envgen.runs.kinds import get_path, number
from envgen.text import plural
from envgen.worlds.world import World

from .levels import level_form
from .page import gone_part, page, part
from .runs import LiveRun, designer_name
from .server import RequestError, Response

MAX_REQUEST_BYTES = 4 << 20
MAX_LEVELS = 64


class ManualRequest(NamedTuple):
    """A request file of a run."""

    run: LiveRun
    file: Path
    number: int
    digest: str  # its first characters

    @property
    def link(self) -> str:
        return "request?" + urlencode({"id": self.run.id, "name": self.file.stem})

    @property
    def is_open(self) -> bool:
        return self.file in open_requests(self.file.parent)


def manual_request(run: LiveRun, name: str) -> ManualRequest:
    match = REQUEST_FILE.fullmatch(f"{name}.md")
    file = run.folder / "requests" / f"{name}.md"
    if match is None or not run.stamp.get("requests") or not file.is_file():
        raise RequestError("there is no such request in this run; it may have been deleted", 404)
    return ManualRequest(run, file, int(match[1]), match[2])


def waiting_requests(runs: Sequence[LiveRun]) -> list[ManualRequest]:
    """The open requests of runs that are not finished, the longest-waiting first."""
    waiting: list[tuple[int, ManualRequest]] = []
    for run in runs:
        for file in () if run.summary else run.open_requests():
            with suppress(OSError, RequestError):  # it was deleted after it had been listed
                waiting.append((file.stat().st_mtime_ns, manual_request(run, file.stem)))
    return [request for _, request in sorted(waiting, key=lambda item: item[0])]


# --- the list of requests


def designer_page(runs: Sequence[LiveRun]) -> Response:
    intro = (
        "A run with --llm manual asks you for its levels, once per cycle and again if a reply has errors. "
        "Write the reply here, or paste the request into any chat program, and its reply here."
    )
    return page("designer", "Designer", tag("p", intro, class_="note"), *designer_parts(runs).values(),
                stream="events?view=designer")  # fmt: skip


def designer_parts(runs: Sequence[LiveRun]) -> dict[str, Html]:
    waiting = waiting_requests(runs)
    items = [
        tag(
            "li",
            tag(
                "a", tag("strong", f"Request {request.number}"), " of ", breakable(request.run.name), href=request.link
            ),
            tag("span", f" {request.run.task} ", class_="muted"),
            _running_badge(request.run),
            data_key=request.link,
        )
        for request in waiting
    ]
    command = "envgen train crafter --designer llm --llm manual"
    shown = (
        tag("ul", *items, class_="requests") if items
        else tag("p", "No run is waiting for a reply. Start one with: ", tag("code", command))
    )  # fmt: skip
    return {"open": part("open-requests", tag("h2", "Open requests"), shown)}


def _running_badge(run: LiveRun) -> Html:
    return badge("running", "good") if run.is_running else badge("not running", "doubtful")


# --- one request


def request_page(request: ManualRequest, world: World | None) -> Response:
    run = request.run
    context = _reply_context(run, world)
    num_levels = context.brief.num_levels if context else 0
    start = {
        "id": run.id, "name": request.file.stem, "world": world.name if world else "",
        "levels": num_levels, "skills": [skill.name for skill in world.skills] if world else [],
    }  # fmt: skip
    reply = tag(
        "section", tag("h2", "Reply"),
        tag("p", tag("button", _start_label(num_levels), type="button", id="skeleton", disabled=True), class_="toolbar")
        if num_levels else None,
        tag("label", "The reply, as JSON or as text that contains it", for_="reply", class_="visually-hidden"),
        tag("textarea", id="reply", rows="16", spellcheck="false", aria_describedby="reply-errors",
            placeholder='{"reasoning": "...", "levels": [{"purpose": "...", "skills": [...], "level": {...}}, ...]}'),
        tag("div", id="reply-errors", role="status"),
        tag("p", tag("button", "Send", type="button", id="send", class_="primary", disabled=True),
            tag("span", id="send-status", role="status"), class_="toolbar"),
        tag("div", id="reply-levels"),
        id="reply-section",
    )  # fmt: skip
    form = _level_dialog(world) if world else None
    return page(
        "designer", f"Request {request.number} of {run.name}",
        gone_part(""),
        *request_parts(request).values(),
        _conversation(request), reply, form,
        tag("script", to_json(start), type="application/json", id="start"),
        stream="events?" + urlencode({"view": "request", "id": run.id, "name": request.file.stem}),
        scripts=("levels.js", "designer.js") if world else ("designer.js",),
    )  # fmt: skip


def _start_label(num_levels: int) -> str:
    return "Start with the original" if num_levels == 1 else f"Start with {plural(num_levels, 'level')}"


def _level_dialog(world: World) -> Html:
    """A form for one level of the reply."""
    skills = [
        tag("label", tag("input", type="checkbox", value=skill.name), " ", skill.name.replace("_", " "))
        for skill in world.skills
    ]
    return tag(
        "dialog",
        tag("h2", "Level", id="dialog-title"),
        tag("label", "Purpose ", tag("input", type="text", id="purpose", maxlength="400"), class_="wide"),
        details(tag("strong", "Skills that it teaches"), tag("div", *skills, class_="options", id="skills"),
                open_=True),
        tag("div", level_form(world, "reply"),
            tag("div", tag("img", id="dialog-map", alt="The level from above"), class_="map"), class_="editor"),
        tag("p", id="dialog-error", role="alert", class_="errors"),
        tag("p", tag("button", "Put into the reply", type="button", id="dialog-ok", class_="primary"),
            tag("button", "Cancel", type="button", id="dialog-cancel"), class_="toolbar"),
        id="level-dialog", aria_labelledby="dialog-title",
    )  # fmt: skip


def request_parts(request: ManualRequest) -> dict[str, Html]:
    """What has become of a request, and which one is next."""
    run = request.run
    is_open = request.is_open
    facts: list[Any] = [tag("a", run.name, href="run?" + urlencode({"id": run.id})), " ",
                        f"{designer_name(run)} on {run.task}, seed {run.seed} ", _running_badge(run)]  # fmt: skip
    notes: list[Html] = []
    if is_open and not run.is_running:
        notes.append(tag("p", "The run is not running. It will read the reply when it is resumed.", class_="note"))
    if not is_open:
        notes.append(_verdict(request))
    following = [other for other in waiting_requests([run]) if other.number > request.number]
    if following:
        link = tag("a", f"Request {following[0].number}", href=following[0].link)
        notes.append(tag("p", "The run asks again: ", link, class_="next"))
    state = tag("span", hidden=True, data_open="yes" if is_open else "no", id="request-open")
    return {"state": part("request-state", tag("p", *facts), state, *notes)}


def _verdict(request: ManualRequest) -> Html:
    """What the run made of the reply, from its ledger."""
    lines = request.run.read_lines(LEDGER)
    checks = [line for line in lines if line.get("event") == "validation" and _belongs_to(line, request)]
    if not checks:
        is_read = any(line.get("event") == "reply" and _belongs_to(line, request) for line in lines)
        text = "The run has read the reply." if is_read else "The reply has been sent, but the run has not read it yet."
        return tag("p", text, class_="note")
    if checks[-1].get("ok") is True:
        return tag("p", badge("accepted", "good"), " The run trains in these levels after it has checked them.")
    errors = [tag("li", error) for error in texts(checks[-1], "errors")]
    return join(tag("p", badge("refused", "bad")), tag("ul", *errors, class_="errors"))


def _belongs_to(line: Mapping[str, Any], request: ManualRequest) -> bool:
    return as_text(line.get("digest")).startswith(request.digest)


def request_text(request: ManualRequest) -> str:
    """The request file."""
    try:
        return read_regular(request.file, max_bytes=MAX_REQUEST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise RequestError(f"cannot read {request.file.name}: {error.strerror}", 422) from None


def _conversation(request: ManualRequest) -> Html:
    """The request with its newest message last, and open."""
    lines = request.run.read_lines(LEDGER)
    requests = [line for line in lines if line.get("event") == "request" and _belongs_to(line, request)]
    messages = objects(requests[-1], "request", "messages") if requests else []
    if not messages:
        messages = [{"role": "user", "content": request_text(request)}]
    *earlier, newest = messages
    shown = [_message(message) for message in earlier]
    text = as_text(newest.get("content"))
    shown.append(tag(
        "div",
        tag("header", tag("strong", "New" if earlier else "Request"),
            tag("span", plural(len(text), "character"), class_="muted")),
        tag("pre", text, class_="untrusted", tabindex="0", id="newest"),
        class_="message newest",
    ))  # fmt: skip
    buttons = [tag("button", "Copy the request", type="button", data_copy="all")]
    if earlier:
        buttons.append(tag("button", "Copy only what is new", type="button", data_copy="new"))
    return tag(
        "section", tag("h2", "Request"),
        tag("p", *buttons, tag("span", id="copy-status", role="status", class_="muted"), class_="toolbar"),
        tag("div", *shown, class_="conversation"),
    )  # fmt: skip


def _message(message: Mapping[str, Any]) -> Html:
    content = as_text(message.get("content"))
    role = "Your reply" if message.get("role") == "assistant" else "Earlier message"
    heading = [tag("strong", role), tag("span", plural(len(content), "character"), class_="muted")]
    kind = "reply" if message.get("role") == "assistant" else "prompt"
    return details(heading, tag("pre", content, class_="untrusted", tabindex="0"), class_=f"message {kind}")


# --- replies


def check_reply(request: ManualRequest, text: str, world: World | None, maps: LevelMaps | None) -> dict[str, Any]:
    """The errors that the run would find in a reply, and its valid levels."""
    context = _reply_context(request.run, world)
    if context is None:
        return {"errors": [], "html": "", "items": [], "checked": False}
    parsed = context.parse(text)
    items = [
        {"purpose": item.purpose, "skills": list(item.skills), "level": item.level.to_overrides(), "position": position,
         "is_chain": item.chain is not None}
        for item, position in zip(parsed.levels[:MAX_LEVELS], parsed.positions, strict=False)
    ]  # fmt: skip
    cards = [
        level_card(item["position"], item, maps=maps, heading="h3",
                   footer=None if item["is_chain"] else _change_button(k))
        for k, item in enumerate(items)
    ]  # fmt: skip
    html = tag("div", *cards, class_="levels", id="reply-levels")
    return {"errors": list(parsed.errors), "html": html, "items": items, "checked": True}


def _change_button(k: int) -> Html:
    """Opens level `k` of the reply in the form. A chain has no settings of its own, and no such button."""
    return tag("p", tag("button", "Change this level", type="button", data_item=k))


def send_reply(request: ManualRequest, text: str, world: World | None, despite_errors: bool) -> None:
    """Write the reply file. A reply with errors is sent only if its author insists."""
    if len(text.encode(errors="replace")) > MAX_REPLY_BYTES or len(text) > MAX_CHARS:
        raise RequestError(f"the reply has {len(text):,} characters; the limit is {MAX_CHARS:,}", 413)
    context = _reply_context(request.run, world)
    errors = context.parse(text).errors if context else ()
    if errors and not despite_errors:
        raise RequestError(f"the reply has errors: {'; '.join(errors)}", 409)
    try:
        write_reply(request.file, text)
    except FileExistsError:
        raise RequestError("this request has a reply already", 422) from None
    except ValueError as error:
        raise RequestError(str(error)) from None
    except OSError as error:
        raise RequestError(f"cannot write the reply: {error.strerror}", 500) from None


class ReplyContext(NamedTuple):
    """What a reply is checked against."""

    brief: Brief
    earlier_levels: EarlierLevels | None  # which replies to requests with rich feedback may refer to
    is_obfuscated: bool

    def parse(self, text: str) -> ParsedReply:
        brief = self.brief
        if self.is_obfuscated:
            text = NameObfuscator(brief.Level, brief.skills, brief.world).decode(text)
        return parse_reply(text, brief, earlier_levels=self.earlier_levels)


def _reply_context(run: LiveRun, world: World | None) -> ReplyContext | None:
    """The context of a run's requests. The number of levels is that of the request's schema, else that of the plan."""
    if world is None:
        return None
    num_levels = number(run.request, "plan", "levels")
    requests = [line for line in run.read_lines(LEDGER) if line.get("event") == "request"]
    if requests:
        schema = get_path(requests[-1], "request", "json_schema", "properties", "levels")
        num_levels = number(schema, "maxItems") or num_levels
    cycles = number(run.request, "plan", "cycles")
    if num_levels is None or not 1 <= num_levels <= 10_000:
        return None
    brief = Brief(
        world=world.name, rules=world.rules, skills=world.skills, Level=world.Level, skill_levels=world.skill_levels,
        num_levels=int(num_levels), cycle=1, num_cycles=int(cycles or 1), seed=0,
    )  # fmt: skip
    config, earlier_levels = _llm_config(run), None
    if config.get("feedback") == "rich":
        results = [cycle.result["cycle"] for cycle in run.cycles if cycle.result.get("cycle")]
        try:
            earlier_levels = collect_earlier_levels([Cycle.from_json(result, world.Level) for result in results])
        except (ValueError, TypeError):
            return None  # a cycle is damaged; the run reports it when it is resumed
    return ReplyContext(brief, earlier_levels, config.get("obfuscate") is True)


def _llm_config(run: LiveRun) -> Mapping[str, Any]:
    """The designer that holds the conversation: that of the run, or the source of one that wraps it."""
    config = run.request.get("designer")
    while isinstance(config, dict) and "llm" not in config and isinstance(config.get("source"), dict):
        config = config["source"]
    return config if isinstance(config, dict) else {}
