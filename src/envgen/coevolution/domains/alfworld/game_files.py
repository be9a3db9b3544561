"""Game files of ALFWorld: `game.tw-pddl` beside `traj_data.json`, as `alfworld-download` leaves them in a folder.

A game file brings its own rules (PDDL) and sentences (a grammar). The engine does not interpret them: it compares them
with the ones that it implements, those of alfworld 0.4, and refuses a game with others. Sentences in which alfworld 0.3
differs (`put x in/on y`) are read from the file.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .floor_plans import package_folder
from .game import Formula, Game, GameError, Problem, Texts, build_game
from .pddl import format_formula, format_problem, parse_problem, sections

MAX_BYTES = 20_000_000  # of a file
GAME_FILE, TASK_FILE = "game.tw-pddl", "traj_data.json"
DOWNLOAD_HINT = (
    "the official games (MIT license) are downloaded by `alfworld-download` of the package alfworld into "
    "~/.cache/alfworld/json_2.1.1; name a folder in it, such as valid_unseen"
)
# SHA-256 of the rules and of the sentences of alfworld 0.4.2, shortened
ACTIONS: dict[str, str] = {
    "look": "e099ba92f2d7", "inventory": "e2fbb7527c02", "examinereceptacle": "6bbb4787d2c5",
    "examineobject": "70e300872a87", "gotolocation": "7da0fddc068f", "openobject": "6854c6e9fe94",
    "closeobject": "57595b40257b", "pickupobject": "d91580e8f35b", "putobject": "1e892c32f24b",
    "cleanobject": "a3343ca01fcb", "heatobject": "6b83306496b4", "coolobject": "f86334f9a6d6",
    "toggleobject": "ec82554a6b25", "sliceobject": "a237599da240", "help": "a7f60df53554",
}  # fmt: skip
RULES: dict[str, str] = {
    "intro": "216083ba7c5c", "OpenObject.feedback": "1af5096c7414", "CloseObject.feedback": "01cf143fb27b",
    "PickupObject.feedback": "4dec34b29b1d", "inventory.feedback": "10a90af74fc8",
    "examineReceptacle.feedback": "5c4c29e437a7", "examineObject.feedback": "384fc0bd21d3",
    "toggleObject.feedback": "0e3fc274298a", "heatObject.feedback": "962b9db41402",
    "cleanObject.feedback": "bce25485bf56", "coolObject.feedback": "ac06d1cdd7c7",
    "sliceObject.feedback": "ffa03a313409", "look.feedback": "be96fdf33fd3", "look-variations": "51d6e0d6b4cf",
    "list_objects_on_the_floor": "1debc78e9c97", "list_appliances": "0db854d4c8d9", "overview(o)": "4195965f71b2",
    "overview(r)": "44373d352162", "list_empty": "d4ca4eae8944", "list_separator": "85e97985e64c",
    "list_last_separator": "2585510d29cd",
}  # fmt: skip
TEMPLATES: dict[str, str] = {
    "gotolocation": "946ac1e1e87f", "openobject": "1227d3da0105", "closeobject": "3ebd44ab5dab",
    "pickupobject": "42358c9d4ca5", "inventory": "50fdf1ccec10", "examinereceptacle": "5aa63c5b304f",
    "examineobject": "9dfb5b12768a", "toggleobject": "2e018a1bfec4", "heatobject": "54b6733325cd",
    "cleanobject": "567f89cf2976", "coolobject": "69e069c421a2", "sliceobject": "158aeefef884",
    "look": "b3f95c301a7f", "help": "305304f853bd",
}  # fmt: skip
_VARIABLE_RULES = ("task", "GotoLocation.feedback", "PutObject.feedback", "help.feedback")
_SOLVABLE = re.compile(rb'"solvable"\s*:\s*true')
_UNUSED_RULE = re.compile(
    r"^(notImplemented|overview_with_state.*|overview_state.*|overview\(o, r\)|"
    r"PickupObjectFrom.*|PickupEmpty.*|PickupFull.*|PutObjectIn.*|PutEmpty.*|PutFull.*)$"
)


@dataclass(frozen=True)
class GameFile:
    """A game of a folder: where it is, and what kind of task it has."""

    path: Path
    task_type: str

    def load(self) -> Game:
        return load_game(self.path)


def find_games(folder: Path) -> Iterator[GameFile]:
    """The games below a folder, sorted by path.

    As in ALFWorld, games with sliced objects are left out, and those that are not marked as solvable.
    """
    if not folder.is_dir():
        raise GameError(f"there is no folder {folder}; {DOWNLOAD_HINT}")
    has_games = False
    for path in sorted(folder.rglob(GAME_FILE)):
        relative = str(path.relative_to(folder))
        if "movable" in relative or "Sliced" in relative or not path.with_name(TASK_FILE).exists():
            continue
        task = _read_json(path.with_name(TASK_FILE))
        if not _SOLVABLE.search(_read(path)):
            continue
        has_games = True
        yield GameFile(path, str(task.get("task_type")))
    if not has_games:
        raise GameError(f"no game ({GAME_FILE} beside {TASK_FILE}) is in {folder}; {DOWNLOAD_HINT}")


def load_game(path: Path) -> Game:
    """The game of a file. A file that is damaged, or whose rules the engine does not implement, is a GameError."""
    data = _read_json(path)
    try:
        domain, grammar, problem = (data[key] for key in ("pddl_domain", "grammar", "pddl_problem"))
        if not all(isinstance(text, str) for text in (domain, grammar, problem)):
            raise TypeError
    except (KeyError, TypeError):
        raise GameError(f"{path} is not a game: pddl_domain, grammar and pddl_problem must be strings") from None
    try:
        check_rules(domain)
        task, texts = read_grammar(grammar)
        return build_game(parse_problem(problem, task, texts))
    except GameError as error:
        raise GameError(f"{path}: {error}") from None


def check_rules(domain: str) -> None:
    """Raise a GameError if the actions of a PDDL domain are not those that the engine implements."""
    actions = action_digests(domain)
    different = sorted(name for name in ACTIONS.keys() | actions.keys() if ACTIONS.get(name) != actions.get(name))
    if different:
        raise GameError(
            f"the rules of {', '.join(different):.300} differ from those of alfworld 0.4.2, which the engine implements"
        )


def read_grammar(grammar: str) -> tuple[str, Texts]:
    """The task and the variable sentences of a grammar; a GameError if other sentences differ from alfworld 0.4.2's."""
    templates, rules = parse_grammar(grammar)
    different = [
        name for name in sorted(RULES.keys() | {name for name in rules if not _UNUSED_RULE.match(name)})
        if name not in _VARIABLE_RULES and RULES.get(name) != _digest(rules.get(name))
    ]  # fmt: skip
    put = re.fullmatch(r"(put|move|place) \{o\} ([a-z/]+) \{r\}", templates.get("putobject", ""))
    different += [
        f"the command of {name}" for name in sorted(TEMPLATES)
        if name != "putobject" and TEMPLATES[name] != _digest(templates.get(name))
    ]  # fmt: skip
    task = re.fullmatch(r"Your task is to: (.*)\.", _single_sentence(rules, "task"), re.DOTALL)
    arrive = _single_sentence(rules, "GotoLocation.feedback")
    sentence = _fields(_single_sentence(rules, "PutObject.feedback"), ("o", "r"))
    if put is None or sentence is None:
        different.append("PutObject")
    if task is None:
        different.append("task")
    suffix = "#examineReceptacle.feedback#"
    arrival = _fields(arrive.removesuffix(suffix), ("r", "lend")) if arrive.endswith(suffix) else None
    if arrival is None:
        different.append("GotoLocation.feedback")
    help_text = _single_sentence(rules, "help.feedback")
    if any(character in help_text for character in "{}[]#|"):
        different.append("help.feedback")
    if different or task is None or put is None or sentence is None or arrival is None:
        raise GameError(
            f"the sentences of {', '.join(different):.300} differ from those of alfworld 0.4.2, which the engine "
            "implements"
        )
    return task[1], Texts(arrival, sentence, put[1], put[2], help_text.lstrip())


