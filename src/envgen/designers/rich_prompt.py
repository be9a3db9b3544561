"""What a language model is told with `--feedback rich`, beyond the texts of prompt.py: how the agent trains, the curve
of every skill, how episodes end and where they fail, what each level taught, and all earlier levels.

Everything is computed from the brief and the finished cycles, so a resumed run sends the same texts again.
"""

import json
from collections.abc import Sequence

from .designer import (
    MAX_WEIGHT,
    MIN_WEIGHT,
    Brief,
    Cycle,
    CycleDiagnosis,
    LevelOutcome,
    ProposedLevel,
    TrainingFacts,
)
from .earlier_levels import EarlierLevel, chain_stages, collect_earlier_levels, names_of

ORDINALS = {1: "first", 2: "second", 3: "third"}
UNMEASURED = "not possible in these episodes"
MIN_REPORTED_RATE = 1.0  # percent; rarer successes in a level are reported only for the skills that it teaches
MAX_ENDS = 6  # causes that are listed
MASTERED = 50  # percent; the threshold of the diagnosis


def training_section(brief: Brief) -> str:
    """How the agent trains, what it is rewarded for and how it is judged, as far as the brief says."""
    facts = brief.training
    lines = [f"- Reward: {' '.join(brief.reward_rule.split())}"] if brief.reward_rule else []
    lines.append(
        "- Its score is a geometric mean over skills: a skill that rises from 0% to 5% adds more than one that rises "
        "from 50% to 100%."
    )
    if facts is not None:
        lines += _training_lines(brief, facts)
    possible = None if brief.original_skills is None else brief.original_skills()
    if possible is not None and (impossible := [skill.name for skill in brief.skills if skill.name not in possible]):
        lines.append(f"- These skills are only possible in levels, not in the real game: {', '.join(impossible)}.")
    return "\n".join(["## The agent and its training", *lines])


def _training_lines(brief: Brief, facts: TrainingFacts) -> list[str]:
    steps_per_level = facts.level_steps // (brief.levels_per_cycle or brief.num_levels)
    when = "at the same time, in the same batches, " if facts.mixed else "then "
    lines = [
        f"- Each cycle has {facts.level_steps:,} steps in the levels, shared according to their weights, and {when}"
        f"{facts.original_steps:,} steps in the real game. With equal weights, a level gets "
        f"{steps_per_level:,} steps: 100 episodes of {steps_per_level // 100:,} steps, for example."
    ]
    if not facts.mixed:
        lines.append(
            "- It can unlearn what the levels of a cycle do not reward: a skill that gives no reward in any of them "
            "may fall to 0% in the real game as well, and need not return afterwards."
        )
    if facts.final_steps:
        lines.append(f"- After the last cycle, it trains for {facts.final_steps:,} steps in the real game.")
    lines.append(f"- It plays {facts.num_envs} environments side by side and observes {facts.observation}.")
    lines += _discount(facts)
    memory = f"It remembers earlier steps of the episode ({facts.memory})" if facts.memory else "It has no memory"
    lines.append(f"- {memory}.")
    if facts.practice_share:
        which = "those that play the real game" if facts.mixed else "its environments"
        lines.append(
            f"- Of {which}, {100 * facts.practice_share:.0f}% are for practice: their episodes start from states "
            "of its own earlier episodes, shortly before a success that is rare."
        )
    if facts.is_pretrained:
        lines.append("- It starts with the weights of a trained policy.")
    return lines


def _discount(facts: TrainingFacts) -> list[str]:
    gamma, final_gamma = facts.gamma, facts.final_gamma
    if gamma is None or gamma >= 1:
        return []
    text = f"- It discounts rewards by {gamma:g} per step"
    if final_gamma is not None and final_gamma != gamma:
        return [f"{text} at first and {final_gamma:g} at the end of its training: what is far away hardly counts."]
    horizon = 1 / (1 - gamma)
    return [f"{text}: a reward counts a third if it is {horizon:,.0f} steps away, and 5% at {3 * horizon:,.0f} steps."]


