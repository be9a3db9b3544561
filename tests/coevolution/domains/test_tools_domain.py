"""The tools domain: every task has a program that scores 1.0, and no other program does."""

import itertools
import json
import pickle
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from envgen.coevolution.domains.tools.apps import TOOLS, VALUES
from envgen.coevolution.domains.tools.calls import Call, Ref, format_calls
from envgen.coevolution.domains.tools.domain import STYLES, ToolsDomain
from envgen.coevolution.domains.tools.spec import MAX_STEPS, parse_steps
from envgen.coevolution.tasks import SpecError, Task, validate

DOMAIN = ToolsDomain()


def make_task(*steps: str, style: str = "plain", **fields: int) -> Task:
    return DOMAIN.make_task(DOMAIN.Spec(steps=steps, style=style, **fields))  # type: ignore[arg-type]


def sample_tasks(count: int, seed: int = 0) -> list[Task]:
    rng = np.random.default_rng(seed)
    return [DOMAIN.make_task(DOMAIN.sample(rng)) for _ in range(count)]


def score(task: Task, reply: str) -> float:
    return DOMAIN.check(task, reply).score


# --- tasks


def test_oracle_replies_score_one_and_wrong_replies_zero():
    rng = np.random.default_rng(1)
    validate(DOMAIN, (DOMAIN.make_task(DOMAIN.sample(rng)) for _ in range(1500)))
    validate(DOMAIN, (DOMAIN.make_task(DOMAIN.sample_easy(rng)) for _ in range(1500)))


def test_task_is_reproducible():
    task = make_task("wish", "price $1", "pay $2", "balance", distractors=2, variation=17)
    assert task.prompt == (
        "tools:\npay(person, amount)\nwish(person): item\nlatest(person): file\nbalance(): amount\n"
        "price(item): amount\nguest(day): person\n"
        "request: first find the gift for dan, then find the cost of that gift, then send that cost to hugo, "
        "then find the money in my account."
    )
    assert DOMAIN.oracle_reply(task) == "wish(person=dan); price(item=$1); pay(person=hugo, amount=$2); balance()"


def test_equal_specs_make_equal_tasks_and_variations_differ():
    task = make_task("wish", "price $1", "pay $2")
    assert task == make_task(" Wish", "price  $1", "pay $2") == pickle.loads(pickle.dumps(task))
    prompts = {make_task("wish", "price $1", "pay $2", variation=variation).prompt for variation in range(100)}
    assert len(prompts) > 60  # of 144 possible ones


def test_prompts_list_the_needed_tools_and_the_distractors_once():
    for task in sample_tasks(300):
        needed = {call.tool for call in task.answer_key.calls}
        listed = task.prompt.split("\nrequest: ")[0].split("\n")[1:]
        assert len(set(listed)) == len(listed) == len(needed) + task.spec.distractors
        assert {TOOLS[name].signature for name in needed} <= set(listed)


def test_literals_of_a_parameter_and_of_a_call_are_distinct():
    for steps in (["repeat"] * 5, ["guest"] * 5, ["meet"] * 5):
        for variation in range(30):
            calls = [call.arguments for call in make_task(*steps, variation=variation).answer_key.calls]
            for parameter in calls[0]:
                assert len({arguments[parameter] for arguments in calls}) == 5
            assert all(len(set(arguments.values())) == len(arguments) for arguments in calls)


def test_styles_phrase_the_same_task_differently():
    requests = {make_task("price", "pay $1", style=style).prompt.split("request: ")[1] for style in STYLES}
    assert len(requests) == len(STYLES)


def test_held_out_tasks_are_distinct():
    assert len({task.spec.key for task in DOMAIN.held_out_tasks(200)}) == 200


# --- scores


def test_order_does_not_matter_if_results_and_state_are_the_same():
    task = make_task("price", "guest", "pay $2 $1")
    _, price, guest = (format_calls([call]) for call in (*task.answer_key.calls[2:], *task.answer_key.calls[:2]))
    assert score(task, f"{price}; {guest}; pay(person=$2, amount=$1)") == 1.0
    assert score(task, f"{guest}\n{price}\npay(amount=$2, person=$1)") == 1.0
    assert score(task, f"{guest}; {price}; pay(person=$2, amount=$1)") == 0  # the references now point to other results
    assert DOMAIN.check(task, f"pay(person=$1, amount=$2); {price}; {guest}").valid is False


def test_orders_with_other_results_or_another_state_score_zero():
    task = make_task("pay", "balance")
    pay, balance = (format_calls([call]) for call in task.answer_key.calls)
    assert score(task, f"{pay}; {balance}") == 1.0
    assert DOMAIN.check(task, f"{balance}; {pay}").valid
    assert score(task, f"{balance}; {pay}") == 0

    task = make_task("latest", "write $1", "write $1")  # the last write wins
    first, second, third = (format_calls([call]) for call in task.answer_key.calls)
    assert score(task, f"{first}; {second}; {third}") == 1.0
    assert score(task, f"{first}; {third}; {second}") == 0


def test_independent_lookups_may_be_in_any_order():
    task = make_task("price", "owed", "agenda", "vendor")
    assert all(score(task, format_calls(order)) == 1.0 for order in itertools.permutations(task.answer_key.calls))


def test_missing_extra_and_repeated_calls_score_zero():
    for task in sample_tasks(200, seed=2):
        calls, extra = task.answer_key.calls, Call("balance", {})
        longer = [[*calls, call] for call in (*calls, extra)] + [[extra, *calls]] * (len(calls) == 1)
        shorter = [[*calls[:k], *calls[k + 1 :]] for k in range(len(calls))]
        assert not any(score(task, format_calls(program)) for program in (*longer, *shorter))


