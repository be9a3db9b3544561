"""Training speed compared with Stable-Baselines3's PPO and a loop in CleanRL's style.

All trainers use the same network, settings and vector environment. They take turns, each in its own process:

    python benchmarks/ppo_speed.py

Prints environment steps per second of whole training (collecting and updating), and where envgen's time goes. The
peers get the fast path of their interfaces: infos that nobody reads are not built, and they use envgen's network as it
is, including the compiled first layer. "pixels" is the published network; "tiles" learns from the same images with
`--network tiles` and has a row for the published network with the same settings. Additional rows show Stable-Baselines3
with the same layers written in PyTorch, over one-hots, and with the vector environment it makes itself; and envgen
without bfloat16. The networks with history and memory have no peers.
"""

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from stable_baselines3 import PPO as SB3PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env.base_vec_env import VecEnv
from torch import nn

from envgen.agents import symbols
from envgen.agents.networks import ActorCritic, count_parameters, layout_of, make_encoder
from envgen.agents.ppo import PPO
from envgen.agents.settings import NetworkSettings, PpoSettings, ppo_settings_for
from envgen.sb3 import Sb3VecEnv
from envgen.worlds.crafter.world import Crafter

NETWORKS: dict[str, dict[str, Any]] = {  # variant: the settings of its network
    "symbols": {"encoder": "symbols"},
    "symbols with history": {"encoder": "symbols", "history": True},
    "symbols with GRU": {"encoder": "symbols", "memory": "gru"},
    "symbols with minimal GRU": {"encoder": "symbols", "memory": "mingru"},
    "tiles": {"encoder": "tiles"},
    "pixels": {"encoder": "impala"},
}
OBSERVATIONS = {name: "symbols" if name.startswith("symbols") else "pixels" for name in NETWORKS}


def make_envs(variant: str, num_envs: int):
    return Crafter().make(num_envs=num_envs, seed=0, observation=OBSERVATIONS[variant])


# ------------------------------------------------------------------------------------------------------------- envgen


class EnvgenTrainer:
    name = "envgen"

    def __init__(self, variant: str, settings: PpoSettings):
        self.envs, self.settings = make_envs(variant, settings.num_envs), settings
        self.learner = PPO.for_envs(self.envs, settings=settings)
        self.seconds = {"environments": 0.0, "updates": 0.0}
        self.envs.step = self._timed(self.envs.step, "environments")
        self.learner.update = self._timed(self.learner.update, "updates")

    def _timed(self, function: Callable, name: str) -> Callable:
        def timed(*args):
            start = time.perf_counter()
            result = function(*args)
            self.seconds[name] += time.perf_counter() - start
            return result

        return timed

    def train(self, num_updates: int) -> int:
        """Train and return the number of steps."""
        steps = num_updates * self.settings.batch_size
        self.learner.train(self.envs, steps)
        return steps


class EnvgenFloat32Trainer(EnvgenTrainer):
    name = "envgen, in float32"

    def __init__(self, variant: str, settings: PpoSettings):
        super().__init__(variant, settings.model_copy(update={"bfloat16": False}))


