"""The prompt contains everything that a designer must know, once; a cycle report contains what its settings promise."""

import contextlib
import dataclasses
import json
import re
from typing import Any, Literal, get_origin

import pytest
from pydantic import BaseModel
from samples import SKILL_NAMES, world_brief
from samples import make_cycle as cycle_with

from envgen.designers import prompt
from envgen.designers.designer import (
    AuditResult,
    Brief,
    ChainOutcome,
    Cycle,
    CycleDiagnosis,
    EpisodeEnds,
    LevelOutcome,
    Proposal,
    ProposedLevel,
    SkillFailure,
    SuccessRate,
    TrainingFacts,
)
from envgen.designers.earlier_levels import collect_earlier_levels, make_chain
from envgen.designers.reply import parse_reply
from envgen.designers.rich_prompt import learnability
from envgen.settings import list_options, unflatten
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.level_space import setting_fields, setting_values
from envgen.worlds.world import LevelError

SKILLS = [skill.name for skill in Crafter.skills]
EFFECTS = {
    "iron": {"rare": ["iron per world 17.8 -> 5.6"], "very common": ["iron per world 17.8 -> 118.7", "lava 1 -> 2"]},
    "near.cave": {"True": ["steps to the nearest path 9.4 -> 6.0"]},
    "inventory.wood": {"9": ["steps to the first table 90.0 -> 4.0"]},
}
WORLD = Crafter
BRIEF = Brief(
    WORLD.name, WORLD.rules, WORLD.skills, WORLD.Level, WORLD.skill_levels, num_levels=4, cycle=1, num_cycles=3, seed=0,
    setting_effects=lambda: EFFECTS,
)  # fmt: skip
INITIAL = prompt.initial_prompt(BRIEF)


def setting_line(name: str) -> str:
    """The line that describes a setting, by its dotted name."""
    text = INITIAL[INITIAL.index("## Settings") : INITIAL.index("## Rules")]
    group, _, name = name.rpartition(".")
    if group:
        text = text[text.index(f"\n- {group}: a group") + 1 :]
        text = "\n".join(line for line in text.split("\n- ")[0].split("\n") if line.startswith("  -"))
    (line,) = re.findall(rf"^{'  ' if group else ''}- (?:\w+, )*{name}(?:, \w+)*: .*$", text, re.MULTILINE)
    return line


def test_every_skill_is_listed_with_its_prerequisites():
    for skill in Crafter.skills:
        needs = f" (needs {', '.join(skill.prerequisites)})" if skill.prerequisites else ""
        assert INITIAL.split("\n").count(f"- {skill.name}{needs}") == 1


@pytest.mark.parametrize("name", setting_values(Crafter.Level))
def test_every_setting_is_described_once_with_all_its_values(name):
    original, *_ = values = setting_values(Crafter.Level)[name]
    line = setting_line(name)
    description = f" {line.partition(': ')[2]}"
    if get_origin(setting_fields(Crafter.Level)[name].annotation) is Literal:
        assert {word.strip() for word in description.partition(" (")[0].split("|")} == set(map(str, values))
    elif isinstance(original, bool):
        assert " true or false " in description
    elif isinstance(original, tuple):
        options = list_options(Crafter.Level.model_fields[name].annotation)
        assert f" a list of {' | '.join(options)} (default {json.dumps(original)})." in description
        return
    else:
        low, high = map(int, re.findall(r" (\d+) to (\d+) ", description)[0])
        for value, is_valid in ((low, True), (high, True), (low - 1, False), (high + 1, False)):
            with contextlib.nullcontext() if is_valid else pytest.raises(LevelError):
                Crafter.Level.parse(unflatten({name: value}))
    assert f"(default {str(original).lower() if isinstance(original, bool) else original})" in description


def documentation(model: type[BaseModel]) -> list[str]:
    sentences = []
    for field in model.model_fields.values():
        sentences += [" ".join(field.description.split())] if field.description else []
        inner = field.annotation
        sentences += documentation(inner) if isinstance(inner, type) and issubclass(inner, BaseModel) else []
    return sentences


