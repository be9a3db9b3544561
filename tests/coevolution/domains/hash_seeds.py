"""Runs code in processes with different string hashes, on which no domain may depend."""

import os
import subprocess
import sys


def outputs_under_two_hash_seeds(code: str) -> tuple[str, str]:
    """What a program prints under two values of PYTHONHASHSEED."""
    first, second = (
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )
    return first, second
