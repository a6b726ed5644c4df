"""Cells of the coverage study: what a setting is, what is recorded of it, and how many settings are summed up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.guarantee import GaussianDP, PureDP
from discreet.core.protection import Neighbours
from discreet.core.schema import Bounds, Schema
from discreet.inference.noise import excess_kurtosis
from discreet.papers.figure import Figure
from discreet.papers.study import Part, Row
from discreet.questions.moments import rows_per_unit
from discreet.questions.question import Measurement

__all__ = [
    "FEWER", "GUARANTEES", "LEAST", "LEVEL", "Parameters", "columns_of", "coverage_part", "coverage_row",
    "guarantee_of", "parts_of", "released", "settings",
]  # fmt: skip


Array = NDArray[np.float64]
Parameters = Mapping[str, Any]

LEVEL = 0.95
LEAST = 0.935
GUARANTEES: dict[str, Any] = {"ε-DP": PureDP, "μ-GDP": GaussianDP}
"""ρ-zCDP has the normal noise of μ = √(2ρ), and (ε, δ)-DP the smaller of both noises: their laws are among these."""
FEWER: dict[str, Any] = {"n": (30, 100, 1000, 10_000), "budget": (0.1, 0.3, 1.0, 10.0)}
SIZES, BUDGETS = (30, 100, 1000, 10_000), (0.1, 0.3, 1.0, 3.0, 10.0)


def settings(populations: Iterable[str], repeats: int, **axes: Any) -> Callable[[bool], list[dict[str, Any]]]:
    """All combinations of the axes with every population, size and budget."""

    def cells(quick: bool) -> list[dict[str, Any]]:
        sizes, budgets = (SIZES, BUDGETS) if not quick else ((100, 1000), (0.3, 3.0))
        own = {name: axis for name, axis in axes.items() if name not in FEWER}
        grid = {"n": sizes, "budget": budgets} | ({} if quick else {name: axes[name] for name in FEWER if name in axes})
        every = {"population": tuple(populations), **own, **grid}
        count = repeats // 10 if quick else repeats
        return [dict(zip(every, cell, strict=True)) | {"repeats": count} for cell in product(*every.values())]

    return cells


def coverage_row(parameters: Parameters, covered: NDArray[np.bool_], widths: Array, ideal: float) -> Row:
    """Coverage with its Monte-Carlo error, and the median width over 2·1.96 true standard errors."""
    shown = {name: value for name, value in parameters.items() if name != "repeats"}
    return {
        **shown,
        "repeats": covered.size,
        "coverage": float(np.mean(covered)),
        "standard_error": math.sqrt(LEVEL * (1 - LEVEL) / covered.size),
        "width": float(np.median(widths)),
        "width_ratio": float(np.median(widths)) / (2 * 1.959964 * ideal) if ideal > 0 else None,
    }


def finding(rows: list[Row]) -> str:
    """The least coverage, where it is, and the widths where there is data enough to learn something."""
    least = min(rows, key=lambda row: float(row["coverage"]))
    error = max(row["standard_error"] for row in rows)
    below = [row for row in rows if row["coverage"] < LEAST - 2 * error]
    text = (
        f"Least of {len(rows)} settings: {100 * least['coverage']:.1f} % ({least['population']}, n = {least['n']}, "
        f"budget {least['budget']:g}). Below 93.5 % by more than two Monte-Carlo errors ({100 * error:.2f} %): "
        f"{len(below) or 'none'}."
    )
    ample = [row["width_ratio"] for row in rows if row["n"] >= 1000 and row["budget"] >= 1 and row["width_ratio"]]
    if not ample:
        return text
    return f"{text} Width ratio: median {np.median(ample):.2f}, nine in ten below {np.quantile(ample, 0.9):.2f}."


def worst(rows: list[Row]) -> list[Row]:
    """The least coverage over guarantees, relations and mechanisms, by population, size and budget."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault((row["population"], row["n"], row["budget"]), []).append(row)
    return [
        {
            "population": name,
            "n": n,
            "budget": budget,
            "least coverage": min(row["coverage"] for row in group),
            "width ratio": float(np.median([row["width_ratio"] or np.nan for row in group])),
        }
        for (name, n, budget), group in found.items()
    ]


def by_population(rows: list[Row]) -> list[Row]:
    """One line per population: the least coverage for every size, and the median width where there is enough data."""
    sizes = sorted({int(row["n"]) for row in rows})
    lines = []
    for name in dict.fromkeys(row["population"] for row in rows):
        own = [row for row in rows if row["population"] == name]
        least = {f"n = {n}": min(row["least coverage"] for row in own if row["n"] == n) for n in sizes}
        widths = [row["width ratio"] for row in own if row["n"] >= 1000 and row["budget"] >= 1]
        ample = [width for width in widths if not math.isnan(width)]  # a tie leaves nothing to compare with
        lines.append({"population": name, **least, "width ratio": float(np.median(ample)) if ample else None})
    return lines


def coverage_part(name: str, title: str, compute: Any, cells: Any) -> Part:
    """A part of the study, with the figure, the table and the finding that all of them have."""
    return Part(
        name=name,
        title=title,
        cells=cells,
        compute=compute,
        summary=worst,
        finding=finding,
        shown=by_population,
        figures=(
            Figure(
                name=f"{name}-coverage",
                title=title,
                x="budget",
                y="least coverage",
                colour="population",
                column="n",
                log_x=True,
            ),
        ),
    )


# ---- Noisy totals in parts of many samples, with the weights and the noise of the question that would release them


_COLUMN = Bounds(0, 1, grid=2**-10, nulls="refuse")  # so that a public number of rows stays what it is


def guarantee_of(parameters: Parameters) -> Any:
    """The guarantee of a setting, with its budget."""
    return GUARANTEES[parameters["guarantee"]](parameters["budget"])


def columns_of(parameters: Parameters, *names: str) -> Schema:
    """Columns between 0 and 1, in a table whose number of rows is private or public as the setting says."""
    public = parameters["size"] == "public"
    return Schema(
        columns=dict.fromkeys(names, _COLUMN),
        neighbours=Neighbours.REPLACE_ONE if public else Neighbours.ADD_REMOVE,
        size=parameters["n"] if public else None,
    )


def parts_of(points: Array, degree: int) -> Array:
    """The parts of every point, one column each."""
    columns = [math.comb(degree, k) * points**k * (1 - points) ** (degree - k) for k in range(degree + 1)]
    return np.stack(columns, axis=1)


def released(asked: Measurement, totals: Array, rng: np.random.Generator) -> dict[str, Any]:
    """What `NoisyTotals` are made of where a release measures exact totals, of which every line is another sample."""
    statistic: Any = asked.statistic
    weights, law = np.array([float(weight) for weight in statistic.multiplied]), asked.mechanism.law(0.0)
    return {
        "totals": totals + np.asarray(law.sample(totals.shape, rng=rng)) / weights,
        "noise": float(np.max(law.variance)) / weights**2,
        "kurtosis": excess_kurtosis(law),
        "size": asked.public.get("n"),
        "rows_per_unit": rows_per_unit(asked.sensitivity, statistic.multiplied),
    }