class EnvgenPublishedNetworkTrainer(EnvgenTrainer):
    """The published network with the same settings, one short rollout per round: a long one takes minutes."""

    name = "envgen, the published network"

    def __init__(self, variant: str, settings: PpoSettings):
        changes = {"num_steps": settings.num_steps // 8, "network": NetworkSettings(encoder="impala")}
        super().__init__(variant, settings.model_copy(update=changes))

    def train(self, num_updates: int) -> int:
        return super().train(1)


# -------------------------------------------------------------------------------------------------- Stable-Baselines3


class EncoderExtractor(BaseFeaturesExtractor):
    """envgen's encoder as a features extractor. Stable-Baselines3 puts the channels of images first."""

    def __init__(self, space, layout, network: NetworkSettings):
        is_image = len(space.shape) == 3
        if is_image:
            space = Box(0, 255, (*space.shape[1:], space.shape[0]), np.uint8)
        encoder = make_encoder(space, layout, network)
        super().__init__(space, encoder.width)
        self.is_image, self.encoder = is_image, encoder

    def forward(self, observations):
        if self.is_image:  # Stable-Baselines3 converts some to floats
            observations = observations.permute(0, 2, 3, 1).to(torch.uint8)
        return self.encoder(observations)


class RawObservationPolicy(ActorCriticPolicy):
    """Passes observations to the encoder as bytes, without conversion to floats."""

    def extract_features(self, obs, features_extractor=None):
        return self.features_extractor(obs)


class OneHotExtractor(BaseFeaturesExtractor):
    """The same layers over one-hot symbols, as one would write them in PyTorch."""

    def __init__(self, space, layout, network: NetworkSettings):
        super().__init__(space, network.width)
        num_values = torch.from_numpy(space.high.astype(np.int64)[:-1] + 1)
        self.register_buffer("first", num_values.cumsum(0) - num_values)
        self.num_inputs, hidden = int(num_values.sum()) + 1, 2 * network.width
        self.layers = nn.Sequential(
            nn.Linear(self.num_inputs, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.LayerNorm(hidden),
            nn.Linear(hidden, network.width), nn.ReLU(),
        )  # fmt: skip

    def forward(self, observations):
        one_hots = torch.zeros(len(observations), self.num_inputs)
        one_hots.scatter_(1, observations[:, :-1].long() + self.first, 1.0)
        one_hots[:, -1] = observations[:, -1] / 255
        return self.layers(one_hots)


class SB3Trainer:
    name, extractor = "Stable-Baselines3", EncoderExtractor

    def __init__(self, variant: str, settings: PpoSettings):
        s = self.settings = settings
        self.learner = SB3PPO(
            RawObservationPolicy, self.make_vec_env(variant, s.num_envs), n_steps=s.num_steps,
            batch_size=s.batch_size // s.num_minibatches,
            n_epochs=s.update_epochs, learning_rate=s.learning_rate, gamma=s.gamma, gae_lambda=s.gae_lambda,
            clip_range=s.clip_coef,
            ent_coef=s.ent_coef, vf_coef=s.vf_coef, max_grad_norm=s.max_grad_norm, device="cpu",
            policy_kwargs=dict(
                net_arch=[], features_extractor_class=self.extractor, normalize_images=False,
                features_extractor_kwargs={"layout": layout_of(make_envs(variant, 1)), "network": s.network},
            ),
        )  # fmt: skip

    def make_vec_env(self, variant: str, num_envs: int) -> VecEnv:
        return Sb3VecEnv(make_envs(variant, num_envs))

    def train(self, num_updates: int) -> int:
        steps = num_updates * self.settings.batch_size
        self.learner.learn(steps, reset_num_timesteps=False)
        return steps


class SB3OneHotTrainer(SB3Trainer):
    name, extractor = "Stable-Baselines3, one-hot layers", OneHotExtractor


class SB3PyTorchLayersTrainer(SB3Trainer):
    """The first layer as `embedding_bag` and two `LayerNorm`, as on devices other than the CPU."""

    name = "Stable-Baselines3, PyTorch's layers"

    def __init__(self, variant: str, settings: PpoSettings):
        symbols.CPU = "none"
        super().__init__(variant, settings)


class SB3OwnEnvsTrainer(SB3Trainer):
    """With the vector environment that Stable-Baselines3 makes of single environments."""

    name = "Stable-Baselines3, its own envs"

    def make_vec_env(self, variant: str, num_envs: int):
        return make_vec_env("envgen/Crafter-v0", num_envs, env_kwargs={"observation": OBSERVATIONS[variant]})


# ------------------------------------------------------------------------------------------------------ CleanRL style


class CleanRLTrainer:
    """CleanRL's single-file style: storage in tensors, a distribution object per step, one loss after another."""

    name = "CleanRL-style loop"

    def __init__(self, variant: str, settings: PpoSettings):
        self.envs, self.settings = make_envs(variant, settings.num_envs), settings
        spaces = self.envs.single_observation_space, self.envs.single_action_space
        self.network = ActorCritic(*spaces, layout_of(self.envs), settings.network)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate, eps=1e-5)
        self.next_obs = torch.from_numpy(self.envs.reset()[0])
        self.next_done = torch.zeros(settings.num_envs)

    def get_action_and_value(self, obs, action=None):
        logits, value = self.network(obs)
        probs = torch.distributions.Categorical(logits=logits)
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action), probs.entropy(), value

    def train(self, num_updates: int) -> int:
        for _ in range(num_updates):
            self.update()
        return num_updates * self.settings.batch_size

    def update(self) -> None:
        s = self.settings
        shape = s.num_steps, s.num_envs
        obs = torch.zeros((*shape, *self.next_obs.shape[1:]), dtype=self.next_obs.dtype)
        actions, logprobs, rewards, dones, values = (torch.zeros(shape) for _ in range(5))
        for t in range(s.num_steps):
            obs[t], dones[t] = self.next_obs, self.next_done
            with torch.no_grad():
                action, logprobs[t], _, values[t] = self.get_action_and_value(self.next_obs)
            actions[t] = action
            next_obs, reward, terminated, truncated, _ = self.envs.step(action.numpy())
            rewards[t] = torch.tensor(reward)
            self.next_obs = torch.from_numpy(next_obs)
            self.next_done = torch.Tensor(np.logical_or(terminated, truncated))
        with torch.no_grad():
            next_value, advantages = self.get_action_and_value(self.next_obs)[3], torch.zeros_like(rewards)
            lastgaelam = 0
            for t in reversed(range(s.num_steps)):
                nextnonterminal = 1.0 - (self.next_done if t == s.num_steps - 1 else dones[t + 1])
                nextvalues = next_value if t == s.num_steps - 1 else values[t + 1]
                delta = rewards[t] + s.gamma * nextvalues * nextnonterminal - values[t]
                advantages[t] = lastgaelam = delta + s.gamma * s.gae_lambda * nextnonterminal * lastgaelam
            returns = advantages + values
        batch = [x.flatten(0, 1) for x in (obs, actions, logprobs, advantages, returns)]
        b_inds, minibatch_size = np.arange(s.batch_size), s.batch_size // s.num_minibatches
        for _ in range(s.update_epochs):
            np.random.shuffle(b_inds)
            for start in range(0, s.batch_size, minibatch_size):
                mb_inds = b_inds[start : start + minibatch_size]
                mb_obs, mb_actions, mb_logprobs, mb_advantages, mb_returns = (x[mb_inds] for x in batch)
                _, newlogprob, entropy, newvalue = self.get_action_and_value(mb_obs, mb_actions.long())
                logratio = newlogprob - mb_logprobs
                ratio = logratio.exp()
                with torch.no_grad():
                    ((ratio - 1) - logratio).mean()
                    ((ratio - 1.0).abs() > s.clip_coef).float().mean().item()
                mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
                pg_loss1 = -mb_advantages * ratio
                pg_loss2 = -mb_advantages * ratio.clamp(1 - s.clip_coef, 1 + s.clip_coef)
                pg_loss = torch.max(pg_loss1, pg_loss2).mean()
                v_loss = 0.5 * ((newvalue - mb_returns) ** 2).mean()
                loss = pg_loss - s.ent_coef * entropy.mean() + v_loss * s.vf_coef
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.network.parameters(), s.max_grad_norm)
                self.optimizer.step()


