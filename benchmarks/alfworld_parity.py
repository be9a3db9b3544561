"""Compare the engine of ALFWorld's text games with TextWorld, step by step.

    pip install alfworld==0.4.2 --no-deps && pip install 'textworld[pddl]==1.7.0'
    python benchmarks/alfworld_parity.py --games 500 --out out/alfworld_parity.json

Every game is made from a floor plan of the package, written to a file in ALFWorld's format, and loaded from that file
by both. It is played twice: by the planner, and at random (also with impossible commands) with the planner at the end.
After every command these are compared: the observation, the sorted list of possible commands, whether the game is won,
and the facts about positions and states.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from envgen.coevolution.domains.alfworld.engine import admissible_commands as our_commands
from envgen.coevolution.domains.alfworld.engine import apply, intro
from envgen.coevolution.domains.alfworld.floor_plans import PLAN_NUMBERS, load_floor_plan
from envgen.coevolution.domains.alfworld.game import Game, State
from envgen.coevolution.domains.alfworld.game_files import load_game, save_game
from envgen.coevolution.domains.alfworld.generator import TASK_TYPES, generate_game, possible_assignments
from envgen.coevolution.domains.alfworld.planner import plan_commands
from envgen.coevolution.domains.random_choice import choose

COMPARED_FACTS = {"atlocation", "holds", "holdsany", "opened", "inreceptacle", "objectatlocation", "isclean", "ishot",
                  "iscool", "issliced", "istoggled"}  # fmt: skip


def random_command(game: Game, possible: list[str], rng: Random) -> str:
    """A possible command, mostly one that does something, or now and then an impossible one."""
    if rng.random() < 0.1:
        things = [thing.name for thing in game.objects] + [place.name for place in game.receptacles]
        forms = ("go to {}", "open {}", "close {}", "examine {}", "use {}", "take {} from {}", "move {} to {}",
                 "heat {} with {}", "cool {} with {}", "clean {} with {}", "slice {} with {}", "{}",
                 "put {} in/on {}")  # fmt: skip
        return choose(forms, rng).format(choose(things, rng), choose(things, rng))
    useful = [command for command in possible if not command.startswith(("go to", "examine", "help"))]
    return choose(useful if useful and rng.random() < 0.6 else possible, rng)


def our_facts(game: Game, state: State) -> set[tuple[str, ...]]:
    """The facts that hold in envgen's engine, in TextWorld's form."""
    location_ids = sorted(
        {fact[-1] for fact in game.problem.facts if fact[0] in ("atlocation", "receptacleatlocation")}
    )
    facts = {("atlocation", "agent1", location_ids[state.location])}
    if state.held >= 0:
        facts |= {("holds", "agent1", game.objects[state.held].id), ("holdsany", "agent1")}
    for k, receptacle in enumerate(game.receptacles):
        if state.opened >> k & 1:
            facts.add(("opened", receptacle.id))
        facts |= {("inreceptacle", thing.id, receptacle.id) for i, thing in enumerate(game.objects)
                  if state.contents[k] >> i & 1}  # fmt: skip
    for i, thing in enumerate(game.objects):
        for k, location in enumerate(location_ids):
            if state.at_location[k] >> i & 1:
                facts.add(("objectatlocation", thing.id, location))
        for predicate, mask in (("isclean", state.clean), ("ishot", state.hot), ("iscool", state.cool),
                                ("issliced", state.sliced), ("istoggled", state.toggled)):  # fmt: skip
            if mask >> i & 1:
                facts.add((predicate, thing.id))
    return facts


def their_facts(state: Any) -> set[tuple[str, ...]]:
    """The facts that hold in TextWorld, of the kinds that are compared."""
    return {
        (fact.name, *(argument.name for argument in fact.arguments))
        for fact in state["_facts"]
        if fact.name in COMPARED_FACTS
    }


def compare(game: Game, state: State, ours: str, won: bool, theirs: Any) -> list[str]:
    """What differs after a command."""
    return [
        name
        for name, equal in (
            ("observation", ours == theirs.feedback),
            ("commands", our_commands(game, state) == theirs["admissible_commands"]),
            ("won", won == bool(theirs["won"])),
            ("facts", our_facts(game, state) == their_facts(theirs)),
        )
        if not equal
    ]


def play(
    env: Any, path: Path, game: Game, kind: str, rng: Random, num_random: int, differences: list[dict[str, Any]]
) -> int:
    """Play a game; returns the number of commands."""
    theirs, state = env.reset(), game.initial_state.copy()
    history: list[str] = []
    for name in compare(game, state, intro(game, state), game.goal(state), theirs):
        differences.append({"game": path.parent.name, "play": kind, "what": name, "after": []})
    remaining: list[str] | None = plan_commands(game, state) if kind == "expert" else None
    while True:
        if remaining is None and len(history) == num_random:
            remaining = plan_commands(game, state)
        if remaining == []:
            return len(history)
        possible = theirs["admissible_commands"]
        command = remaining.pop(0) if remaining else random_command(game, possible, rng)
        history.append(command)
        ours, theirs = apply(game, state, command), env.step(command)[0]
        for name in compare(game, state, ours, game.goal(state), theirs):
            differences.append({"game": path.parent.name, "play": kind, "what": name, "after": history[-3:],
                                "ours": ours, "theirs": theirs.feedback})  # fmt: skip


def make_env() -> Any:
    """TextWorld with the wrapper of ALFWorld that names the entities."""
    import fast_downward
    import textworld
    from alfworld.agents.utils.misc import Demangler
    from textworld.envs import PddlEnv

    translate, translated = fast_downward.pddl2sas, {}

    def translate_once(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        if problem not in translated:  # otherwise six times per game; the optimized form is only used for planning
            translated.clear()
            translated[problem] = translate(domain, problem, verbose)
        return translated[problem]

    fast_downward.pddl2sas = translate_once

    class Demangled(textworld.core.Wrapper):  # what alfworld's AlfredDemangler does; its module needs more packages
        def load(self, *args: Any, **kwargs: Any) -> None:
            super().load(*args, **kwargs)
            demangler = Demangler(game_infos=self._entity_infos, shuffle=False)
            for info in self._entity_infos.values():
                info.name = demangler.demangle_alfred_name(info.id)

    return Demangled(PddlEnv(textworld.EnvInfos(admissible_commands=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=500)
    parser.add_argument("--random-commands", type=int, default=25, help="in each game, before the planner wins it")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/alfworld_parity.json"))
    args = parser.parse_args()
    env, numbers = make_env(), [number for numbers in PLAN_NUMBERS.values() for number in numbers]
    differences: list[dict[str, Any]] = []
    games_of, commands, seconds = Counter(), Counter(), Counter()
    with tempfile.TemporaryDirectory() as folder:
        index = 0
        while sum(games_of.values()) < args.games:
            rng = Random(f"{args.seed} {index}")
            task_type, floor_plan = TASK_TYPES[index % len(TASK_TYPES)], load_floor_plan(choose(numbers, rng))
            index += 1
            assignments = possible_assignments(floor_plan, task_type)
            if not assignments:
                continue
            generated = generate_game(floor_plan, choose(assignments, rng), rng, 1 + int(3 * rng.random()),
                                      int(25 * rng.random()), choose((0.0, 0.0, 0.5, 1.0), rng))  # fmt: skip
            path = save_game(generated.problem, task_type, Path(folder) / f"game{index}")
            game = load_game(path)
            start = time.perf_counter()
            env.load(str(path))
            seconds["load"] += time.perf_counter() - start
            for kind in ("expert", "random"):
                start = time.perf_counter()
                commands[kind] += play(env, path, game, kind, rng, args.random_commands, differences)
                seconds[kind] += time.perf_counter() - start
            games_of[task_type] += 1
            result = {
                "games": sum(games_of.values()), "games_of": dict(games_of), "commands": dict(commands),
                "num_differences": len(differences), "differences": differences[:100],
                "seconds": {name: round(value, 1) for name, value in seconds.items()},
            }  # fmt: skip
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(json.dumps(result, indent=1))
            if result["games"] % 10 == 0:
                print(result["games"], dict(commands), f"{len(differences)} differences", flush=True)
    print(f"{sum(games_of.values())} games, {dict(commands)}, {len(differences)} differences")
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
