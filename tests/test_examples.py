"""Every script in examples/ runs as it is, in a process and a folder of its own, and fits on a page."""

import inspect
import os
import runpy
import sys
from pathlib import Path

import pytest

from forked import run_with_output

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
REQUIRED_PACKAGES = {
    "cleanrl_crafter.py": ("torch",),
    "custom_domain.py": ("torch", "transformers", "accelerate"),
    "custom_designer.py": ("torch",),
    "custom_learner.py": ("torch",),
    "custom_world.py": ("torch",),
    "gymnasium_world.py": ("torch",),
    "level_file.py": ("torch",),
    "llm_designer_offline.py": ("torch", "openai"),
    "load_and_record.py": ("torch",),
    "minigrid_map.py": (),
    "sb3_crafter.py": ("stable_baselines3",),
}
EXPECTED_OUTPUT = {
    "cleanrl_crafter.py": "4,096 steps",
    "custom_domain.py": "accuracy",
    "custom_designer.py": "steps in levels",
    "custom_learner.py": "steps in levels",
    "custom_world.py": "reach_goal",
    "gymnasium_world.py": "balance_200",
    "level_file.py": "steps in levels",
    "llm_designer_offline.py": "2 calls",
    "load_and_record.py": "51 frames",
    "minigrid_map.py": "the expert picked up the ball",
    "sb3_crafter.py": "per episode of the original Crafter",
}


def run_example(script: Path, folder: Path, *arguments: str) -> str:
    """What an example prints. To refresh the recorded conversation: python examples/llm_designer_offline.py record"""
    process = run_with_output(_run_script, script, folder, arguments)
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout


def _run_script(script: Path, folder: Path, arguments: tuple[str, ...]) -> None:
    os.chdir(folder)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    sys.modules.pop(script.stem, None)  # another test may have imported the script, and `inspect` remembers it by its
    inspect.modulesbyfile.clear()  # file, so that it would not find the docstrings of settings
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_runs(script: Path, tmp_path: Path):
    for package in REQUIRED_PACKAGES[script.name]:
        pytest.importorskip(package)
    assert EXPECTED_OUTPUT[script.name] in run_example(script, tmp_path)
    assert not list(tmp_path.iterdir())  # examples clean up after themselves


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_is_under_60_lines(script: Path):
    assert len(script.read_text().splitlines()) < 60