def test_the_documentation_of_every_setting_is_included_once():
    sentences = documentation(Crafter.Level)
    assert len(sentences) > 20
    assert all(INITIAL.count(text) == 1 for text in sentences)


def test_bounds_match_the_validated_ones():
    assert "0 to 299 (default 0)" in setting_line("time_of_day")
    assert "1 to 10000 (default 10000)" in setting_line("length")
    assert "0 to 4 (default 0)" in setting_line("near.cows")
    assert "1 to 9 (default 9)" in setting_line("vitals.food")
    assert "0 to 1 (default 0)" in setting_line("inventory.iron_sword")


def test_measured_effects_are_below_their_setting():
    lines = INITIAL.split("\n")
    iron = lines.index(setting_line("iron"))
    assert lines[iron + 1 : iron + 3] == [
        "    rare: iron per world 17.8 -> 5.6",
        "    very common: iron per world 17.8 -> 118.7; lava 1 -> 2",
    ]
    assert lines[lines.index(setting_line("near.cave")) + 1] == "      true: steps to the nearest path 9.4 -> 6.0"
    assert lines[lines.index(setting_line("inventory.wood")) + 1].strip().startswith("9: steps to the first table")
    assert "means over generated maps" in INITIAL


def test_without_measured_effects_there_is_no_legend():
    text = prompt.initial_prompt(dataclasses.replace(BRIEF, setting_effects=dict))
    assert "->" not in text
    assert "means over generated maps" not in text


def test_settings_with_equal_descriptions_share_a_line():
    text = prompt.initial_prompt(dataclasses.replace(BRIEF, setting_effects=dict))
    assert "  - sapling, wood, stone, coal, iron, diamond: 0 to 9 (default 0).\n" in text
    assert "  - health, food, drink, energy: 1 to 9 (default 9).\n" in text


def test_the_rules_are_included_once_and_in_full():
    assert INITIAL.count(Crafter.rules.strip()) == 1


def test_no_placeholder_remains():
    plain = INITIAL.replace(prompt.example_reply(BRIEF), "")
    assert not re.findall(r"[{}<>]|\.\.\.|TODO|None|True|False", plain.replace("->", ""))


@pytest.mark.parametrize(
    ("num_levels", "phrase"), [(1, "exactly 1 level:"), (4, "exactly 4 levels:"), (16, "exactly 16 levels:")]
)
def test_prompt_and_schema_state_the_number_of_levels(num_levels, phrase):
    brief = dataclasses.replace(BRIEF, num_levels=num_levels)
    text = prompt.initial_prompt(brief)
    assert text.count(phrase) == 1
    assert {int(number) for number in re.findall(r"(\d+) levels?\b", text)} == {num_levels}
    schema = prompt.reply_schema(brief)["properties"]["levels"]
    assert (schema["minItems"], schema["maxItems"]) == (num_levels, num_levels)


@pytest.mark.parametrize(
    ("num_levels", "levels_per_cycle", "phrase"),
    [(16, 4, "4 of the 16 levels"), (4, 1, "1 of the 4 levels"), (4, 4, "4 levels"), (1, 1, "1 level")],
)
def test_the_prompt_says_how_many_of_the_levels_a_cycle_trains_in(num_levels, levels_per_cycle, phrase):
    brief = dataclasses.replace(BRIEF, num_levels=num_levels, levels_per_cycle=levels_per_cycle)
    assert f"In each of 3 cycles it trains in {phrase} of your design" in prompt.initial_prompt(brief)


def test_a_single_cycle_is_described_in_the_singular():
    assert "It trains once in" in prompt.initial_prompt(dataclasses.replace(BRIEF, num_cycles=1))
    assert "In each of 3 cycles it trains" in INITIAL


