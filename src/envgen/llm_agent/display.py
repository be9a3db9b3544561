"""What the user sees while a language model plays."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from envgen.designers.chat.ledger import UsageTotals
from envgen.designers.chat.usage import ChatUsage, format_dollars


class AgentDisplay:
    """One line about the episodes in progress, at the bottom of a terminal."""

    def __init__(self, episodes: int, console: Console):
        self.episodes = episodes
        self._steps: dict[int, tuple[int, int]] = {}  # episode: steps and skills so far
        self._status = console.status("") if console.is_terminal else None

    def __enter__(self) -> "AgentDisplay":
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, line: Mapping[str, Any]) -> None:
        if line["ended"]:
            self._steps.pop(line["episode"], None)
        else:
            self._steps[line["episode"]] = line["step"], line["skills"]
        if self._status is not None:
            self._status.update(self.describe(line))

    def describe(self, line: Mapping[str, Any]) -> str:
        usage: UsageTotals = line["usage"]
        episodes = [
            f"episode {number}: step {step:,}, {skills} skills"
            for number, (step, skills) in sorted(self._steps.items())
        ]
        dollars = format_dollars(ChatUsage.from_totals(usage).dollars)
        cost = f"{usage.calls:,} calls, {usage.tokens:,} tokens{dollars}"
        return "; ".join([*episodes, f"{line['complete']} of {self.episodes} complete", cost])
