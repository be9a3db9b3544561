"""Every number of the co-evolution. What the GenEnv paper leaves open is a setting here, and says so."""

from typing import Annotated, Literal

from pydantic import Field

from envgen.settings import Settings

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]


PROPOSERS: dict[str, str] = {
    "genenv": "the environment policy, learning by reward-weighted regression as in the paper",
    "genenv-grpo": "the environment policy, learning by the policy gradient",
    "random": "the environment policy, never updated (GenEnv-Random)",
    "static": "a set that the environment policy wrote once, before training (GenEnv-Static)",
    "uniform": "uniform specs",
    "dapo": "uniform specs; groups that all scored the same are dropped and replaced",
    "greedy": "uniform specs, chosen by how often tasks like them were solved lately",
}


class Curriculum(Settings):
    """What the environment is rewarded for (equation 3 and section 2.2.2)."""

    alpha: Fraction = 0.5
    """The success rate that earns the environment most."""
    beta: Positive = 4.0
    """How fast its reward falls away from that: exp(-beta (p - alpha)^2). Never given in the paper."""
    unit: Literal["task", "group", "batch"] = "task"
    """Over which replies p is taken: those to one task, to all variations of one spec, or to all of a step. Open in the
    paper, which describes the last two."""
    success: Positive = 1.0
    """From which score on a reply counts as success. Open in the paper."""
    filter: Positive | None = 0.1
    """Reward-weighted regression leaves out specs with p farther than this from alpha (k_min); null leaves out none."""
    weight: NotNegative = 1.0
    """Lambda: in that regression a spec weighs exp(lambda R)."""
    repetition: NotNegative = 0.0
    """What a spec loses that says what all others of its step say too, less for what few say. Not in the paper."""


class Learning(Settings):
    """How a policy learns from the texts it wrote."""

    learning_rate: Positive = 3e-4
    """Of AdamW, constant. The paper's, for 7 billion parameters, are 1e-6 (agent) and 5e-7 (environment)."""
    epochs: Count = 1
    """How often each update goes through its texts."""
    mean: Literal["token", "text"] = "token"
    """Whether all tokens of a gradient step count alike, or all texts, whatever their length."""
    minibatches: Count = 1
    """Into how many gradient steps an epoch is divided."""
    rows: Count = 4096
    """Texts that go through the network at once at the most: for the memory, without effect on what is learned."""
    clip: Positive = 0.2
    """How far the probability of a token may move in one update, as a fraction."""
    kl: NotNegative = 1e-3
    """Weight of the penalty for leaving the model that training began with. Open in the paper."""
    kl_cap: Positive | None = None
    """An update takes no further gradient step once it has moved its texts' tokens farther than this (KL, nats a
    token); null for no such end. The paper caps its environment's, and does not say where."""
    max_grad_norm: Positive = 1.0
    """Gradients longer than this are shortened to it."""
    weight_decay: NotNegative = 0.0
    """Of AdamW."""
    temperature: Positive = 1.0
    """Texts are drawn at this temperature."""
    longest: Count = 96
    """Tokens of a text at the most."""


class AgentSettings(Learning):
    """The agent learns by GRPO. The paper gives no group size, clip or KL, nor what becomes of flat groups."""

    epochs: Count = 2
    kl: NotNegative = 0.0
    group: Annotated[int, Field(ge=2)] = 8
    """Replies to each task."""
    scale: bool = True
    """Whether advantages are in deviations of their group, as GRPO has it, or in scores."""
    flat: Literal["keep", "drop", "refill"] = "keep"
    """Groups that all scored the same teach nothing: they are kept (and count in the mean), dropped, or replaced by
    further tasks (DAPO)."""


class EnvironmentSettings(Learning):
    """The environment policy."""

    method: Literal["rwr", "grpo", "none"] = "rwr"
    """Reward-weighted regression, as in the paper; policy gradient within what was written to one context; nothing."""
    epochs: Count = 2
    again: NotNegative = 1.0
    """Earlier specs from the pool for each fresh one in a regression. Open in the paper."""
    kl: NotNegative = 1e-2
    kl_cap: Positive | None = 0.1
    longest: Count = 64


class Plan(Settings):
    """How much, and of what."""

    rollouts: Count = 30_720
    """Replies of the agent in all; what every comparison holds equal."""
    tasks: Count = 32
    """Tasks of a step."""
    fresh: Fraction = 0.75
    """Share of a step's tasks that are new."""
    replay: Fraction = 0.125
    """Share drawn from the pool of earlier tasks; the rest are base tasks."""
    base: Count = 544
    """Base tasks, drawn once: the paper's number."""
    variations: Count = 4
    """Specs written to one context, as variations of one base spec: the paper's number."""
    tries: Count = 4
    """How often as many specs as are missing are asked for, before uniform ones take their place."""
    test: Count = 600
    """Held-out tasks."""
    test_every: Count = 12
    """Steps from one test to the next."""
