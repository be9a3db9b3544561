"""Functions of the public API, such as `envgen.train`, and what the command line shares with them.

The others are in `coevolution_api.py`, `episodes_api.py`, `llm_agent_api.py` and `benchmarks/api.py`.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from envgen.console import terminal
from envgen.designers.chains import parse_levels_or_chains
from envgen.designers.designer import Designer
from envgen.designers.registry import build_designer, check_designer_type, rebuild_designer, resume_runtime
from envgen.errors import EnvgenError
from envgen.imports import require_extra
from envgen.processes import is_main_process
from envgen.settings import (
    check_seconds,
    format_choice_error,
    format_validation_error,
    to_changes,
    to_integer,
    to_number,
    to_path,
)
from envgen.text import to_file_name, to_label
from envgen.worlds.registry import make_world, world_names
from envgen.worlds.world import Level, World

if TYPE_CHECKING:
    from envgen.agents.learner import Learner
    from envgen.agents.policy import Policy
    from envgen.agents.settings import LearnerSettings, NetworkSettings
    from envgen.curriculum.diagnosis import Diagnosis
    from envgen.curriculum.evaluate import Evaluation
    from envgen.curriculum.initial_policy import InitialPolicy
    from envgen.curriculum.loop import TrainingSummary
    from envgen.curriculum.plan import PracticeSettings, TrainingPlan
    from envgen.runs.compare import Comparison

OUT = Path("out")
DEFAULT_DESIGNER, DEFAULT_LEARNER, DEFAULT_LEARNER_PRESET = "expert", "ppo", "fast"
PASS_WORLD = "in Python, pass world=...; on the command line, add --world module:Class"
PASS_LEARNER = "in Python, pass learner=...; on the command line, add --learner module:Class"
REPEAT = "resume by repeating the command or call that started the run"


class ArgumentError(EnvgenError, ValueError):
    """An argument of the API is wrong; the message names the right ones."""


@dataclass(frozen=True)
class TrainingRun:
    """A finished run of `train`."""

    folder: Path
    """The run directory."""
    summary: "TrainingSummary" = field(repr=False)
    """The results."""
    world: World
    """The world."""
    learner: "str | type[Learner] | None" = None
    """The learner: its name, or the class if it is one of your own."""

    @property
    def final(self) -> "Evaluation":
        """The evaluation of the final policy in the original environment."""
        return self.summary.final

    def policy(self, device: str = "cpu") -> "Policy":
        """The final policy."""
        return load_policy(self.folder, device, self.world, self.learner)

    def report(self) -> str:
        """A human-readable summary: final evaluation, training score, steps, and the cost of the language model."""
        from envgen.curriculum.display import describe_summary

        return describe_summary(self.summary, self.world)

    def __str__(self) -> str:
        return str(self.summary.final)


def train(
    world: str | World = "crafter",
    designer: str | Designer | type[Designer] = "expert",
    *,
    preset: str = "paper",
    plan: "TrainingPlan | Mapping[str, Any] | None" = None,
    observation: str | None = None,
    seed: int = 0,
    folder: str | Path | None = None,
    learner: "str | type[Learner]" = "ppo",
    learner_preset: str = "fast",
    network: "str | NetworkSettings | Mapping[str, Any] | None" = None,
    hyperparameters: "LearnerSettings | Mapping[str, Any] | None" = None,
    designer_options: Mapping[str, Any] | None = None,
    levels: Sequence[Any] = (),
    llm: str | Mapping[str, Any] | None = None,
    extend: bool = False,
    practice: "PracticeSettings | Mapping[str, Any] | None" = None,
    initial_policy: "str | Path | TrainingRun | Policy | None" = None,
    device: str = "cpu",
    compile: bool = False,
    save_every: float = 30.0,
    log: Sequence[str] = (),
    verbose: bool = True,
) -> TrainingRun:
    """Train an agent in levels that a designer adapts to it, cycle by cycle, and in the original environment.

    To continue an interrupted run exactly where it stopped, call this again with the same arguments.

    Args:
        world: A world or its name; see `envgen worlds`. `"module:Class"` names a world of your own.
        designer: A designer, its class, or its name; see `envgen designers`. `"module:Class"` names one of your own.
        preset: The plan to start from: `"paper"`, `"quick"` or `"long"`.
        plan: A `TrainingPlan`, or the fields that differ from the preset, such as `{"cycles": 2}`.
        observation: What the agent observes; one of `world.observations`. Default: symbols, if the world has them.
        seed: Random seed.
        folder: The run directory. Default: `out/<world>-<designer>-<preset>-<observation>-<seed>`, with the learner,
            its preset, encoder, memory, history and practice before the seed where they are not the defaults.
        learner: The algorithm that trains the agent: `"ppo"`, `"distillation"`, `"module:Class"` or a class.
        learner_preset: The settings of learner, network and practice to start from: `"fast"`, `"far"` for runs of ten
            million steps and more, or `"published"`.
        network: The agent's network: an encoder such as `"tiles"`, or the fields of `NetworkSettings` that differ from
            the defaults, such as `{"memory": "gru", "history": True}`.
        hyperparameters: Those of the learner that differ from the defaults, such as `{"learning_rate": 1e-4}`.
        designer_options: Settings of a designer that is given by name, such as `{"alpha": 0.5}`.
        levels: Levels and chains of levels for the designer `"fixed"`. `{"chain": {"skill": "collect_iron"}}` is a
            chain whose levels are derived; add `"levels"` to it for levels of your own.
        llm: The language model of the designers that use one: `"openai:MODEL"`, or a mapping with `llm` and options
            such as `base_url` and `max_cost`.
        extend: Continue a finished run whose plan now has more cycles or final steps.
        practice: Restart a share of the environments from saved states in which the agent was close to a rare skill:
            `{"share": 0.2}`, and the other fields of `PracticeSettings`. By default as in the learner preset.
        initial_policy: A policy whose weights the agent starts with, or anything that `load_policy` loads, such as a
            run directory. It must have the same network. By default the weights are random.
        device: The device of the network: `"cpu"`, `"cuda"`, `"cuda:1"`, ...
        compile: Compile the network with `torch.compile`.
        save_every: Seconds between checkpoints.
        log: `"tensorboard"`, `"wandb"` or both, in addition to the run directory.
        verbose: Show progress on the terminal.
    """
    require_extra("train", "envgen.train")
    arguments = _training_arguments(
        world, designer, preset=preset, plan=plan, observation=observation, seed=seed, folder=folder, learner=learner,
        learner_preset=learner_preset, network=network, hyperparameters=hyperparameters,
        designer_options=designer_options, levels=levels, llm=llm, practice=practice, initial_policy=initial_policy,
    )  # fmt: skip
    return _train(arguments, extend, device, compile, save_every, log, verbose)


def training_request(
    world: str | World, designer: str | Designer, *, device: str, compile: bool, log: Sequence[str],
    has_device: bool = True, **arguments: Any,
) -> dict[str, Any]:  # fmt: skip
    """Check the arguments of `train` without starting a run, and return the request that its run.json would hold.

    Args:
        has_device: Whether the run will use the device of this machine. Otherwise only its name is checked.
        arguments: The other arguments of `train` that decide the result, all of them.
    """
    from envgen.curriculum.loop import prepare
    from envgen.runs.loggers import check_loggers

    check_loggers(log)
    check_device(device, has_device)
    a = _training_arguments(world, designer, **arguments)
    prepared = prepare(
        a.world, a.designer, a.plan, observation=a.observation, seed=a.seed, learner=a.learner,
        learner_settings=a.settings, device=device, compile=compile, practice=a.practice,
        initial_policy=a.initial_policy, request_only=True,
    )  # fmt: skip
    return prepared.request


@dataclass(frozen=True)
class TrainingArguments:
    """The arguments of `train` that decide the result, complete and checked."""

    folder: Path
    world: World
    designer: Designer
    plan: "TrainingPlan"
    observation: str
    seed: int
    learner: "str | type[Learner]"
    settings: dict[str, Any]
    practice: Mapping[str, Any]
    initial_policy: "InitialPolicy | None" = None


def _training_arguments(
    world: str | World, designer: str | Designer | type[Designer], *, preset: str, plan: Any, observation: str | None,
    seed: int, folder: str | Path | None, learner: Any, learner_preset: str, network: Any, hyperparameters: Any,
    designer_options: Mapping[str, Any] | None, levels: Sequence[Any], llm: str | Mapping[str, Any] | None,
    practice: Any, initial_policy: Any,
) -> TrainingArguments:  # fmt: skip
    from envgen.agents.learner import learner_class
    from envgen.agents.ppo import PPO
    from envgen.curriculum.plan import PracticeSettings, TrainingPlan, check_training_seed, plan_for
    from envgen.curriculum.plan import learner_preset as chosen_preset

    seed = check_training_seed(seed)
    world = make_world(world)
    observation = world.default_observation if observation is None else observation
    check_observation(world, observation)
    if not isinstance(plan, TrainingPlan):
        plan = plan_for(preset, world, **_changes("plan", plan))
    name = designer if isinstance(designer, str) else check_designer_type(designer).name
    network_changes = _changes("network", network)
    practice_changes = _changes("practice", practice)
    run_folder = to_path("folder", folder, ArgumentError) if folder else default_folder(
        world, name, preset, observation, seed, learner, learner_preset, network_changes, practice_changes
    )  # fmt: skip
    model = {"llm": llm} if isinstance(llm, str) else _changes("llm", llm)
    options = _changes("designer_options", designer_options)
    built = build_designer(designer, run_folder, model, options, parse_levels_or_chains(levels, world))
    settings, preset_practice = chosen_preset(learner_preset, world)
    if settings and not issubclass(learner_class(learner), PPO):
        raise ArgumentError(f"learner_preset {learner_preset} has settings of PPO, which {learner} does not have")
    changes = _changes("hyperparameters", hyperparameters)
    network_settings = settings.get("network", {}) | _changes("network", changes.get("network")) | network_changes
    settings |= changes
    if network_settings:
        settings["network"] = network_settings
    practice = preset_practice | practice_changes
    known = PracticeSettings.model_fields.keys() - {"share"}  # others are refused by their names later
    if (unused := [name for name in practice_changes if name in known]) and not practice.get("share"):
        raise ArgumentError(f"practice.{unused[0]} has no effect without practice; set practice.share as well")
    initial = None if initial_policy is None else _initial_policy(initial_policy, world, learner)
    return TrainingArguments(
        run_folder, world, built, plan, observation=observation, seed=seed, learner=learner, settings=settings,
        practice=practice, initial_policy=initial,
    )  # fmt: skip


def _initial_policy(
    policy: "str | Path | TrainingRun | Policy", world: World, learner: "str | type[Learner]"
) -> "InitialPolicy":
    from envgen.agents.policy import Policy
    from envgen.curriculum.initial_policy import InitialPolicy, parts_of_run

    if isinstance(policy, Policy):
        return InitialPolicy("a policy", lambda: policy)
    if isinstance(policy, TrainingRun):
        return InitialPolicy(str(policy.folder), policy.policy)
    folder = to_path("initial_policy", policy, ArgumentError)
    return InitialPolicy(str(policy), lambda: load_policy(policy, **parts_of_run(folder, world, learner)))


def default_folder(
    world: World, designer: str, preset: str, observation: str, seed: int, learner: Any, learner_preset: str,
    network: Mapping[str, Any], practice: Mapping[str, Any],
) -> Path:  # fmt: skip
    """The run directory that `train` uses if it is given none. Of the learner, its name says what is not the default.

    Args:
        network: The settings of the network that differ from the learner preset.
        practice: Those of practice.
    """
    choices = [to_label(learner if isinstance(learner, str) else getattr(learner, "__name__", "")), learner_preset]
    choices += [value for value in network.values() if isinstance(value, str)]
    implied = {DEFAULT_LEARNER, DEFAULT_LEARNER_PRESET, observation, "auto", "none"}
    options = [option for option, value in network.items() if value is True]
    if learner_preset != DEFAULT_LEARNER_PRESET:
        options += [f"no-{option}" for option, value in network.items() if value is False]
    options += ["practice"] if practice.get("share") else []
    variant = [choice for choice in choices if choice not in implied] + options
    return OUT / "-".join([to_file_name(world.name), to_label(designer), preset, observation, *variant, str(seed)])


def resume(
    folder: str | Path,
    *,
    runtime_options: Mapping[str, Any] | None = None,
    device: str = "cpu",
    compile: bool = False,
    save_every: float = 30.0,
    log: Sequence[str] = (),
    verbose: bool = True,
) -> TrainingRun:
    """Continue an interrupted run of `train` with the settings in its run directory.

    Args:
        folder: The run directory.
        runtime_options: Connection settings and budget of the language model, where they differ from before. A
            server or key variable that is not the provider's own must be given again: the run directory may be
            someone else's, and a key is sent to that server.

    The other arguments are those of `train`.
    """
    require_extra("train", "envgen.resume")
    from envgen.curriculum.initial_policy import InitialPolicy
    from envgen.curriculum.plan import TrainingPlan
    from envgen.runs.store import RunError, read_request

    run_folder = to_path("folder", folder, ArgumentError)
    request, stored = read_request(run_folder)
    try:
        world_name, observation, seed, config = (request[key] for key in ("world", "observation", "seed", "designer"))
        plan = TrainingPlan(**request["plan"])
        settings = _stored_hyperparameters(request)
        learner = settings.pop("name")
        check_learner_name(learner, REPEAT)
        runtime = resume_runtime(config, stored, runtime_options or {})
        designer = rebuild_designer(config, run_folder, runtime)
        practice = request.get("practice")
        initial = InitialPolicy.from_request(request.get("initial_policy"), load_policy)
        if type(seed) is not int or not isinstance(practice, dict | None):
            raise TypeError("seed or practice")
    except ValidationError as error:
        raise RunError(f"{run_folder} cannot be resumed: {format_validation_error(error)}") from None
    except EnvgenError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RunError(f"{run_folder} is not a run of envgen train") from None
    check_world_name(world_name, REPEAT)
    world = make_world(world_name)
    check_observation(world, observation)
    arguments = TrainingArguments(
        run_folder, world, designer, plan, observation=observation, seed=seed, learner=learner, settings=settings,
        practice=practice or {}, initial_policy=initial,
    )  # fmt: skip
    return _train(arguments, False, device, compile, save_every, log, verbose)


def check_observation(world: World, observation: Any) -> None:
    """Raise an ArgumentError if a world has no such observation."""
    if observation not in world.observations:
        raise ArgumentError(f"observation {format_choice_error(str(observation), world.observations)}")


def check_world_name(name: Any, remedy: str) -> None:
    """Raise an ArgumentError with `remedy` if a world cannot be loaded by the name in a run directory or saved policy.

    Such a file may come from someone else, so a `module:Class` in it is not imported.
    """
    if name not in world_names():
        raise ArgumentError(f"the world {name!r} cannot be loaded by its name; {remedy}")


def check_learner_name(name: Any, remedy: str) -> None:
    """Like `check_world_name`, for the learner that a run directory names."""
    from envgen.agents.learner import LEARNERS

    if name not in LEARNERS:
        raise ArgumentError(f"the learner {name!r} cannot be loaded by its name; {remedy}")


def _train(
    arguments: TrainingArguments, extend: bool, device: str, compile: bool, save_every: float, log: Sequence[str],
    verbose: bool,
) -> TrainingRun:  # fmt: skip
    from envgen.curriculum.display import TrainDisplay
    from envgen.curriculum.loop import train as run_loop
    from envgen.runs.loggers import TrainingLogger

    check_device(device)
    check_seconds("save_every", save_every, ArgumentError)
    a, world, folder = arguments, arguments.world, arguments.folder
    console, print_line = terminal(verbose)
    with (
        TrainingLogger(folder, world, log if is_main_process() else ()) as logger,
        TrainDisplay([skill.name for skill in world.skills], a.plan.total_steps, console, folder) as display,
    ):

        def on_progress(line: dict[str, Any]) -> None:
            display(line)
            logger.on_progress(line)

        summary = run_loop(
            folder, world, a.designer, a.plan, observation=a.observation, seed=a.seed, learner=a.learner,
            learner_settings=a.settings, device=device, compile=compile, on_progress=on_progress,
            on_message=print_line, save_every=save_every, extend=extend, practice=a.practice,
            initial_policy=a.initial_policy,
        )  # fmt: skip
    return TrainingRun(folder, summary, world, a.learner)


def check_device(device: str, is_local: bool = True) -> None:
    """Raise an ArgumentError if PyTorch cannot use a device. Of another machine's device, only the name is checked."""
    import torch

    try:
        named = torch.device(device)
        _ = torch.zeros(1, dtype=torch.float64, device=named) if is_local else named
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        reason = "pass a name such as 'cuda:0'" if isinstance(error, TypeError) else str(error).splitlines()[0]
        raise ArgumentError(f"device {device!r} is not available: {reason}") from None


