"""Any Gymnasium environment as a world: `from_gymnasium` turns a function that makes it from a level into a `World`.

    class PoleLevel(envgen.Level):
        length: float = Field(default=0.5, ge=0.1, le=2.0)
        \"\"\"Half the length of the pole in meters.\"\"\"

    def make_env(level):
        env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
        env.unwrapped.length = level.length
        return env

    world = from_gymnasium(make_env, PoleLevel, skills={"balance_200": lambda step: step.episode_length >= 200})

Gymnasium cannot save the state of an environment. A saved state is therefore the seed of the episode and its actions,
and restoring it plays them again; the environment has to be deterministic given both, and `check_world` checks that it
is. The random numbers after a restored state are therefore those of the saved episode, even if `set_env_state` is given
seeds: these only seed later episodes. Environments are stepped in turn, by one process or by `num_workers`.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError
from gymnasium.wrappers import FlattenObservation, TimeLimit
from PIL import Image

from envgen.settings import format_choice_error

from . import validation as checks
from .python_world import PythonWorld, StateStats
from .replayed_env import ReplayedEnv
from .world import Level, Skill

MAX_SEED = 2**31
MAX_NAMED_ENTRIES = 32  # of an observation in `level_stats`; of larger ones, only the mean

Action = int | np.ndarray


class Step(NamedTuple):
    """A step of an environment, from which the predicate of a skill tells whether the skill succeeded."""

    obs: Any
    """The observation after the step."""
    action: Action
    """The action of the step."""
    reward: float
    """The reward of the step."""
    terminated: bool
    """Whether the episode has ended."""
    truncated: bool
    """Whether the episode was cut off, for example by its limit of steps."""
    info: Mapping[str, Any]
    """The info of the environment."""
    episode_return: float
    """Including this step."""
    episode_length: int
    """Including this step."""
    env: gymnasium.Env[Any, Any]
    """The innermost environment."""


SuccessPredicate = Callable[[Step], Any]  # whether a skill succeeded in a step


class GymnasiumEnv(ReplayedEnv):
    """An environment of a `GymnasiumWorld`. Its state is the seed of the episode and the actions so far."""

    world: "GymnasiumWorld"
    """The world that made it."""

    def __init__(
        self, world: "GymnasiumWorld", levels: Sequence[Any], sample_levels: bool = True, render_mode: str | None = None
    ):
        super().__init__(world, levels, sample_levels, render_mode)
        self.observation_space, self.action_space = world.observation_space, world.action_space
        self.max_episode_steps, self.image_size = world.max_episode_steps, world.image_size
        self._env: gymnasium.Env | None = None
        self._env_level: Level | None = None
        self._obs: Any = None
        self._truncated = False

    def begin(self) -> dict[str, Any]:
        seed = int(self.np_random.integers(MAX_SEED))
        self._begin(seed)
        actions = np.zeros((self.max_episode_steps, *self._action_shape), self.action_space.dtype)
        return {"seed": np.int64(seed), "actions": actions}

    @property
    def _action_shape(self) -> tuple[int, ...]:
        assert self.action_space.shape is not None
        return self.action_space.shape

    def _begin(self, seed: int) -> None:
        """Begin the episode of a seed in an environment of the current level."""
        if self._env is None or self._env_level != self.level:
            self._close_env()
            self._env, self._env_level = self.world.make_wrapped_env(self.level), self.level
        self._obs, _ = self._env.reset(seed=seed)
        self._truncated = False

    def observe(self) -> Any:
        obs, space = np.asarray(self._obs), self.observation_space
        copied = obs.astype(space.dtype)  # environments may reuse their arrays
        if obs.dtype != copied.dtype and copied.dtype.kind in "iu" and not np.array_equal(obs, copied):
            raise ValueError(f"an observation of {obs.dtype} has values that {space} cannot hold")
        return copied

    def advance(self, action: Action) -> tuple[float, bool]:
        self.state["actions"][self.episode_length] = action
        return self._advance(action, self.episode_return, self.episode_length)

    def _advance(self, action: Action, episode_return: float, episode_length: int) -> tuple[float, bool]:
        """Play a step of the episode, given its return and length before; count the skills that succeed."""
        if self._env is None:
            raise ClosedEnvironmentError("this environment was closed; make a new one")
        self._obs, reward, terminated, self._truncated, info = self._env.step(action)
        reward, terminated = float(reward), bool(terminated)
        step = Step(
            self._obs, action, reward, terminated, bool(self._truncated), info, episode_return + reward,
            episode_length + 1, self._env.unwrapped,
        )  # fmt: skip
        for name, has_succeeded in self.world.success_predicates.items():
            if not self.achievements[self.world.skill_indices[name]] and has_succeeded(step):
                self.achieve(name)
        return reward, terminated

    def is_truncated(self) -> bool:
        return bool(self._truncated) or super().is_truncated()

    def begin_again(self) -> None:
        seed = int(self.state["seed"])
        if not 0 <= seed < MAX_SEED:
            raise ValueError(f"the seed {seed} of an episode is not from 0 to {MAX_SEED - 1}")
        self._begin(seed)

    def step_again(self, action: Any, episode_return: float, episode_length: int) -> tuple[float, bool]:
        if not self.action_space.contains(action):
            raise ValueError(f"action {action} of step {episode_length} is not in {self.action_space}")
        reward, terminated = self._advance(self._env_action(action), episode_return, episode_length)
        return reward, terminated or bool(self._truncated)

    def fits_space(self, obs: Any) -> bool:
        """Any values do: they are those that the environment returned when the actions were played again."""
        return obs.shape == self.observation_space.shape

    def _env_action(self, action: np.ndarray) -> Action:
        return int(action) if isinstance(self.action_space, spaces.Discrete) else action

    def render_frame(self) -> np.ndarray:
        if self._env is None:
            raise ClosedEnvironmentError("this environment was closed; make a new one")
        frame = self._env.render() if self._env.render_mode == "rgb_array" else None
        if not isinstance(frame, np.ndarray):
            return super().render_frame()
        image = Image.fromarray(frame.astype(np.uint8))
        image.thumbnail((self.image_size, self.image_size))
        square = Image.new("RGB", (self.image_size, self.image_size), "white")
        square.paste(image, ((self.image_size - image.width) // 2, (self.image_size - image.height) // 2))
        return np.asarray(square)

    def _close_env(self) -> None:
        if self._env is not None:
            self._env.close()
            self._env = None

    def close(self) -> None:
        self._close_env()
        super().close()


class GymnasiumWorld(PythonWorld):
    """A world that `from_gymnasium` makes; see there for the arguments."""

    env_class = GymnasiumEnv

    def __init__(
        self,
        make_env: Callable[[Any], gymnasium.Env[Any, Any]],
        level_class: type[Level],
        skills: Mapping[str, SuccessPredicate],
        prerequisites: Mapping[str, Sequence[str]],
        attributes: Mapping[str, Any],
        max_episode_steps: int | None,
        image_size: int,
    ):
        if not (isinstance(level_class, type) and issubclass(level_class, Level)):
            raise TypeError(f"level_class must be a subclass of Level, not {level_class!r}")
        if not isinstance(skills, Mapping) or not skills or not all(callable(value) for value in skills.values()):
            raise TypeError(f"skills must be a dict with a function for each skill, at least one, not {skills!r}")
        if max_episode_steps is not None:
            checks.check_count("max_episode_steps", max_episode_steps)
        self._make_env, self.image_size = make_env, checks.check_count("image_size", image_size)
        self.Level = level_class  # pyright: ignore[reportAttributeAccessIssue, reportIncompatibleVariableOverride]
        unknown = sorted(set(prerequisites) - set(skills))
        if unknown:
            raise ValueError(f"prerequisites of unknown skills: {', '.join(unknown)} (skills: {', '.join(skills)})")
        for name, required in prerequisites.items():
            if isinstance(required, str):
                raise TypeError(f"the prerequisites of {name} must be a list of skills, not {required!r}")
            for other in required:
                if other not in skills:
                    raise ValueError(f"a prerequisite of {name}: skill {format_choice_error(str(other), list(skills))}")
        if circular := checks.circular_skills(prerequisites):
            raise ValueError(f"skills that are their own prerequisites: {', '.join(circular)}")
        self.skills = tuple(Skill(name, tuple(prerequisites.get(name, ()))) for name in skills)  # pyright: ignore
        self.success_predicates, self.skill_indices = dict(skills), {name: k for k, name in enumerate(skills)}
        env = make_env(level_class())
        if not isinstance(env, gymnasium.Env):
            raise TypeError(f"make_env must return a Gymnasium environment, not {env!r:.100}")
        limit = _time_limit(env)
        if max_episode_steps is not None and limit is not None and max_episode_steps > limit:
            raise ValueError(
                f"max_episode_steps is {max_episode_steps}, but the environment of make_env truncates episodes after "
                f"{limit} steps; make it with gymnasium.make(..., max_episode_steps={max_episode_steps})"
            )
        env = _flatten(env)
        self.observation_space, self.action_space = env.observation_space, env.action_space
        steps = max_episode_steps or (env.spec.max_episode_steps if env.spec else None)
        if not steps:
            raise ValueError("make_env(Level()) has no time limit; pass max_episode_steps")
        self.max_episode_steps = int(steps)
        name = env.spec.id if env.spec else type(env.unwrapped).__name__
        env.close()
        defaults = {
            "name": name.rpartition("/")[2].lower(),  # without the namespace of an id
            "rules": f"The environment {name} of Gymnasium. {_description(type(env.unwrapped))}".strip(),
            "actions": _action_names(self.action_space),
        }
        for key, value in {**defaults, **attributes}.items():
            setattr(self, key, value)
        self.observations = (_observation_name(self.observation_space),)  # pyright: ignore
        if isinstance(self.action_space, spaces.Discrete) and len(self.actions) != self.action_space.n:
            raise ValueError(f"{len(self.actions)} names for {self.action_space.n} actions: {', '.join(self.actions)}")

    def worker_key(self) -> tuple[Any, ...]:
        return self._make_env, self.Level, *self.success_predicates.values()

    def make_wrapped_env(self, level: Level) -> gymnasium.Env:
        """The environment of a level. Levels may not change the spaces."""
        env = _flatten(self._make_env(level))
        for name in ("observation_space", "action_space"):
            if getattr(env, name) != getattr(self, name):
                raise ValueError(
                    f"the level {level.to_overrides()} changes the {name} from {getattr(self, name)} to "
                    f"{getattr(env, name)}; all levels of a world need the same"
                )
        return env

    def level_stats(self, level: Any = None, seeds: Sequence[int] = range(16)) -> StateStats:
        """The means of the entries of the first observation of an episode."""
        seeds = checks.check_stats_seeds(seeds)
        with closing(self.single(level)) as env:
            values = np.array([np.ravel(env.reset(seed=seed)[0]) for seed in seeds], np.float64).mean(0)
        if values.size > MAX_NAMED_ENTRIES:
            return StateStats({"initial observation": float(values.mean())})
        return StateStats({f"initial observation {k}": float(value) for k, value in enumerate(values)})


def from_gymnasium(
    make_env: Callable[[Any], gymnasium.Env[Any, Any]],
    level_class: type[Level],
    skills: Mapping[str, SuccessPredicate],
    *,
    prerequisites: Mapping[str, Sequence[str]] | None = None,
    max_episode_steps: int | None = None,
    image_size: int = 256,
    **attributes: Any,
) -> GymnasiumWorld:
    """A world of the environments that `make_env` makes from levels.

    Args:
        make_env: Returns the environment of a level. It has to be deterministic given the seed of `reset` and the
            actions. Observations that are neither vectors nor images are flattened. Make it with
            `render_mode="rgb_array"` for pictures and videos.
        level_class: A subclass of `Level`, whose defaults are the original environment.
        skills: For each skill, a function that tells whether it succeeded in a step. It is called after every step
            until it returns true; a skill counts once per episode.
        prerequisites: The skills that a skill requires.
        max_episode_steps: An episode is truncated after this many steps. Default: that of the environment's spec. An
            environment that truncates its episodes earlier is refused.
        image_size: Width and height of pictures in pixels.
        attributes: Attributes of `World`: `name`, `rules` (pass them if a language model designs or plays; the default
            is the description in the environment's docstring), `actions` (a name for each discrete action),
            `reward_rule`, `action_descriptions`, `ppo_defaults`, `plan_defaults`, `skill_levels`, `random_baseline`,
            `published_skill`, `key_bindings`, `manual_actions`, `steps_per_key`; and `num_workers`, the processes that
            step the environments: 1 by default, None for one per core with at least four environments each.
    """
    allowed = ("name", "rules", "actions", "reward_rule", "action_descriptions", "ppo_defaults", "plan_defaults",
               "skill_levels", "random_baseline", "published_skill", "key_bindings", "manual_actions", "steps_per_key",
               "num_workers")  # fmt: skip
    for name in attributes:
        if name not in allowed:
            raise TypeError(f"from_gymnasium() has no argument {name!r}; attributes are {', '.join(allowed)}")
    return GymnasiumWorld(make_env, level_class, skills, prerequisites or {}, attributes, max_episode_steps, image_size)


def _description(env_class: type) -> str:
    """The section "Description" of the docstring of an environment; without one, what is before the first section."""
    text = inspect.cleandoc(env_class.__doc__ or "")
    before, *sections = re.split(r"^##+ *(.+)\n", text, flags=re.MULTILINE)  # with the titles in between
    titled = dict(zip((title.strip().lower() for title in sections[::2]), sections[1::2], strict=True))
    return titled.get("description", before).strip()


def _time_limit(env: gymnasium.Env) -> int | None:
    """The steps after which a wrapper of Gymnasium truncates an episode."""
    limits: list[int] = []
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, TimeLimit):
            limits.append(env._max_episode_steps)
        env = env.env
    return min(limits, default=None)


def _flatten(env: gymnasium.Env) -> gymnasium.Env:
    """The environment, with flat observations unless they are vectors or images."""
    space = env.observation_space
    is_image = isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8
    is_vector = isinstance(space, spaces.Box) and len(space.shape) == 1
    return env if is_image or is_vector else FlattenObservation(env)


def _observation_name(space: spaces.Space) -> str:
    assert isinstance(space, spaces.Box)
    if len(space.shape) == 3:
        return "pixels"
    return "symbols" if np.issubdtype(space.dtype, np.integer) else "vector"


def _action_names(space: spaces.Space) -> tuple[str, ...]:
    if isinstance(space, spaces.Discrete):
        if space.start != 0:
            raise ValueError(f"discrete actions must begin with 0, not {space}; wrap the environment")
        return tuple(f"action {k}" for k in range(int(space.n)))
    if isinstance(space, spaces.Box):
        return ()
    raise ValueError(f"actions must be Discrete or a Box, not {space}; wrap the environment")
