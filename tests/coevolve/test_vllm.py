"""Texts drawn by a server, and weights sent to it. What sends them between GPUs (NCCL) is not run here."""

import inspect
import socket
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate.utils import DistributedType
from fake_vllm_server import Recorder, Server

from envgen.coevolve.language_model import ModelError, load
from envgen.coevolve.policy import Policy, Written
from envgen.coevolve.sampling import Local, sample
from envgen.coevolve.settings import Learning
from envgen.coevolve.vllm import Nccl, Served


@pytest.fixture
def lm(models):
    return load(models[0])


def prompts(lm):
    return [lm.prompt("", text) for text in ("a b : 1", "c : 1", "h g : 2 loud")]


def written(lm, url, each=1, limit=5, random=None, temperature=1.0, **options):
    return Served(url, pause=0, **options).write(lm, prompts(lm), each, limit, random, temperature)


def test_the_likeliest_texts_are_those_that_the_model_itself_says(lm):
    with Server(lm) as server:
        found = written(lm, server.url)
    own = sample(lm, prompts(lm), 1, 5, None)
    assert torch.equal(found.ids, own.ids)
    assert torch.equal(found.mask, own.mask)


def test_texts_belong_to_their_prompts_whatever_order_they_come_in(lm):
    with Server(lm) as server:
        found = written(lm, server.url, each=4, random=torch.Generator())
        server.random.manual_seed(0)
        own = sample(lm, prompts(lm), 4, 5, server.random)
    assert found.texts(lm) == own.texts(lm)


def test_they_are_drawn_from_the_whole_distribution_and_end_where_the_model_was_taught_to(lm):
    with Server(lm) as server:
        written(lm, f"{server.url}/v1/", each=4, limit=7, random=torch.Generator(), temperature=0.7)
    assert [path for path, _ in server.asked] == ["/v1/models", "/v1/completions"]
    body = server.asked[-1][1]
    assert body["prompt"] == prompts(lm)
    assert (body["model"], body["n"], body["max_tokens"], body["temperature"]) == ("the-model", 4, 7, 0.7)
    assert (body["top_p"], body["top_k"], body["min_p"], body["repetition_penalty"]) == (1.0, 0, 0.0, 1.0)
    assert (body["ignore_eos"], body["stop_token_ids"]) == (True, [lm.end])


def test_a_text_that_ended_has_its_end_and_one_that_was_cut_has_none(lm):
    told = [([9], "stop"), ([9, lm.end], "stop"), ([9, 9], "length")]
    choices = [{"index": k, "token_ids": ids, "finish_reason": why} for k, (ids, why) in enumerate(told)]
    with Server(answers=[(200, {"choices": choices})]) as server:
        found = written(lm, server.url)
    assert [row[there].tolist() for row, there in zip(found.ids, found.mask, strict=True)] == [
        [9, lm.end], [9, lm.end], [9, 9],
    ]  # fmt: skip


def test_a_busy_server_is_asked_again(lm):
    with Server(lm, [(503, b"busy"), (502, b"busy")]) as server:
        assert len(written(lm, server.url).ids) == 3


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((503, b"busy"), "refuses /v1/completions: 503 busy"),
        ((400, {"message": "too long"}), "400 .*too long"),
        ((200, b"<html>"), "not answered by a vLLM server"),
        ((200, {"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]}), "0.10.2"),
        ((200, {"choices": []}), "wrote 0 texts, not 3"),
    ],
)
def test_a_server_that_does_not_do_its_work_is_named_with_what_it_said(lm, answer, said):
    with Server(lm, [answer] * 3) as server, pytest.raises(ModelError, match=said) as error:
        written(lm, server.url)
    assert server.url in str(error.value)


def test_where_no_server_answers_it_is_said_how_to_start_one(lm):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ModelError, match=f"vllm serve MODEL --port {port} --weight-transfer-config"):
        Policy(lm, Learning(), 0, writer=Served(f"http://127.0.0.1:{port}", transfer=Recorder(), pause=0))
    for wrong in ("localhost:8000", "file:///etc/passwd", ""):
        with pytest.raises(ModelError, match="http://localhost:8000"):
            Served(wrong)


def test_the_server_has_the_weights_from_the_beginning_and_after_each_update_and_resume(lm):
    recorder = Recorder()
    with Server(lm) as server:
        writer = Served(server.url, transfer=recorder)
        policy = Policy(lm, Learning(learning_rate=1e-2, longest=4), 0, writer=writer)
        samples = policy.write(prompts(lm), 3)
        policy.learn(Written(prompts(lm), 3, samples, torch.linspace(-1, 1, 9)), "clipped")
        arrays, values = policy.state()
        policy.load(arrays, values)
    first, learned, loaded = recorder.sent
    own = dict(policy.lm.model.named_parameters())
    assert first.keys() == own.keys()  # those that share their numbers only once
    assert any(not np.array_equal(first[name], learned[name]) for name in own)
    for name, weights in own.items():
        assert np.array_equal(learned[name], weights.detach())
        assert np.array_equal(loaded[name], weights.detach())


def test_names_are_those_that_a_server_knows_whatever_training_wraps_the_model_in():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False))
    model.register_module("_checkpoint_wrapped_module", torch.nn.Linear(2, 2, bias=False))
    recorder = Recorder()
    accelerator = SimpleNamespace(
        unwrap_model=lambda wrapped: wrapped, is_main_process=True, device=torch.device("cpu"),
        wait_for_everyone=lambda: None,
    )  # fmt: skip
    with Server() as server:
        Served(server.url, transfer=recorder).follow(model, accelerator)
    assert list(recorder.sent[0]) == ["0.weight", "weight"]


def test_sending_weights_says_what_it_needs():
    with Server() as server, pytest.raises(ModelError, match="weights"):
        Nccl(server.url, 51216).send([], iter(()), torch.device("cpu"))


def test_trls_client_has_what_is_asked_of_it():
    client = pytest.importorskip("trl.generation.vllm_client").VLLMClient
    inspect.signature(client).bind("http://localhost:8000", group_port=51216)
    inspect.signature(client.init_communicator).bind(None, torch.device("cpu"))
    inspect.signature(client.update_named_params).bind(None, [("name", "float32", [1])], iter(()))
    inspect.signature(client.reset_prefix_cache).bind(None)


def test_a_sharded_model_is_refused_where_no_server_draws_for_it(lm):
    def launched(kind, fsdp2=True):
        return SimpleNamespace(distributed_type=kind, is_fsdp2=fsdp2, device=torch.device("cpu"))

    with pytest.raises(ModelError, match="name a vLLM server"):
        Policy(lm, Learning(), 0, launched(DistributedType.FSDP), Local())
    with pytest.raises(ModelError, match="fsdp_version: 2"):
        Policy(lm, Learning(), 0, launched(DistributedType.FSDP, False), Served("http://localhost:1"))
    with pytest.raises(ModelError, match=r"DEEPSPEED.*FSDP"):
        Policy(lm, Learning(), 0, launched(DistributedType.DEEPSPEED), Served("http://localhost:1"))