def _changes(name: str, settings: Any) -> dict[str, Any]:
    """The fields of an argument with settings that were set, or a copy of a mapping."""
    if name == "network" and isinstance(settings, str):
        return {"encoder": settings}
    return to_changes(name, settings, ArgumentError)


def evaluate(
    run: "str | Path | TrainingRun | Policy",
    episodes: int = 256,
    *,
    world: str | World | None = None,
    level: Any = None,
    seed: int | None = None,
    observation: str | None = None,
    deterministic: bool = False,
    device: str = "cpu",
    learner: "str | type[Learner] | None" = None,
) -> "Evaluation":
    """Play episodes with a trained policy, without learning.

    Args:
        run: A `TrainingRun`, a policy, or anything that `load_policy` loads, such as a run directory.
        episodes: Number of episodes.
        world: The world to play in. Default: the one that the policy was trained in.
        level: The level to play. Default: the original.
        seed: Seed of environments and actions. Default: one that training never uses.
        observation: What the policy observes. Default: what it was trained with.
        deterministic: Take the most likely action instead of sampling.
        device: The device that the network is loaded on. A `Policy` stays where it is.
        learner: The learner of the run, if it is one of your own. A run directory names it, but may come from someone
            else, so nothing that it names is imported.
    """
    require_extra("train", "envgen.evaluate")
    from envgen.curriculum.evaluate import evaluate as evaluate_policy

    policy, world, level, seed, observation = check_play_arguments(
        run, episodes, world, level, seed, observation, device, learner
    )
    return evaluate_policy(policy, world, level, episodes, seed, observation, deterministic)


