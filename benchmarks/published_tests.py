"""Published private tests, re-implemented from their descriptions and for simulations only: `number_tests` runs them.

- Couch, Kazan, Shi, Bray and Groce (2019): Mann–Whitney, with a part of ε on the smaller group's size (δ = 10⁻⁶), and
  Kruskal–Wallis with absolute differences (sensitivity 8);
- Swanberg, Globus-Harris, Griffith, Ritz, Groce and Bray (2019): analysis of variance with absolute differences
  (sensitivities 4 and 3);
- Kazan, Shi, Groce and Bray (2023), "test of tests": Welch's t in disjoint subsamples, and the private binomial test of
  Awan and Slavković on how many of them reject;
- Couch, Kazan, Shi, Bray and Groce (2018): Wilcoxon's signed ranks of pairs, zeros ranked as Pratt has it (sensitivity
  2n). They report that the earlier rule for pairs, that of Task and Clifton (2016), needs more than twice as many rows;
- Barrientos, Reiter, Machanavajjhala and Chen (2019): t statistics of a regression coefficient in disjoint subsets, cut
  off at ±a, and their sum with Laplace noise;
- Gaboardi, Lim, Rogers and Vadhan (2016): χ² of a table with Laplace noise, its null simulated at the nearest table
  that is possible (by least squares, where they mix absolute and squared distances), and no test where a cell is
  expected to hold fewer than five rows;
- DPrivStats 0.1.0 (an R package, 2026): cells with Laplace noise are cut off at 0 and rounded, and tested as if there
  were no noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, rankdata, ttest_ind

Array = NDArray[np.float64]
Generator = np.random.Generator
Groups = list[Array]
LEVEL, RESAMPLES = 0.05, 199


def geometric(shape: tuple[int, ...], epsilon: float, rng: Generator) -> Array:
    """Two-sided geometric noise."""
    drawn = rng.geometric(-math.expm1(-epsilon), size=(2, *shape))
    return np.asarray(drawn[0] - drawn[1], dtype=float)


def rejects_by_null(statistic: float, null: Array, *, low: bool = False) -> bool:
    """Whether a statistic is among the most extreme of its simulated null distribution."""
    beyond = np.count_nonzero(null <= statistic if low else null >= statistic)
    return float(1 + beyond) / (1 + null.size) <= LEVEL


def mann_whitney(groups: Groups, epsilon: float, rng: Generator, share: float = 0.35) -> bool:
    """Couch and others (2019): a noisy size of the smaller group, then noisy min(U₁, U₂)."""
    n, smaller = sum(one.size for one in groups), min(one.size for one in groups)
    first, second, delta = share * epsilon, (1 - share) * epsilon, 1e-6
    noisy = smaller + rng.laplace(0, 1 / first)
    size = max(math.ceil(noisy + math.log(2 * delta) / first), 0)  # at most the true size, but for δ

    def statistic(ordered: Array, own: int) -> float:
        u = float(ordered[:own].sum()) - own * (own + 1) / 2
        return min(u, own * (n - own) - u)

    scale = (n - size) / second
    found = statistic(np.array(rankdata(np.concatenate(groups)), dtype=np.float64), groups[0].size) + rng.laplace(
        0, scale
    )
    used = min(max(round(noisy), 1), n // 2)
    null = [statistic(rng.permutation(np.arange(1.0, n + 1)), used) + rng.laplace(0, scale) for _ in range(RESAMPLES)]
    return rejects_by_null(found, np.array(null), low=True)


def kruskal_wallis(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """Couch and others (2019): absolute differences of mean ranks, sensitivity 8."""
    n, sizes = sum(one.size for one in groups), [one.size for one in groups]
    middle = (n + 1) / 2
    below = float(np.abs(np.arange(1, n + 1) - middle).sum())

    def statistic(ordered: Array, parts: list[int]) -> float:
        ends = np.cumsum(parts)[:-1]
        return (n - 1) * sum(abs(float(one.sum()) - one.size * middle) for one in np.split(ordered, ends)) / below

    equal = [n // len(sizes)] * (len(sizes) - 1)
    equal.append(n - sum(equal))
    own = np.array(rankdata(np.concatenate(groups), method="ordinal"), dtype=np.float64)
    found = statistic(own, sizes) + rng.laplace(0, 8 / epsilon)
    null = [
        statistic(rng.permutation(np.arange(1.0, n + 1)), equal) + rng.laplace(0, 8 / epsilon) for _ in range(RESAMPLES)
    ]
    return rejects_by_null(found, np.array(null))


def absolute_variances(groups: Groups, epsilon: float, rng: Generator, share: float = 0.7) -> bool:
    """Swanberg and others (2019): F₁ from noisy sums of absolute differences."""
    n, k = sum(one.size for one in groups), len(groups)
    first, second = share * epsilon, (1 - share) * epsilon

    def sums(data: Groups) -> tuple[float, float]:
        mean = float(np.concatenate(data).mean())
        between = sum(one.size * abs(float(one.mean()) - mean) for one in data)
        within = sum(float(np.abs(one - one.mean()).sum()) for one in data)
        return between + rng.laplace(0, 4 / first), within + rng.laplace(0, 3 / second)

    between, within = sums([np.clip(one, 0, 1) for one in groups])
    spread = math.sqrt(math.pi / 2) * max(within, 0.0) / (n - k)
    null = []
    for _ in range(RESAMPLES):
        drawn = rng.normal(0.5, spread, n)
        above, below = sums(list(np.array_split(drawn, k)))
        null.append(above / below if below > 0 else math.inf)
    return rejects_by_null(between / within if within > 0 else math.inf, np.array(null))


def test_of_tests(parts: int, level: float) -> Callable[[Groups, float, Generator], bool]:
    """Kazan and others (2023): Welch's t in disjoint subsamples, then a private binomial test."""

    def tested(groups: Groups, epsilon: float, rng: Generator) -> bool:
        pieces = [np.array_split(rng.permutation(one), parts) for one in groups]
        pvalues = [float(ttest_ind(*pair, equal_var=False).pvalue) for pair in zip(*pieces, strict=True)]

        def noise(size: int) -> Array:
            return geometric((size,), epsilon, rng) + rng.uniform(-0.5, 0.5, size)

        found = sum(one <= level for one in pvalues) + float(noise(1)[0])
        return rejects_by_null(found, rng.binomial(parts, level, 999) + noise(999))

    return tested