TRAINERS = {
    "symbols": (
        EnvgenTrainer, EnvgenFloat32Trainer, SB3Trainer, CleanRLTrainer, SB3PyTorchLayersTrainer, SB3OneHotTrainer,
        SB3OwnEnvsTrainer,
    ),
    "tiles": (
        EnvgenTrainer, EnvgenFloat32Trainer, EnvgenPublishedNetworkTrainer, SB3Trainer, CleanRLTrainer,
        SB3OwnEnvsTrainer,
    ),
    "pixels": (EnvgenTrainer, EnvgenFloat32Trainer, SB3Trainer, CleanRLTrainer, SB3OwnEnvsTrainer),
    "symbols with history": (EnvgenTrainer, EnvgenFloat32Trainer),
    "symbols with GRU": (EnvgenTrainer, EnvgenFloat32Trainer),
    "symbols with minimal GRU": (EnvgenTrainer, EnvgenFloat32Trainer),
}  # fmt: skip


def run_worker(cls: type, variant: str, settings: PpoSettings, threads: int, connection: Connection) -> None:
    """A trainer in its own process: trains as many updates as each message asks for and replies with the time."""
    torch.set_num_threads(threads)
    trainer = cls(variant, settings)
    trainer.train(1)  # compiles and allocates
    connection.send(count_parameters(trainer.learner.network) if isinstance(trainer, EnvgenTrainer) else 0)
    while num_updates := connection.recv():
        breakdown = getattr(trainer, "seconds", {})
        breakdown.update(dict.fromkeys(breakdown, 0.0))
        start = time.perf_counter()
        steps = trainer.train(num_updates)
        duration = time.perf_counter() - start
        connection.send((steps / duration, duration, breakdown))


