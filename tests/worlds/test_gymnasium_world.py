"""Any Gymnasium environment becomes a world that keeps the whole contract."""

import itertools
import runpy
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium_examples import LanderLevel, door_key_world, lander_world
from pydantic import Field

from envgen.designers.prompt import describe_settings
from envgen.play.session import GameSession
from envgen.report.clips import make_clips
from envgen.worlds import from_gymnasium
from envgen.worlds.check_world import ContractError, check_world
from envgen.worlds.level_space import setting_values
from envgen.worlds.world import Level

EXAMPLE = Path(__file__).parents[2] / "examples" / "gymnasium_world.py"


@pytest.fixture(scope="module")
def cart_pole(tmp_path_factory):
    # a file of its own: `inspect` remembers by which name other tests have imported the example, and would not find the
    # docstrings of the settings
    copy = tmp_path_factory.mktemp("cart_pole") / EXAMPLE.name
    copy.write_text(EXAMPLE.read_text())
    return runpy.run_path(str(copy))["world"]


@pytest.fixture(scope="module")
def lander():
    pytest.importorskip("Box2D")
    return lander_world()


class CounterLevel(Level):
    size: int = Field(default=3, ge=2, le=5)
    """How far the counter can go."""


class Counter(gymnasium.Env):
    """Counts the ones among the actions. With `noise`, it depends on something other than its seed."""

    observation_space = spaces.Dict({"count": spaces.Discrete(100), "even": spaces.MultiBinary(1)})
    action_space: spaces.Space = spaces.Discrete(2)

    def __init__(self, noise: bool = False, action_space: spaces.Space | None = None):
        self.noise, self.count = np.random.default_rng(0) if noise else None, 0
        self.action_space = action_space or self.action_space

    def observe(self):
        return {"count": self.count, "even": np.array([1 - self.count % 2], np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action):
        self.count += int(action)
        reward = self.noise.random() if self.noise else float(action)
        return self.observe(), reward, False, False, {}


def counter_world(make_env=lambda level: Counter(), **arguments):
    skills = {"count_3": lambda step: step.obs[:100].argmax() >= 3, "always": lambda step: True}
    return from_gymnasium(make_env, CounterLevel, skills, **{"max_episode_steps": 8, "name": "counter", **arguments})


def test_contract_with_discrete_actions(cart_pole):
    check_world(cart_pole)


def test_contract_with_continuous_actions(lander):
    check_world(lander, {"wind_power": 10.0})


@pytest.mark.parametrize("components", [{2: 1.0}, {0: 1.5}, {"main": 1.0}])
def test_manual_actions_outside_of_the_action_space_are_refused(components):
    pytest.importorskip("Box2D")
    world = lander_world()
    world.manual_actions = {**world.manual_actions, "fire": components}
    with pytest.raises(ContractError, match="manual_actions: 'fire'"):
        check_world(world)


def test_playing_with_continuous_actions(lander):
    session = GameSession(lander, seed=0)
    heights = [session.press(key) and float(session.observation[1]) for key in ("space", "up", "up", "up", "up")]
    assert session.steps == 25
    falling, *_, last = np.diff(heights)
    assert last > falling  # the engine still fires


def test_contract_of_a_minigrid_class():
    pytest.importorskip("minigrid")
    world = door_key_world()
    check_world(world)
    assert world.observations == ("pixels",)


def test_contract_with_structured_observations():
    world = counter_world()
    check_world(world)
    assert world.observations == ("symbols",)
    assert world.single().observation_space.shape == (101,)


@pytest.mark.parametrize("seed", range(4))
def test_episodes_are_those_of_the_environment(lander, seed):
    env = lander.single({"gravity": -5.0}, seed=seed)
    original = gymnasium.make("LunarLander-v3", continuous=True, gravity=-5.0)
    obs, _ = env.reset()
    expected, _ = original.reset(seed=int(env.state["seed"]))
    np.testing.assert_array_equal(obs, expected)
    rng = np.random.default_rng(0)
    touched = terminated = truncated = False
    while not (terminated or truncated):
        action = rng.uniform(-1, 1, 2).astype(np.float32)
        obs, reward, terminated, truncated, info = env.step(action)
        expected, expected_reward, *ends, _ = original.step(action)
        np.testing.assert_array_equal(obs, expected)
        assert reward == float(expected_reward)
        assert [terminated, truncated] == ends
        touched = touched or obs[6:].any()
    assert info["episode_length"] > 50
    assert info["achievements"] == {"touch_ground": int(touched), "land": 0}


def test_levels_change_the_environment(cart_pole):
    lengths = {}
    for length in (0.1, 2.0):
        envs = cart_pole.make([{"length": length}], 16, seed=0)
        envs.reset()
        ended: list[int] = []
        while len(ended) < 16:
            _, _, terminated, truncated, infos = envs.step(np.zeros(16, int))
            ended += (
                infos["final_info"]["episode_length"][terminated | truncated].tolist() if "final_info" in infos else []
            )
        lengths[length] = np.mean(ended)
    assert lengths[0.1] < lengths[2.0]


def test_a_skill_counts_once_per_episode():
    env = counter_world().single(seed=0)
    env.reset()
    for _ in range(5):
        *_, info = env.step(1)
    assert info["achievements"] == {"count_3": 1, "always": 1}


def test_time_limit_is_that_of_the_arguments_or_the_environment(cart_pole):
    assert cart_pole.max_episode_steps == 500
    env = counter_world().single(seed=0)
    env.reset()
    ends = [env.step(0)[2:4] for _ in range(8)]
    assert ends == [(False, False)] * 7 + [(False, True)]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("state.seed", lambda array: array + 1),
        ("state.seed", lambda array: array - 2**40),
        ("state.actions", lambda array: np.where(array == 1, 7.0, array).astype(np.float32) + 3),
        ("episode_returns", lambda array: array + 1),
        ("achievements", lambda array: array + 1),
        ("episodes", lambda array: array + np.array([0, 0, 0, 100000, 0])),
        ("episodes", lambda array: array + np.array([0, 0, 0, 1, 0])),
    ],
)
def test_damaged_states_are_refused(lander, name, change):
    envs = lander.make([{}], 2, seed=0)
    envs.reset()
    actions = np.random.default_rng(0).uniform(-1, 1, (40, 2, 2)).astype(np.float32)
    for row in actions[:20]:
        obs, *_ = envs.step(row)
    state = envs.get_state()
    with pytest.raises(ValueError, match="does not fit"):
        envs.set_state({**state, name: change(state[name]).astype(state[name].dtype)})
    np.testing.assert_array_equal(envs.set_state(state), obs)  # nothing was changed