@cache
def null_rank_sums(n: int) -> Array:
    """Sums of so many ranks with fair signs; from 500 on normal, since their excess kurtosis is −3.6/n."""
    rng = np.random.default_rng(n)
    if n >= 500:
        return rng.normal(0, math.sqrt(n * (n + 1) * (2 * n + 1) / 6), 4999)
    return np.asarray((2.0 * (rng.random((4999, n)) < 0.5) - 1.0) @ np.arange(1.0, n + 1))


def signed_ranks(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """Couch and others (2018): ranks of the absolute differences of pairs, with their signs."""
    differences = groups[1] - groups[0]
    n = differences.size
    ranks = np.array(rankdata(np.abs(differences)), dtype=np.float64)
    found = float(np.sign(differences) @ ranks) + rng.laplace(0, 2 * n / epsilon)
    sums = null_rank_sums(n)
    null = sums + rng.laplace(0, 2 * n / epsilon, sums.size)
    return rejects_by_null(abs(found), np.abs(null))


def subset_statistics(parts: int, cut: float) -> Callable[[Groups, float, Generator], bool]:
    """Barrientos and others (2019): whether the slope of the second number on the first is significant."""

    def tested(groups: Groups, epsilon: float, rng: Generator) -> bool:
        order = rng.permutation(groups[0].size)[: groups[0].size // parts * parts].reshape(parts, -1)
        x, y = (one[order] - one[order].mean(axis=1, keepdims=True) for one in groups)
        square, df = (x * x).sum(axis=1), order.shape[1] - 2
        slope = (x * y).sum(axis=1) / square
        left = ((y - slope[:, None] * x) ** 2).sum(axis=1) / df
        scale = 2 * cut / epsilon / math.sqrt(parts)
        found = np.clip(slope / np.sqrt(left / square), -cut, cut).sum() / math.sqrt(parts) + rng.laplace(0, scale)
        drawn = np.clip(rng.standard_t(df, size=(999, parts)), -cut, cut).sum(axis=1) / math.sqrt(parts)
        return rejects_by_null(abs(found), np.abs(drawn + rng.laplace(0, scale, 999)))

    return tested


def nearest_table(cells: Array, rows: float) -> Array:
    """The table without negative cells and with so many rows that is nearest, by least squares."""
    flat = np.sort(cells.ravel())[::-1]
    shifts = (np.cumsum(flat) - rows) / np.arange(1, flat.size + 1)
    return np.asarray(np.maximum(cells - shifts[np.flatnonzero(flat > shifts)[-1]], 0.0))


def simulated_table(counts: Array, epsilon: float, rng: Generator) -> bool:
    """Gaboardi and others (2016): independence of a table, by simulation through Laplace noise."""
    rows = float(counts.sum())

    def expected(cells: Array) -> Array:
        near = nearest_table(cells, rows)
        return np.outer(near.sum(axis=1), near.sum(axis=0)) / rows

    def statistic(cells: Array) -> float:
        under = expected(cells)
        return math.inf if under.min() < 5 else float(((cells - under) ** 2 / under).sum())

    noisy = counts + rng.laplace(0, 1 / epsilon, counts.shape)
    found = statistic(noisy)
    if math.isinf(found):  # too few rows: it does not reject
        return False
    tables = rng.multinomial(int(rows), (expected(noisy) / rows).ravel(), size=RESAMPLES)
    noise = rng.laplace(0, 1 / epsilon, tables.shape)
    null = np.array([statistic(one.reshape(counts.shape)) for one in tables + noise])
    return rejects_by_null(found, null)


def rounded_table(counts: Array, epsilon: float, rng: Generator) -> bool:
    """DPrivStats: Pearson's test of noisy cells, as if they were counts."""
    cells = np.maximum(np.round(counts + rng.laplace(0, 1 / epsilon, counts.shape)), 0.0)
    if min(cells.sum(axis=0).min(), cells.sum(axis=1).min()) == 0:
        return False
    return float(chi2_contingency(cells).pvalue) <= LEVEL
