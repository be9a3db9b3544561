"""The rules of ALFWorld's text games, generated games, and the planner."""

from collections import deque
from random import Random

import pytest

from envgen.coevolution.domains.alfworld.engine import (
    HELP,
    NOTHING_HAPPENS,
    TextGame,
    admissible_commands,
    apply,
    intro,
)
from envgen.coevolution.domains.alfworld.floor_plans import ROOM_KINDS, FloorPlan, Place, make_room
from envgen.coevolution.domains.alfworld.game import Game, GameError, Problem, build_game, display_names
from envgen.coevolution.domains.alfworld.generator import (
    TASK_TYPES,
    Assignment,
    generate_game,
    goal_formula,
    possible_assignments,
)
from envgen.coevolution.domains.alfworld.planner import plan_commands, read_goal, search_commands


def small_problem(assignment: Assignment, *facts: str, goal: object = None) -> Problem:
    """A kitchen with five receptacles, of which three are closed, and five objects."""
    places = {"table_bar_1": "diningtable", "cabinet_bar_1": "cabinet", "sink_bar_1_bar_sinkbasin": "sinkbasin",
              "microwave_bar_1": "microwave", "fridge_bar_1": "fridge"}  # fmt: skip
    things = {"mug_bar_1": ("mug", "table_bar_1"), "mug_bar_2": ("mug", "cabinet_bar_1"),
              "apple_bar_1": ("apple", "table_bar_1"), "knife_bar_1": ("knife", "table_bar_1"),
              "desklamp_bar_1": ("desklamp", "table_bar_1")}  # fmt: skip
    types = {"agent1": "agent", "loc_bar_start": "location"}
    init = [("atlocation", "agent1", "loc_bar_start")]
    for entity, kind in places.items():
        types |= {entity: "receptacle", f"loc_bar_{kind}": "location", f"{kind}type": "rtype"}
        init += [("receptacletype", entity, f"{kind}type"), ("receptacleatlocation", entity, f"loc_bar_{kind}")]
        if kind in ("cabinet", "microwave", "fridge"):
            init.append(("openable", entity))
    for entity, (kind, place) in things.items():
        types |= {entity: "object", f"{kind}type": "otype"}
        init += [("objecttype", entity, f"{kind}type"), ("inreceptacle", entity, place),
                 ("objectatlocation", entity, f"loc_bar_{places[place]}")]  # fmt: skip
        init += [(name, entity) for name in ("cleanable", "heatable", "coolable") if kind in ("mug", "apple")]
        init.append(("toggleable" if kind == "desklamp" else "pickupable", entity))
        init += [("cancontain", f"{place_kind}type", f"{kind}type") for place_kind in places.values()]
    init += [("sliceable", "apple_bar_1"), *(tuple(fact.split()) for fact in facts)]
    return Problem(types, tuple(dict.fromkeys(init)), goal or goal_formula(assignment), "do it")  # pyright: ignore


def small_game(*facts: str) -> Game:
    return build_game(small_problem(Assignment("pick_heat_then_place_in_recep", "Mug", "Fridge"), *facts))


def play(game: Game, *commands: str) -> list[str]:
    state = game.initial_state.copy()
    return [apply(game, state, command) for command in commands]


def test_an_episode_reads_like_alfworld():
    game = TextGame(small_game())
    assert game.reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
        "a cabinet 1, a fridge 1, a microwave 1, a sinkbasin 1, and a table 1.\n\nYour task is to: do it."
    )
    texts = [game.step(command).observation for command in (
        "look", "inventory", "go to table 1", "take mug 2 from table 1", "inventory", "go to microwave 1",
        "heat mug 2 with microwave 1", "examine mug 2", "go to fridge 1", "look", "open fridge 1",
    )]  # fmt: skip
    assert texts == [
        "You are in the middle of a room. Looking quickly around you, you see nothing.",
        "You are not carrying anything.",
        "You arrive at table 1. On the table 1, you see a apple 1, a desklamp 1, a knife 1, and a mug 2.",
        "You pick up the mug 2 from the table 1.",
        "You are carrying: a mug 2.",
        "You arrive at microwave 1. The microwave 1 is closed.",
        "You heat the mug 2 using the microwave 1.",
        "This is a hot mug 2.",
        "You arrive at fridge 1. The fridge 1 is closed.",
        "You are facing the fridge 1. Next to it, you see nothing.",
        "You open the fridge 1. The fridge 1 is open. In it, you see nothing.",
    ]
    step = game.step("move mug 2 to fridge 1")
    assert (step.observation, step.won, step.done) == ("You move the mug 2 to the fridge 1.", True, True)
    with pytest.raises(ValueError, match="the episode is over"):
        game.step("look")


@pytest.mark.parametrize("command", [
    "", "go to", "go to table", "go to attic 1", "Look", "take apple 1", "take mug 1 from table 1",
    "take desklamp 1 from table 1", "open table 1", "close cabinet 1", "move apple 1 to table 1", "examine apple 1",
    "use apple 1", "slice apple 1 with knife 1", "go to table 1", "heat mug 2 with microwave 1", "put mug 2 in table 1",
])  # fmt: skip
def test_an_impossible_command_changes_nothing(command):
    game = small_game()
    state = game.initial_state.copy()
    apply(game, state, "go to table 1")
    before = state.copy()
    assert apply(game, state, command) == NOTHING_HAPPENS
    assert state == before


