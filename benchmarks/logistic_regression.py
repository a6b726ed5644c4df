"""Logistic regression in samples of Adult: noise of three private ways to fit it, and coverage of ours.

``python benchmarks/logistic_regression.py adult.csv``. The outcome is to work more than 40 hours a week. Samples are
drawn with replacement, so all of Adult is the population. The other two ways are simulations of published rules, each
with the tuning that is best on these data, for which they are not charged. Stored cases are kept; remove the file of
results to run all of them again. Coverage on invented populations: ``python benchmarks/coverage.py``.

- objective perturbation, Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 2, for rows of norm 1 at most;
- noisy gradient steps, Bassily, Smith and Thakurta (2014), with noise of the norm-based Laplace law in each step.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from scipy.special import expit

from discreet.inference.least_squares import Linear
from discreet.inference.logistic import LogisticFit
from discreet.inference.noise import NoisyTotals

Array = NDArray[np.float64]
Figures = dict[str, list[dict[str, object]]]
BOUNDS = {"age": (17.0, 90.0), "education-num": (1.0, 16.0)}
NAMES = {"age": "age", "education-num": "education"}
RESULTS = Path(__file__).parent / "results" / "logistic_regression.json"
EPSILON, DEGREE = 1.0, 4
CASES = {("age",): ((1_000, 200), (5_000, 200)), ("age", "education-num"): ((5_000, 100), (1_000, 100))}


def columns(path: str) -> tuple[dict[str, Array], NDArray[np.bool_]]:
    """Numbers between 0 and 1, and the outcome."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = {
        name: np.clip((np.array([float(row[name]) for row in rows]) - low) / (high - low), 0.0, 1.0)
        for name, (low, high) in BOUNDS.items()
    }
    return numbers, np.array([float(row["hours-per-week"]) > 40 for row in rows])


def likelihood(z: Array, y: Array, ridge: float = 0.0, tilt: Array | None = None) -> Array:
    """Coefficients that minimise the deviance, plus a ridge and a linear term."""
    added = np.zeros(z.shape[1]) if tilt is None else tilt

    def loss(b: Array) -> tuple[float, Array]:
        log_odds = z @ b
        value = np.logaddexp(0, log_odds).sum() - y @ log_odds + ridge / 2 * b @ b + added @ b
        return float(value), z.T @ (expit(log_odds) - y) + ridge * b + added

    return np.asarray(scipy.optimize.minimize(loss, np.zeros(z.shape[1]), jac=True, method="L-BFGS-B").x)


def moments(u: Array, y: NDArray[np.bool_], rng: np.random.Generator, epsilon: float = EPSILON) -> LogisticFit:
    """Our release and fit, with simulated noise."""
    found = np.ones((len(u), 1))
    for column in u.T:
        own = [math.comb(DEGREE, k) * column**k * (1 - column) ** (DEGREE - k) for k in range(DEGREE + 1)]
        found = (found[:, :, None] * np.stack(own, axis=1)[:, None, :]).reshape(len(u), -1)
    totals = np.concatenate([found[~y].sum(axis=0), found[y].sum(axis=0)])
    totals += rng.laplace(0, 1 / epsilon, totals.size)
    numbers = u.shape[1]
    terms = (Linear(np.ones(1), np.zeros(numbers)), *(Linear(np.zeros(1), one) for one in np.eye(numbers)))
    return LogisticFit(NoisyTotals(totals=totals, noise=2 / epsilon**2, kurtosis=3.0), 1, (DEGREE,) * numbers, terms)


def direction(size: int, scale: float, rng: np.random.Generator) -> Array:
    """Noise whose density falls with its norm as exp(−norm/scale)."""
    found = rng.normal(size=size)
    return np.asarray(found / np.linalg.norm(found) * rng.gamma(size, scale))


