"""Release pipelines: every statistic through `discreet.release`, and every mechanism on a statistic that suits it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import discreet.mechanisms as m
import discreet.questions as q
from discreet.audit.pipeline import Pipeline, World, arrow_table, row_world, unit_world
from discreet.audit.report import refused
from discreet.audit.session_pipelines import COLUMNS, PEOPLE, opened, table_of
from discreet.core.errors import DiscreetError
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.protection import Neighbours, Unit
from discreet.core.schema import Bands, Bounds, Categories, Contribution, PrivacyUnit, Related, Schema
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.inference.two_sample import MultipleSynthesis
from discreet.mechanisms.mechanism import Mechanism
from discreet.mechanisms.whole_share import share_noise
from discreet.questions import asked
from discreet.questions.clusters.kmedian import KMedian
from discreet.questions.clusters.lloyd import DPLloyd
from discreet.questions.comparison.paper import PaperMethod
from discreet.questions.formulas import Formula
from discreet.questions.moments import BernsteinMoments
from discreet.results.ledger import Ledger
from discreet.results.release import release
from discreet.session import Session

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
ONE = PureDP(1.0)
NORMAL = GaussianDP(1.0)
CONCENTRATED = ZeroConcentratedDP(0.5)
LETTERS = ("a", "b", "c")
NUMBERS = [3.0, 1.0, 2.5, 99.0]
CORNERS = [(1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (7.0, -7.0)]
Protect = Callable[[Exact], Mechanism]
Prepare = Callable[[Any], Any]


def release_pipelines() -> Iterator[Pipeline]:
    """Statistics by Laplace noise (or their own choice), under the relations they have; then mechanisms."""
    for neighbours in (ADD, REPLACE):
        for statistic, records, prepare in statistics(neighbours):
            yield _pipeline(statistic, records, prepare, _laplace, neighbours, ONE)
        for statistic, records, mechanism, protect in _chosen():
            yield _pipeline(statistic, records, _same, protect, neighbours, ONE, mechanism=mechanism)
        yield from _weighed(neighbours)
        products = q.MeansAndCovariances(bounds=((0, 1), (0, 1)))
        yield _pipeline(products, CORNERS, _matrix, _box, neighbours, ONE, mechanism="BoxNoise, all")
    yield from _tables()
    yield from _choices()
    yield from _bounded()
    yield _pipeline(q.Proportion(), [True, False], _same, _whole_share, REPLACE, ONE, mechanism="WholeShare")
    yield _generalized()
    yield _synthesis()


def _sharpest(mechanism: Any, spent: Guarantee = ONE, **options: Any) -> Protect:
    """The sharpest mechanism of a kind that a guarantee allows."""
    return lambda exact: mechanism.calibrate(spent, exact.sensitivity, **options)


_laplace = _sharpest(m.Laplace)
_gaussian = _sharpest(m.Gaussian, NORMAL)
_box = _sharpest(m.BoxNoise)


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
        return release(exact, protect(exact), ledger=ledger, name="r")

    degrees = f" of degrees {statistic.degrees}" if hasattr(statistic, "degrees") else ""
    kind = public_name(statistic)
    name = f"{kind}{degrees} by {mechanism}, {neighbours.value.replace('_', '/')}"
    covers = ("release", "Exact", kind, mechanism.split(",")[0])
    loose = kind in ("Mode", "Quantiles", "PooledCovariance", "PooledVariance", "MeansAndCovariances")
    world = row_world(records, most=3, neighbours=neighbours)
    return Pipeline(name, run, world, spent, covers, tight=tight and not loose, repeats=True)


def public_name(statistic: Any) -> str:
    """The name that a statistic is made by: of a class with several kinds, the name of its kind."""
    made = type(statistic).__name__
    return statistic.name.title().replace("_", "") if "kinds" in vars(type(statistic)) else made


def _same(rows: Any) -> Any:
    return rows


def _matrix(rows: Any) -> Any:
    return np.array(rows, dtype=float).reshape(-1, 2)


def _columns(rows: Any) -> Any:
    return tuple(map(np.array, zip(*rows, strict=True)))


def statistics(neighbours: Neighbours) -> Iterator[tuple[Any, list[Any], Prepare]]:
    """Every statistic of the relation, with records of which data sets are made, and how they are passed to it."""
    ends = (1.0, 3.0)
    for statistic in (
        q.Sum(bounds=ends),
        q.NoisyAverage(bounds=ends),
        BernsteinMoments(bounds=(ends,), degrees=(1,)),
        BernsteinMoments(bounds=(ends,), degrees=(4,)),
    ):
        yield statistic, NUMBERS, _same
    yield q.Count(), [True, False], _same
    yield q.ContingencyTable({"letter": list(LETTERS)}), list(LETTERS), lambda rows: {"letter": rows}
    square = ((0, 1), (0, 1))
    yield q.MeansAndCovariances(bounds=square), CORNERS, _matrix
    yield BernsteinMoments(of="covariances", bounds=square, degrees=(2, 1)), CORNERS, _matrix
    if neighbours is ADD:
        return
    for public in (q.Mean(bounds=ends), q.Variance(bounds=ends), q.StandardDeviation(bounds=ends)):
        yield public, NUMBERS, _same
    yield q.Proportion(), [True, False], _same
    yield q.ProportionVector(categories=LETTERS), list(LETTERS), _same
    for pairs in (q.Covariance(bounds=square), q.CovarianceMatrix(bounds=square), q.CorrelationMatrix(bounds=square)):
        yield pairs, CORNERS, _matrix
    cells = [(*corner, cell) for corner in CORNERS[:3] for cell in (0, 1)]
    yield q.PooledCovariance(bounds=square, cells=(0, 1)), cells, _columns
    points = [(a, cell) for a in (1.0, 0.0) for cell in (0, 1)]
    yield q.PooledVariance(bounds=(0, 1), cells=(0, 1)), points, _columns


def _weighed(neighbours: Neighbours) -> Iterator[Pipeline]:
    """Parts with weights, which are made for Gaussian noise."""
    mean = BernsteinMoments(bounds=((1.0, 3.0),), degrees=(4,), weighed=True)
    pair = BernsteinMoments(of="covariances", bounds=((0, 1), (0, 1)), degrees=(4, 2), weighed=True)
    for statistic, records, prepare in ((mean, NUMBERS, _same), (pair, CORNERS, _matrix)):
        yield _pipeline(statistic, records, prepare, _gaussian, neighbours, NORMAL, mechanism="Gaussian, weighed")


def _chosen() -> Iterator[tuple[Any, list[Any], str, Protect]]:
    """Statistics that are choices."""
    yield q.Mode(categories=LETTERS), list(LETTERS), "ExponentialMechanism", _sharpest(m.ExponentialMechanism)
    for probabilities, recursive in ((0.5, False), ((0.25, 0.5, 0.75), True)):
        ranks = q.Quantiles(probabilities=probabilities, bounds=Bounds(0, 4, grid=1), recursive=recursive)
        name = "QuantileChoice" + (", recursive" if recursive else "")
        yield ranks, [4.0, 0.0, 1.0, 99.0], name, _sharpest(m.QuantileChoice, statistic=ranks)
    around = q.Quantiles(probabilities=0.5, bounds=Bounds(0, 4, grid=1), interval=0.9)
    for high, how in ((4, ""), (40, ", in rounds")):
        counted = replace(around, bounds=Bounds(0, high, grid=1))
        yield counted, [4.0, 0.0, 1.0, 99.0], f"NestedCounts{how}", _sharpest(m.NestedCounts, statistic=counted)


def _tables() -> Iterator[Pipeline]:
    """Post-processed tables: what is published follows from the noisy cells and from public facts."""
    table = q.ContingencyTable({"letter": list(LETTERS)})
    best = q.best_table_mechanism(NORMAL, table, neighbours=REPLACE, n=3, integers=True).mechanism
    simplex: dict[str, Any] = {"kind": m.Gaussian, "clip": "simplex", "rank_deficient": True}
    rank, shrunk, kept = m.RankDeficientGaussian, m.JamesSteinGaussian, {"rank_deficient": True}
    public = {"constraints": ((1, 1, 1),), "values": (3,)}
    made: dict[str, tuple[Neighbours, Guarantee, Protect]] = {
        "Geometric": (ADD, ONE, _sharpest(m.Geometric)),
        "Staircase": (ADD, ONE, _sharpest(m.Staircase)),
        "BoxNoise": (ADD, ONE, _box),
        "Gaussian": (ADD, NORMAL, _gaussian),
        "DiscreteGaussian": (ADD, CONCENTRATED, _sharpest(m.DiscreteGaussian, CONCENTRATED)),
        "RankDeficientGaussian": (REPLACE, NORMAL, _sharpest(rank, NORMAL)),
        "JamesSteinGaussian": (ADD, NORMAL, _sharpest(shrunk, NORMAL)),
        "Clipped": (ADD, ONE, _sharpest(m.Clipped, kind=m.Laplace)),
        "Clipped, simplex": (REPLACE, NORMAL, _sharpest(m.Clipped, NORMAL, **simplex)),
        "Clipped, rectangle": (ADD, ONE, _sharpest(m.Clipped, kind=m.Laplace, clip="box", box=((0, 3),))),
        "JamesSteinGaussian, constraints": (REPLACE, NORMAL, _sharpest(shrunk, NORMAL, **kept, **public)),
        "best_table_mechanism": (REPLACE, NORMAL, lambda exact: best),
        "RankDeficientGaussian, total": (REPLACE, NORMAL, _sharpest(rank, NORMAL, total=3)),
        "JamesSteinGaussian, total": (REPLACE, NORMAL, _sharpest(shrunk, NORMAL, **kept, total=3)),
        "Clipped, simplex, total": (REPLACE, NORMAL, _sharpest(m.Clipped, NORMAL, total=3, **simplex)),
    }
    facts = table.exact(_lettered(LETTERS), neighbours=ADD)
    for name, (relation, spent, protect) in made.items():
        # δ that follows from ρ is not tight, whatever the mechanism; a case of the catalogue compares the exact curve.
        tight = spent is not CONCENTRATED
        yield _pipeline(table, list(LETTERS), _lettered, protect, relation, spent, mechanism=name, tight=tight)
        # A total that is declared is public, whatever the data adds up to: it must not be replaced by theirs.
        if relation is REPLACE and not refused(partial(_checked, protect, facts)):
            yield _pipeline(table, list(LETTERS), _lettered, protect, ADD, spent, mechanism=name, tight=False)
    for neighbours, most in product((ADD, REPLACE), (2, 3)):
        yield _of_units(table, neighbours, most)


def _checked(protect: Protect, exact: Exact) -> None:
    protect(exact).check(exact)


def _of_units(statistic: Any, neighbours: Neighbours, most: int) -> Pipeline:
    """People with up to so many rows, one of whom may be replaced by somebody with fewer: the total moves."""

    def run(rows: Any, ledger: Ledger) -> Any:
        data = _lettered([row["letter"] for row in rows])
        exact = statistic.exact(data, neighbours=neighbours, unit=Unit("person"), rows_per_unit=most)
        return release(exact, _laplace(exact), ledger=ledger, name="r")

    units = [[{"letter": letter}] * count for letter, count in (("a", most), ("b", most), ("b", 1), ("c", 0))]
    world = unit_world(units, most=2, neighbours=neighbours)
    name = f"{type(statistic).__name__}, {most} rows per person, {neighbours.value.replace('_', '/')}"
    return Pipeline(name, run, world, ONE, (type(statistic).__name__,), tight=False, repeats=True)


def _lettered(rows: Any) -> Any:
    return {"letter": rows}


def _choices() -> Iterator[Pipeline]:
    mode = q.Mode(categories=LETTERS)
    kinds: dict[str, Protect] = {
        "PermuteAndFlip": _sharpest(m.PermuteAndFlip),
        "ReportNoisyMax": _sharpest(m.ReportNoisyMax),
        "ReportNoisyMax, exponential": _sharpest(m.ReportNoisyMax, noise="exponential"),
    }
    for name, protect in kinds.items():
        for neighbours in (ADD, REPLACE):
            yield _pipeline(mode, list(LETTERS), _same, protect, neighbours, ONE, mechanism=name)


def _bounded() -> Iterator[Pipeline]:
    """Noise with public bounds; the worst truths are at a bound, and vectors are charged for all coordinates."""
    mean = q.Mean(bounds=(0, 1))
    shares = q.ProportionVector(categories=LETTERS)
    for kind in (m.BoundedLaplace, m.BoundaryInflatedLaplace):
        protect = _sharpest(kind, bounds=(0, 1))
        yield _pipeline(mean, [0.0, 1.0, 0.5], _same, protect, REPLACE, ONE, mechanism=kind.__name__)
    protect = _sharpest(m.BoundedGaussian, NORMAL, bounds=(0, 1))
    yield _pipeline(mean, [0.0, 1.0, 0.5], _same, protect, REPLACE, NORMAL, mechanism="BoundedGaussian", tight=False)
    for method in ("simplex", "rescale", "all_but_one", "universal_histogram"):
        protect = _sharpest(m.BoundedProportions, method=method)
        name = f"BoundedProportions, {method}"
        yield _pipeline(shares, list(LETTERS), _same, protect, REPLACE, ONE, mechanism=name, tight=False)
    pair = Sensitivity(l1=0.4)

    def tied(rows: Any, ledger: Ledger) -> Any:
        share = rows.count("a") / 5
        mechanism = m.TiedPair.calibrate(ONE, pair, bounds=((0, 1), (0, 1)), total=1.0)
        return release(Exact([share, 1 - share], pair), mechanism, ledger=ledger, name="r")

    yield Pipeline("TiedPair", tied, row_world(["a", "b"], most=3), ONE, ("TiedPair",), repeats=True)
    matrix = q.CovarianceMatrix(bounds=((0, 1), (0, 1)), n=3)
    changes = tuple(float(change) for change in matrix.coordinate_sensitivities(neighbours=REPLACE))
    protect = _sharpest(m.BoundedCovariance, changes=changes, variance_bounds=((0, 0.375), (0, 0.375)))
    yield _pipeline(matrix, CORNERS, _matrix, protect, REPLACE, ONE, mechanism="BoundedCovariance", tight=False)


def _generalized() -> Pipeline:
    """Noise that has (ε, δ)-DP guarantees only."""
    spent, count = ApproxDP(1.0, 0.01), q.Count()

    def run(rows: Any, ledger: Ledger) -> Any:
        exact = count.exact(rows, neighbours=ADD)
        mechanism = m.GeneralizedGaussian.calibrate(spent, exact.sensitivity, order=4)
        return release(exact, mechanism, guarantee=spent, ledger=ledger, name="r")

    world = row_world([True, False], most=3, neighbours=ADD)
    return Pipeline("Count by GeneralizedGaussian", run, world, spent, ("GeneralizedGaussian",), repeats=True)


def _synthesis() -> Pipeline:
    """One value, released several times."""

    def run(rows: Any, ledger: Ledger) -> Any:
        return MultipleSynthesis(m=3).release(Exact(len(rows), Sensitivity(l1=1.0)), m.Laplace, ONE, ledger=ledger)

    return Pipeline("MultipleSynthesis", run, row_world(["a"], most=2), ONE, ("MultipleSynthesis",))


# ---- Model pipelines: clusters, classifiers and comparisons, from a few rows to what is published.


PAPER_METHODS = (
    "2S", "4S", "4SDD", "6S", "6SDD", "winsorized", "trimmed", "winsorized6", "trimmed6", "winsorized6DD", "trimmed6DD",
    "winsorizedDD", "trimmedDD",
    "naive", "naiveDD", "naive5", "naive5DD",
)  # fmt: skip
"""liu2023's methods in their certified form; "original" is not private, and refused on real data."""


