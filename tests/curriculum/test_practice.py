"""Practice restarts environments from saved states of the agent's own episodes; statistics count it separately."""

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from ladder import Ladder
from pydantic import Field

import envgen
from envgen.agents.memory import AgentMemory, HistorySpec
from envgen.agents.ppo import PPO
from envgen.agents.rollout import EpisodeStats, VecEnvRunner
from envgen.agents.settings import PpoSettings
from envgen.api import ArgumentError
from envgen.curriculum.evaluate import level_outcomes
from envgen.curriculum.plan import PlanError, PracticeSettings
from envgen.curriculum.practice import (
    BEFORE_SUCCESS,
    NO_GROUP,
    PRACTICE_RATE_DECAY,
    RATE_DECAY,
    WITHIN_REACH,
    PracticeError,
    PracticeVectorEnv,
    StateRows,
)
from envgen.runs.store import read_progress
from envgen.worlds.crafter import constants as const
from envgen.worlds.crafter.env import CrafterVectorEnv
from envgen.worlds.crafter.state import ENV
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.python_world import PythonEnv, PythonWorld
from envgen.worlds.world import Level, LevelVectorEnv, Skill

LEFT, RIGHT = 0, 1
WALK, SPRINT = 0, 1  # the skills


class CorridorLevel(Level):
    length: int = Field(default=12, ge=1, le=99)
    """Cells to the end."""


class CorridorEnv(PythonEnv):
    """Walk to the end of a corridor; the action `left` does nothing. `luck` is a new random number in every step."""

    observation_space = spaces.Box(0, 99, (2,), np.int64)
    max_episode_steps = 30

    def begin(self):
        return {"position": 0, "luck": 0}

    def observe(self):
        return np.array([self.state["position"], self.state["luck"]])

    def advance(self, action):
        self.state = {"position": self.state["position"] + action, "luck": int(self.np_random.integers(99))}
        if self.state["position"] >= 4:
            self.achieve("walk")
        if self.state["position"] >= self.level.length:
            self.achieve("sprint")
        return 0.0, self.state["position"] >= self.level.length


class Corridor(PythonWorld):
    name, Level, env_class = "corridor", CorridorLevel, CorridorEnv
    skills, actions = (Skill("walk"), Skill("sprint", ("walk",))), ("left", "right")
    observations, rules = ("symbols",), "Go right."


def make_corridors(num_envs: int = 10, seed: int = 0, **settings: Any) -> PracticeVectorEnv:
    world = Corridor()
    settings = {"share": 0.4, "max_steps": 6, "snapshot_interval": 2, "max_success_rate": 1.0, **settings}
    return PracticeVectorEnv(world.make([{}], num_envs, seed), world.skills, PracticeSettings(**settings), seed)


def random_actions(envs: LevelVectorEnv, steps: int, seed: int = 0) -> np.ndarray:
    space: Any = envs.single_action_space
    return np.random.default_rng(seed).integers(space.n, size=(steps, envs.num_envs))


def test_a_share_of_the_environments_practices_after_the_first_success():
    envs = make_corridors()
    _, infos = envs.reset(seed=1)
    assert not infos["practice"].any()
    for row in random_actions(envs, 60):
        *_, infos = envs.step(row)
    np.testing.assert_array_equal(infos["practice"], envs.may_practice)
    assert infos["practice"].sum() == 4
    assert infos["_practice"].all()


def test_other_environments_play_as_without_practice():
    envs, plain = make_corridors(), Corridor().make([{}], 10, 0)
    envs.reset(seed=1)
    plain.reset(seed=1)
    others, practiced = ~envs.may_practice, False
    for row in random_actions(envs, 100):
        obs, rewards, terminated, truncated, infos = envs.step(row)
        expected = plain.step(row)
        for actual, wanted in zip((obs, rewards, terminated, truncated), expected, strict=False):
            np.testing.assert_array_equal(actual[others], wanted[others])
        for name in ("achievements", "episode_length", "episode_number"):
            np.testing.assert_array_equal(infos[name][others], expected[4][name][others])
        practiced |= infos["practice"].any()
    assert practiced


