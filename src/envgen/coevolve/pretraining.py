"""The first lessons of models made on the spot: an agent that solves easy tasks, an environment that varies specs.

Both are shown right answers, and share one tokenizer of the domain's own text. The agent then knows the form of replies
and how short requests are done. The environment writes variations of the spec before it, whatever statistics it is
told: what these are good for it has yet to find out. With the defaults it takes minutes of one core.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from torch.nn import functional as F

from envgen.settings import Settings

from . import pretrain_data as lessons
from . import tiny_models as scratch
from .language_model import Lm
from .pretrain_data import Course, Pair
from .settings import Count, Fraction, Positive
from .tasks import Domain
from .tiny_models import Size, fresh, save, tokenizer_of

POOL = 8  # batches that are drawn at once, so that pairs of about the same length can stand together
LOOKS = 4  # how often it is said how far a model is
Say = Callable[[str], None]


class Warmup(Settings):
    """How much the two models are taught before they learn by themselves, and how."""

    agent_steps: Count = 350
    """Gradient steps of the agent."""
    environment_steps: Count = 400
    """Gradient steps of the environment."""
    batch: Count = 32
    """Answers shown at each."""
    hard: Fraction = 0.4
    """Share of the agent's tasks that are uniform and not easy: RL goes on from replies that are right now and then."""
    learning_rate: Positive = 3e-3
    """Of AdamW, for embeddings, biases and norms."""
    matrix_rate: Positive = 0.02
    """Of Muon, for the matrices of the layers: AdamW takes twice as long to the same loss."""
    rise: Count = 20
    """Steps in which both rates rise from 0."""
    fall: Fraction = 0.4
    """Share of the steps, the last ones, in which they fall to 0 again."""
    texts: Count = 2000
    """Specs whose texts the tokenizer is made from."""
    held_out: Count = 600
    """How many of the held-out tasks nothing is shown of."""


def warm(
    domain: Domain, folder: Path, seed: int, size: Size, settings: Warmup, say: Say = lambda line: None
) -> tuple[Path, Path]:
    """The folders of an agent and an environment, made now or by an earlier call with equal arguments."""
    course = Course(domain, settings.hard, settings.held_out, seed)
    texts = course.texts(settings.texts)
    final = folder / f"{domain.name}-{_key(texts, seed, size, settings)}"
    names = ("agent", "environment")
    if not final.exists():
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer = tokenizer_of(texts, size.vocabulary)
        shown, looks = (course.task, course.variation), (course.accuracy, course.admitted)
        steps = (settings.agent_steps, settings.environment_steps)
        with TemporaryDirectory(prefix=".unfinished-", dir=folder, ignore_cleanup_errors=True) as beside:
            for k, (name, lesson, look, count) in enumerate(zip(names, shown, looks, steps, strict=True)):
                lm = fresh(tokenizer, size, 2 * seed + k)
                teach(lm, lesson, count, settings, course.random, lambda line, name=name: say(f"{name}: {line}"), look)
                save(lm, Path(beside) / "models" / name)
            _move(Path(beside) / "models", final)
    return final / names[0], final / names[1]


def teach(
    lm: Lm, lesson: Callable[[], Pair], steps: int, settings: Warmup, random: np.random.Generator, say: Say,
    look: Callable[[Lm], str],
) -> None:  # fmt: skip
    """Show a model right answers."""
    matrices = [w for name, w in lm.model.named_parameters() if w.ndim == 2 and ".layers." in name]
    known = set(map(id, matrices))
    rest = [w for w in lm.model.parameters() if id(w) not in known]
    optimisers = (
        torch.optim.Muon(matrices, settings.matrix_rate, weight_decay=0.0, adjust_lr_fn="original"),
        torch.optim.AdamW(rest, settings.learning_rate, betas=(0.9, 0.98), weight_decay=0.0),
    )
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(
            one, lambda k: min(1.0, (k + 1) / settings.rise, (steps - k) / max(1.0, settings.fall * steps))
        )
        for one in optimisers
    ]
    losses, batches = [], _batches(lm, lesson, settings.batch, random)
    for step in range(1, steps + 1):
        loss = _loss(lm, next(batches))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(lm.model.parameters(), 1.0)
        for one in (*optimisers, *schedules):
            one.step()
        lm.model.zero_grad()
        losses.append(loss.item())
        if step * LOOKS // steps > (step - 1) * LOOKS // steps:
            say(f"step {step} of {steps}, loss {np.mean(losses[-50:]):.3f}, {look(lm)}")


def _batches(
    lm: Lm, lesson: Callable[[], Pair], batch: int, random: np.random.Generator
) -> Iterator[list[tuple[list[int], list[int]]]]:
    while True:
        pairs = [(lm.prompt("", asked), lm.reply(answer)) for asked, answer in (lesson() for _ in range(POOL * batch))]
        pairs.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
        for k in random.permutation(POOL):
            yield pairs[k * batch : (k + 1) * batch]


def _loss(lm: Lm, pairs: list[tuple[list[int], list[int]]]) -> torch.Tensor:
    """The mean surprise at the tokens of the answers. What is padded stands at the end, where nothing looks at it."""
    width = max(len(asked) + len(answer) for asked, answer in pairs)
    ids = torch.full((len(pairs), width), lm.pad)
    wanted = torch.zeros((len(pairs), width), dtype=torch.bool)
    for k, (asked, answer) in enumerate(pairs):
        ids[k, : len(asked) + len(answer)] = torch.tensor(asked + answer)
        wanted[k, len(asked) : len(asked) + len(answer)] = True
    model: Any = lm.model
    hidden = model.base_model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state  # (B, T - 1, D)
    logits = model.get_output_embeddings()(hidden[wanted[:, 1:]])  # (answers' tokens, V)
    return F.cross_entropy(logits, ids[wanted])


def _key(texts: list[str], seed: int, size: Size, settings: Warmup) -> str:
    """The same for equal models alone: of all that they depend on, and of a domain by what it says."""
    told = [seed, size.model_dump(), settings.model_dump(), texts]
    versions = [module.__version__ for module in (np, tokenizers, torch, transformers)]
    sources = [Path(str(file)).read_text() for file in (__file__, lessons.__file__, scratch.__file__)]
    return hashlib.sha256(json.dumps([told, versions, sources]).encode()).hexdigest()[:16]


def _move(fresh: Path, final: Path) -> None:
    """Whole or not at all. Of two that made the same at once, the first one's stays."""
    for file in (file for file in fresh.rglob("*") if file.is_file()):
        with file.open("rb+") as opened:
            os.fsync(opened.fileno())
    try:
        os.replace(fresh, final)
    except OSError:
        if not final.exists():
            raise
