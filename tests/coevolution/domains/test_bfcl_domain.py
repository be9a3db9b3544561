"""The domain `bfcl`: functions made at random, requests for calls of them, and replies judged as in the benchmark."""

import json
from collections import Counter

import numpy as np
import pytest
from mutated_replies import TEN_MEGABYTES, attack

from envgen.coevolution import pretrain_data
from envgen.coevolution.domains.bfcl.domain import BfclDomain
from envgen.coevolution.domains.bfcl.functions import ATTRIBUTES, TYPES, function_names
from envgen.coevolution.domains.bfcl.spec import CATEGORIES, NUM_VARIATIONS, STYLES, BfclSpec, HeldOutSpec
from envgen.coevolution.episodes import transcript
from envgen.coevolution.pretraining import pretrain
from envgen.coevolution.settings import AgentSettings, CoevolutionPlan, ModelSize, PretrainSettings
from envgen.coevolution.task_stores import TaskFilter
from envgen.coevolution.tasks import SpecError, Task, check_domain, validate
from envgen.coevolution.train import CoevolveRequest, coevolve
from envgen.function_calls.calls import parse_calls
from hostile_replies import FIXED, mutate

pytestmark = pytest.mark.filterwarnings("ignore:invalid")  # escape sequences and literals in hostile replies
DOMAIN = BfclDomain()
SPEC = BfclSpec(
    category="multiple", calls=1, distractors=2, parameters=("string", "integer", "enum?"), style="plain", variation=6
)  # fmt: skip


def sample_tasks(count: int, seed: int = 0) -> list[Task]:
    rng = np.random.default_rng(seed)
    return [DOMAIN.make_task(DOMAIN.sample(rng)) for _ in range(count)]


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return sample_tasks(150)


def make_task(**changes) -> Task:
    return DOMAIN.make_task(BfclSpec(**{**SPEC.model_dump(), **changes}))


def score(task: Task, reply: str) -> float:
    return DOMAIN.check(task, reply).score


# --- tasks


@pytest.mark.parametrize("listing", ["signatures", "json"])
def test_the_contract_of_a_domain(listing):
    check_domain(BfclDomain(listing), 100)


@pytest.mark.slow
def test_the_oracle_is_right_and_wrong_replies_are_wrong_on_thousands_of_tasks():
    validate(DOMAIN, sample_tasks(2000, seed=1))
    validate(DOMAIN, DOMAIN.held_out_tasks(600))


def test_a_task_lists_functions_and_asks_for_calls():
    task = make_task()
    assert task.prompt == (
        "functions:\n"
        "print_reminder(owner: string, version: integer, format: pdf|text|png = 'png')\n"
        "delete_meeting(private: boolean, sheets: array of integer = [50])\n"
        "print_meeting(owner: string, version: integer, format: pdf|text|png = 'png')\n"
        "request: print the reminder for dan in version 46."
    )
    assert DOMAIN.oracle_reply(task) == "[print_reminder(owner='dan', version=46)]"


def test_functions_are_listed_as_json_in_the_form_of_the_benchmark():
    lines = BfclDomain("json").make_task(SPEC).prompt.split("\n")
    functions = [json.loads(line) for line in lines[1:-1]]
    assert len(functions) == 3
    for function in functions:
        assert set(function) == {"name", "description", "parameters"}
        properties = function["parameters"]["properties"]
        assert set(function["parameters"]["required"]) == {
            name for name in properties if "default" not in properties[name]
        }
    assert lines[-1] == make_task().prompt.split("\n")[-1]
    assert BfclDomain("json").name == "bfcl:json"
    with pytest.raises(ValueError, match="signatures or json, not 'yaml'"):
        BfclDomain("yaml")