def test_objects_are_cleaned_cooled_sliced_and_lit():
    observations = play(
        small_game(), "go to table 1", "use desklamp 1", "use desklamp 1", "take apple 1 from table 1",
        "go to sinkbasin 1", "clean apple 1 with sinkbasin 1", "examine apple 1", "go to fridge 1",
        "cool apple 1 with fridge 1", "examine apple 1", "go to table 1", "move apple 1 to table 1",
        "take knife 1 from table 1", "slice apple 1 with knife 1", "move knife 1 to table 1",
        "take apple 1 from table 1", "examine apple 1",
    )  # fmt: skip
    assert observations[1:3] == ["You turn on the desklamp 1."] * 2  # ALFWorld never says that it is turned off
    assert observations[6] == "This is a clean apple 1."
    assert observations[9] == "This is a cool and clean apple 1."
    assert observations[13] == "You sliced the apple 1 with the knife 1."
    assert observations[-1] == "This is a cool and clean sliced apple 1."


def test_heat_and_cold_replace_each_other():
    observations = play(
        small_game(), "go to table 1", "take mug 2 from table 1", "go to fridge 1", "cool mug 2 with fridge 1",
        "examine mug 2", "go to microwave 1", "heat mug 2 with microwave 1", "examine mug 2",
    )  # fmt: skip
    assert (observations[4], observations[7]) == ("This is a cold mug 2.", "This is a hot mug 2.")


def test_only_possible_commands_change_the_state():
    """Of all commands that can be written, exactly the admissible ones do not answer that nothing happens."""
    game, rng = small_game(), Random(0)
    names = [*game.receptacle_index, *game.object_index]
    forms = ("open {}", "close {}", "go to {}", "examine {}", "use {}", "take {} from {}", "move {} to {}",
             "heat {} with {}", "cool {} with {}", "clean {} with {}", "slice {} with {}")  # fmt: skip
    written = {"look", "inventory", "help"} | {form.format(a, b) for form in forms for a in names for b in names}
    state = game.initial_state.copy()
    for _ in range(60):
        possible = admissible_commands(game, state)
        for command in written:
            assert (apply(game, state.copy(), command) != NOTHING_HAPPENS) == (command in possible), command
        assert set(possible) <= written
        apply(game, state, rng.choice(possible))


def test_a_state_is_copied_exactly():
    game = TextGame(small_game())
    for command in ("go to table 1", "take mug 2 from table 1"):
        game.step(command)
    saved = game.get_state()
    first = [game.step(command) for command in ("move mug 2 to table 1", "use desklamp 1", "look")]
    game.set_state(saved)
    assert game.num_steps == 2
    assert game.admissible_commands == admissible_commands(game.game, saved[0])
    assert [game.step(command) for command in ("move mug 2 to table 1", "use desklamp 1", "look")] == first


def test_an_episode_ends_after_the_last_step():
    game = TextGame(small_game(), max_steps=3)
    assert [game.step("no such thing").done for _ in range(3)] == [False, False, True]


def test_help_lists_all_commands():
    assert play(small_game(), "help") == [HELP]
    assert HELP.count("\n") == 14


def test_objects_beside_a_receptacle_are_seen():
    """An object taken from one receptacle and put into another at the same place lies beside the first."""
    floor_plan = FloorPlan("two shelves", "kitchen", (
        Place("Shelf|+00.00|+00.00|+00.00", "Shelf", "loc|1|1|0|30", False),
        Place("Shelf|+01.00|+00.00|+00.00", "Shelf", "loc|1|1|0|30", False),
        Place("Fridge|+02.00|+00.00|+00.00", "Fridge", "loc|2|2|0|30", True),
    ), "loc|0|0|0|0|start", ("Mug",))  # fmt: skip
    game = generate_game(floor_plan, Assignment("pick_and_place_simple", "Mug", "Fridge"), Random(0), 1, 0)
    state = game.initial_state.copy()
    source = next(k for k, contents in enumerate(state.contents) if contents)
    here, other = game.receptacles[source].name, game.receptacles[1 - source if source < 2 else 1].name
    if game.receptacles[source].type != "shelftype":
        here, other = "shelf 1", "shelf 2"
    for command in (f"go to {here}", f"take mug 1 from {here}", f"move mug 1 to {other}"):
        apply(game, state, command)
    assert apply(game, state, "look") == "You are facing the shelf 2, and shelf 1. Next to it, you see a mug 1."


def test_names_count_down_in_the_order_of_ids():
    ids = ["mug_bar_2", "mug_bar_1", "sink_bar_1_bar_sinkbasin", "agent1", "mug_bar_1"]
    assert display_names(ids) == {
        "agent1": "agent1", "mug_bar_1": "mug 2", "mug_bar_2": "mug 1", "sink_bar_1_bar_sinkbasin": "sinkbasin 1"
    }  # fmt: skip


