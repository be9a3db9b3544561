"""Adapters learn in place of the weights, and everything that uses a policy sees the model with them."""

import copy

import numpy as np
import pytest
import torch
from accelerate.utils import DistributedType
from fake_vllm_server import FakeVllmServer, RecordingTransfer
from test_model_io import MOE, make_model
from toy import Toy

from envgen.coevolution.language_model import ModelError
from envgen.coevolution.lora import (
    adapters_disabled,
    add_adapters,
    base_parameters,
    merged_state_dict,
    merged_weights,
)
from envgen.coevolution.model_io import load_model
from envgen.coevolution.policy import LanguageModelPolicy, TrainBatch
from envgen.coevolution.settings import AgentSettings, CoevolutionPlan, EnvironmentSettings, PolicySettings
from envgen.coevolution.train import CoevolveRequest, coevolve
from envgen.coevolution.trained_agent import load_agent, save_agent
from envgen.coevolution.vllm import VllmSampler
from envgen.imports import MissingExtraError
from run_results import progress_without_times

pytest.importorskip("peft")
SETTINGS = PolicySettings(learning_rate=1e-2, lora_rank=4, lora_alpha=8, kl_coef=0.1, epochs=2, num_minibatches=2)
TEXTS = ("a b : 1", "c : 1", "h g : 2 loud")


def make_policy(models, **changes):
    return LanguageModelPolicy(load_model(models[0]), SETTINGS.model_copy(update=changes), seed=3)


def make_batch(policy):
    prompts = [policy.lm.encode_prompt("", text) for text in TEXTS]
    completions = policy.generate(prompts, 4)
    return TrainBatch(prompts, 4, completions, torch.linspace(-1, 1, len(completions.ids)))


def logits(model):
    return model(input_ids=torch.arange(2, 30)[None]).logits.detach()


def test_new_adapters_change_nothing(models):
    lm = load_model(models[0])
    before = logits(lm.model)
    add_adapters(lm.model, 4, 8, seed=0)
    assert torch.equal(logits(lm.model), before)


def test_updates_change_the_adapters_alone(models):
    policy = make_policy(models)
    before = {name: parameter.clone() for name, parameter in policy.lm.model.named_parameters()}
    metrics = policy.update(make_batch(policy), "ppo_clip")
    changed = {
        name for name, parameter in policy.lm.model.named_parameters() if not torch.equal(parameter, before[name])
    }
    assert changed == {name for name in before if ".lora_" in name}
    assert metrics["kl"] > 0


def test_the_kl_penalty_refers_to_the_model_without_adapters(models):
    policy = make_policy(models)
    batch = make_batch(policy)
    policy.update(batch, "ppo_clip")
    initial = LanguageModelPolicy(load_model(models[0]), PolicySettings(kl_coef=0.0), seed=3)
    indices = np.arange(len(TEXTS))
    mask = batch.completions.mask
    ref_logps = policy._ref_logps(batch, indices, "weighted_nll")
    torch.testing.assert_close(ref_logps[mask], initial._logps(batch, indices, "weighted_nll")[mask])
    assert (policy._logps(batch, indices, "weighted_nll") - ref_logps)[mask].abs().max() > 1e-3
    assert policy.ref_model is None


def test_adapters_of_models_in_bfloat16_are_float32(models):
    lm = load_model(models[0], "bfloat16")
    policy = LanguageModelPolicy(lm, SETTINGS, seed=3)
    dtypes = {(".lora_" in name, parameter.dtype) for name, parameter in lm.model.named_parameters()}
    assert dtypes == {(True, torch.float32), (False, torch.bfloat16)}
    assert np.isfinite(list(policy.update(make_batch(policy), "ppo_clip").values())).all()


def test_a_state_holds_the_adapters_and_continues_exactly(models):
    policy = make_policy(models)
    policy.update(make_batch(policy), "ppo_clip")
    arrays, values = policy.state()
    assert all(".lora_" in name for name in arrays if name.startswith(("model.", "optimizer.")))
    restored = make_policy(models)
    restored.load(copy.deepcopy(arrays), copy.deepcopy(values))
    results = []
    for each in (policy, restored):
        batch = make_batch(each)
        results.append((batch.completions.ids, each.update(batch, "ppo_clip"), each.state()[0]))
    assert torch.equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    for name, array in results[0][2].items():
        np.testing.assert_array_equal(array, results[1][2][name])


def test_a_state_of_other_layers_is_refused(models):
    policy = make_policy(models)
    arrays, values = policy.state()
    del arrays[next(name for name in arrays if name.startswith("model."))]
    with pytest.raises(ModelError, match="does not fit the adapters"):
        policy.load(arrays, values)


