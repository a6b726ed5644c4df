"""Why k-median shows no effect of sampling at the budgets of miranda2026, and where an effect begins.

The paper's setting (100 points on a grid of 10,000 positions, four centres, gupta2010) splits ε over T + 1 = 223
choices. This part follows the cost of the centres up to an ε that is ten thousand times as large, and beside it the
reading in which every choice may spend the whole ε. Costs depend on the number of rows n and on ε through n·ε alone, so
a larger ε stands for more rows as well.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from discreet.papers.figure import Figure
from discreet.papers.miranda2026_data import four_groups
from discreet.papers.study import Parameters, Part, Row
from discreet.questions.clusters.kmedian import LocalSearch

__all__ = ["KMEDIAN"]

Array = NDArray[np.float64]

CENTRES = 4
SIDE = 100
DIAMETER = math.hypot(SIDE - 1, SIDE - 1)
CELLS = 2**30
"""Costs of `LocalSearch` are in these parts of a diameter."""
WHOLE, EACH = "ε over all choices", "ε for each choice"
RATES = (1.0, 0.5, 0.1)


@cache
def _universe() -> Array:
    return np.array(list(itertools.product(range(1, SIDE + 1), repeat=2)), dtype=float)


@cache
def _weights() -> Array:
    """How many of the 100 rows are at each position."""
    rows = four_groups(2026).astype(int)
    return np.bincount((rows[:, 0] - 1) * SIDE + rows[:, 1] - 1, minlength=SIDE * SIDE).astype(float)


def _swaps() -> int:
    return math.ceil(6 * CENTRES * math.log(SIDE * SIDE))


def _cost(centres: NDArray[np.intp]) -> float:
    """Average distance of all rows to the nearest centre."""
    rows, places = four_groups(2026), _universe()[centres]
    return float(np.linalg.norm(rows[:, None] - places[None], axis=2).min(axis=1).mean())


def _before_sampling(epsilon: float, rate: float) -> float:
    """What may be spent behind a Poisson sample: log(1 + (e^ε − 1)/rate)."""
    return epsilon - math.log(rate) if epsilon > 500 else math.log1p(math.expm1(epsilon) / rate)


def _searched(strength: float, rate: float, generator: np.random.Generator) -> float:
    """One run of gupta2010's local search on a sample, each choice by the exponential mechanism of that strength."""
    weights = _weights()
    kept = weights if rate == 1 else generator.binomial(weights.astype(int), rate).astype(float)
    search = LocalSearch(_universe(), kept, DIAMETER, generator.choice(SIDE * SIDE, CENTRES, replace=False))
    factor = strength / CELLS
    visited, costs = [], []
    for _ in range(_swaps()):
        scores = search.swap_costs().ravel()
        # The largest score with Gumbel noise is a choice of the exponential mechanism; used positions cost infinity.
        chosen = int(np.argmax(generator.gumbel(size=scores.size) - factor * scores))
        search.swap(chosen // (SIDE * SIDE), chosen % (SIDE * SIDE))
        visited.append(search.centres.copy())
        costs.append(search.cost())
    best = int(np.argmax(generator.gumbel(size=len(costs)) - factor * np.array(costs)))
    return _cost(visited[best])


def _descended(generator: np.random.Generator) -> float:
    """The same search without noise, until no swap helps."""
    search = LocalSearch(_universe(), _weights(), DIAMETER, generator.choice(SIDE * SIDE, CENTRES, replace=False))
    while True:
        scores = search.swap_costs().ravel()
        best = int(np.argmin(scores))
        if scores[best] >= search.cost():
            return _cost(search.centres)
        search.swap(best // (SIDE * SIDE), best % (SIDE * SIDE))


def _cells(quick: bool) -> Sequence[Parameters]:
    if quick:
        settings = [(WHOLE, 2.0, 1.0), (WHOLE, 2e4, 1.0)]
    else:
        settings = [(WHOLE, epsilon, rate) for epsilon in (2.0, 20.0, 200.0, 2000.0, 20_000.0) for rate in RATES]
        settings += [(EACH, epsilon, rate) for epsilon in (0.25, 0.5, 1.0, 2.0) for rate in RATES]
    repeats = 1 if quick else 8
    searches: list[Parameters] = [
        {"reading": reading, "epsilon": epsilon, "rate": rate, "repeats": repeats}
        for reading, epsilon, rate in settings
    ]
    ends: list[Parameters] = [
        {"reading": "random centres", "repeats": 2000},
        {"reading": "no noise", "repeats": repeats},
    ]
    return searches + ends


def _rows(parameters: Parameters, seed: int) -> Iterable[Row]:
    generator = np.random.default_rng(seed)
    reading, repeats = str(parameters["reading"]), int(parameters["repeats"] or 0)
    rate, epsilon, strength = None, None, 0.0
    if reading == "random centres":
        costs = [_cost(generator.choice(SIDE * SIDE, CENTRES, replace=False)) for _ in range(repeats)]
    elif reading == "no noise":
        costs = [_descended(generator) for _ in range(repeats)]
    else:
        epsilon, rate = float(parameters["epsilon"] or 0), float(parameters["rate"] or 0)
        spent = _before_sampling(epsilon, rate)
        strength = spent / 2 if reading == EACH else spent / (2 * (_swaps() + 1))
        costs = [_searched(strength, rate, generator) for _ in range(repeats)]
    found = np.array(costs)
    error = float(found.std(ddof=1) / math.sqrt(repeats)) if repeats > 1 else 0.0
    yield {
        "reading": reading, "epsilon": epsilon, "rate": rate, "cost": float(found.mean()), "standard error": error,
        "low": float(found.mean() - 1.96 * error), "high": float(found.mean() + 1.96 * error),
        "strength": strength, "repeats": repeats,
    }  # fmt: skip


def _finding(rows: list[Row]) -> str:
    at = {(row["reading"], row["epsilon"], row["rate"]): row for row in rows}
    if ("random centres", None, None) not in at or ("no noise", None, None) not in at:
        return f"{len(rows)} settings, too few to tell."
    random, bottom = at["random centres", None, None]["cost"], at["no noise", None, None]["cost"]
    first = at[WHOLE, 2.0, 1.0]
    choices = _swaps() + 1
    text = (
        f"Random centres cost {random:.1f} and the search without noise ends at {bottom:.1f}. At ε = 2, the largest "
        f"budget of the paper, the search costs {first['cost']:.1f} ± {first['standard error']:.1f}: that does not "
        f"differ from random centres. The reason is arithmetic: ε is split over {choices} choices among about 40,000 "
        f"candidates, so each weighs costs with ε/(2·{choices}) = {first['strength']:.4f} per diameter. All candidates "
        "of one choice lie within about 24 diameters of each other, so their weights differ by a factor of at most "
        f"e^{24 * first['strength']:.2f}."
    )
    if (WHOLE, 200.0, 1.0) not in at:
        return text
    path = ", ".join(f"{at[WHOLE, e, 1.0]['cost']:.1f} at ε = {e:g}" for e in (20.0, 200.0, 2000.0, 20_000.0))
    each = ", ".join(f"{at[EACH, 1.0, rate]['cost']:.1f} at rate {rate:g}" for rate in RATES)
    return (
        f"{text} The data begin to matter at budgets a hundred times larger: {path}. If every choice spends the whole "
        f"ε, which costs {choices}·ε in all, the costs at ε = 1 are {each}. The paper does not say which candidates, "
        "how many swaps and which part of ε per swap it used."
    )


def _drawn(rows: list[Row]) -> list[Row]:
    return [{**row, "rate": f"rate {row['rate']:g}"} if row["rate"] is not None else row for row in rows]


KMEDIAN = Part(
    name="k-median",
    title="k-median: from which ε on do the data matter?",
    cells=_cells,
    compute=_rows,
    reported="",
    summary=_drawn,
    finding=_finding,
    figures=tuple(
        Figure(
            name=f"k-median-{name}", title=title, x="epsilon", y="cost", low="low", high="high", colour="rate",
            log_x=True,
            where=(("reading", reading),), measure="average distance to the nearest centre",
        )
        for name, title, reading in (
            ("whole", "ε split over all choices", WHOLE), ("each", "every choice spends the whole ε", EACH),
        )
    ),
)  # fmt: skip
