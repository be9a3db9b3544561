"""The rules of ALFWorld's text games, without TextWorld.

Observations and admissible commands are exactly those of TextWorld with alfworld 0.4; `benchmarks/alfworld_parity.py`
compares them. A command that is not possible changes nothing.
"""

from dataclasses import dataclass

from .game import APPLIANCES, KNIVES, Game, State

MAX_STEPS = 50  # per episode
NOTHING_HAPPENS = "Nothing happens."
MAX_COMMAND_CHARS = 1000  # longer ones are not possible in any game
HELP = "Available commands:\n" + "".join(
    f"  {command}{' ' * spaces}{effect}\n"
    for command, spaces, effect in (
        ("look:", 29, "look around your current location"),
        ("inventory:", 24, "check your current inventory"),
        ("go to (receptacle):", 15, "move to a receptacle"),
        ("open (receptacle):", 16, "open a receptacle"),
        ("close (receptacle):", 15, "close a receptacle"),
        ("take (object) from (receptacle):", 2, "take an object from a receptacle"),
        ("move (object) to (receptacle):", 2, "place an object in or on a receptacle"),
        ("examine (something):", 14, "examine a receptacle or an object"),
        ("use (object):", 21, "use an object"),
        ("heat (object) with (receptacle):", 2, "heat an object using a receptacle"),
        ("clean (object) with (receptacle):", 1, "clean an object using a receptacle"),
        ("cool (object) with (receptacle):", 2, "cool an object using a receptacle"),
        ("slice (object) with (object):", 5, "slice an object using a sharp object"),
    )
)


@dataclass(frozen=True)
class Step:
    """What a command did."""

    observation: str
    won: bool
    done: bool  # won, or the last step of the episode


class TextGame:
    """An episode of a game. It ends when the goal is reached or after `max_steps` commands, possible or not."""

    def __init__(self, game: Game, max_steps: int = MAX_STEPS):
        self.game, self.max_steps = game, max_steps
        self.reset()

    def reset(self) -> str:
        """Start again; returns the first observation, which ends with the task."""
        self.state, self.num_steps = self.game.initial_state.copy(), 0
        self.won = self.game.goal(self.state)
        return intro(self.game, self.state)

    @property
    def done(self) -> bool:
        return self.won or self.num_steps >= self.max_steps

    def step(self, command: str) -> Step:
        if self.done:
            raise ValueError("the episode is over: call reset first")
        observation = apply(self.game, self.state, command)
        self.num_steps += 1
        self.won = self.game.goal(self.state)
        return Step(observation, self.won, self.done)

    @property
    def admissible_commands(self) -> list[str]:
        return admissible_commands(self.game, self.state)

    def get_state(self) -> tuple[State, int]:
        """An exact copy of the state of the episode, for `set_state`."""
        return self.state.copy(), self.num_steps

    def set_state(self, saved: tuple[State, int]) -> None:
        self.state, self.num_steps = saved[0].copy(), saved[1]
        self.won = self.game.goal(self.state)


def intro(game: Game, state: State) -> str:
    """The first observation of an episode."""
    names = [f"a {receptacle.name}" for receptacle in game.receptacles if receptacle.location is not None]
    return f"-= Welcome to TextWorld, ALFRED! =-\n\n{_look(game, state, names)}\n\nYour task is to: {game.task}."


def apply(game: Game, state: State, command: str) -> str:
    """Carry out a command in place; returns the observation."""
    command = command.strip() if len(command) <= MAX_COMMAND_CHARS else ""
    if command == "look":
        return _look(game, state, [])
    if command == "inventory":
        if state.held < 0:
            return "You are not carrying anything."
        return f"You are carrying: a {game.objects[state.held].name}."
    if command == "help":
        return HELP if game.texts.help is None else game.texts.help
    if command.startswith("go to "):
        return _go_to(game, state, command[6:])
    verb, _, rest = command.partition(" ")
    if verb == game.texts.put_verb:
        return _put(game, state, *_two_names(rest, game.texts.put_preposition))
    if verb == "take":
        return _take(game, state, *_two_names(rest, "from"))
    if verb in APPLIANCES:
        return _treat(game, state, verb, *_two_names(rest, "with"))
    if verb == "open" or verb == "close":
        return _open_or_close(game, state, verb, rest)
    if verb == "examine":
        return _examine(game, state, rest)
    if verb == "use":
        return _use(game, state, rest)
    if verb == "slice":
        return _slice(game, state, *_two_names(rest, "with"))
    return NOTHING_HAPPENS


