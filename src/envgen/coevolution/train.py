"""The entry point of the co-evolution: from a request to a finished run directory."""

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from accelerate import Accelerator
from pydantic import Field, field_validator

from envgen.processes import explaining_lost_processes
from envgen.runs.files import exists
from envgen.runs.kinds import total_tokens
from envgen.runs.store import (
    PROGRESS,
    Run,
    RunError,
    check_no_runs_below,
    library_versions,
    read_entry,
    read_request,
    reading,
)
from envgen.settings import FrozenModel, format_choice_error

from .domains.registry import domain_path
from .environment import environment_prompt
from .language_model import LanguageModel
from .loop import COUNTS, AgentPolicy, Coevolution, ProgressLine
from .model_io import check_prompts, load_model
from .policy import LanguageModelPolicy, check_launch
from .processes import start_accelerator
from .proposers import ProposerContext, UniformProposer
from .registry import PROPOSERS
from .reward import SuccessStats
from .sampling import HfSampler, Sampler
from .settings import (
    DEFAULT_SAVE_EVERY,
    AgentSettings,
    AlphaCurriculumSettings,
    CoevolutionPlan,
    EnvironmentSettings,
)
from .task_stores import TaskFilter, TaskStores
from .tasks import Domain, DomainError, Spec, Task, check_samples, check_tasks, explaining_errors

BASE_SEED = 20_251_219  # of the base tasks, the same in every run
MAX_SEED = 2**62
VALIDATION_TASKS = 200  # tasks on which a domain is validated before a run
NUM_FIRST_CHECKS = 20  # held-out tasks on which it is validated before models are pretrained
TOKENIZER_CHECKS = 20  # texts that each tokenizer must represent exactly
PRETRAINED = "pretrained"  # in the runtime options: the folder of the small models that a run starts from
MODEL_VERSIONS = ("envgen", "numpy", "torch")  # in run.json, of what pretraining depends on
FOLDER_NAME = re.compile(r"[\w:-][\w:.-]*")
PHASES = ("environment", "rollout", "update", "evaluation")


class CoevolutionSummary(FrozenModel):
    """The results of a finished run."""

    initial_accuracy: float
    """On the held-out tasks before training, in percent."""
    final_accuracy: float
    """On the held-out tasks after training, in percent."""
    mean_accuracy: float
    """The mean of all evaluations but the first, in percent."""
    final_accuracy_by: dict[str, dict[str, float]]
    """Feature of the tasks: value: final accuracy in percent."""
    accuracy_curve: list[tuple[int, int, int, float]]
    """For each evaluation: rollouts, tokens of both models, tasks proposed, accuracy in percent."""
    counts: dict[str, int]
    """What the run used and made: rollouts, tokens, tasks and so on."""
    seconds: dict[str, float]
    """Wall time by phase."""
    total_seconds: float
    """Wall time in seconds, without interruptions."""


class CoevolveRequest(FrozenModel):
    """The settings that identify a run. `agent` and `environment` are model folders or names on the hub."""

    proposer: str
    agent: str
    environment: str
    curriculum: AlphaCurriculumSettings = AlphaCurriculumSettings()
    agent_settings: AgentSettings = AgentSettings()
    environment_settings: EnvironmentSettings = EnvironmentSettings()
    plan: CoevolutionPlan = CoevolutionPlan()
    seed: Annotated[int, Field(ge=0, lt=MAX_SEED)] = 0

    @field_validator("proposer")
    @classmethod
    def _check_proposer(cls, name: str) -> str:
        if name not in PROPOSERS:
            raise ValueError(format_choice_error(name, list(PROPOSERS)))
        return name


def recorded_models(models_folder: Path, runtime_options: Mapping[str, Any]) -> tuple[Path, Path] | None:
    """The small models that a run started from, by the name in its run.json, if they are there: agent and environment.

    Other versions of envgen and of its libraries would pretrain others.
    """
    name = runtime_options.get(PRETRAINED)
    if not (isinstance(name, str) and FOLDER_NAME.fullmatch(name)):
        return None
    agent, environment = (models_folder / name / model for model in ("agent", "environment"))
    return (agent, environment) if agent.is_dir() and environment.is_dir() else None


def check_recorded_models(folder: Path, models_folder: Path, available: str) -> None:
    """Raise RunError if a run started from other small models than those that this version pretrains.

    Args:
        folder: The run directory.
        models_folder: A folder without the models of the run.
        available: The name of the models that this version pretrains with the arguments of the run.
    """
    entry = read_entry(folder)
    recorded = entry.get("runtime_options", {}).get(PRETRAINED)  # older runs did not store it
    if recorded is None or recorded == available:
        return
    versions, now = entry.get("versions"), library_versions()
    versions = versions if isinstance(versions, dict) else {}
    changed = [name for name in MODEL_VERSIONS if versions.get(name, now[name]) != now[name]]
    changes = [f"{name} {versions[name]!s:.20} (now {now[name]})" for name in changed]
    cause = f"with {', '.join(changes)}" if changes else "with other versions of envgen or of its libraries"
    raise RunError(
        f"{folder} was started {cause}, and this version pretrains other small models than the {recorded!r:.80} that "
        f"it started from, which are not in {models_folder}; pass --models-folder with the folder that the run used"
    )


