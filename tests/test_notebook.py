"""examples/quickstart.ipynb runs from top to bottom, with a smaller plan, and says what its install cell needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "quickstart.ipynb"
SMALL = """PLAN = {"cycles": 1, "levels": 2, "cycle_steps": 1024, "final_steps": 512, "episodes": 4, "audit_steps": 20,
        "feedback_groups": 2, "feedback_episodes": 2}
EPISODES = 4
FOLDER = "out/quickstart"
"""


@pytest.mark.slow
def test_the_notebook_runs(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    (parameters,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
    parameters.source = SMALL
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    text = "".join(output.get("text", "") for output in outputs)
    assert "wood" in text
    assert "4 episodes of crafter" in text
    pictures = [output for output in outputs if {"image/png", "image/gif"} & set(output.get("data", {}))]
    assert len(pictures) == 3
    assert (tmp_path / "episode.gif").stat().st_size > 1000


def test_the_notebook_has_no_outputs_and_installs_from_git():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert not any(cell.get("outputs") for cell in cells)
    (install,) = ["".join(cell["source"]) for cell in cells if "install" in cell["metadata"].get("tags", ())]
    assert "git+{REPOSITORY}" in install
    program = "import importlib.util; importlib.util.find_spec = lambda name: None\n"  # nothing is installed
    result = subprocess.run([sys.executable, "-c", program + install], capture_output=True, text=True)
    assert result.returncode == 1
    assert "Set REPOSITORY to the address" in result.stderr
