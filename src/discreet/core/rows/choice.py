"""Choice: which groups and rows of a unit count, where it has more than its limits.

A unit's groups, and its rows, are put in an order that only its own data decide. Of N it keeps k at even distances,
from a start that SHA-256 draws from the data set's salt and the unit's id. So each is equally likely to be kept, no
other unit has a part in the choice, and every engine makes the same one. Proofs: ``docs/proofs/bounding.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import SourceError
from discreet.core.rows.engines import arrow_of, numbers_of
from discreet.core.rows.expressions import quotient
from discreet.core.rows.snapshot import AT, UNIT, Snapshot, marked, stored

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa


CELL = "c"
"""Column of cell numbers in what is kept."""
_SALT_DIGITS = 32
"""128 secret bits: with most ids the text then fits one block of SHA-256, which halves its cost."""
START_DIGITS = 12
"""A start among N is off uniform by at most N/2⁴⁸."""
_PIECE, _FEW = 1 << 20, 8
"""Rows that are looked at together; rows of one unit that are compared with each other, one bit of a byte each."""
_MOST_BITS = 62
_END, _START = "last", "start"
_SEVERAL, _MARKED = "several", "marked"
Ask = Callable[..., Any]
Border = tuple[int, int, tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a unit keeps: so many of its groups, and so many rows in each of them, or in all.

    Attributes
    ----------
    groups, rows
        The limits; None where there is none.
    cells
        The number of groups that there are, where they are told apart; None where a unit's rows count in all.
    first
        Keep a unit's first groups instead of groups at even distances.
    """

    groups: int | None
    rows: int | None
    cells: int | None
    first: bool = False

    def exceeded(self, groups: int, rows: int) -> bool:
        """True where so many groups of a unit, or rows in one scope of it, are more than it may keep."""
        held = ((self.groups, groups), (self.rows, rows))
        return any(limit is not None and found > limit for limit, found in held)


def digits(snapshot: Snapshot, count: int, *parts: Any) -> Any:
    """The number that the first hexadecimal digits of a SHA-256 write: of half of the salt and the parts in turn."""
    import ibis

    text = ibis.literal(snapshot.salt[:_SALT_DIGITS])
    for part in parts:
        text = text.concat("|", part if isinstance(part, str) else part.cast("string"))
    first = text.hexdigest("sha256").left(count)
    if snapshot.dataset.engine == "duckdb":
        return ("0x" + first).cast("int64")
    return _conv()(first, 16, 10).cast("int64")


@cache
def _conv() -> Any:
    """A function of Spark that ibis has no name for."""
    import ibis

    def conv(text: str, base: int, to: int) -> str: ...  # type: ignore[empty-body]

    return ibis.udf.scalar.builtin(conv)


def evenly(position: Any, count: Any, start: Any, limit: int) -> Any:
    """True where a position among ``count`` is one of the ``limit`` that are kept; all are where count ≤ limit."""
    turned = (position + start) % count
    if limit > 2**22 and not isinstance(turned, np.ndarray):  # 2⁴⁰ rows of one unit must not overflow
        turned = turned.cast("decimal(38, 0)")
    return (count <= limit) | ((turned * limit) % count < limit)


def chosen(snapshot: Snapshot, rows: ir.Table, columns: Sequence[str], limits: Limits) -> ir.Table:
    """These columns of the rows that units keep, computed once, and checked before they are used."""
    if snapshot.dataset.engine == "duckdb":
        return _in_pieces(snapshot, rows, limits)
    return _by_query(snapshot, rows, columns, limits)


def keep_groups(snapshot: Snapshot, pairs: ir.Table, groups: int) -> ir.Table:
    """The pairs of unit and group that are kept; a group is told by all other columns."""
    import ibis

    own = ibis.window(group_by=pairs[UNIT])
    ordered = ibis.window(group_by=pairs[UNIT], order_by=[pairs[name] for name in pairs.columns if name != UNIT])
    ranked = pairs.mutate(count=pairs.count().over(own), position=ibis.row_number().over(ordered))
    over = ranked["count"] > groups
    ranked = ranked.mutate(start=over.ifelse(digits(snapshot, START_DIGITS, "g", ranked[UNIT]), 0))
    return ranked.filter(evenly(ranked.position, ranked["count"], ranked.start, groups)).select(*pairs.columns)