def _single_sentence(rules: Mapping[str, Any], name: str) -> str:
    alternatives = rules.get(name)
    match alternatives:
        case [{"rhs": str(sentence), **others}] if not others:
            return sentence
    return ""


def _fields(sentence: str, names: tuple[str, ...]) -> str | None:
    """A sentence with `{o.name}` as a format string with `{o}`; None if it holds anything else in braces."""
    plain = re.sub(r"\{(\w+)\.name\}", lambda match: "\0" if match[1] in names else match[0], sentence)
    if not sentence or any(character in plain for character in "{}[]#|"):
        return None
    return re.sub(r"\{(\w+)\.name\}", r"{\1}", sentence)


# -------------------------------------------------------------------------------------------------------------- parsing


def action_digests(domain: str) -> dict[str, str]:
    """A digest of each action of a PDDL domain, without its costs."""
    return {
        str(section[1]): _digest(format_formula(_without_costs(section)))
        for section in sections(domain, "domain")
        if section[:1] == (":action",) and len(section) > 1
    }


def _without_costs(formula: Formula) -> Formula:
    if isinstance(formula, str):
        return formula
    parts = [part for part in formula if not (isinstance(part, tuple) and part[:1] == ("increase",))]
    return tuple(_without_costs(part) for part in parts)


