"""Tensor parts: joint moments of several columns, from totals of which one row moves the sum by exactly one.

For whoever builds on them: make a subclass of `TensorParts` with a ``name`` and a ``release_type``, give every column
the degree that the wanted moments need (1 for yes/no columns, 2 for means and covariances, 4 for their intervals), and
measure it with `tensor_measurement`. One query adds everything up, on any engine and by any public labels. What was
released is read by `discreet.inference.part_moments`, or through `TensorParts.weights`: Σ weights · totals is the total
of a monomial in u = (x − low)/(high − low), and its noise variance is ν·Σ weights².
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.contract.statistic import Statistic
from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.exact import Exact
from discreet.core.noise.truth import float_truth
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.rounding import decimal
from discreet.core.rows import coarsening
from discreet.core.schema import Contribution
from discreet.core.sensitivity import Sensitivity
from discreet.core.stability import in_parts
from discreet.inference.part_moments import moment_weights
from discreet.mechanisms.additive import additive_noise
from discreet.mechanisms.gaussian import Gaussian
from discreet.questions.bounded import clipped, fractions
from discreet.questions.covariance import bounds_of_columns
from discreet.questions.parts import weighed_sensitivity
from discreet.questions.question import Forecast, MeasuredQuestion, Measurement

__all__ = ["TensorParts", "tensor_measurement"]

Array = NDArray[np.float64]
Powers = tuple[int, ...]
MOST_PARTS = 4096


@dataclass(frozen=True, kw_only=True)
class TensorParts(Statistic):
    """Totals of Πⱼ bₖⱼ(uⱼ) over all (k₁ … k_m), where bₖ(u) = (d over k)·uᵏ(1 − u)ᵈ⁻ᵏ has the degree of its column.

    The parts of a row are not negative and add up to 1. The totals know every moment Σ Πⱼ uⱼ^aⱼ with aⱼ up to the
    degree of column j; the value is flat, with the last column varying fastest.

    Guarantee
    ---------
    Add/remove: a row moves the totals by exactly 1 in ℓ₁ and by at most 1 in ℓ₂. Replace-one: by at most 2 and √2.
    With weights ℓ₂ stays the same, and ℓ₁ grows by at most the largest weight. Proof: ``docs/proofs/parts.md``.

    Parameters
    ----------
    bounds
        Public bounds of every column, as the decimals they print as; values outside are clipped.
    degrees
        Highest power of every column.
    """

    bounds: tuple[tuple[float, float], ...]
    degrees: tuple[int, ...]

    def __post_init__(self) -> None:
        # Without numbers there is one part, the row itself: totals are counts.
        bounds = () if self.bounds in ((), []) else bounds_of_columns("bounds", self.bounds)
        degrees = tuple(requirements.positive_integer("degrees", degree) for degree in self.degrees)
        if len(degrees) != len(bounds):
            raise InvalidParameter("degrees", degrees, f"must be {len(bounds)}, one per column", "Check both.")
        if math.prod(degree + 1 for degree in degrees) > MOST_PARTS:
            raise InvalidParameter("degrees", degrees, f"give more than {MOST_PARTS} parts", "Leave columns out.")
        object.__setattr__(self, "bounds", bounds)
        object.__setattr__(self, "degrees", degrees)

    def parameters(self) -> dict[str, Any]:
        return {"bounds": [list(pair) for pair in self.bounds], "degrees": list(self.degrees)}

    @property
    def axis_weights(self) -> tuple[tuple[Fraction, ...], ...]:
        """What the parts of every column are multiplied by before noise is added: nothing but for Gaussian noise."""
        return tuple((Fraction(1),) * count for count in self.shape)

    @property
    def multiplied(self) -> tuple[Fraction, ...]:
        """What each total is multiplied by: the product of the weights of its parts."""
        return tuple(math.prod(weights, start=Fraction(1)) for weights in product(*self.axis_weights))

    @property
    def shape(self) -> tuple[int, ...]:
        """Parts of every column."""
        return tuple(degree + 1 for degree in self.degrees)

    @property
    def size(self) -> int:
        """Number of parts."""
        return math.prod(self.shape)

    @property
    def powers(self) -> tuple[Powers, ...]:
        """The powers of all moments that the totals know, in the order of the parts."""
        return tuple(product(*(range(count) for count in self.shape)))

    def weights(self, powers: Sequence[int], centres: Sequence[float] | None = None) -> Array:
        """Weights of the totals that give Σ Πⱼ (uⱼ − cⱼ)^aⱼ."""
        around = [0.0] * len(self.degrees) if centres is None else centres
        axes = [moment_weights(*one) for one in zip(self.degrees, powers, around, strict=True)]
        return np.ravel(reduce(np.multiply.outer, axes))

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """How far one row moves the totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        moved = in_parts(Contribution(groups=1, rows=1), 1, self.size, neighbours)
        return weighed_sensitivity(moved, self.multiplied)

    def of_sums(self, sums: Mapping[Powers, int], reaches: Sequence[int]) -> list[Fraction]:
        """The totals, from Σ Πⱼ vⱼ^aⱼ for all `powers`, where vⱼ = reachⱼ·uⱼ is a whole number. Private."""
        moments = np.array([sums[powers] for powers in self.powers], dtype=object).reshape(self.shape)
        for axis, (degree, reach) in enumerate(zip(self.degrees, reaches, strict=True)):
            moments = np.moveaxis(np.tensordot(_to_parts(degree, reach), moments, axes=(1, axis)), 0, axis)
        scale = math.prod(reach**degree for degree, reach in zip(self.degrees, reaches, strict=True))
        found = [Fraction(int(part), scale) for part in np.ravel(moments)]
        return [weight * part for weight, part in zip(self.multiplied, found, strict=True)]

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The totals of an n × m table, still private."""
        table = float_truth(data)
        if table.ndim != 2 or table.shape[1] != len(self.bounds):
            raise InvalidParameter("data", table.shape, f"must be rows × {len(self.bounds)}", "Give one bound each.")
        columns = [clipped(column, pair) for column, pair in zip(table.T.tolist(), self.bounds, strict=True)]
        rows = zip(*columns, strict=True)
        found = sum((self._row(row) for row in rows), np.full(self.size, Fraction(0), dtype=object))
        return Exact(
            fractions(list(found)), self.sensitivity(neighbours=neighbours), Protection(unit, neighbours), self
        )

    def _row(self, row: Sequence[Fraction]) -> NDArray[Any]:
        """The parts of one clipped row."""
        axes = []
        for x, (low, high), d in zip(row, self.bounds, self.degrees, strict=True):
            u = (x - decimal(low)) / (decimal(high) - decimal(low))
            axes.append(fractions([math.comb(d, k) * u**k * (1 - u) ** (d - k) for k in range(d + 1)]))
        return np.asarray(np.ravel(reduce(np.multiply.outer, axes)) * fractions(list(self.multiplied)))


def _to_parts(degree: int, reach: int) -> NDArray[Any]:
    """Whole numbers that take (Σvʲ for j = 0 … d) to reachᵈ·Σbₖ(v/reach)."""
    found = np.zeros((degree + 1, degree + 1), dtype=object)
    for k in range(degree + 1):
        for j in range(k, degree + 1):
            sign = (-1) ** (j - k)
            found[k, j] = sign * math.comb(degree, k) * math.comb(degree - k, j - k) * reach ** (degree - j)
    return found


def tensor_measurement(
    question: MeasuredQuestion[Any],
    parts: TensorParts,
    columns: tuple[str, ...],
    *,
    by: tuple[str, ...] = (),
    contribution: Contribution | None = None,
    read: str,
    forecast: Callable[[], Forecast],
) -> Measurement:
    """How totals in tensor parts are measured: exact sums of products of grid steps, all in one query.

    Parameters
    ----------
    question, parts, columns
        What is asked, the statistic of one group, and the numeric columns in its order.
    by, contribution
        Columns of labels, of which every combination has totals of its own, and limits per unit.
    read, forecast
        What a reader takes from the release, and what a plan says of its error.

    Notes
    -----
    Products of more than four grid steps are added in coarser steps where 38 digits would not hold them
    (`discreet.core.rows.coarsening`): with six factors 2¹⁴ steps lie between the bounds, with ten 2⁸.
    """
    schema, groups = question.schema, question.schema.cells(by)
    products = {
        powers: tuple(n for n, p in zip(columns, powers, strict=True) for _ in range(p)) for powers in parts.powers
    }
    reaches = [coarsening(schema.bounds(name), sum(parts.degrees))[1] for name in columns]

    def value(counts: Any, sums: Any) -> Any:
        found: list[Fraction] = []
        for cell, count in enumerate(counts):
            own = {powers: int(sums[named][cell]) if named else int(count) for powers, named in products.items()}
            found += parts.of_sums(own, reaches)
        return fractions(found)

    size = None if by else question.public_size(*columns)
    moved = in_parts(question.limits(contribution), groups, parts.size, schema.neighbours)
    weighed = max(parts.multiplied) > 1
    sensitivity = weighed_sensitivity(moved, parts.multiplied) if weighed else moved
    noise = Gaussian.calibrate if weighed else additive_noise
    return Measurement(
        statistic=question.grouped(parts, by),
        sensitivity=sensitivity,
        mechanism=noise(question.guarantee, sensitivity),
        by=by,
        columns=columns,
        contribution=contribution,
        products=tuple(named for named in products.values() if named),
        from_lowest=True,
        public={} if size is None else {"n": size},
        value=value,
        read=read,
        forecast=forecast,
    )
