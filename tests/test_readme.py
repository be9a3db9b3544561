"""What the README and the docs show can be typed as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = [
    (page.name, k, code)
    for page in (ROOT / "README.md", ROOT / "docs" / "crafter.md")
    for k, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize(("page", "number", "code"), EXAMPLES, ids=[f"{page}-{k}" for page, k, _ in EXAMPLES])
def test_examples_run(page, number, code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if page == "README.md":
        assert "3 wood" in done.stdout
        assert "table" in done.stdout


def test_every_file_that_is_linked_is_there():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links {target}"


def test_importing_the_package_compiles_and_imports_no_world():
    program = "import sys, envgen; print([m for m in ('numba', 'torch', 'crafter') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
