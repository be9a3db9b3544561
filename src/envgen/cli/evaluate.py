"""`envgen evaluate`, `compare` and `migrate`: commands for finished runs."""

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional

from envgen.llm_agent.settings import LlmAgentConfig
from envgen.runs.files import check_inside
from envgen.runs.store import PROGRESS, read_last_line
from envgen.text import printable
from envgen.worlds.registry import make_world, world_names
from envgen.worlds.world import World

from .common import (
    UserError,
    load_policy_and_world,
    output_folder,
    read_level,
    require_choice,
    require_extra,
    require_positive,
    require_reference,
    require_run,
    require_seed,
    resume_hint,
)
from .options import default, explicitly_set, flag, optional_settings, required

if TYPE_CHECKING:
    from envgen.agents.policy import Policy
    from envgen.curriculum.evaluate import Evaluation

POLICIES = ("run", "llm")
LlmAgentOptions = optional_settings(
    LlmAgentConfig, "LlmAgentOptions", {"llm": "none", "parallel": "4, or 1 with manual"}
)


def evaluate(
    run: Annotated[Path, Positional, required("RUN or WORLD")],
    policy: str = "run",
    episodes: Annotated[int | None, default("256; 1 with --policy llm")] = None,
    world: Annotated[str | None, default("the one of the run")] = None,
    learner: Annotated[str | None, default("the one of the run")] = None,
    level: Annotated[Path | None, default("the original")] = None,
    seed: Annotated[int | None, default("one that training never uses")] = None,
    deterministic: bool = False,
    reference_episodes: int = 0,
    video: int = 0,
    best: bool = False,
    skill: Annotated[str | None, default("any")] = None,
    video_folder: Annotated[Path | None, default("videos in the run directory")] = None,
    video_format: Annotated[
        str | None, default("mp4 if imageio-ffmpeg is installed, else webp", "{mp4,webp,gif}")
    ] = None,
    device: str = "cpu",
    folder: Annotated[Path | None, default("out/<world>-llm-agent-<llm>")] = None,
    llm: Annotated[LlmAgentOptions, OmitArgPrefixes] = LlmAgentOptions(),  # pyright: ignore # noqa: B008
) -> None:
    """Play episodes with the policy of a run, or with a language model, without learning.

    Videos show the world, and beside it the last action, amounts such as health and inventory, and the skills.

    Args:
        run: The run directory, or a trained policy: a folder saved by `policy.save`, a release file, the name of one
            in the cache, or hf:owner/name. With --policy llm, the world to play in.
        policy: What plays: run (the policy of the run) or llm (a language model).
        episodes: Number of episodes.
        world: A world, or module:Class. Needed for runs in a world of your own that is not installed.
        learner: The learner of the run, if it is one of your own: module:Class.
        level: A JSON file with a level.
        seed: Seed of environments and actions.
        deterministic: Take the most likely action instead of sampling.
        reference_episodes: Episodes to play in the world's reference package as well.
        video: Number of episodes to write videos of: the first ones, unless --best or --skill choose others.
        best: Write videos of the episodes with the highest return.
        skill: Write videos of episodes that achieve this skill, the quickest first unless --best is given.
        video_folder: The folder to write videos to.
        video_format: The format of the videos.
        device: Device of the network: cpu, cuda, cuda:1, ...
        folder: The directory of an evaluation with --policy llm. An interrupted one is resumed there.
        llm: The language model, with --policy llm.
    """
    require_choice("policy", policy, POLICIES)
    require_extra("train")
    model = explicitly_set(llm)
    default_episodes = 1 if policy == "llm" else 256
    episodes = default_episodes if episodes is None else episodes
    require_positive(episodes=episodes)
    if seed is not None:
        require_seed(seed)
    if reference_episodes < 0:
        raise UserError(f"--reference-episodes must be 0 or greater, not {reference_episodes}")
    if reference_episodes and level is not None:
        raise UserError("--reference-episodes cannot be combined with --level: the reference package has no levels")
    _check_video_options(episodes, video, best, skill, video_folder, video_format)
    if policy == "llm":
        unused = {"deterministic": deterministic, "reference_episodes": reference_episodes, "device": device != "cpu",
                  "world": world is not None, "learner": learner is not None, "video": video}  # fmt: skip
        for name in [name for name, is_given in unused.items() if is_given]:
            raise UserError(f"{flag(name)} cannot be combined with --policy llm")
        play_with_llm(make_world(str(run)), episodes, level, seed, folder, model)
        return
    if model or folder:
        raise UserError(f"{flag(next(iter(model), 'folder'))} requires --policy llm")
    if not run.exists():
        if str(run) in world_names():
            raise UserError(
                f"{run} is a world, not a run: pass a run directory, or add --policy llm to let a language model play"
            )
        require_run(run)
    from envgen import api
    from envgen.episodes_api import record_episodes
    from envgen.report.videos import choose_format, prepare_folder

    trained_policy, chosen = load_policy_and_world(run, device, world, learner)
    if reference_episodes:
        require_reference(chosen)
    if skill is not None:
        require_choice("skill", skill, [known.name for known in chosen.skills])
    video_folder = video_folder or _default_video_folder(run)
    arguments = {"world": chosen, "level": read_level(level, chosen), "seed": seed, "deterministic": deterministic}
    recording = None
    if video:
        choose_format(video_format)  # errors come before the episodes are played
        prepare_folder(video_folder)
        recording = record_episodes(trained_policy, episodes, **arguments)
    result = recording.evaluation if recording else api.evaluate(trained_policy, episodes, **arguments)
    print(result, flush=True)
    if (run / "run.json").exists() and not (run / "summary.json").exists():
        steps = read_last_line(run / PROGRESS).get("steps")
        progress = f": this is its policy after {steps:,} training steps" if type(steps) is int else ""
        print(f"The run is not finished{progress}")
    if chosen.random_baseline:
        print(chosen.random_baseline)
    if reference_episodes:
        compare_with_reference(chosen, trained_policy, result, reference_episodes)
    if recording:
        recording.write_videos(
            video_folder, video, best=best, skill=skill, video_format=video_format,
            on_message=lambda text: print(printable(text), flush=True),
        )  # fmt: skip


