"""The probes of the worlds are right about every step, and change nothing."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from envgen.worlds.check_episodes import are_equal
from envgen.worlds.crafter.constants import SAPLING_CHANCE
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.kernels import mt19937
from envgen.worlds.minigrid.world import MiniGrid
from envgen.worlds.world import World

# (envs, actions) -> skill that depends on chance: in which environments the next random numbers let it succeed
Luck = Callable[[Any, np.ndarray], Mapping[str, np.ndarray]]


def check_steps(world: World, num_envs: int, steps: int, expert: bool, luck: Luck | None = None) -> Counter[str]:
    """Play the original and every skill level, and require that the probe is right about every step.

    Returns:
        How often each skill succeeded.
    """
    names, rng, successes = [skill.name for skill in world.skills], np.random.default_rng(0), Counter[str]()
    envs = world.make([world.original, *world.skill_levels.values()], num_envs, seed=3, observation="symbols")
    _, infos = envs.reset()
    probe, before = world.make_probe(envs), infos["achievements"]
    assert probe is not None
    for _ in range(steps):
        actions = world.expert_actions(envs) if expert else rng.integers(len(world.actions), size=num_envs)
        assert actions is not None
        checks = probe.before_step(actions)
        lucky = luck(envs, actions) if luck else {}
        _, _, terminated, truncated, infos = envs.step(actions)
        dones, counts = terminated | truncated, infos["achievements"].copy()
        if dones.any():
            counts[dones] = infos["final_info"]["achievements"][dones]
            ends = probe.episode_ends(np.flatnonzero(dones))
            assert [end.cause == "time limit" for end in ends] == (~terminated[dones]).tolist()
        for k, name in enumerate(names):
            succeeds = checks[name].conditions.all(1) & checks[name].attempted & lucky.get(name, True)
            np.testing.assert_array_equal(counts[:, k] - before[:, k], succeeds, err_msg=name)
            successes[name] += int(succeeds.sum())
        before = np.where(dones[:, None], infos["achievements"], counts)
    envs.close()
    return successes


def luck_with_saplings(envs: Any, actions: np.ndarray) -> Mapping[str, np.ndarray]:
    """Where the next random number of Crafter gives a sapling."""
    streams = envs.engine.envs["rng"].copy()
    return {"collect_sapling": np.array([mt19937.uniform(stream) <= SAPLING_CHANCE for stream in streams])}


@pytest.mark.parametrize("steps", [120, pytest.param(750, marks=pytest.mark.slow)])  # of 138 environments: 103,500
@pytest.mark.parametrize(
    ("world", "luck"), [(Crafter(), luck_with_saplings), (Heist(), None)], ids=["crafter", "heist"]
)
def test_a_skill_succeeds_exactly_when_the_probe_says_so(world, luck, steps):
    by_random = check_steps(world, 138, steps, expert=False, luck=luck)
    by_expert = check_steps(world, 138, steps, expert=True, luck=luck)
    for skill in world.skills:
        assert by_random[skill.name] + by_expert[skill.name], f"{skill.name} never succeeded"


@pytest.mark.parametrize("world", [Crafter(), Heist(), MiniGrid()], ids=["crafter", "heist", "minigrid"])
def test_a_probe_changes_nothing(world):
    runs, actions = [], np.random.default_rng(0).integers(len(world.actions), size=(300, 8))
    for is_probed in (False, True):
        envs = world.make([{}, {"length": 40}], 8, seed=1, observation="symbols")
        envs.reset()
        probe, steps = world.make_probe(envs), []
        for row in actions:
            if is_probed:
                probe.before_step(row)
            obs, rewards, terminated, truncated, _ = envs.step(row)
            if is_probed and (terminated | truncated).any():
                probe.episode_ends(np.flatnonzero(terminated | truncated))
            steps.append((obs, rewards, terminated, truncated))
        runs.append(steps)
        envs.close()
    assert are_equal(*runs)


@pytest.mark.parametrize("world", [Crafter(), Heist()], ids=["crafter", "heist"])
def test_every_skill_has_conditions(world):
    assert list(world.conditions) == [skill.name for skill in world.skills]
    assert all(len(set(names)) == len(names) > 0 for names in world.conditions.values())
