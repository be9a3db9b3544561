"""The conversation of a run with a language model, from its ledger."""

import json
from collections.abc import Mapping
from typing import Any

from envgen.runs.kinds import number
from envgen.text import plural

from .html import Html, badge, details, format_number, format_seconds, tag
from .read import RunFiles, as_text, objects, texts

MAX_EXCHANGES = 60


def conversation(run: RunFiles) -> Html | None:
    """Every request with what is new in it, and its reply. Requests repeat the conversation so far, which is left out.

    None if the run has no ledger.
    """
    lines = run.read_lines("ledger.jsonl")
    requests = [line for line in lines if line.get("event") == "request"]
    if not requests:
        return None
    answers: dict[Any, list[Mapping[str, Any]]] = {}
    validations: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line.get("event") in ("reply", "failure"):
            answers.setdefault(as_text(line.get("number")), []).append(line)
        elif line.get("event") == "validation":
            validations.setdefault(as_text(line.get("digest")), []).append(line)
    previous: list[dict[str, Any]] = []
    parts = []
    for line in requests[:MAX_EXCHANGES]:
        messages = objects(line, "request", "messages")
        new = messages[len(previous) :] if messages[: len(previous)] == previous else messages
        previous = messages
        replies = answers.get(as_text(line.get("number")), [])
        checks = validations.get(as_text(line.get("digest")), [])
        parts += [_message(message) for message in new if message.get("role") != "assistant"]
        parts += [_answer(reply, checks.pop(0) if checks and "text" in reply else {}) for reply in replies]
    left_out = len(requests) - MAX_EXCHANGES
    if left_out > 0:
        parts.append(tag("p", f"{plural(left_out, 'more request')} in ledger.jsonl.", class_="note"))
    summary = [tag("strong", "Conversation with the language model"),
               tag("span", plural(len(requests), "request"), class_="muted")]  # fmt: skip
    return details(summary, tag("div", *parts, class_="conversation"), class_="talk")


def _message(message: Mapping[str, Any]) -> Html:
    content = as_text(message.get("content"))
    summary = [tag("strong", "Prompt" if message.get("role") == "user" else as_text(message.get("role"))),
               tag("span", plural(len(content), "character"), class_="muted")]  # fmt: skip
    return details(summary, tag("pre", content, class_="untrusted", tabindex="0"), class_="message prompt")


def _answer(reply: Mapping[str, Any], validation: Mapping[str, Any]) -> Html:
    if reply.get("event") == "failure":
        text = as_text(reply.get("error"))
        return tag("div", badge(f"failed: {as_text(reply.get('kind'))}", "bad"),
                   tag("pre", text, class_="untrusted", tabindex="0"), class_="message failure")  # fmt: skip
    facts = [as_text(reply.get("model")), format_seconds(number(reply, "seconds"))]
    tokens = [number(reply, "usage", name) for name in ("prompt_tokens", "reply_tokens")]
    if None not in tokens:
        facts.append(f"{format_number(sum(count or 0 for count in tokens), 0)} tokens")
    if cost := number(reply, "cost"):
        facts.append(f"${cost:.4f}")
    errors = texts(validation, "errors")
    state = None
    if "ok" in validation:
        state = badge("valid", "good") if validation.get("ok") is True else badge("invalid", "bad")
    return tag(
        "div",
        tag("header", tag("strong", "Reply"), tag("span", " · ".join(facts), class_="muted"), state),
        tag("pre", _indent(as_text(reply.get("text"))), class_="untrusted", tabindex="0"),
        tag("ul", [tag("li", error) for error in errors], class_="errors") if errors else None,
        class_="message reply",
    )  # fmt: skip


def _indent(text: str) -> str:
    """JSON with line breaks, if the text is JSON on one line."""
    if "\n" in text or len(text) > 100_000:
        return text
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