def test_any_other_literal_scores_zero():
    for task in sample_tasks(60, seed=3):
        for k, (tool, arguments) in enumerate(task.answer_key.calls):
            for name, value in arguments.items():
                others = VALUES[TOOLS[tool].parameters[name]] if not isinstance(value, Ref) else ()
                for other in (other for other in others if other != value):
                    calls = [*task.answer_key.calls]
                    calls[k] = Call(tool, {**arguments, name: other})
                    assert score(task, format_calls(calls)) == 0


def test_hidden_values_cannot_be_guessed():
    task = make_task("price", "pay $1", variation=5)
    price, pay = task.answer_key.calls
    replies = [format_calls([price, pay._replace(arguments={**pay.arguments, "amount": n})]) for n in range(100)]
    results = [DOMAIN.check(task, reply) for reply in replies]
    assert all(result.valid and result.score == 0 for result in results)
    guessed = "a value was guessed instead of taken from a result"
    assert [result.reason for result in results].count(guessed) == 1


def test_values_that_follow_from_the_prompt_need_no_reference():
    task = make_task("latest", "write $1", "read $1", "message $3")
    topic = task.answer_key.calls[1].arguments["topic"]
    *before, message = task.answer_key.calls
    literal = message._replace(arguments={**message.arguments, "topic": topic})
    assert score(task, format_calls([*before, literal])) == 1.0  # reads what was just written
    other = next(value for value in VALUES["topic"] if value != topic)
    assert score(task, format_calls([*before, message._replace(arguments={**message.arguments, "topic": other})])) == 0


def test_reference_to_another_result_of_the_same_type_scores_zero():
    for variation in range(200):
        task = make_task("price", "owed", "balance", "pay $2", variation=variation)
        *before, pay = task.answer_key.calls
        for step, expected in enumerate((0.0, 1.0, 0.0)):
            reply = format_calls([*before, pay._replace(arguments={**pay.arguments, "amount": Ref(step)})])
            assert score(task, reply) == expected


def test_wrong_replies_include_valid_and_invalid_ones():
    for task in sample_tasks(100, seed=4):
        valid = Counter(DOMAIN.check(task, reply).valid for reply in DOMAIN.wrong_replies(task))
        assert valid[True] >= 3
        assert valid[False] >= 10


TOKENS = [*TOOLS, *VALUES, *VALUES["person"], *VALUES["item"], *"()=,;$ \n\"'", "```", "$1", "$2", "7", "to"]


@given(st.one_of(st.text(), st.lists(st.sampled_from(TOKENS)).map("".join)))
def test_checker_accepts_any_text(reply):
    result = DOMAIN.check(make_task("price", "pay $1", "balance", distractors=6), reply)
    assert result.score == 0
    assert result.valid or result.reason


# --- sampled specs


def test_sampled_specs_cover_all_fields_evenly():
    rng = np.random.default_rng(5)
    specs = [DOMAIN.sample(rng) for _ in range(3000)]
    assert len({spec.key for spec in specs}) > 2990
    for name, expected in {"steps": MAX_STEPS, "style": len(STYLES)}.items():
        counts = Counter(DOMAIN.features(spec)[name] for spec in specs)
        assert len(counts) == expected
        assert max(counts.values()) < 1.3 * min(counts.values())
    assert set(Counter(spec.distractors for spec in specs)) == set(range(7))
    assert {step.split()[0] for spec in specs for step in spec.steps} == set(TOOLS)


def test_half_of_the_possible_references_are_references():
    rng, num_possible, num_refs = np.random.default_rng(6), 0, 0
    for _ in range(1000):
        steps = parse_steps(DOMAIN.sample(rng).steps)
        for k, step in enumerate(steps):
            result_types = {earlier.tool.result_type for earlier in steps[:k]}
            num_possible += sum(value_type in result_types for value_type in step.tool.parameters.values())
            num_refs += len(step.refs)
    assert 0.4 < num_refs / num_possible < 0.6


def test_easy_specs_are_short_and_cover_every_tool_style_and_link():
    rng = np.random.default_rng(7)
    specs = [DOMAIN.sample_easy(rng) for _ in range(3000)]
    assert {len(spec.steps) for spec in specs} == {1, 2}
    assert max(spec.distractors for spec in specs) == 2
    assert {spec.style for spec in specs} == set(STYLES)
    assert {step.split()[0] for spec in specs for step in spec.steps} == set(TOOLS)
    expected = {(name, value_type) for name, tool in TOOLS.items() for value_type in tool.parameters.values()}
    pairs = [parse_steps(spec.steps) for spec in specs if "$" in spec.steps[-1]]
    assert {(consumer.tool.name, producer.tool.result_type) for producer, consumer in pairs} == expected


def test_features_and_difficulty():
    spec = DOMAIN.Spec(steps=("price", "pay $1", "balance"), distractors=3, style="brief")
    assert DOMAIN.features(spec) == {"steps": "3", "links": "1", "distractors": "some", "style": "brief", "app": "bank"}
    assert DOMAIN.difficulty(spec) == 4.5
    assert DOMAIN.features(DOMAIN.Spec(steps=("price", "balance")))["app"] == "mixed"
    rng = np.random.default_rng(8)
    features = [DOMAIN.features(DOMAIN.sample(rng)) for _ in range(1000)]
    assert all(len({labels[name] for labels in features}) <= 6 for name in features[0])


def test_spec_prompt_lists_every_tool_and_its_examples_are_specs():
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
def test_any_text_is_a_valid_spec_or_a_spec_error(text, reply):
    try:
        spec = DOMAIN.Spec.parse(text)
    except SpecError:
        return
    assert DOMAIN.Spec.parse(spec.text) == spec
    task = DOMAIN.make_task(spec)
    validate(DOMAIN, [task])
    assert score(task, reply) == 0
