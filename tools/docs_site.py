"""Pages of the documentation site that are not files in docs/, and links between them. A hook of mkdocs.yml.

The README becomes the home page; CONTRIBUTING.md and the other documents beside it, the scripts in examples/ and the
cards in policies/ become pages of their own. The API reference is made from docstrings. Links are written for the
repository, so that they work there too, and are changed here: a link to a file that has a page leads to that page, a
link to any other file becomes plain text.
"""

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

import envgen

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("CONTRIBUTING.md", "SECURITY.md", "RELEASING.md", "CHANGELOG.md")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\]|!\[[^\]]*\]\([^)]*\))*)\]\(((?!\w+:|#)[^)\s]+)\)")
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)
REFERENCE: dict[str, tuple[str, tuple[str, ...]]] = {  # page: title, objects with docstrings
    "api": ("Public API", tuple(f"envgen.{name}" for name in envgen.__all__)),
    "worlds": (
        "Worlds",
        ("envgen.worlds.world", "envgen.worlds.python_world", "envgen.worlds.gymnasium_world", "envgen.sb3"),
    ),
    "designers": ("Designers", ("envgen.designers.designer",)),
    "agents": (
        "Agents",
        ("envgen.agents.learner", "envgen.agents.policy", "envgen.agents.ppo.PPO", "envgen.agents.networks"),
    ),
    "settings": (
        "Settings",
        ("envgen.curriculum.plan", "envgen.agents.settings", "envgen.coevolution.settings"),
    ),
    "coevolution": ("Co-evolution", ("envgen.coevolution.tasks", "envgen.coevolution.losses")),
}


def repository_pages() -> dict[str, str]:
    """The page of each file outside docs/ that has one: the source path of the page by the path in the repository."""
    pages = {"README.md": "index.md", "examples": "examples/index.md"}
    pages |= {name: name.lower() for name in DOCUMENTS}
    pages |= {f"examples/{file.name}": f"examples/{file.stem}.md" for file in (ROOT / "examples").glob("*.py")}
    pages |= {
        f"policies/{card.parent.name}/README.md": f"policies/{card.parent.name}.md"
        for card in (ROOT / "policies").glob("*/README.md")
    }
    return pages


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    contents = {}
    for path, page in repository_pages().items():
        if path.endswith(".md"):
            contents[page] = re.sub(r"\A---\n.*?^---\n", "", (ROOT / path).read_text(), flags=re.DOTALL | re.MULTILINE)
        elif path.endswith(".py"):
            contents[page] = f"# {Path(path).name}\n\n```python\n{(ROOT / path).read_text()}```\n"
    contents["examples/index.md"] = _examples_page()
    for name, (title, objects) in REFERENCE.items():
        directives = "\n\n".join(f"::: {path}" for path in objects)
        contents[f"reference/{name}.md"] = f"# {title}\n\n{directives}\n"
    for page, content in contents.items():
        files.append(File.generated(config, page, content=content, inclusion=InclusionLevel.INCLUDED))
    return files


def _examples_page() -> str:
    rows = []
    for file in sorted((ROOT / "examples").glob("*.py")):
        summary = file.read_text().removeprefix('"""').partition("\n")[0].removesuffix('"""')
        rows.append(f"| [{file.name}]({file.stem}.md) | {summary} |")
    return "# Examples\n\nScripts that the tests run.\n\n| script | |\n|---|---|\n" + "\n".join(rows) + "\n"


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Change links that were written for the repository into links of the site."""
    pages = repository_pages()
    by_page = {target: source for source, target in pages.items()}
    source = by_page.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def replace(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        text = LINK.sub(replace, text)
        path, _, anchor = target.partition("#")
        in_repository = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        in_site = pages.get(in_repository, in_repository.removeprefix("docs/"))
        if files.get_file_from_path(in_site) is None:
            return text
        link = os.path.relpath(in_site, posixpath.dirname(page.file.src_uri) or ".")
        return f"{mark}[{text}]({link}{'#' if anchor else ''}{anchor})"

    if page.file.src_uri == "examples/index.md":
        return markdown
    parts = FENCE.split(markdown)  # code is left as it is
    return "".join(part if k % 2 else LINK.sub(replace, part) for k, part in enumerate(parts))