def model_pipelines() -> Iterator[Pipeline]:
    """Every model and every comparison."""
    yield from _clusters()
    yield from _classifiers()
    yield from _comparisons()
    yield from _arms()


def _points(rows: Any) -> Any:
    return np.array(rows, dtype=float).reshape(-1, 2)


def _clusters() -> Iterator[Pipeline]:
    world = row_world([(1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (7.0, -7.0)], most=3)
    settings: list[tuple[str, Guarantee, dict[str, Any]]] = [
        ("one step", ONE, {"iterations": 1}),
        ("three steps", ONE, {"iterations": 3}),
        ("three steps, GaussianDP", GaussianDP(1.0), {"iterations": 3}),
        ("three steps, ApproxDP", ApproxDP(1.0, 0.01), {"iterations": 3}),
        ("as published", ONE, {"iterations": 2, "as_published": True}),
    ]
    for name, spent, options in settings:

        def lloyd(rows: Any, ledger: Ledger, spent: Any = spent, options: Any = options) -> Any:
            model = DPLloyd(2, guarantee=spent, bounds=((0, 1), (0, 1)), **options)
            model.fit(_points(rows), ledger=ledger)
            return [model.cluster_centers_, model.counts_, model.guarantee_]

        # As published, the count of a coordinate is not weighted: the worst rows are inside.
        yield Pipeline(f"DPLloyd, {name}", lloyd, world, spent, ("DPLloyd",))
    universe = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]
    few = row_world([(1.0, 1.0), (0.0, 0.0), (5.0, 0.2)], most=2)
    for name, spent, clusters, options in (
        ("one centre, two swaps", ONE, 1, {"swaps": 2}),
        ("two centres", ONE, 2, {"swaps": 1}),
        ("one centre, zCDP", ZeroConcentratedDP(0.5), 1, {"swaps": 2}),
        ("as published", ONE, 1, {"swaps": 2, "as_published": True}),
    ):

        def median(rows: Any, ledger: Ledger, spent: Any = spent, k: int = clusters, options: Any = options) -> Any:
            model = KMedian(k, guarantee=spent, universe=universe, **options)
            return model.fit(_points(rows), ledger=ledger).center_indices_

        yield Pipeline(f"KMedian, {name}", median, few, spent, ("KMedian",), tight=False, all_paths=True)


