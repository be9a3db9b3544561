"""Whole co-evolution runs: their accounting, exact resume, and that the agent improves."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from toy import Toy, ToySpec

import envgen
from envgen import coevolution_api
from envgen.api import ArgumentError
from envgen.coevolution import environment
from envgen.coevolution.language_model import ModelError
from envgen.coevolution.loop import AgentPolicy, Coevolution
from envgen.coevolution.model_io import load_model
from envgen.coevolution.policy import LanguageModelPolicy
from envgen.coevolution.pretraining import find_pretrained_agent
from envgen.coevolution.proposers import UniformProposer
from envgen.coevolution.registry import PROPOSERS
from envgen.coevolution.settings import (
    AgentSettings,
    AlphaCurriculumSettings,
    CoevolutionPlan,
    EnvironmentSettings,
    ModelSize,
    PretrainSettings,
)
from envgen.coevolution.task_stores import TaskStores
from envgen.coevolution.tasks import CheckResult, DomainError
from envgen.coevolution.train import CoevolveRequest, coevolve, setup_tasks
from envgen.coevolution.vllm import VllmSampler
from envgen.coevolution_api import coevolution_request, resume_coevolution
from envgen.errors import EnvgenError
from envgen.runs.checkpoint import load_latest
from envgen.runs.compare import compare
from envgen.runs.store import Run, RunError, read_progress, read_request
from envgen.settings import format_validation_error
from run_results import without_times

PLAN = CoevolutionPlan(rollouts=256, tasks_per_step=8, num_base_tasks=8, num_eval_tasks=12, eval_every=2)
STORES = ("tasks.jsonl", "agent_traces.jsonl", "environment_specs.jsonl")


def make_request(models, proposer="genenv", **changes):
    agent, environment = map(str, models)
    settings = {
        "curriculum": AlphaCurriculumSettings(filter_tolerance=None),
        "plan": PLAN,
        "agent_settings": AgentSettings(max_new_tokens=4, learning_rate=1e-3),
        "environment_settings": EnvironmentSettings(max_new_tokens=48, learning_rate=1e-3),
    }
    return CoevolveRequest(proposer=proposer, agent=agent, environment=environment, **{**settings, **changes})


@pytest.mark.parametrize("proposer", PROPOSERS)
def test_every_proposer_spends_its_budget_and_accounts_for_it(models, tmp_path, proposer):
    summary = coevolve(tmp_path / "run", Toy(), make_request(models, proposer))
    lines = list(read_progress(tmp_path / "run"))
    assert 256 <= summary.counts["rollouts"] < 256 + 4 * 64  # refilled groups may exceed the plan
    assert proposer == "dapo" or summary.counts["rollouts"] == 256
    assert [line["rollouts"] for line in lines] == sorted(line["rollouts"] for line in lines)
    for name in ("environment_tokens", "environment_prompt_tokens"):
        assert (summary.counts[name] > 0) == PROPOSERS[proposer].needs_model
    assert (summary.counts["environment_update_tokens"] > 0) == proposer.startswith("genenv")
    assert summary.counts["agent_prompt_tokens"] > 0
    updates = [line["agent"].get("num_tokens", 0) for line in lines[1:]]
    assert summary.counts["agent_update_tokens"] == sum(updates) > 0
    all_tokens = [value for name, value in summary.counts.items() if name.endswith("tokens")]
    assert (len(all_tokens), summary.accuracy_curve[-1][1]) == (6, sum(all_tokens))
    assert lines[0]["seconds"]["evaluation"] > 0
    if proposer == "static":  # it generates its tasks first
        assert lines[0]["seconds"]["environment"] > 0
    for line in lines[1:]:
        assert set(line["rejected"]) == {"malformed", "unsolvable", "held_out", "duplicate"}
        assert 0 <= line["success_rate"] <= 1
    records = [json.loads(text) for text in (tmp_path / "run" / "tasks.jsonl").read_text().splitlines()]
    assert len({record["spec"] for record in records}) == len(records)
    sources = {record["source"] for record in records}
    assert sources - {"fallback"}
    assert sources <= {
        "genenv",
        "genenv-grpo",
        "random",
        "static",
        "uniform",
        "greedy",
        "learnability",
        "fallback",
    }
    held_out = {task.spec.text for task in Toy().held_out_tasks(12)}
    assert not held_out & {record["spec"] for record in records}


def field_names(value: Any) -> set[str]:
    """The names of all fields below a value, without those of features, whose names are the domain's own."""
    if not isinstance(value, dict):
        return set()
    by_feature = ("eval_accuracy_by", "final_accuracy_by", "entropy")
    return set(value).union(*(field_names(child) for name, child in value.items() if name not in by_feature))


