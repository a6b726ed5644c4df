"""Part weights: what parts are multiplied by before Gaussian noise is added, so that inner ones have less of it.

Laplace noise is as large as the parts of a row are together, and they add up to one wherever the row lies. Gaussian
noise is as large as the root of the sum of their squares, which is one for a row at an end of the bounds and less for
every other row. Weights above one for the inner parts use what is left. Proof: ``docs/proofs/parts.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from discreet.core.guarantee import Guarantee
from discreet.core.rounding import not_below
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.gaussian import is_pure

if TYPE_CHECKING:
    from discreet.questions.covariances_in_parts import CovariancesInParts
    from discreet.questions.parts import Parts
    from discreet.questions.question import Measurement

    P = TypeVar("P", Parts, CovariancesInParts)

__all__ = ["part_weights", "weighed_sensitivity", "with_less_noise"]

_WEIGHTS: Mapping[int, tuple[str, ...]] = {
    2: ("1", "1.87", "1"),
    4: ("1", "1.95", "1.9", "1.95", "1"),
}
"""By degree. The squares of weights times parts add up to at most 1 for every row, which a test proves in fractions."""


def part_weights(degree: int) -> tuple[Fraction, ...]:
    """The weights for Gaussian noise of the d + 1 parts of a row.

    Examples
    --------
    >>> [str(weight) for weight in part_weights(2)]
    ['1', '187/100', '1']
    """
    return tuple(Fraction(weight) for weight in _WEIGHTS.get(degree, ("1",) * (degree + 1)))


def weighed_sensitivity(sensitivity: Sensitivity, weights: Iterable[Fraction]) -> Sensitivity:
    """How far a unit moves parts with weights: ℓ₂ stays, and ℓ₁ grows at most by the largest weight.

    Examples
    --------
    >>> weighed_sensitivity(Sensitivity(l1=2.0, dimension=3), part_weights(2)).l1
    3.74
    """
    total = Fraction(sensitivity.require_l1()) * max(weights)
    return Sensitivity(l1=not_below(total), l2=sensitivity.require_l2(), dimension=sensitivity.dimension)


def with_less_noise(guarantee: Guarantee, parts: P, measured: Callable[[P], Measurement]) -> Measurement:
    """The measurement with the smaller standard error of what is read: of parts as they are, or of weighed ones."""
    plain, weighed = measured(parts), replace(parts, weighed=True)
    if is_pure(guarantee) or weighed.multiplied == parts.multiplied:
        return plain
    return min(plain, measured(weighed), key=lambda one: one.standard_error() or 0.0)
