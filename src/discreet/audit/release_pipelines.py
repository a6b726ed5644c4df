"""Release pipelines: every statistic through `discreet.release`, and every mechanism on a statistic that suits it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from discreet.audit.pipeline import Pipeline
from discreet.audit.worlds import row_world
from discreet.contract.mechanism import Mechanism
from discreet.core.exact import Exact
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds
from discreet.core.sensitivity import Sensitivity
from discreet.inference.multiple_synthesis import MultipleSynthesis
from discreet.ledgers import Ledger
from discreet.mechanisms.bounded.boundary_inflated import BoundaryInflatedLaplace
from discreet.mechanisms.bounded.bounded_covariance import BoundedCovariance
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.mechanisms.bounded.bounded_proportions import BoundedProportions
from discreet.mechanisms.bounded.tied_pair import TiedPair
from discreet.mechanisms.box_noise import BoxNoise
from discreet.mechanisms.choices.exponential_mechanism import ExponentialMechanism
from discreet.mechanisms.choices.noisy_max import ReportNoisyMax
from discreet.mechanisms.choices.permute_and_flip import PermuteAndFlip
from discreet.mechanisms.choices.quantile_choice import QuantileChoice
from discreet.mechanisms.choices.quantile_interval import QuantileInterval
from discreet.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.mechanisms.gaussian import Gaussian
from discreet.mechanisms.generalized_gaussian import GeneralizedGaussian
from discreet.mechanisms.geometric import Geometric
from discreet.mechanisms.laplace import Laplace
from discreet.mechanisms.tables.clipped import Clipped
from discreet.mechanisms.tables.james_stein import JamesSteinGaussian
from discreet.mechanisms.tables.rank_deficient import RankDeficientGaussian
from discreet.mechanisms.whole_share import share_noise
from discreet.questions.count import Count
from discreet.questions.covariance import Covariance
from discreet.questions.covariance_matrix import CorrelationMatrix, CovarianceMatrix
from discreet.questions.covariances_in_parts import CovariancesInParts
from discreet.questions.mean import Mean
from discreet.questions.means_and_covariances import MeansAndCovariances
from discreet.questions.mode import Mode
from discreet.questions.noisy_average import NoisyAverage
from discreet.questions.parts import MeanAndVarianceInParts, MeanInParts
from discreet.questions.pooled import PooledCovariance, PooledVariance
from discreet.questions.proportion import Proportion
from discreet.questions.proportion_vector import ProportionVector
from discreet.questions.quantile import Quantiles
from discreet.questions.sum import Sum, SumAndCount
from discreet.questions.table import ContingencyTable
from discreet.questions.table_choice import best_table_mechanism
from discreet.questions.variance import StandardDeviation, Variance
from discreet.releases import release

__all__ = ["release_pipelines"]

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
ONE, NORMAL, CONCENTRATED = PureDP(1.0), GaussianDP(1.0), ZeroConcentratedDP(0.5)
LETTERS = ("a", "b", "c")
NUMBERS = [3.0, 1.0, 2.5, 99.0]
CORNERS = [(1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (7.0, -7.0)]
Protect = Callable[[Exact], Mechanism]
Prepare = Callable[[Any], Any]


def release_pipelines() -> Iterator[Pipeline]:
    """Statistics by Laplace noise (or their own choice), under the relations they have; then mechanisms."""
    for neighbours in (ADD, REPLACE):
        for statistic, records, prepare in _statistics(neighbours):
            yield _pipeline(statistic, records, prepare, _laplace, neighbours, ONE)
        for statistic, records, mechanism, protect in _chosen():
            yield _pipeline(statistic, records, _same, protect, neighbours, ONE, mechanism=mechanism)
        yield from _weighed(neighbours)
        products = MeansAndCovariances(bounds=((0, 1), (0, 1)))
        yield _pipeline(products, CORNERS, _matrix, _box, neighbours, ONE, mechanism="BoxNoise, all")
    yield from _tables()
    yield from _choices()
    yield from _bounded()
    yield _pipeline(Proportion(), [True, False], _same, _whole_share, REPLACE, ONE, mechanism="WholeShare")
    yield _generalized()
    yield _synthesis()


def _laplace(exact: Exact) -> Mechanism:
    return Laplace.calibrate(ONE, exact.sensitivity)


def _gaussian(exact: Exact) -> Mechanism:
    return Gaussian.calibrate(NORMAL, exact.sensitivity)


def _box(exact: Exact) -> Mechanism:
    return BoxNoise.calibrate(ONE, exact.sensitivity)


def _whole_share(exact: Exact) -> Mechanism:
    return share_noise(ONE, exact.sensitivity, exact.public["n"])


def _pipeline(
    statistic: Any,
    records: list[Any],
    prepare: Prepare,
    protect: Protect,
    neighbours: Neighbours,
    spent: Guarantee,
    *,
    mechanism: str = "Laplace",
    tight: bool = True,
) -> Pipeline:
    def run(rows: Any, ledger: Ledger) -> Any:
        exact = statistic.exact(prepare(rows), neighbours=neighbours)
        return release(exact, protect(exact), ledger=ledger, request="r")

    name = f"{type(statistic).__name__} by {mechanism}, {neighbours.value.replace('_', '/')}"
    covers = ("release", "Exact", type(statistic).__name__, mechanism.split(",")[0])
    loose = isinstance(statistic, Mode | Quantiles | PooledCovariance | MeansAndCovariances)
    world = row_world(records, most=3, neighbours=neighbours)
    return Pipeline(name, run, world, spent, covers, tight=tight and not loose, repeats=True)


def _same(rows: Any) -> Any:
    return rows


def _matrix(rows: Any) -> Any:
    return np.array(rows, dtype=float).reshape(-1, 2)


def _columns(rows: Any) -> Any:
    return tuple(map(np.array, zip(*rows, strict=True)))


def _statistics(neighbours: Neighbours) -> Iterator[tuple[Any, list[Any], Prepare]]:
    ends = (1.0, 3.0)
    for statistic in (
        Sum(bounds=ends),
        SumAndCount(bounds=ends),
        NoisyAverage(bounds=ends),
        MeanInParts(bounds=ends),
        MeanAndVarianceInParts(bounds=ends),
    ):
        yield statistic, NUMBERS, _same
    yield Count(), [True, False], _same
    yield ContingencyTable({"letter": list(LETTERS)}), list(LETTERS), lambda rows: {"letter": rows}
    square = ((0, 1), (0, 1))
    yield MeansAndCovariances(bounds=square), CORNERS, _matrix
    yield CovariancesInParts(bounds=square, degrees=(2, 1)), CORNERS, _matrix
    if neighbours is ADD:
        return
    for public in (Mean(bounds=ends), Variance(bounds=ends), StandardDeviation(bounds=ends)):
        yield public, NUMBERS, _same
    yield Proportion(), [True, False], _same
    yield ProportionVector(categories=LETTERS), list(LETTERS), _same
    for pairs in (Covariance(bounds=square), CovarianceMatrix(bounds=square), CorrelationMatrix(bounds=square)):
        yield pairs, CORNERS, _matrix
    cells = [(*corner, cell) for corner in CORNERS[:3] for cell in (0, 1)]
    yield PooledCovariance(bounds=square, cells=(0, 1)), cells, _columns
    points = [(a, cell) for a in (1.0, 0.0) for cell in (0, 1)]
    yield PooledVariance(bounds=(0, 1), cells=(0, 1)), points, _columns


def _weighed(neighbours: Neighbours) -> Iterator[Pipeline]:
    """Parts with weights, which are made for Gaussian noise."""
    mean = MeanAndVarianceInParts(bounds=(1.0, 3.0), weighed=True)
    pair = CovariancesInParts(bounds=((0, 1), (0, 1)), degrees=(4, 2), weighed=True)
    for statistic, records, prepare in ((mean, NUMBERS, _same), (pair, CORNERS, _matrix)):
        yield _pipeline(statistic, records, prepare, _gaussian, neighbours, NORMAL, mechanism="Gaussian, weighed")


def _chosen() -> Iterator[tuple[Any, list[Any], str, Protect]]:
    """Statistics that are choices."""
    yield Mode(categories=LETTERS), list(LETTERS), "ExponentialMechanism", _sharpest(ExponentialMechanism)
    for probabilities, recursive in ((0.5, False), ((0.25, 0.5, 0.75), True)):
        ranks = Quantiles(probabilities=probabilities, bounds=Bounds(0, 4, grid=1), recursive=recursive)
        name = "QuantileChoice" + (", recursive" if recursive else "")
        yield ranks, [4.0, 0.0, 1.0, 99.0], name, _sharpest(QuantileChoice, statistic=ranks)
    around = Quantiles(probabilities=0.5, bounds=Bounds(0, 4, grid=1), interval=0.9)
    yield around, [4.0, 0.0, 1.0, 99.0], "QuantileInterval", _sharpest(QuantileInterval, statistic=around)


def _tables() -> Iterator[Pipeline]:
    """Post-processed tables: what is published follows from the noisy cells and from public facts."""
    table = ContingencyTable({"letter": list(LETTERS)})
    best = best_table_mechanism(NORMAL, table, neighbours=REPLACE, n=3, integers=True).mechanism
    simplex: dict[str, Any] = {"kind": Gaussian, "clip": "simplex", "rank_deficient": True}
    made: dict[str, tuple[Neighbours, Guarantee, Protect]] = {
        "Geometric": (ADD, ONE, lambda exact: Geometric.calibrate(ONE, exact.sensitivity)),
        "BoxNoise": (ADD, ONE, _box),
        "Gaussian": (ADD, NORMAL, _gaussian),
        "DiscreteGaussian": (
            ADD, CONCENTRATED, lambda exact: DiscreteGaussian.calibrate(CONCENTRATED, exact.sensitivity),
        ),
        "RankDeficientGaussian": (
            REPLACE, NORMAL, lambda exact: RankDeficientGaussian.calibrate(NORMAL, exact.sensitivity),
        ),
        "JamesSteinGaussian": (ADD, NORMAL, lambda exact: JamesSteinGaussian.calibrate(NORMAL, exact.sensitivity)),
        "Clipped": (ADD, ONE, lambda exact: Clipped.calibrate(ONE, exact.sensitivity, kind=Laplace)),
        "Clipped, simplex": (
            REPLACE, NORMAL, lambda exact: Clipped.calibrate(NORMAL, exact.sensitivity, **simplex),
        ),
        "Clipped, rectangle": (
            ADD, ONE, lambda exact: Clipped.calibrate(ONE, exact.sensitivity, kind=Laplace, clip="box", box=((0, 3),)),
        ),
        "JamesSteinGaussian, constraints": (
            REPLACE, NORMAL, lambda exact: JamesSteinGaussian.calibrate(
                NORMAL, exact.sensitivity, rank_deficient=True, constraints=((1, 1, 1),), values=(3,),
            ),
        ),
        "best_table_mechanism": (REPLACE, NORMAL, lambda exact: best),
    }  # fmt: skip
    for name, (neighbours, spent, protect) in made.items():
        # δ that follows from ρ is not tight, whatever the mechanism; a case of the catalogue compares the exact curve.
        tight = spent is not CONCENTRATED
        yield _pipeline(table, list(LETTERS), _lettered, protect, neighbours, spent, mechanism=name, tight=tight)


def _lettered(rows: Any) -> Any:
    return {"letter": rows}


def _sharpest(kind: Any, **options: Any) -> Protect:
    return lambda exact: kind.calibrate(ONE, exact.sensitivity, **options)


def _choices() -> Iterator[Pipeline]:
    mode = Mode(categories=LETTERS)
    kinds: dict[str, Protect] = {
        "PermuteAndFlip": _sharpest(PermuteAndFlip),
        "ReportNoisyMax": _sharpest(ReportNoisyMax),
        "ReportNoisyMax, exponential": _sharpest(ReportNoisyMax, noise="exponential"),
    }
    for name, protect in kinds.items():
        for neighbours in (ADD, REPLACE):
            yield _pipeline(mode, list(LETTERS), _same, protect, neighbours, ONE, mechanism=name)


def _bounded() -> Iterator[Pipeline]:
    """Noise with public bounds; the worst truths are at a bound, and vectors are charged for all coordinates."""
    mean, shares = Mean(bounds=(0, 1)), ProportionVector(categories=LETTERS)
    for kind in (BoundedLaplace, BoundaryInflatedLaplace):
        protect = _sharpest(kind, bounds=(0, 1))
        yield _pipeline(mean, [0.0, 1.0, 0.5], _same, protect, REPLACE, ONE, mechanism=kind.__name__)
    for method in ("simplex", "rescale", "all_but_one", "universal_histogram"):
        protect = _sharpest(BoundedProportions, method=method)
        name = f"BoundedProportions, {method}"
        yield _pipeline(shares, list(LETTERS), _same, protect, REPLACE, ONE, mechanism=name, tight=False)
    pair = Sensitivity(l1=0.4)

    def tied(rows: Any, ledger: Ledger) -> Any:
        share = rows.count("a") / 5
        mechanism = TiedPair.calibrate(ONE, pair, bounds=((0, 1), (0, 1)), total=1.0)
        return release(Exact([share, 1 - share], pair), mechanism, ledger=ledger, request="r")

    yield Pipeline("TiedPair", tied, row_world(["a", "b"], most=3), ONE, ("TiedPair",), repeats=True)
    matrix = CovarianceMatrix(bounds=((0, 1), (0, 1)), n=3)
    changes = tuple(float(change) for change in matrix.coordinate_sensitivities(neighbours=REPLACE))
    protect = _sharpest(BoundedCovariance, changes=changes, variance_bounds=((0, 0.375), (0, 0.375)))
    yield _pipeline(matrix, CORNERS, _matrix, protect, REPLACE, ONE, mechanism="BoundedCovariance", tight=False)


def _generalized() -> Pipeline:
    """Noise that has (ε, δ)-DP guarantees only."""
    spent, count = ApproxDP(1.0, 0.01), Count()

    def run(rows: Any, ledger: Ledger) -> Any:
        exact = count.exact(rows, neighbours=ADD)
        mechanism = GeneralizedGaussian.calibrate(spent, exact.sensitivity, order=4)
        return release(exact, mechanism, guarantee=spent, ledger=ledger, request="r")

    world = row_world([True, False], most=3, neighbours=ADD)
    return Pipeline("Count by GeneralizedGaussian", run, world, spent, ("GeneralizedGaussian",), repeats=True)


def _synthesis() -> Pipeline:
    """One value, released several times."""

    def run(rows: Any, ledger: Ledger) -> Any:
        return MultipleSynthesis(m=3).release(Exact(len(rows), Sensitivity(l1=1.0)), Laplace, ONE, ledger=ledger)

    return Pipeline("MultipleSynthesis", run, row_world(["a"], most=2), ONE, ("MultipleSynthesis",))
