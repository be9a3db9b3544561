"""The speed of Crafter, measured together with other implementations.

    make bench                                     # or, without JAX:
    python benchmarks/crafter_speed.py

Measures environment steps per second with random actions, resets included, after a warm-up in which the environments
drift apart. Compares with the PyPI package `crafter`, as installed and with numba, which compiles its noise. The
engines take turns over several rounds, so that other load on the machine affects all of them; the package's rounds take
six times as long. If `--jax-python` names a Python that has it, Craftax-Classic on JAX, whose rules are similar but not
the same, is measured afterwards. Prints Markdown.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from crafter_reference import make_reference_benchmark
from envgen.worlds.crafter.env import CrafterVectorEnv

HERE = Path(__file__).parent
WARM_UP = 250  # steps; with random actions the player survives for about 180


def make_benchmark(num_envs: int, observation: str, threads: int):
    """A function that steps for `seconds` and returns steps per second."""
    envs = CrafterVectorEnv(num_envs, None, observation, threads=threads)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 17, (64, num_envs))
    for k in range(WARM_UP):
        envs.step(actions[k % 64])

    def run(seconds: float) -> float:
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            envs.step(actions[steps % 64])
            steps += 1
        return steps * num_envs / (time.perf_counter() - start)

    return run


def measure_reference(seconds: float) -> float:
    """The package `crafter` as installed, without numba, in a separate process."""
    command = [sys.executable, str(HERE / "crafter_reference.py"), str(seconds)]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


def measure_craftax(python: str, seconds: float) -> dict[str, float]:
    """Craftax-Classic, in a separate process."""
    command = [python, str(HERE / "craftax_peer.py"), str(seconds)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def measure_startup(cache: Path) -> float:
    """Seconds from the start of Python to the first step."""
    program = "import gymnasium, envgen; e = gymnasium.make('envgen/Crafter-v0'); e.reset(seed=0); e.step(0)"
    start = time.perf_counter()
    environment = {**os.environ, "ENVGEN_CACHE": str(cache)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jax-python", help="a Python that has craftax installed")
    args = parser.parse_args()

    package = "PyPI crafter", "pixels", 1, 1
    benchmarks = {package: measure_reference, ("PyPI crafter + numba", "pixels", 1, 1): make_reference_benchmark()}
    for observation in ("symbols", "pixels"):
        for num_envs in (1, 64, 1024):
            for threads in (1, 2) if num_envs > 1 else (1,):
                benchmarks["envgen", observation, num_envs, threads] = make_benchmark(num_envs, observation, threads)
    # The package takes up to two seconds to create a map, so it needs more time for a reliable rate.
    rounds = [
        {key: run(args.seconds * (6 if key[0] != "envgen" else 1)) for key, run in benchmarks.items()}
        for _ in range(args.rounds)
    ]
    rates = {key: float(np.mean([results[key] for results in rounds])) for key in benchmarks}
    baseline = rates[package]
    print(
        f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n"
    )
    print("| engine | observation | environments | threads | steps/s | speedup |")
    print("|---|---|---:|---:|---:|---:|")
    for (engine, observation, num_envs, threads), rate in rates.items():
        print(f"| {engine} | {observation} | {num_envs:,} | {threads} | {rate:,.0f} | {rate / baseline:,.0f} |")
    if args.jax_python:
        for name, rate in measure_craftax(args.jax_python, args.seconds * args.rounds).items():
            print(f"| Craftax-Classic (JAX, all cores) | {name} | | {rate:,.0f} | {rate / baseline:,.1f} |")
    for observation in ("symbols", "pixels"):
        ratios = [r["envgen", observation, 1024, 2] / r["envgen", observation, 1024, 1] for r in rounds]
        print(
            f"\nTwo threads, 1,024 environments, {observation}: {np.median(ratios):.2f} times one thread"
            f" ({min(ratios):.2f} to {max(ratios):.2f} over {len(ratios)} rounds)."
        )
    for observation in ("symbols", "pixels"):
        size = CrafterVectorEnv(64, None, observation, threads=1).engine.bytes_per_environment()
        print(f"\nMemory per environment, {observation}: {size / 1000:.1f} KB.")
    with tempfile.TemporaryDirectory() as cache:
        compiling, compiled = measure_startup(Path(cache)), measure_startup(Path(cache))
    print(f"\nStart to first step: {compiling:.0f} s with compilation, {compiled:.1f} s without.")


if __name__ == "__main__":
    main()
