"""All settings of the co-evolution. Choices that the GenEnv paper leaves open are settings here, and say so."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from envgen.settings import Fraction, PositiveInt, Settings

PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
# Counts that decide how much memory a step needs. Their limits are beyond what any machine has.
Tokens = Annotated[int, Field(ge=1, le=1_048_576)]
Completions = Annotated[int, Field(ge=1, le=65_536)]
TaskCount = Annotated[int, Field(ge=1, le=1_000_000)]
DEFAULT_SAVE_EVERY = 60.0  # seconds between checkpoints
# settings that only matter to an environment policy, of the plan and of the curriculum
MODEL_PLAN = ("num_variations", "max_attempts")
MODEL_CURRICULUM = ("filter_tolerance", "rwr_lambda", "repetition_penalty", "feature_entropy_coef")
LossAggregation = Literal["token", "sequence"]


class AlphaCurriculumSettings(Settings):
    """The reward of the environment policy (equation 3 and section 2.2.2)."""

    alpha: Fraction = 0.5
    """Target success rate, at which the reward of the environment policy is highest."""
    beta: PositiveFloat = 4.0
    """Sharpness of the reward exp(-beta (p - alpha)^2). Not given in the paper."""
    success_over: Literal["task", "group", "batch"] = "task"
    """Replies over which the success rate p is averaged: those to one task, to all variations of one spec, or to all
    newly proposed tasks of a step. Not specified in the paper, which describes the last two."""
    success_threshold: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Lowest score that counts as success. Not specified in the paper."""
    filter_tolerance: PositiveFloat | None = 0.1
    """Reward-weighted regression only uses specs whose p is within this distance of alpha (k_min in the paper); none
    turns this filter off."""
    rwr_lambda: NonNegativeFloat = 1.0
    """Lambda in the weights exp(lambda R) of reward-weighted regression."""
    repetition_penalty: NonNegativeFloat = 0.0
    """Coefficient of a penalty for n-gram overlap with the other specs of the step. Not in the paper."""
    feature_entropy_coef: NonNegativeFloat = 0.0
    """Coefficient of a bonus for feature values that few specs of the step have: -log2 of their frequency, averaged
    over the features of a spec. Its mean over specs is the mean entropy of the features. Not in the paper."""

    def stored(self) -> dict[str, Any]:
        """The values that identify a run. Settings added since the first version are left out where they are off."""
        unused = set() if self.feature_entropy_coef else {"feature_entropy_coef"}
        return self.model_dump(mode="json", exclude=unused)


class PolicySettings(Settings):
    """How a language model generates and how it is updated."""

    learning_rate: PositiveFloat = 3e-4
    """Constant learning rate of AdamW. The paper uses 1e-6 (agent) and 5e-7 (environment) for 7B models."""
    epochs: PositiveInt = 1
    """Passes over the batch in each update."""
    loss_agg: LossAggregation = "token"
    """Average the loss over all tokens of a gradient step, or first over the tokens of each sequence, so that long
    sequences do not count more."""
    num_minibatches: PositiveInt = 1
    """Gradient steps per epoch."""
    microbatch_size: PositiveInt = 4096
    """Maximum number of sequences per forward pass of an update, but at least the completions of one prompt. Limits
    memory; does not change the gradient."""
    clip_coef: PositiveFloat = 0.2
    """Clipping range of the probability ratio (epsilon of PPO)."""
    kl_coef: NonNegativeFloat = 1e-3
    """Weight of the KL penalty against the initial model. Not specified in the paper."""
    target_kl: PositiveFloat | None = None
    """Stop the update when the KL divergence per token exceeds this, in nats. If it is none, there is no limit.
    The paper limits the environment's update but gives no number."""
    max_grad_norm: PositiveFloat = 1.0
    """Maximum norm for gradient clipping."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight decay of AdamW."""
    temperature: Annotated[float, Field(ge=0.01)] = 1.0
    """Sampling temperature."""
    max_new_tokens: Tokens = 96
    """Maximum length of a completion in tokens; in multi-turn tasks, of each turn."""
    lora_rank: PositiveInt | None = None
    """Train low-rank adapters of this rank (LoRA) in place of the weights. If it is not set, the weights are trained.
    Adapters need a higher learning rate, such as 1e-4 for 7B models."""
    lora_alpha: PositiveFloat = 32.0
    """Scale of the adapters, which are multiplied by lora_alpha / lora_rank."""

    @model_validator(mode="after")
    def _check_adapters(self) -> Self:
        is_default = self.lora_alpha == type(self).model_fields["lora_alpha"].default
        if self.lora_rank is None and not is_default:
            raise ValueError(f"lora_alpha {self.lora_alpha:g} has no effect without adapters; set lora_rank too")
        return self

    def stored(self) -> dict[str, Any]:
        """The values that identify a run. Settings added since the first version are left out where they are off."""
        unused = {"lora_rank", "lora_alpha"} if self.lora_rank is None else set()
        return self.model_dump(mode="json", exclude=unused)


