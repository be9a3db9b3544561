"""The loop: what a run trains in, writes down and shows the designer, and that nothing can break it in two."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from looped import PLAN, main

from envgen.curriculum.plan import TrainingPlan
from envgen.runs.checkpoint import load_latest
from envgen.runs.store import RunError, read_progress

sys.path.insert(0, str(Path(__file__).parents[1] / "designers" / "chat"))
from loopback import Loopback, hang

LOOPED = Path(__file__).with_name("looped.py")
TIMES = {"steps_per_second", "seconds"}
DESIGNS = [
    json.dumps({"levels": [{"purpose": f"{name}, cycle {k}", "skills": ["collect_wood"], "level": {"trees": name}}
                           for name in ("common", "very common")]})
    for k in (1, 2)
]  # fmt: skip


def story(folder: Path) -> list:
    """Everything a run wrote that does not tell the time."""

    def timeless(value):
        if isinstance(value, dict):
            return {name: timeless(inner) for name, inner in value.items() if name not in TIMES}
        return [timeless(inner) for inner in value] if isinstance(value, list) else value

    files = sorted(folder.rglob("*.json"))
    results = [[str(f.relative_to(folder)), json.loads(f.read_text())] for f in files if "checkpoints" not in f.parts]
    return timeless([results, list(read_progress(folder))])


def same(one: Path, other: Path) -> None:
    assert story(one) == story(other)
    first, second = load_latest(one / "checkpoints"), load_latest(other / "checkpoints")
    assert first
    assert second
    assert first.arrays["agent"].keys() == second.arrays["agent"].keys()
    for name, array in first.arrays["agent"].items():
        np.testing.assert_array_equal(array, second.arrays["agent"][name], err_msg=name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    main(folder)
    return folder


def test_a_cycle_trains_in_the_levels_then_in_the_original(whole):
    lines = list(read_progress(whole))
    spent: dict[str, int] = {}
    for line in lines:
        spent[line["phase"]] = spent.get(line["phase"], 0) + 32
    assert spent == {"cycle 1: levels": 64, "cycle 1: original": 64, "cycle 2: levels": 64, "cycle 2: original": 64,
                     "final": 64}  # fmt: skip
    assert [len(line["levels"]) for line in lines] == [2, 2, 1, 1, 2, 2, 1, 1, 1, 1]
    assert lines[-1]["steps"] == PLAN.total_steps == 320


def test_a_run_says_what_was_designed_why_and_what_came_of_it(whole):
    told = json.loads((whole / "cycles/1/levels.json").read_text())
    assert [one["skills"] for one in told["proposal"]["levels"]] == [["collect_wood"], ["collect_sapling"]]
    assert all("teach" in one["purpose"] for one in told["proposal"]["levels"])
    assert all(verdict["word"] in ("good", "doubtful") for verdict in told["verdicts"])
    assert "within 20 steps" in told["verdicts"][0]["facts"][0]
    shown = json.loads((whole / "cycles/1/evaluation.json").read_text())
    assert len(shown["cycle"]["skills"]) == 22
    assert shown["evaluation"]["episodes"] == 4
    summary = json.loads((whole / "summary.json").read_text())
    assert summary["steps"] == {"levels": 128, "original": 192, "ranking": 0}
    assert summary["final"]["episodes"] == 4
    assert summary["llm"]["calls"] == 0
    assert summary["seconds"] > 0


def test_a_finished_run_is_not_done_again(whole):
    before = {file: file.stat().st_mtime_ns for file in whole.rglob("*.json")}
    heard = []
    main(whole, show=heard.append)
    assert heard == []
    assert before == {file: file.stat().st_mtime_ns for file in whole.rglob("*.json")}


def test_a_run_is_not_gone_on_with_under_another_plan(whole):
    with pytest.raises(RunError, match="was begun with plan"):
        main(whole, plan=PLAN.model_copy(update={"cycles": 3}))


def test_killed_at_random_moments_it_ends_where_it_would_have_ended(whole, tmp_path):
    chance, kills = random.Random(4), 0
    command = [sys.executable, str(LOOPED), str(tmp_path)]
    for _ in range(4):
        before = len(list(read_progress(tmp_path)))
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        until, patience = before + chance.randint(0, 2), time.monotonic() + 120
        while process.poll() is None and len(list(read_progress(tmp_path))) <= until and time.monotonic() < patience:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.3))  # into training, saving, an evaluation or the next design
        if process.poll() is None:
            process.kill()
            kills += 1
        process.communicate()
    assert kills >= 2
    subprocess.run(command, check=True, capture_output=True)
    same(whole, tmp_path)


def test_ctrl_c_saves_and_goes_on_exactly(whole, tmp_path):
    command = [sys.executable, str(LOOPED), str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and len(list(read_progress(tmp_path))) < 3:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode != 0
    assert 3 <= len(list(read_progress(tmp_path))) < 10
    last = load_latest(tmp_path / "checkpoints")
    assert last is not None
    assert last.values["progress_bytes"] == (tmp_path / "progress.jsonl").stat().st_size  # nothing is lost
    subprocess.run(command, check=True, capture_output=True)
    same(whole, tmp_path)


def test_killed_in_the_middle_of_a_call_it_asks_again_and_only_that(tmp_path):
    with Loopback(DESIGNS) as server:
        whole = main(tmp_path / "whole", server.url)
        assert len(server.requests) == whole.llm["calls"] == 2
    with Loopback([DESIGNS[0], hang, DESIGNS[1]]) as server:
        command = [sys.executable, str(LOOPED), str(tmp_path / "killed"), server.url]
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        while process.poll() is None and len(server.requests) < 2:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        subprocess.run(command, check=True, capture_output=True)
        assert len(server.requests) == 3
        assert server.requests[1].body == server.requests[2].body
    summary = json.loads((tmp_path / "killed" / "summary.json").read_text())
    assert summary["llm"]["calls"] == 3  # the one in the middle of which it died may have been charged
    assert summary["final"] == whole.final.model_dump(mode="json")


def test_the_designer_hears_what_its_levels_came_to(tmp_path):
    with Loopback(DESIGNS) as server:
        main(tmp_path, server.url)
        talk = server.requests[1].body["messages"]
    assert [message["role"] for message in talk] == ["user", "assistant", "user"]
    assert talk[1]["content"] == DESIGNS[0]
    assert '{"trees": "very common"}' in talk[2]["content"]
    assert "collect_diamond: 0.0% ± 0.0%" in talk[2]["content"]


def test_no_key_is_in_anything_a_run_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    echo = json.dumps({"levels": "sk-planted-0123456789"})
    with Loopback([echo, *DESIGNS]) as server:
        main(tmp_path, server.url.replace("//", "//user:sk-hidden-987654@"))
    assert server.requests[0].headers["authorization"] != ""
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert b"sk-planted" not in file.read_bytes(), file
            assert b"sk-hidden" not in file.read_bytes(), file


@pytest.mark.parametrize("designer", ["none", "random", "alpha", "fixed", "easy-to-hard", "adversarial"])
def test_every_designer_goes_through_the_whole_loop(tmp_path, designer):
    summary = main(tmp_path, designer=designer)
    levels = [json.loads((tmp_path / f"cycles/{k}/levels.json").read_text()) for k in (1, 2)]
    count = 0 if designer == "none" else 2
    assert [len(told["proposal"]["levels"]) for told in levels] == [count, count]
    assert (levels[0]["proposal"]["levels"] == levels[1]["proposal"]["levels"]) == (designer in ("none", "fixed"))
    assert summary.steps["levels"] == 64 * count
    throwaway = {"easy-to-hard": 4 * 32, "adversarial": 8 * 32}
    assert summary.steps["ranking"] == throwaway.get(designer, 0)


def test_levels_and_original_can_be_trained_in_side_by_side(tmp_path):
    plan = TrainingPlan(**{**PLAN.model_dump(), "mixing": "mixed", "ratio": 1.0, "cycles": 1})
    main(tmp_path, plan=plan)
    lines = list(read_progress(tmp_path))
    assert {line["phase"] for line in lines} == {"cycle 1: mixed", "final"}
    assert len(lines[0]["levels"]) == 3  # two levels and the original


def test_more_levels_than_environments_are_refused_before_the_first_step(tmp_path):
    with pytest.raises(ValueError, match="5 levels do not fit into 4 environments"):
        main(tmp_path / "run", plan=PLAN.model_copy(update={"levels": 5}))
    assert not (tmp_path / "run").exists()
