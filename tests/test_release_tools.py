"""The data set of results is complete and its levels are valid."""

import json
import subprocess
import sys
from pathlib import Path

import yaml

import envgen

ROOT = Path(__file__).parents[1]


def test_the_data_set_is_built_and_its_levels_are_valid(tmp_path):
    command = [sys.executable, str(ROOT / "tools" / "dataset.py"), "--out", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    tables = {
        file.stem: [json.loads(line) for line in file.read_text().splitlines()] for file in tmp_path.glob("*.jsonl")
    }
    _, header, text = (tmp_path / "README.md").read_text().split("---\n", 2)
    configs = {config["config_name"]: config["data_files"] for config in yaml.safe_load(header)["configs"]}
    assert configs == {name: f"{name}.jsonl" for name in tables}
    assert min(map(len, tables.values())) > 0
    for name, rows in tables.items():
        assert f"| `{name}` | {len(rows):,} |" in text
        assert len({tuple(row) for row in rows}) == 1  # all rows have the same fields
    for name, columns in {"runs": ("study", "run"), "levels": ("study", "run", "cycle", "number")}.items():
        keys = [tuple(row[column] for column in columns) for row in tables[name]]
        assert len(keys) == len(set(keys))
    assert any(json.loads(row["chain"])["skill"] for row in tables["levels"] if row["chain"])
    worlds = {name: envgen.make_world(name) for name in {row["world"] for row in tables["levels"]}}
    for row in tables["levels"]:
        worlds[row["world"]].Level.parse(json.loads(row["level"]))
    studies = {row["study"] for rows in tables.values() for row in rows}
    for study in studies:
        assert (ROOT / "docs" / "results" / study / "README.md").exists()
    run = next(row for row in tables["runs"] if (row["designer"], row["seed"]) == ("none", 100))
    summary = json.loads((ROOT / "docs/results/envgen-crafter-symbols/runs/none-100/summary.json").read_text())
    assert run["final_score"] == summary["final"]["score"]["value"]
