"""Load levels from a JSON file, draw them, print statistics and an observation of the first, and train in all.

    python examples/level_file.py                  # the levels in crafter_levels.json
    python examples/level_file.py my_levels.json

The command line takes the same file: `envgen train crafter --designer fixed --level-files crafter_levels.json`.
"""

import json
import sys
import tempfile
from pathlib import Path

import gymnasium

import envgen

LEVEL_FILE = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("crafter_levels.json")
SMALL_PLAN = {"cycles": 1, "cycle_steps": 1024, "final_steps": 512, "episodes": 4, "audit_steps": 20,
              "feedback_groups": 2, "feedback_episodes": 2}  # fmt: skip


def main(folder: Path) -> None:
    world = envgen.make_world("crafter")
    # An invalid level raises LevelError, which names what is wrong.
    levels = [world.Level.parse(level) for level in json.loads(LEVEL_FILE.read_text())]
    print("Abundance of trees in each level:", [level.trees for level in levels])

    world.render_levels({f"level {number}": level for number, level in enumerate(levels)}).save(folder / "levels.png")
    print(f"\nWhat the first level generates:\n{world.level_stats(levels[0], seeds=range(2))}")

    env = gymnasium.make("envgen/Crafter-v0", level=levels[0], observation="text")
    observation, _ = env.reset(seed=0)
    print(f"\n{observation}\n")

    run = envgen.train("crafter", "fixed", levels=levels, preset="quick", plan=SMALL_PLAN, folder=folder / "run")
    print(run.report())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:  # pass a folder of your own to keep the image and the run
        main(Path(temporary))
