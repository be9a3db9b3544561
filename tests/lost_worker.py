"""One process of two that train: `python lost_worker.py EVENT ARGUMENT ...`, the arguments being those of `envgen`.

At its third update, it dies, receives Ctrl-C, or trains on (events die, interrupt and nothing). `run_two` starts both.
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

SIGNALS = {"die": signal.SIGKILL, "interrupt": signal.SIGINT}
TESTS = Path(__file__).parent
TIMEOUT = 300  # seconds, on a busy machine


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def run_two(folder: Path, event: str, rank: int, args: list[str]) -> tuple[list[int], list[str]]:
    """Train in two processes, in one of which something happens. Their exit codes, and what they write to stderr.

    There is no torchrun, which would end one process if it loses the other.
    """
    variables = {
        "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": free_port(), "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(TESTS / "coevolution"), os.environ.get("PYTHONPATH", "")]),
    }  # fmt: skip
    started = [
        subprocess.Popen(
            [sys.executable, __file__, event if k == rank else "nothing", *args], cwd=folder, text=True,
            env={**os.environ, **variables, "RANK": str(k)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for k in range(2)
    ]  # fmt: skip
    try:
        errors = [process.communicate(timeout=TIMEOUT)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    return [process.returncode for process in started], errors


def assert_says_that_a_process_was_lost(error: str) -> None:
    """One sentence says so, and no traceback."""
    (line,) = (line for line in error.splitlines() if line.startswith("envgen: "))
    assert line.startswith("envgen: another of the 2 processes that train together was lost (")
    assert line.endswith("to resume from the last checkpoint, repeat the command that started all of them")
    assert "Traceback" not in error


def install(event: str) -> None:
    """Make the event happen at the third update of `envgen train` and after the first one of `envgen coevolve`."""
    from envgen.coevolution.loop import Coevolution
    from envgen.curriculum.trainer import PhaseTrainer

    on_update, step = PhaseTrainer._on_update, Coevolution.step

    def on_update_with_event(trainer, *args):
        if trainer.learner.updates == 3:
            os.kill(os.getpid(), SIGNALS[event])
        on_update(trainer, *args)

    def step_with_event(loop):
        if loop.counts["step"] == 1:
            os.kill(os.getpid(), SIGNALS[event])
        return step(loop)

    PhaseTrainer._on_update, Coevolution.step = on_update_with_event, step_with_event


if __name__ == "__main__":
    import torch

    from envgen.cli import main

    torch.set_num_threads(1)
    if (chosen := sys.argv.pop(1)) in SIGNALS:
        install(chosen)
    main()
