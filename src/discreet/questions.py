"""Questions: what can be asked of a data set, described from public facts alone.

A question knows its statistic, its sensitivity under the schema's limits, its mechanism, and how to turn exact totals
into the exact value. Making one reads no data; `discreet.session` asks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import requirements
from discreet.errors import InvalidParameter
from discreet.guarantees import ApproxDP, Guarantee, PureDP
from discreet.mechanisms.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.mechanism import Mechanism
from discreet.mechanisms.permute_and_flip import PermuteAndFlip
from discreet.mechanisms.quantile import QuantileChoice
from discreet.releases import Release
from discreet.rounding import decimal, not_below
from discreet.schema import Bounds, Contribution, Schema
from discreet.sensitivity import Neighbours, Sensitivity
from discreet.stability import check_unit_sum, doubled, in_every_group, stability
from discreet.statistics.bounded import fractions
from discreet.statistics.count import Count
from discreet.statistics.covariance_matrix import CovarianceMatrix, pairs
from discreet.statistics.grouped import Grouped
from discreet.statistics.mean import Mean, Proportion
from discreet.statistics.mean_and_variance import MeanAndVariance
from discreet.statistics.modes import Mode
from discreet.statistics.noisy_average import NoisyAverage
from discreet.statistics.quantiles import MOST_POINTS, Quantiles
from discreet.statistics.statistic import Statistic
from discreet.statistics.sum import Sum
from discreet.statistics.table_axes import Bins
from discreet.statistics.tables import ContingencyTable
from discreet.statistics.variance import Variance

__all__ = ["Counted", "Question", "Selection"]

Counted = Callable[[NDArray[Any], Mapping[tuple[str, ...], NDArray[Any]]], Any]
"""From counts and sums per cell to the exact value."""
Histograms = list[tuple[NDArray[np.int64], NDArray[np.int64]]]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which rows a question is about: groups, limits per unit, and whether sums per unit take the place of rows."""

    by: tuple[str, ...] = ()
    contribution: Contribution | None = None
    unit_sum: Bounds | None = None


@dataclass(frozen=True, kw_only=True)
class Question:
    """One thing to release.

    Attributes
    ----------
    guarantee
        What was asked for.
    statistic, sensitivity, mechanism, public
        As the release will carry them.
    by, columns, contribution, unit_sum, products
        What has to be added up.
    value
        From totals to the exact value; ``from_histograms`` instead where the whole distribution is needed.
    error_factor
        What turns noise in the released value into noise in what people read, where rows are expected.
    """

    guarantee: Guarantee
    statistic: Statistic
    sensitivity: Sensitivity
    mechanism: Mechanism
    by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    contribution: Contribution | None = None
    unit_sum: Bounds | None = None
    products: tuple[tuple[str, ...], ...] = ()
    public: Mapping[str, Any]
    value: Counted | None = None
    from_histograms: Callable[[Histograms], Any] | None = None
    error_factor: float | None = None

    @property
    def claim(self) -> Guarantee | None:
        """The guarantee to charge where it must be named: an (ε, δ) pair is one of many that hold."""
        return self.guarantee if isinstance(self.guarantee, ApproxDP) else None

    def made(self, answer: Release) -> bool:
        """Whether a stored answer is one to this question."""
        asked = (self.statistic, self.mechanism, self.sensitivity)
        return (answer.statistic, answer.mechanism, answer.sensitivity) == asked


