"""How long does it take to reach a score in Crafter? envgen, Stable-Baselines3 and CleanRL on the same environments.

    pip install sb3-contrib                                # for recurrent PPO
    git clone https://github.com/vwxyzjn/cleanrl out/cleanrl
    python benchmarks/crafter_time_to_score.py --cleanrl out/cleanrl --minutes 20 --seeds 10 11 12
    python benchmarks/crafter_time_to_score.py --page      # train nothing, write the page from the existing results

Every trainer plays the original Crafter from symbols in envgen's vector environment, on all cores. The score is that of
the most recent 1,024 training episodes, without those of practice: measuring it takes no extra episodes and requires no
change to the trainer. The clock starts with the first step of the environments, after imports and compilation.

Stable-Baselines3 and CleanRL receive the symbols as one-hot vectors. Each runs once with its default hyperparameters
and 8 environments, and once with those of envgen's preset `fast`, where Stable-Baselines3's PPO also gets layers of 512
and 256 units. The recurrent PPO of sb3-contrib runs only with those of `fast`. CleanRL's `ppo.py` runs unmodified from
a checkout. Results are JSON files under docs/results/crafter-time-to-score/, from which page and figure are made.
"""

import argparse
import json
import multiprocessing
import os
import runpy
import sys
import time
import types
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import VectorWrapper

from envgen.agents.rollout import episode_skill_counts
from envgen.agents.settings import ppo_settings_for
from envgen.runs.statistics import score
from envgen.runs.store import write_json
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.world import LevelVectorEnv
from training_runs import describe_machine, load_groups, read_discussion, stop_workers_on_signals

TARGETS = (10.0, 20.0, 30.0, 40.0, 50.5)
WINDOW = 1024  # episodes
POINTS_PER_MINUTE = 4


class TimeUp(Exception):
    """The time limit of a trainer is reached."""


class ScoreClock:
    """The score of recent episodes over steps and time."""

    def __init__(self, minutes: float):
        self.limit, self.start, self.next_point = 60 * minutes, 0.0, 0.0
        self.counts: deque[np.ndarray] = deque(maxlen=WINDOW)
        self.curve: list[dict[str, float]] = []

    def begin(self) -> None:
        self.start = time.perf_counter()

    def add(self, steps: int, skill_counts: Any) -> None:
        """Add the episodes that ended by this step. Raise TimeUp after the time limit."""
        self.counts.extend(skill_counts)
        seconds = time.perf_counter() - self.start
        is_over = seconds > self.limit
        if self.counts and (is_over or (seconds >= self.next_point and len(self.counts) == WINDOW)):
            rates = 100 * (np.stack(self.counts) > 0).mean(0)
            self.curve.append({"steps": steps, "seconds": round(seconds, 1), "score": round(float(score(rates)), 3)})
            self.next_point = seconds + 60 / POINTS_PER_MINUTE
        if is_over:
            raise TimeUp


class ClockedEnv(VectorWrapper):
    """Reports the episodes that end to a clock. With `one_hot`, observations are one-hot vectors instead of symbols."""

    def __init__(self, envs: LevelVectorEnv, clock: ScoreClock, one_hot: bool):
        super().__init__(envs)
        self.clock, self.one_hot, self.steps, self.hide_infos = clock, one_hot, 0, False
        assert isinstance(envs.single_observation_space, Box)
        high = envs.single_observation_space.high.astype(np.int64)
        is_scalar = high >= 32  # daylight
        self.symbol_slots, self.scalar_slots = np.flatnonzero(~is_scalar), np.flatnonzero(is_scalar)
        sizes = high[self.symbol_slots] + 1
        self.first, self.scalar_max = np.cumsum(sizes) - sizes, high[self.scalar_slots].astype(np.float32)
        self.num_symbols = int(sizes.sum())
        if one_hot:
            self.single_observation_space = Box(0, 1, (self.num_symbols + len(self.scalar_slots),), np.float32)

    def _encode(self, obs: np.ndarray) -> np.ndarray:
        if not self.one_hot:
            return obs
        encoded = np.zeros((len(obs), self.num_symbols + len(self.scalar_slots)), np.float32)
        np.put_along_axis(encoded, obs[:, self.symbol_slots] + self.first, 1.0, 1)
        encoded[:, self.num_symbols :] = obs[:, self.scalar_slots] / self.scalar_max
        return encoded

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        obs, infos = self.env.reset(seed=seed, options=options)
        self.clock.begin()
        return self._encode(obs), infos

    def step(self, actions: Any) -> Any:
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        self.steps += self.num_envs
        dones = terminated | truncated
        self.clock.add(self.steps, episode_skill_counts(infos["final_info"], dones) if dones.any() else ())
        if dones.any() and self.one_hot:
            final_obs = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(dones):
                final_obs[i] = self._encode(infos["final_obs"][i][None])[0]
            infos = {**infos, "final_obs": final_obs}
        return self._encode(obs), rewards, terminated, truncated, {} if self.hide_infos else infos