def reply_section(brief: Brief) -> str:
    """What a reply may contain beyond purpose, skills and level."""
    skills, has_earlier_levels = [brief.skills[0].name], brief.num_cycles > 1
    last = brief.levels_per_cycle or brief.num_levels
    ordinal = ORDINALS.get(last, f"{last}th")
    base = {"base": f"1.{last}"} if has_earlier_levels else {}
    example = json.dumps({"purpose": "in a sentence", **base, "level": {}, "skills": skills, "weight": 2})
    chains = ", ".join(f"{name} ({stages} stages)" for name, stages in chain_stages(brief).items())
    chain = (
        ""
        if not chains
        else f"""
- "chain": instead of settings, a skill that is taught in a chain of levels. The first stage has everything at hand;
  what it grants is withdrawn one by one, then abundances return to normal, and the last stage is the real game. The
  next stage begins as soon as the agent succeeds in half of the episodes. If you name the chain again in a later
  cycle, it goes on at the stage it has reached. "none" is no chain. There are chains for {chains}."""
    )
    earlier = (
        ""
        if not has_earlier_levels
        else f"""
- "base": from the second cycle on, the name of an earlier level such as "1.{last}", the {ordinal} that was used in the
  first cycle. The level is then a copy of that one with the settings in "level" changed, or the same again if "level"
  is empty. Without a base, or with "none", it is a new level. Earlier levels that are not named again are dropped, and
  can be taken up later."""
    )
    return f"""\
A level may also have these entries:
- "weight": its share of the training relative to the other levels, from {MIN_WEIGHT:g} to {MAX_WEIGHT:g} (default 1).
  Shares are rounded to whole environments, at least one for each level.{earlier}{chain}
For example: {example}"""


def cycle_section(brief: Brief, cycle: Cycle, earlier: Sequence[Cycle], is_newest: bool) -> list[str]:
    """The report on a cycle: skills, episodes, the levels of the cycle and earlier ones.

    Only the newest report has all of it. Earlier ones keep their levels, so that a conversation grows linearly.
    """
    levels = collect_earlier_levels([*earlier, cycle])
    current = names_of(cycle.proposal.levels, levels)
    lines: list[str] = []
    if is_newest:
        lines += [_remaining(brief, cycle), "", *_curve_lines(brief, cycle, earlier)]
        if cycle.diagnosis is not None:
            lines += ["", *_diagnosis_lines(cycle.diagnosis)]
    if cycle.proposal.notes:
        lines += ["", f"The last reply was not used as it is: {'; '.join(cycle.proposal.notes)}."]
    lines += [
        "",
        "It trained in these levels. How often random actions and a scripted expert succeed in them is measured in "
        "single episodes. Figures of their maps are means: in the real game -> in the level.",
    ]
    for name in dict.fromkeys(current):
        k, count = current.index(name), current.count(name)
        proposed = cycle.proposal.levels[k]
        is_repeated = levels[name].cycles != [cycle.number]
        lines += [
            f"Level {name}{_origin(proposed, is_repeated, count)}: {_to_json(proposed)}",
            *_level_lines(k, cycle, earlier),
        ]
    others = [(name, entry) for name, entry in levels.items() if name not in current]
    if is_newest and others:
        lines += [
            "",
            "Earlier levels in which it no longer trains. Learnability is p (1 - p) of the last success rate p, and at "
            "most 0.25.",
        ]
        lines += [f"Level {name}: {_to_json(entry.proposed)}\n  {_statistics(entry)}" for name, entry in others]
    return lines


def _curve_lines(brief: Brief, cycle: Cycle, earlier: Sequence[Cycle]) -> list[str]:
    lines = ["Its success rates in the real game after each cycle; the last ± its standard error:"]
    for skill in brief.skills:
        rates = [past.success_rates.get(skill.name) for past in earlier]
        before = [f"{rate.mean:.1f}%" if rate else "?" for rate in rates]
        rate = cycle.success_rates.get(skill.name)
        newest = f"{rate.mean:.1f}% ± {rate.standard_error:.1f}%" if rate else UNMEASURED
        lines.append(f"- {skill.name}: {' -> '.join([*before, newest])}")
    return lines


def _remaining(brief: Brief, cycle: Cycle) -> str:
    cycles, facts = brief.num_cycles - cycle.number, brief.training
    text = f"{cycles} {'cycle remains' if cycles == 1 else 'cycles remain'}"
    if facts is None:
        return f"{text}."
    return f"{text}, with {cycles * facts.level_steps:,} steps in levels in all."


def _diagnosis_lines(diagnosis: CycleDiagnosis) -> list[str]:
    total = diagnosis.episodes
    lines = [
        f"{total} episodes of the real game were analyzed. Their median length is {diagnosis.median_length:.0f} steps."
    ]
    lines.append("They end by:")
    lines += [
        f"- {end.cause}: {100 * end.episodes / total:.0f}%, median step {end.median_length:.0f}"
        for end in diagnosis.ends[:MAX_ENDS]
    ]
    if diagnosis.failures:
        lines.append(
            f"Skills that succeed in less than {MASTERED}% of them, and the stage at which most episodes on the way to "
            "them are lost, with the number that passed it:"
        )
    for name, failure in diagnosis.failures.items():
        text = f"- {name} ({failure.success_rate:.1f}%): {failure.bottleneck or 'no single stage'}"
        if failure.opportunities:
            text += (
                f"; it was possible at some step of {failure.opportunities} episodes and tried then in {failure.used}"
            )
        lines.append(text)
    return lines


