"""Both vendors' backends, against a server on this machine that does all that servers do."""

import json
import re
import subprocess
import sys
from email.utils import formatdate
from pathlib import Path

import pytest
from loopback import (
    Loopback,
    cut,
    echo_key,
    enormous,
    good,
    hang,
    raw,
    refusing,
    status,
    trickle,
)

from envgen.designers.chat.backends import AnthropicBackend, OpenAIBackend, make_backend
from envgen.designers.chat.offline import ManualBackend
from envgen.designers.chat.protocol import (
    MAX_REPLY_CHARS,
    AmbiguousError,
    ChatError,
    ChatRequest,
    Message,
    RejectedError,
    RetryableError,
)

SCHEMA = {"type": "object", "properties": {"trees": {"type": "integer"}}}
TALK = (Message(role="system", content="Design."), Message(role="user", content="Trees?"))
ASK = ChatRequest(messages=TALK)
KEY = "sk-planted-0123456789"
both = pytest.mark.parametrize("kind", [OpenAIBackend, AnthropicBackend])


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for vendor in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{vendor}_API_KEY", KEY)
        monkeypatch.delenv(f"{vendor}_BASE_URL", raising=False)


def asked(kind, *answers, ask=ASK, times=1, timeout=20.0):
    """What a backend made of some answers: its last reply or error, and what reached the server."""
    with Loopback(answers) as server:
        backend, last = kind("model", base_url=server.url, timeout=timeout), None
        for _ in range(times):
            try:
                last = backend.send(ask)
            except ChatError as error:
                last = error
        return last, server


@both
def test_a_reply_comes_with_what_it_used(kind):
    reply, server = asked(kind, good("hello", prompt=12, reply=3))
    assert (reply.text, reply.model) == ("hello", "model")
    assert (reply.usage.prompt_tokens, reply.usage.reply_tokens) == (12, 3)
    body = server.requests[0].body
    assert body["model"] == "model"
    assert body["messages"][-1] == {"role": "user", "content": "Trees?"}


def test_dollars_are_taken_from_a_server_that_tells_them():
    reply, _ = asked(OpenAIBackend, good("hello", cost=0.25))
    assert reply.usage.cost == 0.25


def test_anthropic_hears_the_system_message_apart_and_cached_tokens_are_counted():
    usage = b'"usage": {"input_tokens": 1, "cache_read_input_tokens": 5, "output_tokens": 2}'
    reply, server = asked(AnthropicBackend, raw(b'{"content": [{"type": "text", "text": "x"}], %s}' % usage))
    assert server.requests[0].body["system"] == "Design."
    assert [message["role"] for message in server.requests[0].body["messages"]] == ["user"]
    assert reply.usage.prompt_tokens == 6


@both
def test_a_schema_shapes_the_reply(kind):
    reply, server = asked(kind, '{"trees": 3}', ask=ChatRequest(messages=TALK, json_schema=SCHEMA))
    assert reply.text == '{"trees": 3}'
    body = server.requests[0].body
    if kind is OpenAIBackend:
        form = {"name": "proposal", "strict": False, "schema": SCHEMA}
        assert body["response_format"] == {"type": "json_schema", "json_schema": form}
    else:
        assert body["tools"][0]["input_schema"] == SCHEMA
        assert body["tool_choice"] == {"type": "tool", "name": "proposal"}


@both
@pytest.mark.parametrize("answer", [good(None), good("")])
def test_a_model_that_says_nothing_gives_an_empty_reply(kind, answer):
    assert asked(kind, answer)[0].text == ""


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"choices": []}', ""),
        (b'{"choices": null}', ""),
        (b'{"choices": [{"message": null}]}', ""),
        (b'{"choices": [{"message": {"content": null, "refusal": "I will not."}}]}', "I will not."),
        (b'{"choices": [{"message": {"content": [{"type": "text", "text": "in parts"}]}}]}', "in parts"),
        (b'{"choices": [{"message": {"content": "odd"}}], "usage": {"prompt_tokens": "many", "cost": -1}}', "odd"),
        (b'{"choices": [{"message": {"content": "half \\ud83d"}}]}', "half ?"),
    ],
)
def test_replies_of_odd_servers_are_understood(body, text):
    assert asked(OpenAIBackend, raw(body))[0].text == text


@both
def test_an_endless_reply_is_cut(kind):
    assert len(asked(kind, good("x" * 1_000_000))[0].text) == MAX_REPLY_CHARS