def _classifiers() -> Iterator[Pipeline]:
    records = [(1.0, "a"), (0.0, "b"), (0.0, "a"), (99.0, "b")]
    settings: list[tuple[str, Guarantee, dict[str, Any]]] = [
        ("", ONE, {}),
        (", GaussianDP", GaussianDP(1.0), {}),
        (", as published", ONE, {"variance_mechanism": m.BoundedLaplace}),
    ]
    for neighbours, (way, spent, options) in product((ADD, REPLACE), settings):
        options = {**options, "guarantee": spent, "neighbours": neighbours}

        def bayes(rows: Any, ledger: Ledger, options: Any = options) -> Any:
            model = q.GaussianNaiveBayes(bounds=((0, 1),), classes=("a", "b"), **options)
            values = np.array([[value] for value, _ in rows], dtype=float).reshape(-1, 1)
            model.fit(values, [label for _, label in rows], ledger=ledger)
            return [model.class_count_, model.theta_, model.var_, *model.releases_]

        world = row_world(records, most=2, neighbours=neighbours)
        name = f"GaussianNaiveBayes, {neighbours.value.replace('_', '/')}{way}"
        yield Pipeline(name, bayes, world, spent, ("GaussianNaiveBayes",), quick=neighbours is ADD)


# ---- comparisons ----------------------------------------------------------------------------------------------------

