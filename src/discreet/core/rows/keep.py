"""Keep: the rows that count, with related tables joined to them, and what they add up to.

Which rows of a unit count, where it has more than its limits, is chosen in `discreet.core.rows.choice`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from discreet.core.columns import Dates, Order
from discreet.core.errors import InvalidParameter
from discreet.core.rows.choice import (
    CELL,
    START_DIGITS,
    Limits,
    begins_of,
    chosen,
    digits,
    evenly,
    excess,
    keep_groups,
    refuse_excess,
    refuse_more,
    side_by_side,
    whole_units,
)
from discreet.core.rows.engines import numbers_of
from discreet.core.rows.expressions import (
    ABOVE,
    BELOW,
    LIMB,
    TOO_MANY,
    USABLE,
    clipped,
    date_count,
    exact_sum,
    identifier,
    number_of,
    quotient,
)
from discreet.core.rows.read import Dataset, Dialect
from discreet.core.rows.snapshot import AT, MARK, UNIT, Snapshot, in_order, stored, take
from discreet.core.schema import Bounds, Categories, Column, Contribution, Design, Related, Schema, related_schema

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = [
    "Selected", "kept_rows", "scope_of",
    "taking_part", "take_joined", "EXACT_DIGITS", "MISSING", "OTHER", "one_row_each", "shortened", "typed",
    "typed_texts", "BUCKETS", "SHARES", "Totals", "WHOLE", "by_cell", "coarsening", "distinct_labels", "histograms",
    "dropped_rows", "matrix", "squares", "totals", "totals_by_partition", "unit_counts", "usable_totals",
    "all_row_totals", "DesignTotals", "design_totals", "unit_totals", "weighed_totals",
]  # fmt: skip


Scope = tuple[str, ...]
"""The columns whose values tell apart what a limit on rows is about: units, or their groups."""
_MOST_KEPT = 4
"""Choices that a session remembers."""


@dataclass(frozen=True, kw_only=True)
class Selected:
    """Which rows take part, and how many of each unit.

    Parameters
    ----------
    by
        Columns of labels whose combinations are the cells; the last one varies fastest.
    columns
        Numeric columns that are read.
    contribution
        Limits per unit, where the schema's own do not apply.
    whole
        Columns of labels that a row must have, though they make no cells: totals by different columns are then of the
        same rows.
    first
        Keep a unit's first groups, in the order of the cells, instead of groups at even distances: where cells are
        periods and rows are only added, a unit then never moves to a later one.
    all_rows
        Keep all rows in a unit's groups, of which the limit says how much they weigh together.
    """

    by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    contribution: Contribution | None = None
    whole: tuple[str, ...] = ()
    first: bool = False
    all_rows: bool = False


def kept_rows(snapshot: Snapshot, selected: Selected) -> ir.Table:
    """The rows that count: unit, cell, and the grid steps of all numeric columns."""
    schema = snapshot.schema
    snapshot.require(*selected.by, *selected.columns, *selected.whole)
    limits = schema.contribution(selected.contribution)
    cells = schema.cells(selected.by)
    groups = None if limits.groups is None or limits.groups >= cells else limits.groups
    most = None if selected.all_rows else limits.most_rows_in_a_group()
    if schema.unit_is_row or (groups is None and most is None):
        return taking_part(snapshot, selected)
    gaps = snapshot.gaps.intersection((*selected.by, *selected.columns, *selected.whole))
    if limits.rows is None or cells == 1:  # the choice mentions no cell, so all questions share it
        kept = _chosen_once(snapshot, (), gaps, Limits(groups=None, rows=most, cells=None))
        return _with_cells(snapshot, kept, selected.by)
    told = Limits(groups=groups, rows=most, cells=cells, first=selected.first)
    return _chosen_once(snapshot, selected.by, gaps, told)


def _chosen_once(snapshot: Snapshot, by: Sequence[str], gaps: frozenset[str], limits: Limits) -> ir.Table:
    """What units keep, chosen at the first question and remembered: with cells, or with the labels to make them of."""
    kinds = (Bounds, Categories) if limits.cells is None else (Bounds,)
    steps = [name for column, name in snapshot.names.items() if isinstance(snapshot.schema.columns[column], kinds)]
    rows = _without_gaps(snapshot, gaps)
    if limits.cells is not None:
        rows = _with_cells(snapshot, rows, by)
        steps = [CELL, *steps]
    with snapshot.lock:
        choice = (tuple(by), gaps, limits)
        if choice not in snapshot.kept:
            remembered = [one for one in snapshot.kept if isinstance(one, tuple)]
            if len(remembered) == _MOST_KEPT:
                del snapshot.kept[remembered[0]]
            snapshot.kept[choice] = chosen(snapshot, rows, [UNIT, *steps], limits)
        return snapshot.kept[choice]


def scope_of(limits: Contribution) -> Scope:
    """The columns that a limit on rows applies within."""
    return (UNIT,) if limits.rows is None else (UNIT, CELL)


def taking_part(snapshot: Snapshot, selected: Selected) -> ir.Table:
    """Rows that no column drops, with the number of their cell."""
    gaps = snapshot.gaps.intersection((*selected.by, *selected.columns, *selected.whole))
    return _with_cells(snapshot, _without_gaps(snapshot, gaps), selected.by)


def _without_gaps(snapshot: Snapshot, gaps: frozenset[str]) -> ir.Table:
    table = snapshot.table
    whole = [table[snapshot.names[name]].notnull() for name in sorted(gaps)]
    return table.filter(whole) if whole else table


def _with_cells(snapshot: Snapshot, rows: ir.Table, by: Sequence[str]) -> ir.Table:
    """The rows with the number of their cell."""
    import ibis

    cell: Any = ibis.literal(0)  # untyped, so that the cast below reaches the engine
    for place, name in enumerate(by):
        code = rows[snapshot.names[name]]
        cell = cell.cast("int32") * snapshot.schema.categories(name).cells + code if place else code
    cell = cell.cast("int16" if snapshot.schema.cells(by) < 2**15 else "int32")  # short keys group faster
    return rows.mutate(**{CELL: cell})


# ---- Join: the rows of a unit meet its rows in other tables. Proof: ``docs/proofs/rows.md``.


_JOINED_BY = "k"


def take_joined(dataset: Dataset, schema: Schema, related: Mapping[str, Dataset], *, salt: str) -> Snapshot:
    """Read and encode the rows once, with the columns of the related tables that the schema names."""

    def attach(table: ir.Table, names: Mapping[str, str], marked: bool) -> ir.Table:
        for name, one in schema.of_rows.related.items():
            kept = _kept(related[name], one, salt)
            table = stored(dataset, _joined(dataset, table, kept, one, names))
            if marked:
                marks = {MARK + names[column]: table[names[column]].notnull() for column in one.given()}
                table = table.mutate(**{mark: usable.cast("int8") for mark, usable in marks.items()})
        return table

    return take(dataset, schema, salt=salt, attach=attach)


def _kept(dataset: Dataset, one: Related, salt: str) -> tuple[Dataset, ir.Table]:
    """The rows that units keep in a related table: at even distances, in an order that only their own rows decide."""
    import ibis

    other = take(dataset, related_schema(one), salt=salt)
    other.require(*one.columns)
    rows = other.table
    own = ibis.window(group_by=rows[UNIT])
    ordered = ibis.window(group_by=rows[UNIT], order_by=[rows[name] for name in other.names.values()] or [rows[UNIT]])
    rows = rows.mutate(held=rows.count().over(own), position=ibis.row_number().over(ordered))
    start = digits(other, START_DIGITS, "j", rows[UNIT]) % rows.held
    rows = rows.mutate(start=start)
    rows = rows.filter(evenly(rows.position, rows.held, rows.start, one.rows))
    ids = rows[UNIT].cast("string")  # one table may hold whole numbers where another holds text
    return dataset, stored(dataset, rows.select(ids.name(_JOINED_BY), **{n: rows[x] for n, x in other.names.items()}))


def _joined(
    dataset: Dataset, table: ir.Table, kept: tuple[Dataset, ir.Table], one: Related, names: Mapping[str, str]
) -> ir.Table:
    """Each row with each row that its unit keeps in the other table, or with their number."""
    place, rows = kept
    if one.counted is not None:
        rows = rows.group_by(_JOINED_BY).aggregate(**{names[one.counted]: rows.count().clip(0, one.rows)})
    else:
        rows = rows.select(_JOINED_BY, **{names[name]: rows[name] for name in one.columns})
    if place.connection is not dataset.connection:
        rows = dataset.bring(place.fetch(rows))
    both = table.mutate(**{_JOINED_BY: table[UNIT].cast("string")}).left_join(rows, _JOINED_BY)
    added = {names[name]: _replaced(both[names[name]], declared) for name, declared in one.given().items()}
    return both.select(*table.columns, **added)


def _replaced(value: Any, declared: Column) -> Any:
    """A missing value as its column treats it: a unit without rows in the other table has one."""
    if isinstance(declared, Bounds):
        code = declared.null_index()
    else:
        code = declared.replacement("nulls") if isinstance(declared, Categories) else None
    return value if code is None else value.fill_null(code)


# ---- Typed values: what the values of a column are, where nothing is declared of it: numbers, days, other text,
# missing.
#
# Each value is typed by itself. Engines that hold more than fits here shorten numbers to their first binary digits and
# count equal ones.


MISSING, OTHER = -(10**9), 1 - 10**9
"""In the place of a day, where there is none."""
EXACT_DIGITS = 8
"""Binary digits after the first: cells whose edges have no more of them are exact, also among shortened numbers."""
_SMALL, _LARGE = 2.0**-20, 2.0**60
"""Numbers beyond are alike when they are shortened."""
_MAYBE_DATE = r"^[ \t]*[0-9]{1,4}[-./][0-9]{1,2}[-./][0-9]"
_KEY, _ROW = "key", "row"


def one_row_each(snapshot: Snapshot, columns: Sequence[str], order: Order) -> Any:
    """One row of each unit: of column k its numbers ``nk``, its days ``dk``, or its texts ``tk``. Private."""
    import ibis

    dataset, unit = snapshot.dataset, snapshot.schema.unit.column
    dataset.require(unit, *columns)
    read = dict(_readable(dataset.table[name], name, place, order) for place, name in enumerate(columns))
    if unit is None:
        return dataset.table.select(**read)
    rows = dataset.table.select(**{UNIT: identifier(dataset.table[unit], unit)}, **read)
    rows = rows.filter(rows[UNIT].notnull())
    if dataset.engine != "duckdb":
        return _one_each(snapshot, rows, [*read]).select(*read)
    # Narrow rows are sorted and joined faster. Rows of a unit have one key only where they are alike.
    rows = stored(dataset, rows.mutate(**{_ROW: ibis.row_number()}))
    keys = rows.select(UNIT, _ROW, **{_KEY: ibis.struct({name: rows[name] for name in read}).hash()})
    return rows.semi_join(_one_each(snapshot, keys, [_KEY, _ROW]), _ROW).select(*read)


def _one_each(snapshot: Snapshot, table: Any, ordered_by: Sequence[str]) -> Any:
    declared = {name: Bounds(0, 1) for name in ordered_by}
    # of the rows: a schema of features would take each of them for a unit
    schema = replace(
        snapshot.schema.of_rows, columns=declared, where=None, related={}, features={}, design=None
    )  # fmt: skip
    names = {name: name for name in ordered_by}
    table = in_order(snapshot.dataset, table, ordered_by)
    rows = replace(snapshot, schema=schema, table=table, names=names, gaps=frozenset(), kept={})
    return kept_rows(rows, Selected(contribution=Contribution(total=1)))


def _readable(column: Any, name: str, place: int, order: Order) -> tuple[str, Any]:
    """A column's numbers or days, where its type has no others; or its texts."""
    kind = column.type()
    if kind.is_numeric() or kind.is_boolean():
        return f"n{place}", number_of(column, name)
    if kind.is_date() or kind.is_timestamp():
        return f"d{place}", _day(column, None, order)
    return f"t{place}", column if kind.is_string() else column.cast("string")


