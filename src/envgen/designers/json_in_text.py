"""JSON wherever it stands in a text, with the slips that language models make forgiven, in bounded time.

Nothing is evaluated. Not here: what the JSON should say (reply.py).
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

LONGEST = 100_000  # characters of a text that is worth reading
WORDS = 400  # characters shown of something that a model wrote

# Where JSON is broken, it is looked for again inside. That may not take for ever.
ATTEMPTS = 2_000  # places at which it may begin
EFFORT = 10 * LONGEST  # characters read at all of them together
DEEPEST = 20  # objects and lists inside each other

OPEN = re.compile(r"[{\[]")
BEGUN = re.compile(r'\{\s*"[^"\n]*"\s*:|\[\s*\{\s*"')  # no prose begins like that
TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\]++|\\.)*+(?:"|\Z))'
    r"|(?P<space>(?:\s|//[^\n]*|\#[^\n]*|/\*(?:.*?\*/|.*))++)"  # comments are space
    r"|[A-Za-z_]\w*|.",
    re.DOTALL,
)
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
CONSTANTS = {"True": "true", "False": "false", "None": "null"}
DIGITS = 18  # of a whole number; longer ones become floats, which no setting takes
DECODER = json.JSONDecoder(strict=False, parse_int=lambda text: int(text) if len(text) <= DIGITS else float(text))


class Piece(NamedTuple):
    """What a bracket begins: a value, or JSON that is broken, and why."""

    start: int
    end: int
    value: Any = None
    trouble: str = ""
    inside: bool = False  # of broken JSON


def pieces(text: str) -> Iterator[Piece]:
    """Every JSON object and list in a text, outermost only, with the slips that models make forgiven."""
    at = broken = effort = 0
    for _ in range(ATTEMPTS):
        begin = OPEN.search(text, at)
        if begin is None or effort > EFFORT:
            return
        start = begin.start()
        plain, end = forgiven(text, start)
        effort += end - start
        try:
            value = DECODER.decode(plain)
        except json.JSONDecodeError as error:
            at = start + 1
            if start >= broken and BEGUN.match(text, start):
                broken = end
                yield Piece(start, end, trouble=_trouble(error))
        else:
            at = end
            yield Piece(start, end, value, inside=start < broken)


def _trouble(error: json.JSONDecodeError) -> str:
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
        return "the JSON has no end; the reply may have been cut off"
    around = error.doc[max(0, error.pos - 30) : error.pos + 20]
    return printable(f"the JSON is broken in {around!r}: {error.msg}")


def forgiven(text: str, start: int) -> tuple[str, int]:
    """What a bracket begins, up to the one that ends it, and its end; without comments and trailing commas, with JSON's
    own constants for Python's, and with needless backslashes left out."""
    kept: list[str] = []
    comma, depth, end = "", 0, start
    for token in TOKEN.finditer(text, start):
        word, end = token[0], token.end()
        if token["space"]:
            word = " "
        elif word == ",":
            kept.append(comma)
            comma = ","
            continue
        else:
            kept.append("" if word in "]}" else comma)
            comma = ""
        if token["string"]:
            word = ESCAPE.sub(lambda found: found[0] if found[1] in '"\\/bfnrtu' else found[1], word)
        kept.append(CONSTANTS.get(word, word))
        depth += (word in "[{") - (word in "]}")
        if depth == 0 or depth > DEEPEST:
            break
    return "".join(kept), end


def printable(text: Any, most: int = WORDS) -> str:
    return "".join(c if c.isprintable() else " " for c in str(text)[:most]).strip()
