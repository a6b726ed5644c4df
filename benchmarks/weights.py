"""Surveys: how often design-based intervals hold the population's value, how wide they are, and what weights are for.

    python benchmarks/weights.py          # draws samples by four designs, prints the table, keeps results/weights.json
    python benchmarks/weights.py rows     # times a weighted mean of 20 million rows beside an unweighted one

Populations are made up and finite. Units are drawn with probability proportional to a size that grows with the outcome;
in three strata at 1 %, 10 % and 50 %; as households of one to eight, of whom three are asked; and all alike, of whom
30 % do not answer, with weights for it. The trim is the 98 % point of the weights, and of 50,000 rows, whose noise is
small, the largest. Every sample meets every guarantee.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray

from discreet import (
    ApproxDP,
    Bounds,
    Categories,
    Design,
    GaussianDP,
    PrivateLabels,
    PureDP,
    Schema,
    Session,
    ZeroConcentratedDP,
)
from discreet.core.guarantee import Guarantee
from discreet.inference.design import DesignMoments
from discreet.inference.noise import excess_kurtosis, largest_variance
from discreet.questions.design import DesignParts, design_measurement
from discreet.questions.mean import MeanQuestion

STORED = Path(__file__).parent / "results" / "weights.json"
GUARANTEES: tuple[Guarantee, ...] = (PureDP(1.0), ApproxDP(1.0, 1e-6), ZeroConcentratedDP(0.1), GaussianDP(0.5))
DESIGNS = ("proportional to size", "strata", "strata, public", "households", "non-response")
OUTCOMES = ("skewed", "yes/no", "heaped")
ROWS = (300, 1_000, 5_000, 50_000)
RATES = (0.01, 0.1, 0.5)
LARGE = (0.7, 0.95)
"""Which shares of the population end the first two strata, by size."""
ASKED_OF_A_HOUSEHOLD = 3
RESPONSE = 0.7
REPEATS = 1_000

Array = NDArray[Any]
Sample = tuple[Array, Array, Array]
"""Stratum, weight and value of each sampled unit; of a household the sum of weights and the mean."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A population and how samples are drawn from it."""

    truth: float
    draw: Callable[[np.random.Generator], Sample]
    people: Array | None = None


def outcomes(kind: str, size: Array, rng: np.random.Generator) -> Array:
    """Values between the bounds 0 and 1, larger where the size is."""
    if kind == "skewed":
        found = rng.gamma(1.5, 1, size.size) * size**0.7
        return np.asarray(np.minimum(found / np.quantile(found, 0.995), 1))
    if kind == "yes/no":
        return np.asarray(rng.random(size.size) < np.minimum(0.3 * size**0.5, 1), dtype=float)
    heaps = np.round(rng.beta(2, 3, size.size) * size**0.3, 1)
    return np.asarray(np.clip(np.where(rng.random(size.size) < 0.4, 0.4, heaps), 0, 1))


def survey(design: str, kind: str, n: int, rng: np.random.Generator) -> Survey:
    """A population, and a design that draws about ``n`` units from it."""
    shares = np.diff([0.0, *LARGE, 1.0])
    number = round(n / float(shares @ RATES)) if design.startswith("strata") else max(200_000, 20 * n)
    size = rng.lognormal(0, 0.5, number)
    y = outcomes(kind, size, rng)
    if design == "proportional to size":
        chance = np.minimum(n * size**0.8 / (size**0.8).sum(), 1)

        def by_size(rng: np.random.Generator) -> Sample:
            drawn = np.flatnonzero(rng.random(number) < chance)
            return np.zeros(drawn.size, int), 1 / chance[drawn], y[drawn]

        return Survey(truth=float(y.mean()), draw=by_size)
    if design == "non-response":
        answers = np.clip(0.95 - 0.4 * (size > 1) - 0.1 * rng.random(number), 0.1, 1)
        answers *= RESPONSE / answers.mean()
        group = (size > 1).astype(int)
        rate = np.array([answers[group == one].mean() for one in (0, 1)])
        chance = n / RESPONSE / number

        def answering(rng: np.random.Generator) -> Sample:
            drawn = np.flatnonzero(rng.random(number) < chance * answers)
            return np.zeros(drawn.size, int), 1 / (chance * rate[group[drawn]]), y[drawn]

        return Survey(truth=float(y.mean()), draw=answering)
    if design == "households":
        return _households(kind, n, number, y, rng)
    stratum = np.digitize(size, np.quantile(size, LARGE))
    people = np.bincount(stratum)
    sampled = np.maximum(np.round(people * RATES).astype(int), 2)
    own = [np.flatnonzero(stratum == one) for one in range(len(people))]

    def in_strata(rng: np.random.Generator) -> Sample:
        drawn = np.concatenate(
            [rng.choice(all_, some, replace=False, shuffle=False) for all_, some in zip(own, sampled, strict=True)]
        )
        return stratum[drawn], (people / sampled)[stratum[drawn]], y[drawn]

    return Survey(truth=float(y.mean()), draw=in_strata, people=people if design.endswith("public") else None)


