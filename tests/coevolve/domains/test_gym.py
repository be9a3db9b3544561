"""reasoning-gym's generators as domains: what they promise is kept, whatever their scorers and their items do."""

import random as global_random
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hashed import printed_twice
from hypothesis import example, given
from hypothesis import strategies as st

from envgen.coevolve.tasks import DomainError, SpecError, Task, validate

pytest.importorskip("reasoning_gym")

from reasoning_gym import factory  # pyright: ignore[reportMissingImports]

from envgen.coevolve.domains import gym_package
from envgen.coevolve.domains.gym import UNFIT, Gym

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
DOMAINS = {name: Gym(name) for name in GENERATORS}
LEGS = DOMAINS["leg_counting"]


def tasks_of(domain: Gym, count: int, seed: int = 0) -> list[Task]:
    random = np.random.default_rng(seed)
    return [domain.make_task(domain.sample(random)) for _ in range(count)]


TASKS = {name: tasks_of(domain, 40) for name, domain in DOMAINS.items()}


# --- what a domain promises


@pytest.mark.parametrize("name", GENERATORS)
def test_each_answer_is_right_and_known_wrong_ones_are_worth_nothing(name: str):
    validate(DOMAINS[name], TASKS[name])
    random = np.random.default_rng(1)
    validate(DOMAINS[name], [DOMAINS[name].make_task(DOMAINS[name].sample_easy(random)) for _ in range(10)])


def test_two_thousand_tasks_are_right():
    validate(LEGS, tasks_of(LEGS, 2000))


def test_a_task_is_a_function_of_its_spec():
    for name, tasks in TASKS.items():
        anew = Gym(name)
        for one in reversed(tasks):
            again = anew.make_task(anew.Spec.parse(one.spec.text))
            assert (again.prompt, again.gold) == (one.prompt, one.gold)


def test_other_processes_make_the_same_tasks():
    code = (
        "import numpy as np\n"
        "from envgen.coevolve.domains.gym import Gym\n"
        "for name in ('leg_counting', 'number_sorting', 'list_functions'):\n"
        "    print([(task.prompt, task.gold) for task in Gym(name).held_out_tasks(20)])\n"
    )
    one, other = printed_twice(code)
    assert one == other
    assert "legs" in one


def test_specs_are_what_the_curriculum_varies_and_an_item():
    assert list(LEGS.Spec.model_fields) == ["min_animals", "max_animals", "min_instances", "max_instances", "variation"]
    assert LEGS.name == "gym:leg_counting"
    written = next(line for line in LEGS.spec_prompt.splitlines() if line.startswith("{"))
    assert LEGS.make_task(LEGS.Spec.parse(written)).prompt


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("no", "not JSON"),
        ('{"min_animals":1}', "max_animals: Field required"),
        ('{"min_animal":1}', "did you mean 'min_animals'?"),
        ('{"min_animals":0,"max_animals":3,"min_instances":2,"max_instances":4}', "greater than or equal to 1 (got 0)"),
        ('{"min_animals":1,"max_animals":1e9,"min_instances":2,"max_instances":4}', "less than or equal to 36"),
        ('{"min_animals":5,"max_animals":3,"min_instances":2,"max_instances":4}', "max_animals must be >= min_animals"),
    ],
)
def test_what_makes_no_task_is_told_in_a_sentence(text: str, sentence: str):
    with pytest.raises(SpecError, match=re.escape(sentence)):
        LEGS.make_task(LEGS.Spec.parse(text))


def test_easy_is_easy_and_difficulty_is_a_place_between_the_levels():
    random = np.random.default_rng(0)
    for domain in DOMAINS.values():
        easy = np.mean([domain.difficulty(domain.sample_easy(random)) for _ in range(5)])
        uniform = np.mean([domain.difficulty(one.spec) for one in TASKS[domain.generator]])
        assert 0 <= easy < uniform < 1
    low, high = {"min": 1, "max": 36}, {"min": 2, "max": 1024}
    ends = [
        {"min_animals": low[k], "max_animals": low[k], "min_instances": high[k], "max_instances": high[k]} for k in low
    ]
    assert [LEGS.difficulty(LEGS.Spec(**end)) for end in ends] == [0, 1]
    assert LEGS.features(LEGS.Spec(**ends[1])) == dict.fromkeys(ends[1], "highest")


