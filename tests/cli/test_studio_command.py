"""`envgen studio`."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest
from commands import get_error_line


def start(*args: object) -> tuple[subprocess.Popen, str]:
    """A studio in a process of its own, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "envgen", "studio", *map(str, args)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    line = process.stdout.readline()
    match = re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", line)
    assert match, line
    return process, match[0]


def test_it_serves_the_folder_until_ctrl_c(tmp_path):
    process, url = start(tmp_path, "--port", 0)
    with process:
        events = urllib.request.urlopen(url + "events?view=runs", timeout=20)  # a page that is open
        page = urllib.request.urlopen(url, timeout=20).read().decode()
        assert "There are no runs in this folder yet." in page
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=10)
        events.close()
    assert process.returncode == 0
    assert "envgen studio stopped." in out
    assert err == ""


def test_a_port_in_use_is_reported(tmp_path, monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        message = get_error_line(["studio", str(tmp_path), "--port", str(port)], monkeypatch, capsys)
    assert f"cannot use port {port}" in message
    assert "--port 0" in message


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["nowhere"], "nowhere is not a directory"),
        ([".", "--port", "70000"], "--port must be from 0 to 65535, not 70000"),
        ([".", "--port", "-1"], "--port must be from 0 to 65535"),
        ([".", "--world", "nothing"], "'nothing' is not one of crafter, heist"),
        ([".", "--world", "no_module:World"], "cannot import the world 'no_module:World'"),
    ],
)
def test_wrong_arguments_are_explained(args, part, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert part in get_error_line(["studio", *args], monkeypatch, capsys)
