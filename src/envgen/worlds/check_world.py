"""`check_world` proves that a world keeps the contract of `envgen.worlds.world`, for worlds of any package."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from PIL import Image

from envgen.errors import EnvgenError

from .world import Level, LevelEnv, LevelError, LevelVectorEnv, Skill, World

NUM_ENVS = 3
REQUIRED_INFOS = ("level", "episode_number", "episode_return", "episode_length", "achievements")


class ContractError(EnvgenError):
    """A world breaks its contract. `violations` has a sentence about each violation."""

    def __init__(self, world: str, violations: Sequence[str]):
        self.violations = list(violations)
        super().__init__(f"the world {world} breaks its contract:\n" + "\n".join(f"- {text}" for text in violations))


def check_world(world: World, level: Any = None, steps: int = 200, seed: int = 0) -> None:
    """Check everything that this project requires of a world, and raise one ContractError about all violations.

    Args:
        world: The world to check.
        level: A level in which episodes end within `steps` random actions, so that the ends of episodes are checked
            too. By default the original.
        steps: Steps to play in each check.
        seed: The seed of the environments and of the random actions.
    """
    checker = _Checker(world, level, steps, seed)
    checker.run()
    if checker.violations:
        raise ContractError(getattr(world, "name", type(world).__name__), checker.violations)


class _Checker:
    def __init__(self, world: World, level: Any, steps: int, seed: int):
        self.world, self.level, self.steps, self.seed = world, level, steps, seed
        self.violations: list[str] = []
        self.skill_levels: list[Level] = []  # those that are valid

    def require(self, condition: Any, violation: str) -> bool:
        if not condition and violation not in self.violations:
            self.violations.append(violation)
        return bool(condition)

    @contextmanager
    def no_error(self, action: str) -> Iterator[None]:
        """An exception is a violation, too."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  the code under test may fail in any way
            self.require(False, f"{action} raised {type(error).__name__}: {error}")

    def raises(self, kind: type[Exception], function: Callable[[], Any], violation: str) -> Exception | None:
        try:
            function()
        except kind as error:
            return error
        except Exception as error:  # noqa: BLE001
            self.require(False, f"{violation}; it raised {type(error).__name__}: {error}")
            return None
        self.require(False, violation)
        return None

    def run(self) -> None:
        self.check_declarations()
        if not self.check_levels():
            return
        found_before = len(self.violations)
        for observation in self.world.observations:
            with self.no_error(f"make(observation={observation!r})"):
                self.check_spaces(observation)
        if len(self.violations) > found_before:
            return  # later checks would only repeat what is wrong
        observation = self.world.observations[-1] if "symbols" not in self.world.observations else "symbols"
        self.make_options: dict[str, Any] = {"observation": observation}
        checks: dict[str, Callable[[], None]] = {
            "playing": self.check_episodes,
            "seeding": self.check_seeding,
            "get_state or set_state": self.check_state,
            "set_levels": self.check_set_levels,
            "a single environment": self.check_single,
            "level_stats": self.check_level_stats,
            "rendering": self.check_rendering,
            "expert_actions": self.check_expert,
        }
        for action, check in checks.items():
            with self.no_error(action):
                check()
        for mode in AutoresetMode:
            try:
                envs = self.make(autoreset_mode=mode)
            except TypeError:  # a world need not support every mode
                continue
            with self.no_error(f"playing with autoreset mode {mode.value}"):
                self.require(
                    envs.metadata.get("autoreset_mode") == mode,
                    f"make(autoreset_mode={mode.value!r}) must return environments whose metadata has this mode",
                )
                self.check_autoreset(envs, mode)
            envs.close()

    def make(self, num_envs: int = NUM_ENVS, seed: int | None = None, **kw) -> LevelVectorEnv:
        return self.world.make(
            [self.level], num_envs=num_envs, seed=self.seed if seed is None else seed, **{**self.make_options, **kw}
        )

    def actions(self, num_envs: int, steps: int | None = None) -> np.ndarray:
        """Random actions, (steps, num_envs)."""
        return np.random.default_rng(self.seed).integers(len(self.world.actions), size=(steps or self.steps, num_envs))

    # --- what a world declares

    def check_declarations(self) -> None:
        world = self.world
        missing = [
            name for name in ("name", "Level", "skills", "actions", "observations", "rules") if not hasattr(world, name)
        ]
        for name in missing:
            self.require(False, f"{name} is not defined")
        if missing:
            return
        self.require(isinstance(world.name, str) and world.name, "name must be a non-empty string")
        self.require(isinstance(world.rules, str) and world.rules.strip(), "rules must explain the world in prose")
        for name in ("actions", "observations"):
            values = getattr(world, name)
            self.require(
                len(values) > 0 and all(isinstance(value, str) for value in values) and len(set(values)) == len(values),
                f"{name} must be distinct strings, at least one",
            )
        self.check_skills()
        for key, action in world.key_bindings.items():
            self.require(action in world.actions, f"key_bindings: {key!r} is bound to {action!r}, which is no action")
        for name in ("ppo_defaults", "plan_defaults"):
            with self.no_error(name):
                json.dumps({key: value for key, value in getattr(world, name).items()})

    def check_skills(self) -> None:
        skills = self.world.skills
        if not self.require(
            len(skills) > 0 and all(isinstance(skill, Skill) for skill in skills),
            "skills must be a tuple of Skill, at least one",
        ):
            return
        names = [skill.name for skill in skills]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.require(False, f"skills: {name!r} appears more than once")
        prerequisites = {skill.name: skill.prerequisites for skill in skills}
        for skill in skills:
            for name in skill.prerequisites:
                self.require(name in names, f"skills: the prerequisite {name!r} of {skill.name!r} is not a skill")
        for name in names:
            required, pending = set(), list(prerequisites[name])
            while pending:
                skill_name = pending.pop()
                if skill_name not in required:
                    required.add(skill_name)
                    pending += prerequisites.get(skill_name, ())
            self.require(name not in required, f"skills: {name!r} is its own prerequisite")

    # --- levels

    def check_levels(self) -> bool:
        """Check Level; False if nothing further can be checked."""
        Kind = getattr(self.world, "Level", None)
        if not self.require(isinstance(Kind, type) and issubclass(Kind, Level), "Level must be a subclass of Level"):
            return False
        assert Kind is not None
        try:
            original = Kind()
            self.level = Kind.parse(self.level)
        except Exception as error:  # noqa: BLE001
            return self.require(False, f"Level() raised {type(error).__name__}: {error}")
        self.require(self.world.original == original, "original must be Level()")
        self.require(Kind.parse({}) == original and Kind.parse(None) == original, "Level.parse({}) must be Level()")
        self.require(original.to_overrides() == {}, "Level().to_overrides() must be {}")
        with self.no_error("hash(Level())"):
            hash(original)
        self.raises(LevelError, lambda: Kind.parse({"no_such_setting": 1}), "Level must refuse unknown settings")
        if Kind.model_fields:
            name = next(iter(Kind.model_fields))
            typo = {f"{name}_": 1}
            error = self.raises(LevelError, lambda: Kind.parse(typo), "Level must refuse unknown settings")
            if error is not None:
                self.require(repr(name) in str(error), f"Level must suggest {name!r} for the unknown setting '{name}_'")
        with self.no_error("Level.model_json_schema()"):
            properties = Kind.model_json_schema().get("properties", {})
            for name in properties:
                described = properties[name].get("description") or Kind.model_fields[name].description
                self.require(described, f"Level: the setting {name!r} needs a docstring")
        skill_names = [skill.name for skill in self.world.skills]
        for name, level in self.world.skill_levels.items():
            self.require(name in skill_names, f"skill_levels: {name!r} is not a skill")
            try:
                parsed = Kind.parse(level)
            except LevelError as error:
                self.require(False, f"skill_levels: the level for {name!r} is not valid: {error}")
            else:
                self.skill_levels.append(parsed)
                self.check_level_round_trip(parsed)
        self.check_level_round_trip(self.level)
        return True

    def check_level_round_trip(self, level: Level) -> None:
        Kind = type(level)
        with self.no_error("writing a level as JSON and reading it"):
            self.require(
                Kind.parse(level.model_dump_json()) == level and Kind.parse(level.to_overrides()) == level,
                f"the level {level.to_overrides()} changes when it is written as JSON and read again",
            )

    # --- environments

    def check_spaces(self, observation: str) -> None:
        make = f"make(observation={observation!r})"
        envs = self.world.make([self.level], num_envs=NUM_ENVS, seed=self.seed, observation=observation)
        self.require(isinstance(envs, LevelVectorEnv), "make must return a LevelVectorEnv")
        self.require(envs.num_envs == NUM_ENVS, f"make(num_envs={NUM_ENVS}) returned {envs.num_envs} environments")
        self.require(
            isinstance(envs.single_action_space, spaces.Discrete)
            and envs.single_action_space.n == len(self.world.actions)
            and envs.single_action_space.start == 0,
            f"the action space must be Discrete({len(self.world.actions)}), one number for each of `actions`",
        )
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
        envs.close()
        envs = self.world.make([self.level, self.level], observation=observation)
        self.require(envs.num_envs == 2, "make must create one environment per level if num_envs is not given")
        envs.close()

    def check_infos(self, infos: Mapping[str, Any], envs: LevelVectorEnv, name: str = "infos") -> bool:
        """Whether infos have the right keys and shapes."""
        before = len(self.violations)
        num_skills = len(self.world.skills)
        shapes = dict.fromkeys(REQUIRED_INFOS[:4], (envs.num_envs,)) | {"achievements": (envs.num_envs, num_skills)}
        if "possible" in infos:
            shapes["possible"] = envs.num_envs, num_skills
        for key, shape in shapes.items():
            if not self.require(key in infos, f"{name} lacks {key!r}"):
                continue
            kinds = {"episode_return": "f", "possible": "b"}.get(key, "iu")
            actual = np.asarray(infos[key])
            self.require(
                actual.shape == shape and actual.dtype.kind in kinds,
                f"{name}[{key!r}] must have shape {shape} and dtype kind {kinds!r}, not {actual.shape} and "
                f"{actual.dtype.kind!r}",
            )
            mask = infos.get(f"_{key}")
            self.require(
                mask is not None and np.shape(mask) == (envs.num_envs,) and np.asarray(mask).dtype == np.bool_,
                f"{name}[{'_' + key!r}] must be a boolean mask of shape (num_envs,)",
            )
        if len(self.violations) > before:
            return False
        self.require(
            (infos["level"] >= 0).all() and (infos["level"] < len(envs.levels)).all(),
            f'{name}["level"] must be an index into `levels`',
        )
        self.require((infos["achievements"] >= 0).all(), f'{name}["achievements"] must not be negative')
        return len(self.violations) == before

    def check_episodes(self) -> None:
        """The contents of infos over some steps, whatever the autoreset mode."""
        envs = self.make()
        _, infos = envs.reset(seed=self.seed)
        mode = envs.metadata["autoreset_mode"]
        if not self.check_infos(infos, envs):
            return
        self.require((infos["episode_number"] == 1).all(), 'infos["episode_number"] must be 1 after reset(seed)')
        returns, lengths = np.zeros(NUM_ENVS), np.zeros(NUM_ENVS, np.int64)
        previous_ended = np.zeros(NUM_ENVS, np.bool_)
        num_ended = 0
        for actions in self.actions(NUM_ENVS):
            _, rewards, terminated, truncated, infos = envs.step(actions)
            if not self.check_infos(infos, envs):
                return
            ended = (terminated | truncated) & ~previous_ended
            num_ended += int(ended.sum())
            if mode == AutoresetMode.NEXT_STEP:
                returns, lengths = (
                    np.where(previous_ended, 0, returns + rewards),
                    np.where(previous_ended, 0, lengths + 1),
                )
            else:
                returns, lengths = returns + rewards, lengths + 1
            last = infos
            if mode == AutoresetMode.SAME_STEP and ended.any():
                last = self.check_final(infos, ended, envs)
                if last is None:
                    return
            running = ~ended if mode == AutoresetMode.SAME_STEP else np.ones(NUM_ENVS, np.bool_)
            for mask, source, name in ((running, infos, "infos"), (ended, last, "the info of an episode's end")):
                self.require(
                    (source["episode_length"] == lengths)[mask].all(),
                    f'{name}: "episode_length" must count the steps of the episode',
                )
                self.require(
                    np.allclose(source["episode_return"][mask], returns[mask]),
                    f'{name}: "episode_return" must be the sum of the rewards of the episode',
                )
            if mode == AutoresetMode.SAME_STEP:
                self.require(
                    (infos["episode_length"][ended] == 0).all(),
                    'infos["episode_length"] must be 0 where an episode ended and the next one began',
                )
                returns[ended], lengths[ended] = 0, 0
            elif mode == AutoresetMode.DISABLED and ended.any():
                envs.reset(options={"reset_mask": ended})
                returns[ended], lengths[ended] = 0, 0
            previous_ended = ended & (mode == AutoresetMode.NEXT_STEP)
        self.require(
            num_ended > 0,
            f"no episode ended within {self.steps} steps, so the ends of episodes were not checked: "
            "pass check_world a level with shorter episodes, or more steps",
        )
        envs.close()

    def check_final(
        self, infos: Mapping[str, Any], ended: np.ndarray, envs: LevelVectorEnv
    ) -> Mapping[str, Any] | None:
        """The final infos of same-step autoreset, if they are right."""
        for key in ("final_obs", "final_info"):
            if not self.require(
                key in infos and f"_{key}" in infos and np.array_equal(infos[f"_{key}"], ended),
                f"with same-step autoreset, infos must have {key!r} and its mask where an episode ended",
            ):
                return None
        for i in np.flatnonzero(ended):
            self.require(
                envs.single_observation_space.contains(infos["final_obs"][i]),
                'infos["final_obs"] must hold the last observation of each episode that ended',
            )
        final = infos["final_info"]
        return final if self.check_infos(final, envs, 'infos["final_info"]') else None

    def check_autoreset(self, envs: LevelVectorEnv, mode: AutoresetMode) -> None:
        envs.reset(seed=self.seed)
        for actions in self.actions(NUM_ENVS):
            _, _, terminated, truncated, infos = envs.step(actions)
            ended = terminated | truncated
            if not ended.any():
                continue
            numbers = infos["episode_number"].copy()
            if mode == AutoresetMode.SAME_STEP:
                return  # checked by check_episodes and check_final
            if mode == AutoresetMode.NEXT_STEP:
                _, rewards, terminated, truncated, infos = envs.step(actions)
                self.require(
                    not rewards[ended].any() and not (terminated | truncated)[ended].any(),
                    "with next-step autoreset, the step after an episode's end must only reset: reward 0, not ended",
                )
            else:
                self.raises(
                    Exception,
                    lambda: envs.step(actions),  # noqa: B023  called before the loop goes on
                    "with autoreset disabled, step() must raise an error until the ended episodes are reset",
                )
                _, infos = envs.reset(options={"reset_mask": ended})
            self.require(
                (infos["episode_number"][ended] == numbers[ended] + 1).all()
                and (infos["episode_length"][ended] == 0).all(),
                f"autoreset mode {mode.value} must begin the next episode after an episode's end",
            )
            return

    # --- seeds and states

    def play(self, envs: LevelVectorEnv, actions: np.ndarray) -> list[tuple]:
        return [_copy(envs.step(row)) for row in actions]

    def check_seeding(self) -> None:
        actions = self.actions(NUM_ENVS)
        envs, other = self.make(), self.make()
        first, second = _copy(envs.reset(seed=self.seed)), _copy(other.reset(seed=self.seed))
        self.require(
            _equal(first, second) and _equal(self.play(envs, actions), self.play(other, actions)),
            "the same seed and actions must give the same episodes",
        )
        other.close()
        fresh = self.make()
        self.require(
            _equal(_copy(fresh.reset()), first), "the first reset() after make(seed=s) must equal reset(seed=s)"
        )
        fresh.close()
        shifted = self.make(num_envs=1, seed=self.seed + NUM_ENVS - 1)
        obs, _ = shifted.reset(seed=self.seed + NUM_ENVS - 1)
        same = _equal(_row(obs, 0), _row(first[0], NUM_ENVS - 1))
        envs.reset(seed=self.seed)
        if envs.metadata["autoreset_mode"] != AutoresetMode.DISABLED:
            for row in actions:
                a, b = envs.step(row), shifted.step(row[-1:])
                same = same and _equal(_row(a[0], NUM_ENVS - 1), _row(b[0], 0)) and bool(a[1][-1] == b[1][0])
        self.require(same, "environment i of make(seed=s) must play the episodes of seed s + i")
        shifted.close()
        envs.close()

    def check_state(self) -> None:
        actions = self.actions(NUM_ENVS)
        middle = min(len(actions) // 3, 20)
        envs = self.make()
        envs.reset(seed=self.seed)
        last = [_copy(envs.step(row)) for row in actions[:middle]][-1]
        state = envs.get_state()
        if not self.require(
            isinstance(state, Mapping)
            and all(isinstance(key, str) and isinstance(array, np.ndarray) for key, array in state.items())
            and all(array.dtype.kind in "biuf" for array in state.values()),
            "get_state must return a dict of numeric arrays",
        ):
            return
        expected = self.play(envs, actions[middle:])
        other = self.make(seed=self.seed + 1000)
        other.reset(seed=self.seed + 1000)
        for restored in (envs, other):
            obs = restored.set_state(state)
            self.require(_equal(_copy(obs), last[0]), "set_state must return the observations of the saved state")
            self.require(
                _equal(self.play(restored, actions[middle:]), expected),
                "environments must continue exactly from a saved state",
            )
        self.raises(
            ValueError, lambda: envs.set_state({}), "set_state must raise ValueError for a state that is damaged"
        )
        envs.close()
        other.close()

    def check_set_levels(self) -> None:
        levels = [self.level, *self.skill_levels]
        envs = self.world.make([levels[0]], num_envs=NUM_ENVS, seed=self.seed, **self.make_options)
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
        envs.close()

    def check_single(self) -> None:
        env = self.world.single(self.level, seed=self.seed, **self.make_options)
        if not self.require(isinstance(env, LevelEnv), "single must return a LevelEnv"):
            return
        envs = self.make(num_envs=1)
        self.require(
            env.observation_space == envs.single_observation_space and env.action_space == envs.single_action_space,
            "single and vector environments must have the same spaces",
        )
        obs, info = env.reset(seed=self.seed)
        vector_obs, _ = envs.reset(seed=self.seed)
        same = _equal(obs, _row(vector_obs, 0))
        self.require(env.level == self.level, "`level` of a single environment must be the level being played")
        self.require("achievements" in info, 'the info of a single environment lacks "achievements"')
        for actions in self.actions(1):
            obs, reward, terminated, truncated, _ = env.step(int(actions[0]))
            vector_obs, rewards, vector_terminated, vector_truncated, infos = envs.step(actions)
            ended = terminated or truncated
            flags = vector_terminated[0], vector_truncated[0]
            same = same and reward == rewards[0] and (terminated, truncated) == flags
            final = ended and envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
            same = same and _equal(obs, infos["final_obs"][0] if final else _row(vector_obs, 0))
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
        env.close()
        envs.close()

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
        env = self.world.single(self.level, seed=self.seed, render_mode="rgb_array", **self.make_options)
        env.reset(seed=self.seed)
        frame: Any = env.render()
        self.require(
            isinstance(frame, np.ndarray) and frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[2] == 3,
            'render() with render_mode="rgb_array" must return a uint8 array (height, width, 3)',
        )
        env.close()

    def check_expert(self) -> None:
        envs = self.make()
        envs.reset(seed=self.seed)
        actions = self.world.expert_actions(envs)
        if actions is not None:
            self.require(
                np.shape(actions) == (NUM_ENVS,)
                and np.asarray(actions).dtype.kind in "iu"
                and ((np.asarray(actions) >= 0) & (np.asarray(actions) < len(self.world.actions))).all(),
                "expert_actions must return one action for each environment, or None",
            )
        envs.close()


def _row(obs: Any, i: int) -> Any:
    """The observation of environment i from a batch."""
    return {key: _row(value, i) for key, value in obs.items()} if isinstance(obs, Mapping) else obs[i]


def _copy(value: Any) -> Any:
    """A copy that later steps cannot change."""
    if isinstance(value, Mapping):
        return {key: _copy(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return tuple(_copy(entry) for entry in value)
    return value.copy() if isinstance(value, np.ndarray) else value


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return isinstance(b, tuple | list) and len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, np.ndarray) and a.dtype == object:
        return isinstance(b, np.ndarray) and len(a) == len(b) and all(map(_equal, a, b))
    return np.array_equal(a, b)