def test_only_candidates_practice_and_give_states():
    world, candidates = Corridor(), np.arange(10) < 6
    settings = PracticeSettings(share=0.5, max_steps=6, snapshot_interval=2, max_success_rate=1.0)
    envs = PracticeVectorEnv(world.make([{}], 10, 0), world.skills, settings, 0, candidates)
    envs.reset(seed=1)
    other_succeeded = False
    for row in random_actions(envs, 100):
        num_saved, episodes, before = envs.num_saved, envs.possible.copy(), envs.achieved.copy()
        _, _, terminated, truncated, infos = envs.step(row)
        ended = terminated | truncated
        new = (infos["achievements"] > 0) & ~before
        if not (new[candidates].any() or ended[candidates].any()):
            other_succeeded |= new[~candidates].any()
            assert envs.num_saved == num_saved
            np.testing.assert_array_equal(envs.possible, episodes)
    assert other_succeeded
    np.testing.assert_array_equal(infos["practice"], envs.may_practice)
    assert envs.may_practice.sum() == 3  # half of the candidates
    assert not envs.may_practice[~candidates].any()


def test_practice_begins_in_a_saved_state():
    """The saved state is restored completely, except for the random stream."""
    envs = make_corridors(num_envs=4, share=0.25)
    envs.reset(seed=1)
    begun = 0
    practicing = np.flatnonzero(envs.may_practice)
    for row in random_actions(envs, 200):
        obs, _, terminated, truncated, infos = envs.step(row)
        if not (terminated | truncated)[practicing[0]] or not infos["practice"][practicing[0]]:
            continue
        begun += 1
        state = envs.env_states.get_env_state(practicing)
        saved = envs.saved_states.read(np.arange(envs.saved_groups.size))
        same = np.ones(envs.saved_groups.size, np.bool_)
        for name, array in saved.items():
            if name != "rngs":
                same &= (array == state[name]).reshape(len(same), -1).all(1)
        assert same.any()
        assert (saved["rngs"] != state["rngs"]).any(1).all()
        np.testing.assert_array_equal(obs[practicing[0]], [state["state.position"][0], state["state.luck"][0]])
        np.testing.assert_array_equal(infos["achievements"][practicing], state["achievements"])
        assert infos["episode_length"][practicing[0]] == state["episodes"][0, 1]
    assert begun > 10


def positions(envs: PracticeVectorEnv, skill: int, kind: int) -> list[int]:
    """The positions in the saved states of one kind for a skill."""
    rows = np.flatnonzero(envs.saved_groups == 2 * skill + kind)
    return envs.saved_states.read(rows)["state.position"].tolist() if rows.size else []


def test_states_are_saved_before_success_and_where_a_skill_comes_within_reach():
    envs = make_corridors(num_envs=40, num_snapshots=3)
    envs.reset(seed=1)
    for _ in range(12):
        envs.step(np.full(40, RIGHT))
    # cell 4 is `walk`: snapshots were taken in cells 0 and 2. Cell 12 is `sprint`: the last three are of 6, 8 and 10
    assert set(positions(envs, WALK, BEFORE_SUCCESS)) == {0, 2}
    assert positions(envs, WALK, WITHIN_REACH) == []
    assert positions(envs, SPRINT, WITHIN_REACH) == [4] * 40
    assert set(positions(envs, SPRINT, BEFORE_SUCCESS)) == {6, 8, 10}


def test_snapshots_of_the_episode_before_are_not_saved():
    envs = make_corridors(num_envs=20, num_snapshots=9)
    envs.reset(seed=1)
    for action in [RIGHT] * 12 + [LEFT] * 3:
        envs.step(np.full(20, action))
    before = envs.num_saved
    for _ in range(4):
        envs.step(np.full(20, RIGHT))
    rows = np.flatnonzero((envs.saved_ages >= before) & (envs.saved_groups == 2 * WALK + BEFORE_SUCCESS))
    assert rows.size >= 12  # those that do not practice
    assert envs.saved_states.read(rows)["state.position"].max() < 4


