"""`envgen report`: a page about runs, to look at in a browser."""

import sys
import time
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional

from envgen.text import printable
from envgen.worlds.registry import make_world

from .common import UserError, require_extra
from .options import default, required


def report(
    runs: Annotated[tuple[Path, ...], Positional, required("RUN [RUN ...]")],
    out: Annotated[Path | None, default("report.html in the directory given; for several, in the current one")] = None,
    clips: bool = True,
    world: Annotated[str | None, default("those of the runs")] = None,
) -> None:
    """Write one HTML file about runs, finished or not: curves, skills, levels, conversations and what the policy does.

    The file is self-contained: it can be opened, mailed or published as it is.

    Args:
        runs: Run directories, or folders that contain some.
        out: The HTML file to write.
        clips: Show episodes of the best run of each world as clips, or of another run if it has no checkpoint.
        world: A world of your own that is not installed, as module:Class, to draw its levels and play episodes.
    """
    require_extra("train")
    from envgen.report.page import write_report

    if not runs:
        raise UserError("report needs at least one run directory")
    out = out or ((runs[0] if len(runs) == 1 and runs[0].is_dir() else Path()) / "report.html")
    if out.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"a report is written as an .html file, not {out.name!r}")
    start = time.monotonic()
    worlds = [] if world is None else [make_world(world)]
    write_report(runs, out, clips, lambda text: print(f"envgen: {printable(text)}", file=sys.stderr), worlds)
    print(f"{out} ({out.stat().st_size / 1e6:.1f} MB, {time.monotonic() - start:.1f} s)")