class AgentSettings(PolicySettings):
    """The agent learns by GRPO. The paper does not give the group size, the clipping range or the KL weight, nor what
    happens to groups without variance."""

    epochs: PositiveInt = 2
    """Passes over the batch in each update."""
    kl_coef: NonNegativeFloat = 0.0
    """Weight of the KL penalty against the initial model. Not specified in the paper."""
    num_generations: Annotated[int, Field(ge=2, le=65_536)] = 8
    """Completions per task (the group size of GRPO)."""
    scale_rewards: bool = True
    """Divide advantages by the standard deviation of their group, as GRPO does."""
    zero_variance_groups: Literal["keep", "drop", "refill"] = "keep"
    """Groups whose completions all have the same score have no gradient: keep them (they count in the mean), drop
    them, or replace them by groups of further tasks (DAPO)."""


class EnvironmentSettings(PolicySettings):
    """The environment policy, which writes the tasks."""

    epochs: PositiveInt = 2
    """Passes over the batch in each update."""
    replay_ratio: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """Earlier specs to train on for each fresh one in reward-weighted regression. Not specified in the paper."""
    kl_coef: NonNegativeFloat = 1e-2
    """Weight of the KL penalty against the initial model. Not specified in the paper."""
    target_kl: PositiveFloat | None = 0.1
    """Stop the update when the estimated KL divergence per token exceeds this, in nats. If it is none, there is no
    limit. In reward-weighted regression, the estimate comes from the specs that the update makes more likely, and is
    many times the divergence on new samples. The paper limits the update but gives no number."""
    max_new_tokens: Tokens = 64
    """Maximum length of a spec in tokens."""


class CoevolutionPlan(Settings):
    """The budget of a run and the composition of its steps."""

    rollouts: PositiveInt = 30_720
    """Completions of the agent in the whole run. Runs are compared at equal rollouts."""
    tasks_per_step: TaskCount = 32
    """Tasks in each step."""
    fresh_fraction: Fraction = 0.75
    """Fraction of the tasks of a step that are newly proposed."""
    replay_fraction: Fraction = 0.125
    """Fraction of the tasks of a step that are replayed from earlier ones; the rest are base tasks."""
    num_base_tasks: TaskCount = 544
    """Base tasks, sampled once before training. 544 as in the paper."""
    num_variations: Completions = 4
    """Specs generated per prompt, as variations of one base spec. 4 as in the paper."""
    max_attempts: PositiveInt = 4
    """Rounds of generation before missing specs are replaced by uniform ones."""
    num_eval_tasks: TaskCount = 600
    """Held-out tasks."""
    eval_every: PositiveInt = 12
    """Steps between evaluations."""

    @model_validator(mode="after")
    def _check_fractions(self) -> Self:
        if self.fresh_fraction + self.replay_fraction > 1:
            raise ValueError(
                f"fresh_fraction {self.fresh_fraction:g} and replay_fraction {self.replay_fraction:g} must not add up "
                "to more than 1"
            )
        return self


class ModelSize(Settings):
    """The size of a model that is created from scratch."""

    width: PositiveInt = 128
    """Hidden size."""
    num_layers: Annotated[int, Field(ge=2)] = 3
    """Layers: one convolution, then attention."""
    conv_window: PositiveInt = 4
    """Kernel size of the convolution in tokens."""
    num_heads: PositiveInt = 4
    """Attention heads per layer."""
    mlp_width: PositiveInt = 256
    """Hidden size of the feed-forward layers."""
    vocab_size: PositiveInt = 1024
    """Maximum size of the vocabulary."""
    max_length: PositiveInt = 512
    """Maximum length of prompt and completion together in tokens, as programs that load the model read it. Training
    does not enforce it."""

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        head_size = self.width // self.num_heads
        if head_size < 2 or head_size % 2:  # positions are encoded by rotating pairs of features
            raise ValueError(
                f"width {self.width} gives each of {self.num_heads} heads {head_size} features, but their number must "
                "be even and at least 2"
            )
        return self


class PretrainSettings(Settings):
    """Supervised training of models that are created from scratch, before they learn by themselves."""

    agent_steps: PositiveInt = 350
    """Gradient steps of the agent."""
    environment_steps: PositiveInt = 400
    """Gradient steps of the environment policy."""
    batch_size: PositiveInt = 32
    """Examples per gradient step."""
    hard_fraction: Fraction = 0.4
    """Fraction of the agent's tasks that are uniform instead of easy, so that RL starts with some correct replies."""
    learning_rate: PositiveFloat = 3e-3
    """Learning rate of AdamW, which trains embeddings, the convolution and norms."""
    muon_learning_rate: PositiveFloat = 0.02
    """Learning rate of Muon, which trains the weight matrices. AdamW takes twice as long to reach the same loss."""
    warmup_steps: PositiveInt = 20
    """Steps over which both learning rates rise from 0."""
    cooldown_fraction: Fraction = 0.4
    """Fraction of the steps, at the end, over which both learning rates fall back to 0."""
    num_tokenizer_specs: PositiveInt = 2000
    """Specs whose texts the tokenizer is trained on."""
    num_held_out: PositiveInt = 600
    """Number of held-out tasks that are excluded from the training data."""
