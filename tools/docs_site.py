"""Pages of the documentation site that are not files in docs/, and links between them. A hook of mkdocs.yml.

The README becomes the home page; CONTRIBUTING.md and the other documents beside it, the scripts in examples/ and the
cards in policies/ become pages of their own. The API reference is made from docstrings. Links are written for the
repository, so that they work there too, and are changed here: a link to a file that has a page leads to that page, a
link to another file leads to a copy of it, and a link to a folder becomes plain text.
"""

import io
import os
import posixpath
import re
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

from envgen.cli.main import commands, run

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("CONTRIBUTING.md", "SECURITY.md", "RELEASING.md", "CHANGELOG.md")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\]|!\[[^\]]*\]\([^)]*\))*)\]\(((?!\w+:|#)[^)\s]+)\)")
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def _members(module: str, names: str) -> tuple[str, ...]:
    return tuple(f"{module}.{name}" for name in names.split())


REFERENCE: dict[str, tuple[str, str, tuple[str, ...]]] = {  # page: title, introduction, objects with docstrings
    "api": (
        "Public API",
        "The functions of `envgen`, and what they return. `Designer`, and `World` and `Level`, which are also in\n"
        "`envgen`, have pages of their own: [Designers](designers.md) and [Worlds](worlds.md).",
        (
            *_members(
                "envgen",
                "train resume evaluate load_policy make_world compare diagnose watch record_episodes check_world "
                "coevolve evaluate_llm_agent run_benchmark",
            ),
            "envgen.TrainingRun", "envgen.curriculum.loop.TrainingSummary", "envgen.curriculum.evaluate.Evaluation",
            "envgen.runs.tables.Comparison", "envgen.curriculum.diagnosis.Diagnosis", "envgen.episodes_api.Recording",
            "envgen.CoevolutionRun", "envgen.coevolution.train.CoevolutionSummary",
            *_members("envgen.llm_agent.results", "LlmEvaluation EpisodeResult"),
            "envgen.benchmarks.results.BenchmarkResult", "envgen.EnvgenError",
        ),
    ),
    "worlds": (
        "Worlds",
        "How to write one is in the tutorial [A world of your own](../tutorials/world.md).",
        (
            *_members(
                "envgen.worlds.world",
                "World Level LevelEnv LevelVectorEnv EpisodeInfo LevelStats Skill SymbolMap TileGrid Probe SkillCheck "
                "EpisodeEnd sample_actions LevelError",
            ),
            *_members("envgen.worlds.gymnasium_world", "from_gymnasium Step"),
            *_members("envgen.worlds.python_world", "PythonWorld PythonEnv"),
            "envgen.sb3",
        ),
    ),
    "levels": (
        "Levels",
        "The settings of the levels of each world, with their defaults, which are those of the original.",
        (
            *_members("envgen.worlds.crafter.level", "CrafterLevel Inventory Vitals Near"),
            *_members("envgen.worlds.heist.level", "HeistLevel HeldKeys OpenDoors"),
            "envgen.worlds.minigrid.level.MiniGridLevel", "envgen.worlds.walker.level.WalkerLevel",
        ),
    ),
    "designers": (
        "Designers",
        "How to write one is in the tutorial [A designer of your own](../tutorials/designer.md).",
        (
            *_members(
                "envgen.designers.designer",
                "Designer Brief TrainingFacts Proposal ProposedLevel LevelChain AuditResult Cycle SuccessRate "
                "LevelOutcome ChainOutcome CycleDiagnosis SkillFailure EpisodeEnds DesignerWrapper DesignError",
            ),
            *_members("envgen.designers.sampler", "EpisodeDesigner LevelSampler SampledLevel LevelMeasurements"),
            "envgen.designers.buffer.LevelEpisode",
        ),
    ),
    "agents": (
        "Agents",
        "How to write one is in the tutorial [A learner of your own](../tutorials/learner.md).",
        (
            "envgen.agents.learner", "envgen.agents.policy", "envgen.agents.ppo.PPO",
            "envgen.agents.distillation.AchievementDistillation", "envgen.agents.networks",
        ),
    ),
    "settings": (
        "Settings",
        "Each of them is an option of the [command line](cli.md) and an entry of the mappings that `envgen.train`,\n"
        "`envgen.coevolve`, `envgen.evaluate_llm_agent` and `envgen.run_benchmark` take.",
        (
            *_members("envgen.curriculum.plan", "TrainingPlan PracticeSettings"),
            *_members("envgen.agents.settings", "PpoSettings LearnerSettings NetworkSettings"),
            "envgen.agents.distillation.DistillationSettings",
            *_members("envgen.designers.llm", "LlmConfig LlmSettings"), "envgen.designers.chat.runtime.LlmRuntime",
            "envgen.designers.chat.ledger.Budget", "envgen.designers.expert.ExpertSettings",
            "envgen.designers.alpha.AlphaSettings", "envgen.designers.sampler.ArchiveSettings",
            *_members("envgen.designers.ued", "DrSettings SflSettings PlrSettings AccelSettings"),
            "envgen.designers.baselines.RandomSettings",
            "envgen.llm_agent.settings", "envgen.benchmarks.settings", "envgen.sweep.settings",
            "envgen.coevolution.settings",
        ),
    ),
    "coevolution": (
        "Co-evolution",
        "How to write a domain is in the tutorial [A domain of your own](../tutorials/domain.md).",
        ("envgen.coevolution.tasks", "envgen.coevolution.losses"),
    ),
}  # fmt: skip

REFERENCE_OF = {  # page: the page of the reference that its end links to
    "index.md": "api", "get-started.md": "api", "envgen.md": "settings", "agent.md": "agents", "worlds.md": "worlds",
    "designers.md": "designers", "genenv.md": "coevolution", "tutorials/train.md": "api",
    "tutorials/designer.md": "designers", "tutorials/world.md": "worlds", "tutorials/learner.md": "agents",
    "tutorials/domain.md": "coevolution", "tutorials/other-libraries.md": "worlds", "sweeps.md": "cli",
    "benchmarks.md": "api", "llm-agent.md": "api", "crafter.md": "levels", "heist.md": "levels",
    "minigrid.md": "levels", "walker.md": "levels",
}  # fmt: skip


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
            boost = "---\nsearch: {boost: 0.5}\n---\n"  # below the guides and the reference in search results
            contents[page] = f"{boost}# {Path(path).name}\n\n```python\n{(ROOT / path).read_text()}```\n"
    contents["examples/index.md"] = _examples_page()
    for name, (title, introduction, objects) in REFERENCE.items():
        options = ", show_if_no_docstring: true" if name == "levels" else ""  # names that need no explanation
        directives = "\n\n".join(
            f"::: {path}\n    options: {{toc_label: {_short_name(path)}{options}}}" for path in objects
        )
        contents[f"reference/{name}.md"] = f"# {title}\n\n{introduction}\n\n{directives}\n"
    contents["reference/cli.md"] = _command_line_page()
    for page, content in contents.items():
        files.append(File.generated(config, page, content=content, inclusion=InclusionLevel.INCLUDED))
    return files


def _short_name(path: str) -> str:
    """The name of a class alone, or the path of a module or function without that of the package."""
    name = path.rpartition(".")[2]
    return name if name[0].isupper() else path.removeprefix("envgen.")


def _examples_page() -> str:
    rows = []
    for file in sorted((ROOT / "examples").glob("*.py")):
        summary = file.read_text().removeprefix('"""').partition("\n")[0].removesuffix('"""')
        rows.append(f"| [{file.name}]({file.stem}.md) | {summary} |")
    return "# Examples\n\nScripts that the tests run.\n\n| script | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _command_line_page() -> str:
    """The help of every command."""
    functions = commands(())
    rows, sections = [], []
    for name, function in functions.items():
        summary = " ".join((function.__doc__ or "").partition("\n\n")[0].split()).partition(". ")[0].removesuffix(".")
        rows.append(f"| [`envgen {name}`](#envgen-{name}) | {summary} |")
        usage, description, options = _help_of(name, functions)
        code = [f"```text\n{part.strip()}\n```" for part in (usage, options)]
        sections.append(f"## envgen {name}\n\n{code[0]}\n\n{description.strip()}\n\n{code[1]}\n")
    introduction = (
        "What `envgen COMMAND --help` prints. The options of a designer or of a learner are shown where it is named,\n"
        "as in `envgen train --designer llm --help`."
    )
    table = "\n".join(("| command | |", "|---|---|", *rows))
    return f"# Command line\n\n{introduction}\n\n{table}\n\n" + "\n".join(sections)


def _help_of(command: str, functions: Mapping[str, Callable[..., Any]]) -> tuple[str, str, str]:
    """The help of a command: usage, description and tables of options."""
    text = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with patch.dict(os.environ, COLUMNS="80"), redirect_stdout(text), suppress(SystemExit):
        run(functions, [command, "--help"])
    text.seek(0)
    head, frame, tables = text.read().partition("╭")
    usage, _, description = head.partition("\n\n")
    return usage, description, frame + tables


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
            if not (ROOT / in_repository).is_file():
                return text
            in_site = f"files/{in_repository}"
            if files.get_file_from_path(in_site) is None:
                files.append(File.generated(config, in_site, abs_src_path=str(ROOT / in_repository)))
        link = os.path.relpath(in_site, posixpath.dirname(page.file.src_uri) or ".")
        return f"{mark}[{text}]({link}{'#' if anchor else ''}{anchor})"

    if page.file.src_uri == "examples/index.md":
        return markdown
    if reference := REFERENCE_OF.get(page.file.src_uri):
        title = "Command line" if reference == "cli" else REFERENCE[reference][0]
        target = os.path.relpath(f"reference/{reference}.md", posixpath.dirname(page.file.src_uri) or ".")
        markdown += f"\n\n---\n\nReference: [{title}]({target})\n"
    parts = FENCE.split(markdown)  # code is left as it is
    return "".join(part if k % 2 else LINK.sub(replace, part) for k, part in enumerate(parts))
