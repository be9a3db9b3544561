"""Send what a run records to TensorBoard or Weights & Biases, in addition to its run directory.

Everything is read from the run directory, so a resumed run continues its curves. To log a finished run, repeat its
command with `--log`. TensorBoard's files are in RUN/tensorboard. Weights & Biases keeps its files in RUN/wandb and is
offline unless the environment variable WANDB_MODE says otherwise; `wandb sync` uploads them. WANDB_PROJECT names the
project, by default "envgen".
"""

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from pydantic import ValidationError

from envgen.errors import EnvgenError
from envgen.imports import is_installed
from envgen.settings import format_choice_error, format_validation_error
from envgen.worlds.world import World

from .files import check_inside
from .kinds import skill_rates
from .phases import cycle_of, original_index
from .statistics import EpisodeWindow, score
from .store import PROGRESS, exists, read_json, read_progress, read_request, write_json

SAVE_SECONDS = 10.0  # between two writes of wandb.json
LOSSES = (
    "policy_loss", "value_loss", "entropy", "approx_kl", "clipfrac", "grad_norm", "explained_variance",
    "prediction_loss", "matching_loss", "aux_kl", "aux_value_loss",
)  # fmt: skip


class LoggerError(EnvgenError):
    """A logger cannot be used. The message says what to do."""


def _check_no_link(folder: Path, name: str) -> None:
    """Raise LoggerError if a subfolder of a run directory leads elsewhere."""
    try:
        check_inside(folder, folder / name / "file")
    except OSError as error:
        raise LoggerError(f"cannot write to {folder / name}: {error.strerror}; remove it") from None


class Logger(Protocol):
    """Receives numbers, texts and images, each with the number of environment steps (or rollouts) so far."""

    def log_scalars(self, values: Mapping[str, float], steps: int) -> None: ...

    def log_text(self, name: str, text: str, steps: int) -> None: ...

    def log_image(self, name: str, image: np.ndarray, steps: int) -> None:
        """An image (H, W, 3) of bytes."""
        ...

    def start_summary(self, steps: int) -> None:
        """The results of the finished run follow, with the number of steps of the last progress line."""
        ...

    def close(self) -> None: ...


class TensorBoardLogger:
    """Rewrites RUN/tensorboard from the first step of the run."""

    def __init__(self, folder: Path):
        from torch.utils.tensorboard import SummaryWriter

        _check_no_link(folder, "tensorboard")
        shutil.rmtree(folder / "tensorboard", ignore_errors=True)
        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def log_scalars(self, values: Mapping[str, float], steps: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, steps)

    def log_text(self, name: str, text: str, steps: int) -> None:
        self.writer.add_text(name, "    " + text.replace("\n", "\n    "), steps)  # as code, not as Markdown

    def log_image(self, name: str, image: np.ndarray, steps: int) -> None:
        self.writer.add_image(name, image, steps, dataformats="HWC")

    def start_summary(self, steps: int) -> None:
        pass

    def close(self) -> None:
        self.writer.close()


@contextmanager
def _explain_wandb_errors() -> Iterator[None]:
    """Raise LoggerError for whatever Weights & Biases raises: no key or a wrong one, no network, a wrong setting."""
    try:
        yield
    except Exception as error:
        reason = format_validation_error(error) if isinstance(error, ValidationError) else str(error)
        reason = " ".join(reason.split()).removesuffix(".") or type(error).__name__
        raise LoggerError(
            f"cannot log to Weights & Biases: {reason}; correct this, set WANDB_MODE=offline, or leave out the logger "
            "wandb, and continue the run by repeating the command or call"
        ) from error


