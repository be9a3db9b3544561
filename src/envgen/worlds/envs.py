"""The Gymnasium environments around an engine, and the World that makes them: what all worlds with an engine share.

A world describes its environments by an `EnvConfig`; its two environment classes only translate their arguments to one.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from PIL import Image

from . import validation as checks
from .engine import ENDED, NOT_STARTED, RUNNING, BatchEngine, FinishedEpisodes
from .observations import ObservationFormat, RenderedEnv, RenderedVectorEnv, image_grid
from .world import SymbolMap, TileGrid, World

E = TypeVar("E", bound=BatchEngine)


class InfoField(NamedTuple):
    """An entry of infos: where an engine's report has it, and how single environments present it."""

    report_field: str
    labels: tuple[str, ...] = ()  # single environments return a dict with these keys
    is_bool: bool = False  # reports hold booleans as uint8


class EnvConfig(NamedTuple, Generic[E]):
    """What the single and the vector environment of a world have in common."""

    observation: ObservationFormat
    actions: tuple[str, ...]
    render_size: tuple[int, int]  # (width, height) of the images that render() returns
    make_engine: Callable[[int, list[Any], bool, int], E]  # (num_envs, levels, sample_levels, threads)
    symbol_map: SymbolMap | None = None
    tile_grid: TileGrid | None = None

    def observation_metadata(self) -> dict[str, Any]:
        """The layout of the observation, for encoders: where its symbols hold a map, or how its pixels form tiles."""
        if self.observation.is_symbols and self.symbol_map is not None:
            return {"symbol_map": self.symbol_map}
        if self.observation.name == "pixels" and self.tile_grid is not None:
            return {"tile_grid": self.tile_grid}
        return {}


def env_metadata(fps: int) -> dict[str, Any]:
    return {"render_modes": list(checks.RENDER_MODES), "render_fps": fps}


def parse_levels(engine_class: type[BatchEngine], levels: Any) -> list[Any]:
    """The levels of an environment, each validated."""
    return checks.parse_levels(engine_class.Level, engine_class.title, levels)


