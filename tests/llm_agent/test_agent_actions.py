"""The action of an answer is found in the forms that models use, and nothing else counts as a choice."""

import pytest

from envgen.llm_agent.actions import parse_action
from envgen.worlds.crafter.constants import ACTIONS


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("do", "do"),
        ("  Move_Left.\n", "move_left"),
        ("move left", "move_left"),
        ("MOVE-LEFT!", "move_left"),
        ("**place_table**", "place_table"),
        ("`do`", "do"),
        ("Action: do", "do"),
        ("**Action:** `make_wood_pickaxe`", "make_wood_pickaxe"),
        ("action = make wood pickaxe", "make_wood_pickaxe"),
        ("The best action is sleep, because energy is low.", "sleep"),
        ("Answer: 'noop'", "noop"),
        ("First I thought Action: do.\nBut a zombie is near.\nAction: move_up", "move_up"),
        ("Action: \n\n**move_up**", "move_up"),
        ('{"action": "place_stone"}', "place_stone"),
        ('```json\n{"reasons": "do not move_left {now}", "action": "Move Right"}\n```', "move_right"),
        ("I need wood, so I will move_right now, towards the tree.", "move_right"),
        ("1. do", "do"),
        ("- sleep", "sleep"),
        ("There is a tree ahead.\n\ndo", "do"),
        ("do\n\nThere is a tree ahead.", "do"),
        ('The answer should be "do" here', "do"),
        ("make_stone_sword", "make_stone_sword"),
        ("<think>Action: sleep</think>\n\nmove_up", "move_up"),
        ("<thinking>Maybe `do`.</thinking>\n\nI will move_up.", "move_up"),
        ("Action: sleep because I am tired", "sleep"),
        ("Action: move_left, as I do not see a tree", "move_left"),
        ("Action: move_left, not move_right", "move_left"),
        ("Action: move_left and do not look back", "move_left"),
        ("Action: move_left, move_left", "move_left"),
        ("Action: do (move_left is blocked)", "do"),
        ("Action: noop (do nothing)", "noop"),
        ("Action: sleep and collect wood", "sleep"),
        ("Action: move_left\n\nThe answer is final.", "move_left"),
        ("I cannot move_left, so I will move_up.", "move_up"),
        ("Don't use `move_left`; use `move_up`.", "move_up"),
        ("I do not see a tree, so I will move_right.", "move_right"),
        ("Candidates:\nmove_left\nmove_up\n\nThe tree is above me.\n\nmove_up", "move_up"),
        ('{"action": "move_left", "otherwise": {"action": "sleep"}}', "move_left"),
        ('{"result": {"action": "do"}}', "do"),
        ('{"action": ["move_left"]}', "move_left"),
        ("Action: do\nReason: The last action: move_left did nothing.", "do"),
        ("Previous action: do\n\nplace table", "place_table"),
        ("no-op", "noop"),
        ("Action: PlaceTable", "place_table"),
    ],
)
def test_an_action_is_found(text, action):
    assert parse_action(text, ACTIONS) == action


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "I do not know what to do or whether to sleep.",  # ordinary words
        "I could move_left or move_right.",  # undecided
        "Use `move_left` or `move_up`.",
        "Action: move_left or move_right",
        "Action: move left or right",
        "Action: **move left** / right",
        "I could move left or right.",
        "Action: `move_left` (or `move_right`)",
        "Action: move_left/move_right",
        "Action: move_left, then sleep",
        "Action: move_left; sleep",
        "Action: do move_left",
        '{"action": "move_left or move_right"}',
        '{"action": "move left or right"}',
        '{"action": ["move_left", "move_right"]}',
        "1. move_left\n2. move_up\n3. do",
        "My options:\n- move_left\n- move_up",
        "Action: do not move",
        "Action: do nothing",
        '{"action": "do nothing"}',
        "Action: do not move_left",
        "The action is not move_left.",
        "I cannot move_left.",
        "Don't `move_left`!",
        "Action: sleep</think>",
        "<think>Should I sleep?\nAction: sleep",
        "Action: jump",
        '{"action": "jump"}',
        '{"action": 3}',
        "mymove_leftish",
        "{" * 5000,
        "move" * 10_000,
    ],
)
def test_an_answer_without_one_action_is_unparsable(text):
    assert parse_action(text, ACTIONS) is None


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("Action: left\n\nThis move is a good start.", "left"),
        ("The best action is a move to the left.\nleft", "left"),
        ("The safest choice is a step up, because the key is there.\n\n**up**", "up"),
        ("Action: a", "a"),
        ("The answer is a.", "a"),
        ("The best action is `a` here", "a"),
    ],
)
def test_articles_are_not_actions(text, action):
    assert parse_action(text, ("left", "up", "a", "d")) == action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ('{"reasons": "I first move_left", "action": "interact"}', None),
        ('{"action": "turn_left", "alternative": "do"}', None),
        ('{"action": "do (collect wood)", "alternative": "sleep"}', "do"),
        ('{"action": "interact"}\nAction: do', "do"),
    ],
)
def test_other_values_of_a_json_answer_are_not_its_choice(text, action):
    assert parse_action(text, ACTIONS) == action


def test_names_of_actions_are_not_patterns():
    assert parse_action("Action: a.b", ("a.b", "c")) == "a.b"
    assert parse_action("Action: axb", ("a.b", "c")) is None
    assert parse_action("left up", ("left", "left_up")) == "left_up"
    assert parse_action("Action: left up", ("left", "left_up")) == "left_up"


def test_separators_do_not_matter():
    for text in ("Action: pick up", "pick-up", "I will pick up the key.", '{"action": "Pick_Up"}'):
        assert parse_action(text, ("left", "pickup", "drop")) == "pickup"
    assert parse_action("I will move forward.", ("for", "forward")) is None  # a word in prose
