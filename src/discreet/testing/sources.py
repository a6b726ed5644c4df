"""Conformance of sources: whoever brings an engine can check that it keeps the same rows as every other."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core.rows import Selected, histograms, take, totals
from discreet.core.rows.read import Dataset, canonical_text
from discreet.core.schema import Bounds, Categories, Column, Contribution, PrivacyUnit, PrivateLabels, Schema
from discreet.results.display import Facts, Result
from discreet.testing.mechanisms import require

if TYPE_CHECKING:
    import pyarrow as pa


# ---- Values: texts that readers are known to trip over, and in plain Python what each of them means


HOSTILE_TEXTS: tuple[str | None, ...] = (
    None, "", " ", "\t", "0", "-0", "-0.0", "+0", "00", "1", "+1", "01", "1.", "1.0", "1.00", " 1", "1 ", "\t1\t",
    "1.5", ".5", "5.", "-.5", "+.5e1", "1e0", "1E0", "1e+0", "1e-2", "1e400", "-1e400", "1e-400", "1e", "e1",
    "1e5.0", "--1", "+-1", "1,5", "1.5.0", "1_000", "1 000", "0x10", "1d", "1f", "1L", "inf", "INF", "-inf",
    "+Infinity", "infinite", "nan", "NaN", "NA", "N/A", "null", "None", "true", "True", "TRUE", "tRuE", " true ",
    "false", "FALSE", "fal\u017fe", "yes", "t", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "18446744073709551616", "1" + "0" * 30, "-9223372036854775809", "2.5", "-2.5", "1.23457E+14", "1.5e+00", "#1",
    "#", "'1'", '"1"', '"', '""', "a", "A", "a ", "a,b", "a;b", "a\nb", "a\r\nb", "a\rb", "1\n", "\n1", "\v1",
    "1\f", "\u00a01", "\u0661", "\uff11", "\u2212" "1", "a\0b", "\0", "\u00e9", "e\u0301", "\U0001f600", "\ufeff1",
    "\u200b1", "%", "_", "\\", "\\n", "{}", "(", "a'; DROP TABLE t; --", "2020-01-01", "2020-13-01", "x" * 5000,
    "9" * 5000,
)  # fmt: skip
"""Texts that at least one common reader of files, numbers or labels gets wrong."""

_FLOATS = (
    None, 0.0, -0.0, 1.0, 2.0, 0.5, 1.5, -2.5, 1e30, -1e30, 1e308, 5e-324, float("inf"), float("-inf"), float("nan"),
    2.0**53, 2.0**53 + 2, 123456.0,
)  # fmt: skip
_WHOLE = (None, 0, 1, -1, 2, 2**53 + 1, 2**63 - 1, -(2**63), 123456)
_TRUTHS = (None, True, False)

_NUMBER = Bounds(-2, 10, grid=0.25, nulls=3)
_TEXT = Categories(["1", "a", "true", "1.0", "a,b", "\u00e9", "1.5", "1.5e+00", "a ", '"1"', "NA"], nulls="=NA")
_WHOLES = Categories([0, 1, 2, -1, 9007199254740993, 9223372036854775808, 10**30])
_TRUTH = Categories([False, True], unknown=True)
_USES: dict[str, Column] = {"number": _NUMBER, "text": _TEXT, "whole": _WHOLES, "truth": _TRUTH, "id": PrivateLabels()}


def hostile_columns() -> dict[str, tuple[Any, ...]]:
    """Columns of one kind each, every value of which is hostile; all are as long as the longest."""
    kinds = {"texts": HOSTILE_TEXTS, "floats": _FLOATS, "wholes": _WHOLE, "truths": _TRUTHS}
    return {name: values + (None,) * (len(HOSTILE_TEXTS) - len(values)) for name, values in kinds.items()}


def hostile_fields(columns: Mapping[str, Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """A column for every use that each kind of values can be put to; ``place`` tells the rows apart."""
    fields = {f"{kind}_{use}": values for kind, values in columns.items() for use in _USES}
    return {"place": range(len(next(iter(columns.values())))), **fields}


def check_values(data: Dataset, columns: Mapping[str, Sequence[Any]]) -> None:
    """Check that each of `hostile_fields` has its documented reading on an engine.

    Raises
    ------
    NotConformant
        Where a reading differs, with the value, which is public here.
    """
    declared = {f"{kind}_{use}": column for kind in columns for use, column in _USES.items()}
    rows = len(next(iter(columns.values())))
    snapshot = take(data, Schema(columns={"place": Bounds(0, rows, grid=1), **declared}))
    for row in data.fetch(snapshot.table).to_pylist():
        for kind, values in columns.items():
            value = values[row[snapshot.names["place"]]]
            for use, expected in documented_readings(value).items():
                found = row[snapshot.names[f"{kind}_{use}"]]
                if (str(found) if use == "id" and found is not None else found) != expected:
                    raise AssertionError(
                        f"{data.engine}: reads {value!r} of {kind} as {use} {found!r}, not {expected!r}"
                    )


def documented_readings(value: Any) -> dict[str, Any]:
    """The meaning of a value under each use: a grid step, a label's code, or an id; None where its row is dropped."""
    text = canonical_text(value) or None
    lost = text is not None and re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]\d+", text, re.ASCII) is not None
    whole = _whole(text)
    return {
        "number": _step(text),
        "text": _code(_TEXT, text, None if lost else text),
        "whole": _code(_WHOLES, text, whole),
        "truth": _code(_TRUTH, text, bool(whole) if whole in (0, 1) else None),
        "id": None if lost else text,
    }


