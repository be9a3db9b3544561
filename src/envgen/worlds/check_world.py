"""`check_world` checks that a world follows the contract of `envgen.worlds.world`. Use it as `envgen.check_world`."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from PIL import Image

from envgen.errors import EnvgenError, describe_exception

from .check_episodes import FINITE_REWARDS, NUM_ENVS, EpisodeChecker, are_equal, env_observation
from .level_space import random_level, setting_values
from .validation import check_count, circular_skills, find_tile_grid_problem
from .world import Level, LevelError, LevelVectorEnv, Skill, SupportsEnvLevels, World

NUM_RANDOM_LEVELS = 100  # with each of KEEP_PROBS
KEEP_PROBS = 0.5, 0.0  # the default of random designers, and the one that changes most settings


class ContractError(EnvgenError):
    """A world breaks its contract. `violations` has a sentence about each violation."""

    def __init__(self, world: str, violations: Sequence[str]):
        self.violations = list(violations)
        super().__init__(f"the world {world} breaks its contract:\n" + "\n".join(f"- {text}" for text in violations))


def check_world(
    world: World,
    level: Any = None,
    steps: int = 200,
    seed: int = 0,
    find_wrong_defaults: Callable[[World], Iterable[str]] = lambda world: (),
) -> None:
    """`envgen.check_world`, which describes the other arguments, without the settings that the world recommends.

    Args:
        find_wrong_defaults: Returns a sentence about each violation in `ppo_defaults` and `plan_defaults`.
    """
    checker = _Checker(world, level, check_count("steps", steps), seed)
    checker.find_wrong_defaults = find_wrong_defaults
    checker.run()
    if checker.violations:
        raise ContractError(getattr(world, "name", type(world).__name__), checker.violations)


class _Checker(EpisodeChecker):
    find_wrong_defaults: Callable[[World], Iterable[str]]

    def run(self) -> None:
        if not self.check_declarations() or not self.check_levels():
            return
        num_violations = len(self.violations)
        for observation in self.world.observations:
            with self.check(f"make(observation={observation!r})"):
                self.check_spaces(observation)
        if len(self.violations) > num_violations:
            return  # later checks would only repeat what is wrong
        self.make_options = {"observation": self.world.default_observation}
        checks: dict[str, Callable[[], None]] = {
            "playing": self.check_episodes,
            "seeding": self.check_seeding,
            "reset(options={'reset_mask': mask})": self.check_partial_reset,
            "set_active": self.check_active,
            "get_state or set_state": self.check_state,
            "get_env_state or set_env_state": self.check_env_state,
            "set_levels": self.check_set_levels,
            "set_env_levels": self.check_set_env_levels,
            "a single environment": self.check_single,
            "level_stats": self.check_level_stats,
            "rendering": self.check_rendering,
            "expert_actions": self.check_expert,
            "make_probe": self.check_probe,
        }
        for operation, check in checks.items():
            with self.check(operation):
                check()
            if FINITE_REWARDS in self.violations:
                return  # NaN differs from itself, so most of the other checks would fail as well
        for mode in AutoresetMode:
            with self.check(f"playing with autoreset mode {mode.value}"):
                try:
                    envs = self.make(autoreset_mode=mode)
                except TypeError:  # a world need not support every mode
                    continue
                self.require(
                    envs.metadata.get("autoreset_mode") == mode,
                    f"make(autoreset_mode={mode.value!r}) must return environments whose metadata has this mode",
                )
                self.check_autoreset(envs, mode)

    # --- what a world declares

    def check_declarations(self) -> bool:
        """Check the attributes of the world; False if some are missing, so that nothing further can be checked."""
        world = self.world
        missing = [
            name for name in ("name", "Level", "skills", "actions", "observations", "rules") if not hasattr(world, name)
        ]
        for name in missing:
            self.require(False, f"{name} is not defined")
        if missing:
            return False
        self.require(
            isinstance(world.name, str) and world.name and not set(world.name) & set("/\\"),
            "name must be a non-empty string without slashes: directories are named after it",
        )
        self.require(isinstance(world.rules, str) and world.rules.strip(), "rules must explain the world in prose")
        for name in ("actions", "observations"):
            values = getattr(world, name)
            self.require(
                all(isinstance(value, str) for value in values) and len(set(values)) == len(values),
                f"{name} must be distinct strings",
            )
        self.require(world.observations, "observations must name at least one observation")
        if not self.check_skills():
            return False
        for key, action in world.key_bindings.items():
            self.require(
                action in (world.actions or world.manual_actions),
                f"key_bindings: {key!r} is bound to {action!r}, not to an action",
            )
        for action in world.action_descriptions:
            self.require(action in world.actions, f"action_descriptions: {action!r} is not an action")
        for name in ("ppo_defaults", "plan_defaults"):
            with self.no_error(name):
                json.dumps({key: value for key, value in getattr(world, name).items()})
        with self.no_error("plan_defaults and ppo_defaults"):
            for violation in self.find_wrong_defaults(world):
                self.require(False, violation)
        return True

    def check_skills(self) -> bool:
        """Check skills; False if they are not of the right types."""
        skills = self.world.skills
        if not self.require(
            len(skills) > 0 and all(isinstance(skill, Skill) for skill in skills),
            "skills must be a tuple of Skill, at least one",
        ):
            return False
        names = [skill.name for skill in skills]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.require(False, f"skills: {name!r} appears more than once")
        for skill in skills:
            for name in skill.prerequisites:
                self.require(name in names, f"skills: the prerequisite {name!r} of {skill.name!r} is not a skill")
        for name in circular_skills({skill.name: skill.prerequisites for skill in skills}):
            self.require(False, f"skills: {name!r} is its own prerequisite")
        return True

    # --- levels

    def check_levels(self) -> bool:
        """Check Level; False if nothing further can be checked."""
        level_class = getattr(self.world, "Level", None)
        if not self.require(
            isinstance(level_class, type) and issubclass(level_class, Level), "Level must be a subclass of Level"
        ):
            return False
        assert level_class is not None
        try:
            original = level_class()
        except Exception as error:  # noqa: BLE001
            return self.require(False, f"Level() raised {describe_exception(error)}")
        try:
            self.level = level_class.parse(self.level)
        except Exception as error:  # noqa: BLE001
            return self.require(False, f"the level that was passed to check_world is not valid: {error}")
        self.require(self.world.original == original, "original must be Level()")
        self.require(
            level_class.parse({}) == original and level_class.parse(None) == original, "Level.parse({}) must be Level()"
        )
        self.require(original.to_overrides() == {}, "Level().to_overrides() must be {}")
        with self.no_error("hash(Level())"):
            hash(original)
        self.raises(LevelError, lambda: level_class.parse({"no_such_setting": 1}), "Level must refuse unknown settings")
        if level_class.model_fields:
            name = next(iter(level_class.model_fields))
            typo = {f"{name}_": 1}
            error = self.raises(LevelError, lambda: level_class.parse(typo), "Level must refuse unknown settings")
            if error is not None:
                self.require(repr(name) in str(error), f"Level must suggest {name!r} for the unknown setting '{name}_'")
        with self.no_error("Level.model_json_schema()"):
            properties = level_class.model_json_schema().get("properties", {})
            for name in properties:
                described = properties[name].get("description") or level_class.model_fields[name].description
                self.require(
                    described,
                    f"Level: the setting {name!r} needs a docstring, or in a notebook Field(description=...)",
                )
        with self.no_error("Level"):
            self.check_random_levels(level_class)
        skill_names = [skill.name for skill in self.world.skills]
        for name, level in self.world.skill_levels.items():
            self.require(name in skill_names, f"skill_levels: {name!r} is not a skill")
            try:
                parsed = level_class.parse(level)
            except LevelError as error:
                self.require(False, f"skill_levels: the level for {name!r} is not valid: {error}")
            else:
                self.skill_levels.append(parsed)
                unknown = [other for other in parsed.granted_skills if other not in skill_names]
                self.require(not unknown, f"granted_skills of the level for {name!r} must be skills, not {unknown}")
                self.check_level_round_trip(parsed)
        self.check_level_round_trip(self.level)
        return True

    def check_random_levels(self, level_class: type[Level]) -> None:
        space, rng = setting_values(level_class), np.random.default_rng(self.seed)
        for keep_prob in KEEP_PROBS:
            for _ in range(NUM_RANDOM_LEVELS):
                random_level(level_class, space, keep_prob, rng)

    def check_level_round_trip(self, level: Level) -> None:
        level_class = type(level)
        with self.no_error("writing a level as JSON and reading it"):
            self.require(
                level_class.parse(level.model_dump_json()) == level
                and level_class.parse(level.to_overrides()) == level,
                f"the level {level.to_overrides()} changes when it is written as JSON and read again",
            )

    # --- environments

    def check_spaces(self, observation: str) -> None:
        make = f"make(observation={observation!r})"
        envs = self.make(observation=observation)
        self.require(envs.num_envs == NUM_ENVS, f"make(num_envs={NUM_ENVS}) returned {envs.num_envs} environments")
        self.check_observation_space(envs.single_observation_space, observation)
        self.check_action_space(envs.single_action_space)
        for name in ("observation_space", "action_space"):
            self.require(
                getattr(envs, name) == batch_space(getattr(envs, f"single_{name}"), NUM_ENVS),
                f"{make}: {name} must be single_{name}, batched",
            )
        self.require(
            isinstance(envs.metadata.get("autoreset_mode"), AutoresetMode),
            'metadata["autoreset_mode"] must be an AutoresetMode',
        )
        obs, infos = envs.reset(seed=self.seed)
        self.require(
            envs.observation_space.contains(obs), f"{make}: the observations of reset() are not in observation_space"
        )
        self.require(isinstance(infos, Mapping), f"{make}: reset() must return infos as a dict")
        result = envs.step(self.actions(NUM_ENVS, 1)[0])
        if self.require(len(result) == 5, f"{make}: step() must return 5 values"):
            obs, rewards, terminated, truncated, _ = result
            self.require(
                envs.observation_space.contains(obs),
                f"{make}: the observations of step() are not in observation_space",
            )
            self.require(
                np.shape(rewards) == (NUM_ENVS,) and np.asarray(rewards).dtype.kind == "f",
                f"{make}: step() must return rewards as floats of shape (num_envs,)",
            )
            for name, flags in (("terminated", terminated), ("truncated", truncated)):
                self.require(
                    np.shape(flags) == (NUM_ENVS,) and np.asarray(flags).dtype == np.bool_,
                    f"{make}: step() must return {name} as booleans of shape (num_envs,)",
                )
        self.check_tile_grid(envs, observation)
        self.check_single_observations(observation)
        envs = self.make(levels=[self.level, self.level], num_envs=None, observation=observation)
        self.require(envs.num_envs == 2, "make must create one environment per level if num_envs is not given")

    def check_single_observations(self, observation: str) -> None:
        """Vector environments copy observations into arrays, which hides those of another type or shape."""
        env = self.single(observation=observation)
        for call, obs in (
            ("reset", env.reset(seed=self.seed)[0]),
            ("step", env.step(self.actions(1, 1)[0][0])[0]),
        ):
            is_array = isinstance(obs, np.ndarray)
            actual = f"an array of {obs.dtype} and shape {obs.shape}" if is_array else f"a {type(obs).__name__}"
            self.require(
                (is_array or not isinstance(env.observation_space, spaces.Box)) and env.observation_space.contains(obs),
                f"single(observation={observation!r}): the observation of {call}(), {actual}, is not in "
                f"{env.observation_space}",
            )

    def check_observation_space(self, space: spaces.Space, observation: str) -> None:
        is_trainable = observation == "text"  # for language models
        if isinstance(space, spaces.Box):
            is_image = space.dtype == np.uint8 and len(space.shape) == 3
            is_flat = len(space.shape) == 1
            has_symbols = np.issubdtype(space.dtype, np.integer) and not space.low.any()
            is_trainable |= is_image or (is_flat and (has_symbols or np.issubdtype(space.dtype, np.floating)))
        self.require(
            is_trainable,
            f"observation={observation!r} must be an image (a uint8 Box of height x width x channels), a flat Box of "
            f"floats, or a flat Box of integers from 0 on, not {space}",
        )

    def check_action_space(self, space: spaces.Space) -> None:
        if self.world.actions:
            self.require(
                isinstance(space, spaces.Discrete) and space.n == len(self.world.actions) and space.start == 0,
                f"the action space must be Discrete({len(self.world.actions)}), one number for each of `actions`",
            )
        else:
            self.require(
                isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating) and space.is_bounded(),
                f"without names of `actions`, the action space must be a bounded Box of floats, not {space}",
            )
            if isinstance(space, spaces.Box):
                self.check_manual_actions(space)

    def check_manual_actions(self, space: spaces.Box) -> None:
        for name, components in self.world.manual_actions.items():
            action = np.zeros_like(space.low)
            with self.no_error(f"manual_actions: {name!r}"):
                action[[*components]] = [*components.values()]
                self.require(space.contains(action), f"manual_actions: {name!r} sets {action}, outside of {space}")

    def check_tile_grid(self, envs: LevelVectorEnv, observation: str) -> None:
        grid, name = envs.metadata.get("tile_grid"), f'the metadata["tile_grid"] of observation={observation!r}'
        if grid is not None:
            problem = find_tile_grid_problem(grid, envs.single_observation_space)
            self.require(problem is None, f"{name} is wrong: {problem}")
        env = self.single(observation=observation)
        single_grid = getattr(env, "metadata", {}).get("tile_grid")
        self.require(
            single_grid == grid, f"{name} is {grid} in vector environments but {single_grid} in single environments"
        )

    def check_set_levels(self) -> None:
        levels = [self.level, *self.skill_levels]
        envs = self.make()
        _, infos = envs.reset(seed=self.seed)
        self.require(
            all(isinstance(level, self.world.Level) for level in envs.levels),
            "`levels` of environments must be a list of Level",
        )
        self.require(
            all(envs.levels[k] == levels[0] for k in infos["level"]),
            'levels[infos["level"]] must be the level being played',
        )
        envs.set_levels(levels[-1])
        _, infos = envs.reset()
        self.require(
            all(envs.levels[k] == levels[-1] for k in infos["level"]),
            "set_levels must set the levels of later episodes",
        )
        envs.set_levels(levels[-2:] if len(levels) > 1 else levels, sample_levels=True)
        envs.reset()
        self.raises(
            ValueError,
            lambda: envs.set_levels({"no_such_setting": 1}),
            "set_levels must refuse a level that is not valid",
        )
        self.raises(
            ValueError,
            lambda: envs.reset(options={"no_such_option": 1}),
            "reset() of a vector environment must raise ValueError for an unknown option",
        )

    def check_set_env_levels(self) -> None:
        """Setting the levels of some environments, which a world need not support."""
        envs = self.make()
        if isinstance(envs, SupportsEnvLevels):
            levels = [self.level, [*self.skill_levels, self.level][0], self.world.original]
            envs.reset(seed=self.seed)
            envs.set_env_levels([1, 2], levels[1:])
            _, infos = envs.reset()
            self.require(
                [envs.levels[k] for k in infos["level"]] == levels,
                "set_env_levels must set the levels of later episodes of these environments and of no others",
            )
            self.raises(
                ValueError,
                lambda: envs.set_env_levels([0], [{"no_such_setting": 1}]),
                "set_env_levels must refuse a level that is not valid",
            )

    def check_single(self) -> None:
        env = self.single()
        envs = self.make(num_envs=1)
        self.require(
            env.observation_space == envs.single_observation_space and env.action_space == envs.single_action_space,
            "single and vector environments must have the same spaces",
        )
        obs, info = env.reset(seed=self.seed)
        vector_obs, _ = envs.reset(seed=self.seed)
        same = are_equal(obs, env_observation(vector_obs, 0))
        self.require(env.level == self.level, "`level` of a single environment must be the level being played")
        self.require("achievements" in info, 'the info of a single environment lacks "achievements"')
        for actions in self.actions(1):
            obs, reward, terminated, truncated, _ = env.step(actions[0])
            vector_obs, rewards, vector_terminated, vector_truncated, infos = envs.step(actions)
            ended = terminated or truncated
            flags = vector_terminated[0], vector_truncated[0]
            same = same and reward == rewards[0] and (terminated, truncated) == flags
            final = ended and envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
            same = same and are_equal(obs, infos["final_obs"][0] if final else env_observation(vector_obs, 0))
            if ended:
                break
        self.require(same, "single and vector environments with the same seed and actions must play the same episode")
        original = self.world.original
        env.set_level(original)
        env.reset()
        self.require(env.level == original, "set_level must set the level of the next episode")
        env.reset(options={"level": self.level})
        self.require(env.level == self.level, 'reset(options={"level": level}) must play this level')
        self.raises(
            ValueError,
            lambda: env.reset(options={"no_such_option": 1}),
            "reset() of a single environment must raise ValueError for an unknown option",
        )

    # --- what people and designers see

    def check_level_stats(self) -> None:
        first, second = (self.world.level_stats(self.level, seeds=range(2)) for _ in range(2))
        stats = first.as_dict()
        self.require(
            all(isinstance(key, str) and np.isfinite(value) for key, value in stats.items()) and stats,
            "level_stats(...).as_dict() must be finite numbers by name",
        )
        self.require(
            stats == second.as_dict(), "level_stats must give the same statistics for the same level and seeds"
        )
        self.require(str(first).strip(), "str(level_stats(...)) must be a table")
        names = {skill.name for skill in self.world.skills}
        reachable = self.world.reachable_skills(self.level, first)
        self.require(set(reachable) <= names, "reachable_skills must be a subset of the skills")

    def check_rendering(self) -> None:
        image = self.world.render_levels({"original": self.world.original, "level": self.level}, columns=2)
        self.require(isinstance(image, Image.Image), "render_levels must return a PIL image")
        env = self.single(render_mode="rgb_array")
        _, info = env.reset(seed=self.seed)
        frame: Any = env.render()
        status: Any = self.world.status(info)
        self.require(
            isinstance(status, Mapping)
            and all(isinstance(name, str) and int(amount) == amount for name, amount in status.items())
            and self.world.gauges.keys() <= status.keys()
            and all(maximum > 0 for maximum in self.world.gauges.values()),
            "status must return whole numbers by name, among them all gauges, whose maxima must be positive",
        )
        self.require(
            isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3,
            'render() with render_mode="rgb_array" must return a uint8 array (height, width, 3)',
        )

    def check_expert(self) -> None:
        envs = self.make()
        envs.reset(seed=self.seed)
        actions = self.world.expert_actions(envs)
        if actions is not None:
            self.require(
                np.shape(actions)[:1] == (NUM_ENVS,)
                and all(envs.single_action_space.contains(action) for action in np.asarray(actions)),
                "expert_actions must return one action for each environment, or None",
            )
