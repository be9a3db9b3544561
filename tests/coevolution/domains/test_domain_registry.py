"""Domains are loaded by name or import path, and wrong names are explained."""

import re
import sys
from pathlib import Path

import pytest

from envgen.coevolution.domains.registry import domain_path, load_domain


@pytest.mark.parametrize(
    "name", ["answers", "tools", "alfworld", "alfworld:original", "bfcl", "bfcl:json", "travel", "two_hop"]
)
def test_load_domain_by_name(name: str):
    assert load_domain(name).name == name
    assert domain_path(load_domain(name)) == name


def test_load_reasoning_gym_domain():
    pytest.importorskip("reasoning_gym")
    domain = load_domain("reasoning_gym:leg_counting")
    assert domain.name == domain_path(domain) == "reasoning_gym:leg_counting"
    with pytest.raises(ValueError, match="did you mean 'leg_counting'"):
        load_domain("reasoning_gym:leg_countin")


def test_old_name_of_reasoning_gym_domains_names_the_new_one():
    with pytest.raises(ValueError, match="'gym:leg_counting' is now called 'reasoning_gym:leg_counting'"):
        load_domain("gym:leg_counting")


def test_missing_reasoning_gym_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym.factory", None)
    with pytest.raises(ImportError, match=r"pip install 'envgen\[reasoning-gym\]'"):
        load_domain("reasoning_gym:leg_counting")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("anwers", "did you mean 'answers'"),
        ("tool", "did you mean 'tools'"),
        ("reasoning_gym", "did you mean 'reasoning_gym:<generator>'"),
        ("tools:leg_counting", "reasoning_gym:<generator>, <module>:<class>"),
        ("", "is not one of"),
        (":", "is not one of"),
        ("../secret:Domain", "is not one of"),
    ],
)
def test_unknown_name_suggests_the_nearest(name: str, hint: str):
    with pytest.raises(ValueError, match=re.escape(hint)):
        load_domain(name)


MODULE = """
from envgen.coevolution.domains.answers import AnswersDomain
from envgen.coevolution.tasks import Domain

class MyDomain(AnswersDomain):
    name = "mine"

class Harder(AnswersDomain):  # has the name of its base class
    pass

class WithSize(AnswersDomain):
    def __init__(self, size):
        self.size = size

class Unfinished(Domain):
    name = "unfinished"

def function(): ...
"""


def test_load_domain_by_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "registry_test_module.py").write_text(MODULE)
    (tmp_path / "registry_test_broken.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    path = "registry_test_module:MyDomain"
    domain = load_domain(path)
    assert domain.name == "mine"
    assert domain_path(domain) == path
    assert domain_path(load_domain("registry_test_module:Harder")) == "registry_test_module:Harder"
    assert domain_path(load_domain("envgen.coevolution.domains.answers:AnswersDomain")) == "answers"
    with pytest.raises(ValueError, match=r"registry_test_module has no 'Other'; it has MyDomain, Harder, WithSize$"):
        load_domain("registry_test_module:Other")
    with pytest.raises(ValueError, match=r"WithSize' cannot be created without arguments: TypeError: .*'size'"):
        load_domain("registry_test_module:WithSize")
    with pytest.raises(ValueError, match="'registry_test_module:function' is not a subclass of Domain"):
        load_domain("registry_test_module:function")
    with pytest.raises(ValueError, match="Unfinished does not implement check, difficulty, features"):
        load_domain("registry_test_module:Unfinished")
    with pytest.raises(ValueError, match="there is no module 'registry_test_missing'"):
        load_domain("registry_test_missing:MyDomain")
    with pytest.raises(ImportError, match="no_such_package"):
        load_domain("registry_test_broken:MyDomain")
