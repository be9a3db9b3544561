"""Comparing finished runs: which runs form a group, and the tables made of them."""

import builtins
import itertools
import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from envgen.curriculum.evaluate import rate_with_ci
from envgen.runs.compare import Comparison, compare, find_runs, group_labels
from envgen.runs.files import suggest_path
from envgen.runs.store import RunError

SKILLS = ("collect_wood", "collect_diamond")
LLM = {"name": "llm", "model": "openai:gpt-5"}


def write_run(
    folder: Path,
    designer: dict,
    seed: int,
    final: float = 20.0,
    wood: float = 90.0,
    steps: int = 1_480_000,
    finished: bool = True,
    llm: dict | None = None,
    **settings,
) -> Path:
    folder.mkdir(parents=True)
    request = {
        "world": "crafter", "observation": "symbols", "designer": designer, "plan": {"cycles": 4}, "seed": seed,
        **settings,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps({"format": 2, "request": request, "versions": {}, "machine": "any"}))
    estimates = {
        name: {"value": value, "low": value - 1, "high": value + 1}
        for name, value in {"reward": final / 2, "score": final, **dict(zip(SKILLS, (wood, 1.0), strict=True))}.items()
    }
    summary = {
        "steps": {"levels": 480_000, "original": steps, "ranking": 0},
        "seconds": 100.0 + 10 * seed,
        "training": {"episodes": 8123, "score": final - 3, "reward": final / 2 - 1, "skills": {}},
        "final": {
            "episodes": 256, "reward": estimates["reward"], "score": estimates["score"],
            "skills": {skill: estimates[skill] for skill in SKILLS},
        },
        "llm": llm or {"calls": 0, "prompt_tokens": 0, "reply_tokens": 0, "cost": 0.0},
    }  # fmt: skip
    if finished:
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def write_seeds(root: Path, name: str, designer: dict, score: float, count: int = 4, **kw) -> None:
    for seed in range(count):
        write_run(root / f"{name}-{seed}", designer, seed, score + seed / 10, wood=score + seed, **kw)


def parse_table(text: str, first: str) -> dict[str, list[str]]:
    """Return a Markdown table by the first cell of its rows."""
    lines = text[text.index(f"| {first} |") :].split("\n\n")[0].splitlines()
    return {cells[0]: cells[1:] for cells in ([c.strip() for c in line.strip("|").split("|")] for line in lines)}


def labels(comparison: Comparison) -> list[str]:
    return [group.label for table in comparison.tables for group in table.groups]


# --- finding runs


def test_find_runs_returns_each_run_below_the_paths_once(tmp_path):
    deep = write_run(tmp_path / "a" / "b" / "run", LLM, 0)
    shallow = write_run(tmp_path / "near", LLM, 1)
    assert find_runs([tmp_path]) == [deep, shallow]
    assert find_runs([shallow, tmp_path, tmp_path / "a"]) == [shallow, deep]
    write_run(tmp_path / "1" / "2" / "3" / "4", LLM, 2)
    assert len(find_runs([tmp_path])) == 2  # the fourth level is not searched


def test_a_common_ending_does_not_make_paths_similar(tmp_path):
    (tmp_path / "run.json").touch()
    (tmp_path / "levels.json").touch()
    assert suggest_path(tmp_path / "nothing.json") == ""
    assert suggest_path(tmp_path / "level.json") == f"; did you mean {tmp_path / 'levels.json'}?"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nigth-runs", r"nigth-runs is not a directory; did you mean .*night-runs\?"),
        ("nigth-runs/llm", r"did you mean .*night-runs\?"),
        ("night-runs/xyz", r"xyz is not a directory$"),
        ("empty", r"empty contains no run directory \(searched 3 levels deep\)$"),
    ],
)
def test_path_without_runs_is_an_error_that_suggests_the_nearest(tmp_path, path, message):
    write_run(tmp_path / "night-runs" / "llm-0", LLM, 0)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=message):
        find_runs([tmp_path / path])


def test_relative_paths_work(tmp_path, monkeypatch):
    write_run(tmp_path / "llm-0", LLM, 0)
    monkeypatch.chdir(tmp_path)
    assert find_runs(["."]) == [Path("llm-0")]
    with pytest.raises(RunError, match=r"lm-0 is not a directory; did you mean llm-0\?"):
        find_runs(["lm-0"])


# --- groups


