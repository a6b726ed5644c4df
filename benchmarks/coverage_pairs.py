"""Coverage of both intervals of tests for pairs: ties, zeros, heavy tails, skew, and shares next to 0 and 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from coverage_cells import (
    GUARANTEES,
    LEVEL,
    Parameters,
    columns_of,
    coverage_part,
    coverage_row,
    settings,
)
from discreet.core.guarantee import ZeroConcentratedDP
from discreet.inference.noise import MonteCarlo
from discreet.inference.ranks import PairedDifferences
from discreet.papers.study import Row
from discreet.questions.signed_rank import SignedRankQuestion
from populations import Population

__all__ = ["PAIRED_PARTS"]

Array = NDArray[np.float64]
_RESAMPLES, _SHOWN = 999, 5
_GUARANTEES = GUARANTEES | {"ρ-zCDP": ZeroConcentratedDP}
_LEVELS = (np.arange(400) + 0.5) / 400
_NORMAL = np.asarray(stats.norm.ppf(_LEVELS))
_TAIL = np.exp(_NORMAL)


def _of(*groups: tuple[float, Any]) -> Population:
    """Groups of equally likely differences, each with its share of the rows."""
    points = [np.atleast_1d(np.asarray(values, dtype=float)) for _, values in groups]
    weights = [np.full(own.size, share / own.size) for own, (share, _) in zip(points, groups, strict=True)]
    return Population(np.concatenate(points), np.concatenate(weights))


POPULATIONS: dict[str, Population] = {
    "normal": _of((1, _NORMAL)),
    "shifted": _of((1, _NORMAL + 0.5)),
    "97 % positive": _of((1, _NORMAL + 1.88)),
    "ties": _of((0.1, -2), (0.2, -1), (0.3, 0), (0.2, 1), (0.2, 2)),
    "many zeros": _of((0.7, 0), (0.3, _NORMAL + 0.5)),
    "heavy tails": _of((1, stats.cauchy.ppf(_LEVELS) + 0.5)),
    "skewed": _of((1, _TAIL - 1)),
    "two clusters": _of((0.7, -1 - _LEVELS), (0.3, 30 + _LEVELS)),
    "1 in 10 large": _of((0.9, _TAIL), (0.1, -1000 - _TAIL)),
    "1 in 100 large": _of((0.99, _TAIL), (0.01, -1000 - _TAIL)),
    "1 in 1,000 large": _of((0.999, _TAIL), (0.001, -1000 - _TAIL)),
    "1 in 100 small": _of((0.99, 5 + _TAIL), (0.01, -_LEVELS)),
    "1 in 100 below, rest zero": _of((0.99, 0), (0.01, -_TAIL)),
    "all above": _of((1, _TAIL)),
}
"""Differences of pairs. Few that are large and negative vary more than any others with the same share."""


def _share(population: Population, method: str, *, public: bool) -> float:
    """What the interval is about: among rows with a difference, or among all where their number is public."""
    kept = (population.points != 0) | public
    points, weights = population.points[kept], population.weights[kept] / population.weights[kept].sum()
    others = weights if method == "ranks" else np.ones(1)
    sums = points[:, None] + (points if method == "ranks" else np.zeros(1))
    lean = weights @ np.sign(sums) @ others
    return min(max(float(1 + lean) / 2, 0.0), 1.0)  # probabilities add up to one but for rounding


def _totals(points: Array, counts: Array, method: str) -> Array:
    """Sums of scores of many samples: how often each difference occurs, sample by sample."""
    if method == "signs":
        return np.asarray(counts @ np.sign(points))
    sizes, place = np.unique(np.abs(points), return_inverse=True)
    of_size = np.equal.outer(place, np.arange(sizes.size)).astype(float)
    rows, leaning = counts @ of_size, counts @ (of_size * np.sign(points)[:, None])
    return np.asarray((leaning * (np.cumsum(rows, axis=1) - rows / 2 + 0.5)).sum(axis=1))


def _pairs(parameters: Parameters, seed: int, method: str) -> Iterator[Row]:
    """Both intervals of the share; the less covered of them counts."""
    rng, population = np.random.default_rng(seed), POPULATIONS[parameters["population"]]
    guarantee, repeats = _GUARANTEES[parameters["guarantee"]](parameters["budget"]), parameters["repeats"]
    asked = SignedRankQuestion(columns_of(parameters, "x"), "x", 0.5, guarantee=guarantee, method=method).measurement
    statistic: Any = asked.statistic
    noise, public, how = asked.mechanism.law(0.0), statistic.n is not None, statistic.how
    kept = (population.points != 0) | public
    counts = population.samples(parameters["n"], repeats, rng)[:, kept].astype(float)
    rows, totals = counts.sum(axis=1), _totals(population.points[kept], counts, method)
    balances = how.balance(totals, np.maximum(rows, 1.0))
    drawn = np.asarray(noise.sample((2, repeats), rng=rng), dtype=float) * ([[1], [0]] if public else 1)
    found = [
        PairedDifferences(balance, size, public, noise, how)
        for balance, size in zip(
            (balances + drawn[0] - drawn[1]).tolist(),
            (rows if public else rows + drawn.sum(axis=0)).tolist(),
            strict=True,
        )
    ]
    truth = _share(population, method, public=public)
    shares = (1 + totals / np.maximum(how.most(rows), 1.0)) / 2  # of the data
    # Where an interval is computed it must be the one that accepts, so both have the same simulations.
    simulated = [MonteCarlo(n_resamples=_RESAMPLES, rng=place if place < _SHOWN else rng) for place in range(repeats)]
    each = list(zip(found, simulated, strict=True))
    covered = np.array([one.accepts(truth, LEVEL, null, sampled=True) for one, null in each])
    in_data = [
        one.accepts(share, LEVEL, null, sampled=False) for (one, null), share in zip(each, shares.tolist(), strict=True)
    ]
    ends = np.array([tuple(one.interval(LEVEL, null, sampled=True)) for one, null in each[:_SHOWN]])
    if np.any(covered[:_SHOWN] & ~((ends[:, 0] <= truth) & (truth <= ends[:, 1]))):
        raise ArithmeticError("an interval leaves out what it accepts")
    row = coverage_row(parameters, covered, ends[:, 1] - ends[:, 0], float(np.std([one.share for one in found])))
    both = {"population_coverage": float(covered.mean()), "noise_coverage": float(np.mean(in_data))}
    yield row | both | {"coverage": min(both.values())}


def ranks(parameters: Parameters, seed: int) -> Iterator[Row]:
    """Signed ranks."""
    yield from _pairs(parameters, seed, "ranks")


def signs(parameters: Parameters, seed: int) -> Iterator[Row]:
    """Signs."""
    yield from _pairs(parameters, seed, "signs")


_AXES: dict[str, Any] = {"size": ("private", "public"), "n": (30, 300, 5000), "budget": (0.1, 1.0, 5.0)}
PAIRED_PARTS = (
    coverage_part(
        "signed-ranks",
        "Share of pairs by signed ranks: both intervals",
        ranks,
        settings(POPULATIONS, 1000, guarantee=GUARANTEES, **_AXES),
    ),
    coverage_part(
        "signs",
        "Share of pairs by signs: both intervals",
        signs,
        settings(POPULATIONS, 1000, guarantee=_GUARANTEES, **_AXES),
    ),
)