@dataclass(frozen=True)
class Questions:
    """Makes questions about data that a schema describes."""

    schema: Schema

    # ---- what all questions share ---------------------------------------------------------------------------

    def _limits(self, chosen: Selection) -> Contribution:
        """Limits per unit; a clipped sum counts once per group."""
        limits = self.schema.contribution(chosen.contribution)
        if chosen.unit_sum is None:
            return limits
        return Contribution(groups=limits.groups, rows=1)

    def _values(self, column: str, chosen: Selection) -> Bounds:
        """Bounds of what is added up: the column's, or those of a unit's sum."""
        bounds = self.schema.bounds(column)
        if chosen.unit_sum is None:
            return bounds
        check_unit_sum(self.schema, (column,), chosen.unit_sum)
        return chosen.unit_sum

    def _labels(self, by: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        return {name: tuple(self.schema.categories(name).labels) for name in by}

    def _every_unit_once(self, chosen: Selection, columns: Sequence[str]) -> bool:
        """Whether replace-one neighbours have the same number of rows, so that it is public."""
        kept = all(self.schema.column(name).keeps_every_row for name in columns)
        return self.schema.neighbours is Neighbours.REPLACE_ONE and self.schema.unit.column is None and kept

    def _add_remove(self) -> bool:
        return self.schema.neighbours is Neighbours.ADD_REMOVE

    def _grouped(self, statistic: Statistic, by: Sequence[str]) -> Statistic:
        return Grouped(of=statistic, by=self._labels(by)) if by else statistic

    # ---- counts -----------------------------------------------------------------------------------------------

    def count(self, guarantee: Guarantee, chosen: Selection) -> Question:
        """Number of rows, in all or by group."""
        if chosen.by:
            return self.table(chosen.by, guarantee, Selection(contribution=chosen.contribution))
        limits = self._limits(chosen)
        sensitivity = stability(limits, cells=1, neighbours=self.schema.neighbours)
        return Question(
            guarantee=guarantee,
            statistic=Count(),
            sensitivity=sensitivity,
            mechanism=_additive(guarantee, sensitivity),
            contribution=chosen.contribution,
            public={},
            value=lambda counts, sums: int(counts[0]),
        )

    def table(self, columns: Sequence[str], guarantee: Guarantee, chosen: Selection) -> Question:
        """Counts by the labels of some columns."""
        names = tuple(columns)
        statistic = ContingencyTable(dict(self._labels(names)))
        limits = self._limits(chosen)
        sensitivity = stability(limits, cells=statistic.cells, neighbours=self.schema.neighbours)
        public = {"n": self.schema.size} if self._every_unit_once(chosen, names) else {}
        return Question(
            guarantee=guarantee,
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=_additive(guarantee, sensitivity),
            by=names,
            contribution=chosen.contribution,
            public=public,
            value=lambda counts, sums: counts.astype(np.int64).reshape(statistic.shape),
        )

    def mode(self, column: str, guarantee: Guarantee, chosen: Selection) -> Question:
        """The most frequent label of a column, chosen without publishing any count."""
        counted = self.table((column,), guarantee, chosen)
        chooser = PermuteAndFlip if isinstance(guarantee, PureDP) else ExponentialMechanism
        return replace(
            counted,
            statistic=Mode(categories=self._labels((column,))[column]),
            mechanism=chooser.calibrate(guarantee, counted.sensitivity),
            public={},
        )

    def histogram(self, column: str, edges: Sequence[float], guarantee: Guarantee, chosen: Selection) -> Question:
        """Counts by bins of a number; the edges are public."""
        bounds = self._values(column, chosen)
        bins = Bins(tuple(edges))
        statistic = ContingencyTable({column: bins})
        limits = self._limits(chosen)
        rows = Contribution(total=limits.most_rows(1))
        sensitivity = stability(rows, cells=statistic.cells, neighbours=self.schema.neighbours)
        if edges[0] > bounds.low or edges[-1] < bounds.high:
            raise InvalidParameter(
                "edges", list(edges), f"must cover the bounds {bounds.low:g} to {bounds.high:g}", "Add outer edges."
            )

        def counts(found: Histograms) -> NDArray[np.int64]:
            steps, rows_at = found[0]
            places = bins.codes(np.array([float(int(step) * bounds.step) for step in steps]))
            return np.bincount(places, weights=rows_at, minlength=statistic.cells).astype(np.int64)

        return Question(
            guarantee=guarantee,
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=_additive(guarantee, sensitivity),
            columns=(column,),
            contribution=chosen.contribution,
            unit_sum=chosen.unit_sum,
            public={"n": self.schema.size} if self._every_unit_once(chosen, (column,)) else {},
            from_histograms=counts,
        )

    # ---- sums and means ---------------------------------------------------------------------------------------

    def sum(self, column: str, guarantee: Guarantee, chosen: Selection) -> Question:
        """Total of a column, in all or by group."""
        bounds = self._values(column, chosen)
        limits, cells = self._limits(chosen), self.schema.cells(chosen.by)
        low, high = decimal(bounds.low), decimal(bounds.high)
        if not chosen.by and self._every_unit_once(chosen, (column,)):
            sensitivity = Sensitivity(moves=(not_below(high - low),))
        else:
            sensitivity = stability(limits, cells=cells, neighbours=self.schema.neighbours, low=low, high=high)

        def value(counts: Any, sums: Any) -> Any:
            totals = fractions([int(total) * bounds.step for total in sums[column,]])
            return totals if chosen.by else totals[0]

        return Question(
            guarantee=guarantee,
            statistic=self._grouped(Sum(bounds=(bounds.low, bounds.high)), chosen.by),
            sensitivity=sensitivity,
            mechanism=_additive(guarantee, sensitivity),
            by=chosen.by,
            columns=(column,),
            contribution=chosen.contribution,
            unit_sum=chosen.unit_sum,
            products=((column,),),
            public={},
            value=value,
        )

    def mean(self, column: str, guarantee: Guarantee, chosen: Selection, *, spread: bool, rows: int | None) -> Question:
        """Mean of a column, in all or by group; with its variance where ``spread``."""
        bounds = self._values(column, chosen)
        ends = (bounds.low, bounds.high)
        if not chosen.by and not spread and self._every_unit_once(chosen, (column,)):
            return self._public_mean(column, bounds, guarantee)
        one = MeanAndVariance(bounds=ends) if spread else NoisyAverage(bounds=ends)
        middle, half = _centre(bounds)

        def value(counts: Any, sums: Any) -> Any:
            parts: list[Fraction] = []
            for cell, count in enumerate(counts):
                total = int(sums[column,][cell]) * bounds.step
                if isinstance(one, MeanAndVariance):
                    squares = int(sums[column, column][cell]) * bounds.step**2
                    parts += list(one.of_sums(int(count), total, squares))
                else:
                    parts += [(total - int(count) * middle) / half, Fraction(int(count))]
            return fractions(parts)

        sensitivity = self._in_groups(chosen, 3 if spread else 2)
        mechanism = _additive(guarantee, sensitivity)
        return Question(
            guarantee=guarantee,
            statistic=self._grouped(one, chosen.by),
            sensitivity=sensitivity,
            mechanism=mechanism,
            by=chosen.by,
            columns=(column,),
            contribution=chosen.contribution,
            unit_sum=chosen.unit_sum,
            products=((column,), (column, column)) if spread else ((column,),),
            public={},
            value=value,
            error_factor=None if rows is None else float(half) * self.schema.cells(chosen.by) / rows,
        )

    def _in_groups(self, chosen: Selection, coordinates: int) -> Sensitivity:
        """Several totals per group, each moved by at most one by each row."""
        limits = self._limits(chosen)
        moved = in_every_group(limits, self.schema.cells(chosen.by), coordinates)
        return moved if self._add_remove() else doubled(moved)

    def _public_mean(self, column: str, bounds: Bounds, guarantee: Guarantee) -> Question:
        statistic = Mean(bounds=(bounds.low, bounds.high), n=self.schema.size)
        low, high = decimal(bounds.low), decimal(bounds.high)
        assert self.schema.size is not None
        sensitivity = Sensitivity(moves=(not_below((high - low) / self.schema.size),))
        return Question(
            guarantee=guarantee,
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=_additive(guarantee, sensitivity),
            columns=(column,),
            products=((column,),),
            public={"n": self.schema.size},
            value=lambda counts, sums: Fraction(int(sums[column,][0]), int(counts[0])) * bounds.step,
            error_factor=1.0,
        )

    def proportion(self, column: str, label: Any, guarantee: Guarantee, chosen: Selection) -> Question:
        """Share of rows with a label."""
        labels = self.schema.categories(column).labels
        if label not in labels:
            raise InvalidParameter("label", label, f"must be one of {list(labels)}", "Check the spelling.")
        if chosen.by:
            raise InvalidParameter("by", chosen.by, "is not for proportions", f"Use table([…, {column!r}]).")
        place = list(labels).index(label)
        once = self._every_unit_once(chosen, (column,))
        rows = self._limits(chosen).most_rows(1)
        if once:
            assert self.schema.size is not None
            statistic: Statistic = Proportion(n=self.schema.size)
            sensitivity = Sensitivity(moves=(not_below(Fraction(1, self.schema.size)),))
        else:
            statistic = NoisyAverage(bounds=(0.0, 1.0))
            moved = in_every_group(Contribution(rows=rows), 1, 2)
            sensitivity = moved if self._add_remove() else doubled(moved)

        def value(counts: Any, sums: Any) -> Any:
            yes, total = int(counts[place]), int(counts.sum())
            return Fraction(yes, total) if once else fractions([Fraction(2 * yes - total), Fraction(total)])

        return Question(
            guarantee=guarantee,
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=_additive(guarantee, sensitivity),
            by=(column,),
            contribution=None if self.schema.unit.column is None else Contribution(total=rows),
            public={"n": self.schema.size} if once else {},
            value=value,
        )

    # ---- spread and shape -------------------------------------------------------------------------------------

    def variance(self, column: str, guarantee: Guarantee, chosen: Selection) -> Question:
        """Variance of a column; with a private number of rows it comes with the mean."""
        bounds = self._values(column, chosen)
        if chosen.by or not self._every_unit_once(chosen, (column,)):
            return self.mean(column, guarantee, chosen, spread=True, rows=None)
        statistic = Variance(bounds=(bounds.low, bounds.high), n=self.schema.size)
        sensitivity = statistic.sensitivity(neighbours=self.schema.neighbours)

        def value(counts: Any, sums: Any) -> Fraction:
            n = int(counts[0])
            squares = n * int(sums[column, column][0]) - int(sums[column,][0]) ** 2
            return Fraction(squares, n * (n - 1)) * bounds.step**2

        return Question(
            guarantee=guarantee,
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=_additive(guarantee, sensitivity),
            columns=(column,),
            products=((column,), (column, column)),
            public={"n": self.schema.size},
            value=value,
        )

    def covariance_matrix(self, columns: Sequence[str], guarantee: Guarantee, chosen: Selection) -> Question:
        """Covariance matrix of several columns; the number of rows must be public."""
        names = tuple(columns)
        bounds = [self.schema.bounds(name) for name in names]
        if not self._every_unit_once(chosen, names):
            raise InvalidParameter(
                "neighbours",
                self.schema.neighbours.value,
                "a covariance matrix divides by the number of rows, which must be public",
                "Declare neighbours = replace_one with rows as units, and replace missing values.",
            )
        statistic = CovarianceMatrix(bounds=tuple((one.low, one.high) for one in bounds), n=self.schema.size)
        sensitivity = statistic.sensitivity(neighbours=self.schema.neighbours)

        def value(counts: Any, sums: Any) -> Any:
            n = int(counts[0])
            found = []
            for j, k in pairs(len(names)):
                cross = n * int(sums[names[j], names[k]][0]) - int(sums[names[j],][0]) * int(sums[names[k],][0])
                found.append(Fraction(cross, n * (n - 1)) * bounds[j].step * bounds[k].step)
            return fractions(found)

        products = [(name,) for name in names] + [(names[j], names[k]) for j, k in pairs(len(names))]
        return Question(
            guarantee=guarantee,
            statistic=statistic,
            sensitivity=sensitivity,
            mechanism=_additive(guarantee, sensitivity),
            columns=names,
            products=tuple(products),
            public={"n": self.schema.size},
            value=value,
        )

    def quantile(
        self,
        column: str,
        probabilities: float | Sequence[float],
        guarantee: Guarantee,
        chosen: Selection,
        *,
        interval: float | None,
        rows_at_least: int | None,
        recursive: bool,
    ) -> Question:
        """Quantiles of a column, in all or by group."""
        fine = self._values(column, chosen)
        bounds, coarse = _coarsened(fine)
        statistic = Quantiles(
            probabilities=probabilities if isinstance(probabilities, float | int) else tuple(probabilities),
            bounds=bounds,
            interval=interval,
            rows_at_least=rows_at_least,
            recursive=recursive,
        )
        groups = self.schema.cells(chosen.by)
        rows = self._limits(chosen).most_rows(groups)
        sensitivity = statistic.sensitivity(
            neighbours=self.schema.neighbours, rows_per_unit=rows, grouped=bool(chosen.by)
        )

        def value(found: Histograms) -> Any:
            return _stacked([statistic.whole((steps + coarse // 2) // coarse, rows) for steps, rows in found], bounds)

        return Question(
            guarantee=guarantee,
            statistic=self._grouped(statistic, chosen.by),
            sensitivity=sensitivity,
            mechanism=QuantileChoice.calibrate(guarantee, sensitivity, statistic=statistic, groups=groups),
            by=chosen.by,
            columns=(column,),
            contribution=chosen.contribution,
            unit_sum=chosen.unit_sum,
            public={},
            from_histograms=value,
        )


def _coarsened(bounds: Bounds) -> tuple[Bounds, int]:
    """The column's grid, or the finest multiple of it with few enough points to weigh each."""
    coarse = 1
    while (bounds.highest - bounds.lowest) // coarse >= MOST_POINTS:
        coarse *= 10
    if coarse == 1:
        return bounds, 1
    step = bounds.step * coarse
    low, high = (bounds.lowest + coarse // 2) // coarse, (bounds.highest + coarse // 2) // coarse
    return Bounds(float(low * step), float(high * step), grid=float(step)), coarse


def _stacked(histograms: list[NDArray[np.int64]], bounds: Bounds) -> NDArray[np.int64]:
    """Histograms of groups one after another on one long grid."""
    shifted = [np.array([one[0] + group * bounds.cells, one[1]]) for group, one in enumerate(histograms)]
    return np.concatenate(shifted, axis=1)


def _centre(bounds: Bounds) -> tuple[Fraction, Fraction]:
    low, high = decimal(bounds.low), decimal(bounds.high)
    return (low + high) / 2, (high - low) / 2


def _additive(guarantee: Guarantee, sensitivity: Sensitivity) -> Mechanism:
    """Laplace noise for a pure guarantee, Gaussian noise for the others."""
    requirements.instance("guarantee", guarantee, Guarantee, "a guarantee such as PureDP(0.5)")
    kind = Laplace if isinstance(guarantee, PureDP) else Gaussian
    return kind.calibrate(guarantee, sensitivity)
