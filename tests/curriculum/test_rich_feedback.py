"""A language model with rich feedback: it learns where episodes fail, weighs its levels, and takes up earlier ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from ladder import LadderLevel
from test_dead_servers import SETTINGS, SavedLadder

from envgen.curriculum.loop import share_envs, train
from envgen.curriculum.plan import TrainingPlan
from envgen.designers.baselines import AdversarialDesigner
from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Ledger
from envgen.designers.chat.protocol import Backend, ChatRequest, Reply
from envgen.designers.designer import Cycle, Proposal, ProposedLevel
from envgen.designers.llm import LlmDesigner, LlmSettings

PLAN = TrainingPlan(
    cycles=3, levels=2, cycle_steps=256, final_steps=64, feedback_groups=2, feedback_episodes=2, episodes=4,
    ranking_steps=32, audit_steps=20,
)  # fmt: skip


def level(rungs: int | None = None, **fields: Any) -> dict[str, Any]:
    return {"purpose": "p", "skills": ["climb"], "level": {} if rungs is None else {"rungs": rungs}, **fields}


REPLIES = [
    [level(2, weight=3), level(4)],
    [level(base="1.1", weight=0.5), level(3, base="1.2", weight=1.5)],
    [level(base="1.2"), level(base="1.1")],
]


class Script(Backend):
    """Answers the k-th request with the k-th reply."""

    name, free = "script", True

    def __init__(self):
        self.requests: list[ChatRequest] = []

    def send(self, request: ChatRequest) -> Reply:
        self.requests.append(request)
        return Reply(text=json.dumps({"levels": REPLIES[len(self.requests) - 1]}), model="script")


def run(folder: Path, feedback: Any = "rich", **plan: Any) -> Script:
    backend = Script()
    settings = LlmSettings(feedback=feedback, revise=False)
    designer = LlmDesigner(lambda: Chat(backend, Ledger(folder / "ledger.jsonl")), settings)
    train(folder, SavedLadder(), designer, PLAN.model_copy(update=plan), "number", 5, learner_settings=SETTINGS)
    return backend


@pytest.fixture(scope="module")
def rich(tmp_path_factory) -> tuple[Path, Script]:
    folder = tmp_path_factory.mktemp("rich")
    return folder, run(folder)


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def test_each_cycle_needs_one_call(rich):
    folder, backend = rich
    assert len(backend.requests) == read(folder, "summary")["llm"]["calls"] == 3


def test_earlier_levels_are_repeated_and_changed(rich):
    folder, _ = rich
    designs = [read(folder, f"cycles/{cycle}/levels")["proposal"]["levels"] for cycle in (1, 2, 3)]
    assert [[item["level"] for item in design] for design in designs] == [
        [{"rungs": 2}, {"rungs": 4}], [{"rungs": 2}, {"rungs": 3}], [{"rungs": 4}, {"rungs": 2}]
    ]  # fmt: skip
    assert [[item.get("weight") for item in design] for design in designs] == [[3, None], [0.5, 1.5], [None, None]]
    assert [item.get("base") for item in designs[1]] == ["1.1", "1.2"]


def test_weights_are_shares_of_the_training(rich):
    folder, _ = rich
    lines = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    for cycle, shares in ((1, (3, 1)), (2, (1, 3)), (3, (2, 2))):
        updates = [line["levels"] for line in lines if line["phase"] == f"cycle {cycle}: levels"]
        episodes = [sum(update[k]["episodes"] for update in updates) for k in range(2)]
        assert episodes[0] * shares[1] == episodes[1] * shares[0] > 0  # every episode has the same length


def test_the_model_is_told_how_the_agent_trains_and_how_its_episodes_went(rich):
    folder, backend = rich
    texts = [request.messages[-1].content for request in backend.requests]
    assert "4 environments side by side" in texts[0]
    assert "128 steps in the levels" in texts[0]
    assert "128 episodes of the real game were analyzed. Their median length is 20 steps." in texts[1]
    assert "- time limit: 100%" in texts[1]
    assert "- fly (0.0%): " in texts[1]
    assert "Level 1.1 (weight 3): " in texts[1]
    assert "Level 1.1 (used before, weight 0.5): " in texts[2]
    assert "Level 2.2 (changed from 1.2, weight 1.5): " in texts[2]
    assert "Level 1.2: " in texts[2]
    assert "no longer trains" in texts[2]
    older = backend.requests[2].messages[2].content  # what the newest report has is left out
    assert "Level 1.1 (weight 3): " in older
    assert "standard error" in texts[1]
    assert "standard error" not in older
    stored = Cycle.from_json(read(folder, "cycles/1/evaluation")["cycle"], LadderLevel)
    assert stored.diagnosis is not None
    assert stored.diagnosis.episodes == 128


def test_a_run_that_starts_again_sends_the_same_requests(rich, tmp_path):
    folder, backend = rich
    (tmp_path / "ledger.jsonl").write_bytes((folder / "ledger.jsonl").read_bytes())
    again = run(tmp_path)
    assert again.requests == []  # all are in the ledger
    assert len(backend.requests) == 3


def test_other_feedback_costs_no_episodes_and_leaves_run_directories_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "REPLIES", [[level(2), level(4)], [level(3), level(4)]])
    run(tmp_path, "paper", cycles=2)
    assert "diagnosis" not in read(tmp_path, "cycles/1/evaluation")["cycle"]
    assert read(tmp_path, "cycles/1/levels")["proposal"]["levels"][0].keys() == {"level", "purpose", "skills"}


def test_wrappers_want_what_their_source_wants():
    for feedback in ("paper", "rich"):
        source = LlmDesigner(lambda: Chat(Script(), Ledger(Path())), LlmSettings(feedback=feedback))
        assert AdversarialDesigner(source).wants_diagnosis == source.wants_diagnosis == (feedback == "rich")


@pytest.mark.parametrize(
    ("weights", "num_envs", "counts"),
    [
        ((1, 1, 1), 7, (3, 2, 2)),
        ((2, 1, 1), 8, (4, 2, 2)),
        ((10, 0.1), 8, (7, 1)),  # every level is played
        ((3, 1), 2, (1, 1)),
        ((0.2, 0.1), 6, (4, 2)),
        ((5, 1, 1), 3, (1, 1, 1)),
    ],
)
def test_environments_are_shared_by_weight(weights, num_envs, counts):
    levels = [LadderLevel(rungs=k) for k in range(len(weights))]
    shared = share_envs(levels, weights, num_envs)
    assert len(shared) == num_envs
    assert tuple(shared.count(level) for level in levels) == counts


def test_equal_weights_alternate():
    levels = [LadderLevel(rungs=k) for k in range(2)]
    assert share_envs(levels, (2, 2), 5) == [levels[0], levels[1]] * 2 + levels[:1]
    assert share_envs([], [], 0) == []


def test_defaults_are_left_out_of_a_proposal():
    item = ProposedLevel(level=LadderLevel(rungs=3))
    assert item.model_dump(mode="json") == {"level": {"rungs": 3}, "purpose": "", "skills": []}
    weighted = Proposal(levels=(item.model_copy(update={"weight": 2.0, "base": "1.1"}),))
    assert Proposal.from_json(json.loads(weighted.model_dump_json()), LadderLevel) == weighted


def test_a_designer_that_is_used_again_after_an_interruption_sends_no_request_twice(tmp_path, monkeypatch):
    backend = Script()
    designer = LlmDesigner(lambda: Chat(backend, Ledger(tmp_path / "ledger.jsonl")), LlmSettings(revise=False))

    def train_again() -> None:
        train(tmp_path, SavedLadder(), designer, PLAN, "number", 5, learner_settings=SETTINGS)

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("envgen.curriculum.loop.audit_all", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train_again()
    assert len(backend.requests) == 1
    train_again()
    assert len(backend.requests) == read(tmp_path, "summary")["llm"]["calls"] == 3
