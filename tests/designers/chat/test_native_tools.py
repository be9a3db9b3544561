"""Native function calling: tools in requests, calls in replies, and ledgers that hold both."""

import json

import pytest

from envgen.designers.chat.backends import AnthropicBackend, OpenAIBackend
from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Ledger
from envgen.designers.chat.protocol import ChatRequest, Message, Reply, Tool, ToolCall
from fake_llm_server import FakeLlmServer

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool(name="weather", description="The weather.", parameters=SCHEMA)
CALLS = (ToolCall(id="c1", name="weather", arguments='{"city": "Rome"}'), ToolCall(id="c2", name="time", arguments=""))
REQUEST = ChatRequest(
    messages=(
        Message(role="system", content="Be brief."),
        Message(role="user", content="Weather?"),
        Message(role="assistant", content="", tool_calls=CALLS),
        Message(role="tool", content="sunny", tool_call_id="c1"),
        Message(role="tool", content="noon", tool_call_id="c2"),
    ),
    tools=(WEATHER,),
)  # fmt: skip


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-planted-0123456789")


def respond(message):
    return lambda handler, body: handler.respond(200, json.dumps(message).encode())


def openai_message(calls):
    return respond({"choices": [{"message": {"content": None, "tool_calls": calls}}], "model": "m"})


def test_openai_sends_tools_and_reads_calls():
    call = {"id": "x", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    with FakeLlmServer([openai_message([call])]) as server:
        reply = OpenAIBackend("m", server.url).send(REQUEST)
        body = server.requests[0].body
    assert reply.tool_calls == (ToolCall(id="x", name="weather", arguments='{"city": "Oslo"}'),)
    assert reply.text == ""
    assert body["tools"] == [{"type": "function", "function": WEATHER.model_dump()}]
    assert body["messages"][2]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Rome"}'}
    assert body["messages"][3] == {"role": "tool", "content": "sunny", "tool_call_id": "c1"}


def test_anthropic_sends_tools_and_reads_calls():
    blocks = [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "x", "name": "weather", "input": {"city": "Oslo"}},
    ]
    with FakeLlmServer([respond({"content": blocks, "model": "m", "stop_reason": "tool_use"})]) as server:
        reply = AnthropicBackend("m", server.url).send(REQUEST)
        body = server.requests[0].body
    assert (reply.text, reply.tool_calls) == (
        "I look.", (ToolCall(id="x", name="weather", arguments='{"city": "Oslo"}'),)
    )  # fmt: skip
    assert body["tools"] == [{"name": "weather", "description": "The weather.", "input_schema": SCHEMA}]
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use", "tool_use"]
    assert body["messages"][1]["content"][1]["input"] == {}  # its arguments are not JSON
    assert [block["tool_use_id"] for block in body["messages"][2]["content"]] == ["c1", "c2"]


def test_anthropic_reads_calls_of_a_tool_that_is_named_reply():
    request = REQUEST.model_copy(update={"tools": (WEATHER.model_copy(update={"name": "reply"}),)})
    block = {"type": "tool_use", "id": "x", "name": "reply", "input": {"city": "Oslo"}}
    with FakeLlmServer([respond({"content": [block], "model": "m", "stop_reason": "tool_use"})]) as server:
        reply = AnthropicBackend("m", server.url).send(request)
    assert reply.tool_calls == (ToolCall(id="x", name="reply", arguments='{"city": "Oslo"}'),)
    assert reply.text == ""


def test_hostile_calls_are_recorded_and_read_again(tmp_path):
    calls = [
        {"id": None, "function": {"name": "\ud800", "arguments": "\0" * 300_000}},
        {"function": {"name": "f", "arguments": {"a": [1]}}},
        *[{"id": "1", "function": {"name": "f", "arguments": "{"}}] * 5000,
    ]
    with FakeLlmServer([openai_message(calls)]) as server:
        ledger = Ledger(tmp_path / "ledger.jsonl")
        reply = Chat(OpenAIBackend("m", server.url), ledger).complete(REQUEST)
    assert len(reply.tool_calls) == 256
    assert len(reply.tool_calls[0].arguments) == 200_000
    assert (reply.tool_calls[0].name, reply.tool_calls[1].arguments) == ("?", '{"a": [1]}')
    again = Ledger(tmp_path / "ledger.jsonl")
    assert again.next_recorded(REQUEST.digest) == reply
    assert again.totals().estimated_tokens > 50_000


def test_a_message_that_cannot_be_encoded_is_sent_with_replacements():
    message = Message(
        role="user", content="half \ud83d"
    )  # such as the result of a call with "\\ud83d" in its arguments
    with FakeLlmServer([openai_message([])]) as server:
        OpenAIBackend("m", server.url).send(ChatRequest(messages=(message,)))
    with FakeLlmServer([respond({"content": [], "model": "m"})]) as other:
        AnthropicBackend("m", other.url).send(ChatRequest(messages=(message,)))
    assert [sent.requests[0].body["messages"][0]["content"] for sent in (server, other)] == ["half ?"] * 2


def test_requests_and_replies_without_tools_are_recorded_as_before():
    request = ChatRequest(messages=(Message(role="user", content="hello"),), max_tokens=10)
    assert request.model_dump() == {
        "messages": ({"role": "user", "content": "hello"},), "json_schema": None, "max_tokens": 10, "temperature": None
    }  # fmt: skip
    assert request.digest == "1f53500736fe35a16b2cd7ac3481e390f9f2a0ab96ed26ebbf6eb6b21408a1b4"
    assert Reply(text="x", model="m").model_dump().keys() == {"text", "model", "usage", "finish"}
