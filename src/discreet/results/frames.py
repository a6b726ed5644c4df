"""Tidy: every result as rows, one per number, ready for any frame, file or chart."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any

from discreet.core.errors import MissingExtra
from discreet.results.display import Interval, Result

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = [
    "COLUMNS", "NUMBERS", "Row", "Tidy", "aligned", "as_arrow", "column_kinds", "release_rows", "tidy_rows", "CAUTION",
    "UNRELIABLE", "Reading", "by_measure", "interval_frame", "reliability",
]  # fmt: skip


Row = dict[str, Any]
NUMBERS = ("estimate", "standard_error", "noise_low", "noise_high", "population_low", "population_high", "pvalue")
"""Columns of numbers; a row leaves empty what is not known."""
COLUMNS = ("measure", *NUMBERS, "unit", "guarantee")
"""Columns that every row has, after those of its labels. The unit is the privacy unit that the guarantee protects."""
_TAKEN = ("release", *COLUMNS)


class Tidy(Result):
    """A result that leaves the library as people use it: as a frame of tidy rows, and as a plot."""

    @abstractmethod
    def rows(self) -> list[Row]:
        """One row per number: a column per label, then what is measured, its estimate and its intervals."""

    @abstractmethod
    def plot(self) -> Any:
        """Altair chart of the numbers."""

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return as_arrow(self.rows())

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame."""
        rows = self.rows()
        kinds = column_kinds(rows)
        columns = {name: _column(rows, name, kind) for name, kind in kinds.items()}
        types = {name: _pandas_kind(kind, columns[name]) for name, kind in kinds.items()}
        frame: pd.DataFrame = _package("pandas").DataFrame(columns).astype(types)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars frame."""
        frame: pl.DataFrame = _package("polars").from_arrow(self.to_arrow())
        return frame

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for whatever reads Arrow streams: ``polars.DataFrame(result)``, DuckDB, ibis."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def tidy_rows(
    readings: Iterable[Mapping[str, Any]],
    *,
    unit: str | None,
    guarantee: str | None,
    test: Mapping[str, Any] | None = None,
) -> list[Row]:
    """Readings, as plain data, as rows that all have the same columns.

    Parameters
    ----------
    readings
        What `Reading.to_dict` returns.
    unit, guarantee
        Who is protected, and the guarantee in symbols.
    test
        The test that was made of the release, if any; its statistic and p-value are two more rows.

    Examples
    --------
    >>> reading = {"labels": {"region": "north"}, "measure": "count", "estimate": 12.0, "standard_error": 1.5}
    >>> row, = tidy_rows([reading | {"noise": {"low": 9.0, "high": 15.0}, "population": None}], unit="row",
    ...                  guarantee="ε = 1")
    >>> row["region"], row["estimate"], row["noise_high"], row["population_low"]
    ('north', 12.0, 15.0, None)
    """
    common = {"unit": unit, "guarantee": guarantee}
    rows = [_row(reading) | common for reading in readings]
    alone = len(rows) > 0 and [row["measure"] for row in rows].count(rows[0]["measure"]) == 1
    of = {name: label for name, label in rows[0].items() if name not in COLUMNS} if alone else {}
    for name, key in (("test statistic", "statistic"), ("p-value", "pvalue")):
        if test is not None and test.get(key) is not None:
            rows.append(of | {"measure": name, "estimate": _number(test[key])} | common)
    return aligned(rows)


def release_rows(release: Mapping[str, Any]) -> list[Row]:
    """The rows of a release in the facts of a report, under its name."""
    guarantee = release["guarantee"]
    rows = tidy_rows(
        release["readings"],
        unit=release["unit"],
        guarantee=None if guarantee is None else guarantee["symbols"],
        test=release["test"],
    )
    return [{"release": release["name"], **row} for row in rows]


def aligned(rows: Sequence[Row], last: Sequence[str] = COLUMNS) -> list[Row]:
    """The same rows with the same columns in the same order: others first, then the ``last`` ones; missing is None."""
    first = dict.fromkeys(name for row in rows for name in row if name not in last)
    return [{name: row.get(name) for name in (*first, *last)} for row in rows]


def _row(reading: Mapping[str, Any]) -> Row:
    noise, population = reading["noise"] or {}, reading["population"] or {}
    return {_free(name): label for name, label in reading["labels"].items()} | {
        "measure": reading["measure"],
        "estimate": _number(reading["estimate"]),
        "standard_error": _number(reading["standard_error"]),
        "noise_low": _number(noise.get("low")),
        "noise_high": _number(noise.get("high")),
        "population_low": _number(population.get("low")),
        "population_high": _number(population.get("high")),
        "pvalue": _number(reading.get("pvalue")),
    }


def _free(name: str) -> str:
    """A name for a column of labels that is not one of ours."""
    return f"{name}_label" if name in _TAKEN else name


def _number(value: Any) -> float | None:
    """A finite number, else None: labels that were chosen stand among the labels, unbounded ends are open."""
    return None if value is None or isinstance(value, str) or not math.isfinite(value) else float(value)


def as_arrow(rows: Sequence[Row]) -> pa.Table:
    """Rows as an Arrow table."""
    arrow = _package("pyarrow")
    types = {bool: arrow.bool_(), int: arrow.int64(), float: arrow.float64(), str: arrow.string()}
    kinds = column_kinds(rows)
    return arrow.table({name: arrow.array(_column(rows, name, kind), types[kind]) for name, kind in kinds.items()})


def column_kinds(rows: Sequence[Row]) -> dict[str, type[Any]]:
    """The kind of each column: bool, int, float or str; text where its values differ in kind."""
    return {name: _kind(name, [row[name] for row in rows]) for name in (rows[0] if rows else COLUMNS)}


def _kind(name: str, values: Sequence[Any]) -> type[Any]:
    if name in NUMBERS:
        return float
    kinds = {type(value) for value in values if value is not None}
    return kinds.pop() if len(kinds) == 1 and kinds <= {bool, int, float, str} else str


def _column(rows: Sequence[Row], name: str, kind: type[Any]) -> list[Any]:
    return [None if row[name] is None else kind(row[name]) for row in rows]


def _pandas_kind(kind: type[Any], values: Sequence[Any]) -> str:
    """The pandas type of a column; whole numbers and booleans with gaps need one that has gaps."""
    whole, flag = ("Int64", "boolean") if None in values else ("int64", "bool")
    return {float: "float64", int: whole, bool: flag}.get(kind, "object")


def interval_frame(intervals: Mapping[str, Interval]) -> pd.DataFrame:
    """Intervals as a frame with ``low`` and ``high``, one row per term, as statsmodels has them."""
    pandas = _package("pandas")
    ends = {end: [float(getattr(one, end)) for one in intervals.values()] for end in ("low", "high")}
    frame: pd.DataFrame = pandas.DataFrame(ends, index=pandas.Index([*intervals], name="term"))
    return frame


def _package(name: str) -> Any:
    """A library for frames, which discreet itself does not need."""
    try:
        return import_module(name)
    except ImportError as missing:
        raise MissingExtra(missing.name or name, "frames") from None


# ---- Readings: the numbers of an answer, each with its intervals.


CAUTION, UNRELIABLE = 0.165, 0.333
"""Standard error over estimate from which a number is flagged, as statistical offices have it (Statistics Canada)."""
_SIGNED = ("covariance", "correlation", "coefficient", "difference of means", "centre")
"""Measures of which zero is a value like any other: a relative error says nothing of them."""
_NORMAL = 1.96  # a 95 % interval reaches so many standard errors


@dataclass(frozen=True)
class Reading:
    """One number with its 95 % intervals.

    Attributes
    ----------
    label
        Of what, for people: group, cell or quantile; empty for a single number.
    estimate
        The number, or the label where a label was chosen.
    noise
        Interval for the number in the data: privacy noise alone.
    population
        Interval for the number in the population: noise and sampling; None where it is not known.
    labels
        Of what, for machines: columns with their labels.
    measure
        What the number is: a count, a mean, a standard deviation, …
    standard_error
        Of the noise alone; where only a population interval is known, and under a design, of noise and sampling. None
        where it is not known.
    pvalue
        Of the hypothesis that the number is 0 in the population; None where it was not tested.
    """

    label: str
    estimate: float | str
    noise: Interval | None = None
    population: Interval | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)
    measure: str = "value"
    standard_error: float | None = None
    pvalue: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The reading as JSON-ready data."""
        return {
            "label": self.label,
            "labels": dict(self.labels),
            "measure": self.measure,
            "estimate": self.estimate,
            "noise": None if self.noise is None else self.noise.to_dict(),
            "population": None if self.population is None else self.population.to_dict(),
            "standard_error": self.standard_error,
            "pvalue": self.pvalue,
        }


def by_measure(readings: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Readings, as plain data, under what they measure: numbers of one kind share a table and an axis."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for reading in readings:
        found.setdefault(reading["measure"], []).append(reading)
    return found


def reliability(reading: Mapping[str, Any]) -> str:
    """Nothing, "caution" or "unreliable", by the standard error over the number: a rule of published numbers.

    Only numbers that cannot be negative are judged.

    Examples
    --------
    >>> told = {"measure": "count", "estimate": 30.0, "standard_error": 6.0, "noise": None, "population": None}
    >>> reliability(told), reliability({**told, "estimate": 300.0}), reliability({**told, "estimate": 3.0})
    ('caution', '', 'unreliable')
    """
    estimate, error, known = reading["estimate"], reading["standard_error"], reading["noise"] or reading["population"]
    if isinstance(estimate, str) or reading["measure"] in _SIGNED or (known is not None and known["low"] < 0):
        return ""
    if error is None and known is not None:
        error = (known["high"] - known["low"]) / 2 / _NORMAL
    if not error or (known is not None and known["low"] == known["high"]):
        return ""
    variation = error / abs(estimate) if estimate else inf
    return "unreliable" if variation > UNRELIABLE else "caution" if variation > CAUTION else ""
