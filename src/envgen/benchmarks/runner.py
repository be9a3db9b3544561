"""Run a language model on a benchmark: parallel requests, one budget, and how an interrupted run continues.

run.json                           what decides the result, library versions, machine
conversations/<item>/ledger.jsonl  every request and reply of an item
conversations/<item>/requests/     the files of `manual`
items.jsonl                        one line per finished item: prompt, completions, verdict, usage
evaluation.json                    the table

A run that is started again asks nothing about finished items. An unfinished one is repeated from its beginning with the
replies in its ledger, so nothing is paid for twice.
"""

import json
import re
import threading
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from envgen.designers.chat.chat import Chat, UsageTracker
from envgen.designers.chat.ledger import LEDGER, UsageTotals, read_lines, sum_usage
from envgen.designers.chat.offline import ManualBackend
from envgen.designers.chat.protocol import BudgetExceededError, ChatError, ChatRequest, RejectedError, Reply
from envgen.designers.chat.threads import Interrupted, open_chat, run_in_threads
from envgen.designers.chat.usage import ChatUsage
from envgen.runs.files import MAX_JSON_BYTES, append_line, exists, flush_folder, open_regular, parse_json
from envgen.runs.store import Run, RunError
from envgen.text import strip_reasoning

from .benchmark import Benchmark, BenchmarkError, Item, Verdict
from .models import ModelSource
from .results import BenchmarkResult, ItemResult, summarize
from .settings import BenchmarkConfig, BenchmarkOptions

ITEMS = "items.jsonl"
ITEM_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
MAX_REQUESTS = 1000  # of one item, whatever its benchmark allows
REFUSED_ITEM = (400, 413, 422)  # HTTP statuses with which servers refuse a single request, such as one that is too long
Progress = Callable[[int, int, UsageTotals], object]


def run_benchmark(
    benchmark: Benchmark,
    config: BenchmarkConfig,
    folder: Path,
    options: BenchmarkOptions | None = None,
    categories: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
    on_progress: Progress = lambda finished, total, usage: None,
    log: Callable[[str], object] = print,
) -> BenchmarkResult:
    """Run a model on every item, or continue an interrupted run.

    Returns the table, which is also in `evaluation.json`.

    Args:
        folder: The run directory. The categories and the limit may differ from before.
        options: The options that the benchmark was loaded with.
        categories: The categories to run. Default: all.
        limit: At most this many items of each category, a sample that the seed determines.
        seed: The seed for sampling items, and for sampling from models in this process.
        on_progress: Called after every item with the numbers of finished and of all items, and the usage so far.
        log: Receives messages for the user, such as the files that `manual` waits for.
    """
    items = select_items(benchmark, categories, limit, seed)
    source = ModelSource(config, benchmark, seed)
    conversation = folder / "conversations" / items[0].id
    config.check_prices(source.open(items[0], conversation), conversation / LEDGER)
    given = {
        k: v for k, v in (options or BenchmarkOptions()).explicitly_set().items() if k not in BenchmarkOptions.PATHS
    }
    request = {
        "policy": "llm", "benchmark": benchmark.name, "data_version": benchmark.data_version, "options": given,
        "seed": seed, "llm": config.llm, "settings": config.model_settings.model_dump(mode="json"),
    }  # fmt: skip
    if source.local is not None:
        request |= {"dtype": config.dtype, "weights": source.local.checksum()}
    with Run(folder, request, runtime_options=config.for_record()) as run:
        runner = Runner(benchmark, config, source, folder, on_progress, log)
        results = runner.run(items)
        result = summarize(benchmark, config.llm, results)
        run.write("evaluation", result.model_dump(mode="json"))
    return result


def select_items(benchmark: Benchmark, categories: Sequence[str], limit: int | None, seed: int) -> list[Item]:
    """The items of a run, in the order of the benchmark. A larger limit adds items to those of a smaller one."""
    chosen = []
    for category in categories or benchmark.categories:
        items = list(benchmark.items(category))
        if limit is not None and limit < len(items):
            rng = np.random.default_rng([seed, zlib.crc32(category.encode())])
            items = [items[k] for k in sorted(rng.permutation(len(items))[:limit])]
        chosen += items
    for item in chosen:
        if not ITEM_ID.fullmatch(item.id):
            raise BenchmarkError(f"the id of an item must match {ITEM_ID.pattern}, not {item.id!r:.80}")
    if len({item.id for item in chosen}) < len(chosen):
        raise BenchmarkError(f"two items of {benchmark.name} have the same id; get its files again")
    if not chosen:
        raise BenchmarkError(f"{benchmark.name} has no items in these categories")
    return chosen


