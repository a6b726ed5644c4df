"""The experiments of miranda2026: does omitting records help at equal privacy?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.core.guarantee import PureDP
from discreet.mechanisms.omission.amplification import outlier_epsilon
from discreet.mechanisms.omission.step import EuclideanDistance
from discreet.papers import miranda2026_data
from discreet.papers.claims.miranda2026_claims import CLAIMS
from discreet.papers.figure import Figure, HeatMap
from discreet.papers.study import Parameters, Part, Row, Study
from discreet.questions.clusters import DPLloyd, KMedian
from discreet.questions.clusters.kmedian import LocalSearch
from discreet.questions.clusters.lloyd import Box, labels_of

# ---- Clustering of the miranda2026 study: NICV of DPLloyd, and the average cost of k-median


CLUSTERINGS = ("DPLloyd", "k-median")


def clustering_cells(omission: str, data: str, quick: bool) -> list[Parameters]:
    """One cell per algorithm, ε and rate or m: some of them run for minutes."""
    # k-median is slow; where the noise is equal rather than the guarantee, a rough picture is enough.
    repeats = {
        ("DPLloyd", True): 3 if quick else 500,
        ("DPLloyd", False): 500,
        ("k-median", True): 2 if quick else 20,
        ("k-median", False): 5,
    }
    reductions = (True,) if omission == "sampling" or quick else (True, False)
    rates = miranda2026_data.FEW_RATES if quick else miranda2026_data.CLUSTERING_RATES
    spans = miranda2026_data.FEW_SPANS if quick else miranda2026_data.SPANS
    settings = {"rate": rates} if omission == "sampling" else {"m": tuple(dict.fromkeys(m for m, _ in spans))}
    return [
        {
            "clustering": name,
            "omission": omission,
            "epsilon": epsilon,
            "reduced": reduced,
            setting: value,
            "repeats": repeats[name, reduced],
            "quick": quick,
            "data": data,
        }
        for name in CLUSTERINGS
        for epsilon in (miranda2026_data.EPSILONS[::2] if quick else miranda2026_data.EPSILONS)
        for reduced in reductions
        for setting, values in settings.items()
        for value in values
    ]


def clustering_rows(parameters: Parameters, seed: int, folder: str = "") -> Iterable[Row]:
    """NICV of DPLloyd on Adult, or average cost of k-median on generated points, over some rates or (m, M)."""
    generator = np.random.default_rng(seed)
    epsilon, name = parameters["epsilon"], parameters["clustering"]
    task = _Clustering(name, parameters["repeats"], bool(parameters["quick"]), folder)
    plain = task.without_omission(epsilon)
    for omit in miranda2026_data.omissions(parameters):
        budget = miranda2026_data.spendable(epsilon, 0.0, omit) if parameters["reduced"] else (epsilon, 0.0)
        other = None if budget is None else task.utility(omit, budget[0], generator)
        yield miranda2026_data.utility_row(
            parameters, "adult" if name == "DPLloyd" else "four groups", name, omit, plain, other, task.omitted(omit)
        )


@dataclass(frozen=True)
class _Clustering:
    """An algorithm on its data."""

    name: str
    repeats: int
    quick: bool
    folder: str

    def utility(
        self, omit: miranda2026_data.Omit, epsilon: float, generator: np.random.Generator
    ) -> miranda2026_data.RepeatedMean:
        """Cost for all rows of centres found on the rows that are kept."""
        rows, _ = _clustering_data(self)
        chances = omit.keep(self.distances(omit))
        costs = []
        for _ in range(self.repeats):
            kept = rows if omit == miranda2026_data.Omit() else rows[generator.random(len(rows)) < chances]
            costs.append(_clustering_cost(self.name, rows, kept, epsilon, self.quick, generator))
        return miranda2026_data.estimate_mean(np.array(costs))

    def distances(self, omit: miranda2026_data.Omit) -> NDArray[np.float64]:
        """Mean distances, or zeros where nothing asks for them."""
        return _mean_distances(self) if omit.m is not None else np.zeros(len(_clustering_data(self)[0]))

    def omitted(self, omit: miranda2026_data.Omit) -> float:
        """The expected share of the rows that is left out."""
        distances = self.distances(omit)
        return miranda2026_data.omitted_share(omit, distances, np.ones(distances.size, dtype=np.int64))

    @lru_cache(maxsize=64)  # noqa: B019 - a frozen value, as hashable as a number
    def without_omission(self, epsilon: float) -> miranda2026_data.RepeatedMean:
        """The baseline: the same in all cells of an ε, so its seed depends on ε alone."""
        return self.utility(miranda2026_data.Omit(), epsilon, np.random.default_rng([2026, round(1000 * epsilon)]))


@lru_cache(maxsize=4)
def _clustering_data(task: _Clustering) -> tuple[NDArray[np.float64], tuple[tuple[float, float], ...]]:
    """Rows and their bounds."""
    if task.name == "DPLloyd":
        rows = miranda2026_data.adult_table(task.folder)[:: 8 if task.quick else 1]
        return rows, ((-1.0, 1.0),) * rows.shape[1]
    return miranda2026_data.four_groups(2026), ((1.0, 100.0),) * 2


@lru_cache(maxsize=4)
def _mean_distances(task: _Clustering) -> NDArray[np.float64]:
    """The mean distance of each row to all; it takes seconds, and only suppression asks for it."""
    rows, bounds = _clustering_data(task)
    return EuclideanDistance(bounds).mean_distances(rows)


def _clustering_cost(
    name: str, rows: Any, kept: Any, epsilon: float, quick: bool, generator: np.random.Generator
) -> float:
    if name == "DPLloyd":
        bounds = [(-1.0, 1.0)] * rows.shape[1]
        model = DPLloyd(
            _CLUSTERS, guarantee=PureDP(epsilon), bounds=bounds, as_published=True, iterations=5 if quick else 20
        )
        centres = model.fit(kept, rng=generator).cluster_centers_
        labels = labels_of(Box(bounds).cells(rows), centres)
        return float(np.square(rows - centres[labels]).sum(axis=1).mean())
    step = 9 if quick else 1
    universe = np.array(list(itertools.product(range(1, 101, step), repeat=2)), dtype=float)
    swaps = 30 if quick else None
    model_k = KMedian(4, guarantee=PureDP(epsilon), universe=universe, swaps=swaps, as_published=True)
    centres = model_k.fit(kept, rng=generator).cluster_centers_
    return float(np.linalg.norm(rows[:, None] - centres[None], axis=2).min(axis=1).mean())


# ---- DPLloyd where the noise has the scale of su2017, (d + 1)T/ε, to whom the paper refers and prints no split


SU_RATES = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05)
_CLUSTERS = 5


def split_cells(data: str, quick: bool) -> list[Parameters]:
    """One cell per ε and rate."""
    repeats = 5 if quick else 200
    return [
        {"epsilon": epsilon, "rate": rate, "repeats": repeats, "quick": quick, "data": data}
        for epsilon in (miranda2026_data.EPSILONS[::2] if quick else miranda2026_data.EPSILONS)
        for rate in (SU_RATES[::3] if quick else SU_RATES)
    ]


def split_rows(parameters: Parameters, seed: int, folder: str = "") -> Iterable[Row]:
    """NICV with noise of scale (d + 1)T/ε: as published at an ε that is 2(dk + 1)/(d + 1) times as large."""
    task = _Clustering("DPLloyd", parameters["repeats"], bool(parameters["quick"]), folder)
    omit = miranda2026_data.Omit(rate=parameters["rate"])
    budget = miranda2026_data.spendable(parameters["epsilon"], 0.0, omit)
    assert budget is not None
    d = _clustering_data(task)[0].shape[1]
    stronger = 2 * (d * _CLUSTERS + 1) / (d + 1)
    found = task.utility(omit, stronger * budget[0], np.random.default_rng(seed))
    yield {
        "epsilon": parameters["epsilon"], "rate": parameters["rate"], "NICV": found.value, "low": found.low,
        "high": found.high, "standard error": found.error,
    }  # fmt: skip


def split_finding(rows: list[Row]) -> str:
    """NICV at the smaller rates over that without sampling."""
    at = {(row["epsilon"], row["rate"]): row["NICV"] for row in rows}
    told = ", ".join(
        f"{value / at[epsilon, 1.0]:.2f} at ε = {epsilon:g}, rate {rate:g}"
        for (epsilon, rate), value in at.items()
        if rate in (0.2, 0.1, 0.05)
    )
    return f"NICV over that without sampling: {told or 'too few settings to tell'}."


# ---- Why k-median shows no effect of sampling at the budgets of miranda2026, and where an effect begins
#
# The paper's setting (100 points on a grid of 10,000 positions, four centres, gupta2010) splits ε over T + 1 = 223
# choices. This part follows the cost of the centres up to an ε that is ten thousand times as large, and beside it the
# reading in which every choice may spend the whole ε. Costs depend on the number of rows n and on ε through n·ε
# alone, so
# a larger ε stands for more rows as well.


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
    """The number of the 100 rows at each position."""
    rows = miranda2026_data.four_groups(2026).astype(int)
    return np.bincount((rows[:, 0] - 1) * SIDE + rows[:, 1] - 1, minlength=SIDE * SIDE).astype(float)


def _swaps() -> int:
    return math.ceil(6 * CENTRES * math.log(SIDE * SIDE))


def _cost(centres: NDArray[np.intp]) -> float:
    """Average distance of all rows to the nearest centre."""
    rows = miranda2026_data.four_groups(2026)
    places = _universe()[centres]
    return float(np.linalg.norm(rows[:, None] - places[None], axis=2).min(axis=1).mean())


def _before_sampling(epsilon: float, rate: float) -> float:
    """The ε that may be spent behind a Poisson sample: log(1 + (e^ε − 1)/rate)."""
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
    reading, repeats = parameters["reading"], parameters["repeats"]
    rate, epsilon, strength = None, None, 0.0
    if reading == "random centres":
        costs = [_cost(generator.choice(SIDE * SIDE, CENTRES, replace=False)) for _ in range(repeats)]
    elif reading == "no noise":
        costs = [_descended(generator) for _ in range(repeats)]
    else:
        epsilon, rate = parameters["epsilon"], parameters["rate"]
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


_KMEDIAN_FIGURES = tuple(
    Figure(
        name=f"k-median-{name}", title=title, x="epsilon", y="cost", low="low", high="high", colour="rate", log_x=True,
        where=(("reading", reading),), measure="average distance to the nearest centre",
    )
    for name, title, reading in (
        ("whole", "ε split over all choices", WHOLE), ("each", "every choice spends the whole ε", EACH),
    )
)  # fmt: skip


MEAN_NOISES = ("laplace", "gaussian")
MODE_MECHANISMS = ("noisy max, Laplace", "noisy max, Gaussian", "noisy max, exponential", "exponential mechanism")
MODE_COLUMNS = tuple(name for name in miranda2026_data.COLUMNS if not name.startswith("census"))


def bound_cells(quick: bool) -> Sequence[Parameters]:
    """Figure 2: one panel an ε."""
    return [{"epsilon": epsilon, "steps": 20 if quick else 50} for epsilon in (0.0, 0.5, 1.0, 2.0)]


def bound_rows(parameters: Parameters, seed: int) -> Iterable[Row]:
    """ε^S over (m, M)."""
    epsilon, steps = parameters["epsilon"], parameters["steps"]
    grid = np.arange(1, steps) / steps
    for m, M in itertools.product(grid, grid):
        if m <= M:
            value = float(outlier_epsilon(epsilon, m, M))
            shown = min(value, 10.0)
            yield {"epsilon": epsilon, "m": round(m, 3), "M": round(M, 3), "bound": value, "shown": shown,
                   "amplifies": value <= epsilon}  # fmt: skip


def bound_finding(rows: list[Row]) -> str:
    """Where suppression amplifies."""
    lines = ["Where ε^S ≤ ε:\n"]
    for epsilon in sorted({row["epsilon"] for row in rows}):
        panel = [row for row in rows if row["epsilon"] == epsilon]
        share = sum(row["amplifies"] for row in panel) / len(panel)
        lines.append(f"- ε = {epsilon:g}: suppression amplifies on {100 * share:.0f} % of the triangle m ≤ M.")
    return "\n".join(lines)


def _with_regions(rows: list[Row]) -> list[Row]:
    """Where suppression amplifies, and which term of Theorem 5.4 is the largest (Figure 75)."""
    steps = max(len({row["m"] for row in rows}) + 1, 2)
    return [
        {
            **row,
            AMPLIFIES: bool(row["amplifies"]),
            "maximum": largest_term(row["epsilon"], row["m"], row["M"]),
            "drawn": all(round(row[name] * steps) % 2 == 0 for name in ("m", "M")),
        }
        for row in rows
    ]


def largest_term(epsilon: float, m: float, M: float) -> str:
    """Which term of Theorem 5.4 is the maximum: l₁ or l₂ at an end of p, inside, or l₃.

    Examples
    --------
    >>> largest_term(1.0, 0.4, 0.4), largest_term(1.0, 0.2, 0.6), largest_term(0.5, 0.1, 0.9)
    ('p = 0', 'p = 1', 'between')
    """
    p, e = np.linspace(0.0, 1.0, 201), np.exp(epsilon)
    mixed, other = p * M + (1 - p) * m, ((M + m) - p * M) / (2 - p)
    first = np.log(e - (e - 1) * mixed) + p * M / m + (1 - p) * (1 - m) / (1 - mixed) - 1
    second = np.log(e - (e - 1) * (p * M + (1 - p) * other)) + p * M / m + (1 - p) * (1 - other) / (1 - M) - 1
    third = -np.log(1 / e + (1 - 1 / e) * M) + 1 - (1 - M) / (1 - m)
    both = np.maximum(first, second)
    if third >= both.max() - 1e-12:
        return "l₃"
    for end, name in ((0, "p = 0"), (-1, "p = 1")):
        if both[end] >= both.max() - 1e-12:
            return name
    return "between"


def _few_bounds(rows: list[Row]) -> list[Row]:
    """Tenths only."""
    near = [row for row in rows if all(abs(row[name] * 5 - round(row[name] * 5)) < 1e-9 for name in ("m", "M"))]
    return [{name: row[name] for name in ("epsilon", "m", "M", "bound", "amplifies")} for row in near]


def column_cells(statistic: str, omission: str, data: str, quick: bool) -> list[Parameters]:
    """One cell per column and ε; suppression also without the noise reduction (appendix A.7, A.8)."""
    names = miranda2026_data.COLUMNS if statistic == "mean" else MODE_COLUMNS
    repeats = {"mean": 60 if quick else 500, "mode": 200 if quick else 2000}[statistic]
    chosen = names[:1] + names[-1:] if quick else names
    reductions = (True,) if omission == "sampling" or quick else (True, False)
    return [
        {
            "statistic": statistic,
            "omission": omission,
            "column": name,
            "epsilon": epsilon,
            "reduced": reduced,
            "repeats": repeats,
            "quick": quick,
            "data": data,
        }
        for name in chosen
        for epsilon in (miranda2026_data.EPSILONS[::2] if quick else miranda2026_data.EPSILONS)
        for reduced in reductions
    ]


def column_rows(parameters: Parameters, seed: int, folder: str = "") -> Iterable[Row]:
    """Utility of all mechanisms on one column over all rates or all (m, M); mechanisms share the samples."""
    generator = np.random.default_rng(seed)
    column = _ColumnTask.of(parameters, folder, generator)
    plain = column.utilities(miranda2026_data.Omit(), column.targets)
    for omit in miranda2026_data.omissions(parameters):
        budgets = column.budgets(omit) if parameters["reduced"] else column.targets
        found, omitted = column.utilities(omit, budgets), column.omitted(omit)
        for method, base in plain.items():
            assert base is not None  # without omission the whole budget is there
            yield miranda2026_data.utility_row(parameters, column.data.name, method, omit, base, found[method], omitted)


Budgets = Mapping[str, tuple[float, float] | None]
Utilities = dict[str, miranda2026_data.RepeatedMean | None]


@dataclass(frozen=True)
class _ColumnTask:
    """Means or modes of one column, by all mechanisms."""

    data: miranda2026_data.Column
    averaging: bool
    targets: Mapping[str, tuple[float, float]]
    repeats: int
    generator: np.random.Generator

    @classmethod
    def of(cls, parameters: Parameters, folder: str, generator: np.random.Generator) -> _ColumnTask:
        data = miranda2026_data.column(parameters["column"], folder)
        averaging, epsilon = parameters["statistic"] == "mean", parameters["epsilon"]
        targets = {
            method: (epsilon, data.size**-2.0 if "aussian" in method else 0.0)
            for method in (MEAN_NOISES if averaging else MODE_MECHANISMS)
        }
        return cls(data, averaging, targets, parameters["repeats"], generator)

    @property
    def kind(self) -> str:
        return "absolute" if self.averaging else "discrete"

    def budgets(self, omit: miranda2026_data.Omit) -> Budgets:
        """What each mechanism may spend behind an omission."""
        return {method: miranda2026_data.spendable(*target, omit) for method, target in self.targets.items()}

    def omitted(self, omit: miranda2026_data.Omit) -> float:
        """The expected share of the records that is left out."""
        distances = miranda2026_data.mean_distances(self.data, self.kind)
        return miranda2026_data.omitted_share(omit, distances, self.data.counts)

    def utilities(self, omit: miranda2026_data.Omit, budgets: Budgets) -> Utilities:
        """Utility of each mechanism that has a budget, on the same samples."""
        counts = miranda2026_data.kept_counts(self.data, omit, self.kind, self.repeats, self.generator)
        return {method: budget and self._utility(method, budget, counts) for method, budget in budgets.items()}

    def _utility(
        self, method: str, budget: tuple[float, float], counts: NDArray[np.int64]
    ) -> miranda2026_data.RepeatedMean:
        if self.averaging:
            errors = miranda2026_data.mean_errors(self.data, method, budget, counts, self.generator)
            return miranda2026_data.estimate_mean(errors)
        failures = miranda2026_data.mode_failures(self.data, method, budget, counts, self.generator)
        return miranda2026_data.estimate_share(failures)


def similar_cells(statistic: str, data: str, quick: bool) -> list[Parameters]:
    """One cell per column and ε, with ten times the paper's repeats of means: differences are small."""
    repeats = {"mean": 60 if quick else 5000, "mode": 200 if quick else 4000}[statistic]
    cells = column_cells(statistic, "suppression", data, quick)
    return [{**cell, "omission": "similar", "repeats": repeats} for cell in cells if cell["reduced"]]


