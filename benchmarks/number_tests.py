"""Tests on numbers: how often equal groups are told apart, and power beside published private tests at the same ε.

``python benchmarks/number_tests.py`` keeps what it found in ``results/number_tests.json``. The published rules are
re-implemented from their descriptions, for simulations only:

- Couch, Kazan, Shi, Bray and Groce (2019): Mann–Whitney, with a part of ε on the smaller group's size (δ = 10⁻⁶), and
  Kruskal–Wallis with absolute differences (sensitivity 8);
- Swanberg, Globus-Harris, Griffith, Ritz, Groce and Bray (2019): analysis of variance with absolute differences
  (sensitivities 4 and 3);
- Kazan, Shi, Groce and Bray (2023), "test of tests": Welch's t in disjoint subsamples, and the private binomial test of
  Awan and Slavković on how many of them reject.

Splits of ε, numbers of subsamples and levels of the published rules are the best of a grid, for which they are not
charged.
All of them take the number of rows, and the published ones bounds between 0 and 1 where they need any. Ours are for
add/remove neighbours, with a private number of rows.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, rankdata, ttest_ind

from discreet import ContingencyTable, Geometric, MonteCarlo, Neighbours, PureDP, independence, release
from discreet.inference.least_squares import LeastSquares
from discreet.inference.linear_moments import Linear, LinearMoments
from discreet.inference.margin_tests import Departure
from discreet.inference.ordered_departures import difference_of_ranks, distance_of_distributions

Array = NDArray[np.float64]
Generator = np.random.Generator
Groups = list[Array]
RESULTS = Path(__file__).parent / "results" / "number_tests.json"
LEVEL, RESAMPLES = 0.05, 199
BINS = 8


# ---- ours -----------------------------------------------------------------------------------------------------------


def noisy_table(groups: Groups, epsilon: float, rng: Generator) -> Array:
    """Counts by group and bins of one width between 0 and 1, with geometric noise."""
    edges = np.linspace(0, 1, BINS + 1)
    cells = np.stack([np.histogram(np.clip(one, 0, 1), edges)[0] for one in groups])
    return np.asarray(cells + geometric(cells.shape, epsilon, rng), dtype=float)


def geometric(shape: tuple[int, ...], epsilon: float, rng: Generator) -> Array:
    """Two-sided geometric noise."""
    drawn = rng.geometric(-math.expm1(-epsilon), size=(2, *shape))
    return np.asarray(drawn[0] - drawn[1], dtype=float)


def by_table(departure: Departure, groups: Groups, epsilon: float, rng: Generator) -> bool:
    """Whether a test of a noisy table rejects, as `discreet.inference.ordered_groups` simulates it."""
    cells = noisy_table(groups, epsilon, rng)
    rows = max(round(cells.sum()), 1)
    margins = [np.maximum(cells.sum(axis=axis), 0.0) for axis in (1, 0)]
    shares = np.outer(*(one / max(one.sum(), 1e-9) for one in margins)).ravel()
    variance = 2 * math.exp(-epsilon) / math.expm1(-epsilon) ** 2
    drawn = rng.multinomial(rows, shares / shares.sum(), size=RESAMPLES).reshape(-1, *cells.shape)
    null = departure(drawn + geometric(drawn.shape, epsilon, rng), None, variance)
    return float(1 + np.count_nonzero(null >= departure(cells, None, variance))) / (1 + RESAMPLES) <= LEVEL


def ranks(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """`Session.rank_test` with eight bins."""
    return by_table(difference_of_ranks, groups, epsilon, rng)


def distances(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """`Session.kolmogorov_smirnov` with eight bins."""
    return by_table(distance_of_distributions, groups, epsilon, rng)


def fitted(
    numbers: list[Array], labels: NDArray[np.int64], degrees: tuple[int, ...], epsilon: float, rng: Generator
) -> LinearMoments:
    """The release of `Session.regression`, with simulated noise."""
    found = np.ones((labels.size, 1))
    for values, degree in zip(numbers, degrees, strict=True):
        own = [math.comb(degree, k) * values**k * (1 - values) ** (degree - k) for k in range(degree + 1)]
        found = (found[:, :, None] * np.stack(own, axis=1)[:, None, :]).reshape(labels.size, -1)
    cells = int(labels.max()) + 1
    totals = np.zeros((cells, found.shape[1]))
    np.add.at(totals, labels, found)
    noisy = totals.ravel() + rng.laplace(0, 1 / epsilon, totals.size)
    return LinearMoments(totals=noisy, noise=2 / epsilon**2, kurtosis=3.0, cells=cells, degrees=degrees)


def variances(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """One-way analysis of variance as Welch's: the Wald test of `Session.regression` on labels."""
    values = np.clip(np.concatenate(groups), 0, 1)
    labels = np.repeat(np.arange(len(groups)), [one.size for one in groups])
    moments = fitted([values], labels, (2,), epsilon, rng)
    count = len(groups)
    terms = [Linear(np.ones(count), np.zeros(1))]
    terms += [Linear((np.arange(count) == one).astype(float), np.zeros(1)) for one in range(1, count)]
    fit = LeastSquares(moments, tuple(terms), Linear(np.zeros(count), np.ones(1)))
    return fit.wald(np.eye(count)[1:], np.zeros(count - 1)).pvalue <= LEVEL


