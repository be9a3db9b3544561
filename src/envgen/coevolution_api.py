"""`envgen.coevolve`, and what the command line shares with it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from envgen.api import OUT, REPEAT, ArgumentError
from envgen.coevolution.settings import DEFAULT_SAVE_EVERY, MODEL_CURRICULUM, MODEL_PLAN
from envgen.console import terminal
from envgen.imports import require_extra
from envgen.processes import explaining_lost_processes, is_main_process
from envgen.settings import (
    Settings,
    check_seconds,
    format_choice_error,
    format_validation_error,
    to_changes,
    to_integer,
    to_path,
)
from envgen.text import to_label

if TYPE_CHECKING:
    from envgen.coevolution.train import CoevolutionSummary, CoevolveRequest


DTYPES = ("float32", "bfloat16")
DEFAULT_DTYPE = "float32"


@dataclass(frozen=True)
class CoevolutionRun:
    """A finished run of `coevolve`."""

    folder: Path
    """The run directory."""
    summary: "CoevolutionSummary"
    """The results."""

    def report(self) -> str:
        """A human-readable summary: accuracy before and after, per feature, and what the run used."""
        from envgen.coevolution.display import describe_summary

        return describe_summary(self.summary)

    def __repr__(self) -> str:
        before, after = self.summary.initial_accuracy, self.summary.final_accuracy
        return f"<CoevolutionRun: accuracy {before:.1f}% to {after:.1f}%, in {self.folder}>"

    def __str__(self) -> str:
        return self.report()


def coevolve(
    domain: Any = "tools",
    proposer: str = "genenv",
    *,
    plan: Mapping[str, Any] | None = None,
    curriculum: Mapping[str, Any] | None = None,
    agent: str | Path | None = None,
    environment: str | Path | None = None,
    agent_settings: Mapping[str, Any] | None = None,
    environment_settings: Mapping[str, Any] | None = None,
    pretrain: Mapping[str, Any] | None = None,
    model_size: Mapping[str, Any] | None = None,
    models_folder: str | Path = OUT / "models",
    seed: int = 0,
    folder: str | Path | None = None,
    agent_server: str | None = None,
    environment_server: str | None = None,
    dtype: str = DEFAULT_DTYPE,
    save_every: float = DEFAULT_SAVE_EVERY,
    log: Sequence[str] = (),
    verbose: bool = True,
) -> CoevolutionRun:
    """Train a language model and the environment policy that writes its tasks (GenEnv).

    To continue an interrupted run exactly where it stopped, call this again with the same arguments.

    Args:
        domain: A domain or its name: `"tools"`, `"bfcl"`, `"answers"`, `"alfworld"`, `"travel"`, `"two_hop"`,
            `"reasoning_gym:NAME"` or `"module:Class"`.
        proposer: Who proposes tasks: genenv, genenv-grpo, random, static, uniform, dapo, greedy or
            learnability.
        plan: Fields of `CoevolutionPlan` that differ from the defaults, such as `{"rollouts": 2048}`.
        curriculum: Fields of `AlphaCurriculumSettings`, such as `{"alpha": 0.5}`.
        agent: The model to start from, a folder or a name on the Hugging Face Hub. Default: a small model that is
            pretrained first, which takes a few minutes.
        environment: The same for the environment policy; requires `agent`. Default: the agent's model.
        agent_settings: How the agent learns, such as `{"learning_rate": 1e-6}`.
        environment_settings: How the environment policy learns.
        pretrain: How small models are pretrained.
        model_size: The size of small models.
        models_folder: Where small models are kept.
        seed: Random seed.
        folder: The run directory. Default: `out/coevolve-<domain>-<proposer>-<seed>`.
        agent_server: Address of a vLLM server that generates the agent's completions.
        environment_server: The same for the environment policy.
        dtype: The data type in which models are loaded: `"float32"` or `"bfloat16"`.
        save_every: Seconds between checkpoints. They are written after a step, and at the end in any case.
        log: `"tensorboard"`, `"wandb"` or both, in addition to the run directory.
        verbose: Show progress on the terminal.
    """
    require_extra("genenv", "envgen.coevolve")
    from envgen.coevolution.domains.registry import domain_path

    loaded, request, recipe = _coevolution_arguments(
        domain, proposer, plan=plan, curriculum=curriculum, agent=agent, environment=environment,
        agent_settings=agent_settings, environment_settings=environment_settings, pretrain=pretrain,
        model_size=model_size, seed=seed,
    )  # fmt: skip
    if folder is None or folder == "":
        folder = default_coevolution_folder(domain_path(loaded), proposer, request.seed)
    run_folder = to_path("folder", folder, ArgumentError)
    servers, models_folder = (agent_server, environment_server), to_path("models_folder", models_folder, ArgumentError)
    return _coevolve(run_folder, loaded, request, recipe, models_folder, servers, dtype, save_every, log, verbose)


def coevolution_request(
    domain: Any, proposer: str, *, log: Sequence[str], save_every: float = DEFAULT_SAVE_EVERY, **arguments: Any
) -> dict[str, Any]:
    """Check the arguments of `coevolve` without loading models, and return the request that run.json would hold.

    Args:
        arguments: The other arguments of `coevolve` that decide the result, all of them.
    """
    from envgen.coevolution.train import stored_request
    from envgen.runs.loggers import check_loggers

    check_loggers(log)
    check_seconds("save_every", save_every, ArgumentError)
    return stored_request(*_coevolution_arguments(domain, proposer, **arguments))


def _coevolution_arguments(
    domain: Any, proposer: str, *, plan: Mapping[str, Any] | None, curriculum: Mapping[str, Any] | None, agent: Any,
    environment: Any, agent_settings: Mapping[str, Any] | None, environment_settings: Mapping[str, Any] | None,
    pretrain: Mapping[str, Any] | None, model_size: Mapping[str, Any] | None, seed: int,
) -> "tuple[Any, CoevolveRequest, dict[str, Any] | None]":  # fmt: skip
    """The domain, the request, and how the models are pretrained unless they are given."""
    from envgen.coevolution.settings import ModelSize, PretrainSettings
    from envgen.coevolution.train import CoevolveRequest

    loaded, seed = _load_domain(domain), to_integer("seed", seed, ArgumentError)
    if not isinstance(proposer, str):
        raise ArgumentError(f"proposer must be a name, not {proposer!r:.80}")
    agent, environment = _to_model("agent", agent), _to_model("environment", environment)
    plan, curriculum = to_changes("plan", plan, ArgumentError), to_changes("curriculum", curriculum, ArgumentError)
    agent_settings = to_changes("agent_settings", agent_settings, ArgumentError)
    environment_settings = to_changes("environment_settings", environment_settings, ArgumentError)
    pretrain = to_changes("pretrain", pretrain, ArgumentError)
    model_size = to_changes("model_size", model_size, ArgumentError)
    given = ["environment"] if environment else []
    _check_no_unused(proposer, [*given, *(f"environment.{name}" for name in environment_settings)])
    if environment and not agent:
        raise ArgumentError("environment requires agent: without it, both models are small ones, pretrained first")
    if agent and (given := [name for name, value in (("pretrain", pretrain), ("model_size", model_size)) if value]):
        raise ArgumentError(f"{given[0]} is for small models that are pretrained first; it has no effect with agent")
    try:
        request = CoevolveRequest.model_validate({
            "proposer": proposer,
            "agent": agent,
            "environment": environment or agent,
            "seed": seed,
            "plan": plan,
            "curriculum": {"success_threshold": loaded.success_threshold, **curriculum},
            "agent_settings": {"loss_agg": loaded.loss_agg, **agent_settings},
            "environment_settings": environment_settings,
        })  # fmt: skip
        recipe = None
        if not agent:
            size, settings = ModelSize.model_validate(model_size), PretrainSettings.model_validate(pretrain)
            num_held_out = settings.num_held_out
            num_eval_tasks = request.plan.num_eval_tasks
            if num_eval_tasks > num_held_out:
                raise ArgumentError(
                    f"the agent is evaluated on {num_eval_tasks} held-out tasks, but pretraining leaves out only "
                    f"{num_held_out}; set pretrain.num_held_out to {num_eval_tasks} or more"
                )
            recipe = {"model_size": _given(size), "pretrain": _given(settings), "seed": request.seed}
    except ValidationError as error:
        raise ArgumentError(format_validation_error(error)) from None
    changed = [
        name
        for group, names in ((request.plan, MODEL_PLAN), (request.curriculum, MODEL_CURRICULUM))
        for name in names
        if getattr(group, name) != type(group).model_fields[name].default
    ]
    _check_no_unused(request.proposer, changed)
    _check_proposer_settings(request)
    return loaded, request, recipe


def _given(settings: Settings) -> dict[str, Any]:
    """The fields that were given, as run.json holds them."""
    return settings.model_dump(mode="json", exclude_unset=True)


def _to_model(name: str, value: Any) -> str:
    """A folder or a name on the Hugging Face Hub; empty if there is none."""
    if value is not None and not isinstance(value, str | os.PathLike):
        raise ArgumentError(f"{name} must be the folder or the name of a model, not {value!r:.80}")
    return os.path.expanduser(value or "")


def _check_no_unused(proposer: str, given: Sequence[str]) -> None:
    """Raise ArgumentError for arguments that only matter to an environment policy, if the proposer has none."""
    from envgen.coevolution.registry import PROPOSERS

    if given and proposer in PROPOSERS and not PROPOSERS[proposer].needs_model:  # other names are refused later
        raise ArgumentError(f"the proposer {proposer} has no environment policy; remove {', '.join(given)}")


def _check_proposer_settings(request: "CoevolveRequest") -> None:
    """Raise ArgumentError if a setting contradicts what the proposer implies."""
    from envgen.coevolution.registry import PROPOSERS

    if request.proposer == "genenv-grpo":
        if request.plan.num_variations < 2:
            raise ArgumentError(
                "genenv-grpo compares the variations of a prompt with each other; set num_variations to 2 or more"
            )
        curriculum = request.curriculum
        has_other_rewards = curriculum.repetition_penalty or curriculum.feature_entropy_coef
        if curriculum.success_over != "task" and not has_other_rewards:
            raise ArgumentError(
                "genenv-grpo compares the tasks of a prompt, which all have the same success rate with success_over "
                f"{curriculum.success_over}; use task"
            )
        if request.agent_settings.zero_variance_groups == "refill":
            raise ArgumentError(
                "genenv-grpo learns from one batch of specs in each step, but zero_variance_groups refill samples "
                "several; use keep or drop"
            )
    for name, implied in PROPOSERS[request.proposer].agent_overrides.items():
        value = getattr(request.agent_settings, name)
        if name in request.agent_settings.model_fields_set and value != implied:
            raise ArgumentError(f"the proposer {request.proposer} sets the agent's {name} to {implied}, not {value}")


def coevolution_dry_run(
    domain: Any, proposer: str, *, dtype: str, num_gpus: int, gpu_memory: float, argv: Sequence[str],
    agent_server: str | None, environment_server: str | None, **arguments: Any,
) -> str:  # fmt: skip
    """What a run would do and need, and the commands that start it, without training or loading models.

    Args:
        gpu_memory: GB of each GPU.
        argv: The arguments of the command line, for the commands.
        arguments: The other arguments of `coevolve` that decide the result, all of them.
    """
    from envgen.coevolution.dry_run import describe_dry_run
    from envgen.coevolution.settings import ModelSize
    from envgen.coevolution.vllm import check_server_address

    for server in (agent_server, environment_server):
        if server is not None:
            check_server_address(server)
    loaded, request, recipe = _coevolution_arguments(domain, proposer, **arguments)
    if environment_server is not None:
        _check_no_unused(request.proposer, ["environment_server"])
    size = None if recipe is None else ModelSize(**recipe["model_size"])
    servers = {"agent": agent_server, "environment": environment_server}
    return describe_dry_run(loaded, request, size, dtype, num_gpus, gpu_memory, argv, servers)


def default_coevolution_folder(domain: str, proposer: str, seed: int) -> Path:
    """The run directory that `coevolve` uses if it is given none."""
    return OUT / f"coevolve-{to_label(domain)}-{proposer}-{seed}"


def resume_coevolution(
    folder: str | Path,
    *,
    models_folder: str | Path = OUT / "models",
    agent_server: str | None = None,
    environment_server: str | None = None,
    dtype: str | None = None,
    save_every: float = DEFAULT_SAVE_EVERY,
    log: Sequence[str] = (),
    verbose: bool = True,
) -> CoevolutionRun:
    """Continue an interrupted run of `coevolve` with the settings in its run directory.

    Args:
        dtype: The data type in which models are loaded, by default that of the run.
        save_every: Seconds between checkpoints.
    """
    from envgen.coevolution.domains.registry import is_builtin
    from envgen.coevolution.settings import ModelSize, PretrainSettings
    from envgen.coevolution.train import MAX_SEED, CoevolveRequest
    from envgen.runs.store import RunError, read_request

    run_folder = to_path("folder", folder, ArgumentError)
    models_folder = to_path("models_folder", models_folder, ArgumentError)
    data, runtime = read_request(run_folder)
    try:
        domain, recipe = data.pop("domain"), data.pop("pretrain_recipe")
        request = CoevolveRequest(**{**data, "proposer": data["proposer"]["name"]})
        if recipe is not None:
            ModelSize(**recipe["model_size"])
            PretrainSettings(**recipe["pretrain"])
            if type(recipe["seed"]) is not int or not 0 <= recipe["seed"] < MAX_SEED:
                raise TypeError("seed")
    except (KeyError, TypeError, AttributeError, ValidationError):
        raise RunError(f"{run_folder} is not a run of envgen coevolve") from None
    # A run directory may come from someone else: nothing that it names is imported.
    if not (isinstance(domain, str) and is_builtin(domain)):
        raise RunError(f"the domain {domain!r} cannot be loaded from the run directory; {REPEAT}")
    servers = (agent_server, environment_server)
    dtype = dtype or str(runtime.get("dtype", DEFAULT_DTYPE))
    return _coevolve(
        run_folder, _load_domain(domain), request, recipe, models_folder, servers, dtype, save_every, log, verbose
    )


def _load_domain(domain: Any) -> Any:
    from envgen.coevolution.domains.registry import load_domain
    from envgen.coevolution.tasks import Domain

    try:
        loaded = load_domain(domain) if isinstance(domain, str) else domain
    except (ValueError, ImportError) as error:
        raise ArgumentError(str(error)) from None
    if not isinstance(loaded, Domain):
        raise ArgumentError(f"domain must be the name of a domain or a Domain object, not {domain!r:.80}")
    return loaded


def check_dtype(folder: Path, dtype: str) -> None:
    """Raise ArgumentError if there is no such data type, or the run in a folder was started with another one."""
    from envgen.runs.store import read_request

    if dtype not in DTYPES:
        raise ArgumentError(f"dtype {format_choice_error(str(dtype), DTYPES)}")
    if (folder / "run.json").exists():
        started_with = read_request(folder)[1].get("dtype", dtype)  # older runs did not store it
        if started_with != dtype:
            raise ArgumentError(
                f"{folder} was started with the data type {started_with}, not {dtype}; pass {started_with} to resume it"
            )


def _trains_all_weights(request: "CoevolveRequest") -> bool:
    """Whether the agent or the environment policy is trained without adapters."""
    from envgen.coevolution.registry import PROPOSERS

    trains_environment = PROPOSERS[request.proposer].trains_model
    trained = [request.agent_settings, *([request.environment_settings] if trains_environment else [])]
    return any(settings.lora_rank is None for settings in trained)


def _coevolve(
    folder: Path, domain: Any, request: "CoevolveRequest", recipe: Mapping[str, Any] | None, models_folder: Path,
    servers: tuple[str | None, str | None], dtype: str, save_every: float, log: Sequence[str], verbose: bool,
) -> CoevolutionRun:  # fmt: skip
    from envgen.runs.loggers import CoevolutionLogger, check_loggers

    check_dtype(folder, dtype)
    check_loggers(log)
    check_seconds("save_every", save_every, ArgumentError)
    from envgen.coevolution.display import CoevolutionDisplay
    from envgen.coevolution.pretraining import find_pretrained_agent
    from envgen.coevolution.pretraining import pretrain as pretrain_models
    from envgen.coevolution.processes import start_accelerator
    from envgen.coevolution.settings import ModelSize, PretrainSettings
    from envgen.coevolution.train import PRETRAINED, check_recorded_models, check_start, recorded_models
    from envgen.coevolution.train import coevolve as run_loop
    from envgen.coevolution.vllm import GROUP_PORTS, VllmSampler
    from envgen.runs.store import read_request

    if servers[1] is not None:
        _check_no_unused(request.proposer, ["environment_server"])
    console, print_line = terminal(verbose)
    agent_sampler, environment_sampler = (
        None if server is None else VllmSampler(server, port) for server, port in zip(servers, GROUP_PORTS, strict=True)
    )
    accelerator = start_accelerator()
    check_start(folder, domain, request, recipe, accelerator, (agent_sampler, environment_sampler))
    if dtype == "bfloat16" and _trains_all_weights(request):
        print_line(
            "Updates smaller than 0.4% of a weight are lost in bfloat16: train adapters (lora_rank), or load the "
            "models in float32"
        )
    model_paths: tuple[str, str] | None = None
    if recipe is not None:
        size, settings = ModelSize(**recipe["model_size"]), PretrainSettings(**recipe["pretrain"])
        started = read_request(folder)[1] if (folder / "run.json").exists() else {}
        models = recorded_models(models_folder, started)
        if models is None:
            if started.get(PRETRAINED) is not None:
                agent = find_pretrained_agent(domain, models_folder, recipe["seed"], size, settings)
                check_recorded_models(folder, models_folder, agent.parent.name)
            with explaining_lost_processes(accelerator.num_processes), accelerator.main_process_first():
                models = pretrain_models(domain, models_folder, recipe["seed"], size, settings, print_line)
        model_paths = str(models[0]), str(models[1])
    with (
        CoevolutionLogger(folder, log if is_main_process() else ()) as logger,
        CoevolutionDisplay(request.plan.rollouts, request.curriculum.alpha, console, folder) as display,
    ):

        def on_progress(line: Any) -> None:
            display(line)
            logger.on_progress(line)

        summary = run_loop(
            folder, domain, request, recipe, model_paths, on_progress, accelerator,
            (agent_sampler, environment_sampler), dtype, save_every=save_every,
        )  # fmt: skip
    return CoevolutionRun(folder, summary)
