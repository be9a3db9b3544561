"""Evaluate a language model as the agent: episodes, their cost, and how an interrupted evaluation continues.

run.json                       what decides the result, library versions, machine
episodes/1/ledger-0001.jsonl   the conversation in the first thousand steps of the episode
episodes/1/requests/           the files of `manual`
episodes/1/steps.jsonl         one line per step: action, reward, skills first achieved
episodes/1/episode.json        the result of the episode, once it is complete
evaluation.json                the result of all episodes

Episode k is the first episode with the seed `seed + k - 1`, as in an evaluation of a trained agent with the same seed.
An evaluation that is started again repeats its unfinished episodes from their beginning and finds the replies in their
ledgers, so it continues exactly where it stopped, and nothing is paid for twice.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from envgen.curriculum.evaluate import Evaluation, check_episodes, run_episodes, summarize_episodes
from envgen.designers.chat.backends import make_backend
from envgen.designers.chat.chat import Chat, UsageTracker
from envgen.designers.chat.ledger import UsageTotals, read_lines, sum_usage
from envgen.designers.chat.protocol import Backend, BudgetExceededError, ChatError, ChatRequest
from envgen.designers.chat.threads import Interrupted, open_chat, run_in_threads
from envgen.designers.chat.usage import ChatUsage, format_dollars
from envgen.errors import EnvgenError
from envgen.runs.files import check_inside, exists
from envgen.runs.store import Run, RunError, read_json, reading, write_bytes
from envgen.worlds.world import Level, World

from .agent import LlmAgent
from .results import EpisodeResult, LlmEvaluation
from .settings import LlmAgentConfig

STEPS_PER_LEDGER = 1000  # so that no ledger becomes too large to be read
Progress = Callable[[Mapping[str, Any]], object]


def evaluate_llm_agent(
    world: World,
    config: LlmAgentConfig,
    folder: Path,
    episodes: int = 1,
    level: Any = None,
    seed: int = 0,
    on_progress: Progress = lambda line: None,
    log: Callable[[str], object] = print,
) -> LlmEvaluation:
    """Play episodes with a language model, or continue an interrupted evaluation.

    Returns the result, which is also in `evaluation.json`.

    Args:
        folder: The directory of the evaluation. The number of episodes may differ from before.
        on_progress: Called after every step with the line of `steps.jsonl` and `episode`, `skills` and `complete`.
        log: Receives messages for the user, such as the files that `manual` waits for.
    """
    check_episodes(episodes, seed)
    level = world.Level.parse(level)
    if "text" not in world.observations:
        raise EnvgenError(
            f"a language model plays from text observations, which {world.name} does not have; "
            "choose another world, or add the observation text to this one"
        )
    if not world.actions:
        raise EnvgenError(f"a language model chooses among named actions, which {world.name} does not have")
    _check_backend(config, folder)
    settings = config.agent_settings
    request = {
        "policy": "llm", "world": world.name, "level": level.to_overrides(), "seed": seed, "llm": config.llm,
        "settings": settings.model_dump(mode="json"),
    }  # fmt: skip
    with Run(folder, request, runtime_options=config.for_record()) as run:
        runner = EvaluationRunner(world, config, folder, level, seed, on_progress, log)
        results = runner.play(episodes)
        evaluation = _summarize(world, level, seed, results)
        usage = ChatUsage.combine(episode.usage for episode in results)
        result = LlmEvaluation(
            llm=config.llm, settings=settings, evaluation=evaluation, episodes=tuple(results), usage=usage
        )
        run.write("evaluation", result.model_dump(mode="json"))
    return result


def _check_backend(config: LlmAgentConfig, folder: Path) -> None:
    """Raise an error if the model cannot be used, before anything is written."""
    episode = folder / "episodes" / "1"
    config.check_prices(open_backend(config, episode, 1, 1), episode / ledger_name(1))


class EvaluationRunner:
    """Plays the episodes of one evaluation, several of them at the same time, within one budget."""

    def __init__(
        self, world: World, config: LlmAgentConfig, folder: Path, level: Level, seed: int, on_progress: Progress,
        log: Callable[[str], object],
    ):  # fmt: skip
        self.world, self.config, self.level, self.seed = world, config, level, seed
        self.folder, self.on_progress, self.log = folder / "episodes", on_progress, log
        self.stop = threading.Event()
        self.results = self._load_results()
        self.usage_tracker = UsageTracker(config.prices, self._known_usage())

    def play(self, episodes: int) -> list[EpisodeResult]:
        """The results of the first episodes. Those that are not complete are played."""
        pending = deque(number for number in range(1, episodes + 1) if number not in self.results)
        num_workers = min(self.config.num_workers, len(pending))
        try:
            if num_workers > 1:
                self._play_in_threads(pending, num_workers)
            else:
                for number in pending:
                    self.play_episode(number)
        except BudgetExceededError as error:
            complete = sum(number in self.results for number in range(1, episodes + 1))
            first = next(number for number in range(1, episodes + 1) if number not in self.results) - 1
            hint = f", or evaluate the first {first} with --episodes {first}" if first else ""
            raise BudgetExceededError(f"{error}{hint}; {complete} of {episodes} episodes are complete") from None
        return [self.results[number] for number in range(1, episodes + 1)]

    def _play_in_threads(self, pending: deque[int], num_workers: int) -> None:
        with closing(self._make_envs(1)) as envs:  # compiles the world's kernels in one thread
            envs.reset()
            envs.step(np.zeros(1, np.int64))
        run_in_threads(pending, self.play_episode, num_workers, self.stop, self.log)

    def play_episode(self, number: int) -> None:
        folder = self.folder / str(number)
        conversation = Conversation(self, folder, number)
        lines: list[str] = []
        agent = LlmAgent(
            self.world, self.config.agent_settings, conversation.ask, self.level.done_skills,
            lambda line: self._record_step(number, agent, lines, line),
        )  # fmt: skip
        with closing(self._make_envs(number)) as envs, closing(conversation):
            returns, lengths, counts = run_episodes(agent, envs, 1, None, agent)
        result = EpisodeResult(
            number=number,
            seed=self.seed + number - 1,
            reward=float(returns[0]),
            length=int(lengths[0]),
            skills={skill.name: int(count) for skill, count in zip(self.world.skills, counts[0], strict=True)},
            first_success=agent.achieved,
            unparsable=agent.num_unparsable,
            cut_off=conversation.num_cut_off,
            usage=ChatUsage.from_totals(conversation.usage),
        )
        write_bytes(folder / "steps.jsonl", "".join(f"{line}\n" for line in lines).encode())
        Run(folder, {}, is_main=False).write("episode", result.model_dump(mode="json"))
        self.results[number] = result
        self.log(
            f"Episode {number}: reward {result.reward:.1f}, {result.length} steps, {len(result.first_success)} skills, "
            f"{result.usage.calls:,} calls{format_dollars(result.usage.dollars)}"
        )

    def _make_envs(self, number: int) -> Any:
        return self.world.make([self.level], num_envs=1, seed=self.seed + number - 1, observation="text")

    def _record_step(self, number: int, agent: LlmAgent, lines: list[str], line: dict[str, Any]) -> None:
        lines.append(json.dumps(line))
        progress = {"episode": number, "skills": len(agent.achieved), "complete": len(self.results)}
        with self.usage_tracker.lock:  # one line at a time
            self.on_progress({**line, **progress, "usage": self.usage_tracker.totals()})

    def _load_results(self) -> dict[int, EpisodeResult]:
        """The results of all complete episodes, also of those that are not evaluated this time."""
        results = {}
        for folder in self._episode_folders():
            file = folder / "episode.json"
            if exists(file):
                with reading(file):
                    result = EpisodeResult.model_validate(read_json(file))
                    if result.number != int(folder.name) or result.seed != self.seed + result.number - 1:
                        raise ValueError("it is the result of another episode")
                results[result.number] = result
        return results

    def _known_usage(self) -> dict[Path, UsageTotals]:
        """What all episodes have used so far: by episode if it is complete, otherwise by ledger."""
        usage = {}
        for folder in self._episode_folders():
            if result := self.results.get(int(folder.name)):
                usage[folder] = result.usage.to_totals()
            else:
                for file in sorted(folder.glob("ledger-*.jsonl")):
                    usage[file] = sum_usage(read_lines(file), self.config.prices)
        return usage

    def _episode_folders(self) -> list[Path]:
        try:
            check_inside(self.folder.parent, self.folder / "1")
            entries = list(self.folder.iterdir()) if self.folder.is_dir() else []
        except OSError as error:
            raise RunError(f"cannot read {self.folder}: {error.strerror}") from error
        return [entry for entry in entries if entry.name.isdecimal() and entry.is_dir() and not entry.is_symlink()]


class Conversation:
    """The requests of one episode, in the order in which they are sent."""

    def __init__(self, runner: EvaluationRunner, folder: Path, number: int):
        self.runner, self.folder, self.number = runner, folder, number
        self.usage = UsageTotals()  # of the parts that are closed
        self.num_cut_off = 0
        self._part, self._chat = 0, None

    def ask(self, step: int, request: ChatRequest) -> str:
        """The reply to a request of this step."""
        if self.runner.stop.is_set():
            raise Interrupted
        part = (step - 1) // STEPS_PER_LEDGER + 1
        if part != self._part:
            self.close()
            self._chat = self._open(part)
        assert self._chat is not None
        reply = self._chat.complete(request)
        self.num_cut_off += reply.is_cut_off
        return reply.text

    def _open(self, part: int) -> Chat:
        runner, self._part = self.runner, part
        self._file = self.folder / ledger_name(part)
        backend = open_backend(runner.config, self.folder, self.number, part)
        return open_chat(
            backend, self._file, runner.folder.parent, runner.config, runner.usage_tracker, runner.stop, runner.log
        )

    def close(self) -> None:
        if self._chat is not None:
            self.usage, self._chat = self.usage.combine(self.runner.usage_tracker.close(self._file)), None


def open_backend(config: LlmAgentConfig, folder: Path, number: int, part: int) -> Backend:
    """The backend for one part of an episode. `replay` reads the ledger of the same part in another evaluation."""
    kind, _, source = config.llm.partition(":")
    llm = config.llm
    if kind == "replay" and source:
        ledger = Path(source) / "episodes" / str(number) / ledger_name(part)
        if not ledger.is_file():
            raise ChatError(f"there is no {ledger} to replay; pass the directory of an evaluation with --policy llm")
        llm = f"replay:{ledger}"
    return make_backend(llm, config.base_url, folder / "requests", config.timeout, config.key_env)


def ledger_name(part: int) -> str:
    return f"ledger-{part:04}.jsonl"


def _summarize(world: World, level: Level, seed: int, results: Sequence[EpisodeResult]) -> Evaluation:
    skills = [skill.name for skill in world.skills]
    for result in results:
        if list(result.skills) != skills:
            raise RunError(f"the result of episode {result.number} has other skills than {world.name}")
    counts = np.array([list(result.skills.values()) for result in results])
    return summarize_episodes(
        skills,
        returns=np.array([result.reward for result in results]),
        lengths=np.array([result.length for result in results]),
        skill_counts=counts,
        world=world.name, level=level.model_dump(mode="json"), seed=seed, deterministic=False,
    )  # fmt: skip
