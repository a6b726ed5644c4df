"""Sampling error beside noise: how far chance alone would move an answer, so that one sees what privacy adds."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from statistics import NormalDist
from typing import Any

from discreet.core.guarantee import Guarantee
from discreet.core.schema import Bounds, Schema
from discreet.results.display import number
from discreet.results.plan import Plan

__all__ = [
    "COUNTS", "SPREAD", "averaged_bounds", "expected_proportion", "groups_of", "rows_of", "sampling_error",
    "shares_of", "budget_warnings", "privacy_is_free", "release_warnings",
]  # fmt: skip


SPREAD = 6
"""Without a better guess, the standard deviation of a column is a sixth of the width of its bounds, as in scenarios."""
COUNTS = ("count", "table")
"""Questions whose answers are counts of rows, in as many groups as `groups_of` says."""
_OF_SPREAD: dict[str, Callable[[float], float]] = {
    "mean": lambda deviation: deviation,
    "variance": lambda deviation: sqrt(2) * deviation**2,
    "std": lambda deviation: deviation / sqrt(2),
}
"""√n times the standard error of what is read, from the standard deviation of a normal population."""


def groups_of(question: Any) -> int:
    """Into how many groups a question divides the rows."""
    by = getattr(question, "by", ())
    names = (by,) if isinstance(by, str) else tuple(by or ())
    columns = getattr(question, "columns", ()) if question.ask in ("table", "independence") else ()
    return prod(
        _cells(question.schema, name) for name in (*names, *([columns] if isinstance(columns, str) else columns))
    )


def _cells(schema: Schema, name: str) -> int:
    column = schema.columns.get(name)
    labels = getattr(column, "labels", None)
    return len(labels) if labels else 1


def sampling_error(question: Any, *, rows: int | None = None, level: float = 0.95) -> float | None:
    """The sampling error that an answer stays within with probability ``level``, in the unit of its plan.

    Parameters
    ----------
    question
        A mean, proportion, variance, standard deviation, quantile (in ranks), or counts by group. None for others.
    rows
        How large the sample is, where the question has no ``expected_rows`` of its own; None where that is not known.
    level
        How often chance moves it no further.

    The spread of a number is taken as a sixth of its bounds' width, the proportion as the expected one or a half, and
    groups as equally large.

    Examples
    --------
    >>> from discreet import Bounds, Schema
    >>> from discreet.questions.mean import MeanQuestion
    >>> schema = Schema(columns={"age": Bounds(0, 120, grid=1)})
    >>> round(sampling_error(MeanQuestion(schema, "age", epsilon=1.0, expected_rows=10_000)), 3)
    0.392
    """
    size = rows_of(question, rows)
    if size is None:
        return None
    groups = groups_of(question)
    within, reach = size / groups, NormalDist().inv_cdf((1 + level) / 2)
    if question.ask in COUNTS:
        return reach * sqrt(within * (1 - 1 / groups)) if groups > 1 else None
    if question.ask == "proportion":
        share = expected_proportion(question)
        return reach * sqrt(share * (1 - share) / within)
    if question.ask == "quantile":
        return max(reach * sqrt(within * share * (1 - share)) for share in shares_of(question))
    bounds = averaged_bounds(question)
    if question.ask not in _OF_SPREAD or bounds is None:
        return None
    return reach * _OF_SPREAD[question.ask]((bounds.high - bounds.low) / SPREAD) / sqrt(within)


def rows_of(question: Any, rows: int | None) -> int | None:
    """The number of rows that a question expects, or else ``rows``."""
    return getattr(question, "expected_rows", None) or rows


def expected_proportion(question: Any) -> float:
    """The proportion that a question expects, or a half."""
    return 0.5 if question.expected_proportion is None else float(question.expected_proportion)


def shares_of(question: Any) -> tuple[float, ...]:
    """The shares of a quantile question."""
    given = question.probabilities
    return (float(given),) if isinstance(given, float | int) else tuple(map(float, given))


def averaged_bounds(question: Any) -> Bounds | None:
    """The bounds of what is averaged; None where there are none."""
    bounds = question.schema.columns.get(getattr(question, "column", None))
    return bounds if isinstance(bounds, Bounds) else None


# ---- Plan warnings: what would disappoint in a plan that is valid, each with what to change. Reads no data.


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
