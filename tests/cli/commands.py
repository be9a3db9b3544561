"""Run commands as a user types them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from envgen.cli.main import main
from forked import run_with_output


def envgen(*args: object, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess:
    """Run a command in a new process, which starts as a user starts it."""
    command = [sys.executable, "-m", "envgen", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={**os.environ, "COLUMNS": "80", **env})


def envgen_forked(*args: object, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess:
    """Run a command in a copy of this process, which saves the seconds that imports take."""
    return run_with_output(_run_command, list(map(str, args)), cwd, env)


def _run_command(args: list[str], cwd: Path | None, env: dict[str, str]) -> None:
    sys.argv = ["envgen", *args]
    os.environ.update({"COLUMNS": "80", **env})
    if cwd is not None:
        os.chdir(cwd)
    main()


def run_in_process(args: Sequence[str], monkeypatch) -> None:
    """Run a command in this process."""
    monkeypatch.setattr(sys, "argv", ["envgen", *args])
    main()


def get_usage_error(args: Sequence[str], monkeypatch, capsys) -> str:
    """What a command that is refused prints on stderr. It exits with code 2 and without a traceback."""
    monkeypatch.setattr(sys, "argv", ["envgen", *args])
    with pytest.raises(SystemExit) as exit_info:
        main()
    stderr = capsys.readouterr().err
    assert exit_info.value.code == 2, (args, stderr)
    assert "Traceback" not in stderr
    return " ".join(stderr.replace("│", " ").split())


def get_error_line(args: Sequence[str], monkeypatch, capsys) -> str:
    """The same for errors of envgen itself, which are one sentence on one line."""
    message = get_usage_error(args, monkeypatch, capsys)
    assert message.startswith("envgen: "), message
    return message
