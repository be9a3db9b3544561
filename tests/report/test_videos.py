"""Episodes are recorded, chosen, repeated exactly and written as videos, in any world."""

import sys
from contextlib import closing

import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from envgen.curriculum.evaluate import evaluate, make_envs
from envgen.episodes_api import Recording
from envgen.report import videos
from envgen.report.episodes import ActionRecorder, EpisodeError, EpisodePlayer, RecordedEpisode, choose_episodes, repeat
from envgen.report.overlay import FrameComposer
from envgen.report.videos import VideoError, choose_format, write_video
from envgen.worlds.python_world import PythonEnv, PythonWorld
from envgen.worlds.registry import make_world
from envgen.worlds.world import Level, Skill

NUM_ENVS = 3


class PathEnv(PythonEnv):
    """Walk to the end of a path. Every step may slip, so later episodes of an environment depend on earlier ones."""

    observation_space = spaces.Box(0, 9, (1,), np.int64)
    max_episode_steps = 12

    def begin(self):
        return {"cell": int(self.np_random.integers(3)), "breath": 4}

    def observe(self):
        return np.array([self.state["cell"]])

    def advance(self, action):
        self.state["breath"] = 4 if action == 0 else self.state["breath"] - 1
        if action == 1 and self.np_random.random() < 0.7:
            self.state["cell"] += 1
        if self.state["cell"] == 5:
            self.achieve("halfway")
        if self.state["cell"] == 7:
            self.achieve("arrive")
        return float(self.state["cell"] == 7), self.state["cell"] == 7 or self.state["breath"] == 0

    def _info(self):
        return {**super()._info(), "amounts": {"breath": self.state["breath"], "stones": self.state["cell"]}}


class Path(PythonWorld):
    name, Level, env_class = "path", Level, PathEnv
    skills, actions = (Skill("halfway"), Skill("arrive", ("halfway",))), ("rest", "walk")
    observations = ("symbols",)
    rules = "Walk."
    gauges = {"breath": 4}  # noqa: RUF012

    def status(self, info):
        return info["amounts"]


class RandomWalker:
    has_memory = False

    def act(self, observations, rng):
        return (rng.random(len(observations)) < 0.8).astype(int)


@pytest.fixture(scope="module")
def recording() -> Recording:
    world, seed = Path(), 40
    recorder = ActionRecorder(world, seed)
    with closing(world.make([{}], NUM_ENVS, seed)) as envs:
        evaluation = evaluate(RandomWalker(), world, None, 24, seed, "symbols", envs=envs, observer=recorder)
    return Recording(world, world.original, evaluation, recorder.episodes())


def test_recorded_episodes_are_those_of_the_evaluation(recording):
    episodes, evaluation = recording.episodes, recording.evaluation
    assert [(episode.seed, episode.number) for episode in episodes[:4]] == [(40, 1), (41, 1), (42, 1), (40, 2)]
    assert len(episodes) == evaluation.episodes == 24
    assert np.mean([len(episode.actions) for episode in episodes]) == pytest.approx(evaluation.length.value)
    assert np.mean([episode.episode_return for episode in episodes]) == pytest.approx(evaluation.reward.value)
    for name, rate in evaluation.skills.items():
        assert 100 * np.mean([name in episode.first_success for episode in episodes]) == pytest.approx(rate.value)
    assert 0 < evaluation.skills["arrive"].value < 100


def test_later_episodes_of_an_environment_are_repeated_exactly(recording):
    episode = max(recording.episodes, key=lambda episode: (episode.number, len(episode.actions)))
    assert episode.number == 8
    with closing(recording.world.single_rendered(None)) as env:
        player = EpisodePlayer(recording.world, env)
        steps = [player.step for _ in repeat(player, episode)]
        assert steps == list(range(len(episode.actions) + 1))
        assert player.first_success == episode.first_success
        assert player.episode_return == episode.episode_return
        assert player.ended
        assert player.status.keys() == {"breath", "stones"}


def test_episodes_of_an_environment_share_the_actions_of_earlier_ones(recording):
    first, second, third = (e for e in recording.episodes if e.seed == 40 and e.number <= 3)
    assert third.earlier_actions[0] is second.earlier_actions[0] is first.actions


def test_an_episode_that_differs_when_replayed_is_refused(recording):
    episode = recording.choose(1, skill="arrive")[0]
    wrong = RecordedEpisode(episode.seed + 1000, 1, episode.actions, (), 1.0, {"arrive": 1})
    with closing(recording.world.single_rendered(None)) as env, pytest.raises(EpisodeError, match="a different result"):
        for _ in repeat(EpisodePlayer(recording.world, env), wrong, 1):
            pass


