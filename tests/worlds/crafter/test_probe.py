"""The probe of Crafter finds what killed the player, and names what a skill lacks."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from envgen.worlds.crafter import constants as const
from envgen.worlds.crafter.deaths import ALIVE, replay_ends
from envgen.worlds.crafter.env import CrafterVectorEnv
from envgen.worlds.crafter.state import State
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.world import EpisodeEnd

WORLD = Crafter()
SEED = 1  # of a map on which a zombie beside the player does not turn away in the first step
PEACEFUL = {"cows": "none", "zombies": "none", "skeletons": "none"}
NOOP, SLEEP, DO, MOVE_RIGHT = (const.ACTIONS.index(name) for name in ("noop", "sleep", "do", "move_right"))


def copy_state(envs: CrafterVectorEnv) -> State:
    return State(*(array.copy() for array in envs.engine.state))


def test_the_replay_of_a_step_equals_the_step():
    """Health, inventory, skills and random numbers are those of the engine, in steps that end no episode."""
    envs, rng, num_compared = WORLD.make([{}], 64, seed=5, observation="symbols"), np.random.default_rng(0), 0
    envs.reset()
    for step in range(400):
        actions = WORLD.expert_actions(envs) if step % 2 else rng.integers(17, size=64)
        state = copy_state(envs)
        *_, terminated, truncated, _ = envs.step(actions)
        causes, _ = replay_ends(state, np.arange(64), actions, envs.engine.daylight)
        np.testing.assert_array_equal(causes != ALIVE, terminated)
        running = ~(terminated | truncated)
        actual, expected = state.envs[running], envs.engine.envs[running]
        for name in ("inventory", "achievements", "sleeping", "fatigue", "ground", "daylight"):
            np.testing.assert_array_equal(actual[name], expected[name])
        # Spawning draws numbers every 10 steps, and so does drawing the night.
        same_draws = (expected["step"] % 10 > 0) & (expected["daylight"] >= 0.5)
        np.testing.assert_array_equal(actual["rng"][same_draws], expected["rng"][same_draws])
        num_compared += same_draws.sum()
    assert num_compared > 5000


# --- causes of death


class Scene:
    """One player on a meadow without creatures, whose state a test sets."""

    def __init__(self, level: Mapping[str, Any] | None = None, **vitals: int):
        self.envs = WORLD.make([{**PEACEFUL, **(level or {})}], 1, seed=SEED, observation="symbols")
        self.envs.reset()
        self.env, self.entities = self.envs.engine.state.envs[0], self.envs.engine.state.entities[0]
        self.env["ground"][const.CENTER - 4 : const.CENTER + 5, const.CENTER - 4 : const.CENTER + 5] = const.GRASS
        for name, value in vitals.items():
            self.env["inventory"][const.ITEMS.index(name)] = value
        self.env["prev_health"] = self.env["inventory"][const.HEALTH]
        self.env["facing"] = const.RIGHT

    def starve(self) -> "Scene":
        """The next step takes health if a need is at zero."""
        self.env["recover"] = -30
        return self

    def fall_asleep(self) -> "Scene":
        self.env["sleeping"] = 1
        return self

    def set_ground(self, dx: int, material: int) -> "Scene":
        self.env["ground"][const.CENTER + dx, const.CENTER] = material
        return self

    def add(self, kind: int, dx: int, **fields: int) -> "Scene":
        """Put an entity `dx` cells to the right of the player."""
        row, x = self.env["num_entities"], const.CENTER + dx
        entity = self.entities[row]
        for name, value in {"kind": kind, "x": x, "y": const.CENTER, "health": 5, "counter": 0, **fields}.items():
            entity[name] = value
        self.env["entity_slots"][x, const.CENTER] = row + 1
        self.env["num_entities"] += 1
        return self

    def step(self, action: int) -> EpisodeEnd | None:
        """How the episode ended in this step; None if it goes on."""
        probe = WORLD.make_probe(self.envs)
        probe.before_step(np.array([action]))
        *_, terminated, truncated, _ = self.envs.step(np.array([action]))
        return probe.episode_ends(np.array([0]))[0] if terminated[0] or truncated[0] else None


ZOMBIE, ARROW = const.ZOMBIE, const.ARROW
TO_THE_LEFT = {"facing": const.LEFT}  # towards a player on the left


@pytest.mark.parametrize(
    ("scene", "action", "cause", "player"),
    [
        (lambda: Scene(health=1, food=0).starve(), NOOP, "starvation", "awake"),
        (lambda: Scene(health=1, drink=0).starve(), NOOP, "thirst", "awake"),
        (lambda: Scene(health=1, energy=0).starve(), NOOP, "exhaustion", "awake"),
        (lambda: Scene(health=1, food=0, drink=0).starve(), NOOP, "several needs", "awake"),
        (lambda: Scene(health=1, drink=0, energy=0).starve(), NOOP, "several needs", "awake"),
        (lambda: Scene(health=1, drink=0, energy=0).starve(), SLEEP, "thirst", "asleep"),  # sleep suspends exhaustion
        (lambda: Scene(health=1, food=0, energy=3).fall_asleep().starve(), DO, "starvation", "asleep"),
        (lambda: Scene().set_ground(1, const.LAVA), MOVE_RIGHT, "lava", "awake"),
        (lambda: Scene(health=1, food=0).starve().set_ground(1, const.LAVA), MOVE_RIGHT, "lava", "awake"),
        (lambda: Scene(health=1, food=0).starve().set_ground(0, const.LAVA), NOOP, "starvation", "awake"),
        (lambda: Scene(health=2).add(ZOMBIE, 1), NOOP, "zombie", "awake"),
        (lambda: Scene(health=7, energy=3).fall_asleep().add(ZOMBIE, 1), NOOP, "zombie while asleep", "asleep"),
        (lambda: Scene(health=7, energy=3).add(ZOMBIE, 1), SLEEP, "zombie while asleep", "asleep"),
        (lambda: Scene(health=2).add(ARROW, 1, **TO_THE_LEFT), NOOP, "skeleton arrow", "awake"),
        (lambda: Scene(health=2, energy=3).fall_asleep().add(ARROW, 1, **TO_THE_LEFT), DO, "skeleton arrow", "asleep"),
        (lambda: Scene(health=2).add(ZOMBIE, -1).add(ARROW, 1, **TO_THE_LEFT), NOOP, "zombie", "awake"),
        (lambda: Scene(health=2).add(ARROW, 1, **TO_THE_LEFT).add(ZOMBIE, -1), NOOP, "skeleton arrow", "awake"),
        (lambda: Scene(health=4).add(ARROW, 1, **TO_THE_LEFT).add(ZOMBIE, -1), NOOP, "zombie", "awake"),
        (lambda: Scene(health=3, food=0).starve().add(ZOMBIE, 1), NOOP, "zombie", "awake"),
        (lambda: Scene({"length": 1}), NOOP, "time limit", "awake"),
        (lambda: Scene({"length": 1}, health=1, drink=0).starve(), NOOP, "thirst", "awake"),
    ],
)  # fmt: skip
def test_cause_of_death_is_what_reduced_health_to_zero(scene, action, cause, player):
    end = scene().step(action)
    assert (end.cause, end.circumstances["player"]) == (cause, player)


@pytest.mark.parametrize(
    ("scene", "action"),
    [
        (lambda: Scene(health=3).add(ZOMBIE, 1), NOOP),
        (lambda: Scene(health=1, energy=0).starve(), SLEEP),
        (lambda: Scene(health=2, food=0).starve(), NOOP),
        (lambda: Scene(health=2).add(ARROW, 1, facing=const.RIGHT), NOOP),
    ],
)
def test_damage_that_leaves_some_health_does_not_end_the_episode(scene, action):
    assert scene().step(action) is None


@pytest.mark.parametrize(("start", "time_of_day"), [(0, "day"), (210, "night")])
def test_circumstances_name_the_time_of_day_and_the_needs_at_zero(start, time_of_day):
    end = Scene({"time_of_day": start}, health=2, drink=0, energy=0).add(ZOMBIE, 1).step(NOOP)
    assert end.circumstances == {"time of day": time_of_day, "player": "awake", "at zero": "drink and energy"}


def test_the_engine_may_need_more_room_in_the_last_step():
    """Skeletons beyond the capacity of the entity array: the engine grows, and the copy with it."""
    scene = Scene(health=1, food=0).starve()
    capacity = len(scene.entities)
    for row in range(scene.env["num_entities"], capacity):
        scene.add(const.SKELETON, 0)
        x, y = row % const.MAP_SIZE, row // const.MAP_SIZE
        scene.entities[row]["x"], scene.entities[row]["y"] = x, y
        scene.env["entity_slots"][x, y] = row + 1
    scene.env["entity_slots"][const.CENTER, const.CENTER] = 1
    end = scene.step(NOOP)
    assert end is not None
    assert end.cause == "starvation"
    assert scene.envs.engine.state.entities.shape[1] > capacity


# --- conditions


def checks_of(scene: Scene, action: int = NOOP):
    return WORLD.make_probe(scene.envs).before_step(np.array([action]))


def conditions_met(scene: Scene, skill: str) -> Sequence[str]:
    met = checks_of(scene)[skill].conditions[0]
    return [name for name, is_met in zip(WORLD.conditions[skill], met, strict=True) if is_met]


def test_conditions_name_what_is_missing():
    scene = Scene(wood=1, coal=1)
    scene.set_ground(2, const.TABLE)
    assert conditions_met(scene, "make_iron_pickaxe") == ["wood", "coal", "awake"]
    scene.set_ground(1, const.TABLE).env["inventory"][const.IRON_ITEM] = 1
    assert conditions_met(scene, "make_iron_pickaxe") == ["wood", "coal", "iron", "table near", "awake"]
    scene.set_ground(-1, const.FURNACE)
    assert len(conditions_met(scene, "make_iron_pickaxe")) == 6
    scene.env["inventory"][const.ENERGY] = 3
    scene.fall_asleep()
    assert "awake" not in conditions_met(scene, "make_iron_pickaxe")


def test_an_attempt_is_an_action_towards_the_skill():
    scene = Scene().set_ground(1, const.DIAMOND)
    checks = checks_of(scene, DO)
    assert checks["collect_diamond"].attempted[0]
    assert not checks["collect_iron"].attempted[0]
    assert conditions_met(scene, "collect_diamond") == ["diamond in view", "facing diamond", "awake"]
    assert not checks_of(scene, NOOP)["collect_diamond"].attempted[0]


def test_conditions_of_eat_plant_hold_one_after_the_other():
    scene = Scene().add(const.PLANT, 6, counter=5)
    assert conditions_met(scene, "eat_plant") == ["plant on the map", "awake"]
    scene.entities[1]["counter"] = const.RIPE_AFTER + 1
    assert conditions_met(scene, "eat_plant") == ["plant on the map", "ripe plant on the map", "awake"]
    scene.add(const.PLANT, 1, counter=const.RIPE_AFTER + 1)
    assert len(conditions_met(scene, "eat_plant")) == 5
