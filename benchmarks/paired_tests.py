"""Tests for pairs: how often balanced differences are called unbalanced, power beside a published rule, and coverage.

``python benchmarks/paired_tests.py PART REPEATS`` runs a part (size, power or coverage), prints it and keeps it in
``results/paired_tests.json``. What is stored is not run again; remove it to do so. The published rule is that of Couch
and others (2018) in `published_tests`, which takes the number of rows as public: replace-one neighbours. Ours runs with
a private number of rows (add/remove neighbours), and with the public one (replace-one) as that rule does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import published_tests as published
from discreet import ApproxDP, GaussianDP, MonteCarlo, Neighbours, PureDP, ZeroConcentratedDP
from discreet.core.guarantee import Guarantee
from discreet.inference.paired_differences import PairedDifferences
from discreet.mechanisms.additive import additive_noise
from discreet.questions.signed_rank import PairedBalance
from kept_rows import Row, run_missing
from published_tests import LEVEL, Generator

Array = NDArray[np.float64]
Test = Callable[[Array, float, Generator], bool]
RESULTS = Path(__file__).parent / "results" / "paired_tests.json"
STEPS = 1000
"""Grid steps in a standard deviation."""
GUARANTEES: tuple[Guarantee, ...] = (
    PureDP(0.1), PureDP(1.0), PureDP(5.0), ApproxDP(1.0, 1e-6), ZeroConcentratedDP(0.1), GaussianDP(0.5),
)  # fmt: skip
BALANCED: dict[str, Callable[[Generator, int], Array]] = {
    "normal": lambda rng, n: rng.normal(0, 1, n),
    "ties": lambda rng, n: rng.integers(-2, 3, n).astype(float),
    "one size": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(n),
    "many zeros": lambda rng, n: rng.normal(0, 1, n) * (rng.random(n) < 0.3),
}
SKEWED = {"skewed, balanced signs": lambda rng, n: np.exp(rng.normal(0, 1, n)) - 1}
"""As often positive as negative, and not symmetric: a hypothesis of signs alone."""
SHAPES: dict[str, Callable[[Generator, int], Array]] = {
    "normal": lambda rng, n: rng.normal(0, 1, n),
    "heavy tails": lambda rng, n: rng.standard_t(3, n) / 3**0.5,
}


def released(values: Array, guarantee: Guarantee, rng: Generator, scores: str, public: bool) -> PairedDifferences:
    """What `Session.signed_rank` releases, with simulated noise."""
    steps = np.clip(np.round(values * STEPS), -(2.0**40), 2.0**40).astype(np.int64)
    statistic = PairedBalance(scores=scores, n=steps.size if public else None)
    neighbours = Neighbours.REPLACE_ONE if public else Neighbours.ADD_REMOVE
    mechanism = additive_noise(guarantee, statistic.sensitivity(neighbours=neighbours), whole=scores == "signs")
    noise = mechanism.law(0.0)
    exact = np.atleast_1d(np.asarray(statistic.value(steps.tolist()), dtype=float))
    noisy = exact + np.asarray(noise.sample(exact.shape, rng=rng), dtype=float)
    balance, rows = (noisy[0], steps.size) if public else (noisy[0] - noisy[1], noisy.sum())
    return PairedDifferences(float(balance), float(rows), public, noise, statistic.how)


def rejects(found: PairedDifferences, rng: Generator) -> bool:
    """At the 5 % level, with fewer simulated releases than a session makes."""
    return found.test(MonteCarlo(n_resamples=999, rng=rng)).pvalue <= LEVEL


def sizes(repeats: int, kept: list[Row]) -> Iterator[Row]:
    """How often each test rejects a hypothesis that is true."""
    settings = [("ranks", BALANCED, GUARANTEES), ("signs", BALANCED | SKEWED, GUARANTEES[:2])]
    for scores, populations, guarantees in settings:
        for kind, n, guarantee, public in product(populations, (30, 300), guarantees, (False, True)):
            row: Row = {"scores": scores, "population": kind, "rows": n, "guarantee": str(guarantee), "public": public}
            if any(row.items() <= one.items() for one in kept):
                continue
            rng = np.random.default_rng(n)
            hits = sum(rejects(released(populations[kind](rng, n), guarantee, rng, scores, public), rng)
                       for _ in range(repeats))  # fmt: skip
            yield row | {"rejected": hits / repeats}


POWERS = ((30, 0.5), (100, 0.25), (200, 0.25), (400, 0.15), (1000, 0.1), (5000, 0.05))
LOW_POWERS = ((100, 1.0), (400, 0.4), (1000, 0.2), (5000, 0.06))


def ours(scores: str, public: bool) -> Test:
    """`Session.signed_rank` with these scores."""
    return lambda values, epsilon, rng: rejects(released(values, PureDP(epsilon), rng, scores, public), rng)


OF_PAIRS: dict[str, Test] = {
    "signed_rank": ours("ranks", public=False),
    "signed_rank, public rows": ours("ranks", public=True),
    "signs": ours("signs", public=False),
    "signed ranks 2018": lambda values, epsilon, rng: published.signed_ranks([0 * values, values], epsilon, rng),
}


def power(repeats: int, kept: list[Row]) -> Iterator[Row]:
    """How often each test finds a shift, in standard deviations."""
    for (epsilon, settings), kind in product(((1.0, POWERS), (0.1, LOW_POWERS)), SHAPES):
        for n, shift in settings:
            row: Row = {"population": kind, "epsilon": epsilon, "rows": n, "shift": shift}
            if any(row.items() <= one.items() for one in kept):
                continue
            for name, test in OF_PAIRS.items():
                data, rng = np.random.default_rng(n), np.random.default_rng([n, 1])  # the same rows for every test
                hits = [test(SHAPES[kind](data, n) + shift, epsilon, rng) for _ in range(repeats)]
                row[name] = sum(hits) / repeats
            yield row


def coverage(repeats: int, kept: list[Row]) -> Iterator[Row]:
    """How often the population's interval holds the share, and its width."""
    shapes = {**SHAPES, "skewed": lambda rng, n: np.exp(rng.normal(0, 1, n)) - 1.2, "ties": BALANCED["ties"]}
    for scores, kind, n, epsilon, shift in product(("ranks", "signs"), shapes, (30, 300), (0.1, 1.0), (0.0, 1.0)):
        row: Row = {"scores": scores, "population": kind, "rows": n, "epsilon": epsilon, "shift": shift}
        if any(row.items() <= one.items() for one in kept):
            continue
        rng = np.random.default_rng(n)
        first, second = (np.round((shapes[kind](rng, 2_000_000) + shift) * STEPS) for _ in range(2))
        if scores == "ranks":  # rows without a difference take no part where the number of rows is private
            first, second = first[first != 0][:1_500_000], second[second != 0][:1_500_000]
            size = min(first.size, second.size)
            truth = float((1 + np.sign(first[:size] + second[:size])).mean() / 2)
        else:
            truth = float((first[first != 0] > 0).mean())
        hits, width = 0, 0.0
        for seed in range(repeats):
            found = released(shapes[kind](rng, n) + shift, PureDP(epsilon), rng, scores, False)
            ends = found.interval(0.95, MonteCarlo(n_resamples=499, rng=seed), sampled=True)
            low, high = float(ends.low), float(ends.high)
            hits, width = hits + int(low <= truth <= high), width + (high - low) / repeats
        yield row | {"share": truth, "covered": hits / repeats, "width": width}


if __name__ == "__main__":
    run_missing(RESULTS, {"size": sizes, "power": power, "coverage": coverage}, sys.argv[1], int(sys.argv[2]))