def test_the_documentation_names_every_field_of_a_run_directory(models, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "genenv.md").read_text()
    coevolve(tmp_path, Toy(), make_request(models))
    lines = [
        json.loads(line) for name in ("progress.jsonl", *STORES) for line in (tmp_path / name).read_text().splitlines()
    ]
    names = set().union(*map(field_names, [*lines, json.loads((tmp_path / "summary.json").read_text())]))
    names -= {
        name for name in names if name.startswith("environment_") and name.endswith("tokens")
    }  # as those of agent
    assert {"step", "near_target_fraction", "ngram_overlap", "num_specs", "completion", "total_seconds"} <= names
    assert {name for name in names if f"`{name}`" not in page} == set()


def test_agent_improves(models, tmp_path):
    plan = CoevolutionPlan(rollouts=8192, tasks_per_step=32, num_base_tasks=64, num_eval_tasks=30, eval_every=40)
    settings = AgentSettings(max_new_tokens=4, learning_rate=3e-3, num_generations=16)
    coevolve(tmp_path / "run", Toy(), make_request(models, "uniform", plan=plan, agent_settings=settings))
    success = [line["success_rate"] for line in read_progress(tmp_path / "run") if line["step"]]
    assert np.mean(success[-8:]) > np.mean(success[:8]) + 0.1


def final_arrays(folder):
    checkpoint = load_latest(folder / "checkpoints")
    assert checkpoint is not None
    return checkpoint.arrays


