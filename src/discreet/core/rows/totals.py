"""Totals: exact counts, sums and histograms of the rows that are kept, added up on the engine.

Everything that is added is a whole number of grid steps, so sums are exact and in any order the same. Each is clipped
before it is cast, and added in a type that holds the largest sum the public bounds allow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import InvalidParameter
from discreet.core.rows.expressions import LIMB, TOO_MANY, clipped, exact_sum, quotient
from discreet.core.rows.keep import CELL, Selected, digits, keep_groups, kept_rows, refuse_excess, scope_of, taking_part
from discreet.core.rows.snapshot import MARK, UNIT, Snapshot, stored, take
from discreet.core.schema import Bounds

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = [
    "BUCKETS", "SHARES", "Totals", "WHOLE", "by_cell", "coarsening", "distinct_labels",
    "histograms", "dropped_rows", "matrix", "squares", "totals", "totals_by_partition", "unit_counts", "usable_totals",
    "weighted_totals",
]  # fmt: skip


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
        factors, reaches = [steps[name][0] for name in product], [steps[name][1] for name in product]
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
    cell, steps, counts = (fetched.column(name).to_numpy().astype(np.int64) for name in (CELL, "v0", "n"))
    ends = np.searchsorted(cell, np.arange(snapshot.schema.cells(selected.by) + 1))
    return [(steps[a:b], counts[a:b]) for a, b in pairwise(ends)]


def matrix(snapshot: Snapshot, columns: Sequence[str]) -> NDArray[np.float64]:
    """The clipped values of the numeric columns, one row per row of the data, brought here. Private."""
    if not snapshot.by_row:
        raise InvalidParameter(
            "unit", snapshot.schema.unit.name, "rows can only be taken one by one where a row is the unit",
            "Ask of data with one row per unit, and leave the id column out of the schema.",
        )  # fmt: skip
    selected = Selected(columns=tuple(columns))
    rows = _values(snapshot, selected)
    fetched = snapshot.dataset.fetch(rows.select(*(_step(selected, name) for name in columns)))
    grids = [snapshot.schema.bounds(name).grid for name in columns]
    steps = [column.to_numpy().astype(float) for column in fetched.columns]
    return np.column_stack([step * grid for step, grid in zip(steps, grids, strict=True)])


def squares(
    snapshot: Snapshot, selected: Selected, linear: Sequence[Mapping[str, Sequence[float]]], first: Mapping[str, Any]
) -> list[int]:
    """Over the rows that are kept, sums of (2f² − 1)(2g² − 1) for ``first`` f and each g, counted in `SHARES`.

    A linear function has a constant under "", for every number a slope per grid step, and for every column of labels a
    number per label. Squares are clipped to 1: what one row adds is between −1 and 1 whatever rounding does.
    """
    rows = kept_rows(snapshot, selected)
    place: Any = rows[CELL].cast("int64")
    parts = {name: [snapshot.column(rows, name).cast("float64")] for name in selected.columns}
    for name in reversed(selected.by):  # codes of labels are digits of the cell: what is kept need not hold them
        count = snapshot.schema.categories(name).cells
        parts[name] = [(place % count == code).cast("int8").cast("float64") for code in range(count)]
        place = ((place - place % count) / count).cast("int64")
    made = {
        f"f{at}": sum((part * w for name in parts for part, w in zip(parts[name], each[name], strict=True)), *each[""])
        for at, each in enumerate((first, *linear))
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
    return found.column("label").to_pylist(), found.column("n").to_numpy().astype(np.int64)


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
    return held if snapshot.by_row else keep_groups(snapshot, held.select(UNIT, CELL, "label").distinct(), groups)


# ---- Weigh: totals of all rows of units, in which the rows of one unit weigh no more than its limit lets it keep
#
# A row is a public whole number, split into whole parts. A unit with m rows and a limit of k counts each
# sum of its parts times k/m, rounded down. So nothing is chosen, and no unit adds up to more than k rows. Proofs:
# ``docs/proofs/bounding.md``.


_LARGEST_WHOLE = 2**30
"""The most that a row is split into: fewer than 2³¹ rows of a unit then add up to less than 2⁶¹."""
_NUDGE = 2**-10
"""More than floating point can be off: parts that are whole stay so, and others are never more than they should be."""


def weighted_totals(snapshot: Snapshot, selected: Selected, degree: int) -> NDArray[Any]:
    """For every cell the weights of its rows in Bernstein parts of the degree, as fractions. Private.

    Of the single column that is selected, or, of degree 0 and for no column, the weights themselves.
    """
    limits = snapshot.schema.contribution(selected.contribution)
    most = min(limits.most_rows_in_a_group(), TOO_MANY)
    rows = kept_rows(snapshot, selected)
    whole, parts = _row_parts(snapshot, rows, selected, degree)
    names = [f"p{place}" for place in range(degree + 1)]
    rows = rows.select(UNIT, CELL, **dict(zip(names, parts, strict=True)))
    sums = {name: clipped(exact_sum([rows[name]], [whole]), 0, whole * TOO_MANY) for name in names}
    units = rows.group_by([UNIT, CELL]).aggregate(n=rows.count(), **sums)
    scope = scope_of(limits)
    units = units.mutate(held=units.n.sum().over(group_by=list(scope)).cast("int64"))
    units = units.filter(units.held < TOO_MANY)
    weighed = {name: _weighed(units[name], units.held, most) for name in names}
    units = stored(snapshot.dataset, units.select(UNIT, CELL, **weighed))
    limit = most * whole
    weight = sum((units[name] < 0).ifelse(limit + 1, units[name]) for name in names)  # none may be negative either
    refuse_excess(snapshot, units.group_by(list(scope)).aggregate(n=weight.sum()), limit)
    totals = {name: exact_sum([units[name]], [limit]) for name in names}
    fetched = snapshot.dataset.fetch(units.group_by(CELL).aggregate(**totals)).to_pydict()
    cells = snapshot.schema.cells(selected.by)
    found = np.array([by_cell(fetched, name, cells) for name in names], dtype=object)
    return np.asarray(np.vectorize(lambda total: Fraction(total, whole), otypes=[object])(found.T))


def _row_parts(snapshot: Snapshot, rows: ir.Table, selected: Selected, degree: int) -> tuple[int, list[Any]]:
    """The whole that a row is split into, and its parts: whole numbers, not negative, none above its exact share."""
    import ibis

    if not selected.columns:
        return _LARGEST_WHOLE, [ibis.literal(_LARGEST_WHOLE).cast("int64")]
    bounds = snapshot.schema.bounds(selected.columns[0])
    across = bounds.highest - bounds.lowest
    exact = across**degree <= _LARGEST_WHOLE
    whole = _LARGEST_WHOLE - _LARGEST_WHOLE % (across**degree if exact else 1)
    nudge = _NUDGE if exact else -_NUDGE
    above = snapshot.column(rows, selected.columns[0]) - bounds.lowest
    up, down = (steps.cast("float64") / float(across) for steps in (above, across - above))
    parts: list[Any] = []
    for place in range(degree + 1):
        share: Any = float(math.comb(degree, place) * whole)
        share = math.prod([up] * place + [down] * (degree - place), start=share)  # not powers: engines multiply alike
        parts.append((share + nudge).floor().cast("int64").clip(0, whole))
    return whole, parts


def _weighed(total: Any, held: Any, most: int) -> Any:
    """A unit's total times most/held, rounded down, where it holds more rows than the most that may count."""
    over = quotient(total, held) * most + quotient(total % held * most, held)
    return (held <= most).ifelse(total, over)


