"""How wide intervals of quantiles are, for the data and for the population, and what a plan foresees.

Run ``python benchmarks/quantile_intervals.py``: it writes ``benchmarks/results/quantile_intervals.json`` and prints
tables. It takes five minutes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from discreet import Bounds, GaussianDP, Neighbours, PureDP, Schema
from discreet.core.guarantee import Guarantee
from discreet.questions import QuantileQuestion
from discreet.questions.quantile import Quantiles

ADD = Neighbours.ADD_REMOVE
Draw = Callable[[int, np.random.Generator], NDArray[np.float64]]
POPULATIONS: dict[str, tuple[Draw, float, float]] = {
    "zeros": (lambda rows, rng: np.where(rng.random(rows) < 0.7, 0.0, rng.lognormal(3, 1.2, rows)), 1000, 0.1),
    "Pareto": (lambda rows, rng: rng.pareto(1.1, rows) + 1, 10_000, 0.1),
    "t": (lambda rows, rng: 500 + 15 * rng.standard_t(2, rows), 1000, 0.1),
    "even": (lambda rows, rng: 10_000 * rng.random(rows), 10_000, 0.1),
    "incomes": (lambda rows, rng: rng.lognormal(10, 0.8, rows), 200_000, 1.0),
}
"""How rows are drawn, their upper bound and their grid; the lower bound is 0."""
FEW = 300
"""Rows of a sample, for intervals for the population."""
ROWS, SHARES, EPSILONS = (60, 300, 1000, 3000, 50_000), (0.5, 0.9), (0.1, 1.0)


def measured(name: str, rows: int, share: float, epsilon: float, *, repeats: int) -> dict[str, float]:
    """Mean width, root mean square error, share of intervals that hold the quantile, and the end's error in ranks."""
    draw, high, grid = POPULATIONS[name]
    bounds, rng = Bounds(0, high, grid=grid), np.random.default_rng(rows)
    statistic = Quantiles(probabilities=share, bounds=bounds, interval=0.95)
    mechanism = statistic.mechanism(PureDP(epsilon), statistic.sensitivity(neighbours=ADD))
    found = []
    for _ in range(repeats):
        value = np.asarray(statistic.exact(draw(rows, rng), neighbours=ADD).value)
        data = np.repeat(value[0], value[1])
        truth, target = data[int(np.ceil(share * rows - 1e-9)) - 1], share * rows
        low, middle, top = np.rint(np.asarray(mechanism.draw(value, rng=rng)) / grid)
        away = max(target - np.searchsorted(data, low, "right"), np.searchsorted(data, top) - target, 0.0)
        found.append([(top - low) * grid, ((middle - truth) * grid) ** 2, low <= truth <= top, away])
    width, square, held, _ = np.mean(found, axis=0)
    reach = float(np.quantile([one[3] for one in found], 0.95, method="higher"))
    return {"width": width, "rmse": square**0.5, "held": held, "ranks": reach}


def of_population(name: str, share: float, guarantee: Guarantee, *, repeats: int) -> dict[str, float]:
    """Mean width over that of order statistics without privacy, and the share that holds the population's quantile."""
    draw, high, grid = POPULATIONS[name]
    bounds, rng = Bounds(0, high, grid=grid), np.random.default_rng(FEW)
    statistic = Quantiles(probabilities=share, bounds=bounds, interval=0.95, rows_at_least=FEW)
    mechanism = statistic.mechanism(guarantee, statistic.sensitivity(neighbours=ADD))
    truth = np.clip(np.rint(np.quantile(draw(2_000_001, np.random.default_rng(9)), share) / grid) * grid, 0, high)
    first, last = (int(stats.binom.ppf(end, FEW, share)) for end in (0.025, 0.975))
    found = []
    for _ in range(repeats):
        value = np.asarray(statistic.exact(draw(FEW, rng), neighbours=ADD).value)
        data = np.repeat(value[0], value[1]) * grid
        low, _, top = np.asarray(mechanism.draw(value, rng=rng))
        found.append([top - low, data[last] - data[first - 1], low - grid / 2 <= truth <= top + grid / 2])
    width, ideal, held = np.mean(found, axis=0)
    return {"ratio": width / ideal, "held": held}


def planned(name: str, rows: int, share: float, epsilon: float) -> float:
    """The error that a plan foresees, in ranks to the farther end."""
    _, high, grid = POPULATIONS[name]
    schema = Schema(columns={"x": Bounds(0, high, grid=grid)})
    asked = QuantileQuestion(schema, "x", share, guarantee=PureDP(epsilon), expected_rows=rows)
    return float(asked.plan().error_95 or 0.0)


def main() -> None:
    """Measure, store and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=500)
    repeats, stored = parser.parse_args().repeats, []
    print("| rows, n, q, ε | width | RMSE | held |\n|---|---:|---:|---:|")
    for case in product(POPULATIONS, ROWS, SHARES, EPSILONS):
        counts = measured(*case, repeats=repeats)
        plan = planned(*case) if case[0] == "even" else None
        stored.append({"case": case, "counts": counts, "planned": plan})
        told = (f"{counts[key]:.3g}" for key in ("width", "rmse", "held"))
        print(f"| {', '.join(str(one) for one in case)} | {' | '.join(told)} |", flush=True)
    print("| population, q, guarantee | width over that without privacy | held |\n|---|---:|---:|")
    sampled = []
    for name, share, whole in product(POPULATIONS, SHARES, (PureDP(1.0), GaussianDP(1.0))):
        if (name, share) == ("zeros", 0.5):  # whose median is certain
            continue
        one = of_population(name, share, whole, repeats=repeats)
        sampled.append({"case": [name, share, str(whole)], **one})
        print(f"| {name}, {share}, {whole} | {one['ratio']:.3g} | {one['held']:.3g} |", flush=True)
    target = Path(__file__).parent / "results" / "quantile_intervals.json"
    target.write_text(
        json.dumps({"repeats": repeats, "cases": stored, "population": sampled}, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
