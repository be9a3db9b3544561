"""`envgen.check_world`: the contract of a world, and the settings of training that it recommends."""

from typing import Any

from envgen.curriculum.plan import find_wrong_defaults
from envgen.worlds import check_world as contract
from envgen.worlds.registry import make_world
from envgen.worlds.world import World


def check_world(world: str | World | type[World], level: Any = None, steps: int = 200, seed: int = 0) -> None:
    """Check everything that this project requires of a world, and raise one ContractError about all violations.

    Args:
        world: A World, its class, or the name of one.
        level: A level in which episodes end within `steps` random actions, so that the ends of episodes are checked
            too. By default the original.
        steps: Steps to play in each check.
        seed: The seed of the environments and of the random actions.
    """
    contract.check_world(make_world(world), level, steps, seed, find_wrong_defaults)
