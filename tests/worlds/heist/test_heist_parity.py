"""Heist equals the reference: every wall, every float, every reward and every random draw, step by step.

Rollouts of the reference are recorded. Where it is installed (`make procgen`), new episodes are compared as well.
"""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from envgen.worlds.heist.reference import (
    REFERENCE_VENV,
    STATE,
    ReferenceHeist,
    RolloutRequest,
    first_difference,
    mixed_policies,
    record_engine_rollout,
    row_hashes,
)

RECORDINGS = json.loads(gzip.decompress((Path(__file__).parent / "recorded.json.gz").read_bytes()))
EPISODES = [recording for recording in RECORDINGS if recording["steps"]]
STARTS = [recording for recording in RECORDINGS if not recording["steps"]]


def recording_id(recording) -> str:
    return "{mode}-{rand_seed}".format(**recording["request"])


def replay(recording):
    letters = recording["actions"]  # one string per environment
    actions = np.array([[ord(letter) - ord("a") for letter in word] for word in letters], np.int64).T
    request = RolloutRequest(**recording["request"])
    return record_engine_rollout(request, recording["steps"], lambda envs, step: actions[step])


@pytest.mark.parametrize("recording", EPISODES, ids=recording_id)
def test_recorded_episodes_replay_exactly(recording):
    actual = replay(recording)
    assert row_hashes(actual.states) == recording["state_hashes"]


def test_recorded_episodes_cover_gems_keys_doors_and_timeouts():
    all_states = [replay(recording).states for recording in EPISODES]
    gems = sum(int((states["reward"] == 10).sum()) for states in all_states)
    timeouts = sum(int(((states["first"] == 1) & (states["reward"] == 0))[1:].sum()) for states in all_states)
    keys = sum(int((np.diff(states["has_key"].astype(int), axis=0) > 0).sum()) for states in all_states)
    removed = sum(
        int(((np.diff(states["num_entities"], axis=0) == -1) & (np.diff(states["seed"], axis=0) == 0)).sum())
        for states in all_states
    )
    assert gems > 100
    assert timeouts >= 1
    assert keys > 100
    assert removed > keys * 1.5  # both taking a key and opening a door remove an entity


@pytest.mark.parametrize("recording", STARTS, ids=recording_id)
def test_recorded_mazes_start_the_same(recording):
    actual = record_engine_rollout(RolloutRequest(**recording["request"]), 0, lambda envs, step: np.zeros(0))
    assert row_hashes(actual.states.T) == recording["state_hashes"]


def test_first_difference_detects_one_changed_bit():
    actual = record_engine_rollout(RolloutRequest(num_envs=2), 3, lambda envs, step: np.array([1, 2]))
    expected = actual.states.copy()
    assert first_difference(actual, expected) is None
    expected["agent"][2, 1, 2] = np.nextafter(expected["agent"][2, 1, 2], np.float32(9))
    assert "environment 1 after 2 steps: agent" in (first_difference(actual, expected) or "")
    assert STATE.names is not None


@pytest.mark.skipif(not REFERENCE_VENV.exists(), reason="the reference is not installed: make procgen")
@pytest.mark.parametrize("mode", ["easy", "hard", "memory"])
def test_new_episodes_match_the_reference(mode):
    request = RolloutRequest(mode, 8, rand_seed=99)
    actual = record_engine_rollout(request, 120, mixed_policies(8, 99))
    with ReferenceHeist() as reference:
        assert first_difference(actual, *reference.rollout(request, actual.actions)) is None