def test_practice_provides_states():
    """Of 7 environments that start at the left end, 6 stay there; the last one practices."""
    envs = make_corridors(num_envs=7, share=1 / 7, max_steps=None)
    envs.reset(seed=1)
    actions = np.full(7, RIGHT)
    for _ in range(12):
        envs.step(actions)
    assert envs.may_practice.sum() == 1
    before = envs.num_saved
    for _ in range(29):
        envs.step(np.where(envs.may_practice, RIGHT, LEFT))
    assert envs.num_saved > before


def test_skills_that_succeed_often_are_not_practiced():
    envs = make_corridors(max_success_rate=0.5)
    envs.reset(seed=1)
    envs.successes[:], envs.possible[:] = [60.0, 40.0], 100.0
    for row in np.full((4, 10), RIGHT):
        envs.step(row)
    assert set(envs.saved_groups) == {2 * SPRINT + WITHIN_REACH}


def test_practice_episodes_are_truncated_at_the_step_limit():
    envs = make_corridors(max_steps=5)
    envs.reset(seed=1)
    for _ in range(12):
        envs.step(np.full(10, RIGHT))
    steps, limit_reached = np.zeros(10, np.int64), 0
    for _ in range(40):
        _, _, terminated, truncated, infos = envs.step(np.full(10, LEFT))
        practiced = infos.get("final_info", {}).get("practice", np.zeros(10, np.bool_))
        steps += envs.may_practice
        assert (steps[practiced] == 5).all()
        assert truncated[practiced].all()
        for i in np.flatnonzero(practiced):
            limit_reached += 1
            assert infos["final_info"]["practice_skill"][i] in (WALK, SPRINT)
            assert envs.single_observation_space.contains(infos["final_obs"][i])
            assert infos["final_info"]["episode_length"][i] >= 5
        steps[terminated | truncated] = 0
    assert limit_reached >= 4 * 7


def test_practice_without_a_limit_ends_with_the_episode():
    envs = make_corridors(max_steps=None)
    envs.reset(seed=1)
    longest = 0
    for action in [RIGHT] * 12 + [LEFT] * 40:
        *_, infos = envs.step(np.full(10, action))
        longest = max(longest, envs.practice_steps[infos["practice"]].max(initial=0))
    assert longest > 12


def test_the_same_saved_state_has_different_futures():
    envs = make_corridors(buffer_size=1, max_steps=4)
    envs.reset(seed=1)
    for _ in range(12):
        envs.step(np.full(10, RIGHT))
    futures = set()
    for _ in range(40):
        obs, *_, infos = envs.step(np.full(10, LEFT))
        begun = infos["practice"] & (envs.practice_steps == 1)
        futures |= set(obs[begun, 1].tolist())
    assert len(futures) > 20  # of 99


# --- saved states


def test_saved_states_are_bounded():
    envs = make_corridors(buffer_size=7)
    envs.reset(seed=1)
    sizes = []
    for row in random_actions(envs, 400):
        envs.step(row)
        assert envs.saved_groups.size <= 7
        sizes.append(sum(array.nbytes for array in envs.get_state().values()))
    assert envs.num_saved > 50
    assert max(sizes[200:]) <= max(sizes[:200]) + 100  # the numbers of the random generator vary in length


A, B = 2 * WALK, 2 * SPRINT  # groups of states


def save(envs: PracticeVectorEnv, *groups: int) -> None:
    for group in groups:
        envs._save(group, envs.env_states.get_env_state(np.array([0])), "save", np.array([0]))


