"""Regression of hours on age, and on age and education, in samples of Adult: error of the noise, coverage and width.

``python benchmarks/regression.py adult.csv``. Samples are drawn with replacement, so all of
Adult is the population.
"""

from __future__ import annotations

import csv
import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet import Bounds, PureDP, Schema, Session
from discreet.inference.least_squares import LeastSquares
from discreet.inference.linear_moments import LinearMoments
from discreet.questions.regression_moments import RegressionMoments

Array = NDArray[np.float64]
BOUNDS = {"age": (17.0, 90.0), "education-num": (1.0, 16.0), "fnlwgt": (0.0, 600_000.0), "hours-per-week": (1.0, 99.0)}
RESULTS = Path(__file__).parent / "results" / "regression.json"


def columns(path: str) -> dict[str, Array]:
    """Clipped values between 0 and 1."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        name: np.clip((np.array([float(row[name]) for row in rows]) - low) / (high - low), 0.0, 1.0)
        for name, (low, high) in BOUNDS.items()
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


def study(data: dict[str, Array], on: tuple[str, ...], n: int, epsilon: float, repeats: int) -> dict[str, list[float]]:
    """For every slope: error of the noise, in the units of the data and over the sampling error; coverage; width."""
    rng = np.random.default_rng(len(on) * 1000 + n)
    names = (*on, "hours-per-week")
    degrees = (*((4 if len(on) <= 2 else 3,) * len(on)), 2)
    moments = RegressionMoments(
        bounds=tuple(BOUNDS[name] for name in names), degrees=degrees, columns=names, outcome=names[-1], on=on
    )
    terms, outcome = tuple(map(moments.linear, moments.terms(on))), moments.linear(moments.explained)
    design = np.column_stack([np.ones(len(data["age"])), *(data[name] for name in on)])
    whole = np.linalg.lstsq(design, data[names[-1]], rcond=None)[0]
    noise, sampled, inside, widths = [], [], [], []
    for _ in range(repeats):
        chosen = rng.integers(0, len(design), n)
        found = totals([data[name][chosen] for name in names], degrees)
        noisy = found + rng.laplace(0.0, 1 / epsilon, found.size)
        read = LinearMoments(totals=noisy, noise=2 / epsilon**2, kurtosis=3.0, cells=1, degrees=degrees)
        fit = LeastSquares(read, terms, outcome)
        own = np.linalg.lstsq(design[chosen], data[names[-1]][chosen], rcond=None)[0]
        noise.append((fit.coefficients - own)[1:])
        sampled.append((own - whole)[1:])
        ends = np.array([fit.interval(along, 0.95) for along in np.eye(len(terms))[1:]])
        inside.append((ends[:, 0] <= whole[1:]) & (whole[1:] <= ends[:, 1]))
        widths.append(ends[:, 1] - ends[:, 0])
    units = np.array(
        [(BOUNDS[names[-1]][1] - BOUNDS[names[-1]][0]) / (BOUNDS[name][1] - BOUNDS[name][0]) for name in on]
    )
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


def at_scale(rows: int = 2_000_000) -> dict[str, float]:
    """Seconds of a session for three columns, and of the same sums in plain SQL on the same table."""
    import duckdb

    rng = np.random.default_rng(1)
    numbers = pa.table({name: rng.integers(0, 100, rows) for name in ("a", "b", "y")})
    schema = Schema(columns={name: Bounds(0, 100, grid=1) for name in numbers.column_names})
    session = Session(numbers, schema, ledger=":memory:", budget=PureDP(2.0))
    session.count(PureDP(1.0))  # reads the rows
    start = time.perf_counter()
    session.regression("y", ["a", "b"], PureDP(1.0))
    own = time.perf_counter() - start
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT * FROM numbers")
    powers = [(i, j, k) for i in range(5) for j in range(5) for k in range(3)]
    sums = ", ".join("sum(" + "*".join(["1::hugeint", *"a" * i, *"b" * j, *"y" * k]) + ")" for i, j, k in powers)
    start = time.perf_counter()
    connection.execute(f"SELECT {sums} FROM t").fetchall()
    return {"session": own, "plain sums": time.perf_counter() - start}


def main(path: str) -> None:
    """Print every figure, and keep them."""
    data = columns(path)
    stored: dict[str, object] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    figures: dict[str, object] = {"2,000,000 rows, two numbers, seconds": at_scale()}
    for on in (("age",), ("age", "education-num"), ("age", "education-num", "fnlwgt")):
        for n in (1_000, 5_000, 50_000):
            name = f"hours on {', '.join(on)}, {n:,} people, ε = 1"
            figures[name] = study(data, on, n, 1.0, 400 if n < 50_000 else 200)
            print(name, figures[name], flush=True)
    text = json.dumps(stored | figures, indent=1, ensure_ascii=False)
    RESULTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
