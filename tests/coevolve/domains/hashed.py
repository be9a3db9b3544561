"""What a program prints where strings hash in other ways: nothing of a domain may depend on that."""

import os
import subprocess
import sys


def printed_twice(code: str) -> tuple[str, str]:
    one, other = (
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )
    return one, other
