"""`write_report`: one self-contained HTML file about some runs, made from their run directories alone.

The page needs no network: style, scripts and pictures are in the file, and its Content-Security-Policy allows nothing
else. Only the two scripts whose hashes it names can run, so a text from a run directory never becomes code.
"""

import base64
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path

from envgen.errors import EnvgenError
from envgen.imports import is_installed
from envgen.runs.compare import find_runs
from envgen.runs.kinds import number
from envgen.runs.store import RunError, write_bytes
from envgen.text import plural
from envgen.worlds.world import World

from .charts import swatch
from .clips import Clip, make_clips
from .compare_section import RunGroup, compare_section, describe_result, group_runs
from .html import Html, badge, details, guarded, join, tag, to_json
from .pictures import LevelMaps, PictureStore
from .read import RunFiles, open_run
from .train_section import clips_section, train_section

MAX_PICTURE_BYTES = 3_400_000
ICON = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><rect width='16' height='16' rx='4' fill='%232f6fdb'/><path d='M3 12 7 7l3 2 3-5' stroke='white' stroke-width='2' fill='none'/></svg>"  # noqa: E501
OnMessage = Callable[[str], None]


def write_report(
    paths: Sequence[str | Path],
    out: str | Path,
    clips: bool = True,
    on_message: OnMessage = lambda text: None,
    worlds: Sequence[World] = (),
) -> Path:
    """Write the report of the runs at or below `paths` to the HTML file `out`.

    Args:
        clips: Show episodes of the best run of each world as clips, or of another run if it has no checkpoint.
        on_message: Receives a sentence for everything that had to be left out.
        worlds: Worlds that are not installed, for the runs that were trained in them.

    Raises:
        RunError: There is no run at a path, or the file cannot be written.
    """
    out = Path(out)
    page = build_report(paths, clips, on_message, worlds)
    write_bytes(out, page.encode("utf-8", "replace"))
    return out


def build_report(
    paths: Sequence[str | Path],
    clips: bool = True,
    on_message: OnMessage = lambda text: None,
    worlds: Sequence[World] = (),
) -> str:
    """The report as HTML; see `write_report`."""
    runs, unreadable = _open_runs(paths)
    store, own_worlds = PictureStore(MAX_PICTURE_BYTES), {world.name: world for world in worlds}
    tasks: dict[tuple[bool, str], list[RunFiles]] = {}
    for run in runs:
        tasks.setdefault((run.is_coevolution, run.task), []).append(run)
    overviews, details_of_runs, nav = [], [], []
    for (_, task), members in sorted(tasks.items()):
        groups = group_runs(members)
        anchor = f"task-{len(nav) + 1}"
        system = "GenEnv" if members[0].is_coevolution else "EnvGen"
        is_alone = len(runs) == 1
        section, links = _runs_of_task(groups, store, clips, on_message, own_worlds, is_alone, anchor)
        if is_alone:
            heading = tag("h2", task, tag("small", system), id=anchor, class_="visually-hidden")
            overviews.append(join(heading, section))
        else:
            class_ = None if len(tasks) > 1 else "visually-hidden"
            heading = tag("h2", task, tag("small", system), id=anchor, class_=class_)
            overview = guarded(lambda groups=groups: compare_section(groups), "the comparison")
            overviews.append(join(heading, overview))
            details_of_runs.append(section)
        nav.append((anchor, task, links))
    problems = [f"{run.name}: {problem}" for run in runs for problem in run.problems] + unreadable
    if store.left_out:
        problems.append(f"{plural(len(store.left_out), 'picture')} left out to keep the page small")
    for problem in problems:
        on_message(problem)
    return _page(_title(runs), overviews, details_of_runs, nav, problems, store)


def _open_runs(paths: Sequence[str | Path]) -> tuple[list[RunFiles], list[str]]:
    folders = find_runs(paths)
    common = Path(os.path.commonpath([folder.resolve() for folder in folders]))
    common = common.parent if len(folders) == 1 else common
    runs, unreadable = [], []
    for folder in folders:
        name = folder.resolve().relative_to(common).as_posix()
        try:
            run = open_run(folder, name)
            if "policy" in run.request:
                raise RunError(
                    f"{folder} is an evaluation of a language model, and reports show only training runs; "
                    "its results are in evaluation.json"
                )
            if not isinstance(run.seed, int):
                raise RunError(f"{folder / 'run.json'} has no seed")
            runs.append(run)
        except RunError as error:
            unreadable.append(str(error))
    if not runs:
        raise RunError(unreadable[0])
    return runs, unreadable


def _title(runs: Sequence[RunFiles]) -> str:
    tasks = sorted(dict.fromkeys(run.task for run in runs))
    return f"{runs[0].name} on {tasks[0]}" if len(runs) == 1 else f"{plural(len(runs), 'run')} on {', '.join(tasks)}"


def _runs_of_task(
    groups: Sequence[RunGroup],
    store: PictureStore,
    clips: bool,
    on_message: OnMessage,
    own_worlds: Mapping[str, World],
    is_alone: bool,
    anchor: str,
) -> tuple[Html, list[tuple[str, str]]]:
    """The runs of one world or domain, each with a link for the navigation."""
    members = [(group, run) for group in groups for run in group.runs]
    first = members[0][1]
    clips_of_best: Html | None = None
    maps = None
    if not first.is_coevolution:
        maps = _level_maps(first.task, store, on_message, own_worlds)
        if clips and maps is not None:
            best = max(members, key=lambda member: number(member[1].summary, "final", "score", "value") or -1.0)[1]
            candidates = [best, *(run for _, run in members if run is not best)]
            clips_of_best = next(filter(None, (_clips(run, maps, on_message) for run in candidates)), None)
    links = []
    sections = []
    for k, (group, run) in enumerate(members):
        run_anchor = f"{anchor}-run-{k + 1}"
        links.append((run_anchor, run.name))
        sections.append(_run_section(run, group, maps, run_anchor, is_alone))
    heading = tag("h3", "Run", class_="visually-hidden") if is_alone else tag("h3", "Runs")
    section = tag("section", heading, *sections, class_="runs")
    return join(section, clips_of_best) if is_alone else join(clips_of_best, section), links


