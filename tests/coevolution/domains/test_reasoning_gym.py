"""The generators of reasoning-gym keep the contract of a domain, whatever their scorers and items do."""

import random as global_random
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hash_seeds import outputs_under_two_hash_seeds
from hypothesis import example, given
from hypothesis import strategies as st

from envgen.coevolution.proposers import UniformProposer
from envgen.coevolution.reward import SuccessStats
from envgen.coevolution.settings import CoevolutionPlan
from envgen.coevolution.tasks import DomainError, SpecError, Task, validate
from envgen.coevolution.train import setup_tasks

pytest.importorskip("reasoning_gym")

from reasoning_gym import factory  # pyright: ignore[reportMissingImports]

from envgen.coevolution.domains.reasoning_gym import package
from envgen.coevolution.domains.reasoning_gym.domain import UNSUITABLE, ReasoningGymDomain

GENERATORS = (
    "basic_arithmetic",
    "chain_sum",
    "complex_arithmetic",
    "knights_knaves",
    "leg_counting",
    "number_sorting",
    "palindrome_generation",
    "spiral_matrix",
    "string_insertion",
    "syllogism",
    "tower_of_hanoi",
)
DOMAINS = {name: ReasoningGymDomain(name) for name in GENERATORS}
LEGS = DOMAINS["leg_counting"]


def sample_tasks(domain: ReasoningGymDomain, count: int, seed: int = 0) -> list[Task]:
    rng = np.random.default_rng(seed)
    return [domain.make_task(domain.sample(rng)) for _ in range(count)]


TASKS = {name: sample_tasks(domain, 40) for name, domain in DOMAINS.items()}


# --- the contract of a domain


@pytest.mark.parametrize("name", GENERATORS)
def test_oracle_replies_score_one_and_wrong_replies_zero(name: str):
    validate(DOMAINS[name], TASKS[name])
    rng = np.random.default_rng(1)
    validate(DOMAINS[name], [DOMAINS[name].make_task(DOMAINS[name].sample_easy(rng)) for _ in range(10)])


def test_two_thousand_tasks_are_valid():
    validate(LEGS, sample_tasks(LEGS, 2000))


def test_task_is_a_function_of_its_spec():
    for name, tasks in TASKS.items():
        domain = ReasoningGymDomain(name)
        for task in reversed(tasks):
            copy = domain.make_task(domain.Spec.parse(task.spec.text))
            assert (copy.prompt, copy.answer_key) == (task.prompt, task.answer_key)


@pytest.mark.slow
def test_tasks_do_not_depend_on_string_hashes():
    code = (
        "import numpy as np\n"
        "from envgen.coevolution.domains.reasoning_gym.domain import ReasoningGymDomain\n"
        "for name in ('leg_counting', 'number_sorting', 'list_functions'):\n"
        "    print([(task.prompt, task.answer_key) for task in ReasoningGymDomain(name).held_out_tasks(20)])\n"
    )
    first, second = outputs_under_two_hash_seeds(code)
    assert first == second
    assert "legs" in first


def test_spec_fields_are_the_parameters_of_the_curriculum():
    assert list(LEGS.Spec.model_fields) == ["min_animals", "max_animals", "min_instances", "max_instances", "variation"]
    assert LEGS.name == "reasoning_gym:leg_counting"
    example_spec = next(line for line in LEGS.spec_prompt.splitlines() if line.startswith("{"))
    assert LEGS.make_task(LEGS.Spec.parse(example_spec)).prompt


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no", "not valid JSON"),
        ('{"min_animals":1}', "max_animals: Field required"),
        ('{"min_animal":1}', "did you mean 'min_animals'?"),
        ('{"min_animals":0,"max_animals":3,"min_instances":2,"max_instances":4}', "greater than or equal to 1 (got 0)"),
        ('{"min_animals":1,"max_animals":1e9,"min_instances":2,"max_instances":4}', "less than or equal to 36"),
        ('{"min_animals":5,"max_animals":3,"min_instances":2,"max_instances":4}', "max_animals must be >= min_animals"),
    ],
)
def test_specs_without_a_task_are_rejected_with_a_reason(text: str, message: str):
    with pytest.raises(SpecError, match=re.escape(message)):
        LEGS.make_task(LEGS.Spec.parse(text))


