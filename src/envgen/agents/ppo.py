"""Proximal policy optimisation (Schulman et al. 2017), from top to bottom.

The agent plays a stretch in every environment (`collect`), then goes through it a few times in minibatches (`update`).
Its details are those of the agent that EnvGen trains (table 9 of its paper; Moon et al. 2023): value targets
normalised by running moments, advantages normalised over the whole rollout, no clipping of the value, no bootstrap at
time limits. It knows Gymnasium and no world by name.

`train` may be called again and again with other environments: network, optimiser, normaliser, counters and random
numbers carry on. `state` and `load` carry all of them over to another process, bit for bit on the CPU.
"""

import copy
import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from torch import nn

from envgen.worlds.world import SymbolMap

from .crew import Crew, split
from .devices import multiplies_bfloat16, own_device, use_device
from .errors import NonFiniteLossError, SpaceError, describe_batch
from .networks import ActorCritic
from .rollout import Arrays, EpisodeStats, Rollout, Stream, below
from .settings import PpoSettings, settings_for
from .targets import Normaliser, advantages
from .team import ProcessGroup

METRICS: tuple[str, ...] = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction", "grad_norm")


@dataclass(frozen=True)
class UpdateResult:
    """What one rollout and the update on it did."""

    steps: int  # environment steps of this agent so far, by the whole team
    losses: dict[str, float]
    episodes: EpisodeStats


@dataclass(frozen=True)
class Player:
    """A network and normaliser as they are when a rollout begins."""

    network: ActorCritic
    normaliser: Normaliser


