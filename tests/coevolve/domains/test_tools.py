"""The domain of tool calls: every task has an answer that scores 1.0, and nothing else does."""

import itertools
import json
import pickle
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from envgen.coevolve.domains.tools import STYLES, Tools
from envgen.coevolve.domains.tools_apps import TOOLS, WORDS
from envgen.coevolve.domains.tools_calls import Call, Ref, write
from envgen.coevolve.domains.tools_spec import STEPS, program
from envgen.coevolve.tasks import SpecError, Task, validate

DOMAIN = Tools()


def task(*steps: str, style: str = "plain", **others: int) -> Task:
    return DOMAIN.make_task(DOMAIN.Spec(steps=steps, style=style, **others))  # type: ignore[arg-type]


def drawn(count: int, seed: int = 0) -> list[Task]:
    random = np.random.default_rng(seed)
    return [DOMAIN.make_task(DOMAIN.sample(random)) for _ in range(count)]


def score(one: Task, reply: str) -> float:
    return DOMAIN.check(one, reply).score


# --- tasks


def test_every_task_is_answered_by_its_oracle_and_not_by_replies_that_are_known_to_be_wrong():
    random = np.random.default_rng(1)
    validate(DOMAIN, (DOMAIN.make_task(DOMAIN.sample(random)) for _ in range(1500)))
    validate(DOMAIN, (DOMAIN.make_task(DOMAIN.sample_easy(random)) for _ in range(1500)))


def test_a_task_is_the_same_in_every_process():
    one = task("wish", "price $1", "pay $2", "balance", distractors=2, variation=17)
    assert one.prompt == (
        "tools:\npay(person, amount)\nwish(person): item\nlatest(person): file\nbalance(): amount\n"
        "price(item): amount\nguest(day): person\n"
        "request: first find the gift for dan, then find the cost of that gift, then send that cost to hugo, "
        "then find the money in my account."
    )
    assert DOMAIN.oracle_reply(one) == "wish(person=dan); price(item=$1); pay(person=hugo, amount=$2); balance()"


def test_equal_specs_make_equal_tasks_and_other_variations_other_ones():
    one = task("wish", "price $1", "pay $2")
    assert one == task(" Wish", "price  $1", "pay $2") == pickle.loads(pickle.dumps(one))
    prompts = {task("wish", "price $1", "pay $2", variation=variation).prompt for variation in range(100)}
    assert len(prompts) > 60  # of 144 that there are


def test_the_tools_needed_are_listed_once_and_as_many_more_as_are_said():
    for one in drawn(300):
        needed = {call.tool for call in one.gold.calls}
        listed = one.prompt.split("\nrequest: ")[0].split("\n")[1:]
        assert len(set(listed)) == len(listed) == len(needed) + one.spec.distractors
        assert {TOOLS[name].signature for name in needed} <= set(listed)


def test_no_call_is_asked_for_twice_nor_with_one_word_for_two_arguments():
    for steps in (["repeat"] * 5, ["guest"] * 5, ["meet"] * 5):
        for variation in range(30):
            given = [call.arguments for call in task(*steps, variation=variation).gold.calls]
            for parameter in given[0]:
                assert len({arguments[parameter] for arguments in given}) == 5
            assert all(len(set(arguments.values())) == len(arguments) for arguments in given)


def test_styles_word_the_same_task_differently():
    said = {task("price", "pay $1", style=style).prompt.split("request: ")[1] for style in STYLES}
    assert len(said) == len(STYLES)


def test_a_test_set_can_be_drawn():
    assert len({one.spec.key for one in DOMAIN.held_out_tasks(200)}) == 200


# --- what scores


def test_calls_may_stand_in_any_order_that_comes_to_the_same():
    one = task("price", "guest", "pay $2 $1")
    _, price, guest = (write([call]) for call in (*one.gold.calls[2:], *one.gold.calls[:2]))
    assert score(one, f"{price}; {guest}; pay(person=$2, amount=$1)") == 1.0
    assert score(one, f"{guest}\n{price}\npay(amount=$2, person=$1)") == 1.0
    assert score(one, f"{guest}; {price}; pay(person=$2, amount=$1)") == 0  # the results are not what they were
    assert DOMAIN.check(one, f"pay(person=$1, amount=$2); {price}; {guest}").valid is False


