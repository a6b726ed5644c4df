"""A private A/B test from 40 million rows of Parquet beside the plain query; quadrature beside Metropolis."""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

from discreet import Bounds, Categories, Feature, PrivacyUnit, PureDP, Schema, Session
from discreet.inference.two_sample import CensoredNormal
from discreet.questions.comparison.compare import MeanComparison

ROWS, DEVICES, PARTITIONS = 40_000_000, 6_700_000, 800
PLAIN = """
    SELECT arm, part, count(*), sum(clicks) FROM (
        SELECT device, arm, device % 800 AS part, sum(click) AS clicks FROM '{path}' GROUP BY ALL
    ) GROUP BY ALL
"""


def generate(path: Path, rows: int, devices: int) -> None:
    """Impressions with a device, its arm and a click; a few devices have very many."""
    duckdb.sql(
        f"""COPY (
            SELECT device, CASE WHEN hash(device + 7) % 2 = 0 THEN 'control' ELSE 'treatment' END AS arm,
                   (hash(i) % 100 < 17)::TINYINT AS click
            FROM (SELECT i, (hash(i * 31 + 5) % {devices})::BIGINT AS device FROM range({rows}) r(i))
        ) TO '{path}' (FORMAT parquet)"""
    )


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    """Median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def private_test(path: Path, partitions: int | None, method: str) -> MeanComparison:
    """The whole comparison, from the file to the interval."""
    schema = Schema(
        columns={"click": Bounds(0, 1, grid=1), "arm": Categories(["control", "treatment"])},
        unit=PrivacyUnit("device"),
        features={"clicks": Feature(of="click", take="sum", low=0, high=50), "arm": Feature(of="arm", take="min")},
    )
    session = Session(path, schema.per_unit(), ledger=":memory:", budget=PureDP(1.0))
    return session.compare_means("clicks", by="arm", guarantee=PureDP(1.0), partitions=partitions, method=method)


def metropolis(likelihood: CensoredNormal, steps: int) -> float:
    """Posterior mean of θ by random walk, as the paper does it."""
    rng = np.random.default_rng(1)
    state = np.array([0.0, 0.0])
    value = float(likelihood.log_likelihood(*state))
    moves, coins, total = rng.normal(0, 0.12, (steps, 2)), np.log(rng.random(steps)), 0.0
    for move, coin in zip(moves, coins, strict=True):
        trial = state + move
        new = float(likelihood.log_likelihood(*trial))
        if coin < new - value:
            state, value = trial, new
        total += state[0]
    return total / steps


def posterior_lines() -> list[str]:
    """Quadrature beside 10,000 Metropolis steps, and its error against a much finer rule."""
    likelihood = CensoredNormal(below=10.0, inside=80.0, above=10.0, lower=-1.28, upper=1.28, total=2.0, squares=37.0)
    fast = seconds(lambda: likelihood.posterior(13), 200)
    slow = seconds(lambda: metropolis(likelihood, 10_000), 3)
    found, fine = likelihood.posterior(13), likelihood.posterior(301)
    error = abs(float(found.estimate - fine.estimate)) / float(np.sqrt(fine.variance))
    verdict = "met" if slow / fast >= 100 and error <= 1e-3 else "MISSED"
    return [
        f"{'posterior by quadrature (ms)':<48}{1e3 * fast:>10.2f}",
        f"{'10,000 Metropolis steps in numpy (ms)':<48}{1e3 * slow:>10.1f}",
        f"{'ratio':<48}{slow / fast:>10.0f}   target ≥ 100, mean to 1e-3 SE ({error:.1e}): {verdict}",
    ]


def engine_lines(rows: int, rounds: int) -> list[str]:
    """The test from Parquet beside DuckDB's plain two-level group-by on the same file, in turns."""
    with tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder:
        path = Path(folder) / "impressions.parquet"
        generate(path, rows, rows * DEVICES // ROWS)
        subjects: dict[str, Callable[[], object]] = {
            "plain two-level group-by": lambda: duckdb.sql(PLAIN.format(path=path)).fetchall(),
            "private test, direct": lambda: private_test(path, None, "direct"),
            f"private test, noise-aware, P = {PARTITIONS}": lambda: private_test(path, PARTITIONS, "noise_aware"),
        }
        times: dict[str, list[float]] = {name: [] for name in subjects}
        for _ in range(rounds):
            for name, call in subjects.items():
                times[name].append(seconds(call, 1))
    best = {name: min(values) for name, values in times.items()}
    plain = best["plain two-level group-by"]
    table = [f"{f'{rows:,} rows':<48}{'s':>10}{'ratio':>8}"]
    for name, value in best.items():
        verdict = "" if value == plain else f"   target ≤ 2: {'met' if value / plain <= 2 else 'MISSED'}"
        table.append(f"{name:<48}{value:>10.2f}{value / plain:>8.2f}{verdict}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    table.append(f"{'peak memory (GB)':<48}{peak:>10.2f}{'':>8}   target < 6: {'met' if peak < 6 else 'MISSED'}")
    return table


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print("\n".join([*engine_lines(given.rows, given.rounds), "", *posterior_lines()]))


if __name__ == "__main__":
    main()
