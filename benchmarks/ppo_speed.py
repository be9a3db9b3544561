"""How fast the agent trains, beside Stable-Baselines3's PPO and a loop as CleanRL writes it.

All train the same network with the same settings on the same vector environment, in turns, each in its own process:

    python benchmarks/ppo_speed.py

Prints environment steps per second of whole training (playing and learning) and where our time goes. The peers take
the environment as fast as their interfaces let them: infos that nobody reads are not made. They are also given our
network as it is, compiled first layer included. More rows show Stable-Baselines3 with the same layers as one writes
them in PyTorch, over one-hots, and on the vector environment that it makes itself; and ours without bfloat16.
"""

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

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
from envgen.agents.networks import ActorCritic, Symbols, body_for, parameters
from envgen.agents.ppo import PPO
from envgen.agents.settings import PpoSettings, settings_for
from envgen.worlds.crafter.world import Crafter


def make(observation: str, count: int):
    return Crafter().make(num_envs=count, seed=0, observation=observation)


# ------------------------------------------------------------------------------------------------------------- ours


class Ours:
    name = "envgen"

    def __init__(self, observation: str, settings: PpoSettings):
        self.envs, self.settings = make(observation, settings.num_envs), settings
        self.agent = PPO.for_envs(self.envs, settings=settings)
        self.spent = {"environments": 0.0, "updates": 0.0}
        self.envs.step = self._timed(self.envs.step, "environments")
        self.agent.update = self._timed(self.agent.update, "updates")

    def _timed(self, function: Callable, what: str) -> Callable:
        def timed(*args):
            start = time.perf_counter()
            result = function(*args)
            self.spent[what] += time.perf_counter() - start
            return result

        return timed

    def train(self, updates: int) -> None:
        self.agent.train(self.envs, updates * self.settings.batch_size)


class OursExact(Ours):
    name = "envgen, in float32"

    def __init__(self, observation: str, settings: PpoSettings):
        super().__init__(observation, settings.model_copy(update={"bfloat16": False}))


# ------------------------------------------------------------------------------------------------ Stable-Baselines3


class Adapter(VecEnv):
    """Our vector environment as Stable-Baselines3 takes one."""

    def __init__(self, envs):
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        self.envs, self.nothing = envs, [{} for _ in range(envs.num_envs)]

    def reset(self):
        return self.envs.reset()[0]

    def step_async(self, actions):
        self.actions = actions

    def step_wait(self):
        seen, rewards, terminated, truncated, infos = self.envs.step(self.actions)
        done, told = terminated | truncated, self.nothing
        if done.any():
            told = [{} for _ in range(self.num_envs)]
            for i in np.flatnonzero(done):
                told[i] = {"terminal_observation": infos["final_obs"][i], "TimeLimit.truncated": truncated[i]}
        return seen, rewards, done, told

    def close(self):
        self.envs.close()

    def get_attr(self, attr_name, indices=None):
        return [None] * self.num_envs

    def set_attr(self, attr_name, value, indices=None):
        raise NotImplementedError

    def env_method(self, method_name, *args, indices=None, **kwargs):
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class, indices=None):
        return [False] * self.num_envs


class Body(BaseFeaturesExtractor):
    """Our body where Stable-Baselines3 wants a features extractor; it puts the channels of pictures first."""

    def __init__(self, space, layout):
        pictures = len(space.shape) == 3
        if pictures:
            space = Box(0, 255, (*space.shape[1:], space.shape[0]), np.uint8)
        body = body_for(space, layout)
        super().__init__(space, body.width)
        self.pictures, self.body = pictures, body

    def forward(self, observations):
        return self.body(observations.permute(0, 2, 3, 1) if self.pictures else observations)


class Bytes(ActorCriticPolicy):
    """The network takes bytes, so they are not made into floats first."""

    def extract_features(self, obs, features_extractor=None):
        return self.features_extractor(obs)