def make_envs(clock: ScoreClock, num_envs: int, seed: int) -> ClockedEnv:
    return ClockedEnv(Crafter().make(num_envs=num_envs, seed=seed, observation="symbols"), clock, one_hot=True)


# ----------------------------------------------------------------------------------------------------------- trainers


def train_envgen(clock: ScoreClock, seed: int, args: argparse.Namespace, preset: str) -> None:
    """Learning rates are annealed over the steps that fit into the time at `--steps-per-second`."""
    from envgen.curriculum.plan import PracticeSettings, learner_preset
    from envgen.curriculum.practice import PracticeVectorEnv
    from envgen.curriculum.trainer import make_learner

    world = Crafter()
    settings, practice = learner_preset(preset, world)
    total_steps = round(60 * args.minutes * args.steps_per_second)
    learner = make_learner(world, "symbols", settings=settings, seed=seed, total_steps=total_steps)
    envs = world.make(num_envs=learner.settings.num_envs, seed=seed, observation="symbols")
    if practice:
        envs = PracticeVectorEnv(envs, world.skills, PracticeSettings(**practice), seed)
    clock.begin()
    learner.train(envs, 2 * total_steps, lambda result: clock.add(result.steps, result.episodes.skill_counts), seed)


def train_sb3(clock: ScoreClock, seed: int, args: argparse.Namespace, tuned: bool) -> None:
    from stable_baselines3 import PPO

    from envgen.sb3 import Sb3VecEnv

    s = FAST_SETTINGS
    settings: dict[str, Any] = {}
    if tuned:
        settings = dict(
            n_steps=s.num_steps, batch_size=s.batch_size // s.num_minibatches, n_epochs=s.update_epochs,
            learning_rate=s.learning_rate, gamma=s.gamma, gae_lambda=s.gae_lambda, clip_range=s.clip_coef,
            ent_coef=s.ent_coef, vf_coef=s.vf_coef, max_grad_norm=s.max_grad_norm,
            policy_kwargs=dict(net_arch=[512, 256]),
        )  # fmt: skip
    envs: Any = Sb3VecEnv(make_envs(clock, s.num_envs if tuned else 8, seed))  # pyright: ignore[reportArgumentType]
    PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings).learn(MAX_STEPS)


def train_recurrent_sb3(clock: ScoreClock, seed: int, args: argparse.Namespace) -> None:
    from sb3_contrib import RecurrentPPO  # pyright: ignore[reportMissingImports]

    from envgen.sb3 import Sb3VecEnv

    s = FAST_SETTINGS
    envs: Any = Sb3VecEnv(make_envs(clock, s.num_envs, seed))  # pyright: ignore[reportArgumentType]
    RecurrentPPO(
        "MlpLstmPolicy", envs, seed=seed, device="cpu", n_steps=s.num_steps,
        batch_size=s.batch_size // s.num_minibatches, n_epochs=s.update_epochs, learning_rate=s.learning_rate,
        gamma=s.gamma, gae_lambda=s.gae_lambda, clip_range=s.clip_coef, ent_coef=s.ent_coef,
    ).learn(MAX_STEPS)  # fmt: skip


