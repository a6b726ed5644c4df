"""Tests on private tables and large tables, beside numpy's own draws and a plain loop over lee2022's Algorithm 2.

All times come from one run. The plain loop is Algorithm 2 line by line over the mechanism itself with its exact noise,
one simulated table at a time; the transcribed loop takes the paper's M_rJS in insecure floats instead. Loops are timed
on fewer resamples and scaled up. The speed of numpy's draws alone is the ceiling for any test that simulates tables.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from discreet import Neighbours, release
from discreet.inference import MonteCarlo, goodness_of_fit, homogeneity
from discreet.mechanisms import JamesSteinGaussian
from discreet.papers.lee2022 import age_shares
from discreet.questions import ContingencyTable

RESAMPLES, ROWS, CELLS, SCALE = 5000, 1000, 18, 4.714
LOOPED = 200
BIG = 1_000_000

# How a value relates to its target.
AT_MOST, AT_LEAST = "at most", "at least"


def best(call: Callable[[], object], repeats: int = 7) -> float:
    """Seconds of the best of several calls; other work on the machine only ever adds time."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def transcribed(theta: NDArray[np.int64], scale: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """M_rJS with truncation as lee2022 writes it: equations (8) to (10) with the Helmert matrix of section 4.1."""
    p = len(theta)
    basis = helmert(p, full=True).T
    rotated = basis.T @ (theta + basis[:, 1:] @ (scale * rng.standard_normal(p - 1)))
    rest = rotated[1:]
    mean = sum(rest) / (p - 1)
    spread = sum((value - mean) ** 2 for value in rest)
    factor = 1 - (p - 4) * scale**2 / spread
    rotated[1:] = [mean + factor * (value - mean) for value in rest]
    return np.array([max(0.0, value) for value in basis @ rotated])


def plain_loop(mechanism: Callable[[NDArray[np.int64]], Any], shares: NDArray[np.float64], seed: int) -> list[float]:
    """Algorithm 2, lines 5 to 9, as printed."""
    rng = np.random.default_rng(seed)
    statistics = []
    for _ in range(LOOPED):
        table = mechanism(rng.multinomial(ROWS, shares))
        total = sum(table)
        statistics.append(
            sum((cell - total * share) ** 2 / (total * share) for cell, share in zip(table, shares, strict=True))
        )
    return statistics


def measure() -> list[dict[str, Any]]:
    """Every figure, as a row with its target."""
    shares, _ = age_shares(CELLS)
    rng = np.random.default_rng(1)
    table = ContingencyTable({"age": list(range(CELLS))})
    mechanism = JamesSteinGaussian(scale=SCALE, rank_deficient=True, clip="nonnegative", as_published=True)
    noisy = [
        release(
            table.exact_counts(rng.multinomial(ROWS, shares), neighbours=Neighbours.REPLACE_ONE), mechanism, rng=rng
        )
        for _ in range(2)
    ]

    def draw(samples: int) -> None:
        for _ in range(samples):
            rng.multinomial(ROWS, shares, size=RESAMPLES)
            rng.standard_normal((RESAMPLES, CELLS))

    null = MonteCarlo(n_resamples=RESAMPLES, rng=rng)
    draws = {1: best(lambda: draw(1)), 2: best(lambda: draw(2))}
    looped = RESAMPLES / LOOPED
    loop = looped * best(lambda: plain_loop(lambda theta: transcribed(theta, SCALE, rng), shares, 1), 3)
    own_loop = looped * best(lambda: plain_loop(mechanism.draw, shares, 1), 3)
    rows = [_row("numpy's draws alone: times faster than a plain loop", own_loop / draws[1], None, None)]
    for name, samples, call in (
        ("goodness of fit, default", 1, lambda: goodness_of_fit(noisy[0], shares, null=null)),
        ("goodness of fit, pearson", 1, lambda: goodness_of_fit(noisy[0], shares, null=null, statistic="pearson")),
        ("homogeneity, default", 2, lambda: homogeneity(noisy, null=null)),
        ("homogeneity, pearson", 2, lambda: homogeneity(noisy, null=null, statistic="pearson")),
    ):
        seconds = best(call)
        rows.append(_row(f"{name}: ms", 1000 * seconds, None, None))
        rows.append(_row(f"{name}: times numpy's draws", seconds / draws[samples], 3.0, AT_MOST))
        if samples == 1:
            rows.append(_row(f"{name}: times faster than a plain loop", own_loop / seconds, 100.0, AT_LEAST))
            rows.append(_row(f"{name}: than a transcribed loop", loop / seconds, None, None))
    peak, seconds = large_release()
    rows.append(_row(f"release of {BIG:,} cells: peak MB", peak, 1000.0, AT_MOST))
    rows.append(_row(f"release of {BIG:,} cells: seconds", seconds, None, None))
    return rows


def _row(task: str, value: float, target: float | None, rule: str | None) -> dict[str, Any]:
    met = None
    if target is not None:
        met = value <= target if rule == AT_MOST else value >= target
    return {"task": task, "value": value, "target": target, "rule": rule, "met": met}


def large_release() -> tuple[float, float]:
    """Peak memory in MB and seconds of a certified M_rJS release of a large table, in a process of its own."""
    answer = subprocess.run([sys.executable, __file__, "large"], stdout=subprocess.PIPE, text=True, check=True)
    peak, seconds = json.loads(answer.stdout)
    return float(peak), float(seconds)


def release_large() -> None:
    """Release one large table with exact noise, and print what it took."""
    from discreet import GaussianDP, Ledger

    table = ContingencyTable({"cell": list(range(BIG))})
    sensitivity = table.sensitivity(Neighbours.REPLACE_ONE)
    counts = np.arange(BIG) % 50
    mechanism = JamesSteinGaussian.calibrate(
        GaussianDP(0.3), sensitivity, rank_deficient=True, clip="simplex", integers=True
    )
    ledger = Ledger(":memory:", budget=GaussianDP(1.0))
    exact = table.exact_counts(counts, neighbours=Neighbours.REPLACE_ONE)
    start = time.perf_counter()
    noisy = release(exact, mechanism, ledger=ledger)
    seconds = time.perf_counter() - start
    assert np.sum(noisy.value) == counts.sum()
    print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, seconds]))


def lines(rows: list[dict[str, Any]]) -> list[str]:
    """The figures as a table."""
    table = [f"{'task':<56}{'value':>10}{'target':>16}  {'met':<6}"]
    for row in rows:
        target = "" if row["target"] is None else f"{row['rule']} {row['target']:g}"
        verdict = "" if row["met"] is None else ("met" if row["met"] else "MISSED")
        table.append(f"{row['task']:<56}{row['value']:>10,.2f}{target:>16}  {verdict:<6}")
    return table


def main() -> None:
    """Print the table, or do the large release."""
    if sys.argv[1:] == ["large"]:
        release_large()
    else:
        print("\n".join(lines(measure())))


if __name__ == "__main__":
    main()
