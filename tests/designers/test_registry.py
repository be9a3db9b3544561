"""Designers by name, from a person's flags or from what a run remembers; what cannot be is refused in a sentence."""

import json

import pytest

from envgen.designers.alpha import AlphaDesigner, AlphaSettings
from envgen.designers.baselines import EasyToHardDesigner, FixedDesigner, RandomDesigner, RandomSettings, UserLevels
from envgen.designers.designer import Designer, DesignError
from envgen.designers.expert import ExpertDesigner, ExpertSettings
from envgen.designers.registry import NAMES, build_designer, custom_endpoint, merge_runtime_options, rebuild_designer

MANUAL = {"llm": "manual", "feedback": "rich", "obfuscate": True, "max_calls": 7, "timeout": 9.0}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_builds_the_designer_of_that_name(tmp_path, name):
    designer = build_designer(name, tmp_path, MANUAL if name == "llm" else None)
    assert designer.name == designer.config()["name"] == name
    assert list(tmp_path.iterdir()) == []  # nothing is written before a run is held


def test_who_designs_for_those_that_repeat_or_rank(tmp_path):
    assert build_designer("fixed", tmp_path).config()["first"]["name"] == "expert"
    assert build_designer("fixed", tmp_path, levels=[{}]).config()["first"] == {"name": "given", "levels": [{}]}
    assert build_designer("fixed", tmp_path, MANUAL).config()["first"]["name"] == "llm"
    for name in ("easy-to-hard", "adversarial"):
        assert build_designer(name, tmp_path).config()["source"]["name"] == "random"
        assert build_designer(name, tmp_path, MANUAL).config()["source"]["name"] == "llm"


BUILT = {
    **{name: {"name": name} for name in NAMES if name != "llm"},
    "expert with options": {"name": "expert", "options": {"prerequisite_threshold": 30, "mastery_threshold": 95}},
    "alpha with options": {"name": "alpha", "options": {"alpha": 0.7, "learning_rate": 2}},
    "random with options": {"name": "random", "options": {"keep_prob": 0.9}},
    "levels of one's own": {"name": "fixed", "levels": [{"iron": "rare"}, {"near": {"cave": True}}]},
    **{f"{name} with a model": {"name": name, "model": MANUAL}
       for name in ("llm", "fixed", "easy-to-hard", "adversarial")},
}  # fmt: skip


@pytest.mark.parametrize("what", BUILT)
def test_what_a_designer_says_about_itself_builds_it_again(tmp_path, what):
    again_is_the_same(build_designer(folder=tmp_path, **BUILT[what]), tmp_path)


@pytest.mark.parametrize(
    "designer",
    [
        FixedDesigner(ExpertDesigner(ExpertSettings(prerequisite_threshold=30))), EasyToHardDesigner(RandomDesigner(RandomSettings(keep_prob=0.9))),
        FixedDesigner(EasyToHardDesigner(AlphaDesigner(AlphaSettings(beta=2)))), FixedDesigner(UserLevels([])),
    ],
)  # fmt: skip
def test_so_does_what_one_put_together_says(tmp_path, designer):
    again_is_the_same(designer, tmp_path)


def again_is_the_same(designer: Designer, folder) -> None:
    about = json.loads(json.dumps(designer.config()))  # as a run keeps it
    again = rebuild_designer(about, folder, {})
    assert type(again) is type(designer)
    assert again.config() == designer.config()


