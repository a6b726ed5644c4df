"""Hostile calls: public functions with arguments that work, for each of which hostile values are substituted."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

import discreet as d
from discreet.core.errors import DiscreetError
from discreet.core.protection import Protection
from discreet.display import Facts
from discreet.omission.amplification import outlier_suppression, poisson_sampling
from discreet.omission.outliers import AbsoluteDistance
from discreet.result import Result

__all__ = ["HOSTILE", "HostileAudit", "audit_hostile", "hostile_calls"]


Call = tuple[Callable[..., Any], Mapping[str, Any]]


def hostile_calls() -> dict[str, Call]:
    """By name: a function, and arguments with which it works."""
    return {**_guarantees(), **_mechanisms(), **_statistics(), **_functions()}


def _guarantees() -> dict[str, Call]:
    return {
        "PureDP": (d.PureDP, {"epsilon": 1.0}),
        "ApproxDP": (d.ApproxDP, {"epsilon": 1.0, "delta": 1e-6}),
        "ZeroConcentratedDP": (d.ZeroConcentratedDP, {"rho": 0.5}),
        "GaussianDP": (d.GaussianDP, {"mu": 1.0}),
        "delta_at": (d.GaussianDP(1.0).delta_at, {"epsilon": 1.0}),
        "epsilon_at": (d.GaussianDP(1.0).epsilon_at, {"delta": 0.1}),
        "Sensitivity": (d.Sensitivity, {"l1": 2.0, "l2": 1.0, "dimension": 3}),
        "Sensitivity of moves": (d.Sensitivity, {"moves": (1.0,)}),
        "Sensitivity of coordinates": (d.Sensitivity, {"coordinates": (1.0, 2.0)}),
        "poisson_sampling": (poisson_sampling, {"guarantee": d.PureDP(1.0), "rate": 0.5}),
        "outlier_suppression": (outlier_suppression, {"guarantee": d.PureDP(1.0), "m": 0.2, "M": 0.5}),
    }


def _mechanisms() -> dict[str, Call]:
    unit, one = d.Sensitivity(l1=1.0), d.PureDP(1.0)
    bounded = d.BoundedLaplace(scale=1.0, bounds=(0, 1))
    calls: dict[str, Call] = {
        "Laplace": (d.Laplace, {"scale": 1.0, "grid": 1.0}),
        "Geometric": (d.Geometric, {"scale": 1.0}),
        "Gaussian": (d.Gaussian, {"scale": 1.0, "grid": 1.0}),
        "BoxNoise": (d.BoxNoise, {"scale": 1.0, "dimension": 3, "grid": 1.0, "boxes": 2}),
        "DiscreteGaussian": (d.DiscreteGaussian, {"scale": 1.0}),
        "WholeShare": (d.WholeShare, {"noise": d.Geometric(1.0), "rows": 10}),
        "GeneralizedGaussian": (d.GeneralizedGaussian, {"scale": 1.0, "order": 4}),
        "BoundedLaplace": (d.BoundedLaplace, {"scale": 1.0, "bounds": (0, 1), "grid": None}),
        "BoundaryInflatedLaplace": (d.BoundaryInflatedLaplace, {"scale": 1.0, "bounds": (0, 1)}),
        "ExponentialMechanism": (d.ExponentialMechanism, {"factor": 1.0, "monotone": False}),
        "PermuteAndFlip": (d.PermuteAndFlip, {"factor": 1.0, "monotone": False}),
        "ReportNoisyMax": (d.ReportNoisyMax, {"scale": 1.0, "noise": "laplace"}),
        "RankDeficientGaussian": (d.RankDeficientGaussian, {"scale": 1.0, "total": 5}),
        "JamesSteinGaussian": (d.JamesSteinGaussian, {"scale": 1.0, "towards": "mean"}),
        "BoundedLaplace.calibrate": (
            d.BoundedLaplace.calibrate,
            {"guarantee": one, "sensitivity": unit, "bounds": (0, 2)},
        ),
    }
    each = d.Sensitivity(linf=1.0, dimension=3)
    calls["BoxNoise.calibrate"] = (d.BoxNoise.calibrate, {"guarantee": one, "sensitivity": each})
    calls |= _structured()
    for kind in (d.Laplace, d.Geometric, d.Gaussian):
        calls[f"{kind.__name__}.calibrate"] = (kind.calibrate, {"guarantee": d.GaussianDP(1.0), "sensitivity": unit})
    calls["DiscreteGaussian.calibrate"] = (
        d.DiscreteGaussian.calibrate,
        {"guarantee": d.ZeroConcentratedDP(0.5), "sensitivity": unit},
    )
    drawn: dict[str, tuple[Any, Any]] = {
        "Laplace": (d.Laplace(1.0), 0.0),
        "Geometric": (d.Geometric(1.0), 0),
        "Gaussian": (d.Gaussian(1.0), 0.0),
        "BoxNoise": (d.BoxNoise(1.0, 3), [0.0, 1.0, 2.0]),
        "DiscreteGaussian": (d.DiscreteGaussian(1.0), 0),
        "WholeShare": (d.WholeShare(d.Geometric(1.0), 10), 0.5),
        "GeneralizedGaussian": (d.GeneralizedGaussian(1.0), 0.0),
        "BoundedLaplace": (bounded, 0.5),
        "BoundaryInflatedLaplace": (d.BoundaryInflatedLaplace(scale=1.0, bounds=(0, 1)), 0.5),
        "ExponentialMechanism": (d.ExponentialMechanism(1.0), [0, 1]),
        "PermuteAndFlip": (d.PermuteAndFlip(1.0), [0, 1]),
        "OptimalSelection": (d.OptimalSelection(epsilon=1.0, delta=0.01), [1, 5]),
        "GaussianThreshold": (d.GaussianThreshold(scale=2.0, threshold=9.0), [1, 5]),
        "ReportNoisyMax": (d.ReportNoisyMax(1.0), [0, 1]),
    }
    for name, (mechanism, truth) in drawn.items():
        calls[f"{name}.draw"] = (mechanism.draw, {"truth": truth})
    return calls


def _structured() -> dict[str, Call]:
    one, pair = d.PureDP(1.0), ((0, 1), (0, 1))
    covariance: dict[str, Any] = {"budget": one, "changes": (0.1, 0.1, 0.1), "variance_bounds": pair, "weights": None}
    return {
        "BoundedCovariance": (d.BoundedCovariance, covariance),
        "OptimalSelection": (d.OptimalSelection, {"epsilon": 1.0, "delta": 0.01}),
        "GaussianThreshold": (d.GaussianThreshold, {"scale": 2.0, "threshold": 9.0}),
        "Unlisted": (d.Unlisted, {}),
        "PrivateBounds": (d.PrivateBounds, {"low": 0, "high": 9, "grid": 1, "proportion": 0.95, "epsilon": 0.1}),
        "PrivateContribution": (d.PrivateContribution, {"groups": None, "rows": None, "total": 4, "epsilon": 0.1}),
        "BoundedProportions": (d.BoundedProportions, {"scale": 0.1, "categories": 3, "method": "simplex"}),
        "TiedPair": (d.TiedPair, {"scale": 0.1, "bounds": pair, "total": 1.0, "coefficients": (1.0, 1.0)}),
        "Clipped": (d.Clipped, {"mechanism": d.Laplace(1.0), "clip": "nonnegative", "integers": False}),
        "QuantileChoice": (
            d.QuantileChoice,
            {"factor": 1.0, "probabilities": (0.5,), "lowest": 0, "highest": 4, "grid": 1.0, "groups": 1},
        ),
        "QuantileInterval": (
            d.QuantileInterval,
            {
                "first": 0.3,
                "second": 0.7,
                "shares": ((0.5, 0.5),),
                "miss": 0.05,
                "lowest": 0,
                "highest": 4,
                "grid": 1.0,
                "groups": 1,
            },
        ),
        "BoundedCovariance.draw": (d.BoundedCovariance(**covariance).draw, {"truth": [0.1, 0.2, 0.1]}),
        "TiedPair.draw": (d.TiedPair(scale=0.1, bounds=pair, total=1.0).draw, {"truth": [0.4, 0.6]}),
        "Clipped.draw": (d.Clipped(mechanism=d.Laplace(1.0)).draw, {"truth": [3, 4]}),
        "BoundedProportions.draw": (d.BoundedProportions(scale=0.1, categories=2).draw, {"truth": [0.4, 0.6]}),
    }


def _statistics() -> dict[str, Call]:
    replace, add = d.Neighbours.REPLACE_ONE, d.Neighbours.ADD_REMOVE
    column = [0.0, 1.0, 0.5]
    square = ((0, 1), (0, 1))
    made: dict[str, tuple[Any, Mapping[str, Any], Any, Any]] = {
        "Count": (d.Count, {}, [True, False], add),
        "Sum": (d.Sum, {"bounds": (0, 1), "grid": 0.25, "n": 3}, column, add),
        "SumAndCount": (d.SumAndCount, {"bounds": (0, 1)}, column, add),
        "NoisyAverage": (d.NoisyAverage, {"bounds": (0, 1), "centred": True}, column, add),
        "MeansAndCovariances": (d.MeansAndCovariances, {"bounds": square}, [[0.0, 1.0], [0.5, 0.5]], add),
        "Mean": (d.Mean, {"bounds": (0, 1), "n": 3}, column, replace),
        "Proportion": (d.Proportion, {"n": 2}, [True, False], replace),
        "Variance": (d.Variance, {"bounds": (0, 1), "n": 3}, column, replace),
        "StandardDeviation": (d.StandardDeviation, {"bounds": (0, 1), "n": 3, "grid": 0.25}, column, replace),
        "PooledVariance": (
            d.PooledVariance,
            {"bounds": (0, 1), "cells": (0, 1)},
            ([0.0, 1.0, 0.5], [0, 1, 1]),
            replace,
        ),
        "PooledCovariance": (
            d.PooledCovariance,
            {"bounds": square, "cells": (0, 1)},
            ([0.0, 1.0, 0.5], [1.0, 0.0, 0.5], [0, 1, 1]),
            replace,
        ),
        "CorrelationMatrix": (d.CorrelationMatrix, {"bounds": square}, [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], replace),
        "Covariance": (d.Covariance, {"bounds": square}, [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], replace),
        "CovarianceMatrix": (d.CovarianceMatrix, {"bounds": square}, [[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], replace),
        "ProportionVector": (d.ProportionVector, {"categories": ("a", "b")}, ["a", "b"], replace),
        "Mode": (d.Mode, {"categories": ("a", "b")}, ["a", "b"], add),
        "ContingencyTable": (d.ContingencyTable, {"columns": {"c": ["a", "b"]}}, {"c": ["a", "b"]}, add),
        "Quantiles": (d.Quantiles, {"probabilities": 0.5, "bounds": d.Bounds(0, 1, grid=0.5)}, column, add),
    }
    calls: dict[str, Call] = {}
    for name, (kind, parameters, data, neighbours) in made.items():
        if parameters:
            calls[name] = (kind, parameters)
        calls[f"{name}.exact"] = (kind(**parameters).exact, {"data": data, "neighbours": neighbours})
    return calls


def _functions() -> dict[str, Call]:
    exact, one = d.Exact(1.0, d.Sensitivity(l1=1.0)), d.PureDP(1.0)

    def released(exact: Any, mechanism: Any, guarantee: Any, rng: Any) -> Any:
        return d.release(exact, mechanism, guarantee=guarantee, rng=rng)

    def ledger(budget: Any) -> Any:
        return d.Ledger(":memory:", budget)

    return {
        "Exact": (d.Exact, {"value": 1.0, "sensitivity": d.Sensitivity(l1=1.0), "protection": Protection()}),
        "release": (released, {"exact": exact, "mechanism": d.Laplace(1.0), "guarantee": one, "rng": 1}),
        "plan": (d.plan, {"sensitivity": d.Sensitivity(l1=1.0), "mechanism": d.Laplace(1.0)}),
        "compose": (lambda first, second: d.compose(first, second), {"first": one, "second": one}),
        "Ledger": (ledger, {"budget": one}),
        "PoissonSample": (d.PoissonSample, {"rate": 0.5}),
        "Scenario": (
            d.Scenario,
            {"rows": 9, "columns": {"x": d.ExpectedNumbers(mean=1, spread=1)}},
        ),
        "ExpectedNumbers": (d.ExpectedNumbers, {"mean": 1.0, "spread": 1.0, "at_low": 0.1}),
        "ExpectedLabels": (d.ExpectedLabels, {"shares": (0.5, 0.5), "by": None}),
        "Bounds": (d.Bounds, {"low": 0, "high": 1, "grid": 0.5}),
        "Categories": (d.Categories, {"labels": ["a", "b"]}),
        "Bands": (d.Bands, {"edges": (0, 16, 65), "labels": ("young", "old")}),
        "Dates": (d.Dates, {"low": "2024-01-01", "high": "2024-12-31", "grid": "day", "nulls": "drop", "order": "ymd"}),
        "Formula": (d.Formula, {"text": "age >= 18"}),
        "Related": (d.Related, {"id": "id", "rows": 2, "columns": {"x": d.Bounds(0, 1, grid=0.5)}, "counted": None}),
        "schema_from_dict": (d.schema_from_dict, {"data": {"columns": {"x": {"low": 0, "high": 1}}}}),
        "compare_laws": (
            d.compare_laws,
            {
                "mechanisms": [d.Laplace],
                "guarantee": d.PureDP(1.0),
                "sensitivity": d.Sensitivity(l1=1.0),
                "bounds": (0.0, 1.0),
                "truths": (0.5,),
                "epsilons": (1.0,),
            },
        ),
        "Contribution": (d.Contribution, {"rows": 2, "groups": 2}),
        "PrivacyUnit": (d.PrivacyUnit, {"column": "id", "contribution": d.Contribution(rows=1), "nulls": "drop"}),
        "Schema": (d.Schema, {"columns": {"x": d.Bounds(0, 1, grid=0.5)}, "unit": d.PrivacyUnit(), "size": None}),
        "Bins": (d.Bins, {"edges": (0, 1, 2)}),
        "OutlierSuppression": (d.OutlierSuppression, {"m": 0.4, "M": 0.5, "distance": AbsoluteDistance((0, 1))}),
        "compose_profiles": (d.compose_profiles, {"profiles": [d.Laplace(1.0).profile(d.Sensitivity(l1=1.0))] * 2}),
        "hierarchy": (
            d.hierarchy,
            {"column": "district", "within": "region", "groups": {"north": ["n1", "n2"], "south": ["s1"]}},
        ),
        "all_margins": (d.all_margins, {"columns": ("region", "age"), "up_to": 1}),
        "best_table_mechanism": (
            d.best_table_mechanism,
            {"guarantee": d.GaussianDP(1.0), "table": d.ContingencyTable({"c": ["a", "b", "c"]}), "n": None},
        ),
    }


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


@dataclass(frozen=True)
class HostileAudit(Result):
    """What hostile arguments did.

    Attributes
    ----------
    calls, refused
        Calls made, and how many of them were refused in words.
    findings
        Calls that crashed, or answered with NaN.
    """

    calls: int
    refused: int
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether there is no finding."""
        return not self.findings

    def facts(self) -> Facts:
        """What to show."""
        return [
            ("calls", f"{self.calls:,}, of which {self.refused:,} were refused in words"),
            ("findings", "none" if self.passed else f"{len(self.findings)}: " + "; ".join(self.findings[:3])),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready data."""
        return {"calls": self.calls, "refused": self.refused, "findings": list(self.findings), "passed": self.passed}

    def heading(self) -> str:
        return "Hostile audit"


def audit_hostile(
    calls: Mapping[str, tuple[Callable[..., Any], Mapping[str, Any]]], values: Sequence[Any] = HOSTILE
) -> HostileAudit:
    """Call functions with each of their arguments replaced by each hostile value.

    Parameters
    ----------
    calls
        By name: a function and arguments with which it works.
    values
        What to pass instead.

    Examples
    --------
    >>> from discreet import Laplace
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
    return HostileAudit(made, refused, tuple(findings))


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
