"""Bounding: no unit contributes more than was declared, and every value lies on its public grid.

What a unit keeps is chosen by keys: SHA-256 of the data set's salt and the unit's own data, so the choice is
uniform, the same on every engine, and never depends on anybody else. Work is done in the order that keeps it cheap:
aggregate first, then key only the units over their limit, and subtract what they lose from the plain totals. All
sums are sums of whole numbers, so the subtraction is exact. Proofs: ``docs/proofs/bounding.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter, SourceError, WrongType
from discreet.schema import Bounds, Categories, Contribution, Schema
from discreet.sources import Dataset
from discreet.stability import check_unit_sum, unit_sum_steps

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["Bounded", "Totals"]

_KEY_DIGITS = 8
"""Hexadecimal digits that order a unit's cells; one SHA-256 serves eight cells."""
_KEYS_PER_HASH = 64 // _KEY_DIGITS
_MOST_BLOCKS = 4
_ROW_DIGITS = 12
"""Hexadecimal digits that order a unit's rows; DuckDB keeps twelve characters inline."""
_NUMBER = r"^\s*[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|inf|infinity|INF|Inf|Infinity)\s*$"
_SMALL = 2**22
_SHORT = 2**12
_LARGEST_EXACT_ID = 2**53


@dataclass(frozen=True)
class Totals:
    """Exact, private totals per cell: rows (or units) and sums of products of grid steps, as Python integers."""

    counts: NDArray[Any]
    sums: Mapping[tuple[str, ...], NDArray[Any]]

    def __repr__(self) -> str:
        return f"Totals(cells={self.counts.size}, sums={list(self.sums)}, values=‹private›)"


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """The rows of a data set, bounded as declared and ready to be added up on the engine.

    Parameters
    ----------
    dataset, schema
        The data and the public facts about it.
    by
        Columns of labels whose combinations are the cells; the last one varies fastest.
    columns
        Numeric columns whose grid steps are used.
    contribution
        Limits per unit, where the schema's own do not apply.
    unit_sum
        Where given, each unit counts once per cell, with the sum of its single numeric column clipped to these
        bounds (on the column's grid), instead of once per row.
    squares
        Whether sums of products of two columns will be asked for.
    salt
        Secret of the data set that makes the choice of rows unpredictable and lasting.
    """

    dataset: Dataset
    schema: Schema
    by: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    contribution: Contribution | None = None
    unit_sum: Bounds | None = None
    squares: bool = False
    salt: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        self.dataset.require(*self.by, *self.columns, self.schema.unit.column)
        self.limits  # noqa: B018  (validates)
        if self.unit_sum is not None:
            check_unit_sum(self.schema, self.columns, self.unit_sum)

    @cached_property
    def cells(self) -> int:
        """Number of cells."""
        return self.schema.cells(self.by)

    @cached_property
    def limits(self) -> Contribution:
        """Limits in force."""
        return self.schema.contribution(self.contribution)

    @property
    def _by_row(self) -> bool:
        return self.schema.unit.column is None

    # ---- rows: policies, codes and grid steps -------------------------------------------------------------------

    @cached_property
    def _rows(self) -> ir.Table:
        """Unit ``u``, cell ``c`` and grid steps ``v0, v1, …`` of the rows that take part.

        Filters are on the columns as they are, so that nothing is computed twice; a row whose labels drop it keeps a
        null cell, which falls out when cells are counted.
        """
        self._refuse()
        return self._encoded(self.dataset.table)

    def _encoded(self, table: ir.Table) -> ir.Table:
        unit = self.schema.unit
        fields, complete = {}, []
        if unit.column is not None:
            fields["u"] = _identifier(table[unit.column], unit.column)
            complete.append(fields["u"].notnull())
        fields["c"] = self._cell(table)
        for position, name in enumerate(self.columns):
            bounds = self.schema.bounds(name)
            fields[f"v{position}"] = _step(table[name], bounds, name)
            if bounds.null_index() is None:
                complete.append(~_missing(table[name], name))
        return (table.filter(complete) if complete else table).select(**fields)

    def _cell(self, table: ir.Table) -> Any:
        """Number of the cell of each row; null where a label drops the row."""
        import ibis

        cell = None
        for name in self.by:
            labels = self.schema.categories(name)
            code = _code(table[name], labels, name)
            cell = code if cell is None else cell * labels.cells + code
        kind = "int16" if self.cells < _SHORT else "int64"  # short keys group faster
        return ibis.literal(0, type=kind) if cell is None else cell.cast(kind)

    def _refuse(self) -> None:
        """Check what the schema declares never to happen; one pass, only where something is declared so."""
        table, checks = self.dataset.table, {}
        unit = self.schema.unit
        if unit.column is not None and unit.nulls == "refuse":
            checks[unit.column] = _identifier(table[unit.column], unit.column).isnull()
        for name in self.by:
            labels = self.schema.categories(name)
            if "refuse" in (labels.nulls, labels.unknown):
                checks[name] = _forbidden_label(table[name], labels, name)
        for name in self.columns:
            if self.schema.bounds(name).nulls == "refuse":
                checks[name] = _missing(table[name], name)
        if not checks:
            return
        bad = self.dataset.fetch(table.aggregate(**{f"n{i}": check.sum() for i, check in enumerate(checks.values())}))
        for position, name in enumerate(checks):
            if bad.column(position)[0].as_py():
                raise SourceError(
                    f"column {name!r}: holds values that are missing or not on the list, which the schema refuses. "
                    'Clean the data, or set its policy to "drop" or to a replacement; nothing was spent.'
                )

    # ---- choosing what a unit keeps -----------------------------------------------------------------------------

    def _hash(self, *parts: Any) -> Any:
        """SHA-256 over one canonical string; the unit comes last, so no two strings coincide."""
        import ibis

        text = ibis.literal(self.salt)
        for part in parts:
            text = text.concat("|", part.cast("string"))
        return text.hexdigest("sha256")

    @cached_property
    def _pairs(self) -> ir.Table:
        """One row per unit and cell: number of rows and sums, computed once."""
        rows = self._rows
        sums = {f"s{i}": _total(rows[f"v{i}"], self._reach(name)) for i, name in enumerate(self.columns)}
        if self.squares and self.unit_sum is None:
            for i, j in _positions(len(self.columns)):
                reach = self._reach(self.columns[i]) * self._reach(self.columns[j])
                sums[f"p{i}_{j}"] = _product_total(rows[f"v{i}"], rows[f"v{j}"], reach)
        pairs = rows.group_by(["u", "c"]).aggregate(n=rows.count(), **sums)
        return self.dataset.keep(pairs.filter(pairs.c.notnull()))

    def _reach(self, name: str) -> int:
        bounds = self.schema.bounds(name)
        return max(abs(bounds.lowest), abs(bounds.highest))

    @cached_property
    def _lost_pairs(self) -> ir.Table | None:
        """Pairs of unit and cell beyond the limit on groups."""
        import ibis

        groups = self.limits.groups
        if groups is None or groups >= self.cells:
            return None
        pairs = self._pairs
        over = pairs.group_by("u").aggregate(groups=pairs.count())
        over = over.filter(over.groups > groups).select("u")
        blocks = -(-self.cells // _KEYS_PER_HASH)
        if blocks <= _MOST_BLOCKS:  # few hashes per unit serve all of its cells
            hashes = {f"h{block}": self._hash(ibis.literal(block), over.u) for block in range(blocks)}
            some = pairs.join(over.mutate(**hashes), "u")
            digits = ibis.cases(
                *((some.c < (block + 1) * _KEYS_PER_HASH, some[f"h{block}"]) for block in range(blocks)), else_=""
            )
        else:
            some = pairs.semi_join(over, "u")
            digits = self._hash(some.c // _KEYS_PER_HASH, some.u)
        keyed = some.mutate(key=digits.substr(some.c % _KEYS_PER_HASH * _KEY_DIGITS, _KEY_DIGITS))
        within = ibis.window(group_by=keyed.u, order_by=[keyed.key, keyed.c])
        ranked = keyed.mutate(rank=ibis.row_number().over(within))
        return self.dataset.keep(ranked.filter(ranked["rank"] >= groups).select(*pairs.columns))

    @cached_property
    def _lost_rows(self) -> ir.Table | None:
        """Rows beyond the limit on rows, among the pairs that are kept."""
        import ibis

        if self.unit_sum is not None:
            return None
        scope = ["u"] if self.limits.rows is None else ["u", "c"]
        limit = self.limits.most_rows_in_a_group()
        rows = self._over_rows(scope, limit)
        names = [name for name in rows.columns if name.startswith("v")]
        same = ibis.window(group_by=[rows.u, rows.c, *(rows[name] for name in names)], order_by=rows.c)
        numbered = rows.mutate(copy=ibis.row_number().over(same))
        text = self._hash(numbered.c, *(numbered[name] for name in names), numbered["copy"], numbered.u)
        keyed = numbered.mutate(key=text.left(_ROW_DIGITS))
        order = [keyed[name] for name in ("key", "c", *names, "copy")]
        within = ibis.window(group_by=[keyed[name] for name in scope], order_by=order)
        ranked = keyed.mutate(rank=ibis.row_number().over(within))
        return self.dataset.keep(ranked.filter(ranked["rank"] >= limit).select(*rows.columns))

    def _over_rows(self, scope: list[str], limit: int) -> ir.Table:
        """All rows of those units (or pairs of unit and cell) that hold more rows than the limit."""
        pairs = self._pairs
        if scope == ["u"]:
            held = pairs.group_by("u").aggregate(held=pairs.n.sum())
            rows = self._rows.semi_join(held.filter(held.held > limit).select("u"), "u")
            return rows.filter(rows.c.notnull())
        over = pairs.filter(pairs.n > limit).select("u", "c")
        if self._lost_pairs is not None:
            over = over.anti_join(self._lost_pairs, scope)
        # Few units are over: leave out the others before their labels and numbers are read again.
        name = str(self.schema.unit.column)
        table, units = self.dataset.table, over.select("u").distinct()
        some = table.semi_join(units, [_identifier(table[name], name) == units.u])
        return self._encoded(some).semi_join(over, scope)

    # ---- adding up ----------------------------------------------------------------------------------------------

    def totals(self, products: Sequence[tuple[str, ...]] = ()) -> Totals:
        """Rows per cell, and for each product of columns the sum over rows of the product of grid steps.

        Where ``unit_sum`` is set a unit takes the place of a row, and its clipped sum that of the grid step.
        """
        wanted = [tuple(product) for product in products]
        for product in wanted:
            if not 1 <= len(product) <= 1 + self.squares or not set(product) <= set(self.columns):
                raise InvalidParameter("products", product, f"must be one or two of {self.columns}", "Check the names.")
        if self._by_row:
            return self._collect([(1, self._from_rows(self._rows, wanted))], wanted)
        if self.unit_sum is not None:
            return self._unit_totals(wanted)
        parts = [(1, self._from_pairs(self._pairs, wanted))]
        if self._lost_pairs is not None:
            parts.append((-1, self._from_pairs(self._lost_pairs, wanted)))
        if self._lost_rows is not None:
            parts.append((-1, self._from_rows(self._lost_rows, wanted)))
        return self._collect(parts, wanted)

    def _unit_totals(self, wanted: list[tuple[str, ...]]) -> Totals:
        parts = [(1, self._from_unit_values(self._pairs, wanted))]
        if self._lost_pairs is not None:
            parts.append((-1, self._from_unit_values(self._lost_pairs, wanted)))
        return self._collect(parts, wanted)

    def _unit_values(self, pairs: ir.Table) -> ir.Table:
        """One clipped value ``v0`` per unit and cell."""
        low, high = unit_sum_steps(self.schema, self.columns, self.unit_sum)
        return pairs.select(c=pairs.c, v0=_clipped(pairs.s0, low, high))

    def _from_unit_values(self, pairs: ir.Table, wanted: list[tuple[str, ...]]) -> ir.Table:
        values = self._unit_values(pairs)
        low, high = unit_sum_steps(self.schema, self.columns, self.unit_sum)
        reach = max(abs(low), abs(high))
        sums = {
            f"t{i}": _total(values.v0, reach) if len(one) == 1 else _product_total(values.v0, values.v0, reach**2)
            for i, one in enumerate(wanted)
        }
        return values.group_by("c").aggregate(n=values.count(), **sums)

    def _from_rows(self, rows: ir.Table, wanted: list[tuple[str, ...]]) -> ir.Table:
        sums = {}
        for i, product in enumerate(wanted):
            steps = [rows[f"v{self.columns.index(name)}"] for name in product]
            reach = math.prod(self._reach(name) for name in product)
            sums[f"t{i}"] = _total(steps[0], reach) if len(steps) == 1 else _product_total(steps[0], steps[1], reach)
        return rows.group_by("c").aggregate(n=rows.count(), **sums)

    def _from_pairs(self, pairs: ir.Table, wanted: list[tuple[str, ...]]) -> ir.Table:
        sums = {}
        for i, product in enumerate(wanted):
            positions = sorted(self.columns.index(name) for name in product)
            column = f"s{positions[0]}" if len(positions) == 1 else f"p{positions[0]}_{positions[1]}"
            sums[f"t{i}"] = pairs[column].cast("decimal(38, 0)").sum()
        return pairs.group_by("c").aggregate(n=pairs.n.sum(), **sums)

    def _collect(self, parts: list[tuple[int, ir.Table]], wanted: list[tuple[str, ...]]) -> Totals:
        counts = np.zeros(self.cells, dtype=object)
        sums = {product: np.zeros(self.cells, dtype=object) for product in wanted}
        for sign, part in parts:
            fetched = self.dataset.fetch(part).to_pydict()
            for row, cell in enumerate(fetched["c"]):
                if cell is None:
                    continue
                counts[cell] += sign * int(fetched["n"][row])
                for i, product in enumerate(wanted):
                    sums[product][cell] += sign * int(fetched[f"t{i}"][row])
        return Totals(counts, sums)

    def histograms(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """For every cell, the grid steps of the single numeric column that occur and how often, in order."""
        if len(self.columns) != 1:
            raise InvalidParameter("columns", self.columns, "must be exactly one numeric column", "Name one column.")
        parts = [(1, self._rows)]
        if not self._by_row and self.unit_sum is not None:
            parts = [(1, self._unit_values(self._pairs))]
            if self._lost_pairs is not None:
                parts.append((-1, self._unit_values(self._lost_pairs)))
        elif not self._by_row:
            if self._lost_pairs is not None:
                parts.append((-1, self._rows.semi_join(self._lost_pairs, ["u", "c"])))
            if self._lost_rows is not None:
                parts.append((-1, self._lost_rows))
        found: list[dict[int, int]] = [{} for _ in range(self.cells)]
        for sign, part in parts:
            whole = part.filter(part.c.notnull())
            grouped = self.dataset.fetch(whole.group_by(["c", "v0"]).aggregate(n=whole.count()))
            for cell, step, rows in zip(*(grouped.column(name).to_numpy() for name in ("c", "v0", "n")), strict=True):
                counts = found[int(cell)]
                counts[int(step)] = counts.get(int(step), 0) + sign * int(rows)
        return [_sorted(counts) for counts in found]

    def matrix(self) -> NDArray[np.float64]:
        """The clipped values of the numeric columns, one row per row of the data, brought here. Private."""
        if not self._by_row:
            raise InvalidParameter(
                "unit", self.schema.unit.name, "rows can only be taken one by one where a row is the unit",
                "Ask of data with one row per unit, and leave the id column out of the schema.",
            )  # fmt: skip
        fetched = self.dataset.fetch(self._rows.select(*(f"v{i}" for i in range(len(self.columns)))))
        grids = [self.schema.bounds(name).grid for name in self.columns]
        steps = [fetched.column(f"v{i}").to_numpy().astype(float) for i in range(len(self.columns))]
        return np.column_stack([step * grid for step, grid in zip(steps, grids, strict=True)])

    def units(self) -> int:
        """Number of units (rows, where rows are the units); public under replace-one neighbours only."""
        table = self.dataset.table
        if self._by_row:
            count = table.aggregate(n=table.count())
        else:
            count = table.aggregate(n=_identifier(table[self.schema.unit.column], "").nunique())
        return int(self.dataset.fetch(count).column("n")[0].as_py())


def _positions(columns: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(columns) for j in range(i, columns)]


def _sorted(counts: dict[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    steps = sorted(step for step, rows in counts.items() if rows)
    return np.array(steps, dtype=np.int64), np.array([counts[step] for step in steps], dtype=np.int64)


# ---- expressions -------------------------------------------------------------------------------------------------


def _identifier(column: Any, name: str) -> Any:
    """The id as a whole number or text; what has no canonical text is refused by its type."""
    kind = column.type()
    if kind.is_integer() or kind.is_string():
        return column
    if kind.is_floating():  # frames hold whole-number ids with gaps as floats
        whole = (column == column.floor()) & (column.abs() <= _LARGEST_EXACT_ID)
        return whole.ifelse(column, None).cast("int64")
    if kind.is_uuid() or kind.is_date():
        return column.cast("string")
    raise WrongType("unit", name, f"an id column of type {kind} has no canonical text", "Cast it to text.")


def _text(column: Any, labels: Categories, name: str) -> Any:
    """The label of a row as text, written the same way on every engine."""
    kind, first = column.type(), labels.labels[0]
    if kind.is_floating() and isinstance(first, int):
        return _identifier(column, name).cast("string")
    if not (kind.is_string() or kind.is_integer() or kind.is_boolean()):
        raise WrongType("column", name, f"labels of type {kind} have no canonical text", "Cast it to text.")
    if kind.is_boolean() and not isinstance(first, bool):
        return column.cast("int64").cast("string")
    text = column.cast("string")
    return text.lower() if isinstance(first, bool) else text


def _label_text(label: Any) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)


def _code(column: Any, labels: Categories, name: str) -> Any:
    """Position of a row's label on the list; null where the row is to be dropped."""
    import ibis

    text = _text(column, labels, name)
    unknown, missing = labels.replacement("unknown"), labels.replacement("nulls")
    branches = [(text == _label_text(label), code) for code, label in enumerate(labels.labels)]
    branches.append((text.isnull(), ibis.literal(missing, type="int64")))
    return ibis.cases(*branches, else_=ibis.literal(unknown, type="int64"))


def _forbidden_label(column: Any, labels: Categories, name: str) -> Any:
    import ibis

    text = _text(column, labels, name)
    forbidden = ibis.literal(False)
    if labels.nulls == "refuse":
        forbidden = forbidden | text.isnull()
    if labels.unknown == "refuse":
        listed = text.isin([_label_text(label) for label in labels.labels])
        forbidden = forbidden | (text.notnull() & ~listed)
    return forbidden


def _missing(column: Any, name: str) -> Any:
    """Whether a value is missing, NaN, or text that is no number."""
    kind = column.type()
    if kind.is_string():
        return column.isnull() | ~column.re_search(_NUMBER)
    if kind.is_floating():
        return column.isnull() | column.isnan()
    if kind.is_numeric() or kind.is_boolean():
        return column.isnull()
    raise WrongType("column", name, f"is of type {kind}, not a number", "Declare categories, or convert it.")


def _number(column: Any) -> Any:
    """The value as a double, where it is not missing."""
    kind = column.type()
    if kind.is_string():
        return column.strip().try_cast("float64")
    if kind.is_boolean():
        return column.cast("int64").cast("float64")
    return column if kind.is_float64() else column.cast("float64")


def _step(column: Any, bounds: Bounds, name: str) -> Any:
    """Grid step of the clipped value. Clipping first means that no cast can overflow."""
    import ibis

    value = _number(column)
    return ibis.cases(
        (_missing(column, name), ibis.literal(bounds.null_index(), type="int64")),
        (value <= bounds.low, ibis.literal(bounds.lowest, type="int64")),
        (value >= bounds.high, ibis.literal(bounds.highest, type="int64")),
        else_=(value / bounds.grid + 0.5).floor().cast("int64"),
    )


def _clipped(sums: Any, low: int, high: int) -> Any:
    import ibis

    return ibis.cases(
        (sums <= low, ibis.literal(low, type="int64")),
        (sums >= high, ibis.literal(high, type="int64")),
        else_=sums.cast("int64"),
    )


def _total(steps: Any, reach: int) -> Any:
    """Sum that cannot overflow: up to 2⁴⁰ rows of steps within ``reach``."""
    return steps.sum() if reach <= _SMALL else steps.cast("decimal(38, 0)").sum()


def _product_total(first: Any, second: Any, reach: int) -> Any:
    if reach <= _SMALL:
        return (first * second).sum()
    if reach <= 2**62:
        return (first * second).cast("decimal(38, 0)").sum()
    return (first.cast("decimal(19, 0)") * second.cast("decimal(19, 0)")).cast("decimal(38, 0)").sum()
