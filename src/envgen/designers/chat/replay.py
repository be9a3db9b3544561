"""An earlier run's ledger as the language model: the same requests get the same replies, and nothing is charged."""

from collections import Counter
from pathlib import Path

from .ledger import LEDGER, read_lines, recorded
from .protocol import Ask, ChatError, Refused, Reply


class ReplayBackend:
    free = True

    def __init__(self, ledger_file: Path):
        file = Path(ledger_file)
        self.file = file / LEDGER if file.is_dir() else file
        self.name = f"replay:{ledger_file}"
        if not self.file.is_file():
            raise ChatError(f"there is no ledger {self.file} to replay; give a run directory that has a {LEDGER}")
        named = self.file.name if file.is_dir() else file.resolve()  # who names a ledger itself may name a link
        self._replies = recorded(read_lines(file / named))
        self._asked: Counter[str] = Counter()

    def recalled(self, ask: Ask) -> None:
        self._asked[ask.digest] += 1

    def send(self, ask: Ask) -> Reply:
        digest = ask.digest
        replies = self._replies.get(digest, [])
        if self._asked[digest] >= len(replies):
            number = self._asked.total() + 1
            how = f"is recorded {len(replies)} times and asked once more" if replies else "is not recorded there"
            raise Refused(
                f"the conversation has departed from the one in {self.file}: request {number} ({digest[:8]}) {how}; "
                "replay it with the settings and the version of the recorded run, or ask a model"
            )
        self._asked[digest] += 1
        return replies[self._asked[digest] - 1]
