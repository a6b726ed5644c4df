"""Many margins from one release: errors beside the proven optimum and beside separate tables, coverage, and times.

All data is made here. Errors of the optimum are those published for the domain (Xiao et al., NeurIPS 2023). Separate
tables share a budget evenly, each with Gaussian noise of its own.
"""

from __future__ import annotations

import json
import math
import resource
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet import Categories, GaussianDP, PureDP, Schema, Session, release
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.tables.margins import (
    Accuracy,
    Axes,
    MarginsGaussian,
    MarginsLaplace,
    Workload,
    margin_of,
    shape_of,
)
from discreet.questions import all_margins
from discreet.questions.tables.margins import Margins, MarginsRelease, TablesQuestion
from discreet.questions.tables.measured import synthetic_estimate

Counts = NDArray[np.int64]
ONE = GaussianDP(1.0)
DOMAIN = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
OPTIMUM = {1: 3.0468, 2: 6.3587, 3: 10.5153}
SURVEY = (2, 13, 3, 10, 7)
"""Sizes of sex, education, tenure, age band and marital status in a census sample."""


def rmse(errors: Sequence[NDArray[np.float64]]) -> float:
    """Root mean square over all cells of all arrays."""
    return math.sqrt(sum(float(np.sum(one**2)) for one in errors) / sum(one.size for one in errors))


def optimum() -> Iterator[tuple[str, float, float]]:
    """Stated and measured error a cell, and the proven optimum."""
    for ways, best in OPTIMUM.items():
        tables = tuple(combinations(range(len(DOMAIN)), ways))
        cells = [math.prod(shape_of(DOMAIN, table)) for table in tables]
        workload = Workload(sizes=DOMAIN, tables=tables, weights=tuple(map(float, cells)))
        start = time.perf_counter()
        one_row = Sensitivity(l1=float(len(workload.layout())))
        mechanism = MarginsGaussian.calibrate(ONE, one_row, workload=workload)
        yield f"{ways}-way: seconds to plan", time.perf_counter() - start, 2.0
        stated = [n * mechanism.standard_error(table) ** 2 for n, table in zip(cells, tables, strict=True)]
        yield f"{ways}-way: stated RMSE a cell", math.sqrt(sum(stated) / sum(cells)), best
        yield f"{ways}-way: measured RMSE a cell", _drawn(mechanism, tables), best


def _drawn(mechanism: MarginsGaussian, tables: Sequence[Axes]) -> float:
    """Exact draws around an empty table."""
    noisy = mechanism.measure(np.zeros(mechanism.dimension, dtype=np.int64))
    parts = {one.axes: block for one, block in mechanism.blocks(noisy)}
    return rmse([margin_of(parts, mechanism.sizes, table) for table in tables])


def survey(rows: int, seed: int = 1) -> Counts:
    """A sparse table of five columns that depend on each other: a mixture of eight kinds of people."""
    rng = np.random.default_rng(seed)
    joint = np.zeros(SURVEY)
    for weight in rng.dirichlet(np.full(8, 2.0)):
        kind = np.ones(())
        for size in SURVEY:
            kind = np.multiply.outer(kind, rng.dirichlet(np.full(size, 0.35)))
        joint += weight * kind
    return rng.multinomial(rows, joint.ravel() / joint.sum()).reshape(SURVEY)


def margin(counts: Counts, axes: Axes) -> Counts:
    """The margin of a table."""
    return np.asarray(counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in axes)))


def presented(rows: int, repeats: int) -> dict[str, float]:
    """26 margins up to three ways: errors measured and presented, coverage, and seconds to present."""
    counts = survey(rows)
    names = [f"c{position}" for position in range(len(SURVEY))]
    columns = {name: list(range(size)) for name, size in zip(names, SURVEY, strict=True)}
    margins = Margins(columns=columns, tables=all_margins(names, 3))
    exact = margins.exact(counts)
    noise = MarginsGaussian.calibrate(ONE, exact.sensitivity, workload=margins.workload("cells"))
    errors: dict[str, list[NDArray[np.float64]]] = {"measured": [], "presented": [], "presented, 3-way": []}
    inside: list[bool] = []
    zeros: list[bool] = []
    seconds: list[float] = []
    for seed in range(repeats):
        answer = release(exact, noise, rng=seed)
        if not isinstance(answer, MarginsRelease):
            raise TypeError("a release of margins was expected")
        start = time.perf_counter()
        answer.presented  # noqa: B018  (computed when first read)
        seconds.append(time.perf_counter() - start)
        for table in answer.tables():
            truth = margin(counts, margins.axes(table.columns))
            errors["measured"].append(table.measured - truth)
            errors["presented"].append(table.estimate - truth)
            if len(table.columns) == 3:
                errors["presented, 3-way"].append(table.estimate - truth)
            hit = np.ravel(np.asarray(table.noise_interval().contains(truth)))
            inside += hit.tolist()
            zeros += hit[np.ravel(truth) == 0].tolist()
    return {
        **{f"RMSE {name}": rmse(found) for name, found in errors.items()},
        "coverage": float(np.mean(inside)),
        "coverage of zeros": float(np.mean(zeros)),
        "seconds to present": min(seconds),
    }


