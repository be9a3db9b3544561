"""Proximal policy optimization (Schulman et al. 2017), top to bottom: losses, collect, update, train, state.

The defaults follow the agent that EnvGen trains (table 9 of its paper; Moon et al. 2023): value targets normalized by
running statistics, advantages normalized over the whole rollout, no value clipping, no bootstrapping at time limits.
PPO works with any Gymnasium vector environment and has no code for a particular world.

`train` can be called repeatedly with different environments: network, optimizer, return statistics, counters and random
number generators carry on. `state` and `load` move all of them to another process, bit for bit on the CPU.

Threads, processes and precision are in `parallel.py`.
"""

import copy
import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from torch import nn

from envgen.arrays import Arrays, strip_prefix
from envgen.errors import NonFiniteLossError
from envgen.rng import isolated_rng
from envgen.settings import flatten
from envgen.worlds.world import Layout

from .errors import SpaceError, describe_batch
from .memory import NO_INFOS
from .networks import (
    ActorCritic,
    Categorical,
    PolicyNetwork,
    default_encoder,
    layout_of,
    run_network,
    run_step,
    run_step_in_chunks,
)
from .optimizers import load_optimizer, optimizer_arrays
from .parallel import (
    Minibatch,
    ProcessGroup,
    ThreadedGradients,
    local_device,
    set_device,
    single_thread,
    supports_bf16,
)
from .policy import NetworkFactory, Policy
from .regret import RegretEstimator, SelectsEpisodes
from .return_normalizer import ReturnNormalizer
from .rollout import Rollout, UpdateResult, VecEnvRunner
from .settings import PpoSettings, ppo_settings_for

MINIBATCH_METRICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clipfrac", "grad_norm")
METRICS = (*MINIBATCH_METRICS, "explained_variance")


def gae(
    rewards: np.ndarray,
    values: np.ndarray,
    dones: np.ndarray,
    last_values: np.ndarray,
    gamma: float,
    gae_lambda: float,
) -> np.ndarray:
    """Generalized advantage estimates (T, B), float32. `dones[t]` says whether the episode ended with step t.

    Schulman et al. 2016, eq. 16: A_t = delta_t + gamma lambda A_{t+1}, delta_t = r_t + gamma V(s_{t+1}) - V(s_t).
    """
    advantages = np.empty(rewards.shape, np.float32)
    lastgaelam, nextvalues = np.zeros(rewards.shape[1], np.float32), last_values
    for t in reversed(range(len(rewards))):
        nextnonterminal = 1.0 - dones[t].astype(np.float32)
        delta = rewards[t] + gamma * nextvalues * nextnonterminal - values[t]
        advantages[t] = lastgaelam = delta + gamma * gae_lambda * nextnonterminal * lastgaelam
        nextvalues = values[t]
    return advantages


