"""The cache of compiled code: changed sources, unwritable folders, and folders that other users can write to."""

import os
import pickle
import shutil
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from envgen import jit as cache

PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from envgen.jit import cache_folder, jit, source_scope

    @jit
    def twice(x):
        return 2 * x

    assert twice(21) == 42
    print(len([w for w in caught if "cannot use its cache" in str(w.message)]))
    print(cache_folder(source_scope(__file__)))
"""
INTERRUPTED_PROGRAM = """
import signal
import sys
from numba.core.registry import cpu_target
from envgen import jit

hook, is_cached = sys.argv[1], sys.argv[2] == "cached"
if not is_cached:
    jit.cache_folder = lambda scope: None

@jit.jit
def twice(x):
    return 2 * x

@jit.jit
def four_times(x):
    return twice(twice(x))

engine = cpu_target.target_context.codegen()._engine._ee
call_hook = getattr(engine, hook)
received = []

def interrupt(*args):
    if not received:
        received.append(hook)
        signal.raise_signal(signal.SIGINT)
    return call_hook(*args)

setattr(engine, hook, interrupt)
try:
    four_times(21)
except KeyboardInterrupt:
    print("interrupted in", *received)
assert four_times(21) == 84
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
OTHER_UID = 12345  # a user id that is not ours
as_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give files away")


def run(home, tmp) -> list[str]:
    environment = {"ENVGEN_CACHE": str(home), "TMPDIR": str(tmp), "PATH": "/usr/bin:/bin", "HOME": str(tmp)}
    program = tmp / "program.py"
    program.write_text(PROGRAM)
    result = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=True)
    return result.stdout.split()


def test_compiled_code_is_cached_and_reused(tmp_path):
    home = tmp_path / "home"
    assert run(home, tmp_path)[0] == "0"
    files = sorted(file for file in home.rglob("*.nbc"))
    assert files
    times = [file.stat().st_mtime_ns for file in files]
    run(home, tmp_path)
    assert [file.stat().st_mtime_ns for file in files] == times


