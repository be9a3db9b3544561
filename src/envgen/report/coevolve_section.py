"""Co-evolutions (GenEnv): charts of groups of runs, and the parts of a run with example tasks."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from envgen.coevolution.task_stores import Rejection
from envgen.runs.kinds import get_path, model_tokens, number
from envgen.text import plural

from .charts import chart, curve, figure_row, point_data
from .curves import Metric, Points, accuracy_points, aggregate, coevolution_points
from .html import (
    Html,
    badge,
    definitions,
    details,
    format_number,
    format_seconds,
    format_steps,
    guarded,
    tag,
)
from .read import RunFiles, as_text, numbers
from .train_section import settings_list

if TYPE_CHECKING:
    from .compare_section import RunGroup

NUM_EXAMPLES = 9
MAX_REPLIES = 4  # of an example task
PromptOf = Callable[[str], tuple[str, str] | None]  # from a spec: the prompt and a correct reply


def _mean_entropy(line: Mapping[str, Any]) -> float | None:
    entropy = numbers(line, "diversity", "entropy")
    return float(np.mean(list(entropy.values()))) if entropy else None


def _num_rejected(line: Mapping[str, Any]) -> float | None:
    rejected = numbers(line, "rejected")
    return sum(rejected.values()) if rejected else None


METRICS: tuple[tuple[str, str, Metric], ...] = (
    ("Success rate p of the proposed tasks", "p", lambda line: number(line, "proposed_success_rate")),
    ("Difficulty of the proposed tasks", "difficulty", lambda line: number(line, "difficulty")),
    ("Diversity: entropy of the tasks' features", "bits", _mean_entropy),
    ("Repetition: 3-gram overlap between specs", "share", lambda line: number(line, "diversity", "ngram_overlap")),
    ("Rejected specs per step", "specs", _num_rejected),
)


def group_charts(groups: Sequence["RunGroup"]) -> Html | None:
    """Accuracy over rollouts and tokens, and what the proposers did, as interquartile means over seeds."""
    note = "Change since the start, because the models of each seed start at a different accuracy."
    charts = []
    for unit in ("rollouts", "tokens"):
        several = any(len(group.runs) > 1 for group in groups)
        curves = _curves(groups, lambda run, unit=unit: accuracy_points(run, unit), relative=several, points=True)
        if curves:
            x_label = "tokens of both models" if unit == "tokens" else unit
            y_label = "points" if several else "accuracy %"
            title = f"Held-out accuracy over {unit}"
            charts.append(chart(title, curves, x_label, y_label, note if several else "", from_zero=False))
    for title, label, metric in METRICS:
        curves = _curves(groups, lambda run, metric=metric: coevolution_points(run, metric, smooth=True))
        if curves:
            alphas = {number(run.request, "curriculum", "alpha") for group in groups for run in group.runs}
            lines = [(alpha, f"alpha {alpha:g}") for alpha in sorted(a for a in alphas if a is not None)]
            charts.append(chart(title, curves, "rollouts", label, lines=lines if label == "p" else ()))
    return figure_row(*charts) if charts else None


def _curves(
    groups: Sequence["RunGroup"], points_of: Callable[[RunFiles], Points], relative: bool = False, points: bool = False
) -> list[dict[str, Any]]:
    curves = []
    for group in groups:
        data = aggregate([points_of(run) for run in group.runs], relative)
        if data and len(data["x"]) > 1:
            curves.append(curve(group.title, group.index, data, points))
    return curves


def coevolve_section(run: RunFiles) -> list[Html | None]:
    """The parts of a run of `envgen coevolve`."""
    return [guarded(build, name) for name, build in coevolve_parts(run).items()]


def coevolve_parts(run: RunFiles) -> dict[str, Callable[[], Html | None]]:
    """The functions that build the parts of a run, by name."""
    return {
        "facts": lambda: _facts(run),
        "charts": lambda: _charts(run),
        "rejections": lambda: _rejections(run),
        "tasks": lambda: _examples(run),
        "settings": lambda: settings_list(run),
    }


def _facts(run: RunFiles) -> Html:
    final, first = number(run.summary, "final_accuracy"), number(run.summary, "initial_accuracy")
    measured = accuracy_points(run, "rollouts")
    if final is None and measured:
        first, final = measured[0][1], measured[-1][1]
    counts = get_path(run.summary, "counts")
    if model_tokens(counts, "environment") is None and run.lines:
        counts = run.lines[-1]
    seconds = numbers(run.summary, "seconds")
    items: dict[str, Any] = {
        "accuracy at the start": format_number(first),
        "final accuracy" if run.summary else "accuracy so far": format_number(final),
        "rollouts": f"{format_steps(run.steps)} of {format_steps(run.planned_steps)}",
        "tokens of the agent": format_steps(model_tokens(counts, "agent")),
        "tokens of the environment": format_steps(model_tokens(counts, "environment")),
        "wall time": format_seconds(run.seconds),
    }
    if seconds:
        parts = sorted(seconds.items(), key=lambda item: -item[1])
        items["time for"] = ", ".join(f"{name} {format_seconds(value)}" for name, value in parts)
    return definitions(items)


def _charts(run: RunFiles) -> Html | None:
    charts = own_charts(run)
    return figure_row(*charts) if charts else None


def own_charts(run: RunFiles) -> list[Html]:
    """The curves of this run alone, accuracy first."""
    curves = [
        (title, label, points)
        for title, label, points in (
            ("Held-out accuracy", "accuracy %", accuracy_points(run, "rollouts")),
            *((title, label, coevolution_points(run, metric, smooth=True)) for title, label, metric in METRICS[:4]),
        )
        if len(points) > 1
    ]
    alpha = number(run.request, "curriculum", "alpha")
    target = [(alpha, f"alpha {alpha:g}")] if alpha is not None else []
    return [
        chart(title, [curve(label, 1, point_data(points), points=k == 0)], "rollouts", label,
              lines=target if label == "p" else (), from_zero=label != "accuracy %")
        for k, (title, label, points) in enumerate(curves)
    ]  # fmt: skip


def _rejections(run: RunFiles) -> Html | None:
    """The specs that the task filter rejected, by reason: over the run, and in total."""
    reasons: tuple[str, ...] = get_args(Rejection)
    totals = {reason: sum(number(line, "rejected", reason) or 0 for line in run.lines) for reason in reasons}
    if not any("rejected" in line for line in run.lines):
        return None
    curves = [
        curve(reason.replace("_", " "), k, point_data(points))
        for k, reason in enumerate(reasons)
        if totals[reason]
        and len(points := coevolution_points(run, lambda line, r=reason: number(line, "rejected", r), smooth=True)) > 1
    ]
    proposed = number(run.lines[-1], "tasks_proposed") or 0
    fallback = sum(number(line, "fallback_tasks") or 0 for line in run.lines)
    sentence = (
        f"{proposed:,.0f} specs became tasks. Rejected: "
        + ", ".join(f"{total:,.0f} {reason.replace('_', ' ')}" for reason, total in totals.items())
        + f". {fallback:,.0f} uniform tasks replaced missing ones."
    )
    return tag(
        "section", tag("h4", "Rejected specs"), tag("p", sentence),
        figure_row(chart("Rejected specs per step, by reason", curves, "rollouts", "specs")) if curves else None,
    )  # fmt: skip


# --- example tasks


def _examples(run: RunFiles) -> Html | None:
    """Tasks from never to always solved, with replies and their scores."""
    tasks = [task for task in run.read_lines("tasks.jsonl") if isinstance(task.get("spec"), str)]
    if not tasks:
        return None
    replies: dict[str, list[dict[str, Any]]] = {}
    for trace in run.read_lines("agent_traces.jsonl"):
        if isinstance(trace.get("spec"), str):
            replies.setdefault(trace["spec"], []).append(trace)
    prompt_of = _prompts(run)
    cards = [_example(task, replies.get(task["spec"], []), prompt_of) for task in choose_examples(tasks, replies)]
    summary = [tag("strong", "Example tasks"), tag("span", f"of {plural(len(tasks), 'task')}", class_="muted")]
    return details(summary, tag("div", *cards, class_="tasks"), open_=True)


def choose_examples(
    tasks: Sequence[Mapping[str, Any]], replies: Mapping[str, Any], count: int = NUM_EXAMPLES
) -> list[Mapping[str, Any]]:
    """Tasks spread evenly over the success rates, those with recorded replies first."""
    known = [task for task in tasks if task["spec"] in replies] or list(tasks)
    ranked = sorted(known, key=lambda task: (number(task, "success_rate") or 0.0, number(task, "step") or 0.0))
    positions = np.linspace(0, len(ranked) - 1, min(count, len(ranked))).round().astype(int)
    return [ranked[k] for k in dict.fromkeys(positions.tolist())]


def _example(task: Mapping[str, Any], traces: Sequence[Mapping[str, Any]], prompt_of: PromptOf) -> Html:
    rate = number(task, "success_rate")
    prompt, correct = prompt_of(task["spec"]) or (None, None)
    ranked = sorted(traces, key=lambda trace: -(number(trace, "score") or 0.0))
    shown = [*ranked[: MAX_REPLIES - 1], *ranked[MAX_REPLIES - 1 :][-1:]]
    body = [
        tag("header", badge(f"p = {rate:.2f}" if rate is not None else "p unknown"),
            tag("span", f"step {format_number(number(task, 'step'), 0)}, by {as_text(task.get('source'))}",
                class_="muted")),
        tag("pre", prompt or _pretty(task["spec"]), class_="untrusted", tabindex="0"),
        tag("p", tag("span", "correct: ", class_="muted"), tag("code", correct)) if correct is not None else None,
        tag("ul", [_reply(trace) for trace in shown], class_="replies") if shown else None,
        details("Spec", tag("pre", _pretty(task["spec"]), class_="untrusted"), class_="small") if prompt else None,
    ]  # fmt: skip
    return tag("article", *body, class_="task")


def _reply(trace: Mapping[str, Any]) -> Html:
    score = number(trace, "score")
    kind = "good" if score == 1 else "bad" if score == 0 else "doubtful"
    text = as_text(trace.get("completion"))
    return tag("li", badge(format_number(score, 2), kind), tag("code", text or "(empty)", class_="untrusted"))


def _pretty(spec: str) -> str:
    try:
        return json.dumps(json.loads(spec), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        return spec


def _prompts(run: RunFiles) -> PromptOf:
    """Prompts are made again from the specs, if the domain belongs to this project and its package is installed."""
    from envgen.coevolution.domains.registry import is_builtin, load_domain
    from envgen.coevolution.tasks import DomainError, SpecError

    try:
        domain = load_domain(run.task) if is_builtin(run.task) else None
    except (ImportError, ValueError):
        domain = None

    def prompt_of(spec: str) -> tuple[str, str] | None:
        if domain is None:
            return None
        try:
            task = domain.make_task(domain.Spec.parse(spec))
            return task.prompt, domain.oracle_reply(task)
        except (SpecError, DomainError):
            return None

    return prompt_of
