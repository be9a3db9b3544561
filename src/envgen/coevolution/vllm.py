"""Generation by a vLLM server that receives the weights after each update: for models trained by several processes.

Each process requests its own share of the completions over HTTP. The weights go from the main process straight to the
GPUs of the server (NCCL), through TRL's client, which knows the protocols of vLLM's versions. A server samples with its
own random state: runs that use one can be resumed, but not bit for bit.
"""

import math
import shlex
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from envgen.imports import is_installed

from .language_model import LanguageModel, ModelError
from .lora import base_parameters, merged_weights
from .sampling import Completions, Conversation, generate_turn_by_turn

GROUP_PORTS = (51216, 51217)  # for weight transfer to the servers of the agent and the environment
WRAPPERS = ("_checkpoint_wrapped_module.", "_orig_mod.")  # prefixes that training adds to parameter names
MISSING_TRL = "weight transfer to vLLM needs TRL"
RETRY_STATUSES = (500, 502, 503)
ParameterInfo = tuple[str, str, list[int]]  # name, dtype and shape


class WeightTransfer(Protocol):
    """Sends weights from the main process to the server's GPUs."""

    def send(
        self, parameters: Sequence[ParameterInfo], weights: Iterator[tuple[str, Tensor]], device: torch.device
    ) -> None:
        """Send all `weights`, in the order of `parameters`."""
        ...


class NcclTransfer:
    """TRL's client, with a process group of its own for each server."""

    def __init__(self, url: str, port: int):
        self.url, self.port = url, port
        self.client: Any = None

    def send(
        self, parameters: Sequence[ParameterInfo], weights: Iterator[tuple[str, Tensor]], device: torch.device
    ) -> None:
        try:
            if self.client is None:
                self.client = self._connect(device)
            self.client.update_named_params(list(parameters), weights)
            self.client.reset_prefix_cache()  # cached prefixes belong to the old weights
        except ImportError as error:
            raise ModelError(f"{MISSING_TRL}: pip install 'trl[vllm]' ({error})") from None
        except Exception as error:  # TRL's client raises nothing narrower
            message = f"cannot send the weights to the vLLM server at {self.url}: {error}"
            raise ModelError(f"{message}; restart the server, then resume the run") from error

    def _connect(self, device: torch.device) -> Any:
        from trl.generation.vllm_client import VLLMClient

        client = VLLMClient(self.url, group_port=self.port)
        client.init_communicator(device)
        return client


