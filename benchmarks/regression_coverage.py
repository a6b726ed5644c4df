"""Coverage of the intervals of regressions, on outcomes of five kinds.

``python benchmarks/regression_coverage.py seconds repeats [part of a name …]`` brings the cells whose names have all of
these parts to so many repeats, those with the fewest first, until the time is over. Cells may have different numbers of
repeats. Never let the figures of a cell decide when to stop: choose cells by their first repeats, then run them to a
number that was fixed before. Every slope counts, and for several numbers the slope of a model on the first alone. An
interval without an end is a refusal; it holds the truth, and is counted apart too. ``--page`` puts what is stored into
the documentation.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import replace
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
PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "regression_coverage.md"
SLOPES = np.array([0.25, -0.15, 0.1, 0.0, 0.05, 0.0, 0.0, -0.05])
ERRORS: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    "equal variances": lambda rng, x: rng.normal(0.0, 0.12, len(x)),
    "unequal variances": lambda rng, x: rng.normal(0.0, 0.02 + 0.6 * np.abs(x[:, 0] - 0.5)),
    "skewed": lambda rng, x: rng.exponential(0.12, len(x)) - 0.12,
    "heavy tails, clipped": lambda rng, x: 0.06 * rng.standard_t(2.5, len(x)),
}
OUTCOMES = (*ERRORS, "yes or no")
PEOPLE, NUMBERS = (300, 1_000, 5_000, 50_000), (1, 2, 4, 8)
GUARANTEES: dict[str, Guarantee] = {
    "ε = 0.3": PureDP(0.3), "ε = 1": PureDP(1.0), "ε = 5": PureDP(5.0), "μ = 1": GaussianDP(1.0)
}  # fmt: skip
"""ρ = 1/2 has the noise of μ = 1."""
ENDS_LOOKED_AT, SMALLER_LOOKED_AT = 100, 500
USUAL_REPEATS, ENOUGH, AT_A_TIME = 500, 2_000, 50


def drawn(outcome: str, numbers: int, n: int, rng: np.random.Generator) -> Array:
    """Rows between 0 and 1, the outcome last; numbers are correlated."""
    x = _numbers(numbers, n, rng)
    means = _unclipped_means(x)
    if outcome == "yes or no":
        return np.column_stack([x, rng.random(n) < means])
    return np.column_stack([x, np.clip(means + ERRORS[outcome](rng, x), 0.0, 1.0)])


def _numbers(numbers: int, n: int, rng: np.random.Generator) -> Array:
    return np.clip(0.45 + 0.2 * (0.8 * rng.normal(size=(n, numbers)) + 0.6 * rng.normal(size=(n, 1))), 0.0, 1.0)


def _unclipped_means(x: Array) -> Array:
    return np.asarray(0.4 + (x - 0.45) @ SLOPES[: x.shape[1]])


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


def held(fit: LeastSquares, truths: Array) -> list[bool]:
    """Whether the interval of every slope holds the truth."""
    size = len(fit.terms)
    return [fit.pvalue(np.eye(size)[j + 1], float(truth)) >= 0.05 for j, truth in enumerate(truths)]


def endless(fit: LeastSquares) -> list[bool]:
    """Whether the interval of every slope has no end."""
    size = len(fit.terms)
    return [math.isinf(high - low) for low, high in (fit.interval(row, 0.95) for row in np.eye(size)[1:])]


@cache
def truth(outcome: str, numbers: int, rows: int = 500_000, chunks: int = 12) -> tuple[Array, Array]:
    """Slopes in the population, on all numbers and on the first alone, from the mean outcomes of some million rows.

    Outcomes themselves would leave the slopes uncertain by a tenth of the standard error that 50,000 people have.
    """
    rng = np.random.default_rng(crc32(f"{outcome} {numbers}".encode()))
    products = np.zeros((numbers + 2, numbers + 2))
    for _ in range(chunks):
        x = _numbers(numbers, rows, rng)
        sample = np.column_stack([np.ones(rows), x, expected(outcome, x)])
        products += sample.T @ sample
    few = products[np.ix_([0, 1, -1], [0, 1, -1])]
    every, first = (np.asarray(np.linalg.solve(one[:-1, :-1], one[:-1, -1]), float)[1:] for one in (products, few))
    return every, first


def study(
    outcome: str, numbers: int, n: int, repeats: int, stored: dict[str, Any], kinds: Collection[str] = tuple(GUARANTEES)
) -> None:
    """Bring cells of one population and number of people to so many repeats: all guarantees see the same rows."""
    two = (*(False,) * numbers, outcome == "yes or no")
    made = {name: Simulation(two, GUARANTEES[name]) for name in kinds}
    truths, alone = truth(outcome, numbers)
    cells = {name: f"{outcome}, {numbers} numbers, {n:,} people, {name}" for name in made}
    counts = dict.fromkeys(("repeats", "looked at", "alone", "alone of"), 0)
    empty: dict[str, Any] = counts | {"held": [0] * numbers, "endless": [0] * numbers}
    found = {name: stored.setdefault(cell, json.loads(json.dumps(empty))) for name, cell in cells.items()}
    for at in range(min(own["repeats"] for own in found.values()), repeats):
        rows = drawn(outcome, numbers, n, np.random.default_rng([crc32(f"{outcome} {numbers} {n}".encode()), at]))
        totals: dict[bool, Array] = {}
        for name in (name for name, own in found.items() if own["repeats"] == at):
            one, own, pure = made[name], found[name], name.startswith("ε")
            if pure not in totals:  # totals do not depend on ε
                totals[pure] = one.totals(rows)
            fit = one.fit(totals[pure], rows, np.random.default_rng([crc32(cells[name].encode()), at]))
            own["held"] = [a + b for a, b in zip(own["held"], held(fit, truths), strict=True)]
            own["repeats"] += 1
            if own["looked at"] < ENDS_LOOKED_AT:
                own["endless"] = [a + b for a, b in zip(own["endless"], endless(fit), strict=True)]
                own["looked at"] += 1
            if numbers > 1 and own["alone of"] < SMALLER_LOOKED_AT:
                own["alone of"] += 1
                own["alone"] += held(replace(fit, terms=fit.terms[:2], places=(0, 1)), alone)[0]


def short_of(one: dict[str, Any]) -> bool:
    """Whether some slope is covered less than 93.5 % of the time, by more than three standard deviations."""
    share = min(one["held"]) / one["repeats"]
    return bool(share < 0.935 - 3 * math.sqrt(0.935 * 0.065 / one["repeats"]))


def table(stored: dict[str, Any], n: int) -> str:
    """For so many people, percent of intervals of the worst slope that hold it, and of those without an end."""
    lines = ["| outcome | numbers | " + " | ".join(GUARANTEES) + " |", "|---" * (2 + len(GUARANTEES)) + "|"]
    for outcome, numbers in product(OUTCOMES, NUMBERS):
        found = [stored[f"{outcome}, {numbers} numbers, {n:,} people, {kind}"] for kind in GUARANTEES]
        cells = []
        for one in found:
            share = f"{100 * min(one['held']) / one['repeats']:.1f}"
            without = max(one["endless"]) / one["looked at"]
            marks = (f" ({without:.0%})" if without else "") + (f" [{one['repeats']:,}]" if _many(one) else "")
            cells.append((f"**{share}**" if short_of(one) else share) + marks)
        lines.append(f"| {outcome} | {numbers} | " + " | ".join(cells) + " |")
    return "\n".join(lines).replace("%", " %")


def _many(one: dict[str, Any]) -> bool:
    return bool(one["repeats"] > USUAL_REPEATS)


def page(text: str, stored: dict[str, Any]) -> str:
    """A page with its figures replaced by those that are stored."""
    for n in PEOPLE:
        head, rest = text.split(f"<!-- {n:,} people -->\n")
        text = f"{head}<!-- {n:,} people -->\n{table(stored, n)}\n\n" + rest[rest.index("<!-- end -->") :]
    each = [one["alone"] / one["alone of"] for one in stored.values() if len(one["held"]) > 1]
    text = re.sub(r"(?<=held in at least )\S+(?= %)", f"{100 * min(each):.1f}", text)
    repeats = [one["repeats"] for one in stored.values() if not _many(one)]
    text = re.sub(r"(?<=A cell has )\d+ to \d+(?= repeats)", f"{min(repeats)} to {max(repeats)}", text)
    shares = [100 * min(one["held"]) / one["repeats"] for one in stored.values() if one["repeats"] >= ENOUGH]
    told = f"{len(shares)} cells with {ENOUGH:,} repeats or more, the lowest percentage is {min(shares):.1f}"
    return re.sub(r"\d+ cells with [\d,]+ repeats or more, the lowest percentage is \d+\.\d", told, text)


def main(seconds: str, repeats: str, *only: str) -> None:
    """Run the cells whose names have all of the given parts, and store after each step."""
    end, goal = time.monotonic() + float(seconds), int(repeats)
    every = {
        f"{outcome}, {k} numbers, {n:,} people": (outcome, k, n) for outcome, k, n in product(OUTCOMES, NUMBERS, PEOPLE)
    }
    while time.monotonic() < end:
        stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        done = {
            (name, kind): stored.get(f"{name}, {kind}", {}).get("repeats", 0)
            for name, kind in product(every, GUARANTEES)
            if all(part in f"{name}, {kind}" for part in only)
        }
        (name, _), least = min(done.items(), key=lambda one: one[1])
        if least >= goal:
            return
        kinds = [kind for of, kind in done if of == name and done[of, kind] < goal]
        study(*every[name], min(least + AT_A_TIME, goal), stored, kinds)
        RESULTS.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        found = {kind: stored[f"{name}, {kind}"] for kind in kinds}
        print(name, {kind: round(min(one["held"]) / one["repeats"], 3) for kind, one in found.items()}, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--page":
        PAGE.write_text(
            page(PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8"))), "utf-8"
        )
    else:
        main(*sys.argv[1:])
