"""A run that is killed again and again ends as if nobody had touched it, bit for bit."""

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from killed import UPDATES, main

from envgen.agents.ppo import PPO
from envgen.agents.settings import PpoSettings
from envgen.curriculum.trainer import PhaseTrainer, phase_seed
from envgen.runs.checkpoint import load_latest
from envgen.runs.store import Run, read_progress
from envgen.worlds.crafter.world import Crafter

KILLED = Path(__file__).with_name("killed.py")
TIMES = {"steps_per_second", "seconds"}


def lines(folder: Path) -> int:
    return len(list(read_progress(folder)))


@pytest.mark.parametrize("observation", ["symbols", "pixels"])
def test_killed_at_random_moments_it_ends_where_it_would_have_ended(tmp_path, observation):
    main(tmp_path / "whole", observation)
    chance, folder, kills = random.Random(observation), tmp_path / "killed", 0
    command = [sys.executable, str(KILLED), str(folder), observation]
    for _ in range(3):
        before = lines(folder)
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        until = before + chance.randint(1, UPDATES[observation] // 4)
        while process.poll() is None and lines(folder) < until:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.03))  # in the middle of whatever it does next
        if process.poll() is None:
            process.kill()
            kills += 1
        process.communicate()
    assert kills == 3
    assert 0 < lines(folder) < UPDATES[observation]
    subprocess.run(command, check=True, capture_output=True)

    whole, again = load_latest(tmp_path / "whole" / "checkpoints"), load_latest(folder / "checkpoints")
    assert whole.values.pop("progress_bytes") > 0
    again.values.pop("progress_bytes")
    assert again.values == whole.values
    assert again.values["finished"] == ["in a level", "in the original"]
    assert again.arrays["agent"].keys() == whole.arrays["agent"].keys()
    for name, array in whole.arrays["agent"].items():
        np.testing.assert_array_equal(again.arrays["agent"][name], array, err_msg=name)
    told = [[{k: v for k, v in line.items() if k not in TIMES} for line in read_progress(run)]
            for run in (tmp_path / "whole", folder)]  # fmt: skip
    assert told[0] == told[1]
    assert len(told[0]) == UPDATES[observation]


def course_in(folder: Path, **kw) -> PhaseTrainer:
    settings = PpoSettings(num_envs=2, num_steps=8, update_epochs=1, num_minibatches=1)
    agent = PPO.for_envs(Crafter().make(num_envs=1, observation="symbols"), settings=settings)
    return PhaseTrainer(Run(folder, {}), Crafter(), "symbols", agent, **kw)


def test_a_finished_phase_is_not_done_again(tmp_path):
    course = course_in(tmp_path)
    course.run_phase("one", [], 32)
    steps = course.agent.steps
    course.run_phase("one", [], 32)
    assert course.agent.steps == steps == 32
    course.run_dir.close()
    course = course_in(tmp_path)
    course.run_phase("one", [], 32)
    assert course.agent.steps == 32
    course.run_phase("two", [], 32)
    assert course.agent.steps == 64


def test_progress_says_how_it_goes(tmp_path):
    heard = []
    course = course_in(tmp_path, show=heard.append)
    course.run_phase("one", [{"length": 4}], 64)
    assert [line["steps"] for line in heard] == [16, 32, 48, 64]
    assert heard[-1]["phase"] == "one"
    assert sum(line["episodes"] for line in heard) == 16
    assert heard[-1]["recent"]["length"] == 4
    assert len(heard[-1]["recent"]["skills"]) == 22
    assert all(line["seconds"] > 0 for line in heard)
    assert heard[-1]["levels"] == [{k: heard[-1][k] for k in ("episodes", "return_sum", "succeeded")}]


def test_no_two_phases_or_runs_share_their_seeds():
    assert len({phase_seed(seed, phase) for seed in range(20) for phase in range(20)}) == 400
    assert all(0 <= phase_seed(seed, 0) < 1 << 31 for seed in range(100))
