"""A program that a test kills during a call: `python chat_worker.py RUN BASE_URL`. It sends two requests."""

import sys
from pathlib import Path

from envgen.designers.chat.backends import OpenAIBackend
from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Ledger
from envgen.designers.chat.protocol import ChatRequest, Message


def make_request(text: str) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=text),), max_tokens=50)


def main(run: Path, base_url: str) -> list[str]:
    chat = Chat(OpenAIBackend("model", base_url, timeout=20), Ledger(run / "ledger.jsonl"), backoff=0.001)
    first = chat.complete(make_request("one"))
    chat.record_validation(make_request("one"), True)
    return [first.text, chat.complete(make_request(f"two, after {first.text}")).text]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
