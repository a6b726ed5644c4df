"""Regressions in samples of Adult and of ACS: error of the noise, coverage and width.

``python benchmarks/regression.py adult.csv acs.csv``. Samples are drawn with replacement, so the
file is the population.
"""

from __future__ import annotations

import csv
import json
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet import Bounds, GaussianDP, PureDP, Schema, Session
from discreet.core.guarantee import Guarantee
from regression_releases import Simulation

Array = NDArray[np.float64]
BOUNDS = {
    "age": (17.0, 90.0), "education-num": (1.0, 16.0), "fnlwgt": (0.0, 600_000.0), "any gain": (0.0, 1.0),
    "any loss": (0.0, 1.0), "hours-per-week": (1.0, 99.0),
    "AGEP": (18.0, 90.0), "EDU": (1.0, 12.0), "SEX": (1.0, 2.0), "OWN_RENT": (1.0, 2.0), "MSP": (1.0, 6.0),
    "DREM": (1.0, 2.0), "DPHY": (1.0, 2.0), "DEYE": (1.0, 2.0), "DEAR": (1.0, 2.0), "PINCP": (0.0, 150_000.0),
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
    ("AGEP", "EDU", "SEX", "OWN_RENT", "MSP", "DREM", "DPHY", "DEAR"),
    ("AGEP", "EDU", "SEX", "OWN_RENT", "DREM", "DPHY", "DEYE", "DEAR"),
)
NAMES = {
    "age": "age", "education-num": "education", "fnlwgt": "survey weight", "any gain": "any gain",
    "any loss": "any loss", "AGEP": "age", "EDU": "education", "SEX": "sex", "OWN_RENT": "tenure", "MSP": "marriage",
    "DREM": "memory", "DPHY": "walking", "DEYE": "seeing", "DEAR": "hearing",
}  # fmt: skip
GUARANTEES: dict[Guarantee, str] = {PureDP(1.0): "ε = 1", GaussianDP(1.0): "μ = 1"}
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


def in_units(on: tuple[str, ...], outcome: str) -> Array:
    """What a slope between the bounds is multiplied by."""
    width = {name: high - low for name, (low, high) in BOUNDS.items()}
    return np.array([width[outcome] / width[name] for name in on])


def for_peers(adult: str, acs: str, path: str) -> None:
    """Write the columns of every model for `peers/regression_diffprivlib`, whose library cannot read them from here."""
    written = {}
    for source, models, outcome, words in ((adult, ADULT, "hours-per-week", "hours"), (acs, ACS, "PINCP", "income")):
        data = columns(source)
        for on in models:
            rows = np.column_stack([data[name] for name in (*on, outcome)]).tolist()
            written[f"{words} on {', '.join(on)}"] = {"rows": rows, "units": in_units(on, outcome).tolist()}
    Path(path).write_text(json.dumps(written), encoding="utf-8")


def study(
    data: dict[str, Array], on: tuple[str, ...], outcome: str, n: int, guarantee: Guarantee, repeats: int
) -> dict[str, list[float]]:
    """For every slope: error of the noise, in the units of the data and over the sampling error; coverage; width."""
    rng = np.random.default_rng(len(on) * 1000 + n)
    numbers = [data[name] for name in (*on, outcome)]
    made = Simulation(tuple(len(np.unique(values)) == 2 for values in numbers), guarantee)
    rows = np.column_stack([np.ones(len(numbers[0])), *numbers])
    design = rows[:, :-1]
    whole = np.linalg.lstsq(design, rows[:, -1], rcond=None)[0]
    noise, sampled, inside, widths = [], [], [], []
    for _ in range(repeats):
        chosen = rng.integers(0, len(rows), n)
        sample = rows[chosen]
        fit = made.fit(made.totals(sample), sample, rng)
        own = np.linalg.lstsq(design[chosen], sample[:, -1], rcond=None)[0]
        noise.append((fit.coefficients - own)[1:])
        sampled.append((own - whole)[1:])
        ends = np.array([fit.interval(along, 0.95) for along in np.eye(len(whole))[1:]])
        inside.append((ends[:, 0] <= whole[1:]) & (whole[1:] <= ends[:, 1]))
        widths.append(ends[:, 1] - ends[:, 0])
    units = in_units(on, outcome)
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
    session.count(epsilon=1.0)  # reads the rows
    start = time.perf_counter()
    session.regression("y", names, epsilon=1.0)
    own = time.perf_counter() - start
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT * FROM plain")
    every = [(a, b) for place, b in enumerate((*names, "y")) for a in ("1", *(*names, "y")[: place + 1])]
    sums = ", ".join(f"sum({a}::hugeint * {b})" for a, b in every)
    start = time.perf_counter()
    connection.execute(f"SELECT {sums} FROM t").fetchall()
    return {"session": own, "plain sums": time.perf_counter() - start}


def table(stored: dict[str, Any], guarantee: str = "ε = 1", people: tuple[int, ...] = (1_000, 5_000, 50_000)) -> str:
    """What is stored of a guarantee: median and range over the slopes, the least coverage, and the median width."""
    lines = ["| outcome on | people | noise | its range | covered | width |", "|---|---|---|---|---|---|"]
    for words, models in (("hours", ADULT), ("income", ACS)):
        for on, n in product(models, people):
            one = stored.get(f"{words} on {', '.join(on)}, {n:,} people, {guarantee}")
            if one is not None:
                noise, width = one["noise over sampling"], np.median(one["width over 3.92 sampling errors"])
                figures = f"{np.median(noise):.2f} | {min(noise):.2f} to {max(noise):.2f} | {min(one['coverage']):.1%}"
                wide = f"{width:.2f}" if np.isfinite(width) else "no end"
                lines.append(f"| {words} on {', '.join(NAMES[name] for name in on)} | {n:,} | {figures} | {wide} |")
    return "\n".join(lines).replace("%", " %")


def main(adult: str, acs: str, only: str = "") -> None:
    """Print every figure, and keep them; ``only`` names a part of them."""
    figures: dict[str, object] = {}
    if not only:
        figures["2,000,000 rows, eight numbers, seconds"] = at_scale()
    for path, models, outcome, words in ((adult, ADULT, "hours-per-week", "hours"), (acs, ACS, "PINCP", "income")):
        data = columns(path)
        for on, n, guarantee in product(models, (1_000, 5_000, 50_000), GUARANTEES):
            name = f"{words} on {', '.join(on)}, {n:,} people, {GUARANTEES[guarantee]}"
            if only in name:
                figures[name] = study(data, on, outcome, n, guarantee, 400)
                print(name, figures[name], flush=True)
    stored: dict[str, object] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    text = json.dumps(stored | figures, indent=1, ensure_ascii=False)
    RESULTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    for_peers(*sys.argv[2:]) if sys.argv[1] == "--for-peers" else main(*sys.argv[1:])