@pytest.mark.parametrize(("dtype", "rollouts", "interrupted_at"), [("float32", 256, (1, 3)), ("bfloat16", 128, (2,))])
def test_interrupted_run_resumes_exactly(models, tmp_path, dtype, rollouts, interrupted_at):
    request = make_request(models, plan=PLAN.model_copy(update={"rollouts": rollouts}))
    uninterrupted = coevolve(tmp_path / "uninterrupted", Toy(), request, dtype=dtype)

    class Interrupted(Exception):
        pass

    def interrupt(line):
        if line["step"] in interrupted_at:
            raise Interrupted

    for _ in interrupted_at:
        with pytest.raises(Interrupted):
            coevolve(tmp_path / "interrupted", Toy(), request, dtype=dtype, on_progress=interrupt, save_every=1e9)
    resumed = coevolve(tmp_path / "interrupted", Toy(), request, dtype=dtype, save_every=0)
    assert resumed.accuracy_curve == uninterrupted.accuracy_curve
    assert resumed.counts == uninterrupted.counts
    for name in STORES:
        assert (tmp_path / "interrupted" / name).read_bytes() == (tmp_path / "uninterrupted" / name).read_bytes()
    np.testing.assert_equal(final_arrays(tmp_path / "interrupted"), final_arrays(tmp_path / "uninterrupted"))
    assert read_request(tmp_path / "interrupted")[1] == {"dtype": dtype}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_step_finish_and_be_saved(models, tmp_path, number):
    request = make_request(models, "uniform")

    def stop(line):
        if line["step"] == 1:
            signal.raise_signal(number)
            if number == signal.SIGINT:
                raise BrokenPipeError  # Ctrl-C has also ended the reader of the output

    with pytest.raises(KeyboardInterrupt):
        coevolve(tmp_path, Toy(), request, on_progress=stop)
    checkpoint = load_latest(tmp_path / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.values["progress_bytes"] == (tmp_path / "progress.jsonl").stat().st_size  # nothing is lost
    steps = []
    coevolve(tmp_path, Toy(), request, on_progress=lambda line: steps.append(line["step"]))
    assert steps[0] == 2


def test_evaluations_generate_no_more_completions_together_than_a_step(models, tmp_path, monkeypatch):
    generate_greedy, sizes = LanguageModelPolicy.generate_greedy, []

    def generate_and_record(policy, prompts):
        sizes.append(len(prompts))
        return generate_greedy(policy, prompts)

    monkeypatch.setattr(LanguageModelPolicy, "generate_greedy", generate_and_record)
    plan = CoevolutionPlan(rollouts=8, tasks_per_step=2, num_base_tasks=8, num_eval_tasks=20)
    settings = AgentSettings(max_new_tokens=4, num_generations=4)
    coevolve(tmp_path / "run", Toy(), make_request(models, "uniform", plan=plan, agent_settings=settings))
    assert sizes == [8, 8, 4] * 2  # before the only step, and after it


def test_the_batches_of_an_evaluation_do_not_change_its_scores(models):
    settings = AgentSettings(max_new_tokens=4)
    agent = AgentPolicy(Toy(), LanguageModelPolicy(load_model(models[0]), settings, seed=0), settings)
    tasks = Toy().held_out_tasks(30)
    scores = agent.evaluate(tasks, batch_size=30)
    assert 0 < scores.mean() < 1
    assert (agent.evaluate(tasks, batch_size=7) == scores).all()


@pytest.mark.parametrize(("save_every", "saved"), [(1e9, [4]), (0, [1, 2, 3, 4])])
def test_the_time_between_checkpoints_can_be_set(models, tmp_path, monkeypatch, save_every, saved):
    steps = []
    monkeypatch.setattr(Coevolution, "_save", lambda self: steps.append(self.counts["step"]))
    envgen.coevolve(
        Toy(), "uniform", agent=models[0], folder=tmp_path / "run", save_every=save_every, verbose=False,
        plan=PLAN.model_dump(), agent_settings={"max_new_tokens": 4},
    )  # fmt: skip
    assert steps == saved


def test_scores_may_be_bools(models):
    class Sure(Toy):
        def check(self, task, reply):
            return CheckResult(reply.strip() == task.answer_key, True)

    settings = AgentSettings(max_new_tokens=4)
    agent = AgentPolicy(Sure(), LanguageModelPolicy(load_model(models[0]), settings, seed=0), settings)
    batch = agent.sample_and_score(list(Sure().held_out_tasks(2)))
    assert batch.scores.dtype == batch.scores[batch.has_zero_variance].dtype == np.float64
    assert agent.evaluate(batch.tasks, 2).dtype == np.float64


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda reply: int(reply), r"the domain Unsure fails: ValueError: invalid literal for int.*line \d+"),
        (lambda reply: 2.0, "check must return a CheckResult with a score from 0 to 1, not"),
        (lambda reply: float("nan"), "check must return a CheckResult with a score from 0 to 1, not"),
    ],
)
def test_what_is_wrong_with_a_checker_during_a_run_is_named(models, score, message):
    class Unsure(Toy):
        def check(self, task, reply):
            return CheckResult(score(reply), True)

    settings = AgentSettings(max_new_tokens=4)
    agent = AgentPolicy(Unsure(), LanguageModelPolicy(load_model(models[0]), settings, seed=0), settings)
    tasks = list(Unsure().held_out_tasks(2))
    with pytest.raises(DomainError, match=message):
        agent.sample_and_score(tasks)
    with pytest.raises(DomainError, match=message):
        agent.evaluate(tasks, 2)