def test_uniform_specs_are_spread_over_the_levels():
    domain = DOMAINS["tower_of_hanoi"]
    random = np.random.default_rng(0)
    pegs = [domain.sample(random).max_pegs for _ in range(200)]
    assert {pegs.count(number) > 30 for number in (4, 5)} == {True}
    instances = [LEGS.sample(random).max_instances for _ in range(300)]
    assert 0.3 < np.mean(np.array(instances) < 64) < 0.6  # half the levels lie below


def test_specs_vary_where_there_is_anything_to_keep():
    random = np.random.default_rng(0)
    for name in ("leg_counting", "list_functions"):
        domain = Gym(name)
        spec = domain.sample(random)
        others = [domain.vary(spec, random) for _ in range(20)]
        assert len({other.key for other in others}) > 15
        validate(domain, map(domain.make_task, others))


# --- what generators and scorers do that no domain may


def test_parts_of_a_point_are_nothing():
    domain = Gym("tower_of_hanoi")
    one = domain.make_task(domain.sample_easy(np.random.default_rng(0)))
    longer = f"{one.gold.answer}\n{reverse(one.gold.answer)}\n{one.gold.answer}"
    dataset = domain._dataset(domain._numbers(one.spec))
    assert 0 < dataset.score_answer(longer, one.gold.entry) < 1
    verdict = domain.check(one, longer)
    assert (verdict.score, verdict.valid) == (0, True)
    assert domain.check(one, f"\n {one.gold.answer} \n").score == 1


def reverse(moves: str) -> str:
    """Hanoi backwards."""
    back = []
    for move in reversed(moves.splitlines()):
        disk, start, end = re.findall(r"\d+", move)
        back.append(f"Move disk {disk} from Peg {end} to Peg {start}")
    return "\n".join(back)


@pytest.mark.parametrize("name", ["spiral_matrix", "string_insertion", "n_queens", "binary_matrix"])
def test_no_reply_is_evaluated_as_code(name: str, tmp_path: Path):
    domain = Gym(name)
    one = domain.make_task(domain.sample_easy(np.random.default_rng(0)))
    mark = tmp_path / "mark"
    reply = f"open({str(mark)!r}, 'w').close() or ['1']"
    dataset = domain._dataset(domain._numbers(one.spec))
    dataset.score_answer(reply, one.gold.entry)
    assert mark.exists()  # it would be
    mark.unlink()
    verdict = domain.check(one, reply)
    assert not mark.exists()
    assert (verdict.score, verdict.valid) == (0, False)
    assert "as code" in verdict.reason
    assert eval("1 + 1") == 2  # elsewhere nothing is forbidden


@pytest.mark.parametrize("name", ["countdown", "puzzle24", "simple_integration", "polynomial_multiplication"])
def test_generators_that_cannot_score_without_evaluating_are_refused(name: str):
    domain = Gym(name)
    with pytest.raises(DomainError, match="would evaluate replies as code"):
        domain.sample_easy(np.random.default_rng(0))


def test_nan_is_no_number():
    for name, reply in {"complex_arithmetic": "nan", "number_sorting": "[{}]"}.items():
        one = TASKS[name][0]
        reply = reply.format(", ".join(["NaN"] * (one.gold.answer.count(",") + 1)))
        dataset = DOMAINS[name]._dataset(DOMAINS[name]._numbers(one.spec))
        assert dataset.score_answer(reply, one.gold.entry) == 1  # reasoning-gym is fooled
        assert DOMAINS[name].check(one, reply).score == 0