@both
@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (hang, AmbiguousError, "did not answer within 0.3 seconds"),
        (trickle, AmbiguousError, "incomplete after 0.3 seconds"),
        (cut, AmbiguousError, "closed the connection"),
        (raw(b"<html>Welcome</html>", "text/html"), AmbiguousError, "not JSON: '<html>Welcome"),
        (raw(b""), AmbiguousError, "not JSON: ''"),
        (raw(b"[" * 100_000), AmbiguousError, "not JSON"),
        (raw(b"[1]"), AmbiguousError, "unexpected shape"),
        (raw(b'{"detail": "hm"}'), AmbiguousError, "unexpected shape"),
        (enormous(), AmbiguousError, "larger than"),
        (enormous(500), AmbiguousError, "larger than"),
        (status(504), AmbiguousError, "504"),
        (status(429, "slow down"), RetryableError, "429: slow down"),
        (status(500), RetryableError, "500"),
        (status(503), RetryableError, "503"),
        (raw(b"<html>bad gateway</html>", "text/html", 502), RetryableError, "bad gateway"),
        (raw(b'{"error": {"code": 429, "message": "upstream"}}'), RetryableError, "upstream"),
        (status(429, "pay", code="insufficient_quota"), RejectedError, "insufficient_quota"),
        (status(404, "no such model"), RejectedError, "no such model.*check the model's name"),
        (status(401, "who?"), RejectedError, "set (OPENAI|ANTHROPIC)_API_KEY"),
        (status(307), RejectedError, "redirects are not followed"),
    ],
)
def test_each_misbehaviour_is_named(kind, answer, error, says):
    got, server = asked(kind, answer, timeout=0.3 if answer in (hang, trickle) else 20.0)
    assert type(got) is error, got
    with pytest.raises(error, match=says):
        raise got
    assert re.match(r"(openai|anthropic):model at http://127\.0\.0\.1:", str(got))
    assert len(server.requests) == 1
    assert server.sent < 30_000_000  # of the 40 MB of an enormous answer; the rest is in the system's pipes


@both
def test_nobody_there_is_busy(kind):
    with Loopback() as gone:
        pass
    with pytest.raises(RetryableError, match="cannot be reached"):
        kind("model", base_url=gone.url).send(ASK)


@both
@pytest.mark.parametrize(("wait", "seconds"), [("7", 7), ("0.5", 0.5), ("soon", None), ("nan", None), ("-3", 0)])
def test_a_busy_server_says_when_to_come_back(kind, wait, seconds):
    assert asked(kind, status(429, wait=wait))[0].retry_after == seconds


def test_a_busy_server_may_say_so_as_a_date():
    got, _ = asked(OpenAIBackend, status(503, wait=formatdate(usegmt=True)))
    assert got.retry_after == 0
    got, _ = asked(OpenAIBackend, status(503, wait=formatdate(4e9, usegmt=True)))
    assert got.retry_after > 1e6


@both
@pytest.mark.parametrize("address", ["{url}", "http://crafty:hunter%402%21@{host}"])
def test_a_key_that_is_sent_back_is_hidden(kind, address):
    with Loopback([echo_key(401), echo_key(503), raw(KEY.encode()), good(f"you are {KEY}")]) as server:
        backend = kind("model", base_url=address.format(url=server.url, host=server.url.removeprefix("http://")))
        said = []
        for _ in range(3):
            with pytest.raises(ChatError) as caught:
                backend.send(ASK)
            said.append(f"{caught.value!r} {caught.value.__cause__}")
        said.append(backend.send(ASK).text)
        assert server.requests[0].headers["authorization"].startswith("Bearer sk-" if "{url}" in address else "Basic ")
    for text in said:
        assert "[key]" in text
        assert not any(secret in text for secret in (KEY, "hunter", "crafty:", "Y3JhZnR5"))


@both
def test_without_a_schema_if_the_server_has_none(kind):
    part = "response_format" if kind is OpenAIBackend else "tools"
    ask = ChatRequest(messages=TALK, json_schema=SCHEMA)
    with Loopback([refusing(part, "first")] * 2 + ["second"]) as server:
        backend = kind("model", base_url=server.url)
        assert [backend.send(ask).text, backend.send(ask).text] == ["first", "second"]
        assert [part in request.body for request in server.requests] == [True, False, False]  # remembered


def test_a_schema_is_suspected_first_when_a_request_is_bad_for_no_named_reason():
    ask = ChatRequest(messages=TALK, json_schema=SCHEMA, temperature=0.5)
    reply, server = asked(OpenAIBackend, status(422, "cannot parse"), "good", "good", ask=ask, times=2)
    assert reply.text == "good"
    assert ["response_format" in request.body for request in server.requests] == [True, False, False]
    assert all("temperature" in request.body for request in server.requests)


def test_what_a_server_repeats_of_the_request_is_no_complaint():
    problem = {"loc": ["body", "response_format"], "msg": "unknown", "input": {"temperature": 0.5, "max_tokens": 8192}}
    echo = raw(json.dumps({"detail": [problem]}).encode(), code=422)
    reply, server = asked(
        OpenAIBackend, echo, "good", ask=ChatRequest(messages=TALK, json_schema=SCHEMA, temperature=0.5)
    )
    assert reply.text == "good"
    assert {"temperature", "max_tokens"} < server.requests[1].body.keys()