Record = tuple[str, float]
RECORDS: list[Record] = [("t", 1.0), ("t", 0.0), ("t", 0.4), ("t", 9.0)]
BASE: list[Record] = [("t", 0.0), ("t", 1.0), ("c", 0.0), ("c", 1.0), ("c", 0.5)]
"""Units that are always there: sizes of arms that are public must be at least two."""


def _experiments(neighbours: Neighbours, *, private: bool = False) -> World:
    """One unit added, or replaced by another of its arm (of any arm, where that is private)."""
    records = [*RECORDS, ("c", 1.0), ("c", 0.0)] if private or neighbours is ADD else RECORDS
    return row_world(records, most=1, neighbours=neighbours)


def _values_by_arm(rows: Any, arms: tuple[str, ...]) -> dict[str, list[float]]:
    every = [*BASE, *rows]
    return {arm: [value for name, value in every if name == arm] for arm in arms}


def _compared(name: str, spent: Guarantee, world: World, covers: str, tight: bool, **options: Any) -> Pipeline:
    def compare(rows: Any, ledger: Ledger) -> Any:
        columns = _values_by_arm(rows, ("t", "c"))
        return q.compare_means(
            columns["t"], columns["c"], bounds=(0, 1), guarantee=spent, ledger=ledger, neighbours=world.neighbours,
            **options,
        )  # fmt: skip

    return Pipeline(
        f"compare_means, {name}", compare, world, spent, ("compare_means", "MeanDifference", covers), tight=tight
    )


