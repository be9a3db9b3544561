"""The cache of compiled code: new sources get a new folder, and a folder that cannot be written is no error."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

from envgen.worlds.kernels import jit as cache

PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from envgen.worlds.kernels.jit import cache_folder, jit

    @jit
    def twice(x):
        return 2 * x

    assert twice(21) == 42
    print(len([w for w in caught if "cannot write its cache" in str(w.message)]))
    print(cache_folder())
"""


def run(home, tmp) -> list[str]:
    environment = {"ENVGEN_CACHE": str(home), "TMPDIR": str(tmp), "PATH": "/usr/bin:/bin", "HOME": str(tmp)}
    program = tmp / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_compiled_code_is_kept_and_found_again(tmp_path):
    home = tmp_path / "home"
    assert run(home, tmp_path)[0] == "0"
    kept = sorted(file for file in home.rglob("*.nbc"))
    assert kept
    times = [file.stat().st_mtime_ns for file in kept]
    run(home, tmp_path)
    assert [file.stat().st_mtime_ns for file in kept] == times


def test_a_cache_that_cannot_be_written_falls_back_with_one_warning(tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    warned, folder = run(blocked, tmp_path)
    assert warned == "1"
    assert str(tmp_path) in folder
    assert "blocked" not in folder


def test_a_full_disk_falls_back_with_one_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVGEN_CACHE", str(tmp_path / "home"))
    monkeypatch.setattr(cache, "ROOM_TO_WRITE", 1 << 62)
    with pytest.warns(RuntimeWarning, match="compiled code will not be kept") as caught:
        assert cache.cache_folder.__wrapped__() is None
    assert len(caught) == 1


def test_a_disk_that_fills_up_while_compiling_costs_only_the_cache(tmp_path):
    class Store:
        enabled = True

        def save_overload(self, sig, data):
            raise OSError(28, "No space left on device")

        def disable(self):
            self.enabled = False

    class Compiled:
        _cache = Store()

    compiled = Compiled()
    cache._forgive(compiled)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled._cache.save_overload(None, None)
    assert not compiled._cache.enabled
    assert len(caught) == 1


def test_another_source_means_another_folder(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("x = 1")
    monkeypatch.setattr(cache, "WORLDS", tmp_path)
    first = cache.source_hash()
    assert cache.source_hash() == first
    (tmp_path / "a.py").write_text("x = 2")
    assert cache.source_hash() != first


def test_a_worlds_folder_depends_on_itself_and_on_what_is_shared_but_on_no_other_world(tmp_path, monkeypatch):
    def write(name, text):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    for name in ("kernels/a.py", "crafter/a.py", "heist/a.py", "world.py"):
        write(name, "x = 1")
    monkeypatch.setattr(cache, "WORLDS", tmp_path)
    before = cache.source_hash("heist")
    write("crafter/a.py", "x = 2")
    assert cache.source_hash("heist") == before
    for name in ("kernels/a.py", "heist/a.py", "world.py"):
        write(name, "x = 2")
        assert cache.source_hash("heist") != before
        before = cache.source_hash("heist")


def test_a_function_is_kept_with_its_world():
    from envgen.worlds.crafter import play
    from envgen.worlds.kernels import mt19937

    assert cache.world_of(play.play.py_func) == "crafter"
    assert cache.world_of(mt19937.word.py_func) == ""
    assert cache.world_of(test_a_function_is_kept_with_its_world) == ""


def test_sums_are_reordered_only_where_that_is_asked_for():
    def total(x):
        found = np.float32(0)
        for k in range(x.size):
            found += x[k]
        return found

    def total_in_any_order(x):
        found = np.float32(0)
        for k in range(x.size):
            found += x[k]
        return found

    x = np.random.default_rng(0).random(10_000, np.float32)
    assert cache.jit(total)(x) == total(x)  # one after the other, as Python does
    reordered = cache.jit_reordered(total_in_any_order)(x)
    assert reordered != total(x)  # sums in vectors come nearer to the truth
    assert reordered == pytest.approx(x.sum(dtype=np.float64), rel=1e-5)


def test_only_the_newest_versions_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVGEN_CACHE", str(tmp_path))
    for k in range(9):
        (tmp_path / "kernels" / f"old{k}").mkdir(parents=True)
    folder = cache.cache_folder.__wrapped__()
    assert folder.is_dir()
    assert len(list(folder.parent.iterdir())) == cache.KEPT_VERSIONS


def test_compiling_is_announced_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cache, "cache_folder", lambda world: tmp_path)
    for _ in range(2):
        with cache.compiling("Crafter", 50):
            pass
    assert capsys.readouterr().err.count("compiling Crafter's engine, once for this machine") == 1
