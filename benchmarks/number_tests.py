"""Tests on numbers: how often equal groups are told apart, and power beside published private tests at the same ε.

``python benchmarks/number_tests.py PART REPEATS`` runs a part (size, power or tables), prints it and keeps it in
``results/number_tests.json``. What is stored is not run again; remove it to do so. The published rules are those of
`published_tests`. Their splits of ε, numbers of subsamples, cut-offs and levels are the best of a grid, for which they
are not charged. All of them take the number of rows, and bounds between 0 and 1 where they need any. Ours are for
add/remove neighbours, with a private number of rows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import paired_tests
import published_tests as published
from discreet import Neighbours, PureDP, release
from discreet.inference import MonteCarlo, independence
from discreet.inference.least_squares import LeastSquares, Linear, LinearMoments
from discreet.inference.moments import PairMoments, PartMoments
from discreet.inference.ranks import correlation_of_ranks, difference_of_ranks, distance_of_distributions
from discreet.inference.tables import Departure
from discreet.mechanisms import Geometric
from discreet.questions import ContingencyTable, compare_arms
from kept_rows import Row, run_missing
from published_tests import LEVEL, RESAMPLES, Generator, Groups, geometric

Array = NDArray[np.float64]
Test = Callable[[Groups, float, Generator], bool]
RESULTS = Path(__file__).parent / "results" / "number_tests.json"
BINS = 8


# ---- ours -----------------------------------------------------------------------------------------------------------


def noisy_table(groups: Groups, epsilon: float, rng: Generator) -> Array:
    """Counts by group and bins of one width between 0 and 1, with geometric noise."""
    edges = np.linspace(0, 1, BINS + 1)
    cells = np.stack([np.histogram(np.clip(one, 0, 1), edges)[0] for one in groups])
    return np.asarray(cells + geometric(cells.shape, epsilon, rng), dtype=float)


def by_table(departure: Departure, cells: Array, epsilon: float, rng: Generator) -> bool:
    """Whether a test of a noisy table rejects, as `discreet.inference.ranks` simulates it."""
    rows = max(round(cells.sum()), 1)
    margins = [np.maximum(cells.sum(axis=axis), 0.0) for axis in (1, 0)]
    shares = np.outer(*(one / max(one.sum(), 1e-9) for one in margins)).ravel()
    variance = 2 * math.exp(-epsilon) / math.expm1(-epsilon) ** 2
    drawn = rng.multinomial(rows, shares / shares.sum(), size=RESAMPLES).reshape(-1, *cells.shape)
    null = departure(drawn + geometric(drawn.shape, epsilon, rng), None, variance)
    return float(1 + np.count_nonzero(null >= departure(cells, None, variance))) / (1 + RESAMPLES) <= LEVEL


def ranks(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """`Session.rank_test` with eight bins."""
    return by_table(difference_of_ranks, noisy_table(groups, epsilon, rng), epsilon, rng)


def distances(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """`Session.kolmogorov_smirnov` with eight bins."""
    return by_table(distance_of_distributions, noisy_table(groups, epsilon, rng), epsilon, rng)


def rank_correlation(
    groups: Groups, epsilon: float, rng: Generator, edges: tuple[float, ...] = (0, 1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6, 1)
) -> bool:
    """`Session.rank_correlation` with public edges; six bins of one width where none are given."""
    x, y = (np.clip(one, 0, 1) for one in groups)
    cells = np.histogram2d(x, y, bins=np.array(edges))[0]
    return by_table(correlation_of_ranks, cells + geometric(cells.shape, epsilon, rng), epsilon, rng)


def means(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """Welch's test of `Session.compare_arms`: any number of groups."""
    arms = {str(place): np.clip(one, 0, 1) for place, one in enumerate(groups)}
    found = compare_arms(
        arms, bounds=(0, 1), guarantee=PureDP(epsilon), neighbours=Neighbours.ADD_REMOVE, arm="private", rng=rng
    )
    return found.joint_test.pvalue <= LEVEL


def noisy_parts(numbers: list[Array], degrees: tuple[int, ...], epsilon: float, rng: Generator) -> Array:
    """Totals in tensor parts, with simulated noise."""
    found = np.ones((numbers[0].size, 1))
    for values, degree in zip(numbers, degrees, strict=True):
        u = np.clip(values, 0, 1)
        own = [math.comb(degree, k) * u**k * (1 - u) ** (degree - k) for k in range(degree + 1)]
        found = (found[:, :, None] * np.stack(own, axis=1)[:, None, :]).reshape(u.size, -1)
    return np.asarray(found.sum(axis=0) + rng.laplace(0, 1 / epsilon, found.shape[1]))


