"""Data of the miranda2026 study: files in a folder the user gives, or generated stand-ins of the same shape."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr

from discreet.core.errors import InvalidParameter, NoConversion
from discreet.core.guarantee import ApproxDP
from discreet.mechanisms.omission.amplification import before_outlier_suppression, before_poisson_sampling
from discreet.papers.study import Parameters, Row

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """A column as distinct values and how many records have each, with its public bounds (miranda2026, Table 1)."""

    name: str
    values: Array
    counts: NDArray[np.int64]
    bounds: tuple[float, float]

    @property
    def size(self) -> int:
        """Number of records."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Mean of the column."""
        return float(self.values @ self.counts / self.size)


@dataclass(frozen=True)
class _Source:
    files: tuple[str, ...]
    field: str
    bounds: tuple[float, float]
    stand_in: Callable[[np.random.Generator], Array]


def _ages(generator: np.random.Generator) -> Array:
    draws = 17 + generator.gamma(2.9, 7.4, 32_561)
    return np.clip(np.rint(draws), 17, 90)


def _hours(generator: np.random.Generator) -> Array:
    usual = generator.random(32_561) < 0.47
    return np.where(usual, 40, np.clip(np.rint(generator.normal(40, 16, 32_561)), 1, 99))


def _taxes(generator: np.random.Generator) -> Array:
    """No value twice, as in the reference file."""
    return np.sort(generator.choice(np.arange(1, 21_261), 1080, replace=False)).astype(float)


def _contributions(generator: np.random.Generator) -> Array:
    return np.clip(np.rint(generator.gamma(3.2, 750, 1080)), 6, 7932)


def _irish_ages(generator: np.random.Generator) -> Array:
    return np.clip(np.rint(generator.triangular(15, 35, 85, 66_666)), 15, 84)


def _education(generator: np.random.Generator) -> Array:
    shares = np.array([0.14, 0.17, 0.19, 0.07, 0.06, 0.06, 0.08, 0.09, 0.1, 0.04])
    return generator.choice(np.arange(1.0, 11.0), 66_666, p=shares / shares.sum())


_ADULT = ("adult_numeric.csv", "adult.csv", "adult.data")
_CENSUS = ("casc_census.csv", "census.csv", "CASCrefmicrodata.csv")
_IRISH = ("irish_census.csv", "irish.csv")
_SOURCES = {
    "adult age": _Source(_ADULT, "age", (0.0, 125.0), _ages),
    "adult hours-per-week": _Source(_ADULT, "hours-per-week", (0.0, 100.0), _hours),
    "census FEDTAX": _Source(_CENSUS, "FEDTAX", (0.0, 31_889.0), _taxes),
    "census FICA": _Source(_CENSUS, "FICA", (0.0, 11_890.0), _contributions),
    "irish Age": _Source(_IRISH, "Age", (0.0, 125.0), _irish_ages),
    "irish HighestEducationCompleted": _Source(_IRISH, "HighestEducationCompleted", (1.0, 10.0), _education),
}
COLUMNS = tuple(_SOURCES)
"""The six columns of the paper's Table 1."""

_ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_ADULT_POSITIONS = dict(zip(_ADULT_NUMBERS, (0, 2, 4, 10, 11, 12), strict=True))


def _path(folder: str, names: tuple[str, ...]) -> Path:
    for name in names:
        if (Path(folder) / name).is_file():
            return Path(folder) / name
    raise InvalidParameter("data", folder, f"has none of the files {', '.join(names)}", "Put one of them there.")