def admissible_commands(game: Game, state: State) -> list[str]:
    """The commands that are possible, sorted."""
    receptacles, objects, texts = game.receptacles, game.objects, game.texts
    held, location = state.held, state.location
    commands = {"look", "inventory", "help"}
    commands.update(
        f"go to {receptacle.name}" for receptacle in receptacles if receptacle.location not in (None, location)
    )
    held_name = objects[held].name if held >= 0 else ""
    if held >= 0:
        commands.add(f"examine {held_name}")
    for k in game.receptacles_at[location]:
        receptacle = receptacles[k]
        commands.add(f"examine {receptacle.name}")
        is_open = bool(state.opened >> k & 1)
        if receptacle.openable:
            commands.add(f"{'close' if is_open else 'open'} {receptacle.name}")
        for index in _bits(state.contents[k]):
            thing = objects[index]
            if held < 0 and (not receptacle.openable or is_open) and "pickupable" in thing.properties:
                commands.add(f"take {thing.name} from {receptacle.name}")
            if "toggleable" in thing.properties:
                commands.add(f"use {thing.name}")
        if held >= 0:
            if (not receptacle.openable or is_open) and game.accepts[k] >> held & 1:
                commands.add(f"{texts.put_verb} {held_name} {texts.put_preposition} {receptacle.name}")
            for verb, receptacle_type in APPLIANCES.items():
                if receptacle.type == receptacle_type and f"{verb}able" in objects[held].properties:
                    commands.add(f"{verb} {held_name} with {receptacle.name}")
    if held >= 0 and objects[held].type in KNIVES:
        for index in _bits(state.at_location[location] & game.with_property["sliceable"]):
            commands.add(f"slice {objects[index].name} with {held_name}")
    return sorted(commands)


# ------------------------------------------------------------------------------------------------------------- commands


def _go_to(game: Game, state: State, name: str) -> str:
    k = game.receptacle_index.get(name, -1)
    location = game.receptacles[k].location if k >= 0 else None
    if location is None or location == state.location:
        return NOTHING_HAPPENS
    state.location = location
    arrival = game.texts.arrive.format(r=name, lend=game.location_names[location])
    return arrival + _describe_receptacle(game, state, k)


def _open_or_close(game: Game, state: State, verb: str, name: str) -> str:
    k = _reachable(game, state, name)
    if k < 0 or not game.receptacles[k].openable or bool(state.opened >> k & 1) != (verb == "close"):
        return NOTHING_HAPPENS
    state.opened ^= 1 << k
    if verb == "close":
        return f"You close the {name}."
    return f"You open the {name}. {_describe_receptacle(game, state, k)}"


def _take(game: Game, state: State, thing_name: str, receptacle_name: str) -> str:
    k, thing = _reachable(game, state, receptacle_name), game.object_index.get(thing_name, -1)
    if k < 0 or thing < 0 or state.held >= 0 or not _is_accessible(game, state, k):
        return NOTHING_HAPPENS
    bit = 1 << thing
    if not state.contents[k] & bit & game.with_property["pickupable"]:
        return NOTHING_HAPPENS
    state.contents[k] &= ~bit
    state.removed[k] |= bit
    state.at_location[state.location] &= ~bit
    state.held = thing
    return f"You pick up the {thing_name} from the {receptacle_name}."


def _put(game: Game, state: State, thing_name: str, receptacle_name: str) -> str:
    k = _reachable(game, state, receptacle_name)
    if k < 0 or not _is_held(game, state, thing_name) or not _is_accessible(game, state, k):
        return NOTHING_HAPPENS
    bit = 1 << state.held
    if not game.accepts[k] & bit:
        return NOTHING_HAPPENS
    state.contents[k] |= bit
    state.removed[k] &= ~bit
    state.at_location[state.location] |= bit
    state.held = -1
    return game.texts.put.format(o=thing_name, r=receptacle_name)


def _treat(game: Game, state: State, verb: str, thing_name: str, receptacle_name: str) -> str:
    """Clean, heat or cool the held object."""
    k = _reachable(game, state, receptacle_name)
    if k < 0 or not _is_held(game, state, thing_name) or game.receptacles[k].type != APPLIANCES[verb]:
        return NOTHING_HAPPENS
    bit = 1 << state.held
    if not game.with_property[f"{verb}able"] & bit:
        return NOTHING_HAPPENS
    if verb == "clean":
        state.clean |= bit
    elif verb == "heat":
        state.hot, state.cool = state.hot | bit, state.cool & ~bit
    else:
        state.cool, state.hot = state.cool | bit, state.hot & ~bit
    return f"You {verb} the {thing_name} using the {receptacle_name}."


def _use(game: Game, state: State, name: str) -> str:
    bit = 1 << game.object_index[name] if name in game.object_index else 0
    here = game.receptacles_at[state.location]
    if not bit & game.with_property["toggleable"] or not any(state.contents[k] & bit for k in here):
        return NOTHING_HAPPENS
    state.on ^= bit
    state.toggled |= bit
    return f"You turn on the {name}."  # the sentence never changes in ALFWorld


