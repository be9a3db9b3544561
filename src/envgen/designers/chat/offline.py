"""Backends that call no server: a person who answers through files, and the ledger of an earlier run."""

import os
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from envgen.runs.files import check_inside, flush_folder, read_regular, write_flushed
from envgen.runs.store import write_json

from .ledger import LEDGER, read_lines, recorded_rejections, recorded_replies
from .protocol import MAX_REPLY_CHARS, Backend, ChatError, ChatRequest, RejectedError, Reply

MAX_REPLY_BYTES = 4 * MAX_REPLY_CHARS  # characters take up to four bytes, and longer replies are cut
REQUEST_FILE = re.compile(r"(\d+)-([0-9a-f]{8})\.md")


class ManualBackend(Backend):
    """A person as the language model: each request is a file to read, each reply a file to write.

    The person can answer, or paste the request into any chat program. A request waits indefinitely, even across
    restarts.
    """

    name, free = "manual", True

    def __init__(
        self,
        folder: Path,
        poll: float = 0.5,
        notify: Callable[[str], object] = print,
        sleep: Callable[[float], object] = time.sleep,
    ):
        """Checks for the reply every `poll` seconds. `notify` receives the names of the files to use."""
        self.folder, self.poll, self.notify, self.sleep = Path(folder), poll, notify, sleep
        self._answered: Counter[str] = Counter()  # requests by digest

    def mark_answered(self, request: ChatRequest) -> None:
        self._answered[request.digest] += 1

    def send(self, request: ChatRequest) -> Reply:
        digest = request.digest
        try:
            request_file = self._request_file(request, digest)
            reply_file = _reply_file(request_file)
            self.notify(f"Read {request_file}\nand write the reply to {reply_file}")
            text = self._wait_for(reply_file)
        except OSError as error:
            name = f"{Path(error.filename).name}: " if error.filename else ""
            raise ChatError(f"cannot use the files in {self.folder}: {name}{error.strerror}") from error
        self._answered[digest] += 1
        return Reply(text=text, model=self.name)

    def _request_file(self, request: ChatRequest, digest: str) -> Path:
        """The file of this request: the one written before a restart, or a new one."""
        check_inside(self.folder.parent, self.folder / "1")
        self.folder.mkdir(parents=True, exist_ok=True)
        matches = [match for entry in self.folder.iterdir() if (match := REQUEST_FILE.fullmatch(entry.name))]
        numbers = sorted(int(match[1]) for match in matches)
        same_digest = sorted(int(match[1]) for match in matches if match[2] == digest[:8])
        if len(same_digest) > self._answered[digest]:
            return self.folder / f"{same_digest[self._answered[digest]]}-{digest[:8]}.md"
        number = numbers[-1] + 1 if numbers else 1
        file = self.folder / f"{number}-{digest[:8]}.md"
        partial = self.folder / f".{file.name}.unfinished"
        if request.json_schema is not None:  # in a file of its own, as people rarely need it
            write_json(_schema_file(file), request.json_schema)
        write_flushed(partial, _format_request(request, number, file).encode())
        os.replace(partial, file)
        flush_folder(self.folder)
        return file

    def _wait_for(self, file: Path) -> str:
        """The file's text as soon as it exists, is not blank and has not changed for one poll."""
        previous, warned = b"", False
        while True:
            content = b""
            with suppress(FileNotFoundError):
                content = read_regular(file, max_bytes=MAX_REPLY_BYTES)
            if content and content == previous:
                try:
                    text = content.decode("utf-8-sig").strip()
                except UnicodeDecodeError:
                    text = ""
                    if not warned:
                        self.notify(f"{file} is not UTF-8 text; save it as UTF-8")
                    warned = True
                if text:
                    return text
            previous = content
            self.sleep(self.poll)


def _reply_file(request_file: Path) -> Path:
    return request_file.with_name(f"{request_file.stem}.reply.md")