def _read(path: Path, fields: tuple[str, ...]) -> Array:
    """The named columns of a CSV file; the original ``adult.data`` has no header."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.reader(file, skipinitialspace=True) if line]
    if path.name == "adult.data":
        positions, body = [_ADULT_POSITIONS[field] for field in fields], lines
    else:
        header = [name.strip() for name in lines[0]]
        missing = [field for field in fields if field not in header]
        if missing:
            raise InvalidParameter("data", str(path), f"has no column {missing[0]}", "Check the file's first line.")
        positions, body = [header.index(field) for field in fields], lines[1:]
    return np.array([[float(line[position]) for position in positions] for line in body])


@lru_cache(maxsize=32)
def column(name: str, folder: str = "") -> Column:
    """One column of the study, from ``folder`` or, without one, a stand-in.

    Examples
    --------
    >>> age = column("adult age")
    >>> age.size, age.bounds
    (32561, (0.0, 125.0))
    """
    source = _SOURCES[name]
    if folder:
        data = _read(_path(folder, source.files), (source.field,))[:, 0]
    else:
        data = source.stand_in(np.random.default_rng(list(_SOURCES).index(name)))
    values, counts = np.unique(data, return_counts=True)
    return Column(name, values, counts, source.bounds)


@lru_cache(maxsize=2)
def adult_table(folder: str = "") -> Array:
    """The six numeric columns of Adult, scaled to [−1, 1] by their own range, as published."""
    if folder:
        rows = _read(_path(folder, _ADULT), _ADULT_NUMBERS)
    else:
        generator = np.random.default_rng(77)
        gain = np.where(generator.random(32_561) < 0.083, generator.gamma(1.2, 9000, 32_561), 0)
        loss = np.where(generator.random(32_561) < 0.047, generator.normal(1870, 380, 32_561), 0)
        rows = np.column_stack(
            [
                _ages(generator),
                np.clip(generator.gamma(3.2, 59_000, 32_561), 12_285, 1_484_705),
                np.clip(np.rint(generator.normal(10.1, 2.6, 32_561)), 1, 16),
                np.clip(gain, 0, 99_999),
                np.clip(loss, 0, 4356),
                _hours(generator),
            ]
        )
    low, high = rows.min(axis=0), rows.max(axis=0)
    return np.asarray(2 * (rows - low) / (high - low) - 1)


def four_groups(seed: int) -> Array:
    """100 points of {1 … 100}² around four random centres with σ = 10 (miranda2026 §3.1)."""
    generator = np.random.default_rng(seed)
    centres = generator.integers(10, 91, (4, 2))
    points = centres[generator.integers(0, 4, 100)] + generator.normal(0, 10, (100, 2))
    return np.asarray(np.clip(np.rint(points), 1, 100))


# ---- Utility with and without omission, for many repeats at once
#
# A sample of a column is described by how many records of each value stay: a binomial number per distinct value,
# because records with equal values are kept with equal probability. So one repeat costs a draw per distinct value,
# not per record.


@dataclass(frozen=True)
class Omit:
    """The omitted records: none, a Poisson sample (rate), or outliers (m, M)."""

    rate: float | None = None
    m: float | None = None
    M: float | None = None

    def keep(self, mean_distances: Array) -> Array:
        """Probability of keeping each distinct value."""
        if self.rate is not None:
            return np.full(mean_distances.shape, self.rate)
        if self.m is not None and self.M is not None:
            return np.asarray(1 - self.m - (self.M - self.m) * mean_distances)
        return np.ones(mean_distances.shape)


@lru_cache(maxsize=4096)
def spendable(epsilon: float, delta: float, omit: Omit) -> tuple[float, float] | None:
    """(ε, δ) that the mechanism may spend behind ``omit`` at the target (ε, δ); None where there is no such budget."""
    if omit.rate is None and omit.m is None:
        return epsilon, delta
    target = ApproxDP(epsilon, delta)
    try:
        if omit.rate is not None:
            inner = before_poisson_sampling(target, omit.rate)
        else:
            assert omit.m is not None
            assert omit.M is not None
            inner = before_outlier_suppression(target, omit.m, omit.M)
    except NoConversion:
        return None
    return inner.epsilon, inner.delta


def mean_distances(data: Column, kind: str) -> Array:
    """Mean distance of each distinct value to all records: absolute over the bounds, or discrete."""
    share = data.counts / data.size
    if kind == "discrete":
        return np.asarray(1 - share)
    below = np.cumsum(share) - share
    weighted = np.cumsum(share * data.values) - share * data.values
    total = float(share @ data.values)
    gaps = data.values * below - weighted + (total - weighted - share * data.values) - data.values * (1 - below - share)
    return np.asarray(gaps / (data.bounds[1] - data.bounds[0]))


def kept_counts(data: Column, omit: Omit, kind: str, repeats: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """The number of records of each distinct value that stay, in each repeat."""
    if omit.rate is None and omit.m is None:
        return np.broadcast_to(data.counts, (repeats, data.counts.size))
    chances = omit.keep(mean_distances(data, kind) if omit.m is not None else np.zeros(data.counts.size))
    # Repeats run fastest, so that the generator sets up each binomial law once.
    return np.asarray(generator.binomial(data.counts[:, None], chances[:, None], size=(data.counts.size, repeats)).T)


@lru_cache(maxsize=4096)
def gaussian_scale(epsilon: float, delta: float) -> float:
    """σ of the optimal Gaussian mechanism for sensitivity 1 (balle2018), in floating point: simulations only."""

    def excess(log_scale: float) -> float:
        scale = math.exp(log_scale)
        first, second = log_ndtr([0.5 / scale - epsilon * scale, -0.5 / scale - epsilon * scale])
        return float(first + math.log(max(-math.expm1(epsilon + second - first), 1e-300)) - math.log(delta))

    high = 0.0
    while excess(high) > 0:
        high += 1.0
    return math.exp(brentq(excess, -12.0, high, xtol=1e-13))


def mean_errors(
    data: Column, noise: str, budget: tuple[float, float], counts: NDArray[np.int64], generator: np.random.Generator
) -> Array:
    """Percent errors of the noisy sum over the noisy count, half of the budget each (miranda2026 §3.1)."""
    sums, totals = counts @ data.values, counts.sum(axis=1)
    reach = max(abs(end) for end in data.bounds)
    if noise == "laplace":
        scale = 2 / budget[0]
        noises = generator.laplace(scale=scale, size=(2, len(counts)))
    else:
        scale = gaussian_scale(budget[0] / 2, budget[1] / 2)
        noises = generator.normal(scale=scale, size=(2, len(counts)))
    with np.errstate(divide="ignore", invalid="ignore"):
        means = (sums + reach * noises[0]) / (totals + noises[1])
    return np.asarray(100 * np.abs(means - data.mean) / data.mean)


def mode_failures(
    data: Column, mechanism: str, budget: tuple[float, float], counts: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.bool_]:
    """True where a repeat chooses a wrong mode, among all whole numbers within the bounds."""
    low, high = (int(end) for end in data.bounds)
    positions = (data.values - low).astype(int)
    truth = positions[int(np.argmax(data.counts))]
    noisy = np.zeros((len(counts), high - low + 1))
    noisy[:, positions] = counts
    noisy += _selection_noise(mechanism, budget, noisy.shape, generator)
    return np.asarray(np.argmax(noisy, axis=1) != truth)


def _selection_noise(
    mechanism: str, budget: tuple[float, float], shape: tuple[int, ...], generator: np.random.Generator
) -> Array:
    """Noise under which the largest count is the choice; as published, 2Δ for exponential and Gumbel noise."""
    epsilon, delta = budget
    if mechanism == "noisy max, Laplace":
        return np.asarray(generator.laplace(scale=1 / epsilon, size=shape))
    if mechanism == "noisy max, Gaussian":
        return np.asarray(generator.normal(scale=gaussian_scale(epsilon, delta), size=shape))
    if mechanism == "noisy max, exponential":
        return np.asarray(generator.standard_exponential(size=shape) * (2 / epsilon))
    return np.asarray(generator.gumbel(scale=2 / epsilon, size=shape))


@dataclass(frozen=True)
class RepeatedMean:
    """A mean over repeats with its standard error and a 95 % interval."""

    value: float
    error: float
    low: float
    high: float


def estimate_mean(draws: Array) -> RepeatedMean:
    """Mean and normal interval."""
    finite = np.asarray(draws, dtype=float)
    mean = float(finite.mean())
    error = float(finite.std(ddof=1) / math.sqrt(finite.size))
    return RepeatedMean(mean, error, mean - 1.96 * error, mean + 1.96 * error)


def estimate_share(hits: NDArray[np.bool_]) -> RepeatedMean:
    """Share and Wilson interval."""
    n, share, z = hits.size, float(hits.mean()), 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return RepeatedMean(share, math.sqrt(max(share * (1 - share), 0.25 / n) / n), middle - half, middle + half)


def difference(without: RepeatedMean, with_omission: RepeatedMean) -> tuple[float, float]:
    """u(M) − u(M∘S), positive where omission helps, and its z-score."""
    gap = without.value - with_omission.value
    spread = math.hypot(without.error, with_omission.error)
    return gap, gap / spread if spread > 0 else 0.0


# ---- Settings of the miranda2026 study: budgets, rates and spans, and the row that each of them gives


EPSILONS = (0.25, 0.5, 1.0, 2.0)
_RATES = tuple(round(k / 100, 2) for k in range(1, 100))
FEW_RATES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
CLUSTERING_RATES = (0.01, *(round(k / 20, 2) for k in range(1, 20)), 0.99)
_TENTHS = tuple(round(k / 10, 1) for k in range(1, 10))
SPANS = tuple((m, M) for m in _TENTHS for M in _TENTHS if m <= M)
FEW_SPANS = tuple((m, M) for m, M in SPANS if m in (0.1, 0.3, 0.5) and M - m < 0.35)


def omissions(parameters: Parameters) -> list[Omit]:
    """All settings of a cell; one rate or one m only where the cell names it."""
    quick = bool(parameters["quick"])
    if parameters["omission"] == "sampling":
        rates = (parameters["rate"],) if "rate" in parameters else FEW_RATES if quick else _RATES
        return [Omit(rate=float(rate or 0)) for rate in rates]
    spans = FEW_SPANS if quick else SPANS
    return [Omit(m=m, M=M) for m, M in spans if parameters.get("m", m) == m]


def omitted_share(omit: Omit, mean_distances: Array, counts: NDArray[np.int64]) -> float:
    """The expected share of the records that is left out."""
    return float(1 - counts @ omit.keep(mean_distances) / counts.sum())


def utility_row(
    parameters: Parameters,
    subject: str,
    method: str,
    omit: Omit,
    plain: RepeatedMean,
    other: RepeatedMean | None,
    omitted: float,
) -> Row:
    """The utility without and with omission, and their difference; empty where there is no budget."""
    gap, z = (None, None) if other is None else difference(plain, other)
    return {
        "subject": subject,
        "method": method,
        "epsilon": float(parameters["epsilon"] or 0),
        "noise reduction": bool(parameters["reduced"]),
        "rate": omit.rate,
        "m": omit.m,
        "M": omit.M,
        "omitted": omitted,
        "without": plain.value,
        "with": None if other is None else other.value,
        "low": None if other is None else other.low,
        "high": None if other is None else other.high,
        "difference": gap,
        "label": None if gap is None else f"{gap:.2g}",
        "z": z,
    }
