"""Surveys: how often the intervals of every kind of answer under a design hold the population's value.

    python benchmarks/weighted_answers.py [repeats]    # prints a table, keeps results/weighted_answers.json

Samples are drawn from finite populations in which outcomes grow with size: with probability proportional to it, with
replacement, and weights trimmed at their 98 % point (totals are then those of trimmed weights); and in three strata at
1 %, 10 % and 50 %. A sample's exact totals are worked out here, and everything else is what a session does with them:
the question's own statistic and mechanism, and the answer that it reads. Means are in `weights.py`.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import Bounds, Categories, Design, GaussianDP, PureDP, Schema
from discreet.core.guarantee import Guarantee
from discreet.inference.noise import excess_kurtosis, largest_variance
from discreet.questions import (
    LogisticQuestion,
    MedianQuestion,
    ProportionQuestion,
    RegressionQuestion,
    SumQuestion,
    TableQuestion,
    VarianceQuestion,
)
from discreet.questions.design import DesignParts
from discreet.questions.grouped import Grouped

Array = NDArray[Any]
Sample = tuple[Array, Array, Array]
"""Places of the sampled units, their weights and strata."""
STORED = Path(__file__).parent / "results" / "weighted_answers.json"
GUARANTEES: tuple[Guarantee, ...] = (PureDP(1.0), GaussianDP(0.5))
DESIGNS, ROWS, RATES, LARGE = ("proportional to size", "strata"), (1_000, 5_000), (0.01, 0.1, 0.5), (0.7, 0.95)
STEPS = 100


def population(n: int, design: str, rng: np.random.Generator) -> dict[str, Array]:
    """Columns of a population: numbers x and y, yes or no v, groups g, and the size."""
    number = round(n / float(np.diff([0.0, *LARGE, 1.0]) @ RATES)) if design == "strata" else 200_000
    size = rng.lognormal(0, 0.5, number)
    x = np.clip(rng.beta(2, 3, number) + 0.1 * np.log(size), 0, 1)
    y = np.clip(0.1 + 0.4 * x * size**0.3 + rng.exponential(0.1, number) * size**0.4, 0, 1)
    yes = rng.random(number) < 1 / (1 + np.exp(1.5 - 2 * x - 0.4 * np.log(size)))
    group = rng.random(number) < np.minimum(0.2 * size**0.5, 1)
    x, y = (np.round(one * STEPS) / STEPS for one in (x, y))
    return {"x": x, "y": y, "v": yes.astype(float), "g": group.astype(int), "size": size}


def sampler(
    people: dict[str, Array], n: int, design: str
) -> Callable[[np.random.Generator], tuple[Array, Array, Array]]:
    """Draws samples."""
    size = people["size"]
    if design == "proportional to size":
        share = size**0.8 / (size**0.8).sum()
        upto = share.cumsum()

        def by_size(rng: np.random.Generator) -> Sample:
            drawn = np.minimum(np.searchsorted(upto, rng.random(n)), size.size - 1)
            return drawn, 1 / (n * share[drawn]), np.zeros(n, int)

        return by_size
    stratum = np.digitize(size, np.quantile(size, LARGE))
    many = np.bincount(stratum)
    sampled = np.maximum(np.round(many * RATES).astype(int), 2)
    own = [np.flatnonzero(stratum == one) for one in range(3)]

    def in_strata(rng: np.random.Generator) -> Sample:
        each = zip(own, sampled, strict=True)
        drawn = np.concatenate([rng.choice(every, some, replace=False, shuffle=False) for every, some in each])
        return drawn, (many / sampled)[stratum[drawn]], stratum[drawn]

    return in_strata


def bernstein(u: Array, degree: int) -> Array:
    """The Bernstein polynomials of numbers between 0 and 1."""
    return np.array([math.comb(degree, k) * u**k * (1 - u) ** (degree - k) for k in range(degree + 1)])


def design_parts(of: DesignParts, w: Array, y: Array) -> Array:
    """The parts of every unit, without factors."""
    u, over = np.minimum(w, of.weight_high) / of.top, w > of.weight_high
    middle = of.inner * u * (1 - u)
    left = 1 - u**2 - middle
    rows = [
        *(u**2 * bernstein(y, of.degree)),
        *(middle * bernstein(y, (of.degree + 1) // 2)),
        left * ~over,
        left * over,
    ]
    return np.array(rows)[: of.parts].T * [float(one) for one in of.multiplied]


def exact(question: Any, columns: dict[str, Array], w: Array, stratum: Array) -> Array:
    """The totals that a session would measure of a sample."""
    of = question.measurement.statistic
    parts = of.of if isinstance(of, Grouped) else of
    if isinstance(parts, DesignParts):
        if isinstance(question, TableQuestion):
            place, groups, y = columns["g"], 2, np.zeros(w.size)
        elif isinstance(question, MedianQuestion):
            groups = of.groups
            bands: Any = question.schema.column("y, in bins")
            place = np.clip(np.searchsorted(np.array(bands.edges), columns["y"], side="right") - 1, 0, groups - 1)
            y = np.zeros(w.size)
        else:
            place, groups = np.zeros(w.size, int), 1
            y = columns["v" if isinstance(question, ProportionQuestion) else "y"]
        strata = max(1, len(parts.strata))
        cell = place * strata + (stratum if strata > 1 else 0)
        rows = design_parts(parts, w, y)
        return np.array([np.bincount(cell, one, groups * strata) for one in rows.T]).T.ravel()
    high = question.schema.design.weight_high
    axes = [bernstein(columns[name], d) for name, d in zip(of.columns[:-1], of.degrees, strict=False)]
    axes.append(bernstein(np.minimum(w, high) / high, 2))
    if isinstance(question, LogisticQuestion):
        axes.insert(0, np.array([columns["v"] == 0, columns["v"] == 1], dtype=float))
    letters = "abcd"[: len(axes)]
    return np.ravel(np.einsum(",".join(f"{one}z" for one in letters) + f"->{letters}", *axes))


def questions(schema: Schema, guarantee: Guarantee) -> dict[str, Any]:
    """One question of every kind."""
    return {
        "share": ProportionQuestion(schema, "v", "yes", guarantee=guarantee),
        "total": SumQuestion(schema, "y", guarantee=guarantee),
        "variance": VarianceQuestion(schema, "y", guarantee=guarantee),
        "people of a group": TableQuestion(schema, "g", guarantee=guarantee),
        "median": MedianQuestion(schema, "y", guarantee=guarantee),
        "regression": RegressionQuestion(schema, "y", ["x"], guarantee=guarantee),
        "logistic regression": LogisticQuestion(schema, "v", ["x"], guarantee=guarantee),
    }


def truths(people: dict[str, Array], kept: Array) -> dict[str, float]:
    """What each of them asks about in the population: totals with the share of every weight that the trim leaves."""
    x, y, v = people["x"], people["y"], people["v"]
    design, b = np.column_stack([np.ones(x.size), x]), np.zeros(2)
    for _ in range(30):
        mean = 1 / (1 + np.exp(-design @ b))
        b = b + np.linalg.solve((design * (mean * (1 - mean))[:, None]).T @ design, design.T @ (v - mean))
    return {
        "share": v.mean(), "total": (kept * y).sum(), "variance": y.var(ddof=1),
        "people of a group": (kept * people["g"]).sum(), "median": np.quantile(y, 0.5, method="inverted_cdf"),
        "regression": np.polyfit(x, y, 1)[0], "logistic regression": b[1],
    }  # fmt: skip


def interval(name: str, answer: Any) -> tuple[float, float]:
    """The interval that is looked at: of the second group, or of the slope."""
    if name.endswith("regression"):
        along = answer.design.units[1]
        low, high = answer.design.sampled.interval(along, 0.95)
        return float(low), float(high)
    found = answer["b"].population_interval() if name == "people of a group" else answer.population_interval()
    return float(found.low), float(found.high)


def cells(design: str, n: int, repeats: int) -> list[dict[str, Any]]:
    """Coverage and median width of every kind of answer."""
    rng = np.random.default_rng([DESIGNS.index(design), n])
    people = population(n, design, rng)
    draw = sampler(people, n, design)
    places, weights, _ = (np.concatenate(one) for one in zip(*(draw(rng) for _ in range(3)), strict=True))
    trim, kept = math.ceil(float(weights.max())), np.ones(people["x"].size)
    if design != "strata":
        trim = math.ceil(float(np.quantile(weights, 0.98)))
        every = weights[0] * (people["size"][places[0]] / people["size"]) ** 0.8
        kept = np.minimum(every, trim) / every
    known = truths(people, kept)
    strata = "h" if design == "strata" else None
    columns: dict[str, Any] = {
        "x": Bounds(0, 1, grid=1 / STEPS), "y": Bounds(0, 1, grid=1 / STEPS), "v": Categories(["no", "yes"]),
        "g": Categories(["a", "b"]), "h": Categories(["0", "1", "2"]),
    }  # fmt: skip
    schema = Schema(columns=columns, design=Design(weight="w", weight_high=trim, strata=strata))
    asked = {guarantee: questions(schema, guarantee) for guarantee in GUARANTEES}
    found: dict[tuple[str, Guarantee], list[tuple[float, float]]] = {}
    for _ in range(repeats):
        drawn, w, stratum = draw(rng)
        own = {name: one[drawn] for name, one in people.items()}
        for guarantee, name in itertools.product(GUARANTEES, known):
            question = asked[guarantee][name]
            measured = question.measurement
            mechanism, totals = measured.mechanism, exact(question, own, w, stratum)
            heavy = excess_kurtosis(mechanism.law(0.0)) > 1
            noise = rng.laplace(size=totals.size) / math.sqrt(2) if heavy else rng.normal(size=totals.size)
            release = measured.statistic.release_type()(
                value=totals + math.sqrt(largest_variance(mechanism)) * noise, mechanism=mechanism,
                sensitivity=measured.sensitivity, guarantee=guarantee, protection=schema.protection(),
                statistic=measured.statistic, public={}, release_id="", created="", simulated=True,
            )  # fmt: skip
            found.setdefault((name, guarantee), []).append(interval(name, question.answer_of(release)))
    return [
        {
            "design": design, "n": n, "answer": name, "guarantee": str(guarantee), "repeats": repeats,
            "coverage": float(np.mean([low <= known[name] <= high for low, high in ends])),
            "width over truth": float(np.median([high - low for low, high in ends]) / known[name]),
        }
        for (name, guarantee), ends in found.items()
    ]  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """Coverage by answer: designs and numbers of rows across, the least of both guarantees."""
    across = list(itertools.product(DESIGNS, ROWS))
    lines = [
        "| answer | " + " | ".join(f"{design}, {n:,}" for design, n in across) + " |",
        "|---|" + "---:|" * len(across),
    ]
    for name in dict.fromkeys(one["answer"] for one in rows):
        told = []
        for design, n in across:
            own = [one for one in rows if (one["answer"], one["design"], one["n"]) == (name, design, n)]
            told.append(f"{100 * min(one['coverage'] for one in own):.1f} %" if own else "")
        lines.append(f"| {name} | {' | '.join(told)} |")
    return "\n".join(lines)


def main() -> None:
    """Draw, print and keep the figures."""
    repeats = int(sys.argv[1]) if sys.argv[1:] else 500
    rows = [row for design in DESIGNS for n in ROWS for row in cells(design, n, repeats)]
    STORED.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
