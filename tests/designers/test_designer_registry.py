"""Designers by name, from flags or from a run directory. What is wrong is refused with a message."""

import json
import sys
from pathlib import Path

import pytest

from envgen.designers.alpha import AlphaDesigner, AlphaSettings
from envgen.designers.baselines import EasyToHardDesigner, FixedDesigner, RandomDesigner, RandomSettings, UserLevels
from envgen.designers.designer import Designer, DesignError, DesignerWrapper, Proposal
from envgen.designers.expert import ExpertDesigner, ExpertSettings
from envgen.designers.llm import LlmDesigner, LlmRuntime
from envgen.designers.registry import (
    build_designer,
    designer_descriptions,
    designer_names,
    load_designer_class,
    rebuild_designer,
    resume_flags,
    resume_runtime,
    settings_class,
)
from envgen.designers.ued import AccelSettings, DrSettings, PlrSettings, SflSettings
from envgen.settings import Settings
from envgen.worlds.crafter.level import CrafterLevel

MANUAL = {"llm": "manual", "feedback": "rich", "obfuscate": True, "max_calls": 7, "timeout": 9.0}
NAMES = (
    "none",
    "expert",
    "random",
    "alpha",
    "dr",
    "plr",
    "accel",
    "sfl",
    "llm",
    "fixed",
    "easy-to-hard",
    "adversarial",
)


def test_all_designers_are_listed_with_one_line_each():
    assert designer_names() == NAMES
    descriptions = designer_descriptions()
    assert tuple(descriptions) == NAMES
    assert all(20 < len(line) < 110 and line.endswith((".", ")")) for line in descriptions.values()), descriptions


@pytest.mark.parametrize("name", NAMES)
def test_every_name_builds_the_designer_of_that_name(tmp_path, name):
    designer = build_designer(name, tmp_path, MANUAL if name == "llm" else None)
    assert designer.name == designer.config()["name"] == name == load_designer_class(name).name
    assert list(tmp_path.iterdir()) == []  # nothing is written before a run is held


def test_settings_classes_are_found_by_name():
    expected = {
        "expert": ExpertSettings, "random": RandomSettings, "alpha": AlphaSettings, "dr": DrSettings,
        "plr": PlrSettings, "accel": AccelSettings, "sfl": SflSettings,
    }  # fmt: skip
    assert {name: settings_class(name) for name in NAMES} == {name: expected.get(name) for name in NAMES}
    assert settings_class("no-such-designer") is settings_class("no_such_module:Class") is None
    for kind in expected.values():
        assert all(field.description for field in kind.model_fields.values())


def test_sources_of_wrappers(tmp_path):
    assert build_designer("fixed", tmp_path).config()["source"]["name"] == "expert"
    with_levels = build_designer("fixed", tmp_path, levels=[{}, CrafterLevel(iron="rare")])
    assert with_levels.config()["source"] == {"name": "user-levels", "levels": [{}, {"iron": "rare"}]}
    assert build_designer("fixed", tmp_path, MANUAL).config()["source"]["name"] == "llm"
    for name in ("easy-to-hard", "adversarial"):
        assert build_designer(name, tmp_path).config()["source"]["name"] == "random"
        assert build_designer(name, tmp_path, MANUAL).config()["source"]["name"] == "llm"


@pytest.mark.parametrize(
    ("name", "feedback", "expected"),
    [
        ("llm", "rich", True), ("llm", "paper", False),
        ("adversarial", "rich", True), ("adversarial", "paper", False),
        ("fixed", "rich", False), ("easy-to-hard", "rich", False),
    ],
)  # fmt: skip
def test_episodes_are_diagnosed_only_for_sources_that_design_again(tmp_path, name, feedback, expected):
    assert build_designer(name, tmp_path, {**MANUAL, "feedback": feedback}).wants_diagnosis == expected


