"""The names of the phases of training in the progress of a run: `cycle 2: levels`, `final`."""

import re
from typing import Literal

CyclePhase = Literal["levels", "original", "mixed", "sampled levels"]
FINAL = "final"  # in the original, after the last cycle
CYCLE = re.compile(r"cycle (\d+): (.*)")
WITHOUT_LEVELS: CyclePhase = "original"


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
