"""Means of units that may hold several rows: totals that also hold how much units differ from each other.

A unit's rows are added up first, and the sum is split into parts that are not negative and add up to one. So their
totals tell the mean of rows and its variance, however alike the rows of a unit are. Proof: ``docs/proofs/parts.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import is_pure
from discreet.core.numbers import decimal
from discreet.core.protection import Neighbours
from discreet.core.rows import Selected, Snapshot, unit_totals
from discreet.core.rows.expressions import TOO_MANY
from discreet.core.schema import Bounds, Contribution, in_parts
from discreet.core.sensitivity import Sensitivity
from discreet.inference.noise import excess_kurtosis, largest_variance
from discreet.inference.unit_means import UnitMoments, unit_moments
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.gaussian import Gaussian
from discreet.questions.moments import Array, MomentsRelease, moments_forecast, part_weights, weighed_sensitivity
from discreet.questions.question import Expected, Measurement, fractions
from discreet.results.release import Release, Statistic

_INNER = {1.0: Fraction(5, 2), 2.0: Fraction(187, 50)}
"""By how often u(1 − u) counts, what it is multiplied by for Gaussian noise in all."""


@dataclass(frozen=True, kw_only=True)
class UnitParts(Statistic):
    """Totals of the parts of units, of which k rows are whole: u is the share of k that a unit has, y their mean.

    Parts of a unit: u²·bⱼ(y), j = 0 … 2, c·u(1 − u)·(1 − y, y), in Bernstein polynomials, and what is left of 1.

    Guarantee
    ---------
    The parts of a unit are not negative and add up to at most 1: add/remove moves them by at most 1 in ℓ₁ and ℓ₂,
    replace-one by at most 2 and √2. Proof: ``docs/proofs/parts.md``.

    Parameters
    ----------
    bounds
        Public bounds of the values.
    rows
        The rows of a unit that are whole, k: its limit.
    inner
        How often u(1 − u) counts, c: 2, and 1 where the rows of one unit may lie in several groups.
    weighed
        Whether inner parts are multiplied by weights for Gaussian noise.

    Examples
    --------
    >>> people = UnitParts(bounds=(0, 100), rows=4)
    >>> people.size, people.sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    (6, 1.0)
    """

    name: ClassVar[str] = "unit_parts"
    of: ClassVar[Literal["mean"]] = "mean"
    degrees: ClassVar[tuple[int]] = (1,)
    size: ClassVar[int] = 6
    bounds: tuple[float, float]
    rows: int
    inner: float = 2.0
    weighed: bool = False

    def __post_init__(self) -> None:
        low, high = (requirements.finite("bounds", end) for end in self.bounds)
        if low >= high:
            raise InvalidParameter("bounds", (low, high), "must be two numbers that increase", "Write (0, 100).")
        object.__setattr__(self, "bounds", (low, high))
        object.__setattr__(self, "rows", requirements.positive_integer("rows", self.rows))
        if requirements.positive("inner", self.inner) not in _INNER:
            raise InvalidParameter("inner", self.inner, f"must be one of {[*_INNER]}", "Pass 2.0.")
        requirements.instance("weighed", self.weighed, bool, "weighed=True or False")

    def release_type(self) -> type[Release]:
        return MomentsRelease

    @property
    def title(self) -> str:
        return self.of

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds, as of totals of rows."""
        return self.bounds

    @property
    def middle(self) -> Fraction:
        """Centre of the bounds."""
        return (decimal(self.bounds[0]) + decimal(self.bounds[1])) / 2

    @property
    def half(self) -> Fraction:
        """Half the width of the bounds."""
        return (decimal(self.bounds[1]) - decimal(self.bounds[0])) / 2

    @property
    def counts(self) -> Array:
        """The weights of the totals that give the number of rows, k·Σu."""
        return self.rows * unit_moments(self.inner)["u"]

    @property
    def positions(self) -> Array:
        """The weights of the totals that give the sum of 2y − 1 over rows."""
        return 2 * self.rows * unit_moments(self.inner)["uy"] - self.counts

    @property
    def multiplied(self) -> tuple[Fraction, ...]:
        """The factor of each total before noise is added: all 1 but for Gaussian noise."""
        if not self.weighed:
            return (Fraction(1),) * self.size
        inner = _INNER[self.inner] / Fraction(self.inner)
        return (*part_weights(2), inner, inner, Fraction(1))

    @property
    def factors(self) -> Array:
        """The same as floats."""
        return np.array([float(weight) for weight in self.multiplied])

    def moments_of(self, release: Release) -> UnitMoments:
        """What was released, as moments of units; that of rows is their mean alone."""
        return UnitMoments(
            totals=np.asarray(release.value, dtype=float) / self.factors,
            noise=largest_variance(release.mechanism) / self.factors**2,
            kurtosis=excess_kurtosis(release.mechanism.law(0.0)),
            inner=self.inner,
        )

    def rows_of_unit(self, _: UnitMoments) -> float:
        """The most rows of one unit."""
        return self.rows

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """The distance by which one unit moves the totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        return self.moved(Contribution(total=1), 1, neighbours)

    def moved(self, whole: Contribution, groups: int, neighbours: Neighbours) -> Sensitivity:
        """The same for totals of several groups, in which a unit is whole as often as a limit says."""
        return weighed_sensitivity(in_parts(whole, groups, self.size, neighbours), self.multiplied)

    def of_totals(self, totals: Sequence[Fraction]) -> list[Fraction]:
        """The parts, from Σb, Σa, Σb², Σab, Σa² and what is left of 1, with a = uy and b = u(1 − y). Private."""
        b, a, bb, ab, aa, left = totals
        c = Fraction(self.inner)
        left -= (c - 1) * (b + a - bb - 2 * ab - aa)  # u(1 − u), added up
        parts = (bb, 2 * ab, aa, c * (b - bb - ab), c * (a - aa - ab), left)
        return [factor * part for factor, part in zip(self.multiplied, parts, strict=True)]


def units_measurement(question: Any, by: tuple[str, ...], bounds: Bounds, expected: Expected) -> Measurement | None:
    """The measurement of a mean of rows by totals of units, where several rows of one may count; else None.

    Where the rows that a unit may have in all can lie in several groups, u(1 − u) counts once. Gaussian noise hardly
    feels that. Laplace noise would be up to a quarter larger than in totals of rows: there, it is None, too.
    """
    schema = question.schema
    limits = schema.contribution(question.contribution)
    if schema.unit_is_row or not (question.all_rows or limits.most_rows_in_a_group() > 1):
        return None
    groups = schema.cells(by, "by")
    lone = limits.rows is not None or groups == 1
    whole = Contribution(total=1) if limits.rows is None else Contribution(groups=limits.most_groups(groups), rows=1)
    most = min(limits.most_rows_in_a_group(), TOO_MANY)
    parts = UnitParts(bounds=(bounds.low, bounds.high), rows=most, inner=2.0 if lone else 1.0)
    slope = expected.slope(bounds.low, bounds.high)

    def from_rows(used: UnitParts, rows: Snapshot) -> Any:
        selected = Selected(
            by=by, columns=(question.column,), contribution=question.contribution, all_rows=question.all_rows
        )
        return fractions([part for cell in unit_totals(rows, selected) for part in used.of_totals(cell)])

    def moves(used: UnitParts) -> tuple[list[float], list[float]]:
        scale = float(used.half) / used.factors
        typical, worst = (scale * np.abs(used.positions - centre * used.counts) for centre in (slope, 1.0))
        return typical.tolist(), worst.tolist()

    def measured(used: UnitParts) -> Measurement:
        sensitivity = used.moved(whole, groups, schema.neighbours)
        return Measurement(
            statistic=question.grouped(used, by),
            sensitivity=sensitivity,
            mechanism=Gaussian.calibrate(question.guarantee, sensitivity)
            if used.weighed
            else additive_noise(question.guarantee, sensitivity),
            by=by,
            columns=(question.column,),
            contribution=question.contribution,
            public={"all_rows": True} if question.all_rows else {},
            from_rows=lambda rows: from_rows(used, rows),
            read="the mean",
            forecast=lambda: moments_forecast(question, by, expected, lambda: moves(used)),
        )

    if is_pure(question.guarantee):
        return measured(parts) if lone else None
    plain, weighed = measured(parts), measured(replace(parts, weighed=True))
    if (plain.standard_error() or 0.0) < (weighed.standard_error() or 0.0):
        return plain if lone else None
    return weighed
