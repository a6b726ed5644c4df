"""Data of the miranda2026 study: files in a folder the user gives, or generated stand-ins of the same shape."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter

__all__ = ["COLUMNS", "Column", "adult_table", "column", "four_groups"]

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
