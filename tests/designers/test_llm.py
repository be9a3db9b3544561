"""A language model designs: over a real connection, with retries after errors and a fallback after too many."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from samples import make_cycle, overrides, world_brief

from envgen.designers import llm
from envgen.designers.chat.backends import AnthropicBackend, OpenAIBackend
from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Budget, Ledger, Prices
from envgen.designers.chat.offline import ReplayBackend
from envgen.designers.chat.protocol import RejectedError
from envgen.designers.designer import AuditResult, Brief, Cycle, Proposal, ProposedLevel
from envgen.designers.llm import MAX_KEPT_CHARS, REPEATED_PREFIX, LlmDesigner, LlmSettings
from envgen.designers.names import COMMON_WORDS, NameObfuscator
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from fake_llm_server import FakeLlmServer, completion, reject_parameter, truncated_response

BAD = (AuditResult(verdict="bad", reasons=("wake_up is impossible here",)), AuditResult(verdict="good"))
NONSENSE = "I cannot do that."


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-planted-0123456789")


def brief(cycle: int = 1, num_levels: int = 2, world: Any = Crafter) -> Brief:
    effects = {"iron": {"rare": ["iron per world 17.8 -> 5.6"]}}
    return world_brief(world, num_levels=num_levels, cycle=cycle, setting_effects=lambda: effects)


def reply(*levels: dict[str, Any], skills: tuple[str, ...] = ("collect_iron",), reasoning: str = "so") -> str:
    items = [{"purpose": f"purpose {k}", "skills": list(skills), "level": level} for k, level in enumerate(levels)]
    return json.dumps({"reasoning": reasoning, "levels": items})


FIRST = reply({"iron": "common"}, {"near": {"cave": True}})
SECOND = reply({"trees": "rare"}, {"biome": "beach"}, reasoning="now this")
HALF = reply({"iron": "common"}, {"near": {"cow": 1}})


@pytest.fixture
def open_designer(tmp_path):
    """Creates a designer with the same ledger each time, as a resumed run does."""

    def open_designer(
        server: FakeLlmServer,
        kind: str = "openai",
        budget: Budget | None = None,
        prices: Prices | None = None,
        **settings: Any,
    ) -> LlmDesigner:
        def open_chat() -> Chat:
            make = {"openai": OpenAIBackend, "anthropic": AnthropicBackend}[kind]
            backend = make("model", server.url, timeout=20)
            ledger = Ledger(tmp_path / "ledger.jsonl")
            return Chat(backend, ledger, budget or Budget(), prices, sleep=lambda seconds: None)

        return LlmDesigner(open_chat, LlmSettings(**settings))

    return open_designer


def finish(proposal: Proposal, number: int = 1) -> Cycle:
    return make_cycle(proposal, number=number, rates={skill.name: 0.4 for skill in Crafter.skills})


def messages(server: FakeLlmServer, k: int = -1) -> list[dict[str, str]]:
    """The messages of the k-th request. Roles alternate and no message is empty."""
    sent = server.requests[k].body["messages"]
    assert [message["role"] for message in sent] == [("user", "assistant")[k % 2] for k in range(len(sent))]
    assert sent[-1]["role"] == "user"
    assert all(message["content"].strip() for message in sent)
    return sent


# --- a single proposal


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("json_schema", [True, False])
def test_a_valid_reply_becomes_levels(open_designer, kind, json_schema):
    with FakeLlmServer([FIRST]) as server:
        proposal = open_designer(server, kind, json_schema=json_schema).design(brief(), ())
        assert overrides(proposal) == [{"iron": "common"}, {"near": {"cave": True}}]
        assert [item.skills for item in proposal.levels] == [("collect_iron",)] * 2
        assert proposal.levels[1].purpose == "purpose 1"
        assert proposal.notes == ()
        assert json.loads(proposal.raw_reply) == json.loads(FIRST)
        (sent,) = messages(server)
        for name in ("collect_iron (needs make_stone_pickaxe)", "very common", "iron per world 17.8 -> 5.6"):
            assert name in sent["content"]


def test_a_reply_in_prose_becomes_levels_too(open_designer):
    with FakeLlmServer([f"Let's see.\n```json\n{FIRST[:-1]},}}\n```"]) as server:
        assert overrides(open_designer(server).design(brief(), ())) == [{"iron": "common"}, {"near": {"cave": True}}]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_the_schema_is_sent_only_if_json_schema_is_set(open_designer, kind):
    def sent(server: FakeLlmServer) -> Any:
        body = server.requests[-1].body
        if kind == "openai":
            return body.get("response_format", {}).get("json_schema", {}).get("schema")
        return body["tools"][0]["input_schema"] if "tools" in body else None

    with FakeLlmServer([FIRST, SECOND]) as server:
        open_designer(server, kind, feedback="paper").design(brief(), ())
        items = sent(server)["properties"]["levels"]["items"]["properties"]
        assert set(items) == {"purpose", "skills", "level"}
        assert set(items["level"]["properties"]) == set(Crafter.Level.model_fields)
        open_designer(server, kind, json_schema=False).design(brief(), ())
        assert sent(server) is None


def test_the_schema_is_left_out_for_a_server_without_support(open_designer):
    with FakeLlmServer([reject_parameter("response_format", FIRST)] * 2) as server:
        assert open_designer(server).design(brief(), ()).notes == ()


def test_temperature_and_max_reply_tokens_are_sent(open_designer):
    with FakeLlmServer([FIRST, SECOND]) as server:
        open_designer(server, temperature=0.0, max_reply_tokens=512).design(brief(), ())
        assert server.requests[0].body["temperature"] == 0
        assert server.requests[0].body["max_tokens"] == 512
        open_designer(server).design(brief(), ())
        assert "temperature" not in server.requests[1].body


# --- errors


def test_an_invalid_reply_is_sent_back_with_its_errors(open_designer, tmp_path):
    with FakeLlmServer([HALF, SECOND]) as server:
        proposal = open_designer(server).design(brief(), ())
        assert overrides(proposal) == [{"trees": "rare"}, {"biome": "beach"}]
        assert proposal.notes == ()
        assert json.loads(proposal.raw_reply) == json.loads(SECOND)
        _, reply, report = messages(server)
        assert reply["content"] == HALF
        assert "level 2: near: Near: setting 'cow' is not one of" in report["content"]
        assert "did you mean 'cows'?" in report["content"]
    lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert [line["ok"] for line in lines if line["event"] == "validation"] == [False, True]


@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_retries_are_limited(open_designer, max_retries):
    with FakeLlmServer([NONSENSE] * 9) as server:
        proposal = open_designer(server, max_retries=max_retries).design(brief(), ())
        assert len(server.requests) == 1 + max_retries
        assert len(messages(server)) == 1 + 2 * max_retries
        assert overrides(proposal) == [{}, {}]
        count = "1 reply" if max_retries == 0 else f"{1 + max_retries} replies"
        assert proposal.notes[0].startswith(f"not usable after {count}: the reply has no JSON object")
        assert proposal.notes[1] == "fallback for 2 of 2 levels"
        assert {item.purpose for item in proposal.levels} == {"fallback: the original"}


@pytest.mark.parametrize("text", ["", "   \n", "\x00\ufeff", "\ud800"])
def test_an_empty_reply_is_an_error(open_designer, text):
    with FakeLlmServer([text, FIRST]) as server:
        assert open_designer(server).design(brief(), ()).notes == ()
        assert len(messages(server)) == 3


def test_valid_levels_are_kept_and_filled_up_from_the_last_cycle(open_designer):
    coal = ProposedLevel(level=Crafter.Level(coal="rare"), purpose="for coal")
    history = [finish(Proposal(levels=(coal, ProposedLevel(level=Crafter.Level()))))]
    with FakeLlmServer([HALF] * 2) as server:
        proposal = open_designer(server, max_retries=1).design(brief(2), history)
    assert overrides(proposal) == [{"iron": "common"}, {"coal": "rare"}]
    assert proposal.levels[1].purpose == f"{REPEATED_PREFIX}for coal"
    assert proposal.notes[1] == "fallback for 1 of 2 levels"


def test_the_original_fills_up_the_rest_and_purposes_do_not_grow(open_designer):
    coal = ProposedLevel(level=Crafter.Level(coal="rare"), purpose=f"{REPEATED_PREFIX}for coal")
    history = [finish(Proposal(levels=(coal,)))]
    with FakeLlmServer([NONSENSE]) as server:
        proposal = open_designer(server, max_retries=0).design(brief(2), history)
    assert overrides(proposal) == [{"coal": "rare"}, {}]
    assert [item.purpose for item in proposal.levels] == [f"{REPEATED_PREFIX}for coal", "fallback: the original"]


def test_of_too_many_levels_the_first_are_used_with_a_note(open_designer):
    with FakeLlmServer([reply({"iron": "rare"}, {"coal": "rare"}, {"trees": "rare"})] * 2) as server:
        proposal = open_designer(server, max_retries=0).design(brief(), ())
        assert overrides(proposal) == [{"iron": "rare"}, {"coal": "rare"}]
        assert "the number of levels is 3, not 2" in proposal.notes[0]


def test_a_huge_reply_is_truncated_in_the_conversation(open_designer):
    with FakeLlmServer(["x" * 150_000, "[" * 90_000, FIRST]) as server:
        proposal = open_designer(server).design(brief(), ())
        assert proposal.notes == ()
        assert sum(len(message["content"]) for message in messages(server)) < 60_000


def test_an_exceeded_budget_leads_to_the_fallback_with_a_note(open_designer):
    with FakeLlmServer([HALF, FIRST]) as server:
        designer = open_designer(server, budget=Budget(max_calls=1))
        proposal = designer.design(brief(), ())
        assert len(server.requests) == 1
        assert overrides(proposal) == [{"iron": "common"}, {}]
        assert "the budget is spent: max_calls is 1" in proposal.notes[0]
        assert proposal.notes[1] == "fallback for 1 of 2 levels"
        revised = designer.revise(brief(), (), proposal, BAD)
        assert overrides(revised) == overrides(proposal)
        assert "the budget is spent" in revised.notes[-1]
        assert len(server.requests) == 1


def test_a_rejected_request_ends_the_run_with_the_servers_message(open_designer):
    with FakeLlmServer([]) as server, pytest.raises(RejectedError, match="the script has no answer left"):
        open_designer(server, json_schema=False).design(brief(), ())


# --- the audit


def test_the_audit_can_be_answered_once(open_designer):
    with FakeLlmServer([FIRST, SECOND]) as server:
        designer = open_designer(server)
        proposal = designer.design(brief(), ())
        revised = designer.revise(brief(), (), proposal, BAD)
        assert overrides(revised) == [{"trees": "rare"}, {"biome": "beach"}]
        assert revised.notes == ()
        _, reply, audit = messages(server)
        assert json.loads(reply["content"]) == json.loads(FIRST)
        assert "Level 1 is bad.\n  wake_up is impossible here\nLevel 2 is good." in audit["content"]
        assert len(server.requests) == 2


@pytest.mark.parametrize("text", [NONSENSE, HALF, ""])
def test_an_invalid_revision_keeps_the_first_proposal(open_designer, text):
    with FakeLlmServer([FIRST, text, SECOND]) as server:
        designer = open_designer(server)
        proposal = designer.design(brief(), ())
        result = designer.revise(brief(), (), proposal, BAD)
        assert result.levels == proposal.levels
        assert result.raw_reply == proposal.raw_reply
        assert result.notes[0].startswith("revision: not usable after 1 reply")
        assert len(server.requests) == 2


def test_a_revision_of_a_fallback_shows_its_levels_and_keeps_its_notes(open_designer):
    with FakeLlmServer([NONSENSE, FIRST]) as server:
        designer = open_designer(server, max_retries=0)
        proposal = designer.design(brief(), ())
        revised = designer.revise(brief(), (), proposal, BAD)
        assert overrides(revised) == [{"iron": "common"}, {"near": {"cave": True}}]
        assert revised.notes == (*proposal.notes, "these levels were replaced by a valid revision")
        assert 'Level 1: {"skills": [], "level": {}}' in messages(server)[-1]["content"]


def test_without_revise_no_request_is_sent(open_designer):
    with FakeLlmServer([FIRST]) as server:
        designer = open_designer(server, revise=False)
        assert designer.revise(brief(), (), designer.design(brief(), ()), BAD) is None
        assert len(server.requests) == 1


# --- a whole run


def run(designer: LlmDesigner, num_cycles: int = 3, revise: bool = False) -> list[Cycle]:
    history: list[Cycle] = []
    for number in range(1, num_cycles + 1):
        proposal = designer.design(brief(number), history)
        if revise:
            proposal = designer.revise(brief(number), history, proposal, BAD) or proposal
        history.append(finish(proposal, number))
    return history


@pytest.mark.parametrize("feedback", ["none", "paper", "rich"])
def test_all_cycles_are_one_conversation_about_the_levels_that_were_used(open_designer, feedback):
    with FakeLlmServer([FIRST, NONSENSE, SECOND]) as server:
        history = run(open_designer(server, feedback=feedback, max_retries=0))
        texts = [message["content"] for message in messages(server)]
        assert len(texts) == 5
        assert [json.loads(texts[1]), texts[3]] == [json.loads(FIRST), NONSENSE]
        for k, text in enumerate((texts[2], texts[4])):
            assert f"Cycle {k + 1} is over" in text
            assert f"Now design the 2 levels of cycle {k + 2} of 4" in text
            if feedback == "paper":
                assert "- collect_diamond: 0.4% ± 0.0%" in text
            else:  # rich reports have curves, but only the newest one
                assert ("- collect_diamond: 0.4% -> 0.4% ± 0.0%" in text) == (feedback == "rich" and k == 1)
            used = [json.dumps(level) for level in overrides(history[k].proposal)]
            assert all((level in text) == (feedback != "none") for level in used)
            assert ("too few episodes ended in it" in text) == (feedback == "rich")
        assert texts[0] == messages(server, 0)[0]["content"]


def test_reasoning_is_neither_parsed_nor_kept(open_designer):
    draft = f"<think>{'A first draft: ' * 2000}{FIRST} That is too easy.</think>"
    with FakeLlmServer([f"{draft}I give up.", draft.removesuffix("</think>"), f"{draft}\n\n{SECOND}"]) as server:
        proposal = open_designer(server).design(brief(), ())
        assert overrides(proposal) == [{"trees": "rare"}, {"biome": "beach"}]
        assert json.loads(proposal.raw_reply) == json.loads(SECOND)
        repaired = [message["content"] for message in messages(server)]
        assert repaired[1] == "I give up."
        assert repaired[3] == "(empty reply)"
        assert "the reply contains only reasoning" in repaired[4]


def test_a_long_reply_keeps_its_end(open_designer):
    with FakeLlmServer([f"{'word ' * 5000}{FIRST}"]) as server:
        proposal = open_designer(server).design(brief(), ())
        assert len(proposal.raw_reply) == MAX_KEPT_CHARS
        assert proposal.raw_reply.endswith(FIRST)


@pytest.mark.parametrize(("kind", "finish_reason"), [("openai", "length"), ("anthropic", "max_tokens")])
def test_a_reply_that_was_cut_off_is_reported_as_such(open_designer, kind, finish_reason):
    cut_off = completion(None, finish=finish_reason)
    with FakeLlmServer([cut_off, FIRST, cut_off]) as server:
        designer = open_designer(server, kind, max_retries=1, max_reply_tokens=3000)
        assert not designer.design(brief(), ()).notes
        assert "was cut off at its maximum of 3,000 tokens, which include reasoning" in messages(server)[-1]["content"]
        designer = open_designer(server, kind, max_retries=0, max_reply_tokens=2000)
        assert "not usable after 1 reply: the reply was cut off" in designer.design(brief(), ()).notes[0]


@pytest.mark.parametrize(("kind", "finish_reason"), [("openai", "content_filter"), ("anthropic", "refusal")])
def test_a_refused_request_is_not_repeated(open_designer, kind, finish_reason):
    with FakeLlmServer([completion(None, finish=finish_reason)]) as server:
        proposal = open_designer(server, kind, max_retries=2).design(brief(), ())
        assert proposal.notes[0] == f"the model refused to answer ({finish_reason}): the reply is empty"
        assert len(server.requests) == 1


REPLIES = [FIRST, HALF, SECOND, NONSENSE, FIRST, FIRST, SECOND, FIRST]  # proposals, retries and revisions


@pytest.mark.parametrize("obfuscate", [False, True])
def test_a_resumed_run_sends_nothing_again(open_designer, tmp_path, obfuscate):
    with FakeLlmServer(REPLIES) as server:
        history = run(open_designer(server, obfuscate=obfuscate, max_retries=1), revise=True)
        count, ledger = len(server.requests), (tmp_path / "ledger.jsonl").read_bytes()
        assert count >= 6
        assert run(open_designer(server, obfuscate=obfuscate, max_retries=1), revise=True) == history
        assert len(server.requests) == count
        assert (tmp_path / "ledger.jsonl").read_bytes() == ledger
        assert run(open_designer(server, obfuscate=obfuscate, max_retries=1), num_cycles=2, revise=True) == history[:2]


def test_a_replay_of_the_ledger_is_the_same_run(open_designer, tmp_path):
    with FakeLlmServer(REPLIES) as server:
        history = run(open_designer(server, max_retries=1), revise=True)
    assert run(replay_designer(tmp_path, max_retries=1), revise=True) == history


def test_a_replay_with_other_settings_is_refused(open_designer, tmp_path):
    with FakeLlmServer([FIRST, SECOND]) as server:
        run(open_designer(server), num_cycles=2)
    with pytest.raises(RejectedError, match="the conversation differs"):
        run(replay_designer(tmp_path, feedback="paper"), num_cycles=2)


def replay_designer(folder: Path, **settings: Any) -> LlmDesigner:
    return LlmDesigner(
        lambda: Chat(ReplayBackend(folder), Ledger(folder / "again" / "ledger.jsonl")), LlmSettings(**settings)
    )


@pytest.mark.parametrize("obfuscate", [False, True])
def test_a_run_is_resumed_after_the_parser_crashed(open_designer, tmp_path, monkeypatch, obfuscate):
    """The reply is in the ledger before it is parsed."""
    task = brief(num_levels=1, world=Heist)
    names = NameObfuscator(Heist.Level, Heist.skills, Heist.name)
    replies = [reply({"maze_size": size}, skills=("steal_gem",)) for size in ("six", [None], "5")]
    if obfuscate:
        replies = [names.encode(text) for text in replies]

    def crash(*args: Any) -> None:
        raise AttributeError

    with FakeLlmServer(replies) as server:
        with monkeypatch.context() as patched:
            patched.setattr(llm, "parse_reply", crash)
            with pytest.raises(AttributeError):
                open_designer(server, obfuscate=obfuscate).design(task, ())
        assert len(server.requests) == 1
        proposal = open_designer(server, obfuscate=obfuscate).design(task, ())
        assert len(server.requests) == 3
        assert overrides(proposal) == [{"maze_size": 5}]
        assert proposal.notes == ()
        report = messages(server)[2]["content"]
        assert "Input should be 0, 5, 7" in report
        assert (names.codes["maze_size"] if obfuscate else "maze_size") in report
        assert open_designer(server, obfuscate=obfuscate).design(task, ()) == proposal
        assert len(server.requests) == 3
    assert replay_designer(tmp_path, obfuscate=obfuscate).design(task, ()) == proposal


def test_usage_is_counted_across_restarts(open_designer):
    with FakeLlmServer([HALF, FIRST]) as server:
        open_designer(server).design(brief(), ())
        counts = {"calls": 2, "prompt_tokens": 200, "reply_tokens": 40, "estimated_tokens": 0}
        assert open_designer(server).usage() == {**counts, "cost": None}


def test_the_cost_is_what_the_budget_counts(open_designer):
    """A reply that never came counts as the longest one, and a reply without a token count is estimated."""
    prices = Prices(prompt=0.0, reply=1000.0)
    with FakeLlmServer([truncated_response, completion(HALF, prompt=None), FIRST]) as server:
        designer = open_designer(server, prices=prices, max_reply_tokens=512)
        history = [finish(designer.design(brief(), ()))]
        cost = designer.usage()["cost"]
        assert cost == pytest.approx((512 + len(HALF) // 4 + 1 + 20) / 1000)
        assert designer.usage()["estimated_tokens"] > 512 + len(HALF) // 4
        designer = open_designer(server, prices=prices, budget=Budget(max_cost=cost))
        (note, _) = designer.design(brief(2), history).notes
        assert note.startswith("the budget is spent: max_cost is")
        assert f"${cost:.4f}" in note
        assert len(server.requests) == 3
        assert open_designer(server).usage()["cost"] is None  # without prices


def test_the_chat_is_opened_only_when_it_is_used():
    def never() -> Chat:
        raise AssertionError

    designer = LlmDesigner(never, LlmSettings(feedback="rich"))
    assert designer.config()["feedback"] == "rich"


# --- obfuscated names


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_an_obfuscated_conversation_contains_no_name_and_is_decoded(open_designer, kind):
    names = NameObfuscator(Crafter.Level, Crafter.skills, Crafter.name)
    invalid = names.encode(HALF.replace("cow", "moo"))
    with FakeLlmServer([invalid, names.encode(FIRST), names.encode(SECOND), names.encode(FIRST), NONSENSE]) as server:
        history = run(
            open_designer(server, kind, obfuscate=True, feedback="rich", json_schema=kind == "openai"), 2, revise=True
        )
        assert overrides(history[0].proposal) == [{"trees": "rare"}, {"biome": "beach"}]
        assert overrides(history[1].proposal) == [{"iron": "common"}, {"near": {"cave": True}}]
        assert history[0].proposal.levels[0].skills == ("collect_iron",)
        assert "collect_iron" in history[0].proposal.raw_reply
        assert len(server.requests) == 5
        sent = "\n".join(json.dumps(request.body, ensure_ascii=False) for request in server.requests)
        text = re.sub(r"[_\\]n?", " ", sent).lower()
        for name in set(names.codes) - COMMON_WORDS:
            word = name.replace("_", " ").removesuffix("s")
            assert not re.search(rf"\b{word}s?\b", text), name
