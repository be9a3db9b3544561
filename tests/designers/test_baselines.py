"""The baselines: none, fixed, random, easy-to-hard and adversarial."""

import numpy as np
import pytest
from samples import (
    StoneScorer,
    ToyLevel,
    make_cycle,
    make_proposal,
    num_stones,
    overrides,
    toy_brief,
    world_brief,
)

from envgen.designers.baselines import (
    AdversarialDesigner,
    EasyToHardDesigner,
    FixedDesigner,
    NoDesigner,
    RandomDesigner,
    RandomSettings,
    UserLevels,
)
from envgen.designers.designer import AuditResult, Designer, DesignError, Proposal, ProposedLevel, TrainingFacts
from envgen.designers.prompt import initial_prompt
from envgen.settings import unflatten
from envgen.worlds.crafter.level import CrafterLevel
from envgen.worlds.level_space import setting_values
from envgen.worlds.world import LevelError


def test_none_proposes_nothing():
    assert NoDesigner().design(world_brief(), ()) == Proposal()


# --- random


@pytest.mark.parametrize("keep_prob", [0.0, 0.5, 0.8])
def test_random_keeps_settings_with_keep_prob_and_samples_the_rest_uniformly(keep_prob):
    proposal = RandomDesigner(RandomSettings(keep_prob=keep_prob)).design(world_brief(num_levels=1500), ())
    levels = [item.level.model_dump() for item in proposal.levels]
    assert len({str(level) for level in levels}) > 1450
    for name, values in setting_values(CrafterLevel).items():
        samples = [get_nested(level, name) for level in levels]
        for value in values:
            prob = keep_prob * (value == values[0]) + (1 - keep_prob) / len(values)
            error = abs(samples.count(value) / 1500 - prob)
            assert error < 4.5 * np.sqrt(prob * (1 - prob) / 1500), (name, value)


def get_nested(level: dict, name: str):
    for part in name.split("."):
        level = level[part]
    return level


def test_random_with_keep_prob_one_proposes_the_original():
    proposal = RandomDesigner(RandomSettings(keep_prob=1)).design(world_brief(), ())
    assert overrides(proposal) == [{}] * 4


# --- fixed


def test_fixed_repeats_the_first_proposal_of_its_source():
    designer = FixedDesigner(RandomDesigner())
    first = designer.design(world_brief(), ())
    assert first == RandomDesigner().design(world_brief(), ())
    history = [make_cycle(first), make_cycle(Proposal(levels=first.levels[:1]), number=2)]
    assert designer.design(world_brief(cycle=3), history).levels == first.levels


def test_fixed_lets_its_source_answer_only_the_first_audit():
    revision = make_proposal(CrafterLevel, {})

    class Yielding(RandomDesigner):
        def revise(self, brief, history, proposal, audits):
            return revision

    designer, audits = FixedDesigner(Yielding()), (AuditResult(verdict="bad"),)
    first = designer.design(world_brief(), ())
    assert designer.revise(world_brief(), (), first, audits) == revision
    assert designer.revise(world_brief(cycle=2), [make_cycle(first)], first, audits) is None


def test_user_levels_are_repeated_in_order():
    levels = [{"iron": "Very_Common", "coal": "original"}, CrafterLevel(biome="beach")]
    designer = UserLevels(levels)
    expected = [{"iron": "very common"}, {"biome": "beach"}] * 2 + [{"iron": "very common"}]
    assert overrides(designer.design(world_brief(num_levels=5), ())) == expected
    assert designer.config() == {"name": "user-levels", "levels": [levels[0], {"biome": "beach"}]}


def test_invalid_or_unused_user_levels_are_refused():
    with pytest.raises(LevelError, match="did you mean 'iron'"):
        UserLevels([{"irn": "rare"}]).design(world_brief(), ())
    with pytest.raises(DesignError, match=r"there are 5 levels, but a cycle trains in 4; set levels=5"):
        UserLevels([{}] * 5).design(world_brief(), ())


# --- easy-to-hard and adversarial


@pytest.mark.parametrize("designer_class", [EasyToHardDesigner, AdversarialDesigner])
def test_ranking_requires_score_levels(designer_class):
    with pytest.raises(DesignError, match="score_levels must be a function"):
        designer_class(RandomDesigner()).design(toy_brief(score_levels=None), ())