def test_episodes_are_chosen_by_order_return_and_skill(recording):
    episodes = recording.episodes
    assert choose_episodes(episodes, 2) == list(episodes[:2])
    returns = [episode.episode_return for episode in recording.choose(24, best=True)]
    assert returns == sorted(returns, reverse=True)
    arrivals = [episode.first_success["arrive"] for episode in recording.choose(24, skill="arrive")]
    assert arrivals == sorted(arrivals)
    assert 0 < len(arrivals) < 24
    with pytest.raises(EpisodeError, match="skill 'arive' is not one of halfway, arrive; did you mean 'arrive'"):
        recording.choose(1, skill="arive")
    failures = [episode for episode in episodes if "arrive" not in episode.first_success]
    with pytest.raises(EpisodeError, match="arrive is achieved in none of the"):
        Recording(recording.world, recording.level, recording.evaluation, failures).choose(1, skill="arrive")


def test_the_panel_shows_amounts_action_and_new_skills(recording):
    episode, composer = recording.choose(1, skill="arrive")[0], FrameComposer(240)
    with closing(recording.world.single_rendered(None)) as env:
        player = EpisodePlayer(recording.world, env)
        frames = [composer.compose(player, "path", episode.name) for _ in repeat(player, episode)]
    assert {frame.shape for frame in frames} == {(composer.height, composer.width, 3)}
    assert all((frames[k][:, 240:] != frames[k + 1][:, 240:]).any() for k in range(len(frames) - 1))
    yellow = [(frame == (255, 209, 102)).all(-1).sum() for frame in frames]
    assert yellow[0] == 0
    assert yellow[-1] > 500  # the box around the skill that has just succeeded


def test_many_skills_fit_into_the_panel(recording):
    class ManySkills(Path):
        skills = tuple(Skill(f"a_skill_with_a_long_name_{k}") for k in range(200))

    with closing(ManySkills().single_rendered(None)) as env:
        player = EpisodePlayer(ManySkills(), env)
        player.reset(0)
        player.first_success = {skill.name: 0 for skill in ManySkills.skills}
        composer = FrameComposer(160, ["one", "two"])
        assert composer.compose(player, "x" * 500, "y" * 500).shape == (composer.height, composer.width, 3)


# --- files


@pytest.mark.parametrize("video_format", ["webp", "gif"])
def test_animations_hold_every_step_and_the_last_one_longer(recording, tmp_path, video_format):
    messages = []
    [file] = recording.write_videos(
        tmp_path, 1, skill="arrive", video_format=video_format, on_message=messages.append
    )  # fmt: skip
    episode = recording.choose(1, skill="arrive")[0]
    assert file.name == f"arrive-1.{video_format}"
    with Image.open(file) as image:
        assert len(episode.actions) + 1 <= image.n_frames  # pyright: ignore[reportAttributeAccessIssue]
    assert f"{len(episode.actions)} steps, return 1.00, 2 of 2 skills" in messages[0]
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_mp4_files_have_the_world_s_frame_rate(recording, tmp_path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    files = recording.write_videos(tmp_path / "new" / "folder", 2, best=True)
    assert [file.name for file in files] == ["best-1.mp4", "best-2.mp4"]
    episode = recording.choose(1, best=True)[0]
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(files[0]))
    assert frames == len(episode.actions) + 1 + 15  # the last frame stays for a second and a half
    assert seconds == pytest.approx(frames / 10, abs=0.2)
    assert not list((tmp_path / "new" / "folder").glob(".*"))


@pytest.mark.parametrize("kept", [0, 1000, -100])
def test_an_incomplete_mp4_file_replaces_nothing(recording, tmp_path, monkeypatch, kept):
    """As on a full disk: ffmpeg writes a part of the file, and imageio-ffmpeg does not say so."""
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    (tmp_path / "best-1.mp4").write_text("earlier")
    write_frames = imageio_ffmpeg.write_frames

    def write_incompletely(path, *args, **kwargs):
        writer = write_frames(path, *args, **kwargs)
        try:
            frame = yield writer.send(None)
            while True:
                frame = yield writer.send(frame)
        finally:
            writer.close()
            with open(path, "rb+") as file:
                file.truncate(max(0, kept if kept >= 0 else file.seek(0, 2) + kept))

    monkeypatch.setattr(imageio_ffmpeg, "write_frames", write_incompletely)
    with pytest.raises(VideoError, match=r"cannot write .*best-1.mp4: ffmpeg did not complete the file; is the disk"):
        recording.write_videos(tmp_path, 1, best=True, video_format="mp4")
    assert [file.name for file in tmp_path.iterdir()] == ["best-1.mp4"]
    assert (tmp_path / "best-1.mp4").read_text() == "earlier"


