"""`envgen train`: the loop in one command, and again where it was interrupted."""

import os
from pathlib import Path
from typing import Annotated, Any

import tyro
from pydantic import ValidationError
from tyro.conf import Positional

from envgen.curriculum.plan import PRESETS, PlanError, TrainingPlan, plan_for
from envgen.designers.chat.protocol import ChatError
from envgen.designers.designer import Designer, DesignError
from envgen.designers.registry import (
    LlmConfig,
    LlmRuntime,
    build_designer,
    designer_names,
    rebuild_designer,
    resume_flags,
    resume_runtime,
)
from envgen.worlds.world import LevelError, World

from .common import (
    UserError,
    check_resume,
    flags_of,
    given,
    near,
    needs_training,
    one_of,
    pairs,
    read_level,
    resumable,
    world_named,
)
from .judge import agent_of, compare_published

PlanFlags = flags_of(TrainingPlan, "PlanFlags")
ModelFlags = flags_of(LlmConfig, "ModelFlags")


def train(
    world: Annotated[str, Positional] = "crafter",
    preset: str = "paper",
    designer: str = "expert",
    observation: str = "symbols",
    seed: int = 0,
    folder: Path | None = None,
    resume: Path | None = None,
    plan: Annotated[PlanFlags, tyro.conf.OmitArgPrefixes] = PlanFlags(),  # pyright: ignore # noqa: B008
    options: tuple[str, ...] = (),
    level_files: tuple[Path, ...] = (),
    model: Annotated[ModelFlags, tyro.conf.OmitArgPrefixes] = ModelFlags(),  # pyright: ignore # noqa: B008
    ppo: tuple[str, ...] = (),
    device: str = "cpu",
    compile: bool = False,
    published: int = 0,
) -> None:
    """Train an agent in levels that a designer makes for it, cycle by cycle, and in the original.

    Args:
        world: The world to learn.
        preset: The plan to begin from: quick or paper. Each number of it is an option below.
        designer: Who designs the levels: none, expert, random, alpha, llm, fixed, easy-to-hard or adversarial.
        observation: What the agent sees.
        seed: Of everything random.
        folder: The run directory; out/<world>-<designer>-<preset>-<observation>-<seed> if left out.
        resume: A run directory to go on with, as it was begun. So does the same command as before.
        options: Settings of the designers expert, random and alpha, as name=value: beta=4, keep_prob=0.7, ...
        level_files: JSON files of levels, for the designer fixed.
        ppo: Settings of the learner, as name=value: learning_rate=1e-4, num_envs=32, ...
        device: Where the network lives: cpu, cuda, cuda:1, ...
        compile: Compile the network with torch.compile.
        published: Episodes to play in the world's original package at the end; a few hundred steps a second.
    """
    flags, changes = given(model), given(plan)
    if resume is not None:
        asked = {"world": world != "crafter", "preset": preset != "paper", "designer": designer != "expert",
                 "observation": observation != "symbols", "seed": seed != 0, "folder": folder is not None,
                 "options": options, "level_files": level_files, "ppo": ppo}  # fmt: skip
        fixed = [name for name in (*changes, *flags) if name not in LlmRuntime.model_fields]
        check_resume("world", asked | dict.fromkeys(fixed, True))
        _resume(resume, flags, device, compile, published)
        return
    chosen = world_named(world)
    one_of("designer", designer, designer_names())
    one_of("preset", preset, tuple(PRESETS))
    one_of("observation", observation, tuple(view for view in chosen.observations if view != "text"))
    if flags and "llm" not in flags:
        raise UserError(f"--{next(iter(flags)).replace('_', '-')} goes with --llm")
    try:
        plans = plan_for(preset, chosen, **changes)
    except PlanError as error:
        raise UserError(str(error)) from None
    folder = folder or Path("out") / f"{world}-{designer}-{preset}-{observation}-{seed}"
    levels = [read_level(file, chosen).model_dump(mode="json", exclude_defaults=True) for file in level_files]
    made = _designer(designer, folder, flags, pairs("options", options), levels)
    _run(folder, chosen, made, plans, observation, seed, "ppo", pairs("ppo", ppo), device, compile, published)


def _resume(folder: Path, flags: dict[str, Any], device: str, compile: bool, published: int) -> None:
    from envgen.runs.store import RunError, read_request

    try:
        request, means = read_request(folder)
    except RunError as error:
        raise UserError(f"{error}{near(folder)}") from None
    try:
        plan = TrainingPlan(**request["plan"])
        name, observation, seed = (request[part] for part in ("world", "observation", "seed"))
        learner_settings = dict(request["learner"])
        learner = learner_settings.pop("name")
        told = request["designer"]
        designer = rebuild_designer(told, folder, resume_runtime(told, means, flags))
    except (DesignError, ChatError, ValidationError) as error:
        raise UserError(str(error)) from None
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{folder} is not a run of envgen train") from None
    _run(
        folder,
        world_named(name),
        designer,
        plan,
        observation,
        seed,
        learner,
        learner_settings,
        device,
        compile,
        published,
    )


def _designer(name: str, folder: Path, flags: dict[str, Any], options: dict[str, Any], levels: list[Any]) -> Designer:
    try:
        return build_designer(name, folder, flags, options, levels)
    except (DesignError, ChatError) as error:
        raise UserError(str(error)) from None


def _run(
    folder: Path, world: World, designer: Designer, plan: TrainingPlan, observation: str, seed: int,
    learner: str, learner_settings: dict[str, Any], device: str, compile: bool, published: int,
) -> None:  # fmt: skip
    needs_training()
    import torch
    from rich.console import Console

    from envgen.agents.errors import NonFiniteLossError
    from envgen.curriculum import loop
    from envgen.curriculum.display import TrainDisplay, describe_summary
    from envgen.runs.checkpoint import CheckpointError
    from envgen.runs.store import RunError, write_json

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"--device {device} is not to be had here: {str(error).splitlines()[0]}") from None
    lead = os.environ.get("RANK", "0") == "0"
    console = Console(quiet=not lead, soft_wrap=True)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False)

    errors = (RunError, CheckpointError, NonFiniteLossError, DesignError, LevelError, ChatError, ValueError)
    again = resume_flags(designer.runtime_options())
    with resumable("train", folder, lead, errors, again):
        with TrainDisplay([skill.name for skill in world.skills], plan.total_steps, console) as display:
            summary = loop.train(
                folder,
                world,
                designer,
                plan,
                observation,
                seed,
                learner,
                learner_settings,
                device,
                compile,
                display,
                say,
            )
        if not lead:
            return
        say(describe_summary(summary, world))
        if published:
            agent, _, _ = agent_of(folder, device)
            theirs = compare_published(agent, world, summary.final, observation, published)
            write_json(folder / "published.json", theirs.model_dump(mode="json"))
        say(f"Everything about this run: {folder}")
