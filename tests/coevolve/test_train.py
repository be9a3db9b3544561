"""The co-evolution as a user runs it: counted, resumable, and learning."""

import json

import numpy as np
import pytest
from toy import Toy

from envgen.coevolve.settings import PROPOSERS, AgentSettings, Curriculum, EnvironmentSettings, Plan
from envgen.coevolve.train import CoevolveRequest, coevolve
from envgen.runs.compare import compare
from envgen.runs.store import read_progress

PLAN = Plan(rollouts=256, tasks=8, base=8, test=12, test_every=2)


def asked(models, proposer="genenv", **changes):
    agent, environment = map(str, models)
    settings = {
        "curriculum": Curriculum(filter=None),
        "plan": PLAN,
        "learning": AgentSettings(longest=4, learning_rate=1e-3),
    }
    settings["environment_learning"] = EnvironmentSettings(longest=48, learning_rate=1e-3)
    return CoevolveRequest(proposer=proposer, agent=agent, environment=environment, **{**settings, **changes})


@pytest.mark.parametrize("proposer", PROPOSERS)
def test_every_proposer_spends_the_same_rollouts_and_accounts_for_them(models, tmp_path, proposer):
    summary = coevolve(tmp_path / "run", Toy(), asked(models, proposer))
    lines = list(read_progress(tmp_path / "run"))
    assert 256 <= summary.counts["rollouts"] < 256 + 4 * 64  # replaced groups may go beyond
    assert proposer == "dapo" or summary.counts["rollouts"] == 256
    assert [line["rollouts"] for line in lines] == sorted(line["rollouts"] for line in lines)
    writes = proposer in ("genenv", "genenv-grpo", "random", "static")
    assert (summary.counts["environment_tokens"] > 0) == writes
    for line in lines[1:]:
        assert set(line["refused"]) == {"malformed", "unsolvable", "held out", "duplicate"}
        assert 0 <= line["success"] <= 1
    asked_tasks = [json.loads(text) for text in (tmp_path / "run" / "tasks.jsonl").read_text().splitlines()]
    assert len({task["spec"] for task in asked_tasks}) == len(asked_tasks)
    held_out = {task.spec.text for task in Toy().held_out_tasks(12)}
    assert not held_out & {task["spec"] for task in asked_tasks}


def test_the_agents_replies_get_better(models, tmp_path):
    plan = Plan(rollouts=8192, tasks=32, base=64, test=30, test_every=40)
    learning = AgentSettings(longest=4, learning_rate=3e-3, group=16)
    coevolve(tmp_path / "run", Toy(), asked(models, "uniform", plan=plan, learning=learning))
    success = [line["success"] for line in read_progress(tmp_path / "run") if line["step"]]
    assert np.mean(success[-8:]) > np.mean(success[:8]) + 0.1


def test_a_run_that_was_cut_off_ends_where_it_would_have_ended(models, tmp_path):
    whole = coevolve(tmp_path / "whole", Toy(), asked(models))

    class Cut(Exception):
        pass

    def cut(line):
        if line["step"] in (1, 3):
            raise Cut

    for attempt in range(3):
        try:
            found = _saving_always(tmp_path / "cut", asked(models), cut if attempt < 2 else lambda line: None)
        except Cut:
            continue
    assert found.curve == whole.curve
    assert found.counts == whole.counts
    for name in ("tasks.jsonl", "d_train.jsonl", "d_env.jsonl"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def _saving_always(folder, request, show):
    return coevolve(folder, Toy(), request, show=show, save_every=0)


def test_runs_are_compared_with_uniform_specs(models, tmp_path):
    for proposer in ("uniform", "random"):
        for seed in (0, 1):
            coevolve(tmp_path / f"{proposer}-{seed}", Toy(), asked(models, proposer, seed=seed))
    (table,) = compare([tmp_path]).tables
    assert [group.title for group in table.groups] == ["uniform (n=2)", "random (n=2)"]
    assert table.warnings == ()
    page = compare([tmp_path]).markdown()
    assert "| proposer | seeds | before % | final % |" in page
    assert "which 1" in page
    assert "loud yes" in page
