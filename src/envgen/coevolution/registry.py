"""All proposers by name. To add one, write its class (proposers.py has the contract) and one line here.

Importing this module is cheap; the classes are imported when a run starts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .proposers import Proposer, ProposerContext


@dataclass(frozen=True)
class ProposerEntry:
    description: str
    path: str  # "module:Class", relative to this package
    options: Mapping[str, Any] = field(default_factory=dict)  # of `from_context`
    needs_model: bool = False  # whether it uses the environment model
    agent_overrides: Mapping[str, Any] = field(default_factory=dict)  # agent settings that come with it

    @property
    def trains_model(self) -> bool:
        """Whether the environment model is updated."""
        return self.options.get("method", "none") != "none"

    def build(self, context: "ProposerContext") -> "Proposer":
        module, _, name = self.path.partition(":")
        cls = getattr(import_module(f".{module}", __package__), name)
        return cls.from_context(context, **self.options)


DEFAULT_PROPOSER = "genenv"
PROPOSERS: dict[str, ProposerEntry] = {
    "genenv": ProposerEntry(
        "the environment policy, trained by reward-weighted regression as in the paper",
        "environment:LanguageModelProposer", {"method": "rwr"}, needs_model=True,
    ),
    "genenv-grpo": ProposerEntry(
        "the environment policy, trained by the policy gradient",
        "environment:LanguageModelProposer", {"method": "grpo"}, needs_model=True,
    ),
    "random": ProposerEntry(
        "the environment policy, never updated (GenEnv-Random)",
        "environment:LanguageModelProposer", {"method": "none"}, needs_model=True,
    ),
    "static": ProposerEntry(
        "a fixed set that the environment policy generated before training (GenEnv-Static)",
        "environment:StaticProposer", needs_model=True,
    ),
    "uniform": ProposerEntry("uniform specs", "proposers:UniformProposer"),
    "dapo": ProposerEntry(
        "uniform specs; groups without variance are dropped and replaced",
        "proposers:UniformProposer", agent_overrides={"zero_variance_groups": "refill"},
    ),
    "greedy": ProposerEntry(
        "uniform specs, selected by recent success rates of similar tasks", "proposers:GreedyProposer"
    ),
    "learnability": ProposerEntry(
        "uniform specs, sampled by the learnability p (1 - p) of similar tasks", "proposers:LearnabilityProposer"
    ),
}  # fmt: skip