class Drift(gymnasium.Env):
    """Its observations leave the bounds that it declares, as those of many environments do."""

    action_space = spaces.Discrete(2)

    def __init__(self, dtype):
        self.observation_space, self.position = spaces.Box(-1, 1, (2,), dtype), 0.0

    def observe(self):
        return np.full(2, self.position, self.observation_space.dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = 0.0
        return self.observe(), {}

    def step(self, action):
        self.position += 3
        return self.observe(), 0.0, False, False, {}


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_observations_outside_of_their_space_are_restored(dtype):
    world = from_gymnasium(lambda level: Drift(dtype), CounterLevel, {"never": lambda step: False}, max_episode_steps=9)
    envs, other = world.make(num_envs=2, seed=0), world.make(num_envs=2)
    envs.reset()
    for _ in range(3):
        obs, *_ = envs.step([0, 1])
    assert obs[0, 0] == 9
    np.testing.assert_array_equal(other.set_state(envs.get_state()), obs)
    other.check_env_state(envs.get_env_state(np.array([1, 0])))
    for name, array in other.get_state().items():
        np.testing.assert_array_equal(array, envs.get_state()[name])


@pytest.mark.parametrize(("values", "is_held"), [([0.0, 255.0], True), ([0.0, 0.5], False), ([0.0, 256.0], False)])
def test_values_that_the_observation_space_cannot_hold_are_refused(values, is_held):
    class Image(Counter):
        observation_space = spaces.Box(0, 255, (1, 2, 1), np.uint8)

        def observe(self):
            return np.reshape(values, (1, 2, 1))

    world = from_gymnasium(lambda level: Image(), CounterLevel, {"never": lambda step: False}, max_episode_steps=9)
    if is_held:
        assert world.single().reset(seed=0)[0].ravel().tolist() == values
    else:
        with pytest.raises(ValueError, match="an observation of float64 has values that Box"):
            world.single().reset(seed=0)


def test_environments_that_are_not_deterministic_are_reported():
    number = itertools.count()
    with pytest.raises(ContractError, match="the same seed and actions must give the same episodes"):
        check_world(counter_world(lambda level: Counter(noise=bool(next(number) % 2))))
    envs = counter_world(lambda level: Counter(noise=True)).make(num_envs=1, seed=0)
    envs.reset()
    envs.step([1])
    state = envs.get_state()
    state["episode_returns"] += 0.5
    with pytest.raises(ValueError, match="not deterministic"):
        envs.set_state(state)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="pass max_episode_steps"):
        counter_world(max_episode_steps=None)
    with pytest.raises(TypeError, match="no argument 'rule'"):
        counter_world(rule="Count.")
    with pytest.raises(ValueError, match="prerequisites of unknown skills: count_4"):
        counter_world(prerequisites={"count_4": ["count_3"]})
    with pytest.raises(ValueError, match="skills that are their own prerequisites: count_3"):
        counter_world(prerequisites={"count_3": ["count_3"]})
    with pytest.raises(ValueError, match="a prerequisite of count_3: skill 'count_2' is not one of count_3"):
        counter_world(prerequisites={"count_3": ["count_2"]})
    with pytest.raises(TypeError, match="the prerequisites of count_3 must be a list of skills, not 'count_2'"):
        counter_world(prerequisites={"count_3": "count_2"})
    with pytest.raises(ValueError, match="3 names for 2 actions"):
        counter_world(actions=("a", "b", "c"))
    with pytest.raises(ValueError, match="wrap the environment"):
        counter_world(lambda level: Counter(action_space=spaces.MultiBinary(2)))
    with pytest.raises(ValueError, match="begin with 0"):
        counter_world(lambda level: Counter(action_space=spaces.Discrete(2, start=1)))
    for argument, value, message in (
        ("skills", ["count_3"], "skills must be a dict with a function for each skill"),
        ("skills", {}, "at least one"),
        ("level_class", CounterLevel(), "level_class must be a subclass of Level"),
        ("make_env", lambda level: None, "make_env must return a Gymnasium environment, not None"),
    ):
        arguments = {"make_env": lambda level: Counter(), "level_class": CounterLevel, "skills": {"a": bool}}
        with pytest.raises(TypeError, match=message):
            from_gymnasium(**{**arguments, argument: value}, max_episode_steps=5)
    for argument in ("max_episode_steps", "image_size"):
        with pytest.raises(ValueError, match=f"{argument} must be an integer of at least 1, not 0"):
            counter_world(**{argument: 0})
    world = counter_world(lambda level: Counter(action_space=spaces.Discrete(max(2, level.size - 1))))
    with pytest.raises(ValueError, match="changes the action_space"):
        world.single({"size": 5}, seed=0).reset()