def typed(rows: Any, written: Dialect, order: Order) -> Any:
    """The rows with numbers and days in the place of texts."""
    places = [name[1:] for name in rows.columns if name[0] == "t"]
    rows = rows.mutate(**{f"n{k}": number_of(rows[f"t{k}"], "", written) for k in places})
    rows = rows.view()  # so that engines compute each number once
    days = {f"d{k}": _day(rows[f"t{k}"], rows[f"n{k}"], order) for k in places}
    return rows.mutate(**days).drop(*(f"t{k}" for k in places))


def typed_texts(counted: Any, written: Dialect, order: Order) -> Any:
    """Of counted texts ``j, t0, held``, in an Arrow table, what `shortened` tells, with their whole numbers."""
    import ibis

    rows = typed(ibis.memtable(counted), written, order)
    return rows.select("j", n=rows.n0, f=_decimals(rows.n0), d=rows.d0, held=rows.held)


def _day(column: Any, number: Any, order: Order) -> Any:
    """Day of a date; `OTHER` or `MISSING` where there is none, and missing where a text is a number."""
    import ibis

    day = date_count(column, Dates("1900-01-01", "2099-12-31", order=order), "").cast("int32").fill_null(OTHER)
    if number is None:
        return column.isnull().ifelse(MISSING, day).cast("int32")
    missing = column.isnull() | column.re_search(r"^[ \t]*\z")
    # cheap tests first: most texts are numbers, and most others do not begin like a date
    known = [(number.notnull(), MISSING), (column.re_search(_MAYBE_DATE), day), (missing, MISSING)]
    return ibis.cases(*known, else_=OTHER).cast("int32")


