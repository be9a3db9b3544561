"""Generation by a vLLM server and weight transfer to it, except the transfer between GPUs (NCCL)."""

import inspect
import socket
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate.utils import DistributedType
from fake_vllm_server import FakeVllmServer, RecordingTransfer

from envgen.coevolution.language_model import ModelError
from envgen.coevolution.model_io import load_model
from envgen.coevolution.policy import LanguageModelPolicy, TrainBatch
from envgen.coevolution.sampling import HfSampler, generate
from envgen.coevolution.settings import PolicySettings
from envgen.coevolution.vllm import NcclTransfer, VllmSampler


@pytest.fixture
def lm(models):
    return load_model(models[0])


def encode_prompts(lm):
    return [lm.encode_prompt("", text) for text in ("a b : 1", "c : 1", "h g : 2 loud")]


def generate_remotely(lm, url, num_generations=1, max_new_tokens=5, rng=None, temperature=1.0):
    sampler = VllmSampler(url, retry_delay=0)
    return sampler.generate(lm, encode_prompts(lm), num_generations, max_new_tokens, rng, temperature)


def test_greedy_completions_equal_those_of_the_model(lm):
    with FakeVllmServer(lm) as server:
        completions = generate_remotely(lm, server.url)
    expected = generate(lm, encode_prompts(lm), 1, 5, None)
    assert torch.equal(completions.ids, expected.ids)
    assert torch.equal(completions.mask, expected.mask)


def test_completions_match_their_prompts_in_any_order(lm):
    with FakeVllmServer(lm) as server:
        completions = generate_remotely(lm, server.url, num_generations=4, rng=torch.Generator())
        server.rng.manual_seed(0)
        expected = generate(lm, encode_prompts(lm), 4, 5, server.rng)
    assert completions.decode(lm) == expected.decode(lm)


class Counting:
    """Answers every turn with three tokens."""

    def __init__(self):
        self.num_turns = 0

    def answer(self, tokens):
        self.num_turns += 1
        return [5, 6, 7] if self.num_turns < 20 else None


def test_conversations_end_when_the_servers_context_is_full(lm):
    prompts, conversations = [[6], [6] * 9], [Counting() for _ in range(4)]
    with FakeVllmServer(lm, max_model_len=40) as server:
        completions = VllmSampler(server.url).generate(lm, prompts, 2, 4, None, 1.0, conversations)
    prompt_lengths = torch.tensor([1, 1, 9, 9])
    assert all(0 < conversation.num_turns < 20 for conversation in conversations)
    assert completions.generated[range(4), completions.mask.sum(1) - 1].all()  # the last turn has no answer
    lengths = completions.mask.sum(1) + prompt_lengths
    assert (lengths <= 40).all()
    assert (lengths + 3 + 4 > 40).all()  # no room for the answer and another turn
    conversations = [Counting() for _ in range(4)]
    with FakeVllmServer(lm) as server:  # one that does not say how long its context is
        VllmSampler(server.url).generate(lm, prompts, 2, 4, None, 1.0, conversations)
    assert [conversation.num_turns for conversation in conversations] == [20] * 4


def test_request_samples_the_full_distribution_and_stops_at_the_tokenizers_end(lm):
    with FakeVllmServer(lm) as server:
        generate_remotely(lm, f"{server.url}/v1/", 4, 7, torch.Generator(), 0.7)
    assert [path for path, _ in server.requests] == ["/v1/models", "/v1/completions"]
    body = server.requests[-1][1]
    assert body["prompt"] == encode_prompts(lm)
    assert (body["model"], body["n"], body["max_tokens"], body["temperature"]) == ("the-model", 4, 7, 0.7)
    assert (body["top_p"], body["top_k"], body["min_p"], body["repetition_penalty"]) == (1.0, 0, 0.0, 1.0)
    assert (body["ignore_eos"], body["stop_token_ids"]) == (True, [lm.eos_token_id])


def test_finished_completions_end_with_eos_and_truncated_ones_do_not(lm):
    finished = [([9], "stop"), ([9, lm.eos_token_id], "stop"), ([9, 9], "length")]
    choices = [{"index": k, "token_ids": ids, "finish_reason": why} for k, (ids, why) in enumerate(finished)]
    with FakeVllmServer(responses=[(200, {"choices": choices})]) as server:
        completions = generate_remotely(lm, server.url)
    assert [ids[mask].tolist() for ids, mask in zip(completions.ids, completions.mask, strict=True)] == [
        [9, lm.eos_token_id], [9, lm.eos_token_id], [9, 9],
    ]  # fmt: skip


def test_requests_are_repeated_while_the_server_is_busy(lm):
    with FakeVllmServer(lm, [(503, b"busy"), (502, b"busy")]) as server:
        assert len(generate_remotely(lm, server.url).ids) == 3


