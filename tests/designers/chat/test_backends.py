"""OpenAI's and Anthropic's backends, against a server on this machine that behaves well and badly."""

import json
import logging
import re
import subprocess
import sys
from email.utils import formatdate
from pathlib import Path

import pytest

from envgen.designers.chat.backends import AnthropicBackend, OpenAIBackend, make_backend
from envgen.designers.chat.http import ssl_context
from envgen.designers.chat.offline import ManualBackend
from envgen.designers.chat.protocol import (
    MAX_REPLY_CHARS,
    AmbiguousError,
    ChatError,
    ChatRequest,
    ConnectionSetupError,
    Message,
    RejectedError,
    RetryableError,
)
from fake_llm_server import (
    FakeLlmServer,
    completion,
    echo_key,
    hang_response,
    oversized_response,
    raw,
    reject_parameter,
    slow_response,
    status,
    truncated_response,
)

SCHEMA = {"type": "object", "properties": {"trees": {"type": "integer"}}}
MESSAGES = (Message(role="system", content="Design."), Message(role="user", content="Trees?"))
REQUEST = ChatRequest(messages=MESSAGES)
KEY = "sk-planted-0123456789"
both = pytest.mark.parametrize("kind", [OpenAIBackend, AnthropicBackend])


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for vendor in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{vendor}_API_KEY", KEY)
        monkeypatch.delenv(f"{vendor}_BASE_URL", raising=False)


def exchange(kind, *answers, request=REQUEST, times=1, timeout=20.0):
    """The last reply or error of a backend that received these answers, and the server."""
    with FakeLlmServer(answers) as server:
        backend, result = kind("model", base_url=server.url, timeout=timeout), None
        for _ in range(times):
            try:
                result = backend.send(request)
            except ChatError as error:
                result = error
        return result, server


@both
def test_a_reply_has_its_usage(kind):
    reply, server = exchange(kind, completion("hello", prompt=12, reply=3))
    assert (reply.text, reply.model) == ("hello", "model")
    assert (reply.usage.prompt_tokens, reply.usage.reply_tokens) == (12, 3)
    body = server.requests[0].body
    assert body["model"] == "model"
    assert body["messages"][-1] == {"role": "user", "content": "Trees?"}


def test_the_cost_is_taken_from_servers_that_report_it():
    reply, _ = exchange(OpenAIBackend, completion("hello", cost=0.25))
    assert reply.usage.cost == 0.25


def test_anthropic_receives_the_system_message_separately_and_cached_tokens_count():
    usage = b'"usage": {"input_tokens": 1, "cache_read_input_tokens": 5, "output_tokens": 2}'
    reply, server = exchange(AnthropicBackend, raw(b'{"content": [{"type": "text", "text": "x"}], %s}' % usage))
    assert server.requests[0].body["system"] == "Design."
    assert [message["role"] for message in server.requests[0].body["messages"]] == ["user"]
    assert (reply.usage.prompt_tokens, reply.usage.cached_tokens) == (6, 5)


@both
def test_a_schema_is_sent(kind):
    reply, server = exchange(kind, '{"trees": 3}', request=ChatRequest(messages=MESSAGES, json_schema=SCHEMA))
    assert reply.text == '{"trees": 3}'
    body = server.requests[0].body
    if kind is OpenAIBackend:
        form = {"name": "reply", "strict": False, "schema": SCHEMA}
        assert body["response_format"] == {"type": "json_schema", "json_schema": form}
    else:
        assert body["tools"][0]["input_schema"] == SCHEMA
        assert body["tool_choice"] == {"type": "tool", "name": "reply"}


