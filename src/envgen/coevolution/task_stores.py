"""The task filter, which turns the text of a spec into a task or rejects it, and the stores of a run.

The stores of a run only grow: its tasks, the agent's traces and the training data of the environment policy. Each is a
file with one JSON line per distinct record. A checkpoint holds its length, to which a resumed run truncates it, and its
checksum.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from envgen.errors import EnvgenError
from envgen.runs.files import check_regular, exists, open_regular, parse_json
from envgen.runs.store import RESTORE, Run

from .tasks import Domain, DomainError, Spec, SpecError, Task, explaining_errors, validate

Rejection = Literal["malformed", "unsolvable", "held_out", "duplicate"]
NotNeeded = Literal["not_needed"]  # of specs that were generated after enough had been accepted
Record = dict[str, Any]


@dataclass(frozen=True)
class FilterResult:
    """Either a task or the reason for its rejection."""

    task: Task | None
    rejection: Rejection | None = None


class HeldOutTasks:
    """Tasks that no model may be trained on, whatever their specs."""

    def __init__(self, domain: Domain, tasks: Sequence[Task]):
        self.is_multi_turn = domain.is_multi_turn
        self.keys = {task.spec.key for task in tasks}
        self.identities = {self._identity(task) for task in tasks}

    def has_spec(self, spec: Spec) -> bool:
        return spec.key in self.keys

    def has_task(self, task: Task) -> bool:
        """Whether a task is a held-out one to the agent, even with another spec."""
        return self._identity(task) in self.identities

    def _identity(self, task: Task) -> str:
        """The prompt; in several turns, whose prompts do not show everything, the answer key as well."""
        return f"{task.prompt}\n{task.answer_key!r}" if self.is_multi_turn else task.prompt


class TaskFilter:
    """Accepts each solvable spec once, and no held-out task: neither its spec nor another one of the same task."""

    def __init__(self, domain: Domain, held_out: Sequence[Task]):
        self.domain, self.held_out = domain, HeldOutTasks(domain, held_out)
        self.accepted_keys: set[str] = set()

    def check(self, text: str) -> FilterResult:
        """The task of a spec, with its answer key and checker validated, or the reason for its rejection."""
        try:
            spec = self.domain.Spec.parse(text)
        except SpecError:
            return FilterResult(None, "malformed")
        key = spec.key
        if self.held_out.has_spec(spec):
            return FilterResult(None, "held_out")
        if key in self.accepted_keys:
            return FilterResult(None, "duplicate")
        try:
            with explaining_errors(self.domain):
                task = self.domain.make_task(spec)
                validate(self.domain, [task])
        except (SpecError, DomainError):
            return FilterResult(None, "unsolvable")
        if self.held_out.has_task(task):
            return FilterResult(None, "held_out")
        self.accepted_keys.add(key)
        return FilterResult(task)

    def mark_accepted(self, specs: Iterable[Spec]) -> None:
        """Reject these specs as duplicates from now on."""
        self.accepted_keys |= {spec.key for spec in specs}


def count_rejections(rejections: Iterable[str | None]) -> dict[str, int]:
    """The number of rejections by reason; other values are ignored."""
    counts = Counter(rejections)
    return {reason: counts[reason] for reason in get_args(Rejection)}


class TaskStoreError(EnvgenError):
    """A store cannot be written, or does not match its checkpoint."""


class TaskStore:
    """Deduplicated records in a JSON-lines file.

    `items` holds what `select` returns for each record, for sampling. Only the main process writes.
    """

    def __init__(self, file: Path, select: Callable[[Record], Any] = lambda record: record, is_main: bool = True):
        self.file, self.select, self.is_main = file, select, is_main
        self.items: list[Any] = []
        self.keys: set[str] = set()
        self.num_bytes, self.checksum = 0, hashlib.sha256()

    def __len__(self) -> int:
        return len(self.items)

    def add(self, records: Iterable[Record], key: Callable[[Record], str]) -> int:
        """Append the records whose key is new; returns their number."""
        new_records = []
        for record in records:
            digest = hashlib.sha256(key(record).encode()).hexdigest()[:16]
            if digest not in self.keys:
                self.keys.add(digest)
                new_records.append({"key": digest, **record})
        if new_records:
            data = "".join(json.dumps(record) + "\n" for record in new_records).encode()
            if self.is_main:
                try:
                    with open_regular(self.file, "ab") as out:
                        out.write(data)
                except OSError as error:
                    raise self._write_error(error) from error
            self.num_bytes += len(data)
            self.checksum.update(data)
            self.items += map(self.select, new_records)
        return len(new_records)

    def sample(self, count: int, rng: np.random.Generator) -> list[Any]:
        """Uniform samples with replacement; none from an empty store."""
        if not self.items:
            return []
        return [self.items[k] for k in rng.integers(len(self.items), size=count)]

    def flush(self) -> int:
        """Sync the file to disk; returns its length in bytes."""
        try:
            if exists(self.file):
                with open_regular(self.file, "rb+") as out:  # Windows flushes only files that are open for writing
                    os.fsync(out.fileno())
        except OSError as error:
            raise self._write_error(error) from error
        return self.num_bytes

    def _write_error(self, error: OSError) -> TaskStoreError:
        return TaskStoreError(
            f"cannot write {self.file}: {error.strerror}; correct this (is the disk full?) and resume the run"
        )

    def restore(self, length: int, sha256: str | None = None) -> None:
        """Truncate to a length returned by `flush` and reload. With `sha256`, the file must still be the same."""
        self.items, self.keys, self.num_bytes, self.checksum = [], set(), length, hashlib.sha256()
        try:
            size = check_regular(self.file).st_size if exists(self.file) else 0
            if size < length:
                raise TaskStoreError(
                    f"{self.file} has {size} bytes, but the checkpoint expects at least {length}; {RESTORE}"
                )
            if not exists(self.file):
                return
            with open_regular(self.file, "rb+" if self.is_main else "rb") as lines:
                if self.is_main:
                    lines.truncate(length)
                data = lines.read(length)
        except OSError as error:
            raise TaskStoreError(f"cannot open {self.file}: {error.strerror}") from error
        self.checksum.update(data)
        if sha256 is not None and self.checksum.hexdigest() != sha256:
            raise TaskStoreError(f"{self.file} has changed since the checkpoint was written; {RESTORE}")
        for number, line in enumerate(data.splitlines(), 1):
            try:
                record = parse_json(line)
                self.keys.add(record["key"])
                self.items.append(self.select(record))
            except (ValueError, KeyError, TypeError) as error:
                raise TaskStoreError(f"line {number} of {self.file} is damaged ({error!r:.100}); {RESTORE}") from error


class TaskStores:
    """The stores in a run directory."""

    def __init__(self, run: Run):
        self.tasks = TaskStore(run.folder / "tasks.jsonl", lambda record: record["spec"], run.is_main)
        self.agent_traces = TaskStore(run.folder / "agent_traces.jsonl", lambda record: record["spec"], run.is_main)
        self.environment_specs = TaskStore(run.folder / "environment_specs.jsonl", is_main=run.is_main)
        self.by_name = {
            "tasks": self.tasks, "agent_traces": self.agent_traces, "environment_specs": self.environment_specs,
        }  # fmt: skip

    def flush(self) -> dict[str, int]:
        return {name: store.flush() for name, store in self.by_name.items()}

    def checksums(self) -> dict[str, str]:
        return {name: store.checksum.hexdigest() for name, store in self.by_name.items()}

    def restore(self, lengths: Mapping[str, int], checksums: Mapping[str, str]) -> None:
        """A store without a length is empty. Checkpoints of earlier versions have no checksums."""
        for name, store in self.by_name.items():
            store.restore(lengths.get(name, 0), checksums.get(name))