def diagnose(
    run: "str | Path | TrainingRun | Policy",
    episodes: int = 256,
    *,
    threshold: float = 50.0,
    world: str | World | None = None,
    level: Any = None,
    seed: int | None = None,
    observation: str | None = None,
    deterministic: bool = False,
    device: str = "cpu",
    learner: "str | type[Learner] | None" = None,
) -> "Diagnosis":
    """Play the episodes that `evaluate` plays, and measure why skills are not mastered.

    For every skill, the result contains how far episodes get along its prerequisites, how often it could have succeeded
    and how often the agent attempted it. It also contains what ended the episodes. `envgen diagnose` writes it to the
    run directory, with a figure.

    Args:
        threshold: A skill is mastered if its success rate in percent reaches this.

    The other arguments are those of `evaluate`.
    """
    require_extra("train", "envgen.diagnose")
    from envgen.curriculum.diagnosis import diagnose as diagnose_policy

    if not 0 < to_number("threshold", threshold, ArgumentError) <= 100:
        raise ArgumentError(f"threshold must be above 0 and at most 100 percent, not {threshold:g}")
    policy, world, level, seed, observation = check_play_arguments(
        run, episodes, world, level, seed, observation, device, learner
    )
    return diagnose_policy(policy, world, level, episodes, seed, observation, deterministic, threshold)