def test_runs_that_differ_only_in_seed_form_a_group_and_the_baseline_comes_first(tmp_path):
    write_seeds(tmp_path, "x", {"name": "expert", "wanted": 4}, 20)
    write_seeds(tmp_path, "y", {"name": "none"}, 20, 2)
    table = compare([tmp_path]).tables[0]
    assert [(g.label, g.num_seeds) for g in table.groups] == [("none", 2), ("expert", 4)]


def test_comparisons_can_be_pickled(tmp_path):
    write_seeds(tmp_path, "x", {"name": "none"}, 20, 2)
    comparison = compare([tmp_path])
    copy = pickle.loads(pickle.dumps(comparison))
    assert str(copy) == str(comparison)
    assert copy.tables[0].kind is comparison.tables[0].kind


def test_labels_name_only_the_settings_that_differ(tmp_path):
    write_run(tmp_path / "a", {**LLM, "budget": {"calls": 5}}, 0)
    write_run(tmp_path / "b", {**LLM, "model": "anthropic:claude", "budget": {"calls": 5}}, 0)
    write_run(tmp_path / "c", {"name": "expert"}, 0, ppo={"gamma": 0.95})
    write_run(tmp_path / "d", {"name": "random"}, 0)
    assert labels(compare([tmp_path])) == ["expert", "llm model=anthropic:claude", "llm model=openai:gpt-5", "random"]


def test_a_section_that_others_do_not_have_is_named_by_its_first_setting(tmp_path):
    write_run(tmp_path / "a", {"name": "none"}, 0)
    write_run(tmp_path / "b", {"name": "none"}, 0, practice={"share": 0.2, "max_steps": 100})
    assert labels(compare([tmp_path])) == ["none", "none practice.share=0.2"]
    write_run(tmp_path / "c", {"name": "none"}, 0, practice={"share": 0.2, "max_steps": 50})
    assert labels(compare([tmp_path])) == [
        "none", "none practice.share=0.2 practice.max_steps=100", "none practice.share=0.2 practice.max_steps=50",
    ]  # fmt: skip


def test_labels_are_short_and_unique(tmp_path):
    long = "x" * 80
    for k in range(3):
        plan = {"a": k, "b": k, "c": k, "d": k, "e": k}
        write_run(tmp_path / f"p{k}", {"name": "fixed"}, 0, plan=plan)
        write_run(tmp_path / f"q{k}", {"name": "llm", "prompt": f"{long}{k}{long}"}, 0)
    names = labels(compare([tmp_path]))
    assert len(set(names)) == 6
    assert "fixed plan.a=0 plan.b=0 plan.c=0 +2 more" in names
    assert max(map(len, names)) < 60


def test_labels_name_as_many_settings_as_tell_groups_apart():
    values = list(itertools.product((0, 1), repeat=4))
    requests = [
        {"world": "crafter", "designer": {"name": "none"}, "learner": {"x": 7, **dict(zip("abcd", row, strict=True))}}
        for row in values
    ]
    assert group_labels(requests) == [
        "none " + " ".join(f"learner.{key}={value}" for key, value in zip("abcd", row, strict=True)) for row in values
    ]
    few = [request for request in requests if sum(request["learner"][key] for key in "abc") in (0, 3)]
    assert group_labels(few)[0] == "none learner.a=0 learner.b=0 learner.d=0 +1 more"  # a and d are needed


def test_labels_name_differences_of_the_agent_between_designers():
    def request(designer: str, **more: Any) -> dict[str, Any]:
        return {"world": "crafter", "designer": {"name": designer}, "plan": {"cycles": 4}, **more}

    assert group_labels([request("none", learner={"gamma": 0.5}), request("dr", learner={"gamma": 0.9})]) == [
        "none learner.gamma=0.5", "dr learner.gamma=0.9"
    ]  # fmt: skip
    assert group_labels([request("none", learner={"gamma": 0.5}), request("dr", learner={"gamma": 0.5})]) == [
        "none", "dr"
    ]  # fmt: skip


def test_seeds_among_the_settings_of_a_designer_separate_groups(tmp_path):
    for k in range(2):
        write_run(tmp_path / f"d{k}", {"name": "mine", "seed": k}, 0)
    table = compare([tmp_path]).tables[0]
    assert [(group.label, group.folders) for group in table.groups] == [
        (f"mine seed={k}", (tmp_path / f"d{k}",)) for k in range(2)
    ]
    assert table.warnings == ()


def test_labels_that_look_numbered_are_unique():
    requests = [{"world": "crafter", "designer": {"name": name}} for name in ("x #2", "x", "x")]
    assert group_labels(requests) == ["x #2", "x", "x #3"]


