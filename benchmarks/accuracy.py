"""The error of the same statistics at the same guarantee, beside other libraries.

Every library releases each statistic many times with the call that its documentation recommends, for the same made-up
people, the same public facts and the same guarantee. Prints the table of the comparison page: root mean squared errors,
and how many times discreet's each of them is; figures are kept in `results/accuracy.json`. A peer that is not installed
is left out; `python benchmarks/accuracy.py OpenDP` measures one library again and keeps the figures of the others.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from statistics import NormalDist
from typing import Any

import numpy as np

import peer
from discreet import ZeroConcentratedDP

REPEATS = 500
LOW, HIGH = 18, 100
RICHEST, STEP = 200_000, 100
SIDES = (4, 5)
SCRIPTS = {
    "discreet": "accuracy_discreet",
    "OpenDP": "accuracy_opendp",
    "Tumult Analytics": "accuracy_tumult_analytics",
    "diffprivlib": "accuracy_diffprivlib",
    "PipelineDP": "accuracy_pipelinedp",
    "SmartNoise SQL": "accuracy_smartnoise_sql",
}


GRIDS = {
    "median": STEP,
    "sampled median": STEP,
    "heaped median": STEP,
    "grouped median": STEP,
    "tied median": 1,
    "wide median": 1,
}
"""Public grids of the columns that quantiles are about; libraries that have no grids are rounded to them."""
WIDE = 1_000_000
"""Half the width of a domain that says next to nothing about ages."""
TASKS = {
    "count": "count",
    "sharp count": "count at ε = 2",
    "concentrated count": "count at ρ = 2",
    "sum": "sum",
    "mean": "mean",
    "variance": "variance",
    "median": "median income, in hundreds",
    "sampled median": "median income, of other people each time",
    "heaped median": "median income, reported in thousands",
    "grouped median": "median income of four groups, a group",
    "tied median": "median age, in years",
    "wide median": "median age, known to lie within ± 10⁶",
    "covariance": "covariance of age and income, in thousands",
    "correlation": "correlation of age and income",
    "difference": "difference of the mean ages of two arms",
    "histogram": "histogram of 20 bins, a bin",
    "table": "table of 4 × 5, a cell",
    "answers": "20 yes/no answers each, a total, at (1, 10⁻⁶)",
    "share": "percentage of the old, public number of people",
    "public mean": "mean, public number of people",
    "public variance": "variance, public number of people",
}


def people(size: int = 1000) -> dict[str, Any]:
    """Made-up people, without any chance in them: ages, incomes, two columns of labels and 20 answers each."""
    law, purse = NormalDist(45, 16), NormalDist(10.309, 0.6)
    ages = [min(max(round(law.inv_cdf((i + 0.5) / size)), LOW), HIGH) for i in range(size)]
    return {
        "bounds": [LOW, HIGH],
        "ages": ages,
        "incomes": [STEP * round(math.exp(purse.inv_cdf((i + 0.5) / size)) / STEP) for i in range(size)],
        "heaped": [1000 * round(math.exp(purse.inv_cdf((i + 0.5) / size)) / 1000) for i in range(size)],
        "samples": samples(size, purse),
        "richest": RICHEST,
        "step": STEP,
        "wide": WIDE,
        "edges": [LOW + 4.1 * i for i in range(20)] + [HIGH],
        "rows": [i % SIDES[0] for i in range(size)],
        "columns": [(i * i + i // 7) % SIDES[1] for i in range(size)],
        "answers": [[int((i * (question + 3)) % (question + 2) == 0) for question in range(20)] for i in range(size)],
        "rho": rho(),
        "repeats": REPEATS,
    }


def samples(size: int, purse: NormalDist) -> list[list[int]]:
    """Incomes of other people of the same kind, for each repeat its own: no library is lucky with one data set."""
    source = random.Random(7)
    return [
        [min(STEP * round(math.exp(source.gauss(purse.mean, purse.stdev)) / STEP), RICHEST) for _ in range(size)]
        for _ in range(REPEATS)
    ]


def rho() -> float:
    """The largest ρ that gives (1, 10⁻⁶), for libraries that have Gaussian noise under ρ only."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if ZeroConcentratedDP(middle).epsilon_at(1e-6) <= 1 else (low, middle)
    return low


