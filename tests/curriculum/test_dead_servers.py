"""A chat server that dies stops the run with an error message. Resumed with a server that answers, the run ends
as if nothing had happened.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from ladder import Ladder, LadderEnvs, LadderLevel

from envgen.curriculum.loop import TrainingSummary, train
from envgen.curriculum.plan import TrainingPlan
from envgen.designers.chat.backends import OpenAIBackend
from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Ledger
from envgen.designers.chat.protocol import AmbiguousError, ChatError, RejectedError, RetryableError
from envgen.designers.llm import LlmDesigner, LlmSettings
from envgen.runs.checkpoint import load_latest
from fake_llm_server import FakeLlmServer, hang_response, raw, status, truncated_response

PLAN = TrainingPlan(
    cycles=2, levels=2, cycle_steps=128, final_steps=64, feedback_groups=2, feedback_episodes=2, episodes=4,
    ranking_steps=32, audit_steps=20,
)  # fmt: skip
SETTINGS = {"num_envs": 4, "num_steps": 8, "update_epochs": 1, "num_minibatches": 1}
DESIGNS = [
    json.dumps({"levels": [{"purpose": f"cycle {cycle}", "skills": ["climb"], "level": {"rungs": rungs}}
                           for rungs in (cycle, cycle + 1)]})
    for cycle in (1, 2)
]  # fmt: skip
DEAD = {
    "401": (status(401, "expired"), RejectedError),
    "404": (status(404, "no such model"), RejectedError),
    "redirect": (status(302), RejectedError),
    "500": (status(500), RetryableError),
    "page": (raw(b"<html>Maintenance", "text/html"), AmbiguousError),
    "cut": (truncated_response, AmbiguousError),
    "hang": (hang_response, AmbiguousError),
}


class SavedLadderEnvs(LadderEnvs):
    """Can be saved in mid-episode, so that a run of them can be resumed."""

    def get_state(self) -> dict[str, np.ndarray]:
        return {"height": self.height.copy(), "steps": self.steps.copy(), "climbs": self.climbs.copy()}

    def set_state(self, state: dict[str, np.ndarray]) -> np.ndarray:
        self.height, self.steps, self.climbs = (state[name].copy() for name in ("height", "steps", "climbs"))
        return self._obs()


class SavedLadder(Ladder):
    def make(self, levels=(), num_envs=None, seed=None, observation="number", **kwargs) -> SavedLadderEnvs:
        parsed = [LadderLevel.parse(level) for level in levels] or [LadderLevel()]
        return SavedLadderEnvs(parsed, num_envs or len(parsed))


def run(folder: Path, url: str, timeout: float = 60) -> TrainingSummary:
    def open_chat() -> Chat:
        backend = OpenAIBackend("model", url, timeout=timeout)
        return Chat(backend, Ledger(folder / "ledger.jsonl"), attempts=3, sleep=lambda seconds: None)

    return train(
        folder,
        SavedLadder(),
        LlmDesigner(open_chat, LlmSettings(revise=False)),
        PLAN,
        "number",
        seed=5,
        learner_settings=SETTINGS,
    )


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    with pytest.MonkeyPatch.context() as patch, FakeLlmServer(DESIGNS) as server:
        patch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
        run(folder, server.url)
    return folder


@pytest.mark.parametrize("name", DEAD)
def test_a_dead_server_stops_the_run_and_only_the_call_is_lost(name, tmp_path, uninterrupted):
    answer, error_type = DEAD[name]
    with FakeLlmServer([DESIGNS[0], *[answer] * 9]) as server:
        for _ in range(2):  # a run that is resumed too early stops again
            with pytest.raises(error_type, match="resume the run") as caught:
                run(tmp_path, server.url, timeout=2 if name == "hang" else 60)
        assert isinstance(caught.value, ChatError)
        attempts = 1 if error_type is RejectedError else 3
        assert len(server.requests) == 1 + 2 * attempts
        failed = server.requests[-1].body
    with FakeLlmServer(DESIGNS[1:]) as server:
        summary = run(tmp_path, server.url)
        assert [request.body for request in server.requests] == [failed]
    expected = json.loads((uninterrupted / "summary.json").read_text())
    assert summary.model_dump(mode="json")["final"] == expected["final"]
    assert summary.llm["calls"] == 2 + (2 * attempts if error_type is AmbiguousError else 0)  # it may be charged
    first, second = (load_latest(folder / "checkpoints") for folder in (uninterrupted, tmp_path))
    assert first is not None
    assert second is not None
    for key, array in first.arrays["agent"].items():
        assert (second.arrays["agent"][key] == array).all(), key
