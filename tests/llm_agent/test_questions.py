"""The questions of a step form a graph, and each sees what it needs."""

import pytest

from envgen.llm_agent.questions import (
    CHAIN,
    QUESTIONS,
    PastStep,
    action_schema,
    example_answer,
    idle_action,
    step_prompt,
    system_prompt,
)
from envgen.worlds.crafter.constants import ACTIONS, SKILLS
from envgen.worlds.crafter.world import RULES, Crafter

CHAIN_NAMES = [question.name for question in CHAIN]


@pytest.mark.parametrize("questions", QUESTIONS.values())
def test_questions_need_only_earlier_ones_and_end_in_the_action(questions):
    for k, question in enumerate(questions):
        assert set(question.needs) <= {earlier.name for earlier in questions[:k]}
    used = {name for question in questions for name in question.needs}
    assert used == {question.name for question in questions[:-1]}
    assert questions[-1].name == "action"


def test_the_chain_asks_nine_questions():
    assert len(CHAIN) == len({question.name for question in CHAIN}) == 9


def test_the_context_has_rules_skills_and_actions():
    context = system_prompt(Crafter())
    assert RULES.strip() in context
    for skill in SKILLS:
        assert f"- {skill.name}" in context
    for action in ACTIONS:
        assert f"- {action}: " in context
    assert "place_table: place a table on the cell that you face: grass, sand or path; costs 2 wood" in context


def test_a_question_sees_the_observation_the_last_steps_and_the_answers_it_needs():
    answers = {question.name: f"the answer to {question.name}" for question in CHAIN} | {"plan": "x" * 10_000}
    past = [PastStep(3, "do", "wood 0 -> 1; reward +1.0")]
    feasible = step_prompt(CHAIN[7], CHAIN, answers, "You see a tree.", 4, past, ["collect_wood"], "Action: noop")
    assert "## Step 4" in feasible
    assert "Skills achieved so far: collect_wood." in feasible
    assert "- step 3, do: wood 0 -> 1; reward +1.0" in feasible
    assert "You see a tree." in feasible
    assert "the answer to usable" in feasible
    assert "the answer to candidates" in feasible
    assert "the answer to surroundings" not in feasible
    assert feasible.endswith(CHAIN[7].text)
    last = step_prompt(CHAIN[8], CHAIN, answers | {"feasible": " "}, "You see a tree.", 4, [], [], "Action: noop")
    assert "(no answer)" in last
    assert "xxx" in last
    assert len(last) < 10_000
    assert "achieved so far: none" in last
    assert last.endswith("like this:\nAction: noop")


def test_later_questions_see_answers_without_the_reasoning_before_them():
    answers = dict.fromkeys(CHAIN_NAMES, "fine") | {"plan": f"<think>{'x' * 10_000}</think>\n\nget wood"}
    last = step_prompt(CHAIN[8], CHAIN, answers, "You see a tree.", 1, [], [], "Action: noop")
    assert f"Question: {CHAIN[5].text}\nAnswer: get wood\n" in last
    assert "xxx" not in last


def test_the_example_has_the_format_that_is_asked_for():
    assert example_answer(ACTIONS, None) == "Action: noop"
    assert example_answer(ACTIONS, action_schema(ACTIONS, False)) == '{"action": "noop"}'
    assert example_answer(("left",), action_schema(("left",), True)) == '{"reasons": "...", "action": "left"}'


def test_without_noop_the_first_action_is_idle():
    assert idle_action(("left", "noop")) == "noop"
    assert idle_action(("left", "right")) == "left"


def test_the_schema_lists_the_actions():
    schema = action_schema(("left", "right"), with_reasons=True)
    assert schema["properties"]["action"]["enum"] == ["left", "right"]
    assert schema["required"] == ["reasons", "action"]
    assert action_schema(("left",), with_reasons=False)["required"] == ["action"]
