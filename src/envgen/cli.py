"""The command line: `envgen demo`, `envgen train`, `envgen census`, `envgen preview`."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from tyro.conf import Positional

from envgen.worlds.world import LevelError

EIGHT = {
    "original, seed 0": {},
    "original, seed 1": {},
    "biome: grassland": {"biome": "grassland"},
    "biome: mountain": {"biome": "mountain"},
    "biome: beach": {"biome": "beach"},
    "iron and diamonds very common": {"iron": "very common", "diamonds": "very common"},
    "lava and tunnels very common": {"lava": "very common", "tunnels": "very common"},
    "table, water, ripe plant, cows, cave near": {
        "near": {"table": True, "water": True, "plant": "ripe", "cows": 3, "cave": True}
    },
}


class UserError(Exception):
    """A mistake in what the user typed; shown as one sentence."""


def demo(out: Path = Path("out")) -> None:
    """Build the engine, show its speed, and write a picture of eight generated worlds.

    Args:
        out: The folder to write to.
    """
    from envgen.worlds.crafter.gallery import gallery

    file = _writable(out / "crafter_worlds.png")
    print("One environment step of Crafter, random actions, resets included:")
    for observation in ("symbols", "pixels"):
        print(f"  {observation:8} {_speed(observation):>9,.0f} steps/s on one core")
    gallery(EIGHT).save(file)
    print(f"Eight worlds of eight levels: {file}")


def _speed(observation: str, envs: int = 256, seconds: float = 3.0) -> float:
    from envgen.worlds.crafter.vector import CrafterVectorEnv

    world = CrafterVectorEnv(envs, None, observation, threads=1)
    world.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 17, (64, envs))
    for step in range(200):  # until the environments are spread over their episodes
        world.step(actions[step % 64])
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        world.step(actions[steps % 64])
        steps += 1
    return steps * envs / (time.perf_counter() - start)


def train(
    world: Annotated[Literal["crafter"], Positional] = "crafter",
    steps: int = 1_000_000,
    observation: Literal["symbols", "pixels"] = "symbols",
    levels: tuple[Path, ...] = (),
    seed: int = 0,
    folder: Path | None = None,
    ppo: tuple[str, ...] = (),
    device: str = "cpu",
    compile: bool = False,
    episodes: int = 256,
    published: int = 0,
) -> None:
    """Train the small agent, then evaluate it in the original world. The same command again resumes.

    Args:
        world: The world to learn.
        steps: Environment steps to learn from.
        observation: What the agent sees.
        levels: JSON files of levels to train in, side by side; the original if left out.
        seed: Of everything random.
        folder: The run directory; out/<world>-<observation>-<seed> if left out.
        ppo: Settings of the learner, as name=value: learning_rate=1e-4, num_envs=32, ...
        device: Where the network lives: cpu, cuda, cuda:1, ...
        compile: Compile the network with torch.compile.
        episodes: Episodes of the final evaluation.
        published: Episodes to play in the `crafter` package itself as well; a few hundred steps a second.
    """
    try:
        import torch
        from rich.console import Console

        from envgen.curriculum import plain
        from envgen.curriculum.live import Display
    except ImportError as error:
        raise UserError(f"training needs {error.name}: pip install 'envgen[train]'") from None
    from envgen.agents.errors import BadLoss
    from envgen.runs.checkpoint import CheckpointError
    from envgen.runs.store import RunError

    _check_counts(steps=steps, episodes=episodes)
    lead = os.environ.get("RANK", "0") == "0"
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"--device {device} is not to be had here: {str(error).splitlines()[0]}") from None
    chosen = _world(world)
    folder = folder or Path("out") / f"{world}-{observation}-{seed}"
    try:
        console = Console(quiet=not lead)
        with Display([skill.name for skill in chosen.skills], steps, console) as display:
            agent, found = plain.train(
                folder, chosen, [_read(file) for file in levels], steps, observation, seed, _pairs(ppo), episodes,
                device, compile, display,
            )  # fmt: skip
        if not lead:
            return
        print(found)
        print(f"Everything about this run: {folder}")
        if published:
            _compare(agent, chosen, found, observation, published, folder)
    except (RunError, CheckpointError, BadLoss, ValueError) as error:
        raise UserError(str(error)) from error
    except KeyboardInterrupt:
        print(
            f"\nInterrupted. The same command goes on from the last checkpoint, if any, in {folder}.", file=sys.stderr
        )
        raise


def _world(name: str) -> Any:
    from envgen.worlds.crafter.world import Crafter

    return {"crafter": Crafter}[name]()


def _compare(agent: Any, world: Any, found: Any, observation: str, episodes: int, folder: Path) -> None:
    """The same evaluation in the original package, beside ours."""
    from envgen.curriculum.evaluate import evaluate
    from envgen.runs.store import write_json

    envs = world.published(num_envs=min(episodes, 64), seed=found.seed, observation=observation, episodes=episodes)
    theirs = evaluate(agent, world, None, episodes, found.seed, observation, envs=envs)
    write_json(folder / "published.json", theirs.model_dump(mode="json"))
    for what in ("reward", "score"):
        mine, its = getattr(found, what), getattr(theirs, what)
        verdict = "agrees" if mine.agrees(its) else "DIFFERS"
        print(f"{what} in the package {its}, here {mine}: {verdict}")


def _pairs(settings: tuple[str, ...]) -> dict[str, Any]:
    """`name=value`, the values as JSON."""
    pairs = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        try:
            pairs[name] = json.loads(value)
        except ValueError:
            raise UserError(f"--ppo takes name=value with a number, true, false or null, not {setting!r}") from None
        if not equals:
            raise UserError(f"--ppo takes name=value, not {setting!r}")
    return pairs


def census(level: Annotated[Path | None, Positional] = None, worlds: int = 32) -> None:
    """Count what worlds of a level hold.

    Args:
        level: A JSON file with a CrafterLevel; the original Crafter if left out.
        worlds: How many worlds to make.
    """
    from envgen.worlds.crafter.census import take_census

    _check_counts(worlds=worlds)
    print(take_census(_read(level), range(worlds)))


def preview(level: Annotated[Path | None, Positional] = None, out: Path = Path("preview.png"), worlds: int = 4) -> None:
    """Draw worlds of a level from above, and count what they hold.

    Args:
        level: A JSON file with a CrafterLevel; the original Crafter if left out.
        out: The picture to write.
        worlds: How many worlds to draw.
    """
    from envgen.worlds.crafter.gallery import gallery

    _check_counts(worlds=worlds)
    setting, out = _read(level), _writable(out)
    gallery({f"seed {k}": setting for k in range(worlds)}, columns=min(4, worlds)).save(out)
    print(f"{worlds} worlds: {out}")
    census(level)


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise UserError(f"--{name} must be at least 1, not {count}")


def _writable(picture: Path) -> Path:
    """Where to write a picture, with its folder made."""
    if picture.suffix.lower() != ".png":
        raise UserError(f"a picture is written as .png, not {picture.name!r}")
    try:
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.touch()
    except OSError as error:
        raise UserError(f"cannot write {picture}: {error.strerror}") from None
    return picture


def _read(file: Path | None):
    from envgen.worlds.crafter.level import CrafterLevel

    if file is None:
        return CrafterLevel()
    try:
        return CrafterLevel.parse(file.read_text())
    except OSError as error:
        raise UserError(f"cannot read the level {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"cannot read the level {file}: it is not a text file") from None
    except LevelError as error:
        raise UserError(f"{file}: {error}") from None


COMMANDS = {"demo": demo, "train": train, "census": census, "preview": preview}


def main() -> None:
    try:
        tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="envgen")
    except UserError as error:
        print(f"envgen: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