def check_play_arguments(
    run: "str | Path | TrainingRun | Policy", episodes: int, world: str | World | None, level: Any, seed: int | None,
    observation: str | None, device: str, learner: "str | type[Learner] | None",
) -> "tuple[Policy, World, Level, int, str]":  # fmt: skip
    """Check the arguments of `evaluate` and return what they stand for: policy, world, level, seed and observation."""
    from envgen.agents.policy import Policy
    from envgen.curriculum.plan import EVALUATION_SEED, check_seed

    to_integer("episodes", episodes, ArgumentError, minimum=1)
    seed = check_seed(EVALUATION_SEED if seed is None else seed)
    if isinstance(run, TrainingRun):
        world = world or run.world
        policy = run.policy(device)
    elif isinstance(run, Policy):
        policy = run
    else:
        to_path("run", run, ArgumentError)
        policy = load_policy(run, device, world, learner)
    if world is None:
        if "world" not in policy.metadata:
            raise ArgumentError("this policy does not name its world; pass world=...")
        check_world_name(policy.metadata["world"], PASS_WORLD)
    world = make_world(policy.metadata["world"] if world is None else world)
    trained = policy.metadata.get("observation", world.default_observation)
    if observation is None and trained not in world.observations:
        raise ArgumentError(f"the policy observes {trained}, which the world {world.name} does not have")
    observation = observation or str(trained)
    check_observation(world, observation)
    return policy, world, world.Level.parse(level), seed, observation


