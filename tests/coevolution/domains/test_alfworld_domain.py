"""The domain `alfworld`: valid specs make solved games, and replies are scored by playing them."""

import json
from random import Random

import numpy as np
import pytest
from mutated_replies import TEN_MEGABYTES, mutate

from envgen.coevolution.domains.alfworld.domain import MAX_TURNS, AlfworldDomain, AlfworldSpec
from envgen.coevolution.domains.alfworld.engine import TextGame
from envgen.coevolution.domains.alfworld.planner import plan_commands
from envgen.coevolution.episodes import MAX_TURN_CHARS, normalize_turn, transcript
from envgen.coevolution.tasks import SpecError, Task, check_domain, validate

SPEC = AlfworldSpec(room="kitchen", task="heat", receptacles=6, copies=1, distractors=4, doors="closed", variation=17)


@pytest.fixture(scope="module")
def domain() -> AlfworldDomain:
    return AlfworldDomain()


@pytest.fixture(scope="module")
def tasks(domain) -> list[Task]:
    rng = np.random.default_rng(0)
    return [domain.make_task(domain.sample(rng)) for _ in range(100)]


@pytest.mark.parametrize("texts", ["compact", "original"])
def test_the_contract_of_a_domain(texts):
    check_domain(AlfworldDomain(texts), 100)


@pytest.mark.slow
def test_the_oracle_is_right_and_wrong_replies_are_wrong_on_two_thousand_tasks(domain):
    rng = np.random.default_rng(1)
    validate(domain, (domain.make_task(domain.sample(rng)) for _ in range(2000)))


def test_all_rooms_and_tasks_occur(domain, tasks):
    assert len({(task.spec.room, task.spec.task) for task in tasks}) == 14
    assert {task.spec.receptacles for task in tasks} == {4, 5, 6, 7, 8}


def test_a_task_is_read_and_answered_in_few_words(domain):
    task = domain.make_task(SPEC)
    assert task.prompt.startswith("put hot ")
    turns = transcript(domain, task, domain.oracle_reply(task))
    assert turns[-1][1] == ""
    assert all(len(observation) < 100 for _, observation in turns)
    assert domain.start_episode(task).step("go to microwave 1") == "closed"
    assert domain.start_episode(task).step("fly") == "nothing happens"


def test_the_original_texts_are_those_of_alfworld():
    domain = AlfworldDomain("original")
    task = domain.make_task(SPEC)
    assert task.prompt.startswith("-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room.")
    assert domain.start_episode(task).step("go to microwave 1") == (
        "You arrive at microwave 1. The microwave 1 is closed."
    )
    assert domain.name == "alfworld:original"
    with pytest.raises(ValueError, match="compact or original, not 'long'"):
        AlfworldDomain("long")


def test_the_score_of_an_episode_is_that_of_its_text(domain, tasks):
    """An episode that was rolled out, and its text scored afterwards, agree on whether and when the goal is reached."""
    rng = Random(0)
    for task in tasks[:50]:
        game, episode, turns = TextGame(task.answer_key.game, MAX_TURNS), domain.start_episode(task), []
        observation: str | None = ""
        while observation is not None:
            good = plan_commands(game.game, game.state) or ["look"]
            turn = good[0] if rng.random() < 0.7 else rng.choice([*game.admissible_commands, " no  such\nthing "])
            turns.append(normalize_turn(turn))
            game.step(turn)
            observation = episode.step(turns[-1])
        assert len(turns) == game.num_steps
        assert domain.check(task, "\n".join(turns)).score == float(game.won)


@pytest.mark.parametrize(("changes", "message"), [
    ({"room": "bathroom"}, "'heat' is not possible in a bathroom, only put, put two, clean"),
    ({"room": "attic"}, "not one of kitchen"), ({"receptacles": 40}, "receptacles"), ({"variation": -1}, "variation"),
    ({"code": "import os"}, "code"),
])  # fmt: skip
def test_a_contradictory_spec_is_refused(domain, changes, message):
    with pytest.raises(SpecError, match=message):
        domain.make_task(domain.Spec.parse(json.dumps({**SPEC.model_dump(), **changes})))


def test_harder_specs_take_more_commands(domain):
    rng = np.random.default_rng(0)
    easy, hard = ([domain.difficulty(sample(rng)) for _ in range(60)] for sample in (domain.sample_easy, domain.sample))
    assert np.mean(easy) + 0.5 < np.mean(hard)
    closed = [domain.difficulty(SPEC.model_copy(update={"variation": k})) for k in range(20)]
    opened = [domain.difficulty(SPEC.model_copy(update={"variation": k, "doors": "open"})) for k in range(20)]
    assert np.mean(opened) < np.mean(closed)


def test_two_thousand_hostile_replies_are_scored(domain, tasks):
    rng = Random(0)
    for number in range(2000):
        task = tasks[number % len(tasks)]
        reply = mutate(domain.oracle_reply(task), rng)
        result = domain.check(task, reply)
        assert result.score in (0.0, 1.0)
        assert result.valid or not result.score
        observation = domain.start_episode(task).step(reply)
        assert observation is None or len(observation) < 10 * MAX_TURN_CHARS


@pytest.mark.parametrize("reply", TEN_MEGABYTES.values(), ids=TEN_MEGABYTES)
def test_ten_megabytes_are_scored(domain, tasks, reply):
    assert domain.check(tasks[0], reply).score == 0
    domain.start_episode(tasks[0]).step(reply)
