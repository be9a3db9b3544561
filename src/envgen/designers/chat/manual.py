"""A person as the language model: each request is a file to read, each reply a file to write.

The person pastes the request into whatever they have at hand, or answers it themself. Nothing is sent and nothing is
charged. A request waits for ever, also across restarts.
"""

import os
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from envgen.runs.checkpoint import flush_folder, write_flushed
from envgen.runs.store import write_json

from .protocol import Ask, ChatError, Reply

REQUEST = re.compile(r"(\d+)-([0-9a-f]{8})\.md")


class ManualBackend:
    name, free = "manual", True

    def __init__(
        self,
        folder: Path,
        poll: float = 0.5,
        say: Callable[[str], object] = print,
        sleep: Callable[[float], object] = time.sleep,
    ):
        """Looks for the reply every `poll` seconds, and tells the person by `say` which files to use."""
        self.folder, self.poll, self.say, self.sleep = Path(folder), poll, say, sleep
        self._asked: Counter[str] = Counter()

    def recalled(self, ask: Ask) -> None:
        self._asked[ask.digest] += 1

    def send(self, ask: Ask) -> Reply:
        digest = ask.digest
        try:
            question = self._question(ask, digest)
            answer = _answer_to(question)
            self.say(f"Read {question}\nand put the reply into {answer}")
            text = self._awaited(answer)
        except OSError as error:
            raise ChatError(f"cannot use the files in {self.folder}: {error.strerror}") from error
        self._asked[digest] += 1
        return Reply(text=text, model=self.name)

    def _question(self, ask: Ask, digest: str) -> Path:
        """The file of this request: the one of before a restart, or else a new one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        matches = [found for entry in self.folder.iterdir() if (found := REQUEST.fullmatch(entry.name))]
        numbers = sorted(int(found[1]) for found in matches)
        same = sorted(int(found[1]) for found in matches if found[2] == digest[:8])
        if len(same) > self._asked[digest]:
            return self.folder / f"{same[self._asked[digest]]}-{digest[:8]}.md"
        number = numbers[-1] + 1 if numbers else 1
        file = self.folder / f"{number}-{digest[:8]}.md"
        fresh = self.folder / f".{file.name}.unfinished"
        if ask.schema is not None:  # for programs; a person would have to scroll past it
            write_json(file.with_suffix(".schema.json"), ask.schema)
        write_flushed(fresh, _page(ask, number, _answer_to(file)).encode())
        os.replace(fresh, file)
        flush_folder(self.folder)
        return file

    def _awaited(self, file: Path) -> str:
        """The file's text once it is there, says something, and has stayed the same for one poll."""
        before, told = b"", False
        while True:
            now = b""
            with suppress(FileNotFoundError):
                now = file.read_bytes()
            if now and now == before:
                try:
                    text = now.decode("utf-8-sig").strip()
                except UnicodeDecodeError:
                    text = ""
                    if not told:
                        self.say(f"{file} is not UTF-8 text; save it as UTF-8")
                    told = True
                if text:
                    return text
            before = now
            self.sleep(self.poll)


def _answer_to(question: Path) -> Path:
    return question.with_name(f"{question.stem}.reply.md")


def _page(ask: Ask, number: int, answer: Path) -> str:
    """The newest message comes last, for whoever has the conversation open already."""
    parts = [f"# Request {number}"]
    *earlier, newest = ask.messages
    parts += [f"## {message.role}\n\n{message.content}" for message in earlier]
    known = any(message.role == "assistant" for message in earlier)
    title = f"## {newest.role}" + (" (new; the rest was said before)" if known else "")
    parts.append(f"{title}\n\n{newest.content}")
    parts.append(f"---\nPut the reply, and nothing else, into {answer}")
    return "\n\n".join(parts) + "\n"
