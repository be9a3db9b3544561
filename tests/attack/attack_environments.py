"""Environments: extreme levels, wrong calls, forked and spawned processes, threads, and damaged states."""

import multiprocessing
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from attacks import WRONG_VALUES, attack, time_limit, try_call
from gymnasium.error import ClosedEnvironmentError, ResetNeeded

from envgen.errors import EnvgenError
from envgen.settings import unflatten
from envgen.worlds.crafter.env import CrafterVectorEnv
from envgen.worlds.heist.env import HeistVectorEnv
from envgen.worlds.level_space import setting_values
from envgen.worlds.registry import make_world

WORLDS = ("crafter", "heist")
FUZZ_RESTORE = Path(__file__).parent.parent / "worlds" / "fuzz_restore.py"
CALL_ERRORS = (EnvgenError, ValueError, TypeError, ResetNeeded, ClosedEnvironmentError)


def random_level(world: Any, rng: random.Random) -> dict[str, Any]:
    """Values of many settings, mostly the smallest and the largest."""
    settings = {}
    for name, values in setting_values(world.Level).items():
        if rng.random() < 0.6:
            settings[name] = rng.choice([values[0], values[1 % len(values)], values[-1], rng.choice(values)])
    return unflatten(settings)


@attack("steps in extreme levels", full=1_000_000, short=2_000)
def extreme_levels(count: int, rng: random.Random) -> Iterator[str]:
    """Observations and rewards are valid, and the levels are those that were set.

    `count` is the number of steps of all environments together.
    """
    num_envs, num_steps, done = 8, min(100, max(1, count // 16)), 0
    while done < count:
        world = make_world(rng.choice(WORLDS))
        levels = []
        while len(levels) < num_envs:
            try:
                levels.append(world.Level.parse(random_level(world, rng)))
            except EnvgenError:  # settings that contradict each other
                continue
        observation = rng.choice([name for name in world.observations if name != "text"])
        envs = world.make(levels, num_envs, rng.randrange(2**31), observation=observation)
        obs, _ = envs.reset()
        actions = np.random.default_rng(rng.randrange(2**31))
        for _ in range(num_steps):
            obs, rewards, _, _, infos = envs.step(actions.integers(len(world.actions), size=num_envs))
            problem = "" if np.isfinite(rewards).all() else f"rewards {rewards}"
            problem = problem or ("" if envs.observation_space.contains(obs) else "an observation outside its space")
            done += num_envs
            for i in range(num_envs):
                wrong = envs.levels[infos["level"][i]] != levels[i]
                yield f"{problem or 'another level'}: {world.name} {levels[i]!r:.200}" if problem or wrong else ""
        envs.close()


@cache
def environments(world: str) -> tuple[Any, Any]:
    chosen = make_world(world)
    envs, env = chosen.make([{}, {"length": 30}], 3, 0, observation="symbols"), chosen.single(observation="symbols")
    envs.reset()
    env.reset(seed=0)
    return envs, env


def wrong_calls_of(envs: Any, env: Any, value: Any, rng: random.Random) -> dict[str, Any]:
    state, saved = envs.get_state(), envs.get_env_state(np.arange(2))
    name = rng.choice(sorted(state))
    arrays = (np.zeros(3), np.full(3, -1), np.zeros((3, 1), np.int64), np.array(["a"] * 3), np.full(3, 2**40), value)
    return {
        "step": lambda: envs.step(rng.choice([value, *arrays])),
        "step of a single environment": lambda: env.step(value),
        "reset seed": lambda: envs.reset(seed=value),
        "reset options": lambda: envs.reset(options={"reset_mask": value}),
        "reset options of a single environment": lambda: env.reset(seed=value, options={"level": value}),
        "set_levels": lambda: envs.set_levels(value, sample_levels=rng.random() < 0.5),
        "set_state": lambda: envs.set_state(value if isinstance(value, dict) else {**state, name: rng.choice(arrays)}),
        "check_env_state": lambda: envs.check_env_state({**saved, "envs": rng.choice(arrays)}),
        "make": lambda: make_world(rng.choice(WORLDS)).make(
            **{rng.choice(["levels", "num_envs", "seed", "observation"]): small(value)}
        ),
    }  # fmt: skip


def small(value: Any) -> Any:
    """Numbers that ask for more environments than fit into memory are not wrong calls."""
    return 3 if type(value) in (int, float) and value == value and abs(value) > 1000 else value


@attack("wrong calls of environments", full=5_000, short=150)
def wrong_calls(count: int, rng: random.Random) -> Iterator[str]:
    """Each is refused with an error or does something sensible, and the environments stay usable."""
    for _ in range(count):
        world = rng.choice(WORLDS)
        envs, env = environments(world)
        value = rng.choice(WRONG_VALUES)
        name, call = rng.choice(sorted(wrong_calls_of(envs, env, value, rng).items()))
        failure = try_call(f"{name} of {world} with {value!r:.60}", call, CALL_ERRORS)
        envs.set_levels([{}, {"length": 30}])
        obs, _ = envs.reset(seed=rng.randrange(1000))
        rewards = envs.step(np.ones(3, np.int64))[1]
        usable = envs.observation_space.contains(obs) and np.isfinite(rewards).all()
        yield failure or ("" if usable else f"{world} is not usable after {name} with {value!r:.60}")


# --- processes and threads


def play(world: str, seed: int, threads: int, steps: int = 20) -> bytes:
    envs = make_world(world).make(num_envs=6, seed=seed, observation="symbols", threads=threads)
    envs.reset()
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        obs = envs.step(rng.integers(envs.single_action_space.n, size=6))[0]
    envs.close()
    return obs.tobytes()


def continue_playing(envs: Any, seed: int, queue: Any = None) -> bytes:
    rng = np.random.default_rng(seed)
    for _ in range(10):
        obs = envs.step(rng.integers(envs.single_action_space.n, size=6))[0]
    if queue is not None:
        queue.put(obs.tobytes())
    return obs.tobytes()


@attack("environments continued after a fork", full=200, short=4)
def forks(count: int, rng: random.Random) -> Iterator[str]:
    """Environments that have stepped with threads continue in a forked process, exactly as in their own."""
    context = multiprocessing.get_context("fork")
    for _ in range(count):
        world, seed = rng.choice(WORLDS), rng.randrange(1000)
        envs = make_world(world).make(num_envs=6, seed=seed, observation="symbols", threads=rng.choice([1, 2, 4]))
        envs.reset()
        envs.step(np.zeros(6, np.int64))
        queue = context.Queue()
        process = context.Process(target=continue_playing, args=(envs, seed, queue))
        process.start()
        try:
            with time_limit(60):
                child = queue.get()
        except RuntimeError:
            child = b""
            process.kill()
        process.join()
        problem = "other results than its parent" if child else "a hang"
        yield "" if child == continue_playing(envs, seed) else f"{world}, seed {seed}: {problem}"
        envs.close()


@attack("environments in spawned processes", full=20, short=1)
def spawns(count: int, rng: random.Random) -> Iterator[str]:
    for _ in range(count):
        world, seed = rng.choice(WORLDS), rng.randrange(1000)
        code = f"import attack_environments as a, sys; sys.stdout.write(a.play({world!r}, {seed}, 2).hex())"
        paths = os.pathsep.join([*sys.path])
        environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": str(rng.randrange(1000))}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
        )
        yield "" if done.stdout == play(world, seed, 1).hex() else f"{world}, seed {seed}: {done.stderr[-300:]}"


@attack("environments stepped by several threads at once", full=500, short=8)
def threads(count: int, rng: random.Random) -> Iterator[str]:
    """Threads that each step environments of their own get the same results as one after the other."""
    for _ in range(-(-count // 4)):
        jobs = [(rng.choice(WORLDS), rng.randrange(1000), rng.choice([1, 2, 3])) for _ in range(4)]
        results: list[bytes] = [b""] * 4

        def work(k: int, jobs: list[Any] = jobs, results: list[bytes] = results) -> None:
            results[k] = play(*jobs[k])

        workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
        for job, result in zip(jobs, results, strict=True):
            yield "" if result == play(*job[:2], threads=1) else f"{job}: other results than alone"


# --- in processes that check the bounds of arrays, whose kernels are compiled anew

BOUNDS = """
import random, sys
import numba
assert numba.config.BOUNDSCHECK == 1
from attack_environments import extreme_levels
result = extreme_levels.run(int(sys.argv[1]), int(sys.argv[2]))
print(result.num_cases, len(result.failures), result.failures[:1])
"""


def run_checked(*args: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, env=environment, check=False)


@attack("steps in extreme levels with checked array bounds", full=1_000_000, short=0)
def checked_steps(count: int, rng: random.Random) -> Iterator[str]:
    done = run_checked("-c", BOUNDS, str(count), str(rng.randrange(1000)))
    output = done.stdout.split(maxsplit=2) if done.returncode == 0 else (count, 1, done.stderr[-500:])
    num_cases, num_failed, *first = output
    for k in range(int(num_cases)):
        yield str(first) if k < int(num_failed) else ""


@attack("damaged states with checked array bounds", full=10_000, short=0)
def damaged_states(count: int, rng: random.Random) -> Iterator[str]:
    """Each process checks a few thousand states; `count` is rounded up."""
    num_cases = 0
    while num_cases < count:
        for world, make in (("crafter", CrafterVectorEnv), ("heist", HeistVectorEnv)):
            done = run_checked(str(FUZZ_RESTORE), world, str(rng.randrange(1000)))
            counts = [int(number) for number in done.stdout.split()] if done.returncode == 0 else [1]
            for k in range(sum(counts)):
                yield f"{make.__name__}: {done.stderr[-300:]}" if done.returncode and not k else ""
            num_cases += sum(counts)
