"""`envgen studio`: a local page over a folder of runs."""

from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

from envgen.runs.files import suggest_path
from envgen.worlds.registry import make_world

from .common import UserError, require_extra
from .options import default

PORT = 8642


def studio(
    folder: Annotated[Path, Positional, default("out", "[DIR]")] = Path("out"),
    port: int = PORT,
    worlds: Annotated[
        tuple[str, ...], tyro.conf.arg(name="world", metavar="MODULE:CLASS ...", help_behavior_hint="(default: none)")
    ] = (),
) -> None:
    """Open a folder of runs as a local page: watch and compare runs, edit and play levels, design levels by hand.

    The page is served on this machine only, at an address with a random token. Press Ctrl-C to stop it.

    Args:
        folder: The folder with the runs, where level files are saved too.
        port: The port of the page; 0 for any free one.
        worlds: Worlds of your own that are not installed.
    """
    require_extra("studio")
    if not folder.is_dir():
        raise UserError(f"{folder} is not a directory; pass the folder that has your runs{suggest_path(folder)}")
    if not 0 <= port <= 65535:
        raise UserError(f"--port must be from 0 to 65535, not {port}")
    from envgen.studio.app import Studio

    app = Studio(folder, [make_world(name) for name in worlds])
    try:
        server = app.server(port)
    except PermissionError:
        raise UserError(f"port {port} may not be used by this user; choose another with --port") from None
    except OSError as error:
        raise UserError(
            f"cannot use port {port} ({error.strerror}); choose another with --port, or any free one with --port 0"
        ) from None
    print(f"envgen studio of {folder}: {server.url}\nPress Ctrl-C to stop.", flush=True)
    try:
        server.serve()
    except KeyboardInterrupt:
        print("\nenvgen studio stopped.")
    finally:
        app.games.close()
