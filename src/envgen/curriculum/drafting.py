"""Steps 1 and 4 of the loop: a designer's proposal, checked against the schema and audited, revised at most once."""

from collections.abc import Sequence

from envgen.designers.designer import AuditResult, Brief, Cycle, Designer, DesignError, Proposal, to_overrides
from envgen.settings import nearest
from envgen.worlds.world import World

from .audit import WORLDS, audit_level


def propose_and_audit(
    world: World, designer: Designer, brief: Brief, history: Sequence[Cycle], audit_steps: int
) -> tuple[Proposal, tuple[AuditResult, ...]]:
    """Levels in their shortest form, with a verdict each (none if there is no audit)."""
    proposal = validate(designer.design(brief, history), world)
    verdicts = audit_all(world, proposal, audit_steps)
    if any(verdict.verdict == "bad" for verdict in verdicts):
        again = designer.revise(brief, history, proposal, verdicts)
        if again is not None:
            proposal = validate(again, world)
            verdicts = audit_all(world, proposal, audit_steps)
    return proposal, verdicts


def validate(proposal: Proposal, world: World) -> Proposal:
    names = [skill.name for skill in world.skills]
    for wrong in (name for one in proposal.levels for name in one.skills if name not in names):
        raise DesignError(f"a level aims at the skill {nearest(wrong, names)}")
    levels = tuple(one.model_copy(update={"level": to_overrides(one.level, world.Level)}) for one in proposal.levels)
    return proposal.model_copy(update={"levels": levels})


def audit_all(world: World, proposal: Proposal, steps: int) -> tuple[AuditResult, ...]:
    if not steps or not proposal.levels:
        return ()
    before = world.level_stats(None, WORLDS).as_dict()
    return tuple(audit_level(world, one, steps, before) for one in proposal.levels)


def as_text(number: int, proposal: Proposal, verdicts: Sequence[AuditResult]) -> str:
    """For a person who watches."""
    if not proposal.levels:
        return f"Cycle {number}: the original"
    lines = [f"Cycle {number}: {len(proposal.levels)} levels"]
    for k, one in enumerate(proposal.levels):
        verdict = f" [{verdicts[k].verdict}]" if verdicts else ""
        lines.append(f"  {k + 1}{verdict} {one.purpose or 'no purpose given'}")
        lines.append(f"      {one.level or 'the original'}")
        lines += [f"      {reason}" for reason in (verdicts[k].reasons if verdicts else ())]
    return "\n".join([*lines, *(f"  note: {note}" for note in proposal.notes)])