def test_how_a_model_is_reached_may_change_and_no_password_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-for-nobody")
    told = {"llm": "openai:some-model", "base_url": "http://me:secret@localhost:8000/v1", "max_calls": 3}
    designer = build_designer("llm", tmp_path, told)
    about, means = designer.config(), designer.runtime_options()
    assert "secret" not in json.dumps([about, means])
    assert "a-key-for-nobody" not in json.dumps([about, means])
    assert means["base_url"] == "http://localhost:8000/v1"
    assert means["max_calls"] == 3
    again = rebuild_designer(about, tmp_path, {**means, "base_url": "http://localhost:9/v1", "max_calls": 5})
    assert again.config() == about
    assert again.runtime_options() == {**means, "base_url": "http://localhost:9/v1", "max_calls": 5}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"name": "expret"}, r"designer 'expret' is not one of none, expert, .*; did you mean 'expert'\?"),
        ({"name": "easy_to_hard"}, r"did you mean 'easy-to-hard'\?"),
        ({"name": "given"}, "'given' is not one of none, expert"),
        ({"name": "expert", "options": {"master_threshold": 3}}, r"did you mean 'mastery_threshold'\?"),
        ({"name": "expert", "options": {"mastery_threshold": 101}}, "mastery_threshold: .*less than or equal to 100 .*101"),
        ({"name": "random", "options": {"keep_prob": "often"}}, "keep_prob: .*'often'"),
        ({"name": "alpha", "options": {"alpha": 1}}, "alpha: .*less than 1"),
        ({"name": "llm", "model": {**MANUAL, "feedback": "papre"}}, r"feedback: 'papre' .*did you mean 'paper'\?"),
        ({"name": "llm", "model": {"lmm": "manual"}}, r"setting 'lmm' is not one of .*did you mean 'llm'\?"),
        ({"name": "llm", "model": {**MANUAL, "price_prompt": 1.0}}, "both price_prompt and price_reply, or neither"),
    ],
)
def test_a_wrong_word_or_number_is_named_with_the_nearest_right_one(tmp_path, asked, says):
    with pytest.raises(DesignError, match=f"(?s){says}"):
        build_designer(folder=tmp_path, **asked)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        *[({"name": name, "model": MANUAL}, f"the designer {name} asks no language model")
          for name in ("none", "expert", "random", "alpha")],
        *[({"name": name, "levels": [{}]}, f"levels of your own go with the designer fixed, not {name}")
          for name in NAMES if name != "fixed"],
        *[({"name": name, "options": {"keep_prob": 1}}, f"the designer {name} has no options; expert, random, alpha do")
          for name in NAMES if name not in ("expert", "random", "alpha")],
        ({"name": "fixed", "levels": [{}], "model": MANUAL}, "levels of your own or those of a language model, not"),
        ({"name": "llm"}, "needs a model: --llm openai:MODEL"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(tmp_path, asked, says):
    with pytest.raises(DesignError, match=says):
        build_designer(folder=tmp_path, **asked)


OPENAI = {"name": "llm", "llm": "openai:some-model"}
ELSEWHERE = {"base_url": "http://elsewhere:1/v1", "key_env": "SECRET"}


@pytest.mark.parametrize(
    ("kept", "given", "says"),
    [
        (ELSEWHERE, {}, "give --base-url http://elsewhere:1/v1 --key-env SECRET again"),
        (ELSEWHERE, {"base_url": "http://mine/v1"}, "give --key-env SECRET again"),
        (ELSEWHERE, {"key_env": "MINE"}, "give --base-url http://elsewhere:1/v1 again"),
        ({"base_url": "http://localhost:8000/v1"}, {"max_calls": 3}, "give --base-url http://localhost:8000/v1 again"),
        ({"key_env": "ANTHROPIC_API_KEY"}, {}, "give --key-env ANTHROPIC_API_KEY again"),  # not this provider's
        ({"base_url": "http://x/v1 --key-env HOME"}, {}, "give --base-url 'http://x/v1 --key-env HOME' again"),
        ({"key_env": "A\nB"}, {}, r"give --key-env 'A\nB' again"),
    ],
)  # fmt: skip
def test_a_run_does_not_decide_where_a_key_is_sent(kept, given, says):
    for about in (OPENAI, {"name": "fixed", "first": OPENAI}):
        with pytest.raises(DesignError) as refused:
            merge_runtime_options(about, kept, given)
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)


def test_the_provider_s_own_server_and_key_need_not_be_given_again():
    kept = {"base_url": None, "key_env": "OPENAI_API_KEY", "timeout": 9.0, "max_calls": 3}
    assert merge_runtime_options(OPENAI, kept, {"max_calls": 5}) == {**kept, "max_calls": 5}
    assert merge_runtime_options(OPENAI, ELSEWHERE, ELSEWHERE) == ELSEWHERE
    mine = {"base_url": "http://mine/v1", "key_env": "MINE"}
    assert merge_runtime_options(OPENAI, ELSEWHERE, mine) == mine
    assert merge_runtime_options({"name": "expert"}, {}, {}) == {}
    assert custom_endpoint({"name": "llm", "llm": "anthropic:some-model"}, {"key_env": "ANTHROPIC_API_KEY"}) == {}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_server_cannot_hide_in_what_a_designer_says_about_itself(tmp_path, name):
    with pytest.raises(DesignError, match=f"does not say by which {name}"):
        rebuild_designer({**OPENAI, name: ELSEWHERE[name]}, tmp_path, {})
