"""The vector environment of a `PythonWorld`: its environments in this process, or in several worker processes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from . import validation as checks
from .engine import place_levels
from .env_group import Arrays, EnvGroup, array_layout, check_arrays
from .observations import RenderedVectorEnv
from .worker_process import WorkerPool

if TYPE_CHECKING:
    from .python_world import PythonEnv, PythonWorld

# What reading a damaged state can raise.
STATE_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


class PythonVectorEnv(RenderedVectorEnv):
    """`num_envs` environments of a `PythonWorld`, with same-step autoreset. See `LevelVectorEnv`.

    Args:
        render_mode: With "rgb_array", `render` returns an image of each environment; with "human", it shows the first.
        num_workers: Processes that step the environments, by default `world.num_workers`. With 1, this process does.
            It does not affect the episodes.
    """

    def __init__(
        self,
        world: "PythonWorld",
        levels: Any,
        num_envs: int,
        sample_levels: bool = False,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        num_workers: int | None = None,
        render_mode: str | None = None,
    ):
        self.autoreset_mode = checks.check_autoreset_mode(autoreset_mode)
        if self.autoreset_mode != AutoresetMode.SAME_STEP:
            raise TypeError(f"a PythonWorld supports only same-step autoreset, not {autoreset_mode}")
        self.num_envs, self.world = checks.check_count("num_envs", num_envs), world
        self.render_mode = checks.check_render_mode(render_mode)
        levels = checks.check_all_used(self._parse_levels(levels), num_envs, sample_levels)
        env = world.env_class(world, [world.original], False)
        self.metadata = {**env.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = env.observation_space, env.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        layout = array_layout(env)
        env.close()
        self.num_workers = checks.choose_workers(world.num_workers if num_workers is None else num_workers, num_envs)
        self._pool: WorkerPool | None = None
        self._group: EnvGroup | None = None
        if self.num_workers > 1:
            self._pool = WorkerPool(world, layout, num_envs, self.num_workers)
            self._arrays, self._slices = self._pool.arrays, self._pool.slices
        else:
            self._arrays = {name: np.zeros((num_envs, *shape), dtype) for name, (dtype, shape) in layout.items()}
            self._group, self._slices = EnvGroup(world, self._arrays), [slice(0, num_envs)]
        self._info_names = [name.removeprefix("infos.") for name in layout if name.startswith("infos.")]
        # The levels of each environment's episode in progress and of its next ones, as indices into `levels`.
        self._levels: list[Any] = []
        self._level_ids: list[list[int]] = [[] for _ in range(num_envs)]
        self._next_level_ids: list[list[int]] = [[] for _ in range(num_envs)]
        self._has_begun = np.zeros(num_envs, np.bool_)
        self.set_levels(levels, sample_levels)

    def _parse_levels(self, levels: Any) -> list[Any]:
        return checks.parse_levels(self.world.Level, self.world.name, levels)

    @property
    def envs(self) -> "list[PythonEnv]":
        """The environments, if they are in this process."""
        if self._group is None:
            raise AttributeError("these environments are in worker processes; use call(), or num_workers=1")
        return self._group.envs

    def _call(self, name: str, args: Sequence[Sequence[Any]] | None = None) -> list[Any]:
        """Call a method of the group, or of those of all workers, with the arguments `args[k]`."""
        if self.closed:
            raise ClosedEnvironmentError("this environment was closed; make a new one")
        if self._pool is not None:
            return self._pool.call(name, args)
        return [getattr(self._group, name)(*(args[0] if args else ()))]

    def _split(self, values: Sequence[Any]) -> list[tuple[Sequence[Any]]]:
        """Split values, one for each environment, into the arguments of `_call` for each group."""
        return [(values[rows],) for rows in self._slices]

    def call(self, name: str, *args: Any, env_ids: Sequence[int] | None = None) -> list[Any]:
        """The results of a method of these environments, or the values of an attribute; by default of all of them."""
        env_ids = range(self.num_envs) if env_ids is None else env_ids
        by_group = self._split_ids(env_ids)
        results = self._call("call", [([i for _, i in pairs], name, args) for pairs in by_group])
        merged: list[Any] = [None] * len(env_ids)
        for pairs, values in zip(by_group, results, strict=True):
            for (k, _), value in zip(pairs, values, strict=True):
                merged[k] = value
        return merged

    def _split_ids(self, env_ids: Sequence[int]) -> list[list[tuple[int, int]]]:
        """For each group, the positions in `env_ids` of its environments, with their numbers in the group."""
        return [
            [(k, int(i) - rows.start) for k, i in enumerate(env_ids) if rows.start <= i < rows.stop]
            for rows in self._slices
        ]

    # --- levels

    @property
    def levels(self) -> list[Any]:
        return self._levels

    def set_levels(self, levels: Any, sample_levels: bool = False) -> None:
        levels = checks.check_all_used(self._parse_levels(levels), self.num_envs, sample_levels)
        ids = place_levels(self._levels, levels, self._played_level_ids())
        for i in range(self.num_envs):
            self._next_level_ids[i] = list(ids) if sample_levels else [ids[i % len(ids)]]
        self._sample_levels = [bool(sample_levels)] * self.num_envs
        self._send_levels(range(self.num_envs))

    def set_env_levels(self, env_ids: Sequence[int], levels: Sequence[Any]) -> None:
        levels = self._parse_levels(list(levels))
        checks.check_env_ids(env_ids, levels, self.num_envs)
        changed, kept = set(env_ids), set[int]()
        for i in set(range(self.num_envs)) - changed:
            if self._sample_levels[i]:
                ids = self._next_level_ids[i]
                self._next_level_ids[i], self._sample_levels[i] = [ids[i % len(ids)]], False
                changed.add(i)
            kept.update(self._next_level_ids[i])
        for i, k in zip(env_ids, place_levels(self._levels, levels, self._played_level_ids() | kept), strict=True):
            self._next_level_ids[i], self._sample_levels[i] = [k], False
        self._send_levels(changed)

    def _played_level_ids(self) -> set[int]:
        return {k for ids in self._level_ids for k in ids}

    def _send_levels(self, env_ids: Iterable[int]) -> None:
        """Send the environments their next levels."""
        chosen = set(env_ids)
        assignments = [
            [
                (i - rows.start, [self._levels[k] for k in self._next_level_ids[i]], self._sample_levels[i])
                for i in range(rows.start, rows.stop)
                if i in chosen
            ]
            for rows in self._slices
        ]
        self._call("set_next_levels", [(entries,) for entries in assignments])

    # --- episodes

    def seed(self, seed: int) -> None:
        """The next episode of environment i is the first of `seed + i`."""
        self._call("seed", self._split([seed + i for i in range(self.num_envs)]))

    def reset(
        self, *, seed: int | Iterable[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        mask = checks.check_reset_mask(checks.check_options(options, ("reset_mask",)), self.num_envs)
        seeds = [None] * self.num_envs if seed is None else checks.check_seeds(seed, self.num_envs)
        self._call("reset", [(seeds[rows], mask[rows]) for rows in self._slices])
        for i in np.flatnonzero(mask):
            self._level_ids[i] = list(self._next_level_ids[i])
        self._arrays["active"][mask] = self._has_begun[mask] = True
        return self._observations(), self._infos()

    def set_active(self, mask: np.ndarray) -> None:
        self._arrays["active"][:] = checks.check_mask("the mask of set_active", mask, self.num_envs)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if not self._has_begun.all():
            raise ResetNeeded("call reset() before the first step()")
        self._arrays["actions"][:] = self._check_actions(actions)
        self._call("step")
        rewards, terminated, truncated = (self._arrays[name].copy() for name in ("reward", "terminated", "truncated"))
        ended = terminated | truncated
        final: dict[str, Any] = {}
        if ended.any():
            final_obs = np.full(self.num_envs, None, dtype=object)
            final_info = self._infos(ended, "final_infos.")
            for i in np.flatnonzero(ended):
                final_obs[i] = self._arrays["final_obs"][i].copy()
                self._level_ids[i] = list(self._next_level_ids[i])
            final = {"final_obs": final_obs, "final_info": final_info}
            final |= {"_final_obs": ended, "_final_info": ended.copy()}
        return self._observations(), rewards, terminated, truncated, {**self._infos(), **final}

    def _check_actions(self, actions: Any) -> np.ndarray:
        space = self.single_action_space
        if isinstance(space, spaces.Discrete):
            return checks.check_actions(actions, self.num_envs, self.world.actions)
        array = np.asarray(actions)
        if array.shape != self.action_space.shape:
            raise ValueError(f"actions must have the shape {self.action_space.shape}, not {array.shape}")
        if array.dtype.kind not in "fiu":
            raise ValueError(f"actions must be numbers, not {array.dtype}")
        assert isinstance(space, spaces.Box)
        array = array.astype(space.dtype)
        outside = ~((array >= space.low) & (array <= space.high)).reshape(self.num_envs, -1).all(1)
        if outside.any():
            i = int(outside.argmax())
            raise ValueError(f"action {array[i].tolist()} of environment {i} is not in {space}")
        return array

    def _observations(self) -> np.ndarray:
        return self._arrays["obs"].copy()

    def _infos(self, mask: np.ndarray | None = None, prefix: str = "infos.") -> dict[str, Any]:
        """The infos of the environments in `mask`, by default of all that have begun; zeros for the others."""
        infos: dict[str, Any] = {}
        mask = self._has_begun if mask is None else mask
        excluded = ~mask
        for name in self._info_names:
            rows = self._arrays[prefix + name].copy()
            rows[excluded] = 0
            if name == "level":
                entries = zip(self._level_ids, rows.tolist(), mask.tolist(), strict=True)
                rows = np.array([level_ids[k] if is_included else 0 for level_ids, k, is_included in entries])
            infos[name] = rows
            infos["_" + name] = mask.copy()
        return infos

    @property
    def window_title(self) -> str:
        return self.world.name

    def render_frames(self, count: int) -> tuple[np.ndarray, ...]:
        if not self._has_begun.all():
            raise ResetNeeded("call reset() before the first render()")
        return tuple(self.call("render_frame", env_ids=range(count)))

    def close_extras(self, **kwargs: Any) -> None:
        self.close_window()
        if self._pool is not None:
            self._pool.close()
        elif self._group is not None:
            self._group.close()

    # --- states

    def get_state(self) -> dict[str, np.ndarray]:
        if not self._has_begun.all():
            raise ResetNeeded("call reset() before get_state()")
        text = json.dumps([level.to_overrides() for level in self._levels])
        env_level_ids = [list(pair) for pair in zip(self._level_ids, self._next_level_ids, strict=True)]
        states: list[Arrays] = self._call("state")
        return {
            "levels": np.frombuffer(text.encode(), np.uint8).copy(),
            "env_levels": np.frombuffer(json.dumps(env_level_ids).encode(), np.uint8).copy(),
            **{name: np.concatenate([state[name] for state in states]) for name in states[0]},
        }

    def set_state(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        try:
            levels, env_level_ids = self._prepare(state)
        except STATE_ERRORS as error:
            if not self.closed:
                self._call("discard")
            message = f"this state does not fit {self.num_envs} environments of {self.world.name}: {error!r}"
            raise ValueError(message) from error
        self._call("commit")
        self._levels = levels
        self._arrays["active"][:] = self._has_begun[:] = True
        self._level_ids, self._next_level_ids = ([list(pair[k]) for pair in env_level_ids] for k in (0, 1))
        self._sample_levels = [bool(row[1]) for row in state["episodes"]]
        return self._observations()

    def _prepare(self, state: Mapping[str, np.ndarray]) -> tuple[list[Any], list[tuple[list[int], list[int]]]]:
        """Have all groups restore a state into new environments. Returns the levels and their indices."""
        for name in ("levels", "env_levels"):
            if name not in state or state[name].dtype != np.uint8:
                raise ValueError(f"{name} must be an array of bytes")
        levels = [self.world.Level.parse(level) for level in json.loads(state["levels"].tobytes())]
        env_level_ids = json.loads(state["env_levels"].tobytes())
        ids = [k for pair in env_level_ids for part in pair for k in part]
        if len(env_level_ids) != self.num_envs or not all(type(k) is int and 0 <= k < len(levels) for k in ids):
            raise ValueError("env_levels does not fit")
        env_level_ids = [(current, following) for current, following in env_level_ids]
        rows = {name: array for name, array in state.items() if name not in ("levels", "env_levels")}
        for name, array in rows.items():
            if len(array) != self.num_envs:
                raise ValueError(f"{name} has {len(array)} rows, not {self.num_envs}")
        env_levels = [tuple([levels[k] for k in part] for part in pair) for pair in env_level_ids]
        self._call(
            "prepare",
            [({name: array[part] for name, array in rows.items()}, env_levels[part]) for part in self._slices],
        )
        return levels, env_level_ids

    def get_env_state(self, env_ids: np.ndarray) -> dict[str, np.ndarray]:
        by_group = self._split_ids(env_ids.tolist())
        for i, running in zip(env_ids, self.call("running", env_ids=env_ids.tolist()), strict=True):
            if not running:
                raise ValueError(f"no episode is in progress in environment {i}")
        groups = [g for g, pairs in enumerate(by_group) if pairs]
        states = self._call("env_state", [([i for _, i in pairs],) for pairs in by_group])
        order = np.argsort([k for g in groups for k, _ in by_group[g]])
        merged = {name: np.concatenate([states[g][name] for g in groups])[order] for name in states[groups[0]]}
        level_ids = [self._level_ids[i][k] for i, k in zip(env_ids, merged["episodes"][:, 0], strict=True)]
        merged["episodes"][:, 0] = level_ids
        return merged

    def set_env_state(
        self, env_ids: np.ndarray, states: Mapping[str, np.ndarray], seeds: Sequence[int] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        level_ids = states["episodes"][:, 0].tolist()
        calls = []
        for pairs in self._split_ids(env_ids.tolist()):
            rows = [k for k, _ in pairs]
            levels = [self._levels[level_ids[k]] for k in rows]
            own = {name: array[rows] for name, array in states.items()}
            calls.append(([i for _, i in pairs], levels, own, None if seeds is None else [seeds[k] for k in rows]))
        self._call("set_env_state", calls)
        for k, i in enumerate(env_ids.tolist()):
            self._level_ids[i] = [level_ids[k]]
        return self._observations()[env_ids], {name: values[env_ids] for name, values in self._infos().items()}

    def check_env_state(self, states: Mapping[str, np.ndarray]) -> None:
        count = len(states.get("episodes", ())) or 1
        replica = PythonVectorEnv(self.world, self._levels, count, sample_levels=True, num_workers=1)
        replica.reset(seed=0)
        try:
            check_arrays(states, replica.get_env_state(np.arange(count)))
            if (states["episodes"] < 0).any():
                raise ValueError("a level or a length is negative")
            replica.set_env_state(np.arange(count), states)
            for i, env in enumerate(replica.envs):
                if not env.fits_length(env.episode_length + 1):
                    raise ValueError(f"the episode of state {i} is too long")
                if not env.fits_space(env.observe()):
                    raise ValueError(f"the observation of state {i} does not fit the observation space")
        except STATE_ERRORS as error:
            raise ValueError(f"these states do not fit environments of {self.world.name}: {error!r}") from error
        finally:
            replica.close()
