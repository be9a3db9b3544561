"""Achievement Distillation (Moon et al., NeurIPS 2023): PPO that also learns which achievement comes next.

An achievement is a step whose reward exceeds `reward_threshold`. Its representation is how the features of the
observation change in this step, nu = normalize(phi(next) - phi(now)). Three things are added to PPO:

- The representation of the last achievement of the episode is an input of policy and value (`memory`).
- Prediction within an episode: psi(phi, action, memory) of a step must be closer to the representation of the next
  achievement than psi of a step of the same episode whose next achievement is another one.
- Matching across episodes: partial optimal transport pairs the achievements of two episodes, and the representations of
  a pair must be closer to each other than to those of other achievements.

PPO itself is unchanged. After every `buffer_rollouts` rollouts, prediction and matching train the encoder for
`aux_epochs` epochs. In this phase, the Kullback-Leibler divergence from the previous policy and the value loss keep
policy and value function from drifting.

Paper and published code differ in some places. This implementation follows the code, which produced the published
results: the divergence is KL(new || old); only episodes that begin and end in the buffer are used; the anchor of the
steps after the last achievement is -phi of the last observation; prediction and matching have separate optimizers.

Three details differ from both. The memory of the step right after an achievement is computed again in each update, from
the stored features of the step before. Gradients of the auxiliary losses are clipped like those of PPO. And the
transport plan comes from a compiled kernel instead of the package POT; a test compares the two.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from pydantic import Field
from torch import nn
from torch.nn import functional as F

from envgen.errors import NonFiniteLossError
from envgen.worlds.world import Layout

from .errors import describe_batch
from .networks import ActorCritic, make_heads
from .optimal_transport import match
from .parallel import Minibatch, autocast
from .policy import NetworkFactory
from .ppo import PPO, load_optimizer, optimizer_arrays
from .rollout import Arrays, Rollout, strip_prefix
from .settings import Count, Fraction, HyperparameterError, NetworkSettings, Positive, PpoSettings, ppo_settings_for

AUX_METRICS = ("prediction_loss", "matching_loss", "aux_kl", "aux_value_loss")
TRANSPORT_ITERATIONS = 100
AuxLosses = Callable[[Minibatch], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]  # losses, features, memory; (B, ...)


class DistillationSettings(PpoSettings):
    """Hyperparameters of Achievement Distillation. The defaults of the additions to PPO are the published ones."""

    buffer_rollouts: Count = 8
    """Rollouts between two auxiliary phases, which learn from them."""
    aux_epochs: Annotated[int, Field(ge=0)] = 6
    """Epochs of each auxiliary phase: a pass of matching and a pass of prediction each."""
    aux_batch_size: Count = 512
    """Steps in a minibatch of an auxiliary pass."""
    aux_learning_rate: Positive = 3e-4
    """Learning rate of the two auxiliary optimizers."""
    reward_threshold: float = 0.1
    """A larger reward marks an achievement."""
    temperature: Positive = 0.1
    """Temperature of both contrastive losses."""
    transport_reg: Positive = 0.05
    """Entropic regularization of the transport plan."""
    match_threshold: Fraction = 0.5
    """Achievements are paired if the transport plan moves more than this between them."""
    num_targets: Count = 16
    """Number of random episodes that each episode is matched with."""
    kl_coef: Annotated[float, Field(ge=0)] = 1.0
    """Coefficient of the Kullback-Leibler divergence in the auxiliary losses."""
    aux_vf_coef: Annotated[float, Field(ge=0)] = 1.0
    """Coefficient of the value loss in the auxiliary losses."""
    sequence_length: Count = 1
    """Steps over which gradients flow back. The memory carries no gradient, so 1 is enough."""


class AchievementNetwork(ActorCritic):
    """An encoder, heads that see its features and the memory, and the predictor psi.

    The recurrent state (B, 2 width) consists of the memory and the features of the previous step.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        layout: Layout = None,
        settings: NetworkSettings | None = None,
        reward_threshold: float = 0.1,
    ):
        settings = settings or NetworkSettings()
        if settings.memory != "none":
            raise HyperparameterError(
                f"the learner distillation has a memory of its own; use --memory none instead of {settings.memory}"
            )
        if not isinstance(action_space, spaces.Discrete):
            raise HyperparameterError(f"the learner distillation needs discrete actions, not {action_space}; use ppo")
        super().__init__(observation_space, action_space, layout, settings, reward_threshold)
        self.reward_threshold = reward_threshold
        width = self.encoder.width
        self.state_size = 2 * width
        self.policy_head, self.value_head = make_heads(2 * width, self.action_dist.num_params)
        self.film = nn.Sequential(nn.Linear(int(action_space.n), width), nn.ReLU(), nn.Linear(width, 2 * width))
        self.predictor = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "reward_threshold": self.reward_threshold}

    def forward_sequence(
        self, prepared: torch.Tensor, state: torch.Tensor, starts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        features = self.encoder.encode(prepared.flatten(0, 1)).float().unflatten(0, prepared.shape[:2])
        memories = []
        for t in range(prepared.shape[1]):
            memory = self.memory(prepared[:, t], features[:, t], state, starts[:, t])
            memories.append(memory)
            state = torch.cat([memory, features[:, t].detach()], -1)
        return *self.heads(features.flatten(0, 1), torch.stack(memories, 1).flatten(0, 1)), state

    def memory(
        self, prepared: torch.Tensor, features: torch.Tensor, state: torch.Tensor, starts: torch.Tensor
    ) -> torch.Tensor:
        """The memory (B, width) of a step: the last achievement of the episode, without gradient."""
        memory, previous = (state * ~starts[:, None]).chunk(2, -1)
        was_achievement = prepared[:, -1:].bool() & ~starts[:, None]  # the step before
        return torch.where(was_achievement, normalize(features.detach() - previous), memory)

    def heads(self, features: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Distribution parameters and values, from features (B, width) and memory (B, width)."""
        return self._heads(torch.cat([features.float(), memory], -1))

    def predict(self, features: torch.Tensor, actions: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """psi (B, width), of unit length."""
        one_hot = F.one_hot(actions, self.action_dist.num_params).to(features.dtype)
        scale, shift = self.film(one_hot).float().chunk(2, -1)
        modulated = (1 + scale) * features.float() + shift
        return normalize(self.predictor(torch.cat([modulated, memory], -1)).float())


def normalize(x: torch.Tensor) -> torch.Tensor:
    return F.normalize(x, dim=-1)


def contrastive_losses(
    anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor, temperature: float
) -> torch.Tensor:
    """InfoNCE with one negative each, (B,): -log softmax([a p, a n] / temperature)[0]. The arguments are (B, width)."""
    positive, negative = (anchors * positives).sum(-1), (anchors * negatives).sum(-1)
    return F.softplus((negative - positive) / temperature)


def kl_divergences(logits: torch.Tensor, old_logits: torch.Tensor) -> torch.Tensor:
    """KL(new || old) of categorical distributions, (B,)."""
    new, old = logits.log_softmax(-1), old_logits.log_softmax(-1)
    return (new.exp() * (new - old)).sum(-1)


class Episode(NamedTuple):
    """An episode that begins and ends in the buffer."""

    rows: np.ndarray  # (length,) where its steps are among the flattened steps of the buffer
    achieved: np.ndarray  # (achievements,) which of its steps are achievements; 0 is its first step


def find_episodes(dones: np.ndarray, achieved: np.ndarray, valid: np.ndarray) -> list[Episode]:
    """The whole episodes of (T, B) steps with at least one achievement; step t of environment b is row t * B + b.

    The last step of an episode does not count, because its next observation belongs to another one.
    """
    episodes = []
    num_envs = dones.shape[1]
    for b in range(num_envs):
        ends = np.flatnonzero(dones[:, b])
        for end_before, end in pairwise(ends):
            times = np.arange(end_before + 1, end + 1)
            times = times[valid[times, b]]
            achieved_steps = np.flatnonzero(achieved[times[:-1], b])
            if len(achieved_steps):
                episodes.append(Episode(times * num_envs + b, achieved_steps))
    return episodes


class AchievementDistillation(PPO):
    """PPO with Achievement Distillation. The arguments are those of `PPO`."""

    settings: DistillationSettings
    network: AchievementNetwork
    KEEPS_ROLLOUTS = True

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        layout: Layout = None,
        settings: DistillationSettings | None = None,
        seed: int = 0,
        device: str | torch.device = "cpu",
        compile: bool = False,
        distributed: bool = True,
        network_factory: NetworkFactory | None = None,
    ):
        settings = settings or ppo_settings_for(observation_space, DistillationSettings)
        factory = network_factory or partial(
            AchievementNetwork, settings=settings.network, reward_threshold=settings.reward_threshold
        )
        super().__init__(observation_space, action_space, layout, settings, seed, device, compile, distributed, factory)
        self.aux_rng = np.random.default_rng([seed, 2])
        self.aux_optimizers = {
            name: torch.optim.Adam(self.network.parameters(), lr=settings.aux_learning_rate, fused=True)
            for name in ("matching", "prediction")
        }
        self._buffer: list[dict[str, torch.Tensor]] = []  # (T, B, ...) of each rollout since the last auxiliary phase

    @classmethod
    def settings_class(cls) -> type[DistillationSettings]:
        return DistillationSettings

    def _make_batch(self, rollout: Rollout) -> tuple[Minibatch, float]:
        batch, explained_variance = super()._make_batch(rollout)
        shape = rollout.num_steps, rollout.num_envs
        arrays = {name: torch.from_numpy(getattr(rollout, name)) for name in ("rewards", "dones", "valid", "starts")}
        returns = batch["returns"].unflatten(0, shape)
        tensors = {"obs": rollout.obs, "actions": rollout.actions, "hidden": rollout.hidden, "returns": returns}
        tensors |= {name: array.to(self.device) for name, array in arrays.items()}
        # every process has the episodes of all: it pairs them in the same way, and learns from its share of the pairs
        self._buffer.append({name: self.process_group.all_gather_envs(tensor) for name, tensor in tensors.items()})
        return batch, explained_variance

    def update(self, rollout: Rollout) -> dict[str, float]:
        metrics = super().update(rollout)
        if len(self._buffer) < self.settings.buffer_rollouts:
            return metrics
        buffer = {name: torch.cat([entry[name] for entry in self._buffer]) for name in self._buffer[0]}
        self._buffer.clear()
        return metrics | self._distill(buffer)

    def _distill(self, buffer: Minibatch) -> dict[str, float]:
        """The auxiliary phase. Returns AUX_METRICS, averaged over minibatches."""
        s = self.settings
        rewards, dones, valid = (buffer[name].cpu().numpy() for name in ("rewards", "dones", "valid"))
        episodes = find_episodes(dones, rewards > s.reward_threshold, valid)
        if not episodes:
            return {}
        num_envs = dones.shape[1]
        steps = {name: tensor.flatten(0, 1) for name, tensor in buffer.items()}
        steps["old_logits"] = self._forward_all(steps, lambda features, memory: self.network.heads(features, memory)[0])
        sums: dict[str, list[torch.Tensor]] = {name: [] for name in AUX_METRICS}
        for _ in range(s.aux_epochs):
            representations = self._representations(steps, episodes, num_envs)
            for minibatch in self._matching_minibatches(steps, episodes, representations, num_envs):
                loss, kl, value_loss = self._update_aux("matching", minibatch, self._matching_losses)
                for name, value in (("matching_loss", loss), ("aux_kl", kl), ("aux_value_loss", value_loss)):
                    sums[name].append(value)
            representations = self._representations(steps, episodes, num_envs)
            for minibatch in self._prediction_minibatches(steps, episodes, representations):
                loss, kl, value_loss = self._update_aux("prediction", minibatch, self._prediction_losses)
                for name, value in (("prediction_loss", loss), ("aux_kl", kl), ("aux_value_loss", value_loss)):
                    sums[name].append(value)
        return {name: float(torch.stack(values).mean()) for name, values in sums.items() if values}

    @torch.no_grad()
    def _forward_all(
        self, steps: Minibatch, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    ) -> torch.Tensor:
        """`function(features, memory)` of all steps."""
        rows = torch.arange(len(steps["obs"]), device=self.device)
        return self._map_rows(rows, lambda index: function(*self._encode(steps, index)))

    def _map_rows(self, rows: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """`function(rows)`, computed in batches. Each process computes its share, and all get the whole."""
        group = self.process_group
        local = group.local_rows(len(rows))
        results = [function(batch) for batch in rows[local].split(self.settings.aux_batch_size)]
        if group.size == 1:
            return torch.cat(results)
        part = torch.cat(results)  # a process without rows has an empty batch
        whole = part.new_zeros(len(rows), *part.shape[1:])
        whole[local] = part
        return group.all_reduce(whole)

    def _encode(self, steps: Minibatch, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Features and memory of the selected steps."""
        obs, hidden, starts = (steps[name].index_select(0, index) for name in ("obs", "hidden", "starts"))
        with autocast(self.device, self.bfloat16):
            features = self.network.encoder.encode(obs).float()
        return features, self.network.memory(obs, features, hidden, starts)

    def _representations(self, steps: Minibatch, episodes: Sequence[Episode], num_envs: int) -> list[torch.Tensor]:
        """For each episode, the goals of its steps, (achievements + 1, width), of unit length and without gradient.

        The goal of a step is the representation nu of the next achievement. After the last achievement, it is -phi of
        the last observation.
        """
        achieved = np.concatenate([episode.rows[episode.achieved] for episode in episodes])
        last = np.array([episode.rows[-1] for episode in episodes])
        rows = torch.from_numpy(np.concatenate([achieved, achieved + num_envs, last])).to(self.device)
        with torch.no_grad():
            features = self._map_rows(rows, lambda index: self._encode(steps, index)[0])
        features, next_features, last_features = features.split([len(achieved), len(achieved), len(last)])
        changes = normalize(next_features - features).split([len(episode.achieved) for episode in episodes])
        ends = normalize(-last_features).split(1)
        return [torch.cat(pair) for pair in zip(changes, ends, strict=True)]

    # ------------------------------------------------------------------------------------- matching across episodes

    def _matching_minibatches(
        self, steps: Minibatch, episodes: Sequence[Episode], representations: Sequence[torch.Tensor], num_envs: int
    ) -> Iterator[Minibatch]:
        """Achievements of one episode, each with its match in another episode and a negative there."""
        s, rng = self.settings, self.aux_rng
        achievements = [rows[:-1].cpu().numpy() for rows in representations]
        targets = [k for k, episode in enumerate(episodes) if len(episode.achieved) > 1]  # a negative is needed
        first_id = np.cumsum([0, *(len(rows) for rows in achievements)])
        sources, positives, negatives = [], [], []
        for source, source_rows in enumerate(achievements):
            others = [k for k in targets if k != source]
            for target in rng.permutation(others)[: s.num_targets]:
                target_rows, matched = achievements[target], np.empty(len(source_rows), np.int64)
                match(source_rows, target_rows, s.transport_reg, TRANSPORT_ITERATIONS, s.match_threshold, matched)
                i = np.flatnonzero(matched >= 0)
                j = matched[i]
                k = (j + rng.integers(1, len(target_rows), len(j))) % len(target_rows)
                sources.append(first_id[source] + i)
                positives.append(first_id[target] + j)
                negatives.append(first_id[target] + k)
        if not sources:
            return
        pairs = np.stack([np.concatenate(ids) for ids in (sources, positives, negatives)])
        achieved = np.concatenate([episode.rows[episode.achieved] for episode in episodes])
        table = torch.cat([rows[:-1] for rows in representations])
        for source_ids, positive_ids, negative_ids in self._batches(pairs):
            step_ids = achieved[source_ids]
            yield {
                **self._select(steps, step_ids),
                "next_obs": steps["obs"].index_select(0, torch.from_numpy(step_ids + num_envs).to(self.device)),
                "positives": table[torch.from_numpy(positive_ids)],
                "negatives": table[torch.from_numpy(negative_ids)],
            }

    def _matching_losses(self, mb: Minibatch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        with autocast(self.device, self.bfloat16):
            all_features = self.network.encoder.encode(torch.cat([mb["obs"], mb["next_obs"]])).float()
        features, next_features = all_features.chunk(2)
        anchors = normalize(next_features - features)
        losses = contrastive_losses(anchors, mb["positives"], mb["negatives"], self.settings.temperature)
        return losses, features, self.network.memory(mb["obs"], features, mb["hidden"], mb["starts"])

    # --------------------------------------------------------------------------------- prediction within an episode

    def _prediction_minibatches(
        self, steps: Minibatch, episodes: Sequence[Episode], representations: Sequence[torch.Tensor]
    ) -> Iterator[Minibatch]:
        """Steps with their goals, each with a negative: a step of the same episode that has another goal."""
        rows, goal_ids, negatives = [], [], []
        first_goal = 0
        for episode in episodes:
            length = len(episode.rows)
            bounds = np.concatenate([[0], episode.achieved + 1, [length]])  # of the steps with the same goal
            goal = np.searchsorted(bounds, np.arange(length), side="right") - 1
            start, stop = bounds[goal], bounds[goal + 1]
            other = self.aux_rng.integers(0, length - (stop - start))
            negatives.append(episode.rows[np.where(other < start, other, other + stop - start)])
            rows.append(episode.rows)
            goal_ids.append(first_goal + goal)
            first_goal += len(episode.achieved) + 1
        samples = np.stack([np.concatenate(ids) for ids in (rows, goal_ids, negatives)])
        table = torch.cat(list(representations))
        for row_ids, goals, negative_ids in self._batches(samples):
            negative = self._select(steps, negative_ids)
            yield {
                **self._select(steps, row_ids),
                "anchors": table[torch.from_numpy(goals)],
                **{f"negative_{name}": negative[name] for name in ("obs", "actions", "hidden", "starts")},
            }

    def _prediction_losses(self, mb: Minibatch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        obs, actions, hidden, starts = (
            torch.cat([mb[name], mb[f"negative_{name}"]]) for name in ("obs", "actions", "hidden", "starts")
        )
        with autocast(self.device, self.bfloat16):
            features = self.network.encoder.encode(obs).float()
            memory = self.network.memory(obs, features, hidden, starts)
            positives, negatives = self.network.predict(features, actions, memory).chunk(2)
        losses = contrastive_losses(mb["anchors"], positives, negatives, self.settings.temperature)
        return losses, features.chunk(2)[0], memory.chunk(2)[0]

    # -------------------------------------------------------------------------------------------------- shared by both

    def _batches(self, ids: np.ndarray) -> Iterator[np.ndarray]:
        """Random columns of (k, n), at most `aux_batch_size` at a time."""
        order = self.aux_rng.permutation(ids.shape[1])
        for start in range(0, len(order), self.settings.aux_batch_size):
            yield ids[:, order[start : start + self.settings.aux_batch_size]]

    def _select(self, steps: Minibatch, rows: np.ndarray) -> Minibatch:
        index = torch.from_numpy(rows).to(self.device)
        names = "obs", "actions", "hidden", "starts", "returns", "old_logits"
        return {name: steps[name].index_select(0, index) for name in names}

    def _update_aux(self, name: str, minibatch: Minibatch, losses: AuxLosses) -> torch.Tensor:
        """One gradient step. Returns the contrastive loss, the divergence and the value loss."""
        s, count = self.settings, len(minibatch["obs"])
        returns = minibatch["returns"]
        self.return_normalizer.update(returns.mean(), returns.square().mean())

        def loss_function(mb: Minibatch) -> tuple[torch.Tensor, torch.Tensor]:
            contrastive, features, memory = losses(mb)
            logits, values = self.network.heads(features, memory)
            kl = kl_divergences(logits, mb["old_logits"]).sum() / count
            value_loss = (values - self.return_normalizer.normalize(mb["returns"])).square().sum() / count
            contrastive = contrastive.sum() / count
            loss = contrastive + s.kl_coef * kl + s.aux_vf_coef * value_loss
            return loss, torch.stack([contrastive, kl, value_loss]).detach()

        parameters = self._ppo_parameters() if name == "matching" else list(self.network.parameters())
        local = self.process_group.local_rows(count)
        local_minibatch = {key: tensor[local] for key, tensor in minibatch.items()}
        grads, metrics = self.threaded_gradients.compute(loss_function, parameters, local_minibatch)
        self.process_group.all_reduce_many([*grads, metrics])
        self.network.zero_grad()
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        grad_norm = nn.utils.clip_grad_norm_(parameters, s.max_grad_norm)
        if not torch.isfinite(metrics.sum() + grad_norm):
            values: list[float] = [*metrics.tolist(), grad_norm.item()]
            names: list[str] = ["loss", "kl", "value_loss", "grad_norm"]
            named = dict(zip(names, values, strict=True))
            raise NonFiniteLossError(describe_batch(minibatch, named, f"{name} after update {self.updates}"))
        self.aux_optimizers[name].step()
        self.network.zero_grad()  # PPO's optimizer must not take a step with these gradients
        return metrics

    def _ppo_parameters(self) -> list[nn.Parameter]:
        """All parameters except those of the predictor, on which the losses of PPO and matching do not depend."""
        modules = self.network.encoder, self.network.policy_head, self.network.value_head
        return [parameter for module in modules for parameter in module.parameters()]

    # ----------------------------------------------------------------------------------------------------------- state

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, values = super().state()
        parameters = list(self.network.parameters())
        for name, optimizer in self.aux_optimizers.items():
            arrays |= optimizer_arrays(f"{name}_optimizer", optimizer, parameters)
        for k, entry in enumerate(self._buffer):
            arrays |= {f"buffer.{k}.{name}": tensor.to("cpu", copy=True).numpy() for name, tensor in entry.items()}
        return arrays, values | {"aux_rng": self.aux_rng.bit_generator.state, "buffer": len(self._buffer)}

    def load(self, arrays: Arrays, values: Mapping[str, Any], envs: VectorEnv | None = None) -> None:
        super().load(arrays, values, envs)
        parameters = list(self.network.parameters())
        for name, optimizer in self.aux_optimizers.items():
            load_optimizer(f"{name}_optimizer", optimizer, parameters, arrays, self.device)
        self.aux_rng.bit_generator.state = values["aux_rng"]
        self._buffer = [
            {
                name: torch.from_numpy(array.copy()).to(self.device)
                for name, array in strip_prefix(f"buffer.{k}", arrays).items()
            }
            for k in range(values["buffer"])
        ]
