"""Check levels before the agent trains in them: statistics of their environments, random actions, and the world's
scripted expert.

A skill cannot be taught in a level where it is impossible, counts as achieved from the start, or is mastered by random
actions. It is doubtful where neither random actions nor the scripted expert reach it in time, which may only mean that
it is hard. A level is as good as the best of the skills that it is meant to teach: `bad` if none of them can be taught
there, or if it cannot be created. The agent learns from none of these steps.
"""

import os
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import Any

import numpy as np

from envgen.designers.designer import AuditResult, ProposedLevel, SettingEffects
from envgen.errors import EnvgenError
from envgen.settings import unflatten
from envgen.worlds.level_space import setting_values
from envgen.worlds.world import LevelError, SupportsActive, World, sample_actions

NUM_ENVS = 32  # for random actions, and for the scripted expert
AUDIT_SEEDS = range(64)  # of the environments whose statistics an audit uses
MASTERY_RATE = 0.95  # random actions with this success rate leave nothing to learn
SEED = 77_000_000

EFFECT_SEEDS = range(48)  # of the environments whose statistics show the effect of a setting
MIN_RELATIVE_CHANGE = 0.33  # smaller changes of a statistic are not reported
MIN_STATISTIC = 0.5  # nor statistics that are smaller before and after
MAX_CHANGES = 4  # reported per level or value

ActionFunction = Callable[[Any], np.ndarray | None]  # actions for the environments, or None if it has none


def audit_level(world: World, proposed: ProposedLevel, steps: int, original_stats: Mapping[str, float]) -> AuditResult:
    """Audit one level. `original_stats` are the statistics of the original."""
    try:
        level = proposed.level
        stats = world.level_stats(level, AUDIT_SEEDS)
        possible = world.reachable_skills(level, stats)
        rng = np.random.default_rng(SEED)
        at_start, random_steps = first_success_steps(
            world, level, steps, lambda envs: sample_actions(envs.single_action_space, envs.num_envs, rng)
        )
        _, expert_steps = first_success_steps(world, level, steps, world.expert_actions)
    except Exception as error:  # noqa: BLE001  a level may break the simulator in any way
        if os.environ.get("ENVGEN_DEBUG"):
            traceback.print_exc()
        cause = str(error) if isinstance(error, EnvgenError) else f"{type(error).__name__}: {error}"
        return AuditResult(verdict="bad", reasons=(f"its environments cannot be created or played: {cause}",))
    assert random_steps is not None  # random actions always exist
    names = [skill.name for skill in world.skills]
    bad, doubtful, findings = [], [], []
    for skill in proposed.skills:
        k = names.index(skill)
        steps_by_policy = {"random": random_steps, "expert": expert_steps}
        results = [_describe(name, first[:, k], steps) for name, first in steps_by_policy.items() if first is not None]
        findings.append(f"{skill}: {', '.join(results)}")
        random_rate = (random_steps[:, k] >= 0).mean()
        if skill not in possible:
            bad.append(f"{skill} is impossible: none of {len(AUDIT_SEEDS)} environments has what it needs")
        elif at_start[k] or skill in level.done_skills:
            bad.append(f"{skill} is already done at the start")
        elif random_rate >= MASTERY_RATE:
            bad.append(
                f"{skill} is mastered by random actions, which succeed in {100 * random_rate:.0f}% of the episodes "
                f"within {steps} steps"
            )
        elif not random_rate and not _any_success(expert_steps, k):
            doubtful.append(f"no player reached {skill} within {steps} steps")
    is_bad = bool(bad) and len(bad) == len(proposed.skills)
    is_doubtful = bool(doubtful) and len(bad) + len(doubtful) == len(proposed.skills)
    rewarded = [k for k, name in enumerate(names) if name not in level.done_skills]
    if not _any_success(random_steps, rewarded) and not _any_success(expert_steps, rewarded):
        doubtful.append(f"no player succeeded at anything within {steps} steps")
        is_doubtful = True
    if impossible := [name for name in names if name not in possible]:
        findings.append(f"impossible here: {', '.join(impossible)}")
    findings += changed_stats(original_stats, stats.as_dict())
    if is_bad or is_doubtful:
        verdict = "bad" if is_bad else "doubtful"
        return AuditResult(verdict=verdict, reasons=(*bad, *doubtful), findings=tuple(findings))
    return AuditResult(verdict="good", findings=(*bad, *doubtful, *findings))


