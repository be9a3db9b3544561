"""A spec of tool calls has one form, and whatever is wrong with a text is said in a sentence."""

import json

import pytest

from envgen.coevolve.domains.tools_spec import ToolsSpec
from envgen.coevolve.tasks import SpecError


def parse(*steps: str, **others: object) -> ToolsSpec:
    return ToolsSpec.parse(json.dumps({"steps": steps, **others}))


def test_a_spec_is_short_and_read_from_its_own_text():
    spec = parse("price", "pay $1", "balance", distractors=2, style="plain", variation=17)
    assert spec.text == '{"steps":["price","pay $1","balance"],"distractors":2,"style":"plain","variation":17}'
    assert ToolsSpec.parse(spec.text) == spec


def test_equal_tasks_have_equal_specs():
    spec = parse("agenda", "guest", "meet $2 $1", style="nested")
    same = parse(" Agenda", "guest\t", "MEET  $1   $2", style="Nested", distractors=0)
    assert same == spec
    assert (same.key, hash(same)) == (spec.key, hash(spec))
    assert spec.steps == ("agenda", "guest", "meet $2 $1")  # references stand in the order of the arguments


def test_a_second_reference_goes_to_the_next_argument_of_its_type():
    assert parse("off", "off", "repeat $2 $1").steps[2] == "repeat $2 $1"
    assert parse("off", "off", "repeat $2 $1") != parse("off", "off", "repeat $1 $2")


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([], "at least 1 item"),
        (["save"] * 6, "at most 5 items"),
        (["prize"], "step 1: 'prize' is not one of .*; did you mean 'price'"),
        ([""], "step 1: '' is not one of"),
        (["price" + " " * 99], "at most 40 characters"),
        (["price", "pay 12"], r"step 2: '12' is not a reference such as \$1; words and numbers are drawn"),
        (["price", "pay ann $1"], "step 2: 'ann' is not a reference"),
        (["price", "pay $0"], r"step 2: '\$0' is not a reference"),
        (["price", "pay $2"], r"step 2: \$2 is not an earlier step"),
        (["pay $2", "price"], r"step 1: \$2 is not an earlier step"),
        (["price", "wish $1"], r"step 2: wish\(person\): item has no amount for \$1 to go to"),
        (["price", "price", "pay $1 $2"], r"pay\(person, amount\) has no further amount for \$2 to go to"),
        (["save", "pay $1"], r"step 2: \$1 has no result: it is save\(amount\)"),
        (["off", "repeat $1 $1"], r"step 2: \$1 is there twice"),
        (["balance", "price", "balance"], "step 3: 'balance' asks what step 1 asked"),
        (["wish", "price $1", "price $1"], r"step 3: 'price \$1' asks what step 2 asked"),
        (["price;balance"], "step 1: 'price;balance' is not one of"),
        ([7], "valid string"),
    ],
)
def test_steps_that_are_wrong_are_refused_with_a_reason(steps, why):
    with pytest.raises(SpecError, match=why):
        parse(*steps)


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"distractors": 7}, "distractors: .* less than or equal to 6"),
        ({"variation": 1000}, "variation: .* less than 1000"),
        ({"style": "plane"}, "style: 'plane' is not one of .*; did you mean 'plain'"),
        ({"answer": "price(item=tea)"}, "'answer' is not one of steps, distractors, style, variation"),
    ],
)
def test_other_fields_that_are_wrong_are_refused_with_a_reason(others, why):
    with pytest.raises(SpecError, match=why):
        parse("balance", **others)


@pytest.mark.parametrize(
    "text", ["", "[]", "balance", '{"steps":"balance"}', '{"distractors":1}', '{"steps":["\\ud800"]}']
)
def test_what_is_no_spec_is_refused(text):
    with pytest.raises(SpecError):
        ToolsSpec.parse(text)
