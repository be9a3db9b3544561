"""A process that sends requests until the shared budget is spent: `python budget_worker.py BUDGET LEDGER [hang]`.

It prints the number of calls it has made. With `hang`, its first call never ends.
"""

import sys
import time
from pathlib import Path

from envgen.designers.chat.budget_file import BudgetFile, SharedBudgetError
from envgen.designers.chat.chat import Chat
from envgen.designers.chat.ledger import Ledger, Prices
from envgen.designers.chat.protocol import Backend, ChatRequest, Message, Reply, Usage

PROMPT_TOKENS, REPLY_TOKENS, MAX_TOKENS = 2, 30, 100  # as the server reports, and the longest reply that is allowed


class FixedBackend(Backend):
    name, timeout = "fixed", 30.0

    def __init__(self, hang: bool = False):
        self.hang = hang

    def send(self, request: ChatRequest) -> Reply:
        if self.hang:
            print("sent", flush=True)
            time.sleep(600)
        time.sleep(0.002)  # so that calls of several processes overlap
        usage = Usage(prompt_tokens=PROMPT_TOKENS, reply_tokens=REPLY_TOKENS)
        return Reply(text="yes", model="fixed", finish="stop", usage=usage)


def make_request(number: int) -> ChatRequest:
    return ChatRequest(messages=(Message(role="user", content=f"{number:04}"),), max_tokens=MAX_TOKENS)


def open_chat(budget: Path, ledger: Path, hang: bool = False) -> Chat:
    prices = Prices(prompt=1e6, reply=1e6)
    return Chat(FixedBackend(hang), Ledger(ledger), prices=prices, budget_file=BudgetFile(budget, ledger))


def main(budget: Path, ledger: Path, hang: bool = False) -> int:
    chat, number = open_chat(budget, ledger, hang), 0
    while True:
        try:
            chat.complete(make_request(number))
        except SharedBudgetError:
            return number
        number += 1


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] == ["hang"]))
