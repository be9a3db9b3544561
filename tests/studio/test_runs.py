"""The list of runs, and reading runs whose files grow, are cut, or are hostile."""

import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from client import serve

from envgen.runs.compare import compare
from envgen.runs.store import lock_folder, read_entry
from envgen.studio import run_pages
from envgen.studio.page import error_page
from envgen.studio.runs import LineReader, RunFolder
from envgen.studio.server import Request
from run_files import (
    HOSTILE,
    evaluation,
    make_hostile,
    write_coevolve_run,
    write_comparison,
    write_cycle,
    write_json,
    write_train_run,
)
from special_files import KINDS, make_special_file


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    folder = write_comparison(tmp_path_factory.mktemp("runs"))
    with serve(folder) as client:
        yield client


@pytest.fixture(autouse=True)
def scan_always(monkeypatch):
    monkeypatch.setattr("envgen.studio.runs.MIN_SCAN_SECONDS", 0.0)


def names(folder: RunFolder) -> list[str]:
    return sorted(run.name for run in folder.runs())


def append(file, lines) -> None:
    with open(file, "a") as stream:
        stream.write("".join(json.dumps(line) + "\n" for line in lines))


def test_all_runs_are_listed_with_their_states_and_results(comparison):
    page = comparison.get("").text
    for text in ("llm-0", "genenv-1", "uniform-0", "score 22.0%", "30.0 to 38.0% accuracy", "finished", "not finished"):
        assert text in page, text
    for run in comparison.studio.folder.runs():
        answer = comparison.get(f"run?id={run.id}")
        assert answer.status == 200
        assert "cannot be shown" not in answer.text


def test_ticked_runs_are_compared_as_by_the_command(comparison):
    ids = [comparison.run_id(name) for name in ("none-0", "none-1", "llm-0", "llm-1")]
    page = comparison.get("compare?" + "&".join(f"run={run_id}" for run_id in ids)).text
    folders = [comparison.studio.folder.folder / name for name in ("none-0", "none-1", "llm-0", "llm-1")]
    (table,) = compare(folders).tables
    for row in table.result_rows():
        for cell in row[1:]:
            assert f"<td>{cell}</td>" in page, cell
    assert "Difference from the baseline (none)" in page
    other = comparison.get(f"compare?run={comparison.run_id('genenv-1')}").text
    assert "Not finished, so only its curves are shown: genenv-1" in other
    assert comparison.get("compare").status == 400
    assert comparison.get("compare?run=nothing").status == 404


@pytest.mark.parametrize(
    ("address", "status", "message"),
    [
        ("run?id=nothing", 404, "There is no such run in this folder; it may have been deleted or moved."),
        ("request?id=nothing&name=1", 404, "There is no such run in this folder; it may have been deleted or moved."),
        ("report", 400, "Tick at least one run."),
        ("report?run=nothing", 404, "There is no such run in this folder; it may have been deleted or moved."),
        ("levels?world=%3Cb%3E", 404, "The world &lt;b&gt; is not installed"),
    ],
)
def test_a_page_that_cannot_be_shown_says_why_and_leads_back(comparison, address, status, message):
    answer = comparison.get(address)
    assert answer.status == status
    assert answer.headers["Content-Type"].startswith("text/html")
    assert message in answer.text
    assert '<a href=".">Go to the list of runs</a>' in answer.text


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("it ends here", "It ends here."),
        ("it ends.", "It ends."),
        ("did you mean toy?", "Did you mean toy?"),
        ("out/run is gone", "out/run is gone."),
    ],
)
def test_a_page_shows_an_error_as_a_sentence(message, sentence):
    assert f">{sentence}</p>" in error_page("runs", message, 404).body


def test_reports_open_in_a_sandbox(comparison):
    answer = comparison.get(f"report?run={comparison.run_id('llm-0')}&run={comparison.run_id('none-0')}")
    assert answer.status == 200
    assert "2 runs on crafter" in answer.text
    assert answer.headers["Content-Security-Policy"] == "sandbox allow-scripts; frame-ancestors 'none'"
    assert "Cross-Origin-Opener-Policy" not in answer.headers


