"""Train a learner phase by phase in a run directory, and continue after any interruption as if there had been none.

A phase is a number of steps in some levels. The last checkpoint records which phases are finished: the program calls
`run_phase` for each phase in order; finished ones return at once, and an interrupted one continues in mid-episode.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from envgen.agents import parallel
from envgen.agents.learner import Learner, learner_class, learner_name
from envgen.agents.networks import is_image, layout_of
from envgen.agents.ppo import PPO
from envgen.agents.rollout import EpisodeStats, UpdateResult
from envgen.agents.settings import HyperparameterError, PpoSettings
from envgen.designers.buffer import LevelEpisode
from envgen.designers.designer import LevelChain
from envgen.designers.sampler import ORIGINAL_ID, LevelMeasurements, LevelSampler
from envgen.errors import EnvgenError
from envgen.interrupts import GracefulInterrupt
from envgen.processes import explaining_lost_processes, hangs_after_loss
from envgen.runs.checkpoint import loading
from envgen.runs.statistics import has_coverage, score, success_counts, success_rates
from envgen.runs.store import Run, RunError
from envgen.settings import FrozenModel, format_validation_error, to_number
from envgen.worlds.world import Level, LevelVectorEnv, TileGrid, World

from .chains import ChainVectorEnv, start_level
from .plan import PlanError, PracticeSettings
from .practice import PracticeVectorEnv
from .sampling import SampledLevelsVectorEnv, measure_levels

RECENT_EPISODES = 200  # over which the displayed reward, length and success rates are averaged
RECENT_UPDATES = 20  # over which the speed is averaged
REWARD_WINDOW = 100_000  # steps
LINE_ENTRIES = frozenset({  # of progress lines, in addition to the metrics of the learner
    "phase", "steps", "updates", "episodes", "return_sum", "length_sum", "succeeded", "possible", "levels", "practice",
    "seconds", "steps_per_second", "recent",
})  # fmt: skip
LevelT = TypeVar("LevelT", bound=Level | LevelChain)


def make_learner(
    world: World,
    observation: str,
    learner: str | type[Learner] = "ppo",
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    device: str = "cpu",
    compile: bool = False,
    total_steps: int | None = None,
    settings_only: bool = False,
    alone: bool = False,
) -> Learner:
    """Return a new learner for a world.

    Args:
        learner: A name in `envgen.agents.learner.LEARNERS`, or a class of your own.
        settings: The settings that differ from the defaults for the observation and the world. The default encoder of
            images is impala, but on the CPU tiles for images made of tiles.
        settings_only: The learner is made for its settings, not for training: it stays on the CPU, and this machine
            need not have the device.
        alone: The learner is not for training in the processes that `torchrun` started, and joins none of them.
    """
    cls = learner_class(learner)
    world_defaults = world.ppo_defaults if issubclass(cls, PPO) else {}
    settings = {**world_defaults, **(settings or {})}
    with closing(world.make(num_envs=1, observation=observation)) as envs:
        network = {**world_defaults.get("network", {}), **settings.get("network", {})}
        if network.get("encoder", "auto") == "auto" and is_image(envs.single_observation_space):
            # recorded in the run, which may be resumed or evaluated on another device
            uses_tiles = device == "cpu" and isinstance(layout_of(envs), TileGrid)
            network["encoder"] = "tiles" if uses_tiles else "impala"
        if network:
            settings["network"] = network
        try:
            complete: Any = cls.settings_for(envs.single_observation_space, **settings)
        except ValidationError as error:
            raise HyperparameterError(format_validation_error(error)) from None
        if "name" in type(complete).model_fields:
            raise HyperparameterError(
                f"{type(complete).__name__} has a field called name, which is what run.json calls the learner itself; "
                "rename the field"
            )
        if isinstance(complete, PpoSettings) and complete.is_annealed and complete.anneal_steps is None:
            complete = complete.model_copy(update={"anneal_steps": total_steps or None})
        place = "cpu" if settings_only else device
        # not by the argument `distributed`: learners of users' own may not have it, as training does not pass it
        with parallel.alone() if alone or settings_only else nullcontext():
            return cls.for_envs(envs, settings=complete, seed=seed, device=place, compile=compile)


@contextmanager
def naming_other_learner(folder: Path, trained: Any, learner: str | type[Learner]) -> Iterator[None]:
    """Context for loading a run with a learner: if that fails and another one trained it, the error names both.

    It is tried, because the same class may have another name, such as in the module `__main__`.

    Args:
        trained: The name of the learner in the run directory.
    """
    given = learner_name(learner)
    try:
        yield
    except EnvgenError as error:
        if given == trained:
            raise
        raise RunError(
            f"{folder} was trained by the learner {trained!r:.80}, and the learner {given!r} cannot load it: {error}; "
            "pass the learner that trained it"
        ) from error


class PhaseTrainer:
    """Trains one learner. `on_progress` receives each progress line.

    With `practice`, each phase practices from states of its own episodes, because other phases have other levels. With
    `sampler`, a phase may have no levels of its own: all but `original_share` of the environments play levels from it.
    """

    def __init__(
        self,
        run: Run,
        world: World,
        observation: str,
        learner: Learner,
        seed: int = 0,
        save_every: float = 30.0,
        on_progress: Callable[[dict[str, Any]], None] = lambda line: None,
        practice: PracticeSettings | None = None,
        sampler: LevelSampler | None = None,
        original_share: float = 0.0,
    ):
        self.run, self.world, self.observation, self.learner, self.seed = run, world, observation, learner, seed
        self.save_every, self.on_progress = save_every, on_progress
        self.practice = practice or PracticeSettings()
        self._skill_names = [skill.name for skill in world.skills]
        self.sampler, self.original_share = sampler, original_share
        self.finished_phases: list[str] = []
        self.current_phase: str | None = None
        self._start_clocks()
        self._checkpoint = run.resume()
        if self._checkpoint is not None:
            values = self._checkpoint.values
            with loading(run.folder, self._checkpoint):
                self.finished_phases, self.current_phase = values["finished_phases"], values["current_phase"]
                if not isinstance(self.finished_phases, list) or not isinstance(self.current_phase, str | None):
                    raise ValueError("finished_phases or current_phase has the wrong type")
                learner.load(self._checkpoint.arrays["agent"], values["agent"])
                if sampler is not None:
                    sampler.load(self._checkpoint.arrays["sampler"], values["sampler"])

    @property
    def is_new(self) -> bool:
        """Whether nothing has been trained yet."""
        return not self.finished_phases and self.current_phase is None

    def run_phase(self, name: str, levels: Sequence[Level | LevelChain], steps: int, sampled: bool = False) -> None:
        """Train for `steps` steps, unless this phase is already finished.

        Args:
            levels: Levels and chains, side by side; the original if empty. With several processes, each counts the
                episodes of its own environments for the stages of the chains.
            sampled: Train in levels that the sampler chooses, and in the original.
        """
        if name in self.finished_phases:
            return
        if self.current_phase not in (None, name):
            raise ValueError(
                f"this run was interrupted in the phase {self.current_phase!r}, but run_phase got {name!r}; "
                "run the phases in the same order as before"
            )
        learner, resume = self.learner, self.current_phase == name
        if resume and learner.process_group.size > 1:  # several processes save only between phases
            raise RunError(
                f"{self.run.folder} was interrupted within the phase {name!r} when one process trained, and only one "
                "can continue that phase; resume it without torchrun"
            )
        with closing(self._make_envs(list(levels) or [self.world.original], sampled)) as phase:
            if resume and self._checkpoint is not None:
                with loading(self.run.folder, self._checkpoint):
                    learner.load(self._checkpoint.arrays["agent"], self._checkpoint.values["agent"], phase.envs)
            self._checkpoint, self.current_phase = None, name
            if phase.sampler is not None and not resume:
                phase.sampler.begin_phase()
                phase.sampler.refresh(self._measure_levels)
            self._start_clocks()
            processes = learner.process_group
            with (
                # when a process is lost, torchrun ends the others by SIGTERM: let them say so, where they can
                GracefulInterrupt(handle_sigterm=not hangs_after_loss()) as interrupt,
                explaining_lost_processes(processes.size, lambda: interrupt.by_ctrl_c),
            ):
                learner.train(phase.envs, steps, partial(self._on_update, phase, interrupt), resume=resume)
                self.finished_phases, self.current_phase = [*self.finished_phases, name], None
                if processes.is_main:
                    self.save()
        if interrupt.requested:  # while saving
            raise KeyboardInterrupt

    def _make_envs(self, levels: Sequence[Level | LevelChain], sampled: bool) -> "PhaseEnvs":
        """Make the environments of this process for the next phase."""
        total_envs, processes = self.learner.settings.num_envs, self.learner.process_group
        local_envs = processes.local_slice(total_envs)
        num_envs = local_envs.stop - local_envs.start
        seed = phase_seed(self.seed, len(self.finished_phases)) + local_envs.start
        entries = unique(levels)
        counts = Counter(levels[i % len(levels)] for i in range(total_envs))
        if processes.size > 1:
            levels = [levels[i % len(levels)] for i in range(local_envs.start, local_envs.stop)]
        first_levels = [start_level(entry) for entry in levels]
        envs = self.world.make(first_levels, num_envs=num_envs, seed=seed, observation=self.observation)
        if sampled and self.sampler is not None:
            envs = SampledLevelsVectorEnv(envs, self.world, self.sampler, self.original_share, seed)
            num_original = int(envs.plays_original.sum())
            env_counts = [num_original, num_envs - num_original]
            return PhaseEnvs(envs, (self.world.original, None), env_counts, sampler=self.sampler)
        chain_envs = None
        if any(isinstance(entry, LevelChain) for entry in levels):
            envs = chain_envs = ChainVectorEnv(envs, levels, self.world.skills)
        if self.practice.share:
            # beside levels, practice is for the original; at least one of its environments does not practice
            plays_original = np.array([levels[i % len(levels)] == self.world.original for i in range(num_envs)])
            candidates = plays_original if self.world.original in entries else None
            envs = PracticeVectorEnv(envs, self.world.skills, self.practice, seed, candidates)
        return PhaseEnvs(envs, entries, [counts[entry] for entry in entries], chain_envs)

    def save(self) -> None:
        """Write a checkpoint."""
        arrays, values = self.learner.state()
        groups: dict[str, Mapping[str, np.ndarray]] = {"agent": arrays}
        values = {"agent": values, "finished_phases": self.finished_phases, "current_phase": self.current_phase}
        if self.sampler is not None:
            groups["sampler"], values["sampler"] = self.sampler.state()
        self.run.save(groups, values)
        self._last_save = time.monotonic()

    def _start_clocks(self) -> None:
        self._last_save = self._last_update = time.monotonic()
        self._recent_steps = deque([(self._last_update, self.learner.steps)], maxlen=RECENT_UPDATES)
        self._recent_episodes: deque[tuple[float, int, np.ndarray]] = deque(maxlen=RECENT_EPISODES)

    def _on_update(self, phase: "PhaseEnvs", interrupt: GracefulInterrupt, update: UpdateResult) -> None:
        if phase.sampler is not None:
            self._update_sampler(phase.sampler, update.episodes)
        now = time.monotonic()
        processes = self.learner.process_group
        # Ctrl-C does not reach all processes in the same update, and none can continue without the others
        shares = processes.all_gather_objects((phase.finished_episodes(update.episodes), interrupt.requested))
        finished = FinishedEpisodes.combine([episodes for episodes, _ in shares])
        is_stopping = any(is_requested for _, is_requested in shares)
        line = self._progress_line(phase, update, finished, now)
        if processes.is_main:
            self.run.log(line)
        is_shown = False
        try:
            self.on_progress({**line, **self._recent_results(finished)})
            is_shown = True
        finally:  # also if the reader of the output, such as `tee`, has ended, so that printing fails
            is_interrupted = is_stopping or (processes.size == 1 and interrupt.requested)
            is_due = is_interrupted or not is_shown or now - self._last_save >= self.save_every
            # the main process has no access to the other processes' environments: with several, it saves between phases
            if processes.size == 1 and is_due:
                self.save()
            if is_interrupted:
                raise KeyboardInterrupt

    def _update_sampler(self, sampler: LevelSampler, episodes: EpisodeStats) -> None:
        """Tell the sampler which episodes have ended in its levels."""
        if len(episodes.positive_value_losses) != len(episodes):
            raise PlanError(
                f"the learner {type(self.learner).__name__} reports no regret (EpisodeStats.set_regret), which "
                "designers that choose the level of each episode need; use a learner that derives from PPO"
            )
        finished = zip(
            episodes.levels, episodes.returns, episodes.skill_counts, episodes.positive_value_losses,
            episodes.mean_values, strict=True,
        )  # fmt: skip
        sampler.update([LevelEpisode(*episode) for episode in finished if episode[0] != ORIGINAL_ID])
        sampler.refresh(self._measure_levels)

    def _measure_levels(self, levels: Sequence[Level], episodes: int, max_steps: int, seed: int) -> LevelMeasurements:
        return measure_levels(self.learner, self.world, self.observation, levels, episodes, max_steps, seed)

    def _progress_line(
        self, phase: "PhaseEnvs", update: UpdateResult, finished: "FinishedEpisodes", now: float
    ) -> dict[str, Any]:
        episodes = finished.episodes
        new_steps = update.steps - self._recent_steps[-1][1]
        self._recent_steps.append((now, update.steps))
        (first_time, first_steps), (last_time, last_steps) = self._recent_steps[0], self._recent_steps[-1]
        seconds, self._last_update = now - self._last_update, now
        return {
            "phase": self.current_phase,
            "steps": update.steps,
            "updates": self.learner.updates,
            **self._metrics(update),
            "episodes": len(episodes),
            "return_sum": sum(episodes.returns),
            "length_sum": sum(episodes.lengths),
            **count_successes(episodes.skill_counts),
            "levels": self._results_by_level(phase, finished, new_steps),
            **self._practice_results(episodes),
            "seconds": round(seconds, 4),
            "steps_per_second": round((last_steps - first_steps) / max(last_time - first_time, 1e-9)),
        }

    def _metrics(self, update: UpdateResult) -> dict[str, float | None]:
        """Return the metrics of the learner as JSON data, which has neither NaN nor infinity."""
        learner = type(self.learner).__name__
        metrics: dict[str, float | None] = {}
        for name, value in update.metrics.items():
            if name in LINE_ENTRIES:
                raise PlanError(
                    f"the learner {learner} reports the metric {name!r}, the name of an entry that every progress line "
                    "may have; rename it"
                )
            number = to_number(f"the metric {name!r} of the learner {learner}", value, PlanError)
            metrics[name] = number if math.isfinite(number) else None
        return metrics

    def _results_by_level(
        self, phase: "PhaseEnvs", finished: "FinishedEpisodes", new_steps: int
    ) -> list[dict[str, Any]]:
        """Return the results of the finished episodes for each entry of the phase, and its share of the steps."""
        results, episodes = [], finished.episodes
        for k, entry in enumerate(phase.entries):
            indices = [i for i, index in enumerate(finished.entries) if index == k]
            practiced = zip(episodes.practice_lengths, finished.practice_entries, strict=True)
            practice_steps = sum(length for length, index in practiced if index == k)
            results.append({
                "episodes": len(indices),
                "return_sum": sum(episodes.returns[i] for i in indices),
                "length_sum": sum(episodes.lengths[i] for i in indices),
                "env_steps": new_steps * phase.env_counts[k] // self.learner.settings.num_envs,
                **count_successes([episodes.skill_counts[i] for i in indices]),
                **({"practice": {"length_sum": practice_steps}} if practice_steps else {}),
                **self._chain_results(k, entry, finished, indices),
            })  # fmt: skip
        return results

    def _chain_results(
        self, index: int, entry: Level | LevelChain | None, finished: "FinishedEpisodes", indices: Sequence[int]
    ) -> dict[str, Any]:
        """Return the current stage of a chain, and the episodes of each stage with their successes."""
        if not isinstance(entry, LevelChain):
            return {}
        skill = self._skill_names.index(entry.skill)
        played = np.array([finished.stages[i] for i in indices], np.int64)
        succeeded = np.array([finished.episodes.skill_counts[i][skill] > 0 for i in indices], np.bool_)
        return {"chain": {
            "stage": finished.current_stages[index],
            "episodes": np.bincount(played, minlength=len(entry.levels)).tolist(),
            "succeeded": np.bincount(played[succeeded], minlength=len(entry.levels)).tolist(),
        }}  # fmt: skip

    def _practice_results(self, episodes: EpisodeStats) -> dict[str, Any]:
        """Return the practice episodes for each skill and their successes; nothing without practice."""
        if not self.practice.share:
            return {}
        skills, num_skills = np.array(episodes.practice_skills, np.int64), len(self.world.skills)
        succeeded = skills[np.array(episodes.practice_successes, np.bool_)]
        return {"practice": {
            "episodes": len(skills),
            "length_sum": sum(episodes.practice_lengths),
            "tried": np.bincount(skills, minlength=num_skills).tolist(),
            "succeeded": np.bincount(succeeded, minlength=num_skills).tolist(),
        }}  # fmt: skip

    def _recent_results(self, finished: "FinishedEpisodes") -> dict[str, Any]:
        """Return the mean results of the last episodes, for the display."""
        episodes = finished.episodes
        self._recent_episodes.extend(zip(episodes.returns, episodes.lengths, episodes.skill_counts, strict=True))
        if not self._recent_episodes:
            return {}
        returns, lengths, skill_counts = zip(*self._recent_episodes, strict=True)
        counts = np.stack(skill_counts)
        rates = np.nan_to_num(success_rates((counts > 0).sum(0), (counts >= 0).sum(0)))
        means = {"reward": float(np.mean(returns)), "length": float(np.mean(lengths)), "skills": rates.tolist()}
        return {"recent": means}


@dataclass(frozen=True)
class PhaseEnvs:
    """The environments of a phase in this process, and the entries that its progress lines report.

    An entry is a distinct level or chain; with a sampler, there are two: the original, and all levels that it chooses.
    """

    envs: LevelVectorEnv | SampledLevelsVectorEnv
    entries: Sequence[Level | LevelChain | None]
    env_counts: Sequence[int]  # of the environments that play each entry, in all processes
    chain_envs: ChainVectorEnv | None = None
    sampler: LevelSampler | None = None

    @cached_property
    def _entries_of_levels(self) -> list[int]:
        """For each of `envs.levels`, the entry that it belongs to."""
        assert not isinstance(self.envs, SampledLevelsVectorEnv)  # whose levels are those of the sampler
        sources = self.envs.levels if self.chain_envs is None else self.chain_envs.level_sources
        return [self.entries.index(source) for source in sources]

    def finished_episodes(self, episodes: EpisodeStats) -> "FinishedEpisodes":
        """Return the episodes that ended in the environments of this process, with their entries."""
        stages = [-1] * len(episodes)
        current_stages: dict[int, int] = {}
        practice_entries: list[int] = []  # there is no practice beside a sampler
        if self.sampler is not None:
            entries = [int(level != ORIGINAL_ID) for level in episodes.levels]
        else:
            entries = [self._entries_of_levels[level] for level in episodes.levels]
            practice_entries = [self._entries_of_levels[level] for level in episodes.practice_levels]
        if self.chain_envs is not None:
            stages = [int(self.chain_envs.level_stages[level]) for level in episodes.levels]
            current_stages = {
                self.entries.index(chain): self.chain_envs.stage_of(chain) for chain in self.chain_envs.chains
            }
        return FinishedEpisodes(episodes, entries, practice_entries, stages, current_stages)

    def close(self) -> None:
        self.envs.close()


@dataclass
class FinishedEpisodes:
    """The episodes that ended in a rollout."""

    episodes: EpisodeStats
    entries: list[int]  # for each episode, the index of its level or chain among those of the phase
    practice_entries: list[int]  # the same for each practice episode
    stages: list[int]  # for each episode, the stage of the chain; -1 without
    current_stages: dict[int, int]  # of each chain, by its index

    @classmethod
    def combine(cls, parts: Sequence["FinishedEpisodes"]) -> "FinishedEpisodes":
        """Return the episodes of all processes. The stage of a chain is that of the first process that plays it."""
        if len(parts) == 1:
            return parts[0]
        episodes = EpisodeStats()
        for field in fields(EpisodeStats):
            setattr(episodes, field.name, [value for part in parts for value in getattr(part.episodes, field.name)])
        stages = {index: stage for part in reversed(parts) for index, stage in part.current_stages.items()}
        return cls(
            episodes,
            [entry for part in parts for entry in part.entries],
            [entry for part in parts for entry in part.practice_entries],
            [stage for part in parts for stage in part.stages],
            stages,
        )


def unique(levels: Sequence[LevelT]) -> list[LevelT]:
    """Return the distinct levels and chains in order."""
    return list(dict.fromkeys(levels))


def count_successes(skill_counts: list[np.ndarray]) -> dict[str, list[int] | None]:
    """Count in how many episodes each skill succeeded and, unless it was all of them, in how many it was possible."""
    if not skill_counts:
        return {"succeeded": None}
    counts = np.stack(skill_counts)
    possible = {} if (counts >= 0).all() else {"possible": (counts >= 0).sum(0).tolist()}
    return {"succeeded": (counts > 0).sum(0).tolist(), **possible}


def line_of_entry(line: Mapping[str, Any], index: int) -> dict[str, Any]:
    """Return a progress line with the episodes of one entry of `levels` in place of all episodes."""
    entries = line["levels"]
    # an entry may have no "possible" where the line has; practice is that of the original if no entry has its own
    practice: dict[str, Any] = {"practice": {}} if any("practice" in entry for entry in entries) else {}
    return {**line, "possible": None, **practice, **entries[index]}


def phase_seed(seed: int, phase: int) -> int:
    """Return the seed of a phase's first environment; the others count up from it. It depends on run and phase."""
    return int(np.random.SeedSequence([seed, phase]).generate_state(1)[0] >> 1)