def test_a_run_starts_only_if_its_checker_accepts_any_reply(models, tmp_path):
    class Strict(Toy):
        def check(self, task, reply):
            if not reply.isprintable():
                raise ValueError("not printable")
            return super().check(task, reply)

    with pytest.raises(DomainError, match=r"check fails on the reply .*: ValueError: not printable"):
        coevolve(tmp_path / "run", Strict(), make_request(models, "uniform"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("fractions", "count", "sources"), [
    ((0.5, 0.5), 3, ["proposer", "proposer", "replay"]), ((0.25, 0.75), 2, ["replay", "replay"]),
    ((0.5, 0.25), 4, ["proposer", "proposer", "replay", "base"]),
])  # fmt: skip
def test_the_fractions_of_a_step_are_rounded_to_its_number_of_tasks(models, tmp_path, fractions, count, sources):
    domain, settings = Toy(), AgentSettings(max_new_tokens=4, num_generations=2)
    fresh, replay = fractions
    plan = PLAN.model_copy(update={"fresh_fraction": fresh, "replay_fraction": replay})
    setup = setup_tasks(domain, plan)
    with Run(tmp_path, {}) as run:
        stores = TaskStores(run)
        stores.agent_traces.add([{"spec": setup.base_specs[0].text}], key=lambda record: record["spec"])
        agent = AgentPolicy(domain, LanguageModelPolicy(load_model(models[0]), settings, seed=0), settings)
        loop = Coevolution(
            run, domain, agent, UniformProposer(domain, 0), stores=stores, task_filter=setup.task_filter,
            base_specs=setup.base_specs, eval_tasks=setup.eval_tasks, curriculum=AlphaCurriculumSettings(), plan=plan,
            seed=0,
        )  # fmt: skip
        assert [task.source for task in loop._collect(count).tasks] == sources


def test_base_tasks_replace_new_ones_once_the_domain_has_no_more(models, tmp_path):
    class Small(Toy):
        """Eight tasks."""

        def sample(self, rng):
            return ToySpec(which=1, letters=str(rng.choice(list("abcdefgh"))), loud="no")

    domain, settings = Small(), AgentSettings(max_new_tokens=4, num_generations=2)
    plan = PLAN.model_copy(update={"num_base_tasks": 1, "num_eval_tasks": 1, "fresh_fraction": 1.0})
    setup = setup_tasks(domain, plan)
    with Run(tmp_path, {}) as run:
        agent = AgentPolicy(domain, LanguageModelPolicy(load_model(models[0]), settings, seed=0), settings)
        loop = Coevolution(
            run, domain, agent, UniformProposer(domain, 0), stores=TaskStores(run), task_filter=setup.task_filter,
            base_specs=setup.base_specs, eval_tasks=setup.eval_tasks, curriculum=AlphaCurriculumSettings(), plan=plan,
            seed=0,
        )  # fmt: skip
        sources = [[task.source for task in loop._collect(8).tasks] for _ in range(3)]
        loop.step()
    assert [len(step) for step in sources] == [8] * 3
    assert set(sources[2]) == {"base"}


def test_runs_are_compared_with_uniform_specs(models, tmp_path):
    for proposer in ("uniform", "random"):
        for seed in (0, 1):
            coevolve(tmp_path / f"{proposer}-{seed}", Toy(), make_request(models, proposer, seed=seed))
    (table,) = compare([tmp_path]).tables
    assert [group.title for group in table.groups] == ["uniform (n=2)", "random (n=2)"]
    assert table.warnings == ()
    page = compare([tmp_path]).markdown()
    assert "| proposer | seeds | initial % | final % |" in page
    assert "which 1" in page
    assert "loud yes" in page


def test_failure_before_training_leaves_no_run_directory(models, tmp_path):
    agent, environment = map(str, models)
    for names in ((str(tmp_path / "missing"), environment), (agent, str(tmp_path / "missing"))):
        with pytest.raises(ModelError, match="cannot load the model"):
            coevolve(tmp_path / "run", Toy(), make_request(names))
    no_server = VllmSampler("http://127.0.0.1:9", max_attempts=1)
    for samplers in ((no_server, None), (None, no_server)):
        with pytest.raises(ModelError, match=r"127\.0\.0\.1:9"):
            coevolve(tmp_path / "run", Toy(), make_request(models), samplers=samplers)
    assert not (tmp_path / "run").exists()
    plan = PLAN.model_copy(update={"rollouts": 64})
    coevolve(tmp_path / "run", Toy(), make_request(models, plan=plan))  # the same directory, with the right models


@pytest.mark.parametrize(("arguments", "message"), [
    ({"log": ["foo"]}, "log 'foo' is not one of tensorboard, wandb"),
    ({"proposer": "greedy", "environment_settings": {"learning_rate": 1e-3}}, r"remove environment\.learning_rate"),
    ({"proposer": "uniform", "plan": {"num_variations": 7}}, "has no environment policy; remove num_variations"),
    ({"proposer": "dapo", "curriculum": {"rwr_lambda": 3}}, "has no environment policy; remove rwr_lambda"),
    ({"proposer": "uniform", "agent": "a", "environment": "b"}, "has no environment policy; remove environment"),
    ({"proposer": "dapo", "environment_server": "http://localhost:1"}, "remove environment_server"),
    ({"domain": Toy}, "must be the name of a domain or a Domain object, not <class"),
    ({"domain": 5}, "not 5"),
    ({"domain": None}, "not None"),
    ({"proposer": ["genenv"]}, r"proposer must be a name, not \['genenv'\]"),
    ({"seed": True}, "seed must be an integer, not True"),
    ({"seed": 1.0}, "seed must be an integer, not 1.0"),
    ({"plan": 5}, "plan must be a mapping, not 5"),
    ({"pretrain": {1: 2}}, "the keys of pretrain must be names, not 1"),
    ({"agent": 5}, "agent must be the folder or the name of a model, not 5"),
    ({"folder": 3}, "folder must be a path, not 3"),
    ({"models_folder": None}, "models_folder must be a path, not None"),
    ({"log": "tensorboard"}, r"log must be a list of names, such as \[\"tensorboard\"\], not 'tensorboard'"),
    ({"dtype": 32}, "dtype '32' is not one of float32, bfloat16"),
    ({"agent_server": 8000}, "8000 is not the address of a vLLM server"),
    ({"save_every": -1}, "save_every must be a number of seconds, 0 or greater, not -1"),
    ({"save_every": float("nan")}, "save_every .* not nan"),
    ({"save_every": "60"}, "save_every .* not '60'"),
])  # fmt: skip
def test_wrong_arguments_are_refused_before_models_are_pretrained(tmp_path, arguments, message, monkeypatch):
    monkeypatch.setattr("envgen.coevolution.pretraining.pretrain", lambda *args: pytest.fail("pretrained"))
    with pytest.raises(EnvgenError, match=message):
        envgen.coevolve(**{"domain": "tools", "folder": tmp_path, "verbose": False, **arguments})


def test_seeds_of_numpy_are_those_of_python():
    unset = dict.fromkeys(
        ("plan", "curriculum", "agent", "environment", "agent_settings", "environment_settings", "model_size")
    )
    requests = [
        coevolution_request("tools", "uniform", log=(), seed=seed, pretrain={"learning_rate": rate}, **unset)
        for seed, rate in ((3, 0.5), (np.int64(3), np.float32(0.5)))
    ]  # fmt: skip
    assert requests[0] == json.loads(json.dumps(requests[1]))


SMALL = {
    "plan": {"rollouts": 64, "tasks_per_step": 8, "num_base_tasks": 8, "num_eval_tasks": 12},
    "pretrain": {"num_tokenizer_specs": 50, "num_held_out": 12},
    "model_size": {"width": 32, "num_layers": 2, "num_heads": 2},
}


def write_run(folder, runtime_options, **entry):
    """The directory of a run of the toy domain that starts from small models."""
    unset = dict.fromkeys(("curriculum", "agent", "environment", "agent_settings", "environment_settings"))
    request = coevolution_request(Toy(), "uniform", log=(), seed=0, **SMALL, **unset)
    document = {"format": 2, "request": request, "runtime_options": {"dtype": "float32", **runtime_options}, **entry}
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(document))


