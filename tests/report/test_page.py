"""The report of runs as one HTML file."""

import base64
import hashlib
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from envgen.report.compare_section import group_runs
from envgen.report.html import clean, format_steps, tag, to_json
from envgen.report.page import build_report, write_report
from envgen.report.read import open_run
from envgen.runs.store import RunError
from run_files import (
    HOSTILE,
    make_hostile,
    write_coevolve_run,
    write_comparison,
    write_json,
    write_lines,
    write_train_run,
)

SVG = {"svg", "line", "circle", "text"}
PAGE_TAGS = SVG | {
    "html", "head", "meta", "title", "link", "style", "body", "nav", "main", "header", "section", "article", "div", "p",
    "span", "strong", "small", "b", "code", "pre", "h1", "h2", "h3", "h4", "h5", "a", "ul", "li", "dl", "dt", "dd",
    "table", "caption", "thead", "tbody", "tr", "th", "td", "wbr", "details", "summary", "figure", "figcaption", "img",
    "button", "script", "noscript", "dialog",
}  # fmt: skip


class Page(HTMLParser):
    """The texts, tags, attributes and scripts of a page."""

    def __init__(self, source: str):
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[tuple[str | None, str]] = []
        self.styles: list[str] = []
        self.parts: list[str] = []
        self.csp = ""
        self._open = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        values = dict(attrs)
        self._open = tag
        self.parts.append("" if tag == "wbr" else " ")
        if tag == "script":
            self.scripts.append((values.get("type"), ""))
        elif tag == "style":
            self.styles.append("")
        elif values.get("http-equiv") == "Content-Security-Policy":
            self.csp = values["content"] or ""

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open == "script":
            kind, before = self.scripts[-1]
            self.scripts[-1] = (kind, before + data)
        elif self._open == "style":
            self.styles[-1] += data
        else:
            self.parts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.parts).split())

    @property
    def charts(self) -> list[dict]:
        specs = [json.loads(source) for kind, source in self.scripts if kind == "application/json"]
        return [spec for spec in specs if "series" in spec]


def read_page(*folders: Path, clips: bool = False) -> Page:
    return Page(build_report(folders, clips))


def test_a_run_of_envgen_is_shown_with_everything_it_holds(tmp_path):
    page = read_page(write_train_run(tmp_path / "llm-0"))
    for text in (
        "llm-0 on crafter", "20.0 [19.0, 21.0]", "finished", "Skills by cycle", "collect_diamond", "Cycle 1",
        "teach wood", "near.table true", "audit: good", "audit: bad", "impossible wood", "50 → 75", "7 → 13",
        "a note wood", "Conversation with the language model 3 requests", "because wood", "invalid",
        "no such setting wood", "failed: retryable", "$0.02", "plan.cycle_steps",
    ):  # fmt: skip
        assert text in page.text, text
    score = next(spec for spec in page.charts if spec["series"][0]["label"] == "training episodes")
    assert [label for _, _, label in score["shades"]] == ["cycle 1: levels", "cycle 2: levels"]
    measured = score["series"][1]["y"]
    assert [y for y in measured if y is not None] == pytest.approx([20 / 3, 40 / 3, 20], rel=1e-3)


def test_a_request_that_is_asked_again_is_shown_again(tmp_path):
    folder = write_train_run(tmp_path / "run")
    messages = [{"role": "user", "content": "design"}]
    lines = []
    for k in range(3):
        lines.append({"event": "request", "number": k, "digest": str(k), "request": {"messages": messages}})
        messages = [*messages, {"role": "assistant", "content": "no"}, {"role": "user", "content": "ask once more"}]
    write_lines(folder / "ledger.jsonl", lines)
    assert read_page(folder).text.count("ask once more") == 2


def test_links_lead_to_elements_of_the_page(tmp_path):
    for folders in ([write_train_run(tmp_path / "run")], [write_comparison(tmp_path / "many")]):
        source = build_report(folders, clips=False)
        links = set(re.findall(r'href="?#([^" >]+)', source))
        assert links
        assert links <= set(re.findall(r'id="?([^" >]+)', source))


def test_a_run_of_genenv_is_shown_with_everything_it_holds(tmp_path):
    page = read_page(write_coevolve_run(tmp_path / "genenv-0"))
    for text in (
        "genenv-0 on tools", "30.0 to 40.0% accuracy", "180 malformed", "20 held out", "40 duplicate",
        "Example tasks of 5 tasks", "p = 1.00", "request:", "correct: stock(item=", "stock(item=salt)",
    ):  # fmt: skip
        assert text in page.text, text
    labels = {spec["yLabel"]: spec for spec in page.charts}
    assert labels["p"]["lines"] == [[0.5, "alpha 0.5"]]
    assert {"accuracy %", "difficulty", "bits", "share", "specs"} <= labels.keys()


