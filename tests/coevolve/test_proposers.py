"""Who proposes without a model: evenly, by what was solved lately, or from a set; and all go on exactly."""

import json

import numpy as np
import pytest
from toy import Toy, ToySpec

from envgen.coevolve.proposers import Greedy, Proposals, Static, Uniform
from envgen.coevolve.settings import Curriculum
from envgen.coevolve.statistics import Statistics
from envgen.coevolve.task_filter import Gate
from envgen.coevolve.tasks import Task

TEXTS = [ToySpec(which=1, letters=letter).text for letter in "abcde"]


def texts(proposals):
    return [one.text for one in proposals.tasks]


def proposed(proposer, wanted, known=None, gate=None):
    return proposer.propose(wanted, [], known or Statistics(), gate or Gate(Toy(), []))


def lately(loud, quiet):
    """Loud tasks succeeded this often of 100, quiet ones that often."""
    known = Statistics()
    for which in "12":
        known.add({"which": which, "loud": "yes"}, loud, 100)
        known.add({"which": which, "loud": "no"}, quiet, 100)
    return known


@pytest.mark.parametrize("proposer", [Uniform(Toy(), 0), Greedy(Toy(), 0, Curriculum())])
def test_as_many_as_wanted_are_proposed_each_once_and_none_held_out(proposer):
    held_out = Toy().held_out_tasks(40)
    gate = Gate(Toy(), held_out)
    found = [proposed(proposer, wanted, gate=gate) for wanted in (30, 20, 0)]
    assert [len(one.tasks) for one in found] == [30, 20, 0]
    specs = [text for one in found for text in texts(one)]
    assert len(set(specs)) == 50
    assert not set(specs) & {task.spec.text for task in held_out}
    assert all(isinstance(one.task, Task) and one.task.spec.text == one.text for one in found[0].tasks)
    assert [one.group for one in found[0].tasks] == list(range(30))
    refused = [one for one in found[1].written if one.task is None]
    assert {one.reason for one in refused} <= {"held out", "duplicate"}


def test_where_nothing_new_is_left_fewer_are_proposed():
    found = proposed(Uniform(Toy(), 0), 1000)
    assert 250 < len(found.tasks) < 1000  # there are 272
    assert all(one.reason == "duplicate" for one in found.written if one.task is None)


def test_uniform_spreads_every_field_whatever_succeeded():
    specs = [ToySpec.parse(text) for text in texts(proposed(Uniform(Toy(), 0), 200, lately(50, 0)))]
    assert 0.4 < np.mean([spec.loud == "yes" for spec in specs]) < 0.6


@pytest.mark.parametrize(
    ("loud", "quiet", "alpha", "preferred"),
    [(50, 99, 0.5, "yes"), (50, 1, 0.5, "yes"), (99, 45, 0.5, "no"), (90, 50, 0.9, "yes"), (10, 60, 0.1, "yes")],
)
def test_greedy_prefers_what_was_lately_solved_about_as_often_as_alpha(loud, quiet, alpha, preferred):
    proposer = Greedy(Toy(), 0, Curriculum(alpha=alpha))
    specs = [ToySpec.parse(text) for text in texts(proposed(proposer, 60, lately(loud, quiet)))]
    assert np.mean([spec.loud == preferred for spec in specs]) > 0.9


def test_static_goes_through_its_set_before_it_repeats_in_ever_new_orders():
    proposer = Static(Toy(), TEXTS, tokens=70, seed=0)
    rounds = [texts(proposed(proposer, len(TEXTS))) for _ in range(6)]
    assert all(sorted(found) == TEXTS for found in rounds)
    assert len({tuple(found) for found in rounds}) > 1


def test_static_keeps_its_place_between_steps_and_counts_its_tokens_once():
    proposer = Static(Toy(), TEXTS, tokens=70, seed=0)
    found = [proposed(proposer, 2) for _ in range(5)]
    assert sorted(text for one in found for text in texts(one)) == sorted(2 * TEXTS)
    assert sorted(text for one in found[:2] for text in texts(one))  # four different ones
    assert len({text for one in found[:2] for text in texts(one)}) == 4
    assert [one.tokens for one in found] == [70, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: Uniform(Toy(), seed),
        lambda seed: Greedy(Toy(), seed, Curriculum()),
        lambda seed: Static(Toy(), TEXTS, 70, seed),
    ],
)
def test_its_state_carries_over_exactly_through_a_checkpoint(make):
    first, second, known = make(0), make(1), lately(50, 90)
    proposed(first, 3, known)
    arrays, values = first.state()
    assert arrays == {}
    kept = json.loads(json.dumps(values))
    expected = [proposed(first, 7, known) for _ in range(2)]
    second.load({}, kept)
    again = [proposed(second, 7, known) for _ in range(2)]
    assert [(texts(one), one.tokens) for one in again] == [(texts(one), one.tokens) for one in expected]


def test_proposers_without_a_model_learn_nothing():
    assert Uniform(Toy(), 0).learn(Proposals(()), np.zeros(0)) == {}