@pytest.mark.parametrize("action", [[0.0], [0.0, np.nan], [0.0, 2.0], "up", [[0.0, 0.0]]])
def test_wrong_continuous_actions(lander, action):
    env = lander.single(seed=0)
    env.reset()
    with pytest.raises(ValueError, match="action"):
        env.step(action)


def test_page_of_levels_has_pictures_of_the_worlds_size(cart_pole):
    assert cart_pole.render_levels({"a": {}, "b": {}}, columns=2).width > 2 * 256


class SteersAtRandom:
    def act(self, obs, rng):
        return rng.uniform(-1, 1, (len(obs), 2)).astype(np.float32)

    def reset(self, infos):
        pass

    def observe(self, rewards, dones, infos):
        pass


def test_clips_of_continuous_actions(lander, monkeypatch):
    monkeypatch.setattr("envgen.report.clips.NUM_EPISODES", 4)
    clips = make_clips(SteersAtRandom(), lander, "vector")
    assert clips[0].title == "A typical episode"
    assert all(len(action.split()) == 2 for action in clips[0].actions)


@pytest.mark.parametrize("actions", [np.zeros((3, 2)), np.zeros(2), [0.0]])
def test_a_wrong_number_of_continuous_actions(lander, actions):
    envs = lander.make(num_envs=2, seed=0)
    envs.reset()
    with pytest.raises(ValueError, match=r"actions must have the shape \(2, 2\)"):
        envs.step(actions)