def similar_rows(parameters: Parameters, seed: int, folder: str = "") -> Iterable[Row]:
    """Outlier suppression with m < M beside a Poisson sample that leaves out as many records, at equal privacy."""
    column = _ColumnTask.of(parameters, folder, np.random.default_rng(seed))
    for omit in miranda2026_data.omissions(parameters):
        omitted = column.omitted(omit)
        even = miranda2026_data.Omit(rate=1 - omitted)
        uneven, uniform = (column.utilities(one, column.budgets(one)) for one in (omit, even))
        for method, one in uneven.items():
            other = uniform[method]
            if omit.m != omit.M and one is not None and other is not None:
                gap, z = miranda2026_data.difference(other, one)
                yield {
                    "subject": column.data.name, "method": method, "epsilon": parameters["epsilon"],
                    "m": omit.m, "M": omit.M, "omitted": omitted, "uniform": other.value, "by score": one.value,
                    "difference": gap, "z": z,
                }  # fmt: skip


def similar_finding(rows: list[Row]) -> str:
    """How often either side is surely better."""
    even, score = (sum(sign * row["z"] > 3 for row in rows) for sign in (-1, 1))
    ties = sum(row["difference"] == 0 for row in rows)
    return (
        f"Of {len(rows)} settings with M > m and a budget, Poisson sampling of as many records is better by more than "
        f"three standard errors in {even}, suppression by score in {score}; {ties} are exact ties."
    )