def ppo_loss(
    newlogprob: torch.Tensor,
    entropy: torch.Tensor,
    newvalue: torch.Tensor,
    mb_logprobs: torch.Tensor,
    mb_advantages: torch.Tensor,
    mb_returns: torch.Tensor,
    count: torch.Tensor | int,
    clip_coef: float,
    vf_coef: float,
    ent_coef: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of a minibatch and, detached, MINIBATCH_METRICS without `grad_norm`.

    Sums are divided by `count`, the size of the whole minibatch. Results for parts of a minibatch therefore add up.
    `newvalue` and `mb_returns` are in units of `ReturnNormalizer`.
    """
    logratio = newlogprob - mb_logprobs
    ratio = logratio.exp()

    # policy loss, eq. 7 of the PPO paper
    pg_loss1 = mb_advantages * ratio
    pg_loss2 = mb_advantages * ratio.clamp(1 - clip_coef, 1 + clip_coef)
    pg_loss = -torch.min(pg_loss1, pg_loss2).sum() / count

    v_loss = (newvalue - mb_returns).square().sum() / count
    entropy_loss = entropy.sum() / count
    loss = pg_loss + vf_coef * v_loss - ent_coef * entropy_loss

    with torch.no_grad():
        approx_kl = ((ratio - 1) - logratio).sum() / count  # http://joschu.net/blog/kl-approx.html
        clipfrac = ((ratio - 1).abs() > clip_coef).sum() / count
        return loss, torch.stack([pg_loss, v_loss, entropy_loss, approx_kl, clipfrac])


@dataclass(frozen=True)
class PolicySnapshot:
    """The network and return statistics that a rollout is collected with."""

    network: PolicyNetwork
    return_normalizer: ReturnNormalizer


class PPO:
    """A PPO learner for environments with the given spaces.

    Started by `torchrun`, it trains together with the learners of the other processes.

    Args:
        observation_space, action_space: Of a single environment.
        layout: Where observations hold a map of symbols or a grid of tiles (`layout_of(envs)`).
        settings: Defaults to what suits the observation space.
        seed: Seeds the initial weights, the actions and the order of minibatches.
        device: Where to run the network.
        compile: Run the network of the update through `torch.compile`.
        distributed: Join the process group of `torchrun`; False trains in this process alone.
        network_factory: Called with the first three arguments to build the network; by default, `ActorCritic` with
            `settings.network`. For a network of your own, pass a subclass of `PolicyNetwork` or a function that
            returns one.
    """

    KEEPS_ROLLOUTS: ClassVar[bool] = False
    """Whether `update` keeps the observations of a rollout for later."""

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        layout: Layout = None,
        settings: PpoSettings | None = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
        compile: bool = False,
        distributed: bool = True,
        network_factory: NetworkFactory | None = None,
    ):
        self.observation_space, self.action_space, self.layout = observation_space, action_space, layout
        self.settings = settings or self.settings_for(observation_space)
        self.device = local_device(device)
        self.bfloat16 = supports_bf16(self.device) if self.settings.bfloat16 is None else self.settings.bfloat16
        self.process_group = ProcessGroup.join(self.device) if distributed else ProcessGroup()
        self.network_factory = network_factory
        with isolated_rng(seed), single_thread():
            factory = network_factory or self.make_network
            self.network = factory(observation_space, action_space, layout).to(self.device)
        if self.settings.uniform_kl_coef and not isinstance(self.network.action_dist, Categorical):
            raise SpaceError(f"uniform_kl_coef requires discrete actions, not {action_space}; set it to 0")
        self.return_normalizer = ReturnNormalizer(self.settings.return_norm_decay).to(self.device)
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=self.settings.learning_rate, eps=self.settings.adam_eps, fused=True
        )
        self._forward, self._forward_sequence = self.network.forward_prepared, self.network.forward_sequence
        if compile:
            self._forward, self._forward_sequence = torch.compile(self._forward), torch.compile(self._forward_sequence)
        self._ent_coef = self.settings.ent_coef
        self.threaded_gradients = ThreadedGradients(self.device)
        self.action_rng, self.shuffle_rng = (np.random.default_rng([seed, stream]) for stream in range(2))
        self.steps = self.updates = 0
        self.phase_updates = 0  # in the current call of `train`
        self._evaluated_policy = self.policy  # of `act`
        self._runner: VecEnvRunner | None = None
        self._prefetched: Rollout | None = None  # collected, but not yet learned from
        self._regret: RegretEstimator | None = None  # of environments that replay levels
        self._obs_buffers: list[torch.Tensor] = []  # of rollouts that are no longer needed

    @classmethod
    def for_envs(
        cls,
        envs: VectorEnv,
        settings: PpoSettings | None = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
        compile: bool = False,
        distributed: bool = True,
        network_factory: NetworkFactory | None = None,
    ) -> Self:
        """A learner for these environments and others with the same spaces; arguments as for the class."""
        return cls(
            envs.single_observation_space, envs.single_action_space, layout_of(envs), settings, seed,
            device=device, compile=compile, distributed=distributed, network_factory=network_factory,
        )  # fmt: skip

    def make_network(self, observation_space: spaces.Space, action_space: spaces.Space, layout: Layout) -> ActorCritic:
        """The network of a learner without a `network_factory`."""
        return ActorCritic(observation_space, action_space, layout, self.settings.network)

    @classmethod
    def settings_class(cls) -> type[PpoSettings]:
        """The class of its hyperparameters."""
        return PpoSettings

    @classmethod
    def settings_for(cls, observation_space: spaces.Space, **overrides: Any) -> PpoSettings:
        """The default settings for a kind of observation, with some overridden."""
        return ppo_settings_for(observation_space, cls.settings_class(), **overrides)

    def untrained_copy(self, seed: int) -> Self:
        """A new learner with the same spaces, settings and kind of network, in this process alone."""
        return type(self)(
            self.observation_space, self.action_space, self.layout, self.settings, seed,
            device=self.device, distributed=False, network_factory=self.network_factory,
        )  # fmt: skip

    # -------------------------------------------------------------------------------------------------------- acting

    @property
    def policy(self) -> Policy:
        """The current policy. It shares its weights with the learner; `policy.save` writes a copy to disk.

        Each access makes an object with a memory of its own, so keep one to act for several steps.
        """
        return Policy(
            self.network, self.observation_space, self.action_space, self.layout,
            self.device, self.bfloat16, {"settings": self.settings.model_dump(mode="json")},
            self.return_normalizer.state_dict(),
        )  # fmt: skip

    @property
    def has_memory(self) -> bool:
        """Whether actions depend on earlier steps of the episode."""
        return self._evaluated_policy.has_memory

    def act(self, obs: np.ndarray, rng: np.random.Generator | None = None) -> np.ndarray:
        """Actions for a batch of observations: sampled with `rng`, or the most likely without.

        With memory, call `reset` before the first and `observe` after each step, as for a `Policy`.
        """
        return self._evaluated_policy.act(obs, rng)

    def reset(self, infos: Mapping[str, Any] = NO_INFOS) -> None:
        """Forget the episodes that `act` was called in. The memory of the environments in training is separate."""
        self._evaluated_policy = self.policy
        self._evaluated_policy.reset(infos)

    def observe(self, rewards: np.ndarray, dones: np.ndarray, infos: Mapping[str, Any] = NO_INFOS) -> None:
        """Record the result of the step that followed the last `act`."""
        self._evaluated_policy.observe(rewards, dones, infos)

    @torch.inference_mode()
    def collect(self, runner: VecEnvRunner, num_steps: int, snapshot: PolicySnapshot | None = None) -> Rollout:
        """Play `num_steps` steps of every environment with the current policy, or that of `snapshot`."""
        network, return_normalizer = self.network, self.return_normalizer
        if snapshot is not None:
            network, return_normalizer = snapshot.network, snapshot.return_normalizer
        dist = network.action_dist
        memory = runner.memory
        obs_buffer = self._obs_buffers.pop() if self._obs_buffers else None
        sequence_length = self.settings.sequence_length
        gamma = self.settings.annealed("gamma", self.steps)
        rollout = Rollout(num_steps, runner.num_envs, network, self.device, sequence_length, obs_buffer)
        total_envs = runner.num_envs * self.process_group.size
        local_envs = self.process_group.local_slice(total_envs)
        for t in range(num_steps):
            # each process draws the noise of all environments: results must not depend on the number of processes
            noise = torch.from_numpy(dist.noise(self.action_rng, total_envs)[local_envs]).to(self.device)
            prepared = rollout.store_obs(t, runner.obs, memory.bits)
            rollout.store_memory(t, memory)
            dist_params, rollout.values[t], memory.hidden = run_step_in_chunks(
                self.threaded_gradients, network, prepared, memory.hidden, memory.starts, self.bfloat16
            )
            actions = dist.sample(dist_params, noise)
            rollout.actions[t] = actions
            rollout.logprobs[t] = dist.log_prob_and_entropy(dist_params, actions)[0]
            step = runner.step(dist.to_action(actions), rollout.episodes)
            rollout.rewards[t], rollout.dones[t], rollout.valid[t] = step.rewards, step.dones, step.valid
            # practice and chains cut episodes off; there, always bootstrap from the value
            truncated = step.truncated if self.settings.bootstrap_on_truncation else step.truncated & step.cut_off
            if step.final_obs is not None and truncated.any():
                obs, bits = step.final_inputs(truncated)
                hidden, starts = memory.hidden[torch.from_numpy(truncated)], np.zeros(len(obs), np.bool_)
                final_values = self._values(network, return_normalizer, obs, bits, hidden, starts)
                rollout.rewards[t, truncated] += gamma * final_values
        rollout.values = return_normalizer.denormalize(rollout.values)
        rollout.last_values[:] = self._values(
            network, return_normalizer, runner.obs, memory.bits, memory.hidden, memory.starts
        )
        return rollout

    def _values(
        self,
        network: PolicyNetwork,
        return_normalizer: ReturnNormalizer,
        obs: np.ndarray,
        bits: np.ndarray | None,
        hidden: torch.Tensor,
        starts: np.ndarray,
    ) -> np.ndarray:
        prepared = network.prepare(*(torch.from_numpy(a).to(self.device) for a in (obs, bits) if a is not None))
        _, values, _ = run_step(network, prepared, hidden, starts, self.bfloat16)
        return return_normalizer.denormalize(values).cpu().numpy()

    # ------------------------------------------------------------------------------------------------------ learning

    def update(self, rollout: Rollout) -> dict[str, float]:
        """Improve the policy on a rollout. Returns METRICS, those of minibatches averaged."""
        s = self.settings
        self._anneal()
        batch, explained_variance = self._make_batch(rollout)
        total_envs = rollout.num_envs * self.process_group.size
        local_envs = self.process_group.local_slice(total_envs)
        num_samples = rollout.num_samples * total_envs
        num_minibatches = min(s.num_minibatches, num_samples)
        metrics: list[torch.Tensor] = []
        for epoch in range(s.update_epochs):
            b_inds = self.shuffle_rng.permutation(num_samples)  # the same in every process
            for k, mb_inds in enumerate(np.array_split(b_inds, num_minibatches)):
                sample, env = np.divmod(mb_inds, total_envs)
                is_local = (env >= local_envs.start) & (env < local_envs.stop)
                minibatch = rollout.select(batch, sample[is_local], env[is_local] - local_envs.start)
                location = f"epoch {epoch + 1} of {s.update_epochs}, minibatch {k + 1} of {num_minibatches}"
                if (minibatch_metrics := self._update_minibatch(minibatch, location)) is not None:
                    metrics.append(minibatch_metrics)
        self.updates += 1
        averages = torch.stack(metrics).mean(0).tolist() if metrics else [0.0] * len(MINIBATCH_METRICS)
        return dict(zip(METRICS, [*averages, explained_variance], strict=True))

    def _anneal(self) -> None:
        """Set the learning rate and the entropy coefficient of this update."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.annealed("learning_rate", self.steps)
        self._ent_coef = self.settings.annealed("ent_coef", self.steps)

    @torch.no_grad()
    def _make_batch(self, rollout: Rollout) -> tuple[Minibatch, float]:
        """What the update learns from, with steps and environments flattened into one axis; the explained variance."""
        s = self.settings
        gamma, gae_lambda = s.annealed("gamma", self.steps), s.annealed("gae_lambda", self.steps)
        values = rollout.values.cpu().numpy()
        advantages = gae(rollout.rewards, values, rollout.dones, rollout.last_values, gamma, gae_lambda)
        if self._regret is not None:
            rollout.episodes.set_regret(*self._regret.update(advantages, values, rollout.dones))
        returns = advantages + values
        explained_variance = self._explained_variance(values[rollout.valid], returns[rollout.valid])
        if s.norm_adv:
            mean, variance = self._mean_and_variance(advantages[rollout.valid])
            advantages = ((advantages - mean) / (math.sqrt(variance) + 1e-8)).astype(np.float32)
        batch = {
            "obs": rollout.obs,
            "actions": rollout.actions,
            "logprobs": rollout.logprobs,
            "advantages": torch.from_numpy(advantages).to(self.device),
            "returns": torch.from_numpy(returns).to(self.device),
        }
        if self.network.state_size:
            batch["starts"] = torch.from_numpy(rollout.starts).to(self.device)
        return {name: tensor.flatten(0, 1) for name, tensor in batch.items()}, explained_variance

    def _explained_variance(self, values: np.ndarray, returns: np.ndarray) -> float:
        """1 - Var(returns - values) / Var(returns): 1 is a perfect value function, 0 no better than a constant."""
        _, returns_variance = self._mean_and_variance(returns)
        _, residual_variance = self._mean_and_variance(returns - values)
        return 1 - residual_variance / returns_variance if returns_variance > 0 else 0.0  # JSON has no NaN

    def _mean_and_variance(self, values: np.ndarray) -> tuple[float, float]:
        """Mean and unbiased variance over all processes."""
        values = values.astype(np.float64)
        count, total, square_sum = self.process_group.all_reduce(
            torch.tensor([values.size, values.sum(), (values**2).sum()], dtype=torch.float64, device=self.device)
        ).tolist()
        mean = total / max(1.0, count)
        return mean, max(0.0, (square_sum - count * mean**2) / max(1.0, count - 1))

    def _update_minibatch(self, minibatch: Minibatch, location: str) -> torch.Tensor | None:
        """One gradient step on this process's part of a minibatch.

        Returns MINIBATCH_METRICS of the whole minibatch, or None if it has no steps to learn from.
        """
        returns, parameters = minibatch["returns"], self._loss_parameters()
        if "valid" in minibatch:
            returns = returns[minibatch["valid"]]
        returns = returns.double()  # as the statistics of the normalizer
        count, total, square_sum = self.process_group.all_reduce(
            torch.stack([returns.new_tensor(len(returns)), returns.sum(), returns.square().sum()])
        )
        if count == 0:
            return None
        if torch.isfinite(square_sum):  # otherwise the loss is not finite either; keep the statistics clean
            self.return_normalizer.update(total / count, square_sum / count)
        count = count.float()

        grads, metrics = self.threaded_gradients.compute(lambda mb: self._loss(mb, count), parameters, minibatch)
        self.process_group.all_reduce_many([*grads, metrics])
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        grad_norm = nn.utils.clip_grad_norm_(parameters, self.settings.max_grad_norm)
        metrics = torch.cat([metrics, grad_norm[None]])
        if not torch.isfinite(metrics.sum()):
            named: dict[str, float] = dict(zip(MINIBATCH_METRICS, metrics.tolist(), strict=True))
            raise NonFiniteLossError(describe_batch(minibatch, named, f"update {self.updates + 1}, {location}"))
        self.optimizer.step()
        return metrics

    def _loss_parameters(self) -> list[nn.Parameter]:
        """The trainable parameters on which the loss depends."""
        return self._trainable_parameters()

    def _trainable_parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.network.parameters() if parameter.requires_grad]

    def _loss(self, mb: Minibatch, count: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        s = self.settings
        if self.network.state_size:
            hidden, starts, valid = mb["hidden"], mb["starts"], mb["valid"]
            dist_params, newvalue = run_network(
                lambda obs: self._forward_sequence(obs, hidden, starts)[:2], mb["obs"], self.bfloat16
            )
            dist_params, newvalue = dist_params[valid.flatten()], newvalue[valid.flatten()]
            mb = {name: mb[name][valid] for name in ("actions", "logprobs", "advantages", "returns")}
        else:
            dist_params, newvalue = run_network(self._forward, mb["obs"], self.bfloat16)
        newlogprob, entropy = self.network.action_dist.log_prob_and_entropy(dist_params, mb["actions"])
        mb_returns = self.return_normalizer.normalize(mb["returns"])
        loss, metrics = ppo_loss(
            newlogprob, entropy, newvalue, mb["logprobs"], mb["advantages"], mb_returns,
            count, s.clip_coef, s.vf_coef, self._ent_coef,
        )  # fmt: skip
        if s.uniform_kl_coef:
            assert isinstance(self.network.action_dist, Categorical)
            loss = loss + s.uniform_kl_coef * self.network.action_dist.uniform_kl(dist_params).sum() / count
        return loss, metrics

    def train(
        self,
        envs: VectorEnv,
        steps: int,
        on_update: Callable[[UpdateResult], None] = lambda result: None,
        seed: int | None = None,
        resume: bool = False,
    ) -> None:
        """Train for about `steps` environment steps, counted over the environments of all processes.

        Episodes still in progress in the environments of an earlier call are dropped.

        Args:
            envs: Environments with the spaces that this learner was made for.
            steps: Rounded up so that every environment plays the same number of steps.
            on_update: Called after every update.
            seed: Passed to the first `envs.reset`.
            resume: Continue the phase of the state loaded with these `envs`.
        """
        self.check_envs(envs)
        if steps < 1:
            raise ValueError(f"steps must be at least 1, not {steps}")
        lengths = self.rollout_lengths(steps)
        if not resume:
            memory = self.network.new_memory(envs.num_envs, self.device)
            self.phase_updates, self._runner, self._prefetched = 0, VecEnvRunner(envs, seed, memory=memory), None
            self._regret = RegretEstimator(envs.num_envs) if isinstance(envs, SelectsEpisodes) else None
        elif self._runner is None or self._runner.envs is not envs:
            raise ValueError("no training to resume in these environments; call load(arrays, values, envs) with them")
        with self.threaded_gradients, ThreadPoolExecutor(1, "envgen-collect", set_device, (self.device,)) as executor:
            for k in range(self.phase_updates, len(lengths)):
                rollout = self._prefetched or self.collect(self._runner, lengths[k])
                next_rollout: Future[Rollout] | None = None
                if self.settings.async_collect and k + 1 < len(lengths):
                    snapshot = copy.deepcopy(PolicySnapshot(self.network, self.return_normalizer))
                    next_rollout = executor.submit(self.collect, self._runner, lengths[k + 1], snapshot)
                metrics = self.update(rollout)
                if not self.KEEPS_ROLLOUTS:
                    self._obs_buffers.append(rollout.obs)
                self._prefetched = next_rollout.result() if next_rollout else None
                self.steps += rollout.num_steps * rollout.num_envs * self.process_group.size
                self.phase_updates += 1
                on_update(UpdateResult(self.steps, metrics, rollout.episodes))
        self._runner = self._prefetched = self._regret = None
        self._obs_buffers.clear()

    def rollout_lengths(self, steps: int) -> list[int]:
        """The number of steps of each rollout of a phase: nearly equal, and as close to `num_steps` as possible."""
        steps_per_env = -(-steps // self.settings.num_envs)
        count = max(1, round(steps_per_env / self.settings.num_steps))
        return [steps_per_env * (k + 1) // count - steps_per_env * k // count for k in range(count)]

    def check_envs(self, envs: VectorEnv) -> None:
        """Refuse environments that this learner was not made for."""
        for name, actual, expected in (
            ("observation", envs.single_observation_space, self.observation_space),
            ("action", envs.single_action_space, self.action_space),
        ):
            if actual != expected:
                raise SpaceError(
                    f"the {name} space of these environments is {actual}, but this learner was made for {expected}"
                )
        num_processes = self.process_group.size
        if envs.num_envs * num_processes != self.settings.num_envs:
            per_process = f" in each of {num_processes} processes" if num_processes > 1 else ""
            raise ValueError(
                f"this learner has num_envs={self.settings.num_envs}, but got {envs.num_envs} environments{per_process}"
            )

    # --------------------------------------------------------------------------------------------------------- state

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and JSON values from which `load` continues exactly, between two phases or in the middle of one."""
        tensors = {f"network.{name}": t for name, t in self.network.state_dict().items()}
        tensors |= {f"return_normalizer.{name}": t for name, t in self.return_normalizer.state_dict().items()}
        arrays = {name: t.detach().to("cpu", copy=True).numpy() for name, t in tensors.items()}
        arrays |= optimizer_arrays("optimizer", self.optimizer, self.network.parameters())
        if self._runner is not None:
            arrays |= {f"runner.{name}": array for name, array in self._runner.state().items()}
        if self._prefetched is not None:
            arrays |= {f"prefetched.{name}": array for name, array in self._prefetched.state().items()}
        if self._regret is not None:
            arrays |= {f"regret.{name}": array for name, array in self._regret.state().items()}
        values = {
            "settings": self.settings.model_dump(),
            "bfloat16": self.bfloat16,
            "steps": self.steps,
            "updates": self.updates,
            "phase_updates": self.phase_updates,
            "action_rng": self.action_rng.bit_generator.state,
            "shuffle_rng": self.shuffle_rng.bit_generator.state,
        }
        return arrays, values

    def load(self, arrays: Arrays, values: Mapping[str, Any], envs: VectorEnv | None = None) -> None:
        """Restore what `state` returned.

        With `envs`, made like those of the interrupted phase, `train(envs, ..., resume=True)` continues that phase.
        """
        saved = type(self.settings).model_validate(values["settings"]).model_dump()  # with settings added since
        current = self.settings.model_dump()
        if saved["network"]["encoder"] == "auto" != current["network"]["encoder"]:  # saved by version 0.1.0
            saved["network"]["encoder"] = default_encoder(self.observation_space)
        if saved != current:
            before, now = flatten(saved), flatten(current)
            changes = [
                f"{name} was {before.get(name)!r} and is now {now.get(name)!r}"
                for name in sorted(before.keys() | now.keys())
                if before.get(name) != now.get(name)
            ]
            raise ValueError(f"make the learner with the settings that this state was saved with: {'; '.join(changes)}")

        def tensors(prefix: str) -> dict[str, torch.Tensor]:
            return {name: torch.from_numpy(array.copy()) for name, array in strip_prefix(prefix, arrays).items()}

        self.network.load_state_dict(tensors("network"))
        self.return_normalizer.load_state_dict(tensors("return_normalizer"))
        load_optimizer("optimizer", self.optimizer, self.network.parameters(), arrays, self.device)
        self.bfloat16 = values["bfloat16"]
        self._evaluated_policy = self.policy
        self.steps, self.updates, self.phase_updates = (values[n] for n in ("steps", "updates", "phase_updates"))
        self.action_rng.bit_generator.state = values["action_rng"]
        self.shuffle_rng.bit_generator.state = values["shuffle_rng"]
        self._runner = self._prefetched = self._regret = None
        if envs is not None:
            self.check_envs(envs)
            memory = self.network.new_memory(envs.num_envs, self.device)
            self._runner = VecEnvRunner(envs, state=strip_prefix("runner", arrays), memory=memory)
            if prefetched := strip_prefix("prefetched", arrays):
                length = self.settings.sequence_length
                rollout = Rollout(len(prefetched["rewards"]), envs.num_envs, self.network, self.device, length)
                self._prefetched = rollout.load(prefetched)
            if isinstance(envs, SelectsEpisodes):
                self._regret = RegretEstimator(envs.num_envs, strip_prefix("regret", arrays))
