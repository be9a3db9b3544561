"""Single environments are saved and continued in others, exactly or with a new random stream."""

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from line_world import RING, LineWorld

from envgen.worlds.check_world import ContractError, check_world
from envgen.worlds.crafter.env import CrafterVectorEnv
from envgen.worlds.crafter.state import ENTITY, ENV
from envgen.worlds.heist.env import HeistVectorEnv
from envgen.worlds.world import SupportsEnvState

LENGTH, NUM_ENVS = 60, 6
MAKERS = {"crafter": CrafterVectorEnv, "heist": HeistVectorEnv}
SOURCES, TARGETS = np.array([0, 1]), np.array([4, 2])


def make_envs(world: str, observation: str = "symbols", **kw) -> Any:
    envs = MAKERS[world](NUM_ENVS, {"length": LENGTH}, observation, threads=1, **kw)
    envs.reset(seed=7)
    return envs


def actions(envs: Any, steps: int, seed: int = 0) -> np.ndarray:
    """Random actions (steps, envs) in which the targets do what the sources do."""
    rows = np.random.default_rng(seed).integers(envs.single_action_space.n, size=(steps, NUM_ENVS))
    rows[:, TARGETS] = rows[:, SOURCES]
    return rows


@pytest.fixture(params=[(world, observation) for world in MAKERS for observation in ("symbols", "pixels")])
def envs(request):
    """Environments of which 4 and 2 continue the episodes of 0 and 1 after 20 steps."""
    envs = make_envs(*request.param)
    envs.step(np.zeros(NUM_ENVS, np.int64))
    for row in np.random.default_rng(1).integers(envs.single_action_space.n, size=(19, NUM_ENVS)):
        obs, _, _, _, infos = envs.step(row)
    states = envs.get_env_state(SOURCES)
    new_obs, new_infos = envs.set_env_state(TARGETS, states)
    np.testing.assert_array_equal(new_obs, obs[SOURCES])
    for name in ("level", "seed", "episode_length", "episode_return", "achievements"):
        np.testing.assert_array_equal(new_infos[name], infos[name][SOURCES], err_msg=name)
    yield envs
    envs.close()


def test_saved_episodes_continue_exactly_in_other_environments(envs):
    for row in actions(envs, LENGTH - 21):
        obs, rewards, _, _, infos = envs.step(row)
        np.testing.assert_array_equal(obs[TARGETS], obs[SOURCES])
        np.testing.assert_array_equal(rewards[TARGETS], rewards[SOURCES])
        np.testing.assert_array_equal(infos["achievements"][TARGETS], infos["achievements"][SOURCES])


def test_later_episodes_of_the_environment_stay_its_own(envs):
    other = HeistVectorEnv if isinstance(envs, HeistVectorEnv) else CrafterVectorEnv
    untouched = other(NUM_ENVS, {"length": LENGTH}, "symbols", threads=1)
    _, expected = untouched.reset(seed=7)
    for row in np.zeros((LENGTH, NUM_ENVS), np.int64):
        expected = untouched.step(row)[4]
    assert (expected["episode_number"] == 2).all()
    infos: dict[str, Any] = {}
    for row in actions(envs, LENGTH - 20):
        infos = envs.step(row)[4]
    unfinished = infos["episode_number"] == 1  # all episodes end at the latest now
    assert not unfinished.any()
    later_seeds = infos["seed"][infos["episode_number"] == 2]
    np.testing.assert_array_equal(later_seeds, expected["seed"][infos["episode_number"] == 2])
    untouched.close()


@pytest.mark.parametrize("world", MAKERS)
def test_other_environments_are_not_affected(world):
    envs, untouched = make_envs(world), make_envs(world)
    envs.set_env_state(TARGETS, envs.get_env_state(SOURCES), [1, 2])
    others = np.setdiff1d(np.arange(NUM_ENVS), TARGETS)
    for row in actions(envs, LENGTH + 5):
        obs, rewards, *_ = envs.step(row)
        expected_obs, expected_rewards, *_ = untouched.step(row)
        np.testing.assert_array_equal(obs[others], expected_obs[others])
        np.testing.assert_array_equal(rewards[others], expected_rewards[others])


def test_new_seeds_give_new_futures():
    """Creatures move at random."""
    envs = make_envs("crafter")
    envs.set_env_state(np.arange(1, 5), envs.get_env_state(np.zeros(4, np.int64)), [5, 5, 6, 7])
    for _ in range(10):
        obs, *_ = envs.step(np.zeros(NUM_ENVS, np.int64))
        np.testing.assert_array_equal(obs[1], obs[2])
    entities = envs.get_env_state(np.arange(5))["entities"]
    different = (entities != entities[1]).any(1)
    np.testing.assert_array_equal(different, [True, False, False, True, True])


def test_states_of_entity_arrays_of_other_sizes_fit():
    envs = make_envs("crafter")
    short = envs.get_env_state(SOURCES)
    envs.engine._grow()
    long = envs.get_env_state(SOURCES)
    assert long["entities"].shape[1] == 2 * short["entities"].shape[1]
    envs.engine.state.entities[TARGETS, 300:] = np.ones((), ENTITY)  # left over from the episode before
    envs.set_env_state(TARGETS, short)
    np.testing.assert_array_equal(envs.get_env_state(TARGETS)["entities"], long["entities"])
    other = make_envs("crafter")
    other.set_env_state(TARGETS, long)
    np.testing.assert_array_equal(other.get_env_state(TARGETS)["entities"], long["entities"])
    envs.set_state(envs.get_state())
    other.set_state(other.get_state())