def refuse_excess(snapshot: Snapshot, held: ir.Table, limit: int) -> None:
    """Noise is calibrated to the limits, so an engine that counts more ``n`` of a unit must not be believed."""
    refuse_more(snapshot, snapshot.dataset.fetch(held.aggregate(most=held.n.max())).column("most").to_pylist(), limit)


def refuse_more(snapshot: Snapshot, held: Sequence[int | None], limit: int) -> None:
    """The same, for numbers that were fetched."""
    if max((one or 0 for one in held), default=0) > limit:
        raise excess(snapshot)


def excess(snapshot: Snapshot) -> SourceError:
    """What is said of an engine that counts more of a unit than its limits allow."""
    return SourceError(
        f"engine = {snapshot.dataset.engine!r}: kept more of a unit than its limits allow, so its totals cannot be "
        "used. Check the engine with discreet.testing.check_source. Nothing was spent."
    )


# ---- By query: windows over the rows of each unit.


def _by_query(snapshot: Snapshot, rows: ir.Table, columns: Sequence[str], limits: Limits) -> ir.Table:
    import ibis

    scope = [UNIT] if limits.cells is None else [UNIT, CELL]
    # Each window asks for the order of the first, or the beginning of it, so rows are sorted once. In that of groups,
    # as of partitions, nulls come first: there are none, but the engine cannot know.
    ordered = ibis.window(group_by=scope, order_by=[*snapshot.names.values()])
    rows = rows.mutate(position=ibis.row_number().over(ordered), held=rows.count().over(ordered))
    first, most, over = rows.position == 0, rows.held, ibis.literal(False)
    if limits.cells is not None:
        alike = ibis.window(group_by=UNIT, order_by=rows[CELL].asc(nulls_first=True))
        reached = first.cast("int64").sum().over(alike)
        rows = rows.mutate(place=ibis.dense_rank().over(alike), reached=reached, most=most.max().over(alike))
        first, most = (rows.position == 0) & (rows.place == 0), rows.most
    if limits.rows is not None:
        over = over | (most > limits.rows)
    if limits.groups is not None:
        over = over | (rows.reached > limits.groups)
    start = (first & over).ifelse(digits(snapshot, START_DIGITS, "k", rows[UNIT]), 0)  # drawn once for each unit
    rows = rows.mutate(start=start.max().over(group_by=UNIT))
    if limits.groups is not None:
        rows = rows.filter(evenly(rows.place, rows.reached, 0 if limits.first else rows.start, limits.groups))
        if not limits.first:
            rest = (rows.reached > limits.groups).ifelse(quotient(rows.start, rows.reached), rows.start)
            rows = rows.mutate(start=rest)
    if limits.rows is not None:
        rows = rows.filter(evenly(rows.position, rows.held, rows.start, limits.rows))
    found = stored(snapshot.dataset, rows.select(*columns))
    counted = found.select(groups=1, rows=found.count().over(group_by=UNIT))  # again, from what was kept
    if limits.cells is not None:
        alike = ibis.window(group_by=UNIT, order_by=found[CELL].asc(nulls_first=True))
        within = ibis.row_number().over(alike) - ibis.rank().over(alike)
        counted = found.select(groups=ibis.dense_rank().over(alike) + 1, rows=within + 1)
    most_held = counted.aggregate(groups=counted.groups.max(), rows=counted.rows.max())
    if limits.exceeded(*(column[0].as_py() or 0 for column in snapshot.dataset.fetch(most_held).columns)):
        raise excess(snapshot)
    return found


# ---- In pieces: rows that are stored in the order of units and of their values need no sort.
#
# What a choice leaves behind is one bit per stored row, beside which the rows are read again.


def _in_pieces(snapshot: Snapshot, rows: ir.Table, limits: Limits) -> ir.Table:
    units, borders = _several(snapshot)
    dataset = snapshot.dataset
    asked = rows.select(UNIT, AT) if limits.cells is None else rows.select(UNIT, AT, CELL)
    ask, near = dataset.asked_again(asked), dataset.asked_again(units)
    names = ", ".join(name for name in asked.columns if name != UNIT)
    bits = np.zeros(borders[-1][1], bool)
    for low, high, ids in borders:
        found = _between(ask, names, ids)
        at = _places(snapshot, found, low, high)
        begin, end, start = (numbers_of(one) for one in near("*", f"{AT} BETWEEN {low} AND {high - 1}").columns)
        begin, end = begin - low, end - low + 1
        if at.size < high - low:  # rows that take no part have no place among those that do
            before = np.zeros(high - low + 1, np.int64)
            before[at - low + 1] = 1
            before = np.cumsum(before)
            begin, end = before[begin], before[end]
        cell = np.zeros(at.size, np.int8) if limits.cells is None else numbers_of(found.column(CELL))
        bits[at] = _kept(snapshot, cell, begin, end - begin, start, limits)
    return _marked(snapshot, rows, bits)


