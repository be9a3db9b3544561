"""Requests state everything that an answer needs, unambiguously and without naming the tools."""

import re

import numpy as np
import pytest
from request_parser import find_readings

from envgen.coevolution.domains.tools.apps import TOOLS, VALUES
from envgen.coevolution.domains.tools.calls import Ref
from envgen.coevolution.domains.tools.domain import STYLES, ToolsDomain
from envgen.coevolution.domains.tools.phrasing import PHRASINGS

DOMAIN = ToolsDomain()


def request(*steps: str, style: str) -> str:
    prompt = DOMAIN.make_task(DOMAIN.Spec(steps=steps, style=style, variation=3)).prompt  # type: ignore[arg-type]
    return prompt.split("request: ")[1]


def test_prompts_have_exactly_one_reading():
    rng = np.random.default_rng(0)
    for sample in [DOMAIN.sample] * 1200 + [DOMAIN.sample_easy] * 600:
        task = DOMAIN.make_task(sample(rng))
        assert find_readings(task.prompt) == {repr(task.answer_key.calls)}


def test_prompts_contain_every_literal():
    rng = np.random.default_rng(1)
    for _ in range(300):
        task = DOMAIN.make_task(DOMAIN.sample(rng))
        words = re.findall(r"\w+", task.prompt.split("request: ")[1])
        values = [
            value for call in task.answer_key.calls for value in call.arguments.values() if not isinstance(value, Ref)
        ]
        assert {str(value) for value in values} <= set(words)


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("plain", "first find the gift for {}, then find the cost of that gift, then send that cost to {}."),
        (
            "polite",
            "could you please see what {} would like to get, and then see what that gift costs, "
            "and then let {} have that cost? thank you.",
        ),
        ("brief", "gift for {}; cost of that; send that to {}"),
        (
            "numbered",
            "step 1: find the gift for {}. step 2: find the cost of the result of step 1. "
            "step 3: send the result of step 2 to {}.",
        ),
        ("nested", "please send the cost of the gift for {} to {}."),
        (
            "backwards",
            "at last send y to {1}; before that find the cost of x (the cost is y); "
            "before that find the gift for {0} (the gift is x).",
        ),
    ],
)
def test_chain_in_every_style(style, expected):
    task = DOMAIN.make_task(DOMAIN.Spec(steps=("wish", "price $1", "pay $2"), style=style))
    names = [task.answer_key.calls[0].arguments["person"], task.answer_key.calls[2].arguments["person"]]
    assert task.prompt.split("request: ")[1] == expected.format(*names)


def test_ordinals_distinguish_results_of_the_same_tool():
    assert "send the second cost to" in request("price", "price", "pay $2", style="plain")
    assert "have the first cost" in request("price", "price", "pay $1", style="polite")
    assert "send the first cost to" in request("price", "price", "pay $1", style="brief")
    assert "then send the second cost to" in request("price", "price", "pay $2", style="nested")


def test_nested_keeps_steps_outside_that_are_reused_or_have_effects():
    assert request("price", "pay $1", "save $1", style="nested").startswith("please find the cost")
    assert request("price", "save", "pay $1", style="nested").startswith("please find the cost")
    assert request("buy", "guest $1", style="nested").startswith("please raise the order")


def test_prompts_are_short_with_a_small_vocabulary():
    rng = np.random.default_rng(2)
    prompts = [DOMAIN.make_task(DOMAIN.sample(rng)).prompt for _ in range(1000)]
    assert max(len(prompt.split()) for prompt in prompts) < 110
    vocabulary = {word for prompt in prompts for word in re.findall(r"[a-z]+", prompt)}
    assert len(vocabulary) < 250


def test_phrasings_avoid_tool_names_and_mention_every_argument():
    assert set(PHRASINGS) == set(TOOLS)
    for name, (imperative, polite, noun) in PHRASINGS.items():
        assert not re.search(rf"\b{name}\b", f"{imperative} {polite} {noun}")
        assert bool(noun) == bool(TOOLS[name].result_type)
        for template in (imperative, polite):
            assert sorted(re.findall(r"\{(\w+)\}", template)) == sorted(TOOLS[name].parameters)
    nouns = [phrasing.noun for phrasing in PHRASINGS.values() if phrasing.noun]
    assert len(set(nouns)) == len(nouns)


def test_every_literal_belongs_to_one_type():
    literals = [
        literal for value_type, values in VALUES.items() if value_type not in ("amount", "count") for literal in values
    ]
    assert len(set(literals)) == len(literals)


def test_all_styles_are_tested():
    assert set(STYLES) == {"plain", "polite", "brief", "numbered", "nested", "backwards"}
