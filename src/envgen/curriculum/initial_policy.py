"""Start a run from the weights of a trained policy instead of random ones."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from envgen.agents.learner import Learner, learner_name
from envgen.agents.policy import Policy, PolicyError
from envgen.runs.kinds import get_path
from envgen.runs.store import RunError, read_request
from envgen.worlds.world import World


class InitialPolicy:
    """The policy that a run starts from. It belongs to the run's settings, by a checksum of its weights.

    Args:
        source: What the user called it.
        load: Loads the policy. A run that is resumed loads it only if it has no checkpoint yet.
        sha256: Of the weights; computed if not given.
    """

    def __init__(self, source: str, load: Callable[[], Policy], sha256: str | None = None):
        self.source, self._load = source, load
        self._policy: Policy | None = None
        if sha256 is None:
            self._policy = load()
            sha256 = weights_sha256(self._policy)
        self.sha256 = sha256

    @classmethod
    def from_request(cls, entry: Any, load: Callable[[str], Policy]) -> Self | None:
        """The policy that a run directory names. TypeError or KeyError if the entry is damaged."""
        if entry is None:
            return None
        source, sha256 = entry["source"], entry["sha256"]
        if not isinstance(source, str) or not isinstance(sha256, str):
            raise TypeError("initial_policy")
        return cls(source, lambda: load(source), sha256)

    def request(self) -> dict[str, Any]:
        """The entry for run.json."""
        return {"source": self.source, "sha256": self.sha256}

    def check(self, learner: Learner) -> None:
        """Raise a PolicyError if the learner cannot start from this policy.

        A policy that is not loaded yet is checked by `copy_to`.
        """
        if self._policy is not None:
            _check_compatible(self._policy, learner.policy, self.source)

    def copy_to(self, learner: Learner) -> None:
        """Give a learner, which `check` has accepted, the weights of the policy and the scale of its values.

        The learner starts from new statistics of returns if the policy has none, as policies saved by earlier versions.
        """
        if self._policy is None:
            self._policy = self._load()
            if weights_sha256(self._policy) != self.sha256:
                raise RunError(
                    f"the run was started from different weights than {self.source} has now; restore that policy"
                )
            self.check(learner)
        own = learner.policy
        own.network.load_state_dict(self._policy.network.state_dict())
        for name, statistic in self._policy.return_statistics.items():
            if name in own.return_statistics:
                own.return_statistics[name].copy_(statistic)  # which the learner shares


def parts_of_run(folder: Path, world: World, learner: str | type[Learner]) -> dict[str, Any]:
    """Which of this world and learner a run was trained with, as arguments of `load_policy`.

    They can be the caller's own, which are not loaded by their names. Empty for what is not a run directory.
    """
    request = read_request(folder)[0] if (folder / "run.json").is_file() else {}
    parts: dict[str, Any] = {"world": world} if request.get("world") == world.name else {}
    if get_path(request, "learner", "name") == learner_name(learner):
        parts["learner"] = learner
    return parts


def weights_sha256(policy: Policy) -> str:
    """A checksum of the weights of a policy and of its statistics of returns, if it has any."""
    digest = hashlib.sha256()
    for name, tensor in [*sorted(policy.network.state_dict().items()), *sorted(policy.return_statistics.items())]:
        array = tensor.detach().cpu().numpy()
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _check_compatible(policy: Policy, own: Policy, source: str) -> None:
    if policy.observation_space != own.observation_space or policy.layout != own.layout:
        trained = " with ".join(str(policy.metadata[key]) for key in ("world", "observation") if key in policy.metadata)
        raise PolicyError(
            f"the initial policy {source} has different observations from this run"
            + (f": it was trained in {trained} observations" if trained else "")
        )
    if policy.action_space != own.action_space:
        raise PolicyError(
            f"the initial policy {source} has the actions {policy.action_space}, but this run has {own.action_space}"
        )
    if type(policy.network) is not type(own.network):
        raise PolicyError(
            f"the initial policy {source} was trained by another learner or with a different network class"
        )
    theirs, ours = (network.state_dict() for network in (policy.network, own.network))
    if {name: tensor.shape for name, tensor in theirs.items()} != {name: tensor.shape for name, tensor in ours.items()}:
        changes = _describe_changes(_network_settings(policy), _network_settings(own))
        raise PolicyError(f"the initial policy {source} has a different network{changes}")


def _network_settings(policy: Policy) -> Mapping[str, Any]:
    settings = policy.metadata.get("settings", {}).get("network", {})
    return settings if isinstance(settings, Mapping) else {}


def _describe_changes(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    changed = [name for name in ours if name in theirs and theirs[name] != ours[name] and name != "unimix"]
    if not changed:
        return ""
    values = ", ".join(f"{name} {theirs[name]} instead of {ours[name]}" for name in changed)
    return f": {values}; train with the same settings of the network"
