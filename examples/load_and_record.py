"""Load a trained policy, play an episode with it, and record the episode as a GIF.

    python examples/load_and_record.py out/mine episode.gif      # a run of `envgen train crafter` from symbols
    python examples/load_and_record.py                           # trains for a few seconds first

With moviepy installed, `gymnasium.wrappers.RecordVideo(env, folder)` writes an mp4 instead.
"""

import sys
import tempfile
from pathlib import Path

import gymnasium
import numpy as np
from PIL import Image

import envgen

SMALL_PLAN = {"cycles": 0, "final_steps": 1024, "episodes": 4, "feedback_groups": 2, "feedback_episodes": 2}


def record(run_folder: Path, gif: Path, max_steps: int = 500) -> None:
    policy = envgen.load_policy(run_folder)
    rng = np.random.default_rng(0)  # act() samples with it; without it, act() takes the most likely action
    env = gymnasium.make("envgen/Crafter-v0", observation="symbols", render_mode="rgb_array", render_size=256)
    observation, info = env.reset(seed=0)
    frames, episode_return, done = [env.render()], 0.0, False
    while not done and len(frames) <= max_steps:
        observation, reward, terminated, truncated, info = env.step(policy.act(observation, rng))
        episode_return, done = episode_return + float(reward), terminated or truncated
        policy.observe(reward, done)  # for policies with memory
        frames.append(env.render())
    first, *rest = [Image.fromarray(frame).quantize(64) for frame in frames]
    first.save(gif, save_all=True, append_images=rest, duration=100, loop=0)
    achieved = [skill for skill, count in info["achievements"].items() if count]
    print(f"{gif}: {len(frames)} frames, return {episode_return:.1f}, skills: {', '.join(achieved) or 'none'}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        record(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            run = envgen.train("crafter", "none", preset="quick", plan=SMALL_PLAN, folder=f"{temporary}/run")
            record(run.folder, Path(temporary) / "episode.gif", max_steps=50)
