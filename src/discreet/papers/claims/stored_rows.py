"""Stored rows: picking them, and the largest and smallest of what was measured in them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from discreet.core.errors import InvalidParameter
from discreet.papers.paper_claim import Measured, Rows

__all__ = ["average", "least", "most", "pick", "size_of"]


def pick(rows: Rows, **where: Any) -> Rows:
    """Rows whose columns have these values, or one of a tuple of them; there must be some."""

    def fits(row: dict[str, Any]) -> bool:
        return all(row[k] in v if isinstance(v, tuple) else row[k] == v for k, v in where.items())

    found = [row for row in rows if fits(row)]
    if not found:
        raise InvalidParameter("where", where, "selects no stored row", "Check the grid of the study.")
    return found


def most(found: Iterable[Measured]) -> Measured:
    """The largest of some measurements."""
    listed = list(found)
    return Measured(*(max(getattr(one, name) for one in listed) for name in ("value", "low", "high")))


def least(found: Iterable[Measured]) -> Measured:
    """The smallest of some measurements."""
    listed = list(found)
    return Measured(*(min(getattr(one, name) for one in listed) for name in ("value", "low", "high")))


def average(found: Iterable[Measured]) -> Measured:
    """The mean of measurements from separate runs: their errors average out."""
    listed = list(found)
    value = sum(one.value for one in listed) / len(listed)
    below = math.sqrt(sum((one.value - one.low) ** 2 for one in listed)) / len(listed)
    above = math.sqrt(sum((one.high - one.value) ** 2 for one in listed)) / len(listed)
    return Measured(value, value - below, value + above)


def size_of(one: Measured) -> Measured:
    """|x| of a measurement."""
    ends = sorted((abs(one.low), abs(one.high)))
    return Measured(abs(one.value), 0.0 if one.low <= 0 <= one.high else ends[0], ends[1])