def train_cleanrl(clock: ScoreClock, seed: int, args: argparse.Namespace, tuned: bool) -> None:
    """Run CleanRL's `ppo.py` with this vector environment in place of the one it makes, and without TensorBoard."""
    import gymnasium

    s = FAST_SETTINGS
    num_envs = s.num_envs if tuned else 8
    envs = make_envs(clock, num_envs, seed)
    envs.hide_infos = True  # it expects those of older versions of Gymnasium
    tensorboard = types.ModuleType("torch.utils.tensorboard")
    tensorboard.SummaryWriter = lambda path: types.SimpleNamespace(  # pyright: ignore[reportAttributeAccessIssue]
        add_text=lambda *args: None, add_scalar=lambda *args: None, close=lambda: None
    )
    sys.modules["torch.utils.tensorboard"] = tensorboard
    gymnasium.vector.SyncVectorEnv = lambda *args, **kwargs: envs  # pyright: ignore[reportAttributeAccessIssue]
    values = {"num_envs": num_envs, "seed": seed, "total_timesteps": MAX_STEPS}
    if tuned:
        names = ("num_steps", "learning_rate", "gamma", "gae_lambda", "num_minibatches", "update_epochs", "ent_coef")
        values |= {name: getattr(s, name) for name in names}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
    sys.argv = ["ppo.py", "--no-cuda", "--no-anneal-lr", *options]
    with open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere  # it prints its speed after every update
        runpy.run_path(str(args.cleanrl / "cleanrl" / "ppo.py"), run_name="__main__")


MAX_STEPS = 1_000_000_000  # more than fit into the time
FAST_SETTINGS = ppo_settings_for(Crafter().make(num_envs=1, observation="symbols").single_observation_space)
TRAINERS: dict[str, Callable[[ScoreClock, int, argparse.Namespace], None]] = {
    "envgen, preset far": partial(train_envgen, preset="far"),
    "envgen, preset fast": partial(train_envgen, preset="fast"),
    "Stable-Baselines3 PPO, default hyperparameters": partial(train_sb3, tuned=False),
    "Stable-Baselines3 PPO, hyperparameters of fast": partial(train_sb3, tuned=True),
    "sb3-contrib RecurrentPPO, hyperparameters of fast": train_recurrent_sb3,
    "CleanRL ppo.py, default hyperparameters": partial(train_cleanrl, tuned=False),
    "CleanRL ppo.py, hyperparameters of fast": partial(train_cleanrl, tuned=True),
}


def run(trainer: str, seed: int, args: argparse.Namespace, file: Path) -> None:
    """Train until the time is up and write the curve. Each trainer runs this in its own process."""
    clock = ScoreClock(args.minutes)
    stdout = sys.stdout
    try:
        TRAINERS[trainer](clock, seed, args)
    except TimeUp:
        pass
    finally:
        sys.stdout = stdout
    write_json(file, {"trainer": trainer, "seed": seed, "minutes": args.minutes, "curve": clock.curve})


# ------------------------------------------------------------------------------------------------------- the results


def time_to(curve: list[dict[str, float]], target: float) -> tuple[float, float] | None:
    """Minutes and steps until the score reaches a target; None if it never does."""
    point = next((point for point in curve if point["score"] >= target), None)
    return (point["seconds"] / 60, point["steps"]) if point else None


