"""Runs that are killed, run out of disk space or start with another hash seed give the results of one that is not."""

import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import loop_worker
import torch
from attacks import attack, work_folder
from toy import Toy
from toy_models import make_models

from envgen.cli.main import main as cli_main
from envgen.coevolution.settings import (
    AgentSettings,
    AlphaCurriculumSettings,
    CoevolutionPlan,
    EnvironmentSettings,
)
from envgen.coevolution.train import CoevolveRequest, coevolve
from envgen.curriculum.loop import train
from envgen.curriculum.plan import TrainingPlan
from envgen.designers.registry import build_designer
from envgen.errors import EnvgenError
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.minigrid.world import MiniGrid
from envgen.worlds.walker.world import Walker
from run_results import assert_same_run

PLAN = TrainingPlan(
    cycles=2, levels=2, cycle_steps=128, final_steps=64, feedback_groups=2, feedback_episodes=1, episodes=2,
    ranking_steps=32, audit_steps=10,
)  # fmt: skip
SAMPLED = PLAN.model_copy(update={"original_share": 0.25, "levels": 4})  # for a level in every episode
MAX_SECONDS = 1800  # for a run
MODELS_VARIABLE = "ENVGEN_ATTACK_MODELS"  # the folder of the models, for processes that do not create them
MEMORY = {"network": {"memory": "gru", "history": True}}
MAX_JUMP = 10 * 365 * 86400  # seconds
NOBODY = 65534  # a user without rights
COEVOLUTION = CoevolutionPlan(rollouts=128, tasks_per_step=8, num_base_tasks=8, num_eval_tasks=8, eval_every=2)


def train_with(
    folder: Path,
    designer: str = "expert",
    world: Any = Crafter,
    learner: str = "ppo",
    share: float = 0.0,
    plan: TrainingPlan = PLAN,
    **settings: Any,
) -> None:
    chosen = world()
    levels = [chosen.Level()] if designer == "fixed" else ()
    built = build_designer(designer, folder, settings=loop_worker.DESIGNER_SETTINGS.get(designer), levels=levels)
    practice = {"share": share, "max_steps": 9, "snapshot_interval": 3, "buffer_size": 3} if share else None
    train(
        folder, chosen, built, plan, chosen.default_observation, seed=5, learner=learner,
        learner_settings={**loop_worker.SETTINGS, **settings}, save_every=0.0, practice=practice,
    )  # fmt: skip


@cache
def models_folder() -> Path:
    """The folder with the models `agent` and `environment`."""
    if MODELS_VARIABLE in os.environ:
        return Path(os.environ[MODELS_VARIABLE])
    folder = work_folder() / "models"
    make_models(folder / "agent", folder / "environment")
    return folder


def coevolve_with(folder: Path, proposer: str = "genenv") -> None:
    request = CoevolveRequest(
        proposer=proposer, agent=str(models_folder() / "agent"), environment=str(models_folder() / "environment"),
        plan=COEVOLUTION,
        curriculum=AlphaCurriculumSettings(filter_tolerance=None),
        agent_settings=AgentSettings(max_new_tokens=4, learning_rate=1e-3),
        environment_settings=EnvironmentSettings(max_new_tokens=24, learning_rate=1e-3),
    )  # fmt: skip
    coevolve(folder, Toy(), request, save_every=0.0)