def test_runs_are_compared_group_by_group_with_intervals_over_seeds(tmp_path):
    page = read_page(write_comparison(tmp_path))
    for text in (
        "8 runs on crafter, tools",
        "Difference from the baseline (none), seed by seed",
        "0: +5.0, 1: +6.0",
        "+4.0",
    ):
        assert text in page.text, text
    curve = next(spec for spec in page.charts if spec["yLabel"] == "score %")
    assert [series["label"] for series in curve["series"]] == ["none (n=2)", "llm (n=2)"]
    last = [curve["series"][1][key][-1] for key in ("low", "y", "high")]
    assert last == pytest.approx([20, 21, 22])
    assert "3 of 4 finished" in page.text
    assert "not finished" in page.text


def test_groups_are_compared_with_the_baseline_of_the_same_settings(tmp_path):
    for learning_rate, none, llm in ((1e-4, 10.0, 12.0), (3e-4, 30.0, 28.0)):
        for name, value in (("none", none), ("llm", llm)):
            folder = write_train_run(tmp_path / f"{name}-{learning_rate}", name, 0, value)
            entry = json.loads((folder / "run.json").read_text())
            entry["request"]["learner"]["learning_rate"] = learning_rate
            (folder / "run.json").write_text(json.dumps(entry))
    page = read_page(tmp_path)
    assert "Difference from the baseline, seed by seed" in page.text
    table = page.text[page.text.index("Difference from the baseline, seed by seed") :]
    rows = re.findall(r"(llm|none) \S+=(0\.\d+) none \S+=(0\.\d+) ([+-]\d+\.\d)", table)
    assert rows[:2] == [("none", "0.0003", "0.0001", "+20.0"), ("llm", "0.0001", "0.0001", "+2.0")]
    assert rows[2] == ("llm", "0.0003", "0.0003", "-2.0")


def test_a_run_that_was_extended_after_final_steps_is_in_another_group(tmp_path):
    for seed in (0, 1):
        folder = write_train_run(tmp_path / f"none-{seed}", "none", seed)
    entry = json.loads((folder / "run.json").read_text())
    write_json(folder / "run.json", {**entry, "extended_from": [{"plan.cycles": 1, "plan.final_steps": 100}]})
    groups = group_runs([open_run(tmp_path / f"none-{seed}", str(seed)) for seed in (0, 1)])
    assert [group.title for group in groups] == ["none (n=1)", "none extended_from.1.plan.cycles=1 (n=1)"]


def test_the_first_run_counts_where_a_seed_occurs_twice(tmp_path):
    def tables():
        source = build_report([tmp_path], clips=False)
        return re.findall(r'aria-label="(?:Results of each group|Difference from the baseline).*?</table>', source)

    for seed in (0, 1):
        write_train_run(tmp_path / f"none-{seed}", "none", seed, 15.0 + seed)
        write_train_run(tmp_path / f"llm-{seed}", "llm", seed, 20.0 + 2 * seed)
    results, differences = tables()
    assert results.count('class="seed"') == 4
    assert "+5.0, +6.0" in differences
    write_train_run(tmp_path / "repeated", "llm", 0, 40.0)
    assert tables() == [results, differences]


def test_an_unfinished_run_is_shown_as_far_as_it_went(tmp_path):
    folder = write_train_run(tmp_path / "run", finished=False)
    lines = (folder / "progress.jsonl").read_text().splitlines(keepends=True)
    (folder / "progress.jsonl").write_text("".join(lines[:30]) + lines[30][:40])
    (folder / "cycles" / "2" / "evaluation.json").unlink()
    page = read_page(folder)
    assert "50% of its steps" in page.text
    assert "1.5 k of 3 k" in page.text
    assert "Left out" not in page.text  # an incomplete last line is not damage
    (folder / "progress.jsonl").unlink()
    (folder / "cycles" / "1" / "levels.json").unlink()
    assert "not finished" in read_page(folder).text


def test_the_progress_of_an_unfinished_run_of_genenv_is_in_rollouts(tmp_path):
    folder = write_coevolve_run(tmp_path / "genenv-0", finished=False)
    assert "100% of its rollouts" in read_page(folder).text
    (folder / "progress.jsonl").unlink()
    assert "0 rollouts" in read_page(folder).text


