"""The kinds of runs that are compared: who differs in them, what they came to, what they took, and what must be equal.

Each looks into a run's request and summary by paths, as it must not know who wrote them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

Means = Callable[..., float | None]  # of the values at a path in the summaries of a group


@dataclass(frozen=True)
class Kind:
    who: str  # the part of a request by whose name groups are called
    about: str  # the part of a request that says what was learned: runs of another are in another table
    plain: str  # the name that all others are held against
    results: Mapping[str, tuple[str, ...]]  # and where a summary has them
    parts: str  # what the rows of the second table are
    rates: Callable[[Any], Mapping[str, float]]  # these rows, of a summary
    costs: Mapping[str, Callable[[Means], str]]
    equals: Mapping[str, Callable[[Any, Any], Any]]  # of a request and a summary; else the groups do not compare


def get(value: Any, *path: str) -> Any:
    """What lies there, or None."""
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _skills(summary: Any) -> dict[str, float]:
    found = {name: number(get(rate, "value")) for name, rate in (get(summary, "final", "skills") or {}).items()}
    return {name: rate for name, rate in found.items() if rate is not None}


def _steps(mean: Means) -> str:
    parts = [f"{mean('steps', part) or 0:,.0f}" for part in ("levels", "original")]
    ranking = mean("steps", "ranking")
    return " + ".join([*parts, *([f"{ranking:,.0f} ranking"] if ranking else [])])


def _calls(mean: Means) -> str:
    calls = mean("llm", "calls")
    return "-" if calls is None else f"{calls:.4g}"


def _cost(mean: Means) -> str:
    cost = mean("llm", "cost")
    return f"{cost:.2f}" if cost is not None and mean("llm", "calls") else "-"


def _time(*path: str) -> Callable[[Means], str]:
    def told(mean: Means) -> str:
        found = mean(*path)
        return "-" if found is None else str(timedelta(seconds=round(found)))

    return told


def _trained(request: Any, summary: Any) -> float | None:
    """Steps that the agent learned from. Those that went into ranking levels are shown, and counted apart."""
    parts = [number(get(summary, "steps", part)) for part in ("levels", "original")]
    return sum(part or 0 for part in parts) if any(part is not None for part in parts) else None


def _cycled(request: Any, summary: Any) -> float | None:
    parts = [number(get(request, "plan", part)) for part in ("cycles", "cycle_steps")]
    return None if None in parts else math.prod(part or 0 for part in parts)


TRAIN = Kind(
    who="designer",
    about="world",
    plain="none",
    results={
        "score in training %": ("training", "score"),
        "reward in training": ("training", "reward"),
        "final score %": ("final", "score", "value"),
        "final reward": ("final", "reward", "value"),
    },
    parts="final success %",
    rates=_skills,
    costs={
        "steps: levels + original": _steps,
        "LLM calls": _calls,
        "cost $": _cost,
        "wall time": _time("seconds"),
    },
    equals={
        "training steps": _trained,
        "steps in cycles": _cycled,
        "final steps": lambda request, summary: get(request, "plan", "final_steps"),
        "observation": lambda request, summary: get(request, "observation"),
    },
)


def _by_kind(summary: Any) -> dict[str, float]:
    found = get(summary, "final_by") or {}
    return {f"{field} {value}": rate for field, rates in found.items() for value, rate in rates.items()}


def _count(name: str) -> Callable[[Means], str]:
    def told(mean: Means) -> str:
        found = mean("counts", name)
        return "-" if found is None else f"{found:,.0f}"

    return told


COEVOLVE = Kind(
    who="proposer",
    about="domain",
    plain="uniform",
    results={"before %": ("first",), "final %": ("final",), "mean of all tests %": ("mean",)},
    parts="final accuracy %",
    rates=_by_kind,
    costs={
        "rollouts": _count("rollouts"),
        "tasks proposed": _count("proposed"),
        "tokens: agent": _count("agent_tokens"),
        "environment": _count("environment_tokens"),
        "wall time": _time("whole_seconds"),
    },
    equals={
        "rollouts": lambda request, summary: get(request, "plan", "rollouts"),
        "models": lambda request, summary: get(request, "agent") or get(request, "made", "size"),
        "held-out tasks": lambda request, summary: get(request, "plan", "test"),
    },
)


def kind_of(request: Any) -> Kind:
    return COEVOLVE if isinstance(request, Mapping) and "domain" in request else TRAIN
