"""Run directories, policies and models that are damaged or come from someone else.

Whatever their files hold, they are read correctly or refused with an error message: no traceback, no hang, no import.
"""

import hashlib
import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import loop_worker
from attacks import attack, change_json, places, try_call, work_folder

import envgen
from envgen.curriculum.plan import TrainingPlan
from envgen.runs.store import read_progress

PLAN = TrainingPlan(
    cycles=1,
    levels=2,
    cycle_steps=64,
    final_steps=32,
    feedback_groups=2,
    feedback_episodes=1,
    episodes=2,
    audit_steps=0,
)
PLANTED = "untrusted_module"


@cache
def finished_run() -> Path:
    folder = work_folder() / "finished"
    loop_worker.main(folder, plan=PLAN)
    return folder


@cache
def saved_policy() -> Path:
    return envgen.load_policy(finished_run()).save(work_folder() / "policy")


def copy_of(folder: Path) -> Path:
    copy = work_folder() / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    return shutil.copytree(folder, copy)


# --- damage


def flip_bytes(file: Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(rng.choice([1, 3, 50])):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    file.write_bytes(data)


def truncate(file: Path, rng: random.Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: rng.randrange(len(data) + 1)])


def replace_text(file: Path, rng: random.Random) -> None:
    texts = (b"", b"[" * 100_000, b"{}", b"[]", b"null", b"3", b"\xff\xfe", b"9" * 5000, rng.randbytes(500))
    file.write_bytes(rng.choice(texts))


def replace_file(file: Path, rng: random.Random) -> None:
    kind = rng.choice(["nothing", "fifo", "device", "dangling link", "folder", "enormous"])
    file.unlink()
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "enormous":
        with open(file, "wb") as out:
            out.truncate(1 << 40)
    elif kind != "nothing":
        file.symlink_to("/dev/zero" if kind == "device" else "nowhere")


def change_value(file: Path, rng: random.Random) -> None:
    """Change a value of a JSON file, or of a line of a JSON lines file; other files lose a byte."""
    if file.suffix == ".json":
        file.write_text(change_json(file.read_text(), rng))
    elif file.suffix == ".jsonl":
        lines = file.read_text().splitlines()
        k = rng.randrange(len(lines))
        lines[k : k + 1] = rng.choice([[change_json(lines[k], rng)], [lines[k]] * 2, []])
        file.write_text("".join(f"{line}\n" for line in lines))
    else:
        truncate(file, rng)


def sign(folder: Path) -> None:
    """Make the checksums in a checkpoint's manifest fit its files, as someone who writes it on purpose does."""
    files = {file.name: file for file in folder.iterdir() if file.is_file() and not file.is_symlink()}
    del files["manifest.json"]
    if all(file.stat().st_size < 1 << 30 for file in files.values()):
        sums = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}
        manifest = {name: {"bytes": files[name].stat().st_size, "sha256": digest} for name, digest in sums.items()}
        (folder / "manifest.json").write_text(json.dumps(manifest))


DAMAGE = (flip_bytes, truncate, replace_text, replace_file, change_value, change_value, change_value)


