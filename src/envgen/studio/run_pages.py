"""The pages about runs: the list with those in progress, one run, and the comparison of several."""

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlencode

from envgen.report.compare_section import compare_section, describe_result, group_runs
from envgen.report.html import Html, badge, breakable, format_steps, guarded, join, tag
from envgen.report.read import CycleFiles, objects
from envgen.report.train_section import level_card, score_chart, train_parts
from envgen.runs.store import PROGRESS
from envgen.text import plural

from .page import gone_part, page, part
from .pictures import StudioMaps
from .runs import LiveRun, RunFolder, designer_name
from .server import Response

MAX_ROWS = 1000
MAX_CARDS = 12  # of runs in progress
MAX_PREVIEWS = 8  # levels of a card
MapsOf = Callable[[str], StudioMaps | None]  # by the name of a world
PART_FILES = {  # of a run's page: the files that it is built from
    "facts": (PROGRESS, "summary.json"), "charts": (PROGRESS, "summary.json", "cycles"),
    "skills": ("cycles", "summary.json"), "levels": ("cycles",), "conversation": ("ledger.jsonl",),
    "settings": ("run.json",), "rejections": (PROGRESS,), "tasks": ("tasks.jsonl",),
    "adaptation": (PROGRESS, "summary.json", "cycles"),
}  # fmt: skip
# between two updates, where building one takes long
PART_SECONDS = {"charts": 1.0, "adaptation": 1.0, "rejections": 5.0, "tasks": 10.0}


def state(run: LiveRun) -> tuple[str, str]:
    """The state of a run in a word or two, and the class of its badge."""
    if run.summary:
        return "finished", "good"
    if run.is_waiting and run.is_running:
        return "waiting for a reply", "doubtful"
    return ("in progress", "live") if run.is_running else ("not finished", "doubtful")


# --- the list


def runs_page(folder: RunFolder, maps_of: MapsOf) -> Response:
    compare_note = "Tick runs to compare them. Runs that differ only in their seed form one group."
    return page(
        "runs",
        folder.folder.name or str(folder.folder),
        *runs_parts(folder, maps_of).values(),
        tag("section", tag("h2", "Comparison"), tag("p", compare_note, class_="note", id="compare-note"),
            tag("p", id="compare-status", role="status"), tag("div", id="comparison"), id="compare"),
        stream="events?view=runs",
    )  # fmt: skip


def runs_parts(folder: RunFolder, maps_of: MapsOf) -> dict[str, Html]:
    runs = folder.runs()
    live = [run for run in runs if run.is_in_progress]
    with folder.lock:
        cards = [guarded(lambda run=run: _card(run, maps_of), run.name) for run in live[:MAX_CARDS]]
        rows = [run.row(_row) for run in runs[:MAX_ROWS]]
        bad_rows = [_bad_row(name, problem) for name, problem in sorted(folder.unreadable.items())]
    shown = [tag("h2", "In progress"), tag("div", *cards, class_="live-runs")] if cards else []
    live_part = part("live", *shown)
    head = tag("tr", [tag("th", text, scope="col") for text in
                      ("Run", "World or domain", "Designer", "Seed", "State", "Progress", "Result")])  # fmt: skip
    body = tag("tbody", *rows, *bad_rows)
    runs_table = tag("table", tag("caption", "Runs"), tag("thead", head), body)
    search = tag("input", type="search", id="filter", placeholder="name, world, designer ...")
    label = tag("label", "Filter ", search)
    listed: list[Html] = [
        tag("p", label, tag("span", plural(len(runs), "run"), class_="muted"), class_="toolbar"),
        tag("div", runs_table, class_="scroll runs-table", tabindex="0", role="region", aria_label="Runs"),
    ]
    if not rows and not bad_rows:
        listed = [
            tag("p", "There are no runs in this folder yet. They appear here as soon as one starts, for example with:"),
            tag("pre", f"envgen train crafter --folder {folder.folder / 'my-run'}"),
        ]
    if len(runs) > MAX_ROWS:
        listed.append(tag("p", f"{plural(len(runs) - MAX_ROWS, 'more run')} not shown.", class_="note"))
    return {"live": live_part, "list": part("list", tag("h2", "Runs"), *listed)}


def _row(run: LiveRun) -> Html:
    text, kind = state(run)
    name = tag("a", breakable(run.name), href=_run_link(run))
    box = tag("input", type="checkbox", name="run", value=run.id, aria_label=f"Compare {run.name}")
    cells = [run.task, designer_name(run), run.seed, badge(text, kind), _progress(run), describe_result(run)]
    return tag("tr", tag("th", tag("span", box, name, class_="name"), scope="row"), [tag("td", cell) for cell in cells],
               data_key=run.id)  # fmt: skip


def _bad_row(name: str, problem: str) -> Html:
    return tag("tr", tag("th", breakable(name), scope="row"), tag("td", problem, colspan="6", class_="problem"),
               data_key=f"bad {name}")  # fmt: skip


def _progress(run: LiveRun) -> Html | str:
    planned = run.planned_steps
    unit = "rollouts" if run.is_coevolution else "steps"
    if run.summary or not planned:
        return f"{format_steps(run.steps)} {unit}"
    share = min(1.0, run.steps / planned)
    bar = tag("progress", value=f"{share:.4f}", max="1", aria_label=f"Progress of {run.name}")
    return join(bar, tag("small", f" {format_steps(run.steps)} of {format_steps(planned)} {unit}"))


