"""`envgen new world` writes a package that installs and passes its own tests."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import envgen, get_error_line, run_in_process


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("new")
    result = envgen("new", "world", "coin-grid", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "pip install -e coin-grid" in result.stdout
    return folder / "coin-grid"


@pytest.mark.slow
def test_the_package_installs_and_passes_its_tests(package, tmp_path):
    pytest.importorskip("hatchling")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
               "--target", str(tmp_path / "site"), str(package)]  # fmt: skip
    subprocess.run(install, check=True, capture_output=True, text=True)
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    tests = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=package, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert tests.returncode == 0, tests.stdout
    assert "5 passed" in tests.stdout
    assert "coin-grid: 4 actions, 2 skills" in envgen("worlds", cwd=tmp_path, PYTHONPATH=path).stdout
    drawn = envgen("preview", "--world", "coin-grid", cwd=tmp_path, PYTHONPATH=path)
    assert drawn.returncode == 0, drawn.stderr
    assert (tmp_path / "preview.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Coin", "lowercase words with hyphens between them"),
        ("coin_grid", "such as coin-grid"),
        ("../coin", "lowercase words"),
        ("crafter", "already a world 'crafter'"),
        ("json", "taken by a Python keyword or an installed package"),
        ("class", "taken by a Python keyword"),
        ("none", "taken by a Python keyword"),
    ],
)
def test_names_are_checked(name, reason, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert reason in get_error_line(["new", "world", name], monkeypatch, capsys)
    assert not list(tmp_path.iterdir())


def test_the_test_module_never_has_the_name_of_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_in_process(["new", "world", "test-world"], monkeypatch)
    (test_file,) = tmp_path.glob("test-world/tests/*.py")
    assert test_file.stem != "test_world"


def test_existing_folders_are_not_changed(package, tmp_path, monkeypatch, capsys):
    before = sorted(package.rglob("*"))
    arguments = ["new", "world", "coin-grid", "--folder"]
    assert "already exists; choose another folder" in get_error_line([*arguments, str(package)], monkeypatch, capsys)
    assert sorted(package.rglob("*")) == before
    run_in_process([*arguments, str(tmp_path / "a" / "b")], monkeypatch)
    assert (tmp_path / "a" / "b" / "src" / "coin_grid" / "world.py").exists()


def test_nothing_is_left_of_a_package_that_could_not_be_written(tmp_path, monkeypatch, capsys):
    write_text = Path.write_text

    def fill_the_disk(file, *args):
        write_text(file, "")
        if file.suffix == ".py":
            raise OSError(errno.ENOSPC, "No space left on device", str(file))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "write_text", fill_the_disk)
    line = get_error_line(["new", "world", "coin-grid"], monkeypatch, capsys)
    assert line.endswith("cannot write coin-grid/src/coin_grid/__init__.py: No space left on device")
    assert not list(tmp_path.iterdir())


def test_the_generated_code_is_linted(package):
    pytest.importorskip("ruff")
    for command in (["check", "--select", "E,F,W,I,UP,B"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length", "120", "."]
        result = subprocess.run(ruff, capture_output=True, text=True, cwd=package)
        assert result.returncode == 0, result.stdout