@pytest.mark.parametrize("world", MAKERS)
def test_only_episodes_in_progress_have_a_state(world):
    envs = make_envs(world, autoreset_mode=AutoresetMode.NEXT_STEP)
    states = envs.get_env_state(SOURCES)
    for _ in range(LENGTH):
        envs.step(np.zeros(NUM_ENVS, np.int64))
    with pytest.raises(ValueError, match="no episode is in progress in environment 3"):
        envs.get_env_state(np.array([3]))
    with pytest.raises(ValueError, match="no episode is in progress in environment 4"):
        envs.set_env_state(TARGETS, states)


def test_states_from_files_are_checked():
    envs = make_envs("crafter")
    states = envs.get_env_state(SOURCES)
    envs.check_env_state(states)
    for field, value in (("level", 1), ("step", LENGTH), ("ground", 99), ("rng", 2**32 - 1), ("num_entities", 0)):
        damaged = {name: array.copy() for name, array in states.items()}
        records = damaged["envs"].view(ENV)
        records[field][1] = np.full_like(records[field][1], value)
        with pytest.raises(ValueError, match="of environment 1 is impossible"):
            envs.check_env_state(damaged)
    for name in states:
        with pytest.raises(ValueError, match=f"no array '{name}'"):
            envs.check_env_state({key: array for key, array in states.items() if key != name})
        with pytest.raises(ValueError, match=f"'{name}'"):
            envs.check_env_state({**states, name: states[name][:, :-1]})


# --- the contract


def test_worlds_need_not_support_states_of_single_environments():
    assert not isinstance(LineWorld().make(), SupportsEnvState)
    check_world(LineWorld())


class WithEnvState(LineWorld.vector_env_class):
    def get_env_state(self, env_ids):
        return {name: array[env_ids] for name, array in (self.data | {"returns": self.returns}).items()}

    def set_env_state(self, env_ids, states, seeds=None):
        for name, array in self.data.items():
            if name != "episode":
                array[env_ids] = states[name]
        self.returns[env_ids] = states["returns"]
        return self._obs()[env_ids], {name: values[env_ids] for name, values in self._infos().items()}

    def check_env_state(self, states):
        if states.keys() != {*self.data, "returns"}:
            raise ValueError("damaged")


class IncompleteEnvState(WithEnvState):
    def set_env_state(self, env_ids, states, seeds=None):
        return super().set_env_state(env_ids, {**states, "rings": np.zeros(len(env_ids), np.int64)}, seeds)


class UncheckedEnvState(WithEnvState):
    def check_env_state(self, states):
        pass


class NumberedEnvState(WithEnvState):
    def set_env_state(self, env_ids, states, seeds=None):
        self.data["episode"][env_ids] += 1
        return super().set_env_state(env_ids, states, seeds)


SEED_THAT_RINGS = next(
    seed for seed in range(99) if np.random.default_rng(seed).integers(3, size=(1, 3))[0, 0] == RING
)  # the first action of the first environment


def world_with(envs: Any) -> LineWorld:
    return type("World", (LineWorld,), {"vector_env_class": envs})()


def test_check_world_accepts_states_of_single_environments():
    check_world(world_with(WithEnvState), seed=3)


@pytest.mark.parametrize(
    ("envs", "violation"),
    [
        (IncompleteEnvState, "set_env_state must return observations and infos of the saved states"),
        (UncheckedEnvState, "check_env_state must raise ValueError"),
        (NumberedEnvState, "set_env_state must not change the number of the episode"),
    ],
)
def test_check_world_finds_wrong_states_of_single_environments(envs, violation):
    with pytest.raises(ContractError, match=violation):
        check_world(world_with(envs), seed=SEED_THAT_RINGS)


@pytest.mark.parametrize("world", MAKERS)
def test_unused_levels_are_replaced(world):
    envs = make_envs(world)
    played = envs.levels[0]
    for length in range(100, 160):
        envs.set_levels([{"length": length + 100 * k} for k in range(3)])
        assert envs.levels[0] == played  # its episodes are still in progress
        assert len(envs.levels) == 4
        if length < 110:
            assert not envs.step(np.ones(NUM_ENVS, np.int64))[-1]["level"].any()
    expected = [envs.engine.Level(length=159 + 100 * k) for k in (0, 1, 2, 0, 1, 2)]
    assert [envs.levels[k] for k in envs.reset()[1]["level"]] == expected
    envs.set_levels({"length": 77})
    assert envs.levels[0].length == 77
    assert [envs.levels[k] for k in envs.step(np.ones(NUM_ENVS, np.int64))[-1]["level"]] == expected
    other = MAKERS[world](NUM_ENVS, None, "symbols", threads=1)
    other.set_state(envs.get_state())
    for copy in (envs, other):
        assert [copy.levels[k].length for k in copy.reset()[1]["level"]] == [77] * NUM_ENVS
    assert envs.engine.level_params["length"][envs.engine.envs["level"]].tolist() == [77] * NUM_ENVS


@pytest.mark.parametrize("world", MAKERS)
def test_thousands_of_new_levels_need_little_memory(world):
    envs = make_envs(world)
    for k in range(2000):
        envs.set_levels([{"length": 1 + (5 * k + j) % 990} for j in range(4)])
    assert len(envs.levels) <= 4 + 4 + 1
    assert len(envs.engine.level_params) == len(envs.levels)