def _decimals(number: Any) -> Any:
    """1 where a number has decimals, else 0; clipped first, because engines round to 64 bits."""
    number = number.clip(-_LARGE, _LARGE)
    return (number != number.floor()).fill_null(False).cast("int8")


def shortened(rows: Any) -> Any:
    """Columns' places, shortened numbers, whether they had decimals, days, and how many rows have them.

    A number moves down to a multiple of a power of two that is 2¹¹ to 2¹³ times smaller, however the engine rounds a
    logarithm. So it passes no edge of at most `EXACT_DIGITS`. Dividing by a power of two is exact.
    """
    import ibis

    parts = []
    for place in sorted({int(name[1:]) for name in rows.columns}):
        number, day = (rows[name] if name in rows.columns else None for name in (f"n{place}", f"d{place}"))
        value = (ibis.literal(None, type="float64") if number is None else number).clip(-_LARGE, _LARGE)
        step = 2.0 ** (value.abs().clip(_SMALL, None).log2().floor() - 12)
        code = ibis.literal(MISSING, type="int32") if day is None else day
        number = (value / step).floor() * step
        parts.append(rows.select(j=ibis.literal(place, type="int64"), n=number, f=_decimals(value), d=code))
    both = ibis.union(parts[0], *parts[1:])
    return both.group_by(["j", "n", "f", "d"]).aggregate(held=both.count())


# ---- Totals: exact counts, sums and histograms of the rows that are kept, added up on the engine.
#
# Everything that is added is a whole number of grid steps, so sums are exact and in any order the same. Each is clipped
# before it is cast, and added in a type that holds the largest sum the public bounds allow.


_HOLDS = 2**86
"""Sums of 2⁴⁰ products within this have 38 digits."""
SHARES = 2**22
"""Steps between 0 and 1 of a square that is added up."""
_PARTITION_DIGITS = 4
BUCKETS = 16**_PARTITION_DIGITS
"""Values of the digits that decide a unit's partition."""


@dataclass(frozen=True)
class Totals:
    """Exact, private totals per cell: rows (or units) and sums of products of grid steps, as Python integers."""

    counts: NDArray[Any]
    sums: Mapping[tuple[str, ...], NDArray[Any]]

    def __repr__(self) -> str:
        return f"Totals(cells={self.counts.size}, sums={list(self.sums)}, values=‹private›)"


