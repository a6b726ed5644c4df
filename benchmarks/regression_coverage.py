"""Coverage of the intervals of regressions, on outcomes of five kinds.

``python benchmarks/regression_coverage.py seconds repeats [part of a name …]`` brings the cells whose names have all of
these parts to so many repeats, those with the fewest first, until the time is over. Fix the number of repeats before
looking at figures. Every slope counts, and for several numbers the slope of a model on the first alone. An interval
without an end is a refusal; it holds the truth, and is counted apart too. ``--slopes`` finds the slopes of the
populations again.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from discreet import GaussianDP, PureDP
from discreet.core.guarantee import Guarantee
from discreet.inference.least_squares import LeastSquares
from regression_releases import Simulation

Array = NDArray[np.float64]
RESULTS = Path(__file__).parent / "results" / "regression_coverage.json"
SLOPES_FOUND = RESULTS.with_name("regression_slopes.json")
SLOPES = np.array([0.25, -0.15, 0.1, 0.0, 0.05, 0.0, 0.0, -0.05])
ERRORS: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "equal variances": lambda rng, x: rng.normal(0.0, 0.12, len(x)),
    "unequal variances": lambda rng, x: (0.02 + 0.6 * np.abs(x[:, 0] - 0.5)) * rng.standard_normal(len(x)),
    "skewed": lambda rng, x: rng.exponential(0.12, len(x)) - 0.12,
    "heavy tails, clipped": lambda rng, x: 0.06 * rng.standard_t(2.5, len(x)),
}
OUTCOMES = (*ERRORS, "yes or no")
PEOPLE, NUMBERS = (300, 1_000, 5_000, 50_000), (1, 2, 4, 8)
GUARANTEES: dict[str, Guarantee] = {
    "ε = 0.3": PureDP(0.3), "ε = 1": PureDP(1.0), "ε = 5": PureDP(5.0), "μ = 1": GaussianDP(1.0)
}  # fmt: skip
"""ρ = 1/2 has the noise of μ = 1."""
STORED_EVERY, AT_ONCE = 200, 8_192


def at_a_time(n: int) -> int:
    """How many repeats are drawn together: at most 1.25 million rows, which all are in memory."""
    return min(1_250_000 // n, 100)


def drawn(outcome: str, numbers: int, n: int, repeats: int, rng: np.random.Generator) -> Array:
    """Samples of rows: a 1, correlated numbers between 0 and 1, and the outcome last."""
    rows = np.ones((repeats * n, numbers + 2))
    for start in range(0, len(rows), AT_ONCE):
        piece = rows[start : start + AT_ONCE]
        piece[:, 1:-1] = x = _numbers(numbers, len(piece), rng)
        means = _unclipped_means(x)
        yes = outcome == "yes or no"
        piece[:, -1] = rng.random(len(x)) < means if yes else np.clip(means + ERRORS[outcome](rng, x), 0.0, 1.0)
    return rows.reshape(repeats, n, -1)


def _numbers(numbers: int, n: int, rng: np.random.Generator) -> Array:
    found = rng.standard_normal((n, numbers))
    found *= 0.16
    found += 0.12 * rng.standard_normal((n, 1)) + 0.45
    return np.clip(found, 0.0, 1.0, out=found)


def _unclipped_means(x: Array) -> Array:
    return np.asarray(0.4 + (x - 0.45) @ SLOPES[: x.shape[-1]])


def expected(outcome: str, x: Array) -> Array:
    """The mean outcome of rows with these numbers, after clipping."""
    means = _unclipped_means(x)
    if outcome == "yes or no":
        return means
    # An outcome between 0 and 1 has the mean ∫₀¹ P(m + e > t) dt, the growth of E min(e, z) from −m to 1 − m.
    return _capped(outcome, x, 1.0 - means) - _capped(outcome, x, -means)


def _capped(outcome: str, x: Array, z: Array) -> Array:
    """The mean of the smaller of an error and z: z P(e > z) + E(e; e ≤ z)."""
    from scipy.special import ndtr, stdtr

    if outcome == "skewed":
        above = z + 0.12
        return np.where(above < 0.0, z, -0.12 * np.exp(-np.maximum(above, 0.0) / 0.12))
    if outcome == "heavy tails, clipped":
        df, t = 2.5, z / 0.06
        peak = math.gamma((df + 1) / 2) / (math.gamma(df / 2) * math.sqrt(df * math.pi))
        density = peak * (1 + t**2 / df) ** (-(df + 1) / 2)
        return np.asarray(0.06 * (t * stdtr(df, -t) - density * (df + t**2) / (df - 1)))
    scale = 0.12 if outcome == "equal variances" else 0.02 + 0.6 * np.abs(x[:, 0] - 0.5)
    t = z / scale
    return np.asarray(scale * (t * ndtr(-t) - np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)))


def held(fit: LeastSquares, truths: Array) -> list[int]:
    """How many intervals of every slope hold the truth."""
    every = np.eye(len(fit.terms))[1:]
    return [int(np.sum(fit.pvalue(row, float(truth)) >= 0.05)) for row, truth in zip(every, truths, strict=True)]


def endless(fit: LeastSquares) -> list[int]:
    """How many intervals of every slope have no end."""
    every = (fit.interval(row, 0.95) for row in np.eye(len(fit.terms))[1:])
    return [int(np.sum(np.isinf(np.subtract(high, low)))) for low, high in every]


def slopes_of(outcome: str, numbers: int, rows: int = 250_000, chunks: int = 24) -> dict[str, Any]:
    """Slopes in the population, on all numbers and on the first alone, from the mean outcomes of six million rows.

    Outcomes themselves would leave the slopes uncertain by a tenth of the standard error that 50,000 people have. Their
    uncertainty is told from the spread of the chunks.
    """
    rng = np.random.default_rng(crc32(f"{outcome} {numbers}".encode()))
    products = np.zeros((chunks, numbers + 2, numbers + 2))
    for chunk in products:
        x = _numbers(numbers, rows, rng)
        sample = np.column_stack([np.ones(rows), x, expected(outcome, x)])
        chunk += sample.T @ sample
    few = products[:, [[0], [1], [-1]], [0, 1, -1]]
    every, alone = (_slopes(np.concatenate([one, one.sum(axis=0)[None]])) for one in (products, few))
    found = {"slopes": every, "first alone": alone}
    errors = {f"{name}, error": one[:-1].std(axis=0, ddof=1) / math.sqrt(chunks) for name, one in found.items()}
    return {name: one.tolist() for name, one in ({name: one[-1] for name, one in found.items()} | errors).items()}


def _slopes(products: Array) -> Array:
    return np.asarray(np.linalg.solve(products[:, :-1, :-1], products[:, :-1, -1:])[:, 1:, 0])


@cache
def truth(outcome: str, numbers: int) -> tuple[Array, Array]:
    """Slopes in the population, on all numbers and on the first alone, as they are stored."""
    found = json.loads(SLOPES_FOUND.read_text(encoding="utf-8"))[f"{outcome}, {numbers} numbers"]
    return np.array(found["slopes"]), np.array(found["first alone"])


@dataclass(frozen=True)
class Setting:
    """A population and a number of people.

    Attributes
    ----------
    alone
        Whether the model on the first number alone is looked at, which was named before the release.
    """

    outcome: str
    numbers: int
    n: int
    alone: bool = False

    @property
    def name(self) -> str:
        of = f"first of {self.numbers}" if self.alone else f"{self.numbers}"
        return f"{self.outcome}, {of} numbers, {self.n:,} people"

    @property
    def truths(self) -> Array:
        """The slopes that intervals shall hold."""
        return truth(self.outcome, self.numbers)[self.alone]

    def simulation(self, guarantee: str) -> Simulation:
        return _simulation(self.numbers, self.outcome == "yes or no", guarantee, (("x0",),) if self.alone else ())


@cache
def _simulation(numbers: int, yes_or_no: bool, guarantee: str, models: tuple[tuple[str, ...], ...]) -> Simulation:
    return Simulation((*(False,) * numbers, yes_or_no), GUARANTEES[guarantee], models)


def study(one: Setting, repeats: int, stored: dict[str, Any], kinds: Collection[str] = tuple(GUARANTEES)) -> None:
    """Bring the cells of a setting to so many repeats: all guarantees see the same rows."""
    slopes, more = len(one.truths), at_a_time(one.n)
    empty: dict[str, Any] = {"repeats": 0, "held": [0] * slopes, "endless": [0] * slopes}
    if not one.alone:
        empty["alone"] = 0
    found = {kind: stored.setdefault(f"{one.name}, {kind}", json.loads(json.dumps(empty))) for kind in kinds}
    for at in range(min(own["repeats"] for own in found.values()), repeats, more):
        rng = np.random.default_rng([crc32(f"{one.outcome} {one.numbers} {one.n}".encode()), at])
        rows = drawn(one.outcome, one.numbers, one.n, more, rng)
        totals: dict[bool, Array] = {}
        for kind, own in ((kind, own) for kind, own in found.items() if own["repeats"] == at):
            made, pure = one.simulation(kind), kind.startswith("ε")
            if pure not in totals:  # totals do not depend on ε
                totals[pure] = made.totals(rows)
            noise = np.random.default_rng([crc32(f"{one.name}, {kind}".encode()), at])
            fit = made.fits(totals[pure], rows, noise)[-1]
            own["held"] = [a + b for a, b in zip(own["held"], held(fit, one.truths), strict=True)]
            own["endless"] = [a + b for a, b in zip(own["endless"], endless(fit), strict=True)]
            if not one.alone:
                own["alone"] += held(replace(fit, terms=fit.terms[:2], places=(0, 1)), replace(one, alone=True).truths)[
                    0
                ]
            own["repeats"] += more


def main(seconds: str, repeats: str, *only: str) -> None:
    """Run the cells whose names have all of the given parts, and store after each step."""
    end, goal = time.monotonic() + float(seconds), int(repeats)
    while time.monotonic() < end:
        stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        done = {
            (setting, kind): stored.get(f"{setting.name}, {kind}", {}).get("repeats", 0)
            for setting, kind in product(SETTINGS, GUARANTEES)
            if all(part in f"{setting.name}, {kind}" for part in only)
        }
        (setting, _), least = min(done.items(), key=lambda one: one[1])
        if least >= goal:
            return
        kinds = [kind for of, kind in done if of == setting and done[of, kind] < goal]
        study(setting, min(least + STORED_EVERY, goal), stored, kinds)
        RESULTS.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        found = {kind: stored[f"{setting.name}, {kind}"] for kind in kinds}
        print(
            setting.name, {kind: round(min(one["held"]) / one["repeats"], 3) for kind, one in found.items()}, flush=True
        )


SETTINGS = tuple(
    Setting(outcome, numbers, n, alone)
    for alone, outcome, numbers, n in product((False, True), OUTCOMES, NUMBERS, PEOPLE)
    if numbers > 1 or not alone
)


if __name__ == "__main__":
    if sys.argv[1] == "--slopes":
        each = {f"{outcome}, {k} numbers": slopes_of(outcome, k) for outcome, k in product(OUTCOMES, NUMBERS)}
        SLOPES_FOUND.write_text(json.dumps(each, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        main(*sys.argv[1:])
