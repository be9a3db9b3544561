"""Settings classes as command-line options.

An option that is left out is None, so a command knows which ones the user gave. Where None is itself a value, it is
written `none` on the command line.
"""

import functools
import operator
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import tyro
from pydantic import BaseModel, ConfigDict, create_model
from pydantic.fields import FieldInfo
from tyro.constructors import PrimitiveConstructorSpec

NONE = "none"
REQUIRED = "required"  # as the default of an option that a command demands
_NULLABLE: dict[type[BaseModel], set[str]] = {}  # by options class, the fields where `none` means None


def optional_settings(
    settings_class: type[BaseModel],
    name: str,
    defaults: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Any:
    """A model with the same fields as `settings_class`, all of them optional, without groups of settings.

    Args:
        defaults: The defaults shown in the help text where they depend on something else.
        flags: Names on the command line that differ from those of the fields.
    """
    fields: dict[str, Any] = {}
    for field_name, field in settings_class.model_fields.items():
        if isinstance(field.default, BaseModel):
            continue
        hint = (defaults or {}).get(field_name, "" if field.is_required() else str(_as_text(field.default)))
        option = tyro.conf.arg(
            name=(flags or {}).get(field_name),
            help=" ".join(_description(settings_class, field_name).split()),
            help_behavior_hint=f"({REQUIRED})" if hint == REQUIRED else f"(default: {hint})" if hint else "",
        )
        fields[field_name] = (Annotated[_optional(field), option], None)
    options = create_model(name, __config__=ConfigDict(frozen=True), __doc__=settings_class.__doc__, **fields)
    _NULLABLE[options] = {name for name, field in settings_class.model_fields.items() if _is_nullable(field)}
    return options


def _description(settings_class: type[BaseModel], name: str) -> str:
    """The description of a field. A subclass that only changes the default inherits it."""
    fields = (getattr(base, "model_fields", {}).get(name) for base in settings_class.__mro__)
    return next((field.description for field in fields if field is not None and field.description), "")


def _optional(field: FieldInfo) -> Any:
    annotation: Any = field.annotation
    if get_origin(annotation) is Literal:
        return choice(*get_args(annotation))
    if not _is_nullable(field):
        return annotation | None
    # without the bounds of the values, which are checked with an error message of one line later
    types = [get_args(each)[0] if get_origin(each) is Annotated else each for each in get_args(annotation)]
    return functools.reduce(operator.or_, [*types, Literal["none"]])


def _is_nullable(field: FieldInfo) -> bool:
    """Whether None is a value of a field, and not a flag, which has no value on the command line."""
    annotation: Any = field.annotation
    types = get_args(annotation)
    return type(None) in types and bool not in types and get_origin(annotation) is not Literal


def _as_text(default: Any) -> Any:
    return NONE if default is None else default


def explicitly_set(options: BaseModel | None) -> dict[str, Any]:
    """The options that the user gave."""
    if options is None:
        return {}
    nullable = _NULLABLE[type(options)]
    values = {name: getattr(options, name) for name in type(options).model_fields}
    return {
        name: None if str(value) == NONE and name in nullable else value  # the value may be a Path
        for name, value in values.items()
        if value is not None
    }


def choice(*values: str) -> Any:
    """An optional string of a few. Unlike `Literal[...] | None`, an error message does not list None as a choice."""
    return Annotated[
        Literal[*values] | None,
        PrimitiveConstructorSpec(
            nargs=1, metavar=f"{{{','.join(values)}}}", instance_from_str=lambda words: words[0],
            is_instance=lambda value: value is None or value in values, str_from_instance=lambda value: [str(value)],
            choices=values,
        ),
    ]  # fmt: skip


def flag(name: str) -> str:
    """How a field is written on the command line."""
    return "--" + name.replace("_", "-")


def given_flags(prefix: str, options: Mapping[str, Any]) -> list[str]:
    """How options were given. Those that are False were given by their negation."""
    group = f"{prefix}." if prefix else ""
    return [flag(f"{group}no_{name}" if value is False else group + name) for name, value in options.items()]


def default(text: str, metavar: str | None = None) -> Any:
    """The default to show for an option whose value is None if it is left out."""
    return tyro.conf.arg(help_behavior_hint=f"(default: {text})", metavar=metavar)


def required(metavar: str) -> Any:
    """A positional argument, or several of them, without a default."""
    return tyro.conf.arg(help_behavior_hint="(required)", metavar=metavar)