def _marked(snapshot: Snapshot, rows: ir.Table, bits: NDArray[np.bool_]) -> ir.Table:
    """The rows whose bit is set: the same expressions over them."""
    from ibis.expr import operations

    (whole,) = rows.op().find(operations.DatabaseTable)
    beside = marked(snapshot.dataset, whole, bits)
    _bits[beside] = whole, np.packbits(bits, bitorder="little")

    def replaced(node: Any, inside: Any) -> Any:
        if isinstance(node, operations.Filter):  # rows that take no part have no bit
            return inside["parent"]
        return beside if node is whole else node.__recreate__(inside) if inside else node

    kept = rows.op().replace(replaced).to_expr()
    if _MARKED not in snapshot.kept:  # whether the engine puts bits beside rows in their order does not depend on bits
        again = snapshot.dataset.fetch(kept.aggregate(n=kept.count(), sum=kept[AT].sum().cast("decimal(38, 0)")))
        places = np.flatnonzero(bits)
        if [int(one[0].as_py() or 0) for one in again.columns] != [places.size, int(places.sum())]:
            raise excess(snapshot)
        snapshot.kept[_MARKED] = True
    return kept


_bits: WeakKeyDictionary[Any, tuple[Any, NDArray[np.uint8]]] = WeakKeyDictionary()
"""For rows that are marked, those that are stored, and their bits."""


