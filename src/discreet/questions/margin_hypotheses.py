"""Hypotheses about margins: tests on released tables, with the noise of the release in the null distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.inference.chi_square import (
    ChiSquareResult,
    Departure,
    cell_probabilities,
    shrunken_goodness,
    shrunken_independence,
    simulated_test,
)
from discreet.inference.monte_carlo import MonteCarlo
from discreet.inference.ordered_groups import difference_of_ranks, distance_of_distributions
from discreet.mechanisms.tables.clipping import onto_simplex
from discreet.mechanisms.tables.margins_noise import Axes
from discreet.questions.measured_margins import MeasuredMargins

if TYPE_CHECKING:
    from discreet.questions.margins import Margins

__all__ = ["MarginTests"]

Array = NDArray[np.float64]


class MarginTests(ABC):
    """Tests of tables that were released together. They use the release alone, so they cost nothing more.

    The null distribution is simulated: tables that fit the hypothesis, measured with the noise of the same release.
    """

    @property
    @abstractmethod
    def margins(self) -> Margins:
        """The public description of the tables."""

    @property
    @abstractmethod
    def measured_counts(self) -> MeasuredMargins:
        """The noisy counts, by position."""

    @property
    @abstractmethod
    def rows_per_unit(self) -> int:
        """At most this many rows are one unit's."""

    @abstractmethod
    def asked(self, columns: Sequence[str]) -> Axes:
        """Positions of the columns of a released table, or an error that lists those there are."""

    def independence(self, one: str, other: str, *, null: MonteCarlo | None = None) -> ChiSquareResult:
        """Test whether two columns are independent, from their released table."""
        table = self._table((one, other))
        df = (table.shape[0] - 1) * (table.shape[1] - 1)
        return self._tested(
            "independence", "shrunken", (one, other), _unrelated(table), df, shrunken_independence, null
        )

    def goodness_of_fit(
        self, column: str, probabilities: Sequence[float], *, null: MonteCarlo | None = None
    ) -> ChiSquareResult:
        """Test whether the labels of a column have given shares."""
        expected = cell_probabilities(probabilities, self._table((column,)).size)

        def departure(cells: Array, n: float | None, noise: float) -> Array:
            return shrunken_goodness(cells, expected, n, noise)

        return self._tested("goodness of fit", "shrunken", (column,), expected, expected.size - 1, departure, null)

    def rank_test(self, column: str, by: str, *, null: MonteCarlo | None = None) -> ChiSquareResult:
        """Test whether groups differ in an ordered column: Mann and Whitney for two, Kruskal and Wallis for more.

        The labels of the column count in their declared order; bins of a number have theirs.
        """
        return self._ordered("equal ranks", "ranks", column, by, difference_of_ranks, null)

    def kolmogorov_smirnov(self, column: str, by: str, *, null: MonteCarlo | None = None) -> ChiSquareResult:
        """Test whether an ordered column is distributed alike in all groups, by the largest distance."""
        return self._ordered("equal distributions", "Kolmogorov-Smirnov", column, by, distance_of_distributions, null)

    def _ordered(
        self, test: str, method: str, column: str, by: str, departure: Departure, null: MonteCarlo | None
    ) -> ChiSquareResult:
        table = self._table((by, column))
        return self._tested(test, method, (by, column), _unrelated(table), table.shape[0] - 1, departure, null)

    def _table(self, columns: Sequence[str]) -> Array:
        """The measured table with the columns in this order."""
        axes = self.asked(columns)
        if self.rows_per_unit > 1:
            raise InvalidParameter(
                "release", f"at most {self.rows_per_unit} rows of each unit",
                "a test needs independent rows, so at most one of each unit",
                "Release the tables with contribution=Contribution(total=1).",
            )  # fmt: skip
        return np.transpose(self.measured_counts.margin(axes), self._order(columns))

    def _order(self, columns: Sequence[str]) -> list[int]:
        axes = self.asked(columns)
        return [axes.index(self.margins.axes((name,))[0]) for name in columns]

    def _tested(
        self,
        test: str,
        method: str,
        columns: Sequence[str],
        expected: Array,
        df: int,
        departure: Departure,
        null: MonteCarlo | None,
    ) -> ChiSquareResult:
        measured, axes, order = self.measured_counts, self.asked(columns), self._order(columns)
        return simulated_test(
            test,
            method,
            self._table(columns),
            expected,
            df,
            departure,
            rows=max(round(measured.at({})), 1),
            public=self.margins.total,
            noise_variance=measured.noise.standard_error(axes) ** 2,
            noise=lambda size, rng: np.transpose(
                measured.noise.simulated(axes, size, rng), (0, *(place + 1 for place in order))
            ),
            null=null or MonteCarlo(),
        )


def _unrelated(table: Array) -> Array:
    """Cell probabilities where rows and columns are independent, from the margins of a noisy table."""
    return np.asarray(np.outer(*(_possible_shares(table.sum(axis=axis)) for axis in (1, 0))))


def _possible_shares(counts: Array) -> Array:
    total = max(float(counts.sum()), 1.0)
    projected = onto_simplex(counts, total)
    return np.asarray(projected / projected.sum())
