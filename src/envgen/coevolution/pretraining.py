"""Supervised pretraining of models created from scratch: an agent that solves easy tasks, an environment that varies
specs.

Both share a tokenizer trained on the domain's own text. Afterwards the agent knows the format of replies and short
tasks. The environment policy writes variations of the spec in its prompt, whatever success rates it is shown; their use
is left to the co-evolution. With the defaults this takes minutes on one CPU core. It saves as it goes: a process that
was killed resumes exactly where it last saved.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from torch.nn import functional as F

from envgen.runs.checkpoint import Checkpoint, load_latest, save_checkpoint
from envgen.runs.display import format_duration
from envgen.runs.files import flush_folder

from . import language_model, pretrain_data
from .language_model import LanguageModel, new_model, train_tokenizer
from .model_io import save_model
from .pretrain_data import Example, PretrainData
from .settings import ModelSize, PretrainSettings
from .tasks import Domain

try:
    import fcntl
except ImportError:  # Windows: two processes that create the same models do not share a checkpoint folder
    fcntl = None

BUFFER_BATCHES = 8  # batches generated at a time, so that examples of similar length can be batched together
NUM_REPORTS = 4  # reports with an evaluation, per model
REPORT_INTERVAL = 15.0  # seconds between reports of the time left
NUM_KEY_EXAMPLES = 32  # of each model, by which the models of different domains are told apart
LOSS_WINDOW = 50  # steps over which the reported loss is averaged
ReportFn = Callable[[str], None]
# tokens of the prompt and what follows it, and which of the latter the model is to generate
EncodedExample = tuple[list[int], list[int], list[bool]]


def pretrain(
    domain: Domain, folder: Path, seed: int, size: ModelSize, settings: PretrainSettings,
    report: ReportFn = lambda line: None, save_every: float = 30.0,
) -> tuple[Path, Path]:  # fmt: skip
    """Create an agent and an environment model in `folder`, or find those of an earlier call with equal arguments.

    Args:
        domain: The family of tasks.
        folder: Where models are kept. A name made from all arguments identifies each pair.
        seed: The seed of the weights and the examples.
        size: The size of each model.
        settings: How they are trained.
        report: Called with lines about the progress and the time left.
        save_every: Seconds between checkpoints.

    Returns:
        The folders of the agent and of the environment model.
    """
    data = PretrainData(domain, settings.hard_fraction, settings.num_held_out, seed)
    texts = data.tokenizer_texts(settings.num_tokenizer_specs)
    final = folder / _folder_name(data, texts, seed, size, settings)
    names = ("agent", "environment")
    if not final.exists():
        tokenizer = train_tokenizer(texts, size.vocab_size)
        examples = (data.agent_example, data.environment_example)
        evaluations = (data.evaluate_agent, data.evaluate_environment)
        num_steps = (settings.agent_steps, settings.environment_steps)
        with _work_folder(folder, final, report) as work:
            if final.exists():  # another process has finished them in the meantime
                return final / names[0], final / names[1]
            checkpoint = load_latest(work / "checkpoints")
            finished = checkpoint.values["finished"] if checkpoint else []
            for k, name in enumerate(names):
                if name in finished:
                    continue
                lm = new_model(tokenizer, size, 2 * seed + k)
                training = SupervisedTraining(lm, data, examples[k], num_steps[k], settings)
                if checkpoint is not None:
                    training.load(checkpoint)
                    checkpoint = None
                    report(f"{name} ({k + 1} of 2): resumed at step {training.step} of {num_steps[k]}")

                def save(training: SupervisedTraining = training) -> None:
                    arrays, values = training.state()
                    save_checkpoint(work / "checkpoints", arrays, {**values, "finished": names[:k]})  # noqa: B023

                save()  # also marks the models before this one as finished
                prefix = f"{name} ({k + 1} of 2)"
                training.run(evaluations[k], lambda line, prefix=prefix: report(f"{prefix}: {line}"), save, save_every)
                save_model(lm, work / "models" / name)
                _flush_files(work / "models" / name)
            _publish(work / "models", final)
    return final / names[0], final / names[1]


def find_pretrained_agent(domain: Domain, folder: Path, seed: int, size: ModelSize, settings: PretrainSettings) -> Path:
    """The folder in which `pretrain` with the same arguments writes the agent."""
    data = PretrainData(domain, settings.hard_fraction, settings.num_held_out, seed)
    texts = data.tokenizer_texts(settings.num_tokenizer_specs)
    return folder / _folder_name(data, texts, seed, size, settings) / "agent"


def _folder_name(data: PretrainData, texts: list[str], seed: int, size: ModelSize, settings: PretrainSettings) -> str:
    """A name with a hash of everything that the models depend on; the domain counts by its texts and examples."""
    recipe = [seed, size.model_dump(), settings.model_dump(), texts, data.peek_examples(NUM_KEY_EXAMPLES)]
    versions = [module.__version__ for module in (np, tokenizers, torch, transformers)]
    sources = [Path(str(file)).read_text() for file in (__file__, pretrain_data.__file__, language_model.__file__)]
    key = hashlib.sha256(json.dumps([recipe, versions, sources]).encode()).hexdigest()[:16]
    return f"{data.domain.name}-{key}"


class SupervisedTraining:
    """Supervised training of one model: Muon for the weight matrices, AdamW for everything else."""

    def __init__(
        self, lm: LanguageModel, data: PretrainData, sample_example: Callable[[], Example], num_steps: int,
        settings: PretrainSettings,
    ):  # fmt: skip
        self.lm, self.data, self.num_steps, self.settings = lm, data, num_steps, settings
        self.step = 0
        self.losses: list[float] = []  # of the last steps
        self.batches = BatchStream(lm, data, sample_example, settings.batch_size)
        matrices = [w for name, w in lm.model.named_parameters() if w.ndim == 2 and ".layers." in name]
        matrix_ids = set(map(id, matrices))
        others = [w for w in lm.model.parameters() if id(w) not in matrix_ids]
        self.optimizers: dict[str, tuple[torch.optim.Optimizer, float]] = {  # with their peak learning rates
            "muon": (
                torch.optim.Muon(matrices, settings.muon_learning_rate, weight_decay=0.0, adjust_lr_fn="original"),
                settings.muon_learning_rate,
            ),
            "adamw": (
                torch.optim.AdamW(others, settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.0),
                settings.learning_rate,
            ),
        }

    def run(
        self, evaluate: Callable[[LanguageModel], str], report: ReportFn, save: Callable[[], None], save_every: float
    ) -> None:
        """Train to the last step."""
        start_step, start_time = self.step, time.monotonic()
        last_save = last_report = start_time
        while self.step < self.num_steps:
            self.train_step()
            now = time.monotonic()
            quarter_done = self.step * NUM_REPORTS // self.num_steps > (self.step - 1) * NUM_REPORTS // self.num_steps
            if quarter_done or now - last_report >= REPORT_INTERVAL:
                last_report = now
                left = (now - start_time) / (self.step - start_step) * (self.num_steps - self.step)
                parts = [f"step {self.step} of {self.num_steps}", f"loss {np.mean(self.losses):.3f}"]
                parts += [evaluate(self.lm)] if quarter_done else []
                report(", ".join([*parts, f"{format_duration(left)} left for this model"]))
            if now - last_save >= save_every:
                save()
                last_save = time.monotonic()

    def train_step(self) -> None:
        loss = completion_loss(self.lm, self.batches.next_batch())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.lm.model.parameters(), 1.0)
        for optimizer, peak_learning_rate in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = peak_learning_rate * self._schedule(self.step)
            optimizer.step()
        self.lm.model.zero_grad()
        self.losses = [*self.losses, loss.item()][-LOSS_WINDOW:]
        self.step += 1

    def _schedule(self, step: int) -> float:
        """Linear warmup, constant, linear cooldown."""
        s = self.settings
        cooldown_steps = max(1.0, s.cooldown_fraction * self.num_steps)
        return min(1.0, (step + 1) / s.warmup_steps, (self.num_steps - step) / cooldown_steps)

    def state(self) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, Any]]:
        """Arrays by group and plain values from which `load` resumes exactly."""
        arrays = {"model": {name: w.detach().numpy().copy() for name, w in self.lm.model.named_parameters()}}
        for name, (optimizer, _) in self.optimizers.items():
            arrays[name] = {
                f"{index}.{key}": np.asarray(value)
                for index, values in optimizer.state_dict()["state"].items()
                for key, value in values.items()
            }
        data = {**self.data.state(), **self.batches.state()}  # the examples of the buffer are generated again
        return arrays, {"step": self.step, "losses": self.losses, "data": data}

    def load(self, checkpoint: Checkpoint) -> None:
        arrays, values = checkpoint.arrays, checkpoint.values
        with torch.no_grad():
            for name, parameter in self.lm.model.named_parameters():
                parameter.copy_(torch.from_numpy(arrays["model"][name]))
        for name, (optimizer, _) in self.optimizers.items():
            state: dict[int, dict[str, torch.Tensor]] = {}
            for entry, array in arrays[name].items():
                index, _, key = entry.partition(".")
                state.setdefault(int(index), {})[key] = torch.from_numpy(array.copy())
            optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        self.step, self.losses = values["step"], list(values["losses"])
        self.data.load(values["data"])
        self.batches.load(values["data"])


class BatchStream:
    """Batches of encoded examples of similar length. Its examples use the random state of `data`."""

    def __init__(self, lm: LanguageModel, data: PretrainData, sample_example: Callable[[], Example], batch_size: int):
        self.lm, self.data, self.sample_example, self.batch_size = lm, data, sample_example, batch_size
        self.buffer: list[list[EncodedExample]] = []
        self.position = 0  # batches of the buffer that were used
        self.buffer_rng: Any = None  # random state before the buffer was generated

    def next_batch(self) -> list[EncodedExample]:
        if self.position == len(self.buffer):
            self._fill()
        self.position += 1
        return self.buffer[self.position - 1]

    def _fill(self) -> None:
        rng = self.data.rng
        self.buffer_rng, self.position = rng.bit_generator.state, 0
        examples = [self.sample_example() for _ in range(BUFFER_BATCHES * self.batch_size)]
        encoded = [encode_example(self.lm, example) for example in examples]
        encoded.sort(key=lambda example: len(example[0]) + len(example[1]))
        self.buffer = [
            encoded[k * self.batch_size : (k + 1) * self.batch_size] for k in rng.permutation(BUFFER_BATCHES)
        ]

    def state(self) -> dict[str, Any]:
        return {"rng": self.buffer_rng or self.data.rng.bit_generator.state, "position": self.position}

    def load(self, state: dict[str, Any]) -> None:
        """`data` must be in the saved state already."""
        self.buffer, self.position, self.buffer_rng = [], 0, None
        if state["position"]:
            self._fill()
            self.position = state["position"]


def encode_example(lm: LanguageModel, example: Example) -> EncodedExample:
    prompt, turns = example
    ids, generated = [], []
    for number, (completion, observation) in enumerate(turns):
        tokens = lm.encode_completion(completion)
        ids, generated = ids + tokens, generated + [True] * len(tokens)
        if number < len(turns) - 1:
            tokens = lm.encode_observation(observation)
            ids, generated = ids + tokens, generated + [False] * len(tokens)
    return lm.encode_prompt("", prompt), ids, generated


def completion_loss(lm: LanguageModel, examples: list[EncodedExample]) -> torch.Tensor:
    """The mean cross-entropy of the tokens of completions. Padding is on the right, where no token attends to it."""
    width = max(len(prompt) + len(completion) for prompt, completion, _ in examples)
    ids = torch.full((len(examples), width), lm.pad_token_id)
    is_completion = torch.zeros((len(examples), width), dtype=torch.bool)
    for k, (prompt, completion, generated) in enumerate(examples):
        ids[k, : len(prompt) + len(completion)] = torch.tensor(prompt + completion)
        is_completion[k, len(prompt) : len(prompt) + len(completion)] = torch.tensor(generated)
    model: Any = lm.model
    hidden = model.base_model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state  # (B, T - 1, D)
    logits = model.get_output_embeddings()(hidden[is_completion[:, 1:]])  # (completion tokens, V)
    return F.cross_entropy(logits, ids[is_completion])


@contextmanager
def _work_folder(folder: Path, final: Path, report: ReportFn) -> Iterator[Path]:
    """A folder for unfinished models, which an interrupted process leaves behind to be resumed.

    It is locked. Where there are no file locks, a process works in a temporary folder of its own.
    """
    work = folder / f".unfinished-{final.name}"
    with ExitStack() as stack:
        work.mkdir(parents=True, exist_ok=True)
        lock = stack.enter_context(open(work / "lock", "a"))
        try:
            if fcntl is None:
                raise OSError("no file locks")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report("another process is pretraining these models; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            temporary = TemporaryDirectory(prefix=".unfinished-", dir=folder, ignore_cleanup_errors=True)
            yield Path(stack.enter_context(temporary))
            return
        yield work
        shutil.rmtree(work, ignore_errors=True)  # only reached when the models are finished


def _publish(models: Path, final: Path) -> None:
    """Move finished models into place atomically. If another process was faster, its models stay."""
    try:
        os.replace(models, final)
        flush_folder(final.parent)
    except OSError:
        if not final.exists():
            raise


def _flush_files(folder: Path) -> None:
    for file in (file for file in folder.rglob("*") if file.is_file()):
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())
