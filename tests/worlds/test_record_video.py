"""Gymnasium's RecordVideo records every world, single environments and vectors of them."""

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordVideo
from gymnasium.wrappers.vector import RecordVideo as RecordVectorVideo

pytest.importorskip("moviepy", reason="RecordVideo writes its files with moviepy")
imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
WORLDS = ["Crafter", "Heist"]
STEPS = 12


@pytest.mark.parametrize("world", WORLDS)
def test_single_environments_are_recorded(world, tmp_path):
    env = gymnasium.make(f"envgen/{world}-v0", render_mode="rgb_array", render_size=64)
    env = RecordVideo(env, str(tmp_path / "videos"), name_prefix="run")
    env.reset(seed=3)
    for _ in range(STEPS):
        env.step(1)
    env.close()
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "videos" / "run-episode-0.mp4"))
    assert frames == STEPS + 1
    assert seconds == pytest.approx(frames / env.metadata["render_fps"], abs=0.2)


@pytest.mark.parametrize("world", WORLDS)
def test_vector_environments_are_recorded(world, tmp_path):
    settings = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_mode": "rgb_array", "render_size": 64}
    envs = gymnasium.make_vec(f"envgen/{world}-v0", 3, **settings)
    envs = RecordVectorVideo(envs, str(tmp_path / "videos"), video_aspect_ratio=(1, 1))
    envs.reset(seed=3)
    for _ in range(STEPS):
        envs.step([1, 1, 1])
    envs.close()
    [file] = (tmp_path / "videos").glob("*.mp4")
    assert imageio_ffmpeg.count_frames_and_secs(str(file))[0] == STEPS + 1