def truths(data: dict[str, Any]) -> dict[str, Any]:
    """What an exact release would say."""
    ages = np.array(data["ages"])
    table = np.zeros(SIDES)
    np.add.at(table, (data["rows"], data["columns"]), 1)
    return {
        "count": int((ages >= 65).sum()),
        "sharp count": int((ages >= 65).sum()),
        "concentrated count": int((ages >= 65).sum()),
        "share": 100 * float((ages >= 65).mean()),
        "sampled median": np.median(data["samples"], axis=1),
        "heaped median": float(np.median(data["heaped"])),
        "grouped median": np.array([np.median(data["incomes"][row :: SIDES[0]]) for row in range(SIDES[0])]),
        "tied median": float(np.median(ages)),
        "wide median": float(np.median(ages)),
        "covariance": float(np.cov(ages, np.array(data["incomes"]) / 1000, ddof=0)[0, 1]),
        "correlation": float(np.corrcoef(ages, data["incomes"])[0, 1]),
        "difference": float(ages[1::2].mean() - ages[::2].mean()),
        "sum": int(ages.sum()),
        "mean": float(ages.mean()),
        "variance": float(ages.var()),
        "median": float(np.median(data["incomes"])),
        "histogram": np.histogram(ages, data["edges"])[0],
        "table": table.ravel(),
        "answers": np.array(data["answers"]).sum(axis=0),
        "public mean": float(ages.mean()),
        "public variance": float(ages.var(ddof=1)),
    }


def measure() -> dict[str, dict[str, Any]]:
    """For each installed library its version and, for each task, the call and its error."""
    data = people()
    exact = truths(data)
    asked = {name: peer.ask(name, SCRIPTS[name], data) for name in peer.wanted(SCRIPTS)}
    found = peer.stored("accuracy")
    for name, told in asked.items():
        if told is not None:
            tasks = {key: figure(answer, exact[key], GRIDS.get(key)) for key, answer in told["answers"].items()}
            found[name] = {"version": told["version"], "tasks": tasks}
    return {name: found[name] for name in SCRIPTS if name in found}


def figure(answer: dict[str, Any], exact: Any, grid: float | None) -> dict[str, Any]:
    """The call, the root mean squared error, and from how many values it is; rounded to a grid where one is public."""
    values = np.asarray(answer["values"], dtype=float)
    errors = (values if grid is None else grid * np.round(values / grid)) - np.asarray(exact, dtype=float)
    return {"call": answer["call"], "rmse": float(np.sqrt(np.mean(errors**2))), "values": int(errors.size)}


SHOWN = (
    "count", "sum", "mean", "variance", "sampled median", "tied median", "difference", "histogram", "table", "answers",
    "public mean", "public variance",
)  # fmt: skip
"""Tasks that the comparison page shows."""


def table(found: dict[str, dict[str, Any]], tasks: Iterable[str] = tuple(TASKS)) -> str:
    """Errors, and in brackets how many times discreet's they are, where that is not chance."""
    lines = ["| | " + " | ".join(found) + " |", "|---|" + "---:|" * len(found)]
    for key in tasks:
        words = TASKS[key]
        figures = [one["tasks"].get(key) for one in found.values()]
        own = found.get("discreet", {"tasks": {}})["tasks"].get(key)
        lines.append(f"| {words} | " + " | ".join(_cell(one, own) for one in figures) + " |")
    return "\n".join(lines)


def _cell(one: dict[str, Any] | None, own: dict[str, Any] | None) -> str:
    if one is None:
        return "–"
    shown = f"{one['rmse']:.3g}"
    if own is None or one is own:
        return shown
    if 0 in (own["rmse"], one["rmse"]):  # every release was exact
        return f"{shown} (alike)" if own["rmse"] == one["rmse"] else shown
    ratio = one["rmse"] / own["rmse"]
    # The error of N Laplace draws has a relative standard error of √(5/4N), that of normal ones less.
    chance = 3 * math.sqrt(1.25 / one["values"] + 1.25 / own["values"])
    return f"{shown} (alike)" if abs(math.log(ratio)) < chance else f"{shown} ({ratio:.2g}×)"


def main() -> None:
    """Measure, print and keep the figures."""
    found = measure()
    peer.keep("accuracy", found)
    print(table(found) + "\n\n" + ", ".join(f"{name} {one['version']}" for name, one in found.items()))


if __name__ == "__main__":
    main()
