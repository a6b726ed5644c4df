"""Replay cases: every public way to measure, on neighbours proposed from its structure and by random search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from discreet.audit.neighbours import Pair, column_pairs, numeric_candidates
from discreet.audit.replay import ReplayAudit, audit_replay, coordinate_changes
from discreet.contract.mechanism import Mechanism
from discreet.core.exact import Exact
from discreet.core.guarantee import PureDP
from discreet.core.protection import Neighbours, Protection
from discreet.core.schema import Bounds
from discreet.core.sensitivity import Sensitivity
from discreet.ledgers import Ledger
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.choices.quantile_choice import QuantileChoice
from discreet.mechanisms.laplace import Laplace
from discreet.questions.clusters.box import Box, cluster_totals
from discreet.questions.count import Count
from discreet.questions.covariance import Covariance
from discreet.questions.covariance_matrix import CovarianceMatrix
from discreet.questions.mean import Mean
from discreet.questions.mode import Mode
from discreet.questions.noisy_average import NoisyAverage
from discreet.questions.parts import MeanAndVarianceInParts, MeanInParts
from discreet.questions.pooled import PooledCovariance, PooledVariance
from discreet.questions.proportion import Proportion
from discreet.questions.proportion_vector import ProportionVector
from discreet.questions.quantile import Quantiles
from discreet.questions.sum import Sum, SumAndCount
from discreet.questions.table import ContingencyTable
from discreet.questions.variance import Variance
from discreet.releases import release

__all__ = ["ReplayCase", "replay_cases"]

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
_ROWS = 5


@dataclass(frozen=True)
class ReplayCase:
    """A way to measure, with neighbours.

    Attributes
    ----------
    name
        What is measured, under which neighbours.
    measure
        From data to `Exact`.
    pairs
        Makes neighbouring data sets.
    mechanism
        Protects the value, so that the path of a whole release can be compared.
    changes
        How far apart two values are, where that is not the change of their coordinates.
    """

    name: str
    measure: Callable[[Any], Exact]
    pairs: Callable[[], Iterator[Pair]]
    mechanism: Callable[[Exact], Mechanism]
    changes: Callable[[Exact, Exact], list[Fraction] | None] = coordinate_changes

    def audit(self, pairs: int) -> ReplayAudit:
        """Replay at most so many pairs."""

        def draw(exact: Exact) -> Any:
            budget = PureDP(100.0)
            ledger = Ledger(":memory:", budget, neighbours=exact.neighbours, unit=exact.unit)
            return release(exact, self.mechanism(exact), ledger=ledger)

        return audit_replay(self.measure, islice(self.pairs(), pairs), draw=draw, changes=self.changes)


def replay_cases() -> Iterator[ReplayCase]:
    """Every statistic under both neighbour relations where it has both, and a step of clustering; the pipeline audit
    replays sessions, models and comparisons.
    """
    for neighbours in (ADD, REPLACE):
        yield from _columns(neighbours)
        yield from _labels(neighbours)
        yield from _several_columns(neighbours)
        yield _quantile(neighbours)
    yield _lloyd()


def _laplace(exact: Exact) -> Mechanism:
    return Laplace.calibrate(PureDP(1.0), exact.sensitivity)


def _case(
    statistic: Any, neighbours: Neighbours, candidates: list[Any], prepare: Callable[[Any], Any] = lambda rows: rows
) -> ReplayCase:
    mechanism: Callable[[Exact], Mechanism] = _laplace
    if isinstance(statistic, Mode):
        mechanism = lambda exact: ExponentialMechanism.calibrate(PureDP(1.0), exact.sensitivity)  # noqa: E731

    def measure(rows: Any) -> Exact:
        data = prepare(rows)
        if not _divides(statistic) or neighbours is REPLACE:
            exact: Exact = statistic.exact(data, neighbours=neighbours)
            return exact
        # The declared number of rows sets the noise; a neighbour's own rows may be one more.
        sized = statistic.of_size(_ROWS)
        sensitivity = sized.sensitivity(neighbours=neighbours)
        return Exact(statistic.value(data), sensitivity, Protection(neighbours=neighbours), sized, {"n": _ROWS})

    name = f"{statistic.name}, {neighbours.value.replace('_', '/')}"
    return ReplayCase(name, measure, lambda: column_pairs(candidates, _ROWS, neighbours), mechanism)


def _divides(statistic: Any) -> bool:
    return hasattr(statistic, "of_size")


def _columns(neighbours: Neighbours) -> Iterator[ReplayCase]:
    numbers = numeric_candidates(1.0, 3.0, (2.5,))
    bounds = (1.0, 3.0)
    statistics: list[Any] = [Sum(bounds=bounds), SumAndCount(bounds=bounds), NoisyAverage(bounds=bounds)]
    statistics += [Mean(bounds=bounds), Variance(bounds=bounds)]
    statistics += [MeanInParts(bounds=bounds), MeanAndVarianceInParts(bounds=bounds)]
    for statistic in statistics:
        yield _case(statistic, neighbours, numbers)
    yield _case(Count(), neighbours, [True, False])
    yield _case(Proportion(), neighbours, [True, False])


def _labels(neighbours: Neighbours) -> Iterator[ReplayCase]:
    letters = ["a", "b", "c"]
    yield _case(Mode(categories=("a", "b", "c")), neighbours, letters)
    table = ContingencyTable({"letter": letters})
    yield _case(table, neighbours, letters, lambda rows: {"letter": rows})
    if neighbours is REPLACE:
        yield _case(ProportionVector(categories=("a", "b", "c")), neighbours, letters)
    else:
        yield _case(ProportionVector(categories=("a", "b", "c"), n=_ROWS), neighbours, letters)


def _several_columns(neighbours: Neighbours) -> Iterator[ReplayCase]:
    corners = [(a, b) for a in (0.0, 1.0) for b in (0.0, 1.0)]
    square = ((0, 1), (0, 1))
    yield _case(Covariance(bounds=square), neighbours, corners, np.array)
    yield _case(CovarianceMatrix(bounds=square), neighbours, corners, np.array)
    cells = [(a, b, cell) for a, b in corners for cell in (0, 1)]
    pooled = PooledCovariance(bounds=square, cells=(0, 1))
    yield _case(pooled, neighbours, cells, lambda rows: tuple(map(np.array, zip(*rows, strict=True))))
    points = [(float(a), cell) for a in (0, 1) for cell in (0, 1)]
    single = PooledVariance(bounds=(0, 1), cells=(0, 1))
    yield _case(single, neighbours, points, lambda rows: tuple(map(np.array, zip(*rows, strict=True))))


def _quantile(neighbours: Neighbours) -> ReplayCase:
    """What must not move by more than declared is the rank distance of every grid point."""
    statistic = Quantiles(probabilities=0.3, bounds=Bounds(0, 6, grid=1))
    declared = statistic.sensitivity(neighbours=neighbours)
    unit = QuantileChoice.calibrate(PureDP(1.0), declared, statistic=statistic)

    def changes(first: Exact, second: Exact) -> list[Fraction] | None:
        here, there = (_distances(np.asarray(exact.value), 0, 6, Fraction(3, 10)) for exact in (first, second))
        return [max(abs(a - b) for a, b in zip(here, there, strict=True))]

    return ReplayCase(
        f"quantiles, {neighbours.value.replace('_', '/')}",
        lambda rows: statistic.exact(rows, neighbours=neighbours),
        lambda: column_pairs([0, 2, 3, 6, 9, -1], _ROWS, neighbours),
        lambda exact: unit,
        changes,
    )


def _distances(histogram: Any, lowest: int, highest: int, share: Fraction) -> list[Fraction]:
    """How many ranks every grid point is from the target: written down again from the definition."""
    steps, counts = histogram
    target = share * int(counts.sum())
    found = []
    for point in range(lowest, highest + 1):
        below = int(counts[steps < point].sum()) if point > lowest else min(0, int(target))
        upto = int(counts[steps <= point].sum()) if point < highest else max(int(counts.sum()), int(target) + 1)
        found.append(max(Fraction(0), below - target, target - upto))
    return found


def _lloyd() -> ReplayCase:
    """One iteration of DPLloyd: sums and counts of all clusters around public centres."""
    box = Box(((0, 1), (0, 1)))
    centres = np.array([[-0.5, -0.5], [0.5, 0.5]])

    def measure(rows: Any) -> Exact:
        sums, counts = cluster_totals(box.cells(np.array(rows)), centres)
        value = np.concatenate([np.ravel(sums), np.ravel(counts)])
        return Exact(value, Sensitivity(moves=(1.0, 1.0, 1.0)))

    corners = [(a, b) for a in (0.0, 0.5, 1.0, 7.0) for b in (0.0, 0.4999, 1.0)]
    return ReplayCase("one step of DPLloyd", measure, lambda: column_pairs(corners, _ROWS, ADD), _laplace)
