"""Rows: what takes part, with the number of its cell and with its values as steps of their grids."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from discreet.core.errors import SourceError
from discreet.core.rows.expressions import forbidden_label, grid_step, identifier, label_code, missing
from discreet.core.rows.read import Dataset
from discreet.core.schema import Bounds, Contribution, Schema
from discreet.core.stability import check_unit_sum

if TYPE_CHECKING:
    import ibis.expr.types as ir

__all__ = ["Rows"]

_SHORT = 2**12


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of a data set, with their cells and grid steps, as the schema declares them.

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
            fields["u"] = identifier(table[unit.column], unit.column)
            complete.append(fields["u"].notnull())
        fields["c"] = self._cell(table)
        for position, name in enumerate(self.columns):
            bounds = self.schema.bounds(name)
            fields[f"v{position}"] = grid_step(table[name], bounds, name)
            if bounds.null_index() is None:
                complete.append(~missing(table[name], name))
        return (table.filter(complete) if complete else table).select(**fields)

    def _cell(self, table: ir.Table) -> Any:
        """Number of the cell of each row; null where a label drops the row."""
        import ibis

        cell = None
        for name in self.by:
            labels = self.schema.categories(name)
            code = label_code(table[name], labels, name)
            cell = code if cell is None else cell * labels.cells + code
        kind = "int16" if self.cells < _SHORT else "int64"  # short keys group faster
        return ibis.literal(0, type=kind) if cell is None else cell.cast(kind)

    def _refuse(self) -> None:
        """Check what the schema declares never to happen; one pass, only where something is declared so."""
        table, checks = self.dataset.table, {}
        unit = self.schema.unit
        if unit.column is not None and unit.nulls == "refuse":
            checks[unit.column] = identifier(table[unit.column], unit.column).isnull()
        for name in self.by:
            labels = self.schema.categories(name)
            if "refuse" in (labels.nulls, labels.unknown):
                checks[name] = forbidden_label(table[name], labels, name)
        for name in self.columns:
            if self.schema.bounds(name).nulls == "refuse":
                checks[name] = missing(table[name], name)
        if not checks:
            return
        bad = self.dataset.fetch(table.aggregate(**{f"n{i}": check.sum() for i, check in enumerate(checks.values())}))
        for position, name in enumerate(checks):
            if bad.column(position)[0].as_py():
                raise SourceError(
                    f"column {name!r}: holds values that are missing or not on the list, which the schema refuses. "
                    'Clean the data, or set its policy to "drop" or to a replacement; nothing was spent.'
                )
