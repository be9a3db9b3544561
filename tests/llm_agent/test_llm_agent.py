"""A language model plays: its answers become actions, every call is recorded and counted, and a stop loses nothing."""

import json
import threading
import time
from pathlib import Path

import pytest
from corridor import Corridor, observation_in, play

import envgen
from envgen.designers.chat.budget_file import BudgetFile, SharedBudgetError, SharedLimits
from envgen.designers.chat.protocol import BudgetExceededError, ChatError, RejectedError
from envgen.errors import EnvgenError
from envgen.llm_agent.evaluate import evaluate_llm_agent
from envgen.llm_agent.results import LlmEvaluation
from envgen.llm_agent.settings import LlmAgentConfig
from envgen.runs.store import RunError
from fake_llm_server import FakeLlmServer, completion, status

KEY = "sk-planted-0123456789"
MANY = 2000


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def evaluate(folder: Path, url: str = "", episodes: int = 1, log=lambda text: None, on_progress=None, **options):
    options = {"llm": "openai:model", **({"base_url": url} if url else {}), "parallel": 1, **options}
    level, seed = options.pop("level", None), options.pop("seed", 7)
    progress = [] if on_progress is None else on_progress
    return evaluate_llm_agent(
        Corridor(), LlmAgentConfig(**options), folder, episodes, level, seed, on_progress or progress.append, log
    )


def read(file: Path):
    return json.loads(file.read_text())


