"""Compare envgen's checker of BFCL with the official one on every gold answer and on mutated ones.

    pip install --no-deps bfcl-eval==2026.3.23
    python benchmarks/bfcl_checker.py --mutants 20000

The official checker is imported with a stand-in for its table of models, which would import the libraries of many
vendors. Disagreements are listed by reason. The exit status is 1 if one of them has no known reason, or if envgen does
not accept a gold answer.
"""

import argparse
import copy
import sys
import types
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from envgen.benchmarks.benchmark import Item, text_reply
from envgen.benchmarks.bfcl.benchmark import Bfcl, gold_call
from envgen.benchmarks.bfcl.data import (
    LIVE,
    MULTI_TURN,
    SINGLE_TURN,
    find_package,
    gold_turns,
    language_of,
    load_entries,
    multi_turn_functions,
)
from envgen.function_calls.calls import Call, Language, write_call
from envgen.function_calls.checker import check_calls

REASONS = {
    "official: quotes of strings in a Java array are part of the value": (
        'no valid Java expression such as new String[]{"a"} is accepted'
    ),
    "official: elements of a Java list of `any` stay source text": "numbers and booleans in the answer cannot match",
    "official: an acceptable value that is not a list is compared letter by letter": "no value can match",
    "official: Java and JavaScript collections are split at every comma": "also at those inside strings",
    "official: only the beginning of a Java or JavaScript collection is read": "what follows it is ignored",
    "data: the parameters of the function and those of the answer differ": "no call is accepted",
    "data: a parameter has an empty list of acceptable values": "here it stands for an empty list",
    "official: raises an exception": "on values of an unexpected shape; here they are wrong",
}


COMMAS = "official: Java and JavaScript collections are split at every comma"
BEGINNING = "official: only the beginning of a Java or JavaScript collection is read"


class Comparison(NamedTuple):
    ours: bool
    theirs: bool | None  # None: it raised an exception
    reason: str  # of a disagreement


class OfficialChecker:
    """The checker of the installed package."""

    def __init__(self) -> None:
        table = types.ModuleType("bfcl_eval.constants.model_config")
        table.MODEL_CONFIG_MAPPING = {"model": types.SimpleNamespace(underscore_to_dot=False)}  # pyright: ignore
        sys.modules[table.__name__] = table
        from bfcl_eval.constants.enums import Language as OfficialLanguage  # pyright: ignore[reportMissingImports]
        from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # pyright: ignore[reportMissingImports]

        self.languages: dict[Language, Any] = {
            "python": OfficialLanguage.PYTHON, "java": OfficialLanguage.JAVA, "javascript": OfficialLanguage.JAVASCRIPT
        }  # fmt: skip
        self.ast_checker = ast_checker

    def __call__(self, entry: Mapping[str, Any], calls: Sequence[Call], category: str) -> bool | None:
        language = self.languages[language_of(category)]
        decoded = [{call.name: copy.deepcopy(call.arguments)} for call in calls]
        try:
            answer = copy.deepcopy(entry["ground_truth"])
            result = self.ast_checker(entry["function"], decoded, answer, language, category, "model")
        except Exception:  # noqa: BLE001  whatever it raises is one of the results
            return None
        return bool(result["valid"])


def compare(official: OfficialChecker, entry: Mapping[str, Any], calls: Sequence[Call], category: str) -> Comparison:
    language = language_of(category)
    ours = check_calls(entry["function"], calls, entry["ground_truth"], language) is None
    theirs = official(entry, calls, category)
    return Comparison(ours, theirs, "" if ours == theirs else _find_reason(entry, calls, category, theirs))


