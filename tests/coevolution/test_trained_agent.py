"""The agent of a run answers chat requests: `--llm run:FOLDER` and `--llm hf:FOLDER` of `envgen evaluate-llm`."""

import json
import shutil

import pytest
import torch
from toy import Toy

from envgen import run_benchmark
from envgen.benchmarks.benchmark import Benchmark, Item, Prompt, Verdict
from envgen.benchmarks.models import LocalBackend
from envgen.coevolution import trained_agent
from envgen.coevolution.language_model import ModelError
from envgen.coevolution.model_io import load_model
from envgen.coevolution.settings import AgentSettings, CoevolutionPlan
from envgen.coevolution.train import CoevolveRequest, coevolve
from envgen.coevolution.trained_agent import load_agent, save_agent
from envgen.designers.chat.protocol import ChatRequest, Message, RejectedError, Tool
from envgen.errors import EnvgenError
from envgen.runs.checkpoint import load_latest
from envgen.runs.store import RunError


@pytest.fixture(scope="module")
def run(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    plan = CoevolutionPlan(rollouts=64, tasks_per_step=8, num_base_tasks=8, num_eval_tasks=4, eval_every=2)
    agent, environment = map(str, models)
    settings = AgentSettings(max_new_tokens=4, learning_rate=1e-2)
    request = CoevolveRequest(
        proposer="uniform", agent=agent, environment=environment, plan=plan, agent_settings=settings
    )
    coevolve(folder, Toy(), request)
    return folder


class Sums(Benchmark):
    name, data_version, categories = "sums", "1", ("one",)

    def __init__(self, count):
        self.count = count

    def items(self, category):
        return [Item(f"{k}", category, k) for k in range(self.count)]

    def episode(self, item):
        reply = yield Prompt.user(f"{item.data} + 1 = ?")
        return Verdict(float(reply.text == str(item.data + 1)))


def ask(text, **more):
    return ChatRequest(messages=(Message(role="user", content=text),), max_tokens=4, **more)


def test_a_saved_agent_is_the_same(run, tmp_path):
    save_agent(run, tmp_path / "agent", tmp_path)
    saved, lm = load_model(str(tmp_path / "agent")), load_agent(run, tmp_path)
    weights = lm.model.state_dict()
    assert saved.model.state_dict().keys() == weights.keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in saved.model.state_dict().items())
    assert saved.tokenizer.get_vocab() == lm.tokenizer.get_vocab()
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match="cannot write the model to"):
        save_agent(run, tmp_path / "file" / "agent", tmp_path)


def test_the_agent_has_the_weights_of_the_last_checkpoint(models, run, tmp_path):
    lm, before = load_agent(run, tmp_path), load_model(models[0])
    checkpoint = load_latest(run / "checkpoints")
    assert checkpoint is not None
    changed = 0
    for name, tensor in lm.model.state_dict().items():
        assert torch.equal(tensor, torch.from_numpy(checkpoint.arrays["agent"][f"model.{name}"]))
        changed += not torch.equal(tensor, before.model.state_dict()[name])
    assert changed


def test_local_models_answer_and_count_tokens(models):
    lm = load_model(models[0])
    backend = LocalBackend("hf:x", lm, seed=0)
    reply = backend.send(ask("a b : 2"))
    assert reply.text == LocalBackend("hf:x", lm, seed=1).send(ask("a b : 2", temperature=0.0)).text
    assert reply.usage.prompt_tokens == len(lm.encode_prompt("", "a b : 2"))
    assert 1 <= (reply.usage.reply_tokens or 0) <= 4


def test_sampled_replies_depend_only_on_the_request_and_the_seed(models):
    lm = load_model(models[0])
    texts = {}
    for seed in (0, 1):
        backend = LocalBackend("hf:x", lm, seed)
        for _ in range(2):
            for k in range(8):
                text = backend.send(ask(f"{'abcdefgh'[k]} a : 1", temperature=2.0)).text
                assert texts.setdefault((seed, k), text) == text
    assert len({tuple(texts[seed, k] for k in range(8)) for seed in (0, 1)}) == 2


def test_a_benchmark_is_not_continued_with_other_weights(models, tmp_path):
    for source, target in ((models[0], tmp_path / "model"), (models[1], tmp_path / "later")):
        shutil.copytree(source, target)
    model = {"llm": f"hf:{tmp_path / 'model'}", "max_reply_tokens": 16}
    first = run_benchmark(Sums(2), model, folder=tmp_path / "run", verbose=False)
    assert run_benchmark(Sums(2), model, folder=tmp_path / "run", verbose=False) == first
    (tmp_path / "model").rename(tmp_path / "earlier")
    (tmp_path / "later").rename(tmp_path / "model")
    with pytest.raises(RunError, match="was started with weights 'sha256"):
        run_benchmark(Sums(2), model, folder=tmp_path / "run", verbose=False)
    shutil.rmtree(tmp_path / "model")
    (tmp_path / "earlier").rename(tmp_path / "model")
    with pytest.raises(RunError, match="was started with dtype"):
        run_benchmark(Sums(2), {**model, "dtype": "bfloat16"}, folder=tmp_path / "run", verbose=False)