def test_a_model_that_plays_well_reaches_every_skill(tmp_path):
    with FakeLlmServer([play] * MANY) as server:
        result = evaluate(tmp_path, server.url, episodes=3, price_prompt=1.0, price_reply=2.0)
    assert {name: rate.value for name, rate in result.evaluation.skills.items()} == {"ring_bell": 100, "find_door": 100}
    assert result.evaluation.episodes == 3
    assert repr(result).startswith("<LlmEvaluation: openai:model, score 100.0 [100.0, 100.0], 3 episodes of corridor, ")
    assert len(repr(result)) < 150
    assert result.evaluation.reward.value == 1.5
    steps = sum(episode.length for episode in result.episodes)
    assert {episode.length for episode in result.episodes} <= {4, 5}
    assert result.usage.calls == len(server.requests) == 9 * steps
    assert result.usage.reply_tokens == 10 * result.usage.calls
    prompt_tokens = sum(len(request.body["messages"][-1]["content"]) // 4 for request in server.requests)
    assert result.usage.prompt_tokens == prompt_tokens
    assert result.usage.dollars == pytest.approx((prompt_tokens + 2 * result.usage.reply_tokens) / 1e6)
    assert result.unparsable == 0
    assert LlmEvaluation.model_validate(read(tmp_path / "evaluation.json")) == result
    lines = [json.loads(line) for line in (tmp_path / "episodes/1/steps.jsonl").read_text().splitlines()]
    assert lines[0] == {
        "step": 1, "action": "ring", "parsed": True, "reward": 0.5, "achieved": ["ring_bell"], "ended": False
    }  # fmt: skip
    assert lines[-1]["achieved"] == ["find_door"]
    assert lines[-1]["ended"]


def test_the_documentation_names_every_field(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "llm-agent.md").read_text()
    with FakeLlmServer([play] * MANY) as server:
        evaluate(tmp_path, server.url, questions="direct")
    episode = read(tmp_path / "episodes/1/episode.json")
    step = json.loads((tmp_path / "episodes/1/steps.jsonl").read_text().splitlines()[0])
    parts = [read(tmp_path / "evaluation.json"), episode, episode["usage"], step]
    assert {name for part in parts for name in part if f"`{name}`" not in page} == set()


def test_the_questions_of_a_step_build_on_each_other_and_on_the_last_steps(tmp_path):
    with FakeLlmServer([play] * MANY) as server:
        evaluate(tmp_path, server.url, temperature=0.5)
    bodies = [request.body for request in server.requests]
    assert len({observation_in(body) for body in bodies[:9]}) == 1
    first = [body["messages"][-1]["content"] for body in bodies[:9]]
    assert "Your last actions" not in first[0]
    assert f"Answer: thought {len(first[0])}" in first[2]
    assert all("response_format" not in body for body in bodies[:8])
    schema = bodies[8]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["action"]["enum"] == ["walk_left", "walk_right", "ring"]
    assert all(body["temperature"] == 0.5 for body in bodies)
    second = bodies[9]["messages"][-1]["content"]
    assert "- step 1, ring: what you observe has changed; reward +0.5; achieved ring_bell" in second
    assert "Skills achieved so far: ring_bell." in second
    assert "- ring: ring the bell" in bodies[0]["messages"][0]["content"]
    assert Corridor.rules in bodies[0]["messages"][0]["content"]


def test_skills_that_are_done_from_the_start_are_not_achieved_again(tmp_path):
    class RungLevel(Corridor.Level):
        @property
        def done_skills(self) -> tuple[str, ...]:
            return ("ring_bell",)

    class Rung(Corridor):
        Level = RungLevel

    with FakeLlmServer([play] * MANY) as server:
        config = LlmAgentConfig(llm="openai:model", base_url=server.url, questions="direct", parallel=1)
        result = evaluate_llm_agent(Rung(), config, tmp_path, seed=7)
    (episode,) = result.episodes
    assert list(episode.first_success) == ["find_door"]
    lines = [json.loads(line) for line in (tmp_path / "episodes/1/steps.jsonl").read_text().splitlines()]
    assert (lines[0]["action"], lines[0]["achieved"]) == ("ring", [])
    assert lines[-1]["achieved"] == ["find_door"]
    prompts = [request.body["messages"][-1]["content"] for request in server.requests]
    assert all("Skills achieved so far: ring_bell.\n" in prompt for prompt in prompts)
    assert not any("achieved ring_bell" in prompt for prompt in prompts)


def test_an_unparsable_answer_is_counted_and_the_idle_action_taken(tmp_path):
    with FakeLlmServer(["I would rather not."] * MANY) as server:
        result = evaluate(tmp_path, server.url, questions="direct", num_past_actions=2)
    assert result.episodes[0].length == result.unparsable == len(server.requests) == 12
    assert {name: rate.value for name, rate in result.evaluation.skills.items()} == {"ring_bell": 0, "find_door": 0}
    assert "12  (100.0% of the steps)" in str(result)
    last = server.requests[-1].body["messages"][-1]["content"]
    assert (
        "- step 11, walk_left: no visible effect; your answer did not name exactly one action, so this one was taken"
        in last
    )
    assert "step 10" in last
    assert "step 9," not in last
    assert "cut off" not in str(result)


def test_replies_that_were_cut_off_are_counted(tmp_path):
    with FakeLlmServer([completion("<think>Where is", finish="length")] * MANY) as server:
        result = evaluate(tmp_path, server.url, questions="direct")
    assert result.episodes[0].cut_off == result.unparsable == 12
    assert "replies cut off" in str(result)
    assert "raise max_reply_tokens" in str(result)


def test_an_interrupted_evaluation_continues_exactly_and_pays_for_nothing_twice(tmp_path):
    with FakeLlmServer([play] * MANY) as server:
        expected = evaluate(tmp_path / "whole", server.url, episodes=2)
        total = len(server.requests)
    with FakeLlmServer([*[play] * 25, status(401, "expired")]) as server, pytest.raises(RejectedError):
        evaluate(tmp_path / "part", server.url, episodes=2)
    assert not (tmp_path / "part/evaluation.json").exists()
    with FakeLlmServer([play] * MANY) as server:
        result = evaluate(tmp_path / "part", server.url, episodes=2)
        assert len(server.requests) == total - 25
        assert evaluate(tmp_path / "part", server.url, episodes=2) == result  # complete: nothing is sent
        assert len(server.requests) == total - 25
    assert without_seconds(result) == without_seconds(expected)


def without_seconds(result: LlmEvaluation) -> dict:
    document = result.model_dump()
    for usage in (document["usage"], *(episode["usage"] for episode in document["episodes"])):
        del usage["seconds"]
    return document


def test_episodes_in_parallel_give_the_same_result(tmp_path):
    with FakeLlmServer([play] * MANY) as server:
        expected = evaluate(tmp_path / "one", server.url, episodes=5)
    together, at_once, lock = threading.Barrier(3, timeout=30), [], threading.Lock()

    def wait_for_two_others(handler, body):
        with lock:
            at_once.append(len(at_once))
            first = len(at_once) <= 3
        if first:
            together.wait()  # passes only if three requests are open at the same time
        play(handler, body)

    with FakeLlmServer([wait_for_two_others] * MANY) as server:
        result = evaluate(tmp_path / "three", server.url, episodes=5, parallel=3)
    assert without_seconds(result) == without_seconds(expected)


def test_more_episodes_extend_an_evaluation_and_fewer_shorten_it(tmp_path):
    with FakeLlmServer([play] * MANY) as server:
        two = evaluate(tmp_path, server.url, episodes=2)
        sent = len(server.requests)
        three = evaluate(tmp_path, server.url, episodes=3)
        assert three.episodes[:2] == two.episodes
        assert len(server.requests) == sent + three.episodes[2].usage.calls
        assert evaluate(tmp_path, server.url, episodes=1).episodes == two.episodes[:1]


@pytest.mark.parametrize("parallel", [1, 3])
def test_the_budget_is_a_hard_limit_across_episodes_and_resumes(tmp_path, parallel):
    with FakeLlmServer([play] * MANY) as server:
        with pytest.raises(BudgetExceededError, match=r"max_calls is 7\b.*0 of 3 episodes are complete"):
            evaluate(tmp_path, server.url, 3, questions="direct", max_calls=7, parallel=parallel, level={"length": 9})
        assert len(server.requests) == 7
        with pytest.raises(BudgetExceededError):
            evaluate(tmp_path, server.url, 3, questions="direct", max_calls=9, parallel=parallel, level={"length": 9})
        assert len(server.requests) == 9
        result = evaluate(tmp_path, server.url, 3, questions="direct", parallel=parallel, level={"length": 9})
        assert result.usage.calls == len(server.requests)


def test_a_spent_budget_says_how_many_episodes_can_be_reported(tmp_path):
    with FakeLlmServer([play] * MANY) as server:
        with pytest.raises(BudgetExceededError, match=r"evaluate the first 1 with --episodes 1; 1 of 2 episodes"):
            evaluate(tmp_path, server.url, 2, questions="direct", max_calls=6)
        assert evaluate(tmp_path, server.url, 1, questions="direct", max_calls=6).evaluation.episodes == 1
        assert len(server.requests) == 6


def test_a_budget_in_dollars_counts_what_the_server_reports(tmp_path):
    with FakeLlmServer([completion("Action: ring", cost=0.25)] * MANY) as server:
        with pytest.raises(ChatError, match="max_cost needs the prices"):
            evaluate(tmp_path / "unknown", server.url, max_cost=1.0, questions="direct")
        with pytest.raises(BudgetExceededError, match="max_cost"):
            evaluate(tmp_path, server.url, max_cost=1.0, questions="direct", price_prompt=1, price_reply=1)
        assert len(server.requests) == 4
        result = evaluate(tmp_path, server.url, questions="direct")
    assert result.usage.dollars == 3.0


def test_a_shared_budget_that_cannot_be_used_is_refused_before_anything_is_written(tmp_path):
    file, folder = tmp_path / "budget.json", tmp_path / "run"
    with pytest.raises(SharedBudgetError, match="there is no shared budget"):
        evaluate(folder, "http://localhost:1", shared_budget=file)
    BudgetFile.create(file, SharedLimits(max_cost=1.0))
    with pytest.raises(ChatError, match="max_cost needs the prices"):
        evaluate(folder, "http://localhost:1", shared_budget=file)
    assert not folder.exists()


def test_without_prices_dollars_are_unknown(tmp_path):
    with FakeLlmServer([play] * MANY) as server:
        result = evaluate(tmp_path, server.url, questions="direct")
    assert result.usage.dollars is None
    assert "unknown" in result.usage_table()


def test_a_failing_server_stops_all_episodes(tmp_path):
    with FakeLlmServer([*[play] * 3, *[status(404, "no such model")] * 20]) as server:
        with pytest.raises(RejectedError, match="no such model"):
            evaluate(tmp_path, server.url, 8, parallel=4)
        assert len(server.requests) < 10
    assert (tmp_path / "run.json").exists()


def test_a_person_plays_through_files(tmp_path):
    """`manual`: each request is a file; the reply is a file beside it."""
    requests, stop = [], threading.Event()

    def answer() -> None:
        folder = tmp_path / "episodes/1/requests"
        while not stop.is_set():
            for file in folder.glob("[0-9]*-????????.md"):
                reply = file.with_name(f"{file.stem}.reply.md")
                if not reply.exists():
                    requests.append(file.read_text())
                    reply.write_text("walk_right\n")
            time.sleep(0.01)

    person = threading.Thread(target=answer)
    person.start()
    try:
        messages = []
        result = evaluate(tmp_path, "", llm="manual", parallel=None, questions="direct", log=messages.append)
    finally:
        stop.set()
        person.join()
    assert result.evaluation.skills["find_door"].value == 100
    assert result.usage.dollars == 0
    assert len(requests) == result.usage.calls == result.episodes[0].length
    assert "Corridor" not in requests[0]
    assert "You are in a corridor." in requests[0]
    assert any("write the reply to" in message for message in messages)


def test_a_recorded_evaluation_is_replayed(tmp_path):
    with FakeLlmServer([play] * MANY) as server:
        expected = evaluate(tmp_path / "first", server.url, episodes=2)
    again = evaluate(tmp_path / "again", llm=f"replay:{tmp_path / 'first'}", episodes=2)
    assert again.evaluation == expected.evaluation
    assert again.usage.dollars == 0
    with pytest.raises(ChatError, match=r"there is no .*ledger-0001\.jsonl to replay"):
        evaluate(tmp_path / "none", llm=f"replay:{tmp_path}")
    assert not (tmp_path / "none").exists()


def test_long_episodes_have_several_ledgers(tmp_path, monkeypatch):
    monkeypatch.setattr("envgen.llm_agent.evaluate.STEPS_PER_LEDGER", 5)
    with FakeLlmServer(["Action: walk_left"] * MANY) as server:
        with pytest.raises(BudgetExceededError):
            evaluate(tmp_path, server.url, questions="direct", max_calls=8)
        result = evaluate(tmp_path, server.url, questions="direct")
        assert len(server.requests) == result.usage.calls == 12
    assert sorted(file.name for file in tmp_path.glob("episodes/1/ledger*")) == [
        "ledger-0001.jsonl", "ledger-0002.jsonl", "ledger-0003.jsonl"
    ]  # fmt: skip
    assert evaluate(tmp_path / "again", llm=f"replay:{tmp_path}", questions="direct").evaluation == result.evaluation


def test_other_settings_need_another_directory(tmp_path):
    with FakeLlmServer([play] * MANY) as server:
        evaluate(tmp_path, server.url, questions="direct")
        for change in ({"questions": "chain"}, {"llm": "openai:other", "questions": "direct"}, {"seed": 8}):
            with pytest.raises(RunError, match="was started with"):
                evaluate(tmp_path, server.url, **{"questions": "direct", **change})


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"number": 2}', None], ids=["cut", "list", "empty", "other", "skill"]
)
def test_a_damaged_result_of_an_episode_is_an_error_that_names_it(tmp_path, content):
    with FakeLlmServer([play] * MANY) as server:
        evaluate(tmp_path, server.url, questions="direct")
        file = tmp_path / "episodes/1/episode.json"
        document = read(file)
        document["skills"] = {"fly": 1}
        file.write_text(json.dumps(document) if content is None else content)
        with pytest.raises(RunError, match="episode"):
            evaluate(tmp_path, server.url, questions="direct")


def test_a_world_without_text_is_an_error(tmp_path):
    class Silent(Corridor):
        observations = ("symbols",)

    with pytest.raises(EnvgenError, match="text observations, which corridor does not have"):
        evaluate_llm_agent(Silent(), LlmAgentConfig(llm="manual"), tmp_path)


def test_a_world_without_named_actions_is_an_error(tmp_path):
    class Continuous(Corridor):
        actions = ()

    with pytest.raises(EnvgenError, match="named actions, which corridor does not have"):
        evaluate_llm_agent(Continuous(), LlmAgentConfig(llm="manual"), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("llm", "message"),
    [
        ({"llm": "gpt"}, "valid forms"),
        ({"llm": "manual", "questions": "many"}, "'many' is not one of chain, direct"),
        ({"llm": "manual", "num_past_action": 3}, "did you mean 'num_past_actions'"),
        ({"llm": "manual", "parallel": 0}, "parallel"),
        ({}, "llm"),
    ],
)
def test_wrong_settings_are_errors(llm, message, tmp_path):
    with pytest.raises(EnvgenError, match=message):
        envgen.evaluate_llm_agent(Corridor(), llm, folder=tmp_path / "run", verbose=False)
    assert not (tmp_path / "run").exists()
