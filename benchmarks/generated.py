"""Coverage on populations that nobody chose: drawn from a seed, asked through the public calls.

    python benchmarks/generated.py [CELLS] [SEED] [REPEATS]    # keeps new cells in results/generated.json

A cell draws a population (a mixture of atoms and of beta, lognormal, Pareto, t or normal parts, within bounds that cut
some of it off), a question, a number of rows and a guarantee. A cell fails where the truth is covered in fewer than
93.5 % by more than three Monte-Carlo errors. Widths are divided by those of an interval without privacy.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray
from scipy import stats

from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    Contribution,
    GaussianDP,
    PrivacyUnit,
    PrivateLabels,
    PureDP,
    Schema,
    Session,
    ZeroConcentratedDP,
)
from discreet.core.errors import NoPopulationInterval
from discreet.core.guarantee import Guarantee

Array = NDArray[np.float64]
STORED = Path(__file__).parent / "results" / "generated.json"
STEPS = 1024
POINTS = np.arange(STEPS + 1) / STEPS
LEAST, ERRORS, LEVEL = 0.935, 3.0, 0.95
POWER = 0.75
"""Of a test at the smallest effect of its plan, which says 80 %."""
GROUPED_ROWS = 2_500_000
"""Rows of a table whose groups are the repeats."""
COLUMN = Bounds(0, 1, grid=1 / STEPS)


@dataclass(frozen=True)
class Drawn:
    """A population on a grid from 0 to 1, by the probabilities of its points."""

    words: str
    chances: Array

    @property
    def mean(self) -> float:
        """Mean."""
        return float(self.chances @ POINTS)

    @property
    def variance(self) -> float:
        """Variance."""
        return float(self.chances @ (POINTS - self.mean) ** 2)

    def quantile(self, share: float) -> float:
        """The least point with so much of the population up to it."""
        return float(POINTS[np.searchsorted(np.cumsum(self.chances), share - 1e-12)])

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """So many rows."""
        upto = np.cumsum(self.chances)
        return np.asarray(POINTS[np.searchsorted(upto / upto[-1], rng.random(size))])


def population(rng: np.random.Generator) -> Drawn:
    """Up to three atoms and one or two parts, clipped to bounds that may cut off a twentieth on either side."""
    kinds: dict[str, Any] = {
        "beta": stats.beta(*np.exp(rng.normal(0, 1, 2))),
        "lognormal": stats.lognorm(rng.uniform(0.3, 2)),
        "Pareto": stats.pareto(rng.uniform(1.1, 4)),
        "t": stats.t(rng.uniform(2, 8)),
        "normal": stats.norm(),
    }
    chances, words = np.zeros(STEPS + 1), []
    parts, atoms = int(rng.integers(0, 3)), int(rng.integers(0, 4))
    for name in rng.choice(list(kinds), parts):
        law, cut = kinds[name], rng.uniform(0.0, 0.05, 2)
        low, high = law.ppf(cut[0] + 1e-4), law.ppf(1 - cut[1] - 1e-4)
        left, right = np.sort(rng.random(2)) if parts > 1 else (0.0, 1.0)
        edges = low + (high - low) * ((POINTS[:-1] + POINTS[1:]) / 2 - left) / max(right - left, 0.05)
        chances += rng.random() * np.diff(law.cdf(edges), prepend=0.0, append=1.0)
        words.append(f"{name} {left:.2f} to {right:.2f}")
    if not parts or rng.random() < 0.5:  # often rare ones
        for _ in range(max(atoms, 2 - 2 * parts)):
            place, share = int(rng.integers(0, STEPS + 1)) if rng.random() < 0.5 else 0, rng.random() ** 3
            chances[place] += share
            words.append(f"{share:.3g} at {place / STEPS:.2f}")
    if np.count_nonzero(chances) < 2:
        chances[[0, -1]] += (1.0, 0.05)
        words.append("1 at 0, .05 at 1")
    return Drawn("; ".join(words), chances / chances.sum())


def guarantee(rng: np.random.Generator) -> Guarantee:
    """Any kind, weak or strong."""
    size = float(np.round(np.exp(rng.uniform(math.log(0.2), math.log(8))), 2))
    makers: list[Callable[[float], Guarantee]] = [
        PureDP, GaussianDP, lambda one: ZeroConcentratedDP(round(one * one / 2, 4)), lambda one: ApproxDP(one, 1e-6)
    ]  # fmt: skip
    return makers[int(rng.integers(len(makers)))](size)


def _rows(rng: np.random.Generator, least: int = 40, most: int = 5000) -> int:
    return round(math.exp(rng.uniform(math.log(least), math.log(most))))


# ---- Questions of one column: the groups of one table are the repeats


Grouped = Callable[[Session, Guarantee], Any]
GROUPED: dict[str, tuple[Grouped, Callable[[Drawn], float], Callable[[Drawn], float]]] = {
    "mean": (lambda s, g: s.mean("y", by="g", guarantee=g), lambda p: p.mean, lambda p: math.sqrt(p.variance)),
    "mean, variance=False": (
        lambda s, g: s.mean("y", by="g", variance=False, guarantee=g), lambda p: p.mean,
        lambda p: math.sqrt(p.variance),
    ),
    "variance": (
        lambda s, g: s.variance("y", by="g", guarantee=g), lambda p: p.variance,
        lambda p: math.sqrt(max(float(p.chances @ (POINTS - p.mean) ** 4) - p.variance**2, 0.0)),
    ),
    "mean of rows with z < 0.5, a tenth missing": (
        lambda s, g: s.where("z < 0.5").mean("y", by="g", guarantee=g), lambda p: p.mean,
        lambda p: math.sqrt(p.variance / 0.45),
    ),
    "proportion, 0.1 to 10 %": (
        lambda s, g: s.proportion("c", label="yes", by="g", guarantee=g), lambda p: p.mean,
        lambda p: math.sqrt(p.variance),
    ),
    "mean of people with up to 4 rows": (
        lambda s, g: s.mean("y", by="g", contribution=Contribution(total=4), guarantee=g), lambda p: p.mean,
        lambda p: math.sqrt(p.variance),
    ),
}  # fmt: skip


def grouped(kind: str, rng: np.random.Generator, repeats: int) -> dict[str, Any]:
    """A question by group, of a table in which every group is a sample."""
    of, n, budget = population(rng), _rows(rng), guarantee(rng)
    if kind.startswith("proportion"):
        share = float(np.round(np.exp(rng.uniform(math.log(0.001), math.log(0.1))), 4))
        of = Drawn(f"{share:.2%} yes", np.r_[1 - share, np.zeros(STEPS - 1), share])
    if "people" in kind:
        n = max(n // 4, 40)
    repeats = min(repeats, max(GROUPED_ROWS // n, 100))
    ask, truth_of, spread_of = GROUPED[kind]
    labels = [str(place) for place in range(repeats)]
    y: Any = of.sample(repeats * n, rng)
    z = rng.random(y.size)
    who = np.arange(y.size)
    if "people" in kind:  # all rows of a person are alike in half of the cells, and each for itself in the others
        who = np.repeat(who, rng.integers(1, 5, y.size))
        y = y[who] if rng.random() < 0.5 else of.sample(who.size, rng)
        z = np.zeros(who.size)
    if "missing" in kind:
        y = np.where(rng.random(y.size) < 0.1, np.nan, y)
    table = pyarrow.table(
        {"y": y, "z": z, "g": pyarrow.array(np.array(labels)[who // n]), "who": who,
         "c": pyarrow.array(np.where(y == 1, "yes", "no"))}
    )  # fmt: skip
    columns: dict[str, Any] = {"y": COLUMN, "z": Bounds(0, 1, grid=1e-3), "g": Categories(labels)}
    columns["c"] = Categories(["yes", "no"])
    unit: dict[str, Any] = {"unit": PrivacyUnit("who")} if "people" in kind else {}
    session = Session(table, Schema(columns=columns, **unit), ledger=":memory:", budget=budget)
    answer = ask(session, budget)
    ends = np.array([tuple(answer[label].population_interval()) for label in labels], dtype=float)
    truth = truth_of(of)
    held = (ends[:, 0] <= truth + 1e-12) & (ends[:, 1] >= truth - 1e-12)
    return _cell(kind, of.words, n, budget, held, ends[:, 1] - ends[:, 0], spread_of(of) / math.sqrt(n))


def grouped_quantile(kind: str, rng: np.random.Generator, repeats: int) -> dict[str, Any]:
    """A quantile by group: of the rows of each group, or of the population that they are a sample of."""
    of, n, budget = population(rng), _rows(rng), guarantee(rng)
    share = float(np.round(rng.uniform(0.05, 0.95), 3))
    repeats = min(repeats, max(GROUPED_ROWS // n, 100))
    labels = [str(place) for place in range(repeats)]
    y = of.sample(repeats * n, rng).reshape(repeats, n)
    table = pyarrow.table({"y": y.ravel(), "g": pyarrow.array(np.repeat(labels, n))})
    schema = Schema(columns={"y": COLUMN, "g": Categories(labels)})
    session = Session(table, schema, ledger=":memory:", budget=budget)
    least = max(n // 2, 1) if kind.endswith("population") else None
    asked: Any = session.quantile("y", share, by="g", guarantee=budget, rows_at_least=least)
    if kind.endswith("population"):
        ends = np.array([tuple(asked[label].population_interval()) for label in labels], dtype=float)
        low = high = np.full(repeats, of.quantile(share), dtype=float)
    else:
        ends = np.array([tuple(asked[label].noise_interval()) for label in labels], dtype=float)
        y.sort(axis=1)
        low, high = y[:, max(math.ceil(share * n) - 1, 0)], y[:, min(math.floor(share * n), n - 1)]
    held = (ends[:, 0] <= high + 1e-12) & (ends[:, 1] >= low - 1e-12)
    return _cell(kind, f"{of.words} | {share}", n, budget, held, ends[:, 1] - ends[:, 0], math.inf)


# ---- Questions of several columns: a filter picks each repeat from a table of many


ROWS_OF_TURNS = 40_000
"""Rows of a table that holds several repeats."""
Asked = Callable[[Session, Guarantee, dict[str, Any]], tuple[bool, float]]
"""Whether the answer to a question about one sample holds, and how wide it is."""


def turns(
    rng: np.random.Generator,
    repeats: int,
    columns: dict[str, Any],
    sample: Callable[[], dict[str, Any]],
    ask: Asked,
    budget: Guarantee,
    **settings: Any,
) -> tuple[NDArray[np.bool_], Array]:
    """Which of the repeats hold, and how wide they are."""
    found: list[tuple[bool, float]] = []
    while len(found) < repeats:
        samples = [sample()]
        size = len(next(iter(samples[0].values())))
        samples += [sample() for _ in range(min(max(ROWS_OF_TURNS // size, 1), 100) - 1)]
        table = {name: np.concatenate([one[name] for one in samples]) for name in samples[0]}
        schema = Schema(columns={**columns, "turn": Bounds(0, 100, grid=1)}, **settings)
        rows = pyarrow.table({**table, "turn": np.repeat(np.arange(len(samples)), size)})
        session = Session(rows, schema, ledger=":memory:", budget=_plenty(budget))
        found += [ask(session.where(f"turn == {turn}"), budget, one) for turn, one in enumerate(samples)]
    held, widths = zip(*found[:repeats], strict=True)
    return np.array(held), np.array(widths, dtype=float)


def _plenty(budget: Guarantee) -> Guarantee:
    """A budget of the same kind for all repeats."""
    kinds: dict[type[Guarantee], Guarantee] = {
        PureDP: PureDP(1000), ApproxDP: ApproxDP(1000, 0.01), GaussianDP: GaussianDP(1000),
        ZeroConcentratedDP: ZeroConcentratedDP(10_000),
    }  # fmt: skip
    return kinds[type(budget)]


def _over(interval: Any, truth: float) -> tuple[bool, float]:
    low, high = (float(end) for end in interval)
    return low - 1e-12 <= truth <= high + 1e-12, high - low


def comparison(kind: str, rng: np.random.Generator, repeats: int) -> dict[str, Any]:
    """The difference or the ratio of two arms, from equal sizes to 300 : 1, or by partitions; a test of three alike."""
    arms: tuple[Drawn, ...] = (population(rng), population(rng))
    budget = guarantee(rng)
    alike = kind == "size of the joint test"
    few = _rows(rng, 60, 600)
    sizes: tuple[int, ...] = few, min(round(few * math.exp(rng.uniform(0, math.log(300)))), 20_000)
    columns: dict[str, Any] = {"y": COLUMN, "arm": Categories(["old", "new", "other"] if alike else ["old", "new"])}
    truth = arms[0].mean - arms[1].mean
    settings: dict[str, Any] = {}
    if kind == "lift" and arms[1].mean > 0:
        truth /= arms[1].mean
    if kind == "noise_aware":
        sizes, settings = (few + 2000, few + 2000), {"unit": PrivacyUnit("who")}
    if alike:
        arms, sizes = (arms[0],) * 3, (*sizes, few)
    labels = np.repeat(["new", "old", "other"][: len(sizes)], sizes)

    def sample() -> dict[str, Any]:
        y = np.concatenate([arm.sample(size, rng) for arm, size in zip(arms, sizes, strict=True)])
        return {"y": y, "arm": labels, **({"who": rng.integers(0, 2**60, y.size)} if settings else {})}

    def ask(session: Session, budget: Guarantee, _: dict[str, Any]) -> tuple[bool, float]:
        if settings:
            aware = session.compare_means("y", by="arm", guarantee=budget, method="noise_aware", partitions=40)
            return _over(aware.population_interval(), truth)
        if alike:
            return session.compare_arms("y", by="arm", guarantee=budget).joint_test.pvalue > 1 - LEVEL, math.nan
        found = session.compare_means("y", by="arm", guarantee=budget)
        return _over(found.lift()[1] if kind == "lift" else found.population_interval(), truth)

    held, widths = turns(rng, repeats, columns, sample, ask, budget, **settings)
    ideal = math.sqrt(sum(arm.variance / size for arm, size in zip(arms, sizes, strict=True)))
    words = f"{arms[0].words} | {arms[1].words} | {' : '.join(map(str, sizes))}"
    return _cell(kind, words, sum(sizes), budget, held, widths, math.inf if kind == "lift" or alike else ideal)


def regression(kind: str, rng: np.random.Generator, repeats: int) -> dict[str, Any]:
    """The coefficient of a rare level beside a number or of a number, a prediction, or a test where nothing acts."""
    errors, numbers, budget, n = population(rng), population(rng), guarantee(rng), _rows(rng, 200, 4000)
    rare, slope = float(rng.uniform(0.01, 0.3)), float(rng.uniform(-0.2, 0.2))
    null = kind.startswith("size")
    shift = 0.0 if null else float(rng.uniform(0, 0.2))
    place = float(numbers.quantile(rng.uniform(0.1, 0.9)))
    columns: dict[str, Any] = {"y": COLUMN, "x": COLUMN, "g": Categories(["usual", "rare"])}
    columns["yes"] = Categories([False, True])
    if kind == "slope":  # so fine that pairs of rounded outcomes have the slope of the line
        columns["y"] = Bounds(0, 1, grid=1e-9)
    start, steep = float(rng.uniform(-3, 1)), float(rng.uniform(-3, 3))
    centre = 0.25 + 0.5 * errors.mean  # y stays within its bounds, so that the line is the truth

    def sample() -> dict[str, Any]:
        level = rng.random(n) < rare
        x, e = numbers.sample(n, rng), errors.sample(n, rng)
        y = 0.25 + (0.0 if null else slope) * x + (0.0 if kind == "slope" else shift) * level + 0.5 * e
        yes = rng.random(n) < 1 / (1 + np.exp(-start - steep * x))
        return {"y": y, "x": x, "g": np.where(level, "rare", "usual"), "yes": yes}

    def ask(session: Session, budget: Guarantee, _: dict[str, Any]) -> tuple[bool, float]:
        if kind == "slope":
            asked = session.slope("y", on="x", rows_at_least=n // 2, guarantee=budget)
            return _over(asked.population_interval(), slope)
        if kind == "logistic_regression":
            return _over(session.logistic_regression("yes", on="x", guarantee=budget).intervals()["x"], steep)
        found = session.regression("y", on=["x", "g"], guarantee=budget)
        if kind == "smaller model of a regression":  # x and the level are independent
            return _over(found.model("g").intervals()["g[rare]"], shift)
        if null:
            return found.wald_test().pvalue > 1 - LEVEL, math.nan
        if kind == "prediction of a regression":
            try:
                told = found.predict({"x": place, "g": "usual"}).population_interval()
            except NoPopulationInterval:  # noise has hidden everything, and it says so
                return True, math.inf
            return _over(told, centre + slope * place)
        return _over(found.intervals()["g[rare]"], shift)

    held, widths = turns(rng, repeats, columns, sample, ask, budget)
    ideal = 0.5 * math.sqrt(errors.variance * (1 / (rare * n) + 1 / ((1 - rare) * n)))
    words = f"errors {errors.words} | x {numbers.words} | level {rare:.3f} | {start:.2f} + {steep:.2f} x"
    return _cell(kind, words, n, budget, held, widths, ideal if kind == "regression, a rare level" else math.inf)


def of_data(kind: str, rng: np.random.Generator, repeats: int) -> dict[str, Any]:
    """Intervals for what the data holds: tables, running totals, dropped rows; and tests of tables."""
    of, budget, n = population(rng), guarantee(rng), _rows(rng, 60, 4000)
    if kind == "running total" and isinstance(budget, PureDP | ApproxDP):
        budget = GaussianDP(getattr(budget, "epsilon", 1.0))
    if kind == "all cells of two tables at once, ε":
        budget = PureDP(float(np.round(rng.uniform(0.2, 8), 2)))
    many = int(rng.integers(2, 8))
    chances = rng.dirichlet(np.full(many, 0.7))
    labels, periods = [f"l{one}" for one in range(many)], ["p0", "p1", "p2", "p3"]
    most = int(rng.integers(1, 4))
    columns: dict[str, Any] = {"y": COLUMN, "g": Categories(labels), "p": Categories(periods)}
    settings: dict[str, Any] = {}
    if kind == "dropped rows":
        settings["unit"] = PrivacyUnit("who", contribution=Contribution(total=most))

    def sample() -> dict[str, Any]:
        found: dict[str, Any] = {"y": of.sample(n, rng), "g": rng.choice(labels, n, p=chances)}
        found["p"] = rng.choice(periods, n, p=[0.4, 0.4, 0.15, 0.05])
        if kind == "dropped rows":
            found["who"] = rng.integers(0, max(n // 2, 1), n) + 2**40 * int(rng.integers(2**20))
        return found

    def ask(session: Session, budget: Guarantee, one: dict[str, Any]) -> tuple[bool, float]:
        if kind.startswith("all cells"):
            found = session.tables([["g"], ["g", "p"]], guarantee=budget).table("g", "p")
            truth = np.array([[np.sum((one["g"] == a) & (one["p"] == b)) for b in periods] for a in labels])
            ends = found.noise_interval(simultaneous=True)
            inside = (np.asarray(ends.low) <= truth + 1e-9) & (np.asarray(ends.high) >= truth - 1e-9)
            return bool(inside.all()), float(np.median(np.asarray(ends.high) - np.asarray(ends.low)))
        if kind == "running total":
            for period in periods[:3]:
                found_ = session.running_total("p", period=period, guarantee=budget)
            return _over(found_.noise_interval(), float(np.isin(one["p"], periods[:3]).sum()))
        if kind == "dropped rows":
            counts = np.unique(one["who"], return_counts=True)[1]
            told = session.dropped_rows(guarantee=budget)
            return _over(told.units_interval(), float((counts > most).sum()))
        if kind == "size of independence":
            return session.independence(["g", "p"], guarantee=budget).pvalue > 1 - LEVEL, math.nan
        return session.rank_test("y", by="g", bins=8, guarantee=budget).pvalue > 1 - LEVEL, math.nan

    held, widths = turns(rng, repeats, columns, sample, ask, budget, **settings)
    words = f"{of.words} | labels {np.round(chances, 3).tolist()} | {most}"
    return _cell(kind, words, n, budget, held, widths, math.inf)


def unlisted(kind: str, rng: np.random.Generator, repeats: int) -> dict[str, Any]:
    """Counts of labels that were found: the interval of the rarest label that is shown."""
    n, budget = _rows(rng, 300, 4000), ApproxDP(float(np.round(rng.uniform(0.5, 4), 2)), 1e-6)
    labels = np.array([f"l{one}" for one in range(40)])
    chances = rng.dirichlet(np.full(labels.size, 0.3))

    def sample() -> dict[str, Any]:
        return {"y": np.zeros(n), "g": rng.choice(labels, n, p=chances)}

    def ask(session: Session, budget: Guarantee, one: dict[str, Any]) -> tuple[bool, float]:
        shown = session.common_labels("g", guarantee=budget)
        if not len(shown):
            return True, math.nan
        counts = session.declaring(g=shown.categories()).count(by="g", guarantee=budget)
        truth = np.array([np.sum(one["g"] == label) for label in shown.categories().labels])
        rarest, ends = int(np.argmin(truth)), counts.noise_interval()
        return _over([np.ravel(end)[rarest] for end in (ends.low, ends.high)], float(truth[rarest]))

    held, widths = turns(rng, repeats, {"g": PrivateLabels()}, sample, ask, budget)
    return _cell(
        kind, f"labels {np.round(np.sort(chances)[::-1][:5], 3).tolist()} …", n, budget, held, widths, math.inf
    )


Rows = dict[str, Any]
GROUPS, HALVES = ["a", "b", "c"], ["p", "q"]
TABLE: dict[str, Any] = {
    "y": COLUMN, "x": COLUMN, "g": Categories(GROUPS), "h": Categories(HALVES)
}  # fmt: skip


def _arms(by: str, labels: list[str], n: int, rng: np.random.Generator, effect: float, spread: float) -> Rows:
    arm = np.resize(np.array(labels), n)
    y = 0.3 + spread * rng.standard_normal(n) + effect * (arm == labels[1])
    return {"y": np.clip(y, 0, 1), by: arm}


def _cells(n: int, rng: np.random.Generator, effect: float, spread: float) -> Rows:
    """Six cells of equal size but for a contrast of Cohen's w."""
    chances = 1 / 6 + effect / math.sqrt(24) * np.outer([1, -1, 0], [1, -1]).ravel()
    cell = rng.choice(6, n, p=chances)
    return {"g": np.array(GROUPS)[cell // 2], "h": np.array(HALVES)[cell % 2]}


def _labels(n: int, rng: np.random.Generator, effect: float, spread: float) -> Rows:
    return {"g": rng.choice(GROUPS, n, p=1 / 3 + effect / math.sqrt(6) * np.array([1, -1, 0]))}


def _tilted(n: int, rng: np.random.Generator, effect: float, spread: float) -> Rows:
    """Two groups of evenly spread values, of which one is tilted until it exceeds the other as often as planned."""
    half, u = np.resize(np.array(HALVES), n), rng.random(n)
    tilt = 6 * effect  # of a density 1 + tilt·(2y − 1), whose mean is ½ + tilt/6
    upper = (tilt - 1 + np.sqrt((1 - tilt) ** 2 + 4 * tilt * u)) / (2 * tilt)
    return {"y": np.where(half == "q", upper, u), "h": half}


def _paired(n: int, rng: np.random.Generator, effect: float, spread: float) -> Rows:
    x = rng.uniform(0.4, 0.6, n)
    shift = spread * stats.norm.ppf(0.5 + effect) / math.sqrt(2)
    return {"x": x, "y": np.clip(x + shift + spread * rng.standard_normal(n), 0, 1)}


def _related(n: int, rng: np.random.Generator, effect: float, spread: float) -> Rows:
    """Normal ranks with the planned rank correlation."""
    related = 2 * math.sin(math.pi * effect / 6)
    both = rng.multivariate_normal([0, 0], [[1, related], [related, 1]], n)
    return {"x": stats.norm.cdf(both[:, 0]), "y": stats.norm.cdf(both[:, 1])}


def _line(n: int, rng: np.random.Generator, effect: float, spread: float) -> Rows:
    """Outcomes spread evenly, and what the line takes from them."""
    x = np.rint(rng.random(n) * STEPS) / STEPS
    y = 0.5 + effect * (x - 0.5) + math.sqrt(max(1 - effect**2, 0.0)) * (rng.random(n) - 0.5)
    return {"x": x, "y": np.clip(y, 0, 1)}


TESTS: dict[str, tuple[dict[str, Any], float, Callable[..., Rows]]] = {
    "compare_means": ({"column": "y", "by": "h"}, 0.3, partial(_arms, "h", HALVES)),
    "compare_arms": ({"column": "y", "by": "g"}, 0.3, partial(_arms, "g", GROUPS)),
    "regression": ({"column": "y", "on": ["x"]}, 0.9, _line),
    "independence": ({"columns": ["g", "h"]}, 0.8, _cells),
    "homogeneity": ({"column": "g", "by": "h"}, 0.8, _cells),
    "goodness_of_fit": ({"column": "g", "probabilities": [1 / 3, 1 / 3, 1 / 3]}, 0.8, _labels),
    "rank_test": ({"column": "y", "by": "h", "bins": 8}, 0.16, _tilted),
    "kolmogorov_smirnov": ({"column": "y", "by": "h", "bins": 8}, 0.16, _tilted),
    "signed_rank": ({"column": "y", "against": "x"}, 0.4, _paired),
    "rank_correlation": ({"columns": ["x", "y"], "bins": {"x": 4, "y": 4}}, 0.9, _related),
}
"""Settings of each test, the largest effect that its rows can have, and these rows."""


def power(kind: str, rng: np.random.Generator, repeats: int) -> dict[str, Any]:
    """How often a test finds the smallest effect of its plan, which says 80 %: of rows as the plan takes them to be."""
    test = kind.removeprefix("power of ")
    settings, largest, rows = TESTS[test]
    n, budget, spread = 6 * (_rows(rng, 400, 4000) // 6), guarantee(rng), float(rng.uniform(0.02, 0.15))
    plan = Session(pyarrow.table({"y": [0.0]}), Schema(columns=TABLE), ledger=":memory:", budget=_plenty(budget)).plan
    more = {"expected_sd": spread} if test.startswith("compare") else {}
    while True:
        planned = getattr(plan, test)(**settings, **more, guarantee=budget, expected_rows=n)
        effect = float(planned.smallest_effect or math.inf)
        if effect <= largest:
            break
        n *= 2  # so many rows cannot differ so much

    def ask(session: Session, budget: Guarantee, _: dict[str, Any]) -> tuple[bool, float]:
        found = getattr(session, test)(**settings, guarantee=budget)
        if test == "compare_arms":
            found = found["b", "a"]
        elif test == "regression":
            found = found.wald_test("x")
        return found.pvalue <= 1 - LEVEL, math.nan

    held, widths = turns(rng, repeats, TABLE, lambda: rows(n, rng, effect, spread), ask, budget)
    return _cell(kind, f"effect {effect:.3g}", n, budget, held, widths, math.inf) | {"least": POWER}


def _cell(
    kind: str, words: str, n: int, budget: Guarantee, held: NDArray[np.bool_], widths: Array, ideal: float
) -> dict[str, Any]:
    known = 0 < ideal < math.inf
    usual = float(np.median(widths)) / (2 * stats.norm.ppf((1 + LEVEL) / 2) * ideal) if known else math.inf
    return {
        "question": kind, "population": words, "rows": n, "guarantee": str(budget), "repeats": int(held.size),
        "covered": round(float(held.mean()), 4), "width": round(float(usual), 3) if math.isfinite(usual) else None,
    }  # fmt: skip


Measure = Callable[[str, np.random.Generator, int], dict[str, Any]]
BY_GROUP: dict[str, Measure] = {
    **dict.fromkeys(GROUPED, grouped),
    **dict.fromkeys(("quantile of the data", "quantile of the population"), grouped_quantile),
}
ONE_BY_ONE: dict[str, Measure] = {
    **dict.fromkeys(("compare_means", "lift", "noise_aware", "size of the joint test"), comparison),
    **dict.fromkeys(("regression, a rare level", "prediction of a regression", "size of wald_test"), regression),
    **dict.fromkeys(("smaller model of a regression", "slope", "logistic_regression"), regression),
    **dict.fromkeys(("all cells of two tables at once, ε", "size of independence", "size of rank_test"), of_data),
    **dict.fromkeys(("running total", "dropped rows"), of_data),
    "unlisted groups": unlisted,
    **dict.fromkeys((f"power of {test}" for test in TESTS), power),
}
"""How each question is measured: those by group all repeats at once, the others a fourth as many, one by one."""
KINDS = BY_GROUP | ONE_BY_ONE
CYCLE = [*BY_GROUP] * 6 + [*ONE_BY_ONE]
SHARE = 4


def cell(seed: int, repeats: int) -> dict[str, Any]:
    """The cell of a seed."""
    kind = CYCLE[seed % len(CYCLE)]
    many = repeats if kind in BY_GROUP else max(repeats // SHARE, 40)
    return {"seed": seed, **KINDS[kind](kind, np.random.default_rng(seed), many)}


def fails(one: dict[str, Any]) -> bool:
    """Whether a cell is below the least coverage by more than three errors."""
    least = one.get("least", LEAST)
    return bool(one["covered"] < least - ERRORS * math.sqrt(least * (1 - least) / one["repeats"]))


def stored() -> list[dict[str, Any]]:
    """The cells that were measured."""
    found: list[dict[str, Any]] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else []
    return found


def table(cells: list[dict[str, Any]]) -> str:
    """By question: cells, the least coverage and where, and widths over those of intervals without privacy."""
    lines = ["| question | populations | least covered | with | width, median | width, nine in ten below |"]
    lines.append("|---" * 6 + "|")
    for kind in KINDS:
        own = [one for one in cells if one["question"] == kind]
        if not own:
            continue
        least = min(own, key=lambda one: one["covered"])
        widths = [one["width"] for one in own if one["width"] is not None]
        told = [f"{np.quantile(widths, share):.3g}" if widths else "" for share in (0.5, 0.9)]
        where = f"{least['rows']:,} rows, {least['guarantee']}, {least['repeats']:,} repeats"
        lines.append(f"| {kind} | {len(own)} | {100 * least['covered']:.1f} % | {where} | {' | '.join(told)} |")
    return "\n".join(lines)


def worst(cells: list[dict[str, Any]]) -> str:
    """The ten cells with the least coverage for their repeats, and the ten with the widest intervals."""
    lines = ["| question | seed | rows | guarantee | repeats | covered | width |", "|---" * 7 + "|"]

    def errors(one: dict[str, Any]) -> float:
        return float((one["covered"] - (0.8 if "least" in one else LEVEL)) * math.sqrt(one["repeats"]))

    wide = sorted(cells, key=lambda one: -(one["width"] or 0.0))
    for one in [*sorted(cells, key=errors)[:10], *wide[:10]]:
        width = "" if one["width"] is None else f"{one['width']:.3g}"
        told = [one["question"], str(one["seed"]), f"{one['rows']:,}", one["guarantee"], f"{one['repeats']:,}"]
        lines.append(f"| {' | '.join(told)} | {100 * one['covered']:.1f} % | {width} |")
    return "\n".join(lines)


if __name__ == "__main__":
    count, first, times = (int(given) for given in [*sys.argv[1:], *["12", "0", "2000"][len(sys.argv) - 1 :]])
    cells = {one["seed"]: one for one in stored()}
    for seed in range(first, first + count):
        if seed not in cells:
            cells[seed] = cell(seed, times)
            print(cells[seed], "FAILS" if fails(cells[seed]) else "", flush=True)
            STORED.write_text(json.dumps(list(cells.values()), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{sum(map(fails, cells.values()))} of {len(cells)} cells fail")
