"""PythonWorld turns one environment in plain Python into a world that keeps the whole contract."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from envgen.worlds.check_world import ContractError, check_world
from envgen.worlds.python_world import PythonEnv, PythonWorld
from envgen.worlds.world import Level, LevelError, Skill


class LineLevel(Level):
    length: int = Field(default=4, ge=1, le=9)
    """Cells to the end."""


class LineEnv(PythonEnv):
    """Walk to the end of a line. A wind, drawn once per episode, decides what a wait does."""

    observation_space = spaces.Box(0, 9, (2,), np.int64)
    max_episode_steps = 20
    image_size = 16

    def begin(self):
        return {"position": 0, "wind": self.np_random.integers(0, 2, 3)}

    def observe(self):
        return np.array([self.state["position"], self.state["wind"].sum()])

    def advance(self, action):
        step = (1, int(self.state["wind"][self.episode_length % 3]))[action]
        self.state["position"] += step
        if self.state["position"] >= self.level.length:
            self.achieve("arrive")
            return 1.0, True
        return 0.0, False

    def render_frame(self):
        return np.full((16, 16, 3), 20 * self.state["position"], np.uint8)


class Line(PythonWorld):
    name, Level, env_class = "line", LineLevel, LineEnv
    skills, actions = (Skill("arrive"), Skill("fly", ("arrive",))), ("walk", "wait")
    observations, rules = ("symbols",), "Walk."


class Arrived(Line):
    """A world whose episodes begin with a success."""

    class env_class(LineEnv):
        def begin(self):
            self.achieve("fly")
            return super().begin()


LEVELS = [{}, {"length": 2}]


def make_envs(num_envs: int = 4, seed: int = 5):
    envs = Line().make(LEVELS, num_envs, seed)
    return envs, envs.reset()


def test_environments_play_their_levels():
    envs, (obs, infos) = make_envs()
    assert envs.observation_space.contains(obs)
    assert [level.length for level in envs.levels] == [4, 2]
    assert infos["level"].tolist() == [0, 1, 0, 1]
    envs.set_levels([{"length": 1}])
    assert infos["level"].tolist() == [0, 1, 0, 1]  # until the next episode
    _, infos = envs.reset()
    assert infos["level"].tolist() == [2] * 4
    assert [level.length for level in envs.levels] == [4, 2, 1]


def test_fixed_levels_follow_sampled_ones():
    envs, _ = make_envs(8)
    envs.set_levels(LEVELS, sample_levels=True)
    assert set(envs.reset()[1]["level"].tolist()) == {0, 1}
    envs.set_levels({"length": 3})
    assert envs.reset()[1]["level"].tolist() == [2] * 8


def test_environments_keep_one_of_the_levels_that_they_sampled():
    """As those of the compiled worlds do."""
    envs = Line().make([{"length": n} for n in (3, 5, 7)], 4, 0, sample_levels=True)
    envs.reset()
    envs.set_env_levels([1], [{"length": 9}])
    for one in (envs, other := Line().make([], 4)):
        if one is other:
            other.set_state(envs.get_state())
        for _ in range(3):
            _, infos = one.reset()
            assert [one.levels[k].length for k in infos["level"]] == [3, 9, 7, 3]


def test_seed_of_make_and_of_reset_agree():
    envs, (obs, _) = make_envs()
    other = Line().make(LEVELS, 4)
    assert np.array_equal(other.reset(seed=5)[0], obs)
    single = Line().single(seed=6)
    assert np.array_equal(single.reset()[0], obs[1])
    assert np.array_equal(other.reset(seed=[5, 6, 7, 8])[0], envs.reset(seed=5)[0])


def test_final_info_describes_finished_episodes():
    envs, _ = make_envs()
    envs.step(np.zeros(4, np.int64))
    obs, rewards, terminated, truncated, infos = envs.step(np.zeros(4, np.int64))
    assert terminated.tolist() == [False, True, False, True]
    assert not truncated.any()
    assert rewards.tolist() == [0, 1, 0, 1]
    assert obs[:, 0].tolist() == [2, 0, 2, 0]
    assert infos["final_obs"][1][0] == 2
    assert infos["final_obs"][0] is None
    assert infos["final_info"]["achievements"].tolist() == [[0, 0], [1, 0], [0, 0], [1, 0]]
    assert infos["final_info"]["episode_return"].tolist() == [0, 1, 0, 1]
    assert (
        infos["final_info"]["_episode_return"].tolist() == infos["_final_info"].tolist() == [False, True, False, True]
    )
    assert infos["episode_number"].tolist() == [1, 2, 1, 2]
    assert infos["episode_length"].tolist() == [2, 0, 2, 0]


def test_an_episode_can_terminate_in_its_last_step():
    """As in Gymnasium, the time limit does not ask whether the episode has terminated."""
    env = Line().single({"length": 2}, seed=0)
    env.reset()
    env.max_episode_steps = 2
    assert env.step(0)[2:4] == (False, False)
    assert env.step(0)[2:4] == (True, True)
    with pytest.raises(ResetNeeded):
        env.step(0)


def test_episodes_are_truncated():
    env = Line().single(seed=0)
    env.reset()
    env.state["wind"][:] = 0
    results = [env.step(1) for _ in range(20)]
    assert [result[3] for result in results] == [False] * 19 + [True]
    with pytest.raises(ResetNeeded):
        env.step(0)


def test_state_round_trip_is_exact():
    envs, _ = make_envs()
    rng = np.random.default_rng(0)
    for _ in range(7):
        envs.step(rng.integers(0, 2, 4))
    envs.set_levels([{"length": 3}, {"length": 5}], sample_levels=True)
    state = envs.get_state()
    other = Line().make([], 4)
    other.set_state({name: array.copy() for name, array in state.items()})
    for _ in range(50):
        actions = rng.integers(0, 2, 4)
        first, second = envs.step(actions), other.step(actions)
        for left, right in zip(first[:4], second[:4], strict=True):
            assert np.array_equal(left, right)
        assert np.array_equal(first[4]["level"], second[4]["level"])
    assert all(np.array_equal(envs.get_state()[name], array) for name, array in other.get_state().items())


class FloatEnv(LineEnv):
    """Its observations leave the bounds that it declares."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)

    def observe(self):
        return super().observe().astype(np.float32) * self.state["factor"]

    def begin(self):
        return {**super().begin(), "factor": np.float32(1)}