def _run_section(run: RunFiles, group: RunGroup, maps: LevelMaps | None, anchor: str, open_: bool) -> Html:
    def body() -> Html:
        if run.is_coevolution:
            from .coevolve_section import coevolve_section

            return join(*coevolve_section(run))
        return join(*train_section(run, maps))

    content = guarded(body, "this run")
    state = badge("finished", "good") if run.summary else badge("not finished", "doubtful")
    summary = [
        swatch(group.index), tag("strong", run.name),
        tag("span", group.label if group.label != run.name else None, f" · seed {run.seed}", class_="muted"),
        tag("span", describe_result(run), class_="result"), state,
    ]  # fmt: skip
    return details(summary, content, class_="run", open_=open_, id_=anchor)


def _level_maps(
    world_name: str, store: PictureStore, on_message: OnMessage, own_worlds: Mapping[str, World]
) -> LevelMaps | None:
    """None for a world that is neither given nor installed. A `module:Class` in a run directory is not imported."""
    from envgen.worlds.registry import make_world, world_names

    if world_name in own_worlds:
        return LevelMaps(own_worlds[world_name], store)
    if world_name not in world_names():
        on_message(f"levels of {world_name} are shown without pictures: add --world module:Class")
        return None
    try:
        return LevelMaps(make_world(world_name), store)
    except EnvgenError as error:
        on_message(str(error))
        return None


def _has_checkpoint(run: RunFiles) -> bool:
    return (run.folder / "checkpoints").is_dir() and is_installed("torch")


def load_clips(run: RunFiles, world: World) -> list[Clip]:
    """Play episodes with the policy of a run."""
    from envgen import api

    policy = api.load_policy(run.folder, world=world)
    return make_clips(policy, world, str(policy.metadata["observation"]))


def _clips(run: RunFiles, maps: LevelMaps, on_message: OnMessage) -> Html | None:
    """What the policy of a run does; None if it has no policy that can be loaded."""
    if not _has_checkpoint(run):
        return None
    try:
        clips = load_clips(run, maps.world)
    except Exception as error:  # noqa: BLE001  a checkpoint may be damaged, or of another version
        on_message(f"{run.name} is shown without clips of its policy: {error}")
        return None
    return clips_section(clips, maps.store, f"What the policy of {run.name} does")


# --- the page


def _page(
    title: str,
    overviews: Sequence[Html],
    details_of_runs: Sequence[Html],
    nav: Sequence[tuple[str, str, Sequence[tuple[str, str]]]],
    problems: Sequence[str],
    store: PictureStore,
) -> str:
    style = asset("uPlot.min.css") + asset("report.css")
    library, script = asset("uPlot.min.js"), asset("charts.js") + asset("report.js")
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    license_text = asset("uPlot.LICENSE.txt").replace("--", "- -")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=Html(policy)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content="envgen report"),
        tag("title", f"envgen: {title}"),
        Html(f'<link rel="icon" href="{ICON}">'),
        Html(f"<style>{style}</style>"),
    )
    warnings = details(
        [tag("strong", "Left out"), tag("span", plural(len(problems), "problem"), class_="muted")],
        tag("ul", [tag("li", problem, class_="untrusted") for problem in problems[:100]]), class_="problems",
    ) if problems else None  # fmt: skip
    main = tag(
        "main",
        tag("header", tag("p", "envgen report", class_="eyebrow"), tag("h1", title), class_="title"),
        need_script("The curves, maps and clips of this report need JavaScript."),
        warnings,
        *overviews,
        Html(f"<!-- uPlot\n{license_text}-->"),
        Html(f"<script>{library}</script><script>{script}</script>"),
        *details_of_runs,
        id="top",
    )
    pictures = tag("script", to_json(store.urls), type="application/json", id="pictures")
    skip = tag("a", "Skip to the report", href="#top", class_="skip")
    body = tag("body", skip, _nav(nav), main, lightbox(), pictures)
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _nav(nav: Sequence[tuple[str, str, Sequence[tuple[str, str]]]]) -> Html:
    parts = []
    for anchor, task, links in nav:
        items = [tag("li", tag("a", name, href=f"#{run_anchor}")) for run_anchor, name in links]
        parts.append(tag("li", tag("a", task, href=f"#{anchor}"), tag("ul", *items)))
    theme = tag("button", "Theme: system", type="button", id="theme")
    return tag("nav", tag("a", "envgen", href="#top", class_="brand"), tag("ul", *parts), theme, aria_label="Contents")


def lightbox() -> Html:
    """The dialog that shows a picture in full size."""
    close = tag("button", "Close", type="button")
    return tag("dialog", tag("img", alt=""), close, id="lightbox", aria_label="Picture in full size")


def need_script(sentence: str) -> Html:
    """What a page says where scripts are turned off."""
    return tag("noscript", tag("p", sentence, class_="warning"))


def asset(name: str) -> str:
    """A style sheet or script of reports."""
    return (resources.files("envgen.report") / "assets" / name).read_text("utf-8")


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
