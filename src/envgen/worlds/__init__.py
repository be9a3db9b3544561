"""Worlds: families of environments whose levels a designer can change."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .gymnasium_world import from_gymnasium

__all__ = ["from_gymnasium"]


if not TYPE_CHECKING:  # otherwise every name would be valid for type checkers, as Any

    def __getattr__(name: str) -> Any:
        if name == "from_gymnasium":
            from .gymnasium_world import from_gymnasium

            return from_gymnasium
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
