"""Plans for ALFWorld's six task types: a proof that a game can be won, and two experts.

`plan_commands` knows where everything is and gives a short plan from any state. `search_commands` knows only what it
has seen, and looks into one receptacle after the other: what an agent can do.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .engine import NOTHING_HAPPENS, apply
from .game import APPLIANCES, Formula, Game, State

MAX_ROUTES = 20_000  # compared for one plan
_TREATMENTS = {"isclean": "clean", "ishot": "heat", "iscool": "cool"}
_STATES = {"clean": "clean", "heat": "hot", "cool": "cool"}


@dataclass(frozen=True)
class GoalParts:
    """A goal of one of the six types. The objects are put in or on the target, or seen in the light of a lamp."""

    object_type: str
    target: str  # type of the receptacle, or of the lamp
    count: int = 1
    treatment: str | None = None  # clean, heat or cool
    is_lamp_task: bool = False


def read_goal(goal: Formula) -> GoalParts | None:
    """The parts of a goal, or None if it is not of one of the six types."""
    atoms = list(_atoms(goal))
    predicates = {atom[0] for atom in atoms}
    object_types = {atom[1]: atom[2] for atom in atoms if atom[0] == "objecttype" and len(atom) == 3}
    if "issliced" in predicates or "inreceptacleobject" in predicates:
        return None
    if "istoggled" in predicates:
        lamps = {atom[1] for atom in atoms if atom[0] == "istoggled"}
        held = {atom[2] for atom in atoms if atom[0] == "holds" and len(atom) == 3}
        pairs = [(object_types.get(thing), object_types.get(lamp)) for thing in held for lamp in lamps]
        if len(pairs) != 1 or None in pairs[0]:
            return None
        return GoalParts(str(pairs[0][0]), str(pairs[0][1]), is_lamp_task=True)
    targets = {atom[2] for atom in atoms if atom[0] == "receptacletype" and len(atom) == 3}
    kinds = set(object_types.values())
    treatments = [_TREATMENTS[name] for name in sorted(predicates & set(_TREATMENTS))]
    if len(targets) != 1 or len(kinds) != 1 or len(treatments) > 1 or len(object_types) > 2:
        return None
    return GoalParts(kinds.pop(), targets.pop(), len(object_types), treatments[0] if treatments else None)


def _atoms(formula: Formula) -> Iterator[tuple[str, ...]]:
    if isinstance(formula, str) or not formula:
        return
    if all(isinstance(word, str) for word in formula):
        yield tuple(str(word) for word in formula)
        return
    for part in formula[1:]:
        if not (isinstance(part, tuple) and "-" in part):  # a list of variables
            yield from _atoms(part)


class _Route:
    """Commands, and the state after them."""

    def __init__(self, game: Game, state: State):
        self.game, self.state, self.commands = game, state.copy(), []
        self.failed = False

    def do(self, command: str) -> None:
        self.failed = self.failed or apply(self.game, self.state, command) == NOTHING_HAPPENS
        self.commands.append(command)

    def reach(self, k: int, inside: bool = True) -> None:
        """Go to a receptacle and, to use its inside, open it."""
        receptacle = self.game.receptacles[k]
        if receptacle.location != self.state.location:
            self.do(f"go to {receptacle.name}")
        if inside and receptacle.openable and not self.state.opened >> k & 1:
            self.do(f"open {receptacle.name}")

    def take(self, thing: int) -> None:
        if self.state.held == thing:
            return
        k = _receptacle_of(self.state, thing)
        if k is None:
            self.failed = True
            return
        self.reach(k)
        self.do(f"take {self.game.objects[thing].name} from {self.game.receptacles[k].name}")

    def put(self, k: int) -> None:
        texts = self.game.texts
        name = self.game.objects[self.state.held].name
        self.reach(k)
        self.do(f"{texts.put_verb} {name} {texts.put_preposition} {self.game.receptacles[k].name}")

    def treat(self, verb: str, k: int) -> None:
        name = self.game.objects[self.state.held].name
        self.reach(k, inside=False)
        self.do(f"{verb} {name} with {self.game.receptacles[k].name}")

    def put_down(self) -> None:
        """Put the held object into the receptacle that takes the fewest commands."""
        best: _Route | None = None
        for k, receptacle in enumerate(self.game.receptacles):
            if receptacle.location is not None and self.game.accepts[k] >> self.state.held & 1:
                route = _Route(self.game, self.state)
                route.put(k)
                if not route.failed and (best is None or len(route.commands) < len(best.commands)):
                    best = route
        if best is None:
            self.failed = True
        else:
            self.commands += best.commands
            self.state = best.state

    def close_all(self) -> None:
        for k, receptacle in enumerate(self.game.receptacles):
            if receptacle.openable and self.state.opened >> k & 1:
                self.reach(k)
                self.do(f"close {receptacle.name}")


def plan_commands(game: Game, state: State) -> list[str] | None:
    """Commands that win the game from this state, or None if no plan is found. Short, but not always shortest."""
    parts = read_goal(game.problem.goal)
    if parts is None:
        return None
    if game.goal(state):
        return []
    best: list[str] | None = None
    for count, build in enumerate(_routes(game, state, parts)):
        if count >= MAX_ROUTES:
            break
        route = _Route(game, state)
        build(route)
        if route.failed:
            continue
        if not game.goal(route.state):  # some goals also ask that everything is closed
            route.close_all()
        if not route.failed and game.goal(route.state) and (best is None or len(route.commands) < len(best)):
            best = route.commands
    return best


def _routes(game: Game, state: State, parts: GoalParts) -> Iterator[Callable[[_Route], None]]:
    """All choices of objects, appliances and targets, each as a function that adds its commands to a route."""
    things = [k for k, thing in enumerate(game.objects) if thing.type == parts.object_type]
    lamps = [k for k, thing in enumerate(game.objects) if thing.type == parts.target]

    def prepare(route: _Route, thing: int) -> None:
        if route.state.held not in (-1, thing):
            route.put_down()
        route.take(thing)

    if parts.is_lamp_task:
        for thing in things:
            for lamp in lamps:

                def look(route: _Route, thing: int = thing, lamp: int = lamp) -> None:
                    prepare(route, thing)
                    k = _receptacle_of(route.state, lamp)
                    if k is None or route.failed:
                        route.failed = True
                        return
                    route.reach(k, inside=False)
                    if not route.state.toggled >> lamp & 1:
                        route.do(f"use {game.objects[lamp].name}")

                yield look
        return
    appliances: list[int | None] = [None]
    if parts.treatment:
        appliances = [k for k, r in enumerate(game.receptacles) if r.type == APPLIANCES[parts.treatment]]
    targets = [k for k, r in enumerate(game.receptacles) if r.type == parts.target and r.location is not None]
    for target in targets:
        missing = [thing for thing in things if not state.contents[target] >> thing & 1]
        present = len(things) - len(missing)
        if parts.count == 2 and not present:
            orders = [(first, second) for first in things for second in things if first != second]
        else:
            orders = [(thing,) for thing in (missing if parts.count == 2 else things)]
        for order in orders:
            for appliance in appliances:

                def place(
                    route: _Route,
                    order: tuple[int, ...] = order,
                    appliance: int | None = appliance,
                    target: int = target,
                ) -> None:
                    for thing in order:
                        is_treated = appliance is None or _is_treated(route.state, parts.treatment, thing)
                        prepare(route, thing)
                        if route.failed:
                            return
                        if appliance is not None and not is_treated:
                            route.treat(str(parts.treatment), appliance)
                        route.put(target)

                yield place


def _is_treated(state: State, treatment: str | None, thing: int) -> bool:
    return treatment is not None and bool(getattr(state, _STATES[treatment]) >> thing & 1)


def _receptacle_of(state: State, thing: int) -> int | None:
    return next((k for k, contents in enumerate(state.contents) if contents >> thing & 1), None)


def search_commands(game: Game) -> list[str] | None:
    """Commands that win the game from its start, found by looking into the receptacles in the order of their names,
    those of the target's type last.

    Only what was seen is used: receptacles are visited until the objects (and the lamp) of the task are found. None if
    the search fails.
    """
    parts = read_goal(game.problem.goal)
    if parts is None:
        return None
    route = _Route(game, game.initial_state)
    seen: set[int] = set()  # objects
    wanted = {k for k, thing in enumerate(game.objects) if thing.type in (parts.object_type, parts.target)}
    order = sorted(
        (k for k, receptacle in enumerate(game.receptacles) if receptacle.location is not None),
        key=lambda k: (game.receptacles[k].type, len(game.receptacles[k].name), game.receptacles[k].name),
    )
    unseen = [k for k in order if game.receptacles[k].type != parts.target] + [
        k for k in order if game.receptacles[k].type == parts.target
    ]
    for _ in range(4 * len(order) + 10):
        if game.goal(route.state):
            return route.commands
        if not _advance(game, route, parts, seen):
            if not unseen:
                return None
            k = unseen.pop(0)
            route.reach(k)
            seen |= {index for index in wanted if route.state.contents[k] >> index & 1}
        if route.failed:
            return None
    return None


def _advance(game: Game, route: _Route, parts: GoalParts, seen: set[int]) -> bool:
    """One part of the task, if what it needs was seen: take an object, treat it, put it, or use the lamp."""
    state = route.state
    targets = [k for k, r in enumerate(game.receptacles) if r.type == parts.target and r.location is not None]
    if state.held >= 0:
        if parts.is_lamp_task:
            lamps = [k for k in sorted(seen) if game.objects[k].type == parts.target]
            k = _receptacle_of(state, lamps[0]) if lamps else None
            if k is None:
                return False
            route.reach(k, inside=False)
            if not route.state.toggled >> lamps[0] & 1:
                route.do(f"use {game.objects[lamps[0]].name}")
            return True
        if parts.treatment and not _is_treated(state, parts.treatment, state.held):
            appliance = next(
                (k for k, r in enumerate(game.receptacles) if r.type == APPLIANCES[parts.treatment]
                 and r.location is not None), None,
            )  # fmt: skip
            if appliance is None:
                return False
            route.treat(parts.treatment, appliance)
            return True
        route.put(targets[0])
        return True
    done = {k for k in seen if targets and any(state.contents[target] >> k & 1 for target in targets[:1])}
    free = [k for k in sorted(seen) if game.objects[k].type == parts.object_type and k not in done]
    if parts.treatment:
        free = [k for k in sorted(seen) if game.objects[k].type == parts.object_type]
    if not free:
        return False
    route.take(free[0])
    return True