ARGUMENTS = {
    **{name: {"designer": name} for name in NAMES if name != "llm"},
    "expert with settings": {
        "designer": "expert", "settings": {"rehearsal_threshold": 30, "mastery_threshold": 95},
    },
    "alpha with settings": {"designer": "alpha", "settings": {"alpha": 0.7, "learning_rate": 2}},
    "random with settings": {"designer": "random", "settings": {"keep_prob": 0.9}},
    "levels of your own": {"designer": "fixed", "levels": [{"iron": "rare"}, {"near": {"cave": True}}]},
    **{f"{name} with a model": {"designer": name, "llm": MANUAL}
       for name in ("llm", "fixed", "easy-to-hard", "adversarial")},
}  # fmt: skip


@pytest.mark.parametrize("case", ARGUMENTS)
def test_a_designer_is_rebuilt_from_its_config(tmp_path, case):
    check_rebuild(build_designer(folder=tmp_path, **ARGUMENTS[case]), tmp_path)


@pytest.mark.parametrize(
    "designer",
    [
        FixedDesigner(ExpertDesigner(ExpertSettings(rehearsal_threshold=30))),
        EasyToHardDesigner(RandomDesigner(RandomSettings(keep_prob=0.9))),
        FixedDesigner(EasyToHardDesigner(AlphaDesigner(AlphaSettings(beta=2)))),
        FixedDesigner(UserLevels([])),
    ],
)
def test_a_nested_designer_is_rebuilt_from_its_config(tmp_path, designer):
    check_rebuild(designer, tmp_path)


def check_rebuild(designer: Designer, folder) -> None:
    config = json.loads(json.dumps(designer.config()))  # as a run keeps it
    rebuilt = rebuild_designer(config, folder, {})
    assert type(rebuilt) is type(designer)
    assert rebuilt.config() == designer.config()


def test_runtime_options_may_change_and_contain_no_password(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-nobody")
    llm = {"llm": "openai:some-model", "base_url": "http://me:secret@localhost:8000/v1", "max_calls": 3}
    designer = build_designer("llm", tmp_path, llm)
    config, options = designer.config(), designer.runtime_options()
    assert "secret" not in json.dumps([config, options])
    assert "a-key-for-nobody" not in json.dumps([config, options])
    assert options["base_url"] == "http://localhost:8000/v1"
    assert options["max_calls"] == 3
    rebuilt = rebuild_designer(config, tmp_path, {**options, "base_url": "http://localhost:9/v1", "max_calls": 5})
    assert rebuilt.config() == config
    assert rebuilt.runtime_options() == {**options, "base_url": "http://localhost:9/v1", "max_calls": 5}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"designer": "expret"}, r"designer 'expret' is not one of none, expert, .*; did you mean 'expert'\?"),
        ({"designer": "easy_to_hard"}, r"did you mean 'easy-to-hard'\?"),
        ({"designer": "user-levels"}, "'user-levels' is not one of none, expert"),
        ({"designer": "expert", "settings": {"master_threshold": 3}},
         r"setting 'master_threshold' is not one of .*did you mean 'mastery_threshold'\?"),
        ({"designer": "expert", "settings": {"mastery_threshold": 101}},
         "mastery_threshold: .*less than or equal to 100 .*101"),
        ({"designer": "expert", "settings": {"advance_at": 3}}, "fall_back_at 5 must be below advance_at 3"),
        ({"designer": "random", "settings": {"keep_prob": "often"}}, "keep_prob: .*'often'"),
        ({"designer": "alpha", "settings": {"alpha": 1}}, "alpha: .*less than 1"),
        ({"designer": "llm", "llm": {**MANUAL, "feedback": "papre"}}, r"feedback: 'papre' .*did you mean 'paper'\?"),
        ({"designer": "llm", "llm": {"lmm": "manual"}}, r"setting 'lmm' is not one of .*did you mean 'llm'\?"),
        ({"designer": "llm", "llm": {**MANUAL, "price_prompt": 1.0}}, "both price_prompt and price_reply, or neither"),
        (
            {"designer": "llm", "llm": {**MANUAL, "price_cached": 1.0}},
            "price_cached needs price_prompt and price_reply",
        ),
    ],
)  # fmt: skip
def test_wrong_names_and_values_are_refused_with_the_nearest_right_one(tmp_path, arguments, message):
    with pytest.raises(DesignError, match=f"(?s){message}"):
        build_designer(folder=tmp_path, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *[({"designer": name, "llm": MANUAL},
           f"the designer {name} uses no language model; --llm requires one of llm, fixed, easy-to-hard, adversarial")
          for name in ("none", "expert", "random", "alpha", "dr", "sfl")],
        *[({"designer": name, "levels": [{}]}, f"levels of your own require the designer fixed, not {name}")
          for name in NAMES if name != "fixed"],
        *[({"designer": name, "settings": {"keep_prob": 1}},
           f"the designer {name} has no settings; only expert, random, alpha, dr, plr, accel, sfl do")
          for name in NAMES if name not in ("expert", "random", "alpha", "dr", "plr", "accel", "sfl")],
        ({"designer": "fixed", "levels": [{}], "llm": MANUAL}, "levels of your own or a language model, not both"),
        ({"designer": "llm"}, "needs a model: --llm openai:MODEL"),
    ],
)  # fmt: skip
def test_incompatible_arguments_are_refused(tmp_path, arguments, message):
    with pytest.raises(DesignError, match=f"(?s){message}"):
        build_designer(folder=tmp_path, **arguments)


