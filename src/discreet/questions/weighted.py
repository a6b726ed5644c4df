"""Weighted: questions in which all rows of a unit may count, with weights that add up to its limit.

A unit with m rows and a limit of k counts each of them k/m times where m > k, so k times in all. Its parts are not
negative and add up to at most k, as those of k rows that it would keep, so the sensitivity is the same. Proof:
``docs/proofs/bounding.md``.
"""

from __future__ import annotations

import math
from typing import Any

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.plans.sampling_error import groups_of, sampling_error
from discreet.questions.question import DEFAULT_ROWS, Measurement

__all__ = ["check_weighted", "weighting_notes"]

_TIMES_THE_LIMIT = 2
"""The offer is for units with so many times as many rows as their limit."""
_WORTH_IT = 1.1
"""It is made where it takes a tenth off the error."""
_ONE_ERROR = math.erf(math.sqrt(0.5))
"""The level of one standard error."""


def check_weighted(question: Any) -> None:
    """Refuse weights where no unit can have several rows, or where a unit counts once."""
    if not requirements.instance("weighted", question.weighted, bool, "weighted=True or False"):
        return
    if question.schema.unit.column is None:
        raise InvalidParameter(
            "weighted",
            True,
            "a row is the unit, and always counts once",
            'Leave weighted out, or declare unit=PrivacyUnit("person").',
        )
    if getattr(question, "unit_sum", None) is not None:
        raise InvalidParameter(
            "weighted", True, "a unit counts once, with the sum of all its rows", "Leave weighted or unit_sum out."
        )


def weighting_notes(question: Any, found: Measurement) -> tuple[str, ...]:
    """What a plan says of rows beyond a limit: that they count, or what it would gain if they did."""
    unit = question.schema.unit
    if question.weighted:
        return (f"counted: {question.counted_words()}",)
    if unit.column is None or getattr(question, "unit_sum", None) is not None:
        return ()
    noise = found.standard_error()
    chance = sampling_error(question, rows=DEFAULT_ROWS * groups_of(question), level=_ONE_ERROR)
    if noise is None or chance is None:
        return ()
    # Choosing k of m rows leaves 1 − k/m of the variance that a sample of k rows has.
    both = math.hypot(noise, chance * math.sqrt(1 - 1 / _TIMES_THE_LIMIT))
    if both < _WORTH_IT * noise:
        return ()
    return (
        f"weighted=True counts all rows of a {unit.name}, at the same noise. With twice as many rows as the limit "
        f"each, the standard error is {noise:.3g} instead of {both:.3g}",
    )
