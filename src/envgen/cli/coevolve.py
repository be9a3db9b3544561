"""`envgen coevolve`: agent and environment learn from each other, in one command, and again where it stopped."""

import os
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from pydantic import ValidationError
from tyro.conf import Positional

from envgen.coevolve.registry import PROPOSERS
from envgen.coevolve.settings import CoevolutionPlan, Curriculum
from envgen.settings import Settings, explain

from .common import UserError, check_resume, flags_of, given, near, needs, needs_training, one_of, pairs, resumable

PlanFlags = flags_of(CoevolutionPlan, "CoevolutionFlags")
CurriculumFlags = flags_of(Curriculum, "CurriculumFlags")


def coevolve(
    domain: Annotated[str, Positional] = "tools",
    proposer: str = "genenv",
    seed: int = 0,
    folder: Path | None = None,
    resume: Path | None = None,
    plan: Annotated[PlanFlags, tyro.conf.OmitArgPrefixes] = PlanFlags(),  # pyright: ignore # noqa: B008
    curriculum: Annotated[CurriculumFlags, tyro.conf.OmitArgPrefixes] = CurriculumFlags(),  # pyright: ignore # noqa: B008
    agent: str | None = None,
    environment: str | None = None,
    agent_options: tuple[str, ...] = (),
    environment_options: tuple[str, ...] = (),
    warmup: tuple[str, ...] = (),
    size: tuple[str, ...] = (),
    models: Path = Path("out/models"),
    agent_server: str | None = None,
    environment_server: str | None = None,
    dtype: Literal["float32", "bfloat16"] = "float32",
) -> None:
    """Train a language model on tasks that an environment policy writes for it, and that policy too (GenEnv).

    Args:
        domain: What is asked: tools, answers, or reasoning_gym:<generator>, or <module>:<class>.
        proposer: Who writes tasks: genenv, genenv-grpo, random, static, uniform, dapo or greedy.
        seed: Of everything random.
        folder: The run directory; out/coevolve-<domain>-<proposer>-<seed> if left out.
        resume: A run directory to go on with, as it was begun. So does the same command as before.
        agent: A model to begin with, a folder or a name on the hub; one made on the spot if left out.
        environment: The same for the environment policy; the agent's model if one is given.
        agent_options: How the agent learns, as name=value: learning_rate=1e-6, group=16, flat="drop", ...
        environment_options: How the environment policy learns, as name=value: method is the proposer's.
        warmup: How models made on the spot are taught first, as name=value: agent_steps=2000, ...
        size: How large they are, as name=value: width=256, layers=6, ...
        models: Where they are kept, to be found again.
        agent_server: The address of a vLLM server that writes the agent's replies (docs/genenv-many-gpus.md).
        environment_server: The same for the environment policy's specs.
        dtype: The numbers that models are loaded in.
    """
    needs_training()
    needs("genenv", "transformers", "tokenizers", "accelerate")
    from envgen.coevolve.train import CoevolveRequest

    if resume is not None:
        beside = {"domain": domain != "tools", "proposer": proposer != "genenv", "seed": seed != 0, "folder": folder,
                  "agent": agent, "environment": environment, "agent_options": agent_options,
                  "environment_options": environment_options, "warmup": warmup, "size": size}  # fmt: skip
        check_resume("domain", beside | dict.fromkeys([*given(plan), *given(curriculum)], True))
        asked, made, name = _begun(resume)
        _run(resume, name, asked, made, models, (agent_server, environment_server), dtype)
        return
    one_of("proposer", proposer, tuple(PROPOSERS))
    chosen = _domain(domain)
    made = None if agent else {"model_size": pairs("size", size), "pretrain": pairs("warmup", warmup), "seed": seed}
    try:
        asked = CoevolveRequest.model_validate(
            {
                "proposer": proposer,
                "agent": agent or "",
                "environment": environment or agent or "",
                "seed": seed,
                "plan": given(plan),
                "curriculum": {"success_threshold": chosen.success_threshold, **given(curriculum)},
                "agent_settings": pairs("agent-options", agent_options, words=True),
                "environment_settings": pairs("environment-options", environment_options, words=True),
            }
        )
    except ValidationError as error:
        raise UserError(explain(error)) from None
    folder = folder or Path("out") / f"coevolve-{domain.replace(':', '-')}-{proposer}-{seed}"
    _run(folder, domain, asked, made, models, (agent_server, environment_server), dtype)


