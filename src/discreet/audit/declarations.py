"""Declarations: what is refused, what is accepted, and the small facts that follow.

Guards are where a slip is easiest: a limit that is one off, an `and` for an `or`. Each rule meets the last value
that it allows and the first that it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from discreet.audit.recomputed import Compared, Recomputed, recomputed, refused
from discreet.core import requirements
from discreet.core.grid import Grid
from discreet.core.protection import Fact, Neighbours, Protection, Unit
from discreet.core.rows import Selected, take, totals
from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema
from discreet.mechanisms.bounded.domain import Domain
from discreet.mechanisms.tables.clipping import checked_box
from discreet.mechanisms.tables.post_processed import exact_total
from discreet.opening import open_source
from discreet.questions.margins import Margins
from discreet.questions.naive_bayes import _squares
from discreet.questions.pooled import PooledVariance
from discreet.questions.table_axes import Bins
from discreet.questions.table_axes import Categories as Axis

__all__ = ["audit_declarations"]

REPLACED = Neighbours.REPLACE_ONE
# Everything is called with arguments that its types forbid.
_Bounds: Any = Bounds
_Categories: Any = Categories
_Contribution: Any = Contribution
_PrivacyUnit: Any = PrivacyUnit
_Schema: Any = Schema
_Unit: Any = Unit


def audit_declarations() -> Recomputed:
    """Hold every rule against the last value that it allows and the first that it refuses.

    Examples
    --------
    >>> audit_declarations().passed
    True
    """
    parts: tuple[Callable[[], Iterator[Compared]], ...] = (
        _numbers,
        _columns,
        _units,
        _limits,
        _steps,
        _axes,
        _statistics,
        _exactness,
        _sources,
        _gaps,
    )
    return recomputed("Declarations", parts)


def _accepted(call: Callable[[], Any]) -> bool:
    call()
    return True


def _both(rule: str, yes: tuple[Callable[[], Any], ...], no: tuple[Callable[[], Any], ...]) -> Iterator[Compared]:
    for call in yes:
        yield f"{rule} refuses {call}", _accepted(call)
    for call in no:
        yield f"{rule} accepts {call}", refused(call)


def _numbers() -> Iterator[Compared]:
    """Requirements on parameters."""
    rules: dict[Callable[..., Any], tuple[tuple[Any, ...], tuple[Any, ...]]] = {
        requirements.finite: ((0, -1.5, Fraction(1, 3)), (math.nan, math.inf, "1", None, True, 10**400)),
        requirements.positive: ((1e-300, 1), (0, -1, math.nan, math.inf)),
        requirements.non_negative: ((0, 1e-300), (-1e-300, math.nan, math.inf)),
        requirements.probability: ((0, 0.5, math.nextafter(1, 0)), (1, -1e-9, 1.1, math.nan)),
        requirements.positive_integer: ((1, 2**53), (0, -1, 1.0, True, 2**53 + 1)),
        requirements.rational: ((1, 0.5, Fraction(1, 3)), (True, math.nan, math.inf, "1")),
        requirements.ordered_bounds: (
            ((0, 1), (0, math.inf), (-math.inf, 0)),
            ((1, 1), (1, 0), (0,), "01", (math.nan, 1), (-math.inf, math.inf), (0, 1, 2)),
        ),
    }
    for rule, (yes, no) in rules.items():
        yield from _both(rule.__name__, *(tuple(partial(rule, "x", one) for one in some) for some in (yes, no)))
    yield from _both(
        "level",
        (partial(requirements.level, 0.5),),
        tuple(partial(requirements.level, one) for one in (0, 1, 1.1, math.nan)),
    )
    yield (
        "one of",
        requirements.one_of("x", "a", ("a", "b")) == "a" and refused(lambda: requirements.one_of("x", "c", ("a",))),
    )
    yield (
        "closed probability",
        requirements.probability("x", 1, below_one=False) == 1
        and refused(lambda: requirements.probability("x", 1.1, below_one=False)),
    )
    yield (
        "at least",
        requirements.positive_integer("x", 3, at_least=3) == 3
        and refused(lambda: requirements.positive_integer("x", 2, at_least=3)),
    )
    yield (
        "exact",
        requirements.rational("x", 0.1) == Fraction(0.1)
        and requirements.rational("x", Fraction(1, 3)) == Fraction(1, 3),
    )


def _columns() -> Iterator[Compared]:
    """A grid that nobody names makes a thousand steps or more; then what columns accept."""
    for low, high, grid in ((0, 100, 0.1), (0, 1, 0.001), (0, 2.5, 0.001), (0, 10**6, 1000.0), (-3, 7, 0.01)):
        yield f"the grid of {low}…{high}", Bounds(low, high).grid == grid
    yield from _both(
        "a column of numbers",
        (
            partial(_Bounds, 0, 1, grid=1),
            partial(_Bounds, -5, 99.99, grid=0.01, nulls=0),
            partial(_Bounds, 0, 1, grid=0.1, nulls=1),
        ),
        tuple(
            partial(_Bounds, *ends, **options)
            for ends, options in (
                ((1, 0), {"grid": 1}),
                ((0, 0), {"grid": 1}),
                ((0, math.inf), {"grid": 1}),
                ((math.nan, 1), {"grid": 1}),
                ((0, 1), {"grid": 0}),
                ((0, 1), {"grid": 0.3}),
                ((0, 1e308), {"grid": 1}),
                ((0, 1), {"grid": 0.1, "nulls": "ignore"}),
                ((0, 1), {"grid": 0.1, "nulls": 2}),
                ((0, 1), {"grid": 0.1, "nulls": -0.1}),
                (("0", 1), {"grid": 1}),
                ((0.5, 2), {"grid": 1}),
            )
        ),
    )
    yield from _both(
        "a column of labels",
        (
            partial(_Categories, ["a"]),
            partial(_Categories, [True, False], nulls="refuse"),
            partial(_Categories, [1, 2], nulls=2),
            partial(_Categories, ["a", "b"], unknown="=b"),
        ),
        tuple(
            partial(_Categories, *labels, **options)
            for labels, options in (
                (("ab",), {}),
                (([],), {}),
                ((["a", "a"],), {}),
                ((["a", 1],), {}),
                (([0.5, 1.5],), {}),
                ((["a"],), {"unknown": "=b"}),
                ((["a"],), {"nulls": "a"}),
                (([True, 1],), {}),
                ((3,), {}),
            )
        ),
    )


def _units() -> Iterator[Compared]:
    """Who is protected."""
    one = _Contribution(rows=1)
    yield from _both(
        "a unit",
        (partial(_Unit), partial(_Unit, "person")),
        (partial(_Unit, ""), partial(_Unit, "  "), partial(_Unit, 3)),
    )
    yield from _both(
        "a privacy unit",
        (partial(_PrivacyUnit, "u", one), partial(_PrivacyUnit, "u", nulls="refuse"), PrivacyUnit),
        (
            partial(_PrivacyUnit, ""),
            partial(_PrivacyUnit, contribution=one),
            partial(_PrivacyUnit, "u", nulls="keep"),
            partial(_PrivacyUnit, 3),
        ),
    )
    x = {"x": _Bounds(0, 1, grid=1)}
    yield from _both(
        "a schema",
        (
            partial(_Schema, columns=x),
            partial(_Schema, columns=x, neighbours=REPLACED, size=5),
            partial(_Schema, columns={}, unit=_PrivacyUnit("u", one)),
        ),
        (
            partial(_Schema, columns={"x": "number"}),
            partial(_Schema, columns={"u": _Categories(["a"])}, unit=_PrivacyUnit("u")),
            partial(_Schema, columns=x, size=5),
            partial(_Schema, columns=x, neighbours=REPLACED),
            partial(_Schema, columns=x, neighbours=REPLACED, size=0),
            partial(_Schema(columns={}).column, "x"),
            partial(_Schema(columns=x).categories, "x"),
            partial(_Schema(columns={"a": _Categories(["a"])}).bounds, "a"),
            partial(_Schema(columns={}).contribution, one),
            partial(_Schema(columns={}, unit=_PrivacyUnit("u")).contribution),
        ),
    )
    yield "what is public", Protection(neighbours=REPLACED).public == (Fact.SIZE,) and Protection().public == ()
    yield "a size under add and remove", refused(lambda: Protection(public=[Fact.SIZE]))
    yield (
        "read back",
        Protection.from_dict(Protection(_Unit("row"), REPLACED, [Fact.ARM]).to_dict())
        == Protection(_Unit("row"), REPLACED, [Fact.ARM]),
    )


def _limits() -> Iterator[Compared]:
    yield from _both(
        "limits",
        (partial(_Contribution, rows=1), partial(_Contribution, groups=1, rows=1), partial(_Contribution, total=1)),
        (
            Contribution,
            partial(_Contribution, rows=0),
            partial(_Contribution, rows=True),
            partial(_Contribution, rows=1, total=1),
            partial(_Contribution, groups=1, total=1),
            partial(_Contribution, groups=1),
            partial(_Contribution, groups=0, rows=1),
            partial(_Contribution, total=0),
        ),
    )
    for limits, wanted in (
        (_Contribution(groups=2, rows=3), (2, 6, 3)),
        (_Contribution(rows=3), (12, 36, 3)),
        (_Contribution(total=5), (5, 5, 5)),
        (_Contribution(groups=50, rows=1), (12, 12, 1)),
        (_Contribution(total=50), (12, 50, 50)),
    ):
        yield (
            f"limits {limits}",
            (limits.most_groups(12), limits.most_rows(12), limits.most_rows_in_a_group()) == wanted,
        )


def _steps() -> Iterator[Compared]:
    """Steps of a grid: clipped, then rounded with halves up."""
    for low, high, grid in ((0, 10, 1), (-3, -1, 0.5), (-0.3, 0.6, 0.1), (-5, 99.99, 0.01)):
        bounds = _Bounds(low, high, grid=grid)
        step = Fraction(repr(grid)) if isinstance(grid, float) else Fraction(grid)
        yield (
            "ends in steps",
            (bounds.lowest * step, bounds.highest * step) == (Fraction(repr(low)), Fraction(repr(high))),
        )
        for value in (
            low - 1.0,
            float(low),
            low + grid / 4,
            low + 0.75 * grid,
            (low + high) / 2,
            float(high),
            high + 7.0,
        ):
            exact = min(max(Fraction(value), Fraction(low)), Fraction(high))
            near = exact / step
            yield "a step", abs(bounds.index(value) - near) <= Fraction(1, 2) + Fraction(1, 10**6)
            yield "a step within bounds", bounds.lowest <= bounds.index(value) <= bounds.highest


def _axes() -> Iterator[Compared]:
    """Bins and labels of a table."""
    yield from _both(
        "bins",
        (partial(Bins, (0, 1)), partial(Bins, (0, 1, 2))),
        (
            partial(Bins, (0,)),
            partial(Bins, (0, 0)),
            partial(Bins, (1, 0)),
            partial(Bins, (0, math.nan)),
            partial(Bins, ()),
        ),
    )
    bins = Bins((0, 1, 2))
    yield "bins", len(bins) == 2 and bins.codes(np.array([0.0, 0.5, 1.0, 1.5])).tolist() == [0, 0, 1, 1]
    yield "labels", Axis(("a", "b")).codes(np.array(["b", "a", "z"], dtype=object)).tolist() == [1, 0, -1]


def _statistics() -> Iterator[Compared]:
    """Public descriptions of statistics that cannot be."""
    pooled: Any = partial(PooledVariance, bounds=(0, 1), cells=(0, 1))
    margins: Any = partial(Margins, columns={"a": [0, 1], "b": [0, 1]}, tables=[["a"]])
    yield from _both(
        "a statistic",
        (
            pooled,
            partial(pooled, sizes=(2, 3), moving=False),
            partial(pooled, sizes=(2, 3), moving=False, n=5),
            partial(margins, impossible=[{"a": 0, "b": [0, 1]}]),
            partial(checked_box, [[0, 1], [None, 2]], True),
            partial(checked_box, (0, 1.5), False),
        ),
        (
            partial(pooled, sizes=(2, 3)),
            partial(pooled, sizes=(2,), moving=False),
            partial(pooled, sizes=(1, 3), moving=False),
            partial(pooled, sizes=(2, 3), moving=False, n=6),
            partial(pooled, n=2),
            partial(margins, impossible=[{}]),
            partial(margins, impossible=[{"z": 0}]),
            partial(margins, impossible=[{"a": 7}]),
            partial(Margins, columns={"a": [0, 1]}, tables=[]),
            partial(Margins, columns={"a": [0, 1]}, tables=[["a"], ["a"]]),
            partial(checked_box, [], True),
            partial(checked_box, [[0, 1, 2]], True),
            partial(checked_box, [[0, 1], 3], True),
            partial(checked_box, (0, 1.5), True),
            partial(checked_box, (2, 1), False),
        ),
    )


def _exactness() -> Iterator[Compared]:
    """Clamping, totals and squares of numbers that floats cannot hold."""
    domain = Domain.of((0.0, 1.0))
    third = np.array([Fraction(1, 3), Fraction(4, 3), Fraction(-1, 3)], dtype=object)
    yield "fractions are clamped exactly", list(domain.clamp(third)) == [Fraction(1, 3), 1, 0]
    yield "floats are clamped", np.asarray(domain.clamp(np.array([0.25, 2.0, -1.0]))).tolist() == [0.25, 1.0, 0.0]
    yield (
        "whole numbers are clamped",
        np.asarray(domain.clamp(np.array([0, 2, -1])), dtype=float).tolist() == [0.0, 1.0, 0.0],
    )
    large = 2**62
    yield "a total beyond words", exact_total(np.array([large, large, large, large])) == float(4 * large)
    yield "a total of fractions", exact_total(np.array([Fraction(1, 3)] * 3, dtype=object)) == 1.0
    yield (
        "totals",
        exact_total(np.array([1, 2, 3])) == 6.0
        and exact_total(np.array([0.5, 0.25])) == 0.75
        and exact_total(np.zeros(0, dtype=int)) == 0,
    )
    grid = Grid(bounds=(-1.0, 3.0))
    values = [-1.0, 0.5, 3.0]
    squares, reach = _squares([grid.offsets("x", values)], np.array([0.25]), grid)
    wanted = sum((Fraction(x) - Fraction(1, 4)) ** 2 for x in values) / Fraction(11, 4) ** 2
    yield "squares around a mean", squares[0] == wanted and float(reach[0]) == 2.75**2


def _sources() -> Iterator[Compared]:
    """Files that are missing, of another kind or of other columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(pa.table({"x": [1.0, 2.0]}), folder / "one.parquet")
        pq.write_table(pa.table({"x": [3.0]}), folder / "two.parquet")
        (folder / "bad.parquet").write_bytes(b"PAR1 nothing")
        (folder / "rows.txt").write_text("x\n1\n")
        schema = _Schema(columns={"x": _Bounds(0, 10, grid=1)})
        yield (
            "two files",
            totals(take(open_source(f"{folder}/[ot]*.parquet"), schema), Selected(columns=("x",))).counts.tolist()
            == [3],
        )
        for path in ("none.parquet", "none.csv", "bad.parquet", "rows.txt", "no*.parquet"):
            yield f"a source of {path}", refused(partial(open_source, str(folder / path)))
        pq.write_table(pa.table({"y": [3.0]}), folder / "three.parquet")
        yield "files of other columns", refused(partial(open_source, f"{folder}/[ot]*.parquet"))
        yield "a folder that is no file", refused(partial(open_source, str(folder)))


def _gaps() -> Iterator[Compared]:
    """Gaps in ids and numbers, by policy."""
    import pyarrow as pa

    rows = pa.table({"u": ["a", None, "b"], "x": [1.0, 2.0, None]})
    for nulls, wanted in (("drop", 2), ("refuse", None)):
        schema = _Schema(columns={}, unit=_PrivacyUnit("u", _Contribution(rows=1), nulls=nulls))
        call = partial(_counted, rows, schema)
        yield f"an id that is missing, {nulls}", refused(call) if wanted is None else call() == wanted
    for policy, wanted in (("drop", 2), (5, 3), ("refuse", None)):
        schema = _Schema(columns={"x": _Bounds(0, 10, grid=1, nulls=policy)})
        call = partial(_counted, rows, schema, ("x",))
        yield f"a number that is missing, {policy}", refused(call) if wanted is None else call() == wanted
    yield "nothing declared", _counted(rows, _Schema(columns={})) == 3


def _counted(rows: Any, schema: Schema, columns: tuple[str, ...] = ()) -> int:
    limits = schema.unit.contribution
    return int(totals(take(open_source(rows), schema), Selected(columns=columns, contribution=limits)).counts.sum())