# --- designers of your own


class CuriousSettings(Settings):
    curiosity: float = 0.5
    """How curious it is."""


class Curious(Designer):
    settings_type = CuriousSettings

    def design(self, brief, history):
        return Proposal()


class Plain(Designer):
    def design(self, brief, history):
        return Proposal()


class Doubling(DesignerWrapper):
    def design(self, brief, history):
        return self.source.design(brief, history)


class CarefulLlm(LlmDesigner):
    def revise(self, brief, history, proposal, audits):
        return None


class NumberedLlm(LlmDesigner):
    def config(self):
        return {"name": 3}


def test_a_designer_is_built_from_a_path_a_class_or_an_instance(tmp_path):
    path = f"{__name__}:Curious"
    for designer in (path, Curious):
        built = build_designer(designer, tmp_path, settings={"curiosity": 0.9})
        assert type(built) is Curious
        assert built.config() == {"name": path, "curiosity": 0.9}
    assert settings_class(path) is CuriousSettings
    assert Curious().settings == CuriousSettings()
    with pytest.raises(TypeError, match="has no settings"):
        Plain(CuriousSettings())
    instance = Plain()
    assert build_designer(instance, tmp_path) is instance
    assert build_designer(Plain, tmp_path).config() == {"name": f"{__name__}:Plain"}
    assert build_designer(Doubling, tmp_path, llm=MANUAL).config()["source"]["name"] == "llm"
    assert type(build_designer("envgen.designers.llm:LlmDesigner", tmp_path, MANUAL)) is LlmDesigner


def test_a_subclass_of_the_llm_designer_is_built_as_itself(tmp_path):
    path = f"{__name__}:CarefulLlm"
    for designer in (path, CarefulLlm):
        built = build_designer(designer, tmp_path, MANUAL)
        assert type(built) is CarefulLlm
        assert built.config() == build_designer("llm", tmp_path, MANUAL).config() | {"name": path}
        assert built.runtime_options()["max_calls"] == 7
    with pytest.raises(DesignError, match=f"the designer {path} needs a model"):
        build_designer(path, tmp_path)
    with pytest.raises(DesignError, match=r"config\(\) of the designer .*NumberedLlm must contain its name"):
        build_designer(NumberedLlm, tmp_path, MANUAL)