def _find_reason(entry: Mapping[str, Any], calls: Sequence[Call], category: str, theirs: bool | None) -> str:
    if theirs is None:
        return "official: raises an exception"
    schemas = {
        name: schema for function in entry["function"] for name, schema in function["parameters"]["properties"].items()
    }
    given = [schemas[name] for call in calls for name in call.arguments if name in schemas]
    types = ("Array", "ArrayList", "HashMap", "array", "dict") if language_of(category) != "python" else ()
    is_collection = any(schema["type"] in types for schema in given)
    if theirs:
        return BEGINNING if is_collection else ""
    for gold in entry["ground_truth"]:
        ((function_name, options),) = gold.items()
        function = next(function for function in entry["function"] if function["name"] == function_name)
        required, properties = function["parameters"].get("required", ()), function["parameters"]["properties"]
        if set(required) - options.keys() or options.keys() - properties.keys():
            return "data: the parameters of the function and those of the answer differ"
        if [] in options.values():
            return "data: a parameter has an empty list of acceptable values"
    if any(schema["type"] == "Array" and schema["items"]["type"] in ("String", "char", "any") for schema in given):
        return "official: quotes of strings in a Java array are part of the value"
    if any(schema["type"] == "ArrayList" and schema["items"]["type"] == "any" for schema in given):
        return "official: elements of a Java list of `any` stay source text"
    values = [value for gold in entry["ground_truth"] for options in gold.values() for value in options.values()]
    dicts = [inner for value in values for inner in value if isinstance(inner, dict)]
    if any(not isinstance(options, list) for inner in dicts for options in inner.values()):
        return "official: an acceptable value that is not a list is compared letter by letter"
    return COMMAS if is_collection else ""


def iter_gold() -> Iterator[tuple[dict[str, Any], list[Call], str]]:
    package, _ = find_package()
    for category in (*SINGLE_TURN, *LIVE):
        for entry in load_entries(package, category):
            language = language_of(category)
            yield entry, [gold_call(entry["function"], gold, language) for gold in entry["ground_truth"]], category


def mutate(calls: Sequence[Call], rng: Random, others: Sequence[Any]) -> list[Call]:
    """A copy with one change: of a value, a name, an argument, or the number or order of the calls."""
    mutant = [Call(call.name, copy.deepcopy(call.arguments)) for call in calls]
    kind = rng.randrange(10)
    index = rng.randrange(len(mutant))
    call = mutant[index]
    names = list(call.arguments)
    if kind == 0:
        mutant.pop(index)
    elif kind == 1:
        mutant.insert(index, call)
    elif kind == 2:
        mutant[index] = Call(call.name + rng.choice(["x", ".x", " "]), call.arguments)
    elif kind == 3:
        rng.shuffle(mutant)
    elif kind == 4:
        call.arguments[rng.choice(["x", "unit", "n"])] = rng.choice(others)
    elif names:
        name = rng.choice(names)
        if kind == 5:
            del call.arguments[name]
        elif kind == 6:
            call.arguments[name] = rng.choice(others)
        else:
            call.arguments[name] = mutate_value(call.arguments[name], rng, others)
    return mutant