def _origin(proposed: ProposedLevel, is_repeated: bool, count: int) -> str:
    parts = ["used before"] if is_repeated else [f"changed from {proposed.base}"] if proposed.base else []
    parts += [f"in {count} places"] if count > 1 else []
    parts += [f"weight {proposed.weight:g}"] if proposed.weight != 1 else []
    return f" ({', '.join(parts)})" if parts else ""


def _to_json(proposed: ProposedLevel) -> str:
    if proposed.chain is not None:
        begin = f"begun at stage {proposed.chain.start + 1} of {len(proposed.chain.levels)}"
        return f"{json.dumps({'skills': list(proposed.skills), 'chain': proposed.chain.skill})}, {begin}"
    return json.dumps({"skills": list(proposed.skills), "level": proposed.level.to_overrides()})


def _level_lines(k: int, cycle: Cycle, earlier: Sequence[Cycle]) -> list[str]:
    """What a level taught, and what its audit found."""
    outcome = cycle.outcomes[k] if k < len(cycle.outcomes) else None
    proposed = cycle.proposal.levels[k]
    lines = [_progress(outcome, proposed.skills) if outcome else "too few episodes ended in it to say what it taught"]
    if outcome is not None and outcome.chain is not None and proposed.chain is not None:
        stages = [
            f"stage {stage + 1} {successes} of {episodes}"
            for stage, (episodes, successes) in enumerate(
                zip(outcome.chain.episodes, outcome.chain.successes, strict=True)
            )
            if episodes
        ]
        reached = f"it reached stage {outcome.chain.stage + 1} of {len(proposed.chain.levels)}"
        lines.append(f"{reached}; episodes with success at {proposed.chain.skill}: {', '.join(stages)}")
    changes = []
    for name in proposed.skills:
        if name in cycle.success_rates:
            before = [past.success_rates[name] for past in earlier[-1:] if name in past.success_rates]
            change = " -> ".join(f"{rate.mean:.1f}%" for rate in (*before, cycle.success_rates[name]))
            changes.append(f"{name} {change}")
    if changes:
        when = ", before -> after this cycle" if earlier else " after this cycle"
        lines.append(f"in the real game{when}: {', '.join(changes)}")
    if k < len(cycle.audits):
        lines += [*cycle.audits[k].reasons, *cycle.audits[k].findings]
    return [f"  {line}" for line in lines]


def _progress(outcome: LevelOutcome, skills: Sequence[str]) -> str:
    """`120 episodes, mean reward 4.1; success rates in the first -> last third of training: collect_wood 40% -> 71%`"""
    first, last = outcome.first_third, outcome.last_third
    when, parts = "in the first -> last third of training", (first, last)
    if not last:  # all ended in so few updates that they cannot be divided
        when, parts = "in all of them", (outcome.skills,)
    rates: list[str] = []
    for name in outcome.skills:
        values = [part[name] for part in parts if name in part]
        if len(values) == len(parts) and (name in skills or max(values) >= MIN_REPORTED_RATE):
            rates.append(f"{name} {' -> '.join(f'{value:.1f}%' for value in values)}")
    rates += [f"{name} {UNMEASURED}" for name in skills if name not in outcome.skills]
    return (
        f"{outcome.episodes} episodes, mean reward {outcome.reward:.1f}; success rates {when}: "
        f"{', '.join(rates) or 'all 0%'}"
    )


def _statistics(entry: EarlierLevel) -> str:
    """`cycles 1, 2; 340 episodes; at first -> at last: collect_iron 2.0% -> 31.0% (learnability 0.21)`"""
    text = (
        f"cycle{'s' if len(entry.cycles) > 1 else ''} {', '.join(map(str, entry.cycles))}; {entry.episodes:,} episodes"
    )
    if not entry.outcomes:
        return text
    if entry.proposed.chain is not None:
        text += f"; it reached stage {entry.reached_stage + 1} of {len(entry.proposed.chain.levels)}"
    first, last = entry.outcomes[0].first_third, entry.outcomes[-1].last_third
    rates = [
        f"{name} {first[name]:.1f}% -> {last[name]:.1f}% (learnability {learnability(last[name]):.2f})"
        for name in entry.proposed.skills
        if name in first and name in last
    ]
    return f"{text}; at first -> at last: {', '.join(rates)}" if rates else text


def learnability(rate: float) -> float:
    """p (1 - p) of a success rate in percent: 0 for what always or never succeeds, at most 0.25."""
    return rate / 100 * (1 - rate / 100)