def _slice(game: Game, state: State, thing_name: str, knife_name: str) -> str:
    thing = game.object_index.get(thing_name, -1)
    if thing < 0 or not _is_held(game, state, knife_name) or game.objects[state.held].type not in KNIVES:
        return NOTHING_HAPPENS
    bit = 1 << thing
    if not state.at_location[state.location] & bit & game.with_property["sliceable"]:
        return NOTHING_HAPPENS
    state.sliced |= bit
    return f"You sliced the {thing_name} with the {knife_name}."


def _examine(game: Game, state: State, name: str) -> str:
    k = _reachable(game, state, name)
    if k >= 0:
        return _describe_receptacle(game, state, k)
    # ALFWorld's rule is also meant for objects in sight, but it requires a location type that does not exist
    return _describe_object(game, state, state.held) if _is_held(game, state, name) else NOTHING_HAPPENS


# ---------------------------------------------------------------------------------------------------------------- texts


def _look(game: Game, state: State, appliances: list[str]) -> str:
    """The observation of `look`. Only the first observation lists the appliances of the room."""
    here = game.receptacles_at[state.location]
    if not here:
        return f"You are in the middle of a room. Looking quickly around you, you see {join_names(appliances)}."
    objects = [
        f"a {game.objects[index].name}"
        for index in _bits(state.at_location[state.location])
        for k in here
        if state.removed[k] >> index & 1  # what lies here, but not in the receptacle that it was taken from
    ]
    names = join_names([game.receptacles[k].name for k in here])
    return f"You are facing the {names}. Next to it, you see {join_names(objects)}."


def _describe_receptacle(game: Game, state: State, k: int) -> str:
    receptacle = game.receptacles[k]
    if not receptacle.openable:
        return f"On the {receptacle.name}, you see {_list_objects(game, state.contents[k])}."
    if state.opened >> k & 1:
        return f"The {receptacle.name} is open. In it, you see {_list_objects(game, state.contents[k])}."
    return f"The {receptacle.name} is closed."


def _describe_object(game: Game, state: State, index: int) -> str:
    thing, bit = game.objects[index], 1 << index
    if thing.contents is not None:
        names = [f"a {game.objects[inner].name}" for inner in thing.contents if inner != index]
        return f"This is a normal {thing.name}. In it, you see {join_names(names)}."
    clean, hot, cool, sliced = (bool(mask & bit) for mask in (state.clean, state.hot, state.cool, state.sliced))
    if clean and (hot or cool):
        adjective = f"{'hot' if hot else 'cool'} and clean"
    elif sliced and not clean:
        adjective = "hot" if hot else "cool" if cool else ""
    else:
        adjective = "hot" if hot else "clean" if clean else "cold" if cool else ""
    if adjective:
        return f"This is a {adjective} {'sliced ' if sliced else ''}{thing.name}."
    if "toggleable" in thing.properties and state.toggled & bit:
        return f"This {thing.name} is on."
    if "sliceable" in thing.properties and sliced:
        return f"This is a sliced {thing.name}."
    return f"There's nothing special about {thing.name}."


def join_names(names: list[str]) -> str:
    """`nothing`, `a`, `a, and b`, or `a, b, and c`."""
    if len(names) < 2:
        return names[0] if names else "nothing"
    return f"{', '.join(names[:-1])}, and {names[-1]}"


def _list_objects(game: Game, mask: int) -> str:
    if (text := game.list_cache.get(mask)) is None:
        text = game.list_cache[mask] = join_names([f"a {game.objects[k].name}" for k in _bits(mask)])
    return text


# -------------------------------------------------------------------------------------------------------------- helpers


def _two_names(rest: str, preposition: str) -> tuple[str, str]:
    first, _, second = rest.partition(f" {preposition} ")
    return first, second


def _reachable(game: Game, state: State, name: str) -> int:
    """The index of a receptacle at the agent's location, or -1."""
    k = game.receptacle_index.get(name, -1)
    return k if k >= 0 and game.receptacles[k].location == state.location else -1


def _is_accessible(game: Game, state: State, k: int) -> bool:
    return not game.receptacles[k].openable or bool(state.opened >> k & 1)


def _is_held(game: Game, state: State, name: str) -> bool:
    return state.held >= 0 and game.objects[state.held].name == name


def _bits(mask: int) -> list[int]:
    """The indices of the bits that are set, in increasing order."""
    indices = []
    while mask:
        low = mask & -mask
        indices.append(low.bit_length() - 1)
        mask ^= low
    return indices
