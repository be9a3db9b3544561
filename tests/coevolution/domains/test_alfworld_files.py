"""Game files and floor plans of ALFWorld, and equality with TextWorld where it is installed."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from envgen.coevolution.domains.alfworld import floor_plans, game_files
from envgen.coevolution.domains.alfworld.engine import admissible_commands, apply, intro
from envgen.coevolution.domains.alfworld.floor_plans import PLAN_NUMBERS, load_floor_plan, make_room
from envgen.coevolution.domains.alfworld.game import Game, GameError, build_game
from envgen.coevolution.domains.alfworld.game_files import find_games, load_game, save_game
from envgen.coevolution.domains.alfworld.generator import TASK_TYPES, generate_game, possible_assignments
from envgen.coevolution.domains.alfworld.pddl import format_problem, parse_lists, parse_problem

ROOT = Path(__file__).parents[3]
has_package = pytest.mark.skipif(floor_plans.package_folder() is None, reason="alfworld is not installed")
DOMAIN = "(define (domain alfred) (:action wait :parameters () :effect (and (rested) (increase (total-cost) 1))))"
GRAMMAR = '''grammar :: """
{
    "task": [{"rhs": "Your task is to: UNKNOWN GOAL."}],
    "GotoLocation.feedback": [{"rhs": "You arrive at {lend.name}. #examineReceptacle.feedback#"}],
    "PutObject.feedback": [{"rhs": "You put the {o.name} in/on the {r.name}."}],
    "help.feedback": [{"rhs": "Try to wait."}]
}
""";

action PutObject {
    template :: "put {o} in/on {r}";
    feedback :: "#PutObject.feedback#";
}
'''


@pytest.fixture(scope="module")
def game() -> Game:
    rng = Random(3)
    room = make_room("kitchen", 6, rng)
    return generate_game(room, possible_assignments(room, "pick_heat_then_place_in_recep")[0], rng)


@pytest.fixture
def logic(tmp_path, monkeypatch) -> Path:
    """Rules of our own in the format of the package, so that files can be tested without it."""
    monkeypatch.setattr(game_files, "ACTIONS", game_files.action_digests(DOMAIN))
    monkeypatch.setattr(game_files, "RULES", {})
    monkeypatch.setattr(game_files, "TEMPLATES", {})
    (tmp_path / "alfred.pddl").write_text(DOMAIN)
    (tmp_path / "alfred.twl2").write_text(GRAMMAR)
    return tmp_path


def test_a_game_file_holds_the_game_and_the_sentences_of_its_version(game, logic):
    path = save_game(game.problem, "pick_heat_then_place_in_recep", logic / "games" / "one", logic)
    assert [(found.path, found.task_type) for found in find_games(logic / "games")] == [
        (path, "pick_heat_then_place_in_recep")
    ]
    loaded = load_game(path)
    assert (loaded.receptacles, loaded.objects, loaded.initial_state) == (
        game.receptacles, game.objects, game.initial_state
    )  # fmt: skip
    assert intro(loaded, loaded.initial_state) == intro(game, game.initial_state)
    state = loaded.initial_state.copy()
    assert apply(loaded, state, "go to countertop 1").startswith("You arrive at loc ")
    thing = next(command.split(" from ")[0][5:] for command in admissible_commands(loaded, state) if "take" in command)
    apply(loaded, state, f"take {thing} from countertop 1")
    assert f"put {thing} in/on countertop 1" in admissible_commands(loaded, state)
    assert apply(loaded, state, f"move {thing} to countertop 1") == "Nothing happens."
    assert apply(loaded, state, f"put {thing} in/on countertop 1") == f"You put the {thing} in/on the countertop 1."
    assert apply(loaded, state, "help") == "Try to wait."


def test_a_problem_survives_pddl(game):
    assert parse_problem(format_problem(game.problem), game.task) == game.problem


@pytest.mark.parametrize(("change", "message"), [
    ({"pddl_domain": DOMAIN.replace("rested", "tired")}, "the rules of wait differ"),
    ({"pddl_domain": DOMAIN.replace("wait", "sleep")}, "the rules of sleep, wait differ"),
    ({"pddl_domain": "(define (problem x))"}, "not a PDDL domain"),
    ({"pddl_domain": ")"}, "a closing parenthesis too many"),
    ({"pddl_problem": "(define (problem x) (:objects a"}, "a closing parenthesis is missing"),
    ({"pddl_problem": "(" * 100_000}, "nested more than"),
    ({"pddl_problem": "(define (problem x) (:objects a - agent))"}, "needs :objects, :init and :goal"),
    ({"pddl_problem": "(define (problem x) (:objects a))"}, "have no type"),
    ({"pddl_problem": 7}, "must be strings"),
    ({"grammar": GRAMMAR.replace('"task"', '"tusk"')}, "the sentences of tusk, task differ"),
    ({"grammar": GRAMMAR.replace("{o.name} in", "{o.__class__} in")}, "the sentences of PutObject differ"),
    ({"grammar": GRAMMAR.replace("{lend.name}", "[{r.name}]")}, "the sentences of GotoLocation.feedback differ"),
    ({"grammar": GRAMMAR.replace("{o} in/on", "{o} {o}")}, "the sentences of PutObject differ"),
    ({"grammar": GRAMMAR.replace('"help', '"x": ,"help')}, "the grammar is not valid"),
])  # fmt: skip
def test_a_game_file_that_the_engine_cannot_play_is_refused(game, logic, change, message):
    path = save_game(game.problem, TASK_TYPES[0], logic / "games" / "one", logic)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(GameError, match=message):
        load_game(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff\xfe", b"[" * 100_000, b"{}"])
def test_a_damaged_file_is_refused(tmp_path, content):
    (tmp_path / "game.tw-pddl").write_bytes(content)
    with pytest.raises(GameError, match=r"game\.tw-pddl"):
        load_game(tmp_path / "game.tw-pddl")


def test_a_missing_folder_says_where_the_games_are(tmp_path):
    with pytest.raises(GameError, match="alfworld-download"):
        list(find_games(tmp_path / "missing"))
    with pytest.raises(GameError, match="no game"):
        list(find_games(tmp_path))


def test_games_with_sliced_objects_or_without_a_solution_are_left_out(game, logic):
    for name in ("plain", "pick-AppleSliced-None", "unsolvable"):
        path = save_game(game.problem, TASK_TYPES[0], logic / "games" / name, logic)
    path.write_text(path.read_text().replace('"solvable": true', '"solvable": false'))
    assert [found.path.parent.name for found in find_games(logic / "games")] == ["plain"]


def test_lists_are_parsed_without_comments():
    assert parse_lists("; no (\n(And (x ?Y) ; no )\n z)") == (("and", ("x", "?y"), "z"),)


# ---------------------------------------------------------------------------------------------------------- floor plans


def write_floor_plan(folder: Path, points: object, objects: object = ("Mug", "Window")) -> None:
    (folder / "FloorPlan1-openable.json").write_text(json.dumps(points))
    (folder / "FloorPlan1-objects.json").write_text(json.dumps(objects))


def test_a_floor_plan_is_read_from_its_files(tmp_path):
    basin = "Sink|+00.00|+00.89|-01.25|SinkBasin"
    write_floor_plan(tmp_path, {"Fridge|-02.10|+00.00|+01.09": [-1.0, 1.25, 270, 0], basin: [0.5, -1.0, 180, 30]})
    plan = load_floor_plan(1, tmp_path)
    assert [(place.type, place.location, place.openable) for place in plan.places] == [
        ("Fridge", "loc|-4|5|3|0", True), ("SinkBasin", "loc|2|-4|2|30", False)
    ]  # fmt: skip
    assert (plan.kind, plan.object_types) == ("kitchen", ("Mug",))


@pytest.mark.parametrize("points", [7, {"Fridge": [1, 2, 3]}, {"Fridge; rm": [1, 2, 3, 4]}, {"Fridge|1": None}])
def test_a_damaged_floor_plan_is_refused(tmp_path, points):
    write_floor_plan(tmp_path, points)
    with pytest.raises(GameError, match="cannot read floor plan 1"):
        load_floor_plan(1, tmp_path)


def test_a_floor_plan_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(GameError, match="there is no floor plan 31; the numbers are 1 to 30, 201 to 230"):
        load_floor_plan(31, tmp_path)


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(floor_plans, "package_folder", lambda: None)
    with pytest.raises(GameError, match="pip install --no-deps alfworld"):
        load_floor_plan(1)


@has_package
def test_games_are_possible_in_all_120_floor_plans():
    rng, made = Random(0), set()
    for number in [number for numbers in PLAN_NUMBERS.values() for number in numbers]:
        plan = load_floor_plan(number)
        for task_type in TASK_TYPES:
            if assignments := possible_assignments(plan, task_type):
                game = generate_game(plan, assignments[int(rng.random() * len(assignments))], rng)
                assert build_game(game.problem).initial_state == game.initial_state
                made.add(task_type)
    assert made == set(TASK_TYPES)


@pytest.mark.skipif(not (find_spec("textworld") and find_spec("alfworld")), reason="textworld is not installed")
def test_the_engine_equals_textworld(tmp_path):
    script = ROOT / "benchmarks" / "alfworld_parity.py"
    subprocess.run([sys.executable, script, "--games", "2", "--out", tmp_path / "out.json"], check=True, timeout=600)
    result = json.loads((tmp_path / "out.json").read_text())
    assert (result["games"], result["num_differences"]) == (2, 0)