def test_requests_leave_no_open_sockets(lm):
    with warnings.catch_warnings(), FakeVllmServer(lm, [(503, b"busy")]) as server:
        warnings.simplefilter("error", ResourceWarning)
        generate_remotely(lm, server.url)


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ((503, b"busy"), "rejects /v1/completions: 503 busy"),
        ((400, {"message": "too long"}), "400 .*too long"),
        ((200, b"<html>"), "is not a vLLM endpoint"),
        ((200, {"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]}), "0.10.2"),
        ((200, {"choices": []}), "returned 0 completions, not 3"),
    ],
)
def test_failing_server_is_named_with_its_response(lm, response, message):
    with FakeVllmServer(lm, [response] * 3) as server, pytest.raises(ModelError, match=message) as error:
        generate_remotely(lm, server.url)
    assert server.url in str(error.value)


def test_missing_server_and_bad_addresses_are_explained(lm):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    sampler = VllmSampler(f"http://127.0.0.1:{port}", transfer=RecordingTransfer(), retry_delay=0)
    with pytest.raises(ModelError, match=f"vllm serve MODEL --port {port} --weight-transfer-config"):
        LanguageModelPolicy(lm, PolicySettings(), 0, sampler=sampler)
    urls = ("localhost:8000", "file:///etc/passwd", "", "foo:bar", "http://[", "http://localhost:99999", "http://a:0")
    for url in urls:
        with pytest.raises(ModelError, match="http://localhost:8000"):
            VllmSampler(url)
    with pytest.raises(ModelError, match="is not a vLLM endpoint"):
        VllmSampler("http://exa\nmple").check()


def test_the_library_that_sends_weights_is_needed_from_the_start(lm, monkeypatch):
    monkeypatch.setattr("envgen.coevolution.vllm.is_installed", lambda library: False)
    with FakeVllmServer(lm) as server:
        VllmSampler(server.url, transfer=RecordingTransfer()).check()
        with pytest.raises(ModelError, match="weight transfer to vLLM needs TRL: pip install"):
            VllmSampler(server.url).check()


def test_weights_are_sent_at_the_start_after_each_update_and_after_loading(lm):
    transfer = RecordingTransfer()
    with FakeVllmServer(lm) as server:
        sampler = VllmSampler(server.url, transfer=transfer)
        policy = LanguageModelPolicy(lm, PolicySettings(learning_rate=1e-2, max_new_tokens=4), 0, sampler=sampler)
        completions = policy.generate(encode_prompts(lm), 3)
        policy.update(TrainBatch(encode_prompts(lm), 3, completions, torch.linspace(-1, 1, 9)), "ppo_clip")
        arrays, values = policy.state()
        policy.load(arrays, values)
    initial, updated, loaded = transfer.sent
    parameters = dict(policy.lm.model.named_parameters())
    assert initial.keys() == parameters.keys()  # tied parameters only once
    assert any(not np.array_equal(initial[name], updated[name]) for name in parameters)
    for name, parameter in parameters.items():
        assert np.array_equal(updated[name], parameter.detach())
        assert np.array_equal(loaded[name], parameter.detach())


def test_parameter_names_have_no_wrapper_prefixes():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False))
    model.register_module("_checkpoint_wrapped_module", torch.nn.Linear(2, 2, bias=False))
    transfer = RecordingTransfer()
    accelerator = SimpleNamespace(
        unwrap_model=lambda wrapped: wrapped, is_main_process=True, device=torch.device("cpu"),
        wait_for_everyone=lambda: None,
    )  # fmt: skip
    with FakeVllmServer() as server:
        VllmSampler(server.url, transfer=transfer).sync_weights(model, accelerator)
    assert list(transfer.sent[0]) == ["0.weight", "weight"]


def test_failed_weight_transfer_is_explained():
    with FakeVllmServer() as server, pytest.raises(ModelError, match="weight"):
        NcclTransfer(server.url, 51216).send([], iter(()), torch.device("cpu"))


def test_trl_client_has_the_expected_interface():
    client = pytest.importorskip("trl.generation.vllm_client").VLLMClient
    inspect.signature(client).bind("http://localhost:8000", group_port=51216)
    inspect.signature(client.init_communicator).bind(None, torch.device("cpu"))
    inspect.signature(client.update_named_params).bind(None, [("name", "float32", [1])], iter(()))
    inspect.signature(client.reset_prefix_cache).bind(None)


def test_unsupported_launches_are_refused(lm):
    def fake_accelerator(kind, is_fsdp2=True):
        return SimpleNamespace(distributed_type=kind, is_fsdp2=is_fsdp2, device=torch.device("cpu"))

    remote = VllmSampler("http://localhost:1")
    with pytest.raises(ModelError, match="vLLM server"):
        LanguageModelPolicy(lm, PolicySettings(), 0, fake_accelerator(DistributedType.FSDP), HfSampler())
    with pytest.raises(ModelError, match="fsdp_version: 2"):
        LanguageModelPolicy(lm, PolicySettings(), 0, fake_accelerator(DistributedType.FSDP, False), remote)
    with pytest.raises(ModelError, match=r"DEEPSPEED.*FSDP"):
        LanguageModelPolicy(lm, PolicySettings(), 0, fake_accelerator(DistributedType.DEEPSPEED), remote)
