"""The omission study beside a direct transcription, outlier scores, and DPLloyd beside scikit-learn, all in one run.

The transcription does what the paper's text says, record by record and repeat by repeat; it gets fewer repeats of the
same settings, and both are compared per repeat. The long study is timed by processor time, short calls by the best
of several.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from sklearn.cluster import KMeans  # type: ignore[import-untyped]

from discreet import PureDP
from discreet.mechanisms.omission.step import AbsoluteDistance, DiscreteDistance
from discreet.papers import load
from discreet.papers.miranda2026 import MEAN_NOISES, MODE_MECHANISMS
from discreet.papers.miranda2026_data import Omit, column, gaussian_scale, spendable
from discreet.questions.clusters import DPLloyd

RATES = (0.1, 0.5, 0.9)
ROWS = 1_000_000
ITERATIONS = 10


def seconds(call: Callable[[], object], repeats: int = 1) -> float:
    """Shortest time of a call; other work on the machine only ever adds time."""
    best = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def study_seconds() -> tuple[float, int]:
    """Mean and mode of one Adult column: 4 ε × 99 rates × 500 and 2,000 repeats, all mechanisms; and its repeats."""
    study, repeats = load("miranda2026"), 0
    start = time.process_time()
    for part in ("sampling-mean", "sampling-mode"):
        cells = [cell for cell in study.part(part).cells(False) if cell["column"] == "adult age"]
        for seed, cell in enumerate(cells):
            rows = list(study.part(part).compute(cell, seed))
            repeats += len(rows) * int(cell["repeats"] or 0)
    return time.process_time() - start, repeats


def transcribed_mean(records: list[float], truth: float, rate: float, noise: str, budget: tuple[float, float]) -> float:
    """One repeat of the mean, as written in the paper."""
    total, count = 0.0, 0
    for record in records:
        if random.random() < rate:
            total += record
            count += 1
    if noise == "laplace":
        scale = 2 / budget[0]
        noises = [random.choice((-1, 1)) * random.expovariate(1 / scale) for _ in range(2)]
    else:
        noises = [random.gauss(0, gaussian_scale(budget[0] / 2, budget[1] / 2)) for _ in range(2)]
    return 100 * abs((total + 125 * noises[0]) / (count + noises[1]) - truth) / truth


def transcribed_mode(records: list[float], truth: float, rate: float, method: str, budget: tuple[float, float]) -> bool:
    """One repeat of the mode, as written in the paper."""
    counts = Counter(record for record in records if random.random() < rate)
    best, winner = -math.inf, -1
    for value in range(126):
        if method == "noisy max, Laplace":
            noise = random.choice((-1, 1)) * random.expovariate(budget[0])
        elif method == "noisy max, Gaussian":
            noise = random.gauss(0, gaussian_scale(*budget))
        elif method == "noisy max, exponential":
            noise = random.expovariate(budget[0] / 2)
        else:
            noise = -2 / budget[0] * math.log(random.expovariate(1))
        if counts[value] + noise > best:
            best, winner = counts[value] + noise, value
    return winner != truth


def transcription_seconds() -> float:
    """Time of one repeat, averaged over mean and mode in the shares that the study has of them."""
    data = column("adult age")
    records = np.repeat(data.values, data.counts).tolist()
    truth, mode = data.mean, float(data.values[int(np.argmax(data.counts))])
    times: dict[str, list[float]] = {"mean": [], "mode": []}
    for rate in RATES:
        for method in (*MEAN_NOISES, *MODE_MECHANISMS):
            delta = data.size**-2.0 if "aussian" in method else 0.0
            budget = spendable(1.0, delta, Omit(rate=rate)) or (1.0, delta)
            if method in MEAN_NOISES:
                call = lambda m=method, b=budget, p=rate: transcribed_mean(records, truth, p, m, b)  # noqa: E731
                times["mean"].append(seconds(call, 3))
            else:
                call = lambda m=method, b=budget, p=rate: transcribed_mode(records, mode, p, m, b)  # noqa: E731
                times["mode"].append(seconds(call, 3))
    mean, mode_time = (float(np.mean(values)) for values in times.values())
    weights = 2 * 500, 4 * 2000
    return (weights[0] * mean + weights[1] * mode_time) / sum(weights)


def table() -> list[tuple[str, str, str, bool]]:
    """Rows: what, measured, target, met."""
    ours, repeats = study_seconds()
    direct = transcription_seconds() * repeats
    rng = np.random.default_rng(1)
    numbers, codes = rng.uniform(0, 125, ROWS), rng.integers(0, 126, ROWS)
    absolute = seconds(lambda: AbsoluteDistance((0, 125)).mean_distances(numbers), 3)
    sorting = seconds(lambda: np.sort(numbers), 3)
    discrete = seconds(lambda: DiscreteDistance().mean_distances(codes), 3)
    rows = rng.normal(size=(ROWS, 6))
    start = rng.normal(size=(5, 6))
    model = DPLloyd(5, guarantee=PureDP(1.0), bounds=[(-4, 4)] * 6, iterations=ITERATIONS)
    plain = KMeans(5, init=start, n_init=1, max_iter=ITERATIONS, tol=0, algorithm="lloyd")
    private = seconds(lambda: model.fit(rows, rng=1), 3)
    sklearn = seconds(lambda: plain.fit(rows), 3)
    return [
        ("study of one column", f"{ours:.1f} s CPU, {direct / ours:,.0f} times a transcription ({direct:,.0f} s)",
         "≥ 500 times", direct / ours >= 500),
        ("outlier scores, numbers", f"{absolute:.3f} s for 1e6, {absolute / sorting:.1f} times a sort", "≤ 6 sorts",
         absolute <= 6 * sorting),
        ("outlier scores, discrete", f"{discrete:.3f} s for 1e6", "≤ a sort", discrete <= sorting),
        ("DPLloyd, 1e6 × 6", f"{private:.2f} s, {private / sklearn:.2f} times scikit-learn ({sklearn:.2f} s)",
         "≤ 3 times", private <= 3 * sklearn),
    ]  # fmt: skip


def main() -> None:
    """Measure and print."""
    print(f"{'what':<26}{'measured':<58}{'target':<14}met")
    for what, measured, target, met in table():
        print(f"{what:<26}{measured:<58}{target:<14}{'yes' if met else 'NO'}")


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    main()