def _comparisons() -> Iterator[Pipeline]:
    replaced, added = _experiments(REPLACE), _experiments(ADD)
    private = _experiments(REPLACE, private=True)
    for spent in (ONE, GaussianDP(1.0), ApproxDP(1.0, 0.01)):
        kind = type(spent).__name__
        for method in ("direct", "noise_aware", "best"):
            covers = f"method {method}"
            options: dict[str, Any] = {"method": method, "partitions": None if method == "direct" else 10}
            # Laplace noise on (Σa, Σa(1 − a)) is tight; κ = 13/4 of the normal one is a handy number below the best.
            tight = method == "direct"
            yield _compared(f"{method}, {kind}, replaced", spent, replaced, covers, tight, **options)
            yield _compared(f"{method}, {kind}, added", spent, added, covers, tight, **options)
            # With δ > 0, Laplace noise is calibrated to one move of 2; a unit that changes arms makes two of 1.
            known = tight and not isinstance(spent, ApproxDP)
            yield _compared(f"{method}, {kind}, private arm", spent, private, covers, known, arm="private", **options)
    for method in PAPER_METHODS:
        for world in (replaced, added):
            how = "replaced" if world is replaced else "added"
            yield _compared(f"{method}, {how}", ONE, world, f"method {method}", False, method=method, partitions=10)
    yield _compared("4S, GaussianDP", GaussianDP(1.0), replaced, "method 4S", False, method="4S", partitions=10)
    placed = PaperMethod(placement="moments")
    yield _compared("4S by moments", ONE, replaced, "method 4S", False, method=placed, partitions=10)


