"""Episodes of a run's final policy as clips: a typical one, the best one, and the way to each of its rare successes.

Episodes are played in a batch without pictures. The chosen ones are then repeated with the same seed and actions in a
single environment that draws them.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from envgen.worlds.world import World

NUM_EPISODES = 48
MAX_STEPS = 1000  # of an episode that is played
MAX_FRAMES = 240  # of a clip of a whole episode
SKILL_FRAMES = 70  # of a clip that ends with a skill
AFTER_SKILL = 8  # frames after the success
MAX_SKILL_CLIPS = 4
HARD = 60.0  # percent: skills with a higher success rate have no clip
SEED = 99_000_000  # of the first environment
FRAME_SIZE = 160  # pixels
VITALS = ("health", "food", "drink", "energy")


@dataclass
class Episode:
    """One episode of a policy, without its pictures."""

    seed: int
    actions: list[int] = field(default_factory=list)
    episode_return: float = 0.0
    first_success: dict[str, int] = field(default_factory=dict)  # skill: step, from 1; 0 at the start
    ended: bool = False


@dataclass
class Clip:
    """What a page shows of an episode, frame by frame. Frame k shows the world before action k."""

    title: str
    caption: str
    frames: list[np.ndarray]
    first_step: int
    actions: list[str]  # the action taken in each frame; one fewer than frames
    skills: dict[str, int]  # skill: the frame that first shows its success
    vitals: dict[str, list[int]]


def play_episodes(policy: Any, world: World, observation: str, seed: int = SEED) -> list[Episode]:
    """Play the first episode of NUM_EPISODES environments in the original, with sampled actions."""
    skills = [skill.name for skill in world.skills]
    episodes = [Episode(seed + i) for i in range(NUM_EPISODES)]
    rng = np.random.default_rng(seed)
    with closing(world.make([world.original], NUM_EPISODES, seed, observation)) as envs:
        obs, infos = envs.reset()
        policy.reset()
        _record_successes(episodes, skills, infos["achievements"], 0)
        for step in range(1, MAX_STEPS + 1):
            actions = policy.act(obs, rng)
            obs, rewards, terminated, truncated, infos = envs.step(actions)
            policy.observe(rewards, terminated | truncated)
            dones = terminated | truncated
            achievements = infos["achievements"].copy()
            if dones.any():
                achievements[dones] = infos["final_info"]["achievements"][dones]
            for i, episode in enumerate(episodes):
                if not episode.ended:
                    episode.actions.append(int(actions[i]))
                    episode.episode_return += float(rewards[i])
            _record_successes(episodes, skills, achievements, step)
            for i in np.flatnonzero(dones):
                episodes[i].ended = True
            if all(episode.ended for episode in episodes):
                break
    return episodes


def _record_successes(episodes: list[Episode], skills: list[str], achievements: np.ndarray, step: int) -> None:
    for i, k in np.argwhere(achievements > 0):
        if not episodes[i].ended:
            episodes[i].first_success.setdefault(skills[k], step)


def make_clips(policy: Any, world: World, observation: str) -> list[Clip]:
    """Clips of a typical episode, of the best one if it achieves other skills, and of each of the hardest skills."""
    episodes = play_episodes(policy, world, observation)
    order = sorted(episodes, key=lambda episode: episode.episode_return)
    clips = []
    for title, episode in (("A typical episode", order[len(order) // 2]), ("The best episode", order[-1])):
        rank = "Median" if episode is order[len(order) // 2] else "Highest"
        length = f"{len(episode.actions):,} steps{'' if episode.ended else ', not finished'}"
        caption = f"{rank} return of {len(order)} episodes: {episode.episode_return:.1f} ({length})."
        if title.startswith("A ") or episode.first_success.keys() != order[len(order) // 2].first_success.keys():
            clips.append((title, caption, episode, max(0, len(episode.actions) - MAX_FRAMES), None))
    for skill, rate in hard_skills(episodes, [skill.name for skill in world.skills]):
        episode = min((e for e in episodes if skill in e.first_success), key=lambda e: e.first_success[skill])
        step = episode.first_success[skill]
        caption = f"Achieved in {rate:.0f}% of {len(episodes)} episodes; in this one, first at step {step:,}."
        clips.append((skill, caption, episode, max(0, step - SKILL_FRAMES), step + AFTER_SKILL))
    drawn = [_draw(world, *clip) for clip in clips]
    return [clip for clip in drawn if clip is not None]


def hard_skills(episodes: list[Episode], skills: list[str]) -> list[tuple[str, float]]:
    """The skills that succeed least often, but at least once, with their success rates in percent."""
    rates = {name: 100 * sum(name in episode.first_success for episode in episodes) / len(episodes) for name in skills}
    ranked = sorted(((name, rate) for name, rate in rates.items() if 0 < rate < HARD), key=lambda item: item[1])
    return ranked[:MAX_SKILL_CLIPS]


def _draw(world: World, title: str, caption: str, episode: Episode, first: int, last: int | None) -> Clip | None:
    """Repeat an episode and draw the frames from step `first` to `last`; None if it does not repeat exactly."""
    end = min(len(episode.actions), last if last is not None else len(episode.actions))
    end = min(end, first + MAX_FRAMES)
    frames: list[np.ndarray] = []
    vitals: dict[str, list[int]] = {}
    successes: dict[str, int] = {}
    with closing(world.single(world.original, episode.seed, render_mode="rgb_array", render_size=FRAME_SIZE)) as env:
        _, info = env.reset()
        for step in range(end + 1):
            achieved = _achieved(info, world)
            successes |= {name: step for name in achieved if name not in successes}
            if step >= first:
                frames.append(np.asarray(env.render()))
                for name, value in _vitals(info).items():
                    vitals.setdefault(name, []).append(value)
            if step < end:
                _, _, _, _, info = env.step(episode.actions[step])
    expected = {name: step for name, step in episode.first_success.items() if step <= end}
    if successes != expected:
        return None
    return Clip(
        title=title, caption=caption, frames=frames, first_step=first,
        actions=[world.actions[action] for action in episode.actions[first:end]],
        skills={name: step - first for name, step in successes.items() if step >= first},
        vitals={name: values for name, values in vitals.items() if len(values) == len(frames)},
    )  # fmt: skip


def _achieved(info: Mapping[str, Any], world: World) -> list[str]:
    counts = info["achievements"]
    if isinstance(counts, Mapping):
        return [name for name, count in counts.items() if count]
    return [skill.name for skill, count in zip(world.skills, counts, strict=True) if count]


def _vitals(info: Mapping[str, Any]) -> dict[str, int]:
    inventory = info.get("inventory")
    return (
        {name: int(inventory[name]) for name in VITALS if name in inventory} if isinstance(inventory, Mapping) else {}
    )
