"""Designing by hand: requests of runs that wait, the check of a reply, and the file that is written."""

import json
from pathlib import Path

import pytest
from client import serve
from toy_world import PLAN, ToyWorld

from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Ledger
from envgen.designers.chat.offline import ManualBackend, open_requests, write_reply
from envgen.designers.chat.protocol import ChatRequest, Message
from envgen.designers.designer import Cycle, Proposal, ProposedLevel, SuccessRate
from envgen.designers.names import NameObfuscator
from envgen.studio.server import Request
from run_files import HOSTILE, write_json

SCHEMA = {"properties": {"levels": {"minItems": 2, "maxItems": 2}}}
VALID = {"levels": [{"purpose": "short", "skills": ["reach_end"], "level": {"width": 3}}, {"level": {}}]}


class Waiting(Exception):
    """Ends a process that waits for a reply."""


def ask(run_dir, *contents: str, schema=SCHEMA) -> ManualBackend:
    """Let the run ask as its process does, until it waits."""
    backend = ManualBackend(run_dir / "requests", 0.01, notify=_stop)
    roles = ("user", "assistant")
    messages = tuple(Message(role=roles[k % 2], content=text) for k, text in enumerate(contents))
    with pytest.raises(Waiting):
        Chat(backend, Ledger(run_dir / "ledger.jsonl")).complete(ChatRequest(messages=messages, json_schema=schema))
    return backend


def _stop(text):
    raise Waiting


def write_run(run_dir, world="toy", **designer):
    designer = {"name": "llm", "llm": "manual", **designer}
    request = {"world": world, "designer": designer, "seed": 0, "plan": {**PLAN, "levels": 2}}
    write_json(run_dir / "run.json", {"format": 2, "request": request})
    return run_dir


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setattr("envgen.studio.runs.MIN_SCAN_SECONDS", 0.0)
    ask(write_run(tmp_path / "run"), "Design levels.")
    with serve(tmp_path) as client:
        yield client


def about(client, run="run") -> dict[str, str]:
    folder = client.studio.folder.folder / run / "requests"
    return {"id": client.run_id(run), "name": open_requests(folder)[0].stem}


def check(client, text, run="run"):
    return client.post("reply-check", {**about(client, run), "text": text}).json


def test_open_requests_are_listed_and_shown(client):
    page = client.get("designer").text
    assert "Request 1" in page
    query = "&".join(f"{name}={value}" for name, value in about(client).items())
    page = client.get(f"request?{query}")
    assert "Design levels." in page.text
    assert "Start with 2 levels" in page.text
    text = client.get(f"request-text?{query}")
    assert text.headers["Content-Type"].startswith("text/plain")
    assert text.text.startswith("# Request 1")


def test_a_reply_is_checked_as_the_run_will_check_it(client):
    result = check(client, "Here it is: " + json.dumps(VALID))
    assert result["errors"] == []
    assert [item["level"] for item in result["items"]] == [{"width": 3}, {}]
    assert result["html"].count('class="level"') == 2
    assert "data-picture" in result["html"]
    wrong = {"levels": [{"level": {"widht": 3}}, {"level": {"width": 4}}, {"level": {}}]}
    result = check(client, json.dumps(wrong))
    assert any("did you mean 'width'?" in error for error in result["errors"])
    assert any("the number of levels is 3, not 2" in error for error in result["errors"])
    assert [item["position"] for item in result["items"]] == [1]
    assert check(client, "hello")["errors"] == ["the reply has no JSON object with a list of levels"]


def test_a_reply_is_written_as_the_run_reads_it(client):
    run_dir = client.studio.folder.folder / "run"
    text = json.dumps(VALID) + "\né \N{GRINNING FACE}"
    request = about(client)
    assert client.post("reply", {**request, "text": text}).json == {"sent": True}
    reply_file = run_dir / "requests" / f"{request['name']}.reply.md"
    assert reply_file.read_text() == text
    assert sorted(file.name for file in reply_file.parent.iterdir() if file.name.startswith(".")) == []
    backend = ManualBackend(run_dir / "requests", 0.01, notify=lambda text: None)
    chat_request = ChatRequest(messages=(Message(role="user", content="Design levels."),), json_schema=SCHEMA)
    assert backend.send(chat_request).text == text
    assert "No run is waiting" in client.get("designer").text
    again = client.post("reply", {**request, "text": json.dumps(VALID)})
    assert again.status == 422
    assert "has a reply already" in again.text
    assert reply_file.read_text() == text