def omission_finding(rows: list[Row]) -> str:
    """The rate at which omission helps, with a test against chance; clustering algorithms apart from each other."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    if not set(methods) <= set(CLUSTERINGS):
        return _omission_finding(rows)
    told = [f"**{name}.** {_omission_finding([row for row in rows if row['method'] == name])}" for name in methods]
    return "\n\n".join(told)


def _omission_finding(rows: list[Row]) -> str:
    tried = [row for row in rows if row["z"] is not None and row["noise reduction"]]
    if not tried:
        return "No setting has a budget."
    # One-sided at 5 % over all settings together (Bonferroni).
    from scipy.special import ndtri

    bar = -float(ndtri(0.05 / len(tried)))
    better = [row for row in tried if row["difference"] > 0]
    surely = [row for row in better if row["z"] > bar]
    worse = [row for row in tried if row["z"] < -bar]
    none = sum(row["z"] is None for row in rows)
    lines = [
        "Over all settings:\n",
        f"- {len(tried)} settings at equal privacy{f'; {none} more have no budget at all' if none else ''}.",
        f"- Omission is significantly worse in {len(worse)} ({100 * len(worse) / len(tried):.0f} %), "
        f"seems better in {len(better)}, and is significantly better in {len(surely)} (z > {bar:.2f}).",
    ]
    if better:
        top = max(better, key=lambda row: row["z"])
        where = f"rate {top['rate']:g}" if top["rate"] is not None else f"m = {top['m']:g}, M = {top['M']:g}"
        verdict = "significant" if top["z"] > bar else "not significant"
        lines.append(
            f"- The most striking gain is {top['difference']:.3g} ({top['subject']}, {top['method']}, "
            f"ε = {top['epsilon']:g}, {where}), z = {top['z']:.2f}: {verdict}."
        )
    worst = min(tried, key=lambda row: row["difference"])
    lines.append(
        f"- The largest loss is {-worst['difference']:.3g} ({worst['subject']}, {worst['method']}, "
        f"ε = {worst['epsilon']:g})."
    )
    return "\n".join(lines)


AMPLIFIES = "ε^S ≤ ε"
"""The column that says where suppression amplifies: between the diagonal and the paper's blue line."""