def coarsening(bounds: Bounds, factors: int) -> tuple[int, int]:
    """Grid steps that merge into one where products have so many factors, and how many of these reach across.

    Up to four factors are added exactly. Products of more lose the bits that 38 digits cannot hold, before anything is
    added: the value is the nearest multiple of a power of two of its steps above the lower bound.
    """
    across = bounds.highest - bounds.lowest
    merged = 1 if factors <= 4 else 2 ** max(0, across.bit_length() - (_HOLDS.bit_length() - 1) // factors)
    return merged, (across + merged // 2) // merged


def totals(
    snapshot: Snapshot, selected: Selected, products: Sequence[tuple[str, ...]] = (), *, from_lowest: bool = False
) -> Totals:
    """Rows per cell, and for each product of columns the sum over rows of the product of grid steps.

    Products have one to four factors, or more where ``from_lowest`` counts steps from the lower bound, in units of
    `coarsening`.
    """
    longest = max((len(product) for product in products), default=1)
    for product in products:
        if not product or (len(product) > 4 and not from_lowest) or not set(product) <= set(selected.columns):
            raise InvalidParameter(
                "products", product, f"must be one to four of {selected.columns}", "Check the names."
            )
    rows = _values(snapshot, selected)
    steps = {name: (rows[_step(selected, name)], snapshot.schema.bounds(name).reach) for name in selected.columns}
    if from_lowest:
        steps = {name: _above_lowest(snapshot.schema.bounds(name), step, longest) for name, (step, _) in steps.items()}
    sums: dict[str, Any] = {}
    terms: list[tuple[tuple[str, ...], int]] = []
    for product in products:
        factors = [steps[name][0] for name in product]
        reaches = [steps[name][1] for name in product]
        for shift, (parts, within) in enumerate(_limbs(factors, reaches)):
            terms.append((tuple(product), shift))
            sums[f"t{len(sums)}"] = exact_sum(parts, within)
    fetched = snapshot.dataset.fetch(rows.group_by(CELL).aggregate(n=rows.count(), **sums)).to_pydict()
    cells = snapshot.schema.cells(selected.by)
    found = {tuple(product): np.zeros(cells, dtype=object) for product in products}
    for position, (product, shift) in enumerate(terms):
        found[product] += by_cell(fetched, f"t{position}", cells) * LIMB ** shift.bit_count()
    return Totals(by_cell(fetched, "n", cells), found)


def _above_lowest(bounds: Bounds, step: Any, factors: int) -> tuple[Any, int]:
    """A value in merged steps above its lower bound, and the largest there is."""
    merged, reach = coarsening(bounds, factors)
    above = step - bounds.lowest
    # Dividing by a power of two is exact on every engine: 41 bits fit into a float.
    return (above if merged == 1 else ((above + merged // 2) // merged).cast("int64")), reach


def _values(snapshot: Snapshot, selected: Selected) -> ir.Table:
    """Cell and grid steps ``v0, v1, …`` of the rows that count, with their units where ids tell them apart."""
    rows = kept_rows(snapshot, selected)
    steps = {_step(selected, name): snapshot.column(rows, name) for name in selected.columns}
    units = [] if snapshot.schema.unit.column is None else [rows[UNIT]]
    return rows.select(*units, rows[CELL], **steps)


def _step(selected: Selected, name: str) -> str:
    return f"v{selected.columns.index(name)}"


def _limbs(factors: Sequence[Any], reaches: Sequence[int]) -> list[tuple[list[Any], list[int]]]:
    """The product as it stands; or, where its sum could leave 38 digits, its 2ᵏ products of upper and lower halves.

    The k-th bit of a product's place says that its k-th factor is an upper half, worth `LIMB`. A value is
    upper·LIMB + lower whichever way the engine rounds the quotient.
    """
    if len(factors) <= 2 or (math.prod(reaches) <= _HOLDS and max(reaches) ** 2 <= 2**62):
        return [(list(factors), list(reaches))]
    uppers = [(factor // LIMB).cast("int64") for factor in factors]
    halves = [(factor - upper * LIMB, upper) for factor, upper in zip(factors, uppers, strict=True)]
    # Steps above the lower bound of the widest column reach to 2⁴¹, and their upper halves beyond `LIMB`.
    within = [(LIMB, reach // LIMB + 1) for reach in reaches]
    bits = [[place >> k & 1 for k in range(len(factors))] for place in range(2 ** len(factors))]
    return [
        ([h[b] for h, b in zip(halves, up, strict=True)], [w[b] for w, b in zip(within, up, strict=True)])
        for up in bits
    ]


def by_cell(fetched: Mapping[str, list[Any]], name: str, cells: int) -> NDArray[Any]:
    """A column of a fetched table, by cell; cells without rows have nothing."""
    found = np.zeros(cells, dtype=object)
    for cell, value in zip(fetched[CELL], fetched[name], strict=True):
        found[cell] = int(value)
    return found


def histograms(snapshot: Snapshot, selected: Selected) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """For every cell, the grid steps of the single numeric column that occur and how often, in order."""
    if len(selected.columns) != 1:
        raise InvalidParameter("columns", selected.columns, "must be exactly one numeric column", "Name one column.")
    rows = _values(snapshot, selected)
    counted = rows.group_by([CELL, "v0"]).aggregate(n=rows.count()).order_by([CELL, "v0"])
    fetched = snapshot.dataset.fetch(counted)
    cell, steps, counts = (numbers_of(fetched.column(name)).astype(np.int64) for name in (CELL, "v0", "n"))
    ends = np.searchsorted(cell, np.arange(snapshot.schema.cells(selected.by) + 1))
    return [(steps[a:b], counts[a:b]) for a, b in pairwise(ends)]


def matrix(snapshot: Snapshot, columns: Sequence[str]) -> NDArray[np.float64]:
    """The clipped values of the numeric columns, one row per row of the data, brought here. Private."""
    if not snapshot.schema.unit_is_row:
        raise InvalidParameter(
            "unit", snapshot.schema.unit.name, "rows can only be taken one by one where a row is the unit",
            "Ask of data with one row per unit, and leave the id column out of the schema.",
        )  # fmt: skip
    selected = Selected(columns=tuple(columns))
    rows = _values(snapshot, selected)
    fetched = snapshot.dataset.fetch(rows.select(*(_step(selected, name) for name in columns)))
    grids = [snapshot.schema.bounds(name).grid for name in columns]
    steps = [numbers_of(column).astype(float) for column in fetched.columns]
    return np.column_stack([step * grid for step, grid in zip(steps, grids, strict=True)])


def squares(
    snapshot: Snapshot, selected: Selected, linear: Sequence[Mapping[str, Sequence[float]]], first: Mapping[str, Any]
) -> list[int]:
    """Over the rows that are kept, sums of (2f² − 1)(2g² − 1) for ``first`` f and each g, counted in `SHARES`.

    A linear function has a constant under "", for every number a slope per grid step, and for every column of labels a
    number per label. Squares are clipped to 1: what one row adds is between −1 and 1 whatever rounding does.
    """
    import ibis
    import pyarrow as pa

    functions = {f"f{at}": each for at, each in enumerate((first, *linear))}
    names = [*selected.columns, *selected.by, ""]
    given = {
        f"{at}_{name}_{k}": [float(w)]
        for at, each in functions.items()
        for name in names
        for k, w in enumerate(each[name])
    }
    # Numbers come in a table, not in the query, which is then compiled once for all fits of one shape.
    rows = kept_rows(snapshot, selected).cross_join(ibis.memtable(pa.table(given)))
    place: Any = rows[CELL].cast("int64")
    parts = {name: [snapshot.column(rows, name).cast("float64")] for name in selected.columns}
    for name in reversed(selected.by):  # codes of labels are digits of the cell: what is kept need not hold them
        count = snapshot.schema.categories(name).cells
        parts[name] = [(place % count == code).cast("int8").cast("float64") for code in range(count)]
        place = ((place - place % count) / count).cast("int64")
    made = {
        at: sum(
            (part * rows[f"{at}_{name}_{k}"] for name in parts for k, part in enumerate(parts[name])), rows[f"{at}__0"]
        )
        for at in functions
    }
    rows = rows.select(**made)  # a step by itself: engines repeat what is nested
    rows = rows.select(**{name: (rows[name] * rows[name]).clip(upper=1.0) * 2 - 1 for name in made})
    shares = {name: (rows.f0 * rows[name] * SHARES + 0.5).floor().cast("int64") for name in list(made)[1:]}
    sums = {name: exact_sum([share], [SHARES]) for name, share in shares.items()}
    found = snapshot.dataset.fetch(rows.aggregate(**sums)).to_pylist()[0]
    return [int(found[name] or 0) for name in sums]


def totals_by_partition(
    snapshot: Snapshot, selected: Selected, partitions: int | None
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows, sums and sums of squares of their offsets from the lower bound, by cell and partition of units.

    A unit's partition follows from the first digits of the SHA-256 of its own id, so it never depends on anybody else
    and is the same on every engine.
    """
    outcome = snapshot.schema.bounds(selected.columns[0])
    low, high = outcome.lowest, outcome.highest
    units = _values(snapshot, selected)
    part = 0 if partitions is None else digits(snapshot, _PARTITION_DIGITS, "p", units[UNIT]) * partitions // BUCKETS
    values = units.mutate(v=units.v0 - low, part=part)
    sums = {"t": exact_sum([values.v], [high - low]), "q": exact_sum([values.v, values.v], [high - low] * 2)}
    added = values.group_by([CELL, "part"]).aggregate(n=values.count(), **sums)
    fetched = snapshot.dataset.fetch(added).to_pydict()
    found = np.zeros((3, snapshot.schema.cells(selected.by), partitions or 1), dtype=object)
    for cell, place, *row in zip(*fetched.values(), strict=True):
        found[:, cell, place] = [int(value) for value in row]
    return found[0], found[1], found[2]


def unit_counts(snapshot: Snapshot, column: str, *, groups: int) -> tuple[list[Any], NDArray[np.int64]]:
    """The labels that occur in a column without a public list, and how many units keep each. Private."""
    held = _held_labels(snapshot, column, (), groups)
    found = snapshot.dataset.fetch(held.group_by("label").aggregate(n=held.count()))
    return found.column("label").to_pylist(), numbers_of(found.column("n")).astype(np.int64)


def distinct_labels(snapshot: Snapshot, column: str, by: Sequence[str], *, groups: int) -> NDArray[Any]:
    """The number of different labels of a column, or of units' ids, that units keep in each cell. Private."""
    labels = _held_labels(snapshot, column, by, groups).select(CELL, "label").distinct()
    fetched = snapshot.dataset.fetch(labels.group_by(CELL).aggregate(n=labels.count())).to_pydict()
    return by_cell(fetched, "n", snapshot.schema.cells(by))


def _held_labels(snapshot: Snapshot, column: str, by: Sequence[str], groups: int) -> ir.Table:
    """Cells and labels that count: ``groups`` pairs of each unit, chosen as its groups are; of a row its only one."""
    ids = column == snapshot.schema.unit.column
    snapshot.require(*by, *([] if ids else [column]))
    rows = taking_part(snapshot, Selected(by=tuple(by)))
    held = rows.mutate(label=rows[UNIT if ids else snapshot.names[column]])
    held = held.filter(held.label.notnull())
    if snapshot.schema.unit_is_row:
        return held
    return keep_groups(snapshot, held.select(UNIT, CELL, "label").distinct(), groups)


# ---- Weigh: totals of all rows of units, in which the rows of one unit weigh no more than its limit lets it keep
#
# A row is a public whole number, split into whole parts. A unit with m rows and a limit of k counts each
# sum of its parts times k/m, rounded down. So nothing is chosen, and no unit adds up to more than k rows. Proofs:
# ``docs/proofs/bounding.md``.


_LARGEST_WHOLE = 2**30
"""The most that a row is split into: fewer than 2³¹ rows of a unit then add up to less than 2⁶¹."""
_SQUARES = 2**62
"""The most that the square of a unit's steps is where they are added up as they are."""
_MOST_CELLS, _IN_ORDER = 2**18, 2**21
"""The most cells, and steps of one unit, of which whole units are added up in pieces: sums of squares fit 64 bits."""
_FEW_BITS = 10
"""Where more rows of a unit count than have so many binary digits, they are split less finely: into 2⁴⁰ together."""
_NUDGE = 2**-10
"""More than floating point can be off: parts that are whole stay so, and others are never more than they should be."""


def all_row_totals(snapshot: Snapshot, selected: Selected, degree: int) -> NDArray[Any]:
    """For every cell the weights of its rows in Bernstein parts of the degree, as fractions. Private.

    Of the single column that is selected, or, of degree 0 and for no column, the weights themselves.
    """
    units, whole, most = _weighed_units(snapshot, selected, degree)
    names = [f"p{place}" for place in range(degree + 1)]
    units = stored(snapshot.dataset, units)
    _refuse_heavy(snapshot, selected, units, names, limit := most * whole)
    totals = {name: exact_sum([units[name]], [limit]) for name in names}
    fetched = snapshot.dataset.fetch(units.group_by(CELL).aggregate(**totals)).to_pydict()
    cells = snapshot.schema.cells(selected.by)
    found = np.array([by_cell(fetched, name, cells) for name in names], dtype=object)
    return np.asarray(np.vectorize(lambda total: Fraction(total, whole), otypes=[object])(found.T))


def unit_totals(snapshot: Snapshot, selected: Selected) -> NDArray[Any]:
    """For every cell, over units, Σb, Σa, Σb², Σab, Σa² and what their weights leave of 1, as fractions. Private.

    The rows of a unit in a cell have the parts 1 − y and y, which add up to b and a, where as many rows as the limit
    allows are 1. What its rows leave of 1 falls to its cells in proportion to them.
    """
    most = _most(snapshot, selected)
    cells, bounds = snapshot.schema.cells(selected.by), snapshot.schema.bounds(selected.columns[0])
    scope = list(scope_of(snapshot.schema.contribution(selected.contribution)))
    lone = cells == 1 or CELL in scope
    if lone and not selected.all_rows and (most * (bounds.highest - bounds.lowest)) ** 2 <= _SQUARES:
        return _lone_totals(snapshot, selected, most, bounds)
    units, whole, _ = _weighed_units(snapshot, selected, 1, _LARGEST_WHOLE >> max(0, most.bit_length() - _FEW_BITS))
    limit = most * whole
    units = units.mutate(w=units.p0 + units.p1)
    units = units.mutate(whole=units.w.sum().over(group_by=scope).cast("int64"))
    units = stored(snapshot.dataset, units.mutate(left=_divided(units, limit - units.whole)).drop("w", "whole"))
    _refuse_heavy(snapshot, selected, units, ["p0", "p1", "left"], limit)
    p0, p1 = units.p0, units.p1
    factors = {"b": [p0], "a": [p1], "bb": [p0, p0], "ab": [p0, p1], "aa": [p1, p1], "left": [units.left]}
    sums = {name: exact_sum(each, [limit] * len(each)) for name, each in factors.items()}
    fetched = snapshot.dataset.fetch(units.group_by(CELL).aggregate(**sums)).to_pydict()
    found = [
        [Fraction(int(total), limit ** len(each)) for total in by_cell(fetched, name, cells)]
        for name, each in factors.items()
    ]
    return np.array(found, dtype=object).T


def _lone_totals(snapshot: Snapshot, selected: Selected, most: int, bounds: Bounds) -> NDArray[Any]:
    """The same of rows that are kept, where each cell of a unit has limits of its own: from exact sums of grid steps.

    A unit with n rows in a cell, s steps above the lower bound together, has a = s/kw and b = (nw − s)/kw, for k rows
    that are 1 and w steps from bound to bound.
    """
    cells, across = snapshot.schema.cells(selected.by), bounds.highest - bounds.lowest
    rows = kept_rows(snapshot, selected)
    rows = rows.mutate(s=snapshot.column(rows, selected.columns[0]) - bounds.lowest)
    sorted_by_unit = AT in rows.columns and most * across <= _IN_ORDER and cells <= _MOST_CELLS
    add = _sums_in_order if sorted_by_unit else _sums_by_query
    u, n, s, nn, ns, ss = add(snapshot, rows, cells, most, across)
    whole = most * across
    return np.array(
        [
            [Fraction(int(n[at] * across - s[at]), whole), Fraction(int(s[at]), whole),
             Fraction(int(nn[at] * across**2 - 2 * ns[at] * across + ss[at]), whole**2),
             Fraction(int(ns[at] * across - ss[at]), whole**2), Fraction(int(ss[at]), whole**2),
             u[at] - Fraction(int(n[at]), most)]
            for at in range(cells)
        ],
        dtype=object,
    )  # fmt: skip


def _sums_by_query(snapshot: Snapshot, rows: ir.Table, cells: int, most: int, across: int) -> list[NDArray[Any]]:
    """By cell the number of units, and Σn, Σs, Σn², Σns and Σs² over them."""
    units = rows.group_by([UNIT, CELL]).aggregate(n=rows.count(), s=exact_sum([rows.s], [across]).cast("int64"))
    factors = {"n": [units.n], "s": [units.s], "nn": [units.n] * 2, "ns": [units.n, units.s], "ss": [units.s] * 2}
    reach = {"n": most, "s": most * across}
    sums = {name: exact_sum(each, [reach[one] for one in name]) for name, each in factors.items()}
    outside = (units.s < 0) | (units.s > units.n * across)
    held = outside.ifelse(most + 1, units.n).max()
    fetched = snapshot.dataset.fetch(units.group_by(CELL).aggregate(u=units.count(), held=held, **sums)).to_pydict()
    refuse_more(snapshot, fetched["held"], most)
    return [by_cell(fetched, name, cells) for name in ("u", *sums)]


def _sums_in_order(snapshot: Snapshot, rows: ir.Table, cells: int, most: int, across: int) -> list[NDArray[Any]]:
    """The same of rows that are stored in the order of units: a unit's lie side by side, so none must be looked up."""
    found = np.zeros((6, cells), dtype=object)
    for units, cell, steps in whole_units(snapshot, rows.mutate(s=rows.s.cast("int32")), "s"):
        if not units.size:
            continue
        size = int(units[-1]) + 1
        key, order = side_by_side(cell.astype(np.int64) * size + units)
        begins = begins_of(key)
        n = np.diff(begins, append=key.size)
        s = np.add.reduceat(steps if order is None else steps[order], begins, dtype=np.int64)
        if n.max() > most or (s > n * across).any():
            raise excess(snapshot)
        own = key[begins] // size
        starts = begins_of(own)
        sums = [np.add.reduceat(part, starts) for part in (np.ones_like(n), n, s, n * n, n * s, s * s)]
        found[:, own[starts]] += np.array(sums).astype(object)
    return list(found)


def _most(snapshot: Snapshot, selected: Selected) -> int:
    """As many rows of a unit count in one scope."""
    return min(snapshot.schema.contribution(selected.contribution).most_rows_in_a_group(), TOO_MANY)


def _weighed_units(
    snapshot: Snapshot, selected: Selected, degree: int, largest: int = _LARGEST_WHOLE
) -> tuple[Any, int, int]:
    """Each unit once in each of its cells with its parts, the whole of a row, and the rows that count."""
    most = _most(snapshot, selected)
    rows = kept_rows(snapshot, selected)
    rows, whole, parts = _row_parts(snapshot, rows, selected, [degree] * len(selected.columns), largest)
    names = [f"p{place}" for place in range(degree + 1)]
    rows = rows.select(UNIT, CELL, **dict(zip(names, parts, strict=True)))
    sums = {name: clipped(exact_sum([rows[name]], [whole]), 0, whole * TOO_MANY) for name in names}
    units = rows.group_by([UNIT, CELL]).aggregate(n=rows.count(), **sums)
    scope = scope_of(snapshot.schema.contribution(selected.contribution))
    units = units.mutate(held=units.n.sum().over(group_by=list(scope)).cast("int64"))
    units = units.filter(units.held < TOO_MANY)
    weighed = {name: _weighed(units[name], units.held, most) for name in names}
    return units.select(UNIT, CELL, **weighed), whole, most


def _refuse_heavy(snapshot: Snapshot, selected: Selected, units: Any, names: Sequence[str], limit: int) -> None:
    """Refuse units whose parts are more than the limit together, or one of which is negative."""
    scope = scope_of(snapshot.schema.contribution(selected.contribution))
    weight = sum((units[name] < 0).ifelse(limit + 1, units[name]) for name in names)
    refuse_excess(snapshot, units.group_by(list(scope)).aggregate(n=weight.sum()), limit)


def weighed_totals(snapshot: Snapshot, selected: Selected, degrees: Sequence[int]) -> NDArray[Any]:
    """For every cell the tensor parts of the rows that have a weight, as fractions; weights are among the columns.

    Parts are rounded down to 2⁻³⁰ of a row. Private.
    """
    snapshot = snapshot.weighed()
    snapshot.require(*selected.by, *selected.columns)
    rows = taking_part(snapshot, selected)
    rows, whole, parts = _row_parts(snapshot, rows, selected, degrees)
    sums = {f"p{place}": exact_sum([part], [whole]) for place, part in enumerate(parts)}
    fetched = snapshot.dataset.fetch(rows.group_by(CELL).aggregate(**sums)).to_pydict()
    found = np.array([by_cell(fetched, name, snapshot.schema.cells(selected.by)) for name in sums], dtype=object)
    return np.asarray(np.vectorize(lambda total: Fraction(int(total), whole), otypes=[object])(found.T))


def _row_parts(
    snapshot: Snapshot, rows: ir.Table, selected: Selected, degrees: Sequence[int], largest: int = _LARGEST_WHOLE
) -> tuple[ir.Table, int, list[Any]]:
    """Rows, the whole that each is split into, and its parts: whole numbers from 0 up, none above its exact share."""
    import ibis

    if not selected.columns:
        return rows, largest, [ibis.literal(largest).cast("int64")]
    bounds = [snapshot.schema.bounds(name) for name in selected.columns]
    steps = math.prod((one.highest - one.lowest) ** degree for one, degree in zip(bounds, degrees, strict=True))
    exact = steps <= largest
    whole = largest - largest % (steps if exact else 1)
    nudge = _NUDGE if exact else -_NUDGE
    found: list[Any] = [float(whole)]
    for place, (name, one, degree) in enumerate(zip(selected.columns, bounds, degrees, strict=True)):
        above, across = snapshot.column(rows, name) - one.lowest, one.highest - one.lowest
        up, down = (side.cast("float64") / float(across) for side in (above, across - above))
        own: list[Any] = []
        for k in range(degree + 1):
            share: Any = float(math.comb(degree, k))
            own.append(math.prod([up] * k + [down] * (degree - k), start=share))  # not powers: engines multiply alike
        products = {f"f{place}_{at}": own[at % len(own)] * found[at // len(own)] for at in range(len(own) * len(found))}
        rows = rows.mutate(**products)
        found = [rows[name] for name in products]
    return rows, whole, [(share + nudge).floor().cast("int64").clip(0, whole) for share in found]


def _weighed(total: Any, held: Any, most: int) -> Any:
    """A unit's total times most/held, rounded down, where it holds more rows than the most that may count."""
    over = quotient(total, held) * most + quotient(total % held * most, held)
    return (held <= most).ifelse(total, over)


# ---- Design: sums of powers of weights and values, for estimates about the population that the rows were sampled from
#
# A unit has one weight u and one value y in each cell: those of its row, or the sum of its rows' weights and their mean
# by weight. Its weights and what is left up to ``top`` add up to at most ``top``. Proof: ``docs/proofs/weights.md``.


_HEAVIEST = 2**42
"""The most that a unit weighs in one cell before it is trimmed: over a million of them the sum fits 64 bits."""
_FINE = 2**30
"""Means of a unit's values by weight are rounded to at least so many steps between the bounds."""


@dataclass(frozen=True, repr=False)
class DesignTotals:
    """Per cell the sums of products of powers, of what is left of ``top`` and of that where weights were trimmed.

    ``reach`` is the value of the upper bound; weights and what is left count in grid steps of the weight. Private.
    """

    sums: Mapping[tuple[int, int], NDArray[Any]]
    left: NDArray[Any]
    trimmed: NDArray[Any]
    reach: int


def design_totals(
    snapshot: Snapshot,
    by: Sequence[str],
    value: str | None,
    label: int | None,
    powers: Sequence[tuple[int, int]],
    *,
    trim: int,
    top: int,
) -> DesignTotals:
    """Sums over units, in whose place a row stands where it is the unit; a row without a weight takes no part.

    Parameters
    ----------
    value, label
        The column that is weighed, if any, and the code of the label whose rows count as one and others as nothing.
    powers
        Powers of weight and value whose products are added up; among them that of the weight alone.
    trim, top
        The largest weight that counts, in grid steps, and what weights and what is left of it add up to.
    """
    weight = cast(Design, snapshot.schema.design).weight
    selected = Selected(by=tuple(by), columns=(weight,) if value is None else (weight, value))
    snapshot.require(*selected.by, *selected.columns)
    rows = taking_part(snapshot, selected)
    steps: dict[str, Any] = {"w": snapshot.column(rows, weight)}
    reach = 1
    if value is not None and label is not None:
        steps["y"] = (snapshot.column(rows, value) == label).ifelse(1, 0).cast("int64")
    elif value is not None:
        bounds = snapshot.schema.bounds(value)
        reach = bounds.highest - bounds.lowest
        steps["y"] = snapshot.column(rows, value) - bounds.lowest
    rows = rows.mutate(**steps)
    rows = rows.filter(rows.w > 0)
    if snapshot.schema.unit.column is None:
        over = (rows.w > trim).ifelse(1, 0)
        units = rows.mutate(w=rows.w.clip(upper=trim), over=over)
        counted = {"n": units.count(), "o": units.over.sum()}
    else:
        units, reach = _clusters(snapshot, rows, value, trim, top, reach, snapshot.schema.bounds(weight).highest)
        left = units.left
        counted = {"n": exact_sum([left], [top]), "o": exact_sum([units.over.ifelse(left, 0)], [top])}
    sums = {}
    for place, (p, q) in enumerate(powers):
        factors = [units.w] * p + ([units.y] * q if q else [])
        for shift, (parts, within) in enumerate(_limbs(factors, [trim] * p + [reach] * q)):
            sums[f"t{place}_{shift}"] = exact_sum(parts, within)
    fetched = snapshot.dataset.fetch(units.group_by(CELL).aggregate(**counted, **sums)).to_pydict()
    cells = snapshot.schema.cells(selected.by)
    found = {power: np.zeros(cells, dtype=object) for power in powers}
    for name in sums:
        place, shift = map(int, name[1:].split("_"))
        found[powers[place]] += by_cell(fetched, name, cells) * LIMB ** shift.bit_count()
    left, trimmed = by_cell(fetched, "n", cells), by_cell(fetched, "o", cells)
    if snapshot.schema.unit.column is None:
        left, trimmed = left * top - found[1, 0], trimmed * (top - trim)
    return DesignTotals(found, left - trimmed, trimmed, reach)


def _clusters(
    snapshot: Snapshot, rows: ir.Table, value: str | None, trim: int, top: int, reach: int, high: int
) -> tuple[Any, int]:
    """Each unit once in each of its cells: weight, mean value, and its part of what is left up to ``top``.

    Weights that exceed the trim together, and what is left, are divided in proportion and rounded down.
    """
    finer = max(1, _FINE // reach)
    weight = exact_sum([rows.w], [high])
    sums = {"w": clipped(weight, 0, _HEAVIEST)}
    if value is not None:
        mean = exact_sum([rows.w, rows.y], [high, reach]).cast("float64") / weight.cast("float64")
        sums["y"] = (mean * finer + 0.5).floor().clip(0, reach * finer).cast("int64")
    units = rows.group_by([UNIT, CELL]).aggregate(**sums)
    units = units.mutate(whole=units.w.sum().over(group_by=UNIT).cast("int64"))
    units = units.mutate(over=units.whole > trim, kept=units.whole.clip(upper=trim))
    weights = units.over.ifelse(_divided(units, units.kept), units.w)  # none is rounded where nothing is trimmed
    parts = {"w": weights, "left": _divided(units, top - units.kept)}
    values = {} if value is None else {"y": units.y}
    units = stored(snapshot.dataset, units.select(UNIT, CELL, over=units.over, **parts, **values))
    both = ((units.w < 0) | (units.left < 0)).ifelse(top + 1, units.w + units.left)
    refuse_excess(snapshot, units.group_by(UNIT).aggregate(n=both.sum()), top)
    return units, reach * finer


def _divided(units: ir.Table, whole: Any) -> Any:
    """The part of a whole that falls to a unit's weight in one cell: all of it in the only one, else never too much."""
    share = units.w.cast("float64") / units.whole.cast("float64") * whole.cast("float64")
    return (units.w == units.whole).ifelse(whole, (share - _NUDGE).floor().cast("int64").clip(lower=0))


# ---- Left out: what limits and missing values keep out of a question, unit by unit and up to a public number of rows


def dropped_rows(snapshot: Snapshot, selected: Selected, most: int) -> tuple[int, int, int]:
    """Units with rows left out, rows beyond the limits, rows without a value: ``most`` rows of a unit. Private.

    A unit's rows beyond the limits count first. Both numbers are clipped, so that no engine can make one unit count
    for more than ``most``.
    """
    taking = taking_part(snapshot, selected)
    if snapshot.schema.unit_is_row:
        both = [snapshot.dataset.fetch(rows.aggregate(n=rows.count())) for rows in (snapshot.table, taking)]
        whole, part = (int(found.column("n")[0].as_py()) for found in both)
        return whole - part, 0, whole - part
    kept = kept_rows(snapshot, selected)
    units = snapshot.table.group_by(UNIT).aggregate(held=snapshot.table.count())
    for rows, name in ((taking, "part"), (kept, "kept")):
        own = rows.group_by(UNIT).aggregate(n=rows.count())
        units = units.left_join(own, UNIT).select(*units.columns, **{name: own.n.fill_null(0)})
    over = (units.part - units.kept).clip(0, most)
    units = units.mutate(over=over, missing=(units.held - units.part).clip(0, most))
    units = units.mutate(missing=(units.missing + units.over > most).ifelse(most - units.over, units.missing))
    any_row = (units.over + units.missing > 0).ifelse(1, 0)
    sums = units.aggregate(units=any_row.sum(), over=units.over.sum(), missing=units.missing.sum())
    found = snapshot.dataset.fetch(sums).to_pylist()[0]
    return tuple(int(found[name] or 0) for name in ("units", "over", "missing"))  # type: ignore[return-value]


# ---- Usability: how many values of each column can be read, lie inside the bounds and are on the list


WHOLE = 256
"""Parts of a unit whose values can all be used."""


def usable_totals(snapshot: Snapshot, names: Sequence[str], sides: Sequence[str] = ()) -> tuple[int, list[int]]:
    """Units that take part, and for each column the parts of them, of `WHOLE`, whose values can be used. Private.

    After these, for each of ``sides``, the parts whose values lie below the bounds, and above. A unit counts for the
    share of its rows, rounded down and clipped, so that none counts for more than `WHOLE`.
    """
    snapshot.require(*names, *sides)
    marked = snapshot.with_marks()
    table = marked.table
    asked = [*((name, USABLE) for name in names), *((name, side) for name in sides for side in (BELOW, ABOVE))]
    found_at = [table[MARK + marked.names[name]] == mark for name, mark in asked]
    marks = {f"s{place}": one.cast("int64").sum() for place, one in enumerate(found_at)}
    if not snapshot.schema.unit_is_row:
        units = table.group_by(UNIT).aggregate(held=table.count(), **marks)
        shares = {name: (units[name] * WHOLE / units.held).floor().cast("int64").clip(0, WHOLE) for name in marks}
        table = units.select(**shares)
        marks = {name: table[name].sum() for name in marks}
    found = marked.dataset.fetch(table.aggregate(n=table.count(), **marks)).to_pylist()[0]
    scale = WHOLE if snapshot.schema.unit_is_row else 1
    return int(found["n"]), [int(found[name] or 0) * scale for name in marks]