def test_unfinished_runs_are_listed_and_left_out(tmp_path):
    write_seeds(tmp_path, "n", {"name": "none"}, 20, 2)
    write_run(tmp_path / "n-half", {"name": "none"}, 2, finished=False)
    comparison = compare([tmp_path])
    assert comparison.unfinished == (tmp_path / "n-half",)
    assert comparison.tables[0].groups[0].num_seeds == 2
    for text in (comparison.markdown(), comparison.text()):
        assert "Not finished, left out:" in text
        assert "n-half" in text


def test_a_comparison_has_a_short_representation(tmp_path):
    write_seeds(tmp_path, "n", {"name": "none"}, 20, 2)
    assert repr(compare([tmp_path])) == "<Comparison: 2 finished runs in 1 group (crafter), 0 not finished>"
    write_run(tmp_path / "half", {"name": "none"}, 2, finished=False)
    write_run(tmp_path / "heist", {"name": "none"}, 0, world="heist")
    assert repr(compare([tmp_path])) == "<Comparison: 3 finished runs in 2 groups (crafter, heist), 1 not finished>"
    assert repr(compare([tmp_path / "half"])) == "<Comparison: 0 finished runs in 0 groups, 1 not finished>"
    for number in range(2):
        write_run(tmp_path / f"other-{number}", {"name": "none"}, 0, world=f"other-{number}")
    assert "5 finished runs in 4 groups (4 worlds or domains)" in repr(compare([tmp_path]))


def test_comparison_says_so_if_no_run_is_finished(tmp_path):
    write_run(tmp_path / "n", {"name": "none"}, 2, finished=False)
    assert "No finished runs." in compare([tmp_path]).markdown()
    assert "No finished runs." in compare([tmp_path]).text()


def test_an_evaluation_below_a_folder_is_skipped_and_refused_if_it_is_named(tmp_path):
    write_run(tmp_path / "n", {"name": "none"}, 0)
    evaluation = tmp_path / "crafter-llm-agent"
    write_run(evaluation, {"name": "none"}, 0, finished=False, policy="llm")
    comparison = compare([tmp_path])
    assert labels(comparison) == ["none"]
    assert comparison.unfinished == ()
    with pytest.raises(RunError, match=r"is an evaluation.*Pass directories of training runs"):
        compare([tmp_path, evaluation])


def test_seeds_of_created_models_do_not_separate_groups(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"n-{seed}", {"name": "none"}, seed, 20, made={"size": {"width": 64}, "seed": seed})
    assert [(g.label, g.num_seeds) for g in compare([tmp_path]).tables[0].groups] == [("none", 3)]


def test_a_run_that_was_extended_after_final_steps_is_in_another_group(tmp_path):
    write_seeds(tmp_path, "n", {"name": "none"}, 20, 2)
    for seed, final_steps in ((2, 0), (3, 1000)):  # without final steps, it is the same as a new run
        folder = write_run(tmp_path / f"n-{seed}", {"name": "none"}, seed)
        entry = json.loads((folder / "run.json").read_text())
        entry["extended_from"] = [{"plan.cycles": 2, "plan.final_steps": final_steps}]
        (folder / "run.json").write_text(json.dumps(entry))
    table = compare([tmp_path]).tables[0]
    assert [(g.label, g.num_seeds) for g in table.groups] == [("none", 3), ("none extended_from.1.plan.cycles=2", 1)]


@pytest.mark.parametrize("extended_from", [1, "x", [1, None, [], {"plan.final_steps": "x"}], {"plan.final_steps": 1}])
def test_earlier_plans_of_the_wrong_type_are_left_out(tmp_path, extended_from):
    folder = write_run(tmp_path / "n", {"name": "none"}, 0)
    entry = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**entry, "extended_from": extended_from}))
    assert labels(compare([tmp_path])) == ["none"]


def test_duplicate_seed_counts_once_with_a_warning(tmp_path):
    write_seeds(tmp_path, "n", {"name": "none"}, 20, 2)
    write_run(tmp_path / "n-copy", {"name": "none"}, 1)
    table = compare([tmp_path]).tables[0]
    assert table.groups[0].num_seeds == 2
    assert any("n-copy is left out" in warning and "seed 1" in warning for warning in table.warnings)


def test_each_world_has_its_own_table(tmp_path):
    write_run(tmp_path / "a", {"name": "none"}, 0)
    write_run(tmp_path / "b", {"name": "none"}, 0, world="heist")
    comparison = compare([tmp_path])
    assert [table.task for table in comparison.tables] == ["crafter", "heist"]
    assert "## heist" in comparison.markdown()