@pytest.mark.parametrize("skill_levels", [Crafter.skill_levels, {}, {"wake_up": Crafter.skill_levels["wake_up"]}])
def test_the_example_is_a_valid_reply(skill_levels):
    brief = dataclasses.replace(BRIEF, skill_levels=skill_levels, num_levels=1)
    text = prompt.example_reply(brief)
    assert text in prompt.initial_prompt(brief)
    reply = parse_reply(text, brief)
    assert reply.errors == ()
    assert reply.levels[0].skills == (next(iter(skill_levels), SKILLS[0]),)
    assert reply.levels[0].level.to_overrides() == next(iter(skill_levels.values()), {})


def test_prompt_and_schema_are_repeatable():
    assert prompt.initial_prompt(BRIEF) == INITIAL
    assert json.dumps(prompt.reply_schema(BRIEF)) == json.dumps(prompt.reply_schema(BRIEF))


def test_the_prompt_and_the_schema_stay_short():
    """They are part of every request of a run."""
    assert len(prompt.initial_prompt(dataclasses.replace(BRIEF, setting_effects=dict))) < 7_500
    assert len(json.dumps(prompt.reply_schema(BRIEF))) < 4_500


# --- cycle reports


def make_cycle(**fields: Any) -> Cycle:
    levels = (
        ProposedLevel(level=Crafter.Level(iron="common"), purpose="the first", skills=("collect_iron",)),
        ProposedLevel(level=Crafter.Level.parse({"near": {"cave": True}}), purpose="the second", skills=()),
    )
    rates = {name: 0.0 for name in SKILLS}
    defaults = {
        "number": 2, "steps": 960_000, "proposal": Proposal(levels=levels, raw_reply="words"), "reward": 4.2,
        "audits": (
            AuditResult(verdict="doubtful", reasons=("no player reached it",), findings=("iron 1 -> 2",)),
            AuditResult(verdict="good"),
        ),
        "outcomes": (
            LevelOutcome(
                episodes=120, reward=4.16, skills={**rates, "collect_wood": 60.0, "wake_up": 0.5},
                first_third={**rates, "collect_wood": 40.21, "wake_up": 0.4},
                last_third={**rates, "collect_wood": 71.04, "wake_up": 0.6, "collect_iron": 0.3},
            ),
            None,
        ),
        "success_rates": {
            name: SuccessRate(mean=k / 10, std=2 * k / 10, standard_error=3 * k / 10) for k, name in enumerate(SKILLS)
        },
    }  # fmt: skip
    return Cycle(**(defaults | fields))


def report(feedback: prompt.Feedback, **fields: Any) -> str:
    return prompt.cycle_report(BRIEF, make_cycle(**fields), feedback)


def test_without_feedback_the_report_only_says_that_the_cycle_is_over():
    text = report("none")
    assert "Cycle 2 is over" in text
    assert "Now design the 4 levels of cycle 3 of 3" in text
    assert "%" not in text
    assert not any(name in text for name in SKILLS)
    assert "iron" not in text


@pytest.mark.parametrize(("feedback", "factor"), [("paper", 2), ("rich", 3)])
def test_success_rates_of_all_skills_are_reported_with_one_decimal(feedback, factor):
    """With their standard deviation as in the paper, or with their standard error."""
    lines = report(feedback).split("\n")
    for k, name in enumerate(SKILLS):
        assert lines.count(f"- {name}: {k / 10:.1f}% ± {factor * k / 10:.1f}%") == 1
    assert f"- defeat_skeleton: 0.7% ± {factor * 0.7:.1f}%" in lines


@pytest.mark.parametrize(("feedback", "name"), [("paper", ""), ("rich", "2.")])
def test_the_reported_levels_are_those_that_were_used(feedback, name):
    text = report(feedback)
    assert f'Level {name}1: {{"skills": ["collect_iron"], "level": {{"iron": "common"}}}}' in text
    assert f'Level {name}2: {{"skills": [], "level": {{"near": {{"cave": true}}}}}}' in text
    assert "State in each purpose which of these figures" in text