def parse_grammar(grammar: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The templates of the commands by action, and the rules of the sentences by name."""
    templates: dict[str, str] = {}
    rules: dict[str, Any] = {}
    for name, body in re.findall(r"^action\s+([\w/-]+)\s*\{(.*?)^\}", grammar, re.MULTILINE | re.DOTALL):
        template = re.search(r'template\s*::\s*"([^"]*)"', body)
        templates[name.lower()] = template[1] if template else ""
    for block in re.findall(r'grammar\s*::\s*"""(.*?)"""', grammar, re.DOTALL):
        lines = [line for line in block.split("\n") if not line.lstrip().startswith("#")]
        try:
            block_rules = json.loads("\n".join(lines))
        except (ValueError, RecursionError) as error:
            raise GameError(f"the grammar is not valid: {error}") from None
        if not isinstance(block_rules, dict):
            raise GameError("the grammar is not valid: a block is not an object")
        rules |= block_rules
    return templates, rules


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise GameError(f"{path} has more than {MAX_BYTES:,} bytes")
        return path.read_bytes()
    except OSError as error:
        raise GameError(f"cannot read {path}: {error}") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(_read(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise GameError(f"cannot read {path}: {error}") from None
    if not isinstance(data, dict):
        raise GameError(f"{path} does not hold a JSON object")
    return data


# -------------------------------------------------------------------------------------------------------------- writing


def game_data(problem: Problem, logic_folder: Path | None = None) -> dict[str, Any]:
    """The content of a game file that ALFWorld can load, with the rules and sentences of the package `alfworld`."""
    layouts = package_folder()
    if logic_folder is None:
        if layouts is None:
            raise GameError("game files need the rules of the package alfworld: pip install --no-deps alfworld==0.4.2")
        logic_folder = layouts.parents[1] / "data"
    try:
        domain, grammar = ((logic_folder / name).read_text() for name in ("alfred.pddl", "alfred.twl2"))
    except OSError as error:
        raise GameError(f"cannot read the rules of ALFWorld: {error}") from None
    return {
        "pddl_domain": domain, "grammar": grammar.replace("UNKNOWN GOAL", problem.task),
        "pddl_problem": format_problem(problem), "solvable": True, "walkthrough": None,
    }  # fmt: skip


def save_game(problem: Problem, task_type: str, folder: Path, logic_folder: Path | None = None) -> Path:
    """Write a game to a folder of its own, as ALFWorld reads it; returns the path of the game file."""
    data = game_data(problem, logic_folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / GAME_FILE).write_text(json.dumps(data), encoding="utf-8")
    (folder / TASK_FILE).write_text(json.dumps({"task_type": task_type}), encoding="utf-8")
    return folder / GAME_FILE