def test_damaged_file_is_named(tmp_path):
    write_run(tmp_path / "a", {"name": "none"}, 0)
    (tmp_path / "a" / "summary.json").write_text('{"steps": ')
    with pytest.raises(RunError, match=r"cannot read .*summary\.json"):
        compare([tmp_path])
    (tmp_path / "a" / "run.json").write_text("[]")
    with pytest.raises(RunError, match=r"run\.json has no request"):
        compare([tmp_path])


@pytest.mark.parametrize("text", ["{}", "[]", "null", "3", '{"final": 5}'])
def test_a_summary_without_results_is_refused(tmp_path, text):
    run = write_run(tmp_path / "run", {"name": "none"}, seed=0)
    (run / "summary.json").write_text(text)
    with pytest.raises(RunError, match=r"summary\.json has no results; restore the file"):
        compare([run])


def test_a_run_without_rates_has_a_table(tmp_path):
    """The tasks of a domain may have no features."""
    run = write_run(tmp_path / "run", {"name": "none"}, seed=0)
    summary = json.loads((run / "summary.json").read_text())
    summary["final"]["skills"] = {}
    (run / "summary.json").write_text(json.dumps(summary))
    assert "20.0" in compare([run]).text(80)


def test_skills_that_were_possible_in_no_episode_are_left_out(tmp_path):
    run = write_run(tmp_path / "run", {"name": "none"}, seed=0)
    summary = json.loads((run / "summary.json").read_text())
    summary["final"]["skills"][SKILLS[1]] = rate_with_ci(0, 0).model_dump()
    (run / "summary.json").write_text(json.dumps(summary))
    text = compare([run]).markdown()
    assert SKILLS[0] in text
    assert SKILLS[1] not in text


# --- warnings


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"steps": 2_000_000}, "training steps: 1,960,000 for none; 2,480,000 for expert"),
        ({"observation": "pixels"}, "observation: symbols for none; pixels for expert"),
        ({"plan": {"cycles": 4, "cycle_steps": 9, "final_steps": 5}}, "final steps: 1,000,000 for none; 5 for expert"),
        ({"plan": {"cycles": 4, "cycle_steps": 60_000, "final_steps": 1_000_000}}, "steps in cycles: 480,000"),
    ],
)
def test_groups_that_trained_differently_get_a_warning(tmp_path, other, message):
    plan = {"cycles": 2, "cycle_steps": 240_000, "final_steps": 1_000_000}
    write_run(tmp_path / "a", {"name": "none"}, 0, plan=plan)
    write_run(tmp_path / "b", {"name": "expert"}, 0, **{"plan": plan, **other})
    comparison = compare([tmp_path])
    assert any(message in warning for warning in comparison.tables[0].warnings), comparison.tables[0].warnings
    assert f"**Warning:** {comparison.tables[0].warnings[0]}" in comparison.markdown()
    assert "Warning: these groups are not comparable" in comparison.text()


def test_equal_totals_get_no_warning(tmp_path):
    write_run(tmp_path / "a", {"name": "none"}, 0, plan={"cycles": 4, "cycle_steps": 120_000})
    write_run(tmp_path / "b", {"name": "expert"}, 0, plan={"cycles": 2, "cycle_steps": 240_000}, steps=1_480_128)
    assert compare([tmp_path]).tables[0].warnings == ()


# --- tables


def test_markdown_has_a_row_per_group_and_per_skill(tmp_path):
    write_seeds(tmp_path, "n", {"name": "none"}, 10)
    write_seeds(tmp_path, "l", LLM, 20, llm={"calls": 4, "prompt_tokens": 9000, "reply_tokens": 3000, "cost": 0.125})
    text = compare([tmp_path]).markdown()
    rows = parse_table(text, "designer")
    assert rows["designer"][:5] == [
        "seeds", "score in training %", "reward in training", "final score %", "final reward"
    ]  # fmt: skip
    assert rows["llm"][0] == "4"
    assert rows["llm"][3] == "20.1 [20.0, 20.3]"
    assert rows["llm"][5:] == ["480,000 + 1,480,000", "4", "0.12", "0:01:55"]
    assert rows["none"][5:] == ["480,000 + 1,480,000", "0", "-", "0:01:55"]
    skills = parse_table(text, "final success %")
    assert skills["final success %"] == ["none (n=4)", "llm (n=4)"]
    assert list(skills)[2:] == list(SKILLS)
    assert skills["collect_diamond"] == ["1.0 [1.0, 1.0]", "1.0 [1.0, 1.0]"]