def load_results(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The results of all runs by trainer, in the order of TRAINERS."""
    return load_groups(folder, lambda result: result["trainer"], TRAINERS)


def format_table(groups: dict[str, list[dict[str, Any]]]) -> str:
    """Medians over seeds of the minutes and steps to each score; a dash where the median seed does not reach it."""
    rows = ["| trainer | seeds | steps/s | " + " | ".join(f"{target:g}" for target in TARGETS) + " | last score |"]
    rows.append("|---|---:|---:" + "|---:" * (len(TARGETS) + 1) + "|")
    for trainer, results in groups.items():
        last = [
            result["curve"][-1] if result["curve"] else {"steps": 0, "seconds": 1, "score": 0} for result in results
        ]
        speed = np.median([point["steps"] / point["seconds"] for point in last])
        cells = [trainer, str(len(results)), f"{speed:,.0f}"]
        for target in TARGETS:
            times = [time_to(result["curve"], target) or (np.inf, np.inf) for result in results]
            minutes, steps = np.median(times, axis=0)
            cells.append(f"{minutes:.1f} min, {steps / 1e6:.1f}M" if np.isfinite(minutes) else "-")
        scores = [point["score"] for point in last]
        spread = f" ({min(scores):.1f} to {max(scores):.1f})" if len(scores) > 1 else ""
        cells.append(f"{np.median(scores):.1f}{spread}")
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def plot(groups: dict[str, list[dict[str, Any]]], file: Path) -> None:
    """Score over minutes: the median over seeds, and their range."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(10, 4.5), layout="constrained")
    for trainer, results in groups.items():
        minutes = max(result["minutes"] for result in results)
        x = np.linspace(0, minutes, 200)
        curves = [
            np.interp(x, [p["seconds"] / 60 for p in r["curve"]], [p["score"] for p in r["curve"]], left=np.nan)
            for r in results
            if r["curve"]
        ]
        if not curves:
            continue
        values = np.array(curves)
        (line,) = axis.plot(x, np.median(values, 0), label=trainer)
        axis.fill_between(x, values.min(0), values.max(0), alpha=0.15, color=line.get_color(), linewidth=0)
    axis.axhline(50.5, color="gray", linestyle="--", linewidth=1)
    axis.text(0, 51, "human experts", color="gray", fontsize=8)
    axis.set(xlabel=f"minutes on {os.cpu_count()} cores", ylim=(0, None))
    axis.set_ylabel("score of the last 1,024 training episodes, %")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)


def write_page(folder: Path) -> str:
    groups = load_results(folder)
    plot(groups, folder / "time-to-score.png")
    minutes = sorted({result["minutes"] for results in groups.values() for result in results})
    duration = f" within {' or '.join(f'{value:g}' for value in minutes)} minutes"
    text = f"""# Time to score in Crafter

`python benchmarks/crafter_time_to_score.py`, {describe_machine()}

Each trainer learns the original Crafter from symbols in envgen's vector environment. The score is that of the most
recent {WINDOW:,} training episodes. The columns are minutes and millions of steps until it reaches 10, 20, 30, 40 and
that of human experts, 50.5: medians over seeds, with a dash where the median seed does not reach it{duration}.

{format_table(groups)}

![Score over time; bands are the range over seeds](time-to-score.png)

{read_discussion(folder)}
"""
    (folder / "README.md").write_text(text.rstrip() + "\n")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainers", nargs="+", choices=list(TRAINERS), default=list(TRAINERS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    parser.add_argument("--minutes", type=float, default=20, help="for each trainer and seed")
    parser.add_argument(
        "--steps-per-second", type=int, default=24_000, help="of envgen on this machine; sets the end of annealing"
    )
    parser.add_argument("--cleanrl", type=Path, default=Path("out/cleanrl"), help="a checkout of CleanRL")
    parser.add_argument("--results", type=Path, default=Path("docs/results/crafter-time-to-score"))
    parser.add_argument("--page", action="store_true", help="train nothing, write the page")
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    for seed in args.seeds if not args.page else ():
        for trainer in args.trainers:
            label = "-".join(trainer.lower().replace(",", "").replace(".", "-").split())
            file = args.results / f"{label}-{seed}.json"
            if file.exists():
                minutes = json.loads(file.read_text())["minutes"]
                if minutes != args.minutes:
                    raise SystemExit(f"{file} has results of {minutes:g} minutes; pass --minutes {minutes:g}")
                continue
            process = context.Process(target=run, args=(trainer, seed, args, file))
            with stop_workers_on_signals():
                process.start()
                process.join()
            if process.exitcode:
                raise SystemExit(f"{trainer}, seed {seed}: failed")
            print(f"{trainer}, seed {seed}: {json.loads(file.read_text())['curve'][-1:]}", flush=True)
    print(write_page(args.results))


if __name__ == "__main__":
    main()
