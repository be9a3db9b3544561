"""Videos of episodes: MP4 with imageio-ffmpeg, else animated WebP or GIF."""

import io
import secrets
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from PIL import Image

from envgen.errors import EnvgenError
from envgen.imports import is_installed
from envgen.runs.store import write_bytes
from envgen.settings import format_choice_error
from envgen.worlds.world import Level, World

from .episodes import EpisodePlayer, RecordedEpisode
from .episodes import repeat as repeat_episode
from .overlay import FrameComposer

VideoFormat = Literal["mp4", "webp", "gif"]
MP4_SIZE, ANIMATION_SIZE = 480, 336  # pixels along the sides of the picture, without the panel
MAX_ANIMATION_FRAMES = 500  # of a WebP or GIF, whose frames are all held in memory
END_SECONDS = 1.5  # that the last frame stays
DEFAULT_FPS = 10
INSTALL = "pip install 'envgen[video]'"


class VideoError(EnvgenError):
    """A video cannot be written; the message says why."""


def choose_format(name: str | None) -> VideoFormat:
    """A format by its name; by default MP4 if imageio-ffmpeg is installed, else WebP."""
    has_ffmpeg = is_installed("imageio_ffmpeg")
    if name is None:
        return "mp4" if has_ffmpeg else "webp"
    for known in get_args(VideoFormat):
        if name == known:
            if known == "mp4" and not has_ffmpeg:
                raise VideoError(f"MP4 files need imageio-ffmpeg: {INSTALL}; the formats webp and gif need no package")
            return known
    raise VideoError(f"video format {format_choice_error(name, get_args(VideoFormat))}")


def prepare_folder(folder: Path) -> Path:
    """Check that files can be written to a folder, and create it."""
    test = folder / ".writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        test.unlink(missing_ok=True)  # in someone else's run directory, it may be a symbolic link
        test.touch(exist_ok=False)
        test.unlink()
    except OSError as error:
        raise VideoError(f"cannot write videos to {folder}: {error.strerror}") from None
    return folder


def write_video(episode: RecordedEpisode, world: World, level: Level, file: Path, video_format: VideoFormat) -> int:
    """Write the video of one episode; return how many of its first steps were left out."""
    size = MP4_SIZE if video_format == "mp4" else ANIMATION_SIZE
    num_left_out = 0 if video_format == "mp4" else max(0, len(episode.actions) + 1 - MAX_ANIMATION_FRAMES)
    composer = FrameComposer(size)
    with closing(world.single_rendered(level, episode.seed, size=size)) as env:
        fps = float(env.metadata.get("render_fps") or DEFAULT_FPS)
        player = EpisodePlayer(world, env)
        steps = islice(repeat_episode(player, episode), num_left_out, None)
        images = (composer.compose(player, world.name, episode.name) for _ in steps)
        frames = _hold_last(images, round(END_SECONDS * fps))
        try:
            if video_format == "mp4":
                _write_mp4(frames, file, fps, (composer.width, composer.height))
            else:
                _write_animation(frames, file, fps, video_format)
        except OSError as error:
            reason = error.strerror or str(error).splitlines()[0]  # that of imageio-ffmpeg has many lines
            raise VideoError(f"cannot write {file}: {reason}") from None
    return num_left_out


def _hold_last(frames: Iterable[np.ndarray], times: int) -> Iterator[np.ndarray]:
    last: list[np.ndarray] = []
    for frame in frames:
        last = [frame]
        yield frame
    yield from chain.from_iterable(repeat(last, times))


def _write_mp4(frames: Iterable[np.ndarray], file: Path, fps: float, size: tuple[int, int]) -> None:
    """H.264 with 4:2:0 chroma, which every browser and player can show."""
    import imageio_ffmpeg

    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}.mp4")  # several processes may write the file
    temporary.unlink(missing_ok=True)  # ffmpeg would follow a symbolic link
    options: dict[str, Any] = {"fps": fps, "codec": "libx264", "quality": 5, "ffmpeg_log_level": "error"}
    writer = imageio_ffmpeg.write_frames(str(temporary), size, **options, output_params=["-movflags", "+faststart"])
    num_frames = 0
    try:
        writer.send(None)
        for frame in frames:
            writer.send(np.ascontiguousarray(frame))
            num_frames += 1
        writer.close()
        if _count_frames(temporary) != num_frames:  # ffmpeg's exit code is not known here
            raise OSError("ffmpeg did not complete the file; is the disk full?")
        temporary.replace(file)
    except OSError as error:  # that of imageio-ffmpeg has no errno
        if "Broken pipe" in str(error):
            raise OSError("ffmpeg ended too early; is the disk full?") from None
        raise
    finally:
        writer.close()
        temporary.unlink(missing_ok=True)


def _count_frames(file: Path) -> int:
    """The number of frames of a video; 0 if it cannot be read."""
    import imageio_ffmpeg

    try:
        return imageio_ffmpeg.count_frames_and_secs(str(file))[0] or 0
    except RuntimeError:  # whatever ffmpeg prints about a damaged file
        return 0


def _write_animation(frames: Iterable[np.ndarray], file: Path, fps: float, video_format: VideoFormat) -> None:
    images = [Image.fromarray(frame) for frame in frames]
    out = io.BytesIO()
    options: dict[str, Any] = {"quality": 50, "method": 2} if video_format == "webp" else {"optimize": False}
    images[0].save(
        out, video_format, save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0, **options
    )
    write_bytes(file, out.getvalue())