def sweep_with(folder: Path) -> None:
    """The command that trains two runs one after the other, in this process and its children."""
    options = {
        "designer": "none,random", **PLAN.model_dump(exclude_unset=True), "audit_steps": 0,
        **{f"ppo.{name}": value for name, value in loop_worker.SETTINGS.items()}, "workers": 1, "folder": folder,
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    sys.argv = ["envgen", "sweep", "crafter", "--quiet", *words]
    cli_main()


torch.set_num_threads(1)  # a forked process would wait for threads that it does not have

RUNS: dict[str, Callable[[Path], None]] = {
    "ppo, expert": train_with,
    "ppo with memory, random": lambda folder: train_with(folder, "random", **MEMORY),
    "distillation, expert": lambda folder: train_with(folder, "expert", learner="distillation"),
    "ppo, alpha, practice": lambda folder: train_with(folder, "alpha", share=0.5),
    "ppo, adversarial, Heist": lambda folder: train_with(folder, "adversarial", Heist),
    "ppo, easy-to-hard": lambda folder: train_with(folder, "easy-to-hard"),
    "ppo, none": lambda folder: train_with(folder, "none"),
    "ppo, fixed, MiniGrid": lambda folder: train_with(folder, "fixed", MiniGrid),
    "ppo, dr": lambda folder: train_with(folder, "dr", plan=SAMPLED),
    "ppo, plr, Walker": lambda folder: train_with(folder, "plr", lambda: Walker(num_workers=1), plan=SAMPLED),
    "ppo with history, accel": lambda folder: train_with(folder, "accel", plan=SAMPLED, network={"history": True}),
    "distillation, sfl": lambda folder: train_with(folder, "sfl", plan=SAMPLED, learner="distillation"),
    "co-evolution, genenv": coevolve_with,
    "co-evolution, static": lambda folder: coevolve_with(folder, "static"),
    "co-evolution, greedy": lambda folder: coevolve_with(folder, "greedy"),
    "sweep": sweep_with,
}
FINISHED_OR_REFUSED = 0, 1, 2, 3  # exit codes: after an error message a command ends with 1 or 2, another run with 3


def run_in_child(
    run: Callable[[Path], None],
    folder: Path,
    max_file_bytes: int | None = None,
    setup: Callable[[], None] | None = None,
) -> Any:
    """Start a run in a forked process, in which importing takes no time. Its exit code is 3 after an EnvgenError.

    Args:
        setup: Called first in the process.
    """

    def work() -> None:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        if max_file_bytes is not None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        try:
            if setup is not None:
                setup()
            run(folder)
        except SystemExit as end:  # of a command
            os._exit(int(end.code or 0))
        except EnvgenError:
            os._exit(3)
        except BaseException:  # noqa: BLE001  the exit code tells the parent
            os._exit(4)
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    return process


def finish(process: Any, allowed: tuple[int, ...] = (0,)) -> str:
    """Wait for a run; returns what went wrong, if its exit code is not `allowed`."""
    process.join(MAX_SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
        return f"it did not end within {MAX_SECONDS} seconds"
    return "" if process.exitcode in allowed else f"exit code {process.exitcode}"


@cache
def uninterrupted(name: str) -> tuple[Path, float]:
    """The folder of a run that was not interrupted, and how long it took."""
    folder, start = work_folder() / f"whole {name}", time.monotonic()
    if problem := finish(run_in_child(RUNS[name], folder)):
        raise RuntimeError(f"the run {name} fails without any attack: {problem}")
    return folder, time.monotonic() - start


def compare_runs(name: str, folder: Path) -> str:
    """How a run differs from the uninterrupted one."""
    if problem := finish(run_in_child(RUNS[name], folder)):
        return f"it does not resume: {problem}"
    try:
        whole = uninterrupted(name)[0]
        for file in whole.rglob("run.json"):  # a sweep has several
            assert_same_run(file.parent, folder / file.parent.relative_to(whole))
    except AssertionError as error:
        return f"other results than without interruption: {error!s:.200}"
    return ""


@attack("kills of runs", full=200, short=3)
def kills(count: int, rng: random.Random) -> Iterator[str]:
    """Each run is killed several times, then finished and compared. A failure counts for all of its kills."""
    done = 0
    names = list(RUNS) if count >= len(RUNS) else ["ppo, expert"]
    while done < count:
        for name in names:
            duration, folder, num_kills = uninterrupted(name)[1], work_folder() / "killed", 0
            shutil.rmtree(folder, ignore_errors=True)
            while num_kills < min(5, count - done):
                process = run_in_child(RUNS[name], folder)
                process.join(rng.uniform(0, duration / 2))
                if process.exitcode is not None:
                    break
                process.kill()
                process.join()
                num_kills += 1
            failure = compare_runs(name, folder)
            for _ in range(num_kills):
                yield f"{name}, killed {num_kills} times: {failure}" if failure else ""
            done += num_kills
            if done >= count:
                break


@attack("full disks", full=100, short=2)
def full_disks(count: int, rng: random.Random) -> Iterator[str]:
    """No file may grow beyond a limit, as on a full disk: the run ends with an error message and resumes exactly."""
    names = list(RUNS) if count >= len(RUNS) else ["ppo, expert"]
    for k in range(count):
        name, folder = names[k % len(names)], work_folder() / "full"
        uninterrupted(name)
        shutil.rmtree(folder, ignore_errors=True)
        sizes = [file.stat().st_size for file in uninterrupted(name)[0].rglob("*") if file.is_file()]
        process = run_in_child(RUNS[name], folder, rng.randrange(1, max(sizes)))
        failure = finish(process, FINISHED_OR_REFUSED) or compare_runs(name, folder)
        yield f"{name}: {failure}" if failure else ""


def kill_during(name: str, folder: Path, rng: random.Random) -> None:
    """Start a run in an empty folder and kill it at a random time."""
    shutil.rmtree(folder, ignore_errors=True)
    process = run_in_child(RUNS[name], folder)
    process.join(rng.uniform(0, uninterrupted(name)[1]))
    process.kill()
    process.join()


def interrupted_runs(count: int, folder: Path, rng: random.Random) -> Iterator[str]:
    """Names of runs that have just been killed in the folder."""
    names = list(RUNS) if count >= len(RUNS) else ["ppo, expert"]
    for k in range(count):
        name = names[k % len(names)]
        kill_during(name, folder, rng)
        yield name


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@attack("read-only directories", full=50, short=1)
def read_only_directories(count: int, rng: random.Random) -> Iterator[str]:
    """A killed run is continued where nothing can be written: it ends with an error message, and resumes later."""
    folder = work_folder() / "read-only"
    for name in interrupted_runs(count, folder, rng):
        paths = [folder, *folder.rglob("*")] if folder.exists() else []
        modes = {path: path.stat().st_mode for path in paths}
        for path, mode in modes.items():
            path.chmod(mode & ~0o222)
        work_folder().chmod(0o755)  # for the user without rights
        before = contents(folder)
        process = run_in_child(RUNS[name], folder, setup=drop_rights)
        failure = finish(process, FINISHED_OR_REFUSED)
        if paths and contents(folder) != before:
            failure = failure or "files have changed"
        for path, mode in modes.items():
            path.chmod(mode)
        failure = failure or compare_runs(name, folder)
        yield f"{name}: {failure}" if failure else ""


def drop_rights() -> None:
    """Continue as a user who may write nowhere. Permissions do not bind root."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


@attack("clock jumps", full=50, short=1)
def clock_jumps(count: int, rng: random.Random) -> Iterator[str]:
    """The clock jumps by up to ten years at every look and between the parts of a run, and so do the times of files."""
    folder = work_folder() / "jumped"
    for name in interrupted_runs(count, folder, rng):
        for path in folder.rglob("*"):
            moved = time.time() + rng.uniform(-MAX_JUMP, MAX_JUMP)
            os.utime(path, (moved, moved))
        process = run_in_child(RUNS[name], folder, setup=partial(make_clock_jump, rng.random()))
        failure = finish(process) or compare_runs(name, folder)
        yield f"{name}: {failure}" if failure else ""


def make_clock_jump(seed: float) -> None:
    rng, read_clock = random.Random(seed), time.time
    time.time = lambda: read_clock() + rng.uniform(-MAX_JUMP, MAX_JUMP)


@attack("hash seeds", full=16, short=0)
def hash_seeds(count: int, rng: random.Random) -> Iterator[str]:
    code = "import sys, pathlib, attack_interruptions as a; a.RUNS[sys.argv[1]](pathlib.Path(sys.argv[2]))"
    for k in range(count):
        name, folder = list(RUNS)[k % len(RUNS)], work_folder() / "hashed"
        shutil.rmtree(folder, ignore_errors=True)
        environment = {
            **os.environ, "PYTHONHASHSEED": str(rng.randrange(2**31)), "PYTHONPATH": os.pathsep.join(sys.path),
            "OMP_NUM_THREADS": "1", MODELS_VARIABLE: str(models_folder()),
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", code, name, folder], capture_output=True, env=environment, check=False
        )
        failure = compare_runs(name, folder) if not done.returncode else done.stderr.decode()[-300:]
        yield f"{name}: {failure}" if failure else ""
