"""The probe of Heist tells pushing against a door from opening it, and says how episodes end."""

import numpy as np

from envgen.worlds.heist.constants import ACTIONS
from envgen.worlds.heist.world import Heist

WORLD = Heist()
NOOP, Q = ACTIONS.index("noop"), ACTIONS.index("q")


def test_pushing_a_door_without_its_key_is_a_failed_attempt():
    envs = WORLD.make([{"keys": "one"}], 1, seed=0, observation="symbols")
    envs.reset()
    env = envs.engine.envs[0]
    door = next(entity for entity in env["entities"] if entity["kind"] == 2)
    probe, pushes = WORLD.make_probe(envs), []
    for dx, dy, action in ((-1, 0, "right"), (1, 0, "left"), (0, -1, "up"), (0, 1, "down")):
        x, y = int(door["x"]) + dx, int(door["y"]) + dy
        if env["grid"][y, x] != 1:
            continue
        env["x"], env["y"], env["vx"], env["vy"] = x + 0.5, y + 0.5, 0, 0
        checks = probe.before_step(np.array([ACTIONS.index(action)]))
        pushes.append(bool(checks["open_blue_door"].attempted[0]))
        assert dict(zip(WORLD.conditions["open_blue_door"], checks["open_blue_door"].conditions[0], strict=True)) == {
            "key": False, "one move away": True,
        }  # fmt: skip
        assert not probe.before_step(np.array([NOOP]))["open_blue_door"].attempted[0]
        assert not probe.before_step(np.array([Q]))["open_blue_door"].attempted[0]
    assert pushes
    assert all(pushes)


def test_ends_say_how_many_doors_are_closed():
    envs = WORLD.make([{"keys": "two", "length": 1}], 4, seed=0, observation="symbols")
    envs.reset()
    probe, actions = WORLD.make_probe(envs), np.full(4, NOOP)
    doors = envs.engine.envs["num_doors"].tolist()
    probe.before_step(actions)
    envs.step(actions)
    ends = probe.episode_ends(np.arange(4))
    assert [end.cause for end in ends] == ["time limit"] * 4
    assert [int(end.circumstances["closed doors"]) for end in ends] == doors
    assert max(doors) == 2