def compare(*runs: str | Path | TrainingRun) -> "Comparison":
    """A table of finished runs, with intervals over seeds. Runs that differ only in their seed form one group.

    Args:
        runs: Run directories, or folders that contain some.
    """
    require_extra("train", "envgen.compare")
    from envgen.runs.compare import compare as compare_runs

    if any(isinstance(run, Iterable) and not isinstance(run, str) for run in runs):
        raise ArgumentError("compare takes each run as an argument of its own: compare(*runs)")
    return compare_runs([run.folder if isinstance(run, TrainingRun) else run for run in runs])


def load_policy(
    folder: str | Path,
    device: str = "cpu",
    world: str | World | None = None,
    learner: "str | type[Learner] | None" = None,
) -> "Policy":
    """Load a trained policy from a run directory, a saved policy, a release file, the cache or the Hugging Face Hub.

    `policy.predict(obs)` and `policy.act(obs)` take one observation or a batch.

    Args:
        folder: A run directory, a folder written by `policy.save`, or a release file such as `crafter-far.zip`. A name
            such as `"crafter-far"`, if there is no such path, loads the folder or release file of this name in
            `~/.cache/envgen/policies` (with `XDG_CACHE_HOME` or `ENVGEN_CACHE`, in another cache). `"hf:owner/name"`
            loads a policy from the Hugging Face Hub, of which only `policy.json` and `policy.safetensors` are read.
        device: The device of the network.
        world: The world of the run, if `make_world` cannot load it by its name.
        learner: The learner of the run, if it is one of your own.
    """
    require_extra("train", "envgen.load_policy")
    from envgen.agents.policy import PolicyError
    from envgen.agents.released import PLAIN_NAME, find_and_load_policy, policies_dir

    check_device(device)
    path = to_path("folder", folder, ArgumentError)
    if (policy := find_and_load_policy(os.path.expanduser(folder), device)) is not None:
        return policy
    if isinstance(folder, str) and PLAIN_NAME.fullmatch(folder) and not os.path.exists(folder):
        raise PolicyError(
            f"{folder} is neither a folder nor a policy in {policies_dir()}; download the release file {folder}.zip "
            "into that folder, or pass the path of a run"
        )
    return _load_run_policy(path, device, world, learner)


