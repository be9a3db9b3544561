"""Requests say all that an answer needs, once and clearly, in words that are not the tools' names."""

import re

import numpy as np
import pytest
from tools_reader import readings

from envgen.coevolve.domains.tools import STYLES, Tools
from envgen.coevolve.domains.tools_apps import TOOLS, WORDS
from envgen.coevolve.domains.tools_calls import Ref
from envgen.coevolve.domains.tools_words import PHRASES

DOMAIN = Tools()


def request(*steps: str, style: str) -> str:
    prompt = DOMAIN.make_task(DOMAIN.Spec(steps=steps, style=style, variation=3)).prompt  # type: ignore[arg-type]
    return prompt.split("request: ")[1]


def test_a_careful_reader_of_the_prompt_alone_finds_the_program_and_no_other():
    random = np.random.default_rng(0)
    for draw in [DOMAIN.sample] * 1200 + [DOMAIN.sample_easy] * 600:
        task = DOMAIN.make_task(draw(random))
        assert readings(task.prompt) == {repr(task.gold.calls)}


def test_every_literal_is_in_the_prompt():
    random = np.random.default_rng(1)
    for _ in range(300):
        task = DOMAIN.make_task(DOMAIN.sample(random))
        words = re.findall(r"\w+", task.prompt.split("request: ")[1])
        values = [value for call in task.gold.calls for value in call.arguments.values() if not isinstance(value, Ref)]
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
def test_a_chain_in_every_style(style, expected):
    task = DOMAIN.make_task(DOMAIN.Spec(steps=("wish", "price $1", "pay $2"), style=style))
    names = [task.gold.calls[0].arguments["person"], task.gold.calls[2].arguments["person"]]
    assert task.prompt.split("request: ")[1] == expected.format(*names)


def test_of_several_results_of_a_kind_the_one_that_is_meant_is_counted():
    assert "send the second cost to" in request("price", "price", "pay $2", style="plain")
    assert "have the first cost" in request("price", "price", "pay $1", style="polite")
    assert "send the first cost to" in request("price", "price", "pay $1", style="brief")
    assert "then send the second cost to" in request("price", "price", "pay $2", style="nested")


def test_nested_leaves_a_step_outside_that_is_needed_twice_later_or_changes_something():
    assert request("price", "pay $1", "save $1", style="nested").startswith("please find the cost")
    assert request("price", "save", "pay $1", style="nested").startswith("please find the cost")
    assert request("buy", "guest $1", style="nested").startswith("please raise the order")


def test_a_prompt_is_compact():
    random = np.random.default_rng(2)
    prompts = [DOMAIN.make_task(DOMAIN.sample(random)).prompt for _ in range(1000)]
    assert max(len(prompt.split()) for prompt in prompts) < 110
    vocabulary = {word for prompt in prompts for word in re.findall(r"[a-z]+", prompt)}
    assert len(vocabulary) < 250


def test_no_tool_is_called_by_its_name():
    assert set(PHRASES) == set(TOOLS)
    for name, (order, polite, noun) in PHRASES.items():
        assert not re.search(rf"\b{name}\b", f"{order} {polite} {noun}")
        assert bool(noun) == bool(TOOLS[name].result)
        for words in (order, polite):
            assert sorted(re.findall(r"\{(\w+)\}", words)) == sorted(TOOLS[name].parameters)
    nouns = [words.noun for words in PHRASES.values() if words.noun]
    assert len(set(nouns)) == len(nouns)


def test_words_belong_to_one_type():
    words = [word for kind, words in WORDS.items() if kind not in ("amount", "count") for word in words]
    assert len(set(words)) == len(words)


def test_styles_are_all_tried_here():
    assert set(STYLES) == {"plain", "polite", "brief", "numbered", "nested", "backwards"}
