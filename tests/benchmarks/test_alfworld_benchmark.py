"""ALFWorld as a benchmark: generated games, game files, and hostile replies."""

import json
from random import Random

import pytest

from envgen import run_benchmark
from envgen.benchmarks.alfworld import MAX_REPLY_CHARS, Alfworld, find_command
from envgen.benchmarks.benchmark import BenchmarkError, text_reply
from envgen.coevolution.domains.alfworld import game_files
from envgen.coevolution.domains.alfworld.engine import MAX_STEPS
from envgen.coevolution.domains.alfworld.game_files import action_digests, save_game
from envgen.coevolution.domains.alfworld.generator import TASK_TYPES

DOMAIN = "(define (domain alfred) (:action wait :parameters () :effect (rested)))"
GRAMMAR = '''grammar :: """
{
    "task": [{"rhs": "Your task is to: UNKNOWN GOAL."}],
    "GotoLocation.feedback": [{"rhs": "You arrive at {r.name}. #examineReceptacle.feedback#"}],
    "PutObject.feedback": [{"rhs": "You put the {o.name} in/on the {r.name}."}],
    "help.feedback": [{"rhs": "Try to wait."}]
}
""";

action PutObject {
    template :: "put {o} in/on {r}";
}
'''


@pytest.fixture(scope="module")
def rooms() -> Alfworld:
    return Alfworld(games="rooms")


def test_gold_commands_win_and_empty_replies_do_not(tmp_path):
    for llm, accuracy in (("gold", 100), ("empty", 0)):
        result = run_benchmark(
            "alfworld", llm, options={"games": "rooms"}, limit=1, folder=tmp_path / llm, verbose=False
        )
        assert result.total.accuracy == accuracy


def test_all_generated_games_are_won_by_their_gold_commands(rooms):
    for category in TASK_TYPES:
        items = rooms.items(category)
        assert len({item.id for item in items}) == 20
        for item in items:
            assert play(rooms, item, [reply.text for reply in rooms.gold_replies(item)]).score == 1


def play(benchmark: Alfworld, item, replies):
    """The verdict after these replies, the last of which is repeated."""
    episode = benchmark.episode(item)
    next(episode)
    for number in range(MAX_STEPS + 1):
        try:
            episode.send(text_reply(replies[min(number, len(replies) - 1)]))
        except StopIteration as end:
            return end.value
    raise AssertionError("the episode does not end")


def test_an_episode_is_a_conversation(rooms):
    item = rooms.items("pick_heat_then_place_in_recep")[0]
    episode = rooms.episode(item)
    prompt = next(episode)
    assert "Action:" in prompt.messages[0].content
    assert prompt.messages[1].content.startswith("-= Welcome to TextWorld, ALFRED! =-")
    prompt = episode.send(text_reply("It may be in there.\nAction: go to microwave 1"))
    assert prompt.messages[-1].content == "You arrive at microwave 1. The microwave 1 is closed."


def test_an_episode_ends_after_fifty_steps(rooms):
    verdict = play(rooms, rooms.items(TASK_TYPES[0])[0], ["Action: look", "fly"])
    assert (verdict.score, verdict.error, dict(verdict.counts)) == (0, "not solved", {"possible commands": (1, 50)})


def test_an_empty_reply_is_not_sent_back_as_an_empty_message(rooms):
    episode = rooms.episode(rooms.items(TASK_TYPES[0])[0])
    next(episode)
    assert [message.content for message in episode.send(text_reply("")).messages][2] == "(no reply)"


