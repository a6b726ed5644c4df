"""Regressions in samples of Adult and of ACS: error of the noise, coverage and width.

``python benchmarks/regression.py adult.csv acs.csv``. Samples are drawn with replacement, so the
file is the population.
"""

from __future__ import annotations

import csv
import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet import Bounds, BoxNoise, PureDP, Schema, Session
from discreet.inference.least_squares import LeastSquares, MeasuredSquares
from discreet.questions.moment_products import MomentProducts
from discreet.questions.regression import RegressionQuestion
from discreet.questions.regression_moments import first_fit
from discreet.questions.regression_squares import SHARE

Array = NDArray[np.float64]
BOUNDS = {
    "age": (17.0, 90.0), "education-num": (1.0, 16.0), "fnlwgt": (0.0, 600_000.0), "any gain": (0.0, 1.0),
    "any loss": (0.0, 1.0), "hours-per-week": (1.0, 99.0),
    "AGEP": (15.0, 99.0), "EDU": (1.0, 13.0), "SEX": (1.0, 2.0), "OWN_RENT": (1.0, 2.0), "DREM": (1.0, 2.0),
    "DPHY": (1.0, 2.0), "DEYE": (1.0, 2.0), "DEAR": (1.0, 2.0), "PINCP": (0.0, 200_000.0),
}  # fmt: skip
ADULT = (
    ("age",),
    ("age", "education-num"),
    ("age", "education-num", "fnlwgt"),
    ("age", "education-num", "any gain", "any loss"),
)
ACS = (
    ("AGEP", "EDU"),
    ("AGEP", "EDU", "SEX", "OWN_RENT"),
    ("AGEP", "EDU", "SEX", "OWN_RENT", "DREM", "DPHY", "DEYE", "DEAR"),
)
RESULTS = Path(__file__).parent / "results" / "regression.json"