def damage_one_file(folder: Path, rng: random.Random) -> str:
    """Damage a file of a folder; returns what was done."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != "lock")
    names = [file for file in files if file.name in ("run.json", "values.json")]
    file, damage = rng.choice([*files, *names]), rng.choice(DAMAGE)
    damage(file, rng)
    if "checkpoints" in file.parts and file.name != "manifest.json" and rng.random() < 0.7:
        sign(file.parent)
    return f"{damage.__name__} of {file.relative_to(folder)}"


READERS: dict[str, Callable[[Path], object]] = {
    "resume": lambda folder: envgen.resume(folder, verbose=False),
    "load_policy": envgen.load_policy,
    "compare": lambda folder: (envgen.compare(folder).markdown(), envgen.compare(folder).text(80)),
    "read_progress": lambda folder: list(read_progress(folder)),
}


@attack("damaged run directories", full=3_000, short=40)
def damaged_runs(count: int, rng: random.Random) -> Iterator[str]:
    for _ in range(count):
        folder = copy_of(finished_run())
        if is_unfinished := rng.random() < 0.3:
            (folder / "summary.json").unlink()
        damage = damage_one_file(folder, rng)
        name = rng.choice(["resume", "resume", *READERS])
        description = f"{name} after {damage}{' of an unfinished run' if is_unfinished else ''}"
        yield try_call(description, lambda folder=folder, name=name: READERS[name](folder))


@attack("damaged policies", full=1_000, short=20)
def damaged_policies(count: int, rng: random.Random) -> Iterator[str]:
    for _ in range(count):
        folder = copy_of(saved_policy())
        damage = damage_one_file(folder, rng)
        if rng.random() < 0.7:
            sign_policy(folder)
        yield try_call(f"load_policy after {damage}", lambda folder=folder: envgen.load_policy(folder))


def sign_policy(folder: Path) -> None:
    """Make the checksum of a policy fit, if its files are still regular and small."""
    files = [folder / name for name in ("policy.json", "policy.safetensors")]
    if not all(file.is_file() and not file.is_symlink() and file.stat().st_size < 1 << 30 for file in files):
        return
    try:
        document = json.loads((folder / "policy.json").read_text())
        document["sha256"] = hashlib.sha256((folder / "policy.safetensors").read_bytes()).hexdigest()
    except (ValueError, TypeError, RecursionError):
        return  # it stays as it is
    (folder / "policy.json").write_text(json.dumps(document))


@attack("run directories that name untrusted code", full=500, short=20)
def planted_names(count: int, rng: random.Random) -> Iterator[str]:
    """Every text in run.json, policy.json and the checkpoints is replaced by the name of a module."""
    modules = work_folder() / "modules"
    modules.mkdir(exist_ok=True)
    (modules / f"{PLANTED}.py").write_text("raise SystemExit('imported')\n")
    sys.path.insert(0, str(modules))
    try:
        for _ in range(count):
            folder = copy_of(rng.choice([finished_run(), saved_policy()]))
            is_run = (folder / "run.json").exists()
            values = sorted(folder.glob("checkpoints/*/values.json"))
            file = rng.choice([folder / "run.json", *values] if is_run else [folder / "policy.json"])
            document = json.loads(file.read_text())
            texts = [(holder, key) for holder, key in places(document) if isinstance(holder[key], str | None)]  # type: ignore
            holder, key = rng.choice(texts)
            holder[key] = f"{PLANTED}:Class"  # type: ignore[index]
            file.write_text(json.dumps(document))
            if file in values:
                sign(file.parent)
            name = rng.choice(["resume", "load_policy"]) if is_run else "load_policy"
            failure = try_call(
                f"{name} with {key} {PLANTED}:Class", lambda name=name, folder=folder: READERS[name](folder)
            )
            yield f"{key} in {file.name}: imported" if PLANTED in sys.modules else failure
    finally:
        sys.path.remove(str(modules))


@attack("keys for servers in run directories", full=100, short=10)
def planted_servers(count: int, rng: random.Random) -> Iterator[str]:
    """A run directory that names a server or a key variable does not resume without being given them again."""
    for _ in range(count):
        folder = copy_of(finished_run())
        entry = json.loads((folder / "run.json").read_text())
        entry["request"]["designer"] = {"name": "llm", "llm": rng.choice(["openai:m", "anthropic:m"])}
        custom = {"base_url": "http://127.0.0.1:9/v1"}, {"key_env": "HOME"}, {"base_url": "", "key_env": "PATH"}
        entry["runtime_options"] = rng.choice(custom)
        (folder / "run.json").write_text(json.dumps(entry))
        try:
            envgen.resume(folder, verbose=False)
            yield f"{entry['runtime_options']} was used"
        except envgen.EnvgenError as error:
            yield "" if "again to resume" in str(error) else f"{entry['runtime_options']}: {error}"