def test_a_reply_with_errors_is_sent_only_on_purpose(client):
    request = about(client)
    assert "no JSON object" in client.post("reply", {**request, "text": "hello"}).json["conflict"]
    assert "Request 1" in client.get("designer").text
    assert client.post("reply", {**request, "text": "  ", "despite_errors": True}).status == 400
    assert client.post("reply", {**request, "text": "x" * 100_001, "despite_errors": True}).status == 413
    assert client.post("reply", {**request, "text": "hello", "despite_errors": True}).json == {"sent": True}


@pytest.mark.parametrize(
    "name", ["", "..", "../run", "1-00000000", "1-0000000g", "x", "1-{digest}.reply", "/etc/passwd"]
)
def test_other_files_are_not_requests(client, name):
    request = about(client)
    name = name.format(digest=request["name"].partition("-")[2])
    assert client.post("reply", {**request, "name": name, "text": json.dumps(VALID)}).status == 404
    assert client.get(f"request-text?id={request['id']}&name={name}").status == 404


def test_a_requests_folder_that_leads_out_is_not_used(tmp_path):
    ask(write_run(tmp_path / "outside"), "SECRET")
    write_run(tmp_path / "inside" / "run")
    (tmp_path / "inside" / "run" / "requests").symlink_to(tmp_path / "outside" / "requests")
    name = open_requests(tmp_path / "outside" / "requests")[0].stem
    with serve(tmp_path / "inside") as client:
        assert "Request 1" not in client.get("designer").text
        body = {"id": client.run_id("run"), "name": name, "text": json.dumps(VALID)}
        assert client.post("reply", body).status == 404
        assert client.get(f"request-text?id={body['id']}&name={name}").status == 404
    assert not list((tmp_path / "outside" / "requests").glob("*.reply.md"))


def test_request_files_that_are_links_are_not_read(client, tmp_path_factory):
    secret = tmp_path_factory.mktemp("outside") / "secret"
    secret.write_text("SECRET")
    requests = client.studio.folder.folder / "run" / "requests"
    (requests / "9-00000000.md").symlink_to(secret)
    answer = client.get(f"request-text?id={client.run_id('run')}&name=9-00000000")
    assert "SECRET" not in answer.text
    assert "SECRET" not in client.get(f"request?id={client.run_id('run')}&name=9-00000000").text


@pytest.mark.parametrize("make", [Path.mkdir, lambda file: file.symlink_to("missing")], ids=["folder", "link"])
def test_what_is_no_request_file_does_not_hide_the_requests_of_other_runs(client, make):
    folder = client.studio.folder.folder / "other" / "requests"
    write_run(folder.parent)
    folder.mkdir()
    make(folder / "1-00000000.md")
    answer = client.get("designer")
    assert answer.status == 200
    assert "Request 1</strong> of run<" in answer.text
    assert "of other" not in answer.text
    other = client.studio.folder.get(client.run_id("other"))
    assert not other.is_waiting
    stream = client.studio.events(Request({"view": ["runs"]}, {}))
    assert "1</span>" in stream.parts()["nav"]


def test_replies_in_codes_are_decoded(tmp_path):
    ask(write_run(tmp_path / "run", obfuscate=True), "Design levels.")
    names = NameObfuscator(ToyWorld.Level, ToyWorld.skills, "toy")
    with serve(tmp_path) as client:
        result = check(client, names.encode(json.dumps(VALID)))
        assert result["errors"] == []
        assert result["items"][0]["level"] == {"width": 3}
        assert result["items"][0]["skills"] == ["reach_end"]


def test_a_world_that_is_not_installed_is_not_imported(tmp_path):
    ask(write_run(tmp_path / "run", world="toy_world:ToyWorld"), "Design levels.")
    with serve(tmp_path) as client:
        request = about(client)
        assert client.get(f"request?id={request['id']}&name={request['name']}").status == 200
        assert check(client, "hello") == {"errors": [], "html": "", "items": [], "checked": False}
        assert client.post("reply", {**request, "text": "hello"}).json == {"sent": True}


