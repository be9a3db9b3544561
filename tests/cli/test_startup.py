"""The command line starts everywhere, also without the optional extras."""

import os
import subprocess
import sys
from contextlib import suppress

import pytest
from commands import envgen, envgen_forked

from envgen import __version__

OPTIONAL = (
    "torch",
    "safetensors",
    "rich",
    "matplotlib",
    "openai",
    "anthropic",
    "transformers",
    "tokenizers",
    "accelerate",
)
WITHOUT_EXTRAS = f"""
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OPTIONAL!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *args: None if name in {OPTIONAL!r} else real(name, *args)
sys.argv = ["envgen", *sys.argv[1:]]
from envgen.cli.main import main
main()
"""
COMMANDS = (
    "demo",
    "train",
    "coevolve",
    "evaluate",
    "watch",
    "diagnose",
    "compare",
    "studio",
    "sweep",
    "stats",
    "preview",
    "play",
    "worlds",
    "designers",
    "bench",
)


def without_extras(*args: str, cwd=None) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS, *args], capture_output=True, text=True, cwd=cwd)


def test_version_is_printed():
    result = envgen("--version")
    assert result.returncode == 0
    assert result.stdout == f"envgen {__version__}\n"


def test_help_lists_every_command_without_extras():
    result = without_extras("--help")
    assert result.returncode == 0, result.stderr
    for command in COMMANDS:
        assert command in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_works_without_extras(command):
    result = without_extras(command, "--help")
    assert result.returncode == 0, result.stderr
    assert "usage: envgen" in result.stdout


@pytest.mark.parametrize(
    ("args", "extra"),
    [
        (["train"], "train"),
        (["train", "--folder=out/a.b"], "train"),
        (["evaluate", "out"], "train"),
        (["watch", "out"], "train"),
        (["compare", "out"], "train"),
        (["diagnose", "out"], "train"),
        (["demo"], "train"),
        (["studio"], "studio"),
        (["sweep"], "train"),
        (["coevolve"], "genenv"),
    ],
)
def test_a_missing_extra_is_named(args, extra, tmp_path):
    result = without_extras(*args, cwd=tmp_path)
    assert result.returncode == 2
    assert f"pip install 'envgen[{extra}]'" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


API_WITHOUT_EXTRAS = (
    WITHOUT_EXTRAS.partition("sys.argv")[0]
    + """
import envgen
for name, arguments in {
    "train": (), "resume": ("out",), "evaluate": ("out",), "diagnose": ("out",), "compare": ("out",),
    "evaluate_llm_agent": ("crafter", "manual"), "load_policy": ("out",), "record_episodes": ("out",),
    "watch": ("out",), "coevolve": (),
}.items():
    try:
        getattr(envgen, name)(*arguments)
    except envgen.EnvgenError as error:
        print(type(error).__name__, error)
try:
    import envgen.sb3
except ImportError as error:
    print(error)
"""
)


def test_the_api_names_a_missing_extra(tmp_path):
    program = API_WITHOUT_EXTRAS.replace("('torch',", "('stable_baselines3', 'torch',")
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    *lines, last = result.stdout.splitlines()
    assert last == "envgen.sb3 needs Stable-Baselines3: pip install stable-baselines3"
    assert len(lines) == 10
    for line in lines:
        extra = "genenv" if "coevolve" in line else "train"
        assert line.startswith("MissingExtraError envgen.")
        assert line.endswith(f"needs torch: pip install 'envgen[{extra}]'")


def test_the_simulators_work_without_extras(tmp_path):
    result = without_extras("stats", "--seeds", "2", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "tree" in result.stdout


def test_a_closed_pipe_is_not_an_error():
    command = f"{sys.executable} -m envgen worlds | head -n 1; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert result.returncode in (0, 141)
    assert "Traceback" not in result.stderr
    assert "Exception" not in result.stderr


def test_help_is_printed_in_a_narrow_terminal():
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    controller, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 1))
    environment = dict(os.environ)
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-m", "envgen", "compare", "--help"]
    result = subprocess.run(command, stdout=terminal, stderr=terminal, env=environment, timeout=100)
    os.close(terminal)
    output = b""
    with suppress(OSError):  # the end of the output
        while part := os.read(controller, 65536):
            output += part
    os.close(controller)
    assert result.returncode == 0
    assert b"usage:" in output
    assert b"compare" in output


def test_a_deleted_current_directory_is_explained(tmp_path):
    (tmp_path / "deleted").mkdir()
    command = f"rmdir ../deleted; {sys.executable} -m envgen designers"
    result = subprocess.run(["bash", "-c", command], cwd=tmp_path / "deleted", capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == (
        "envgen: the current directory cannot be used (No such file or directory); change to another one\n"
    )


def test_worlds_and_designers_are_listed():
    worlds = envgen("worlds").stdout
    assert "crafter: 17 actions, 22 skills" in worlds
    assert "heist:" in worlds
    designers = envgen("designers").stdout
    for name in (
        "none",
        "expert",
        "random",
        "alpha",
        "dr",
        "plr",
        "accel",
        "sfl",
        "llm",
        "fixed",
        "easy-to-hard",
        "adversarial",
    ):
        assert f"{name}: " in designers
    assert "--designer.beta (default: 8.0)" in designers


def test_errors_have_a_traceback_only_when_debugging():
    for debug in ("", "1"):
        result = envgen_forked("stats", "missing.json", ENVGEN_DEBUG=debug)
        assert result.returncode == 2
        assert ("Traceback" in result.stderr) == bool(debug)
        assert result.stderr.splitlines()[-1].startswith("envgen: ")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_commands_work_with_closed_streams(closed):
    command = f"{sys.executable} -m envgen designers {closed}"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert ("expert" in result.stdout) == (">&-" not in closed.replace("2>&-", ""))


def test_crafter_does_not_import_its_reference():
    """The package `crafter` cannot be imported where numba has no place for the kernels of opensimplex."""
    code = "import sys, envgen; envgen.make_world('crafter'); print(*{'crafter', 'opensimplex'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "\n"
