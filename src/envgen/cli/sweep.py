"""`envgen sweep`: train a grid of runs, on this machine or on many."""

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro
from pydantic import ValidationError
from tyro.conf import OmitArgPrefixes, Positional

from envgen.api import DEFAULT_DESIGNER
from envgen.coevolution.registry import DEFAULT_PROPOSER, PROPOSERS
from envgen.coevolution.settings import MODEL_CURRICULUM, MODEL_PLAN
from envgen.designers.chat.budget_file import BudgetFile, SharedLimits
from envgen.designers.designer import DesignError, DesignerWrapper
from envgen.designers.llm import LlmDesigner
from envgen.designers.registry import LlmConfig, load_designer_class
from envgen.interrupts import INTERRUPTED
from envgen.runs.files import suggest_path
from envgen.settings import format_validation_error, to_path
from envgen.sweep.grid import COMMANDS, PlannedRun, SweepError, SweepSpec, parse_flags, read_toml
from envgen.sweep.settings import ENGINES, SweepSettings
from envgen.text import to_label

from .coevolve import coevolve_command
from .common import UserError, require_extra
from .options import choice, default, explicitly_set, optional_settings
from .train import train_command

SweepOptions = optional_settings(
    SweepSettings, "SweepOptions", {"workers": "as many as possible", "memory_per_run": "measured"}
)
BudgetOptions = optional_settings(SharedLimits, "BudgetOptions")
Command = choice(*COMMANDS)
DEFAULT_ARGUMENTS = {"train": "crafter", "coevolve": "tools"}

BUDGET = "budget.json"
FLAGS = ("dry-run", "quiet")  # of the sweep, without a value
ENGINE_OPTIONS = "engine-options"
OWN_OPTIONS = (
    "folder", "command", *FLAGS, ENGINE_OPTIONS, *(name.replace("_", "-") for name in SweepSettings.model_fields),
    *(f"budget.{name.replace('_', '-')}" for name in SharedLimits.model_fields),
)  # fmt: skip
FILE_SETTINGS = ("folder", "engine_options", "budget", *SweepSettings.model_fields)
MODEL_OPTIONS = [name.replace("_", "-") for name in (*MODEL_PLAN, *MODEL_CURRICULUM)]
ENVIRONMENT = re.compile(rf"environment($|\.|-server$)|({'|'.join(MODEL_OPTIONS)})$")  # of the environment policy
SEED = re.compile(r"[0-9]{1,15}")
LLM_OPTIONS = tuple(name.replace("_", "-") for name in LlmConfig.model_fields)