@both
@pytest.mark.parametrize("answer", [completion(None), completion("")])
def test_an_empty_answer_is_an_empty_reply(kind, answer):
    assert exchange(kind, answer)[0].text == ""


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
def test_unusual_replies_are_parsed(body, text):
    assert exchange(OpenAIBackend, raw(body))[0].text == text


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 41}, 9),
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 3041}, 3009),  # as xAI counts reasoning
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 9}, 9),
        ({"completion_tokens": 9, "total_tokens": 3041}, 9),
        ({"prompt_tokens": 32, "total_tokens": 41}, None),
    ],
)
def test_reasoning_counts_as_a_part_of_the_reply(usage, expected):
    body = {"choices": [{"message": {"content": "yes"}}], "usage": usage}
    reply, _ = exchange(OpenAIBackend, raw(json.dumps(body).encode()))
    assert reply.usage.reply_tokens == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 24}}, 24),
        ({"prompt_cache_hit_tokens": 24}, 24),  # DeepSeek
        ({"prompt_tokens_details": None}, None),
        ({"prompt_tokens_details": {"cached_tokens": "most"}}, None),
        ({}, None),
    ],
)
def test_cached_tokens_are_read(usage, expected):
    usage = {"prompt_tokens": 32, "completion_tokens": 9} | usage
    body = {"choices": [{"message": {"content": "yes"}}], "usage": usage}
    reply, _ = exchange(OpenAIBackend, raw(json.dumps(body).encode()))
    assert (reply.usage.prompt_tokens, reply.usage.cached_tokens) == (32, expected)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"error": {"code": 502, "message": "provider failed"}, "message": {"content": ""}}, "provider failed"),
        ({"finish_reason": "error", "message": {"content": "The first wo"}}, "no message"),
    ],
)
def test_an_error_in_place_of_a_choice_is_no_reply(choice, message):
    error, _ = exchange(OpenAIBackend, raw(json.dumps({"choices": [choice]}).encode()))
    assert isinstance(error, AmbiguousError)
    assert str(error).endswith(f"sent an error: {message}")


@both
def test_an_overlong_reply_is_cut(kind):
    assert len(exchange(kind, completion("x" * 1_000_000))[0].text) == MAX_REPLY_CHARS


@both
@pytest.mark.parametrize(
    ("answer", "error_type", "message"),
    [
        (hang_response, AmbiguousError, "did not answer within 2 seconds"),
        (slow_response, AmbiguousError, "incomplete after 2 seconds"),
        (truncated_response, AmbiguousError, "closed the connection"),
        (raw(b"<html>Welcome</html>", "text/html"), AmbiguousError, "not JSON: '<html>Welcome"),
        (raw(b""), AmbiguousError, "not JSON: ''"),
        (raw(b"[" * 100_000), AmbiguousError, "not JSON"),
        (raw(b"[1]"), AmbiguousError, "unexpected shape"),
        (raw(b'{"detail": "hm"}'), AmbiguousError, "unexpected shape"),
        (oversized_response(), AmbiguousError, "larger than"),
        (oversized_response(500), AmbiguousError, "larger than"),
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
def test_every_kind_of_failure_has_its_error(kind, answer, error_type, message):
    error, server = exchange(kind, answer, timeout=2.0 if answer in (hang_response, slow_response) else 20.0)
    assert type(error) is error_type, error
    with pytest.raises(error_type, match=message):
        raise error
    assert re.match(r"(openai|anthropic):model at http://127\.0\.0\.1:", str(error))
    assert len(server.requests) == 1
    assert (
        server.num_bytes_sent < 30_000_000
    )  # of the 40 MB of an oversized response; the rest is in the system's pipes


@both
def test_an_unreachable_server_is_retryable(kind):
    with FakeLlmServer() as server:
        pass
    with pytest.raises(RetryableError, match="cannot be reached"):
        kind("model", base_url=server.url).send(REQUEST)


@both
@pytest.mark.parametrize(("wait", "seconds"), [("7", 7), ("0.5", 0.5), ("soon", None), ("nan", None), ("-3", 0)])
def test_retry_after_is_read(kind, wait, seconds):
    assert exchange(kind, status(429, wait=wait))[0].retry_after == seconds


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ALL_PROXY", "socks9://127.0.0.1:9", "ValueError"),
        ("HTTP_PROXY", "http://me:planted/password@proxy", "InvalidURL"),
        ("SSL_CERT_FILE", "missing.pem", "FileNotFoundError"),
    ],
)
def test_a_connection_that_cannot_be_set_up_is_explained_and_costs_nothing(name, value, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for variable in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)
    monkeypatch.setenv(name, value)
    ssl_context.cache_clear()
    error, server = exchange(OpenAIBackend, completion("yes"))
    assert isinstance(error, ConnectionSetupError)
    assert error.kind == "retryable"  # it counts no tokens
    assert re.search(rf"no connection can be set up \({message}.*\); check the environment variables", str(error))
    assert "planted" not in str(error)
    assert not server.requests