def _arms() -> Iterator[Pipeline]:
    worlds = {"replaced": _experiments(REPLACE), "added": _experiments(ADD)}
    private = {"private arm": _experiments(REPLACE, private=True)}
    for how, world in {**worlds, **private}.items():
        for method in ("direct", "noise_aware"):
            for spent in (ONE, GaussianDP(1.0)):
                options: dict[str, Any] = {"method": method, "partitions": 10 if method == "noise_aware" else None}
                if how == "private arm":
                    options["arm"] = "private"
                run = _arms_run(spent, world, options)
                name = f"compare_arms, {method}, {type(spent).__name__}, {how}"
                yield Pipeline(name, run, world, spent, ("compare_arms",), tight=method == "direct")


def _arms_run(spent: Guarantee, world: World, options: dict[str, Any]) -> Callable[[Any, Ledger], Any]:
    def run(rows: Any, ledger: Ledger) -> Any:
        return q.compare_arms(
            {**_values_by_arm(rows, ("t", "c")), "third": [0.0, 1.0, 1.0]}, bounds=(0, 1), guarantee=spent,
            ledger=ledger, neighbours=world.neighbours, **options,
        )  # fmt: skip

    return run


# ---- Growing pipelines: release, add rows, release again, on one ledger; neighbours differ in all rows of one person.
#
# Rows arrive in waves, some of them late: a period that was released before gets one more. What a person adds later
# must not move what was counted of the same person before, in this table or in a related one, by more than all
# releases together are charged for.


Row = dict[str, Any]
Ask = Callable[[Session, int, Guarantee], Any]
_PERIODS = ("A", "B", "C")


def _row(wave: int, arm: str, x: float = 99.0, y: float = 9.0) -> Row:
    return {"wave": wave, "arm": arm, "x": x, "y": y, "half": "L", "month": arm}


_UNITS = [
    [_row(0, "A")] * 2 + [_row(1, "B")] * 2 + [_row(2, "C")] * 2,
    [_row(1, "B")] * 3 + [_row(2, "C")] * 3,
    [_row(0, "A", -99.0, -9.0)] * 3 + [_row(2, "B", -99.0, -9.0)],
    [_row(2, "C")],
    [_row(0, "A"), _row(1, "A"), _row(1, "B", -99.0, -9.0), _row(2, "C")],
]
_PEOPLE = ((0, 1), (0, 2), (0, 3), (4, 1), (1, 2), (2, 3), (3, 1), (1, 3), (2, 1), (4, 2))
"""Units and ids: which groups a person keeps follows from the id."""
_ONE_EACH = PrivacyUnit("person", contribution=Contribution(total=1))


def growing_pipelines() -> Iterator[Pipeline]:
    """Running totals and questions that are asked again, each wave on the rows that are there."""
    tables = [[{"person": person, **row} for row in _UNITS[unit]] for unit, person in _PEOPLE]
    world = World(([], *tables), tuple((0, place + 1) for place in range(len(tables))), unit="person")
    gaussian = GaussianDP(1.0)
    one = Schema(columns=COLUMNS, unit=_ONE_EACH)

    def total(session: Session, wave: int, spent: Guarantee) -> Any:
        return session.running_total("arm", guarantee=spent, period=_PERIODS[wave])

    def total_of_y(session: Session, wave: int, spent: Guarantee) -> Any:
        return session.running_total("arm", guarantee=spent, period=_PERIODS[wave], column="y")

    def count(session: Session, wave: int, spent: Guarantee) -> Any:
        return session.count(guarantee=spent.split(3)[wave], by="arm", name=f"r{wave}")

    def quantile(session: Session, wave: int, spent: Guarantee) -> Any:
        return session.quantile("x", 0.5, guarantee=spent.split(3)[wave], name=f"r{wave}")

    asked: dict[str, tuple[Ask, Schema, Guarantee]] = {
        "running_total": (total, PEOPLE, gaussian),
        "running_total of y": (total_of_y, PEOPLE, gaussian),
        "count": (count, PEOPLE, PureDP(1.0)),
        "quantile": (quantile, one, PureDP(1.0)),
    }
    for name, (ask, schema, spent) in asked.items():
        yield _growing_pipeline(name, ask, schema, world, spent)
    yield from _joined(world, gaussian)


