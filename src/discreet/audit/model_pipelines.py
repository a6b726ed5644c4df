"""Model pipelines: clusters, classifiers and comparisons, from a few rows to what is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from discreet.audit.pipeline import Pipeline
from discreet.audit.worlds import World, row_world
from discreet.core.guarantee import ApproxDP, GaussianDP, Guarantee, PureDP, ZeroConcentratedDP
from discreet.core.protection import Neighbours
from discreet.ledgers import Ledger
from discreet.mechanisms.bounded.bounded_laplace import BoundedLaplace
from discreet.questions.clusters.kmedian import KMedian
from discreet.questions.clusters.lloyd import DPLloyd
from discreet.questions.comparison.compare import compare_means
from discreet.questions.comparison.many_arms import compare_arms
from discreet.questions.comparison.paper import CensoredLikelihood
from discreet.questions.naive_bayes import GaussianNaiveBayes

__all__ = ["PAPER_METHODS", "model_pipelines"]

ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
ONE = PureDP(1.0)
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
        (", as published", ONE, {"variance_mechanism": BoundedLaplace}),
    ]
    for neighbours, (way, spent, options) in product((ADD, REPLACE), settings):
        options = {**options, "guarantee": spent, "neighbours": neighbours}

        def bayes(rows: Any, ledger: Ledger, options: Any = options) -> Any:
            model = GaussianNaiveBayes(bounds=((0, 1),), classes=("a", "b"), **options)
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


def _columns(rows: Any, arms: tuple[str, ...]) -> dict[str, list[float]]:
    every = [*BASE, *rows]
    return {arm: [value for name, value in every if name == arm] for arm in arms}


def _compared(name: str, spent: Guarantee, world: World, covers: str, tight: bool, **options: Any) -> Pipeline:
    def compare(rows: Any, ledger: Ledger) -> Any:
        columns = _columns(rows, ("t", "c"))
        return compare_means(
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
    placed = CensoredLikelihood(placement="moments")
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
        return compare_arms(
            {**_columns(rows, ("t", "c")), "third": [0.0, 1.0, 1.0]}, bounds=(0, 1), guarantee=spent, ledger=ledger,
            neighbours=world.neighbours, **options,
        )  # fmt: skip

    return run