class Float(Line):
    env_class, observations = FloatEnv, ("vector",)


def test_states_whose_observations_exceed_their_bounds_are_restored():
    envs = Float().make([{"length": 9}], 2, 0)
    envs.reset()
    for _ in range(4):
        obs, *_ = envs.step([0, 0])
    assert not envs.observation_space.contains(obs)
    state, env_state = envs.get_state(), envs.get_env_state(np.array([0, 1]))
    other = Float().make([], 2)
    np.testing.assert_array_equal(other.set_state(state), obs)
    other.check_env_state(env_state)
    for name, array in other.get_state().items():
        np.testing.assert_array_equal(array, state[name])
    state["state.factor"][1] = np.nan
    with pytest.raises(ValueError, match="the observation of environment 1 does not fit its observation space"):
        other.set_state(state)
    env_state["state.factor"][0] = np.inf
    with pytest.raises(ValueError, match="the observation of state 0 does not fit the observation space"):
        other.check_env_state(env_state)


class TimedEnv(LineEnv):
    """Only waiting is possible, for 5 steps, or for 20 in levels with a length."""

    def begin(self):
        self.max_episode_steps = 20 if self.level.to_overrides() else 5
        return super().begin()

    def advance(self, action):
        return 0.0, False


class Timed(Line):
    env_class = TimedEnv


