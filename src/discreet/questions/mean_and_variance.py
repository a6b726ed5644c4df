"""MeanAndVariance: two moments of a column whose number of rows is protected too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.exact import Exact
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.sensitivity import Sensitivity
from discreet.questions.bounded import fractions
from discreet.questions.private_size import PrivateSizeColumn
from discreet.releases import Release

__all__ = ["MeanAndVariance"]


@dataclass(frozen=True, kw_only=True)
class MeanAndVariance(PrivateSizeColumn):
    """Mean and variance of a column in public bounds, from three noisy totals.

    The value is (Σz, Σz², number of rows) with z = (x − middle)/half-width, so that each coordinate moves by at most 1
    with one row. The release knows the mean, the variance, and an interval that includes sampling error.

    Guarantee
    ---------
    Add/remove: all three coordinates move by at most 1 (ℓ₁ = 3, ℓ₂ = √3). Replace-one: the first by at most 2, the
    second by 1, the third not at all (ℓ₁ = 3, ℓ₂ = √5).

    Parameters
    ----------
    bounds
        Public bounds of a row, as the decimals they print as; values outside are clipped.

    Examples
    --------
    >>> moments = MeanAndVariance(bounds=(0, 10))
    >>> [str(part) for part in moments.of_sums(rows=2, total=Fraction(10), squares=Fraction(100))]
    ['0', '2', '2']
    """

    name: ClassVar[str] = "mean_and_variance"

    @classmethod
    def release_type(cls) -> type[Release]:
        from discreet.inference.mean_and_variance_release import MeanAndVarianceRelease

        return MeanAndVarianceRelease

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """How far one row moves the three totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        if neighbours is Neighbours.ADD_REMOVE:
            return Sensitivity(moves=(1.0, 1.0, 1.0))
        return Sensitivity(moves=(2.0, 1.0))

    def of_sums(self, rows: int, total: Fraction, squares: Fraction) -> Any:
        """The value from the number of rows, their sum and their sum of squares. Private."""
        first = (total - rows * self.middle) / self.half
        second = (squares - 2 * self.middle * total + rows * self.middle**2) / self.half**2
        return fractions([first, second, Fraction(rows)])

    def exact(self, data: Sequence[float], *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The three totals of a column, still private."""
        rows, (total, squares) = self._power_sums(data, 2)
        return Exact(
            self.of_sums(rows, total, squares),
            self.sensitivity(neighbours=neighbours),
            Protection(unit, neighbours),
            self,
        )
