"""The dry run counts what models hold, and its commands start the run that it describes."""

import shlex
from typing import Any

import pytest
from toy import Toy
from transformers import Qwen2Config

from envgen.coevolution import dry_run
from envgen.coevolution.domains.registry import load_domain
from envgen.coevolution.dry_run import (
    GB,
    Layout,
    Lengths,
    ModelShape,
    PolicyMemory,
    choose_layout,
    context_length,
    describe_dry_run,
    estimate_hours,
    load_shape,
    measure_lengths,
    policy_memory,
    seconds_per_token,
)
from envgen.coevolution.environment import STATIC_BATCH
from envgen.coevolution.language_model import ModelError
from envgen.coevolution.lora import add_adapters
from envgen.coevolution.model_io import load_model
from envgen.coevolution.policy import LanguageModelPolicy, TrainBatch
from envgen.coevolution.settings import AgentSettings, CoevolutionPlan, ModelSize, PolicySettings
from envgen.coevolution.train import CoevolveRequest

QWEN_7B = Qwen2Config(
    vocab_size=152064, hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
    num_key_value_heads=4, tie_word_embeddings=False,
)  # fmt: skip
LENGTHS = Lengths(prompt=10, completion=20, turns=1, is_estimate=False)
MEMORY = PolicyMemory(1, 1, 1, 1, 1, 1)


@pytest.fixture(scope="module")
def large_shape():
    return ModelShape.from_config(QWEN_7B)


def memory(shape, layout=Layout(1, False), **settings):  # noqa: B008
    return policy_memory(shape, PolicySettings(microbatch_size=8, **settings), LENGTHS, 64, 8, 4, layout)


def test_a_7b_model_has_its_known_size(large_shape):
    assert large_shape.num_parameters == 7_615_616_512
    assert large_shape.num_adapter_parameters(16) == 40_370_176  # of all linear layers but the output layer
    assert large_shape.kv_width * large_shape.num_layers * 2 == 57_344  # bytes per token in bfloat16


