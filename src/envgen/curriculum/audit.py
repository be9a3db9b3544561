"""What is found out about a level before anybody trains in it: its worlds counted, and played by players that know
nothing (random actions) and, where the world has one, everything (its scripted player).

A verdict is `bad` if training there cannot teach what the level is for: it cannot be built, a skill it aims at is
impossible or there from the start, or random actions master it. `doubtful`: neither player got there in the time
given, which may mean that it is hard. None of these steps is learned from.
"""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from envgen.designers.designer import AuditResult, ProposedLevel
from envgen.worlds.world import World

from .facts import changes

PLAYERS = 32  # environments for each player
WORLDS = range(64)  # the seeds counted
TRIVIAL = 0.95  # of random players succeed: nothing to learn
SEED = 77_000_000

Play = Callable[[Any], np.ndarray | None]  # actions for the environments given; None from who is not there


def audit_level(world: World, proposed: ProposedLevel, steps: int, before: dict[str, float]) -> AuditResult:
    """`before`: the census figures of the original."""
    try:
        level = world.Level.parse(proposed.level)
        census = world.level_stats(level, WORLDS)
        possible = world.reachable_skills(level, census)
        chance = np.random.default_rng(SEED)
        at_start, by_random = first_successes(
            world, level, steps, lambda envs: chance.integers(len(world.actions), size=envs.num_envs)
        )
        _, by_script = first_successes(world, level, steps, world.expert_actions)
    except Exception as error:  # noqa: BLE001  whatever a level can do to a simulator is this level's verdict
        return AuditResult(verdict="bad", reasons=(f"its worlds cannot be made or played: {error}",))
    assert by_random is not None  # chance always acts
    names = [skill.name for skill in world.skills]
    bad, doubtful, facts = [], [], []
    for skill in proposed.skills:
        k = names.index(skill)
        seen = [_told(who, found[:, k], steps) for who, found in (("random", by_random), ("scripted", by_script))
                if found is not None]  # fmt: skip
        facts.append(f"{skill}: {', '.join(seen)}")
        reached = (by_random[:, k] >= 0).mean()
        if skill not in possible:
            bad.append(f"{skill} is impossible: none of {len(WORLDS)} worlds has what it takes")
        elif at_start[k]:
            bad.append(f"{skill} counts as done from the start")
        elif reached >= TRIVIAL:
            bad.append(f"{skill} is mastered by random actions ({100 * reached:.0f}% of them within {steps} steps)")
        elif not reached and not _any(by_script, k):
            doubtful.append(f"no player reached {skill} within {steps} steps")
    if not (by_random >= 0).any() and not _any(by_script):
        doubtful.append(f"no player succeeded in anything within {steps} steps")
    if lost := [name for name in names if name not in possible]:
        facts.append(f"impossible here: {', '.join(lost)}")
    facts += changes(before, census.as_dict())
    return AuditResult(
        verdict="bad" if bad else "doubtful" if doubtful else "good", reasons=(*bad, *doubtful), findings=tuple(facts)
    )


def _any(first: np.ndarray | None, skill: int | slice = slice(None)) -> bool:
    return first is not None and bool((first[:, skill] >= 0).any())


def first_successes(world: World, level: Any, steps: int, play: Play) -> tuple[np.ndarray, np.ndarray | None]:
    """Which skills (skills,) are there from the start, and at which step of the first episode each environment first
    succeeded in each (PLAYERS, skills), -1 for never. None if the player gives no actions."""
    observation = "symbols" if "symbols" in world.observations else world.observations[0]
    with closing(world.make([level], num_envs=PLAYERS, seed=SEED, observation=observation)) as envs:
        _, infos = envs.reset()
        at_start = (infos["achievements"] > 0).any(0)
        first = np.full((PLAYERS, len(world.skills)), -1)
        playing = np.ones(PLAYERS, np.bool_)
        for step in range(1, steps + 1):
            actions = play(envs)
            if actions is None:
                return at_start, None
            _, _, terminated, truncated, infos = envs.step(actions)
            ended = terminated | truncated
            counts = infos["achievements"].copy()
            if ended.any():
                counts[ended] = infos["final_info"]["achievements"][ended]
            first[(counts > 0) & (first < 0) & playing[:, None]] = step
            playing &= ~ended
            if not playing.any():
                break
        return at_start, first


def _told(who: str, first: np.ndarray, steps: int) -> str:
    """`random 12% within 500 steps, median step 131`"""
    there = first[first >= 0]
    share = f"{who} {100 * there.size / first.size:.0f}% within {steps} steps"
    return f"{share}, median step {np.median(there):.0f}" if there.size else share