def test_damaged_files_are_named_and_the_rest_is_shown(tmp_path):
    folder = write_train_run(tmp_path / "run")
    (folder / "cycles" / "1" / "levels.json").write_text("{")
    (folder / "cycles" / "2" / "evaluation.json").write_text("[1]")
    progress = folder / "progress.jsonl"
    progress.write_text("[" * 100_000 + "\nnonsense\n" + progress.read_text() + '"text"\n')
    page = read_page(folder)
    for text in ("progress.jsonl: 3 of 63 lines are damaged", "cycles/1/levels.json", "does not hold a JSON object"):
        assert text in page.text
    assert "20.0 [19.0, 21.0]" in page.text
    assert any(spec["yLabel"] == "score %" for spec in page.charts)


def test_steps_that_measured_levels_are_not_part_of_the_sum(tmp_path):
    folder = write_train_run(tmp_path / "run")
    summary = json.loads((folder / "summary.json").read_text())
    write_json(folder / "summary.json", summary | {"steps": {"levels": 1000, "original": 2000, "ranking": 500}})
    assert "1 k levels + 2 k original; 500 more to measure levels" in read_page(folder).text


def test_if_the_best_policy_cannot_be_loaded_another_one_is_shown(tmp_path, monkeypatch):
    def load_clips(run, world):
        loaded.append(run.name)
        raise RunError("its checkpoint is damaged")

    loaded: list[str] = []
    for name, score in (("other", 10.0), ("best", 30.0), ("no-checkpoint", 20.0)):
        folder = write_train_run(tmp_path / name, score=score)
        if name != "no-checkpoint":
            (folder / "checkpoints").mkdir()
    monkeypatch.setattr("envgen.report.page.load_clips", load_clips)
    messages: list[str] = []
    build_report([tmp_path], on_message=messages.append)
    assert loaded == ["best", "other"]
    assert "best is shown without clips of its policy: its checkpoint is damaged" in messages


def test_evaluations_of_language_models_are_named_and_left_out(tmp_path):
    write_train_run(tmp_path / "run")
    request = {"world": "crafter", "policy": "llm", "seed": 0}
    write_json(tmp_path / "played" / "run.json", {"format": 2, "request": request, "versions": {}})
    messages: list[str] = []
    build_report([tmp_path], clips=False, on_message=messages.append)
    assert [text for text in messages if "played is an evaluation of a language model" in text]
    with pytest.raises(RunError, match="an evaluation of a language model"):
        build_report([tmp_path / "played"])


def test_links_out_of_a_run_directory_are_not_followed(tmp_path):
    folder = write_train_run(tmp_path / "runs" / "run")
    (tmp_path / "secret.json").write_text(json.dumps({"final": {"score": {"value": 77.7}}, "password": "hunter2"}))
    for name in ("summary.json", "ledger.jsonl", "cycles/1/levels.json"):
        (folder / name).unlink()
        os.symlink(tmp_path / "secret.json", folder / name)
    page = read_page(folder)
    assert "77.7" not in page.text
    assert "hunter2" not in page.text
    assert page.text.count("it is a symbolic link") == 3


def test_a_world_or_domain_that_a_run_names_by_import_path_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, folder in (("world", write_train_run(tmp_path / "a")), ("domain", write_coevolve_run(tmp_path / "b"))):
        entry = json.loads((folder / "run.json").read_text())
        entry["request"][name] = "evil_module:World"
        write_json(folder / "run.json", entry)
        assert "evil_module:World" in read_page(folder).text


def check_only_known_code(page: Page, source: str) -> None:
    """Whatever a page shows, it consists of our elements, and its policy lets only our scripts and style work."""
    assert page.tags <= PAGE_TAGS
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("style", "srcdoc")]
    addresses = [value or "" for name, value in page.attributes if name in ("src", "href", "action")]
    assert all(address.startswith(("#", "data:image/")) for address in addresses)
    code = [text for kind, text in page.scripts if kind != "application/json"]
    assert len(code) == 2
    assert len(page.styles) == 1
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(t.encode()).digest()).decode()}'" for t in code + page.styles]
    assert page.csp == (
        f"default-src 'none'; script-src {hashes[0]} {hashes[1]}; style-src {hashes[2]}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg|github\.com/leeoniya/uPlot)", source)


def test_the_page_is_self_contained(tmp_path):
    source = build_report([write_comparison(tmp_path)], clips=False)
    check_only_known_code(Page(source), source)
    assert "Copyright (c) 2022 Leon Sorokin" in source  # the license of uPlot asks for it
    assert len(source.encode()) < 1_000_000
    assert source == build_report([tmp_path], clips=False)  # equal runs give equal files