def check_start(
    folder: Path, domain: Domain, request: CoevolveRequest, pretrain_recipe: Mapping[str, Any] | None,
    accelerator: Accelerator, samplers: tuple[Sampler | None, Sampler | None],
) -> None:  # fmt: skip
    """Raise an error if `coevolve` would fail for another reason than its models, which take minutes to pretrain."""
    _check_launch(request, accelerator, samplers)
    check_samples(domain, min(NUM_FIRST_CHECKS, request.plan.num_eval_tasks))
    if exists(folder / "run.json"):
        _, runtime_options = read_request(folder)
        Run(
            folder, stored_request(domain, request, pretrain_recipe), accelerator.is_main_process, runtime_options
        ).close()
        return
    entry = next(path for path in (folder, *folder.parents) if exists(path))
    if not entry.is_dir():
        raise RunError(f"cannot create the run directory {folder}: {entry} is not a directory")
    if not os.access(entry, os.W_OK | os.X_OK):
        raise RunError(f"cannot create the run directory {folder}: {entry} is read-only")
    if entry == folder:
        check_no_runs_below(folder)


def _check_launch(
    request: CoevolveRequest, accelerator: Accelerator, samplers: tuple[Sampler | None, Sampler | None]
) -> None:
    check_launch(effective_agent_settings(request), accelerator, samplers[0] or HfSampler())
    if PROPOSERS[request.proposer].needs_model:
        check_launch(request.environment_settings, accelerator, samplers[1] or HfSampler())


def coevolve(
    folder: Path,
    domain: Domain,
    request: CoevolveRequest,
    pretrain_recipe: Mapping[str, Any] | None = None,
    model_paths: tuple[str, str] | None = None,
    on_progress: Callable[[ProgressLine], None] = lambda line: None,
    accelerator: Accelerator | None = None,
    samplers: tuple[Sampler | None, Sampler | None] = (None, None),
    dtype: str = "float32",
    save_every: float = DEFAULT_SAVE_EVERY,
) -> CoevolutionSummary:
    """Train an agent and an environment policy together; called again with the same arguments, it resumes.

    Args:
        folder: The run directory.
        domain: The family of tasks.
        request: All settings. A run directory only resumes with the same request.
        pretrain_recipe: How models created from scratch were made. It identifies the run in place of their paths.
        model_paths: Folders of the agent and the environment model, if they are not those of the request.
        on_progress: Called with each line of progress.jsonl.
        accelerator: By default, that of the processes that `torchrun` or `accelerate launch` started.
        samplers: Generators of completions for the agent and the environment; by default the models themselves.
        dtype: The torch dtype in which the models are loaded.
        save_every: Seconds between checkpoints.
    """
    accelerator = accelerator or start_accelerator()
    entry, agent_settings = PROPOSERS[request.proposer], effective_agent_settings(request)
    agent_path, environment_path = model_paths or (request.agent, request.environment)

    # Everything that can be refused is checked before the directory is claimed: a failure must leave no run.json.
    check_samples(domain, num_held_out=1)
    setup = setup_tasks(domain, request.plan)
    agent_lm = load_model(agent_path, dtype)
    oracle_replies = [domain.oracle_reply(task) for task in setup.eval_tasks[:TOKENIZER_CHECKS]]
    if domain.is_multi_turn:
        agent_lm.encode_observation("-")  # its chat template may not allow for further turns
    agent_lm.check_round_trip(oracle_replies, f"replies of {domain.name}")
    prompts = [agent_lm.encode_prompt(domain.instructions, task.prompt) for task in setup.eval_tasks]
    check_prompts(agent_lm, prompts, agent_settings.max_new_tokens)
    environment_lm: LanguageModel | None = None
    if entry.needs_model:
        environment_lm = load_model(environment_path, dtype)
        spec_texts = [spec.text for spec in setup.base_specs[:TOKENIZER_CHECKS]]
        environment_lm.check_round_trip(spec_texts, f"specs of {domain.name}")
        stats_prompt = SuccessStats().to_prompt()
        environment_prompts = [
            environment_lm.encode_prompt(
                domain.spec_prompt, environment_prompt(request.curriculum.alpha, stats_prompt, spec)
            )
            for spec in setup.base_specs[:TOKENIZER_CHECKS]
        ]
        check_prompts(environment_lm, environment_prompts, request.environment_settings.max_new_tokens)

    def build_environment_policy(settings: EnvironmentSettings, seed: int) -> LanguageModelPolicy:
        assert environment_lm is not None, "a proposer that trains a model sets needs_model in the registry"
        return LanguageModelPolicy(environment_lm, settings, seed, accelerator, samplers[1])

    stored, is_main = stored_request(domain, request, pretrain_recipe), accelerator.is_main_process
    runtime_options = {"dtype": dtype}
    if pretrain_recipe is not None:
        runtime_options |= {PRETRAINED: Path(agent_path).parent.name}
    _check_launch(request, accelerator, samplers)
    with (
        explaining_lost_processes(accelerator.num_processes),
        Run(folder, stored, is_main, runtime_options) as run,
    ):
        policy = LanguageModelPolicy(agent_lm, agent_settings, request.seed, accelerator, samplers[0])
        stores = TaskStores(run)
        context = ProposerContext(
            domain=domain, curriculum=request.curriculum, environment_settings=request.environment_settings,
            plan=request.plan, seed=request.seed + 10, run=run, stores=stores, task_filter=setup.task_filter,
            base_specs=setup.base_specs, build_policy=build_environment_policy,
        )  # fmt: skip
        start = time.perf_counter()
        proposer = entry.build(context)  # `static` generates its tasks
        loop = Coevolution(
            run, domain, AgentPolicy(domain, policy, agent_settings), proposer, stores=stores,
            task_filter=setup.task_filter, base_specs=setup.base_specs, eval_tasks=setup.eval_tasks,
            curriculum=request.curriculum, plan=request.plan, seed=request.seed, on_progress=on_progress,
            save_every=save_every,
        )  # fmt: skip
        loop.seconds["environment"] = time.perf_counter() - start
        lines = loop.execute()
        with reading(run.folder / PROGRESS):
            summary = summarize(lines)
        if run.is_main:
            run.write("summary", summary.model_dump(mode="json"))
        return summary


