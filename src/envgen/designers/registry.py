"""All designers by name. To add one, write its file and add one line to `DESIGNERS`."""

import inspect
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from envgen.imports import ImportPathError, import_object
from envgen.settings import Settings, format_choice_error, format_validation_error
from envgen.worlds.world import Level

from .baselines import UserLevels
from .chat.backends import KEY_VARIABLES
from .chat.protocol import redact_url
from .chat.runtime import HAS_SHARED_BUDGET
from .designer import Designer, DesignError, DesignerWrapper, LevelChain
from .llm import LlmConfig, LlmDesigner, LlmRuntime, build_llm_designer

__all__ = [
    "DESIGNERS", "LlmConfig", "LlmRuntime", "build_designer", "designer_descriptions", "designer_names",
    "load_designer_class", "rebuild_designer", "resume_flags", "resume_runtime", "settings_class",
]  # fmt: skip

DESIGNERS: dict[str, str] = {  # name: module:Class, imported when it is used
    "none": "envgen.designers.baselines:NoDesigner",
    "expert": "envgen.designers.expert:ExpertDesigner",
    "random": "envgen.designers.baselines:RandomDesigner",
    "alpha": "envgen.designers.alpha:AlphaDesigner",
    "dr": "envgen.designers.ued:DrDesigner",
    "plr": "envgen.designers.ued:PlrDesigner",
    "accel": "envgen.designers.ued:AccelDesigner",
    "sfl": "envgen.designers.ued:SflDesigner",
    "llm": "envgen.designers.llm:LlmDesigner",
    "fixed": "envgen.designers.baselines:FixedDesigner",
    "easy-to-hard": "envgen.designers.baselines:EasyToHardDesigner",
    "adversarial": "envgen.designers.baselines:AdversarialDesigner",
}


def designer_names() -> tuple[str, ...]:
    return tuple(DESIGNERS)


def designer_descriptions() -> dict[str, str]:
    """One line about each designer."""
    return {name: inspect.cleandoc(load_designer_class(name).__doc__ or "").split("\n")[0] for name in DESIGNERS}


def settings_class(designer: str) -> type[Settings] | None:
    """The class of a designer's settings; None if it has none or cannot be loaded."""
    try:
        return load_designer_class(designer).settings_type
    except DesignError:
        return None


def load_designer_class(designer: str) -> type[Designer]:
    """The class of a designer by its name or as `module:Class`. Modules in the current directory are found as well."""
    path = DESIGNERS.get(designer, designer)
    if not all(path.partition(":")):
        raise DesignError(
            f"designer {format_choice_error(designer, designer_names())}; module:Class loads one of your own"
        )
    try:
        return _check_class(import_object(path, Designer))
    except ImportPathError as error:
        raise DesignError(f"cannot import the designer {designer!r}: {error}") from error.__cause__


def check_designer_type(designer: Any) -> Designer | type[Designer]:
    """Return a designer or its class, or raise DesignError."""
    return designer if isinstance(designer, Designer) else _check_class(designer)


def _check_class(designer_class: Any) -> type[Designer]:
    is_class = isinstance(designer_class, type) and issubclass(designer_class, Designer)
    missing = sorted(designer_class.__abstractmethods__) if is_class else []
    if not is_class or missing:
        name = getattr(designer_class, "__name__", f"{designer_class!r:.80}")
        problem = f"does not define {', '.join(missing)}" if missing else "is not a designer"
        raise DesignError(
            f"{name} {problem}; pass the name of a designer, such as 'expert', a subclass of envgen.Designer that "
            "defines design(brief, history), or an instance of one"
        )
    return designer_class


def build_designer(
    designer: str | Designer | type[Designer],
    folder: Path,
    llm: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    levels: Sequence[Level | LevelChain | Mapping[str, Any]] = (),
) -> Designer:
    """Build a designer.

    Args:
        designer: A name of `designer_names()`, `module:Class`, a class, or an instance, which is returned.
        folder: The run directory. A language model keeps its ledger there.
        llm: The fields of `LlmConfig`, for designers that use a language model.
        settings: The fields of the designer's `settings_type`.
        levels: Levels and chains for `fixed` to repeat.
    """
    if isinstance(designer, Designer):
        if llm or settings or levels:
            raise DesignError(f"the designer {designer.name} is already built; pass its class or name to configure it")
        return check_designer(designer)
    designer_class = load_designer_class(designer) if isinstance(designer, str) else _check_class(designer)
    name = designer_class.name
    if levels and not (issubclass(designer_class, DesignerWrapper) and designer_class.takes_levels):
        raise DesignError(f"levels of your own require the designer fixed, not {name}")
    if llm and not issubclass(designer_class, LlmDesigner | DesignerWrapper):
        users = [other for other in DESIGNERS if issubclass(load_designer_class(other), LlmDesigner | DesignerWrapper)]
        raise DesignError(f"the designer {name} uses no language model; --llm requires one of {', '.join(users)}")
    if llm and levels:
        raise DesignError(f"the designer {name} takes levels of your own or a language model, not both")
    if settings and designer_class.settings_type is None:
        others = [other for other in DESIGNERS if settings_class(other)]
        raise DesignError(f"the designer {name} has no settings; only {', '.join(others)} do")
    if issubclass(designer_class, LlmDesigner):
        if not llm:
            raise DesignError(
                f"the designer {name} needs a model: --llm openai:MODEL, anthropic:MODEL, manual or replay:RUN"
            )
        return check_designer(build_llm_designer(llm, folder, designer_class))
    if issubclass(designer_class, DesignerWrapper):
        if levels:
            return designer_class(UserLevels(levels))
        source = build_llm_designer(llm, folder) if llm else build_designer(designer_class.default_source, folder)
        return designer_class(source)
    return _create(designer_class, settings or {})


