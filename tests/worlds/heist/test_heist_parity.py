"""Ours is the original: every wall, every float of every thing, every reward and every draw, step by step.

What the original did is on record. Where it is installed (`make oracle`) new games are played beside it as well.
"""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from envgen.worlds.heist.original import HOME, SEEN, Asked, Oracle
from envgen.worlds.heist.reference import difference, hashes, play, players

RECORDED = json.loads(gzip.decompress((Path(__file__).parent / "recorded.json.gz").read_bytes()))
GAMES = [game for game in RECORDED if game["steps"]]
LEVELS = [game for game in RECORDED if not game["steps"]]


def name_of(game) -> str:
    return "{mode}-{rand_seed}".format(**game["asked"])


def replayed(game):
    actions = np.array([[ord(letter) - ord("a") for letter in of_one] for of_one in game["actions"]], np.int64).T
    return play(Asked(**game["asked"]), game["steps"], lambda envs, step: actions[step])


@pytest.mark.parametrize("game", GAMES, ids=name_of)
def test_a_recorded_game_goes_the_same_way(game):
    ours = replayed(game)
    assert hashes(ours.seen) == game["states"]


def test_the_recorded_games_are_worth_replaying():
    seen = [replayed(game).seen for game in GAMES]
    gems = sum(int((one["reward"] == 10).sum()) for one in seen)
    timeouts = sum(int(((one["first"] == 1) & (one["reward"] == 0))[1:].sum()) for one in seen)
    keys = sum(int((np.diff(one["has_key"].astype(int), axis=0) > 0).sum()) for one in seen)
    doors = sum(
        int(((np.diff(one["count"], axis=0) == -1) & (np.diff(one["seed"], axis=0) == 0)).sum()) for one in seen
    )
    assert gems > 100
    assert timeouts >= 1
    assert keys > 100
    assert doors > keys * 1.5  # keys taken and doors opened both lessen what there is


@pytest.mark.parametrize("game", LEVELS, ids=name_of)
def test_recorded_levels_begin_the_same(game):
    ours = play(Asked(**game["asked"]), 0, lambda envs, step: np.zeros(0))
    assert hashes(ours.seen.T) == game["states"]


def test_a_difference_does_not_go_unseen():
    ours = play(Asked(num=2), 3, lambda envs, step: np.array([1, 2]))
    theirs = ours.seen.copy()
    assert difference(ours, theirs) is None
    theirs["agent"][2, 1, 2] = np.nextafter(theirs["agent"][2, 1, 2], np.float32(9))
    assert "environment 1 after 2 steps: agent" in (difference(ours, theirs) or "")
    assert SEEN.names is not None


@pytest.mark.skipif(not HOME.exists(), reason="the original is not installed here: make oracle")
@pytest.mark.parametrize("mode", ["easy", "hard", "memory"])
def test_new_games_beside_the_original(mode):
    asked = Asked(mode, 8, rand_seed=99)
    ours = play(asked, 120, players(8, 99))
    with Oracle() as oracle:
        assert difference(ours, *oracle.play(asked, ours.actions)) is None