def test_retry_after_may_be_a_date():
    error, _ = exchange(OpenAIBackend, status(503, wait=formatdate(usegmt=True)))
    assert error.retry_after == 0
    error, _ = exchange(OpenAIBackend, status(503, wait=formatdate(4e9, usegmt=True)))
    assert error.retry_after > 1e6


@both
@pytest.mark.parametrize("address", ["{url}", "http://crafty:hunter%402%21@{host}"])
def test_an_echoed_key_is_redacted(kind, address):
    with FakeLlmServer([echo_key(401), echo_key(503), raw(KEY.encode()), completion(f"you are {KEY}")]) as server:
        backend = kind("model", base_url=address.format(url=server.url, host=server.url.removeprefix("http://")))
        texts = []
        for _ in range(3):
            with pytest.raises(ChatError) as caught:
                backend.send(REQUEST)
            texts.append(f"{caught.value!r} {caught.value.__cause__}")
        texts.append(backend.send(REQUEST).text)
        assert server.requests[0].headers["authorization"].startswith("Bearer sk-" if "{url}" in address else "Basic ")
    for text in texts:
        assert "[key]" in text
        assert not any(secret in text for secret in (KEY, "hunter", "crafty:", "Y3JhZnR5"))


def test_an_echoed_header_of_the_environment_is_redacted(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Gateway-Token: Bearer tunnel-0123456789\nX-Team: reinforcement")
    text = "tunnel-0123456789 of reinforcement"
    reply, server = exchange(AnthropicBackend, completion(text))
    assert server.requests[0].headers["x-gateway-token"] == "Bearer tunnel-0123456789"
    assert reply.text == "[key] of reinforcement"


@both
def test_logs_of_the_http_library_hold_no_password(kind, caplog):
    with caplog.at_level(logging.INFO, "httpx2"), FakeLlmServer([completion("hello")]) as server:
        address = server.url.replace("http://", "http://crafty:hunter%402%21@")
        assert kind("model", base_url=address).send(REQUEST).text == "hello"
    assert "HTTP Request: POST http://127.0.0.1" in caplog.text
    assert "hunter" not in caplog.text


@both
def test_an_unsupported_schema_is_left_out(kind, capsys):
    part = "response_format" if kind is OpenAIBackend else "tools"
    request = ChatRequest(messages=MESSAGES, json_schema=SCHEMA)
    with FakeLlmServer([reject_parameter(part, "first")] * 2 + ["second"]) as server:
        backend = kind("model", base_url=server.url)
        assert [backend.send(request).text, backend.send(request).text] == ["first", "second"]
        assert [part in sent.body for sent in server.requests] == [True, False, False]  # remembered
        assert capsys.readouterr().out == f"{backend.label} takes no schema; requests are sent without\n"


def test_the_schema_is_left_out_first_if_no_part_is_named():
    request = ChatRequest(messages=MESSAGES, json_schema=SCHEMA, temperature=0.5)
    reply, server = exchange(OpenAIBackend, status(422, "cannot parse"), "good", "good", request=request, times=2)
    assert reply.text == "good"
    assert ["response_format" in sent.body for sent in server.requests] == [True, False, False]
    assert all("temperature" in sent.body for sent in server.requests)


def test_an_echoed_request_names_no_part():
    problem = {"loc": ["body", "response_format"], "msg": "unknown", "input": {"temperature": 0.5, "max_tokens": 8192}}
    echo = raw(json.dumps({"detail": [problem]}).encode(), code=422)
    reply, server = exchange(
        OpenAIBackend, echo, "good", request=ChatRequest(messages=MESSAGES, json_schema=SCHEMA, temperature=0.5)
    )
    assert reply.text == "good"
    assert {"temperature", "max_tokens"} < server.requests[1].body.keys()


def test_the_schema_is_kept_if_leaving_it_out_does_not_help():
    request = ChatRequest(messages=MESSAGES, json_schema=SCHEMA)
    too_long = status(400, "the conversation is too long")
    with FakeLlmServer([too_long, too_long, '{"trees": 1}']) as server:
        backend = OpenAIBackend("model", base_url=server.url)
        with pytest.raises(RejectedError, match="too long"):
            backend.send(request)
        backend.send(request)
        assert "response_format" in server.requests[-1].body


def test_the_tool_is_optional_for_models_without_forced_calls():
    forced = status(400, 'tool_choice: type "tool" and "any" are not supported for this model.')
    request = ChatRequest(messages=MESSAGES, json_schema=SCHEMA)
    reply, server = exchange(AnthropicBackend, forced, '{"trees": 2}', request=request)
    assert reply.text == '{"trees": 2}'
    assert [sent.body["tool_choice"]["type"] for sent in server.requests] == ["tool", "auto"]


@both
def test_an_unsupported_temperature_is_left_out(kind):
    request = ChatRequest(messages=MESSAGES, temperature=0.5)
    refuse = reject_parameter("temperature", "fine")
    reply, server = exchange(kind, refuse, refuse, refuse, request=request, times=2)
    assert reply.text == "fine"
    assert [sent.body.get("temperature") for sent in server.requests] == [0.5, None, None]


def test_the_token_limit_is_sent_under_the_name_that_the_server_knows():
    old, new = "max_tokens", "max_completion_tokens"
    reply, server = exchange(OpenAIBackend, reject_parameter(old, "fine"), reject_parameter(old, "fine"))
    assert reply.text == "fine"
    assert [(old in sent.body, new in sent.body) for sent in server.requests] == [(1, 0), (0, 1)]
    error, server = exchange(OpenAIBackend, *[status(400, "max_tokens is too large")] * 9)
    assert isinstance(error, RejectedError)
    assert len(server.requests) == 2


def test_a_local_server_needs_no_key_but_openai_does(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    _, server = exchange(OpenAIBackend, "hello")
    assert server.requests[0].headers["authorization"] == "Bearer none"
    with pytest.raises(ChatError, match="set OPENAI_API_KEY"):
        OpenAIBackend("gpt-5")
    monkeypatch.setenv("MINE", f" {KEY}\n")
    with FakeLlmServer(["hello"]) as server:
        OpenAIBackend("model", base_url=server.url, key_env="MINE").send(REQUEST)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    monkeypatch.setenv("MINE", "sk-ключ")
    with pytest.raises(ChatError, match="MINE contains characters"):
        OpenAIBackend("model", key_env="MINE")


@pytest.mark.parametrize("address", ["localhost:8000", "ftp://host/v1", "http://", "http://me:secret/word@host"])
def test_an_invalid_base_url_is_refused_without_its_password(address):
    with pytest.raises(ChatError, match="is not an address; write an address such as http://") as caught:
        OpenAIBackend("model", base_url=address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("kind", "extra"), [(OpenAIBackend, "llm"), (AnthropicBackend, "anthropic")])
def test_a_missing_package_is_named_with_the_command_to_install_it(monkeypatch, kind, extra):
    monkeypatch.setitem(sys.modules, kind.__name__.removesuffix("Backend").lower(), None)
    with pytest.raises(ChatError, match=rf"needs the \w+ package: pip install 'envgen\[{extra}\]'"):
        kind("model")


def test_the_packages_are_imported_only_when_used():
    code = "import sys, envgen.designers.chat; print({'openai', 'anthropic', 'httpx2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_backends_are_made_from_the_llm_option(tmp_path):
    assert make_backend("openai:llama3:8b").name == "openai:llama3:8b"
    assert make_backend("anthropic:claude-sonnet-5").name == "anthropic:claude-sonnet-5"
    assert isinstance(make_backend("manual", folder=tmp_path), ManualBackend)
    (tmp_path / "ledger.jsonl").touch()
    assert make_backend(f"replay:{tmp_path}").name == make_backend(f"replay:{Path(tmp_path)}").name


@pytest.mark.parametrize(
    ("llm", "message"),
    [
        ("opneai:gpt-5", "did you mean 'openai'"),
        ("gpt-5", "valid forms: openai:MODEL"),
        ("openai", "'openai' is incomplete; write openai:MODEL"),
        ("replay:", "is incomplete"),
        ("replay:/nowhere", "there is no ledger /nowhere"),
        ("manual:me", "manual takes no argument"),
        ("manual", "needs a folder"),
    ],
)
def test_an_invalid_llm_option_is_refused_with_the_valid_forms(llm, message):
    with pytest.raises(ChatError, match=message):
        make_backend(llm)