class PPO:
    """A learner for environments of given spaces. `layout` says where observations that are symbols hold a map.

    Started by `torchrun`, it learns together with those of the other processes, unless it is to be `alone`.
    """

    def __init__(
        self,
        observations: spaces.Space,
        actions: spaces.Space,
        layout: SymbolMap | None = None,
        settings: PpoSettings | None = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
        compile: bool = False,
        alone: bool = False,
    ):
        self.observation_space, self.action_space = observations, actions
        self.settings = settings or settings_for(observations)
        self.device = own_device(device)
        wanted = self.settings.bfloat16
        self.bfloat16 = multiplies_bfloat16(self.device) if wanted is None else wanted
        self.process_group = ProcessGroup() if alone else ProcessGroup.join(self.device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = ActorCritic(observations, actions, layout).to(self.device)
        self.return_normalizer = Normaliser(self.settings.return_norm_decay).to(self.device)
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=self.settings.learning_rate, eps=self.settings.adam_eps, fused=True
        )
        self._forward = torch.compile(self.network.decide) if compile else self.network.decide
        self.crew = Crew(self.device)
        self.action_rng, self.shuffle_rng = (np.random.default_rng([seed, use]) for use in range(2))
        self.steps = self.updates = 0
        self.phase_updates = 0  # in the current call of `train`
        self._stream: Stream | None = None
        self._ahead: Rollout | None = None  # played, not yet learned from

    @classmethod
    def for_envs(cls, envs: VectorEnv, **kw: Any) -> "PPO":
        """An agent for these environments and all of their kind; arguments as for the class."""
        layout = envs.metadata.get("symbol_map")
        return cls(envs.single_observation_space, envs.single_action_space, layout, **kw)

    # ---------------------------------------------------------------------------------------------------- playing

    @torch.inference_mode()
    def act(self, observations: np.ndarray, random: np.random.Generator | None = None) -> np.ndarray:
        """Actions for a batch of observations: drawn with `random`, or the likeliest without."""
        with self._autocast():
            numbers, _ = self.network(torch.from_numpy(observations).to(self.device))
        head = self.network.head
        if random is None:
            return head.to_env(head.best(numbers))
        noise = torch.from_numpy(head.noise(random, len(observations))).to(self.device)
        return head.to_env(head.draw(numbers, noise))

    @torch.inference_mode()
    def collect(self, stream: Stream, steps: int, player: Player) -> Rollout:
        """Play `steps` steps of every environment."""
        head, s = player.network.head, self.settings
        rollout = Rollout(steps, stream, player.network, self.device)
        mine, everybody = (
            self.process_group.local_slice(stream.count * self.process_group.size),
            stream.count * self.process_group.size,
        )
        for t in range(steps):
            noise = torch.from_numpy(head.noise(self.action_rng, everybody)[mine]).to(self.device)
            with self._autocast():
                numbers, rollout.values[t] = player.network.decide(rollout.see(t, stream.observations))
            actions = head.draw(numbers, noise)
            rollout.actions[t] = actions
            rollout.log_probs[t] = head.judge(numbers, actions)[0]
            rewards, rollout.ends[t], cut, rollout.valid[t], finals = stream.step(
                head.to_env(actions), rollout.episodes
            )
            rollout.rewards[t] = rewards
            if s.bootstrap_on_truncation and finals is not None and cut.any():
                last = np.stack([finals[i] for i in np.flatnonzero(cut)])
                rollout.rewards[t, cut] += s.gamma * self._values(player, last)
        rollout.values = player.normaliser.restore(rollout.values)  # all at once
        rollout.last_values[:] = self._values(player, stream.observations)
        return rollout

    def _values(self, player: Player, observations: np.ndarray) -> np.ndarray:
        with self._autocast():
            _, values = player.network(torch.from_numpy(observations).to(self.device))
        return player.normaliser.restore(values).cpu().numpy()

    def _autocast(self):
        """Without its cache of weights, which all threads share: each weight is used once."""
        kind = self.device.type
        return torch.autocast(kind, torch.bfloat16, cache_enabled=False) if self.bfloat16 else nullcontext()

    # --------------------------------------------------------------------------------------------------- learning

    def train(
        self,
        envs: VectorEnv,
        steps: int,
        on_update: Callable[[UpdateResult], None] = lambda update: None,
        seed: int | None = None,
        resume: bool = False,
    ) -> None:
        """Learn for about `steps` environment steps, counted over all environments of the team.

        Episodes in progress in an earlier environment are over: they count neither as results nor as ends.
        `after` hears of every update. With `resume`, go on where the loaded state was.
        """
        self.check(envs)
        lengths = self.rollout_lengths(steps)
        if not resume:
            self.phase_updates, self._stream, self._ahead = 0, Stream(envs, seed), None
        elif self._stream is None or self._stream.envs is not envs:
            raise ValueError("there is nothing to resume in these environments: load a state with them first")
        with self.crew, ThreadPoolExecutor(1, "envgen-player", use_device, (self.device,)) as helper:
            for k in range(self.phase_updates, len(lengths)):
                rollout = self._ahead or self.collect(self._stream, lengths[k], self._player())
                following: Future[Rollout] | None = None
                if self.settings.async_collect and k + 1 < len(lengths):
                    past = copy.deepcopy(self._player())
                    following = helper.submit(self.collect, self._stream, lengths[k + 1], past)
                losses = self.update(rollout)
                self._ahead = following.result() if following else None
                self.steps += rollout.steps * rollout.count * self.process_group.size
                self.phase_updates += 1
                on_update(UpdateResult(self.steps, losses, rollout.episodes))
        self._stream = self._ahead = None

    def rollout_lengths(self, steps: int) -> list[int]:
        """The lengths of the rollouts of a phase: as many as come nearest to the settings', and nearly equal."""
        each = -(-steps // self.settings.num_envs)  # steps of one environment
        count = max(1, round(each / self.settings.num_steps))
        return [each * (k + 1) // count - each * k // count for k in range(count)]

    def check(self, envs: VectorEnv) -> None:
        """Refuse environments that this agent was not made for."""
        for what, theirs, ours in (
            ("observation", envs.single_observation_space, self.observation_space),
            ("action", envs.single_action_space, self.action_space),
        ):
            if theirs != ours:
                raise SpaceError(f"these environments have the {what} space {theirs}; this agent was made for {ours}")
        if envs.num_envs * self.process_group.size != self.settings.num_envs:
            whose = f" in each of {self.process_group.size} processes" if self.process_group.size > 1 else ""
            raise ValueError(
                f"this agent plays {self.settings.num_envs} environments in all, and was given {envs.num_envs}{whose}"
            )

    def _player(self) -> Player:
        return Player(self.network, self.return_normalizer)

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Improve on a rollout; the mean of each of METRICS over its minibatches."""
        s, team = self.settings, self.process_group
        batch = self._batch(rollout)
        everybody = rollout.count * team.size
        share = team.local_slice(everybody)
        sums = torch.zeros(len(METRICS), device=self.device)
        for epoch in range(s.update_epochs):
            order = self.shuffle_rng.permutation(rollout.steps * everybody)
            for k, chosen in enumerate(np.array_split(order, s.num_minibatches)):
                step, env = np.divmod(chosen, everybody)
                local = (env >= share.start) & (env < share.stop)
                flat = step[local] * rollout.count + env[local] - share.start
                flat = flat[rollout.valid.reshape(-1)[flat]]
                index = torch.from_numpy(flat).to(self.device)
                part = {name: values.index_select(0, index) for name, values in batch.items()}
                sums += self._step(
                    part, f"epoch {epoch + 1} of {s.update_epochs}, minibatch {k + 1} of {s.num_minibatches}"
                )
        self.updates += 1
        return dict(zip(METRICS, (sums / (s.update_epochs * s.num_minibatches)).tolist(), strict=True))

    @torch.no_grad()
    def _batch(self, rollout: Rollout) -> dict[str, torch.Tensor]:
        """Everything learned from, with steps and environments in one axis."""
        s = self.settings
        values = rollout.values.cpu().numpy()
        gains = advantages(rollout.rewards, values, rollout.ends, rollout.last_values, s.gamma, s.gae_lambda)
        returns = gains + values
        if s.norm_adv:
            valid = gains[rollout.valid].astype(np.float64)
            count, total, squares = self.process_group.all_reduce(
                torch.tensor([valid.size, valid.sum(), (valid**2).sum()], dtype=torch.float64, device=self.device)
            ).tolist()
            mean = total / max(1.0, count)
            spread = math.sqrt(max(0.0, (squares - count * mean**2) / max(1.0, count - 1)))
            gains = ((gains - mean) / (spread + 1e-8)).astype(np.float32)
        arrays = {
            "seen": rollout.seen,
            "actions": rollout.actions,
            "log_probs": rollout.log_probs,
            "advantages": torch.from_numpy(gains).to(self.device),
            "returns": torch.from_numpy(returns).to(self.device),
        }
        return {name: array.flatten(0, 1) for name, array in arrays.items()}

    def _step(self, part: dict[str, torch.Tensor], where: str) -> torch.Tensor:
        """One gradient step on this process's part of a minibatch; METRICS of the whole minibatch."""
        returns, weights = part["returns"], list(self.network.parameters())
        count, total, squares = self.process_group.all_reduce(
            torch.stack([returns.new_tensor(len(returns)), returns.sum(), returns.square().sum()])
        )
        if count == 0:
            return torch.zeros(len(METRICS), device=self.device)
        if torch.isfinite(squares):  # else the loss will not be either, and nothing must be spoilt
            self.return_normalizer.update(total / count, squares / count)

        found = self.crew.share(lambda piece: self._gradients(weights, piece, count), split(part, self.crew.size))
        gradients, metrics = found[0]
        for more, others in found[1:]:
            for gradient, addend in zip(gradients, more, strict=True):
                gradient += addend
            metrics += others
        self.process_group.all_reduce_many([*gradients, metrics])
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.grad = gradient
        metrics = torch.cat([metrics, nn.utils.clip_grad_norm_(weights, self.settings.max_grad_norm)[None]])
        if not torch.isfinite(metrics.sum()):
            named: dict[str, float] = dict(zip(METRICS, metrics.tolist(), strict=True))
            raise NonFiniteLossError(describe_batch(part, named, f"update {self.updates + 1}, {where}"))
        self.optimizer.step()
        return metrics

    def _gradients(
        self, weights: list[nn.Parameter], piece: dict[str, torch.Tensor], count: torch.Tensor
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """What a piece of a minibatch of `count` steps adds to its gradients, and to METRICS but the last."""
        s = self.settings
        with self._autocast():
            numbers, values = self._forward(piece["seen"])
        log_probs, entropy = self.network.head.judge(numbers, piece["actions"])
        change = log_probs - piece["log_probs"]
        ratio, gains = change.exp(), piece["advantages"]
        # eq. 7 of the PPO paper
        policy_loss = -torch.min(gains * ratio, gains * ratio.clamp(1 - s.clip_coef, 1 + s.clip_coef)).sum() / count
        value_loss = (values - self.return_normalizer.normalise(piece["returns"])).square().sum() / count
        bonus = entropy.sum() / count
        loss = policy_loss + s.vf_coef * value_loss - s.ent_coef * bonus
        gradients = list(torch.autograd.grad(loss, weights))
        with torch.no_grad():
            moved = ((ratio - 1) - change).sum() / count
            clipped = ((ratio - 1).abs() > s.clip_coef).sum() / count
            return gradients, torch.stack([policy_loss, value_loss, bonus, moved, clipped])

    # ------------------------------------------------------------------------------------------------------ state

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and plain values from which `load` continues exactly, in the middle of a phase or between two."""
        tensors = {f"network.{name}": t for name, t in self.network.state_dict().items()}
        tensors |= {f"normaliser.{name}": t for name, t in self.return_normalizer.state_dict().items()}
        for k, weights in enumerate(self.network.parameters()):
            tensors |= {f"adam.{k}.{name}": t for name, t in self.optimizer.state[weights].items()}
        arrays = {name: t.detach().to("cpu", copy=True).numpy() for name, t in tensors.items()}
        if self._stream is not None:
            arrays |= {f"stream.{name}": array for name, array in self._stream.state().items()}
        if self._ahead is not None:
            arrays |= {f"ahead.{name}": array for name, array in self._ahead.state().items()}
        values = {
            "settings": self.settings.model_dump(),
            "bfloat16": self.bfloat16,
            "steps": self.steps,
            "updates": self.updates,
            "phase_updates": self.phase_updates,
            "playing": self.action_rng.bit_generator.state,
            "shuffling": self.shuffle_rng.bit_generator.state,
        }
        return arrays, values

    def load(self, arrays: Arrays, values: Mapping[str, Any], envs: VectorEnv | None = None) -> None:
        """Become what `state` described. With `envs`, made as those of the phase it was in, that phase can resume."""
        theirs, ours = values["settings"], self.settings.model_dump()
        if theirs != ours:
            names = theirs.keys() | ours.keys()
            changed = {name: (theirs.get(name), ours.get(name)) for name in names if theirs.get(name) != ours.get(name)}
            raise ValueError(f"this state was made with other settings (then, now): {changed}")

        def tensors(prefix: str) -> dict[str, torch.Tensor]:
            return {name: torch.from_numpy(array.copy()) for name, array in below(prefix, arrays).items()}

        self.network.load_state_dict(tensors("network"))
        self.return_normalizer.load_state_dict(tensors("normaliser"))
        self.optimizer.state.clear()
        for k, weights in enumerate(self.network.parameters()):
            if moments := tensors(f"adam.{k}"):
                self.optimizer.state[weights] = {name: t.to(self.device) for name, t in moments.items()}
        self.bfloat16 = values["bfloat16"]
        self.steps, self.updates, self.phase_updates = (values[n] for n in ("steps", "updates", "phase_updates"))
        self.action_rng.bit_generator.state = values["playing"]
        self.shuffle_rng.bit_generator.state = values["shuffling"]
        self._stream = self._ahead = None
        if envs is not None:
            self.check(envs)
            self._stream = Stream(envs, state=below("stream", arrays))
            if ahead := below("ahead", arrays):
                steps = len(ahead["rewards"])
                self._ahead = Rollout(steps, self._stream, self.network, self.device).restore(ahead)