class TrainingStats(FrozenModel):
    """Results of the training episodes of a phase: the measure that EnvGen and most Crafter papers publish.

    Score and success rates (percent) are taken over all episodes that ended in the phase, so they are lower than what
    the final policy reaches. The reward is the mean over those that ended in its last 100,000 steps.
    """

    episodes: int
    score: float
    reward: float
    skills: dict[str, float]


def training_stats(lines: Iterable[Mapping[str, Any]], skills: Sequence[str]) -> TrainingStats | None:
    """Return the statistics of a phase from its progress lines; None if too few of its episodes ended.

    Practice is not counted.
    """
    lines = list(lines)
    episodes = np.array([line["episodes"] for line in lines])
    if not episodes.sum() or not has_coverage(lines):
        return None
    returns = np.array([line["return_sum"] for line in lines])
    succeeded, possible = success_counts(lines, len(skills))
    steps_at = np.array([line["steps"] for line in lines])
    is_late = steps_at > steps_at[-1] - REWARD_WINDOW
    if not episodes[is_late].sum():
        is_late[:] = True
    rates = success_rates(succeeded.sum(0), possible.sum(0))
    return TrainingStats(
        episodes=int(episodes.sum()),
        score=float(score(rates)),
        reward=float(returns[is_late].sum() / episodes[is_late].sum()),
        skills=dict(zip(skills, np.nan_to_num(rates).tolist(), strict=True)),
    )
