"""Clips of what a policy does in Crafter."""

import numpy as np
import pytest

from envgen.report.clips import FRAME_SIZE, make_clips, play_episodes
from envgen.worlds.registry import make_world


class RandomPolicy:
    """Takes the actions that let some episodes collect saplings, and rarely place them."""

    def act(self, obs, rng):
        return rng.choice([1, 2, 3, 4, 5, 5, 5], size=len(obs))

    def reset(self, infos):
        pass

    def observe(self, rewards, dones, infos):
        pass


@pytest.fixture(scope="module")
def world():
    return make_world("crafter")


def test_episodes_are_the_same_every_time(world, monkeypatch):
    monkeypatch.setattr("envgen.report.clips.NUM_EPISODES", 8)
    monkeypatch.setattr("envgen.report.clips.MAX_STEPS", 60)
    episodes = play_episodes(RandomPolicy(), world, "symbols")
    assert [len(episode.actions) for episode in episodes] == [60] * 8
    assert episodes == play_episodes(RandomPolicy(), world, "symbols")


def test_clips_show_a_typical_episode_and_the_way_to_each_hard_skill(world, monkeypatch):
    monkeypatch.setattr("envgen.report.clips.NUM_EPISODES", 16)
    monkeypatch.setattr("envgen.report.clips.MAX_STEPS", 100)
    monkeypatch.setattr("envgen.report.clips.MAX_SUCCESS_RATE", 101.0)
    clips = make_clips(RandomPolicy(), world, "symbols")
    assert clips[0].title == "A typical episode"
    assert len(clips[0].frames) == 101
    skills = [clip for clip in clips if clip.title in {skill.name for skill in world.skills}]
    assert skills  # some episode collected something
    for clip in clips:
        assert {frame.shape for frame in clip.frames} == {(FRAME_SIZE, FRAME_SIZE, 3)}
        assert len(clip.actions) == len(clip.frames) - 1
        assert len(clip.vitals["health"]) == len(clip.frames)
        assert clip.vitals["health"][0] == 9
    for clip in skills:
        frame = clip.skills[clip.title]
        assert clip.frames[frame - 1].shape == clip.frames[frame].shape
        assert not np.array_equal(clip.frames[frame - 1], clip.frames[frame])