def slope(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """The slope of `Session.regression` of the second number on the first."""
    totals = noisy_parts(groups, (4, 2), epsilon, rng)
    moments = LinearMoments(totals=totals, noise=2 / epsilon**2, kurtosis=3.0, cells=1, degrees=(4, 2))
    terms = (Linear(np.ones(1), np.zeros(2)), Linear(np.zeros(1), np.array([1.0, 0.0])))
    fit = LeastSquares(moments, terms, Linear(np.zeros(1), np.array([0.0, 1.0])))
    return float(fit.pvalue(np.array([0.0, 1.0]))) <= LEVEL


def correlation(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """The correlation of `Session.covariance_matrix`."""
    totals = noisy_parts(groups, (4, 4), epsilon, rng)
    moments = PairMoments(totals=totals, noise=2 / epsilon**2, kurtosis=3.0, shape=(5, 5))
    return not bool(moments.accepts_correlation(0.0, 1 - LEVEL))


def pairs(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """The mean difference of pairs, by the population interval of `Session.mean` with its spread."""
    totals = noisy_parts([0.5 + (groups[1] - groups[0]) / 2], (4,), epsilon, rng)
    moments = PartMoments(totals=totals, noise=2 / epsilon**2, kurtosis=3.0)
    return not bool(moments.accepts_mean(0.5, 1 - LEVEL))


def signed_ranks(groups: Groups, epsilon: float, rng: Generator) -> bool:
    """`Session.signed_rank`."""
    steps = np.round((groups[1] - groups[0])[None] * paired_tests.STEPS)
    sums, rows = paired_tests.sums_of_scores(steps, "ranks", public=False)
    found = paired_tests.released(sums, rows, PureDP(epsilon), rng, "ranks", public=False)
    return paired_tests.rejections(found, rng) == 1


# ---- studies --------------------------------------------------------------------------------------------------------

POPULATIONS: dict[str, Callable[[Generator, int], Array]] = {
    "normal": lambda rng, n: rng.normal(0.5, 0.15, n),
    "ties": lambda rng, n: rng.choice([0.1, 0.3, 0.9], n, p=[0.7, 0.2, 0.1]),
    "heavy tails": lambda rng, n: 0.05 * rng.standard_cauchy(n) + 0.4,
    "skewed": lambda rng, n: rng.lognormal(-2.5, 1.0, n),
}
OF_GROUPS: dict[str, Test] = {"rank_test": ranks, "kolmogorov_smirnov": distances, "compare_arms": means}
OF_PAIRS: dict[str, Test] = {
    "rank_correlation": rank_correlation,
    "regression": slope,
    "covariance_matrix": correlation,
    "mean": pairs,
}


def sizes(repeats: int, kept: list[Row]) -> Iterator[Row]:
    """How often each of our tests rejects where groups are alike, or numbers unrelated."""
    alike = [(OF_GROUPS, counts) for counts in ((150, 150), (270, 30), (500, 300, 200))]
    for kind, (tests, counts), epsilon in product(POPULATIONS, [*alike, (OF_PAIRS, (400, 400))], (0.3, 1.0)):
        for name, test in tests.items():
            row: Row = {"test": name, "population": kind, "groups": list(counts), "epsilon": epsilon}
            if any(row.items() <= one.items() for one in kept):
                continue
            rng, draw = np.random.default_rng([sum(counts), int(10 * epsilon)]), POPULATIONS[kind]
            hits = sum(test([draw(rng, n) for n in counts], epsilon, rng) for _ in range(repeats))
            yield row | {"rejected": hits / repeats}


def apart(rng: Generator, *, n: int, means: tuple[float, ...], spread: float) -> Groups:
    """Normal groups of one size."""
    return [rng.normal(mean, spread, n // len(means)) for mean in means]


def related(rng: Generator, *, n: int, slope: float) -> Groups:
    """Two numbers that go together a little."""
    x = rng.normal(0.5, 0.15, n)
    return [x, 0.5 + slope * (x - 0.5) + rng.normal(0, 0.15, n)]


def before_and_after(rng: Generator, *, n: int, gain: float) -> Groups:
    """Pairs whose second value is a little larger."""
    first = rng.normal(0.45, 0.15, n)
    return [first, first + rng.normal(gain, 0.12, n)]


TWO: dict[str, list[Test]] = {
    "rank_test": [ranks],
    "Mann–Whitney 2019": [partial(published.mann_whitney, share=one) for one in (0.2, 0.35)],
    "Kruskal–Wallis 2019": [published.kruskal_wallis],
    "compare_arms": [means],
    "test of tests 2023": [published.test_of_tests(parts, level) for parts in (5, 10) for level in (0.05, 0.2)],
}
THREE: dict[str, list[Test]] = {
    "rank_test": [ranks],
    "Kruskal–Wallis 2019": [published.kruskal_wallis],
    "compare_arms": [means],
    "F₁ 2019": [partial(published.absolute_variances, share=one) for one in (0.5, 0.7)],
}
SLOPE: dict[str, list[Test]] = {
    "rank_correlation": [rank_correlation],
    "rank_correlation, chosen edges": [partial(rank_correlation, edges=(0, 0.37, 0.46, 0.54, 0.63, 1))],
    "regression": [slope],
    "covariance_matrix": [correlation],
    "subsets 2019": [published.subset_statistics(parts, cut) for parts in (10, 25, 50) for cut in (1.5, 3.0)],
}
PAIRS: dict[str, list[Test]] = {
    "signed_rank": [signed_ranks],
    "mean": [pairs],
    "signed ranks 2018": [published.signed_ranks],
}
POWERS: dict[str, tuple[tuple[int, ...], Callable[..., Groups], dict[str, list[Test]]]] = {
    "two groups, half a standard deviation apart": (
        (100, 200, 400), partial(apart, means=(0.44, 0.5), spread=0.12), TWO,
    ),
    "three groups, one standard deviation apart": (
        (100, 200, 400), partial(apart, means=(0.35, 0.5, 0.65), spread=0.15), THREE,
    ),
    "two numbers with a correlation of 0.15": ((500, 1000, 2000), partial(related, slope=0.15), SLOPE),
    "pairs, a quarter of a standard deviation apart": ((100, 200, 400), partial(before_and_after, gain=0.03), PAIRS),
}  # fmt: skip


def power(repeats: int, kept: list[Row]) -> Iterator[Row]:
    """How often each test finds what is there, ε = 1."""
    for title, (numbers, draw, tests) in POWERS.items():
        for n in numbers:
            row: Row = {"setting": title, "rows": n}
            if any(row.items() <= one.items() for one in kept):
                continue
            for name, options in tests.items():
                rates = []
                for option in options:
                    rng = np.random.default_rng(n)
                    rates.append(sum(option(draw(rng, n=n), 1.0, rng) for _ in range(repeats)) / repeats)
                row[name] = max(rates)
            yield row


def noise_aware(counts: Array, epsilon: float, rng: Generator) -> bool:
    """`Session.independence`."""
    table = ContingencyTable({"a": range(len(counts)), "b": range(counts.shape[1])})
    noise = Geometric.calibrate(PureDP(epsilon), table.sensitivity(neighbours=Neighbours.ADD_REMOVE))
    found = release(table.exact_counts(counts, neighbours=Neighbours.ADD_REMOVE), noise, rng=rng)
    return independence(found, null=MonteCarlo(n_resamples=RESAMPLES, rng=rng)).pvalue <= LEVEL


TABLES: dict[str, Callable[[NDArray[Any], float, Generator], bool]] = {
    "independence": noise_aware,
    "simulated χ² 2016": published.simulated_table,
    "DPrivStats 2026": published.rounded_table,
}


def tables(repeats: int, kept: list[Row]) -> Iterator[Row]:
    """How often each test of a table rejects, where its columns are independent and where they are not."""
    for (size, rows), epsilon, excess in product(((2, 200), (4, 500), (4, 2000)), (0.3, 1.0), (0.0, 0.1)):
        row: Row = {"table": f"{size} × {size}", "rows": rows, "epsilon": epsilon, "excess": excess}
        if any(row.items() <= one.items() for one in kept):
            continue
        shares = (1 - excess) / size**2 + excess * np.eye(size) / size
        for name, test in TABLES.items():
            rng = np.random.default_rng([size, rows])
            drawn = (rng.multinomial(rows, shares.ravel()).reshape(size, size) for _ in range(repeats))
            row[name] = sum(test(one, epsilon, rng) for one in drawn) / repeats
        yield row


if __name__ == "__main__":
    run_missing(RESULTS, {"size": sizes, "power": power, "tables": tables}, sys.argv[1], int(sys.argv[2]))