def whole_units(
    snapshot: Snapshot, rows: ir.Table, column: str
) -> Iterator[tuple[NDArray[np.int32], NDArray[Any], NDArray[Any]]]:
    """Units, counted through, cells and a column of numbers from 0 up, of rows that are kept: whole units at once."""
    from ibis.expr import operations

    chosen = [one for one in rows.op().find(operations.DatabaseTable) if one in _bits]
    whole, bits = _bits[chosen[0]] if chosen else (None, None)

    def replaced(node: Any, inside: Any) -> Any:
        return whole if node in chosen else node.__recreate__(inside) if inside else node

    # The engine would have to look at all marks for each piece; the stored rows of a piece it finds by their units.
    asked = rows.op().replace(replaced).to_expr().select(UNIT, AT, CELL, column)
    ask = snapshot.dataset.asked_again(asked)
    names = ", ".join([UNIT, AT, *(f"coalesce({one}, -1) AS {one}" for one in (CELL, column))])  # of rows that are left
    for low, high, ids in _several(snapshot)[1]:
        found = _between(ask, names, ids)
        at = _places(snapshot, found, low, high) if bits is None else _places(snapshot, found, 0, np.inf)
        units = np.cumsum(_firsts(snapshot, found.column(UNIT).combine_chunks()), dtype=np.int32)
        cell, values = (numbers_of(found.column(name)) for name in (CELL, column))
        if bits is not None:  # rows that take no part are there as well, and may lie beyond the places of the others
            own = slice(*np.searchsorted(at, [low, high]))
            kept = np.flatnonzero(
                np.unpackbits(bits[low // 8 : high // 8 + 1], bitorder="little")[at[own] - low // 8 * 8]
            )
            units, cell, values = (one[own][kept] for one in (units, cell, values))  # places are faster than a mask
        if units.size and min(cell.min(), values.min()) < 0:
            raise excess(snapshot)
        yield units, cell, values


def _places(snapshot: Snapshot, piece: pa.Table, low: int, high: float) -> NDArray[np.int64]:
    """The places of rows of a piece. Refuses rows that come twice, or in another order."""
    at = numbers_of(piece.column(AT))
    if at.size and (at[0] < low or at[-1] >= high or (at[1:] <= at[:-1]).any()):
        raise excess(snapshot)
    return at


def _between(ask: Ask, names: str, ids: tuple[Any, Any]) -> pa.Table:
    """The rows of the units after one id and up to another."""
    ends = [f"{UNIT} {sign} {_literal(one)}" for sign, one in zip((">", "<="), ids, strict=True) if one is not None]
    return ask(names, " AND ".join(["true", *ends])).combine_chunks()


def _literal(unit: int | str) -> str:
    """A unit's id in SQL, whatever signs it has."""
    return str(unit) if isinstance(unit, int) else f"decode(from_hex('{unit.encode().hex()}'))"


def _several(snapshot: Snapshot) -> tuple[ir.Table, list[Border]]:
    """The units with several rows, with the places of the first and the last and the number that each draws. Once.

    After them the pieces that hold whole units: their places, and the ids that they lie between.
    """
    found: tuple[ir.Table, list[Border]] | None = snapshot.kept.get(_SEVERAL)
    if found is None:
        rows = snapshot.table.select(AT, UNIT)
        ask = snapshot.dataset.asked_again(rows)
        units = stored(snapshot.dataset, rows.mutate(**{_END: rows[AT]}).limit(0))
        most = ask(f"max({AT}) AS {_END}", "true").column(0)[0].as_py() or 0
        places = ", ".join(map(str, range(_PIECE - 1, most, _PIECE)))
        ids = ask(f"DISTINCT {UNIT}", f"{AT} IN ({places}) ORDER BY {UNIT}").column(0).to_pylist() if places else []
        low, borders = 0, []
        for between in pairwise([None, *ids, None]):
            piece = _between(ask, "*", between)
            first = _firsts(snapshot, piece.column(UNIT).combine_chunks())
            at = _places(snapshot, piece, low, np.inf)
            begins = np.flatnonzero(first)
            ends = np.append(begins[1:], len(first)) - 1
            begins, ends = begins[ends > begins], ends[ends > begins]
            several = piece.take(arrow_of(begins))
            snapshot.dataset.append(units, several.append_column(_END, arrow_of(at[ends])))
            high = int(at[-1]) + 1 if at.size else low
            borders.append((low, high, between))
            low = high
        number = {_START: digits(snapshot, START_DIGITS, "k", units[UNIT])}
        found = snapshot.kept[_SEVERAL] = stored(snapshot.dataset, units.select(AT, _END, **number)), borders
    return found


def _firsts(snapshot: Snapshot, units: pa.Array) -> NDArray[np.bool_]:
    """Which rows are the first of their unit. Refuses units in another order: one could be met twice."""
    from pyarrow import compute

    first = np.ones(len(units), bool)
    if len(units) > 1:
        before, after = units.slice(0, len(units) - 1), units.slice(1)
        if not compute.all(compute.less_equal(before, after), skip_nulls=False).as_py():
            raise excess(snapshot)
        first[1:] = numbers_of(compute.less(before, after).cast("int8"))
    return first


def _kept(
    snapshot: Snapshot,
    cell: NDArray[Any],
    begin: NDArray[np.int64],
    size: NDArray[np.int64],
    start: NDArray[np.int64],
    limits: Limits,
) -> NDArray[np.bool_]:
    """Which rows are kept: all but some of the units that begin there, have so many rows, and draw these numbers.

    A unit with no more rows than it may keep, of groups and of rows in them, keeps all.
    """
    keep = np.ones(cell.size, bool)
    least = min(limit for limit in (limits.groups, limits.rows) if limit is not None)
    for rows in range(least + 1, _FEW + 1):
        those = np.flatnonzero(size == rows)
        if those.size:
            own = begin[those] + np.arange(rows)[:, None]
            keep[own] = _kept_of_few(snapshot, cell[own], start[those], limits)
    those = np.flatnonzero(size > max(least, _FEW))
    if those.size:
        many = size[those]
        own = np.arange(many.sum()) + np.repeat(begin[those] - (np.cumsum(many) - many), many)
        unit = np.repeat(np.arange(those.size), many)
        keep[own] = _kept_of_many(snapshot, unit, cell[own], start[those], limits)
    return keep


def _kept_of_few(snapshot: Snapshot, cell: NDArray[Any], start: NDArray[np.int64], limits: Limits) -> NDArray[np.bool_]:
    """Which rows are kept, of units in columns that have equally many rows: each is compared with each."""
    rows, units = cell.shape
    keep: NDArray[np.bool_] = np.ones(cell.shape, bool)
    if limits.cells is None:  # a row's place is that among all rows of its unit
        keep = (_turns(cast(int, limits.rows))[rows, start % rows] >> np.arange(rows)[:, None] & 1) > 0
        if limits.exceeded(1, int(keep.sum(axis=0).max())):
            raise excess(snapshot)
        return keep
    pairs = [(early, late) for late in range(rows) for early in range(late)]
    same = {(early, late): cell[early] == cell[late] for early, late in pairs}
    if limits.groups is not None:
        first, place = np.ones(cell.shape, bool), np.zeros(cell.shape, np.uint8)
        for early, late in pairs:
            first[late] &= ~same[early, late]
        for early, late in pairs:
            place[late] += first[early] & (cell[early] < cell[late])
            place[early] += first[late] & (cell[late] < cell[early])
        reached = first.sum(axis=0)
        rest = start // reached
        turned = np.zeros(units, np.int64) if limits.first else start - rest * reached
        keep = (_turns(limits.groups)[reached, turned] >> place & 1) > 0
        if not limits.first:
            start = np.where(reached > limits.groups, rest, start)
    if limits.rows is not None:
        held, position = np.ones(cell.shape, np.uint8), np.zeros(cell.shape, np.uint8)
        for early, late in pairs:
            position[late] += same[early, late]
            held[early] += same[early, late]
        held += position
        over = np.flatnonzero((held > limits.rows) & keep)
        among = held.ravel()[over]
        drawn = start[over % units] % among
        keep.ravel()[over] = _turns(limits.rows)[among, drawn] >> position.ravel()[over] & 1
    groups, held = keep.copy(), keep.astype(np.uint8)  # counted again, from what was kept
    for early, late in pairs:
        both = same[early, late] & keep[early] & keep[late]
        groups[late] &= ~both
        held[early] += both
        held[late] += both
    if limits.exceeded(int(groups.sum(axis=0).max()), int(held.max())):
        raise excess(snapshot)
    return keep


def _turns(limit: int) -> NDArray[np.uint8]:
    """For so many places and a start, the bits of those that are kept; as many as a byte has."""
    count, start, place = np.indices((_FEW + 1, _FEW, _FEW))
    kept = evenly(place, np.maximum(count, 1), start, limit) & (place < count)
    return np.asarray((kept << place).sum(axis=2).astype(np.uint8))


def _kept_of_many(
    snapshot: Snapshot, unit: NDArray[np.int64], cell: NDArray[Any], start: NDArray[np.int64], limits: Limits
) -> NDArray[np.bool_]:
    """Which rows are kept, of whole units one after another: their cells are sorted."""
    size, groups, most = len(unit), limits.groups, limits.rows
    key, order = (unit, None) if limits.cells is None else side_by_side(unit * limits.cells + cell)
    begins = begins_of(key)
    held = np.diff(begins, append=size)
    owner = key[begins] // (limits.cells or 1)
    reached = np.bincount(owner)
    counts = np.ones(begins.size, bool)
    if groups is not None:
        over = np.flatnonzero(reached[owner] > groups)
        its = owner[over]
        position = over - (np.cumsum(reached) - reached)[its]
        counts[over] = evenly(position, reached[its], np.int64(0) if limits.first else start[its], groups)
        if not limits.first:
            start = np.where(reached > groups, start // reached, start)
    keep = np.repeat(counts, held)
    if most is not None:
        over = np.flatnonzero((held > most) & counts)
        many = held[over]
        position = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        drawn = np.repeat(start[owner[over]] % many, many)
        keep[position + np.repeat(begins[over], many)] = evenly(position, np.repeat(many, many), drawn, most)
    rows = np.add.reduceat(keep, begins, dtype=np.int64)  # counted again, from what was kept
    if limits.exceeded(int(np.bincount(owner[rows > 0], minlength=1).max()), int(rows.max())):
        raise excess(snapshot)
    if order is not None:
        found = np.empty_like(keep)
        found[order] = keep
        return found
    return keep


def begins_of(key: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each run of equal keys begins."""
    return np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))


def side_by_side(key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Sorted keys with the place of each, equal ones in their order; no places where they are sorted already."""
    if (key[1:] >= key[:-1]).all():
        return key, None
    bits = key.size.bit_length()
    if int(key.max()).bit_length() + bits > _MOST_BITS:
        order = np.argsort(key, kind="stable")
        return key[order], order
    both = np.sort(key << bits | np.arange(key.size))  # several times as fast as sorting places by keys
    return both >> bits, both & ((1 << bits) - 1)
