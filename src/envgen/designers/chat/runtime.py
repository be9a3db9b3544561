"""Connection settings and budget of a language model, for everything that talks to one."""

from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from .budget_file import BudgetFile
from .chat import check_prices
from .ledger import Budget, Prices
from .protocol import Backend, redact_url

HAS_SHARED_BUDGET = "has_shared_budget"  # in the record of a run


class LlmRuntime(Budget):
    """Connection settings and budget of a language model."""

    base_url: str | None = None
    """The server, if not the provider's own: http://localhost:8000/v1 for vLLM, :11434/v1 for Ollama, ..."""
    key_env: str | None = None
    """The environment variable with the key, if not OPENAI_API_KEY or ANTHROPIC_API_KEY."""
    timeout: float = Field(default=300.0, gt=0, le=86_400)
    """Time limit for a complete reply, in seconds."""
    price_prompt: float | None = Field(default=None, ge=0)
    """Dollars per million prompt tokens, for the reports and for --max-cost."""
    price_reply: float | None = Field(default=None, ge=0)
    """Dollars per million reply tokens."""
    price_cached: float | None = Field(default=None, ge=0)
    """Dollars per million prompt tokens that the server read from its cache, if they cost less than the others."""
    shared_budget: Path | None = None
    """A budget that several runs share: the file budget.json of a sweep. Its path is not recorded with the run."""

    @property
    def budget(self) -> Budget:
        """The limits alone."""
        return Budget(**{name: getattr(self, name) for name in Budget.model_fields})

    def budget_file(self, ledger: Path) -> BudgetFile | None:
        """The account of a conversation in the shared budget, if there is one."""
        return None if self.shared_budget is None else BudgetFile(self.shared_budget, ledger)

    @property
    def prices(self) -> Prices | None:
        """The prices, if they are known."""
        if self.price_prompt is None or self.price_reply is None:
            return None
        return Prices(prompt=self.price_prompt, reply=self.price_reply, cached=self.price_cached)

    def check_prices(self, backend: Backend, ledger: Path) -> None:
        """Raise ChatError if the cost is limited, here or in the shared budget, but cannot be computed."""
        check_prices(backend, self.budget, self.prices)
        budget_file = None if backend.free else self.budget_file(ledger)
        if budget_file is not None:
            check_prices(backend, budget_file.limits.budget(), self.prices)

    @model_validator(mode="after")
    def _check_prices(self) -> "LlmRuntime":
        if (self.price_prompt is None) != (self.price_reply is None):
            raise ValueError("set both price_prompt and price_reply, or neither")
        if self.price_cached is not None and self.price_prompt is None:
            raise ValueError("price_cached needs price_prompt and price_reply")
        return self

    def for_record(self) -> dict[str, Any]:
        """These settings alone, as JSON data without the password that an address can contain.

        A run directory may be someone else's, so of a shared budget only its existence is recorded.
        """
        options = {name: getattr(self, name) for name in LlmRuntime.model_fields if name != "shared_budget"}
        options["base_url"] = redact_url(self.base_url) if self.base_url else None
        return options if self.shared_budget is None else {**options, HAS_SHARED_BUDGET: True}
