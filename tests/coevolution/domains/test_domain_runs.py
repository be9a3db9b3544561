"""Runs of the co-evolution on `travel` and `two_hop` with tiny models: an interrupted run resumes exactly."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from envgen.coevolution import pretrain_data
from envgen.coevolution.domains.registry import load_domain
from envgen.coevolution.pretraining import pretrain
from envgen.coevolution.settings import ModelSize, PretrainSettings
from run_results import progress_without_times

RUN = """
import os, signal, sys
from pathlib import Path
from envgen.coevolution.domains.registry import load_domain
from envgen.coevolution.settings import AgentSettings, CoevolutionPlan
from envgen.coevolution.train import CoevolveRequest, coevolve

name, agent, environment, folder, kill = sys.argv[1:]
plan = CoevolutionPlan(
    rollouts=192, tasks_per_step=8, num_base_tasks=8, num_eval_tasks=8, eval_every=2, num_variations=2, max_attempts=1
)
request = CoevolveRequest(
    proposer="uniform", agent=agent, environment=environment, plan=plan,
    agent_settings=AgentSettings(max_new_tokens=6),
)

def on_progress(line):
    if kill == "yes" and line["step"] == 2:
        os.kill(os.getpid(), signal.SIGKILL)

coevolve(Path(folder), load_domain(name), request, on_progress=on_progress, save_every=0)
"""


def run(*arguments: str) -> int:
    return subprocess.run([sys.executable, "-c", RUN, *arguments], check=False, timeout=600).returncode


@pytest.mark.slow
@pytest.mark.parametrize("name", ["travel", "two_hop"])
def test_a_killed_run_resumes_exactly(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pretrain_data, "MAX_NEW_TOKENS", 4)
    monkeypatch.setattr(pretrain_data, "NUM_EVAL_PROMPTS", 4)
    settings = PretrainSettings(
        agent_steps=8, environment_steps=8, batch_size=8, num_tokenizer_specs=200, num_held_out=8
    )  # fmt: skip
    size = ModelSize(width=32, num_layers=2, num_heads=2, mlp_width=64, vocab_size=600)
    agent, environment = map(str, pretrain(load_domain(name), tmp_path / "models", 0, size, settings))
    whole, killed = str(tmp_path / "whole"), str(tmp_path / "killed")
    assert run(name, agent, environment, whole, "no") == 0
    assert run(name, agent, environment, killed, "yes") == -signal.SIGKILL
    assert run(name, agent, environment, killed, "no") == 0
    assert stores(tmp_path / "whole") == stores(tmp_path / "killed")
    assert "tasks.jsonl" in stores(tmp_path / "whole")
    assert progress_without_times(tmp_path / "whole") == progress_without_times(tmp_path / "killed")


def stores(folder: Path) -> dict[str, bytes]:
    names = ("tasks.jsonl", "agent_traces.jsonl", "environment_specs.jsonl")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