def test_settings_that_are_floats_can_be_sampled():
    values = setting_values(LanderLevel)
    assert values["gravity"][0] == -10.0
    assert {values["gravity"][1], values["gravity"][-1]} == {-11.9, -1.0}
    assert len(values["gravity"]) == 11
    for value in values["wind_power"]:
        LanderLevel(wind_power=value)


def test_training_in_a_world_with_continuous_actions(lander, tmp_path):
    pytest.importorskip("torch")
    import envgen

    plan = {"cycles": 1, "levels": 2, "cycle_steps": 512, "final_steps": 256, "feedback_groups": 2,
            "feedback_episodes": 2, "episodes": 2, "audit_steps": 5}  # fmt: skip
    options = {"plan": plan, "hyperparameters": {"num_envs": 4, "num_steps": 32}, "verbose": False}
    run = envgen.train(lander, "random", folder=tmp_path / "run", **options)
    assert run.summary.final.episodes == 2
    assert envgen.evaluate(run, 2, world=lander).episodes == 2


def test_prompts_give_the_range_of_floats():
    assert describe_settings(LanderLevel, {}).splitlines()[0] == (
        "- gravity: -11.9 to -1.0 (default -10.0). Gravity in m/s^2."
    )


class DocumentedCartPole(CartPoleEnv):
    """A summary.

    ## Description
    A pole is attached
    to a cart.

    ## Action Space
    Two actions.
    """


def test_the_default_rules_are_the_description_in_the_docstring():
    world = from_gymnasium(
        lambda level: DocumentedCartPole(), Level, {"go": lambda step: True}, max_episode_steps=5,
        reward_rule="1 for each step.",
    )  # fmt: skip
    assert world.rules == "The environment DocumentedCartPole of Gymnasium. A pole is attached\nto a cart."
    assert world.reward_rule == "1 for each step."


def test_the_default_name_has_no_namespace():
    gymnasium.register("Ns/Pole-v0", CartPoleEnv, max_episode_steps=5)
    try:
        assert (
            from_gymnasium(lambda level: gymnasium.make("Ns/Pole-v0"), Level, {"go": lambda step: True}).name
            == "pole-v0"
        )
    finally:
        del gymnasium.registry["Ns/Pole-v0"]


def test_worker_processes_are_reused_for_the_same_functions_only():
    def make_world():
        make = lambda level: gymnasium.make("CartPole-v1")  # noqa: E731
        return from_gymnasium(make, Level, {"go": lambda step: True}, num_workers=2)

    world, reloaded = make_world(), make_world()
    assert world.worker_key() == world.worker_key() != reloaded.worker_key()


class OtherSpaces(gymnasium.Env):
    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, self.observation_space.dtype), {}

    def step(self, action):
        return np.zeros(3, self.observation_space.dtype), 0.0, False, False, {}


FLOATS = spaces.Box(-1, 1, (3,))


@pytest.mark.parametrize(
    ("observation_space", "action_space", "message"),
    [
        (spaces.Box(-5, 5, (3,), np.int64), spaces.Discrete(2), "must be an image .* or a flat Box of integers from 0"),
        (spaces.Box(0, 1, (3,), np.bool_), spaces.Discrete(2), "must be an image .* or a flat Box of integers from 0"),
        (FLOATS, spaces.Box(0, 3, (2,), np.int64), "the action space must be a bounded Box of floats"),
        (FLOATS, spaces.Discrete(2), None),
    ],
)
def test_spaces_in_which_agents_cannot_be_trained_break_the_contract(observation_space, action_space, message):
    world = from_gymnasium(
        lambda level: OtherSpaces(observation_space, action_space), Level, {"go": lambda step: False},
        max_episode_steps=5, name="other",
    )  # fmt: skip
    if message is None:
        check_world(world)
        return
    with pytest.raises(ContractError, match=message):
        check_world(world)


def test_a_time_limit_beyond_that_of_the_environment_is_refused():
    def make(steps, make_env=lambda level: gymnasium.make("MountainCar-v0")):
        return from_gymnasium(make_env, Level, {"go": lambda step: False}, max_episode_steps=steps)

    assert make(100).max_episode_steps == 100
    assert make(400, lambda level: gymnasium.make("MountainCar-v0").unwrapped).max_episode_steps == 400
    with pytest.raises(ValueError, match=r"truncates episodes after 200 steps; make it with .*max_episode_steps=400"):
        make(400)
