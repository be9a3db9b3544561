"""A person answers through files, at any pace and across restarts."""

import json
import threading

import pytest

from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Ledger
from envgen.designers.chat.offline import ManualBackend
from envgen.designers.chat.protocol import ChatError, ChatRequest, Message
from special_files import KINDS, make_special_file

POLL = 0.02


def request_with(*contents: str, **fields) -> ChatRequest:
    roles = ("system", *("user", "assistant") * 9)
    return ChatRequest(
        messages=tuple(Message(role=r, content=c) for r, c in zip(roles, contents, strict=False)), **fields
    )


class Interrupted(Exception):
    pass


def send_and_kill(folder, request):
    """The request file and reply file of a program that was killed while it waited, and its message."""

    def kill(line):
        raise Interrupted(line)

    with pytest.raises(Interrupted) as caught:
        ManualBackend(folder, POLL, kill).send(request)
    [request_file] = [file for file in folder.iterdir() if str(file) in str(caught.value)]
    return request_file, request_file.with_name(f"{request_file.stem}.reply.md"), str(caught.value)


def test_a_request_file_has_the_newest_message_last(tmp_path):
    request = request_with("You design.", "Trees?", "Three.", "Fewer!", json_schema={"type": "object"})
    request_file, reply_file, message = send_and_kill(tmp_path, request)
    assert request_file.name == f"1-{request.digest[:8]}.md"
    assert str(request_file) in message
    assert str(reply_file) in message
    page = request_file.read_text()
    places = [page.index(text) for text in ("You design.", "Trees?", "Three.", "Fewer!")]
    assert places == sorted(places)
    assert json.loads(request_file.with_suffix(".schema.json").read_text()) == {"type": "object"}
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == ["## system", "## user", "## assistant", "## user (new since the last reply)"]
    end = page.splitlines()[-4:]
    assert end[0] == "---"
    assert end[1].endswith(f"to {reply_file}")
    assert end[3].endswith(f"is in {request_file.with_suffix('.schema.json')}")


def test_a_reply_is_read_only_when_it_is_complete(tmp_path):
    request, messages = request_with("You design.", "Trees?"), []
    reply_file = tmp_path / f"1-{request.digest[:8]}.reply.md"
    strokes = iter(["", " \n", '{"trees":', ' {"of":', " 3}}"])  # what the person adds between two polls

    def write(seconds):
        with open(reply_file, "a") as out:
            out.write(next(strokes, ""))

    assert ManualBackend(tmp_path, POLL, messages.append, write).send(request).text == '{"trees": {"of": 3}}'
    assert len(messages) == 1


def test_a_person_may_write_while_the_program_waits(tmp_path):
    request, is_waiting = request_with("You design.", "Trees?"), threading.Event()

    def person():
        is_waiting.wait(10)
        with open(tmp_path / f"1-{request.digest[:8]}.reply.md", "w") as out:
            for half in ("thr", "ee"):
                out.write(half)
                out.flush()

    writer = threading.Thread(target=person)
    writer.start()
    assert ManualBackend(tmp_path, 0.3, lambda line: is_waiting.set()).send(request).text == "three"
    writer.join()


def test_a_reply_written_while_the_program_was_dead_is_found(tmp_path):
    _, reply_file, _ = send_and_kill(tmp_path, request_with("s", "one"))
    repeated, _, _ = send_and_kill(tmp_path, request_with("s", "one"))
    assert repeated.name.startswith("1-")
    other, _, _ = send_and_kill(tmp_path, request_with("s", "two"))
    assert other.name.startswith("2-")
    reply_file.write_bytes(b"\xef\xbb\xbfyes\r\n")  # as some editors write
    assert ManualBackend(tmp_path, POLL, lambda line: None).send(request_with("s", "one")).text == "yes"


def test_the_same_request_twice_is_two_files(tmp_path):
    request, ledger = request_with("s", "one"), tmp_path / "ledger.jsonl"
    folder = tmp_path / "manual"
    _, reply_file, _ = send_and_kill(folder, request)
    reply_file.write_text("first")
    chat = Chat(ManualBackend(folder, POLL, lambda line: None), Ledger(ledger))
    assert chat.complete(request).text == "first"
    (folder / f"2-{request.digest[:8]}.reply.md").write_text("second")
    chat = Chat(ManualBackend(folder, POLL, lambda line: None), Ledger(ledger))  # restarted
    assert [chat.complete(request).text, chat.complete(request).text] == ["first", "second"]
    assert (folder / f"2-{request.digest[:8]}.md").exists()
    assert chat.totals().cost == 0


def test_waiting_counts_no_calls(tmp_path):
    request = request_with("s", "one")

    def kill(line):
        raise Interrupted

    for _ in range(3):
        chat = Chat(ManualBackend(tmp_path, POLL, kill), Ledger(tmp_path / "ledger.jsonl"))
        with pytest.raises(Interrupted):
            chat.complete(request)
    assert chat.totals().calls == 0


def test_a_reply_that_is_not_utf8_is_reported_and_awaited(tmp_path):
    _, reply_file, _ = send_and_kill(tmp_path, request_with("s", "one"))
    reply_file.write_bytes("ja".encode("utf-16"))
    messages = []

    def notify(line):
        messages.append(line)
        if "UTF-8" in line:
            reply_file.write_text("yes")

    assert ManualBackend(tmp_path, POLL, notify).send(request_with("s", "one")).text == "yes"
    assert len(messages) == 2


def test_ctrl_c_ends_the_wait(tmp_path):
    def interrupt(seconds):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ManualBackend(tmp_path, POLL, lambda line: None, interrupt).send(request_with("s", "one"))


def test_a_linked_folder_is_not_used(tmp_path):
    """In someone else's run directory, it could lead anywhere."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "requests").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ChatError, match=r"cannot use the files in .*: it is outside"):
        ManualBackend(tmp_path / "run" / "requests", POLL, pytest.fail).send(request_with("s", "one"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_an_unusable_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ChatError, match="cannot use the files in"):
        ManualBackend(tmp_path / "file", POLL, lambda line: None).send(request_with("s", "one"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_that_cannot_be_read_ends_the_wait(tmp_path, kind):
    _, reply_file, _ = send_and_kill(tmp_path, request_with("s", "one"))
    make_special_file(reply_file, kind)
    with pytest.raises(
        ChatError, match=r"reply\.md: it (has 1,099,511,627,776 bytes|is a symbolic link|is not a regular)"
    ):
        ManualBackend(tmp_path, POLL, lambda line: None).send(request_with("s", "one"))