def test_the_oldest_state_of_the_largest_group_is_replaced_and_ties_go_to_the_most_common_skill():
    envs = make_corridors(buffer_size=4)
    envs.reset(seed=1)
    save(envs, B, A, A, A, B)
    np.testing.assert_array_equal(envs.saved_ages, [0, 4, 2, 3])  # the oldest of three of group A was replaced
    envs.successes[:], envs.possible[:] = [10.0, 30.0], 100.0
    save(envs, A)  # both groups have two states: `sprint` is more common now
    np.testing.assert_array_equal(envs.saved_ages, [5, 4, 2, 3])


def test_states_for_skills_that_became_common_are_replaced_first():
    envs = make_corridors(buffer_size=4, max_success_rate=0.5)
    envs.reset(seed=1)
    save(envs, B, A, B, B)
    envs.successes[:], envs.possible[:] = [60.0, 1.0], 100.0
    save(envs, B)
    np.testing.assert_array_equal(envs.saved_ages, [0, 4, 2, 3])


@pytest.mark.parametrize(("exponent", "expected"), [(0.0, 0.5), (0.5, 2 / 3), (1.0, 0.8)])
def test_rare_skills_are_practiced_more(exponent, expected):
    envs = make_corridors(rarity_exponent=exponent)
    envs.reset(seed=1)
    save(envs, A, A, A, B)
    envs.successes[:], envs.possible[:] = [40.0, 10.0], 100.0
    chosen = envs.saved_groups[envs._sample(4000)]
    assert (chosen == B).mean() == pytest.approx(expected, abs=0.03)


def test_states_from_which_practice_sometimes_succeeds_are_preferred():
    envs = make_corridors(rarity_exponent=0.0)
    envs.reset(seed=1)
    save(envs, *range(4))
    envs.group_tries[:], envs.group_successes[:] = 98.0, [0.0, 49.0, 98.0, 19.0]
    shares = np.bincount(envs.saved_groups[envs._sample(8000)]) / 8000
    p = np.array([0.01, 0.5, 0.99, 0.2])
    weights = p * (1 - p) + 0.01
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.02)


def test_results_of_practice_and_of_ordinary_episodes_are_counted_separately():
    envs, decay = make_corridors(), PRACTICE_RATE_DECAY
    envs.reset(seed=1)
    group = 2 * SPRINT + 1
    envs.practice_group[0] = group
    ended, achieved = np.arange(10) < 2, np.zeros((10, 2), np.bool_)
    achieved[0] = achieved[1] = [False, True]
    possible = {"possible": np.array([[False, True]] * 10)}
    envs._count_episodes(achieved, ended, possible)
    assert (envs.group_tries[group], envs.group_successes[group]) == (1, 1)
    assert (envs.possible.tolist(), envs.successes.tolist()) == ([0, 1], [0, 1])  # of environment 1
    achieved[:, WALK], achieved[:, SPRINT] = True, False
    envs._count_episodes(achieved, ended, possible)
    assert (envs.group_tries[group], envs.group_successes[group]) == (decay + 1, decay)
    assert (envs.possible.tolist(), envs.successes.tolist()) == ([0, RATE_DECAY + 1], [0, RATE_DECAY])
    assert envs.group_tries.sum() == decay + 1
    envs._count_episodes(achieved, ended, {})  # everything is possible
    assert (envs.possible[WALK], envs.successes[WALK]) == (1, 1)


def test_rows_grow_with_later_states():
    rows = StateRows(3)
    rows.write(np.array([0, 1]), {"a": np.array([[1, 2], [3, 4]]), "b": np.array([1.0, 2.0])})
    rows.write(np.array([2]), {"a": np.array([[5, 6, 7]]), "b": np.array([3.0])})
    rows.write(np.array([1]), {"a": np.array([[8, 9]]), "b": np.array([4.0])})
    np.testing.assert_array_equal(rows.arrays["a"], [[1, 2, 0], [8, 9, 0], [5, 6, 7]])
    np.testing.assert_array_equal(rows.read(np.array([2, 1]))["b"], [3.0, 4.0])


# --- statistics


