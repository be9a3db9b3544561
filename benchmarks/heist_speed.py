"""How fast Heist is, side by side with the original, and with EnvPool's, in one run.

    make oracle .peers/installed          # each is left out where it is not installed; EnvPool's needs libqt5gui5
    python benchmarks/heist_speed.py

Environment steps per second with random actions, resets included, after the environments have spread over their
episodes, one thread each. Everyone plays several rounds, in turns, so that other work on the machine slows all alike;
the median round counts, and for ours also the steps per second of processor time. Prints Markdown.
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

from envgen.worlds.heist.original import ORIGINAL_VENV
from envgen.worlds.heist.vector import HeistVectorEnv

HERE = Path(__file__).parent
PEERS = {  # the Python of each, and what it runs
    "procgen": (ORIGINAL_VENV / "bin" / "python", HERE / "heist_original.py"),
    "EnvPool": (HERE.parent / ".peers" / "bin" / "python", HERE / "heist_envpool.py"),
}
WARM_UP = 500  # steps


class Ours:
    def __init__(self, mode: str, num: int, observation: str, seconds: float):
        self.envs = HeistVectorEnv(num, {"mode": mode}, observation, threads=1)
        self.envs.reset(seed=0)
        self.actions = np.random.default_rng(0).integers(0, 15, (64, num))
        self.seconds, self.num = seconds, num
        for k in range(WARM_UP):
            self.envs.step(self.actions[k % 64])

    def play(self) -> tuple[float, float]:
        """Steps per second, of the clock and of the processor."""
        steps, start, used = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - start < self.seconds:
            self.envs.step(self.actions[steps % 64])
            steps += 1
        return steps * self.num / (time.perf_counter() - start), steps * self.num / (time.process_time() - used)


class Theirs:
    def __init__(self, python: Path, script: Path, mode: str, num: int, seconds: float):
        command = [str(python), "-W", "ignore", str(script), mode, str(num), str(seconds)]
        self.command = command
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def play(self) -> tuple[float, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        told = self.process.stdout.readline()
        if not told:
            raise SystemExit(f"{' '.join(self.command)} ended; run it by hand to see why")
        return float(told), float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    players: dict[tuple[str, str, str, int], Ours | Theirs] = {}
    for mode in ("easy", "hard", "memory"):
        for peer, (python, script) in PEERS.items():
            if python.exists():
                players[peer, mode, "pixels", 64] = Theirs(python, script, mode, 64, args.seconds)
        for observation, num in (("pixels", 64), ("pixels", 256), ("symbols", 64), ("symbols", 256), ("symbols", 1024)):
            players["envgen", mode, observation, num] = Ours(mode, num, observation, args.seconds)
    rounds = [{name: player.play() for name, player in players.items()} for _ in range(args.rounds)]
    rates = {name: np.median([one[name] for one in rounds], axis=0) for name in players}
    print(f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
          f"Python {platform.python_version()}\n")  # fmt: skip
    print("| engine | mode | observation | environments | steps/s | steps/s of processor time | times procgen |")
    print("|---|---|---|---:|---:|---:|---:|")
    for (engine, mode, observation, num), (wall, used) in rates.items():
        base = rates.get(("procgen", mode, "pixels", 64))
        times = f"{wall / base[0]:.1f}" if base is not None else ""
        told = "" if np.isnan(used) else f"{used:,.0f}"
        print(f"| {engine} | {mode} | {observation} | {num:,} | {wall:,.0f} | {told} | {times} |")
    for player in players.values():
        if isinstance(player, Theirs):
            player.process.kill()


if __name__ == "__main__":
    main()