def _summary(rows: list[Row]) -> list[Row]:
    """Settings with a budget; for sampling also the mechanism without it, as rate 1."""
    amplifies = cache(_amplifies)  # many rows share a setting
    settings = ("epsilon", "m", "M")
    shown = [
        {**row, AMPLIFIES: amplifies(*(row[name] for name in settings))} for row in rows if row["with"] is not None
    ]
    whole: dict[tuple[Any, ...], Row] = {}
    for row in shown:
        if row["rate"] is not None:
            value = row["without"]
            base = {**row, "rate": 1.0, "with": value, "low": value, "high": value, "difference": 0.0, "z": 0.0}
            whole.setdefault((row["subject"], row["method"], row["epsilon"]), base)
    return shown + list(whole.values())


def _amplifies(epsilon: float, m: float | None, M: float | None) -> bool:
    return m is None or M is None or bool(outlier_epsilon(epsilon, m, M) <= epsilon)


def _shown(rows: list[Row]) -> list[Row]:
    """A few settings for the page: rates ½ and 0.9, or m = 0.1 and 0.5 near the diagonal; the CSV file has all."""
    keep = [row for row in rows if row["rate"] in (0.5, 0.9) or (row["m"] in (0.1, 0.5) and row["M"] - row["m"] < 0.15)]
    names = ("subject", "method", "epsilon", "noise reduction", "rate", "m", "M", "without", "with", "difference", "z")
    return [{name: row[name] for name in names} for row in keep]