def test_only_rich_feedback_contains_outcomes_and_audits():
    assert not re.findall("episode|no player reached it|mean reward", report("paper"))
    lines = report("rich").split("\n")
    (first,) = (k for k, line in enumerate(lines) if line.startswith("Level 2.1"))
    assert lines[first + 1 : first + 5] == [
        "  120 episodes, mean reward 4.2; success rates in the first -> last third of training: "
        "collect_iron 0.0% -> 0.3%, collect_wood 40.2% -> 71.0%",  # its skill, and one that is not rare
        "  in the real game after this cycle: collect_iron 0.3%",
        "  no player reached it",
        "  iron 1 -> 2",
    ]
    assert lines[first + 6] == "  too few episodes ended in it to say what it taught"
    rates = {"collect_wood": 12.5, "collect_iron": 25.0}
    outcome = LevelOutcome(episodes=8, reward=1, skills=rates, first_third=rates, last_third={})
    text = report("rich", outcomes=(outcome, None))  # all episodes ended in the same update
    assert "8 episodes, mean reward 1.0; success rates in all of them: collect_wood 12.5%, collect_iron 25.0%\n" in text


def test_none_and_paper_are_the_prompts_of_recorded_runs():
    """Recorded replies are found by a hash of the request: a change here makes published ledgers useless."""
    brief = dataclasses.replace(BRIEF, training=FACTS, reward_rule="1 for each skill.")
    earlier = [make_cycle(number=1)]
    for feedback in ("none", "paper"):
        assert prompt.initial_prompt(brief, feedback) == INITIAL
        assert prompt.cycle_report(brief, make_cycle(diagnosis=DIAGNOSIS), feedback, earlier) == report(feedback)
    assert prompt.cycle_report(BRIEF, make_cycle(), "paper") == PAPER_REPORT


PAPER_REPORT = "\n".join([
    "Cycle 2 is over; the agent has trained for 960,000 steps so far.",
    "Its success rates in the real game, as mean ± standard deviation over seeds:",
    *(f"- {name}: {k / 10:.1f}% ± {2 * k / 10:.1f}%" for k, name in enumerate(SKILLS)),
    "",
    "It trained in these levels:",
    'Level 1: {"skills": ["collect_iron"], "level": {"iron": "common"}}',
    'Level 2: {"skills": [], "level": {"near": {"cave": true}}}',
    "",
    "Now design the 4 levels of cycle 3 of 3, in the same format. "
    "State in each purpose which of these figures it is based on.",
])  # fmt: skip
FACTS = TrainingFacts(
    level_steps=120_000, original_steps=120_000, final_steps=1_000_000, num_envs=64, mixed=False, observation="symbols",
    gamma=0.95,
)  # fmt: skip
DIAGNOSIS = CycleDiagnosis(
    episodes=128, median_length=212.0,
    ends=(
        EpisodeEnds(cause="zombie", episodes=96, median_length=180.5),
        EpisodeEnds(cause="thirst", episodes=32, median_length=301),
    ),
    failures={
        "collect_iron": SkillFailure(success_rate=3.1, bottleneck="iron nearby: 4 of the 90", opportunities=6, used=4),
        "wake_up": SkillFailure(success_rate=40.0),
        "eat_plant": SkillFailure(success_rate=0.0, bottleneck="ripe plant: 0 of the 9", opportunities=0, used=0),
    },
)  # fmt: skip


