"""Episodes of a run's final policy as clips: a typical one, the best one, and the way to each of its rare successes.

Episodes are played and repeated as `envgen.report.episodes` describes.
"""

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from envgen.text import plural
from envgen.worlds.world import World

from .episodes import ActionRecorder, EpisodeError, EpisodePlayer, RecordedEpisode, format_action, repeat

NUM_EPISODES = 48
MAX_STEPS = 1000  # of an episode that is played
MAX_FRAMES = 240  # of a clip of a whole episode
SKILL_FRAMES = 70  # of a clip that ends with a skill
AFTER_SKILL = 8  # frames after the success
MAX_SKILL_CLIPS = 4
MAX_SUCCESS_RATE = 60.0  # percent: skills that succeed at least this often have no clip
SEED = 99_000_000  # of the first environment
FRAME_SIZE = 160  # pixels


@dataclass
class Clip:
    """What a page shows of an episode, frame by frame. Frame k shows the world before action k."""

    title: str
    caption: str
    frames: list[np.ndarray]
    first_step: int
    actions: list[str]  # the action taken in each frame; one fewer than frames
    skills: dict[str, int]  # skill: the frame that first shows its success
    vitals: dict[str, list[int]]  # gauge of the world, such as health: its value in each frame
    maxima: dict[str, int]  # of the gauges


def play_episodes(policy: Any, world: World, observation: str, seed: int = SEED) -> list[RecordedEpisode]:
    """Play the first episode of NUM_EPISODES environments in the original, with sampled actions."""
    rng, recorder = np.random.default_rng(seed), ActionRecorder(world, seed)
    playing = np.ones(NUM_EPISODES, np.bool_)
    with closing(world.make([world.original], NUM_EPISODES, seed, observation)) as envs:
        obs, infos = envs.reset()
        policy.reset(infos)
        for _ in range(MAX_STEPS):
            actions = policy.act(obs, rng)
            recorder.before_step(actions, playing)
            obs, rewards, terminated, truncated, infos = envs.step(actions)
            recorder.after_step(playing, terminated, truncated, infos)
            policy.observe(rewards, terminated | truncated, infos)
            playing = playing & ~(terminated | truncated)
            if not playing.any():
                break
    return recorder.episodes(unfinished=True)


def make_clips(policy: Any, world: World, observation: str) -> list[Clip]:
    """Clips of a typical episode, of the best one if it achieves other skills, and of each of the hardest skills."""
    episodes = play_episodes(policy, world, observation)
    order = sorted(episodes, key=lambda episode: episode.episode_return)
    median, best = order[len(order) // 2], order[-1]
    shown = [("A typical episode", "Median", median)]
    if best.first_success.keys() != median.first_success.keys():
        shown.append(("The best episode", "Highest", best))
    clips = []
    for title, rank, episode in shown:
        length = f"{plural(len(episode.actions), 'step')}{'' if episode.ended else ', not finished'}"
        caption = f"{rank} return of {len(order)} episodes: {episode.episode_return:.1f} ({length})."
        clips.append((title, caption, episode, max(0, len(episode.actions) - MAX_FRAMES), None))
    for skill, rate in hard_skills(episodes, [skill.name for skill in world.skills]):
        episode = min((e for e in episodes if skill in e.first_success), key=lambda e: e.first_success[skill])
        step = episode.first_success[skill]
        caption = f"Achieved in {rate:.0f}% of {len(episodes)} episodes; in this one, first at step {step:,}."
        clips.append((skill, caption, episode, max(0, step - SKILL_FRAMES), step + AFTER_SKILL))
    drawn = [_draw(world, *clip) for clip in clips]
    return [clip for clip in drawn if clip is not None]


def hard_skills(episodes: list[RecordedEpisode], skills: list[str]) -> list[tuple[str, float]]:
    """The skills that succeed least often, but at least once, with their success rates in percent."""
    rates = {name: 100 * sum(name in episode.first_success for episode in episodes) / len(episodes) for name in skills}
    ranked = sorted(
        ((name, rate) for name, rate in rates.items() if 0 < rate < MAX_SUCCESS_RATE), key=lambda item: item[1]
    )
    return ranked[:MAX_SKILL_CLIPS]


def _draw(
    world: World, title: str, caption: str, episode: RecordedEpisode, first: int, last: int | None
) -> Clip | None:
    """Repeat an episode and draw the frames from step `first` to `last`; None if it does not repeat exactly."""
    end = min(len(episode.actions), last if last is not None else len(episode.actions))
    end = min(end, first + MAX_FRAMES)
    frames: list[np.ndarray] = []
    vitals: dict[str, list[int]] = {}
    with closing(world.single_rendered(world.original, episode.seed, size=FRAME_SIZE)) as env:
        player = EpisodePlayer(world, env)
        try:
            for _ in repeat(player, episode, end):
                if player.step >= first:
                    frames.append(player.image())
                    for name in world.gauges:
                        vitals.setdefault(name, []).append(player.status[name])
        except EpisodeError:
            return None
    return Clip(
        title=title, caption=caption, frames=frames, first_step=first,
        actions=[format_action(world, action) for action in episode.actions[first:end]],
        skills={name: step - first for name, step in player.first_success.items() if step >= first},
        vitals=vitals, maxima=dict(world.gauges),
    )  # fmt: skip
