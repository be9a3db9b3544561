"""A text game of ALFWorld: its facts, and the game built from them.

A `Problem` holds what a PDDL problem file says: typed entities, the facts that are true at the start, and the goal. A
`Game` holds the same in the form that the engine plays: receptacles and objects by index, sets of objects as bits of an
integer, and the goal as a function of the state.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from envgen.errors import EnvgenError

Fact = tuple[str, ...]  # predicate and arguments, in lower case: ("inreceptacle", "apple_bar_1", "fridge_bar_1")
Formula = str | tuple["Formula", ...]  # ("and", ("inreceptacle", "?o", "?r"), ...), in lower case
Goal = Callable[["State"], bool]

APPLIANCES = {"clean": "sinkbasintype", "heat": "microwavetype", "cool": "fridgetype"}
KNIVES = ("knifetype", "butterknifetype")
PROPERTIES = ("pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable")  # that an object can have
MAX_GOAL_SIZE = 100_000  # parts of a goal without variables
MAX_NESTING = 100  # of a goal


class GameError(EnvgenError):
    """A game cannot be read or played; the message says what is wrong with it."""


@dataclass(frozen=True)
class Texts:
    """The sentences in which versions of ALFWorld differ. The defaults are those of alfworld 0.4."""

    arrive: str = "You arrive at {r}. "
    """Before the description of the receptacle; `{lend}` is the name of its location."""
    put: str = "You move the {o} to the {r}."
    put_verb: str = "move"
    put_preposition: str = "to"
    help: str | None = None
    """What `help` says, if it is not what alfworld 0.4 says."""


@dataclass(frozen=True)
class Problem:
    """What a PDDL problem says. Names are in lower case."""

    types: Mapping[str, str]  # entity: agent, location, receptacle, object, otype or rtype
    facts: tuple[Fact, ...]
    goal: Formula
    task: str  # "put a hot apple in fridge"
    texts: Texts = Texts()


@dataclass(frozen=True)
class Receptacle:
    id: str
    name: str  # "cabinet 3"
    type: str  # "cabinettype"
    location: int | None  # index; None if nobody can go there
    openable: bool


@dataclass(frozen=True)
class Object:
    id: str
    name: str
    type: str
    properties: frozenset[str]  # of PROPERTIES
    contents: tuple[int, ...] | None  # objects inside an object that can hold some; they never change


class State:
    """What changes in a game. Sets of receptacles or objects are the bits of an integer, by index."""

    __slots__ = (
        "at_location",  # objects whose location is this one, by location
        "clean",
        "contents",  # objects in a receptacle, by receptacle
        "cool",
        "held",  # index of the held object, or -1
        "hot",
        "location",  # index of the agent's location
        "on",
        "opened",
        "removed",  # objects that were taken from a receptacle and not put back, by receptacle
        "sliced",
        "toggled",
    )

    def __init__(self, num_receptacles: int, num_locations: int):
        self.location, self.held = 0, -1
        self.opened = self.clean = self.hot = self.cool = self.sliced = self.on = self.toggled = 0
        self.contents, self.removed = [0] * num_receptacles, [0] * num_receptacles
        self.at_location = [0] * num_locations

    def copy(self) -> "State":
        other = State.__new__(State)
        for name in State.__slots__:
            setattr(other, name, getattr(self, name))
        other.contents, other.removed = self.contents.copy(), self.removed.copy()
        other.at_location = self.at_location.copy()
        return other

    def key(self) -> tuple[object, ...]:
        """A hashable value that is equal exactly for equal states."""
        values = (getattr(self, name) for name in State.__slots__)
        return tuple(tuple(value) if isinstance(value, list) else value for value in values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.key() == other.key()

    __hash__ = None  # pyright: ignore[reportAssignmentType]


@dataclass(frozen=True)
class Game:
    """The unchanging part of a game. Receptacles and objects are sorted by id, the order in which texts list them."""

    problem: Problem
    receptacles: tuple[Receptacle, ...]
    objects: tuple[Object, ...]
    location_names: tuple[str, ...]
    accepts: tuple[int, ...]  # objects that can be put in or on a receptacle, by receptacle
    initial_state: State
    goal: Goal = field(repr=False)

    @property
    def task(self) -> str:
        return self.problem.task

    @property
    def texts(self) -> Texts:
        return self.problem.texts

    @cached_property
    def receptacles_at(self) -> tuple[tuple[int, ...], ...]:
        """The receptacles at each location."""
        return tuple(
            tuple(k for k, receptacle in enumerate(self.receptacles) if receptacle.location == location)
            for location in range(len(self.location_names))
        )

    @cached_property
    def receptacle_index(self) -> dict[str, int]:
        return {receptacle.name: k for k, receptacle in enumerate(self.receptacles)}

    @cached_property
    def object_index(self) -> dict[str, int]:
        return {thing.name: k for k, thing in enumerate(self.objects)}

    @cached_property
    def with_property(self) -> dict[str, int]:
        """The objects with each property."""
        return {
            name: sum(1 << k for k, thing in enumerate(self.objects) if name in thing.properties) for name in PROPERTIES
        }

    @cached_property
    def list_cache(self) -> dict[int, str]:
        """Texts of sets of objects that were listed before."""
        return {}


def build_game(problem: Problem) -> Game:
    """The game of a problem; raises GameError if the engine cannot play it."""
    types, facts = problem.types, _index_facts(problem)
    names = display_names(entity for fact in problem.facts for entity in fact[1:])
    agents = [fact[0] for fact in facts["atlocation"]]
    if len(agents) != 1:
        raise GameError(f"a game needs one agent at one location, not {len(agents)} atLocation facts")
    if facts["holds"] or facts["holdsany"]:
        raise GameError("the agent holds an object at the start, which is not supported")
    location_ids = sorted(entity for entity in names if types.get(entity) == "location")
    receptacle_ids = sorted(entity for entity in names if types.get(entity) == "receptacle")
    object_ids = sorted(entity for entity in names if types.get(entity) == "object")
    for entity in (*receptacle_ids, *object_ids):
        if "_bar_" not in entity:
            raise GameError(f"the id {entity} has no number: ids look like apple_bar_1")
    locations = {entity: k for k, entity in enumerate(location_ids)}
    receptacle_of = {entity: k for k, entity in enumerate(receptacle_ids)}
    object_of = {entity: k for k, entity in enumerate(object_ids)}

    receptacle_types = _single(facts["receptacletype"], "receptacleType")
    object_types = _single(facts["objecttype"], "objectType")
    places = _single(facts["receptacleatlocation"], "receptacleAtLocation")
    openable = {args[0] for args in facts["openable"]}
    receptacles = tuple(
        Receptacle(
            entity, names[entity], receptacle_types.get(entity, ""),
            locations[places[entity]] if entity in places else None, entity in openable,
        )
        for entity in receptacle_ids
    )  # fmt: skip
    holders = {args[0] for args in facts["isreceptacleobject"]}
    inside = sorted(facts["inreceptacleobject"])
    having = {name: {args[0] for args in facts[name]} for name in PROPERTIES}
    objects = tuple(
        Object(
            entity, names[entity], object_types.get(entity, ""),
            frozenset(name for name in PROPERTIES if entity in having[name]),
            tuple(object_of[inner] for inner, outer in inside if outer == entity) if entity in holders else None,
        )
        for entity in object_ids
    )  # fmt: skip
    can_contain = set(facts["cancontain"])
    accepts = tuple(
        sum(1 << k for k, thing in enumerate(objects) if (receptacle.type, thing.type) in can_contain)
        for receptacle in receptacles
    )

    state = State(len(receptacles), len(location_ids))
    state.location = locations[facts["atlocation"][0][1]]
    for thing, receptacle in facts["inreceptacle"]:
        state.contents[receptacle_of[receptacle]] |= 1 << object_of[thing]
    for thing, location in facts["objectatlocation"]:
        state.at_location[locations[location]] |= 1 << object_of[thing]
    state.opened = sum(1 << k for k in {receptacle_of[args[0]] for args in facts["opened"]})
    for name, attribute in _OBJECT_STATES.items():
        setattr(state, attribute, sum(1 << k for k in {object_of[args[0]] for args in facts[name]}))
    index = _Index(problem, locations, receptacle_of, object_of)
    return Game(problem, receptacles, objects, tuple(names[k] for k in location_ids), accepts, state, index.goal())


def display_names(entities: Iterable[str]) -> dict[str, str]:
    """The names of entities by id: `cabinet 2` for the second-to-last id that begins with `cabinet_bar_`.

    ALFWorld numbers the entities of a kind downward in the order of their ids.
    """
    ids = sorted(set(entities))
    kinds = {entity: _kind(entity) for entity in ids if "_bar_" in entity}
    remaining = Counter(kinds.values())
    names = {}
    for entity in ids:
        if entity not in kinds:
            names[entity] = entity
            continue
        kind = kinds[entity]
        names[entity] = f"{kind} {remaining[kind]}"
        remaining[kind] -= 1
    return names


def _kind(entity: str) -> str:
    kind = entity.split("_bar_", 1)[0]
    return f"{kind}basin" if "basin" in entity else kind


# ---------------------------------------------------------------------------------------------------------------- goals

_OBJECT_STATES = {
    "isclean": "clean", "ishot": "hot", "iscool": "cool", "issliced": "sliced", "ison": "on", "istoggled": "toggled"
}  # fmt: skip
_ARITIES = {
    "atlocation": 2, "receptacleatlocation": 2, "objectatlocation": 2, "openable": 1, "opened": 1, "inreceptacle": 2,
    "isreceptacleobject": 1, "inreceptacleobject": 2, "isreceptacleobjectfull": 1, "wasinreceptacle": 2, "checked": 1,
    "examined": 1, "receptacletype": 2, "cancontain": 2, "objecttype": 2, "holds": 2, "holdsany": 1,
    "holdsanyreceptacleobject": 1, "full": 1, "cleanable": 1, "heatable": 1, "coolable": 1, "pickupable": 1,
    "moveable": 1, "toggleable": 1, "sliceable": 1, **dict.fromkeys(_OBJECT_STATES, 1),
}  # fmt: skip
_ARGUMENT_TYPES = {
    "atlocation": ("agent", "location"), "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"), "opened": ("receptacle",), "inreceptacle": ("object", "receptacle"),
    "holds": ("agent", "object"), "holdsany": ("agent",), "inreceptacleobject": ("object", "object"),
    **dict.fromkeys(_OBJECT_STATES, ("object",)),
}  # fmt: skip
_DYNAMIC = ("atlocation", "objectatlocation", "opened", "inreceptacle", "holds", "holdsany", *_OBJECT_STATES)


class _Index:
    """Turns the goal of a problem into a function: first without variables, then over indices."""

    def __init__(
        self, problem: Problem, locations: Mapping[str, int], receptacles: Mapping[str, int],
        objects: Mapping[str, int],
    ):  # fmt: skip
        self.problem, self.locations, self.receptacles, self.objects = problem, locations, receptacles, objects
        self.facts = set(problem.facts)
        self.by_type: dict[str, list[str]] = {}
        for entity, type_name in problem.types.items():
            self.by_type.setdefault(type_name, []).append(entity)
        self.size = 0

    def goal(self) -> Goal:
        return self._compile(self._ground(self.problem.goal, {}, 0))

    def _ground(self, formula: Formula, values: Mapping[str, str], depth: int) -> Formula | bool:
        """The formula without quantifiers and constant parts."""
        self.size += 1
        if depth > MAX_NESTING or self.size > MAX_GOAL_SIZE:
            raise GameError("the goal is too large")
        if isinstance(formula, str) or not formula or not isinstance(formula[0], str):
            raise GameError(f"not a part of a goal: {formula!s:.80}")
        head, *rest = formula
        if head in ("and", "or"):
            parts: list[Formula] = []
            for part in rest:
                value = self._ground(part, values, depth + 1)
                if value is (head == "or"):
                    return value
                if not isinstance(value, bool):
                    parts.append(value)
            return (head, *parts) if parts else head == "and"
        if head == "not" and len(rest) == 1:
            value = self._ground(rest[0], values, depth + 1)
            return (not value) if isinstance(value, bool) else ("not", value)
        if head == "imply" and len(rest) == 2:
            return self._ground(("or", ("not", rest[0]), rest[1]), values, depth + 1)
        if head in ("exists", "forall") and len(rest) == 2:
            return self._ground_quantifier(str(head), _typed_variables(rest[0]), rest[1], values, depth + 1)
        return self._ground_atom(formula, values)

    def _ground_quantifier(
        self, head: str, variables: Sequence[tuple[str, str]], body: Formula, values: Mapping[str, str], depth: int
    ) -> Formula | bool:
        if not variables:
            return self._ground(body, values, depth)
        (variable, type_name), rest = variables[0], variables[1:]
        connective, parts = ("or" if head == "exists" else "and"), []
        for entity in self.by_type.get(type_name, ()):
            bound = {**values, variable: entity}
            if rest and self._is_false(body, bound) and head == "exists":
                continue  # without binding the other variables
            value = self._ground_quantifier(head, rest, body, bound, depth + 1)
            if value is (connective == "or"):
                return value
            if not isinstance(value, bool):
                parts.append(value)
        return (connective, *parts) if parts else connective == "and"

    def _is_false(self, body: Formula, values: Mapping[str, str]) -> bool:
        """Whether a conjunction has a false constant part, whatever its unbound variables are."""
        if isinstance(body, str) or not body or body[0] != "and":
            return False
        for part in body[1:]:
            is_atom = isinstance(part, tuple) and all(isinstance(word, str) for word in part)
            is_bound = is_atom and all(word in values for word in part if isinstance(word, str) and word[:1] == "?")
            if is_bound and self._ground_atom(part, values) is False:
                return True
        return False

    def _ground_atom(self, formula: Formula, values: Mapping[str, str]) -> Formula | bool:
        if not all(isinstance(word, str) for word in formula):
            raise GameError(f"not a part of a goal: {formula!s:.80}")
        predicate, *args = (values.get(str(word), str(word)) for word in formula)
        if any(arg.startswith("?") for arg in args):
            raise GameError(f"the goal uses a variable that it does not introduce: {formula}")
        if predicate == "=" and len(args) == 2:
            return args[0] == args[1]
        if _ARITIES.get(predicate) != len(args):
            raise GameError(f"unknown part of a goal: {formula!s:.80}")
        if predicate in ("checked", "examined"):
            raise GameError("goals that ask what was looked at are not supported")
        if predicate not in _DYNAMIC:
            return (predicate, *args) in self.facts
        known = (self.locations, self.receptacles, self.objects)
        tables = {"location": known[0], "receptacle": known[1], "object": known[2]}
        for arg, type_name in zip(args, _ARGUMENT_TYPES[predicate], strict=True):
            if type_name in tables and arg not in tables[type_name]:
                return False
        return (predicate, *args)

    def _compile(self, formula: Formula | bool) -> Goal:
        if isinstance(formula, bool):
            return lambda state: formula
        head, *rest = formula
        if head in ("and", "or"):
            parts = [self._compile(part) for part in rest]
            if head == "and":
                return lambda state: all(part(state) for part in parts)
            return lambda state: any(part(state) for part in parts)
        if head == "not":
            inner = self._compile(rest[0])
            return lambda state: not inner(state)
        return self._compile_atom(str(head), [str(arg) for arg in rest])

    def _compile_atom(self, predicate: str, args: Sequence[str]) -> Goal:
        if predicate == "atlocation":
            location = self.locations[args[1]]
            return lambda state: state.location == location
        if predicate == "objectatlocation":
            thing, location = 1 << self.objects[args[0]], self.locations[args[1]]
            return lambda state: bool(state.at_location[location] & thing)
        if predicate == "opened":
            receptacle = 1 << self.receptacles[args[0]]
            return lambda state: bool(state.opened & receptacle)
        if predicate == "inreceptacle":
            thing, receptacle = 1 << self.objects[args[0]], self.receptacles[args[1]]
            return lambda state: bool(state.contents[receptacle] & thing)
        if predicate == "holds":
            thing = self.objects[args[1]]
            return lambda state: state.held == thing
        if predicate == "holdsany":
            return lambda state: state.held >= 0
        thing, attribute = 1 << self.objects[args[0]], _OBJECT_STATES[predicate]
        return lambda state: bool(getattr(state, attribute) & thing)


def _typed_variables(variables: Formula) -> list[tuple[str, str]]:
    """`?a ?b - type` as pairs of variable and type."""
    pairs, names = [], []
    words = iter(variables if isinstance(variables, tuple) else ())
    for word in words:
        if not isinstance(word, str):
            raise GameError(f"not a list of variables: {variables!s:.80}")
        if word == "-":
            type_name = next(words, None)
            if not isinstance(type_name, str):
                raise GameError(f"not a list of variables: {variables!s:.80}")
            pairs += [(name, type_name) for name in names]
            names = []
        else:
            names.append(word)
    if names or not pairs:
        raise GameError(f"variables of a goal need a type: {variables!s:.80}")
    return pairs


def _index_facts(problem: Problem) -> dict[str, list[Fact]]:
    """The arguments of the facts of each predicate. Arguments must be declared with the right type."""
    facts: dict[str, list[Fact]] = {predicate: [] for predicate in _ARITIES}
    for fact in problem.facts:
        predicate, *args = fact
        if _ARITIES.get(predicate) != len(args):
            raise GameError(f"unknown fact ({' '.join(fact):.80})")
        for arg in args:
            if arg not in problem.types:
                raise GameError(f"{arg:.80} in the fact ({' '.join(fact):.80}) is not declared")
        for arg, type_name in zip(args, _ARGUMENT_TYPES.get(predicate, ()), strict=False):
            if problem.types[arg] != type_name:
                raise GameError(f"{arg} in the fact ({' '.join(fact):.80}) is not a {type_name}")
        facts[predicate].append(tuple(args))
    return facts


def _single(facts: Sequence[Fact], predicate: str) -> dict[str, str]:
    """A mapping from the first argument to the second, which must be unique."""
    pairs = {entity: value for entity, value in facts}
    if len(pairs) != len(set(facts)):
        entity = next(fact[0] for fact, count in Counter(fact[:1] for fact in set(facts)).items() if count > 1)
        raise GameError(f"{entity} has several {predicate} facts, which is not supported")
    return pairs