def test_unwritable_cache_falls_back_with_one_warning(tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    warned, folder = run(blocked, tmp_path)
    assert warned == "1"
    assert str(tmp_path) in folder
    assert "blocked" not in folder


def test_full_disk_falls_back_with_one_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVGEN_CACHE", str(tmp_path / "home"))
    monkeypatch.setattr(cache, "MIN_FREE_BYTES", 1 << 62)
    with pytest.warns(RuntimeWarning, match="compiled code is not cached") as caught:
        assert cache.cache_folder.__wrapped__() is None
    assert len(caught) == 1


def test_disk_filling_up_during_compilation_only_disables_the_cache(tmp_path):
    class Store:
        enabled = True

        def save_overload(self, sig, data):
            raise OSError(28, "No space left on device")

        def disable(self):
            self.enabled = False

    class Compiled:
        _cache = Store()

    compiled = Compiled()
    cache._tolerate_cache_errors(compiled)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled._cache.save_overload(None, None)
    assert not compiled._cache.enabled
    assert len(caught) == 1


@pytest.mark.parametrize("cached", ["cached", "not cached"])
@pytest.mark.parametrize("hook", ["_object_cache_notify", "_object_cache_getbuffer"])
def test_ctrl_c_is_not_lost_while_llvm_calls_numba(tmp_path, hook, cached):
    program = tmp_path / "program.py"
    program.write_text(INTERRUPTED_PROGRAM)
    environment = {**os.environ, "ENVGEN_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, str(program), hook, cached]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (result.stdout, result.stderr, result.returncode) == (f"interrupted in {hook}\n", "", 0)


def test_changed_source_changes_the_hash(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("x = 1")
    monkeypatch.setattr(cache, "WORLDS_DIR", tmp_path)
    first = cache.source_hash()
    assert cache.source_hash() == first
    (tmp_path / "a.py").write_text("x = 2")
    assert cache.source_hash() != first


def test_hash_of_a_world_covers_its_files_and_the_shared_ones(tmp_path, monkeypatch):
    def write(name, text):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    for name in ("kernels/a.py", "crafter/a.py", "heist/a.py", "world.py"):
        write(name, "x = 1")
    monkeypatch.setattr(cache, "WORLDS_DIR", tmp_path)
    before = cache.source_hash("heist")
    write("crafter/a.py", "x = 2")
    assert cache.source_hash("heist") == before
    for name in ("kernels/a.py", "heist/a.py", "world.py"):
        write(name, "x = 2")
        assert cache.source_hash("heist") != before
        before = cache.source_hash("heist")


def test_scope_of_a_function():
    from envgen.worlds.crafter import kernel
    from envgen.worlds.kernels import mt19937

    assert cache.function_scope(kernel.step_batch.py_func) == "crafter"
    assert cache.function_scope(mt19937.next_word.py_func) == ""
    assert cache.source_scope(cache.__file__) == ""
    assert cache.function_scope(test_scope_of_a_function) == str(Path(__file__).parent)


def test_outside_package_is_recompiled_when_another_of_its_files_changes(tmp_path):
    package = tmp_path / "my_package"
    (package / "kernels").mkdir(parents=True)
    for name in ("__init__.py", "world.py", "kernels/__init__.py", "kernels/rules.py"):
        (package / name).write_text("x = 1")
    scope = cache.source_scope(package / "world.py")
    assert scope == str(package) == cache.source_scope(package / "kernels" / "rules.py")
    before = cache.source_hash(scope)
    assert before != cache.source_hash()
    (package / "kernels" / "rules.py").write_text("x = 2")
    assert cache.source_hash(scope) != before
    assert cache.source_scope("<stdin>") == ""


def test_changed_callee_in_another_file_takes_effect(tmp_path):
    """numba's own cache misses this."""
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "world.py").write_text(
        "from envgen.jit import jit\nfrom .rules import rule\n\n"
        "@jit\ndef play(x):\n    return rule(x)\n\nprint(play(1))\n"
    )
    environment = {**os.environ, "ENVGEN_CACHE": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    results = []
    for factor in (2, 3):
        (package / "rules.py").write_text(
            f"from envgen.jit import jit\n\n@jit\ndef rule(x):\n    return {factor} * x\n"
        )
        command = [sys.executable, "-c", "import my_package.world"]
        result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        results.append(result.stdout.strip())
    assert results == ["2", "3"]


def test_only_jit_fastmath_reorders_sums():
    def total(x):
        result = np.float32(0)
        for k in range(x.size):
            result += x[k]
        return result

    def total_in_any_order(x):
        result = np.float32(0)
        for k in range(x.size):
            result += x[k]
        return result

    x = np.random.default_rng(0).random(10_000, np.float32)
    assert cache.jit(total)(x) == total(x)  # in order, as in Python
    reordered = cache.jit_fastmath(total_in_any_order)(x)
    assert reordered != total(x)  # SIMD sums are more accurate
    assert reordered == pytest.approx(x.sum(dtype=np.float64), rel=1e-5)


def test_only_the_newest_versions_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVGEN_CACHE", str(tmp_path))
    for k in range(9):
        (tmp_path / "kernels" / f"old{k}").mkdir(parents=True)
    folder = cache.cache_folder.__wrapped__()
    assert folder.is_dir()
    assert len(list(folder.parent.iterdir())) == cache.NUM_VERSIONS_KEPT


def test_compiling_is_announced_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cache, "cache_folder", lambda scope: tmp_path)
    for _ in range(2):
        with cache.compiling("Crafter", "crafter", 50):
            pass
    assert capsys.readouterr().err.count("compiling Crafter's engine, once on this machine") == 1


# --- folders that other users can write


class MaliciousPickle:
    """A pickle that creates a file when it is read."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def write_malicious_pickles(folder: Path, mark: Path) -> None:
    """Replace numba's index files."""
    files = list(folder.rglob("*.nbi"))
    assert files
    for file in files:
        file.write_bytes(pickle.dumps(MaliciousPickle(mark)))


def chown_to_other_user(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, OTHER_UID, OTHER_UID)


@pytest.fixture
def blocked(tmp_path) -> Path:
    file = tmp_path / "blocked"
    file.write_text("a file where the folder should be")
    return file


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """The temporary folder, in this process."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(cache.tempfile, "tempdir", str(folder))
    return folder


def fallback_parent(temporary: Path) -> Path:
    return temporary / f"envgen-kernels-{os.getuid()}"


def reset_temporary_folder(monkeypatch) -> list:
    """Forget the temporary folder of an earlier test. Returns the list of registered exit handlers."""
    removers: list = []
    monkeypatch.setattr(cache.atexit, "register", removers.append)
    monkeypatch.setattr(cache, "_temporary_folder", cache.cache(cache._temporary_folder.__wrapped__))
    return removers


def test_a_user_without_a_home_gets_a_temporary_folder(temporary, monkeypatch):
    def home():
        raise RuntimeError("Could not determine home directory.")

    reset_temporary_folder(monkeypatch)
    for name in ("ENVGEN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", home)
    with pytest.warns(RuntimeWarning, match="cannot use its cache"):
        folder = cache.cache_folder.__wrapped__()
    assert folder.is_relative_to(temporary)


def test_malicious_pickle_is_read_from_a_trusted_folder(tmp_path, blocked):
    _, folder = run(blocked, tmp_path)
    write_malicious_pickles(Path(folder), tmp_path / "executed")
    assert stat.S_IMODE(Path(folder).stat().st_mode) == stat.S_IMODE(Path(folder).parent.stat().st_mode) == 0o700
    run(blocked, tmp_path)
    assert (tmp_path / "executed").exists()


@as_root
@pytest.mark.parametrize("what", ["parent", "folder"])
def test_temporary_folder_of_another_user_is_not_read(tmp_path, blocked, what):
    _, first = run(blocked, tmp_path)
    planted = Path(first)
    write_malicious_pickles(planted, tmp_path / "executed")
    chown_to_other_user(planted)
    if what == "parent":
        chown_to_other_user(planted.parent)
    warned, second = run(blocked, tmp_path)
    assert warned == "1"
    assert not (tmp_path / "executed").exists()
    assert not Path(second).is_relative_to(planted.parent)
    assert not Path(second).parent.exists()  # removed at exit


@as_root
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_cache_of_another_user_is_not_read(tmp_path, depth):
    home = tmp_path / "home"
    warned, first = run(home, tmp_path)
    assert warned == "0"
    write_malicious_pickles(home, tmp_path / "executed")
    chown_to_other_user([home, Path(first).parent, Path(first)][depth])
    warned, second = run(home, tmp_path)
    assert warned == "1"
    assert not (tmp_path / "executed").exists()
    assert not Path(second).is_relative_to(home)


@pytest.mark.parametrize("mode", [0o777, 0o707, 0o755, 0o701, 0o770])
@pytest.mark.parametrize("what", ["parent", "folder"])
def test_temporary_folder_open_to_other_users_is_not_used(temporary, monkeypatch, mode, what):
    removers = reset_temporary_folder(monkeypatch)
    folder = fallback_parent(temporary) / "name"
    folder.mkdir(mode=0o700, parents=True)
    folder.parent.chmod(0o700)
    assert cache._fallback_folder("name") == folder
    (folder if what == "folder" else folder.parent).chmod(mode)
    fallback = cache._fallback_folder("name")
    assert fallback is not None
    assert not fallback.is_relative_to(folder.parent)
    assert stat.S_IMODE(fallback.stat().st_mode) == stat.S_IMODE(fallback.parent.stat().st_mode) == 0o700
    assert cache._fallback_folder("name") == fallback  # one for the whole process
    (remove,) = removers
    remove()
    assert not fallback.parent.exists()


@pytest.mark.parametrize("what", ["parent", "folder"])
def test_temporary_folder_that_is_a_link_is_not_used(temporary, tmp_path, monkeypatch, what):
    reset_temporary_folder(monkeypatch)
    target = tmp_path / "target"
    (target / "name").mkdir(mode=0o700, parents=True)
    target.chmod(0o700)
    parent = fallback_parent(temporary)
    if what == "parent":
        parent.symlink_to(target)
    else:
        parent.mkdir(mode=0o700)
        (parent / "name").symlink_to(target / "name")
    fallback = cache._fallback_folder("name")
    assert fallback is not None
    assert not fallback.is_relative_to(parent)
    assert not fallback.resolve().is_relative_to(target)


def test_forked_process_keeps_the_temporary_folder(temporary, monkeypatch):
    removers = reset_temporary_folder(monkeypatch)
    folder = cache._temporary_folder()
    (remove,) = removers
    monkeypatch.setattr(os, "getpid", lambda: -1)
    remove()
    assert folder.is_dir()


def test_nothing_is_cached_without_a_temporary_folder(monkeypatch):
    def none():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(cache.tempfile, "gettempdir", none)
    assert cache._fallback_folder("name") is None


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_cache_writable_by_other_users_is_not_used(tmp_path, temporary, monkeypatch, depth):
    monkeypatch.setenv("ENVGEN_CACHE", str(tmp_path / "home"))
    folder = cache.cache_folder.__wrapped__()
    writable_folder = [folder.parents[1], folder.parent, folder][depth]
    writable_folder.chmod(0o777)
    with pytest.warns(
        RuntimeWarning, match=f"{writable_folder} can be written by other users; using {temporary}"
    ) as caught:
        assert cache.cache_folder.__wrapped__().is_relative_to(fallback_parent(temporary))
    assert len(caught) == 1
    writable_folder.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.cache_folder.__wrapped__() == folder


def test_cache_behind_a_link_is_used_by_its_real_path(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("ENVGEN_CACHE", str(tmp_path / "link"))
    assert cache.cache_folder.__wrapped__().is_relative_to(tmp_path / "real")


def test_cache_in_a_folder_with_the_sticky_bit_is_used(tmp_path, monkeypatch):
    tmp_path.chmod(0o1777)
    monkeypatch.setenv("ENVGEN_CACHE", str(tmp_path))
    assert cache.cache_folder.__wrapped__().is_relative_to(tmp_path)


def test_new_cache_folders_are_closed_to_other_users(tmp_path, monkeypatch):
    monkeypatch.setenv("ENVGEN_CACHE", str(tmp_path / "home"))
    folder = cache.cache_folder.__wrapped__()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.parents[:2])] == [0o700] * 3


def find_problem(
    mode: int, owner: int, group: int, private: bool = False, shared: bool = False, kind: int = stat.S_IFDIR
):
    return cache._find_permission_problem(
        os.stat_result((kind | mode, 0, 0, 0, owner, group, 0, 0, 0, 0)), private, shared
    )


@pytest.mark.parametrize(
    ("mode", "owner", "usual", "private"),
    [
        (0o700, 1000, "", ""),
        (0o755, 1000, "", "open"),
        (0o750, 1000, "", "open"),
        (0o775, 1000, "", "open"),  # the user's own group
        (0o777, 1000, "written", "open"),
        (0o1777, 1000, "written", "open"),
        (0o755, 0, "", "owned"),
        (0o777, 0, "written", "owned"),
        (0o700, 1001, "owned", "owned"),
    ],
)
def test_folders_writable_by_other_users_are_refused(monkeypatch, mode, owner, usual, private):
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(cache, "_is_own_group", lambda group: group == 1000)
    for problem, expected in (
        (find_problem(mode, owner, 1000), usual),
        (find_problem(mode, owner, 1000, private=True), private),
    ):
        assert expected in problem
        assert bool(problem) == bool(expected)


def test_shared_groups_and_non_directories_are_refused(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(cache, "_is_own_group", lambda group: group == 1000)
    assert "written" in find_problem(0o775, 1000, 100)
    assert find_problem(0o755, 1000, 100) == ""
    assert find_problem(0o1777, 0, 0, shared=True) == ""
    assert "written" in find_problem(0o777, 0, 0, shared=True)
    assert "owned" in find_problem(0o1777, 1001, 0, shared=True)
    for kind in (stat.S_IFLNK, stat.S_IFREG):
        assert "is not a directory" in find_problem(0o700, 1000, 1000, kind=kind)
        assert "is not a directory" in find_problem(0o700, 1000, 1000, private=True, kind=kind)


@pytest.mark.parametrize(
    ("name", "members", "own"),
    [("ada", [], True), ("ada", ["ada"], True), ("ada", ["ada", "bob"], False), ("staff", [], False)],
)
def test_own_group_has_the_users_name_and_no_other_member(monkeypatch, name, members, own):
    grp, pwd = pytest.importorskip("grp"), pytest.importorskip("pwd")
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd(("ada", "x", 1000, 1000, "", "/", "/")))
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((name, "x", gid, members)))
    assert cache._is_own_group(1000) is own


def test_group_or_user_without_a_name_is_not_own():
    pytest.importorskip("grp")
    assert not cache._is_own_group(2**31 - 7)


def test_systems_without_user_ids_are_not_checked(tmp_path, temporary, monkeypatch):
    monkeypatch.delattr(os, "getuid")
    monkeypatch.setenv("ENVGEN_CACHE", str(tmp_path / "home"))
    folder = cache.cache_folder.__wrapped__()
    folder.chmod(0o777)
    assert cache.cache_folder.__wrapped__() == folder
    shutil.rmtree(tmp_path / "home")
    (tmp_path / "home").write_text("a file where the folder should be")
    with pytest.warns(RuntimeWarning, match="read-only or full"):
        assert cache.cache_folder.__wrapped__().parent == temporary / "envgen-kernels-user"
