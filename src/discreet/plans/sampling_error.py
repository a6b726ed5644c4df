"""Sampling error beside noise: how far chance alone would move an answer, so that one sees what privacy adds."""

from __future__ import annotations

from math import prod, sqrt
from statistics import NormalDist
from typing import Any

from discreet.core.schema import Bounds, Schema

__all__ = ["groups_of", "sampling_error"]

_SPREAD = 6
"""Without a better guess, the standard deviation of a column is a sixth of the width of its bounds, as in scenarios."""


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


def sampling_error(question: Any, *, level: float = 0.95) -> float | None:
    """How far a mean or a proportion of a random sample lies from the population's, with probability ``level``.

    None where the question is another one, or where no ``expected_rows`` say how large the sample is. The spread of a
    number is taken as a sixth of its bounds' width, the proportion as the expected one or a half.

    Examples
    --------
    >>> from discreet import Bounds, PureDP, Schema
    >>> from discreet.questions.mean import MeanQuestion
    >>> schema = Schema(columns={"age": Bounds(0, 120, grid=1)})
    >>> round(sampling_error(MeanQuestion(schema, "age", PureDP(1.0), expected_rows=10_000)), 3)
    0.392
    """
    rows = getattr(question, "expected_rows", None)
    if rows is None:
        return None
    reach = NormalDist().inv_cdf((1 + level) / 2) / sqrt(rows / groups_of(question))
    if question.ask == "mean":
        bounds = question.unit_sum or question.schema.columns.get(question.column)
        return reach * (bounds.high - bounds.low) / _SPREAD if isinstance(bounds, Bounds) else None
    if question.ask == "proportion":
        share = 0.5 if question.expected_share is None else question.expected_share
        return reach * sqrt(share * (1 - share))
    return None
