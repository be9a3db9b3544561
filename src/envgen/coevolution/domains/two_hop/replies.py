"""What a reply to a question says: a search query or an answer. The benchmark Bamboogle and the domain share it."""

import re
import unicodedata

MAX_CHARS = 20_000  # of a reply; what comes before is ignored
LABEL = r"(?:final +)?answer[ *_`]*:"
ANSWER = re.compile(  # it has a word, and may begin below its label
    rf"^(?:[^\w\n]|_)*{LABEL}[*_`\s]*+(?!{LABEL})(.*[^\W_].*)$", re.IGNORECASE | re.MULTILINE
)
SEARCH = re.compile(r"^(?:[^\w\n]|_)*search[ *_`]*:[ *_`]*(.+)$", re.IGNORECASE | re.MULTILINE)
MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
          "november", "december")  # fmt: skip


def find_query(text: str) -> str | None:
    """The query of a reply that ends with a search; None if the reply answers, or does neither."""
    text = text[-MAX_CHARS:]
    searches, answers = list(SEARCH.finditer(text)), list(ANSWER.finditer(text))
    if not searches or (answers and answers[-1].start() > searches[-1].start()):
        return None
    return searches[-1][1].strip()


def find_answer(text: str) -> str:
    """What follows the last `Answer:` in its line or the next one, or the last line of a reply without it."""
    text = text[-MAX_CHARS:]
    if matches := ANSWER.findall(text):
        return matches[-1].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def normalize(text: str) -> list[str]:
    """The words of an answer in lower case, without accents, articles, punctuation and thousands separators.

    A date such as `January 5, 1990` becomes `5 January 1990`, and initials such as `D.C.` become one word.
    """
    text = unicodedata.normalize("NFKD", text).casefold()
    text = "".join(char for char in text if not unicodedata.combining(char))
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
    text = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", text)
    text = re.sub(r"\b[^\W\d_](?:\. ?[^\W\d_]\b)+", lambda initials: re.sub(r"[. ]", "", initials[0]), text)
    words = re.findall(r"\d+(?:\.\d+)?|[^\W\d_]+", text)
    words = [word for word in words if word not in ("a", "an", "the")]
    for k in range(len(words) - 2):
        if words[k] in MONTHS and words[k + 1].isdecimal() and words[k + 2].isdecimal():
            words[k], words[k + 1] = words[k + 1], words[k]
    return words
