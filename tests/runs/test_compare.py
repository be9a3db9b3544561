"""Finished runs beside each other: what counts as one group, and what a reader sees of it."""

import json
from pathlib import Path

import pytest

from envgen.runs.compare import Comparison, compare, find_runs
from envgen.runs.store import RunError

SKILLS = ("collect_wood", "collect_diamond")
LLM = {"name": "llm", "model": "openai:gpt-5"}


def a_run(
    folder: Path,
    designer: dict,
    seed: int,
    final: float = 20.0,
    wood: float = 90.0,
    steps: int = 1_480_000,
    finished: bool = True,
    llm: dict | None = None,
    **asked,
) -> Path:
    folder.mkdir(parents=True)
    request = {
        "world": "crafter", "observation": "symbols", "designer": designer, "plan": {"cycles": 4}, "seed": seed, **asked
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps({"request": request, "versions": {}, "machine": "any"}))
    figures = {
        name: {"value": value, "low": value - 1, "high": value + 1}
        for name, value in {"reward": final / 2, "score": final, **dict(zip(SKILLS, (wood, 1.0), strict=True))}.items()
    }
    summary = {
        "steps": {"levels": 480_000, "original": steps, "ranking": 0},
        "seconds": 100.0 + 10 * seed,
        "training": {"episodes": 8123, "score": final - 3, "reward": final / 2 - 1, "skills": {}},
        "final": {
            "episodes": 256, "reward": figures["reward"], "score": figures["score"],
            "skills": {skill: figures[skill] for skill in SKILLS},
        },
        "llm": llm or {"calls": 0, "prompt_tokens": 0, "reply_tokens": 0, "cost": 0.0},
    }  # fmt: skip
    if finished:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def seeds(root: Path, name: str, designer: dict, middle: float, count: int = 4, **kw) -> None:
    for seed in range(count):
        a_run(root / f"{name}-{seed}", designer, seed, middle + seed / 10, wood=middle + seed, **kw)


def table_of(text: str, first: str) -> dict[str, list[str]]:
    """A table of Markdown by the first cell of its rows."""
    lines = text[text.index(f"| {first} |") :].split("\n\n")[0].splitlines()
    return {cells[0]: cells[1:] for cells in ([c.strip() for c in line.strip("|").split("|")] for line in lines)}


def labels(comparison: Comparison) -> list[str]:
    return [group.label for table in comparison.tables for group in table.groups]


# --- finding runs


def test_runs_are_found_by_name_and_in_folders_above_each_once(tmp_path):
    deep = a_run(tmp_path / "a" / "b" / "run", LLM, 0)
    near = a_run(tmp_path / "near", LLM, 1)
    assert find_runs([tmp_path]) == [deep, near]
    assert find_runs([near, tmp_path, tmp_path / "a"]) == [near, deep]
    a_run(tmp_path / "1" / "2" / "3" / "4", LLM, 2)
    assert len(find_runs([tmp_path])) == 2  # four levels are too many


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nigth-runs", r"nigth-runs is not a folder; did you mean .*night-runs\?"),
        ("nigth-runs/llm", r"did you mean .*night-runs\?"),
        ("night-runs/xyz", r"xyz is not a folder$"),
        ("empty", r"empty holds no run, 3 levels deep$"),
    ],
)
def test_a_path_without_runs_is_an_error_that_names_the_nearest(tmp_path, path, says):
    a_run(tmp_path / "night-runs" / "llm-0", LLM, 0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=says):
        find_runs([tmp_path / path])


def test_a_relative_path_is_understood(tmp_path, monkeypatch):
    a_run(tmp_path / "llm-0", LLM, 0)
    monkeypatch.chdir(tmp_path)
    assert find_runs(["."]) == [Path("llm-0")]
    with pytest.raises(RunError, match=r"lm-0 is not a folder; did you mean llm-0\?"):
        find_runs(["lm-0"])


# --- groups


def test_a_group_is_all_that_differs_in_seed_only_and_the_plain_one_comes_first(tmp_path):
    seeds(tmp_path, "x", {"name": "expert", "wanted": 4}, 20)
    seeds(tmp_path, "y", {"name": "none"}, 20, 2)
    table = compare([tmp_path]).tables[0]
    assert [(g.label, g.seeds) for g in table.groups] == [("none", 2), ("expert", 4)]


def test_a_label_names_what_groups_of_one_designer_differ_in_and_nothing_else(tmp_path):
    a_run(tmp_path / "a", {**LLM, "budget": {"calls": 5}}, 0)
    a_run(tmp_path / "b", {**LLM, "model": "anthropic:claude", "budget": {"calls": 5}}, 0)
    a_run(tmp_path / "c", {"name": "expert"}, 0, ppo={"gamma": 0.95})
    a_run(tmp_path / "d", {"name": "random"}, 0)
    assert labels(compare([tmp_path])) == ["expert", "llm model=anthropic:claude", "llm model=openai:gpt-5", "random"]