def test_a_server_receives_the_merged_weights(models):
    lm = load_model(models[0])
    with FakeVllmServer(lm) as server:
        transfer = RecordingTransfer()
        policy = LanguageModelPolicy(lm, SETTINGS, seed=3, sampler=VllmSampler(server.url, transfer=transfer))
        policy.update(TrainBatch.from_texts(lm, [lm.encode_prompt("", TEXTS[0])], ["b"], [1.0]), "weighted_nll")
    plain = load_model(models[0])
    sent = {name: torch.from_numpy(array) for name, array in transfer.sent[-1].items()}
    assert [name for name, _ in plain.model.named_parameters()] == list(sent)
    plain.model.load_state_dict(sent, strict=False)
    torch.testing.assert_close(logits(plain.model), logits(lm.model))
    with adapters_disabled(lm.model):
        assert (logits(plain.model) - logits(lm.model)).abs().max() > 1e-4


def test_merging_leaves_a_model_without_adapters_as_it_is(models):
    model = load_model(models[0]).model
    merged = {name: merged_weights(parameter, layer) for name, parameter, layer in base_parameters(model)}
    assert all(merged[name] is parameter for name, parameter in model.named_parameters())
    assert len(merged) == len(list(model.parameters()))


def test_a_mixture_of_experts_has_the_state_of_one_without_adapters(models):
    """The weights of all experts are one tensor, of no layer. `register_buffer` adds what is saved, but not trained."""
    model = make_model(models, "qwen3_moe", **MOE).model
    model.register_buffer("scale", torch.tensor(0.4))
    plain = copy.deepcopy(model)
    add_adapters(model, 2, 8, seed=0)
    for name, parameter in model.named_parameters():
        if ".lora_B" in name:
            torch.nn.init.normal_(parameter)
    state = merged_state_dict(model)
    assert state.keys() == plain.state_dict().keys()
    before = logits(plain)
    plain.load_state_dict(state)
    torch.testing.assert_close(logits(plain), logits(model), rtol=1e-4, atol=1e-4)
    assert (logits(plain) - before).abs().max() > 0.1


def test_a_whole_run_resumes_exactly_and_its_agent_can_be_loaded(models, tmp_path):
    plan = CoevolutionPlan(rollouts=64, tasks_per_step=4, num_base_tasks=8, num_eval_tasks=4, eval_every=2)
    agent, environment = map(str, models)
    request = CoevolveRequest(
        proposer="genenv", agent=agent, environment=environment, plan=plan,
        agent_settings=AgentSettings(max_new_tokens=4, num_generations=4, learning_rate=1e-2, lora_rank=2),
        environment_settings=EnvironmentSettings(learning_rate=1e-3, lora_rank=2, max_new_tokens=24),
    )  # fmt: skip
    coevolve(tmp_path / "whole", Toy(), request)

    class Interrupted(Exception):
        pass

    def interrupt(line):
        if line.get("rollouts") == 32:
            raise Interrupted

    with pytest.raises(Interrupted):
        coevolve(tmp_path / "parts", Toy(), request, on_progress=interrupt, save_every=0)
    coevolve(tmp_path / "parts", Toy(), request)
    assert progress_without_times(tmp_path / "whole") == progress_without_times(tmp_path / "parts")
    agents = [load_agent(tmp_path / name, tmp_path).model for name in ("whole", "parts")]
    assert torch.equal(logits(agents[0]), logits(agents[1]))
    assert not torch.equal(logits(agents[0]), logits(load_model(agent).model))
    save_agent(tmp_path / "whole", tmp_path / "saved", tmp_path)  # adapters are merged
    saved = load_model(str(tmp_path / "saved")).model
    assert saved.state_dict().keys() == load_model(agent).model.state_dict().keys()
    torch.testing.assert_close(logits(saved), logits(agents[0]))
    assert saved.generation_config.eos_token_id == [0]


def test_requests_without_adapters_are_those_of_earlier_versions():
    assert not {"lora_rank", "lora_alpha"} & AgentSettings().stored().keys()
    assert AgentSettings(lora_rank=8).stored()["lora_rank"] == 8


def test_fsdp_is_refused(models, monkeypatch):
    from accelerate import Accelerator

    monkeypatch.setattr(Accelerator, "distributed_type", DistributedType.FSDP)
    monkeypatch.setattr(Accelerator, "is_fsdp2", True)
    with FakeVllmServer() as server, pytest.raises(ModelError, match="data-parallel, without FSDP"):
        LanguageModelPolicy(load_model(models[0]), SETTINGS, 3, sampler=VllmSampler(server.url))


def test_a_missing_library_is_named(models, monkeypatch):
    monkeypatch.setattr("envgen.imports.is_installed", lambda name: False)
    with pytest.raises(MissingExtraError, match=r"lora_rank needs peft: pip install 'envgen\[lora\]'"):
        add_adapters(load_model(models[0]).model, 4, 8, seed=0)
