"""A language model designs: asked over a real connection, asked again when it errs, replaced when it goes on erring."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback, refusing

from envgen.designers import llm
from envgen.designers.chat.backends import AnthropicBackend, OpenAIBackend
from envgen.designers.chat.budget import Budget
from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Ledger
from envgen.designers.chat.offline import ReplayBackend
from envgen.designers.chat.protocol import RejectedError
from envgen.designers.designer import AuditResult, Brief, Cycle, Proposal, ProposedLevel, SuccessRate
from envgen.designers.llm import REPEATED_PREFIX, LlmDesigner, LlmSettings
from envgen.designers.names import NameObfuscator
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist

BAD = (AuditResult(verdict="bad", reasons=("wake_up is impossible here",)), AuditResult(verdict="good"))
NONSENSE = "I cannot do that."


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-planted-0123456789")


def brief(cycle: int = 1, num_levels: int = 2, world: Any = Crafter) -> Brief:
    facts = {"iron": {"rare": ["iron per world 17.8 -> 5.6"]}}
    return Brief(
        world.name, world.rules, world.skills, world.Level, world.skill_levels, num_levels, cycle, num_cycles=4, seed=0,
        setting_effects=lambda: facts,
    )  # fmt: skip


def reply(*levels: dict[str, Any], skills: tuple[str, ...] = ("collect_iron",), reasoning: str = "so") -> str:
    items = [{"purpose": f"purpose {k}", "skills": list(skills), "level": level} for k, level in enumerate(levels)]
    return json.dumps({"reasoning": reasoning, "levels": items})


FIRST = reply({"iron": "common"}, {"near": {"cave": True}})
SECOND = reply({"trees": "rare"}, {"biome": "beach"}, reasoning="now this")
HALF = reply({"iron": "common"}, {"near": {"cow": 1}})


def levels(proposal: Proposal) -> list[dict[str, Any]]:
    return [one.level for one in proposal.levels]


@pytest.fixture
def begin(tmp_path):
    """A designer with the same ledger each time, as a resumed run would begin it."""

    def begin(server: Loopback, kind: str = "openai", budget: Budget | None = None, **settings: Any) -> LlmDesigner:
        def open_chat() -> Chat:
            make = {"openai": OpenAIBackend, "anthropic": AnthropicBackend}[kind]
            backend = make("model", server.url, timeout=20)
            return Chat(backend, Ledger(tmp_path / "ledger.jsonl"), budget or Budget(), sleep=lambda seconds: None)

        return LlmDesigner(open_chat, LlmSettings(**settings))

    return begin


def after(proposal: Proposal, number: int = 1) -> Cycle:
    return Cycle(
        number=number, steps=number * 1000, proposal=proposal, audits=(), outcomes=(None,) * len(proposal.levels),
        success_rates={skill.name: SuccessRate(mean=0.4, std=0.8) for skill in Crafter.skills}, reward=1.0,
    )  # fmt: skip


def messages(server: Loopback, k: int = -1) -> list[dict[str, str]]:
    """Of the k-th request; they take turns and none is empty."""
    sent = server.requests[k].body["messages"]
    assert [one["role"] for one in sent] == [("user", "assistant")[k % 2] for k in range(len(sent))]
    assert sent[-1]["role"] == "user"
    assert all(one["content"].strip() for one in sent)
    return sent


# --- one proposal


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("json_schema", [True, False])
def test_a_good_reply_becomes_levels(begin, kind, json_schema):
    with Loopback([FIRST]) as server:
        proposal = begin(server, kind, json_schema=json_schema).design(brief(), ())
        assert levels(proposal) == [{"iron": "common"}, {"near": {"cave": True}}]
        assert [one.skills for one in proposal.levels] == [("collect_iron",)] * 2
        assert proposal.levels[1].purpose == "purpose 1"
        assert proposal.notes == ()
        assert json.loads(proposal.raw_reply) == json.loads(FIRST)
        (sent,) = messages(server)
        for name in ("collect_iron (needs make_stone_pickaxe)", "very common", "iron per world 17.8 -> 5.6"):
            assert name in sent["content"]


def test_a_reply_in_prose_becomes_levels_too(begin):
    with Loopback([f"Let's see.\n```json\n{FIRST[:-1]},}}\n```"]) as server:
        assert levels(begin(server).design(brief(), ())) == [{"iron": "common"}, {"near": {"cave": True}}]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_the_schema_goes_along_only_if_wanted(begin, kind):
    def sent(server: Loopback) -> Any:
        body = server.requests[-1].body
        if kind == "openai":
            return body.get("response_format", {}).get("json_schema", {}).get("schema")
        return body["tools"][0]["input_schema"] if "tools" in body else None

    with Loopback([FIRST, SECOND]) as server:
        begin(server, kind).design(brief(), ())
        items = sent(server)["properties"]["levels"]["items"]["properties"]
        assert set(items) == {"purpose", "skills", "level"}
        assert set(items["level"]["properties"]) == set(Crafter.Level.model_fields)
        begin(server, kind, json_schema=False).design(brief(), ())
        assert sent(server) is None


def test_a_server_that_knows_no_schema_is_asked_without(begin):
    with Loopback([refusing("response_format", FIRST)] * 2) as server:
        assert begin(server).design(brief(), ()).notes == ()


def test_temperature_and_length_are_passed_on(begin):
    with Loopback([FIRST, SECOND]) as server:
        begin(server, temperature=0.0, max_reply_tokens=512).design(brief(), ())
        assert server.requests[0].body["temperature"] == 0
        assert server.requests[0].body["max_tokens"] == 512
        begin(server).design(brief(), ())
        assert "temperature" not in server.requests[1].body


# --- mistakes


def test_a_reply_that_cannot_be_used_is_asked_for_again_with_what_is_wrong(begin, tmp_path):
    with Loopback([HALF, SECOND]) as server:
        proposal = begin(server).design(brief(), ())
        assert levels(proposal) == [{"trees": "rare"}, {"biome": "beach"}]
        assert proposal.notes == ()
        assert json.loads(proposal.raw_reply) == json.loads(SECOND)
        _, said, complaint = messages(server)
        assert said["content"] == HALF
        assert "level 2: near: Near: setting 'cow' is not one of" in complaint["content"]
        assert "did you mean 'cows'?" in complaint["content"]
    lines = [json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines()]
    assert [line["ok"] for line in lines if line["event"] == "validation"] == [False, True]


@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_it_is_asked_again_only_so_often(begin, max_retries):
    with Loopback([NONSENSE] * 9) as server:
        proposal = begin(server, max_retries=max_retries).design(brief(), ())
        assert len(server.requests) == 1 + max_retries
        assert len(messages(server)) == 1 + 2 * max_retries
        assert levels(proposal) == [{}, {}]
        assert proposal.notes[0].startswith(f"after {1 + max_retries} replies there is still this: the reply has no JSON object")
        assert proposal.notes[1] == "fallback for 2 of 2 levels"
        assert {one.purpose for one in proposal.levels} == {"fallback: the original"}


@pytest.mark.parametrize("text", ["", "   \n", "\x00\ufeff", "\ud800"])
def test_saying_nothing_is_a_mistake_like_any_other(begin, text):
    with Loopback([text, FIRST]) as server:
        assert begin(server).design(brief(), ()).notes == ()
        assert len(messages(server)) == 3


def test_of_levels_partly_right_those_are_kept_and_the_last_cycles_fill_up(begin):
    history = [
        after(Proposal(levels=(ProposedLevel(level={"coal": "rare"}, purpose="for coal"), ProposedLevel(level={}))))
    ]
    with Loopback([HALF] * 2) as server:
        proposal = begin(server, max_retries=1).design(brief(2), history)
    assert levels(proposal) == [{"iron": "common"}, {"coal": "rare"}]
    assert proposal.levels[1].purpose == f"{REPEATED_PREFIX}for coal"
    assert proposal.notes[1] == "fallback for 1 of 2 levels"


def test_the_original_fills_up_what_the_last_cycle_cannot_and_no_purpose_grows(begin):
    history = [after(Proposal(levels=(ProposedLevel(level={"coal": "rare"}, purpose=f"{REPEATED_PREFIX}for coal"),)))]
    with Loopback([NONSENSE]) as server:
        proposal = begin(server, max_retries=0).design(brief(2), history)
    assert levels(proposal) == [{"coal": "rare"}, {}]
    assert [one.purpose for one in proposal.levels] == [f"{REPEATED_PREFIX}for coal", "fallback: the original"]


def test_of_too_many_levels_the_first_are_used_and_it_is_told(begin):
    with Loopback([reply({"iron": "rare"}, {"coal": "rare"}, {"trees": "rare"})] * 2) as server:
        proposal = begin(server, max_retries=0).design(brief(), ())
        assert levels(proposal) == [{"iron": "rare"}, {"coal": "rare"}]
        assert "the number of levels is 3, not 2" in proposal.notes[0]


def test_an_enormous_reply_stays_out_of_the_conversation_and_the_run(begin):
    with Loopback(["x" * 150_000, "[" * 90_000, FIRST]) as server:
        proposal = begin(server).design(brief(), ())
        assert proposal.notes == ()
        assert sum(len(one["content"]) for one in messages(server)) < 60_000


def test_a_spent_budget_is_recorded_with_the_fallback(begin):
    with Loopback([HALF, FIRST]) as server:
        designer = begin(server, budget=Budget(max_calls=1))
        proposal = designer.design(brief(), ())
        assert len(server.requests) == 1
        assert levels(proposal) == [{"iron": "common"}, {}]
        assert "the budget is spent: max_calls is 1" in proposal.notes[0]
        assert proposal.notes[1] == "fallback for 1 of 2 levels"
        revised = designer.revise(brief(), (), proposal, BAD)
        assert levels(revised) == levels(proposal)
        assert "the budget is spent" in revised.notes[-1]
        assert len(server.requests) == 1


def test_a_server_that_refuses_ends_the_run_with_its_words(begin):
    with Loopback([]) as server, pytest.raises(RejectedError, match="the script has no answer left"):
        begin(server, json_schema=False).design(brief(), ())


# --- the audit


def test_the_audit_can_be_answered_once(begin):
    with Loopback([FIRST, SECOND]) as server:
        designer = begin(server)
        proposal = designer.design(brief(), ())
        revised = designer.revise(brief(), (), proposal, BAD)
        assert levels(revised) == [{"trees": "rare"}, {"biome": "beach"}]
        assert revised.notes == ()
        _, said, audit = messages(server)
        assert json.loads(said["content"]) == json.loads(FIRST)
        assert "Level 1 is bad.\n  wake_up is impossible here\nLevel 2 is good." in audit["content"]
        assert len(server.requests) == 2


@pytest.mark.parametrize("text", [NONSENSE, HALF, ""])
def test_a_revision_that_cannot_be_used_leaves_the_first_proposal(begin, text):
    with Loopback([FIRST, text, SECOND]) as server:
        designer = begin(server)
        proposal = designer.design(brief(), ())
        kept = designer.revise(brief(), (), proposal, BAD)
        assert kept.levels == proposal.levels
        assert kept.raw_reply == proposal.raw_reply
        assert kept.notes[0].startswith("revision: after 1 replies")
        assert len(server.requests) == 2


def test_a_revision_of_a_fallback_shows_its_levels_and_keeps_its_record(begin):
    with Loopback([NONSENSE, FIRST]) as server:
        designer = begin(server, max_retries=0)
        proposal = designer.design(brief(), ())
        revised = designer.revise(brief(), (), proposal, BAD)
        assert levels(revised) == [{"iron": "common"}, {"near": {"cave": True}}]
        assert revised.notes == proposal.notes
        assert 'Level 1: {"skills": [], "level": {}}' in messages(server)[-1]["content"]


def test_without_revision_nobody_is_asked(begin):
    with Loopback([FIRST]) as server:
        designer = begin(server, revise=False)
        assert designer.revise(brief(), (), designer.design(brief(), ()), BAD) is None
        assert len(server.requests) == 1


# --- a whole run


def run(designer: LlmDesigner, num_cycles: int = 3, revise: bool = False) -> list[Cycle]:
    history: list[Cycle] = []
    for number in range(1, num_cycles + 1):
        proposal = designer.design(brief(number), history)
        if revise:
            proposal = designer.revise(brief(number), history, proposal, BAD) or proposal
        history.append(after(proposal, number))
    return history


@pytest.mark.parametrize("feedback", ["none", "paper", "rich"])
def test_all_cycles_are_one_conversation_about_the_levels_that_were_used(begin, feedback):
    with Loopback([FIRST, NONSENSE, SECOND]) as server:
        history = run(begin(server, feedback=feedback, max_retries=0))
        talk = [one["content"] for one in messages(server)]
        assert len(talk) == 5
        assert [json.loads(talk[1]), talk[3]] == [json.loads(FIRST), NONSENSE]
        for k, text in enumerate((talk[2], talk[4])):
            assert f"Cycle {k + 1} is over" in text
            assert f"Now design the 2 levels of cycle {k + 2} of 4" in text
            assert ("- collect_diamond: 0.4% ± 0.8%" in text) == (feedback != "none")
            used = [json.dumps(one.level) for one in history[k].proposal.levels]
            assert all((text_of in text) == (feedback != "none") for text_of in used)
            assert ("no episode ended there" in text) == (feedback == "rich")
        assert talk[0] == messages(server, 0)[0]["content"]


ANSWERS = [FIRST, HALF, SECOND, NONSENSE, FIRST, FIRST, SECOND, FIRST]  # proposals, re-asked ones and revisions


@pytest.mark.parametrize("obfuscate", [False, True])
def test_the_same_run_after_a_restart_asks_nobody(begin, tmp_path, obfuscate):
    with Loopback(ANSWERS) as server:
        history = run(begin(server, obfuscate=obfuscate, max_retries=1), revise=True)
        asked, ledger = len(server.requests), (tmp_path / "ledger.jsonl").read_bytes()
        assert asked >= 6
        assert run(begin(server, obfuscate=obfuscate, max_retries=1), revise=True) == history
        assert len(server.requests) == asked
        assert (tmp_path / "ledger.jsonl").read_bytes() == ledger
        assert run(begin(server, obfuscate=obfuscate, max_retries=1), num_cycles=2, revise=True) == history[:2]


def test_a_replay_of_the_ledger_is_the_same_run(begin, tmp_path):
    with Loopback(ANSWERS) as server:
        history = run(begin(server, max_retries=1), revise=True)
    assert run(replayed(tmp_path, max_retries=1), revise=True) == history


def test_a_replay_with_other_settings_is_refused(begin, tmp_path):
    with Loopback([FIRST, SECOND]) as server:
        run(begin(server), num_cycles=2)
    with pytest.raises(RejectedError, match="the conversation differs"):
        run(replayed(tmp_path, feedback="rich"), num_cycles=2)


def replayed(folder: Path, **settings: Any) -> LlmDesigner:
    return LlmDesigner(
        lambda: Chat(ReplayBackend(folder), Ledger(folder / "again" / "ledger.jsonl")), LlmSettings(**settings)
    )


@pytest.mark.parametrize("obfuscate", [False, True])
def test_a_run_whose_ledger_holds_a_reply_that_could_not_be_read_is_resumed(begin, tmp_path, monkeypatch, obfuscate):
    """The reply is in the ledger before anybody reads it, so a crash of the reader leaves it there."""
    about = brief(num_levels=1, world=Heist)
    names = NameObfuscator(Heist.Level, Heist.skills, Heist.name)
    replies = [reply({"maze_size": size}, skills=("steal_gem",)) for size in ("six", [None], "5")]
    if obfuscate:
        replies = [names.encode(text) for text in replies]

    def crash(text: str, brief: Brief) -> None:
        raise AttributeError

    with Loopback(replies) as server:
        with monkeypatch.context() as patched:
            patched.setattr(llm, "parse_reply", crash)
            with pytest.raises(AttributeError):
                begin(server, obfuscate=obfuscate).design(about, ())
        assert len(server.requests) == 1
        proposal = begin(server, obfuscate=obfuscate).design(about, ())
        assert len(server.requests) == 3
        assert levels(proposal) == [{"maze_size": 5}]
        assert proposal.notes == ()
        told = messages(server)[2]["content"]
        assert "Input should be 0, 5, 7" in told
        assert (names.codes["maze_size"] if obfuscate else "maze_size") in told
        assert begin(server, obfuscate=obfuscate).design(about, ()) == proposal
        assert len(server.requests) == 3
    assert replayed(tmp_path, obfuscate=obfuscate).design(about, ()) == proposal


def test_what_was_asked_is_counted_across_restarts(begin):
    with Loopback([HALF, FIRST]) as server:
        begin(server).design(brief(), ())
        assert begin(server).usage() == {"calls": 2, "prompt_tokens": 200, "reply_tokens": 40, "cost": None}


def test_nothing_is_opened_before_it_is_needed():
    def never() -> Chat:
        raise AssertionError

    designer = LlmDesigner(never, LlmSettings(feedback="rich"))
    assert designer.config()["feedback"] == "rich"


# --- codes for names


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_model_that_hears_codes_is_told_no_name_and_understood(begin, kind):
    names = NameObfuscator(Crafter.Level, Crafter.skills, Crafter.name)
    wrong = names.encode(HALF.replace("cow", "moo"))
    with Loopback([wrong, names.encode(FIRST), names.encode(SECOND), names.encode(FIRST), NONSENSE]) as server:
        history = run(
            begin(server, kind, obfuscate=True, feedback="rich", json_schema=kind == "openai"), 2, revise=True
        )
        assert levels(history[0].proposal) == [{"trees": "rare"}, {"biome": "beach"}]
        assert levels(history[1].proposal) == [{"iron": "common"}, {"near": {"cave": True}}]
        assert history[0].proposal.levels[0].skills == ("collect_iron",)
        assert "collect_iron" in history[0].proposal.raw_reply
        assert len(server.requests) == 5
        sent = "\n".join(json.dumps(request.body, ensure_ascii=False) for request in server.requests)
        spoken = re.sub(r"[_\\]n?", " ", sent).lower()
        for name in names.codes:
            word = name.replace("_", " ").removesuffix("s")
            assert not re.search(rf"\b{word}s?\b", spoken), name