def test_orders_that_come_to_something_else_score_nothing():
    one = task("pay", "balance")
    pays, asks = (write([call]) for call in one.gold.calls)
    assert score(one, f"{pays}; {asks}") == 1.0
    assert DOMAIN.check(one, f"{asks}; {pays}").valid
    assert score(one, f"{asks}; {pays}") == 0

    one = task("latest", "write $1", "write $1")  # the last one stays
    first, second, third = (write([call]) for call in one.gold.calls)
    assert score(one, f"{first}; {second}; {third}") == 1.0
    assert score(one, f"{first}; {third}; {second}") == 0


def test_every_order_of_independent_lookups_is_right():
    one = task("price", "owed", "agenda", "vendor")
    assert all(score(one, write(order)) == 1.0 for order in itertools.permutations(one.gold.calls))


def test_missing_additional_and_repeated_calls_score_nothing():
    for one in drawn(200, seed=2):
        calls, extra = one.gold.calls, Call("balance", {})
        more = [[*calls, call] for call in (*calls, extra)] + [[extra, *calls]] * (len(calls) == 1)
        fewer = [[*calls[:k], *calls[k + 1 :]] for k in range(len(calls))]
        assert not any(score(one, write(program)) for program in (*more, *fewer))


def test_another_literal_is_wrong_whichever_it_is():
    for one in drawn(60, seed=3):
        for k, (tool, arguments) in enumerate(one.gold.calls):
            for name, right in arguments.items():
                others = WORDS[TOOLS[tool].parameters[name]] if not isinstance(right, Ref) else ()
                for word in (word for word in others if word != right):
                    calls = [*one.gold.calls]
                    calls[k] = Call(tool, {**arguments, name: word})
                    assert score(one, write(calls)) == 0


def test_a_value_that_the_prompt_does_not_tell_cannot_be_guessed():
    one = task("price", "pay $1", variation=5)
    before, pays = one.gold.calls
    replies = [write([before, pays._replace(arguments={**pays.arguments, "amount": n})]) for n in range(100)]
    verdicts = [DOMAIN.check(one, reply) for reply in replies]
    assert all(verdict.valid and verdict.score == 0 for verdict in verdicts)
    assert [verdict.reason for verdict in verdicts].count("right by a guess alone") == 1


def test_a_value_that_the_prompt_does_tell_is_as_good_as_a_reference():
    one = task("latest", "write $1", "read $1", "message $3")
    topic = one.gold.calls[1].arguments["topic"]
    *before, tells = one.gold.calls
    told = tells._replace(arguments={**tells.arguments, "topic": topic})
    assert score(one, write([*before, told])) == 1.0  # what was just written is read
    wrong = next(word for word in WORDS["topic"] if word != topic)
    assert score(one, write([*before, tells._replace(arguments={**tells.arguments, "topic": wrong})])) == 0


def test_a_reference_to_another_result_of_the_type_is_wrong():
    for variation in range(200):
        one = task("price", "owed", "balance", "pay $2", variation=variation)
        *before, pays = one.gold.calls
        for k, right in enumerate((0.0, 1.0, 0.0)):
            assert score(one, write([*before, pays._replace(arguments={**pays.arguments, "amount": Ref(k)})])) == right


def test_known_wrong_replies_are_of_both_kinds():
    for one in drawn(100, seed=4):
        valid = Counter(DOMAIN.check(one, reply).valid for reply in DOMAIN.wrong_replies(one))
        assert valid[True] >= 3
        assert valid[False] >= 10


WORDS_AND_SIGNS = [*TOOLS, *WORDS, *WORDS["person"], *WORDS["item"], *"()=,;$ \n\"'", "```", "$1", "$2", "7", "to"]


@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS_AND_SIGNS)).map("".join)))
def test_no_text_makes_the_checker_fail(reply):
    verdict = DOMAIN.check(task("price", "pay $1", "balance", distractors=6), reply)
    assert verdict.score == 0
    assert verdict.valid or verdict.reason


