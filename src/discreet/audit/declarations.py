"""Declarations: what is refused, what is accepted, and the small facts that follow.

Guards are where a slip is easiest: a limit that is one off, an `and` for an `or`. Each rule meets the last value
that it allows and the first that it does not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import discreet.questions as q
from discreet.audit.report import Audit, Compared, recomputed, refused
from discreet.core import requirements
from discreet.core.errors import DiscreetError
from discreet.core.numbers import Grid
from discreet.core.protection import Fact, Neighbours, Protection, Unit
from discreet.core.rows import Selected, take, totals
from discreet.core.rows.source import open_source
from discreet.core.schema import Bounds, Categories, Contribution, PrivacyUnit, Schema, in_parts, stability
from discreet.core.sensitivity import Sensitivity
from discreet.mechanisms.bounded.laplace import Domain
from discreet.mechanisms.tables.post_processed import exact_total
from discreet.questions.comparison.methods import MeanDifference
from discreet.questions.naive_bayes import _squares
from discreet.questions.signed_rank import PairedBalance
from discreet.questions.tables.margins import Margins
from discreet.testing.mechanisms import check_statistic

REPLACED = Neighbours.REPLACE_ONE
# Everything is called with arguments that its types forbid.
_Bounds: Any = Bounds
_Categories: Any = Categories
_Contribution: Any = Contribution
_PrivacyUnit: Any = PrivacyUnit
_Schema: Any = Schema
_Unit: Any = Unit


def audit_declarations() -> Audit:
    """Hold every rule against the last value that it allows and the first that it refuses."""
    parts: tuple[Callable[[], Iterator[Compared]], ...] = (
        _numbers, _columns, _units, _limits, _steps, _exactness, _sources, _gaps, _keeping,
    )  # fmt: skip
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
        requirements.positive: ((1e-300, 1), (0, -1, math.nan, math.inf)), requirements.non_negative: ((0, 1e-300),
        (-1e-300, math.nan, math.inf)), requirements.probability: ((0, 0.5, math.nextafter(1, 0)), (1, -1e-9, 1.1,
        math.nan)), requirements.positive_integer: ((1, 2**53), (0, -1, 1.0, True, 2**53 + 1)),
        requirements.rational: ((1, 0.5, Fraction(1, 3)), (True, math.nan, math.inf, "1")),
        requirements.ordered_bounds: (((0, 1), (0, math.inf), (-math.inf, 0)), ((1, 1), (1, 0), (0,), "01", (math.nan,
        1), (-math.inf, math.inf), (0, 1, 2))),
    }  # fmt: skip
    for rule, (yes, no) in rules.items():
        yield from _both(rule.__name__, *(tuple(partial(rule, "x", one) for one in some) for some in (yes, no)))
    yield from _both(
        "level",
        (partial(requirements.level, 0.5),),
        tuple(partial(requirements.level, one) for one in (0, 1, 1.1, math.nan)),
    )
    right = requirements.one_of("x", "a", ("a", "b")) == "a" and refused(lambda: requirements.one_of("x", "c", ("a",)))
    yield "one of", right
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
        "a privacy unit", (partial(_PrivacyUnit, "u", one), partial(_PrivacyUnit, "u", nulls="refuse"), PrivacyUnit),
        (partial(_PrivacyUnit, ""), partial(_PrivacyUnit, contribution=one), partial(_PrivacyUnit, "u", nulls="keep"),
        partial(_PrivacyUnit, 3)),
    )  # fmt: skip
    x = {"x": _Bounds(0, 1, grid=1)}
    yield from _both(
        "a schema", (partial(_Schema, columns=x), partial(_Schema, columns=x, neighbours=REPLACED, size=5),
        partial(_Schema, columns={}, unit=_PrivacyUnit("u", one))), (partial(_Schema, columns={"x": "number"}),
        partial(_Schema, columns={"u": _Categories(["a"])}, unit=_PrivacyUnit("u")), partial(_Schema, columns=x,
        size=5), partial(_Schema, columns=x, neighbours=REPLACED), partial(_Schema, columns=x, neighbours=REPLACED,
        size=0), partial(_Schema(columns={}).column, "x"), partial(_Schema(columns=x).categories, "x"),
        partial(_Schema(columns={"a": _Categories(["a"])}).bounds, "a"), partial(_Schema(columns={}).contribution,
        one), partial(_Schema(columns={}, unit=_PrivacyUnit("u")).contribution)),
    )  # fmt: skip
    yield "what is public", Protection(neighbours=REPLACED).public == (Fact.SIZE,) and Protection().public == ()
    yield "a size under add and remove", refused(lambda: Protection(public=[Fact.SIZE]))
    yield (
        "read back",
        Protection.from_dict(Protection(_Unit("row"), REPLACED, [Fact.ARM]).to_dict())
        == Protection(_Unit("row"), REPLACED, [Fact.ARM]),
    )


def _limits() -> Iterator[Compared]:
    yield from _both(
        "limits", (partial(_Contribution, rows=1), partial(_Contribution, groups=1, rows=1), partial(_Contribution,
        total=1)), (Contribution, partial(_Contribution, rows=0), partial(_Contribution, rows=True),
        partial(_Contribution, rows=1, total=1), partial(_Contribution, groups=1, total=1), partial(_Contribution,
        groups=1), partial(_Contribution, groups=0, rows=1), partial(_Contribution, total=0)),
    )  # fmt: skip
    for limits, wanted in (
        (_Contribution(groups=2, rows=3), (2, 6, 3)),
        (_Contribution(rows=3), (12, 36, 3)),
        (_Contribution(total=5), (5, 5, 5)),
        (_Contribution(groups=50, rows=1), (12, 12, 1)),
        (_Contribution(total=50), (12, 50, 50)),
    ):
        right = (limits.most_groups(12), limits.most_rows(12), limits.most_rows_in_a_group()) == wanted
        yield f"limits {limits}", right


def _steps() -> Iterator[Compared]:
    """Steps of a grid: clipped, then rounded with halves up."""
    for low, high, grid in ((0, 10, 1), (-3, -1, 0.5), (-0.3, 0.6, 0.1), (-5, 99.99, 0.01)):
        bounds = _Bounds(low, high, grid=grid)
        step = Fraction(repr(grid)) if isinstance(grid, float) else Fraction(grid)
        right = (bounds.lowest * step, bounds.highest * step) == (Fraction(repr(low)), Fraction(repr(high)))
        yield "ends in steps", right
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


def _exactness() -> Iterator[Compared]:
    """Clamping, totals and squares of numbers that floats cannot hold."""
    domain = Domain.of((0.0, 1.0))
    third = np.array([Fraction(1, 3), Fraction(4, 3), Fraction(-1, 3)], dtype=object)
    yield "fractions are clamped exactly", list(domain.clamp(third)) == [Fraction(1, 3), 1, 0]
    yield "floats are clamped", np.asarray(domain.clamp(np.array([0.25, 2.0, -1.0]))).tolist() == [0.25, 1.0, 0.0]
    right = np.asarray(domain.clamp(np.array([0, 2, -1])), dtype=float).tolist() == [0.0, 1.0, 0.0]
    yield "whole numbers are clamped", right
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


def _keeping() -> Iterator[Compared]:
    """A column that says it keeps every row does, whatever the row holds; or the release is refused for all data."""
    import pyarrow as pa

    labels: list[Any] = ["A", None, "Z", ""]
    numbers: list[Any] = [1.0, None, math.nan, math.inf, -99.0]
    columns: list[tuple[Any, list[Any]]] = [
        (_Categories(["A", "B"], nulls=nulls, unknown=unknown, missing=missing), labels)
        for nulls in ("drop", "refuse", "=A")
        for unknown in ("drop", "refuse", "=B")
        for missing in ((), ("Z",))
    ]
    columns += [
        (_Bounds(0, 2, grid=1, nulls=nulls, missing=missing), numbers)
        for nulls in ("drop", "refuse", 0)
        for missing in ((), (1.0,))
    ]
    for declared, values in columns:
        schema = _Schema(columns={"c": declared})
        selected = Selected(by=("c",)) if isinstance(declared, Categories) else Selected(columns=("c",))
        kind = pa.string() if isinstance(declared, Categories) else pa.float64()
        for value in values:
            rows = pa.table({"c": pa.array([values[0], value], kind)})
            try:
                kept = int(totals(take(open_source(rows), schema), selected).counts.sum()) == 2
            except DiscreetError:
                kept = True
            yield f"{declared} says that it keeps {value!r}", kept or not schema.keeps_every_row(("c",))


def _counted(rows: Any, schema: Schema, columns: tuple[str, ...] = ()) -> int:
    limits = schema.unit.contribution
    return int(totals(take(open_source(rows), schema), Selected(columns=columns, contribution=limits)).counts.sum())


# ---- Declared sensitivities, beside the largest change over every small data set.
#
# A sensitivity that is too small breaks a guarantee; one that is too large wastes noise. Here every formula meets
# brute force: over every unit that its limits allow, and over every data set of a few rows from the corners of the
# domain.


ADDED = Neighbours.ADD_REMOVE
_LIMITS = tuple(
    Contribution(**limits)
    for limits in (
        {"groups": 1, "rows": 1}, {"groups": 1, "rows": 2}, {"groups": 2, "rows": 1}, {"groups": 2, "rows": 2},
        {"groups": 9, "rows": 1},
        {"rows": 1}, {"rows": 2}, {"total": 1}, {"total": 2}, {"total": 3},
    )
)  # fmt: skip
_BOUNDS = ((0, 1), (-1, 10), (-10, 1), (-2, 3), (2, 3), (-3, -2), (-1, 1))
_NEAR = 1 + 1e-12


def audit_declared() -> Audit:
    """Compare every formula of a sensitivity with brute force."""
    parts: tuple[Callable[[], Iterator[Compared]], ...] = (
        _unit_totals, _in_parts, _long, _column_sums, _domains, _pairs, _balances, _pooled, _tables, _margins, _arms,
        _averages,
    )  # fmt: skip
    return recomputed("Declared sensitivities", parts)


def _reached(name: str, declared: Sensitivity, l1: float, l2: float, *, tight: bool) -> Iterator[Compared]:
    own = (declared.l1 or math.inf, declared.l2 or math.inf)
    yield f"{name}: more than declared", l1 <= own[0] * _NEAR and l2 <= own[1] * _NEAR
    if tight:
        yield f"{name}: far less than declared", l1 >= own[0] / _NEAR and l2 >= own[1] / _NEAR


# ---- bounded units --------------------------------------------------------------------------------------------------


def _row_counts(limits: Contribution, cells: int) -> Iterator[tuple[int, ...]]:
    """Rows per cell that a unit may keep, from the words of `Contribution` alone."""
    most = limits.total if limits.rows is None else limits.rows
    for rows in itertools.product(range((most or 0) + 1), repeat=cells):
        within = limits.groups is None or sum(count > 0 for count in rows) <= limits.groups
        if within and (limits.total is None or sum(rows) <= limits.total):
            yield rows


def _unit_sums(limits: Contribution, cells: int, low: float, high: float) -> Any:
    """Sums per cell that a unit can have: every number of rows, at either bound."""
    found: set[tuple[float, ...]] = set()
    for rows in _row_counts(limits, cells):
        found.update(itertools.product(*({count * low, count * high} if count else {0} for count in rows)))
    return np.array(sorted(found), dtype=float)


def _worst(units: Any, neighbours: Neighbours) -> tuple[float, float]:
    """Largest ℓ₁ and ℓ₂ distance between two units, or between a unit and nobody."""
    others = units if neighbours is REPLACED else np.zeros((1, units.shape[1]))
    gaps = np.abs(units[:, None, :] - others[None, :, :])
    return float(gaps.sum(axis=2).max()), float(np.sqrt((gaps**2).sum(axis=2).max()))


def _unit_totals() -> Iterator[Compared]:
    """Sums of bounded units."""
    for limits, (low, high), neighbours in itertools.product(_LIMITS, _BOUNDS, Neighbours):
        for cells in (1, 2, 4) if limits in _LIMITS[:4] else (1, 3):
            declared = stability(limits, cells=cells, neighbours=neighbours, low=low, high=high)
            norms = _worst(_unit_sums(limits, cells, low, high), neighbours)
            yield from _reached("sums of a unit", declared, *norms, tight=cells == 4)
            yield "the number of sums", declared.dimension == cells


def _in_parts() -> Iterator[Compared]:
    """Parts of a row that add up to one."""
    for limits, neighbours in itertools.product(_LIMITS, Neighbours):
        units = np.array(
            [
                [part for count, one in zip(rows, yes, strict=True) for part in (count - one, one)]
                for rows in _row_counts(limits, 2)
                for yes in itertools.product(*(range(count + 1) for count in rows))
            ],
            dtype=float,
        )
        declared = in_parts(limits, 2, 2, neighbours)
        yield from _reached("parts", declared, *_worst(units, neighbours), tight=True)
        yield "the number of parts", declared.dimension == 4


def _long() -> Iterator[Compared]:
    """Beyond 64 moves only the norms are kept; they are those of the moves."""
    for groups, rows in ((65, 2), (64, 2), (33, 3)):
        limits = Contribution(groups=groups, rows=rows)
        declared = stability(limits, cells=200, neighbours=ADDED, low=0, high=3)
        yield from _reached("many cells", declared, groups * rows * 3, rows * 3 * math.sqrt(groups), tight=True)
        yield "moves of many cells", (declared.moves is None) == (groups > 64)
        replaced = stability(limits, cells=200, neighbours=REPLACED, low=0, high=3)
        yield from _reached("many cells", replaced, 2 * groups * rows * 3, rows * 3 * math.sqrt(2 * groups), tight=True)


# ---- statistics -----------------------------------------------------------------------------------------------------


def _checked(
    statistic: Any, universe: Sequence[Any], n: int, data: Any = None, tight: float | None = 0.99
) -> Iterator[Compared]:
    for neighbours in Neighbours:
        right = check_statistic(statistic, universe, n=n, neighbours=neighbours, data=data, tight=tight) > 0
        yield f"{statistic.name} of {n} rows", right


def _column_sums() -> Iterator[Compared]:
    for bounds in ((0.0, 1.0), (-1.0, 3.0), (-3.0, -1.0)):
        low, high = bounds
        line = [low, (low + high) / 2, high]
        for kind in (q.Sum, q.NoisyAverage, q.Mean, q.Variance):
            for n in (3, 4):
                yield from _checked(kind(bounds=bounds), line, n, tight=None if kind is q.NoisyAverage else 0.99)
    for statistic, n in itertools.product((q.Count(), q.Proportion()), (3, 4)):
        yield from _checked(statistic, [0.0, 1.0], n)
    for n in (3, 4):
        yield from _checked(q.ProportionVector(categories=("a", "b", "c"), n=n), "abc", n)
    yield "a column of one row", refused(lambda: q.Variance(bounds=(0, 1)).value([0.5]))


def _domains() -> Iterator[Compared]:
    """Both ends of a domain are reached by some data, or it is wider than it needs to be."""
    for bounds in ((0.0, 1.0), (-1.0, 3.0), (-3.0, -1.0)):
        statistics: tuple[Any, ...] = (q.Mean(bounds=bounds), q.Variance(bounds=bounds))
        for statistic, n in itertools.product(statistics, (3, 4)):
            values = [statistic.value(list(rows)) for rows in itertools.combinations_with_replacement(bounds, n)]
            low, high = (float(np.max(end)) for end in statistic.domain(n))
            yield f"the lower end of {statistic.name}", abs(float(min(values)) - low) < 1e-12
            most = float(max(values))  # of an odd number of rows, a variance comes close
            yield f"the upper end of {statistic.name}", high - 0.15 * (high - low) <= most <= high + 1e-12


def _pairs() -> Iterator[Compared]:
    for first, second in (((0.0, 1.0), (0.0, 1.0)), ((-1.0, 3.0), (2.0, 4.0))):
        corners = list(itertools.product(first, second))
        kinds: tuple[Any, ...] = (q.Covariance, q.CovarianceMatrix)
        for kind, n in itertools.product(kinds, (3, 4)):
            yield from _checked(kind(bounds=(first, second)), corners, n, np.array)


def _balances() -> Iterator[Compared]:
    """Signed ranks and signs of differences, with ties and zeros; where the number of rows is public, it stays."""
    steps = range(-2, 3)
    for scores, n in itertools.product(("ranks", "signs"), (3, 4)):
        public: Any = PairedBalance(scores=scores, n=n)
        private: Any = PairedBalance(scores=scores)
        reached = check_statistic(public, steps, n=n, neighbours=REPLACED, tight=0.99)
        yield f"{scores} of a public number of rows", reached > 0
        for neighbours in Neighbours:
            # Replacing one of few rows moves their ranks by 2n/(n + 1) at most: the bound is close for many rows.
            tight = 0.65 if scores == "ranks" and neighbours is REPLACED else 0.99
            reached = check_statistic(private, steps, n=n, neighbours=neighbours, tight=tight)
            yield f"{scores} of a private number of rows", reached > 0


def _by_cell(rows: tuple[Any, ...]) -> Any:
    *values, labels = zip(*rows, strict=True)
    return (*(np.array(column) for column in values), np.array(labels))


def _pooled() -> Iterator[Compared]:
    """Variances and covariances within cells, where records may change their cell."""
    for n, cells in ((4, 1), (4, 2), (5, 2), (5, 3)):
        universe = [(x, cell) for x in (0.0, 2.0) for cell in range(cells)]
        yield from _checked(q.PooledVariance(bounds=(0, 2), cells=tuple(range(cells))), universe, n, _by_cell)
    for n, cells in ((4, 1), (4, 2)):
        pairs = [(x, y, cell) for x in (0.0, 1.0) for y in (0.0, 2.0) for cell in range(cells)]
        yield from _checked(
            q.PooledCovariance(bounds=((0, 1), (0, 2)), cells=tuple(range(cells))), pairs, n, _by_cell, tight=0.7
        )


def _tables() -> Iterator[Compared]:
    """Tables of units with several rows."""
    table = q.ContingencyTable({"a": [0, 1], "b": [0, 1]})
    for rows, neighbours in itertools.product((1, 2, 3), Neighbours):
        units = np.array(
            [counts for counts in itertools.product(range(rows + 1), repeat=4) if sum(counts) <= rows], dtype=float
        )
        declared = table.sensitivity(neighbours, rows_per_unit=rows)
        yield from _reached("a table", declared, *_worst(units, neighbours), tight=True)
        yield "the cells of a table", declared.dimension == 4
    data = {"a": [0, 1, 1, 0, 1], "b": [1, 1, 0, 1, 1]}
    yield "counts of a table", table.counts(data).tolist() == [[0, 2], [1, 2]]
    yield "an unknown label", refused(partial(table.counts, {"a": [2], "b": [0]}))
    yield "columns of different lengths", refused(partial(table.counts, {"a": [0, 1], "b": [0]}))


def _margins() -> Iterator[Compared]:
    """Margins and sums of a unit with several rows: every row is a cell and a step."""
    for summed, rows, neighbours in itertools.product((None, ("x", 0, 4, "1"), ("x", -3, 7, "1")), (1, 2), Neighbours):
        columns: dict[str, Sequence[Any]] = {"a": [0, 1], "b": [0, 1]}
        margins = Margins(columns=columns, tables=[["a"], ["a", "b"]], summed=summed)
        steps = (0,) if summed is None else (summed[1], (summed[1] + summed[2]) // 2, summed[2])
        units = []
        for chosen in itertools.combinations_with_replacement(itertools.product((0, 1), (0, 1), steps), rows):
            counts = np.zeros((2, 2), dtype=int)
            sums = np.zeros((2, 2), dtype=int)
            for a, b, step in chosen:
                counts[a, b] += 1
                sums[a, b] += step
            units.append(margins.stacked(counts, None if summed is None else sums))
        declared = margins.sensitivity(neighbours, rows_per_unit=rows)
        l1, l2 = _worst(np.array(units, dtype=float), neighbours)
        # Where a row is replaced, a sum moves most in one cell, a count between two, and the total of rows not at
        # all: no unit does everything that the bound allows.
        yield from _reached("margins", declared, l1, l2, tight=neighbours is ADDED)
        yield "margins: ℓ₁ is far less than declared", l1 >= 0.6 * (declared.l1 or 0)
        yield "margins: ℓ₂ is far less than declared", l2 >= 0.7 * (declared.l2 or 0)


def _arms() -> Iterator[Compared]:
    """Moments of an arm: the most that one row moves those of all arms together."""
    for norm, arm, neighbours in itertools.product(("l1", "l2"), ("public", "private"), Neighbours):
        moments = MeanDifference(bounds=(0, 1), arm=arm, arms=2, norm=norm)
        declared = moments.sensitivity(neighbours=neighbours)
        worst = _worst_arms(moments, neighbours, arm)
        reached = [gap / own for gap, own in zip(worst, (declared.l1, declared.l2), strict=True) if own]
        yield f"moments of arms, {norm}, {arm}", max(reached) <= _NEAR
        yield f"moments of arms, {norm}, {arm}, far less than declared", max(reached) >= 0.99


def _worst_arms(moments: MeanDifference, neighbours: Neighbours, arm: str) -> tuple[float, float]:
    offsets, largest, found = (0, 2, 4), 4, (0.0, 0.0)

    def vector(arms: Sequence[Sequence[int]]) -> Any:
        values = [moments.value(len(a), sum(a), sum(x * x for x in a), largest, neighbours) for a in arms]
        return np.array([float(one) for value in values for one in value])

    for rows in itertools.combinations_with_replacement(offsets, 2):
        base = vector([rows, (0, 4)])
        for other in offsets:
            replaced: list[list[Sequence[int]]] = [[(*rows, other), (0, 4)], [rows[:1], (0, 4)]]
            if neighbours is REPLACED:
                replaced = [[(rows[0], other), (0, 4)]]
                replaced += [[rows[:1], (0, 4, other)]] if arm == "private" else []
            for changed in replaced:
                gap = np.abs(vector(changed) - base)
                found = max(found[0], float(gap.sum())), max(found[1], float(np.sqrt((gap**2).sum())))
    return found


def _averages() -> Iterator[Compared]:
    for bounds, centred in itertools.product(((0.0, 1.0), (-1.0, 3.0), (2.0, 4.0)), (True, False)):
        statistic = q.NoisyAverage(bounds=bounds, centred=centred)
        line = [bounds[0], sum(bounds) / 2, bounds[1]]
        for neighbours in Neighbours:
            declared = statistic.sensitivity(n=3, neighbours=neighbours)
            values = {
                rows: statistic.value(list(rows))
                for size in (2, 3)
                for rows in itertools.combinations_with_replacement(line, size)
            }
            worst = Fraction(0)
            for rows in itertools.combinations_with_replacement(line, 2):
                larger = [values[tuple(sorted((*rows, one)))] for one in line]
                sides = larger if neighbours is REPLACED else [values[rows]]
                worst = max(worst, *(sum(map(abs, a - b), Fraction(0)) for a in larger for b in sides))
            share = float(worst / Fraction(declared.l1 or 1))
            yield "a noisy average", share <= 1
            yield "a noisy average, far less than declared", share >= 0.99
