"""The code, links and commands in the README and the docs work."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
CODE_BLOCKS = [
    (page.name, k, code)
    for page in PAGES
    for k, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]
FRAGMENTS = {
    ("agent.md", 4),
    ("envgen.md", 1),
    ("llm-agent.md", 0),
    *(("worlds.md", k) for k in (2, 3, 4, 5)),
}  # parts of a larger program, or calls of a server
REQUIRED_PACKAGES = {("worlds.md", 1): "Box2D"}
SMALL = '{"cycles": 1, "cycle_steps": 9000, "final_steps": 9000, "episodes": 4, "audit_steps": 9}'
REPLACEMENTS = {  # shorten what takes minutes
    'preset="quick", folder="out/mine")': f'preset="quick", folder="out/mine", plan={SMALL})',
    "steps=1_000_000": "steps=9000",
    "episodes=256": "episodes=4",
}
EXPECTED_OUTPUT = {
    ("README.md", 0): "After cycle 1, in the original: score",
    ("README.md", 1): "3 wood",
    ("agent.md", 0): "4 episodes of crafter",
    ("genenv.md", 0): "1.0",
}
COMMAND = re.compile(r"^envgen ([a-z][a-z-]*) ?([^#\n]*)", re.MULTILINE)


@pytest.mark.parametrize(("page", "number", "code"), CODE_BLOCKS, ids=[f"{page}-{k}" for page, k, _ in CODE_BLOCKS])
def test_code_blocks_run(page, number, code, tmp_path):
    if (page, number) in FRAGMENTS:
        compile(code, page, "exec")
        return
    if (page, number) in REQUIRED_PACKAGES:
        pytest.importorskip(REQUIRED_PACKAGES[page, number])
    for long, short in REPLACEMENTS.items():
        code = code.replace(long, short)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert EXPECTED_OUTPUT.get((page, number), "") in result.stdout


def test_expected_output_names_existing_blocks():
    assert EXPECTED_OUTPUT.keys() <= {(page, k) for page, k, _ in CODE_BLOCKS}
    text = "".join(code for _, _, code in CODE_BLOCKS)
    assert all(long in text for long in REPLACEMENTS)


def test_linked_files_exist():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links {target}"


def test_options_of_documented_commands_exist():
    """Every `--option` in a documented command is in the help of that command."""
    help_texts: dict[tuple[str, ...], str] = {}
    unknown = []
    for page in PAGES:
        for command, arguments in COMMAND.findall(page.read_text().replace("\\\n", " ")):
            # the designer and the learner have options of their own
            chosen = re.findall(r"(--designer|--learner) ([a-z-]+)(?= |$)", arguments)
            key = (command, *(word for pair in chosen for word in pair))
            if key not in help_texts:
                program = [sys.executable, "-m", "envgen.cli", *key, "--help"]
                help_texts[key] = subprocess.run(program, capture_output=True, text=True).stdout
            for option in re.findall(r"(?<!\S)--[a-z][a-z.-]*", arguments):
                if f"{option} " not in help_texts[key] and f"{option}," not in help_texts[key]:
                    unknown.append(f"{page.name}: envgen {command} {option}")
    assert len(help_texts) >= 6
    assert not unknown
