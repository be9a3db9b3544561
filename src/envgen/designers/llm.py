"""`llm`: a language model designs. One conversation runs through all cycles; what cannot be used is asked for again, a
bounded number of times, and then replaced by what is on record as a fallback.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from envgen.settings import Settings

from . import prompt
from .chat.chat import Chat
from .chat.protocol import BudgetExceededError, ChatRequest, Message
from .designer import AuditResult, Brief, Cycle, Designer, Proposal, ProposedLevel
from .names import NameObfuscator
from .prompt import Feedback
from .reply import parse_reply

MAX_REPLY_CHARS = 20_000  # characters of a reply that stay in the conversation
REPEATED_PREFIX = "fallback, as in the last cycle: "


class LlmSettings(Settings):
    feedback: Feedback = "paper"
    """What the model hears of each cycle: nothing; success rates, as in the paper; or also what was learned in each
    level and what the audit found (rich)."""
    obfuscate: bool = False
    """Whether settings, values and skills go by codes instead of names (an ablation of the paper)."""
    json_schema: bool = True
    """Whether the server is asked to hold the reply to a JSON schema, if it can."""
    max_retries: Annotated[int, Field(ge=0, le=10)] = 2
    """How often a reply that cannot be used is asked for again."""
    revise: bool = True
    """Whether the model may answer the audit, once a cycle."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """The server's own if left out; the paper's runs used 0."""
    max_reply_tokens: Annotated[int, Field(ge=256)] = 8192
    """The longest reply."""


class LlmDesigner(Designer):
    name = "llm"

    def __init__(
        self,
        open_chat: Callable[[], Chat],
        settings: LlmSettings | None = None,
        model: str = "",
        means: dict[str, Any] | None = None,
    ):
        """The chat is opened when it is needed: its ledger belongs to whoever holds the run."""
        self._open, self.settings, self.model, self._means = open_chat, settings or LlmSettings(), model, means or {}

    @cached_property
    def chat(self) -> Chat:
        return self._open()

    def config(self) -> dict[str, Any]:
        return {**super().config(), "llm": self.model}

    def runtime_options(self) -> dict[str, Any]:
        return self._means

    def usage(self) -> dict[str, float | None]:
        totals, replies = self.chat.totals(), [one for one in self.chat.ledger.lines if one["event"] == "reply"]
        cost = None if any(one["cost"] is None for one in replies) else totals.cost
        return {**{name: getattr(totals, name) for name in ("calls", "prompt_tokens", "reply_tokens")}, "cost": cost}

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        found = self._agree(brief, self.conversation(brief, history), reasks=self.settings.max_retries)
        return found if not found.notes else self._filled(found, brief, history)

    def revise(
        self, brief: Brief, history: Sequence[Cycle], proposal: Proposal, verdicts: Sequence[AuditResult]
    ) -> Proposal | None:
        if not self.settings.revise:
            return None
        talk = [
            *self.conversation(brief, history),
            Message(role="assistant", content=_spoken(proposal.raw_reply)),
            Message(role="user", content=prompt.audit_report(brief, proposal, verdicts)),
        ]
        found = self._agree(brief, talk, reasks=0)
        if found.notes:
            return proposal.model_copy(update={"notes": (*proposal.notes, "revision: " + found.notes[0])})
        return found.model_copy(update={"notes": proposal.notes})

    def conversation(self, brief: Brief, history: Sequence[Cycle]) -> list[Message]:
        talk = [Message(role="user", content=prompt.initial_prompt(brief))]
        for cycle in history:
            talk.append(Message(role="assistant", content=_spoken(cycle.proposal.raw_reply)))
            talk.append(Message(role="user", content=prompt.cycle_report(brief, cycle, self.settings.feedback)))
        return talk

    def _agree(self, brief: Brief, talk: list[Message], reasks: int) -> Proposal:
        """A proposal, with a note if the model came to none: its levels are then what is right of its last reply."""
        levels: tuple[ProposedLevel, ...] = ()
        problems: tuple[str, ...] = ()
        said = ""
        for _ in range(1 + reasks):
            try:
                ask, said = self._ask(brief, talk)
            except BudgetExceededError as error:
                return Proposal(
                    levels=levels[: brief.num_levels], raw_reply=said[:MAX_REPLY_CHARS], notes=(str(error),)
                )
            levels, problems = parse_reply(said, brief)
            self.chat.record_validation(ask, not problems, list(problems))
            if not problems:
                return Proposal(levels=levels, raw_reply=said[:MAX_REPLY_CHARS])
            talk = [
                *talk,
                Message(role="assistant", content=_spoken(said)),
                Message(role="user", content=prompt.error_report(brief, problems)),
            ]
        note = f"after {1 + reasks} replies there is still this: {'; '.join(problems)}"
        return Proposal(levels=levels[: brief.num_levels], raw_reply=said[:MAX_REPLY_CHARS], notes=(note,))

    def _ask(self, brief: Brief, talk: list[Message]) -> tuple[ChatRequest, str]:
        s = self.settings
        names = NameObfuscator(brief.Level, brief.skills, brief.world) if s.obfuscate else None
        schema = prompt.reply_schema(brief, names.encode if names else str) if s.json_schema else None
        if names:
            talk = [Message(role=one.role, content=names.encode(one.content)) for one in talk]
        ask = ChatRequest(
            messages=tuple(talk), json_schema=schema, max_tokens=s.max_reply_tokens, temperature=s.temperature
        )
        text = self.chat.complete(ask).text
        return ask, names.decode(text) if names else text

    def _filled(self, found: Proposal, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        """The fallback: what is right of the reply, then the levels of the last cycle, then the original."""
        before = history[-1].proposal.levels if history else ()
        more = [
            one.model_copy(update={"purpose": REPEATED_PREFIX + one.purpose.removeprefix(REPEATED_PREFIX)})
            for one in before
        ]
        more += [ProposedLevel(level={}, purpose="fallback: the original")] * brief.num_levels
        levels = (*found.levels, *more)[: brief.num_levels]
        missing = brief.num_levels - len(found.levels)
        note = f"fallback for {missing} of {brief.num_levels} levels" if missing else "the first levels of it are used"
        return found.model_copy(update={"levels": levels, "notes": (*found.notes, note)})


def _spoken(said: str) -> str:
    """As a turn in the conversation, which may not be empty."""
    return said[:MAX_REPLY_CHARS] if said[:MAX_REPLY_CHARS].strip() else "(nothing)"