def test_all_categories_types_and_styles_occur(tasks):
    assert {task.spec.category for task in tasks} == set(CATEGORIES)
    assert {task.spec.style for task in tasks} == set(STYLES)
    assert {kind for task in tasks for kind, _ in task.spec.types} == set(TYPES)
    names = {each.name for task in tasks for function in task.answer_key.functions for each in function.parameters}
    assert names == {"id", *(attribute.name for attribute in ATTRIBUTES)}


def test_parameters_keep_their_types_and_order(tasks):
    types = ["string", "integer?", "string", "string"]
    assert list(make_task(parameters=types).spec.parameters) == types
    assert any(len(set(task.spec.parameters)) < len(task.spec.parameters) for task in tasks)
    assert any(not required[0] for task in tasks if len(required := [needed for _, needed in task.spec.types]) > 1)


def test_categories_have_the_calls_and_functions_of_the_benchmark(tasks):
    for task in tasks:
        key, called = task.answer_key, Counter(call.name for call in task.answer_key.calls)
        num_functions, num_calls = len(key.functions), called.total()
        listed = {function.name for function in key.functions}
        assert len(listed) == num_functions
        assert set(called) <= listed
        match task.spec.category:
            case "simple":
                assert (num_functions, num_calls) == (1, 1)
            case "multiple":
                assert num_functions > 1 == num_calls
            case "parallel":
                assert num_functions == 1 < num_calls
            case "parallel_multiple":
                assert len(called) > 1
            case "irrelevance":
                assert not num_calls
                assert num_functions
                assert key.requested[0].name not in listed
            case "missing_value":
                function = next(each for each in key.functions if each.name == key.requested[0].name)
                required = {each.name for each in function.parameters if each.is_required}
                assert not num_calls
                assert len(required - set(key.requested[0].arguments)) == 1
            case "multi_turn":
                assert num_calls == task.spec.calls == sum(count for count, _ in key.requests)


def test_one_distractor_takes_the_same_values():
    for variation in range(50):
        first, second, *_ = make_task(variation=variation, distractors=1).answer_key.functions
        assert first.parameters == second.parameters
        assert (first.action == second.action) != (first.thing == second.thing)


def test_requests_give_all_values_of_the_calls(tasks):
    for task in tasks:
        request = " ".join(text for _, text in task.answer_key.requests) or task.prompt.split("\nrequest: ")[1]
        for call in task.answer_key.calls:
            for name, value in call.arguments.items():
                if name == "id":
                    assert task.spec.category == "multi_turn"
                    continue
                parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
                assert all(isinstance(part, bool) or str(part) in request for part in parts)


@pytest.mark.parametrize(("changes", "message"), [
    ({"calls": 2}, "multiple has 1 call, not 2"),
    ({"category": "parallel", "distractors": 0}, "parallel has 2 to 3 calls, not 1"),
    ({"category": "simple"}, "simple has no distractors, not 2"),
    ({"distractors": 0}, "multiple has 1 to 3 distractors, not 0"),
    ({"parameters": ["string?"]}, "at least one parameter must be required"),
    ({"category": "parallel_multiple", "calls": 3}, "3 calls with 3 parameters are more than 8 arguments"),
    ({"category": "parallel", "calls": 3, "distractors": 0, "parameters": ["boolean"]}, "a single boolean"),
    ({"parameters": ["tuple"]}, "parameters"), ({"parameters": []}, "parameters"), ({"code": "import os"}, "code"),
    ({"variation": NUM_VARIATIONS}, "variation"),
])  # fmt: skip
def test_a_contradictory_spec_is_refused(changes, message):
    with pytest.raises(SpecError, match=message):
        DOMAIN.make_task(DOMAIN.Spec.parse(json.dumps({**SPEC.model_dump(), **changes})))


def test_the_prompt_for_specs_has_an_example_and_names_all_choices():
    line = next(line for line in DOMAIN.spec_prompt.split("\n") if line.startswith("{"))
    validate(DOMAIN, [DOMAIN.make_task(BfclSpec.parse(line))])
    assert all(word in DOMAIN.spec_prompt for word in (*CATEGORIES, *TYPES, *STYLES))