@pytest.mark.parametrize("way", ["state", "env_state"])
def test_what_an_episode_sets_by_its_level_is_restored(way):
    envs = Timed().make([{"length": 9}, {}], 2)
    envs.reset(seed=0)
    for _ in range(3):
        envs.step([0, 0])
    state, env_state = envs.get_state(), envs.get_env_state(np.array([1, 0]))
    for _ in range(9):
        envs.step([0, 0])
    long_state = envs.get_state()  # after 12 steps of the first environment
    if way == "state":
        envs = Timed().make([{}, {}], 2)
        envs.set_state(long_state)
        envs.set_state(state)
    else:
        envs.set_env_state(np.array([0, 1]), env_state)
    ends = np.array([np.stack(envs.step([0, 0])[2:4]).any(0) for _ in range(17)])
    assert (ends.argmax(0) + 1).tolist() == ([17, 2] if way == "state" else [2, 17])


class PatientEnv(TimedEnv):
    """Only `is_truncated` says when its episodes are truncated."""

    def is_truncated(self):
        return self.episode_length >= 30


class Patient(Line):
    env_class = PatientEnv


def test_states_of_longer_episodes_are_restored_where_only_is_truncated_knows_the_maximum():
    envs = Patient().make([{}], 2, 0)
    envs.reset()
    for _ in range(12):  # more than max_episode_steps
        envs.step([0, 0])
    state, env_state = envs.get_state(), envs.get_env_state(np.array([0, 1]))
    other = Patient().make([], 2)
    other.check_env_state(env_state)
    other.set_state(state)
    ends = [other.step([0, 0])[3].any() for _ in range(18)]
    assert ends == [False] * 17 + [True]
    state["episodes"][1, 3] = -1
    with pytest.raises(ValueError, match="the episode of environment 1 cannot have -1 steps"):
        other.set_state(state)
    env_state["episodes"][1, 1] = -1
    with pytest.raises(ValueError, match="a level or a length is negative"):
        other.check_env_state(env_state)


@pytest.mark.parametrize("length", [5, 9])
def test_states_of_longer_episodes_are_refused_where_the_maximum_is_known(length):
    envs = Timed().make([{}], 1, 0)
    envs.reset()
    env_state = envs.get_env_state(np.array([0]))
    env_state["episodes"][0, 1] = length
    with pytest.raises(ValueError, match="the episode of state 0 is too long"):
        envs.check_env_state(env_state)


@given(st.data())
def test_damaged_states_are_refused_and_change_nothing(data):
    envs, _ = make_envs(2)
    state, before = envs.get_state(), envs.get_state()
    name = data.draw(st.sampled_from(sorted(state)))
    array = state[name]
    damage = data.draw(st.sampled_from(["missing", "dtype", "shape", "bytes"]))
    if damage == "missing":
        del state[name]
    elif damage == "dtype":
        state[name] = array.astype(np.float32)
    elif damage == "shape":
        state[name] = array[:-1]
    else:
        raw = bytearray(array.tobytes())
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
        state[name] = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)
    try:
        envs.set_state(state)
    except ValueError:
        after = envs.get_state()
        assert all(
            np.array_equal(after[key], value, equal_nan=value.dtype.kind == "f") for key, value in before.items()
        )
    else:
        assert damage == "bytes"  # another valid state, which plays on
        for _ in range(25):
            envs.step(np.zeros(2, np.int64))


def test_single_environment_passes_gymnasiums_checker():
    check_env(Line().single(render_mode="rgb_array"), skip_render_check=True)


def test_single_environment_takes_levels():
    env = Line().single({"length": 1}, seed=0)
    env.reset()
    assert env.step(0)[2]
    _, info = env.reset(options={"level": {"length": 2}})
    assert env.level == LineLevel(length=2)
    assert info["achievements"] == {"arrive": 0, "fly": 0}
    with pytest.raises(ValueError, match="reset option 'lvel' is not one of level; did you mean 'level'"):
        env.reset(options={"lvel": {}})
    env.set_level([{"length": 3}, {"length": 4}])
    assert {env.reset() and env.level.length for _ in range(20)} == {3, 4}
    env.set_level({"length": 5})
    assert {env.reset() and env.level.length for _ in range(3)} == {5}
    with pytest.raises(LevelError, match="did you mean 'length'"):
        Line().single({"lenght": 1})


