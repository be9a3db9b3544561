"""`envgen report`."""

import json
import sys

import pytest
from commands import get_error_line

from envgen.cli.main import main
from run_files import write_train_run


def run_report(*args: object, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["envgen", "report", *map(str, args)])
    main()


def test_the_page_is_written_to_the_run_or_where_the_user_says(tmp_path, monkeypatch, capsys):
    run = write_train_run(tmp_path / "run")
    run_report(run, "--no-clips", monkeypatch=monkeypatch)
    assert (run / "report.html").read_text().startswith("<!doctype html>")
    assert str(run / "report.html") in capsys.readouterr().out
    run_report(run, "--out", tmp_path / "new" / "page.html", "--no-clips", monkeypatch=monkeypatch)
    assert (tmp_path / "new" / "page.html").exists()


def test_what_is_left_out_is_printed(tmp_path, monkeypatch, capsys):
    run = write_train_run(tmp_path / "run")
    (run / "summary.json").write_text("{")
    entry = json.loads((run / "run.json").read_text())
    entry["request"]["world"] = "evil\x1b]0;title\x07"
    (run / "run.json").write_text(json.dumps(entry))
    run_report(run, monkeypatch=monkeypatch)
    stderr = capsys.readouterr().err
    assert "cannot read" in stderr
    assert "evil" in stderr
    assert "\x1b" not in stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["report", "nowhere"], "nowhere is not a directory"),
        (["report", ".", "--out", "page.pdf"], "a report is written as an .html file, not 'page.pdf'"),
    ],
)
def test_mistakes_are_named(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert message in get_error_line(args, monkeypatch, capsys)