@pytest.mark.parametrize("microbatch_size", [8, 4096])
def test_reward_weighted_regression_learns_from_single_completions(large_shape, microbatch_size):
    """Each of its completions has a prompt of its own, while generated groups share theirs."""
    settings = PolicySettings(microbatch_size=microbatch_size)

    def update(**options):
        return policy_memory(large_shape, settings, LENGTHS, 64, 8, 4, Layout(1, False), **options).update

    in_groups, single = update(), update(update_batch=64)
    sequences = min(microbatch_size, 64)
    assert single - in_groups == (sequences - sequences // 8) * LENGTHS.prompt * large_shape.activation_bytes(4)
    assert update(update_batch=128) == (single if microbatch_size == 8 else 2 * single)


def test_replay_needs_memory_in_updates_of_the_environment(models):
    def total(proposer="genenv", **settings):
        text = describe(models, proposer=proposer, environment_settings={"max_new_tokens": 2000, **settings})
        return float(text.split("together at most ")[1].split()[0])

    assert total(replay_ratio=16.0) > 2 * total(replay_ratio=1.0)
    assert total("genenv-grpo") < total(replay_ratio=1.0)


@pytest.mark.parametrize("rank", [None, 4])
def test_the_states_are_those_of_a_policy(models, rank):
    lm = load_model(models[0])
    shape, _ = load_shape(str(models[0]))
    settings = PolicySettings(lora_rank=rank, kl_coef=0.1)
    policy = LanguageModelPolicy(lm, settings, seed=0)
    policy.update(TrainBatch.from_texts(lm, [lm.encode_prompt("", "a b : 1")], ["a"], [1.0]), "weighted_nll")

    def num_bytes(tensors):
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    estimate = memory(shape, kl_coef=0.1, lora_rank=rank)
    parameters = list(lm.model.parameters())
    assert estimate.weights == num_bytes(parameters)
    assert estimate.gradients == num_bytes(p.grad for p in parameters if p.grad is not None)
    moments = [value for state in policy.optimizer.state.values() for value in state.values() if value.ndim]
    assert estimate.optimizer == num_bytes(moments)
    reference = policy.ref_model.parameters() if policy.ref_model is not None else ()
    assert estimate.reference == num_bytes(reference)


def test_the_adapters_are_those_of_peft(models):
    shape, _ = load_shape(str(models[0]))
    model = load_model(models[0]).model
    add_adapters(model, 4, 8, seed=0)
    assert shape.num_adapter_parameters(4) == sum(p.numel() for p in model.parameters() if p.requires_grad)


def test_shards_and_servers_and_copies(large_shape):
    whole, sharded = memory(large_shape), memory(large_shape, Layout(6, True))
    assert sharded.weights == whole.weights / 6
    assert (whole.generation > 0, sharded.generation) == (True, 0)
    assert memory(large_shape, Layout(2, False)).gradients == 2 * whole.gradients
    assert whole.states / GB == pytest.approx(7.6156 * (16 + 4), rel=1e-3)  # with the reference model


def test_lengths_count_the_tokens_of_sampled_tasks(models):
    tokenizer = load_model(models[0]).tokenizer
    counted, estimated = (measure_lengths(Toy(), PolicySettings(max_new_tokens=7), t) for t in (tokenizer, None))
    assert (counted.completion, counted.turns, counted.is_estimate) == (7, 1, False)
    assert 2 <= counted.prompt <= 10
    assert estimated.is_estimate


@pytest.mark.parametrize(
    ("num_gpus", "num_models", "uses_adapters", "layout"),
    [
        (1, 2, False, Layout(1, False)),
        (3, 2, False, Layout(3, False)),
        (8, 2, True, Layout(8, False)),
        (8, 2, False, Layout(6, True)),
        (8, 1, False, Layout(7, True, num_models=1)),
    ],
)
def test_layouts(num_gpus, num_models, uses_adapters, layout):
    assert choose_layout(num_gpus, num_models, uses_adapters) == layout


def describe(
    models, num_gpus=1, gpu_memory=80.0, argv=("toy", "--agent", "a b"), proposer="genenv", servers=None, **fields
):
    agent, environment = map(str, models)
    request = CoevolveRequest(proposer=proposer, agent=agent, environment=environment, **fields)
    return describe_dry_run(Toy(), request, None, "float32", num_gpus, gpu_memory, argv, servers or {})


def test_commands_start_the_run(models):
    single = describe(models).splitlines()
    assert shlex.split(single[-1]) == ["envgen", "coevolve", "toy", "--agent", "a b"]
    *servers, run = [shlex.split(line) for line in describe(models, num_gpus=8).splitlines()[-3:]]
    assert [line[0] for line in (*servers, run)] == [
        "CUDA_VISIBLE_DEVICES=6", "CUDA_VISIBLE_DEVICES=7", "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5"
    ]  # fmt: skip
    assert [line[line.index("serve") + 1] for line in servers] == list(map(str, models))
    assert run[-4:] == ["--agent-server", "http://localhost:8000", "--environment-server", "http://localhost:8001"]
    adapters: dict[str, Any] = {"agent_settings": {"lora_rank": 2}, "environment_settings": {"lora_rank": 2}}
    parallel = shlex.split(describe(models, num_gpus=8, **adapters).splitlines()[-1])
    assert parallel[:3] == ["accelerate", "launch", "--multi_gpu"]
    assert "8" in parallel


@pytest.mark.parametrize(
    ("option", "port", "other_port"),
    [
        ("--agent-server=http://gpu:9000", "9000", "8001"),
        ("--agent_server http://gpu:9000", "9000", "8001"),
        ("--agent-server http://localhost:8001", "8001", "8002"),
    ],
)
def test_a_server_that_is_given_keeps_its_address(models, option, port, other_port):
    argv, servers = ("toy", *option.split()), {"agent": option.replace("=", " ").split()[1], "environment": None}
    agent, environment, run = describe(models, num_gpus=8, argv=argv, servers=servers).splitlines()[-3:]
    ports = [line[line.index("--port") + 1] for line in map(shlex.split, (agent, environment))]
    assert ports == [port, other_port]
    assert (run.count("agent-server") + run.count("agent_server"), run.count("environment-server")) == (1, 1)
    assert run.endswith(f"{option} --environment-server http://localhost:{other_port}")


def test_servers_have_room_for_the_sequences_of_both_models():
    short, long = LENGTHS, Lengths(prompt=500, completion=20, turns=1, is_estimate=True)
    assert (context_length([short]), context_length([short, long])) == (64, 2048)


def test_without_environment_model_there_is_one_model_and_one_server(models):
    assert "\none GPU with the model\n" in describe(models, proposer="uniform")
    text = describe(models, num_gpus=8, proposer="uniform")
    assert "7 GPUs train, each with a share of the model (FSDP2), and 1 generates" in text
    server, run = text.splitlines()[-2:]
    assert shlex.split(server)[0] == "CUDA_VISIBLE_DEVICES=7"
    assert run.endswith("--agent-server http://localhost:8000")


@pytest.mark.parametrize(
    ("proposer", "agent_rank", "environment_rank", "is_sharded"),
    [("genenv", 2, None, False), ("genenv", None, 2, False), ("uniform", 2, None, False), ("uniform", None, 2, True)],
)
def test_models_are_sharded_only_if_none_of_them_has_adapters(
    models, proposer, agent_rank, environment_rank, is_sharded
):
    settings: dict[str, Any] = {
        "agent_settings": {"lora_rank": agent_rank}, "environment_settings": {"lora_rank": environment_rank}
    }  # fmt: skip
    assert ("FSDP2" in describe(models, num_gpus=8, proposer=proposer, **settings)) == is_sharded


def test_the_assumed_speed_is_the_one_of_the_estimate(models, large_shape):
    assert "0.03 s per token" in describe(models)
    assert seconds_per_token(large_shape, dtype_bytes=2) == 0.03
    assert seconds_per_token(large_shape, dtype_bytes=100) == pytest.approx(0.38, abs=0.01)


def test_evaluations_take_the_time_of_the_batches_that_they_generate(large_shape):
    def hours(num_eval_tasks):
        plan = CoevolutionPlan(rollouts=2560, tasks_per_step=32, eval_every=5, num_eval_tasks=num_eval_tasks)
        agent = AgentSettings(num_generations=8, max_new_tokens=100)
        request = CoevolveRequest(proposer="genenv", agent="a", environment="b", plan=plan, agent_settings=agent)
        return estimate_hours(request, large_shape, LENGTHS, Layout(1, False), 2)

    seconds_per_batch = 100 * seconds_per_token(large_shape, 2)
    assert hours(256) == hours(1)  # 32 tasks with 8 completions each are generated together
    assert 3600 * (hours(600) - hours(256)) == pytest.approx(3 * (3 - 1) * seconds_per_batch)  # 3 evaluations


def test_it_says_whether_the_memory_is_enough_and_what_reduces_it(models):
    assert "which fits into 80 GB" in describe(models)
    text = describe(models, gpu_memory=1e-6)
    assert "does not fit into 1e-06 GB" in text
    assert "--agent.lora-rank 16" in text


def test_small_models_need_no_gpu():
    request = CoevolveRequest(proposer="uniform", agent="", environment="")
    text = describe_dry_run(Toy(), request, ModelSize(), "float32", 1, 80.0, ["tools"], {})
    assert "pretrained first" in text
    assert text.endswith("\nenvgen coevolve tools")


@pytest.mark.parametrize("path", ["/nope", "folder"])
def test_a_model_without_config_is_refused(tmp_path, path):
    with pytest.raises(ModelError, match="cannot read the config of the model"):
        load_shape(path if path != "folder" else str(tmp_path))


def test_the_context_holds_the_longest_episodes():
    """An agent that fails uses all turns of an episode, many more than the oracle."""
    settings = PolicySettings(max_new_tokens=256)
    lengths = measure_lengths(load_domain("alfworld"), settings, None)
    assert lengths.longest > lengths.prompt + 24 * settings.max_new_tokens
    assert context_length([lengths]) >= lengths.longest > 2 * lengths.total


def test_the_static_set_is_generated_in_large_batches(models, monkeypatch):
    batches = {}
    monkeypatch.setattr(
        dry_run, "policy_memory",
        lambda shape, settings, lengths, batch, *args: batches.setdefault(proposer, []).append(batch) or MEMORY,
    )  # fmt: skip
    for proposer in ("genenv", "static"):
        request = CoevolveRequest(proposer=proposer, agent=str(models[0]), environment=str(models[1]))
        describe_dry_run(Toy(), request, None, "float32", 1, 80, [], {})
    assert batches == {"genenv": [256, 32], "static": [256, STATIC_BATCH]}


def test_a_proposer_that_is_not_trained_holds_weights_only(large_shape):
    trained, frozen = (
        policy_memory(large_shape, PolicySettings(kl_coef=0.01), LENGTHS, 8, 8, 4, Layout(1, False), is_trained)
        for is_trained in (True, False)
    )
    assert (frozen.weights, frozen.generation) == (trained.weights, trained.generation)
    assert frozen.gradients == frozen.optimizer == frozen.reference == frozen.update == 0
