"""Specs of the tools domain have a canonical form, and errors in them are explained."""

import json

import pytest

from envgen.coevolution.domains.tools.spec import ToolsSpec
from envgen.coevolution.tasks import SpecError


def parse(*steps: str, **fields: object) -> ToolsSpec:
    return ToolsSpec.parse(json.dumps({"steps": steps, **fields}))


def test_spec_text_round_trips():
    spec = parse("price", "pay $1", "balance", distractors=2, style="plain", variation=17)
    assert spec.text == '{"steps":["price","pay $1","balance"],"distractors":2,"style":"plain","variation":17}'
    assert ToolsSpec.parse(spec.text) == spec


def test_equivalent_specs_are_equal():
    spec = parse("agenda", "guest", "meet $2 $1", style="nested")
    same = parse(" Agenda", "guest\t", "MEET  $1   $2", style="Nested", distractors=0)
    assert same == spec
    assert (same.key, hash(same)) == (spec.key, hash(spec))
    assert spec.steps == ("agenda", "guest", "meet $2 $1")  # references are sorted by argument


def test_second_reference_goes_to_next_argument_of_its_type():
    assert parse("off", "off", "repeat $2 $1").steps[2] == "repeat $2 $1"
    assert parse("off", "off", "repeat $2 $1") != parse("off", "off", "repeat $1 $2")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], "at least 1 item"),
        (["save"] * 6, "at most 5 items"),
        (["prize"], "step 1: 'prize' is not one of .*; did you mean 'price'"),
        ([""], "step 1: '' is not one of"),
        (["price" + " " * 99], "at most 40 characters"),
        (["price", "pay 12"], r"step 2: '12' is not a reference such as \$1; the variation selects the literals"),
        (["price", "pay ann $1"], "step 2: 'ann' is not a reference"),
        (["price", "pay $0"], r"step 2: '\$0' is not a reference"),
        (["price", "pay $2"], r"step 2: \$2 is not an earlier step"),
        (["pay $2", "price"], r"step 1: \$2 is not an earlier step"),
        (["price", "wish $1"], r"step 2: wish\(person\): item has no argument of type amount for \$1"),
        (["price", "price", "pay $1 $2"], r"pay\(person, amount\) has no other argument of type amount for \$2"),
        (["save", "pay $1"], r"step 2: \$1 has no result: it is save\(amount\)"),
        (["off", "repeat $1 $1"], r"step 2: \$1 is used twice"),
        (["balance", "price", "balance"], "step 3: 'balance' repeats step 1"),
        (["wish", "price $1", "price $1"], r"step 3: 'price \$1' repeats step 2"),
        (["price;balance"], "step 1: 'price;balance' is not one of"),
        ([7], "valid string"),
    ],
)
def test_wrong_steps_are_rejected_with_a_reason(steps, message):
    with pytest.raises(SpecError, match=message):
        parse(*steps)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"distractors": 7}, "distractors: .* less than or equal to 6"),
        ({"variation": 1000}, "variation: .* less than 1000"),
        ({"style": "plane"}, "style: 'plane' is not one of .*; did you mean 'plain'"),
        ({"answer": "price(item=tea)"}, "'answer' is not one of steps, distractors, style, variation"),
    ],
)
def test_wrong_fields_are_rejected_with_a_reason(fields, message):
    with pytest.raises(SpecError, match=message):
        parse("balance", **fields)


@pytest.mark.parametrize(
    "text", ["", "[]", "balance", '{"steps":"balance"}', '{"distractors":1}', '{"steps":["\\ud800"]}']
)
def test_texts_that_are_not_specs_are_rejected(text):
    with pytest.raises(SpecError):
        ToolsSpec.parse(text)