def _domain(name: str) -> Any:
    from envgen.coevolve.domains.registry import load_domain

    try:
        return load_domain(name)
    except (ValueError, ImportError) as error:
        raise UserError(str(error)) from None


def _begun(folder: Path) -> tuple[Any, dict[str, Any] | None, str]:
    """What a run was asked for, how its models were made (if they were), and its domain's name."""
    from envgen.coevolve.train import CoevolveRequest
    from envgen.runs.store import RunError, read_request

    try:
        told, _ = read_request(folder)
        name, made = told.pop("domain"), told.pop("pretrain_recipe")
        return CoevolveRequest(**{**told, "proposer": told["proposer"]["name"]}), made, name
    except RunError as error:
        raise UserError(f"{error}{near(folder)}") from None
    except (KeyError, TypeError, ValidationError):
        raise UserError(f"{folder} is not a run of envgen coevolve") from None


def _models(domain: Any, made: dict[str, Any], folder: Path, say: Any) -> tuple[str, str]:
    """The folders of models made on the spot."""
    from envgen.coevolve.pretraining import pretrain
    from envgen.coevolve.settings import ModelSize, PretrainSettings

    def settings(kind: type[Settings], told: dict[str, Any]) -> Any:
        try:
            return kind(**told)
        except ValidationError as error:
            raise UserError(explain(error)) from None

    size, pretraining = settings(ModelSize, made["model_size"]), settings(PretrainSettings, made["pretrain"])
    agent, environment = pretrain(domain, folder, made["seed"], size, pretraining, say)
    return str(agent), str(environment)


def _run(
    folder: Path, name: str, asked: Any, made: dict[str, Any] | None, models: Path,
    servers: tuple[str | None, str | None], dtype: str,
) -> None:  # fmt: skip
    from accelerate import Accelerator
    from rich.console import Console

    from envgen.coevolve.display import CoevolutionDisplay
    from envgen.coevolve.language_model import ModelError
    from envgen.coevolve.policy import NonFiniteLossError
    from envgen.coevolve.task_stores import TaskStoreError
    from envgen.coevolve.tasks import DomainError
    from envgen.coevolve.train import coevolve as begin
    from envgen.coevolve.vllm import GROUP_PORTS, VllmSampler
    from envgen.runs.checkpoint import CheckpointError
    from envgen.runs.store import RunError

    domain, lead = _domain(name), os.environ.get("RANK", "0") == "0"
    console = Console(quiet=not lead, soft_wrap=True)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False)

    errors = (RunError, CheckpointError, TaskStoreError, ModelError, DomainError, NonFiniteLossError)
    named = zip(("--agent-server", "--environment-server"), servers, strict=True)
    again = " ".join(f"{flag} {shlex.quote(server)}" for flag, server in named if server)
    with resumable("coevolve", folder, lead, errors, again):
        agent, environment = (
            VllmSampler(server, port) if server else None for server, port in zip(servers, GROUP_PORTS, strict=True)
        )
        accelerator = Accelerator()
        lies: tuple[str, str] | None = None
        if made is not None:
            with accelerator.main_process_first():
                lies = _models(domain, made, models, say)
        with CoevolutionDisplay(asked.plan.rollouts, asked.curriculum.alpha, console) as display:
            summary = begin(folder, domain, asked, made, lies, display, accelerator, (agent, environment), dtype)
        say(_told(summary, folder))


def _told(summary: Any, folder: Path) -> str:
    """The last words of a run."""
    counts, whole = summary.counts, max(1e-9, summary.total_seconds)
    lines = ["", f"{summary.initial_accuracy:.1f}% of the held-out tasks before, {summary.final_accuracy:.1f}% after"]
    for field, rates in summary.final_accuracy_by.items():
        lines.append(f"  {field:12} " + "  ".join(f"{value} {rate:.1f}%" for value, rate in rates.items()))
    shares = ", ".join(f"{part} {spent / whole:.0%}" for part, spent in summary.seconds.items())
    lines += [
        f"{counts['rollouts']:,} rollouts, {counts['tasks_proposed']:,} tasks proposed; "
        f"{counts['agent_tokens']:,} tokens of the agent, {counts['environment_tokens']:,} of the environment; "
        f"{whole:.0f} s ({shares})",
        f"Everything about this run: {folder}",
    ]
    return "\n".join(lines)
