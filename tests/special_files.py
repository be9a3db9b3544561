"""Files that a program must not read: too large for the memory, or not regular."""

import os
from pathlib import Path

KINDS = ("large", "fifo", "device")


def make_special_file(file: Path, kind: str) -> None:
    """Make a file of one of KINDS, or a link to nothing."""
    if kind == "large":
        with open(file, "wb") as out:
            out.truncate(1 << 40)  # a sparse file, which would fill the memory
    elif kind == "fifo":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero" if kind == "device" else "nowhere")
