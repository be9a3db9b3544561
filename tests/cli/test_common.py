"""What all commands print: errors as sentences, without control characters."""

from unittest.mock import Mock

import pytest
import torch
from commands import get_error_line

from envgen.cli.common import UserError, prepare_png, read_levels, resume_hint
from envgen.console import terminal
from envgen.designers.chat.ledger import LedgerError
from envgen.designers.chat.protocol import AmbiguousError, ConnectionSetupError, RejectedError, RetryableError
from envgen.errors import EnvgenError
from envgen.text import printable
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.world import Level

ESCAPES = "\x1b[2J\x1b]0;title\x07\x9b31m\r\x08\u202e\ud800"


def test_printable_text_stays_as_it_is():
    for text in ("", "plain", "é 木 ± “quoted”", "a  b"):
        assert printable(text) == text
    assert printable("a\nb\x1b[1m\tc") == "a b [1m c"
    assert printable("a\nb\x1b[1m\tc", keep="\n") == "a\nb [1m c"


def test_a_level_file_may_have_settings_with_the_names_of_its_sections(tmp_path):
    class TowerLevel(Level):
        levels: int = 1
        """Floors."""

    class Tower(Crafter):
        Level = TowerLevel

    file = tmp_path / "level.json"
    for text, expected in (('{"levels": 3}', [3]), ('[{"levels": 2}, {"level": {"levels": 4}}]', [2, 4])):
        file.write_text(text)
        assert [level.levels for level in read_levels(file, Tower())] == expected


def test_errors_reach_the_terminal_without_escapes(monkeypatch, capsys):
    message = get_error_line(["compare", f"nowhere{ESCAPES[:-1]}"], monkeypatch, capsys)
    assert message.startswith("envgen: nowhere [2J ]0;title")
    assert message.isprintable()


def test_messages_of_a_run_reach_the_terminal_without_escapes(capsys):
    _, log = terminal(verbose=True)
    log(f"Cycle 1: 1 levels\n  1 {ESCAPES}[red]")  # a purpose in the levels.json of a foreign run
    out = capsys.readouterr().out
    assert out == "Cycle 1: 1 levels\n  1  [2J ]0;title  31m    [red]\n"


@pytest.mark.parametrize("error_type", [RetryableError, AmbiguousError, RejectedError, ConnectionSetupError])
def test_a_dead_server_is_reported_with_how_to_resume(tmp_path, error_type):
    (tmp_path / "run.json").touch()
    flags = "--base-url http://localhost:1/v1"
    with pytest.raises(UserError) as caught, resume_hint("train", tmp_path, flags):
        raise error_type("the server is dead")
    assert str(caught.value) == f"the server is dead\nResume with: envgen train --resume {tmp_path} {flags}"
    with pytest.raises(UserError) as caught, resume_hint("train", tmp_path):
        raise error_type("the server is dead")
    assert str(caught.value) == "the server is dead\nResume by repeating the command"


def test_other_errors_and_other_processes_say_nothing_about_resuming(tmp_path, monkeypatch):
    (tmp_path / "run.json").touch()
    for error, folder, rank in (
        (LedgerError("damaged"), tmp_path, "0"),
        (RetryableError("dead"), tmp_path / "none", "0"),
        (RetryableError("dead"), tmp_path, "1"),
    ):
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "2")
        with pytest.raises(EnvgenError) as caught, resume_hint("train", folder, ""):
            raise error
        assert str(caught.value) == str(error)


def test_commands_that_are_printed_can_be_pasted(tmp_path, capsys):
    folder = tmp_path / "my runs"
    folder.mkdir()
    (folder / "run.json").touch()
    with pytest.raises(KeyboardInterrupt), resume_hint("train", folder, ""):
        raise KeyboardInterrupt
    assert f"envgen train --resume '{folder}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError("Unable to allocate 8.00 TiB"), "envgen: out of memory: Unable to allocate 8.00 TiB"),
        (MemoryError(), "envgen: out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory\nmore"),
         "envgen: out of memory: DefaultCPUAllocator: can't allocate memory"),
        (torch.OutOfMemoryError("CUDA out of memory."), "envgen: out of memory: CUDA out of memory."),
    ],
)  # fmt: skip
def test_too_little_memory_is_one_line(error, message, monkeypatch, capsys):
    monkeypatch.setattr("tyro.cli", Mock(side_effect=error))
    assert get_error_line(["worlds"], monkeypatch, capsys) == message


@pytest.mark.parametrize(
    ("option", "value"),
    [("designer.buffer-size", "10000000000"), ("designer.temperature", "inf"), ("width", "10000000000000"),
     ("memory-size", "100000000000"), ("depth", "100000"), ("ppo.num-envs", "1000000000000"),
     ("practice.buffer-size", "10000000000"), ("practice.num-snapshots", "10000000000")],
)  # fmt: skip
def test_impossible_sizes_are_refused_by_name(option, value, tmp_path, monkeypatch, capsys):
    args = ["train", "crafter", "--designer", "plr", "--folder", str(tmp_path / "run"), f"--{option}", value]
    message = get_error_line(args, monkeypatch, capsys)
    assert option.partition(".")[2].replace("-", "_") in message or option.replace("-", "_") in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "args", [["report"], ["studio"], ["migrate"], ["evaluate"], ["compare"], ["train", "--resume"]]
)
def test_names_that_are_too_long_are_explained(args, monkeypatch, capsys):
    message = get_error_line([*args, 300 * "x"], monkeypatch, capsys)
    assert "does not exist" in message or "too long" in message or "is not" in message


def test_the_check_of_an_image_file_leaves_nothing_behind_and_changes_nothing(tmp_path):
    new, old = tmp_path / "a" / "new.png", tmp_path / "old.png"
    old.write_bytes(b"an image")
    assert prepare_png(new) == new
    assert new.parent.is_dir()
    assert not new.exists()
    assert prepare_png(old).read_bytes() == b"an image"
