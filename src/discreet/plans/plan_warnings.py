"""Plan warnings: what would disappoint in a plan that is valid, each with what to change. Reads no data."""

from __future__ import annotations

from typing import Any

from discreet.core.guarantee import Guarantee
from discreet.plans.sampling_error import averaged_bounds, groups_of, rows_of, sampling_error
from discreet.results.display import number
from discreet.results.plan import Plan

__all__ = ["budget_warnings", "privacy_is_free", "release_warnings"]

_WEAK = 0.9
"""An attacker who succeeds that often at 5 % false alarms is hardly held back."""
_WIDE, _MUCH, _FREE = 0.1, 1 / 3, 0.2
"""Errors of a tenth of the bounds, or of a third of a cell, are too large to use; noise of a fifth of the sampling
error is next to nothing."""


def budget_warnings(budget: Guarantee) -> list[str]:
    """Warnings about the budget.

    Examples
    --------
    >>> from discreet import PureDP
    >>> budget_warnings(PureDP(1.0))
    []
    """
    power = 1 - float(budget.tradeoff(0.05))
    if power <= _WEAK:
        return []
    return [
        f"{budget} hardly protects anybody: an attacker who accepts 5 % false alarms succeeds {100 * power:.0f} % of "
        "the time. Set epsilon to 1 or less, or say why the data is not sensitive."
    ]


def release_warnings(question: Any, planned: Plan, rows: int | None = None) -> list[str]:
    """Warnings about one release: too little data, bounds that cost too much.

    Parameters
    ----------
    question, planned
        The question, and its plan.
    rows
        About how many rows there are, where another release says so.
    """
    error = planned.rows()[0]["error_95"]
    if error is None:
        return []
    return [*_of_bounds(question, error), *_of_cells(question, error, rows_of(question, rows))]


def _of_bounds(question: Any, error: float) -> list[str]:
    bounds = averaged_bounds(question)
    if question.ask != "mean" or bounds is None or question.expected_rows is None:
        return []
    width, chance = bounds.high - bounds.low, sampling_error(question) or 0.0
    if error > _WIDE * width:
        many = " Merge groups," if groups_of(question) > 1 else ""
        return [
            f"Too little data for this budget: the error is {100 * error / width:.0f} % of the range of "
            f"{question.column}.{many} Raise its epsilon or share, or release it for more rows."
        ]
    if error > chance:
        return [
            f"The bounds {number(bounds.low)} to {number(bounds.high)} cost an error of {error:.2g}, more than "
            f"chance does. Bounds half as wide would halve it."
        ]
    return []


def _of_cells(question: Any, error: float, rows: int | None) -> list[str]:
    cells = groups_of(question)
    if question.ask not in ("count", "table", "independence", "homogeneity") or rows is None or cells < 2:
        return []
    each = rows / cells
    if error <= _MUCH * each:
        return []
    return [
        f"Cells of about {number(round(each))} rows get noise of up to {number(error)}. Merge labels, drop a column, "
        "or raise its epsilon or share."
    ]


def privacy_is_free(question: Any, planned: Plan) -> str | None:
    """A sentence where noise is small beside sampling error; None elsewhere."""
    error, chance = planned.rows()[0]["error_95"], sampling_error(question)
    if error is None or chance is None or error > _FREE * chance:
        return None
    return "Privacy costs next to nothing here: chance moves the answer far more than the noise does."
