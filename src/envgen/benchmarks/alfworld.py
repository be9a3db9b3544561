"""ALFWorld: household tasks in text games, played as whole episodes of at most 50 steps.

The games are the official ones in a folder, or generated games with the same rules and sentences, made from the floor
plans in the package `alfworld` or from generated rooms. Accuracies on generated games are not comparable with those
on the official ones.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Literal

from envgen.coevolution.domains.alfworld.engine import MAX_STEPS, NOTHING_HAPPENS, TextGame
from envgen.coevolution.domains.alfworld.floor_plans import (
    MISSING_PACKAGE,
    PLAN_NUMBERS,
    ROOM_KINDS,
    FloorPlan,
    load_floor_plan,
    make_room,
    package_folder,
)
from envgen.coevolution.domains.alfworld.game import Game, GameError
from envgen.coevolution.domains.alfworld.game_files import DOWNLOAD_HINT, GameFile, find_games
from envgen.coevolution.domains.alfworld.generator import (
    TASK_TYPES,
    TaskType,
    generate_game,
    possible_assignments,
)
from envgen.coevolution.domains.alfworld.planner import plan_commands
from envgen.coevolution.domains.random_choice import choose
from envgen.designers.chat.protocol import Message, Reply

from .benchmark import NO_TEXT, Benchmark, BenchmarkError, Episode, Item, Prompt, Verdict, text_reply

NUM_GAMES = 20  # generated for each task type
MAX_REPLY_CHARS = 20_000  # of a reply; what comes before is ignored
ACTION_LABEL = re.compile(r"(?:[-•]|\d{1,2}[.)])?[>*_#\s]{0,8}action[*_\s]{0,4}:(.*)", re.IGNORECASE)
NOT_SOLVED = "not solved"
INSTRUCTIONS = (
    "You are in a room with receptacles that hold objects, and have a task. In each turn you give one command and are "
    "told what happens. The commands:\n"
    "go to RECEPTACLE, open RECEPTACLE, close RECEPTACLE, take OBJECT from RECEPTACLE, {put} OBJECT {to} RECEPTACLE, "
    "clean OBJECT with RECEPTACLE, heat OBJECT with RECEPTACLE, cool OBJECT with RECEPTACLE, use OBJECT, "
    "examine SOMETHING, inventory, look\n"
    "Names have a number, such as cabinet 2. You can hold one object. Go to a receptacle before you use it. Objects "
    "are cleaned with a sinkbasin, heated with a microwave and cooled with a fridge. "
    f"You have {MAX_STEPS} turns. You may think first; end each reply with a line that begins with `Action:` and holds "
    "the command."
)


class Alfworld(Benchmark):
    name = "alfworld"
    categories = TASK_TYPES

    def __init__(self, data: Path | None = None, games: Literal["floor_plans", "rooms"] | None = None):
        if data is not None and games is not None:
            raise BenchmarkError("alfworld takes --data (official games) or --games (generated ones), not both")
        if data is None and games is None:
            raise BenchmarkError(
                f"alfworld needs either --data FOLDER or --games: {DOWNLOAD_HINT}. --games floor_plans makes games "
                "from the floor plans of that package, and --games rooms from generated rooms"
            )
        self._items: dict[str, list[Item]] = {category: [] for category in TASK_TYPES}
        if data is not None:
            self.data_version = self._read_folder(data)
            return
        if games == "floor_plans" and package_folder() is None:
            raise BenchmarkError(MISSING_PACKAGE)
        source = f"floor plans of alfworld {version('alfworld')}" if games == "floor_plans" else "rooms"
        self.data_version = f"{source}, {NUM_GAMES} games of each type"
        for category in TASK_TYPES:
            for number, game in zip(range(NUM_GAMES), generate_games(category, games == "floor_plans"), strict=False):
                self._items[category].append(Item(f"{category}-{number:03d}", category, game))

    def _read_folder(self, data: Path) -> str:
        checksum = hashlib.sha256()
        try:
            for file in find_games(data):
                relative = file.path.parent.relative_to(data)
                checksum.update(f"{relative} {file.path.stat().st_size}\n".encode())
                if file.task_type in self._items:
                    name = str(relative) if relative.parts else file.path.parent.name
                    item_id = re.sub(r"[^A-Za-z0-9._-]", "_", name)
                    self._items[file.task_type].append(Item(item_id, file.task_type, file))
        except GameError as error:
            raise BenchmarkError(str(error)) from None
        return f"sha256 of names and sizes {checksum.hexdigest()[:12]}"

    def items(self, category: str) -> Sequence[Item]:
        return self._items[category]

    def episode(self, item: Item) -> Episode:
        game = TextGame(_load(item))
        texts = game.game.texts
        system = INSTRUCTIONS.format(put=texts.put_verb, to=texts.put_preposition)
        messages = Prompt.user(game.reset(), system).messages
        num_possible = 0
        while not game.done:
            reply = yield Prompt(messages)
            step = game.step(find_command(reply.text))
            num_possible += step.observation != NOTHING_HAPPENS
            messages = (
                *messages, Message(role="assistant", content=reply.text or NO_TEXT),
                Message(role="user", content=step.observation),
            )  # fmt: skip
        counts = {"possible commands": (num_possible, game.num_steps)}
        details = f"{num_possible} of {game.num_steps} commands were possible"
        return Verdict(1.0, counts=counts) if game.won else Verdict(0.0, NOT_SOLVED, details, counts)

    def gold_replies(self, item: Item) -> Sequence[Reply] | None:
        game = _load(item)
        commands = plan_commands(game, game.initial_state)
        return None if commands is None else [text_reply(f"Action: {command}") for command in commands]


def _load(item: Item) -> Game:
    if not isinstance(item.data, GameFile):
        return item.data
    try:
        return item.data.load()
    except GameError as error:
        raise BenchmarkError(str(error)) from None


def generate_games(task_type: TaskType, from_floor_plans: bool) -> Iterator[Game]:
    """An endless sequence of games of a type, the same in every run."""
    number = 0
    while True:
        rng = Random(f"{task_type} {number}")
        number += 1
        floor_plan = _floor_plan(from_floor_plans, rng)
        if assignments := possible_assignments(floor_plan, task_type):
            copies, distractors = 1 + int(3 * rng.random()), 10 + int(15 * rng.random())
            yield generate_game(floor_plan, choose(assignments, rng), rng, copies, distractors)


def _floor_plan(from_package: bool, rng: Random) -> FloorPlan:
    kind = choose(ROOM_KINDS, rng)
    if from_package:
        return load_floor_plan(choose(PLAN_NUMBERS[kind], rng))
    return make_room(kind, 10 + int(11 * rng.random()), rng)


def find_command(text: str) -> str:
    """The command of a reply, in lower case.

    It follows the last `Action:` at the beginning of a line, in this line or the next one that is not empty. Without
    one, it is the last line that begins with `>`, or the last line.
    """
    lines = [line for line in map(str.strip, text[-MAX_REPLY_CHARS:].splitlines()) if _strip_quotes(line)]
    labels = [(k, match) for k, line in enumerate(lines) if (match := ACTION_LABEL.match(line))]
    prompts = [line[1:] for line in lines if line.startswith(">")]
    if labels:
        k, match = labels[-1]
        command = _strip_quotes(match[1]) or next(iter(lines[k + 1 :]), "")
    else:
        command = next(reversed(prompts or lines), "")
    return " ".join(_strip_quotes(command).lower().split())


def _strip_quotes(text: str) -> str:
    return text.strip("`*_\"'.> ")  # also of a line that only begins or ends a code block
