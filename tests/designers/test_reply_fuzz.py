"""However a valid reply is damaged, it is parsed to levels or to sentences about its errors, in every world and with
codes for names."""

import json
import random
import time

import pytest
from reply_mutants import VALUES, find_problem, mutant
from samples import world_brief

from envgen.designers.names import NameObfuscator
from envgen.designers.reply import parse_reply
from envgen.settings import unflatten
from envgen.worlds.crafter.world import Crafter
from envgen.worlds.heist.world import Heist
from envgen.worlds.level_space import setting_values

WORLDS = {"crafter": Crafter, "heist": Heist}
MUTANTS = 3_000


@pytest.mark.parametrize("obfuscate", [False, True])
@pytest.mark.parametrize("name", WORLDS)
def test_no_mutated_reply_breaks_the_parser(name, obfuscate):
    world, rng = WORLDS[name], random.Random(f"{name} {obfuscate}")
    brief, names = world_brief(world, num_levels=2), NameObfuscator(world.Level, world.skills, world.name)
    counts = {True: 0, False: 0}
    start = time.process_time()
    for _ in range(MUTANTS):
        text = mutant(world, rng)
        parsed = parse_reply(names.decode(names.encode(text)) if obfuscate else text, brief)
        assert not find_problem(world, parsed, brief, names if obfuscate else None), text
        counts[not parsed.errors] += 1
    assert time.process_time() - start < 10
    assert min(counts.values()) > MUTANTS // 20  # there are valid and invalid ones


@pytest.mark.parametrize("obfuscate", [False, True])
@pytest.mark.parametrize("name", WORLDS)
def test_any_value_of_any_setting_gives_a_level_or_an_error(name, obfuscate):
    world = WORLDS[name]
    brief, names = world_brief(world, num_levels=1), NameObfuscator(world.Level, world.skills, world.name)
    for setting in (*setting_values(world.Level), *world.Level.model_fields):
        for value in VALUES:
            text = json.dumps({"levels": [{"level": unflatten({setting: value})}]})
            parsed = parse_reply(names.decode(names.encode(text)) if obfuscate else text, brief)
            assert len(parsed.levels) + len(parsed.errors) == 1