def write_hostile_runs(folder: Path) -> Path:
    """Runs whose every text is hostile, whose numbers are no numbers, and whose lines are long."""
    for run in (write_train_run(folder / "train", word=HOSTILE), write_coevolve_run(folder / "co", word=HOSTILE)):
        for file in [*run.glob("*.json"), *run.glob("cycles/*/*.json")]:
            if file.name != "run.json":
                write_json(file, make_hostile(json.loads(file.read_text())))
        entry = json.loads((run / "run.json").read_text())
        entry["request"]["plan"] = make_hostile(entry["request"]["plan"]) | {"cycles": 10**400}
        entry["request"]["learner"] = make_hostile({"name": "x"})
        entry["machine"] = HOSTILE
        write_json(run / "run.json", entry)
        lines = [json.loads(line) for line in (run / "progress.jsonl").read_text().splitlines()]
        damaged = [make_hostile(line) | {"phase": HOSTILE, "steps": line.get("steps")} for line in lines]
        write_lines(run / "progress.jsonl", [*lines, *damaged, {"phase": "x" * 10_000_000}, {"steps": 10**400}])
    requests = [{"messages": [{"role": HOSTILE, "content": HOSTILE * 100_000}]}, {"messages": 3}, None, HOSTILE]
    write_lines(folder / "train" / "ledger.jsonl", [
        *({"event": "request", "number": k, "digest": HOSTILE, "request": r} for k, r in enumerate(requests)),
        {"event": "reply", "number": 0, "digest": HOSTILE, "text": HOSTILE, "model": HOSTILE, "usage": HOSTILE,
         "cost": float("nan"), "seconds": HOSTILE},
        {"event": "validation", "digest": HOSTILE, "ok": HOSTILE, "errors": [HOSTILE]},
    ])  # fmt: skip
    return folder


def test_hostile_runs_change_nothing_but_texts(tmp_path):
    source = build_report([write_hostile_runs(tmp_path)], clips=False)
    page = Page(source)
    check_only_known_code(page, source)
    assert "window.hacked = 1" in page.text  # as text
    assert "cannot be shown" not in page.text
    assert len(source) < 5_000_000
    for kind, text in page.scripts:
        if kind == "application/json":
            assert "<" not in text
            json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    written = write_report([tmp_path], tmp_path / "report.html", clips=False)
    assert written.read_bytes().decode()  # also lone surrogates can be written


def test_if_a_part_fails_the_others_are_shown(tmp_path, monkeypatch):
    write_train_run(tmp_path / "a")
    write_train_run(tmp_path / "b", seed=1, score=30.0)

    def fail(run, maps):
        if run.name == "a":
            raise TypeError("a <b>surprise</b>")
        return ["the other run"]

    monkeypatch.setattr("envgen.report.page.train_section", fail)
    page = read_page(tmp_path)
    assert "this run cannot be shown: TypeError: a <b>surprise</b>" in page.text
    assert "the other run" in page.text


def test_if_a_part_of_a_run_fails_its_other_parts_are_shown(tmp_path, monkeypatch):
    write_train_run(tmp_path / "train")
    write_coevolve_run(tmp_path / "coevolve")

    def fail(run):
        raise TypeError("a <b>surprise</b>")

    monkeypatch.setattr("envgen.report.train_section.adaptation_section", fail)
    monkeypatch.setattr("envgen.report.coevolve_section._examples", fail)
    page = read_page(tmp_path)
    assert "adaptation cannot be shown: TypeError: a <b>surprise</b>" in page.text
    assert "tasks cannot be shown: TypeError: a <b>surprise</b>" in page.text
    assert "this run cannot be shown" not in page.text
    for text in ("Levels by cycle", "final score %", "Conversation with the language model", "Rejected specs"):
        assert text in page.text, text


def test_directories_without_runs_are_refused(tmp_path):
    with pytest.raises(RunError, match="contains no run directory"):
        build_report([tmp_path])
    write_json(tmp_path / "run" / "run.json", {"format": 1, "request": {}})
    with pytest.raises(RunError, match="envgen migrate"):
        build_report([tmp_path])


def test_elements_escape_what_is_not_html():
    assert tag("p", "<b>", tag("i", "x"), title='"<') == '<p title="&quot;&lt;">&lt;b&gt;<i>x</i></p>'
    assert tag("p", None, hidden=True, id=None, class_="a") == '<p hidden class="a"></p>'
    assert clean("a\x00\u202eb\ud800" + "c" * 30, limit=10) == "a\ufffdb\ufffdccccc\n... 25 more characters"
    assert to_json({"a": [float("nan"), 1.23456789, "</script>"]}) == '{"a":[null,1.2346,"\\u003c/script\\u003e"]}'


def test_steps_are_rounded_before_their_unit_is_chosen():
    steps = (512, 999.4, 1000, 240_000, 999_600, 1_960_000, 999_500_000, None)
    shown = ["512", "999.4", "1 k", "240 k", "1 M", "1.96 M", "1 G", "-"]
    assert [format_steps(value) for value in steps] == shown
