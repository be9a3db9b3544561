"""Measure the speed of Heist side by side with the reference and with EnvPool's Heist.

    make procgen .peers/installed          # missing peers are skipped; EnvPool needs libqt5gui5
    python benchmarks/heist_speed.py

Environment steps per second with random actions on one thread, resets included, after a warm-up that spreads the
environments over their episodes. All engines run several rounds in turn, so that other load on the machine slows all
of them alike. The median round is reported; for ours, also steps per second of CPU time. Prints Markdown.
"""

import argparse
import contextlib
import datetime
import os
import platform
import subprocess
import time
from pathlib import Path

import numpy as np

from envgen.worlds.heist.env import HeistVectorEnv
from envgen.worlds.heist.reference import REFERENCE_VENV

FOLDER = Path(__file__).parent
PEERS = {  # name: (its Python, its script)
    "procgen": (REFERENCE_VENV / "bin" / "python", FOLDER / "heist_reference.py"),
    "EnvPool": (FOLDER.parent / ".peers" / "bin" / "python", FOLDER / "heist_envpool.py"),
}
WARM_UP_STEPS = 500


class OwnEngine:
    def __init__(self, mode: str, num_envs: int, observation: str, seconds: float):
        self.envs = HeistVectorEnv(num_envs, {"mode": mode}, observation, threads=1)
        self.envs.reset(seed=0)
        self.actions = np.random.default_rng(0).integers(0, 15, (64, num_envs))
        self.seconds, self.num_envs = seconds, num_envs
        for k in range(WARM_UP_STEPS):
            self.envs.step(self.actions[k % 64])

    def run_round(self) -> tuple[float, float]:
        """Steps per second of wall-clock time and of CPU time."""
        steps, start, cpu_start = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - start < self.seconds:
            self.envs.step(self.actions[steps % 64])
            steps += 1
        env_steps = steps * self.num_envs
        return env_steps / (time.perf_counter() - start), env_steps / (time.process_time() - cpu_start)


class PeerEngine:
    def __init__(self, python: Path, script: Path, mode: str, num_envs: int, seconds: float):
        self.command = [str(python), "-W", "ignore", str(script), mode, str(num_envs), str(seconds)]
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run_round(self) -> tuple[float, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(self.command)} has exited; run it directly to see why")
        return float(line), float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="duration of a round")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    engines: dict[tuple[str, str, str, int], OwnEngine | PeerEngine] = {}
    for mode in ("easy", "hard", "memory"):
        for peer, (python, script) in PEERS.items():
            if python.exists():
                engines[peer, mode, "pixels", 64] = PeerEngine(python, script, mode, 64, args.seconds)
        for observation, num in (("pixels", 64), ("pixels", 256), ("symbols", 64), ("symbols", 256), ("symbols", 1024)):
            engines["envgen", mode, observation, num] = OwnEngine(mode, num, observation, args.seconds)
    rounds = [{key: engine.run_round() for key, engine in engines.items()} for _ in range(args.rounds)]
    rates = {key: np.median([results[key] for results in rounds], axis=0) for key in engines}
    print(f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
          f"Python {platform.python_version()}\n")  # fmt: skip
    print("| engine | mode | observation | environments | steps/s | steps/s of CPU time | speedup |")
    print("|---|---|---|---:|---:|---:|---:|")
    for (name, mode, observation, num), (wall_rate, cpu_rate) in rates.items():
        procgen = rates.get(("procgen", mode, "pixels", 64))
        ratio = f"{wall_rate / procgen[0]:.1f}" if procgen is not None else ""
        cpu = "" if np.isnan(cpu_rate) else f"{cpu_rate:,.0f}"
        print(f"| {name} | {mode} | {observation} | {num:,} | {wall_rate:,.0f} | {cpu} | {ratio} |")
    for engine in engines.values():
        if isinstance(engine, PeerEngine):
            engine.process.kill()


if __name__ == "__main__":
    main()
