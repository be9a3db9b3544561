"""The contract of designers: what is recorded can be loaded, and an invalid proposal is refused with a message."""

import json
import re
from pathlib import Path

import pytest
from pydantic import ValidationError
from samples import NO_USAGE, ToyLevel, make_cycle, make_outcome, make_proposal, overrides, toy_brief, world_brief

from envgen.designers.alpha import AlphaDesigner
from envgen.designers.baselines import (
    AdversarialDesigner,
    EasyToHardDesigner,
    FixedDesigner,
    NoDesigner,
    RandomDesigner,
    UserLevels,
)
from envgen.designers.designer import (
    AuditResult,
    Cycle,
    Designer,
    DesignError,
    Proposal,
    ProposedLevel,
    request_proposal,
    request_revision,
)
from envgen.designers.expert import ExpertDesigner
from envgen.designers.registry import build_designer
from envgen.settings import Settings
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.world import Level, LevelError

DESIGNERS = {
    "random": RandomDesigner,
    "expert": ExpertDesigner,
    "alpha": AlphaDesigner,
    "fixed": lambda: FixedDesigner(ExpertDesigner()),
    "user-levels": lambda: FixedDesigner(UserLevels([{}])),
    "easy-to-hard": lambda: EasyToHardDesigner(RandomDesigner()),
    "adversarial": lambda: AdversarialDesigner(RandomDesigner()),
}


@pytest.mark.parametrize("name", DESIGNERS)
@pytest.mark.parametrize("num_levels", [1, 4, 7])
def test_every_proposal_has_num_levels_levels_is_repeatable_and_can_be_recorded(name, num_levels):
    history: list[Cycle] = []
    for number in range(1, 4):
        brief = toy_brief(num_levels=num_levels, cycle=number, num_cycles=3)
        proposal = request_proposal(DESIGNERS[name](), brief, history)
        assert DESIGNERS[name]().design(brief, history) == proposal
        assert len(proposal.levels) == num_levels
        assert all(item.purpose and isinstance(item.level, ToyLevel) for item in proposal.levels)
        outcomes = [make_outcome([25.0 * item.level.ground.stones]) for item in proposal.levels]
        cycle = make_cycle(proposal, outcomes, number, {"climb": 20.0})
        recorded = json.loads(json.dumps(cycle.model_dump(mode="json")))
        assert Cycle.from_json(recorded, ToyLevel) == cycle
        history.append(cycle)


@pytest.mark.parametrize("name", ["random", "alpha", "easy-to-hard", "adversarial"])
def test_levels_depend_on_seed_and_cycle(name):
    fields = {"score_levels": lambda levels, scored_by: [0.0] * len(levels)}
    first, other_seed = (DESIGNERS[name]().design(world_brief(seed=seed, **fields), ()) for seed in (0, 1))
    assert first.levels != other_seed.levels
    second = DESIGNERS[name]().design(world_brief(cycle=2, **fields), [make_cycle(first)])
    assert [item.level for item in first.levels] != [item.level for item in second.levels]


def test_only_the_llm_designer_has_usage_and_answers_audits():
    for make in (NoDesigner, *DESIGNERS.values()):
        assert make().usage() == NO_USAGE
        assert make().revise(world_brief(), (), Proposal(), (AuditResult(verdict="bad"),)) is None


def test_a_level_is_recorded_as_its_overrides():
    proposal = make_proposal(CrafterLevel, {"iron": "Very_Common", "near": {"cave": True, "cows": 0}}, {})
    recorded = proposal.model_dump(mode="json")
    assert [item["level"] for item in recorded["levels"]] == [{"iron": "very common", "near": {"cave": True}}, {}]
    assert Proposal.from_json(recorded, CrafterLevel) == proposal


def test_a_recorded_level_is_validated_by_the_worlds_class():
    recorded = {"levels": [{"level": {"slope": "flat"}}]}
    assert Proposal.from_json(recorded, ToyLevel).levels[0].level == ToyLevel(slope="flat")
    with pytest.raises(ValidationError, match="setting 'slope' is not one of"):
        Proposal.from_json(recorded, CrafterLevel)