@pytest.mark.parametrize(("llm", "device", "message"), [
    ("hf:{}", "meta", "cannot use the device 'meta': it holds no weights; use cpu or cuda"),
    ("gold:", "cpu", "'gold:' is not valid; write gold"),
])  # fmt: skip
def test_models_that_cannot_answer_are_refused(models, tmp_path, llm, device, message):
    model = {"llm": llm.format(models[0]), "device": device}
    with pytest.raises(EnvgenError, match=message):
        run_benchmark(Sums(2), model, folder=tmp_path / "run", verbose=False)


def test_what_a_local_model_cannot_do_is_explained(models):
    backend = LocalBackend("hf:x", load_model(models[0]), seed=0)
    with pytest.raises(RejectedError, match="tokens, and the model takes") as refused:
        backend.send(ask("a " * 5000))
    assert refused.value.status == 413
    with pytest.raises(EnvgenError, match="--calls prompt"):
        backend.send(ask("a", tools=(Tool(name="f", parameters={}),)))


def test_other_folders_are_explained(run, tmp_path):
    with pytest.raises(RunError, match="is not a run directory"):
        load_agent(tmp_path, tmp_path)
    entry = json.loads((run / "run.json").read_text())
    recipe = {"model_size": {}, "pretrain": {}, "seed": 0}
    for changes, message in (
        ({"agent": None}, "is not a run of envgen coevolve"),
        ({"pretrain_recipe": recipe}, "which is not part of envgen"),
        ({"pretrain_recipe": recipe, "domain": "tools"}, "pass --models-folder"),
        ({"pretrain_recipe": {}, "domain": "tools"}, "is not a run of envgen coevolve"),
        ({}, "has no checkpoint yet"),
    ):
        request = {**entry["request"], **changes}
        (tmp_path / "run.json").write_text(json.dumps({**entry, "request": request}))
        with pytest.raises(RunError, match=message):
            load_agent(tmp_path, tmp_path)


def test_a_missing_package_is_named(run, tmp_path, monkeypatch):
    entry = json.loads((run / "run.json").read_text())
    request = {**entry["request"], "pretrain_recipe": {"model_size": {}, "pretrain": {}, "seed": 0}, "domain": "tools"}
    (tmp_path / "run.json").write_text(json.dumps({**entry, "request": request}))

    def load_domain(name):
        raise ImportError("this domain needs a package: pip install 'envgen[reasoning-gym]'")

    monkeypatch.setattr("envgen.coevolution.trained_agent.load_domain", load_domain)
    with pytest.raises(RunError, match="this domain needs a package: pip install"):
        load_agent(tmp_path, tmp_path)


def test_the_recorded_small_model_is_used(models, run, tmp_path):
    """Also where another version of a library would pretrain another one."""
    entry = json.loads((run / "run.json").read_text())
    request = {**entry["request"], "pretrain_recipe": {"model_size": {}, "pretrain": {}, "seed": 0}, "domain": "tools"}
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    for name, model in zip(("agent", "environment"), models, strict=True):
        shutil.copytree(model, tmp_path / "models" / "tools-0" / name)
    for recorded, is_used in (("tools-0", True), ("tools-1", False), ("../tools-0", False), (3, False)):
        options = {**entry["runtime_options"], "pretrained": recorded}
        (folder / "run.json").write_text(json.dumps({**entry, "request": request, "runtime_options": options}))
        if is_used:
            assert load_agent(folder, tmp_path / "models").model.num_parameters()
        else:
            with pytest.raises(RunError, match=f"than the {recorded!r} .* pass --models-folder"):
                load_agent(folder, tmp_path / "models")


def test_other_small_models_than_the_recorded_ones_are_not_used(models, run, tmp_path, monkeypatch):
    """Pretraining with this version may have made others of the same domain."""
    entry = json.loads((run / "run.json").read_text())
    request = {**entry["request"], "pretrain_recipe": {"model_size": {}, "pretrain": {}, "seed": 0}, "domain": "tools"}
    folder, options = tmp_path / "run", {**entry["runtime_options"], "pretrained": "tools-0"}
    shutil.copytree(run, folder)
    (folder / "run.json").write_text(json.dumps({**entry, "request": request, "runtime_options": options}))
    monkeypatch.setattr(trained_agent, "find_pretrained_agent", lambda *args: models[0])
    with pytest.raises(RunError, match="pretrains other small models than the 'tools-0'"):
        load_agent(folder, tmp_path / "models")
