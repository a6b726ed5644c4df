"""Hostile questions: sessions, fits, comparisons and conclusions, each with arguments that work.

Whatever spends does so on a ledger of its own; a refusal after anything was spent is a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import discreet as d
from discreet.audit.session_pipelines import RECORDS, ROWS, table_of
from discreet.core.errors import DiscreetError, ReleaseFailed
from discreet.core.guarantee import Guarantee
from discreet.core.protection import ROW
from discreet.questions.clusters import DPLloyd, KMedian

__all__ = ["hostile_questions"]

Call = tuple[Callable[..., Any], Mapping[str, Any]]
ONE = d.PureDP(1.0)
BUDGET = d.PureDP(2.0)
SOME = d.ApproxDP(1.0, 1e-6)


_DATA = {"treatment", "control", "data", "X"}
"""Arguments that are data themselves."""


class SpentInVain(Exception):
    """A call was refused after the ledger was charged."""


def hostile_questions() -> dict[str, Call]:
    """By name: a function, and arguments with which it works."""
    return {**_session(), **_fits(), **_comparisons(), **_conclusions()}


def _paid(call: Callable[..., Any], budget: Guarantee = BUDGET) -> Callable[..., Any]:
    """The call on a ledger of its own, which a refusal must leave as it was."""

    def paid(**arguments: Any) -> Any:
        ledger = d.Ledger(":memory:", budget)
        nothing = ledger.spent()
        try:
            return call(ledger=ledger, **arguments)
        except DiscreetError as refusal:
            values = isinstance(refusal, ReleaseFailed) and _DATA & {*arguments}  # which are read behind the payment
            if ledger.spent() != nothing and not values:
                raise SpentInVain(str(refusal)) from refusal
            raise

    return paid


def _session() -> dict[str, Call]:
    """Every question; optional arguments are spelt out so that each is replaced."""
    some: dict[str, Any] = {"guarantee": ONE, "contribution": None, "request": None}
    grouped, summed = {**some, "by": "half"}, {"by": (), "unit_sum": None, **some}
    asked: dict[str, dict[str, Any]] = {
        "count": grouped,
        "sum": {"column": "x", **summed},
        "mean": {"column": "x", "spread": True, "weighted": False, "expected_rows": None, **summed},
        "proportion": {"column": "arm", "label": "A", "weighted": False, **some},
        "variance": {"column": "y", **summed},
        "std": {"column": "y", **summed},
        "share": {"column": "arm", "label": "A", "weighted": False, **some},
        "median": {"column": "x", "interval": None, "rows_at_least": None, **summed},
        "covariance_matrix": {"columns": ("x", "y"), "guarantee": ONE, "request": None},
        "regression": {"column": "y", "on": ("x", "arm"), "models": (("x",),), "expected_rows": None, **some},
        "logistic_regression": {"column": "half", "on": ("x", "arm"), "expected_rows": None, **some},
        "quantile": {
            "column": "x", "probabilities": 0.5, "interval": None, "rows_at_least": None, "recursive": False, **summed,
        },
        "histogram": {"column": "x", "edges": [0, 1, 2], "bins": None, **some},
        "table": {"columns": ("arm", "half"), **some},
        "mode": {"column": "arm", **some},
        "goodness_of_fit": {"column": "arm", "probabilities": [0.2, 0.3, 0.5], **some},
        "homogeneity": {"column": "arm", "by": "half", **some},
        "independence": {"columns": ("arm", "half"), **some},
        "rank_test": {"column": "x", "by": "arm", "edges": [0, 1, 2], "bins": None, "expected_rows": None, **some},
        "kolmogorov_smirnov": {"column": "x", "by": "half", "edges": None, "bins": 2, "expected_rows": None, **some},
        "rank_correlation": {"columns": ("x", "half"), "bins": {"x": 2}, "expected_rows": None, **some},
        "signed_rank": {"column": "x", "against": "y", "method": "ranks", "expected_rows": None, **some},
        "clusters": {"columns": ("x", "y"), "n_clusters": 2, "guarantee": ONE, "iterations": 1, "expected_rows": None},
        "compare_means": {
            "column": "x", "by": "half", "guarantee": ONE, "censor": (0.1, 0.1), "method": "direct", "arm": "public",
            "spread": None, "partitions": None, "partition_by": None, "unit_sum": None,
        },
        "compare_arms": {
            "column": "x", "by": "half", "guarantee": ONE, "censor": (0.1, 0.1), "method": "direct", "arm": "public",
            "spread": None, "partitions": None, "unit_sum": None,
        },
        "profile": {"columns": ("x", "arm"), "guarantee": ONE, "proportion": 0.95, "order": "ymd", "request": None},
        "distinct": {"column": "arm", **grouped},
        "quality": {"columns": "x", "guarantee": ONE, "request": None},
        "left_out": {"columns": "x", "most_rows": None, **grouped},
        "rehearsing": {"scenario": d.Scenario(rows=9), "repeats": 2},
        "omitting": {"step": d.PoissonSample(0.5)},
    }  # fmt: skip
    calls = {f"Session.{name}": (_paid(_question(name)), arguments) for name, arguments in asked.items()}
    labels = d.Categories(["A", "B"])
    listed: dict[str, Any] = {
        "column": "arm",
        "guarantee": SOME,
        "contribution": None,
        "method": "best",
        "request": None,
    }
    tables: dict[str, Any] = {
        "tables": [["arm"], ["arm", "half"]],
        "guarantee": SOME,
        "weights": "tables",
        "accuracy": "sum",
        "mean_of": None,
        "public_total": None,
        "impossible": (),
        "bins": None,
        "presented": True,
        "contribution": None,
        "request": None,
    }
    running: dict[str, Any] = {
        "over": "arm",
        "guarantee": d.GaussianDP(1.0),
        "period": "A",
        "column": "x",
        "contribution": None,
        "unit_sum": None,
        "request": None,
    }
    return {
        **calls,
        "Session.groups": (_paid(_groups, SOME), listed),
        "Session.tables": (_paid(_question("tables"), SOME), tables),
        "Session.running_total": (_paid(_question("running_total"), d.GaussianDP(2.0)), running),
        "Session.declaring": (_paid(_question("declaring")), {"arm": labels}),
    }


def _groups(ledger: Any, **arguments: Any) -> Any:
    schema = d.Schema(columns={"arm": d.Unlisted()})
    return d.Session(_rows(), schema, ledger=ledger).groups(**arguments)


def _question(name: str) -> Callable[..., Any]:
    def ask(ledger: Any, **arguments: Any) -> Any:
        return getattr(d.Session(_rows(), ROWS, ledger=ledger), name)(**arguments)

    return ask


@cache
def _rows() -> Any:
    return table_of(RECORDS * 3, ROWS)


def _fits() -> dict[str, Call]:
    points, box = [[0.0, 1.0], [1.0, 0.0], [0.2, 0.1]], ((0, 1), (0, 1))

    def bayes(ledger: Any, X: Any, y: Any, guarantee: Any, bounds: Any, classes: Any, weights: Any) -> Any:
        model = d.GaussianNaiveBayes(
            guarantee=guarantee, bounds=bounds, classes=classes, weights=weights, variance_mechanism=d.BoundedLaplace
        )
        return model.fit(X, y, ledger=ledger).theta_

    def lloyd(ledger: Any, X: Any, n_clusters: Any, guarantee: Any, bounds: Any, iterations: Any) -> Any:
        model = DPLloyd(n_clusters, guarantee=guarantee, bounds=bounds, iterations=iterations)
        return model.fit(X, ledger=ledger).cluster_centers_

    def median(ledger: Any, X: Any, n_clusters: Any, guarantee: Any, universe: Any, swaps: Any) -> Any:
        model = KMedian(n_clusters, guarantee=guarantee, universe=universe, swaps=swaps)
        return model.fit(X, ledger=ledger).cluster_centers_

    classes = {"y": ["a", "b", "a"], "classes": ("a", "b"), "weights": (1.0, 2.0, 2.0)}
    few = {"X": points, "guarantee": ONE}
    return {
        "GaussianNaiveBayes.fit": (_paid(bayes), {**few, "bounds": box, **classes}),
        "DPLloyd.fit": (_paid(lloyd), {**few, "n_clusters": 2, "bounds": box, "iterations": 1}),
        "KMedian.fit": (_paid(median), {**few, "n_clusters": 1, "universe": points, "swaps": 1}),
    }


def _comparisons() -> dict[str, Call]:
    arm: dict[str, Any] = {
        "bounds": (0, 1),
        "guarantee": ONE,
        "partitions": None,
        "censor": (0.1, 0.1),
        "arm": "public",
    }
    shared = {**arm, "neighbours": d.Neighbours.REPLACE_ONE}
    first, second = [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]
    own = {"method": "direct", "unit": ROW, "spread": None, "partition_labels": None}
    return {
        "compare_means": (_paid(d.compare_means), {"treatment": first, "control": second, **own, **shared}),
        "compare_arms": (
            _paid(d.compare_arms), {"columns": {"a": first, "b": second}, "method": "direct", "unit": ROW, **shared},
        ),
        "plan_comparison": (
            d.plan_comparison, {"units": (1000, 1000), "spread": 0.1, "power": 0.8, "level": 0.95, **shared},
        ),
    }  # fmt: skip


def _conclusions() -> dict[str, Call]:
    """What is concluded from releases, which costs nothing and reads no data."""
    table = d.ContingencyTable({"arm": ["a", "b", "c"]})
    cross = d.ContingencyTable({"arm": ["a", "b"], "half": ["l", "r"]})
    simulated: dict[str, Any] = {"mechanism": d.Laplace(1.0), "rng": 1}
    replaced = d.Neighbours.REPLACE_ONE
    cells = d.release(table.exact({"arm": ["a", "b", "c", "a"] * 9}, neighbours=replaced), **simulated)
    square = d.release(
        cross.exact({"arm": ["a", "b"] * 18, "half": ["l", "r", "r"] * 12}, neighbours=replaced), **simulated
    )
    mean = d.release(d.Mean(bounds=(0, 1)).exact([0.2, 0.9, 0.5] * 9, neighbours=replaced), d.Laplace(0.1), rng=1)

    def synthesis(ledger: Any, m: Any, exact: Any, mechanism: Any, guarantee: Any) -> Any:
        return d.MultipleSynthesis(m=m).release(exact, mechanism, guarantee, ledger=ledger)

    exact = d.Exact(1.0, d.Sensitivity(l1=1.0))
    kinds = {"null": None, "statistic": None}
    return {
        "goodness_of_fit": (d.goodness_of_fit, {"release": cells, "probabilities": [0.2, 0.3, 0.5], **kinds}),
        "homogeneity": (d.homogeneity, {"releases": [cells, cells], **kinds}),
        "independence": (d.independence, {"release": square, **kinds}),
        "MonteCarlo": (d.MonteCarlo, {"n_resamples": 99, "rng": 1, "as_published": False}),
        "Release.confidence_interval": (mean.confidence_interval, {"level": 0.95}),
        "Release.from_dict": (d.Release.from_dict, {"data": mean.to_dict()}),
        "Release.from_json": (d.Release.from_json, {"text": mean.to_json()}),
        "MeanRelease.population_interval": (mean.population_interval, {"level": 0.95}),
        "MultipleSynthesis.release": (
            _paid(synthesis), {"m": 2, "exact": exact, "mechanism": d.Laplace, "guarantee": ONE},
        ),
        "MultipleSynthesis.combine": (
            d.MultipleSynthesis(m=2).combine, {"estimates": [1.0, 2.0], "variances": [0.5, 0.5]},
        ),
        "DoubleSanitization.combine": (
            d.DoubleSanitization(m=9).combine,
            {"value": 1.0, "mechanism": d.Laplace(1.0), "sampling_variance": 0.5, "rng": 1},
        ),
    }  # fmt: skip
