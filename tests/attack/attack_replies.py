"""Replies of a language model: mutated in any way, they are parsed to levels or to sentences about their errors."""

import random
from collections.abc import Callable, Iterator

from attacks import attack
from reply_mutants import find_problem, mutant
from samples import world_brief

from envgen.designers.names import NameObfuscator
from envgen.designers.reply import parse_reply
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.minigrid.world import MiniGrid
from envgen.worlds.walker.world import Walker


def mutated_replies(world) -> Callable[[int, random.Random], Iterator[str]]:
    """Half of the replies use codes for names."""

    def parse_mutants(count: int, rng: random.Random) -> Iterator[str]:
        brief, names = world_brief(world, num_levels=2), NameObfuscator(world.Level, world.skills, world.name)
        for k in range(count):
            text, codes = mutant(world, rng), names if k % 2 else None
            try:
                parsed = parse_reply(names.decode(names.encode(text)) if codes else text, brief)
                problem = find_problem(world, parsed, brief, codes)
            except Exception as error:  # noqa: BLE001  any error is the failure that is looked for
                problem = f"{error!r:.200}"
            yield problem and f"{problem}: {text!r:.200}"

    return parse_mutants


for _world in (Crafter, Heist, MiniGrid, Walker):
    attack(f"mutated replies, {_world.__name__}", full=10_000, short=500)(mutated_replies(_world))
