"""Commands as a user types them, and what they say."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from envgen.cli.main import main


def envgen(*words: object, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "envgen.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={**os.environ, "COLUMNS": "80", **env})


def refusal(words: Sequence[str], monkeypatch, capsys) -> str:
    """The one sentence in which a command says what was wrong with it."""
    monkeypatch.setattr(sys, "argv", ["envgen", *words])
    with pytest.raises(SystemExit) as end:
        main()
    told = capsys.readouterr().err
    assert end.value.code == 2, words
    assert len(told.strip().splitlines()) == 1, (words, told)
    return told