def test_labels_stay_short_and_apart(tmp_path):
    long = "x" * 80
    for k in range(3):
        plan = {"a": k, "b": k, "c": k, "d": k, "e": k}
        a_run(tmp_path / f"p{k}", {"name": "fixed"}, 0, plan=plan)
        a_run(tmp_path / f"q{k}", {"name": "llm", "prompt": f"{long}{k}{long}"}, 0)
    names = labels(compare([tmp_path]))
    assert len(set(names)) == 6
    assert "fixed plan.a=0 plan.b=0 plan.c=0 +2 more" in names
    assert max(map(len, names)) < 60


def test_runs_that_are_not_finished_are_listed_and_count_nowhere(tmp_path):
    seeds(tmp_path, "n", {"name": "none"}, 20, 2)
    a_run(tmp_path / "n-half", {"name": "none"}, 2, finished=False)
    comparison = compare([tmp_path])
    assert comparison.unfinished == (tmp_path / "n-half",)
    assert comparison.tables[0].groups[0].seeds == 2
    for text in (comparison.markdown(), comparison.text()):
        assert "Not finished, left out:" in text
        assert "n-half" in text


def test_nothing_finished_is_said_so(tmp_path):
    a_run(tmp_path / "n", {"name": "none"}, 2, finished=False)
    assert "No finished runs." in compare([tmp_path]).markdown()
    assert "No finished runs." in compare([tmp_path]).text()


def test_models_made_for_each_seed_do_not_tell_its_runs_apart(tmp_path):
    for seed in range(3):
        a_run(tmp_path / f"n-{seed}", {"name": "none"}, seed, 20, made={"size": {"width": 64}, "seed": seed})
    assert [(g.label, g.seeds) for g in compare([tmp_path]).tables[0].groups] == [("none", 3)]


def test_the_same_seed_twice_counts_once_and_is_told(tmp_path):
    seeds(tmp_path, "n", {"name": "none"}, 20, 2)
    a_run(tmp_path / "n-copy", {"name": "none"}, 1)
    table = compare([tmp_path]).tables[0]
    assert table.groups[0].seeds == 2
    assert any("n-copy is left out" in warning and "seed 1" in warning for warning in table.warnings)


def test_worlds_have_tables_of_their_own(tmp_path):
    a_run(tmp_path / "a", {"name": "none"}, 0)
    a_run(tmp_path / "b", {"name": "none"}, 0, world="heist")
    comparison = compare([tmp_path])
    assert [table.about for table in comparison.tables] == ["crafter", "heist"]
    assert "## heist" in comparison.markdown()


def test_a_damaged_file_is_named(tmp_path):
    a_run(tmp_path / "a", {"name": "none"}, 0)
    (tmp_path / "a" / "summary.json").write_text('{"steps": ')
    with pytest.raises(RunError, match=r"cannot read .*summary\.json"):
        compare([tmp_path])
    (tmp_path / "a" / "run.json").write_text("[]")
    with pytest.raises(RunError, match=r"run\.json does not say what was asked for"):
        compare([tmp_path])


# --- what does not compare


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"steps": 2_000_000}, "training steps: 1,960,000 for none; 2,480,000 for expert"),
        ({"observation": "pixels"}, "observation: symbols for none; pixels for expert"),
        ({"plan": {"cycles": 4, "cycle_steps": 9, "final_steps": 5}}, "final steps: 1,000,000 for none; 5 for expert"),
        ({"plan": {"cycles": 4, "cycle_steps": 60_000, "final_steps": 1_000_000}}, "steps in cycles: 480,000"),
    ],
)
def test_groups_that_trained_differently_are_warned_of(tmp_path, other, says):
    plan = {"cycles": 2, "cycle_steps": 240_000, "final_steps": 1_000_000}
    a_run(tmp_path / "a", {"name": "none"}, 0, plan=plan)
    a_run(tmp_path / "b", {"name": "expert"}, 0, **{"plan": plan, **other})
    comparison = compare([tmp_path])
    assert any(says in warning for warning in comparison.tables[0].warnings), comparison.tables[0].warnings
    assert f"**Warning:** {comparison.tables[0].warnings[0]}" in comparison.markdown()
    assert "Warning: these do not compare" in comparison.text()


def test_equal_totals_are_not_warned_of(tmp_path):
    a_run(tmp_path / "a", {"name": "none"}, 0, plan={"cycles": 4, "cycle_steps": 120_000})
    a_run(tmp_path / "b", {"name": "expert"}, 0, plan={"cycles": 2, "cycle_steps": 240_000}, steps=1_480_128)
    assert compare([tmp_path]).tables[0].warnings == ()


# --- what a reader sees