@pytest.mark.parametrize(("versions", "cause"), [
    ({"torch": "0.1", "numba": "0.1"}, r"was started with torch 0\.1 \(now [^,]*\), and this version pretrains other"),
    ({}, "with other versions of envgen or of its libraries, and this version pretrains other"),
])  # fmt: skip
def test_a_run_does_not_resume_with_other_small_models(versions, cause, tmp_path, monkeypatch):
    write_run(tmp_path / "run", {"pretrained": "toy-0123"}, versions=versions)
    monkeypatch.setattr("envgen.coevolution.pretraining.pretrain", lambda *args: pytest.fail("pretrained"))
    with pytest.raises(RunError, match=f"{cause} small models than the 'toy-0123' .* pass --models-folder"):
        envgen.coevolve(
            Toy(), "uniform", folder=tmp_path / "run", models_folder=tmp_path / "models", verbose=False, **SMALL
        )


def test_what_prevents_a_run_is_found_before_models_are_pretrained(tmp_path, monkeypatch):
    class NumericFeatures(Toy):
        def features(self, spec):
            return {"which": spec.which}

    def fail(sampler):
        raise ModelError("no server answers")

    def refused(message, domain, **arguments):
        with pytest.raises(EnvgenError, match=message):
            envgen.coevolve(domain, "uniform", verbose=False, **{"folder": tmp_path / "new", **SMALL, **arguments})
        assert not (tmp_path / "new").exists()

    monkeypatch.setattr("envgen.coevolution.pretraining.pretrain", lambda *args: pytest.fail("pretrained"))
    monkeypatch.setattr(VllmSampler, "check", fail)
    write_run(tmp_path / "run", {})
    (tmp_path / "file").touch()
    refused("no server answers", Toy(), agent_server="http://localhost:8000")
    refused("must map strings to strings", NumericFeatures())
    refused(r"seed 0 \(now 1\); choose another directory", Toy(), folder=tmp_path / "run", seed=1)
    refused("holds other runs", Toy(), folder=tmp_path)
    refused("file is not a directory", Toy(), folder=tmp_path / "file" / "run")
    monkeypatch.setattr("envgen.imports.is_installed", lambda library: library != "peft")
    refused("lora_rank needs peft", Toy(), agent_settings={"lora_rank": 2})