def _file_name(*words: str) -> str:
    return "-".join(word.lower().replace(" ", "-") for word in words)


def _numbers(kind: str, omission: str, subject: str, *, reduced: bool = True) -> str:
    """The numbers of the paper's figures that one of ours stands for: a row of panels each."""
    first, each = {"mean": (15, 2), "mode": (27, 4), "clustering": (43, 1)}[kind]
    subjects = _subjects(kind)
    place = subjects.index(subject)
    if omission == "sampling":
        return f"Figure {({'mean': 4, 'mode': 10, 'clustering': 14}[kind]) + (place if kind != 'clustering' else 0)}"
    start = first + (0 if reduced else 30) + each * place
    return f"Figure {start}" if each == 1 else f"Figures {start}–{start + each - 1}"


def _subjects(kind: str) -> tuple[str, ...]:
    """In the order of the paper's figures."""
    return {"mean": miranda2026_data.COLUMNS, "mode": MODE_COLUMNS, "clustering": ("four groups", "adult")}[kind]


def _figures(kind: str, omission: str, title: str) -> tuple[Figure, ...]:
    """One chart per subject, as in the paper's gallery (appendix A)."""
    if omission == "sampling" and kind == "mean":
        return tuple(
            Figure(
                name=_file_name(omission, kind, subject),
                title=f"{_numbers(kind, omission, subject)}. {title}: {subject}; grey: without sampling", x="rate",
                y="with", low="low", high="high", row="method", column="epsilon", log_y=True, target="without",
                dots=False, where=(("subject", subject),), measure=_utility(kind, subject),
            )
            for subject in _subjects(kind)
        )  # fmt: skip
    if omission == "sampling":
        return tuple(
            Figure(
                name=_file_name(omission, kind, subject),
                title=f"{_numbers(kind, omission, subject)}. {title}: {subject}", x="rate", y="with", low="low",
                high="high", colour="epsilon", column="method", where=(("subject", subject),),
                measure=_utility(kind, subject), note=_SAMPLED_NOTES.get(kind, ""),
            )
            for subject in _subjects(kind)
        )  # fmt: skip
    return tuple(
        HeatMap(
            name=_file_name(omission, kind, subject, suffix),
            title=f"{_numbers(kind, omission, subject, reduced=reduced)}. {title}: {subject}, {words}",
            x="m", y="M", colour="difference", column="epsilon", row="method", middle=0.0,
            label="label", outlined=AMPLIFIES, measure="u(M) − u(M∘S)",
            where=(("noise reduction", reduced), ("subject", subject)),
            note=_FEW_REPEATS if (subject, reduced) == ("four groups", False) else "",
        )
        for subject in _subjects(kind)
        for suffix, words, reduced in (
            ("equal-privacy", "at equal privacy", True), ("same-noise", "at equal noise", False),
        )
    )  # fmt: skip


