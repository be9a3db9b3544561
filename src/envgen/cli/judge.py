"""`envgen evaluate`, `envgen compare`: what finished runs are worth."""

from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional

from envgen.curriculum.plan import EVALUATION_SEED

from .common import UserError, check_counts, near, needs_training, read_level, world_named


def evaluate(
    run: Annotated[Path, Positional],
    episodes: int = 256,
    level: Path | None = None,
    seed: int = EVALUATION_SEED,
    greedy: bool = False,
    published: int = 0,
    device: str = "cpu",
) -> None:
    """Play the agent of a run, as it is now, without learning.

    Args:
        run: The run directory.
        episodes: How many episodes.
        level: A JSON file with a level; the original if left out.
        seed: Of the worlds and of chance.
        greedy: Take the likeliest action each time instead of drawing.
        published: Episodes to play in the world's original package as well, if it has one.
        device: Where the network lives.
    """
    needs_training()
    from envgen.curriculum.evaluate import evaluate as play

    check_counts(episodes=episodes)
    agent, world, observation = agent_of(run, device)
    found = play(agent, world, read_level(level, world), episodes, seed, observation, greedy)
    print(found)
    if world.random_baseline:
        print(world.random_baseline)
    if published:
        compare_published(agent, world, found, observation, published)


def agent_of(folder: Path, device: str = "cpu") -> tuple[Any, Any, str]:
    """The agent of the last checkpoint of a run, its world and what it sees."""
    from envgen.curriculum.trainer import make_learner
    from envgen.runs.checkpoint import CheckpointError, load_latest
    from envgen.runs.store import RunError, read_request

    try:
        request, _ = read_request(folder)
        last = load_latest(folder / "checkpoints")
    except (RunError, CheckpointError) as error:
        raise UserError(f"{error}{near(folder)}") from None
    if last is None:
        raise UserError(f"{folder} has no checkpoint yet")
    world = world_named(request["world"])
    settings = dict(request["learner"])
    agent = make_learner(world, request["observation"], settings.pop("name"), settings, device=device)
    agent.load(last.arrays["agent"], last.values["agent"])
    return agent, world, request["observation"]


def compare_published(agent: Any, world: Any, found: Any, observation: str, episodes: int) -> Any:
    """The same evaluation in the original package, beside ours."""
    from envgen.curriculum.evaluate import evaluate as play

    if not hasattr(world, "published"):
        raise UserError(f"there is no package of the original {world.name} to play in")
    envs = world.published(num_envs=min(episodes, 64), seed=found.seed, observation=observation, episodes=episodes)
    theirs = play(agent, world, None, episodes, found.seed, observation, envs=envs)
    for what in ("reward", "score"):
        mine, its = getattr(found, what), getattr(theirs, what)
        print(f"{what} in the package {its}, here {mine}: {'agrees' if mine.agrees(its) else 'DIFFERS'}")
    return theirs


def compare(runs: Annotated[tuple[Path, ...], Positional], markdown: bool = False) -> None:
    """One table of finished runs: what was learned, and what it took. Runs that differ in their seed count as one.

    Args:
        runs: Run directories, or folders that hold some.
        markdown: Print Markdown.
    """
    needs_training()
    import shutil

    from envgen.runs.compare import compare as compared
    from envgen.runs.store import RunError

    if not runs:
        raise UserError("compare what? Give one or more run directories")
    try:
        found = compared(runs)
        print(found.markdown() if markdown else found.text(shutil.get_terminal_size().columns))
    except RunError as error:
        raise UserError(str(error)) from None