def columns(path: str) -> dict[str, Array]:
    """Clipped values between 0 and 1, of the rows that have a number in all of the columns."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows if "capital-gain" in rows[0] else ():
        row |= {f"any {kind}": str(int(float(row[f"capital-{kind}"]) > 0)) for kind in ("gain", "loss")}
    names = [name for name in BOUNDS if name in rows[0]]
    whole = [row for row in rows if all(row[name] != "N" for name in names) and row.get("OWN_RENT") != "0"]
    return {
        name: np.clip((np.array([float(row[name]) for row in whole]) - low) / (high - low), 0.0, 1.0)
        for name, (low, high) in BOUNDS.items()
        if name in names
    }


def parts(values: Array, degree: int) -> Array:
    """Bernstein polynomials, one column each."""
    return np.stack(
        [math.comb(degree, k) * values**k * (1 - values) ** (degree - k) for k in range(degree + 1)], axis=1
    )


def totals(sample: list[Array], degrees: tuple[int, ...]) -> Array:
    """Totals of all products of parts."""
    found = parts(sample[0], degrees[0])
    for values, degree in zip(sample[1:], degrees[1:], strict=True):
        found = (found[:, :, None] * parts(values, degree)[:, None, :]).reshape(len(values), -1)
    return np.asarray(found.sum(axis=0))


def second_step(
    fit: LeastSquares, design: Array, outcome: Array, epsilon: float, rng: np.random.Generator
) -> LeastSquares:
    """The fit with squares measured around it."""
    pulls, reaches, cut = MeasuredSquares.pulls(fit)
    left = (outcome - design @ fit.coefficients) / cut
    squares = np.minimum((design @ pulls.T / reaches * left[:, None]) ** 2, 1.0).sum(axis=0)
    law = BoxNoise(1 / epsilon, squares.size).law(squares)
    return replace(fit, squares=MeasuredSquares(fit, np.asarray(law.sample(rng=rng)), float(np.max(law.variance))))


def products(sample: list[Array], of: MomentProducts) -> Array:
    """Totals of products of coordinates."""
    z = 2 * np.column_stack(sample) - 1
    squares: dict[tuple[int, ...], Array] = {
        one: 2 * z[:, one[0]] ** 2 - 1 for one in of.coordinates.products if len(one) == 2 and one[0] == one[1]
    }
    every = [squares.get(one, np.prod(z[:, list(one)], axis=1)) for one in of.coordinates.products]
    return np.array([one.sum() for one in every])


def study(
    data: dict[str, Array], on: tuple[str, ...], outcome: str, n: int, epsilon: float, repeats: int
) -> dict[str, list[float]]:
    """For every slope: error of the noise, in the units of the data and over the sampling error; coverage; width."""
    rng = np.random.default_rng(len(on) * 1000 + n)
    names = (*on, outcome)
    steps = {name: 1.0 if len(np.unique(data[name])) == 2 else 2.0**-20 for name in names}
    schema = Schema(columns={name: Bounds(0.0, 1.0, grid=steps[name]) for name in names})
    question = RegressionQuestion(schema, outcome, list(on), PureDP(epsilon))
    of, mechanism = cast(Any, question.measurement.statistic), question.measurement.mechanism
    design = np.column_stack([np.ones(len(data[outcome])), *(data[name] for name in on)])
    whole = np.linalg.lstsq(design, data[outcome], rcond=None)[0]
    noise, sampled, inside, widths = [], [], [], []
    for _ in range(repeats):
        chosen = rng.integers(0, len(design), n)
        sample = [data[name][chosen] for name in of.columns]
        found = products(sample, of) if isinstance(of, MomentProducts) else totals(sample, of.degrees)
        fit = first_fit(of, mechanism, mechanism.law(found).sample(rng=rng), None, 1)
        if question.several_steps:
            fit = second_step(fit, design[chosen], data[outcome][chosen], SHARE * epsilon, rng)
        own = np.linalg.lstsq(design[chosen], data[outcome][chosen], rcond=None)[0]
        noise.append((fit.coefficients - own)[1:])
        sampled.append((own - whole)[1:])
        ends = np.array([fit.interval(along, 0.95) for along in np.eye(len(whole))[1:]])
        inside.append((ends[:, 0] <= whole[1:]) & (whole[1:] <= ends[:, 1]))
        widths.append(ends[:, 1] - ends[:, 0])
    units = np.array([(BOUNDS[outcome][1] - BOUNDS[outcome][0]) / (BOUNDS[name][1] - BOUNDS[name][0]) for name in on])
    spread = np.std(sampled, axis=0)
    error = np.sqrt(np.mean(np.square(noise), axis=0))
    # A few fits with next to nothing to divide by would decide a root mean square: the median says what is usual.
    usual = np.median(np.abs(noise), axis=0) / 0.6745
    return {
        "RMSE of the noise": (error * units).tolist(),
        "sampling error": (spread * units).tolist(),
        "noise over sampling": (usual / spread).tolist(),
        "coverage": np.mean(inside, axis=0).tolist(),
        "width over 3.92 sampling errors": (np.median(widths, axis=0) / 3.92 / spread).tolist(),
    }


def at_scale(rows: int = 2_000_000, numbers: int = 8) -> dict[str, float]:
    """Seconds of a session, and of the sums of all products of two columns in plain SQL on the same table."""
    import duckdb

    rng, names = np.random.default_rng(1), [f"x{place}" for place in range(numbers)]
    plain = pa.table({name: rng.integers(0, 100, rows) for name in (*names, "y")})
    schema = Schema(columns={name: Bounds(0, 100, grid=1) for name in plain.column_names})
    session = Session(plain, schema, ledger=":memory:", budget=PureDP(2.0))
    session.count(PureDP(1.0))  # reads the rows
    start = time.perf_counter()
    session.regression("y", names, PureDP(1.0))
    own = time.perf_counter() - start
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT * FROM plain")
    every = [(a, b) for place, b in enumerate((*names, "y")) for a in ("1", *(*names, "y")[: place + 1])]
    sums = ", ".join(f"sum({a}::hugeint * {b})" for a, b in every)
    start = time.perf_counter()
    connection.execute(f"SELECT {sums} FROM t").fetchall()
    return {"session": own, "plain sums": time.perf_counter() - start}


def main(adult: str, acs: str | None = None) -> None:
    """Print every figure, and keep them."""
    stored: dict[str, object] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    figures: dict[str, object] = {"2,000,000 rows, eight numbers, seconds": at_scale()}
    for path, models, outcome, words in ((adult, ADULT, "hours-per-week", "hours"), (acs, ACS, "PINCP", "income")):
        data = {} if path is None else columns(path)
        for on in models if data else ():
            for n in (1_000, 5_000, 50_000):
                name = f"{words} on {', '.join(on)}, {n:,} people, ε = 1"
                figures[name] = study(data, on, outcome, n, 1.0, 400 if n < 50_000 else 150)
                print(name, figures[name], flush=True)
    text = json.dumps(stored | figures, indent=1, ensure_ascii=False)
    RESULTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