def correlation(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """The slope of `Session.regression` of the second number on the first; both are shuffled apart."""
    x, y = (np.clip(one, 0, 1) for one in groups)
    moments = fitted([x, y], np.zeros(x.size, dtype=np.int64), (4, 2), epsilon, rng)
    terms = (Linear(np.ones(1), np.zeros(2)), Linear(np.zeros(1), np.array([1.0, 0.0])))
    fit = LeastSquares(moments, terms, Linear(np.zeros(1), np.array([0.0, 1.0])))
    return fit.pvalue(np.array([0.0, 1.0])) <= LEVEL


# ---- published rules ------------------------------------------------------------------------------------------------


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
        return rejects_by_null(found, rng.binomial(parts, level, 1999) + noise(1999))

    return tested


# ---- studies --------------------------------------------------------------------------------------------------------

POPULATIONS: dict[str, Callable[[Generator, int], Array]] = {
    "normal": lambda rng, n: rng.normal(0.5, 0.15, n),
    "ties": lambda rng, n: rng.choice([0.1, 0.3, 0.9], n, p=[0.7, 0.2, 0.1]),
    "heavy tails": lambda rng, n: 0.05 * rng.standard_cauchy(n) + 0.4,
    "skewed": lambda rng, n: rng.lognormal(-2.5, 1.0, n),
}
OURS = {"ranks": ranks, "Kolmogorov-Smirnov": distances, "analysis of variance": variances}


def sizes(repeats: int) -> list[dict[str, object]]:
    """How often each of our tests rejects where groups are alike."""
    found: list[dict[str, object]] = []
    for kind, draw in POPULATIONS.items():
        for counts in ((150, 150), (270, 30), (500, 300, 200)):
            for epsilon in (0.3, 1.0):
                rng = np.random.default_rng([sum(counts), int(10 * epsilon)])
                for name, test in OURS.items():
                    hits = sum(test([draw(rng, n) for n in counts], epsilon, rng) for _ in range(repeats))
                    found.append(
                        {
                            "test": name,
                            "population": kind,
                            "groups": list(counts),
                            "epsilon": epsilon,
                            "rejected": hits / repeats,
                        }
                    )
        rng = np.random.default_rng(7)
        hits = sum(correlation([draw(rng, 400), draw(rng, 400)], 1.0, rng) for _ in range(repeats))
        found.append(
            {"test": "correlation", "population": kind, "groups": [400], "epsilon": 1.0, "rejected": hits / repeats}
        )
        print(kind, flush=True)
    found.append({"test": "χ²", "table": "4 × 4, 500 rows", "epsilon": 0.3} | chi_square(0.3, repeats))
    return found


def chi_square(epsilon: float, repeats: int) -> dict[str, float]:
    """How often independent columns are called related: by a χ² test that ignores the noise, and by ours."""
    rng, hits = np.random.default_rng(3), np.zeros(2)
    table = ContingencyTable({"a": range(4), "b": range(4)})
    noise = Geometric.calibrate(PureDP(epsilon), table.sensitivity(neighbours=Neighbours.ADD_REMOVE))
    for _ in range(repeats):
        counts = rng.multinomial(500, np.full(16, 1 / 16)).reshape(4, 4)
        found = release(table.exact_counts(counts, neighbours=Neighbours.ADD_REMOVE), noise, rng=rng)
        cells = np.maximum(np.asarray(found.measured, dtype=float), 0.5)
        ignored = chi2_contingency(cells).pvalue
        ours = independence(found, null=MonteCarlo(n_resamples=RESAMPLES, rng=rng)).pvalue
        hits += np.array([float(ignored) <= LEVEL, ours <= LEVEL])
    return {"noise ignored": float(hits[0]) / repeats, "ours": float(hits[1]) / repeats}


def normal_groups(rng: Generator, *, n: int, means: tuple[float, ...], spread: float) -> Groups:
    """Groups of one size."""
    return [rng.normal(mean, spread, n // len(means)) for mean in means]


def power(repeats: int) -> list[dict[str, object]]:
    """How often each test finds a difference, ε = 1."""
    found: list[dict[str, object]] = []

    def compared(
        title: str, n: int, draw: Callable[[Generator], Groups], tests: dict[str, list[Callable[..., bool]]]
    ) -> None:
        one: dict[str, object] = {"setting": title, "rows": n}
        for name, options in tests.items():
            rates = []
            for option in options:
                rng = np.random.default_rng(n)
                rates.append(sum(option(draw(rng), 1.0, rng) for _ in range(repeats)) / repeats)
            one[name] = max(rates)
        print(one, flush=True)
        found.append(one)

    subsampled: list[Callable[..., bool]] = [test_of_tests(parts, level) for parts in (5, 10) for level in (0.05, 0.2)]
    sized: list[Callable[..., bool]] = [partial(mann_whitney, share=one) for one in (0.2, 0.35)]
    shared: list[Callable[..., bool]] = [partial(absolute_variances, share=one) for one in (0.5, 0.7)]
    for n in (100, 200, 400):
        compared(
            "two groups, half a standard deviation apart", n,
            partial(normal_groups, n=n, means=(0.44, 0.5), spread=0.12),
            {"ranks": [ranks], "Mann–Whitney 2019": sized, "Kruskal–Wallis 2019": [kruskal_wallis],
             "analysis of variance": [variances], "test of tests 2023": subsampled},
        )  # fmt: skip
    for n in (100, 200, 400):
        compared(
            "three groups, one standard deviation apart", n,
            partial(normal_groups, n=n, means=(0.35, 0.5, 0.65), spread=0.15),
            {"ranks": [ranks], "Kruskal–Wallis 2019": [kruskal_wallis], "analysis of variance": [variances],
             "F₁ 2019": shared},
        )  # fmt: skip
    return found


def main(part: str, repeats: int) -> None:
    """Run one part, and keep it."""
    stored: dict[str, object] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    stored[part] = {"size": sizes, "power": power}[part](repeats)
    stored[f"repeats of {part}"] = repeats
    RESULTS.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
