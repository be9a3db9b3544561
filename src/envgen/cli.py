"""The command line: `envgen demo`, `envgen census`, `envgen preview`."""

import sys
import time
from pathlib import Path
from typing import Annotated

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


def census(level: Annotated[Path | None, Positional] = None, worlds: int = 32) -> None:
    """Count what worlds of a level hold.

    Args:
        level: A JSON file with a CrafterLevel; the original Crafter if left out.
        worlds: How many worlds to make.
    """
    from envgen.worlds.crafter.census import take_census

    if worlds < 1:
        raise UserError(f"--worlds must be at least 1, not {worlds}")
    print(take_census(_read(level), range(worlds)))


def preview(level: Annotated[Path | None, Positional] = None, out: Path = Path("preview.png"), worlds: int = 4) -> None:
    """Draw worlds of a level from above, and count what they hold.

    Args:
        level: A JSON file with a CrafterLevel; the original Crafter if left out.
        out: The picture to write.
        worlds: How many worlds to draw.
    """
    from envgen.worlds.crafter.gallery import gallery

    if worlds < 1:
        raise UserError(f"--worlds must be at least 1, not {worlds}")
    setting, out = _read(level), _writable(out)
    gallery({f"seed {k}": setting for k in range(worlds)}, columns=min(4, worlds)).save(out)
    print(f"{worlds} worlds: {out}")
    census(level)


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


def main() -> None:
    try:
        tyro.extras.subcommand_cli_from_dict({"demo": demo, "census": census, "preview": preview}, prog="envgen")
    except UserError as error:
        print(f"envgen: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