def test_a_schema_is_not_given_up_when_it_was_not_the_reason():
    ask = ChatRequest(messages=TALK, json_schema=SCHEMA)
    too_long = status(400, "the conversation is too long")
    with Loopback([too_long, too_long, '{"trees": 1}']) as server:
        backend = OpenAIBackend("model", base_url=server.url)
        with pytest.raises(RejectedError, match="too long"):
            backend.send(ask)
        backend.send(ask)
        assert "response_format" in server.requests[-1].body


def test_a_model_that_cannot_be_forced_is_offered_the_tool():
    forced = status(400, 'tool_choice: type "tool" and "any" are not supported for this model.')
    ask = ChatRequest(messages=TALK, json_schema=SCHEMA)
    reply, server = asked(AnthropicBackend, forced, '{"trees": 2}', ask=ask)
    assert reply.text == '{"trees": 2}'
    assert [request.body["tool_choice"]["type"] for request in server.requests] == ["tool", "auto"]


@both
def test_without_a_temperature_if_the_model_takes_none(kind):
    ask = ChatRequest(messages=TALK, temperature=0.5)
    complaint = refusing("temperature", "fine")
    reply, server = asked(kind, complaint, complaint, complaint, ask=ask, times=2)
    assert reply.text == "fine"
    assert [request.body.get("temperature") for request in server.requests] == [0.5, None, None]


def test_a_limit_is_called_as_the_server_calls_it():
    old, new = "max_tokens", "max_completion_tokens"
    reply, server = asked(OpenAIBackend, refusing(old, "fine"), refusing(old, "fine"))
    assert reply.text == "fine"
    assert [(old in request.body, new in request.body) for request in server.requests] == [(1, 0), (0, 1)]
    got, server = asked(OpenAIBackend, *[status(400, "max_tokens is too large")] * 9)
    assert isinstance(got, RejectedError)
    assert len(server.requests) == 2


def test_a_local_server_needs_no_key_and_openai_does(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    _, server = asked(OpenAIBackend, "hello")
    assert server.requests[0].headers["authorization"] == "Bearer none"
    with pytest.raises(ChatError, match="set OPENAI_API_KEY"):
        OpenAIBackend("gpt-5")
    monkeypatch.setenv("MINE", f" {KEY}\n")
    with Loopback(["hello"]) as server:
        OpenAIBackend("model", base_url=server.url, key_env="MINE").send(ASK)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    monkeypatch.setenv("MINE", "sk-ключ")
    with pytest.raises(ChatError, match="MINE contains characters"):
        OpenAIBackend("model", key_env="MINE")


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://host/v1", "http://", "http://me:secret/word@host"])
def test_an_address_that_is_none_is_refused_without_showing_its_password(address):
    with pytest.raises(ChatError, match="is not an address; write an address such as http://") as caught:
        OpenAIBackend("model", base_url=address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("kind", "extra"), [(OpenAIBackend, "llm"), (AnthropicBackend, "anthropic")])
def test_a_missing_library_is_named_with_its_remedy(monkeypatch, kind, extra):
    monkeypatch.setitem(sys.modules, kind.__name__.removesuffix("Backend").lower(), None)
    with pytest.raises(ChatError, match=rf"needs the \w+ package: pip install 'envgen\[{extra}\]'"):
        kind("model")


def test_the_libraries_are_loaded_only_when_used():
    code = "import sys, envgen.designers.chat; print({'openai', 'anthropic', 'httpx2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_backend_is_found_by_how_it_is_written(tmp_path):
    assert make_backend("openai:llama3:8b").name == "openai:llama3:8b"
    assert make_backend("anthropic:claude-sonnet-5").name == "anthropic:claude-sonnet-5"
    assert isinstance(make_backend("manual", folder=tmp_path), ManualBackend)
    (tmp_path / "ledger.jsonl").touch()
    assert make_backend(f"replay:{tmp_path}").name == make_backend(f"replay:{Path(tmp_path)}").name


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("opneai:gpt-5", "did you mean 'openai'"),
        ("gpt-5", "valid forms: openai:MODEL"),
        ("openai", "'openai' is incomplete; write openai:MODEL"),
        ("replay:", "is incomplete"),
        ("replay:/nowhere", "there is no ledger /nowhere"),
        ("manual:me", "write manual alone"),
        ("manual", "needs a folder"),
    ],
)
def test_a_backend_that_is_none_is_answered_with_the_nearest(spec, says):
    with pytest.raises(ChatError, match=says):
        make_backend(spec)
