"""Choice: which groups and rows of a unit count, where it has more than its limits.

A unit's groups, and its rows, are put in an order that only its own data decide. Of N it keeps k at even distances,
from a start that SHA-256 draws from the data set's salt and the unit's id. So each is equally likely to be kept, no
other unit has a part in the choice, and every engine makes the same one. Proofs: ``docs/proofs/bounding.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.errors import SourceError
from discreet.core.rows.expressions import TOO_MANY, quotient
from discreet.core.rows.snapshot import AT, UNIT, Snapshot, stored

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa


CELL = "c"
"""Column of cell numbers in what is kept."""
_SALT_DIGITS = 32
"""128 secret bits: with most ids the text then fits one block of SHA-256, which halves its cost."""
START_DIGITS = 12
"""A start among N is off uniform by at most N/2⁴⁸."""
_PIECE, _NARROW = 1 << 19, 6
"""Rows that are looked at together, where they have no more columns."""
_MOST_BITS = 62
_END, _START = "last", "start"
_STARTS = "starts"


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
    find = _in_pieces if snapshot.dataset.engine == "duckdb" else _by_query
    return find(snapshot, rows, columns, limits)


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
    most = snapshot.dataset.fetch(held.aggregate(most=held.n.max())).column("most")[0].as_py()
    if (most or 0) > limit:
        raise _excess(snapshot)


def _excess(snapshot: Snapshot) -> SourceError:
    return SourceError(
        f"engine = {snapshot.dataset.engine!r}: kept more of a unit than its limits allow, so its totals cannot be "
        "used. Check the engine with discreet.testing.check_source. Nothing was spent."
    )


# ---- By query: windows over the rows of each unit.


def _by_query(snapshot: Snapshot, rows: ir.Table, columns: Sequence[str], limits: Limits) -> ir.Table:
    import ibis

    scope = [UNIT] if limits.cells is None else [UNIT, CELL]
    most = TOO_MANY if limits.rows is None else limits.rows
    values = [rows[name] for name in snapshot.names.values()]
    own = ibis.window(group_by=[rows[name] for name in scope])
    ordered = ibis.window(group_by=[rows[name] for name in scope], order_by=values)
    rows = rows.mutate(held=rows.count().over(own), position=ibis.row_number().over(ordered))
    over = rows.held > most
    if limits.groups is not None:
        rows = rows.mutate(place=ibis.dense_rank().over(ibis.window(group_by=rows[UNIT], order_by=rows[CELL])))
        rows = rows.mutate(reached=rows.place.max().over(group_by=rows[UNIT]) + 1)
        over = (rows.held > most) | (rows.reached > limits.groups)
    rows = rows.mutate(start=over.ifelse(digits(snapshot, START_DIGITS, "k", rows[UNIT]), 0))
    if limits.groups is not None:
        rows = rows.filter(evenly(rows.place, rows.reached, 0 if limits.first else rows.start, limits.groups))
        if not limits.first:
            rest = (rows.reached > limits.groups).ifelse(quotient(rows.start, rows.reached), rows.start)
            rows = rows.mutate(start=rest)
    if limits.rows is not None:
        rows = rows.filter(evenly(rows.position, rows.held, rows.start, limits.rows))
    found = stored(snapshot.dataset, rows.select(*columns))
    held = found.group_by(scope).aggregate(n=found.count())
    units = held.group_by(UNIT).aggregate(groups=held.count(), rows=held.n.max())
    most_held = units.aggregate(groups=units.groups.max(), rows=units.rows.max())
    if limits.exceeded(*(column[0].as_py() or 0 for column in snapshot.dataset.fetch(most_held).columns)):
        raise _excess(snapshot)
    return found


# ---- In pieces: rows that are stored in the order of units and of their values need no sort.


def _in_pieces(snapshot: Snapshot, rows: ir.Table, columns: Sequence[str], limits: Limits) -> ir.Table:
    dataset = snapshot.dataset
    starts = dataset.asked_again(_starts(snapshot))
    found = stored(dataset, rows.select(*columns).limit(0))
    for piece, first in _pieces(snapshot, rows.select(AT, *columns)):
        places = piece.column(AT).to_numpy()
        near = starts(f"{AT}, {_START}", f"{AT} <= {places[-1]} AND {_END} >= {places[0]}")
        at, drawn = (column.to_numpy() for column in near.columns)
        # A unit with one row has no start, and takes another's, which it never needs.
        start = drawn[np.searchsorted(at, places[first], "right") - 1] if at.size else np.zeros(first.sum(), np.int64)
        cell = None if limits.cells is None else piece.column(CELL).to_numpy()
        keep = _kept(snapshot, first, cell, start, limits)
        dataset.append(found, piece.select(columns).filter(keep))
    return found


def _starts(snapshot: Snapshot) -> ir.Table:
    """The number that each unit with several rows draws, with the places of its first row and its last. Once."""
    import pyarrow as pa

    if _STARTS not in snapshot.kept:
        rows = snapshot.table.select(AT, UNIT)
        units = stored(snapshot.dataset, rows.mutate(**{_END: rows[AT]}).limit(0))
        for piece, first in _pieces(snapshot, rows):
            begins = np.flatnonzero(first)
            ends = np.append(begins[1:], len(first)) - 1
            begins, ends = begins[ends > begins], ends[ends > begins]
            several = piece.take(pa.array(begins))
            snapshot.dataset.append(units, several.append_column(_END, piece.column(AT).take(pa.array(ends))))
        number = {_START: digits(snapshot, START_DIGITS, "k", units[UNIT])}
        snapshot.kept[_STARTS] = stored(snapshot.dataset, units.select(AT, _END, **number))
    return snapshot.kept[_STARTS]


def _pieces(snapshot: Snapshot, rows: ir.Table) -> Iterator[tuple[pa.Table, NDArray[np.bool_]]]:
    """The rows, some whole units at a time, and which rows are the first of their unit."""
    import pyarrow as pa

    ask = snapshot.dataset.asked_again(rows)
    end = ask(f"max({AT}) AS {_END}", "true").column(0)[0].as_py()
    size = _PIECE * _NARROW // max(len(rows.columns), _NARROW)
    rest: list[Any] = []
    for low in range(0, 0 if end is None else end + 1, size):
        found = ask("*", f"{AT} BETWEEN {low} AND {low + size - 1}")
        piece = pa.concat_tables([*rest, found]).combine_chunks()
        first = _firsts(snapshot, piece)
        whole = len(piece) if low + size > end else int(np.flatnonzero(first)[-1]) if len(piece) else 0
        if whole:
            yield piece.slice(0, whole), first[:whole]
        rest = [piece.slice(whole)]


def _firsts(snapshot: Snapshot, piece: pa.Table) -> NDArray[np.bool_]:
    """Which rows are the first of their unit. Refuses rows in another order: a unit could be met twice."""
    from pyarrow import compute

    first = np.ones(len(piece), bool)
    if len(piece) > 1:
        units, places = piece.column(UNIT), piece.column(AT).to_numpy()
        before, after = units.slice(0, len(piece) - 1), units.slice(1)
        rising = compute.all(compute.less_equal(before, after), skip_nulls=False).as_py()
        if not rising or (places[1:] <= places[:-1]).any():
            raise _excess(snapshot)
        first[1:] = compute.less(before, after).to_numpy()
    return first


def _kept(
    snapshot: Snapshot, first: NDArray[np.bool_], cell: Any, start: NDArray[np.int64], limits: Limits
) -> NDArray[np.bool_]:
    """Which rows are kept, of whole units that each have a number."""
    size, groups, most = len(first), limits.groups, limits.rows
    unit = np.cumsum(first) - 1
    key, order = (unit, None) if limits.cells is None else _side_by_side(unit * limits.cells + cell)
    begins = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
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
        raise _excess(snapshot)
    if order is not None:
        found = np.empty_like(keep)
        found[order] = keep
        return found
    return keep


def _side_by_side(key: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Sorted keys with the place of each, equal ones in their order; no places where they are sorted already."""
    if (key[1:] >= key[:-1]).all():
        return key, None
    bits = key.size.bit_length()
    if int(key.max()).bit_length() + bits > _MOST_BITS:
        order = np.argsort(key, kind="stable")
        return key[order], order
    both = np.sort(key << bits | np.arange(key.size))  # several times as fast as sorting places by keys
    return both >> bits, both & ((1 << bits) - 1)
