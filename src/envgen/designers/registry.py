"""Every designer by name, built from plain data: a person's flags, or what a run directory says it was made with."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from envgen.settings import Settings, explain, nearest

from .alpha import AlphaDesigner, AlphaSettings
from .baselines import (
    AdversarialDesigner,
    EasyToHardDesigner,
    FixedDesigner,
    NoDesigner,
    RandomDesigner,
    RandomSettings,
    UserLevels,
)
from .chat.backends import KEY_VARIABLES, make_backend
from .chat.budget import Budget, Prices
from .chat.chat import Chat, check_prices
from .chat.ledger import LEDGER, Ledger
from .chat.redact import redact_url
from .designer import Designer, DesignError, DesignerWrapper
from .expert import ExpertDesigner, ExpertSettings
from .llm import LlmDesigner, LlmSettings

NAMES = ("none", "expert", "random", "alpha", "llm", "fixed", "easy-to-hard", "adversarial")
SETTINGS: dict[str, type[Settings]] = {"expert": ExpertSettings, "random": RandomSettings, "alpha": AlphaSettings}
AROUND: dict[str, type[DesignerWrapper]] = {
    kind.name: kind for kind in (FixedDesigner, EasyToHardDesigner, AdversarialDesigner)
}


class LlmRuntime(Budget):
    """How a language model is reached, and what it may cost."""

    base_url: str | None = None
    """Where the server is, if not at its maker's: http://localhost:8000/v1 for vLLM, :11434/v1 for Ollama, ..."""
    key_env: str | None = None
    """The environment variable with the key, if not OPENAI_API_KEY or ANTHROPIC_API_KEY."""
    timeout: float = Field(default=300.0, gt=0)
    """Seconds to wait for a reply."""
    price_prompt: float | None = Field(default=None, ge=0)
    """Dollars for a million tokens sent, for the reports and for max_cost."""
    price_reply: float | None = Field(default=None, ge=0)
    """Dollars for a million tokens of replies."""


class LlmConfig(LlmRuntime, LlmSettings):
    """Which language model designs, and how."""

    llm: str
    """openai:MODEL (any compatible server, with base_url), anthropic:MODEL, manual, or replay:RUN."""


def build_designer(
    name: str,
    folder: Path,
    model: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    levels: Sequence[dict[str, Any]] = (),
) -> Designer:
    """A designer whose conversation, if it has one, is kept in `folder`.

    `fixed` repeats the given levels, else what the model proposes first, else the expert. Those that rank levels take
    them from the model, else from chance.
    """
    if name not in NAMES:
        raise DesignError(f"designer {nearest(name, NAMES)}")
    if levels and name != "fixed":
        raise DesignError(f"levels of your own go with the designer fixed, not {name}")
    if model and name in ("none", *SETTINGS):
        raise DesignError(f"the designer {name} asks no language model; --llm goes with llm, fixed and those that rank")
    if model and levels:
        raise DesignError("the designer fixed repeats levels of your own or those of a language model, not both")
    if options and name not in SETTINGS:
        raise DesignError(f"the designer {name} has no options; {', '.join(SETTINGS)} do")
    if name in SETTINGS:
        settings = _made(SETTINGS[name], options or {})
        return {"expert": ExpertDesigner, "random": RandomDesigner, "alpha": AlphaDesigner}[name](settings)  # pyright: ignore
    if name == "none":
        return NoDesigner()
    if name == "llm":
        if not model:
            raise DesignError(
                "the designer llm needs a model: --llm openai:MODEL, anthropic:MODEL, manual or replay:RUN"
            )
        return build_llm_designer(model, folder)
    if name == "fixed":
        return FixedDesigner(
            UserLevels(levels) if levels else build_llm_designer(model, folder) if model else ExpertDesigner()
        )
    ranked = build_llm_designer(model, folder) if model else RandomDesigner()
    return EasyToHardDesigner(ranked) if name == "easy-to-hard" else AdversarialDesigner(ranked)


def rebuild_designer(about: Mapping[str, Any], folder: Path, means: Mapping[str, Any]) -> Designer:
    """The designer that `about` describes, reached by `means`."""
    name = about["name"]
    if name in AROUND:
        kind = AROUND[name]
        return kind(rebuild_designer(about[kind.source_key], folder, means))
    told = {key: value for key, value in about.items() if key != "name"}
    if name == "given":
        return UserLevels(told["levels"])
    if reached := sorted(told.keys() & LlmRuntime.model_fields.keys()):
        raise DesignError(f"a designer does not say by which {reached[0]} its language model is reached")
    return (
        build_designer(name, folder, model={**told, **means})
        if name == "llm"
        else build_designer(name, folder, options=told)
    )


def merge_runtime_options(
    about: Mapping[str, Any], kept: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """By which means the designer that `about` describes goes on: those `kept` in its run, but for those `given` now.

    The run may be someone else's, and a key is sent to its server. A server or key variable that is not the provider's
    own is therefore not taken from the run: it must be given again.
    """
    own = custom_endpoint(about, kept)
    if missing := {name: value for name, value in own.items() if name not in given}:
        raise DesignError(
            f"this run used {format_flags(own)}; "
            f"give {format_flags(missing)} again to resume with that server and key, or others instead"
        )
    return {**kept, **given}


def custom_endpoint(about: Mapping[str, Any], means: Mapping[str, Any]) -> dict[str, Any]:
    """The server and the key variable, as far as they are not those of the language model's provider."""
    while "llm" not in about and about.get("name") in AROUND:
        about = about[AROUND[about["name"]].source_key]
    provider = str(about.get("llm", "")).partition(":")[0]
    usual = {"base_url": None, "key_env": KEY_VARIABLES.get(provider)}
    return {name: means[name] for name in usual if means.get(name) not in (None, usual[name])}


def format_flags(means: Mapping[str, Any]) -> str:
    """Means as they are written on the command line."""
    return " ".join(f"--{name.replace('_', '-')} {_quoted(str(value))}" for name, value in means.items())


def _quoted(value: str) -> str:
    return shlex.quote(value) if value.isprintable() else ascii(value)


def build_llm_designer(data: Mapping[str, Any], folder: Path) -> LlmDesigner:
    model = _made(LlmConfig, data)
    if (model.price_prompt is None) != (model.price_reply is None):
        raise DesignError("give both price_prompt and price_reply, or neither")
    prices = None
    if model.price_prompt is not None and model.price_reply is not None:
        prices = Prices(prompt=model.price_prompt, reply=model.price_reply)
    backend = make_backend(model.llm, model.base_url, folder / "requests", model.timeout, model.key_env)
    budget = Budget(**{name: getattr(model, name) for name in Budget.model_fields})
    check_prices(backend, budget, prices)
    means = {name: getattr(model, name) for name in LlmRuntime.model_fields}
    means["base_url"] = redact_url(model.base_url) if model.base_url else None  # passwords in it are not kept
    settings = LlmSettings(**{name: getattr(model, name) for name in LlmSettings.model_fields})
    return LlmDesigner(lambda: Chat(backend, Ledger(folder / LEDGER), budget, prices), settings, model.llm, means)


def _made(kind: type[Any], data: Mapping[str, Any]) -> Any:
    try:
        return kind(**data)
    except ValidationError as error:
        raise DesignError(explain(error)) from None