def test_rich_feedback_says_how_the_agent_trains():
    text = prompt.initial_prompt(dataclasses.replace(BRIEF, training=FACTS, reward_rule="1 for\neach skill."), "rich")
    for line in (
        "- Reward: 1 for each skill.",
        "- Its score is a geometric mean over skills",
        "120,000 steps in the levels, shared according to their weights, and then 120,000 steps in the real game",
        "a level gets 30,000 steps",
        "- It can unlearn what the levels of a cycle do not reward",
        "- After the last cycle, it trains for 1,000,000 steps in the real game.",
        "64 environments side by side and observes symbols",
        "- It discounts rewards by 0.95 per step: a reward counts a third if it is 20 steps away, and 5% at 60 steps.",
        "- It has no memory.",
    ):
        assert line in text
    assert "levels of your design, and then in the real game." in text
    assert 'such as "1.4", the 4th that was used in the\n  first cycle' in text
    assert '"base": "1.4"' in text
    assert "from 0.1 to 10 (default 1)" in text
    mixed = dataclasses.replace(FACTS, mixed=True, memory="gru", final_steps=0, gamma=None)
    text = prompt.initial_prompt(dataclasses.replace(BRIEF, training=mixed), "rich")
    assert "and at the same time, in the same batches, 120,000 steps" in text
    assert "levels of your design, and at the same time in the real game." in text
    assert "(gru)" in text
    assert "After the last cycle" not in text
    assert "unlearn" not in text
    assert "discounts" not in text
    assert "practice" not in text
    annealed = dataclasses.replace(mixed, gamma=0.95, final_gamma=0.99, practice_share=0.4, is_pretrained=True)
    brief = dataclasses.replace(BRIEF, training=annealed, original_skills=lambda: {*SKILLS} - {"wake_up"}, num_cycles=1)
    text = prompt.initial_prompt(brief, "rich")
    assert "0.95 per step at first and 0.99 at the end" in text
    assert "- Of those that play the real game, 40% are for practice" in text
    assert "- It starts with the weights of a trained policy." in text
    assert "only possible in levels, not in the real game: wake_up." in text
    assert '"base"' not in text  # there is no earlier level in a single cycle


def test_rich_feedback_shows_the_curve_of_every_skill_and_where_episodes_fail():
    past = make_cycle(number=1, success_rates={name: SuccessRate(mean=50.0, std=1) for name in SKILLS})
    brief = dataclasses.replace(BRIEF, training=FACTS)
    text = prompt.cycle_report(brief, make_cycle(diagnosis=DIAGNOSIS), "rich", [past])
    assert "- defeat_skeleton: 50.0% -> 0.7% ± 2.1%" in text
    assert "1 cycle remains, with 120,000 steps in levels in all." in text
    assert "median length is 212 steps" in text
    assert "- zombie: 75%, median step 180" in text
    assert (
        "- collect_iron (3.1%): iron nearby: 4 of the 90; "
        "it was possible at some step of 6 episodes and tried then in 4"
    ) in text
    assert "- wake_up (40.0%): no single stage" in text
    assert "- eat_plant (0.0%): ripe plant: 0 of the 9\n" in text
    assert "in the real game, before -> after this cycle: collect_iron 50.0% -> 0.3%" in text


def test_rich_feedback_names_repeated_changed_and_dropped_levels():
    first = make_cycle(number=1)
    kept = first.proposal.levels[0].model_copy(update={"base": "1.1", "weight": 2.0})
    changed = ProposedLevel(level=Crafter.Level.parse({"near": {"cave": True}, "iron": "rare"}), base="1.2")
    second = make_cycle(number=2, proposal=Proposal(levels=(kept, changed)))
    text = prompt.cycle_report(BRIEF, second, "rich", [first])
    assert 'Level 1.1 (used before, weight 2): {"skills": ["collect_iron"]' in text
    assert "Level 2.2 (changed from 1.2): " in text
    earlier = text[text.index("Earlier levels in which it no longer trains.") :].split("\n")
    assert earlier[1] == 'Level 1.2: {"skills": [], "level": {"near": {"cave": true}}}'
    assert earlier[2] == "  cycle 1; 0 episodes"
    third = make_cycle(number=3, proposal=Proposal(levels=(changed,)), outcomes=(None,), audits=())
    text = prompt.cycle_report(BRIEF, third, "rich", [first, second])
    assert ("  cycles 1, 2; 240 episodes; at first -> at last: collect_iron 0.0% -> 0.3% (learnability 0.00)") in text
    assert learnability(50) == 0.25


