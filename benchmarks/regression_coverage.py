"""Coverage of the intervals of regressions, on outcomes of five kinds.

``python benchmarks/regression_coverage.py seconds repeats [part of a name …]`` adds repeats to those that are
stored, to the cells with the fewest first, until the time is over. Every slope counts, and for several numbers the
slope of a model on the first alone. An interval without an end is a refusal; it holds the truth, and is counted apart
too. ``--page`` puts what is stored into the documentation.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable
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
ENDS_LOOKED_AT = 100


def drawn(outcome: str, numbers: int, n: int, rng: np.random.Generator) -> Array:
    """Rows between 0 and 1, the outcome last; numbers are correlated."""
    x = np.clip(0.45 + 0.2 * (0.8 * rng.normal(size=(n, numbers)) + 0.6 * rng.normal(size=(n, 1))), 0.0, 1.0)
    means = 0.4 + (x - 0.45) @ SLOPES[:numbers]
    if outcome == "yes or no":
        return np.column_stack([x, rng.random(n) < means])
    return np.column_stack([x, np.clip(means + ERRORS[outcome](rng, x), 0.0, 1.0)])


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
    """Slopes in the population, on all numbers and on the first alone, from some million rows."""
    rng = np.random.default_rng(crc32(f"{outcome} {numbers}".encode()))
    products = np.zeros((numbers + 2, numbers + 2))
    for _ in range(chunks):
        sample = np.column_stack([np.ones(rows), drawn(outcome, numbers, rows, rng)])
        products += sample.T @ sample
    few = products[np.ix_([0, 1, -1], [0, 1, -1])]
    every, first = (np.asarray(np.linalg.solve(one[:-1, :-1], one[:-1, -1]), float)[1:] for one in (products, few))
    return every, first


def study(outcome: str, numbers: int, n: int, repeats: int, stored: dict[str, Any]) -> None:
    """Add repeats to the cells of one population and number of people: all guarantees see the same rows."""
    two = (*(False,) * numbers, outcome == "yes or no")
    made = {name: Simulation(two, guarantee) for name, guarantee in GUARANTEES.items()}
    truths, alone = truth(outcome, numbers)
    cells = {name: f"{outcome}, {numbers} numbers, {n:,} people, {name}" for name in made}
    empty: dict[str, Any] = {"repeats": 0, "held": [0] * numbers, "looked at": 0, "endless": [0] * numbers, "alone": 0}
    found = {name: stored.setdefault(cell, json.loads(json.dumps(empty))) for name, cell in cells.items()}
    for at in range(found["ε = 1"]["repeats"], found["ε = 1"]["repeats"] + repeats):
        rng = np.random.default_rng([crc32(f"{outcome} {numbers} {n}".encode()), at])
        rows = drawn(outcome, numbers, n, rng)
        totals = {kind: made[kind].totals(rows) for kind in ("ε = 1", "μ = 1")}
        for name, one in made.items():
            own = found[name]
            fit = one.fit(totals["ε = 1" if name.startswith("ε") else name], rows, rng)
            own["held"] = [a + b for a, b in zip(own["held"], held(fit, truths), strict=True)]
            own["repeats"] += 1
            if own["looked at"] < ENDS_LOOKED_AT:
                own["endless"] = [a + b for a, b in zip(own["endless"], endless(fit), strict=True)]
                own["looked at"] += 1
            if numbers > 1:
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
            cells.append((f"**{share}**" if short_of(one) else share) + (f" ({without:.0%})" if without else ""))
        lines.append(f"| {outcome} | {numbers} | " + " | ".join(cells) + " |")
    return "\n".join(lines).replace("%", " %")


def page(text: str, stored: dict[str, Any]) -> str:
    """A page with its figures replaced by those that are stored."""
    for n in PEOPLE:
        head, rest = text.split(f"<!-- {n:,} people -->\n")
        text = f"{head}<!-- {n:,} people -->\n{table(stored, n)}\n\n" + rest[rest.index("<!-- end -->") :]
    each = [one["alone"] / one["repeats"] for one in stored.values() if len(one["held"]) > 1]
    repeats = sorted({one["repeats"] for one in stored.values()})
    text = re.sub(r"(?<=held in at least )\S+(?= %)", f"{100 * min(each):.1f}", text)
    return re.sub(r"(?<=Each cell has )\d+ to \d+(?= repeats)", f"{repeats[0]} to {repeats[-1]}", text)


def main(seconds: str, repeats: str, *only: str) -> None:
    """Run the cells whose names have all of the given parts, and store after each."""
    end = time.monotonic() + float(seconds)
    every = {
        f"{outcome}, {k} numbers, {n:,} people": (outcome, k, n) for outcome, k, n in product(OUTCOMES, NUMBERS, PEOPLE)
    }
    chosen = [name for name in every if all(part in name for part in only)]
    while chosen and time.monotonic() < end:
        stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        done = {name: stored.get(f"{name}, ε = 1", {}).get("repeats", 0) for name in chosen}
        name = min(done, key=lambda one: done[one])
        study(*every[name], int(repeats), stored)
        RESULTS.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        found = {kind: stored[f"{name}, {kind}"] for kind in GUARANTEES}
        print(name, {kind: round(min(one["held"]) / one["repeats"], 3) for kind, one in found.items()}, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--page":
        PAGE.write_text(
            page(PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8"))), "utf-8"
        )
    else:
        main(*sys.argv[1:])
