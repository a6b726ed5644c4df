"""Parts: moments of a column whose number of rows is protected too; a row is split into parts that add up to one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.exact import Exact
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.rounding import decimal
from discreet.core.schema import Contribution
from discreet.core.sensitivity import Sensitivity
from discreet.core.stability import in_parts
from discreet.questions.bounded import fractions
from discreet.questions.private_size import PrivateSizeColumn
from discreet.releases import Release

__all__ = ["MeanAndVarianceInParts", "MeanInParts", "Parts", "VarianceInParts"]


@dataclass(frozen=True, kw_only=True)
class Parts(PrivateSizeColumn):
    """Totals of (d over k)·uᵏ(1 − u)ᵈ⁻ᵏ for k = 0 … d, with u = (x − low)/(high − low) and d the ``degree``.

    The d + 1 parts of a row are not negative and add up to 1, so the totals add up to the number of rows, and they know
    the first d moments of the column.

    Guarantee
    ---------
    Add/remove: a row moves the totals by exactly 1 in ℓ₁ and by at most 1 in ℓ₂. Replace-one: by at most 2 and √2.
    Proof: ``docs/proofs/parts.md``.

    Parameters
    ----------
    bounds
        Public bounds of a row, as the decimals they print as; values outside are clipped.
    """

    degree: ClassVar[int]

    @property
    def title(self) -> str:
        """What it is of: that it is measured in parts matters less to a reader."""
        return super().title.removesuffix(" in parts")

    @property
    def positions(self) -> tuple[float, ...]:
        """Where each part lies between the bounds, from −1 to 1: the mean is their mean, weighted by the totals."""
        return tuple(2 * k / self.degree - 1 for k in range(self.degree + 1))

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """How far one row moves the totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        return in_parts(Contribution(groups=1, rows=1), 1, self.degree + 1, neighbours)

    def of_sums(self, rows: int, *sums: Fraction) -> Any:
        """The value from the number of rows and the sums of their powers, up to the degree. Private."""
        low, width, d = decimal(self.bounds[0]), 2 * self.half, self.degree
        raw = (Fraction(rows), *sums)
        moments = [
            sum((math.comb(j, i) * raw[i] * (-low) ** (j - i) for i in range(j + 1)), Fraction(0)) / width**j
            for j in range(d + 1)
        ]
        return fractions(
            [
                math.comb(d, k) * sum(math.comb(d - k, j - k) * (-1) ** (j - k) * moments[j] for j in range(k, d + 1))
                for k in range(d + 1)
            ]
        )

    def exact(self, data: Sequence[float], *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The totals of a column, still private."""
        rows, sums = self._power_sums(data, self.degree)
        return Exact(
            self.of_sums(rows, *sums), self.sensitivity(neighbours=neighbours), Protection(unit, neighbours), self
        )


@dataclass(frozen=True, kw_only=True)
class MeanInParts(Parts):
    """The mean of a column in public bounds, from the two noisy totals Σ(1 − u) and Σu.

    Their sum is the number of rows; the release knows the mean and an interval. For 0/1 rows the totals are the numbers
    of noes and of yeses, and the mean is the share.

    Guarantee
    ---------
    Add/remove: ℓ₁ = ℓ₂ = 1, half the ℓ₁ of `NoisyAverage`. Replace-one: 2 and √2.

    Parameters
    ----------
    bounds
        Public bounds of a row, as the decimals they print as; values outside are clipped.

    Examples
    --------
    >>> ages = MeanInParts(bounds=(0, 100))
    >>> [str(part) for part in ages.of_sums(3, Fraction(120))]
    ['9/5', '6/5']
    >>> ages.sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    1.0
    """

    name: ClassVar[str] = "mean_in_parts"
    degree: ClassVar[int] = 1

    @classmethod
    def release_type(cls) -> type[Release]:
        from discreet.inference.parts_release import MeanInPartsRelease

        return MeanInPartsRelease


@dataclass(frozen=True, kw_only=True)
class MeanAndVarianceInParts(Parts):
    """Mean and variance of a column in public bounds, from the five noisy totals Σ (4 over k)·uᵏ(1 − u)⁴⁻ᵏ.

    Their sum is the number of rows. They hold four moments: the mean and the variance, and what says how far both vary
    from sample to sample, whatever the population is.

    Guarantee
    ---------
    Add/remove: ℓ₁ = ℓ₂ = 1. Replace-one: 2 and √2.

    Parameters
    ----------
    bounds
        Public bounds of a row, as the decimals they print as; values outside are clipped.

    Examples
    --------
    >>> moments = MeanAndVarianceInParts(bounds=(0, 10))
    >>> [str(part) for part in moments.of_sums(2, Fraction(10), Fraction(100), Fraction(1000), Fraction(10000))]
    ['1', '0', '0', '0', '1']
    """

    name: ClassVar[str] = "mean_and_variance_in_parts"
    degree: ClassVar[int] = 4

    @classmethod
    def release_type(cls) -> type[Release]:
        from discreet.inference.parts_release import MeanAndVarianceInPartsRelease

        return MeanAndVarianceInPartsRelease


@dataclass(frozen=True, kw_only=True)
class VarianceInParts(MeanAndVarianceInParts):
    """Variance of a column in public bounds: the totals of `MeanAndVarianceInParts`, read for the variance.

    Guarantee
    ---------
    Add/remove: ℓ₁ = ℓ₂ = 1. Replace-one: 2 and √2.

    Parameters
    ----------
    bounds
        Public bounds of a row, as the decimals they print as; values outside are clipped.

    Examples
    --------
    >>> VarianceInParts(bounds=(0, 10)).title
    'variance'
    """

    name: ClassVar[str] = "variance_in_parts"

    @classmethod
    def release_type(cls) -> type[Release]:
        from discreet.inference.parts_release import VarianceInPartsRelease

        return VarianceInPartsRelease