class WandbLogger:
    """Continues the Weights & Biases run whose id is in RUN/wandb.json. What it has logged is not logged again.

    A run that the calling program has open goes on beside it.
    """

    def __init__(self, folder: Path):
        import wandb

        _check_no_link(folder, "wandb")
        self.file = folder / "wandb.json"
        state = read_json(self.file) if exists(self.file) else {}
        is_valid = isinstance(state, dict) and isinstance(state.get("steps", -1), int)
        self.steps = self.last_steps = state.get("steps", -1) if is_valid else -1
        self.summary_steps = state.get("summary_steps", -1) if is_valid else -1  # of the summary logged last
        self.id = str(state.get("id", "")) if is_valid else ""
        if not (self.id.isalnum() and self.id.isascii()):
            self.id = secrets.token_hex(8)
        self.wandb = wandb
        mode: Any = os.environ.get("WANDB_MODE", "offline")
        project, config = os.environ.get("WANDB_PROJECT") or "envgen", dict(read_request(folder)[0])
        with _explain_wandb_errors():
            self.run = wandb.init(
                project=project, id=self.id, resume="allow", name=folder.resolve().name, dir=str(folder), config=config,
                mode=mode, reinit="create_new",
                settings=wandb.Settings(silent=True, console="off", disable_git=True),
            )  # fmt: skip
            self.run.define_metric("steps")
            self.run.define_metric("*", step_metric="steps")
        self._save()

    def log_scalars(self, values: Mapping[str, float], steps: int) -> None:
        self._log(dict(values), steps)

    def log_text(self, name: str, text: str, steps: int) -> None:
        self._log({name: self.wandb.Table(columns=["text"], data=[[text]])}, steps)

    def log_image(self, name: str, image: np.ndarray, steps: int) -> None:
        self._log({name: self.wandb.Image(image)}, steps)

    def _log(self, values: dict[str, Any], steps: int) -> None:
        if steps > self.steps:  # an earlier process logged everything up to self.steps
            with _explain_wandb_errors():
                self.run.log({**values, "steps": steps})
            self.last_steps = max(steps, self.last_steps)
            if time.monotonic() - self._last_save >= SAVE_SECONDS:
                self._save()

    def start_summary(self, steps: int) -> None:
        if steps != self.summary_steps:  # an earlier process may have logged the last line, but not the summary
            self.steps, self.summary_steps = min(self.steps, steps - 1), steps

    def close(self) -> None:
        with _explain_wandb_errors():
            self.run.finish()
        self._save()

    def _save(self) -> None:
        """Write what a resumed run continues from, also if this process is killed."""
        write_json(self.file, {"id": self.id, "steps": self.last_steps, "summary_steps": self.summary_steps})
        self._last_save = time.monotonic()


LOGGERS: dict[str, Callable[[Path], Logger]] = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger}


def check_loggers(names: Any) -> None:
    """Raise LoggerError for whatever is not a list of known loggers, or if the package of one is not installed."""
    if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(name, str) for name in names):
        raise LoggerError(f'log must be a list of names, such as ["tensorboard"], not {names!r:.80}')
    for name in names:
        if name not in LOGGERS:
            raise LoggerError(f"log {format_choice_error(name, list(LOGGERS))}")
        if not is_installed(name):
            raise LoggerError(f"--log {name} needs the package {name}: pip install 'envgen[{name}]'")


