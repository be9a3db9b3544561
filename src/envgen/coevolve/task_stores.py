"""A pool on the disk: one JSON line for each different thing, only ever appended to.

A checkpoint remembers how long it was, so that a run that resumes finds it as it was then.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from envgen.runs.files import check_regular, exists, open_regular

Line = dict[str, Any]


class PoolError(Exception):
    """A pool on the disk is not what a checkpoint remembers."""


class Pool:
    def __init__(self, file: Path, keep: Callable[[Line], Any] = lambda line: line, lead: bool = True):
        """`keep` says what of a line is held in memory, to be drawn. Of several processes one writes."""
        self.file, self.keep, self.lead = file, keep, lead
        self.held: list[Any] = []
        self.keys: set[str] = set()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.held)

    def add(self, lines: Iterable[Line], key: Callable[[Line], str]) -> int:
        """Append those that are not there yet; how many they were."""
        fresh = []
        for line in lines:
            mark = hashlib.sha256(key(line).encode()).hexdigest()[:16]
            if mark not in self.keys:
                self.keys.add(mark)
                fresh.append({"key": mark, **line})
        if fresh:
            data = "".join(json.dumps(line) + "\n" for line in fresh).encode()
            if self.lead:
                with open_regular(self.file, "ab") as out:
                    out.write(data)
            self.bytes += len(data)
            self.held += map(self.keep, fresh)
        return len(fresh)

    def draw(self, count: int, random: np.random.Generator) -> list[Any]:
        """Evenly from all that is there, with repetition; nothing from an empty pool."""
        if not self.held:
            return []
        return [self.held[k] for k in random.integers(len(self.held), size=count)]

    def flush(self) -> int:
        """Have everything on the disk; how long it is."""
        if exists(self.file):
            with open_regular(self.file, "rb") as out:
                os.fsync(out.fileno())
        return self.bytes

    def restore(self, length: int) -> None:
        """Be as it was when it was this long."""
        self.held, self.keys, self.bytes = [], set(), length
        try:
            size = check_regular(self.file).st_size if exists(self.file) else 0
            if size < length:
                raise PoolError(f"{self.file} is shorter than its checkpoint remembers it")
            if not exists(self.file):
                return
            with open_regular(self.file, "rb+" if self.lead else "rb") as lines:
                if self.lead:
                    lines.truncate(length)
                data = lines.read(length)
        except OSError as error:
            raise PoolError(f"cannot open {self.file}: {error.strerror}") from error
        for text in data.decode().splitlines():
            line = json.loads(text)
            self.keys.add(line["key"])
            self.held.append(self.keep(line))
