"""The co-evolution as a user runs it: counted, resumable, and learning."""

import json
import shutil

import numpy as np
import pytest
from toy import Toy

from envgen.coevolve.begin import PROPOSERS, Request, coevolve
from envgen.coevolve.settings import AgentSettings, EnvironmentSettings, Plan
from envgen.runs.store import read_progress

PLAN = Plan(rollouts=256, tasks=8, base=16, test=40, test_every=2)


def asked(models, proposer="genenv", **changes):
    agent, environment = map(str, models)
    settings = {"plan": PLAN, "learning": AgentSettings(longest=4, learning_rate=3e-3)}
    settings["environment_learning"] = EnvironmentSettings(longest=48, learning_rate=1e-3)
    return Request(proposer=proposer, agent=agent, environment=environment, **{**settings, **changes})


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
    held_out = {task.spec.text for task in Toy().test(40)}
    assert not held_out & {task["spec"] for task in asked_tasks}