# ---- Left out: what limits and missing values keep out of a question, unit by unit and up to a public number of rows


def dropped_rows(snapshot: Snapshot, selected: Selected, most: int) -> tuple[int, int, int]:
    """Units with rows left out, rows beyond the limits, rows without a value: ``most`` rows of a unit. Private.

    A unit's rows beyond the limits count first. Both numbers are clipped, so that no engine can make one unit count
    for more than ``most``.
    """
    taking = taking_part(snapshot, selected)
    if snapshot.by_row:
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


def usable_totals(snapshot: Snapshot, names: Sequence[str]) -> tuple[int, list[int]]:
    """Units that take part, and for each column the parts of them, of `WHOLE`, whose values can be used. Private.

    A unit counts for the share of its rows, rounded down and clipped, so that none counts for more than `WHOLE`.
    """
    snapshot.require(*names)
    marked = take(snapshot.dataset, snapshot.schema, salt=snapshot.salt, marked=True, attach=snapshot.attach)
    table = marked.table
    marks = {f"s{place}": table[MARK + marked.names[name]].cast("int64").sum() for place, name in enumerate(names)}
    if not snapshot.by_row:
        units = table.group_by(UNIT).aggregate(held=table.count(), **marks)
        shares = {name: (units[name] * WHOLE / units.held).floor().cast("int64").clip(0, WHOLE) for name in marks}
        table = units.select(**shares)
        marks = {name: table[name].sum() for name in marks}
    found = marked.dataset.fetch(table.aggregate(n=table.count(), **marks)).to_pylist()[0]
    scale = WHOLE if snapshot.by_row else 1
    return int(found["n"]), [int(found[name] or 0) * scale for name in marks]