def test_later_steps_do_not_change_an_observation():
    class SharingEnv(LineEnv):
        def begin(self):
            return {**super().begin(), "obs": np.zeros(2, np.int64)}

        def observe(self):
            self.state["obs"][:] = super().observe()
            return self.state["obs"]

    class Sharing(Line):
        env_class = SharingEnv

    env = Sharing().single(seed=0)
    observations = [env.reset()[0], env.step(0)[0], env.step(0)[0]]
    assert [obs[0] for obs in observations] == [0, 1, 2]


def test_level_stats_and_images():
    world = Line()
    assert world.level_stats({"length": 2}).as_dict()["initial position"] == 0
    assert "initial wind" in str(world.level_stats())
    image = world.render_levels({"original": {}, "short": {"length": 1}})
    assert image.size[0] > 32
    assert world.single(render_mode="rgb_array").render_mode == "rgb_array"


@pytest.mark.parametrize("num_workers", [1, 2])
def test_vector_environments_have_images(num_workers):
    envs = Line().make([{"length": 9}], 2, seed=0, num_workers=num_workers, render_mode="rgb_array")
    with pytest.raises(ResetNeeded, match="call reset"):
        envs.render()
    envs.reset()
    envs.step([0, 1])
    images = envs.render()
    singles = []
    for i, action in enumerate([0, 1]):
        env = Line().single({"length": 9}, seed=i, render_mode="rgb_array")
        env.reset()
        env.step(action)
        singles.append(env.render())
    np.testing.assert_array_equal(images, singles)
    assert (images[0] != images[1]).any()
    assert Line().make(num_envs=1).render() is None
    envs.close()


def test_pictures_of_levels_need_columns():
    with pytest.raises(ValueError, match="columns must be an integer of at least 1, not 0"):
        Line().render_levels({"original": {}}, columns=0)


def test_levels_and_seeds_of_the_wrong_type_are_explained():
    with pytest.raises(TypeError, match=r"levels must be a mapping from titles to levels, not \[\{\}\]"):
        Line().render_levels([{}])
    with pytest.raises(TypeError, match=r"seeds must be a sequence, such as range\(16\), not 3"):
        Line().level_stats(seeds=3)
    with pytest.raises(TypeError, match="levels must be a list, not 3"):
        Line().make(levels=3, num_envs=2)


def test_levels_of_an_iterator_are_all_played():
    envs = Line().make(levels=({"length": length} for length in (3, 4)), num_envs=2, seed=0)
    assert [level.length for level in envs.levels] == [3, 4]


def test_a_refused_seed_does_not_set_the_level():
    env = Line().single()
    with pytest.raises(ValueError, match="seed must be"):
        env.reset(seed=-1, options={"level": {"length": 3}})
    env.reset(seed=0)
    assert env.level == LineLevel()


def test_default_rendering_shows_the_state_as_text():
    class TextEnv(LineEnv):
        render_frame = PythonEnv.render_frame

    env = TextEnv(Line(), [LineLevel()], render_mode="rgb_array")
    env.reset(seed=0)
    image = env.render()
    assert image.shape == (16, 16, 3)
    assert image.dtype == np.uint8
    assert 0 < (image < 128).sum() < image.size


def test_vector_environments_have_their_autoreset_mode_as_an_attribute():
    envs = Line().make([], 2)
    assert envs.autoreset_mode == envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP


def test_other_autoreset_modes_are_refused():
    with pytest.raises(TypeError, match="only same-step autoreset"):
        Line().make([], 2, autoreset_mode="NextStep")
    with pytest.raises(ValueError, match=r"autoreset mode 'NextStp'.*did you mean 'NextStep'"):
        Line().make([], 2, autoreset_mode="NextStp")


