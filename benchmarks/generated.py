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
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray
from scipy import stats

from discreet import ApproxDP, Bounds, Categories, GaussianDP, PureDP, Schema, Session, ZeroConcentratedDP
from discreet.core.guarantee import Guarantee
from discreet.results.frames import Reading

Array = NDArray[np.float64]
STORED = Path(__file__).parent / "results" / "generated.json"
STEPS = 1024
POINTS = np.arange(STEPS + 1) / STEPS
LEAST, ERRORS, LEVEL = 0.935, 3.0, 0.95
GROUPED_ROWS = 1_500_000
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
}  # fmt: skip


def grouped(kind: str, rng: np.random.Generator, repeats: int) -> dict[str, Any]:
    """A question by group, of a table in which every group is a sample."""
    of, n, budget = population(rng), _rows(rng), guarantee(rng)
    repeats = min(repeats, max(GROUPED_ROWS // n, 100))
    ask, truth_of, spread_of = GROUPED[kind]
    labels = [str(place) for place in range(repeats)]
    y: Any = of.sample(repeats * n, rng)
    z = rng.random(repeats * n)
    if "missing" in kind:
        y = np.where(rng.random(y.size) < 0.1, np.nan, y)
    table = pyarrow.table({"y": y, "z": z, "g": pyarrow.array(np.repeat(labels, n))})
    columns: dict[str, Any] = {"y": COLUMN, "z": Bounds(0, 1, grid=1e-3), "g": Categories(labels)}
    answer = ask(Session(table, Schema(columns=columns), ledger=":memory:", budget=budget), budget)
    found: list[Reading] = [answer[label].readings()[0] for label in labels]
    ends = np.array([[one.population.low, one.population.high] for one in found if one.population is not None])
    truth = truth_of(of)
    held = (ends[:, 0] <= truth + 1e-12) & (ends[:, 1] >= truth - 1e-12)
    return _cell(kind, of.words, n, budget, held, ends[:, 1] - ends[:, 0], spread_of(of) / math.sqrt(n))


# ---- Questions of several columns: one small table for each repeat


def _session(columns: dict[str, Any], table: dict[str, Any], budget: Guarantee) -> Session:
    return Session(pyarrow.table(table), Schema(columns=columns), ledger=":memory:", budget=budget)


def comparison(rng: np.random.Generator, repeats: int) -> dict[str, Any]:
    """The difference of two arms, from equal sizes to 300 : 1."""
    arms, budget = (population(rng), population(rng)), guarantee(rng)
    few = _rows(rng, 60, 600)
    sizes = few, min(round(few * math.exp(rng.uniform(0, math.log(300)))), 20_000)
    columns, truth = {"y": COLUMN, "arm": Categories(["old", "new"])}, arms[0].mean - arms[1].mean
    held, widths = [], []
    for _ in range(repeats // 4):
        y = np.concatenate([arm.sample(size, rng) for arm, size in zip(arms, sizes, strict=True)])
        labels = pyarrow.array(np.repeat(["new", "old"], sizes))
        session = _session(columns, {"y": y, "arm": labels}, budget)
        low, high = session.compare_means("y", by="arm", guarantee=budget).population_interval()
        held.append(low <= truth <= high)
        widths.append(high - low)
    ideal = math.sqrt(sum(arm.variance / size for arm, size in zip(arms, sizes, strict=True)))
    words = f"{arms[0].words} | {arms[1].words} | {sizes[0]} : {sizes[1]}"
    return _cell("compare_means", words, sum(sizes), budget, np.array(held), np.array(widths), ideal)


def regression(rng: np.random.Generator, repeats: int) -> dict[str, Any]:
    """The coefficients of a rare level and of a number, with errors from any population."""
    errors, numbers, budget, n = population(rng), population(rng), guarantee(rng), _rows(rng, 200, 4000)
    rare, slope = float(rng.uniform(0.01, 0.3)), float(rng.uniform(-0.2, 0.2))
    shift = float(rng.uniform(0, 0.2))
    columns = {"y": COLUMN, "x": COLUMN, "g": Categories(["usual", "rare"])}
    held, widths = [], []
    for _ in range(repeats // 4):
        level = rng.random(n) < rare
        x, e = numbers.sample(n, rng), errors.sample(n, rng)
        y = 0.25 + slope * x + shift * level + 0.5 * e  # within the bounds, so that the line is the truth
        labels = pyarrow.array(np.where(level, "rare", "usual"))
        session = _session(columns, {"y": y, "x": x, "g": labels}, budget)
        found = session.regression("y", on=["x", "g"], guarantee=budget).intervals()
        low, high = found["g[rare]"]
        held.append(low <= shift <= high)
        widths.append(high - low)
    ideal = 0.5 * math.sqrt(errors.variance * (1 / (rare * n) + 1 / ((1 - rare) * n)))
    words = f"errors {errors.words} | x {numbers.words} | level {rare:.3f}"
    return _cell("regression, a rare level", words, n, budget, np.array(held), np.array(widths), ideal)


def _cell(
    kind: str, words: str, n: int, budget: Guarantee, held: NDArray[np.bool_], widths: Array, ideal: float
) -> dict[str, Any]:
    usual = float(np.median(widths)) / (2 * stats.norm.ppf((1 + LEVEL) / 2) * ideal) if ideal > 0 else math.inf
    return {
        "question": kind, "population": words, "rows": n, "guarantee": str(budget), "repeats": int(held.size),
        "covered": round(float(held.mean()), 4), "width": round(float(usual), 3) if math.isfinite(usual) else None,
    }  # fmt: skip


def cell(seed: int, repeats: int) -> dict[str, Any]:
    """The cell of a seed."""
    rng = np.random.default_rng(seed)
    kinds = [*GROUPED, "compare_means", "regression"]
    kind = kinds[seed % len(kinds)]
    own: dict[str, Callable[[np.random.Generator, int], dict[str, Any]]]
    own = {"compare_means": comparison, "regression": regression}
    found = own[kind](rng, repeats) if kind in own else grouped(kind, rng, repeats)
    return {"seed": seed, **found}


def fails(one: dict[str, Any]) -> bool:
    """Whether a cell is below the least coverage by more than three errors."""
    return bool(one["covered"] < LEAST - ERRORS * math.sqrt(LEAST * (1 - LEAST) / one["repeats"]))


def stored() -> list[dict[str, Any]]:
    """The cells that were measured."""
    found: list[dict[str, Any]] = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else []
    return found


def table(cells: list[dict[str, Any]]) -> str:
    """By question: cells, the least coverage and where, and widths over those of intervals without privacy."""
    lines = ["| question | populations | least covered | with | width, median | width, nine in ten below |"]
    lines.append("|---" * 6 + "|")
    for kind in dict.fromkeys(one["question"] for one in sorted(cells, key=lambda one: one["seed"])):
        own = [one for one in cells if one["question"] == kind]
        least = min(own, key=lambda one: one["covered"])
        widths = [one["width"] for one in own if one["width"] is not None]
        told = [f"{np.quantile(widths, share):.3g}" for share in (0.5, 0.9)]
        where = f"{least['rows']:,} rows, {least['guarantee']}"
        lines.append(f"| {kind} | {len(own)} | {100 * least['covered']:.1f} % | {where} | {' | '.join(told)} |")
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
