"""check_world accepts the worlds of this project and names each violation of a broken one."""

from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from line_world import RING, LineEnv, LineLevel, LineVectorEnv, LineWorld
from python_worlds import Walk, WalkEnv

from envgen import check_world
from envgen.worlds.check_world import ContractError
from envgen.worlds.python_vector_env import PythonVectorEnv
from envgen.worlds.registry import BUILTIN_WORLDS, make_world
from envgen.worlds.validation import find_tile_grid_problem
from envgen.worlds.world import EpisodeEnd, Level, LevelError, Skill, SkillCheck, TileGrid, World


def violations(world: World) -> list[str]:
    with pytest.raises(ContractError) as error:
        check_world(world)
    return error.value.violations


@pytest.mark.parametrize("name", [name for name in BUILTIN_WORLDS if name != "walker"])  # see test_walker_env
def test_own_worlds_keep_the_contract(name):
    check_world(make_world(name), {"length": 20}, steps=60)


def test_small_world_keeps_the_contract():
    check_world(LineWorld())


class SkillsAsStrings(LineWorld):
    skills = ("ring_bell",)


class UnknownPreset(LineWorld):
    plan_defaults = {"qick": {"cycles": 3}}  # noqa: RUF012


class UnknownPlanField(LineWorld):
    plan_defaults = {"quick": {"cycels": 3}}  # noqa: RUF012


class UnknownPpoSetting(LineWorld):
    ppo_defaults = {"gama": 0.5}  # noqa: RUF012


class UnknownPrerequisite(LineWorld):
    skills = (Skill("ring_bell"), Skill("reach_flag", ("walk",)))


class CircularSkills(LineWorld):
    skills = (Skill("ring_bell", ("ring_bell",)), Skill("reach_flag"))


class UnknownAction(LineWorld):
    key_bindings = {"up": "jump"}  # noqa: RUF012


class InvalidSkillLevel(LineWorld):
    skill_levels = {"reach_flag": {"length": 0}}  # noqa: RUF012


class UnknownGrant(LineWorld):
    skill_levels = {"reach_flag": {"length": 3}}  # noqa: RUF012

    class Level(LineLevel):
        @property
        def granted_skills(self):
            return ("fly",)


class SettingOfAnotherType(LineWorld):
    class Level(LineLevel):
        title: str = ""
        """The name of the line."""


class PermissiveWorld(LineWorld):
    class Level(LineLevel):
        @classmethod
        def parse(cls, data):
            if isinstance(data, dict) and not set(data) <= set(cls.model_fields):
                data = {}
            return super().parse(data)


class UndocumentedLevel(LineWorld):
    class Level(Level):
        length: int = 5
        max_steps: int = 30
        """Steps after which an episode is truncated."""


class RandomEnvs(LineVectorEnv):
    def _begin(self, i):
        super()._begin(i)
        self.data["position"][i] = np.random.randint(2)


class NotDeterministic(LineWorld):
    vector_env_class = RandomEnvs


class ForgetfulEnvs(LineVectorEnv):
    def set_state(self, state):
        steps = self.data["steps"]
        super().set_state(state)
        self.data["steps"] = steps
        return np.stack([self.data["position"], state["steps"] % 7], axis=1)


class IncompleteState(LineWorld):
    vector_env_class = ForgetfulEnvs


class ResetsAllEnvs(LineVectorEnv):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options={k: v for k, v in (options or {}).items() if k != "reset_mask"})


class ResetsAll(LineWorld):
    vector_env_class = ResetsAllEnvs


class IgnoresListsOfSeedsEnvs(LineVectorEnv):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None if isinstance(seed, list) else seed, options=options)


class IgnoresListsOfSeeds(LineWorld):
    vector_env_class = IgnoresListsOfSeedsEnvs


