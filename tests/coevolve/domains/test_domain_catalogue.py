"""Domains by name, and a sentence where there is none of that name."""

import sys

import pytest

from envgen.coevolve.domains.catalogue import domain_named


@pytest.mark.parametrize("name", ["answers", "tools"])
def test_each_name_is_the_name_of_its_domain(name: str):
    assert domain_named(name).name == name


def test_generators_of_reasoning_gym_are_domains():
    pytest.importorskip("reasoning_gym")
    assert domain_named("gym:leg_counting").name == "gym:leg_counting"
    with pytest.raises(ValueError, match="did you mean 'leg_counting'"):
        domain_named("gym:leg_countin")


def test_without_reasoning_gym_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym.factory", None)
    with pytest.raises(ImportError, match=r"pip install 'envgen\[gym\]'"):
        domain_named("gym:leg_counting")


@pytest.mark.parametrize(("name", "hint"), [("anwers", "'answers'"), ("tool", "'tools'"), ("gym", "gym:<generator>")])
def test_an_unknown_name_is_told_the_nearest(name: str, hint: str):
    with pytest.raises(ValueError, match=hint):
        domain_named(name)
