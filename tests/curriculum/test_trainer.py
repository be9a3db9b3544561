"""Phases, checkpoints, progress lines and training statistics."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from phase_worker import NUM_UPDATES, main

from envgen.agents.ppo import PPO
from envgen.agents.rollout import EpisodeStats
from envgen.agents.settings import HyperparameterError, PpoSettings
from envgen.curriculum.plan import PlanError, PracticeSettings, learner_preset
from envgen.curriculum.trainer import (
    FinishedEpisodes,
    PhaseTrainer,
    TrainingStats,
    line_of_entry,
    make_learner,
    phase_seed,
    training_stats,
)
from envgen.runs.checkpoint import load_latest
from envgen.runs.statistics import score
from envgen.runs.store import FORMAT, Run, RunError, read_progress, read_request
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from forked import forked, run_forked
from run_results import progress_without_times

SETTINGS = {"num_envs": 2, "num_steps": 8, "update_epochs": 1, "num_minibatches": 1}


def num_lines(folder: Path) -> int:
    return len(list(read_progress(folder)))


@pytest.mark.parametrize(("observation", "practice_share"), [("symbols", 0.0), ("pixels", 0.0), ("symbols", 0.5)])
def test_killed_run_resumes_to_the_same_result(tmp_path, observation, practice_share):
    uninterrupted, folder = tmp_path / "uninterrupted", tmp_path / "killed"
    main(uninterrupted, observation, practice_share)
    rng, kills = random.Random(observation), 0
    for _ in range(3):
        before = num_lines(folder)
        with forked(main, folder, observation, practice_share) as process:
            kill_at = before + rng.randint(1, NUM_UPDATES[observation] // 4)
            while process.is_alive() and num_lines(folder) < kill_at:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.03))  # in the middle of whatever it does next
            kills += process.is_alive()
    assert kills == 3
    assert 0 < num_lines(folder) < NUM_UPDATES[observation]
    assert run_forked(main, folder, observation, practice_share) == 0

    expected, resumed = load_latest(uninterrupted / "checkpoints"), load_latest(folder / "checkpoints")
    assert expected.values.pop("progress_bytes") > 0
    resumed.values.pop("progress_bytes")
    assert expected.values.pop("progress_sha256") != resumed.values.pop("progress_sha256")  # lines hold times
    assert resumed.values == expected.values
    assert resumed.values["finished_phases"] == ["in a level", "in the original"]
    assert resumed.arrays["agent"].keys() == expected.arrays["agent"].keys()
    for name, array in expected.arrays["agent"].items():
        np.testing.assert_array_equal(resumed.arrays["agent"][name], array, err_msg=name)
    progress = progress_without_times(folder)
    assert progress == progress_without_times(uninterrupted)
    assert len(progress) == NUM_UPDATES[observation]
    if practice_share:
        assert sum(line["practice"]["episodes"] for line in progress) > 10


def make_trainer(folder: Path, num_envs: int = 2, **kw) -> PhaseTrainer:
    learner = make_learner(Crafter(), "symbols", settings={**SETTINGS, "num_envs": num_envs})
    return PhaseTrainer(Run(folder, {}), Crafter(), "symbols", learner, **kw)


def test_finished_phase_is_not_repeated(tmp_path):
    trainer = make_trainer(tmp_path)
    trainer.run_phase("one", [], 32)
    steps = trainer.learner.steps
    trainer.run_phase("one", [], 32)
    assert trainer.learner.steps == steps == 32
    trainer.run.close()
    trainer = make_trainer(tmp_path)
    trainer.run_phase("one", [], 32)
    assert trainer.learner.steps == 32
    trainer.run_phase("two", [], 32)
    assert trainer.learner.steps == 64
    trainer.run.close()


def test_progress_lines_hold_the_results_of_each_update(tmp_path):
    lines = []
    trainer = make_trainer(tmp_path, on_progress=lines.append)
    trainer.run_phase("one", [CrafterLevel(length=4)], 64)
    trainer.run.close()
    assert [line["steps"] for line in lines] == [16, 32, 48, 64]
    assert lines[-1]["phase"] == "one"
    assert sum(line["episodes"] for line in lines) == 16
    assert lines[-1]["recent"]["length"] == 4
    assert len(lines[-1]["recent"]["skills"]) == 22
    assert all(line["seconds"] > 0 for line in lines)
    same = {key: lines[-1][key] for key in ("episodes", "return_sum", "length_sum", "succeeded")}
    assert lines[-1]["levels"] == [{**same, "env_steps": 16}]


def train_with_metrics(folder: Path, metrics: dict[str, Any]) -> dict[str, Any]:
    """Train for an update after which the learner reports these metrics, and return its progress line."""
    trainer = make_trainer(folder)
    trainer.learner.update = lambda rollout: metrics
    try:
        trainer.run_phase("one", [CrafterLevel(length=4)], 16)
    finally:
        trainer.run.close()
    [line] = (folder / "progress.jsonl").read_text().splitlines()
    return json.loads(line, parse_constant=pytest.fail)


def test_metrics_are_numbers_or_unknown(tmp_path):
    metrics = {"loss": np.float32(0.5), "count": np.int64(3), "nan": float("nan"), "inf": np.float64("-inf")}
    line = train_with_metrics(tmp_path, metrics)
    assert {name: line[name] for name in metrics} == {"loss": 0.5, "count": 3.0, "nan": None, "inf": None}


@pytest.mark.parametrize(("metrics", "message"), [
    ({"steps": 7.0}, "the learner PPO reports the metric 'steps', the name of an entry that every progress line"),
    ({"possible": 1.0}, "the learner PPO reports the metric 'possible'"),
    ({"loss": "low"}, "the metric 'loss' of the learner PPO must be a number, not 'low'"),
])  # fmt: skip
def test_other_metrics_are_refused(metrics, message, tmp_path):
    with pytest.raises(PlanError, match=message):
        train_with_metrics(tmp_path, metrics)


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_an_update_is_saved_even_if_its_progress_cannot_be_printed(tmp_path, is_interrupted):
    def lose_output(line):
        if line["steps"] >= 32:
            if is_interrupted:
                signal.raise_signal(signal.SIGINT)
            raise BrokenPipeError  # Ctrl-C has also ended the reader, or the reader has ended itself

    trainer = make_trainer(tmp_path, on_progress=lose_output, save_every=1e9)
    with pytest.raises(KeyboardInterrupt if is_interrupted else BrokenPipeError):
        trainer.run_phase("one", [CrafterLevel(length=4)], 64)
    trainer.run.close()
    assert load_latest(tmp_path / "checkpoints").values["agent"]["steps"] == 32
    assert num_lines(tmp_path) == 2


def test_an_interrupt_while_the_end_of_a_phase_is_saved_loses_nothing(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path, save_every=1e9)
    save = trainer.save

    def save_slowly():
        signal.raise_signal(signal.SIGINT)
        save()

    monkeypatch.setattr(trainer, "save", save_slowly)
    with pytest.raises(KeyboardInterrupt):
        trainer.run_phase("one", [CrafterLevel(length=4)], 64)
    trainer.run.close()
    assert load_latest(tmp_path / "checkpoints").values["finished_phases"] == ["one"]


def test_progress_lines_hold_the_steps_of_each_level(tmp_path):
    lines = []
    trainer = make_trainer(tmp_path, num_envs=4, on_progress=lines.append)
    levels = [CrafterLevel(length=4), CrafterLevel(length=4), CrafterLevel(length=8), CrafterLevel()]
    trainer.run_phase("one", levels, 64)
    trainer.run.close()
    per_level = [[line["levels"][k] for line in lines] for k in range(3)]
    assert [sum(entry["env_steps"] for entry in entries) for entries in per_level] == [32, 16, 16]
    assert [sum(entry["length_sum"] for entry in entries) for entries in per_level[:2]] == [32, 16]


def test_the_only_environment_of_the_original_does_not_practice(tmp_path):
    lines = []
    trainer = make_trainer(tmp_path, num_envs=4, on_progress=lines.append, practice=PracticeSettings(share=0.9))
    trainer.run_phase("one", [*[CrafterLevel(length=4)] * 3, CrafterLevel(length=10_000)], 64)
    trainer.run.close()
    assert sum(line["practice"]["episodes"] for line in lines) == 0
    assert [entry["env_steps"] for entry in lines[0]["levels"]] == [24, 8]


def test_phases_and_runs_have_different_seeds():
    assert len({phase_seed(seed, phase) for seed in range(20) for phase in range(20)}) == 400
    assert all(0 <= phase_seed(seed, 0) < 1 << 31 for seed in range(100))


def test_learner_settings_start_from_the_defaults_of_the_world():
    assert make_learner(Heist(), "symbols").settings.gamma == 0.999
    assert make_learner(Heist(), "symbols", settings={"gamma": 0.5}).settings.gamma == 0.5
    assert make_learner(Crafter(), "symbols").settings.gamma == 0.95
    with pytest.raises(ValueError, match="did you mean 'ppo'"):
        make_learner(Crafter(), "symbols", "pop")


def test_a_setting_of_a_learner_may_not_be_called_name():
    class NamedSettings(PpoSettings):
        name: str = "adam"
        """The name of the optimizer."""

    class Named(PPO):
        @classmethod
        def settings_for(cls, observation_space, **overrides):
            return NamedSettings(**overrides)

    with pytest.raises(HyperparameterError, match="NamedSettings has a field called name, "):
        make_learner(Crafter(), "symbols", Named)


def test_images_have_a_definite_encoder_on_every_device():
    for device, encoder in (("cpu", "tiles"), ("cuda", "impala")):
        learner = make_learner(Crafter(), "pixels", device=device, settings_only=True)
        assert learner.settings.network.encoder == encoder
        learner = make_learner(Heist(), "pixels", device=device, settings_only=True)
        assert learner.settings.network.encoder == "impala"
    assert make_learner(Crafter(), "symbols").settings.network.encoder == "auto"


def test_requests_with_the_default_encoder_of_earlier_versions_are_read(tmp_path):
    for observation, encoder, expected in (
        ("pixels", "auto", "impala"), ("pixels", "tiles", "tiles"), ("symbols", "auto", "auto"),
    ):  # fmt: skip
        request = {"observation": observation, "learner": {"name": "ppo", "network": {"encoder": encoder}}}
        (tmp_path / "run.json").write_text(json.dumps({"format": FORMAT, "request": request}))
        assert read_request(tmp_path)[0]["learner"]["network"]["encoder"] == expected


def test_practice_is_that_of_the_original_unless_an_entry_has_its_own():
    line = {"practice": {"length_sum": 5}, "levels": [{"episodes": 1}, {"episodes": 2}]}
    assert line_of_entry(line, 0)["practice"] == {"length_sum": 5}
    line["levels"][1] = {"episodes": 2, "practice": {"length_sum": 4}}
    assert line_of_entry(line, 0)["practice"] == {}
    assert line_of_entry(line, 1)["practice"] == {"length_sum": 4}


def test_checkpoints_with_the_default_encoder_of_version_0_1_are_loaded():
    learner = make_learner(Crafter(), "pixels", settings={"num_envs": 2, "network": {"encoder": "impala"}})
    arrays, values = learner.state()
    values = {**values, "settings": {**values["settings"], "network": {"encoder": "auto"}}}
    learner.load(arrays, values)
    other = make_learner(Crafter(), "pixels", settings={"num_envs": 2})
    with pytest.raises(ValueError, match=r"; network.encoder was 'impala' and is now 'tiles'; "):
        other.load(arrays, values)


def test_network_settings_are_added_to_those_of_the_world():
    class Recurrent(Crafter):
        ppo_defaults = {"network": {"memory": "gru", "memory_size": 8}}  # noqa: RUF012

    network = make_learner(Recurrent(), "symbols", settings={"network": {"history": True}}).settings.network
    assert (network.memory, network.memory_size, network.history) == ("gru", 8, True)
    settings, _ = learner_preset("far", Recurrent())
    assert settings["network"] == {"history": True, "unimix": 0.01}


# --- training statistics

SKILLS = ("climb", "fly")


def progress_line(steps: int, episodes: int, return_sum: float, succeeded: list[int] | None, **kw) -> dict:
    return {"steps": steps, "episodes": episodes, "return_sum": return_sum, "succeeded": succeeded, **kw}


def stats_of(lines: Iterable[dict]) -> TrainingStats:
    stats = training_stats(lines, SKILLS)
    assert stats is not None
    return stats


def test_score_is_over_all_episodes_and_reward_over_the_late_ones():
    lines = [
        progress_line(900_000, 4, 4.0, [1, 0]),
        progress_line(1_000_000, 2, 6.0, [2, 0]),  # exactly 100,000 steps before the end: not among the late ones
        progress_line(1_050_000, 1, 9.0, [1, 0]),
        progress_line(1_100_000, 3, 15.0, [1, 1]),
    ]
    stats = stats_of(iter(lines))
    assert stats.episodes == 10
    assert stats.skills == {"climb": 50.0, "fly": 10.0}
    assert stats.score == pytest.approx(np.exp((np.log(51) + np.log(11)) / 2) - 1)
    assert stats.score == score(np.array([50.0, 10.0]))
    assert stats.reward == pytest.approx(24 / 4)


def test_steps_before_the_phase_do_not_shift_the_reward_window():
    steps = (200_000, 300_000, 350_000, 400_000)
    assert stats_of([progress_line(at, 1, float(at > 300_000), [0, 0]) for at in steps]).reward == 1.0


def test_updates_without_a_finished_episode_do_not_count():
    lines = [progress_line(1, 0, 0.0, None), progress_line(2, 1, 3.0, [1, 0]), progress_line(3, 0, 0.0, None)]
    stats = stats_of(lines)
    assert (stats.episodes, stats.reward, stats.skills["climb"]) == (1, 3.0, 100.0)


def test_reward_is_over_all_episodes_if_none_ended_late():
    assert stats_of([progress_line(10, 2, 6.0, [0, 0]), progress_line(900_000, 0, 0.0, None)]).reward == 3.0


def test_skills_that_are_impossible_in_levels_count_in_the_original():
    in_levels = progress_line(10, 2, 2.0, [1, 0], possible=[1, 0])
    in_original = [progress_line(10, 1, 1.0, [1, 1]), progress_line(10, 0, 0.0, None)]
    lines = [
        progress_line(10, 3, 3.0, [2, 1], possible=[2, 1], levels=[in_levels, in_original[0]]),
        progress_line(20, 2, 2.0, [1, 0], possible=[1, 0], levels=[in_levels, in_original[1]]),
    ]
    assert stats_of([line_of_entry(line, 1) for line in lines]).skills == {"climb": 100.0, "fly": 100.0}
    assert stats_of([line_of_entry(line, 0) for line in lines]).skills == {"climb": 100.0, "fly": 0.0}


def test_there_are_no_statistics_without_a_finished_episode():
    assert training_stats([], SKILLS) is None
    assert training_stats([progress_line(10, 0, 0.0, None)], SKILLS) is None


def test_there_are_no_statistics_if_most_steps_belong_to_unfinished_episodes():
    """Of 100 environments one succeeded after 50 steps; the others play on when the phase ends after 400."""
    line = progress_line(40_000, 1, 10.0, [1, 1], length_sum=50)
    assert training_stats([{**line, "env_steps": 40_000}], SKILLS) is None
    assert training_stats([{**line, "env_steps": 100}], SKILLS) is not None
    assert training_stats([{**line, "env_steps": 40_000, "practice": {"length_sum": 39_900}}], SKILLS) is not None
    assert stats_of([line]).score == pytest.approx(100)


def test_settings_with_a_final_value_change_over_the_whole_run():
    world = Crafter()
    annealed = make_learner(world, "symbols", settings={"final_learning_rate": 1e-5}, total_steps=5000)
    assert annealed.settings.anneal_steps == 5000
    given = {"final_learning_rate": 1e-5, "anneal_steps": 70}
    assert make_learner(world, "symbols", settings=given, total_steps=5000).settings.anneal_steps == 70
    for name in ("final_gamma", "final_gae_lambda", "final_ent_coef"):
        assert make_learner(world, "symbols", settings={name: 0.5}, total_steps=5000).settings.anneal_steps == 5000
    assert make_learner(world, "symbols", total_steps=5000).settings.anneal_steps is None
    tiles = make_learner(world, "pixels", total_steps=5000)
    assert tiles.settings.network.encoder == "tiles"


def test_progress_covers_the_environments_of_all_processes(tmp_path):
    """With levels and the original side by side, the first process has no environment of the original."""
    options = {
        "designer": "random", "mixing": "mixed", "levels": 2, "cycles": 1, "cycle-steps": 2048, "final-steps": 0,
        "feedback-groups": 2, "feedback-episodes": 1, "episodes": 1, "audit-steps": 0, "ppo.num-steps": 256,
        "ppo.num-envs": 8,
    }  # fmt: skip
    args = [
        "train",
        "crafter",
        "--quiet",
        *(word for name, value in options.items() for word in (f"--{name}", str(value))),
    ]
    lines = []
    for launcher in ([], ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]):
        folder = tmp_path / str(len(launcher))
        command = [sys.executable, *launcher, "-m", "envgen", *args, "--folder", str(folder)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert result.returncode == 0, result.stderr[-2000:]
        lines.append(next(iter(read_progress(folder))))
    one, two = lines
    assert one["levels"][-1]["episodes"] > 0
    for name in ("episodes", "length_sum", "succeeded"):
        assert one[name] == two[name]
    for level, other in zip(one["levels"], two["levels"], strict=True):
        assert level["return_sum"] == pytest.approx(other["return_sum"])
        assert level | {"return_sum": 0} == other | {"return_sum": 0}


def test_episodes_of_several_processes_are_combined():
    """Each process knows the stages of the chains that its own environments play."""
    first, second = (
        FinishedEpisodes(
            EpisodeStats(returns=[value], lengths=[3], skill_counts=[np.array([value])]), [k], [], [k], {k: 4 + k}
        )
        for k, value in enumerate((1.0, 2.0))
    )
    combined = FinishedEpisodes.combine([first, second])
    assert (combined.episodes.returns, combined.episodes.lengths) == ([1.0, 2.0], [3, 3])
    assert (combined.entries, combined.stages, combined.current_stages) == ([0, 1], [0, 1], {0: 4, 1: 5})
    assert FinishedEpisodes.combine([second]) is second


def test_a_phase_that_one_process_began_is_not_continued_by_several(tmp_path, monkeypatch):
    def train(num_processes: int, on_progress: Any = lambda line: None) -> None:
        with Run(tmp_path, {}) as run:
            learner = make_learner(Crafter(), "symbols", settings=SETTINGS)
            trainer = PhaseTrainer(run, Crafter(), "symbols", learner, save_every=0.0, on_progress=on_progress)
            if num_processes > 1:
                monkeypatch.setattr(learner, "process_group", Mock(size=num_processes, is_main=True))
            trainer.run_phase("final", [], 64)

    def interrupt(line: dict[str, Any]) -> None:
        if line["steps"] == 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(1, interrupt)
    with pytest.raises(RunError, match=r"interrupted within the phase 'final' .* without torchrun"):
        train(2)
