"""The loop: what a run trains in, writes and tells the designer, and that it resumes exactly after any interruption."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from loop_worker import PLAN, SETTINGS, main

import envgen
from envgen.curriculum.loop import prepare, train
from envgen.curriculum.plan import PlanError, TrainingPlan
from envgen.designers.baselines import NoDesigner
from envgen.designers.designer import Brief, Cycle, Designer, DesignError, Proposal, ProposedLevel
from envgen.runs.checkpoint import CheckpointError, load_latest, save_checkpoint
from envgen.runs.store import RunError, read_progress, read_request
from envgen.worlds.crafter.world import Crafter
from fake_llm_server import FakeLlmServer, hang_response
from forked import forked, run_forked
from run_results import assert_same_run, assert_same_weights, progress_without_times, results_of

PAGE = Path(__file__).parents[2] / "docs" / "envgen.md"
WORKER = Path(__file__).with_name("loop_worker.py")
DESIGNS = [
    json.dumps({"levels": [{"purpose": f"{name}, cycle {k}", "skills": ["collect_wood"], "level": {"trees": name}}
                           for name in ("common", "very common")]})
    for k in (1, 2)
]  # fmt: skip


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    main(folder)
    return folder


# --- what a run does and writes


def test_cycle_trains_in_the_levels_then_in_the_original(finished_run):
    lines = list(read_progress(finished_run))
    steps: dict[str, int] = {}
    for line in lines:
        steps[line["phase"]] = steps.get(line["phase"], 0) + 32
    assert steps == {"cycle 1: levels": 64, "cycle 1: original": 64, "cycle 2: levels": 64, "cycle 2: original": 64,
                     "final": 64}  # fmt: skip
    assert [len(line["levels"]) for line in lines] == [2, 2, 1, 1, 2, 2, 1, 1, 1, 1]
    assert lines[-1]["steps"] == PLAN.total_steps == 320


def ranking_steps(folder: Path) -> int:
    return sum(json.loads(file.read_text())["ranking_steps"] for file in folder.glob("cycles/*/levels.json"))


def test_run_directory_holds_levels_audits_evaluations_and_summary(finished_run):
    design = json.loads((finished_run / "cycles/1/levels.json").read_text())
    levels = design["proposal"]["levels"]
    assert [len(proposed["skills"]) for proposed in levels] == [1, 1]
    assert all(proposed["chain"]["skill"] == proposed["skills"][0] for proposed in levels if "chain" in proposed)
    assert all("teach" in proposed["purpose"] for proposed in levels)
    assert all(audit["verdict"] in ("good", "doubtful") for audit in design["audits"])
    assert "within 20 steps" in design["audits"][0]["findings"][0]
    evaluation = json.loads((finished_run / "cycles/1/evaluation.json").read_text())
    assert len(evaluation["cycle"]["success_rates"]) == 22
    assert evaluation["evaluation"]["episodes"] == 4
    summary = json.loads((finished_run / "summary.json").read_text())
    assert summary["steps"] == {"levels": 128, "original": 192, "ranking": ranking_steps(finished_run)}
    assert ranking_steps(finished_run) > 0  # the expert measures stages
    assert summary["final"]["episodes"] == 4
    assert summary["llm"]["calls"] == 0
    assert summary["seconds"] > 0
    request, _ = read_request(finished_run)
    assert request["learner"]["name"] == "ppo"
    assert request["learner"]["num_envs"] == 4


def field_names(value: Any) -> set[str]:
    """The names of all fields below a value. Skills, the settings of levels and those of chains are data."""
    if isinstance(value, list):
        return set().union(*map(field_names, value))
    if not isinstance(value, dict) or "advance_at" in value:
        return set()
    nested = [child for name, child in value.items() if name != "level"]
    return set().union(value.keys() - {skill.name for skill in Crafter().skills}, *map(field_names, nested))


def test_the_documentation_names_every_field_of_a_run_directory(finished_run):
    page = PAGE.read_text()
    results = [
        json.loads(file.read_text()) for file in (*finished_run.glob("cycles/*/*.json"), finished_run / "summary.json")
    ]
    names = field_names([*results, *read_progress(finished_run)])
    assert {"explained_variance", "env_steps", "stage", "ranking_steps", "standard_error", "reply_tokens"} <= names
    assert {name for name in names if f"`{name}`" not in page} == set()


def test_the_documented_program_reads_a_run(finished_run, tmp_path, monkeypatch, capsys):
    program = next(
        code for code in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S) if "curve" in code
    )
    shutil.copytree(finished_run, tmp_path / "out" / "mine")
    monkeypatch.chdir(tmp_path)
    variables: dict[str, Any] = {}
    exec(program, variables)
    assert len(variables["rates"]) == 22
    assert {steps for steps, _ in variables["curve"]} <= set(range(32, 321, 32))
    assert (
        f"crafter expert 1 ({variables['summary']['final']['score']['value']}, None, None)" in capsys.readouterr().out
    )


def test_finished_run_is_not_repeated(finished_run):
    before = {file: file.stat().st_mtime_ns for file in finished_run.rglob("*.json")}
    lines = []
    main(finished_run, on_progress=lines.append)
    assert lines == []
    assert before == {file: file.stat().st_mtime_ns for file in finished_run.rglob("*.json")}


def test_run_does_not_resume_with_another_plan(finished_run):
    with pytest.raises(RunError, match=r"was started with plan\.cycles 2 \(now 3\);"):
        main(finished_run, plan=PLAN.model_copy(update={"cycles": 3}))


@pytest.mark.parametrize("designer", ["none", "random", "alpha", "fixed", "easy-to-hard", "adversarial"])
def test_every_designer_completes_a_run(tmp_path, designer):
    summary = main(tmp_path, designer=designer)
    designs = [json.loads((tmp_path / f"cycles/{k}/levels.json").read_text())["proposal"]["levels"] for k in (1, 2)]
    count = 0 if designer == "none" else 2
    assert [len(levels) for levels in designs] == [count, count]
    assert (designs[0] == designs[1]) == (designer in ("none", "fixed"))
    assert summary.steps["levels"] == 64 * count
    training_steps = {"easy-to-hard": 4 * 32, "adversarial": 8 * 32}  # of scoring agents
    assert summary.steps["ranking"] >= training_steps.get(designer, 0)
    assert (summary.steps["ranking"] > 0) == (designer in ("fixed", "easy-to-hard", "adversarial"))


def test_mixed_plan_trains_levels_and_original_side_by_side(tmp_path):
    plan = TrainingPlan(**{**PLAN.model_dump(), "mixing": "mixed", "ratio": 1.0, "cycles": 1})
    main(tmp_path, plan=plan)
    lines = list(read_progress(tmp_path))
    assert {line["phase"] for line in lines} == {"cycle 1: mixed", "final"}
    assert len(lines[0]["levels"]) == 3  # two levels and the original


def test_plan_without_training_has_a_summary(tmp_path):
    summary = main(tmp_path, plan=PLAN.model_copy(update={"cycles": 0, "final_steps": 0}))
    assert summary.training is None
    assert summary.steps == {"levels": 0, "original": 0, "ranking": 0}


# --- what is refused


def test_an_annealed_run_without_steps_is_resumed(tmp_path):
    def run() -> envgen.TrainingRun:
        return envgen.train(
            "crafter", "none", plan={"cycles": 0, "final_steps": 0, "episodes": 2}, learner_preset="far",
            hyperparameters={"num_envs": 2}, folder=tmp_path, verbose=False,
        )  # fmt: skip

    assert run().summary == run().summary


def test_without_a_designer_the_number_of_levels_needs_no_environments():
    prepared = prepare(Crafter(), NoDesigner(), PLAN, observation="symbols", seed=0, learner_settings={"num_envs": 1})
    assert prepared.request["designer"] == {"name": "none"}


def test_more_levels_than_environments_are_refused_before_training(tmp_path):
    with pytest.raises(PlanError, match="levels is 5, but only 4 environments can play levels; raise num_envs"):
        main(tmp_path / "run", plan=PLAN.model_copy(update={"levels": 5}))
    assert not (tmp_path / "run").exists()


class BrokenDesigner(Designer):
    name = "broken"

    def __init__(self, proposal):
        self.proposal = proposal

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        return self.proposal


@pytest.mark.parametrize(
    ("proposal", "message"),
    [
        (None, r"the designer broken returned None; design\(\) must return a Proposal"),
        ([{}], r"returned \[\{\}\]; design\(\) must return a Proposal"),
        (
            Proposal(levels=(ProposedLevel(level=Crafter.Level(), skills=("collect_wod",)),)),
            "a level for a skill: 'collect_wod' is not one of .* did you mean 'collect_wood'",
        ),
    ],
)
def test_invalid_proposal_is_refused(tmp_path, proposal, message):
    with pytest.raises(DesignError, match=message):
        train(tmp_path, Crafter(), BrokenDesigner(proposal), PLAN, learner_settings=SETTINGS)


def test_negative_seed_is_refused_before_training(tmp_path):
    with pytest.raises(PlanError, match="seed must be from 0 to 2147483647, not -1"):
        train(tmp_path / "run", Crafter(), BrokenDesigner(None), PLAN, seed=-1)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary", {"steps": 3}, "is damaged"),
        ("cycles/1/levels", {}, "is damaged: it has no 'proposal'"),
        ("cycles/2/levels", {"proposal": {"levels": [{"level": {"trees": 5}}]}, "audits": []}, "is damaged"),
        ("cycles/1/evaluation", {"evaluation": [], "cycle": None}, "is damaged"),
        ("cycles/1/evaluation", [], "is damaged"),
    ],
)
def test_damaged_results_are_named(finished_run, tmp_path, name, content, message):
    folder = shutil.copytree(finished_run, tmp_path / "run")
    (folder / f"{name}.json").write_text(json.dumps(content))
    with pytest.raises(RunError, match=rf"{name}\.json {message}.*; restore the file"):
        main(folder)


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_progress_that_does_not_fit_the_checkpoint_is_refused(finished_run, tmp_path, damage):
    """Evaluations and the summary are computed from it, and would be wrong."""
    folder = shutil.copytree(finished_run, tmp_path / "run")
    (folder / "summary.json").unlink()
    file = folder / "progress.jsonl"
    if damage == "missing":
        file.unlink()
    else:
        file.write_text(file.read_text().replace('"episodes": ', '"episodes": 1', 1))
    with pytest.raises(CheckpointError, match=r"progress\.jsonl.*; restore the file"):
        main(folder)
    assert not (folder / "summary.json").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("agent", {}), ("agent", 3), ("finished_phases", "final"), ("current_phase", 7), ("finished_phases", None)],
)
def test_a_checkpoint_that_does_not_fit_is_refused(finished_run, tmp_path, name, value):
    folder = shutil.copytree(finished_run, tmp_path / "run")
    checkpoint = load_latest(folder / "checkpoints")
    assert checkpoint is not None
    save_checkpoint(folder / "checkpoints", checkpoint.arrays, {**checkpoint.values, name: value})
    message = r"checkpoint \d+ in .* does not fit this run: .*; restore the files of the run, and code of yours"
    with pytest.raises(CheckpointError, match=message):
        main(folder)


# --- interruptions


def test_killed_run_resumes_to_the_same_result(finished_run, tmp_path):
    rng, kills = random.Random(4), 0
    for _ in range(4):
        before = len(list(read_progress(tmp_path)))
        with forked(main, tmp_path) as process:
            kill_at, deadline = before + rng.randint(0, 2), time.monotonic() + 120
            while process.is_alive() and len(list(read_progress(tmp_path))) <= kill_at and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.3))  # into training, saving, an evaluation or the next design
            kills += process.is_alive()
    assert kills >= 2
    assert run_forked(main, tmp_path) == 0
    assert_same_run(finished_run, tmp_path)


def test_ctrl_c_saves_and_the_run_resumes_exactly(finished_run, tmp_path):
    with forked(main, tmp_path) as process:
        while process.is_alive() and len(list(read_progress(tmp_path))) < 3:
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGINT)
        process.join()
    assert process.exitcode != 0
    assert 3 <= len(list(read_progress(tmp_path))) < 10
    checkpoint = load_latest(tmp_path / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.values["progress_bytes"] == (tmp_path / "progress.jsonl").stat().st_size  # nothing is lost
    assert run_forked(main, tmp_path) == 0
    assert_same_run(finished_run, tmp_path)


def test_run_killed_during_a_call_repeats_only_that_call(tmp_path):
    with FakeLlmServer(DESIGNS) as server:
        uninterrupted = main(tmp_path / "uninterrupted", server.url)
        assert len(server.requests) == uninterrupted.llm["calls"] == 2
    with FakeLlmServer([DESIGNS[0], hang_response, DESIGNS[1]]) as server:
        with forked(main, tmp_path / "killed", server.url) as process:
            while process.is_alive() and len(server.requests) < 2:
                time.sleep(0.01)
        assert run_forked(main, tmp_path / "killed", server.url) == 0
        assert len(server.requests) == 3
        assert server.requests[1].body == server.requests[2].body
    summary = json.loads((tmp_path / "killed" / "summary.json").read_text())
    assert summary["llm"]["calls"] == 3  # the interrupted call may have been charged
    assert summary["final"] == uninterrupted.final.model_dump(mode="json")


def test_results_do_not_depend_on_the_hash_seed(tmp_path):
    """Sets of strings are iterated in another order in each process; no result may depend on it."""
    designers = ("expert", "alpha")
    for hash_seed in ("1", "2"):
        command = [sys.executable, str(WORKER), str(tmp_path / hash_seed), *designers]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": hash_seed})
    for designer in designers:
        assert_same_run(*(tmp_path / hash_seed / designer for hash_seed in ("1", "2")))


# --- extension


def test_added_cycles_equal_a_new_run_if_there_was_no_final_phase(tmp_path):
    short = PLAN.model_copy(update={"cycles": 1, "final_steps": 0})
    long = PLAN.model_copy(update={"cycles": 2, "final_steps": 64})
    main(tmp_path / "extended", plan=short)
    summary = main(tmp_path / "extended", plan=long, extend=True)
    assert summary == main(tmp_path / "extended", plan=long)
    new = main(tmp_path / "new", plan=long)
    ignored = {"seconds": 0.0}
    assert summary.model_copy(update=ignored) == new.model_copy(update=ignored)
    assert_same_weights(tmp_path / "new", tmp_path / "extended")
    entry = json.loads((tmp_path / "extended" / "run.json").read_text())
    assert entry["extended_from"] == [{"plan.cycles": 1, "plan.final_steps": 0}]
    assert progress_without_times(tmp_path / "new") == progress_without_times(tmp_path / "extended")


def test_added_final_steps_are_a_phase_of_their_own(tmp_path):
    one_cycle = PLAN.model_copy(update={"cycles": 1})
    first = main(tmp_path, plan=one_cycle)
    before = results_of(tmp_path)[1]
    longer = one_cycle.model_copy(update={"cycles": 2, "final_steps": 128})
    summary = main(tmp_path, plan=longer, extend=True)
    lines = progress_without_times(tmp_path)
    assert lines[: len(before)] == before
    phases = list(dict.fromkeys(line["phase"] for line in lines))
    assert phases == [
        "cycle 1: levels",
        "cycle 1: original",
        "final",
        "cycle 2: levels",
        "cycle 2: original",
        "final 2",
    ]
    assert lines[-1]["steps"] == longer.total_steps
    assert summary.steps == {"levels": 128, "original": 256, "ranking": ranking_steps(tmp_path)}
    assert summary.final != first.final
    with pytest.raises(RunError, match=r"plan\.final_steps 128 \(now 64\)"):
        main(tmp_path, plan=one_cycle, extend=True)


# --- the designer


def test_designer_is_told_how_its_levels_did(tmp_path):
    with FakeLlmServer(DESIGNS) as server:
        main(tmp_path, server.url)
        messages = server.requests[1].body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == DESIGNS[0]
    assert '{"trees": "very common"}' in messages[2]["content"]
    assert "collect_diamond: 0.0% ± " in messages[2]["content"]


def test_run_directory_contains_no_key(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    reply_with_key = json.dumps({"levels": "sk-planted-0123456789"})
    with FakeLlmServer([reply_with_key, *DESIGNS]) as server:
        main(tmp_path, server.url.replace("//", "//user:sk-hidden-987654@"))
    assert server.requests[0].headers["authorization"] != ""
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert b"sk-planted" not in file.read_bytes(), file
            assert b"sk-hidden" not in file.read_bytes(), file