def office() -> dict[str, float]:
    """8 regions × 15 ages × 2 sexes with all margins, every table alike: stated and measured RMSE a cell."""
    sizes, tables = (8, 15, 2), tuple(axes for ways in range(4) for axes in combinations(range(3), ways))
    workload = Workload(sizes=sizes, tables=tables, weights=(1.0,) * len(tables))
    mechanism = MarginsGaussian.calibrate(ONE, Sensitivity(l1=float(len(tables))), workload=workload)
    draws: dict[Axes, list[NDArray[np.float64]]] = {table: [] for table in tables}
    for _ in range(400):
        noisy = mechanism.measure(np.zeros(mechanism.dimension, dtype=np.int64))
        parts = {one.axes: block for one, block in mechanism.blocks(noisy)}
        for table in tables:
            draws[table].append(margin_of(parts, sizes, table))
    names = ("region", "age", "sex")
    return {
        f"{' × '.join(names[axis] for axis in table) or 'total'}, {kind}": value
        for table in tables
        for kind, value in (("stated", mechanism.standard_error(table)), ("measured", rmse(draws[table])))
    }


def pure(accuracy: Accuracy = "sum") -> dict[str, float]:
    """The same tables under ε = 1: RMSE a cell, where separate tables have 11.3 each."""
    sizes, tables = (8, 15, 2), tuple(axes for ways in range(4) for axes in combinations(range(3), ways))
    workload = Workload(sizes=sizes, tables=tables, weights=(1.0,) * len(tables), accuracy=accuracy)
    mechanism = MarginsLaplace.calibrate(PureDP(1.0), Sensitivity(l1=float(len(tables))), workload=workload)
    names = ("region", "age", "sex")
    return {" × ".join(names[axis] for axis in table) or "total": mechanism.standard_error(table) for table in tables}


def synthetic(rows: int, mu: float, repeats: int = 100) -> dict[str, float]:
    """Coverage of 95 % intervals from ten synthetic data sets: a mean, a share and a slope in a 5 × 5 × 2 table."""
    rng = np.random.default_rng(1)
    x, y, _ = np.meshgrid(np.arange(5), np.arange(5), np.arange(2), indexing="ij")
    by_x = np.exp(-((np.arange(5) - 0.6 * np.arange(5)[:, None] - 0.8) ** 2) / 2)
    shares = np.array([0.1, 0.2, 0.3, 0.25, 0.15])[:, None] * by_x / by_x.sum(axis=1, keepdims=True)
    second = np.array([0.2, 0.3, 0.4, 0.5, 0.7])[:, None]
    population = np.stack([shares * (1 - second), shares * second], axis=2)

    def slope(counts: NDArray[np.float64]) -> float:
        along, across = (one - np.sum(counts * one) / counts.sum() for one in (x, y))
        return float(np.sum(counts * along * across) / np.sum(counts * along**2))

    asked = {
        "mean": lambda counts: float(np.sum(counts * y) / counts.sum()),
        "share": lambda counts: float(counts[:, :, 1].sum() / counts.sum()),
        "slope": slope,
    }
    margins = Margins(
        columns={"x": range(5), "y": range(5), "z": range(2)}, tables=all_margins(["x", "y", "z"], up_to=2)
    )
    hits = dict.fromkeys(asked, 0)
    for _ in range(repeats):
        exact = margins.exact(rng.multinomial(rows, population.ravel()).reshape(population.shape))
        noise = MarginsGaussian.calibrate(GaussianDP(mu), exact.sensitivity, workload=margins.workload())
        answer = release(exact, noise, rng=rng)
        if not isinstance(answer, MarginsRelease):
            raise TypeError("a release of margins was expected")
        drawn = answer.synthetic_rows(10, rng=rng)
        for name, ask in asked.items():
            found = synthetic_estimate([ask(counts) for counts in drawn.counts])
            hits[name] += bool(found.population_interval().contains(ask(population)))
    return {name: hit / repeats for name, hit in hits.items()}


def many_columns(columns: int = 30, labels: int = 10, rows: int = 100_000) -> dict[str, float]:
    """All margins up to two ways of many columns, from an Arrow table to the released tables."""
    rng = np.random.default_rng(0)
    names = [f"q{position}" for position in range(columns)]
    data = pa.table({name: rng.integers(0, labels, rows) for name in names})
    schema = Schema(columns={name: Categories(list(range(labels))) for name in names})
    wanted = all_margins(names, 2)
    start = time.perf_counter()
    TablesQuestion(schema, wanted, guarantee=ONE)
    planned = time.perf_counter() - start
    session = Session(data, schema, ledger=":memory:", budget=ONE)
    start = time.perf_counter()
    found = session.tables(wanted, guarantee=ONE).tables()
    return {
        "tables": float(len(found)),
        "seconds to plan": planned,
        "seconds to read, count and release": time.perf_counter() - start,
        "peak memory, GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    """Print every figure, and keep them."""
    figures: dict[str, object] = {"30 columns × 10 labels, up to two ways": many_columns()}
    figures["optimum"] = {name: {"found": found, "target": target} for name, found, target in optimum()}
    figures["region × age × sex, μ = 1; separate tables: 2.83 each"] = office()
    figures["region × age × sex, ε = 1; separate tables: 11.3 each"] = pure()
    figures["region × age × sex, ε = 1, largest error least"] = pure("largest")
    for rows, mu in ((300, 0.3), (2_000, 0.3), (2_000, 1.0), (20_000, 1.0)):
        figures[f"coverage from synthetic rows, {rows:,} rows, μ = {mu:g}"] = synthetic(rows, mu)
    for rows, repeats in ((500, 20), (5_000, 20), (27_000, 20), (100_000, 20)):
        figures[f"26 margins of five columns, {rows:,} rows, μ = 1"] = presented(rows, repeats)
    text = json.dumps(figures, indent=1, ensure_ascii=False)
    (Path(__file__).parent / "results" / "margins.json").write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
