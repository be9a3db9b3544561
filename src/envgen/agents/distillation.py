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
results: the divergence is KL(new || old); only episodes that begin and end in the buffer are used; each gradient step
learns from one episode; the anchor of the steps after the last achievement is -phi of the last observation; divergence
and value loss are those of random steps of the episode in matching, and of steps and negatives in prediction; both
have an optimizer of their own.

It differs from the code in what follows. The memory of the step right after an achievement is computed again in each
update, from the stored features of the step before. Negatives always have another goal, where the code draws any step
or achievement, sometimes the positive itself. Positives and negatives of matching are encoded once for each episode,
also if its pairs fill several minibatches. The transport plan comes from a compiled kernel instead of the package POT;
a test compares the two.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from pydantic import Field
from torch import nn
from torch.nn import functional as F

from envgen.arrays import Arrays, strip_prefix
from envgen.errors import NonFiniteLossError
from envgen.settings import Fraction, PositiveInt
from envgen.worlds.world import Layout

from .errors import describe_batch
from .networks import ActorCritic, Categorical, make_heads
from .optimal_transport import match
from .optimizers import load_optimizer, optimizer_arrays
from .parallel import NUM_CHUNKS, GraphedFunction, Minibatch, autocast, padded_size
from .ppo import PPO
from .rollout import Rollout
from .settings import (
    VECTOR_DEFAULTS,
    Coefficient,
    HyperparameterError,
    LearningRate,
    NetworkSettings,
    Positive,
    PpoSettings,
)

AUX_METRICS = ("prediction_loss", "matching_loss", "aux_kl", "aux_value_loss")
TRANSPORT_ITERATIONS = 100
StepLosses = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # contrastive loss, divergence, value loss; each (B,)
GradientFunction = Callable[[Minibatch], tuple[list[torch.Tensor], torch.Tensor]]


