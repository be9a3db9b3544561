"""The two kinds of runs that `compare` knows: their results, costs, and the settings that must match.

A kind reads a run's request and summary by path, because it must not import the packages that write them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .statistics import is_unmeasured

SummaryMean = Callable[..., float | None]  # the mean of the values at a path in the summaries of a group

MAX_NUMBER = 1e13
TOKEN_COUNTS = {  # of each model: generated, in prompts (each prompt once), and in the sequences of gradient steps
    "agent": ("agent_tokens", "agent_prompt_tokens", "agent_update_tokens"),
    "environment": ("environment_tokens", "environment_prompt_tokens", "environment_update_tokens"),
}


@dataclass(frozen=True)
class Kind:
    """How runs of one kind are compared."""

    group_key: str  # the part of a request whose name labels a group: designer or proposer
    task_key: str  # the part of a request that says what was learned; each has its own table
    baseline: str  # the group that all others are compared with
    results: Mapping[str, tuple[str, ...]]  # column: path in a summary
    main_result: str  # the one of these columns that ranks the groups
    row_label: str  # heading of the rows of the second table
    rates: Callable[[Any], Mapping[str, float]]  # these rows, from a summary
    costs: Mapping[str, Callable[[SummaryMean], str]]
    must_match: Mapping[str, Callable[[Any, Any], Any]]  # of a request and a summary

    def __reduce__(self) -> str:  # comparisons can be pickled, functions such as those above cannot
        return "TRAIN" if self is TRAIN else "COEVOLVE"


def get_path(value: Any, *path: str) -> Any:
    """Return the value at a path of nested mappings, or None."""
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def number(value: Any, *path: str) -> float | None:
    """Return the value at a path of nested mappings if it is a finite number, else None.

    No result of a run is as large as MAX_NUMBER.
    """
    value = get_path(value, *path)
    return value if type(value) in (int, float) and abs(value) < MAX_NUMBER else None


def _get_mapping(value: Any, *path: str) -> Mapping[str, Any]:
    mapping = get_path(value, *path)
    return mapping if isinstance(mapping, Mapping) else {}


def model_tokens(counts: Any, model: str, prompts: bool = True) -> float | None:
    """Return the tokens that the agent or the environment policy generated, read in prompts and was trained on.

    Older runs counted only some of them: of the agent, no prompts. `prompts=False` leaves those of both models out.
    """
    generated, in_prompts, trained_on = (number(counts, name) for name in TOKEN_COUNTS[model])
    return None if generated is None else generated + ((in_prompts or 0) if prompts else 0) + (trained_on or 0)


def total_tokens(counts: Any, prompts: bool = True) -> float | None:
    """Return the tokens of both models."""
    agent, environment = (model_tokens(counts, model, prompts) for model in TOKEN_COUNTS)
    return None if agent is None or environment is None else agent + environment


def _format_tokens(model: str) -> Callable[[SummaryMean], str]:
    def text(mean: SummaryMean) -> str:
        total = model_tokens({name: mean("counts", name) for name in TOKEN_COUNTS[model]}, model)
        return "-" if total is None else f"{total:,.0f}"

    return text


def skill_rates(evaluation: Any) -> dict[str, float]:
    """Return the success rates of an evaluation in percent, without skills that were possible in no episode."""
    estimates = _get_mapping(evaluation, "skills")
    rates = {
        str(name): number(estimate, "value")
        for name, estimate in estimates.items()
        if not is_unmeasured(get_path(estimate, "low"), get_path(estimate, "high"))
    }
    return {name: rate for name, rate in rates.items() if rate is not None}


def _format_steps(mean: SummaryMean) -> str:
    parts = [f"{mean('steps', part) or 0:,.0f}" for part in ("levels", "original")]
    ranking = mean("steps", "ranking")
    return " + ".join([*parts, *([f"{ranking:,.0f} ranking"] if ranking else [])])


def _format_calls(mean: SummaryMean) -> str:
    calls = mean("llm", "calls")
    return "-" if calls is None else f"{calls:.4g}"


def _format_cost(mean: SummaryMean) -> str:
    cost = mean("llm", "cost")
    return f"{cost:.2f}" if cost is not None and mean("llm", "calls") else "-"


def _format_time(*path: str) -> Callable[[SummaryMean], str]:
    def format_time(mean: SummaryMean) -> str:
        seconds = mean(*path)
        return "-" if seconds is None else str(timedelta(seconds=round(seconds)))

    return format_time


def _format_count(*path: str) -> Callable[[SummaryMean], str]:
    def format_count(mean: SummaryMean) -> str:
        count = mean(*path)
        return "-" if count is None else f"{count:,.0f}"

    return format_count


def _training_steps(request: Any, summary: Any) -> float | None:
    """Return the steps that the agent learned from. Steps for scoring levels are reported separately."""
    parts = [number(summary, "steps", part) for part in ("levels", "original")]
    return sum(part or 0 for part in parts) if any(part is not None for part in parts) else None


def _cycle_steps(request: Any, summary: Any) -> float | None:
    parts = [number(request, "plan", part) for part in ("cycles", "cycle_steps")]
    return None if None in parts else math.prod(part or 0 for part in parts)


TRAIN = Kind(
    group_key="designer",
    task_key="world",
    baseline="none",
    results={
        "score in training %": ("training", "score"),
        "reward in training": ("training", "reward"),
        "final score %": ("final", "score", "value"),
        "final reward": ("final", "reward", "value"),
    },
    main_result="final score %",
    row_label="final success %",
    rates=lambda summary: skill_rates(get_path(summary, "final")),
    costs={
        "steps: levels + original": _format_steps,
        "LLM calls": _format_calls,
        "cost $": _format_cost,
        "wall time": _format_time("seconds"),
    },
    must_match={
        "training steps": _training_steps,
        "steps in cycles": _cycle_steps,
        "final steps": lambda request, summary: get_path(request, "plan", "final_steps"),
        "observation": lambda request, summary: get_path(request, "observation"),
    },
)


def _rates_by_feature(summary: Any) -> dict[str, float]:
    by_feature = _get_mapping(summary, "final_accuracy_by")
    values = ((f"{name} {value}", number(rate)) for name in by_feature
              for value, rate in _get_mapping(by_feature, name).items())  # fmt: skip
    return {name: rate for name, rate in values if rate is not None}


COEVOLVE = Kind(
    group_key="proposer",
    task_key="domain",
    baseline="uniform",
    results={
        "initial %": ("initial_accuracy",),
        "final %": ("final_accuracy",),
        "mean of all evaluations %": ("mean_accuracy",),
    },
    main_result="final %",
    row_label="final accuracy %",
    rates=_rates_by_feature,
    costs={
        "rollouts": _format_count("counts", "rollouts"),
        "tasks proposed": _format_count("counts", "tasks_proposed"),
        "agent tokens": _format_tokens("agent"),
        "environment tokens": _format_tokens("environment"),
        "wall time": _format_time("total_seconds"),
    },
    must_match={
        "rollouts": lambda request, summary: get_path(request, "plan", "rollouts"),
        "models": lambda request, summary: (
            get_path(request, "agent") or get_path(request, "pretrain_recipe", "model_size")
        ),
        "held-out tasks": lambda request, summary: get_path(request, "plan", "num_eval_tasks"),
    },
)


def kind_of(request: Any) -> Kind:
    """Return the kind of the run with this request."""
    return COEVOLVE if isinstance(request, Mapping) and "domain" in request else TRAIN