def test_a_new_run_appears_and_a_deleted_one_goes(tmp_path):
    folder = RunFolder(tmp_path)
    assert names(folder) == []
    write_train_run(tmp_path / "group" / "a")
    write_train_run(tmp_path / "b")
    assert names(folder) == ["b", "group/a"]
    (tmp_path / "b" / "run.json").unlink()
    assert names(folder) == ["group/a"]
    assert names(RunFolder(write_train_run(tmp_path / "alone"))) == ["alone"]


def test_the_progress_of_a_run_is_read_as_it_grows(tmp_path):
    run_dir = write_train_run(tmp_path / "run", finished=False)
    folder = RunFolder(tmp_path)
    (run,) = folder.runs()
    assert run.steps == 3000
    assert len(run.lines) == 60
    append(run_dir / "progress.jsonl", [{"phase": "final", "steps": 3050}])
    (run,) = folder.runs()
    assert run.steps == 3050
    assert len(run.lines) == 61
    write_train_run(tmp_path / "run", finished=True)
    (run,) = folder.runs()
    assert run.summary["final"]["score"]["value"] == 20
    assert not run.is_in_progress


def test_lines_are_read_once_and_again_after_a_cut(tmp_path):
    file = tmp_path / "progress.jsonl"
    reader = LineReader(file)
    append(file, [{"k": k} for k in range(3)])
    with open(file, "a") as stream:
        stream.write('{"k": 3')
    assert [line["k"] for line in reader.read()] == [0, 1, 2]
    with open(file, "a") as stream:
        stream.write("}\nnot json\n")
    assert [line["k"] for line in reader.read()] == [0, 1, 2, 3]
    assert reader.num_damaged == 1
    file.write_text("".join(json.dumps({"k": 10 * k}) + "\n" for k in range(9)))  # a resumed run: longer than before
    assert [line["k"] for line in reader.read()] == [0, 10, 20, 30, 40, 50, 60, 70, 80]
    file.write_text('{"k": 1}\n')
    assert [line["k"] for line in reader.read()] == [1]
    file.write_text("")
    assert reader.read() == []


def test_a_run_is_in_progress_while_it_holds_its_lock(tmp_path):
    run_dir = write_train_run(tmp_path / "run", finished=False)
    folder = RunFolder(tmp_path)
    lock = lock_folder(run_dir)
    for name in ("run.json", "progress.jsonl", "ledger.jsonl"):
        os.utime(run_dir / name, (1, 1))  # long ago
    if not os.path.exists("/proc/locks"):
        pytest.skip("only Linux says which files are locked")
    assert folder.runs()[0].is_in_progress
    lock.close()
    assert not folder.runs()[0].is_in_progress
    append(run_dir / "progress.jsonl", [{"phase": "final", "steps": 3050}])
    assert folder.runs()[0].is_in_progress  # a process of another machine or container writes it


def test_the_row_of_a_run_is_built_again_when_it_has_changed(tmp_path):
    run_dir = write_train_run(tmp_path / "run", finished=False)
    summary = write_train_run(tmp_path / "other") / "summary.json"
    folder, built = RunFolder(tmp_path), []

    def row() -> str:
        run = next(run for run in folder.runs() if run.name == "run")
        return str(run.row(lambda run: built.append(run.is_running) or run_pages._row(run)))

    first = row()
    assert row() == first
    append(run_dir / "progress.jsonl", [{"phase": "original", "steps": 123_456_789}])
    assert row() != first
    lock = lock_folder(run_dir)
    assert "in progress" in row()
    assert built == [False, False, True]
    shutil.copy(summary, run_dir / "summary.json")
    assert "finished" in row()
    lock.close()
    assert len(built) == 4


def test_looking_at_a_run_does_not_disturb_one_that_starts(tmp_path):
    run_dir = write_train_run(tmp_path / "run", finished=False)
    lock_folder(run_dir).close()
    folder = RunFolder(tmp_path)
    folder.runs()
    lock_folder(run_dir).close()  # would raise if the studio held it


