"""The wheel and the source distribution contain the package, and the wheel works in a clean environment."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return out


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


@pytest.mark.slow
def test_the_wheel_works_in_a_clean_environment(dist, tmp_path):
    (wheel,) = dist.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python, envgen = tmp_path / "venv" / "bin" / "python", tmp_path / "venv" / "bin" / "envgen"
    install = [str(python), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, text=True, cwd=tmp_path)
    for args in (["--help"], ["--version"], ["worlds"], ["designers"], ["train", "--help"]):
        result = subprocess.run([str(envgen), *args], capture_output=True, text=True, cwd=tmp_path)
        assert result.returncode == 0, (args, result.stderr)
        assert result.stdout
    result = subprocess.run([str(envgen), "train"], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 2
    assert "pip install 'envgen[train]'" in result.stderr
