"""An agent that learns phase after phase in a run directory, and goes on after any interruption as if there was none.

A phase is some steps in some levels. What was finished is known from the last checkpoint: a program calls `phase` for
each in order, and those that are over return at once, the one that was cut off goes on in mid-episode.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from envgen.agents.ppo import PPO
from envgen.agents.rollout import EpisodeStats, UpdateResult
from envgen.agents.settings import ppo_settings_for
from envgen.runs.statistics import success_rates
from envgen.runs.store import Run
from envgen.worlds.world import World

from .plan import PPO_DEFAULTS
from .stop import GracefulInterrupt

RECENT = 200  # episodes that the figures of progress are taken over
PACE = 20  # updates that the speed is taken over


def make_learner(
    world: World, observation: str, ppo: Mapping[str, Any], seed: int = 0, device: str = "cpu", compile: bool = False
) -> PPO:
    """A fresh agent for a world, with these of its settings where they differ from what suits that world."""
    with closing(world.make(num_envs=1, observation=observation)) as envs:
        settings = ppo_settings_for(envs.single_observation_space, **{**PPO_DEFAULTS.get(world.name, {}), **ppo})
        return PPO.for_envs(envs, settings=settings, seed=seed, device=device, compile=compile)


class PhaseTrainer:
    """`show` hears each line of progress as it is logged."""

    def __init__(
        self,
        run: Run,
        world: World,
        observation: str,
        agent: PPO,
        seed: int = 0,
        save_every: float = 30.0,
        show: Callable[[dict[str, Any]], None] = lambda line: None,
    ):
        self.run_dir, self.world, self.observation, self.agent, self.seed = run, world, observation, agent, seed
        self.save_every, self.on_progress = save_every, show
        self.finished: list[str] = []
        self.running: str | None = None
        self._last = run.resume()
        if self._last is not None:
            self.finished, self.running = self._last.values["finished"], self._last.values["running"]
            self.agent.load(self._last.arrays["agent"], self._last.values["agent"])

    def run_phase(self, name: str, levels: Sequence[Any], steps: int) -> None:
        """Learn for `steps` steps in `levels`, unless this run did so already."""
        if name in self.finished:
            return
        if self.running not in (None, name):
            raise ValueError(f"this run is in the middle of the phase {self.running!r}, not {name!r}")
        agent, resume = self.agent, self.running == name
        mine = agent.process_group.local_slice(agent.settings.num_envs)
        seed = phase_seed(self.seed, len(self.finished)) + mine.start
        levels = [self.world.Level.parse(level) for level in levels] or [self.world.original]
        self._levels = unique(levels)
        if agent.process_group.size > 1:
            levels = [levels[i % len(levels)] for i in range(mine.start, mine.stop)]
        envs = self.world.make(levels, num_envs=mine.stop - mine.start, seed=seed, observation=self.observation)
        if resume and self._last is not None:
            agent.load(self._last.arrays["agent"], self._last.values["agent"], envs)
        self._last, self.running = None, name
        self._place = [self._levels.index(level) for level in envs.levels]  # pyright: ignore[reportAttributeAccessIssue]
        self._begin()
        try:
            with GracefulInterrupt() as self._stop:
                agent.train(envs, steps, self._after, resume=resume)
        finally:
            envs.close()
        self.finished, self.running = [*self.finished, name], None
        if agent.process_group.is_main:
            self.save()

    def save(self) -> None:
        arrays, values = self.agent.state()
        self.run_dir.save({"agent": arrays}, {"agent": values, "finished": self.finished, "running": self.running})
        self._saved = time.monotonic()

    def _begin(self) -> None:
        self._saved = time.monotonic()
        self._heard = self._saved
        self._passed = deque([(self._saved, self.agent.steps)], maxlen=PACE)  # when so many steps were done
        self._recent: deque[tuple[float, int, np.ndarray]] = deque(maxlen=RECENT)

    def _after(self, update: UpdateResult) -> None:
        episodes = update.episodes
        self._recent.extend(zip(episodes.returns, episodes.lengths, episodes.skill_counts, strict=True))
        self._passed.append((time.monotonic(), update.steps))
        (began, before), (now, steps) = self._passed[0], self._passed[-1]
        speed = (steps - before) / max(now - began, 1e-9)
        spent, self._heard = now - self._heard, now
        line: dict[str, Any] = {
            "phase": self.running,
            "steps": update.steps,
            "updates": self.agent.updates,
            **update.metrics,
            "episodes": len(episodes),
            "return_sum": sum(episodes.returns),
            "length_sum": sum(episodes.lengths),
            **_tally(episodes.skill_counts),
            "levels": self._by_level(episodes),
            "seconds": round(spent, 4),
            "steps_per_second": round(speed),
        }
        if self.agent.process_group.is_main:
            self.run_dir.log(line)
        if self._recent:
            returns, lengths, skills = zip(*self._recent, strict=True)
            stacked = np.stack(skills)
            line["recent"] = {
                "reward": float(np.mean(returns)),
                "length": float(np.mean(lengths)),
                "skills": np.nan_to_num(success_rates((stacked > 0).sum(0), (stacked >= 0).sum(0))).tolist(),
            }
        self.on_progress(line)
        # of a team, nobody knows everybody's episodes: it saves between phases only
        if self.agent.process_group.size == 1 and (self._stop.requested or now - self._saved >= self.save_every):
            self.save()
        if self._stop.requested:
            raise KeyboardInterrupt

    def _by_level(self, episodes: EpisodeStats) -> list[dict[str, Any]]:
        """The episodes that ended, sorted into the distinct levels of this phase."""
        told = []
        for k in range(len(self._levels)):
            here = [i for i, level in enumerate(episodes.levels) if self._place[level] == k]
            told.append({
                "episodes": len(here),
                "return_sum": sum(episodes.returns[i] for i in here),
                **_tally([episodes.skill_counts[i] for i in here]),
            })  # fmt: skip
        return told


def unique(levels: Sequence[Any]) -> list[Any]:
    return list(dict.fromkeys(levels))


def _tally(skills: list[np.ndarray]) -> dict[str, list[int] | None]:
    """In how many of these episodes each skill succeeded; and in how many it could, if not in all."""
    if not skills:
        return {"succeeded": None}
    counts = np.stack(skills)
    possible = {} if (counts >= 0).all() else {"possible": (counts >= 0).sum(0).tolist()}
    return {"succeeded": (counts > 0).sum(0).tolist(), **possible}


def phase_seed(seed: int, phase: int) -> int:
    """The seed of the first environment of a phase; the others follow it. Far from those of other runs and phases."""
    return int(np.random.SeedSequence([seed, phase]).generate_state(1)[0] >> 1)
