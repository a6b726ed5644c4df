"""Declared sensitivities, beside the largest change over every small data set.

A sensitivity that is too small breaks a guarantee; one that is too large wastes noise. Here every formula meets
brute force: over every unit that its limits allow, and over every data set of a few rows from the corners of the
domain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from discreet.audit.recomputed import Compared, Recomputed, recomputed, refused
from discreet.core.protection import Neighbours
from discreet.core.schema import Contribution
from discreet.core.sensitivity import Sensitivity
from discreet.core.stability import in_parts, stability
from discreet.questions.count import Count
from discreet.questions.covariance import Covariance
from discreet.questions.covariance_matrix import CovarianceMatrix
from discreet.questions.margins import Margins
from discreet.questions.mean import Mean
from discreet.questions.mean_difference import MeanDifference
from discreet.questions.noisy_average import NoisyAverage
from discreet.questions.pooled import PooledCovariance, PooledVariance
from discreet.questions.proportion import Proportion
from discreet.questions.proportion_vector import ProportionVector
from discreet.questions.signed_rank import PairedBalance
from discreet.questions.sum import Sum, SumAndCount
from discreet.questions.table import ContingencyTable
from discreet.questions.variance import Variance
from discreet.testing.statistics import check_statistic

__all__ = ["audit_declared"]

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
_LIMITS = tuple(
    Contribution(**limits)
    for limits in (
        {"groups": 1, "rows": 1}, {"groups": 1, "rows": 2}, {"groups": 2, "rows": 1}, {"groups": 2, "rows": 2},
        {"groups": 9, "rows": 1},
        {"rows": 1}, {"rows": 2}, {"total": 1}, {"total": 2}, {"total": 3},
    )
)  # fmt: skip
_BOUNDS = ((0, 1), (-1, 10), (-10, 1), (-2, 3), (2, 3), (-3, -2), (-1, 1))
_NEAR = 1 + 1e-12


def audit_declared() -> Recomputed:
    """Compare every formula of a sensitivity with brute force.

    Examples
    --------
    >>> audit_declared().passed
    True
    """
    parts: tuple[Callable[[], Iterator[Compared]], ...] = (
        _units, _in_parts, _long, _columns, _domains, _pairs, _balances, _pooled, _tables, _margins, _arms, _averages
    )  # fmt: skip
    return recomputed("Declared sensitivities", parts)


def _reached(name: str, declared: Sensitivity, l1: float, l2: float, *, tight: bool) -> Iterator[Compared]:
    own = (declared.l1 or math.inf, declared.l2 or math.inf)
    yield f"{name}: more than declared", l1 <= own[0] * _NEAR and l2 <= own[1] * _NEAR
    if tight:
        yield f"{name}: far less than declared", l1 >= own[0] / _NEAR and l2 >= own[1] / _NEAR


# ---- bounded units --------------------------------------------------------------------------------------------------


def _row_counts(limits: Contribution, cells: int) -> Iterator[tuple[int, ...]]:
    """Rows per cell that a unit may keep, from the words of `Contribution` alone."""
    most = limits.total if limits.rows is None else limits.rows
    for rows in itertools.product(range((most or 0) + 1), repeat=cells):
        within = limits.groups is None or sum(count > 0 for count in rows) <= limits.groups
        if within and (limits.total is None or sum(rows) <= limits.total):
            yield rows


def _unit_sums(limits: Contribution, cells: int, low: float, high: float) -> Any:
    """Sums per cell that a unit can have: every number of rows, at either bound."""
    found: set[tuple[float, ...]] = set()
    for rows in _row_counts(limits, cells):
        found.update(itertools.product(*({count * low, count * high} if count else {0} for count in rows)))
    return np.array(sorted(found), dtype=float)


def _worst(units: Any, neighbours: Neighbours) -> tuple[float, float]:
    """Largest ℓ₁ and ℓ₂ distance between two units, or between a unit and nobody."""
    others = units if neighbours is REPLACED else np.zeros((1, units.shape[1]))
    gaps = np.abs(units[:, None, :] - others[None, :, :])
    return float(gaps.sum(axis=2).max()), float(np.sqrt((gaps**2).sum(axis=2).max()))


def _units() -> Iterator[Compared]:
    """Sums of bounded units."""
    for limits, (low, high), neighbours in itertools.product(_LIMITS, _BOUNDS, Neighbours):
        for cells in (1, 2, 4) if limits in _LIMITS[:4] else (1, 3):
            declared = stability(limits, cells=cells, neighbours=neighbours, low=low, high=high)
            norms = _worst(_unit_sums(limits, cells, low, high), neighbours)
            yield from _reached("sums of a unit", declared, *norms, tight=cells == 4)
            yield "the number of sums", declared.dimension == cells


def _in_parts() -> Iterator[Compared]:
    """Parts of a row that add up to one."""
    for limits, neighbours in itertools.product(_LIMITS, Neighbours):
        units = np.array(
            [
                [part for count, one in zip(rows, yes, strict=True) for part in (count - one, one)]
                for rows in _row_counts(limits, 2)
                for yes in itertools.product(*(range(count + 1) for count in rows))
            ],
            dtype=float,
        )
        declared = in_parts(limits, 2, 2, neighbours)
        yield from _reached("parts", declared, *_worst(units, neighbours), tight=True)
        yield "the number of parts", declared.dimension == 4


def _long() -> Iterator[Compared]:
    """Beyond 64 moves only the norms are kept; they are those of the moves."""
    for groups, rows in ((65, 2), (64, 2), (33, 3)):
        limits = Contribution(groups=groups, rows=rows)
        declared = stability(limits, cells=200, neighbours=ADDED, low=0, high=3)
        yield from _reached("many cells", declared, groups * rows * 3, rows * 3 * math.sqrt(groups), tight=True)
        yield "moves of many cells", (declared.moves is None) == (groups > 64)
        replaced = stability(limits, cells=200, neighbours=REPLACED, low=0, high=3)
        yield from _reached("many cells", replaced, 2 * groups * rows * 3, rows * 3 * math.sqrt(2 * groups), tight=True)


# ---- statistics -----------------------------------------------------------------------------------------------------


def _checked(
    statistic: Any, universe: Sequence[Any], n: int, data: Any = None, tight: float | None = 0.99
) -> Iterator[Compared]:
    for neighbours in Neighbours:
        yield (
            f"{statistic.name} of {n} rows",
            check_statistic(statistic, universe, n=n, neighbours=neighbours, data=data, tight=tight) > 0,
        )


def _columns() -> Iterator[Compared]:
    for bounds in ((0.0, 1.0), (-1.0, 3.0), (-3.0, -1.0)):
        low, high = bounds
        line = [low, (low + high) / 2, high]
        for kind in (Sum, SumAndCount, Mean, Variance):
            for n in (3, 4):
                yield from _checked(kind(bounds=bounds), line, n, tight=None if kind is SumAndCount else 0.99)
    for statistic, n in itertools.product((Count(), Proportion()), (3, 4)):
        yield from _checked(statistic, [0.0, 1.0], n)
    for n in (3, 4):
        yield from _checked(ProportionVector(categories=("a", "b", "c"), n=n), "abc", n)
    yield "a column of one row", refused(lambda: Variance(bounds=(0, 1)).value([0.5]))


def _domains() -> Iterator[Compared]:
    """Both ends of a domain are reached by some data, or it is wider than it needs to be."""
    for bounds in ((0.0, 1.0), (-1.0, 3.0), (-3.0, -1.0)):
        statistics: tuple[Any, ...] = (Mean(bounds=bounds), Variance(bounds=bounds))
        for statistic, n in itertools.product(statistics, (3, 4)):
            values = [statistic.value(list(rows)) for rows in itertools.combinations_with_replacement(bounds, n)]
            low, high = (float(np.max(end)) for end in statistic.domain(n))
            yield f"the lower end of {statistic.name}", abs(float(min(values)) - low) < 1e-12
            most = float(max(values))  # of an odd number of rows, a variance comes close
            yield f"the upper end of {statistic.name}", high - 0.15 * (high - low) <= most <= high + 1e-12


def _pairs() -> Iterator[Compared]:
    for first, second in (((0.0, 1.0), (0.0, 1.0)), ((-1.0, 3.0), (2.0, 4.0))):
        corners = list(itertools.product(first, second))
        for kind, n in itertools.product((Covariance, CovarianceMatrix), (3, 4)):
            yield from _checked(kind(bounds=(first, second)), corners, n, np.array)


def _balances() -> Iterator[Compared]:
    """Signed ranks and signs of differences, with ties and zeros; where the number of rows is public, it stays."""
    steps = range(-2, 3)
    for scores, n in itertools.product(("ranks", "signs"), (3, 4)):
        public: Any = PairedBalance(scores=scores, n=n)
        private: Any = PairedBalance(scores=scores)
        reached = check_statistic(public, steps, n=n, neighbours=REPLACED, tight=0.99)
        yield f"{scores} of a public number of rows", reached > 0
        for neighbours in Neighbours:
            # Replacing one of few rows moves their ranks by 2n/(n + 1) at most: the bound is close for many rows.
            tight = 0.65 if scores == "ranks" and neighbours is REPLACED else 0.99
            reached = check_statistic(private, steps, n=n, neighbours=neighbours, tight=tight)
            yield f"{scores} of a private number of rows", reached > 0


def _by_cell(rows: tuple[Any, ...]) -> Any:
    *values, labels = zip(*rows, strict=True)
    return (*(np.array(column) for column in values), np.array(labels))


def _pooled() -> Iterator[Compared]:
    """Variances and covariances within cells, where records may change their cell."""
    for n, cells in ((4, 1), (4, 2), (5, 2), (5, 3)):
        universe = [(x, cell) for x in (0.0, 2.0) for cell in range(cells)]
        yield from _checked(PooledVariance(bounds=(0, 2), cells=tuple(range(cells))), universe, n, _by_cell)
    for n, cells in ((4, 1), (4, 2)):
        pairs = [(x, y, cell) for x in (0.0, 1.0) for y in (0.0, 2.0) for cell in range(cells)]
        yield from _checked(
            PooledCovariance(bounds=((0, 1), (0, 2)), cells=tuple(range(cells))), pairs, n, _by_cell, tight=0.7
        )


def _tables() -> Iterator[Compared]:
    """Tables of units with several rows."""
    table = ContingencyTable({"a": [0, 1], "b": [0, 1]})
    for rows, neighbours in itertools.product((1, 2, 3), Neighbours):
        units = np.array(
            [counts for counts in itertools.product(range(rows + 1), repeat=4) if sum(counts) <= rows], dtype=float
        )
        declared = table.sensitivity(neighbours, rows_per_unit=rows)
        yield from _reached("a table", declared, *_worst(units, neighbours), tight=True)
        yield "the cells of a table", declared.dimension == 4
    data = {"a": [0, 1, 1, 0, 1], "b": [1, 1, 0, 1, 1]}
    yield "counts of a table", table.counts(data).tolist() == [[0, 2], [1, 2]]
    yield "an unknown label", refused(partial(table.counts, {"a": [2], "b": [0]}))
    yield "columns of different lengths", refused(partial(table.counts, {"a": [0, 1], "b": [0]}))


def _margins() -> Iterator[Compared]:
    """Margins and sums of a unit with several rows: every row is a cell and a step."""
    for summed, rows, neighbours in itertools.product((None, ("x", 0, 4, "1"), ("x", -3, 7, "1")), (1, 2), Neighbours):
        columns: dict[str, Sequence[Any]] = {"a": [0, 1], "b": [0, 1]}
        margins = Margins(columns=columns, tables=[["a"], ["a", "b"]], summed=summed)
        steps = (0,) if summed is None else (summed[1], (summed[1] + summed[2]) // 2, summed[2])
        units = []
        for chosen in itertools.combinations_with_replacement(itertools.product((0, 1), (0, 1), steps), rows):
            counts, sums = np.zeros((2, 2), dtype=int), np.zeros((2, 2), dtype=int)
            for a, b, step in chosen:
                counts[a, b] += 1
                sums[a, b] += step
            units.append(margins.stacked(counts, None if summed is None else sums))
        declared = margins.sensitivity(neighbours, rows_per_unit=rows)
        l1, l2 = _worst(np.array(units, dtype=float), neighbours)
        # Where a row is replaced, a sum moves most in one cell, a count between two, and the total of rows not at
        # all: no unit does everything that the bound allows.
        yield from _reached("margins", declared, l1, l2, tight=neighbours is ADDED)
        yield "margins: ℓ₁ is far less than declared", l1 >= 0.6 * (declared.l1 or 0)
        yield "margins: ℓ₂ is far less than declared", l2 >= 0.7 * (declared.l2 or 0)


def _arms() -> Iterator[Compared]:
    """Moments of an arm: the most that one row moves those of all arms together."""
    for norm, arm, neighbours in itertools.product(("l1", "l2"), ("public", "private"), Neighbours):
        moments = MeanDifference(bounds=(0, 1), arm=arm, arms=2, norm=norm)
        declared = moments.sensitivity(neighbours=neighbours)
        worst = _worst_arms(moments, neighbours, arm)
        reached = [gap / own for gap, own in zip(worst, (declared.l1, declared.l2), strict=True) if own]
        yield f"moments of arms, {norm}, {arm}", max(reached) <= _NEAR
        yield f"moments of arms, {norm}, {arm}, far less than declared", max(reached) >= 0.99


def _worst_arms(moments: MeanDifference, neighbours: Neighbours, arm: str) -> tuple[float, float]:
    offsets, largest, found = (0, 2, 4), 4, (0.0, 0.0)

    def vector(arms: Sequence[Sequence[int]]) -> Any:
        values = [moments.value(len(a), sum(a), sum(x * x for x in a), largest, neighbours) for a in arms]
        return np.array([float(one) for value in values for one in value])

    for rows in itertools.combinations_with_replacement(offsets, 2):
        base = vector([rows, (0, 4)])
        for other in offsets:
            replaced: list[list[Sequence[int]]] = [[(*rows, other), (0, 4)], [rows[:1], (0, 4)]]
            if neighbours is REPLACED:
                replaced = [[(rows[0], other), (0, 4)]]
                replaced += [[rows[:1], (0, 4, other)]] if arm == "private" else []
            for changed in replaced:
                gap = np.abs(vector(changed) - base)
                found = max(found[0], float(gap.sum())), max(found[1], float(np.sqrt((gap**2).sum())))
    return found


def _averages() -> Iterator[Compared]:
    for bounds, centred in itertools.product(((0.0, 1.0), (-1.0, 3.0), (2.0, 4.0)), (True, False)):
        statistic = NoisyAverage(bounds=bounds, centred=centred)
        line = [bounds[0], sum(bounds) / 2, bounds[1]]
        for neighbours in Neighbours:
            declared = statistic.sensitivity(n=3, neighbours=neighbours)
            values = {
                rows: statistic.value(list(rows))
                for size in (2, 3)
                for rows in itertools.combinations_with_replacement(line, size)
            }
            worst = Fraction(0)
            for rows in itertools.combinations_with_replacement(line, 2):
                larger = [values[tuple(sorted((*rows, one)))] for one in line]
                sides = larger if neighbours is REPLACED else [values[rows]]
                worst = max(worst, *(sum(map(abs, a - b), Fraction(0)) for a in larger for b in sides))
            share = float(worst / Fraction(declared.l1 or 1))
            yield "a noisy average", share <= 1
            yield "a noisy average, far less than declared", share >= 0.99