def test_only_what_is_new_in_a_request_is_open(tmp_path):
    ask(write_run(tmp_path / "run"), "FIRST", "my reply", "SECOND")
    with serve(tmp_path) as client:
        request = about(client)
        page = client.get(f"request?id={request['id']}&name={request['name']}").text
        assert page.index("FIRST") < page.index("my reply") < page.index("SECOND")
        assert "5 characters" in page
        assert page.count("<details") >= 2
        assert page.index('id="newest"') > page.index("my reply")
        assert "Copy only what is new" in page


def test_a_message_of_one_character_is_counted_as_one(tmp_path):
    ask(write_run(tmp_path / "run"), "a", "b", "c")
    with serve(tmp_path) as client:
        request = about(client)
        page = client.get(f"request?id={request['id']}&name={request['name']}").text
        assert page.count(">1 character<") == 3
        assert "1 characters" not in page + client.get(f"run?id={request['id']}").text


def test_hostile_requests_are_escaped(tmp_path):
    ask(write_run(tmp_path / "run"), HOSTILE.replace("\ud800", ""))
    with serve(tmp_path) as client:
        request = about(client)
        page = client.get(f"request?id={request['id']}&name={request['name']}").text
        assert "<script>window" not in page
        assert "window.hacked" in page
        result = check(client, json.dumps({"levels": [{"purpose": HOSTILE, "level": {}}, {"level": {HOSTILE: 1}}]}))
        assert "<script>window" not in result["html"]
        assert len(result["errors"]) == 1


# --- the functions that share the file format with the backend


def test_open_requests_are_those_without_a_reply(tmp_path):
    folder = tmp_path / "requests"
    assert open_requests(folder) == []
    folder.mkdir()
    for name in ("2-aaaaaaaa.md", "10-bbbbbbbb.md", "1-cccccccc.md", "1-cccccccc.reply.md", "notes.md", "3-x.md"):
        (folder / name).write_text("text")
    assert [file.name for file in open_requests(folder)] == ["2-aaaaaaaa.md", "10-bbbbbbbb.md"]
    (folder / "2-aaaaaaaa.reply.md").write_text(" \n")  # somebody is about to write it
    assert len(open_requests(folder)) == 2
    assert write_reply(folder / "2-aaaaaaaa.md", "reply").read_text() == "reply"
    with pytest.raises(FileExistsError):
        write_reply(folder / "2-aaaaaaaa.md", "another")
    with pytest.raises(ValueError, match="empty"):
        write_reply(folder / "10-bbbbbbbb.md", " \n")


def test_replies_with_rich_feedback_may_refer_to_earlier_levels(tmp_path, monkeypatch):
    monkeypatch.setattr("envgen.studio.runs.MIN_SCAN_SECONDS", 0.0)
    run_dir = write_run(tmp_path / "run", feedback="rich")
    levels = (
        ProposedLevel(level=ToyWorld.Level(width=4), purpose="short"),
        ProposedLevel(level=ToyWorld.Level()),
    )
    cycle = Cycle(
        number=1, steps=64, proposal=Proposal(levels=levels), audits=(), outcomes=(None, None),
        success_rates={"reach_end": SuccessRate(mean=50, std=0)}, reward=0.5,
    )  # fmt: skip
    folder = run_dir / "cycles" / "1"
    write_json(folder / "levels.json", {"proposal": cycle.proposal.model_dump(mode="json"), "audits": []})
    write_json(folder / "evaluation.json", {"cycle": cycle.model_dump(mode="json"), "seconds": 1.0})
    ask(run_dir, "Design levels.", json.dumps(VALID), "Design levels for cycle 2.")
    reply = {"levels": [{"base": "1.1", "level": {"speed": 2}, "weight": 2}, {"level": {}}]}
    wrong = {"levels": [{"base": "1.3", "level": {}}, {"level": {}, "weight": 0}]}
    with serve(tmp_path) as client:
        result = check(client, json.dumps(reply))
        assert result["errors"] == []
        assert result["items"][0]["level"] == {"width": 4, "speed": 2}
        assert not result["items"][0]["is_chain"]
        errors = check(client, json.dumps(wrong))["errors"]
        assert "'1.3' is not the name of an earlier level (1.1, 1.2)" in errors[0]
        assert '"weight" must be a number' in errors[1]
        (folder / "evaluation.json").write_text('{"cycle": {"number": 1}}')
        assert not check(client, json.dumps(reply))["checked"]