@pytest.mark.parametrize(("reply", "command"), [
    ("go to cabinet 1", "go to cabinet 1"),
    ("Action: go to cabinet 1", "go to cabinet 1"),
    ("I think of > 2 things.\n**Action:** `open drawer 2`.\n", "open drawer 2"),
    ("ACTION: look\nAction:  take mug 1  from shelf 2 ", "take mug 1 from shelf 2"),
    ("> use desklamp 1", "use desklamp 1"),
    ("first\n\nlook\n", "look"), ("", ""), ("Action:", ""),
    ("Action:\n\ngo to desk 1\n", "go to desk 1"), ("**Action:**\n```\nlook\n```", "look"),
    ("Action: go to desk 1\n\n> I chose this", "go to desk 1"), ("> look\nis my command", "look"),
    ("- Action: go to desk 1", "go to desk 1"), ("2. **Action**: Open Drawer 2", "open drawer 2"),
])  # fmt: skip
def test_the_command_of_a_reply(reply, command):
    assert find_command(reply) == command


def test_official_files_are_played(tmp_path, rooms, monkeypatch):
    monkeypatch.setattr(game_files, "ACTIONS", action_digests(DOMAIN))
    monkeypatch.setattr(game_files, "RULES", {})
    monkeypatch.setattr(game_files, "TEMPLATES", {})
    (tmp_path / "alfred.pddl").write_text(DOMAIN)
    (tmp_path / "alfred.twl2").write_text(GRAMMAR)
    for category in TASK_TYPES:
        game = rooms.items(category)[0].data
        save_game(game.problem, category, tmp_path / "games" / f"{category}-Mug" / "trial 1", tmp_path)
    benchmark = Alfworld(data=tmp_path / "games")
    (item,) = benchmark.items("pick_cool_then_place_in_recep")
    assert item.id == "pick_cool_then_place_in_recep-Mug_trial_1"
    assert "put OBJECT in/on RECEPTACLE" in next(benchmark.episode(item)).messages[0].content
    result = run_benchmark(
        "alfworld", "gold", options={"data": tmp_path / "games"}, folder=tmp_path / "run", verbose=False
    )
    assert (result.total.accuracy, result.total.items) == (100, 6)


def test_without_games_the_error_says_where_they_are(tmp_path):
    with pytest.raises(BenchmarkError, match="alfworld-download"):
        Alfworld()
    with pytest.raises(BenchmarkError, match="not both"):
        Alfworld(data=tmp_path, games="rooms")
    with pytest.raises(BenchmarkError, match="no game"):
        Alfworld(data=tmp_path)
    with pytest.raises(BenchmarkError, match="there is no folder"):
        Alfworld(data=tmp_path / "missing")


def test_two_thousand_hostile_replies_end_in_a_verdict(rooms):
    rng, items = Random(0), [rooms.items(category)[0] for category in TASK_TYPES]
    gold = {item.id: [reply.text for reply in rooms.gold_replies(item)] for item in items}
    pieces = ("\x00", "\ud800", "[" * 50_000, '{"a":' * 20_000, "__import__('os')", "Action:" * 5_000, "\n" * 50_000,
              "%s{0.__class__}", "\x1b[2J", "<tool_call>", "\u202e", "go to " * 10_000, "> " * 10_000)  # fmt: skip
    for number in range(2000 // MAX_STEPS):
        item = items[number % len(items)]
        replies = []
        for reply in rng.choices(gold[item.id], k=MAX_STEPS):
            position = rng.randrange(len(reply))
            replies.append(reply[:position] + rng.choice(pieces) + reply[position:])
        assert play(rooms, item, replies).score in (0, 1)


@pytest.mark.parametrize("character", ["x", "\n", "\x00", "[", "> ", "*"])
def test_ten_megabytes_are_read_from_the_end(character):
    assert len(find_command(character * 10_000_000)) <= MAX_REPLY_CHARS
    assert find_command(character * 10_000_000 + "\nAction: look") == "look"


def test_the_run_directory_names_the_games(tmp_path):
    run_benchmark("alfworld", "gold", options={"games": "rooms"}, limit=1, folder=tmp_path / "run", verbose=False)
    request = json.loads((tmp_path / "run" / "run.json").read_text())
    assert "rooms, 20 games of each type" in json.dumps(request)
