"""Hostile calls: public functions with arguments that work, for each of which hostile values are substituted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import discreet as d
import discreet.inference as i
import discreet.mechanisms as m
import discreet.questions as q
from discreet.audit.release_pipelines import public_name, statistics
from discreet.audit.report import Audit
from discreet.audit.session_pipelines import RECORDS, ROWS, every_question, opened, table_of
from discreet.core.errors import DiscreetError, ReleaseFailed
from discreet.core.guarantee import Guarantee
from discreet.core.protection import ROW, Protection
from discreet.core.schema import Schema
from discreet.core.sensitivity import Exact, Sensitivity
from discreet.mechanisms.composition import compose
from discreet.mechanisms.omission.amplification import outlier_suppression, poisson_sampling
from discreet.mechanisms.omission.step import AbsoluteDistance
from discreet.plans.declarations import schema_from_dict
from discreet.publish.compare_laws import compare_laws
from discreet.questions.clusters import DPLloyd, KMedian

Call = tuple[Callable[..., Any], Mapping[str, Any]]


def hostile_calls() -> dict[str, Call]:
    """By name: a function, and arguments with which it works."""
    return {**_guarantees(), **_mechanisms(), **_statistics(), **_functions()}


def _guarantees() -> dict[str, Call]:
    return {
        "PureDP": (d.PureDP, {"epsilon": 1.0}), "ApproxDP": (d.ApproxDP, {"epsilon": 1.0, "delta": 1e-6}),
        "ZeroConcentratedDP": (d.ZeroConcentratedDP, {"rho": 0.5}), "GaussianDP": (d.GaussianDP, {"mu": 1.0}),
        "delta_at": (d.GaussianDP(1.0).delta_at, {"epsilon": 1.0}), "epsilon_at": (d.GaussianDP(1.0).epsilon_at,
        {"delta": 0.1}), "Sensitivity": (Sensitivity, {"l1": 2.0, "l2": 1.0, "dimension": 3}),
        "Sensitivity of moves": (Sensitivity, {"moves": (1.0,)}), "Sensitivity of coordinates": (Sensitivity,
        {"coordinates": (1.0, 2.0)}), "poisson_sampling": (poisson_sampling, {"guarantee": d.PureDP(1.0),
        "rate": 0.5}), "outlier_suppression": (outlier_suppression, {"guarantee": d.PureDP(1.0), "m": 0.2, "M": 0.5}),
    }  # fmt: skip


def _own(made: Any, spelt_out: bool = True) -> dict[str, Any]:
    """The settings that something was made with: all of them, or those that are neither left off nor switches."""
    given = {one.name: getattr(made, one.name) for one in fields(made) if one.init}
    off = (None, (), False, True)
    return {name: value for name, value in given.items() if spelt_out or not any(value is one for one in off)}


def _mechanisms() -> dict[str, Call]:
    """Each made with its own settings, calibrated, and drawn from."""
    one, pair = d.PureDP(1.0), ((0, 1), (0, 1))
    mechanisms: list[tuple[Any, Any]] = [
        (m.Laplace(1.0, 1.0), 0.0), (m.Geometric(1.0), 0), (m.Gaussian(1.0, 1.0), 0.0),
        (m.BoxNoise(1.0, 3), [0.0, 1.0, 2.0]), (m.DiscreteGaussian(1.0), 0),
        (m.Staircase(scale=1.0, period=3.0, plateau=0.4, grid=1.0), 0.0),
        (m.WholeShare(m.Geometric(1.0), 10), 0.5), (m.GeneralizedGaussian(1.0), 0.0),
        (m.BoundedGaussian(scale=1.0, bounds=(0, 1)), 0.5),
        (m.BoundedLaplace(scale=1.0, bounds=(0, 1)), 0.5), (m.BoundaryInflatedLaplace(scale=1.0, bounds=(0, 1)), 0.5),
        (m.ExponentialMechanism(1.0), [0, 1]), (m.PermuteAndFlip(1.0), [0, 1]), (m.ReportNoisyMax(1.0), [0, 1]),
        (m.OptimalSelection(epsilon=1.0, delta=0.01), [1, 5]), (m.GaussianThreshold(scale=2.0, threshold=9.0), [1, 5]),
        (m.BoundedCovariance(budget=one, changes=(0.1,) * 3, variance_bounds=pair), [0.1, 0.2, 0.1]),
        (m.TiedPair(scale=0.1, bounds=pair, total=1.0), [0.4, 0.6]), (m.Clipped(mechanism=m.Laplace(1.0)), [3, 4]),
        (m.BoundedProportions(scale=0.1, categories=2), [0.4, 0.6]),
        (m.RankDeficientGaussian(scale=1.0, total=5), [3, 4]), (m.JamesSteinGaussian(scale=1.0), [3, 4, 5]),
    ]  # fmt: skip
    points: dict[str, Any] = {"lowest": 0, "highest": 4, "grid": 1.0, "groups": 1}
    calls: dict[str, Call] = {
        "PrivateLabels": (d.PrivateLabels, {}),
        "PrivateBounds": (d.PrivateBounds, {"low": 0, "high": 9, "grid": 1, "proportion": 0.95, "epsilon": 0.1}),
        "PrivateLimit": (d.PrivateLimit, {"groups": None, "rows": None, "total": 4, "epsilon": 0.1}),
        "QuantileChoice": (m.QuantileChoice, {"factor": 1.0, "probabilities": (0.5,), **points}),
        "NestedCounts": (
            m.NestedCounts,
            {"rate": 1.0, "shares": (0.5,), "miss": 0.05, "normal": False, "together": 1, "rows": 300, **points},
        ),
    }
    for mechanism, truth in mechanisms:
        name = type(mechanism).__name__
        calls |= {name: (type(mechanism), _own(mechanism)), f"{name}.draw": (mechanism.draw, {"truth": truth})}
    unit = Sensitivity(l1=1.0)
    each = Sensitivity(linf=1.0, dimension=3)
    normal = d.GaussianDP(1.0)
    concentrated = d.ZeroConcentratedDP(0.5)
    calibrated: tuple[tuple[Any, Any, Any, dict[str, Any]], ...] = (
        (m.Laplace, normal, unit, {}), (m.Geometric, normal, unit, {}), (m.Staircase, one, unit, {}),
        (m.Gaussian, normal, unit, {}),
        (m.DiscreteGaussian, concentrated, unit, {}), (m.BoxNoise, one, each, {}),
        (m.BoundedLaplace, one, unit, {"bounds": (0, 2)}), (m.BoundedGaussian, normal, unit, {"bounds": (0, 2)}),
    )  # fmt: skip
    for kind, guarantee, sensitivity, more in calibrated:
        given = {"guarantee": guarantee, "sensitivity": sensitivity, **more}
        calls[f"{kind.__name__}.calibrate"] = (kind.calibrate, given)
    return calls


def _statistics() -> dict[str, Call]:
    """Each made with its own settings, and measured."""
    chosen: list[tuple[Any, Any, Any]] = [
        (q.Mode(categories=("a", "b")), ["a", "b"], _as_it_is),
        (q.Quantiles(probabilities=0.5, bounds=d.Bounds(0, 1, grid=0.5)), [0.0, 1.0, 0.5], _as_it_is),
    ]
    calls: dict[str, Call] = {}
    for statistic, records, prepare in (*statistics(d.Neighbours.REPLACE_ONE), *chosen):
        name = public_name(statistic)
        data = {"data": prepare(records), "neighbours": d.Neighbours.REPLACE_ONE}
        if name in q.__all__:
            calls |= {name: (type(statistic), _own(statistic, False)), f"{name}.exact": (statistic.exact, data)}
    return calls


def _as_it_is(rows: Any) -> Any:
    return rows


def _functions() -> dict[str, Call]:
    exact, one = Exact(1.0, Sensitivity(l1=1.0)), d.PureDP(1.0)

    def released(exact: Any, mechanism: Any, guarantee: Any, rng: Any) -> Any:
        return d.release(exact, mechanism, guarantee=guarantee, rng=rng)

    def ledger(budget: Any) -> Any:
        return d.Ledger(":memory:", budget)

    return {
        "Exact": (Exact, {"value": 1.0, "sensitivity": Sensitivity(l1=1.0), "protection": Protection()}),
        "release": (released, {"exact": exact, "mechanism": m.Laplace(1.0), "guarantee": one, "rng": 1}),
        "plan": (d.plan, {"sensitivity": Sensitivity(l1=1.0), "mechanism": m.Laplace(1.0)}),
        "compose": (lambda first, second: d.compose(first, second), {"first": one, "second": one}),
        "Ledger": (ledger, {"budget": one}),
        "PoissonSample": (m.PoissonSample, {"rate": 0.5}),
        "SampleByLabel": (m.SampleByLabel, {"column": "arm", "rates": {"A": 0.5}, "others": 0.1}),
        "FixedSample": (m.FixedSample, {"size": 5, "population": 10}),
        "Scenario": (d.Scenario, {"rows": 9, "columns": {"x": d.ExpectedNumbers(mean=1, sd=1)}}),
        "ExpectedNumbers": (d.ExpectedNumbers, {"mean": 1.0, "sd": 1.0, "at_low": 0.1}),
        "ExpectedLabels": (d.ExpectedLabels, {"shares": (0.5, 0.5), "by": None}),
        "Bounds": (d.Bounds, {"low": 0, "high": 1, "grid": 0.5}),
        "Categories": (d.Categories, {"labels": ["a", "b"]}),
        "Bands": (d.Bands, {"edges": (0, 16, 65), "labels": ("young", "old")}),
        "Dates": (d.Dates, {"low": "2024-01-01", "high": "2024-12-31", "grid": "day", "nulls": "drop", "order": "ymd"}),
        "Formula": (d.Formula, {"text": "age >= 18"}),
        "Related": (d.Related, {"id": "id", "rows": 2, "columns": {"x": d.Bounds(0, 1, grid=0.5)}, "counted": None}),
        "Feature": (
            d.Feature,
            {"of": "x", "take": "mean", "low": 0, "high": 1, "grid": 0.5, "nulls": "drop", "order": None},
        ),
        "Design": (
            _designed,
            {
                "weight": "w",
                "weight_high": 2.0,
                "strata": "arm",
                "population": {"A": 3.0},
                "cluster": None,
                "expected": [1],
            },
        ),
        "schema_from_dict": (schema_from_dict, {"data": {"columns": {"x": {"low": 0, "high": 1}}}}),
        "compare_laws": (
            compare_laws,
            {
                "mechanisms": [m.Laplace],
                "guarantee": d.PureDP(1.0),
                "sensitivity": Sensitivity(l1=1.0),
                "bounds": (0.0, 1.0),
                "truths": (0.5,),
                "epsilons": (1.0,),
            },
        ),
        "Contribution": (d.Contribution, {"rows": 2, "groups": 2}),
        "PrivacyUnit": (d.PrivacyUnit, {"column": "id", "contribution": d.Contribution(rows=1), "nulls": "drop"}),
        "Schema": (d.Schema, {"columns": {"x": d.Bounds(0, 1, grid=0.5)}, "unit": d.PrivacyUnit(), "size": None}),
        "Bins": (d.Bins, {"edges": (0, 1, 2)}),
        "OutlierSuppression": (m.OutlierSuppression, {"m": 0.4, "M": 0.5, "distance": AbsoluteDistance((0, 1))}),
        "compose_curves": (m.compose_curves, {"profiles": [m.Laplace(1.0).profile(Sensitivity(l1=1.0))] * 2}),
        "hierarchy": (
            q.hierarchy,
            {"column": "district", "within": "region", "groups": {"north": ["n1", "n2"], "south": ["s1"]}},
        ),
        "all_margins": (q.all_margins, {"columns": ("region", "age"), "up_to": 1}),
        "best_table_mechanism": (
            q.best_table_mechanism,
            {"guarantee": d.GaussianDP(1.0), "table": q.ContingencyTable({"c": ["a", "b", "c"]}), "n": None},
        ),
    }


def _designed(**arguments: Any) -> Schema:
    return Schema(columns={"arm": d.Categories(["A"])}, design=d.Design(**arguments))


# ---- Hostile audit: whatever is passed, a function refuses it in words or answers with finite numbers
#
# Every argument of a call is replaced, one at a time, by values that break careless code. A refusal must be one of
# `discreet.core.errors`; an answer must hold no NaN. Anything else is a finding.


HOSTILE: tuple[Any, ...] = (
    math.nan, math.inf, -math.inf, -1, -1.5, 0, 10**400, 1e308, 5e-324, True, None, "", "text", b"bytes", 1j,
    (), [], [math.nan], [math.inf, 1.0], [1.0, "a"], [[1.0], [2.0, 3.0]], {}, set(), object(), float, len,
    np.array([]), np.array(math.nan), np.array([1.0, math.nan, 2.0]), np.array(["a", None], dtype=object),
    np.array([10**400], dtype=object), np.zeros((2, 0)), np.datetime64("2020-01-01"),
)  # fmt: skip
"""Values that break careless code."""


def audit_hostile(
    calls: Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]], values: Sequence[Any] = HOSTILE
) -> Audit:
    """Call functions with each of their arguments replaced by each hostile value.

    Parameters
    ----------
    calls
        By name: a function and arguments with which it works.
    values
        What to pass instead.

    Examples
    --------
    >>> from discreet.mechanisms import Laplace
    >>> audit_hostile({"Laplace": (Laplace, {"scale": 1.0})}).passed
    True
    """
    made, refused, findings = 0, 0, []
    for name, (function, arguments) in calls.items():
        works = _outcome(function, arguments)
        if works != _ANSWERED:
            findings.append(f"{name} as it is meant: {works}")
        for argument in arguments:
            for value in values:
                made += 1
                outcome = _outcome(function, {**arguments, argument: value})
                refused += outcome == _REFUSED
                if outcome not in (_REFUSED, _ANSWERED):
                    findings.append(f"{name}({argument}={_shown(value)}): {outcome}")
    found, measured = f"{len(findings)} findings", {"calls": made, "refused": refused}
    return Audit("hostile", f"{made:,} calls", "refused or finite", found, tuple(findings), measured=measured)


_REFUSED, _ANSWERED = "refused", "answered"


def _outcome(function: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    try:
        result = function(**arguments)
    except DiscreetError:
        return _REFUSED
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:60]}"
    return "NaN out" if _has_nan(result, 0) else _ANSWERED


def _has_nan(result: Any, depth: int) -> bool:
    if isinstance(result, float | np.ndarray | np.generic | list | tuple):
        try:
            return bool(np.isnan(np.asarray(result, dtype=float)).any())
        except (TypeError, ValueError, OverflowError):
            return False
    if is_dataclass(result) and depth < 2:
        return any(_has_nan(getattr(result, field.name, None), depth + 1) for field in fields(result))
    return False


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 24 else f"{text[:23]}…"


# ---- Hostile questions: sessions, fits, comparisons and conclusions, each with arguments that work.
#
# Whatever spends does so on a ledger of its own; a refusal after anything was spent is a finding.


ONE = d.PureDP(1.0)
BUDGET = d.PureDP(2.0)


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
    """Every question with first settings of its own, of which each is replaced; and what else a session is told."""
    unlisted = replace(ROWS, columns={**ROWS.columns, "arm": d.PrivateLabels()})
    calls: dict[str, Call] = {}
    design = replace(
        ROWS, columns={**dict(reversed([*ROWS.columns.items()]))}, design=d.Design(weight="x", weight_high=1)
    )
    for ask, question in every_question(design).items():
        given = {name: value for name, value in _own(question).items() if name != "schema"}
        budget = compose(*[question.guarantee] * 2)
        calls[f"Session.{ask} under a design"] = (_paid(_question(ask, design), budget), {**given, "name": None})
    for ask, question in {**every_question(unlisted), **every_question(ROWS)}.items():
        given = {name: value for name, value in _own(question).items() if name != "schema"}
        budget = compose(*[question.guarantee] * 2)
        calls[f"Session.{ask}"] = (_paid(_question(ask, question.schema), budget), {**given, "name": None})
    return {
        **calls,
        "Session.rehearsing": (_paid(_question("rehearsing")), {"scenario": d.Scenario(rows=9), "repeats": 2}),
        "Session.omitting": (_paid(_question("omitting")), {"step": m.PoissonSample(0.5)}),
        "Session.declaring": (_paid(_question("declaring")), {"arm": d.Categories(["A", "B"])}),
    }


def _question(name: str, schema: Schema = ROWS) -> Callable[..., Any]:
    def ask(ledger: Any, **arguments: Any) -> Any:
        return getattr(opened(_rows(), schema, ledger), name)(**arguments)

    return ask


@cache
def _rows() -> Any:
    return table_of(RECORDS * 3, ROWS)


def _fits() -> dict[str, Call]:
    points, box = [[0.0, 1.0], [1.0, 0.0], [0.2, 0.1]], ((0, 1), (0, 1))

    def bayes(ledger: Any, X: Any, y: Any, guarantee: Any, bounds: Any, classes: Any, weights: Any) -> Any:
        model = q.GaussianNaiveBayes(
            guarantee=guarantee, bounds=bounds, classes=classes, weights=weights, variance_mechanism=m.BoundedLaplace
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
        "bounds": (0, 1), "guarantee": ONE, "partitions": None, "censor": (0.1, 0.1), "arm": "public",
    }  # fmt: skip
    shared = {**arm, "neighbours": d.Neighbours.REPLACE_ONE}
    first, second = [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]
    own = {"method": "direct", "unit": ROW, "expected_sd": None, "partition_labels": None}
    return {
        "compare_means": (_paid(q.compare_means), {"treatment": first, "control": second, **own, **shared}),
        "compare_arms": (
            _paid(q.compare_arms), {"columns": {"a": first, "b": second}, "method": "direct", "unit": ROW, **shared},
        ),
        "plan_comparison": (
            q.plan_comparison, {"units": (1000, 1000), "expected_sd": 0.1, "power": 0.8, "level": 0.95, **shared},
        ),
    }  # fmt: skip


def _conclusions() -> dict[str, Call]:
    """Conclusions from releases, which cost nothing and read no data."""
    table = q.ContingencyTable({"arm": ["a", "b", "c"]})
    cross = q.ContingencyTable({"arm": ["a", "b"], "half": ["l", "r"]})
    simulated: dict[str, Any] = {"mechanism": m.Laplace(1.0), "rng": 1}
    replaced = d.Neighbours.REPLACE_ONE
    cells = d.release(table.exact({"arm": ["a", "b", "c", "a"] * 9}, neighbours=replaced), **simulated)
    square = d.release(
        cross.exact({"arm": ["a", "b"] * 18, "half": ["l", "r", "r"] * 12}, neighbours=replaced), **simulated
    )
    mean = d.release(q.Mean(bounds=(0, 1)).exact([0.2, 0.9, 0.5] * 9, neighbours=replaced), m.Laplace(0.1), rng=1)

    def synthesis(ledger: Any, m: Any, exact: Any, mechanism: Any, guarantee: Any) -> Any:
        return i.MultipleSynthesis(m=m).release(exact, mechanism, guarantee, ledger=ledger)

    exact = Exact(1.0, Sensitivity(l1=1.0))
    kinds = {"null": None, "statistic": None}
    return {
        "goodness_of_fit": (i.goodness_of_fit, {"release": cells, "probabilities": [0.2, 0.3, 0.5], **kinds}),
        "homogeneity": (i.homogeneity, {"releases": [cells, cells], **kinds}),
        "independence": (i.independence, {"release": square, **kinds}),
        "MonteCarlo": (i.MonteCarlo, {"n_resamples": 99, "rng": 1, "as_published": False}),
        "Release.noise_interval": (mean.noise_interval, {"level": 0.95}),
        "Release.from_dict": (d.Release.from_dict, {"data": mean.to_dict()}),
        "Release.from_json": (d.Release.from_json, {"text": mean.to_json()}),
        "PublicSizeRelease.population_interval": (mean.population_interval, {"level": 0.95}),
        "MultipleSynthesis.release": (
            _paid(synthesis), {"m": 2, "exact": exact, "mechanism": m.Laplace, "guarantee": ONE},
        ),
        "MultipleSynthesis.combine": (
            i.MultipleSynthesis(m=2).combine, {"estimates": [1.0, 2.0], "variances": [0.5, 0.5]},
        ),
        "DoubleSanitization.combine": (
            i.DoubleSanitization(m=9).combine,
            {"value": 1.0, "mechanism": m.Laplace(1.0), "sampling_variance": 0.5, "rng": 1},
        ),
    }  # fmt: skip