def test_statistics_hold_ordinary_episodes_only():
    envs, plain = make_corridors(), Corridor().make([{}], 10, 0)
    runner, expected_runner = VecEnvRunner(envs, seed=1), VecEnvRunner(plain, seed=1)
    episodes, expected, from_plain = EpisodeStats(), EpisodeStats(), EpisodeStats()
    num_practiced = 0
    others = np.flatnonzero(~envs.may_practice)
    for row in random_actions(envs, 150):
        practicing, at_limit = envs.practice_group != NO_GROUP, envs.practice_steps == 5
        step = runner.step(row, episodes)
        expected_runner.step(row, from_plain)
        np.testing.assert_array_equal(step.cut_off, step.truncated & practicing & at_limit)
        num_practiced += int((step.dones & practicing).sum())
    assert num_practiced == len(episodes.practice_skills) == len(episodes.practice_successes) > 20
    assert set(episodes.practice_skills) == {WALK, SPRINT}
    assert max(episodes.practice_lengths) <= 6
    assert 0 < sum(episodes.practice_successes) < num_practiced
    # ordinary episodes: those of the other environments, and the first of those that practice
    single = VecEnvRunner(Corridor().make([{}], 10, 0), seed=1)
    for row in random_actions(envs, 150):
        single.step(row, expected)
    assert len(episodes) == len(episodes.lengths) == len(episodes.skill_counts) < len(expected)
    assert len(episodes) >= len(others) * 150 // 30
    assert min(episodes.lengths) >= 12  # practice begins in later cells


def test_success_rates_are_those_of_ordinary_episodes():
    envs = make_corridors()
    runner, episodes = VecEnvRunner(envs, seed=1), EpisodeStats()
    for row in random_actions(envs, 150):
        runner.step(row, episodes)
    rates = np.mean([counts > 0 for counts in episodes.skill_counts], axis=0)
    np.testing.assert_allclose(envs.success_rates(), rates, atol=0.02)


def test_the_values_of_truncated_practice_are_bootstrapped():
    """All rewards are 0. PPO does not bootstrap at the time limits of the world, in practice either."""
    settings = PpoSettings(num_envs=10, num_steps=60, return_norm_decay=None)
    envs = make_corridors(max_steps=3)
    learner = PPO.for_envs(envs, settings=settings)
    rollout = learner.collect(VecEnvRunner(envs, seed=1), 60)
    truncated_practice = rollout.rewards != 0
    assert truncated_practice.sum() > 20
    assert rollout.dones[truncated_practice].all()
    assert not truncated_practice[:, ~envs.may_practice].any()
    assert (rollout.dones & ~truncated_practice)[:, ~envs.may_practice].any()
    plain = Corridor().make([{}], 10, 0)
    assert not PPO.for_envs(plain, settings=settings).collect(VecEnvRunner(plain, seed=1), 60).rewards.any()
    unlimited = make_corridors(max_steps=None)  # all episodes end as in the world
    assert not PPO.for_envs(unlimited, settings=settings).collect(VecEnvRunner(unlimited, seed=1), 60).rewards.any()
    assert (unlimited.practice_group != NO_GROUP).any()


# --- exact continuation


def crafter_envs(seed: int = 0, **settings: Any) -> PracticeVectorEnv:
    world = Crafter()
    envs = world.make([{"length": 25}], 6, seed, "symbols")
    settings = {"share": 0.4, "max_steps": 9, "snapshot_interval": 3, "num_snapshots": 3, "buffer_size": 8, **settings}
    return PracticeVectorEnv(envs, world.skills, PracticeSettings(**settings), seed)


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return all(map(equal, a, b))
    if isinstance(a, np.ndarray) and a.dtype == object:
        return all(map(equal, a, b))
    return np.array_equal(a, b)


