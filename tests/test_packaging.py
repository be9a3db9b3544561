"""The wheel and the source distribution contain the package, and the wheel works in a clean environment."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import envgen
from envgen.imports import EXTRAS, MissingExtraError, require_extra

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMMANDS = {  # what is missing without extras: a command, and the extra that its error names
    "train": "train",
    "coevolve tools": "genenv",
    "studio": "studio",
}
PROGRAMS = {  # the same in Python
    "envgen.train('crafter')": "train",
    "envgen.coevolve()": "genenv",
    "from envgen.designers.chat.backends import OpenAIBackend; OpenAIBackend('gpt-5')": "llm",
    "from envgen.designers.chat.backends import AnthropicBackend; AnthropicBackend('claude-sonnet-4-5')": "anthropic",
    "from envgen.runs.loggers import check_loggers; check_loggers(['tensorboard'])": "tensorboard",
    "from envgen.runs.loggers import check_loggers; check_loggers(['wandb'])": "wandb",
    "from envgen.coevolution.domains.reasoning_gym.package import load_factory; load_factory()": "reasoning-gym",
    "gymnasium.make('envgen/Crafter-v0', render_mode='human').reset()": "play",
}


def find_pythons() -> list[str]:
    """One interpreter of each Python version that the project supports, as far as they are installed."""
    found = {f"{sys.version_info.major}.{sys.version_info.minor}": sys.executable}
    for minor in range(11, 15):
        candidates = [
            shutil.which(f"python3.{minor}"),
            *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3.{minor}"),
        ]
        for python in filter(None, candidates):
            result = subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True)
            if result.returncode == 0:
                found.setdefault(f"3.{minor}", str(python))
    return list(found.values())


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return out


def test_the_version_is_the_same_everywhere():
    assert PROJECT["dynamic"] == ["version"]  # it is read from envgen/__init__.py
    assert f"\nversion: {envgen.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert changes[0] == envgen.__version__


def test_no_document_installs_the_package_of_this_name_from_an_index():
    """The name envgen belongs to another project there."""
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.template"),
             *(ROOT / "examples").glob("*.*"), *(ROOT / "policies").rglob("*.md")]  # fmt: skip
    for file in files:
        assert not re.search(r"pip install (-\S+ )*['\"]?envgen(?![-\w])", file.read_text()), file
    template = (ROOT / "src/envgen/templates/world/pyproject.toml.template").read_text()
    assert 'dependencies = ["envgen>=$version"]' in template


def test_every_extra_is_named_by_an_error_message():
    no_command = {"test", "lint", "docs", "box2d", "alfworld"}  # Gymnasium names box2d, and only tests use alfworld
    extras = PROJECT["optional-dependencies"].keys() - no_command
    sources = "".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    tested = {*COMMANDS.values(), *PROGRAMS.values()}
    assert tested <= extras
    for extra in extras - tested - EXTRAS.keys():  # `require_extra` names those
        assert f"envgen[{extra}]" in sources, f"no error message says that the extra {extra} is missing"


@pytest.mark.slow
def test_wheel_and_sdist_hold_the_package_and_its_type_marker(dist):
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {file.relative_to(ROOT / "src").as_posix() for file in (ROOT / "src" / "envgen").rglob("*.py")}
    assert modules <= names
    assert "envgen/py.typed" in names
    assert not any(name.startswith(("tests", "benchmarks", "docs")) for name in names)
    with tarfile.open(sdist) as archive:
        assert any(name.endswith("src/envgen/__init__.py") for name in archive.getnames())
    assert f"-{envgen.__version__}-" in wheel.name
    assert sdist.stat().st_size < 8 << 20


@pytest.mark.slow
def test_twine_accepts_the_distributions(dist):
    files = map(str, dist.iterdir())
    result = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("PASSED") == 2


@pytest.mark.slow
@pytest.mark.parametrize("versions", ["pinned", "oldest"])
@pytest.mark.parametrize("interpreter", find_pythons())
def test_the_wheel_works_in_a_clean_environment(interpreter, versions, dist, tmp_path):
    """With the pinned versions of its dependencies, and with the oldest that pyproject.toml allows."""
    (wheel,) = dist.glob("*.whl")
    constraints = ROOT / "constraints.txt"
    if versions == "oldest":
        if interpreter != find_pythons()[0] or sys.version_info[:2] != (3, 11):
            pytest.skip("the oldest versions have no wheels for later versions of Python")
        constraints = tmp_path / "constraints.txt"
        constraints.write_text("\n".join(dependency.replace(">=", "==") for dependency in PROJECT["dependencies"]))
    subprocess.run([interpreter, "-m", "venv", str(tmp_path / "venv")], check=True)
    python, command = tmp_path / "venv" / "bin" / "python", tmp_path / "venv" / "bin" / "envgen"
    install = [str(python), "-m", "pip", "install", "--quiet", "-c", str(constraints), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, text=True, cwd=tmp_path)

    def run(*args: str) -> subprocess.CompletedProcess:
        return subprocess.run(args, capture_output=True, text=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})

    assert run(str(python), "-c", "import envgen; print(envgen.__version__)").stdout == f"{envgen.__version__}\n"
    for args in (["--help"], ["--version"], ["worlds"], ["designers"], ["train", "--help"]):
        result = run(str(command), *args)
        assert result.returncode == 0, (args, result.stderr)
        assert result.stdout
    for arguments, extra in COMMANDS.items():
        result = run(str(command), *arguments.split())
        assert result.returncode == 2, arguments
        assert f"pip install 'envgen[{extra}]'" in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    for program, extra in PROGRAMS.items():
        result = run(str(python), "-c", f"import gymnasium, envgen; {program}")
        assert result.returncode == 1, program
        assert re.search(rf"pip install ['\"]envgen\[{extra}\]['\"]$", result.stderr.strip()), (program, result.stderr)


def test_a_folder_with_the_name_of_a_missing_package_is_not_the_package(tmp_path, monkeypatch):
    (tmp_path / "some_library").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(EXTRAS, "some_extra", ("some_library",))
    with pytest.raises(MissingExtraError, match=r"a test needs some_library: pip install 'envgen\[some_extra\]'"):
        require_extra("some_extra", "a test")