def _default_video_folder(run: Path) -> Path:
    folder = output_folder(run) / "videos"
    try:
        check_inside(folder.parent, folder / "file")
    except OSError as error:
        raise UserError(f"cannot write videos to {folder}: {error.strerror}; pass --video-folder") from None
    return folder


def _check_video_options(
    episodes: int, video: int, best: bool, skill: str | None, folder: Path | None, video_format: str | None
) -> None:
    if not 0 <= video <= episodes:
        raise UserError(f"--video must be from 0 to the number of episodes, {episodes:,}, not {video}")
    given = {"--best": best, "--skill": skill, "--video-folder": folder, "--video-format": video_format}
    for name, value in given.items():
        if value and not video:
            raise UserError(f"{name} requires --video, the number of videos to write")


def play_with_llm(
    world: World, episodes: int, level_file: Path | None, seed: int | None, folder: Path | None, model: dict[str, Any]
) -> None:
    """Play with a language model, and print the result with its cost."""
    if "llm" not in model:
        raise UserError("--policy llm requires --llm openai:MODEL, anthropic:MODEL, manual or replay:FOLDER")
    from envgen.llm_agent_api import default_llm_agent_folder, evaluate_llm_agent

    level = read_level(level_file, world)
    folder = folder or default_llm_agent_folder(world, model["llm"])
    with resume_hint("evaluate", folder):
        result = evaluate_llm_agent(world, model, episodes, level=level, seed=seed, folder=folder)
    print(result)
    if world.random_baseline:
        print(world.random_baseline)
    print(f"Written: {folder / 'evaluation.json'}")


def compare_with_reference(world: World, policy: "Policy", result: "Evaluation", episodes: int) -> "Evaluation":
    """Play in the world's reference package as in `result`, and print both results side by side."""
    from envgen.curriculum.evaluate import evaluate as evaluate_policy

    observation = policy.metadata.get("observation", "symbols")
    envs = require_reference(world).reference_envs(min(episodes, 64), result.seed, observation, episodes)
    with closing(envs):
        reference = evaluate_policy(
            policy, world, None, episodes, result.seed, observation, result.deterministic, envs=envs
        )
    for name in ("reward", "score"):
        ours, theirs = getattr(result, name), getattr(reference, name)
        verdict = "agrees" if ours.agrees_with(theirs) else "DIFFERS"
        print(f"{name} in the reference package {theirs}, here {ours}: {verdict}")
    return reference


def compare(runs: Annotated[tuple[Path, ...], Positional, required("RUN [RUN ...]")], markdown: bool = False) -> None:
    """Print a table of finished runs. Runs that differ only in their seed form one group.

    Args:
        runs: Run directories, or folders that contain some.
        markdown: Print Markdown.
    """
    require_extra("train")
    import shutil

    from envgen import api

    if not runs:
        raise UserError("compare needs at least one run directory")
    comparison = api.compare(*runs)
    print(comparison.markdown() if markdown else comparison.text(shutil.get_terminal_size().columns))


def migrate(runs: Annotated[tuple[Path, ...], Positional, required("RUN [RUN ...]")]) -> None:
    """Convert run directories of version 0.1 to the current format, in place.

    Args:
        runs: Run directories.
    """
    require_extra("train")
    from envgen.runs.migrate import migrate_run

    if not runs:
        raise UserError("migrate needs at least one run directory")
    for run in runs:
        changed = migrate_run(run)
        print(f"{run}: {'converted' if changed else 'already in the current format'}")