# --- specs that are drawn


def test_uniform_specs_are_spread_over_all_there_is():
    random = np.random.default_rng(5)
    specs = [DOMAIN.sample(random) for _ in range(3000)]
    assert len({spec.key for spec in specs}) > 2990
    for name, expected in {"steps": STEPS, "style": len(STYLES)}.items():
        counts = Counter(DOMAIN.features(spec)[name] for spec in specs)
        assert len(counts) == expected
        assert max(counts.values()) < 1.3 * min(counts.values())
    assert set(Counter(spec.distractors for spec in specs)) == set(range(7))
    assert {step.split()[0] for spec in specs for step in spec.steps} == set(TOOLS)


def test_about_half_of_the_arguments_that_could_be_references_are():
    random, could, are = np.random.default_rng(6), 0, 0
    for _ in range(1000):
        steps = program(DOMAIN.sample(random).steps)
        for k, step in enumerate(steps):
            results = {earlier.tool.result for earlier in steps[:k]}
            could += sum(kind in results for kind in step.tool.parameters.values())
            are += len(step.bound)
    assert 0.4 < are / could < 0.6


def test_easy_specs_are_short_and_show_every_tool_style_and_kind_of_reference():
    random = np.random.default_rng(7)
    specs = [DOMAIN.sample_easy(random) for _ in range(3000)]
    assert {len(spec.steps) for spec in specs} == {1, 2}
    assert max(spec.distractors for spec in specs) == 2
    assert {spec.style for spec in specs} == set(STYLES)
    assert {step.split()[0] for spec in specs for step in spec.steps} == set(TOOLS)
    linked = {(name, kind) for name, tool in TOOLS.items() for kind in tool.parameters.values()}
    pairs = [program(spec.steps) for spec in specs if "$" in spec.steps[-1]]
    assert {(taker.tool.name, maker.tool.result) for maker, taker in pairs} == linked


def test_specs_are_told_by_a_few_words_and_measured():
    spec = DOMAIN.Spec(steps=("price", "pay $1", "balance"), distractors=3, style="brief")
    assert DOMAIN.features(spec) == {"steps": "3", "links": "1", "distractors": "some", "style": "brief", "app": "bank"}
    assert DOMAIN.difficulty(spec) == 4.5
    assert DOMAIN.features(DOMAIN.Spec(steps=("price", "balance")))["app"] == "mixed"
    random = np.random.default_rng(8)
    told = [DOMAIN.features(DOMAIN.sample(random)) for _ in range(1000)]
    assert all(len({fields[name] for fields in told}) <= 6 for name in told[0])


def test_the_brief_names_every_tool_and_its_examples_are_specs():
    assert all(tool.signature in DOMAIN.spec_prompt for tool in TOOLS.values())
    examples = [line[line.index("{") :] for line in DOMAIN.spec_prompt.split("\n") if "{" in line]
    assert len(examples) == 2
    validate(DOMAIN, [DOMAIN.make_task(DOMAIN.Spec.parse(example)) for example in examples])


STEP = st.one_of(
    st.builds(
        lambda name, refs: " ".join([name, *refs]),
        st.sampled_from([*TOOLS]),
        st.lists(st.sampled_from(["$1", "$2"]), max_size=2),
    ),
    st.text(max_size=12),
)
SPEC = st.fixed_dictionaries(
    {"steps": st.lists(STEP, max_size=6)},
    optional={
        "distractors": st.integers(-1, 8) | st.floats() | st.none(),
        "style": st.sampled_from([*STYLES, "PLAIN", "loud"]) | st.integers(),
        "variation": st.integers(),
        "note": st.text(max_size=3),
    },
)


@given(st.one_of(SPEC.map(json.dumps), st.text()), st.text(max_size=30))
def test_whatever_is_written_is_a_task_or_a_sentence(text, reply):
    try:
        spec = DOMAIN.Spec.parse(text)
    except SpecError:
        return
    assert DOMAIN.Spec.parse(spec.text) == spec
    one = DOMAIN.make_task(spec)
    validate(DOMAIN, [one])
    assert score(one, reply) == 0