class SingleEnv(RenderedEnv, Generic[E]):
    """One environment of a world. Infos hold `info_fields` as Python values, and `reward`."""

    engine_class: ClassVar[type[BatchEngine]]
    info_fields: ClassVar[Mapping[str, InfoField]]

    def __init__(self, config: EnvConfig[E], level: Any, render_mode: str | None):
        self.render_mode = checks.check_render_mode(render_mode)
        self._config = config
        self.metadata = {**type(self).metadata, **config.observation_metadata()}
        self.action_names, self.render_size = config.actions, config.render_size
        self.observation_space = config.observation.space
        self.action_space = spaces.Discrete(len(config.actions))
        self.engine = config.make_engine(1, parse_levels(self.engine_class, level), True, 1)
        self._running = False

    def _extra_info(self) -> dict[str, Any]:
        """Entries of the info in addition to `info_fields`."""
        return {}

    @property
    def level(self) -> Any:
        return self.engine.levels[self.engine.envs["level"][0]]

    def set_level(self, level: Any) -> None:
        self.engine.set_levels(parse_levels(self.engine_class, level), True)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Begin the first episode of this seed. Without a seed, begin the next episode.
            options: `{"level": level}` plays `level` from this episode on.
        """
        options = checks.check_options(options, ("level",))
        seed = checks.check_optional_seed(seed)
        if "level" in options:
            self.set_level(options["level"])
        super().reset(seed=seed)
        if seed is not None:
            self.engine.seed(0, seed)
        elif not self.engine.seeded[0]:
            self.engine.seed(0, int(self.np_random.integers(2**31 - 1)))
        self.engine.reset(np.ones(1, np.bool_))
        self._running = True
        if self.render_mode == "human":
            self.render()
        return self._observation(), self._info(0.0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self._running:
            raise ResetNeeded("call reset() before the first step() and after the end of each episode")
        results = self.engine.step(np.array([checks.check_action(action, self.action_names)]))
        reward = float(results.reward[0])
        terminated, truncated = bool(results.terminated[0]), bool(results.truncated[0])
        self._running = not (terminated or truncated)
        if self.render_mode == "human":
            self.render()
        return self._observation(), reward, terminated, truncated, self._info(reward)

    def _observation(self) -> Any:
        return self._config.observation.decode(
            self.engine.obs_bytes[0], lambda: self.engine.unlocked(self.engine.results.report)[0]
        )

    def _info(self, reward: float) -> dict[str, Any]:
        report = self.engine.results.report[0]
        info: dict[str, Any] = {"reward": reward}
        for name, field in self.info_fields.items():
            value = report[field.report_field]
            value = value.astype(np.bool_) if field.is_bool else value
            if field.labels:
                info[name] = dict(zip(field.labels, value.tolist(), strict=True))
            else:
                info[name] = value.copy() if value.ndim else value.item()
        if self.engine.skill_events is not None:
            info["done_events"] = self.engine.done_events(self.engine.results.report)[0]
        return info | self._extra_info()

    @property
    def has_begun(self) -> bool:
        return bool(self.engine.results.phase[0] != NOT_STARTED)

    @property
    def window_title(self) -> str:
        return self.engine.title

    def render_frame(self) -> np.ndarray:
        return self.engine.render(0, self.render_size)


class EngineVectorEnv(RenderedVectorEnv, Generic[E]):
    """`num_envs` environments of a world stepped together.

    Environment i plays `levels[i % len(levels)]`. With `sample_levels`, each episode plays a random one of the levels,
    determined by its environment's seed. See `LevelVectorEnv` and `EpisodeInfo`.
    """

    engine_class: ClassVar[type[BatchEngine]]
    info_fields: ClassVar[Mapping[str, InfoField]]
    reset_options: ClassVar[tuple[str, ...]] = ("reset_mask",)

    def __init__(
        self, config: EnvConfig[E], num_envs: int, levels: Any, sample_levels: bool, threads: int | None,
        autoreset_mode: AutoresetMode | str, render_mode: str | None,
    ):  # fmt: skip
        self.render_mode = checks.check_render_mode(render_mode)
        self.num_envs = checks.check_count("num_envs", num_envs)
        self._config = config
        self.action_names, self.render_size = config.actions, config.render_size
        self.autoreset_mode = checks.check_autoreset_mode(autoreset_mode)
        self.metadata = {
            **type(self).metadata, **config.observation_metadata(), "autoreset_mode": self.autoreset_mode
        }  # fmt: skip
        self.single_observation_space = config.observation.space
        self.single_action_space = spaces.Discrete(len(config.actions))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        threads = checks.choose_threads(threads, num_envs, config.observation.name)
        levels = checks.check_all_used(parse_levels(self.engine_class, levels), num_envs, sample_levels)
        self.engine = config.make_engine(num_envs, levels, sample_levels, threads)

    @property
    def levels(self) -> list[Any]:
        return self.engine.levels

    def set_levels(self, levels: Any, sample_levels: bool = False) -> None:
        levels = checks.check_all_used(parse_levels(self.engine_class, levels), self.num_envs, sample_levels)
        self.engine.set_levels(levels, sample_levels)

    def set_env_levels(self, env_ids: Sequence[int], levels: Sequence[Any]) -> None:
        levels = parse_levels(self.engine_class, levels)
        checks.check_env_ids(env_ids, levels, self.num_envs)
        self.engine.set_env_levels(env_ids, levels)

    def reset(
        self, *, seed: int | Iterable[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin episodes.

        Args:
            seed: One seed per environment, or an integer: environment i begins the first episode of `seed + i`.
                Without a seed, each environment begins its next episode.
            options: `{"reset_mask": mask}` resets only the environments where the boolean mask (num_envs,) is set.
        """
        self._check_open()
        options = checks.check_options(options, self.reset_options)
        mask = checks.check_reset_mask(options, self.num_envs)
        self._seed_envs(seed, mask, options)
        for i in np.flatnonzero(mask & ~self.engine.seeded):
            self.engine.seed(int(i), int(self.np_random.integers(2**31 - 1)))
        self.engine.reset(mask)
        return self._observations(), self._infos()

    def _seed_envs(self, seed: Any, mask: np.ndarray, options: Mapping[str, Any]) -> None:
        """Seed the environments in `mask`, as the `seed` and the options of a reset say. The options are checked."""
        if seed is not None:
            for i, env_seed in enumerate(checks.check_seeds(seed, self.num_envs)):
                if mask[i] and env_seed is not None:
                    self.engine.seed(i, env_seed)

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        self._check_open()
        reset_mask = self._reset_mask()
        results = self.engine.step(checks.check_actions(actions, self.num_envs, self.action_names), reset_mask)
        finished = self.engine.autoreset() if self.autoreset_mode == AutoresetMode.SAME_STEP else None
        infos = self._infos()
        if finished is not None:
            infos.update(self._final_infos(finished))
        return self._observations(), results.reward.copy(), results.terminated.copy(), results.truncated.copy(), infos

    def _reset_mask(self) -> np.ndarray | None:
        """The environments that the coming step resets instead of stepping (next-step autoreset); None if none."""
        phase = self.engine.results.phase
        if np.count_nonzero(phase == RUNNING) == self.num_envs:  # the usual case, and fast to check
            return None
        _require_started(phase, "step()")
        ended = phase == ENDED
        if self.autoreset_mode == AutoresetMode.DISABLED:
            raise ResetNeeded(
                f"the episode of environment {int(ended.argmax())} has ended; "
                "reset it with reset(options={'reset_mask': ...})"
            )
        return ended

    def _observations(self) -> Any:
        return self._config.observation.decode_batch(
            self.engine.observations(), lambda: self.engine.unlocked(self.engine.results.report)
        )

    def _infos(self) -> dict[str, Any]:
        report = self.engine.results.report
        reports = report.view(np.uint8).copy().view(report.dtype)  # as bytes: records are copied field by field
        return self._with_masks(reports, self.engine.results.phase != NOT_STARTED)

    def _final_infos(self, finished: FinishedEpisodes) -> dict[str, Any]:
        """Gymnasium's final_obs and final_info of the episodes that ended in this step."""
        ended = np.zeros(self.num_envs, np.bool_)
        final_obs = np.full(self.num_envs, None, dtype=object)
        reports = np.zeros(self.num_envs, finished.reports.dtype)
        ended[finished.env_ids] = True
        reports[finished.env_ids] = finished.reports
        for k, i in enumerate(finished.env_ids):
            final_obs[i] = self._config.observation.decode(
                finished.obs_bytes[k], lambda k=k: self.engine.unlocked(finished.reports[k : k + 1])[0]
            )
        return {
            "final_obs": final_obs,
            "_final_obs": ended,
            "final_info": self._with_masks(reports, ended),
            "_final_info": ended.copy(),
        }

    def _with_masks(self, reports: np.ndarray, mask: np.ndarray) -> dict[str, Any]:
        """Reports as a Gymnasium info: each entry with the mask of environments that it holds for."""
        infos: dict[str, Any] = {}
        for name, field in self.info_fields.items():
            values = reports[field.report_field]
            infos[name] = values.view(np.bool_) if field.is_bool else values
            infos["_" + name] = mask
        if self.engine.skill_events is not None:
            infos["done_events"], infos["_done_events"] = self.engine.done_events(reports), mask
        return infos

    @property
    def window_title(self) -> str:
        return self.engine.title

    def render_frames(self, count: int) -> tuple[np.ndarray, ...]:
        self._check_open()
        _require_started(self.engine.results.phase[:count], "render()")
        return tuple(self.engine.render(i, self.render_size) for i in range(count))

    def get_state(self) -> dict[str, np.ndarray]:
        return self.engine.snapshot()

    def set_state(self, state: Mapping[str, np.ndarray]) -> Any:
        self.engine.restore(state)
        return self._observations()

    def get_env_state(self, env_ids: np.ndarray) -> dict[str, np.ndarray]:
        return self.engine.get_env_state(env_ids)

    def set_env_state(
        self, env_ids: np.ndarray, states: Mapping[str, np.ndarray], seeds: Sequence[int] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.engine.set_env_state(env_ids, states, seeds)
        reports = self.engine.results.report[env_ids]
        obs = self._config.observation.decode_batch(
            self.engine.obs_bytes[env_ids], lambda: self.engine.unlocked(reports)
        )
        return obs, self._with_masks(reports, np.ones(len(env_ids), np.bool_))

    def check_env_state(self, states: Mapping[str, np.ndarray]) -> None:
        self.engine.check_env_state(states)

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("this environment was closed; make a new one")

    def close_extras(self, **kwargs: Any) -> None:
        self.engine.close()
        self.close_window()


def _require_started(phase: np.ndarray, call: str) -> None:
    if phase.min() == NOT_STARTED:
        raise ResetNeeded(f"environment {phase.argmin()} has not started: call reset() before the first {call}")


class EngineWorld(World):
    """A world whose environments run on an engine."""

    vector_env_class: ClassVar[Callable[..., EngineVectorEnv[Any]]]
    single_env_class: ClassVar[Callable[..., SingleEnv[Any]]]
    map_image_size: ClassVar[int]  # pixels along a side of `render_map`'s images

    def make(
        self,
        levels: Any = (),
        num_envs: int | None = None,
        seed: int | None = None,
        observation: str = "pixels",
        **kwargs: Any,
    ) -> EngineVectorEnv[Any]:
        seed = checks.check_optional_seed(seed)
        levels = checks.list_levels(levels)
        envs = self.vector_env_class(len(levels) if num_envs is None else num_envs, levels, observation, **kwargs)
        if seed is not None:
            for i in range(envs.num_envs):
                envs.engine.seed(i, seed + i)
        return envs

    def single(
        self, level: Any = None, seed: int | None = None, observation: str = "pixels", **kwargs: Any
    ) -> SingleEnv[Any]:
        seed = checks.check_optional_seed(seed)
        env = self.single_env_class(level, observation, **kwargs)
        if seed is not None:
            env.engine.seed(0, seed)
        return env

    def single_rendered(
        self, level: Any = None, seed: int | None = None, observation: str | None = None, size: int = 512
    ) -> SingleEnv[Any]:
        observation = observation or self.observations[0]
        return self.single(level, seed, observation, render_mode="rgb_array", render_size=size)

    @abstractmethod
    def render_map(self, level: Any, seed: int) -> np.ndarray:
        """The whole map of a level and seed from above, (map_image_size, map_image_size, 3)."""

    def map_legend(self) -> Sequence[tuple[np.ndarray, str]]:
        """What the images of `render_map` show: icons (height, width, 3) with their descriptions."""
        return ()

    def render_levels(self, levels: Mapping[str, Any], columns: int = 4, seed: int = 0) -> Image.Image:
        seed = checks.check_seed(seed)
        side, legend = self.map_image_size, self.map_legend()
        return image_grid(levels, columns, side, lambda k, level: self.render_map(level, seed + k), legend)
