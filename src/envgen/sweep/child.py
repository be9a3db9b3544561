"""Sets up the process of a run, then executes its command. It imports only the standard library, to start fast.

    python child.py PARENT CORES LOCK COMMAND...

- The process ends with its parent (Linux): it receives SIGTERM, and the run writes its checkpoint.
- It runs on the given cores (`0,1`; empty for all).
- It waits until no other process uses the run directory, because its predecessor may still be writing its checkpoint.
"""

import contextlib
import os
import signal
import sys
import time

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

PR_SET_PDEATHSIG = 1
LOCK_TIMEOUT = 600.0  # seconds, after which the run starts, and fails because its directory is in use


def end_with_parent(parent: int) -> None:
    if sys.platform != "linux":
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has ended already
        sys.exit(128 + signal.SIGTERM)


def use_cores(cores: str) -> None:
    if cores and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):  # they may have been taken away; the run is only slower
            os.sched_setaffinity(0, {int(core) for core in cores.split(",")})


def wait_for_lock(file: str) -> None:
    if fcntl is None or not os.path.isfile(file) or os.path.islink(file):
        return
    deadline, is_waiting = time.monotonic() + LOCK_TIMEOUT, False
    with open(file, "a") as lock:
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not is_waiting:
                    print(f"waiting for another process that uses {os.path.dirname(file)}", flush=True)
                is_waiting = True
                time.sleep(0.2)
            except OSError:  # a file system without locks
                return
            else:
                return


if __name__ == "__main__":
    parent, cores, lock, *command = sys.argv[1:]
    end_with_parent(int(parent))
    use_cores(cores)
    wait_for_lock(lock)
    os.execv(command[0], command)