def objective_perturbation(z: Array, y: Array, ridge: float, rng: np.random.Generator) -> Array:
    """Coefficients by Algorithm 2; ``ridge`` is nΛ. Rows are scaled to a norm of at most 1."""
    reach = math.sqrt(z.shape[1])
    left = EPSILON - math.log(1 + 0.5 / ridge + 0.0625 / ridge**2)
    if left <= 0:
        ridge, left = 0.25 / math.expm1(EPSILON / 4), EPSILON / 2
    return likelihood(z / reach, y, ridge, direction(z.shape[1], 2 / left, rng)) / reach


def noisy_steps(z: Array, y: Array, steps: int, rate: float, rng: np.random.Generator) -> Array:
    """Gradient steps, each with noise for its part of ε."""
    reach = math.sqrt(z.shape[1])
    b = np.zeros(z.shape[1])
    for _ in range(steps):
        slope = z.T @ (y - expit(z @ b)) + direction(z.shape[1], reach * steps / EPSILON, rng)
        b = b + rate * slope / len(z)
    return b


def compared(numbers: Array, y: NDArray[np.bool_], n: int, repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    """Noise over sampling error of the worst slope, for each way; coverage and width of our intervals."""
    rng = np.random.default_rng(n + numbers.shape[1])
    everyone = np.column_stack([np.ones(len(y)), numbers])
    truth = likelihood(everyone, y.astype(float))
    tunings: dict[str, list[tuple[float, ...]]] = {
        "moments": [()],
        "objective perturbation": [(one,) for one in (0.3, 1.0, 3.0, 10.0)],
        "noisy steps": [(steps, rate) for steps in (3, 10, 30) for rate in (1.0, 4.0, 8.0)],
    }
    errors: dict[tuple[str, tuple[float, ...]], list[Array]] = {}
    sampled, held, widths = [], [], []
    for repeat in range(repeats):
        chosen = rng.integers(0, len(y), n)
        z, u, own = everyone[chosen], numbers[chosen], y[chosen]
        best = likelihood(z, own.astype(float))
        sampled.append(best - truth)
        fit = moments(u, own, rng)
        errors.setdefault(("moments", ()), []).append(fit.coefficients - best)
        held.append([fit.pvalue(one, float(t)) >= 0.05 for one, t in zip(np.eye(z.shape[1]), truth, strict=True)])
        if repeat < 20:
            widths.append([np.subtract(*fit.interval(one, 0.95)[::-1]) for one in np.eye(z.shape[1])])
        for tuning in tunings["objective perturbation"]:
            found = objective_perturbation(z, own.astype(float), tuning[0], rng)
            errors.setdefault(("objective perturbation", tuning), []).append(found - best)
        for tuning in tunings["noisy steps"]:
            found = noisy_steps(z, own.astype(float), int(tuning[0]), tuning[1], rng)
            errors.setdefault(("noisy steps", tuning), []).append(found - best)
    spread = np.std(sampled, axis=0)

    def worst(of: list[Array]) -> float:
        return float((np.median(np.abs(of), axis=0) / 0.6745 / spread)[1:].max())

    noise = {way: min(worst(errors[way, one]) for one in options) for way, options in tunings.items()}
    width = float((np.median(widths, axis=0) / (2 * 1.96 * spread))[1:].max())
    return noise, {"covered": float(np.mean(held, axis=0)[1:].min()), "width": width}


def stored_figures() -> Figures:
    """What was found before: it is not run again."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {"methods": [], "intervals": []}


def store(figures: Figures) -> None:
    """Keep the figures."""
    RESULTS.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(path: str) -> None:
    """Print every figure, and keep them."""
    numbers, y = columns(path)
    figures = stored_figures()
    for on, settings in CASES.items():
        for n, repeats in settings:
            head: dict[str, object] = {"on": " and ".join(NAMES[name] for name in on), "people": n, "repeats": repeats}
            if any(head.items() <= one.items() for one in figures["methods"]):
                continue
            noise, interval = compared(np.stack([numbers[name] for name in on], axis=1), y, n, repeats)
            figures["methods"].append(head | noise)
            figures["intervals"].append(head | interval)
            print(head, noise, interval, flush=True)
            store(figures)


if __name__ == "__main__":
    main(sys.argv[1])