def test_generators_without_an_answer_or_with_a_broken_scorer_are_refused():
    random = np.random.default_rng(0)
    with pytest.raises(DomainError, match="no answer of its own"):
        Gym("graph_color").sample(random)
    halting = Gym("game_of_life_halting")
    with pytest.raises(DomainError, match=r"scores the wrong 'I do not know\.' 1\.0"):
        validate(halting, [halting.make_task(halting.sample_easy(random))])
    with pytest.raises(DomainError, match="none of 100 specs of gym:composite gives a task"):
        Gym("composite").sample(random)
    for name in UNFIT:
        with pytest.raises(DomainError, match=f"{name} cannot be a domain"):
            Gym(name)


def test_an_unknown_generator_is_told_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'leg_counting'"):
        Gym("legcounting")


def test_what_looks_for_ever_is_stopped():
    domain = Gym("base_conversion")  # looks for two different bases
    with pytest.raises(SpecError, match="too long"):
        domain.make_task(domain.Spec(min_base=7, max_base=7, min_value=1000, max_value=2000))
    assert sys.getprofile() is None


def test_books_are_no_prompts():
    domain = Gym("needle_haystack")
    with pytest.raises(SpecError, match="there may be 8,000"):
        domain.make_task(domain.Spec(min_num_statements=1000, max_num_statements=1000))


def test_nobody_elses_randomness_is_touched_nor_matters(capsys: pytest.CaptureFixture[str]):
    for name in ("pool_matrix", "list_functions", "bf"):  # seeds numpy's; draws from Python's; prints
        domain = Gym(name)
        spec = domain.sample_easy(np.random.default_rng(0))
        global_random.seed(1)
        np.random.seed(1)
        before = global_random.getstate(), np.random.get_state()[1].tolist()
        one = Gym(name).make_task(spec)
        assert (global_random.getstate(), np.random.get_state()[1].tolist()) == before
        global_random.seed(2)
        assert Gym(name).make_task(spec) == one
    assert capsys.readouterr().out == ""


@given(st.text(max_size=200))
@example("1e999999999")
@example("[" * 250)
@example("(" * 250)
@example("{}")
@example("\x00")
@example("9" * 250)
def test_any_reply_gets_a_verdict(reply: str):
    for name, tasks in TASKS.items():
        verdict = DOMAINS[name].check(tasks[0], reply)
        assert verdict.score in (0, 1)
        assert verdict.valid or (verdict.score == 0 and verdict.reason)


# --- scorers that are worse than any of reasoning-gym's


class Toy:
    """A dataset that asks for an a."""

    def __init__(self, config: Any):
        self.config = config

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index == 13:
            Lingering()
            forever()
        return {"question": "Say a.", "answer": "a", "metadata": {}}

    def score_answer(self, answer: str, entry: dict[str, Any]) -> Any:
        if answer == "a":
            return 1.0
        return {"raise": lambda: 1 / 0, "loop": forever, "much": lambda: 1.5, "none": str}[answer]()


def forever() -> None:
    while True:
        len("")


class Lingering:
    """Exceptions in its deletion come to nothing."""

    def __del__(self):
        forever()


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Gym:
    monkeypatch.setitem(factory.DATASETS, "toy", (Toy, SimpleNamespace))
    monkeypatch.setattr(gym_package, "EVENTS", 10_000)
    return Gym("toy")


@pytest.mark.parametrize(
    ("reply", "valid"), [("raise", False), ("loop", False), ("none", False), ("much", True), ("zebra", False)]
)
def test_whatever_a_scorer_does_a_wrong_reply_is_worth_nothing(toy: Gym, reply: str, valid: bool):
    one = toy.make_task(toy.Spec(variation=3))
    validate(toy, [one])
    verdict = toy.check(one, reply)
    assert (verdict.score, verdict.valid) == (0, valid)
    assert verdict.reason


def test_what_looks_for_ever_is_stopped_wherever_it_is(toy: Gym, capfd: pytest.CaptureFixture[str]):
    with pytest.raises(SpecError, match="too long"):
        toy.make_task(toy.Spec(variation=13))
    assert capfd.readouterr().err == ""
