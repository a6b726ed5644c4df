"""What totals of a bounded column share whose number of rows is protected too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.core import requirements
from discreet.core.rounding import decimal
from discreet.core.statistic import Statistic
from discreet.questions.bounded import whole_bounds

__all__ = ["PrivateSizeColumn", "clipped"]


def clipped(data: Iterable[Any], bounds: tuple[float, float]) -> list[Fraction]:
    """The rows exactly, moved into public bounds, which mean the decimals they print as. Private."""
    low, high = (decimal(end) for end in bounds)
    return [min(max(Fraction(requirements.finite("data", x)), low), high) for x in data]


@dataclass(frozen=True, kw_only=True)
class PrivateSizeColumn(Statistic):
    """A statistic of one column, clipped to public bounds, that measures the number of rows as well.

    Parameters
    ----------
    bounds
        Public bounds of a row, as the decimals they print as; values outside are clipped.
    """

    bounds: tuple[float, float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", whole_bounds("bounds", self.bounds))

    @property
    def middle(self) -> Fraction:
        """Centre of the bounds."""
        return (decimal(self.bounds[0]) + decimal(self.bounds[1])) / 2

    @property
    def half(self) -> Fraction:
        """Half the width of the bounds."""
        return (decimal(self.bounds[1]) - decimal(self.bounds[0])) / 2

    def parameters(self) -> dict[str, Any]:
        return {"bounds": list(self.bounds)}

    def _power_sums(self, data: Any, highest: int) -> tuple[int, list[Fraction]]:
        """Number of rows, and the sums of their first powers. Private."""
        rows = clipped(np.asarray(data).tolist(), self.bounds)
        return len(rows), [sum((x**power for x in rows), Fraction(0)) for power in range(1, highest + 1)]