class RunLogger:
    """Logs a run while it trains: first what its run directory holds, then each new progress line, then its summary.

    Use it as a context manager. The summary is logged on exit, unless an error ended the run.

    Args:
        folder: The run directory.
        names: Keys of LOGGERS; empty to log nothing.
    """

    def __init__(self, folder: Path, names: Sequence[str]):
        check_loggers(names)
        self.folder, self.names = folder, names
        self.loggers: list[Logger] = []
        self._open_loggers = ExitStack()  # closes each of them, even if another one fails
        self.steps = 0  # of the last progress line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        with self._open_loggers:
            if kind is None:
                self._finish()
        self.loggers = []

    def on_progress(self, line: Mapping[str, Any]) -> None:
        """Call this with each progress line, after it was written to the run directory."""
        if not self.names:
            return
        if self.loggers:
            self.log_line(line)
        else:
            self._start()

    def _finish(self) -> None:
        """Log the summary of the finished run."""
        if not self.names:
            return
        if not self.loggers:
            self._start()
        if exists(self.folder / "summary.json"):
            for logger in self.loggers:
                logger.start_summary(self.steps)
            self.log_summary(read_json(self.folder / "summary.json"))

    def _start(self) -> None:
        """Open the loggers and log what is in the run directory."""
        self.steps = 0
        for name in self.names:
            self.loggers.append(LOGGERS[name](self.folder))
            self._open_loggers.callback(self.loggers[-1].close)
        if exists(self.folder / PROGRESS):
            for line in read_progress(self.folder):
                self.log_line(line)

    def log_scalars(self, values: Mapping[str, float | None]) -> None:
        finite = {name: value for name, value in values.items() if value is not None and np.isfinite(value)}
        for logger in self.loggers:
            logger.log_scalars(finite, self.steps)

    def log_line(self, line: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        raise NotImplementedError


class TrainingLogger(RunLogger):
    """Logs a run of `envgen train`, over environment steps."""

    def __init__(self, folder: Path, world: World, names: Sequence[str]):
        super().__init__(folder, names)
        self.world, self.skills = world, [skill.name for skill in world.skills]
        self._phase: str | None = None  # of the last progress line
        self._num_designed = 0  # cycles, when the phase began
        self._cycles: set[tuple[int, str]] = set()  # the results that are logged
        self._proposed: list[Mapping[str, Any]] = []  # the levels of the current cycle
        self._in_original, self._in_levels = EpisodeWindow(len(self.skills)), EpisodeWindow(len(self.skills))

    def log_line(self, line: Mapping[str, Any]) -> None:
        self.steps = line["steps"]
        if line["phase"] != self._phase:  # cycles are designed and evaluated between phases
            self._phase, cycle = line["phase"], cycle_of(line["phase"])
            num_evaluated = self._num_designed if cycle is None else cycle - 1
            self._num_designed = self._num_designed if cycle is None else cycle
            self._log_cycles(self._num_designed, num_evaluated)
        values = {f"losses/{name}": line[name] for name in LOSSES if name in line}
        values["charts/SPS"] = line["steps_per_second"]
        index = original_index(line["phase"], self._proposed)
        original = [results for k, results in enumerate(line["levels"]) if k == index]
        in_levels = [results for k, results in enumerate(line["levels"]) if k != index]
        values |= self._episode_values(original, self._in_original, "charts", "skills")
        values |= self._episode_values(in_levels, self._in_levels, "levels", "level_skills")
        if "practice" in line:
            tried = sum(line["practice"]["tried"])
            values["practice/episodes"] = tried
            if tried:
                values["practice/success_rate"] = 100 * sum(line["practice"]["succeeded"]) / tried
        self.log_scalars(values)

    def _episode_values(
        self, results: Sequence[Mapping[str, Any]], window: EpisodeWindow, charts: str, skills: str
    ) -> dict[str, float]:
        for result in results:
            window.add(result)
        episodes = sum(result["episodes"] for result in results)
        if not episodes:
            return {}
        rates = window.success_rates()
        return {
            f"{charts}/episodic_return": sum(result["return_sum"] for result in results) / episodes,
            f"{charts}/episodic_length": sum(result["length_sum"] for result in results) / episodes,
            f"{charts}/score": float(score(rates)),
            **{f"{skills}/{name}": rate for name, rate in zip(self.skills, rates.tolist(), strict=True)},
        }

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        num_cycles = len(list(self.folder.glob("cycles/*")))
        self._log_cycles(num_cycles, num_cycles)
        self._log_evaluation(summary["final"], "final")

    def _log_cycles(self, num_designed: int, num_evaluated: int) -> None:
        """Log the levels and evaluations of the first cycles that are not logged yet."""
        for number in range(1, num_designed + 1):
            for kind in ("levels", "evaluation"):
                file = self.folder / "cycles" / str(number) / f"{kind}.json"
                is_due = (number, kind) not in self._cycles and (kind == "levels" or number <= num_evaluated)
                if is_due and exists(file):
                    self._cycles.add((number, kind))
                    data = read_json(file)
                    if kind == "levels":
                        self._proposed = data["proposal"]["levels"]
                        self._log_proposal(data["proposal"])
                    else:
                        self._log_evaluation(data["evaluation"], "evaluation")

    def _log_proposal(self, proposal: Mapping[str, Any]) -> None:
        """The proposal as text, and a map of each level."""
        levels = {str(k): item["level"] for k, item in enumerate(proposal["levels"], 1)}
        text = proposal["raw_reply"] or json.dumps(proposal["levels"], indent=1)
        for logger in self.loggers:
            logger.log_text("designer/proposal", text, self.steps)
            if levels:
                logger.log_image("designer/levels", np.asarray(self.world.render_levels(levels)), self.steps)

    def _log_evaluation(self, evaluation: Mapping[str, Any], name: str) -> None:
        values = {f"{name}/{key}": evaluation[key]["value"] for key in ("score", "reward")}
        values |= {f"{name}_skills/{skill}": rate for skill, rate in skill_rates(evaluation).items()}
        self.log_scalars(values)


class CoevolutionLogger(RunLogger):
    """Logs a run of `envgen coevolve`: every number of its progress, over rollouts."""

    def log_line(self, line: Mapping[str, Any]) -> None:
        self.steps = line["rollouts"]
        self.log_scalars(_numbers(line))

    def log_summary(self, summary: Mapping[str, Any]) -> None:
        self.log_scalars(_numbers(summary, "summary/"))


def _numbers(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers in nested mappings, by path: `{"a": {"b": 1}}` to `{"a/b": 1}`."""
    numbers: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            numbers |= _numbers(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            numbers[prefix + name] = value
    return numbers