def test_long_animations_lose_their_first_steps(recording, tmp_path, monkeypatch):
    monkeypatch.setattr(videos, "MAX_ANIMATION_FRAMES", 4)
    episode, messages = max(recording.episodes, key=lambda episode: len(episode.actions)), []
    long = Recording(recording.world, recording.level, recording.evaluation, [episode])
    long.write_videos(tmp_path, 1, video_format="webp", on_message=messages.append)
    assert f"the first {len(episode.actions) - 3} steps are left out" in messages[0]


def test_links_in_the_folder_are_not_followed(recording, tmp_path, monkeypatch):
    """The folder may be that of someone else's run."""
    pytest.importorskip("imageio_ffmpeg")
    folder, other = tmp_path / "videos", tmp_path / "other"
    folder.mkdir()
    other.write_text("mine")
    monkeypatch.setattr(videos.secrets, "token_hex", lambda size: "guessed")
    (folder / ".best-1.mp4.guessed.mp4").symlink_to(other)
    (folder / ".writable").symlink_to(tmp_path / "new")
    recording.write_videos(folder, 1, best=True, video_format="mp4")
    assert other.read_text() == "mine"
    assert not (tmp_path / "new").exists()
    assert [file.name for file in folder.iterdir() if not file.is_symlink()] == ["best-1.mp4"]


def test_without_ffmpeg_videos_are_webp(monkeypatch):
    monkeypatch.setattr(videos, "is_installed", lambda name: False)
    assert choose_format(None) == "webp"
    assert choose_format("gif") == "gif"
    with pytest.raises(VideoError, match=r"MP4 files need imageio-ffmpeg: pip install 'envgen\[video\]'"):
        choose_format("mp4")
    with pytest.raises(VideoError, match="video format 'mpeg' is not one of mp4, webp, gif"):
        choose_format("mpeg")


def test_a_skill_with_a_slash_names_a_file_in_the_folder(tmp_path):
    class RestEnv(PathEnv):
        def advance(self, action):
            self.achieve("rest/walk")
            return 0.0, True

    class Rest(Path):
        env_class, skills = RestEnv, (Skill("rest/walk"),)

    episode = RecordedEpisode(0, 1, (0,), (), 0.0, {"rest/walk": 1})
    recording = Recording(Rest(), Level(), None, [episode])
    files = recording.write_videos(tmp_path, skill="rest/walk", video_format="gif")
    assert files == [tmp_path / "rest-walk-1.gif"]
    assert files[0].stat().st_size


@pytest.mark.skipif(sys.platform == "win32", reason="other messages")
def test_files_that_cannot_be_written_are_reported(recording, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(VideoError, match=r"cannot write videos to .*: Not a directory"):
        recording.write_videos(tmp_path / "file" / "videos", 1)
    (tmp_path / "episode-1.gif").mkdir()
    with pytest.raises(Exception, match=r"cannot write .*episode-1.gif: Is a directory"):
        recording.write_videos(tmp_path, 1, video_format="gif")


@pytest.mark.parametrize("name", ["crafter", "heist"])
def test_episodes_of_the_worlds_are_repeated(name, tmp_path):
    class Random:
        has_memory = False

        def act(self, observations, rng):
            return rng.integers(1, 9, len(observations))

    world = make_world(name)
    level, recorder = world.Level.parse({"length": 40} if name == "crafter" else None), ActionRecorder(world, 7)
    with closing(make_envs(world, level, 2, 7, "symbols")) as envs:
        evaluate(Random(), world, level, 4 if name == "crafter" else 2, 7, "symbols", envs=envs, observer=recorder)
    episode = max(recorder.episodes(), key=lambda episode: (episode.number, -len(episode.actions)))
    short = RecordedEpisode(
        episode.seed, episode.number, episode.actions[:40], episode.earlier_actions, 0.0,
        {name: step for name, step in episode.first_success.items() if step <= 40},
    )  # fmt: skip
    assert write_video(short, world, level, tmp_path / "video.webp", "webp") == 0
    with Image.open(tmp_path / "video.webp") as image:
        assert image.n_frames > 20  # pyright: ignore[reportAttributeAccessIssue]
