"""How much does it slow down training to choose a level for every episode?

    python benchmarks/level_sampling_speed.py          # Crafter from symbols, the learner's defaults

Trains side by side, in turns: in random levels that stay the same for each environment, and in levels that the
designers `dr`, `plr` and `accel` choose for every episode. A fifth of the environments plays the original. Times are
CPU seconds of the process, so other load on the machine matters little.
"""

import argparse
import os
import time
from contextlib import closing

import numpy as np
import torch

from envgen.agents.ppo import PPO
from envgen.agents.rollout import UpdateResult
from envgen.curriculum.sampling import SampledLevelsVectorEnv, num_sampled_envs
from envgen.curriculum.trainer import make_learner
from envgen.designers.buffer import LevelEpisode
from envgen.designers.sampler import ORIGINAL_ID, EpisodeDesigner, LevelSampler
from envgen.designers.ued import AccelDesigner, DrDesigner, PlrDesigner
from envgen.worlds.level_space import random_level, setting_values
from envgen.worlds.registry import make_world
from envgen.worlds.world import World

ORIGINAL_SHARE = 0.2
DESIGNERS: tuple[type[EpisodeDesigner], ...] = (DrDesigner, PlrDesigner, AccelDesigner)


class TimedTraining:
    """A learner and its environments, with the CPU time of its training so far."""

    def __init__(self, world: World, observation: str, sampler: LevelSampler | None):
        self.world, self.observation, self.sampler = world, observation, sampler
        self.learner = make_learner(world, observation)
        self.steps = self.episodes = 0
        self.seconds: list[float] = []  # per 1,000 steps, of each turn

    def take_turn(self, steps: int, seed: int) -> None:
        num_envs, world = self.learner.settings.num_envs, self.world
        rng, space = np.random.default_rng(seed), setting_values(world.Level)
        levels = [random_level(world.Level, space, 0.5, rng) for _ in range(num_sampled_envs(num_envs, ORIGINAL_SHARE))]
        levels += [world.original] * (num_envs - len(levels))
        with closing(world.make(levels, num_envs, seed, self.observation)) as envs:
            if self.sampler is not None:
                envs = SampledLevelsVectorEnv(envs, world, self.sampler, ORIGINAL_SHARE, seed)
                self.sampler.begin_phase()
            steps_before, start = self.learner.steps, time.process_time()
            assert isinstance(self.learner, PPO)
            self.learner.train(envs, steps, self.on_update)
            self.seconds.append(1000 * (time.process_time() - start) / (self.learner.steps - steps_before))

    def on_update(self, update: UpdateResult) -> None:
        episodes = update.episodes
        self.episodes += len(episodes)
        if self.sampler is not None:
            finished = zip(
                episodes.levels, episodes.returns, episodes.skill_counts, episodes.positive_value_losses,
                episodes.mean_values, strict=True,
            )  # fmt: skip
            self.sampler.update([LevelEpisode(*episode) for episode in finished if episode[0] != ORIGINAL_ID])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="crafter")
    parser.add_argument("--observation", default="symbols")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--steps", type=int, default=65_536, help="of each turn")
    args = parser.parse_args()
    torch.set_num_threads(1)
    world = make_world(args.world)
    trainings = {"fixed levels": TimedTraining(world, args.observation, None)}
    for designer in DESIGNERS:
        sampler = designer().make_sampler(world.Level, world.skills, 0)
        trainings[designer.name] = TimedTraining(world, args.observation, sampler)
    for training in trainings.values():  # compiles, and fills the archives
        training.take_turn(args.steps // 4, 1000)
        training.seconds.clear()
    for turn in range(args.turns):
        for training in trainings.values():
            training.take_turn(args.steps, turn)
    baseline = np.array(trainings["fixed levels"].seconds)
    print(f"{args.world} from {args.observation}, {args.turns} turns of {args.steps:,} steps, {os.cpu_count()} cores")
    for name, training in trainings.items():
        seconds = np.array(training.seconds)
        ratio = baseline / seconds
        spread = ratio.std(ddof=1) / np.sqrt(len(ratio)) if len(ratio) > 1 else float("nan")
        print(
            f"{name:14} {1000 / np.median(seconds):8,.0f} steps per CPU second, "
            f"{ratio.mean():.3f} ± {spread:.3f} of the speed with fixed levels, {training.episodes:,} episodes"
        )


if __name__ == "__main__":
    main()