def _growing_pipeline(name: str, ask: Ask, schema: Schema, world: World, spent: Guarantee) -> Pipeline:
    def run(rows: Sequence[Row], ledger: Ledger) -> Any:
        waves = [[row for row in rows if row["wave"] <= wave] for wave in range(3)]
        return [ask(opened(table_of(some, schema), schema, ledger), n, spent) for n, some in enumerate(waves)]

    return Pipeline(f"growing.{name}", run, world, spent, (f"Session.{name.split(',')[0].split(' ')[0]}",), tight=False)


def _joined(world: World, spent: Guarantee) -> Iterator[Pipeline]:
    """Periods, and rows that are chosen, from a table that grows beside the first one."""
    month = Categories(_PERIODS)
    visits = Related(id="who", rows=1, columns={"month": month})
    first = {"arm": COLUMNS["arm"]}
    by_month = Schema(columns=first, unit=_ONE_EACH, related={"visits": visits})
    late = Formula("month != 'A'")
    chosen = Schema(columns=first, unit=_ONE_EACH, related={"visits": visits}, where=late)
    counted = Related(id="who", rows=3, columns={"month": month}, counted="visits")
    often = Schema(columns=first, unit=_ONE_EACH, related={"visits": counted}, where=Formula("visits <= 1"))
    for name, schema, over in (("month", by_month, "month"), ("arm, where", chosen, "arm"), ("visits", often, "arm")):
        run = _joining(schema, over, spent)
        yield Pipeline(f"growing.running_total by {name} of a second table", run, world, spent, tight=False)


def _joining(schema: Schema, over: str, spent: Guarantee) -> Callable[[Sequence[Row], Ledger], Any]:
    def run(rows: Sequence[Row], ledger: Ledger) -> Any:
        found = []
        for wave in range(3):
            some = [{"who": row["person"], **row} for row in rows if row["wave"] <= wave]
            people = arrow_table(some, {"person": "int64", "arm": "string"})
            seen = arrow_table(some, {"who": "int64", "month": "string"})
            session = opened(people, schema, ledger, related={"visits": seen})
            try:
                session.plan.running_total(over, guarantee=spent, period=_PERIODS[wave])
            except DiscreetError:  # what can move later is refused before anything is read, which is as good
                return "refused"
            found.append(session.running_total(over, guarantee=spent, period=_PERIODS[wave]))
        return found

    return run


# ---- Wide pipelines: questions in schemas that are as wide, as fine and as tiny as a schema may be.
#
# Numbers reach to the ends of the grid, sums leave 64 bits and doubles, limits allow more rows than there are, and
# formulas compute with all of it. Every question must have an answer on every table, and lose no more than it is
# charged.


_STEPS = 2.0**40
_POWERS = (308, 300, 200, 100, 60, 50, 40, 30, 20)
_RANGES: dict[str, list[tuple[float, float, float]]] = {
    "widest": [(-_STEPS, _STEPS, 1.0)],
    "low side": [(-100_000.0, 10.0, 1.0)],
    "high side": [(-3.0, 2.0**33, 1.0)],
    "wei": [(0.0, 1e24, 1e15)],
    "largest": [(-float(f"1e{power}"), float(f"1e{power}"), float(f"1e{power - 9}")) for power in _POWERS],
    "coarsest": [(0.0, float(f"1e{power}"), float(f"1e{power}")) for power in _POWERS],
    "finest": [(-1e-3, 1e-3, 1e-14)],
    "tiniest": [(0.0, float(f"1e{5 - power}"), float(f"1e-{power}")) for power in _POWERS],
}
"""Low, high and grid, the widest first: 2⁴⁰ steps, beyond 2⁶³, and as large and small as a schema accepts."""
_LIMITS = Contribution(total=2**53)
_FEW = Contribution(groups=2, rows=2**20)


