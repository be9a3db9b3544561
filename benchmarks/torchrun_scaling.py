"""Measure how training scales from one process to two with torchrun, for every learner.

    pip install '.[train]'
    python benchmarks/torchrun_scaling.py

Trains in Crafter from symbols with the default settings: in one process with one thread, and in two processes with one
thread each, on the same machine and in turns. Prints Markdown with the median over the rounds of

- speedup: the wall time of one process, divided by that of two for the same steps;
- work: the processor time of two processes together, divided by that of one. Without other load, two processes that
  share their work evenly are at most 2 / work times as fast; other load reduces the speedup, because they wait for each
  other.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

CASES: dict[str, tuple[str, dict[str, Any]]] = {  # the learner, and the settings of its network
    "PPO": ("ppo", {}),
    "PPO with history": ("ppo", {"history": True}),
    "PPO with GRU": ("ppo", {"memory": "gru"}),
    "PPO with minimal GRU": ("ppo", {"memory": "mingru"}),
    "Achievement Distillation": ("distillation", {}),
}
LEVEL = {"length": 200}  # so that episodes end between two auxiliary phases of distillation


def train(case: str, updates: int) -> None:
    """Train in one of the processes; the main one prints the seconds from the first update to the last, and the
    processor time of all processes."""
    import torch

    from envgen.agents.learner import learner_class
    from envgen.worlds.crafter.world import Crafter

    torch.set_num_threads(1)
    name, network = CASES[case]
    cls: Any = learner_class(name)
    world = Crafter()
    level = world.Level.parse(LEVEL)
    envs = world.make([level], num_envs=1, observation="symbols")
    extra = {"buffer_rollouts": updates // 2} if name == "distillation" else {}
    settings = cls.settings_for(envs.single_observation_space, network=network, **extra)
    learner = cls.for_envs(envs, settings=settings, seed=0)
    group = learner.process_group
    num_envs = settings.num_envs // group.size
    envs = world.make([level], num_envs=num_envs, seed=group.rank * num_envs, observation="symbols", threads=1)
    times: list[tuple[float, float]] = []
    learner.train(
        envs,
        settings.num_envs * settings.num_steps * (updates + 1),
        lambda result: times.append((time.perf_counter(), time.process_time())),
    )
    wall, cpu = (last - first for first, last in zip(times[0], times[-1], strict=True))
    total_cpu = group.all_reduce(torch.tensor([cpu], dtype=torch.float64)).item()
    if group.is_main:
        print(json.dumps({"wall": wall, "cpu": total_cpu}))


def measure(case: str, processes: int, updates: int) -> dict[str, float]:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [sys.executable, *launcher, __file__, "--case", case, "--updates", str(updates)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, env=env)
    if result.returncode != 0:
        raise SystemExit(result.stderr[-3000:])
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=16, help="of each round")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        train(args.case, args.updates)
        return
    print(f"{datetime.date.today()}, {args.rounds} rounds of {args.updates} updates, load {os.getloadavg()[0]:.1f}\n")
    print("| learner | speedup | work | 2 / work |\n|---|---:|---:|---:|", flush=True)
    for case in CASES:
        pairs = [(measure(case, 1, args.updates), measure(case, 2, args.updates)) for _ in range(args.rounds)]
        speedup = statistics.median(one["wall"] / two["wall"] for one, two in pairs)
        work = statistics.median(two["cpu"] / one["cpu"] for one, two in pairs)
        print(f"| {case} | {speedup:.2f} | {work:.2f} | {2 / work:.2f} |", flush=True)


if __name__ == "__main__":
    main()
