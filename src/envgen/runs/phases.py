"""The phases of training in the progress of a run: their names (`cycle 2: levels`, `final`) and what they play."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

CyclePhase = Literal["levels", "original", "mixed", "sampled levels"]
FINAL = "final"  # in the original, after the last cycle
CYCLE = re.compile(r"cycle (\d+): (.*)")
WITHOUT_LEVELS: CyclePhase = "original"
ORIGINAL_KEY = "{}"  # of `group_levels`
SAMPLED_KEY = "sampled"  # all levels that a sampler chooses


def cycle_phase_name(cycle: int, kind: CyclePhase) -> str:
    return f"cycle {cycle}: {kind}"


def final_phase_name(number: int) -> str:
    """The name of the final phase. Each extension of a run adds another one."""
    return FINAL if number <= 1 else f"{FINAL} {number}"


def cycle_of(phase: str) -> int | None:
    """The cycle that a phase belongs to; None for the final one."""
    match = CYCLE.match(phase)
    return int(match[1]) if match else None


def is_final(phase: str) -> bool:
    return phase.split(" ")[0] == FINAL


def has_levels(phase: str) -> bool:
    """Whether environments play the levels of a cycle in a phase, if the designer has proposed any."""
    match = CYCLE.match(phase)
    return match is not None and match[2] != WITHOUT_LEVELS


def is_sampled(phase: str) -> bool:
    """Whether a sampler chooses the level of every episode of a phase."""
    match = CYCLE.match(phase)
    return match is not None and match[2] == "sampled levels"


def group_levels(proposed: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the levels of a proposal by what they play. Those that play the same have one entry in progress lines."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for level in proposed:
        key = json.dumps(level.get("chain") or level.get("level") or {}, sort_keys=True)
        groups.setdefault(key, []).append(level)
    return groups


def entry_keys(phase: str, proposed: Iterable[Mapping[str, Any]]) -> list[str]:
    """What each entry of `levels` in the progress lines of a phase plays: keys of `group_levels`, or SAMPLED_KEY."""
    if is_sampled(phase):
        return [ORIGINAL_KEY, SAMPLED_KEY]
    keys = list(group_levels(proposed)) if has_levels(phase) else []
    if not keys or (phase.endswith(": mixed") and ORIGINAL_KEY not in keys):
        keys.append(ORIGINAL_KEY)
    return keys


def original_index(phase: str, proposed: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the index of the original in `levels` of the progress lines of a phase; None if it was not played."""
    keys = entry_keys(phase, proposed)
    return keys.index(ORIGINAL_KEY) if ORIGINAL_KEY in keys else None