class DistillationSettings(PpoSettings):
    """Hyperparameters of Achievement Distillation. The defaults are the published ones for images and symbols: the
    auxiliary phase needs rollouts that are longer than episodes, and learns from whole episodes only."""

    DEFAULTS_BY_OBSERVATION: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "tiles": {},
        "symbols": {},
        "vectors": {**VECTOR_DEFAULTS, "num_steps": 512},
    }
    """Kind of observation: defaults that differ from the above."""

    buffer_rollouts: PositiveInt = 8
    """Rollouts between two auxiliary phases, which learn from them."""
    aux_epochs: Annotated[int, Field(ge=0)] = 6
    """Epochs of each auxiliary phase: a pass of matching and a pass of prediction each."""
    aux_batch_size: PositiveInt = 512
    """Steps in a minibatch of an auxiliary pass."""
    aux_learning_rate: LearningRate = 3e-4
    """Learning rate of the two auxiliary optimizers. It is not annealed."""
    reward_threshold: float = 0.1
    """A larger reward marks an achievement."""
    temperature: Positive = 0.1
    """Temperature of both contrastive losses."""
    transport_reg: Annotated[float, Field(ge=0.005)] = 0.05
    """Entropic regularization of the transport plan. Below 0.005, its exponentials could become zero."""
    match_threshold: Fraction = 0.5
    """Achievements are paired if the transport plan moves more than this between them."""
    num_targets: PositiveInt = 16
    """Number of random episodes that each episode is matched with."""
    kl_coef: Coefficient = 1.0
    """Coefficient of the Kullback-Leibler divergence in the auxiliary losses."""
    aux_vf_coef: Coefficient = 1.0
    """Coefficient of the value loss in the auxiliary losses."""
    sequence_length: Annotated[int, Field(ge=1, le=1)] = 1
    """Steps over which gradients flow back: always 1, because the memory carries no gradient."""


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
        self.film = make_mlp(int(action_space.n), width, 2 * width)
        self.predictor = make_mlp(2 * width, width, width)

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "reward_threshold": self.reward_threshold}

    def encode(self, prepared: torch.Tensor) -> torch.Tensor:
        """phi (B, width). The last bit is left out: it is the same in all achievements, and only the memory uses it."""
        return self.encoder.encode(prepared[:, :-1].contiguous())

    def forward_sequence(
        self, prepared: torch.Tensor, state: torch.Tensor, starts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        features = self.encode(prepared.flatten(0, 1)).float().unflatten(0, prepared.shape[:2])
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
        table = self.film(torch.eye(self.action_dist.num_params, device=features.device)).float()  # one row per action
        scale, shift = table.index_select(0, actions).chunk(2, -1)
        modulated = (1 + scale) * features.float() + shift
        return normalize(self.predictor(torch.cat([modulated, memory], -1)).float())


def make_mlp(size: int, hidden: int, out: int) -> nn.Sequential:
    """LayerNorm, a hidden layer and an output layer. The initial weights of each unit have the norm 1.4 and 1."""
    layer1, layer2 = nn.Linear(size, hidden, bias=False), nn.Linear(hidden, out)
    for layer, norm in ((layer1, 1.4), (layer2, 1.0)):
        layer.weight.data *= norm / layer.weight.data.norm(dim=1, keepdim=True)
    nn.init.zeros_(layer2.bias)
    return nn.Sequential(nn.LayerNorm(size), layer1, nn.ReLU(), layer2)


def normalize(x: torch.Tensor) -> torch.Tensor:
    return F.normalize(x, dim=-1)


def contrastive_losses(
    anchors: torch.Tensor, positives: torch.Tensor, negatives: torch.Tensor, temperature: float
) -> torch.Tensor:
    """InfoNCE with one negative each, (B,): -log softmax([a p, a n] / temperature)[0]. The arguments are (B, width)."""
    positive, negative = (anchors * positives).sum(-1), (anchors * negatives).sum(-1)
    return F.softplus((negative - positive) / temperature)


def kl_divergences(log_probs: torch.Tensor, old_log_probs: torch.Tensor) -> torch.Tensor:
    """KL(new || old) of categorical distributions, (B,)."""
    return (log_probs.exp() * (log_probs - old_log_probs)).sum(-1)


class Episode(NamedTuple):
    """An episode that begins and ends in the buffer."""

    rows: np.ndarray  # (length,) where its steps are among the flattened steps of the buffer
    achieved: np.ndarray  # (achievements,) which of its steps are achievements; 0 is its first step


def find_episodes(starts: np.ndarray, dones: np.ndarray, achieved: np.ndarray, valid: np.ndarray) -> list[Episode]:
    """The whole episodes of (T, B) steps with at least one achievement; step t of environment b is row t * B + b.

    The last step of an episode does not count, because its next observation belongs to another one.
    """
    episodes = []
    num_envs = dones.shape[1]
    for b in range(num_envs):
        first_steps = np.flatnonzero(starts[:, b])
        for end in np.flatnonzero(dones[:, b]):
            k = np.searchsorted(first_steps, end, side="right") - 1
            if k < 0:  # it began before the buffer
                continue
            times = np.arange(first_steps[k], end + 1)
            times = times[valid[times, b]]
            achieved_steps = np.flatnonzero(achieved[times[:-1], b])
            if len(achieved_steps):
                episodes.append(Episode(times * num_envs + b, achieved_steps))
    return episodes


class EncodedSteps(NamedTuple):
    """Several tensors of rows, encoded together."""

    rows: torch.Tensor  # (n,) the distinct ones
    positions: tuple[torch.Tensor, ...]  # for each of the tensors, which of the distinct rows its rows are
    features: torch.Tensor  # (n, width)
    memory: torch.Tensor  # (n, width)


class AchievementDistillation(PPO):
    """PPO with Achievement Distillation. The arguments are those of `PPO`."""

    settings: DistillationSettings
    """Its hyperparameters."""
    network: AchievementNetwork
    """Its network."""
    KEEPS_ROLLOUTS = True

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        layout: Layout = None,
        settings: DistillationSettings | None = None,
        seed: int = 0,
        **arguments: Any,
    ):
        super().__init__(observation_space, action_space, layout, settings, seed, **arguments)
        self.aux_rng = np.random.default_rng([seed, 2])
        self.aux_optimizers = {
            name: torch.optim.Adam(self.network.parameters(), lr=self.settings.aux_learning_rate, fused=True)
            for name in ("matching", "prediction")
        }
        self._buffer: list[dict[str, torch.Tensor]] = []  # (T, B, ...) of each rollout since the last auxiliary phase

    def make_network(
        self, observation_space: spaces.Space, action_space: spaces.Space, layout: Layout
    ) -> AchievementNetwork:
        s = self.settings
        return AchievementNetwork(observation_space, action_space, layout, s.network, s.reward_threshold)

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
        starts, rewards, dones, valid = (buffer[name].cpu().numpy() for name in ("starts", "rewards", "dones", "valid"))
        episodes = find_episodes(starts, dones, rewards > s.reward_threshold, valid)
        if not episodes:
            return {}
        num_envs = dones.shape[1]
        steps = {name: tensor.flatten(0, 1) for name, tensor in buffer.items()}
        with torch.no_grad():
            rows = torch.arange(len(steps["obs"]), device=self.device)
            steps["old_logits"] = self._map_rows(rows, lambda index: self.network.heads(*self._encode(steps, index))[0])
        compute_matching = self._aux_gradients("matching", partial(self._matching_losses, steps, num_envs))
        compute_prediction = self._aux_gradients("prediction", partial(self._prediction_losses, steps))
        sums: dict[str, list[torch.Tensor]] = {name: [] for name in AUX_METRICS}
        for _ in range(s.aux_epochs):
            for minibatch in self._matching_minibatches(steps, episodes, num_envs):
                losses = self._update_aux("matching", steps, minibatch, compute_matching)
                for name, value in zip(("matching_loss", "aux_kl", "aux_value_loss"), losses, strict=True):
                    sums[name].append(value)
            for minibatch in self._prediction_minibatches(steps, episodes, num_envs):
                losses = self._update_aux("prediction", steps, minibatch, compute_prediction)
                for name, value in zip(("prediction_loss", "aux_kl", "aux_value_loss"), losses, strict=True):
                    sums[name].append(value)
        return {name: float(torch.stack(values).mean()) for name, values in sums.items() if values}

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
        features = self._encode_obs(obs)
        return features, self.network.memory(obs, features, hidden, starts)

    def _encode_obs(self, obs: torch.Tensor) -> torch.Tensor:
        with autocast(self.device, self.bfloat16):
            return self.network.encode(obs).float()

    def _pad(self, rows: torch.Tensor) -> torch.Tensor:
        """Repeat the first row, where only a few numbers of rows are fast."""
        if self.device.type != "cpu" or not self.bfloat16:
            return rows
        return torch.cat([rows, rows[:1].expand(padded_size(len(rows)) - len(rows))])

    @torch.no_grad()
    def _features(self, steps: Minibatch, rows: np.ndarray) -> torch.Tensor:
        def encode(index: torch.Tensor) -> torch.Tensor:
            return self._encode_obs(steps["obs"].index_select(0, self._pad(index)))[: len(index)]

        return self._map_rows(torch.from_numpy(rows).to(self.device), encode)

    # ------------------------------------------------------------------------------------- matching across episodes

    def _matching_minibatches(
        self, steps: Minibatch, episodes: Sequence[Episode], num_envs: int
    ) -> Iterator[Minibatch]:
        """Achievements of one episode, each with its match in another episode and a negative there.

        `rows` are random steps of the episode, for the divergence and the value loss.
        """
        s, rng = self.settings, self.aux_rng
        candidates = np.flatnonzero([len(episode.achieved) > 1 for episode in episodes])  # a negative is needed
        for source in rng.permutation(len(episodes)):
            targets = rng.permutation(candidates[candidates != source])[: s.num_targets]
            if not len(targets):
                continue
            achieved = [episodes[k].rows[episodes[k].achieved] for k in (source, *targets)]
            representations = self._achievement_representations(steps, achieved, num_envs)
            first_ids = np.cumsum([0, *(len(rows) for rows in achieved)])
            source_rows, *target_rows = (
                part.cpu().numpy() for part in representations.split([len(rows) for rows in achieved])
            )
            pairs = []
            for first_id, rows in zip(first_ids[1:-1], target_rows, strict=True):
                matched = np.empty(len(source_rows), np.int64)
                match(source_rows, rows, s.transport_reg, TRANSPORT_ITERATIONS, s.match_threshold, matched)
                i = np.flatnonzero(matched >= 0)
                j = matched[i]
                k = (j + rng.integers(1, len(rows), len(j))) % len(rows)
                pairs.append(np.stack([achieved[0][i], first_id + j, first_id + k]))
            source_ids, positives, negatives = np.concatenate(pairs, 1)
            random_rows = rng.choice(episodes[source].rows, len(source_ids))
            for batch in self._batches(np.stack([source_ids, positives, negatives, random_rows])):
                achievements, positive_ids, negative_ids, rows = batch
                yield {
                    "achievements": achievements,
                    "positives": representations[positive_ids],
                    "negatives": representations[negative_ids],
                    "rows": rows,
                }

    def _achievement_representations(
        self, steps: Minibatch, achieved: Sequence[np.ndarray], num_envs: int
    ) -> torch.Tensor:
        """nu of achievements in the rows `achieved`, without gradient, (achievements, width)."""
        rows = np.concatenate(achieved)
        features, next_features = self._features(steps, np.concatenate([rows, rows + num_envs])).chunk(2)
        return normalize(next_features - features)

    def _matching_losses(self, steps: Minibatch, num_envs: int, mb: Minibatch) -> StepLosses:
        encoded = self._encode_distinct(steps, mb["achievements"], mb["achievements"] + num_envs, mb["rows"])
        now, later, random = encoded.positions
        anchors = normalize(encoded.features.index_select(0, later) - encoded.features.index_select(0, now))
        losses = contrastive_losses(anchors, mb["positives"], mb["negatives"], self.settings.temperature)
        kl, value_loss = self._regularizers(steps, encoded)
        return losses, kl.index_select(0, random), value_loss.index_select(0, random)

    # --------------------------------------------------------------------------------- prediction within an episode

    def _prediction_minibatches(
        self, steps: Minibatch, episodes: Sequence[Episode], num_envs: int
    ) -> Iterator[Minibatch]:
        """Steps of one episode with their goals, each with a negative: a step of it that has another goal.

        The goal of a step is the representation nu of the next achievement. After the last achievement, it is -phi of
        the last observation.
        """
        for k in self.aux_rng.permutation(len(episodes)):
            rows, achieved = episodes[k]
            goals = np.searchsorted(achieved, np.arange(len(rows)))  # of each step, as an index into `_goals`
            for (batch,) in self._batches(np.arange(len(rows))[None]):
                halves = [half for half in np.array_split(batch, NUM_CHUNKS) if half.size]
                negatives = np.concatenate([self._sample_negatives(half, goals) for half in halves])
                yield {
                    "rows": rows[batch],
                    "negative_rows": rows[negatives],
                    "anchors": self._goals(steps, episodes[k], num_envs)[goals[batch]],
                }

    def _sample_negatives(self, chosen: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """For each of the chosen steps, another of them with another goal.

        A thread computes the gradients of one half of a minibatch, and does not need features of the other half. If all
        chosen steps have the same goal, the negatives come from the whole episode.
        """
        candidates = np.sort(chosen) if np.ptp(goals[chosen]) else np.arange(len(goals))
        start, stop = (np.searchsorted(goals[candidates], goals[chosen], side) for side in ("left", "right"))
        other = self.aux_rng.integers(0, len(candidates) - (stop - start))
        return candidates[np.where(other < start, other, other + stop - start)]

    def _goals(self, steps: Minibatch, episode: Episode, num_envs: int) -> torch.Tensor:
        """The goals of the steps of an episode, (achievements + 1, width), of unit length and without gradient."""
        achieved = episode.rows[episode.achieved]
        features = self._features(steps, np.concatenate([achieved, achieved + num_envs, episode.rows[-1:]]))
        now, later, last = features.split([len(achieved), len(achieved), 1])
        return normalize(torch.cat([later - now, -last]))

    def _prediction_losses(self, steps: Minibatch, mb: Minibatch) -> StepLosses:
        encoded = self._encode_distinct(steps, mb["rows"], mb["negative_rows"])
        actions = steps["actions"].index_select(0, encoded.rows)
        with autocast(self.device, self.bfloat16):
            predictions = self.network.predict(encoded.features, actions, encoded.memory)
        positives, negatives = (predictions.index_select(0, index) for index in encoded.positions)
        losses = contrastive_losses(mb["anchors"], positives, negatives, self.settings.temperature)
        first, second = encoded.positions
        kl, value_loss = (  # averaged over the step and its negative
            (values.index_select(0, first) + values.index_select(0, second)) / 2
            for values in self._regularizers(steps, encoded)
        )
        return losses, kl, value_loss

    # -------------------------------------------------------------------------------------------------- shared by both

    def _batches(self, ids: np.ndarray) -> Iterator[np.ndarray]:
        """Random columns of (k, n), at most `aux_batch_size` at a time."""
        order = self.aux_rng.permutation(ids.shape[1])
        for start in range(0, len(order), self.settings.aux_batch_size):
            yield ids[:, order[start : start + self.settings.aux_batch_size]]

    def _encode_distinct(self, steps: Minibatch, *rows: torch.Tensor) -> EncodedSteps:
        """Encode the steps in several rows. Each distinct step is computed once, except on a GPU.

        To find the distinct steps, the CPU would have to wait for the GPU.
        """
        distinct = torch.cat(rows)
        index = torch.arange(len(distinct), device=distinct.device)
        if not self._uses_graphs:
            distinct, index = torch.unique(distinct, return_inverse=True)
            distinct = self._pad(distinct)
        features, memory = self._encode(steps, distinct)
        return EncodedSteps(distinct, index.chunk(len(rows)), features, memory)

    def _regularizers(self, steps: Minibatch, encoded: EncodedSteps) -> tuple[torch.Tensor, torch.Tensor]:
        """The divergence from the previous policy and the squared errors of values, for each distinct step."""
        logits, values = self.network.heads(encoded.features, encoded.memory)
        old_logits, returns = (steps[name].index_select(0, encoded.rows) for name in ("old_logits", "returns"))
        dist = self.network.action_dist
        assert isinstance(dist, Categorical)
        errors = values - self.return_normalizer.normalize(returns)
        return kl_divergences(dist.log_probs(logits), dist.log_probs(old_logits)), errors.square()

    @property
    def _uses_graphs(self) -> bool:
        return self.device.type == "cuda"

    def _aux_gradients(self, name: str, losses: Callable[[Minibatch], StepLosses]) -> GradientFunction:
        """A function of minibatches: the gradients of the auxiliary parameters, and the averages of the three losses.

        It is valid for one auxiliary phase.
        """
        s, parameters = self.settings, self._aux_parameters(name)

        def loss_function(mb: Minibatch) -> tuple[torch.Tensor, torch.Tensor]:
            contrastive, kl, value_loss = ((values * mb["weights"]).sum() for values in losses(mb))
            loss = contrastive + s.kl_coef * kl + s.aux_vf_coef * value_loss
            return loss, torch.stack([contrastive, kl, value_loss]).detach()

        compute = partial(self.threaded_gradients.compute, loss_function, parameters)
        return GraphedFunction(compute, s.aux_batch_size) if self._uses_graphs else compute

    def _aux_parameters(self, name: str) -> list[nn.Parameter]:
        return self._loss_parameters() if name == "matching" else self._trainable_parameters()

    def _update_aux(
        self, name: str, steps: Minibatch, arrays: Mapping[str, Any], compute_gradients: GradientFunction
    ) -> torch.Tensor:
        """One gradient step. Returns the contrastive loss, the divergence and the value loss."""
        s, count = self.settings, len(arrays["rows"])
        minibatch = {key: torch.as_tensor(array, device=self.device) for key, array in arrays.items()}
        minibatch["weights"] = torch.full((count,), 1 / count, device=self.device)
        rows = torch.cat([minibatch[key] for key in ("rows", "negative_rows") if key in minibatch])
        returns = steps["returns"].index_select(0, rows).double()  # as the statistics of the normalizer
        self.return_normalizer.update(returns.mean(), returns.square().mean())
        parameters = self._aux_parameters(name)
        local = self.process_group.local_rows(count)
        grads, metrics = compute_gradients({key: tensor[local] for key, tensor in minibatch.items()})
        self.process_group.all_reduce_many([*grads, metrics])
        self.network.zero_grad()
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = grad
        grad_norm = nn.utils.clip_grad_norm_(parameters, s.max_grad_norm)
        if not torch.isfinite(metrics.sum() + grad_norm):
            values: list[float] = [*metrics.tolist(), grad_norm.item()]
            names: list[str] = ["loss", "kl", "value_loss", "grad_norm"]
            named = dict(zip(names, values, strict=True))
            location = f"{name} after update {self.updates}"
            raise NonFiniteLossError(describe_batch({**minibatch, "returns": returns}, named, location))
        self.aux_optimizers[name].step()
        self.network.zero_grad()  # PPO's optimizer must not take a step with these gradients
        return metrics.clone()

    def _loss_parameters(self) -> list[nn.Parameter]:
        """The trainable parameters on which the losses of PPO and matching depend: all but those of the predictor."""
        modules = self.network.encoder, self.network.policy_head, self.network.value_head
        return [parameter for module in modules for parameter in module.parameters() if parameter.requires_grad]

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
