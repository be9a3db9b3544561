"""A person answers through files, at their own pace, and no restart loses anything."""

import json
import threading

import pytest

from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Ledger
from envgen.designers.chat.offline import ManualBackend
from envgen.designers.chat.protocol import ChatError, ChatRequest, Message

POLL = 0.02


def talk(*contents: str, **kw) -> ChatRequest:
    roles = ("system", *("user", "assistant") * 9)
    return ChatRequest(messages=tuple(Message(role=r, content=c) for r, c in zip(roles, contents, strict=False)), **kw)


class Waiting(Exception):
    pass


def asked(folder, ask):
    """The page a person finds, of a program that was killed while it waited."""

    def kill(line):
        raise Waiting(line)

    with pytest.raises(Waiting) as caught:
        ManualBackend(folder, POLL, kill).send(ask)
    [request] = [file for file in folder.iterdir() if str(file) in str(caught.value)]
    return request, request.with_name(f"{request.stem}.reply.md"), str(caught.value)


def test_a_request_is_a_page_with_the_newest_message_last(tmp_path):
    ask = talk("You design.", "Trees?", "Three.", "Fewer!", json_schema={"type": "object"})
    request, answer, said = asked(tmp_path, ask)
    assert request.name == f"1-{ask.digest[:8]}.md"
    assert str(request) in said
    assert str(answer) in said
    page = request.read_text()
    places = [page.index(text) for text in ("You design.", "Trees?", "Three.", "Fewer!")]
    assert places == sorted(places)
    assert json.loads(request.with_suffix(".schema.json").read_text()) == {"type": "object"}
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings == ["## system", "## user", "## assistant", "## user (new since the last reply)"]
    assert page.splitlines()[-1].endswith(str(answer))


def test_a_reply_is_read_only_when_it_is_whole(tmp_path):
    ask, said = talk("You design.", "Trees?"), []
    answer = tmp_path / f"1-{ask.digest[:8]}.reply.md"
    strokes = iter(["", " \n", '{"trees":', ' {"of":', " 3}}"])  # what the person adds between two looks

    def write(seconds):
        with open(answer, "a") as out:
            out.write(next(strokes, ""))

    assert ManualBackend(tmp_path, POLL, said.append, write).send(ask).text == '{"trees": {"of": 3}}'
    assert len(said) == 1


def test_a_person_may_write_while_the_program_waits(tmp_path):
    ask, asked = talk("You design.", "Trees?"), threading.Event()

    def person():
        asked.wait(10)
        with open(tmp_path / f"1-{ask.digest[:8]}.reply.md", "w") as out:
            for half in ("thr", "ee"):
                out.write(half)
                out.flush()

    writer = threading.Thread(target=person)
    writer.start()
    assert ManualBackend(tmp_path, 0.3, lambda line: asked.set()).send(ask).text == "three"
    writer.join()


def test_an_answer_given_while_the_program_was_dead_is_found(tmp_path):
    _, answer, _ = asked(tmp_path, talk("s", "one"))
    again, _, _ = asked(tmp_path, talk("s", "one"))
    assert again.name.startswith("1-")
    other, _, _ = asked(tmp_path, talk("s", "two"))
    assert other.name.startswith("2-")
    answer.write_bytes(b"\xef\xbb\xbfyes\r\n")  # as some editors write
    assert ManualBackend(tmp_path, POLL, lambda line: None).send(talk("s", "one")).text == "yes"


def test_the_same_question_twice_is_two_pages(tmp_path):
    ask, ledger = talk("s", "one"), tmp_path / "ledger.jsonl"
    folder = tmp_path / "manual"
    _, answer, _ = asked(folder, ask)
    answer.write_text("first")
    chat = Chat(ManualBackend(folder, POLL, lambda line: None), Ledger(ledger))
    assert chat.complete(ask).text == "first"
    (folder / f"2-{ask.digest[:8]}.reply.md").write_text("second")
    chat = Chat(ManualBackend(folder, POLL, lambda line: None), Ledger(ledger))  # restarted
    assert [chat.complete(ask).text, chat.complete(ask).text] == ["first", "second"]
    assert (folder / f"2-{ask.digest[:8]}.md").exists()
    assert chat.totals().cost == 0


def test_waiting_costs_no_calls(tmp_path):
    ask = talk("s", "one")

    def kill(line):
        raise Waiting

    for _ in range(3):
        chat = Chat(ManualBackend(tmp_path, POLL, kill), Ledger(tmp_path / "ledger.jsonl"))
        with pytest.raises(Waiting):
            chat.complete(ask)
    assert chat.totals().calls == 0


def test_a_file_that_is_no_text_is_complained_of_and_waited_for(tmp_path):
    _, answer, _ = asked(tmp_path, talk("s", "one"))
    answer.write_bytes("ja".encode("utf-16"))
    said = []

    def hear(line):
        said.append(line)
        if "UTF-8" in line:
            answer.write_text("yes")

    assert ManualBackend(tmp_path, POLL, hear).send(talk("s", "one")).text == "yes"
    assert len(said) == 2


def test_ctrl_c_ends_the_wait(tmp_path):
    def interrupt(seconds):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ManualBackend(tmp_path, POLL, lambda line: None, interrupt).send(talk("s", "one"))


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ChatError, match="cannot use the files in"):
        ManualBackend(tmp_path / "file", POLL, lambda line: None).send(talk("s", "one"))
