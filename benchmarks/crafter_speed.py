"""How fast Crafter is, side by side with its peers in one run.

    make bench                                     # or, without the JAX peer:
    python benchmarks/crafter_speed.py

Environment steps per second with random actions, resets included, after the environments have spread over their
episodes. Everyone plays several rounds, in turns, so that other work on the machine slows all alike. Peers: PyPI
`crafter`, as it is installed by itself and with numba, which compiles its noise; and Craftax-Classic on JAX, which
plays by similar but not the same rules, if `--jax-python` names a Python that has it. Prints Markdown.
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

from crafter_original import make_original_benchmark
from envgen.worlds.crafter.env import CrafterVectorEnv

HERE = Path(__file__).parent
WARM_UP = 250  # steps; a random player lives for about 180


def stepper(envs: int, observation: str, threads: int):
    """A function that plays for about `seconds` and returns steps per second."""
    world = CrafterVectorEnv(envs, None, observation, threads=threads)
    world.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 17, (64, envs))
    for k in range(WARM_UP):
        world.step(actions[k % 64])

    def play(seconds: float) -> float:
        steps, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            world.step(actions[steps % 64])
            steps += 1
        return steps * envs / (time.perf_counter() - start)

    return play


def as_installed(seconds: float) -> float:
    """PyPI `crafter` where numba is not installed, or rather switched off, in a process of its own."""
    command = [sys.executable, str(HERE / "crafter_original.py"), str(seconds)]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


def craftax(python: str, seconds: float) -> dict[str, float]:
    """Craftax-Classic's rates, from a process of its own."""
    command = [python, str(HERE / "craftax_peer.py"), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def start_up(cache: Path) -> float:
    """Seconds from starting Python to the first step."""
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

    plain = "PyPI crafter", "pixels", 1, 1
    players = {plain: as_installed, ("PyPI crafter + numba", "pixels", 1, 1): make_original_benchmark()}
    for observation in ("symbols", "pixels"):
        for envs in (1, 64, 1024):
            for threads in (1, 2) if envs > 1 else (1,):
                players["envgen", observation, envs, threads] = stepper(envs, observation, threads)
    # The original makes a world in up to two seconds: it needs longer to show its rate.
    rounds = [
        {name: play(args.seconds * (6 if name[0] != "envgen" else 1)) for name, play in players.items()}
        for _ in range(args.rounds)
    ]
    rates = {name: float(np.mean([one[name] for one in rounds])) for name in players}
    base = rates[plain]
    print(
        f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n"
    )
    print("| engine | observation | environments | threads | steps/s | times PyPI crafter |")
    print("|---|---|---:|---:|---:|---:|")
    for (engine, observation, envs, threads), rate in rates.items():
        print(f"| {engine} | {observation} | {envs:,} | {threads} | {rate:,.0f} | {rate / base:,.0f} |")
    if args.jax_python:
        for name, rate in craftax(args.jax_python, args.seconds * args.rounds).items():
            print(f"| Craftax-Classic (JAX, all cores) | {name} | | {rate:,.0f} | {rate / base:,.1f} |")
    for observation in ("symbols", "pixels"):
        ratios = [one["envgen", observation, 1024, 2] / one["envgen", observation, 1024, 1] for one in rounds]
        print(
            f"\nTwo threads, 1,024 environments, {observation}: {np.median(ratios):.2f} times one thread"
            f" ({min(ratios):.2f} to {max(ratios):.2f} over {len(ratios)} rounds)."
        )
    for observation in ("symbols", "pixels"):
        size = CrafterVectorEnv(64, None, observation, threads=1).engine.bytes_per_environment()
        print(f"\nMemory for each environment, {observation}: {size / 1000:.1f} KB.")
    with tempfile.TemporaryDirectory() as cache:
        print(f"\nStart to first step, compiling: {start_up(Path(cache)):.0f} s; then: {start_up(Path(cache)):.1f} s.")


if __name__ == "__main__":
    main()