def test_a_run_pretrains_its_missing_small_models_again(tmp_path, monkeypatch):
    sizes = ModelSize(**SMALL["model_size"]), PretrainSettings(**SMALL["pretrain"])
    agent = find_pretrained_agent(Toy(), tmp_path / "models", 0, *sizes)
    write_run(tmp_path / "run", {"pretrained": agent.parent.name}, versions={"torch": "0.1"})
    started = []
    monkeypatch.setattr("envgen.coevolution.pretraining.pretrain", lambda *args: (agent, agent))
    monkeypatch.setattr("envgen.coevolution.train.coevolve", lambda *args, **kwargs: started.append(args[4]))
    envgen.coevolve(
        Toy(), "uniform", folder=tmp_path / "run", models_folder=tmp_path / "models", verbose=False, **SMALL
    )
    assert started == [(str(agent), str(agent))]


def test_a_domain_needs_specs_that_are_not_held_out(models, tmp_path):
    class Tiny(Toy):
        def sample(self, rng):
            return ToySpec(which=1, letters=str(rng.choice(["a", "b", "c", "d"])))

    plan = PLAN.model_copy(update={"num_eval_tasks": 4})
    with pytest.raises(DomainError, match="all specs of toy are held out"):
        coevolve(tmp_path / "run", Tiny(), make_request(models, plan=plan))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, "seed: Input should be greater than or equal to 0 (got -1)"),
        ({"seed": 2**70}, "seed: Input should be less than"),
        ({"agent_settings": {"temperature": 1e-300}}, "temperature: Input should be greater than or equal to 0.01"),
        ({"agent_settings": {"lora_alpha": 5}}, "lora_alpha 5 has no effect without adapters; set lora_rank too"),
        (
            {"agent_settings": {"max_new_tokens": 10**12}},
            "max_new_tokens: Input should be less than or equal to 1048576",
        ),
        ({"agent_settings": {"num_generations": 10**12}}, "num_generations: Input should be less than or equal to"),
        ({"environment_settings": {"replay_ratio": 1e12}}, "replay_ratio: Input should be less than or equal to 1000"),
        ({"plan": {"tasks_per_step": 10**12}}, "tasks_per_step: Input should be less than or equal to 1000000"),
        ({"proposer": "genvn"}, "did you mean 'genenv'?"),
        (
            {"plan": {"fresh_fraction": 0.75, "replay_fraction": 0.5}},
            "fresh_fraction 0.75 and replay_fraction 0.5 must not add up to more than 1",
        ),
    ],
)
def test_invalid_requests_are_explained(changes, message):
    with pytest.raises(ValidationError) as error:
        CoevolveRequest(**{"proposer": "genenv", "agent": "a", "environment": "b", **changes})
    assert message in format_validation_error(error.value)


RUN_WITH_REPETITION_PENALTY = """
import sys
from itertools import pairwise
from pathlib import Path
import torch
from test_coevolution_train import *
torch.set_num_threads(1)
curriculum = AlphaCurriculumSettings(filter_tolerance=None, repetition_penalty=1.0)
plan = PLAN.model_copy(update={"rollouts": 192})
request = make_request(sys.argv[2:], sys.argv[1], curriculum=curriculum, plan=plan)
coevolve(Path("run"), Toy(), request)
"""


def read_files(folder):
    """Everything a run wrote, without times."""
    files = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name, data = str(file.relative_to(folder)), file.read_bytes()
        if file.name == "progress.jsonl":
            data = without_times([json.loads(line) for line in data.splitlines()])
        elif file.name == "summary.json":
            data = without_times(json.loads(data))
        elif file.name in ("values.json", "manifest.json"):  # describe progress.jsonl, which has times
            names = ("progress_bytes", "progress_sha256", "values.json")
            data = {k: v for k, v in json.loads(data).items() if k not in names}
        files[name] = data
    return files