def test_interval_entirely_above_the_baseline_has_a_star(tmp_path):
    write_seeds(tmp_path, "n", {"name": "none"}, 10, count=8)
    write_seeds(tmp_path, "l", LLM, 20, count=8)
    write_seeds(tmp_path, "r", {"name": "random"}, 10.1, count=8)
    text = compare([tmp_path]).markdown()
    wood = parse_table(text, "final success %")["collect_wood"]
    assert [cell.endswith("]\\*") for cell in wood] == [False, True, False]
    assert [parse_table(text, "designer")[name][2].endswith("*") for name in ("none", "llm", "random")] == [0, 1, 0]
    assert "* interval entirely above that of the baseline none" in text


@pytest.mark.parametrize("counts", [(7, 8), (8, 7), (3, 3)])
def test_fewer_than_eight_seeds_get_no_star(tmp_path, counts):
    write_seeds(tmp_path, "n", {"name": "none"}, 10, count=counts[0])
    write_seeds(tmp_path, "l", LLM, 60, count=counts[1])
    text = compare([tmp_path]).markdown()
    assert "]\\*" not in text
    assert "entirely above" not in text


def test_rounding_error_is_not_marked_as_significant(tmp_path):
    for name, count in (("none", 8), ("random", 9), ("fixed", 11)):
        for seed in range(count):
            write_run(tmp_path / f"{name}-{seed}", {"name": name}, seed, 33.3, wood=99.9)
    assert "]\\*" not in compare([tmp_path]).markdown()


def test_one_seed_has_neither_interval_nor_star(tmp_path):
    write_run(tmp_path / "n", {"name": "none"}, 0, 10)
    write_run(tmp_path / "l", LLM, 0, 60)
    assert parse_table(compare([tmp_path]).markdown(), "designer")["llm"][:4] == ["1", "57.0", "29.0", "60.0"]


def test_missing_values_are_shown_as_a_dash(tmp_path):
    write_seeds(tmp_path, "l", LLM, 20, 2, llm={"calls": 4, "cost": 0.5})
    file = tmp_path / "l-0" / "summary.json"
    summary = json.loads(file.read_text())
    file.write_text(json.dumps({**summary, "training": None, "llm": {"calls": 5, "cost": None}}))
    row = parse_table(compare([tmp_path]).markdown(), "designer")["llm"]
    assert (row[1], row[2], row[6], row[7]) == ("-", "-", "4.5", "-")


def test_ranking_steps_are_shown_separately(tmp_path):
    write_run(tmp_path / "n", {"name": "none"}, 0)
    file = write_run(tmp_path / "a", {"name": "adversarial"}, 0) / "summary.json"
    summary = json.loads(file.read_text())
    file.write_text(json.dumps({**summary, "steps": {**summary["steps"], "ranking": 960_000}}))
    comparison = compare([tmp_path])
    assert "480,000 + 1,480,000 + 960,000 ranking" in comparison.markdown()
    assert comparison.tables[0].warnings == ()


def test_markdown_escapes_bars_in_names(tmp_path):
    for model in ("a|b", "c|d"):
        write_run(tmp_path / model[0], {**LLM, "model": model}, 0)
    lines = [line for line in compare([tmp_path]).markdown().splitlines() if line.startswith("| llm")]
    assert [line.replace("\\|", "").count("|") for line in lines] == [11, 11]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_fits_the_terminal_and_shows_every_group_and_skill(tmp_path, width):
    names = ("none", "expert", "random", "fixed", "easy_to_hard", "adversarial", "alpha")
    for k, name in enumerate(names):
        write_seeds(tmp_path, name, {"name": name}, 80 + k)
    write_seeds(tmp_path, "gpt", LLM, 50)
    write_seeds(tmp_path, "other", {**LLM, "model": "anthropic:claude-opus"}, 50)
    text = compare([tmp_path]).text(width)
    assert max(map(len, text.splitlines())) <= width
    assert all(f"{name} (n=4)" in text for name in names)
    blocks = [line for line in text.splitlines() if line.startswith("collect_diamond")]
    assert sum(line.count("[1.0, 1.0]") for line in blocks) == 9
    assert (len(blocks) > 1) == (width < 160)
    assert "\x1b" not in text