class Plain(BaseFeaturesExtractor):
    """The same layers over all symbols one-hot: what one writes for such an observation in PyTorch."""

    def __init__(self, space, layout):
        super().__init__(space, Symbols.width)
        counts = torch.from_numpy(space.high.astype(np.int64)[:-1] + 1)
        self.register_buffer("first", counts.cumsum(0) - counts)
        self.inputs, hidden = int(counts.sum()) + 1, Symbols.HIDDEN
        self.layers = nn.Sequential(
            nn.Linear(self.inputs, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.LayerNorm(hidden),
            nn.Linear(hidden, Symbols.width), nn.ReLU(),
        )  # fmt: skip

    def forward(self, observations):
        hot = torch.zeros(len(observations), self.inputs)
        hot.scatter_(1, observations[:, :-1].long() + self.first, 1.0)
        hot[:, -1] = observations[:, -1] / 255
        return self.layers(hot)


class Theirs:
    name, body = "Stable-Baselines3", Body

    def __init__(self, observation: str, settings: PpoSettings):
        s = self.settings = settings
        self.learner = SB3PPO(
            Bytes, self.worlds(observation, s.num_envs), n_steps=s.num_steps,
            batch_size=s.batch_size // s.num_minibatches,
            n_epochs=s.update_epochs, learning_rate=s.learning_rate, gamma=s.gamma, gae_lambda=s.gae_lambda,
            clip_range=s.clip_coef,
            ent_coef=s.ent_coef, vf_coef=s.vf_coef, max_grad_norm=s.max_grad_norm, device="cpu",
            policy_kwargs=dict(
                net_arch=[], features_extractor_class=self.body, normalize_images=False,
                features_extractor_kwargs={"layout": make(observation, 1).metadata.get("symbol_map")},
            ),
        )  # fmt: skip

    def worlds(self, observation: str, count: int) -> VecEnv:
        return Adapter(make(observation, count))

    def train(self, updates: int) -> None:
        self.learner.learn(updates * self.settings.batch_size, reset_num_timesteps=False)


class TheirsPlain(Theirs):
    name, body = "Stable-Baselines3, one-hot layers", Plain


class TheirsLayers(Theirs):
    """The first layer as `embedding_bag` and two `LayerNorm`, which is how it is computed where not on a CPU."""

    name = "Stable-Baselines3, PyTorch's layers"

    def __init__(self, observation: str, settings: PpoSettings):
        symbols.CPU = "nowhere"
        super().__init__(observation, settings)


class TheirsOwn(Theirs):
    """With the vector environment that it makes itself of single ones."""

    name = "Stable-Baselines3, its own envs"

    def worlds(self, observation: str, count: int):
        return make_vec_env("envgen/Crafter-v0", count, env_kwargs={"observation": observation})


# --------------------------------------------------------------------------------------------- as CleanRL writes it


class Loop:
    """Storage in tensors, a distribution object a step, one loss after another: the single-file style."""

    name = "CleanRL-style loop"

    def __init__(self, observation: str, settings: PpoSettings):
        self.envs, self.s = make(observation, settings.num_envs), settings
        spaces = self.envs.single_observation_space, self.envs.single_action_space
        self.network = ActorCritic(*spaces, self.envs.metadata.get("symbol_map"))
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate, eps=1e-5)
        self.seen = torch.from_numpy(self.envs.reset()[0])
        self.done = torch.zeros(settings.num_envs)

    def judge(self, seen, action=None):
        logits, value = self.network(seen)
        choice = torch.distributions.Categorical(logits=logits)
        action = choice.sample() if action is None else action
        return action, choice.log_prob(action), choice.entropy(), value

    def train(self, updates: int) -> None:
        for _ in range(updates):
            self.update()

    def update(self) -> None:
        s, shape = self.s, (self.s.num_steps, self.s.num_envs)
        seen = torch.zeros((*shape, *self.seen.shape[1:]), dtype=self.seen.dtype)
        actions, log_probs, rewards, dones, values = (torch.zeros(shape) for _ in range(5))
        for t in range(s.num_steps):
            seen[t], dones[t] = self.seen, self.done
            with torch.no_grad():
                action, log_probs[t], _, values[t] = self.judge(self.seen)
            actions[t] = action
            after, reward, terminated, truncated, _ = self.envs.step(action.numpy())
            rewards[t] = torch.tensor(reward)
            self.seen, self.done = torch.from_numpy(after), torch.Tensor(np.logical_or(terminated, truncated))
        with torch.no_grad():
            following, gains, ahead = self.judge(self.seen)[3], torch.zeros_like(rewards), 0
            for t in reversed(range(s.num_steps)):
                goes_on = 1.0 - (self.done if t == s.num_steps - 1 else dones[t + 1])
                value = following if t == s.num_steps - 1 else values[t + 1]
                delta = rewards[t] + s.gamma * value * goes_on - values[t]
                gains[t] = ahead = delta + s.gamma * s.gae_lambda * goes_on * ahead
            returns = gains + values
        flat = [x.flatten(0, 1) for x in (seen, actions, log_probs, gains, returns)]
        order, size = np.arange(s.batch_size), s.batch_size // s.num_minibatches
        for _ in range(s.update_epochs):
            np.random.shuffle(order)
            for start in range(0, s.batch_size, size):
                part = order[start : start + size]
                b_seen, b_actions, b_log_probs, b_gains, b_returns = (x[part] for x in flat)
                _, log_prob, entropy, value = self.judge(b_seen, b_actions.long())
                change = log_prob - b_log_probs
                ratio = change.exp()
                with torch.no_grad():
                    ((ratio - 1) - change).mean()
                    ((ratio - 1.0).abs() > s.clip_coef).float().mean().item()
                b_gains = (b_gains - b_gains.mean()) / (b_gains.std() + 1e-8)
                policy_loss = torch.max(
                    -b_gains * ratio, -b_gains * ratio.clamp(1 - s.clip_coef, 1 + s.clip_coef)
                ).mean()
                value_loss = 0.5 * ((value - b_returns) ** 2).mean()
                loss = policy_loss - s.ent_coef * entropy.mean() + value_loss * s.vf_coef
                self.optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.network.parameters(), s.max_grad_norm)
                self.optimiser.step()