@pytest.mark.parametrize("level", [{}, None, "flat", 3])
def test_a_proposed_level_must_be_a_level(level):
    with pytest.raises(ValidationError, match=r"expected a Level, such as brief\.Level\(\), not"):
        ProposedLevel(level=level)


class OneMethod(Designer):
    def __init__(self, result=None):
        self.result = result

    def design(self, brief, history):
        return self.result

    def revise(self, brief, history, proposal, audits):
        return self.result


@pytest.mark.parametrize("result", [None, [], {"levels": []}, "four levels", 3, object()])
def test_design_must_return_a_proposal(result):
    with pytest.raises(
        DesignError, match=r"^the designer \w+:OneMethod returned .*; design\(\) must return a Proposal"
    ):
        request_proposal(OneMethod(result), toy_brief(), ())


def test_a_proposal_must_fit_the_world():
    with pytest.raises(DesignError, match="proposed a ToyLevel; crafter needs a CrafterLevel"):
        request_proposal(OneMethod(make_proposal(ToyLevel, {})), world_brief(), ())
    with pytest.raises(DesignError, match="proposed a Level; toy needs a ToyLevel"):
        request_proposal(OneMethod(make_proposal(Level, {})), toy_brief(), ())
    wrong_skill = Proposal(levels=(ProposedLevel(level=ToyLevel(), skills=("climbs",)),))
    for request in (
        lambda designer: request_proposal(designer, toy_brief(), ()),
        lambda designer: request_revision(designer, toy_brief(), (), Proposal(), ()),
    ):
        with pytest.raises(DesignError, match="for a skill: 'climbs' is not one of climb; did you mean 'climb'"):
            request(OneMethod(wrong_skill))


def test_a_revision_may_be_none_or_a_proposal():
    assert request_revision(OneMethod(), toy_brief(), (), Proposal(), ()) is None
    assert request_revision(OneMethod(Proposal()), toy_brief(), (), Proposal(), ()) == Proposal()
    with pytest.raises(DesignError, match="must return a Proposal"):
        request_revision(OneMethod("no"), toy_brief(), (), Proposal(), ())


def test_an_invalid_model_inside_design_is_explained():
    class Wrong(Designer):
        def design(self, brief, history):
            return Proposal(levels=({"level": {"slope": "flat"}},))

    with pytest.raises(DesignError, match=r"Wrong failed: levels\.0\.level: expected a Level"):
        request_proposal(Wrong(), toy_brief(), ())


def test_a_designer_of_your_own_needs_one_method():
    designer = OneMethod(make_proposal(ToyLevel, {"fog": True}))
    assert request_proposal(designer, toy_brief(), ()).levels[0].level == ToyLevel(fog=True)
    assert designer.config() == {"name": f"{__name__}:OneMethod"}
    assert designer.runtime_options() == {}
    assert designer.usage() == NO_USAGE


def test_the_designer_in_the_documentation_works():
    text = (Path(__file__).parents[2] / "docs" / "designers.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    namespace = {"__name__": "my_designers"}
    exec(code, namespace)
    designer = build_designer(namespace["Darkness"], Path("unused"))
    assert designer.name == "my_designers:Darkness"
    levels = overrides(request_proposal(designer, world_brief(cycle=4), ()))
    assert [level["time_of_day"] for level in levels] == [120, 135, 150, 165]


def test_a_subclass_does_not_inherit_the_name_of_a_builtin_designer():
    class Mine(ExpertDesigner):
        pass

    assert Mine().config()["name"] == f"{__name__}:Mine"
    assert ExpertDesigner().config()["name"] == "expert"


def test_a_setting_may_not_be_called_name():
    class Named(Settings):
        name: str = "steep"
        """The name of a slope."""

    with pytest.raises(DesignError, match="Named has a field called name, "):

        class Skier(OneMethod):
            settings_type = Named


def test_a_level_error_in_design_passes_through():
    class Unknown(Designer):
        def design(self, brief, history):
            return Proposal(levels=(ProposedLevel(level=brief.Level.parse({"slop": "flat"})),))

    with pytest.raises(LevelError, match="did you mean 'slope'"):
        request_proposal(Unknown(), toy_brief(), ())