@pytest.mark.parametrize(("change", "message"), [
    (["holds agent1 mug_bar_1"], "holds an object at the start"),
    (["receptacleatlocation table_bar_1 loc_bar_fridge"], "several receptacleAtLocation facts"),
    (["opened attic_bar_1"], "is not declared"),
    (["opened mug_bar_1"], "is not a receptacle"),
    (["flies mug_bar_1"], "unknown fact"),
    (["atlocation agent1 loc_bar_fridge"], "one agent at one location"),
])  # fmt: skip
def test_a_game_that_the_engine_cannot_play_is_refused(change, message):
    with pytest.raises(GameError, match=message):
        small_game(*change)


@pytest.mark.parametrize("goal", [
    "and", (), ("exists", ("?o",), ("isclean", "?o")), ("isclean", "?o"), ("checked", "mug_bar_1"), ("flies", "x"),
    ("exists", ("?o", "-"), ("isclean", "?o")), ("and", ("isclean", ("?o",))), ("isclean", "a", "b"),
])  # fmt: skip
def test_a_goal_that_is_not_understood_is_refused(goal):
    with pytest.raises(GameError):
        build_game(small_problem(Assignment("pick_and_place_simple", "Mug", "Fridge"), goal=goal or ((),)))


def test_a_goal_may_ask_that_everything_is_closed():
    closed = ("forall", ("?r", "-", "receptacle"), ("not", ("opened", "?r")))
    goal = ("and", goal_formula(Assignment("pick_and_place_simple", "Mug", "Fridge")), closed)
    game = build_game(small_problem(Assignment("pick_and_place_simple", "Mug", "Fridge"), goal=goal))
    commands = plan_commands(game, game.initial_state)
    assert commands is not None
    assert commands[-1] == "close fridge 1"


# ------------------------------------------------------------------------------------------- generated games and plans


def generated(seed: int, num_receptacles: int = 6, num_distractors: int = 3) -> Game | None:
    rng = Random(seed)
    room = make_room(ROOM_KINDS[seed % 4], num_receptacles, rng)
    assignments = possible_assignments(room, TASK_TYPES[seed // 4 % 6])
    if not assignments:
        return None
    assignment = assignments[int(rng.random() * len(assignments))]
    return generate_game(room, assignment, rng, 1 + seed % 2, num_distractors, 0.3)


@pytest.fixture(scope="module")
def games() -> list[Game]:
    return [game for seed in range(192) if (game := generated(seed)) is not None]


def test_generated_games_are_of_all_types_and_solved_by_both_experts(games):
    kinds = {
        (parts.is_lamp_task, parts.treatment, parts.count) for game in games if (parts := read_goal(game.problem.goal))
    }
    assert len(kinds) == 6
    for game in games:
        for commands in (plan_commands(game, game.initial_state), search_commands(game)):
            assert commands is not None
            episode = TextGame(game, max_steps=100)
            steps = [episode.step(command) for command in commands]
            assert steps[-1].won
            assert not any(step.won for step in steps[:-1])
            assert not any(step.observation == NOTHING_HAPPENS for step in steps)


def test_the_planner_solves_games_from_any_state(games):
    rng = Random(1)
    for game in games[::2]:
        state = game.initial_state.copy()
        for _ in range(30):
            apply(game, state, rng.choice(admissible_commands(game, state)))
        commands = plan_commands(game, state)
        assert commands is not None, game.task
        for command in commands:
            assert apply(game, state, command) != NOTHING_HAPPENS
        assert game.goal(state)


def test_plans_are_the_shortest():
    """A breadth-first search over all commands finds nothing shorter."""
    compared = 0
    for seed in range(48):
        game = generated(seed, num_receptacles=4, num_distractors=0)
        if game is None or len(plan := plan_commands(game, game.initial_state) or []) > 8:
            continue
        assert fewest_commands(game, len(plan)) == len(plan), game.task
        compared += 1
    assert compared >= 12


def fewest_commands(game: Game, limit: int) -> int | None:
    queue, seen = deque([(0, game.initial_state)]), {game.initial_state.key()}
    while queue:
        depth, state = queue.popleft()
        if game.goal(state):
            return depth
        for command in admissible_commands(game, state) if depth < limit else ():
            following = state.copy()
            apply(game, following, command)
            following.removed = [0] * len(following.removed)  # only seen by `look`
            if (key := following.key()) not in seen:
                seen.add(key)
                queue.append((depth + 1, following))
    return None


def test_equal_seeds_make_equal_games():
    first, second = generated(5), generated(5)
    assert first is not None
    assert second is not None
    assert first.problem == second.problem
    assert intro(first, first.initial_state) == intro(second, second.initial_state)


def test_a_task_that_a_room_does_not_allow_is_refused():
    room = make_room("bathroom", 4, Random(0))
    assert not possible_assignments(room, "pick_heat_then_place_in_recep")
    with pytest.raises(GameError, match="is not possible in bathroom of 4"):
        generate_game(room, Assignment("pick_and_place_simple", "Laptop", "Bed"), Random(0))