class VllmSampler:
    """A Sampler (sampling.py): the server at `url` generates and receives the weights through `transfer`.

    A conversation ends when the server's context has no room for another turn.
    """

    def __init__(
        self, url: str, port: int = GROUP_PORTS[0], transfer: WeightTransfer | None = None, max_attempts: int = 3,
        retry_delay: float = 2.0, timeout: float = 3600.0,
    ):  # fmt: skip
        check_server_address(url)
        self.url = url.rstrip("/").removesuffix("/v1")
        self.transfer = transfer or NcclTransfer(self.url, port)
        self.max_attempts, self.retry_delay, self.timeout = max_attempts, retry_delay, timeout
        self._model: dict[str, Any] | None = None  # the id of the served model and the length of its context

    def check(self) -> None:
        self.model_id()
        if isinstance(self.transfer, NcclTransfer) and not is_installed("trl"):
            raise ModelError(f"{MISSING_TRL}: pip install 'trl[vllm]'")

    def generate(
        self, lm: LanguageModel, prompts: Sequence[Sequence[int]], num_generations: int, max_new_tokens: int,
        rng: torch.Generator | None, temperature: float, conversations: Sequence[Conversation] | None = None,
    ) -> Completions:  # fmt: skip
        if conversations is not None:

            def generate(histories: Sequence[Sequence[int]], count: int) -> Completions:
                return self.generate(lm, histories, count, max_new_tokens, rng, temperature)

            room = self.max_model_len() - max_new_tokens
            return generate_turn_by_turn(generate, prompts, num_generations, conversations, lm.pad_token_id, room)
        body = {
            "model": self.model_id(), "prompt": [list(prompt) for prompt in prompts], "n": num_generations,
            "max_tokens": max_new_tokens, "temperature": 0.0 if rng is None else temperature, "return_token_ids": True,
            # sample from the full distribution and stop at the tokenizer's end, whatever generation_config says
            "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0,
            "ignore_eos": True, "stop_token_ids": [lm.eos_token_id],
        }  # fmt: skip
        response = self._request("/v1/completions", body)
        try:
            choices = sorted(response["choices"], key=lambda choice: choice["index"])
            token_lists = [
                _with_eos(choice["token_ids"], choice["finish_reason"], lm.eos_token_id) for choice in choices
            ]
        except (KeyError, TypeError):
            raise ModelError(f"{self.url} does not return token ids; upgrade vLLM to 0.10.2 or later") from None
        expected = len(prompts) * num_generations
        if len(token_lists) != expected or not all(token_lists):
            returned = sum(map(bool, token_lists))
            raise ModelError(f"{self.url} returned {returned} completions, not {expected}; check the server's log")
        return Completions.from_token_lists(token_lists, lm.pad_token_id)

    def sync_weights(self, model: Any, accelerator: Any) -> None:
        """Send the current weights. Every process must call it; none continues before the server has them."""
        self.model_id()
        unwrapped = accelerator.unwrap_model(model)
        weights = _full_weights(unwrapped, accelerator.device)
        if accelerator.is_main_process:
            parameters = [
                (_plain_name(name), str(parameter.dtype).removeprefix("torch."), list(parameter.shape))
                for name, parameter, _ in base_parameters(unwrapped)
            ]
            self.transfer.send(parameters, weights, accelerator.device)
        else:
            for _ in weights:  # gathering a sharded parameter needs all processes
                pass
        accelerator.wait_for_everyone()

    def model_id(self) -> str:
        """The name of the served model; a ModelError that says how to start a server if none answers."""
        return str(self._served_model()["id"])

    def max_model_len(self) -> float:
        """The tokens of a prompt and its completion that the server accepts; infinite where it does not say."""
        length = self._served_model().get("max_model_len")
        return length if isinstance(length, int) else math.inf

    def _served_model(self) -> dict[str, Any]:
        if self._model is None:
            try:
                model = self._request("/v1/models")["data"][0]
                self._model = {"id": model["id"], "max_model_len": model.get("max_model_len")}
            except (KeyError, IndexError, TypeError, AttributeError):
                raise ModelError(f"{self.url} serves no model; {self._start_hint}") from None
        return self._model

    @property
    def _start_hint(self) -> str:
        return f"start it with: {serve_command('MODEL', urlsplit(self.url).port or 8000)}"

    def _request(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON response of the server. Requests are repeated while it is busy or does not respond."""
        try:
            import httpx2
        except ImportError:
            raise ModelError("a vLLM server needs httpx2: pip install 'envgen[vllm]'") from None
        message = ""
        # trust_env=False: no proxy between a training machine and its own server
        with httpx2.Client(timeout=httpx2.Timeout(self.timeout, connect=30.0), trust_env=False) as client:
            for attempt in range(self.max_attempts):
                if attempt:
                    time.sleep(self.retry_delay * 2 ** (attempt - 1))
                try:
                    response = client.request("GET" if body is None else "POST", self.url + path, json=body)
                    if response.is_success:
                        return response.json()
                    message = (
                        f"the vLLM server at {self.url} rejects {path}: {response.status_code} {response.text[:500]}; "
                        "correct what this response names, or check the server's log"
                    )
                    if response.status_code not in RETRY_STATUSES:
                        break
                except httpx2.TransportError as error:
                    message = f"no vLLM server answers at {self.url} ({error}); {self._start_hint}"
                except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
                    message = f"{self.url}{path} is not a vLLM endpoint ({error}); {self._start_hint}"
                    break
        raise ModelError(message)


def check_server_address(url: str) -> None:
    """Raise ModelError if this is not the address of a server, without connecting to it."""
    try:
        parts = urlsplit(url)
        is_address = (
            isinstance(url, str) and parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        )
    except (ValueError, AttributeError):  # of a malformed host or a port beyond 65535, and of what is no text
        is_address = False
    if not is_address:
        raise ModelError(f"{url!r:.200} is not the address of a vLLM server; an example is http://localhost:8000")


def serve_command(model: str, port: int, options: str = "") -> str:
    """The shell command that starts a server which can receive weights."""
    return (
        f"VLLM_SERVER_DEV_MODE=1 vllm serve {shlex.quote(model)} --port {port} {options}"
        '--weight-transfer-config \'{"backend": "nccl"}\''
    )


def _with_eos(token_ids: list[int], finish_reason: str, eos_token_id: int) -> list[int]:
    """The tokens with the end-of-sequence token, if the completion ended."""
    return [*token_ids, eos_token_id] if finish_reason == "stop" and token_ids[-1:] != [eos_token_id] else [*token_ids]


def _full_weights(model: nn.Module, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """Each parameter once and unsharded. All processes must iterate together."""
    for name, parameter, layer in base_parameters(model):
        weights = merged_weights(parameter, layer).detach()
        yield _plain_name(name), (weights.full_tensor() if isinstance(weights, DTensor) else weights).to(device)


def _plain_name(name: str) -> str:
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name
