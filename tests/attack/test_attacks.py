"""A few cases of every attack, the same ones in every run; `make attack` runs the full number."""

import pytest
from attacks import ATTACKS, MAX_FAILURES, Attack, attack, load_attacks, try_call

from envgen.errors import EnvgenError


@pytest.mark.parametrize("case", [a for a in load_attacks() if a.short], ids=lambda a: a.name)
def test_a_few_cases_of_each_attack_pass(case):
    result = case.run(case.short)
    assert not result.failures, "\n".join(result.failures[:MAX_FAILURES])
    assert result.num_cases >= case.short


def test_the_suite_has_the_attacks_of_all_its_modules():
    assert {case.name for case in load_attacks()} >= {
        "wrong calls of environments", "kills of runs", "damaged ledgers", "mutated replies, Crafter",
        "damaged run directories", "misbehaving servers",
    }  # fmt: skip


def test_attacks_have_unique_names_and_more_cases_in_full():
    assert all(case.full >= case.short for case in ATTACKS)
    assert len({case.name for case in ATTACKS}) == len(ATTACKS)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, ""), (EnvgenError("a sentence"), ""), (EnvgenError(), "call: EnvgenError without a message"),
        (KeyError("x"), "call: KeyError('x') in test_attacks.py"),
    ],
)  # fmt: skip
def test_a_failure_is_described(error, expected):
    def call():
        if error is not None:
            raise error

    assert try_call("call", call).startswith(expected)
    assert bool(try_call("call", call)) == bool(expected)


def test_a_hang_is_a_failure():
    def call():
        while True:
            pass

    assert "did not end within 1 seconds" in try_call("call", call, limit=1)


def test_cases_and_failures_are_counted():
    def make(count, rng):
        yield from ("" if k else f"failed {rng.random() < 2}" for k in range(count))

    result = Attack("example", make, 5, 1).run(5)
    assert (result.num_cases, result.failures) == (5, ["failed True"])
    assert attack not in ATTACKS