def test_a_notebook_shows_tables(tmp_path):
    write_run(tmp_path / "a", {"name": "none"}, 0)
    comparison = compare([tmp_path])
    ipython = pytest.importorskip("IPython.core.formatters")
    data, _ = ipython.DisplayFormatter().format(comparison)
    assert data["text/markdown"] == comparison.markdown()


def test_text_is_returned_in_a_notebook_too(tmp_path, monkeypatch):
    class ZMQInteractiveShell:  # by this name, rich recognizes a notebook, in which it would display the text
        pass

    write_run(tmp_path / "a", {"name": "none"}, 0)
    text = compare([tmp_path]).text()
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    assert compare([tmp_path]).text() == text


WRONG_VALUES = (None, True, -1, 1e308, 10**400, "text", "\x00", [], [1], {}, {"a": {"b": []}})


def paths_in(value, prefix=()):
    """The path of every value in nested mappings."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*prefix, name)
            yield from paths_in(inner, (*prefix, name))


@pytest.mark.parametrize("name", ["run", "summary"])
def test_values_of_the_wrong_type_are_errors_or_left_out(tmp_path, name):
    """Whatever stands in the files of a run, they are compared or refused with an error message."""
    folders = [write_run(tmp_path / str(seed), LLM, seed) for seed in (0, 1)]
    file = folders[1] / f"{name}.json"
    original, refused = json.loads(file.read_text()), []
    for path in [(), *paths_in(original)]:
        for value in WRONG_VALUES:
            document = {"": json.loads(json.dumps(original))}
            holder, keys = document, ("", *path)
            for key in keys[:-1]:
                holder = holder[key]
            holder[keys[-1]] = value
            file.write_text(json.dumps(document[""]))
            try:
                comparison = compare(folders)
                assert comparison.markdown()
                assert comparison.text(80)
            except RunError as error:
                refused.append(str(error))
    assert all(str(folders[1]) in message for message in refused)
    assert name == "summary" or len(refused) > 10


def test_results_of_a_coevolution_with_wrong_types_are_left_out(tmp_path):
    folder = write_run(tmp_path / "run", {}, 0)
    entry = json.loads((folder / "run.json").read_text())
    entry["request"] = {"domain": "tools", "proposer": {"name": "genenv"}, "plan": 3, "seed": [0]}
    (folder / "run.json").write_text(json.dumps(entry))
    for by_feature in (None, [], {"steps": 3}, {"steps": {"1": "50", "2": 40, "3": None}}):
        (folder / "summary.json").write_text(json.dumps({"final_accuracy": "90", "final_accuracy_by": by_feature}))
        text = compare([folder]).markdown()
        assert ("steps 2" in text) == (by_feature == {"steps": {"1": "50", "2": 40, "3": None}})
        assert "steps 1" not in text


# --- names in a foreign run directory

HOSTILE = (
    "x\x1b]0;t\x07\n\n# Heading\n\n<script>alert(1)</script> [a](javascript:b) `c` **d** ![e](f)\r\x9b2J\u202e|g|\\"
)


def test_hostile_names_do_not_become_markup_or_escapes(tmp_path):
    for k, name in enumerate((HOSTILE, f"{HOSTILE}2")):
        folder = write_run(tmp_path / f"r{k}", {"name": name, HOSTILE: k}, k, world=HOSTILE)
        summary = json.loads((folder / "summary.json").read_text())
        summary["final"]["skills"] = {HOSTILE: {"value": 1.0}}
        (folder / "summary.json").write_text(json.dumps(summary))
    write_run(tmp_path / HOSTILE.replace("/", ""), {"name": "none"}, 0, finished=False)
    comparison = compare([tmp_path])
    for text in (comparison.markdown(), comparison.text()):
        assert all(line.isprintable() for line in text.split("\n")), text
    markdown = comparison.markdown()
    assert [line[:6] for line in markdown.splitlines() if line.startswith("#")] == ["## x ]"]
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert set(re.findall(r"<(\w+)", page)) == {"h2", "table", "thead", "tbody", "tr", "th", "td", "p", "ul", "li"}
    rows = re.findall(r"<tr>.*?</tr>", page, re.DOTALL)
    assert [len(re.findall(r"<t[hd]", row)) for row in rows] == [10, 10, 10, 3, 3]


def test_a_long_name_is_shortened(tmp_path):
    write_run(tmp_path / "r", {"name": "x" * 100_000}, 0, world="w" * 100_000)
    (table,) = compare([tmp_path]).tables
    assert len(table.task) < 100
    assert len(table.groups[0].label) < 100
