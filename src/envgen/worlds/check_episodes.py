"""The checks of `check_world` that step environments: infos, the ends of episodes, seeds and states."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from envgen.errors import describe_exception

from .world import (
    EpisodeEnd,
    Level,
    LevelEnv,
    LevelVectorEnv,
    Probe,
    SupportsActive,
    SupportsEnvState,
    World,
    sample_actions,
)

NUM_ENVS = 3
FINITE_REWARDS = "rewards must be finite numbers"
REQUIRED_INFOS = ("level", "episode_number", "episode_return", "episode_length", "achievements")


class EpisodeChecker:
    """Collects the violations of a world's contract, and finds those that show while environments are played."""

    def __init__(self, world: World, level: Any, steps: int, seed: int):
        self.world, self.level, self.steps, self.seed = world, level, steps, seed
        self.violations: list[str] = []
        self.skill_levels: list[Level] = []  # those that are valid
        self.make_options: dict[str, Any] = {}
        self._open_envs = ExitStack()  # closes those of the check that is running
        self._action_space: spaces.Space | None = None

    def require(self, condition: Any, violation: str) -> bool:
        if not condition and violation not in self.violations:
            self.violations.append(violation)
        return bool(condition)

    @contextmanager
    def no_error(self, operation: str) -> Iterator[None]:
        """An exception is a violation, too."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  the code under test may fail in any way
            self.require(False, f"{operation} raised {describe_exception(error)}")

    @contextmanager
    def check(self, operation: str) -> Iterator[None]:
        """Close the environments that were made, also after an exception, which is a violation."""
        with self.no_error(operation), self._open_envs:
            yield

    def raises(self, kind: type[Exception], function: Callable[[], Any], violation: str) -> Exception | None:
        try:
            function()
        except kind as error:
            return error
        except Exception as error:  # noqa: BLE001
            self.require(False, f"{violation}; it raised {describe_exception(error)}")
            return None
        self.require(False, violation)
        return None

    def make(self, num_envs: int | None = NUM_ENVS, seed: int | None = None, **kwargs) -> LevelVectorEnv:
        options = {"levels": [self.level], **self.make_options, **kwargs}
        envs = self.world.make(num_envs=num_envs, seed=self.seed if seed is None else seed, **options)
        if self.require(isinstance(envs, LevelVectorEnv), "make must return a LevelVectorEnv"):
            self._open_envs.callback(envs.close)
        return envs

    def single(self, **kwargs) -> LevelEnv:
        env = self.world.single(self.level, seed=self.seed, **{**self.make_options, **kwargs})
        if self.require(isinstance(env, LevelEnv), "single must return a LevelEnv"):
            self._open_envs.callback(env.close)
        return env

    def actions(self, num_envs: int, steps: int | None = None) -> np.ndarray:
        """Random actions, (steps, num_envs) or, if they are continuous, (steps, num_envs, ...)."""
        if self._action_space is None:
            self._action_space = self.single(observation=self.world.default_observation).action_space
        return sample_actions(self._action_space, (steps or self.steps, num_envs), np.random.default_rng(self.seed))

    # --- infos and the ends of episodes

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
            if not (self.require(np.isfinite(rewards).all(), FINITE_REWARDS) and self.check_infos(infos, envs)):
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

    # --- probes

    def check_probe(self) -> None:
        """A probe changes nothing, and no skill succeeds at a step unless the probe says that it can."""
        names, conditions = [skill.name for skill in self.world.skills], self.world.conditions
        for name in conditions:
            self.require(name in names, f"conditions: {name!r} is not a skill")
        envs, other = self.make(), self.make()
        probe = self.world.make_probe(envs)
        if probe is None:
            self.require(not conditions, "a world with conditions must have a probe: make_probe returned None")
        elif envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP:
            _, infos = envs.reset(seed=self.seed)
            other.reset(seed=self.seed)
            counts = infos["achievements"]
            for actions in self.actions(NUM_ENVS):
                checks = probe.before_step(actions)
                if not self.check_skill_checks(checks):
                    break
                result = envs.step(actions)
                self.require(
                    are_equal(copy_values(result[:4]), copy_values(other.step(actions)[:4])),
                    "a probe must change nothing in the environments",
                )
                counts = self.check_successes(probe, checks, counts, result)

    def check_skill_checks(self, checks: Any) -> bool:
        conditions = self.world.conditions
        if not self.require(
            isinstance(checks, Mapping) and set(checks) == set(conditions),
            "before_step must return one SkillCheck for each skill in conditions",
        ):
            return False
        return all(
            self.require(
                np.shape(check.conditions) == (NUM_ENVS, len(conditions[name]))
                and np.shape(check.attempted) == (NUM_ENVS,)
                and np.asarray(check.conditions).dtype == np.asarray(check.attempted).dtype == np.bool_,
                f"before_step: the SkillCheck of {name!r} must hold booleans of the shapes (num_envs, conditions) and "
                "(num_envs,)",
            )
            for name, check in checks.items()
        )

    def check_successes(
        self, probe: Probe, checks: Mapping[str, Any], counts_before: np.ndarray, result: tuple
    ) -> np.ndarray:
        """Compare the results of a step with the probe's checks. Returns the counts to compare the next step with."""
        ended, infos = result[2] | result[3], result[4]
        counts = infos["achievements"].copy()
        if ended.any():
            counts[ended] = infos["final_info"]["achievements"][ended]
            ends = probe.episode_ends(np.flatnonzero(ended))
            self.require(
                len(ends) == ended.sum() and all(isinstance(end, EpisodeEnd) and end.cause for end in ends),
                "episode_ends must return an EpisodeEnd for each environment",
            )
        for k, skill in enumerate(self.world.skills):
            if skill.name in checks:
                conditions, attempted = checks[skill.name]
                self.require(
                    (conditions.all(1) & attempted)[counts[:, k] > counts_before[:, k]].all(),
                    f"the skill {skill.name!r} succeeded in a step in which the probe says that it could not",
                )
        return np.where(ended[:, None], infos["achievements"], counts)

    # --- seeds and states

    def collect_steps(self, envs: LevelVectorEnv, actions: np.ndarray) -> list[tuple]:
        return [copy_values(envs.step(row)) for row in actions]

    def check_seeding(self) -> None:
        actions = self.actions(NUM_ENVS)
        envs, other = self.make(), self.make()
        first, second = copy_values(envs.reset(seed=self.seed)), copy_values(other.reset(seed=self.seed))
        self.require(
            are_equal(first, second)
            and are_equal(self.collect_steps(envs, actions), self.collect_steps(other, actions)),
            "the same seed and actions must give the same episodes",
        )
        fresh = self.make()
        self.require(
            are_equal(copy_values(fresh.reset()), first),
            "the first reset() after make(seed=s) must equal reset(seed=s)",
        )
        shifted = self.make(num_envs=1, seed=self.seed + NUM_ENVS - 1)
        obs, _ = shifted.reset(seed=self.seed + NUM_ENVS - 1)
        same = are_equal(env_observation(obs, 0), env_observation(first[0], NUM_ENVS - 1))
        envs.reset(seed=self.seed)
        if envs.metadata["autoreset_mode"] != AutoresetMode.DISABLED:
            for row in actions:
                a, b = envs.step(row), shifted.step(row[-1:])
                same = (
                    same
                    and are_equal(env_observation(a[0], NUM_ENVS - 1), env_observation(b[0], 0))
                    and bool(a[1][-1] == b[1][0])
                )
        self.require(same, "environment i of make(seed=s) must play the episodes of seed s + i")

    def check_partial_reset(self) -> None:
        """A reset of one environment begins an episode of its new seed; the others play on."""
        actions, mask = self.actions(NUM_ENVS), np.array([False, True, False])
        envs, other, seed = self.make(), self.make(), self.seed + 1000
        seeds: Any = [None, seed, None]  # Gymnasium's type does not say that vector environments take lists
        for each in (envs, other):
            each.reset(seed=self.seed)
            before, _, terminated, truncated, infos_before = copy_values(each.step(actions[0]))
        if not (terminated | truncated).any():
            obs, infos = copy_values(envs.reset(seed=seeds, options={"reset_mask": mask}))
            single = self.make(num_envs=1, seed=seed)
            first, _ = single.reset(seed=seed)
            self.require(
                are_equal(env_observation(obs, 1), env_observation(first, 0)) and infos["episode_number"][1] == 1,
                "reset(seed=[None, s, None], options={'reset_mask': mask}) must begin the first episode of seed s in "
                "the masked environment",
            )
            self.require(
                all(are_equal(env_observation(obs, i), env_observation(before, i)) for i in (0, 2))
                and all((infos[key] == infos_before[key])[~mask].all() for key in ("episode_number", "episode_length")),
                "reset() with a reset_mask must not change the environments outside of the mask",
            )
            self.check_same_steps(envs, other, actions[1:], "reset() with a reset_mask")

    def check_active(self) -> None:
        """Leaving out environments, which a world need not support."""
        actions, mask = self.actions(NUM_ENVS), np.array([True, False, True])
        envs, other = self.make(), self.make()
        if isinstance(envs, SupportsActive):
            obs, infos = copy_values(envs.reset(seed=self.seed))
            other.reset(seed=self.seed)
            envs.set_active(mask)
            new_obs, rewards, terminated, truncated, new_infos = copy_values(envs.step(actions[0]))
            other.step(actions[0])
            self.require(
                are_equal(env_observation(new_obs, 1), env_observation(obs, 1))
                and new_infos["episode_length"][1] == infos["episode_length"][1]
                and not (rewards[1] or terminated[1] or truncated[1]),
                "after set_active, environments outside of the mask must stay as they are, with reward 0",
            )
            if not (terminated | truncated).any():
                self.check_same_steps(envs, other, actions[1:], "set_active")
            envs.reset(seed=self.seed)
            lengths = envs.step(actions[0])[4]["episode_length"]
            other.reset(seed=self.seed)
            self.require(
                np.array_equal(lengths, other.step(actions[0])[4]["episode_length"]),
                "after reset(), all environments must be active again",
            )

    def check_same_steps(self, envs: LevelVectorEnv, other: LevelVectorEnv, actions: np.ndarray, cause: str) -> None:
        """The first and the last environment must play the same episode in both, until one of them ends."""
        same = True
        for row in actions:
            results = [envs.step(row), other.step(row)]
            for i in (0, NUM_ENVS - 1):
                first, second = ([env_observation(obs, i), *(array[i] for array in rest)] for obs, *rest, _ in results)
                same = same and are_equal(first, second)
            if not same or any((terminated | truncated).any() for _, _, terminated, truncated, _ in results):
                break
        self.require(same, f"{cause} must not change the episodes of the other environments")

    def check_state(self) -> None:
        actions = self.actions(NUM_ENVS)
        middle = max(1, min(len(actions) // 3, 20))
        envs = self.make()
        envs.reset(seed=self.seed)
        last = [copy_values(envs.step(row)) for row in actions[:middle]][-1]
        state = envs.get_state()
        if not self.require(
            isinstance(state, Mapping)
            and all(isinstance(key, str) and isinstance(array, np.ndarray) for key, array in state.items())
            and all(array.dtype.kind in "biuf" for array in state.values()),
            "get_state must return a dict of numeric arrays",
        ):
            return
        expected = self.collect_steps(envs, actions[middle:])
        other = self.make(seed=self.seed + 1000)
        other.reset(seed=self.seed + 1000)
        for restored in (envs, other):
            obs = restored.set_state(state)
            self.require(
                are_equal(copy_values(obs), last[0]), "set_state must return the observations of the saved state"
            )
            self.require(
                are_equal(self.collect_steps(restored, actions[middle:]), expected),
                "environments must continue exactly from a saved state",
            )
        self.raises(
            ValueError, lambda: envs.set_state({}), "set_state must raise ValueError for a state that is damaged"
        )

    def check_env_state(self) -> None:
        """Saving and restoring single environments, which a world need not support."""
        envs = self.make()
        if not isinstance(envs, SupportsEnvState):
            return
        _, infos = envs.reset(seed=self.seed)
        numbers = infos["episode_number"]
        obs, _, terminated, truncated, infos = envs.step(self.actions(NUM_ENVS, 1)[0])
        if (terminated | truncated).any():
            return  # the episodes are too short to be saved midway
        obs, infos = copy_values(obs), copy_values(infos)
        states = envs.get_env_state(np.array([0, 1]))
        self.require(
            isinstance(states, Mapping) and all(len(array) == 2 for array in states.values()),
            "get_env_state must return a dict of arrays with one row per environment",
        )
        with self.no_error("check_env_state of a state from get_env_state"):
            envs.check_env_state(states)
        self.raises(
            ValueError, lambda: envs.check_env_state({}), "check_env_state must raise ValueError for a damaged state"
        )
        target, first = np.array([NUM_ENVS - 1]), {name: array[:1] for name, array in states.items()}
        new_obs, new_infos = envs.set_env_state(target, first)
        same = are_equal(env_observation(new_obs, 0), env_observation(obs, 0))
        for key in ("level", "episode_return", "episode_length", "achievements"):
            same = same and np.array_equal(new_infos[key][0], infos[key][0])
        self.require(same, "set_env_state must return observations and infos of the saved states, one row each")
        self.require(
            new_infos["episode_number"][0] == numbers[-1], "set_env_state must not change the number of the episode"
        )
        same = True
        for row in self.actions(NUM_ENVS):
            row[-1] = row[0]
            obs, rewards, terminated, truncated, _ = envs.step(row)
            same = same and rewards[0] == rewards[-1] and terminated[0] == terminated[-1]
            if not same or (terminated | truncated)[[0, -1]].any():
                break
            same = are_equal(env_observation(obs, 0), env_observation(obs, NUM_ENVS - 1))
        self.require(same, "without new seeds, an episode must continue exactly after set_env_state")


def env_observation(obs: Any, i: int) -> Any:
    """The observation of environment i from a batch."""
    return {key: env_observation(value, i) for key, value in obs.items()} if isinstance(obs, Mapping) else obs[i]


def copy_values(value: Any) -> Any:
    """A copy that later steps cannot change."""
    if isinstance(value, Mapping):
        return {key: copy_values(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return tuple(copy_values(entry) for entry in value)
    return value.copy() if isinstance(value, np.ndarray) else value


def are_equal(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and a.keys() == b.keys() and all(are_equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return isinstance(b, tuple | list) and len(a) == len(b) and all(map(are_equal, a, b))
    if isinstance(a, np.ndarray) and a.dtype == object:
        return isinstance(b, np.ndarray) and len(a) == len(b) and all(map(are_equal, a, b))
    return np.array_equal(a, b)
