"""Replies as programs of calls: a small strict grammar, and simulated tools that cannot fail."""

import numpy as np
import pytest

from envgen.coevolve.domains.tools_apps import TOOLS, WORDS
from envgen.coevolve.domains.tools_calls import LONGEST, MOST, Call, CallError, Ref, execute, read, write

LISTED = ("price", "pay", "balance", "repeat", "off", "save")
PROGRAM = [Call("price", {"item": "tea"}), Call("pay", {"person": "ann", "amount": Ref(0)}), Call("balance", {})]
TEXT = "price(item=tea); pay(person=ann, amount=$1); balance()"


def test_a_program_is_read_from_what_it_is_written_as():
    assert write(PROGRAM) == TEXT
    assert read(TEXT, LISTED) == PROGRAM


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
def test_spaces_lines_quotes_and_a_fence_do_not_matter(text):
    assert read(text, LISTED) == PROGRAM


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no call"),
        (" ;\n; ", "no call"),
        ("```\n```", "no call"),
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
        ("price(item=tea, count=2)", "has no such argument"),
        ("balance(person=ann)", "has no such argument"),
        ("price(item=tea, item=tea)", "twice"),
        ("price(tea)", "not an argument"),
        ("price(item=)", "not an argument"),
        ("price(item=tea,)", "not an argument"),
        ("price(,)", "not an argument"),
        ("price(item='tea\")", "not an argument"),
        ("price(item=t ea)", "not an argument"),
        ("price(item=ann)", "'ann' is no item"),
        ("price(item=7)", "'7' is no item"),
        ("price(item=Tea)", "not an argument"),
        ("save(amount=tea)", "'tea' is no amount"),
        ("save(amount=100)", "'100' is no amount"),
        ("save(amount=-1)", "not an argument"),
        ("save(amount=1.5)", "not an argument"),
        ("save(amount=٣)", "not an argument"),
        (f"save(amount={'9' * 900})", "is no amount"),
        ("save(amount=$1)", "not the result of an earlier call"),
        ("save(amount=$0)", "not the result of an earlier call"),
        ("save(amount=$)", "not an argument"),
        (f"save(amount=${'1' * 900})", "not the result of an earlier call"),
        ("price(item=tea); save(amount=$2)", "not the result of an earlier call"),
        ("price(item=tea); off(person=$1)", "which is no person"),
        ("save(amount=3); save(amount=$1)", "which is no amount"),
        ("balance();" * (MOST + 1), f"{MOST + 1} calls; at most {MOST}"),
        (" " * LONGEST + TEXT, "characters"),
        ("(" * 10**6, "characters"),
    ],
)
def test_everything_else_is_refused_with_a_reason(text, why):
    with pytest.raises(CallError, match=why) as error:
        read(text, LISTED)
    assert len(str(error.value)) < 150


def ran(text: str, world: int = 7) -> list:
    return [result for _, _, result in execute(read(text, list(TOOLS)), world)[0]]


def test_what_is_paid_saved_and_bought_is_gone():
    before, price, _, after = ran("balance(); price(item=tea); pay(person=ann, amount=$2); balance()")
    assert after == before - price
    before, _, after = ran("balance(); save(amount=30); balance()")
    assert after == before - 30
    before, money, price, day, after, left = ran(
        "stock(item=oil); balance(); price(item=oil); buy(item=oil, count=5); stock(item=oil); balance()"
    )
    assert (after, left) == (before - 5, money - 5 * price)
    assert day in WORDS["day"]


def test_what_is_written_arranged_and_repeated_is_found_again():
    assert ran("write(file=poem, topic=golf); read(file=poem)")[1] == "golf"
    arranged = "meet(person=ann, day=monday, topic=tax); repeat(day=monday, to=friday)"
    assert ran(f"{arranged}; guest(day=friday); agenda(day=friday)")[2:] == ["ann", "tax"]


def test_what_changes_nothing_else_is_told_from_its_traces():
    for one in ("message(person=ann, topic=tax)", "print(file=poem, count=3)"):
        once, twice = (execute(read(text, list(TOOLS)), 7)[1] for text in (one, f"{one}; {one}"))
        assert once
        assert once != twice


def test_worlds_differ_and_each_is_always_the_same():
    text = "price(item=tea); owed(person=ann); balance(); agenda(day=monday); latest(person=bob); wish(person=bob)"
    assert ran(text, world=1) == ran(text, world=1) != ran(text, world=2)


def test_every_tool_gives_what_its_signature_says_for_every_word():
    for name, tool in TOOLS.items():
        for k in range(98):
            words = {parameter: WORDS[kind][k % len(WORDS[kind])] for parameter, kind in tool.parameters.items()}
            result = execute([Call(name, words)], k)[0][0][2]
            known = range(10_000, 100_000) if name == "balance" else WORDS.get(tool.result, (None,))
            assert result in known


def test_what_can_be_read_can_be_executed():
    random = np.random.default_rng(0)
    for _ in range(300):
        names = [str(name) for name in random.choice(list(TOOLS), MOST)]
        calls: list[Call] = []
        for name in names:
            arguments = {}
            for parameter, kind in TOOLS[name].parameters.items():
                refs = [Ref(k) for k, call in enumerate(calls) if TOOLS[call.tool].result == kind]
                arguments[parameter] = (refs or WORDS[kind])[int(random.integers(len(refs or WORDS[kind])))]
            calls.append(Call(name, arguments))
        assert read(write(calls), list(TOOLS)) == calls
        trace, _ = execute(calls, int(random.integers(2**32)))
        assert [tool for tool, _, _ in sorted(trace)] == sorted(names)