def mutate_value(value: Any, rng: Random, others: Sequence[Any]) -> Any:
    if isinstance(value, bool):
        return rng.choice([not value, int(value), str(value)])
    if isinstance(value, int | float):
        return rng.choice([value + 1, -value, float(value), str(value), [value], value == 0])
    if isinstance(value, str):
        cut = rng.randrange(len(value) + 1)
        return rng.choice([
            value.upper(), f" {value}.", value[:cut], value[:cut] + rng.choice(" ,-_^*'\"x1") + value[cut:], [value],
            "",
        ])  # fmt: skip
    if isinstance(value, list | tuple) and value:
        items = list(value)
        index = rng.randrange(len(items))
        change = rng.randrange(4)
        if change == 0:
            items.pop(index)
        elif change == 1:
            items.append(rng.choice(others))
        elif change == 2:
            rng.shuffle(items)
        else:
            items[index] = mutate_value(items[index], rng, others)
        return items if rng.random() < 0.8 else tuple(items)
    if isinstance(value, dict) and value:
        changed = dict(value)
        key = rng.choice(list(changed))
        if rng.random() < 0.3:
            del changed[key]
        else:
            changed[key] = mutate_value(changed[key], rng, others)
        return changed
    return rng.choice(others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--multi-turn", type=int, default=0, help="mutated multi-turn episodes, about one per second")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=5, help="disagreements without a known reason to print")
    options = parser.parse_args()
    official, gold = OfficialChecker(), list(iter_gold())
    failed = report("gold answers", [(item, compare(official, *item)) for item in gold], options.show)
    not_right = [item for item in gold if not compare(official, *item).ours]
    print(f"  gold answers that envgen does not accept: {len(not_right)}")
    rng = Random(options.seed)
    others = [value for _, calls, _ in gold for call in calls for value in call.arguments.values()]
    others += ["", 0, 1, True, False, None, [], {}, [[]], [{}], {"a": 1}, (1, 2), "None", 1e300, -1]
    mutants = []
    for _ in range(options.mutants):
        entry, calls, category = rng.choice(gold)
        mutants.append((entry, mutate(calls, rng, others), category))
    failed |= report("mutated answers", [(item, compare(official, *item)) for item in mutants], options.show)
    if options.multi_turn:
        failed |= compare_multi_turn(options.multi_turn, rng)
    sys.exit(failed or bool(not_right))


def compare_multi_turn(count: int, rng: Random) -> bool:
    """Play mutated episodes, and compare the verdicts with those of the official checker."""
    from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import (  # pyright: ignore[reportMissingImports]
        multi_turn_checker,
    )

    bfcl, disagree, right = Bfcl(), 0, 0
    items = [item for category in MULTI_TURN for item in bfcl.items(category)]
    for number in range(count):
        item = rng.choice(items)
        functions, added = multi_turn_functions(bfcl.package, item.data)
        all_functions = [*functions, *(function for turn in added.values() for function in turn)]
        gold = gold_turns(item.data, all_functions)
        turns = [list(calls) for calls in gold]
        for _ in range(rng.randrange(3)):
            turn = rng.randrange(len(turns))
            if turns[turn]:
                turns[turn] = mutate(turns[turn], rng, ["x", 1, 0.5, True, None, []])
        turns = [[call for call in calls if call.name.isidentifier()] for calls in turns]
        steps = [[list(map(write_call, calls))] if calls else [] for calls in turns]
        answer = copy.deepcopy(item.data["ground_truth"])
        entry = copy.deepcopy(item.data)
        theirs = multi_turn_checker(steps, answer, entry, item.category, f"model{number}")["valid"]
        texts = [
            text for calls in turns for text in (f"[{', '.join(map(write_call, calls))}]", "Done.") if text != "[]"
        ]
        ours = play(bfcl, item, texts) == 1
        right += ours
        if ours != theirs:
            disagree += 1
            print(f"  {item.id}: ours {ours}, official {theirs}: {turns!r:.600}")
    print(f"{count:,} mutated multi-turn episodes: {right:,} right, they disagree {disagree:,}")
    return bool(disagree)


def play(bfcl: Bfcl, item: Item, texts: Sequence[str]) -> float:
    """The score of an episode with these replies."""
    episode = bfcl.episode(item)
    next(episode)
    try:
        for text in texts:
            episode.send(text_reply(text))
    except StopIteration as end:
        return end.value.score
    raise AssertionError(f"{item.id} does not end")


def report(title: str, results: Sequence[tuple[Any, Comparison]], show: int) -> bool:
    agreed = [result for _, result in results if result.ours == result.theirs]
    right = sum(result.ours for result in agreed)
    print(f"{len(results):,} {title}: both say right {right:,}, both say wrong {len(agreed) - right:,}, "
          f"they disagree {len(results) - len(agreed):,}")  # fmt: skip
    counts = Counter(
        (result.reason or "unknown", result.ours, result.theirs)
        for _, result in results
        if result.ours != result.theirs
    )
    for (reason, ours, theirs), count in counts.most_common():
        print(f"  {count:6,}  ours {ours}, official {theirs}: {reason} ({REASONS.get(reason, 'to be examined')})")
    unknown = [item for item, result in results if result.ours != result.theirs and not result.reason]
    for entry, calls, category in unknown[:show]:
        print(f"  {category} {entry['id']}: {[call._asdict() for call in calls]!r:.600}\n    expected "
              f"{entry['ground_truth']!r:.400}")  # fmt: skip
    return bool(unknown)


if __name__ == "__main__":
    main()
