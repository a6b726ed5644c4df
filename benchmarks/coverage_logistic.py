"""Coverage of the coefficients of logistic regressions: one to four numbers, labels, rare and separated outcomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from coverage_cells import LEVEL, Parameters, coverage_part, coverage_row, settings
from discreet.core.guarantee import PureDP
from discreet.core.schema import Bounds, Categories, Schema
from discreet.papers.study import Row
from discreet.questions.regression.logistic import LogisticQuestion

__all__ = ["LOGISTIC_PARTS"]

Array = NDArray[np.float64]
_POINTS = 512
_SHOWN = 10
_LABELS = ("a", "b", "c")
_ENDLESS = 1e4
"""A coefficient by which outcomes are separated: an interval holds it where it has no end on that side."""


@dataclass(frozen=True)
class Outcomes:
    """Equally likely rows, and the log-odds of their outcome.

    Attributes
    ----------
    numbers
        Numbers between 0 and 1, one per column.
    labels
        One column of three labels, or None.
    truth
        Constant, slopes of the numbers, and what the second and third label add.
    """

    numbers: Array
    labels: NDArray[np.int64] | None
    truth: Array

    @cached_property
    def chances(self) -> Array:
        """How likely each row is in a sample, without the outcome and then with it."""
        own = [] if self.labels is None else [self.labels == place for place in range(1, len(_LABELS))]
        terms = np.column_stack([np.ones(_POINTS), self.numbers, *own])
        yes = expit(terms @ self.truth)
        return np.concatenate([1 - yes, yes]) / _POINTS

    @cached_property
    def question(self) -> LogisticQuestion:
        """What is asked; its guarantee is another one in every setting."""
        columns: dict[str, Any] = {f"x{place}": Bounds(0, 1, grid=2**-10) for place in range(self.numbers.shape[1])}
        if self.labels is not None:
            columns["label"] = Categories(_LABELS)
        schema = Schema(columns={**columns, "outcome": Categories(["no", "yes"])})
        return LogisticQuestion(schema, "outcome", list(columns), epsilon=1.0)

    def parts(self, degrees: tuple[int, ...]) -> Array:
        """What each row adds to the totals, without the outcome and then with it."""
        found = np.ones((_POINTS, 1))
        for u, degree in zip(self.numbers.T, degrees, strict=True):
            own = [math.comb(degree, k) * u**k * (1 - u) ** (degree - k) for k in range(degree + 1)]
            found = (found[:, :, None] * np.stack(own, axis=1)[:, None, :]).reshape(_POINTS, -1)
        cells = np.zeros(_POINTS, dtype=int) if self.labels is None else self.labels
        totals = np.zeros((2, _POINTS, int(cells.max()) + 1, 2, found.shape[1]))
        for outcome in (0, 1):
            totals[outcome, np.arange(_POINTS), cells, outcome] = found
        return totals.reshape(2 * _POINTS, -1)


def _thirds(share: Array) -> Array:
    """Four equally frequent values."""
    return np.asarray(np.floor(np.minimum(4 * share, 3.0)) / 3)


_MIDDLE, _ENDS, _TAIL = stats.beta(2.6, 2.6).ppf, stats.beta(0.4, 0.4).ppf, stats.lognorm(0.9, scale=0.08).ppf
_POPULATIONS: dict[str, tuple[tuple[Callable[[Array], Array], ...], bool, tuple[float, ...]]] = {
    "one number": ((_TAIL,), False, (-2.0, 4.0)),
    "steep number": ((_ENDS,), False, (-3.0, 6.0)),
    "two numbers": ((_MIDDLE, _ENDS), False, (-1.0, 3.0, -1.0)),
    "three numbers": ((_MIDDLE, _ENDS, _thirds), False, (-1.0, 2.0, -1.0, 1.0)),
    "four numbers": ((_MIDDLE, _ENDS, _thirds, _TAIL), False, (-1.0, 2.0, -1.0, 1.0, 1.5)),
    "number, labels": ((_MIDDLE,), True, (-1.0, 2.0, 0.7, -0.7)),
    "two numbers, labels": ((_MIDDLE, _TAIL), True, (-1.0, 2.0, 2.0, 0.7, -0.7)),
    "labels": ((), True, (-0.5, 1.0, -1.0)),
    "3 %, number": ((_MIDDLE,), False, (-4.35, 1.5)),
    "3 %, labels": ((), True, (-3.7, 0.5, -0.5)),
    "separated by a number": ((_MIDDLE,), False, (-_ENDLESS / 2, _ENDLESS)),
    "separated by a label": ((), True, (-0.5, 1.0, _ENDLESS)),
}
"""Quantiles of the numbers, whether there are labels, and the coefficients."""


@cache
def outcomes(name: str) -> Outcomes:
    """A population by name: its rows fill the space of the numbers evenly, and a number goes with the one before it."""
    laws, labelled, truth = _POPULATIONS[name]
    even = stats.qmc.Sobol(max(len(laws), 1), seed=5).random(_POINTS)
    normal = stats.norm.ppf(np.clip(even, 1e-6, 1 - 1e-6))
    normal[:, 1:] = 0.9 * normal[:, 1:] + math.sqrt(1 - 0.9**2) * normal[:, :-1]
    shares = stats.norm.cdf(normal)
    numbers = [np.clip(law(share), 0.0, 1.0) for law, share in zip(laws, shares.T, strict=False)]
    labels = np.arange(_POINTS) % 7 // 3  # the third label has a seventh of the rows
    return Outcomes(
        np.stack(numbers, axis=1) if laws else np.zeros((_POINTS, 0)), labels if labelled else None, np.array(truth)
    )


def coefficients(parameters: Parameters, seed: int) -> Iterator[Row]:
    """Every coefficient, from the release of a session; the least covered of them counts."""
    rng, population = np.random.default_rng(seed), outcomes(parameters["population"])
    asked = replace(population.question, guarantee=PureDP(parameters["budget"])).measurement
    statistic: Any = asked.statistic
    parts, n = population.parts(statistic.degrees), parameters["n"]

    def fit(totals: Array) -> Any:
        return statistic.designed(statistic.on, asked.mechanism, totals, None, 1).sampled

    totals = rng.multinomial(n, population.chances, size=parameters["repeats"]) @ parts
    fits = [fit(one) for one in totals + np.asarray(asked.mechanism.law(0.0).sample(totals.shape, rng=rng))]
    each = list(zip(np.eye(population.truth.size), population.truth.tolist(), strict=True))
    pvalues = np.array([[_pvalue(one, along, value) for along, value in each] for one in fits])
    covered = pvalues >= 1 - LEVEL
    least = int(np.argmin(covered.mean(axis=0)))
    along = each[least][0]
    widths = np.array([np.subtract(*one.interval(along, LEVEL)[::-1]) for one in fits[:_SHOWN]])
    ideal = fit(n * population.chances @ parts).standard_error(along)
    row = coverage_row(parameters, covered[:, least], widths, ideal)
    known = {} if math.isfinite(float(row["width"])) else {"width": None, "width_ratio": None}
    yield row | known | {"nothing_said": float(np.mean(pvalues[:, least] == 1.0))}


def _pvalue(fit: Any, along: Array, value: float) -> float:
    """Of the true value; 1 where nothing is said, and where outcomes are separated and the interval has no end."""
    if abs(value) < _ENDLESS / 10:
        return float(fit.pvalue(along, value))
    return float(math.isinf(fit.interval(along, LEVEL)[1 if value > 0 else 0]))


LOGISTIC_PARTS = (
    coverage_part(
        "logistic",
        "Coefficients of a logistic regression",
        coefficients,
        settings(_POPULATIONS, 1000, n=(300, 1000, 5000, 50_000), budget=(0.3, 1.0, 5.0)),
    ),
)