def _world(low: float, high: float) -> World:
    """People at both ends, beyond them, between them, and with values that are no numbers."""

    def row(x: Any, arm: str = "A") -> dict[str, Any]:
        return {"x": x, "arm": arm}

    beyond = [min(2 * high, 1.7e308), max(-2 * abs(low) - 1, -1.7e308)]
    people = [
        [row(high)] * 2,
        [row(low), row(high, "B")],
        [row(one, arm) for one in beyond for arm in ("A", "B")],
        [row(float("inf")), row(float("-inf")), row(float("nan")), row(None)],
        [row((low + high) / 3)] * 3,
    ]
    return unit_world(people, most=1)


def wide_pipelines() -> Iterator[Pipeline]:
    """Sums, spreads, filters and formulas of each kind of number."""
    one, settings = PureDP(1.0), {"column": "x"}
    for name, candidates in _RANGES.items():
        low, high, grid = next(one for one in candidates if not refused(partial(_wide_columns, *one)))
        world = _world(low, high)
        limits = _FEW if name in ("widest", "wei", "coarsest") else Contribution(total=2)
        for words, schema in _schemas(low, high, grid, limits):
            for ask in ("sum", "variance") if words == "plain" else ("sum",) if words == "where" else ("count",):
                question = _question(ask, schema, one, **(settings if ask != "count" else {}))
                if question is not None:
                    yield _wide_pipeline(f"wide.{ask}, {name}, {words}", question, world)
    many = Schema(columns=_wide_columns(0, 4, 1), unit=PrivacyUnit("person", contribution=_LIMITS))
    question = _question("sum", many, GaussianDP(1.0), column="x")
    if question is not None:
        yield _wide_pipeline("wide.sum, as many rows as can be declared", question, _world(0, 4))


def _wide_columns(low: float, high: float, grid: float) -> dict[str, Any]:
    return {"arm": Categories(["A", "B"]), "x": Bounds(low, high, grid=grid)}


def _schemas(low: float, high: float, grid: float, limits: Contribution) -> Iterator[tuple[str, Schema]]:
    """Plain columns, filters, and columns that formulas compute; those that a schema refuses are as wide as none."""
    unit = PrivacyUnit("person", contribution=limits)
    columns = _wide_columns(low, high, grid)
    middle = f"{(low + high) / 2 + grid:.17g}"
    made: dict[str, Callable[[], Schema]] = {
        "plain": lambda: Schema(columns=columns, unit=unit),
        "where": lambda: Schema(columns=columns, unit=unit, where=Formula(f"x > {middle} or x * 2 < 0")),
        "computed": lambda: Schema(
            columns={**columns, "x2": Bounds(0, 1, grid=0.25, value=Formula(f"{high:.17g} / (1 + abs(x - {middle}))"))},
            unit=unit,
            where=Formula("x2 < 2"),
        ),
        "bands": lambda: Schema(
            columns={**columns, "band": Bands(edges=[low, float(middle), high], value=Formula("x * 1"))}, unit=unit
        ),
    }
    for words, schema in made.items():
        try:
            yield words, schema()
        except DiscreetError:
            continue


def _question(ask: str, schema: Schema, guarantee: Guarantee, **settings: Any) -> q.Question[Any] | Exception | None:
    """The question, unless it refuses what is declared, before anything is read."""
    if "band" in schema.columns and ask == "count":
        settings = {"by": ["band"]}
    try:
        question: q.Question[Any] = asked()[ask](schema=schema, guarantee=guarantee, **settings)
        question.claim(None)
    except DiscreetError:
        return None
    except Exception as error:  # a refusal must be in words
        return error
    return question


def _wide_pipeline(name: str, question: q.Question[Any] | Exception, world: World) -> Pipeline:
    if isinstance(question, Exception):
        return Pipeline(name, partial(_fail, question), world, PureDP(1.0), tight=False)
    return Pipeline(name, partial(_run, question), world, question.guarantee, tight=False, repeats=True)


def _fail(error: Exception, rows: Any, ledger: Ledger) -> Any:
    raise error


def _run(question: q.Question[Any], rows: Any, ledger: Ledger) -> Any:
    table = arrow_table(rows, {"person": "int64", "arm": "string", "x": "float64"})
    return opened(table, question.schema, ledger).ask(question, "r")
