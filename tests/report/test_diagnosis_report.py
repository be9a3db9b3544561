"""The tables and the figure of a diagnosis."""

import json
from io import StringIO
from pathlib import Path

import matplotlib
import pytest
from rich.console import Console

from envgen.report.diagnosis import diagnosis_tables, plot_diagnosis, unmastered_skills
from envgen.runs.store import RunError


def estimate(value: float) -> dict:
    return {"value": value, "low": 0.0, "high": 100.0}


def stage(name: str, ever: float, together: float) -> dict:
    return {"name": name, "ever": ever, "together": together}


ATTEMPTS = {
    "opportunity_steps": 120, "opportunity_episodes": 9, "used_steps": 7, "used_episodes": 5,
    "failed_steps": 4321, "failed_episodes": 80, "missing": {"iron": 97.0, "table near": 61.0, "awake": 0.1},
}  # fmt: skip
PICKAXE = {
    "success": estimate(5), "mastered": False, "episodes": 100, "first_step": 212.0,
    "prerequisites": [stage("collect_wood", 99, 99), stage("collect_iron", 12, 11)],
    "conditions": [stage("iron", 11, 11), stage("table near", 98, 9), stage("awake", 100, 9)],
    "attempts": ATTEMPTS,
    "bottleneck": {"kind": "prerequisite", "name": "collect_iron", "reached": 11, "of": 99},
}  # fmt: skip
NEVER_TRIED = {
    "success": estimate(0), "mastered": False, "episodes": 100, "first_step": None, "prerequisites": [],
    "conditions": [], "attempts": None, "bottleneck": {"kind": "success", "name": "success", "reached": 0, "of": 100},
}  # fmt: skip
WOOD = {**NEVER_TRIED, "success": estimate(99), "mastered": True, "first_step": 9.0, "bottleneck": None}
IMPOSSIBLE = {**NEVER_TRIED, "episodes": 0, "bottleneck": None}
DIAGNOSIS = {
    "evaluation": {"world": "crafter", "episodes": 100, "score": estimate(20), "reward": estimate(9),
                   "length": estimate(200)},
    "threshold": 50.0,
    "ends": [
        {"cause": "zombie", "episodes": 75, "lengths": [150] * 40 + [210] * 35,
         "circumstances": {"time of day": {"night": 60, "day": 15}}},
        {"cause": "time limit", "episodes": 25, "lengths": [9999] * 25, "circumstances": {"time of day": {"day": 25}}},
    ],
    "skills": {"fly": NEVER_TRIED, "make_iron_pickaxe": PICKAXE, "collect_wood": WOOD, "swim": IMPOSSIBLE},
}  # fmt: skip


def as_text(diagnosis: dict, width: int = 140) -> str:
    console = Console(width=width, file=StringIO())
    console.print(diagnosis_tables(diagnosis))
    return console.file.getvalue()


def test_only_possible_skills_below_the_threshold_are_listed_the_most_successful_first():
    assert list(unmastered_skills(DIAGNOSIS)) == ["make_iron_pickaxe", "fly"]


def test_tables_show_ends_attempts_and_where_episodes_are_lost():
    lines = as_text(DIAGNOSIS).splitlines()
    zombie = next(line for line in lines if "zombie" in line)
    assert zombie.split() == ["zombie", "75.0%", "150", "night", "80%,", "day", "20%"]
    attempts = next(line for line in lines if "make_iron_pickaxe" in line)
    assert attempts.split()[1:7] == ["5.0%", "212", "9", "120", "7", "4,321"]
    assert "iron 97%, table near 61%" in attempts
    text = "\n".join(lines)
    assert "collect_wood 99.0 > collect_iron 11.0 (12)" in text
    assert "iron 11.0 > table near 9.0 (98) > awake 9.0 (100)" in text
    assert "collect_iron: 11 of the 99 episodes that got this far" in text
    assert "never" in text
    assert "swim" not in text


def test_tables_fit_a_narrow_terminal():
    assert max(map(len, as_text(DIAGNOSIS, width=80).splitlines())) <= 80


def test_a_run_that_masters_everything_says_so():
    mastered = {**DIAGNOSIS, "skills": {"collect_wood": WOOD}}
    assert "Every skill succeeds in at least 50% of the episodes" in as_text(mastered)


@pytest.mark.parametrize("skills", [DIAGNOSIS["skills"], {"collect_wood": WOOD}, {"fly": NEVER_TRIED}])
def test_figure_is_written_as_png(skills, tmp_path, svg_backend):
    (tmp_path / "diagnosis.json").write_text(json.dumps({**DIAGNOSIS, "skills": skills}))
    plot_diagnosis(tmp_path, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert matplotlib.get_backend() == "svg"  # a notebook has a backend of its own, which stays


def test_a_folder_without_a_diagnosis_is_an_error(tmp_path: Path):
    with pytest.raises(RunError, match=r"diagnosis\.json"):
        plot_diagnosis(tmp_path, tmp_path / "figure.png")
