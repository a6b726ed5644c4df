"""MeansAndCovariances: first and second moments of several columns whose number of rows is protected too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from discreet.core import requirements
from discreet.core.errors import InvalidParameter
from discreet.core.exact import Exact
from discreet.core.noise.law import float_truth
from discreet.core.protection import ROW, Neighbours, Protection, Unit
from discreet.core.rounding import decimal
from discreet.core.sensitivity import Sensitivity
from discreet.core.stability import doubled
from discreet.core.statistic import Statistic
from discreet.questions.bounded import fractions
from discreet.questions.covariance import bounds_of_columns
from discreet.questions.covariance_matrix import pairs
from discreet.questions.private_size import clipped
from discreet.releases import Release

__all__ = ["MeansAndCovariances"]


@dataclass(frozen=True, kw_only=True)
class MeansAndCovariances(Statistic):
    """Means and covariance matrix of columns in public bounds, from noisy totals.

    The value is (Σzⱼ for every column, Σzⱼzₖ in the order of `pairs`, number of rows), with
    zⱼ = (xⱼ − middleⱼ)/half-widthⱼ. The release knows means, covariances (divisor n) and correlations.

    Guarantee
    ---------
    Add/remove: each of the 1 + d + d(d + 1)/2 coordinates moves by at most 1, all of them for a row in a corner of the
    bounds, so the bound is tight. Replace-one: one row goes and one comes, at most twice that. Proof:
    ``docs/proofs/sensitivities.md``.

    Parameters
    ----------
    bounds
        Public bounds of every column, as the decimals they print as; values outside are clipped.

    Examples
    --------
    >>> moments = MeansAndCovariances(bounds=((0, 10), (0, 2)))
    >>> moments.coordinates, moments.sensitivity(neighbours=Neighbours.ADD_REMOVE).l1
    (6, 6.0)
    >>> exact = moments.of_sums(2, [Fraction(10), Fraction(2)], [Fraction(100), Fraction(4), Fraction(20)])
    >>> [str(part) for part in exact]
    ['0', '0', '2', '2', '2', '2']
    """

    name: ClassVar[str] = "means_and_covariances"
    bounds: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", bounds_of_columns("bounds", self.bounds))

    @property
    def dimension(self) -> int:
        """Number of columns d."""
        return len(self.bounds)

    @property
    def coordinates(self) -> int:
        """Number of totals."""
        return 1 + self.dimension + len(pairs(self.dimension))

    @property
    def middles(self) -> list[Fraction]:
        """Centres of the bounds."""
        return [(decimal(low) + decimal(high)) / 2 for low, high in self.bounds]

    @property
    def halves(self) -> list[Fraction]:
        """Half the widths of the bounds."""
        return [(decimal(high) - decimal(low)) / 2 for low, high in self.bounds]

    @classmethod
    def release_type(cls) -> type[Release]:
        from discreet.inference.means_and_covariances_release import MeansAndCovariancesRelease

        return MeansAndCovariancesRelease

    def parameters(self) -> dict[str, Any]:
        return {"bounds": [list(pair) for pair in self.bounds]}

    def sensitivity(self, *, neighbours: Neighbours) -> Sensitivity:
        """How far one row moves the totals."""
        requirements.instance("neighbours", neighbours, Neighbours, "Neighbours.ADD_REMOVE")
        moved = Sensitivity(moves=(1.0,) * self.coordinates)
        return moved if neighbours is Neighbours.ADD_REMOVE else doubled(moved)

    def worst_moves(self) -> tuple[float, ...]:
        """How far one unit of noise in its totals moves n times an entry of the matrix: the worst entry and truth.

        n·cov moves by hⱼhₖ(z_{jk} − mₖz_j − mⱼz_k − (q − 2mⱼmₖ)z_n), the most for a variance at m = ±1, q = 1.
        """
        widest = float(max(self.halves)) ** 2
        return widest, 2 * widest, widest

    def of_sums(self, rows: int, totals: Sequence[Fraction], products: Sequence[Fraction]) -> Any:
        """The value from the number of rows, sums of columns and sums of their products, in `pairs` order. Private."""
        middles, halves = self.middles, self.halves
        first = [(total - rows * m) / h for total, m, h in zip(totals, middles, halves, strict=True)]
        second = [
            (product - middles[j] * totals[k] - middles[k] * totals[j] + rows * middles[j] * middles[k])
            / (halves[j] * halves[k])
            for (j, k), product in zip(pairs(self.dimension), products, strict=True)
        ]
        return fractions([*first, *second, Fraction(rows)])

    def exact(self, data: Any, *, neighbours: Neighbours, unit: Unit = ROW) -> Exact:
        """The totals of an n × d table, still private."""
        table = float_truth(data)
        if table.ndim != 2 or table.shape[1] != self.dimension:
            raise InvalidParameter("data", table.shape, f"must be rows × {self.dimension}", "Give every column bounds.")
        columns = [clipped(column, pair) for column, pair in zip(table.T.tolist(), self.bounds, strict=True)]
        totals = [sum(column, Fraction(0)) for column in columns]
        products = [
            sum((x * y for x, y in zip(columns[j], columns[k], strict=True)), Fraction(0))
            for j, k in pairs(self.dimension)
        ]
        value = self.of_sums(len(columns[0]), totals, products)
        return Exact(value, self.sensitivity(neighbours=neighbours), Protection(unit, neighbours), self)