def _step(text: str | None) -> int | None:
    plain = (text or "").strip(" \t")
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:[+-]?inf(inity)?)", plain, re.ASCII):
        return _NUMBER.index(float(plain))
    word = {"true": 1.0, "false": 0.0}.get(plain.lower()) if plain.isascii() else None
    return _NUMBER.null_index() if word is None else _NUMBER.index(word)


def _whole(text: str | None) -> int | None:
    plain = (text or "").strip(" \t")
    if re.fullmatch(r"[+-]?\d{1,4000}(\.0*)?", plain, re.ASCII):
        return int(plain.split(".")[0])
    return {"true": 1, "false": 0}.get(plain.lower()) if plain.isascii() else None


def _code(declared: Categories, text: str | None, label: Any) -> int | None:
    if text is None:
        return declared.replacement("nulls")
    return declared.labels.index(label) if label in declared.labels else declared.replacement("unknown")


Row = tuple[Any, ...]

_ARMS = ("A", "B")
_REGIONS = ("north", "south", "east", "west", 'it\'s "x"; DROP')
_SPEND = 'sp"end; DROP TABLE source --'
_COLUMNS: dict[str, Column] = {
    "arm": Categories(_ARMS),
    "region": Categories(_REGIONS),
    _SPEND: Bounds(-2, 10, grid=0.25),
    "visits": Bounds(0, 7, grid=1, nulls=3),
}
_LIMITS = (Contribution(groups=2, rows=2), Contribution(rows=1), Contribution(total=3), Contribution(groups=3, rows=9))


@dataclass(frozen=True)
class SourceReport(Result):
    """The checks that a source passed.

    Attributes
    ----------
    engine
        Name of the engine.
    rows, units
        Size of the data.
    limits
        Contribution limits under which all cells agreed.
    """

    engine: str
    rows: int
    units: int
    limits: tuple[Contribution, ...]

    def heading(self) -> str:
        return f"{self.engine} agrees with the reference"

    def facts(self) -> Facts:
        size = f"{self.rows:,} of {self.units:,} units"
        return [("rows", size), *(("limits", str(limit.to_dict())) for limit in self.limits)]

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "limits": [limit.to_dict() for limit in self.limits]}


