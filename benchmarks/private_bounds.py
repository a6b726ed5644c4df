"""Private bounds: how well a profile finds what 20 made-up census columns hold, and from how many people on.

    python benchmarks/private_bounds.py figures    # shares of repeats in which bounds hold and are narrow
    python benchmarks/private_bounds.py curve      # the same over the number of people
    python benchmarks/private_bounds.py mean       # a mean income with private and with known bounds

Repeats draw noise on exact histograms, by the question's own code. Figures are kept in `results/private_bounds.json`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet import ApproxDP, Bounds, PureDP, Schema
from discreet.core.door import Passed, Unclaimed
from discreet.core.guarantee import Guarantee
from discreet.questions.mean import MeanQuestion
from discreet.questions.profile.columns import FIRST, ColumnCells, chosen_bounds, second_counts
from discreet.questions.profile.question import ProfileQuestion, ProfileRelease

ROOT = Path(__file__).parents[1]
STORED = ROOT / "benchmarks" / "results" / "private_bounds.json"
REPEATS = 200
PEOPLE = (500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 50_000)
DATES = ("born", "entered")
LABELS = ("sex", "region")


def people(n: int, seed: int = 1) -> dict[str, np.ndarray]:
    """Eighteen columns of numbers and days, as census microdata has them; NaN is missing."""
    r = np.random.default_rng(seed)
    income = np.round(np.exp(r.normal(10.3, 0.9, n)))
    rounded = r.random(n) < 0.3
    income[rounded] = np.round(income[rounded], -3)
    income[r.random(n) < 0.2] = 0
    hours = np.where(r.random(n) < 0.45, 40, np.clip(r.normal(34, 11, n), 1, 80)).round()
    hours[r.random(n) < 0.35] = 0
    rent = np.round(np.exp(r.normal(6.9, 0.45, n)), -1)
    rent[r.random(n) < 0.6] = 0
    commute = np.round(r.gamma(1.6, 16, n) / 5) * 5
    commute[r.random(n) < 0.15] = 0
    wealth = np.where(r.random(n) < 0.25, -np.exp(r.normal(8.8, 1, n)), np.exp(r.normal(10.8, 1.1, n)))
    codes = np.arange(110, 9990, 37)
    common = np.random.default_rng(5).gamma(0.4, 1, codes.size)
    entered = r.integers(11000, 19500, n).astype(float)
    entered[r.random(n) < 0.7] = np.nan
    return {
        "age": np.minimum(r.gamma(2.2, 18, n).astype(int), 99).astype(float),
        "income": np.minimum(income, 1e7),
        "wage": np.round(np.exp(r.normal(3.1, 0.5, n)), 2),
        "hours": hours,
        "weight": np.round(r.gamma(6, 20, n), 3),
        "industry": r.choice(codes, n, p=common / common.sum()).astype(float),
        "household": 1.0 + np.minimum(r.poisson(1.6, n), 11),
        "rent": rent,
        "education": r.integers(1, 25, n).astype(float),
        "commute": np.minimum(commute, 180),
        "property": np.round(np.exp(r.normal(12.4, 0.6, n)), -3),
        "wealth": np.clip(np.round(wealth), -1e6, 1e7),
        "children": np.minimum(r.poisson(0.9, n), 8).astype(float),
        "height": np.round(r.normal(171, 10, n)),
        "postcode": np.round(r.uniform(1000, 99999, n)),
        "built": np.minimum(2024 - r.gamma(2, 20, n).astype(int), 2024).astype(float),
        "born": r.integers(-16000, 19000, n).astype(float),
        "entered": entered,
    }


class Exact:
    """The exact counts of made-up people, kept sorted: what an engine would count."""

    def __init__(self, columns: Mapping[str, np.ndarray], n: int) -> None:
        self.n = n
        self.values = {name: np.sort(one[~np.isnan(one)]) for name, one in columns.items()}
        fractions = {name: one[one != np.floor(one)] for name, one in self.values.items()}
        self.first = {name: self._first(name, fractions[name]) for name in self.values}
        self.first |= {name: self._row(n) for name in LABELS}
        self.counting: dict[str, Any] = {"cells": self.cells, "distinct": lambda names: {name: [3] for name in names}}

    @staticmethod
    def _row(other: int = 0) -> list[int]:
        cells = [0] * (FIRST.first_date + len(FIRST.dates) + 1)
        cells[1] = other
        return cells

    def _between(self, values: np.ndarray, edges: Sequence[float]) -> np.ndarray:
        return np.diff(np.r_[0, np.searchsorted(values, edges), values.size])

    def _first(self, name: str, fractions: np.ndarray) -> list[int]:
        cells = np.array(self._row())
        cells[0] = self.n - self.values[name].size
        if name in DATES:
            cells[FIRST.first_date :] = self._between(self.values[name], FIRST.dates)
        else:
            split = self._between(fractions, FIRST.numbers)
            cells[3 : FIRST.first_date : 2] = split
            cells[2 : FIRST.first_date : 2] = self._between(self.values[name], FIRST.numbers) - split
        return [int(count) for count in cells]

    def cells(self, grids: Mapping[str, ColumnCells]) -> dict[str, list[int]]:
        """Counts of each column in its grid."""
        found = {}
        for name, grid in grids.items():
            if grid is FIRST:
                found[name] = list(self.first[name])
                continue
            values = self.values.get(name, np.empty(0))  # labels that noise took for numbers have none
            other = self.n if name in LABELS else 0
            missing = self.n - values.size - other
            numbers = self._between(values, grid.numbers) if grid.numbers else np.array([0])
            dates = self._between(values, grid.dates) if grid.dates else np.array([0])
            found[name] = [missing, other, *numbers.tolist(), *dates.tolist()]
        return found


def bounds_of(found: ProfileRelease, name: str) -> tuple[float, float] | None:
    """The bounds of a column alone, without its other figures."""
    where = found.where[name]
    if where.grid is None:
        return None
    second = second_counts(where.grid, found.stages[1].counts[name], found.stages[1].mechanism)
    narrow = found.narrower.get(name)
    if narrow is not None:
        last = second_counts(narrow, found.stages[2].counts[name], found.stages[2].mechanism)
        chosen = last.bounds(found.share, last.adjusted(second))
    else:
        chosen = chosen_bounds(where, second, found.share)
    return chosen.low, chosen.high - (1 if where.whole else 0)


def repeated(
    n: int, spent: Guarantee, *, repeats: int, held: float, times: float, span: tuple[float, float]
) -> tuple[tuple[str, ...], np.ndarray]:
    """For each repeat and column: whether the bounds hold enough, and whether they are narrow enough."""
    columns = people(n)
    exact = Exact(columns, n)
    question = ProfileQuestion(Schema(columns={}), guarantee=spent, columns=[*columns, *LABELS], proportion=held)
    reach = {name: times * float(np.subtract(*np.quantile(one, span[::-1]))) for name, one in exact.values.items()}
    results = np.zeros((repeats, len(question.names), 2), bool)
    for repeat in range(repeats):
        allowance = Unclaimed(np.random.default_rng([7, repeat]))
        found = question.drawn(allowance, Passed(simulated=True), **exact.counting)
        for place, name in enumerate(question.names):
            if name in LABELS:
                results[repeat, place] = found.where[name].kind == "text"
                continue
            bounds = bounds_of(found, name)
            if bounds is not None:
                values = exact.values[name]
                inside = np.mean((values >= bounds[0]) & (values <= bounds[1]))
                results[repeat, place] = inside >= held, bounds[1] - bounds[0] <= reach[name]
    return question.names, results


def figures(repeats: int = REPEATS) -> None:
    """What the profile must show."""
    rows = (
        (10_000, PureDP(1.0), 0.95, 2.0, (0.05, 0.95)),
        (3_000, ApproxDP(1.0, 1e-6), 0.95, 2.0, (0.05, 0.95)),
        (100_000, PureDP(1.0), 0.99, 1.3, (0.005, 0.995)),
    )
    found = []
    for n, spent, held, times, span in rows:
        names, results = repeated(n, spent, repeats=repeats, held=held, times=times, span=span)
        both = results.all(axis=2).sum(1)
        rates = zip(names, results.mean(axis=0), strict=True)
        worst = {name: [float(a), float(b)] for name, (a, b) in rates if min(a, b) < 0.97}
        found.append(
            {
                "people": n, "guarantee": _words(spent), "held": held, "times": times, "span": span,
                "right": float(both.mean()), "in 19 or more": float((both >= 19).mean()), "worst": worst,
            }
        )  # fmt: skip
        print(found[-1], flush=True)
    keep("figures", {"repeats": repeats, "rows": found})


def curve(repeats: int = REPEATS) -> None:
    """From how many people on a profile of 20 columns is worth its price."""
    found: dict[str, dict[int, float]] = {}
    for spent in (PureDP(1.0), ApproxDP(1.0, 1e-6)):
        for n in PEOPLE:
            _, results = repeated(n, spent, repeats=repeats, held=0.95, times=2.0, span=(0.05, 0.95))
            found.setdefault(_words(spent), {})[n] = float(results.all(axis=2).sum(1).mean())
            print(spent, n, found[_words(spent)][n], flush=True)
    keep("curve", {"repeats": repeats, "right": found})


def mean(repeats: int = REPEATS) -> None:
    """Mean income of 10,000 people: a part of ε finds bounds, the rest is for the mean; against the best bounds.

    Each of four populations is repeated a fourth of the times; the RMSE is relative to the best bounds of each.
    """
    rows = []
    for share, part in ((0.95, 0.15), (0.99, 0.15), (0.999, 0.05), (0.999, 0.1), (0.999, 0.15), (0.999, 0.2)):
        ratios = [_mean_ratio(seed, share, part, repeats // 4) for seed in range(1, 5)]
        rows.append({"held": share, "part": part, "times": float(np.sqrt(np.mean(np.square(ratios)))), "each": ratios})
        print(rows[-1], flush=True)
    keep("mean", {"repeats": repeats, "rows": rows})


def _mean_ratio(population: int, share: float, part: float, repeats: int) -> float:
    n = 10_000
    exact = Exact({"income": people(n, population)["income"]}, n)
    values = exact.values["income"]
    truth = values.mean()

    def error(high: float, spent: float, seed: int) -> float:
        asked = MeanQuestion(
            Schema(columns={"income": Bounds(0, float(np.ceil(high)), grid=1)}), "income", epsilon=spent
        )
        inside = np.clip(values, 0, high).sum() / high
        rng = np.random.default_rng(seed)
        noisy = np.asarray(asked.measurement.mechanism.measure(np.array([n - inside, inside]), rng=rng))
        return float(high * noisy[1] / max(noisy.sum(), 1.0) - truth)

    def rmse(errors: Sequence[float]) -> float:
        return float(np.sqrt(np.mean(np.square(errors))))

    highs = np.quantile(values, [0.99, 0.995, 0.998, 0.999, 0.9995, 1.0])
    best = min(rmse([error(high, 1.0, seed) for seed in range(200)]) for high in highs)
    question = ProfileQuestion(Schema(columns={}), epsilon=part, columns=["income"], proportion=share)
    errors = []
    for seed in range(repeats):
        found = question.drawn(Unclaimed(np.random.default_rng([9, seed])), Passed(simulated=True), **exact.counting)
        bounds = bounds_of(found, "income")
        errors.append(error(bounds[1], 1 - part, seed) if bounds is not None else truth)
    return rmse(errors) / best


def stored() -> dict[str, Any]:
    """What earlier runs kept."""
    return dict(json.loads(STORED.read_text(encoding="utf-8"))) if STORED.exists() else {}


def keep(name: str, record: Any) -> None:
    """Store the figures of one run beside those of others."""
    told = stored() | {name: record}
    STORED.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _words(spent: Guarantee) -> str:
    return "ε = 1" if isinstance(spent, PureDP) else "ε = 1, δ = 10⁻⁶"


def table() -> str:
    """How many of 20 columns have good bounds, by the number of people."""
    over = stored()["curve"]["right"]
    lines = [f"| {name} | {' | '.join(f'{right:.1f}' for right in one.values())} |" for name, one in over.items()]
    sizes = " | ".join(f"{n:,}" for n in PEOPLE)
    return "\n".join([f"| people | {sizes} |", "|---" * (1 + len(PEOPLE)) + "|", *lines])


RUNS: dict[str, Callable[..., None]] = {"figures": figures, "curve": curve, "mean": mean}

if __name__ == "__main__":
    RUNS[sys.argv[1]](*(int(word) for word in sys.argv[2:]))