def test_only_the_newest_report_has_what_all_cycles_have_in_common():
    first = make_cycle(number=1)
    other = ProposedLevel(level=Crafter.Level(coal="rare"))
    second = make_cycle(number=2, diagnosis=DIAGNOSIS, proposal=Proposal(levels=(other,)), outcomes=(None,), audits=())
    newest = prompt.cycle_report(BRIEF, second, "rich", [first])
    older = prompt.cycle_report(BRIEF, second, "rich", [first], is_newest=False)
    for text in ("standard error", "cycle remains", "zombie", "Level 1.1", "Earlier levels"):
        assert text in newest
        assert text not in older
    for text in ("Cycle 2 is over", "Level 2.1: ", "too few episodes ended", "Now design"):
        assert text in newest
        assert text in older


def test_rich_feedback_says_which_levels_replaced_a_reply():
    item = make_cycle().proposal.levels[0]
    notes = ("not usable after 3 replies: the reply is empty", "fallback for 2 of 2 levels")
    cycle = make_cycle(proposal=Proposal(levels=(item, item), notes=notes), outcomes=(None, None), audits=())
    text = prompt.cycle_report(BRIEF, cycle, "rich")
    assert f"The last reply was not used as it is: {'; '.join(notes)}.\n" in text
    assert text.count("Level 2.1") == 1
    assert 'Level 2.1 (in 2 places): {"skills": ["collect_iron"]' in text


def test_the_episodes_of_a_level_that_a_proposal_repeats_are_counted_once():
    single = make_cycle(number=1)
    item, outcome = single.proposal.levels[0], single.outcomes[0]
    repeated = make_cycle(number=1, proposal=Proposal(levels=(item, item)), outcomes=(outcome, outcome))
    entry = collect_earlier_levels([repeated])["1.1"]
    assert (entry.cycles, entry.outcomes, entry.episodes) == ([1], [outcome], 120)
    again = make_cycle(number=2, proposal=Proposal(levels=(item, item)), outcomes=(outcome, outcome))
    (entry,) = collect_earlier_levels([repeated, again]).values()
    assert (entry.cycles, entry.episodes) == ([1, 2], 240)


def test_a_chain_keeps_its_name_at_a_later_stage():
    chain = make_chain("collect_iron", BRIEF, {})
    cycles = [
        make_cycle(
            number=number, outcomes=(None,), audits=(),
            proposal=Proposal(levels=(ProposedLevel(level=chain.levels[stage], chain=chain.at_stage(stage)),)),
        )
        for number, stage in ((1, 0), (2, 1))
    ]  # fmt: skip
    assert collect_earlier_levels(cycles).keys() == {"1.1"}
    assert "Level 1.1 (used before): " in prompt.cycle_report(BRIEF, cycles[1], "rich", cycles[:1])


def test_rich_feedback_offers_chains_and_says_how_far_they_came():
    text = prompt.initial_prompt(BRIEF, "rich")
    assert re.search(r"There are chains for .*make_iron_pickaxe \(\d+ stages\)", text)
    without = prompt.initial_prompt(dataclasses.replace(BRIEF, skill_levels={}), "rich")
    assert '"chain"' not in without
    chain = make_chain("collect_iron", BRIEF, {})
    item = ProposedLevel(level=chain.levels[0], skills=("collect_iron",), chain=chain)
    rates = dict.fromkeys(SKILLS, 0.0)
    stages = len(chain.levels)
    outcome = LevelOutcome(
        episodes=90, reward=1, skills=rates, first_third=rates, last_third=rates | {"collect_iron": 40.0},
        chain=ChainOutcome(stage=1, episodes=(60, 30, *[0] * (stages - 2)), successes=(35, 9, *[0] * (stages - 2))),
    )  # fmt: skip
    first = make_cycle(number=1, proposal=Proposal(levels=(item,)), outcomes=(outcome,), audits=())
    text = prompt.cycle_report(BRIEF, first, "rich")
    assert f'Level 1.1: {{"skills": ["collect_iron"], "chain": "collect_iron"}}, begun at stage 1 of {stages}' in text
    assert (
        f"it reached stage 2 of {stages}; episodes with success at collect_iron: stage 1 35 of 60, stage 2 9 of 30"
        in text
    )
    text = prompt.cycle_report(BRIEF, make_cycle(number=2), "rich", [first])
    assert f"90 episodes; it reached stage 2 of {stages}; at first -> at last: collect_iron 0.0% -> 40.0%" in text