def check_source(make: Callable[[pa.Table], Dataset], *, quick: bool = False) -> SourceReport:
    """Check that an engine encodes, bounds and adds up rows exactly as documented.

    Parameters
    ----------
    make
        Puts a pyarrow table on the engine and opens it, for example ``open_source`` itself.
    quick
        Check two kinds of limits instead of all.

    Raises
    ------
    NotConformant
        Where a value is not read as documented; where a cell differs from the reference, which is plain Python over
        ``hashlib``; where a unit keeps more or less than min(k, groups); or where a removed unit changes what others
        keep.

    Examples
    --------
    >>> from discreet.core.rows.source import open_source
    >>> check_source(open_source, quick=True).engine
    'duckdb'
    """
    table = _rows()
    data = make(table)
    limits = _LIMITS[:2] if quick else _LIMITS
    for one in limits:
        _check_cells(data, table, one)
    for one in limits[:1] if quick else limits:
        _check_histogram(data, table, one)
    _check_bands(data, table)
    _check_removal(make, data, table)
    _check_readings(make)
    users = {user for user in table["user"].to_pylist() if user is not None}
    return SourceReport(data.engine, table.num_rows, len(users), limits)


def _check_readings(make: Callable[[pa.Table], Dataset]) -> None:
    """Every hostile value; a file of text holds of typed ones what its writer wrote, so only its texts are checked."""
    import pyarrow as pa

    columns = hostile_columns()
    data = make(pa.table({name: pa.array(values) for name, values in hostile_fields(columns).items()}))
    types = data.types()
    typed = {kind: values for kind, values in columns.items() if kind == "texts" or types[f"{kind}_id"] != "string"}
    check_values(data, typed)


def _rows(rows: int = 600, units: int = 60) -> pa.Table:
    """Ordinary rows, and every awkward value that a column may hold."""
    import pyarrow as pa

    rng = np.random.default_rng(5)
    user: list[Any] = rng.integers(0, units, rows).tolist()
    arm: list[Any] = rng.choice(_ARMS, rows).tolist()
    region: list[Any] = rng.choice(_REGIONS, rows, p=[0.5, 0.2, 0.1, 0.1, 0.1]).tolist()
    spend: list[Any] = np.round(rng.normal(3, 4, rows), 2).tolist()
    visits: list[Any] = rng.integers(-1, 9, rows).tolist()
    user[0] = None
    arm[1] = None
    region[2] = "elsewhere"
    spend[3] = float("nan")
    visits[7] = None
    spend[4:7] = [float("inf"), float("-inf"), 1e308]
    return pa.table({"user": user, "arm": arm, "region": region, _SPEND: spend, "visits": visits})


def _schema(limits: Contribution) -> Schema:
    return Schema(columns=_COLUMNS, unit=PrivacyUnit("user", contribution=limits))


def _encoded(table: pa.Table, by: Sequence[str], columns: Sequence[str]) -> Iterable[Row]:
    """Unit, cell and the codes and grid steps of all columns, for the rows that take part."""
    schema = _schema(_LIMITS[0])
    for row in table.to_pylist():
        values = {name: _sources_code(schema.columns[name], row[name]) for name in schema.columns}
        cell = 0
        for name in by:
            cell = cell * schema.categories(name).cells + (values[name] or 0)
        if row["user"] is not None and None not in [values[name] for name in (*by, *columns)]:
            yield (row["user"], cell, *values.values())


def _sources_code(declared: Column, value: Any) -> int | None:
    if isinstance(declared, Bounds):
        return declared.null_index() if value is None or value != value else declared.index(value)
    labels = list(declared.labels) if isinstance(declared, Categories) else []
    return labels.index(value) if value in labels else None


def _digest(*parts: Any) -> str:
    return hashlib.sha256("|".join(str(part) for part in parts).encode()).hexdigest()


def _evenly(ordered: Sequence[Any], limit: int, start: int) -> list[Any]:
    """``limit`` of N at even distances from a start."""
    count = len(ordered)
    kept = [one for place, one in enumerate(ordered) if (place + start) % count * limit % count < limit]
    return list(ordered) if count <= limit else kept


