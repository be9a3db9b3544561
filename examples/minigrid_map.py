"""A level of MiniGrid drawn as text: check that it can be solved, look at it, and watch the scripted expert solve it.

python examples/minigrid_map.py
"""

import tempfile
from pathlib import Path

import envgen

LEVEL = {
    "task": "key corridor",
    "map": [
        "###########",
        "#Kr...#....#",
        "#....Dg....#",
        "#....#.>..#",
        "####.######",
        "#......Lr.Bb#",
        "###########",
    ],
}

if __name__ == "__main__":
    world = envgen.make_world("minigrid")
    print(world.level_stats(LEVEL, seeds=range(1)))
    picture = Path(tempfile.gettempdir()) / "minigrid_map.png"
    world.render_levels({"a map": LEVEL}, columns=1).save(picture)
    print(f"picture: {picture}")
    envs = world.make([LEVEL], num_envs=1, seed=0, observation="symbols")
    envs.reset()
    total, steps = 0.0, 0
    while not total:
        _, rewards, terminated, truncated, _ = envs.step(world.expert_actions(envs))
        total, steps = total + float(rewards[0]), steps + 1
        assert total or not (terminated[0] or truncated[0]), "the expert did not solve the map"
    print(f"the expert picked up the ball in {steps} steps; reward {total:.2f}")