def test_the_schema_of_rich_replies_has_weights_and_the_names_of_earlier_levels():
    plain = prompt.reply_schema(BRIEF)["properties"]["levels"]["items"]
    assert set(plain["properties"]) == {"purpose", "skills", "level"}
    first = prompt.reply_schema(BRIEF, earlier_levels={})["properties"]["levels"]["items"]
    assert set(first["properties"]) == {"purpose", "skills", "level", "weight", "chain"}
    assert {"none", "make_iron_pickaxe"} < set(first["properties"]["chain"]["enum"])
    assert first["properties"]["weight"] == {"type": "number", "minimum": 0.1, "maximum": 10.0}
    later = prompt.reply_schema(BRIEF, earlier_levels=("1.1", "1.2"))["properties"]["levels"]["items"]
    assert later["properties"]["base"]["enum"] == ["none", "1.1", "1.2"]


def test_a_cycle_without_levels_or_audits_can_be_reported():
    for feedback in ("none", "paper", "rich"):
        assert report(feedback, proposal=Proposal(), audits=(), outcomes=())
        assert report(feedback, audits=(), outcomes=(None, None))


def test_the_audit_is_reported_by_level():
    cycle = make_cycle()
    text = prompt.audit_report(BRIEF, cycle.proposal, cycle.audits)
    assert "Level 1 is doubtful.\n  no player reached it\n  iron 1 -> 2\nLevel 2 is good." in text
    assert "all 4 levels again" in text
    assert '"iron"' not in text  # they are in the reply above
    replaced = cycle.proposal.model_copy(update={"notes": ("fallback",)})
    assert '"level": {"iron": "common"}' in prompt.audit_report(BRIEF, replaced, cycle.audits)


def test_all_errors_of_a_reply_are_reported():
    text = prompt.error_report(BRIEF, ["level 1: this", "level 2: that"])
    assert "\n- level 1: this\n- level 2: that\n" in text
    assert "all 4 levels again" in text
    assert "the level again" in prompt.error_report(dataclasses.replace(BRIEF, num_levels=1), ["this"])


@pytest.mark.parametrize("feedback", ["paper", "rich"])
def test_skills_that_were_not_possible_are_named(feedback):
    brief = world_brief(cycle=2, num_cycles=3)
    earlier = cycle_with(Proposal(), rates=dict.fromkeys(SKILL_NAMES, 20.0))
    rates = {name: 30.0 for name in SKILL_NAMES if name != "wake_up"}
    cycle = cycle_with(Proposal(), rates=rates, number=2)
    lines = prompt.cycle_report(brief, cycle, feedback, [earlier]).splitlines()
    before = "20.0% -> " if feedback == "rich" else ""
    assert f"- wake_up: {before}not possible in these episodes" in lines
    assert f"- eat_cow: {before}30.0% ± 0.0%" in lines
    cycles = cycle, cycle_with(Proposal(), rates={**rates, "wake_up": 5.0}, number=3)
    lines = prompt.cycle_report(brief, cycles[1], feedback, cycles[:1]).splitlines()
    assert f"- wake_up: {'? -> ' if feedback == 'rich' else ''}5.0% ± 0.0%" in lines
