"""Job cost: what the releases of a plan cost together, now and in all periods, and why they cannot be paid for."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.core.errors import DiscreetError, InsufficientBudget, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, ZeroConcentratedDP
from discreet.ledgers import Ledger
from discreet.mechanisms.composition import compose
from discreet.plans.plan_file import PlanFile
from discreet.plans.planned_question import PlannedQuestion

__all__ = ["cost_in_all", "cost_now", "refusal_of"]


def cost_now(ledger: Ledger, waiting: Sequence[PlannedQuestion]) -> Guarantee | None:
    """What releases would add to the ledger's total; None where there are none."""
    return _together([one.question.charge_now(ledger) for one in waiting]) if waiting else None


def _together(guarantees: Sequence[Guarantee]) -> Guarantee:
    """The guarantee of all of them, or a refusal where no budget counts them together."""
    failing = [one for one in guarantees if isinstance(one, ApproxDP) and one.delta > 0]
    normal = [one for one in guarantees if isinstance(one, GaussianDP | ZeroConcentratedDP)]
    if failing and normal:
        raise NoConversion(
            f"no ledger can be charged both {failing[0]} and {normal[0]}. Give all releases the same kind (epsilon and "
            "delta, rho, or mu), or write two plans with a ledger each, whose guarantees add up. Nothing was spent."
        )
    return compose(*guarantees)


def cost_in_all(file: PlanFile) -> Guarantee | None:
    """What all periods that a plan covers cost together; None where that is one run. A sequence is paid for once."""
    asked = [one.question for one in file.questions]
    if file.times == 1 and not any(question.continues for question in asked):
        return None
    runs = [1 if question.continues else file.times for question in asked]
    return _together([one.guarantee for one, times in zip(asked, runs, strict=True) for _ in range(times)])


def refusal_of(ledger: Ledger, changed: int, cost: Guarantee | None) -> DiscreetError | None:
    """Why releases of that cost, of which some were ``changed`` since they were made, cannot be paid for."""
    left = ledger.remaining()
    try:
        if cost is None or _as_counted(cost, left).within(left):
            return None
    except NoConversion:
        return NoConversion(
            f"the ledger counts in {type(left).__name__} and cannot be charged {cost}. Give budget and releases the "
            "same kind: epsilon, epsilon and delta, rho, or mu. Nothing was spent."
        )
    fix = ""
    if changed:
        fix = (
            f"{changed} of them were released before with another question or share of the budget and would be "
            "released again: shares divide the whole budget. Put new questions into a second plan, or give each "
            "release its epsilon."
        )
    elif left != ledger.budget:
        fix = (
            "A part of the budget is spent, and shares divide the whole budget. Give each release its own epsilon, of "
            "what is left; a larger budget is for the owner of the data to decide."
        )
    return InsufficientBudget(cost, left, what="the releases cost", fix=fix)


def _as_counted(cost: Guarantee, left: Guarantee) -> Guarantee:
    """A cost in the kind that the ledger counts in."""
    return cost if isinstance(cost, type(left)) else cost.to(type(left), delta=getattr(left, "delta", None))