def test_links_are_not_followed(tmp_path):
    outside = write_train_run(tmp_path / "outside" / "secret")
    inside = tmp_path / "inside"
    (inside / "linked-file").mkdir(parents=True)
    (inside / "linked-file" / "run.json").symlink_to(outside / "run.json")
    (inside / "linked-run").symlink_to(outside)
    (inside / "linked-folder").symlink_to(outside.parent)
    own = write_train_run(inside / "own", finished=False)
    for name in ("progress.jsonl", "ledger.jsonl", "cycles/1/levels.json"):
        target = outside / name
        target.write_text(target.read_text().replace("wood", "SECRET"))
        (own / name).unlink()
        (own / name).symlink_to(target)
    (own / "requests").symlink_to(outside)
    with serve(inside) as client:
        assert names(client.studio.folder) == ["own"]
        assert "SECRET" not in client.get(f"run?id={client.run_id('own')}").text
        assert "secret" not in client.get("").text
        assert client.get("designer").text.count("Request 1") == 0


def test_a_cycles_folder_that_leads_out_is_not_read(tmp_path):
    outside = write_train_run(tmp_path / "outside", word="SECRET")
    own = write_train_run(tmp_path / "inside" / "own", finished=False)
    for file in sorted((own / "cycles").rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    (own / "cycles").rmdir()
    (own / "cycles").symlink_to(outside / "cycles")
    with serve(tmp_path / "inside") as client:
        assert "SECRET" not in client.get(f"run?id={client.run_id('own')}").text
        assert "SECRET" not in client.get("").text


def test_a_link_to_itself_costs_one_run_at_most(tmp_path):
    write_train_run(tmp_path / "good", "none", 0, 15.0)
    bad = write_train_run(tmp_path / "bad", "none", 1, 15.0)
    shutil.rmtree(bad / "cycles", ignore_errors=True)
    (bad / "cycles").symlink_to("cycles")
    assert "good" in names(RunFolder(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["run.json", "progress.jsonl", "summary.json", "ledger.jsonl"])
def test_special_files_cost_one_run_at_most(tmp_path, name, kind):
    run_dir = write_train_run(tmp_path / "bad", finished=False)
    (run_dir / name).unlink(missing_ok=True)
    make_special_file(run_dir / name, kind)
    write_train_run(tmp_path / "good")
    with serve(tmp_path) as client:
        page = client.get("")
        assert page.status == 200
        assert "good" in page.text
        for run in client.studio.folder.runs():
            assert client.get(f"run?id={run.id}").status == 200


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 9, "request": {}}', "[" * 3000])
def test_a_damaged_run_is_listed_with_the_reason(tmp_path, text):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text(text)
    with serve(tmp_path) as client:
        page = client.get("").text
        assert "bad" in page
        assert 'class="problem"' in page


def test_evaluations_of_language_models_are_not_listed(tmp_path):
    write_train_run(tmp_path / "run")
    request = {"world": "crafter", "policy": "llm", "seed": 0}
    write_json(tmp_path / "played" / "run.json", {"format": 2, "request": request})
    folder = RunFolder(tmp_path)
    assert names(folder) == ["run"]
    assert folder.unreadable == {}


def test_evaluations_of_language_models_are_read_once(tmp_path, monkeypatch):
    request = {"world": "crafter", "policy": "llm", "seed": 0}
    write_json(tmp_path / "played" / "run.json", {"format": 2, "request": request})
    read = []
    monkeypatch.setattr("envgen.studio.runs.read_entry", lambda folder: read.append(folder) or read_entry(folder))
    folder = RunFolder(tmp_path)
    assert names(folder) == names(folder) == []
    assert len(read) == 1
    shutil.rmtree(tmp_path / "played")
    write_train_run(tmp_path / "played")
    assert names(folder) == ["played"]


def problems(client) -> list[str]:
    """The warnings on the page of the only run."""
    (run,) = client.studio.folder.runs()
    page = client.get(f"run?id={run.id}").text
    return re.findall(r'<li class="untrusted">(.*?)</li>', page.partition('id="run-problems"')[2])


@pytest.mark.parametrize(
    ("damaged", "changed"), [("cycles/1/levels.json", "progress.jsonl"), ("summary.json", "cycles/2/evaluation.json")]
)
def test_a_warning_stays_until_its_file_changes(tmp_path, damaged, changed):
    run_dir = write_train_run(tmp_path / "cycles=2,seed=0")
    text = (run_dir / damaged).read_text()
    (run_dir / damaged).write_text("{")
    with serve(tmp_path) as client:
        (problem,) = problems(client)
        assert f"cannot read {run_dir / damaged}" in problem
        os.utime(run_dir / changed)
        assert problems(client) == [problem]
        (run_dir / damaged).write_text(text)
        assert problems(client) == []


def test_damaged_lines_of_the_progress_are_counted(tmp_path):
    run_dir = write_train_run(tmp_path / "run", finished=False)
    with serve(tmp_path) as client:
        assert problems(client) == []
        with open(run_dir / "progress.jsonl", "a") as stream:
            stream.write("damaged\n")
        assert problems(client) == ["progress.jsonl: 1 of 61 lines is damaged and left out"]
        with open(run_dir / "progress.jsonl", "a") as stream:
            stream.write("[]\n")
        assert problems(client) == ["progress.jsonl: 2 of 62 lines are damaged and left out"]
        append(run_dir / "progress.jsonl", [{"phase": "final", "steps": 3050}])
        assert problems(client) == ["progress.jsonl: 2 of 63 lines are damaged and left out"]


def test_a_file_that_is_read_again_and_again_gives_one_warning(tmp_path):
    run_dir = write_train_run(tmp_path / "run")
    (run_dir / "ledger.jsonl").write_text("damaged\n")
    folder = RunFolder(tmp_path)
    for _ in range(3):
        (run,) = folder.runs()
        run.read_lines("ledger.jsonl")
    assert run.problems == ["ledger.jsonl: 1 of 1 line is damaged and left out"]


def test_one_thread_at_a_time_reads_a_run(tmp_path, monkeypatch):
    """Two that read a growing file at once would both add its new lines."""
    write_train_run(tmp_path / "run", finished=False)
    held = []

    def is_held(lock) -> bool:
        if not lock.acquire(blocking=False):
            return True
        lock.release()
        return False

    with serve(tmp_path) as client, ThreadPoolExecutor(1) as other:

        def run_parts(run, maps_of):
            held.append(other.submit(is_held, client.studio.folder.lock).result())
            return {}

        monkeypatch.setattr(run_pages, "run_parts", run_parts)
        stream = client.studio.events(Request({"view": ["run"], "id": [client.run_id("run")]}, {}))
        stream.parts()
    assert held == [True]


def test_the_adaptation_of_a_run_changes_with_its_results(tmp_path, monkeypatch):
    monkeypatch.setattr("envgen.studio.run_pages.PART_SECONDS", {})
    run_dir = write_train_run(tmp_path / "run", finished=False)
    with serve(tmp_path) as client:

        def adaptation():
            page = client.get(f"run?id={client.run_id('run')}").text
            return page.partition('id="run-adaptation"')[2].partition('id="run-levels"')[0]

        start = adaptation()
        assert "Levels of each cycle" in start
        write_cycle(run_dir / "cycles" / "2", 2, 60.0, "wood")
        after_cycle = adaptation()
        write_json(run_dir / "summary.json", {"final": evaluation(90.0)})
        after_run = adaptation()
        assert len({start, after_cycle, after_run}) == 3


def test_hostile_texts_are_escaped(tmp_path):
    for name, write in (("train", write_train_run), ("coevolve", write_coevolve_run)):
        run_dir = write(tmp_path / name, finished=False)
        for file in run_dir.rglob("*.json*"):
            if file.name != "run.json":
                lines = [json.loads(line) for line in file.read_text().splitlines() if line]
                file.write_text("".join(json.dumps(make_hostile(line)) + "\n" for line in lines))
    request = {"world": HOSTILE, "designer": {"name": HOSTILE}, "seed": 0, "plan": {"cycles": HOSTILE}}
    write_json(tmp_path / "hostile" / "run.json", {"format": 2, "request": request})
    with serve(tmp_path) as client:
        pages = [client.get("").text, client.get("designer").text]
        pages += [client.get(f"run?id={run.id}").text for run in client.studio.folder.runs()]
        pages += [client.get(f"compare?run={run.id}").text for run in client.studio.folder.runs()]
        assert len(pages) == 8
        for page in pages:
            assert "<script>window" not in page
            assert "<img src=x" not in page
            assert "<svg onload" not in page
        assert any("window.hacked" in page for page in pages)
