"""How long noise intervals of the median are, for kinds of rows that make them long, beside what nobody can avoid.

Run ``python benchmarks/quantile_intervals.py``: it prints the table of ``docs/proofs/quantile.md``. Rows are those
strictly inside: an interval that ends on a heap does not enclose it. It takes two minutes.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from numpy.typing import NDArray

from discreet import Bounds, Neighbours, PureDP
from discreet.questions.quantile import Quantiles

ROWS, EPSILON, LEVEL = 1000, 1.0, 0.95
GRIDS = (10**4, 2 * 10**6)
KINDS = {
    "spread evenly": False,
    "incomes (lognormal)": False,
    "within a hundredth of the bounds": False,
    "a gap of a fifth of the bounds at the median": False,
    "a gap of four fifths": False,
    "a gap of seven tenths, thirty times as dense below as above": False,
    "incomes, half of them at multiples of 1/200 of the bounds": True,
    "incomes, all at such multiples": True,
    "nine values, not round ones": True,
}
"""Whether rows share values."""


def rows_of(kind: str, rng: np.random.Generator) -> NDArray[np.float64]:
    """A thousand numbers between 0 and 1."""
    even, half = rng.random(ROWS), rng.random(ROWS) < 0.5
    incomes = np.minimum(rng.lognormal(-3.5, 0.8, ROWS), 1)
    round_incomes = np.round(incomes * 200) / 200
    numbers = [
        even,
        incomes,
        0.31 + 0.01 * even,
        np.where(half, 0.4 * even, 1 - 0.4 * even),
        np.where(half, 0.1 * even, 1 - 0.1 * even),
        np.where(half, 0.01 * even, 1 - 0.3 * even),
        np.where(half, round_incomes, incomes),
        round_incomes,
        0.0213 + 0.1037 * rng.integers(0, 9, ROWS),
    ]
    return dict(zip(KINDS, numbers, strict=True))[kind]


def least(points: int, *, tied: bool, epsilon: float = EPSILON) -> int:
    """Rows that half of the intervals enclose for some rows on the grid, whatever the mechanism (Theorem 6).

    Examples
    --------
    >>> [least(points, tied=tied) for points in (10**4, 2 * 10**6) for tied in (False, True)]
    [5, 7, 10, 13]
    """
    rows = 0
    while (rows + 1) * epsilon < math.log((LEVEL - 0.5) / 2 * (points // (1 if tied else rows + 1))):
        rows += 1
    return rows


def measured(kind: str, points: int, repeats: int) -> tuple[float, float, float]:
    """Mean number of rows strictly inside, its standard error, and the share of intervals that enclose the median."""
    rng, inside, held = np.random.default_rng(points), [], []
    statistic = Quantiles(probabilities=0.5, bounds=Bounds(0, points, grid=1), interval=LEVEL)
    mechanism = statistic.mechanism(PureDP(EPSILON), statistic.sensitivity(neighbours=Neighbours.ADD_REMOVE))
    for _ in range(repeats):
        exact = statistic.exact(rows_of(kind, rng) * points, neighbours=Neighbours.ADD_REMOVE)
        steps, counts = np.asarray(exact.value)
        rows = np.repeat(steps, counts)
        low, _, high = np.asarray(mechanism.draw(exact.value, rng=rng))
        inside.append(max(int(np.searchsorted(rows, high)) - int(np.searchsorted(rows, low, side="right")), 0))
        held.append(low <= rows[ROWS // 2] and high >= rows[ROWS // 2 - 1])
    return float(np.mean(inside)), float(np.std(inside)) / math.sqrt(repeats), float(np.mean(held))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=400)
    repeats = parser.parse_args().repeats
    print("| rows | 10⁴ points | 2·10⁶ points | enclosed | nobody less than |")
    print("|---|---:|---:|---:|---:|")
    for kind, tied in KINDS.items():
        found = [measured(kind, points, repeats) for points in GRIDS]
        means = " | ".join(f"{mean:.1f} ± {error:.1f}" for mean, error, _ in found)
        bounds = ", ".join(str(least(points, tied=tied)) for points in GRIDS)
        print(f"| {kind} | {means} | {min(share for *_, share in found):.1%} | {bounds} |", flush=True)


if __name__ == "__main__":
    main()