def test_features_and_difficulty():
    assert DOMAIN.features(SPEC) == {
        "category": "multiple", "parameters": "3", "optional": "yes", "nested": "none", "distractors": "2",
        "style": "plain",
    }  # fmt: skip
    assert DOMAIN.difficulty(SPEC) == 4
    rng = np.random.default_rng(0)
    easy, hard = ([DOMAIN.difficulty(sample(rng)) for _ in range(60)] for sample in (DOMAIN.sample_easy, DOMAIN.sample))
    assert np.mean(easy) + 1 < np.mean(hard)


# --- held-out tasks


def test_functions_are_held_out():
    training, held_out = set(function_names(False)), set(function_names(True))
    assert not training & held_out
    assert len(held_out) == 24
    assert len(training) == 72
    for part in range(2):
        assert {name[part] for name in training} == {name[part] for name in held_out}


def test_held_out_tasks_share_no_function_and_no_spec_with_training(tasks):
    held_out = DOMAIN.held_out_tasks(150)
    names = [{function.name for task in some for function in task.answer_key.functions} for some in (tasks, held_out)]
    assert not names[0] & names[1]
    assert not {task.prompt for task in tasks} & {task.prompt for task in held_out}
    assert len({task.spec.key for task in held_out}) == 150
    validate(DOMAIN, held_out)


def test_no_proposer_can_write_a_held_out_spec():
    task = DOMAIN.held_out_tasks(1)[0]
    assert isinstance(task.spec, HeldOutSpec)
    with pytest.raises(SpecError, match="variation"):
        DOMAIN.Spec.parse(task.spec.text)
    assert TaskFilter(DOMAIN, ()).check(task.spec.text).rejection == "malformed"
    rng = np.random.default_rng(0)
    assert all(type(DOMAIN.vary(DOMAIN.sample(rng), rng)) is BfclSpec for _ in range(50))


# --- replies

PARALLEL = {"category": "parallel", "calls": 2, "distractors": 0, "parameters": ("string", "integer", "enum?")}


def test_parallel_calls_may_come_in_any_order_and_form():
    calls = make_task(**PARALLEL).answer_key.calls
    task, (first, second) = make_task(**PARALLEL), (DOMAIN.oracle_reply(make_task(**PARALLEL))[1:-1].split("), "))
    first += ")"
    assert len(calls) == 2
    for reply in (f"[{second}, {first}]", f"{first}, {second}", f"```python\n[{first}, {second}]\n```"):
        assert score(task, reply) == 1
    assert score(task, f"[{first}, {first}]") == score(task, f"[{first}]") == 0


def test_defaults_may_be_given_or_left_out():
    for variation in range(40):
        task = make_task(category="simple", distractors=0, parameters=("string", "integer?"), variation=variation)
        call, parameter = task.answer_key.calls[0], task.answer_key.functions[0].parameters[1]
        reply = DOMAIN.oracle_reply(task)
        assert score(task, reply) == 1
        if parameter.name not in call.arguments:
            assert score(task, f"{reply[:-2]}, {parameter.name}={parameter.default})]") == 1
            assert score(task, f"{reply[:-2]}, {parameter.name}={parameter.default + 1})]") == 0


def test_texts_are_compared_as_in_the_benchmark():
    task = make_task(category="simple", distractors=0, parameters=("string",))
    name, parameter = task.answer_key.functions[0].name, task.answer_key.functions[0].parameters[0].name
    value = task.answer_key.calls[0].arguments[parameter]
    assert score(task, f'[{name}({parameter}="{value.upper()}.")]') == 1
    assert score(task, f"{name}({parameter}={value!r})") == 1


