"""Private bounds: how well a profile finds what 20 made-up census columns hold, and from how many people on.

    python benchmarks/private_bounds.py figures    # shares of repeats in which bounds hold and are narrow
    python benchmarks/private_bounds.py curve      # the same over the number of people
    python benchmarks/private_bounds.py mean       # a mean income with private and with known bounds

Repeats draw noise on exact histograms, by the question's own code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from discreet import ApproxDP, Bounds, PureDP, Schema
from discreet.core.door import Passed, Unclaimed
from discreet.core.guarantee import Guarantee
from discreet.questions.mean import MeanQuestion
from discreet.questions.profiles.cell_edges import FIRST
from discreet.questions.profiles.column_profile import chosen_bounds, second_counts
from discreet.questions.profiles.fine_cells import Grid
from discreet.questions.profiles.profile_question import Counting, ProfileQuestion
from discreet.questions.profiles.profile_release import ProfileRelease

REPEATS = 200
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
        self.counting = Counting(self.cells, list, lambda names: {name: [3] for name in names})

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

    def cells(self, grids: Mapping[str, Grid]) -> dict[str, list[int]]:
        """Counts of each column in its grid."""
        found = {}
        for name, grid in grids.items():
            if grid is FIRST:
                found[name] = list(self.first[name])
                continue
            values, missing = self.values[name], self.n - self.values[name].size
            numbers = self._between(values, grid.numbers) if grid.numbers else np.array([0])
            dates = self._between(values, grid.dates) if grid.dates else np.array([0])
            found[name] = [missing, 0, *numbers.tolist(), *dates.tolist()]
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
    question = ProfileQuestion(Schema(columns={}), spent, columns=[*columns, *LABELS], proportion=held)
    reach = {name: times * float(np.subtract(*np.quantile(one, span[::-1]))) for name, one in exact.values.items()}
    results = np.zeros((repeats, len(question.names), 2), bool)
    for repeat in range(repeats):
        allowance = Unclaimed(np.random.default_rng([7, repeat]))
        found = question.drawn(exact.counting, allowance, Passed(simulated=True))
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
    for n, spent, held, times, span in rows:
        names, results = repeated(n, spent, repeats=repeats, held=held, times=times, span=span)
        both = results.all(axis=2)
        enough, wide = (both.sum(1) >= 19).mean(), f"{times:g} times the {span[0]:.1%}-{span[1]:.1%} range"
        print(f"\n{n:,} people at {spent}: hold {held:.0%}, at most {wide}")
        print(f"  columns right per repeat: {both.sum(1).mean():.2f} of 20; 19 or more in {enough:.0%}")
        rates = zip(names, results.mean(axis=0), strict=True)
        told = [f"{name} {a:.0%}/{b:.0%}" for name, (a, b) in rates if min(a, b) < 0.97]
        print("  held / narrow: " + ", ".join(told), flush=True)


def curve(repeats: int = 40) -> None:
    """From how many people on a profile of 20 columns is worth its price."""
    for spent in (PureDP(1.0), ApproxDP(1.0, 1e-6)):
        for n in (500, 1000, 2000, 3000, 5000, 10_000, 20_000, 50_000):
            _, results = repeated(n, spent, repeats=repeats, held=0.95, times=2.0, span=(0.05, 0.95))
            print(f"{spent} {n:>7,} people: {results.all(axis=2).sum(1).mean():5.2f} of 20 columns right", flush=True)


def mean(repeats: int = REPEATS) -> None:
    """Mean income of 10,000 people: a fifth of ε finds bounds, the rest is for the mean; against the best bounds."""
    n = 10_000
    exact = Exact({"income": people(n)["income"]}, n)
    values = exact.values["income"]
    truth = values.mean()

    def error(high: float, spent: float, seed: int) -> float:
        asked = MeanQuestion(
            Schema(columns={"income": Bounds(0, float(np.ceil(high)), grid=1)}), "income", PureDP(spent)
        )
        clipped = np.clip(values, 0, high)
        part = clipped.sum() / high
        rng = np.random.default_rng(seed)
        noisy = np.asarray(asked.measurement.mechanism.measure(np.array([n - part, part]), rng=rng))
        return float(high * noisy[1] / max(noisy.sum(), 1.0) - truth)

    def rmse(errors: Sequence[float]) -> float:
        return float(np.sqrt(np.mean(np.square(errors))))

    highs = np.quantile(values, [0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 1.0])
    best = min(rmse([error(high, 1.0, seed) for seed in range(repeats)]) for high in highs)
    for share, part in ((0.95, 0.2), (0.99, 0.2), (0.999, 0.05), (0.999, 0.1), (0.999, 0.15), (0.999, 0.2)):
        question = ProfileQuestion(Schema(columns={}), PureDP(part), columns=["income"], proportion=share)
        errors = []
        for seed in range(repeats):
            found = question.drawn(exact.counting, Unclaimed(np.random.default_rng([9, seed])), Passed(simulated=True))
            bounds = bounds_of(found, "income")
            errors.append(error(bounds[1], 1 - part, seed) if bounds is not None else truth)
        told = f"{part:.0%} of ε for bounds that hold {share:.1%}: RMSE {rmse(errors):,.0f}"
        print(f"{told}; best known bounds {best:,.0f}; {rmse(errors) / best:.2f} times", flush=True)


RUNS: dict[str, Callable[..., None]] = {"figures": figures, "curve": curve, "mean": mean}

if __name__ == "__main__":
    RUNS[sys.argv[1]](*(int(word) for word in sys.argv[2:]))
