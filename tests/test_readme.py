"""The code, links and commands in the README and the docs work."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from envgen.cli.main import main
from forked import run_with_output

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RESULTS = tuple(sorted((DOCS / "results").rglob("README.md")))
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md")),
    *sorted(page for page in DOCS.rglob("*.md") if (DOCS / "results") not in page.parents),
)
PYTHON_BLOCK = re.compile(r"(?:^<!-- from (\S+) -->\n)?^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [
    (page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT).as_posix(), source, code)
    for page in PAGES
    for source, code in PYTHON_BLOCK.findall(page.read_text())
]
EXCERPTS = [(page, source, code) for page, source, code in BLOCKS if source]
NAMES = [page for page, source, _ in BLOCKS if not source]
CODE_BLOCKS = [
    (page, NAMES[:k].count(page), code)
    for k, (page, code) in enumerate((page, code) for page, source, code in BLOCKS if not source)
]
FRAGMENTS = {
    ("agent.md", 4),
    ("benchmarks.md", 0),
    ("envgen.md", 1),
    ("envgen.md", 2),
    ("genenv.md", 1),
    ("llm-agent.md", 0),
    *(("worlds.md", k) for k in (2, 3, 4, 5, 6, 7)),
}  # parts of a larger program, calls of a server, or what needs data or a run
REQUIRED_PACKAGES = {("walker.md", 0): "Box2D", ("worlds.md", 1): "Box2D"}
SMALL = '{"cycles": 1, "cycle_steps": 9000, "final_steps": 9000, "episodes": 4, "audit_steps": 9}'
REPLACEMENTS = {  # shorten what takes minutes
    'preset="quick", folder="out/mine")': f'preset="quick", folder="out/mine", plan={SMALL})',
    "steps=1_000_000": "steps=9000",
    "episodes=256": "episodes=4",
}
EXPECTED_OUTPUT = {
    ("README.md", 0): "3 wood",
    ("README.md", 1): "After cycle 1, in the original: score",
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
    result = run_with_output(_run_code, code, page, tmp_path)
    assert result.returncode == 0, result.stderr
    assert EXPECTED_OUTPUT.get((page, number), "") in result.stdout


def _run_code(code: str, page: str, folder: Path) -> None:
    os.chdir(folder)
    exec(compile(code, page, "exec"), {"__name__": "__main__"})


def test_expected_output_names_existing_blocks():
    assert EXPECTED_OUTPUT.keys() <= {(page, k) for page, k, _ in CODE_BLOCKS}
    text = "".join(code for _, _, code in CODE_BLOCKS)
    assert all(long in text for long in REPLACEMENTS)


@pytest.mark.parametrize(("page", "source", "code"), EXCERPTS, ids=[f"{page}-{source}" for page, source, _ in EXCERPTS])
def test_excerpts_are_part_of_the_file_that_they_name(page, source, code):
    """The tests run these files, so an excerpt need not run on its own."""
    text = (ROOT / source).read_text()
    indents = {line[: len(line) - len(line.lstrip())] for line in text.splitlines()}
    assert any(textwrap.indent(code, indent) in text for indent in indents), f"{page}: not in {source}"


def slug(heading: str) -> str:
    """The anchor that GitHub and the site give to a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {slug(heading) for heading in re.findall(r"^#+ (.+)", text, re.MULTILINE)}


def test_linked_files_and_anchors_exist():
    for page in (*PAGES, *RESULTS):
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\((?!\w+:)([^)]+)\)", text):
            path, _, anchor = target.partition("#")
            file = page.parent / path if path else page
            assert file.exists(), f"{page.name} links {target}"
            assert not anchor or anchor in anchors(file), f"{page.name} links {target}"


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = set(re.findall(r"[\w./-]+\.md", navigation))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if page.name != "discussion.md"}
    assert not pages - listed, "add these pages to `nav` in mkdocs.yml"
    generated = {page for page in listed if page.partition("/")[0] in ("reference", "examples", "policies")}
    assert listed - generated - pages == {"index.md", "contributing.md", "security.md", "releasing.md", "changelog.md"}


def test_every_figure_has_a_command():
    table = dict(
        (figure, row[1])
        for row in re.findall(r"^\| (`.*?) \| (.*?) \|$", (DOCS / "images" / "README.md").read_text(), re.MULTILINE)
        for figure in re.findall(r"`([^`]+)`", row[0])
    )
    figures = {file.relative_to(ROOT).as_posix() for end in ("png", "gif") for file in DOCS.rglob(f"*.{end}")}
    assert table.keys() == figures
    for command in table.values():
        script = re.search(r"python (\S+\.py)", command)
        assert (ROOT / script[1]).exists() if script else "`envgen " in command


@pytest.mark.slow
def test_the_site_is_built_without_warnings_and_without_a_network(tmp_path):
    pytest.importorskip("mkdocs")
    environment = {
        **os.environ,
        "NO_MKDOCS_2_WARNING": "1",
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
    }
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr
    for page in ("index", "tutorials/train", "reference/api", "examples/custom_world", "policies/crafter-far"):
        html = (tmp_path / f"{page}.html").read_text()
        loaded = re.findall(r"<(?:script|img|link)[^>]+?(?:src|href)=\"?(https?:[^\" >]+)", html)
        assert not loaded, (page, loaded)
    assert "load_policy" in (tmp_path / "reference" / "api.html").read_text()
    assert (tmp_path / "files" / "CITATION.cff").read_text() == (ROOT / "CITATION.cff").read_text()


def help_of(capsys, monkeypatch, *command: str) -> str:
    monkeypatch.setattr(sys, "argv", ["envgen", *command, "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    return capsys.readouterr().out


def test_options_of_documented_commands_exist(capsys, monkeypatch):
    """Every `--option` in a documented command is in the help of that command."""
    help_texts: dict[tuple[str, ...], str] = {}
    unknown = []
    for page in PAGES:
        for command, arguments in COMMAND.findall(page.read_text().replace("\\\n", " ")):
            # the designer and the learner have options of their own
            chosen = re.findall(r"(--designer|--learner) ([a-z-]+)(?= |$)", arguments)
            options = [word for pair in chosen for word in pair]
            key = (command, *options)
            if key not in help_texts:
                help_texts[key] = help_of(capsys, monkeypatch, *key)
                if command == "sweep":  # the options of its runs are those of train
                    help_texts[key] += help_of(capsys, monkeypatch, "train", *options)
            for option in re.findall(r"(?<!\S)--[a-z][a-z.-]*", arguments):
                if f"{option} " not in help_texts[key] and f"{option}," not in help_texts[key]:
                    unknown.append(f"{page.name}: envgen {command} {option}")
    assert len(help_texts) >= 6
    assert not unknown