def test_only_empty_brackets_make_no_call():
    task = make_task(category="irrelevance")
    assert all(score(task, reply) == 1 for reply in ("[]", " [ ]\n", "```\n[]\n```"))
    for reply in ("", "\n", "none", "No function fits.", "()", "{}", "[", "]", "\x00"):
        result = DOMAIN.check(task, reply)
        assert (result.score, result.valid) == (0, False), reply


def test_values_by_position_and_empty_values_are_wrong():
    for variation in range(20):
        task = make_task(category="simple", distractors=0, parameters=("string", "array?"), variation=variation)
        (call,), function = task.answer_key.calls, task.answer_key.functions[0]
        reply = DOMAIN.oracle_reply(task)
        assert "without a name" in DOMAIN.check(task, reply.replace("(", "(7, ")).reason
        for empty in ("''", "[]", "' '"):
            assert not score(task, f"[{function.name}({function.parameters[0].name}={empty})]")
        if len(call.arguments) == 1:
            assert "empty" in DOMAIN.check(task, f"{reply[:-2]}, {function.parameters[1].name}=[])]").reason


def test_reasons_name_the_mistake():
    reasons = set()
    for task in sample_tasks(40, seed=2):
        results = [DOMAIN.check(task, reply) for reply in DOMAIN.wrong_replies(task)]
        assert any(result.valid for result in results)
        assert any(not result.valid for result in results)
        reasons |= {result.reason.split(":")[0] for result in results}
    assert {
        "wrong number of calls", "wrong function", "missing argument", "unexpected argument", "wrong type",
        "wrong value", "no matching call", "argument without a name", "empty argument",
    } <= reasons  # fmt: skip


# --- several turns

TURNS = {"category": "multi_turn", "calls": 3, "distractors": 1, "parameters": ("string", "integer?")}


def test_results_and_requests_come_one_after_another():
    task = make_task(**TURNS)
    assert task.prompt == (
        "functions:\n"
        "create_note(team: string, days: integer = 30) -> id\n"
        "create_bill(team: string, days: integer = 31) -> id\n"
        "create_contract(team: string, days: integer = 31) -> id\n"
        "delete_contract(id: integer, team: string, version: integer = 42)\n"
        "request: create a contract with team pink."
    )
    assert transcript(DOMAIN, task, DOMAIN.oracle_reply(task)) == [
        ("[create_contract(team='pink')]", "id 356"),
        ("[]", "request: create a note with team gray within 32 days."),
        ("[create_note(team='gray', days=32)]", "id 498"),
        ("[]", "request: delete the contract with team blue in version 45."),
        ("[delete_contract(id=356, team='blue', version=45)]", "done"),
        ("[]", ""),
    ]


def test_ids_come_from_the_results_of_calls(tasks):
    for task in (task for task in tasks if task.answer_key.requests):
        turns = transcript(DOMAIN, task, DOMAIN.oracle_reply(task))
        assert turns[-1] == ("[]", "")
        seen = ""
        for turn, observation in turns:
            for call in parse_calls(turn):
                if "id" in call.arguments:
                    assert f"id {call.arguments['id']}" in seen
            seen += f"{observation}\n"
        assert not any(str(call.arguments.get("id")) in task.prompt for call in task.answer_key.calls)


def test_calls_of_a_request_may_share_a_turn():
    """The calls of a request may come in any order and in one turn, if they need no results of each other."""
    num_checked = 0
    for variation in range(60):
        task = make_task(**TURNS, variation=variation)
        counts, calls = [count for count, _ in task.answer_key.requests], task.answer_key.calls
        if counts[0] < 2 or "id" in calls[1].arguments:
            continue
        first, second, *rest = DOMAIN.oracle_reply(task).split("\n")
        assert score(task, "\n".join([f"{second[:-1]}, {first[1:]}", *rest])) == 1
        assert score(task, "\n".join([second, first, *rest])) == 1
        num_checked += 1
    assert num_checked >= 3


