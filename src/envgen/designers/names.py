"""Codes for names: an ablation of the EnvGen paper, which asks whether a model designs from the figures it is given or
from what it has read about the game. Settings become parameter1, parameter2, ..., those in groups item1, item2, ...,
the words they take option1, option2, ..., skills goal1, goal2, ..., and the world itself world1.

It works on text, on the way to the model and back, so that nothing else need know. Words are coded in singular and
plural and with spaces for underscores; prose that paraphrases a name is not caught.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, get_args, get_origin

from pydantic import BaseModel

from envgen.worlds.world import Skill

RESERVED = {"level", "levels", "purpose", "skills", "reasoning", "true", "false"}  # words of the reply's form


class NameObfuscator:
    def __init__(self, Level: type[BaseModel], skills: Sequence[Skill], world: str = ""):
        words = [*_words(Level), *(("goal", skill.name) for skill in skills), ("world", world)]
        self.codes: dict[str, str] = {}
        counts: dict[str, int] = {}
        for kind, word in sorted(words, key=lambda pair: pair[0] == "option"):  # a word that is both is a setting
            if word and word not in self.codes and word not in RESERVED:
                counts[kind] = counts.get(kind, 0) + 1
                self.codes[word] = f"{kind}{counts[kind]}"
        self._words = {code: word for word, code in self.codes.items()}
        self._forms = {form.lower(): code for word, code in self.codes.items() for form in _forms(word) - RESERVED}
        self._forms |= {word.lower(): code for word, code in self.codes.items()}  # a name is no other's plural
        self._forms.setdefault(Level.__name__.lower(), "level")  # as errors call it
        longest = sorted(self._forms, key=len, reverse=True)
        self._hide = re.compile(
            rf"(?<![A-Za-z0-9_])({'|'.join(map(re.escape, longest))})(?![A-Za-z0-9_])", re.IGNORECASE | re.ASCII
        )
        self._show = re.compile(r"\b(?:parameter|option|item|goal|world)\d+\b", re.IGNORECASE | re.ASCII)

    def encode(self, text: str) -> str:
        return self._hide.sub(lambda found: self.codes.get(found[0], self._forms[found[0].lower()]), text)

    def decode(self, text: str) -> str:
        return self._show.sub(lambda found: self._words.get(found[0].lower(), found[0]), text)


def _words(kind: type[BaseModel], code: str = "parameter") -> Iterator[tuple[str, str]]:
    """Every name of a setting and word that one can take."""
    for name, field in kind.model_fields.items():
        yield code, name
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _words(inner, "item")
        elif get_origin(inner) is Literal:
            yield from (("option", word) for word in get_args(inner) if isinstance(word, str))


def _forms(word: str) -> set[str]:
    """How a name is written in prose."""
    spaced = word.replace("_", " ")
    single = spaced[:-1] if spaced.endswith("s") else spaced
    return {word, spaced, single, single + "s"}