def _households(kind: str, n: int, number: int, y: Array, rng: np.random.Generator) -> Survey:
    """Members of a household are alike; each has the weight of the household over the share of it that is asked."""
    members = rng.integers(1, 9, number // 4)
    home = np.repeat(np.arange(members.size), members)[:number]
    members = np.bincount(home)
    alike = rng.normal(0, 0.1, members.size)[home]
    if kind == "yes/no":
        y = (rng.random(home.size) < np.clip(0.3 * np.exp(4 * alike), 0, 1)).astype(float)
    else:
        y = np.clip(y[: home.size] + alike, 0, 1)
    first = np.searchsorted(home, np.arange(members.size))
    chance = n / members.size

    def draw(rng: np.random.Generator) -> Sample:
        drawn = np.flatnonzero(rng.random(members.size) < chance)
        order = rng.random((drawn.size, 8))
        order[np.arange(8) >= members[drawn][:, None]] = 2
        picked = np.argsort(order, axis=1)[:, :ASKED_OF_A_HOUSEHOLD]
        asked = np.minimum(members[drawn], ASKED_OF_A_HOUSEHOLD)
        values = y[np.minimum(first[drawn][:, None] + picked, y.size - 1)]
        values = values * (np.arange(ASKED_OF_A_HOUSEHOLD) < asked[:, None])
        return np.zeros(drawn.size, int), members[drawn] / chance, values.sum(axis=1) / asked

    return Survey(truth=float(y.mean()), draw=draw)


def measured(guarantee: Guarantee, trim: float, people: Array | None, strata: int) -> tuple[DesignParts, Any]:
    """The statistic and the mechanism of the mean that a session would ask."""
    labels = [str(one) for one in range(strata)]
    grid = 10.0 ** math.floor(math.log10(trim) - 3)
    high = math.ceil(trim / grid) * grid
    design = Design(
        weight="w", weight_high=float(f"{high:.12g}"), strata="h" if strata > 1 else None,
        population={} if people is None else dict(zip(labels, map(float, people), strict=True)),
    )  # fmt: skip
    columns: dict[str, Bounds | Categories | PrivateLabels] = {
        "w": Bounds(0, float(f"{2 * high:.12g}"), grid=grid),
        "y": Bounds(0, 1),
        "h": Categories(labels),
    }
    question = MeanQuestion(Schema(columns=columns, design=design), "y", guarantee=guarantee)
    found = design_measurement(question, "mean", (), value="y", read="the mean")
    return found.statistic, found.mechanism  # type: ignore[return-value]


def parts_of(parts: DesignParts, sample: Sample) -> Array:
    """The parts of a sample by stratum, without noise or factors."""
    stratum, w, y = sample
    u = np.minimum(w, parts.weight_high) / parts.top
    over = w > parts.weight_high
    middle = parts.inner * u * (1 - u)
    left = 1 - u**2 - middle
    rows = [u**2 * (1 - y) ** 2, 2 * u**2 * y * (1 - y), (u * y) ** 2, middle * (1 - y), middle * y, left * ~over,
            left * over]  # fmt: skip
    strata = max(1, len(parts.strata))
    where = stratum if strata > 1 else np.zeros(stratum.size, int)
    return np.array([np.bincount(where, row, strata) for row in rows]).T


def cells(design: str, kind: str, n: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Coverage, width and bias of every guarantee, on the same samples."""
    rng = np.random.default_rng([DESIGNS.index(design), OUTCOMES.index(kind), n])
    known = survey(design, kind, n, rng)
    weights = np.concatenate([known.draw(rng)[1] for _ in range(3)])
    trim = float(np.quantile(weights, 0.98 if n < max(ROWS) else 1.0))
    strata = 3 if design.startswith("strata") else 1
    ways = [measured(one, trim, known.people, strata) for one in GUARANTEES]
    found = {name: np.zeros((len(ways), repeats)) for name in ("held", "width", "of noise")}
    plain = {name: np.zeros(repeats) for name in ("held", "width", "bias", "unweighted", "raw")}
    for turn in range(repeats):
        sample = known.draw(rng)
        exact = parts_of(ways[0][0], sample)
        alone = _moments(ways[0][0], exact, 0.0, 0.0)
        plain["width"][turn] = 3.92 * alone.error
        plain["held"][turn] = abs(alone.estimate - known.truth) <= 1.96 * alone.error
        plain["bias"][turn] = alone.estimate - known.truth
        unweighted = sample[2]
        deviation = unweighted.std() / math.sqrt(unweighted.size)
        plain["unweighted"][turn] = unweighted.mean() - known.truth
        plain["raw"][turn] = abs(unweighted.mean() - known.truth) <= 1.96 * deviation
        for place, (parts, mechanism) in enumerate(ways):
            variance, kurtosis = largest_variance(mechanism), excess_kurtosis(mechanism.law(0.0))
            factors = np.array([float(one) for one in parts.multiplied])
            noise = rng.normal(size=exact.shape) if kurtosis < 1 else rng.laplace(size=exact.shape) / math.sqrt(2)
            released = _moments(parts, exact + math.sqrt(variance) * noise / factors, variance, kurtosis)
            interval = released.interval()
            found["held"][place, turn] = interval.low <= known.truth <= interval.high
            found["width"][place, turn] = float(interval.high) - float(interval.low)
    for place, guarantee in enumerate(GUARANTEES):
        yield {
            "design": design, "outcome": kind, "n": n, "guarantee": str(guarantee), "repeats": repeats,
            "trim over mean weight": trim / float(weights.mean()),
            "coverage": float(found["held"][place].mean()),
            "coverage without noise": float(plain["held"].mean()),
            "width over that without noise": float(found["width"][place].mean() / plain["width"].mean()),
            "bias over standard error": float(plain["bias"].mean() / plain["width"].mean() * 3.92),
            "unweighted: bias, %": 100 * float(plain["unweighted"].mean()) / known.truth,
            "unweighted: coverage": float(plain["raw"].mean()),
        }  # fmt: skip


def _moments(parts: DesignParts, totals: Array, variance: float, kurtosis: float) -> DesignMoments:
    factors = np.array([float(one) for one in parts.multiplied])
    return DesignMoments(
        parts=totals, everybody=totals, groups=1, moments=parts.moments, noise=variance / factors**2, kurtosis=kurtosis,
        people=np.array(parts.population) if parts.population else None, top=parts.top,
    )  # fmt: skip


def stored() -> list[dict[str, Any]]:
    """The figures of the last run."""
    found: list[dict[str, Any]] = json.loads(STORED.read_text(encoding="utf-8"))
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Least coverage, and median width, by design and number of rows."""
    lines = [
        "| design | n | coverage: least, median | width ÷ without noise, ε = 1: yes/no, skewed, heaped | "
        "unweighted: bias, coverage |",
        "|---|---:|---:|---:|---:|",
    ]
    for design in DESIGNS:
        for n in ROWS:
            own = [one for one in rows if (one["design"], one["n"]) == (design, n)]
            if not own:
                continue
            coverage = sorted(one["coverage"] for one in own)
            pure = {one["outcome"]: one for one in own if one["guarantee"] == "ε = 1"}
            wide = ", ".join(f"{pure[k]['width over that without noise']:.2f}" for k in ("yes/no", "skewed", "heaped"))
            off = pure["skewed"]
            lines.append(
                f"| {design} | {n:,} | {100 * coverage[0]:.1f} %, {100 * float(np.median(coverage)):.1f} % | {wide} | "
                f"{off['unweighted: bias, %']:+.0f} %, {100 * off['unweighted: coverage']:.0f} % |"
            )
    return "\n".join(lines)


def time_rows(number: int = 20_000_000) -> None:
    """Seconds of a first mean and a first weighted mean of so many rows, which are read and encoded for it."""
    rng = np.random.default_rng(1)
    data = pyarrow.table({"y": np.round(rng.gamma(2, 10, number)), "w": np.round(rng.lognormal(4, 0.5, number))})
    columns = {"y": Bounds(0, 100, grid=1)}
    weights = Bounds(0, 600, grid=1)
    design = Design(weight="w", weight_high=300)
    asked = {
        "mean": Schema(columns=columns),
        "mean, with a second column read": Schema(columns={**columns, "w": weights}),
        "weighted mean": Schema(columns={**columns, "w": weights}, design=design),
    }
    for turn in range(2):
        for name, schema in asked.items():
            session = Session(data, schema, ledger=":memory:", budget=PureDP(9.0))
            start = time.perf_counter()
            session.mean("y", epsilon=1.0)
            middle = time.perf_counter()
            session.mean("y", epsilon=1.0)
            again = time.perf_counter() - middle
            print(f"run {turn + 1}, {name}: first {middle - start:.2f} s, again {again:.2f} s", flush=True)


def main() -> None:
    """Draw, print and keep the figures."""
    if sys.argv[1:] == ["rows"]:
        time_rows()
        return
    rows: list[dict[str, Any]] = []
    for design in DESIGNS:
        for kind in OUTCOMES:
            for n in ROWS:
                start = time.perf_counter()
                rows += cells(design, kind, n, REPEATS)
                print(f"{design}, {kind}, {n}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    STORED.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(table(rows))
    low = [one for one in rows if one["coverage"] < 0.935]
    print(f"\n{len(low)} of {len(rows)} cells below 93.5 %")
    for one in low:
        print(
            {name: one[name] for name in ("design", "outcome", "n", "guarantee", "coverage", "coverage without noise")}
        )


if __name__ == "__main__":
    main()
