"""Sums, quantiles and slopes beside the methods that were published for them.

    python benchmarks/beside_published.py    # draws, prints the table, and keeps it in results/beside_published.json

Sums are of amounts with cents between 0 and 100 at ε = 5. Quantiles are of skewed columns within wide bounds at ε = 1,
beside a choice by the exponential mechanism (Smith 2011), with the width of discreet's interval for the data. Slopes
are those of `slopes.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import slopes
from discreet import Bounds, Neighbours, PureDP, Schema
from discreet.questions import QuantileQuestion, SumQuestion
from discreet.questions.quantile import Quantiles

Array = NDArray[np.float64]
STORED = Path(__file__).parent / "results" / "beside_published.json"
REPEATS = 400
ROWS, SHARE = 300, 0.9


def zeros(rng: np.random.Generator) -> Array:
    """Seven in ten are zero, the others lognormal."""
    return np.asarray(np.where(rng.random(ROWS) < 0.7, 0.0, np.minimum(rng.lognormal(3, 1.2, ROWS), 1000)))


def pareto(rng: np.random.Generator) -> Array:
    """A heavy tail."""
    return np.asarray(np.minimum(10 * (1 + rng.pareto(1.1, ROWS)), 10_000))


def two_degrees(rng: np.random.Generator) -> Array:
    """Student's t with two degrees of freedom, about the middle of the bounds."""
    return np.asarray(np.clip(500 + 15 * rng.standard_t(2, ROWS), 0, 1000))


COLUMNS = {
    "70 % zeros, lognormal": (zeros, 1000.0), "Pareto 1.1": (pareto, 10_000.0), "t, 2 degrees": (two_degrees, 1000.0)
}  # fmt: skip


def chosen(data: Array, high: float, rng: np.random.Generator) -> float:
    """The exponential mechanism on the gaps between the values (Smith 2011), at ε = 1."""
    edges = np.concatenate([[0.0], np.sort(data), [high]])
    ranks = np.abs(np.arange(edges.size - 1) - SHARE * data.size)
    with np.errstate(divide="ignore"):
        weights = np.log(np.diff(edges)) - ranks / 2
    place = int(np.argmax(weights + rng.gumbel(size=weights.size)))
    return float(rng.uniform(edges[place], edges[place + 1]))


def quantiles(name: str) -> dict[str, Any]:
    """Errors of the quantile of one column, and the median width of discreet's interval."""
    rng = np.random.default_rng(12)
    draw, high = COLUMNS[name]
    schema = Schema(columns={"x": Bounds(0, high, grid=0.1)})
    measurement = QuantileQuestion(schema, "x", SHARE, epsilon=1.0).measurement
    of = measurement.statistic
    alone = QuantileQuestion(schema, "x", SHARE, epsilon=1.0, interval=None).measurement
    assert isinstance(of, Quantiles)
    assert isinstance(alone.statistic, Quantiles)
    own, single, published, widths = [], [], [], []
    for _ in range(REPEATS):
        data = draw(rng).round(1)
        truth = float(np.quantile(data, SHARE, method="inverted_cdf"))
        exact = of.exact(data, neighbours=Neighbours.ADD_REMOVE)
        low, found, up = np.ravel(measurement.mechanism.draw(exact.value, rng=rng)).tolist()
        own.append(found - truth)
        point = alone.statistic.exact(data, neighbours=Neighbours.ADD_REMOVE)
        single.append(float(np.ravel(alone.mechanism.draw(point.value, rng=rng))[0]) - truth)
        published.append(chosen(data, high, rng) - truth)
        widths.append(up - low)
    return {
        "question": f"0.9 quantile, {ROWS} rows, ε = 1: {name}", "error": "root mean square", "discreet": _rms(own),
        "without interval": _rms(single), "published": _rms(published), "interval": float(np.median(widths)),
        "method": "exponential mechanism (Smith 2011)",
    }  # fmt: skip


def _rms(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


def sums() -> dict[str, Any]:
    """The noise in a sum at ε = 5."""
    schema = Schema(columns={"x": Bounds(0, 100, grid=0.01)})
    found = SumQuestion(schema, "x", guarantee=PureDP(5.0)).measurement.mechanism
    own = float(np.sqrt(np.asarray(found.law(0.0).variance)))
    return {
        "question": "sum of amounts from 0 to 100, ε = 5", "error": "root mean square", "discreet": own,
        "published": 20 * 2**0.5, "method": "Laplace",
    }  # fmt: skip


def measured() -> list[dict[str, Any]]:
    """All rows."""
    lines = [
        {
            "question": f"slope, {one['people']:,} rows, deviation of x {one['spread']}, ε = 1",
            "error": "median absolute", "discreet": one["errors"]["slope"], "published": one["errors"]["alabi2022"],
            "method": "Theil–Sen matchings (Alabi et al. 2022)",
        }
        for one in slopes.stored()
    ]  # fmt: skip
    return [sums(), *(quantiles(name) for name in COLUMNS), *lines]


def stored() -> list[dict[str, Any]]:
    """The figures of the last run."""
    found: list[dict[str, Any]] = json.loads(STORED.read_text(encoding="utf-8"))
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """A row for each question."""
    heads = "question | error | discreet | its interval | discreet without | published | method"
    lines = [f"| {heads} |", "|---" * 7 + "|"]
    for one in rows:
        width = f"{one['interval']:.3g} wide" if "interval" in one else ""
        alone = f"{one['without interval']:.3g}" if "without interval" in one else ""
        lines.append(
            f"| {one['question']} | {one['error']} | {one['discreet']:.3g} | {width} | {alone} | "
            f"{one['published']:.3g} | {one['method']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    figures = measured()
    STORED.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(figures))
