"""Tests for pairs: how often balanced differences are called unbalanced, and power beside a published rule.

``python benchmarks/paired_tests.py PART REPEATS`` runs a part (size, near or power), prints it and keeps it in
``results/paired_tests.json``. What is stored is not run again; remove it to do so. The published rule is that of Couch
and others (2018), of which `published_tests` has a plain form. It takes the number of rows as public: replace-one
neighbours. Ours runs with a private number of rows (add/remove neighbours), and with the public one (replace-one) as
that rule does. Coverage of the intervals is a part of the coverage study.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import groupby, product
from operator import attrgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from discreet import ApproxDP, GaussianDP, Neighbours, PureDP, ZeroConcentratedDP
from discreet.core.guarantee import Guarantee
from discreet.inference import MonteCarlo
from discreet.inference.ranks import PairedDifferences, PairedScores
from discreet.mechanisms.additive import additive_noise
from discreet.questions.signed_rank import PairedBalance
from kept_rows import Row, run_missing
from published_tests import LEVEL, Generator

Array = NDArray[np.float64]
Draw = Callable[[Generator, tuple[int, int]], Array]
RESULTS = Path(__file__).parent / "results" / "paired_tests.json"
STEPS = 1000
"""Grid steps in a standard deviation."""
AT_ONCE = 4_000_000
GUARANTEES: tuple[Guarantee, ...] = (
    PureDP(0.1), PureDP(1.0), PureDP(5.0), ApproxDP(1.0, 1e-6), ZeroConcentratedDP(0.1), GaussianDP(0.5),
)  # fmt: skip
BALANCED: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(0, 1, shape),
    "ties": lambda rng, shape: rng.integers(-2, 3, shape).astype(float),
    "one size": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "heavy tails": lambda rng, shape: rng.standard_cauchy(shape),
    "many zeros": lambda rng, shape: rng.normal(0, 1, shape) * (rng.random(shape) < 0.3),
}
SKEWED: dict[str, Draw] = {"skewed, balanced signs": lambda rng, shape: np.exp(rng.normal(0, 1, shape)) - 1}
"""As often positive as negative, and not symmetric: a hypothesis of signs alone."""
SHAPES: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(0, 1, shape),
    "heavy tails": lambda rng, shape: rng.standard_t(3, shape) / 3**0.5,
}


def sums_of_scores(steps: Array, scores: str, public: bool) -> tuple[Array, Array]:
    """The sum of scores of each line of differences, and how many rows take part."""
    signs, zeros = np.sign(steps), np.count_nonzero(steps == 0, axis=1)
    rows = np.full(steps.shape[0], steps.shape[1]) - (0 if public else zeros)
    if scores == "signs":
        return signs.sum(axis=1), rows.astype(float)
    ranks = rankdata(np.abs(steps), axis=1) - (0 if public else zeros[:, None])  # zeros have the lowest ranks
    return (signs * ranks).sum(axis=1), rows.astype(float)


def measured(draw: Draw, n: int, repeats: int, rng: Generator, scores: str, public: bool) -> tuple[Array, Array]:
    """Sums of scores, and rows that take part, of many samples of so many rows."""
    found, step = [], max(AT_ONCE // n, 1)
    for start in range(0, repeats, step):
        values = draw(rng, (min(step, repeats - start), n))
        steps = np.clip(np.round(values * STEPS), -(2.0**40), 2.0**40)
        found.append(sums_of_scores(steps, scores, public))
    sums, rows = zip(*found, strict=True)
    return np.concatenate(sums), np.concatenate(rows)


def released(
    sums: Array, rows: Array, guarantee: Guarantee, rng: Generator, scores: str, public: bool
) -> list[PairedDifferences]:
    """What `Session.signed_rank` releases of each sample, with simulated noise."""
    statistic = PairedBalance(scores=scores, n=int(rows[0]) if public else None)
    neighbours = Neighbours.REPLACE_ONE if public else Neighbours.ADD_REMOVE
    mechanism = additive_noise(guarantee, statistic.sensitivity(neighbours=neighbours), whole=scores == "signs")
    noise = mechanism.law(0.0)
    balances = np.asarray(statistic.how.balance(sums, np.maximum(rows, 1.0)))
    first, second = np.asarray(noise.sample((2, sums.size), rng=rng), dtype=float)
    balances, rows = (balances + first, rows) if public else (balances + first - second, rows + first + second)
    noisy = zip(balances.tolist(), rows.tolist(), strict=True)
    return [PairedDifferences(balance, size, public, noise, statistic.how) for balance, size in noisy]


def resamples(tests: int) -> int:
    """Simulated releases for tests that share them: five per test, so that errors come from the tests."""
    return 20 * max(50, tests // 4) - 1


def rejections(found: list[PairedDifferences], rng: Generator) -> float:
    """How many of the tests reject at the 5 % level; those of as many rows share one simulated distribution."""
    hits = 0
    for _, group in groupby(sorted(found, key=attrgetter("whole_rows")), key=attrgetter("whole_rows")):
        alike = list(group)
        null = MonteCarlo(n_resamples=resamples(len(alike)), rng=rng)
        simulated = np.sort(np.asarray(alike[0].test(null).null_distribution))
        statistics = [one.test(MonteCarlo(n_resamples=1, rng=rng)).statistic for one in alike]
        above = simulated.size - np.searchsorted(simulated, statistics)
        hits += int(np.count_nonzero((1 + above) / (1 + simulated.size) <= LEVEL))
    return hits / len(found)


def rejected_as_published(sums: Array, n: int, epsilon: float, rng: Generator) -> float:
    """The rule of 2018, `published_tests.signed_ranks`, for many samples at once."""
    noise, size = 2 * n / epsilon, resamples(sums.size)
    null = np.abs(PairedScores(public=True).null_totals(n, size, rng) + rng.laplace(0, noise, size))
    above = size - np.searchsorted(np.sort(null), np.abs(sums + rng.laplace(0, noise, sums.size)))
    return float(np.mean((1 + above) / (1 + size) <= LEVEL))


def size_of(row: Row, draw: Draw, guarantee: Guarantee, repeats: int) -> Row:
    """How often a test rejects a hypothesis that is true, in a setting that seeds its own simulations."""
    rng = np.random.default_rng(list(repr(sorted(row.items())).encode()))
    sums, rows = measured(draw, row["rows"], repeats, rng, row["scores"], row["public"])
    return row | {"rejected": rejections(released(sums, rows, guarantee, rng, row["scores"], row["public"]), rng)}


def sizes(repeats: int, kept: list[Row]) -> Iterator[Row]:
    """How often each test rejects a hypothesis that is true."""
    for scores, populations in (("ranks", BALANCED), ("signs", BALANCED | SKEWED)):
        for kind, n, guarantee, public in product(populations, (30, 300, 1000), GUARANTEES, (False, True)):
            row: Row = {"scores": scores, "population": kind, "rows": n, "guarantee": str(guarantee), "public": public}
            if not any(row.items() <= one.items() for one in kept):
                yield size_of(row, populations[kind], guarantee, repeats)


def near(repeats: int, kept: list[Row]) -> Iterator[Row]:
    """The same around ρ = 0.1 and 300 rows, with normal noise and a private number of rows."""
    for kind, n, rho in product(("normal", "ties", "heavy tails"), (150, 300, 450), (0.05, 0.1, 0.2)):
        guarantee = ZeroConcentratedDP(rho)
        row: Row = {"scores": "ranks", "population": kind, "rows": n, "guarantee": str(guarantee), "public": False}
        if not any(row.items() <= one.items() for one in kept):
            yield size_of(row, BALANCED[kind], guarantee, repeats)


POWERS = ((30, 0.5), (100, 0.25), (200, 0.25), (400, 0.15), (1000, 0.1), (5000, 0.05))
LOW_POWERS = ((100, 1.0), (400, 0.4), (1000, 0.2), (5000, 0.06))
OURS = {
    "signed_rank": ("ranks", False),
    "signed_rank, public rows": ("ranks", True),
    "signs": ("signs", False),
}


def power(repeats: int, kept: list[Row]) -> Iterator[Row]:
    """How often each test finds a shift, in standard deviations."""
    for (epsilon, settings), kind in product(((1.0, POWERS), (0.1, LOW_POWERS)), SHAPES):
        for n, shift in settings:
            row: Row = {"population": kind, "epsilon": epsilon, "rows": n, "shift": shift}
            if any(row.items() <= one.items() for one in kept):
                continue

            def draw(rng: Generator, shape: tuple[int, int], kind: str = kind, shift: float = shift) -> Array:
                return SHAPES[kind](rng, shape) + shift

            noise = np.random.default_rng([n, 1])
            for name, (scores, public) in OURS.items():
                # the same rows for every test
                sums, rows = measured(draw, n, repeats, np.random.default_rng(n), scores, public)
                row[name] = rejections(released(sums, rows, PureDP(epsilon), noise, scores, public), noise)
            sums, _ = measured(draw, n, repeats, np.random.default_rng(n), "ranks", True)
            yield row | {"signed ranks 2018": rejected_as_published(sums, n, epsilon, noise)}


if __name__ == "__main__":
    run_missing(RESULTS, {"size": sizes, "near": near, "power": power}, sys.argv[1], int(sys.argv[2]))
