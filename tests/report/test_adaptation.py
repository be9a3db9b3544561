"""How a report shows the adaptation of training: levels by cycle, changes of success, and first successes."""

import json
from pathlib import Path

import numpy as np
import pytest
from test_page import read_page

from envgen.report.compare_section import _last_phase
from envgen.report.level_progress import level_results, phase_slots, plays_levels, skill_names, skill_steps
from envgen.report.read import open_run
from run_files import PLAN, SKILLS, evaluation, write_json, write_lines, write_train_run

WOOD, TABLE, DIAMOND = SKILLS


def run_score(rates):
    return float(np.exp(np.mean(np.log(1 + np.minimum(rates, 100)))) - 1)


def write_run(folder: Path, seed: int = 0, delay: int = 0, mixing: str = "alternate") -> Path:
    """A run with two cycles. The chain for diamonds reaches its second stage in the first cycle.

    Diamonds succeed in the level from the first update on, and in the original in cycle 2, `delay` updates later.
    """
    request = {
        "world": "crafter", "designer": {"name": "expert"}, "plan": PLAN, "observation": "symbols", "seed": seed,
        "learner": {"name": "ppo", "num_envs": 2},
    }  # fmt: skip
    write_json(folder / "run.json", {"format": 2, "request": request, "versions": {"envgen": "0.2.0"}})
    chain = {"skill": DIAMOND, "levels": [{"near": {"table": True}}, {"trees": "common"}, {}], "start": 0}
    for cycle in (1, 2):
        start = cycle - 1
        levels = [
            {"level": chain["levels"][start], "purpose": "p", "skills": [DIAMOND], "chain": {**chain, "start": start}},
            {"level": {"trees": "common"}, "purpose": "q", "skills": [WOOD, TABLE]},
        ]
        write_json(folder / f"cycles/{cycle}/levels.json", {"proposal": {"levels": levels}, "audits": []})
        rates = {WOOD: 10.0, TABLE: 0.0, DIAMOND: 20.0 * cycle}
        later = {name: rate + 15 for name, rate in rates.items()}
        outcome = {"episodes": 60, "reward": 1.0, "skills": rates, "first_third": rates, "last_third": later}
        with_chain = {**outcome, "chain": {"stage": 1, "episodes": [30, 30, 0], "successes": [10, 5, 0]}}
        write_json(folder / f"cycles/{cycle}/evaluation.json", {
            "cycle": {"number": cycle, "steps": 1000 * cycle, "outcomes": [with_chain, outcome]},
            "evaluation": evaluation(10.0 * cycle),
        })  # fmt: skip
    lines = []
    for k in range(40):
        cycle, in_levels = 1 + k // 20, k % 20 < 10
        diamonds = 6 if not in_levels and k >= 30 + delay else 0
        original = {"episodes": 30, "return_sum": 1.0, "succeeded": [k, 0, diamonds]}
        in_level = [
            {"episodes": 10, "return_sum": 1.0, "succeeded": [0, 0, 3]},
            {"episodes": 10, "return_sum": 1.0, "succeeded": [8, k // 5, 0]},
        ]
        if mixing == "mixed":
            phase, levels = f"cycle {cycle}: mixed", [*in_level, original]
        else:
            phase = f"cycle {cycle}: {'levels' if in_levels else 'original'}"
            levels = in_level if in_levels else [original]
        lines.append({"phase": phase, "steps": 50 * (k + 1), "levels": levels, **levels[-1]})
    write_lines(folder / "progress.jsonl", lines)
    return folder


@pytest.mark.parametrize("mixing", ["alternate", "mixed"])
def test_results_are_assigned_to_levels_and_the_original(tmp_path, mixing):
    run = open_run(write_run(tmp_path / "run", mixing=mixing), "run")
    assert skill_names(run) == list(SKILLS)
    slots = phase_slots(run)
    assert [slot.skills for slot in slots["cycle 1: levels"]] == [{DIAMOND}, {WOOD, TABLE}]
    results = list(level_results(run))
    in_original = [(steps, succeeded) for steps, _, slot, _, succeeded, _ in results if slot.is_original]
    in_levels = [(steps, succeeded) for steps, _, slot, *_, succeeded, _ in results if DIAMOND in slot.skills]
    assert len(in_original) == len(in_levels) == (40 if mixing == "mixed" else 20)
    assert in_levels[0] == (50, [0, 0, 3])
    assert in_original[-1] == (2000, [39, 0, 6])


def test_levels_that_are_sampled_for_every_episode_are_one_entry_beside_the_original(tmp_path):
    folder = write_run(tmp_path / "run", mixing="mixed")
    lines = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    for line in lines:
        line |= {"phase": line["phase"].replace("mixed", "sampled levels"), "levels": line["levels"][:0:-1]}
    write_lines(folder / "progress.jsonl", lines)
    found = skill_steps(open_run(folder, "run"))
    assert (found[DIAMOND].in_level, found[DIAMOND].in_original) == (None, 1550)
    assert found[TABLE].in_level == 300


def test_first_successes_are_found_in_levels_and_in_the_original(tmp_path):
    run = open_run(write_run(tmp_path / "run", delay=5), "run")
    for file in run.folder.glob("cycles/*/evaluation.json"):  # so that only the training counts
        result = json.loads(file.read_text())
        result["evaluation"] = evaluation(0.0) | {"skills": {name: {"value": 0.0} for name in SKILLS}}
        write_json(file, result)
    found = skill_steps(run)
    assert (found[DIAMOND].in_level, found[DIAMOND].in_original) == (50, 1800)
    assert found[TABLE].in_level == 300
    assert found[TABLE].in_original is None
    assert found[TABLE].above == {}
    # over 120 episodes in a row: 6 diamonds until step 1800, then 24
    assert found[DIAMOND].above == {5.0: 2000}
    assert found[WOOD].above[20.0] == 700


def test_skills_that_are_possible_in_few_episodes_need_as_many_of_these(tmp_path):
    folder = write_train_run(tmp_path / "run")
    results = [  # of the final phase; the diamond is possible in one episode of ten
        {"episodes": 40, "return_sum": 1.0, "succeeded": [20, 0, 4], "possible": [40, 40, 4]} for _ in range(30)
    ]
    lines = [
        {"phase": "final", "steps": 50 * (k + 1), "levels": [result], **result} for k, result in enumerate(results)
    ]
    write_lines(folder / "progress.jsonl", lines)
    for file in folder.glob("cycles/*/evaluation.json"):
        file.unlink()
    summary = json.loads((folder / "summary.json").read_text())
    unmeasured = {"value": 0.0, "low": 0.0, "high": 100.0}
    skills = {name: {"value": 0.0, "low": 0.0, "high": 1.0} for name in SKILLS} | {DIAMOND: unmeasured}
    write_json(folder / "summary.json", {**summary, "final": {**summary["final"], "skills": skills}})
    run = open_run(folder, "run")
    assert skill_names(run) == list(SKILLS)  # also those that the evaluation could not measure
    found = skill_steps(run)
    assert found[WOOD].above == {5.0: 150, 20.0: 150}
    assert found[DIAMOND].above == {5.0: 1250, 20.0: 1250}  # 100 episodes in which it was possible


def test_evaluations_count_for_the_thresholds(tmp_path):
    folder = write_run(tmp_path / "run")
    (folder / "progress.jsonl").unlink()
    found = skill_steps(open_run(folder, "run"))
    assert found[WOOD].above == {5.0: 1000}
    assert found[TABLE].above == {5.0: 2000}  # 5 is not more than 5
    assert found[DIAMOND].in_original is None


def test_the_page_shows_the_levels_of_each_cycle_and_how_success_changed(tmp_path):
    page = read_page(write_run(tmp_path / "run"))
    for text in (
        "Adaptation", "a level for", "20 → 35", "? → 1.0", "1.0 → 10", "stage 1 → 2 of 3", "stage 2 of 3",
        "First successes", "above 20%",
    ):  # fmt: skip
        assert text in page.text, text
    charts = [spec for spec in page.charts if spec["yLabel"] == "success %"]
    labels = [[series["label"] for series in spec["series"]] for spec in charts]
    assert labels == [["in its levels", "in the original, training", "in the original, measured"]] * 3
    diamond = charts[0]
    assert [label for _, _, label in diamond["shades"]] == ["cycle 1: levels", "cycle 2: levels"]
    assert diamond["shades"][1][:2] == [1000, 1500]
    in_levels = [y for y in diamond["series"][0]["y"] if y is not None]
    assert in_levels == pytest.approx([30.0] * 8)
    in_original = [y for y in diamond["series"][1]["y"] if y is not None]
    assert in_original == pytest.approx([0] * 4 + [20] * 4)


def test_groups_are_compared_over_seeds(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / f"expert-{seed}", seed, delay=2 * seed)
        write_train_run(tmp_path / f"none-{seed}", "none", seed)
    page = read_page(tmp_path)
    for text in ("Steps until skills succeed", "Levels by skill", "original +9.0", "100 30 → 45"):
        assert text in page.text, text
    assert "(1 of 2)" not in page.text


def test_seeds_that_do_not_get_there_are_counted(tmp_path):
    write_run(tmp_path / "expert-0", 0)
    write_run(tmp_path / "expert-1", 1, delay=100)
    for file in tmp_path.glob("*/cycles/*/evaluation.json"):
        result = json.loads(file.read_text())
        result["evaluation"]["skills"][DIAMOND] = {"value": 0.0}
        write_json(file, result)
    assert "(1 of 2)" in read_page(tmp_path).text


def test_runs_without_levels_show_first_successes_only(tmp_path):
    folder = write_run(tmp_path / "run")
    for file in folder.glob("cycles/*/levels.json"):
        write_json(file, {"proposal": {"levels": []}, "audits": []})
    page = read_page(folder)
    assert "First successes" in page.text
    assert "a level for" not in page.text
    assert not [spec for spec in page.charts if spec["yLabel"] == "success %"]


def test_the_curve_of_a_last_phase_with_levels_shows_the_episodes_in_the_original(tmp_path):
    run = open_run(write_run(tmp_path / "mixed", mixing="mixed"), "mixed")
    points = _last_phase(run)
    assert 5 < len(points) <= 40
    assert points[-1][1] == pytest.approx(run_score([100 * 39 / 30, 0, 100 * 6 / 30]), rel=0.1)
    assert plays_levels("cycle 2: mixed", phase_slots(run))


def test_phases_without_levels_are_in_the_original(tmp_path):
    folder = write_run(tmp_path / "none")
    for cycle in (1, 2):
        write_json(folder / f"cycles/{cycle}/levels.json", {"proposal": {"levels": []}, "audits": []})
    slots = phase_slots(open_run(folder, "none"))
    assert not any(plays_levels(f"cycle 1: {kind}", slots) for kind in ("levels", "mixed", "original"))
    assert plays_levels("cycle 1: sampled levels", slots)
    assert plays_levels("cycle 3: levels", slots)  # whose levels are not known
    assert not plays_levels("final", slots)
    assert "designer's levels, which" not in read_page(folder).text


def test_levels_that_cannot_be_read_are_not_taken_for_the_original(tmp_path):
    folder = write_run(tmp_path / "damaged")
    (folder / "cycles/1/levels.json").write_text("{")
    run = open_run(folder, "damaged")
    slots = phase_slots(run)
    assert plays_levels("cycle 1: levels", slots)
    assert plays_levels("cycle 1: mixed", slots)
    assert not plays_levels("cycle 1: original", slots)
    assert skill_steps(run)[DIAMOND].in_original == 50 * 31  # not the successes in a level of cycle 1
