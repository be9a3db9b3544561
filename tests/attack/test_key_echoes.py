"""Wherever and however a server echoes the key, no part of it is written or shown."""

import json
import random

import pytest
from key_echoes import KEYS, add_backslash, body_with, escape_json, escape_json_twice, leaks, levels_reply, run_designer

from envgen.designers.chat.backends import AnthropicBackend, OpenAIBackend
from envgen.designers.chat.protocol import redact, secret_forms
from fake_llm_server import raw


@pytest.mark.parametrize("spell", [escape_json, escape_json_twice, add_backslash])
def test_a_key_that_the_parser_unescapes_reaches_no_level(spell, tmp_path, monkeypatch):
    key = KEYS[0]
    monkeypatch.setenv("OPENAI_API_KEY", key)
    text = levels_reply(f"made for {spell(key, random.Random(1))}")
    texts, proposal = run_designer(OpenAIBackend, raw(json.dumps(body_with(text)).encode()), tmp_path)
    assert proposal is not None
    assert proposal.levels[0].purpose == "made for [key]"
    assert not any(leaks(text, key) for text in texts.values())


@pytest.mark.parametrize("kind", [OpenAIBackend, AnthropicBackend])
@pytest.mark.parametrize("pad", [255, 280, 296, 1_155, 1_190])
@pytest.mark.parametrize("code", [200, 401])
def test_a_key_is_redacted_before_truncation_could_split_it(kind, pad, code, tmp_path, monkeypatch):
    key = KEYS[0]
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    error = json.dumps({"error": {"message": "x" * pad + key}}).encode()
    for data in (b"x" * pad + key.encode(), b" " * pad + b"#" + key.encode(), error):  # spaces are not shown
        texts, _ = run_designer(kind, raw(data, code=code), tmp_path)
        assert "Error" in texts["error"]
        assert not any(leaks(text, key) for text in texts.values())


def test_text_without_a_key_stays_as_it_is():
    text = r"C:\new\table 100%25 &lt;sk-proj-other&gt; \u0041 \\"
    assert redact(text, KEYS) == text
    assert redact({"a": [text, 5, None]}, KEYS) == {"a": [text, 5, None]}
    assert redact(f"\\\\{KEYS[0]}\\n", KEYS) == r"\\[key]\n"
    assert redact(text, ()) == text


def test_a_long_text_is_searched_quickly():
    """Backslashes in a row must not take time that grows with their square."""
    for text in ("\\" * 200_000, "\\" * 8 + KEYS[0][:-1] * 4_000, "%73%6b" * 40_000, "s" * 200_000 + "&"):
        assert redact(text, KEYS) == text


def test_a_key_of_digits_is_redacted_where_json_writes_it_as_a_number():
    key = "00" + "123456789" * 4
    secrets = secret_forms(key, None)
    assert redact(f"the value {int(key)} is invalid, {key} too", secrets) == "the value [key] is invalid, [key] too"
    assert secret_forms("0000000000000007", None) == ("0000000000000007",)  # a short number may be anything