def test_a_module_in_the_current_directory_is_found(tmp_path, monkeypatch):
    code = "from envgen.designers.baselines import NoDesigner\nclass Mine(NoDesigner): pass\n"
    (tmp_path / "module_in_current_directory.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", path := [entry for entry in sys.path if entry])
    before = list(path)
    designer = build_designer("module_in_current_directory:Mine", tmp_path)
    assert designer.config() == {"name": "module_in_current_directory:Mine"}
    with pytest.raises(DesignError, match="there is no module 'another_module'"):
        build_designer("another_module:Mine", tmp_path)
    assert sys.path is path
    assert path == before


def test_an_entry_of_the_callers_path_stays(tmp_path, monkeypatch):
    (tmp_path / "module_that_extends_path.py").write_text("import sys\nsys.path.insert(0, 'somewhere')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    before = list(sys.path)
    with pytest.raises(DesignError, match="has no 'Mine'"):
        build_designer("module_that_extends_path:Mine", tmp_path)
    assert sys.path == ["somewhere", *before]


class NotADesigner:
    def design(self, brief, history):
        return Proposal()


class Unfinished(Designer):
    pass


class NeedsArguments(Plain):
    def __init__(self, skill):
        self.skill = skill


class WrongSettings(Plain):
    def __init__(self):
        self.settings = {"curiosity": 0.5}


class NoConfig(Plain):
    def config(self):
        return None


class NamelessConfig(Plain):
    def config(self):
        return {"skill": "climb"}


class WrongConfig(Plain):
    def config(self):
        return {"name": "wrong", "values": {1, 2}}


@pytest.mark.parametrize(
    ("designer", "message"),
    [
        (":", "module:Class loads one of your own"),
        ("module:", "module:Class loads one of your own"),
        (
            "no_such_module:Mine",
            "cannot import the designer 'no_such_module:Mine': there is no module 'no_such_module'",
        ),
        (f"{__name__}:Missing", "has no 'Missing'; it has "),
        (f"{__name__}:CuriousSettings", "CuriousSettings is not a designer; .* a subclass of envgen.Designer"),
        (f"{__name__}:MANUAL", "is not a designer"),
        (f"{__name__}:NotADesigner", r"NotADesigner is not a designer; .* defines design\(brief, history\)"),
        (NotADesigner, "NotADesigner is not a designer"),
        (NotADesigner(), "is not a designer"),
        (None, "is not a designer"),
        (Unfinished, "^Unfinished does not define design; pass the name of a designer, .* or an instance of one"),
        (NeedsArguments, "cannot create the designer .*NeedsArguments: .*skill.*; pass an instance"),
        (WrongSettings, "the settings of the designer .*WrongSettings are a dict; use an envgen.settings.Settings"),
        (WrongSettings(), "are a dict"),
        (NoConfig, r"config\(\) of the designer .*NoConfig must return JSON data in a dict"),
        (WrongConfig(), r"config\(\) of the designer .*WrongConfig must return JSON data"),
        (NamelessConfig(), r"config\(\) of the designer .*NamelessConfig must contain its name"),
    ],
)
def test_non_designers_are_rejected(tmp_path, designer, message):
    with pytest.raises(DesignError, match=f"(?s){message}"):
        build_designer(designer, tmp_path)


def test_a_module_that_fails_to_import_is_named(tmp_path, monkeypatch):
    (tmp_path / "module_that_fails.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DesignError, match="cannot import the designer 'module_that_fails:Mine': ZeroDivisionError"):
        build_designer("module_that_fails:Mine", tmp_path)


def test_an_instance_takes_no_further_arguments(tmp_path):
    with pytest.raises(DesignError, match="is already built; pass its class or name to configure it"):
        build_designer(Plain(), tmp_path, settings={"curiosity": 1})


def test_nothing_that_a_run_directory_names_is_imported(tmp_path, monkeypatch):
    (tmp_path / "module_of_someone_else.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    for config in ({"name": "module_of_someone_else:Mine"}, {"name": f"{__name__}:Plain"}):
        with pytest.raises(DesignError, match="cannot be rebuilt from the run directory; resume by repeating"):
            rebuild_designer(config, tmp_path, {})


# --- servers and keys of a resumed run

OPENAI = {"name": "llm", "llm": "openai:some-model"}
ELSEWHERE = {"base_url": "http://elsewhere:1/v1", "key_env": "SECRET"}


@pytest.mark.parametrize(
    ("stored", "new", "message"),
    [
        (ELSEWHERE, {}, "pass --base-url http://elsewhere:1/v1 --key-env SECRET again"),
        (ELSEWHERE, {"base_url": "http://mine/v1"}, "pass --key-env SECRET again"),
        (ELSEWHERE, {"key_env": "MINE"}, "pass --base-url http://elsewhere:1/v1 again"),
        ({"base_url": "http://localhost:8000/v1"}, {"max_calls": 3}, "pass --base-url http://localhost:8000/v1 again"),
        ({"key_env": "ANTHROPIC_API_KEY"}, {}, "pass --key-env ANTHROPIC_API_KEY again"),  # not this provider's
        ({"base_url": "http://x/v1 --key-env HOME"}, {}, "pass --base-url 'http://x/v1 --key-env HOME' again"),
        ({"key_env": "A\nB"}, {}, r"pass --key-env 'A\nB' again"),
    ],
)
def test_a_run_directory_does_not_decide_where_a_key_is_sent(stored, new, message):
    for config in (OPENAI, {"name": "fixed", "source": OPENAI}):
        with pytest.raises(DesignError) as caught:
            resume_runtime(config, stored, new)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_run_with_a_shared_budget_resumes_within_one():
    stored = LlmRuntime(max_calls=3, shared_budget=Path("budget.json")).for_record()
    with pytest.raises(DesignError, match="takes part in a shared budget; pass --shared-budget with its file"):
        resume_runtime(OPENAI, stored, {})
    new = {"shared_budget": Path("other.json")}
    assert LlmRuntime(**resume_runtime(OPENAI, stored, new)) == LlmRuntime(max_calls=3, **new)


def test_the_path_of_a_shared_budget_is_not_taken_from_the_run():
    assert resume_runtime(OPENAI, {"shared_budget": "/etc/budget.json"}, {}) == {}


def test_the_providers_own_server_and_key_need_not_be_given_again():
    stored = {"base_url": None, "key_env": "OPENAI_API_KEY", "timeout": 9.0, "max_calls": 3}
    assert resume_runtime(OPENAI, stored, {"max_calls": 5}) == {**stored, "max_calls": 5}
    assert resume_runtime(OPENAI, ELSEWHERE, ELSEWHERE) == ELSEWHERE
    mine = {"base_url": "http://mine/v1", "key_env": "MINE"}
    assert resume_runtime(OPENAI, ELSEWHERE, mine) == mine
    assert resume_runtime({"name": "expert"}, {}, {}) == {}
    anthropic = {"name": "llm", "llm": "anthropic:some-model"}
    assert resume_runtime(anthropic, {"key_env": "ANTHROPIC_API_KEY"}, {}) == {"key_env": "ANTHROPIC_API_KEY"}


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, ""),
        ({"max_calls": 3, "timeout": 9.0}, ""),
        ({"llm": "openai:some-model", "key_env": "OPENAI_API_KEY"}, ""),
        (ELSEWHERE, "--base-url http://elsewhere:1/v1 --key-env SECRET"),
        ({"base_url": "http://me:secret@localhost:8000/v1"}, "--base-url http://localhost:8000/v1"),
    ],
)
def test_the_flags_to_resume_with_contain_no_password(options, flags):
    assert resume_flags(options) == flags


@pytest.mark.parametrize("name", ELSEWHERE)
def test_stored_designer_config_cannot_contain_a_server(tmp_path, name):
    with pytest.raises(DesignError, match=f"run.json must not store {name}"):
        rebuild_designer({**OPENAI, name: ELSEWHERE[name]}, tmp_path, {})