def _utility(kind: str, subject: str) -> str:
    """The name of the utility drawn for sampling; smaller is better."""
    if kind == "clustering":
        return "average distance to a centre" if subject == "four groups" else "normalised intra-cluster variance"
    return {"mean": "mean percent error", "mode": "probability of a wrong mode"}[kind]


_SAMPLED_NOTES = {
    "clustering": (
        f"Full grid, reduced: {len(miranda2026_data.CLUSTERING_RATES)} of the paper's 99 rates. "
        "Rate 1 is the mechanism without sampling."
    )
}
_FEW_REPEATS = "Full grid, reduced: 5 repeats of k-median at equal noise, where the paper takes 20."


class _Experiment:
    """One experiment on the files of a folder, or on stand-ins; picklable, as it may run in other processes.

    Cells say which of the two they use, not where the folder is: the same files give the same results anywhere.
    """

    def __init__(self, kind: str, omission: str, folder: str) -> None:
        self.kind, self.omission, self.folder = kind, omission, folder

    def cells(self, quick: bool) -> Sequence[Parameters]:
        data = "files" if self.folder else "stand-ins"
        if self.kind == "clustering":
            return clustering_cells(self.omission, data, quick)
        if self.omission == "similar":
            return similar_cells(self.kind, data, quick)
        if self.omission == "split":
            return split_cells(data, quick)
        return column_cells(self.kind, self.omission, data, quick)

    def compute(self, parameters: Parameters, seed: int) -> Iterable[Row]:
        if self.omission == "similar":
            return similar_rows(parameters, seed, self.folder)
        if self.omission == "split":
            return split_rows(parameters, seed, self.folder)
        rows = clustering_rows if self.kind == "clustering" else column_rows
        return rows(parameters, seed, self.folder)