def documented_choice(rows: Iterable[Row], limits: Contribution, salt: str) -> list[Row]:
    """The rows (unit, cell, codes and steps …) that units keep, in plain Python: the reference for every engine."""
    by_unit: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        by_unit[row[0]].append(row[1:])
    kept: list[Row] = []
    for unit, own in by_unit.items():
        start = int(_digest(salt[:32], "k", unit)[:12], 16)
        reached = sorted({row[0] for row in own})
        if limits.groups is not None and len(reached) > limits.groups:
            cells = _evenly(reached, limits.groups, start)
            own = [row for row in own if row[0] in cells]
            start //= len(reached)
        scopes: dict[tuple[int, ...], list[Row]] = defaultdict(list)
        for row in sorted(own, key=lambda row: [(value is None, value or 0) for value in row[1:]]):
            scopes[() if limits.rows is None else (row[0],)].append(row)
        for ordered in scopes.values():
            kept += [(unit, *row) for row in _evenly(ordered, limits.most_rows_in_a_group(), start)]
    return kept


def _check_cells(data: Dataset, table: pa.Table, limits: Contribution) -> None:
    by, columns = ("arm", "region"), (_SPEND, "visits")
    snapshot = take(data, _schema(limits), salt="s1")
    products = [(_SPEND,), ("visits",), (_SPEND, "visits"), (_SPEND, _SPEND)]
    added = totals(snapshot, Selected(by=by, columns=columns), products)
    found = np.array([added.counts, *(added.sums[product] for product in products)])
    rows = list(_encoded(table, by, columns))
    expected = np.zeros((5, len(_ARMS) * len(_REGIONS)), dtype=int)
    for _, cell, _, _, spend, visits in documented_choice(rows, limits, "s1"):
        expected[:, cell] += [1, spend, visits, spend * visits, spend * spend]
    require((found == expected).all(), f"{data.engine}: cells differ from the documented choice under {limits}")
    if limits.groups is not None:
        once = Contribution(groups=limits.groups, rows=1)
        kept = totals(snapshot, Selected(by=by, contribution=once)).counts.sum()
        cells: dict[int, set[int]] = defaultdict(set)
        for user, cell, *_ in _encoded(table, by, ()):
            cells[user].add(cell)
        least = sum(min(limits.groups, len(own)) for own in cells.values())
        require(kept == least, f"{data.engine}: units keep {kept} groups in all, not {least}")


def _check_histogram(data: Dataset, table: pa.Table, limits: Contribution) -> None:
    found = histograms(take(data, _schema(limits), salt="s2"), Selected(by=("arm",), columns=(_SPEND,)))
    expected: list[Counter[int]] = [Counter() for _ in _ARMS]
    for row in documented_choice(_encoded(table, ("arm",), (_SPEND,)), limits, "s2"):
        expected[row[1]][row[4]] += 1
    for (steps, counts), counted in zip(found, expected, strict=True):
        same = dict(zip(steps.tolist(), counts.tolist(), strict=True)) == dict(counted)
        require(same, f"{data.engine}: a histogram differs from the documented choice under {limits}")


def _check_bands(data: Dataset, table: pa.Table) -> None:
    """A band is how many of some grid steps a value reaches; no limit applies, so every row counts."""
    steps = (-3, 0, 11)
    snapshot = take(data, _schema(Contribution(total=table.num_rows)), salt="s4").banded({_SPEND: steps})
    expected = np.zeros((len(_ARMS), len(steps) + 1), dtype=int)
    for row in _encoded(table, ("arm",), (_SPEND,)):
        expected[row[1], sum(row[4] >= step for step in steps)] += 1
    found = totals(snapshot, Selected(by=("arm", _SPEND))).counts
    require((found == expected.ravel()).all(), f"{data.engine}: bands of a number differ from the reference")


def _check_removal(make: Callable[[pa.Table], Dataset], data: Dataset, table: pa.Table) -> None:
    def counts(on: Dataset) -> Any:
        return totals(take(on, _schema(_LIMITS[0]), salt="s3"), Selected(by=("arm", "region"))).counts

    users = table["user"].to_pylist()
    without = table.filter([user != 7 for user in users])
    alone = table.filter([user == 7 for user in users])
    gap = counts(data) - counts(make(without)) - counts(make(alone))
    require(not gap.any(), f"{data.engine}: a removed unit changes what others keep")
