"""What the README and the docs show can be typed as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
EXAMPLES = [
    (page.name, k, code)
    for page in PAGES
    for k, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]
SHORTER = {  # what takes minutes takes seconds here
    'plan_for("quick")': 'plan_for("quick", cycles=1, cycle_steps=9000, final_steps=9000, episodes=4, audit_steps=9)',
    "steps=1_000_000": "steps=9000",
    "episodes=256": "episodes=4",
}
SHOWS = {
    ("README.md", 0): "4 episodes of crafter",
    ("README.md", 1): "3 wood",
    ("agent.md", 0): "4 episodes of crafter",
}


@pytest.mark.parametrize(("page", "number", "code"), EXAMPLES, ids=[f"{page}-{k}" for page, k, _ in EXAMPLES])
def test_examples_run(page, number, code, tmp_path):
    for long, short in SHORTER.items():
        code = code.replace(long, short)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert SHOWS.get((page, number), "") in done.stdout


def test_every_file_that_is_linked_is_there():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links {target}"


def test_importing_the_package_compiles_and_imports_no_world():
    program = "import sys, envgen; print([m for m in ('numba', 'torch', 'crafter') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
