"""The environment policy: a language model that writes specs and is rewarded for tasks near the target success rate.

Its prompt holds the target, recent success rates by feature and a base spec, and it generates variations of that spec.
It learns from the success rates of its tasks by reward-weighted regression or by the policy gradient, or not at all
(GenEnv-Random). GenEnv-Static trains the agent on a fixed set that it generated once.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import torch

from envgen.runs.store import reading

from .language_model import ModelError
from .policy import LanguageModelPolicy, TrainBatch
from .proposers import Candidate, ProposalBatch, Proposer, ProposerContext
from .reward import (
    SuccessStats,
    curriculum_rewards,
    feature_surprisal,
    near_target,
    ngram_overlap,
    rwr_weights,
    to_tenths,
)
from .sampling import Completions, concat_completions
from .settings import AlphaCurriculumSettings, EnvironmentSettings
from .task_stores import NotNeeded, TaskFilter, TaskStore
from .tasks import Domain, Spec

STATIC_VARIATIONS = 5  # per prompt; the static set has this many times as many specs as base specs, as in the paper
STATIC_BATCH = 512  # specs of the static set that are generated together
NOT_NEEDED: NotNeeded = "not_needed"

# reward-weighted regression as in the paper, the policy gradient within the specs of one prompt, or no training
TrainingMethod = Literal["rwr", "grpo", "none"]
NAMES: dict[TrainingMethod, str] = {"rwr": "genenv", "grpo": "genenv-grpo", "none": "random"}


def environment_prompt(alpha: float, stats_prompt: str, base_spec: Spec) -> str:
    """The prompt of the environment policy."""
    return f"aim {to_tenths(alpha)}; {stats_prompt}; like {base_spec.text}"


class LanguageModelProposer(Proposer):
    def __init__(
        self, domain: Domain, policy: LanguageModelPolicy, method: TrainingMethod, settings: EnvironmentSettings,
        curriculum: AlphaCurriculumSettings, store: TaskStore, num_variations: int, max_attempts: int, seed: int,
    ):  # fmt: skip
        self.domain, self.policy, self.curriculum = domain, policy, curriculum
        self.method, self.settings, self.name = method, settings, NAMES[method]
        self.store, self.num_variations, self.max_attempts = store, num_variations, max_attempts
        self.rng = np.random.default_rng(seed)

    @classmethod
    def from_context(
        cls,
        context: ProposerContext,
        method: TrainingMethod = "none",
        num_variations: int | None = None,
        **options: Any,
    ) -> Self:
        settings = context.environment_settings
        if method == "none":  # never updated: it needs neither a reference model nor adapters
            settings = settings.model_copy(update={"kl_coef": 0.0, "lora_rank": None})
        return cls(
            context.domain, context.build_policy(settings, context.seed), method, settings, context.curriculum,
            context.stores.environment_specs, num_variations or context.plan.num_variations,
            context.plan.max_attempts, context.seed,
        )  # fmt: skip

    def propose(
        self, count: int, base_specs: Sequence[Spec], stats: SuccessStats, task_filter: TaskFilter
    ) -> ProposalBatch:
        candidates: list[Candidate] = []
        prompts: list[str] = []
        parts: list[Completions] = []
        num_prompt_tokens = 0
        missing = count
        for _ in range(self.max_attempts):
            base_indices = self.rng.integers(len(base_specs), size=-(-missing // self.num_variations))
            stats_prompt = stats.to_prompt()
            new_prompts = [environment_prompt(self.curriculum.alpha, stats_prompt, base_specs[k]) for k in base_indices]
            encoded_prompts = [self.encode_prompt(prompt) for prompt in new_prompts]
            num_prompt_tokens += sum(map(len, encoded_prompts))
            completions = self.policy.generate(encoded_prompts, self.num_variations)
            for row, text in enumerate(completions.decode(self.policy.lm)):
                group = len(prompts) + row // self.num_variations
                task, rejection = None, NOT_NEEDED
                if missing:
                    result = task_filter.check(text)
                    task, rejection = result.task, result.rejection
                missing -= task is not None
                candidates.append(Candidate(text, self.name, len(candidates), group, task, rejection))
            prompts += new_prompts
            parts.append(completions)
            if not missing:
                break
        completions = concat_completions(parts)
        return ProposalBatch(
            tuple(candidates), completions.num_tokens, num_prompt_tokens, tuple(prompts), completions
        )  # fmt: skip

    def encode_prompt(self, prompt: str) -> list[int]:
        return self.policy.lm.encode_prompt(self.domain.spec_prompt, prompt)

    def update(self, proposals: ProposalBatch, success_rates: Mapping[int, float]) -> dict[str, float]:
        accepted = proposals.accepted
        p = np.array([success_rates[candidate.index] for candidate in accepted])
        rewards = curriculum_rewards(p, self.curriculum)
        if self.curriculum.repetition_penalty:
            overlap = ngram_overlap([candidate.text for candidate in accepted])
            rewards = np.maximum(0.0, rewards - self.curriculum.repetition_penalty * overlap)  # rejected specs have 0
        if self.curriculum.feature_entropy_coef:
            features = [self.domain.features(candidate.task.spec) for candidate in accepted if candidate.task]
            rewards = rewards + self.curriculum.feature_entropy_coef * feature_surprisal(features)
        if self.method == "rwr":
            return self._rwr_update(proposals, p, rewards)
        if self.method == "grpo":
            reward_of = {candidate.index: reward for candidate, reward in zip(accepted, rewards, strict=True)}
            return self._policy_gradient_update(proposals, reward_of)
        return {}

    def _rwr_update(self, proposals: ProposalBatch, p: np.ndarray, rewards: np.ndarray) -> dict[str, float]:
        """Reward-weighted regression (section 2.3) on the specs near alpha, and on earlier ones from the store."""
        fresh = [
            {"prompt": proposals.prompts[candidate.group], "spec": candidate.text, "reward": float(reward)}
            for candidate, reward, is_near in zip(
                proposals.accepted, rewards, near_target(p, self.curriculum), strict=True
            )
            if is_near
        ]
        replayed = self.store.sample(round(self.settings.replay_ratio * len(fresh)), self.rng)
        self.store.add(fresh, key=lambda record: f"{record['prompt']}\n{record['spec']}")
        records = fresh + replayed
        if not records:
            return {"num_specs": 0.0}
        weights = rwr_weights(np.array([record["reward"] for record in records]), self.curriculum)
        prompts = [self.encode_prompt(record["prompt"]) for record in records]
        specs = [record["spec"] for record in records]
        batch = TrainBatch.from_texts(self.policy.lm, prompts, specs, weights.tolist())
        return self.policy.update(batch, "weighted_nll") | {"num_specs": float(len(records))}

    def _policy_gradient_update(self, proposals: ProposalBatch, reward_of: Mapping[int, float]) -> dict[str, float]:
        """GRPO over the specs generated from one prompt. Rejected specs have reward 0."""
        completions = proposals.completions
        assert completions is not None
        candidates = proposals.candidates
        rewards = np.array([reward_of.get(candidate.index, 0.0) for candidate in candidates])
        is_used = np.array([candidate.rejection != NOT_NEEDED for candidate in candidates])
        groups = np.array([candidate.group for candidate in candidates])
        advantages = np.zeros(len(candidates))
        for group in range(len(proposals.prompts)):
            members = is_used & (groups == group)
            group_rewards = rewards[members]
            if group_rewards.size > 1:
                advantages[members] = (group_rewards - group_rewards.mean()) / (group_rewards.std(ddof=1) + 1e-4)
        mask = completions.mask & torch.from_numpy(is_used).to(completions.mask.device)[:, None]
        batch = TrainBatch(
            [self.encode_prompt(prompt) for prompt in proposals.prompts], self.num_variations,
            Completions(completions.ids, mask), torch.from_numpy(advantages.astype(np.float32)),
        )  # fmt: skip
        return self.policy.update(batch, "ppo_clip") | {"num_specs": float(is_used.sum())}

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays, values = self.policy.state()
        return arrays, {**values, "rng": self.rng.bit_generator.state}

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        self.policy.load(arrays, values)
        self.rng.bit_generator.state = values["rng"]


class StaticProposer(Proposer):
    """Cycles through a fixed set of specs, in a new order each time. They were filtered when they were generated."""

    name = "static"

    def __init__(
        self, domain: Domain, specs: Sequence[str], num_tokens: int, seed: int, num_prompt_tokens: int = 0
    ):  # fmt: skip
        self.domain, self.specs, self.rng = domain, list(specs), np.random.default_rng(seed)
        self.remaining: list[int] = []  # indices left in this cycle
        self.unreported_tokens = num_tokens  # generated for the set; reported with the first batch
        self.unreported_prompt_tokens = num_prompt_tokens

    @classmethod
    def from_context(cls, context: ProposerContext, **options: Any) -> Self:
        static_set = load_static_set(context)
        specs = [context.domain.Spec.parse(text) for text in static_set["specs"]]
        context.task_filter.mark_accepted(specs)
        num_prompt_tokens = static_set.get("num_prompt_tokens", 0)  # older runs did not count them
        return cls(context.domain, static_set["specs"], static_set["num_tokens"], context.seed, num_prompt_tokens)

    def propose(
        self, count: int, base_specs: Sequence[Spec], stats: SuccessStats, task_filter: TaskFilter
    ) -> ProposalBatch:
        candidates = []
        for index in range(count):
            if not self.remaining:
                self.remaining = self.rng.permutation(len(self.specs)).tolist()
            text = self.specs[self.remaining.pop()]
            task = self.domain.make_task(self.domain.Spec.parse(text))
            candidates.append(Candidate(text, self.name, index, index, task))
        num_tokens, self.unreported_tokens = self.unreported_tokens, 0
        num_prompt_tokens, self.unreported_prompt_tokens = self.unreported_prompt_tokens, 0
        return ProposalBatch(tuple(candidates), num_tokens, num_prompt_tokens)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {}, {
            "rng": self.rng.bit_generator.state,
            "remaining": self.remaining,
            "unreported_tokens": self.unreported_tokens,
            "unreported_prompt_tokens": self.unreported_prompt_tokens,
        }

    def load(self, arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> None:
        self.rng.bit_generator.state, self.remaining = values["rng"], list(values["remaining"])
        self.unreported_tokens = values["unreported_tokens"]
        self.unreported_prompt_tokens = values.get("unreported_prompt_tokens", 0)  # older runs did not count them


def load_static_set(context: ProposerContext) -> dict[str, Any]:
    """The static set of a run: `specs`, `num_tokens` and `num_prompt_tokens`.

    It is generated once; a resumed run reads it from static.json and builds no environment policy.
    """
    run = context.run
    if not run.has("static"):
        environment = LanguageModelProposer.from_context(context, "none", STATIC_VARIATIONS)
        total = STATIC_VARIATIONS * len(context.base_specs)
        specs, num_tokens, num_prompt_tokens = list[str](), 0, 0
        for start in range(0, total, STATIC_BATCH):
            count = min(STATIC_BATCH, total - start)
            proposals = environment.propose(count, context.base_specs, SuccessStats(), context.task_filter)
            specs += [candidate.text for candidate in proposals.accepted]
            num_tokens += proposals.num_tokens
            num_prompt_tokens += proposals.num_prompt_tokens
        if not specs:
            raise ModelError(
                f"the environment policy generated no valid spec of {context.domain.name}, so there is nothing to "
                "train on; pretrain it longer or choose another environment model"
            )
        if run.is_main:
            run.write("static", {"specs": specs, "num_tokens": num_tokens, "num_prompt_tokens": num_prompt_tokens})
        environment.policy.accelerator.wait_for_everyone()
    data = run.read("static")
    with reading(run.folder / "static.json"):
        counts = data["num_tokens"], data.get("num_prompt_tokens", 0)
        if not all(isinstance(spec, str) for spec in data["specs"]) or any(type(count) is not int for count in counts):
            raise TypeError("specs are not strings, or num_tokens or num_prompt_tokens is not an integer")
    return data
