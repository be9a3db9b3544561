"""Texts drawn by a vLLM server that is sent the weights after each update: for models that several processes train.

Each process asks for its own part of the texts over HTTP. The weights go from the main process straight to the GPUs of
the server (NCCL), by the client of TRL, which knows the protocols of vLLM's versions. A server draws by random numbers
of its own: runs that use one resume, but not bit for bit.
"""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from .language_model import Lm, ModelError
from .sampling import Samples

PORTS = (51216, 51217)  # of the groups that weights are sent in: the agent's and the environment's
WRAPPERS = ("_checkpoint_wrapped_module.", "_orig_mod.")  # what training puts into the names of parameters
BUSY = (500, 502, 503)
Told = tuple[str, str, list[int]]  # a parameter's name, number format and shape


class Transfer(Protocol):
    """A way from the main process to the server's GPUs."""

    def send(self, told: Sequence[Told], weights: Iterator[tuple[str, Tensor]], device: torch.device) -> None:
        """All `weights`, in the order in which they are `told`."""


class Nccl:
    """TRL's client, with a group of its own for each server."""

    def __init__(self, url: str, port: int):
        self.url, self.port = url, port
        self.client: Any = None

    def send(self, told: Sequence[Told], weights: Iterator[tuple[str, Tensor]], device: torch.device) -> None:
        try:
            if self.client is None:
                self.client = self._connected(device)
            self.client.update_named_params(list(told), weights)
            self.client.reset_prefix_cache()  # what was kept of prompts is of the old weights
        except ImportError as error:
            raise ModelError(f"weights are sent to vLLM with TRL: pip install 'trl[vllm]' ({error})") from None
        except Exception as error:  # TRL's client raises nothing narrower
            raise ModelError(f"cannot send the weights to the vLLM server at {self.url}: {error}") from error

    def _connected(self, device: torch.device) -> Any:
        from trl.generation.vllm_client import VLLMClient

        client = VLLMClient(self.url, group_port=self.port)
        client.init_communicator(device)
        return client


class Served:
    """A Writer (sampling.py): the server at `url` draws, and is sent the weights through `transfer`."""

    def __init__(
        self, url: str, port: int = PORTS[0], transfer: Transfer | None = None, tries: int = 3, pause: float = 2.0,
        timeout: float = 3600.0,
    ):  # fmt: skip
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ModelError(f"{url!r} is no address of a vLLM server; one is http://localhost:8000")
        self.url = url.rstrip("/").removesuffix("/v1")
        self.transfer = transfer or Nccl(self.url, port)
        self.tries, self.pause, self.timeout = tries, pause, timeout
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # one's own server: no proxy
        self._model: str | None = None

    def write(
        self, lm: Lm, prompts: Sequence[Sequence[int]], each: int, limit: int, random: torch.Generator | None,
        temperature: float,
    ) -> Samples:  # fmt: skip
        asked = {
            "model": self.reach(), "prompt": [list(prompt) for prompt in prompts], "n": each, "max_tokens": limit,
            "temperature": 0.0 if random is None else temperature, "return_token_ids": True,
            # drawn as the model says, and ended as it is taught to: nothing of its generation_config
            "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0,
            "ignore_eos": True, "stop_token_ids": [lm.end],
        }  # fmt: skip
        told = self._ask("/v1/completions", asked)
        try:
            choices = sorted(told["choices"], key=lambda choice: choice["index"])
            texts = [_ended(choice["token_ids"], choice["finish_reason"], lm.end) for choice in choices]
        except (KeyError, TypeError):
            raise ModelError(f"{self.url} does not tell the tokens of its texts: vLLM does from 0.10.2 on") from None
        if len(texts) != len(prompts) * each or not all(texts):
            raise ModelError(f"{self.url} wrote {sum(map(bool, texts))} texts, not {len(prompts) * each}")
        return Samples.of(texts, lm.pad)

    def follow(self, model: Any, accelerator: Any) -> None:
        """Send the weights as they are now. Every process must call it; none goes on before the server has them."""
        self.reach()
        inside = accelerator.unwrap_model(model)
        if accelerator.is_main_process:
            told = [
                (_plain(name), str(weights.dtype).removeprefix("torch."), list(weights.shape))
                for name, weights in inside.named_parameters()
            ]
            self.transfer.send(told, _whole(inside, accelerator.device), accelerator.device)
        else:
            for _ in _whole(inside, accelerator.device):  # each is put together from what all have of it
                pass
        accelerator.wait_for_everyone()

    def reach(self) -> str:
        """What the server calls its model; a ModelError that says how to start it, where none answers."""
        if self._model is None:
            try:
                self._model = str(self._ask("/v1/models")["data"][0]["id"])
            except (KeyError, IndexError, TypeError):
                raise ModelError(f"{self.url} serves no model; {self._how}") from None
        return self._model

    @property
    def _how(self) -> str:
        return (
            "start it with: VLLM_SERVER_DEV_MODE=1 vllm serve MODEL "
            f'--port {urlsplit(self.url).port or 8000} --weight-transfer-config \'{{"backend": "nccl"}}\''
        )

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON that the server answers, asked again where it is only busy."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        why = ""
        for attempt in range(self.tries):
            if attempt:
                time.sleep(self.pause * 2 ** (attempt - 1))
            try:
                with self._http.open(request, timeout=self.timeout) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                with error:
                    told = error.read(500).decode(errors="replace")
                why = f"the vLLM server at {self.url} refuses {path}: {error.code} {told}"
                if error.code not in BUSY:
                    break
            except (OSError, http.client.HTTPException) as error:
                why = f"no vLLM server answers at {self.url} ({error}); {self._how}"
            except ValueError as error:
                why = f"{self.url}{path} is not answered by a vLLM server ({error}); {self._how}"
                break
        raise ModelError(why)


def _ended(ids: list[int], reason: str, end: int) -> list[int]:
    """With its end, where it has one."""
    return [*ids, end] if reason == "stop" and ids[-1:] != [end] else list(ids)


def _whole(model: nn.Module, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """Each parameter in turn, once and unsharded. All processes must go through them together."""
    for name, weights in model.named_parameters():
        found = weights.detach()
        yield _plain(name), (found.full_tensor() if isinstance(found, DTensor) else found).to(device)


def _plain(name: str) -> str:
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name
