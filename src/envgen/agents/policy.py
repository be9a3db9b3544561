"""Trained policies: a network that chooses actions, without optimizer, environments or any other training state.

A saved policy is a folder:

    policy.safetensors    network parameters, the statistics of returns, and the bounds of the spaces
    policy.json           spaces, network class and arguments, symbol map or tile grid, precision, and `metadata`

Nothing is pickled, so loading a policy cannot run code.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from safetensors import SafetensorError
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors

from envgen.errors import EnvgenError
from envgen.rng import isolated_rng
from envgen.runs.checkpoint import describe_error
from envgen.runs.files import MAX_JSON_BYTES, parse_json, read_regular, write_flushed
from envgen.settings import to_path
from envgen.worlds.world import Layout, SymbolMap, TileGrid

from .errors import SpaceError
from .memory import NO_INFOS, AgentMemory
from .networks import ActorCritic, PolicyNetwork, count_parameters, run_step
from .parallel import local_device
from .settings import NetworkSettings

ARRAYS_FILE, JSON_FILE = "policy.safetensors", "policy.json"
NEW_ARRAYS_FILE, NEW_JSON_FILE = f".{ARRAYS_FILE}.tmp", f".{JSON_FILE}.tmp"
FORMAT_VERSION = 1
NETWORK, RETURN_STATISTICS = "network.", "return_normalizer."  # prefixes of arrays

# what parsing, the spaces and the network raise for wrong content
PARSE_ERRORS = (
    ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, AssertionError, SafetensorError,
)  # fmt: skip

NetworkFactory = Callable[[spaces.Space[Any], spaces.Space[Any], Layout], PolicyNetwork]


class PolicyError(EnvgenError):
    """A saved policy cannot be read or written; the message names the file and what is wrong with it."""


class Policy:
    """Chooses actions for single observations and batches of them.

    `act` is deterministic unless it is given a random number generator. `predict` has the signature of
    Stable-Baselines3, so a policy also works with `stable_baselines3.common.evaluation.evaluate_policy`.

    A policy with memory (`has_memory`) keeps the memory of each environment from one `act` to the next. Report the
    result of each step with `observe`, which also resets the memory where an episode ended:

        obs, infos = envs.reset()
        policy.reset(infos)
        while True:
            obs, rewards, terminated, truncated, infos = envs.step(policy.act(obs))
            policy.observe(rewards, terminated | truncated, infos)

    With next-step autoreset, the step after the end of an episode only resets its environment, and the next episode
    starts after it: report that step as an end, too.

    Attributes:
        metadata: JSON values saved with the policy, such as the learner's settings, the world and the observation kind.
        return_statistics: The state of the learner's normalization of returns, which gives the values of the network
            their scale. A run that starts from the policy needs it; acting does not. Empty for policies without.
    """

    def __init__(
        self,
        network: PolicyNetwork,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        layout: Layout = None,
        device: str | torch.device = "cpu",
        bfloat16: bool = False,
        metadata: Mapping[str, Any] | None = None,
        return_statistics: Mapping[str, torch.Tensor] | None = None,
    ):
        self.network = network
        self.return_statistics = dict(return_statistics or {})
        self.observation_space, self.action_space, self.layout = observation_space, action_space, layout
        self.device, self.bfloat16 = local_device(device), bfloat16
        self.metadata = dict(metadata or {})
        self.rng = np.random.default_rng()  # used by `predict` for sampling
        self._memory: AgentMemory | None = None  # of the environments of the last call of `act`
        self._first_infos = NO_INFOS

    def __repr__(self) -> str:
        parts = [str(self.metadata[key]) for key in ("world", "observation") if key in self.metadata]
        return f"<Policy: {', '.join([*parts, f'{count_parameters(self.network):,} parameters'])}>"

    @property
    def has_memory(self) -> bool:
        """Whether actions depend on earlier steps of the episode."""
        return self.network.state_size > 0 or self.network.history_spec is not None

    def reset(self, infos: Mapping[str, Any] = NO_INFOS) -> None:
        """Forget everything: the next `act` starts an episode in every environment.

        Args:
            infos: What the reset of the environments returned. Only needed for levels in which skills count as achieved
                from the start, which the history of the agent then includes.
        """
        self._memory, self._first_infos = None, infos

    def observe(self, rewards: Any, dones: Any, infos: Mapping[str, Any] = NO_INFOS) -> None:
        """Record the result of the step that followed the last `act`.

        Args:
            rewards: (n,) the rewards, or one number after an `act` for a single observation.
            dones: (n,) whether the step ended the episode, or only reset the environment (next-step autoreset).
            infos: What the step returned; see `reset`.
        """
        if self._memory is not None:
            self._memory.record_rewards(np.atleast_1d(np.asarray(rewards, np.float64)))
            self._memory.reset(np.atleast_1d(np.asarray(dones, np.bool_)), infos)

    def act(self, obs: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        """Actions for one observation or a batch: sampled with `rng`, or the most likely without.

        With memory, the i-th observation of each call must come from the same environment. A different number of
        observations than in the last call resets the memory.
        """
        num_envs = self._num_envs(obs)
        if self._memory is None or self._memory.num_envs != num_envs:
            self._memory = self.network.new_memory(num_envs, self.device)
            self._memory.reset(np.ones(num_envs, np.bool_), self._first_infos)
            self._first_infos = NO_INFOS
        return self._act(obs, rng, self._memory)

    @torch.inference_mode()
    def _act(self, obs: Any, rng: np.random.Generator | None, memory: AgentMemory) -> np.ndarray:
        batch = np.require(obs, requirements=["C", "W"])  # PyTorch has no other arrays
        is_single = self._is_single(batch)
        if is_single:
            batch = batch[None]
        dist, network = self.network.action_dist, self.network
        inputs = (torch.from_numpy(array).to(self.device) for array in (batch, memory.bits) if array is not None)
        dist_params, _, memory.hidden = run_step(
            network, network.prepare(*inputs), memory.hidden, memory.starts, self.bfloat16
        )
        memory.starts = np.zeros(len(batch), np.bool_)  # unless `observe` reports the end of an episode
        if rng is None:
            actions = dist.to_action(dist.mode(dist_params))
        else:
            noise = torch.from_numpy(dist.noise(rng, len(batch))).to(self.device)
            actions = dist.to_action(dist.sample(dist_params, noise))
        memory.record_action(batch, actions)
        return actions[0] if is_single else actions

    def predict(
        self,
        observation: Any,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """`(actions, state)`, as in Stable-Baselines3. Sampled unless `deterministic`; `seed` makes it repeatable.

        A policy with memory returns its state, to be passed to the next call together with `episode_start`, which marks
        the environments in which an episode starts. Without a state, an episode starts in every environment. This
        interface has no rewards, but the built-in networks with memory observe them: the policy acts as if every reward
        were 0. Use `act` and `observe` to pass rewards.
        """
        rng = None if deterministic else self.rng
        if not self.has_memory:
            return self.act(observation, rng), None
        memory = self.network.new_memory(self._num_envs(observation), self.device)
        if state is not None:
            memory.load(dict(zip(memory.state(), state, strict=True)))
            if episode_start is not None:
                memory.reset(np.atleast_1d(np.asarray(episode_start, np.bool_)))
        actions = self._act(observation, rng, memory)
        memory.record_rewards(np.zeros(memory.num_envs))
        return actions, tuple(memory.state().values())

    def seed(self, seed: int | None) -> None:
        """Seed the sampling of `predict`."""
        self.rng = np.random.default_rng(seed)

    def _num_envs(self, obs: Any) -> int:
        return 1 if self._is_single(np.asarray(obs)) else len(obs)

    def _is_single(self, obs: np.ndarray) -> bool:
        shape, dtype = self.observation_space.shape, self.observation_space.dtype
        if dtype is not None and obs.dtype.kind != dtype.kind:
            raise SpaceError(f"this policy expects observations of {dtype}, not {obs.dtype}")
        if obs.shape == shape:
            return True
        if shape is not None and obs.shape[1:] == shape:
            return False
        raise SpaceError(
            f"this policy expects an observation of shape {shape} or a batch of shape "
            f"({', '.join(['n', *map(str, shape or ())])}), not {obs.shape}"
        )

    def save(self, path: str | Path) -> Path:
        """Write the policy to the folder `path`, which `load_policy` reads. An existing policy there is replaced."""
        folder = to_path("path", path, PolicyError)
        tensors = {f"{NETWORK}{name}": tensor for name, tensor in self.network.state_dict().items()}
        tensors |= {f"{RETURN_STATISTICS}{name}": tensor for name, tensor in self.return_statistics.items()}
        arrays = {name: tensor.detach().to("cpu", copy=True).numpy() for name, tensor in tensors.items()}
        document: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "network": _class_name(self.network),
            "network_arguments": self.network.arguments() if isinstance(self.network, ActorCritic) else {},
            "symbol_map": self.layout._asdict() if isinstance(self.layout, SymbolMap) else None,
            "tile_grid": self.layout._asdict() if isinstance(self.layout, TileGrid) else None,
            "bfloat16": self.bfloat16,
            "metadata": self.metadata,
        }
        for name, space in (("observation_space", self.observation_space), ("action_space", self.action_space)):
            document[name], bounds = _space_to_json(space)
            arrays |= {f"{name}.{bound}": array for bound, array in bounds.items()}
        arrays_data = save_safetensors(arrays)
        document["sha256"] = hashlib.sha256(arrays_data).hexdigest()
        json_data = json.dumps(document, indent=1).encode()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                write_flushed(folder / NEW_ARRAYS_FILE, arrays_data)
                write_flushed(folder / NEW_JSON_FILE, json_data)
            except BaseException:
                for name in (NEW_ARRAYS_FILE, NEW_JSON_FILE):
                    (folder / name).unlink(missing_ok=True)
                raise
            # From the first replacement on, the new policy is the one that is loaded (`_read_arrays`).
            os.replace(folder / NEW_JSON_FILE, folder / JSON_FILE)
            os.replace(folder / NEW_ARRAYS_FILE, folder / ARRAYS_FILE)
        except OSError as error:
            raise PolicyError(f"cannot save the policy to {folder}: {error.strerror}") from error
        return folder


def load_policy(
    path: str | Path, device: str | torch.device = "cpu", network_factory: NetworkFactory | None = None
) -> Policy:
    """Load a policy that `Policy.save` wrote.

    Args:
        path: The policy's folder.
        device: Where to run the network.
        network_factory: Builds the network if the policy was trained with one of your own.
    """
    folder = Path(path)
    try:
        json_data = read_regular(folder / JSON_FILE, max_bytes=MAX_JSON_BYTES)
        arrays_data = _read_arrays(folder, json_data)
    except FileNotFoundError as error:
        raise PolicyError(f"{folder} is not a saved policy: {Path(error.filename).name} is missing") from error
    except OSError as error:
        raise PolicyError(f"cannot read the policy in {folder}: {error.strerror}") from error
    return parse_policy(json_data, arrays_data, str(folder), device, network_factory)


def _read_arrays(folder: Path, json_data: bytes) -> bytes:
    """Read the arrays that belong to the JSON file: those of a save that was killed are not in place yet."""
    with suppress(FileNotFoundError):
        new_data = read_regular(folder / NEW_ARRAYS_FILE)
        if hashlib.sha256(new_data).hexdigest().encode() in json_data:
            return new_data
    return read_regular(folder / ARRAYS_FILE)


def parse_policy(
    json_data: bytes,
    arrays_data: bytes,
    source: str,
    device: str | torch.device = "cpu",
    network_factory: NetworkFactory | None = None,
) -> Policy:
    """Make a policy from the content of its two files.

    Args:
        source: Where the files come from, for errors.
    """
    with _parsing(source):
        document = parse_json(json_data)
        if document["format"] != FORMAT_VERSION:
            raise PolicyError(
                f"{source} has policy format {document['format']}, but this version of envgen reads {FORMAT_VERSION}; "
                "install the version that wrote it"
            )
        if hashlib.sha256(arrays_data).hexdigest() != document["sha256"]:
            raise ValueError(f"{ARRAYS_FILE} does not match its checksum in {JSON_FILE}")
        arrays = load_safetensors(arrays_data)
        layout = _layout_from_json(document)
        observation_space, action_space = (
            _space_from_json(document[name], arrays, name) for name in ("observation_space", "action_space")
        )
        own_factory = _network_factory(document["network"], document.get("network_arguments", {}))
        if network_factory is None and own_factory is None:
            raise PolicyError(
                f"{source} holds a network of the class {document['network']}; pass network_factory to "
                "envgen.agents.policy.load_policy"
            )
        bfloat16, metadata = bool(document["bfloat16"]), dict(document["metadata"])
    with isolated_rng():
        if network_factory is not None:
            network = network_factory(observation_space, action_space, layout)  # its errors are the caller's own
        else:
            with _parsing(source):
                assert own_factory is not None
                network = own_factory(observation_space, action_space, layout)
    with _parsing(source):
        network.load_state_dict(_tensors(arrays, NETWORK))
    return Policy(
        network.to(local_device(device)), observation_space, action_space, layout, device, bfloat16, metadata,
        _tensors(arrays, RETURN_STATISTICS),
    )  # fmt: skip


@contextmanager
def _parsing(source: str) -> Iterator[None]:
    """Report what wrong content raises as a PolicyError."""
    try:
        yield
    except PARSE_ERRORS as error:
        message = f"the policy in {source} is damaged: {describe_error(error)}; restore its files, or save it again"
        raise PolicyError(message) from error


def _tensors(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, torch.Tensor]:
    return {
        name.removeprefix(prefix): torch.from_numpy(array.copy())
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _layout_from_json(document: Mapping[str, Any]) -> Layout:
    if (grid := document.get("tile_grid")) is not None:
        return TileGrid(**grid)
    if (symbol_map := document["symbol_map"]) is None:
        return None
    offsets = tuple((columns, rows) for columns, rows in symbol_map["direction_offsets"])
    return SymbolMap(**{**symbol_map, "direction_offsets": offsets})


def _network_factory(name: str, arguments: Mapping[str, Any]) -> NetworkFactory | None:
    """Makes a saved network of this package; None for other classes."""
    from .distillation import AchievementNetwork  # which imports this module

    for cls in (ActorCritic, AchievementNetwork):
        if name == _class_name(cls):
            settings = NetworkSettings.model_validate(arguments.get("settings", {}))
            return partial(cls, **{**arguments, "settings": settings})
    return None


def _class_name(network: PolicyNetwork | type[PolicyNetwork]) -> str:
    cls = network if isinstance(network, type) else type(network)
    return f"{cls.__module__}:{cls.__qualname__}"


def _space_to_json(space: spaces.Space) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A space as JSON values, and its bounds as arrays."""
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}, {}
    if isinstance(space, spaces.Box):
        bounds = {"low": np.ascontiguousarray(space.low), "high": np.ascontiguousarray(space.high)}
        return {"type": "Box", "shape": list(space.shape), "dtype": str(space.dtype)}, bounds
    raise SpaceError(f"only policies with Box and Discrete spaces can be saved, not {space}")


def _space_from_json(document: Mapping[str, Any], arrays: Mapping[str, np.ndarray], name: str) -> spaces.Space:
    if document["type"] == "Discrete":
        return spaces.Discrete(document["n"], start=document["start"])
    if document["type"] == "Box":
        low, high = arrays[f"{name}.low"], arrays[f"{name}.high"]
        if (list(low.shape), str(low.dtype)) != (document["shape"], document["dtype"]):
            raise ValueError(
                f"the bounds of {name} have the shape {list(low.shape)} and the type {low.dtype}, "
                f"not {document['shape']} and {document['dtype']}"
            )
        return spaces.Box(low, high, low.shape, low.dtype.type)
    raise ValueError(f"{name} has the unknown type {document['type']!r}")