def test_an_episode_ends_with_its_first_mistake():
    task = make_task(**TURNS)
    first, *rest = DOMAIN.oracle_reply(task).split("\n")
    for turn, valid in (("[]", True), ("none", False), ("", False), (f"{first[:-1]}, {first[1:]}", True)):
        episode = DOMAIN.start_episode(task)
        assert episode.step(turn) is None
        assert episode.step(first) is None
        result = DOMAIN.check(task, "\n".join([turn, first, *rest]))
        assert (result.score, result.valid) == (0, valid)
    assert DOMAIN.check(task, first).reason == "the episode is not over"
    assert "missing" in DOMAIN.check(task, "[]").reason


def test_other_categories_end_with_the_first_turn(tasks):
    for task in (task for task in tasks if not task.answer_key.requests):
        episode = DOMAIN.start_episode(task)
        assert episode.step(DOMAIN.oracle_reply(task)) is None
        assert episode.is_right


def attack_all_categories(tasks: list[Task], count: int, seed: int) -> int:
    """Check hostile and mutated replies; return how many of the mutated ones are right."""
    for text in (*FIXED, *TEN_MEGABYTES.values()):
        for task in (tasks[0], next(task for task in tasks if not task.answer_key.calls)):
            result = DOMAIN.check(task, text)
            assert not result.score or (text == "[]" and not task.answer_key.calls)
    return attack(DOMAIN, tasks, count, 1000, seed, mutate)


def test_hostile_replies_are_wrong_and_never_executed(tasks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    called = [task for task in tasks if task.answer_key.calls]
    without_calls = [task for task in tasks if not task.answer_key.calls]
    assert attack_all_categories([*called[:100], *without_calls[:10]], 200, seed=0) < 70
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_thousands_of_hostile_replies_are_wrong_and_never_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    attack_all_categories(sample_tasks(500, seed=3), 3000, seed=1)
    assert list(tmp_path.iterdir()) == []


# --- runs


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """An agent that has learned that `[]` is often right, and an environment model."""
    settings = PretrainSettings(
        agent_steps=60, environment_steps=2, batch_size=8, num_tokenizer_specs=200, num_held_out=8, hard_fraction=0.0
    )  # fmt: skip
    size = ModelSize(width=32, num_layers=2, num_heads=2, mlp_width=64)
    with pytest.MonkeyPatch.context() as patch:  # shorter evaluations
        patch.setattr(pretrain_data, "MAX_NEW_TOKENS", 8)
        patch.setattr(pretrain_data, "NUM_EVAL_PROMPTS", 8)
        patch.setattr(BfclDomain, "sample_easy", lambda self, rng: SPEC.model_copy(update={"category": "irrelevance"}))
        return pretrain(DOMAIN, tmp_path_factory.mktemp("models"), 0, size, settings)


def test_a_run_resumes_exactly(models, tmp_path):
    agent, environment = map(str, models)
    plan = CoevolutionPlan(
        rollouts=192, tasks_per_step=8, num_base_tasks=8, num_eval_tasks=8, eval_every=2, num_variations=2
    )  # fmt: skip
    request = CoevolveRequest(
        proposer="greedy", agent=agent, environment=environment, plan=plan,
        agent_settings=AgentSettings(max_new_tokens=8),
    )  # fmt: skip
    whole = coevolve(tmp_path / "whole", DOMAIN, request)

    def interrupt(line):
        if line["step"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        coevolve(tmp_path / "interrupted", DOMAIN, request, on_progress=interrupt, save_every=0)
    resumed = coevolve(tmp_path / "interrupted", DOMAIN, request, save_every=0)
    assert resumed.accuracy_curve == whole.accuracy_curve
    assert resumed.counts == whole.counts
    assert any(
        0 < json.loads(line)["success_rate"] < 1 for line in (tmp_path / "whole/tasks.jsonl").read_text().splitlines()
    )
    stores = [(tmp_path / name / "agent_traces.jsonl").read_bytes() for name in ("whole", "interrupted")]
    assert stores[0] == stores[1]