class SkippingEnvs(LineVectorEnv):
    """Environments outside of `active` do not take steps."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.active = np.ones(self.num_envs, np.bool_)

    def set_active(self, mask):
        self.active = mask

    def reset(self, *, seed=None, options=None):
        self.active = np.ones(self.num_envs, np.bool_)
        return super().reset(seed=seed, options=options)

    def step(self, actions):
        kept = {name: array[~self.active].copy() for name, array in {**self.data, "returns": self.returns}.items()}
        _, rewards, terminated, truncated, infos = super().step(actions)
        for name, rows in kept.items():
            {**self.data, "returns": self.returns}[name][~self.active] = rows
        rewards[~self.active] = terminated[~self.active] = truncated[~self.active] = 0
        return self._obs(), rewards, terminated, truncated, {**infos, **self._infos()}


class SkippingWorld(LineWorld):
    vector_env_class = SkippingEnvs


class NeverSkippingEnvs(LineVectorEnv):
    def set_active(self, mask):
        pass


class NeverSkipping(LineWorld):
    vector_env_class = NeverSkippingEnvs


class SkippingForeverEnvs(SkippingEnvs):
    def reset(self, *, seed=None, options=None):
        active = self.active
        result = super().reset(seed=seed, options=options)
        self.active = active
        return result


class SkippingForever(LineWorld):
    vector_env_class = SkippingForeverEnvs


class LevelOfAllEnvs(LineVectorEnv):
    def set_env_levels(self, env_ids, levels):
        self.set_levels(levels)


class LevelOfAll(LineWorld):
    vector_env_class = LevelOfAllEnvs


class WrongShapeEnvs(LineVectorEnv):
    def _infos(self, mask=None):
        infos = super()._infos(mask)
        return infos | {"achievements": infos["achievements"][:, :1]}


class WrongAchievements(LineWorld):
    vector_env_class = WrongShapeEnvs


class NoFinalInfoEnvs(LineVectorEnv):
    def step(self, actions):
        *result, infos = super().step(actions)
        return *result, {name: value for name, value in infos.items() if "final_info" not in name}


class NoFinalInfo(LineWorld):
    vector_env_class = NoFinalInfoEnvs


class WrongReturnEnvs(LineVectorEnv):
    def _infos(self, mask=None):
        return super()._infos(mask) | {"episode_return": self.returns + 1}


class WrongReturn(LineWorld):
    vector_env_class = WrongReturnEnvs


class IgnoresOptionsEnv(LineEnv):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options={k: v for k, v in (options or {}).items() if k == "level"})


class IgnoresOptions(LineWorld):
    single_env_class = IgnoresOptionsEnv


class SmallSpaceEnvs(LineVectorEnv):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.single_action_space = spaces.Discrete(2)
        self.action_space = spaces.MultiDiscrete([2] * self.num_envs)


class WrongActionSpace(LineWorld):
    vector_env_class = SmallSpaceEnvs


class AcceptsAnyStateEnvs(LineVectorEnv):
    def set_state(self, state):
        return super().set_state(state) if state else self._obs()


class AcceptsAnyState(LineWorld):
    vector_env_class = AcceptsAnyStateEnvs


class RandomStats(LineWorld):
    def level_stats(self, level=None, seeds=range(16)):
        self.calls = getattr(self, "calls", 0) + 1
        return super().level_stats(level, seeds)._replace(cells=float(self.calls))


class NoRender(LineWorld):
    def render_levels(self, levels, columns=4, seed=0):
        return None


class GaugeWithoutStatus(LineWorld):
    gauges = {"health": 9}  # noqa: RUF012


class ExpertOutOfRange(LineWorld):
    def expert_actions(self, envs):
        return np.full(envs.num_envs, 3)


class LineProbe:
    """The bell can be rung everywhere on the line."""

    def __init__(self, envs: LineVectorEnv):
        self.envs = envs

    def before_step(self, actions):
        on_line = self.envs.data["position"] >= 0
        return {"ring_bell": SkillCheck(on_line[:, None], np.asarray(actions) == RING)}

    def episode_ends(self, env_ids):
        return [EpisodeEnd("the flag or the time limit")] * len(env_ids)


class ProbedLine(LineWorld):
    conditions = {"ring_bell": ("on the line",)}  # noqa: RUF012

    def make_probe(self, envs):
        return LineProbe(envs)


class WrongProbe(ProbedLine):
    """It denies what succeeds."""

    def make_probe(self, envs):
        probe = LineProbe(envs)
        before_step = probe.before_step
        probe.before_step = lambda actions: before_step(np.zeros_like(actions))
        return probe


class MeddlingProbe(ProbedLine):
    """It moves the agent."""

    def make_probe(self, envs):
        class Meddling(LineProbe):
            def before_step(self, actions):
                self.envs.data["position"][:] = 1
                return super().before_step(actions)

        return Meddling(envs)


class FlatProbe(ProbedLine):
    def make_probe(self, envs):
        class Flat(LineProbe):
            def before_step(self, actions):
                [check] = super().before_step(actions).values()
                return {"ring_bell": SkillCheck(check.conditions[:, 0], check.attempted)}

        return Flat(envs)


class SilentProbe(ProbedLine):
    def make_probe(self, envs):
        probe = LineProbe(envs)
        probe.episode_ends = lambda env_ids: []
        return probe


class ConditionsWithoutProbe(LineWorld):
    conditions = {"ring_bell": ("on the line",)}  # noqa: RUF012


class ConditionOfUnknownSkill(ProbedLine):
    conditions = {"ring_bell": ("on the line",), "fly": ("wings",)}  # noqa: RUF012

    def make_probe(self, envs):
        class Flying(LineProbe):
            def before_step(self, actions):
                checks = super().before_step(actions)
                return {**checks, "fly": checks["ring_bell"]}

        return Flying(envs)


def test_a_world_that_skips_environments_keeps_the_contract():
    check_world(SkippingWorld())


def test_the_line_of_the_users_code_is_named(tmp_path, monkeypatch):
    (tmp_path / "my_line.py").write_text(
        "from line_world import LineWorld\n\n\n"
        "class Broken(LineWorld):\n"
        "    def expert_actions(self, envs):\n"
        "        return {}['missing']\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.chdir(tmp_path)
    assert violations(make_world("my_line:Broken")) == [
        "expert_actions raised KeyError: 'missing' (my_line.py, line 6)"
    ]


def test_a_world_with_a_probe_keeps_the_contract():
    check_world(ProbedLine())


class GridOnSymbolsEnvs(LineVectorEnv):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.metadata = {**self.metadata, "tile_grid": TileGrid(1, 1, 0, 0, 1, 2)}


class GridOnSymbolsEnv(LineEnv):
    def __init__(self, envs, render_mode=None):
        super().__init__(envs, render_mode)
        self.metadata = {**self.metadata, "tile_grid": envs.metadata["tile_grid"]}


class GridOnSymbols(LineWorld):
    vector_env_class, single_env_class = GridOnSymbolsEnvs, GridOnSymbolsEnv


@pytest.mark.parametrize(
    ("world", "violation"),
    [
        (SkillsAsStrings, "skills must be a tuple of Skill, at least one"),
        (UnknownPreset, "plan_defaults: preset 'qick' is not one of paper, quick, long; did you mean 'quick'?"),
        (UnknownPrerequisite, "skills: the prerequisite 'walk' of 'reach_flag' is not a skill"),
        (CircularSkills, "skills: 'ring_bell' is its own prerequisite"),
        (UnknownAction, "key_bindings: 'up' is bound to 'jump', not to an action"),
        (
            InvalidSkillLevel,
            "skill_levels: the level for 'reach_flag' is not valid: "
            "length: Input should be greater than or equal to 1 (got 0)",
        ),
        (UnknownGrant, "granted_skills of the level for 'reach_flag' must be skills, not ['fly']"),
        (PermissiveWorld, "Level must refuse unknown settings"),
        (
            SettingOfAnotherType,
            "Level raised LevelError: the setting title must be a Literal, a tuple of a Literal's values, a "
            "tuple[str, ...], a bool, an int with both bounds or a float with ge and le, not "
            f"{SettingOfAnotherType.Level.model_fields['title']!r}",
        ),
        (
            UndocumentedLevel,
            "Level: the setting 'length' needs a docstring, or in a notebook Field(description=...)",
        ),
        (NotDeterministic, "the same seed and actions must give the same episodes"),
        (IncompleteState, "environments must continue exactly from a saved state"),
        (ResetsAll, "reset() with a reset_mask must not change the environments outside of the mask"),
        (
            IgnoresListsOfSeeds,
            "reset(seed=[None, s, None], options={'reset_mask': mask}) must begin the first episode of seed s in "
            "the masked environment",
        ),
        (NeverSkipping, "after set_active, environments outside of the mask must stay as they are, with reward 0"),
        (SkippingForever, "after reset(), all environments must be active again"),
        (LevelOfAll, "set_env_levels must set the levels of later episodes of these environments and of no others"),
        (
            WrongAchievements,
            "infos['achievements'] must have shape (3, 2) and dtype kind 'iu', not (3, 1) and 'i'",
        ),
        (NoFinalInfo, "with same-step autoreset, infos must have 'final_info' and its mask where an episode ended"),
        (WrongReturn, 'infos: "episode_return" must be the sum of the rewards of the episode'),
        (IgnoresOptions, "reset() of a single environment must raise ValueError for an unknown option"),
        (WrongActionSpace, "the action space must be Discrete(3), one number for each of `actions`"),
        (AcceptsAnyState, "set_state must raise ValueError for a state that is damaged"),
        (
            GridOnSymbols,
            "the metadata[\"tile_grid\"] of observation='symbols' is wrong: only images have tiles "
            f"(a uint8 Box of height x width x channels), not {LineWorld().make(num_envs=1).single_observation_space}",
        ),
        (RandomStats, "level_stats must give the same statistics for the same level and seeds"),
        (NoRender, "render_levels must return a PIL image"),
        (
            GaugeWithoutStatus,
            "status must return whole numbers by name, among them all gauges, whose maxima must be positive",
        ),
        (ExpertOutOfRange, "expert_actions must return one action for each environment, or None"),
        (WrongProbe, "the skill 'ring_bell' succeeded in a step in which the probe says that it could not"),
        (MeddlingProbe, "a probe must change nothing in the environments"),
        (
            FlatProbe,
            "before_step: the SkillCheck of 'ring_bell' must hold booleans of the shapes (num_envs, conditions) and "
            "(num_envs,)",
        ),
        (SilentProbe, "episode_ends must return an EpisodeEnd for each environment"),
        (ConditionsWithoutProbe, "a world with conditions must have a probe: make_probe returned None"),
        (ConditionOfUnknownSkill, "conditions: 'fly' is not a skill"),
    ],
)
def test_each_violation_is_named(world, violation):
    assert violation in violations(world())


@pytest.mark.parametrize(("name", "value"), [
    ("plan_defaults", None), ("plan_defaults", {"quick": 3}), ("ppo_defaults", {1: 2}), ("ppo_defaults", [("gamma", 1)])
])  # fmt: skip
def test_defaults_of_training_of_another_type_are_violations(name, value):
    world = LineWorld()
    setattr(world, name, value)
    assert any(name in violation for violation in violations(world))


@pytest.mark.parametrize(("world", "start", "end"), [
    (UnknownPlanField, "plan_defaults['quick']: TrainingPlan: setting 'cycels' is", "; did you mean 'cycles'?"),
    (UnknownPpoSetting, "ppo_defaults: PpoSettings: setting 'gama' is", "; did you mean 'gamma'?"),
])  # fmt: skip
def test_wrong_defaults_of_training_are_named(world, start, end):
    (violation,) = violations(world())
    assert violation.startswith(start)
    assert violation.endswith(end)


@pytest.mark.parametrize(
    "world",
    [SkillsAsStrings, UnknownPreset, UnknownPlanField, UnknownPpoSetting, UnknownPrerequisite,
     CircularSkills, UnknownAction, InvalidSkillLevel, PermissiveWorld, IncompleteState,
     WrongAchievements, NoFinalInfo, IgnoresOptions, WrongActionSpace, AcceptsAnyState, RandomStats, NoRender,
     ExpertOutOfRange, WrongProbe, MeddlingProbe, FlatProbe, SilentProbe, ConditionsWithoutProbe,
     ConditionOfUnknownSkill],
)  # fmt: skip
def test_a_single_fault_gives_a_single_violation(world):
    assert len(violations(world())) == 1


@pytest.mark.parametrize("reward", [np.nan, np.inf])
def test_rewards_that_are_not_finite_are_the_only_violation(reward):
    class Rewarding(LineVectorEnv):
        def step(self, actions):
            obs, rewards, *rest = super().step(actions)
            return obs, np.where(np.arange(len(rewards)) == 1, reward, rewards), *rest

    class Rewards(LineWorld):
        vector_env_class = Rewarding

    assert violations(Rewards()) == ["rewards must be finite numbers"]


@pytest.mark.parametrize("name", ["skills", "observations"])
def test_missing_attributes_are_named(name):
    class Incomplete(World):
        pass

    for attribute in ("name", "Level", "skills", "actions", "observations", "rules"):
        if attribute != name:
            setattr(Incomplete, attribute, getattr(LineWorld, attribute))
    Incomplete.__abstractmethods__ = frozenset()  # pyright: ignore[reportAttributeAccessIssue]
    assert violations(Incomplete()) == [f"{name} is not defined"]


@pytest.mark.parametrize("steps", [1, 2])
def test_too_few_steps_are_the_only_violation(steps):
    with pytest.raises(ContractError) as error:
        check_world(LineWorld(), steps=steps)
    assert len(error.value.violations) == 1
    assert error.value.violations[0].startswith(f"no episode ended within {steps} steps")


def test_checks_without_steps_are_refused():
    with pytest.raises(ValueError, match="steps must be an integer of at least 1, not 0"):
        check_world(LineWorld(), steps=0)


def test_all_violations_are_listed():
    class Broken(NoRender, IgnoresOptions):
        pass

    assert len(violations(Broken())) == 2


def test_episodes_that_never_end_are_reported():
    with pytest.raises(ContractError, match="no episode ended within 5 steps"):
        check_world(LineWorld(), {"length": 50}, steps=5)


def test_invalid_level_argument_is_reported():
    with pytest.raises(ContractError, match="length"):
        check_world(LineWorld(), {"length": 0})


def test_level_error_is_a_value_error():
    assert issubclass(LevelError, ValueError)


@pytest.mark.parametrize("in_vector", [True, False])
def test_tile_grids_of_single_and_vector_environments_must_agree(in_vector, monkeypatch):
    world = make_world("crafter")
    kind = "make" if in_vector else "single"
    original = getattr(world, kind)

    def without_grid(*args, **kwargs):
        env = original(*args, **kwargs)
        env.metadata.pop("tile_grid", None)
        return env

    monkeypatch.setattr(world, kind, without_grid)
    grid = "TileGrid(height=7, width=7, top=0, left=0, rows=9, columns=9, agent=31)"
    grids = (None, grid) if in_vector else (grid, None)
    with pytest.raises(ContractError) as error:
        check_world(world, {"length": 20}, steps=60)
    assert error.value.violations == [
        "the metadata[\"tile_grid\"] of observation='pixels' is {} in vector environments but {} in single "
        "environments".format(*grids)
    ]


@pytest.mark.parametrize(("change", "message"), [
    ({"top": 2}, "pixel rows 2 to 64"), ({"rows": 0}, "at least 1"), ({"agent": 81}, "a tile from 0 to 80, not 81"),
    ({"agent": 1.5}, "TileGrid of integers"), ({"top": None}, "only its agent may be None"),
])  # fmt: skip
def test_tile_grids_must_lie_within_the_image(change, message):
    space = make_world("crafter").make(num_envs=1).single_observation_space
    grid = TileGrid(7, 7, 0, 0, 9, 9)
    assert find_tile_grid_problem(grid, space) is None
    assert message in str(find_tile_grid_problem(grid._replace(**change), space))


def test_worlds_are_also_given_by_name_or_class():
    check_world("heist", {"length": 20}, steps=40)
    check_world(LineWorld)
    check_world("line_world:LineWorld")


def test_names_with_slashes_are_violations():
    class Slashes(LineWorld):
        name = "../line"

    assert violations(Slashes()) == ["name must be a non-empty string without slashes: directories are named after it"]


class CountedEnv(WalkEnv):
    num_open = 0

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        CountedEnv.num_open += 1

    def close(self):
        CountedEnv.num_open -= 1
        super().close()


class CountedWorld(Walk):
    env_class = CountedEnv


@pytest.mark.parametrize("steps", [1, 12])
def test_all_environments_are_closed(steps, monkeypatch):
    monkeypatch.setattr(CountedEnv, "max_episode_steps", steps)
    check_world(CountedWorld(), steps=20)
    assert CountedEnv.num_open == 0


def fail(*args):
    raise RuntimeError


@pytest.mark.parametrize("method", ["advance", "get_state", "set_state"])
def test_all_environments_are_closed_after_violations(method, monkeypatch):
    cls = CountedEnv if method == "advance" else PythonVectorEnv
    monkeypatch.setattr(cls, method, fail)
    assert any("raised RuntimeError" in violation for violation in violations(CountedWorld()))
    assert CountedEnv.num_open == 0


def test_rewards_and_ends_must_not_be_swapped():
    class SwappedEnv(WalkEnv):
        def advance(self, action):
            return super().advance(action)[::-1]

    class Swapped(Walk):
        env_class = SwappedEnv

    assert any("TypeError: advance must return (reward, terminated)" in text for text in violations(Swapped()))
