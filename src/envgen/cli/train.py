"""`envgen train`: start or resume a run of EnvGen's loop."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import OmitArgPrefixes, Positional

from envgen.agents.settings import (
    HyperparameterError,
    LearnerSettings,
    NetworkSettings,
    PpoSettings,
)
from envgen.api import DEFAULT_DESIGNER, DEFAULT_LEARNER, DEFAULT_LEARNER_PRESET, default_folder
from envgen.curriculum.plan import LEARNER_PRESETS, PRESETS, PracticeSettings, TrainingPlan
from envgen.designers.registry import LlmConfig, LlmRuntime, designer_names, settings_class
from envgen.settings import Settings
from envgen.worlds.registry import make_world, world_names
from envgen.worlds.world import World

from .common import (
    UserError,
    read_levels,
    refuse_with_resume,
    require_choice,
    require_extra,
    require_reference,
    require_seed,
    resume_hint,
)
from .options import default, explicitly_set, flag, given_flags, optional_settings

FOLDER = "out/<world>-<designer>-<preset>-<observation>[-<learner options>]-<seed>"

PlanOptions = optional_settings(TrainingPlan, "PlanOptions")
PracticeOptions = optional_settings(PracticeSettings, "PracticeOptions")
NetworkOptions = optional_settings(NetworkSettings, "NetworkOptions", flags={"encoder": "network"})
LlmOptions = optional_settings(LlmConfig, "LlmOptions", {"llm": "none"})


def _defaults_by_observation(settings: type[LearnerSettings]) -> dict[str, str]:
    """The defaults that depend on the observation, as text."""
    if not issubclass(settings, PpoSettings):
        return {}
    names = dict.fromkeys(name for defaults in settings.DEFAULTS_BY_OBSERVATION.values() for name in defaults)
    return {name: _default_by_observation(name, settings) for name in names}


def _default_by_observation(name: str, settings: type[PpoSettings]) -> str:
    """`512 for pixels, 64 for tiles, 64 for symbols, 128 for vectors`"""
    default = settings.model_fields[name].default
    others = {k: v.get(name, default) for k, v in settings.DEFAULTS_BY_OBSERVATION.items()}
    by_observation = {"pixels": default, **others}
    values = {observation: "automatic" if value is None else value for observation, value in by_observation.items()}
    return ", ".join(f"{value} for {observation}" for observation, value in values.items())


class NoSettings(Settings):
    """This designer has no settings."""


def train_command(args: Sequence[str], start: Callable[..., None] | None = None) -> Callable[..., None]:
    """The command `train`. Its options `--designer.*` and `--ppo.*` are those of the designer and learner in `args`.

    Args:
        start: Called with the world, the designer, the other arguments of `envgen.train` and the reference episodes in
            place of training.
    """
    designer_name = _value_of("--designer", args) or DEFAULT_DESIGNER
    designer_settings = settings_class(designer_name) or NoSettings
    DesignerOptions = optional_settings(designer_settings, "DesignerOptions")
    learner_name = _value_of("--learner", args) or DEFAULT_LEARNER
    learner_settings, group = _learner_settings(learner_name), learner_name.rpartition(":")[2].lower()
    defaults = _defaults_by_observation(learner_settings)
    LearnerOptions = optional_settings(learner_settings, "LearnerOptions", defaults)
    _refuse_options_of_others(args, designer_name, designer_settings, learner_name, group)

    def train(
        world: Annotated[str | None, Positional, default("crafter", "[WORLD]")] = None,
        designer: Annotated[str | None, default(DEFAULT_DESIGNER)] = None,
        preset: Annotated[str | None, default("paper")] = None,
        observation: Annotated[str | None, default("symbols, if the world has them")] = None,
        learner: Annotated[str | None, default(DEFAULT_LEARNER)] = None,
        learner_preset: Annotated[str | None, default(DEFAULT_LEARNER_PRESET)] = None,
        seed: Annotated[int | None, default("0")] = None,
        folder: Annotated[Path | None, default(FOLDER)] = None,
        resume: Annotated[Path | None, default("start a new run")] = None,
        extend: bool = False,
        initial_policy: Annotated[str | None, default("random weights")] = None,
        level_files: Annotated[tuple[Path, ...], default("none")] = (),
        plan: Annotated[PlanOptions, OmitArgPrefixes] = PlanOptions(),  # pyright: ignore # noqa: B008
        designer_options: Annotated[DesignerOptions, tyro.conf.arg(name="designer")] = DesignerOptions(),  # pyright: ignore # noqa: B008
        llm: Annotated[LlmOptions, OmitArgPrefixes] = LlmOptions(),  # pyright: ignore # noqa: B008
        network: Annotated[NetworkOptions, OmitArgPrefixes] = NetworkOptions(),  # pyright: ignore # noqa: B008
        hyperparameters: Annotated[LearnerOptions, tyro.conf.arg(name=group)] = LearnerOptions(),  # pyright: ignore # noqa: B008
        practice: PracticeOptions = PracticeOptions(),  # pyright: ignore # noqa: B008
        device: str = "cpu",
        compile: bool = False,
        log: Annotated[tuple[str, ...], default("none", "{tensorboard,wandb} ...")] = (),
        reference_episodes: int = 0,
        quiet: bool = False,
    ) -> None:
        """Train an agent in levels that a designer adapts to it, and in the original environment.

        Args:
            world: The world to train in; `envgen worlds` lists them. module:Class names your own.
            designer: Who designs the levels; `envgen designers` lists them. module:Class names your own.
            preset: The plan to start from: paper, quick or long (20 million steps).
            observation: What the agent observes; `envgen worlds` lists the observations of each world.
            learner: The algorithm that trains the agent: ppo or distillation. module:Class names your own.
            learner_preset: Settings to start from: fast (shown here), far (ten million steps or more), or published.
            seed: Random seed.
            folder: The run directory.
            resume: Continue the run in this directory with its own settings.
            extend: Continue a finished run whose plan now has more cycles or final steps.
            initial_policy: A policy whose weights the agent starts with: a run directory, a saved policy or the name
                of a released one. It must have the same network.
            level_files: JSON files with levels or chains of levels, for the designer `fixed`.
            plan: How long to train in levels and in the original, and how to evaluate. The defaults shown are those of
                the preset paper; other presets and some worlds change them.
            designer_options: Settings of the designer.
            llm: The language model, for designers that use one.
            network: The agent's network.
            hyperparameters: Hyperparameters of the learner. Some worlds change the defaults: Heist trains with
                gamma 0.999, MiniGrid with gamma 0.99, and both with lambda 0.95; walker trains
                with 32 environments, 256 steps, 32 minibatches and bootstrapping on truncation.
            practice: Restart some environments from saved states close to rare skills.
            device: Device of the network: cpu, cuda, cuda:1, ...
            compile: Compile the network with torch.compile.
            log: Log the run to tensorboard, wandb or both, in addition to the run directory.
            reference_episodes: Episodes to play in the world's reference package at the end.
            quiet: Print no progress, only the results.
        """
        if reference_episodes < 0:
            raise UserError(f"--reference-episodes must be 0 or greater, not {reference_episodes}")
        model, changes = explicitly_set(llm), explicitly_set(plan)
        if resume is not None:
            identity = {"folder": folder, "designer": designer, "preset": preset, "observation": observation,
                        "learner": learner, "learner_preset": learner_preset, "seed": seed, "extend": extend or None,
                        "initial_policy": initial_policy, "level_files": level_files or None}  # fmt: skip
            refuse_with_resume([
                *(["WORLD"] if world is not None else []),
                *(flag(name) for name, value in identity.items() if value is not None),
                *given_flags("", {name: value for name, value in (changes | model).items() if not _is_runtime(name)}),
                *given_flags("designer", explicitly_set(designer_options)),
                *given_flags("", {"network" if k == "encoder" else k: v for k, v in explicitly_set(network).items()}),
                *given_flags(group, explicitly_set(hyperparameters)),
                *given_flags("practice", explicitly_set(practice)),
            ])  # fmt: skip
            _resume(resume, model, device, compile, log, reference_episodes, quiet)
            return
        world, designer, preset = world or "crafter", designer or DEFAULT_DESIGNER, preset or "paper"
        seed, learner = require_seed(seed or 0), learner or DEFAULT_LEARNER
        chosen = make_world(world)
        observation = observation or chosen.default_observation
        if ":" not in designer:
            require_choice("designer", designer, designer_names())
        require_choice("preset", preset, tuple(PRESETS))
        learner_preset = learner_preset or DEFAULT_LEARNER_PRESET
        require_choice("learner-preset", learner_preset, tuple(LEARNER_PRESETS))
        require_choice("observation", observation, [name for name in chosen.observations if name != "text"])
        if model and "llm" not in model:
            raise UserError(f"{given_flags('', model)[0]} requires --llm")
        levels = [level for file in level_files for level in read_levels(file, chosen, chains=True)]
        require_extra("train")
        if reference_episodes:
            require_reference(chosen)
        folder = folder or default_folder(
            chosen, designer, preset, observation, seed, learner, learner_preset, explicitly_set(network),
            explicitly_set(practice),
        )  # fmt: skip
        arguments = {
            "preset": preset, "plan": changes, "observation": observation, "seed": seed, "folder": folder,
            "learner": learner, "learner_preset": learner_preset, "network": explicitly_set(network),
            "hyperparameters": explicitly_set(hyperparameters), "designer_options": explicitly_set(designer_options),
            "levels": levels, "llm": model, "extend": extend, "practice": explicitly_set(practice),
            "initial_policy": initial_policy, "device": device, "compile": compile, "log": log, "verbose": not quiet,
        }  # fmt: skip
        (start or _start)(chosen, designer, arguments, reference_episodes)

    return train


def _start(world: World, designer: str, arguments: dict[str, Any], reference_episodes: int) -> None:
    from envgen.api import train as api_train

    _run(
        lambda: api_train(world, designer, **arguments),
        arguments["folder"], arguments["llm"], reference_episodes,
        _given_flags(arguments["device"], arguments["compile"], arguments["log"], reference_episodes),
        can_resume=world.name in world_names() and ":" not in designer and ":" not in arguments["learner"],
    )  # fmt: skip


def _learner_settings(learner: str) -> type[LearnerSettings]:
    """The settings class of a learner; `LearnerSettings` if the learner cannot be imported."""
    if learner == DEFAULT_LEARNER:  # known without torch
        return PpoSettings
    try:
        from envgen.agents.learner import learner_class

        return learner_class(learner).settings_class()
    except (ImportError, AttributeError, HyperparameterError):
        return LearnerSettings


def _refuse_options_of_others(
    args: Sequence[str], designer: str, designer_settings: type[Settings], learner: str, learner_group: str
) -> None:
    """Raise UserError for an option of another designer or learner than the chosen ones."""
    for option in (arg.partition("=")[0] for arg in args if arg.startswith("--")):
        group, dot, name = option.removeprefix("--").partition(".")
        if not dot:
            continue
        field = name.replace("-", "_")
        if group == "designer" and field not in designer_settings.model_fields:
            owners = [
                other for other in designer_names() if field in (settings_class(other) or NoSettings).model_fields
            ]
            if owners:
                raise UserError(f"{option} requires --designer {' or '.join(owners)}, not {designer}")
        elif group not in ("designer", "practice", learner_group) and _learner_settings(group) is not LearnerSettings:
            raise UserError(f"{option} requires --learner {group}; the settings of {learner} are --{learner_group}.*")


def _value_of(option: str, args: Sequence[str]) -> str | None:
    """The value of an option among command-line arguments."""
    for k, arg in enumerate(args):
        if arg == option and k + 1 < len(args):
            return args[k + 1]
        if arg.startswith(f"{option}="):
            return arg.removeprefix(f"{option}=")
    return None


def _is_runtime(name: str) -> bool:
    """Whether an option may change when a run is resumed: connection settings and budget of a language model."""
    return name in LlmRuntime.model_fields


def _resume(
    folder: Path, runtime: dict[str, Any], device: str, compile: bool, log: tuple[str, ...], reference_episodes: int,
    quiet: bool,
) -> None:  # fmt: skip
    require_extra("train")
    from envgen.api import REPEAT, check_world_name, resume
    from envgen.runs.store import read_request

    request, _ = read_request(folder)
    if reference_episodes and isinstance(request.get("world"), str):
        check_world_name(request["world"], REPEAT)
        require_reference(make_world(request["world"]))
    _run(
        lambda: resume(folder, runtime_options=runtime, device=device, compile=compile, log=log, verbose=not quiet),
        folder, runtime, reference_episodes, _given_flags(device, compile, log, reference_episodes),
    )  # fmt: skip


def _given_flags(device: str, compile: bool, log: Sequence[str], reference_episodes: int) -> str:
    """The options that a run directory does not record, where they differ from the defaults."""
    flags = [] if device == "cpu" else ["--device", device]
    flags += ["--compile"] if compile else []
    flags += ["--log", *log] if log else []
    flags += ["--reference-episodes", str(reference_episodes)] if reference_episodes else []
    return shlex.join(flags)


def _run(
    call: Callable[[], Any], folder: Path, runtime: dict[str, Any], reference_episodes: int, given_flags: str,
    can_resume: bool = True,
) -> None:  # fmt: skip
    from envgen.console import terminal
    from envgen.designers.registry import resume_flags
    from envgen.processes import is_main_process
    from envgen.runs.store import write_json

    from .evaluate import compare_with_reference

    _, log = terminal(verbose=True)
    is_main = is_main_process()
    flags = f"{resume_flags(runtime)} {given_flags}".strip() if can_resume else None
    with resume_hint("train", folder, flags):
        run = call()
        if not is_main:
            return
        log(run.report())
        if reference_episodes:
            result = compare_with_reference(run.world, run.policy(), run.final, reference_episodes)
            write_json(folder / "reference.json", result.model_dump(mode="json"))
        log(f"Run directory: {folder}")