def split_args(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the words after `envgen sweep` into those of the sweep, with its positional argument, and those of runs."""
    own: list[str] = []
    of_runs: list[str] = []
    position = 0
    while position < len(args):
        end = position + 1
        while end < len(args) and not args[end].startswith("--") and args[end] != "-h":
            end += 1
        words = list(args[position:end])
        name = words[0].removeprefix("--").partition("=")[0].replace("_", "-")
        is_option = words[0].startswith("--")
        if not is_option or words[0] in ("--help", "-h"):
            own += words
        elif name in OWN_OPTIONS or name.removeprefix("no-") in FLAGS:
            # what follows the value of an option of the sweep is the positional argument
            own += words
        else:
            of_runs += words
        position = end
    return own, of_runs


def sweep_command(run_args: Sequence[str]) -> Callable[..., None]:
    """The command `sweep`. `run_args` are the options of its runs."""

    def sweep(
        target: Annotated[
            str | None, Positional, default("crafter; tools with --command coevolve", "[FILE.toml | WORLD]")
        ] = None,
        folder: Annotated[Path | None, default("out/sweep-<target>")] = None,
        command: Annotated[Command, default("train")] = None,  # pyright: ignore
        execution: Annotated[SweepOptions, OmitArgPrefixes] = SweepOptions(),  # pyright: ignore # noqa: B008
        engine_options: Annotated[tuple[str, ...], default("none", "NAME=VALUE ...")] = (),
        budget: BudgetOptions = BudgetOptions(),  # pyright: ignore # noqa: B008
        dry_run: bool = False,
        quiet: bool = False,
    ) -> None:
        """Train a grid of runs: every combination of the values that are given for options of `envgen train` or, with
        --command coevolve, of `envgen coevolve`.

        Write several values with commas, and ranges of integers as FIRST:END, with the end excluded:
        envgen sweep crafter --designer none,expert --seed 0:5 --ppo.learning-rate 1e-4,3e-4

        Each run is an ordinary run directory in the folder of the sweep. Finished runs are skipped, so repeating the
        command continues an interrupted sweep. The options of runs are those of `envgen train --help` or `envgen
        coevolve --help`; see docs/sweeps.md for TOML files, Slurm and Ray.

        Args:
            target: A TOML file that describes the sweep, or the world to train in; with --command coevolve, the domain.
            folder: The folder of the sweep, with a run directory for each run.
            command: The command of each run: `envgen train` or `envgen coevolve`.
            execution: Where and how the runs are executed.
            engine_options: Options for the submitit or ray engine, such as slurm_partition=gpu or address=auto.
            budget: Limits on what the language models of all runs use together.
            dry_run: Check and list the runs without starting them.
            quiet: Show no progress, only the results.
        """
        require_extra("train")
        spec = _read_spec(target, command, run_args)
        given = {name: spec.settings[name] for name in SweepSettings.model_fields if name in spec.settings}
        try:
            chosen = SweepSettings(**given | explicitly_set(execution))
            limits = SharedLimits(**_table(spec, "budget") | explicitly_set(budget))
        except ValidationError as error:
            raise UserError(format_validation_error(error)) from None
        own_options = _table(spec, "engine_options") if chosen.engine == given.get("engine", "local") else {}
        options = own_options | _parse_options(engine_options)
        if options and chosen.engine == "local":
            raise UserError(
                f"the engine local has no options; choose {' or '.join(ENGINES[1:])} for --{ENGINE_OPTIONS}"
            )
        name = target or DEFAULT_ARGUMENTS[spec.command]
        label = Path(name).stem if name.endswith(".toml") else to_label(name).replace("/", "-")
        folder = to_path("folder", folder or spec.settings.get("folder") or f"out/sweep-{label}", UserError)
        _run(spec, folder, chosen, limits, options, dry_run, quiet)

    return sweep


def _read_spec(target: str | None, command: str | None, run_args: Sequence[str]) -> SweepSpec:
    if target is None or not target.endswith(".toml"):
        return parse_flags(run_args, [target] if target else [], command or "train")
    if run_args:
        raise UserError(f"{run_args[0]} is an option of runs; write it into {target}")
    if not Path(target).exists():
        raise UserError(f"there is no file {target}{suggest_path(Path(target))}")
    spec = read_toml(Path(target), FILE_SETTINGS)
    spec.command = command or spec.command
    if not isinstance(spec.settings.get("folder", ""), str):
        raise UserError(f'{target}: folder must be a string, such as "out/sweep"')
    return spec


def _table(spec: SweepSpec, name: str) -> dict[str, Any]:
    value = spec.settings.get(name, {})
    if not isinstance(value, Mapping):
        raise UserError(f"{name} must be a table, [{name}], not {value!r:.60}")
    return dict(value)


def _parse_options(words: Sequence[str]) -> dict[str, Any]:
    pairs = [word.partition("=") for word in words]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise UserError(f"--{ENGINE_OPTIONS} are written as NAME=VALUE, not {name!r}")
    return {name: _parse_option(value) for name, _, value in pairs}


def _parse_option(text: str) -> int | float | bool | str:
    """The value of an option of an engine. `00123` is text, not a number."""
    if re.fullmatch(r"-?(0|[1-9]\d*)", text):
        return int(text)
    if re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?(e-?\d+)?", text):
        return float(text)
    return {"true": True, "false": False}.get(text, text)


def _run(
    spec: SweepSpec, folder: Path, settings: SweepSettings, limits: SharedLimits, options: dict[str, Any],
    dry_run: bool, quiet: bool,
) -> None:  # fmt: skip
    from envgen.console import terminal
    from envgen.sweep.display import SweepDisplay
    from envgen.sweep.runner import Sweep, check_runs, locked, open_runs, read_peak_memory

    console, log = terminal(verbose=True)
    has_budget = bool(limits.model_dump(exclude_none=True))
    budget_file = (folder / BUDGET).absolute()
    plans = without_unused_options(spec)
    check = partial(check_run, limits=limits, has_device=settings.engine == "local", parsed={})
    runs = open_runs(folder.absolute(), plans, check_runs(plans, check))
    if spec.command == "coevolve":
        from envgen.coevolution_api import DEFAULT_DTYPE, check_dtype

        for run in runs:
            check_dtype(run.folder, str(run.plan.options.get("dtype", DEFAULT_DTYPE)))
    memory = None if settings.memory_per_run is None else round(settings.memory_per_run * 1e9)
    uses_llm = [run for run in runs if "llm" in run.plan.options]
    if has_budget and not uses_llm:
        advice = ", or add --llm" if spec.command == "train" else ""
        raise SweepError(f"no run of this sweep uses a language model over an API; leave out the budget{advice}")
    if dry_run:
        for run in runs:
            state = "planned" if run.state == "waiting" else run.state
            command = ["envgen", run.plan.command, *run.plan.args(), "--folder", os.path.relpath(run.folder)]
            log(f"{run.name}: {state}\n    {shlex.join(command)}")
        return
    if sys.platform == "win32":  # where a process cannot be replaced by another, nor be asked to stop
        raise SweepError("sweeps need Linux or macOS; with --dry-run, this prints the commands of the runs")
    num_runs = sum(run.state != "finished" for run in runs)
    engine = make_engine(settings, folder.absolute(), memory, read_peak_memory(folder), options, num_runs)
    try:
        with locked(folder):
            extra_args: dict[str, Sequence[str]] = {}
            if has_budget:
                BudgetFile.create(budget_file, limits)
                extra_args = {run.plan.name: ("--shared-budget", str(budget_file)) for run in uses_llm}
            sweep = Sweep(folder, runs, settings.retries, settings.threads, settings.gpus, extra_args)
            sweep.save(read_peak_memory(folder))
            with SweepDisplay(console, quiet) as display:
                is_complete = sweep.run(engine, display)
    finally:
        engine.close()
    _report(sweep, folder, is_complete, console, log)


def _report(sweep: Any, folder: Path, is_complete: bool, console: Any, log: Callable[[str], None]) -> None:
    """Print the results, and exit with 130 after an interruption and with 1 if runs failed."""
    from envgen.sweep.display import table
    from envgen.sweep.engines.engine import LOG

    console.print(table(sweep.runs))
    failed = [run for run in sweep.runs if run.state == "failed"]
    for run in failed:
        output = run.folder / LOG
        log(f"{run.name} failed: {run.reason}" + (f"\n    {output}" if output.exists() else ""))
    if any(run.state == "finished" for run in sweep.runs):
        log(f"Compare the runs with: envgen compare {shlex.quote(str(folder))}")
    if not is_complete:
        log("Interrupted. Repeat the command to continue.")
        sys.exit(INTERRUPTED)
    if failed:
        log("Repeat the command to try the failed runs again.")
        sys.exit(1)


def without_unused_options(spec: SweepSpec) -> list[PlannedRun]:
    """The runs. The language model that all have in common goes to those whose designer uses one.

    In the same way, the options of the environment policy go to the runs whose proposer has one.
    """
    plans = spec.planned_runs()
    if spec.command == "train":
        common = [option for option in spec.base if option.removeprefix("no-") in LLM_OPTIONS]
        takes_options = _takes_llm
    else:
        common, takes_options = [option for option in spec.base if ENVIRONMENT.match(option)], _has_environment
    if not any(takes_options(plan) for plan in plans):
        return plans
    return [
        plan if takes_options(plan) else replace(
            plan, options={option: value for option, value in plan.options.items() if option not in common}
        )
        for plan in plans
    ]  # fmt: skip


def _has_environment(plan: PlannedRun) -> bool:
    """Whether the proposer of a co-evolution has an environment policy. A wrong name is reported later."""
    entry = PROPOSERS.get(str(plan.options.get("proposer", DEFAULT_PROPOSER)))
    return entry is None or entry.needs_model


def _takes_llm(plan: PlannedRun) -> bool:
    try:
        designer = load_designer_class(str(plan.options.get("designer", DEFAULT_DESIGNER)))
    except DesignError:  # reported when the run is checked
        return False
    return issubclass(designer, LlmDesigner | DesignerWrapper)


def check_run(
    plan: PlannedRun,
    limits: SharedLimits | None = None,
    has_device: bool = True,
    parsed: dict[str, Callable[..., dict[str, Any]]] | None = None,
) -> dict[str, Any]:
    """The request of a run. Raises SweepError if an option is wrong; nothing is written.

    Args:
        has_device: Whether the run will use the device of this machine.
        parsed: What computes the requests of earlier runs, by their options without the seed. Parsing takes most of the
            time, so of several runs that differ only in their seed, only the first is parsed.
    """
    parsed = {} if parsed is None else parsed
    key = repr([plan.command, *((name, value) for name, value in plan.options.items() if name != "seed")])
    seed = plan.options.get("seed")
    changes = {"seed": int(seed)} if key in parsed and isinstance(seed, str) and SEED.fullmatch(seed) else {}
    args = plan.args()
    if COMMANDS[plan.command] not in plan.options:  # further words of an option would otherwise take its place
        args = [DEFAULT_ARGUMENTS[plan.command], *args]

    def start_train(world: Any, designer: str, arguments: dict[str, Any], reference_episodes: int) -> None:
        from envgen.api import training_request

        arguments = {name: value for name, value in arguments.items() if name not in ("extend", "verbose")}
        parsed[key] = partial(training_request, world, designer, has_device=has_device, **arguments)

    def start_coevolution(domain: str, proposer: str, arguments: dict[str, Any]) -> None:
        from envgen.coevolution_api import coevolution_request

        runtime = ("folder", "agent_server", "environment_server", "models_folder", "dtype", "verbose")
        arguments = {name: value for name, value in arguments.items() if name not in runtime}
        parsed[key] = partial(coevolution_request, domain, proposer, **arguments)

    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            if not changes:
                is_training = plan.command == "train"
                command = train_command(args, start_train) if is_training else coevolve_command(start_coevolution)
                tyro.cli(command, args=args, prog=f"envgen {plan.command}", config=(tyro.conf.DisallowNone,))
            request = parsed[key](**changes)
    except SystemExit:
        message = _parse_error(output.getvalue(), plan.command)
        if several := [
            name
            for name, value in plan.options.items()
            if isinstance(value, tuple) and any(word in message for word in value[1:])
        ]:
            message += f" (a grid over --{several[0]} has its values separated by commas, or in [grid])"
        raise SweepError(message) from None
    if limits is not None and limits.max_cost is not None and "llm" in plan.options:
        _check_prices(plan)
    return request


def _check_prices(plan: PlannedRun) -> None:
    if not {"price-prompt", "price-reply"} <= plan.options.keys() and ":" in str(plan.options["llm"]):
        raise SweepError("--budget.max-cost needs the prices of the model: --price-prompt and --price-reply")


def _parse_error(text: str, command: str) -> str:
    """What the parser prints about an error, without its frame and its hints, as one sentence."""
    lines = [line.strip(" │╭╰╮╯─-") for line in text.splitlines()]
    paragraph: list[str] = []
    for line in lines[1:]:  # after the title
        if line:
            paragraph.append(line)
        elif paragraph:
            break
    message = " ".join(paragraph) or "its options cannot be parsed"
    return f"{message.rstrip('.')}; see envgen {command} --help"


def make_engine(
    settings: SweepSettings, folder: Path, memory: int | None, peak_memory: int | None, options: Mapping[str, Any],
    num_runs: int,
) -> Any:  # fmt: skip
    """The engine of a sweep. Its library is imported here."""
    common = (settings.workers, settings.threads, settings.gpus, memory)
    if settings.engine == "submitit":
        require_extra("slurm")
        from envgen.sweep.engines.slurm import SubmititEngine

        return SubmititEngine(folder, *common, options)
    if settings.engine == "ray":
        require_extra("ray")
        from envgen.sweep.engines.ray import RayEngine

        return RayEngine(*common, options)
    from envgen.sweep.engines.local import LocalEngine

    return LocalEngine(*common, peak_memory, num_runs)
