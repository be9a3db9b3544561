"""Small comparisons of the soak test; `make soak` plays millions of steps."""

import queue

import pytest
from attacks import load_attacks

from envgen.worlds.heist.reference import REFERENCE_VENV

SUITE = load_attacks("soak")

import soak_worlds  # noqa: E402  load_attacks makes its folder and that of the benchmarks known


def test_the_suite_has_all_worlds_and_the_interruptions():
    names = {case.name for case in SUITE}
    assert {f"equal steps, {world}" for world in ("Crafter", "Heist", "MiniGrid", "Walker")} <= names
    assert {"kills of runs", "full disks", "read-only directories", "clock jumps"} <= names
    assert "mutated replies, Crafter" not in names


@pytest.mark.parametrize("play", [soak_worlds.play_crafter, soak_worlds.play_minigrid, soak_worlds.play_heist])
def test_worlds_equal_their_references(play):
    if play is soak_worlds.play_heist and not REFERENCE_VENV.exists():
        pytest.skip("make procgen installs the reference")
    assert play(120, 1) == ""


def test_the_walker_equals_gymnasiums():
    pytest.importorskip("Box2D")
    assert soak_worlds.play_walker(200, 1) == ""


@pytest.mark.parametrize(
    ("play", "peaks", "failure"),
    [
        (lambda steps, seed: "", (1000, 1049), ""),
        (lambda steps, seed: "a difference", (1000, 1000), "a difference"),
        (lambda steps, seed: "a difference" if steps == 8 else "", (1000, 1000), "a difference"),
        (lambda steps, seed: [][0], (), "IndexError('list index out of range')"),
        (lambda steps, seed: "", (1000, 1100), "the peak of memory grew by 10% after a fifth of the steps"),
    ],
)
def test_a_difference_a_crash_and_a_leak_are_failures(play, peaks, failure, monkeypatch):
    values, results = iter(peaks), queue.Queue()
    monkeypatch.setattr(soak_worlds, "peak_memory", lambda: next(values))
    soak_worlds.measure(play, 10, 0, results)
    assert results.get_nowait() == failure