def _any_success(first_steps: np.ndarray | None, skills: int | list[int]) -> bool:
    return first_steps is not None and bool((first_steps[:, skills] >= 0).any())


def first_success_steps(
    world: World, level: Any, steps: int, actions_for: ActionFunction
) -> tuple[np.ndarray, np.ndarray | None]:
    """Play the first episode of NUM_ENVS environments.

    Returns:
        Which skills (skills,) are done at the start, and the step at which each environment first succeeded at each
        skill (envs, skills), -1 for never; None if `actions_for` returns no actions.
    """
    envs = world.make([level], num_envs=NUM_ENVS, seed=SEED, observation=world.default_observation)
    with closing(envs):
        _, infos = envs.reset()
        at_start = (infos["achievements"] > 0).any(0)
        first_steps = np.full((NUM_ENVS, len(world.skills)), -1)
        active = np.ones(NUM_ENVS, np.bool_)
        for step in range(1, steps + 1):
            actions = actions_for(envs)
            if actions is None:
                return at_start, None
            _, _, terminated, truncated, infos = envs.step(actions)
            dones = terminated | truncated
            counts = infos["achievements"].copy()
            if dones.any():
                counts[dones] = infos["final_info"]["achievements"][dones]
            first_steps[(counts > 0) & (first_steps < 0) & active[:, None]] = step
            active &= ~dones
            if isinstance(envs, SupportsActive):
                envs.set_active(active)
            if not active.any():
                break
        return at_start, first_steps


def _describe(policy: str, first_steps: np.ndarray, steps: int) -> str:
    """`random 12% within 500 steps, median step 131`"""
    successes = first_steps[first_steps >= 0]
    rate = f"{policy} {100 * successes.size / first_steps.size:.0f}% within {steps} steps"
    return f"{rate}, median step {np.median(successes):.0f}" if successes.size else rate


# --- what settings do, for the brief of a designer


def original_skills(world: World) -> set[str]:
    """The skills that are possible in the original."""
    return world.reachable_skills(world.original, world.level_stats(world.original, AUDIT_SEEDS))


def setting_effects(world: World) -> SettingEffects:
    """Return how each setting's values change the level's statistics; values without a reported change are left out."""
    original_stats = world.level_stats(None, EFFECT_SEEDS).as_dict()
    effects: SettingEffects = {}
    for name, values in setting_values(world.Level).items():
        original, *others = values
        if others and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            others = [max(others, key=lambda value: abs(value - original))]  # of numbers, only the furthest
        by_value = {}
        for value in others:
            with suppress(LevelError):  # it is valid only with other settings
                level = world.Level.parse(unflatten({name: value}))
                by_value[str(value)] = changed_stats(original_stats, world.level_stats(level, EFFECT_SEEDS).as_dict())
        if by_value := {value: changes for value, changes in by_value.items() if changes}:
            effects[name] = by_value
    return effects


def changed_stats(before: Mapping[str, float], after: Mapping[str, float], max_changes: int = MAX_CHANGES) -> list[str]:
    """Return the statistics that changed most, each as `name before -> after`."""
    changes = []
    # A distance to something that does not exist is in only one of them. Its count then shows the change.
    for name in before.keys() & after.keys():
        old, new = before[name], after[name]
        larger = max(abs(old), abs(new))
        if larger >= MIN_STATISTIC and abs(new - old) >= MIN_RELATIVE_CHANGE * larger:
            changes.append((-abs(new - old) / larger, name, f"{name} {old:.1f} -> {new:.1f}"))
    return [text for _, _, text in sorted(changes)[:max_changes]]