def _create(designer_class: type[Designer], settings: Mapping[str, Any]) -> Designer:
    """An instance of a class whose only argument, if any, is its settings."""
    arguments = []
    if designer_class.settings_type is not None:
        try:
            arguments = [designer_class.settings_type(**settings)]
        except ValidationError as error:
            raise DesignError(format_validation_error(error)) from None
    try:
        designer = designer_class(*arguments)
    except TypeError as error:
        raise DesignError(f"cannot create the designer {designer_class.name}: {error}; pass an instance") from error
    return check_designer(designer)


def check_designer(designer: Designer) -> Designer:
    """Return the designer if it can be recorded in a run directory, else raise DesignError."""
    if designer.settings is not None and not isinstance(designer.settings, Settings):
        kind = type(designer.settings).__name__
        raise DesignError(f"the settings of the designer {designer.name} are a {kind}; use an envgen.settings.Settings")
    for method in (designer.config, designer.runtime_options):
        value = method()
        try:
            is_json = isinstance(value, dict) and json.loads(json.dumps(value)) == value
        except (TypeError, ValueError):
            is_json = False
        if not is_json:
            raise DesignError(f"{method.__name__}() of the designer {designer.name} must return JSON data in a dict")
    if not isinstance(designer.config().get("name"), str):
        raise DesignError(f"config() of the designer {designer.name} must contain its name")
    return designer


def rebuild_designer(config: Mapping[str, Any], folder: Path, runtime_options: Mapping[str, Any]) -> Designer:
    """Build the designer that a run directory describes.

    A run directory may come from someone else, so nothing that it names is imported: only designers of this package are
    rebuilt, and the server of a language model comes from `runtime_options` alone.
    """
    name = config["name"]
    fields = {key: value for key, value in config.items() if key != "name"}
    if name == UserLevels.name:
        return UserLevels(fields["levels"])
    if name not in DESIGNERS:
        raise DesignError(f"the designer {name} cannot be rebuilt from the run directory; "
                          "resume by repeating the command or call that started the run")  # fmt: skip
    designer_class = load_designer_class(name)
    if issubclass(designer_class, DesignerWrapper):
        return designer_class(rebuild_designer(fields["source"], folder, runtime_options))
    if present := sorted(fields.keys() & LlmRuntime.model_fields.keys()):
        raise DesignError(f"run.json must not store {present[0]} with the designer; pass it as a runtime option")
    if issubclass(designer_class, LlmDesigner):
        return build_designer(name, folder, llm={**fields, **runtime_options})
    return build_designer(name, folder, settings=fields)


def resume_runtime(config: Mapping[str, Any], stored: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The runtime options for resuming a run: the stored ones, updated by the new ones.

    The run may be someone else's, and a key is sent to its server. A server or key variable that is not the provider's
    own is therefore not taken from the run: it must be given again. So must the shared budget of a run that had one.
    """
    if new and not _uses_llm(config):
        raise DesignError(f"this run uses no language model; remove {_format_flags(new)}")
    stored = {name: value for name, value in stored.items() if name != "shared_budget"}
    if stored.pop(HAS_SHARED_BUDGET, False) and "shared_budget" not in new:
        raise DesignError(
            "this run takes part in a shared budget; pass --shared-budget with its file (budget.json of the sweep) "
            "again, or repeat the command that started the run without it"
        )
    custom = _custom_endpoint(config, stored)
    if missing := {name: value for name, value in custom.items() if name not in new}:
        raise DesignError(
            f"this run used {_format_flags(custom)}; "
            f"pass {_format_flags(missing)} again to resume with that server and key, or pass others"
        )
    return {**stored, **new}


def _innermost(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of the designer that uses a language model, which others may wrap."""
    while "llm" not in config and "source" in config:
        config = config["source"]
    return config


def _uses_llm(config: Mapping[str, Any]) -> bool:
    return "llm" in _innermost(config)


def _custom_endpoint(config: Mapping[str, Any], runtime_options: Mapping[str, Any]) -> dict[str, Any]:
    """The server and the key variable, where they differ from the defaults of the model's provider."""
    config = _innermost(config)
    provider = str(config.get("llm", "")).partition(":")[0]
    defaults = {"base_url": None, "key_env": KEY_VARIABLES.get(provider)}
    return {
        name: runtime_options[name]
        for name, default in defaults.items()
        if runtime_options.get(name) not in (None, default)
    }


def resume_flags(runtime_options: Mapping[str, Any]) -> str:
    """The flags that must be repeated to resume a run with these options, without passwords."""
    endpoint = _custom_endpoint(runtime_options, runtime_options)
    if "base_url" in endpoint:
        endpoint["base_url"] = redact_url(endpoint["base_url"])
    if runtime_options.get("shared_budget"):
        endpoint["shared_budget"] = runtime_options["shared_budget"]
    return _format_flags(endpoint)


def _format_flags(options: Mapping[str, Any]) -> str:
    """Options as flags of the command line."""
    return " ".join(f"--{name.replace('_', '-')} {_quote(str(value))}" for name, value in options.items())


def _quote(value: str) -> str:
    return shlex.quote(value) if value.isprintable() else ascii(value)
