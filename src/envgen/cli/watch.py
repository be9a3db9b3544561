"""`envgen watch`: see what a trained policy does."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from .common import (
    load_policy_and_world,
    read_level,
    require_choice,
    require_extra,
    require_positive,
    require_run,
    require_seed,
)
from .options import default, required


def watch(
    run: Annotated[Path, Positional, required("RUN")],
    episodes: Annotated[int | None, default("one with --best or --skill, else until you quit")] = None,
    best: bool = False,
    skill: Annotated[str | None, default("any")] = None,
    world: Annotated[str | None, default("the one of the run")] = None,
    learner: Annotated[str | None, default("the one of the run")] = None,
    level: Annotated[Path | None, default("the original")] = None,
    seed: Annotated[int | None, default("one that training never uses")] = None,
    deterministic: bool = False,
    speed: Annotated[float | None, default("the world's")] = None,
    terminal: bool = False,
    device: str = "cpu",
) -> None:
    """Watch the policy of a run play, in a window or in the terminal.

    Space pauses, `.` takes one step while paused, + and - change the speed, n begins the next episode, q quits. If
    the output is piped and no window can open, it prints when skills succeed and how episodes end.

    Args:
        run: The run directory, or a trained policy: a folder saved by `policy.save`, a release file, the name of one
            in the cache, or hf:owner/name.
        episodes: Number of episodes to show.
        best: Play 64 episodes first, or as many as are shown if that is more (at most 512), and show those with the
            highest return.
        skill: Play up to 512 episodes first, and show those that achieve this skill, the quickest first unless --best
            is given.
        world: A world, or module:Class. Needed for runs in a world of your own that is not installed.
        learner: The learner of the run, if it is one of your own: module:Class.
        level: A JSON file with a level.
        seed: Seed of the first episode; the next ones count up from it.
        deterministic: Take the most likely action instead of sampling.
        speed: Steps per second.
        terminal: Use the terminal, even where a window could open.
        device: Device of the network: cpu, cuda, cuda:1, ...
    """
    require_extra("train")
    if episodes is not None:
        require_positive(episodes=episodes)
    if speed is not None:
        require_positive(speed=speed)
    if seed is not None:
        require_seed(seed)
    require_run(run)
    from envgen.episodes_api import watch as watch_policy

    policy, chosen = load_policy_and_world(run, device, world, learner)
    if skill is not None:
        require_choice("skill", skill, [known.name for known in chosen.skills])
    watch_policy(
        policy, episodes, best=best, skill=skill, speed=speed, terminal=terminal, world=chosen,
        level=read_level(level, chosen), seed=seed, deterministic=deterministic,
    )  # fmt: skip