def test_runs_do_not_depend_on_the_hash_seed(models, tmp_path):
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    runs = []
    for hash_seed in ("1", "2"):
        folder = tmp_path / hash_seed
        folder.mkdir()
        command = [sys.executable, "-c", RUN_WITH_REPETITION_PENALTY, "genenv-grpo", *map(str, models)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        subprocess.run(command, cwd=folder, env=environment, check=True)
        runs.append(read_files(folder / "run"))
    assert any(name.endswith("proposer.safetensors") for name in runs[0])
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("domain", "settings", "loss_agg"),
    [("tools", None, "token"), ("alfworld", None, "sequence"), ("alfworld", {"loss_agg": "token"}, "token")],
)
def test_the_domain_sets_the_default_of_the_loss_aggregation(domain, settings, loss_agg):
    unset = dict.fromkeys(
        ("plan", "curriculum", "agent", "environment", "environment_settings", "pretrain", "model_size")
    )
    request = coevolution_request(domain, "uniform", log=(), agent_settings=settings, seed=0, **unset)
    assert request["agent_settings"]["loss_agg"] == loss_agg


def test_a_run_resumes_with_its_data_type(models, tmp_path, capsys):
    arguments = {"agent": models[0], "plan": PLAN.model_dump() | {"rollouts": 64}, "folder": tmp_path / "run"}
    envgen.coevolve(Toy(), "uniform", dtype="bfloat16", **arguments)
    assert "lost in bfloat16" in capsys.readouterr().out
    with pytest.raises(ArgumentError, match="was started with the data type bfloat16, not float32; pass bfloat16"):
        envgen.coevolve(Toy(), "uniform", **arguments)


def test_a_resumed_run_loads_its_models_in_the_data_type_of_the_run(models, tmp_path, monkeypatch):
    run = tmp_path / "run"
    request = make_request(models, "uniform", plan=PLAN.model_copy(update={"rollouts": 64}))
    coevolve(run, Toy(), request, dtype="bfloat16")
    data = json.loads((run / "run.json").read_text())
    data["request"]["domain"] = "tools"  # a domain of one's own is not resumed from its run directory
    (run / "run.json").write_text(json.dumps(data))
    monkeypatch.setattr(coevolution_api, "_load_domain", lambda domain: Toy())
    started = []
    monkeypatch.setattr("envgen.coevolution.train.check_start", lambda *args: None)
    monkeypatch.setattr("envgen.coevolution.train.coevolve", lambda *args, **options: started.append(args[-1]))
    resume_coevolution(run, verbose=False)
    assert started == ["bfloat16"]
    with pytest.raises(ArgumentError, match="was started with the data type bfloat16"):
        resume_coevolution(run, dtype="float32", verbose=False)


def test_the_static_set_is_generated_once_in_batches_whose_tokens_are_added(models, tmp_path, monkeypatch):
    batches, propose = [], environment.LanguageModelProposer.propose

    def record(self, count, *args):
        batches.append((count, propose(self, count, *args)))
        return batches[-1][1]

    monkeypatch.setattr(environment, "STATIC_BATCH", 16)
    monkeypatch.setattr(environment.LanguageModelProposer, "propose", record)
    plan = PLAN.model_copy(update={"rollouts": 64})
    policies, init = [], LanguageModelPolicy.__init__

    def count_policy(self, *args):
        policies.append(self)
        init(self, *args)

    monkeypatch.setattr(LanguageModelPolicy, "__init__", count_policy)
    summary = coevolve(tmp_path / "run", Toy(), make_request(models, "static", plan=plan))
    assert len(policies) == 2
    again = coevolve(tmp_path / "run", Toy(), make_request(models, "static", plan=plan))
    assert (len(policies), again.counts) == (3, summary.counts)  # only the agent's: the set is there
    assert [count for count, _ in batches] == [16, 16, 8]  # five times the eight base specs
    static = json.loads((tmp_path / "run" / "static.json").read_text())
    assert static["specs"] == [candidate.text for _, batch in batches for candidate in batch.accepted]
    assert static["num_tokens"] == sum(batch.num_tokens for _, batch in batches)
    assert static["num_prompt_tokens"] == sum(batch.num_prompt_tokens for _, batch in batches)
    assert summary.counts["environment_tokens"] == static["num_tokens"]
    assert summary.counts["environment_prompt_tokens"] == static["num_prompt_tokens"]