def _stored_hyperparameters(request: Mapping[str, Any]) -> dict[str, Any]:
    """The learner's name and hyperparameters in a run directory."""
    settings = dict(request["learner"])
    if request["observation"] == "pixels":  # earlier versions had no other encoder for pixels
        settings.setdefault("network", {"encoder": "impala"})
    return settings


def _load_run_policy(
    folder: Path, device: str, world: str | World | None, learner: "str | type[Learner] | None"
) -> "Policy":
    """The policy of the last checkpoint of a run."""
    from envgen.curriculum.trainer import make_learner, naming_other_learner
    from envgen.runs.checkpoint import CheckpointError, load_latest, loading
    from envgen.runs.store import RunError, read_request

    request, _ = read_request(folder)
    try:
        world_name, observation, settings = request["world"], request["observation"], _stored_hyperparameters(request)
        name = settings.pop("name")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RunError(f"{folder} is not a run of envgen train") from None
    checkpoint = load_latest(folder / "checkpoints")
    if checkpoint is None:
        raise RunError(f"{folder} has no checkpoint yet; let the run train until it saves one")
    if world is None:
        check_world_name(world_name, PASS_WORLD)
    if learner is None:
        check_learner_name(name, PASS_LEARNER)
    chosen = make_world(world or world_name)
    if world is not None and chosen.name != world_name and observation not in chosen.observations:
        raise RunError(f"{folder} was trained in the world {world_name}, which {chosen.name} does not match")
    check_observation(chosen, observation)
    try:
        with naming_other_learner(folder, name, learner or name):
            agent = make_learner(chosen, observation, learner or name, settings, device=device, alone=True)
            with loading(folder, checkpoint):
                agent.load(checkpoint.arrays["agent"], checkpoint.values["agent"])
    except CheckpointError:
        if world is None or chosen.name == world_name:
            raise
        raise RunError(f"{folder} was trained in the world {world_name}, which {chosen.name} does not match") from None
    policy = agent.policy
    policy.metadata.update(world=world_name, observation=observation)
    return policy