def _schema_file(request_file: Path) -> Path:
    return request_file.with_suffix(".schema.json")


def open_requests(folder: Path) -> list[Path]:
    """The request files in a folder that `ManualBackend` uses which have no reply yet, the oldest first."""
    try:
        if folder.is_symlink():
            return []
        matches = sorted(
            (int(match[1]), entry) for entry in folder.iterdir() if (match := REQUEST_FILE.fullmatch(entry.name))
        )
    except OSError:
        return []
    return [file for _, file in matches if not _has_reply(file)]


def _has_reply(request_file: Path) -> bool:
    try:
        return bool(read_regular(_reply_file(request_file), max_bytes=MAX_REPLY_BYTES).strip())
    except FileNotFoundError:
        return False
    except OSError:  # a symbolic link, or too large: it is there, and only its author can replace it
        return True


def write_reply(request_file: Path, text: str) -> Path:
    """Write the reply to a request that has none, in one step: `ManualBackend` never reads half of it.

    Returns the reply file. Raises FileExistsError if there is a reply already, ValueError if the text is blank.
    """
    if not text.strip():
        raise ValueError("the reply is empty")
    file = _reply_file(request_file)
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}.unfinished")
    try:
        write_flushed(partial, text.encode(errors="replace"))
        if _has_reply(request_file):
            raise FileExistsError(None, "the request has a reply already", str(file))
        os.replace(partial, file)
        flush_folder(file.parent)
    finally:
        partial.unlink(missing_ok=True)
    return file


def _format_request(request: ChatRequest, number: int, file: Path) -> str:
    """The conversation with the newest message last, for people who have the rest open already."""
    parts = [f"# Request {number}"]
    *earlier, newest = request.messages
    parts += [f"## {message.role}\n\n{message.content}" for message in earlier]
    is_continuation = any(message.role == "assistant" for message in earlier)
    title = f"## {newest.role}" + (" (new since the last reply)" if is_continuation else "")
    parts.append(f"{title}\n\n{newest.content}")
    lines = [f"---\nWrite the reply, and nothing else, to {_reply_file(file)}"]
    lines.append("It is read as soon as it exists: programs should write another file first, and rename it.")
    if request.json_schema is not None:
        lines.append(f"The JSON schema of the reply is in {_schema_file(file)}")
    parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


class ReplayBackend(Backend):
    """The ledger of an earlier run as the language model: the same requests get the same replies, free of charge.

    A request that was rejected and got no reply later is rejected again.
    """

    free = True

    def __init__(self, path: Path):
        """`path` is a ledger or a run directory that contains one."""
        path = Path(path)
        self.name = f"replay:{path}"
        self.file = path / LEDGER if path.is_dir() else path
        if not self.file.is_file():
            raise ChatError(f"there is no ledger {self.file} to replay; pass a run directory with a {LEDGER}")
        # A ledger that the user names may be a symbolic link; one inside a run directory may not.
        lines = read_lines(self.file if path.is_dir() else path.resolve())
        self._replies, self._rejections = recorded_replies(lines), recorded_rejections(lines)
        self._answered: Counter[str] = Counter()  # requests by digest

    def mark_answered(self, request: ChatRequest) -> None:
        self._answered[request.digest] += 1

    def send(self, request: ChatRequest) -> Reply:
        digest = request.digest
        replies = self._replies.get(digest, [])
        if not replies and digest in self._rejections:
            rejection = self._rejections[digest]
            raise RejectedError(str(rejection), rejection.status)
        if self._answered[digest] >= len(replies):
            number = self._answered.total() + 1
            reason = f"is recorded {len(replies)} times and was sent once more" if replies else "is not recorded there"
            raise RejectedError(
                f"the conversation differs from the one in {self.file}: request {number} ({digest[:8]}) {reason}; "
                "replay with the settings and the version of the recorded run, or use a model"
            )
        self._answered[digest] += 1
        return replies[self._answered[digest] - 1]