def test_difficulty_is_the_position_between_the_levels():
    rng = np.random.default_rng(0)
    for domain in DOMAINS.values():
        easy = np.mean([domain.difficulty(domain.sample_easy(rng)) for _ in range(5)])
        uniform = np.mean([domain.difficulty(task.spec) for task in TASKS[domain.generator]])
        assert 0 <= easy < uniform < 1
    low, high = {"min": 1, "max": 36}, {"min": 2, "max": 1024}
    ends = [
        {"min_animals": low[k], "max_animals": low[k], "min_instances": high[k], "max_instances": high[k]} for k in low
    ]
    assert [LEGS.difficulty(LEGS.Spec(**end)) for end in ends] == [0, 1]
    assert LEGS.features(LEGS.Spec(**ends[1])) == dict.fromkeys(ends[1], "highest")


def test_sampled_specs_are_uniform_over_the_levels():
    domain = DOMAINS["tower_of_hanoi"]
    rng = np.random.default_rng(0)
    pegs = [domain.sample(rng).max_pegs for _ in range(200)]
    assert {pegs.count(number) > 30 for number in (4, 5)} == {True}
    instances = [LEGS.sample(rng).max_instances for _ in range(300)]
    assert 0.3 < np.mean(np.array(instances) < 64) < 0.6  # half of the levels are below 64


def test_vary_keeps_some_parameters_if_there_are_any():
    rng = np.random.default_rng(0)
    for name in ("leg_counting", "list_functions"):
        domain = ReasoningGymDomain(name)
        spec = domain.sample(rng)
        variants = [domain.vary(spec, rng) for _ in range(20)]
        assert len({variant.key for variant in variants}) > 15
        validate(domain, map(domain.make_task, variants))


# --- generators and scorers that break the contract


def test_a_generator_without_parameters_has_enough_tasks():
    domain = ReasoningGymDomain("list_functions")
    assert not domain.parameters
    plan = CoevolutionPlan()
    setup = setup_tasks(domain, plan)
    assert (len(setup.eval_tasks), len(setup.base_specs)) == (plan.num_eval_tasks, plan.num_base_tasks)
    proposals = UniformProposer(domain, 1).propose(24, setup.base_specs, SuccessStats(), setup.task_filter)
    assert len(proposals.accepted) == 24


def test_partial_credit_counts_as_zero():
    domain = ReasoningGymDomain("tower_of_hanoi")
    task = domain.make_task(domain.sample_easy(np.random.default_rng(0)))
    longer = f"{task.answer_key.answer}\n{reverse(task.answer_key.answer)}\n{task.answer_key.answer}"
    dataset = domain._dataset(domain._values(task.spec))
    assert 0 < dataset.score_answer(longer, task.answer_key.entry) < 1
    result = domain.check(task, longer)
    assert (result.score, result.valid) == (0, True)
    assert domain.check(task, f"\n {task.answer_key.answer} \n").score == 1


def reverse(moves: str) -> str:
    """The moves of the tower of Hanoi, undone."""
    reversed_moves = []
    for move in reversed(moves.splitlines()):
        disk, start, end = re.findall(r"\d+", move)
        reversed_moves.append(f"Move disk {disk} from Peg {end} to Peg {start}")
    return "\n".join(reversed_moves)


@pytest.mark.parametrize("name", ["spiral_matrix", "string_insertion", "n_queens", "binary_matrix"])
def test_replies_are_never_evaluated_as_code(name: str, tmp_path: Path):
    domain = ReasoningGymDomain(name)
    task = domain.make_task(domain.sample_easy(np.random.default_rng(0)))
    marker = tmp_path / "marker"
    reply = f"open({str(marker)!r}, 'w').close() or ['1']"
    dataset = domain._dataset(domain._values(task.spec))
    dataset.score_answer(reply, task.answer_key.entry)
    assert marker.exists()  # without the protection
    marker.unlink()
    result = domain.check(task, reply)
    assert not marker.exists()
    assert (result.score, result.valid) == (0, False)
    assert "as code" in result.reason
    assert eval("1 + 1") == 2  # allowed everywhere else


@pytest.mark.parametrize("name", ["countdown", "puzzle24", "simple_integration", "polynomial_multiplication"])
def test_generators_that_must_evaluate_replies_are_rejected(name: str):
    domain = ReasoningGymDomain(name)
    with pytest.raises(DomainError, match="would evaluate replies as code"):
        domain.sample_easy(np.random.default_rng(0))


def test_nan_is_not_a_number():
    for name, reply in {"complex_arithmetic": "nan", "number_sorting": "[{}]"}.items():
        task = TASKS[name][0]
        reply = reply.format(", ".join(["NaN"] * (task.answer_key.answer.count(",") + 1)))
        dataset = DOMAINS[name]._dataset(DOMAINS[name]._values(task.spec))
        assert dataset.score_answer(reply, task.answer_key.entry) == 1  # fools reasoning-gym
        assert DOMAINS[name].check(task, reply).score == 0


