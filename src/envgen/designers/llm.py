"""`llm`: a language model designs the levels.

One conversation runs through all cycles. A reply that is not usable is sent back with its errors a bounded number of
times; then a recorded fallback is used.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from envgen.settings import Settings, format_validation_error
from envgen.text import strip_reasoning

from . import prompt
from .chains import continue_chain
from .chat.backends import make_backend
from .chat.chat import Chat
from .chat.ledger import LEDGER, Ledger
from .chat.protocol import BudgetExceededError, ChatRequest, Message, Reply, redact
from .chat.runtime import LlmRuntime
from .chat.usage import ChatUsage
from .designer import AuditResult, Brief, Cycle, Designer, DesignError, Proposal, ProposedLevel
from .earlier_levels import EarlierLevels, collect_earlier_levels
from .names import NameObfuscator
from .prompt import Feedback
from .reply import parse_reply

MAX_KEPT_CHARS = 20_000  # of a reply that stay in the conversation and in the record, without reasoning before it
REPEATED_PREFIX = "fallback, as in the last cycle: "


class LlmSettings(Settings):
    """What a language model that designs is told, and how it is asked."""

    feedback: Feedback = "rich"
    """What the model is told about the agent and each cycle: nothing (none), success rates (paper), or also how the
    agent trains, where its episodes fail, what each level taught, and which earlier levels it can repeat or
    change (rich)."""
    obfuscate: bool = False
    """Replace the names of settings, values and skills by codes (an ablation of the paper)."""
    json_schema: bool = True
    """Ask the server to constrain the reply to a JSON schema, if it can."""
    max_retries: Annotated[int, Field(ge=0, le=10)] = 2
    """How many times a reply with errors is sent back for correction."""
    revise: bool = True
    """Let the model correct levels that the audit rated bad, once per cycle."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """The sampling temperature; the server's default if not set. The paper used 0. It has no effect with Anthropic's
    own servers, which take no temperature."""
    max_reply_tokens: Annotated[int, Field(ge=256)] = 8192
    """The maximum length of a reply."""


class LlmConfig(LlmRuntime, LlmSettings):
    """Which language model designs, and how."""

    llm: str
    """openai:MODEL (any compatible server, with --base-url), anthropic:MODEL, manual, or replay:RUN."""


class LlmDesigner(Designer):
    """A language model, which sees the success rates of each cycle (EnvGen)."""

    name = "llm"
    settings: LlmSettings

    def __init__(
        self,
        open_chat: Callable[[], Chat],
        settings: LlmSettings | None = None,
        llm: str = "",
        runtime_options: dict[str, Any] | None = None,
    ):
        """The chat is opened when it is first used, because its ledger belongs to the process that holds the run."""
        self.settings, self.llm = settings or LlmSettings(), llm
        self.wants_diagnosis = self._is_rich
        self._open_chat, self._runtime_options = open_chat, runtime_options or {}

    @property
    def _is_rich(self) -> bool:
        return self.settings.feedback == "rich"

    @cached_property
    def chat(self) -> Chat:
        return self._open_chat()

    def begin_run(self) -> None:
        """Open the ledger again: replies that this process has recorded are then used, as after a restart."""
        vars(self).pop("chat", None)

    def config(self) -> dict[str, Any]:
        return {**super().config(), "llm": self.llm}

    def runtime_options(self) -> dict[str, Any]:
        return self._runtime_options

    def usage(self) -> dict[str, float | None]:
        usage = ChatUsage.from_totals(self.chat.totals())
        return {
            "calls": usage.calls, "prompt_tokens": usage.prompt_tokens, "reply_tokens": usage.reply_tokens,
            "estimated_tokens": usage.estimated_tokens, "cost": usage.dollars,
        }  # fmt: skip

    def design(self, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        messages = self.conversation(brief, history)
        proposal, failure = self._ask_until_valid(brief, history, messages, self.settings.max_retries)
        return proposal if failure is None else self._with_fallback(proposal, failure, brief, history)

    def revise(
        self, brief: Brief, history: Sequence[Cycle], proposal: Proposal, audits: Sequence[AuditResult]
    ) -> Proposal | None:
        if not self.settings.revise:
            return None
        messages = [
            *self.conversation(brief, history),
            Message(role="assistant", content=_as_message(proposal.raw_reply)),
            Message(role="user", content=prompt.audit_report(brief, proposal, audits)),
        ]
        revision, failure = self._ask_until_valid(brief, history, messages, max_retries=0)
        if failure is not None:
            return proposal.model_copy(update={"notes": (*proposal.notes, f"revision: {failure}")})
        notes = (*proposal.notes, "these levels were replaced by a valid revision") if proposal.notes else ()
        return revision.model_copy(update={"notes": notes})

    def conversation(self, brief: Brief, history: Sequence[Cycle]) -> list[Message]:
        feedback = self.settings.feedback
        messages = [Message(role="user", content=prompt.initial_prompt(brief, feedback))]
        for k, cycle in enumerate(history):
            messages.append(Message(role="assistant", content=_as_message(cycle.proposal.raw_reply)))
            report = prompt.cycle_report(brief, cycle, feedback, history[:k], is_newest=k == len(history) - 1)
            messages.append(Message(role="user", content=report))
        return messages

    def _ask_until_valid(
        self, brief: Brief, history: Sequence[Cycle], messages: list[Message], max_retries: int
    ) -> tuple[Proposal, str | None]:
        """A proposal, and None if it is valid. Otherwise the reason, and its levels are the valid ones of the last
        reply."""
        earlier_levels = collect_earlier_levels(history) if self._is_rich else None
        levels: tuple[ProposedLevel, ...] = ()
        errors: tuple[str, ...] = ()
        raw_reply = ""
        for _ in range(1 + max_retries):
            try:
                request, reply = self._complete(brief, messages, earlier_levels)
            except BudgetExceededError as error:
                failure = str(error)
                break
            raw_reply = _shorten(strip_reasoning(reply.text))
            levels, errors, _ = parse_reply(reply.text, brief, self._redact, earlier_levels)
            if errors and reply.is_cut_off:
                limit = f"{self.settings.max_reply_tokens:,} tokens, which include reasoning"
                errors = (f"the reply was cut off at its maximum of {limit}", *errors)
            self.chat.record_validation(request, not errors, errors)
            if not errors:
                return Proposal(levels=levels, raw_reply=raw_reply), None
            if reply.is_refusal:
                failure = f"the model refused to answer ({reply.finish}): {'; '.join(errors)}"
                break
            messages = [
                *messages,
                Message(role="assistant", content=_as_message(raw_reply)),
                Message(role="user", content=prompt.error_report(brief, errors)),
            ]
        else:
            count = "1 reply" if max_retries == 0 else f"{1 + max_retries} replies"
            failure = f"not usable after {count}: {'; '.join(errors)}"
        return Proposal(levels=levels[: brief.num_levels], raw_reply=raw_reply), failure

    def _complete(
        self, brief: Brief, messages: list[Message], earlier_levels: EarlierLevels | None
    ) -> tuple[ChatRequest, Reply]:
        settings = self.settings
        names = NameObfuscator(brief.Level, brief.skills, brief.world) if settings.obfuscate else None
        schema = None
        if settings.json_schema:
            schema = prompt.reply_schema(brief, names.encode_name if names else str, earlier_levels)
        if names:
            messages = [Message(role=message.role, content=names.encode(message.content)) for message in messages]
        request = ChatRequest(
            messages=tuple(messages),
            json_schema=schema,
            max_tokens=settings.max_reply_tokens,
            temperature=settings.temperature,
        )
        reply = self.chat.complete(request)
        return request, reply.model_copy(update={"text": names.decode(reply.text)}) if names else reply

    def _redact(self, value: Any) -> Any:
        return redact(value, self.chat.backend.secrets)

    def _with_fallback(self, proposal: Proposal, failure: str, brief: Brief, history: Sequence[Cycle]) -> Proposal:
        """Add the missing levels: those of the last cycle, then the original."""
        previous = history[-1].proposal.levels if history else ()
        fallback = [
            continue_chain(proposed, history).model_copy(
                update={"purpose": REPEATED_PREFIX + proposed.purpose.removeprefix(REPEATED_PREFIX)}
            )
            for proposed in previous
        ]
        fallback += [ProposedLevel(level=brief.Level(), purpose="fallback: the original")] * brief.num_levels
        levels = (*proposal.levels, *fallback)[: brief.num_levels]
        missing = brief.num_levels - len(proposal.levels)
        note = f"fallback for {missing} of {brief.num_levels} levels"
        if not missing:
            note = f"the first {brief.num_levels} levels of the reply are used"
        return proposal.model_copy(update={"levels": levels, "notes": (failure, note)})


def build_llm_designer(
    config: Mapping[str, Any], folder: Path, designer_class: type[LlmDesigner] = LlmDesigner
) -> LlmDesigner:
    """Build the designer from the fields of `LlmConfig`. `folder` will hold its ledger and the files of `manual`."""
    try:
        parsed = LlmConfig(**config)
    except ValidationError as error:
        raise DesignError(format_validation_error(error)) from None
    backend = make_backend(parsed.llm, parsed.base_url, folder / "requests", parsed.timeout, parsed.key_env)
    checked = parsed
    if parsed.shared_budget is not None and not parsed.shared_budget.is_file():  # a sweep has not created it yet
        checked = parsed.model_copy(update={"shared_budget": None})
    checked.check_prices(backend, folder / LEDGER)
    settings = LlmSettings(**{name: getattr(parsed, name) for name in LlmSettings.model_fields})

    def open_chat() -> Chat:
        ledger = Ledger(folder / LEDGER)
        return Chat(backend, ledger, parsed.budget, parsed.prices, budget_file=parsed.budget_file(ledger.file))

    return designer_class(open_chat, settings, parsed.llm, parsed.for_record())


def _shorten(reply: str) -> str:
    """The end of a long reply, where models put the levels."""
    return reply[-MAX_KEPT_CHARS:]


def _as_message(raw_reply: str) -> str:
    """A reply as a message, which must not be empty."""
    return raw_reply if raw_reply.strip() else "(empty reply)"