def _part(kind: str, omission: str, folder: str) -> Part:
    words = {"mean": "Mean", "mode": "Mode", "clustering": "Clustering"}[kind]
    title = f"{words} with {'Poisson sampling' if omission == 'sampling' else 'outlier-score suppression'}"
    experiment = _Experiment(kind, omission, folder)
    return Part(
        f"{omission}-{kind}", experiment.cells, experiment.compute, summary=_summary, finding=omission_finding,
        figures=_figures(kind, omission, title), shown=_shown,
    )  # fmt: skip


def _similar_part(kind: str, folder: str) -> Part:
    experiment = _Experiment(kind, "similar", folder)
    return Part(
        f"similar-{kind}",
        experiment.cells,
        experiment.compute,
        finding=similar_finding,
        figures=(_SIMILAR_FIGURES[kind],),
    )


_SIMILAR_FIGURES = {
    kind: Figure(
        name=f"similar-{kind}", title=f"{kind.capitalize()}: suppression by score or evenly",
        x="omitted", y="difference", colour="epsilon", column="subject", mark="point", target=0.0,
        measure="u(sampling) − u(suppression)", x_words="share of the records left out",
    )
    for kind in ("mean", "mode")
}  # fmt: skip


_STAND_INS = (
    "generated stand-ins with the size and shape of the originals, because no folder was given. With "
    "`--data FOLDER` the study reads Adult (`adult.data` of the UCI repository), Census (`CASCrefmicrodata`, the CASC "
    "reference microdata) and the Irish census sample (`irish_census.csv`); each may be a CSV file with these columns"
)


def with_data(folder: str | Path | None) -> Study:
    """The study on the files in ``folder``; on generated stand-ins where it is None."""
    if folder is not None and not Path(folder).is_dir():
        raise InvalidParameter("data", str(folder), "is not a folder", "Pass the folder with the data files.")
    place = "" if folder is None else str(folder)
    source = "the files of the given folder" if place else _STAND_INS
    bounds = Part("figure-2", bound_cells, bound_rows, summary=_with_regions, finding=bound_finding, shown=_few_bounds)
    tried = [_part(kind, how, place) for how in ("sampling", "suppression") for kind in ("mean", "mode", "clustering")]
    tried += [_similar_part(kind, place) for kind in ("mean", "mode")]
    split = _Experiment("DPLloyd", "split", place)
    tried.append(Part("lloyd-su2017", split.cells, split.compute, finding=split_finding))
    median = Part("k-median", _cells, _rows, summary=_drawn, finding=_finding, figures=_KMEDIAN_FIGURES)
    rates = str(len(miranda2026_data.CLUSTERING_RATES))
    return Study.read("miranda2026", (bounds, *tried, median), CLAIMS, source=source, rates=rates)


STUDY = with_data(None)