@pytest.mark.parametrize("make", [make_corridors, crafter_envs])
def test_a_restored_state_continues_exactly(make):
    envs = make()
    envs.reset(seed=2)
    rows = random_actions(envs, 240)
    for row in rows[:120]:
        envs.step(row)
    state = envs.get_state()
    assert all(array.dtype.kind in "biuf" for array in state.values())
    other = make(seed=9)
    other.reset(seed=9)
    for row in rows[100:130]:
        other.step(row)
    other.set_state(state)
    assert equal(other.get_state(), state)
    for row in rows[120:]:
        assert equal(other.step(row), envs.step(row))
    assert equal(other.get_state(), envs.get_state())
    assert envs.num_saved >= 10


def test_crafter_keeps_what_was_achieved_before_practice():
    envs = crafter_envs(max_steps=None)
    _, infos = envs.reset(seed=2)
    begun = 0
    for row in random_actions(envs, 300):
        before = infos["practice"]
        *_, infos = envs.step(row)
        for i in np.flatnonzero(infos["practice"] & (envs.practice_steps == 0)):
            begun += 1
            record = envs.env_states.get_env_state(np.array([i]))["envs"].view(ENV)[0, 0]
            unlocked = (record["unlocked"] >> np.arange(22)) & 1
            np.testing.assert_array_equal(unlocked, infos["achievements"][i] > 0)
            assert infos["achievements"][i, envs.practice_group[i] // 2] == 0
        assert before.sum() <= infos["practice"].sum()
    assert begun > 5


def crafter_runner(envs: PracticeVectorEnv, state: dict[str, np.ndarray] | None = None) -> VecEnvRunner:
    """With the history of an agent that does not have any other memory."""
    spaces = envs.single_observation_space, envs.single_action_space
    spec = HistorySpec(*spaces, envs.metadata["symbol_map"], last_step=False, rewarded_events=True)
    return VecEnvRunner(envs, seed=2, state=state, memory=AgentMemory(0, spec, envs.num_envs))


def test_practice_begins_with_the_history_of_the_saved_state():
    """A sapling is collected by one action on grass, so its bit in the history says whether it has been collected."""
    envs = crafter_envs(max_success_rate=1.0)
    runner, episodes = crafter_runner(envs), EpisodeStats()
    history = runner.memory.history
    assert history is not None
    do, grass = Crafter.actions.index("do"), const.GRASS
    bit = do * history.spec.num_faced_symbols + grass
    sapling, begun = [skill.name for skill in Crafter.skills].index("collect_sapling"), np.zeros(2, np.int64)
    for row in random_actions(envs, 600):
        runner.step(row, episodes)
        starts = (envs.practice_group >= 0) & (envs.practice_steps == 0)
        begun += np.bincount(envs.achieved[starts, sapling], minlength=2)
        np.testing.assert_array_equal(history.rewarded[:, bit], envs.achieved[:, sapling])
    assert (begun > 5).all()


def test_histories_of_saved_states_continue_exactly():
    envs, other_envs = crafter_envs(), crafter_envs(seed=9)
    runner, episodes = crafter_runner(envs), EpisodeStats()
    rows = random_actions(envs, 400)
    for row in rows[:200]:
        runner.step(row, episodes)
    state = runner.state()
    assert state["env.practice.saved_histories.rewarded"].any()
    assert state["env.practice.snapshot_histories.rewarded"].any()
    other = crafter_runner(other_envs, state)
    for row in rows[200:]:
        runner.step(row, episodes)
        other.step(row, episodes)
        np.testing.assert_array_equal(other.memory.bits, runner.memory.bits)
    assert equal(other.state(), runner.state())
    state = envs.get_state()
    name = "practice.saved_histories.rewarded"
    for damaged in ({**state, name: state[name] + 2}, {key: array for key, array in state.items() if key != name}):
        with pytest.raises(ValueError, match="practice is damaged"):
            envs.set_state(damaged)


def test_episodes_of_a_checkpoint_need_all_lists():
    state = EpisodeStats().state()
    for name in state:
        with pytest.raises(KeyError):
            EpisodeStats.from_state({key: array for key, array in state.items() if key != name})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("practice.saved_groups", lambda array: array + 44),
        ("practice.saved_ages", lambda array: array[:-1]),
        ("practice.saved.envs", lambda array: np.full_like(array, 255)),
        ("practice.saved.obs", lambda array: array[:-1]),
        ("practice.snapshots.envs", lambda array: np.full_like(array, 255)),
        ("practice.rng", lambda array: array[:-1]),
        ("practice.counters", lambda array: -array),
        ("practice.successes", lambda array: array * np.nan),
        ("practice.may_practice", lambda array: ~array),
        ("practice.practice_group", lambda array: array - 2),
        ("practice.group_tries", lambda array: array - 1),
        ("practice.snapshot_times", lambda array: array[:-1]),
        ("envs.phase", lambda array: array + 7),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(name, change):
    envs = crafter_envs()
    envs.reset(seed=2)
    for row in random_actions(envs, 120):
        envs.step(row)
    before = envs.get_state()
    with pytest.raises(ValueError, match=r"snapshot|practice"):
        envs.set_state({**before, name: change(before[name])})
    assert equal(envs.get_state(), before)


# --- what is refused


def test_worlds_without_states_of_single_environments_are_refused():
    with pytest.raises(
        PracticeError, match="practice is impossible in LadderEnvs: single environments cannot be saved"
    ):
        PracticeVectorEnv(Ladder().make(num_envs=4), Ladder.skills, PracticeSettings(share=0.5), 0)  # type: ignore


def test_other_autoreset_modes_and_single_environments_are_refused():
    settings = PracticeSettings(share=0.5)
    envs = CrafterVectorEnv(4, None, "symbols", autoreset_mode=AutoresetMode.NEXT_STEP)
    with pytest.raises(PracticeError, match="same-step autoreset"):
        PracticeVectorEnv(envs, Crafter.skills, settings, 0)
    with pytest.raises(PracticeError, match="at least 2 environments in each process, not 1"):
        PracticeVectorEnv(CrafterVectorEnv(1, None, "symbols"), Crafter.skills, settings, 0)


# --- training

PLAN = {"cycles": 1, "levels": 2, "cycle_steps": 2000, "final_steps": 1000, "feedback_groups": 2,
        "feedback_episodes": 1, "episodes": 4, "audit_steps": 0}  # fmt: skip
SMALL = {"num_envs": 10, "num_steps": 25, "update_epochs": 1, "num_minibatches": 1}
PRACTICE = {"share": 0.3, "max_steps": 20, "snapshot_interval": 5}


def train(folder: Any, **kw: Any) -> envgen.TrainingRun:
    return envgen.train(Corridor(), "random", plan=PLAN, hyperparameters=SMALL, folder=folder, verbose=False, **kw)


def test_training_practices_in_levels_and_in_the_original(tmp_path):
    run = train(tmp_path / "run", practice=PRACTICE)
    request = json.loads((run.folder / "run.json").read_text())["request"]
    assert request["practice"] == PracticeSettings(**PRACTICE).model_dump(mode="json")
    lines = list(read_progress(run.folder))
    phases = {line["phase"] for line in lines if line["practice"]["episodes"]}
    assert phases == {"cycle 1: levels", "cycle 1: original", "final"}
    for line in lines:
        practice = line["practice"]
        assert sum(practice["tried"]) == practice["episodes"]
        assert all(np.array(practice["succeeded"]) <= practice["tried"])
        assert line["episodes"] == sum(level["episodes"] for level in line["levels"])
    assert run.summary.training is not None


def test_practice_does_not_hide_what_levels_taught(tmp_path):
    practice = {"share": 0.8, "max_steps": 30, "snapshot_interval": 2, "max_success_rate": 1.0}
    run = train(tmp_path / "run", practice=practice)
    lines = [line for line in read_progress(run.folder) if line["phase"] == "cycle 1: levels"]
    for line in lines:
        by_level = [level.get("practice", {"length_sum": 0})["length_sum"] for level in line["levels"]]
        assert sum(by_level) == line["practice"]["length_sum"]
    outcomes = level_outcomes(lines, ["walk", "sprint"], len(lines[0]["levels"]))
    assert all(outcome is not None for outcome in outcomes)


def test_skills_that_a_level_grants_are_not_practiced():
    levels = [{"inventory": {"wood_pickaxe": 1}, "near": {"ore": "coal", "table": True}}]
    settings = PracticeSettings(share=0.5, snapshot_interval=1, max_success_rate=1.0)
    envs = PracticeVectorEnv(CrafterVectorEnv(4, levels, observation="symbols"), Crafter.skills, settings, 0)
    envs.reset(seed=3)
    names = [skill.name for skill in Crafter.skills]
    granted = [names.index("make_wood_pickaxe"), names.index("place_table")]
    assert np.flatnonzero(envs.granted[0]).tolist() == sorted(granted)
    assert envs.achieved[:, granted].all()
    for row in random_actions(envs, 300):
        envs.step(row)
    assert not set(envs.saved_groups // 2) & set(granted)
    assert not envs.possible[granted].any()


def test_a_preference_for_rare_skills_that_overflows_is_refused(tmp_path):
    with pytest.raises(PracticeError, match="rarity_exponent: Input should be less than or equal to 10"):
        train(tmp_path / "run", practice={"share": 0.2, "rarity_exponent": 200})


def test_practice_needs_two_environments_of_the_original(tmp_path):
    plan = {**PLAN, "mixing": "mixed", "ratio": 9.0}
    with pytest.raises(PlanError, match="practice needs at least 2 environments that play the original"):
        envgen.train(
            Corridor(), "random", plan=plan, hyperparameters=SMALL, folder=tmp_path / "run", verbose=False,
            practice=PRACTICE,
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("num_candidates", [0, 1])
def test_processes_with_too_few_environments_of_the_original_do_not_practice(num_candidates):
    candidates = np.arange(6) < num_candidates
    settings = PracticeSettings(share=0.9, max_success_rate=1.0)
    envs = PracticeVectorEnv(Corridor().make([{}], 6, 0), Corridor.skills, settings, 0, candidates)
    envs.reset(seed=1)
    for row in random_actions(envs, 100):
        envs.step(row)
    assert not envs.may_practice.any()


def test_training_without_practice_writes_nothing_about_it(tmp_path):
    for kw in ({}, {"practice": {"share": 0.0}}):
        run = train(tmp_path / "run", **kw)  # the second time, the same request
    assert "practice" not in json.loads((run.folder / "run.json").read_text())["request"]
    assert all("practice" not in line for line in read_progress(run.folder))


def test_wrong_settings_are_refused_with_a_one_line_message(tmp_path):
    with pytest.raises(PracticeError, match="did you mean 'share'"):
        train(tmp_path / "run", practice={"shar": 0.2})
    for practice in ({"max_steps": 7}, {"share": 0.0, "max_steps": 7}):
        with pytest.raises(ArgumentError, match=r"practice\.max_steps has no effect without practice"):
            train(tmp_path / "run", practice=practice)
    with pytest.raises(PracticeError, match="share: Input should be less than 1"):
        train(tmp_path / "run", practice={"share": 1.0})
    with pytest.raises(PracticeError, match="practice is impossible in LadderEnvs"):
        envgen.train(Ladder(), "none", practice={"share": 0.1}, observation="number", folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_new_levels_end_practice_in_the_old_ones():
    envs = make_corridors(num_envs=20)
    envs.reset(seed=1)
    for row in random_actions(envs, 60):
        envs.step(row)
    assert envs.saved_groups.size
    envs.set_levels([{"length": 7}])
    assert not envs.saved_groups.size
    envs.reset()
    practiced = 0
    for row in random_actions(envs, 100, seed=2):
        *_, infos = envs.step(row)
        assert {envs.levels[k].length for k in infos["level"]} == {7}
        practiced += infos["practice"].sum()
    assert practiced
    other = make_corridors(num_envs=20)
    other.reset(seed=1)
    other.set_state(envs.get_state())