def test_markdown_has_a_row_for_each_group_and_one_for_each_skill(tmp_path):
    seeds(tmp_path, "n", {"name": "none"}, 10)
    seeds(tmp_path, "l", LLM, 20, llm={"calls": 4, "prompt_tokens": 9000, "reply_tokens": 3000, "cost": 0.125})
    text = compare([tmp_path]).markdown()
    groups = table_of(text, "designer")
    assert groups["designer"][:5] == [
        "seeds", "score in training %", "reward in training", "final score %", "final reward"
    ]  # fmt: skip
    assert groups["llm"][0] == "4"
    assert groups["llm"][3] == "20.1 [20.0, 20.3]\\*"
    assert groups["llm"][5:] == ["480,000 + 1,480,000", "4", "0.12", "0:01:55"]
    assert groups["none"][5:] == ["480,000 + 1,480,000", "0", "-", "0:01:55"]
    skills = table_of(text, "final success %")
    assert skills["final success %"] == ["none (n=4)", "llm (n=4)"]
    assert list(skills)[2:] == list(SKILLS)
    assert skills["collect_diamond"] == ["1.0 [1.0, 1.0]", "1.0 [1.0, 1.0]"]


def test_what_lies_wholly_above_the_plain_group_has_a_star(tmp_path):
    seeds(tmp_path, "n", {"name": "none"}, 10)
    seeds(tmp_path, "l", LLM, 20)
    seeds(tmp_path, "r", {"name": "random"}, 10.1)
    text = compare([tmp_path]).markdown()
    wood = table_of(text, "final success %")["collect_wood"]
    assert [cell.endswith("]\\*") for cell in wood] == [False, True, False]
    assert [table_of(text, "designer")[name][2].endswith("*") for name in ("none", "llm", "random")] == [0, 1, 0]
    assert "lies wholly above none" in text


def test_rounding_earns_no_star(tmp_path):
    for name, count in (("none", 3), ("random", 5), ("fixed", 7)):
        for seed in range(count):
            a_run(tmp_path / f"{name}-{seed}", {"name": name}, seed, 33.3, wood=99.9)
    assert "]\\*" not in compare([tmp_path]).markdown()


def test_one_seed_has_neither_interval_nor_star(tmp_path):
    a_run(tmp_path / "n", {"name": "none"}, 0, 10)
    a_run(tmp_path / "l", LLM, 0, 60)
    assert table_of(compare([tmp_path]).markdown(), "designer")["llm"][:4] == ["1", "57.0", "29.0", "60.0"]


def test_what_a_run_does_not_say_is_a_dash(tmp_path):
    seeds(tmp_path, "l", LLM, 20, 2, llm={"calls": 4, "cost": 0.5})
    file = tmp_path / "l-0" / "summary.json"
    summary = json.loads(file.read_text())
    file.write_text(json.dumps({**summary, "training": None, "llm": {"calls": 5, "cost": None}}))
    row = table_of(compare([tmp_path]).markdown(), "designer")["llm"]
    assert (row[1], row[2], row[6], row[7]) == ("-", "-", "4.5", "-")


def test_ranking_steps_are_shown_apart(tmp_path):
    a_run(tmp_path / "n", {"name": "none"}, 0)
    file = a_run(tmp_path / "a", {"name": "adversarial"}, 0) / "summary.json"
    summary = json.loads(file.read_text())
    file.write_text(json.dumps({**summary, "steps": {**summary["steps"], "ranking": 960_000}}))
    comparison = compare([tmp_path])
    assert "480,000 + 1,480,000 + 960,000 ranking" in comparison.markdown()
    assert comparison.tables[0].warnings == ()


def test_a_bar_in_a_name_does_not_break_the_markdown(tmp_path):
    for model in ("a|b", "c|d"):
        a_run(tmp_path / model[0], {**LLM, "model": model}, 0)
    lines = [line for line in compare([tmp_path]).markdown().splitlines() if line.startswith("| llm")]
    assert [line.replace("\\|", "").count("|") for line in lines] == [11, 11]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_of_any_width_shows_every_group_and_skill_whole(tmp_path, width):
    names = ("none", "expert", "random", "fixed", "easy_to_hard", "adversarial", "alpha")
    for k, name in enumerate(names):
        seeds(tmp_path, name, {"name": name}, 80 + k)
    seeds(tmp_path, "gpt", LLM, 50)
    seeds(tmp_path, "other", {**LLM, "model": "anthropic:claude-opus"}, 50)
    text = compare([tmp_path]).text(width)
    assert max(map(len, text.splitlines())) <= width
    assert all(f"{name} (n=4)" in text for name in names)
    blocks = [line for line in text.splitlines() if line.startswith("collect_diamond")]
    assert sum(line.count("[1.0, 1.0]") for line in blocks) == 9
    assert (len(blocks) > 1) == (width < 160)
    assert "\x1b" not in text
