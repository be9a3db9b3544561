"""The models that a run of a benchmark can ask: chat servers, people, recorded runs, models in this process, and the
benchmark's own answers.
"""

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envgen.designers.chat.backends import KEY_VARIABLES, LLM_FORMS, make_backend
from envgen.designers.chat.ledger import LEDGER
from envgen.designers.chat.offline import ReplayBackend
from envgen.designers.chat.protocol import Backend, ChatError, ChatRequest, RejectedError, Reply, Usage
from envgen.errors import EnvgenError
from envgen.settings import format_choice_error

from .benchmark import Benchmark, Item
from .settings import BenchmarkConfig

if TYPE_CHECKING:
    from envgen.coevolution.language_model import LanguageModel

FORMS = {
    **LLM_FORMS,
    "hf": "hf:MODEL, a folder or a name on the Hugging Face Hub",
    "run": "run:FOLDER, a run of envgen coevolve",
    "gold": "gold",
    "empty": "empty",
}
TOO_LONG = 413  # the HTTP status of a request that is too large


LOCAL = ("hf", "run")  # models in this process


class ModelSource:
    """Opens the model of a run for one item after another. Models in this process are loaded once, and there is one
    connection to a server.
    """

    def __init__(self, config: BenchmarkConfig, benchmark: Benchmark, seed: int):
        self.config, self.benchmark, self.seed = config, benchmark, seed
        self.kind, colon, self.argument = config.llm.partition(":")
        if self.kind not in FORMS:
            choices = format_choice_error(self.kind, list(FORMS))
            raise ChatError(f"llm {choices}; valid forms: {'; '.join(FORMS.values())}")
        takes_argument = ":" in FORMS[self.kind]
        if bool(colon) != takes_argument or bool(self.argument) != takes_argument:
            raise ChatError(f"{config.llm!r} is not valid; write {FORMS[self.kind]}")
        self._check_options()
        self.local = _load_local_model(config, self.kind, self.argument, seed) if self.kind in LOCAL else None
        self._server = self._make_backend(None) if self.kind in KEY_VARIABLES else None

    def _check_options(self) -> None:
        """Raise ChatError for an option that this kind of model does not use."""
        unused = [] if self.kind in KEY_VARIABLES else ["base_url", "key_env"]
        unused += [] if self.kind in LOCAL else ["device", "dtype"]
        for name in unused:
            if getattr(self.config, name) != BenchmarkConfig.model_fields[name].default:
                raise ChatError(f"{name} has no effect with {self.kind}; remove it")

    def _make_backend(self, folder: Path | None) -> Backend:
        config = self.config
        return make_backend(config.llm, config.base_url, folder, config.timeout, config.key_env)

    def open(self, item: Item, folder: Path) -> Backend:
        """The model for one item. `folder` is that of its conversation."""
        if backend := self.local or self._server:
            return backend
        if self.kind == "gold":
            replies = self.benchmark.gold_replies(item)
            if replies is None:
                raise ChatError(
                    f"the data of {self.benchmark.name} has no answer to {item.id}, so gold cannot answer it; "
                    "choose other categories or another model"
                )
            return ScriptedBackend("gold", replies)
        if self.kind == "empty":
            return EmptyBackend()
        if self.kind == "replay":
            ledger = Path(self.argument) / "conversations" / item.id / LEDGER
            if not ledger.is_file():
                raise ChatError(f"there is no {ledger} to replay; pass the directory of a run of this benchmark")
            return ReplayBackend(ledger)
        return self._make_backend(folder / "requests")


class EmptyBackend(Backend):
    """Answers nothing. A benchmark may give it points only where making no call is right."""

    name, free = "empty", True

    def send(self, request: ChatRequest) -> Reply:
        return Reply(text="", model=self.name, usage=Usage(prompt_tokens=0, reply_tokens=0))


class ScriptedBackend(Backend):
    """Sends given replies one after another, whatever the request."""

    free = True

    def __init__(self, name: str, replies: Sequence[Reply]):
        self.name, self.replies, self._num_sent = name, replies, 0

    def mark_answered(self, request: ChatRequest) -> None:
        self._num_sent += 1

    def send(self, request: ChatRequest) -> Reply:
        reply = self.replies[self._num_sent] if self._num_sent < len(self.replies) else Reply(text="", model=self.name)
        self._num_sent += 1
        return reply.model_copy(update={"usage": Usage(prompt_tokens=0, reply_tokens=0)})


class LocalBackend(Backend):
    """A model in this process. Its replies depend only on the request and the seed. It runs one request at a time."""

    free = True

    def __init__(self, name: str, lm: "LanguageModel", seed: int):
        self.name, self.lm, self.seed = name, lm, seed
        self._lock = threading.Lock()

    def checksum(self) -> str:
        """A checksum of the weights. Those of a run change while it trains, and a folder can be written again."""
        import torch

        digest = hashlib.sha256()
        for name, tensor in sorted(self.lm.model.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(memoryview(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()))
        return f"sha256 {digest.hexdigest()[:16]}"

    def send(self, request: ChatRequest) -> Reply:
        import torch

        from envgen.coevolution.sampling import generate

        if request.tools:
            raise ChatError(
                "native function calling needs a server that parses the model's format, such as vLLM; pass its address "
                "with --llm openai:MODEL --base-url ADDRESS, or use --calls prompt"
            )
        messages = [message.model_dump() for message in request.messages]
        with self._lock:
            prompt = self.lm.encode_messages(messages)
            max_length = getattr(self.lm.model.config, "max_position_embeddings", None)
            room = request.max_tokens if max_length is None else min(request.max_tokens, max_length - len(prompt))
            if room < 1:
                raise RejectedError(
                    f"the prompt has {len(prompt):,} tokens, and the model takes {max_length:,}", TOO_LONG
                )
            rng = None
            if request.temperature:
                digest = hashlib.sha256(f"{self.seed} {request.digest}".encode()).digest()
                rng = torch.Generator(self.lm.model.device).manual_seed(int.from_bytes(digest[:7]))
            completions = generate(self.lm, [prompt], 1, room, rng, request.temperature or 1.0)
            ids = completions.ids[0][completions.mask[0]].tolist()
        return Reply(
            text=self.lm.decode(ids),
            model=self.name,
            usage=Usage(prompt_tokens=len(prompt), reply_tokens=len(ids)),
            finish="stop" if ids and ids[-1] == self.lm.eos_token_id else "length",
        )


def _load_local_model(config: BenchmarkConfig, kind: str, argument: str, seed: int) -> LocalBackend:
    from envgen.coevolution.model_io import load_model
    from envgen.coevolution.trained_agent import load_agent

    lm = (
        load_model(argument, config.dtype, for_training=False)
        if kind == "hf"
        else load_agent(Path(argument), config.models_folder, config.dtype)
    )
    try:
        lm.model.to(config.device)  # pyright: ignore[reportArgumentType]  overloaded for other arguments
    except (RuntimeError, AssertionError) as error:
        raise EnvgenError(f"cannot use the device {config.device!r}: {str(error).splitlines()[0]}") from None
    if lm.model.device.type == "meta":
        raise EnvgenError(f"cannot use the device {config.device!r}: it holds no weights; use cpu or cuda")
    lm.model.eval()
    return LocalBackend(config.llm, lm, seed)
