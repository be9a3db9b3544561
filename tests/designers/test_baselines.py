"""The designers that ask no language model: repeatable, always as many valid levels as wanted, and each as it says."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from envgen.designers.alpha import AlphaDesigner, AlphaSettings, softmax
from envgen.designers.baselines import (
    AdversarialDesigner,
    EasyToHardDesigner,
    FixedDesigner,
    NoDesigner,
    RandomDesigner,
    RandomSettings,
    UserLevels,
)
from envgen.designers.designer import (
    AuditResult,
    Brief,
    Cycle,
    Designer,
    DesignError,
    LevelOutcome,
    Proposal,
    ProposedLevel,
    SuccessRate,
    to_overrides,
)
from envgen.designers.expert import ExpertDesigner, ExpertSettings
from envgen.designers.level_space import setting_values, unflatten
from envgen.settings import Settings
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.world import Level, LevelError, Skill

NAMES = [skill.name for skill in Crafter.skills]


class Ground(Settings):
    stones: int = Field(default=2, ge=0, le=4)


class Toy(Level):
    slope: Literal["flat", "original", "steep"] = "original"
    fog: bool = False
    ground: Ground = Ground()


class Asked:
    """Ranks levels by how many stones the ground holds, and remembers what it was asked."""

    def __init__(self):
        self.calls: list[tuple[list[dict], str]] = []

    def __call__(self, levels: Sequence[dict], by: str) -> list[float]:
        self.calls.append((list(levels), by))
        return [10.0 * stones(level) for level in levels]


def stones(level: dict) -> int:
    return Toy.parse(level).ground.stones


def brief(**kw: Any) -> Brief:
    asked = {"num_levels": 4, "cycle": 1, "num_cycles": 4, "seed": 0, **kw}
    return Brief("crafter", "", Crafter.skills, Crafter.Level, Crafter.skill_levels, **asked)


def toy(**kw: Any) -> Brief:
    asked = {"num_levels": 4, "cycle": 1, "num_cycles": 4, "seed": 0, "score_levels": Asked(), **kw}
    return Brief("toy", "", (Skill("climb"),), Toy, {"climb": {"slope": "flat"}}, **asked)


def learned(rates: Sequence[float]) -> LevelOutcome:
    skills = {f"skill {k}": rate for k, rate in enumerate(rates)}
    return LevelOutcome(episodes=10, reward=1.0, skills=skills, first_third=skills, last_third=skills)


def after(proposal: Proposal, told: Sequence[LevelOutcome | None] = (), number: int = 1, rates=None) -> Cycle:
    told = tuple(told) or (None,) * len(proposal.levels)
    skills = {name: SuccessRate(mean=mean, std=0) for name, mean in (rates or {}).items()}
    return Cycle(
        number=number, steps=1000, proposal=proposal, audits=(), outcomes=told, success_rates=skills, reward=0.0
    )  # fmt: skip


DESIGNERS = {
    "random": RandomDesigner, "expert": ExpertDesigner, "alpha": AlphaDesigner, "fixed": lambda: FixedDesigner(ExpertDesigner()),
    "given": lambda: FixedDesigner(UserLevels([{}])), "easy-to-hard": lambda: EasyToHardDesigner(RandomDesigner()),
    "adversarial": lambda: AdversarialDesigner(RandomDesigner()),
}  # fmt: skip


# --- what all keep


@pytest.mark.parametrize("name", DESIGNERS)
@pytest.mark.parametrize("num_levels", [1, 4, 7])
def test_every_cycle_has_num_levels_valid_levels_and_is_repeatable(name, num_levels):
    history: list[Cycle] = []
    for cycle in range(1, 4):
        asked = toy(num_levels=num_levels, cycle=cycle, num_cycles=3)
        proposal = DESIGNERS[name]().design(asked, history)
        assert DESIGNERS[name]().design(asked, history) == proposal
        assert len(proposal.levels) == num_levels
        assert all(one.purpose and to_overrides(one.level, Toy) == one.level for one in proposal.levels)
        assert Proposal.model_validate_json(proposal.model_dump_json()) == proposal
        told = [learned([25 * stones(one.level)]) for one in proposal.levels]
        history.append(after(proposal, told, cycle, {"climb": 20.0}))


@pytest.mark.parametrize("name", ["random", "alpha", "easy-to-hard", "adversarial"])
def test_another_seed_or_cycle_gives_other_levels(name):
    kw = {"score_levels": lambda levels, by: [0.0] * len(levels)}
    first, other_seed = (DESIGNERS[name]().design(brief(seed=seed, **kw), ()) for seed in (0, 1))
    assert first.levels != other_seed.levels
    second = DESIGNERS[name]().design(brief(cycle=2, **kw), [after(first)])
    assert [one.level for one in first.levels] != [one.level for one in second.levels]


def test_none_proposes_nothing():
    assert NoDesigner().design(brief(), ()) == Proposal()


def test_none_of_them_asks_a_language_model():
    for make in (NoDesigner, *DESIGNERS.values()):
        assert make().usage() == {"calls": 0, "prompt_tokens": 0, "reply_tokens": 0, "cost": 0.0}
        assert make().revise(brief(), (), Proposal(), (AuditResult(verdict="bad"),)) is None


# --- random


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.8])
def test_random_keeps_each_setting_with_its_chance_and_is_even_about_the_rest(keep):
    drawn = RandomDesigner(RandomSettings(keep_prob=keep)).design(brief(num_levels=1500), ()).levels
    levels = [Crafter.Level.parse(one.level).model_dump() for one in drawn]
    assert len({str(level) for level in levels}) > 1450
    for name, values in setting_values(Crafter.Level).items():
        taken = [_at(level, name) for level in levels]
        for value in values:
            chance = keep * (value == values[0]) + (1 - keep) / len(values)
            off = abs(taken.count(value) / 1500 - chance)
            assert off < 4.5 * np.sqrt(chance * (1 - chance) / 1500), (name, value)


def _at(level: dict, name: str):
    for part in name.split("."):
        level = level[part]
    return level


def test_random_that_keeps_all_is_the_original():
    assert {str(one.level) for one in RandomDesigner(RandomSettings(keep_prob=1)).design(brief(), ()).levels} == {"{}"}


# --- fixed


def test_fixed_repeats_what_its_first_designer_said_first():
    designer = FixedDesigner(RandomDesigner())
    first = designer.design(brief(), ())
    assert first == RandomDesigner().design(brief(), ())
    history = [after(first), after(Proposal(levels=first.levels[:1]), number=2)]
    assert designer.design(brief(cycle=3), history).levels == first.levels


def test_fixed_lets_its_first_designer_answer_the_audit_once():
    class Yielding(RandomDesigner):
        def revise(self, brief, history, proposal, verdicts):
            return Proposal(levels=(ProposedLevel(level={}),))

    designer, verdicts = FixedDesigner(Yielding()), (AuditResult(verdict="bad"),)
    first = designer.design(brief(), ())
    assert designer.revise(brief(), (), first, verdicts) == Proposal(levels=(ProposedLevel(level={}),))
    assert designer.revise(brief(cycle=2), [after(first)], first, verdicts) is None


def test_given_levels_are_used_in_turn_in_their_shortest_form():
    levels = [{"iron": "Very_Common", "coal": "original"}, {"biome": "beach"}]
    found = [one.level for one in UserLevels(levels).design(brief(num_levels=5), ()).levels]
    assert found == [{"iron": "very common"}, {"biome": "beach"}] * 2 + [{"iron": "very common"}]
    assert UserLevels(levels).config() == {"name": "given", "levels": levels}


def test_given_levels_that_are_wrong_or_would_not_be_used_are_refused():
    with pytest.raises(LevelError, match="did you mean 'iron'"):
        UserLevels([{"irn": "rare"}]).design(brief(), ())
    with pytest.raises(DesignError, match=r"5 levels were given, and a cycle trains in 4; .*levels=5"):
        UserLevels([{}] * 5).design(brief(), ())


# --- expert

NEEDS = {skill.name: skill.prerequisites for skill in Crafter.skills}
LOW_OR_HIGH = st.sampled_from([0.0, 3.0, 20.0, 49.9, 50.0, 79.9, 80.0, 100.0])


def waiting(name: str) -> int:
    """For how many other skills this one is needed, directly or by way of others."""

    def all_needs(skill: str) -> set[str]:
        return set(NEEDS[skill]).union(*(all_needs(need) for need in NEEDS[skill]))

    return sum(name in all_needs(skill) for skill in NAMES)


def gain(name: str, rates: dict[str, float]) -> float:
    return (1 + waiting(name)) * (100 - rates[name])


def taught(rates: dict[str, float], wanted: int = 4, **settings) -> list[str]:
    """By the expert, after a cycle in which the original showed these rates; "" for the original."""
    proposal = ExpertDesigner(ExpertSettings(**settings)).design(
        brief(num_levels=wanted, cycle=2), [after(Proposal(), rates=rates)]
    )
    for one in proposal.levels:
        assert one.level == to_overrides(Crafter.skill_levels[one.skills[0]] if one.skills else {}, Crafter.Level)
    return [one.skills[0] if one.skills else "" for one in proposal.levels]


@given(st.fixed_dictionaries({name: LOW_OR_HIGH for name in NAMES}), st.integers(1, 8))
def test_expert_teaches_what_fails_although_what_it_needs_succeeds(rates, wanted):
    found = taught(rates, wanted)
    frontier = [n for n in NAMES if rates[n] < 80 and all(rates[need] >= 50 for need in NEEDS[n])]
    skills = [name for name in found if name]
    assert len(set(skills)) == len(skills)
    assert all(rates[name] < 80 for name in skills)  # none that is mastered
    inside = sorted(frontier, key=lambda name: (-gain(name, rates), name))
    assert skills[: len(inside)] == inside[:wanted]  # those with most to gain first, and before any other
    failing = sum(rate < 80 for rate in rates.values())
    assert found.count("") == max(0, wanted - failing)  # the original only when nothing else is left


def test_expert_begins_with_what_needs_nothing_and_most_waits_for():
    found = [one.skills[0] for one in ExpertDesigner().design(brief(), ()).levels]
    assert found == ["collect_wood", "collect_sapling", "collect_drink", "defeat_skeleton"]


def test_expert_takes_what_is_nearly_ready_when_there_is_too_little_that_is():
    rates = {name: 100.0 for name in NAMES} | {
        "make_stone_pickaxe": 30.0, "collect_iron": 10.0, "make_iron_pickaxe": 0.0, "collect_diamond": 0.0,
    }  # fmt: skip
    assert taught(rates, 4) == ["make_stone_pickaxe", "collect_iron", "make_iron_pickaxe", "collect_diamond"]
    assert taught(rates, 2, prerequisite_threshold=30) == ["collect_iron", "make_stone_pickaxe"]  # now on equal terms


def test_expert_fills_with_the_original_when_all_is_mastered():
    assert taught({name: 80.0 for name in NAMES}) == [""] * 4
    assert taught({name: 80.0 for name in NAMES}, 2, mastery_threshold=90)[0] != ""


def test_expert_says_why():
    rates = {name: 90.0 for name in NAMES} | {"collect_iron": 12.34, "make_stone_pickaxe": 66.6}
    history = [after(Proposal(), rates=rates)]
    purposes = [one.purpose for one in ExpertDesigner().design(brief(num_levels=3), history).levels]
    assert purposes == [
        "teach collect_iron (12.3%), which needs make_stone_pickaxe 66.6%",
        "teach make_stone_pickaxe (66.6%), which needs place_table 90.0%, collect_wood 90.0%, collect_stone 90.0%",
        "the original: there is no other skill to teach",
    ]


def test_a_world_without_lessons_is_trained_in_the_original():
    bare = dataclasses.replace(brief(), skill_levels={})
    assert [one.level for one in ExpertDesigner().design(bare, ()).levels] == [{}] * 4


# --- alpha

SPACE = setting_values(Toy)


def chances(history: Sequence[Cycle], **settings) -> dict[str, dict]:
    """What the policy thinks of each value of each setting."""
    policy = AlphaDesigner(AlphaSettings(**settings)).policy(SPACE, history)
    return {name: dict(zip(SPACE[name], softmax(policy[name]), strict=True)) for name in SPACE}


def seen(*levels_and_rates) -> Cycle:
    """A cycle of levels, each with the success rates of its skills, or None."""
    levels, rates = zip(*levels_and_rates, strict=True)
    proposal = Proposal(levels=tuple(ProposedLevel(level=level) for level in levels))
    return after(proposal, [None if r is None else learned(r) for r in rates])


def test_alpha_begins_as_random_does():
    assert chances((), keep_prob=0.4)["slope"] == pytest.approx({"original": 0.6, "flat": 0.2, "steep": 0.2})
    assert chances((), keep_prob=0.4)["ground.stones"][2] == pytest.approx(0.4 + 0.6 / 5)
    drawn = AlphaDesigner(AlphaSettings(keep_prob=0.4)).design(toy(num_levels=2000), ()).levels
    kept = np.mean(["slope" not in one.level for one in drawn])
    assert kept == pytest.approx(0.6, abs=0.05)


def test_a_level_is_worth_most_where_skills_succeed_half_the_time():
    alpha = AlphaDesigner()
    assert alpha.reward(learned([50.0, 50.0])) == pytest.approx(1)
    assert alpha.reward(learned([0.0])) == alpha.reward(learned([100.0])) == pytest.approx(np.exp(-2))  # 8 * 0.5²
    assert alpha.reward(learned([30.0])) == pytest.approx(np.exp(-8 * 0.04))
    assert alpha.reward(learned([0.0, 50.0])) == pytest.approx((1 + np.exp(-2)) / 2)
    assert AlphaDesigner(AlphaSettings(alpha=0.8)).reward(learned([80.0])) == pytest.approx(1)


@pytest.mark.parametrize("far", [0.0, 100.0])
def test_alpha_goes_to_what_succeeds_half_the_time_and_away_from_the_hopeless_and_the_trivial(far):
    before = chances(())
    now = chances([seen(({"slope": "flat"}, [50.0]), ({"slope": "steep"}, [far]))])
    assert now["slope"]["flat"] > before["slope"]["flat"] + 0.02
    assert now["slope"]["steep"] < before["slope"]["steep"] - 0.02
    assert now["fog"] == pytest.approx(before["fog"])  # both had the same


def test_alpha_learns_from_nested_settings_and_from_what_stayed_original():
    before = chances(())
    now = chances([seen(({"ground": {"stones": 4}}, [0.0]), ({}, [50.0]))])
    assert now["ground.stones"][4] < before["ground.stones"][4]
    assert now["ground.stones"][2] > before["ground.stones"][2]


@pytest.mark.parametrize(
    "cycle",
    [
        seen(({"slope": "flat"}, [0.0]), ({"slope": "steep"}, [100.0])),  # equally far from a half
        seen(*[({"slope": word}, [7.0, 13.0]) for word in ("flat", "steep", "steep")]),
        seen(*[({"slope": word}, [rate, 20.1]) for word, rate in (("flat", 20.1), ("steep", 20.1 + 1e-12))]),
        seen(({"slope": "flat"}, [50.0]), ({"slope": "steep"}, None)),
        seen(({"slope": "flat"}, None), ({"slope": "steep"}, None)),
        after(Proposal()),
    ],
)
def test_alpha_learns_nothing_where_there_is_nothing_to_compare(cycle):
    assert chances([cycle, cycle]) == chances(())


def test_alpha_leaves_out_levels_in_which_no_episode_ended():
    some = [({"slope": "flat"}, [50.0]), ({"slope": "steep"}, [10.0])]
    assert chances([seen(*some, ({"fog": True}, None))]) == chances([seen(*some)])


@pytest.mark.parametrize("seed", range(3))
def test_alpha_finds_the_one_setting_that_decides(seed):
    """The slope alone decides: flat is trivial, steep is half, the original hopeless."""
    rates = {"flat": 100.0, "steep": 50.0, "original": 0.0}
    history: list[Cycle] = []
    for cycle in range(1, 61):
        proposal = AlphaDesigner().design(toy(seed=seed, cycle=cycle, num_cycles=60), history)
        told = [learned([rates[Toy.parse(one.level).slope]]) for one in proposal.levels]
        history.append(after(proposal, told, cycle))
    found = chances(history)
    assert found["slope"]["steep"] > 0.9
    late = [one.level for cycle in history[-10:] for one in cycle.proposal.levels]
    assert np.mean([level.get("slope") == "steep" for level in late]) > 0.75
    assert max(found["fog"].values()) < 0.97  # what decides nothing stays open


# --- those that rank


@pytest.mark.parametrize("make", [EasyToHardDesigner, AdversarialDesigner])
def test_ranking_is_not_done_without_being_lent_the_means(make):
    with pytest.raises(DesignError, match="brief.score_levels must be a function"):
        make(RandomDesigner()).design(toy(score_levels=None), ())


def test_easy_to_hard_ranks_once_and_goes_from_the_easiest_to_the_hardest():
    asked, designer, history = Asked(), EasyToHardDesigner(RandomDesigner()), []
    for cycle in range(1, 5):
        proposal = designer.design(toy(cycle=cycle, score_levels=asked), history)
        assert bool(proposal.candidates) == (cycle == 1)
        history.append(after(proposal, number=cycle))
    (made, by), used = asked.calls[0], [one.level for cycle in history for one in cycle.proposal.levels]
    assert len(asked.calls) == 1
    assert by == "throwaway"
    assert made == [one.level for one in RandomDesigner().design(toy(num_levels=16), ()).levels]
    assert used == sorted(made, key=stones, reverse=True)  # all 16; stones are this ranking's score
    assert [len(cycle.proposal.levels) for cycle in history] == [4] * 4
    assert history[0].proposal.levels[0].purpose == "drawn at random; score in it 40.0"


def test_adversarial_takes_the_hardest_of_new_levels_each_cycle():
    asked, designer, history = Asked(), AdversarialDesigner(RandomDesigner()), []
    for cycle in range(1, 5):
        proposal = designer.design(toy(cycle=cycle, score_levels=asked), history)
        made, by = asked.calls[-1]
        assert by == ("agent" if history else "throwaway")
        assert made == [one.level for one in RandomDesigner().design(toy(num_levels=16, cycle=cycle), ()).levels]
        assert sorted(made, key=str) == sorted((one.level for one in proposal.candidates), key=str)
        assert [stones(one.level) for one in proposal.candidates] == sorted(map(stones, made))
        assert proposal.levels == proposal.candidates[:4]
        history.append(after(proposal, number=cycle))
    assert len(asked.calls) == 4


@pytest.mark.parametrize("make", [EasyToHardDesigner, AdversarialDesigner])
def test_what_the_ranked_designer_said_spent_and_failed_at_stays_on_record(make):
    class Talkative(Designer):
        name = "talkative"

        def usage(self) -> dict[str, float | None]:
            return {"calls": 3}

        def design(self, brief, history):
            levels = tuple(ProposedLevel(level=unflatten({"ground.stones": k % 5})) for k in range(brief.num_levels))
            return Proposal(levels=levels, raw_reply="words", notes=("fallback for 2 of 16 levels",))

    proposal = make(Talkative()).design(toy(), ())
    assert (proposal.raw_reply, proposal.notes) == ("words", ("fallback for 2 of 16 levels",))
    assert len(proposal.levels) == 4
    assert len(proposal.candidates) == 16
    assert make(Talkative()).usage() == {"calls": 3}
    assert make(Talkative()).config() == {"name": make.name, "source": {"name": "talkative"}}
