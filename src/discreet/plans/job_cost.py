"""Job cost: what the releases of a plan cost together, now and in all periods, and why they cannot be paid for."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.core.errors import DiscreetError, InsufficientBudget, NoConversion
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, ZeroConcentratedDP
from discreet.ledgers import Ledger
from discreet.mechanisms.composition import compose
from discreet.plans.plan_file import PlanFile
from discreet.plans.planned_question import PlannedQuestion

__all__ = ["charges_now", "cost_in_all", "cost_of", "refusal_of"]


def charges_now(ledger: Ledger, waiting: Sequence[PlannedQuestion]) -> list[Guarantee]:
    """What each of the releases would add to the ledger's total."""
    return [one.question.charge_now(ledger) for one in waiting]


def cost_of(charges: Sequence[Guarantee]) -> Guarantee | None:
    """What releases cost together, rounded up to be shown; None where there are none."""
    return _together(charges) if charges else None


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


def refusal_of(ledger: Ledger, changed: int, charges: Sequence[Guarantee]) -> DiscreetError | None:
    """Why releases of those charges, of which some were ``changed`` since they were made, cannot be paid for."""
    left, cost = ledger.remaining(), cost_of(charges)
    try:
        if cost is None or ledger.affords(charges):
            return None
    except NoConversion:
        return NoConversion(
            f"the ledger counts in {type(left).__name__} and cannot be charged {cost}. Give budget and releases the "
            "same kind: epsilon, epsilon and delta, rho, or mu. Nothing was spent."
        )
    fix = ledger.clock_warning()
    if changed:
        fix = (
            f"{changed} of them were released before with another question or share of the budget and would be "
            "released again: shares divide the whole budget. Put new questions into a second plan, or give each "
            "release its epsilon."
        )
    elif left != ledger.budget and not fix:
        fix = (
            "A part of the budget is spent, and shares divide the whole budget. Give each release its own epsilon, of "
            "what is left; a larger budget is for the owner of the data to decide."
        )
    return InsufficientBudget(cost, left, what="the releases cost", fix=fix)