def _run_link(run: LiveRun) -> str:
    return "run?" + urlencode({"id": run.id})


def _card(run: LiveRun, maps_of: MapsOf) -> Html:
    """A run in progress: how far it is, its score, and the levels that it trains in."""
    text, kind = state(run)
    phase = run.last_line.get("phase")
    chart = run.part("card chart", lambda: _main_chart(run), PART_FILES["charts"], PART_SECONDS["charts"])
    return tag(
        "article",
        tag("header", tag("h3", tag("a", run.name, href=_run_link(run))), badge(text, kind)),
        tag("p", f"{designer_name(run)} on {run.task}, seed {run.seed}", class_="muted"),
        tag("p", _progress(run), tag("span", f" · {phase}", class_="muted") if isinstance(phase, str) else None),
        tag("p", tag("a", "Answer its request", href="designer")) if run.is_waiting else None,
        chart or tag("p", "The first curve appears after a few updates.", class_="note"),
        run.part("card levels", lambda: _latest_levels(run, maps_of), ("cycles",)),
        class_="live-run",
        data_key=run.id,
    )


def _main_chart(run: LiveRun) -> Html | None:
    if run.is_coevolution:
        from envgen.report.coevolve_section import own_charts

        return next(iter(own_charts(run)), None)
    return score_chart(run)


def _latest_levels(run: LiveRun, maps_of: MapsOf) -> Html | None:
    designed = [cycle for cycle in run.cycles if objects(cycle.design, "proposal", "levels")]
    return _levels_of_cycle(designed[-1], maps_of(run.task)) if designed else None


def _levels_of_cycle(cycle: CycleFiles, maps: StudioMaps | None) -> Html:
    levels = objects(cycle.design, "proposal", "levels")
    shown = [level_card(k, level, maps=maps) for k, level in enumerate(levels[:MAX_PREVIEWS])]
    return join(
        tag("h4", f"Levels of cycle {cycle.number}"),
        tag("div", *shown, class_="levels small-levels", tabindex="0", role="region",
            aria_label=f"Levels of cycle {cycle.number}"),
    )  # fmt: skip


# --- one run


def run_page(run: LiveRun, maps_of: MapsOf) -> Response:
    stream = "events?" + urlencode({"view": "run", "id": run.id})
    return page("runs", run.name, gone_part(""), *run_parts(run, maps_of).values(), stream=stream)


def run_parts(run: LiveRun, maps_of: MapsOf) -> dict[str, Html]:
    text, kind = state(run)
    query = urlencode({"run": run.id})
    links = [tag("a", "Report", href=f"report?{query}", target="_blank", rel="noopener")]
    if not run.is_coevolution and (run.folder / "checkpoints").is_dir():
        links.append(tag("a", "Report with clips of the policy", href=f"report?{query}&clips=1", target="_blank",
                         rel="noopener"))  # fmt: skip
    if run.is_waiting:
        links.append(tag("a", "Answer the open request", href="designer"))
    head = tag("p", badge(text, kind), f"{designer_name(run)} on {run.task}, seed {run.seed}", _progress(run),
               class_="run-head")  # fmt: skip
    headings = [tag("h2", run.task, class_="visually-hidden"), tag("h3", "Run", class_="visually-hidden")]
    parts = {"head": part("head", head, tag("p", *_separated(links)), *headings)}
    if run.is_coevolution:
        from envgen.report.coevolve_section import coevolve_parts

        builders: Mapping[str, Callable[[], Html | None]] = coevolve_parts(run)
    else:
        builders = train_parts(run, maps_of(run.task))
    for name, build in builders.items():
        seconds = PART_SECONDS.get(name, 0.0)
        files = PART_FILES.get(name, (PROGRESS,))
        content = run.part(name, lambda build=build: guarded(build, run.name), files, seconds)
        parts[name] = part(f"run-{name}", content)
    problems = [tag("li", problem, class_="untrusted") for problem in run.problems]
    parts["problems"] = part("run-problems", tag("ul", *problems, class_="warning") if problems else None)
    return parts


def _separated(links: Sequence[Html]) -> list[Html | str]:
    return [item for link in links for item in (" · ", link)][1:]


# --- several runs


def comparison(runs: Sequence[LiveRun]) -> Html:
    """What `envgen compare` computes, with the curves of a report. Runs of each world or domain are compared."""
    tasks: dict[tuple[bool, str], list[LiveRun]] = {}
    for run in runs:
        tasks.setdefault((run.is_coevolution, run.task), []).append(run)
    sections: list[Html | None] = []
    for (_, task), members in sorted(tasks.items()):
        unfinished = [run.name for run in members if not run.summary]
        sections.append(tag("h3", task) if len(tasks) > 1 else None)
        sections.append(guarded(lambda members=members: compare_section(group_runs(members)), members[0].name))
        if unfinished:
            whose = "its" if len(unfinished) == 1 else "their"
            text = f"Not finished, so only {whose} curves are shown: {', '.join(unfinished)}"
            sections.append(tag("p", text, class_="note"))
    query = urlencode([("run", run.id) for run in runs])
    link = tag("a", "Report of these runs", href=f"report?{query}", target="_blank", rel="noopener")
    return tag("div", tag("p", link), *sections, id="comparison")