def compare(variant: str, settings: PpoSettings, rounds: int, num_updates: int, threads: int) -> None:
    context, connections = multiprocessing.get_context("spawn"), {}
    speeds: dict[type, list[float]] = {cls: [] for cls in TRAINERS[variant]}  # steps per second
    num_parameters, envgen_seconds, breakdowns = 0, 0.0, []
    for cls in speeds:
        connections[cls], child = context.Pipe()
        args = cls, variant, settings, threads, child
        context.Process(target=run_worker, args=args, daemon=True).start()
        child.close()  # so that recv fails instead of blocking if the process dies
        count = connections[cls].recv()
        num_parameters = count if cls is EnvgenTrainer else num_parameters
    for _ in range(rounds):
        for cls in speeds:
            connections[cls].send(num_updates)
            speed, duration, breakdown = connections[cls].recv()
            speeds[cls].append(speed)
            if cls is EnvgenTrainer:
                envgen_seconds += duration
                breakdowns.append(breakdown)
    for connection in connections.values():
        connection.send(0)
    print(
        f"\n{variant}: {settings.num_envs} environments x {settings.num_steps} steps, "
        f"{settings.update_epochs} epochs of {settings.num_minibatches} minibatches, "
        f"{num_parameters:,} parameters, {rounds} rounds of {num_updates} updates"
    )
    envgen_median = statistics.median(speeds[EnvgenTrainer])
    for cls, values in speeds.items():
        value_range = f"({min(values):,.0f} to {max(values):,.0f})"
        median = statistics.median(values)
        print(f"  {cls.name:36} {median:>9,.0f} steps/s {value_range:22} envgen is {envgen_median / median:.2f}x")
    shares = {name: sum(breakdown[name] for breakdown in breakdowns) / envgen_seconds for name in breakdowns[0]}
    shares["choosing actions and the rest"] = 1 - sum(shares.values())
    print("  envgen's time: " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=12, help="updates per round, for symbols and tiles")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="PyTorch threads")
    parser.add_argument("--variants", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument(
        "--width", type=int, default=256, help="of the features of symbols; a small one isolates overhead"
    )
    args = parser.parse_args()
    print(f"{args.threads} threads, {time.strftime('%Y-%m-%d')}")
    for variant in args.variants:
        space = make_envs(variant, 1).single_observation_space
        network = NetworkSettings.model_validate({**NETWORKS[variant], "width": args.width})
        if variant != "pixels":
            settings, rounds, num_updates = ppo_settings_for(space, network=network), args.rounds, args.updates
        else:  # 4,096 steps of the published network take minutes on a small CPU; each step has the same shape
            settings = ppo_settings_for(space, network=network, num_steps=64, num_minibatches=1, update_epochs=1)
            rounds, num_updates = max(1, args.rounds // 2), 1
        compare(variant, settings, rounds, num_updates, args.threads)


if __name__ == "__main__":
    main()
