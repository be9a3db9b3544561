"""Reads and writes PDDL: lists in parentheses, and the problems of ALFWorld's games."""

import re
from collections.abc import Iterator

from .game import Fact, Formula, GameError, Problem, Texts

MAX_DEPTH = 200
_TOKEN = re.compile(r"[()]|[^\s();]+|;[^\n]*")


def parse_lists(text: str) -> tuple[Formula, ...]:
    """The lists of a PDDL text as nested tuples of words in lower case."""
    stack: list[list[Formula]] = [[]]
    for token in _TOKEN.findall(text.lower()):
        if token.startswith(";"):
            continue
        if token == "(":
            stack.append([])
            if len(stack) > MAX_DEPTH:
                raise GameError(f"lists are nested more than {MAX_DEPTH} deep")
        elif token == ")":
            if len(stack) == 1:
                raise GameError("a closing parenthesis too many")
            done = stack.pop()
            stack[-1].append(tuple(done))
        else:
            stack[-1].append(token)
    if len(stack) > 1:
        raise GameError("a closing parenthesis is missing")
    return tuple(stack[0])


def sections(text: str, kind: str) -> Iterator[tuple[Formula, ...]]:
    """The sections of `(define (problem ...) (:objects ...) ...)`."""
    for form in parse_lists(text):
        if isinstance(form, tuple) and form[:1] == ("define",):
            if not any(isinstance(part, tuple) and part[:1] == (kind,) for part in form):
                raise GameError(f"not a PDDL {kind}")
            yield from (part for part in form if isinstance(part, tuple) and part[:1] != (kind,))
            return
    raise GameError(f"not a PDDL {kind}: (define ...) is missing")


def parse_problem(text: str, task: str, texts: Texts = Texts()) -> Problem:  # noqa: B008
    """A problem as ALFWorld writes it. Costs and distances are left out, because no rule uses them."""
    types: dict[str, str] = {}
    facts: dict[Fact, None] = {}
    goal: Formula | None = None
    for section in sections(text, "problem"):
        if section[0] == ":objects":
            types |= _parse_objects(section[1:])
        elif section[0] == ":init":
            for fact in section[1:]:
                if not isinstance(fact, tuple) or not fact:
                    raise GameError(f"not a fact: {fact!s:.80}")
                if fact[0] == "=":
                    continue
                if not all(isinstance(word, str) for word in fact):
                    raise GameError(f"not a fact: {fact!s:.80}")
                facts[tuple(str(word) for word in fact)] = None
        elif section[0] == ":goal" and len(section) == 2:
            goal = section[1]
    if not types or goal is None:
        raise GameError("a PDDL problem needs :objects, :init and :goal")
    return Problem(types, tuple(facts), goal, task, texts)


def _parse_objects(words: tuple[Formula, ...]) -> dict[str, str]:
    types: dict[str, str] = {}
    names: list[str] = []
    rest = iter(words)
    for word in rest:
        if not isinstance(word, str):
            raise GameError(f"not a list of objects: {word!s:.80}")
        if word == "-":
            kind = next(rest, None)
            if not isinstance(kind, str):
                raise GameError(f"the objects {' '.join(names):.80} have no type")
            types |= dict.fromkeys(names, kind)
            names = []
        else:
            names.append(word)
    if names:
        raise GameError(f"the objects {' '.join(names):.80} have no type")
    return types


def format_problem(problem: Problem, name: str = "game") -> str:
    """The PDDL text of a problem."""
    objects = "\n".join(f"    {entity} - {kind}" for entity, kind in problem.types.items())
    facts = "\n".join(f"    ({' '.join(fact)})" for fact in problem.facts)
    return (
        f"(define (problem {name})\n(:domain alfred)\n(:objects\n{objects}\n)\n"
        f"(:init\n    (= (total-cost) 0)\n{facts}\n)\n(:goal {format_formula(problem.goal)})\n"
        "(:metric minimize (total-cost))\n)\n"
    )


def format_formula(formula: Formula) -> str:
    return formula if isinstance(formula, str) else f"({' '.join(map(format_formula, formula))})"