def test_easy_to_hard_ranks_once_and_goes_from_easy_to_hard():
    scorer, designer, history = StoneScorer(), EasyToHardDesigner(RandomDesigner()), []
    for number in range(1, 5):
        proposal = designer.design(toy_brief(cycle=number, score_levels=scorer), history)
        assert bool(proposal.candidates) == (number == 1)
        history.append(make_cycle(proposal, number=number))
    (scored, scored_by), = scorer.calls  # fmt: skip
    used = [item.level for cycle in history for item in cycle.proposal.levels]
    assert scored_by == "scoring_agent"
    assert scored == [item.level for item in RandomDesigner().design(toy_brief(num_levels=16), ()).levels]
    assert used == sorted(scored, key=num_stones, reverse=True)  # all 16
    assert [len(cycle.proposal.levels) for cycle in history] == [4] * 4
    assert history[0].proposal.levels[0].purpose == "drawn at random; score 40.0"


def test_easy_to_hard_ranks_new_levels_for_further_cycles():
    scorer, designer, history = StoneScorer(), EasyToHardDesigner(RandomDesigner()), []
    for number, num_cycles in ((1, 2), (2, 2), (3, 4), (4, 4)):  # extended after two cycles
        brief = toy_brief(cycle=number, num_cycles=num_cycles, score_levels=scorer)
        history.append(make_cycle(designer.design(brief, history), number=number))
    assert [len(levels) for levels, _ in scorer.calls] == [8, 8]
    assert [len(cycle.proposal.levels) for cycle in history] == [4] * 4


def test_adversarial_uses_the_hardest_of_new_levels_each_cycle():
    scorer, designer, history = StoneScorer(), AdversarialDesigner(RandomDesigner()), []
    for number in range(1, 5):
        proposal = designer.design(toy_brief(cycle=number, score_levels=scorer), history)
        scored, scored_by = scorer.calls[-1]
        assert scored_by == ("agent" if history else "scoring_agent")
        sampled = RandomDesigner().design(toy_brief(num_levels=16, cycle=number), ())
        assert scored == [item.level for item in sampled.levels]
        candidates = [item.level for item in proposal.candidates]
        assert sorted(scored, key=str) == sorted(candidates, key=str)
        assert list(map(num_stones, candidates)) == sorted(map(num_stones, scored))
        assert proposal.levels == proposal.candidates[:4]
        history.append(make_cycle(proposal, number=number))
    assert len(scorer.calls) == 4


@pytest.mark.parametrize("designer_class", [EasyToHardDesigner, AdversarialDesigner])
def test_the_source_is_told_how_many_of_its_levels_a_cycle_trains_in(designer_class):
    facts = TrainingFacts(
        level_steps=40_000, original_steps=40_000, final_steps=0, num_envs=64, mixed=False, observation="symbols"
    )
    prompts = []

    class Prompted(RandomDesigner):
        def design(self, brief, history):
            prompts.append(initial_prompt(brief, "rich"))
            return super().design(brief, history)

    designer_class(Prompted()).design(toy_brief(training=facts), ())
    (prompt,) = prompts
    assert "In each of 4 cycles it trains in 4 of the 16 levels of your design" in " ".join(prompt.split())
    assert "a level gets 10,000 steps: 100 episodes of 100 steps" in prompt
    assert "with exactly 16 levels:" in prompt


@pytest.mark.parametrize("designer_class", [EasyToHardDesigner, AdversarialDesigner])
def test_ranking_keeps_reply_notes_and_usage_of_the_source(designer_class):
    class Talkative(Designer):
        name = "talkative"

        def usage(self) -> dict[str, float | None]:
            return {"calls": 3}

        def design(self, brief, history):
            levels = tuple(
                ProposedLevel(level=ToyLevel.parse(unflatten({"ground.stones": k % 5})))
                for k in range(brief.num_levels)
            )
            return Proposal(levels=levels, raw_reply="words", notes=("fallback for 2 of 16 levels",))

    designer = designer_class(Talkative())
    proposal = designer.design(toy_brief(), ())
    assert (proposal.raw_reply, proposal.notes) == ("words", ("fallback for 2 of 16 levels",))
    assert len(proposal.levels) == 4
    assert len(proposal.candidates) == 16
    assert designer.usage() == {"calls": 3}
    assert designer.config() == {"name": designer.name, "source": {"name": "talkative"}}
