"""Sampling error beside noise: how far chance alone would move an answer, so that one sees what privacy adds."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from statistics import NormalDist
from typing import Any

from discreet.core.schema import Bounds, Schema

__all__ = [
    "COUNTS", "SPREAD", "averaged_bounds", "expected_proportion", "groups_of", "rows_of", "sampling_error", "shares_of",
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