def test_a_second_kind_of_observation_is_refused():
    class TwoKinds(Line):
        observations = ("numbers", "images")

    for make in (TwoKinds().make, TwoKinds().single):
        with pytest.raises(TypeError, match=r"one kind of observation, but TwoKinds.observations is \('numbers', 'im"):
            make()


def test_world_keeps_the_contract():
    check_world(Line())


@pytest.mark.parametrize(
    ("observe", "actual"),
    [
        (lambda env: np.float32([env.state["position"], 0.5]), "an array of float32 and shape (2,)"),
        (lambda env: np.array([env.state["position"]]), "an array of int64 and shape (1,)"),
        (lambda env: [env.state["position"], 0], "a list"),
    ],
)
def test_observations_of_another_type_or_shape_break_the_contract(observe, actual):
    class Other(Line):
        env_class = type("OtherEnv", (LineEnv,), {"observe": observe})

    with pytest.raises(ContractError) as error:
        check_world(Other())
    assert error.value.violations == [
        f"single(observation='symbols'): the observation of {call}(), {actual}, is not in {LineEnv.observation_space}"
        for call in ("reset", "step")
    ]


def test_a_window_shows_every_frame(monkeypatch):
    shown, closed = [], []

    class Window:
        def __init__(self, title, fps):
            assert (title, fps) == ("line", 10)

        def show(self, image):
            shown.append(int(image[0, 0, 0]))

        def close(self):
            closed.append(True)

    monkeypatch.setattr("envgen.worlds.observations.RenderWindow", Window)
    env = Line().single({"length": 9}, seed=0, render_mode="human")
    env.reset()
    env.step(0)
    env.step(0)
    assert shown == [0, 20, 40]
    assert env.render() is None
    env.close()
    assert (len(shown), closed) == (4, [True])
    envs = Line().make([{"length": 9}], 2, seed=0, render_mode="human")
    envs.reset()
    assert envs.render() is None
    envs.close()
    assert (shown[4:], len(closed)) == ([0], 2)


def test_a_window_opens_without_a_display():
    env = Line().single(seed=0, render_mode="human")
    assert env.metadata["render_modes"] == ["rgb_array", "human"]
    env.reset()
    env.close()


def test_infos_that_are_added_after_init_are_explained():
    class LateEnv(LineEnv):
        def begin(self):
            self.extra_infos = {"possible": np.array([True, False])}
            return super().begin()

    class Late(Line):
        env_class = LateEnv

    with pytest.raises(TypeError, match="'possible' was added to extra_infos after __init__; set all entries"):
        Late().make([{}], 2, 0).reset()


def test_unused_levels_are_replaced():
    envs, _ = make_envs(2)
    for length in range(3, 10):
        envs.set_levels([{"length": length}])
        assert [level.length for level in envs.levels][:2] == [4, 2]  # their episodes are still in progress
    assert len(envs.levels) == 3
    _, infos = envs.reset()
    assert infos["level"].tolist() == [2, 2]
    assert envs.levels[2].length == 9
    envs.set_levels([{"length": 5}, {"length": 6}])
    assert [level.length for level in envs.levels] == [5, 6, 9]
    state, other = envs.get_state(), Line().make([], 2)
    other.set_state(state)
    assert [envs.levels[k] for k in envs.reset()[1]["level"]] == [other.levels[k] for k in other.reset()[1]["level"]]


def test_successes_at_the_beginning_of_an_episode_count():
    env = Arrived().single()
    for _ in range(2):
        assert env.reset(seed=0)[1]["achievements"] == {"arrive": 0, "fly": 1}
    envs = Arrived().make(None, 2, 0)
    _, infos = envs.reset()
    assert infos["achievements"][:, 1].tolist() == [1, 1]
    envs.close()