def stored_request(
    domain: Domain, request: CoevolveRequest, pretrain_recipe: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What run.json holds: the request with the settings that its proposer implies."""
    agent_settings = effective_agent_settings(request)
    return {
        "domain": domain_path(domain),
        **request.model_dump(mode="json"),
        "curriculum": request.curriculum.stored(),
        "agent_settings": agent_settings.stored(),
        "environment_settings": request.environment_settings.stored(),
        "proposer": {"name": request.proposer},
        "pretrain_recipe": pretrain_recipe,
    }


def effective_agent_settings(request: CoevolveRequest) -> AgentSettings:
    """The settings of the agent, with those that the proposer implies."""
    overrides = PROPOSERS[request.proposer].agent_overrides
    return request.agent_settings.model_copy(update=dict(overrides))


@dataclass(frozen=True)
class TaskSetup:
    task_filter: TaskFilter
    base_specs: list[Spec]
    eval_tasks: tuple[Task, ...]


def setup_tasks(domain: Domain, plan: CoevolutionPlan) -> TaskSetup:
    """The held-out tasks, on which the domain is validated, and the base specs."""
    with explaining_errors(domain):
        eval_tasks = domain.held_out_tasks(plan.num_eval_tasks)
        check_tasks(domain, eval_tasks[:VALIDATION_TASKS])
        task_filter = TaskFilter(domain, eval_tasks)
        proposals = UniformProposer(domain, BASE_SEED).propose(plan.num_base_tasks, [], SuccessStats(), task_filter)
    base_specs = [candidate.task.spec for candidate in proposals.accepted if candidate.task is not None]
    if not base_specs:
        raise DomainError(
            f"all specs of {domain.name} are held out, so none is left to train on; lower num_eval_tasks of the plan"
        )
    return TaskSetup(task_filter, base_specs, eval_tasks)


def summarize(lines: Sequence[ProgressLine]) -> CoevolutionSummary:
    """The summary of a finished run from its progress."""
    evaluations = [line for line in lines if "eval_accuracy" in line]
    first, last = evaluations[0], evaluations[-1]
    seconds: dict[str, float] = {
        phase: round(sum(line.get("seconds", {}).get(phase, 0.0) for line in lines), 1) for phase in PHASES
    }
    return CoevolutionSummary(
        initial_accuracy=100 * first["eval_accuracy"],
        final_accuracy=100 * last["eval_accuracy"],
        mean_accuracy=100 * sum(line["eval_accuracy"] for line in evaluations[1:]) / max(1, len(evaluations) - 1),
        final_accuracy_by={
            feature: {value: 100 * accuracy for value, accuracy in values.items()}
            for feature, values in last["eval_accuracy_by"].items()
        },
        accuracy_curve=[
            (
                line["rollouts"],
                round(total_tokens(line) or 0),
                line["tasks_proposed"],
                100 * line["eval_accuracy"],
            )
            for line in evaluations
        ],
        counts={name: lines[-1].get(name, 0) for name in COUNTS},
        seconds=seconds,
        total_seconds=round(sum(seconds.values()), 1),
    )
