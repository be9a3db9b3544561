"""Replies as programs of calls: a small strict grammar, and simulated tools that cannot fail."""

import numpy as np
import pytest

from envgen.coevolution.domains.tools.apps import TOOLS, VALUES
from envgen.coevolution.domains.tools.calls import (
    MAX_CALLS,
    MAX_REPLY_CHARS,
    Call,
    CallError,
    Ref,
    execute,
    format_calls,
    parse_calls,
)

LISTED = ("price", "pay", "balance", "repeat", "off", "save")
PROGRAM = [Call("price", {"item": "tea"}), Call("pay", {"person": "ann", "amount": Ref(0)}), Call("balance", {})]
TEXT = "price(item=tea); pay(person=ann, amount=$1); balance()"


def test_format_and_parse_round_trip():
    assert format_calls(PROGRAM) == TEXT
    assert parse_calls(TEXT, LISTED) == PROGRAM


@pytest.mark.parametrize(
    "text",
    [
        f"\n  {TEXT} \n",
        f"{TEXT};",
        TEXT.replace("; ", "\n"),
        TEXT.replace("; ", ";\r\n\r\n"),
        TEXT.replace(" ", ""),
        "price ( item = tea ) ;pay( person =ann , amount= $1 );balance( )",
        "price(item=\"tea\"); pay(person='ann', amount='$1'); balance()",
        "price(item=tea); pay(amount=$1, person=ann); balance()",
        f"```\n{TEXT}\n```",
        f"```python\n{TEXT}\n```\n",
        f"```{TEXT}```",
    ],
)
def test_parse_ignores_spaces_line_breaks_quotes_and_a_code_fence(text):
    assert parse_calls(text, LISTED) == PROGRAM


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains no call"),
        (" ;\n; ", "contains no call"),
        ("```\n```", "contains no call"),
        (TEXT + "\nThat is all.", "not a call"),
        ("Sure! " + TEXT, "not a call"),
        (f"{TEXT} ```{TEXT}```", "not a call"),
        (f"```\n{TEXT}\n```\ndone", "not a call"),
        ("balance", "not a call"),
        ("()", "not a call"),
        ("(item=tea)", "not a call"),
        ("balance())", "not a call"),
        ("balance(", "not a call"),
        ("pay(person=ann, amount=balance())", "not a call"),
        ("balance() balance()", "not a call"),
        ("Balance()", "not a call"),
        ('{"name": "balance"}', "not a call"),
        ("__import__(os)", "not a call"),
        ("owed(person=ann)", "'owed' is not a listed tool"),
        ("help()", "'help' is not a listed tool"),
        ("price()", "without item"),
        ("pay(amount=3)", "without person"),
        ("price(item=tea, count=2)", "has no argument 'count'"),
        ("balance(person=ann)", "has no argument 'person'"),
        ("price(item=tea, item=tea)", "twice"),
        ("price(tea)", "not an argument"),
        ("price(item=)", "not an argument"),
        ("price(item=tea,)", "not an argument"),
        ("price(,)", "not an argument"),
        ("price(item='tea\")", "not an argument"),
        ("price(item=t ea)", "not an argument"),
        ("price(item=ann)", "'ann' is not a valid item"),
        ("price(item=7)", "'7' is not a valid item"),
        ("price(item=Tea)", "not an argument"),
        ("save(amount=tea)", "'tea' is not a valid amount"),
        ("save(amount=100)", "'100' is not a valid amount"),
        ("save(amount=-1)", "not an argument"),
        ("save(amount=1.5)", "not an argument"),
        ("save(amount=٣)", "not an argument"),
        (f"save(amount={'9' * 900})", "is not a valid amount"),
        ("save(amount=$1)", "does not refer to an earlier call"),
        ("save(amount=$0)", "does not refer to an earlier call"),
        ("save(amount=$)", "not an argument"),
        (f"save(amount=${'1' * 900})", "does not refer to an earlier call"),
        ("price(item=tea); save(amount=$2)", "does not refer to an earlier call"),
        ("price(item=tea); off(person=$1)", "not of type person"),
        ("save(amount=3); save(amount=$1)", "not of type amount"),
        ("balance();" * (MAX_CALLS + 1), f"{MAX_CALLS + 1} calls; the limit is {MAX_CALLS}"),
        (" " * MAX_REPLY_CHARS + TEXT, "characters"),
        ("(" * 10**6, "characters"),
    ],
)
def test_parse_rejects_malformed_replies_with_a_reason(text, message):
    with pytest.raises(CallError, match=message) as error:
        parse_calls(text, LISTED)
    assert len(str(error.value)) < 150


def run_program(text: str, seed: int = 7) -> list:
    """The results of a program's calls."""
    return [result for _, _, result in execute(parse_calls(text, list(TOOLS)), seed)[0]]


def test_paying_saving_and_buying_reduce_the_balance_and_the_stock():
    before, price, _, after = run_program("balance(); price(item=tea); pay(person=ann, amount=$2); balance()")
    assert after == before - price
    before, _, after = run_program("balance(); save(amount=30); balance()")
    assert after == before - 30
    before, money, price, day, after, left = run_program(
        "stock(item=oil); balance(); price(item=oil); buy(item=oil, count=5); stock(item=oil); balance()"
    )
    assert (after, left) == (before - 5, money - 5 * price)
    assert day in VALUES["day"]


def test_written_and_arranged_values_can_be_read_back():
    assert run_program("write(file=poem, topic=golf); read(file=poem)")[1] == "golf"
    arrange = "meet(person=ann, day=monday, topic=tax); repeat(day=monday, to=friday)"
    assert run_program(f"{arrange}; guest(day=friday); agenda(day=friday)")[2:] == ["ann", "tax"]


def test_tools_without_a_visible_effect_change_the_state():
    for text in ("message(person=ann, topic=tax)", "print(file=poem, count=3)"):
        once, twice = (execute(parse_calls(program, list(TOOLS)), 7)[1] for program in (text, f"{text}; {text}"))
        assert once
        assert once != twice


def test_initial_states_depend_on_the_seed_alone():
    text = "price(item=tea); owed(person=ann); balance(); agenda(day=monday); latest(person=bob); wish(person=bob)"
    assert run_program(text, seed=1) == run_program(text, seed=1) != run_program(text, seed=2)


def test_tools_return_values_of_their_result_type():
    for tool_name, tool in TOOLS.items():
        for k in range(98):
            arguments = {name: VALUES[type_][k % len(VALUES[type_])] for name, type_ in tool.parameters.items()}
            result = execute([Call(tool_name, arguments)], k)[0][0][2]
            expected = range(10_000, 100_000) if tool_name == "balance" else VALUES.get(tool.result_type, (None,))
            assert result in expected


def test_parsed_programs_can_be_executed():
    rng = np.random.default_rng(0)
    for _ in range(300):
        names = [str(name) for name in rng.choice(list(TOOLS), MAX_CALLS)]
        calls: list[Call] = []
        for name in names:
            arguments = {}
            for parameter, value_type in TOOLS[name].parameters.items():
                refs = [Ref(k) for k, call in enumerate(calls) if TOOLS[call.tool].result_type == value_type]
                arguments[parameter] = (refs or VALUES[value_type])[int(rng.integers(len(refs or VALUES[value_type])))]
            calls.append(Call(name, arguments))
        assert parse_calls(format_calls(calls), list(TOOLS)) == calls
        trace, _ = execute(calls, int(rng.integers(2**32)))
        assert [tool for tool, _, _ in sorted(trace)] == sorted(names)