def test_generators_without_answers_or_with_broken_scorers_are_rejected():
    rng = np.random.default_rng(0)
    with pytest.raises(DomainError, match="no answer of its own"):
        ReasoningGymDomain("graph_color").sample(rng)
    halting = ReasoningGymDomain("game_of_life_halting")
    with pytest.raises(DomainError, match=r"scores the wrong reply 'I do not know\.' 1\.0"):
        validate(halting, [halting.make_task(halting.sample_easy(rng))])
    with pytest.raises(DomainError, match="none of 100 sampled specs of reasoning_gym:composite gives a task"):
        ReasoningGymDomain("composite").sample(rng)
    for name in UNSUITABLE:
        with pytest.raises(DomainError, match=f"{name} cannot be a domain"):
            ReasoningGymDomain(name)


def test_unknown_generator_suggests_the_nearest_name():
    with pytest.raises(ValueError, match="did you mean 'leg_counting'"):
        ReasoningGymDomain("legcounting")


def test_endless_generators_are_stopped():
    domain = ReasoningGymDomain("base_conversion")  # searches for two different bases
    with pytest.raises(SpecError, match="too long"):
        domain.make_task(domain.Spec(min_base=7, max_base=7, min_value=1000, max_value=2000))
    assert sys.getprofile() is None


def test_very_long_prompts_are_rejected():
    domain = ReasoningGymDomain("needle_haystack")
    with pytest.raises(SpecError, match="must have 1 to 8,000"):
        domain.make_task(domain.Spec(min_num_statements=1000, max_num_statements=1000))


def test_global_random_state_is_neither_used_nor_changed(capsys: pytest.CaptureFixture[str]):
    for name in ("pool_matrix", "list_functions", "bf"):  # seeds numpy's generator; draws from Python's; prints
        domain = ReasoningGymDomain(name)
        spec = domain.sample_easy(np.random.default_rng(0))
        global_random.seed(1)
        np.random.seed(1)
        before = global_random.getstate(), np.random.get_state()[1].tolist()
        task = ReasoningGymDomain(name).make_task(spec)
        assert (global_random.getstate(), np.random.get_state()[1].tolist()) == before
        global_random.seed(2)
        assert ReasoningGymDomain(name).make_task(spec) == task
    assert capsys.readouterr().out == ""


@given(st.text(max_size=200))
@example("1e999999999")
@example("[" * 250)
@example("(" * 250)
@example("{}")
@example("\x00")
@example("9" * 250)
def test_checker_accepts_any_text(reply: str):
    for name, tasks in TASKS.items():
        result = DOMAINS[name].check(tasks[0], reply)
        assert result.score in (0, 1)
        assert result.valid or (result.score == 0 and result.reason)


# --- scorers worse than any of reasoning-gym's


class ToyDataset:
    """A dataset whose answer is always "a"."""

    def __init__(self, config: Any):
        self.config = config

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index == 13:
            EndlessDestructor()
            loop_forever()
        return {"question": "Say a.", "answer": "a", "metadata": {}}

    def score_answer(self, answer: str, entry: dict[str, Any]) -> Any:
        if answer == "a":
            return 1.0
        return {"raise": lambda: 1 / 0, "loop": loop_forever, "too_high": lambda: 1.5, "none": str}[answer]()


def loop_forever() -> None:
    while True:
        len("")


class EndlessDestructor:
    """Python ignores exceptions in `__del__`."""

    def __del__(self):
        loop_forever()


@pytest.fixture
def toy_domain(monkeypatch: pytest.MonkeyPatch) -> ReasoningGymDomain:
    monkeypatch.setitem(factory.DATASETS, "toy", (ToyDataset, SimpleNamespace))
    monkeypatch.setattr(package, "CALL_BUDGET", 10_000)
    return ReasoningGymDomain("toy")


@pytest.mark.parametrize(
    ("reply", "valid"), [("raise", False), ("loop", False), ("none", False), ("too_high", True), ("zebra", False)]
)
def test_misbehaving_scorers_give_zero_for_wrong_replies(toy_domain: ReasoningGymDomain, reply: str, valid: bool):
    task = toy_domain.make_task(toy_domain.Spec(variation=3))
    validate(toy_domain, [task])
    result = toy_domain.check(task, reply)
    assert (result.score, result.valid) == (0, valid)
    assert result.reason


def test_endless_generators_are_stopped_inside_a_destructor(
    toy_domain: ReasoningGymDomain, capfd: pytest.CaptureFixture[str]
):
    with pytest.raises(SpecError, match="too long"):
        toy_domain.make_task(toy_domain.Spec(variation=13))
    assert capfd.readouterr().err == ""
