"""`envgen coevolve`: start or resume a run of GenEnv's co-evolution."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from envgen.coevolution.registry import DEFAULT_PROPOSER, PROPOSERS
from envgen.coevolution.settings import (
    DEFAULT_SAVE_EVERY,
    AgentSettings,
    AlphaCurriculumSettings,
    CoevolutionPlan,
    EnvironmentSettings,
    ModelSize,
    PretrainSettings,
)

from .common import UserError, refuse_with_resume, require_choice, require_extra, require_seed, resume_hint
from .options import choice, default, explicitly_set, flag, given_flags, optional_settings

if TYPE_CHECKING:
    from envgen.coevolution_api import CoevolutionRun

PlanOptions = optional_settings(CoevolutionPlan, "PlanOptions")
CurriculumOptions = optional_settings(
    AlphaCurriculumSettings, "CurriculumOptions", {"success_threshold": "1.0; 0.75 with the domain answers"}
)
AgentOptions = optional_settings(
    AgentSettings, "AgentOptions", {"loss_agg": "token; sequence with the domain alfworld"}
)
EnvironmentOptions = optional_settings(EnvironmentSettings, "EnvironmentOptions")
PretrainOptions = optional_settings(PretrainSettings, "PretrainOptions")
SizeOptions = optional_settings(ModelSize, "SizeOptions")
Dtype = choice("float32", "bfloat16")


MODELS_FOLDER = Path("out/models")


def coevolve_command(start: Callable[..., None] | None = None) -> Callable[..., None]:
    """The command `coevolve`.

    Args:
        start: Called with the domain, the proposer and the other arguments of `envgen.coevolve` in place of training.
    """

    def coevolve(
        domain: Annotated[str | None, Positional, default("tools", "[DOMAIN]")] = None,
        proposer: Annotated[str | None, default("genenv")] = None,
        seed: Annotated[int | None, default("0")] = None,
        folder: Annotated[Path | None, default("out/coevolve-<domain>-<proposer>-<seed>")] = None,
        resume: Annotated[Path | None, default("start a new run")] = None,
        plan: Annotated[PlanOptions, OmitArgPrefixes] = PlanOptions(),  # pyright: ignore # noqa: B008
        curriculum: Annotated[CurriculumOptions, OmitArgPrefixes] = CurriculumOptions(),  # pyright: ignore # noqa: B008
        agent: Annotated[str | None, default("a small model, pretrained first")] = None,
        environment: Annotated[str | None, default("the agent's model")] = None,
        agent_settings: Annotated[AgentOptions, tyro.conf.arg(name="agent")] = AgentOptions(),  # pyright: ignore # noqa: B008
        environment_settings: Annotated[
            EnvironmentOptions, tyro.conf.arg(name="environment")  # pyright: ignore
        ] = EnvironmentOptions(),  # noqa: B008
        pretrain: PretrainOptions = PretrainOptions(),  # pyright: ignore # noqa: B008
        model_size: SizeOptions = SizeOptions(),  # pyright: ignore # noqa: B008
        models_folder: Path = MODELS_FOLDER,
        agent_server: Annotated[str | None, default("none")] = None,
        environment_server: Annotated[str | None, default("none")] = None,
        dtype: Annotated[Dtype, default("float32; with --resume, that of the run")] = None,  # pyright: ignore
        save_every: float = DEFAULT_SAVE_EVERY,
        log: Annotated[tuple[str, ...], default("none", "{tensorboard,wandb} ...")] = (),
        quiet: bool = False,
        dry_run: bool = False,
        num_gpus: Annotated[int | None, default("1")] = None,
        gpu_memory: Annotated[float | None, default("80")] = None,
    ) -> None:
        """Train a language model and the environment policy that writes its tasks (GenEnv).

        Args:
            domain: What the tasks are about: tools, bfcl (or bfcl:json), answers, alfworld (or alfworld:original),
                travel, two_hop, reasoning_gym:NAME, or module:Class for your own.
            proposer: Who proposes tasks: genenv, genenv-grpo, random, static, uniform, dapo, greedy or
                learnability.
            seed: Random seed.
            folder: The run directory.
            resume: Continue the run in this directory with its own settings.
            plan: The budget, and what each step consists of.
            curriculum: The reward of the environment policy.
            agent: The model to start from: a folder, or a name on the Hugging Face Hub.
            environment: The same for the environment policy; requires --agent.
            agent_settings: How the agent generates and learns.
            environment_settings: How the environment policy generates and learns.
            pretrain: How small models are pretrained.
            model_size: The size of small models.
            models_folder: The folder that small models are saved to and reused from.
            agent_server: Address of a vLLM server that generates the agent's completions (docs/genenv-7b.md).
            environment_server: The same for the environment policy.
            dtype: Data type in which models are loaded.
            save_every: Seconds between checkpoints, which are written after a step. With large models, whose
                checkpoints take minutes, use more.
            log: Log the run to tensorboard, wandb or both, in addition to the run directory.
            quiet: Print no progress, only the results.
            dry_run: Train nothing. Print what the run would do, estimates of its memory and time, and the commands that
                start it and its servers.
            num_gpus: Number of GPUs that the estimates of --dry-run assume.
            gpu_memory: Memory of each of these GPUs in GB.
        """
        require_extra("genenv")
        from envgen import coevolution_api as api

        servers = {"agent_server": agent_server, "environment_server": environment_server}
        runtime: dict[str, Any] = {
            **servers, "models_folder": models_folder, "save_every": save_every, "log": log, "verbose": not quiet
        }  # fmt: skip
        groups = {"": explicitly_set(plan) | explicitly_set(curriculum), "agent": explicitly_set(agent_settings),
                  "environment": explicitly_set(environment_settings), "pretrain": explicitly_set(pretrain),
                  "model_size": explicitly_set(model_size)}  # fmt: skip
        for option, value in (("--num-gpus", num_gpus), ("--gpu-memory", gpu_memory)):
            if value is not None and not dry_run:
                raise UserError(f"{option} requires --dry-run; a run uses the GPUs that accelerate launch gives it")
        if resume is not None:
            if dry_run:
                raise UserError("--dry-run cannot be combined with --resume: a run continues with its own settings")
            identity = {
                "proposer": proposer,
                "seed": seed,
                "folder": folder,
                "agent": agent,
                "environment": environment,
            }
            refuse_with_resume([
                *(["DOMAIN"] if domain is not None else []),
                *(flag(name) for name, value in identity.items() if value is not None),
                *(option for prefix, options in groups.items() for option in given_flags(prefix, options)),
            ])  # fmt: skip
            _run(lambda: api.resume_coevolution(resume, dtype=dtype, **runtime), resume, _resume_flags(runtime))
            return
        domain, proposer, seed = domain or "tools", proposer or DEFAULT_PROPOSER, require_seed(seed or 0)
        require_choice("proposer", proposer, tuple(PROPOSERS))
        arguments = {
            "plan": explicitly_set(plan), "curriculum": explicitly_set(curriculum), "agent": agent,
            "environment": environment, "agent_settings": groups["agent"],
            "environment_settings": groups["environment"],
            "pretrain": groups["pretrain"], "model_size": groups["model_size"], "seed": seed,
            "folder": folder or api.default_coevolution_folder(domain, proposer, seed),
            "dtype": dtype or api.DEFAULT_DTYPE, **runtime,
        }  # fmt: skip
        if dry_run and start is None:
            _print_dry_run(domain, proposer, arguments, num_gpus, gpu_memory)
            return
        (start or _start)(domain, proposer, arguments)

    return coevolve


def _print_dry_run(
    domain: str, proposer: str, arguments: dict[str, Any], num_gpus: int | None, gpu_memory: float | None
) -> None:
    import sys

    from envgen import coevolution_api as api

    if num_gpus is not None and num_gpus < 1:
        raise UserError(f"--num-gpus must be at least 1, not {num_gpus}")
    if gpu_memory is not None and not gpu_memory > 0:
        raise UserError(f"--gpu-memory must be positive, not {gpu_memory:g}")
    unused = ("folder", "models_folder", "save_every", "log", "verbose")
    run_arguments = {name: value for name, value in arguments.items() if name not in unused}
    text = api.coevolution_dry_run(
        domain, proposer, num_gpus=num_gpus or 1, gpu_memory=gpu_memory or 80.0,
        argv=_without_dry_run(sys.argv[2:]), **run_arguments,
    )  # fmt: skip
    print(text)


def _without_dry_run(argv: Sequence[str]) -> list[str]:
    """The arguments of the command line without the options of the dry run."""
    kept, is_value = [], False
    for argument in argv:
        name, equals, _ = argument.replace("_", "-").partition("=")
        if is_value:
            is_value = False
        elif name in ("--num-gpus", "--gpu-memory"):
            is_value = not equals
        elif name != "--dry-run":
            kept.append(argument)
    return kept


def _start(domain: str, proposer: str, arguments: dict[str, Any]) -> None:
    from envgen import coevolution_api as api
    from envgen.coevolution.domains.registry import is_builtin

    resume_flags = _resume_flags(arguments) if is_builtin(domain) else None
    _run(lambda: api.coevolve(domain, proposer, **arguments), arguments["folder"], resume_flags)


def _resume_flags(arguments: Mapping[str, Any]) -> str:
    """The options that must be repeated to resume a run with these arguments."""
    import shlex

    defaults = {
        "agent_server": None, "environment_server": None, "models_folder": MODELS_FOLDER,
        "save_every": DEFAULT_SAVE_EVERY,
    }  # fmt: skip
    values = {name: arguments[name] for name, default in defaults.items() if arguments[name] != default}
    flags = [f"{flag(name)} {shlex.quote(str(value))}" for name, value in values.items()]
    flags += [f"--log {shlex.join(arguments['log'])}"] if arguments["log"] else []
    return " ".join(flags)


def _run(call: "Callable[[], CoevolutionRun]", folder: Path, resume_flags: str | None) -> None:
    """Start or resume a run. `resume_flags` are as in `resume_hint`."""
    from envgen.console import terminal

    _, log = terminal(verbose=True)
    with resume_hint("coevolve", folder, resume_flags):
        run = call()
        log(run.report())
        log(f"Run directory: {folder}")
