"""Codes for names: an ablation of the EnvGen paper, which asks whether a model designs from the numbers it is given or
from what it has read about the game. Settings become parameter1, parameter2, ..., those in groups item1, item2, ...,
their values option1, option2, ..., skills goal1, goal2, ..., and the world itself world1.

It works on text, on the way to the model and back, so that no other code needs to know about it. Names are coded in
singular and plural and with spaces for underscores. Common words such as "one" or "start" are coded only where they are
names: in quotes, in lists of values, before a colon, and in the description of a setting that has them as values. Prose
that paraphrases a name is not coded.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from envgen.settings import list_options
from envgen.worlds.world import Skill

RESERVED = {  # words of the reply's format
    "level", "levels", "purpose", "skills", "reasoning", "weight", "base", "chain", "true", "false",
}  # fmt: skip
COMMON_WORDS = frozenset({
    "all", "any", "fast", "few", "held", "long", "many", "near", "no", "none", "one", "open", "original", "short",
    "slow", "some", "speed", "start", "three", "two",
})  # fmt: skip
HEADING = re.compile(r"\s*- ([\w, ]+): ")  # of the description of settings in the prompt


class NameObfuscator:
    """Replaces the names of a world by codes, and codes by names."""

    def __init__(self, level_type: type[BaseModel], skills: Sequence[Skill], world: str = ""):
        words = [*_level_words(level_type), *(("goal", skill.name) for skill in skills), ("world", world)]
        self.codes: dict[str, str] = {}
        counts: dict[str, int] = {}
        # Options come last: a word that names both a setting and a value gets the code of the setting.
        for kind, word in sorted(words, key=lambda pair: pair[0] == "option"):
            if word and word not in self.codes and word not in RESERVED:
                counts[kind] = counts.get(kind, 0) + 1
                self.codes[word] = f"{kind}{counts[kind]}"
        self._words = {code: word for word, code in self.codes.items()}
        self._options = _options_by_setting(level_type)
        self._forms = {form.lower(): code for word, code in self.codes.items() for form in _forms(word) - RESERVED}
        self._forms |= {word.lower(): code for word, code in self.codes.items()}  # a name takes precedence over plurals
        self._forms.setdefault(level_type.__name__.lower(), "level")  # its name in error messages
        longest_first = sorted(self._forms, key=len, reverse=True)
        self._name_pattern = re.compile(
            rf"(?<![A-Za-z0-9_])({'|'.join(map(re.escape, longest_first))})(?![A-Za-z0-9_])", re.IGNORECASE | re.ASCII
        )
        self._code_pattern = re.compile(r"\b(?:parameter|option|item|goal|world)\d+\b", re.IGNORECASE | re.ASCII)

    def encode(self, text: str) -> str:
        """Replace the names in a text by codes."""
        return "\n".join(self._encode_line(line) for line in text.split("\n"))

    def encode_name(self, name: str) -> str:
        """The code of a single name; anything else stays as it is."""
        return self.codes.get(name, name)

    def decode(self, text: str) -> str:
        """Replace the codes in a text by names."""
        return self._code_pattern.sub(lambda match: self._words.get(match[0].lower(), match[0]), text)

    def _encode_line(self, line: str) -> str:
        heading = HEADING.match(line)
        settings = heading[1].split(", ") if heading else []
        options = {option for setting in settings for option in self._options.get(setting, ())}
        heading_end = heading.end() if heading and all(name in self._options for name in settings) else 0

        def replace(match: re.Match[str]) -> str:
            word, form = match[0], match[0].lower()
            is_prose = form in COMMON_WORDS and form not in options and match.start() >= heading_end
            if is_prose and not _is_name_position(line, match.start(), match.end()):
                return word
            return self.codes.get(word, self._forms[form])

        return self._name_pattern.sub(replace, line)


def _is_name_position(line: str, start: int, end: int) -> bool:
    """Whether the syntax around a word shows that it is a name and not part of a sentence."""
    before, after = line[:start], line[end:]
    return (
        (before[-1:] in ("'", '"', "`") and after[:1] == before[-1:])
        or before.endswith(("| ", "(default "))
        or after.startswith((" |", ":"))
        or re.match(r"\.\w", after) is not None  # in a dotted name
        or re.search(r"\w\.$", before) is not None
        or re.search(r"is not one of [^;]*$", before) is not None  # in an error message
    )


def _level_words(level_type: type[BaseModel], kind: str = "parameter") -> Iterator[tuple[str, str]]:
    """Every name of a setting and every word that is a value, each with the kind of its code."""
    for name, field in level_type.model_fields.items():
        yield kind, name
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from _level_words(annotation, "item")
        else:
            yield from (("option", word) for word in _options(annotation) if isinstance(word, str))


def _options_by_setting(level_type: type[BaseModel]) -> dict[str, set[str]]:
    """The words that are values of each setting, including those in groups."""
    options: dict[str, set[str]] = {}
    for name, field in level_type.model_fields.items():
        annotation = field.annotation
        words = options.setdefault(name, set())
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            for inner_name, inner_words in _options_by_setting(annotation).items():
                options.setdefault(inner_name, set()).update(inner_words)
        else:
            words.update(word for word in _options(annotation) if isinstance(word, str))
    return options


def _options(annotation: Any) -> tuple[Any, ...]:
    """The options of a setting that is one of them or a list of them."""
    return get_args(annotation) if get_origin(annotation) is Literal else list_options(annotation)


def _forms(word: str) -> set[str]:
    """How a name may be written in prose."""
    if word in COMMON_WORDS:
        return {word}
    spaced = word.replace("_", " ")
    singular = spaced[:-1] if spaced.endswith("s") else spaced
    return {word, spaced, singular, singular + "s"}
