"""`envgen.record_episodes` and `envgen.watch`: look at what a trained policy does."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envgen.api import ArgumentError, TrainingRun, check_play_arguments
from envgen.imports import require_extra
from envgen.report.episodes import ActionRecorder, EpisodeError, RecordedEpisode, choose_episodes
from envgen.report.videos import VideoError, choose_format, prepare_folder, write_video
from envgen.settings import format_choice_error, to_number, to_path
from envgen.text import to_file_name
from envgen.worlds.world import Level, World

if TYPE_CHECKING:
    from envgen.agents.learner import Learner
    from envgen.agents.policy import Policy
    from envgen.curriculum.evaluate import Evaluation

FIRST_SEARCH, MAX_SEARCH = 64, 512  # episodes that are played to find one to watch


@dataclass(frozen=True)
class Recording:
    """Episodes that were played without pictures, and the results of all of them."""

    world: World
    """The world."""
    level: Level
    """The level of the episodes."""
    evaluation: "Evaluation"
    """The results of all episodes."""
    episodes: Sequence[RecordedEpisode]
    """The episodes that were played."""

    def __repr__(self) -> str:
        return f"<Recording: {self.evaluation.summary}>"  # the actions of all episodes are megabytes

    def choose(self, count: int, best: bool = False, skill: str | None = None) -> list[RecordedEpisode]:
        """At most `count` episodes; see `choose_episodes`.

        Raises:
            EpisodeError: There is no such skill, or no episode achieves it.
        """
        skills = [known.name for known in self.world.skills]
        if skill is not None and skill not in skills:
            raise EpisodeError(f"skill {format_choice_error(skill, skills)}")
        chosen = choose_episodes(self.episodes, count, best, skill)
        if not chosen:
            raise EpisodeError(f"{skill} is achieved in none of the {len(self.episodes):,} episodes played")
        return chosen

    def write_videos(
        self,
        folder: str | Path,
        count: int = 5,
        *,
        best: bool = False,
        skill: str | None = None,
        video_format: str | None = None,
        on_message: Callable[[str], None] = lambda text: None,
    ) -> list[Path]:
        """Write videos of at most `count` episodes to `folder`: `episode-1.mp4`, `episode-2.mp4`, ...

        Args:
            best: Those with the highest return (`best-1.mp4`).
            skill: Those that achieve this skill (`collect_diamond-1.mp4`), the quickest first.
            video_format: "mp4", "webp" or "gif". By default MP4 if imageio-ffmpeg is installed, else WebP.
            on_message: Receives a line about each video.

        Raises:
            EpisodeError: No episode achieves the skill, or replaying an episode gives a different result.
            VideoError: A file cannot be written.
        """
        chosen_format = choose_format(video_format)
        chosen, folder = self.choose(count, best, skill), prepare_folder(to_path("folder", folder, VideoError))
        label = to_file_name(skill) if skill else "best" if best else "episode"
        files = []
        for k, episode in enumerate(chosen, start=1):
            file = folder / f"{label}-{k}.{chosen_format}"
            num_left_out = write_video(episode, self.world, self.level, file, chosen_format)
            files.append(file)
            result = f"{len(episode.actions):,} steps, return {episode.episode_return:.2f}"
            skills = f"{len(episode.first_success)} of {len(self.world.skills)} skills"
            cut = f"; the first {num_left_out:,} steps are left out, because only MP4 files can hold that many"
            on_message(f"{file}: {episode.name}, {result}, {skills}{cut if num_left_out else ''}")
        return files


def record_episodes(
    run: "str | Path | TrainingRun | Policy",
    episodes: int = 256,
    *,
    world: str | World | None = None,
    level: Any = None,
    seed: int | None = None,
    observation: str | None = None,
    deterministic: bool = False,
    device: str = "cpu",
    learner: "str | type[Learner] | None" = None,
) -> Recording:
    """Play the episodes that `evaluate` plays with the same arguments, and keep them.

        recording = envgen.record_episodes("out/run")
        print(recording.evaluation)
        recording.write_videos("videos", count=3, skill="collect_diamond")

    The arguments are those of `evaluate`.
    """
    require_extra("train", "envgen.record_episodes")
    from envgen.curriculum.evaluate import evaluate

    policy, world, level, seed, observation = check_play_arguments(
        run, episodes, world, level, seed, observation, device, learner
    )
    recorder = ActionRecorder(world, seed)
    evaluation = evaluate(policy, world, level, episodes, seed, observation, deterministic, observer=recorder)
    return Recording(world, level, evaluation, recorder.episodes())


def watch(
    run: "str | Path | TrainingRun | Policy",
    episodes: int | None = None,
    *,
    best: bool = False,
    skill: str | None = None,
    speed: float | None = None,
    terminal: bool = False,
    world: str | World | None = None,
    level: Any = None,
    seed: int | None = None,
    observation: str | None = None,
    deterministic: bool = False,
    device: str = "cpu",
    learner: "str | type[Learner] | None" = None,
) -> None:
    """Watch a trained policy play, in a window or in the terminal, until you quit.

    Args:
        episodes: Stop after this many episodes. Default: one with `best` or `skill`; otherwise, when you quit.
        best: Play 64 episodes first, or `episodes` if that is more (at most 512), and show those with the highest
            return.
        skill: Play up to 512 episodes first, and show those that achieve this skill; the quickest first, unless `best`
            is set.
        speed: Steps per second. Default: what suits the world.
        terminal: Show the episodes in the terminal, even where a window could open.

    The other arguments are those of `evaluate`. Without `best` or `skill`, episode k is the first one of the seed
    `seed + k - 1`.
    """
    require_extra("train", "envgen.watch")
    from envgen.play.watch import LiveEpisodes, RecordedEpisodes
    from envgen.play.watch import watch as watch_episodes

    policy, world, level, seed, observation = check_play_arguments(
        run, 1 if episodes is None else episodes, world, level, seed, observation, device, learner
    )
    if speed is not None and not 0 < to_number("speed", speed, ArgumentError) < float("inf"):
        raise ArgumentError(f"speed must be a positive number of steps per second, not {speed}")
    skills = [known.name for known in world.skills]
    if skill is not None and skill not in skills:
        raise ArgumentError(f"skill {format_choice_error(skill, skills)}")
    source = LiveEpisodes(policy, world, level, seed, observation, deterministic)
    if best or skill is not None:
        count = episodes or 1
        chosen = _search(policy, count, best, skill, world, level, seed, observation, deterministic)
        source, episodes = RecordedEpisodes(world, level, chosen), len(chosen)
    watch_episodes(source, episodes, speed, terminal)


def _search(
    policy: "Policy", count: int, best: bool, skill: str | None, world: World, level: Level, seed: int,
    observation: str, deterministic: bool,
) -> list[RecordedEpisode]:  # fmt: skip
    """Play episodes until there are `count` to show, doubling the number played each time, up to MAX_SEARCH."""
    played, batch = 0, max(FIRST_SEARCH, min(count, MAX_SEARCH))
    episodes: list[RecordedEpisode] = []
    while True:
        goal = f" that achieve {skill}" if skill else ""
        print(f"playing {batch} episodes to find {'the best' if best else 'some'}{goal} ...", file=sys.stderr)
        recording = record_episodes(
            policy, batch, world=world, level=level, seed=seed + played, observation=observation,
            deterministic=deterministic,
        )  # fmt: skip
        episodes, played = [*episodes, *recording.episodes], played + batch
        everything = replace(recording, episodes=episodes)
        batch = min(played, MAX_SEARCH - played)
        if skill is None or batch <= 0 or len(choose_episodes(episodes, count, skill=skill)) == count:
            return everything.choose(count, best, skill)