PEERS = {
    "symbols": (Ours, OursExact, Theirs, Loop, TheirsLayers, TheirsPlain, TheirsOwn),
    "pixels": (Ours, OursExact, Theirs, Loop, TheirsOwn),
}


def serve(kind: type, observation: str, settings: PpoSettings, threads: int, units: int | None, orders: Connection):
    """A trainer in a process of its own: trains as many updates as it is sent, and answers with what that took."""
    torch.set_num_threads(threads)
    if units:
        Symbols.HIDDEN = Symbols.width = units  # pyright: ignore[reportAttributeAccessIssue]
    trainer = kind(observation, settings)
    trainer.train(1)  # compiled, allocated, in mid-episode
    orders.send(parameters(trainer.agent.network) if isinstance(trainer, Ours) else 0)
    while updates := orders.recv():
        spent = getattr(trainer, "spent", {})
        spent.update(dict.fromkeys(spent, 0.0))
        start = time.perf_counter()
        trainer.train(updates)
        orders.send((time.perf_counter() - start, spent))


def compare(
    observation: str, settings: PpoSettings, rounds: int, updates: int, threads: int, units: int | None
) -> None:
    spawn, orders, seconds = multiprocessing.get_context("spawn"), {}, {kind: [] for kind in PEERS[observation]}
    size, spent = 0, []
    for kind in seconds:
        orders[kind], theirs = spawn.Pipe()
        spawn.Process(target=serve, args=(kind, observation, settings, threads, units, theirs), daemon=True).start()
        theirs.close()  # else a process that fails would be waited for
        size = max(size, orders[kind].recv())
    for _ in range(rounds):
        for kind, taken in seconds.items():
            orders[kind].send(updates)
            took, shares = orders[kind].recv()
            taken.append(took)
            if kind is Ours:
                spent.append(shares)
    for order in orders.values():
        order.send(0)
    print(
        f"\n{observation}: {settings.num_envs} environments x {settings.num_steps} steps, "
        f"{settings.update_epochs} epochs of "
        f"{settings.num_minibatches} minibatches, {size:,} parameters, {rounds} rounds of {updates} updates"
    )
    steps, ours = updates * settings.batch_size, statistics.median(seconds[Ours])
    for kind, taken in seconds.items():
        spread = f"({steps / max(taken):,.0f} to {steps / min(taken):,.0f})"
        middle = statistics.median(taken)
        print(f"  {kind.name:36} {steps / middle:>9,.0f} steps/s {spread:22} ours is {middle / ours:.2f}x")
    shares = {what: sum(one[what] for one in spent) / sum(seconds[Ours]) for what in spent[0]}
    shares["choosing actions and the rest"] = 1 - sum(shares.values())
    print("  our time: " + ", ".join(f"{what} {share:.0%}" for what, share in shares.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=12, help="of a round, for symbols")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of torch")
    parser.add_argument("--observations", nargs="+", default=["symbols", "pixels"])
    parser.add_argument("--units", type=int, help="of both layers for symbols; few show what the trainers cost alone")
    args = parser.parse_args()
    print(f"{args.threads} threads, {time.strftime('%Y-%m-%d')}")
    for observation in args.observations:
        space = make(observation, 1).single_observation_space
        if observation == "symbols":
            settings, rounds, updates = settings_for(space), args.rounds, args.updates
        else:  # the published network takes minutes for its 4,096 steps on a small CPU; the shape of a step is the same
            settings = settings_for(space, num_steps=64, num_minibatches=1, update_epochs=1)
            rounds, updates = max(1, args.rounds // 2), 1
        compare(observation, settings, rounds, updates, args.threads, args.units)


if __name__ == "__main__":
    main()