class Runner:
    """Runs the items of one run, several of them at the same time, within one budget."""

    def __init__(
        self, benchmark: Benchmark, config: BenchmarkConfig, source: ModelSource, folder: Path, on_progress: Progress,
        log: Callable[[str], object],
    ):  # fmt: skip
        self.benchmark, self.config, self.source = benchmark, config, source
        self.folder, self.on_progress, self.log = folder, on_progress, log
        self.stop = threading.Event()
        self.file = folder / ITEMS
        self.results = load_items(self.file)
        self.usage_tracker = UsageTracker(config.prices, self._known_usage())
        self._has_reply = any(result.completions for result in self.results.values())

    def run(self, items: Sequence[Item]) -> list[ItemResult]:
        """The results of these items. Those that are not finished are run first."""
        wanted = {item.id for item in items}
        pending = deque(item for item in items if item.id not in self.results)

        def work(item: Item) -> None:
            self._run_item(item)
            with self.usage_tracker.lock:
                finished = len(wanted & self.results.keys())
                self.on_progress(finished, len(wanted), self.usage_tracker.totals())

        try:
            run_in_threads(pending, work, min(self.config.num_workers, len(pending)), self.stop, self.log)
        except BudgetExceededError as error:
            finished = len(wanted & self.results.keys())
            raise BudgetExceededError(f"{error}; {finished:,} of {len(wanted):,} items are finished") from None
        return [self.results[item.id] for item in items]

    def _run_item(self, item: Item) -> None:
        folder = self.folder / "conversations" / item.id
        file = folder / LEDGER
        prompt: list[dict[str, Any]] = []
        completions: list[dict[str, Any]] = []
        backend = self.source.open(item, folder)
        chat = open_chat(backend, file, self.folder, self.config, self.usage_tracker, self.stop, self.log)
        try:
            verdict = self._play(item, chat, prompt, completions)
        finally:
            usage = self.usage_tracker.close(file)
        self._record(
            ItemResult(
                id=item.id, category=item.category, score=verdict.score, error=verdict.error, details=verdict.details,
                counts=dict(verdict.counts), prompt=prompt, completions=completions, usage=ChatUsage.from_totals(usage),
            )
        )  # fmt: skip

    def _play(self, item: Item, chat: Chat, prompt: list[Any], completions: list[Any]) -> Verdict:
        with closing(self.benchmark.episode(item)) as episode:
            try:
                question = next(episode)
                for _ in range(MAX_REQUESTS):
                    if self.stop.is_set():
                        raise Interrupted
                    if question.tools and isinstance(chat.backend, ManualBackend):
                        raise ChatError("a person cannot call functions natively; use --calls prompt")
                    request = ChatRequest(
                        messages=question.messages, tools=question.tools, max_tokens=self.config.max_reply_tokens,
                        temperature=self.config.temperature,
                    )  # fmt: skip
                    prompt[:] = [message.model_dump(mode="json") for message in question.messages]
                    try:
                        reply = chat.complete(request)
                    except RejectedError as error:
                        if error.status not in REFUSED_ITEM or not (self._has_reply or chat.backend.free):
                            raise
                        return Verdict(0.0, "request refused", str(error))
                    self._has_reply = True
                    completions.append(_describe_reply(reply))
                    question = episode.send(reply.model_copy(update={"text": strip_reasoning(reply.text)}))
            except StopIteration as end:
                return end.value
        return Verdict(0.0, "too many requests", f"the episode did not end after {MAX_REQUESTS:,} requests")

    def _record(self, result: ItemResult) -> None:
        line = json.dumps(result.model_dump(mode="json")).encode() + b"\n"
        with self.usage_tracker.lock:
            try:
                append_line(self.file, line)
            except OSError as error:
                raise RunError(f"cannot write {self.file}: {error.strerror}") from error
            self.results[result.id] = result

    def _known_usage(self) -> dict[Path, UsageTotals]:
        """What every item has used so far, by its ledger."""
        conversations = self.folder / "conversations"
        usage = {conversations / result.id / LEDGER: result.usage.to_totals() for result in self.results.values()}
        try:
            entries = list(conversations.iterdir()) if conversations.is_dir() else []
            unfinished = [entry / LEDGER for entry in entries if entry.name not in self.results]
            unfinished = [file for file in unfinished if file.is_file() and not file.parent.is_symlink()]
        except OSError as error:
            raise RunError(f"cannot read {conversations}: {error.strerror}") from error
        return usage | {file: sum_usage(read_lines(file), self.config.prices) for file in unfinished}


def _describe_reply(reply: Reply) -> dict[str, Any]:
    fields = reply.model_dump(mode="json")
    return {name: fields[name] for name in ("text", "tool_calls", "finish") if fields.get(name) is not None}


def load_items(file: Path) -> dict[str, ItemResult]:
    """The finished items of a run, by their ids. An incomplete last line is removed."""
    if not exists(file):
        return {}
    results = {}
    try:
        with open_regular(file, "rb+") as stream:
            end = number = 0
            while line := stream.readline(MAX_JSON_BYTES):
                number += 1
                if not line.endswith(b"\n") and len(line) < MAX_JSON_BYTES:
                    stream.truncate(end)
                    break
                end += len(line)
                try:
                    result = ItemResult.model_validate(parse_json(line))
                except (ValueError, ValidationError):
                    place = f"line {number} of {file}"
                    raise RunError(f"{place} is damaged; restore it, or delete the line to repeat its item") from None
                results[result.id] = result
        flush_folder(file.parent)
    except OSError as error:
        raise RunError(f"cannot read {file}: {error.strerror}") from error
    return results
